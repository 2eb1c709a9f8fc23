"""Mbarriers: 64-bit words of shared memory that count arrivals and bytes, phase by phase.

A word is laid out as compiled code initialises it: bits 1 to 20 the negated number of
arrivals that each phase expects, bits 43 to 62 that of arrivals still pending, bit 63
the phase's parity; between them, bits 21 to 42, the bytes still to come. A phase is
complete when no arrival is pending and no bytes are to come. Then the next begins.
"""

from __future__ import annotations

import numpy as np

from sim._jit import inner
from sim.core.layout import (
    AG_LEFT,
    AG_TIME,
    C_HAS_CONTROL,
    C_MBARRIER_ARRIVE,
    C_MBARRIER_WAKE,
    C_REGISTER_ROWS,
    C_SUBCORES,
    CM_ARRIVALS,
    CM_BARRIER,
    CM_BLOCK,
    CM_BYTES,
    CM_COLUMNS,
    CM_PC,
    CM_TIME,
    CM_WARP,
    ER_ADDRESS,
    ER_BLOCK,
    ER_CODE,
    ER_LANE,
    ER_PC,
    ER_WARP,
    ER_WIDTH,
    ERROR_BARRIER,
    LA_BARRIER,
    LA_BYTES,
    LA_COLUMNS,
    LA_COUNT,
    LA_GROUP,
    LA_WARP,
    MAX_GROUPS,
    MW_BARRIER,
    MW_COLUMNS,
    MW_LANES,
    MW_PARITY,
    MW_PC,
    MW_WARP,
    NEVER,
    SB_PENDING,
    SB_REASON,
    SB_TIME,
    SC_NEXT,
    SCORE_BITS,
    SCORE_READY,
    SV_ARRIVALS,
    SV_COMPLETION,
    SV_COMPLETIONS,
    SV_NEXT,
    SV_WAITERS,
    W_PENDING,
)
from sim.core.operands import write_predicate
from sim.counters import Stall
from sim.isa import Col

COUNT_BITS, COUNT = 20, (1 << 20) - 1
EXPECTED_SHIFT, BYTES_SHIFT, BYTES_BITS, PENDING_SHIFT = 1, 21, 22, 43
SHORT_SCOREBOARD = int(Stall.SHORT_SCOREBOARD)
COL_PD, COL_WBAR = int(Col.PD), int(Col.WBAR)


@inner
def word_of(memory, at):
    """The 64-bit word at byte `at`, as an int64."""
    value = np.int64(0)
    for k in range(8):
        value |= np.int64(memory[at + k]) << (8 * k)
    return value


@inner
def put_word(memory, at, value):
    """The inverse of `word_of`."""
    for k in range(8):
        memory[at + k] = (value >> (8 * k)) & 255


@inner
def negated(count):
    """A count from its negation, or the other way round."""
    return ((1 << COUNT_BITS) - (count & COUNT)) & COUNT


@inner
def pending_of(word):
    """(arrivals still pending, bytes to come, arrivals that a phase expects)."""
    coming = (word >> BYTES_SHIFT) & ((1 << BYTES_BITS) - 1)
    if coming >= 1 << (BYTES_BITS - 1):
        coming -= 1 << BYTES_BITS
    return negated(word >> PENDING_SHIFT), coming, negated(word >> EXPECTED_SHIFT)


@inner
def is_initialised(word):
    """Whether a word is an mbarrier: memory that nobody wrote expects no arrivals."""
    return (word >> EXPECTED_SHIFT) & COUNT != 0


@inner
def parity_of(word):
    """The parity of the phase under way."""
    return (word >> 63) & 1


@inner
def change(a, s, m, at, arrivals, more_bytes, dropped, time):
    """Count `arrivals` and `more_bytes` (negative: that came) at the mbarrier at offset `at`, in cycle `time`.

    `dropped` of the arrivals are no longer expected. If the phase completes, its waiters go on.
    """
    word = word_of(a.s8, at)
    if not is_initialised(word):
        return ERROR_BARRIER
    pending, coming, expected = pending_of(word)
    pending -= arrivals
    coming += more_bytes
    expected -= dropped
    parity = parity_of(word)
    if pending < 0:
        return ERROR_BARRIER
    complete = pending == 0 and coming == 0
    if complete:
        parity ^= 1
        pending = expected
    new = negated(expected) << EXPECTED_SHIFT
    new |= (coming & ((1 << BYTES_BITS) - 1)) << BYTES_SHIFT
    new |= negated(pending) << PENDING_SHIFT
    new |= parity << 63
    put_word(a.s8, at, new)
    if complete:
        wake(a, s, m, at, parity, time)
    return 0


@inner
def wake(a, s, m, at, parity, time):
    """The phase before the one of `parity` is complete at the mbarrier at `at`: who waits for it goes on."""
    k = 0
    while k < a.sv[SV_WAITERS]:
        waiter = a.mw[k]
        if waiter[MW_BARRIER] != at or waiter[MW_PARITY] == parity:
            k += 1
            continue
        w, pc = waiter[MW_WARP], waiter[MW_PC]
        write_predicate(a.preds[w], s.code[pc, COL_PD], waiter[MW_LANES], waiter[MW_LANES])
        ready = time + s.cfg[C_MBARRIER_WAKE]
        predicate_known(a, s, w, pc, ready)
        if s.cfg[C_HAS_CONTROL] and s.code[pc, COL_WBAR] < 6:
            a.sb[w, s.code[pc, COL_WBAR], SB_PENDING] -= 1
        sub, slot = w % s.cfg[C_SUBCORES], w // s.cfg[C_SUBCORES]
        a.wake[sub, slot] = min(a.wake[sub, slot], ready)
        a.sc[sub, SC_NEXT] = min(a.sc[sub, SC_NEXT], ready)
        a.sv[SV_NEXT] = min(a.sv[SV_NEXT], ready)
        a.sv[SV_WAITERS] -= 1
        for c in range(MW_COLUMNS):
            waiter[c] = a.mw[a.sv[SV_WAITERS], c]


