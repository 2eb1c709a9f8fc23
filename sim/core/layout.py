"""Where the core keeps things: named columns of the state arrays of an SM, and the arrays themselves.

Compiled functions see plain arrays. Each table here is `int64[..., columns]`;
a column's name is a module constant, so that code reads `ws[w, W_PC]`.
Times are SM cycles; resource clocks (`*_FREE`) are ticks of 1/TICK cycle, so
that an issue interval of 1.8 cycles can be had in integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sim.core.context import CTX_SIZE
from sim.counters import SM_COLUMNS
from sim.isa import CONVERGENCE_BARRIERS, PREDICATES, WARP_SIZE
from sim.isa import LOCAL_WINDOW as LOCAL_WINDOW
from sim.isa import SHARED_WINDOW as SHARED_WINDOW
from sim.limits import MAX_CLUSTER as MAX_CLUSTER
from sim.limits import MAX_CODE_LINES as MAX_CODE_LINES
from sim.limits import MAX_CONSTANT_LINES as MAX_CONSTANT_LINES
from sim.limits import MAX_ENTRIES as MAX_ENTRIES
from sim.limits import MAX_L1_LINES as MAX_L1_LINES
from sim.limits import MAX_SHARED_BYTES as MAX_SHARED_BYTES
from sim.limits import MAX_SLOTS as MAX_SLOTS
from sim.limits import MAX_SMS as MAX_SMS
from sim.limits import MAX_SUBCORES as MAX_SUBCORES
from sim.limits import MAX_WARPS as MAX_WARPS

TICK = 16  #: resource-clock ticks a cycle
CACHE_LINE = 64  #: bytes of the host's caches, which what is used together shares
NEVER = 1 << 54  #: a time that has not been set
GLOBAL_BASE = 0x7F00_0000_0000  #: address of the first byte of global memory

READY_COLUMNS = 352  #: 255 registers, 63 uniform registers, 16 predicates twice
MAX_SPLITS = 33  #: diverged parts of one warp: at most 32 besides the running one
FOREIGN_SLOTS = 8  #: further slots of convergence barriers, for parts that join one whose slot others hold
WGMMA_ROWS = 64  #: rows of terms of A: two for each of up to 32 k
PORT_WORDS = 128  #: of a port's calendar, 32 cycles each: further ahead than an answer of DRAM mostly comes
MAX_GROUPS = 16  #: groups of asynchronous copies a warp may have pending

# --- per warp: ws[warps, W_COLUMNS]
(
    # what every issue needs, in one cache line of the host
    W_PC,
    W_MASK,  # active lanes of the running part
    W_SINCE,  # cycles are accounted up to here
    W_REDIRECT,  # fetch restarts here after a taken branch
    W_LINE,  # instruction line that the warp has, or waits for
    W_FETCHED,  # that line is with the warp here
    W_STALL,  # control bits' stall count runs out here
    W_PENDING,  # memory requests without a known return
    W_STATE,  # W_EMPTY, W_LIVE, W_DRAINING
    W_EXITED,  # lanes that have exited (or never existed)
    W_SLOT,  # block slot
    W_INDEX,  # warp in its block
    W_SPLITS,  # parts in the split table
    W_DRAIN,  # stores are out of the SM here
    W_GROUP,  # asynchronous copies: group being filled
    W_TRACE,  # replay: next record
    W_WGMMA,  # wgmma: group being filled
    W_REGISTERS,  # registers a thread that setmaxnreg left it
    W_PHASE,  # arrivals at the cluster's barrier
) = range(19)
W_COLUMNS = 24  # whole cache lines
W_EMPTY, W_LIVE, W_DRAINING = 0, 1, 2
NOT_READY, DRAINING = -1, -2  #: `need` of a warp slot that still waits for something of its own; that drains

# --- split table: sp[warps, MAX_SPLITS, SP_COLUMNS]
SP_PC, SP_MASK, SP_WAIT = range(3)
SP_COLUMNS = 3
# SP_WAIT: runnable; a slot of a convergence barrier, 0..23; + number of the block's barrier; + mask of a WARPSYNC
SP_RUNNABLE, SP_AT_BARRIER, SP_AT_WARPSYNC = -1, 32, 64

# --- control-bit barriers: sb[warps, 6, SB_COLUMNS]
SB_PENDING, SB_TIME, SB_REASON = range(3)
SB_COLUMNS = 4  # a barrier does not straddle cache lines

# --- asynchronous copy groups: ag[warps, MAX_GROUPS, 2]
AG_LEFT, AG_TIME = range(2)

# --- per block slot: bs[slots, B_COLUMNS]
(
    B_LIVE,  # warps not yet drained
    B_THREADS,  # threads that have not exited
    B_ID,  # linear block index
    B_START,
    B_END,
    B_SHARED,  # byte offset of its shared memory in the SM's array
    B_X,
    B_Y,
    B_Z,
    B_POOL,  # registers a thread of a warp that setmaxnreg may still hand out
    B_POOL_FROM,  # when the last of them were given back
    B_CLUSTER,  # number of its cluster, in order of start
    B_RANK,  # of the block in its cluster
    B_EXITED,  # when its last thread exited, NEVER before
    B_ARRIVED,  # threads that are at the cluster's barrier
    B_LAST,  # when the last of them came
    B_PHASE,  # phases of the cluster's barrier that are complete
    B_OPENED,  # when the last of them was
) = range(18)
B_COLUMNS = 18

# --- barriers of a block slot: br[slots, 16, BR_COLUMNS]
BR_ARRIVED, BR_LAST, BR_EXPECTED, BR_KIND, BR_VOTES, BR_RESULT = range(6)  # BR_EXPECTED: threads, 0 the block's
BR_COLUMNS = 6

# --- per sub-core: sc[subcores, SC_COLUMNS]
SC_NEXT, SC_LAST, SC_ADDRESS_FREE, SC_QUEUE, SC_STAYS = range(5)
# SC_QUEUE: instructions that entered the memory queue; SC_STAYS: cycle in which the warp that issued last is preferred
SC_PIPES = 5  # first of 11 pipe clocks, ticks
SC_QUEUE_TIMES = 16  # first of 16 departure times of the memory queue
SC_PRODUCTS = 32  # warpgroup products that issued
SC_PRODUCT_TIMES = 33  # first of 8 times at which one of the latest leaves its queue
SC_COLUMNS = 41

# --- per SM: sv[SV_COLUMNS]
(
    SV_LSU_FREE,  # shared stage, ticks
    SV_BARRIER_FREE,  # barrier unit, ticks
    SV_PACKETS,  # packets queued since the ring was empty
    SV_SENT,  # packets of them that the memory system has taken
    SV_BACKLOG,  # half flits of the others
    SV_FREE_ENTRY,  # head of the free list
    SV_AGE,  # blocks ever started
    SV_LRU,  # L1 use counter
    SV_L1_LINES,  # lines of data that have been given out
    SV_L1_TURN,  # set that gives up a line next
    SV_STRONG,  # strong accesses kept
    SV_STRONG_DONE,
    SV_TRACE,  # records made in this step
    SV_EVENTS,  # blocks that ended in this step
    SV_NODES,  # waiter nodes in use
    SV_NEXT,  # earliest cycle at which anything can happen here
    SV_LAST_PACKET,
    SV_GROUP,  # which of the tables of counts it adds to: one for the SMs that a thread steps
    SV_TMA_FREE,  # TMA unit, ticks
    SV_TMA_PACKETS,  # packets that it made
    SV_TMA_SENT,  # packets of them that the memory system has taken
    SV_BANKS_FREE,  # banks of shared memory, which warpgroup products read beside the shared stage, ticks
    SV_WAITERS,  # warps that wait for an mbarrier
    SV_COMPLETIONS,  # completions that are to come
    SV_COMPLETION,  # the first of them, NEVER if there is none
    SV_RECORD,  # what is recorded: RECORD_NOTHING, RECORD_TRACE, RECORD_TIMES
    SV_INTERVALS,  # intervals recorded in this step
    SV_CLUSTER_FREE,  # way to other SMs' shared memory, ticks
    SV_JOBS,  # jobs kept
    SV_JOBS_DONE,
    SV_ARRIVALS,  # arrivals on mbarriers that wait for copies
    SV_FENCE_FREE,  # cycle from which another fence of the GPU's scope may begin
    SV_PORT,  # its port to L2 has sent all packets, ticks
) = range(33)
SV_COLUMNS = 40
RECORD_NOTHING, RECORD_TRACE, RECORD_TIMES = range(3)  # a trace's rows; these and intervals

# --- waiting entries: en[entries, E_COLUMNS]: a load (or fetch) whose return is not known yet
(
    E_WARP,
    E_ROW,  # first register row, -1 none
    E_COUNT,
    E_BARRIER,  # control-bit barrier, 7 none
    E_LEFT,  # packets still out
    E_TIME,  # latest return
    E_NEXT,
    E_GROUP,
    E_EXTRA,  # cycles from the packet's return to the register
    E_LOW,  # earliest possible completion
    E_PC,  # only where intervals are recorded
    E_ISSUED,  # likewise: cycle of issue
) = range(12)
E_COLUMNS = 12

# --- packets of a step: rq[packets, R_COLUMNS]
(
    R_TIME,  # when it leaves; once it is answered, when the answer is here
    R_LINE,
    R_SECTORS,
    R_KIND,  # and an atomic's lane operations, a store's warp, << OPS_SHIFT
    R_BYTES,
    R_FIRST,  # first entry that waits for it, -1 none
    R_WAITERS,  # head of a list of nodes with the others, -1 none
    R_L1,  # L1 line it fills, -1 none
) = range(8)
R_COLUMNS = 8  # a cache line of the host
OPS_SHIFT = 3
RK_LOAD, RK_STORE, RK_ATOMIC, RK_REDUCTION = range(4)
RING = 2048  #: packets of one SM that wait to be taken or are being answered
MAX_NODES = 8192
NODE_COLUMNS = 2

# --- tags of L1: l1_tag[tags, TAG_COLUMNS]; a set of four is a cache line of the host
TAG_LINE, TAG_USED = range(2)  # line of memory, -1 none; SV_LRU at its latest use << TAG_BITS | its sectors' state
TAG_COLUMNS = 2
TAGS_TOGETHER = 4  # tags that are compared with a line at once
# --- lines of the instruction caches, code_l0[subcores, lines, CODE_COLUMNS] and code_l1; sets lie together
CODE_LINE, CODE_TIME, CODE_USED = range(3)  # its number + 1, 0 none; cycle at which it comes; cycle of its latest use
CODE_COLUMNS = 3
STREAM_LINE, STREAM_TICK = range(2)  # line that comes next into an L0; tick at which the last one came
MAX_PROGRAM_LINES = 8192  # lines of a program that are told apart: 1 MiB
MAX_MAPS = 8  # tensor maps that the TMA unit holds
TAG_BITS = 8
TAG_STATE = (1 << TAG_BITS) - 1  # sectors that have been there for so long that they are in time for any hit
ASKED_SHIFT = 4  # and sectors that are there or on their way

# --- sectors of a tag's line: l1_fill[tags, FILL_COLUMNS]: when those asked for are there; < 0: packet -1-k is out
FILL_COLUMNS = 4

# --- TMA: transfers tr[MAX_TRANSFERS, TR_COLUMNS] and their packets tq[TMA_RING, TQ_COLUMNS]
TR_LEFT, TR_TIME, TR_BARRIER, TR_BYTES, TR_WARP, TR_GROUP, TR_PC, TR_ISSUED, TR_MASK = range(9)
TR_COLUMNS = (
    9  # TR_BARRIER: offset in `s8`, of a multicast in a block's shared memory, -1 none; TR_MASK: blocks by rank
)
MAX_TRANSFERS = 1024
TQ_TIME, TQ_LINE, TQ_SECTORS, TQ_KIND, TQ_BYTES, TQ_TRANSFER = range(6)
TQ_COLUMNS = 6
TMA_RING = 8192
MAX_BOX_LINES = 4096  #: of one instruction: twice what shared memory holds

# --- mbarriers: warps that wait mw[MAX_WAITERS, MW_COLUMNS], and what will be completed cm[MAX_COMPLETIONS, CM_COLUMNS]
MW_WARP, MW_BARRIER, MW_PARITY, MW_PC, MW_LANES = range(5)  # MW_BARRIER: offset in `s8`
MW_COLUMNS = 5
MAX_WAITERS = 256
CM_TIME, CM_BARRIER, CM_BYTES, CM_ARRIVALS, CM_PC, CM_BLOCK, CM_WARP = range(7)  # CM_PC ...: whose arrival, -1 nobody's
CM_COLUMNS = 7
MAX_COMPLETIONS = 2048
# arrivals when a warp's copies so far have come, la[MAX_ARRIVALS, LA_COLUMNS]; LA_GROUP: the last group of them
LA_WARP, LA_GROUP, LA_BARRIER, LA_COUNT, LA_BYTES = range(5)
LA_COLUMNS = 5
MAX_ARRIVALS = 512

# --- jobs of a step, jb[MAX_JOBS, J_COLUMNS]: what an SM does at its end to other SMs, or to global memory in turn
(
    J_KIND,
    J_ISSUED,  # cycle
    J_WARP,
    J_PC,
    J_LANE,
    J_TIME,  # when an mbarrier learns of it
    J_MASK,  # blocks of the cluster, by rank
    J_BARRIER,  # offset in a block's shared memory
    J_ARRIVALS,
    J_BYTES,
    J_SHARED,  # offset in a block's shared memory: TMA's box, what is copied to it
    J_X,  # of the instruction
    J_ADDRESS,  # of a tensor map or of bytes; offset in the own shared memory
    J_COORDINATES,  # first of five
) = range(14)
J_COLUMNS = 18
JOB_ARRIVE, JOB_COPY, JOB_REDUCE, JOB_PUSH = range(4)
MAX_JOBS = 512

# --- strong accesses of a step: sg_head[.., G_COLUMNS] with 32 addresses and data
G_WARP, G_PC, G_MASK, G_BASE, G_ENTRY, G_TIME = range(6)
G_SECTORS = 6  # -1 in global memory
G_FROM, G_TO = 7, 8  # least and greatest address, in global memory
G_COLUMNS = 9
MAX_STRONG = 256

# --- trace records of a step
T_BLOCK, T_WARP, T_PC, T_ACTIVE, T_ON = range(5)
T_COLUMNS = 5

# --- recorded intervals of a step: who was in which state from one cycle to another
I_TRACK, I_SLOT, I_BLOCK, I_WARP, I_STATE, I_PC, I_START, I_END = range(8)  # I_STATE: of Track.WARP, its stall reason
I_COLUMNS = 8

# --- errors: er[ER_COLUMNS]
ER_CODE, ER_PC, ER_BLOCK, ER_WARP, ER_LANE, ER_ADDRESS, ER_WIDTH, ER_TIME = range(8)
ER_COLUMNS = 8
(
    ERROR_NONE,
    ERROR_GLOBAL_BOUNDS,
    ERROR_MISALIGNED,
    ERROR_SHARED_BOUNDS,
    ERROR_UNKNOWN_OPCODE,
    ERROR_LOCAL_BOUNDS,
    ERROR_CONVERGENCE,
    ERROR_TRAP,
    ERROR_MIXED_SPACES,
    ERROR_DESCRIPTOR,  # a tensor map or a matrix descriptor that describes nothing
    ERROR_TENSOR_BOUNDS,  # a tensor map that points outside
    ERROR_BARRIER,  # an mbarrier that was not initialised
    ERROR_WARPGROUP,  # part of a warp at an instruction of whole warps
    ERROR_NO_BLOCK,  # a rank that the cluster does not have
    ERROR_ENDED_BLOCK,  # shared memory of a block whose threads have exited
) = range(15)

# --- configuration: cfg[C_COLUMNS]
(
    C_SUBCORES,
    C_ISSUE_ORDER,  # position in ISSUE_ORDERS
    C_REGISTER_ROWS,  # rows a warp: R registers and uniform registers
    C_ROWS,  # with scratch
    C_SHARED_ROWS,
    C_BRANCH,
    C_BRANCH_STALL,
    C_BRANCH_FETCH,
    C_BARRIER_BASE,
    C_BARRIER_STEP,
    C_QUEUE,
    C_ADDRESS,  # address unit, ticks an instruction
    C_SHARED_WAVEFRONT,  # ticks
    C_GLOBAL_REQUEST,
    C_TAG,  # ticks a tag look-up
    C_PACKET,  # ticks between lines that leave for L2
    C_SHARED_LATENCY,
    C_L1_LATENCY,
    C_L1_MISS,  # shared stage to crossbar
    C_L1_FILL,  # return to register
    C_STORE_READ,
    C_L1_SETS,
    C_L1_WAYS,
    C_L1_LINES,  # that the carve-out leaves; there are tags for the whole array
    C_L1_APART,  # lines that lie in the half of the array without shared memory; they are filled first
    C_CODE_L0_SETS,
    C_CODE_L0_WAYS,
    C_CODE_L1_SETS,
    C_CODE_L1_WAYS,
    C_CODE_L0_MISS,
    C_CODE_L0_LINE,  # ticks from line to line into L0
    C_CODE_L1_MISS,  # from L2, where code is that another line has taken the place of
    C_CODE_MEMORY,  # the first time
    C_CODE_LAUNCHED,  # lines that the launch brings
    C_CODE_LAUNCHED_FROM,  # cycle at which it brought the first; the others follow
    C_CODE_LAUNCHED_FIRST,  # cycle before which none is there
    C_CODE_LAUNCHED_LINE,  # ticks from line to line
    C_CODE_LAUNCHED_AHEAD,  # cycles that one of them is under way
    C_CONSTANT_MISS,
    C_CONSTANT_LOAD_MISS,
    C_CODE_PREFETCH,
    C_CODE_SHIFT,  # an instruction line holds 1 << C_CODE_SHIFT instructions
    C_ENTRIES,
    C_HAS_CONTROL,
    C_REPLAY,
    C_SHARED_BYTES,  # of a block, rounded up
    C_LOCAL_BYTES,  # of a thread
    C_LOCAL_BASE,  # offset of local memory in global memory
    C_BLOCK_X,
    C_BLOCK_Y,
    C_BLOCK_Z,
    C_GRID_X,
    C_GRID_Y,
    C_GRID_Z,
    C_THREADS,  # a block
    C_WARPS,  # a block
    C_INSTRUCTIONS,
    C_L1_PORT,  # ticks a packet to the crossbar
    C_SHARED_ATOMIC,
    C_GLOBAL_BYTES,
    C_SLOT_COUNT,
    C_LSU_LATENCY,  # cycles from the address unit to the shared stage
    C_WIDE_EXTRA_64,
    C_WIDE_EXTRA_128,
    C_SHARED_EXTRA_128,
    C_LDSM_EXTRA,
    C_COPY_EXTRA,
    C_STORE_64,
    C_STORE_128,
    C_LOAD_READ,
    C_FENCE_BLOCK,
    C_FENCE_GPU,
    C_EXIT,
    C_LOAD_RESERVE,  # free packets that a load must find
    C_REQUEST_QUEUE,  # half flits that wait for the port at most when another access issues
    C_HALF_FLIT,  # ticks of the SM's request port
    C_PREDICATE_OPERAND,  # cycles to a predicate's use as an operand (a guard waits for the class's latency)
    C_CROSS_PIPE,  # cycles more when a result is used by another pipe
    C_SHARED_LIMIT,  # shared memory that a block asked for, bytes
    C_CLOCK_KHZ,
    C_SHARED_WINDOW,  # offset in the shared window of a block's first byte
    C_WGMMA_COLUMNS,  # ticks that wgmma takes of the tensor pipe for eight columns of B
    C_WGMMA_LEAST,  # ticks that wgmma takes of the tensor pipe at least
    C_WGMMA_LATENCY,  # cycles from the end of its time there to its group's completion, one more for eight columns
    C_WGMMA_QUEUE,  # products that a sub-core holds
    C_WGMMA_BANDWIDTH,  # bytes of shared memory a cycle
    C_MBARRIER_ARRIVE,  # cycles from the shared stage to the barrier's change
    C_RELEASE,  # cycles until registers that setmaxnreg gives back are there for others
    C_MBARRIER_WAIT,  # cycles from issue to the predicate of a wait that need not wait
    C_MBARRIER_WAKE,  # cycles from the change to the predicate of one that waited
    C_TMA_START,  # cycles from issue to the first packet
    C_TMA_MAP,  # cycles until a tensor map is there that the unit has not used before
    C_TMA_INSTRUCTION,  # ticks between instructions at least
    C_TMA_LINE,  # ticks a packet
    C_TMA_END,  # cycles from the last packet's return to the change of the mbarrier
    C_REGISTERS,  # registers a thread that the launch gave
    C_CLUSTER,  # blocks of a cluster
    C_CLUSTER_BARRIER,  # cycles from the last arrival at the cluster's barrier to the end of its phase
    C_CLUSTER_LATENCY,  # cycles to another SM's shared memory
    C_CLUSTER_SECTOR,  # ticks a sector on an SM's way to others'
    C_CLUSTER_ARRIVE,  # cycles from an arrival's leaving to the change of another block's mbarrier
    C_CLUSTER_STORE,  # cycles from a store's leaving to the change of the mbarrier that counts its bytes
    C_FENCE_INTERVAL,  # cycles between fences of the GPU's scope
    C_MERGE_LINES,  # packets last queued that a store may go with
    C_MERGE_CYCLES,  # that one stays before it leaves
) = range(105)
C_COLUMNS = 105

ISSUE_ORDERS = ("gto", "lrr", "oldest_block")  #: rules by which a sub-core chooses among warps that can issue

# --- timing classes: tc[classes, TC_COLUMNS]
TC_PIPE, TC_ALTERNATE, TC_LATENCY, TC_INTERVAL, TC_REASON = range(5)  # TC_INTERVAL in ticks
TC_COLUMNS = 5

# --- registers and predicates: score[warps, READY_COLUMNS, 2]
SCORE_READY, SCORE_READ = range(2)
# SCORE_READY: (when it is there) << SCORE_BITS | pipe group of its maker << KIND_BITS | stall reason of waiting for it
# SCORE_READ: when its last reader has read it
KIND_BITS = 5
KIND_PIPE = 1 << KIND_BITS
SCORE_BITS = 8


# --- block scheduler: DispatchArrays.state[D_COLUMNS]
(
    D_NEXT,  # next block to start
    D_BLOCKS,
    D_ENDED,
    D_SLOTS,  # block slots an SM
    D_FILL,  # ticks between blocks that find an empty slot
    D_REFILL,  # ticks between blocks that follow another
    D_FILL_CLOCK,
    D_REFILL_CLOCK,
    D_START,  # cycles from assignment to the first issue
    D_TURNAROUND,  # cycles from a block's end to its slot being free
    D_CREDIT,  # ticks by which blocks that follow others may start earlier than their rate says, after a pause
    D_CLUSTERS,  # clusters ever started
    D_GROUP,  # the group of SMs whose turn it is
) = range(13)
D_COLUMNS = 13


# --- a slot that waits for a block: Dispatch.open[n, O_COLUMNS]
O_FREE, O_SM, O_SLOT = range(3)  # O_FREE: cycle from which it is free
O_COLUMNS = 3


class Dispatch(NamedTuple):
    """The block scheduler's state."""

    state: npt.NDArray[np.int64]
    busy: npt.NDArray[np.int64]  # [sm, slot]
    free: npt.NDArray[np.int64]  # [sm, slot]: free from this cycle on
    fresh: npt.NDArray[np.int64]  # [sm, slot]: no block yet
    order: npt.NDArray[
        np.int64
    ]  # the blocks that run, in order of their start; a cluster's one behind another, by rank
    groups: npt.NDArray[np.int64]  # [group, n]: SMs that may hold one cluster, -1 behind the last
    peers: npt.NDArray[np.int64]  # [sm, slot, rank]: blocks of a block's cluster: SM * MAX_SLOTS + slot
    open: npt.NDArray[np.int64]  # [sm * slot, O_COLUMNS] work space: slots that wait for a block
    soonest: npt.NDArray[np.int64]  # [sm] work space: when its first free slot was free
    mates: npt.NDArray[np.int64]  # [rank] work space: blocks of a cluster that starts


