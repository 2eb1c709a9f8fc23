"""The front end: is the warp's next instruction fetched, and what does it still wait for?

Times that are not known yet (a packet is on its way to L2 and the step is not
over) read as "ask again at the end of the step"; by then they are known.
"""

from __future__ import annotations

from sim._jit import inner
from sim.core.layout import (
    AG_LEFT,
    AG_TIME,
    B_POOL,
    B_POOL_FROM,
    C_BRANCH_FETCH,
    C_CODE_L0_LINE,
    C_CODE_L0_MISS,
    C_CODE_L0_SETS,
    C_CODE_L0_WAYS,
    C_CODE_L1_MISS,
    C_CODE_L1_SETS,
    C_CODE_L1_WAYS,
    C_CODE_LAUNCHED,
    C_CODE_LAUNCHED_AHEAD,
    C_CODE_LAUNCHED_FIRST,
    C_CODE_LAUNCHED_FROM,
    C_CODE_LAUNCHED_LINE,
    C_CODE_MEMORY,
    C_CODE_PREFETCH,
    C_CODE_SHIFT,
    C_CONSTANT_LOAD_MISS,
    C_CONSTANT_MISS,
    C_CROSS_PIPE,
    C_HAS_CONTROL,
    C_INSTRUCTIONS,
    C_REGISTER_ROWS,
    CODE_COLUMNS,
    CODE_LINE,
    CODE_TIME,
    CODE_USED,
    KIND_BITS,
    KIND_PIPE,
    MAX_ARRIVALS,
    MAX_BOX_LINES,
    MAX_CODE_LINES,
    MAX_GROUPS,
    MAX_JOBS,
    MAX_PROGRAM_LINES,
    MAX_STRONG,
    NEVER,
    SB_PENDING,
    SB_REASON,
    SB_TIME,
    SCORE_BITS,
    SCORE_READ,
    SCORE_READY,
    STREAM_LINE,
    STREAM_TICK,
    SV_ARRIVALS,
    SV_FREE_ENTRY,
    SV_JOBS,
    SV_STRONG,
    SV_TMA_PACKETS,
    SV_TMA_SENT,
    TICK,
    TMA_RING,
    W_FETCHED,
    W_GROUP,
    W_LINE,
    W_PC,
    W_REDIRECT,
    W_REGISTERS,
    W_SLOT,
    W_STALL,
    W_WGMMA,
)
from sim.core.rows import prefetch
from sim.core.wake import cluster_waited
from sim.counters import Stall
from sim.isa import WARP_SIZE, Col, Op

BRANCH_RESOLVING = int(Stall.BRANCH_RESOLVING)
NO_INSTRUCTION = int(Stall.NO_INSTRUCTION)
IMC_MISS = int(Stall.IMC_MISS)
WAIT = int(Stall.WAIT)
LONG_SCOREBOARD = int(Stall.LONG_SCOREBOARD)
SHORT_SCOREBOARD = int(Stall.SHORT_SCOREBOARD)
GMMA, LG_THROTTLE = int(Stall.GMMA), int(Stall.LG_THROTTLE)
BARRIER, DISPATCH_STALL = int(Stall.BARRIER), int(Stall.DISPATCH_STALL)
COL_OP, COL_WAIT, COL_X, COL_D, COL_ND = int(Col.OP), int(Col.WAIT), int(Col.X), int(Col.D), int(Col.ND)
COL_CLASS = int(Col.CLASS)
OP_DEPBAR, OP_LD, OP_TMA, OP_MBARRIER = int(Op.DEPBAR), int(Op.LD), int(Op.TMA), int(Op.MBARRIER)
OP_CLUSTER_WAIT, OP_SETMAXREG, OP_COPY_ARRIVE = int(Op.CLUSTER_WAIT), int(Op.SETMAXREG), int(Op.COPY_ARRIVE)
OP_REMOTE_STORE = int(Op.REMOTE_STORE)
POLLED = 64  #: cycles until a warp looks again whether the TMA unit, or what waits for the step's end, has room
OP_WARPGROUP_DEPBAR = int(Op.WARPGROUP_DEPBAR)


