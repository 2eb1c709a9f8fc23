"""Does the simulator count what a measured H200 counts, and take as long? Run with `pytest -m silicon -s`."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

import pytest

from sim.compilation import ensure_compiled
from tests.silicon.cases import NOT_COVERED, WORKLOADS, Case, all_cases, covered_cases
from tests.silicon.compare import DEVIATIONS, RULES, Comparison, compare, mean_error, table

pytestmark = pytest.mark.silicon

MEAN_CYCLE_ERROR = 0.25


@pytest.fixture(scope="module")
def comparisons() -> list[Comparison]:
    """Every covered launch, simulated in as many processes as there are cores; prints the table."""
    cases = covered_cases()
    ensure_compiled()
    largest_first = sorted(cases, key=lambda case: -case.counters["smsp__inst_executed.sum"])
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        done = {c.case.id: c for c in pool.map(compare, largest_first)}
    ordered = [done[case.id] for case in cases]
    print("\n" + table(ordered))
    left_out = [case.label for case in all_cases() if case.name in WORKLOADS and case not in cases]
    print(f"\nnot simulated, as they take long: {'; '.join(left_out)}")
    return ordered


def test_every_kernel_of_the_card_is_covered_or_explained() -> None:
    names = {case.name for case in all_cases()}
    assert names == WORKLOADS.keys() | NOT_COVERED.keys()


def test_counters_that_the_access_pattern_decides_equal_the_cards(comparisons: list[Comparison]) -> None:
    differing = {(c.case.name, counter) for c in comparisons for counter in c.differing()}
    new = sorted(differing - DEVIATIONS.keys())
    assert not new, f"differ from the card and are not in DEVIATIONS: {new}"


def test_documented_deviations_still_deviate(comparisons: list[Comparison]) -> None:
    differing = {(c.case.name, counter) for c in comparisons for counter in c.differing()}
    closed = sorted(DEVIATIONS.keys() - differing)
    assert not closed, f"no longer differ; delete from DEVIATIONS: {closed}"


def test_cycles_are_near_the_cards_on_average(comparisons: list[Comparison]) -> None:
    assert mean_error(comparisons) <= MEAN_CYCLE_ERROR, table(comparisons)


def test_deviations_name_real_counters_and_kernels() -> None:
    assert {counter for _, counter in DEVIATIONS} <= RULES.keys()
    assert {kernel for kernel, _ in DEVIATIONS} <= WORKLOADS.keys()


def test_a_case_knows_its_workload() -> None:
    case: Case = next(case for case in all_cases() if case.label == "copy1(n=65536,block=256)")
    launch = case.launch()
    assert (launch.blocks, launch.threads_per_block) == (256, 256)
