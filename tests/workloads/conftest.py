"""What the workloads' tests share: simulate a launch on two SMs and check its result."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import sim
from sim.launch import Launch
from sim.profile import load_profile
from sim.report import Report

Checked = Callable[[Launch], Report]


@pytest.fixture(scope="session")
def checked() -> Checked:
    """Simulates on two SMs of an H200 and compares the arrays with NumPy's."""
    gpu = load_profile("h200").override({"gpu.sm_count": 2, "gpu.gpc_count": 1})

    def run(launch: Launch) -> Report:
        report = sim.simulate(launch, gpu=gpu)
        launch.check(report)
        return report

    return run
