"""Instructions of asynchronous units at issue: warpgroup products, mbarriers, TMA, registers that change hands."""

from __future__ import annotations

from sim._jit import inner
from sim.core.access import lowest_lane, popcount
from sim.core.distributed import issue_remote_store
from sim.core.exec_wgmma import block_offset, warpgroup_product
from sim.core.layout import (
    B_POOL,
    B_POOL_FROM,
    B_RANK,
    B_SHARED,
    C_CLUSTER,
    C_CLUSTER_ARRIVE,
    C_CLUSTER_SECTOR,
    C_LSU_LATENCY,
    C_MBARRIER_ARRIVE,
    C_MBARRIER_WAIT,
    C_RELEASE,
    C_SHARED_LIMIT,
    C_SHARED_WAVEFRONT,
    C_SHARED_WINDOW,
    C_SUBCORES,
    C_WGMMA_BANDWIDTH,
    C_WGMMA_COLUMNS,
    C_WGMMA_LATENCY,
    C_WGMMA_LEAST,
    ERROR_BARRIER,
    ERROR_MISALIGNED,
    ERROR_NO_BLOCK,
    ERROR_SHARED_BOUNDS,
    ERROR_UNKNOWN_OPCODE,
    ERROR_WARPGROUP,
    J_ARRIVALS,
    J_BARRIER,
    J_BYTES,
    J_LANE,
    J_MASK,
    J_TIME,
    JOB_ARRIVE,
    LA_BARRIER,
    LA_BYTES,
    LA_COUNT,
    LA_GROUP,
    LA_WARP,
    MAX_GROUPS,
    NEVER,
    RECORD_TIMES,
    SC_PIPES,
    SC_PRODUCT_TIMES,
    SC_PRODUCTS,
    SV_ARRIVALS,
    SV_BANKS_FREE,
    SV_CLUSTER_FREE,
    SV_JOBS,
    SV_RECORD,
    TC_LATENCY,
    TICK,
    W_EXITED,
    W_GROUP,
    W_INDEX,
    W_PENDING,
    W_REGISTERS,
    W_SLOT,
    W_WGMMA,
)
from sim.core.mbarrier import (
    change,
    copies_complete,
    is_initialised,
    parity_of,
    predicate_known,
    put_word,
    wait,
    will_complete,
    word_of,
)
from sim.core.memory_issue import commit_copies, count_access, enter, fail, results_known, rows_read_at
from sim.core.operands import predicate_mask, row_of, write_predicate
from sim.core.record import note
from sim.core.tma import OFFSET_MASK, issue_tma, keep_job, operand_word
from sim.core.wake import arrive_at_cluster, rouse
from sim.counters import Sm, Stall, Track
from sim.isa import (
    CLUSTER_SHIFT,
    FULL_MASK,
    MBARRIER_REMOTE,
    WGMMA_A_MN_MAJOR,
    WGMMA_A_REGISTERS,
    WGMMA_B_MN_MAJOR,
    WGMMA_COMMIT,
    Col,
    MbarrierOp,
    Op,
    Pipe,
)
from sim.limits import MAX_PRODUCTS

