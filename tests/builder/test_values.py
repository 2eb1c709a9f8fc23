"""Do values compute what NumPy does? Arithmetic, conversions, comparisons, by type."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim
from tests.builder.run import run

OPERATORS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "//": operator.floordiv, "%": operator.mod, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "/": operator.truediv,
    "<<": operator.lshift, ">>": operator.rshift,
}  # fmt: skip


@sim.kernel
def binary(k, x, y, out, *, op):
    i = k.thread_idx.x
    out[i] = OPERATORS[op](x[i], y[i])


@sim.kernel
def with_constant(k, x, out, *, op, constant):
    i = k.thread_idx.x
    out[i] = OPERATORS[op](x[i], constant)


@sim.kernel
def comparison(k, x, y, out, *, op):
    i = k.thread_idx.x
    out[i] = k.select(OPERATORS[op](x[i], y[i]), 1, 0)


def patterns(dtype, seed=0):
    """32 values: the ends of the type's range, small ones, random ones."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        ends = np.array([info.min, info.max, info.min + 1, info.max - 1, 0, 1, 2, 3, 7, 100], dtype)
        rest = rng.integers(info.min, info.max, 22, dtype=dtype, endpoint=True)
    else:
        ends = np.array([0.0, -0.0, 1.0, -1.5, 3e4, -2e-3, 1e-4, 65504.0, 0.1, 7.0])
        rest = rng.standard_normal(22)
    values = np.concatenate([ends.astype(dtype), rest.astype(dtype)])
    return rng.permutation(values)


INTEGERS = (np.int32, np.uint32, np.int64, np.uint64)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", ["+", "-", "*", "&", "|", "^"])
def test_integer_arithmetic_wraps_around(dtype, op):
    x, y = patterns(dtype, 1), patterns(dtype, 2)
    out = np.zeros(32, dtype)
    run(binary, (x, y, out), op=op)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, OPERATORS[op](x, y))


@pytest.mark.parametrize("dtype", [*INTEGERS, np.float32, np.float64, np.float16])
@pytest.mark.parametrize("op", ["<", "<=", ">", ">=", "==", "!="])
def test_comparisons(dtype, op):
    x, y = patterns(dtype, 1), patterns(dtype, 1)
    y[::3] = patterns(dtype, 2)[::3]
    if np.dtype(dtype).kind == "f":
        x[5] = y[9] = np.nan
    out = np.zeros(32, np.int32)
    run(comparison, (x, y, out), op=op)
    np.testing.assert_array_equal(out, OPERATORS[op](x, y))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("op", ["+", "-", "*"])
def test_float_arithmetic_is_rounded_once(dtype, op):
    x, y = patterns(dtype, 1), patterns(dtype, 2)
    out = np.zeros(32, dtype)
    run(binary, (x, y, out), op=op)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, OPERATORS[op](x, y))


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("op", ["//", "%"])
def test_division_of_variables_rounds_down(dtype, op):
    x, y = patterns(dtype, 1), patterns(dtype, 2)
    y[y == 0] = 5
    if np.dtype(dtype).kind == "i":
        y[y == -1] = -3  # the smallest integer divided by -1 has no quotient
    out = np.zeros(32, dtype)
    run(binary, (x, y, out), op=op)
    np.testing.assert_array_equal(out, OPERATORS[op](x, y))


