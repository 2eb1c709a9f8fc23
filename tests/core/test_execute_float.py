"""float32 instructions against exact arithmetic and NumPy."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.isa import (
    FLAG_FTZ,
    FULL_MASK,
    SMOD_ABS_A,
    SMOD_ABS_B,
    SMOD_NEG_A,
    SMOD_NEG_B,
    SMOD_NEG_C,
    BoolOp,
    Compare,
    MufuFunction,
    Op,
    Rounding,
)
from tests.core.exact import SINGLE, fused, same
from tests.core.one_instruction import ZERO, lanes_of, run_one
from tests.core.values import few, floats, masks

NAN = 0x7FFFFFFF

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # operands are NaNs and infinities, too


def flushed(x):
    return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x)


def each(rule, *rows):
    with np.errstate(all="ignore"):
        return np.array([rule(*map(float, lane)) for lane in zip(*rows, strict=True)]).astype(np.float32)


@pytest.mark.parametrize("mode", list(Rounding))
@few
@given(floats, floats, floats)
def test_ffma_rounds_once_in_every_mode(mode, a, b, c):
    out = run_one(Op.FFMA, a, b, c, x=int(mode))
    assert same(out.single, each(lambda x, y, z: fused(x, y, z, SINGLE, mode), a, b, c))


@pytest.mark.parametrize("mode", list(Rounding))
@few
@given(floats, floats)
def test_fadd_and_fmul_round_in_every_mode(mode, a, b):
    assert same(run_one(Op.FADD, a, b, x=int(mode)).single, each(lambda x, y: fused(x, 1.0, y, SINGLE, mode), a, b))

    def product(x, y):
        sign = math.copysign(0.0, math.copysign(1, x) * math.copysign(1, y))
        return fused(x, y, sign, SINGLE, mode)

    assert same(run_one(Op.FMUL, a, b, x=int(mode)).single, each(product, a, b))


@few
@given(floats, floats, floats)
def test_products_near_the_smallest_numbers_round_once(a, b, c):
    tiny = np.float32(2.0**-75)
    small_a, small_b = np.clip(a, -2, 2) * tiny, np.clip(b, -2, 2) * tiny
    out = run_one(Op.FFMA, small_a, small_b, c * np.float32(2.0**-140))
    right = each(lambda x, y, z: fused(x, y, z, SINGLE), small_a, small_b, c * np.float32(2.0**-140))
    assert same(out.single, right)


@few
@given(floats, floats, floats)
def test_every_nan_result_is_the_canonical_one(a, b, c):
    out = run_one(Op.FFMA, a, b, c)
    assert (out.d[0][np.isnan(out.single)] == NAN).all()


@few
@given(floats, floats, floats)
def test_source_modifiers_take_the_absolute_value_first(a, b, c):
    out = run_one(Op.FFMA, a, b, c, smod=SMOD_ABS_A | SMOD_NEG_A | SMOD_NEG_C)
    assert same(out.single, each(lambda x, y, z: fused(-abs(x), y, -z, SINGLE), a, b, c))
    with np.errstate(all="ignore"):
        assert same(run_one(Op.FADD, a, b, smod=SMOD_NEG_B | SMOD_ABS_B).single, a - np.abs(b))


@pytest.mark.parametrize(("x", "flags"), [(4, 0), (0, FLAG_FTZ)])
@few
@given(floats, floats, floats)
def test_ftz_flushes_operands_and_results(x, flags, a, b, c):
    out = run_one(Op.FFMA, a, b, c, x=x, flags=flags)
    right = each(lambda p, q, r: fused(p, q, r, SINGLE), flushed(a), flushed(b), flushed(c))
    assert same(out.single, flushed(right))


@few
@given(floats, floats)
def test_saturation_clamps_to_0_and_1_and_makes_nan_zero(a, b):
    with np.errstate(all="ignore"):
        total = a + b
    right = np.where(np.isnan(total), np.float32(0), np.clip(total, np.float32(0), np.float32(1)))
    got = run_one(Op.FADD, a, b, x=8).single
    assert (got == right).all() and not np.signbit(got).any()


def relation(x, y):
    if math.isnan(x) or math.isnan(y):
        return 8
    return 1 if x < y else 2 if x == y else 4


@few
@given(floats, floats, st.integers(0, 15), st.sampled_from(list(BoolOp)), st.integers(0, FULL_MASK), masks)
def test_fsetp_accepts_less_equal_greater_and_unordered_by_bit(a, b, comparison, boolean, third, mask):
    b = np.where(np.arange(32) % 4 == 0, a, b)
    out = run_one(Op.FSETP, a, b, x=comparison | boolean << 4, pa=2, preds={2: third}, mask=mask)
    hits = np.array([bool(comparison & relation(float(x), float(y))) for x, y in zip(a, b, strict=True)])
    other, active = lanes_of(third), lanes_of(mask)
    combine = (np.logical_and, np.logical_or, np.logical_xor)[boolean]
    assert (out.pd == (active & combine(hits, other))).all()
    assert (out.pe == (active & combine(~hits, other))).all()


def test_comparison_names_mean_what_they_say():
    one, two, nan = np.full(32, 1.0, np.float32), np.full(32, 2.0, np.float32), np.full(32, np.nan, np.float32)
    assert run_one(Op.FSETP, one, two, x=Compare.LT).pd.all()
    assert not run_one(Op.FSETP, nan, two, x=Compare.NE).pd.any()
    assert run_one(Op.FSETP, nan, two, x=Compare.NEU).pd.all()
    assert run_one(Op.FSETP, one, two, x=Compare.NUM).pd.all()
    assert run_one(Op.FSETP, nan, two, x=Compare.NAN).pd.all()
    assert run_one(Op.FSETP, one, one, x=Compare.GEU).pd.all()


@few
@given(floats)
def test_fsetp_ftz_compares_flushed_numbers(a):
    out = run_one(Op.FSETP, a, ZERO, x=Compare.GT | 256)
    assert (out.pd == (flushed(a) > 0)).all()


@few
@given(floats, floats)
def test_fset_writes_ones_or_one(a, b):
    hits = a < b
    assert (run_one(Op.FSET, a, b, x=Compare.LT).d[0] == np.where(hits, FULL_MASK, 0)).all()
    assert (run_one(Op.FSET, a, b, x=Compare.LT | 512).single == hits).all()


@few
@given(floats, floats, st.integers(0, FULL_MASK))
def test_fsel_keeps_bits(a, b, choice):
    out = run_one(Op.FSEL, a, b, smod=SMOD_NEG_B, pa=2, preds={2: choice})
    right = np.where(lanes_of(choice), a.view(np.uint32), b.view(np.uint32) ^ np.uint32(0x80000000))
    assert (out.d[0] == right).all()


@pytest.mark.parametrize("propagate", [False, True])
@few
@given(floats, floats, st.integers(0, FULL_MASK))
def test_fmnmx_prefers_numbers_and_orders_zeros(propagate, a, b, least):
    out = run_one(Op.FMNMX, a, b, x=int(propagate), pa=2, preds={2: least})
    for lane, (x, y) in enumerate(zip(a, b, strict=True)):
        if np.isnan(x) or np.isnan(y):
            number = y if np.isnan(x) else x
            right = NAN if propagate or np.isnan(number) else int(number.view(np.uint32))
        else:
            key = [(float(v), math.copysign(1, v), int(v.view(np.uint32))) for v in (x, y)]
            right = (min if least >> lane & 1 else max)(key)[2]
        assert out.d[0][lane] == right


def divide_fast(a, b):
    """The fast path of a compiled division: reciprocal, product, and two corrections."""
    with np.errstate(all="ignore"):
        r = run_one(Op.MUFU, b, x=MufuFunction.RCP).single
        one = np.ones(32, np.float32)
        r = run_one(Op.FFMA, r, run_one(Op.FFMA, r, b, one, smod=SMOD_NEG_B).single, r).single
        q = run_one(Op.FFMA, a, r, ZERO).single
        q = run_one(Op.FFMA, r, run_one(Op.FFMA, q, b, a, smod=SMOD_NEG_B).single, q).single
        rest = run_one(Op.FFMA, q, b, a, smod=SMOD_NEG_B).single
        return run_one(Op.FFMA, r, rest, q).single


@few
@given(floats, floats)
def test_fchk_lets_only_right_divisions_take_the_fast_path(a, b):
    slow = run_one(Op.FCHK, a, b).pd
    with np.errstate(all="ignore"):
        right = a / b
    fast = divide_fast(a, b)
    assert (slow | (fast.view(np.uint32) == right.view(np.uint32))).all()
    assert not run_one(Op.FCHK, np.full(32, 3.0, np.float32), np.full(32, 7.0, np.float32)).pd.any()


@few
@given(floats, floats, st.integers(0, 255))
def test_fswzadd_adds_by_lane_of_the_quad(a, b, pattern):
    out = run_one(Op.FSWZADD, a, b, x=pattern)
    with np.errstate(all="ignore"):
        choices = np.array([a + b, a - b, b - a, b])
    picked = np.array([choices[pattern >> 2 * (lane & 3) & 3, lane] for lane in range(32)], np.float32)
    assert same(out.single, picked)


def test_the_exact_reference_rounds_as_numpy():
    values = np.random.default_rng(1).random(2000) * 10.0 ** np.random.default_rng(2).integers(-50, 42, 2000)
    with np.errstate(over="ignore"):
        right = values.astype(np.float32)
    from tests.core.exact import rounded

    assert [float(rounded(Fraction(v), SINGLE)) for v in values] == right.astype(float).tolist()
