"""The tensor-core matrix product: a tile a block, asynchronous copies to shared memory, ldmatrix and mma.

Each block computes a tile of C. Slices of A and B of depth `bk` pass through a ring
of `stages` shared buffers: while the tensor cores work on one slice, later ones are
on their way. A copy moves 16 bytes a thread when the rows of the matrix start at
multiples of 16 bytes. When they do not, hardware allows only narrower copies: 8 or
4 bytes, and with 2-byte elements at odd pitches none at all, so that each element
is loaded to a register and stored to shared memory from there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

import sim
from sim.launch import Launch
from workloads.data import blocks_for, require_choice, require_positive, small_integers

#: What A and B are stored as, by name.
DTYPES = {"bf16": np.dtype(bfloat16), "f16": np.dtype(np.float16), "tf32": np.dtype(np.float32)}
MMA_TYPES = {"bf16": "bfloat16", "f16": "float16", "tf32": "tf32"}
COPY_BYTES = 16  #: the widest copy a thread makes
M, N = 16, 8  #: rows and columns of one mma


@dataclass(frozen=True)
class Plan:
    """What the kernel knows at compile time."""

    bm: int
    bn: int
    bk: int
    dtype: str
    stages: int
    a_copy: int  #: bytes of one copy from A; 2 means through a register
    b_copy: int
    pair_stores: bool  #: C's columns come in pairs that a thread can store at once

    @property
    def item(self) -> int:
        """Bytes of an element of A and B."""
        return 4 if self.dtype == "tf32" else 2

    @property
    def warps(self) -> int:
        return 8 if self.bm * self.bn >= 128 * 128 else 4

    @property
    def warps_n(self) -> int:
        """Warps side by side; the others lie below each other. The squarest warp tile reads least."""
        options = [w for w in (1, 2, 4, 8) if self.warps % w == 0 and self.bn % (w * 2 * N) == 0]
        return min(options, key=lambda w: abs(self.bn // w - self.bm * w // self.warps))

    @property
    def wm(self) -> int:
        return self.bm * self.warps_n // self.warps

    @property
    def wn(self) -> int:
        return self.bn // self.warps_n

    @property
    def mma_k(self) -> int:
        """Depth of one mma."""
        return 8 if self.dtype == "tf32" else 16

    @property
    def a_pitch(self) -> int:
        """Elements from a row of the A slice to the next: an odd number of 16-byte pieces, so 8 rows use all banks."""
        return self.bk + COPY_BYTES // self.item

    @property
    def b_pitch(self) -> int:
        """As `a_pitch`; for tf32, 8 words past a multiple of 32, as its fragments are read word by word."""
        return self.bn + 8

    @property
    def stage_elements(self) -> int:
        return self.bm * self.a_pitch + self.bk * self.b_pitch

    @property
    def shared_bytes(self) -> int:
        return self.stages * self.stage_elements * self.item


@dataclass(frozen=True)
class Copies:
    """How the threads of a block share the copying of one slice: pieces of a row, rows of a pass."""

    threads: int
    columns: int  #: elements a row of the slice
    rows: int
    elements: int  #: elements one copy moves

    @property
    def pieces(self) -> int:
        return self.columns // self.elements

    @property
    def pass_rows(self) -> int:
        return self.threads // self.pieces

    @property
    def passes(self) -> int:
        return self.rows // self.pass_rows

    def row(self, k: Any, item: int) -> Any:
        """This thread's row in a pass, ordered so that the 128 bytes written at a time lie in distinct banks.

        When a row is shorter than 128 bytes, that is several rows; with a pitch of an odd number of
        16-byte pieces, rows that lie (pieces of 16 bytes a row) apart do not share banks.
        """
        j = k.thread_idx.x // self.pieces
        apart = self.columns * item // COPY_BYTES
        if apart >= 8 or self.pass_rows < 8:
            return j
        together = 8 // apart
        return (j & ~7) | ((j & (together - 1)) * apart) | ((j & 7) // together)

    def column(self, k: Any) -> Any:
        """This thread's first element in the row."""
        return (k.thread_idx.x % self.pieces) * self.elements


