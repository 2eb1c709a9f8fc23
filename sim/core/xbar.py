"""The crossbar: request ports, the order of packets at the slices, response ports."""

from __future__ import annotations

from typing import Any

from sim.core.memory_state import (
    ARRIVAL_BUCKETS,
    BUCKET_BITS,
    C_FIRST,
    C_FREE,
    C_SMS,
    CALENDAR,
    FETCH,
    FULL_FROM,
    FULL_TO,
    H_COUNT,
    H_FIRST,
    H_LATER,
    H_OWN,
    H_TIME,
    H_TMA,
    LOAD,
    M_DISTANCE,
    M_LAST,
    M_PARTITION,
    M_REQUEST_FREE,
    NEVER,
    S_PORT,
    SEQUENCE_BITS,
    STORE,
    TICK,
    TICK_BITS,
    USED_BITS,
    inlined,
    kernel,
)

USED_MASK = (1 << USED_BITS) - 1


@kernel
def sector_count(mask: int) -> int:
    """Set bits of a 4-bit mask."""
    return (0x4332322132212110 >> ((mask & 15) << 2)) & 15


@kernel
def half_flits(kind: int, sectors: int) -> int:
    """What a packet puts on a request port, in halves of a sector; with partly written sectors a mask goes along."""
    if kind == LOAD or kind == FETCH:
        return 1
    whole = kind == STORE and sectors >> 4 == 0
    return 2 * (sector_count(sectors | (sectors >> 4)) + (0 if whole else 1))


@kernel
def following(units: Any, k: int, n: int, unit: int) -> int:
    """The next packet after `k` that a unit of an SM sends; `n` after the last."""
    k += 1
    while k < n and units[k] != unit:
        k += 1
    return k


