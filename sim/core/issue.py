"""Issue of one warp instruction: execute its lanes, take its resources, say when its results are there."""

from __future__ import annotations

import numpy as np

from sim._jit import inner
from sim.core.access import lowest_lane, popcount
from sim.core.control import (
    arrived_at,
    drop_part,
    forget,
    join,
    leave,
    meet,
    put_aside,
    slot_of,
    take_runnable,
)
from sim.core.execute import execute
from sim.core.front import approach, counted_by
from sim.core.layout import (
    B_ID,
    B_RANK,
    B_THREADS,
    B_X,
    B_Y,
    B_Z,
    BR_ARRIVED,
    BR_EXPECTED,
    BR_KIND,
    BR_LAST,
    BR_RESULT,
    BR_VOTES,
    C_BARRIER_BASE,
    C_BARRIER_STEP,
    C_BLOCK_X,
    C_BLOCK_Y,
    C_BLOCK_Z,
    C_BRANCH,
    C_BRANCH_STALL,
    C_CLOCK_KHZ,
    C_CODE_SHIFT,
    C_EXIT,
    C_GRID_X,
    C_GRID_Y,
    C_GRID_Z,
    C_HAS_CONTROL,
    C_INSTRUCTIONS,
    C_PREDICATE_OPERAND,
    C_REGISTER_ROWS,
    C_REPLAY,
    C_ROWS,
    C_SHARED_ROWS,
    C_SUBCORES,
    C_WARPS,
    DRAINING,
    ER_CODE,
    ERROR_TRAP,
    ERROR_UNKNOWN_OPCODE,
    KIND_PIPE,
    NEVER,
    NOT_READY,
    READY_COLUMNS,
    RECORD_TIMES,
    SC_NEXT,
    SC_PIPES,
    SCORE_BITS,
    SCORE_READY,
    SP_AT_BARRIER,
    SP_AT_WARPSYNC,
    SP_MASK,
    SP_RUNNABLE,
    SP_WAIT,
    SV_BARRIER_FREE,
    SV_GROUP,
    SV_RECORD,
    T_ACTIVE,
    T_ON,
    T_PC,
    TC_ALTERNATE,
    TC_INTERVAL,
    TC_LATENCY,
    TC_PIPE,
    TC_REASON,
    TICK,
    W_DRAIN,
    W_DRAINING,
    W_EXITED,
    W_INDEX,
    W_LINE,
    W_LIVE,
    W_MASK,
    W_PC,
    W_REDIRECT,
    W_SINCE,
    W_SLOT,
    W_SPLITS,
    W_STALL,
    W_STATE,
    W_TRACE,
)
from sim.core.link import issue_asynchronous, issue_memory
from sim.core.memory_issue import fail, pass_shared_stage
from sim.core.operands import predicate_mask, row_of, write_predicate
from sim.core.record import note, record
from sim.core.rows import prefetch
from sim.core.wake import threads_exit
from sim.counters import Inst, Sm, Stall, Track
from sim.isa import BRANCH_ANY, FULL_MASK, WARP_SIZE, Col, Op, Pipe, Space

