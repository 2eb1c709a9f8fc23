"""Tensor instructions: small matrix products spread over a warp's registers.

Fragments lie as PTX's mma has them. In an accumulator row, lane 4 g + t holds row g
(or g + 8) and column 2 t or 2 t + 1. Of a register of A, lane 4 g + t holds row g and
some k; of B, column g and the same k. So the k-th terms of all 32 lanes are two
spreads: of A from lane 4 g + q to the whole group g, of B from lanes 4 n + q of columns
n = 2 t and 2 t + 1 to every group, for q = 0..3 and each element packed in a register.

Sums are float32, one fused step a term in a fixed order, for want of a published rule;
the hardware adds a block of terms at once, without intermediate roundings.
"""

from __future__ import annotations

from sim.core.exec_convert import DOUBLE_NAN
from sim.core.halves import half_row, packed, round_to_half
from sim.core.operands import pair, store_pair
from sim.core.rounding import canonical
from sim.core.rows import (
    as_f32,
    as_f64,
    as_i32,
    as_u32,
    as_u64,
    fma,
    i32,
    i64,
    lane_numbers,
    load,
    ordered,
    permute,
    row_function,
    spread,
    store,
    u32,
    where,
)
from sim.isa import MmaShape, NumberType

HALF_SUM_BIT = 1 << 16  #: HMMA: accumulators are packed float16
MIXED_BIT = 1 << 17  #: IMMA: b has the other signedness than a
SATURATE_BIT = 1 << 18  #: IMMA: sums saturate


@row_function
def _pair_step(even, odd, a, b):
    """Add the four terms of one element of register a (rows of A) and b (columns of B) to two accumulator rows."""
    p = spread(a, 4, 0, 0)
    even, odd = fma(p, spread(b, 0, 8, 0), even), fma(p, spread(b, 0, 8, 4), odd)
    p = spread(a, 4, 0, 1)
    even, odd = fma(p, spread(b, 0, 8, 1), even), fma(p, spread(b, 0, 8, 5), odd)
    p = spread(a, 4, 0, 2)
    even, odd = fma(p, spread(b, 0, 8, 2), even), fma(p, spread(b, 0, 8, 6), odd)
    p = spread(a, 4, 0, 3)
    return fma(p, spread(b, 0, 8, 3), even), fma(p, spread(b, 0, 8, 7), odd)


@row_function
def _step(sums, top, bottom, b):
    """`_pair_step` for both registers of A: rows g and rows g + 8."""
    first, second = _pair_step(sums[0], sums[1], top, b)
    third, fourth = _pair_step(sums[2], sums[3], bottom, b)
    return first, second, third, fourth


@row_function
def _block(sums, top, bottom, b, kind):
    """The terms of one register of B with the two of A that match it; each holds one or two elements a lane."""
    if kind == NumberType.TF32:
        return _step(sums, as_f32(top & 0xFFFFE000), as_f32(bottom & 0xFFFFE000), as_f32(b & 0xFFFFE000))
    bf16 = kind == NumberType.BF16
    sums = _step(sums, half_row(top & 0xFFFF, bf16), half_row(bottom & 0xFFFF, bf16), half_row(b & 0xFFFF, bf16))
    return _step(sums, half_row(top >> 16, bf16), half_row(bottom >> 16, bf16), half_row(b >> 16, bf16))


@row_function
def float_product(U, d, a, b, c, x, mask):
    """HMMA: m16n8k8 and k16 of float16 or bfloat16, m16n8k4 and k8 of TF32.

    X = MmaShape | type << 8 | float16 accumulators << 16.
    """
    kind, shape = (x >> 8) & 15, x & 255
    if x & HALF_SUM_BIT:
        top, bottom = load(U, c), load(U, c + 1)
        sums = (
            half_row(top & 0xFFFF, False), half_row(top >> 16, False),
            half_row(bottom & 0xFFFF, False), half_row(bottom >> 16, False),
        )  # fmt: skip
    else:
        sums = (
            as_f32(load(U, c)), as_f32(load(U, c + 1)), as_f32(load(U, c + 2)), as_f32(load(U, c + 3)),
        )  # fmt: skip
    sums = _block(sums, load(U, a), load(U, a + 1), load(U, b), kind)
    if shape == MmaShape.M16N8K16 or (shape == MmaShape.M16N8K8 and kind == NumberType.TF32):
        sums = _block(sums, load(U, a + 2), load(U, a + 3), load(U, b + 1), kind)
    if x & HALF_SUM_BIT:
        store(U, d, packed(round_to_half(sums[0], False), round_to_half(sums[1], False)), mask)
        store(U, d + 1, packed(round_to_half(sums[2], False), round_to_half(sums[3], False)), mask)
    else:
        store(U, d, canonical(sums[0]), mask)
        store(U, d + 1, canonical(sums[1]), mask)
        store(U, d + 2, canonical(sums[2]), mask)
        store(U, d + 3, canonical(sums[3]), mask)


