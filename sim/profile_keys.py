"""What a hardware profile holds: its sections, keys, units and limits, as plain immutable records.

Each key's type carries the unit that a profile must state and the values that are
possible; `sim.profile` loads files into these records. A comment beside a key says
what it means, where its name does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from annotated_types import Ge, Gt, Lt, MinLen


class Unit(NamedTuple):
    """The unit that a profile file must state for a key."""

    name: str


Count = Annotated[int, Gt(0), Unit("count")]
CountOrZero = Annotated[int, Ge(0), Unit("count")]
Number = Annotated[float, Gt(0), Unit("count")]
Text = Annotated[str, MinLen(1), Unit("text")]
Bytes = Annotated[int, Gt(0), Unit("bytes")]
BytesOrZero = Annotated[int, Ge(0), Unit("bytes")]
Kibibytes = Annotated[int, Gt(0), Unit("KiB")]
Fraction = Annotated[float, Ge(0), Lt(1), Unit("fraction")]
Megahertz = Annotated[float, Gt(0), Unit("MHz")]
Cycles = Annotated[int, Gt(0), Unit("cycles")]
CyclesOrZero = Annotated[int, Ge(0), Unit("cycles")]
MeanCycles = Annotated[float, Gt(0), Unit("cycles")]
MeanCyclesOrZero = Annotated[float, Ge(0), Unit("cycles")]
Nanoseconds = Annotated[float, Gt(0), Unit("ns")]
BytesPerCycle = Annotated[float, Gt(0), Unit("bytes/cycle")]
PerCycle = Annotated[float, Gt(0), Unit("1/cycle")]
FlopsPerCycle = Annotated[float, Gt(0), Unit("flop/cycle/SM")]
FlopsPerCycleOrZero = Annotated[float, Ge(0), Unit("flop/cycle/SM")]
PipeName = Annotated[
    Literal["fma", "fmaheavy", "alu", "fp64", "xu", "uniform", "tensor", "cbu", "lsu", "adu", "fp16"],
    Unit("pipe"),
]


Differences = Annotated[tuple[int, ...], MinLen(1), Unit("cycles")]
Indices = Annotated[tuple[Annotated[int, Ge(0)], ...], MinLen(1), Unit("index")]


@dataclass(frozen=True, slots=True)
class Gpu:
    """Which GPU this is, and its size. Cycles everywhere are the SMs'; rates and latencies hold at `clock_mhz`."""

    name: Text  #: as vendors write it
    architecture: Text  #: its name, such as Hopper
    compute_capability: Text  #: such as 9.0: major.minor
    sm_count: Count  #: that a kernel can use
    gpc_count: Count  #: groups of SMs that share a port of L2's answers
    sms_per_tpc: Count  #: neighbours that get blocks one after the other
    clock_mhz: Megahertz  #: of the SMs; times in cycles become seconds with it
    tpc_cpcs: Indices | None = None  #: of each TPC in order of blocks: a CPC's share a way to L2; else a GPC's do
    tensor_clock_drop: Fraction | None = None  #: of `clock_mhz`, lost while all tensor cores are busy; in proportion
    tensor_clock_own: Fraction | None = None  #: of it, by the use in SMs that have blocks alone


@dataclass(frozen=True, slots=True)
class OccupancyLimits:
    """What bounds the blocks on an SM, and a launch."""

    warp_size: Count  #: threads; the core has 32
    max_warps_per_sm: Count  #: resident at once
    max_threads_per_sm: Count  #: resident at once: the warps' threads
    max_blocks_per_sm: Count  #: resident at once
    max_threads_per_block: Count  #: of a launch; with more it is refused
    max_registers_per_thread: Count  #: 32-bit ones; with more a program is refused
    registers_per_sm: Count  #: 32-bit ones
    registers_per_block: Count  #: 32-bit ones; with more a launch is refused
    register_allocation_unit: Count  #: registers; a warp's are rounded up to it
    warp_allocation_granularity: Count  #: a block's warps are rounded up to it when registers are counted
    shared_per_sm_bytes: Bytes  #: at the largest carve-out
    shared_per_block_bytes: Bytes  #: without opting in
    shared_per_block_optin_bytes: Bytes  #: of a block at most
    shared_allocation_unit_bytes: Bytes  #: a block's share is rounded up to it
    shared_reserved_bytes: BytesOrZero  #: taken by the system from each block's share
    #: sizes of shared memory that the driver chooses from; L1 has the rest
    shared_carveouts_kib: Annotated[tuple[Annotated[int, Ge(0)], ...], MinLen(1), Unit("KiB")]
    max_grid_x: Count  #: blocks
    max_grid_y: Count  #: blocks
    max_grid_z: Count  #: blocks
    max_block_x: Count  #: threads
    max_block_y: Count  #: threads
    max_block_z: Count  #: threads


