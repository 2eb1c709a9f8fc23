"""Programs that compiled code, which checks no bounds, must never see are refused by instruction and reason."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from sim.isa import Op, Space, TimingClass
from sim.program import Const, Instruction, Program, Reg, UReg
from sim.program_checks import ProgramError, check_program
from tests.core.programs import atomic_histogram, block_sum, collatz

EXIT = Instruction(Op.EXIT, TimingClass.BRANCH, "EXIT")


def ffma(**changes: Any) -> Instruction:
    plain = Instruction(Op.FFMA, TimingClass.FP32, "FFMA", Reg(4), 1, Reg(1), Reg(2), Reg(3), 1, 1, 1)
    return dataclasses.replace(plain, **changes)


def control(op: Op, **fields: Any) -> Instruction:
    return Instruction(op, TimingClass.BRANCH, op.name, **fields)


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (ffma(a=Reg(10)), "A names a register beyond"),
        (ffma(b=Reg(9), nb=2), "B names a register beyond"),
        (ffma(c=UReg(3)), "C names a register beyond"),
        (ffma(dst=Reg(9), nd=2), "D names a register beyond"),
        (ffma(na=9), "A has 0 to 8 rows"),
        (ffma(nd=-1), "D has 0 to 8 rows"),
        (ffma(pd=16), "PD names no predicate"),
        (ffma(pa=32), "PA names no predicate"),
        (ffma(guard=-1), "GUARD names no predicate"),
        (ffma(a=Const(0, 0x2000)), "a constant lies beyond"),
        (ffma(a=Const(0, -4)), "a constant lies beyond"),
        (ffma(wbar=8), r"WBAR must lie in 0\.\.7"),
        (ffma(wait=64), r"WAIT must lie in 0\.\.63"),
        (ffma(stall=-1), "its stall count is negative"),
        (ffma(line=0), "its source line is not there"),
        (dataclasses.replace(ffma(), op=Op.LD, width=3, space=Space.GLOBAL), "its width must be one of"),
        (control(Op.BRA, y=2), "its target lies outside"),
        (control(Op.BSSY, y=-1), "its target lies outside"),
        (control(Op.BSSY, x=16, y=1), "there are 16 convergence barriers"),
        (control(Op.BSYNC, x=-1), "there are 16 convergence barriers"),
        (control(Op.BAR, y=16), "a block has 16 barriers"),
        (control(Op.BAR, x=5), "a barrier is waited at, arrived at or reduces"),
        (control(Op.BMOV, x=16), "there are 16 convergence barriers"),
        (control(Op.CALL, y=9), "its target lies outside the program"),
        (control(Op.KILL), "the simulator does not execute it"),
    ],
)
def test_an_instruction_that_cannot_run_is_named(instruction: Instruction, message: str) -> None:
    with pytest.raises(ProgramError, match=rf"program p, instruction 0 \({instruction.text}\): {message}"):
        check_program(Program("p", [instruction, EXIT], 8, uniform_registers=2))


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (Program("p", [], 8), "has no instructions"),
        (Program("p", [EXIT], 256), r"registers=256 must lie in 0\.\.255"),
        (Program("p", [EXIT], 8, uniform_registers=64), r"uniform_registers=64 must lie in 0\.\.63"),
        (Program("p", [EXIT], 8, shared_static_bytes=-1), "shared_static_bytes=-1 must not be negative"),
        (Program("p", [EXIT], 8, local_bytes=-4), "local_bytes=-4 must not be negative"),
        (Program("p", [EXIT], 8, param_bytes=4097), "4097 bytes of parameters do not fit the 4096"),
        (Program("p", [ffma()], 8), "the last instruction must be EXIT, BRA or RET"),
        (Program("p", [dataclasses.replace(EXIT, guard=0)], 8), "the last instruction must be EXIT, BRA or RET"),
    ],
)
def test_a_program_that_cannot_run_says_why(program: Program, message: str) -> None:
    with pytest.raises(ProgramError, match=f"program p.*{message}"):
        check_program(program)


@pytest.mark.parametrize("case", [block_sum, collatz, atomic_histogram], ids=lambda c: c.__name__)
def test_programs_that_run_pass(case: Any) -> None:
    check_program(case()[0])


def test_zero_registers_and_discarded_results_pass() -> None:
    check_program(Program("p", [ffma(a=Reg(255), b=None, nb=0, dst=Reg(255), c=UReg(63)), EXIT], 8))
