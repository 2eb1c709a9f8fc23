"""Kernels that no constant of the model has seen, from the machine code that a card was measured with.

`pytest -m silicon -s tests/silicon/test_held_out.py` prints the table.
"""

from __future__ import annotations

import csv
from functools import cache

import pytest

import sim
from sim.launch import Launch, dim3
from tests.silicon.held_out.cases import LISTING, RESULTS, Case, all_cases
from validation.compare import DIFFERS, METRICS, RULES, top_stall

pytestmark = pytest.mark.silicon

MEAN_ERROR, FARTHEST = 0.12, 0.40  #: of cycles
CASES = all_cases()

#: (kernel, counter) that differ from the card, with the reason. Closing one means deleting its line.
DEVIATIONS: dict[tuple[str, str], str] = {}


@cache
def card() -> dict[str, dict[str, float]]:
    """What the card counted, by launch."""
    with RESULTS.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {row["launch"]: {name: float(value) for name, value in row.items() if name != "launch"} for row in rows}


@cache
def simulated(case: Case) -> dict[str, float]:
    """The same launch, simulated: cycles and `METRICS`."""
    shared = {c.kernel: int(card()[c.label]["launch__shared_mem_per_block_static"]) for c in CASES}
    program = sim.load_sass(LISTING, shared_static_bytes=shared)[case.kernel]
    grid, block = dim3(case.grid, "grid"), dim3(case.block, "block")
    report = sim.simulate(Launch(program, grid, block, case.arguments(), name=case.label), gpu="h200", detail="full")
    return {"cycles": report.cycles} | {name: float(report[name]) for name in METRICS}


def error(case: Case) -> float:
    return simulated(case)["cycles"] / card()[case.label]["cycles_median"] - 1


def differing(case: Case) -> list[str]:
    ours, theirs = simulated(case), card()[case.label]
    return [rule.counter for rule in RULES if rule.verdict(ours, theirs) == DIFFERS]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_a_kernel_that_the_model_has_not_seen_counts_and_takes_what_it_does_on_the_card(case):
    new = [counter for counter in differing(case) if (case.kernel, counter) not in DEVIATIONS]
    assert (new, abs(error(case)) <= FARTHEST) == ([], True), f"cycles: {error(case):+.1%}"


def test_mean_error_of_kernels_that_the_model_has_not_seen():
    for case in CASES:
        ours, theirs = simulated(case), card()[case.label]
        stalls = " ".join(dict.fromkeys((top_stall(theirs), top_stall(ours))))
        print(f"{case.label:<40}{theirs['cycles_median']:>9.0f}{ours['cycles']:>9.0f}{error(case):>+8.1%}  {stalls}"
              f"  {', '.join(differing(case))}")  # fmt: skip
    errors = [abs(error(case)) for case in CASES]
    print(f"mean {sum(errors) / len(errors):.1%}")
    assert sum(errors) / len(errors) <= MEAN_ERROR
