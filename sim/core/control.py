"""Divergence: the parts of a warp, convergence barriers, and which part runs.

A warp runs one part at a time. A branch on which lanes disagree splits it: the
lanes that fall through go on, the others are put aside. When the running part
stops at a convergence barrier, at `WARPSYNC`, at the block's barrier or by exiting,
the part put aside last that can run takes over. A convergence barrier opens when
every lane that it still waits for has arrived, exited or left it by `BREAK`.

Two parts may join a convergence barrier of one number, each on its way through its
own side of a branch, before either has come out. The second then gets another slot,
so that neither waits for the other's lanes.
"""

from __future__ import annotations

from sim._jit import inner
from sim.core.layout import (
    ER_CODE,
    ERROR_CONVERGENCE,
    FOREIGN_SLOTS,
    MAX_SPLITS,
    SP_AT_BARRIER,
    SP_AT_WARPSYNC,
    SP_COLUMNS,
    SP_MASK,
    SP_PC,
    SP_RUNNABLE,
    SP_WAIT,
    W_EXITED,
    W_MASK,
    W_PC,
    W_SPLITS,
)
from sim.isa import CONVERGENCE_BARRIERS


@inner
def put_aside(a, m, w, pc, mask, wait):
    """Add a part (pc, mask) that waits for `wait` to the warp's split table."""
    n = a.ws[w, W_SPLITS]
    if n >= MAX_SPLITS:
        a.er[ER_CODE] = ERROR_CONVERGENCE
        return
    a.sp[w, n, SP_PC] = pc
    a.sp[w, n, SP_MASK] = mask
    a.sp[w, n, SP_WAIT] = wait
    a.ws[w, W_SPLITS] = n + 1


@inner
def drop_part(a, m, w, k):
    """Remove part `k`, keeping the order of the rest."""
    n = a.ws[w, W_SPLITS] - 1
    for j in range(k, n):
        for c in range(SP_COLUMNS):
            a.sp[w, j, c] = a.sp[w, j + 1, c]
    a.ws[w, W_SPLITS] = n


@inner
def take_runnable(a, m, w):
    """Make the part put aside last that can run the running one; False if there is none."""
    for k in range(a.ws[w, W_SPLITS] - 1, -1, -1):
        if a.sp[w, k, SP_WAIT] == SP_RUNNABLE:
            a.ws[w, W_PC] = a.sp[w, k, SP_PC]
            a.ws[w, W_MASK] = a.sp[w, k, SP_MASK]
            drop_part(a, m, w, k)
            return True
    a.ws[w, W_MASK] = 0
    return False


@inner
def arrived_at(a, m, w, wait):
    """Lanes that wait for `wait`."""
    lanes = 0
    for k in range(a.ws[w, W_SPLITS]):
        if a.sp[w, k, SP_WAIT] == wait:
            lanes |= a.sp[w, k, SP_MASK]
    return lanes


@inner
def waited_for(a, m, w, wait):
    """Lanes that have to arrive before `wait`, a slot of a convergence barrier or a `WARPSYNC`, opens."""
    lanes = a.cb[w, wait] if wait < SP_AT_BARRIER else wait - SP_AT_WARPSYNC
    return lanes & ~a.ws[w, W_EXITED]


@inner
def open_if_complete(a, m, w, wait):
    """Let the parts that wait for `wait` run if no lane is missing; those at one instruction become one part."""
    if waited_for(a, m, w, wait) & ~arrived_at(a, m, w, wait) != 0:
        return False
    k = a.ws[w, W_SPLITS] - 1
    while k >= 0:
        if a.sp[w, k, SP_WAIT] == wait:
            a.sp[w, k, SP_WAIT] = SP_RUNNABLE
            for j in range(k - 1, -1, -1):
                if a.sp[w, j, SP_WAIT] == wait and a.sp[w, j, SP_PC] == a.sp[w, k, SP_PC]:
                    a.sp[w, k, SP_MASK] |= a.sp[w, j, SP_MASK]
                    drop_part(a, m, w, j)
                    k -= 1
        k -= 1
    if wait < SP_AT_BARRIER:
        a.cb[w, wait] = 0
    return True


@inner
def open_complete(a, m, w):
    """Open whatever parts of this warp wait for and no lane is missing at any more."""
    k = 0
    while k < a.ws[w, W_SPLITS]:
        wait = a.sp[w, k, SP_WAIT]
        k += 1
        if (0 <= wait and wait < SP_AT_BARRIER) or wait >= SP_AT_WARPSYNC:
            if open_if_complete(a, m, w, wait):
                k = 0


@inner
def slot_of(a, m, w, barrier, lanes):
    """The slot of `a.cb` in which `lanes` joined convergence barrier `barrier`."""
    if a.cb[w, barrier] & lanes == 0:
        for k in range(FOREIGN_SLOTS):
            slot = CONVERGENCE_BARRIERS + k
            if a.foreign[w, k] == barrier and a.cb[w, slot] & lanes != 0:
                return slot
    return barrier


@inner
def join(a, m, w, barrier, lanes):
    """BSSY: `lanes` will meet again at `barrier`, whatever they joined by that number before."""
    live = ~a.ws[w, W_EXITED]
    slot = barrier
    if a.cb[w, barrier] & live & ~lanes != 0:
        slot = -1
    for k in range(FOREIGN_SLOTS):
        at = CONVERGENCE_BARRIERS + k
        if a.foreign[w, k] == barrier:
            a.cb[w, at] &= ~lanes
        if slot < 0 and a.cb[w, at] & live == 0:
            slot = at
            a.foreign[w, k] = barrier
    if slot < 0:
        a.er[ER_CODE] = ERROR_CONVERGENCE
        return
    a.cb[w, barrier] &= ~lanes
    a.cb[w, slot] = lanes


@inner
def meet(a, m, w, wait, lanes, pc):
    """`lanes` of the running part arrive at `wait` and go on at `pc` when it opens; the others go on at once.

    False if no part of the warp can run.
    """
    put_aside(a, m, w, pc, lanes, wait)
    open_if_complete(a, m, w, wait)
    a.ws[w, W_MASK] &= ~lanes
    return a.ws[w, W_MASK] != 0 or take_runnable(a, m, w)


@inner
def forget(a, m, w, barrier, lanes):
    """BREAK: convergence barrier `barrier` no longer waits for `lanes`."""
    a.cb[w, slot_of(a, m, w, barrier, lanes)] &= ~lanes
    open_complete(a, m, w)


@inner
def leave(a, m, w, lanes):
    """EXIT of some lanes: they count as arrived wherever they are waited for. False if no part can run."""
    a.ws[w, W_EXITED] |= lanes
    a.ws[w, W_MASK] &= ~lanes
    open_complete(a, m, w)
    return a.ws[w, W_MASK] != 0 or take_runnable(a, m, w)
