"""The launches of the validation suite, kernel by kernel as it was compiled: grid, block, arguments and data.

The suite is a folder that is not part of this repository: `kernels.sass.gz`, what `cuobjdump` prints of its kernels,
and what a card counted for them (`Card`). Its program makes 217 launches on three large buffers. Here each pointer is
an array of its own that is as long as the launch needs, filled as that program fills it with the C library's random
numbers.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import sim
from sim._jit import jit
from sim.launch import Dim3, Launch, OutputArray, dim3
from sim.sass import Kernels

SUITE = Path(__file__).parents[2] / "shared" / "silicon" / "h200"  #: beside the repository, where there is one
LISTING, COUNTERS, REPEATS = "kernels.sass.gz", "kernels_counters.csv", "kernels_cycles_repeat.csv"
CYCLES = "sm__cycles_elapsed.max"
INSTRUCTIONS = "smsp__inst_executed.sum"

#: classes of the error table, with their kernels
CLASSES = {
    "streaming": ("copy1", "copy4", "saxpy", "vadd", "relu_bf16", "gelu", "grid_stride_copy"),
    "coalescing": ("stride_read", "stride_write", "offset_copy", "gather"),
    "transpose": ("transpose_naive", "transpose_tile"),
    "matmul": ("mm_naive_coal", "mm_naive_uncoal", "mm_tiled", "mm_reg", "mm_wmma"),
    "gemv": ("gemv_row", "gemv_warp"),
    "divergence": ("relu_branch", "div_if", "div_ways", "div_warp", "div_trip"),
    "banks": ("bank",),
    "reductions": ("reduce_mod", "reduce_bank", "reduce_seq", "reduce_shfl"),
    "rows": ("softmax_row", "layernorm_row"),
    "histogram": ("hist",),
    "fusion": (
        "k_sin",
        "k_cos",
        "k_sq",
        "k_fused",
        "sig3_fwd_store",
        "sig3_bwd_load",
        "sig3_fwd",
        "sig3_bwd_recompute",
    ),
    "attention": ("flash_fp32", "attn_scores", "attn_pv"),
    "waves": ("spin", "occ"),
    "stencil": ("stencil",),
}
CLASS_OF = {kernel: name for name, kernels in CLASSES.items() for kernel in kernels}

#: bytes of static shared memory by kernel, which the listing does not have
#: (`launch__shared_mem_per_block_static` of the counters)
SHARED_STATIC_BYTES = {
    "_Z14transpose_tileILi0E": 4096,
    "_Z14transpose_tileILi1E": 4224,
    "_Z8mm_tiledILi16E": 2048,
    "_Z8mm_tiledILi32E": 8192,
    "mm_reg": 8192,
    "bank": 0,
    "hist": 0,
    "reduce_mod": 1024,
    "reduce_bank": 1024,
    "reduce_seq": 1024,
    "reduce_shfl": 32,
    "softmax_row": 128,
    "layernorm_row": 256,
    "flash_fp32": 16384,
}

FLOATS = 1 << 24  #: of random data that the program repeats over its buffer X and puts once into Z
RAND_MAX = 2**31 - 1


@jit
def _additive(state: npt.NDArray[np.uint32], count: int) -> npt.NDArray[np.uint32]:
    """`count` numbers of the additive generator x[i] = x[i - 31] + x[i - 3] from its first 34 values."""
    values = np.zeros(count + 344, np.uint32)
    values[:34] = state
    for i in range(34, count + 344):
        values[i] = values[i - 31] + values[i - 3]
    return values[344:] >> np.uint32(1)


def c_random(seed: int, count: int) -> npt.NDArray[np.uint32]:
    """`count` values of glibc's rand() after srand(seed): the additive generator (random(3), TYPE_3)."""
    state = [seed]
    for _ in range(30):
        high, low = divmod(state[-1], 127773)
        word = 16807 * low - 2836 * high
        state.append(word + RAND_MAX if word < 0 else word)
    state += state[:3]
    return np.asarray(_additive(np.array(state, np.uint32), count))


@cache
def random_floats() -> npt.NDArray[np.float32]:
    """`rand() / (float) RAND_MAX - 0.5f` after srand(7)."""
    return c_random(7, FLOATS).astype(np.float32) / np.float32(RAND_MAX) - np.float32(0.5)