class Requests(NamedTuple):
    """A step's packets as the memory system takes them: [sm, packets]."""

    n: npt.NDArray[np.int64]  # [sm]
    time: npt.NDArray[np.int64]
    line: npt.NDArray[np.int64]
    sectors: npt.NDArray[np.int64]
    kind: npt.NDArray[np.int64]
    ops: npt.NDArray[np.int64]
    asked: npt.NDArray[np.int64]
    done: npt.NDArray[np.int64]
    unit: npt.NDArray[np.int64]  # 0: of the SM's ring; 1: of its TMA unit
    others: npt.NDArray[
        np.int64
    ]  # block slot << MAX_CLUSTER | blocks of its cluster, by rank, whose SMs get the answer too
    peers: npt.NDArray[np.int64]  # that of Dispatch
    free: npt.NDArray[np.int64]  # [sm] cycle from which the port takes the next; the memory system says


def empty_requests(sms: int, packets: int, peers: npt.NDArray[np.int64]) -> Requests:
    """Room for a step's packets: of each, all but the time lies in one cache line of the host."""
    time, columns = np.zeros((sms, packets), np.int64), zeros((sms, packets, CACHE_LINE // 8))
    line, sectors, kind, ops, asked, done, unit, others = np.moveaxis(columns, 2, 0)
    n, free = np.zeros((2, sms), np.int64)
    return Requests(n, time, line, sectors, kind, ops, asked, done, unit, others, peers, free)


def _record(
    fields: Sequence[tuple[str, npt.DTypeLike, tuple[int, ...]]], seldom: Set[str], records: int
) -> tuple[np.dtype[np.void], int]:
    """A record whose fields begin with cache lines of the host, and how far it is from one to the next of an array.

    In an array of up to `records`, the fields `seldom` lie behind the others of all records, or the host would give
    memory to those that a program does not use: it gives it in pieces that are larger than a record.
    """
    kinds = {name: np.dtype((kind, shape)) for name, kind, shape in fields}
    offsets, ends = dict.fromkeys(kinds, 0), [0, 0]
    for name, kind in kinds.items():
        offsets[name] = ends[name in seldom]
        ends[name in seldom] += -(-kind.itemsize // CACHE_LINE) * CACHE_LINE
    step = max(ends)
    offsets |= {name: offsets[name] + records * step for name in seldom}
    layout = {
        "names": list(kinds),
        "formats": list(kinds.values()),
        "offsets": list(offsets.values()),
        "itemsize": (records + 1) * step,
    }
    return np.dtype(layout, align=True), step  # type: ignore[call-overload]


SM_RECORD, SM_STEP = _record(
    [
        ("preds", np.int64, (MAX_WARPS, PREDICATES)),
        ("ws", np.int64, (MAX_WARPS, W_COLUMNS)),
        ("wake", np.int64, (MAX_SUBCORES, MAX_WARPS // MAX_SUBCORES)),  # cycle of a warp slot's next look
        (
            "need",
            np.int64,
            (MAX_SUBCORES, MAX_WARPS // MAX_SUBCORES),
        ),  # `needs` of its instruction, or NOT_READY
        ("why", np.int64, (MAX_SUBCORES, MAX_WARPS // MAX_SUBCORES)),  # stall reason of its cycles since W_SINCE
        ("passed_over", np.int64, (MAX_SUBCORES, MAX_WARPS // MAX_SUBCORES)),  # of them, cycles that are not selected
        (
            "age",
            np.int64,
            (MAX_SUBCORES, MAX_WARPS // MAX_SUBCORES),
        ),  # `sm.BLOCK_AGES` a block in order of launch
        ("sp", np.int64, (MAX_WARPS, MAX_SPLITS, SP_COLUMNS)),
        ("cb", np.int64, (MAX_WARPS, CONVERGENCE_BARRIERS + FOREIGN_SLOTS)),  # lanes a convergence barrier waits for
        ("foreign", np.int64, (MAX_WARPS, FOREIGN_SLOTS)),  # number of the convergence barrier in a further slot
        (
            "score",
            np.int64,
            (MAX_WARPS, READY_COLUMNS, 2),
        ),  # registers, predicates as operands, as guards; unused where control bits say what to wait for
        ("sb", np.int64, (MAX_WARPS, 6, SB_COLUMNS)),
        ("ag", np.int64, (MAX_WARPS, MAX_GROUPS, 2)),
        ("wg", np.int64, (MAX_WARPS, MAX_GROUPS)),  # when a group of wgmma is complete
        ("bs", np.int64, (MAX_SLOTS, B_COLUMNS)),
        ("br", np.int64, (MAX_SLOTS, 16, BR_COLUMNS)),
        ("sc", np.int64, (MAX_SUBCORES, SC_COLUMNS)),
        ("sv", np.int64, (SV_COLUMNS,)),
        ("sm", np.int64, (SM_COLUMNS,)),  # counts, by sim.counters.Sm
        ("er", np.int64, (ER_COLUMNS,)),
        ("ctx", np.int64, (CTX_SIZE,)),  # what special registers read (`core.context.Ctx`)
        ("en", np.int64, (MAX_ENTRIES, E_COLUMNS)),
        ("free_nodes", np.int64, (MAX_NODES,)),  # from SV_NODES on: numbers of nodes that are not in use
        ("nodes", np.int64, (MAX_NODES, NODE_COLUMNS)),  # waiter nodes: entry, next
        ("rq", np.int64, (RING, R_COLUMNS)),
        ("l1_tag", np.int64, (MAX_L1_LINES + TAGS_TOGETHER - 1, TAG_COLUMNS)),
        ("l1_fill", np.int64, (MAX_L1_LINES, FILL_COLUMNS)),
        ("l1_data", np.int64, (MAX_L1_LINES,)),  # number of a tag's line of data
        ("ports", np.int64, (2, 2, PORT_WORDS)),  # [READ or WRITE, lower or upper banks]: calendars of `array_ports`
        ("code_l0", np.int64, (MAX_SUBCORES, MAX_CODE_LINES, CODE_COLUMNS)),
        ("code_l1", np.int64, (MAX_CODE_LINES, CODE_COLUMNS)),
        ("code_seen", np.uint8, (MAX_PROGRAM_LINES,)),  # 1: the SM has had the line
        ("code_stream", np.int64, (MAX_SUBCORES, 2)),
        ("constant", np.int64, (MAX_SUBCORES, MAX_CONSTANT_LINES)),  # when a line is there (0: absent)
        ("constant_loads", np.int64, (MAX_CONSTANT_LINES,)),  # the same for LDC
        ("sg", np.int64, (MAX_STRONG, G_COLUMNS)),
        ("sg_data", np.int64, (MAX_STRONG, 4, WARP_SIZE)),  # as `exec_atomic` lays an atomic's operands out
        ("atomic_work", np.int64, (4, WARP_SIZE)),
        ("scratch", np.int64, (9, 64)),  # work space of `tma`
        ("maps", np.int64, (MAX_MAPS, 2)),  # tensor maps that the TMA unit has fetched: address, when
        ("terms", np.uint32, (WGMMA_ROWS, WARP_SIZE)),  # work space of `exec_wgmma`
        ("tr", np.int64, (MAX_TRANSFERS, TR_COLUMNS)),
        ("tq", np.int64, (TMA_RING, TQ_COLUMNS)),
        ("mw", np.int64, (MAX_WAITERS, MW_COLUMNS)),
        ("cm", np.int64, (MAX_COMPLETIONS, CM_COLUMNS)),
        ("la", np.int64, (MAX_ARRIVALS, LA_COLUMNS)),
        ("jb", np.int64, (MAX_JOBS, J_COLUMNS)),
        ("s8", np.uint8, (MAX_SHARED_BYTES,)),  # shared memory of the resident blocks
    ],
    seldom={"score", "sg", "sg_data", "tr", "tq", "mw", "cm", "la", "jb", "scratch"},
    records=MAX_SMS,
)
"""One SM. A compiled function gets a record by its address, so calls cost the same however much it holds."""


class Shared(NamedTuple):
    """What depends on the program, or is read by all SMs."""

    U: npt.NDArray[np.uint32]  # registers [sm, rows, 32]: rows that warps share, then warps' rows
    inst: npt.NDArray[np.int64]  # counts [group, instructions, len(Inst)]
    stall: npt.NDArray[np.int64]  # [group, instructions, len(Stall)]
    seen: npt.NDArray[np.int64]  # [group, instructions, 2]: bounds of the allocation that an instruction last touched
    work: npt.NDArray[np.int64]  # [group, 9, 64]: addresses, lines, sectors, ... of a memory instruction
    trace: npt.NDArray[np.int64]  # [sm, records, T_COLUMNS] of this step
    trace_addr: npt.NDArray[np.int64]  # [sm, records, 64]
    intervals: npt.NDArray[np.int64]  # [sm, intervals, I_COLUMNS] of this step
    cfg: npt.NDArray[np.int64]
    tc: npt.NDArray[np.int64]
    code: npt.NDArray[np.int32]
    pipe_group: npt.NDArray[np.int64]  # by timing class: pipes that forward to each other; 0: none
    deps: npt.NDArray[np.int16]  # [instructions, 48]: count, then indices into `score` it touches
    needs: npt.NDArray[np.int64]  # [instructions]: what of an SM's shared resources (`engine.shared_resources`)
    constant_line: npt.NDArray[np.int64]  # constant line an instruction reads, -1 none
    g8: npt.NDArray[np.uint8]  # global memory
    bank8: npt.NDArray[np.uint8]  # constant bank 0
    starts: npt.NDArray[np.int64]  # allocations of global memory, ascending: byte offsets
    ends: npt.NDArray[np.int64]
    replay: npt.NDArray[np.int64]  # [records, T_COLUMNS], warps' records together, in order
    replay_at: npt.NDArray[np.int64]  # first record of each warp of each block, and the end
    replay_addr: npt.NDArray[np.int64]  # [memory records, 32]
    replay_addr_at: npt.NDArray[np.int64]  # row of replay_addr a record has, -1 none


def zeros(shape: Sequence[int], dtype: npt.DTypeLike = np.int64) -> npt.NDArray[Any]:
    """`np.zeros` that begins with a cache line of the host, which arrays of whole pages do not."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    raw = np.zeros(size + CACHE_LINE, np.uint8)
    skip = -raw.ctypes.data % CACHE_LINE
    return raw[skip : skip + size].view(kind).reshape(shape)


def sm_records(sms: int) -> np.recarray[Any, Any]:
    """Records of SMs, all zero."""
    memory = zeros(((sms - 1) * SM_STEP + SM_RECORD.itemsize,), np.uint8)
    return np.ndarray((sms,), SM_RECORD, memory, strides=(SM_STEP,)).view(np.recarray)


def ticks(cycles: float) -> int:
    """Cycles as resource-clock ticks, at least one."""
    return max(1, round(cycles * TICK))
