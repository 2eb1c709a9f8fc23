"""What may follow a matrix product: in its epilogue, on sums in registers, or as a kernel of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import sim
from workloads.data import require_choice, standard_normal

HEAD = 64  #: columns of a head, that rotary embedding turns by pairs
ROTARY_BASE = 10000.0
EPSILON = 1e-5  #: added to a row's mean of squares
SCALE = 0.125
GELU_SLOPE, GELU_CUBE = 0.79788456, 0.044715  #: sqrt(2 / pi), and the factor of x^3, of GELU's tanh form

Array = np.ndarray


@dataclass(frozen=True)
class Fusion:
    """Nothing; and what others say in its place.

    `apply` gets some neighbours of a row, whose first column is even, and gives what is stored for them.
    """

    name = "none"
    shrinks = 1  #: columns that become one
    changes = True  #: whether the matrix is another than before
    sums_rows = False  #: whether `of_row` is a variable that gathers a sum, which the operand receives by tile and row

    def operand(self, m: int, n: int, dtype: np.dtype) -> Any:
        """The kernel's argument besides the matrix of `m` x `n`: an array or a number; 0 if it needs none."""
        return 0

    def of_row(self, k: Any, operand: Any, row: Any) -> Any:
        """What `apply` needs to know of a row."""
        return None

    def apply(self, k: Any, xs: Sequence[Any], operand: Any, row: Any, column: Any, of_row: Any) -> Sequence[Any]:
        """Float32 results of float32 neighbours."""
        return xs

    def numpy(self, x: Array, operand: Any) -> Array:
        """The same of a whole float32 matrix."""
        return x

    def results(self, x: Array, operand: Any, dtype: np.dtype) -> dict[str, Array]:
        """What C, and the operand if it is written, must be, by the kernel's names."""
        return {"c": self.numpy(x, operand).astype(dtype)}


class Bias(Fusion):
    """Adds a number for each column."""

    name = "bias"

    def operand(self, m: int, n: int, dtype: np.dtype) -> Array:
        return standard_normal(n).astype(dtype)

    def apply(self, k: Any, xs: Sequence[Any], operand: Any, row: Any, column: Any, of_row: Any) -> Sequence[Any]:
        return [x + b.astype(np.float32) for x, b in zip(xs, operand.load(column, width=len(xs)), strict=True)]

    def numpy(self, x: Array, operand: Array) -> Array:
        return x + operand.astype(np.float32)


class Gelu(Fusion):
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""

    name = "gelu"

    def apply(self, k: Any, xs: Sequence[Any], operand: Any, row: Any, column: Any, of_row: Any) -> Sequence[Any]:
        return [0.5 * x * (1.0 + k.tanh(GELU_SLOPE * (x + GELU_CUBE * x * x * x))) for x in xs]

    def numpy(self, x: Array, operand: Any) -> Array:
        return 0.5 * x * (1 + np.tanh(GELU_SLOPE * (x + GELU_CUBE * x**3)))


class Swiglu(Fusion):
    """gate sigmoid(gate) up: even columns are gates, odd ones what they let through."""

    name = "swiglu"
    shrinks = 2

    def apply(self, k: Any, xs: Sequence[Any], operand: Any, row: Any, column: Any, of_row: Any) -> Sequence[Any]:
        pairs = zip(xs[::2], xs[1::2], strict=True)
        return [up * k.fdividef(gate, 1.0 + k.exp(-gate, fast=True)) for gate, up in pairs]

    def numpy(self, x: Array, operand: Any) -> Array:
        gate, up = x[:, ::2], x[:, 1::2]
        return up * gate / (1 + np.exp(-gate))


class Residual(Fusion):
    """Adds another matrix."""

    name = "residual"

    def operand(self, m: int, n: int, dtype: np.dtype) -> Array:
        return standard_normal(m * n).reshape(m, n).astype(dtype)

    def apply(self, k: Any, xs: Sequence[Any], operand: Any, row: Any, column: Any, of_row: Any) -> Sequence[Any]:
        others = operand.load((row, column), width=len(xs))
        return [x + other.astype(np.float32) for x, other in zip(xs, others, strict=True)]

    def numpy(self, x: Array, operand: Array) -> Array:
        return x + operand.astype(np.float32)


class Scale(Fusion):
    """Multiplies by a number."""

    name = "scale"

    def operand(self, m: int, n: int, dtype: np.dtype) -> float:
        return SCALE

    def apply(self, k: Any, xs: Sequence[Any], operand: Any, row: Any, column: Any, of_row: Any) -> Sequence[Any]:
        return [x * operand for x in xs]

    def numpy(self, x: Array, operand: float) -> Array:
        return x * np.float32(operand)