@dataclass(frozen=True, slots=True)
class Core:
    """Front end of an SM: issue, branches, barriers."""

    subcores: Count  #: each with a scheduler, registers and pipes of its own
    issue_order: Annotated[Literal["gto", "lrr", "oldest_block"], Unit("text")]  #: a launch may choose another
    instruction_buffer_entries: Count  #: decoded instructions a warp holds ahead of issue; not used yet
    branch_stall_cycles: Cycles  #: stall count of a branch, in programs that have none
    branch_latency_cycles: Cycles  #: a taken branch's stall count is over, then the line of its target is asked for
    branch_fetch_cycles: CyclesOrZero  #: its target is asked for, then it can issue, if it is in L0
    cross_pipe_extra_cycles: CyclesOrZero  #: result used by an instruction of another pipe, beyond its latency
    predicate_operand_latency_cycles: Cycles  #: a predicate used as an operand; as a guard it takes [timing.setp]
    barrier_base_cycles: MeanCycles  #: __syncthreads of one warp
    barrier_per_warp_cycles: MeanCyclesOrZero  #: more for each further warp of the block
    exit_cycles: CyclesOrZero  #: EXIT issues, then the warp's slot is free, or its other lanes go on
    unified_l1_kib: Kibibytes  #: L1 and shared memory together


@dataclass(frozen=True, slots=True)
class OpTiming:
    """Where a class of instructions executes and how long it takes."""

    pipe: PipeName  #: where it executes, by Nsight's names
    latency_cycles: Cycles  #: issue to the issue of a dependent instruction
    interval_cycles: MeanCycles  #: the pipe of one sub-core takes one warp instruction in so many cycles
    alternate_pipe: PipeName | None = None  #: second pipe that takes the class as well


@dataclass(frozen=True, slots=True)
class Timing:
    """A row for each `sim.isa.TimingClass` but `LOAD_STORE`, whose timing is `[lsu]`."""

    fp32: OpTiming  #: FADD, FMUL, FFMA
    imad: OpTiming  #: IMAD, IDP4A
    imad_wide: OpTiming  #: IMAD.WIDE, IMAD.HI
    alu: OpTiming  #: IADD3, LOP3, SHF, LEA, PRMT, SEL, FMNMX, I2FP
    setp: OpTiming  #: ISETP, FSETP, HSETP2, PLOP3: what writes a predicate
    fp16: OpTiming  #: HADD2, HMUL2, HFMA2
    fp64: OpTiming  #: DADD, DMUL, DFMA, DSETP
    xu: OpTiming  #: MUFU, POPC, FLO, BREV, FCHK
    convert: OpTiming  #: I2F, F2I, F2F, FRND, I2I
    uniform: OpTiming  #: the uniform datapath: UMOV, UIADD3, ULEA, ...
    branch: OpTiming  #: BRA, BSYNC, CALL, RET, EXIT
    barrier: OpTiming  #: BAR
    s2r: OpTiming  #: S2R, CS2R.32
    tid: OpTiming  #: S2R of a thread's number in its block
    shuffle: OpTiming  #: SHFL, MOVM
    vote: OpTiming  #: VOTE, MATCH, REDUX, R2UR, ELECT
    ldc: OpTiming  #: LDC
    hmma_16816: OpTiming  #: HMMA.16816
    hmma_1688: OpTiming  #: HMMA.1688 and 1684
    imma: OpTiming  #: IMMA
    dmma: OpTiming  #: DMMA
    control: OpTiming  #: NOP, BSSY, WARPSYNC, DEPBAR and other work of the front end
    mov: OpTiming  #: MOV


