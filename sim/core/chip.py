"""Between two time steps: packets to the memory system and back, atomics, and new blocks.

All of it runs in one order that does not depend on how the SMs were stepped:
packets by (cycle, SM, order of issue), blocks by (cycle at which a slot is free, slot, SM).
"""

from __future__ import annotations

from sim._jit import bare, inner
from sim.core.cluster import perform_distributed
from sim.core.exec_atomic import ADDRESS, apply_atomic, scatter_result
from sim.core.exec_memory import load
from sim.core.layout import (
    B_END,
    B_ID,
    B_LIVE,
    B_RANK,
    B_START,
    C_HALF_FLIT,
    C_REPLAY,
    D_BLOCKS,
    D_CREDIT,
    D_ENDED,
    D_FILL,
    D_FILL_CLOCK,
    D_NEXT,
    D_REFILL,
    D_REFILL_CLOCK,
    D_SLOTS,
    D_START,
    D_TURNAROUND,
    G_BASE,
    G_COLUMNS,
    G_MASK,
    G_PC,
    G_SECTORS,
    G_TIME,
    GLOBAL_BASE,
    MAX_CLUSTER,
    NEVER,
    O_COLUMNS,
    O_FREE,
    O_SLOT,
    O_SM,
    OPS_SHIFT,
    R_BYTES,
    R_KIND,
    R_LINE,
    R_SECTORS,
    R_TIME,
    RING,
    SV_ARRIVALS,
    SV_BACKLOG,
    SV_EVENTS,
    SV_NEXT,
    SV_PACKETS,
    SV_PORT,
    SV_SENT,
    SV_STRONG,
    SV_STRONG_DONE,
    SV_TMA_PACKETS,
    SV_TMA_SENT,
    TICK,
    TMA_RING,
    TQ_BYTES,
    TQ_KIND,
    TQ_LINE,
    TQ_SECTORS,
    TQ_TIME,
    TQ_TRANSFER,
    TR_MASK,
    TR_WARP,
    W_SLOT,
)
from sim.core.lsu import expect, settle
from sim.core.mbarrier import arrive_after_copies
from sim.core.sm import start_block
from sim.core.tma import packet_answered
from sim.core.xbar import half_flits
from sim.counters import Sm
from sim.isa import Col, Op, Pipe

COL_OP, COL_X, COL_WIDTH = int(Col.OP), int(Col.X), int(Col.WIDTH)
OP_LD, OP_ATOM = int(Op.LD), int(Op.ATOM)
TENSOR = int(Sm.PIPE) + int(Pipe.TENSOR)


@inner
def others(a, transfer):
    """Further SMs that a multicast's packets go to, as `Requests.others` has them."""
    slot = a.ws[transfer[TR_WARP], W_SLOT]
    mask = transfer[TR_MASK] & ~(1 << a.bs[slot, B_RANK])
    return slot << MAX_CLUSTER | mask if mask else 0