@kernel
def stretch(mem: Any, cfg: Any, partition: int, at: int) -> int:
    """How much longer than alone stores take the CPCs' ports, in 1/TICK, as the slices of their partition take no more.

    In proportion to what waits at `at` before the slices, on average, beyond `slice_queue`. What waits for one slice
    does not hold up what is for others (microbench_16: 8 KiB take twice as long beside stores as 128 bytes do).
    """
    waits = 0
    for place in range(partition * cfg.slices, (partition + 1) * cfg.slices):
        waits += max(0, mem.slices[place, S_PORT] - at)
    return max(TICK, waits * TICK // max(1, cfg.slice_queue * cfg.slices))


@kernel
def send_packets(mem: Any, cfg: Any, q: Any, end: int) -> None:
    """Send packets through the ports of their SM and of its CPC; when each is at the slices.

    Packets of TMA units do not queue behind the SMs' own, which wait for them: beside a flood of stores of its SM a
    load by TMA takes 396 cycles instead of 390, one by LDG 673 instead of 328 (microbench_7, `beside_stores`). Packets
    that cannot leave before tick `end` stay in the SM.
    """
    first = NEVER
    for sm in range(len(q.n)):
        if q.n[sm] > 0:
            first = min(first, q.time[sm, 0] << TICK_BITS)
    for partition in range(cfg.partitions):
        mem.stretches[partition] = stretch(mem, cfg, partition, first + cfg.request_latency)
    for cpc in mem.cpcs:
        send_in_turn(mem, cfg, q, cpc, end)
        for i in range(cpc[C_SMS]):
            sm = cpc[C_FIRST + i]
            if min(mem.heads[i, H_OWN], mem.heads[i, H_TMA]) < q.n[sm]:
                q.n[sm] = keep_back(q, mem.arrive[sm], sm, mem.heads[i])
            q.free[sm] = mem.sms[sm, M_REQUEST_FREE] >> TICK_BITS


@kernel
def send_in_turn(mem: Any, cfg: Any, q: Any, cpc: Any, end: int) -> None:
    """Send the packets of a CPC's SMs in order of the times at which the SMs' ports can: in turns, where all could."""
    heads, sms = mem.heads, cpc[C_SMS]
    for i in range(sms):
        sm = cpc[C_FIRST + i]
        heads[i, H_COUNT] = q.n[sm]
        heads[i, H_OWN] = following(q.unit[sm], -1, q.n[sm], 0)
        heads[i, H_TMA] = following(q.unit[sm], -1, q.n[sm], 1)
        look_ahead(heads[i], mem.sms[sm], q.time[sm])
    while True:
        i = earliest(heads, sms)
        head, sm = heads[i], cpc[C_FIRST + i]
        if head[H_TIME] == NEVER:
            break
        port, at = mem.sms[sm], max(head[H_TIME], cpc[C_FREE])
        if at >= end:
            head[H_TIME] = NEVER
            continue
        tma = 1 - port[M_LAST] if head[H_LATER] <= at else head[H_FIRST]
        k = head[H_TMA] if tma else head[H_OWN]
        size = half_flits(q.kind[sm, k], q.sectors[sm, k])
        cpc[C_FREE] = at
        if q.kind[sm, k] == STORE:
            cpc[C_FREE] += size * cfg.cpc_half_flit * mem.stretches[port[M_PARTITION]] >> TICK_BITS
        port[M_REQUEST_FREE] = at + size * cfg.sm_half_flit
        head[H_TMA if tma else H_OWN] = following(q.unit[sm], k, q.n[sm], tma)
        port[M_LAST] = tma
        mem.arrive[sm, k] = at + cfg.request_latency + port[M_DISTANCE]
        look_ahead(head, port, q.time[sm])


@kernel
def look_ahead(head: Any, port: Any, times: Any) -> None:
    """Which packet an SM sends next, its own or its TMA unit's, and when its port can; they take turns if both wait."""
    own = tma = NEVER
    if head[H_OWN] < head[H_COUNT]:
        own = max(port[M_REQUEST_FREE], times[head[H_OWN]] << TICK_BITS)
    if head[H_TMA] < head[H_COUNT]:
        tma = max(port[M_REQUEST_FREE], times[head[H_TMA]] << TICK_BITS)
    head[H_FIRST] = 1 if tma <= own else 0
    head[H_TIME], head[H_LATER] = min(own, tma), max(own, tma)


@kernel
def earliest(heads: Any, sms: int) -> int:
    """Which of a CPC's SMs can send first."""
    best = 0
    for i in range(1, sms):
        if heads[i, H_TIME] < heads[best, H_TIME]:
            best = i
    return best


@kernel
def keep_back(q: Any, arrive: Any, sm: int, head: Any) -> int:
    """Take an SM's packets from its heads on out of the step; how many are left."""
    n = 0
    for k in range(q.n[sm]):
        if k < (head[H_TMA] if q.unit[sm, k] else head[H_OWN]):
            if n < k:
                q.time[sm, n] = q.time[sm, k]
                for column in (q.line, q.sectors, q.kind, q.ops, q.asked, q.unit, q.others):
                    column[sm, n] = column[sm, k]
                arrive[n] = arrive[k]
            n += 1
    return n


@kernel
def order_packets(arrive: Any, order: Any, bucket: Any, counts: Any) -> int:
    """Sort packet numbers by arrival at the slices; the packet count.

    Order: cycle of arrival, then SM, then sequence; a counting sort over
    `ARRIVAL_BUCKETS` cycles (later arrivals keep SM order among themselves).
    """
    total = 0
    first = 1 << 62
    last = 0
    for sm in range(len(counts)):
        total += counts[sm]
        for k in range(counts[sm]):
            first = min(first, arrive[sm, k])
            last = max(last, arrive[sm, k])
    if total == 0:
        return 0
    base = first >> TICK_BITS
    top = min((last >> TICK_BITS) - base, ARRIVAL_BUCKETS - 1)
    bucket[: top + 2] = 0
    for sm in range(len(counts)):
        for k in range(counts[sm]):
            bucket[min((arrive[sm, k] >> TICK_BITS) - base, top) + 1] += 1
    for b in range(1, top + 1):
        bucket[b] += bucket[b - 1]
    for sm in range(len(counts)):
        for k in range(counts[sm]):
            b = min((arrive[sm, k] >> TICK_BITS) - base, top)
            order[bucket[b]] = sm << SEQUENCE_BITS | k
            bucket[b] += 1
    return total


@inlined
def reserve(calendar: Any, port: int, ready: int, work: int) -> int:
    """Book `work` ticks of a port at `ready` or as soon after as it has room; the start.

    Answers are booked when their time becomes known, not in the order of their
    times, so a port is a calendar of buckets and not one clock.
    """
    first = ready >> BUCKET_BITS
    bucket = first
    if calendar[port, FULL_FROM] <= bucket < calendar[port, FULL_TO]:
        bucket = calendar[port, FULL_TO]
    for _ in range(CALENDAR):
        slot = bucket & (CALENDAR - 1)
        entry = calendar[port, slot]
        held = entry >> USED_BITS
        used = entry & USED_MASK
        if held > bucket:  # beyond the calendar's reach
            return ready
        if held < bucket:
            used = 0
        if used + work <= (1 << BUCKET_BITS):
            calendar[port, slot] = (bucket << USED_BITS) | (used + work)
            if bucket > first:
                if first < calendar[port, FULL_FROM] or first > calendar[port, FULL_TO]:
                    calendar[port, FULL_FROM] = first
                calendar[port, FULL_TO] = bucket
            return max(ready, (bucket << BUCKET_BITS) + used)
        bucket += 1
    return bucket << BUCKET_BITS
