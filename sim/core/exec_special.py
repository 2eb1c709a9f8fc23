"""MUFU: reciprocals, roots, exponentials and the like, from float64 polynomials.

The hardware's tables are a few units in the last place off; these results are
rounded from about 50 right bits. They use no library function, so that a result
does not depend on the platform. Special values and the flushing of subnormal
operands and results are the hardware's.
"""

from __future__ import annotations

from math import factorial, log, pi

from sim.core.operands import float_source
from sim.core.rounding import canonical, flushed
from sim.core.rows import (
    as_f64,
    as_i64,
    as_u64,
    f32,
    f64,
    i64,
    load,
    magnitude,
    ordered,
    rint,
    row_function,
    sqrt,
    store,
    u32,
    u64,
    where,
)
from sim.isa import MufuFunction

# Taylor coefficients, highest power first; each series is good to 2**-53 on its interval.
_EXP2 = tuple(log(2.0) ** k / factorial(k) for k in range(13, -1, -1))  # of 2**x, |x| <= 1/2
_SIN = tuple((-1) ** k * (2 * pi) ** (2 * k + 1) / factorial(2 * k + 1) for k in range(8, -1, -1))  # |x| <= 1/8
_COS = tuple((-1) ** k * (2 * pi) ** (2 * k) / factorial(2 * k) for k in range(8, -1, -1))
_LOG2 = tuple(2 / log(2.0) / (2 * k + 1) for k in range(11, -1, -1))  # of log2((1 + x) / (1 - x)) / x in x**2
_TWO_LOG2_E = 2 / log(2.0)
_SQRT2 = 2.0**0.5


@row_function
def _polynomial(coefficients, x):
    total = x * 0.0
    for coefficient in coefficients:
        total = total * x + coefficient
    return total


@row_function
def _exp2(x):
    """2**x for float64 rows; powers beyond float32's range give 2**200 and 2**-200."""
    bounded = where(x > 200.0, 200.0, where(x < -200.0, -200.0, where(ordered(x), x, 0.0)))
    whole = rint(bounded)
    power = as_f64((i64(whole) + 1023) << 52)
    return where(ordered(x), _polynomial(_EXP2, bounded - whole) * power, x)


@row_function
def _log2(x):
    """log2 for float64 rows of normal numbers; special operands give what they should."""
    bits = as_u64(x)
    exponent = f64(as_i64((bits >> 52) & 0x7FF)) - 1023.0
    fraction = as_f64((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000)
    large = fraction > _SQRT2
    fraction, exponent = where(large, fraction * 0.5, fraction), where(large, exponent + 1.0, exponent)
    ratio = (fraction - 1.0) / (fraction + 1.0)
    result = _polynomial(_LOG2, ratio * ratio) * ratio + exponent
    infinity = as_f64((bits & 0) | 0x7FF0000000000000)
    result = where(x == infinity, infinity, where(x > 0.0, result, infinity - infinity))
    return where(x == 0.0, -infinity, result)


@row_function
def _sin_turns(x, quarter):
    """sin(2 pi (x + quarter / 4)) for float64 rows; the reduction is exact."""
    part = x - rint(x)
    nearest = rint(part * 4.0)
    part = part - nearest * 0.25
    quadrant = i64(where(ordered(nearest), nearest, 0.0)) + quarter
    square = part * part
    value = where((quadrant & 1) != 0, _polynomial(_COS, square), _polynomial(_SIN, square) * part)
    return where((quadrant & 2) != 0, -value, value) + 0.0  # a zero is positive


@row_function
def _tanh(x):
    size = magnitude(x)
    value = 1.0 - 2.0 / (_exp2(size * _TWO_LOG2_E) + 1.0)
    square = size * size
    small = size * (1.0 + square * (-1.0 / 3.0 + square * (2.0 / 15.0)))
    value = where(size < 0.004, small, value)
    return where(x < 0.0, -value, where(x == 0.0, x, value))


@row_function
def _high_word(U, a, root):
    """High word of the reciprocal, or reciprocal root, of the float64 whose high word is at `a`."""
    x = as_f64(u64(load(U, a)) << 32)
    result = 1.0 / (sqrt(x) if root else x)
    high = u32(as_u64(result) >> 32)
    return where(ordered(result), high, 0x7FFFFFFF)


@row_function
def special_function(U, d, a, smod, function, mask):
    """MUFU. SIN and COS take their argument in turns, as the hardware does."""
    if function == MufuFunction.RCP64H or function == MufuFunction.RSQ64H:
        store(U, d, _high_word(U, a, function == MufuFunction.RSQ64H), mask)
        return
    x = float_source(U, a, smod)
    if function == MufuFunction.TANH:
        store(U, d, canonical(f32(_tanh(f64(x)))), mask)
        return
    x = flushed(x)
    wide = f64(x)
    if function == MufuFunction.RCP:
        result = f32(1.0 / wide)
    elif function == MufuFunction.RSQ:
        result = f32(1.0 / sqrt(wide))
    elif function == MufuFunction.SQRT:
        result = f32(sqrt(wide))
    elif function == MufuFunction.EX2:
        result = f32(_exp2(wide))
    elif function == MufuFunction.LG2:
        result = f32(_log2(wide))
    elif function == MufuFunction.COS:
        result = f32(_sin_turns(wide, 1))
    else:
        result = where(x == 0.0, x, f32(_sin_turns(wide, 0)))
    store(U, d, canonical(flushed(result)), mask)