@settings(max_examples=40, deadline=None)
@given(
    dtype=st.sampled_from([np.int32, np.uint32]),
    op=st.sampled_from(["//", "%"]),
    divisor=st.one_of(
        st.integers(1, 50), st.integers(1, 2**31 - 1), st.sampled_from([-1, -3, -8, 641, 2**20, 2**31 - 1])
    ),
    seed=st.integers(0, 1000),
)
def test_division_by_constants_rounds_down(dtype, op, divisor, seed):
    if dtype is np.uint32:
        divisor = abs(divisor)
    x = patterns(dtype, seed)
    if divisor == -1:
        x[x == np.iinfo(dtype).min] = 0
    out = np.zeros(32, dtype)
    run(with_constant, (x, out), op=op, constant=divisor)
    np.testing.assert_array_equal(out, OPERATORS[op](x, dtype(divisor)))


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("op", ["<<", ">>"])
@pytest.mark.parametrize("amount", [0, 1, 5, 31])
def test_shifts_by_constants(dtype, op, amount):
    x = patterns(dtype, 3)
    out = np.zeros(32, dtype)
    run(with_constant, (x, out), op=op, constant=amount)
    np.testing.assert_array_equal(out, OPERATORS[op](x, dtype(amount)))


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("op", ["<<", ">>"])
def test_shifts_by_variables(dtype, op):
    bits = np.dtype(dtype).itemsize * 8
    x, y = patterns(dtype, 3), np.arange(32, dtype=np.int32) * (bits // 32)
    out = np.zeros(32, dtype)
    run(binary, (x, y, out), op=op)
    np.testing.assert_array_equal(out, OPERATORS[op](x, y.astype(dtype)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_true_division_is_correctly_rounded(dtype):
    rng = np.random.default_rng(4)
    x, y = (rng.standard_normal((2, 32)) * 10.0 ** rng.integers(-30, 30, (2, 32))).astype(dtype)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, np.finfo(dtype).max, np.finfo(dtype).tiny]
    x[:8], y[:8] = special, special[3:] + special[:3]
    out = np.zeros(32, dtype)
    run(binary, (x, y, out), op="/")
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, x / y)


@pytest.mark.parametrize("divisor", [3.0, 10.0, 0.1, -7.5, 2.0, 1e30])
def test_true_division_by_a_constant_is_correctly_rounded(divisor):
    x = patterns(np.float32, 5)
    out = np.zeros(32, np.float32)
    run(with_constant, (x, out), op="/", constant=divisor)
    np.testing.assert_array_equal(out, x / np.float32(divisor))


def test_true_division_of_integers_gives_floats():
    x, y = np.arange(32, dtype=np.int32), np.arange(1, 33, dtype=np.int32)
    out = np.zeros(32, np.float32)
    run(binary, (x, y, out), op="/")
    np.testing.assert_array_equal(out, x.astype(np.float32) / y.astype(np.float32))


@sim.kernel
def convert(k, x, out):
    i = k.thread_idx.x
    out[i] = x[i].astype(out.dtype)


TYPES = (
    np.int8,
    np.uint8,
    np.int16,
    np.uint16,
    np.int32,
    np.uint32,
    np.int64,
    np.uint64,
    np.float16,
    np.float32,
    np.float64,
)


@pytest.mark.parametrize("source", TYPES)
@pytest.mark.parametrize("target", TYPES)
def test_conversions(source, target):
    if np.dtype(source).kind == "f" and np.dtype(target).kind in "iu":
        x = np.linspace(0, 120, 32).astype(source)  # in range of all: out of range they saturate, NumPy does not
    else:
        x = patterns(source, 6)
    out = np.zeros(32, target)
    run(convert, (x, out))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, x.astype(target))


def test_float_to_integer_saturates():
    x = np.full(32, 3e9, np.float32)
    x[1], x[2], x[3] = -3e9, np.nan, -1.7
    out = np.zeros(32, np.int32)
    run(convert, (x, out))
    assert out[:4].tolist() == [2**31 - 1, -(2**31), 0, -1]


@sim.kernel
def mixed(k, i32, u32, f32, f64, out):
    i = k.thread_idx.x
    out[i] = i32[i] * f32[i] + u32[i] * f64[i]


def test_mixed_types_promote_as_in_c():
    i32, u32 = np.arange(32, dtype=np.int32) - 9, np.arange(32, dtype=np.uint32)
    f32, f64 = np.linspace(0, 1, 32, dtype=np.float32), np.linspace(2, 3, 32)
    out = np.zeros(32)
    run(mixed, (i32, u32, f32, f64, out))
    np.testing.assert_allclose(out, (i32.astype(np.float32) * f32).astype(np.float64) + u32 * f64, rtol=1e-15)


@sim.kernel
def contracted(k, x, y, z, out):
    i = k.thread_idx.x
    out[i] = x[i] * y[i] + z[i]


