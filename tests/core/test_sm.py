"""The SM's timing, instruction by instruction: when results are there, what pipes and queues take, who issues next."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sim.core.layout import ISSUE_ORDERS
from sim.counters import Inst, LaunchResult, Sm, Stall
from sim.isa import Compare, Op, Space, TimingClass
from sim.program import Const, Imm, Instruction, Program, Reg
from tests.core.launches import Recorded, executed, run, small, stalls
from tests.core.programs import OUT, address, alu, control, index_of_thread, isetp, loop, memory, moves, program, s2r

H200 = small()
EXIT = control(Op.EXIT)
NO_ARGUMENTS = [np.zeros(1, np.uint32), np.zeros(1024, np.uint32), np.int32(0)]


def ffma(d: int, a: int, b: int = 1, c: int = 1) -> Instruction:
    return Instruction(Op.FFMA, TimingClass.FP32, "FFMA", Reg(d), 1, Reg(a), Reg(b), Reg(c), 1, 1, 1)


def of_class(op: Op, cls: TimingClass, d: int, a: int, **more: Any) -> Instruction:
    return Instruction(op, cls, op.name, Reg(d), 1, Reg(a), Reg(1), Reg(1), 1, 1, 1, **more)


def launch(body: list[Instruction], threads: int = 32, grid: int = 1, gpu: Any = H200, shared: int = 0, **options: Any):
    """Raw counts of a hand-made program."""
    return run(program("hand", body, shared), grid, threads, NO_ARGUMENTS, gpu, **options)[0]


def waited(result: LaunchResult, pc: int) -> dict[str, int]:
    """Warp-cycles at one instruction, by reason, but for its issue, the way of the code to the SM, and the drain."""
    row = {reason.name: int(n) for reason, n in zip(Stall, result.stall[pc], strict=True) if n}
    return {name: n for name, n in row.items() if name not in ("SELECTED", "NO_INSTRUCTION", "DRAIN")}


# --- when results are there


@pytest.mark.parametrize(
    ("cls", "op", "cycles"),
    [
        (TimingClass.FP32, Op.FFMA, 4),
        (TimingClass.IMAD, Op.IMAD, 4),
        (TimingClass.ALU, Op.LOP3, 4),
        (TimingClass.FP16, Op.HFMA2, 8),
        (TimingClass.XU, Op.MUFU, 17),
    ],
)
def test_a_result_is_there_at_the_latency_and_not_a_cycle_before(cls, op, cycles):
    """The next link of a chain waits out the latency but for the cycle in which the last one issued."""
    assert getattr(H200.timing, cls.name.lower()).latency_cycles == cycles
    result = launch([*[of_class(op, cls, 2, 2) for _ in range(6)], EXIT])
    reason = "SHORT_SCOREBOARD" if cls is TimingClass.XU else "WAIT"
    assert [waited(result, pc) for pc in range(2, 6)] == [{reason: cycles - 1}] * 4


def test_an_instruction_that_waits_for_nothing_issues_in_the_next_cycle():
    result = launch([*[ffma(d, 1) for d in (2, 3, 4, 5)], EXIT])
    assert [waited(result, pc) for pc in (1, 2, 3)] == [{}] * 3


def test_a_result_crosses_to_another_pipe_one_cycle_later():
    result = launch([ffma(2, 1), alu(Op.LOP3, 3, Reg(2), Reg(1)), alu(Op.LOP3, 4, Reg(3), Reg(1)), EXIT])
    assert waited(result, 1) == {"WAIT": 4}  # 5 less the cycle of issue
    assert waited(result, 2) == {"WAIT": 3}


def test_a_guard_waits_longer_for_its_predicate_than_an_operand():
    timing = H200.timing.setp.latency_cycles
    result = launch([isetp(0, Compare.EQ, Reg(1), Reg(1)), alu(Op.MOV, 2, Imm(1), guard=0), EXIT])
    assert waited(result, 1) == {"WAIT": timing - 1}
    operand = launch([isetp(0, Compare.EQ, Reg(1), Reg(1)), isetp(1, Compare.EQ, Reg(1), Reg(1), pa=0), EXIT])
    assert waited(operand, 1) == {"WAIT": H200.core.predicate_operand_latency_cycles - 1}


def test_a_taken_branch_costs_its_redirect():
    result = launch([control(Op.BRA, y=1), control(Op.NOP, y=0), control(Op.BRA, y=4), EXIT, EXIT])
    core = H200.core
    assert waited(result, 1) == {}
    assert waited(result, 4) == {"WAIT": core.branch_stall_cycles - 1, "BRANCH_RESOLVING": core.branch_latency_cycles}
    assert result.stall[4, Stall.NO_INSTRUCTION] >= core.branch_fetch_cycles
    assert executed(result) == [1, 1, 1, 0, 1]


# --- pipes


@pytest.mark.parametrize(
    ("cls", "op", "interval"),
    [
        (TimingClass.FP32, Op.FFMA, 1.0),  # two pipes of two cycles each
        (TimingClass.IMAD, Op.IMAD, 2.0),
        (TimingClass.ALU, Op.LOP3, 2.0),
        (TimingClass.XU, Op.MUFU, 8.0),
        (TimingClass.FP64, Op.DFMA, 2.0),
    ],
)
def test_independent_instructions_issue_at_the_pipes_interval(cls, op, interval):
    body = [of_class(op, cls, 2 + 2 * (k % 6), 1) for k in range(8)]
    if cls is TimingClass.FP64:
        body = [
            Instruction(op, cls, op.name, Reg(2 + 2 * (k % 6)), 2, Reg(0), Reg(0), Reg(0), 2, 2, 2) for k in range(8)
        ]
    result = launch([*body, EXIT])
    assert sum(waited(result, pc).get("MATH_PIPE_THROTTLE", 0) for pc in range(1, 8)) == 7 * (interval - 1)
    assert sum(sum(waited(result, pc).values()) for pc in range(1, 6)) == 5 * (interval - 1)


def test_a_fraction_of_a_cycle_is_not_lost():
    """Tensor instructions of 6.1 cycles take 6.1 each in the long run, not 6 or 7."""

    def hmma(d: int) -> Instruction:
        return Instruction(
            Op.HMMA, TimingClass.HMMA_16816, "HMMA", Reg(d), 4, Reg(0), Reg(0), Reg(0), 4, 2, 4, x=1 | 9 << 8
        )

    def cycles(turns: int) -> int:
        body = [hmma(4 * k) for k in (1, 2, 3)]
        return run(loop(body, turns), 1, 512, NO_ARGUMENTS, H200)[0].cycles

    assert cycles(25) - cycles(5) == pytest.approx(20 * 3 * 4 * H200.timing.hmma_16816.interval_cycles, rel=0.02)


# --- who issues


def order_of_issue(gpu: Any, scheduler: str, body: list[Instruction], threads: int) -> list[int]:
    """Warps of sub-core 0 in the order of their issues."""
    rows: list[Any] = []
    launch(body, threads, gpu=gpu, scheduler=scheduler, record=rows)
    warps = np.concatenate([table[:, 1] for table, _ in rows])
    return [int(w) for w in warps if w % 4 == 0]


def test_greedy_then_youngest_stays_with_a_warp_and_turns_to_the_last_launched():
    issues = order_of_issue("toy", "gto", [*[ffma(2 + k, 1) for k in range(4)], EXIT], 32 * 12)
    assert issues == [8] * 5 + [4] * 5 + [0] * 5


def test_greedy_turns_away_from_a_warp_that_waits():
    issues = order_of_issue("toy", "gto", [ffma(2, 1), ffma(2, 2), EXIT], 32 * 8)
    assert issues == [4, 0, 4, 4, 0, 0]


def test_loose_round_robin_takes_turns():
    issues = order_of_issue("toy", "lrr", [*[ffma(2 + k, 1) for k in range(4)], EXIT], 32 * 12)
    assert issues == [0, 4, 8] * 5


def test_oldest_block_first_lets_the_warps_of_one_block_take_turns():
    rows: list[Any] = []
    body = [*[ffma(2 + k, 1) for k in range(4)], EXIT]
    launch(body, 32 * 12, grid=4, gpu="toy", scheduler="oldest_block", record=rows)
    issues = [(int(b), int(w)) for table, _ in rows for b, w in table[:, :2] if w % 4 == 0 and b % 2 == 0]
    of_a_block = [0, 4, 8] * 5
    assert issues == [(0, w) for w in of_a_block] + [(2, w) for w in of_a_block]


def test_warps_that_could_issue_but_were_not_chosen_are_not_selected():
    result = launch([*[ffma(2 + k, 1) for k in range(4)], EXIT], 32 * 12, gpu="toy", scheduler="lrr")
    reasons = stalls(result)
    assert result.sm[:, Sm.ELIGIBLE].sum() == reasons["SELECTED"] + reasons["NOT_SELECTED"]


def test_the_profile_says_who_issues():
    body = [*[ffma(2 + k, 1) for k in range(4)], EXIT]
    for order in ISSUE_ORDERS:
        profile = small("toy", core__issue_order=order)
        assert (
            launch(body, 32 * 8, gpu=profile).stall.tolist()
            == launch(body, 256, gpu="toy", scheduler=order).stall.tolist()
        )


# --- the memory queue


def test_a_warp_waits_when_the_memory_queue_is_full():
    """Shared stores of one warp: those that fit the queue go at once, the next waits for the address unit."""
    body = [alu(Op.MOV, 2, Imm(0)), *[memory(Op.ST, Space.SHARED, 2, 3) for _ in range(12)], EXIT]
    result = launch(body, shared=128)
    throttled = [waited(result, pc).get("MIO_THROTTLE", 0) for pc in range(2, 13)]
    entries = H200.lsu.queue_entries
    assert throttled[: entries - 1] == [0] * (entries - 1)
    assert throttled[entries + 2 :] == [H200.lsu.address_interval_cycles - 1] * len(throttled[entries + 2 :])


def test_global_stores_throttle_by_their_own_name():
    body = [*index_of_thread(), address(4, 2, OUT), *[memory(Op.ST, Space.GLOBAL, 4, 0) for _ in range(12)], EXIT]
    reasons = stalls(launch(body))
    assert reasons["LG_THROTTLE"] > 0 and "MIO_THROTTLE" not in reasons


def test_sources_of_a_store_are_read_before_they_are_overwritten():
    body = [
        alu(Op.MOV, 2, Imm(0)),
        *[control(Op.NOP) for _ in range(8)],
        memory(Op.ST, Space.SHARED, 2, 3),
        alu(Op.MOV, 3, Imm(1)),
        EXIT,
    ]
    assert waited(launch(body, shared=128), 10) == {"SHORT_SCOREBOARD": H200.lsu.store_read_cycles - 1}


# --- shared memory and barriers


def shared_chain(words: int) -> LaunchResult:
    """A load from shared memory, lane l at word `words * l`, and an addition that waits for it."""
    shift = [
        s2r(0, "TID_X"),
        alu(Op.IMAD, 2, Reg(0), Imm(4 * words), Reg(1)),
        memory(Op.LD, Space.SHARED, 2, 3),
        alu(Op.IADD3, 4, Reg(3), Reg(1)),
        EXIT,
    ]
    return launch(shift, shared=4 * 32 * 32)


@pytest.mark.parametrize(("words", "passes"), [(1, 1), (2, 2), (8, 8), (32, 32), (33, 1)])
def test_a_bank_conflict_costs_two_cycles_a_pass_and_warp(words, passes):
    if words == 33:
        words = 0  # all lanes at one word
    result = shared_chain(words)
    assert result.inst[2, Inst.WAVEFRONTS] == passes
    assert waited(result, 3) == {"SHORT_SCOREBOARD": H200.lsu.shared_load_latency_cycles + 2 * (passes - 1) - 1}


def test_conflicting_warps_take_a_cycle_a_pass_of_the_sm():
    """With all sub-cores at work the data stage is the limit: 8 passes a load, not 16."""

    def cycles(loads: int) -> int:
        body = [s2r(0, "TID_X"), alu(Op.LOP3, 0, Reg(0), Imm(31), x=0xC0), alu(Op.SHF, 2, Reg(0), Imm(5))]
        return launch(
            [*body, *[memory(Op.LD, Space.SHARED, 2, 3 + k % 8) for k in range(loads)], EXIT], 512, shared=1024
        ).cycles

    assert (cycles(48) - cycles(16)) / (32 * 16) == pytest.approx(8, rel=0.02)


@pytest.mark.parametrize("warps", [1, 2, 4, 8, 16, 32])
def test_a_barrier_costs_as_much_as_the_card_measured(warps):
    """15.6 cycles with one warp and 2 more for each further one (microbench_1, `bar_sync`)."""

    def cycles(barriers: int) -> int:
        return launch([*[control(Op.BAR) for _ in range(barriers)], EXIT], 32 * warps).cycles

    assert (cycles(40) - cycles(8)) / 32 == pytest.approx(15.6 + 2 * (warps - 1), abs=0.75)


def test_warps_wait_for_the_last_at_the_barrier_and_nowhere_else():
    body = [
        s2r(0, "TID_X"),
        isetp(0, Compare.LT, Reg(0), Imm(32)),
        control(Op.BRA, y=8, guard=16),
        *[ffma(2, 2) for _ in range(5)],  # warp 0 only
        control(Op.BAR),  # 8
        EXIT,
    ]
    result = launch(body, 128)
    assert [pc for pc in range(10) if result.stall[pc, Stall.BARRIER]] == [8]
    assert result.stall[8, Stall.BARRIER] >= 3 * 5 * 4


# --- the front end


def test_straight_code_beyond_the_instruction_caches_waits_for_its_instructions():
    result = launch([*moves(4000), EXIT], gpu="toy")
    assert executed(result) == [1] * 4001
    reasons = stalls(result)
    lines = 4001 * 16 / 128
    toy = Recorded("toy").profile
    late = lines - toy.icache.launch_bytes / 128
    each = (toy.icache.memory_cycles + toy.icache.l0_miss_cycles) / (1 + toy.icache.prefetch_lines)
    assert reasons["NO_INSTRUCTION"] == pytest.approx(late * each, rel=0.15)


def test_a_loop_that_fits_the_first_instruction_cache_is_fetched_once():
    once, often = (stalls(run(loop(moves(100), n), 1, 32, NO_ARGUMENTS, "toy")[0])["NO_INSTRUCTION"] for n in (1, 20))
    assert often == once


def test_a_loop_that_does_not_fit_is_fetched_each_turn():
    a, b = (stalls(run(loop(moves(300), n), 1, 32, NO_ARGUMENTS, "toy")[0])["NO_INSTRUCTION"] for n in (2, 12))
    assert b - a > 10 * 10  # 4800 bytes, a cache of 2048


def test_a_kernel_without_memory_accesses_asks_nothing_of_memory():
    result = launch([*[ffma(2, 2) for _ in range(8)], EXIT], 256, 8, gpu="toy")
    assert not result.mem.any()


def test_a_constant_operand_is_waited_for_before_issue_and_a_loaded_one_where_it_is_used():
    miss = Recorded("h200").profile.constant.miss_cycles
    operand = launch([alu(Op.MOV, 4, Const(0, 0x210)), EXIT])
    assert stalls(operand)["IMC_MISS"] == miss
    load = Instruction(Op.LD, TimingClass.LDC, "LDC", Reg(4), 1, space=Space.CONSTANT, width=4, y=0x210)
    loaded = launch([load, ffma(5, 4), EXIT])
    assert "IMC_MISS" not in stalls(loaded)
    assert waited(loaded, 1)["SHORT_SCOREBOARD"] >= miss


# --- control bits


def controlled(instructions: list[Instruction]) -> Program:
    made = program("bits", instructions)
    made.has_control = True
    return made


def test_control_bits_stall_as_many_cycles_as_they_say():
    first, second = ffma(2, 1), ffma(3, 2)
    first.stall, second.stall = 9, 1
    last = control(Op.EXIT, stall=5)
    result = run(controlled([first, second, last]), 1, 32, NO_ARGUMENTS, H200)[0]
    assert waited(result, 1) == {"WAIT": 8}  # whatever the registers need
    assert waited(result, 2) == {}


def test_control_bits_wait_for_the_barrier_that_a_load_releases():
    def body(wait: int) -> list[Instruction]:
        where = [*index_of_thread(), address(4, 2, OUT)]
        for i in where:
            i.stall = 15
        where[0].stall = 30
        load = memory(Op.LD, Space.GLOBAL, 4, 6, wbar=2, stall=1)
        return [*where, load, control(Op.NOP, wait=wait, stall=1), control(Op.EXIT, stall=5)]

    waits = run(controlled(body(1 << 2)), 1, 32, NO_ARGUMENTS, H200)[0]
    assert waited(waits, 5)["LONG_SCOREBOARD"] > 400
    assert "LONG_SCOREBOARD" not in waited(run(controlled(body(1 << 3)), 1, 32, NO_ARGUMENTS, H200)[0], 5)


def test_the_warp_that_issued_goes_on_unless_its_instruction_asks_for_another():
    """With the yield bit of a compiler's instructions of stall count 1, `mm_reg` takes as long as on the card."""

    def issues(yields: int) -> list[int]:
        body = [ffma(2 + k, 1) for k in range(4)]
        for i in body:
            i.stall, i.yield_ = 1, yields
        rows: list[Any] = []
        run(
            controlled([*body, control(Op.EXIT, stall=5)]), 1, 32 * 8, NO_ARGUMENTS,
            small("toy", core__issue_order="oldest_block"), record=rows,
        )  # fmt: skip
        warps = np.concatenate([table[:, 1] for table, _ in rows])
        return [int(w) for w in warps if w % 4 == 0]

    assert issues(1) == [0] * 5 + [4] * 5
    assert issues(0) == [0, 4] * 5


