"""Blocks of fixed work: right results, and the waves that registers and shared memory leave."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import sim
from sim.launch import Launch
from sim.report import Report
from workloads import waves

Checked = Callable[[Launch], Report]


@pytest.mark.parametrize(("grid", "block"), [(1, 32), (5, 96)])
def test_spin_is_right(checked: Checked, grid: int, block: int) -> None:
    checked(waves.spin(grid, block, iters=50))


@pytest.mark.parametrize("live", [1, 8, 64])
def test_live_values_are_right(checked: Checked, live: int) -> None:
    checked(waves.live_values(2, live, block=64, iters=5))


def test_more_live_values_take_more_registers() -> None:
    few, many = (waves.live_values(1, live).program.registers for live in (8, 64))
    assert many >= few + 50


def test_one_sm_with_two_blocks_that_fill_its_issue_slots_takes_twice_as_long() -> None:
    cycles = [sim.simulate(waves.spin(grid, 1024, iters=2000), gpu="h200").cycles for grid in (132, 133)]
    assert cycles[1] / cycles[0] == pytest.approx(43469 / 23852, rel=0.1)