@inner(inline="always")
def counted_by(a, w, barrier, time, reason):
    """The result that `barrier`, if it is one, counts is there at `time`; who waits for it, waits for `reason`."""
    if barrier < 6:
        a.sb[w, barrier, SB_TIME] = max(a.sb[w, barrier, SB_TIME], time)
        a.sb[w, barrier, SB_REASON] = reason


@inner(inline="always")
def found(held, first, ways, line):
    """The place of an instruction line in the set of a cache that begins at `first`; -1 if it is not there."""
    for k in range(first, first + ways):
        if held[k, CODE_LINE] == line + 1:
            return k
    return -1


@inner
def put(held, first, ways, line, when, t):
    """An instruction line takes the place of the one in its set that was used least recently."""
    place = first
    for k in range(first, first + ways):
        if held[k, CODE_LINE] == 0:
            place = k
            break
        if held[k, CODE_USED] < held[place, CODE_USED]:
            place = k
    held[place, CODE_LINE] = line + 1
    held[place, CODE_TIME] = when
    held[place, CODE_USED] = t


@inner(inline="always")
def approach(a, s, sub, line):
    """Ask the host's caches for what `fetch` looks at first: the set of an instruction line in the sub-core's L0."""
    first = line % s.cfg[C_CODE_L0_SETS] * s.cfg[C_CODE_L0_WAYS]
    prefetch(a.code_l0, (sub * MAX_CODE_LINES + first) * CODE_COLUMNS)


@inner(inline="always")
def code_lines(s):
    """Instruction lines of the program."""
    return ((s.cfg[C_INSTRUCTIONS] - 1) >> s.cfg[C_CODE_SHIFT]) + 1


@inner
def bring(a, s, line, t):
    """An instruction line that is not in the SM's L1 is asked for at `t`; returns when it is there.

    The first time it comes from memory. But the launch fetches a kernel's first lines for all SMs, which has begun
    before the first block starts, and a miss for one that is on its way waits for it.
    """
    cfg = s.cfg
    when = t + cfg[C_CODE_L1_MISS]
    if a.code_seen[line % MAX_PROGRAM_LINES] == 0:
        a.code_seen[line % MAX_PROGRAM_LINES] = 1
        when = t + cfg[C_CODE_MEMORY]
        launched = cfg[C_CODE_LAUNCHED_FROM] + line * cfg[C_CODE_LAUNCHED_LINE] // TICK
        launched = max(launched, cfg[C_CODE_LAUNCHED_FIRST])
        if line < cfg[C_CODE_LAUNCHED] and launched <= t + cfg[C_CODE_LAUNCHED_AHEAD]:
            when = max(launched, t)
    put(a.code_l1, line % cfg[C_CODE_L1_SETS] * cfg[C_CODE_L1_WAYS], cfg[C_CODE_L1_WAYS], line, when, t)
    return when


@inner
def in_l1(a, s, line, t):
    """The cycle, not before `t`, at which an instruction line is in the SM's L1."""
    ways = s.cfg[C_CODE_L1_WAYS]
    k = found(a.code_l1, line % s.cfg[C_CODE_L1_SETS] * ways, ways, line)
    if k < 0:
        return bring(a, s, line, t)
    a.code_l1[k, CODE_USED] = t
    return max(a.code_l1[k, CODE_TIME], t)