@inner
def predicate_known(a, s, w, pc, time):
    """The predicate of the wait at `pc` is there at `time`."""
    registers, pd = s.cfg[C_REGISTER_ROWS], s.code[pc, COL_PD]
    a.score[w, registers + pd, SCORE_READY] = time << SCORE_BITS | SHORT_SCOREBOARD
    a.score[w, registers + 16 + pd, SCORE_READY] = time << SCORE_BITS | SHORT_SCOREBOARD
    if s.cfg[C_HAS_CONTROL] and s.code[pc, COL_WBAR] < 6:
        barrier = s.code[pc, COL_WBAR]
        a.sb[w, barrier, SB_TIME] = max(a.sb[w, barrier, SB_TIME], time)
        a.sb[w, barrier, SB_REASON] = SHORT_SCOREBOARD


@inner
def wait(a, s, m, w, pc, at, parity, lanes):
    """The warp's predicate at `pc` waits until the phase of `parity` is complete."""
    waiter = a.mw[a.sv[SV_WAITERS]]
    waiter[MW_WARP] = w
    waiter[MW_BARRIER] = at
    waiter[MW_PARITY] = parity
    waiter[MW_PC] = pc
    waiter[MW_LANES] = lanes
    a.sv[SV_WAITERS] += 1
    if s.cfg[C_HAS_CONTROL]:
        if s.code[pc, COL_WBAR] < 6:
            a.sb[w, s.code[pc, COL_WBAR], SB_PENDING] += 1
            a.sb[w, s.code[pc, COL_WBAR], SB_REASON] = SHORT_SCOREBOARD
    else:
        predicate_known(a, s, w, pc, NEVER)


@inner
def will_complete(a, at, time, came, arrivals):
    """At cycle `time` the mbarrier at `at` learns that `came` bytes have come, and of `arrivals`."""
    entry = a.cm[a.sv[SV_COMPLETIONS]]
    entry[CM_TIME] = time
    entry[CM_BARRIER] = at
    entry[CM_BYTES] = came
    entry[CM_ARRIVALS] = arrivals
    entry[CM_PC] = -1
    a.sv[SV_COMPLETIONS] += 1
    a.sv[SV_COMPLETION] = min(a.sv[SV_COMPLETION], time)
    a.sv[SV_NEXT] = min(a.sv[SV_NEXT], time)


@inner
def copies_complete(a, w, group):
    """When the warp's groups of asynchronous copies up to `group` are complete; NEVER if that is not known yet."""
    when = 0
    for g in range(max(0, group - MAX_GROUPS + 1), group + 1):
        if a.ag[w, g % MAX_GROUPS, AG_LEFT] > 0:
            return NEVER
        when = max(when, a.ag[w, g % MAX_GROUPS, AG_TIME])
    return when


@inner
def arrive_after_copies(a, s):
    """Let the mbarriers that wait for warps' copies know when these come, as far as the step has told."""
    kept = 0
    for k in range(a.sv[SV_ARRIVALS]):
        entry = a.la[k]
        when = copies_complete(a, entry[LA_WARP], entry[LA_GROUP])
        if when != NEVER:
            a.ws[entry[LA_WARP], W_PENDING] -= 1
            time = when + s.cfg[C_MBARRIER_ARRIVE]
            will_complete(a, entry[LA_BARRIER], time, entry[LA_BYTES], entry[LA_COUNT])
            continue
        for c in range(LA_COLUMNS):
            a.la[kept, c] = entry[c]
        kept += 1
    a.sv[SV_ARRIVALS] = kept


@inner
def will_arrive(a, at, time, expected, arrivals, pc, block, warp):
    """At cycle `time` a warp of another block arrives at the mbarrier at `at`, and expects bytes."""
    entry = a.cm[a.sv[SV_COMPLETIONS]]
    will_complete(a, at, time, -expected, arrivals)
    entry[CM_PC] = pc
    entry[CM_BLOCK] = block
    entry[CM_WARP] = warp


@inner
def refuse(a, entry, code):
    """Note the error of a warp's arrival; the device raises it."""
    er = a.er
    er[ER_CODE] = code
    er[ER_PC] = entry[CM_PC]
    er[ER_BLOCK] = entry[CM_BLOCK]
    er[ER_WARP] = entry[CM_WARP]
    er[ER_LANE] = 0
    er[ER_ADDRESS] = entry[CM_BARRIER]
    er[ER_WIDTH] = 8


@inner
def complete_until(a, s, m, t):
    """Perform the completions that are due by cycle `t`, by time, then in the order in which they were noted."""
    while a.sv[SV_COMPLETION] <= t:
        first, n = 0, a.sv[SV_COMPLETIONS]
        for k in range(1, n):
            if a.cm[k, CM_TIME] < a.cm[first, CM_TIME]:
                first = k
        entry = a.cm[first]
        code = change(a, s, m, entry[CM_BARRIER], entry[CM_ARRIVALS], -entry[CM_BYTES], 0, entry[CM_TIME])
        if code != 0 and entry[CM_PC] >= 0:  # else of a copy to a block that has ended, whose mbarrier counts no longer
            refuse(a, entry, code)
        for k in range(first, n - 1):
            for c in range(CM_COLUMNS):
                a.cm[k, c] = a.cm[k + 1, c]
        a.sv[SV_COMPLETIONS] = n - 1
        soonest = NEVER
        for k in range(n - 1):
            soonest = min(soonest, a.cm[k, CM_TIME])
        a.sv[SV_COMPLETION] = soonest
