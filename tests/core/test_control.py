"""Divergence: which lanes run what, where they meet again, and in which order; against Python and a plain driver."""

from __future__ import annotations

import random

import numpy as np
import pytest

import sim
from sim.counters import Inst
from sim.isa import Compare, Op, Space
from sim.program import Imm, Instruction, Reg
from tests.builder import random_kernels as rk
from tests.core.functional import run_functional
from tests.core.launches import error, executed, run
from tests.core.programs import (
    IN,
    NOT,
    OUT,
    T,
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

FULL = 0xFFFFFFFF


def vote(d: int) -> Instruction:
    """R[d] = mask of the lanes that run this together."""
    return alu(Op.VOTE, d, x=1)


def put(register: int) -> list[Instruction]:
    """out[thread] = R[register], then the end; R2 is the thread's index."""
    return [address(4, 2, OUT), memory(Op.ST, Space.GLOBAL, 4, register), control(Op.EXIT)]


def outputs(name, body, threads=32, grid=1, shared=0, gpu="toy"):
    """`out` of a program after a run on the timing core, which must agree with the plain driver."""
    out = np.zeros(threads * grid, np.uint32)
    args = [np.zeros(threads * grid, np.uint32), out, np.int32(0)]
    _, arrays = run(program(name, body, shared), grid, threads, args, gpu)
    run_functional(program(name, body, shared), grid, threads, args)
    assert arrays["out"].tolist() == out.tolist()
    return out.tolist()


@pytest.mark.parametrize("case", [block_sum, collatz, atomic_histogram], ids=lambda c: c.__name__)
def test_programs_compute_what_the_plain_driver_computes(case):
    prog, grid, block, args, shared = case()
    _, arrays = run(prog, grid, block, [a.copy() for a in args], shared_bytes=shared)
    run_functional(prog, grid, block, args, shared)
    np.testing.assert_array_equal(arrays["out"], args[1])


@pytest.mark.parametrize("seed", range(12))
def test_random_kernels_compute_what_python_computes(seed):
    r = random.Random(1000 + seed)
    statements, n = rk.statements(r), r.randrange(0, 40)
    size = 80 * rk.SLOTS
    x, y = np.full(size, -1, np.int32), (np.arange(size, dtype=np.int32) * 7) % 1000
    want_x, want_y = x.copy(), y.copy()
    try:
        rk.interpret(statements, 40, 2, n, want_x, want_y)
    except rk.Endless:
        pytest.skip("too many steps")
    launch = rk.random_kernel.launch(2, 40, args=(x, y, n), constants={"program": statements})
    _, arrays = run(launch)
    np.testing.assert_array_equal(arrays["x"], want_x)
    np.testing.assert_array_equal(arrays["y"], want_y)


def test_the_lanes_that_fall_through_run_first_and_all_meet_at_bsync():
    body = [
        *index_of_thread(),
        control(Op.BSSY, 0, 9),
        isetp(0, Compare.LT, Reg(0), Imm(4)),
        control(Op.BRA, y=8, guard=0),
        s2r(6, "CLOCKLO"),  # lanes 4..31
        control(Op.BRA, y=9),
        s2r(6, "CLOCKLO"),  # 8: lanes 0..3
        control(Op.BSYNC, 0),
        vote(7),
        isetp(1, Compare.EQ, Reg(7), Imm(FULL)),
        alu(Op.SEL, 6, Reg(6), Imm(0), pa=1),  # 0 if they had not met
        *put(6),
    ]
    _, arrays = run(program("order", body), 1, 32, [np.zeros(1, np.uint32), np.zeros(32, np.uint32), np.int32(0)])
    clocks = arrays["out"]
    assert set(clocks[:4]) == {clocks[0]} and set(clocks[4:]) == {clocks[4]}
    assert clocks[0] > clocks[4] > 0


def test_lanes_of_a_branch_count_where_they_run():
    result, _ = run(_branch_of_four(), 1, 32, [np.zeros(1, np.uint32), np.zeros(32, np.uint32), np.int32(0)])
    threads = result.inst[:, Inst.THREADS].tolist()
    assert threads[3:9] == [32, 32, 32, 28, 28, 4]
    assert executed(result)[6] == executed(result)[8] == 1
    assert result.inst[:, Inst.BRANCHES_DIVERGENT].tolist() == [0] * 5 + [1] + [0] * (len(threads) - 6)


def _branch_of_four():
    return program(
        "four",
        [
            *index_of_thread(),
            control(Op.BSSY, 0, 9),
            isetp(0, Compare.LT, Reg(0), Imm(4)),
            control(Op.BRA, y=8, guard=0),
            alu(Op.MOV, 6, Imm(1)),
            control(Op.BRA, y=9),
            alu(Op.MOV, 6, Imm(2)),  # 8
            control(Op.BSYNC, 0),
            *put(6),
        ],
    )


def test_nested_branches_meet_inside_out():
    body = [
        *index_of_thread(),
        control(Op.BSSY, 0, 13),
        isetp(0, Compare.LT, Reg(0), Imm(8)),
        control(Op.BRA, y=8, guard=0),
        vote(6),  # 8..31
        control(Op.BRA, y=13),
        control(Op.BSSY, 1, 11),  # 8
        isetp(1, Compare.LT, Reg(0), Imm(3)),
        control(Op.BRA, y=11, guard=1),
        control(Op.BSYNC, 1),  # 11
        vote(6),  # 0..7 again
        control(Op.BSYNC, 0),  # 13
        vote(7),
        alu(Op.LOP3, 6, Reg(6), Reg(7), x=0x3C),
        *put(6),
    ]
    assert outputs("nested", body) == [FULL ^ 0xFF] * 8 + [0xFF] * 24


def test_a_guarded_exit_takes_only_its_lanes():
    body = [
        *index_of_thread(),
        isetp(0, Compare.GE, Reg(0), Imm(20)),
        control(Op.EXIT, guard=0),
        vote(6),
        *put(6),
    ]
    assert outputs("exit", body) == [(1 << 20) - 1] * 20 + [0] * 12


def test_lanes_that_exit_inside_a_branch_are_not_waited_for():
    body = [
        *index_of_thread(),
        control(Op.BSSY, 0, 8),
        isetp(0, Compare.LT, Reg(0), Imm(4)),
        control(Op.BRA, y=7, guard=0),
        control(Op.BRA, y=8),
        control(Op.EXIT),  # 7: lanes 0..3
        control(Op.BSYNC, 0),
        vote(6),
        *put(6),
    ]
    assert outputs("leave", body) == [0] * 4 + [FULL ^ 0xF] * 28


def test_break_takes_lanes_off_a_barrier_that_others_wait_at():
    body = [
        *index_of_thread(),
        control(Op.BSSY, 0, 9),
        isetp(0, Compare.LT, Reg(0), Imm(8)),
        control(Op.BRA, y=7, guard=0),
        control(Op.BRA, y=9),
        control(Op.BREAK, 0),  # 7: lanes 0..7; the others wait at 9
        control(Op.BRA, y=11),
        control(Op.BSYNC, 0),  # 9
        control(Op.BRA, y=11),
        control(Op.BAR),  # 11
        vote(6),
        *put(6),
    ]
    assert outputs("break", body) == [0xFF] * 8 + [FULL ^ 0xFF] * 24


def test_lanes_without_the_guard_of_a_barrier_go_on():
    """Lanes 0..7 wait at the block's barrier, the others pass by it and end."""
    body = [
        *index_of_thread(),
        alu(Op.MOV, 6, Imm(1)),
        isetp(0, Compare.LT, Reg(0), Imm(8)),
        control(Op.BAR, guard=0),
        alu(Op.MOV, 6, Imm(2)),
        *put(6),
    ]
    out = np.zeros(64, np.uint32)
    _, arrays = run(program("guarded", body), 1, 64, [np.zeros(1, np.uint32), out, np.int32(0)])
    assert arrays["out"].tolist() == [2] * 64


def test_lanes_without_the_guard_of_a_bsync_go_on():
    body = [
        *index_of_thread(),
        control(Op.BSSY, 0, 5),
        isetp(0, Compare.LT, Reg(0), Imm(8)),
        control(Op.BSYNC, 0, guard=0),
        vote(6),
        *put(6),
    ]
    _, arrays = run(program("some", body), 1, 32, [np.zeros(1, np.uint32), np.zeros(32, np.uint32), np.int32(0)])
    assert arrays["out"].tolist() == [0xFF] * 8 + [FULL ^ 0xFF] * 24


def test_a_barrier_opens_for_the_parts_of_diverged_warps():
    """Lanes 0..3 of each warp wait at one barrier instruction, the others at another; the block has two warps."""
    body = [
        *index_of_thread(),
        control(Op.BSSY, 0, 9),
        isetp(0, Compare.LT, Reg(0), Imm(4)),
        control(Op.BRA, y=8, guard=0),
        control(Op.BAR),
        control(Op.BRA, y=9),
        control(Op.BAR),  # 8
        control(Op.BSYNC, 0),
        vote(6),
        *put(6),
    ]
    assert outputs("parts", body, threads=64) == [FULL] * 64


def test_both_sides_of_a_branch_may_join_the_same_convergence_barrier():
    """Both sides wait at the block's barrier inside their own region of barrier 1, so the regions overlap in time."""

    def side(at: int, lanes: int) -> list[Instruction]:
        return [
            control(Op.BSSY, 1, at + 5),
            isetp(1, Compare.GE, Reg(8), Imm(lanes)),
            control(Op.BRA, y=at + 5, guard=1),
            control(Op.BAR),
            control(Op.BRA, y=at + 7),
            control(Op.BAR),  # at + 5
            control(Op.NOP, y=0),
            control(Op.BSYNC, 1),
            vote(6),
        ]

    body = [
        *index_of_thread(),
        alu(Op.LOP3, 8, Reg(0), Imm(15), x=0xC0),
        control(Op.BSSY, 0, 26),
        isetp(0, Compare.LT, Reg(0), Imm(16)),
        control(Op.BRA, y=17, guard=0),
        *side(7, 3),
        control(Op.BRA, y=26),
        *side(17, 5),
        control(Op.BSYNC, 0),  # 26
        vote(7),
        isetp(1, Compare.EQ, Reg(7), Imm(FULL)),
        alu(Op.SEL, 6, Reg(6), Imm(0), pa=1),
        *put(6),
    ]
    assert body[26].op is Op.BSYNC and body[26].x == 0
    _, arrays = run(program("siblings", body), 1, 32, [np.zeros(1, np.uint32), np.zeros(32, np.uint32), np.int32(0)])
    assert arrays["out"].tolist() == [0xFFFF] * 16 + [0xFFFF0000] * 16


def test_syncwarp_orders_what_diverged_lanes_exchange():
    """Each half writes, waits for the whole warp, then reads what the other half wrote."""

    @sim.kernel
    def exchange(k, y):
        s = k.shared(32, np.int32)
        i = k.thread_idx.x
        with k.if_(i < 16):
            s[i] = i + 100
            k.syncwarp()
            y[i] = s[i + 16]
        with k.else_():
            s[i] = i + 200
            k.syncwarp()
            y[i] = s[i - 16]

    _, arrays = run(exchange.launch(1, 32, args=(sim.zeros(32, np.int32),)))
    assert arrays["y"].tolist() == [*range(216, 232), *range(100, 116)]


def test_syncwarp_waits_for_the_lanes_of_its_mask_only():
    body = [
        *index_of_thread(),
        control(Op.BSSY, 0, 12),
        isetp(0, Compare.LT, Reg(0), Imm(8)),
        control(Op.BRA, y=8, guard=0),
        Instruction(Op.WARPSYNC, T.CONTROL, "WARPSYNC", a=Imm(0xFFFFFF00), na=1),
        control(Op.BRA, y=12),
        isetp(1, Compare.LT, Reg(0), Imm(4)),  # 8
        control(Op.BRA, y=10, guard=1),
        Instruction(Op.WARPSYNC, T.CONTROL, "WARPSYNC", a=Imm(0xFF), na=1),  # 10
        vote(6),
        control(Op.BSYNC, 0),  # 12
        *put(6),
    ]
    assert outputs("masks", body)[:8] == [0xFF] * 8


def test_loops_with_divergent_trip_counts_run_as_long_as_the_longest():
    @sim.kernel
    def count(k, trips, y):
        i = k.thread_idx.x
        s = k.var(0)
        for _ in k.range_(0, trips[i], unroll=1):
            s += i
        y[i] = s

    trips = (np.arange(32, dtype=np.int32) * 7) % 11
    result, arrays = run(count.launch(1, 32, args=(trips, sim.zeros(32, np.int32))))
    assert arrays["y"].tolist() == (trips * np.arange(32)).tolist()
    adds = [row for row, i in zip(result.inst, result.program.instructions, strict=True) if i.op is Op.IADD3]
    assert [row[Inst.EXECUTED] for row in adds] == [trips.max()] * 2
    assert [row[Inst.THREADS_ON] for row in adds] == [trips.sum()] * 2


def test_a_partial_warp_has_only_its_threads():
    assert outputs("partial", [*index_of_thread(), vote(6), *put(6)], threads=40) == [FULL] * 32 + [0xFF] * 8


@pytest.mark.parametrize("block", [1, 31, 33, 97])
def test_blocks_that_are_no_multiple_of_a_warp(block):
    body = [*index_of_thread(), control(Op.BAR), alu(Op.IADD3, 6, Reg(2), Imm(7)), *put(6)]
    assert outputs("odd", body, threads=block, grid=3) == [i + 7 for i in range(3 * block)]


def test_block_indices_of_a_grid_of_three_dimensions():
    @sim.kernel
    def where(k, y):
        b, t = k.block_idx, k.thread_idx
        linear = (b.z * k.grid_dim.y + b.y) * k.grid_dim.x + b.x
        thread = (t.z * k.block_dim.y + t.y) * k.block_dim.x + t.x
        y[linear * 24 + thread] = b.x + 10 * b.y + 100 * b.z + 1000 * t.x + 10000 * t.y + 100000 * t.z

    _, arrays = run(where.launch((2, 3, 4), (3, 4, 2), args=(sim.zeros(24 * 24, np.int32),)))
    z, y, x = np.meshgrid(range(4), range(3), range(2), indexing="ij")
    tz, ty, tx = np.meshgrid(range(2), range(4), range(3), indexing="ij")
    blocks = (x + 10 * y + 100 * z).reshape(-1, 1)
    threads = (1000 * tx + 10000 * ty + 100000 * tz).reshape(1, -1)
    assert arrays["y"].tolist() == (blocks + threads).ravel().tolist()


def test_a_warp_may_fall_into_as_many_parts_as_it_has_lanes():
    """Without BSSY nothing ever meets: each turn of the loop leaves another part behind at the block's barrier."""
    body = [
        *index_of_thread(),
        alu(Op.MOV, 6, Imm(0)),
        isetp(0, Compare.EQ, Reg(0), Reg(6)),  # 4
        control(Op.BRA, y=8, guard=0),
        alu(Op.IADD3, 6, Reg(6), Imm(1)),
        control(Op.BRA, y=4),
        control(Op.BAR),  # 8
        *put(6),
    ]
    assert outputs("scattered", body) == list(range(32))


def test_a_barrier_that_lanes_wait_at_while_others_wait_for_them_is_a_deadlock():
    body = [
        *index_of_thread(),
        control(Op.BSSY, 0, 7),
        isetp(0, Compare.GE, Reg(0), Imm(8)),
        control(Op.BRA, y=7, guard=0),
        control(Op.BAR),
        control(Op.BSYNC, 0),  # 7
        *put(2),
    ]
    message = error(program("hang", body), 1, 32, (np.zeros(1, np.uint32), np.zeros(32, np.uint32), np.int32(0)))
    assert "kernel hang hangs" in message
    assert "lanes 0xffffff00" in message and "waits for the warp's other lanes" in message
    assert "lanes 0x000000ff" in message and "block's barrier" in message


def test_predicated_off_instructions_change_nothing():
    body = [
        *index_of_thread(),
        alu(Op.MOV, 6, Imm(1)),
        isetp(0, Compare.LT, Reg(0), Imm(16)),
        alu(Op.MOV, 6, Imm(2), guard=0),
        address(8, 2, IN),
        memory(Op.LD, Space.GLOBAL, 8, 6, guard=0 + NOT),
        *put(6),
    ]
    assert outputs("guards", body) == [2] * 16 + [0] * 16
