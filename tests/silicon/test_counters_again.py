"""How far does the card agree with itself? Run with `pytest -m silicon -s`; the suite lies beside the repository."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from validation import suite
from validation.compare import DIFFERS, RULES

pytestmark = pytest.mark.silicon


@pytest.fixture(scope="module")
def differing() -> dict[str, set[str]]:
    """By counter: the launches of which a later run breaks the rule that the model is held to."""
    first = {case.label: suite.card()[case.id] for case in suite.all_cases()}
    found: dict[str, set[str]] = {rule.counter: set() for rule in RULES}
    with (Path(__file__).parent / "counters_again.csv").open() as file:
        for row in csv.DictReader(file):
            again = {rule.counter: float(row[rule.counter]) for rule in RULES}
            for rule in RULES:
                if rule.verdict(again, first[row["launch"]]) == DIFFERS:
                    found[rule.counter].add(row["launch"])
    for counter, launches in found.items():
        print(f"{counter:60} {len(launches)}")
    print(f"any counter: {len(set().union(*found.values()))} of {len(first)} launches")
    return found


def test_the_card_executes_asks_and_reads_the_same_again(differing: dict[str, set[str]]) -> None:
    for counter, launches in differing.items():
        if counter.startswith(("smsp__", "l1tex__t_requests", "l1tex__t_sectors_pipe_lsu_mem_global_op_st")):
            assert not launches, counter
    assert not differing["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    assert not differing["dram__sectors_read.sum"]


def test_the_card_loses_other_passes_of_shared_memory_each_time(differing: dict[str, set[str]]) -> None:
    for op in ("ld", "st"):
        assert len(differing[f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum"]) > 20
