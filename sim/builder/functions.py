"""Mathematical functions, as CUDA's math library computes them in float32.

The sequences and coefficients are those of CUDA's device functions (logf, expf,
sinf, cosf, tanhf, ... as NVVM expands them, CUDA 13.0), so that a kernel costs
what it costs on the GPU: mostly multiply-adds around one special-function
estimate, with rare operands sent to a slower way. Halves go through float32.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sim.builder.division import divide, mufu
from sim.builder.ir import Value
from sim.builder.types import BOOL, F32, F64, I32, I64, U32, U64
from sim.isa import MufuFunction, Rounding

if TYPE_CHECKING:
    from sim.builder.trace import Tracer

_LOG2_E = 1.4426950408889634


def _absolute(t: Tracer, x: Value) -> Value:
    return t.emit("abs", x.type, (x,))


def _negative(t: Tracer, x: Value) -> Value:
    return t.emit("neg", x.type, (x,))


def _polynomial(t: Tracer, x: Value, *coefficients: float) -> Value:
    """Horner's rule, highest power first."""
    result: Value = t.const(coefficients[0], x.type)
    for c in coefficients[1:]:
        result = t.fma(result, x, t.const(c, x.type))
    return result


def _when(t: Tracer, condition: Value, changed: Value, x: Value) -> Value:
    return t.select(condition, changed, x)


# --- exponentials
def exp(t: Tracer, x: Value, fast: bool = False) -> Value:
    """e**x: accurate to 1 unit in the last place, or `__expf`'s scaled estimate when `fast`."""
    if fast:
        return exp2(t, t.mul(x, t.f32(_LOG2_E)))
    scaled = t.fma(x, t.f32(0.00572498002648353577), t.f32(0.5), (Rounding.RN, True))
    shifted = t.fma(scaled, t.f32(252.0), t.f32(12582913.0), (Rounding.RM, False))
    whole = t.add(shifted, t.f32(-12583039.0))
    rest = t.fma(x, t.f32(1.4426950216293335), _negative(t, whole))
    rest = t.fma(x, t.f32(1.925963033500011e-08), rest)
    power = t.bitcast(t.emit("shl", I32, (t.bitcast(shifted, I32), t.i32(23))), F32)
    return t.mul(mufu(t, MufuFunction.EX2, rest), power)


def exp2(t: Tracer, x: Value, fast: bool = False) -> Value:
    """2**x by the special-function unit, with small results kept from flushing to zero unless `fast`."""
    if fast:
        return mufu(t, MufuFunction.EX2, x)
    small = t.compare("lt", x, t.f32(-126.0))
    y = mufu(t, MufuFunction.EX2, _when(t, small, t.mul(x, t.f32(0.5)), x))
    return _when(t, small, t.mul(y, y), y)


def log(t: Tracer, x: Value, fast: bool = False) -> Value:
    """Natural logarithm."""
    if fast:
        return t.mul(log2(t, x, fast=True), t.f32(math.log(2)))
    mantissa, exponent, y = _log_split(t, x, 0x3F2AAAAB)
    p = _polynomial(
        t, mantissa,
        -0.13018856942653656, 0.1408461034297943, -0.12148627638816833, 0.1398061066865921, -0.16684235632419586,
        0.20012299716472626, -0.24999669194221497, 0.333331823348999, -0.5,
    )  # fmt: skip
    p = t.fma(t.mul(mantissa, p), mantissa, mantissa)
    return _log_ends(t, t.fma(exponent, t.f32(math.log(2)), p), y)


def log2(t: Tracer, x: Value, fast: bool = False) -> Value:
    """Logarithm to base 2."""
    if fast:
        small = t.compare("lt", _absolute(t, x), t.f32(2.0**-126))
        y = mufu(t, MufuFunction.LG2, _when(t, small, t.mul(x, t.f32(16777216.0)), x))
        return _when(t, small, t.add(y, t.f32(-24.0)), y)
    mantissa, exponent, y = _log_split(t, x, 0x3F3504F3)
    p = _polynomial(
        t, mantissa,
        0.09702014178037643, -0.16845393180847168, 0.17168870568275452, -0.17900948226451874, 0.20512372255325317,
        -0.24046532809734344, 0.28857114911079407, -0.3606741726398468, 0.4808982014656067, -0.72134751081466675,
    )  # fmt: skip
    p = t.mul(mantissa, t.mul(mantissa, p))
    return _log_ends(t, t.add(exponent, t.fma(mantissa, t.f32(_LOG2_E), p)), y)