@inner
def fetch_ahead(a, s, sub, line, t):
    """Lines follow one another into the sub-core's L0 until they are a prefetch's distance beyond `line`."""
    cfg = s.cfg
    sets, ways = cfg[C_CODE_L0_SETS], cfg[C_CODE_L0_WAYS]
    stream = a.code_stream[sub]
    last = min(line + cfg[C_CODE_PREFETCH], code_lines(s) - 1)
    while stream[STREAM_LINE] <= last:
        k = stream[STREAM_LINE]
        stream[STREAM_LINE] += 1
        first = k % sets * ways
        if found(a.code_l0[sub], first, ways, k) < 0:
            there = (in_l1(a, s, k, t) + cfg[C_CODE_L0_MISS]) * TICK
            stream[STREAM_TICK] = max(there, stream[STREAM_TICK] + cfg[C_CODE_L0_LINE])
            put(a.code_l0[sub], first, ways, k, stream[STREAM_TICK] // TICK, t)


@inner
def fetch(a, s, sub, line, t):
    """When instruction line `line` is in the sub-core's L0.

    A miss in L0 looks into the SM's L1; the lines after it follow, until another miss begins anew. A miss there goes
    to L2. The warp that asked gets the line even if another takes its place in L0 before it comes.
    """
    ways = s.cfg[C_CODE_L0_WAYS]
    first = line % s.cfg[C_CODE_L0_SETS] * ways
    stream = a.code_stream[sub]
    approach(a, s, sub, line + 1)
    k = found(a.code_l0[sub], first, ways, line)
    if k >= 0:
        a.code_l0[sub, k, CODE_USED] = t
        when = a.code_l0[sub, k, CODE_TIME]
    else:
        when = in_l1(a, s, line, t) + s.cfg[C_CODE_L0_MISS]
        put(a.code_l0[sub], first, ways, line, when, t)
        stream[STREAM_LINE] = line + 1
        stream[STREAM_TICK] = when * TICK
    if line < stream[STREAM_LINE] <= line + s.cfg[C_CODE_PREFETCH]:
        fetch_ahead(a, s, sub, line, t)
    return when


@inner(inline="always")
def constant(a, s, sub, line, t):
    """When constant line `line` is in the sub-core's constant cache; the launch has left it in the GPC's."""
    if a.constant[sub, line] == 0:
        a.constant[sub, line] = t + s.cfg[C_CONSTANT_MISS]
    return a.constant[sub, line]


@inner(inline="always")
def loaded_constant(a, s, line, t):
    """When constant line `line` is in the SM's cache that loads of constants look into."""
    if a.constant_loads[line] == 0:
        a.constant_loads[line] = t + s.cfg[C_CONSTANT_LOAD_MISS]
    return a.constant_loads[line]


@inner(inline="always")
def dependences(a, s, m, w, pc, t):
    """(time, reason): when the last register or predicate that the instruction touches is there."""
    until = t
    reason = WAIT
    group = s.pipe_group[s.code[pc, COL_CLASS]]
    for k in range(1, s.deps[pc, 0] + 1):
        r = s.deps[pc, k]
        score = a.score[w, r, SCORE_READY]
        when = score >> SCORE_BITS
        if when >= until:
            made = score & ((1 << SCORE_BITS) - 1)
            if made >= KIND_PIPE and made >> KIND_BITS != group:
                when += s.cfg[C_CROSS_PIPE]
            if when > until:
                until = when
                reason = made & (KIND_PIPE - 1)
    d = s.code[pc, COL_D]
    for r in range(d, d + s.code[pc, COL_ND]):
        if r < s.cfg[C_REGISTER_ROWS] and a.score[w, r, SCORE_READ] > until:
            until = a.score[w, r, SCORE_READ]
            reason = SHORT_SCOREBOARD
    return until, reason


@inner(inline="always")
def barriers_waited(a, m, w, mask, t):
    """(time, reason) of the control-bit barriers in `mask`."""
    until = t
    reason = WAIT
    for b in range(6):
        if (mask >> b) & 1:
            when = NEVER if a.sb[w, b, SB_PENDING] > 0 else a.sb[w, b, SB_TIME]
            if when > until:
                until = when
                reason = a.sb[w, b, SB_REASON]
    return until, reason


@inner(inline="always")
def copies_waited(a, m, w, left, t):
    """When all but the `left` youngest committed groups of asynchronous copies are complete."""
    until = t
    youngest = a.ws[w, W_GROUP]
    for g in range(max(0, youngest - MAX_GROUPS + 1), youngest - left):
        at = g % MAX_GROUPS
        when = NEVER if a.ag[w, at, AG_LEFT] > 0 else a.ag[w, at, AG_TIME]
        until = max(until, when)
    return until


@inner(inline="always")
def products_waited(a, m, w, left, t):
    """When all but the `left` youngest committed groups of wgmma are complete."""
    until = t
    youngest = a.ws[w, W_WGMMA]
    for g in range(max(0, youngest - MAX_GROUPS + 1), youngest - left):
        until = max(until, a.wg[w, g % MAX_GROUPS])
    return until


@inner(inline="always")
def has_room(a, sent):
    """Whether a box of any size fits into the TMA unit's packets."""
    return a.sv[SV_TMA_PACKETS] - sent <= TMA_RING - MAX_BOX_LINES


@inner
def asynchronous_waits(a, s, w, pc, op, t):
    """(cycle, stall reason) that an asynchronous unit's instruction waits for, or a cluster's; cycle <= t: nothing."""
    if op == OP_CLUSTER_WAIT:
        return cluster_waited(a, w), BARRIER
    if op == OP_SETMAXREG:
        slot = a.ws[w, W_SLOT]
        more = s.code[pc, COL_X] - a.ws[w, W_REGISTERS]
        if more <= 0:
            return t, DISPATCH_STALL
        return a.bs[slot, B_POOL_FROM] if more <= a.bs[slot, B_POOL] else NEVER, DISPATCH_STALL
    full = a.sv[SV_JOBS] > MAX_JOBS - WARP_SIZE or a.sv[SV_STRONG] >= MAX_STRONG or a.sv[SV_ARRIVALS] >= MAX_ARRIVALS
    if op == OP_TMA:
        full = full or not has_room(a, a.sv[SV_TMA_SENT])
    elif op == OP_COPY_ARRIVE:
        full = full or a.ag[w, (a.ws[w, W_GROUP] + 1) % MAX_GROUPS, AG_LEFT] > 0
    elif op == OP_REMOTE_STORE:
        full = full or a.sv[SV_FREE_ENTRY] < 0
    return t + POLLED if full else t, LG_THROTTLE


@inner(forceinline=True)
def waits(a, s, m, sub, w, t):
    """What a warp's next instruction waits for of its own: (cycle, stall reason); cycle <= t: nothing."""
    ws = a.ws
    if ws[w, W_REDIRECT] > t:
        if ws[w, W_STALL] > t:
            return ws[w, W_STALL], WAIT
        return ws[w, W_REDIRECT], BRANCH_RESOLVING
    pc = ws[w, W_PC]
    line = pc >> s.cfg[C_CODE_SHIFT]
    if line != ws[w, W_LINE]:
        again = t + s.cfg[C_BRANCH_FETCH] if ws[w, W_LINE] == -1 else t
        ws[w, W_LINE] = line
        ws[w, W_FETCHED] = max(fetch(a, s, sub, line, t), again)
    if ws[w, W_FETCHED] > t:
        return ws[w, W_FETCHED], NO_INSTRUCTION
    if s.constant_line[pc] >= 0 and s.code[pc, COL_OP] != OP_LD:
        when = constant(a, s, sub, s.constant_line[pc], t)
        if when > t:
            return when, IMC_MISS
    if s.cfg[C_HAS_CONTROL]:
        if ws[w, W_STALL] > t:
            return ws[w, W_STALL], WAIT
        until, reason = barriers_waited(a, m, w, s.code[pc, COL_WAIT], t)
    else:
        until, reason = dependences(a, s, m, w, pc, t)
    if until <= t:
        op = s.code[pc, COL_OP]
        if op == OP_DEPBAR:
            until = copies_waited(a, m, w, s.code[pc, COL_X], t)
            reason = LONG_SCOREBOARD
        elif op == OP_WARPGROUP_DEPBAR:
            until = products_waited(a, m, w, s.code[pc, COL_X], t)
            reason = GMMA
        elif op >= OP_MBARRIER:
            return asynchronous_waits(a, s, w, pc, op, t)
    return until, reason
