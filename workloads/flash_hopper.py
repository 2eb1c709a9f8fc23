"""FlashAttention forward as Hopper runs it: TMA, two warpgroups that take turns at the tensor cores, blocks that stay.

Of a block's three warpgroups one moves data: its first warp has TMA load queries, keys and values ahead, its second
has TMA store what is finished. The two others have half of the tile's queries each, and pass the tensor cores back and
forth: while one's products run, the other exponentiates its scores (the ping-pong of FlashAttention-3). A turn has two
products: the scores of the next tile of keys, and the weights of the one before with its values. Weights stay in
registers, as the left operand of their product.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

import sim
from sim.launch import Launch
from workloads.attention_numpy import attention, attention_flops, inputs
from workloads.data import blocks_for, require_choice, require_positive, workload
from workloads.flash import BF16, PIECE, K, M, N, Plan, Rows, Scores, Softmax, mask
from workloads.gemm import COMPUTE_REGISTERS, LAUNCH_REGISTERS, LAUNCH_SMS, LOAD_REGISTERS
from workloads.tensor import set_all
from workloads.tiles import WARPGROUP
from workloads.tiles import M as PRODUCT_ROWS

CHUNK = 64  #: columns of a head that are one row of the widest swizzle
GROUPS = 2  #: warpgroups that multiply
TOGETHER = GROUPS * WARPGROUP  #: their threads
WARPS = TOGETHER // 32
QUERY_STAGES = 2  #: tiles of queries in shared memory: the one at work and the block's next
MOST_SHARED_BYTES = 226 << 10  #: of tiles, so that a block's mbarriers fit beside them
MOST_REGISTERS = 208  #: of a thread's sums and weights, so that its addresses and maxima fit beside them
ROUNDING = 4e-3  #: of an output: its weights are bfloat16, 2^-9 of each, and values lie within a few units


@dataclass(frozen=True)
class HopperPlan(Plan):
    """What the kernel knows at compile time."""

    stages: int = 3  #: tiles of keys in shared memory, and of values
    overlap: bool = False  #: whether a warpgroup exponentiates while its own product with values runs

    @property
    def chunks(self) -> int:
        return self.d // CHUNK

    @property
    def group_rows(self) -> int:
        """Queries a warpgroup."""
        return self.block_m // GROUPS

    @property
    def parts(self) -> int:
        """Products of 64 rows that a warpgroup's queries take."""
        return self.group_rows // PRODUCT_ROWS

    @property
    def shared_bytes(self) -> int:
        """Of the tiles; mbarriers need a little more."""
        return (QUERY_STAGES * self.block_m + 2 * self.stages * self.block_n) * self.d * BF16.itemsize


class GroupRows(Rows):
    """The rows of a thread of a warpgroup that multiplies, numbered in the block's tile."""

    def __init__(self, k: Any, plan: HopperPlan, group: Any) -> None:
        warp, lane = (k.thread_idx.x >> 5) & 3, k.thread_idx.x & 31
        self.column = (lane & 3) * 2
        self.parts = [(i, half) for i in range(plan.parts) for half in (0, 1)]
        first = group * plan.group_rows + warp * M + (lane >> 2)
        self.numbers = [first + (i * PRODUCT_ROWS + half * 8) for i, half in self.parts]


class Place:
    """Where in a ring of stages someone stands: the stage, and the parity of its phase."""

    def __init__(self, k: Any, stages: int) -> None:
        self.k, self.stages, self.stage, self.parity = k, stages, k.var(0), k.var(0)

    def advance(self) -> None:
        following = self.stage + 1
        around = following == self.stages
        self.parity.set(self.k.select(around, self.parity ^ 1, self.parity))
        self.stage.set(self.k.select(around, 0, following))


