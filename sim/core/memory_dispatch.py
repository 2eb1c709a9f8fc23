"""A memory instruction at issue: which memory its addresses name, and what that memory does with it."""

from __future__ import annotations

from sim._jit import inner
from sim.core.access import lowest_lane
from sim.core.distributed import issue_distributed, own_block
from sim.core.exec_memory import effective_addresses
from sim.core.layout import (
    C_CLUSTER,
    C_FENCE_BLOCK,
    C_FENCE_GPU,
    C_FENCE_INTERVAL,
    C_LOAD_READ,
    C_REPLAY,
    C_SHARED_WINDOW,
    C_SUBCORES,
    ER_CODE,
    ERROR_MIXED_SPACES,
    LOCAL_WINDOW,
    SHARED_WINDOW,
    SV_FENCE_FREE,
    SV_RECORD,
    SV_TRACE,
    TC_LATENCY,
    TC_REASON,
    TICK,
    W_TRACE,
)
from sim.core.memory_issue import (
    ADDR,
    ADDR2,
    COL_CLASS,
    COL_OP,
    COL_PD,
    COL_SPACE,
    COL_WIDTH,
    COL_X,
    CONSTANT_SPACE,
    LOCAL_SPACE,
    SHARED_SPACE,
    SHORT_SCOREBOARD,
    commit_copies,
    enter,
    fail,
    issue_constant,
    issue_copy,
    issue_global,
    issue_shared,
    results_known,
    work_space,
)
from sim.core.operands import write_predicate
from sim.core.rows import i64, load, mask_of
from sim.counters import Stall
from sim.isa import Op, Space

MEMBAR = int(Stall.MEMBAR)
GLOBAL_SPACE, GENERIC_SPACE = int(Space.GLOBAL), int(Space.GENERIC)
OP_ATOM, OP_RED, OP_LDGSTS = int(Op.ATOM), int(Op.RED), int(Op.LDGSTS)
OP_LDGDEPBAR, OP_DEPBAR, OP_MEMBAR, OP_CCTL = int(Op.LDGDEPBAR), int(Op.DEPBAR), int(Op.MEMBAR), int(Op.CCTL)


@inner
def replayed_addresses(a, s, m, w, addr, second):
    """The recorded addresses of the instruction just issued."""
    row = s.replay_addr_at[a.ws[w, W_TRACE] - 1]
    if row >= 0:
        for i in range(32):
            addr[i] = s.replay_addr[row, i]
            second[i] = s.replay_addr[row, 32 + i]


@inner
def generic_space(a, s, m, w, pc, on):
    """(space, lanes) of an access whose addresses say which memory it is; they become those in that memory.

    One instruction's lanes must agree. An atomic with a predicate result is performed in global memory only,
    and PD says where it was: compiled code does the others in another way.
    """
    addr, op = work_space(a, s)[ADDR], s.code[pc, COL_OP]
    window = load(addr, 0) >> 32
    shared = mask_of(window == i64(SHARED_WINDOW >> 32)) & on
    local = mask_of(window == i64(LOCAL_WINDOW >> 32)) & on
    if op == OP_ATOM:
        write_predicate(a.preds[w], s.code[pc, COL_PD], ~(shared | local), on)
        if s.code[pc, COL_PD] & 7 != 7:
            return GLOBAL_SPACE, on & ~(shared | local)
    if (shared | local) == 0:
        return GLOBAL_SPACE, on
    home = SHARED_WINDOW + s.cfg[C_SHARED_WINDOW] if shared else LOCAL_WINDOW
    for i in range(32):
        if (on >> i) & 1:
            addr[i] -= home
    if shared == on:
        return SHARED_SPACE, on
    if local != on or op == OP_ATOM or op == OP_RED:
        fail(a, s, m, w, pc, ERROR_MIXED_SPACES, lowest_lane(shared | local), 0, s.code[pc, COL_WIDTH])
    return LOCAL_SPACE, on


@inner
def fence(a, s, sub, w, pc, t):
    """MEMBAR: the warp goes on when it is through; those of the GPU's scope begin one after another."""
    end = t + s.cfg[C_FENCE_BLOCK]
    if s.code[pc, COL_X] != 0:
        start = max(t, a.sv[SV_FENCE_FREE])
        a.sv[SV_FENCE_FREE] = start + s.cfg[C_FENCE_INTERVAL]
        end = start + s.cfg[C_FENCE_GPU]
    slot = w // s.cfg[C_SUBCORES]
    a.why[sub, slot] = MEMBAR
    a.wake[sub, slot] = end


@inner(forceinline=True)
def issue_memory(a, s, m, sub, w, pc, base, on, t):
    """Dispatch a memory instruction of `on` lanes; on an error ER_CODE is set."""
    code, work = s.code, work_space(a, s)
    op, space = code[pc, COL_OP], code[pc, COL_SPACE]
    if op == OP_LDGDEPBAR:
        commit_copies(a, w)
        return
    if op == OP_MEMBAR:
        fence(a, s, sub, w, pc, t)
        return
    if op == OP_DEPBAR or op == OP_CCTL:
        return
    if on == 0 and space == CONSTANT_SPACE:
        results_known(a, s, m, w, pc, t + s.tc[code[pc, COL_CLASS], TC_LATENCY], s.tc[code[pc, COL_CLASS], TC_REASON])
        return
    if on == 0:
        left, start = enter(a, s, m, sub, t, 1, TICK)
        results_known(a, s, m, w, pc, start // TICK + s.cfg[C_LOAD_READ], SHORT_SCOREBOARD)
        return
    if s.cfg[C_REPLAY]:
        replayed_addresses(a, s, m, w, work[ADDR], work[ADDR2])
    else:
        effective_addresses(code, pc, s.U[m], base, work[ADDR], work[ADDR2])
    if a.sv[SV_RECORD]:
        row = s.trace_addr[m, a.sv[SV_TRACE] - 1]
        for i in range(32):
            row[i] = work[ADDR, i]
    if space == GENERIC_SPACE and op != OP_LDGSTS:
        space, on = generic_space(a, s, m, w, pc, on)
        if a.er[ER_CODE] != 0:
            return
        if on == 0:
            results_known(a, s, m, w, pc, t + s.cfg[C_LOAD_READ], SHORT_SCOREBOARD)
            return
    if op == OP_LDGSTS:
        if s.cfg[C_CLUSTER] > 1:
            own_block(a, s, m, w, pc, 0)
        issue_copy(a, s, m, sub, w, pc, base, on, t)
    elif space == SHARED_SPACE and s.cfg[C_CLUSTER] > 1 and not own_block(a, s, m, w, pc, on):
        issue_distributed(a, s, m, sub, w, pc, base, on, t)
    elif space == SHARED_SPACE:
        issue_shared(a, s, m, sub, w, pc, base, on, t)
    elif space == CONSTANT_SPACE:
        issue_constant(a, s, m, w, pc, base, on, t)
    else:
        issue_global(a, s, m, sub, w, pc, base, on, t, space)
