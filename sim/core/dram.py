"""DRAM: channels with a shared data bus, banks with row buffers, refresh, a write queue.

A channel serves the requests that it is given in one call first-ready first: a read
whose row is open before older ones, among the `read_window` oldest. Writes wait in a
queue until it is full, then a batch of them leaves together, because turning the bus
round idles it. docs/model/memory.md says which limits delay what.
"""

from __future__ import annotations

from typing import Any

from sim.core.address_map import dram_place, home_partition, partition_line
from sim.core.l2 import take_later
from sim.core.memory_state import (
    D_ACTIVATE_FREE,
    D_ADMITTED,
    D_BUS_FREE,
    D_BUSY,
    D_DEPARTED,
    D_GAP_END,
    D_GAP_START,
    D_LATER,
    D_LATER_DONE,
    D_REFRESH,
    D_WRITES,
    D_WRITING,
    K_ACTIVATE,
    K_COLUMN,
    K_PRECHARGE,
    K_ROW,
    L_TIME,
    R_BANK,
    R_CHANNEL,
    R_DONE,
    R_LINE,
    R_ROW,
    R_SECTORS,
    R_TIME,
    R_WRITE,
    W_BANK,
    W_BURSTS,
    W_DEPARTURE,
    W_ROW,
    W_TIME,
    inlined,
    kernel,
)
from sim.core.xbar import sector_count
from sim.counters import Mem

READ_SECTORS, WRITE_SECTORS = int(Mem.DRAM_READ), int(Mem.DRAM_WRITE)
READ_BURSTS, WRITE_BURSTS = int(Mem.DRAM_READ_BURSTS), int(Mem.DRAM_WRITE_BURSTS)
ROW_HIT, ROW_MISS, ROW_CONFLICT = int(Mem.DRAM_ROW_HIT), int(Mem.DRAM_ROW_MISS), int(Mem.DRAM_ROW_CONFLICT)
TURNAROUNDS, REFRESHES = int(Mem.DRAM_TURNAROUNDS), int(Mem.DRAM_REFRESHES)


@kernel
def burst_count(sectors: int, sector_bursts: int, burst_sectors: int) -> int:
    """Bursts that move a line's `sectors`: several a sector, one a sector, or one for some sectors."""
    if burst_sectors == 1:
        return sector_count(sectors) * sector_bursts
    if burst_sectors == 2:
        return (1 if sectors & 3 else 0) + (1 if sectors & 12 else 0)
    return 1


@kernel
def refresh(channel: Any, banks: Any, cfg: Any, now: int) -> int:
    """Refresh a channel whose time has come by `now`; the number of refreshes that fell due.

    All banks close, are refreshed, and the first row must be opened again before
    data can flow. Refreshes of an idle time cost only what of the last is left.
    """
    due = (now - channel[D_REFRESH]) // cfg.refresh_interval
    last = channel[D_REFRESH] + due * cfg.refresh_interval
    end = max(last, min(channel[D_BUS_FREE], now)) + cfg.precharge + cfg.refresh
    for bank in range(cfg.banks):
        banks[bank, K_ROW] = -1
        banks[bank, K_ACTIVATE] = end
    channel[D_BUS_FREE] = max(channel[D_BUS_FREE], end + cfg.row_to_column + cfg.column_latency)
    channel[D_GAP_END] = 0
    channel[D_REFRESH] = last + cfg.refresh_interval
    return due + 1


@kernel
def bus_slot(channel: Any, counts: Any, cfg: Any, earliest: int, work: int, write: int) -> int:
    """The start of `work` ticks on the data bus, not before `earliest`.

    Requests of the far partition come later than near ones of the next call: the
    last idle stretch is kept, so that those can still use it.
    """
    free = channel[D_BUS_FREE]
    if channel[D_WRITING] != write:
        channel[D_WRITING] = write
        channel[D_GAP_END] = 0
        counts[TURNAROUNDS] += 1
        free += cfg.read_to_write if write else cfg.write_to_read
    else:
        start = max(channel[D_GAP_START], earliest)
        if start + work <= channel[D_GAP_END]:
            channel[D_GAP_START] = start + work
            return start
    if earliest > free:
        channel[D_GAP_START] = free
        channel[D_GAP_END] = earliest
        free = earliest
    channel[D_BUS_FREE] = free + work
    return free


