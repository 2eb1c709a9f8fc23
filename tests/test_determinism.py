"""The same launch gives the same bytes: again, on more threads, and in another process with other hash seeds."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import sim
from sim.device import Device
from sim.launch import Launch
from tests.core.launches import small
from workloads import divergence, matmul, memory, rows, shared

ROOT = Path(__file__).parents[1]


@sim.kernel
def sums(k, x, total, order):
    """Float atomics, whose result depends on their order, and tickets, which are that order."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    k.atomic_add(total, i & 3, x[i])
    order[i] = k.atomic_add(order, 1024, 1)


def atomics() -> Launch:
    values = np.random.default_rng(5).normal(size=1024).astype(np.float32)
    return sums.launch(16, 64, args=(values, sim.zeros(4), sim.zeros(1025, np.int32)))


KERNELS: dict[str, Callable[[], Launch]] = {
    "copy": lambda: memory.copy(3000, width=4),
    "tiled": lambda: matmul.tiled(40, tile=8),
    "trip_counts": lambda: divergence.trip_counts(500, below=30),
    "histogram": lambda: shared.histogram(2000, 16, grid=12),
    "softmax": lambda: rows.softmax(10, 100, block=64),
    "atomics": atomics,
}
WIDE = {"gpu.sm_count": 7, "gpu.gpc_count": 1}  #: SMs that do not divide evenly over threads


@pytest.mark.parametrize("kernel", KERNELS)
def test_two_runs_are_equal_to_the_byte(kernel):
    profile = small()
    assert (
        sim.simulate(KERNELS[kernel](), gpu=profile).to_json() == sim.simulate(KERNELS[kernel](), gpu=profile).to_json()
    )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("threads", [2, 3])
def test_any_number_of_threads_gives_the_same_bytes_and_values(kernel, threads):
    profile = sim.load_profile("h200").override(WIDE)
    launch = KERNELS[kernel]()
    one, many = (sim.simulate(launch, gpu=profile, threads=n) for n in (1, threads))
    assert one.to_json() == many.to_json()
    for name in one.outputs:
        np.testing.assert_array_equal(one.outputs[name], many.outputs[name])


def test_a_sequence_of_kernels_on_a_device_is_the_same_on_two_threads():
    pages = []
    for threads in (1, 2):
        device = Device("toy", threads=threads)
        array = device.array(np.arange(1025, dtype=np.int32))
        reports = [device.launch(sums.launch(16, 64, args=(np.ones(1024, np.float32), sim.zeros(4), array)))]
        reports += [device.launch(memory.copy(500)) for _ in range(2)]
        pages.append([report.to_json() for report in reports] + [array.numpy().tolist()])
    assert pages[0] == pages[1]


def digests() -> str:
    """One line a kernel: its report's digest."""
    return "\n".join(
        f"{name} {hashlib.sha256(sim.simulate(make(), gpu='toy').to_json().encode()).hexdigest()}"
        for name, make in KERNELS.items()
    )


def test_hash_seeds_do_not_matter():
    """Sets and dictionaries of another process iterate in another order; the bytes stay."""
    command = [sys.executable, "-c", "from tests.test_determinism import digests; print(digests())"]
    texts = set()
    for seed in ("1", "12345"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr[-3000:]
        texts.add(ran.stdout.strip())
    assert texts == {digests()}
