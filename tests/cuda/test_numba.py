"""`compile_numba`: kernels of Numba-CUDA compute what NumPy does, with names and lines of the Python function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sim
from sim.cuda import CompileError
from tests.cuda.extras import needs_numba_cuda

try:
    from numba import cuda, float32
except ImportError:
    cuda = float32 = None

pytestmark = needs_numba_cuda
RNG = np.random.default_rng(6)
TILE = 16


def saxpy(n, a, x, y):
    i = cuda.grid(1)
    if i < n:
        y[i] = a * x[i] + y[i]


def multiply(a, b, c):
    left = cuda.shared.array((TILE, TILE), float32)
    right = cuda.shared.array((TILE, TILE), float32)
    column, row = cuda.grid(2)
    i, j = cuda.threadIdx.y, cuda.threadIdx.x
    total = float32(0)
    for k in range(0, a.shape[1], TILE):
        left[i, j] = a[row, k + j]
        right[i, j] = b[k + i, column]
        cuda.syncthreads()
        for m in range(TILE):
            total += left[i, m] * right[m, j]
        cuda.syncthreads()
    c[row, column] = total


def count(data, bins):
    i = cuda.grid(1)
    while i < data.size:
        cuda.atomic.add(bins, data[i], 1)
        i += cuda.gridsize(1)


@pytest.mark.parametrize(("arch", "gpu"), [("sm_75", "t4"), ("sm_80", "a100_sxm_40gb"), ("sm_90", "h200")])
def test_numbers_and_arrays(arch: str, gpu: str) -> None:
    program = sim.compile_numba(saxpy, "void(int64, float32, float32[::1], float32[:])", arch)
    x, y = (RNG.standard_normal(1000, dtype=np.float32) for _ in range(2))
    report = sim.simulate(sim.Launch(program, 4, 256, (900, 1.5, x, y)), gpu=gpu)
    right = np.where(np.arange(1000) < 900, np.float32(1.5) * x + y, y)
    np.testing.assert_allclose(report.outputs["y"], right, rtol=1e-6, atol=1e-6)
    line = report.lines().query("source == 'y[i] = a * x[i] + y[i]'")
    assert line["file"].item() == __file__ and line["sectors"].sum() > 0


def test_matrices_of_two_dimensions_and_shared_memory() -> None:
    program = sim.compile_numba(multiply, "void(float32[:, ::1], float32[:, :], float32[:, ::1])")
    assert program.shared_static_bytes == 2 * 4 * TILE * TILE
    a, b = RNG.standard_normal((48, 64), dtype=np.float32), RNG.standard_normal((64, 32), dtype=np.float32)
    report = sim.simulate(sim.Launch(program, (2, 3), (TILE, TILE), (a, b, sim.zeros((48, 32)))))
    np.testing.assert_allclose(report.outputs["c"], a @ b, rtol=1e-4, atol=1e-4)


def test_atomics_and_a_function_that_jit_made() -> None:
    made = cuda.jit(count)
    program = sim.compile_numba(made, (cuda.types.uint8[::1], cuda.types.int32[::1]))
    data = RNG.integers(0, 50, 3000).astype(np.uint8)
    report = sim.simulate(sim.Launch(program, 3, 128, (data, sim.zeros(50, np.int32))))
    np.testing.assert_array_equal(report.outputs["bins"], np.bincount(data, minlength=50))


def unknown(x):
    x[0] = no_such_name  # noqa: F821


@pytest.mark.parametrize(
    ("function", "signature", "problem"),
    [
        (unknown, "void(float32[:])", "unknown does not compile for .*no_such_name"),
        (saxpy, "void(float32[:])", "saxpy does not compile for "),
        (unknown, "void(nonsense)", "unknown does not compile for "),
        (multiply, "void(float32[::1, :], float32[:, :], float32[:, :])", "argument a is .*: arrays are contiguous"),
    ],
)
def test_what_does_not_compile(function: Any, signature: str, problem: str) -> None:
    with pytest.raises(CompileError, match=f"(?s){problem}"):
        sim.compile_numba(function, signature)


def test_an_argument_of_another_type_is_refused() -> None:
    program = sim.compile_numba(saxpy, "void(int64, float32, float32[::1], float32[::1])")
    with pytest.raises(sim.LaunchError, match="argument x is float32, got float64"):
        sim.simulate(sim.Launch(program, 1, 32, (5, 1.5, np.ones(32), np.ones(32, np.float32))))
