"""Memory instructions at issue: addresses, checks, data, then the cost in the pipeline and the packets to L2."""

from __future__ import annotations

from sim._jit import inner
from sim.core.access import (
    atomic_passes,
    bank_passes,
    banks_used,
    coalesce,
    group_passes,
    lanes_outside,
    lowest_lane,
    popcount,
)
from sim.core.array_ports import BOTH, READ, WRITE, passes_lost, take_port, take_ports_for
from sim.core.exec_atomic import ADDRESS, apply_atomic, gather_operand, scatter_result
from sim.core.exec_memory import (
    copy_async,
    first_misaligned,
    load,
    load_matrix,
    store,
    store_matrix,
)
from sim.core.front import counted_by, loaded_constant
from sim.core.layout import (
    AG_LEFT,
    AG_TIME,
    B_ID,
    B_SHARED,
    C_ADDRESS,
    C_COPY_EXTRA,
    C_GLOBAL_REQUEST,
    C_HAS_CONTROL,
    C_L1_FILL,
    C_L1_LATENCY,
    C_L1_MISS,
    C_LDSM_EXTRA,
    C_LOAD_READ,
    C_LOCAL_BASE,
    C_LOCAL_BYTES,
    C_LSU_LATENCY,
    C_PACKET,
    C_REGISTER_ROWS,
    C_REPLAY,
    C_SHARED_ATOMIC,
    C_SHARED_BYTES,
    C_SHARED_EXTRA_128,
    C_SHARED_LATENCY,
    C_SHARED_LIMIT,
    C_SHARED_WAVEFRONT,
    C_STORE_64,
    C_STORE_128,
    C_STORE_READ,
    C_TAG,
    C_WIDE_EXTRA_64,
    C_WIDE_EXTRA_128,
    E_ISSUED,
    E_LEFT,
    E_LOW,
    E_NEXT,
    ER_ADDRESS,
    ER_BLOCK,
    ER_CODE,
    ER_LANE,
    ER_PC,
    ER_WARP,
    ER_WIDTH,
    ERROR_GLOBAL_BOUNDS,
    ERROR_LOCAL_BOUNDS,
    ERROR_MISALIGNED,
    ERROR_SHARED_BOUNDS,
    G_BASE,
    G_ENTRY,
    G_FROM,
    G_MASK,
    G_PC,
    G_SECTORS,
    G_TIME,
    G_TO,
    G_WARP,
    GLOBAL_BASE,
    MAX_GROUPS,
    MAX_WARPS,
    NEVER,
    RECORD_TIMES,
    RK_ATOMIC,
    RK_LOAD,
    RK_REDUCTION,
    RK_STORE,
    SB_PENDING,
    SB_REASON,
    SB_TIME,
    SCORE_BITS,
    SCORE_READ,
    SCORE_READY,
    SV_BANKS_FREE,
    SV_FREE_ENTRY,
    SV_GROUP,
    SV_RECORD,
    SV_STRONG,
    SV_TRACE,
    TC_LATENCY,
    TC_REASON,
    TICK,
    W_DRAIN,
    W_GROUP,
    W_INDEX,
    W_PENDING,
    W_SLOT,
)
from sim.core.lsu import (
    keep_stored,
    l1_approach,
    l1_look_up,
    load_lines,
    new_entry,
    shared_stage,
    stay_in_stage,
    through_queue,
)
from sim.core.operands import predicate_mask
from sim.core.record import note
from sim.core.request_queue import merge_store, send
from sim.counters import Inst, Stall, Track
from sim.isa import (
    FLAG_COUNT,
    FLAG_NO_ALLOCATE,
    FLAG_STRONG,
    FLAG_ZERO_FILL,
    Col,
    Op,
    Space,
)

