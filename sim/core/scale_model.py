"""The packets of a scale model: where their lines are placed, and what SMs that the model lacks have fetched for it.

`redirect` takes a step's packets before `sim.core.memory.weave` does;
`sim.scale_memory` says what for, and makes its state.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sim.core.address_map import SCATTER, home_partition, l2_set, line_number
from sim.core.l2 import filled, find, put, state_of
from sim.core.l2_access import flight_entry, note_fill, with_group
from sim.core.memory_state import (
    COPY,
    F_READY,
    M_PARTITION,
    SHARED,
    STATE_BITS,
    STORE,
    TICK,
    VALID,
    Int64s,
    kernel,
)
from sim.core.xbar import sector_count

PAGE_BITS = 3  #: lines of a page: as many bytes as a block of 256 threads reads words
HASH_BITS = 32

# --- arrays of which it is known what other SMs do, by their first lines: regions[region, G_COLUMNS]
(
    G_FIRST,
    G_END,
    G_SHIFT,  # from a line's number to its place in `slots`
    G_KEPT,  # 1: other SMs use its lines as the model's do, so they stay in L2 or are brought back
    G_MOST,  # sectors that new lines may read from DRAM yet: an array is read once for the first time
    G_COLD,  # of 1 << HASH_BITS lines, so many that nobody has asked for: near, and at home in the other partition
    G_COLD_FAR,
    G_WAITS,  # ticks that such lines take longer than a hit: how many are known, near, far, and where they begin
    G_WAITS_FAR,
    G_WAITS_AT,
    G_WAITS_AT_FAR,
    G_PLACE,  # of the next of its pages
) = range(12)
G_COLUMNS = 12

# --- lines that loads of a step ask for, each once: lines[line, N_COLUMNS]
(
    N_LINE,
    N_PLACE,  # the line where it is placed
    N_REGION,
    N_NEW,  # 1: the model's SMs have not asked for it before
    N_SECTORS,
    N_TIME,  # the cycle of the first load
) = range(6)
N_COLUMNS = 6

# --- pages, open addressing: pages[entry, P_COLUMNS]
P_PAGE, P_PLACE = range(2)  # P_PAGE -1: none
P_COLUMNS = 2


class ScaleModel(NamedTuple):
    """What is known of lines beside `MemoryState`."""

    regions: Int64s
    waits: Int64s
    slots: npt.NDArray[np.int32]  # [lines of all regions] 1 + where in `lines` it was last, 0 never
    pages: Int64s
    placed: Int64s  # [2] pages that have places; the next place of one that is in no region
    # scratch of a step
    touched: Int64s  # [packets] pages, for the first time
    lines: Int64s


@kernel
def redirect(model: Any, mem: Any, cfg: Any, q: Any) -> None:
    """Place the packets' lines, in `q.line`; have lines that others ask for there or, at first, on their way."""
    place_pages(model, q)
    count = 0
    for sm in range(len(q.n)):
        for k in range(q.n[sm]):
            line = q.line[sm, k]
            place = placed(model.pages, line)
            q.line[sm, k] = place
            if q.kind[sm, k] != STORE:
                sectors = (q.sectors[sm, k] | q.sectors[sm, k] >> 4) & VALID
                count += note_load(model, count, line, place, sectors, q.time[sm, k])
    for k in range(count):
        fetch_for_others(model, mem, cfg, model.lines[k])


@kernel
def place_pages(model: Any, q: Any) -> None:
    """Give pages that are touched for the first time the next places of their array, in a step in order of number."""
    count = 0
    for sm in range(len(q.n)):
        for k in range(q.n[sm]):
            page = q.line[sm, k] >> PAGE_BITS
            entry = model.pages[page_entry(model.pages, page)]
            if entry[P_PAGE] < 0:
                entry[P_PAGE] = page
                at = count
                while at > 0 and model.touched[at - 1] > page:
                    model.touched[at] = model.touched[at - 1]
                    at -= 1
                model.touched[at] = page
                count += 1
    for k in range(count):
        page = model.touched[k]
        region = region_of(model.regions, page << PAGE_BITS | (1 << PAGE_BITS) - 1)
        places = model.placed[1:] if region < 0 else model.regions[region, G_PLACE:]
        model.pages[page_entry(model.pages, page), P_PLACE] = places[0]
        places[0] += 1
    model.placed[0] += count


@kernel
def scattered(number: int) -> int:
    """A number below 1 << HASH_BITS, by the low 31 bits of another, as if by chance."""
    return (number & 0x7FFFFFFF) * SCATTER & ((1 << HASH_BITS) - 1)


@kernel
def page_entry(pages: Any, page: int) -> int:
    """The page's entry, or the free one for it. `len(pages)` is a power of two, and more than there are pages."""
    entry = scattered(page)
    entry = (entry ^ entry >> 16) & (len(pages) - 1)
    while pages[entry, P_PAGE] != page and pages[entry, P_PAGE] >= 0:
        entry = (entry + 1) & (len(pages) - 1)
    return entry


@kernel
def placed(pages: Any, line: int) -> int:
    """Where a line of a page that has a place lies."""
    place = pages[page_entry(pages, line >> PAGE_BITS), P_PLACE]
    return (place << PAGE_BITS) | (line & ((1 << PAGE_BITS) - 1))


