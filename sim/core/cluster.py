"""What blocks of a cluster do to each other, between two time steps: accesses, copies, barriers; and their start.

A step is no longer than the way between two SMs, and than a cluster's barrier takes, so what
a block does in a step reaches another after it. Accesses are done by (cycle in which they left
their SM, SM, order of issue).
"""

from __future__ import annotations

from sim._jit import bare, inner
from sim.core.access import lowest_lane, popcount
from sim.core.exec_atomic import ADDRESS, COMPARE, OLD, OPERAND, apply_atomic, scatter_result
from sim.core.exec_memory import load, move_bytes
from sim.core.layout import (
    B_ARRIVED,
    B_CLUSTER,
    B_EXITED,
    B_ID,
    B_LAST,
    B_RANK,
    B_SHARED,
    B_THREADS,
    C_CLUSTER,
    C_CLUSTER_BARRIER,
    C_CLUSTER_LATENCY,
    C_CLUSTER_SECTOR,
    C_CLUSTER_STORE,
    D_BLOCKS,
    D_CLUSTERS,
    D_FILL,
    D_FILL_CLOCK,
    D_GROUP,
    D_NEXT,
    D_REFILL,
    D_REFILL_CLOCK,
    D_SLOTS,
    D_START,
    ERROR_BARRIER,
    ERROR_ENDED_BLOCK,
    G_BASE,
    G_ENTRY,
    G_MASK,
    G_PC,
    G_SECTORS,
    G_TIME,
    G_WARP,
    J_ADDRESS,
    J_ARRIVALS,
    J_BARRIER,
    J_BYTES,
    J_ISSUED,
    J_KIND,
    J_LANE,
    J_MASK,
    J_PC,
    J_SHARED,
    J_TIME,
    J_WARP,
    JOB_ARRIVE,
    JOB_COPY,
    JOB_PUSH,
    JOB_REDUCE,
    MAX_SLOTS,
    NEVER,
    SV_CLUSTER_FREE,
    SV_JOBS,
    SV_JOBS_DONE,
    TICK,
    W_INDEX,
    W_SLOT,
)
from sim.core.lsu import arrived
from sim.core.mbarrier import is_initialised, will_arrive, will_complete, word_of
from sim.core.memory_issue import fail
from sim.core.sm import start_block
from sim.core.tma import LOADS, OFFSET_MASK, REDUCES, lay_out, walk
from sim.core.wake import open_phase
from sim.isa import CLUSTER_SHIFT, REMOTE_REDUCTION, Col, Op

COL_OP, COL_X, COL_WIDTH = int(Col.OP), int(Col.X), int(Col.WIDTH)
OP_LD, OP_ST, OP_ATOM, OP_REMOTE_STORE = int(Op.LD), int(Op.ST), int(Op.ATOM), int(Op.REMOTE_STORE)
WORD_BYTES = 8  #: of an mbarrier


