"""Programs on simulated GPUs, for tests of the timing core: launch them, and read raw counts back."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim import engine as engines
from sim.counters import Inst, LaunchResult, Stall
from sim.device import Device
from sim.errors import KernelError
from sim.launch import Launch
from sim.profile import Profile, load_profile
from sim.program import Program

#: Two SMs with an H200's timing, so that a launch takes no time to set up.
SMALL = {"gpu.sm_count": 2, "gpu.gpc_count": 1}


def small(gpu: str = "h200", **changes: Any) -> Profile:
    """A profile of two SMs; `changes` with `__` for the dot."""
    return load_profile(gpu).override(SMALL | {key.replace("__", "."): value for key, value in changes.items()})


class Recorded(Device):
    """A device that keeps the raw counts of its last launch in `result` and its arrays in `engine`."""

    result: LaunchResult
    engine: engines.Engine

    def _result(self, engine: engines.Engine, begin: int, end: int, order: str) -> LaunchResult:
        self.engine = engine
        self.result = super()._result(engine, begin, end, order)
        return self.result


def run(
    work: Launch | Program,
    grid: Any = None,
    block: Any = None,
    args: Any = (),
    gpu: str | Profile = "toy",
    **options: Any,
) -> tuple[LaunchResult, dict[str, np.ndarray]]:
    """Raw counts and output arrays of one launch on a fresh device."""
    device = Recorded(gpu, threads=options.pop("threads", 1))
    report = device.launch(work, grid, block, tuple(args), **options)
    return device.result, dict(report.outputs)


def error(work: Any, *where: Any, gpu: str | Profile = "toy", **options: Any) -> str:
    """The message of the `KernelError` that a launch ends with."""
    try:
        Device(gpu).launch(work, *where, **options)
    except KernelError as problem:
        return str(problem)
    raise AssertionError("the launch ended without an error")


def stalls(result: LaunchResult) -> dict[str, int]:
    """Warp-cycles by reason, those that are not 0."""
    return {reason.name: int(n) for reason, n in zip(Stall, result.stall.sum(axis=0), strict=True) if n}


def executed(result: LaunchResult) -> list[int]:
    """How often each instruction was executed."""
    return [int(n) for n in result.inst[:, Inst.EXECUTED]]