OP_HGMMA, OP_ARRIVE, OP_MBARRIER, OP_TMA = int(Op.HGMMA), int(Op.WARPGROUP_ARRIVE), int(Op.MBARRIER), int(Op.TMA)
OP_PRODUCTS_COMMIT = int(Op.WARPGROUP_COMMIT)
OP_COMMIT, OP_SETMAXREG, OP_ELECT = int(Op.TMA_COMMIT), int(Op.SETMAXREG), int(Op.ELECT)
OP_DEPBAR, OP_CLUSTER_ARRIVE, OP_CLUSTER_WAIT = (
    int(Op.WARPGROUP_DEPBAR),
    int(Op.CLUSTER_ARRIVE),
    int(Op.CLUSTER_WAIT),
)
OP_COPY_ARRIVE, OP_REMOTE_STORE = int(Op.COPY_ARRIVE), int(Op.REMOTE_STORE)
MB_INIT, MB_ARRIVE, MB_ARRIVE_EXPECT, MB_EXPECT, MB_COMPLETE = (
    int(MbarrierOp.INIT),
    int(MbarrierOp.ARRIVE),
    int(MbarrierOp.ARRIVE_EXPECT),
    int(MbarrierOp.EXPECT),
    int(MbarrierOp.COMPLETE),
)
MB_DROP, MB_TRY, MB_TEST, MB_INVALIDATE = (
    int(MbarrierOp.ARRIVE_DROP),
    int(MbarrierOp.TRY_WAIT),
    int(MbarrierOp.TEST_WAIT),
    int(MbarrierOp.INVALIDATE),
)
COL_OP, COL_CLASS, COL_D, COL_ND = int(Col.OP), int(Col.CLASS), int(Col.D), int(Col.ND)
COL_A, COL_B, COL_C = int(Col.A), int(Col.B), int(Col.C)
COL_NA, COL_NB, COL_NC = int(Col.NA), int(Col.NB), int(Col.NC)
COL_X, COL_Y, COL_PA, COL_PD = int(Col.X), int(Col.Y), int(Col.PA), int(Col.PD)
TENSOR = int(Pipe.TENSOR)
PIPE = int(Sm.PIPE)
TENSOR_TRACK = int(Track.TENSOR)
DISPATCH_STALL, SHORT_SCOREBOARD = int(Stall.DISPATCH_STALL), int(Stall.SHORT_SCOREBOARD)
WARPS_A_GROUP = 4
A_BYTES = 64 * 32  #: of a warpgroup's A in shared memory, an instruction
COLUMN_BYTES = 32  #: of a column of B
WORD_BYTES = 8  #: of an mbarrier


@inner
def descriptor_of(s, m, operand, base, lane):
    """A 64-bit matrix descriptor from two registers."""
    return operand_word(s, m, operand, base, lane, 0) | operand_word(s, m, operand, base, lane, 1) << 32


@inner
def operand_place(a, s, m, w, pc, descriptor, blocks, mn_major):
    """The offset in the block's shared memory at which a matrix begins; -1 after an error."""
    at = ((descriptor & 0x3FFF) << 4) - s.cfg[C_SHARED_WINDOW]
    end = at + block_offset(blocks - 1, descriptor, mn_major) + 16
    if at < 0 or end > s.cfg[C_SHARED_LIMIT]:
        fail(a, s, m, w, pc, ERROR_SHARED_BOUNDS, 0, at, end - at)
        return -1
    return at


