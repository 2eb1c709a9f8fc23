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
    M_NEXT,
    M_REQUEST_FREE,
    M_TMA_NEXT,
    Q_OWN,
    Q_TMA,
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
def send_packets(
    sms: Any, tpcs: Any, arrive: Any, sm_half_flit: int, tpc_half_flit: int, latency: int,
    req_n: Any, req_time: Any, req_sectors: Any, req_kind: Any, req_unit: Any,
) -> None:  # fmt: skip
    """Send every packet through the ports of its SM and its TPC; when it is at the slices.

    A TPC's packets go in the order in which they are ready to, then by SM. Those of TMA units do not queue behind the
    SMs' own, which wait for them: beside a flood of stores of its SM a load by TMA takes 396 cycles instead of 390, one
    by LDG 673 instead of 328 (microbench_7, `beside_stores`).
    """
    capacity = req_time.shape[1]
    for tpc in range(len(tpcs)):
        left = 0
        for sm in range(tpc, len(req_n), len(tpcs)):
            sms[sm, M_NEXT] = following(req_unit[sm], -1, req_n[sm], 0)
            sms[sm, M_TMA_NEXT] = following(req_unit[sm], -1, req_n[sm], 1)
            left += req_n[sm]
        while left > 0:
            left -= 1
            pick, at, unit = -1, 0, 0
            for sm in range(tpc, len(req_n), len(tpcs)):
                k = sms[sm, M_TMA_NEXT]
                if k < req_n[sm]:
                    ready = req_time[sm, k] << TICK_BITS
                    if pick < 0 or ready < at:
                        pick, at, unit = sm, ready, 1
                k = sms[sm, M_NEXT]
                if k < req_n[sm]:
                    ready = max(sms[sm, M_REQUEST_FREE], req_time[sm, k] << TICK_BITS)
                    if pick < 0 or ready < at:
                        pick, at, unit = sm, ready, 0
            next_of = M_TMA_NEXT if unit else M_NEXT
            k = sms[pick, next_of]
            sms[pick, next_of] = following(req_unit[pick], k, req_n[pick], unit)
            size = half_flits(req_kind[pick, k], req_sectors[pick, k])
            if unit:
                at = max(at, tpcs[tpc, Q_TMA])
                tpcs[tpc, Q_TMA] = at + size * tpc_half_flit
            else:
                at = max(at, tpcs[tpc, Q_OWN])
            sms[pick, M_REQUEST_FREE] = max(sms[pick, M_REQUEST_FREE], at) + size * sm_half_flit
            tpcs[tpc, Q_OWN] = max(tpcs[tpc, Q_OWN], at) + size * tpc_half_flit
            arrive[pick * capacity + k] = at + latency


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
