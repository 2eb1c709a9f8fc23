"""Programs from machine form: numbered registers, resolved branch targets, source lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim.builder.allocate import Allocation
from sim.builder.ir import Graph
from sim.builder.limits import MAX_REGISTERS, RESERVED_REGISTERS
from sim.builder.machine import Code, Guard, Lane, Machine, VReg
from sim.isa import PT, Space
from sim.program import Instruction, Param, Program, Reg, UReg, predicate_name

MIN_REGISTERS = 16  #: the least that it reports, cc 9.0


def emit(
    graph: Graph, code: Code, numbers: Allocation, params: Sequence[Param], param_base: int, param_bytes: int
) -> Program:
    """The program of allocated code."""
    for block in code.blocks:
        block.code = [
            m
            for m in block.code
            if not (m.phantom or m.copy and _operand(m.a, numbers.number) == _operand(m.dst, numbers.number))
        ]
    starts, total = {}, 0
    for block in code.blocks:
        starts[block.number] = total
        total += len(block.code)
    instructions = [_instruction(m, numbers.number, starts) for block in code.blocks for m in block.code]
    used = numbers.registers + RESERVED_REGISTERS
    return Program(
        name=graph.name,
        instructions=instructions,
        registers=min(max(used, MIN_REGISTERS), MAX_REGISTERS),
        registers_at_launch=graph.registers,
        uniform_registers=numbers.uniform,
        shared_static_bytes=graph.shared_bytes,
        local_bytes=numbers.local_bytes,
        params=tuple(params),
        param_base=param_base,
        param_bytes=param_bytes,
        source=tuple(graph.lines),
    )


def _operand(operand: Any, number: dict[int, int]) -> Any:
    if isinstance(operand, Lane):
        at = number[operand.reg.id] + operand.word
        return UReg(at) if operand.reg.kind == "U" else Reg(at)
    return operand


def _source(guard: Guard | bool | None, number: dict[int, int]) -> int:
    if isinstance(guard, Guard):
        return number[guard.reg.id] | (16 if guard.negated else 0)
    return PT | 16 if guard is False else PT


def _result(reg: VReg | None, number: dict[int, int]) -> int:
    return PT if reg is None else number.get(reg.id, PT)


def _instruction(m: Machine, number: dict[int, int], starts: dict[int, int]) -> Instruction:
    if m.target is not None:
        m.y = starts[m.target.number]
    dst = _operand(m.dst, number)
    operands = m.operands
    if m.space is Space.CONSTANT and not operands:
        operands = f"{dst}, c[0x0][{m.y:#x}]"
    a, b, c = (_operand(o, number) for o in (m.a, m.b, m.c))
    pd, pe = _result(m.pd, number), _result(m.pe, number)
    pa, pb, guard = (_source(p, number) for p in (m.pa, m.pb, m.guard))
    if "{" in operands:
        condition = ("!" if pa & 16 else "") + predicate_name(pa & 15)
        operands = operands.format(dst=dst, a=a, b=b, c=c, pd=predicate_name(pd), pa=condition)
    return Instruction(
        op=m.op, cls=m.cls, text=m.text, dst=dst, nd=m.nd, a=a, b=b, c=c, na=m.na, nb=m.nb, nc=m.nc, smod=m.smod,
        pd=pd, pe=pe, pa=pa, pb=pb, x=int(m.x), y=int(m.y), space=m.space, width=m.width, guard=guard,
        flags=m.flags, line=m.line, operands=operands,
    )  # fmt: skip
