"""The memory pipeline of an SM: sub-core queues, the shared stage, L1, and waiting for what is not there.

A memory instruction leaves its sub-core's queue through an address unit, then
takes its turn at the stage that all sub-cores share, in order of issue. There it
occupies the data banks for as many passes as they need and looks up a tag for
each 128-byte line. A load that finds all its sectors completes after the hit
latency; for each sector that is absent a packet goes to L2, and a second load of
a sector under way waits for the same packet.
"""

from __future__ import annotations

from sim._jit import inner
from sim.core.access import lowest_lane, popcount
from sim.core.address_map import quotient
from sim.core.array_ports import WRITE, take_ports_for
from sim.core.layout import (
    AG_LEFT,
    AG_TIME,
    ASKED_SHIFT,
    C_HAS_CONTROL,
    C_L1_FILL,
    C_L1_LATENCY,
    C_L1_LINES,
    C_L1_MISS,
    C_L1_SETS,
    C_L1_WAYS,
    C_LSU_LATENCY,
    C_PACKET,
    C_REGISTER_ROWS,
    C_TAG,
    E_BARRIER,
    E_COLUMNS,
    E_COUNT,
    E_EXTRA,
    E_GROUP,
    E_ISSUED,
    E_LEFT,
    E_LOW,
    E_NEXT,
    E_PC,
    E_ROW,
    E_TIME,
    E_WARP,
    FILL_COLUMNS,
    NODE_COLUMNS,
    OPS_SHIFT,
    R_FIRST,
    R_KIND,
    R_L1,
    R_SECTORS,
    R_TIME,
    R_WAITERS,
    RECORD_TIMES,
    RING,
    RK_LOAD,
    SB_PENDING,
    SB_REASON,
    SB_TIME,
    SC_ADDRESS_FREE,
    SC_QUEUE,
    SC_QUEUE_TIMES,
    SCORE_BITS,
    SCORE_READY,
    SV_BACKLOG,
    SV_FREE_ENTRY,
    SV_GROUP,
    SV_L1_LINES,
    SV_L1_TURN,
    SV_LRU,
    SV_LSU_FREE,
    SV_NODES,
    SV_PACKETS,
    SV_RECORD,
    SV_SENT,
    TAG_BITS,
    TAG_COLUMNS,
    TAG_LINE,
    TAG_STATE,
    TAG_USED,
    TAGS_TOGETHER,
    TICK,
    W_PC,
    W_PENDING,
    W_SINCE,
)
from sim.core.record import note
from sim.core.request_queue import send
from sim.core.rows import eight_equal, prefetch
from sim.core.xbar import half_flits
from sim.counters import Inst, Sm, Stall, Track

LONG_SCOREBOARD = int(Stall.LONG_SCOREBOARD)
LOAD_TRACK, COPY_TRACK = int(Track.LOAD), int(Track.COPY)
HIT_SECTORS = int(Inst.HIT_SECTORS)
SET_STRIDE, SET_SKEW = 311, 17  #: sets from a line to the next, and more where the sets have all had one; primes
NODES_AHEAD = 8  #: nodes that are asked for ahead
TAG_LINES = 0x55 << TAG_LINE  #: of the numbers of four tags, their lines
L1_DATA, L1_TAG = int(Sm.L1_DATA), int(Sm.L1_TAG)


@inner(inline="always")
def through_queue(a, s, m, sub, t, busy):
    """Pass the queue and the address unit, which is then busy; returns the tick at which the instruction leaves."""
    start = max(t * TICK, a.sc[sub, SC_ADDRESS_FREE])
    a.sc[sub, SC_ADDRESS_FREE] = start + busy
    n = a.sc[sub, SC_QUEUE]
    a.sc[sub, SC_QUEUE] = n + 1
    return start


@inner(inline="always")
def shared_stage(a, m, sub, arrive, duration):
    """Take the shared stage for `duration` ticks from `arrive` on; returns the tick of the start."""
    start = max(arrive, a.sv[SV_LSU_FREE])
    a.sv[SV_LSU_FREE] = start + duration
    a.sm[L1_DATA] += duration
    a.sc[sub, SC_QUEUE_TIMES + (a.sc[sub, SC_QUEUE] - 1) % 16] = start // TICK + 1
    return start


@inner(inline="always")
def stay_in_stage(a, duration):
    """The access that took the shared stage last stays there for `duration` ticks more."""
    a.sv[SV_LSU_FREE] += duration
    a.sm[L1_DATA] += duration


@inner(inline="always")
def l1_set(line, sets, inverse):
    """The set of a line. Lines in a row go to sets all over the array, each `sets` of them to all."""
    turn = quotient(line, inverse)
    scattered = (line - turn * sets + SET_SKEW * turn) * SET_STRIDE
    return scattered - quotient(scattered, inverse) * sets


