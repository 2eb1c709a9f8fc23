"""Selection of 32-bit logic, shifts and bit counts."""

from __future__ import annotations

from typing import Any

from sim.builder.instructions import alu, shift_left, shift_right
from sim.builder.ir import Value
from sim.builder.machine import ZERO, Lane, Machine, VReg
from sim.builder.select import Selector, handles
from sim.isa import Op, ShiftMode, TimingClass

LUT = {"and": 0xC0, "or": 0xFC, "xor": 0x3C}  #: tables of the first two operands
_TABLES = (0xF0, 0xCC, 0xAA)  # of each operand alone


def _evaluate(op: str, x: int, y: int) -> int:
    return {"and": x & y, "or": x | y, "xor": x ^ y}[op]


@handles("and", "or", "xor")
def _logic(s: Selector, v: Value, dst: Lane | None) -> None:
    s.put(_lop3(s, v, dst, s.also.get(v.id)))


def _lop3(s: Selector, v: Value, dst: Lane | None, predicate: VReg | None) -> Machine:
    """One LOP3 for a logical operation, and for one that it takes in."""
    leaves: list[Value] = []

    def table_of(x: Value) -> int:
        if x.op == "not" and s.single(x):
            return ~table_of(x.args[0]) & 0xFF
        if x not in leaves:
            leaves.append(x)
        return _TABLES[leaves.index(x)]

    first, second = v.args
    inner = _taken_in(s, first, second)
    if inner is not None:
        other = second if inner is first else first
        table = _evaluate(v.op, _evaluate(inner.op, table_of(inner.args[0]), table_of(inner.args[1])), table_of(other))
    else:
        table = _evaluate(v.op, table_of(first), table_of(second))
    order = sorted(range(len(leaves)), key=lambda k: s.is_flexible(leaves[k]))
    if len(order) == 3 and s.is_flexible(leaves[order[2]]):
        order = [order[0], order[2], order[1]]  # only the second operand may be other than a register
    operands: list[Any] = [s.flexible(leaves[k]) if place == 1 else s.use(leaves[k]) for place, k in enumerate(order)]
    operands += [ZERO] * (3 - len(operands))
    return alu(Op.LOP3, "LOP3.LUT", dst, *operands, x=_permuted(table, order), pd=predicate)


def _taken_in(s: Selector, first: Value, second: Value) -> Value | None:
    """The operand that is a logical operation itself and can become part of this one: at most three sources in all."""
    for inner, other in ((first, second), (second, first)):
        if inner.op in LUT and inner.type.bits == 32 and s.single(inner):
            sources = {p.args[0] if p.op == "not" and s.single(p) else p for p in (*inner.args, other)}
            return inner if len(sources) <= 3 else None
    return None


def _permuted(table: int, order: list[int]) -> int:
    """The table for operands in another order: `order[place]` is the old number of the operand at `place`."""
    order = order + [k for k in range(3) if k not in order]
    out = 0
    for entry in range(8):
        old = [0, 0, 0]
        for place, k in enumerate(order):
            old[k] = entry >> (2 - place) & 1
        out |= (table >> (old[0] << 2 | old[1] << 1 | old[2]) & 1) << entry
    return out


@handles("not")
def _not(s: Selector, v: Value, dst: Lane) -> None:
    s.put(alu(Op.LOP3, "LOP3.LUT", dst, ZERO, s.use(v.args[0]), ZERO, x=0x33))


@handles("shl", "shr")
def _shift(s: Selector, v: Value, dst: Lane) -> None:
    a, amount = s.use(v.args[0]), s.flexible(v.args[1])
    s.put(shift_left(dst, a, amount) if v.op == "shl" else shift_right(dst, a, amount, v.type.kind == "i"))


@handles("shf")
def _funnel(s: Selector, v: Value, dst: Lane) -> None:
    high, low, amount = v.args
    s.put(alu(Op.SHF, "SHF.L.U32.HI", dst, s.use(low), s.flexible(amount), s.use(high), x=ShiftMode.HI))


@handles("popc", "flo", "brev")
def _bits(s: Selector, v: Value, dst: Lane) -> None:
    op, text = {"popc": (Op.POPC, "POPC"), "flo": (Op.FLO, "FLO.U32"), "brev": (Op.BREV, "BREV")}[v.op]
    s.put(alu(op, text, dst, s.use(v.args[0]), cls=TimingClass.XU))
