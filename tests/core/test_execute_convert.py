"""Conversions against exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.isa import FLAG_FTZ, SMOD_ABS_A, SMOD_NEG_A, NumberType, Op, Rounding
from tests.core.exact import BFLOAT, DOUBLE, HALF, SINGLE, rounded, same
from tests.core.one_instruction import lanes_of, run_one
from tests.core.values import doubles, few, floats, integers, longs, masks

N = NumberType
FLOATS = {
    N.F16: (np.float16, HALF), N.BF16: (ml_dtypes.bfloat16, BFLOAT), N.F32: (np.float32, SINGLE),
    N.F64: (np.float64, DOUBLE),
}  # fmt: skip
INTEGERS = {
    N.U8: np.uint8, N.S8: np.int8, N.U16: np.uint16, N.S16: np.int16, N.U32: np.uint32, N.S32: np.int32,
    N.U64: np.uint64, N.S64: np.int64,
}  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # operands are NaNs and infinities, too


def convert(op, source, target, values, *, mode=0, nd=None, **more):
    x = source | target << 4 | mode << 8
    wide = target in (N.F64, N.U64, N.S64)
    return run_one(op, values, x=x, nd=nd or 1 + wide, **more)


def as_float(out, target):
    """The destination read as a float type, as float64."""
    if target == N.F64:
        return out.double.view(np.float64)
    if target == N.F32:
        return out.single.astype(np.float64)
    return out.d[0].astype(np.uint16).view(FLOATS[target][0]).astype(np.float64)


def once(value, kind, mode):
    """A float64 rounded to another float type, zeros and specials kept."""
    if not math.isfinite(value) or value == 0:
        return value
    return math.copysign(float(rounded(Fraction(value), kind, mode)), value)


@pytest.mark.parametrize("mode", list(Rounding))
@pytest.mark.parametrize("target", [N.F16, N.BF16])
@few
@given(floats)
def test_f2f_from_single_to_halves_rounds_once(target, mode, a):
    got = as_float(convert(Op.F2F, N.F32, target, a, mode=mode), target)
    assert same(got, np.array([once(float(v), FLOATS[target][1], mode) for v in a]))


@pytest.mark.parametrize("mode", list(Rounding))
@pytest.mark.parametrize("target", [N.F16, N.BF16, N.F32])
@few
@given(doubles, st.integers(0, 2**32 - 1))
def test_f2f_from_double_rounds_once(target, mode, a, seed):
    random = np.random.default_rng(seed)
    # Neighbours of ties: a float of the target's precision and a half, a little more or less.
    bits, _ = FLOATS[target][1]
    ties = (random.integers(2 ** (bits - 1), 2**bits, 32) + 0.5) * 2.0 ** random.integers(-20, 4, 32)
    ties = np.nextafter(ties, random.choice([-np.inf, np.inf], 32)) if seed % 2 else ties
    for values in (a, ties):
        got = as_float(convert(Op.F2F, N.F64, target, values, mode=mode), target)
        assert same(got, np.array([once(float(v), FLOATS[target][1], mode) for v in values]))


@pytest.mark.parametrize("source", [N.F16, N.BF16])
@pytest.mark.parametrize("target", [N.F32, N.F64])
def test_f2f_widens_every_half_exactly(source, target):
    everything = np.arange(65536, dtype=np.uint16).reshape(-1, 32)
    for bits in everything[:: 7 if target == N.F64 else 1]:
        got = as_float(convert(Op.F2F, source, target, bits), target)
        assert same(got, bits.view(FLOATS[source][0]).astype(np.float64))


@few
@given(floats)
def test_f2f_ftz_flushes_and_modifiers_apply(a):
    out = convert(Op.F2F, N.F32, N.F64, a, flags=FLAG_FTZ, smod=SMOD_NEG_A | SMOD_ABS_A)
    flushed = np.where(np.abs(a) < np.float32(2.0**-126), np.float32(0), a)
    assert same(out.double.view(np.float64), -np.abs(flushed).astype(np.float64))


@few
@given(floats)
def test_f2f_saturates(a):
    got = run_one(Op.F2F, a, x=N.F32 | N.F32 << 4 | 1024).single
    assert (got == np.where(np.isnan(a), 0, np.clip(a, 0, 1))).all()


INTEGRAL = {Rounding.RN: round, Rounding.RZ: math.trunc, Rounding.RM: math.floor, Rounding.RP: math.ceil}


@pytest.mark.parametrize("mode", list(Rounding))
@few
@given(floats, doubles)
def test_frnd_rounds_to_whole_numbers_of_the_same_type(mode, a, b):
    def whole(v):
        return math.copysign(INTEGRAL[mode](v), v) if math.isfinite(v) else v

    got = convert(Op.FRND, N.F32, N.F32, a * np.float32(0.37), mode=mode).single
    assert same(got, np.array([whole(float(v)) for v in a * np.float32(0.37)], np.float32))
    got64 = convert(Op.FRND, N.F64, N.F64, b, mode=mode).double.view(np.float64)
    assert same(got64, np.array([whole(float(v)) for v in b]))


@pytest.mark.parametrize("mode", list(Rounding))
@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", [N.F32, N.F64, N.F16])
@few
@given(floats, doubles, st.integers(-5, 70))
def test_f2i_rounds_and_saturates(source, target, mode, a, b, shift):
    values = {N.F32: a, N.F64: b, N.F16: a.view(np.uint32).astype(np.uint16).view(np.float16)}[source]
    if source == N.F32 and shift >= 0:
        values = np.ldexp(np.float32(1) + np.random.default_rng(shift).random(32, np.float32), shift)
    limits = np.iinfo(INTEGERS[target])
    out = convert(Op.F2I, source, target, values, mode=mode)
    got = out.double if limits.bits == 64 else out.d[0]
    for v, word in zip(values.astype(np.float64), got, strict=True):
        if math.isnan(v):
            right = 1 << max(limits.bits, 1) - 1 if limits.bits == 64 or source == N.F64 else 0
        elif math.isinf(v):
            right = limits.max if v > 0 else limits.min
        else:
            right = min(max(INTEGRAL[mode](v), limits.min), limits.max)
        assert int(word) == right & (2 ** max(limits.bits, 32) - 1)


@pytest.mark.parametrize("mode", list(Rounding))
@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("target", [N.F32, N.F16, N.BF16])
@few
@given(longs, integers)
def test_i2f_rounds_once(source, target, mode, a, b):
    wide = np.iinfo(INTEGERS[source]).bits == 64
    values = a if wide else b
    numbers = values.view(INTEGERS[source])[:: values.itemsize // np.dtype(INTEGERS[source]).itemsize]
    got = as_float(convert(Op.I2F, source, target, values, mode=mode), target)
    right = [float(rounded(Fraction(int(v)), FLOATS[target][1], mode)) for v in numbers]
    assert same(got, np.array(right))


@pytest.mark.parametrize("source", [N.U32, N.S32, N.U64, N.S64])
@few
@given(longs, integers)
def test_i2f_to_double_rounds_to_nearest(source, a, b):
    values = (a if source in (N.U64, N.S64) else b).view(INTEGERS[source])
    got = convert(Op.I2F, source, N.F64, values).double.view(np.float64)
    assert same(got, np.array([float(int(v)) for v in values]))


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("saturate", [0, 1024])
@few
@given(longs, integers)
def test_i2i_cuts_or_saturates(source, target, saturate, a, b):
    values = a if np.iinfo(INTEGERS[source]).bits == 64 else b
    numbers = values.view(INTEGERS[source])[:: values.itemsize // np.dtype(INTEGERS[source]).itemsize]
    limits = np.iinfo(INTEGERS[target])
    out = run_one(Op.I2I, values, x=source | target << 4 | saturate, nd=2 if limits.bits == 64 else 1)
    got = out.double if limits.bits == 64 else out.d[0]
    for v, word in zip(numbers, got, strict=True):
        if saturate and limits.bits < 64:
            right = min(max(int(v), limits.min), limits.max)
        else:
            right = int(np.array(int(v) & 2**64 - 1, np.uint64).astype(INTEGERS[target]))
        assert int(word) == right & (2 ** max(limits.bits, 32) - 1)


@pytest.mark.parametrize(("kind", "dtype"), [(N.F16, np.float16), (N.BF16, ml_dtypes.bfloat16)])
@few
@given(floats, floats, masks)
def test_f2fp_packs_a_high_and_b_low(kind, dtype, a, b, mask):
    out = run_one(Op.F2FP, a, b, x=kind, smod=SMOD_NEG_A, mask=mask)
    active = lanes_of(mask)
    with np.errstate(all="ignore"):
        for half, values in ((out.d[0] >> np.uint32(16), -a), (out.d[0] & np.uint32(0xFFFF), b)):
            got = half.astype(np.uint16).view(dtype)[active].astype(np.float32)
            assert same(got, values.astype(dtype).astype(np.float32)[active])


def test_halves_make_the_canonical_nan():
    nan = np.full(32, np.nan, np.float32)
    assert (run_one(Op.F2FP, nan, nan, x=N.F16).d[0] == 0x7FFF7FFF).all()
    assert (run_one(Op.F2FP, nan, nan, x=N.BF16).d[0] == 0x7FFF7FFF).all()