SELECTED, NOT_SELECTED = int(Stall.SELECTED), int(Stall.NOT_SELECTED)
BARRIER, WAIT = int(Stall.BARRIER), int(Stall.WAIT)
DRAIN, MEMBAR, SLEEPING = int(Stall.DRAIN), int(Stall.MEMBAR), int(Stall.SLEEPING)
SHORT_SCOREBOARD = int(Stall.SHORT_SCOREBOARD)
WARP_TRACK = int(Track.WARP)
EXECUTED, ISSUED, THREADS, THREADS_ON = (
    int(Inst.EXECUTED),
    int(Inst.ISSUED),
    int(Inst.THREADS),
    int(Inst.THREADS_ON),
)
BRANCHES_DIVERGENT = int(Inst.BRANCHES_DIVERGENT)
PIPE = int(Sm.PIPE)
LSU = int(Pipe.LSU)
CONSTANT_SPACE = int(Space.CONSTANT)
COL_OP, COL_CLASS, COL_GUARD, COL_D, COL_ND = int(Col.OP), int(Col.CLASS), int(Col.GUARD), int(Col.D), int(Col.ND)
COL_PD, COL_PE, COL_X, COL_Y, COL_SPACE = int(Col.PD), int(Col.PE), int(Col.X), int(Col.Y), int(Col.SPACE)
COL_STALL, COL_WBAR, COL_PA = int(Col.STALL), int(Col.WBAR), int(Col.PA)
COL_A, COL_B, COL_C = int(Col.A), int(Col.B), int(Col.C)
COL_NA, COL_NB, COL_NC = int(Col.NA), int(Col.NB), int(Col.NC)
OP_BRA, OP_EXIT, OP_BSSY, OP_BSYNC = int(Op.BRA), int(Op.EXIT), int(Op.BSSY), int(Op.BSYNC)
OP_BREAK, OP_WARPSYNC, OP_YIELD, OP_BAR = int(Op.BREAK), int(Op.WARPSYNC), int(Op.YIELD), int(Op.BAR)
OP_NANOSLEEP, OP_NOP, OP_S2R = int(Op.NANOSLEEP), int(Op.NOP), int(Op.S2R)
OP_BRA_DIV, OP_CALL, OP_RET, OP_BRX = int(Op.BRA_DIV), int(Op.CALL), int(Op.RET), int(Op.BRX)
OP_HGMMA = int(Op.HGMMA)  # the first of the asynchronous units
OP_BMOV, OP_B2R, OP_BPT = int(Op.BMOV), int(Op.B2R), int(Op.BPT)
BAR_ARRIVE, BAR_POPC, BAR_AND, BAR_OR = 1, 2, 3, 4  # Col.X of BAR
OP_LD, OP_MEMBAR, OP_LDGDEPBAR, OP_DEPBAR, OP_CCTL = (
    int(Op.LD),
    int(Op.MEMBAR),
    int(Op.LDGDEPBAR),
    int(Op.DEPBAR),
    int(Op.CCTL),
)
FIRST_CONTROL = 160
PT = 7
INSTRUCTION_SHIFT = 4
TO_BARRIER, CLEARED = 64, 128  # bits of BMOV's X
NAP_CYCLES = 32  # NANOSLEEP promises nothing but an upper bound


@inner(inline="always")
def charge(a, s, m, w, sub, slot, t):
    """Account the warp's cycles up to `t` to the reason it waits for, at the instruction that waits."""
    ws = a.ws
    since = ws[w, W_SINCE]
    if t > since:
        stall, passed_over = s.stall[a.sv[SV_GROUP], ws[w, W_PC]], a.passed_over[sub, slot]
        stall[a.why[sub, slot]] += t - since - passed_over
        if passed_over:
            stall[NOT_SELECTED] += passed_over
            a.passed_over[sub, slot] = 0
        if a.sv[SV_RECORD] == RECORD_TIMES:
            note(a, s, m, WARP_TRACK, a.why[sub, slot], w, ws[w, W_PC], since, t)
        ws[w, W_SINCE] = t


@inner(inline="always")
def results_at(a, s, m, w, pc, t, time, reason):
    """Destination registers and predicates are there at `time`; who waits for them, waits for `reason`."""
    if s.cfg[C_HAS_CONTROL]:
        counted_by(a, w, s.code[pc, COL_WBAR], time, reason)
        return
    registers = s.cfg[C_REGISTER_ROWS]
    d = s.code[pc, COL_D]
    kind = reason + KIND_PIPE * s.pipe_group[s.code[pc, COL_CLASS]]
    for r in range(d, d + s.code[pc, COL_ND]):
        if r < registers:
            a.score[w, r, SCORE_READY] = time << SCORE_BITS | kind
    for p in (s.code[pc, COL_PD], s.code[pc, COL_PE]):
        if p & 7 != PT:
            operand = min(time, t + s.cfg[C_PREDICATE_OPERAND]) if reason == WAIT else time
            a.score[w, registers + p, SCORE_READY] = operand << SCORE_BITS | kind
            a.score[w, registers + 16 + p, SCORE_READY] = time << SCORE_BITS | reason


