"""The front end: is the warp's next instruction fetched, and what does it still wait for?

Times that are not known yet (a packet is on its way to L2 and the step is not
over) read as "ask again at the end of the step"; by then they are known.
"""

from __future__ import annotations

from sim._jit import jit
from sim.core.layout import (
    AG_LEFT,
    AG_TIME,
    C_CODE_L0_LINES,
    C_CODE_L0_MISS,
    C_CODE_L1_LINES,
    C_CODE_LINE,
    C_CODE_PREFETCH,
    C_HAS_CONTROL,
    C_INSTRUCTIONS,
    C_REGISTER_ROWS,
    C_CROSS_PIPE,
    CODE_BASE,
    CONSTANT_BASE,
    KIND_PIPE,
    MAX_GROUPS,
    NEVER,
    R_BYTES,
    R_DONE,
    R_KIND,
    R_L1,
    R_LINE,
    R_OPS,
    R_SECTORS,
    R_TIME,
    R_WAITERS,
    RING,
    RK_FETCH,
    SB_PENDING,
    SB_REASON,
    SB_TIME,
    SV_LAST_PACKET,
    SV_PACKETS,
    SV_SENT,
    W_GROUP,
    W_LINE,
    W_PC,
    W_REDIRECT,
    W_STALL,
)
from sim.counters import Stall
from sim.isa import Col, Op

BRANCH_RESOLVING = int(Stall.BRANCH_RESOLVING)
NO_INSTRUCTION = int(Stall.NO_INSTRUCTION)
IMC_MISS = int(Stall.IMC_MISS)
WAIT = int(Stall.WAIT)
LONG_SCOREBOARD = int(Stall.LONG_SCOREBOARD)
SHORT_SCOREBOARD = int(Stall.SHORT_SCOREBOARD)
COL_OP, COL_WAIT, COL_X, COL_D, COL_ND = int(Col.OP), int(Col.WAIT), int(Col.X), int(Col.D), int(Col.ND)
COL_CLASS = int(Col.CLASS)
OP_DEPBAR = int(Op.DEPBAR)


@jit(forceinline=True)
def send(a, m, time, line, sectors, kind, ops, asked, l1):
    """Queue a packet to the crossbar; packets of an SM leave in order. Returns its place in the ring."""
    sv = a.sv
    n = sv[m, SV_PACKETS]
    k = n % RING
    time = max(time, sv[m, SV_LAST_PACKET])
    sv[m, SV_LAST_PACKET] = time
    rq = a.rq
    rq[m, k, R_TIME] = time
    rq[m, k, R_LINE] = line
    rq[m, k, R_SECTORS] = sectors
    rq[m, k, R_KIND] = kind
    rq[m, k, R_OPS] = ops
    rq[m, k, R_BYTES] = asked
    rq[m, k, R_WAITERS] = -1
    rq[m, k, R_L1] = l1
    rq[m, k, R_DONE] = NEVER
    sv[m, SV_PACKETS] = n + 1
    return k


@jit(forceinline=True)
def ring_room(a, m):
    """Packets that still fit into the ring."""
    return RING - (a.sv[m, SV_PACKETS] - a.sv[m, SV_SENT])


@jit
def fetch(a, s, m, sub, line, t):
    """When instruction line `line` is in the sub-core's L0: a time, or NEVER while unknown.

    A miss in L0 looks into the SM's L1 and fetches the next lines along; a miss
    there asks L2.
    """
    cfg = s.cfg
    lines = (cfg[C_INSTRUCTIONS] + cfg[C_CODE_LINE] - 1) // cfg[C_CODE_LINE]
    slot = line % cfg[C_CODE_L0_LINES]
    if a.code_l0[m, sub, slot, 0] == line and a.code_l0[m, sub, slot, 1] != NEVER:
        return a.code_l0[m, sub, slot, 1]
    last = min(line + cfg[C_CODE_PREFETCH], lines - 1)
    for k in range(line, last + 1):
        at = k % cfg[C_CODE_L1_LINES]
        if a.code_l1[m, at, 0] != k and ring_room(a, m) > 0:
            a.code_l1[m, at, 0] = k
            a.code_l1[m, at, 1] = NEVER
            send(a, m, t, (CODE_BASE >> 7) + k, 15, RK_FETCH, 0, 0, at)
        when = a.code_l1[m, at, 1]
        if a.code_l1[m, at, 0] == k and when != NEVER:
            slot0 = k % cfg[C_CODE_L0_LINES]
            if a.code_l0[m, sub, slot0, 0] != k or a.code_l0[m, sub, slot0, 1] == NEVER:
                a.code_l0[m, sub, slot0, 0] = k
                a.code_l0[m, sub, slot0, 1] = max(t, when) + cfg[C_CODE_L0_MISS]
    if a.code_l0[m, sub, slot, 0] == line:
        return a.code_l0[m, sub, slot, 1]
    return NEVER


