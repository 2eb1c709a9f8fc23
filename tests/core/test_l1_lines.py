"""Which lines stay in L1: how many of one warp's accesses hit, here and on the card (microbench_12)."""

from __future__ import annotations

import numpy as np
import pytest

import sim
from sim.counters import Inst
from sim.isa import Op, Space
from tests.core.launches import run, small

GPU = small(occupancy__shared_carveouts_kib=[64, 228])  #: a carve-out of 64 KiB leaves 1,472 lines
LINE = 32  #: words


@sim.kernel
def forth_and_back(k, x, out, lines):
    """Loads `lines` lines from the first to the last, then from the last to the first."""
    total = k.var(0.0)
    for i in k.range_(lines):
        total.set(total + x[i * LINE + k.thread_idx.x])
    for i in k.range_(lines):
        total.set(total + x[(lines - 1 - i) * LINE + k.thread_idx.x])
    out[k.thread_idx.x] = total


@sim.kernel
def round_and_round(k, x, out, lines, count):
    """Loads `count` lines, again and again the same `lines`."""
    total = k.var(0.0)
    for i in k.range_(count):
        total.set(total + x[i % lines * LINE + k.thread_idx.x])
    out[k.thread_idx.x] = total


def hits(kernel, lines: int, *more: int) -> int:
    """Lines that a launch of one warp found in L1, with all four sectors."""
    x = np.zeros(lines * LINE, np.float32)
    work = kernel.launch(1, LINE, args=(x, sim.zeros(LINE), lines, *more))
    result, _ = run(work, gpu=GPU)
    loads = [i.op is Op.LD and i.space is Space.GLOBAL for i in result.program.instructions]
    return int(result.inst[loads, Inst.HIT_SECTORS].sum()) // 4


@pytest.mark.parametrize(("lines", "card"), [(1536, 1439), (1664, 1348), (1728, 1314), (1792, 1329), (1920, 1416)])
def test_lines_that_stay_are_those_of_the_card(lines, card):
    """Too many lines by an eighth cost most: a set in turn gives up a line, which is asked for before it is gone."""
    assert hits(forth_and_back, lines) == pytest.approx(card, rel=0.01)


def test_1472_lines_stay_beside_a_carve_out_of_64_kib():
    assert hits(forth_and_back, 1472) == 1472
    assert hits(forth_and_back, 1473) < 1473


@pytest.mark.parametrize(("lines", "card"), [(1536, 4772), (1792, 814), (2048, 0)])
def test_of_too_many_lines_in_turn_some_stay_as_on_the_card(lines, card):
    assert hits(round_and_round, lines, 7600) == pytest.approx(card, rel=0.1)
