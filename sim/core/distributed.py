"""Distributed shared memory at issue: accesses to the shared memory of other blocks of the cluster.

An address in shared memory has its block's rank in the cluster from bit CLUSTER_SHIFT on. An
access goes over the SM's way to others, sector by sector; what it does is kept, as a strong access
is, and done at the end of the step in which it leaves (`sim.core.cluster`).
"""

from __future__ import annotations

import numpy as np

from sim._jit import inner
from sim.core.access import coalesce, group_passes
from sim.core.exec_atomic import ADDRESS, COMPARE, OLD, OPERAND, gather_operand
from sim.core.layout import (
    B_RANK,
    C_CLUSTER,
    C_CLUSTER_SECTOR,
    C_GLOBAL_REQUEST,
    C_LOAD_READ,
    C_LSU_LATENCY,
    C_SHARED_LATENCY,
    C_SHARED_LIMIT,
    C_SHARED_WINDOW,
    C_STORE_READ,
    E_LEFT,
    ERROR_MISALIGNED,
    ERROR_NO_BLOCK,
    ERROR_SHARED_BOUNDS,
    G_BASE,
    G_ENTRY,
    G_MASK,
    G_PC,
    G_SECTORS,
    G_TIME,
    G_WARP,
    SV_CLUSTER_FREE,
    SV_LSU_FREE,
    SV_STRONG,
    TICK,
    W_DRAIN,
    W_SLOT,
)
from sim.core.lsu import new_entry
from sim.core.memory_issue import (
    ADDR,
    ASKED_LIST,
    COL_A,
    COL_B,
    COL_D,
    COL_ND,
    COL_OP,
    COL_SPACE,
    COL_WBAR,
    COL_WIDTH,
    COL_Y,
    LINE_LIST,
    PARTIAL_LIST,
    SECTOR_LIST,
    SHARED_SPACE,
    count_access,
    enter,
    fail,
    results_unknown,
    rows_read_at,
    sectors_in,
    work_space,
)
from sim.core.operands import row_of
from sim.isa import CLUSTER_SHIFT, Op

OP_LD, OP_ST, OP_ATOM, OP_RED, OP_REMOTE_STORE = (
    int(Op.LD),
    int(Op.ST),
    int(Op.ATOM),
    int(Op.RED),
    int(Op.REMOTE_STORE),
)
OFFSET_MASK = (1 << CLUSTER_SHIFT) - 1


@inner
def own_block(a, s, m, w, pc, on):
    """Whether an access stays in the block's own shared memory; its addresses are then offsets there.

    Only a generic access may leave it.
    """
    addr, rank = work_space(a, s)[ADDR], a.bs[a.ws[w, W_SLOT], B_RANK]
    if s.code[pc, COL_SPACE] != SHARED_SPACE:
        for i in range(32):
            if (on >> i) & 1 and addr[i] >> CLUSTER_SHIFT != rank:
                return False
    for i in range(32):
        if addr[i] >> CLUSTER_SHIFT == rank:
            addr[i] &= OFFSET_MASK
    return True


@inner
def check_distributed(a, s, m, w, pc, addr, on, width):
    """Whether every active lane's access lies in the shared memory of a block of the cluster; else notes the error."""
    for i in range(32):
        if (on >> i) & 1 == 0:
            continue
        rank, at = addr[i] >> CLUSTER_SHIFT, addr[i] & OFFSET_MASK
        if rank < 0 or rank >= s.cfg[C_CLUSTER]:
            fail(a, s, m, w, pc, ERROR_NO_BLOCK, i, rank, width)
            return False
        if at % width != 0:
            fail(a, s, m, w, pc, ERROR_MISALIGNED, i, at, width)
            return False
        if at + width > s.cfg[C_SHARED_LIMIT]:
            fail(a, s, m, w, pc, ERROR_SHARED_BOUNDS, i, at, width)
            return False
    return True


