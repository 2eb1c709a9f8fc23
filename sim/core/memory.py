"""The memory system's part of a time step: take all SMs' packets in order, apply contention, say when each returns.

`weave` is called once a step. It sends packets through their SMs' request ports,
orders them by arrival at the L2 slices (cycle, then SM, then sequence), looks them up
one by one, serves what must come from DRAM, and books the answers on the response
ports. Everything that later packets must see - queues, tags, open rows, dirty bits -
stays in `MemoryState`.
"""

from __future__ import annotations

from typing import Any

from sim.core.address_map import l2_set, line_number
from sim.core.dram import serve
from sim.core.l2 import put
from sim.core.l2_access import atomic, flight_entry, join_entry, last_to_join, load, opened_entry, store
from sim.core.memory_state import (
    AHEAD,
    ATOMIC,
    B_BACK,
    B_DEPENDS,
    B_ENTRY,
    B_FIRST,
    B_HOME,
    B_JOIN,
    B_READY,
    B_WAIT,
    CHUNK,
    F_COLUMNS,
    F_OWNER,
    F_READY,
    FETCH,
    FLIGHT_BITS,
    J_COLUMNS,
    J_OWNER,
    J_READY,
    J_UNTIL,
    J_WHAT,
    JOIN_BITS,
    LOAD,
    M_DISTANCE,
    M_GPC,
    M_PARTITION,
    NEVER,
    O_UNTIL,
    O_WHAT,
    R_DONE,
    SEQUENCE,
    SEQUENCE_BITS,
    STORE,
    T_ROW,
    T_TIME,
    T_WAY,
    T_WORD,
    TICK,
    TICK_BITS,
    inlined,
    kernel,
)
from sim.core.rows import prefetch
from sim.core.xbar import order_packets, reserve, sector_count, send_packets
from sim.counters import Mem
from sim.limits import MAX_CLUSTER, MAX_SLOTS

XBAR_READ, XBAR_WRITE, L2_CYCLES_BUSY = int(Mem.XBAR_READ), int(Mem.XBAR_WRITE), int(Mem.L2_CYCLES_BUSY)


@kernel
def weave(mem: Any, cfg: Any, q: Any, end: int) -> None:
    """Answer the packets that SMs left in a time step, which ends at cycle `end`.

    `mem` and `cfg` are a `MemoryState` and a `MemoryConfig`, `q` are `layout.Requests`. `q.n[sm]` packets of each SM
    lie in `[sm, 0 .. q.n[sm])` of the other arrays, times not descending: `time` SM cycles; `line` byte address >> 7;
    `sectors` bits 0..3 the sectors, bits 4..7 those that are written only in part; `kind` load, store, atomic,
    reduction, fetch; `ops` lane operations of an atomic; `asked` distinct bytes that the lanes asked for; `unit` 1 for
    packets of the SM's TMA unit; `others` further SMs that get the answer. Packets that cannot leave in this step are
    taken out. Sets `done[sm, k]`: the cycle at which the data or the acknowledgement is at the SM, at least the L2 hit
    latency after `time`; and `free`.
    """
    if not q.n.any():
        return
    send_packets(mem, cfg, q, end << TICK_BITS)
    total = order_packets(mem.arrive, mem.order, mem.bucket, q.n)
    for begin in range(0, total, CHUNK):
        packets = mem.order[begin : min(begin + CHUNK, total)]
        look_up(mem, cfg, q, packets)
        serve(mem, cfg)
        answer(mem, cfg, q, packets)


@kernel
def look_up(mem: Any, cfg: Any, q: Any, packets: Any) -> None:
    """L2 look-ups of a chunk of packets; what is known of each answer goes to `batch`."""
    for j in range(len(packets)):
        if j % AHEAD == 0:
            bring_near(mem, cfg, packets[j : j + AHEAD], q.line)
        sm, k, index = packets[j] >> SEQUENCE_BITS, packets[j] & SEQUENCE, mem.places[j % AHEAD]
        batch = mem.batch[j]
        batch[B_HOME] = 0
        batch[B_BACK] = 0
        batch[B_WAIT] = -1
        batch[B_DEPENDS] = -1
        batch[B_FIRST] = mem.request_count[0]
        batch[B_ENTRY] = -1
        batch[B_JOIN] = -1
        mem.touch[0, T_ROW] = -1
        mem.touch[1, T_ROW] = -1
        near, arrive, line = mem.sms[sm, M_PARTITION], mem.arrive[sm, k], line_number(q.line[sm, k])
        kind, sectors = q.kind[sm, k], q.sectors[sm, k]
        if kind == LOAD or kind == FETCH:
            load(mem, cfg, j, sm, arrive, line, index, sectors & 15, q.asked[sm, k], kind, q.unit[sm, k])
        elif kind == STORE:
            store(mem, cfg, j, sm, arrive, line, index, sectors, q.asked[sm, k])
        else:
            atomic(mem, cfg, j, near, arrive, line, index, sectors, q.ops[sm, k], q.asked[sm, k], kind)
        for side in range(2):
            touch = mem.touch[side]
            if touch[T_ROW] >= 0:
                put(mem, cfg, touch[T_ROW], touch[T_WAY], touch[T_WORD], touch[T_TIME])
    mem.batch[len(packets), B_FIRST] = mem.request_count[0]
    mem.counts[L2_CYCLES_BUSY] = mem.slice_busy[0] >> TICK_BITS


