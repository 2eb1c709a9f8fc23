"""Passes that shared memory loses to lines of L1 in its half of the array, and to thread numbers (microbench_11)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import sim
from sim.counters import Inst
from sim.isa import Op, Space, TimingClass
from sim.profile import load_profile
from sim.program import Imm
from tests.core.launches import run
from tests.core.programs import alu, control, memory, program, s2r

LINE = 32  #: words
APART = 80  #: lines of the toy's array of 20 KiB that lie in the half without shared memory
#: Warps take turns, and wait for no instruction after the first turn.
TOY = load_profile("toy").override({"core.issue_order": "lrr", "icache.l0_bytes": 8192})
TURNS = 6_000  #: of the warps that use shared memory: longer than the lines take
WAYS = 2  #: passes of an access
BUSY = 16  #: warps that use shared memory; so many leave it no idle cycle


def passes_lost(store_shared: bool, store_lines: bool, lines: int) -> int:
    """Passes that `BUSY` warps lose, who keep shared memory busy while one more loads or stores `lines` lines."""

    @sim.kernel
    def mixed(k, x, y):
        s = k.shared(4 * LINE * WAYS, np.float32)
        t = k.thread_idx.x
        total = k.var(0.0)
        with k.if_(t < BUSY * LINE):
            for i in k.range_(TURNS, unroll=16):
                if store_shared:
                    s[t % (4 * LINE) * WAYS] = 1.0
                else:
                    total.set(total + s[t % (4 * LINE) * WAYS + i % WAYS])
            with k.if_(total < 0.0):
                y[t] = total
        with k.else_():
            for i in k.range_(lines):
                if store_lines:
                    x[i * LINE + t - BUSY * LINE] = 1.0
                else:
                    total.set(total + x[i * LINE + t - BUSY * LINE])
            with k.if_(total < 0.0):
                y[t] = total

    result, _ = run(
        mixed.launch(1, (BUSY + 1) * LINE, args=(np.ones(LINE * lines, np.float32), sim.zeros((BUSY + 1) * LINE))),
        gpu=TOY,
    )
    op = Op.ST if store_shared else Op.LD
    shared = [i.op is op and i.space is Space.SHARED for i in result.program.instructions]
    executed, wavefronts = result.inst[shared][:, [Inst.EXECUTED, Inst.WAVEFRONTS]].sum(axis=0)
    assert executed == BUSY * TURNS
    return int(wavefronts - WAYS * executed)


@pytest.mark.parametrize(("lines", "lost"), [(APART, 0), (APART + 1, 2), (APART + 10, 20), (APART + 16, 32)])
def test_lines_from_l2_cost_shared_stores_two_passes_each_in_their_half(lines, lost):
    assert passes_lost(store_shared=True, store_lines=False, lines=lines) == lost


@pytest.mark.parametrize(("lines", "lost"), [(APART, 0), (APART + 1, 2), (APART + 10, 20)])
def test_stored_lines_cost_shared_loads_two_passes_each_in_their_half(lines, lost):
    assert passes_lost(store_shared=False, store_lines=True, lines=lines) == lost


@pytest.mark.parametrize("store", [False, True])
def test_reads_and_writes_do_not_disturb_each_other(store):
    assert passes_lost(store_shared=store, store_lines=store, lines=APART + 16) == 0


@pytest.mark.parametrize(("pipe", "passes"), [("lsu", 5), ("adu", 4)])
def test_a_shared_load_behind_a_thread_number_loses_a_pass(pipe, passes):
    """Of four warps on four sub-cores the first's load comes right behind the last's number."""
    number = replace(s2r(0, "TID_X"), cls=TimingClass.TID)
    zero = alu(Op.IMAD, 4, Imm(0), Imm(0), Imm(0))
    body = [zero, number, memory(Op.LD, Space.SHARED, 4, 5), control(Op.EXIT)]
    words = np.zeros(1, np.uint32)
    gpu = load_profile("toy").override({"timing.tid.pipe": pipe})
    result, _ = run(program("numbers", body, shared=256), 1, 4 * LINE, (words, words, 1), gpu=gpu)
    assert result.inst[2, [Inst.EXECUTED, Inst.WAVEFRONTS]].tolist() == [4, passes]
