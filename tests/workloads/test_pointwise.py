"""Pointwise workloads: right results at any size, and what fusing and recomputing save."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sim.launch import Launch
from sim.report import Report
from workloads import pointwise

Checked = Callable[[Launch], Report]
SIZES = [1, 256, 777]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("make", [pointwise.saxpy, pointwise.add, pointwise.gelu])
def test_results_are_numpys(checked: Checked, make: Callable[[int], Launch], n: int) -> None:
    checked(make(n))


@pytest.mark.parametrize(("dtype", "branch"), [("bf16", False), ("f32", False), ("f32", True)])
@pytest.mark.parametrize("n", SIZES)
def test_relu_keeps_positives(checked: Checked, n: int, dtype: str, branch: bool) -> None:
    checked(pointwise.relu(n, dtype, branch))


@pytest.mark.parametrize("step", pointwise.CHAIN_STEPS)
def test_every_step_of_the_chain_is_right(checked: Checked, step: str) -> None:
    checked(pointwise.chain(777, step))


def test_the_fused_chain_moves_two_words_an_element_and_the_unfused_eleven(checked: Checked) -> None:
    def sectors(launch: Launch) -> float:
        report = checked(launch)
        return sum(report[f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum"] for op in ("ld", "st"))

    n = 1024
    assert sectors(pointwise.chain(n, "fused")) == 2 * n / 8
    assert sum(sectors(launch) for launch in pointwise.unfused_chain(n)) == 11 * n / 8


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_sigmoids_and_their_slopes_are_right(checked: Checked, direction: str, stored: bool) -> None:
    checked(pointwise.sigmoids(777, direction, stored))


def test_recomputing_trades_traffic_for_instructions(checked: Checked) -> None:
    load, recompute = (checked(pointwise.sigmoids(1024, "backward", stored)) for stored in (True, False))
    read = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
    assert recompute[read] == load[read] / 2
    assert recompute["smsp__inst_executed.sum"] > load["smsp__inst_executed.sum"]


def test_a_branch_needs_float32() -> None:
    with pytest.raises(ValueError, match="branch=True with dtype=.bf16."):
        pointwise.relu(32, "bf16", branch=True)
