"""What matrix products by wgmma share: the order of tiles, C's stores, and inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from workloads.data import small_integers

WARPGROUP = 128  #: threads
M = 64  #: rows of a product


class Tiling(Protocol):
    """What is known of tiles at compile time."""

    @property
    def bn(self) -> int:
        """Columns of a tile."""

    @property
    def rows(self) -> int:
        """Rows of the tile that one warpgroup computes."""

    @property
    def edges(self) -> bool:
        """Whether some tiles reach past C."""

    @property
    def pairs(self) -> bool:
        """Whether C's columns come in pairs that a thread can store at once."""


def tile_corner(k: Any, tile: Any, tiles_m: Any, tiles_n: Any, group: int) -> tuple[Any, Any]:
    """Row and column of a tile among the tiles: down a band of `group` rows, then to the band's next column.

    So blocks that run at the same time share rows and columns, which L2 then holds.
    """
    band, inside = k.divmod_truncating(tile, tiles_n * group)
    column, row = k.divmod_truncating(inside, k.min(tiles_m - band * group, group))
    return band * group + row, column


def store(k: Any, plan: Tiling, sums: Sequence[Any], c: Any, corner: Any, sizes: Any) -> None:
    """Write a warpgroup's sums, whose first row and column are `corner`, to C of `sizes`."""
    if not plan.edges:
        return put_all(k, plan, sums, c, corner, sizes, edge=False)
    (row, column), (m, n) = corner, sizes
    inside = (row + plan.rows <= m) & (column + plan.bn <= n)
    with k.if_(inside):
        put_all(k, plan, sums, c, corner, sizes, edge=False)
    with k.else_():
        put_all(k, plan, sums, c, corner, sizes, edge=True)


def put_all(k: Any, plan: Tiling, sums: Sequence[Any], c: Any, corner: Any, sizes: Any, edge: bool) -> None:
    """Write each pair of neighbours that a thread holds; at an `edge`, what lies inside C."""
    (row0, column0), (m, n) = corner, sizes
    for part, of_part in enumerate(sums):
        row, column = of_part.place(0)
        row, column = row0 + row + M * part, column0 + column
        for i in range(0, len(of_part), 2):
            down, right = 8 * (i >> 1 & 1), 8 * (i >> 2)
            pair = Pair(k, plan, c, row + down, column + right, n)
            if edge:
                pair.put_inside(of_part[i], of_part[i + 1], m)
            else:
                pair.put(of_part[i], of_part[i + 1])


class Pair:
    """Two neighbours in a row of C."""

    def __init__(self, k: Any, plan: Tiling, c: Any, row: Any, column: Any, n: Any) -> None:
        self.k, self.plan, self.c, self.row, self.column, self.n = k, plan, c, row, column, n

    def put(self, x: Any, y: Any) -> None:
        """Store both, at once where C's rows begin at whole pairs."""
        k, c = self.k, self.c
        if self.plan.pairs and c.dtype.is_half:
            c.view(np.uint32)[self.row * (self.n // 2) + self.column // 2] = k.pack(x, y, c.dtype)
        elif self.plan.pairs:
            c.store((self.row, self.column), (x, y))
        else:
            self._put_one(0, x)
            self._put_one(1, y)

    def _put_one(self, right: int, value: Any) -> None:
        self.c[self.row, self.column + right] = value.astype(self.c.dtype)

    def put_inside(self, x: Any, y: Any, m: Any) -> None:
        """Store what lies inside C."""
        with self.k.if_((self.row < m) & (self.column + 1 < self.n)):
            self.put(x, y)
        if not self.plan.pairs:
            with self.k.if_((self.row < m) & (self.column + 1 == self.n)):
                self._put_one(0, x)


def eighths(shape: tuple[int, int], dtype: np.dtype, seed: int) -> np.ndarray:
    """Multiples of 1/8 from -1/2 on, of which sums of products are exact; of integers whole numbers."""
    numbers = small_integers(shape[0] * shape[1], seed).reshape(shape)
    return (numbers if dtype.kind == "i" else numbers / 8).astype(dtype)
