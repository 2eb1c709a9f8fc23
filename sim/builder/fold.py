"""Constant folding and algebraic simplification, applied as each value is made.

A rule returns the simpler value, or None when there is none. Rules never add
work: what a rule makes replaces the operation, it does not stand beside it.
Float rules keep every bit: no reassociation, no `x * 0`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sim.builder.ir import Value
from sim.builder.types import BOOL, F32, F64, I32, U32, Type, bits_of, from_bits, int_range, wrap

if TYPE_CHECKING:
    from sim.builder.emitter import Emitter

Rule = Callable[["Emitter", Type, tuple[Value, ...], Any], "Value | None"]

SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}
SWAPPED |= {k + "u": v + "u" for k, v in SWAPPED.items()}
INVERTED = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}


def invert_compare(how: str, type_: Type) -> str:
    """The comparison that is true exactly when `how` is false; floats swap ordered and unordered."""
    if not type_.is_float:
        return INVERTED[how]
    return INVERTED[how[:2]] + ("" if how.endswith("u") else "u")


def fold(e: Emitter, op: str, type_: Type, args: tuple[Value, ...], attr: Any) -> Value | None:
    """A simpler value for an operation, or None."""
    rule = _RULES.get(op)
    return rule(e, type_, args, attr) if rule is not None else None


def is_nonneg(v: Value) -> bool:
    """True when a value is certainly >= 0 (signed arithmetic is taken not to overflow, as in C)."""
    if not v.type.is_int:
        return False
    op, args = v.op, v.args
    if op in ("add", "mul", "max", "or", "xor", "mulhi"):
        both = [a.nonneg for a in args]
        return any(both) if op == "max" else all(both)
    if op == "and":
        return any(a.nonneg for a in args)
    if op in ("shr", "min"):
        return args[0].nonneg and (op == "shr" or args[1].nonneg)
    if op == "select":
        return args[1].nonneg and args[2].nonneg
    if op == "cast":
        return args[0].type is U32 and type_bits(v) == 64 or args[0].nonneg or args[0].type is BOOL
    return op in ("popc", "abs")


def type_bits(v: Value) -> int:
    return v.type.bits


def _integers(args: tuple[Value, ...]) -> bool:
    return all(a.op == "const" for a in args)


def _add(e: Emitter, t: Type, args: tuple[Value, ...], attr: Any) -> Value | None:
    a, b = args
    if t.is_float:
        return e.const(a.attr + b.attr, t) if _integers(args) and t is not F64 and _finite(a, b) else None
    if b.op != "const":
        if b.op == "neg":
            return e.emit("sub", t, (a, b.args[0]))
        return None
    if a.op == "const":
        return e.const(a.attr + b.attr, t)
    if b.attr == 0:
        return a
    if a.op == "add" and a.args[1].op == "const":
        return e.emit("add", t, (a.args[0], e.const(a.args[1].attr + b.attr, t)))
    return None


def _sub(e: Emitter, t: Type, args: tuple[Value, ...], attr: Any) -> Value | None:
    a, b = args
    if t.is_float:
        if b.op == "const" and b.attr == 0 and math.copysign(1, b.attr) > 0:
            return a
        return None
    if a is b:
        return e.const(0, t)
    if b.op == "const":
        return e.emit("add", t, (a, e.const(-b.attr, t)))
    if _is(a, 0):
        return e.emit("neg", t, (b,))
    if b.op == "neg":
        return e.emit("add", t, (a, b.args[0]))
    if a.op == "add" and b in a.args:
        return a.args[1] if a.args[0] is b else a.args[0]
    return None


def _finite(*values: Value) -> bool:
    return all(math.isfinite(v.attr) for v in values)


def _is(v: Value, number: Any) -> bool:
    return v.op == "const" and v.attr == number


def _mul(e: Emitter, t: Type, args: tuple[Value, ...], attr: Any) -> Value | None:
    a, b = args
    if b.op == "const":
        if b.attr == 1:
            return a
        if t.is_float:
            if b.attr == -1:
                return e.emit("neg", t, (a,))
            return e.const(a.attr * b.attr, t) if a.op == "const" and _finite(a, b) else None
        if a.op == "const":
            return e.const(a.attr * b.attr, t)
        if b.attr == 0:
            return b
        if b.attr == -1:
            return e.emit("neg", t, (a,))
        if a.op == "mul" and a.args[1].op == "const":
            return e.emit("mul", t, (a.args[0], e.const(a.args[1].attr * b.attr, t)))
    return _wide_product(e, t, a, b) if t.bits == 64 and t.is_int else None


def _wide_product(e: Emitter, t: Type, a: Value, b: Value) -> Value | None:
    """A 64-bit product of widened 32-bit values as one wide multiplication."""
    if a.op != "cast" or a.args[0].type not in (I32, U32):
        return None
    x = a.args[0]
    if b.op == "cast" and (b.args[0].type is x.type or (b.args[0].nonneg and x.type is I32)):
        y = b.args[0]
    elif b.op == "const" and int_range(x.type)[0] <= b.attr <= int_range(x.type)[1]:
        y = e.const(b.attr, x.type)
    else:
        return None
    return e.emit("madwide", t, (x, y, e.const(0, t)), x.type is U32)


def _madwide(e: Emitter, t: Type, args: tuple[Value, ...], unsigned: Any) -> Value | None:
    a, b, c = args
    if a.op == "const" and b.op != "const":
        return e.emit("madwide", t, (b, a, c), unsigned)
    if _is(b, 0):
        return c
    if a.op == "const" and b.op == "const":
        return e.emit("add", t, (c, e.const(a.attr * b.attr, t)))
    return None


def _shift(e: Emitter, t: Type, args: tuple[Value, ...], left: bool) -> Value | None:
    a, b = args
    if b.op != "const":
        return None
    amount = b.attr
    if amount == 0:
        return a
    if not 0 <= amount < t.bits:
        return None
    if left:
        return e.emit("mul", t, (a, e.const(1 << amount, t)))
    if a.op == "const":
        return e.const(a.attr >> amount, t)
    if a.op == "shr" and a.args[1].op == "const" and a.args[1].attr + amount < t.bits:
        return e.emit("shr", t, (a.args[0], e.const(a.args[1].attr + amount, b.type)))
    return None


def _logic(op: str) -> Rule:
    def rule(e: Emitter, t: Type, args: tuple[Value, ...], attr: Any) -> Value | None:
        a, b = args
        if a is b:
            return e.const(0, t) if op == "xor" else a
        if b.op != "const":
            return None
        mask, bits = b.attr, -1 if t.kind == "i" else int_range(t)[1]
        if a.op == "const":
            x, y = a.attr, b.attr
            return e.const(x & y if op == "and" else x | y if op == "or" else x ^ y, t)
        if mask == 0:
            return b if op == "and" else a
        if mask == bits:
            return {"and": a, "or": b, "xor": e.emit("not", t, (a,))}[op]
        if op == "and" and a.op == "and" and a.args[1].op == "const":
            return e.emit("and", t, (a.args[0], e.const(a.args[1].attr & mask, t)))
        return None

    return rule


def _neg(e: Emitter, t: Type, args: tuple[Value, ...], attr: Any) -> Value | None:
    (a,) = args
    if a.op == "const":
        return e.const(-a.attr, t)
    if a.op == "neg":
        return a.args[0]
    if t.is_int and a.op == "sub":
        return e.emit("sub", t, (a.args[1], a.args[0]))
    if a.op == "mul" and a.args[1].op == "const":
        return e.emit("mul", t, (a.args[0], e.const(-a.args[1].attr, t)))
    return None


def _not(e: Emitter, t: Type, args: tuple[Value, ...], attr: Any) -> Value | None:
    (a,) = args
    if a.op == "const":
        return e.const(~a.attr, t)
    return a.args[0] if a.op == "not" else None


def _abs(e: Emitter, t: Type, args: tuple[Value, ...], attr: Any) -> Value | None:
    (a,) = args
    if a.op == "const":
        return e.const(abs(a.attr), t)
    if t.is_int and a.nonneg:
        return a
    return e.emit("abs", t, a.args) if a.op == "neg" and t.is_float else None


def _min_max(pick: Callable[[Any, Any], Any]) -> Rule:
    def rule(e: Emitter, t: Type, args: tuple[Value, ...], attr: Any) -> Value | None:
        a, b = args
        if a is b:
            return a
        if a.op == "const" and b.op == "const" and (t.is_int or _finite(a, b)):
            return e.const(pick(a.attr, b.attr), t)
        return None

    return rule


def _fma(e: Emitter, t: Type, args: tuple[Value, ...], attr: Any) -> Value | None:
    a, b, c = args
    if attr is None and _is(b, 1.0):
        return e.emit("add", t, (a, c))
    return None


def _cmp(e: Emitter, t: Type, args: tuple[Value, ...], how: Any) -> Value | None:
    a, b = args
    if a.op == "const" and b.op == "const":
        unordered = a.attr != a.attr or b.attr != b.attr
        return e.const(how.endswith("u") if unordered else _COMPARE[how[:2]](a.attr, b.attr), BOOL)
    if a.op == "const":
        return e.emit("cmp", BOOL, (b, a), SWAPPED[how])
    if a is b and not a.type.is_float:
        return e.const(how in ("le", "ge", "eq"), BOOL)
    if b.op == "const" and a.type.kind == "u" and b.attr == 0 and how in ("ge", "lt"):
        return e.const(how == "ge", BOOL)
    return _simpler_comparison(e, a, b, how) if b.op == "const" and a.type.kind == "i" else None


def _simpler_comparison(e: Emitter, a: Value, b: Value, how: str) -> Value | None:
    """`x * c < k` as `x < ceil(k / c)`; signed arithmetic does not overflow."""
    if a.op != "mul" or a.args[1].op != "const":
        return None
    c, k, t = a.args[1].attr, b.attr, a.type
    if c <= 0 or (how in ("eq", "ne") and k % c):
        return None
    bound = -(-k // c) if how in ("lt", "ge") else k // c
    return e.emit("cmp", BOOL, (a.args[0], e.const(bound, t)), how)


def _select(e: Emitter, t: Type, args: tuple[Value, ...], attr: Any) -> Value | None:
    c, a, b = args
    if c.op == "const":
        return a if c.attr else b
    if a is b:
        return a
    if t is BOOL:
        return e.emit("por", t, (e.emit("pand", t, (c, a)), e.emit("pand", t, (e.emit("pnot", t, (c,)), b))))
    if c.op == "pnot":
        return e.emit("select", t, (c.args[0], b, a))
    return None


def _predicate(op: str) -> Rule:
    def rule(e: Emitter, t: Type, args: tuple[Value, ...], attr: Any) -> Value | None:
        a, b = args
        if a is b:
            return e.const(False, BOOL) if op == "pxor" else a
        if b.op != "const":
            return None
        if op == "pand":
            return a if b.attr else b
        if op == "por":
            return b if b.attr else a
        return e.emit("pnot", BOOL, (a,)) if b.attr else a

    return rule


def _pnot(e: Emitter, t: Type, args: tuple[Value, ...], attr: Any) -> Value | None:
    (a,) = args
    if a.op == "const":
        return e.const(not a.attr, BOOL)
    if a.op == "pnot":
        return a.args[0]
    if a.op == "cmp":
        return e.emit("cmp", BOOL, a.args, invert_compare(a.attr, a.args[0].type))
    return None


def _cast(e: Emitter, t: Type, args: tuple[Value, ...], attr: Any) -> Value | None:
    (a,) = args
    if a.type is t:
        return a
    if a.op == "const":
        if t.is_int:
            if not a.type.is_float:
                return e.const(int(a.attr), t)
            low, high = int_range(t)
            return e.const(0 if a.attr != a.attr else int(min(max(a.attr, low), high)), t)
        return e.const(a.attr, t)
    if a.type.is_int and t.is_int and a.type.bits == t.bits:
        return e.emit("bitcast", t, (a,))
    if (a.type.is_half and t is not F32 and t is not BOOL) or (t.is_half and a.type not in (F32, F64, BOOL)):
        return e.cast(e.cast(a, F32), t)  # halves convert through float32
    if a.op == "cast" and a.type.is_int and t.is_int and a.type.bits == 64 and t.bits == 32:
        if a.args[0].type.bits == 32 and a.args[0].type.is_int:
            return e.emit("bitcast", t, a.args)
    if t is BOOL:
        return e.emit("cmp", BOOL, (a, e.const(0, a.type)), "neu" if a.type.is_float else "ne")
    return None


def _bitcast(e: Emitter, t: Type, args: tuple[Value, ...], attr: Any) -> Value | None:
    (a,) = args
    if a.type is t:
        return a
    if a.op == "const":
        return e.const(from_bits(bits_of(a.attr, a.type), t), t)
    return e.emit("bitcast", t, a.args) if a.op == "bitcast" else None


def _part(e: Emitter, t: Type, args: tuple[Value, ...], index: Any) -> Value | None:
    (a,) = args
    return a.args[index] if a.op == "pack" else None


def _hi(e: Emitter, t: Type, args: tuple[Value, ...], index: Any) -> Value | None:
    """One 32-bit half of a 64-bit value: `word` with attr 0 (low) or 1."""
    (a,) = args
    if a.op == "const":
        return e.const(bits_of(a.attr, a.type) >> (32 * index) & 0xFFFFFFFF, t)
    return a.args[index] if a.op == "pair" and a.args[index].type is t else None


def _popc(e: Emitter, t: Type, args: tuple[Value, ...], attr: Any) -> Value | None:
    (a,) = args
    return e.const(bits_of(a.attr, a.type).bit_count(), t) if a.op == "const" else None


def _mulhi(e: Emitter, t: Type, args: tuple[Value, ...], attr: Any) -> Value | None:
    a, b = args
    return e.const(wrap((a.attr * b.attr) >> t.bits, t), t) if a.op == "const" and b.op == "const" else None


_RULES: dict[str, Rule] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "madwide": _madwide,
    "mulhi": _mulhi,
    "shl": lambda e, t, args, attr: _shift(e, t, args, True),
    "shr": lambda e, t, args, attr: _shift(e, t, args, False),
    "and": _logic("and"),
    "or": _logic("or"),
    "xor": _logic("xor"),
    "neg": _neg,
    "not": _not,
    "abs": _abs,
    "min": _min_max(min),
    "max": _min_max(max),
    "fma": _fma,
    "cmp": _cmp,
    "select": _select,
    "pand": _predicate("pand"),
    "por": _predicate("por"),
    "pxor": _predicate("pxor"),
    "pnot": _pnot,
    "cast": _cast,
    "bitcast": _bitcast,
    "part": _part,
    "word": _hi,
    "popc": _popc,
}
