"""Conversions between number types.

X = source type | destination type << 4 | rounding << 8 | saturate << 10, with types
as `sim.isa.NumberType`. 64-bit numbers take two rows; 16-bit floats the low half.
"""

from __future__ import annotations

from sim.core.halves import half_row, packed, to_half
from sim.core.operands import float_source, pair, store_pair
from sim.core.rounding import canonical, directed, flushed, single_to_odd
from sim.core.rows import (
    as_f32,
    as_f64,
    as_i64,
    as_u64,
    ceil,
    f32,
    f64,
    floor,
    i64,
    load,
    magnitude,
    ordered,
    rint,
    row_function,
    store,
    trunc,
    u32,
    u64,
    where,
)
from sim.isa import FLAG_FTZ, SMOD_ABS_A, SMOD_NEG_A, NumberType, Op, Rounding

DOUBLE_NAN = 0xFFF8000000000000  #: the NaN that float64 instructions produce


@row_function
def _read_float(U, a, kind, smod, flags):
    """A number of any float type as float64, which holds it exactly."""
    if kind == NumberType.F64:
        value = as_f64(pair(U, a))
    elif kind == NumberType.F16 or kind == NumberType.BF16:
        value = f64(half_row(load(U, a) & 0xFFFF, kind == NumberType.BF16))
    else:
        single = as_f32(load(U, a))
        if flags & FLAG_FTZ:
            single = flushed(single)
        value = f64(single)
    if smod & SMOD_ABS_A:
        value = magnitude(value)
    if smod & SMOD_NEG_A:
        value = -value
    return value


@row_function
def _write_float(U, d, kind, value, rounding, flags, mask):
    """A float64 row, rounded to any float type."""
    if kind == NumberType.F64:
        store_pair(U, d, where(ordered(value), as_u64(value), DOUBLE_NAN), mask)
    elif kind == NumberType.F16 or kind == NumberType.BF16:
        store(U, d, to_half(single_to_odd(value), kind == NumberType.BF16, rounding), mask)
    else:
        single = directed(value, value * 0.0, f32(value), rounding)
        if flags & FLAG_FTZ:
            single = flushed(single)
        store(U, d, canonical(single), mask)


@row_function
def _to_integral(value, rounding):
    if rounding == Rounding.RN:
        return rint(value)
    if rounding == Rounding.RZ:
        return trunc(value)
    return floor(value) if rounding == Rounding.RM else ceil(value)


@row_function
def float_to_float(U, op, d, a, smod, x, flags, mask):
    """F2F, and FRND, which rounds to a whole number."""
    rounding = (x >> 8) & 3
    value = _read_float(U, a, x & 15, smod, flags)
    if op == Op.FRND:
        value = _to_integral(value, rounding)
    if x & 1024:
        value = where(value > 0.0, where(value < 1.0, value, 1.0), 0.0)
    _write_float(U, d, (x >> 4) & 15, value, rounding, flags, mask)


@row_function
def float_to_integer(U, d, a, smod, x, flags, mask):
    """F2I: rounded, then saturated. A NaN gives 0, or the sign bit alone when either side has 64 bits (PTX, cvt)."""
    source, target = x & 15, (x >> 4) & 15
    value = _to_integral(_read_float(U, a, source, smod, flags), (x >> 8) & 3)
    bits = 8 << int(target >> 1)
    number = where(ordered(value), value, 0.0)
    if target & 1:
        limit = 2.0 ** (bits - 1)
        top = limit - 1 if bits < 64 else limit
        inside = where(number >= top, 0.0, where(number < -limit, -limit, number))
        result = where(number >= top, (1 << (bits - 1)) - 1, i64(inside))
    else:
        limit = 2.0**bits
        top = limit - 1 if bits < 64 else limit
        inside = where(number >= top, 0.0, where(number < 0.0, 0.0, number))
        result = where(number >= top, i64(-1) if bits == 64 else i64((1 << bits) - 1), as_i64(u64(inside)))
    if bits == 64 or source == NumberType.F64:
        result = where(ordered(value), result, i64(1) << i64(bits - 1))
    if bits == 64:
        store_pair(U, d, as_u64(result), mask)
    else:
        store(U, d, u32(as_u64(result)), mask)


@row_function
def _extended(value, kind):
    """The low bits of a uint64 row that an integer type holds, extended to 64 bits by its sign."""
    unused = u64(64 - (8 << (kind >> 1)))
    moved = value << unused
    return as_u64(as_i64(moved) >> as_i64(unused)) if kind & 1 else moved >> unused


@row_function
def _read_integer(U, a, kind, first, smod):
    """A number of any integer type, from byte `first` of its register, as uint64 bits extended by its sign."""
    value = pair(U, a) if kind == NumberType.U64 or kind == NumberType.S64 else u64(load(U, a)) >> u64(8 * first)
    value = _extended(value, kind)
    if smod & SMOD_ABS_A:
        value = where(as_i64(value) < 0, -value, value)
    if smod & SMOD_NEG_A:
        value = -value
    return value


@row_function
def integer_to_float(U, d, a, smod, x, flags, mask):
    """I2F, rounded once from the exact integer. A 64-bit integer to float64 always rounds to nearest."""
    source, target = x & 15, (x >> 4) & 15
    value = _read_integer(U, a, source, (x >> 12) & 3, smod)
    negative = (value >> 63) != 0 if source & 1 or smod & SMOD_NEG_A else (value & 0) != 0
    size = where(negative, -value, value)
    if target != NumberType.F64:
        # Fold the bits below float64's last into one, so that the second rounding cannot tie by mistake.
        folded = ((size >> 11) | u64((size & 0x7FF) != 0)) << 11
        size = where(size >> 53 != 0, folded, size)
    number = f64(size)
    _write_float(U, d, target, where(negative, -number, number), (x >> 8) & 3, flags, mask)


@row_function
def integer_to_integer(U, d, a, smod, x, mask):
    """I2I: the low bits of the source, or with saturation the nearest value that the destination holds."""
    source, target = x & 15, (x >> 4) & 15
    value = _read_integer(U, a, source, 0, smod)
    bits = 8 << int(target >> 1)
    if x & 1024 and bits < 64:
        signed = source & 1
        low = i64(-(1 << (bits - 1)) if target & 1 else 0)
        high = i64((1 << (bits - 1)) - 1 if target & 1 else (1 << bits) - 1)
        number = as_i64(value)
        over = number > high
        if not signed:
            over = over | (number < 0)
        under = (number < low) & ~over
        value = as_u64(where(over, high, where(under, low, number)))
    value = _extended(value, target)
    if bits == 64:
        store_pair(U, d, value, mask)
    else:
        store(U, d, u32(value), mask)


@row_function
def pack_halves(U, d, a, b, smod, x, mask):
    """F2FP: float32 a to the high half, b to the low half; X = type of the halves | rounding << 8."""
    bf16, rounding = x & 15 == NumberType.BF16, (x >> 8) & 3
    high = to_half(float_source(U, a, smod), bf16, rounding)
    store(U, d, packed(to_half(float_source(U, b, smod >> 1), bf16, rounding), high), mask)
