"""Warp instructions a second, and peak memory, of whole simulations on one core."""

from __future__ import annotations

import resource
from typing import Any

import pytest

import sim
from sim.launch import Launch
from validation import suite
from workloads import matmul

ROUNDS = 3


def measure(benchmark: Any, launch: Launch, gpu: str) -> None:
    """Time whole simulations after compilation, and note instructions a second and the process's peak memory."""
    report = sim.simulate(launch, gpu=gpu, threads=1)
    benchmark.pedantic(sim.simulate, args=(launch,), kwargs={"gpu": gpu, "threads": 1}, rounds=ROUNDS)
    instructions = report["smsp__inst_executed.sum"]
    rate = instructions / benchmark.stats.stats.min
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    benchmark.extra_info |= {
        "warp_instructions": instructions,
        "warp_instructions_per_second": round(rate),
        "simulated_cycles": report.cycles,
        "peak_memory_gb": round(peak_gb, 2),
    }
    print(f"\n{launch.name}: {rate / 1e6:.2f} million warp instructions a second, peak memory {peak_gb:.2f} GB")


def test_tiled_matmul_on_all_sms(benchmark: Any) -> None:
    measure(benchmark, matmul.tiled(512, 32), "h200")


def test_tensor_core_product(benchmark: Any) -> None:
    measure(benchmark, matmul.gemm(1792), "a100_sxm_40gb")


@pytest.mark.skipif(not (suite.SUITE / suite.LISTING).is_file(), reason="the validation suite is not here")
@pytest.mark.parametrize("label", ["mm_tiled(n=512,tile=32)", "gelu(n=16777216,block=256)"])
def test_compiled_kernel(benchmark: Any, label: str) -> None:
    measure(benchmark, suite.launch(label, str(suite.SUITE)), "h200")
