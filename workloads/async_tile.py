"""The matrix product C = A B as Triton compiles it for Hopper: asynchronous copies, wgmma, a tile a block.

Threads copy slices of A and B to shared memory, 16 bytes at a time and swizzled as wgmma wants them, while the tensor
cores work on slices that have come. B's rows are read as they are: its numbers lie along n. A finished tile passes
through shared memory, so that each warp stores whole rows. Where rows do not begin at multiples of 16 bytes nothing of
that is possible: each number is loaded by itself, one slice at a time, and stored by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

import sim
from sim.launch import Launch
from workloads.data import blocks_for, require_choice, require_positive, workload
from workloads.fusions import Fusion
from workloads.tiles import WARPGROUP, M, eighths, store, tile_corner

DTYPES = {"bf16": np.dtype(bfloat16), "f16": np.dtype(np.float16)}
BK = 64  #: numbers of a slice's row: the 128 bytes of a swizzled row
PIECE = 8  #: numbers of 16 bytes
STEPS = 4  #: products of 16 numbers of k that take a slice
ITEM = 2  #: bytes of a number


@dataclass(frozen=True)
class Plan:
    """What the kernel knows at compile time."""

    bm: int
    bn: int
    stages: int
    group: int
    dtype: str
    edges: bool
    aligned: bool  #: rows of A, B and C begin at multiples of 16 bytes

    rows = M  #: of the tile that one warpgroup computes
    pairs = False  #: whether C is stored two numbers at once, where it is not stored in pieces
    fusion = Fusion()

    @property
    def threads(self) -> int:
        return self.bm // M * WARPGROUP

    @property
    def boxes(self) -> int:
        """Of B's slice: 64 columns of 64 rows each."""
        return self.bn // BK

    @property
    def a_passes(self) -> int:
        """Pieces of A's slice that a thread copies."""
        return self.bm * BK // PIECE // self.threads

    @property
    def b_pieces(self) -> int:
        """Pieces of a row of B's slice."""
        return self.bn // PIECE

    @property
    def b_rows(self) -> int:
        """Rows of B's slice that the block copies in one pass."""
        return self.threads // self.b_pieces

    @property
    def b_passes(self) -> int:
        return BK // self.b_rows