@inner(inline="always")
def l1_find(a, first, ways, line):
    """The tag that holds `line`, of the set that begins at `first`, or -1. Tags behind the set's hold other lines."""
    for k in range(first, first + ways, TAGS_TOGETHER):
        here = eight_equal(a.l1_tag, k * TAG_COLUMNS, line) & TAG_LINES
        if here:
            return k + lowest_lane(here) // TAG_COLUMNS
    return -1


@inner
def l1_approach(a, s, lines, n, places):
    """Fill `places` with the first tags of `n` lines' sets, and ask the host's caches for them."""
    sets, ways = s.cfg[C_L1_SETS], s.cfg[C_L1_WAYS]
    inverse = 1.0 / sets
    for k in range(n):
        places[k] = l1_set(lines[k], sets, inverse) * ways
    for k in range(n):  # by itself, or the compiler would not do the first eight at a time
        prefetch(a.l1_tag, places[k] * TAG_COLUMNS)


@inner
def l1_look_up(a, s, lines, sectors, n, places):
    """Where `l1_approach` left the first tags of sets: the tags that hold the lines; -1 - the first where none does.

    Returns whether all sectors have long been there. What other tags have is asked for from the host's caches at once.
    """
    all_there = True
    for k in range(n):
        at = l1_find(a, places[k], s.cfg[C_L1_WAYS], lines[k])
        if at < 0:
            places[k] = -1 - places[k]
            all_there = False
        else:
            places[k] = at
            if sectors[k] & ~a.l1_tag[at, TAG_USED]:
                prefetch(a.l1_fill, at * FILL_COLUMNS)
                all_there = False
    return all_there


@inner(inline="always")
def l1_hit(a, sectors, n, places):
    """Use the tags `places`, which say that all sectors of `n` lines are there; returns how many sectors."""
    hits = 0
    for k in range(n):
        l1_use(a, places[k], a.sv[SV_LRU] + 1 + k, a.l1_tag[places[k], TAG_USED] & TAG_STATE)
        hits += popcount(sectors[k])
    return hits


@inner(inline="always")
def l1_place(a, s, line, place):
    """The tag of a line that `l1_look_up` found at `place`; a line without one gets one."""
    if place >= 0:
        if a.l1_tag[place, TAG_LINE] == line:
            return place
        place = -1 - (place - place % s.cfg[C_L1_WAYS])  # a line looked up along with this one has taken its tag
    return l1_claim(a, s, -1 - place, line)


@inner(inline="always")
def l1_use(a, at, order, state):
    """The `order`-th use of L1 is of a tag, whose sectors are then in this state."""
    a.l1_tag[at, TAG_USED] = order << TAG_BITS | state


@inner(inline="always")
def l1_oldest(a, first, ways):
    """The tag of a set that was used longest ago; an empty one, if there is one."""
    oldest = first
    for k in range(first + 1, first + ways):
        if a.l1_tag[k, TAG_USED] < a.l1_tag[oldest, TAG_USED]:
            oldest = k
    return oldest


@inner
def l1_give_up(a, s):
    """The line of data that the set in turn gives up: that of its least recently used tag, which is then empty."""
    ways = s.cfg[C_L1_WAYS]
    at = -1
    while at < 0:
        first = a.sv[SV_L1_TURN] * ways
        a.sv[SV_L1_TURN] = (a.sv[SV_L1_TURN] + 1) % s.cfg[C_L1_SETS]
        for k in range(first, first + ways):
            if a.l1_tag[k, TAG_LINE] >= 0 and (at < 0 or a.l1_tag[k, TAG_USED] < a.l1_tag[at, TAG_USED]):
                at = k
    a.l1_tag[at, TAG_LINE] = -1
    a.l1_tag[at, TAG_USED] = 0
    return a.l1_data[at]


@inner
def l1_claim(a, s, first, line):
    """The tag that `line` gets in the set that begins at `first`, with a line of data that is empty.

    An empty tag gets a line of data that is free, or that of the set whose turn it is; where the set has no empty tag,
    `line` takes the place of its least recently used one.
    """
    at = l1_oldest(a, first, s.cfg[C_L1_WAYS])
    if a.l1_tag[at, TAG_LINE] < 0:
        if a.sv[SV_L1_LINES] < s.cfg[C_L1_LINES]:
            a.l1_data[at] = a.sv[SV_L1_LINES]
            a.sv[SV_L1_LINES] += 1
        else:
            a.l1_data[at] = l1_give_up(a, s)
    a.l1_tag[at, TAG_LINE] = line
    a.l1_tag[at, TAG_USED] = 0
    return at


