"""float16 and bfloat16: their bits to wider numbers and back, rounded as the hardware rounds."""

from __future__ import annotations

import numpy as np

from sim._jit import bits_to_f32, f32_to_bits, jit
from sim.core.rows import as_f32, as_u32, f32, magnitude, row_function, where
from sim.isa import Rounding

HALF_NAN = 0x7FFF  #: the NaN that instructions produce, in both formats
_TWO_TO_112 = np.float32(2.0**112)  # the difference of float32's and float16's exponent biases


@row_function
def half_row(bits, bf16):
    """float32 row of the 16-bit floats in the low half of a uint32 row."""
    if bf16:
        return as_f32(bits << 16)
    shifted = (bits & 0x7FFF) << 13
    # Multiplying by 2**112 corrects the exponent of normal and subnormal numbers alike.
    finite = as_u32(as_f32(shifted) * f32(_TWO_TO_112))
    value = where(shifted >= 0x0F800000, shifted | 0x7F800000, finite)
    return as_f32(value | ((bits & 0x8000) << 16))


@row_function
def round_to_half(x, bf16):
    """The nearest 16-bit float, ties to even, of a float32 row; in the low half of a uint32 row."""
    bits = as_u32(x)
    sign, size = (bits >> 16) & 0x8000, bits & 0x7FFFFFFF
    if bf16:
        rounded = (size + 0x7FFF + ((size >> 16) & 1)) >> 16
    else:
        normal = (size - 0x37FFF001 + ((size >> 13) & 1)) >> 13
        # Adding 0.5 leaves the multiple of 2**-24 that is nearest in the low bits.
        subnormal = as_u32(as_f32(size) + f32(0.5)) - 0x3F000000
        rounded = where(size < 0x38800000, subnormal, where(size >= 0x47800000, 0x7C00, normal))
    return where(size > 0x7F800000, HALF_NAN, rounded | sign)


@row_function
def to_half(x, bf16, rounding):
    """A float32 row as 16-bit floats in the given rounding (`sim.isa.Rounding`)."""
    nearest = round_to_half(x, bf16)
    if rounding == Rounding.RN:
        return nearest
    back = half_row(nearest, bf16)
    negative = (nearest & 0x8000) != 0
    larger, smaller = magnitude(back) > magnitude(x), magnitude(back) < magnitude(x)
    if rounding == Rounding.RZ:
        return where(larger, nearest - 1, nearest)
    inward = negative if rounding == Rounding.RP else ~negative
    return where(inward & larger, nearest - 1, where(~inward & smaller, nearest + 1, nearest))


@row_function
def packed(low, high):
    """Two 16-bit rows as one."""
    return (low & 0xFFFF) | (high << 16)


@jit
def half_value(bits, bf16):
    """One 16-bit float, given as an int64, as float64."""
    if bf16:
        return np.float64(bits_to_f32(np.uint32(bits << 16)))
    shifted = (bits & 0x7FFF) << 13
    if shifted >= 0x0F800000:
        size = np.float64(bits_to_f32(np.uint32(shifted | 0x7F800000)))
    else:
        size = np.float64(bits_to_f32(np.uint32(shifted))) * 2.0**112
    return -size if bits & 0x8000 else size


@jit
def half_bits(value, bf16):
    """The nearest 16-bit float, ties to even, of a float64 that a float32 can hold to odd; as int64."""
    single = np.float32(value)
    bits, back = np.int64(f32_to_bits(single)), np.float64(single)
    if back != value and not np.isnan(value) and bits & 1 == 0:
        bits += -1 if abs(back) > abs(value) else 1
    sign, size = (bits >> 16) & 0x8000, bits & 0x7FFFFFFF
    if size > 0x7F800000:
        return np.int64(HALF_NAN)
    if bf16:
        return sign | ((size + 0x7FFF + ((size >> 16) & 1)) >> 16)
    if size >= 0x47800000:
        return sign | 0x7C00
    if size < 0x38800000:
        total = bits_to_f32(np.uint32(size)) + np.float32(0.5)
        return sign | (np.int64(f32_to_bits(np.float32(total))) - 0x3F000000)
    return sign | ((size - 0x37FFF001 + ((size >> 13) & 1)) >> 13)