@cache
def random_indices() -> npt.NDArray[np.int32]:
    """`((size_t) rand() * 32768 + rand()) % n`, n = 2**22, after srand(3)."""
    n = 1 << 22
    values = c_random(3, 2 * n).astype(np.uint64)
    return ((values[0::2] * np.uint64(32768) + values[1::2]) % np.uint64(n)).astype(np.int32)


@cache
def random_trips() -> npt.NDArray[np.int32]:
    """`rand() % 256` after srand(5)."""
    return (c_random(5, 1 << 20) % 256).astype(np.int32)


@dataclass(frozen=True)
class Pointer:
    """A pointer argument: `count` elements of `dtype` from element `first` of one of the program's buffers on."""

    buffer: str  #: "X", "Y", "Z", "IDX" or "TRIP"
    count: int
    dtype: str = "float32"
    first: int = 0

    def values(self) -> npt.NDArray[Any] | OutputArray:
        """What it points to. Y starts as zeros; what launches before have left there decides no control flow."""
        if self.buffer == "Y":
            return sim.zeros(self.count, self.dtype)
        if self.buffer == "IDX":
            return random_indices()[: self.count]
        if self.buffer == "TRIP":
            return random_trips()[: self.count]
        size = np.dtype(self.dtype).itemsize
        words = -(-self.count * size // 4)
        start = self.first * size // 4
        at = np.arange(start, start + words) % FLOATS if start + words > FLOATS else slice(start, start + words)
        if self.buffer == "Z" and start + words > FLOATS:
            data = np.zeros(words, np.float32)
            data[: max(FLOATS - start, 0)] = random_floats()[start:]
        else:
            data = random_floats()[at]
        return np.ascontiguousarray(data).view(self.dtype)[: self.count]


Argument = Pointer | np.generic


@dataclass(frozen=True)
class Case:
    """One launch of the suite."""

    id: int  #: position in the program, as in the counters
    name: str  #: kernel, without template arguments
    params: str
    kernel: str  #: what finds the kernel in the listing
    grid: Dim3
    block: Dim3
    args: tuple[Argument, ...]
    shared_bytes: int = 0

    @property
    def label(self) -> str:
        return f"{self.name}({self.params})"

    @property
    def group(self) -> str:
        """Its class in the error table."""
        return CLASS_OF[self.name]

    def launch(self, folder: Path = SUITE) -> Launch:
        """The launch, with its data."""
        args = tuple(a.values() if isinstance(a, Pointer) else a for a in self.args)
        program = kernels(folder)[self.kernel]
        return Launch(program, self.grid, self.block, args, self.shared_bytes, name=self.label)


@cache
def kernels(folder: Path = SUITE) -> Kernels:
    """The suite's compiled kernels."""
    return sim.load_sass(folder / LISTING, shared_static_bytes=SHARED_STATIC_BYTES)


@cache
def card(folder: Path = SUITE) -> Mapping[int, Mapping[str, float]]:
    """The card's counters by launch. Its cycles are the median of several runs where the folder has them."""
    with (folder / COUNTERS).open(newline="") as file:
        rows = list(csv.DictReader(file))
    words = ("id", "case", "params")
    counted = {int(row["id"]): {k: float(v) for k, v in row.items() if k not in words} for row in rows}
    if (folder / REPEATS).exists():
        with (folder / REPEATS).open(newline="") as file:
            for row in csv.DictReader(file):
                counted[int(row["id"])][CYCLES] = float(row["median"])
    return counted


def launch(label: str, folder: str) -> Launch:
    """A launch of the suite by what it is called, in a form that a sweep takes."""
    return next(case for case in all_cases() if case.label == label).launch(Path(folder))


def int_(value: int) -> np.int32:
    return np.int32(value)


def up(n: int, d: int) -> int:
    """Blocks of d that cover n."""
    return -(-n // d)


class _Maker:
    """Collects cases in the program's order."""

    def __init__(self) -> None:
        self.cases: list[Case] = []

    def __call__(
        self, name: str, params: str, grid: Any, block: Any, *args: Argument, kernel: str = "", shared: int = 0
    ) -> None:
        shape = dim3(grid, "grid"), dim3(block, "block")
        self.cases.append(Case(len(self.cases), name, params, kernel or name, *shape, args, shared))


def X(count: int, dtype: str = "float32", first: int = 0) -> Pointer:
    return Pointer("X", count, dtype, first)


def Y(count: int, dtype: str = "float32", first: int = 0) -> Pointer:
    return Pointer("Y", count, dtype, first)


def Z(count: int, dtype: str = "float32", first: int = 0) -> Pointer:
    return Pointer("Z", count, dtype, first)


@cache
def all_cases() -> tuple[Case, ...]:
    """The launches, in order."""
    add = _Maker()
    for part in (_streaming, _coalescing, _matmul, _divergence, _blocks, _fusion, _attention, _waves):
        part(add)
    return tuple(add.cases)


def _streaming(add: _Maker) -> None:
    for n in (1 << lg for lg in (16, 18, 20, 22, 24, 26)):
        add("copy1", f"n={n},block=256", up(n, 256), 256, X(n), Y(n), int_(n))
        add("copy4", f"n={n},block=256", up(n // 4, 256), 256, X(n), Y(n), int_(n // 4))
    for n in (1 << 20, 1 << 24):
        where = f"n={n},block=256"
        add("saxpy", where, n // 256, 256, int_(n), np.float32(2), X(n), Y(n))
        add("vadd", where, n // 256, 256, X(n), Z(n), Y(n), int_(n))
        add("relu_bf16", where, n // 256, 256, X(n, "uint16"), Y(n, "uint16"), int_(n))
        add("gelu", where, n // 256, 256, X(n), Y(n), int_(n))
        add("grid_stride_copy", f"{where},grid=528", 528, 256, X(n), Y(n), int_(n))
        add("relu_branch", where, n // 256, 256, X(n), Y(n), int_(n))
    n = 1 << 22
    for block in (32, 64, 128, 512, 1024):
        add("copy1", f"n={n},block={block}", n // block, block, X(n), Y(n), int_(n))


def _coalescing(add: _Maker) -> None:
    n = 1 << 20
    for s in (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 64, 128):
        add("stride_read", f"n={n},stride={s},block=256", n // 256, 256, X(n * s), Y(n), int_(n), int_(s))
    for s in (1, 2, 4, 8, 16, 32):
        add("stride_write", f"n={n},stride={s},block=256", n // 256, 256, X(n), Y(n * s), int_(n), int_(s))
    n = 1 << 22
    for o in (0, 1, 2, 4, 8, 16, 31, 32):
        add("offset_copy", f"n={n},offset={o},block=256", n // 256, 256, X(n + o), Y(n), int_(n), int_(o))
    add("gather", f"n={n},block=256", n // 256, 256, Pointer("IDX", n, "int32"), X(n), Y(n), int_(n))
    for n in (512, 1024, 2048, 4096):
        grid, block = (n // 32, n // 32), (32, 8)
        args = X(n * n), Y(n * n), int_(n)
        add("transpose_naive", f"n={n}", grid, block, *args)
        for pad in (0, 1):
            kernel = f"_Z14transpose_tileILi{pad}E"
            add("transpose_tile", f"n={n},pad={pad}", grid, block, *args, kernel=kernel)


def _matmul(add: _Maker) -> None:
    for n in (128, 256, 512, 768, 1024, 2048):
        args = X(n * n), Z(n * n), Y(n * n), int_(n)
        wide, square = (up(n, 32), up(n, 8)), (up(n, 16), up(n, 16))
        add("mm_naive_coal", f"n={n},block=32x8", wide, (32, 8), *args)
        if n <= 1024:
            add("mm_naive_uncoal", f"n={n},block=32x8", wide, (32, 8), *args)
        add("mm_naive_coal", f"n={n},block=16x16", square, (16, 16), *args)
        add("mm_tiled", f"n={n},tile=16", square, (16, 16), *args, kernel="_Z8mm_tiledILi16E")
        add("mm_tiled", f"n={n},tile=32", (up(n, 32), up(n, 32)), (32, 32), *args, kernel="_Z8mm_tiledILi32E")
        add("mm_reg", f"n={n},tile=64x64x16", (n // 64, n // 64), 256, *args)
        halves = X(n * n, "uint16"), Z(n * n, "uint16"), Y(n * n), int_(n)
        add("mm_wmma", f"n={n}", (n // 32, n // 32), 128, *halves)
    for n in (255, 257, 513, 1000):
        args = X(n * n), Z(n * n), Y(n * n), int_(n)
        square = (up(n, 16), up(n, 16))
        add("mm_tiled", f"n={n},tile=16", square, (16, 16), *args, kernel="_Z8mm_tiledILi16E")
        add("mm_naive_coal", f"n={n},block=32x8", (up(n, 32), up(n, 8)), (32, 8), *args)
    for n in (1024, 4096, 8192):
        args = X(n * n), Z(n), Y(n), int_(n)
        add("gemv_row", f"n={n}", n // 128, 128, *args)
        add("gemv_warp", f"n={n}", n // 4, 128, *args)


def _divergence(add: _Maker) -> None:
    n = 1 << 20
    for k in (0, 1, 4, 8, 16, 31, 32):
        add("div_if", f"n={n},k={k},iters=256", n // 256, 256, Y(n), int_(n), int_(k), int_(256))
    for w in (1, 2, 3, 4, 8, 16, 32):
        add("div_ways", f"n={n},ways={w},iters=64", n // 256, 256, Y(n), int_(n), int_(w), int_(64))
    add("div_warp", f"n={n},iters=256", n // 256, 256, Y(n), int_(n), int_(256))
    add("div_trip", f"n={n}", n // 256, 256, Pointer("TRIP", n, "int32"), Y(n), int_(n))


def _blocks(add: _Maker) -> None:
    for s in (0, 1, 2, 3, 4, 8, 16, 31, 32, 33):
        where = f"grid=264,block=256,stride={s},iters=256"
        add("bank", where, 264, 256, Y(264 * 256), int_(s), int_(256), kernel="bank", shared=32768)
    for n in (1 << 20, 1 << 24):
        for name in ("reduce_mod", "reduce_bank", "reduce_seq", "reduce_shfl"):
            add(name, f"n={n}", n // 256, 256, X(n), Y(n // 256), int_(n))
    for d in (256, 1024, 4096):
        for name in ("softmax_row", "layernorm_row"):
            add(name, f"rows=4096,d={d},block=256", 4096, 256, X(4096 * d), Y(4096 * d), int_(d))
    n = 1 << 22
    for bins in (16, 256, 4096):
        args = Pointer("IDX", n, "int32"), Y(bins, "int32"), int_(n), int_(bins)
        add("hist", f"n={n},bins={bins},grid=264,block=256", 264, 256, *args, shared=bins * 4)


def _fusion(add: _Maker) -> None:
    n = 1 << 24
    a, c, d, e = (Y(n, first=k * n) for k in range(4))

    def launch(name: str, *args: Argument) -> None:
        add(name, f"n={n}", n // 256, 256, *args, int_(n))

    launch("k_sin", X(n), a)
    launch("k_cos", X(n), c)
    launch("k_sq", a, d)
    launch("k_fused", X(n), e)
    launch("sig3_fwd_store", X(n), a, c, d)
    launch("sig3_bwd_load", X(n), a, c, d, e)
    launch("sig3_fwd", X(n), d)
    launch("sig3_bwd_recompute", X(n), a, e)


def _attention(add: _Maker) -> None:
    heads, d = 16, 64
    for n in (512, 1024, 2048):
        rows, scores = heads * n * d, heads * n * n
        q, k, v = (X(rows, first=j << 24) for j in range(3))
        where = f"n={n},heads=16,d=64"
        add("flash_fp32", f"{where},Br=64,Bc=32", (n // 64, heads), 64, q, k, v, Y(rows), int_(n))
        grid = (n // 16, n // 16, heads)
        add("attn_scores", where, grid, (16, 16), q, k, Y(scores), int_(n), int_(d))
        args = Y(scores), Z(scores), int_(n)
        add("softmax_row", f"rows={heads * n},d={n},block=256", heads * n, 256, *args)
        grid = (d // 16, n // 16, heads)
        add("attn_pv", where, grid, (16, 16), Z(scores), v, Y(rows), int_(n), int_(d))


def _waves(add: _Maker) -> None:
    for block, grids in (
        (1024, (1, 66, 132, 133, 198, 264, 265, 396, 660, 1056, 1057)),
        (128, (1, 132, 264, 1056, 2112, 2113, 4224, 4225)),
    ):
        for g in grids:
            add("spin", f"grid={g},block={block},iters=2048", g, block, Y(g * block), int_(2048))
    for kib in (0, 16, 48, 100):
        for live in (8, 64):
            where = f"grid=1056,block=256,live={live},smem_kb={kib}"
            kernel = f"_Z3occILi{live}E"
            add("occ", where, 1056, 256, Y(1056 * 256), int_(64), kernel=kernel, shared=kib * 1024)
    for n in (1024, 4096):
        add("stencil", f"n={n},block=32x8", (n // 32, n // 8), (32, 8), X(n * n), Y(n * n), int_(n))
