"""Where a line lives: home partition, L2 slice and set, DRAM channel, bank and row.

Every map is a bijection, so that a contiguous array fills all sets, channels and banks
evenly; every map folds the upper bits in by exclusive or, so that strided arrays do too.
Real hashes are not published; docs/model/memory.md says what is known and how the
ones here are tested.
"""

from __future__ import annotations

from typing import Any

from sim.core.memory_state import kernel

MEMORY_BITS = 31  #: of a line's number within one address window: 256 GiB
SCATTER = 0x9E3779B1  #: 2**32 over the golden ratio, odd: spreads consecutive numbers
CHUNK_BITS = 5  #: lines that share a home partition: 32, 4 KiB


@kernel
def quotient(x: int, inverse: float) -> int:
    """`x // n` for `inverse = 1 / n`; exact for `0 <= x < 2**50`, and faster than a division."""
    return int((x + 0.5) * inverse)


@kernel
def fold(x: int) -> int:
    """All bits of a 33-bit number folded into the low ones by exclusive or."""
    return x ^ (x >> 3) ^ (x >> 7) ^ (x >> 12) ^ (x >> 18) ^ (x >> 25)


@kernel
def parity(x: int) -> int:
    """1 when an odd number of bits of a 33-bit number are set."""
    x ^= x >> 32
    x ^= x >> 16
    x ^= x >> 8
    x ^= x >> 4
    x ^= x >> 2
    return (x ^ (x >> 1)) & 1


@kernel
def line_number(line: int) -> int:
    """A 33-bit number for a line address: its place in its window, and which of four windows (2 ** 39 bytes) it is."""
    return (line & ((1 << MEMORY_BITS) - 1)) | (((line >> (MEMORY_BITS + 1)) & 3) << MEMORY_BITS)


@kernel
def home_partition(line: int, partitions: int) -> int:
    """The partition whose DRAM holds a line number: of two neighbouring chunks one is in each.

    Bits 5 and 7 of the chunk's number have no part in it: so blocks of a stream, which go to GPC after GPC, find half
    of their lines near to 1 %, as the card's counts say (tests/core/test_memory_counts.py).
    """
    return parity((line >> CHUNK_BITS) & ~0b1010_0000) if partitions == 2 else 0


@kernel
def homes(lines: Any, partitions: int, out: Any) -> None:
    """The home partition of each line address, in `out`."""
    for k in range(len(lines)):
        out[k] = home_partition(line_number(lines[k]), partitions)


@kernel
def partition_line(line: int, partitions: int) -> int:
    """A line's number among those of its home partition, without gaps."""
    if partitions == 2:
        return ((line >> (CHUNK_BITS + 1)) << CHUNK_BITS) | (line & ((1 << CHUNK_BITS) - 1))
    return line


@kernel
def turned(x: int, by: int, n: int, inverse: float) -> int:
    """`(x + turn) % n` for `0 <= x < n`: a rotation that differs from group to group as if by chance.

    On the H200 slices share lines 4 to 64 KiB apart as unevenly as chance would have it (microbench_25).
    """
    turn = fold((by * SCATTER) & 0x1FFFFFFFF)
    x += turn - quotient(turn, inverse) * n
    return x - n if x >= n else x


@kernel
def l2_set(line: int, cfg: Any) -> int:
    """A line's set of its partition, `slice * sets + set`; the same number in either partition.

    Lines go round the slices; each time a slice has filled all its sets once, it turns
    them by an amount of its own, so that neighbouring lines' sets differ in what else
    they hold.
    """
    local = partition_line(line, cfg.partitions)
    group = quotient(local, cfg.inverse_slices)
    place = turned(local - group * cfg.slices, group, cfg.slices, cfg.inverse_slices)
    wrap = quotient(group, cfg.inverse_sets)
    own = wrap * cfg.slices + place
    return place * cfg.sets + turned(group - wrap * cfg.sets, own, cfg.sets, cfg.inverse_sets)


@kernel
def dram_place(local: int, cfg: Any) -> tuple[int, int, int]:
    """Channel of the partition, bank and row, for a line's number in its partition.

    The lines of one interleave piece lie together in a row; the next piece goes to
    the next channel, after all channels to the next bank, after all banks to the next
    row. What a row holds besides is as far away as memory is large.
    """
    granule = quotient(local, cfg.inverse_interleave)
    group = quotient(granule, cfg.inverse_channels)
    channel = turned(granule - group * cfg.channels, group, cfg.channels, cfg.inverse_channels)
    row = quotient(group, cfg.inverse_banks)
    bank = turned(group - row * cfg.banks, row, cfg.banks, cfg.inverse_banks)
    return channel, bank, row - quotient(row, cfg.inverse_rows) * cfg.rows