@jit(forceinline=True)
def constant(a, m, line, t):
    """When constant line `line` is in the SM's constant cache: a time, or NEVER while unknown."""
    when = a.constant[m, line]
    if when == NEVER:
        return NEVER
    if when == 0:
        if ring_room(a, m) == 0:
            return NEVER
        a.constant[m, line] = NEVER
        send(a, m, t, (CONSTANT_BASE >> 7) + (line >> 1), 3 << (2 * (line & 1)), RK_FETCH, 0, 0, (1 << 20) + line)
        return NEVER
    return when


@jit(forceinline=True)
def dependences(a, s, m, w, pc, t):
    """(time, reason): when the last register or predicate that the instruction touches is there."""
    until = t
    reason = WAIT
    group = s.pipe_group[s.code[pc, COL_CLASS]]
    for k in range(1, s.deps[pc, 0] + 1):
        r = s.deps[pc, k]
        when = a.ready[m, w, r]
        if when >= until:
            made = a.kind[m, w, r]
            if made >= KIND_PIPE and made // KIND_PIPE != group:
                when += s.cfg[C_CROSS_PIPE]
            if when > until:
                until = when
                reason = made % KIND_PIPE
    d = s.code[pc, COL_D]
    for r in range(d, d + s.code[pc, COL_ND]):
        if r < s.cfg[C_REGISTER_ROWS] and a.war[m, w, r] > until:
            until = a.war[m, w, r]
            reason = SHORT_SCOREBOARD
    return until, reason


@jit(forceinline=True)
def barriers_waited(a, m, w, mask, t):
    """(time, reason) of the control-bit barriers in `mask`."""
    until = t
    reason = WAIT
    for b in range(6):
        if (mask >> b) & 1:
            when = NEVER if a.sb[m, w, b, SB_PENDING] > 0 else a.sb[m, w, b, SB_TIME]
            if when > until:
                until = when
                reason = a.sb[m, w, b, SB_REASON]
    return until, reason


@jit(forceinline=True)
def copies_waited(a, m, w, left, t):
    """When all but the `left` youngest committed groups of asynchronous copies are complete."""
    until = t
    youngest = a.ws[m, w, W_GROUP]
    for g in range(max(0, youngest - MAX_GROUPS + 1), youngest - left):
        at = g % MAX_GROUPS
        when = NEVER if a.ag[m, w, at, AG_LEFT] > 0 else a.ag[m, w, at, AG_TIME]
        until = max(until, when)
    return until


@jit
def waits(a, s, m, sub, w, t):
    """What a warp's next instruction waits for of its own: (cycle, stall reason); cycle <= t: nothing."""
    ws = a.ws
    if ws[m, w, W_REDIRECT] > t:
        return ws[m, w, W_REDIRECT], BRANCH_RESOLVING
    pc = ws[m, w, W_PC]
    line = pc // s.cfg[C_CODE_LINE]
    if line != ws[m, w, W_LINE]:
        when = fetch(a, s, m, sub, line, t)
        if when > t:
            return when, NO_INSTRUCTION
        ws[m, w, W_LINE] = line
    if s.constant_line[pc] >= 0 :
        when = constant(a, m, s.constant_line[pc], t)
        if when > t:
            return when, IMC_MISS
    if s.cfg[C_HAS_CONTROL]:
        if ws[m, w, W_STALL] > t:
            return ws[m, w, W_STALL], WAIT
        until, reason = barriers_waited(a, m, w, s.code[pc, COL_WAIT], t)
    else:
        until, reason = dependences(a, s, m, w, pc, t)
    if until <= t and s.code[pc, COL_OP] == OP_DEPBAR:
        until = copies_waited(a, m, w, s.code[pc, COL_X], t)
        reason = LONG_SCOREBOARD
    return until, reason