@inner
def issue_product(a, s, m, sub, w, pc, base, on, t):
    """HGMMA: computed now; the tensor pipe of the warp's sub-core and the shared memory's port are taken in time."""
    code, cfg = s.code, s.cfg
    x = code[pc, COL_X]
    blocks = x & 63
    if on != FULL_MASK:
        fail(a, s, m, w, pc, ERROR_WARPGROUP, lowest_lane(~on & FULL_MASK), 0, 0)
        return
    a_at = a_descriptor = 0
    if not x & WGMMA_A_REGISTERS:
        a_descriptor = descriptor_of(s, m, code[pc, COL_A], base, 0)
        a_at = operand_place(a, s, m, w, pc, a_descriptor, 8, x & WGMMA_A_MN_MAJOR)
    b_descriptor = descriptor_of(s, m, code[pc, COL_B], base, 0)
    b_at = operand_place(a, s, m, w, pc, b_descriptor, blocks, x & WGMMA_B_MN_MAJOR)
    if a_at < 0 or b_at < 0:
        return
    add = predicate_mask(a.preds[w], code[pc, COL_PA]) & 1
    warpgroup_product(
        s.U[m], row_of(code[pc, COL_D], base), row_of(code[pc, COL_A], base), a.ws[w, W_INDEX] % WARPS_A_GROUP,
        a_at, a_descriptor, b_at, b_descriptor, a.bs[a.ws[w, W_SLOT], B_SHARED], a.s8, x, add, a.terms,
    )  # fmt: skip
    moved = blocks * 8 * COLUMN_BYTES + (0 if x & WGMMA_A_REGISTERS else A_BYTES)
    reading = moved * TICK // cfg[C_WGMMA_BANDWIDTH]
    busy = max(blocks * cfg[C_WGMMA_COLUMNS], reading, cfg[C_WGMMA_LEAST])
    start = max(t * TICK, a.sc[sub, SC_PIPES + TENSOR])
    a.sc[sub, SC_PIPES + TENSOR] = start + busy
    a.sm[PIPE + TENSOR] += busy
    # The four warps of a group read B together, each its rows of A.
    a.sv[SV_BANKS_FREE] = max(a.sv[SV_BANKS_FREE], t * TICK) + reading // WARPS_A_GROUP
    if a.sv[SV_RECORD] == RECORD_TIMES:
        note(a, s, m, TENSOR_TRACK, 0, w, pc, start // TICK, (start + busy) // TICK)
    n = a.sc[sub, SC_PRODUCTS]
    a.sc[sub, SC_PRODUCT_TIMES + n % MAX_PRODUCTS] = (start + busy) // TICK + cfg[C_WGMMA_LATENCY]
    a.sc[sub, SC_PRODUCTS] = n + 1
    end = (start + busy) // TICK + cfg[C_WGMMA_LATENCY] + blocks
    group = a.ws[w, W_WGMMA] % MAX_GROUPS
    a.wg[w, group] = max(a.wg[w, group], end)
    if x & WGMMA_A_REGISTERS:
        rows_read_at(a, s, m, w, pc, (start + busy) // TICK)
    if x & WGMMA_COMMIT:
        commit_products(a, w)


@inner
def commit_products(a, w):
    """What the warp's products were since the last such call is a group."""
    a.ws[w, W_WGMMA] += 1
    a.wg[w, a.ws[w, W_WGMMA] % MAX_GROUPS] = 0


@inner
def barrier_address(s, m, pc, base, lane):
    """An mbarrier's offset in shared memory, below the rank of its block in the cluster."""
    at = (operand_word(s, m, s.code[pc, COL_A], base, lane, 0) if s.code[pc, COL_NA] else 0) + s.code[pc, COL_Y]
    if s.code[pc, COL_NC]:
        at += operand_word(s, m, s.code[pc, COL_C], base, lane, 0)
    return at


@inner
def barrier_place(a, s, m, w, pc, base, lane):
    """An mbarrier's offset in the SM's shared memory; -1 after an error."""
    at = barrier_address(s, m, pc, base, lane) & OFFSET_MASK
    if at % WORD_BYTES != 0:
        fail(a, s, m, w, pc, ERROR_MISALIGNED, lane, at, WORD_BYTES)
        return -1
    if at + WORD_BYTES > s.cfg[C_SHARED_LIMIT]:
        fail(a, s, m, w, pc, ERROR_SHARED_BOUNDS, lane, at, WORD_BYTES)
        return -1
    return at + a.bs[a.ws[w, W_SLOT], B_SHARED]


@inner
def lanes_like(s, m, pc, base, on, lane):
    """The lanes of `on` that have the addresses of `lane`."""
    if s.code[pc, COL_NA] == 0:
        return on
    row, same = row_of(s.code[pc, COL_A], base), 0
    for i in range(32):
        if (on >> i) & 1 and s.U[m, row, i] == s.U[m, row, lane]:
            same |= 1 << i
    return same


@inner
def counted(s, m, pc, base, lanes, kind):
    """(arrivals, bytes that they expect, arrivals that are dropped) of `lanes`."""
    arrivals = more = dropped = 0
    for i in range(32):
        if (lanes >> i) & 1:
            value = operand_word(s, m, s.code[pc, COL_B], base, i, 0) if s.code[pc, COL_NB] else 1
            if kind == MB_ARRIVE:
                arrivals += value
            elif kind == MB_ARRIVE_EXPECT:
                arrivals += 1
                more += value
            elif kind == MB_EXPECT:
                more += value
            elif kind == MB_COMPLETE:
                more -= value
            else:
                arrivals += 1
                dropped += 1
    return arrivals, more, dropped


@inner
def count_at(a, s, m, w, pc, base, lanes, kind, at, time):
    """The arrivals and bytes of `lanes`, which have one barrier."""
    arrivals, more, dropped = counted(s, m, pc, base, lanes, kind)
    before = word_of(a.s8, at)
    if s.code[pc, COL_ND]:
        row = row_of(s.code[pc, COL_D], base)
        for i in range(32):
            if (lanes >> i) & 1:
                s.U[m, row, i] = before & 0xFFFFFFFF
                s.U[m, row + 1, i] = (before >> 32) & 0xFFFFFFFF
    code = change(a, s, m, at, arrivals, more, dropped, time)
    if code != 0:
        fail(a, s, m, w, pc, code, lowest_lane(lanes), at - a.bs[a.ws[w, W_SLOT], B_SHARED], WORD_BYTES)


@inner
def arrive_remotely(a, s, m, w, pc, base, lanes, kind, at, t, leaves):
    """SYNCS.ARRIVE.RED in cycle `t`: arrivals and bytes of `lanes` leave for the mbarrier at `at` of the cluster."""
    lane, rank, offset = lowest_lane(lanes), at >> CLUSTER_SHIFT, at & OFFSET_MASK
    if rank < 0 or rank >= s.cfg[C_CLUSTER]:
        fail(a, s, m, w, pc, ERROR_NO_BLOCK, lane, rank, WORD_BYTES)
        return
    if offset % WORD_BYTES != 0:
        fail(a, s, m, w, pc, ERROR_MISALIGNED, lane, offset, WORD_BYTES)
        return
    if offset + WORD_BYTES > s.cfg[C_SHARED_LIMIT]:
        fail(a, s, m, w, pc, ERROR_SHARED_BOUNDS, lane, offset, WORD_BYTES)
        return
    arrivals, more, _ = counted(s, m, pc, base, lanes, kind)
    begin = max(leaves * TICK, a.sv[SV_CLUSTER_FREE])
    a.sv[SV_CLUSTER_FREE] = begin + s.cfg[C_CLUSTER_SECTOR]
    job = a.jb[a.sv[SV_JOBS]]
    job[J_LANE] = lane
    job[J_MASK] = 1 << rank
    job[J_BARRIER] = offset
    job[J_ARRIVALS] = arrivals
    job[J_BYTES] = -more
    job[J_TIME] = begin // TICK + s.cfg[C_CLUSTER_ARRIVE]
    keep_job(a, w, pc, t, JOB_ARRIVE, job)


@inner
def issue_copy_arrival(a, s, m, w, pc, base, on, t):
    """ARRIVES.LDGSTSBAR: an mbarrier learns when the warp's copies so far have come; they are a group from here on."""
    group, todo = a.ws[w, W_GROUP], on
    commit_copies(a, w)
    when = copies_complete(a, w, group)
    while todo != 0:
        lane = lowest_lane(todo)
        lanes = lanes_like(s, m, pc, base, todo, lane)
        todo &= ~lanes
        at = barrier_place(a, s, m, w, pc, base, lane)
        if at < 0:
            return
        counts_bytes, n = s.code[pc, COL_X] != 0, popcount(lanes)
        came, arrivals = (n, 0) if counts_bytes else (0, n)
        if when != NEVER:
            will_complete(a, at, max(t, when) + s.cfg[C_MBARRIER_ARRIVE], came, arrivals)
            continue
        entry = a.la[a.sv[SV_ARRIVALS]]
        entry[LA_WARP] = w
        entry[LA_GROUP] = group
        entry[LA_BARRIER] = at
        entry[LA_COUNT] = arrivals
        entry[LA_BYTES] = came
        a.sv[SV_ARRIVALS] += 1
        a.ws[w, W_PENDING] += 1


@inner
def issue_mbarrier(a, s, m, sub, w, pc, base, on, t):
    """SYNCS: through the memory queue and the shared stage, one pass."""
    cfg, code = s.cfg, s.code
    kind, remote = code[pc, COL_X] & 15, code[pc, COL_X] & MBARRIER_REMOTE
    rank = a.bs[a.ws[w, W_SLOT], B_RANK]
    left, start = enter(a, s, m, sub, t, 1, cfg[C_SHARED_WAVEFRONT])
    rows_read_at(a, s, m, w, pc, left // TICK + 1)
    count_access(a, s, pc, 0, 0, 1, 1, 0)
    stage = start // TICK - cfg[C_LSU_LATENCY]
    todo, true = on, 0
    whole = lanes_like(s, m, pc, base, on, lowest_lane(on)) == on
    waits = False
    while todo != 0:
        lane = lowest_lane(todo)
        lanes = lanes_like(s, m, pc, base, todo, lane)
        todo &= ~lanes
        at = barrier_address(s, m, pc, base, lane)
        if remote and at >> CLUSTER_SHIFT != rank:
            arrive_remotely(a, s, m, w, pc, base, lanes, kind, at, t, stage)
            if a.er[0] != 0:
                return
            continue
        at = barrier_place(a, s, m, w, pc, base, lane)
        if at < 0:
            return
        if kind == MB_INIT:
            put_word(a.s8, at, descriptor_of(s, m, code[pc, COL_B], base, lane))
        elif kind == MB_INVALIDATE:
            put_word(a.s8, at, 0)
        elif kind == MB_TRY or kind == MB_TEST:
            word = word_of(a.s8, at)
            if not is_initialised(word):
                fail(a, s, m, w, pc, ERROR_BARRIER, lane, at - a.bs[a.ws[w, W_SLOT], B_SHARED], WORD_BYTES)
                return
            parity = operand_word(s, m, code[pc, COL_B], base, lane, 0) >> 31 if code[pc, COL_NB] else 0
            if parity_of(word) != parity:
                true |= lanes
            elif kind == MB_TRY and whole:
                wait(a, s, m, w, pc, at, parity, on)
                waits = True
        else:
            count_at(a, s, m, w, pc, base, lanes, kind, at, stage + cfg[C_MBARRIER_ARRIVE])
            if a.er[0] != 0:
                return
    if kind == MB_TRY or kind == MB_TEST:
        if not waits:
            write_predicate(a.preds[w], code[pc, COL_PD], true, on)
            predicate_known(a, s, w, pc, stage + cfg[C_MBARRIER_WAIT])
    else:
        results_known(a, s, m, w, pc, stage + cfg[C_MBARRIER_WAIT], SHORT_SCOREBOARD)


@inner
def set_registers(a, s, sub, w, pc, t):
    """USETMAXREG: a warp gives registers to its block's pool, or takes them from there.

    It issues when there are enough, so code that asks again and again asks once. One that gives waits until others
    can have them.
    """
    b, wanted = a.ws[w, W_SLOT], s.code[pc, COL_X]
    more = wanted - a.ws[w, W_REGISTERS]
    a.bs[b, B_POOL] -= more
    a.ws[w, W_REGISTERS] = wanted
    if more < 0:
        end = t + s.cfg[C_RELEASE]
        a.bs[b, B_POOL_FROM] = end
        rouse(a, s, b, end)
        slot = w // s.cfg[C_SUBCORES]
        a.why[sub, slot] = DISPATCH_STALL
        a.wake[sub, slot] = end
    write_predicate(a.preds[w], s.code[pc, COL_PD], FULL_MASK, FULL_MASK)
    predicate_known(a, s, w, pc, t + s.tc[s.code[pc, COL_CLASS], TC_LATENCY])


@inner(forceinline=True)
def issue_asynchronous(a, s, m, sub, w, pc, base, on, t):
    """Dispatch an instruction of `on` lanes; on an error ER_CODE is set."""
    op = s.code[pc, COL_OP]
    if on == 0 or op == OP_ARRIVE or op == OP_DEPBAR:
        return
    if op == OP_HGMMA:
        issue_product(a, s, m, sub, w, pc, base, on, t)
    elif op == OP_MBARRIER:
        issue_mbarrier(a, s, m, sub, w, pc, base, on, t)
    elif op == OP_TMA:
        issue_tma(a, s, m, w, pc, base, on, t)
    elif op == OP_PRODUCTS_COMMIT:
        commit_products(a, w)
    elif op == OP_COMMIT:
        commit_copies(a, w)
    elif op == OP_SETMAXREG:
        set_registers(a, s, sub, w, pc, t)
    elif op == OP_ELECT:
        write_predicate(a.preds[w], s.code[pc, COL_PD], on & -on, on)
        predicate_known(a, s, w, pc, t + s.tc[s.code[pc, COL_CLASS], TC_LATENCY])
    elif op == OP_CLUSTER_ARRIVE:
        if on | a.ws[w, W_EXITED] != FULL_MASK:
            fail(a, s, m, w, pc, ERROR_WARPGROUP, lowest_lane(~on & FULL_MASK), 0, 0)
            return
        arrive_at_cluster(a, s, w, on, t)
    elif op == OP_COPY_ARRIVE:
        issue_copy_arrival(a, s, m, w, pc, base, on, t)
    elif op == OP_REMOTE_STORE:
        issue_remote_store(a, s, m, sub, w, pc, base, on, t)
    elif op != OP_CLUSTER_WAIT:
        fail(a, s, m, w, pc, ERROR_UNKNOWN_OPCODE, lowest_lane(on), 0, 0)
