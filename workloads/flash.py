"""FlashAttention forward on tensor cores, as FlashAttention-2 does it for Ampere: a block a tile of queries.

The block walks over tiles of keys and values, last one first. Scores stay in registers: a tile's rows are scaled
to a running maximum, exponentiated, and multiplied with the values as they are, since the sums of one mma are laid
out as the left operand of the next. While the tensor cores work on keys, the values of the tile are on their way,
and while they work on values, the keys of the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

import sim
from sim.launch import Launch
from workloads.attention_numpy import attention, attention_flops, inputs
from workloads.data import blocks_for, require_choice, require_positive, workload
from workloads.tensor import set_all

M, N, K = 16, 8, 16  #: rows, columns and depth of one mma
PIECE = 8  #: elements of 16 bytes, which one copy moves and one row of `ldmatrix` is
LOG2_E = math.log2(math.e)
BF16 = np.dtype(bfloat16)

Scores = list[list[list[Any]]]  #: [16 rows][8 columns] -> the four sums of an mma
ScaleRow = Callable[[tuple[int, int], Any], None]  #: multiplies a row of the output, one of `Rows.parts`


@dataclass(frozen=True)
class Plan:
    """What the kernel knows at compile time."""

    d: int  #: head dimension
    block_m: int  #: queries a block
    block_n: int  #: keys and values at a time
    warps: int
    causal: bool
    edges: bool  #: whether `n` is no multiple of both tiles
    fast_math: bool = False  #: exponentials as with -use_fast_math: without the instructions for denormal results

    @property
    def threads(self) -> int:
        return self.warps * 32

    @property
    def warp_rows(self) -> int:
        """Queries a warp."""
        return self.block_m // self.warps

    @property
    def scale_log2(self) -> float:
        """From a product of rows to the exponent of two: log2(e) / sqrt(d)."""
        return LOG2_E / math.sqrt(self.d)

    @property
    def masked_tiles(self) -> int:
        """Tiles of keys at most that a causal block sees in part."""
        return max(1, self.block_m // self.block_n) if self.causal else 1

    @property
    def shared_bytes(self) -> int:
        return (self.block_m + 2 * self.block_n) * self.d * BF16.itemsize


class Tile:
    """`rows` x `columns` halves in shared memory, from element `base` on; `threads` threads copy it.

    The 16-byte pieces of a row are exchanged by its number (exclusive or), so that those which eight rows have at one
    place lie in distinct banks. `slot` is added to an element's place: where in a ring of such tiles this one is.
    """

    def __init__(self, k: Any, shared: Any, shape: tuple[int, int], base: int, threads: int, thread: Any) -> None:
        self.k, self.shared, self.base = k, shared, base
        self.rows, self.columns = shape
        self.pieces = self.columns // PIECE
        self.pass_rows = threads // self.pieces  #: that the block copies at a time
        self.passes = self.rows // self.pass_rows
        self.row, self.piece = thread // self.pieces, thread % self.pieces
        self.copied = self.at(self.row, self.piece)

    @property
    def end(self) -> int:
        """The element behind the tile."""
        return self.base + self.rows * self.columns

    def at(self, row: Any, piece: Any) -> Any:
        """The element at which a piece starts; of `row`, multiples of eight may be left out and added later."""
        rows_of_banks = max(1, 8 // self.pieces)  # rows that fill the 128 bytes of all banks
        swapped = piece ^ ((row // rows_of_banks) % min(self.pieces, 8))
        return row * self.columns + swapped * PIECE + self.base

    def copy(self, source: Any, first: Any, pitch: Any, rows: Any, columns: Any = None, slot: Any = 0) -> None:
        """Start copying from element `first` of `source`, whose rows are `pitch` elements apart.

        Rows from `rows` on and columns from `columns` on become zeros; None says that there are none.
        """
        inside = None if columns is None else self.piece * PIECE < columns
        for p in range(self.passes):
            row = self.row + p * self.pass_rows
            here = inside
            if rows is not None:
                here = row < rows if inside is None else (row < rows) & inside
            to = self.copied + p * self.pass_rows * self.columns + slot
            self.k.async_copy(self.shared, to, source, first + row * pitch + self.piece * PIECE, 16, here)

    def left(self, row: Any, offset: int, piece: int, slot: Any = 0) -> Any:
        """The left operand of an mma: 16 rows from `row` + `offset` on, two pieces from `piece` on."""
        lane = self.k.thread_idx.x & 31
        at = self.at(row + (lane & 15), piece + (lane >> 4))
        return self.k.ldmatrix(self.shared, at + offset * self.columns + slot)

    def left_transposed(self, piece: Any, offset: int, slot: Any = 0) -> Any:
        """The left operand of an mma whose rows are two pieces from `piece` on, and whose depth the tile's rows."""
        lane = self.k.thread_idx.x & 31
        at = self.at((lane & 7) + ((lane >> 4) << 3), piece + ((lane >> 3) & 1))
        return self.k.ldmatrix(self.shared, at + offset * self.columns + slot, transposed=True)

    def right(self, offset: int, piece: int, slot: Any = 0) -> tuple[Any, Any]:
        """The right operands of two mma's whose columns are the tile's rows: 16 from `offset` on."""
        lane = self.k.thread_idx.x & 31
        at = self.at((lane & 7) + ((lane >> 4) << 3), piece + ((lane >> 3) & 1))
        four = self.k.ldmatrix(self.shared, at + offset * self.columns + slot)
        return four[:2], four[2:]

    def right_transposed(self, offset: int, piece: Any, slot: Any = 0) -> tuple[Any, Any]:
        """The right operands of two mma's whose depth is the tile's rows: 16 from `offset` on."""
        lane = self.k.thread_idx.x & 31
        at = self.at(lane & 15, piece + (lane >> 4))
        four = self.k.ldmatrix(self.shared, at + offset * self.columns + slot, transposed=True)
        return four[:2], four[2:]


