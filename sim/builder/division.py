"""Division: what CUDA's compiler makes of `/`, `//` and `%`, which no instruction does.

Floats: a reciprocal estimate, Newton steps and a correction give the correctly
rounded quotient; a check sends extreme operands to a slower way. Integers: a
power of two is a shift, another constant a multiplication by its reciprocal, and
a variable a float reciprocal made exact. Integer `//` and `%` round down.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sim.builder.ir import Value
from sim.builder.types import BOOL, F16, F32, F64, I32, I64, U32, U64
from sim.isa import MufuFunction, Rounding

if TYPE_CHECKING:
    from sim.builder.trace import Tracer


def mufu(t: Tracer, function: MufuFunction, x: Value) -> Value:
    """A special-function unit's estimate."""
    return t.emit("mufu", x.type, (x,), function)


def divide(t: Tracer, a: Value, b: Value) -> Value:
    """`a / b` of two floats of one type, correctly rounded (float16: to within its last bit)."""
    if a.type is F64:
        return _divide_f64(t, a, b)
    if a.type is F32:
        return _divide_f32(t, a, b)
    x, y = t.cast(a, F32), t.cast(b, F32)
    quotient = fast_divide(t, x, y) if a.type is F16 else _divide_f32(t, x, y)
    return t.cast(quotient, a.type)


def fast_divide(t: Tracer, a: Value, b: Value) -> Value:
    """`a * (1/b)` by the reciprocal estimate, as CUDA's `__fdividef`."""
    return t.mul(a, mufu(t, MufuFunction.RCP, b))


# --- float32
def _divide_f32(t: Tracer, a: Value, b: Value) -> Value:
    if b.is_const and b.attr != 0 and math.isfinite(b.attr):
        mantissa, exponent = math.frexp(b.attr)
        if abs(mantissa) == 0.5 and -100 < exponent < 100:
            return t.mul(a, t.f32(1.0 / b.attr))
    if a.is_const and a.attr == 1.0:
        return reciprocal(t, b)
    minus_b = t.emit("neg", F32, (b,))
    one = t.f32(1.0)
    if b.is_const:
        r: Value = t.f32(float(np.float32(1) / np.float32(b.attr)) if b.attr else math.inf)
    else:
        estimate = t.emit("estimate", F32, (b,), MufuFunction.RCP)
        r = t.fma(estimate, t.fma(estimate, minus_b, one), estimate)
    check = t.emit("fchk", BOOL, (a, b))
    q = t.mul(a, r)
    q = t.fma(r, t.fma(q, minus_b, a), q)
    result = t.slot(q)
    with t.if_(check, rare=True):
        t.write(result, _slow_divide_f32(t, a, b))
    return t.read(result)


def reciprocal(t: Tracer, b: Value) -> Value:
    """`1 / b` of a float32, correctly rounded."""
    top = t.emit("and", I32, (t.add(t.bitcast(b, I32), t.i32(0x1800000)), t.i32(0x7F800000)))
    extreme = t.compare("le", t.bitcast(top, U32), t.const(0x1FFFFFF, U32))
    result = t.slot(t.f32(0.0))
    with t.if_(extreme, rare=True):
        t.write(result, _slow_divide_f32(t, t.f32(1.0), b))
    with t.else_():
        r = t.emit("estimate", F32, (b,), MufuFunction.RCP)
        error = t.fma(b, r, t.f32(-1.0))
        t.write(result, t.fma(r, t.emit("neg", F32, (error,)), r))
    return t.read(result)


def _slow_divide_f32(t: Tracer, a: Value, b: Value) -> Value:
    """Through float64, whose exponents hold every float32 quotient; zeros and infinities by the plain product."""
    x, y = t.cast(a, F64), t.cast(b, F64)
    quotient, estimate = _newton_f64(t, x, y)
    infinity = t.f32(math.inf)
    usual = t.compare("lt", t.emit("abs", F32, (b,)), infinity)
    usual = t.emit("pand", BOOL, (usual, t.compare("lt", t.emit("abs", F32, (a,)), infinity)))
    usual = t.emit("pand", BOOL, (usual, t.compare("neu", b, t.f32(0.0))))
    return t.cast(t.select(usual, quotient, t.mul(x, estimate)), F32)


