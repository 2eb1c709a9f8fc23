"""How threads share the copying of a slice: every piece once, and neighbours in distinct banks."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from workloads.slices import PIECE_BYTES, Copies

SHAPES = [
    (256, 32, 256, 2),
    (256, 16, 256, 2),
    (256, 64, 128, 2),
    (256, 128, 32, 2),
    (128, 64, 16, 4),
    (256, 256, 16, 4),
]


def places(copies: Copies) -> list[tuple[int, int]]:
    """Row and first element of each thread's piece in the first pass."""
    views = [SimpleNamespace(thread_idx=SimpleNamespace(x=t)) for t in range(copies.threads)]
    return [(copies.row(view), copies.column(view)) for view in views]


@pytest.mark.parametrize(("threads", "columns", "rows", "item"), SHAPES)
def test_a_pass_covers_its_rows_once(threads: int, columns: int, rows: int, item: int) -> None:
    copies = Copies(threads, columns, rows, item, PIECE_BYTES)
    step = PIECE_BYTES // item
    wanted = {(row, column) for row in range(copies.pass_rows) for column in range(0, columns, step)}
    assert sorted(places(copies)) == sorted(wanted)
    assert copies.passes * copies.pass_rows == rows


@pytest.mark.parametrize(("threads", "columns", "rows", "item"), SHAPES)
def test_eight_threads_write_all_banks(threads: int, columns: int, rows: int, item: int) -> None:
    copies = Copies(threads, columns, rows, item, PIECE_BYTES)
    pitch_pieces = copies.pieces + 1
    step = PIECE_BYTES // item
    pieces = [row * pitch_pieces + column // step for row, column in places(copies)]
    for first in range(0, threads, 8):
        assert len({piece % 8 for piece in pieces[first : first + 8]}) == 8


@pytest.mark.parametrize(("copy", "parts"), [(16, [0]), (8, [0, 4]), (4, [0, 2, 4, 6]), (2, list(range(8)))])
def test_narrow_copies_make_a_piece_together(copy: int, parts: list[int]) -> None:
    assert list(Copies(256, 32, 256, 2, copy).parts) == parts
