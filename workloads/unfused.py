"""Attention as a library computes it without a fused kernel: scores, scale, softmax and product with the values.

Each step is a kernel, and what is between two steps goes through memory in bfloat16: n x n scores a head, written and
read three times. Rows of scores start at multiples of 16 bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

import sim
from sim.launch import Launch
from workloads.attention_numpy import attention, gradients, inputs
from workloads.data import blocks_for, require_choice, require_positive
from workloads.flash import BF16, PIECE, K, M, N, Plan, Rows, Tile, leave, products, put
from workloads.tensor import set_all

BLOCK = 128  #: rows of a tile, and its columns in the scores
WARPS = 4
SCORE_COLUMNS = (
    64  #: of a tile of scores: few enough sums that four blocks share an SM, and loads, products and stores meet
)
DEPTH = 64  #: weights and values of one step of the product
STAGES = 3  #: such steps in shared memory
POINT_BLOCK = 128  #: threads of the kernels that go over all scores, eight a thread
WARP_ROW = 2048  #: the longest row that the softmax gives to one warp (PyTorch 2.10)
BACKWARD_ROW = 1024  #: the same of the backward softmax
WIDEST_BLOCK = 1024
LONGEST_ROW = 8192  #: that a block of the softmax holds in registers


@sim.kernel
def scores_kernel(k: Any, q: Any, keys: Any, s: Any, n: Any, pitch: Any, *, plan: Plan) -> None:
    """S = Q K^T, a block a tile."""
    shared, thread = k.shared_dynamic(q.dtype), k.thread_idx.x
    tile_q = Tile(k, shared, (plan.block_m, plan.d), 0, plan.threads, thread)
    tile_k = Tile(k, shared, (plan.block_n, plan.d), tile_q.end, plan.threads, thread)
    rows = Rows(k, plan, thread >> 5, thread & 31)
    row0, column0 = k.block_idx.y * plan.block_m, k.block_idx.x * plan.block_n
    for tile, source, first in ((tile_q, q, row0), (tile_k, keys, column0)):
        tile.copy(source, (k.block_idx.z * n + first) * plan.d, plan.d, n - first if plan.edges else None)
    k.async_commit()
    k.async_wait(0)
    k.syncthreads()
    scores = products(k, plan, rows, tile_q, tile_k)
    k.syncthreads()
    out = Tile(k, shared, (plan.block_m, plan.block_n), 0, plan.threads, thread)
    put(k, rows, out, scores)
    k.syncthreads()
    corner = (k.block_idx.z.astype(np.int64) * n + row0) * pitch + column0
    leave(k, out, s, corner, pitch, n - row0 if plan.edges else None, pitch - column0 if plan.edges else None)


@sim.kernel
def scale_kernel(k: Any, s: Any, out: Any, size: Any, factor: Any) -> None:
    """Every element times `factor`, eight a thread."""
    words, results = s.view(np.uint32), out.view(np.uint32)
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < size // PIECE):
        at = i.astype(np.int64) * (PIECE // 2)
        pairs = [k.unpack(word, bfloat16) for word in words.load(at, width=PIECE // 2)]
        results.store(at, [k.pack(*(x.astype(np.float32) * factor for x in pair), bfloat16) for pair in pairs])


@sim.kernel
def softmax_warp_kernel(k: Any, s: Any, p: Any, rows: Any, n: Any, pitch: Any, *, held: int) -> None:
    """Softmax of rows, a warp a row, each lane holding `held` elements of it; the pitch's last ones become zeros."""
    lane = k.thread_idx.x & 31
    row = k.block_idx.x * WARPS + (k.thread_idx.x >> 5)
    with k.if_(row < rows):
        first = row.astype(np.int64) * pitch + lane
        # Where a row has more than 32 elements its first ones need no test, and the others' addresses come from theirs.
        x = [held_of(k, s, first + 32 * j, None if j == 0 and held > 1 else lane + 32 * j < n) for j in range(held)]
        highest = x[0]
        for v in x[1:]:
            highest = k.max(highest, v)
        for distance in (16, 8, 4, 2, 1):
            highest = k.max(highest, k.shfl_xor(highest, distance))
        e, total = [], 0.0
        for v in x:
            e.append(k.exp(v - highest))
            total = e[-1] + total
        for distance in (16, 8, 4, 2, 1):
            total = total + k.shfl_xor(total, distance)
        for j, v in enumerate(e):
            with k.if_(k.lane_id + 32 * j < pitch):  # asked anew: the loads' comparisons would keep a register each
                p[first + 32 * j] = (v / total).astype(bfloat16)