@kernel
def bring_near(mem: Any, cfg: Any, packets: Any, lines: Any) -> None:
    """Find the sets of these packets' lines, in `places`, and ask the host's caches for what look-ups will need."""
    half = cfg.slices * cfg.sets
    for j in range(len(packets)):
        sm = packets[j] >> SEQUENCE_BITS
        line = line_number(lines[sm, packets[j] & SEQUENCE])
        row, entry = l2_set(line, cfg), flight_entry(line)
        mem.places[j] = row
        prefetch(mem.joins, (mem.sms[sm, M_GPC] << JOIN_BITS | join_entry(line)) * J_COLUMNS)
        for partition in range(cfg.partitions):
            first = (row + partition * half) * cfg.ways
            prefetch(mem.sets, first)
            prefetch(mem.sets, first + cfg.ways // 2)
            prefetch(mem.flight, (partition << FLIGHT_BITS | entry) * F_COLUMNS)


@kernel
def answer(mem: Any, cfg: Any, q: Any, packets: Any) -> None:
    """Complete a chunk's answers with DRAM's times and book them on the response ports."""
    for j in range(len(packets)):
        sm, k = packets[j] >> SEQUENCE_BITS, packets[j] & SEQUENCE
        gpc = mem.sms[sm, M_GPC]
        ready = data_ready(
            cfg, mem.batch, mem.flight, mem.joins[gpc], mem.opened[mem.sms[sm, M_PARTITION]], mem.requests, j
        )
        kind = q.kind[sm, k]
        sectors = sector_count(q.sectors[sm, k] | (q.sectors[sm, k] >> 4))
        if kind == LOAD or kind == FETCH or kind == ATOMIC:
            mem.counts[XBAR_READ] += sectors
            for port, work in ((cfg.sms + gpc, cfg.gpc_sector), (sm, cfg.response_sector)):
                ready = reserve(mem.responses, port, ready, sectors * work)
            if q.others[sm, k]:
                ready = answer_others(mem, cfg, q.peers[sm], q.others[sm, k], ready, sectors)
        if kind != LOAD and kind != FETCH:
            mem.counts[XBAR_WRITE] += sectors
        back = cfg.response_latency + mem.sms[sm, M_DISTANCE]
        q.done[sm, k] = (ready + back + TICK - 1) >> TICK_BITS


@kernel
def answer_others(mem: Any, cfg: Any, peers: Any, others: int, ready: int, sectors: int) -> int:
    """Book a multicast's answer on the response ports of further SMs; when the last has it."""
    slot, last = others >> MAX_CLUSTER, ready
    for rank in range(MAX_CLUSTER):
        if (others >> rank) & 1:
            mem.counts[XBAR_READ] += sectors
            port = peers[slot, rank] // MAX_SLOTS
            last = max(last, reserve(mem.responses, port, ready, sectors * cfg.response_sector))
    return last


@inlined
def data_ready(cfg: Any, batch: Any, flight: Any, joins: Any, opened: Any, requests: Any, j: int) -> int:
    """When packet `j`'s answer is at the near slice; the entries that it owns learn it too."""
    home = batch[j, B_HOME]
    if batch[j, B_WAIT] >= 0:
        home = max(home, requests[batch[j, B_WAIT], R_DONE])
    owner = batch[j, B_DEPENDS]
    if owner >= 0:
        home = max(home, batch[owner >> 1, B_HOME if owner & 1 else B_READY])
    batch[j, B_HOME] = home
    ready = max(batch[j, B_READY], home + batch[j, B_BACK])
    for r in range(batch[j, B_FIRST], batch[j + 1, B_FIRST]):
        if r != batch[j, B_WAIT]:  # what it pushed out must have found a place, or its rest have come
            ready = max(ready, requests[r, R_DONE])
    batch[j, B_READY] = ready
    number = batch[j, B_ENTRY]
    if number >= 0:
        for partition in range(flight.shape[0]):
            owner = flight[partition, number, F_OWNER]
            if owner >> 1 == j:
                flight[partition, number, F_READY] = home if owner & 1 else ready
                flight[partition, number, F_OWNER] = -1
    number = batch[j, B_JOIN]
    if number >= 0 and joins[number, J_OWNER] == j:
        until = last_to_join(cfg, ready)
        last = opened[opened_entry(joins[number, J_WHAT] >> 4)]
        if last[O_WHAT] == joins[number, J_WHAT]:
            last[O_UNTIL] = until if last[O_UNTIL] == NEVER else max(last[O_UNTIL], until)
        joins[number, J_READY] = ready
        joins[number, J_UNTIL] = until
        joins[number, J_OWNER] = -1
    return ready
