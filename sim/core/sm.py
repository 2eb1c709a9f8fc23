"""One SM through one time step: four sub-cores pick warps cycle by cycle, skipping cycles in which nothing can happen.

Order inside a cycle, which is also the tie rule: sub-cores 0 to 3, each with its
warp slots in ascending order. Greedy-then-youngest issues the warp that issued
last if it can issue, else the eligible warp that was launched last; loose round
robin issues the next eligible slot after the last one, oldest block first does so
among the warps of the block that was launched first.

A warp that cannot issue sleeps until the first cycle at which that may change.
The cycles from W_SINCE on belong to the reason it waits for, but for those in which it could issue and was passed over.
They are charged when that reason changes or the warp issues, so every resident cycle is charged exactly once.
"""

from __future__ import annotations

from sim._jit import bare, inner
from sim.core.access import lowest_lane, popcount
from sim.core.front import approach, waits
from sim.core.issue import NOT_SELECTED, charge, issue, look_ahead
from sim.core.layout import (
    B_COLUMNS,
    B_END,
    B_EXITED,
    B_ID,
    B_LIVE,
    B_SHARED,
    B_START,
    B_THREADS,
    B_X,
    B_Y,
    B_Z,
    BR_COLUMNS,
    C_CODE_SHIFT,
    C_GRID_X,
    C_GRID_Y,
    C_HAS_CONTROL,
    C_ISSUE_ORDER,
    C_LOAD_RESERVE,
    C_QUEUE,
    C_REGISTER_ROWS,
    C_REGISTERS,
    C_REPLAY,
    C_REQUEST_QUEUE,
    C_ROWS,
    C_SHARED_BYTES,
    C_SHARED_ROWS,
    C_SUBCORES,
    C_THREADS,
    C_WARPS,
    C_WGMMA_QUEUE,
    CACHE_LINE,
    DRAINING,
    E_COLUMNS,
    ER_CODE,
    FOREIGN_SLOTS,
    ISSUE_ORDERS,
    MAX_GROUPS,
    MAX_NODES,
    MAX_STRONG,
    MAX_SUBCORES,
    MAX_WARPS,
    NEVER,
    NOT_READY,
    R_COLUMNS,
    RECORD_TIMES,
    RING,
    SB_COLUMNS,
    SC_COLUMNS,
    SC_LAST,
    SC_NEXT,
    SC_PIPES,
    SC_PRODUCT_TIMES,
    SC_PRODUCTS,
    SC_QUEUE,
    SC_QUEUE_TIMES,
    SC_STAYS,
    SCORE_READ,
    SCORE_READY,
    SV_AGE,
    SV_BACKLOG,
    SV_COLUMNS,
    SV_COMPLETION,
    SV_EVENTS,
    SV_FREE_ENTRY,
    SV_NEXT,
    SV_NODES,
    SV_PACKETS,
    SV_RECORD,
    SV_STRONG,
    TICK,
    W_COLUMNS,
    W_EMPTY,
    W_EXITED,
    W_INDEX,
    W_LINE,
    W_LIVE,
    W_MASK,
    W_PC,
    W_PENDING,
    W_REGISTERS,
    W_SINCE,
    W_SLOT,
    W_STATE,
    W_TRACE,
)
from sim.core.link import lend
from sim.core.mbarrier import complete_until
from sim.core.request_queue import ring_room
from sim.core.rows import i64, lanes, least, load, mask_of, prefetch, store, where
from sim.counters import Sm, Stall
from sim.isa import CONVERGENCE_BARRIERS, PREDICATES, WARP_SIZE, Col, Pipe
from sim.limits import MAX_PRODUCTS

