"""What a request packet does at the L2: join one under way, look up near and home slices, fetch, write, combine.

Each function takes one packet, in order of arrival. It leaves in `batch[j]` what is
known of its answer, which `sim.core.memory` completes when DRAM has been served, and
in `touch` what becomes of the line in the sets that it looked up.
"""

from __future__ import annotations

from typing import Any

from sim.core.address_map import MEMORY_BITS, home_partition, l2_set, quotient
from sim.core.l2 import copy_for, drop, filled, find, make_room, other_row, put_behind, request, state_of, written
from sim.core.memory_state import (
    B_BACK,
    B_DEPENDS,
    B_ENTRY,
    B_HOME,
    B_JOIN,
    B_READY,
    B_WAIT,
    COPY,
    DIRTY,
    DIRTY_SHIFT,
    F_FILLING,
    F_LINE,
    F_OWNER,
    F_READY,
    FETCH,
    FLIGHT_BITS,
    J_OWNER,
    J_PLACES,
    J_READY,
    J_SM,
    J_UNTIL,
    J_WHAT,
    JOIN_BITS,
    M_GPC,
    M_PARTITION,
    M_STORED,
    NEVER,
    O_UNTIL,
    O_WHAT,
    OPENED_BITS,
    REDUCTION,
    S_ATOMIC,
    S_CROSS,
    S_PORT,
    S_TMA,
    SHARED,
    STATE_BITS,
    T_ROW,
    T_TIME,
    T_WAY,
    T_WORD,
    VALID,
    inlined,
    kernel,
)
from sim.core.xbar import sector_count
from sim.counters import Mem

REQUESTS, READ, READ_HIT = int(Mem.L2_REQUESTS), int(Mem.L2_READ), int(Mem.L2_READ_HIT)
WRITE, WRITE_HIT = int(Mem.L2_WRITE), int(Mem.L2_WRITE_HIT)
ATOMICS, REDUCTIONS = int(Mem.L2_ATOMIC), int(Mem.L2_REDUCTION)
TEX, TEX_HIT, TEX_MISS = int(Mem.L2_TEX), int(Mem.L2_TEX_HIT), int(Mem.L2_TEX_MISS)
OTHER, CROSSED, BYTES_ASKED = int(Mem.L2_OTHER), int(Mem.L2_CROSSED), int(Mem.DRAM_BYTES_ASKED)


@kernel
def flight_entry(line: int) -> int:
    """Entry of the in-flight table for a line."""
    return (line ^ (line >> FLIGHT_BITS)) & ((1 << FLIGHT_BITS) - 1)


@kernel
def folded(line: int, bits: int) -> int:
    """A line's entry in a direct-mapped table of 1 << `bits`: its upper bits folded in."""
    return (line ^ (line >> bits) ^ (line >> (2 * bits))) & ((1 << bits) - 1)


@kernel
def join_entry(line: int) -> int:
    """Entry of a GPC's table of loads that others may join, for a line."""
    return folded(line, JOIN_BITS)


@kernel
def opened_entry(line: int) -> int:
    """Entry of a partition's table of lines whose loads may be joined, for a line."""
    return folded(line, OPENED_BITS)


@kernel
def join_request(line: int, asked: int) -> int:
    """What a load asks for, in one number: a line and its sectors."""
    return line << 4 | asked


@kernel
def other_sectors(one: int, other: int) -> bool:
    """Whether two of `join_request` are of a line, and not of the same sectors."""
    return one != other and one >> 4 == other >> 4


@kernel
def with_group(sectors: int, group: int) -> int:
    """The sectors with all others of their fetch groups of 1, 2 or 4."""
    if group == 2:
        return sectors | ((sectors & 5) << 1) | ((sectors & 10) >> 1)
    return sectors if group == 1 else VALID


@kernel
def slice_work(cfg: Any, sectors: int) -> int:
    """How long a packet that is answered with data keeps a slice. A store only takes as long as its sectors."""
    return max(cfg.slice_request, sectors * cfg.slice_sector)


