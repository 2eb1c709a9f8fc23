"""Exact arithmetic on floats, rounded once in any mode: what instructions are compared with."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from sim.isa import Rounding

HALF, BFLOAT, SINGLE, DOUBLE = (11, -14), (8, -126), (24, -126), (53, -1022)  # bits, least normal exponent


def rounded(value: Fraction, kind: tuple[int, int], mode: int = Rounding.RN) -> Fraction | float:
    """`value` as the nearest float of `kind` in a rounding mode; an infinity where it overflows."""
    if value == 0:
        return Fraction(0)
    bits, least = kind
    size = abs(value)
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length(), least)
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while exponent > least and size < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (exponent - bits + 1)
    count, rest = divmod(value, unit)
    if mode == Rounding.RN:
        up = rest * 2 > unit or (rest * 2 == unit and count % 2 == 1)
    elif mode == Rounding.RZ:
        up = value < 0 and rest > 0
    else:
        up = mode == Rounding.RP and rest > 0
    result = (count + up) * unit
    greatest = Fraction(2) ** (-least + 2) * (1 - Fraction(1, 2**bits))
    if abs(result) > greatest:
        inward = mode == Rounding.RZ or (mode == Rounding.RM) == (value > 0) and mode != Rounding.RN
        sign = 1 if value > 0 else -1
        return sign * greatest if inward else sign * math.inf
    return result


def fused(x: float, y: float, z: float, kind: tuple[int, int], mode: int = Rounding.RN) -> float:
    """x * y + z rounded once, as a float; special values as IEEE 754 has them."""
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
        with np.errstate(all="ignore"):
            product = np.float64(x) * np.float64(y) if not (math.isfinite(x) and math.isfinite(y)) else np.float64(0)
            return float(product + np.float64(z))
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        product_sign = math.copysign(1, x) * math.copysign(1, y)
        if product_sign == math.copysign(1, z) and (x == 0 or y == 0):
            return math.copysign(0.0, z)
        return -0.0 if mode == Rounding.RM else 0.0
    result = rounded(exact, kind, mode)
    return float(result) if result else math.copysign(0.0, 1 if exact > 0 else -1)


def same(got: np.ndarray, right: np.ndarray) -> bool:
    """Equal bits, any NaN for a NaN."""
    both = np.isnan(got) & np.isnan(right)
    kind = {2: np.uint16, 4: np.uint32, 8: np.uint64}[got.dtype.itemsize]
    return bool((both | (got.view(kind) == right.astype(got.dtype).view(kind))).all())
