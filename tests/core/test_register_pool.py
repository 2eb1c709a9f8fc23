"""Registers that warps give back and take (setmaxnreg): when the others have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sim


@sim.kernel(registers=64)
def pass_registers(k: Any, clocks: Any) -> None:
    before = k.clock()
    with k.if_(k.warp_id < 4):
        k.set_max_registers(24)
    with k.else_():
        k.set_max_registers(104)
    after = k.clock()
    with k.if_(k.lane_id == 0):
        clocks[2 * k.warp_id] = before
        clocks[2 * k.warp_id + 1] = after


def clocks_with(release_cycles: int) -> np.ndarray:
    """Of each warp, before and after: those that give first."""
    gpu = sim.load_profile("h200").override({"wgmma.release_cycles": release_cycles})
    report = sim.simulate(pass_registers.launch(1, 256, (sim.zeros(16, np.int32),)), gpu=gpu)
    clocks = report.outputs["clocks"].reshape(8, 2).astype(int)
    return clocks - clocks.min()


def test_who_gives_registers_waits_until_others_can_have_them() -> None:
    soon, late = clocks_with(63), clocks_with(163)
    np.testing.assert_array_equal(late[:, 0], soon[:, 0])
    assert (late[:, 1] - soon[:, 1]).tolist() == pytest.approx([100] * 8, abs=3)
    assert soon[4:, 1].min() - soon[:4, 0].min() > 63