# --- float64
def _newton_f64(t: Tracer, a: Value, b: Value) -> tuple[Value, Value]:
    """The quotient of operands of moderate exponents, and the reciprocal's first estimate."""
    high = t.emit("mufu", U32, (t.emit("word", U32, (b,), 1),), MufuFunction.RCP64H)
    estimate = t.emit("pair", F64, (t.const(0, U32), high))  # zeros and infinities have no low bits
    minus_b = t.emit("neg", F64, (b,))
    one = t.f64(1.0)
    error = t.fma(minus_b, estimate, one)
    error = t.fma(error, error, error)
    r = t.fma(estimate, error, estimate)
    r = t.fma(r, t.fma(minus_b, r, one), r)
    q = t.mul(a, r)
    return t.fma(r, t.fma(minus_b, q, a), q), estimate


def _high_float(t: Tracer, x: Value) -> Value:
    """The high word of a float64 as a float32: its sign and exponent, to compare magnitudes."""
    return t.bitcast(t.emit("word", U32, (x,), 1), F32)


def _divide_f64(t: Tracer, a: Value, b: Value) -> Value:
    quotient, _ = _newton_f64(t, a, b)
    numerator_fine = t.compare("geu", t.emit("abs", F32, (_high_float(t, a),)), t.f32(6.5827683646048100446e-37))
    probe = t.fma(_high_float(t, b), t.f32(0.0), _high_float(t, quotient))
    result_fine = t.compare("gt", t.emit("abs", F32, (probe,)), t.f32(1.469367938527859385e-39))
    result = t.slot(quotient)
    with t.if_(t.emit("pnot", BOOL, (t.emit("pand", BOOL, (numerator_fine, result_fine)),)), rare=True):
        t.write(result, _slow_divide_f64(t, a, b))
    return t.read(result)


def _scaled(t: Tracer, x: Value) -> tuple[Value, Value]:
    """`x` brought to moderate exponents by a power of two, and that power."""
    size = t.emit("abs", F64, (x,))
    scale = t.select(t.compare("lt", size, t.f64(2.0**-400)), t.f64(2.0**600), t.f64(1.0))
    scale = t.select(t.compare("gt", size, t.f64(2.0**400)), t.f64(2.0**-600), scale)
    return t.mul(x, scale), scale


def _slow_divide_f64(t: Tracer, a: Value, b: Value) -> Value:
    """Operands scaled by powers of two, then the quotient scaled back."""
    x, scale_a = _scaled(t, a)
    y, scale_b = _scaled(t, b)
    quotient, _ = _newton_f64(t, x, y)
    small, large, one = t.f64(2.0**-600), t.f64(2.0**600), t.f64(1.0)
    back = t.select(t.compare("gt", scale_a, one), small, t.select(t.compare("lt", scale_a, one), large, one))
    scaled = t.mul(t.mul(quotient, scale_b), back)
    size_a, size_b, infinity = t.emit("abs", F64, (a,)), t.emit("abs", F64, (b,)), t.f64(math.inf)
    usual = t.emit("pand", BOOL, (t.compare("lt", size_a, infinity), t.compare("lt", size_b, infinity)))
    usual = t.emit("pand", BOOL, (usual, t.compare("neu", b, t.f64(0.0))))
    high = t.emit("mufu", U32, (t.emit("word", U32, (b,), 1),), MufuFunction.RCP64H)
    special = t.mul(a, t.emit("pair", F64, (t.const(0, U32), high)))
    return t.select(usual, scaled, special)


# --- integers
def floor_divide(t: Tracer, a: Value, b: Value) -> Value:
    """`a // b`, rounded down; of floats `floor(a / b)`."""
    if a.type.is_float:
        x = t.cast(divide(t, a, b), F64 if a.type is F64 else F32)
        return t.cast(t.emit("frnd", x.type, (x,), Rounding.RM), a.type)
    if a.type.bits == 64:
        return _divide_64(t, a, b)[0]
    return _divide_32(t, a, b)[0]


