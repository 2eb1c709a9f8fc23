"""Launches of kernels that no constant of the model has seen: grid, block, data, for the card and the simulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
SOURCE, LISTING, RESULTS = HERE / "kernels.cu", HERE / "kernels.sass.gz", HERE / "h200.csv"


@dataclass(frozen=True)
class Case:
    """One launch. `make` gives its arguments, arrays of random numbers from a seed among them."""

    kernel: str
    params: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    make: Callable[[np.random.Generator], tuple[Any, ...]]

    @property
    def label(self) -> str:
        """What it is called in the table."""
        return f"{self.kernel}({self.params})"

    def arguments(self) -> tuple[Any, ...]:
        """Arrays and scalars, the same each time."""
        return self.make(np.random.default_rng(11))


def floats(rng: np.random.Generator, count: int) -> Any:
    return rng.random(count, np.float32)


def out(count: int, dtype: Any = np.float32) -> Any:
    return np.zeros(count, dtype)


def sparse(rng: np.random.Generator, rows: int, mean: int) -> tuple[Any, ...]:
    """Rows of 0 to 2 * mean entries at random columns."""
    first = np.concatenate([[0], np.cumsum(rng.integers(0, 2 * mean + 1, rows))]).astype(np.int32)
    column = rng.integers(0, rows, first[-1]).astype(np.int32)
    return first, column, floats(rng, first[-1]), floats(rng, rows), out(rows), np.int32(rows)


def cycle(rng: np.random.Generator, count: int) -> Any:
    """A permutation of one cycle: each element leads to another until all were met."""
    order = rng.permutation(count).astype(np.int32)
    following = np.empty(count, np.int32)
    following[order] = np.roll(order, -1)
    return following


def keys(rng: np.random.Generator, count: int) -> Any:
    return rng.integers(0, 1 << 32, count, np.uint32)


def all_cases() -> list[Case]:
    """The launches, in order."""
    n = 1 << 20
    i32 = np.int32
    return [
        Case("stencil_tile", "n=2048", (64, 256), (32, 8), lambda r: (floats(r, 4 * n), out(4 * n), i32(2048))),
        Case("segmented_scan", f"n={n}", (n // 256,), (256,),
             lambda r: (floats(r, n), (floats(r, n) < 0.02).astype(i32), out(n), i32(n))),
        Case("bitonic_block", f"n={n // 2}", (n // 2048,), (512,), lambda r: (keys(r, n // 2),)),
        Case("bitonic_step", f"n={4 * n},stride=1024", (2 * n // 256,), (256,),
             lambda r: (keys(r, 4 * n), i32(1024), i32(2048))),
        Case("spmv_row", "rows=131072,mean=16", (512,), (256,), lambda r: sparse(r, 131072, 16)),
        Case("spmv_warp", "rows=65536,mean=32", (8192,), (256,), lambda r: sparse(r, 65536, 32)),
        Case("batched_matmul", "16x16,batch=8192", (8192,), (256,),
             lambda r: (floats(r, 8192 * 256), floats(r, 8192 * 256), out(8192 * 256))),
        Case("softmax_online", "rows=8192,d=512", (1024,), (256,),
             lambda r: (floats(r, 8192 * 512), out(8192 * 512), i32(512))),
        Case("histogram_bytes", f"n={4 * n},grid=528", (528,), (256,), lambda r: (keys(r, n), out(256, i32), i32(n))),
        Case("pointer_chase", "n=2^24,steps=64", (264,), (64,),
             lambda r: (cycle(r, 1 << 24), out(264 * 64, i32), i32(64))),
        Case("nbody", "n=4096", (32,), (128,), lambda r: (floats(r, 4 * 4096), out(4 * 4096), i32(4096))),
        Case("mandelbrot", "512x512,most=256", (32, 32), (16, 16), lambda r: (out(512 * 512, i32), i32(512), i32(256))),
        Case("dot_double", f"n={2 * n},grid=264", (264,), (256,),
             lambda r: (r.random(2 * n), r.random(2 * n), out(1, np.float64), i32(2 * n))),
        Case("fir", f"n={2 * n}", (2 * n // 256,), (256,),
             lambda r: (floats(r, 2 * n), floats(r, 31), out(2 * n), i32(2 * n))),
    ]  # fmt: skip
