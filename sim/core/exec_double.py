"""float64 instructions on whole rows; a number takes two register rows, low word first."""

from __future__ import annotations

from sim.core.exec_convert import DOUBLE_NAN
from sim.core.operands import combined_pair, compared, double_source, store_pair
from sim.core.rounding import stepped
from sim.core.rows import as_f64, as_u64, fma, lanes, magnitude, mask_of, ordered, row_function, where
from sim.isa import Op, Rounding


@row_function
def double_arithmetic(U, op, d, a, b, c, smod, x, mask):
    """DADD, DMUL, DFMA; X = rounding."""
    p, q, r = double_source(U, a, smod), double_source(U, b, smod >> 1), double_source(U, c, smod >> 2)
    if op == Op.DADD:
        result = p + q
    elif op == Op.DMUL:
        result = p * q
    else:
        result = fma(p, q, r)
    if x & 3:
        result = _directed_double(op, p, q, r, result, x & 3)
    store_pair(U, d, where(ordered(result), as_u64(result), DOUBLE_NAN), mask)


@row_function
def _scaled(x):
    """x * 2**1100, in two steps that no number below 2**-900 overflows."""
    return (x * 2.0**600) * 2.0**500


@row_function
def _directed_double(op, p, q, r, nearest, rounding):
    """A result in a directed rounding mode: the sign of what the nearest one lost says which neighbour it is.

    Not exact where a product beyond the range and the addend cancel.
    """
    if op == Op.DADD:
        product, lost, lost_scaled, addend = p, p * 0.0, p * 0.0, q
    else:
        product = p * q
        lost = fma(p, q, -product)
        lost_scaled = fma(p * 2.0**600, q * 2.0**500, -_scaled(product))
        addend = r if op == Op.DFMA else product * 0.0
    total = product + addend
    back = total - product
    rest = (total - nearest) + ((product - (total - back)) + (addend - back))
    # What a tiny product lost may be below the range.
    rest = where(magnitude(product) < 2.0**-900, _scaled(rest) + lost_scaled, rest + lost)
    # Finite operands that overflowed lie on the near side of infinity.
    overflowed = ordered(p - p) & ordered(q - q) & ordered(addend - addend) & ~ordered(nearest - nearest)
    rest = where(overflowed, -nearest, rest)
    bits = as_u64(nearest)
    stepped_bits = stepped(bits, (bits >> 63) != 0, rest > 0, rest < 0, rounding)
    if rounding == Rounding.RM:
        # An exact zero of terms with opposite signs is negative when rounding down.
        cancelled = (total == 0.0) & (rest == 0.0) & ((as_u64(product) ^ as_u64(addend)) >> 63 != 0)
        stepped_bits = where(cancelled, 1 << 63, stepped_bits)
    return as_f64(stepped_bits)


@row_function
def double_comparison(U, a, b, smod, x, pa):
    """DSETP: X = comparison | boolean << 4, or 256: a is the minimum, 512: the maximum; PE then: both are NaNs."""
    p, q = double_source(U, a, smod), double_source(U, b, smod >> 1)
    if x & 768:
        first, second = as_u64(p) >> 63, as_u64(q) >> 63
        if x & 256:
            chosen = (p < q) | ((p == q) & (first > second))
        else:
            chosen = (p > q) | ((p == q) & (first < second))
        chosen = ordered(p) & (chosen | ~ordered(q))
        return mask_of(chosen) & pa, mask_of(~(ordered(p) | ordered(q))) & pa
    unordered = mask_of(~(ordered(p) & ordered(q)))
    hit = compared(x & 15, mask_of(p < q), mask_of(p == q), mask_of(p > q), unordered)
    return combined_pair((x >> 4) & 3, hit, pa)


@row_function
def double_minimum(U, d, a, b, smod, pa, mask):
    """DMNMX: PA minimum, else maximum; a number wins against a NaN, and -0 is less than 0."""
    p, q = double_source(U, a, smod), double_source(U, b, smod >> 1)
    least = lanes(pa)
    left, right = as_u64(p), as_u64(q)
    result = where(p == q, where(least, left | right, left & right), where((p < q) ^ ~least, left, right))
    result = where(ordered(p), where(ordered(q), result, left), right)
    store_pair(U, d, where(ordered(p) | ordered(q), result, DOUBLE_NAN), mask)