def _log_split(t: Tracer, x: Value, centre: int) -> tuple[Value, Value, Value]:
    """Mantissa - 1 around zero, exponent as a float, and `x` with subnormals scaled up."""
    small = t.compare("lt", x, t.f32(2.0**-126))
    y = _when(t, small, t.mul(x, t.f32(8388608.0)), x)
    offset = t.select(small, t.f32(-23.0), t.f32(0.0))
    bits = t.bitcast(y, I32)
    top = t.emit("and", I32, (t.add(bits, t.i32(-centre)), t.i32(-0x800000)))
    mantissa = t.add(t.bitcast(t.sub(bits, top), F32), t.f32(-1.0))
    return mantissa, t.fma(t.cast(top, F32), t.f32(2.0**-23), offset), y


def _log_ends(t: Tracer, result: Value, y: Value) -> Value:
    """Infinity, NaN and negatives, and zero."""
    infinity = t.f32(math.inf)
    odd = t.compare("ge", t.bitcast(y, U32), t.const(0x7F800000, U32))
    result = _when(t, odd, t.fma(y, infinity, infinity), result)
    return t.select(t.compare("eq", y, t.f32(0.0)), t.f32(-math.inf), result)


# --- roots
def rcp(t: Tracer, x: Value, fast: bool = False) -> Value:
    """1 / x, correctly rounded, or the estimate alone when `fast`."""
    return mufu(t, MufuFunction.RCP, x) if fast else divide(t, t.const(1.0, x.type), x)


def rsqrt(t: Tracer, x: Value) -> Value:
    """1 / sqrt(x) by the special-function unit, subnormals scaled."""
    if x.type is F64:
        return divide(t, t.f64(1.0), sqrt(t, x))
    small = t.compare("lt", _absolute(t, x), t.f32(2.0**-126))
    y = mufu(t, MufuFunction.RSQ, _when(t, small, t.mul(x, t.f32(16777216.0)), x))
    return _when(t, small, t.mul(y, t.f32(4096.0)), y)


def sqrt(t: Tracer, x: Value, fast: bool = False) -> Value:
    """Square root, correctly rounded for usual operands; the estimate alone when `fast`."""
    if x.type is F64:
        return _sqrt_f64(t, x)
    if x.type is not F32:
        return t.cast(sqrt(t, t.cast(x, F32), fast), x.type)
    if fast:
        return mufu(t, MufuFunction.SQRT, x)
    result = t.slot(t.f32(0.0))
    extreme = t.compare("gt", t.bitcast(t.add(t.bitcast(x, I32), t.i32(-0xD000000)), U32), t.const(0x727FFFFF, U32))
    estimate = mufu(t, MufuFunction.RSQ, x)
    with t.if_(extreme, rare=True):
        t.write(result, _sqrt_extreme(t, x))
    with t.else_():
        t.write(result, _sqrt_newton(t, x, estimate))
    return t.read(result)


def _sqrt_newton(t: Tracer, x: Value, estimate: Value) -> Value:
    s = t.mul(x, estimate)
    half = t.mul(estimate, t.const(0.5, x.type))
    return t.fma(t.fma(_negative(t, s), s, x), half, s)


def _sqrt_extreme(t: Tracer, x: Value) -> Value:
    """Zero, infinity, NaN, negatives and subnormals."""
    scaled = t.mul(x, t.f32(2.0**64))
    root = t.mul(_sqrt_newton(t, scaled, mufu(t, MufuFunction.RSQ, scaled)), t.f32(2.0**-32))
    huge = _sqrt_newton(t, t.mul(x, t.f32(2.0**-64)), mufu(t, MufuFunction.RSQ, t.mul(x, t.f32(2.0**-64))))
    root = t.select(t.compare("gt", x, t.f32(1.0)), t.mul(huge, t.f32(2.0**32)), root)
    usual = t.emit("pand", BOOL, (t.compare("gt", x, t.f32(0.0)), t.compare("lt", x, t.f32(math.inf))))
    negative = t.compare("lt", x, t.f32(0.0))
    return t.select(usual, root, t.select(negative, t.f32(math.nan), x))


