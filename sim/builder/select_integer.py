"""Selection of 32-bit integer arithmetic."""

from __future__ import annotations

from typing import Any

from sim.builder.instructions import alu, shift_left
from sim.builder.ir import Value
from sim.builder.machine import ZERO, Lane, Operand
from sim.builder.select import Selector, handles, is_zero
from sim.builder.types import I32
from sim.isa import FLAG_SIGNED, SMOD_NEG_A, SMOD_NEG_B, SMOD_NEG_C, Op, TimingClass
from sim.program import Imm

_NEG = (SMOD_NEG_A, SMOD_NEG_B, SMOD_NEG_C)


def power_of(v: Value) -> int | None:
    """The exponent of a constant power of two."""
    if not v.is_const or v.attr <= 0 or v.attr & (v.attr - 1):
        return None
    return int(v.attr).bit_length() - 1


# --- sums
@handles("add", "sub", "neg")
def _sum(s: Selector, v: Value, dst: Lane) -> None:
    if v.op == "neg" or not _multiply_add(s, v, dst):
        _add3(s, v, dst)


def _multiply_add(s: Selector, v: Value, dst: Lane) -> bool:
    """IMAD or LEA for a sum with a product in it."""
    for at in (1, 0):
        product, other = v.args[at], v.args[1 - at]
        if product.op != "mul" or not s.single(product):
            continue
        a, b = product.args
        minus_product = v.op == "sub" and at == 1
        if minus_product and not b.is_const:
            continue
        smod = SMOD_NEG_C if v.op == "sub" and at == 0 else 0
        power = power_of(b)
        if power is not None and v.op == "add":
            s.put(alu(Op.LEA, "LEA", dst, s.use(a), s.flexible(other), x=power))
        elif b.is_const:
            factor = -b.attr if minus_product else b.attr
            s.put(alu(Op.IMAD, "IMAD", dst, s.use(a), Imm(factor & 0xFFFFFFFF), s.use(other), smod=smod))
        else:
            s.put(alu(Op.IMAD, "IMAD", dst, *s.three(a, b, other), smod=smod))
        return True
    return False


def _add3(s: Selector, v: Value, dst: Lane) -> None:
    """IADD3 of up to three terms."""
    terms = _expand(v, 1)
    for at in (0, 1):
        if at < len(terms) and len(terms) < 3:
            sign, t = terms[at]
            if t.op in ("add", "sub", "neg") and s.single(t) and not _has_product(s, t):
                more = _expand(t, sign)
                if len(terms) - 1 + len(more) <= 3:
                    terms[at : at + 1] = more
    terms.sort(key=lambda term: s.is_flexible(term[1]))
    operands: list[Operand] = []
    smod = 0
    free = True
    for sign, t in terms:
        if s.is_flexible(t) and free and operands:
            operands.append(s.flexible(t))
            free = False
        else:
            operands.append(s.use(t))
        if sign < 0:
            smod |= _NEG[len(operands) - 1]
    while len(operands) < 3:
        operands.append(ZERO)
    s.put(alu(Op.IADD3, "IADD3", dst, *operands, smod=smod))


def _expand(v: Value, sign: int) -> list[tuple[int, Value]]:
    if v.op == "neg":
        return [(-sign, v.args[0])]
    return [(sign, v.args[0]), (sign if v.op == "add" else -sign, v.args[1])]


def _has_product(s: Selector, v: Value) -> bool:
    return any(a.op == "mul" and s.single(a) for a in v.args)


# --- products
@handles("mul")
def _product(s: Selector, v: Value, dst: Lane) -> None:
    a, b = v.args
    power = power_of(b)
    if power is not None:
        s.put(shift_left(dst, s.use(a), Imm(power)))
    else:
        s.put(alu(Op.IMAD, "IMAD", dst, *s.two(a, b), ZERO))


@handles("mulhi")
def _high_product(s: Selector, v: Value, dst: Lane) -> None:
    signed = v.type is I32
    text, flags = "IMAD.HI" + ("" if signed else ".U32"), FLAG_SIGNED if signed else 0
    s.put(alu(Op.IMAD_HI, text, dst, *s.two(v.args[0], v.args[1]), ZERO, flags=flags, cls=TimingClass.IMAD_WIDE))


@handles("madwide", family="w")
def _wide_multiply_add(s: Selector, v: Value, dst: Lane) -> None:
    a, b, c = v.args
    multiply_add_wide(s, dst, a, b, c, bool(v.attr))


def multiply_add_wide(s: Selector, dst: Lane, a: Value, b: Value, c: Value, unsigned: bool) -> None:
    """IMAD.WIDE: the 64-bit `a * b + c` of 32-bit `a` and `b`."""
    if s.is_flexible(a) and not s.is_flexible(b):
        a, b = b, a
    x, y = s.use(a), s.flexible(b)
    addend: Any = ZERO
    if not is_zero(c):
        uniform = s.wide_uniform(c) if isinstance(y, Lane) and y.reg.kind == "R" else None
        addend = uniform if uniform is not None else s.use(c)
    text, flags = "IMAD.WIDE" + (".U32" if unsigned else ""), 0 if unsigned else FLAG_SIGNED
    m = alu(Op.IMAD_WIDE, text, dst, x, y, addend, cls=TimingClass.IMAD_WIDE, flags=flags)
    m.nd = m.nc = 2
    s.put(m)


# --- minimum, maximum, absolute value
@handles("min", "max")
def _extreme(s: Selector, v: Value, dst: Lane) -> None:
    unsigned = v.type.kind == "u"
    a, b = s.two(v.args[0], v.args[1])
    text = "VIMNMX" + (".U32" if unsigned else "")
    s.put(alu(Op.IMNMX, text, dst, a, b, x=int(unsigned), pa=None if v.op == "min" else False))


@handles("abs")
def _absolute(s: Selector, v: Value, dst: Lane) -> None:
    s.put(alu(Op.IABS, "IABS", dst, s.use(v.args[0])))
