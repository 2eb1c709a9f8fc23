"""Selection of 64-bit integer arithmetic, in pairs of 32-bit words."""

from __future__ import annotations

from typing import Any

from sim.builder.instructions import (
    add_pairs,
    alu,
    choose,
    compare_pairs,
    move,
    shift_left,
    shift_right,
    sign_words,
    word_of,
    words,
)
from sim.builder.ir import Value
from sim.builder.machine import ZERO, Guard, Lane
from sim.builder.select import Selector, handles, is_zero
from sim.builder.select_integer import multiply_add_wide, power_of
from sim.builder.select_logic import LUT
from sim.builder.types import I32, bits_of
from sim.isa import FLAG_EXTENDED, FLAG_SIGNED, Op, ShiftMode, TimingClass
from sim.program import Imm


def pair(s: Selector, v: Value) -> tuple[Any, Any]:
    """Low and high word of an operand that may be immediates or uniform registers."""
    if v.is_const:
        bits = bits_of(v.attr, v.type)
        low, high = bits & 0xFFFFFFFF, bits >> 32
        return Imm(low) if low else ZERO, Imm(high) if high else ZERO
    uniform = s.wide_uniform(v)
    return words(uniform if uniform is not None else s.use(v))


def register_pair(s: Selector, v: Value) -> tuple[Any, Any]:
    """Low and high word of an operand that must be registers."""
    return words(s.use(v))


@handles("add", "sub", "neg", family="w")
def _sum(s: Selector, v: Value, dst: Lane) -> None:
    if v.op == "add" and (_scaled_index(s, v, dst) or _multiply_add(s, v, dst) or _extended(s, v, dst)):
        return
    if v.op == "neg":
        s.put(*add_pairs(dst, (ZERO, ZERO), pair(s, v.args[0]), s.predicate(), minus=True))
        return
    a, b = v.args
    if v.op == "add" and (a.is_const or s.plain(a).op == "cbank"):
        a, b = b, a
    left = (ZERO, ZERO) if is_zero(a) else register_pair(s, a)
    s.put(*add_pairs(dst, left, pair(s, b), s.predicate(), minus=v.op == "sub"))


def _multiply_add(s: Selector, v: Value, dst: Lane) -> bool:
    """IMAD.WIDE for a wide product plus a 64-bit value."""
    for at in (0, 1):
        product, other = s.plain(v.args[at]), v.args[1 - at]
        if product.op == "madwide" and is_zero(product.args[2]) and s.single(product):
            multiply_add_wide(s, dst, product.args[0], product.args[1], other, bool(product.attr))
            return True
    return False


def _high_of_extended(s: Selector, narrow: Value, dst: Lane, base: Any, shift: int, carry: Guard) -> Any:
    """LEA.HI.X.SX32: the high word of a 32-bit value extended by its sign and shifted, plus a word and a carry."""
    flags = FLAG_EXTENDED | FLAG_SIGNED
    return alu(Op.LEA_HI, "LEA.HI.X.SX32", word_of(dst, 1), s.use(narrow), base, x=shift, pa=carry, flags=flags)


def _extended(s: Selector, v: Value, dst: Lane) -> bool:
    """A 64-bit value plus a 32-bit one extended by its sign, without making the extended one."""
    for at in (0, 1):
        wide, other = s.plain(v.args[at]), v.args[1 - at]
        if wide.op != "cast" or wide.args[0].type.bits != 32 or not wide.args[0].type.is_int or not s.single(wide):
            continue
        narrow, carry = wide.args[0], s.predicate()
        low, high = pair(s, other)
        if narrow.nonneg or narrow.type is not I32:
            top = alu(Op.IADD3, "IADD3.X", word_of(dst, 1), ZERO, high, ZERO, flags=FLAG_EXTENDED, pa=Guard(carry))
        else:
            top = _high_of_extended(s, narrow, dst, high, 1, Guard(carry))
        s.put(alu(Op.IADD3, "IADD3", dst, s.use(narrow), low, ZERO, pd=carry), top)
        return True
    return False