@sim.kernel
def softmax_block_kernel(k: Any, s: Any, p: Any, n: Any, pitch: Any, *, held: int) -> None:
    """Softmax of rows, a block a row, each thread holding `held` elements of it."""
    shared = k.shared((32,), np.float32)
    t = k.thread_idx.x
    first = k.block_idx.x.astype(np.int64) * pitch + t
    places = [t + WIDEST_BLOCK * j for j in range(held)]
    x = [held_of(k, s, first + WIDEST_BLOCK * j, at < n) for j, at in enumerate(places)]
    highest = x[0]
    for v in x[1:]:
        highest = k.max(highest, v)
    highest = reduce_block(k, shared, highest, k.max)
    total = k.exp(x[0] - highest)
    for v in x[1:]:
        total = total + k.exp(v - highest)
    total = reduce_block(k, shared, total, lambda a, b: a + b)
    for j, (at, v) in enumerate(zip(places, x, strict=True)):
        with k.if_(at < pitch):
            p[first + WIDEST_BLOCK * j] = (k.exp(v - highest) / total).astype(bfloat16)


def held_of(k: Any, s: Any, at: Any, inside: Any) -> Any:
    """An element of a row in a register; past the row's end, what no maximum or sum notices.

    It is loaded and converted under one condition, as in the library: with as many loads under way as there are
    predicates.
    """
    if inside is None:
        return s[at].astype(np.float32)
    held = k.var(-math.inf)
    with k.if_(inside):
        held.set(s[at].astype(np.float32))
    return held


def reduce_block(k: Any, shared: Any, value: Any, combine: Any) -> Any:
    """One value of all 1024 threads, by warps and then by the first warp; every thread gets it."""
    lane, warp = k.thread_idx.x & 31, k.thread_idx.x >> 5
    mine = k.var(value)
    for distance in (16, 8, 4, 2, 1):
        mine.set(combine(mine, k.shfl_xor(mine, distance)))
    k.syncthreads()
    with k.if_(lane == 0):
        shared[warp] = mine
    k.syncthreads()
    with k.if_(warp == 0):
        mine.set(shared[lane])
        for distance in (16, 8, 4, 2, 1):
            mine.set(combine(mine, k.shfl_xor(mine, distance)))
        with k.if_(lane == 0):
            shared[0] = mine
    k.syncthreads()
    return shared[0]


@dataclass(frozen=True)
class Product:
    """What the kernel of a product with weights knows at compile time: 128 rows of the output, of `d` columns."""

    d: int
    transposed: bool = False  #: whether the weights' rows are the products' depth

    @property
    def slot(self) -> int:
        """Elements of one step's weights and values."""
        return BLOCK * DEPTH + DEPTH * self.d


