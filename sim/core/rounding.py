"""Rounding: subnormals, NaNs, directed modes, and intermediate results that can be rounded again."""

from __future__ import annotations

from sim.core.rows import as_f32, as_u32, as_u64, f32, f64, magnitude, ordered, row_function, where
from sim.isa import Rounding


@row_function
def flushed(x):
    """A float32 row with subnormal numbers replaced by zeros of their sign."""
    bits = as_u32(x)
    return as_f32(where((bits & 0x7F800000) == 0, bits & 0x80000000, bits))


@row_function
def canonical(x):
    """Bits of a float32 row with every NaN made the one that NVIDIA's float32 units produce."""
    return where(ordered(x), as_u32(x), 0x7FFFFFFF)


@row_function
def single_to_odd(x):
    """A float64 row as float32, inexact results to the neighbour with an odd last bit.

    A second rounding to a narrower format then gives what one rounding would have.
    """
    nearest = f32(x)
    bits, back = as_u32(nearest), f64(nearest)
    even = ((bits & 1) == 0) & (back != x) & ordered(x)
    return as_f32(where(even, where(magnitude(back) > magnitude(x), bits - 1, bits + 1), bits))


@row_function
def sum_to_odd(x, y):
    """The sum of two float64 rows as float32, rounded to odd: ready to be rounded to a half."""
    total = x + y
    back = total - x
    error = (x - (total - back)) + (y - back)
    single = single_to_odd(total)
    bits = as_u32(single)
    # Exact in float32 but not in float64: the rest decides on which side of it the sum lies.
    touched = (f64(single) == total) & (error != 0) & ordered(error) & ((bits & 1) == 0)
    away = (error > 0) == (total > 0)
    return as_f32(where(touched, where(away, bits + 1, bits - 1), bits))


@row_function
def stepped(bits, negative, above, below, rounding):
    """Bits of a rounded-to-nearest result, moved one unit where the mode asks for the other neighbour.

    `above` and `below` are the lanes whose exact value lies above or below the result.
    """
    up, down = above, below
    if rounding == Rounding.RZ:
        up, down = above & negative, below & ~negative
    elif rounding == Rounding.RM:
        up = above & ~above
    else:
        down = below & ~below
    moved = where(up ^ negative, bits + 1, bits - 1)
    return where(up | down, where(down, where(negative, bits + 1, bits - 1), moved), bits)


@row_function
def directed(x, y, nearest, rounding):
    """float32 of the exact sum of two float64 rows in a rounding mode, given the nearest."""
    if rounding == Rounding.RN:
        return nearest
    total = x + y
    back = total - x
    error = (x - (total - back)) + (y - back)
    gap = total - f64(nearest)
    above = (gap > 0) | ((gap == 0) & (error > 0))
    below = (gap < 0) | ((gap == 0) & (error < 0))
    bits = as_u32(nearest)
    bits = stepped(bits, (bits >> 31) != 0, above, below, rounding)
    if rounding == Rounding.RM:
        # An exact zero of terms with opposite signs is negative when rounding down.
        cancelled = (total == 0) & ((as_u64(x) ^ as_u64(y)) >> 63 != 0)
        bits = where(cancelled, 0x80000000, bits)
    return as_f32(bits)