@dataclass(frozen=True, slots=True)
class Lsu:
    """The way of a memory instruction through the SM. Latencies are issue to dependent issue."""

    queue_entries: Count  #: memory instructions a sub-core holds before its address unit
    address_interval_cycles: MeanCycles  #: address unit of a sub-core
    shared_wavefront_cycles: MeanCycles  #: data stage of the SM, a wavefront
    global_request_cycles: MeanCycles  #: data stage of the SM, a global or local request at least
    tags_per_cycle: PerCycle  #: 128-byte lines looked up
    packets_per_cycle: PerCycle  #: lines of misses, stores and atomics that leave for L2
    request_queue_bytes: Bytes  #: that wait for the SM's port to L2 before no further access issues
    merge_lines: CountOrZero  #: last packets in the queue to L2 that a store of their warp and line goes with
    merge_cycles: CyclesOrZero  #: that a packet stays there at least
    shared_load_latency_cycles: Cycles  #: 32-bit load, no conflict
    shared_atomic_latency_cycles: Cycles  #: one lane an address
    global_hit_latency_cycles: Cycles  #: 32-bit load that hits in L1
    load_64_extra_cycles: CyclesOrZero  #: over a 32-bit load, global or shared
    load_128_extra_cycles: CyclesOrZero  #: over a 32-bit load
    shared_128_extra_cycles: CyclesOrZero  #: over a 32-bit shared load, in place of the line above
    ldmatrix_extra_cycles: CyclesOrZero  #: LDSM.x1 over a shared load; each doubling adds its wavefronts
    async_copy_extra_cycles: CyclesOrZero  #: LDGSTS: data arrives, then it is in shared memory
    load_read_cycles: Cycles  #: sources of a load are free to overwrite
    store_read_cycles: Cycles  #: sources of a 32-bit store are free to overwrite
    store_64_extra_cycles: CyclesOrZero  #: the same for a 64-bit store
    store_128_extra_cycles: CyclesOrZero  #: the same for a 128-bit store
    max_outstanding_requests: Count  #: global load requests of an SM that wait for data
    fence_block_cycles: Cycles  #: MEMBAR.CTA
    fence_gpu_cycles: Cycles  #: MEMBAR.GPU
    fence_gpu_interval_cycles: CyclesOrZero  #: between MEMBAR.GPU of an SM's warps


@dataclass(frozen=True, slots=True)
class Shared:
    """Shared memory's data array."""

    banks: Count  #: words that can be read at once
    bank_bytes: Bytes  #: of a bank's word


@dataclass(frozen=True, slots=True)
class L1:
    """The L1 data cache: what the carve-out leaves of the unified array."""

    line_bytes: Bytes  #: of a tag
    sector_bytes: Bytes  #: what a miss asks L2 for at least
    associativity: Count  #: tags of a set; there is one for each line of the unified array
    reserved_kib: Annotated[int, Ge(0), Unit("KiB")]  #: of the unified array, never holds lines, beside the carve-out
    miss_sectors: Count  #: sectors on their way from L2 at most; not used yet


@dataclass(frozen=True, slots=True)
class Icache:
    """Instruction caches: L0 of a sub-core, L1 of the SM."""

    line_bytes: Bytes  #: of code, 16 an instruction
    l0_bytes: Bytes  #: of a sub-core
    l0_ways: Count  #: lines of a set; the least recently used one leaves
    l1_bytes: Bytes  #: of the SM
    l1_ways: Count  #: the same
    l0_miss_cycles: Cycles  #: from the L1 instruction cache
    l0_line_cycles: MeanCycles  #: from line to line of straight code
    l1_miss_cycles: Cycles  #: from L2
    memory_cycles: Cycles  #: the first time
    prefetch_lines: CountOrZero  #: stream buffer: lines fetched ahead
    launch_bytes: BytesOrZero  #: that a launch brings into every SM
    launch_bytes_per_cycle: BytesPerCycle  #: of these
    launch_cycles: CyclesOrZero  #: the first block starts, then the first of these are there
    launch_lead_bytes: BytesOrZero  #: of these, there when the first block starts
    launch_ahead_cycles: CyclesOrZero  #: that a line of these is under way, so that a miss for it waits


@dataclass(frozen=True, slots=True)
class Constant:
    """The constant caches behind constant-bank operands and LDC."""

    line_bytes: Bytes  #: of a constant bank
    l0_bytes: Bytes  #: operands of fixed-latency instructions; not used yet
    l1_bytes: Bytes  #: of the SM; not used yet
    load_miss_cycles: Cycles  #: a line that a load of constants (LDC) brings into the SM
    miss_cycles: Cycles  #: a line from the second level, a GPC's, where a launch leaves bank 0
    turn_cycles: MeanCycles  #: from one sub-core's line to the next one's
    memory_cycles: Cycles  #: a line that is not there; of no kernel's own bank; not used yet