@inner
def find_block(st, s, peers, m, slot, rank, since):
    """Where the block of that rank in a block's cluster is; -1 if its threads had exited by cycle `since`."""
    peer = peers[m, slot, rank]
    block = st[peer // MAX_SLOTS].bs[peer % MAX_SLOTS]
    if block[B_CLUSTER] != st[m].bs[slot, B_CLUSTER] or block[B_EXITED] <= since:
        return -1
    return peer


@inner
def put_words(memory, home, width, lanes, data):
    """A store of the lanes' words at their offsets from `home`."""
    for i in range(32):
        if (lanes >> i) & 1:
            for byte in range(width):
                word = data[OPERAND, i] if byte < 8 else data[COMPARE, i]
                memory[home + data[ADDRESS, i] + byte] = (word >> (8 * (byte & 7))) & 255


@inner
def complete_bytes(b, s, home, width, lanes, data, time):
    """The lanes' mbarriers, in the shared memory of the SM `b`, learn at `time` that their bytes have come."""
    while lanes != 0:
        first = lowest_lane(lanes)
        same = 0
        for i in range(32):
            if (lanes >> i) & 1 and data[OLD, i] == data[OLD, first]:
                same |= 1 << i
        lanes &= ~same
        will_complete(b, home + (data[OLD, first] & OFFSET_MASK), time, popcount(same) * width, 0)


@inner
def access_block(a, b, s, m, pc, base, home, lanes, data, time):
    """What an access of `lanes` does in the shared memory of SM `b` from `home` on; their addresses become offsets.

    At `time` the mbarriers of a store that has some learn of its bytes.
    """
    op, x, width = s.code[pc, COL_OP], s.code[pc, COL_X], s.code[pc, COL_WIDTH]
    for i in range(32):
        if (lanes >> i) & 1:
            data[ADDRESS, i] &= OFFSET_MASK
    if op == OP_LD:
        load(s.code, pc, s.U[m], base, lanes, data[ADDRESS], -home, b.s8)
    elif op == OP_ST or (op == OP_REMOTE_STORE and not x & REMOTE_REDUCTION):
        put_words(b.s8, home, width, lanes, data)
    else:
        there = a.atomic_work
        for i in range(32):
            there[ADDRESS, i], there[OPERAND, i], there[COMPARE, i] = (
                data[ADDRESS, i],
                data[OPERAND, i],
                data[COMPARE, i],
            )
        apply_atomic(x & 255, width, lanes, there, -home, b.s8)
        if op == OP_ATOM:
            scatter_result(s.code, pc, s.U[m], base, lanes, there)
    if op == OP_REMOTE_STORE:
        complete_bytes(b, s, home, width, lanes, data, time)


@inner
def perform_distributed(st, s, peers, m, k):
    """Perform the k-th kept access of SM `m`, which is of distributed shared memory; its answer takes its way back."""
    a, cfg = st[m], s.cfg
    head, data = a.sg[k], a.sg_data[k]
    w, pc, on = head[G_WARP], head[G_PC], head[G_MASK]
    slot, op = a.ws[w, W_SLOT], s.code[pc, COL_OP]
    there = head[G_TIME] + cfg[C_CLUSTER_LATENCY]
    back, todo = 0, on
    while todo != 0:
        rank, lanes = data[ADDRESS, lowest_lane(todo)] >> CLUSTER_SHIFT, 0
        for i in range(32):
            if (todo >> i) & 1 and data[ADDRESS, i] >> CLUSTER_SHIFT == rank:
                lanes |= 1 << i
        todo &= ~lanes
        peer = find_block(st, s, peers, m, slot, rank, head[G_TIME])
        if peer < 0:
            fail(a, s, m, w, pc, ERROR_ENDED_BLOCK, lowest_lane(lanes), rank, s.code[pc, COL_WIDTH])
            return
        b = st[peer // MAX_SLOTS]
        home, counted = b.bs[peer % MAX_SLOTS, B_SHARED], head[G_TIME] + cfg[C_CLUSTER_STORE]
        access_block(a, b, s, m, pc, head[G_BASE], home, lanes, data, counted)
        if op == OP_LD or op == OP_ATOM:
            sectors = (head[G_SECTORS] * popcount(lanes) + popcount(on) - 1) // popcount(on)
            begin = max(there * TICK, b.sv[SV_CLUSTER_FREE])
            b.sv[SV_CLUSTER_FREE] = begin + sectors * cfg[C_CLUSTER_SECTOR]
            back = max(back, begin // TICK + cfg[C_CLUSTER_LATENCY])
    if head[G_ENTRY] >= 0:
        arrived(a, s, m, head[G_ENTRY], back)


@inner
def do_for_block(a, b, s, m, home, job):
    """What a job does to one block of the cluster, whose shared memory is that of SM `b` from `home` on."""
    kind, w, pc = job[J_KIND], job[J_WARP], job[J_PC]
    at = home + job[J_BARRIER]
    if kind == JOB_COPY:
        tensor, element, swizzle, number = lay_out(a, s, m, w, pc, job)
        walk(a, s, b, home, job, tensor, element, swizzle, number, LOADS, -1, 0)
        if job[J_BARRIER] < 0:
            return
    elif kind == JOB_PUSH:
        own = a.bs[a.ws[w, W_SLOT], B_SHARED] + job[J_ADDRESS]
        for k in range(0, job[J_BYTES], 16):
            move_bytes(b.s8, home + (job[J_SHARED] & OFFSET_MASK) + k, a.s8, own + k, 16)
    if not is_initialised(word_of(b.s8, at)):
        fail(a, s, m, w, pc, ERROR_BARRIER, job[J_LANE], job[J_BARRIER], WORD_BYTES)
        return
    if kind == JOB_ARRIVE:
        block, index = a.bs[a.ws[w, W_SLOT], B_ID], a.ws[w, W_INDEX]
        will_arrive(b, at, job[J_TIME], -job[J_BYTES], job[J_ARRIVALS], pc, block, index)
    else:
        will_complete(b, at, job[J_TIME], job[J_BYTES], job[J_ARRIVALS])


@inner
def do_job(st, s, peers, m, job):
    """Do what SM `m` kept for the step's end."""
    a, w, pc = st[m], job[J_WARP], job[J_PC]
    slot = a.ws[w, W_SLOT]
    if job[J_KIND] == JOB_REDUCE:
        tensor, element, swizzle, number = lay_out(a, s, m, w, pc, job)
        walk(a, s, a, a.bs[slot, B_SHARED], job, tensor, element, swizzle, number, REDUCES, -1, 0)
        return
    for rank in range(s.cfg[C_CLUSTER]):
        if (job[J_MASK] >> rank) & 1:
            peer = find_block(st, s, peers, m, slot, rank, job[J_ISSUED])
            if peer < 0:
                fail(a, s, m, w, pc, ERROR_ENDED_BLOCK, job[J_LANE], rank, 0)
                return
            b = st[peer // MAX_SLOTS]
            do_for_block(a, b, s, m, b.bs[peer % MAX_SLOTS, B_SHARED], job)


@bare
def do_jobs(st, s, peers, t1):
    """Do the step's jobs of all SMs, by (cycle, SM, order of issue)."""
    earliest = NEVER
    for m in range(len(st)):
        st[m].sv[SV_JOBS_DONE] = 0
        if st[m].sv[SV_JOBS] > 0:
            earliest = min(earliest, st[m].jb[0, J_ISSUED])
    for t in range(earliest, t1):
        for m in range(len(st)):
            a = st[m]
            while a.sv[SV_JOBS_DONE] < a.sv[SV_JOBS] and a.jb[a.sv[SV_JOBS_DONE], J_ISSUED] <= t:
                do_job(st, s, peers, m, a.jb[a.sv[SV_JOBS_DONE]])
                a.sv[SV_JOBS_DONE] += 1
    for m in range(len(st)):
        st[m].sv[SV_JOBS] = 0


@inner
def last_arrival(st, s, peers, m, slot):
    """When the last thread of a block's cluster came to its barrier; NEVER if one is still to come."""
    cluster, last = st[m].bs[slot, B_CLUSTER], 0
    for rank in range(s.cfg[C_CLUSTER]):
        peer = peers[m, slot, rank]
        block = st[peer // MAX_SLOTS].bs[peer % MAX_SLOTS]
        if block[B_CLUSTER] != cluster:
            continue  # another block has its place: it ended long ago
        if block[B_EXITED] != NEVER:
            last = max(last, block[B_EXITED])
        elif block[B_ARRIVED] < block[B_THREADS]:
            return NEVER
        else:
            last = max(last, block[B_LAST])
    return last


@bare
def open_barriers(st, s, d):
    """End the phase of each cluster's barrier at which every thread that has not exited has arrived."""
    for m in range(len(st)):
        for slot in range(d.state[D_SLOTS]):
            if not d.busy[m, slot] or st[m].bs[slot, B_ARRIVED] == 0:
                continue
            last = last_arrival(st, s, d.peers, m, slot)
            if last == NEVER:
                continue
            for rank in range(s.cfg[C_CLUSTER]):
                peer = d.peers[m, slot, rank]
                b = st[peer // MAX_SLOTS]
                if b.bs[peer % MAX_SLOTS, B_CLUSTER] == st[m].bs[slot, B_CLUSTER]:
                    open_phase(b, s, peer % MAX_SLOTS, last + s.cfg[C_CLUSTER_BARRIER])


@inner
def soonest_slot(d, m):
    """The free slot of SM `m` that was free first; -1 if none is."""
    best = -1
    for b in range(d.state[D_SLOTS]):
        if not d.busy[m, b] and (best < 0 or d.free[m, b] < d.free[m, best]):
            best = b
    return best


@inner
def ready_at(d, group, size):
    """When `size` SMs of a group have a free slot; NEVER if they are fewer."""
    best = NEVER
    for m in d.groups[group]:
        if m < 0:
            break
        slot = soonest_slot(d, m)
        d.soonest[m] = d.free[m, slot] if slot >= 0 else NEVER
    for m in d.groups[group]:
        if m < 0:
            break
        count = 0
        for other in d.groups[group]:
            if other >= 0 and d.soonest[other] <= d.soonest[m]:
                count += 1
        if count >= size:
            best = min(best, d.soonest[m])
    return best


@inner
def start_cluster(st, s, d, group, ready, t1):
    """Start the next cluster's blocks on as many SMs of a group; they start together."""
    size, first = s.cfg[C_CLUSTER], d.state[D_NEXT]
    fresh = 1
    k = 0
    for m in d.groups[group]:
        if k < size and m >= 0 and d.soonest[m] <= ready:
            fresh &= d.fresh[m, soonest_slot(d, m)]
            k += 1
    gap = d.state[D_FILL] if fresh else d.state[D_REFILL]
    clock = D_FILL_CLOCK if fresh else D_REFILL_CLOCK
    tick = max(d.state[clock], ready * TICK)
    d.state[clock] = tick + gap * size
    start = max(max(tick // TICK, ready) + d.state[D_START], t1)
    k = 0
    for m in d.groups[group]:
        if k < size and m >= 0 and d.soonest[m] <= ready:
            slot = soonest_slot(d, m)
            d.busy[m, slot] = 1
            d.fresh[m, slot] = 0
            d.mates[k] = m * MAX_SLOTS + slot
            start_block(st[m], s, m, slot, d.order[first + k], start)
            st[m].bs[slot, B_CLUSTER] = d.state[D_CLUSTERS]
            st[m].bs[slot, B_RANK] = k
            k += 1
    for rank in range(size):
        mate = d.mates[rank]
        for other in range(size):
            d.peers[mate // MAX_SLOTS, mate % MAX_SLOTS, other] = d.mates[other]
    d.state[D_CLUSTERS] += 1
    d.state[D_NEXT] += size


@bare
def assign_clusters(st, s, d, t1):
    """Start clusters where a group of SMs has a free slot on as many, in the order in which groups had that.

    Of groups that had it at once the next after the one that got the last cluster comes first (microbench_9, `place`).
    """
    groups = len(d.groups)
    while d.state[D_NEXT] < d.state[D_BLOCKS]:
        ready, chosen = NEVER, -1
        for k in range(groups):
            group = (d.state[D_GROUP] + k) % groups
            when = ready_at(d, group, s.cfg[C_CLUSTER])
            if when < ready:
                ready, chosen = when, group
        if chosen < 0:
            return
        d.state[D_GROUP] = (chosen + 1) % groups
        start_cluster(st, s, d, chosen, ready, t1)
