"""What matrix products by wgmma share: the order of tiles, C's stores, and inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from workloads.data import small_integers
from workloads.fusions import Fusion

WARPGROUP = 128  #: threads
M = 64  #: rows of a product
TOGETHER = 16  #: pairs of a thread whose results are made before they are stored


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

    @property
    def fusion(self) -> Fusion:
        """What is done with the sums."""


def tile_corner(k: Any, tile: Any, tiles_m: Any, tiles_n: Any, group: int) -> tuple[Any, Any]:
    """Row and column of a tile among the tiles: down a band of `group` rows, then to the band's next column.

    So blocks that run at the same time share rows and columns, which L2 then holds.
    """
    band, inside = k.divmod_truncating(tile, tiles_n * group)
    column, row = k.divmod_truncating(inside, k.min(tiles_m - band * group, group))
    return band * group + row, column


def store(k: Any, plan: Tiling, sums: Sequence[Any], c: Any, operand: Any, corner: Any, sizes: Any) -> None:
    """Finish a warpgroup's sums, whose first row and column are `corner`, and write them to C of `sizes`."""
    (row0, column0), (m, n) = corner, sizes
    row, column = sums[0].place(0)
    first = [row0 + (row + M * part) for part in range(len(sums))]
    rows = [[Row(k, plan, c, operand, at + down, m if plan.edges else None) for down in (0, 8)] for at in first]
    if plan.edges:
        with k.if_((row0 + plan.rows <= m) & (column0 + plan.bn <= n)):
            store_rows(sums, rows, column0 + column, None)
        with k.else_():
            store_rows(sums, rows, column0 + column, n)
    else:
        store_rows(sums, rows, column0 + column, None)
    for each in (row for of_part in rows for row in of_part):
        each.finish(column0 // plan.bn)


def store_rows(sums: Sequence[Any], rows: Sequence[Sequence[Row]], column0: Any, n: Any) -> None:
    """Finish and write each pair of neighbours that a thread holds; at an edge, of `n` columns, what lies inside C."""
    for of_part, two in zip(sums, rows, strict=True):
        pairs = [(two[i >> 1 & 1], i, column0 + 8 * (i >> 2)) for i in range(0, len(of_part), 2)]
        for first in range(0, len(pairs), TOGETHER):
            some = pairs[first : first + TOGETHER]
            if n is not None:
                for row, i, column in some:
                    row.store_inside(of_part[i], of_part[i + 1], column, n)
                continue
            # What an epilogue loads is asked for before the stores, past which it could not move.
            results = [row.results(of_part[i], of_part[i + 1], column) for row, i, column in some]
            for (row, _, column), values in zip(some, results, strict=True):
                row.put(values, column)


class Row:
    """A row of a tile, of which a thread holds some pairs. At an edge, C has `m` rows, and this may not be one."""

    def __init__(self, k: Any, plan: Tiling, c: Any, operand: Any, row: Any, m: Any) -> None:
        self.k, self.plan, self.c, self.operand, self.row = k, plan, c, operand, row
        self.inside = True if m is None else row < m
        # A row past the edge has the facts of the last one: what is made of them is not stored.
        self.facts = plan.fusion.of_row(k, operand, row if m is None else k.min(row, m - 1))

    def results(self, x: Any, y: Any, column: Any) -> Sequence[Any]:
        """What is stored for the pair at `column`."""
        return self.plan.fusion.apply(self.k, (x, y), self.operand, self.row, column, self.facts)

    def put(self, values: Sequence[Any], column: Any) -> None:
        """Store the results of the pair at `column`."""
        put(self.k, self.c, self.row, column // self.plan.fusion.shrinks, values, self.plan.pairs)

    def store_inside(self, x: Any, y: Any, column: Any, n: Any) -> None:
        """Finish and store of the pair at `column` what lies inside C."""
        with self.k.if_(self.inside & (column + 1 < n)):
            self.put(self.results(x, y, column), column)
        if not self.plan.pairs:
            with self.k.if_(self.inside & (column + 1 == n)):
                self.c[self.row, column] = x.astype(self.c.dtype)

    def finish(self, tile: Any) -> None:
        """Add up what the four threads that share the row have gathered."""
        if not self.plan.fusion.sums_rows:
            return
        for distance in (1, 2):
            self.facts.set(self.facts + self.k.shfl_xor(self.facts, distance))
        with self.k.if_((self.k.lane_id & 3) == 0):
            with self.k.if_(self.inside):
                self.operand[tile, self.row] = self.facts


def put(k: Any, c: Any, row: Any, column: Any, values: Sequence[Any], together: bool = True) -> None:
    """Store neighbours of a row, with one instruction where they may be stored `together`."""
    if len(values) > 1 and together and c.dtype.is_half:
        words = [k.pack(x, y, c.dtype) for x, y in zip(values[::2], values[1::2], strict=True)]
        c.view(np.uint32).store(row * (c.shape[1] // 2) + column // 2, words)
    elif len(values) > 1 and together:
        c.store((row, column), tuple(values))
    else:
        for j, value in enumerate(values):
            c[row, column + j] = value.astype(c.dtype)


def eighths(shape: tuple[int, int], dtype: np.dtype, seed: int) -> np.ndarray:
    """Multiples of 1/8 from -1/2 on, of which sums of products are exact; of integers whole numbers."""
    numbers = small_integers(shape[0] * shape[1], seed).reshape(shape)
    return (numbers if dtype.kind == "i" else numbers / 8).astype(dtype)
