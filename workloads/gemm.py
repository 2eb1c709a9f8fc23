"""Hopper's matrix products C = A B^T by TMA and wgmma: three schedules of the same tile.

Slices of A and B of 128 bytes of k pass through a ring of stages in shared memory, which TMA
fills and the tensor cores read. `basic` has a tile a block: while it stores C its tensor cores
idle. `cooperative` keeps blocks for many tiles: a warpgroup of its own loads ahead for the next
tile while two others store this one. `pingpong` gives those two a tile each, and passes the
tensor cores between them: one multiplies while the other stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ml_dtypes import bfloat16, float8_e4m3fn, float8_e5m2

import sim
from sim.launch import Launch
from workloads.async_tile import async_tile
from workloads.data import blocks_for, require_choice, require_positive, workload
from workloads.fusions import Fusion, fusion, relative_error
from workloads.tiles import WARPGROUP, M, eighths, store, tile_corner

__all__ = ["async_tile", "basic", "cooperative", "pingpong"]

#: name of a type -> what A and B are stored as, the sums, C
DTYPES: dict[str, tuple[Any, Any, Any]] = {
    "bf16": (bfloat16, np.float32, bfloat16),
    "f16": (np.float16, np.float32, np.float16),
    "tf32": (np.float32, np.float32, np.float32),
    "e4m3": (float8_e4m3fn, np.float32, bfloat16),
    "e5m2": (float8_e5m2, np.float32, bfloat16),
    "s8": (np.int8, np.int32, np.int32),
}
ROW_BYTES = 128  #: of a slice: one row of the widest swizzle
STEPS = 4  #: products of 32 bytes of k that take a slice
GROUP = 16  #: rows of tiles that are walked together, column by column, so that L2 holds what they share
ROW_ALIGNMENT = 16  #: bytes, of rows that TMA copies
MOST_SUMS = 128  #: registers of a thread
LAUNCH_REGISTERS = 168  #: of a thread of three warpgroups
LOAD_REGISTERS, COMPUTE_REGISTERS = 40, 232  #: once the loading warpgroup has given its own away
LAUNCH_SMS = 132  #: of an H200: as many persistent blocks


@dataclass(frozen=True)
class Plan:
    """What a kernel knows at compile time."""

    bm: int
    bn: int
    dtype: str
    stages: int
    together: int  #: warpgroups that share a tile
    edges: bool  #: some tiles reach past C
    pairs: bool  #: C's columns come in pairs that a thread can store at once
    fusion: Fusion  #: what is done with the sums
    cluster: tuple[int, int] = (1, 1)  #: rows and columns of tiles that a cluster's blocks have at a time

    @property
    def blocks(self) -> int:
        """Of a cluster."""
        return self.cluster[0] * self.cluster[1]

    @property
    def box_rows(self) -> tuple[int, int]:
        """Rows of A and B that a block copies, to itself and to those of its cluster that need them, too."""
        return self.bm // self.cluster[1], self.bn // self.cluster[0]

    @property
    def stored(self) -> np.dtype:
        """Type of A and B."""
        return np.dtype(DTYPES[self.dtype][0])

    @property
    def bk(self) -> int:
        """Elements of a slice's row."""
        return ROW_BYTES // self.stored.itemsize

    @property
    def rows(self) -> int:
        """Rows of the tile that one warpgroup computes."""
        return self.bm // self.together

    @property
    def shared_bytes(self) -> int:
        """Of the stages; mbarriers need a little more."""
        return self.stages * (self.bm + self.bn) * ROW_BYTES


