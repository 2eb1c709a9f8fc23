"""Shuffles, votes and bit counts of the thread view."""

from __future__ import annotations

from typing import Any

from sim.builder.ir import Value
from sim.builder.trace import Tracer
from sim.builder.types import BOOL, I32, U32
from sim.builder.values import Scalar, lift


def shuffle(t: Tracer, value: Any, lane: Any, mode: int, width: int) -> Scalar:
    """One SHFL a 32-bit word. `mode` 0 index, 1 up, 2 down, 3 exclusive or; `width` a power of two to 32."""
    t.mark()
    if width not in (1, 2, 4, 8, 16, 32):
        raise t.error(f"a shuffle's width is a power of two up to 32, not {width}")
    x = lift(t, value)
    by = t.cast(lift(t, lane), I32)
    clamp = t.i32((0 if mode == 1 else 31) | (32 - width) << 8)
    if x.type is BOOL:
        x = t.select(x, t.i32(1), t.i32(0))
        return Scalar(t, t.compare("ne", t.emit("shfl", I32, (x, by, clamp), mode), t.i32(0)))
    if x.type.registers == 1:
        return Scalar(t, t.emit("shfl", x.type, (x, by, clamp), mode))
    words = [t.emit("shfl", U32, (t.emit("word", U32, (x,), k), by, clamp), mode) for k in range(2)]
    return Scalar(t, t.emit("pair", x.type, tuple(words)))


def vote(t: Tracer, condition: Any, how: str) -> Scalar:
    """`ballot` (uint32), `any`, `all` (conditions)."""
    t.mark()
    p = t.cast(lift(t, condition), BOOL)
    return Scalar(t, t.emit("vote", U32 if how == "ballot" else BOOL, (p,), how))


def _word(t: Tracer, x: Any) -> Value:
    value = lift(t, x)
    if not value.type.is_int or value.type.bits != 32:
        raise t.error(f"a 32-bit integer is needed here, not {value.type}")
    return value


def bits(t: Tracer, op: str, x: Any) -> Scalar:
    """`popc` (int32) or `brev` (same type)."""
    t.mark()
    value = lift(t, x)
    if op == "popc" and value.type.is_int and value.type.bits == 64:
        counts = [t.emit("popc", I32, (t.emit("word", U32, (value,), k),)) for k in range(2)]
        return Scalar(t, t.add(*counts))
    value = _word(t, x)
    return Scalar(t, t.emit(op, I32 if op == "popc" else value.type, (value,)))


def leading_zeros(t: Tracer, x: Any) -> Scalar:
    """31 minus the highest set bit's number; 32 for zero."""
    t.mark()
    value = t.bitcast(_word(t, x), U32)
    return Scalar(t, t.sub(t.i32(31), t.emit("flo", I32, (value,))))