@inner(inline="always")
def new_entry(a, m, w, row, count, barrier, group, extra, low):
    """Take a waiting entry off the free list; -1 if none is left."""
    e = a.sv[SV_FREE_ENTRY]
    if e < 0:
        return e
    en = a.en
    a.sv[SV_FREE_ENTRY] = en[e, E_NEXT]
    prefetch(en, max(en[e, E_NEXT], 0) * E_COLUMNS)
    en[e, E_WARP] = w
    en[e, E_ROW] = row
    en[e, E_COUNT] = count
    en[e, E_BARRIER] = barrier
    en[e, E_LEFT] = 0
    en[e, E_TIME] = 0
    en[e, E_GROUP] = group
    en[e, E_EXTRA] = extra
    en[e, E_LOW] = low
    if a.sv[SV_RECORD] == RECORD_TIMES:
        en[e, E_PC] = a.ws[w, W_PC]
        en[e, E_ISSUED] = a.ws[w, W_SINCE] - 1
    return e


@inner(inline="always")
def wait_for(a, m, entry, packet):
    """Let `entry` wait for `packet` (unless it is the packet's latest waiter already)."""
    a.en[entry, E_LEFT] += 1
    if a.rq[packet, R_FIRST] < 0:
        a.rq[packet, R_FIRST] = entry
        return
    head = a.rq[packet, R_WAITERS]
    if (a.nodes[head, 0] if head >= 0 else a.rq[packet, R_FIRST]) == entry:
        a.en[entry, E_LEFT] -= 1
        return
    n = a.sv[SV_NODES]
    node = a.free_nodes[n]
    a.sv[SV_NODES] = n + 1
    prefetch(a.nodes, a.free_nodes[n + NODES_AHEAD] * NODE_COLUMNS)
    a.nodes[node, 0] = entry
    a.nodes[node, 1] = head
    a.rq[packet, R_WAITERS] = node


@inner(forceinline=True)
def load_lines(a, s, m, pc, entry, start, lines, sectors, asked, places, n, allocate):
    """Look up `n` lines in L1 from tick `start`; returns the cycle when what is on its way by a known time is there.

    Absent sectors are asked of L2; `entry` waits for the packets. `places` is as `l1_approach` left it.
    """
    cfg = s.cfg
    tag, left = cfg[C_TAG], n
    sent = hits = latest = 0
    past = start // TICK - cfg[C_LSU_LATENCY] + cfg[C_L1_LATENCY] - cfg[C_L1_FILL]  # till then in time for a hit
    if allocate and l1_look_up(a, s, lines, sectors, n, places):
        hits, left = l1_hit(a, sectors, n, places), 0
    for k in range(left):
        line, missing = lines[k], sectors[k]
        at = -1
        if allocate:
            at = l1_place(a, s, line, places[k])
            state = a.l1_tag[at, TAG_USED] & TAG_STATE
            missing &= ~(state >> ASKED_SHIFT)
            coming = sectors[k] & ~missing & ~state
            while coming:
                sector = lowest_lane(coming)
                coming &= coming - 1
                fill = a.l1_fill[at, sector]
                if fill < 0:
                    wait_for(a, m, entry, -1 - fill)
                elif fill <= past:
                    state |= 1 << sector
                elif fill > latest:
                    latest = fill
            l1_use(a, at, a.sv[SV_LRU] + 1 + k, state | missing << ASKED_SHIFT)
            hits += popcount(sectors[k] ^ missing)
        if missing:
            time = (start + max(k * tag, sent * cfg[C_PACKET])) // TICK + cfg[C_L1_MISS]
            packet = send(a, s, m, time, line, missing, RK_LOAD, 0, asked[k], at, entry)
            sent += 1
            if allocate:
                for sector in range(4):
                    if (missing >> sector) & 1:
                        a.l1_fill[at, sector] = -1 - packet
    a.sv[SV_LRU] += n
    a.sv[SV_LSU_FREE] = max(a.sv[SV_LSU_FREE], start + sent * cfg[C_PACKET])  # lines leave one after another
    a.sm[L1_TAG] += n * tag
    s.inst[a.sv[SV_GROUP], pc, HIT_SECTORS] += hits
    return latest


@inner(inline="always")
def keep_stored(a, s, line, place, whole):
    """A store's line takes a tag of L1, as a load's does; sectors that it wrote `whole` are there. Returns the tag.

    `place` is from `l1_look_up`.
    """
    at = l1_place(a, s, line, place)
    state = a.l1_tag[at, TAG_USED] & TAG_STATE
    new = whole & ~(state >> ASKED_SHIFT)
    for sector in range(4):
        if (new >> sector) & 1:
            a.l1_fill[at, sector] = 0
    a.sv[SV_LRU] += 1
    l1_use(a, at, a.sv[SV_LRU], state | new << ASKED_SHIFT | new)
    return at