def _sqrt_f64(t: Tracer, x: Value) -> Value:
    """From the high word's estimate: a cubic step, then one correction; extreme exponents scaled."""
    size = x
    low, high = t.compare("lt", size, t.f64(2.0**-700)), t.compare("gt", size, t.f64(2.0**700))
    scale = t.select(low, t.f64(2.0**600), t.select(high, t.f64(2.0**-600), t.f64(1.0)))
    back = t.select(low, t.f64(2.0**-300), t.select(high, t.f64(2.0**300), t.f64(1.0)))
    y = t.mul(x, scale)
    word = t.emit("mufu", U32, (t.emit("word", U32, (y,), 1),), MufuFunction.RSQ64H)
    r = t.emit("pair", F64, (t.const(0, U32), word))
    error = t.fma(_negative(t, y), t.mul(r, r), t.f64(1.0))
    r = t.fma(t.fma(error, t.f64(0.375), t.f64(0.5)), t.mul(r, error), r)
    s = t.mul(y, r)
    s = t.fma(t.fma(_negative(t, s), s, y), t.mul(r, t.f64(0.5)), s)
    usual = t.emit("pand", BOOL, (t.compare("gt", x, t.f64(0.0)), t.compare("lt", x, t.f64(math.inf))))
    return t.select(usual, t.mul(s, back), t.select(t.compare("lt", x, t.f64(0.0)), t.f64(math.nan), x))


# --- hyperbolic tangent
def tanh(t: Tracer, x: Value, fast: bool = False) -> Value:
    """Hyperbolic tangent: `1 - 2 / (exp(2x) + 1)` for large arguments, a polynomial for small ones."""
    if fast:
        return mufu(t, MufuFunction.TANH, x)
    size = _absolute(t, x)
    e = t.add(mufu(t, MufuFunction.EX2, t.mul(size, t.f32(2.885390043258667))), t.f32(1.0))
    large = t.fma(mufu(t, MufuFunction.RCP, e), t.f32(-2.0), t.f32(1.0))
    large = t.select(t.compare("ge", size, t.f32(9.010913848876953)), t.f32(1.0), large)
    sign = t.emit("and", I32, (t.bitcast(x, I32), t.i32(-0x80000000)))
    large = t.bitcast(t.emit("or", I32, (t.bitcast(large, I32), sign)), F32)
    square = t.mul(x, x)
    p = _polynomial(t, square, 0.01573968306183815, -0.05230396240949631, 0.13315297663211823, -0.33332768082618713)
    small = t.fma(t.mul(p, square), x, x)
    return t.select(t.compare("ge", size, t.f32(0.6000000238418579)), large, small)


# --- sine and cosine
def sin(t: Tracer, x: Value, fast: bool = False) -> Value:
    """Sine; `fast` is `__sinf`: the special-function unit on x / 2 pi."""
    if fast:
        return mufu(t, MufuFunction.SIN, t.mul(x, t.f32(0.15915494309189535)))
    rest, quadrant = _reduce(t, x)
    return _trig_polynomial(t, rest, quadrant)


def cos(t: Tracer, x: Value, fast: bool = False) -> Value:
    """Cosine; `fast` is `__cosf`."""
    if fast:
        return mufu(t, MufuFunction.COS, t.mul(x, t.f32(0.15915494309189535)))
    rest, quadrant = _reduce(t, x)
    return _trig_polynomial(t, rest, t.add(quadrant, t.i32(1)))


def _reduce(t: Tracer, x: Value) -> tuple[Value, Value]:
    """`x` minus a multiple of pi/2, and the multiple.

    Three steps of Cody and Waite, or Payne and Hanek's reduction for large `x`.
    """
    quadrant = t.emit("f2i", I32, (t.mul(x, t.f32(0.6366197466850281)),), Rounding.RN)
    q = t.cast(quadrant, F32)
    rest = t.fma(q, t.f32(-1.5707962512969971), x)
    rest = t.fma(q, t.f32(-7.5497894158615964e-08), rest)
    rest = t.fma(q, t.f32(-5.390302953474238e-15), rest)
    size = _absolute(t, x)
    rest_slot, quadrant_slot = t.slot(rest), t.slot(quadrant)
    with t.if_(t.compare("ge", size, t.f32(105615.0))):
        slow_rest, slow_quadrant = _payne_hanek(t, x)
        infinite = t.compare("eq", size, t.f32(math.inf))
        t.write(rest_slot, t.select(infinite, t.mul(x, t.f32(0.0)), slow_rest))
        t.write(quadrant_slot, t.select(infinite, t.i32(0), slow_quadrant))
    return t.read(rest_slot), t.read(quadrant_slot)