class Ring:
    """Stages in shared memory for an array's tiles, and the mbarriers that pass them on.

    A stage's `full` completes when TMA has filled it, its `empty` when `readers` threads have arrived.
    """

    def __init__(self, k: Any, source: Any, stages: int, readers: int) -> None:
        self.k, self.source, self.stages, self.readers = k, source, stages, readers
        self.full, self.empty = k.mbarriers(stages), k.mbarriers(stages)
        self.tiles = k.shared((stages, *source.box[1:]), bfloat16, align=1024)

    def init(self) -> None:
        for stage in range(self.stages):
            self.full[stage].init(1)
            self.empty[stage].init(self.readers)

    def load(self, at: Place, head: Any, row: Any) -> None:
        """Load the tile at `row` of `head` once the stage is free."""
        full = self.full[at.stage]
        self.empty[at.stage].wait(at.parity ^ 1)  # before the first phase, the one before it counts as complete
        full.arrive_expect(self.source.box_bytes)
        self.k.tma_load(self.tiles, at.stage, self.source, (head, 0, row, 0), full)
        at.advance()

    def wait(self, at: Place) -> None:
        """Wait for the tile."""
        self.full[at.stage].wait(at.parity)

    def release(self, at: Place) -> None:
        """This thread has read the tile: go on to the next."""
        self.empty[at.stage].arrive()
        at.advance()


@dataclass(frozen=True)
class Item:
    """A tile of queries of one head."""

    head: Any
    row: Any  #: its first
    tiles: Any  #: of keys that some query sees
    whole: Any  #: of keys of which every query sees all


