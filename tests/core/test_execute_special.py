"""MUFU against NumPy's float64 functions, and its special values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.isa import SMOD_ABS_A, SMOD_NEG_A, MufuFunction, Op
from tests.core.one_instruction import lanes_of, run_one
from tests.core.values import few, floats, masks

LEAST = np.float32(2.0**-126)
FUNCTIONS = {
    MufuFunction.RCP: lambda x: 1 / x,
    MufuFunction.RSQ: lambda x: 1 / np.sqrt(x),
    MufuFunction.SQRT: np.sqrt,
    MufuFunction.EX2: np.exp2,
    MufuFunction.LG2: np.log2,
    MufuFunction.SIN: lambda x: np.sin(2 * np.pi * np.fmod(x, 1)),
    MufuFunction.COS: lambda x: np.cos(2 * np.pi * np.fmod(x, 1)),
    MufuFunction.TANH: np.tanh,
}

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # operands are NaNs and infinities, too


def flushed(x):
    return np.where(np.abs(x) < LEAST, np.copysign(np.float32(0), x), x)


def right_answer(function, x):
    with np.errstate(all="ignore"):
        if function == MufuFunction.TANH:
            return FUNCTIONS[function](x.astype(np.float64)).astype(np.float32)
        return flushed(FUNCTIONS[function](flushed(x).astype(np.float64)).astype(np.float32))


def close(got, right, units=1):
    """Within some units in the last place, specials alike; results near zero within 2**-50 of one."""
    specials = ~(np.isfinite(got) & np.isfinite(right))
    with np.errstate(all="ignore"):
        near = np.abs(got - right) <= np.maximum(units * np.spacing(np.abs(right)), 2.0**-50)
    return (np.where(specials, (got == right) | (np.isnan(got) & np.isnan(right)), near)).all()


@pytest.mark.parametrize("function", FUNCTIONS)
@few
@given(floats)
def test_mufu_is_within_a_unit_of_the_function(function, a):
    assert close(run_one(Op.MUFU, a, x=function).single, right_answer(function, a))


@pytest.mark.parametrize("function", FUNCTIONS)
@few
@given(st.integers(0, 2**32 - 1))
def test_mufu_over_everyday_arguments(function, seed):
    a = np.random.default_rng(seed).uniform(-12, 12, 32).astype(np.float32)
    assert close(run_one(Op.MUFU, a, x=function).single, right_answer(function, a))


@pytest.mark.parametrize(
    ("function", "argument", "result"),
    [
        ("RCP", 0.0, np.inf), ("RCP", -0.0, -np.inf), ("RCP", np.inf, 0.0), ("RCP", 1e-40, np.inf),
        ("RCP", 2.0**127, 0.0), ("RSQ", 0.0, np.inf), ("RSQ", -0.0, -np.inf), ("RSQ", -1.0, np.nan),
        ("RSQ", np.inf, 0.0), ("RSQ", 1e-40, np.inf), ("SQRT", -0.0, -0.0), ("SQRT", -1.0, np.nan),
        ("EX2", -np.inf, 0.0), ("EX2", np.inf, np.inf), ("EX2", 128.0, np.inf), ("EX2", -127.0, 0.0),
        ("EX2", 0.0, 1.0), ("LG2", 0.0, -np.inf), ("LG2", 1e-40, -np.inf), ("LG2", -1.0, np.nan),
        ("LG2", 1.0, 0.0), ("LG2", np.inf, np.inf), ("SIN", 0.25, 1.0), ("SIN", 0.5, 0.0),
        ("SIN", np.inf, np.nan), ("SIN", -0.0, -0.0), ("COS", 0.0, 1.0), ("COS", 0.25, 0.0),
        ("COS", 0.5, -1.0), ("COS", np.inf, np.nan), ("TANH", np.inf, 1.0), ("TANH", -np.inf, -1.0),
        ("TANH", 0.0, 0.0), ("TANH", -0.0, -0.0), ("TANH", 1e-40, 1e-40),
    ],
)  # fmt: skip
def test_mufu_special_values(function, argument, result):
    got = run_one(Op.MUFU, np.full(32, argument, np.float32), x=MufuFunction[function]).single
    right = np.float32(result)
    assert (np.isnan(got) & np.isnan(right) | (got == right)).all()
    assert np.isnan(right) or right != 0 or (np.signbit(got) == np.signbit(right)).all()


def test_every_mufu_nan_is_the_canonical_one():
    for function in FUNCTIONS:
        out = run_one(Op.MUFU, np.full(32, np.nan, np.float32), x=function)
        assert (out.d[0] == 0x7FFFFFFF).all()


@few
@given(floats, masks)
def test_mufu_modifiers_and_masks(a, mask):
    out = run_one(Op.MUFU, a, x=MufuFunction.RCP, smod=SMOD_ABS_A | SMOD_NEG_A, mask=mask)
    active = lanes_of(mask)
    assert close(out.single[active], right_answer(MufuFunction.RCP, -np.abs(a))[active])
    assert (out.d[0][~active] == 0xDEADBEEF).all()


@pytest.mark.parametrize(("function", "power"), [("RCP64H", -1.0), ("RSQ64H", -0.5)])
def test_mufu_64h_works_on_high_words(function, power):
    x = np.geomspace(1e-100, 1e100, 32)
    high = (x.view(np.uint64) >> np.uint64(32)).astype(np.uint32)
    got = run_one(Op.MUFU, high, x=MufuFunction[function]).d[0].astype(np.uint64) << np.uint64(32)
    assert np.allclose(got.view(np.float64), x**power, rtol=2e-6)