def test_a_product_in_a_sum_becomes_one_multiply_add():
    x, y, z = (patterns(np.float32, s) for s in (1, 2, 3))
    out = np.zeros(32, np.float32)
    program = run(contracted, (x, y, z, out))
    texts = [i.text for i in program.instructions]
    assert "FFMA" in texts and "FMUL" not in texts and "FADD" not in texts
    exact = x.astype(np.float64) * y + z
    np.testing.assert_allclose(out, exact.astype(np.float32), rtol=2e-7)


@sim.kernel
def not_contracted(k, x, y, z, out):
    i = k.thread_idx.x
    out[i] = k.mul(x[i], y[i]) + z[i]


def test_mul_stays_a_product_of_its_own():
    rng = np.random.default_rng(11)
    x, y, z = rng.standard_normal((3, 32)).astype(np.float32)
    out = np.zeros(32, np.float32)
    run(not_contracted, (x, y, z, out))
    np.testing.assert_array_equal(out, x * y + z)


@sim.kernel
def bits(k, x, out):
    i = k.thread_idx.x
    v = x[i]
    out[i] = (k.popc(v) << 16) | (k.clz(v) << 8) | (k.brev(v).view(np.uint32) >> 24).astype(np.int32)


def test_bit_counts():
    x = patterns(np.uint32, 8)
    out = np.zeros(32, np.int32)
    run(bits, (x, out))
    for v, got in zip(x.tolist(), out.tolist(), strict=True):
        reverse = int(f"{v:032b}"[::-1], 2) >> 24
        assert got == (v.bit_count() << 16 | (32 - v.bit_length()) << 8 | reverse)


@sim.kernel
def minmax(k, x, y, out):
    i = k.thread_idx.x
    out[i] = k.max(k.min(x[i], y[i]), k.abs(x[i]) - abs(y[i]))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64, np.float16])
def test_minimum_maximum_and_absolute_value(dtype):
    x, y = patterns(dtype, 1), patterns(dtype, 2)
    if np.dtype(dtype).kind == "i":
        x, y = x // 4, y // 4
    out = np.zeros(32, dtype)
    run(minmax, (x, y, out))
    np.testing.assert_array_equal(out, np.maximum(np.minimum(x, y), np.abs(x) - np.abs(y)))


@sim.kernel
def scalars(k, a, b, c, d, out):
    out[k.thread_idx.x] = a + b * c - d


def test_scalar_arguments_keep_their_types():
    out = np.zeros(32)
    program = run(scalars, (np.int8(-3), 2.5, np.float64(0.1), np.uint16(7), out))
    assert [p.dtype.name for p in program.params] == ["int8", "float32", "float64", "uint16", "float64"]
    np.testing.assert_allclose(out, -3 + 2.5 * 0.1 - 7, rtol=1e-15)


def test_a_python_integer_beyond_int32_is_int64():
    out = np.zeros(32, np.int64)
    program = run(scalars, (1 << 40, 3, 2, 1, out))
    assert program.params[0].dtype == np.int64
    assert out[0] == (1 << 40) + 5


@sim.kernel
def powers(k, x, out):
    i = k.thread_idx.x
    out[i] = x[i] ** 3 + x[i] ** -1 + x[i] ** 0


def test_whole_powers():
    x = np.linspace(1, 2, 32, dtype=np.float32)
    out = np.zeros(32, np.float32)
    run(powers, (x, out))
    np.testing.assert_allclose(out, x**3 + 1 / x + 1, rtol=1e-6)


@sim.kernel
def truncating(k, x, y, q, r):
    i = k.thread_idx.x
    q[i], r[i] = k.divmod_truncating(x[i], y[i])


def test_truncating_division_is_c():
    x = patterns(np.int32, 9)
    y = np.where(np.arange(32) % 2, 7, -7).astype(np.int32)
    q, r = np.zeros(32, np.int32), np.zeros(32, np.int32)
    run(truncating, (x, y, q, r))
    want = np.trunc(x.astype(np.float64) / y).astype(np.int64)
    np.testing.assert_array_equal(q, want)
    np.testing.assert_array_equal(r, x - want * y)