@inlined
def transfer(
    channel: Any, banks: Any, counts: Any, cfg: Any, bank: int, row: int, bursts: int, time: int, write: int
) -> int:
    """Move a request's bursts; the tick at which the last has passed the bus.

    A request that has to wait for its bank beyond one precharge and activation delays
    itself only: a controller fills the bus with other banks' data meanwhile, so the
    bus is charged for data, turnaround and refresh.
    """
    now = max(channel[D_BUS_FREE], time)
    if now >= channel[D_REFRESH]:
        counts[REFRESHES] += refresh(channel, banks, cfg, now)
    opened = banks[bank, K_ROW]
    column = max(time, banks[bank, K_COLUMN])
    counts[ROW_HIT] += bursts
    if opened != row:
        counts[ROW_HIT] -= 1
        if opened < 0:
            activate = max(time, banks[bank, K_ACTIVATE])
            counts[ROW_MISS] += 1
        else:
            activate = max(time, banks[bank, K_PRECHARGE]) + cfg.precharge
            counts[ROW_CONFLICT] += 1
        slot = channel[D_ACTIVATE_FREE]
        channel[D_ACTIVATE_FREE] = max(slot, time) + cfg.activate_interval
        activate = max(activate, slot - cfg.cross_latency)  # far requests of an earlier call came out of turn
        column = activate + cfg.row_to_column
        banks[bank, K_ROW] = row
        banks[bank, K_PRECHARGE] = activate + cfg.row_active
    work = bursts * cfg.burst
    soon = min(column, time + cfg.precharge + cfg.row_to_column)
    start = bus_slot(channel, counts, cfg, soon + cfg.column_latency, work, write)
    end = max(start + work, column + cfg.column_latency + (bursts - 1) * cfg.column_interval + cfg.burst)
    after = column + bursts * cfg.column_interval
    banks[bank, K_COLUMN] = after
    if write:
        after = end + cfg.write_recovery
    banks[bank, K_PRECHARGE] = max(banks[bank, K_PRECHARGE], after)
    channel[D_BUSY] += work
    return end


@inlined
def admit(
    channel: Any, writes: Any, counts: Any, cfg: Any, bank: int, row: int, sectors: int, bursts: int, time: int
) -> int:
    """Put a write into the queue, which has room; when it had found room."""
    counts[WRITE_SECTORS] += sector_count(sectors)
    counts[WRITE_BURSTS] += bursts
    n = channel[D_WRITES]
    writes[n, W_BANK] = bank
    writes[n, W_ROW] = row
    writes[n, W_BURSTS] = bursts
    writes[n, W_TIME] = time
    channel[D_WRITES] = n + 1
    admitted = channel[D_ADMITTED]
    channel[D_ADMITTED] = admitted + 1
    if admitted < cfg.write_entries:
        return time
    return max(time, writes[admitted % cfg.write_entries, W_DEPARTURE])  # it has the place of the write so many before


@inlined
def take_write(channel: Any, writes: Any, banks: Any) -> tuple[int, int, int, int]:
    """Bank, row, bursts and time of the write to do next, open rows first, then the oldest; it leaves the queue."""
    n = channel[D_WRITES]
    pick = 0
    for k in range(n):
        if banks[writes[k, W_BANK], K_ROW] == writes[k, W_ROW]:
            pick = k
            break
    taken = writes[pick, W_BANK], writes[pick, W_ROW], writes[pick, W_BURSTS], writes[pick, W_TIME]
    for k in range(pick, n - 1):
        for column in range(W_DEPARTURE):
            writes[k, column] = writes[k + 1, column]
    channel[D_WRITES] = n - 1
    return taken


@inlined
def take_read(requests: Any, window: Any, waiting: int, banks: Any) -> int:
    """The read to do next of `window[:waiting]`, open rows first, then the oldest; it leaves the window."""
    pick = 0
    for k in range(waiting):
        if banks[requests[window[k], R_BANK], K_ROW] == requests[window[k], R_ROW]:
            pick = k
            break
    taken = window[pick]
    for k in range(pick, waiting - 1):
        window[k] = window[k + 1]
    return taken


@kernel
def write_while_idle(channel: Any, banks: Any, later: Any, sets: Any, counts: Any, cfg: Any, until: int) -> None:
    """Write the dirty lines that wait for the channel to be idle, as far as reads can go on by `until`."""
    turning = cfg.read_to_write + cfg.write_to_read
    while channel[D_LATER_DONE] < channel[D_LATER]:
        since = later[channel[D_LATER_DONE] % len(later), L_TIME]
        if max(channel[D_BUS_FREE], since) + turning + 4 * cfg.sector_bursts * cfg.burst > until:
            return
        line, sectors = take_later(channel, later, sets, counts, cfg)
        if sectors:
            bursts = burst_count(sectors, cfg.sector_bursts, cfg.burst_sectors)
            _, bank, row = dram_place(partition_line(line, cfg.partitions), cfg)
            transfer(channel, banks, counts, cfg, bank, row, bursts, since, 1)
            counts[WRITE_SECTORS] += sector_count(sectors)
            counts[WRITE_BURSTS] += bursts