@dataclass(frozen=True, slots=True)
class L2:
    """The L2 cache and the way to it. Rates are per SM cycle, though the L2 has its own clock."""

    bytes: Bytes  #: of all slices
    clock_mhz: Megahertz  #: of the slices, which take a request a cycle of it
    partitions: Count  #: 1 or 2; a line has its home in one
    slices: Count  #: of all partitions
    line_bytes: Bytes  #: of a tag
    sector_bytes: Bytes  #: of a valid, a dirty bit
    associativity: Count  #: lines of a set
    hit_latency_cycles: Cycles  #: beyond an L1 hit, in the SM's own partition
    far_extra_cycles: CyclesOrZero  #: more when the data is in the other partition
    slice_bytes_per_cycle: BytesPerCycle  #: what a slice answers
    slice_queue_cycles: CyclesOrZero  #: that wait before slices on average; with more, stores leave their SMs slower
    sm_read_bytes_per_cycle: BytesPerCycle  #: L2 to one SM
    sm_write_bytes_per_cycle: BytesPerCycle  #: one SM to L2
    gpc_read_bytes_per_cycle: BytesPerCycle  #: L2 to the SMs of one GPC
    cross_bytes_per_cycle: BytesPerCycle  #: from one partition to the other
    atomic_sector_cycles: MeanCycles  #: a slice takes one atomic sector, distinct addresses
    atomic_same_address_cycles: MeanCycles  #: successive lanes' operations on one word
    atomic_unit_bytes: Bytes  #: neighbours whose atomics one unit does, a power of two
    fetch_bytes: Bytes  #: aligned piece of a line that a miss reads from DRAM
    coalesce_cycles: CyclesOrZero  #: from its look-up on others of its line and GPC join a load; 0: none joins
    coalesce_requests: Count  #: that go to one look-up together at most
    dirty_ways: Count  #: lines are written back when so many of their set were used after them, the last when all were
    dirty_lines: Number  #: of a set that may be dirty, on average
    partial_lines: Number  #: of them those with sectors of which only some bytes were written
    cpc_write_bytes_per_cycle: BytesPerCycle | None = None  #: the SMs of one CPC to L2; else all that they can send
    sm_distance_cycles: Differences | None = None  #: of each SM in order of blocks: a load takes longer than on average
    gpc_partitions: Indices | None = None  #: of each GPC in order of blocks; else in turn


@dataclass(frozen=True, slots=True)
class Dram:
    """The memory behind L2. Nanoseconds are the part's; cycles are the SM's."""

    kind: Text  #: such as HBM3e
    capacity_bytes: Bytes  #: of the GPU; arrays beyond it are refused
    channels: Count  #: independent (pseudo-)channels
    burst_bytes: Bytes  #: least that a channel moves
    peak_gbytes_per_s: Annotated[float, Gt(0), Unit("GB/s")]  #: all channels, nominal
    bank_groups: Count  #: of a channel; bursts of one are tccd_long apart
    banks: Count  #: of a channel, all groups
    row_bytes: Bytes  #: of one bank of one channel
    latency_cycles: CyclesOrZero  #: miss in L2 to the controller and back, beyond the array's own time
    trcd_ns: Nanoseconds  #: row activated, then its first column access
    trp_ns: Nanoseconds  #: precharge, then an activation
    tcl_ns: Nanoseconds  #: column access, then its data
    tras_ns: Nanoseconds  #: activation to precharge
    tccd_short_ns: Nanoseconds  #: column accesses of different bank groups
    tccd_long_ns: Nanoseconds  #: same bank group
    trrd_ns: Nanoseconds  #: activations of a channel
    tfaw_ns: Nanoseconds  #: any four activations of a channel
    twtr_ns: Nanoseconds  #: last write data to read
    trtw_ns: Nanoseconds  #: bus idle between read and write data
    twr_ns: Nanoseconds  #: last write data to precharge
    trefi_ns: Nanoseconds  #: between refreshes
    trfc_ns: Nanoseconds  #: that a refresh takes: all banks of a channel are closed
    interleave_bytes: Bytes  #: consecutive bytes in one row of one channel; the rest of the row is far away in memory
    read_queue_entries: Count  #: lines that a channel chooses from, open rows first
    #: lines that a channel gathers; when full it turns the bus round and writes half of them
    write_queue_entries: Count
    idle_write_entries: Count  #: dirty lines that wait for an idle channel; with more the first are written at once
    settle_cycles: CyclesOrZero  #: after a kernel's end, in which such lines are still written and counted


@dataclass(frozen=True, slots=True)
class LaunchCosts:
    """What starting and ending a kernel costs."""

    blocks_per_cycle: PerCycle  #: whole device, blocks that take the place of finished ones
    fill_blocks_per_cycle: PerCycle  #: whole device, blocks that find an empty SM
    ahead_sms: CountOrZero  #: SMs that a launch fills earlier than the others
    ahead_turns: Count  #: of GPCs from one turn of these SMs to their next
    block_start_cycles: CyclesOrZero  #: block assigned, then its first warp may issue
    block_end_cycles: CyclesOrZero  #: last warp exited, then its resources are free
    launch_cycles: CyclesOrZero  #: kernel starts to count, then the first block is assigned
    drain_cycles: CyclesOrZero  #: last block ended, then the kernel has ended