@dataclass(frozen=True)
class Work:
    """The tiles of queries of all heads, and the block's among them."""

    k: Any
    plan: HopperPlan
    n: Any
    heads: Any

    def of_block(self) -> Iterator[Item]:
        """The block's, one after another.

        Blocks take tiles in turns, every second turn in opposite order: if causal, those that had the most keys get
        the fewest.
        """
        k, plan = self.k, self.plan
        tiles, blocks = (self.n + (plan.block_m - 1)) // plan.block_m, k.grid_dim.x
        count = tiles * self.heads
        for turn in k.range_((count + (blocks - 1)) // blocks, unroll=1):
            number = turn * blocks + k.select((turn & 1) == 0, k.block_idx.x, blocks - 1 - k.block_idx.x)
            with k.if_(number < count):
                head, tile = k.divmod_truncating(number, tiles)
                row = (tiles - 1 - tile) * plan.block_m
                seen = k.min(row + plan.block_m, self.n) if plan.causal else self.n
                of_keys = (seen + (plan.block_n - 1)) // plan.block_n
                yield Item(head, row, of_keys, row // plan.block_n if plan.causal else of_keys - 1)


class Group:
    """A warpgroup that multiplies: its scores, weights and output, and its place in the rings."""

    def __init__(self, k: Any, plan: HopperPlan, rings: tuple[Ring, Ring, Ring], group: Any, n: Any) -> None:
        self.k, self.plan, self.n, self.group = k, plan, n, group
        self.queries, self.keys, self.values = rings
        self.at_queries, self.at_keys, self.at_values = (Place(k, ring.stages) for ring in rings)
        self.rows = GroupRows(k, plan, group)
        self.out = [k.wgmma_sums(plan.d) for _ in range(plan.parts)]
        self.weights = [[k.vars(4, 0, np.uint32) for _ in range(plan.block_n // K)] for _ in range(plan.parts)]

    def attend(self, item: Item) -> Softmax:
        """The output of a tile of queries, not yet divided by the rows' sums."""
        k, plan = self.k, self.plan
        softmax = Softmax(k, plan, self.rows, self.scale, fused=True)
        self.queries.wait(self.at_queries)
        with self.turn():
            sums = self.start_scores()
        k.wgmma_wait()
        self.keys.release(self.at_keys)
        scores = self.scores(sums, item, item.tiles - 1, plan.edges)
        softmax.rescale(scores, True, plan.masked_tiles > 1)
        self.set_weights(softmax, self.exponentiated(softmax, scores))
        for out in self.out:
            out.zero()
        if plan.masked_tiles > 1:
            for back in k.range_(2, item.tiles - item.whole + 1, unroll=1):
                self.step(softmax, item, item.tiles - back)
        for _ in k.range_(item.whole, unroll=1):
            self.step(softmax, item, None)
        with self.turn():
            self.start_output()
        k.wgmma_wait()
        self.values.release(self.at_values)
        return softmax

    def step(self, softmax: Softmax, item: Item, masked: Any) -> None:
        """The scores of a tile of keys, and the output of the one before; `masked` is the tile's number if need be."""
        k, plan = self.k, self.plan
        with self.turn():
            sums = self.start_scores()
            self.start_output()
        k.wgmma_wait(1 if plan.overlap else 0)
        self.keys.release(self.at_keys)
        if not plan.overlap:
            self.values.release(self.at_values)
        scores = self.scores(sums, item, masked, False)
        softmax.rescale(scores, False, masked is not None)
        exponentials = self.exponentiated(softmax, scores)
        if plan.overlap:
            k.wgmma_wait()
            self.values.release(self.at_values)
        softmax.rescale_output()
        self.set_weights(softmax, exponentials)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """The warpgroup's turn at the tensor cores: the products that it starts go before those of the other."""
        self.k.barrier(1 + self.group, TOGETHER)
        self.k.wgmma_fence()
        yield
        self.k.barrier_arrive(2 - self.group, TOGETHER)

    def start_scores(self) -> list[Any]:
        """Start Q K^T for a tile of keys: its sums."""
        k, first = self.k, self.group * self.plan.group_rows
        sums = [k.wgmma_sums(self.plan.block_n) for _ in range(self.plan.parts)]
        self.keys.wait(self.at_keys)
        for chunk in range(self.plan.chunks):
            right = k.smem_matrix(self.keys.tiles, (self.at_keys.stage, chunk))
            for part, of_part in enumerate(sums):
                place = (self.at_queries.stage, chunk, first + part * PRODUCT_ROWS)
                left = k.smem_matrix(self.queries.tiles, place)
                for step in range(CHUNK // K):
                    k.wgmma(of_part, left.step(step), right.step(step), add=chunk + step > 0)
        k.wgmma_commit()
        return sums

    def start_output(self) -> None:
        """Start adding the weights' product with their values to the output."""
        k = self.k
        self.values.wait(self.at_values)
        right = k.smem_matrix(self.values.tiles, self.at_values.stage, major="mn")
        for weights, out in zip(self.weights, self.out, strict=True):
            for step, left in enumerate(weights):
                k.wgmma(out, left, right.step(step))
        k.wgmma_commit()

    def scores(self, sums: list[Any], item: Item, masked: Any, edge: bool) -> Scores:
        """Sums in fours, as a warp's products have them, after what a query does not see of tile `masked` is masked."""
        scores = [[[x[4 * j + at] for at in range(4)] for j in range(len(x) // 4)] for x in sums]
        if masked is not None and (self.plan.causal or edge):
            mask(self.k, self.plan, self.rows, scores, item.row, masked, self.n if edge else None)
        return scores

    def exponentiated(self, softmax: Softmax, scores: Scores) -> Scores:
        """The scores as weights, which are added to the rows' sums."""
        for column in range(self.plan.block_n // N):
            softmax.exponentiate(scores, column)
        return scores

    def set_weights(self, softmax: Softmax, scores: Scores) -> None:
        """Pack weights for their product; none that reads those before may be under way."""
        for depth in range(self.plan.block_n // K):
            for weights, left in zip(self.weights, softmax.packed(scores, depth), strict=True):
                set_all(weights[depth], left)

    def scale(self, part: tuple[int, int], factor: Any) -> None:
        """Multiply a row of the output."""
        i, half = part
        out = self.out[i]
        for j in range(2 * half, len(out), 4):
            for at in (j, j + 1):
                out[at] = out[at] * factor

    def put(self) -> None:
        """Put the output into the place of its queries, swizzled as TMA expects it."""
        k, plan, tiles = self.k, self.plan, self.queries.tiles
        words = tiles.view(np.uint32)
        for (i, half), number in zip(self.rows.parts, self.rows.numbers, strict=True):
            for j in range(plan.d // N):
                chunk, piece = divmod(j, CHUNK // PIECE)
                row = (self.at_queries.stage * plan.chunks + chunk) * plan.block_m + number
                at = row * CHUNK + (piece ^ (number & 7)) * PIECE + self.rows.column
                words[at // 2] = k.pack(*(self.out[i][4 * j + 2 * half + side] for side in (0, 1)), bfloat16)


@sim.kernel(registers=LAUNCH_REGISTERS)
def flash_hopper_kernel(
    k: Any, q: Any, keys: Any, values: Any, o: Any, logs: Any, n: Any, heads: Any, *, plan: HopperPlan
) -> None:
    """O = softmax(Q K^T / sqrt(d)) V of all heads, and the logarithms of the rows' sums."""
    queries = Ring(k, q, QUERY_STAGES, 1)
    rings = (queries, Ring(k, keys, plan.stages, TOGETHER), Ring(k, values, plan.stages, TOGETHER))
    finished = k.mbarriers(QUERY_STAGES)
    warpgroup, warp = k.thread_idx.x // WARPGROUP, k.thread_idx.x >> 5
    with k.if_(k.thread_idx.x == 0):
        for ring in rings:
            ring.init()
        for bar in finished:
            bar.init(TOGETHER)
        k.fence_async()
    k.syncthreads()
    work = Work(k, plan, n, heads)
    with k.if_(warpgroup == 0):
        k.set_max_registers(LOAD_REGISTERS)
        one = k.elect()
        with k.if_((warp == 0) & one):
            load(work, rings)
        with k.if_((warp == 1) & one):
            store(work, queries, finished, o)
    with k.else_():
        k.set_max_registers(COMPUTE_REGISTERS)
        compute(work, Group(k, plan, rings, warpgroup - 1, n), finished, logs)


def load(work: Work, rings: tuple[Ring, Ring, Ring]) -> None:
    """What the first warp does: load the block's queries, and for each tile of them keys and values, the last first."""
    queries, keys, values = rings
    at_queries, at_keys, at_values = (Place(work.k, ring.stages) for ring in rings)
    for item in work.of_block():
        queries.load(at_queries, item.head, item.row)
        for back in work.k.range_(1, item.tiles + 1, unroll=1):
            row = (item.tiles - back) * work.plan.block_n
            keys.load(at_keys, item.head, row)
            values.load(at_values, item.head, row)


def store(work: Work, queries: Ring, finished: Any, o: Any) -> None:
    """What the second warp does: store what is finished, and give the place back to queries."""
    k, at = work.k, Place(work.k, queries.stages)
    for item in work.of_block():
        finished[at.stage].wait(at.parity)
        k.tma_store(o, (item.head, 0, item.row, 0), queries.tiles, at.stage)
        k.tma_commit()
        k.tma_wait()
        queries.release(at)


def compute(work: Work, group: Group, finished: Any, logs: Any) -> None:
    """What the other warpgroups do."""
    k, plan, rows = work.k, work.plan, group.rows
    with k.if_(group.group == 1):
        k.barrier_arrive(1, TOGETHER)  # the first turn is the first warpgroup's
    for item in work.of_block():
        logarithms = group.attend(item).finish()
        for number, logarithm in zip(rows.numbers, logarithms, strict=True):
            first, row = rows.column == 0, item.row + number
            with k.if_(first & (row < work.n) if plan.edges else first):
                logs[item.head * work.n + row] = logarithm
        group.put()
        k.fence_async()
        finished[group.at_queries.stage].arrive()
        group.at_queries.advance()
    with k.if_(group.group == 0):
        k.barrier(1, TOGETHER)  # nobody takes the turn after the last


@workload
def flash_hopper(
    b: int,
    h: int,
    n: int,
    d: int = 64,
    causal: bool = False,
    block_m: int = 128,
    block_n: int = 128,
    stages: int = 3,
    overlap: bool = False,
    fast_math: bool = False,
    blocks: int = LAUNCH_SMS,
) -> Launch:
    """FlashAttention forward in bfloat16, by TMA and wgmma: `b` sequences of `n` positions, `h` heads of `d`.

    `block_m` queries a block at a time, half of them a warpgroup, `block_n` keys at a time, `stages` tiles of keys and
    of values in shared memory, at most `blocks` blocks that stay. `overlap`: a warpgroup exponentiates scores while its
    own product with the values before runs, not only while the other's do. `fast_math` and outputs as those of `flash`.
    """
    require_positive(b=b, h=h, n=n, blocks=blocks)
    plan = make_plan(n, d, causal, block_m, block_n, stages, overlap, fast_math)
    heads = b * h
    q, keys, values = (x.reshape(heads, n, d) for x in inputs(b, h, n, d))
    o = sim.zeros((heads, n, d), BF16)

    def right() -> dict[str, np.ndarray]:
        out, logs = attention(q, keys, values, causal)
        return {"o": out.astype(bfloat16), "logs": logs.ravel()}

    # A head's columns by chunks of a swizzled row: [head][chunk][row][column].
    shape, strides = (heads, plan.chunks, n, CHUNK), tuple(BF16.itemsize * x for x in (n * d, CHUNK, d))
    maps = [
        sim.tensor_map(x, (1, plan.chunks, rows, CHUNK), shape=shape, strides=strides)
        for x, rows in zip((q, keys, values, o), (block_m, block_n, block_n, block_m), strict=True)
    ]
    launch = flash_hopper_kernel.launch(
        min(blocks_for(n, block_m) * heads, blocks),
        (1 + GROUPS) * WARPGROUP,
        args=(*maps, sim.zeros(heads * n), n, heads),
        constants={"plan": plan},
    )
    return launch.with_(
        name="attention.flash_hopper",
        params={
            "b": b, "h": h, "n": n, "d": d, "causal": causal, "tile": f"{block_m}x{block_n}", "stages": stages,
            "overlap": overlap, "blocks": blocks,
        } | ({"fast_math": True} if fast_math else {}),
        expected=right,
        flops=attention_flops(b, h, n, d, causal),
        rtol=2e-2,
        atol=ROUNDING,
    )  # fmt: skip


def make_plan(
    n: int, d: int, causal: bool, block_m: int, block_n: int, stages: int, overlap: bool, fast_math: bool
) -> HopperPlan:
    """The plan. Raises `ValueError` for what the kernel has no code for."""
    require_choice("d", d, (64, 128))
    require_choice("block_m", block_m, (128, 256))
    require_choice("block_n", block_n, (64, 128))
    edges = n % block_m > 0 or n % block_n > 0
    plan = HopperPlan(d, block_m, block_n, WARPS, causal, edges, fast_math, stages, overlap)
    if not 2 <= stages <= 8:
        raise ValueError(f"stages={stages}: must be from 2 to 8")
    if plan.shared_bytes > MOST_SHARED_BYTES:
        raise ValueError(
            f"stages={stages}: tiles of {plan.shared_bytes} bytes; shared memory has {MOST_SHARED_BYTES} for them: "
            "use fewer stages or smaller blocks"
        )
    registers = plan.parts * (block_n // 2 + d // 2 + block_n // 4)
    if registers > MOST_REGISTERS:
        raise ValueError(
            f"block_m={block_m}, block_n={block_n}: scores, weights and output take {registers} registers a thread, "
            f"and more than {MOST_REGISTERS} do not fit: use smaller blocks"
        )
    return plan