@kernel
def settle(mem: Any, cfg: Any, time: int) -> None:
    """Let each channel write dirty lines that wait for it to be idle, for `time` from the last that it was given."""
    for c in range(len(mem.channels)):
        channel, later = mem.channels[c], mem.later[c]
        last = later[(channel[D_LATER] - 1) % len(later), L_TIME]
        until = max(channel[D_BUS_FREE], last) + time
        write_while_idle(channel, mem.banks[c], later, mem.sets, mem.counts, cfg, until)


@inlined
def serve_channel(
    channel: Any,
    banks: Any,
    writes: Any,
    later: Any,
    sets: Any,
    counts: Any,
    cfg: Any,
    requests: Any,
    mine: Any,
    window: Any,
) -> None:
    """Serve a channel's requests `mine` of this chunk, which are in order of time; sets their `R_DONE`.

    Without a read among them all waiting writes leave: the channel would be idle.
    """
    at = 0
    waiting = 0
    reads = False
    draining = 0
    while True:
        now = channel[D_BUS_FREE]
        if waiting == 0 and at < len(mine):
            write_while_idle(channel, banks, later, sets, counts, cfg, requests[mine[at], R_TIME])
            now = max(channel[D_BUS_FREE], requests[mine[at], R_TIME])
        while at < len(mine) and waiting < cfg.read_window and requests[mine[at], R_TIME] <= now:
            r = mine[at]
            sectors = requests[r, R_SECTORS]
            bursts = burst_count(sectors, cfg.sector_bursts, cfg.burst_sectors)
            if requests[r, R_WRITE]:
                if channel[D_WRITES] == cfg.write_entries:
                    draining = max(draining, cfg.write_batch)
                    break
                requests[r, R_DONE] = admit(
                    channel, writes, counts, cfg,
                    requests[r, R_BANK], requests[r, R_ROW], sectors, bursts, requests[r, R_TIME],
                )  # fmt: skip
            else:
                counts[READ_SECTORS] += sector_count(sectors)
                counts[READ_BURSTS] += bursts
                window[waiting] = r
                waiting += 1
                reads = True
            at += 1
        if draining == 0 and waiting == 0:
            if at < len(mine):
                continue
            if reads or channel[D_WRITES] == 0:
                break
            draining = channel[D_WRITES]
        r = -1
        if draining > 0:
            bank, row, bursts, time = take_write(channel, writes, banks)
        else:
            r = take_read(requests, window, waiting, banks)
            waiting -= 1
            bank, row, time = requests[r, R_BANK], requests[r, R_ROW], requests[r, R_TIME]
            bursts = burst_count(requests[r, R_SECTORS], cfg.sector_bursts, cfg.burst_sectors)
        end = transfer(channel, banks, counts, cfg, bank, row, bursts, time, 1 if r < 0 else 0)
        if r < 0:
            draining -= 1
            writes[channel[D_DEPARTED] % cfg.write_entries, W_DEPARTURE] = end
            channel[D_DEPARTED] += 1
        else:
            requests[r, R_DONE] = end + cfg.controller_latency


@kernel
def place_requests(requests: Any, n: int, by_channel: Any, start: Any, cfg: Any) -> None:
    """Find the channel, bank and row of `n` requests; sort their numbers by channel, then time."""
    last = len(start) - 1
    start[:] = 0
    for r in range(n):
        line = requests[r, R_LINE]
        channel, bank, row = dram_place(partition_line(line, cfg.partitions), cfg)
        channel += home_partition(line, cfg.partitions) * cfg.channels
        requests[r, R_CHANNEL] = channel
        requests[r, R_BANK] = bank
        requests[r, R_ROW] = row
        start[channel + 1] += 1
    for channel in range(last):
        start[channel + 1] += start[channel]
    for r in range(n):
        channel = requests[r, R_CHANNEL]
        j = start[channel]
        start[channel] = j + 1
        by_channel[j] = r
    for channel in range(last, 0, -1):
        start[channel] = start[channel - 1]
    start[0] = 0
    for channel in range(last):
        for k in range(start[channel] + 1, start[channel + 1]):  # nearly sorted; equal times keep their order
            r = by_channel[k]
            j = k
            while j > start[channel] and requests[by_channel[j - 1], R_TIME] > requests[r, R_TIME]:
                by_channel[j] = by_channel[j - 1]
                j -= 1
            by_channel[j] = r


@kernel
def serve(mem: Any, cfg: Any) -> None:
    """Serve all DRAM requests of a chunk."""
    n = mem.request_count[0]
    if n == 0:
        return
    start = mem.channel_start
    place_requests(mem.requests, n, mem.by_channel, start, cfg)
    for c in range(len(start) - 1):
        if start[c + 1] > start[c]:
            serve_channel(
                mem.channels[c], mem.banks[c], mem.writes[c], mem.later[c], mem.sets, mem.counts, cfg,
                mem.requests, mem.by_channel[start[c] : start[c + 1]], mem.window,
            )  # fmt: skip
    mem.request_count[0] = 0