def modulo(t: Tracer, a: Value, b: Value) -> Value:
    """`a % b` with the sign of `b`, as Python and NumPy."""
    if a.type.is_float:
        return t.fma(t.emit("neg", a.type, (floor_divide(t, a, b),)), b, a)
    if b.is_const and b.attr > 0 and b.attr & (b.attr - 1) == 0:
        return t.emit("and", a.type, (a, t.const(b.attr - 1, a.type)))
    return _divide_64(t, a, b)[1] if a.type.bits == 64 else _divide_32(t, a, b)[1]


def truncating(t: Tracer, a: Value, b: Value) -> tuple[Value, Value]:
    """C's `a / b` and `a % b` of integers, which round toward zero."""
    if a.type.kind == "u" or (a.nonneg and b.nonneg):
        return floor_divide(t, a, b), modulo(t, a, b)
    if a.type.bits == 64:
        raise t.error("truncating division of int64; use // and %, or int32")
    quotient, rest = _magnitudes(t, a, b)
    opposite = t.compare("lt", t.emit("xor", I32, (a, b)), t.i32(0))
    signed_q = t.select(opposite, t.emit("neg", I32, (quotient,)), quotient)
    signed_r = t.select(t.compare("lt", a, t.i32(0)), t.emit("neg", I32, (rest,)), rest)
    return signed_q, signed_r


def _magnitudes(t: Tracer, a: Value, b: Value) -> tuple[Value, Value]:
    """Quotient and remainder of the absolute values, as int32."""
    x, y = (t.bitcast(t.emit("abs", I32, (v,)), U32) for v in (a, b))
    quotient, rest = _unsigned(t, x, y)
    return t.bitcast(quotient, I32), t.bitcast(rest, I32)


def _divide_32(t: Tracer, a: Value, b: Value) -> tuple[Value, Value]:
    if b.is_const and b.attr > 0:
        quotient = _by_constant(t, a, b.attr)
        return quotient, t.sub(a, t.mul(quotient, b))
    if a.type.kind == "u" or (a.nonneg and b.nonneg):
        quotient, rest = _unsigned(t, t.bitcast(a, U32), t.bitcast(b, U32))
        return t.bitcast(quotient, a.type), t.bitcast(rest, a.type)
    zero = t.i32(0)
    quotient, rest = _magnitudes(t, a, b)
    rest = t.select(t.compare("lt", a, zero), t.emit("neg", I32, (rest,)), rest)
    opposite = t.compare("lt", t.emit("xor", I32, (a, b)), zero)
    quotient = t.select(opposite, t.emit("neg", I32, (quotient,)), quotient)
    inexact = t.emit("pand", BOOL, (opposite, t.compare("ne", rest, zero)))
    return t.select(inexact, t.add(quotient, t.i32(-1)), quotient), t.select(inexact, t.add(rest, b), rest)


