"""FlashAttention's backward pass: weights are computed again, tile by tile, from Q, K and the logarithms of the sums.

A block keeps a tile of keys and values and walks over tiles of queries. It computes the transposed scores K Q^T, whose
sums are laid out as left operands of the products that give dV and dK. dQ is summed up over blocks by atomics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

import sim
from sim.launch import Launch
from workloads import flash_original
from workloads.attention_numpy import attention_flops, gradients, inputs
from workloads.data import blocks_for, require_choice, require_positive
from workloads.flash import BF16, LOG2_E, PIECE, K, M, N, Rows, Scores, Tile, flash_kernel, leave, put
from workloads.flash import Plan as Forward
from workloads.tensor import set_all

QUERIES = 64  #: a tile
WARPS = 8
ROW_BLOCK = 256  #: threads of the kernels before and after, each with a piece of a row


@dataclass(frozen=True)
class Plan:
    """What the kernel knows at compile time."""

    d: int
    block_n: int  #: keys and values a block
    causal: bool
    edges: bool  #: whether `n` is no multiple of the block and of the tiles of queries
    fast_math: bool  #: as the forward pass has it

    @property
    def threads(self) -> int:
        return WARPS * 32

    @property
    def warp_rows(self) -> int:
        """Keys a warp."""
        return self.block_n // WARPS

    @property
    def slot(self) -> int:
        """Elements of a tile of queries and one of the output's gradient."""
        return 2 * QUERIES * self.d

    @property
    def shared_bytes(self) -> int:
        return (2 * self.block_n * self.d + self.block_n * QUERIES + 2 * self.slot) * BF16.itemsize