SLOTS = MAX_WARPS // MAX_SUBCORES  #: warp slots a sub-core
SUBCORES_A_ROW = WARP_SIZE // SLOTS  #: `wake` of so many sub-cores fills a row of lanes
BLOCK_AGES = MAX_WARPS  #: ages that the warps of one block take
GTO, OLDEST_BLOCK = ISSUE_ORDERS.index("gto"), ISSUE_ORDERS.index("oldest_block")
MATH_PIPE_THROTTLE = int(Stall.MATH_PIPE_THROTTLE)
MIO_THROTTLE = int(Stall.MIO_THROTTLE)
LG_THROTTLE = int(Stall.LG_THROTTLE)
TEX_THROTTLE = int(Stall.TEX_THROTTLE)
DRAIN = int(Stall.DRAIN)
BLOCKS, WARPS = int(Sm.BLOCKS), int(Sm.WARPS)
ISSUE_ACTIVE, ELIGIBLE = int(Sm.ISSUE_ACTIVE), int(Sm.ELIGIBLE)
LSU = int(Pipe.LSU)
COL_YIELD = int(Col.YIELD)
GLOBAL_ACCESS = LSU + 256  #: of `Shared.needs`, an access of global memory: a place in L1's queue
PRODUCT = 1024  #: a warpgroup product: a place in the tensor cores' queue


@inner(inline="always")
def waits_for(a, s, m, w, sub, slot, reason, t):
    """From cycle `t` on the warp waits for `reason`; if that is new, the cycles before are accounted."""
    if a.why[sub, slot] != reason:
        charge(a, s, m, w, sub, slot, t)
        a.why[sub, slot] = reason


@inner(inline="always")
def queue_free(a, s, sub, t):
    """When the sub-core's memory queue takes another instruction."""
    n, depth = a.sc[sub, SC_QUEUE], s.cfg[C_QUEUE]
    return a.sc[sub, SC_QUEUE_TIMES + (n - depth) % 16] if n >= depth else t


@inner(inline="always")
def products_free(a, s, sub, t):
    """When the sub-core's queue of warpgroup products takes another."""
    n, depth = a.sc[sub, SC_PRODUCTS], s.cfg[C_WGMMA_QUEUE]
    return a.sc[sub, SC_PRODUCT_TIMES + (n - depth) % MAX_PRODUCTS] if n >= depth else t


@inner(inline="always")
def room_for_loads(a, s):
    """Whether another global access can be kept until it is answered."""
    return (
        a.sv[SV_FREE_ENTRY] >= 0
        and ring_room(a) >= s.cfg[C_LOAD_RESERVE]
        and a.sv[SV_NODES] <= MAX_NODES - 256
        and a.sv[SV_STRONG] < MAX_STRONG
        and a.sv[SV_BACKLOG] < s.cfg[C_REQUEST_QUEUE]
    )


@inner(forceinline=True)
def retire(a, m, w, sub, slot, t):
    """A drained warp leaves; with the last one, its block ends."""
    ws = a.ws
    ws[w, W_STATE] = W_EMPTY
    a.wake[sub, slot] = NEVER
    b = ws[w, W_SLOT]
    a.sm[WARPS] += t
    a.bs[b, B_LIVE] -= 1
    if a.bs[b, B_LIVE] == 0:
        a.bs[b, B_END] = t
        a.sv[SV_EVENTS] += 1


@inner(inline="always")
def row_of_slots(sub):
    """(row of lanes that holds what the sub-core's warp slots have, the first slot's lane)."""
    return sub // SUBCORES_A_ROW, sub % SUBCORES_A_ROW * SLOTS


@inner(inline="always")
def awake_slots(a, sub, t):
    """The sub-core's warp slots that may issue at cycle `t`, as a mask."""
    row, place = row_of_slots(sub)
    return (mask_of(load(a.wake, row) <= i64(t)) >> place) & ((1 << SLOTS) - 1)


@inner(inline="always")
def hold_back(a, sub, slots, until):
    """Of these slots, let those that have waited for L1's queue wait on, until `until`; returns the others."""
    row, place = row_of_slots(sub)
    loads, waited = load(a.need, row) == i64(GLOBAL_ACCESS), load(a.why, row) == i64(LG_THROTTLE)
    held = slots & (mask_of(loads) & mask_of(waited)) >> place
    store(a.wake, row, i64(until), held << place)
    return slots & ~held


@inner(inline="always")
def next_wake(a, sub):
    """The first cycle at which one of the sub-core's warps may issue."""
    row, place = row_of_slots(sub)
    return least(where(lanes(((1 << SLOTS) - 1) << place), load(a.wake, row), NEVER))