@kernel
def enter_slice(mem: Any, place: int, arrive: int, work: int) -> int:
    """Take the slice's input for so long; when the look-up starts."""
    start = max(arrive, mem.slices[place, S_PORT])
    mem.slices[place, S_PORT] = start + work
    mem.slice_busy[0] += work
    return start


@kernel
def in_line(mem: Any, sm: int, place: int, arrive: int) -> int:
    """When a slice takes a load by TMA whose SM has stores that wait for slices: its packets stay in order.

    It waits as long as a store would (microbench_16, `copies_beside_stores`).
    """
    if mem.sms[sm, M_STORED] <= arrive:
        return arrive
    return max(arrive, mem.slices[place, S_PORT])


@kernel
def enter_past_stores(mem: Any, cfg: Any, place: int, arrive: int, sectors: int) -> int:
    """Take a slice's input for a load by TMA; when the look-up starts if no stores wait.

    Its answer's data keeps other loads by TMA waiting, and stores for a request's time each 64 bytes (microbench_16,
    `copies_beside_stores`).
    """
    slice_, work = mem.slices[place], slice_work(cfg, sectors)
    start = max(arrive, slice_[S_TMA])
    mem.slice_busy[0] += work
    slice_[S_TMA] = start + work
    slice_[S_PORT] = max(arrive, slice_[S_PORT]) + max(1, (sectors + 1) >> 1) * cfg.slice_request
    return start


@kernel
def cross(mem: Any, cfg: Any, place: int, leave: int, sectors: int) -> int:
    """Take the way out of the partition of slice `place` for so much; when the look-up at home starts."""
    way = mem.slices[place if place < cfg.cross_slices else place - cfg.cross_slices]
    start = max(leave + cfg.cross_latency, way[S_CROSS])
    way[S_CROSS] = start + sectors * cfg.cross_sector
    mem.slice_busy[0] += slice_work(cfg, sectors)
    return start


@kernel
def pending(entry: Any, line: int, sectors: int, at: int) -> int:
    """When a line's sectors that are still on their way are here; -2 - owner code if not yet known; -1: none are."""
    if entry[F_LINE] != line or not entry[F_FILLING] & sectors:
        return -1
    if entry[F_OWNER] >= 0:
        return -2 - entry[F_OWNER]
    return entry[F_READY] if entry[F_READY] > at else -1


@kernel
def note_fill(entry: Any, line: int, filling: int, owner: int, now: int) -> None:
    """Note that a line's sectors are on their way."""
    if entry[F_LINE] == line and entry[F_READY] > now:
        filling |= entry[F_FILLING]
    entry[F_LINE] = line
    entry[F_FILLING] = filling
    entry[F_READY] = NEVER
    entry[F_OWNER] = owner


@kernel
def join(entry: Any, batch: Any, what: int, arrive: int) -> bool:
    """Whether a load goes with an earlier one of its GPC for the same sectors of the line, whose data it gets."""
    if entry[J_WHAT] != what or arrive > entry[J_UNTIL] or entry[J_PLACES] <= 0:
        return False
    entry[J_PLACES] -= 1
    if entry[J_OWNER] >= 0:
        batch[B_DEPENDS] = 2 * entry[J_OWNER]
    else:
        batch[B_READY] = entry[J_READY]
    return True


@kernel
def closes(last: Any, what: int, arrive: int) -> bool:
    """Whether a load asks for other sectors of a line than loads that may still be joined: then no more can be."""
    if arrive > last[O_UNTIL] or not other_sectors(last[O_WHAT], what):
        return False
    last[O_WHAT] = -1
    return True


@kernel
def let_join(entry: Any, last: Any, j: int, sm: int, what: int, requests: int) -> None:
    """Later loads may join packet `j`, of SM `sm`, at most `requests` in all.

    Until when, its look-up or its data show.
    """
    entry[J_WHAT] = last[O_WHAT] = what
    entry[J_UNTIL] = last[O_UNTIL] = NEVER
    entry[J_PLACES] = requests - 1
    entry[J_OWNER] = j
    entry[J_SM] = sm


