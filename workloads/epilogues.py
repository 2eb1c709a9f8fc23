"""A product's epilogue as a kernel of its own: reads the matrix that the product left, and writes the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import sim
from sim.launch import Launch
from workloads.data import blocks_for, require_choice, require_positive, workload
from workloads.fusions import NAMES, Fusion, fusion, relative_error
from workloads.gemm import DTYPES
from workloads.tiles import eighths, put

THREADS = 128
ACCESS_BYTES = 16  #: of a thread's load
TILE_COLUMNS = 256  #: of the product before, whose tiles left sums of squares


@dataclass(frozen=True)
class Plan:
    """What the kernel knows at compile time."""

    width: int  #: neighbours that a thread loads at once
    fusion: Fusion


@sim.kernel
def separate_kernel(k: Any, x: Any, c: Any, operand: Any, n: Any, *, plan: Plan) -> None:
    """A thread takes 16 bytes of a row; grid.y are the rows."""
    made, row = plan.fusion, k.block_idx.y
    column = (k.block_idx.x * THREADS + k.thread_idx.x) * plan.width
    facts = made.of_row(k, operand, row)
    with k.if_(column < n):
        values = [value.astype(np.float32) for value in x.load((row, column), width=plan.width)]
        results = made.apply(k, values, operand, row, column, facts)
        if made.changes:
            put(k, c, row, column // made.shrinks, results)
    if made.sums_rows:
        total = block_sum(k, facts)
        with k.if_(k.thread_idx.x == 0):
            operand[k.block_idx.x, row] = total


def block_sum(k: Any, value: Any) -> Any:
    """The sum of all threads' values, for the first warp."""
    warps = k.shared((THREADS // 32,), np.float32)
    for distance in (16, 8, 4, 2, 1):
        value.set(value + k.shfl_xor(value, distance))
    with k.if_(k.lane_id == 0):
        warps[k.warp_id] = value
    k.syncthreads()
    total = warps[0]
    for warp in range(1, THREADS // 32):
        total = total + warps[warp]
    return total


@workload
def separate(m: int, n: int, epilogue: str = "bias", dtype: str = "bf16") -> Launch:
    """An epilogue of `gemm.basic` and the others, on a matrix [`m`, `n`] of C's type for products of `dtype`.

    What it adds to an unfused product is this kernel's time and memory traffic.
    """
    require_positive(m=m, n=n)
    require_choice("epilogue", epilogue, NAMES[1:])
    require_choice("dtype", dtype, tuple(name for name in DTYPES if name != "s8"))
    out = np.dtype(DTYPES[dtype][2])
    width = ACCESS_BYTES // out.itemsize
    if n % width:
        raise ValueError(f"n={n}: a thread takes {width} columns at once; use a multiple of {width}")
    columns = THREADS * width
    plan = Plan(width, fusion(epilogue, n, n, columns if epilogue == "rms_stats" else TILE_COLUMNS))
    x, operand = eighths((m, n), out, seed=7), plan.fusion.operand(m, n, out)

    def right() -> dict[str, np.ndarray]:
        results = plan.fusion.results(x.astype(np.float32), operand, out)
        return results if plan.fusion.changes else {"operand": results["operand"]}

    launch = separate_kernel.launch(
        (blocks_for(n, columns), m),
        THREADS,
        args=(x, sim.zeros((m, n // plan.fusion.shrinks), out), operand, n),
        constants={"plan": plan},
    )
    return launch.with_(
        name="epilogues.separate",
        params={"m": m, "n": n, "epilogue": epilogue, "dtype": dtype},
        expected=right,
        rtol=relative_error(out),
        atol=relative_error(out),
    )
