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
    M_REQUEST_FREE,
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
def order_packets(
    sms: Any, arrive: Any, order: Any, bucket: Any, header: int, per_store: int, per_sector: int, latency: int,
    req_n: Any, req_time: Any, req_sectors: Any, req_kind: Any,
) -> int:  # fmt: skip
    """Send every packet through its SM's request port; sort packet numbers by arrival at the slices.

    Order: cycle of arrival, then SM, then sequence; a counting sort over
    `ARRIVAL_BUCKETS` cycles (later arrivals keep SM order among themselves). `header`,
    `per_store` and `per_sector` are ticks that a packet, a written line and each of its
    sectors hold the port.
    Returns the packet count.
    """
    capacity = req_time.shape[1]
    total = 0
    first = 1 << 62
    last = 0
    for sm in range(len(req_n)):
        free = sms[sm, M_REQUEST_FREE]
        for k in range(req_n[sm]):
            at = max(free, req_time[sm, k] << TICK_BITS)
            free = at + header
            if req_kind[sm, k] != LOAD and req_kind[sm, k] != FETCH:
                free += per_store + sector_count(req_sectors[sm, k] | (req_sectors[sm, k] >> 4)) * per_sector
            at += latency
            arrive[sm * capacity + k] = at
            first = min(first, at)
            last = max(last, at)
        sms[sm, M_REQUEST_FREE] = free
        total += req_n[sm]
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