@dataclass(frozen=True, slots=True)
class LaunchTraffic:
    """What a profiler counts of a launch beside the kernel's own loads and stores."""

    code_reads: CountOrZero  #: of each sector of the kernel's code from L2; once from DRAM
    l2_read_sectors: CountOrZero  #: beside the code
    dram_read_sectors: CountOrZero  #: of them, with empty caches
    dirty_bytes: BytesOrZero  #: of others, that a kernel finds in an L2 that the profiler has emptied


@dataclass(frozen=True, slots=True)
class Wgmma:
    """Warpgroup products. What they take of the tensor pipe comes from `[peak]`, of shared memory from `[shared]`."""

    least_cycles: MeanCycles  #: of the tensor pipe, however few columns
    latency_cycles: Cycles  #: from there to the end of a wait for the product, and one more for each eight columns
    queue_entries: Count  #: products that a sub-core holds, the one under way among them
    release_cycles: Cycles  #: setmaxnreg gives registers back, then its warp goes on and others can have them


@dataclass(frozen=True, slots=True)
class Mbarrier:
    """Barriers in shared memory."""

    arrive_cycles: Cycles  #: an arrival issues, then the barrier has counted it
    wait_cycles: Cycles  #: a wait issues, then its predicate is there if the phase is complete
    wake_cycles: CyclesOrZero  #: the phase completes, then the predicate of one that waited


@dataclass(frozen=True, slots=True)
class Tma:
    """The tensor memory accelerator of an SM."""

    start_cycles: Cycles  #: an instruction issues, then its first packet leaves the SM
    map_cycles: CyclesOrZero  #: a tensor map comes that the unit has not used before
    instruction_cycles: MeanCycles  #: between instructions at least
    bytes_per_cycle: BytesPerCycle  #: of its packets, at most
    end_cycles: CyclesOrZero  #: the last packet is back, then the mbarrier counts it


@dataclass(frozen=True, slots=True)
class Cluster:
    """Thread block clusters: blocks that run together on SMs near each other, and reach each other's shared memory."""

    portable_blocks: Count  #: of a cluster, on any GPU of this kind
    max_blocks: Count  #: of a cluster
    group_sms: Annotated[
        tuple[Annotated[int, Ge(1)], ...], MinLen(1), Unit("count")
    ]  #: SMs that a cluster cannot leave
    barrier_cycles: Cycles  #: the last warp arrives at the cluster's barrier, then those that wait go on
    latency_cycles: Cycles  #: from an SM to another's shared memory, one way
    arrive_cycles: Cycles  #: an arrival at another block's mbarrier leaves its SM, then the barrier has counted it
    store_async_cycles: Cycles  #: a store that brings its bytes' count to another block's mbarrier, likewise
    sector_cycles: MeanCycles  #: a sector on an SM's way to others, and a request without data


@dataclass(frozen=True, slots=True)
class Peak:
    """Most operations a cycle of an SM, dense, multiply and add counted as 2. Zero: no such unit."""

    fp32: FlopsPerCycle  #: FFMA
    fp64: FlopsPerCycle  #: DFMA
    fp16: FlopsPerCycle  #: HFMA2
    tensor_fp16: FlopsPerCycleOrZero  #: with sums of float32
    tensor_bf16: FlopsPerCycleOrZero  #: with sums of float32; wgmma's time comes from it
    tensor_tf32: FlopsPerCycleOrZero  #: with sums of float32
    tensor_fp64: FlopsPerCycleOrZero  #: DMMA
    tensor_int8: FlopsPerCycleOrZero  #: with sums of int32
    tensor_fp8: FlopsPerCycleOrZero  #: with sums of float32


@dataclass(frozen=True, slots=True)
class Sections:
    """All that a profile file holds, a field a TOML table."""

    gpu: Gpu
    occupancy: OccupancyLimits
    core: Core
    timing: Timing
    lsu: Lsu
    shared: Shared
    l1: L1
    icache: Icache
    constant: Constant
    l2: L2
    dram: Dram
    launch: LaunchCosts
    peak: Peak
    launch_traffic: LaunchTraffic | None = None  #: known of few GPUs
    wgmma: Wgmma | None = None  #: units that not every GPU has
    mbarrier: Mbarrier | None = None
    tma: Tma | None = None
    cluster: Cluster | None = None
