"""Selection of comparisons, conditions and choices between values."""

from __future__ import annotations

from sim.builder.instructions import alu, choose, compare_pairs, compare_words, word_of
from sim.builder.ir import Value
from sim.builder.machine import ZERO, Guard, Lane, Machine, VReg
from sim.builder.select import Selector, handles, is_alias, is_zero, tests_bits
from sim.builder.select_float import choose_float, compare_floats
from sim.builder.select_wide import pair, register_pair
from sim.builder.types import F32
from sim.isa import BoolOp, Op, TimingClass

_IN_PLACE = frozenset(("add", "sub", "mul", "neg", "fma", "and", "or", "xor"))


# --- choices
@handles("select", family="w")
@handles("select", family="f")
@handles("select")
def _select(s: Selector, v: Value, dst: Lane) -> None:
    condition, a, b = v.args
    test = s.test(condition)
    if isinstance(test, bool):
        s.copy(dst, a if test else b)
        return
    for chosen, other, guard in ((a, b, test), (b, a, test.inverted())):
        if s.guard is None and _changes_in_place(s, chosen, other):
            _in_place(s, dst, chosen, other, guard)
            return
    if v.type is F32:
        choose_float(s, a, b, test, dst)
    elif v.type.registers == 1:
        if s.is_flexible(a) and not s.is_flexible(b):
            a, b, test = b, a, test.inverted()
        s.put(choose(dst, ZERO if is_zero(a) else s.use(a), s.flexible(b), test))
    else:
        x, y = s.use(a), s.use(b)
        s.put(*(choose(word_of(dst, k), word_of(x, k), word_of(y, k), test) for k in range(2)))


def _changes_in_place(s: Selector, chosen: Value, other: Value) -> bool:
    """True for `c ? x op y : x`, which is one guarded instruction on x's register."""
    return (
        chosen.op in _IN_PLACE
        and s.single(chosen)
        and chosen.type.registers == 1
        and other in chosen.args
        and other.region is not None
        and not is_alias(other)
        and not any(x.op == "mul" and s.fusable(x) and chosen.op in ("add", "sub") for x in chosen.args)
    )


def _in_place(s: Selector, dst: Lane, chosen: Value, other: Value, guard: Guard) -> None:
    """Move `other` to `dst`, then compute `chosen` there under a guard."""
    held = s.lanes.get(other.id)
    s.lanes[other.id] = s.lanes[chosen.id] = dst
    s.merged.add(chosen.id)
    s.guard = guard
    s.value(chosen)
    s.guard = None
    s.done.add(chosen.id)
    del s.lanes[other.id]
    if held is not None:
        s.lanes[other.id] = held
    s.copy(dst, other)


# --- comparisons
@handles("cmp", family="w")
@handles("cmp", family="f")
@handles("cmp")
def _compare(s: Selector, v: Value, dst: Guard) -> None:
    """A comparison; one of a logical result with zero is left to the LOP3 that makes the result, where that comes."""
    if tests_bits(v):
        if v.args[0].region is s.region and v.args[0].id not in s.also:
            s.also[v.args[0].id] = dst.reg
            return
        s.put(*_comparison(s, v, dst.reg, None, BoolOp.AND, "ne"))
        return
    s.put(*_comparison(s, v, dst.reg, None, BoolOp.AND, v.attr))


def _comparison(s: Selector, v: Value, pd: VReg, other: Guard | None, how: BoolOp, attr: str) -> list[Machine]:
    a, b = v.args
    if a.type.is_float:
        return [compare_floats(s, v, pd, other, how)]
    unsigned = a.type.kind == "u"
    if a.type.bits == 64:
        return compare_pairs(attr, register_pair(s, a), pair(s, b), unsigned, pd, s.predicate(), other, how)
    return [compare_words(attr, s.use(a), s.flexible(b), unsigned, pd, other, how)]


@handles("pand", "por", "pxor")
def _combine(s: Selector, v: Value, dst: Guard) -> None:
    """A comparison with the other condition as its third input, or PLOP3."""
    a, b = v.args
    how = {"pand": BoolOp.AND, "por": BoolOp.OR, "pxor": BoolOp.XOR}[v.op]
    for compared, other in ((b, a), (a, b)):
        if compared.op == "cmp" and s.single(compared) and compared.id not in s.guards and not tests_bits(compared):
            guard = s.test(other)
            assert not isinstance(guard, bool)
            s.put(*_comparison(s, compared, dst.reg, guard, how, compared.attr))
            return
    x, y = s.test(a), s.test(b)
    assert not isinstance(x, bool) and not isinstance(y, bool)
    table = {"pand": 0xC0, "por": 0xFC, "pxor": 0x3C}[v.op]
    s.put(alu(Op.PLOP3, "PLOP3.LUT", None, x=table, y=7, pd=dst.reg, pa=x, pb=y, cls=TimingClass.SETP))
