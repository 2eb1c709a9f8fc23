"""Sets of the L2: find a line, put it first, push the least valuable one out, clean dirty ones early.

A set's ways are kept in order of use; copies of the other partition's lines that only one
SM has asked for are behind all others. A dirty line is written back, and stays as a clean
one, when it has fallen far enough back and its DRAM channel is idle; at once where it would
leave or the set has more dirty lines than it may. Of partly written sectors the rest must be
read first; those are dealt with like dirty ones of which a set may have fewer.
"""

from __future__ import annotations

from typing import Any

from sim.core.address_map import SCATTER, dram_place, home_partition, l2_set, partition_line
from sim.core.memory_state import (
    BYTES,
    BYTES_BITS,
    BYTES_SHIFT,
    COPY,
    D_LATER,
    D_LATER_DONE,
    DIRTY,
    DIRTY_SHIFT,
    L_LINE,
    L_SECTORS,
    L_TIME,
    R_LINE,
    R_SECTORS,
    R_TIME,
    R_WRITE,
    SHARED,
    STATE,
    STATE_BITS,
    TICK_BITS,
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
def partly_written(state: int) -> int:
    """The sectors of which only some bytes are here."""
    partial = 0
    if state & BYTES:
        for sector in range(4):
            if written_bytes(state, sector) > 0:
                partial |= 1 << sector
    return partial


@kernel
def request(requests: Any, count: Any, time: int, line: int, sectors: int, write: int) -> int:
    """Note a DRAM request of this chunk; its number."""
    n = count[0]
    count[0] = n + 1
    requests[n, R_TIME] = time
    requests[n, R_LINE] = line
    requests[n, R_SECTORS] = sectors
    requests[n, R_WRITE] = write
    return n


@kernel
def fill_rest(requests: Any, count: Any, counts: Any, word: int, partial: int, now: int) -> int:
    """Read a line's `partial` sectors, which are written only in part, and merge them; the line's word then."""
    state = word & STATE
    for sector in range(4):
        counts[BYTES_ASKED] += written_bytes(state, sector)
    request(requests, count, now, word >> STATE_BITS, partial, 0)
    counts[L2_WRITE] += sector_count(partial)  # the merged sectors are written once more, as the card counts
    return word & ~STATE | filled(state, partial)


@kernel
def write_back(requests: Any, count: Any, counts: Any, word: int, sector_bytes: int, now: int) -> int:
    """Send a line's dirty sectors to DRAM, after a fill of its partly written ones; the line's word, now clean."""
    partial = partly_written(word & STATE)
    if partial:
        word = fill_rest(requests, count, counts, word, partial, now)
    dirty = (word & DIRTY) >> DIRTY_SHIFT
    request(requests, count, now, word >> STATE_BITS, dirty, 1)
    counts[EVICTED_DIRTY] += sector_count(dirty)
    counts[BYTES_ASKED] += sector_count(dirty & ~partial) * sector_bytes
    return word & ~DIRTY


@kernel
def take_later(channel: Any, later: Any, sets: Any, counts: Any, cfg: Any) -> tuple[int, int]:
    """The line that has waited longest for a channel to be idle, and what of it is to be written: that is clean now."""
    entry = later[channel[D_LATER_DONE] % len(later)]
    channel[D_LATER_DONE] += 1
    line = entry[L_LINE]
    row = home_partition(line, cfg.partitions) * cfg.slices * cfg.sets + l2_set(line, cfg)
    way = find(sets, row, line)
    if way < 0:
        return line, 0
    sectors = (sets[row, way] & DIRTY) >> DIRTY_SHIFT & entry[L_SECTORS] & ~partly_written(sets[row, way])
    sets[row, way] &= ~(sectors << DIRTY_SHIFT)
    counts[EVICTED_DIRTY] += sector_count(sectors)
    counts[BYTES_ASKED] += sector_count(sectors) * cfg.sector_bytes
    return line, sectors


@kernel
def write_later(
    sets: Any,
    channels: Any,
    later: Any,
    requests: Any,
    count: Any,
    counts: Any,
    cfg: Any,
    line: int,
    sectors: int,
    now: int,
) -> None:
    """Have a line's dirty ones of `sectors` written when their channel is idle; with too many, the first now."""
    c, _, _ = dram_place(partition_line(line, cfg.partitions), cfg)
    c += home_partition(line, cfg.partitions) * cfg.channels
    if channels[c, D_LATER] - channels[c, D_LATER_DONE] == later.shape[1]:
        first, dirty = take_later(channels[c], later[c], sets, counts, cfg)
        if dirty:
            request(requests, count, now, first, dirty, 1)
    entry = later[c, channels[c, D_LATER] % later.shape[1]]
    channels[c, D_LATER] += 1
    entry[L_LINE] = line
    entry[L_SECTORS] = sectors
    entry[L_TIME] = now


@kernel
def clean_way(line: int, cfg: Any) -> int:
    """The way from which on a line is written when DRAM is idle: `dirty_ways` to beyond the last, by its number."""
    return cfg.dirty_ways + ((((line * SCATTER) >> 16) & 0xFFFF) * (cfg.ways - cfg.dirty_ways + 1) >> 16)


@kernel
def most(per_row: int, row: int) -> int:
    """How many lines a set may have of a kind of which the sets have `per_row` / TICK on average."""
    return ((row + 1) * per_row >> TICK_BITS) - (row * per_row >> TICK_BITS)


@kernel
def copy_for(state: int, sm: int) -> int:
    """The state of a copy, or of a line not here, after an SM has asked for it."""
    if not state & COPY:
        return COPY | (sm << BYTES_SHIFT)
    return state if (state & BYTES) >> BYTES_SHIFT == sm else state | SHARED


@kernel
def lone_copy(word: int) -> int:
    """Whether a line is a copy that only one SM has asked for."""
    return word & (COPY | SHARED) == COPY


@kernel
def victim(sets: Any, row: int) -> int:
    """The way to give up: an empty one, else of the lone copies the least recent, else the last."""
    copy = -1
    for way in range(sets.shape[1] - 1, -1, -1):
        word = sets[row, way]
        if word < 0:
            return way
        if copy < 0 and lone_copy(word):
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


@kernel
def make_room(sets: Any, row: int) -> int:
    """A way for a new line; the line that leaves it takes its copy along. It is never dirty: see `clean_way`."""
    way = victim(sets, row)
    old = sets[row, way]
    if old >= 0 and old & SHARED and not old & COPY:
        drop(sets, other_row(sets, row), old >> STATE_BITS, VALID)
    return way


@kernel
def put_behind(sets: Any, row: int, way: int, word: int) -> None:
    """Put a line, which is at `way` or takes its place, behind all but lone copies, and before those."""
    place = sets.shape[1]
    while place > 0 and (place - 1 == way or sets[row, place - 1] < 0 or lone_copy(sets[row, place - 1])):
        place -= 1
    if way < place:  # a gap among those in use
        place -= 1
        for k in range(way, place):
            sets[row, k] = sets[row, k + 1]
    for k in range(way, place, -1):
        sets[row, k] = sets[row, k - 1]
    sets[row, place] = word


@kernel
def oldest_beyond(sets: Any, cfg: Any, row: int, kind: int, per_row: int) -> int:
    """The way of the least recent line of a `kind`, dirty or partly written, if the set has too many of it, else -1."""
    number, oldest = 0, -1
    for way in range(sets.shape[1]):
        word = sets[row, way]
        if word >= 0 and word & kind and not word & COPY:
            number, oldest = number + 1, way
    return oldest if number > most(per_row, row) else -1


@inlined
def put(mem: Any, cfg: Any, row: int, way: int, word: int, now: int) -> None:
    """Put a line in its place in its set: the one at `way`, or for -1 a new one. What this overtakes may be cleaned."""
    sets, requests, count, counts = mem.sets, mem.requests, mem.request_count, mem.counts
    before = 0
    if way < 0:
        way = make_room(sets, row)
    else:
        before = sets[row, way]
    if lone_copy(word):
        put_behind(sets, row, way, word)
    else:
        for k in range(way, 0, -1):
            sets[row, k] = sets[row, k - 1]
        sets[row, 0] = word
        for k in range(cfg.dirty_ways, way + 1):
            old = sets[row, k]
            if old >= 0 and old & DIRTY and not old & COPY:
                if k == cfg.ways - 1:
                    sets[row, k] = write_back(requests, count, counts, old, cfg.sector_bytes, now)
                elif k == clean_way(old >> STATE_BITS, cfg):
                    partial = partly_written(old & STATE)
                    if partial:
                        sets[row, k] = fill_rest(requests, count, counts, old, partial, now)
                    write_later(
                        sets, mem.channels, mem.later, requests, count, counts, cfg, old >> STATE_BITS, VALID, now
                    )
        if word & BYTES & ~before and not word & COPY:
            k = oldest_beyond(sets, cfg, row, BYTES, cfg.partial_lines)
            if k >= 0:
                old = sets[row, k]
                partial = partly_written(old & STATE)
                sets[row, k] = fill_rest(requests, count, counts, old, partial, now)
                write_later(
                    sets, mem.channels, mem.later, requests, count, counts, cfg, old >> STATE_BITS, partial, now
                )
        if word & DIRTY and not before & DIRTY and not word & COPY:
            k = oldest_beyond(sets, cfg, row, DIRTY, cfg.dirty_lines)
            if k >= 0:
                sets[row, k] = write_back(requests, count, counts, sets[row, k], cfg.sector_bytes, now)