def test_lanes_that_do_not_exit_wait_for_those_that_do():
    """8.9 cycles of branch resolving on the card, of `relu_branch`, where half the lanes exit first."""
    guard = isetp(0, Compare.LT, Reg(0), Imm(16))
    where = [s2r(0, "TID_X")]
    where[0].stall, guard.stall = 40, 13
    leave, last = control(Op.EXIT, guard=0, stall=5), control(Op.EXIT, stall=5)
    result = run(controlled([*where, guard, leave, ffma(2, 1), last]), 1, 32, NO_ARGUMENTS, H200)[0]
    assert waited(result, 3) == {"WAIT": 4, "BRANCH_RESOLVING": H200.core.exit_cycles - 5}


# --- clocks


def test_the_clock_counts_cycles_and_the_timer_nanoseconds():
    body = [
        s2r(6, "CLOCKLO"),
        s2r(7, "GLOBALTIMERLO"),
        *index_of_thread(),
        address(4, 2, OUT),
        memory(Op.ST, Space.GLOBAL, 4, 6),
        memory(Op.ST, Space.GLOBAL, 4, 7, y=128),
        EXIT,
    ]
    out = run(program("clocks", body), 1, 32, NO_ARGUMENTS, H200)[1]["out"]
    clock, timer = int(out[0]), int(out[32])
    assert clock > H200.launch.launch_cycles
    assert timer == pytest.approx(clock * 1000 / H200.gpu.clock_mhz, abs=3)
