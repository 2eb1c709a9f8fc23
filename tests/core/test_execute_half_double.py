"""Packed halves and float64 against exact arithmetic."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.isa import FLAG_FTZ, FULL_MASK, SMOD_ABS_A, SMOD_NEG_A, SMOD_NEG_B, BoolOp, Compare, Op, Rounding
from tests.core.exact import BFLOAT, DOUBLE, HALF, fused, same
from tests.core.one_instruction import ZERO, lanes_of, mask_of, run_one
from tests.core.values import doubles, few, masks, row_of

TYPES = {0: (np.float16, HALF), 1: (ml_dtypes.bfloat16, BFLOAT)}
HALF_EDGES = (0, 0x8000, 1, 0x3FF, 0x400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0x3F80, 0x7F80)
halves = st.tuples(row_of(HALF_EDGES, 16), row_of(HALF_EDGES, 16))

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # operands are NaNs and infinities, too


def packed(halves_pair):
    low, high = halves_pair
    return (low & np.uint32(0xFFFF)) | high << np.uint32(16)


def parts(words, kind):
    """Low and high halves of packed words as float64."""
    dtype = TYPES[kind][0]
    return [(words >> np.uint32(s)).astype(np.uint16).view(dtype).astype(np.float64) for s in (0, 16)]


def arithmetic(rule, *rows):
    return np.array([rule(*map(float, lane)) for lane in zip(*rows, strict=True)])


@pytest.mark.parametrize("kind", TYPES)
@few
@given(halves, halves, halves, masks)
def test_hfma2_rounds_each_half_once(kind, a, b, c, mask):
    a, b, c = packed(a), packed(b), packed(c)
    out = run_one(Op.HFMA2, a, b, c, x=kind, mask=mask)
    active = lanes_of(mask)
    for got, p, q, r in zip(parts(out.d[0], kind), parts(a, kind), parts(b, kind), parts(c, kind), strict=True):
        right = arithmetic(lambda x, y, z: fused(x, y, z, TYPES[kind][1]), p, q, r)
        assert same(got[active], right[active])


@pytest.mark.parametrize("kind", TYPES)
@few
@given(st.integers(0, 2**32 - 1))
def test_hfma2_breaks_ties_by_what_a_tiny_addend_adds(kind, seed):
    """Products half-way between two halves, and addends far below them."""
    random = np.random.default_rng(seed)
    dtype, (bits, _) = TYPES[kind]
    a = (1 + random.integers(0, 2 ** (bits - 1), 32) * 2.0 ** (1 - bits)).astype(dtype)
    b = np.full(32, 1.5).astype(dtype)
    c = (random.choice([-1, 0, 1], 32) * 2.0 ** random.integers(-24, -12, 32)).astype(dtype)
    out = run_one(Op.HFMA2, a.view(np.uint16), b.view(np.uint16), c.view(np.uint16), x=kind)
    rows = (v.astype(np.float64) for v in (a, b, c))
    assert same(parts(out.d[0], kind)[0], arithmetic(lambda x, y, z: fused(x, y, z, TYPES[kind][1]), *rows))


@pytest.mark.parametrize("kind", TYPES)
@few
@given(halves, halves)
def test_hadd2_and_hmul2(kind, a, b):
    a, b = packed(a), packed(b)
    total, product = run_one(Op.HADD2, a, b, x=kind), run_one(Op.HMUL2, a, b, x=kind, smod=SMOD_NEG_A)
    form = TYPES[kind][1]
    for got_sum, got_product, p, q in zip(
        parts(total.d[0], kind), parts(product.d[0], kind), parts(a, kind), parts(b, kind), strict=True
    ):
        assert same(got_sum, arithmetic(lambda x, y: fused(x, 1.0, y, form), p, q))
        sign = np.copysign(1, -p) * np.copysign(1, q)
        assert same(got_product, arithmetic(lambda x, y, s: fused(-x, y, s * 0.0, form), p, q, sign))


@few
@given(halves, halves)
def test_selectors_choose_halves_and_a_single_result_keeps_float32(a, b):
    a, b = packed(a), packed(b)
    out = run_one(Op.HADD2, a, b, x=2 << 4 | 1 << 6)
    high_a, low_b = parts(a, 0)[1], parts(b, 0)[0]
    right = arithmetic(lambda x, y: fused(x, 1.0, y, HALF), high_a, low_b)
    assert same(parts(out.d[0], 0)[0], right) and same(parts(out.d[0], 0)[1], right)
    single = run_one(Op.HADD2, a, ZERO, x=2 << 4 | 1 << 10, smod=SMOD_NEG_B)
    assert same(single.single, (high_a - 0.0).astype(np.float32))


@few
@given(halves)
def test_saturation_and_flushing_of_halves(a):
    a = packed(a)
    out = run_one(Op.HADD2, a, ZERO, x=1 << 11)
    assert all(((v >= 0) & (v <= 1)).all() for v in parts(out.d[0], 0))
    flat = parts(run_one(Op.HMUL2, a, np.full(32, 0x3C003C00, np.uint32), flags=FLAG_FTZ).d[0], 0)
    for got, value in zip(flat, parts(a, 0), strict=True):
        assert same(got, np.where(np.abs(value) < 2.0**-14, np.copysign(0, value), value))


@pytest.mark.parametrize("kind", TYPES)
@few
@given(halves, halves, st.integers(0, 15), st.sampled_from(list(BoolOp)), st.integers(0, FULL_MASK))
def test_hsetp2_compares_both_halves(kind, a, b, comparison, boolean, third):
    a, b = packed(a), packed(b)
    hits = []
    for p, q in zip(parts(a, kind), parts(b, kind), strict=True):
        kinds = np.where(np.isnan(p) | np.isnan(q), 8, np.where(p < q, 1, np.where(p == q, 2, 4)))
        hits.append((kinds & comparison) != 0)
    combine = (np.logical_and, np.logical_or, np.logical_xor)[boolean]
    x = kind | comparison << 12 | boolean << 16
    out = run_one(Op.HSETP2, a, b, x=x, pa=2, preds={2: third})
    assert (out.pd == combine(hits[0], lanes_of(third))).all()
    assert (out.pe == combine(hits[1], lanes_of(third))).all()
    both = run_one(Op.HSETP2, a, b, x=x | 1 << 18, pa=2, preds={2: third})
    assert (both.pd == combine(hits[0] & hits[1], lanes_of(third))).all()
    assert (both.pe == combine(~(hits[0] & hits[1]), lanes_of(third))).all()


@pytest.mark.parametrize(("kind", "one"), [(0, 0x3C00), (1, 0x3F80)])
@few
@given(halves, halves)
def test_hset2_writes_ones_or_one(kind, one, a, b):
    a, b = packed(a), packed(b)
    hits = [(p < q) for p, q in zip(parts(a, kind), parts(b, kind), strict=True)]
    x = kind | Compare.LT << 12
    assert (run_one(Op.HSET2, a, b, x=x).d[0] == packed([np.where(h, 0xFFFF, 0).astype(np.uint32) for h in hits])).all()
    out = run_one(Op.HSET2, a, b, x=x | 1 << 19)
    assert (out.d[0] == packed([np.where(h, one, 0).astype(np.uint32) for h in hits])).all()


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("propagate", [0, 1 << 20])
@few
@given(halves, halves, st.integers(0, FULL_MASK))
def test_hmnmx2_prefers_numbers(kind, propagate, a, b, least):
    a, b = packed(a), packed(b)
    out = run_one(Op.HMNMX2, a, b, x=kind | propagate, pa=2, preds={2: least})
    for got, p, q in zip(parts(out.d[0], kind), parts(a, kind), parts(b, kind), strict=True):
        for lane in range(32):
            x, y = float(p[lane]), float(q[lane])
            if math.isnan(x) or math.isnan(y):
                right = math.nan if propagate else y if math.isnan(x) else x
            else:
                right = (min if least >> lane & 1 else max)((x, y), key=lambda v: (v, math.copysign(1, v)))
            assert same(got[lane : lane + 1], np.array([right]))


@pytest.mark.parametrize("mode", list(Rounding))
@few
@given(doubles, doubles, doubles, masks)
def test_double_arithmetic_rounds_once_in_every_mode(mode, a, b, c, mask):
    active = lanes_of(mask)
    fma = run_one(Op.DFMA, a, b, c, x=int(mode), nd=2, mask=mask).double.view(np.float64)
    assert same(fma[active], arithmetic(lambda x, y, z: fused(x, y, z, DOUBLE, mode), a, b, c)[active])
    total = run_one(Op.DADD, a, b, x=int(mode), nd=2, mask=mask).double.view(np.float64)
    assert same(total[active], arithmetic(lambda x, y: fused(x, 1.0, y, DOUBLE, mode), a, b)[active])


@few
@given(doubles, doubles)
def test_dmul_modifiers_and_the_canonical_nan(a, b):
    out = run_one(Op.DMUL, a, b, nd=2, smod=SMOD_NEG_A | SMOD_ABS_A)
    with np.errstate(all="ignore"):
        right = -np.abs(a) * b
    assert same(out.double.view(np.float64), right)
    assert (out.double[np.isnan(right)] == 0xFFF8000000000000).all()


@few
@given(doubles, doubles, st.integers(0, 15), st.integers(0, FULL_MASK))
def test_dsetp(a, b, comparison, third):
    kinds = np.where(np.isnan(a) | np.isnan(b), 8, np.where(a < b, 1, np.where(a == b, 2, 4)))
    out = run_one(Op.DSETP, a, b, x=comparison | BoolOp.OR << 4, pa=2, preds={2: third})
    assert mask_of(out.pd) == mask_of(kinds & comparison) | third
    assert mask_of(out.pe) == (FULL_MASK ^ mask_of(kinds & comparison)) | third


@few
@given(doubles, doubles, st.integers(0, FULL_MASK))
def test_dmnmx(a, b, least):
    out = run_one(Op.DMNMX, a, b, nd=2, pa=2, preds={2: least}).double.view(np.float64)
    right = np.where(lanes_of(least), np.fmin(a, b), np.fmax(a, b))
    assert same(out[right != 0], right[right != 0])
    zeros = (a == 0) & (b == 0)
    signs = np.where(lanes_of(least), np.signbit(a) | np.signbit(b), np.signbit(a) & np.signbit(b))
    assert (np.signbit(out)[zeros] == signs[zeros]).all()
