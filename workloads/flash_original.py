"""FlashAttention in the order of its first paper: a block a head, keys in the outer loop and queries in the inner one.

A tile of keys and values stays in shared memory while all queries pass. So the output of each query is summed up tile
by tile of keys: it goes to memory, with the row's maximum and sum of exponentials, and comes back for the next tile.
FlashAttention-2 exchanges the loops, and outputs stay in registers (`workloads/flash.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

import sim
from sim.launch import Launch
from workloads.attention_numpy import attention, attention_flops, inputs
from workloads.data import require_choice, require_positive, workload
from workloads.flash import (
    BF16,
    N,
    Plan,
    Rows,
    Scores,
    Softmax,
    Tile,
    accumulate,
    check_blocks,
    mask,
    products,
    scale_of,
)

BLOCK_M, BLOCK_N, WARPS = 64, 256, 4  #: as many queries as a head has columns, and the keys that shared memory holds


class Partial:
    """What memory has of a tile's output while keys pass: sums [.., n, d], and each row's maximum and total [.., n]."""

    def __init__(self, k: Any, plan: Plan, rows: Rows, arrays: tuple[Any, Any, Any], first: Any, left: Any) -> None:
        self.k, self.plan, self.rows, self.left = k, plan, rows, left
        self.sums, self.maxima, self.totals = arrays
        self.numbers = [first + number for number in rows.numbers]

    def inside(self) -> Iterator[tuple[int, tuple[int, int], Any]]:
        """The thread's rows that are ones of the head: number, part of the tile, place."""
        for i, (part, number, row) in enumerate(zip(self.rows.parts, self.rows.numbers, self.numbers, strict=True)):
            with self.k.if_(number < self.left) if self.plan.edges else nullcontext():
                yield i, part, row

    def load_rows(self, softmax: Softmax) -> None:
        """Load maxima and totals."""
        for i, _, row in self.inside():
            softmax.maximum[i].set(self.maxima[row])
            softmax.total[i].set(self.k.select(self.rows.column == 0, self.totals[row], 0.0))  # of one of four threads

    def load_sums(self, out: Scores) -> None:
        for _, part, row in self.inside():
            for (x, y), at in zip(pairs(out, part), self.places(row), strict=True):
                first, second = self.sums.load(at, width=2)
                x.set(first)
                y.set(second)

    def store(self, softmax: Softmax, out: Scores) -> None:
        """Store sums, maxima and totals."""
        for total in softmax.total:
            softmax.add_up(total)
        for i, part, row in self.inside():
            with self.k.if_(self.rows.column == 0):
                self.maxima[row] = softmax.maximum[i]
                self.totals[row] = softmax.total[i]
            for pair, at in zip(pairs(out, part), self.places(row), strict=True):
                self.sums.store(at, pair)

    def finish(self, softmax: Softmax, out: Scores, o: Any, logs: Any) -> None:
        """Store the output and the logarithms of the rows' sums."""
        logarithms = softmax.finish()
        for i, part, row in self.inside():
            with self.k.if_(self.rows.column == 0):
                logs[row] = logarithms[i]
            for pair, at in zip(pairs(out, part), self.places(row), strict=True):
                o.view(np.uint32)[at // 2] = self.k.pack(*pair, bfloat16)

    def places(self, row: Any) -> list[Any]:
        """Where the thread's pairs of a row lie."""
        return [row * self.plan.d + self.rows.column + j * N for j in range(self.plan.d // N)]


def pairs(out: Scores, part: tuple[int, int]) -> list[tuple[Any, Any]]:
    """Neighbours of a row."""
    row = Rows.of(out, part)
    return list(zip(row[::2], row[1::2], strict=True))


@sim.kernel
def original_kernel(
    k: Any,
    q: Any,
    keys: Any,
    values: Any,
    o: Any,
    logs: Any,
    sums: Any,
    maxima: Any,
    totals: Any,
    n: Any,
    *,
    plan: Plan,
) -> None:
    """O = softmax(Q K^T / sqrt(d)) V of a head, and the logarithms of the rows' sums."""
    shared, thread = k.shared_dynamic(q.dtype), k.thread_idx.x
    tile_k = Tile(k, shared, (plan.block_n, plan.d), 0, plan.threads, thread)
    tile_v = Tile(k, shared, (plan.block_n, plan.d), tile_k.end, plan.threads, thread)
    tile_q = Tile(k, shared, (plan.block_m, plan.d), tile_v.end, plan.threads, thread)
    rows = Rows(k, plan, thread >> 5, thread & 31)
    head = (k.block_idx.y * k.grid_dim.x + k.block_idx.x) * n
    tiles, tiles_q = ((n + (size - 1)) // size for size in (plan.block_n, plan.block_m))

    def start(i: Any) -> None:
        """Start copying a tile of queries."""
        row = i * plan.block_m
        tile_q.copy(q, (head + row) * plan.d, plan.d, n - row, slot=(i & 1) * (plan.block_m * plan.d))
        k.async_commit()

    for t in k.range_(tiles, unroll=1):
        row = t * plan.block_n
        k.syncthreads()  # nobody reads the tile before any more
        for tile, source in ((tile_k, keys), (tile_v, values)):
            tile.copy(source, (head + row) * plan.d, plan.d, n - row if plan.edges else None)
        start(0)
        for i in k.range_(tiles_q, unroll=1):
            k.async_wait(0)
            k.syncthreads()
            start(i + 1)
            out: Scores = [[k.vars(4) for _ in range(plan.d // N)] for _ in rows.parts[::2]]
            softmax = Softmax(k, plan, rows, scale_of(out), fused=plan.fast_math)
            first = i * plan.block_m
            partial = Partial(k, plan, rows, (sums, maxima, totals), head + first, n - first)
            with k.if_(t > 0):
                partial.load_rows(softmax)
            scores = products(k, plan, rows, tile_q, tile_k, (i & 1) * (plan.block_m * plan.d))
            with k.if_(t > 0):
                partial.load_sums(out)
            if plan.edges:
                mask(k, plan, rows, scores, first, t, n)
            softmax.rescale(scores, False, False)
            softmax.rescale_output()
            accumulate(k, plan, softmax, scores, tile_v, out)
            with k.if_(t + 1 < tiles):
                partial.store(softmax, out)
            with k.else_():
                partial.finish(softmax, out, o, logs)
    k.async_wait(0)


@dataclass(frozen=True)
class OriginalPlan(Plan):
    """What the kernel knows at compile time, and the launch."""

    def launch(self, sizes: tuple[int, int, int], arrays: tuple[Any, ...], place: Any) -> Launch:
        """For `sizes` (b, h, n) on Q, K, V, O and the logarithms; `place` makes arguments of further arrays."""
        b, h, n = sizes
        rows = b * h * n
        partial = (place(sim.zeros(rows * self.d)), place(sim.zeros(rows)), place(sim.zeros(rows)))
        shared = (2 * self.block_m + 2 * self.block_n) * self.d * BF16.itemsize
        launch = original_kernel.launch((h, b), self.threads, (*arrays, *partial, n), {"plan": self}, shared)
        return launch.with_(name="attention.flash_original", flops=attention_flops(b, h, n, self.d, False))


def make_plan(
    n: int, d: int, block_m: int = BLOCK_M, block_n: int = BLOCK_N, warps: int = WARPS, fast_math: bool = False
) -> OriginalPlan:
    """The plan. Raises `ValueError` for what the kernel has no code for."""
    require_choice("d", d, (32, 64, 128))
    plan = OriginalPlan(d, block_m, block_n, warps, False, n % block_m > 0 or n % block_n > 0, fast_math)
    check_blocks(plan)
    return plan


@workload
def flash_original(
    b: int,
    h: int,
    n: int,
    d: int = 64,
    block_m: int = BLOCK_M,
    block_n: int = BLOCK_N,
    warps: int = WARPS,
    fast_math: bool = False,
) -> Launch:
    """FlashAttention forward in bfloat16 in its first paper's order: `b` sequences of `n` positions, `h` heads of `d`.

    A block a head: `block_n` keys and values stay while all queries pass, `block_m` at a time. Outputs and `fast_math`
    as those of `flash`.
    """
    require_positive(b=b, h=h, n=n, block_m=block_m, block_n=block_n, warps=warps)
    plan = make_plan(n, d, block_m, block_n, warps, fast_math)
    q, keys, values = inputs(b, h, n, d)

    def right() -> dict[str, np.ndarray]:
        o, logs = attention(*(x.reshape(b * h, n, d) for x in (q, keys, values)), False)
        return {"o": o.astype(bfloat16).ravel(), "logs": logs.ravel()}

    arrays = (q, keys, values, sim.zeros(b * h * n * d, BF16), sim.zeros(b * h * n))
    return plan.launch((b, h, n), arrays, lambda x: x).with_(
        params={"b": b, "h": h, "n": n, "d": d, "tile": f"{block_m}x{block_n}", "warps": warps}
        | ({"fast_math": True} if fast_math else {}),
        expected=right,
        rtol=2e-2,
        atol=2e-3,
    )
