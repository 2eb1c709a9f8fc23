"""What a block's warps wait for together: the cluster's barrier, registers that others give back."""

from __future__ import annotations

from sim._jit import inner
from sim.core.access import popcount
from sim.core.layout import (
    B_ARRIVED,
    B_EXITED,
    B_LAST,
    B_OPENED,
    B_PHASE,
    B_THREADS,
    C_BARRIER_STEP,
    C_CLUSTER,
    C_CLUSTER_BARRIER,
    C_SUBCORES,
    C_WARPS,
    NEVER,
    SC_NEXT,
    SV_BARRIER_FREE,
    SV_NEXT,
    TICK,
    W_LIVE,
    W_PHASE,
    W_SLOT,
    W_STATE,
)


@inner
def rouse(a, s, slot, time):
    """The warps of a block look again at `time` for what they wait for."""
    for w in range(slot * s.cfg[C_WARPS], (slot + 1) * s.cfg[C_WARPS]):
        if a.ws[w, W_STATE] == W_LIVE:
            sub, place = w % s.cfg[C_SUBCORES], w // s.cfg[C_SUBCORES]
            a.wake[sub, place] = min(a.wake[sub, place], time)
            a.sc[sub, SC_NEXT] = min(a.sc[sub, SC_NEXT], time)
            a.sv[SV_NEXT] = min(a.sv[SV_NEXT], time)


@inner
def open_phase(a, s, slot, time):
    """The phase of the cluster's barrier is complete for a block; those who wait go on at `time`."""
    a.bs[slot, B_ARRIVED] = 0
    a.bs[slot, B_PHASE] += 1
    a.bs[slot, B_OPENED] = time
    rouse(a, s, slot, time)


@inner
def open_alone(a, s, slot):
    """The same where the block is a cluster of its own, if its threads have arrived."""
    block = a.bs[slot]
    if s.cfg[C_CLUSTER] == 1 and block[B_ARRIVED] > 0 and block[B_ARRIVED] >= block[B_THREADS]:
        open_phase(a, s, slot, block[B_LAST] + s.cfg[C_CLUSTER_BARRIER])


@inner
def arrive_at_cluster(a, s, w, lanes, t):
    """A warp comes to the cluster's barrier; the barrier unit takes one after another."""
    slot = a.ws[w, W_SLOT]
    start = max(t * TICK, a.sv[SV_BARRIER_FREE])
    a.sv[SV_BARRIER_FREE] = start + s.cfg[C_BARRIER_STEP]
    a.ws[w, W_PHASE] += 1
    a.bs[slot, B_ARRIVED] += popcount(lanes)
    a.bs[slot, B_LAST] = max(a.bs[slot, B_LAST], start // TICK)
    open_alone(a, s, slot)


@inner
def cluster_waited(a, w):
    """When the phase of the cluster's barrier at which the warp arrived last is complete."""
    block = a.bs[a.ws[w, W_SLOT]]
    return block[B_OPENED] if block[B_PHASE] >= a.ws[w, W_PHASE] else NEVER


@inner
def threads_exit(a, s, slot, count, t):
    """Threads of a block exit; nobody waits for them at the cluster's barrier."""
    a.bs[slot, B_THREADS] -= count
    if a.bs[slot, B_THREADS] == 0:
        a.bs[slot, B_EXITED] = t
    open_alone(a, s, slot)
