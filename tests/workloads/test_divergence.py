"""Divergence workloads: right results, and how many threads a warp instruction has left."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sim.launch import Launch
from sim.report import Report
from workloads import divergence

Checked = Callable[[Launch], Report]
EXECUTED = "smsp__inst_executed.sum"
THREADS = "smsp__thread_inst_executed_per_inst_executed.ratio"


@pytest.mark.parametrize("k", [0, 1, 16, 32])
@pytest.mark.parametrize("n", [31, 600])
def test_lane_if_is_right_for_any_split(checked: Checked, n: int, k: int) -> None:
    checked(divergence.lane_if(n, k, iters=9))


def test_a_split_warp_executes_both_loops(checked: Checked) -> None:
    one, both = (checked(divergence.lane_if(256, k, iters=400)) for k in (0, 16))
    assert both[EXECUTED] == pytest.approx(2 * one[EXECUTED], rel=0.05)
    assert one[THREADS] == 32
    assert both[THREADS] == pytest.approx(16, rel=0.05)


@pytest.mark.parametrize("ways", [1, 3, 32])
def test_switch_is_right_for_any_number_of_ways(checked: Checked, ways: int) -> None:
    checked(divergence.switch(300, ways, iters=7))


def test_each_way_of_a_switch_is_executed_in_turn(checked: Checked) -> None:
    executed = [checked(divergence.switch(256, ways, iters=200))[EXECUTED] for ways in (1, 2, 4, 8)]
    assert [count / executed[0] for count in executed[1:]] == pytest.approx([2, 4, 8], rel=0.15)


def test_whole_warps_that_differ_do_not_diverge(checked: Checked) -> None:
    assert checked(divergence.per_warp(512, iters=50))[THREADS] == 32


@pytest.mark.parametrize("n", [1, 500])
def test_trip_counts_are_each_threads_own(checked: Checked, n: int) -> None:
    checked(divergence.trip_counts(n, below=20))


@pytest.mark.parametrize("n", [3, 32, 300])
def test_the_lectures_branch_stores_every_letter(checked: Checked, n: int) -> None:
    checked(divergence.lecture(n))


@pytest.mark.parametrize(
    ("make", "message"),
    [(lambda: divergence.lane_if(32, 33), "k=33: a warp has lanes"), (lambda: divergence.switch(32, 33), "32 cases")],
)
def test_more_than_a_warp_has_is_refused(make: Callable[[], Launch], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
