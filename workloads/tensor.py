"""The tensor-core matrix product: a tile a block, asynchronous copies to shared memory, ldmatrix and mma.

Each block computes a tile of C. Slices of A and B of depth `bk` pass through a ring
of `stages` shared buffers: while the tensor cores work on one slice, later ones are
on their way. `workloads.slices` says what misaligned rows cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

import sim
from sim.launch import Launch
from workloads.data import blocks_for, require_choice, require_positive, small_integers, workload
from workloads.slices import PIECE_BYTES, Copies, Slice

#: What A and B are stored as, by name.
DTYPES = {"bf16": np.dtype(bfloat16), "f16": np.dtype(np.float16), "tf32": np.dtype(np.float32)}
MMA_TYPES = {"bf16": "bfloat16", "f16": "float16", "tf32": "tf32"}
M, N = 16, 8  #: rows and columns of one mma
EIGHT_WARPS = 128 * 128  #: elements of a tile from which on a block has eight warps, not four
MOST_ELEMENTS = 256 * 128  #: of a tile: 128 sums a thread

Fragments = tuple[list[Any], list[Any]]  #: of A, one for 16 rows; of B, one for 8 columns


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
        return DTYPES[self.dtype].itemsize

    @property
    def warps(self) -> int:
        return 8 if self.bm * self.bn >= EIGHT_WARPS else 4

    @property
    def warps_n(self) -> int:
        """Warps side by side; the others lie below each other. The squarest warp tile reads least."""
        options = [w for w in (1, 2, 4, 8) if self.warps % w == 0 and self.bn % (w * 2 * N) == 0]
        return min(options, key=lambda w: abs(self.bn // w - self.bm * w // self.warps))

    @property
    def wm(self) -> int:
        """Rows of C that a warp computes."""
        return self.bm * self.warps_n // self.warps

    @property
    def wn(self) -> int:
        """Columns of C that a warp computes."""
        return self.bn // self.warps_n

    @property
    def mma_k(self) -> int:
        """Depth of one mma."""
        return 32 // self.item

    @property
    def a_pitch(self) -> int:
        """Elements from row to row of the A slice: an odd number of 16-byte pieces, so that 8 rows use all banks."""
        return self.bk + PIECE_BYTES // self.item

    @property
    def b_pitch(self) -> int:
        """As `a_pitch`; for tf32, 8 words past a multiple of 32, as its fragments are read word by word."""
        return self.bn + 8

    @property
    def stage_elements(self) -> int:
        """Elements of one shared buffer: a slice of A, then one of B."""
        return self.bm * self.a_pitch + self.bk * self.b_pitch

    @property
    def shared_bytes(self) -> int:
        return self.stages * self.stage_elements * self.item


@sim.kernel
def gemm_kernel(k: Any, a: Any, b: Any, c: Any, m: Any, n: Any, depth: Any, *, plan: Plan) -> None:
    """C = A B, row-major; a block a tile of C."""
    tile = k.shared_dynamic(a.dtype)
    row0, column0 = k.block_idx.y * plan.bm, k.block_idx.x * plan.bn
    copying = Copying(k, plan, (a, b), tile, (row0, column0), (m, n, depth))
    for stage in k.range_(plan.stages - 1, unroll=1):
        copying.finish(copying.start(0, 1, stage * plan.stage_elements, stage * plan.bk))
        k.async_commit()

    sums = [[[k.var(0.0) for _ in range(4)] for _ in range(plan.wn // N)] for _ in range(plan.wm // M)]
    reading = k.var(0)  # the buffer of this slice
    writing = k.var((plan.stages - 1) * plan.stage_elements)  # the buffer that the slice before has left
    steps = plan.bk // plan.mma_k
    for k0 in k.range_(0, depth, plan.bk, unroll=1):
        k.async_wait(plan.stages - 2)
        k.syncthreads()
        for step in range(steps):
            fragments = load_fragments(k, plan, tile, reading, step)
            left = copying.start(step, steps, writing, k0 + (plan.stages - 1) * plan.bk)
            multiply(k, plan, fragments, sums)
            copying.finish(left)
        k.async_commit()
        writing.set(reading)
        following = reading + plan.stage_elements
        reading.set(k.select(following == plan.stages * plan.stage_elements, 0, following))
    store(k, plan, c, sums, (row0, column0), (m, n))


def set_all(variables: Any, values: Any) -> None:
    """Make each variable hold its value."""
    for variable, value in zip(variables, values, strict=True):
        variable.set(value)


class Copying:
    """The copies of A's and B's slices that a thread makes."""

    def __init__(self, k: Any, plan: Plan, sources: Any, tile: Any, corner: Any, sizes: Any) -> None:
        (a, b), (row0, column0), (m, n, depth) = sources, corner, sizes
        threads = plan.warps * 32
        a_copies = Copies(threads, plan.bk, plan.bm, plan.item, plan.a_copy)
        b_copies = Copies(threads, plan.bn, plan.bk, plan.item, plan.b_copy)
        self.plan, self.n, self.depth = plan, n, depth
        self.a = Slice(k, a, tile, a_copies, plan.a_pitch, 0)
        self.b = Slice(k, b, tile, b_copies, plan.b_pitch, plan.bm * plan.a_pitch)
        # Rows of A past the edge repeat the last one: what they add to C is never stored.
        rows = [k.min(row0 + self.a.row_of(p), m - 1) for p in range(a_copies.passes)]
        self.a_start = [row * depth + self.a.column for row in rows]
        self.b_column = column0 + self.b.column
        self.b_start = [self.b.row_of(p) * n + self.b_column for p in range(b_copies.passes)]
        self.columns_inside = column0 + plan.bn <= n

    def start(self, share: int, shares: int, slot: Any, step: Any) -> list[tuple[Slice, list[Any]]]:
        """Start one of `shares` shares of copying the slices at depth `step` to the buffer at `slot`.

        Returns what is left for `finish`.
        """
        pieces = [(self.a, p) for p in range(len(self.a_start))] + [(self.b, p) for p in range(len(self.b_start))]
        mine = pieces[share * len(pieces) // shares : (share + 1) * len(pieces) // shares]
        of_a, of_b = ([p for owner, p in mine if owner is each] for each in (self.a, self.b))
        left = []
        if of_a:
            index = [at + step for at in self.a_start]
            whole = step + self.plan.bk <= self.depth
            left.append((self.a, self.a.start(of_a, slot, index, lambda _, j: self._in_a(step, j), whole)))
        if of_b:
            index = [at + step * self.n for at in self.b_start]
            whole = (step + self.plan.bk <= self.depth) & self.columns_inside
            left.append((self.b, self.b.start(of_b, slot, index, lambda p, j: self._in_b(step, p, j), whole)))
        return left

    def _in_a(self, step: Any, j: int) -> Any:
        return step + (self.a.column + j) < self.depth

    def _in_b(self, step: Any, p: int, j: int) -> Any:
        return (step + self.b.row_of(p) < self.depth) & (self.b_column + j < self.n)

    def finish(self, left: list[tuple[Slice, list[Any]]]) -> None:
        """Store what `start` left in registers."""
        for owner, pieces in left:
            owner.finish(pieces)


def warp_corner(k: Any, plan: Plan) -> tuple[Any, Any]:
    """First row and column of the tile that this thread's warp computes."""
    warp = k.thread_idx.x >> 5
    return (warp // plan.warps_n) * plan.wm, (warp % plan.warps_n) * plan.wn


def load_fragments(k: Any, plan: Plan, tile: Any, slot: Any, step: int) -> Fragments:
    """This warp's fragments for one step of the buffer at `slot`."""
    lane, (warp_row, warp_column) = k.thread_idx.x & 31, warp_corner(k, plan)
    depth = step * plan.mma_k
    halves, scale = tile.view(np.uint16), plan.item // 2  # ldmatrix moves rows of 16 bytes, whatever they hold
    at = slot + ((warp_row + (lane & 15)) * plan.a_pitch + (lane >> 4) * (PIECE_BYTES // plan.item))
    of_a = [k.ldmatrix(halves, (at + (i * M * plan.a_pitch + depth)) * scale) for i in range(plan.wm // M)]
    base = plan.bm * plan.a_pitch + depth * plan.b_pitch
    of_b: list[Any] = []
    if plan.dtype == "tf32":
        words = tile.view(np.uint32)
        at = slot + ((lane & 3) * plan.b_pitch + (lane >> 2) + warp_column)
        for j in range(plan.wn // N):
            of_b.append(tuple(words[at + (base + j * N + half * 4 * plan.b_pitch)] for half in (0, 1)))
        return of_a, of_b
    at = slot + ((lane & 15) * plan.b_pitch + (lane >> 4) * 8 + warp_column)
    for j in range(plan.wn // (2 * N)):
        four = k.ldmatrix(halves, at + (base + j * 2 * N), transposed=True)
        of_b += [four[:2], four[2:]]
    return of_a, of_b


def multiply(k: Any, plan: Plan, fragments: Fragments, sums: list[list[list[Any]]]) -> None:
    """Add the products of a step's fragments to the sums."""
    shape = f"m{M}n{N}k{plan.mma_k}"
    for i, of_a in enumerate(fragments[0]):
        for j, of_b in enumerate(fragments[1]):
            set_all(sums[i][j], k.mma(of_a, of_b, tuple(sums[i][j]), shape, MMA_TYPES[plan.dtype]))


def store(k: Any, plan: Plan, c: Any, sums: list[list[list[Any]]], corner: Any, sizes: Any) -> None:
    """Write this warp's part of the tile to C; a tile inside the matrix needs no further test."""
    (row0, column0), (m, n) = corner, sizes
    lane, (warp_row, warp_column) = k.thread_idx.x & 31, warp_corner(k, plan)
    row = row0 + warp_row + (lane >> 2)
    column = column0 + warp_column + (lane & 3) * 2
    rows = [(row + i * M + half * 8, half, sums[i]) for i in range(plan.wm // M) for half in (0, 1)]
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


@workload
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
    stored = DTYPES[dtype]
    plan = Plan(bm, bn, bk, dtype, stages, copy_bytes(k, stored), copy_bytes(n, stored), n % 2 == 0)
    check_tile(plan)
    a, b = small_integers(m * k), small_integers(k * n, seed=8)

    def right() -> dict[str, np.ndarray]:
        return {"c": (a.reshape(m, k) @ b.reshape(k, n)).astype(stored).ravel()}

    grid = (blocks_for(n, bn), blocks_for(m, bm))
    launch = gemm_kernel.launch(
        grid,
        plan.warps * 32,
        args=(a.astype(stored), b.astype(stored), sim.zeros(m * n, stored), m, n, k),
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


def copy_bytes(elements: int, dtype: np.dtype) -> int:
    """The widest copy, in bytes, at which every row of `elements` elements starts aligned."""
    return math.gcd(elements * dtype.itemsize, PIECE_BYTES)


def check_tile(plan: Plan) -> None:
    """Raise `ValueError` for a tile that the kernel has no code for."""
    bm, bn, bk = plan.bm, plan.bn, plan.bk
    if bm not in (64, 128, 256) or bn not in (64, 128, 256) or bk not in (16, 32, 64):
        raise ValueError(f"tile={bm}x{bn}x{bk}: rows and columns must be 64, 128 or 256, the depth 16, 32 or 64")
    if bm * bn > MOST_ELEMENTS:
        raise ValueError(f"tile={bm}x{bn}: its sums need more than 128 registers a thread; use at most 256x128")
    if min(bm, bn) * bk * plan.item // PIECE_BYTES < plan.warps * 32:
        raise ValueError(f"tile={bm}x{bn}x{bk}: a slice is less than a piece a thread; use a deeper slice")
    if not 2 <= plan.stages <= 8:
        raise ValueError(f"stages={plan.stages}: must be from 2 to 8")