class Ring:
    """Stages of A and B in shared memory, and the mbarriers that pass them on.

    A stage's `full` completes when TMA has filled it, its `empty` when `readers` threads have read it.
    """

    def __init__(self, k: Any, plan: Plan, maps: Sequence[Any], readers: int = 0) -> None:
        self.k, self.plan, self.maps = k, plan, maps
        self.full = k.mbarriers(plan.stages)
        self.empty: Any = k.mbarriers(plan.stages) if readers else None
        self.a = k.shared((plan.stages, plan.bm, plan.bk), plan.stored, align=1024)
        self.b = k.shared((plan.stages, plan.bn, plan.bk), plan.stored, align=1024)
        together = sum(blocks for blocks in plan.cluster if blocks > 1) or 1  # blocks that copy to this one's stages
        with k.if_(k.thread_idx.x == 0):
            for stage in range(plan.stages):
                self.full[stage].init(1)
                if self.empty:
                    self.empty[stage].init(readers * together)
            k.fence_async()
        if plan.blocks > 1:
            k.cluster_sync()
        else:
            k.syncthreads()

    def fetch(self, i: Any, corner: Any, step: Any) -> None:
        """Start loading slice `step` of the tile at `corner`: the ring's `i`-th slice."""
        plan, (row, column), (map_a, map_b), bar = self.plan, corner, self.maps, self.full[i % self.plan.stages]
        bar.arrive_expect((plan.bm + plan.bn) * ROW_BYTES)
        across, down = self._mates()
        self._copy(self.a, map_a, i % plan.stages, row, step, across)
        self._copy(self.b, map_b, i % plan.stages, column, step, down)

    def _mates(self) -> tuple[Any, Any]:
        """Of the cluster's blocks that share the block's rows of A, then its columns of B: (its own number, ranks)."""
        (rows, columns), k = self.plan.cluster, self.k
        if self.plan.blocks == 1:
            return (0, (0,)), (0, (0,))
        at_row, at_column = k.cluster_rank % rows, k.cluster_rank // rows
        across = tuple(at_row + rows * j for j in range(columns))
        down = tuple(at_column * rows + j for j in range(rows))
        return (at_column, across), (at_row, down)

    def _copy(self, tiles: Any, tensor_map: Any, stage: Any, first: Any, step: Any, mates: Any) -> None:
        """Start copying the block's share of a slice, of rows from `first` on, to all that need it."""
        number, ranks = mates
        mask, at = None, 0
        if len(ranks) > 1:
            mask = self.k.cast(0, np.int32)
            for rank in ranks:
                mask = mask | (self.k.cast(1, np.int32) << rank)
            at = number * tensor_map.box[0]
        place, bar = (stage, at), self.full[stage]
        self.k.tma_load(tiles, place, tensor_map, (first + at, step * self.plan.bk), bar, blocks=mask)

    def refetch(self, i: Any, corner: Any, step: Any) -> None:
        """`fetch` once the slice that was in the stage before has been read."""
        with self.k.if_(i >= self.plan.stages):
            self.empty[i % self.plan.stages].wait(i // self.plan.stages - 1)
        self.fetch(i, corner, step)

    def multiply(self, i: Any, sums: Sequence[Any], row: Any, add: Any) -> None:
        """Start the products of the ring's `i`-th slice, for the rows from `row` on; then wait for those before."""
        k, stage = self.k, i % self.plan.stages
        left = [k.smem_matrix(self.a, (stage, row + M * j)) for j in range(len(sums))]
        right = k.smem_matrix(self.b, stage)
        self.full[stage].wait(i // self.plan.stages)
        k.wgmma_fence()
        for step in range(STEPS):
            for part, matrix in zip(sums, left, strict=True):
                k.wgmma(part, matrix.step(step), right.step(step), add=True if step else add)
        k.wgmma_commit()
        with k.if_(add):
            k.wgmma_wait(1)

    def release(self, i: Any) -> None:
        """This thread has read the ring's `i`-th slice: whoever copies to its stage may do so again."""
        bar = self.empty[i % self.plan.stages]
        if self.plan.blocks == 1:
            bar.arrive()
        for _, ranks in self._mates():
            for rank in ranks if len(ranks) > 1 else ():
                bar.remote(rank).arrive()

    def multiply_all(self, first: Any, slices: Any, sums: Sequence[Any], row: Any) -> None:
        """Start the products of a tile, whose slices are the ring's from `first` on; the last may still run."""
        for step in self.k.range_(slices, unroll=1):
            self.multiply(first + step, sums, row, step > 0)
            with self.k.if_(step > 0):
                self.release(first + step - 1)


def tile_sums(k: Any, plan: Plan) -> list[Any]:
    """Registers for a warpgroup's part of a tile, 64 rows each."""
    return [k.wgmma_sums(plan.bn, DTYPES[plan.dtype][1]) for _ in range(plan.rows // M)]


@dataclass(frozen=True)
class Work:
    """The product as a kernel sees it: sizes, and tiles in their order."""

    k: Any
    plan: Plan
    m: Any
    n: Any
    depth: Any

    @property
    def slices(self) -> Any:
        """Of a tile."""
        return (self.depth + (self.plan.bk - 1)) // self.plan.bk

    @property
    def tiles_m(self) -> Any:
        rows = self.plan.bm * self.plan.cluster[0]
        return (self.m + (rows - 1)) // rows

    @property
    def tiles_n(self) -> Any:
        columns = self.plan.bn * self.plan.cluster[1]
        return (self.n + (columns - 1)) // columns

    @property
    def count(self) -> Any:
        """Tiles, or what a cluster's blocks have of them at a time."""
        return self.tiles_m * self.tiles_n

    @property
    def stride(self) -> Any:
        """How many tiles further a block's next one is."""
        return self.k.grid_dim.x // self.plan.blocks

    def corner(self, tile: Any) -> tuple[Any, Any]:
        """First row and column of the block's tile."""
        rows, columns = self.plan.cluster
        row, column = tile_corner(self.k, tile, self.tiles_m, self.tiles_n, max(GROUP // rows, 1))
        if self.plan.blocks > 1:
            row = row * rows + self.k.cluster_rank % rows
            column = column * columns + self.k.cluster_rank // rows
        return row * self.plan.bm, column * self.plan.bn

    def of_block(self) -> Any:
        """The block's tiles, one after another."""
        return self.k.range_(self.k.block_idx.x // self.plan.blocks, self.count, self.stride)

    def end(self) -> None:
        """The block may end: no other of its cluster copies to it, or arrives at its barriers."""
        if self.plan.blocks > 1:
            self.k.cluster_sync()


@sim.kernel
def basic_kernel(k: Any, a: Any, b: Any, c: Any, operand: Any, m: Any, n: Any, depth: Any, *, plan: Plan) -> None:
    """A tile a block; its first thread loads all stages but one ahead."""
    ring, work = Ring(k, plan, (a, b)), Work(k, plan, m, n, depth)
    corner, slices, ahead = work.corner(k.block_idx.x), work.slices, plan.stages - 1
    loads = k.thread_idx.x == 0
    with k.if_(loads):
        for i in range(ahead):
            with k.if_(i < slices):
                ring.fetch(i, corner, i)
    sums = tile_sums(k, plan)
    row = k.thread_idx.x // WARPGROUP * plan.rows
    for i in k.range_(slices, unroll=1):
        ring.multiply(i, sums, row, i > 0)
        k.syncthreads()
        with k.if_(loads & (i + ahead < slices)):
            ring.fetch(i + ahead, corner, i + ahead)
    k.wgmma_wait()
    store(k, plan, sums, c, operand, (corner[0] + row, corner[1]), (m, n))


def load_tiles(k: Any, ring: Ring, work: Work) -> None:
    """What the loading warpgroup does: one thread fetches all slices of the block's tiles."""
    k.set_max_registers(LOAD_REGISTERS)
    with k.if_(k.thread_idx.x == 0):
        fetched = k.var(0)
        for tile in work.of_block():
            corner = work.corner(tile)
            for step in k.range_(work.slices, unroll=1):
                ring.refetch(fetched, corner, step)
                fetched += 1


@sim.kernel(registers=LAUNCH_REGISTERS)
def cooperative_kernel(k: Any, a: Any, b: Any, c: Any, operand: Any, m: Any, n: Any, depth: Any, *, plan: Plan) -> None:
    """Persistent blocks: a warpgroup loads, two share each tile."""
    ring, work = Ring(k, plan, (a, b), readers=2 * WARPGROUP), Work(k, plan, m, n, depth)
    warpgroup = k.thread_idx.x // WARPGROUP
    with k.if_(warpgroup == 0):
        load_tiles(k, ring, work)
    with k.else_():
        k.set_max_registers(COMPUTE_REGISTERS)
        row = (warpgroup - 1) * plan.rows
        read, slices = k.var(0), work.slices
        for tile in work.of_block():
            corner = work.corner(tile)
            sums = tile_sums(k, plan)
            ring.multiply_all(read, slices, sums, row)
            read += slices
            k.wgmma_wait()
            ring.release(read - 1)
            store(k, plan, sums, c, operand, (corner[0] + row, corner[1]), (m, n))
    work.end()


@sim.kernel(registers=LAUNCH_REGISTERS)
def pingpong_kernel(k: Any, a: Any, b: Any, c: Any, operand: Any, m: Any, n: Any, depth: Any, *, plan: Plan) -> None:
    """Persistent blocks: a warpgroup loads, two take turns; barrier 2 + w tells warpgroup w that it is its turn."""
    ring, work = Ring(k, plan, (a, b), readers=WARPGROUP), Work(k, plan, m, n, depth)
    warpgroup = k.thread_idx.x // WARPGROUP
    with k.if_(warpgroup == 0):
        load_tiles(k, ring, work)
    with k.else_():
        k.set_max_registers(COMPUTE_REGISTERS)
        me = warpgroup - 1
        turn, read, slices = k.var(0), k.var(0), work.slices
        for tile in work.of_block():
            with k.if_((turn & 1) == me):
                corner = work.corner(tile)
                sums = tile_sums(k, plan)
                with k.if_(turn > 0):
                    k.barrier(2 + me, 2 * WARPGROUP)
                ring.multiply_all(read, slices, sums, 0)
                with k.if_(tile + work.stride < work.count):
                    k.barrier_arrive(2 + (me ^ 1), 2 * WARPGROUP)
                k.wgmma_wait()
                ring.release(read + slices - 1)
                store(k, plan, sums, c, operand, corner, (m, n))
            turn += 1
            read += slices
    work.end()


@workload
def basic(
    m: int,
    n: int,
    k: int,
    tile: tuple[int, int] = (128, 256),
    stages: int = 4,
    dtype: str = "bf16",
    epilogue: str = "none",
) -> Launch:
    """C [`m`, `n`] = A [`m`, `k`] B [`n`, `k`]^T, a `tile` of rows and columns a block, `stages` slices of k in flight.

    `dtype`: "bf16" and "f16" (C has the same type), "tf32" (C is float32), "e4m3" and "e5m2" (C is bf16), "s8"
    (C is int32). Sums are float32, of s8 int32. A and B hold multiples of 1/8, so that sums are exact in any order.
    """
    plan = make_plan((m, n, k), tile, stages, dtype, epilogue, (64, 128, 256), 1 if tile[0] == M else 2)
    blocks = blocks_for(m, plan.bm) * blocks_for(n, plan.bn)
    return _finish(basic_kernel, "basic", plan, (m, n, k), blocks, plan.together * WARPGROUP, {})


@workload
def cooperative(
    m: int,
    n: int,
    k: int,
    tile: tuple[int, int] = (128, 256),
    stages: int = 4,
    dtype: str = "bf16",
    epilogue: str = "none",
    blocks: int = LAUNCH_SMS,
    cluster: tuple[int, int] = (1, 1),
) -> Launch:
    """As `basic`, by at most `blocks` persistent blocks in which a warpgroup loads and two share a tile.

    `cluster` blocks have so many rows and columns of tiles at a time, and copy what they share once, to all of them.
    """
    plan = make_plan((m, n, k), tile, stages, dtype, epilogue, (128, 256), 2, cluster)
    return _persistent(cooperative_kernel, "cooperative", plan, (m, n, k), blocks)


@workload
def pingpong(
    m: int,
    n: int,
    k: int,
    tile: tuple[int, int] = (64, 256),
    stages: int = 4,
    dtype: str = "bf16",
    epilogue: str = "none",
    blocks: int = LAUNCH_SMS,
    cluster: tuple[int, int] = (1, 1),
) -> Launch:
    """As `cooperative`, but the two warpgroups have a tile each, and multiply in turns."""
    plan = make_plan((m, n, k), tile, stages, dtype, epilogue, (64, 128), 1, cluster)
    return _persistent(pingpong_kernel, "pingpong", plan, (m, n, k), blocks)


Sizes = tuple[int, int, int]


def make_plan(
    sizes: Sizes,
    tile: tuple[int, int],
    stages: int,
    dtype: str,
    epilogue: str,
    rows: tuple[int, ...],
    together: int,
    cluster: tuple[int, int] = (1, 1),
) -> Plan:
    """The plan of a product. Raises `ValueError` for what the kernels have no code for."""
    (m, n, k), (bm, bn) = sizes, tile
    require_positive(m=m, n=n, k=k)
    require_choice("dtype", dtype, tuple(DTYPES))
    (rows_together, columns_together), most = cluster, 8
    edges = m % (bm * rows_together) > 0 or n % (bn * columns_together) > 0
    plan = Plan(bm, bn, dtype, stages, together, edges, n % 2 == 0, fusion(epilogue, n, k, bn), cluster)
    if bm not in rows:
        raise ValueError(f"tile={bm}x{bn}: rows must be {' or '.join(map(str, rows))}, 64 for each product")
    if bn % 8 or not 8 <= bn <= 256:
        raise ValueError(f"tile={bm}x{bn}: columns must be a multiple of 8 up to 256, as wgmma has them")
    if plan.rows * bn // WARPGROUP > MOST_SUMS:
        raise ValueError(f"tile={bm}x{bn}: a thread's {plan.rows * bn // WARPGROUP} sums are more than {MOST_SUMS}")
    if plan.blocks > most or any(x not in (1, 2, 4, 8) for x in cluster) or any(x % 8 for x in plan.box_rows):
        raise ValueError(
            f"cluster={rows_together}x{columns_together}: 1, 2, 4 or 8 tiles each way, {most} together at most, whose "
            f"shares of a tile {bm}x{bn} have multiples of 8 rows"
        )
    if not 2 <= stages <= 8:
        raise ValueError(f"stages={stages}: must be from 2 to 8")
    if dtype == "s8" and epilogue != "none":
        raise ValueError(f"epilogue={epilogue!r}: takes float32 sums; of s8 they are whole numbers")
    row_bytes = k * plan.stored.itemsize
    if row_bytes % ROW_ALIGNMENT:
        raise ValueError(
            f"k={k}: rows of {row_bytes} bytes; TMA copies rows of a multiple of {ROW_ALIGNMENT} bytes only: "
            "pad k, or use gemm.async_tile"
        )
    return plan


def _persistent(kernel: Any, name: str, plan: Plan, sizes: Sizes, blocks: int) -> Launch:
    """The launch of a kernel whose blocks stay for many tiles."""
    require_positive(blocks=blocks)
    rows, columns = plan.cluster
    tiles = blocks_for(sizes[0], plan.bm * rows) * blocks_for(sizes[1], plan.bn * columns)
    params = {"blocks": blocks} | ({"cluster": f"{rows}x{columns}"} if plan.blocks > 1 else {})
    grid = min(tiles, max(blocks // plan.blocks, 1)) * plan.blocks
    return _finish(kernel, name, plan, sizes, grid, 3 * WARPGROUP, params)


def _finish(
    kernel: Any, name: str, plan: Plan, sizes: Sizes, grid: int, threads: int, params: dict[str, Any]
) -> Launch:
    """The launch, with A and B and what C must be."""
    m, n, k = sizes
    out = np.dtype(DTYPES[plan.dtype][2])
    a, b = eighths((m, k), plan.stored, seed=7), eighths((n, k), plan.stored, seed=8)
    operand = plan.fusion.operand(m, n, out)

    def right() -> dict[str, np.ndarray]:
        product = a.astype(np.float32) @ b.astype(np.float32).T
        return plan.fusion.results(product, operand, out)

    maps = [sim.tensor_map(x, (rows, plan.bk)) for x, rows in zip((a, b), plan.box_rows, strict=True)]
    args = (*maps, sim.zeros((m, n // plan.fusion.shrinks), out), operand, m, n, k)
    exact = type(plan.fusion) is Fusion
    return kernel.launch(grid, threads, args=args, constants={"plan": plan}, cluster=plan.blocks).with_(
        name=f"gemm.{name}",
        params={
            "m": m, "n": n, "k": k, "tile": f"{plan.bm}x{plan.bn}", "stages": plan.stages, "dtype": plan.dtype,
            "epilogue": plan.fusion.name, **params,
        },
        expected=right,
        flops=2.0 * m * n * k,
        facts={"tiles": blocks_for(m, plan.bm) * blocks_for(n, plan.bn)},
        rtol=0.0 if exact else relative_error(out),
        atol=0.0 if exact else relative_error(out),
    )  # fmt: skip
