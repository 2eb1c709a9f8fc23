"""Reports to export: one with an SM recorded over time, one without."""

from __future__ import annotations

import pytest

import sim
from sim.report import Report
from workloads import matmul, tensor


@pytest.fixture(scope="session")
def tiled(compiled: None) -> Report:
    """Sixteen blocks of shared-memory tiles on two SMs, both recorded."""
    return sim.simulate(matmul.tiled(n=32, tile=8), gpu="toy", timeline=(0, 1))


@pytest.fixture(scope="session")
def copying(compiled: None) -> Report:
    """A kernel with asynchronous copies; one of the SMs is recorded."""
    return sim.simulate(tensor.gemm(64, tile=(64, 64, 16)), gpu="a100_sxm_40gb", timeline=0)


@pytest.fixture(scope="session")
def plain(compiled: None) -> Report:
    """A report of which nothing was recorded over time."""
    return sim.simulate(matmul.tiled(n=32, tile=8), gpu="toy")