LONG_SCOREBOARD, SHORT_SCOREBOARD = int(Stall.LONG_SCOREBOARD), int(Stall.SHORT_SCOREBOARD)
MEMBAR = int(Stall.MEMBAR)
COPY_TRACK = int(Track.COPY)
REQUESTS, SECTORS, LINES = int(Inst.REQUESTS), int(Inst.SECTORS), int(Inst.LINES)
WAVEFRONTS, IDEAL_WAVEFRONTS, BYTES_ASKED = (
    int(Inst.WAVEFRONTS),
    int(Inst.IDEAL_WAVEFRONTS),
    int(Inst.BYTES_ASKED),
)
SHARED_SPACE, LOCAL_SPACE, CONSTANT_SPACE = int(Space.SHARED), int(Space.LOCAL), int(Space.CONSTANT)
GLOBAL_SPACE, GENERIC_SPACE = int(Space.GLOBAL), int(Space.GENERIC)
OP_LD, OP_ST, OP_ATOM, OP_RED = int(Op.LD), int(Op.ST), int(Op.ATOM), int(Op.RED)
OP_S2R = int(Op.S2R)
OP_LDSM, OP_STSM, OP_LDGSTS = int(Op.LDSM), int(Op.STSM), int(Op.LDGSTS)
OP_LDGDEPBAR, OP_DEPBAR, OP_MEMBAR, OP_CCTL = (
    int(Op.LDGDEPBAR),
    int(Op.DEPBAR),
    int(Op.MEMBAR),
    int(Op.CCTL),
)
COL_OP, COL_CLASS, COL_D, COL_ND = int(Col.OP), int(Col.CLASS), int(Col.D), int(Col.ND)
COL_A, COL_B, COL_C, COL_NA, COL_NB, COL_NC = (
    int(Col.A),
    int(Col.B),
    int(Col.C),
    int(Col.NA),
    int(Col.NB),
    int(Col.NC),
)
COL_X, COL_Y, COL_SPACE, COL_WIDTH, COL_FLAGS = (
    int(Col.X),
    int(Col.Y),
    int(Col.SPACE),
    int(Col.WIDTH),
    int(Col.FLAGS),
)
COL_PA, COL_PD, COL_WBAR, COL_RBAR = int(Col.PA), int(Col.PD), int(Col.WBAR), int(Col.RBAR)
# rows of the work space
ADDR, ADDR2, LINE_LIST, SECTOR_LIST, ASKED_LIST, PARTIAL_LIST, PLACE_LIST, COUNTS, FRAME = range(9)


@inner(inline="always")
def work_space(a, s):
    """Rows for the addresses, lines and so on of the instruction at hand; the SMs that a thread steps share them."""
    return s.work[a.sv[SV_GROUP]]


@inner
def fail(a, s, m, w, pc, code, lane, address, width):
    """Note the first error of this SM; the device raises it."""
    er = a.er
    er[ER_CODE] = code
    er[ER_PC] = pc
    er[ER_BLOCK] = a.bs[a.ws[w, W_SLOT], B_ID]
    er[ER_WARP] = a.ws[w, W_INDEX]
    er[ER_LANE] = lane
    er[ER_ADDRESS] = address
    er[ER_WIDTH] = width


@inner
def allocation_of(s, address, size):
    """The number of the allocation in which `size` bytes from a global address on lie; -1 if there is none."""
    first, last = 0, len(s.starts)
    while first < last:
        middle = (first + last) // 2
        if s.starts[middle] + GLOBAL_BASE <= address:
            first = middle + 1
        else:
            last = middle
    k = first - 1
    return k if k >= 0 and address + size <= s.ends[k] + GLOBAL_BASE else -1


@inner
def check_global(a, s, m, w, pc, addr, mask, width):
    """Whether every active lane's access lies in one allocation each and is aligned; else notes the error.

    An instruction mostly stays in one allocation, so the one it touched last is tried first.
    """
    bad = first_misaligned(addr, mask, width)
    if bad >= 0:
        fail(a, s, m, w, pc, ERROR_MISALIGNED, bad, addr[bad], width)
        return False
    low, high = s.seen[a.sv[SV_GROUP], pc, 0], s.seen[a.sv[SV_GROUP], pc, 1]
    if lanes_outside(addr, mask, low, high - width) == 0:
        return True
    for i in range(32):
        if (mask >> i) & 1 == 0 or (low <= addr[i] and addr[i] + width <= high):
            continue
        k = allocation_of(s, addr[i], width)
        if k < 0:
            fail(a, s, m, w, pc, ERROR_GLOBAL_BOUNDS, i, addr[i], width)
            return False
        low, high = s.starts[k] + GLOBAL_BASE, s.ends[k] + GLOBAL_BASE
        s.seen[a.sv[SV_GROUP], pc, 0], s.seen[a.sv[SV_GROUP], pc, 1] = low, high
    return True