@kernel
def last_to_join(cfg: Any, ready: int) -> int:
    """Until when loads may arrive that join one whose data is at the slice at `ready`."""
    return ready - cfg.slice_latency + cfg.coalesce_window


@kernel
def touch_line(touch: Any, row: int, way: int, line: int, state: int, now: int) -> None:
    """Say what becomes of the line in a set: put first with this state, new when `way` is -1."""
    touch[T_ROW] = row
    touch[T_WAY] = way
    touch[T_WORD] = (line << STATE_BITS) | state
    touch[T_TIME] = now


@inlined
def load(
    mem: Any,
    cfg: Any,
    j: int,
    sm: int,
    arrive: int,
    line: int,
    index: int,
    asked: int,
    asked_bytes: int,
    kind: int,
    tma: int,
) -> None:
    """A load, or a fetch of instructions or constants. `index` is `l2_set` of the line."""
    batch, counts = mem.batch[j], mem.counts
    n = sector_count(asked)
    near, gpc = mem.sms[sm, M_PARTITION], mem.sms[sm, M_GPC]
    place = quotient(index, cfg.inverse_sets)
    slice_ = mem.slices[near * cfg.slices + place]
    at = in_line(mem, sm, near * cfg.slices + place, arrive) if tma else arrive
    what, joining = join_request(line, asked), join_entry(line)
    group, last = mem.joins[gpc, joining], mem.opened[near, opened_entry(line)]
    alone = False
    if cfg.coalesce_window > 0:
        batch[B_READY] = 0
        turn = not tma and asked != VALID  # whole lines go to all that wait at once (microbench_32)
        if turn:
            at = max(at, slice_[S_PORT])
        if last[O_WHAT] == what and join(group, batch, what, at):
            if turn:
                slice_[S_PORT] = at + cfg.slice_request
            batch[B_READY] = max(batch[B_READY], at + (cfg.slice_latency if tma else cfg.after_join))
            return
        alone = closes(last, what, at)
        if not alone:
            batch[B_JOIN] = joining
            let_join(group, last, j, sm, what, cfg.coalesce_requests)
    if not alone or group[J_SM] != sm or not other_sectors(group[J_WHAT], what):
        counts[REQUESTS] += 1  # else the SM's last one was for the line: it is a part of that
    home = home_partition(line, cfg.partitions)
    row = near * cfg.slices * cfg.sets + index
    number = flight_entry(line)
    entry = mem.flight[near, number]
    way = find(mem.sets, row, line)
    state = state_of(mem.sets, row, way)
    missing = asked & ~state
    hits = n - sector_count(missing)
    # Absent sectors take their turn among the look-ups, and none of the data's time. What is asked of others is asked
    # in order of arrival, else their clocks would run ahead.
    if tma:
        leave = enter_past_stores(mem, cfg, near * cfg.slices + place, arrive, hits)
        ready = max(leave, at)
    else:
        leave = ready = enter_slice(mem, near * cfg.slices + place, arrive, slice_work(cfg, hits))
    leave += cfg.slice_latency
    ready += cfg.slice_latency
    counts[READ] += n
    counts[READ_HIT] += hits
    counts[OTHER if kind == FETCH else TEX] += n
    if kind != FETCH:
        counts[TEX_HIT] += hits
    if not missing:
        coming = pending(entry, line, asked, ready)
        if coming == -1 and not alone:
            group[J_UNTIL] = last[O_UNTIL] = last_to_join(cfg, ready)
        asked_for = copy_for(state, sm) if state & COPY else state
        if way > 0 or asked_for != state:
            touch_line(mem.touch[0], row, way, line, asked_for, ready)
        if coming < -1:
            batch[B_DEPENDS] = -2 - coming
        batch[B_READY] = max(ready, coming)
        return
    fetch = with_group(missing, cfg.fetch_sectors) & ~state & VALID
    if kind != FETCH:
        counts[TEX_MISS] += sector_count(fetch)
    note_fill(entry, line, fetch, 2 * j, leave)
    batch[B_ENTRY] = number
    batch[B_READY] = ready
    asked_bytes = asked_bytes * sector_count(missing) // n
    if near == home:
        batch[B_WAIT] = request(mem.requests, mem.request_count, leave, line, fetch, 0)
        counts[BYTES_ASKED] += asked_bytes
        touch_line(mem.touch[0], row, way, line, filled(state, fetch), leave)
    else:
        touch_line(mem.touch[0], row, way, line, copy_for(state, sm) | fetch, leave)
        fetch_from_home(mem, cfg, j, home, place, index, line, fetch, leave, asked_bytes)