@kernel
def move_pages(old: Any, new: Any) -> None:
    """Enter all pages of a table into an empty one."""
    for entry in range(len(old)):
        page = old[entry, P_PAGE]
        if page >= 0:
            moved = new[page_entry(new, page)]
            moved[P_PAGE] = page
            moved[P_PLACE] = old[entry, P_PLACE]


@kernel
def region_of(regions: Any, line: int) -> int:
    """The region that a line is in, -1 none."""
    low, high = 0, len(regions)
    while low < high:
        middle = (low + high) >> 1
        if regions[middle, G_FIRST] <= line:
            low = middle + 1
        else:
            high = middle
    return low - 1 if low > 0 and line < regions[low - 1, G_END] else -1


@kernel
def note_load(model: Any, count: int, line: int, place: int, sectors: int, time: int) -> int:
    """Note what a load asks for of a region's line; 1 if it is the first of the line in this step."""
    region = region_of(model.regions, line)
    if region < 0:
        return 0
    number = line + model.regions[region, G_SHIFT]
    slot = model.slots[number] - 1
    if 0 <= slot < count and model.lines[slot, N_LINE] == line:
        noted = model.lines[slot]
        noted[N_SECTORS] |= sectors
        noted[N_TIME] = min(noted[N_TIME], time)
        return 0
    noted = model.lines[count]
    noted[N_LINE] = line
    noted[N_PLACE] = place
    noted[N_REGION] = region
    noted[N_NEW] = slot < 0
    noted[N_SECTORS] = sectors
    noted[N_TIME] = time
    model.slots[number] = count + 1
    return 1


@kernel
def fetch_for_others(model: Any, mem: Any, cfg: Any, noted: Any) -> None:
    """If others ask for a line that is not in L2, have it there or, if it is new, on its way."""
    near, line = mem.sms[0, M_PARTITION], line_number(noted[N_PLACE])
    home, region = home_partition(line, cfg.partitions), model.regions[noted[N_REGION]]
    row = home * cfg.slices * cfg.sets + l2_set(line, cfg)
    way = find(mem.sets, row, line)
    state = state_of(mem.sets, row, way)
    missing = with_group(noted[N_SECTORS] & ~state, cfg.fetch_sectors) & ~state & VALID
    absent, far, chance = way < 0, home != near, scattered(noted[N_LINE])
    new = absent and noted[N_NEW] != 0
    cold = (new and chance < region[G_COLD + far]) if absent else missing != 0
    # As many cross for the first time as are cold, of the SMs of one partition.
    crossing = far and chance < region[G_COLD] + region[G_COLD_FAR]
    if cold:
        read = sector_count(missing)
        if read <= region[G_MOST]:
            region[G_MOST] -= read
            return
        # More than the model's share of the array: others have read it, as many in each partition, so SMs share it.
        region[G_KEPT] = 1
        crossing = far and (chance >> 16) & 1 != 0
        if new:  # its wait is one of those of lines that are not cold
            never = region[G_COLD + far]
            chance = never + (((1 << HASH_BITS) - 1 - never) * ((chance << 16) // never) >> 16)
    if not (region[G_KEPT] or new or (missing and not absent)):
        return
    wait = model.waits[region[G_WAITS_AT + far] + (chance * region[G_WAITS + far] >> HASH_BITS)] if new else 0
    crossing = crossing and wait > (cfg.cross_latency + cfg.cross_back_latency) // 2
    asked = noted[N_TIME] * TICK
    ready = 0
    if wait > 0:
        ready = asked + cfg.request_latency + cfg.slice_latency + wait - crossing * cfg.cross_back_latency
    bring_in(mem, cfg, 1 - near if crossing else near, not crossing, line, missing != 0, asked, ready)


@kernel
def bring_in(mem: Any, cfg: Any, near: int, copied: bool, line: int, new: bool, asked: int, ready: int) -> None:
    """Use a line as others that ask for it do, uncounted.

    If `new` it comes whole, if `copied` to both partitions, and so does one that left as others came. `near` is the
    partition in which such a line's data are there at tick `ready`; it is asked for at `asked`. What has to make room
    is written with the next packets' requests.
    """
    home, index = home_partition(line, cfg.partitions), l2_set(line, cfg)
    comes = new or find(mem.sets, home * cfg.slices * cfg.sets + index, line) < 0
    for partition in range(cfg.partitions):
        row = partition * cfg.slices * cfg.sets + index
        way = find(mem.sets, row, line)
        if way >= 0:
            word = mem.sets[row, way]
            if comes:
                word = word | VALID if word & COPY else filled(word, VALID)
            put(mem, cfg, row, way, word, asked)
        elif comes and (copied or partition == home):
            kept = COPY | SHARED if partition != home else SHARED if copied and cfg.partitions > 1 else 0
            put(mem, cfg, row, way, (line << STATE_BITS) | VALID | kept, asked)
    if comes:
        entry = mem.flight[near, flight_entry(line)]
        note_fill(entry, line, VALID, -1, 0)
        entry[F_READY] = ready
