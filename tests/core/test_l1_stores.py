"""Stores take lines of L1 as loads do, and what they wrote is there (microbench_6 `store_fill`, `store_read`)."""

from __future__ import annotations

import numpy as np
import pytest

import sim
from sim.counters import Inst, Mem
from sim.isa import Op, Space
from tests.core.launches import run, small


@sim.kernel
def fill(k, x, y, loads, stores):
    """Reads `loads` words, writes `stores` elsewhere, reads the first again."""
    total = k.var(0.0)
    for _ in k.range_(2, unroll=1):
        for i in k.range_(k.thread_idx.x, loads, k.block_dim.x):
            total.set(total + x[i])
        k.syncthreads()
        for i in k.range_(k.thread_idx.x, stores, k.block_dim.x):
            y[i] = total
        k.syncthreads()


@sim.kernel
def write_and_read(k, x, words):
    """Writes words, then reads what another thread wrote."""
    for i in k.range_(k.thread_idx.x, words, k.block_dim.x):
        x[i] = 1.0
    k.syncthreads()
    for i in k.range_(k.thread_idx.x, words, k.block_dim.x):
        x[i] = x[i ^ 32] + 1.0


def hits(result) -> tuple[int, int]:
    """(sectors that loads found in L1, sectors that they asked for)."""
    loads = [i.op is Op.LD and i.space is Space.GLOBAL for i in result.program.instructions]
    found, asked = result.inst[loads][:, [Inst.HIT_SECTORS, Inst.SECTORS]].sum(axis=0)
    return int(found), int(asked)


@pytest.mark.parametrize(("stores_kib", "card"), [(0, 3072), (96, 3072), (128, 3072), (256, 0)])
def test_stores_push_out_what_was_loaded_as_on_the_card(stores_kib, card):
    loads, stores = 96 * 256, stores_kib * 256
    x = np.zeros(loads, np.float32)
    result, _ = run(fill.launch(1, 1024, args=(x, sim.zeros(max(stores, 1)), loads, stores)), gpu=small())
    assert hits(result) == (card, 6144)


def test_what_was_stored_is_found_in_l1():
    words = 32 * 256
    result, outputs = run(write_and_read.launch(1, 1024, args=(sim.zeros(words), words)), gpu=small())
    assert hits(result) == (1024, 1024)
    assert (outputs["x"] == 2).all()


@sim.kernel
def quarters(k, y, turns, *, apart):
    """microbench_15's: each lane stores words 0 to 3 of 16 bytes, with a barrier between them if `apart`."""
    for turn in k.range_(turns, unroll=1):
        for j in range(4):
            if apart:
                k.syncthreads()
            y[(turn * k.block_dim.x + k.thread_idx.x) * 4 + j] = 1.0


@pytest.mark.parametrize(("apart", "lines", "requests"), [(False, 14, 4), (True, 14, 16), (False, 0, 16)])
def test_stores_to_one_line_go_together_if_they_follow_at_once(apart, lines, requests):
    """A warp's four stores to four lines are four requests on the card, or 16 if others or time lie between."""
    launch = quarters.launch(1, 32, args=(sim.zeros(8 * 128), 8), constants={"apart": apart})
    result, outputs = run(launch, gpu=small(lsu__merge_lines=lines, core__barrier_base_cycles=40))
    assert result.mem[Mem.L2_REQUESTS] == 8 * requests
    assert result.mem[Mem.L2_TEX] == 8 * requests * 4
    assert (outputs["y"] == 1).all()


@sim.kernel
def every_other_word(k, y):
    """microbench_15's `two_warps`: two warps store the halves of the same sectors at once."""
    y[k.thread_idx.x % 32 * 2 + k.thread_idx.x // 32] = 1.0


def test_stores_of_two_warps_do_not_go_together():
    result, outputs = run(every_other_word.launch(1, 64, args=(sim.zeros(64),)), gpu=small(lsu__merge_cycles=100))
    assert result.mem[Mem.L2_REQUESTS] == 4
    assert (outputs["y"] == 1).all()