@dataclass(frozen=True)
class RmsStats(Fusion):
    """Leaves the matrix as it is, and sums the squares of each row of a tile: the operand gets [tiles, rows]."""

    name = "rms_stats"

    columns: int  #: of a tile
    changes = False
    sums_rows = True

    def operand(self, m: int, n: int, dtype: np.dtype) -> Any:
        return sim.zeros((-(-n // self.columns), m))

    def of_row(self, k: Any, operand: Any, row: Any) -> Any:
        return k.var(0.0)

    def apply(self, k: Any, xs: Sequence[Any], operand: Any, row: Any, column: Any, of_row: Any) -> Sequence[Any]:
        for x in xs:
            of_row.set(x * x + of_row)
        return xs

    def results(self, x: Array, operand: Any, dtype: np.dtype) -> dict[str, Array]:
        starts = range(0, x.shape[1], self.columns)
        squares = np.stack([(x[:, j : j + self.columns] ** 2).sum(axis=1) for j in starts])
        return {"c": x.astype(dtype), "operand": squares}


@dataclass(frozen=True)
class RmsScale(Fusion):
    """Multiplies each row by 1 / sqrt(mean of squares) of the row of A, of which `RmsStats` left the sums by tile.

    The scaling of RMSNorm thus waits until after the next product: (D A) B = D (A B) for a diagonal D.
    """

    name = "rms_scale"

    tiles: int  #: sums of each row
    columns: int  #: of A: over so many is the mean

    def operand(self, m: int, n: int, dtype: np.dtype) -> Array:
        each = self.columns / self.tiles * (1 + 0.25 * standard_normal(self.tiles * m) ** 2)
        return each.reshape(self.tiles, m).astype(np.float32)

    def of_row(self, k: Any, operand: Any, row: Any) -> Any:
        total = operand[0, row]
        for tile in range(1, self.tiles):
            total = total + operand[tile, row]
        return k.rsqrt(total * (1.0 / self.columns) + EPSILON)

    def apply(self, k: Any, xs: Sequence[Any], operand: Any, row: Any, column: Any, of_row: Any) -> Sequence[Any]:
        return [x * of_row for x in xs]

    def numpy(self, x: Array, operand: Array) -> Array:
        return x / np.sqrt(operand.sum(axis=0) / self.columns + EPSILON)[:, None]


class Rotary(Fusion):
    """Turns each pair of columns of a head by an angle that grows with the row, its position."""

    name = "rotary"

    def operand(self, m: int, n: int, dtype: np.dtype) -> Array:
        angles = np.arange(m)[:, None] * ROTARY_BASE ** (-np.arange(0, HEAD, 2) / HEAD)
        return np.stack([np.cos(angles), np.sin(angles)], axis=2).reshape(m, HEAD).astype(np.float32)

    def apply(self, k: Any, xs: Sequence[Any], operand: Any, row: Any, column: Any, of_row: Any) -> Sequence[Any]:
        turned: list[Any] = []
        for j in range(0, len(xs), 2):
            cosine, sine = operand.load((row, (column & (HEAD - 1)) + j), width=2)
            x, y = xs[j : j + 2]
            turned += [x * cosine - y * sine, x * sine + y * cosine]
        return turned

    def numpy(self, x: Array, operand: Array) -> Array:
        pairs = x.reshape(len(x), -1, HEAD // 2, 2)
        cosine, sine = operand[:, None, ::2], operand[:, None, 1::2]
        first, second = pairs[..., 0], pairs[..., 1]
        turned = np.stack([first * cosine - second * sine, first * sine + second * cosine], axis=-1)
        return turned.reshape(x.shape)


NAMES = ("none", "bias", "gelu", "swiglu", "residual", "scale", "rms_stats", "rms_scale", "rotary")


def fusion(name: str, n: int, k: int, columns: int) -> Fusion:
    """The fusion of a name, after a product of `n` columns and depth `k` in tiles of so many `columns`.

    Raises `ValueError` for a name that there is not, and for columns that it does not take.
    """
    require_choice("epilogue", name, NAMES)
    if name != "none" and n % 2:
        raise ValueError(f"n={n}: epilogues take columns by pairs; use an even number")
    if name == "rotary" and n % HEAD:
        raise ValueError(f"n={n}: rotary embedding turns heads of {HEAD} columns; use a multiple")
    if name == "rms_stats":
        return RmsStats(columns)
    if name == "rms_scale":
        return RmsScale(math.ceil(k / columns), k)
    plain = {"none": Fusion, "bias": Bias, "gelu": Gelu, "swiglu": Swiglu, "residual": Residual, "scale": Scale}
    return {**plain, "rotary": Rotary}[name]()


def relative_error(dtype: np.dtype) -> float:
    """By how much results may differ that are rounded to a type once, from nearly the same numbers."""
    return max(float(np.spacing(dtype.type(1))), 1e-5)