@inner
def check_window(a, s, m, w, pc, addr, mask, width, size, error):
    """Whether every active lane's access lies in a block's (or thread's) window of `size` bytes, aligned."""
    bad = first_misaligned(addr, mask, width)
    if bad >= 0:
        fail(a, s, m, w, pc, ERROR_MISALIGNED, bad, addr[bad], width)
        return False
    outside = lanes_outside(addr, mask, 0, size - width)
    if outside:
        bad = lowest_lane(outside)
        fail(a, s, m, w, pc, error, bad, addr[bad], width)
        return False
    return True


@inner(inline="always")
def rows_read_at(a, s, m, w, pc, time):
    """The sources of a memory instruction may be overwritten from `time` on."""
    code, registers = s.code, s.cfg[C_REGISTER_ROWS]
    if s.cfg[C_HAS_CONTROL]:
        barrier = code[pc, COL_RBAR]
        if barrier < 6:
            a.sb[w, barrier, SB_TIME] = max(a.sb[w, barrier, SB_TIME], time)
            a.sb[w, barrier, SB_REASON] = SHORT_SCOREBOARD
        return
    for first, count in (
        (code[pc, COL_A], code[pc, COL_NA]),
        (code[pc, COL_B], code[pc, COL_NB]),
        (code[pc, COL_C], code[pc, COL_NC]),
    ):
        if first >= 0:
            for r in range(first, min(first + count, registers)):
                a.score[w, r, SCORE_READ] = max(a.score[w, r, SCORE_READ], time)


@inner(inline="always")
def results_known(a, s, m, w, pc, time, reason):
    """The destination registers of a memory instruction are there at `time`."""
    if s.cfg[C_HAS_CONTROL]:
        counted_by(a, w, s.code[pc, COL_WBAR], time, reason)
        return
    d = s.code[pc, COL_D]
    for r in range(d, min(d + s.code[pc, COL_ND], s.cfg[C_REGISTER_ROWS])):
        a.score[w, r, SCORE_READY] = time << SCORE_BITS | reason


@inner(inline="always")
def results_unknown(a, s, m, w, pc):
    """The destination registers of a memory instruction wait for L2."""
    a.ws[w, W_PENDING] += 1
    if s.cfg[C_HAS_CONTROL]:
        barrier = s.code[pc, COL_WBAR]
        if barrier < 6:
            a.sb[w, barrier, SB_PENDING] += 1
            a.sb[w, barrier, SB_REASON] = LONG_SCOREBOARD
        return
    d = s.code[pc, COL_D]
    for r in range(d, min(d + s.code[pc, COL_ND], s.cfg[C_REGISTER_ROWS])):
        a.score[w, r, SCORE_READY] = NEVER << SCORE_BITS | LONG_SCOREBOARD


@inner(inline="always")
def enter(a, s, m, sub, t, passes, duration):
    """Queue, address unit and shared stage; returns (tick it left the sub-core, tick it got the stage).

    The way from a sub-core to the stage and back is 64 bytes wide, so an access of
    several passes keeps its own sub-core for two cycles a pass.
    """
    left = through_queue(a, s, m, sub, t, max(s.cfg[C_ADDRESS], 2 * TICK * passes))
    return left, shared_stage(a, m, sub, left + s.cfg[C_LSU_LATENCY] * TICK, duration)


