"""float32 instructions on whole rows."""

from __future__ import annotations

from sim.core.operands import combined_pair, compared, float_source
from sim.core.rounding import canonical, directed, flushed
from sim.core.rows import (
    as_f32,
    as_u32,
    f64,
    fma,
    lane_numbers,
    lanes,
    load,
    mask_of,
    ordered,
    row_function,
    store,
    u32,
    where,
)
from sim.isa import FLAG_FTZ, Op

FTZ_BIT, SATURATE_BIT = 4, 8  #: of X in FADD, FMUL, FFMA
NAN_BIT = 1  #: of X in FMNMX: a NaN wins
COMPARE_FTZ_BIT, ONE_BIT = 256, 512  #: of X in FSETP and FSET: FSET's true is 1.0


@row_function
def float_arithmetic(U, op, d, a, b, c, smod, x, flags, mask):
    """FADD, FMUL, FFMA: X = rounding | flush subnormals << 2 | saturate to [0, 1] << 3."""
    p, q, r = float_source(U, a, smod), float_source(U, b, smod >> 1), float_source(U, c, smod >> 2)
    flush = x & FTZ_BIT or flags & FLAG_FTZ
    if flush:
        p, q, r = flushed(p), flushed(q), flushed(r)
    if op == Op.FFMA:
        result = fma(p, q, r)
    elif op == Op.FMUL:
        result = p * q
    else:
        result = p + q
    if x & 3:
        result = _directed_result(op, p, q, r, result, x & 3)
    if flush:
        result = flushed(result)
    if x & SATURATE_BIT:
        result = where(result > 0, where(result < 1, result, 1.0), 0.0)
    store(U, d, canonical(result), mask)


@row_function
def _directed_result(op, p, q, r, nearest, rounding):
    """The result of FADD, FMUL or FFMA in a directed rounding mode."""
    left, right = f64(p), f64(q)
    if op == Op.FADD:
        return directed(left, right, nearest, rounding)
    product = left * right
    if op == Op.FMUL:
        return directed(product, product * 0.0, nearest, rounding)
    return directed(product, f64(r), nearest, rounding)


@row_function
def float_comparison(U, a, b, smod, x, flags, pa):
    """FSETP and FSET: X = comparison | boolean << 4 | flush subnormals << 8."""
    p, q = float_source(U, a, smod), float_source(U, b, smod >> 1)
    if x & COMPARE_FTZ_BIT or flags & FLAG_FTZ:
        p, q = flushed(p), flushed(q)
    unordered = mask_of(~(ordered(p) & ordered(q)))
    hit = compared(x & 15, mask_of(p < q), mask_of(p == q), mask_of(p > q), unordered)
    return combined_pair((x >> 4) & 3, hit, pa)


@row_function
def float_set(U, d, x, value, mask):
    """FSET: all ones, or 1.0, where a comparison held."""
    store(U, d, u32(lanes(value)) * (u32(0x3F800000) if x & ONE_BIT else u32(0xFFFFFFFF)), mask)


@row_function
def float_selection(U, op, d, a, b, smod, x, flags, pa, mask):
    """FSEL and FMNMX (PA: minimum; X bit 0: a NaN wins, else a number does)."""
    p, q = float_source(U, a, smod), float_source(U, b, smod >> 1)
    if op == Op.FSEL:
        store(U, d, where(lanes(pa), p, q), mask)
        return
    if x & FTZ_BIT or flags & FLAG_FTZ:
        p, q = flushed(p), flushed(q)
    least = lanes(pa)
    left, right = as_u32(p), as_u32(q)
    # Equal numbers differ at most in the sign of a zero, and -0 is the smaller.
    equal = where(least, left | right, left & right)
    result = where(p == q, equal, where((p < q) ^ ~least, left, right))
    result = where(ordered(p), where(ordered(q), result, left), right)
    if x & NAN_BIT:
        result = where(ordered(p) & ordered(q), result, 0x7FFFFFFF)
    store(U, d, canonical(as_f32(result)), mask)


@row_function
def division_check(U, a, b, smod):
    """FCHK: lanes whose a / b the fast path (reciprocal, multiply, two corrections) might get wrong.

    That is where the quotient, its reciprocal or a residue may leave the normal range:
    a zero, subnormal, infinite or NaN operand, a tiny dividend, a huge divisor, or
    exponents that differ by about the whole range.
    """
    above = (as_u32(float_source(U, a, smod)) >> 23) & 255
    below = (as_u32(float_source(U, b, smod >> 1)) >> 23) & 255
    slow = (below == 0) | (below > 252) | (above < 24) | (above == 255)
    return mask_of(slow | (above > below + 125) | (below > above + 124))


@row_function
def swizzled_sum(U, d, a, b, x, mask):
    """FSWZADD: by two bits of X for each lane of a quad, a + b, a - b, b - a or b."""
    p, q = as_f32(load(U, a)), as_f32(load(U, b))
    choice = (u32(x) >> (u32(lane_numbers() & 3) << 1)) & 3
    result = where(choice == 0, p + q, where(choice == 1, p - q, where(choice == 2, q - p, q)))
    store(U, d, canonical(result), mask)
