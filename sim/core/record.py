"""What is recorded of an SM while it runs: the instructions that it issues, and who was in which state when."""

from __future__ import annotations

from sim._jit import inner
from sim.core.layout import (
    B_ID,
    I_BLOCK,
    I_END,
    I_PC,
    I_SLOT,
    I_START,
    I_STATE,
    I_TRACK,
    I_WARP,
    SV_INTERVALS,
    SV_TRACE,
    T_ACTIVE,
    T_BLOCK,
    T_ON,
    T_PC,
    T_WARP,
    W_INDEX,
    W_SLOT,
)


@inner
def record(a, s, m, w, pc, active, on):
    """Add the instruction to this step's trace records."""
    n = a.sv[SV_TRACE]
    s.trace[m, n, T_BLOCK] = a.bs[a.ws[w, W_SLOT], B_ID]
    s.trace[m, n, T_WARP] = a.ws[w, W_INDEX]
    s.trace[m, n, T_PC] = pc
    s.trace[m, n, T_ACTIVE] = active
    s.trace[m, n, T_ON] = on
    a.sv[SV_TRACE] = n + 1


@inner
def note(a, s, m, track, state, w, pc, start, end):
    """Add an interval of warp `w` to this step's.

    There is room: a warp's intervals do not overlap, and of those in flight each has had a waiting entry.
    """
    row = s.intervals[m, a.sv[SV_INTERVALS]]
    row[I_TRACK] = track
    row[I_SLOT] = w
    row[I_BLOCK] = a.bs[a.ws[w, W_SLOT], B_ID]
    row[I_WARP] = a.ws[w, W_INDEX]
    row[I_STATE] = state
    row[I_PC] = pc
    row[I_START] = start
    row[I_END] = end
    a.sv[SV_INTERVALS] += 1