_TWO_OVER_PI = (0x3C439041, 0xDB629599, 0xF534DDC0, 0xFC2757D1, 0x4E441529, 0xA2F9836E)  # lowest word first


def _payne_hanek(t: Tracer, x: Value) -> tuple[Value, Value]:
    """Reduction with as many bits of 2/pi as the exponent asks for."""
    bits = t.bitcast(x, U32)
    exponent = t.add(
        t.emit("and", I32, (t.bitcast(t.emit("shr", U32, (bits, t.i32(23))), I32), t.i32(255))), t.i32(-128)
    )
    mantissa = t.emit("or", U32, (t.emit("shl", U32, (bits, t.i32(8))), t.const(0x80000000, U32)))
    words: list[Value] = []
    carry: Value = t.const(0, U64)
    for word in _TWO_OVER_PI:
        product = t.emit("madwide", U64, (mantissa, t.const(word, U32), carry), True)
        words.append(t.emit("word", U32, (product,), 0))
        carry = t.cast(t.emit("word", U32, (product,), 1), U64)
    words.append(t.emit("word", U32, (carry,), 0))
    skip = t.emit("shr", I32, (exponent, t.i32(5)))
    high, middle, low = (_nth(t, words, skip, top) for top in (6, 5, 4))
    shift = t.emit("and", I32, (exponent, t.i32(31)))
    high, middle = (t.emit("shf", U32, (a, b, shift)) for a, b in ((high, middle), (middle, low)))
    fraction_high = t.emit("shf", U32, (high, middle, t.i32(2)))
    fraction_low = t.emit("shl", U32, (middle, t.i32(2)))
    up = t.emit("shr", U32, (fraction_high, t.i32(31)))
    quadrant = t.bitcast(t.add(t.emit("shr", U32, (high, t.i32(30))), up), I32)
    negative = t.compare("lt", t.bitcast(bits, I32), t.i32(0))
    quadrant = t.select(negative, _negative(t, quadrant), quadrant)
    flip = t.compare("ne", up, t.const(0, U32))
    mask = t.select(flip, t.const(0xFFFFFFFF, U32), t.const(0, U32))
    fraction = t.emit(
        "pair", I64, (t.emit("xor", U32, (fraction_low, mask)), t.emit("xor", U32, (fraction_high, mask)))
    )
    scaled = t.mul(t.cast(fraction, F64), t.f64(8.515303950216386e-20))  # pi / 2**65
    rest = t.cast(scaled, F32)
    minus = t.emit("pxor", BOOL, (negative, flip))
    return t.select(minus, _negative(t, rest), rest), quadrant


def _nth(t: Tracer, words: list[Value], skip: Value, top: int) -> Value:
    """`words[top - skip]` for skip 0..3."""
    result = words[top - 3]
    for k in (2, 1, 0):
        result = t.select(t.compare("eq", skip, t.i32(k)), words[top - k], result)
    return result


def _trig_polynomial(t: Tracer, x: Value, quadrant: Value) -> Value:
    """Sine of `x` plus `quadrant` right angles: the odd or the even polynomial, by the quadrant's low bit."""
    zero = t.i32(0)
    odd = t.compare("ne", t.emit("and", I32, (quadrant, t.i32(1))), zero)
    square = t.mul(x, x)
    p = t.select(
        odd, t.fma(square, t.f32(2.4279579520225525e-05), t.f32(-0.0013887860113754868)), t.f32(-0.00019574658654164522)
    )
    p = t.fma(p, square, t.select(odd, t.f32(0.041666727513074875), t.f32(0.00833270326256752)))
    p = t.fma(p, square, t.select(odd, t.f32(-0.4999999701976776), t.f32(-0.16666662693023682)))
    base = t.select(odd, t.f32(1.0), x)
    result = t.fma(p, t.fma(square, base, t.f32(0.0)), base)
    minus = t.compare("ne", t.emit("and", I32, (quadrant, t.i32(2))), zero)
    return t.select(minus, t.fma(result, t.f32(-1.0), t.f32(0.0)), result)
