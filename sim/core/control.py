"""Divergence: the parts of a warp, convergence barriers, and which part runs.

A warp runs one part at a time. A branch on which lanes disagree splits it: the
lanes that fall through go on, the others are put aside. When the running part
stops at a convergence barrier, at the block's barrier or by exiting, the part
put aside last that can run takes over. A convergence barrier opens when every
lane that it still waits for has arrived or exited.
"""

from __future__ import annotations

from sim._jit import inner
from sim.core.layout import (
    ER_CODE,
    ERROR_CONVERGENCE,
    MAX_SPLITS,
    SP_MASK,
    SP_PC,
    SP_RUNNABLE,
    SP_WAIT,
    W_EXITED,
    W_MASK,
    W_PC,
    W_SPLITS,
)


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
        for c in range(3):
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
def arrived_at(a, m, w, barrier):
    """Lanes that wait at a convergence barrier."""
    lanes = 0
    for k in range(a.ws[w, W_SPLITS]):
        if a.sp[w, k, SP_WAIT] == barrier:
            lanes |= a.sp[w, k, SP_MASK]
    return lanes


@inner
def open_barrier(a, m, w, barrier, lanes, pc):
    """Merge the parts at `barrier` into one runnable part of `lanes` at `pc`."""
    k = a.ws[w, W_SPLITS] - 1
    while k >= 0:
        if a.sp[w, k, SP_WAIT] == barrier:
            drop_part(a, m, w, k)
        k -= 1
    put_aside(a, m, w, pc, lanes, SP_RUNNABLE)


@inner
def converge(a, m, w, barrier, pc):
    """BSYNC: the running part arrives; afterwards the warp runs on, or another part does. False if none can."""
    mask = a.ws[w, W_MASK]
    waited = a.cb[w, barrier] & ~a.ws[w, W_EXITED]
    lanes = mask | arrived_at(a, m, w, barrier)
    if lanes & waited == waited:
        open_barrier(a, m, w, barrier, lanes, pc + 1)
    else:
        put_aside(a, m, w, pc + 1, mask, barrier)
    return take_runnable(a, m, w)


@inner
def leave(a, m, w, lanes):
    """EXIT of some lanes: they count as arrived wherever they are waited for. False if no part can run."""
    a.ws[w, W_EXITED] |= lanes
    a.ws[w, W_MASK] &= ~lanes
    exited = a.ws[w, W_EXITED]
    for barrier in range(16):
        here = arrived_at(a, m, w, barrier)
        waited = a.cb[w, barrier] & ~exited
        if here != 0 and here & waited == waited:
            pc = 0
            for k in range(a.ws[w, W_SPLITS]):
                if a.sp[w, k, SP_WAIT] == barrier:
                    pc = a.sp[w, k, SP_PC]
            open_barrier(a, m, w, barrier, here, pc)
    if a.ws[w, W_MASK] != 0:
        return True
    return take_runnable(a, m, w)
