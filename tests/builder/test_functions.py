"""Are mathematical functions as accurate as CUDA's, over their whole range?"""

from __future__ import annotations

import math

import numpy as np
import pytest

import sim
from tests.builder.run import count, run

RNG = np.random.default_rng(11)


@sim.kernel
def apply(k, x, out, *, name, fast):
    i = k.block_idx.x * 32 + k.thread_idx.x
    function = getattr(k, name)
    out[i] = function(x[i], fast=True) if fast else function(x[i])


def ulps(got, exact, dtype=np.float32):
    """Distance in units of the last place of the exact result; specials must be equal."""
    exact = np.asarray(exact)
    with np.errstate(all="ignore"):
        rounded = exact.astype(dtype)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(got[~finite], rounded[~finite])
    return np.max(
        np.abs(got[finite].astype(np.float64) - exact[finite]) / np.spacing(np.abs(rounded[finite])).astype(np.float64)
    )


def values(low, high, *special):
    x = RNG.uniform(low, high, 256).astype(np.float32)
    x[: len(special)] = special
    return x


EVERY = (0.0, -0.0, np.inf, -np.inf, np.nan)
CASES = [
    ("exp", np.exp, values(-110, 95, *EVERY), 1.5),
    ("exp2", np.exp2, values(-126, 130, *EVERY), 1.0),
    ("log", np.log, np.concatenate([values(0, 10, *EVERY, 1.0, -1.0, 1e-42, 3e38), values(0.9, 1.1)]), 1.0),
    ("log2", np.log2, np.concatenate([values(0, 10, *EVERY, 1.0, -1.0, 1e-42, 3e38), values(0.9, 1.1)]), 1.5),
    ("sqrt", np.sqrt, np.concatenate([values(0, 1e-30, *EVERY, -1.0, 1e-42, 3e38, 1e-45), values(0, 100)]), 0.5),
    ("rsqrt", lambda x: 1 / np.sqrt(x), values(0, 100, *EVERY, -1.0, 1e-42, 3e38), 1.0),
    ("rcp", lambda x: 1 / x, np.concatenate([values(-3, 3, *EVERY, 1e-42, 3e38, -2e38), values(-1e-38, 1e-38)]), 0.5),
    (
        "sin",
        np.sin,
        np.concatenate([values(-20, 20, *EVERY), values(-1e5, 1e5), values(-1e30, 1e30, 105615.0, 1e38)]),
        2.0,
    ),
    (
        "cos",
        np.cos,
        np.concatenate([values(-20, 20, *EVERY), values(-1e5, 1e5), values(-1e30, 1e30, 105615.0, 1e38)]),
        2.0,
    ),
    ("tanh", np.tanh, values(-12, 12, *EVERY, 1e-30, 0.6, -0.6), 2.5),
    ("floor", np.floor, values(-9, 9, *EVERY), 0.5),
    ("ceil", np.ceil, values(-9, 9, *EVERY), 0.5),
    ("trunc", np.trunc, values(-9, 9, *EVERY), 0.5),
    ("rint", np.rint, values(-9, 9, *EVERY, 0.5, 1.5, 2.5), 0.5),
]


@pytest.mark.parametrize(("name", "exact", "x", "limit"), CASES, ids=[c[0] for c in CASES])
def test_accuracy(name, exact, x, limit):
    out = np.zeros_like(x)
    run(apply, (x, out), grid=len(x) // 32, name=name, fast=False)
    with np.errstate(all="ignore"):
        assert ulps(out, exact(x.astype(np.float64))) <= limit + 1e-3


FAST = [
    ("exp", np.exp, (-80, 80), 2e-5), ("log", np.log, (0.1, 50), 1e-5), ("log2", np.log2, (0.1, 50), 1e-5),
    ("sin", np.sin, (-3, 3), 2e-6), ("cos", np.cos, (-3, 3), 2e-6), ("tanh", np.tanh, (-5, 5), 1e-3),
    ("sqrt", np.sqrt, (0, 50), 1e-6), ("rcp", np.reciprocal, (0.1, 50), 1e-6),
]  # fmt: skip


@pytest.mark.parametrize(("name", "exact", "bounds", "tolerance"), FAST, ids=[c[0] for c in FAST])
def test_fast_versions_are_shorter_and_near(name, exact, bounds, tolerance):
    x = np.random.default_rng(1).uniform(*bounds, 32).astype(np.float32)
    out = np.zeros_like(x)
    fast = run(apply, (x, out), name=name, fast=True)
    np.testing.assert_allclose(out, exact(x.astype(np.float64)), rtol=tolerance, atol=tolerance)
    accurate = apply.build_for((x, out), {"name": name, "fast": False})
    assert len(fast.instructions) < len(accurate.instructions)


@sim.kernel
def quotient(k, x, y, out):
    i = k.thread_idx.x
    out[i] = k.fdividef(x[i], y[i])


def test_fast_division_is_a_reciprocal_and_a_product():
    x, y = np.linspace(1, 2, 32, dtype=np.float32), np.linspace(3, 9, 32, dtype=np.float32)
    out = np.zeros(32, np.float32)
    program = run(quotient, (x, y, out))
    np.testing.assert_allclose(out, x / y, rtol=3e-7)
    assert count(program, "MUFU") == count(program, "FMUL") == 1 and count(program, "FCHK") == 0


@sim.kernel
def double_root(k, x, out, inverse):
    i = k.thread_idx.x
    out[i] = k.sqrt(x[i])
    inverse[i] = k.rsqrt(x[i])


def test_double_precision_roots():
    x = np.random.default_rng(2).uniform(0, 10, 32) ** 40
    x[:8] = [0.0, math.inf, -1.0, math.nan, 5e-324, 1.7e308, 4.0, 2.0]
    out, inverse = np.zeros(32), np.zeros(32)
    run(double_root, (x, out, inverse))
    with np.errstate(all="ignore"):
        assert ulps(out, np.sqrt(x), np.float64) <= 1.0
        np.testing.assert_allclose(inverse[4:], 1 / np.sqrt(x[4:]), rtol=5e-16)


@pytest.mark.parametrize("name", ["exp", "tanh", "sqrt"])
def test_halves_go_through_float32(name):
    x = np.linspace(0.1, 3, 32).astype(np.float16)
    out = np.zeros_like(x)
    run(apply, (x, out), name=name, fast=False)
    np.testing.assert_array_equal(out, getattr(np, name)(x.astype(np.float32)).astype(np.float16))
