"""Small programs in the instruction set, written by hand, with the launches that tests make of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.isa import FLAG_SIGNED, AtomicOp, Compare, NumberType, Op, Space, SpecialRegister, TimingClass
from sim.program import Const, Imm, Instruction, Param, Program, Reg

T = TimingClass
N, OUT = Const(0, 0x220), Const(0, 0x218)
IN = Const(0, 0x210)
NOT = 16  # added to a predicate number

Case = tuple[Program, Any, Any, list[Any], int]


def s2r(d: int, register: str) -> Instruction:
    return Instruction(Op.S2R, T.S2R, "S2R", Reg(d), 1, x=SpecialRegister[register])


def alu(op: Op, d: int, a: Any = None, b: Any = None, c: Any = None, **more: Any) -> Instruction:
    counts = [int(v is not None) for v in (a, b, c)]
    return Instruction(op, T.ALU, op.name, Reg(d), 1, a, b, c, *counts, **more)


def isetp(p: int, comparison: Compare, a: Any, b: Any, **more: Any) -> Instruction:
    return Instruction(Op.ISETP, T.SETP, "ISETP", a=a, b=b, na=1, nb=1, pd=p, x=int(comparison), **more)


def address(d: int, index: int, array: Const) -> Instruction:
    """R[d:d+2] = array + 4 * R[index]."""
    return Instruction(
        Op.IMAD_WIDE, T.IMAD_WIDE, "IMAD.WIDE", Reg(d), 2, Reg(index), Imm(4), array, 1, 1, 2, flags=FLAG_SIGNED
    )


def memory(op: Op, space: Space, a: int, data: int, **more: Any) -> Instruction:
    """A 4-byte access at R[a] (a pair in global memory)."""
    na = 2 if space == Space.GLOBAL else 1
    if op in (Op.LD, Op.LDSM):
        return Instruction(op, T.LOAD_STORE, op.name, Reg(data), 1, Reg(a), na=na, space=space, width=4, **more)
    return Instruction(op, T.LOAD_STORE, op.name, a=Reg(a), na=na, b=Reg(data), nb=1, space=space, width=4, **more)


def control(op: Op, x: int = 0, y: int = 0, **more: Any) -> Instruction:
    return Instruction(op, T.BRANCH, op.name, x=x, y=y, **more)


def program(name: str, instructions: list[Instruction], shared: int = 0) -> Program:
    """With parameters in, out and n."""
    array = np.dtype(np.uint32)
    params = (
        Param("in", 0, "array", array),
        Param("out", 8, "array", array),
        Param("n", 16, "scalar", np.dtype(np.int32)),
    )
    return Program(name, instructions, 16, shared_static_bytes=shared, params=params, param_bytes=20)


def loop(body: list[Instruction], turns: int) -> Program:
    """`body`, `turns` times; R3 counts."""
    start, step = alu(Op.MOV, 3, Imm(0)), alu(Op.IADD3, 3, Reg(3), Imm(1))
    again = isetp(0, Compare.LT, Reg(3), Imm(turns))
    return program("loop", [start, *body, step, again, control(Op.BRA, y=1, guard=0), control(Op.EXIT)])


def moves(count: int) -> list[Instruction]:
    """Instructions of two cycles each on an H200."""
    return [alu(Op.MOV, 4 + k % 8, Imm(k)) for k in range(count)]


def index_of_thread() -> list[Instruction]:
    """R0 = threadIdx.x, R2 = the thread's index in the grid."""
    return [
        s2r(0, "TID_X"),
        s2r(1, "CTAID_X"),
        alu(Op.IMAD, 2, Reg(1), Const(0, 0), Reg(0)),
    ]


