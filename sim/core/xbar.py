"""The crossbar: request ports, the order of packets at the slices, response ports."""

from __future__ import annotations

from typing import Any

from sim.core.memory_state import (
    ARRIVAL_BUCKETS,
    BUCKET_BITS,
    CALENDAR,
    FETCH,
    FULL_FROM,
    FULL_TO,
    LOAD,
    M_PARTITION,
    M_REQUEST_FREE,
    M_TMA_FREE,
    NEVER,
    S_PORT,
    STORE,
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
def waiting(slices: Any, partition: int, n: int, at: int) -> int:
    """How long what waits before a partition's slices takes them on average, from `at` on."""
    total = 0
    for place in range(partition * n, (partition + 1) * n):
        total += max(0, slices[place, S_PORT] - at)
    return total // n


@kernel
def send_packets(
    mem: Any, cfg: Any,
    req_n: Any, req_time: Any, req_sectors: Any, req_kind: Any, req_unit: Any, req_free: Any,
) -> None:  # fmt: skip
    """Send every packet through the port of its SM; when it is at the slices.

    Packets of TMA units do not queue behind the SMs' own, which wait for them: beside a flood of stores of its SM a
    load by TMA takes 396 cycles instead of 390, one by LDG 673 instead of 328 (microbench_7, `beside_stores`). A store
    waits at the port while what is queued before the slices takes longer than `slice_queue` on average.
    """
    capacity = req_time.shape[1]
    for sm in range(len(req_n)):
        port, n, units = mem.sms[sm], req_n[sm], req_unit[sm]
        own, tma = following(units, -1, n, 0), following(units, -1, n, 1)
        while own < n or tma < n:
            at = tma_at = NEVER
            if own < n:
                at = max(port[M_REQUEST_FREE], req_time[sm, own] << TICK_BITS)
                if req_kind[sm, own] == STORE:
                    at += max(0, waiting(mem.slices, port[M_PARTITION], cfg.slices, at) - cfg.slice_queue)
            if tma < n:
                tma_at = max(port[M_TMA_FREE], req_time[sm, tma] << TICK_BITS)
            first = tma_at <= at
            k, at = (tma, tma_at) if first else (own, at)
            size = half_flits(req_kind[sm, k], req_sectors[sm, k]) * cfg.sm_half_flit
            if first:
                tma = following(units, tma, n, 1)
                port[M_TMA_FREE] = at + size
            else:
                own = following(units, own, n, 0)
            port[M_REQUEST_FREE] = max(port[M_REQUEST_FREE], at) + size
            mem.arrive[sm * capacity + k] = at + cfg.request_latency
        req_free[sm, 0] = port[M_REQUEST_FREE] >> TICK_BITS
        req_free[sm, 1] = port[M_TMA_FREE] >> TICK_BITS


@kernel
def order_packets(arrive: Any, order: Any, bucket: Any, capacity: int, req_n: Any) -> int:
    """Sort packet numbers by arrival at the slices; the packet count.

    Order: cycle of arrival, then SM, then sequence; a counting sort over
    `ARRIVAL_BUCKETS` cycles (later arrivals keep SM order among themselves).
    """
    total = 0
    first = 1 << 62
    last = 0
    for sm in range(len(req_n)):
        total += req_n[sm]
        for p in range(sm * capacity, sm * capacity + req_n[sm]):
            first = min(first, arrive[p])
            last = max(last, arrive[p])
    if total == 0:
        return 0
    base = first >> TICK_BITS
    top = min((last >> TICK_BITS) - base, ARRIVAL_BUCKETS - 1)
    bucket[: top + 2] = 0
    for sm in range(len(req_n)):
        for p in range(sm * capacity, sm * capacity + req_n[sm]):
            bucket[min((arrive[p] >> TICK_BITS) - base, top) + 1] += 1
    for b in range(1, top + 1):
        bucket[b] += bucket[b - 1]
    for sm in range(len(req_n)):
        for p in range(sm * capacity, sm * capacity + req_n[sm]):
            b = min((arrive[p] >> TICK_BITS) - base, top)
            order[bucket[b]] = p
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