@inner
def pass_shared_stage(a, s, m, sub, pc, t):
    """A shuffle or another instruction that uses the shared stage without memory; returns when its result is there.

    A thread's number keeps what comes behind it from reading shared memory for a cycle.
    """
    left, start = enter(a, s, m, sub, t, 1, s.cfg[C_SHARED_WAVEFRONT])
    cls = s.code[pc, COL_CLASS]
    if s.code[pc, COL_OP] == OP_S2R:
        take_port(a, READ, BOTH, start // TICK + 1)
    waited = start // TICK - s.cfg[C_LSU_LATENCY] - t
    return t + waited + s.tc[cls, TC_LATENCY]


@inner(inline="always")
def count_access(a, s, pc, sectors, lines, wavefronts, ideal, asked):
    """Add one request to the instruction's counts."""
    count = s.inst[a.sv[SV_GROUP], pc]
    count[REQUESTS] += 1
    count[SECTORS] += sectors
    count[LINES] += lines
    count[WAVEFRONTS] += wavefronts
    count[IDEAL_WAVEFRONTS] += ideal
    count[BYTES_ASKED] += asked


@inner(inline="always")
def sectors_in(sector_list, n):
    """Sectors of `n` lines."""
    total = 0
    for k in range(n):
        total += popcount(sector_list[k])
    return total


@inner
def find_lines(a, s, addr, on, width):
    """The lines of a global or local request, in the work space; returns how many."""
    work = work_space(a, s)
    n = coalesce(addr, on, width, work[LINE_LIST], work[SECTOR_LIST], work[ASKED_LIST], work[PARTIAL_LIST])
    l1_approach(a, s, work[LINE_LIST], n, work[PLACE_LIST])
    return n


@inner(forceinline=True)
def global_cost(a, s, m, sub, pc, addr, on, width, n, t):
    """Pipeline cost of a global or local request of `n` lines; returns (tick at the stage, tick left, passes)."""
    work = work_space(a, s)
    passes, ideal = group_passes(addr, on, width)
    cfg = s.cfg
    line = cfg[C_TAG] if s.code[pc, COL_OP] in (OP_LD, OP_LDGSTS) else cfg[C_PACKET]
    duration = max(cfg[C_GLOBAL_REQUEST], n * line, passes * cfg[C_SHARED_WAVEFRONT])
    left, start = enter(a, s, m, sub, t, passes, duration)
    asked = 0
    for k in range(n):
        asked += work[ASKED_LIST, k]
    count_access(a, s, pc, sectors_in(work[SECTOR_LIST], n), n, max(passes, n), ideal, asked)
    return start, left, passes


@inner(forceinline=True)
def begin_load(a, s, m, w, pc, start, passes, width, n, group, extra, allocate):
    """Look up a load's lines and set when its data is there."""
    cfg, work = s.cfg, work_space(a, s)
    wide = cfg[C_WIDE_EXTRA_64] if width == 8 else (cfg[C_WIDE_EXTRA_128] if width == 16 else 0)
    low = start // TICK - cfg[C_LSU_LATENCY] + cfg[C_L1_LATENCY] + wide + 2 * (passes - 1) + extra
    row = s.code[pc, COL_D] if s.code[pc, COL_ND] > 0 else -1
    entry = new_entry(a, m, w, row, s.code[pc, COL_ND], s.code[pc, COL_WBAR], group, cfg[C_L1_FILL] + wide + extra, low)
    latest = load_lines(
        a, s, m, pc, entry, start, work[LINE_LIST], work[SECTOR_LIST], work[ASKED_LIST], work[PLACE_LIST], n, allocate
    )
    if latest > 0:
        low = max(low, latest + cfg[C_L1_FILL] + wide + extra)
    if group >= 0:
        a.ag[w, group, AG_LEFT] += 1
    if a.en[entry, E_LEFT] > 0:
        a.en[entry, E_LOW] = low
        results_unknown(a, s, m, w, pc)
        return
    if group >= 0 and a.sv[SV_RECORD] == RECORD_TIMES:
        note(a, s, m, COPY_TRACK, 0, w, pc, a.en[entry, E_ISSUED], low)
    a.en[entry, E_NEXT] = a.sv[SV_FREE_ENTRY]
    a.sv[SV_FREE_ENTRY] = entry
    if group >= 0:
        a.ag[w, group, AG_LEFT] -= 1
        a.ag[w, group, AG_TIME] = max(a.ag[w, group, AG_TIME], low)
    results_known(a, s, m, w, pc, low, LONG_SCOREBOARD)


@inner(forceinline=True)
def begin_store(a, s, m, w, pc, start, n, width):
    """Send a store's lines to L2; L1 is written through and keeps them, as loads' (microbench_6, `store_fill`)."""
    cfg, work = s.cfg, work_space(a, s)
    out = start // TICK
    l1_look_up(a, s, work[LINE_LIST], work[SECTOR_LIST], n, work[PLACE_LIST])
    for k in range(n):
        whole = work[SECTOR_LIST, k] & ~work[PARTIAL_LIST, k]
        at = keep_stored(a, s, work[LINE_LIST, k], work[PLACE_LIST, k], whole)
        time = (start + k * cfg[C_PACKET]) // TICK + cfg[C_L1_MISS]
        line, asked = work[LINE_LIST, k], work[ASKED_LIST, k]
        sectors = work[SECTOR_LIST, k] | work[PARTIAL_LIST, k] << 4
        if not merge_store(a, s, w, time, line, sectors, asked):
            send(a, s, m, time, line, sectors, RK_STORE, w, asked, -1, -1)
        take_ports_for(a, s, READ, at, work[SECTOR_LIST, k], time)
        out = time
    a.ws[w, W_DRAIN] = max(a.ws[w, W_DRAIN], out)


@inner
def begin_strong(a, s, m, w, pc, base, addr, on, start, n, width):
    """An atomic, reduction or strong load: performed at L2, in time order, after this step.

    The operands are kept with the packet's time; the memory system's order over all
    SMs is the order in which they are performed.
    """
    work, cfg = work_space(a, s), s.cfg
    op = s.code[pc, COL_OP]
    k = a.sv[SV_STRONG]
    a.sv[SV_STRONG] = k + 1
    reply = s.code[pc, COL_ND] > 0 and op != OP_RED
    kind = RK_LOAD if op == OP_LD else (RK_ATOMIC if reply else RK_REDUCTION)
    entry = -1
    if reply:
        entry = new_entry(a, m, w, s.code[pc, COL_D], s.code[pc, COL_ND], s.code[pc, COL_WBAR], -1, cfg[C_L1_FILL], 0)
    head = a.sg[k]
    head[G_WARP] = w
    head[G_PC] = pc
    head[G_MASK] = on
    head[G_BASE] = base
    head[G_ENTRY] = entry
    head[G_SECTORS] = -1
    head[G_FROM], head[G_TO] = NEVER, 0
    for i in range(32):
        a.sg_data[k, ADDRESS, i] = addr[i]
        if (on >> i) & 1:
            head[G_FROM], head[G_TO] = min(head[G_FROM], addr[i]), max(head[G_TO], addr[i])
    if not cfg[C_REPLAY] and op != OP_LD:
        gather_operand(s.code, pc, s.U[m], base, a.sg_data[k])
    time = 0
    for j in range(n):
        lanes = 0
        for i in range(32):
            if (on >> i) & 1 and addr[i] >> 7 == work[LINE_LIST, j]:
                lanes += 1
        time = (start + j * cfg[C_PACKET]) // TICK + cfg[C_L1_MISS]
        send(a, s, m, time, work[LINE_LIST, j], work[SECTOR_LIST, j], kind, lanes, work[ASKED_LIST, j], -1, entry)
    head[G_TIME] = time
    if entry >= 0:
        results_unknown(a, s, m, w, pc)
    a.ws[w, W_DRAIN] = max(a.ws[w, W_DRAIN], time)


@inner
def overtake(a, s, addr, on, width):
    """Atomics without a result that the SM has yet to perform do nothing to bytes that a later store of its writes."""
    low, high = NEVER, 0
    for i in range(32):
        if (on >> i) & 1:
            low, high = min(low, addr[i]), max(high, addr[i])
    for k in range(a.sv[SV_STRONG]):
        head = a.sg[k]
        if head[G_SECTORS] >= 0 or head[G_ENTRY] >= 0 or head[G_TO] < low or head[G_FROM] > high:
            continue
        size = s.code[head[G_PC], COL_WIDTH]
        for i in range(32):
            at = a.sg_data[k, ADDRESS, i]
            for j in range(32):
                if (on >> j) & 1 and addr[j] <= at and at + size <= addr[j] + width:
                    head[G_MASK] &= ~(1 << i)


@inner(forceinline=True)
def issue_global(a, s, m, sub, w, pc, base, on, t, space):
    """Global and local accesses."""
    code, work = s.code, work_space(a, s)
    op, width, flags = code[pc, COL_OP], code[pc, COL_WIDTH], code[pc, COL_FLAGS]
    addr = work[ADDR]
    if space == LOCAL_SPACE:
        size = s.cfg[C_LOCAL_BYTES]
        if not check_window(a, s, m, w, pc, addr, on, width, size, ERROR_LOCAL_BOUNDS):
            return
        frame = work[FRAME]
        home = GLOBAL_BASE + s.cfg[C_LOCAL_BASE] + (m * MAX_WARPS + w) * 32 * size
        for i in range(32):
            frame[i] = home + i * size + addr[i]
            addr[i] = home + (addr[i] >> 2) * 128 + i * 4
        data_addr = frame
    else:
        if not check_global(a, s, m, w, pc, addr, on, width):
            return
        data_addr = addr
    n = find_lines(a, s, addr, on, width)  # before the data, which give the host time to bring the tags
    strong = space != LOCAL_SPACE and (op == OP_ATOM or op == OP_RED or (op == OP_LD and flags & FLAG_STRONG))
    if not s.cfg[C_REPLAY] and not strong:
        if op == OP_LD:
            load(code, pc, s.U[m], base, on, data_addr, GLOBAL_BASE, s.g8)
        else:
            if a.sv[SV_STRONG] > 0 and space != LOCAL_SPACE:
                overtake(a, s, addr, on, width)
            store(code, pc, s.U[m], base, on, data_addr, GLOBAL_BASE, s.g8)
    start, left, passes = global_cost(a, s, m, sub, pc, addr, on, width, n, t)
    read = s.cfg[C_LOAD_READ] if op == OP_LD else s.cfg[C_STORE_READ]
    if op != OP_LD:
        read += s.cfg[C_STORE_64] if width == 8 else (s.cfg[C_STORE_128] if width == 16 else 0)
    rows_read_at(a, s, m, w, pc, left // TICK + read)
    if strong:
        begin_strong(a, s, m, w, pc, base, addr, on, start, n, width)
    elif op == OP_LD:
        begin_load(a, s, m, w, pc, start, passes, width, n, -1, 0, not flags & FLAG_NO_ALLOCATE)
    else:
        begin_store(a, s, m, w, pc, start, n, width)


@inner(forceinline=True)
def issue_copy(a, s, m, sub, w, pc, base, on, t):
    """LDGSTS: global to shared memory past the registers, in the group being filled."""
    code, work, cfg = s.code, work_space(a, s), s.cfg
    width, flags = code[pc, COL_WIDTH], code[pc, COL_FLAGS]
    shared_addr, addr = work[ADDR], work[ADDR2]
    source = on
    if not cfg[C_REPLAY]:
        if flags & FLAG_ZERO_FILL:
            source = on & predicate_mask(a.preds[w], code[pc, COL_PA])
    else:
        source = 0
        for i in range(32):
            if (on >> i) & 1 and addr[i] >= 0:
                source |= 1 << i
    if not check_window(a, s, m, w, pc, shared_addr, on, width, cfg[C_SHARED_LIMIT], ERROR_SHARED_BOUNDS):
        return
    if not check_global(a, s, m, w, pc, addr, source, width):
        return
    if a.sv[SV_RECORD]:
        row = s.trace_addr[m, a.sv[SV_TRACE] - 1]
        for i in range(32):
            row[32 + i] = addr[i] if (source >> i) & 1 else -1
    if not cfg[C_REPLAY]:
        home = a.bs[a.ws[w, W_SLOT], B_SHARED]
        copy_async(on, source, width, shared_addr, addr, GLOBAL_BASE, s.g8, a.s8[home : home + cfg[C_SHARED_BYTES]])
    group = a.ws[w, W_GROUP] % MAX_GROUPS
    passes, ideal = bank_passes(shared_addr, on, width)
    if source == 0:
        left, start = enter(a, s, m, sub, t, passes, max(cfg[C_GLOBAL_REQUEST], passes * cfg[C_SHARED_WAVEFRONT]))
        n = 0
        count_access(a, s, pc, 0, 0, passes, ideal, 0)
    else:
        n = find_lines(a, s, addr, source, width)
        start, left, passes = global_cost(a, s, m, sub, pc, addr, source, width, n, t)
    rows_read_at(a, s, m, w, pc, left // TICK + cfg[C_STORE_READ])
    begin_load(a, s, m, w, pc, start, passes, width, n, group, cfg[C_COPY_EXTRA], not flags & FLAG_NO_ALLOCATE)


@inner
def matrix_passes(addr, matrices):
    """Passes of ldmatrix or stmatrix: eight 16-byte rows a matrix, one matrix after another."""
    passes = 0
    for k in range(matrices):
        passes += group_passes(addr, 0xFF << (8 * k), 16)[0]
    return passes


@inner(forceinline=True)
def issue_shared(a, s, m, sub, w, pc, base, on, t):
    """Shared-memory accesses: loads, stores, atomics, matrices."""
    code, work, cfg = s.code, work_space(a, s), s.cfg
    op, width = code[pc, COL_OP], code[pc, COL_WIDTH]
    addr = work[ADDR]
    matrices = op == OP_LDSM or op == OP_STSM
    lanes, size = on, width
    if matrices:
        lanes = (1 << (8 * width)) - 1 if width < 4 else 0xFFFFFFFF
        size = 16
    if not check_window(a, s, m, w, pc, addr, lanes, size, cfg[C_SHARED_LIMIT], ERROR_SHARED_BOUNDS):
        return
    home = a.bs[a.ws[w, W_SLOT], B_SHARED]
    if not cfg[C_REPLAY]:
        if op == OP_LD:
            load(code, pc, s.U[m], base, on, addr, -home, a.s8)
        elif op == OP_ST:
            store(code, pc, s.U[m], base, on, addr, -home, a.s8)
        elif op == OP_LDSM:
            load_matrix(code, pc, s.U[m], base, addr, a.s8[home : home + cfg[C_SHARED_BYTES]])
        elif op == OP_STSM:
            store_matrix(code, pc, s.U[m], base, addr, a.s8[home : home + cfg[C_SHARED_BYTES]])
        else:
            data = a.atomic_work
            for i in range(32):
                data[ADDRESS, i] = addr[i]
            gather_operand(code, pc, s.U[m], base, data)
            apply_atomic(code[pc, COL_X], width, on, data, -home, a.s8)
            if op == OP_ATOM:
                scatter_result(code, pc, s.U[m], base, on, data)
    extra = 0
    if matrices:
        passes = matrix_passes(addr, width)
        ideal = width
        extra = cfg[C_LDSM_EXTRA]
    elif op == OP_ATOM or op == OP_RED:
        if code[pc, COL_FLAGS] & FLAG_COUNT:
            passes = bank_passes(addr, on, width)[0]
        else:
            passes = atomic_passes(addr, on, work[COUNTS])
        ideal = 1
        extra = cfg[C_SHARED_ATOMIC] - cfg[C_SHARED_LATENCY]
    else:
        passes, ideal = bank_passes(addr, on, width)
        if width == 16:
            extra = cfg[C_SHARED_EXTRA_128]
        if op == OP_ST:
            # A store's data crosses once a lane, whatever the addresses (microbench_2, `bank`, stride 0).
            passes = max(passes, width // 4)
    duration = passes * cfg[C_SHARED_WAVEFRONT]
    left, start = enter(a, s, m, sub, t, passes, duration)
    port = WRITE if op == OP_ST or op == OP_STSM else READ
    lost = passes_lost(a, port, banks_used(addr, lanes), start // TICK, passes)
    if lost:
        stay_in_stage(a, lost * cfg[C_SHARED_WAVEFRONT])
        duration += lost * cfg[C_SHARED_WAVEFRONT]
    start = max(start, a.sv[SV_BANKS_FREE])
    if a.sv[SV_BANKS_FREE] > t * TICK:  # warpgroup products read the banks, too
        a.sv[SV_BANKS_FREE] = start + duration
    count_access(a, s, pc, 0, 0, passes + lost, ideal, 0)
    if op == OP_ST or op == OP_STSM:
        read = cfg[C_STORE_READ] + (cfg[C_STORE_64] if width == 8 else (cfg[C_STORE_128] if width == 16 else 0))
        rows_read_at(a, s, m, w, pc, left // TICK + read)
        a.ws[w, W_DRAIN] = max(a.ws[w, W_DRAIN], start // TICK + 1)
    else:
        rows_read_at(a, s, m, w, pc, left // TICK + cfg[C_LOAD_READ])
        ready = start // TICK - cfg[C_LSU_LATENCY] + cfg[C_SHARED_LATENCY] + 2 * (passes - 1) + lost + extra
        if op != OP_RED:
            results_known(a, s, m, w, pc, ready, SHORT_SCOREBOARD)


@inner
def issue_constant(a, s, m, w, pc, base, on, t):
    """LDC: a load from the constant banks; if its line is absent, the result waits for it."""
    cls = s.code[pc, COL_CLASS]
    if not s.cfg[C_REPLAY]:
        addr = work_space(a, s)[ADDR]
        if not check_window(a, s, m, w, pc, addr, on, s.code[pc, COL_WIDTH], len(s.bank8), ERROR_LOCAL_BOUNDS):
            return
        load(s.code, pc, s.U[m], base, on, addr, 0, s.bank8)
    if s.constant_line[pc] >= 0:
        t = max(t, loaded_constant(a, s, s.constant_line[pc], t))
    results_known(a, s, m, w, pc, t + s.tc[cls, TC_LATENCY], s.tc[cls, TC_REASON])


@inner
def commit_copies(a, w):
    """What the warp has copied asynchronously since the last such call is a group."""
    a.ws[w, W_GROUP] += 1
    a.ag[w, a.ws[w, W_GROUP] % MAX_GROUPS, AG_TIME] = 0
