"""Sets of the L2: find a line, put it first, push the least valuable one out, clean old dirty ones.

A set's ways are kept in order of use. A line that falls to way `dirty_ways` is
written back there and stays as a clean one; a line with partly written sectors falls
to `partial_ways` only, then the rest of those sectors is read from DRAM. Copies of
the other partition's lines are pushed out before any line at home.
"""

from __future__ import annotations

from typing import Any

from sim.core.dram import request
from sim.core.memory_state import (
    BYTES,
    BYTES_BITS,
    BYTES_SHIFT,
    COPY,
    DIRTY,
    DIRTY_SHIFT,
    SHARED,
    STATE,
    STATE_BITS,
    VALID,
    inlined,
    kernel,
)
from sim.core.xbar import sector_count
from sim.counters import Mem

L2_WRITE, EVICTED_DIRTY = int(Mem.L2_WRITE), int(Mem.L2_EVICTED_DIRTY)
BYTES_ASKED = int(Mem.DRAM_BYTES_ASKED)
SECTOR_BYTES_MASK = (1 << BYTES_BITS) - 1


@kernel
def find(sets: Any, row: int, line: int) -> int:
    """The way that holds a line, -1 if none does."""
    for way in range(sets.shape[1]):
        if sets[row, way] >> STATE_BITS == line:
            return way
    return -1


@kernel
def state_of(sets: Any, row: int, way: int) -> int:
    """The state at a way that `find` gave; 0 for -1."""
    return sets[row, way] & STATE if way >= 0 else 0


@kernel
def written_bytes(state: int, sector: int) -> int:
    """Bytes written to a sector of which only some are here; 0 for any other sector."""
    return (state >> (BYTES_SHIFT + BYTES_BITS * sector)) & SECTOR_BYTES_MASK


@kernel
def filled(state: int, sectors: int) -> int:
    """The state after all bytes of those sectors have come."""
    if state & BYTES:
        for sector in range(4):
            if (sectors >> sector) & 1:
                state &= ~(SECTOR_BYTES_MASK << (BYTES_SHIFT + BYTES_BITS * sector))
    return state | sectors


@kernel
def written(state: int, whole: int, part: int, part_bytes: int, sector_bytes: int) -> int:
    """The state after a write of `whole` sectors and of `part_bytes` in each sector of `part`.

    A partly written sector that is not valid gathers bytes; with as many as a sector
    has it is taken as valid, so a fill is saved (where bytes are written twice, one
    fill too many is saved).
    """
    state = filled(state, whole) | ((whole | part) << DIRTY_SHIFT)
    gathering = part & ~state & VALID
    for sector in range(4):
        if (gathering >> sector) & 1:
            total = written_bytes(state, sector) + part_bytes
            if total >= sector_bytes:
                state = filled(state, 1 << sector)
            else:
                shift = BYTES_SHIFT + BYTES_BITS * sector
                state = (state & ~(SECTOR_BYTES_MASK << shift)) | (total << shift)
    return state


@kernel
def write_back(requests: Any, count: Any, counts: Any, word: int, sector_bytes: int, now: int) -> int:
    """Send a line's dirty sectors to DRAM, after a fill of its partly written ones; the line's word, now clean."""
    line, state = word >> STATE_BITS, word & STATE
    dirty = (state & DIRTY) >> DIRTY_SHIFT
    partial = 0
    if state & BYTES:
        for sector in range(4):
            some = written_bytes(state, sector)
            counts[BYTES_ASKED] += some
            if some > 0:
                partial |= 1 << sector
        request(requests, count, now, line, partial, 0)
        counts[L2_WRITE] += sector_count(dirty)  # the merged sectors are written once more, as the card counts
        state = filled(state, partial)
    request(requests, count, now, line, dirty, 1)
    counts[EVICTED_DIRTY] += sector_count(dirty)
    counts[BYTES_ASKED] += sector_count(dirty & ~partial) * sector_bytes
    return (line << STATE_BITS) | (state & ~DIRTY)


@kernel
def victim(sets: Any, row: int) -> int:
    """The way to give up: an empty one, else the least recently used copy, else the least recently used."""
    copy = -1
    for way in range(sets.shape[1] - 1, -1, -1):
        word = sets[row, way]
        if word < 0:
            return way
        if copy < 0 and word & COPY:
            copy = way
    return copy if copy >= 0 else sets.shape[1] - 1


@kernel
def other_row(sets: Any, row: int) -> int:
    """The set of the other partition that would hold the same lines."""
    half = len(sets) // 2
    return row - half if row >= half else row + half


@kernel
def drop(sets: Any, row: int, line: int, sectors: int) -> None:
    """Take sectors of a copy away; the whole line when none are left."""
    way = find(sets, row, line)
    if way >= 0:
        word = sets[row, way] & ~sectors
        sets[row, way] = word if word & VALID else -1


@inlined
def put_first(
    sets: Any, requests: Any, count: Any, counts: Any, cfg: Any, row: int, way: int, word: int, now: int
) -> None:
    """Put a line first in its set: the one at `way`, or for -1 a new one in a victim's place.

    Lines before `way` fall one further, past the depth at which they are cleaned
    perhaps. A victim is never dirty: it lies at `dirty_ways` or beyond, or is a copy.
    """
    if way < 0:
        way = victim(sets, row)
        old = sets[row, way]
        if old >= 0 and old & SHARED:
            drop(sets, other_row(sets, row), old >> STATE_BITS, VALID)
    for k in range(way, 0, -1):
        sets[row, k] = sets[row, k - 1]
    sets[row, 0] = word
    for depth, bits in ((cfg.partial_ways, BYTES), (cfg.dirty_ways, DIRTY)):
        if way >= depth:
            word = sets[row, depth]
            if word >= 0 and word & bits:
                sets[row, depth] = write_back(requests, count, counts, word, cfg.sector_bytes, now)