def block_sum() -> Case:
    """out[block] = the sum of a block's 128 elements: a tree in shared memory, with barriers and a divergent if."""
    body = [
        *index_of_thread(),
        address(4, 2, IN),
        memory(Op.LD, Space.GLOBAL, 4, 6),
        alu(Op.SHF, 7, Reg(0), Imm(2)),
        memory(Op.ST, Space.SHARED, 7, 6),
        alu(Op.MOV, 8, Imm(64)),
        control(Op.BAR),  # 8: loop
        control(Op.BSSY, 0, 16),
        isetp(0, Compare.GE, Reg(0), Reg(8)),
        control(Op.BRA, y=16, guard=0),
        alu(Op.LEA, 9, Reg(8), Reg(7), x=2),
        memory(Op.LD, Space.SHARED, 9, 10),
        alu(Op.IADD3, 6, Reg(6), Reg(10)),
        memory(Op.ST, Space.SHARED, 7, 6),
        control(Op.BSYNC, 0),  # 16
        alu(Op.SHF, 8, None, Imm(1), Reg(8), x=5),
        isetp(1, Compare.GT, Reg(8), Imm(0)),
        control(Op.BRA, y=8, guard=1),
        isetp(2, Compare.NE, Reg(0), Imm(0)),
        control(Op.EXIT, guard=2),
        address(4, 1, OUT),
        memory(Op.ST, Space.GLOBAL, 4, 6),
        control(Op.EXIT),
    ]
    values = np.random.default_rng(11).integers(0, 2**32, 3 * 128, np.uint32)
    return program("block_sum", body, 512), 3, 128, [values, np.zeros(3, np.uint32), np.int32(0)], 0


def collatz() -> Case:
    """out[i] = steps that in[i] takes to 1: a loop that lanes leave at different times, with an if inside."""
    body = [
        *index_of_thread(),
        isetp(0, Compare.GE, Reg(2), N),
        control(Op.EXIT, guard=0),
        address(4, 2, IN),
        memory(Op.LD, Space.GLOBAL, 4, 6),
        alu(Op.MOV, 7, Imm(0)),
        control(Op.BSSY, 0, 20),
        isetp(1, Compare.EQ, Reg(6), Imm(1)),  # 9: loop
        control(Op.BRA, y=20, guard=1),
        control(Op.BSSY, 1, 17),
        alu(Op.LOP3, 8, Reg(6), Imm(1), x=0xC0, pd=2),
        control(Op.BRA, y=16, guard=2 + NOT),
        alu(Op.IMAD, 6, Reg(6), Imm(3), Imm(1)),
        control(Op.BRA, y=17),
        alu(Op.SHF, 6, None, Imm(1), Reg(6), x=5),  # 16
        control(Op.BSYNC, 1),  # 17
        alu(Op.IADD3, 7, Reg(7), Imm(1)),
        control(Op.BRA, y=9),
        control(Op.BSYNC, 0),  # 20
        address(4, 2, OUT),
        memory(Op.ST, Space.GLOBAL, 4, 7),
        control(Op.EXIT),
    ]
    return (
        program("collatz", body),
        2,
        48,
        [np.arange(1, 81, dtype=np.uint32), np.zeros(80, np.uint32), np.int32(80)],
        0,
    )


def atomic_histogram() -> Case:
    """out[in[i] & 7] counts, by shared atomics first, then global ones of eight threads a block."""
    shared_add = {"x": AtomicOp.ADD | NumberType.U32 << 4}
    body = [
        *index_of_thread(),
        alu(Op.MOV, 6, Imm(1)),
        alu(Op.SHF, 7, Reg(0), Imm(2)),
        isetp(0, Compare.GT, Reg(0), Imm(7)),
        alu(Op.MOV, 9, Imm(0)),
        memory(Op.ST, Space.SHARED, 7, 9, guard=0 + NOT),
        control(Op.BAR),
        isetp(1, Compare.LT, Reg(2), N),
        address(4, 2, IN),
        memory(Op.LD, Space.GLOBAL, 4, 8, guard=1),
        alu(Op.LOP3, 8, Reg(8), Imm(7), x=0xC0),
        alu(Op.SHF, 8, Reg(8), Imm(2)),
        memory(Op.RED, Space.SHARED, 8, 6, guard=1, **shared_add),
        control(Op.BAR),
        control(Op.EXIT, guard=0),
        memory(Op.LD, Space.SHARED, 7, 10),
        address(4, 0, OUT),
        memory(Op.RED, Space.GLOBAL, 4, 10, **shared_add),
        control(Op.EXIT),
    ]
    values = np.random.default_rng(12).integers(0, 2**32, 150, np.uint32)
    return program("atomic_histogram", body, 32), 3, 64, [values, np.zeros(8, np.uint32), np.int32(150)], 0