@inner(inline="always")
def complete(a, s, m, w, row, count, barrier, group, time):
    """The data of an instruction is in its registers (or in shared memory) at `time`."""
    a.ws[w, W_PENDING] -= 1
    if group >= 0:
        a.ag[w, group, AG_LEFT] -= 1
        a.ag[w, group, AG_TIME] = max(a.ag[w, group, AG_TIME], time)
    if s.cfg[C_HAS_CONTROL]:
        if barrier < 6:
            a.sb[w, barrier, SB_PENDING] -= 1
            a.sb[w, barrier, SB_TIME] = max(a.sb[w, barrier, SB_TIME], time)
            a.sb[w, barrier, SB_REASON] = LONG_SCOREBOARD
        return
    for r in range(row, row + count):
        if 0 <= r < s.cfg[C_REGISTER_ROWS]:
            a.score[w, r, SCORE_READY] = time << SCORE_BITS | LONG_SCOREBOARD


@inner(inline="always")
def arrived(a, s, m, e, done):
    """One packet of entry `e` has been answered at `done`; with the last, the entry is complete and free."""
    en = a.en
    en[e, E_TIME] = max(en[e, E_TIME], done)
    en[e, E_LEFT] -= 1
    if en[e, E_LEFT] == 0:
        time = max(en[e, E_TIME] + en[e, E_EXTRA], en[e, E_LOW])
        if a.sv[SV_RECORD] == RECORD_TIMES:
            track = COPY_TRACK if en[e, E_GROUP] >= 0 else LOAD_TRACK
            note(a, s, m, track, 0, en[e, E_WARP], en[e, E_PC], en[e, E_ISSUED], time)
        complete(
            a, s, m, en[e, E_WARP], en[e, E_ROW], en[e, E_COUNT], en[e, E_BARRIER],
            en[e, E_GROUP], time,
        )  # fmt: skip
        en[e, E_NEXT] = a.sv[SV_FREE_ENTRY]
        a.sv[SV_FREE_ENTRY] = e


@inner
def expect(a, packets):
    """Ask the host's caches for what `settle` will touch of so many packets, or fewer."""
    sent = a.sv[SV_SENT]
    for j in range(sent, min(sent + packets, a.sv[SV_PACKETS])):
        packet = a.rq[j % RING]
        at = max(packet[R_L1], 0)
        prefetch(a.l1_tag, at * TAG_COLUMNS)
        prefetch(a.l1_fill, at * FILL_COLUMNS)
        prefetch(a.l1_data, at)
        prefetch(a.en, max(packet[R_FIRST], 0) * E_COLUMNS)
        prefetch(a.nodes, max(packet[R_WAITERS], 0) * NODE_COLUMNS)


@inner
def settle(a, s, m, taken):
    """Deliver the answers of the first `taken` packets: fill caches, wake what waits."""
    sent = a.sv[SV_SENT]
    for j in range(sent, sent + taken):
        k = j % RING
        done = a.rq[k, R_TIME]
        a.sv[SV_BACKLOG] -= half_flits(a.rq[k, R_KIND] & ((1 << OPS_SHIFT) - 1), a.rq[k, R_SECTORS])
        at = a.rq[k, R_L1]
        if at >= 0:
            filled = 0
            asked = a.rq[k, R_SECTORS] & a.l1_tag[at, TAG_USED] >> ASKED_SHIFT  # not if the line has lost the tag
            for sector in range(4):
                if (asked >> sector) & 1 and a.l1_fill[at, sector] == -1 - k:
                    a.l1_fill[at, sector] = done
                    filled |= 1 << sector
            take_ports_for(a, s, WRITE, at, filled, done)
        if a.rq[k, R_FIRST] >= 0:
            arrived(a, s, m, a.rq[k, R_FIRST], done)
        node = a.rq[k, R_WAITERS]
        while node >= 0:
            following = a.nodes[node, 1]
            arrived(a, s, m, a.nodes[node, 0], done)
            a.sv[SV_NODES] -= 1
            a.free_nodes[a.sv[SV_NODES]] = node
            node = following
    a.sv[SV_SENT] = sent + taken
    if a.sv[SV_SENT] == a.sv[SV_PACKETS]:  # from the ring's start again: what was used last is in the host's cache
        a.sv[SV_SENT] = a.sv[SV_PACKETS] = 0