def _scaled_index(s: Selector, v: Value, dst: Lane) -> bool:
    """LEA and LEA.HI.X for a 64-bit index, times a power of two, on a base."""
    for at in (1, 0):
        product, base = v.args[at], v.args[1 - at]
        shift = power_of(product.args[1]) if product.op == "mul" and s.single(product) else None
        if shift is None:
            continue
        index = s.plain(product.args[0])
        low, high = pair(s, base)
        carry = s.predicate()
        if index.op == "cast" and index.args[0].type is I32:
            narrow = index.args[0]
            top = _high_of_extended(s, narrow, dst, high, shift, Guard(carry))
            s.put(alu(Op.LEA, "LEA", dst, s.use(narrow), low, x=shift, pd=carry), top)
            return True
        x = s.use(index)
        top = alu(Op.LEA_HI, "LEA.HI.X", word_of(dst, 1), x, high, word_of(x, 1), x=shift, flags=FLAG_EXTENDED)
        top.pa = Guard(carry)
        s.put(alu(Op.LEA, "LEA", dst, x, low, x=shift, pd=carry), top)
        return True
    return False


@handles("mul", family="w")
def _product(s: Selector, v: Value, dst: Lane) -> None:
    a, b = v.args
    power = power_of(b)
    if power is not None:
        _shift_left(s, dst, s.use(a), Imm(power))
        return
    x, y = s.use(a), s.use(b)
    full, cross = s.register(2), s.register()
    m = alu(Op.IMAD_WIDE, "IMAD.WIDE.U32", full, x, y, ZERO, cls=TimingClass.IMAD_WIDE)
    m.nd = m.nc = 2
    s.put(
        m,
        alu(Op.IMAD, "IMAD", cross, x, word_of(y, 1), word_of(full, 1)),
        alu(Op.IMAD, "IMAD", word_of(dst, 1), word_of(x, 1), y, cross),
        move(dst, full),
    )


@handles("and", "or", "xor", family="w")
def _logic(s: Selector, v: Value, dst: Lane) -> None:
    a, b = register_pair(s, v.args[0]), pair(s, v.args[1])
    s.put(*(alu(Op.LOP3, "LOP3.LUT", word_of(dst, k), a[k], b[k], ZERO, x=LUT[v.op]) for k in range(2)))


@handles("not", family="w")
def _not(s: Selector, v: Value, dst: Lane) -> None:
    a = register_pair(s, v.args[0])
    s.put(*(alu(Op.LOP3, "LOP3.LUT", word_of(dst, k), ZERO, a[k], ZERO, x=0x33) for k in range(2)))


def _shift_left(s: Selector, dst: Lane, a: Any, amount: Any) -> None:
    mode = ShiftMode.HI | ShiftMode.WIDE
    high = alu(Op.SHF, "SHF.L.U64.HI", word_of(dst, 1), a, amount, word_of(a, 1), x=mode)
    s.put(high, shift_left(dst, a, amount))


@handles("shl", "shr", family="w")
def _shift(s: Selector, v: Value, dst: Lane) -> None:
    a, amount = s.use(v.args[0]), s.flexible(v.args[1])
    if v.op == "shl":
        _shift_left(s, dst, a, amount)
        return
    signed = v.type.kind == "i"
    mode = ShiftMode.RIGHT | ShiftMode.WIDE | (ShiftMode.SIGNED if signed else 0)
    low = alu(Op.SHF, f"SHF.R.{'S' if signed else 'U'}64", dst, a, amount, word_of(a, 1), x=mode)
    s.put(low, shift_right(word_of(dst, 1), word_of(a, 1), amount, signed))


@handles("min", "max", family="w")
def _extreme(s: Selector, v: Value, dst: Lane) -> None:
    a, b = (register_pair(s, x) for x in v.args)
    p = s.predicate()
    how = "lt" if v.op == "min" else "gt"
    s.put(
        *compare_pairs(how, a, b, v.type.kind == "u", p, s.predicate()),
        *(choose(word_of(dst, k), a[k], b[k], Guard(p)) for k in range(2)),
    )


@handles("abs", family="w")
def _absolute(s: Selector, v: Value, dst: Lane) -> None:
    """(x ^ sign) - sign."""
    a = register_pair(s, v.args[0])
    sign, flipped = s.register(), s.register(2)
    s.put(
        sign_words(sign, a[1]),
        *(alu(Op.LOP3, "LOP3.LUT", word_of(flipped, k), a[k], sign, ZERO, x=LUT["xor"]) for k in range(2)),
        *add_pairs(dst, words(flipped), (sign, sign), s.predicate(), minus=True),
    )