@bare
def collect(st, s, q, t1):
    """Copy each SM's packets that leave before `t1` into the memory system's request arrays; returns how many.

    An SM's own and its TMA unit's go in order of time, its own first. Those for which a port will not be free by then
    stay: the memory system answers what it takes, and would keep others waiting for what comes much later.
    """
    total = 0
    half_flit = s.cfg[C_HALF_FLIT]
    for m in range(len(st)):
        a = st[m]
        own, tma = a.sv[SV_SENT], a.sv[SV_TMA_SENT]
        own_free = tma_free = q.free[m] * TICK
        n = 0
        while n < q.time.shape[1]:
            k, j = own % RING, tma % TMA_RING
            time = max(a.rq[k, R_TIME], own_free // TICK) if own < a.sv[SV_PACKETS] else NEVER
            further = max(a.tq[j, TQ_TIME], tma_free // TICK) if tma < a.sv[SV_TMA_PACKETS] else NEVER
            if min(time, further) >= t1:
                break
            if time <= further:
                q.time[m, n] = time
                q.line[m, n] = a.rq[k, R_LINE]
                q.sectors[m, n] = a.rq[k, R_SECTORS]
                q.kind[m, n] = a.rq[k, R_KIND] & ((1 << OPS_SHIFT) - 1)
                q.ops[m, n] = a.rq[k, R_KIND] >> OPS_SHIFT
                q.asked[m, n] = a.rq[k, R_BYTES]
                q.unit[m, n] = 0
                q.others[m, n] = 0
                own_free = max(own_free, time * TICK) + half_flits(q.kind[m, n], q.sectors[m, n]) * half_flit
                own += 1
            else:
                q.time[m, n] = further
                q.line[m, n] = a.tq[j, TQ_LINE]
                q.sectors[m, n] = a.tq[j, TQ_SECTORS]
                q.kind[m, n] = a.tq[j, TQ_KIND]
                q.ops[m, n] = a.tq[j, TQ_BYTES] >> 2
                q.asked[m, n] = a.tq[j, TQ_BYTES]
                q.unit[m, n] = 1
                q.others[m, n] = others(a, a.tr[a.tq[j, TQ_TRANSFER]])
                tma_free = max(tma_free, further * TICK) + half_flits(q.kind[m, n], q.sectors[m, n]) * half_flit
                tma += 1
            n += 1
        q.n[m] = n
        total += n
    return total


@bare
def deliver(st, s, q):
    """Hand the memory system's answers back to the SMs; the cycle of the latest."""
    latest = 0
    for m in range(len(st)):
        if m + 1 < len(st):
            expect(st[m + 1], q.n[m + 1])
        n = q.n[m]
        if n:
            a = st[m]
            own, tma = a.sv[SV_SENT], a.sv[SV_TMA_SENT]
            for j in range(n):
                latest = max(latest, q.done[m, j])
                if q.unit[m, j] == 0:
                    a.rq[own % RING, R_TIME] = q.done[m, j]
                    own += 1
                else:
                    packet_answered(st, s, m, tma, q.done[m, j], q.peers)
                    tma += 1
            a.sv[SV_TMA_SENT] = tma
            settle(a, s, m, own - a.sv[SV_SENT])
            a.sv[SV_PORT] = q.free[m] * TICK + a.sv[SV_BACKLOG] * s.cfg[C_HALF_FLIT]
            if a.sv[SV_ARRIVALS] > 0:
                arrive_after_copies(a, s)
    return latest


@inner
def perform_strong(st, s, d, m, k):
    """Perform the k-th kept strong access of SM `m`, on global memory or on shared memory of its cluster."""
    a = st[m]
    head = a.sg[k]
    if head[G_SECTORS] >= 0:
        perform_distributed(st, s, d.peers, m, k)
        return
    pc, base, mask = head[G_PC], head[G_BASE], head[G_MASK]
    data = a.sg_data[k]
    op = s.code[pc, COL_OP]
    if op == OP_LD:
        load(s.code, pc, s.U[m], base, mask, data[ADDRESS], GLOBAL_BASE, s.g8)
        return
    apply_atomic(s.code[pc, COL_X], s.code[pc, COL_WIDTH], mask, data, GLOBAL_BASE, s.g8)
    if op == OP_ATOM:
        scatter_result(s.code, pc, s.U[m], base, mask, data)


@bare
def commit(st, s, d, t0, t1):
    """Perform the strong accesses that reached L2 before `t1`, by (cycle, SM, order of issue)."""
    sms = len(st)
    for m in range(sms):
        st[m].sv[SV_STRONG_DONE] = 0
    earliest = NEVER
    for m in range(sms):
        if st[m].sv[SV_STRONG] > 0:
            earliest = min(earliest, st[m].sg[0, G_TIME])
    if earliest >= t1:
        return
    for t in range(min(t0, earliest), t1):
        for m in range(sms):
            while st[m].sv[SV_STRONG_DONE] < st[m].sv[SV_STRONG] and st[m].sg[st[m].sv[SV_STRONG_DONE], G_TIME] <= t:
                if not s.cfg[C_REPLAY]:
                    perform_strong(st, s, d, m, st[m].sv[SV_STRONG_DONE])
                st[m].sv[SV_STRONG_DONE] += 1
    for m in range(sms):
        a = st[m]
        done, n = a.sv[SV_STRONG_DONE], a.sv[SV_STRONG]
        for k in range(done, n):
            for c in range(G_COLUMNS):
                a.sg[k - done, c] = a.sg[k, c]
            for row in range(4):
                for i in range(32):
                    a.sg_data[k - done, row, i] = a.sg_data[k, row, i]
        a.sv[SV_STRONG] = n - done


@bare
def note_ended(st, d, blocks):
    """Write down the blocks that ended in this step and free their slots."""
    slots = d.state[D_SLOTS]
    for m in range(len(st)):
        if st[m].sv[SV_EVENTS] == 0:
            continue
        for b in range(slots):
            if d.busy[m, b] and st[m].bs[b, B_LIVE] == 0:
                block = st[m].bs[b, B_ID]
                blocks[block, 0] = m
                blocks[block, 1] = st[m].bs[b, B_START]
                blocks[block, 2] = st[m].bs[b, B_END]
                d.busy[m, b] = 0
                d.free[m, b] = st[m].bs[b, B_END] + d.state[D_TURNAROUND]
                d.state[D_ENDED] += 1
        st[m].sv[SV_EVENTS] = 0


@inner
def list_open(d):
    """List the free slots in `d.open`, of those free from one cycle on the first to fill first; returns how many."""
    n = 0
    for slot in range(d.free.shape[1]):
        for m in range(len(d.free)):
            if not d.busy[m, slot]:
                d.open[n, O_FREE] = d.free[m, slot]
                d.open[n, O_SM] = m
                d.open[n, O_SLOT] = slot
                n += 1
    return n


@inner
def take_soonest(open_slots, n):
    """(cycle, SM, slot) of the first of `n` listed slots that are free soonest; it leaves the list."""
    best = 0
    for k in range(1, n):
        if open_slots[k, O_FREE] < open_slots[best, O_FREE]:
            best = k
    taken = open_slots[best, O_FREE], open_slots[best, O_SM], open_slots[best, O_SLOT]
    for k in range(best, n - 1):
        for column in range(O_COLUMNS):
            open_slots[k, column] = open_slots[k + 1, column]
    return taken


@bare
def assign(st, s, d, t1):
    """Give free slots to the next blocks, in the order in which the slots became free.

    Over the whole device blocks start at a bounded rate: faster while slots are
    filled for the first time, slower when a block follows another.
    """
    if d.state[D_NEXT] == d.state[D_BLOCKS]:
        return
    for left in range(list_open(d), 0, -1):
        free, sm, slot = take_soonest(d.open, left)
        first = d.fresh[sm, slot]
        gap = d.state[D_FILL] if first else d.state[D_REFILL]
        clock = D_FILL_CLOCK if first else D_REFILL_CLOCK
        credit = 0 if first else d.state[D_CREDIT]
        tick = max(d.state[clock], free * TICK - credit)
        d.state[clock] = tick + gap
        start = max(max(tick // TICK, free) + d.state[D_START], t1)
        d.busy[sm, slot] = 1
        d.fresh[sm, slot] = 0
        start_block(st[sm], s, sm, slot, d.order[d.state[D_NEXT]], start)
        d.state[D_NEXT] += 1
        if d.state[D_NEXT] == d.state[D_BLOCKS]:
            return


@bare
def tensor_use(st, slots):
    """Ticks for which the tensor cores were busy so far, all sub-cores, and how many SMs have blocks."""
    busy = working = 0
    for m in range(len(st)):
        busy += st[m].sm[TENSOR]
        for b in range(slots):
            if st[m].bs[b, B_LIVE] > 0:
                working += 1
                break
    return busy, working


@bare
def next_event(st, t1):
    """The earliest cycle from `t1` on at which an SM or a packet needs attention."""
    soonest = NEVER
    for m in range(len(st)):
        soonest = min(soonest, st[m].sv[SV_NEXT])
        if st[m].sv[SV_STRONG] > 0:
            soonest = min(soonest, st[m].sg[0, G_TIME])
        if st[m].sv[SV_PACKETS] > st[m].sv[SV_SENT]:
            soonest = min(soonest, st[m].rq[st[m].sv[SV_SENT] % RING, R_TIME])
        if st[m].sv[SV_TMA_PACKETS] > st[m].sv[SV_TMA_SENT]:
            soonest = min(soonest, st[m].tq[st[m].sv[SV_TMA_SENT] % TMA_RING, TQ_TIME])
    return max(soonest, t1)