class Slice:
    """One operand's way from memory to shared memory, slice after slice."""

    def __init__(self, k: Any, plan: Plan, source: Any, tile: Any, copies: Copies, pitch: int, base: int) -> None:
        self.k, self.plan, self.source, self.tile = k, plan, source, tile
        self.copies, self.pitch, self.base = copies, pitch, base
        self.row, self.column = copies.row(k, plan.item), copies.column(k)

    def shared_index(self, p: int, slot: Any) -> Any:
        """Where pass `p` of this thread goes in the buffer at `slot`."""
        return slot + (self.row * self.pitch + self.column) + (self.base + p * self.copies.pass_rows * self.pitch)

    def move(self, p: int, slot: Any, index: Any, inside: Any) -> tuple[Any, Any] | None:
        """Start the copy of pass `p` from `index`; zeros when not `inside`.

        Returns what is left to store when the copy goes through a register.
        """
        at = self.shared_index(p, slot)
        if self.copies.elements * self.plan.item >= 4:
            size = self.copies.elements * self.plan.item
            self.k.async_copy(self.tile, at, self.source, index, bytes=size, pred=inside)
            return None
        return at, self.source.load(index, where=inside)


@sim.kernel
def gemm_kernel(k: Any, a: Any, b: Any, c: Any, m: Any, n: Any, depth: Any, *, plan: Plan) -> None:
    """C = A B, row-major; a block a tile of C."""
    tile = k.shared_dynamic(a.dtype)
    threads = plan.warps * 32
    row0, column0 = k.block_idx.y * plan.bm, k.block_idx.x * plan.bn

    a_copies = Copies(threads, plan.bk, plan.bm, plan.a_copy // plan.item)
    b_copies = Copies(threads, plan.bn, plan.bk, plan.b_copy // plan.item)
    a_slice = Slice(k, plan, a, tile, a_copies, plan.a_pitch, 0)
    b_slice = Slice(k, plan, b, tile, b_copies, plan.b_pitch, plan.bm * plan.a_pitch)
    # Rows and columns past the edge repeat the last one: what they add to C is never stored.
    a_start = [
        k.min(row0 + a_slice.row + p * a_copies.pass_rows, m - 1) * depth + a_slice.column
        for p in range(a_copies.passes)
    ]
    b_column = k.min(column0 + b_slice.column, n - b_copies.elements)
    b_start = [(b_slice.row + p * b_copies.pass_rows) * n + b_column for p in range(b_copies.passes)]

    def start_a(slot: Any, step: Any) -> list[Any]:
        """Copy the slice of A at depth `step`; past the end of the matrix, zeros."""
        inside = step + a_slice.column < depth
        moves = [a_slice.move(p, slot, a_start[p] + step, inside) for p in range(a_copies.passes)]
        return [move for move in moves if move is not None]

    def start_b(slot: Any, step: Any) -> list[Any]:
        """Copy the slice of B at depth `step`; past the end of the matrix, zeros."""
        moves = []
        for p in range(b_copies.passes):
            inside = step + b_slice.row + p * b_copies.pass_rows < depth
            moves.append(b_slice.move(p, slot, b_start[p] + step * n, inside))
        return [move for move in moves if move is not None]

    def finish(moves: list[Any]) -> None:
        for at, value in moves:
            tile[at] = value

    for stage in range(plan.stages - 1):
        slot = stage * plan.stage_elements
        finish(start_a(slot, stage * plan.bk))
        finish(start_b(slot, stage * plan.bk))
        k.async_commit()

    acc = [[[k.var(0.0) for _ in range(4)] for _ in range(plan.wn // N)] for _ in range(plan.wm // M)]
    reading = k.var(0)  # the buffer that holds this slice
    writing = k.var((plan.stages - 1) * plan.stage_elements)  # the buffer that the last slice left
    for k0 in k.range_(0, depth, plan.bk, unroll=1):
        k.async_wait(plan.stages - 2)
        k.syncthreads()
        ahead = k0 + (plan.stages - 1) * plan.bk
        steps = plan.bk // plan.mma_k
        left = start_a(writing, ahead)
        for step in range(steps):
            multiply(k, plan, tile, reading, step * plan.mma_k, acc)
            if step == 0:
                finish(left)
                left = start_b(writing, ahead)
        finish(left)
        k.async_commit()
        writing.set(reading)
        following = reading + plan.stage_elements
        reading.set(k.select(following == plan.stages * plan.stage_elements, 0, following))

    store(k, plan, c, acc, row0, column0, m, n)


def multiply(k: Any, plan: Plan, tile: Any, slot: Any, step: int, acc: list[Any]) -> None:
    """Add this warp's products at depth `step` of the buffer at `slot` to `acc`."""
    lane, warp = k.thread_idx.x & 31, k.thread_idx.x >> 5
    warp_row, warp_column = (warp // plan.warps_n) * plan.wm, (warp % plan.warps_n) * plan.wn
    eight = COPY_BYTES // plan.item  # elements of a row of an 8 x 16-byte matrix
    a_at = slot + ((warp_row + (lane & 15)) * plan.a_pitch + (lane >> 4) * eight)
    halves, scale = tile.view(np.uint16), plan.item // 2  # ldmatrix moves 16 bytes a row, whatever they hold
    fragments_a = [k.ldmatrix(halves, (a_at + (i * M * plan.a_pitch + step)) * scale) for i in range(plan.wm // M)]
    fragments_b = b_fragments(k, plan, tile, slot, step, lane, warp_column)
    shape = f"m{M}n{N}k{plan.mma_k}"
    for i, fragment_a in enumerate(fragments_a):
        for j, fragment_b in enumerate(fragments_b):
            result = k.mma(fragment_a, fragment_b, tuple(acc[i][j]), shape, MMA_TYPES[plan.dtype])
            for old, new in zip(acc[i][j], result, strict=True):
                old.set(new)


def b_fragments(k: Any, plan: Plan, tile: Any, slot: Any, step: int, lane: Any, warp_column: Any) -> list[Any]:
    """This warp's fragments of B, one for each 8 columns."""
    base = plan.bm * plan.a_pitch + step * plan.b_pitch
    if plan.dtype == "tf32":
        at = slot + ((lane & 3) * plan.b_pitch + (lane >> 2) + warp_column)
        words = [tile[at + (base + j * N + half * 4 * plan.b_pitch)] for j in range(plan.wn // N) for half in (0, 1)]
        return [tuple(words[j : j + 2]) for j in range(0, len(words), 2)]
    at = slot + ((lane & 15) * plan.b_pitch + (lane >> 4) * 8 + warp_column)
    fragments = []
    for j in range(plan.wn // (2 * N)):
        four = k.ldmatrix(tile, at + (base + j * 2 * N), transposed=True)
        fragments += [four[:2], four[2:]]
    return fragments


def store(k: Any, plan: Plan, c: Any, acc: list[Any], row0: Any, column0: Any, m: Any, n: Any) -> None:
    """Write this warp's part of the tile to C; a tile inside the matrix needs no further test."""
    lane, warp = k.thread_idx.x & 31, k.thread_idx.x >> 5
    row = row0 + (warp // plan.warps_n) * plan.wm + (lane >> 2)
    column = column0 + (warp % plan.warps_n) * plan.wn + (lane & 3) * 2
    rows = [(row + i * M + half * 8, half, acc[i]) for i in range(plan.wm // M) for half in (0, 1)]

    words, pairs_a_row, pair0 = c.view(np.uint32), n // 2, column // 2

    def put(r: Any, j: int, values: list[Any]) -> None:
        """Two neighbours of row `r`, the `j`-th pair of columns 8 apart."""
        low, high = values
        if plan.pair_stores and plan.item == 2:
            words[r * pairs_a_row + pair0 + j * (N // 2)] = k.pack(low, high, c.dtype)
        elif plan.pair_stores:
            c.store(r * n + column + j * N, (low, high))
        else:
            c[r * n + column + j * N] = low.astype(c.dtype)
            c[r * n + column + (j * N + 1)] = high.astype(c.dtype)

    with k.if_((row0 + plan.bm <= m) & (column0 + plan.bn <= n)):
        for r, half, tiles in rows:
            for j, values in enumerate(tiles):
                put(r, j, values[2 * half : 2 * half + 2])
    with k.else_():
        for r, half, tiles in rows:
            with k.if_(r < m):
                for j, values in enumerate(tiles):
                    with k.if_(column + (j * N + 1) < n):
                        put(r, j, values[2 * half : 2 * half + 2])
                    if not plan.pair_stores:
                        with k.if_(column + (j * N + 1) == n):
                            c[r * n + column + j * N] = values[2 * half].astype(c.dtype)


def _copy_bytes(elements: int, item: int) -> int:
    """Widest copy, in bytes, at which every row of `elements` elements starts aligned."""
    return math.gcd(elements * item, COPY_BYTES)


def gemm(
    n: int,
    m: int | None = None,
    k: int | None = None,
    tile: tuple[int, int, int] | tuple[int, int] = (256, 128, 32),
    dtype: str = "bf16",
    stages: int = 3,
) -> Launch:
    """C [`m`, `n`] = A [`m`, `k`] B [`k`, `n`] on tensor cores, float32 sums; `m` and `k` default to `n`.

    `tile` is the block's rows and columns of C and the depth of a slice; `stages`
    the number of slices in shared memory. C has the type of A and B (float32 for
    tf32). A and B hold small whole numbers, so sums are exact in any order.
    """
    m, k = n if m is None else m, n if k is None else k
    require_positive(n=n, m=m, k=k)
    require_choice("dtype", dtype, tuple(DTYPES))
    bm, bn, bk = (*tile, 32)[:3]
    check_tile(bm, bn, bk, stages)
    item = 4 if dtype == "tf32" else 2
    plan = Plan(bm, bn, bk, dtype, stages, _copy_bytes(k, item), _copy_bytes(n, item), n % 2 == 0)
    a, b = small_integers(m * k), small_integers(k * n, seed=8)
    stored = DTYPES[dtype]
    a_in, b_in = a.astype(stored), b.astype(stored)

    def right() -> dict[str, np.ndarray]:
        return {"c": (a.reshape(m, k) @ b.reshape(k, n)).astype(stored).ravel()}

    grid = (blocks_for(n, bn), blocks_for(m, bm))
    launch = gemm_kernel.launch(
        grid,
        plan.warps * 32,
        args=(a_in, b_in, sim.zeros(m * n, stored), m, n, k),
        constants={"plan": plan},
        shared_bytes=plan.shared_bytes,
    )
    return launch.with_(
        name="matmul.gemm",
        params={"n": n, "m": m, "k": k, "tile": f"{bm}x{bn}x{bk}", "dtype": dtype, "stages": stages},
        expected=right,
        flops=2.0 * m * n * k,
        facts={"tiles": grid[0] * grid[1]},
        rtol=0.0,
        atol=0.0,
    )


def check_tile(bm: int, bn: int, bk: int, stages: int) -> None:
    """Raise `ValueError` for a tile that the kernel has no code for."""
    if bm not in (64, 128, 256) or bn not in (64, 128, 256) or bk not in (16, 32, 64):
        raise ValueError(f"tile={bm}x{bn}x{bk}: rows and columns must be 64, 128 or 256, the depth 16, 32 or 64")
    if bm * bn > 256 * 128:
        raise ValueError(f"tile={bm}x{bn}: its sums need more than 128 registers a thread; use at most 256x128")
    if not 2 <= stages <= 8:
        raise ValueError(f"stages={stages}: must be from 2 to 8")