def _by_constant(t: Tracer, a: Value, d: int) -> Value:
    """Floor of `a / d` for d > 0: a shift, or the high word of a product (Granlund and Montgomery, 1994)."""
    if d & (d - 1) == 0:
        return t.emit("shr", a.type, (a, t.i32(d.bit_length() - 1)))
    if a.type.kind == "i" and not a.nonneg:
        sign = t.emit("shr", I32, (a, t.i32(31)))
        flipped = t.emit("xor", I32, (a, sign))
        flipped.nonneg = True
        return t.emit("xor", I32, (_by_constant(t, flipped, d), sign))
    bits = 31 if a.type.kind == "i" else 32  # bits that a may have
    for shift in range((d - 1).bit_length() + 1):
        multiplier = -(-(1 << (32 + shift)) // d)
        if multiplier < 1 << 32 and multiplier * d - (1 << (32 + shift)) <= 1 << (32 + shift - bits):
            high = t.emit("mulhi", U32, (t.bitcast(a, U32), t.const(multiplier, U32)))
            return t.bitcast(t.emit("shr", U32, (high, t.i32(shift))), a.type)
    shift = (d - 1).bit_length()
    return _long_multiplier(t, a, -(-(1 << (32 + shift)) // d) - (1 << 32), shift)


def _long_multiplier(t: Tracer, a: Value, multiplier: int, shift: int) -> Value:
    high = t.emit("mulhi", U32, (a, t.const(multiplier, U32)))
    half = t.emit("shr", U32, (t.sub(a, high), t.i32(1)))
    return t.emit("shr", U32, (t.add(half, high), t.i32(shift - 1)))


def _unsigned(t: Tracer, a: Value, b: Value) -> tuple[Value, Value]:
    """uint32 quotient and remainder by a float reciprocal: it is at most 2 too small, then corrected."""
    estimate = mufu(t, MufuFunction.RCP, t.emit("i2f", F32, (b,), Rounding.RP))
    below = t.bitcast(t.add(t.bitcast(estimate, I32), t.i32(0xFFFFFFE)), F32)
    r = t.emit("f2i", U32, (below,), Rounding.RZ)
    error = t.mul(t.emit("neg", U32, (r,)), b)
    r = t.add(t.emit("mulhi", U32, (r, error)), r)
    q = t.emit("mulhi", U32, (r, a))
    rest = t.add(t.mul(t.emit("neg", U32, (q,)), b), a)
    for _ in range(2):
        over = t.compare("ge", rest, b)
        rest, q = t.select(over, t.sub(rest, b), rest), t.select(over, t.add(q, t.const(1, U32)), q)
    if b.is_const:
        return q, rest
    zero = t.compare("eq", b, t.const(0, U32))
    ones = t.emit("not", U32, (b,))
    return t.select(zero, ones, q), t.select(zero, ones, rest)


def _divide_64(t: Tracer, a: Value, b: Value) -> tuple[Value, Value]:
    """64-bit quotient and remainder, rounded down, by shift and subtract over float64 estimates."""
    if b.is_const and b.attr > 0 and b.attr & (b.attr - 1) == 0:
        shift = b.attr.bit_length() - 1
        return (
            t.emit("shr", a.type, (a, t.i32(shift))),
            t.emit("and", a.type, (a, t.const(b.attr - 1, a.type))),
        )
    zero = t.const(0, a.type)
    if a.type is U64:
        return _unsigned_64(t, a, b)
    x, y = (t.bitcast(t.select(t.compare("lt", v, zero), t.emit("neg", I64, (v,)), v), U64) for v in (a, b))
    q, r = (t.bitcast(v, I64) for v in _unsigned_64(t, x, y))
    if a.nonneg and b.nonneg:
        return q, r
    negative_a, negative_b = t.compare("lt", a, zero), t.compare("lt", b, zero)
    r = t.select(negative_a, t.emit("neg", I64, (r,)), r)
    opposite = t.emit("pxor", BOOL, (negative_a, negative_b))
    q = t.select(opposite, t.emit("neg", I64, (q,)), q)
    inexact = t.emit("pand", BOOL, (opposite, t.compare("ne", r, zero)))
    return t.select(inexact, t.add(q, t.const(-1, I64)), q), t.select(inexact, t.add(r, b), r)


def _unsigned_64(t: Tracer, a: Value, b: Value) -> tuple[Value, Value]:
    """Three rounds of a float64 estimate rounded down, then one correction.

    Each round takes off at least 50 bits of the quotient: the estimate's relative
    error is below 2**-50, and it never exceeds the true quotient.
    """
    reciprocal64 = divide(t, t.f64(1.0 - 2.0**-50), t.emit("i2f", F64, (b,), Rounding.RP))
    q, rest = t.const(0, U64), a
    for _ in range(3):
        estimate = t.mul(t.emit("i2f", F64, (rest,), Rounding.RZ), reciprocal64)
        step = t.emit("f2i", U64, (estimate,), Rounding.RZ)
        q, rest = t.add(q, step), t.sub(rest, t.mul(step, b))
    over = t.compare("ge", rest, b)
    return t.select(over, t.add(q, t.const(1, U64)), q), t.select(over, t.sub(rest, b), rest)
