"""Whole programs without timing: divergence, barriers, exits, and what the driver refuses."""

from __future__ import annotations

import numpy as np
import pytest

from sim.isa import Compare, Op, Space
from sim.program import Const, Imm, Reg
from tests.core.functional import FunctionalError, run_functional
from tests.core.programs import (
    IN,
    OUT,
    address,
    alu,
    atomic_histogram,
    block_sum,
    collatz,
    control,
    index_of_thread,
    isetp,
    memory,
    program,
    s2r,
)


def run(case):
    prog, grid, block, args, shared = case
    before = args[0].copy()
    run_functional(prog, grid, block, args, shared)
    return before, args[1]


def test_a_block_sum_with_barriers():
    values, sums = run(block_sum())
    assert (sums == values.reshape(3, 128).sum(1, dtype=np.uint32)).all()


def test_lanes_that_leave_a_loop_at_different_times():
    values, steps = run(collatz())
    for value, count in zip(values.tolist(), steps, strict=True):
        n = 0
        while value != 1:
            value, n = (3 * value + 1 if value % 2 else value // 2), n + 1
        assert count == n


def test_shared_and_global_atomics():
    values, counts = run(atomic_histogram())
    assert (counts == np.bincount(values & 7, minlength=8)).all()


def s2r_clock():
    return s2r(7, "CLOCKLO")


def test_the_fall_through_path_runs_first_and_both_meet_at_bsync():
    body = [
        *index_of_thread(),
        control(Op.BSSY, 0, 9),
        isetp(0, Compare.LT, Reg(0), Imm(4)),
        control(Op.BRA, y=8, guard=0),
        s2r_clock(),  # lanes 4..31
        control(Op.BRA, y=9),
        s2r_clock(),  # 8: lanes 0..3
        control(Op.BSYNC, 0),
        alu(Op.VOTE, 8, x=1),
        address(4, 2, OUT),
        memory(Op.ST, Space.GLOBAL, 4, 7),
        address(4, 2, IN),
        memory(Op.ST, Space.GLOBAL, 4, 8),
        control(Op.EXIT),
    ]
    met, clock = np.zeros(32, np.uint32), np.zeros(32, np.uint32)
    run_functional(program("order", body), 1, 32, [met, clock, np.int32(0)])
    assert (met == 0xFFFFFFFF).all()
    assert clock[0] > clock[4]


def test_break_takes_lanes_off_a_barrier():
    body = [
        *index_of_thread(),
        control(Op.BSSY, 0, 7),
        isetp(0, Compare.LT, Reg(0), Imm(8)),
        control(Op.BREAK, 0, guard=0),
        control(Op.BRA, y=10, guard=0),
        control(Op.BSYNC, 0),  # 7
        alu(Op.VOTE, 6, x=1),  # the rest, without those that broke off
        control(Op.BRA, y=11),
        alu(Op.MOV, 6, Imm(5)),  # 10
        address(4, 2, OUT),
        memory(Op.ST, Space.GLOBAL, 4, 6),
        control(Op.EXIT),
    ]
    out = np.zeros(32, np.uint32)
    run_functional(program("break", body), 1, 32, [np.zeros(1, np.uint32), out, np.int32(0)])
    assert out.tolist() == [5] * 8 + [0xFFFFFF00] * 24


def test_a_partial_warp_has_only_its_threads():
    body = [
        *index_of_thread(),
        alu(Op.VOTE, 6, x=1),
        address(4, 2, OUT),
        memory(Op.ST, Space.GLOBAL, 4, 6),
        control(Op.EXIT),
    ]
    out = np.zeros(40, np.uint32)
    run_functional(program("partial", body), 1, 40, [np.zeros(1, np.uint32), out, np.int32(0)])
    assert out.tolist() == [0xFFFFFFFF] * 32 + [0xFF] * 8


def test_local_memory_is_each_threads_own():
    body = [
        *index_of_thread(),
        alu(Op.MOV, 7, Imm(8)),
        memory(Op.ST, Space.LOCAL, 7, 2),
        memory(Op.LD, Space.LOCAL, 7, 6),
        address(4, 2, OUT),
        memory(Op.ST, Space.GLOBAL, 4, 6),
        control(Op.EXIT),
    ]
    prog = program("local", body)
    prog.local_bytes = 16
    out = np.zeros(64, np.uint32)
    run_functional(prog, 1, 64, [np.zeros(1, np.uint32), out, np.int32(0)])
    assert (out == np.arange(64)).all()


def test_block_and_grid_come_from_the_constant_bank():
    body = [
        *index_of_thread(),
        alu(Op.IMAD, 6, Const(0, 0x10), Imm(1000), Const(0, 4)),
        address(4, 2, OUT),
        memory(Op.ST, Space.GLOBAL, 4, 6),
        control(Op.EXIT),
    ]
    out = np.zeros(16, np.uint32)
    run_functional(program("bank", body), (2, 3), (8, 2), [np.zeros(1, np.uint32), out, np.int32(0)])
    assert (out == 3002).all()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([alu(Op.MOV, 4, Imm(64)), memory(Op.LD, Space.GLOBAL, 4, 6), control(Op.EXIT)], "outside memory"),
        ([alu(Op.MOV, 4, Imm(2)), memory(Op.LD, Space.SHARED, 4, 6), control(Op.EXIT)], "misaligned"),
        ([control(Op.BRA, y=0)], "more than 1000 instructions"),
        ([alu(Op.MOV, 4, Imm(2))], "past the end"),
        (
            [
                *index_of_thread(),
                control(Op.BSSY, 0, 5),
                isetp(0, Compare.LT, Reg(0), Imm(8)),
                control(Op.BRA, y=7, guard=0),
                control(Op.BSYNC, 0),
                control(Op.BAR),
                control(Op.EXIT),
            ],
            "waits for ever",
        ),
    ],
)
def test_the_driver_says_what_went_wrong(body, message):
    with pytest.raises(FunctionalError, match=message):
        run_functional(program("bad", body, 64), 1, 32, [np.zeros(1, np.uint32)] * 2 + [np.int32(0)], 0, 1000)
