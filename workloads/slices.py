"""Copying slices of a matrix from global to shared memory, a 16-byte piece a thread, at any alignment.

When the rows of the matrix start at multiples of 16 bytes, a piece is one
asynchronous copy. When they do not, hardware allows narrower copies only: two of
8 or four of 4 bytes; and when a row may start at any 2 bytes none at all, so that
each element is loaded to a register and the piece is stored from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

PIECE_BYTES = 16
NARROWEST_COPY_BYTES = 4  #: that hardware copies asynchronously

Inside = Callable[[int, int], Any]  #: (pass, element of the piece) -> whether it lies in the matrix


@dataclass(frozen=True)
class Copies:
    """How the threads of a block share one slice: so many pieces a row, so many rows a pass."""

    threads: int
    columns: int  #: elements a row of the slice
    rows: int
    item: int  #: bytes an element
    copy: int  #: bytes a copy moves: 16, 8, 4, or 2 through a register

    @property
    def pieces(self) -> int:
        """Pieces of a row."""
        return self.columns * self.item // PIECE_BYTES

    @property
    def pass_rows(self) -> int:
        """Rows that the block copies in one pass."""
        return self.threads // self.pieces

    @property
    def passes(self) -> int:
        """Passes for the whole slice, so pieces a thread."""
        return self.rows // self.pass_rows

    @property
    def parts(self) -> range:
        """First element of each copy of a piece."""
        return range(0, PIECE_BYTES // self.item, self.copy // self.item)

    def row(self, k: Any) -> Any:
        """This thread's row in a pass, ordered so that the 128 bytes that 8 threads write lie in distinct banks.

        When a row has fewer than 8 pieces, those 128 bytes are of several rows; with an odd number of pieces from
        row to row in shared memory, rows that lie `pieces` apart do not share banks.
        """
        j = k.thread_idx.x // self.pieces
        together = 8 // self.pieces
        if together <= 1:
            return j
        return (j & ~7) | ((j & (together - 1)) * self.pieces) | ((j & 7) // together)

    def column(self, k: Any) -> Any:
        """This thread's first element in the row."""
        return (k.thread_idx.x % self.pieces) * (PIECE_BYTES // self.item)


class Slice:
    """One operand's slices, on their way from `source` to the shared array `tile`."""

    def __init__(self, k: Any, source: Any, tile: Any, copies: Copies, pitch: int, base: int) -> None:
        self.k, self.source, self.tile, self.copies, self.pitch = k, source, tile, copies, pitch
        self.row, self.column = copies.row(k), copies.column(k)
        self.at = self.row * pitch + self.column + base

    def row_of(self, p: int) -> Any:
        """This thread's row in pass `p`."""
        return self.row + p * self.copies.pass_rows

    def start(self, passes: Sequence[int], slot: Any, index: Sequence[Any], inside: Inside, whole: Any) -> list[Any]:
        """Start copying pieces to the buffer at `slot`, from element `index[p]` in pass `p`; zeros outside the matrix.

        `whole` says whether the block's whole slice is inside. Returns what is left for
        `finish`: pieces that go through registers.
        """
        places = [(p, slot + self.at + p * self.copies.pass_rows * self.pitch) for p in passes]
        if self.copies.copy < NARROWEST_COPY_BYTES:
            values = self._load([p for p, _ in places], index, inside, whole)
            return [(at, piece) for (_, at), piece in zip(places, values, strict=True)]
        for p, at in places:
            for j in self.copies.parts:
                self.k.async_copy(self.tile, at + j, self.source, index[p] + j, self.copies.copy, inside(p, j))
        return []

    def _load(self, passes: Sequence[int], index: Sequence[Any], inside: Inside, whole: Any) -> list[list[Any]]:
        """The elements of pieces in registers; without a test for each when the slice is whole."""
        source, parts = self.source.view(np.uint16), self.copies.parts
        values = [[self.k.var(0) for _ in parts] for _ in passes]
        with self.k.if_(whole):
            for p, piece in zip(passes, values, strict=True):
                for j, value in zip(parts, piece, strict=True):
                    value.set(source[index[p] + j])
        with self.k.else_():
            for p, piece in zip(passes, values, strict=True):
                for j, value in zip(parts, piece, strict=True):
                    value.set(source.load(index[p] + j, where=inside(p, j)))
        return values

    def finish(self, left: Sequence[Any]) -> None:
        """Store pieces that are in registers, 16 bytes at a time."""
        words = self.tile.view(np.uint32)
        for at, piece in left:
            words.store(at // 2, [low | (high << 16) for low, high in zip(piece[::2], piece[1::2], strict=True)])