class Copies:
    """The pieces of A's and B's slices that a thread copies, and where they go in shared memory.

    The pieces of each 128 bytes are swapped by the row's lowest three bits, as wgmma's 128-byte swizzle has them.
    Rows and columns of the tile past the edge wrap: what they add to C is never stored.
    """

    def __init__(self, k: Any, plan: Plan, sources: Any, shared: Any, corner: Any, sizes: Any) -> None:
        (m, n, depth), (row0, column0), thread = sizes, corner, k.thread_idx.x
        self.k, self.plan, self.sources, self.shared, self.depth, self.n = k, plan, sources, shared, depth, n
        self.a_row, self.a_piece = thread // (BK // PIECE), thread % (BK // PIECE)
        self.a_rows = plan.threads // (BK // PIECE)  # that the block copies in one pass
        rows = [k.divmod_truncating(row0 + (self.a_row + p * self.a_rows), m)[1] for p in range(plan.a_passes)]
        self.a_start = [row * depth + self.a_piece * PIECE for row in rows]
        self.b_row, self.b_piece = thread // plan.b_pieces, thread % plan.b_pieces
        column = column0 + self.b_piece * PIECE
        self.b_columns = [k.divmod_truncating(column + j, n)[1] for j in range(1 if plan.aligned else PIECE)]

    def a_place(self, p: int, slot: Any) -> Any:
        """Index of the piece of pass `p` of A in stage `slot`."""
        return (slot, self.a_row + p * self.a_rows, (self.a_piece ^ (self.a_row & 7)) * PIECE)

    def b_place(self, p: int, slot: Any) -> Any:
        """As `a_place`, of B."""
        passed = p * self.plan.b_rows
        piece = (self.b_piece & 7) ^ ((self.b_row + passed % 8) & 7)
        return (slot * self.plan.boxes + self.b_piece // 8, self.b_row + passed, piece * PIECE)

    def start(self, step: Any, slot: Any) -> None:
        """Start copying slice `step` to stage `slot`: A's pieces, then B's, a group each. Zeros past the depth."""
        k, left, (a, b), (tile_a, tile_b) = self.k, self.depth - step * BK, self.sources, self.shared
        for p, start in enumerate(self.a_start):
            k.async_copy(tile_a, self.a_place(p, slot), a, start + step * BK, 16, self.a_piece * PIECE < left)
        k.async_commit()
        for p in range(self.plan.b_passes):
            row = self.b_row + p * self.plan.b_rows
            at = (step * BK + row) * self.n + self.b_columns[0]
            k.async_copy(tile_b, self.b_place(p, slot), b, at, 16, row < left)
        k.async_commit()

    def load(self, step: Any) -> list[tuple[Any, Any, Any]]:
        """Load the numbers of slice `step`, each by itself: shared array, index there, number."""
        left, numbers = self.depth - step * BK, []
        (a, b), (tile_a, tile_b) = ([x.view(np.uint16) for x in arrays] for arrays in (self.sources, self.shared))
        for p, start in enumerate(self.a_start):
            place = flat(self.shared[0], self.a_place(p, 0))
            for j in range(PIECE):
                number = a.load(start + step * BK + j, where=self.a_piece * PIECE + j < left)
                numbers.append((tile_a, place + j, number))
        for p in range(self.plan.b_passes):
            row, place = self.b_row + p * self.plan.b_rows, flat(self.shared[1], self.b_place(p, 0))
            for j, column in enumerate(self.b_columns):
                number = b.load((step * BK + row) * self.n + column, where=row < left)
                numbers.append((tile_b, place + j, number))
        return numbers


def multiply(k: Any, shared: Any, plan: Plan, slot: Any, sums: Any) -> None:
    """Start the products of the slice in stage `slot`."""
    left = k.smem_matrix(shared[0], (slot, k.thread_idx.x // WARPGROUP * M))
    right = k.smem_matrix(shared[1], slot * plan.boxes, major="mn")
    k.fence_async()
    k.wgmma_fence()
    for step in range(STEPS):
        k.wgmma(sums, left.step(step), right.step(step))
    k.wgmma_commit()


def pipelined(k: Any, plan: Plan, copies: Copies, slices: Any, sums: Any) -> None:
    """All products, while the next `stages` - 1 slices are on their way."""
    ahead = plan.stages - 1
    for step in range(ahead):
        copies.start(step, step)
    reading, writing = k.var(0), k.var(ahead)

    def following(slot: Any) -> Any:
        return k.select(slot + 1 == plan.stages, 0, slot + 1)

    for step in k.range_(slices, unroll=1):
        k.async_wait(2 * (ahead - 1))
        k.syncthreads()
        multiply(k, copies.shared, plan, reading, sums)
        k.wgmma_wait(1)
        k.syncthreads()
        copies.start(step + ahead, writing)
        reading.set(following(reading))
        writing.set(following(writing))


def through_registers(k: Any, plan: Plan, copies: Copies, slices: Any, sums: Any) -> None:
    """All products, a slice at a time, number by number."""
    for step in k.range_(slices, unroll=1):
        for tile, place, number in copies.load(step):
            tile[place] = number
        k.syncthreads()
        multiply(k, copies.shared, plan, 0, sums)
        k.wgmma_wait()
        k.syncthreads()


def flat(tile: Any, place: Any) -> Any:
    """The index of an element in the one-dimensional view of a shared array."""
    slot, row, column = place
    return (slot * tile.shape[1] + row) * tile.shape[2] + column


def store_rows(k: Any, plan: Plan, sums: Any, through: Any, c: Any, corner: Any, sizes: Any) -> None:
    """Store a tile in pieces of 16 bytes, so that a warp's lanes have neighbouring pieces of the same row.

    Of eight rows at a time, each thread puts the pairs of four products' columns side by side in shared memory;
    ldmatrix then gives it the four pairs of one piece.
    """
    (m, n), (row0, column0) = sizes, corner
    lane, warp = k.thread_idx.x % 32, k.thread_idx.x // 32
    row, pair, pieces = lane // 4, lane % 4, plan.b_pieces
    words = through.view(np.uint32)
    mine = warp * (8 * plan.bn // 2)  # words of the warp's eight rows
    of_matrix, of_row = lane // 8, lane % 8
    first_row, piece = lane // pieces, lane % pieces

    def unit(number: Any, matrix: Any, swap: Any) -> Any:
        """Index of the `number`-th four words of a pair's column, their places swapped to spread over the banks."""
        return mine + (number // 8 * 32 + matrix * 8 + ((number % 8) ^ swap)) * 4

    def swap(matrix: Any, r: Any) -> Any:
        if pieces == 32:
            return matrix | (r & 1) << 2
        return matrix if pieces == 16 else (matrix & 1) | (matrix & 2) << 1

    for half in (0, 1):
        k.syncthreads()
        for four in range(pieces // 4):
            firsts = [16 * four + 4 * j + 2 * half for j in range(4)]
            number = row * (pieces // 4) + four
            words.store(unit(number, pair, swap(pair, row)), [k.pack(sums[i], sums[i + 1], c.dtype) for i in firsts])
        k.syncthreads()
        for number in range(pieces // 4):
            at_row = number * 8 // (pieces // 4)
            at = unit(number * 8 + of_row, of_matrix, swap(of_matrix, at_row))
            piece_words = k.ldmatrix(through, at * 2)
            r = row0 + warp * 16 + half * 8 + at_row + first_row
            q = column0 + piece * PIECE
            with k.if_((r < m) & (q < n)):
                c.view(np.uint32).store((r * n + q) // 2, piece_words)


@sim.kernel
def async_tile_kernel(k: Any, a: Any, b: Any, c: Any, m: Any, n: Any, depth: Any, *, plan: Plan) -> None:
    """C = A B, row-major; a block a tile of C."""
    stages = plan.stages if plan.aligned else 1
    shared = (
        k.shared((stages, plan.bm, BK), a.dtype, align=1024),
        k.shared((stages * plan.boxes, BK, BK), a.dtype, align=1024),
    )
    tiles_m, tiles_n = (m + (plan.bm - 1)) // plan.bm, (n + (plan.bn - 1)) // plan.bn
    tile_row, tile_column = tile_corner(k, k.block_idx.x, tiles_m, tiles_n, plan.group)
    corner = (tile_row * plan.bm, tile_column * plan.bn)
    copies = Copies(k, plan, (a, b), shared, corner, (m, n, depth))
    slices = (depth + (BK - 1)) // BK
    sums = k.wgmma_sums(plan.bn)
    sums.zero()
    if plan.aligned:
        pipelined(k, plan, copies, slices, sums)
        k.wgmma_wait()
        k.async_wait()
        store_rows(k, plan, sums, shared[1].view(a.dtype), c, corner, (m, n))
    else:
        through_registers(k, plan, copies, slices, sums)
        warpgroup = k.thread_idx.x // WARPGROUP
        store(k, plan, [sums], c, 0, (corner[0] + warpgroup * M, corner[1]), (m, n))


@workload
def async_tile(
    m: int,
    n: int | None = None,
    k: int | None = None,
    tile: tuple[int, int, int] = (128, 256, 64),
    warps: int = 8,
    stages: int = 3,
    group: int = 8,
    dtype: str = "bf16",
) -> Launch:
    """C [`m`, `n`] = A [`m`, `k`] B [`k`, `n`] as Triton compiles it: a `tile` a block of `warps` / 4 warpgroups.

    `n` and `k` default to `m`. `stages` slices of k lie in shared memory; tiles go down `group` rows of tiles, then to
    the next column. Where `n` or `k` is no multiple of 8, rows are not aligned and all goes number by number. `dtype`:
    "bf16" or "f16", with float32 sums.
    """
    n, k = m if n is None else n, m if k is None else k
    require_positive(m=m, n=n, k=k, group=group)
    require_choice("dtype", dtype, tuple(DTYPES))
    bm, bn, bk = tile
    check_tile(bm, bn, bk, warps, stages)
    stored = DTYPES[dtype]
    plan = Plan(bm, bn, stages, group, dtype, m % bm > 0 or n % bn > 0, n % PIECE == 0 and k % PIECE == 0)
    a, b = eighths((m, k), stored, seed=7), eighths((k, n), stored, seed=8)

    def right() -> dict[str, np.ndarray]:
        return {"c": (a.astype(np.float32) @ b.astype(np.float32)).astype(stored)}

    tiles = blocks_for(m, bm) * blocks_for(n, bn)
    args = (a.ravel(), b.ravel(), sim.zeros((m, n), stored), m, n, k)
    return async_tile_kernel.launch(tiles, plan.threads, args=args, constants={"plan": plan}).with_(
        name="gemm.async_tile",
        params={
            "m": m, "n": n, "k": k, "tile": f"{bm}x{bn}x{bk}", "warps": warps, "stages": stages, "group": group,
            "dtype": dtype,
        },
        expected=right,
        flops=2.0 * m * n * k,
        facts={"tiles": tiles},
        rtol=0.0,
        atol=0.0,
    )  # fmt: skip


def check_tile(bm: int, bn: int, bk: int, warps: int, stages: int) -> None:
    """Raise `ValueError` for a tile that the kernel has no code for."""
    if bm not in (64, 128) or bn not in (64, 128, 256) or bk != BK:
        raise ValueError(f"tile={bm}x{bn}x{bk}: rows must be 64 or 128, columns 64, 128 or 256, the depth {BK}")
    if warps != bm // M * 4:
        raise ValueError(f"warps={warps}: four warps share 64 rows of the tile, so {bm // M * 4} are needed")
    if not 2 <= stages <= 8:
        raise ValueError(f"stages={stages}: must be from 2 to 8")