@sim.kernel
def delta_kernel(k: Any, o: Any, do: Any, delta: Any, sums: Any, rows: Any, size: Any, *, d: int) -> None:
    """delta = rowsum(dO * O), and zeros where dQ is to be summed up; a thread a piece of a row."""
    pieces = d // PIECE
    i = k.block_idx.x * ROW_BLOCK + k.thread_idx.x
    with k.if_(i < size // PIECE):
        for half in range(PIECE // 4):
            sums.store(i * PIECE + 4 * half, (0.0,) * 4)
    with k.if_(i < rows * pieces):
        total = k.var(0.0)
        words = [x.view(np.uint32).load(i * (PIECE // 2), width=PIECE // 2) for x in (o, do)]
        for pair in zip(*words, strict=True):
            for a, b in zip(*(k.unpack(word, bfloat16) for word in pair), strict=True):
                total += a.astype(np.float32) * b.astype(np.float32)
        distance = pieces // 2
        while distance:
            total += k.shfl_xor(total, distance)
            distance //= 2
        with k.if_(k.thread_idx.x % pieces == 0):
            delta[i // pieces] = total


@sim.kernel
def convert_kernel(k: Any, sums: Any, dq: Any, n: Any, size: Any, scale: Any, *, d: int) -> None:
    """dQ in bfloat16: the sums, which lie as `add_queries` has them, times 1 / sqrt(d); a thread a piece of a row."""
    pieces, side_pieces = d // PIECE, d // 2 // PIECE
    i = k.block_idx.x * ROW_BLOCK + k.thread_idx.x
    with k.if_(i < size // PIECE):
        (head, row), piece = k.divmod_truncating(i // pieces, n), i % pieces
        tile, row_of_tile = row // QUERIES, row % QUERIES
        warp = row_of_tile // M * 2 + piece // side_pieces
        pair = row_of_tile % M // 8 * side_pieces + piece % side_pieces
        tiles = (n + (QUERIES - 1)) // QUERIES
        at = (head * tiles + tile) * (QUERIES * d) + pair * (2 * WARPS * 32) + warp * 32 + row_of_tile % 8 * 4
        of_sides = [sums.load(at + side * (WARPS * 32), width=4) for side in (0, 1)]
        words = [k.pack(x * scale, y * scale, bfloat16) for x, y in zip(*of_sides, strict=True)]
        dq.view(np.uint32).store(i * (PIECE // 2), words)


@sim.kernel
def gradients_kernel(
    k: Any, q: Any, keys: Any, values: Any, do: Any, logs: Any, delta: Any, sums_q: Any, dk: Any, dv: Any, n: Any,
    *, plan: Plan,
) -> None:  # fmt: skip
    """dK and dV of a tile of keys and values, and its part of dQ."""
    shapes = k.shared((2, 2, QUERIES), np.float32)  # [slot][logarithms, delta]
    shared, thread = k.shared_dynamic(q.dtype), k.thread_idx.x
    tile_k = Tile(k, shared, (plan.block_n, plan.d), 0, plan.threads, thread)
    tile_v = Tile(k, shared, (plan.block_n, plan.d), tile_k.end, plan.threads, thread)
    tile_s = Tile(k, shared, (plan.block_n, QUERIES), tile_v.end, plan.threads, thread)
    tile_q = Tile(k, shared, (QUERIES, plan.d), tile_s.end, plan.threads, thread)
    tile_o = Tile(k, shared, (QUERIES, plan.d), tile_q.end, plan.threads, thread)
    rows = Rows(k, plan, thread >> 5, thread & 31)
    number = k.block_idx.z * k.grid_dim.y + k.block_idx.y
    head = number * n
    key0 = k.block_idx.x * plan.block_n
    tiles = (n + (QUERIES - 1)) // QUERIES
    first = key0 // QUERIES if plan.causal else 0

    def start(t: Any, slot: Any) -> None:
        """Start copying a tile of queries and what belongs to it."""
        row = t * QUERIES
        for tile, source in ((tile_q, q), (tile_o, do)):
            tile.copy(source, (head + row) * plan.d, plan.d, n - row, slot=slot * plan.slot)
        with k.if_(thread < QUERIES):
            for number, source in enumerate((logs, delta)):
                to = (slot * 2 + number) * QUERIES + thread
                k.async_copy(shapes.view(np.float32), to, source, head + row + thread, 4, row + thread < n)
        k.async_commit()

    for tile, source in ((tile_k, keys), (tile_v, values)):
        tile.copy(source, (head + key0) * plan.d, plan.d, n - key0 if plan.edges else None)
    start(first, 0)
    sums_k, sums_v = ([[k.vars(4) for _ in range(plan.d // N)] for _ in range(plan.warp_rows // M)] for _ in range(2))
    slot = k.var(0)
    for t in k.range_(first, tiles, unroll=1):
        k.async_wait(0)
        k.syncthreads()
        start(t + 1, 1 - slot)
        at = slot * plan.slot
        weights = transposed(k, plan, rows, tile_k, tile_q, at)
        weigh(k, plan, rows, weights, shapes, slot, (key0, t * QUERIES))
        changes = transposed(k, plan, rows, tile_v, tile_o, at)
        accumulate(k, plan, weights, tile_o, at, sums_v)
        change(k, rows, weights, changes, shapes, slot)
        put(k, rows, tile_s, changes)
        accumulate(k, plan, changes, tile_q, at, sums_k)
        k.syncthreads()
        add_queries(k, plan, tile_s, tile_k, sums_q, (number * tiles + t) * (QUERIES * plan.d))
        slot.set(1 - slot)
    k.async_wait(0)
    k.syncthreads()
    for of_row in sums_k:
        for four in of_row:
            for x in four:
                x.set(x * (1 / math.sqrt(plan.d)))
    for tile, sums in ((tile_k, sums_k), (tile_v, sums_v)):
        put(k, rows, tile, sums)
    k.syncthreads()
    for tile, to in ((tile_k, dk), (tile_v, dv)):
        leave(k, tile, to, (head + key0) * plan.d, plan.d, n - key0 if plan.edges else None)


def transposed(k: Any, plan: Plan, rows: Rows, left: Tile, right: Tile, slot: Any) -> Scores:
    """The warp's rows of `left` times the rows of `right`."""
    sums: Scores = [[[0.0] * 4 for _ in range(QUERIES // N)] for _ in range(plan.warp_rows // M)]
    for depth in range(plan.d // K):
        of_left = [left.left(rows.first, i * M, 2 * depth) for i in range(plan.warp_rows // M)]
        for j in range(QUERIES // (2 * N)):
            for column, of_right in enumerate(right.right(j * 2 * N, 2 * depth, slot), 2 * j):
                for i, fragment in enumerate(of_left):
                    sums[i][column] = list(k.mma(fragment, of_right, tuple(sums[i][column]), dtype=bfloat16))
    return sums


def weigh(k: Any, plan: Plan, rows: Rows, scores: Scores, shapes: Any, slot: Any, corner: tuple[Any, Any]) -> None:
    """Scores to weights; of a causal tile on the diagonal, zeros where the key is later than the query."""
    key0, query0 = corner
    scale = LOG2_E / math.sqrt(plan.d)
    for j in range(QUERIES // N):
        logs = [x * LOG2_E for x in shapes.load(slot, 0, rows.column + j * N, width=2)]
        for (i, half), number in zip(rows.parts, rows.numbers, strict=True):
            for side in (0, 1):
                weight = k.exp2(scores[i][j][2 * half + side] * scale - logs[side], fast=plan.fast_math)
                if plan.causal:
                    weight = k.select(key0 + number <= query0 + rows.column + (j * N + side), weight, 0.0)
                scores[i][j][2 * half + side] = weight


def change(k: Any, rows: Rows, weights: Scores, changes: Scores, shapes: Any, slot: Any) -> None:
    """Gradients of the weights to those of the scores: w (g - delta)."""
    for j in range(QUERIES // N):
        deltas = shapes.load(slot, 1, rows.column + j * N, width=2)
        for i, half in rows.parts:
            for side in (0, 1):
                at = 2 * half + side
                changes[i][j][at] = weights[i][j][at] * (changes[i][j][at] - deltas[side])


def accumulate(k: Any, plan: Plan, left: Scores, right: Tile, slot: Any, sums: Scores) -> None:
    """Add the product of sums in registers with a tile of queries or of the output's gradient."""
    for depth in range(QUERIES // K):
        fragments = [
            [k.pack(*of_row[2 * depth + side][2 * half : 2 * half + 2], bfloat16) for side in (0, 1) for half in (0, 1)]
            for of_row in left
        ]
        for j in range(plan.d // (2 * N)):
            for column, of_right in enumerate(right.right_transposed(depth * K, 2 * j, slot), 2 * j):
                for fragment, of_row in zip(fragments, sums, strict=True):
                    set_all(of_row[column], k.mma(fragment, of_right, tuple(of_row[column]), dtype=bfloat16))


def add_queries(k: Any, plan: Plan, tile_s: Tile, tile_k: Tile, sums_q: Any, first: Any) -> None:
    """Add dS K to dQ: the warps share the tile, two side by side, each 16 rows and half of the columns.

    The tile's sums lie from `first` on as threads have them, number by number, so that a warp adds to whole lines.
    """
    warp = k.thread_idx.x >> 5
    row0, columns = (warp >> 1) * M, plan.d // 2
    piece0 = (warp & 1) * (columns // PIECE)
    sums = [[0.0] * 4 for _ in range(columns // N)]
    for depth in range(plan.block_n // K):
        fragment = tile_s.left_transposed(row0 // PIECE, depth * K)
        for j in range(columns // (2 * N)):
            for column, of_k in enumerate(tile_k.right_transposed(depth * K, piece0 + 2 * j), 2 * j):
                sums[column] = list(k.mma(fragment, of_k, tuple(sums[column]), dtype=bfloat16))
    mine = [four[2 * half + side] for half in (0, 1) for four in sums for side in (0, 1)]
    for number, x in enumerate(mine):
        k.atomic_add(sums_q, first + (number * (WARPS * 32) + k.thread_idx.x), x)


def flash_training(
    b: int,
    h: int,
    n: int,
    d: int = 64,
    causal: bool = False,
    block_n: int = 128,
    fast_math: bool = False,
    original: bool = False,
    device: sim.Device | None = None,
) -> list[Launch]:
    """The launches of FlashAttention forward and backward in bfloat16, in order: forward, delta, gradients, convert.

    `block_n` keys and values a block of the backward pass, `fast_math` as in `flash`. `original`: the forward pass is
    `flash_original`; the backward pass has had the original order of loops ever since. With a `device` the launches are
    to run on it, one after the other: each then takes what the ones before left. Without one, each is a launch of its
    own, whose input is zeros unless it is Q, K, V or the output's gradient.
    """
    require_positive(b=b, h=h, n=n)
    require_choice("d", d, (32, 64))
    require_choice("block_n", block_n, (128,))
    place: Any = (lambda x: x) if device is None else device.array
    arrays = inputs(b, h, n, d, 4)
    size, rows = b * h * n * d, b * h * n
    q, keys, values, do = (place(x) for x in arrays)
    o, dq, dk, dv = (place(sim.zeros(size, BF16)) for _ in range(4))
    padded = b * h * blocks_for(n, QUERIES) * QUERIES * d
    logs, delta, sums = (place(sim.zeros(count)) for count in (rows, rows, padded))

    def right() -> dict[str, np.ndarray]:
        found = gradients(*(x.reshape(b * h, n, d) for x in arrays), causal)
        return {"dq": found[0].astype(bfloat16).ravel()}

    def right_of_tiles() -> dict[str, np.ndarray]:
        found = gradients(*(x.reshape(b * h, n, d) for x in arrays), causal)
        return {name: x.astype(bfloat16).ravel() for name, x in zip(("dk", "dv"), found[1:], strict=True)}

    flops = attention_flops(b, h, n, d, causal)
    if original and causal:
        raise ValueError("original=True: the first paper's order has no code for causal=True")
    arrays_of_forward = (q, keys, values, o, logs)
    forward: Launch
    if original:
        of_original = flash_original.make_plan(n, d, fast_math=fast_math)
        forward = of_original.launch((b, h, n), arrays_of_forward, place)
    else:
        of_forward = Forward(d, 128, 128, 4, causal, n % 128 > 0, fast_math)
        grid, args = (blocks_for(n, 128), h, b), (*arrays_of_forward, n)
        launch = flash_kernel.launch(grid, of_forward.threads, args, {"plan": of_forward}, of_forward.shared_bytes)
        forward = launch.with_(name="attention.flash", flops=flops)
    plan = Plan(d, block_n, causal, n % block_n > 0, fast_math)
    pieces = blocks_for(size // PIECE, ROW_BLOCK)
    launches = [
        forward,
        delta_kernel.launch(
            blocks_for(padded // PIECE, ROW_BLOCK), ROW_BLOCK, (o, do, delta, sums, rows, padded), {"d": d},
            name="attention.flash delta", flops=2.0 * size,
        ),
        gradients_kernel.launch(
            (blocks_for(n, block_n), h, b), plan.threads, (q, keys, values, do, logs, delta, sums, dk, dv, n),
            {"plan": plan}, plan.shared_bytes, name="attention.flash gradients", flops=2.5 * flops,
        ),
        convert_kernel.launch(
            pieces, ROW_BLOCK, (sums, dq, n, size, 1 / math.sqrt(d)), {"d": d},
            name="attention.flash convert", flops=float(size),
        ),
    ]  # fmt: skip
    launches = [x.with_(params={"b": b, "h": h, "n": n, "d": d, "causal": causal}) for x in launches]
    if device is not None:
        launches[2] = launches[2].with_(expected=right_of_tiles, rtol=3e-2, atol=3e-2)
        launches[3] = launches[3].with_(expected=right, rtol=3e-2, atol=3e-2)
    return launches