@inner(inline="always")
def take_pipe(a, s, m, sub, cls, t):
    """Occupy the class's pipe (or its alternate, if that is free sooner) from cycle `t`."""
    pipe, other = s.tc[cls, TC_PIPE], s.tc[cls, TC_ALTERNATE]
    sc = a.sc
    if other >= 0 and sc[sub, SC_PIPES + other] < sc[sub, SC_PIPES + pipe]:
        pipe = other
    sc[sub, SC_PIPES + pipe] = max(t * TICK, sc[sub, SC_PIPES + pipe]) + s.tc[cls, TC_INTERVAL]
    a.sm[PIPE + pipe] += s.tc[cls, TC_INTERVAL]


@inner(inline="always")
def context(a, s, m, w, t):
    """Set what special registers read, in the order of `core.context.Ctx`."""
    ctx, cfg, b = a.ctx, s.cfg, a.ws[w, W_SLOT]
    ctx[0] = a.ws[w, W_INDEX]
    ctx[1] = a.bs[b, B_X]
    ctx[2] = a.bs[b, B_Y]
    ctx[3] = a.bs[b, B_Z]
    ctx[4] = cfg[C_BLOCK_X]
    ctx[5] = cfg[C_BLOCK_Y]
    ctx[6] = cfg[C_BLOCK_Z]
    ctx[7] = cfg[C_GRID_X]
    ctx[8] = cfg[C_GRID_Y]
    ctx[9] = cfg[C_GRID_Z]
    ctx[10] = m
    ctx[11] = t
    ctx[12] = t * 1_000_000 // cfg[C_CLOCK_KHZ]
    ctx[13] = a.bs[b, B_RANK]


@inner
def may_go_on(a, s, m, w):
    """Whether a warp that sleeps at a block's barrier has lanes that need not wait any longer.

    A replayed warp goes on with the lanes of its next record, unless one of them still waits.
    """
    if not s.cfg[C_REPLAY]:
        return arrived_at(a, m, w, SP_RUNNABLE) != 0
    lanes = 0
    for k in range(a.ws[w, W_SPLITS]):
        lanes |= a.sp[w, k, SP_MASK]
    return lanes & s.replay[a.ws[w, W_TRACE], T_ACTIVE] == 0


@inner
def reduction_of(counts):
    """What BAR.RED found: how many threads' predicates held, whether all did, or any."""
    if counts[BR_KIND] == BAR_AND:
        return FULL_MASK if counts[BR_VOTES] == counts[BR_ARRIVED] else 0
    if counts[BR_KIND] == BAR_OR:
        return FULL_MASK if counts[BR_VOTES] > 0 else 0
    return counts[BR_VOTES]


@inner
def release(a, s, m, b, barrier, time):
    """All threads of block slot `b` have arrived at `barrier`: its warps go on at `time`."""
    ws, subcores = a.ws, s.cfg[C_SUBCORES]
    a.br[b, barrier, BR_RESULT] = reduction_of(a.br[b, barrier])
    a.br[b, barrier, BR_ARRIVED] = 0
    a.br[b, barrier, BR_VOTES] = 0
    for i in range(s.cfg[C_WARPS]):
        w = b * s.cfg[C_WARPS] + i
        if ws[w, W_STATE] != W_LIVE:
            continue
        for k in range(ws[w, W_SPLITS] - 1, -1, -1):
            if a.sp[w, k, SP_WAIT] == SP_AT_BARRIER + barrier:
                if s.cfg[C_REPLAY]:
                    drop_part(a, m, w, k)
                else:
                    a.sp[w, k, SP_WAIT] = SP_RUNNABLE
        if ws[w, W_MASK] == 0 and may_go_on(a, s, m, w):
            sub, slot = w % subcores, w // subcores
            charge(a, s, m, w, sub, slot, time)
            if s.cfg[C_REPLAY]:
                ws[w, W_MASK] = s.replay[ws[w, W_TRACE], T_ACTIVE]
                ws[w, W_PC] = s.replay[ws[w, W_TRACE], T_PC]
            else:
                take_runnable(a, m, w)
            a.wake[sub, slot] = time
            a.sc[sub, SC_NEXT] = min(a.sc[sub, SC_NEXT], time)


