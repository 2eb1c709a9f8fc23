"""Sets of the L2: find a line, put it first, push the least valuable one out, clean old dirty ones.

A set's ways are kept in order of use. A line that falls to way `dirty_ways` is
written back there and stays as a clean one; a line with partly written sectors falls
to `partial_ways` only, then the rest of those sectors is read from DRAM. Copies of
the other partition's lines are pushed out before any line at home.
"""

from __future__ import annotations

from typing import Any

from sim._jit import jit
from sim.core.dram import request
from sim.core.memory_state import BYTES, BYTES_BITS, BYTES_SHIFT, COPY, DIRTY, DIRTY_SHIFT, SHARED, VALID
from sim.core.xbar import sector_count
from sim.counters import Mem

L2_WRITE, EVICTED_DIRTY = int(Mem.L2_WRITE), int(Mem.L2_EVICTED_DIRTY)
BYTES_ASKED = int(Mem.DRAM_BYTES_ASKED)
SECTOR_BYTES_MASK = (1 << BYTES_BITS) - 1


@jit
def find(tag: Any, row: int, line: int) -> int:
    """The way that holds a line, -1 if none does."""
    for way in range(tag.shape[1]):
        if tag[row, way] == line:
            return way
    return -1


@jit
def written_bytes(state: int, sector: int) -> int:
    """Bytes written to a sector of which only some are here; 0 for any other sector."""
    return (state >> (BYTES_SHIFT + BYTES_BITS * sector)) & SECTOR_BYTES_MASK


@jit
def filled(state: int, sectors: int) -> int:
    """The state after all bytes of those sectors have come."""
    if state & BYTES:
        for sector in range(4):
            if (sectors >> sector) & 1:
                state &= ~(SECTOR_BYTES_MASK << (BYTES_SHIFT + BYTES_BITS * sector))
    return state | sectors


@jit
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


@jit
def write_back(requests: Any, count: Any, counts: Any, line: int, state: int, sector_bytes: int, now: int) -> int:
    """Send a line's dirty sectors to DRAM, after a fill of its partly written ones; the state, which is clean."""
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
    return state & ~DIRTY


@jit
def victim(tag: Any, states: Any, row: int) -> int:
    """The way to give up: an empty one, else the least recently used copy, else the least recently used."""
    copy = -1
    for way in range(tag.shape[1] - 1, -1, -1):
        if tag[row, way] < 0:
            return way
        if copy < 0 and states[row, way] & COPY:
            copy = way
    return copy if copy >= 0 else tag.shape[1] - 1


@jit
def other_row(tag: Any, row: int) -> int:
    """The set of the other partition that would hold the same lines."""
    half = tag.shape[0] // 2
    return row - half if row >= half else row + half


@jit
def drop(tag: Any, states: Any, row: int, line: int, sectors: int) -> None:
    """Take sectors of a copy away; the whole line when none are left."""
    way = find(tag, row, line)
    if way >= 0:
        state = states[row, way] & ~sectors
        states[row, way] = state
        if not state & VALID:
            tag[row, way] = -1
            states[row, way] = 0


@jit
def put_first(
    tag: Any, states: Any, requests: Any, count: Any, counts: Any, cfg: Any, row: int, way: int, line: int, state: int, now: int
) -> None:
    """Put a line first in its set: the one at `way`, or for -1 a new one in a victim's place.

    Lines before `way` fall one further, past the depth at which they are cleaned
    perhaps. A victim is never dirty: it lies at `dirty_ways` or beyond, or is a copy.
    """
    if way < 0:
        way = victim(tag, states, row)
        if states[row, way] & SHARED:
            drop(tag, states, other_row(tag, row), tag[row, way], VALID)
    for k in range(way, 0, -1):
        tag[row, k] = tag[row, k - 1]
        states[row, k] = states[row, k - 1]
    tag[row, 0] = line
    states[row, 0] = state
    for depth, bits in ((cfg.partial_ways, BYTES), (cfg.dirty_ways, DIRTY)):
        if way >= depth and states[row, depth] & bits:
            states[row, depth] = write_back(
                requests, count, counts, tag[row, depth], states[row, depth], cfg.sector_bytes, now
            )
