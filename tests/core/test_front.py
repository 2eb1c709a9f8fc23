"""The front end: when instructions and constants are there, beside the card's microbench_21 and microbench_29."""

from __future__ import annotations

import numpy as np
import pytest

import sim
from sim.counters import LaunchResult, Stall
from sim.isa import Op
from sim.launch import Launch
from sim.profile import load_profile
from sim.program import Const, Imm, Program, Reg
from tests.core.launches import Recorded, run, small
from tests.core.programs import alu, control, loop, moves, program
from workloads import rows

LINES_A_KIB = 8
PER_LINE = 8  #: instructions
ARGUMENTS = (np.zeros(1, np.uint32), np.zeros(1, np.uint32), np.int32(0))


FIRST = 72  #: instructions before a jump, of 4 cycles each: as long as the card takes to the first clock


def jump(kib: int, lines: int = 24) -> Program:
    """A jump over so much code, and then straight code."""
    over = kib * LINES_A_KIB * PER_LINE - 1
    chain = [alu(Op.MOV, 2, Imm(0)), *[alu(Op.IADD3, 2, Reg(2), Imm(1)) for _ in range(FIRST - 1)]]
    there = control(Op.BRA, y=FIRST + 1 + over)
    return program("jump", [*chain, there, *moves(over), *moves(lines * PER_LINE), control(Op.EXIT)])


def waits(result: LaunchResult, kib: int) -> np.ndarray:
    """Cycles that a warp waited for each instruction behind the jump to come."""
    return result.stall[FIRST + kib * LINES_A_KIB * PER_LINE :, Stall.NO_INSTRUCTION]


@pytest.mark.parametrize(
    ("kib", "card"),
    [(32, 769), (48, 571), (56, 596), (80, 628), (112, 628)],
)
def test_code_that_the_launch_has_not_brought_yet_comes_from_memory(kib, card):
    """Means of microbench_29's rows of a launch with empty caches, less 16 for the jump itself."""
    result, _ = run(jump(kib), 1, 32, ARGUMENTS, small())
    assert waits(result, kib)[0] == pytest.approx(card, rel=0.15)


@pytest.mark.parametrize("kib", [1, 4, 8])
def test_the_first_code_is_in_the_sm_when_a_kernel_starts(kib):
    """The card takes 74 to 87 cycles for the jump, 16 if nothing is missed."""
    result, _ = run(jump(kib), 1, 32, ARGUMENTS, small())
    assert waits(result, kib)[0] == pytest.approx(80 - 16, abs=16)


@pytest.mark.parametrize("kib", [80, 112])
def test_six_lines_of_straight_code_are_under_way_from_memory(kib):
    """The card takes 78 to 85 cycles a line from there on."""
    result, _ = run(jump(kib), 1, 32, ARGUMENTS, small())
    assert waits(result, kib)[1 : 24 * PER_LINE].sum() / 24 + 16 == pytest.approx(81.5, rel=0.1)


def turns(kib: int, n: int, gpu: str = "h200") -> int:
    """Cycles of the further turns of a loop, of a launch that is not the first."""
    device = Recorded(small(gpu), threads=1)
    cycles = []
    for count in (2, 2 + n):
        device.launch(loop(moves(kib * LINES_A_KIB * PER_LINE - 3), count), 1, 32, ARGUMENTS)
        device.launch(loop(moves(kib * LINES_A_KIB * PER_LINE - 3), count), 1, 32, ARGUMENTS)
        cycles.append(device.result.cycles)
    return (cycles[1] - cycles[0]) // n


def test_loops_that_fit_the_first_cache_wait_once():
    assert turns(28, 4) == pytest.approx(28 * LINES_A_KIB * PER_LINE * 2, rel=0.02)


@pytest.mark.parametrize(("kib", "card"), [(40, 141), (120, 141), (144, 359)])
def test_loops_beyond_a_cache_get_each_line_anew(kib, card):
    """Cycles a KiB (microbench_21, `loop`): lines leave in the order of their use."""
    assert turns(kib, 3) == pytest.approx(kib * card, rel=0.08)


def constants(lines: int) -> Program:
    """Reads of parameters, each in a line of its own, one after another."""
    reads = [alu(Op.IADD3, 2, Reg(2), Const(0, 0x210 + 64 * k)) for k in range(lines)]
    return program("constants", [alu(Op.MOV, 2, Imm(0)), *reads, control(Op.EXIT)])


@pytest.mark.parametrize(("warps", "card"), [(1, 70), (4, 126), (12, 126)])
def test_sub_cores_of_a_gpc_get_new_constants_one_after_another(warps, card):
    """Cycles a line with all SMs at work (microbench_29, `constants`), of which 8 are the instruction's."""
    result, _ = run(Launch(constants(8), 132, 32 * warps, ARGUMENTS), gpu="h200")
    waited = result.stall[1:9, Stall.IMC_MISS].sum() / 8 / (132 * warps)
    assert waited == pytest.approx(card - 8, rel=0.1)


def test_warps_that_share_a_place_in_the_instruction_cache_all_go_on() -> None:
    """Warps far apart in a kernel that is larger than L0 push each other's lines out before they come."""
    tiny = load_profile("toy").override({"icache.l0_bytes": 256, "icache.l1_bytes": 512, "icache.prefetch_lines": 0})
    launch = rows.softmax(8, 300, 128)
    report = sim.simulate(launch, gpu=tiny, cycle_limit=100_000)
    launch.check(report)


def test_a_larger_instruction_cache_waits_less() -> None:
    def waiting(l0_bytes: int) -> float:
        gpu = load_profile("toy").override({"icache.l0_bytes": l0_bytes})
        report = sim.simulate(rows.softmax(8, 300, 128), gpu=gpu)
        return report["smsp__average_warps_issue_stalled_no_instruction_per_issue_active.ratio"]

    assert waiting(256) > waiting(4096)
