"""Selection of conversions between types, and of packed halves."""

from __future__ import annotations

from typing import Any

from sim.builder.instructions import alu, choose, move, shift_left, sign_words, word_of
from sim.builder.ir import Value
from sim.builder.machine import ZERO, Lane, Machine
from sim.builder.select import Selector, handles
from sim.builder.select_float import bare
from sim.builder.types import BF16, BOOL, F16, F32, F64, I32, I64, U32, U64, Type, bits_of
from sim.isa import SMOD_NEG_A, NumberType, Op, Rounding, TimingClass
from sim.program import Imm

_NUMBER = {
    F16: NumberType.F16, BF16: NumberType.BF16, F32: NumberType.F32, F64: NumberType.F64,
    I32: NumberType.S32, U32: NumberType.U32, I64: NumberType.S64, U64: NumberType.U64,
}  # fmt: skip


@handles("cast", family="w")
@handles("cast", family="f")
@handles("cast")
def _cast(s: Selector, v: Value, dst: Lane) -> None:
    a, to = v.args[0], v.type
    if a.type is BOOL:
        _from_predicate(s, a, to, dst)
    elif a.type.is_int and to.is_int:
        _integer_to_integer(s, a, to, dst)
    elif a.type.is_int:
        _to_float(s, a, to, dst, Rounding.RN)
    elif to.is_int:
        _to_integer(s, a, to, dst, Rounding.RZ)
    else:
        _float_to_float(s, a, to, dst)


def _from_predicate(s: Selector, a: Value, to: Type, dst: Lane) -> None:
    test = s.test(a)
    one = bits_of(1, to)
    for k in range(to.registers):
        word = one >> (32 * k) & 0xFFFFFFFF
        if not word or isinstance(test, bool):
            s.put(move(word_of(dst, k), Imm(word) if word and test else ZERO))
        else:
            s.put(choose(word_of(dst, k), ZERO, Imm(word, to.is_float), test.inverted()))


def _integer_to_integer(s: Selector, a: Value, to: Type, dst: Lane) -> None:
    source = s.use(a)
    s.put(move(dst, source))
    if to.bits == 64:
        high = word_of(dst, 1)
        s.put(move(high, ZERO) if a.type.kind == "u" or a.nonneg else sign_words(high, source))


_SUFFIX = {Rounding.RN: "", Rounding.RZ: ".TRUNC", Rounding.RM: ".FLOOR", Rounding.RP: ".CEIL"}
_MODE = {Rounding.RN: "", Rounding.RZ: ".RZ", Rounding.RM: ".RM", Rounding.RP: ".RP"}


def _short(t: Type) -> str:
    return {"i": "S", "u": "U", "f": "F"}[t.kind] + str(t.bits) if t is not BF16 else "BF16"


def _convert(s: Selector, op: Op, text: str, dst: Lane, a: Value, to: Type, rounding: Rounding) -> Machine:
    """A conversion instruction, put. Signs of a float source are taken in."""
    x, smod = bare(a)
    number = _NUMBER[a.type] | _NUMBER[to] << 4 | rounding << 8
    m = alu(op, text, dst, s.use(x), x=number, cls=TimingClass.CONVERT, smod=smod)
    m.nd, m.na = to.registers, a.type.registers
    s.put(m)
    return m


@handles("i2f", family="f")
def _i2f(s: Selector, v: Value, dst: Lane) -> None:
    _to_float(s, v.args[0], v.type, dst, Rounding(v.attr))


def _to_float(s: Selector, a: Value, to: Type, dst: Lane, rounding: Rounding) -> None:
    if a.type.bits == 32 and to is F32 and rounding is Rounding.RN:
        _convert(s, Op.I2F, f"I2FP.F32.{_short(a.type)}", dst, a, to, rounding).cls = TimingClass.ALU
    else:
        _convert(s, Op.I2F, f"I2F.{_short(to)}.{_short(a.type)}{_MODE[rounding]}", dst, a, to, rounding)


@handles("f2i", family="w")
@handles("f2i")
def _f2i(s: Selector, v: Value, dst: Lane) -> None:
    _to_integer(s, v.args[0], v.type, dst, Rounding(v.attr))


def _to_integer(s: Selector, a: Value, to: Type, dst: Lane, rounding: Rounding) -> None:
    text = f"F2I{'' if to is I32 else '.' + _short(to)}{'.F64' if a.type is F64 else ''}{_SUFFIX[rounding]}.NTZ"
    _convert(s, Op.F2I, text, dst, a, to, rounding)


@handles("frnd", family="f")
def _round(s: Selector, v: Value, dst: Lane) -> None:
    text = f"FRND{'.F64' if v.type is F64 else ''}{_SUFFIX[Rounding(v.attr)]}"
    _convert(s, Op.FRND, text, dst, v.args[0], v.type, Rounding(v.attr))


def _float_to_float(s: Selector, a: Value, to: Type, dst: Lane) -> None:
    """Halves and float32, or either and float64; other pairs go through float32."""
    if F64 in (a.type, to):
        _convert(s, Op.F2F, f"F2F.{_short(to)}.{_short(a.type)}", dst, a, to, Rounding.RN)
    elif to is F32:
        _widen(s, dst, a)
    else:
        x, smod = bare(a)
        s.put(_pack(dst, s.use(x), ZERO, to, smod))


def _widen(s: Selector, dst: Lane, a: Value) -> None:
    """A half to float32: a shift or a mask for bfloat16, HADD2.F32 for float16."""
    kind, high = a.type, False
    if a.op == "half" and s.single(a):
        a, high = a.args[0], bool(a.attr)
    source = s.use(a)
    if kind is BF16:
        mask = alu(Op.LOP3, "LOP3.LUT", dst, source, Imm(0xFFFF0000), ZERO, x=0xC0)
        s.put(mask if high else shift_left(dst, source, Imm(16)))
        return
    selector = 2 if high else 1
    m = alu(Op.HADD2, "HADD2.F32", dst, ZERO, source, cls=TimingClass.FP16, smod=SMOD_NEG_A)  # -0 + source
    m.x = selector << 4 | selector << 6 | 1 << 10
    s.put(m)


def _pack(dst: Lane, low: Any, high: Any, to: Type, smod: int = 0) -> Machine:
    """F2FP: two float32 to packed halves. The instruction's first source becomes the high half."""
    return alu(Op.F2FP, f"F2FP.{_short(to)}.F32.PACK_AB", dst, high, low, x=_NUMBER[to], smod=smod << 1)


@handles("packfloat")
def _packfloat(s: Selector, v: Value, dst: Lane) -> None:
    (x, mx), (y, my) = (bare(a) for a in v.args)
    m = _pack(dst, s.use(x), s.use(y), v.attr)
    m.smod = my | mx << 1
    s.put(m)


@handles("packhalf")
def _packhalf(s: Selector, v: Value, dst: Lane) -> None:
    low, high = (s.use(a) for a in v.args)
    s.put(alu(Op.PRMT, "PRMT", dst, low, Imm(0x5410), high))


@handles("half", family="f")
def _half(s: Selector, v: Value, dst: Lane) -> None:
    source = s.use(v.args[0])
    selector = 0x7632 if v.attr else 0x7610
    s.put(alu(Op.PRMT, "PRMT", dst, source, Imm(selector), ZERO))
