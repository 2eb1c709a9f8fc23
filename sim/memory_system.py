"""The memory system's host side: state and configuration from a profile, flushes, counts.

`MemorySystem` is what a device holds. `memory_config` turns a profile's numbers into
ticks; `memory_state` allocates what `sim.core.memory.weave` works on.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sim.core import memory_state as columns
from sim.core.address_map import homes
from sim.core.dram import settle
from sim.core.l2_access import hold_dirty
from sim.core.layout import Requests as Packets
from sim.core.layout import zeros as cache_aligned_zeros
from sim.core.memory import weave
from sim.core.memory_state import CHUNK, TICK, TICK_BITS, Int64s, MemoryConfig, MemoryState
from sim.counters import Mem
from sim.profile import Profile

LINE_BYTES = 128  #: of a request packet: `req_line` is the byte address >> 7
CLOCK_STEPS = 64  #: of the SMs' clock
SECTORS = 4  #: of a line: `req_sectors` has 4 bits


class MemorySystem:
    """Crossbar, L2 and DRAM of one device: state that lives as long as the device does."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.config = self._config_at(1.0)
        self._configs = {CLOCK_STEPS: self.config}  # by clock, in CLOCK_STEPS of the nominal one
        self.state = memory_state(profile)
        self.cold = True  #: L2 holds nothing that a kernel could want
        self.flush()

    def weave(self, packets: Packets, t_start: int, t_end: int) -> None:
        """Set when each packet of the step `[t_start, t_end)` is answered; see `sim.core.memory.weave`."""
        self.state = with_room(self.state, packets.time.shape)
        weave(self.state, self.config, packets, t_end)

    def set_clock(self, ratio: float) -> None:
        """From here on the SMs' clock is `ratio` of the nominal one, which the memory system keeps."""
        step = max(1, round(ratio * CLOCK_STEPS))
        if step not in self._configs:
            self._configs[step] = self._config_at(step / CLOCK_STEPS)
        self.config = self._configs[step]

    def _config_at(self, clock: float) -> MemoryConfig:
        """The configuration at an SMs' clock, of the nominal one."""
        return memory_config(self.profile, clock)

    def flush(self) -> None:
        """Write back and empty the caches, uncounted, as a profiler does before a kernel; what it leaves is dirty."""
        flush(self.state)
        if self.profile.launch_traffic is not None:
            lines = self.profile.launch_traffic.dirty_bytes // LINE_BYTES
            hold_dirty(self.state.sets, self.config, min(lines, len(self.state.sets)))
        self.cold = True

    def waits(self, packets: Packets, sm: Int64s, k: Int64s) -> Int64s:
        """Of the answered packets `[sm, k]`, by their times: `[3, packets]`.

        Whether their line's home is the other partition; how many ticks longer they took than a hit in their own;
        whether they waited for DRAM.
        """
        cfg = self.config
        far = homes_of(packets.line[sm, k], cfg) != self.state.sms[sm, columns.M_PARTITION]
        hit = cfg.request_latency + cfg.slice_latency + cfg.response_latency
        ticks = np.maximum(0, (packets.done[sm, k] - packets.time[sm, k]) * TICK - hit)
        return np.stack([far, ticks, ticks > far * across(cfg) + dram_latency(cfg) // 2])

    def begin_launch(self) -> None:
        """Count from zero; caches, queues and clocks stay."""
        self.set_clock(1.0)
        settle(self.state, self.config, columns.NEVER >> 1)
        reset_counts(self.state)

    def end_launch(self) -> None:
        """The kernel has ended: writes in DRAM's queues leave in the pause, dirty lines stay in L2."""
        settle(self.state, self.config, self.profile.dram.settle_cycles * TICK)
        empty_write_queues(self.state)
        self.cold = False

    def counts(self) -> Int64s:
        """A copy of the counts, by `sim.counters.Mem`."""
        channel_busy_cycles(self.state)
        return self.state.counts.copy()

    def channel_busy(self) -> Int64s:
        """SM cycles with data on the bus, a DRAM channel."""
        return channel_busy_cycles(self.state)


def launch_reads(profile: Profile, code_bytes: int, *, cold: bool) -> Int64s:
    """What starting a kernel reads, beside its own loads, by `sim.counters.Mem`: its code, and what the driver keeps.

    Of a `cold` L2 all of it comes from DRAM once. Nothing if the profile does not know.
    """
    counts, reads = np.zeros(len(Mem), np.int64), profile.launch_traffic
    if reads is not None:
        code = -(-code_bytes // profile.l2.sector_bytes)
        l2 = reads.l2_read_sectors + reads.code_reads * code
        dram = reads.dram_read_sectors + code if cold else 0
        counts[[Mem.L2_READ, Mem.L2_OTHER]] = l2
        counts[Mem.L2_READ_HIT] = l2 - dram
        counts[Mem.DRAM_READ] = dram
        counts[Mem.DRAM_READ_BURSTS] = dram * max(1, profile.l2.sector_bytes // profile.dram.burst_bytes)
        counts[Mem.DRAM_BYTES_ASKED] = dram * profile.l2.sector_bytes
    return counts


def homes_of(lines: Int64s, cfg: MemoryConfig) -> Int64s:
    """The home partition of each line."""
    home = np.zeros_like(lines)
    homes(lines, cfg.partitions, home)
    return home


def across(cfg: MemoryConfig) -> int:
    """Ticks of the way to the other partition and back."""
    return cfg.cross_latency + cfg.cross_back_latency


def dram_latency(cfg: MemoryConfig) -> int:
    """Ticks that an idle DRAM takes to answer L2."""
    return cfg.controller_latency + cfg.row_to_column + cfg.column_latency + cfg.burst


def memory_config(profile: Profile, clock: float = 1.0) -> MemoryConfig:
    """The profile's L2, crossbar and DRAM in ticks of 1/256 SM cycle.

    `clock` is the SMs' clock, of the nominal one; L2 and DRAM keep theirs, so their times are fewer cycles.

    Raises `ValueError` for a profile whose lines are not four sectors of 32 bytes, or
    that has more than two L2 partitions.
    """
    gpu, l2, dram = profile.gpu, profile.l2, profile.dram
    if l2.line_bytes != LINE_BYTES or l2.line_bytes // l2.sector_bytes != SECTORS:
        raise ValueError(
            f"profile {profile.name!r}: l2.line_bytes={l2.line_bytes}, l2.sector_bytes={l2.sector_bytes}: "
            f"the memory system moves lines of {LINE_BYTES} bytes in {SECTORS} sectors; use 128 and 32"
        )
    if l2.partitions > 2:
        raise ValueError(f"profile {profile.name!r}: l2.partitions={l2.partitions}: use 1 or 2")

    def cycles(value: float) -> int:
        return round(value * TICK)

    def ns(value: float) -> int:
        return round(value * gpu.clock_mhz * clock / 1000 * TICK)

    def moving(size: float, bytes_per_cycle: float) -> int:
        return max(1, round(size / bytes_per_cycle * TICK))

    slices = l2.slices // l2.partitions
    sets = l2.bytes // (LINE_BYTES * l2.associativity * l2.slices)
    channels = dram.channels // l2.partitions
    request = l2.hit_latency_cycles // 3
    crossing = l2.far_extra_cycles // 2
    rows = max(1, dram.capacity_bytes // (dram.channels * dram.banks * dram.row_bytes))
    burst_ns = max(  # groups take turns on the bus
        dram.burst_bytes * dram.channels / dram.peak_gbytes_per_s,
        dram.tccd_short_ns,
        dram.tccd_long_ns / dram.bank_groups,
    )
    return MemoryConfig(
        sms=gpu.sm_count,
        partitions=l2.partitions,
        slices=slices,
        sets=sets,
        ways=l2.associativity,
        dirty_ways=l2.dirty_ways,
        dirty_lines=cycles(l2.dirty_lines),
        partial_lines=cycles(l2.partial_lines),
        fetch_sectors=l2.fetch_bytes // l2.sector_bytes,
        sector_bytes=l2.sector_bytes,
        request_latency=cycles(request),
        slice_latency=cycles(l2.hit_latency_cycles - 2 * request),
        response_latency=cycles(request),
        cross_latency=cycles(crossing),
        cross_back_latency=cycles(l2.far_extra_cycles - crossing),
        sm_half_flit=moving(l2.sector_bytes / 2, l2.sm_write_bytes_per_cycle),
        cpc_half_flit=moving(l2.sector_bytes / 2, cpc_write_bytes_per_cycle(profile)),
        response_sector=moving(l2.sector_bytes, l2.sm_read_bytes_per_cycle),
        gpc_sector=moving(l2.sector_bytes, l2.gpc_read_bytes_per_cycle / clock),
        slice_request=cycles(gpu.clock_mhz * clock / l2.clock_mhz),
        slice_sector=moving(l2.sector_bytes, l2.slice_bytes_per_cycle / clock),
        slice_queue=cycles(l2.slice_queue_cycles),
        cross_sector=moving(l2.sector_bytes * slices, l2.cross_bytes_per_cycle / clock),
        cross_slices=l2.partitions * slices,
        atomic_sector=cycles(l2.atomic_sector_cycles * clock),
        atomic_same_address=cycles(l2.atomic_same_address_cycles * clock),
        atomic_lines=l2.atomic_unit_bytes // l2.line_bytes,
        coalesce_window=cycles(l2.coalesce_cycles),
        after_join=cycles(max(0, l2.hit_latency_cycles - 2 * request - l2.coalesce_cycles)),
        coalesce_requests=l2.coalesce_requests,
        channels=channels,
        banks=dram.banks,
        rows=rows,
        sector_bursts=max(1, l2.sector_bytes // dram.burst_bytes),
        burst_sectors=max(1, dram.burst_bytes // l2.sector_bytes),
        burst=max(1, ns(burst_ns)),
        column_interval=ns(max(dram.tccd_long_ns, burst_ns)),
        activate_interval=ns(max(dram.trrd_ns, dram.tfaw_ns / 4)),
        row_to_column=ns(dram.trcd_ns),
        precharge=ns(dram.trp_ns),
        column_latency=ns(dram.tcl_ns),
        row_active=ns(dram.tras_ns),
        write_recovery=ns(dram.twr_ns),
        write_to_read=ns(dram.twtr_ns + dram.tcl_ns),
        read_to_write=ns(dram.trtw_ns),
        refresh_interval=ns(dram.trefi_ns),
        refresh=ns(dram.trfc_ns),
        controller_latency=cycles(dram.latency_cycles),
        read_window=dram.read_queue_entries,
        write_entries=dram.write_queue_entries,
        write_batch=max(1, dram.write_queue_entries // 2),
        inverse_slices=1 / slices,
        inverse_sets=1 / sets,
        inverse_interleave=LINE_BYTES / dram.interleave_bytes,
        inverse_channels=1 / channels,
        inverse_banks=1 / dram.banks,
        inverse_rows=1 / rows,
    )


def soonest_answer_cycles(profile: Profile) -> int:
    """From a packet's leaving its SM to its answer, at least: of a load that joins another, in the SM nearest to L2."""
    cfg = memory_config(profile)
    ticks = cfg.request_latency + cfg.after_join + cfg.response_latency
    return (ticks >> TICK_BITS) + min(profile.l2.sm_distance_cycles or (0,))


def gpc_of_each_sm(profile: Profile) -> npt.NDArray[np.int64]:
    """GPCs by SM: whole TPCs, neighbours together, spread evenly; the last GPCs are larger by one where they must."""
    gpu = profile.gpu
    tpcs = -(-gpu.sm_count // gpu.sms_per_tpc)
    least, larger = divmod(tpcs, gpu.gpc_count)
    sizes = [least] * (gpu.gpc_count - larger) + [least + 1] * larger
    return np.repeat(np.arange(gpu.gpc_count), sizes).repeat(gpu.sms_per_tpc)[: gpu.sm_count]


def sms_of_each_cpc(profile: Profile) -> list[npt.NDArray[np.int64]]:
    """The SMs that share a way to L2: those of each CPC, or of each GPC where no CPCs are known.

    A GPU made larger than the profile's has the same CPCs again.
    """
    gpu = profile.gpu
    number = gpc_of_each_sm(profile)
    if gpu.tpc_cpcs is not None:
        again, tpc = np.divmod(np.arange(gpu.sm_count) // gpu.sms_per_tpc, len(gpu.tpc_cpcs))
        number = np.array(gpu.tpc_cpcs)[tpc] + again * (max(gpu.tpc_cpcs) + 1)
    return [np.nonzero(number == cpc)[0] for cpc in np.unique(number)]


def cpc_write_bytes_per_cycle(profile: Profile) -> float:
    """What a CPC's SMs can send: what is known, or all that their ports can."""
    rate = profile.l2.cpc_write_bytes_per_cycle
    return rate or profile.l2.sm_write_bytes_per_cycle * max(map(len, sms_of_each_cpc(profile)))


def memory_state(profile: Profile) -> MemoryState:
    """Closed rows, idle ports, no room for packets yet (`with_room`); `flush` empties the caches.

    SMs are numbered in the order in which they get blocks: those of a TPC are neighbours, and so
    are a GPC's TPCs (microbench_4, `place`).
    """
    cfg, gpu = memory_config(profile), profile.gpu
    slices, channels = cfg.partitions * cfg.slices, cfg.partitions * cfg.channels
    cpcs = sms_of_each_cpc(profile)
    most = max(map(len, cpcs))
    requests = CHUNK * (1 + 2 * 2 * (cfg.ways + 2))  # a fetch; in each of two sets fills and write-backs

    def zeros(*shape: int) -> Int64s:
        return cache_aligned_zeros(shape)

    mem = MemoryState(
        sets=zeros(slices * cfg.sets, cfg.ways),
        slices=zeros(slices, columns.S_COLUMNS),
        sms=zeros(gpu.sm_count, columns.M_COLUMNS),
        cpcs=zeros(len(cpcs), columns.C_FIRST + most),
        responses=zeros(gpu.sm_count + gpu.gpc_count, columns.CALENDAR + 2),
        flight=zeros(cfg.partitions, 1 << columns.FLIGHT_BITS, columns.F_COLUMNS),
        joins=zeros(gpu.gpc_count, 1 << columns.JOIN_BITS, columns.J_COLUMNS),
        opened=zeros(cfg.partitions, 1 << columns.OPENED_BITS, columns.O_COLUMNS),
        channels=zeros(channels, columns.D_COLUMNS),
        banks=zeros(channels, cfg.banks, columns.K_COLUMNS),
        writes=zeros(channels, cfg.write_entries, columns.W_COLUMNS),
        later=zeros(channels, profile.dram.idle_write_entries, columns.L_COLUMNS),
        counts=zeros(len(Mem)),
        slice_busy=zeros(1),
        stretches=zeros(cfg.partitions),
        heads=zeros(most, columns.H_COLUMNS),
        arrive=zeros(0, 0),
        order=zeros(0),
        bucket=zeros(columns.ARRIVAL_BUCKETS + 1),
        batch=zeros(CHUNK + 1, columns.B_COLUMNS),
        touch=zeros(2, columns.T_COLUMNS),
        places=zeros(columns.AHEAD),
        requests=zeros(requests, columns.R_COLUMNS),
        request_count=zeros(1),
        by_channel=zeros(requests),
        channel_start=zeros(channels + 1),
        window=zeros(cfg.read_window),
    )
    for cpc, sms in zip(mem.cpcs, cpcs, strict=True):
        cpc[columns.C_SMS] = len(sms)
        cpc[columns.C_FIRST : columns.C_FIRST + len(sms)] = sms
    gpcs = gpc_of_each_sm(profile)
    mem.sms[:, columns.M_GPC] = gpcs
    partitions = np.resize(profile.l2.gpc_partitions or np.arange(cfg.partitions), gpu.gpc_count)
    mem.sms[:, columns.M_PARTITION] = partitions[gpcs] if cfg.partitions > 1 else 0
    mem.sms[:, columns.M_DISTANCE] = np.resize(profile.l2.sm_distance_cycles or 0, gpu.sm_count) * TICK // 2
    mem.banks[:, :, columns.K_ROW] = -1
    mem.channels[:, columns.D_REFRESH] = cfg.refresh_interval * (1 + np.arange(channels)) // channels  # in turn
    return mem


def with_room(mem: MemoryState, packets: tuple[int, ...]) -> MemoryState:
    """The state with room for steps of so many SMs and packets of each, used or not."""
    if mem.arrive.shape == packets:
        return mem
    return mem._replace(arrive=np.zeros(packets, np.int64), order=np.zeros(math.prod(packets), np.int64))


def flush(mem: MemoryState) -> None:
    """Write all dirty lines back and empty the caches, uncounted."""
    mem.sets.fill(-1)
    mem.channels[:, columns.D_LATER_DONE] = mem.channels[:, columns.D_LATER]
    mem.flight.fill(0)
    mem.joins.fill(0)
    mem.opened.fill(0)
    mem.opened[:, :, columns.O_WHAT] = -1
    for table, line, owner in (
        (mem.flight, columns.F_LINE, columns.F_OWNER),
        (mem.joins, columns.J_WHAT, columns.J_OWNER),
    ):
        table[:, :, line] = -1
        table[:, :, owner] = -1
    empty_write_queues(mem)


def empty_write_queues(mem: MemoryState) -> None:
    """Let the writes that wait at DRAM be done; they were counted when the queues took them."""
    mem.channels[:, columns.D_WRITES] = 0
    mem.channels[:, columns.D_ADMITTED] = 0
    mem.channels[:, columns.D_DEPARTED] = 0


def reset_counts(mem: MemoryState) -> None:
    """Zero all counts and busy times; caches, queues and clocks stay."""
    mem.counts.fill(0)
    mem.slice_busy.fill(0)
    mem.channels[:, columns.D_BUSY] = 0


def channel_busy_cycles(mem: MemoryState) -> Int64s:
    """SM cycles with data on the bus, a DRAM channel; `Mem.DRAM_CYCLES_BUSY` becomes their sum."""
    busy = mem.channels[:, columns.D_BUSY] >> TICK_BITS
    mem.counts[Mem.DRAM_CYCLES_BUSY] = busy.sum()
    return busy