class Rows:
    """The rows that a thread has of a warp's tile: of each 16, one in the upper and one in the lower half."""

    def __init__(self, k: Any, plan: Plan, warp: Any, lane: Any) -> None:
        self.first = warp * plan.warp_rows  #: of the warp, in the block's tile
        self.column = (lane & 3) * 2  #: of eight, the first of the thread's two
        self.parts = [(i, half) for i in range(plan.warp_rows // M) for half in (0, 1)]
        self.numbers = [self.first + i * M + half * 8 + (lane >> 2) for i, half in self.parts]

    @staticmethod
    def of(scores: Scores, part: tuple[int, int]) -> list[Any]:
        """The scores of one row."""
        i, half = part
        return [x for four in scores[i] for x in four[2 * half : 2 * half + 2]]


class Softmax:
    """The running maximum and sum of each row; `scale` multiplies the rows of the output that they belong to.

    `fused` says that scaling scores and subtracting their maximum is one instruction. PyTorch's build for Ampere rounds
    the product, so that the largest weight is exactly one.
    """

    def __init__(self, k: Any, plan: Plan, rows: Rows, scale: ScaleRow, fused: bool = False) -> None:
        self.k, self.plan, self.rows, self.scale, self.fused = k, plan, rows, scale, fused
        self.maximum = k.vars(len(rows.parts), -math.inf)
        self.total = k.vars(len(rows.parts))  # of this thread's columns only, until the end
        self.largest: list[Any] = []  # exponent of each row's maximum
        self.kept: list[Any] = []  # what the output of each row is to be multiplied with

    def rescale(self, scores: Scores, first: bool, unseen: bool) -> None:
        """Raise the maxima to those of the scores, and scale the sums to them; `rescale_output` is to follow.

        `unseen` says whether there may be rows that no key was for so far.
        """
        k, scale = self.k, self.plan.scale_log2
        mine = [self.rows.of(scores, part) for part in self.rows.parts]
        higher = [None if first else k.max(m, x[0]) for m, x in zip(self.maximum, mine, strict=True)]
        for column in zip(*mine, strict=True):
            higher = [x if h is None else k.max(h, x) for h, x in zip(higher, column, strict=True)]
        for distance in (2, 1):
            higher = [k.max(h, k.shfl_xor(h, distance)) for h in higher]
        self.largest, self.kept = [], []
        for now, maximum, total in zip(higher, self.maximum, self.total, strict=True):
            # Of a row that has seen no key yet, minus infinity shall give weights of zero, not NaN.
            seen = k.select(now == -math.inf, 0.0, now) if unseen else now
            self.largest.append(k.mul(seen, scale))
            if not first:
                keep = k.exp2((maximum - seen) * scale, fast=self.plan.fast_math)
                total.set(total * keep)
                self.kept.append(keep)
            maximum.set(now)

    def rescale_output(self) -> None:
        """Scale the output to the maxima."""
        for part, keep in zip(self.rows.parts, self.kept, strict=True):
            self.scale(part, keep)

    def exponentiate(self, scores: Scores, column: int) -> None:
        """Scores of eight columns become weights, which are added to the rows' sums."""
        k, scale = self.k, self.plan.scale_log2
        for (i, half), largest, total in zip(self.rows.parts, self.largest, self.total, strict=True):
            for at in (2 * half, 2 * half + 1):
                x = scores[i][column][at]
                exponent = (x * scale if self.fused else k.mul(x, scale)) - largest
                weight = k.exp2(exponent, fast=self.plan.fast_math)
                total.set(total + weight)
                scores[i][column][at] = weight

    def packed(self, scores: Scores, depth: int) -> list[list[Any]]:
        """The weights of 16 columns as left operands: two mma's sums side by side are laid out as those of the next."""
        pairs = [(side, half) for side in (0, 1) for half in (0, 1)]
        return [
            [self.k.pack(*of_row[2 * depth + side][2 * half : 2 * half + 2], bfloat16) for side, half in pairs]
            for of_row in scores
        ]

    def add_up(self, total: Any) -> None:
        """Make the total of a thread's columns that of its row, of which four threads have a part."""
        for distance in (2, 1):
            total.set(total + self.k.shfl_xor(total, distance))

    def finish(self) -> list[Any]:
        """Divide the output by the whole row's sum; the logarithm of the sum of exponentials of each row."""
        k, logarithms = self.k, []
        for part, maximum, total in zip(self.rows.parts, self.maximum, self.total, strict=True):
            self.add_up(total)
            self.scale(part, k.rcp(total, fast=True))
            logarithms.append(maximum * (self.plan.scale_log2 / LOG2_E) + k.log(total, fast=True))
        return logarithms


class Spills:
    """Registers that a thread keeps in local memory, as a compiler does with those that 255 do not hold.

    `constants` are stored at once, and loaded where they are used. `changing` variables are stored by `leave` and come
    back by `fetch`, which are for each tile of keys.
    """

    def __init__(self, k: Any, constants: list[Any], changing: list[Any]) -> None:
        self.count, self.changing = len(constants), changing
        if constants or changing:
            self.words = k.local(len(constants) + len(changing), np.int32)
            self.floats = self.words.view(np.float32)
        for at, value in enumerate(constants):
            self.words[at] = value

    def constants(self) -> list[Any]:
        """The constants, loaded here."""
        return [self.words[at] for at in range(self.count)]

    def leave(self) -> None:
        """Store the changing variables."""
        for at, x in enumerate(self.changing, self.count):
            self.floats[at] = x

    def fetch(self) -> None:
        """Load them."""
        for at, x in enumerate(self.changing, self.count):
            x.set(self.floats[at])


@sim.kernel
def flash_kernel(
    k: Any, q: Any, keys: Any, values: Any, o: Any, logs: Any, n: Any, *, plan: Plan, spilled: Any = (0, 0)
) -> None:
    """O = softmax(Q K^T / sqrt(d)) V for a tile of queries of one head, and the logarithms of the rows' sums."""
    shared = k.shared_dynamic(q.dtype)
    thread = k.thread_idx.x
    tile_q = Tile(k, shared, (plan.block_m, plan.d), 0, plan.threads, thread)
    tile_k = Tile(k, shared, (plan.block_n, plan.d), tile_q.end, plan.threads, thread)
    tile_v = Tile(k, shared, (plan.block_n, plan.d), tile_k.end, plan.threads, thread)
    rows = Rows(k, plan, thread >> 5, thread & 31)
    out: Scores = [[k.vars(4) for _ in range(plan.d // N)] for _ in range(plan.warp_rows // M)]
    softmax = Softmax(k, plan, rows, scale_of(out), fused=plan.fast_math)
    head = (k.block_idx.z * k.grid_dim.y + k.block_idx.y) * n
    row0 = k.block_idx.x * plan.block_m
    visible = k.min(row0 + plan.block_m, n) if plan.causal else n  # keys that some query of the tile sees
    tiles = (visible + (plan.block_n - 1)) // plan.block_n

    def start(tile: Tile, source: Any, t: Any, edge: bool) -> None:
        """Start copying tile `t` of keys or values."""
        row = t * plan.block_n
        tile.copy(source, (head + row) * plan.d, plan.d, n - row if edge else None)
        k.async_commit()

    def step(t: Any, first: bool, masked: bool) -> None:
        """One tile of keys and values; the keys are on their way already."""
        k.async_wait(0)
        k.syncthreads()
        start(tile_v, values, t, first and plan.edges)
        scores = products(k, plan, rows, tile_q, tile_k)
        edge = first and plan.edges
        if (masked and plan.causal) or edge:
            mask(k, plan, rows, scores, row0, t, n if edge else None)
        if not first:
            spills.fetch()
        k.async_wait(0)
        k.syncthreads()
        with k.if_(t > 0):
            start(tile_k, keys, t - 1, False)
        softmax.rescale(scores, first, masked and plan.masked_tiles > 1)
        if not first:
            softmax.rescale_output()
        accumulate(k, plan, softmax, scores, tile_v, out)
        spills.leave()

    tile_q.copy(q, (head + row0) * plan.d, plan.d, n - row0 if plan.edges else None)
    start(tile_k, keys, tiles - 1, plan.edges)
    once, each = spilled
    changing = [*softmax.maximum, *softmax.total, *(x for of_row in out for four in of_row for x in four)]
    spills = Spills(k, list(places(rows, tile_q, slice(once))), changing[:each])
    step(tiles - 1, True, True)
    whole = row0 // plan.block_n if plan.causal else tiles - 1  # tiles of which every query sees every key
    if plan.masked_tiles > 1:
        for back in k.range_(2, tiles - whole + 1, unroll=1):
            step(tiles - back, False, True)
    for back in k.range_(1, whole + 1, unroll=1):
        step(whole - back, False, False)
    spills.fetch()
    store(k, plan, softmax.finish(), out, shared, (o, logs), head + row0, n - row0, spills.constants())


def scale_of(out: Scores) -> ScaleRow:
    """What multiplies a row of an output in variables."""

    def scale(part: tuple[int, int], factor: Any) -> None:
        for x in Rows.of(out, part):
            x.set(x * factor)

    return scale


def products(k: Any, plan: Plan, rows: Rows, tile_q: Tile, tile_k: Tile, slot: Any = 0) -> Scores:
    """The warp's tile of Q K^T; `slot` is that of the queries."""
    scores: Scores = [[[0.0] * 4 for _ in range(plan.block_n // N)] for _ in range(plan.warp_rows // M)]
    for depth in range(plan.d // K):
        of_q = [tile_q.left(rows.first, i * M, 2 * depth, slot) for i in range(plan.warp_rows // M)]
        for j in range(plan.block_n // (2 * N)):
            for column, of_k in enumerate(tile_k.right(j * 2 * N, 2 * depth), 2 * j):
                for i, fragment in enumerate(of_q):
                    scores[i][column] = list(k.mma(fragment, of_k, tuple(scores[i][column]), dtype=bfloat16))
    return scores


def accumulate(k: Any, plan: Plan, softmax: Softmax, scores: Scores, tile_v: Tile, out: Scores) -> None:
    """Add the weights' product with the values to the output."""
    for depth in range(plan.block_n // K):
        for side in (0, 1):
            softmax.exponentiate(scores, 2 * depth + side)
        left = softmax.packed(scores, depth)
        for j in range(plan.d // (2 * N)):
            for column, of_v in enumerate(tile_v.right_transposed(depth * K, 2 * j), 2 * j):
                for fragment, of_row in zip(left, out, strict=True):
                    set_all(of_row[column], k.mma(fragment, of_v, tuple(of_row[column]), dtype=bfloat16))


def mask(k: Any, plan: Plan, rows: Rows, scores: Scores, row0: Any, t: Any, n: Any) -> None:
    """Minus infinity for keys that a query does not see: later ones if causal, and those from `n` on if it is given."""
    for (i, half), number in zip(rows.parts, rows.numbers, strict=True):
        last = n - 1 if n is not None else row0 + number
        if plan.causal and n is not None:
            last = k.min(last, row0 + number)
        left = last - t * plan.block_n - rows.column
        for j, four in enumerate(scores[i]):
            for side in (0, 1):
                x = four[2 * half + side]
                four[2 * half + side] = k.select(left >= j * N + side, x, -math.inf)


def store(
    k: Any,
    plan: Plan,
    logarithms: list[Any],
    out: Scores,
    shared: Any,
    to: tuple[Any, Any],
    row: Any,
    left: Any,
    known: Sequence[Any],
) -> None:
    """Output and logarithms of a tile from global row `row` on, of which there are `left`.

    `known` are the first of the output's places in shared memory.

    The output goes through the place of Q, so that it leaves in whole rows. The lane is asked for anew: addresses
    made of the thread's number would be kept from the start, in registers that the loop needs.
    """
    warp, lane = k.warp_id, k.lane_id
    rows = Rows(k, plan, warp, lane)
    tile = Tile(k, shared, (plan.block_m, plan.d), 0, plan.threads, warp * 32 + lane)
    o, logs = to
    for number, logarithm in zip(rows.numbers, logarithms, strict=True):
        first = rows.column == 0
        with k.if_(first & (number < left) if plan.edges else first):
            logs[row + number] = logarithm
    put(k, rows, tile, out, known)
    k.syncthreads()
    leave(k, tile, o, row * plan.d, plan.d, left if plan.edges else None)


def places(rows: Rows, tile: Tile, part: slice = slice(None)) -> Iterator[Any]:
    """The words of a shared tile in which a thread puts pairs of its sums, row by row; a part of them."""
    pieces = [(number, j) for number in rows.numbers for j in range(tile.pieces)]
    return ((tile.at(number, j) + rows.column) // 2 for number, j in pieces[part])


def put(k: Any, rows: Rows, tile: Tile, sums: Scores, known: Sequence[Any] = ()) -> None:
    """Put a warp's sums into a shared tile; `known` are the first of their `places`."""
    words = tile.shared.view(np.uint32)
    pairs = [four[2 * half : 2 * half + 2] for i, half in rows.parts for four in sums[i]]
    packed = (k.pack(*pair, bfloat16) for pair in pairs)
    for pair, place in zip(packed, chain(known, places(rows, tile, slice(len(known), None))), strict=True):
        words[place] = pair


def leave(k: Any, tile: Tile, array: Any, first: Any, pitch: Any, rows: Any, columns: Any = None) -> None:
    """Store a shared tile to `array` from element `first` on; rows and columns as in `Tile.copy`."""
    words, pieces = tile.shared.view(np.uint32), array.view(np.uint32)
    inside = None if columns is None else tile.piece * PIECE < columns
    for p in range(tile.passes):
        row = tile.row + p * tile.pass_rows
        four = words.load((tile.copied + p * tile.pass_rows * tile.columns) // 2, width=4)
        index = (first + row * pitch + tile.piece * PIECE) // 2
        if rows is None:
            pieces.store(index, four)
        else:
            with k.if_(row < rows if inside is None else (row < rows) & inside):
                pieces.store(index, four)


@workload
def flash(
    b: int,
    h: int,
    n: int,
    d: int = 64,
    causal: bool = False,
    block_m: int = 128,
    block_n: int = 128,
    warps: int = 4,
    fast_math: bool = False,
    spilled: tuple[int, int] = (0, 0),
) -> Launch:
    """FlashAttention forward in bfloat16: `b` sequences of `n` positions, `h` heads of `d`.

    `block_m` queries a block, `block_n` keys at a time, `warps` warps that share the queries. `fast_math`: exponentials
    as with -use_fast_math, with which the authors build their package, and PyTorch does not. `spilled`: registers of a
    thread that are kept in local memory, as a compiler keeps them there: so many stored once, addresses, and so many
    stored after each tile of keys and loaded for the next, maxima, sums and outputs. Outputs are `o` [b, h, n, d] and
    `logs` [b, h, n], the logarithms of each row's sum of exponentials, which the backward pass needs.
    """
    require_positive(b=b, h=h, n=n, block_m=block_m, block_n=block_n, warps=warps)
    require_choice("d", d, (32, 64, 128))
    plan = Plan(d, block_m, block_n, warps, causal, n % block_m > 0 or n % block_n > 0, fast_math)
    check_blocks(plan)
    check_spilled(plan, spilled)
    q, keys, values = inputs(b, h, n, d)

    def right() -> dict[str, np.ndarray]:
        o, logs = attention(*(x.reshape(b * h, n, d) for x in (q, keys, values)), causal)
        return {"o": o.astype(bfloat16).ravel(), "logs": logs.ravel()}

    launch = flash_kernel.launch(
        (blocks_for(n, block_m), h, b),
        plan.threads,
        args=(q, keys, values, sim.zeros(b * h * n * d, BF16), sim.zeros(b * h * n), n),
        constants={"plan": plan, "spilled": tuple(spilled)},
        shared_bytes=plan.shared_bytes,
    )
    return launch.with_(
        name="attention.flash",
        params={"b": b, "h": h, "n": n, "d": d, "causal": causal, "tile": f"{block_m}x{block_n}", "warps": warps}
        | ({"fast_math": True} if fast_math else {})
        | ({"spilled": "{}x{}".format(*spilled)} if any(spilled) else {}),
        expected=right,
        flops=attention_flops(b, h, n, d, causal),
        rtol=2e-2,
        atol=2e-3,
    )


def check_blocks(plan: Plan) -> None:
    """Raise `ValueError` for blocks that the kernel has no code for."""
    for name, size in (("block_m", plan.block_m), ("block_n", plan.block_n)):
        require_choice(name, size, (32, 64, 128, 256))
    require_choice("warps", plan.warps, (1, 2, 4, 8))
    if plan.warp_rows % M:
        raise ValueError(f"block_m={plan.block_m}: each of {plan.warps} warps takes a multiple of {M} queries")
    if plan.warps * 32 < plan.d:
        raise ValueError(
            f"warps={plan.warps}: copies take eight rows of d={plan.d} at a time; use {plan.d // 32} or more"
        )
    if min(plan.block_m, plan.block_n) * plan.d // PIECE < plan.warps * 32:
        raise ValueError(f"warps={plan.warps}: a tile is less than a piece a thread; use fewer warps or larger blocks")
    sums = plan.warp_rows * (plan.block_n + plan.d) // 32
    if sums > 192:
        raise ValueError(
            f"block_m={plan.block_m}, block_n={plan.block_n}: scores and output take {sums} registers a thread, "
            "and with addresses and fragments more than 192 do not fit; use smaller blocks or more warps"
        )


def check_spilled(plan: Plan, spilled: Sequence[int]) -> None:
    """Raise `ValueError` for more registers in local memory than the kernel has to keep there."""
    rows = plan.warp_rows // N  # of a thread
    limits = (rows * plan.d // PIECE, rows * (2 + plan.d // 4))
    if not all(0 <= count <= limit for count, limit in zip(spilled, limits, strict=True)):
        raise ValueError(
            f"spilled={tuple(spilled)}: with these blocks 0 to {limits[0]} registers can be stored once, "
            f"and 0 to {limits[1]} with each tile of keys"
        )
