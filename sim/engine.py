"""Make the core's arrays and configuration for one launch on one profile, and step them.

This is the only place where a profile's numbers turn into the core's integers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.core import chip, cluster, layout, sm
from sim.core.context import Ctx
from sim.core.execute import contexts
from sim.core.layout import GLOBAL_BASE, Dispatch, Requests, Shared, ticks
from sim.core.link import asynchronous_address, memory_address, needs_asynchronous, needs_memory
from sim.counters import Inst, Stall
from sim.isa import (
    FLAG_STRONG,
    INSTRUCTION_BYTES,
    TMA_CLUSTER,
    TMA_MULTICAST,
    TMA_REDUCE,
    WARP_SIZE,
    Col,
    Op,
    Pipe,
    Space,
    TimingClass,
)
from sim.launch import Dim3, Launch
from sim.memory_system import MemorySystem, gpc_of_each_sm, soonest_answer_cycles
from sim.occupancy import Occupancy, group_sizes
from sim.profile import Profile
from sim.program import Const, Program
from sim.recorder import Recorder

REQUESTS_PER_STEP = 1024  #: packets of one SM the memory system takes in a step; the rest waits for the next
MAX_DEPENDENCES = 48
TENSOR_OPS = (Op.HMMA, Op.IMMA, Op.DMMA, Op.HGMMA)
CLOCK_STEPS_KEPT = 8  #: time steps over which the tensor cores' use is averaged, some 2,000 cycles
WGMMA_COLUMNS_FLOP = 64 * 8 * 16 * 2  #: of eight columns of wgmma m64nNk16
EVERYWHERE = ((-GLOBAL_BASE, 1 << 62),)  #: allocations for a trace, whose addresses may lie anywhere

SHORT = (
    TimingClass.XU, TimingClass.CONVERT, TimingClass.S2R, TimingClass.TID, TimingClass.SHUFFLE, TimingClass.LDC,
)  # fmt: skip


def step_cycles(profile: Profile, clusters: bool = False) -> int:
    """The time step: as long as nothing that one SM does can reach another, or itself through L2, within it.

    Blocks of clusters reach each other sooner. Long steps also keep an SM's state in the host's caches.
    """
    soonest = [soonest_answer_cycles(profile), profile.launch.block_start_cycles + profile.launch.block_end_cycles]
    if clusters and profile.cluster is not None:
        soonest += [profile.cluster.latency_cycles, profile.cluster.barrier_cycles]
    return max(1, min(soonest))


def cluster_groups(profile: Profile) -> list[list[int]]:
    """The SMs that may hold one cluster, group by group; those of a TPC are neighbours."""
    order = list(range(profile.gpu.sm_count))
    return [order[a:b] for a, b in pairwise((0, *accumulate(group_sizes(profile))))] or [order]


def cluster_order(grid: Dim3, cluster: Dim3) -> npt.NDArray[np.int64]:
    """Linear numbers of a grid's blocks, cluster after cluster, in a cluster by rank: x first, then y, z."""
    (x, y, z), (cx, cy, cz) = grid, cluster
    numbers = np.arange(x * y * z, dtype=np.int64).reshape(z // cz, cz, y // cy, cy, x // cx, cx)
    return numbers.transpose(0, 2, 4, 1, 3, 5).reshape(-1)


def pipe_groups(profile: Profile) -> npt.NDArray[np.int64]:
    """By timing class: a number shared by the pipes that forward results to each other, 0 for pipes that do not."""
    groups = {Pipe.FMA: 1, Pipe.FMAHEAVY: 1, Pipe.ALU: 2, Pipe.FP16: 3, Pipe.FP64: 4}
    out = np.zeros(len(TimingClass), np.int64)
    for cls in TimingClass:
        if cls is not TimingClass.LOAD_STORE:
            out[cls] = groups.get(Pipe[getattr(profile.timing, cls.name.lower()).pipe.upper()], 0)
    return out


def timing_table(profile: Profile) -> npt.NDArray[np.int64]:
    """The profile's timing classes as `tc[classes, TC_COLUMNS]`."""
    table = np.zeros((len(TimingClass), layout.TC_COLUMNS), np.int64)
    for cls in TimingClass:
        if cls is TimingClass.LOAD_STORE:
            table[cls] = (Pipe.LSU, -1, profile.lsu.global_hit_latency_cycles, ticks(1), Stall.LONG_SCOREBOARD)
            continue
        row = getattr(profile.timing, cls.name.lower())
        other = -1 if row.alternate_pipe is None else Pipe[row.alternate_pipe.upper()]
        reason = Stall.SHORT_SCOREBOARD if cls in SHORT else Stall.WAIT
        table[cls] = (Pipe[row.pipe.upper()], other, row.latency_cycles, ticks(row.interval_cycles), reason)
    return table


def dependences(program: Program) -> npt.NDArray[np.int16]:
    """`deps[n, 48]`: how many, then which entries of `score` an instruction must find there."""
    code = program.decoded.code
    rows = program.registers + program.uniform_registers
    deps = np.zeros((len(code), MAX_DEPENDENCES), np.int16)
    for out, c in zip(deps, code, strict=True):
        wanted: list[int] = []
        for first, count in ((c[Col.A], c[Col.NA]), (c[Col.B], c[Col.NB]), (c[Col.C], c[Col.NC])):
            if first >= 0:
                wanted += range(first, first + max(count, 1))
        if c[Col.OP] != Op.HGMMA:  # which only WARPGROUP_DEPBAR waits for
            wanted += range(c[Col.D], c[Col.D] + c[Col.ND])
        wanted = [r for r in wanted if r < rows]
        predicates = [c[Col.PA] & 15, c[Col.PB] & 15, c[Col.PD], c[Col.PE]]
        if c[Col.OP] == Op.PLOP3:
            predicates.append(c[Col.Y] & 15)
        wanted += [rows + p for p in predicates if p & 7 != 7]
        if c[Col.GUARD] & 7 != 7:
            wanted.append(rows + 16 + (c[Col.GUARD] & 15))
        wanted = sorted(set(wanted))[: MAX_DEPENDENCES - 1]
        out[0] = len(wanted)
        out[1 : 1 + len(wanted)] = wanted
    return deps


def shared_resources(code: npt.NDArray[np.int32], classes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """What each instruction needs to issue, by decoded code and timing classes, for `Shared.needs`.

    Its pipe and another that does as well (times 16), or a queue: `Pipe.LSU`, `sm.GLOBAL_ACCESS`, `sm.PRODUCT`.
    """
    op, timing = code[:, Col.OP], classes[code[:, Col.CLASS]]
    pipe, other = timing[:, layout.TC_PIPE], timing[:, layout.TC_ALTERNATE]
    accesses = (op >= Op.LD) & (op <= Op.LDGSTS) & (code[:, Col.SPACE] != Space.SHARED)
    queue = np.where(accesses, sm.GLOBAL_ACCESS, Pipe.LSU)
    pipes = np.where(pipe == Pipe.LSU, queue, pipe + 16 * np.where(other >= 0, other, pipe))
    return np.where(op == Op.HGMMA, sm.PRODUCT, pipes)


def constant_lines(program: Program, line_bytes: int) -> npt.NDArray[np.int64]:
    """The line of constant bank 0 that each instruction reads as an operand or by LDC; -1 for none."""
    lines = np.full(len(program.instructions), -1, np.int64)
    for k, i in enumerate(program.instructions):
        for operand in (i.a, i.b, i.c):
            if isinstance(operand, Const) and operand.bank == 0:
                lines[k] = operand.offset // line_bytes
        if i.op is Op.LD and i.space is Space.CONSTANT and i.a is None and i.x == 0:
            lines[k] = i.y // line_bytes
    return lines


def spread_over_gpcs(profile: Profile) -> npt.NDArray[np.int64]:
    """SMs by turns of the GPCs: a TPC of each, then the next TPCs; one SM of all TPCs and then the other.

    Before them come the SMs that are filled ahead, whose TPCs count as a GPC of their own.
    """
    sms, size = np.arange(profile.gpu.sm_count), profile.gpu.sms_per_tpc
    ahead, tpc = sms < profile.launch.ahead_sms, sms // size
    groups = np.where(ahead, -1, gpc_of_each_sm(profile))
    first = np.array([tpc[groups == group].min() for group in groups])
    return np.lexsort((sms, tpc - first, sms % size, ~ahead))


def fill_turns(profile: Profile, blocks: int, slots: int) -> npt.NDArray[np.int64]:
    """[sm, slot]: the place of each slot in the order in which a launch first fills them.

    SM after SM, slot after slot. Of the blocks that go to all SMs alike, the first `launch.ahead_sms` SMs take theirs
    in turns of their own: one whenever `launch.ahead_turns` GPCs have had theirs, the one at the start among them. What
    is left, too few for all SMs, is spread over the GPCs, of which each gets blocks that follow one another
    (microbench_20).
    """
    sms, ahead, between = profile.gpu.sm_count, profile.launch.ahead_sms, profile.launch.ahead_turns
    turns = np.arange(sms * slots, dtype=np.int64).reshape(slots, sms).T
    alike, left = divmod(blocks, sms)
    if alike < slots and left:
        order = spread_over_gpcs(profile)
        turns[:, alike] = alike * sms + np.concatenate([np.sort(order[:left]), order[left:]]).argsort()
    alike = min(alike, slots)
    if alike > 1 and ahead < sms:
        gpc = gpc_of_each_sm(profile)[ahead:]
        gpcs = np.arange(alike)[:, None] * profile.gpu.gpc_count + gpc  # that had their turn before, of each place
        taken = ((gpcs + 1) // between + 1).clip(max=alike)  # turns that the SMs ahead had before
        others = np.arange(len(gpc) * alike).reshape(alike, -1) + taken * ahead
        early = np.setdiff1d(np.arange(sms * alike), others)
        turns[ahead:, :alike] = others.T
        turns[:ahead, :alike] = early.reshape(alike, ahead).T
    return turns


def l1_geometry(profile: Profile, carveout_bytes: int) -> tuple[int, int, int]:
    """(sets, ways, lines) of the L1: tags for the whole unified array, lines of data that a carve-out leaves."""
    array, line = profile.core.unified_l1_kib * 1024, profile.l1.line_bytes
    ways = min(profile.l1.associativity, array // line)
    lines = (array - carveout_bytes - profile.l1.reserved_kib * 1024) // line
    return array // line // ways, ways, max(lines, 1)


def constant_miss(profile: Profile, launch: Launch) -> int:
    """Cycles until a sub-core has a line of constants that is new to it.

    A GPC's cache answers one after another. As a kernel begins all its sub-cores ask at about the same time, again and
    again, so each waits for the others' turns.
    """
    sms = min(launch.blocks, profile.gpu.sm_count)
    subcores = min(profile.core.subcores, -(-launch.threads_per_block // WARP_SIZE))
    turns = sms / profile.gpu.gpc_count * subcores
    return max(profile.constant.miss_cycles, round(turns * profile.constant.turn_cycles))


def configuration(
    profile: Profile, launch: Launch, occupancy: Occupancy, *, shared_bytes: int, local_base: int, order: str
) -> npt.NDArray[np.int64]:
    """The scalars of a launch, `cfg[C_COLUMNS]`.

    A load that misses in L1 spends the same cycles in the SM as one that hits (the
    profile gives L2's latency beyond that): the address unit's, then half of the rest
    on the way out and half on the way back.
    """
    p, program = profile, launch.program
    stage = round(p.lsu.address_interval_cycles)
    sets, ways, lines = l1_geometry(profile, occupancy.shared_carveout_bytes)
    line = p.icache.line_bytes
    shared_limit = program.shared_static_bytes + launch.shared_bytes
    values: dict[int, int] = {
        layout.C_SUBCORES: p.core.subcores,
        layout.C_ISSUE_ORDER: layout.ISSUE_ORDERS.index(order),
        layout.C_REGISTER_ROWS: program.registers + program.uniform_registers,
        layout.C_ROWS: program.rows_per_warp,
        layout.C_SHARED_ROWS: len(program.decoded.shared_rows),
        layout.C_BRANCH: p.core.branch_latency_cycles,
        layout.C_BRANCH_STALL: p.core.branch_stall_cycles,
        layout.C_BRANCH_FETCH: p.core.branch_fetch_cycles,
        layout.C_BARRIER_BASE: round(p.core.barrier_base_cycles * layout.TICK),
        layout.C_BARRIER_STEP: round(p.core.barrier_per_warp_cycles * layout.TICK),
        layout.C_QUEUE: p.lsu.queue_entries,
        layout.C_ADDRESS: ticks(p.lsu.address_interval_cycles),
        layout.C_SHARED_WAVEFRONT: ticks(p.lsu.shared_wavefront_cycles),
        layout.C_GLOBAL_REQUEST: ticks(p.lsu.global_request_cycles),
        layout.C_TAG: ticks(1 / p.lsu.tags_per_cycle),
        layout.C_PACKET: ticks(1 / p.lsu.packets_per_cycle),
        layout.C_SHARED_LATENCY: p.lsu.shared_load_latency_cycles,
        layout.C_L1_LATENCY: p.lsu.global_hit_latency_cycles,
        layout.C_LSU_LATENCY: stage,
        layout.C_L1_MISS: (p.lsu.global_hit_latency_cycles - stage) // 2,
        layout.C_L1_FILL: (p.lsu.global_hit_latency_cycles - stage + 1) // 2,
        layout.C_STORE_READ: p.lsu.store_read_cycles,
        layout.C_LOAD_READ: p.lsu.load_read_cycles,
        layout.C_STORE_64: p.lsu.store_64_extra_cycles,
        layout.C_STORE_128: p.lsu.store_128_extra_cycles,
        layout.C_WIDE_EXTRA_64: p.lsu.load_64_extra_cycles,
        layout.C_WIDE_EXTRA_128: p.lsu.load_128_extra_cycles,
        layout.C_SHARED_EXTRA_128: p.lsu.shared_128_extra_cycles,
        layout.C_LDSM_EXTRA: p.lsu.ldmatrix_extra_cycles,
        layout.C_COPY_EXTRA: p.lsu.async_copy_extra_cycles,
        layout.C_SHARED_ATOMIC: p.lsu.shared_atomic_latency_cycles,
        layout.C_FENCE_BLOCK: p.lsu.fence_block_cycles,
        layout.C_FENCE_GPU: p.lsu.fence_gpu_cycles,
        layout.C_FENCE_INTERVAL: p.lsu.fence_gpu_interval_cycles,
        layout.C_EXIT: max(p.core.exit_cycles, 1),
        layout.C_L1_SETS: sets,
        layout.C_L1_WAYS: ways,
        layout.C_L1_LINES: lines,
        layout.C_L1_APART: p.core.unified_l1_kib * 1024 // 2 // p.l1.line_bytes if shared_limit else lines,
        layout.C_CODE_L0_SETS: max(p.icache.l0_bytes // line // p.icache.l0_ways, 1),
        layout.C_CODE_L0_WAYS: min(p.icache.l0_ways, max(p.icache.l0_bytes // line, 1)),
        layout.C_CODE_L1_SETS: max(p.icache.l1_bytes // line // p.icache.l1_ways, 1),
        layout.C_CODE_L1_WAYS: min(p.icache.l1_ways, max(p.icache.l1_bytes // line, 1)),
        layout.C_CODE_L0_MISS: p.icache.l0_miss_cycles,
        layout.C_CODE_L0_LINE: ticks(p.icache.l0_line_cycles),
        layout.C_CODE_L1_MISS: p.icache.l1_miss_cycles,
        layout.C_CODE_MEMORY: p.icache.memory_cycles,
        layout.C_CODE_LAUNCHED: p.icache.launch_bytes // line,
        layout.C_CODE_LAUNCHED_LINE: ticks(line / p.icache.launch_bytes_per_cycle),
        layout.C_CODE_LAUNCHED_AHEAD: p.icache.launch_ahead_cycles,
        layout.C_CONSTANT_MISS: constant_miss(profile, launch),
        layout.C_CONSTANT_LOAD_MISS: p.constant.load_miss_cycles,
        layout.C_CODE_PREFETCH: p.icache.prefetch_lines,
        layout.C_CODE_SHIFT: max(line // INSTRUCTION_BYTES, 1).bit_length() - 1,
        layout.C_ENTRIES: p.lsu.max_outstanding_requests,
        layout.C_HAS_CONTROL: int(program.has_control),
        layout.C_SHARED_BYTES: shared_bytes,
        layout.C_CLOCK_KHZ: round(p.gpu.clock_mhz * 1000),
        layout.C_SHARED_WINDOW: program.shared_window,
        layout.C_SHARED_LIMIT: shared_limit,
        layout.C_LOCAL_BYTES: program.local_bytes,
        layout.C_LOCAL_BASE: local_base,
        layout.C_BLOCK_X: launch.block[0],
        layout.C_BLOCK_Y: launch.block[1],
        layout.C_BLOCK_Z: launch.block[2],
        layout.C_GRID_X: launch.grid[0],
        layout.C_GRID_Y: launch.grid[1],
        layout.C_GRID_Z: launch.grid[2],
        layout.C_THREADS: launch.threads_per_block,
        layout.C_WARPS: occupancy.warps_per_block,
        layout.C_REGISTERS: -(-program.registers_per_thread // 8) * 8,
        layout.C_INSTRUCTIONS: len(program.instructions),
        layout.C_LOAD_RESERVE: 40,
        layout.C_CLUSTER: math.prod(launch.cluster),
        layout.C_REQUEST_QUEUE: round(2 * p.lsu.request_queue_bytes / p.l2.sector_bytes),
        layout.C_MERGE_LINES: p.lsu.merge_lines,
        layout.C_MERGE_CYCLES: p.lsu.merge_cycles,
        layout.C_HALF_FLIT: ticks(p.l2.sector_bytes / 2 / p.l2.sm_write_bytes_per_cycle),
        layout.C_PREDICATE_OPERAND: p.core.predicate_operand_latency_cycles,
        layout.C_CROSS_PIPE: p.core.cross_pipe_extra_cycles,
    }
    if p.wgmma is not None:
        values |= {
            layout.C_WGMMA_COLUMNS: ticks(WGMMA_COLUMNS_FLOP / p.peak.tensor_bf16),
            layout.C_WGMMA_LEAST: ticks(p.wgmma.least_cycles),
            layout.C_WGMMA_LATENCY: p.wgmma.latency_cycles,
            layout.C_WGMMA_QUEUE: p.wgmma.queue_entries,
            layout.C_RELEASE: p.wgmma.release_cycles,
            layout.C_WGMMA_BANDWIDTH: p.shared.banks * p.shared.bank_bytes,
        }
    if p.mbarrier is not None:
        values |= {
            layout.C_MBARRIER_ARRIVE: p.mbarrier.arrive_cycles,
            layout.C_MBARRIER_WAIT: p.mbarrier.wait_cycles,
            layout.C_MBARRIER_WAKE: p.mbarrier.wake_cycles,
        }
    if p.tma is not None:
        values |= {
            layout.C_TMA_START: p.tma.start_cycles,
            layout.C_TMA_MAP: p.tma.map_cycles,
            layout.C_TMA_INSTRUCTION: ticks(p.tma.instruction_cycles),
            layout.C_TMA_LINE: ticks(p.l1.line_bytes / p.tma.bytes_per_cycle),
            layout.C_TMA_END: p.tma.end_cycles,
        }
    if p.cluster is not None:
        values |= {
            layout.C_CLUSTER_BARRIER: p.cluster.barrier_cycles,
            layout.C_CLUSTER_LATENCY: p.cluster.latency_cycles,
            layout.C_CLUSTER_SECTOR: ticks(p.cluster.sector_cycles),
            layout.C_CLUSTER_ARRIVE: p.cluster.arrive_cycles,
            layout.C_CLUSTER_STORE: p.cluster.store_async_cycles,
        }
    cfg = np.zeros(layout.C_COLUMNS, np.int64)
    for column, value in values.items():
        cfg[column] = value
    return cfg


def sm_records(cfg: npt.NDArray[np.int64], sms: int, program: Program) -> np.recarray[Any, Any]:
    """Fresh state of all SMs; memory is taken only where it is used."""
    st = layout.sm_records(sms)
    st.wake[:] = layout.NEVER
    st.sv[:, layout.SV_NEXT] = layout.NEVER
    st.sv[:, layout.SV_COMPLETION] = layout.NEVER
    st.sc[:, :, layout.SC_NEXT] = layout.NEVER
    st.sc[:, :, layout.SC_LAST] = -1
    entries = int(cfg[layout.C_ENTRIES])
    st.en[:, :entries, layout.E_NEXT] = np.append(np.arange(1, entries), -1)
    st.free_nodes[:] = np.arange(layout.MAX_NODES)
    tags = int(cfg[layout.C_L1_SETS] * cfg[layout.C_L1_WAYS])
    st.l1_tag[:, :tags, layout.TAG_LINE] = -1
    st.ctx[:] = contexts(1, {i.op for i in program.instructions})
    return st


@dataclass(frozen=True)
class Recording:
    """A recorded trace as the core replays it; the fields of `layout.Shared` of the same names."""

    replay: npt.NDArray[np.int64]
    replay_at: npt.NDArray[np.int64]
    replay_addr: npt.NDArray[np.int64]
    replay_addr_at: npt.NDArray[np.int64]
    local_base: int = 0  #: where local memory was, as an offset in global memory


NO_RECORDING = Recording(
    np.zeros((1, layout.T_COLUMNS), np.int64),
    np.zeros(1, np.int64),
    np.zeros((1, 2 * WARP_SIZE), np.int64),
    np.zeros(1, np.int64),
)


def silent() -> np.errstate:
    """A GPU's arithmetic overflows and divides by zero without a word; so does it where it is not compiled."""
    return np.errstate(all="ignore")


def _run_sms(arrays: Any, shared: Shared, first: int, last: int, t0: int, t1: int) -> None:
    with silent():
        sm.run_sms(arrays, shared, first, last, t0, t1)


def thread_bounds(sms: int, threads: int) -> list[int]:
    """First SM of each thread, and the end."""
    return [sms * k // threads for k in range(threads + 1)]


@dataclass
class Engine:
    """One launch in flight: the core's arrays, and what steps them."""

    profile: Profile
    launch: Launch
    memory: MemorySystem
    arrays: np.recarray[Any, Any]  #: a `layout.SM_RECORD` an SM
    shared: Shared
    dispatch: Dispatch
    requests: Requests
    blocks: npt.NDArray[np.int64]
    recorder: Recorder
    threads: int = 1
    pool: ThreadPoolExecutor | None = None
    answered: int = 0  #: the cycle by which all that was sent to the memory system is answered, stores among it
    #: of all SMs, and of those with blocks: how busy the tensor cores were lately, 0 to 1
    tensor_load: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(2))
    tensor_ticks: int = 0  #: their busy time so far, all sub-cores
    nominal_cycles: float = 0.0  #: cycles of the nominal clock that the stepped ones took
    stepped_cycles: int = 0

    def start(self, now: int, *, cold: bool) -> None:
        """Assign the first blocks; nothing starts before cycle `now`. `cold`: L2 holds nothing, code neither."""
        slots = self.dispatch.free.shape[1]
        turns = fill_turns(self.profile, len(self.dispatch.order), slots) if self.clusters == 1 else np.arange(slots)
        self.dispatch.free[:] = now + turns - turns.size  # the order alone counts: the clock of the fill begins now
        self.dispatch.state[layout.D_FILL_CLOCK] = now * layout.TICK
        self._bring_code(now, cold)
        self.assign(now)

    def _bring_code(self, now: int, cold: bool) -> None:
        """The launch brings a kernel's first instructions, as its blocks start, or before if it has run already."""
        cfg, icache = self.shared.cfg, self.profile.icache
        lead = icache.launch_lead_bytes if cold else icache.launch_bytes
        begin = now + self.profile.launch.block_start_cycles
        cfg[layout.C_CODE_LAUNCHED_FROM] = begin - round(lead / icache.launch_bytes_per_cycle)
        cfg[layout.C_CODE_LAUNCHED_FIRST] = begin + icache.launch_cycles
        if not cold:
            cfg[layout.C_CODE_MEMORY] = icache.l1_miss_cycles

    @cached_property
    def clusters(self) -> int:
        """Blocks of a cluster."""
        return math.prod(self.launch.cluster)

    @cached_property
    def keeps_jobs(self) -> bool:
        """Whether an SM may keep jobs for a step's end: for blocks of a cluster, or reductions by TMA."""
        later = TMA_REDUCE | TMA_MULTICAST | TMA_CLUSTER
        return self.clusters > 1 or any(i.op is Op.TMA and i.x & later for i in self.launch.program.instructions)

    @cached_property
    def keeps_strong(self) -> bool:
        """Whether an SM may keep accesses for a step's end: atomics, strong loads, other SMs' shared memory."""
        code = self.launch.program.decoded.code
        strong = np.isin(code[:, Col.OP], (Op.ATOM, Op.RED)) | (code[:, Col.FLAGS] & FLAG_STRONG != 0)
        return self.clusters > 1 or bool(strong.any())

    @cached_property
    def step_cycles(self) -> int:
        """The time step."""
        return step_cycles(self.profile, self.clusters > 1)

    def assign(self, t1: int) -> None:
        """Give free places to the next blocks."""
        assign = chip.assign if self.clusters == 1 else cluster.assign_clusters
        assign(self.arrays, self.shared, self.dispatch, t1)

    def step(self, t0: int, t1: int) -> int:
        """Advance from cycle `t0` to `t1`; returns the cycle at which to step next, `layout.NEVER` at a deadlock."""
        self.run_sms(t0, t1)
        self.exchange(t0, t1)
        if self.recorder.active:
            self.recorder.keep(self.arrays, self.shared)
        return self.next_event(t1)

    def run_sms(self, t0: int, t1: int) -> None:
        """The bound phase: each SM on its own."""
        sms = len(self.arrays)
        if self.pool is None:
            _run_sms(self.arrays, self.shared, 0, sms, t0, t1)
        else:
            bounds = pairwise(thread_bounds(sms, self.threads))
            parts = [self.pool.submit(_run_sms, self.arrays, self.shared, a, b, t0, t1) for a, b in bounds]
            try:
                for part in parts:
                    part.result()
            finally:
                wait(parts)  # no thread goes on alone, not even after Ctrl-C

    def exchange(self, t0: int, t1: int) -> None:
        """The weave phase: what the SMs sent meets in the memory system, in order of time; then new blocks."""
        self._set_clock(t0, t1)
        with silent():
            if self.keeps_strong:
                chip.commit(self.arrays, self.shared, self.dispatch, t0, t1)
            if self.keeps_jobs:
                cluster.do_jobs(self.arrays, self.shared, self.dispatch.peers, t1)
        if chip.collect(self.arrays, self.shared, self.requests, t1):
            self.memory.weave(self.requests, t0, t1)
            self.answered = max(self.answered, int(chip.deliver(self.arrays, self.shared, self.requests)))
        if self.clusters > 1:
            cluster.open_barriers(self.arrays, self.shared, self.dispatch)
        chip.note_ended(self.arrays, self.dispatch, self.blocks)
        self.assign(t1)

    def _set_clock(self, t0: int, t1: int) -> None:
        """The SMs' clock by the tensor cores' use: the memory system's is the same, so its times change in cycles.

        These go by the use in all SMs, as their clocks are on average. How long the launch lasts goes by the clock of
        SMs that have blocks: a part of the drop is theirs, however few they are.
        """
        gpu = self.profile.gpu
        drop, own = gpu.tensor_clock_drop, gpu.tensor_clock_own or 0.0
        if not drop or not self.uses_tensor_cores:
            return
        busy, working = chip.tensor_use(self.arrays, self.dispatch.free.shape[1])
        sms = np.array([len(self.arrays), max(1, working)])
        possible = (t1 - t0) * self.profile.core.subcores * layout.TICK * sms
        self.tensor_load += (
            np.minimum((busy - self.tensor_ticks) / possible, 1.0) - self.tensor_load
        ) / CLOCK_STEPS_KEPT
        self.tensor_ticks = busy
        of_all, of_working = self.tensor_load
        self.memory.set_clock(1 - drop * of_all)
        self.stepped_cycles += t1 - t0
        self.nominal_cycles += (t1 - t0) / (1 - drop * (own * of_working + (1 - own) * of_all))

    @cached_property
    def uses_tensor_cores(self) -> bool:
        """Whether the program has instructions for them."""
        return any(i.op in TENSOR_OPS for i in self.launch.program.instructions)

    @property
    def clock_ratio(self) -> float:
        """The SMs' mean clock, of the nominal one."""
        return self.stepped_cycles / self.nominal_cycles if self.stepped_cycles else 1.0

    def next_event(self, t1: int) -> int:
        """The earliest cycle from `t1` on at which something can happen."""
        return int(chip.next_event(self.arrays, t1))

    @property
    def ended(self) -> bool:
        """Whether every block has ended."""
        return bool(self.dispatch.state[layout.D_ENDED] == self.dispatch.state[layout.D_BLOCKS])

    @property
    def error(self) -> npt.NDArray[np.int64] | None:
        """The first error, by SM, or None."""
        bad = np.flatnonzero(self._errors[:, layout.ER_CODE])
        return np.asarray(self._errors[bad[0]]) if len(bad) else None

    @cached_property
    def _errors(self) -> npt.NDArray[np.int64]:
        """Of each SM, as it goes on: `layout.ER_CODE` and what is known beside."""
        return np.asarray(self.arrays.er)


def constant_memory(
    program: Program, bank: npt.NDArray[np.uint8], others: Mapping[int, npt.NDArray[np.uint8]]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Instructions and constant memory as LDC finds them: the program's banks one behind another, bank 0 first."""
    code = program.decoded.code
    loads = (code[:, Col.OP] == Op.LD) & (code[:, Col.SPACE] == Space.CONSTANT) & (code[:, Col.X] != 0)
    if not loads.any():
        return code, bank
    code, whole, first = code.copy(), [bank], len(bank)
    for number, data in others.items():
        code[loads & (code[:, Col.X] == number), Col.Y] += first
        whole.append(data)
        first += len(data)
    return code, np.concatenate(whole)


def _other_banks(program: Program, variables_at: int) -> dict[int, npt.NDArray[np.uint8]]:
    """Constant banks that come with the program, in whole 16-byte words, with the addresses of its variables."""
    banks = {
        bank: np.frombuffer(data + bytes(-len(data) % 16), np.uint8).copy() for bank, data in program.banks.items()
    }
    for bank, at, offset in program.addresses:
        banks[bank][at : at + 8] = np.array([variables_at + offset], np.uint64).view(np.uint8)
    return banks


def _table(rows: Sequence[Sequence[int]]) -> npt.NDArray[np.int64]:
    """Rows of different lengths, -1 behind the shorter ones."""
    table = np.full((len(rows), max(map(len, rows))), -1, np.int64)
    for line, row in zip(table, rows, strict=True):
        line[: len(row)] = row
    return table


def make_engine(
    profile: Profile,
    launch: Launch,
    occupancy: Occupancy,
    memory: MemorySystem,
    *,
    global_memory: npt.NDArray[np.uint8],
    allocations: Sequence[tuple[int, int]],
    local_base: int,
    bank: npt.NDArray[np.uint8],
    threads: int = 1,
    pool: ThreadPoolExecutor | None = None,
    order: str = "gto",
    recording: Recording | None = None,
    recorder: Recorder | None = None,
    variables_at: int = 0,
    blocks: npt.NDArray[np.int64] | None = None,
) -> Engine:
    """Everything that stepping `launch` needs.

    `global_memory` is the device's flat memory, `allocations` the (first, end) byte
    offsets in it that the kernel may touch, ascending; `bank` is constant bank 0;
    `variables_at` is the address of the program's global variables; `blocks` are those
    that run, in order of their start: all, unless the launch is sampled.
    """
    program = launch.program
    sms = profile.gpu.sm_count
    sampled = blocks is not None
    blocks = cluster_order(launch.grid, launch.cluster) if blocks is None else blocks
    slots = min(occupancy.blocks_per_sm, len(blocks))
    shared_bytes = -(-(program.shared_static_bytes + launch.shared_bytes) // 16) * 16
    cfg = configuration(profile, launch, occupancy, shared_bytes=shared_bytes, local_base=local_base, order=order)
    cfg[layout.C_REPLAY] = int(recording is not None)
    others = _other_banks(program, variables_at)
    shared_rows = program.shared_row_values({0: bank, **others})
    rows = len(shared_rows) + slots * occupancy.warps_per_block * program.rows_per_warp
    registers = layout.zeros((sms, rows, WARP_SIZE), np.uint32)
    registers[:, : len(shared_rows)] = shared_rows
    code, constants = constant_memory(program, bank, others)
    n = len(program.instructions)
    recorder = recorder or Recorder(program)
    records, intervals = recorder.rooms(step_cycles(profile), profile.core.subcores, slots * occupancy.warps_per_block)
    records_of_sms = sm_records(cfg, sms, program)
    for k, (first, last) in enumerate(pairwise(thread_bounds(sms, threads))):
        records_of_sms.sv[first:last, layout.SV_GROUP] = k
    recorder.set_up(records_of_sms)
    tape = recording or NO_RECORDING
    starts = np.array([a for a, _ in allocations] or [0], np.int64)
    ends = np.array([b for _, b in allocations] or [0], np.int64)
    common = Shared(
        U=registers,
        inst=np.zeros((threads, n, len(Inst)), np.int64),
        stall=np.zeros((threads, n, len(Stall)), np.int64),
        seen=np.zeros((threads, n, 2), np.int64),
        work=layout.zeros((threads, 9, 2 * WARP_SIZE)),
        trace=np.zeros((sms, records, layout.T_COLUMNS), np.int64),
        trace_addr=np.zeros((sms, records, 2 * WARP_SIZE), np.int64),
        intervals=np.zeros((sms, intervals, layout.I_COLUMNS), np.int64),
        cfg=cfg,
        tc=timing_table(profile),
        code=code,
        pipe_group=pipe_groups(profile),
        deps=dependences(program),
        needs=shared_resources(code, timing_table(profile)),
        constant_line=constant_lines(program, profile.constant.line_bytes),
        g8=global_memory,
        bank8=constants,
        starts=starts,
        ends=ends,
        replay=tape.replay,
        replay_at=tape.replay_at,
        replay_addr=tape.replay_addr,
        replay_addr_at=tape.replay_addr_at,
    )
    if needs_memory(i.op for i in program.instructions):
        records_of_sms.ctx[:, Ctx.MEMORY] = memory_address(records_of_sms, common)
    if needs_asynchronous(i.op for i in program.instructions):
        records_of_sms.ctx[:, Ctx.ASYNCHRONOUS] = asynchronous_address(records_of_sms, common)
    state = np.zeros(layout.D_COLUMNS, np.int64)
    state[layout.D_BLOCKS] = len(blocks)
    state[layout.D_SLOTS] = slots
    state[layout.D_CLUSTERS] = 1  # 0 is no cluster
    state[layout.D_FILL] = ticks(1 / profile.launch.fill_blocks_per_cycle)
    state[layout.D_REFILL] = ticks(1 / profile.launch.blocks_per_cycle)
    if sampled:  # a block stands for many, which start one by one
        state[layout.D_CREDIT] = state[layout.D_REFILL] * sms
    state[layout.D_START] = profile.launch.block_start_cycles
    state[layout.D_TURNAROUND] = profile.launch.block_end_cycles
    peers = np.zeros((sms, slots, layout.MAX_CLUSTER), np.int64)
    peers[:, :, 0] = np.arange(sms)[:, None] * layout.MAX_SLOTS + np.arange(slots)  # each block alone
    return Engine(
        profile=profile,
        launch=launch,
        memory=memory,
        arrays=records_of_sms,
        shared=common,
        dispatch=Dispatch(
            state,
            np.zeros((sms, slots), np.int64),
            np.zeros((sms, slots), np.int64),
            np.ones((sms, slots), np.int64),
            blocks,
            _table(cluster_groups(profile)),
            peers,
            np.zeros((sms * slots, layout.O_COLUMNS), np.int64),
            np.zeros(sms, np.int64),
            np.zeros(layout.MAX_CLUSTER, np.int64),
        ),
        requests=layout.empty_requests(sms, REQUESTS_PER_STEP, peers),
        blocks=np.zeros((launch.blocks, 3), np.int64),
        recorder=recorder,
        threads=threads,
        pool=pool,
    )