@inner
def check_barriers(a, s, m, b, t):
    """Release the barriers of block slot `b` at which every thread that has not exited has arrived."""
    for barrier in range(16):
        arrived = a.br[b, barrier, BR_ARRIVED]
        expected = a.br[b, barrier, BR_EXPECTED]
        if arrived > 0 and arrived >= (expected if expected > 0 else a.bs[b, B_THREADS]):
            cycles = (s.cfg[C_BARRIER_BASE] + TICK // 2) // TICK
            release(a, s, m, b, barrier, max(t, a.br[b, barrier, BR_LAST]) + cycles)


@inner
def first_value(s, m, operand, base, lanes):
    """A register operand's value in the first of `lanes`."""
    return np.int64(s.U[m, row_of(operand, base), lowest_lane(lanes)])


@inner
def arrive(a, s, m, w, pc, lanes, t):
    """BAR of `lanes`, which wait from now, unless they only arrive.

    The barrier unit takes one arrival every C_BARRIER_STEP ticks. A barrier with a count of
    threads counts whole warps.
    """
    b, x = a.ws[w, W_SLOT], s.code[pc, COL_X]
    base = s.cfg[C_SHARED_ROWS] + w * s.cfg[C_ROWS]
    barrier = first_value(s, m, s.code[pc, COL_A], base, lanes) & 15 if s.code[pc, COL_NA] else s.code[pc, COL_Y]
    start = max(t * TICK, a.sv[SV_BARRIER_FREE])
    a.sv[SV_BARRIER_FREE] = start + s.cfg[C_BARRIER_STEP]
    counts = a.br[b, barrier]
    counts[BR_LAST] = start // TICK
    counts[BR_EXPECTED] = first_value(s, m, s.code[pc, COL_B], base, lanes) if s.code[pc, COL_NB] else 0
    if counts[BR_EXPECTED] > 0 and lanes | a.ws[w, W_EXITED] == FULL_MASK:
        counts[BR_ARRIVED] += 32
    else:
        counts[BR_ARRIVED] += popcount(lanes)
    if x >= BAR_POPC:
        counts[BR_KIND] = x
        counts[BR_VOTES] += popcount(predicate_mask(a.preds[w], s.code[pc, COL_PA]) & lanes)
    if x != BAR_ARRIVE:
        put_aside(a, m, w, pc + 1, lanes, SP_AT_BARRIER + barrier)


@inner
def synchronise(a, s, m, sub, slot, w, pc, lanes, t):
    """BAR of `lanes` at `pc`; where they wait, the warp goes on with its other lanes, if it has any that can."""
    ws = a.ws
    arrive(a, s, m, w, pc, lanes, t)
    if s.code[pc, COL_X] != BAR_ARRIVE:
        ws[w, W_MASK] &= ~lanes
        if ws[w, W_MASK] == 0 and not take_runnable(a, m, w):
            ws[w, W_PC] = pc
            sleep(a, m, sub, slot, w, BARRIER)
    check_barriers(a, s, m, ws[w, W_SLOT], t)


@inner(inline="always")
def sleep(a, m, sub, slot, w, reason):
    """The warp waits for an event that other warps bring."""
    a.why[sub, slot] = reason
    a.wake[sub, slot] = NEVER


@inner(inline="always")
def nap(a, sub, slot, t):
    """NANOSLEEP: the warp looks again after a while of its choice; here the shortest."""
    a.why[sub, slot] = SLEEPING
    a.wake[sub, slot] = t + NAP_CYCLES


@inner
def finish(a, s, m, sub, slot, w, pc, t):
    """The warp's last lane has exited at `pc`: it drains."""
    ws = a.ws
    ws[w, W_PC] = pc
    ws[w, W_STATE] = W_DRAINING
    a.need[sub, slot] = DRAINING
    a.why[sub, slot] = DRAIN
    a.wake[sub, slot] = max(t + s.cfg[C_EXIT], ws[w, W_DRAIN])


@inner
def exit_lanes(a, s, m, sub, slot, w, pc, lanes, t):
    """EXIT of `lanes` at `pc`; the warp goes on with other lanes, or waits for a barrier, or drains."""
    b = a.ws[w, W_SLOT]
    threads_exit(a, s, b, popcount(lanes), t)
    if leave(a, m, w, lanes):
        a.ws[w, W_REDIRECT] = t + s.cfg[C_EXIT]
    elif a.ws[w, W_SPLITS] == 0:
        finish(a, s, m, sub, slot, w, pc, t)
    else:
        a.ws[w, W_PC] = pc
        sleep(a, m, sub, slot, w, BARRIER)
    check_barriers(a, s, m, b, t)


@inner
def warpsync_mask(s, m, pc, base, lanes):
    """The lanes that a WARPSYNC waits for: its operand, in the first lane that executes it; all without one."""
    operand = s.code[pc, COL_A]
    if operand == -1:
        return FULL_MASK
    return first_value(s, m, operand, base, lanes)


@inner
def branch(a, s, m, w, pc, target, active, on):
    """The lanes `on` of `active` go to `target`, the others on; disagreeing lanes split the warp."""
    ws = a.ws
    if on == active:
        ws[w, W_PC] = target
    elif on != 0:
        s.inst[a.sv[SV_GROUP], pc, BRANCHES_DIVERGENT] += 1
        put_aside(a, m, w, target, on, SP_RUNNABLE)
        ws[w, W_MASK] = active & ~on


@inner
def branch_indirect(a, s, m, w, pc, base, active, on):
    """BRX and RET: each lane of `on` goes to the byte address in its register, plus Y.

    Lanes with one target stay together. Of the parts, the lowest lane's runs first.
    """
    ws, row = a.ws, row_of(s.code[pc, COL_A], base)
    left, parts = on, 0
    while left != 0:
        last = 31
        while (left >> last) & 1 == 0:
            last -= 1
        value = s.U[m, row, last]
        target = (np.int64(value) + s.code[pc, COL_Y]) & 0xFFFFFFFF
        same = 0
        for i in range(32):
            if (left >> i) & 1 and s.U[m, row, i] == value:
                same |= 1 << i
        left &= ~same
        index = target >> INSTRUCTION_SHIFT
        if target & 15 != 0 or index >= s.cfg[C_INSTRUCTIONS]:
            a.er[ER_CODE] = ERROR_UNKNOWN_OPCODE
            return
        parts += 1
        if left == 0 and on == active:
            ws[w, W_PC] = index
            ws[w, W_MASK] = same
        else:
            put_aside(a, m, w, index, same, SP_RUNNABLE)
    if on != active:
        ws[w, W_MASK] = active & ~on
    if parts > 1 or (on != 0 and on != active):
        s.inst[a.sv[SV_GROUP], pc, BRANCHES_DIVERGENT] += 1


@inner
def write_register(a, s, m, w, pc, base, value, on):
    """A value of the whole warp to the destination register."""
    row = row_of(s.code[pc, COL_D], base)
    for i in range(32):
        if (on >> i) & 1:
            s.U[m, row, i] = np.uint32(value & FULL_MASK)


@inner
def move_convergence_barrier(a, s, m, w, pc, base, on):
    """BMOV: a convergence barrier's lanes to a register, or back."""
    x = s.code[pc, COL_X]
    barrier = x & 63
    if x & TO_BARRIER:
        lanes = first_value(s, m, s.code[pc, COL_A], base, on) & ~a.ws[w, W_EXITED]
        if lanes != 0:
            join(a, m, w, barrier, lanes)
        else:
            a.cb[w, slot_of(a, m, w, barrier, on)] = 0
        return
    place = slot_of(a, m, w, barrier, on)
    write_register(a, s, m, w, pc, base, a.cb[w, place], on)
    if x & CLEARED:
        a.cb[w, place] = 0


@inner
def issue_rare_control(a, s, m, sub, slot, w, pc, base, active, on, t):
    """Control instructions that few programs have."""
    op = s.code[pc, COL_OP]
    if op == OP_CALL:
        branch(a, s, m, w, pc, s.code[pc, COL_Y], active, on)
    elif op == OP_BRX or op == OP_RET:
        branch_indirect(a, s, m, w, pc, base, active, on)
    elif op == OP_BRA_DIV:
        if on != 0:
            apart = warpsync_mask(s, m, pc, base, on) & ~active & ~a.ws[w, W_EXITED]
            wanted = (apart == 0) if s.code[pc, COL_X] else (apart != 0)
            branch(a, s, m, w, pc, s.code[pc, COL_Y], active, on if wanted else 0)
    elif op == OP_BMOV or op == OP_B2R:
        cls = s.code[pc, COL_CLASS]
        if on != 0 and op == OP_BMOV:
            move_convergence_barrier(a, s, m, w, pc, base, on)
        elif on != 0:
            found = a.br[a.ws[w, W_SLOT], s.code[pc, COL_Y], BR_RESULT]
            write_register(a, s, m, w, pc, base, found, on)
            write_predicate(a.preds[w], s.code[pc, COL_PD], on if found != 0 else 0, on)
        results_at(a, s, m, w, pc, t, t + s.tc[cls, TC_LATENCY], s.tc[cls, TC_REASON])
    elif op == OP_BPT:
        if on != 0:
            a.er[ER_CODE] = ERROR_TRAP
    elif op != OP_YIELD:
        a.er[ER_CODE] = ERROR_UNKNOWN_OPCODE


@inner
def issue_control(a, s, m, sub, slot, w, pc, base, active, on, t):
    """Branches, convergence, barriers, exit: sets the warp's next instruction."""
    ws = a.ws
    op = s.code[pc, COL_OP]
    ws[w, W_PC] = pc + 1
    if op == OP_BRA:
        if s.code[pc, COL_PA] != PT:
            on &= predicate_mask(a.preds[w], s.code[pc, COL_PA])
        if s.code[pc, COL_X] == BRANCH_ANY and on != 0:
            on = active
        branch(a, s, m, w, pc, s.code[pc, COL_Y], active, on)
    elif op == OP_EXIT:
        if on != 0:
            exit_lanes(a, s, m, sub, slot, w, pc, on, t)
    elif op == OP_BSSY:
        if on != 0:
            join(a, m, w, s.code[pc, COL_X], on)
    elif op == OP_BSYNC or op == OP_WARPSYNC:
        if on != 0:
            if op == OP_BSYNC:
                wait = slot_of(a, m, w, s.code[pc, COL_X], on)
            else:
                wait = SP_AT_WARPSYNC + warpsync_mask(s, m, pc, base, on)
            if not meet(a, m, w, wait, on, pc + 1):
                ws[w, W_PC] = pc
                sleep(a, m, sub, slot, w, BARRIER)
    elif op == OP_BREAK:
        on &= predicate_mask(a.preds[w], s.code[pc, COL_PA])
        if on != 0:
            forget(a, m, w, s.code[pc, COL_X], on)
    elif op == OP_BAR:
        if on != 0:
            synchronise(a, s, m, sub, slot, w, pc, on, t)
    elif op == OP_NANOSLEEP:
        nap(a, sub, slot, t)
    else:
        issue_rare_control(a, s, m, sub, slot, w, pc, base, active, on, t)


@inner
def replay_control(a, s, m, sub, slot, w, pc, active, on, t):
    """Control flow of a recorded warp: its next record says where it goes; barriers and the end still count."""
    ws = a.ws
    b = ws[w, W_SLOT]
    op = s.code[pc, COL_OP]
    if op == OP_EXIT:
        a.bs[b, B_THREADS] -= popcount(on & ~ws[w, W_EXITED])
        ws[w, W_EXITED] |= on
    elif op == OP_BAR and on != 0:
        arrive(a, s, m, w, pc, on, t)
    elif op == OP_BRA and on != 0 and on != active:
        s.inst[a.sv[SV_GROUP], pc, BRANCHES_DIVERGENT] += 1
    elif op == OP_NANOSLEEP:
        nap(a, sub, slot, t)
    warp = a.bs[b, B_ID] * s.cfg[C_WARPS] + ws[w, W_INDEX]
    if ws[w, W_TRACE] >= s.replay_at[warp + 1]:
        a.bs[b, B_THREADS] -= popcount(FULL_MASK & ~ws[w, W_EXITED])  # also lanes whose exit was not recorded
        finish(a, s, m, sub, slot, w, pc, t)
        check_barriers(a, s, m, b, t)
        return
    if not may_go_on(a, s, m, w):
        ws[w, W_MASK] = 0
        ws[w, W_PC] = pc
        sleep(a, m, sub, slot, w, BARRIER)
    elif op == OP_EXIT and on != 0:
        ws[w, W_REDIRECT] = t + s.cfg[C_EXIT]
    if op == OP_EXIT or op == OP_BAR:
        check_barriers(a, s, m, b, t)


@inner(inline="always")
def only_stalls(a, s, sub, slot, w, pc):
    """Whether a warp that has issued the instruction at `pc` does nothing until its stall count has run out.

    It may have to fetch its next instruction, or a constant for it, or wait for an event.
    """
    following = pc + 1
    return (
        s.cfg[C_HAS_CONTROL]
        and a.ws[w, W_PC] == following
        and a.ws[w, W_LINE] == following >> s.cfg[C_CODE_SHIFT]
        and s.constant_line[following] < 0
        and a.why[sub, slot] == WAIT
    )


MOST_AHEAD = 8  #: rows of an operand that are asked for ahead


@inner(inline="always")
def look_ahead(a, s, m, w, base, pc):
    """Ask the host's caches for what an instruction that the warp soon issues will touch."""
    code, scored = s.code, not s.cfg[C_HAS_CONTROL]
    pc = min(pc, len(code) - 1)
    for first, count in (
        (code[pc, COL_A], code[pc, COL_NA]),
        (code[pc, COL_B], code[pc, COL_NB]),
        (code[pc, COL_C], code[pc, COL_NC]),
        (code[pc, COL_D], code[pc, COL_ND]),
    ):
        if first >= 0 and count > 0:
            if scored:
                prefetch(a.score, (w * READY_COLUMNS + first) * 2)
            for r in range(base + first, base + first + min(count, MOST_AHEAD)):
                prefetch(s.U[m], WARP_SIZE * r)
                prefetch(s.U[m], WARP_SIZE * r + WARP_SIZE // 2)


@inner(forceinline=True)
def issue(a, s, m, sub, slot, w, t, t1):
    """Issue the next instruction of warp `w` (sub-core `sub`, slot `slot`) in cycle `t`."""
    ws, code, cfg = a.ws, s.code, s.cfg
    pc = ws[w, W_PC]
    op, cls = code[pc, COL_OP], code[pc, COL_CLASS]
    replay = cfg[C_REPLAY]
    if replay:
        at = ws[w, W_TRACE]
        ws[w, W_TRACE] = at + 1
        active, on = s.replay[at, T_ACTIVE], s.replay[at, T_ON]
        ws[w, W_MASK] = active
    else:
        active = ws[w, W_MASK]
        guard = code[pc, COL_GUARD]
        on = active
        if guard != PT:
            on &= ~a.preds[w, guard & 15] if guard & 16 else a.preds[w, guard]
    if a.sv[SV_RECORD]:
        record(a, s, m, w, pc, active, on)
        if a.sv[SV_RECORD] == RECORD_TIMES:
            note(a, s, m, WARP_TRACK, SELECTED, w, pc, t, t + 1)
    count = s.inst[a.sv[SV_GROUP], pc]
    count[EXECUTED] += 1
    count[ISSUED] += 1
    count[THREADS] += popcount(active)
    count[THREADS_ON] += popcount(on)
    s.stall[a.sv[SV_GROUP], pc, SELECTED] += 1
    ws[w, W_SINCE] = t + 1
    a.need[sub, slot] = NOT_READY
    a.why[sub, slot] = WAIT
    a.wake[sub, slot] = t + 1
    if cfg[C_HAS_CONTROL]:
        ws[w, W_STALL] = t + code[pc, COL_STALL]
    base = cfg[C_SHARED_ROWS] + w * cfg[C_ROWS]
    look_ahead(a, s, m, w, base, pc + 2)
    pipe = s.tc[cls, TC_PIPE]
    if pipe != LSU and op != OP_HGMMA:
        take_pipe(a, s, m, sub, cls, t)
    if op >= OP_HGMMA:
        issue_asynchronous(a, s, m, sub, w, pc, base, on, t)
        if a.er[ER_CODE] != 0:
            return
        ws[w, W_PC] = pc + 1
    elif op >= FIRST_CONTROL:
        if not replay:
            issue_control(a, s, m, sub, slot, w, pc, base, active, on, t)
    elif op >= OP_LD and op <= OP_CCTL:
        issue_memory(a, s, m, sub, w, pc, base, on, t)
        if a.er[ER_CODE] != 0:
            return
        ws[w, W_PC] = pc + 1
    else:
        time = t + s.tc[cls, TC_LATENCY]
        if pipe == LSU:
            time = pass_shared_stage(a, s, m, sub, pc, t)
        if on != 0 and not replay and op != OP_NOP:
            if op == OP_S2R:
                context(a, s, m, w, t)
            execute(code, pc, s.U[m], base, a.preds, w, on, a.ctx)
        results_at(a, s, m, w, pc, t, time, s.tc[cls, TC_REASON])
        ws[w, W_PC] = pc + 1
    if replay:
        replay_control(a, s, m, sub, slot, w, pc, active, on, t)
        if ws[w, W_STATE] == W_LIVE and a.wake[sub, slot] != NEVER:
            ws[w, W_PC] = s.replay[ws[w, W_TRACE], T_PC]
    if ws[w, W_PC] != pc + 1 and op >= FIRST_CONTROL:
        ws[w, W_STALL] = t + (code[pc, COL_STALL] if cfg[C_HAS_CONTROL] else cfg[C_BRANCH_STALL])
        ws[w, W_REDIRECT] = ws[w, W_STALL] + cfg[C_BRANCH]
        ws[w, W_LINE] = -1 if ws[w, W_PC] != pc else ws[w, W_LINE]
        approach(a, s, sub, ws[w, W_PC] >> cfg[C_CODE_SHIFT])
    if only_stalls(a, s, sub, slot, w, pc):
        a.wake[sub, slot] = max(t + 1, ws[w, W_STALL])
    if a.er[ER_CODE] != 0:
        fail(a, s, m, w, pc, a.er[ER_CODE], lowest_lane(active), 0, 0)