@sim.kernel
def product_kernel(k: Any, p: Any, values: Any, o: Any, n: Any, pitch: Any, *, plan: Product) -> None:
    """O = P V, or P^T V, a block 128 rows; weights and values pass through a ring of shared tiles."""
    shared, thread = k.shared_dynamic(p.dtype), k.thread_idx.x
    tile_p = Tile(k, shared, (DEPTH, BLOCK) if plan.transposed else (BLOCK, DEPTH), 0, WARPS * 32, thread)
    tile_v = Tile(k, shared, (DEPTH, plan.d), tile_p.end, WARPS * 32, thread)
    rows = Rows(k, Plan(plan.d, BLOCK, BLOCK, WARPS, False, True), thread >> 5, thread & 31)
    head, row0 = k.block_idx.y * n, k.block_idx.x * BLOCK
    weights = k.block_idx.y.astype(np.int64) * n * pitch

    def start(t: Any, slot: Any) -> None:
        at = t * DEPTH
        row, column = (at, row0) if plan.transposed else (row0, at)
        tile_p.copy(p, weights + row * pitch + column, pitch, n - row, pitch - column, slot)
        tile_v.copy(values, (head + at) * plan.d, plan.d, n - at, slot=slot)

    def left(i: int, depth: int, slot: Any) -> Any:
        if plan.transposed:
            return tile_p.left_transposed(rows.first // PIECE + i * (M // PIECE), depth * K, slot)
        return tile_p.left(rows.first, i * M, 2 * depth, slot)

    for stage in range(STAGES - 1):
        start(stage, stage * plan.slot)
        k.async_commit()
    sums = [[k.vars(4) for _ in range(plan.d // N)] for _ in range(BLOCK // WARPS // M)]
    reading, writing = k.var(0), k.var((STAGES - 1) * plan.slot)
    for t in k.range_((n + (DEPTH - 1)) // DEPTH, unroll=1):
        k.async_wait(STAGES - 2)
        k.syncthreads()
        start(t + (STAGES - 1), writing)
        k.async_commit()
        for depth in range(DEPTH // K):
            fragments = [left(i, depth, reading) for i in range(len(sums))]
            for j in range(plan.d // (2 * N)):
                for column, right in enumerate(tile_v.right_transposed(depth * K, 2 * j, reading), 2 * j):
                    for fragment, of_row in zip(fragments, sums, strict=True):
                        set_all(of_row[column], k.mma(fragment, right, tuple(of_row[column]), dtype=bfloat16))
        writing.set(reading)
        following = reading + plan.slot
        reading.set(k.select(following == STAGES * plan.slot, 0, following))
    k.async_wait(0)
    k.syncthreads()
    out = Tile(k, shared, (BLOCK, plan.d), 0, WARPS * 32, thread)
    put(k, rows, out, sums)
    k.syncthreads()
    leave(k, out, o, (head + row0) * plan.d, plan.d, n - row0)


@sim.kernel
def multiply_kernel(k: Any, a: Any, b: Any, out: Any, size: Any) -> None:
    """Element by element, eight a thread."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < size // PIECE):
        at = i.astype(np.int64) * (PIECE // 2)
        words = [x.view(np.uint32).load(at, width=PIECE // 2) for x in (a, b)]
        pairs = [[k.unpack(word, bfloat16) for word in pair] for pair in zip(*words, strict=True)]
        products_ = [
            [x.astype(np.float32) * y.astype(np.float32) for x, y in zip(*pair, strict=True)] for pair in pairs
        ]
        out.view(np.uint32).store(at, [k.pack(*pair, bfloat16) for pair in products_])


@sim.kernel
def softmax_backward_kernel(
    k: Any, g: Any, p: Any, out: Any, rows: Any, n: Any, pitch: Any, *, held: int, whole: bool
) -> None:
    """out = g - p sum(g) by rows, where g are gradients times weights; a warp a row, as in `softmax_warp_kernel`.

    `whole` says that a row is a multiple of 32 elements.
    """
    lane = k.thread_idx.x & 31
    row = k.block_idx.x * WARPS + (k.thread_idx.x >> 5)
    with k.if_(row < rows):
        first = row.astype(np.int64) * pitch + lane
        x, w = (
            [a.load(first + 32 * j, where=None if whole else lane + 32 * j < n).astype(np.float32) for j in range(held)]
            for a in (g, p)
        )
        total = x[0]
        for v in x[1:]:
            total = total + v
        for distance in (16, 8, 4, 2, 1):
            total = total + k.shfl_xor(total, distance)
        for j in range(held):
            change = (x[j] - w[j] * total).astype(bfloat16)
            if whole:
                out[first + 32 * j] = change
            else:
                with k.if_(k.lane_id + 32 * j < pitch):
                    out[first + 32 * j] = change


class Steps:
    """The launches of a chain, and the sizes that they share."""

    def __init__(self, b: int, h: int, n: int, d: int) -> None:
        require_positive(b=b, h=h, n=n)
        require_choice("d", d, (32, 64, 128))
        self.params = {"b": b, "h": h, "n": n, "d": d}
        self.heads, self.n, self.d, self.pitch = b * h, n, d, blocks_for(n, PIECE) * PIECE
        self.size = self.heads * n * self.pitch  #: elements of scores
        self.tiles = blocks_for(n, BLOCK)
        self.launches: list[Launch] = []

    def _add(self, name: str, launch: Launch, flops: float) -> None:
        self.launches.append(launch.with_(name=f"attention.unfused {name}", params=self.params, flops=flops))

    def scores(self, name: str, q: Any, keys: Any, s: Any) -> None:
        """s = q keys^T."""
        plan = Plan(self.d, BLOCK, SCORE_COLUMNS, WARPS, False, self.n % BLOCK > 0)
        shared = max((BLOCK + SCORE_COLUMNS) * self.d, BLOCK * SCORE_COLUMNS) * BF16.itemsize
        grid = (blocks_for(self.n, SCORE_COLUMNS), self.tiles, self.heads)
        args = (q, keys, s, self.n, self.pitch)
        self._add(name, scores_kernel.launch(grid, plan.threads, args, {"plan": plan}, shared), self._product_flops)

    def product(self, name: str, p: Any, values: Any, o: Any, transposed: bool = False) -> None:
        """o = p values, or p^T values."""
        plan = Product(self.d, transposed)
        args, ring = (p, values, o, self.n, self.pitch), STAGES * plan.slot * BF16.itemsize
        launch = product_kernel.launch((self.tiles, self.heads), WARPS * 32, args, {"plan": plan}, ring)
        self._add(name, launch, self._product_flops)

    @property
    def _product_flops(self) -> float:
        return 2.0 * self.heads * self.n * self.n * self.d

    def scale(self, name: str, s: Any, out: Any) -> None:
        """out = s / sqrt(d)."""
        args = (s, out, self.size, 1 / math.sqrt(self.d))
        self._add(name, scale_kernel.launch(self._pieces, POINT_BLOCK, args), float(self.size))

    def multiply(self, name: str, a: Any, b: Any, out: Any) -> None:
        self._add(name, multiply_kernel.launch(self._pieces, POINT_BLOCK, (a, b, out, self.size)), float(self.size))

    @property
    def _pieces(self) -> int:
        return blocks_for(self.size // PIECE, POINT_BLOCK)

    def softmax(self, name: str, s: Any, p: Any) -> None:
        """A warp a row where rows are short, else a block a row: where the library changes over."""
        n, rows = self.n, self.heads * self.n
        if n <= WARP_ROW:
            args, held = (s, p, rows, n, self.pitch), {"held": blocks_for(self.pitch, 32)}
            launch = softmax_warp_kernel.launch(blocks_for(rows, WARPS), WARPS * 32, args, held)
        elif n <= LONGEST_ROW:
            held = {"held": blocks_for(self.pitch, WIDEST_BLOCK)}
            launch = softmax_block_kernel.launch(rows, WIDEST_BLOCK, (s, p, n, self.pitch), held)
        else:
            raise ValueError(f"n={n}: a block of the softmax holds rows of at most {LONGEST_ROW}")
        self._add(name, launch, 5.0 * self.size)

    def softmax_backward(self, name: str, g: Any, p: Any, out: Any) -> None:
        if self.n > BACKWARD_ROW:
            raise ValueError(f"n={self.n}: the backward softmax gives a row to a warp: at most {BACKWARD_ROW} elements")
        rows, constants = self.heads * self.n, {"held": blocks_for(self.pitch, 32), "whole": self.n % 32 == 0}
        args = (g, p, out, rows, self.n, self.pitch)
        launch = softmax_backward_kernel.launch(blocks_for(rows, WARPS), WARPS * 32, args, constants)
        self._add(name, launch, 3.0 * self.size)


def unfused(
    b: int, h: int, n: int, d: int = 64, backward: bool = False, device: sim.Device | None = None
) -> list[Launch]:
    """The launches of `softmax(q @ k.T * d**-0.5) @ v` in bfloat16, in order: scores, scale, softmax, product.

    With `backward` also those of its gradients, as automatic differentiation runs them: dV, dP, dP * P, softmax
    backward, scale, dQ, dK. With a `device` the launches are to run on it, one after the other: each then takes what
    the ones before left. Without one, each is a launch of its own, whose input is zeros unless it is Q, K, V or dO.
    """
    steps = Steps(b, h, n, d)
    place: Any = (lambda x: x) if device is None else device.array
    arrays = inputs(b, h, n, d, 4)
    q, keys, values, do = (place(x) for x in arrays)

    def scores() -> Any:
        return place(sim.zeros(steps.size, BF16))

    def rows() -> Any:
        return place(sim.zeros(steps.heads * n * d, BF16))

    s, scaled, p = scores(), scores(), scores()
    steps.scores("scores", q, keys, s)
    steps.scale("scale", s, scaled)
    steps.softmax("softmax", scaled, p)
    steps.product("product", p, values, rows())
    if backward:
        dp, ds, dscaled = scores(), scores(), scores()
        steps.product("dV", p, do, rows(), transposed=True)
        steps.scores("dP", do, values, dp)
        steps.multiply("dP * P", dp, p, dscaled)
        steps.softmax_backward("softmax backward", dscaled, p, ds)
        steps.scale("dS", ds, dscaled)
        steps.product("dQ", dscaled, keys, rows())
        steps.product("dK", dscaled, q, rows(), transposed=True)
    return (
        _expecting(steps.launches, [x.reshape(b * h, n, d) for x in arrays]) if device is not None else steps.launches
    )


def _expecting(launches: list[Launch], arrays: list[np.ndarray]) -> list[Launch]:
    """The launches with NumPy's answers for those that leave a result."""
    q, keys, values, do = arrays
    answers = {
        "product": lambda: attention(q, keys, values, False)[0],
        "dQ": lambda: gradients(q, keys, values, do, False)[0],
        "dK": lambda: gradients(q, keys, values, do, False)[1],
        "dV": lambda: gradients(q, keys, values, do, False)[2],
    }

    def expecting(launch: Launch) -> Launch:
        answer = answers.get(launch.name.removeprefix("attention.unfused "))
        if answer is None:
            return launch
        return launch.with_(expected=lambda: {"o": answer().astype(bfloat16).ravel()}, rtol=3e-2, atol=3e-2)

    return [expecting(launch) for launch in launches]