@inner
def gather_words(s, m, pc, base, width, data):
    """Fill `data[OPERAND]` and `data[COMPARE]` with up to four words of b a lane."""
    b = row_of(s.code[pc, COL_B], base)
    for i in range(32):
        data[OPERAND, i] = np.int64(s.U[m, b, i])
        if width >= 8:
            data[OPERAND, i] |= np.int64(s.U[m, b + 1, i]) << 32
        if width == 16:
            data[COMPARE, i] = np.int64(s.U[m, b + 2, i]) | np.int64(s.U[m, b + 3, i]) << 32


@inner
def issue_distributed(a, s, m, sub, w, pc, base, on, t):
    """A load, store or atomic of shared memory of the cluster; sets when it leaves, and keeps it until then.

    The way to other SMs takes a request a line, then the data's sectors; an atomic's request goes before its data.
    """
    code, cfg, work = s.code, s.cfg, work_space(a, s)
    op, width, addr = code[pc, COL_OP], code[pc, COL_WIDTH], work[ADDR]
    if not check_distributed(a, s, m, w, pc, addr, on, width):
        return
    n = coalesce(addr, on, width, work[LINE_LIST], work[SECTOR_LIST], work[ASKED_LIST], work[PARTIAL_LIST])
    sectors = sectors_in(work[SECTOR_LIST], n)
    units = n if op == OP_LD else sectors if op == OP_ST or op == OP_REMOTE_STORE else n + sectors
    busy = units * cfg[C_CLUSTER_SECTOR]
    passes, ideal = group_passes(addr, on, width)
    left, start = enter(a, s, m, sub, t, 1, cfg[C_GLOBAL_REQUEST])
    begin = max(start, a.sv[SV_CLUSTER_FREE])
    a.sv[SV_CLUSTER_FREE] = begin + busy
    a.sv[SV_LSU_FREE] = max(a.sv[SV_LSU_FREE], begin + busy)  # in order
    asked = 0
    for k in range(n):
        asked += work[ASKED_LIST, k]
    count_access(a, s, pc, 0, 0, max(passes, n), ideal, asked)
    rows_read_at(a, s, m, w, pc, left // TICK + (cfg[C_LOAD_READ] if op == OP_LD else cfg[C_STORE_READ]))
    k = a.sv[SV_STRONG]
    a.sv[SV_STRONG] = k + 1
    head, data = a.sg[k], a.sg_data[k]
    for i in range(32):
        data[ADDRESS, i] = addr[i]
    if op == OP_ST or op == OP_REMOTE_STORE:
        gather_words(s, m, pc, base, width, data)
    elif op != OP_LD:
        gather_operand(code, pc, s.U[m], base, data)
    head[G_WARP] = w
    head[G_PC] = pc
    head[G_MASK] = on
    head[G_BASE] = base
    head[G_TIME] = begin // TICK
    head[G_SECTORS] = sectors
    head[G_ENTRY] = -1
    if code[pc, COL_ND] > 0:
        entry = new_entry(
            a, m, w, code[pc, COL_D], code[pc, COL_ND], code[pc, COL_WBAR], -1,
            cfg[C_SHARED_LATENCY] - cfg[C_LSU_LATENCY], 0,
        )  # fmt: skip
        a.en[entry, E_LEFT] = 1
        head[G_ENTRY] = entry
        results_unknown(a, s, m, w, pc)
    a.ws[w, W_DRAIN] = max(a.ws[w, W_DRAIN], begin // TICK + 1)


@inner
def issue_remote_store(a, s, m, sub, w, pc, base, on, t):
    """STAS: a store to shared memory of the cluster whose bytes an mbarrier there expects; REDAS likewise an atomic."""
    code, addr = s.code, work_space(a, s)[ADDR]
    row = row_of(code[pc, COL_A], base)
    for i in range(32):
        addr[i] = np.int64(s.U[m, row, i]) + code[pc, COL_Y]
    k = a.sv[SV_STRONG]
    issue_distributed(a, s, m, sub, w, pc, base, on, t)
    for i in range(32):
        a.sg_data[k, OLD, i] = np.int64(s.U[m, row + 1, i]) - s.cfg[C_SHARED_WINDOW]
