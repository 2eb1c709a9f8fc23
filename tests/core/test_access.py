"""What a warp's addresses cost, against hand-made cases, and against sets in Python for random addresses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.core.access import atomic_passes, bank_passes, coalesce, group_passes, lanes_outside, lowest_lane, popcount

FULL = 0xFFFFFFFF
LANES = np.arange(32)
CASES = Path(__file__).parents[1] / "data" / "access_cases.txt"


def _deep(depth: int, row: int) -> Callable[[], np.ndarray]:
    """First word that each thread stores of a transposed tile: 4 of `depth` elements a thread, rows of `row` words."""
    a_thread = depth // 4
    return lambda: 4 * ((LANES % a_thread) * 4 * row + LANES // a_thread)


def _words(step: int, first: int = 0) -> Callable[[], np.ndarray]:
    return lambda: 4 * (first + step * LANES)


#: pattern: (byte addresses, width in bytes, mask)
PATTERNS: dict[tuple[str, str], tuple[Callable[[], np.ndarray], int, int]] = {
    ("global", "fp32 unit stride aligned"): (_words(1), 4, FULL),
    ("global", "fp32 offset 1 word"): (_words(1, 1), 4, FULL),
    ("global", "fp32 offset 8 words"): (_words(1, 8), 4, FULL),
    ("global", "fp32 offset 31 words"): (_words(1, 31), 4, FULL),
    ("global", "fp32 stride 2"): (_words(2), 4, FULL),
    ("global", "fp32 stride 3"): (_words(3), 4, FULL),
    ("global", "fp32 stride 4"): (_words(4), 4, FULL),
    ("global", "fp32 stride 8"): (_words(8), 4, FULL),
    ("global", "fp32 stride 32"): (_words(32), 4, FULL),
    ("global", "broadcast"): (_words(0), 4, FULL),
    ("global", "fp16 unit stride"): (lambda: 2 * LANES, 2, FULL),
    ("global", "int8 unit stride"): (lambda: 1 * LANES, 1, FULL),
    ("global", "fp64 unit stride"): (lambda: 8 * LANES, 8, FULL),
    ("global", "float2 unit stride"): (lambda: 8 * LANES, 8, FULL),
    ("global", "float4 unit stride"): (lambda: 16 * LANES, 16, FULL),
    ("global", "fp32 reversed"): (lambda: 4 * LANES[::-1], 4, FULL),
    ("global", "first word of 12-byte structures"): (lambda: 12 * LANES, 4, FULL),
    ("global", "first word of 16-byte structures"): (lambda: 16 * LANES, 4, FULL),
    ("global", "fp32, 16 lanes active"): (_words(1), 4, 0xFFFF),
    ("global", "block of 16 x 2, rows 4096 bytes apart"): (lambda: LANES // 16 * 4096 + LANES % 16 * 4, 4, FULL),
    ("global", "block of 8 x 4, rows 4096 bytes apart"): (lambda: LANES // 8 * 4096 + LANES % 8 * 4, 4, FULL),
    **{("shared", f"fp32 stride {n}"): (_words(n), 4, FULL) for n in (1, 2, 3, 4, 8, 16, 32, 33)},
    ("shared", "broadcast"): (_words(0), 4, FULL),
    ("shared", "two words of one bank"): (lambda: LANES % 2 * 128, 4, FULL),
    ("shared", "column of a 32 x 32 tile, XOR swizzle"): (lambda: 4 * (LANES * 32 + (5 ^ LANES)), 4, FULL),
    ("shared", "fp64 unit stride"): (lambda: 8 * LANES, 8, FULL),
    ("shared", "float4 unit stride"): (lambda: 16 * LANES, 16, FULL),
    ("shared", "float4 128 bytes apart"): (lambda: 128 * LANES, 16, FULL),
    ("shared", "float4 144 bytes apart"): (lambda: 144 * LANES, 16, FULL),
    ("shared", "transposed 8-deep tile, rows of 128"): (_deep(8, 128), 4, FULL),
    ("shared", "transposed 8-deep tile, rows of 132"): (_deep(8, 132), 4, FULL),
    ("shared", "transposed 8-deep tile, rows of 130"): (_deep(8, 130), 4, FULL),
    ("shared", "transposed 16-deep tile, rows of 128"): (_deep(16, 128), 4, FULL),
    ("shared", "transposed 16-deep tile, rows of 130"): (_deep(16, 130), 4, FULL),
    ("shared", "every fourth word of rows of 65"): (lambda: 4 * (LANES // 16 * 65 + LANES % 16 * 4), 4, FULL),
    ("shared", "column of a 32 x 32 tile"): (_words(32), 4, FULL),
    ("matrix", "8 rows of 16 bytes, 128 bytes apart"): (lambda: 128 * LANES, 16, 0xFF),
}


def cases(*spaces: str) -> list[list[str]]:
    rows = [line for line in CASES.read_text().splitlines() if line and not line.startswith("#")]
    cells = [[cell.strip() for cell in row.split("|")] for row in rows]
    return [row for row in cells if row[0] in spaces]


def lines_of(addresses: np.ndarray, width: int, mask: int) -> dict[int, tuple[int, int, int]]:
    """`coalesce` by line: (sectors, bytes asked, partial sectors)."""
    lines, sectors, asked, partial = (np.zeros(64, np.int64) for _ in range(4))
    n = coalesce(addresses.astype(np.int64), mask, width, lines, sectors, asked, partial)
    return {int(lines[k]): (int(sectors[k]), int(asked[k]), int(partial[k])) for k in range(n)}


def passes_of(function: Callable[..., tuple[int, int]], addresses: np.ndarray, width: int, mask: int) -> list[int]:
    return [int(n) for n in function(addresses.astype(np.int64), mask, width)]


def test_every_case_has_a_pattern_and_every_pattern_a_case():
    assert {(row[0], row[1]) for row in cases("global", "shared", "matrix")} == set(PATTERNS)


@pytest.mark.parametrize(("space", "pattern", "sectors", "lines", "useful"), cases("global"))
def test_sectors_and_lines_of_a_global_request(space, pattern, sectors, lines, useful):
    make, width, mask = PATTERNS[space, pattern]
    got = lines_of(make(), width, mask)
    moved = sum(s.bit_count() for s, _, _ in got.values())
    assert (moved, len(got)) == (int(sectors), int(lines))
    assert f"{sum(asked for _, asked, _ in got.values()) / (32 * moved):.3f}" == useful


@pytest.mark.parametrize(("space", "pattern", "passes", "ideal"), cases("shared", "matrix"))
def test_passes_of_a_shared_request(space, pattern, passes, ideal):
    make, width, mask = PATTERNS[space, pattern]
    function = group_passes if space == "matrix" else bank_passes  # a matrix goes eight rows at a time
    assert passes_of(function, make(), width, mask) == [int(passes), int(ideal)]


masks = st.integers(1, FULL)
widths = st.sampled_from([4, 8, 16])
spots = st.lists(st.integers(0, 300), min_size=32, max_size=32)


def touched(addresses: np.ndarray, width: int, mask: int) -> dict[int, set[int]]:
    """Bytes that the lanes of a mask touch, by line."""
    out: dict[int, set[int]] = {}
    for lane in range(32):
        if mask >> lane & 1:
            out.setdefault(int(addresses[lane]) >> 7, set()).update(range(addresses[lane], addresses[lane] + width))
    return out


strides = st.integers(-80, 80).map(lambda step: (1 << 20) + step * LANES)
halves = st.lists(st.integers(0, 300), min_size=16, max_size=16).map(lambda half: half + half)
steps = st.lists(st.integers(0, 40), min_size=32, max_size=32).map(np.cumsum)  # in order, some neighbours equal
pieces = st.builds(  # in order or not, lanes of a piece one behind another
    lambda lanes, apart, first: 20_000 + first + LANES // lanes * apart + LANES % lanes,
    st.sampled_from([2, 4, 8, 16]), st.integers(-200, 200), st.integers(0, 99),
)  # fmt: skip


@given(spots | strides | steps | halves | pieces, widths, masks | st.just(FULL))
@settings(deadline=None)
def test_lines_and_sectors_are_those_that_the_lanes_touch(spots, width, mask):
    addresses = np.array(spots) * width
    want = {}
    for line, chosen in touched(addresses, width, mask).items():
        sectors = [{b for b in chosen if b >> 5 & 3 == s} for s in range(4)]
        want[line] = (
            sum(1 << s for s in range(4) if sectors[s]),
            len(chosen),
            sum(1 << s for s in range(4) if 0 < len(sectors[s]) < 32),
        )
    assert lines_of(addresses, width, mask) == want


@given(st.permutations(range(400)), st.sampled_from([1, 2]), masks)
@settings(deadline=None)
def test_narrow_stores_say_which_sectors_they_fill(spots, width, mask):
    addresses = np.array(spots[:32]) * width
    for line, chosen in touched(addresses, width, mask).items():
        asked, partial = lines_of(addresses, width, mask)[line][1:]
        assert asked == len(chosen)
        assert partial == sum(1 << s for s in range(4) if 0 < len([b for b in chosen if b >> 5 & 3 == s]) < 32)


def test_a_whole_sector_of_bytes_is_not_partial():
    assert lines_of(np.arange(96, 128), 1, FULL) == {0: (8, 32, 0)}
    assert lines_of(np.arange(97, 129), 1, FULL) == {0: (8, 31, 8), 1: (1, 1, 1)}


@given(spots | strides | steps | halves, widths, masks | st.just(FULL), st.booleans())
@settings(deadline=None)
def test_passes_are_the_most_words_that_a_bank_is_asked_for(spots, width, mask, contiguous):
    addresses = width * (np.arange(32) + spots[0]) if contiguous else np.array(spots) * width

    def most(lanes: int) -> tuple[int, int]:
        words = {b // 4 for line in touched(addresses, width, lanes).values() for b in line}
        banks = [word % 32 for word in words]
        return max(map(banks.count, banks), default=0), -(-len(words) // 32)

    if width == 16:
        low, high = most(mask & 0xFFFF), most(mask & 0xFFFF0000)
        want = [low[0] + high[0], low[1] + high[1]]
    else:
        want = list(most(mask))
    assert passes_of(bank_passes, addresses, width, mask) == want


@given(spots, masks)
@settings(deadline=None)
def test_shared_atomics_take_a_pass_a_lane_of_the_busiest_bank(spots, mask):
    banks = [spot % 32 for lane, spot in enumerate(spots) if mask >> lane & 1]
    assert atomic_passes(np.array(spots, np.int64) * 4, mask, np.zeros(32, np.int64)) == max(map(banks.count, banks))


@given(masks)
@settings(deadline=None)
def test_bits_of_masks(mask):
    assert popcount(mask) == mask.bit_count()
    assert lowest_lane(mask) == (mask & -mask).bit_length() - 1


def test_lanes_outside_a_window():
    assert lanes_outside(np.arange(32, dtype=np.int64), 0xFFFF00FF, 4, 20) == 0xFFE0000F