@inner(inline="always")
def next_event(a, subcores):
    """The first cycle at which a sub-core may issue, or a barrier of the SM is complete."""
    soonest = a.sv[SV_COMPLETION]
    for sub in range(subcores):
        soonest = min(soonest, a.sc[sub, SC_NEXT])
    return soonest


@inner(inline="always")
def pass_over(a, sub, slots):
    """Note that warps could have issued in this cycle and were not selected; `charge` accounts it."""
    row, place = row_of_slots(sub)
    store(a.passed_over, row, load(a.passed_over, row) + 1, slots << place)


@inner(inline="always")
def choose(a, sub, eligible, order, t):
    """Which of the eligible slots issues at cycle `t`.

    The one that issued last goes on if its instruction did not ask the scheduler to prefer another warp.
    """
    last = a.sc[sub, SC_LAST]
    if order == GTO:
        if last >= 0 and (eligible >> last) & 1:
            return last
        youngest = lowest_lane(eligible)
        left = eligible & (eligible - 1)
        while left:
            slot = lowest_lane(left)
            left &= left - 1
            if a.age[sub, slot] > a.age[sub, youngest]:
                youngest = slot
        return youngest
    if a.sc[sub, SC_STAYS] == t and last >= 0 and (eligible >> last) & 1:
        return last
    candidates = eligible
    if order == OLDEST_BLOCK and eligible & (eligible - 1):
        row, place = row_of_slots(sub)
        ages = load(a.age, row)
        block = least(where(lanes(eligible << place), ages, NEVER)) // BLOCK_AGES
        candidates = eligible & (mask_of(ages < i64((block + 1) * BLOCK_AGES)) >> place)
    later = candidates >> (last + 1) << (last + 1)
    return lowest_lane(later if later else candidates)