@row_function
def _byte(bits, index, signed):
    """One byte of a uint32 row as an int32 number."""
    value = (bits >> (8 * index)) & 0xFF
    return as_i32((value ^ 0x80) - 0x80) if signed else as_i32(value)


@row_function
def _integer_pair(U, a, b, index, a_signed, b_signed):
    """Sums of the four terms of byte `index` of registers a and b, for two accumulator rows."""
    p, q = _byte(load(U, a), index, a_signed), _byte(load(U, b), index, b_signed)
    left = spread(p, 4, 0, 0)
    even, odd = left * spread(q, 0, 8, 0), left * spread(q, 0, 8, 4)
    left = spread(p, 4, 0, 1)
    even, odd = even + left * spread(q, 0, 8, 1), odd + left * spread(q, 0, 8, 5)
    left = spread(p, 4, 0, 2)
    even, odd = even + left * spread(q, 0, 8, 2), odd + left * spread(q, 0, 8, 6)
    left = spread(p, 4, 0, 3)
    return even + left * spread(q, 0, 8, 3), odd + left * spread(q, 0, 8, 7)


@row_function
def _integer_sum(total, products, saturate):
    """An accumulator plus its products, wrapped around or saturated to int32."""
    if not saturate:
        return as_u32(total + products)
    wide = i64(total) + i64(products)
    wide = where(wide > 0x7FFFFFFF, 0x7FFFFFFF, where(wide < -0x80000000, -0x80000000, wide))
    return as_u32(i32(wide))


@row_function
def integer_product(U, d, a, b, c, x, mask):
    """IMMA: m8n8k16, m16n8k16 and m16n8k32 of 8-bit integers, int32 accumulators.

    X = MmaShape | type of a << 8 | b of the other signedness << 17 | saturate << 18.
    """
    shape, a_signed = x & 255, (x >> 8) & 1 != 0
    b_signed = a_signed != (x & MIXED_BIT != 0)
    blocks = 2 if shape == MmaShape.M16N8K32 else 1
    wide = shape != MmaShape.M8N8K16
    zero = as_i32(load(U, a)) & 0
    first, second, third, fourth = zero, zero, zero, zero
    for block in range(blocks):
        for index in range(4):
            even, odd = _integer_pair(U, a + 2 * block, b + block, index, a_signed, b_signed)
            first, second = first + even, second + odd
            if wide:
                even, odd = _integer_pair(U, a + 2 * block + 1, b + block, index, a_signed, b_signed)
                third, fourth = third + even, fourth + odd
    saturate = x & SATURATE_BIT != 0
    store(U, d, _integer_sum(as_i32(load(U, c)), first, saturate), mask)
    store(U, d + 1, _integer_sum(as_i32(load(U, c + 1)), second, saturate), mask)
    if wide:
        store(U, d + 2, _integer_sum(as_i32(load(U, c + 2)), third, saturate), mask)
        store(U, d + 3, _integer_sum(as_i32(load(U, c + 3)), fourth, saturate), mask)


@row_function
def double_product(U, d, a, b, c, mask):
    """DMMA m8n8k4: one float64 of A and of B a lane, two of the accumulator."""
    even, odd = _pair_step(as_f64(pair(U, c)), as_f64(pair(U, c + 2)), as_f64(pair(U, a)), as_f64(pair(U, b)))
    store_pair(U, d, where(ordered(even), as_u64(even), DOUBLE_NAN), mask)
    store_pair(U, d + 2, where(ordered(odd), as_u64(odd), DOUBLE_NAN), mask)


@row_function
def transpose(U, d, a, mask):
    """MOVM: transposes an 8x8 matrix of which lane 4 r + t holds elements (r, 2 t) and (r, 2 t + 1), 16 bits each."""
    value, lane = load(U, a), u32(lane_numbers())
    row, thread = lane >> 2, lane & 3
    source, shift = (thread << 3) + (row >> 1), (row & 1) << 4
    store(U, d, packed(permute(value, source) >> shift, permute(value, source + 4) >> shift), mask)