@inlined
def fetch_from_home(
    mem: Any, cfg: Any, j: int, home: int, place: int, index: int, line: int, fetch: int, leave: int, asked_bytes: int
) -> None:
    """Get sectors for a near slice from the line's home in the other partition."""
    batch, counts = mem.batch[j], mem.counts
    n = sector_count(fetch)
    start = cross(mem, cfg, home * cfg.slices + place, leave, n)
    row = home * cfg.slices * cfg.sets + index
    way = find(mem.sets, row, line)
    state = state_of(mem.sets, row, way)
    missing = fetch & ~state
    counts[READ] += n
    counts[READ_HIT] += n - sector_count(missing)
    counts[CROSSED] += n
    batch[B_BACK] = cfg.cross_back_latency
    number = flight_entry(line)
    entry = mem.flight[home, number]
    coming = pending(entry, line, fetch, start)
    if coming < -1:
        batch[B_DEPENDS] = -2 - coming
    batch[B_HOME] = max(start, coming)
    if missing:
        batch[B_WAIT] = request(mem.requests, mem.request_count, start, line, missing, 0)
        counts[BYTES_ASKED] += asked_bytes
        note_fill(entry, line, missing, 2 * j + 1, start)
        batch[B_ENTRY] = number
    touch_line(mem.touch[1], row, way, line, filled(state, missing) | SHARED, start)


@inlined
def store(
    mem: Any, cfg: Any, j: int, sm: int, arrive: int, line: int, index: int, sectors: int, asked_bytes: int
) -> None:
    """A store: kept at home, in a near copy as well if there is one; bits 4..7 of `sectors` are partly written.

    Where more waits for the way to the other partition than keeps it full, a round trip's worth, the slice takes
    nothing more: what comes behind waits too.
    """
    sets, counts, near = mem.sets, mem.counts, mem.sms[sm, M_PARTITION]
    part = (sectors >> 4) & VALID
    whole = sectors & VALID & ~part
    n = sector_count(whole | part)
    part_bytes = 0
    if part:
        part_bytes = max(0, asked_bytes - sector_count(whole) * cfg.sector_bytes) // sector_count(part)
    home = home_partition(line, cfg.partitions)
    place = quotient(index, cfg.inverse_sets)
    slice_ = mem.slices[near * cfg.slices + place]
    start = enter_slice(mem, near * cfg.slices + place, arrive, n * cfg.slice_sector)
    mem.sms[sm, M_STORED] = max(mem.sms[sm, M_STORED], start)
    ready = start + cfg.slice_latency
    looked_up = n
    row = home * cfg.slices * cfg.sets + index
    way = find(sets, row, line)
    state = state_of(sets, row, way)
    if near != home:
        copy_row = other_row(sets, row)
        copy_way = find(sets, copy_row, line)
        if copy_way >= 0:
            sets[copy_row, copy_way] |= whole
        start = cross(mem, cfg, near * cfg.slices + place, ready, n + (1 if part else 0))
        blocked = start - cfg.cross_latency - cfg.slice_latency - (cfg.cross_latency + cfg.cross_back_latency)
        slice_[S_PORT] = max(slice_[S_PORT], blocked)
        ready = start + cfg.cross_back_latency
        looked_up += n
        counts[CROSSED] += n
    elif state & SHARED:
        drop(sets, other_row(sets, row), line, whole | part)
    counts[REQUESTS] += 1
    counts[TEX] += n
    counts[TEX_HIT] += n
    counts[WRITE] += looked_up
    counts[WRITE_HIT] += looked_up
    touch_line(mem.touch[1], row, way, line, written(state, whole, part, part_bytes, cfg.sector_bytes), start)
    mem.batch[j, B_READY] = ready


