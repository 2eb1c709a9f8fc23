"""Packed 16-bit float instructions: two numbers a register.

X = type (0 float16, 1 bfloat16) | selectors of a, b, c << 4, 6, 8, and above that bits by
instruction. A selector says which halves an operand supplies: 0 both, 1 the low half
twice, 2 the high half twice.
"""

from __future__ import annotations

from sim.core.halves import HALF_NAN, half_row, packed, round_to_half
from sim.core.operands import combined_pair, compared
from sim.core.rounding import canonical, flushed, sum_to_odd
from sim.core.rows import f64, lanes, load, magnitude, mask_of, ordered, row_function, store, u32, where
from sim.isa import FLAG_FTZ, FULL_MASK, SMOD_ABS_A, SMOD_NEG_A, Op

SINGLE_RESULT_BIT = 1 << 10  #: HADD2, HMUL2, HFMA2: the low result as float32
SATURATE_BIT = 1 << 11
COMPARISON_SHIFT, BOOLEAN_SHIFT = 12, 16  #: HSETP2, HSET2
BOTH_BIT = 1 << 18  #: HSETP2: PD when both halves compare so, PE when not
ONE_BIT = 1 << 19  #: HSET2: true is 1.0, not all ones
NAN_BIT = 1 << 20  #: HMNMX2: a NaN wins


@row_function
def _half_source(U, row, high, selector, modifiers, bf16, flush):
    """One half of a packed operand as float32."""
    bits = load(U, row)
    if selector == 2 or (selector == 0 and high):
        bits = bits >> 16
    value = half_row(bits & 0xFFFF, bf16)
    if flush:
        value = where(magnitude(value) < 2.0**-14, value * 0.0, value) if not bf16 else flushed(value)
    if modifiers & SMOD_ABS_A:
        value = magnitude(value)
    if modifiers & SMOD_NEG_A:
        value = -value
    return value


@row_function
def _half_result(U, op, a, b, c, high, smod, x, flush):
    """One half's result of HADD2, HMUL2 or HFMA2, as float32 that one more rounding makes right."""
    bf16 = x & 1 != 0
    p = _half_source(U, a, high, (x >> 4) & 3, smod, bf16, flush)
    q = _half_source(U, b, high, (x >> 6) & 3, smod >> 1, bf16, flush)
    # float32 has more than twice a half's bits plus two, so its sums and products may be rounded again.
    if op == Op.HADD2:
        result = p + q
    elif op == Op.HMUL2:
        result = p * q
    else:
        r = _half_source(U, c, high, (x >> 8) & 3, smod >> 2, bf16, flush)
        result = sum_to_odd(f64(p) * f64(q), f64(r))
    if x & SATURATE_BIT:
        result = where(result > 0, where(result < 1, result, 1.0), 0.0)
    return result


@row_function
def half_arithmetic(U, op, d, a, b, c, smod, x, flags, mask):
    """HADD2, HMUL2, HFMA2."""
    bf16, flush = x & 1 != 0, flags & FLAG_FTZ != 0
    low = _half_result(U, op, a, b, c, False, smod, x, flush)
    if x & SINGLE_RESULT_BIT:
        store(U, d, canonical(low), mask)
        return
    high = _half_result(U, op, a, b, c, True, smod, x, flush)
    result = packed(round_to_half(low, bf16), round_to_half(high, bf16))
    if flush:
        exponent = 0x7F80 if bf16 else 0x7C00
        low_kept = where((result & exponent) != 0, result, result & 0x8000) & 0xFFFF
        high_kept = where((result & (exponent << 16)) != 0, result, result & 0x80000000) & 0xFFFF0000
        result = low_kept | high_kept
    store(U, d, result, mask)


@row_function
def _half_hits(U, a, b, high, smod, x):
    """Lanes for which one half's comparison holds."""
    p = _half_source(U, a, high, (x >> 4) & 3, smod, x & 1 != 0, False)
    q = _half_source(U, b, high, (x >> 6) & 3, smod >> 1, x & 1 != 0, False)
    unordered = mask_of(~(ordered(p) & ordered(q)))
    comparison = (x >> COMPARISON_SHIFT) & 15
    return compared(comparison, mask_of(p < q), mask_of(p == q), mask_of(p > q), unordered)


@row_function
def half_comparison(U, op, d, a, b, smod, x, pa, mask):
    """HSETP2: PD of the low halves, PE of the high ones (or both together). HSET2 writes them as numbers."""
    boolean = (x >> BOOLEAN_SHIFT) & 3
    low, high = _half_hits(U, a, b, False, smod, x), _half_hits(U, a, b, True, smod, x)
    if x & BOTH_BIT:
        return combined_pair(boolean, low & high, pa)
    low, high = combined_pair(boolean, low, pa)[0], combined_pair(boolean, high, pa)[0]
    if op == Op.HSET2:
        one = u32(0xFFFF)
        if x & ONE_BIT:
            one = u32(0x3F80) if x & 1 else u32(0x3C00)
        store(U, d, packed(u32(lanes(low)) * one, u32(lanes(high)) * one), mask)
    return low & FULL_MASK, high & FULL_MASK


@row_function
def _half_extreme(U, a, b, high, smod, x, least):
    """One half of HMNMX2, as 16 bits."""
    bf16 = x & 1 != 0
    p = _half_source(U, a, high, (x >> 4) & 3, smod, bf16, False)
    q = _half_source(U, b, high, (x >> 6) & 3, smod >> 1, bf16, False)
    left, right = round_to_half(p, bf16), round_to_half(q, bf16)
    result = where(p == q, where(least, left | right, left & right), where((p < q) ^ ~least, left, right))
    result = where(ordered(p), where(ordered(q), result, left), right)
    if x & NAN_BIT:
        result = where(ordered(p) & ordered(q), result, HALF_NAN)
    return result


@row_function
def half_minimum(U, d, a, b, smod, x, pa, mask):
    """HMNMX2: PA minimum, else maximum."""
    least = lanes(pa)
    low, high = _half_extreme(U, a, b, False, smod, x, least), _half_extreme(U, a, b, True, smod, x, least)
    store(U, d, packed(low, high), mask)