@inner
def bring_tables_near(a, subcores):
    """Ask the host's caches for what an SM's step begins with: other SMs have run since its last one."""
    for k in range(0, SV_COLUMNS, CACHE_LINE // 8):
        prefetch(a.sv, k)
    for k in range(0, len(a.sm), CACHE_LINE // 8):
        prefetch(a.sm, k)
    for k in range(0, len(a.ctx), CACHE_LINE // 8):
        prefetch(a.ctx, k)
    prefetch(a.er, 0)
    for k in range(0, subcores * SLOTS, CACHE_LINE // 8):
        prefetch(a.wake, k)
        prefetch(a.need, k)
        prefetch(a.why, k)
        prefetch(a.passed_over, k)
        prefetch(a.age, k)
    for k in range(0, subcores * SC_COLUMNS, CACHE_LINE // 8):
        prefetch(a.sc, k)


@inner
def bring_near(a, s, m, t1):
    """Ask the host's caches, all at once, for what the warps that may issue before `t1` will touch."""
    subcores = s.cfg[C_SUBCORES]
    prefetch(a.en, max(a.sv[SV_FREE_ENTRY], 0) * E_COLUMNS)
    prefetch(a.rq, a.sv[SV_PACKETS] % RING * R_COLUMNS)
    for sub in range(subcores):
        for slot in range(SLOTS):
            if a.wake[sub, slot] < t1:
                prefetch(a.ws, (slot * subcores + sub) * W_COLUMNS)
                prefetch(a.preds, (slot * subcores + sub) * PREDICATES)
                for k in range(0, 6 * SB_COLUMNS, CACHE_LINE // 8):
                    prefetch(a.sb, (slot * subcores + sub) * 6 * SB_COLUMNS + k)
    for sub in range(subcores):
        for slot in range(SLOTS):
            if a.wake[sub, slot] < t1:
                w = slot * subcores + sub
                base = s.cfg[C_SHARED_ROWS] + w * s.cfg[C_ROWS]
                pc = a.ws[w, W_PC]
                look_ahead(a, s, m, w, base, pc)
                look_ahead(a, s, m, w, base, pc + 1)
                approach(a, s, sub, (pc >> s.cfg[C_CODE_SHIFT]) + 1)


@inner(forceinline=True)
def run_sm(a, s, m, t0, t1):
    """Advance SM `m` from cycle `t0` to `t1`; stops early on an error. Sets SV_NEXT."""
    cfg, ws, sc, wake = s.cfg, a.ws, a.sc, a.wake
    subcores = cfg[C_SUBCORES]
    timed = a.sv[SV_RECORD] == RECORD_TIMES  # each interval by itself
    t = max(t0, a.sv[SV_NEXT])
    first = t0 // (t1 - t0) % subcores  # sub-cores take turns to be first: to what has room as a step begins
    while t < t1:
        if a.sv[SV_COMPLETION] <= t:
            complete_until(a, s, m, t)
        for i in range(subcores):
            sub = first + i if first + i < subcores else first + i - subcores
            if sc[sub, SC_NEXT] > t:
                continue
            eligible = 0
            queue = queue_free(a, s, sub, t)
            loads = max(queue, t if room_for_loads(a, s) else t1)
            awake = awake_slots(a, sub, t)
            if loads > t and awake & (awake - 1):
                awake = hold_back(a, sub, awake, loads)
            while awake:
                slot = lowest_lane(awake)
                awake &= awake - 1
                need = a.need[sub, slot]
                if need < 0:
                    w = slot * subcores + sub
                    if need == DRAINING:
                        charge(a, s, m, w, sub, slot, t)
                        if ws[w, W_PENDING] > 0:
                            wake[sub, slot] = t1
                        else:
                            retire(a, m, w, sub, slot, t)
                        continue
                    until, reason = waits(a, s, m, sub, w, t)
                    if until > t:
                        waits_for(a, s, m, w, sub, slot, reason, t)
                        if until >= NEVER and ws[w, W_PENDING] > 0:
                            until = t1  # by then the memory system has answered
                        wake[sub, slot] = until
                        continue
                    need = s.needs[ws[w, W_PC]]
                    a.need[sub, slot] = need
                if need == PRODUCT:
                    until = products_free(a, s, sub, t)
                    reason = MATH_PIPE_THROTTLE
                elif need & 15 == LSU:
                    until = loads if need == GLOBAL_ACCESS else queue
                    reason = LG_THROTTLE if need == GLOBAL_ACCESS else MIO_THROTTLE
                else:
                    until = min(sc[sub, SC_PIPES + (need & 15)], sc[sub, SC_PIPES + (need >> 4)]) // TICK
                    reason = MATH_PIPE_THROTTLE
                if until > t:
                    waits_for(a, s, m, slot * subcores + sub, sub, slot, reason, t)
                    wake[sub, slot] = until
                    continue
                if timed:
                    waits_for(a, s, m, slot * subcores + sub, sub, slot, NOT_SELECTED, t)
                eligible |= 1 << slot
            if eligible:
                chosen = choose(a, sub, eligible, cfg[C_ISSUE_ORDER], t)
                a.sm[ELIGIBLE] += popcount(eligible)
                a.sm[ISSUE_ACTIVE] += 1
                sc[sub, SC_LAST] = chosen
                sc[sub, SC_STAYS] = t + 1 if s.code[ws[chosen * subcores + sub, W_PC], COL_YIELD] else 0
                others = eligible & ~(1 << chosen)
                if others and not timed:
                    pass_over(a, sub, others)
                charge(a, s, m, chosen * subcores + sub, sub, chosen, t)
                issue(a, s, m, sub, chosen, chosen * subcores + sub, t, t1)
                if a.er[ER_CODE] != 0:
                    a.sv[SV_NEXT] = t
                    return
                sc[sub, SC_NEXT] = t + 1 if others or t + 1 == t1 else max(t + 1, next_wake(a, sub))
            else:
                sc[sub, SC_NEXT] = next_wake(a, sub)
        a.sv[SV_NEXT] = next_event(a, subcores)
        t = max(a.sv[SV_NEXT], t + 1)


@bare
def run_sms(st, s, first, last, t0, t1):
    """Advance SMs `first` to `last - 1`. Each touches only its own state, so ranges may run side by side."""
    for m in range(first, last):
        if m + 1 < last:
            bring_tables_near(st[m + 1], s.cfg[C_SUBCORES])
        if st[m].sv[SV_NEXT] < t1:
            lend(st[m], s)
            bring_near(st[m], s, m, t1)
            run_sm(st[m], s, m, t0, t1)


@inner
def start_block(a, s, m, b, block, t):
    """Put linear block `block` into slot `b` of SM `m` at cycle `t`; its warps may issue from then."""
    cfg, ws = s.cfg, a.ws
    for c in range(B_COLUMNS):
        a.bs[b, c] = 0
    a.bs[b, B_LIVE] = cfg[C_WARPS]
    a.bs[b, B_THREADS] = cfg[C_THREADS]
    a.bs[b, B_ID] = block
    a.bs[b, B_START] = t
    a.bs[b, B_END] = -1
    a.bs[b, B_EXITED] = NEVER
    a.bs[b, B_SHARED] = b * cfg[C_SHARED_BYTES]
    a.bs[b, B_X] = block % cfg[C_GRID_X]
    a.bs[b, B_Y] = block // cfg[C_GRID_X] % cfg[C_GRID_Y]
    a.bs[b, B_Z] = block // (cfg[C_GRID_X] * cfg[C_GRID_Y])
    for k in range(16):
        for c in range(BR_COLUMNS):
            a.br[b, k, c] = 0
    if cfg[C_SHARED_BYTES] > 0:
        a.s8[b * cfg[C_SHARED_BYTES] : (b + 1) * cfg[C_SHARED_BYTES]] = 0
    a.sm[BLOCKS] += 1
    for i in range(cfg[C_WARPS]):
        w = b * cfg[C_WARPS] + i
        for c in range(W_COLUMNS):
            ws[w, c] = 0
        lanes = min(32, cfg[C_THREADS] - 32 * i)
        full = (1 << lanes) - 1
        ws[w, W_STATE] = W_LIVE
        ws[w, W_MASK] = full
        ws[w, W_EXITED] = ~full & 0xFFFFFFFF
        ws[w, W_SLOT] = b
        ws[w, W_INDEX] = i
        ws[w, W_SINCE] = t
        ws[w, W_LINE] = -1
        ws[w, W_REGISTERS] = cfg[C_REGISTERS]
        a.sm[WARPS] -= t
        if not cfg[C_HAS_CONTROL]:
            for r in range(cfg[C_REGISTER_ROWS] + 32):
                a.score[w, r, SCORE_READY] = 0
                a.score[w, r, SCORE_READ] = 0
        for k in range(6):
            a.sb[w, k, 0] = 0
            a.sb[w, k, 1] = 0
        for k in range(MAX_GROUPS):
            a.ag[w, k, 0] = 0
            a.ag[w, k, 1] = 0
            a.wg[w, k] = 0
        for k in range(CONVERGENCE_BARRIERS + FOREIGN_SLOTS):
            a.cb[w, k] = 0
        for k in range(PREDICATES):
            a.preds[w, k] = 0
        a.preds[w, 7] = 0xFFFFFFFF
        a.preds[w, 15] = 0xFFFFFFFF
        if cfg[C_REPLAY]:
            at = block * cfg[C_WARPS] + i
            ws[w, W_TRACE] = s.replay_at[at]
            ws[w, W_PC] = s.replay[s.replay_at[at], 2]
        sub, slot = w % cfg[C_SUBCORES], w // cfg[C_SUBCORES]
        a.wake[sub, slot] = t
        a.need[sub, slot] = NOT_READY
        a.why[sub, slot] = 0
        a.age[sub, slot] = a.sv[SV_AGE] * BLOCK_AGES + i
        if a.sc[sub, SC_LAST] == slot:
            a.sc[sub, SC_LAST] = -1
        a.sc[sub, SC_NEXT] = min(a.sc[sub, SC_NEXT], t)
        a.sv[SV_NEXT] = min(a.sv[SV_NEXT], t)
    a.sv[SV_AGE] += 1