@inlined
def atomic(
    mem: Any,
    cfg: Any,
    j: int,
    near: int,
    arrive: int,
    line: int,
    index: int,
    sectors: int,
    ops: int,
    asked_bytes: int,
    kind: int,
) -> None:
    """An atomic or a reduction: done by the home slice's unit, a sector at a time, a lane at a time on one word."""
    batch, counts = mem.batch[j], mem.counts
    sectors = (sectors | (sectors >> 4)) & VALID
    n = sector_count(sectors)
    home = home_partition(line, cfg.partitions)
    place = quotient(index, cfg.inverse_sets)
    at = enter_slice(mem, near * cfg.slices + place, arrive, slice_work(cfg, n)) + cfg.slice_latency
    batch[B_READY] = at
    unit = home * cfg.slices + l2_set(line & -cfg.atomic_lines, cfg) // cfg.sets
    row = home * cfg.slices * cfg.sets + index
    way = find(mem.sets, row, line)
    state = state_of(mem.sets, row, way)
    looked_up = n
    if near != home:
        at = cross(mem, cfg, near * cfg.slices + place, at, n)
        batch[B_BACK] = cfg.cross_back_latency
        looked_up += n
        counts[CROSSED] += n
    if state & SHARED:
        drop(mem.sets, other_row(mem.sets, row), line, VALID)
    missing = sectors & ~state
    counts[REQUESTS] += 1
    counts[TEX] += n
    counts[TEX_HIT] += n - sector_count(missing)
    counts[REDUCTIONS if kind == REDUCTION else ATOMICS] += looked_up
    words = max(1, asked_bytes >> 2)
    repeats = (ops + words - 1) // words  # lanes on one word, on average
    work = n * cfg.atomic_sector if repeats <= 1 else n * repeats * cfg.atomic_same_address
    free = mem.slices[unit, S_ATOMIC]
    mem.slices[unit, S_ATOMIC] = max(at, free) + work
    begin = max(at, free - cfg.cross_latency)  # far atomics of an earlier call came out of turn
    number = flight_entry(line)
    entry = mem.flight[home, number]
    coming = pending(entry, line, sectors, at)
    if coming < -1:
        batch[B_DEPENDS] = -2 - coming
    batch[B_HOME] = max(begin + work, coming)
    if missing:
        counts[TEX_MISS] += sector_count(missing)
        counts[BYTES_ASKED] += asked_bytes * sector_count(missing) // n
        batch[B_WAIT] = request(mem.requests, mem.request_count, at, line, missing, 0)
        note_fill(entry, line, missing, 2 * j + 1, at)
        batch[B_ENTRY] = number
    touch_line(mem.touch[1], row, way, line, filled(state, missing) | (sectors << DIRTY_SHIFT), at)


@kernel
def hold_dirty(sets: Any, cfg: Any, lines: int) -> None:
    """Have so many whole dirty lines in empty sets, uncounted: the last ones of memory, which no kernel uses."""
    for k in range(lines):
        line = (1 << (MEMORY_BITS + 2)) - 1 - k
        row = home_partition(line, cfg.partitions) * cfg.slices * cfg.sets + l2_set(line, cfg)
        put_behind(sets, row, make_room(sets, row), (line << STATE_BITS) | VALID | DIRTY)
