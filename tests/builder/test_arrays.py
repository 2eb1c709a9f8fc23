"""Do arrays load and store what they should, with the instructions a compiler would use?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ml_dtypes import bfloat16

import sim
from tests.builder.run import count, run


@sim.kernel
def copy_2d(k, x, y, rows, columns):
    i, j = k.thread_idx.y, k.thread_idx.x
    with k.if_((i < rows) & (j < columns)):
        y[j, i] = x[i, j]


def test_two_dimensions_are_row_major():
    x = np.arange(35, dtype=np.float32).reshape(5, 7)
    y = np.zeros((7, 5), np.float32)
    run(copy_2d, (x, y, 5, 7), block=(8, 8))
    np.testing.assert_array_equal(y, x.T)


@sim.kernel
def copy_3d(k, x, y):
    i, j, m = k.thread_idx.z, k.thread_idx.y, k.thread_idx.x
    y[m, j, i] = x[i, j, m]


def test_three_dimensions_are_row_major():
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    y = np.zeros((4, 3, 2), np.int32)
    run(copy_3d, (x, y), block=(4, 3, 2))
    np.testing.assert_array_equal(y, x.transpose(2, 1, 0))


@sim.kernel
def shapes(k, x, out):
    out[k.thread_idx.x] = x.shape[1] * 100 + x.shape[2] if False else x.ndim


def test_extents_follow_all_parameters():
    program = copy_2d.build_for((np.zeros((5, 7), np.float32), np.zeros((7, 5), np.float32), 5, 7))
    assert [(p.name, p.offset, p.extent_offsets) for p in program.params] == [
        ("x", 0, (24,)), ("y", 8, (28,)), ("rows", 16, ()), ("columns", 20, ()),
    ]  # fmt: skip
    assert program.param_bytes == 32


DTYPES = (
    np.int8,
    np.uint8,
    np.int16,
    np.uint16,
    np.int32,
    np.uint32,
    np.int64,
    np.float16,
    bfloat16,
    np.float32,
    np.float64,
)


@sim.kernel
def copy(k, x, y):
    i = k.thread_idx.x
    y[i] = x[i]


@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_of_every_type(dtype):
    x = (np.arange(32) * 3 - 40).astype(dtype)
    y = np.zeros(32, dtype)
    run(copy, (x, y))
    np.testing.assert_array_equal(y, x)


@sim.kernel
def copy_vectors(k, x, y, *, width):
    i = k.thread_idx.x * width
    y.store(i, x.load(i, width=width))


@pytest.mark.parametrize(
    ("dtype", "width", "load"),
    [
        (np.float32, 2, "LDG.E.64"), (np.float32, 4, "LDG.E.128"), (np.int32, 4, "LDG.E.128"),
        (np.float64, 2, "LDG.E.128"),
        (np.float16, 2, "LDG.E"), (np.float16, 8, "LDG.E.128"), (bfloat16, 4, "LDG.E.64"),
    ],
)  # fmt: skip
def test_vectors_take_one_instruction(dtype, width, load):
    x = (np.arange(32 * width) * 3 - 40).astype(dtype)
    y = np.zeros(32 * width, dtype)
    program = run(copy_vectors, (x, y), width=width)
    np.testing.assert_array_equal(y, x)
    assert [i.text for i in program.instructions if i.text.startswith("LDG")] == [load]
    assert count(program, "STG") == 1


@sim.kernel
def add_vectors(k, x, y):
    i = k.thread_idx.x * 4
    a, b, c, d = x.load(i, width=4)
    y.store(i, (d, a + b, c, 1.0))


def test_vector_elements_can_be_rearranged():
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    run(add_vectors, (x, y))
    v = x.reshape(32, 4)
    np.testing.assert_array_equal(y.reshape(32, 4), np.stack([v[:, 3], v[:, 0] + v[:, 1], v[:, 2], np.ones(32)], 1))


@sim.kernel
def guarded_vectors(k, x, y, n):
    i = k.thread_idx.x
    y.store(4 * i, x.load(4 * i, width=4, where=i < n, otherwise=-1))


def test_a_guarded_vector_load_is_one_guarded_instruction():
    x, y = np.arange(40, dtype=np.float32), np.zeros(128, np.float32)
    program = run(guarded_vectors, (x, y, 10))
    np.testing.assert_array_equal(y, np.concatenate([x, np.full(88, -1)]))
    (load,) = [i for i in program.instructions if i.text.startswith("LDG")]
    assert load.guard != 7 and count(program, "BRA") == 0


@sim.kernel
def guarded(k, x, y, n):
    i = k.thread_idx.x
    y[i] = x.load(i, where=i < n, otherwise=9)


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.int64, np.float16])
def test_threads_outside_a_guard_load_nothing(dtype):
    x, y = np.arange(5).astype(dtype), np.zeros(32, dtype)
    run(guarded, (x, y, 5))
    np.testing.assert_array_equal(y, np.concatenate([x, np.full(27, 9, dtype)]))


@sim.kernel
def neighbours(k, x, y, n):
    i = k.thread_idx.x + 1
    y[i] = x[i - 1] + 10 * x[i] + 100 * x[i + 1]


def test_constant_distances_are_immediate_offsets():
    x, y = np.arange(34, dtype=np.float32), np.zeros(34, np.float32)
    program = run(neighbours, (x, y, 34))
    np.testing.assert_array_equal(y[1:33], x[:32] + 10 * x[1:33] + 100 * x[2:])
    assert sorted(i.y for i in program.instructions if i.text.startswith("LDG")) == [0, 4, 8]
    assert count(program, "IMAD.WIDE") == 2


@sim.kernel
def row_sums(k, x, y, n):
    r = k.thread_idx.x
    s = k.var(0.0)
    for j in k.range_(n):
        s += x[r, j]
    y[r] = s


def test_a_pointer_walks_along_a_row():
    x, y = np.arange(32 * 37, dtype=np.float32).reshape(32, 37), np.zeros(32, np.float32)
    program = run(row_sums, (x, y, 37))
    np.testing.assert_array_equal(y, x.sum(1))
    loads = [i for i in program.instructions if i.text == "LDG.E"]
    assert {i.y for i in loads[:16]} == set(range(0, 64, 4))  # the first sixteen share a pointer


@sim.kernel
def column_sums(k, x, y, n):
    c = k.thread_idx.x
    s = k.var(0.0)
    for j in k.range_(n):
        s += x[j, c]
    y[c] = s


def test_a_pointer_walks_down_a_column():
    x, y = np.arange(32 * 37, dtype=np.float32).reshape(37, 32), np.zeros(32, np.float32)
    run(column_sums, (x, y, 37))
    np.testing.assert_array_equal(y, x.sum(0))


@settings(max_examples=30, deadline=None)
@given(
    a=st.integers(-3, 3), b=st.integers(0, 5), c=st.integers(0, 40), start=st.integers(0, 3), trips=st.integers(0, 21)
)
def test_linear_indices_in_loops(a, b, c, start, trips):
    x = np.arange(2000, dtype=np.int32)
    out = np.zeros(32, np.int32)
    run(linear, (x, out, start, start + trips), a=a, b=b, c=c)
    t = np.arange(32)
    np.testing.assert_array_equal(
        out, sum((x[500 + a * i + b * t + c] for i in range(start, start + trips)), np.zeros(32, int))
    )


@sim.kernel
def linear(k, x, out, start, stop, *, a, b, c):
    t = k.thread_idx.x
    total = k.var(0)
    for i in k.range_(start, stop):
        total += x[500 + a * i + b * t + c]
    out[t] = total


@sim.kernel
def nested(k, x, out, n, m):
    t = k.thread_idx.x
    total = k.var(0)
    for i in k.range_(n):
        for j in k.range_(m):
            total += x[(i * m + j) * 32 + t]
        total += x[i]
    out[t] = total


@pytest.mark.parametrize(("n", "m"), [(0, 3), (3, 0), (1, 1), (5, 7), (18, 17)])
def test_nested_loops(n, m):
    x, out = np.arange(20000, dtype=np.int32), np.zeros(32, np.int32)
    run(nested, (x, out, n, m))
    t = np.arange(32)
    want = sum((x[(i * m + j) * 32 + t] for i in range(n) for j in range(m)), np.zeros(32, int)) + x[:n].sum()
    np.testing.assert_array_equal(out, want)


@sim.kernel
def shared_rows(k, x, out):
    a = k.shared((32, 4), np.float32)
    t = k.thread_idx.x
    for j in range(4):
        a[t, j] = x[t * 4 + j]
    k.syncthreads()
    row = 31 - t
    out[t] = a[row, 0] + 10 * a[row, 1] + 100 * a[row, 2] + 1000 * a[row, 3]


def test_aligned_shared_loads_are_merged():
    x, out = np.arange(128, dtype=np.float32), np.zeros(32, np.float32)
    program = run(shared_rows, (x, out))
    v = x.reshape(32, 4)[::-1]
    np.testing.assert_array_equal(out, v @ np.array([1, 10, 100, 1000]))
    assert [i.text for i in program.instructions if i.text.startswith("LDS")] == ["LDS.128"]
    assert program.shared_static_bytes == 512


@sim.kernel
def odd_rows(k, x, out):
    a = k.shared((32, 5), np.float32)
    t = k.thread_idx.x
    for j in range(5):
        a[t, j] = x[t * 5 + j]
    k.syncthreads()
    out[t] = a[31 - t, 0] + a[31 - t, 1]


def test_shared_loads_that_may_be_misaligned_stay_apart():
    x, out = np.arange(160, dtype=np.float32), np.zeros(32, np.float32)
    program = run(odd_rows, (x, out))
    np.testing.assert_array_equal(out, (x[0::5] + x[1::5])[::-1])
    assert count(program, "LDS.64") == 0


@sim.kernel
def two_shared(k, out):
    a, b, c = k.shared(3, np.uint8), k.shared((2, 2), np.float64), k.shared(4, np.int16)
    t = k.thread_idx.x
    with k.if_(t == 0):
        a[2], b[1, 0], c[3] = 200, 0.5, -7
    k.syncthreads()
    out[t] = a[2].astype(np.float32) + b[1, 0].astype(np.float32) + c[3].astype(np.float32)


def test_shared_arrays_of_several_types():
    out = np.zeros(32, np.float32)
    program = run(two_shared, (out,))
    assert out.tolist() == [193.5] * 32
    assert program.shared_static_bytes == 16 + 32 + 8


@sim.kernel
def dynamic(k, out):
    first = k.shared(4, np.int32)
    rest = k.shared_dynamic(np.int32)
    t = k.thread_idx.x
    first[t & 3] = 1000
    rest[t] = t * 2
    k.syncthreads()
    out[t] = rest[31 - t] + first[0]


def test_dynamic_shared_memory_follows_the_static_arrays():
    out = np.zeros(32, np.int32)
    run(dynamic, (out,), shared_bytes=128)
    assert out.tolist() == [1000 + 2 * (31 - t) for t in range(32)]


@sim.kernel
def reinterpret(k, x, out):
    t = k.thread_idx.x
    words = x.view(np.uint32)
    out[t] = words[t] >> 23


def test_views_reinterpret_bytes():
    x, out = np.arange(1, 33, dtype=np.float32), np.zeros(32, np.uint32)
    run(reinterpret, (x, out))
    np.testing.assert_array_equal(out, x.view(np.uint32) >> 23)


@sim.kernel
def wide_index(k, x, out, stride):
    t = k.thread_idx.x
    out[t] = x[t.astype(np.int64) * stride]


def test_64_bit_indices():
    x, out = np.arange(200, dtype=np.float32), np.zeros(32, np.float32)
    run(wide_index, (x, out, 6))
    np.testing.assert_array_equal(out, x[:192:6])


@sim.kernel
def stores_between(k, x, out):
    t = k.thread_idx.x
    a = x[t]
    x[t] = a + 1
    b = x[t]
    x[t] = b * 2
    out[t] = a + b + x[t]


def test_loads_see_earlier_stores():
    x, out = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    run(stores_between, (x, out))
    t = np.arange(32)
    np.testing.assert_array_equal(out, t + (t + 1) + 2 * (t + 1))


@sim.kernel
def nested_copies(k, a, out, n, m):
    i = k.thread_idx.x
    s = k.shared(64, np.float32)
    s[i] = -1.0
    k.syncthreads()
    with k.if_(i < n):
        with k.if_(i > m):
            k.async_copy(s, i, a, 3 * i + 5, bytes=4, pred=(i & 1) == 0)
        with k.if_(i == m):
            k.async_copy(s, i, a, 3 * i + 6, bytes=4, pred=(i & 1) == 0)
    with k.else_():
        with k.if_(i > m + 3):
            k.async_copy(s, i, a, 3 * i + 7, bytes=4, pred=(i & 4) == 0)
    k.async_commit()
    k.async_wait(0)
    k.syncthreads()
    out[i] = s[i]


@pytest.mark.parametrize(("n", "m"), [(40, 10), (64, 0), (20, 19), (30, 40)])
def test_asynchronous_copies_under_conditions_inside_conditions(n, m):
    a, out, i = np.arange(1, 301, dtype=np.float32), np.zeros(64, np.float32), np.arange(64)
    run(nested_copies, (a, out, n, m), block=64)
    even = i % 2 == 0
    expected = np.full(64, -1, np.float32)
    for chosen, at, copied in (
        ((i < n) & (i > m), 3 * i + 5, even),
        ((i < n) & (i == m), 3 * i + 6, even),
        ((i >= n) & (i > m + 3), 3 * i + 7, (i & 4) == 0),
    ):
        expected[chosen] = np.where(copied, a[at], 0)[chosen]
    np.testing.assert_array_equal(out, expected)


@sim.kernel
def running_sums(k, x, y, *, length, dtype):
    first, sums = k.local(3, np.int32), k.local((length, 2), dtype)
    t = k.thread_idx.x
    first[1] = 7 + t
    total = k.var(0, dtype)
    for i in k.range_(length, unroll=1):
        total += x[t, i]
        sums[i, i & 1] = total
    for i in k.range_(length, unroll=1):
        y[t, i] = sums[length - 1 - i, (length - 1 - i) & 1] + first[1].astype(dtype)


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.float64, np.int16])
def test_a_local_array_is_the_threads_own(dtype):
    x = np.arange(320).reshape(64, 5).astype(dtype)
    y = np.zeros_like(x)
    program = run(running_sums, (x, y), block=64, length=5, dtype=dtype)
    np.testing.assert_array_equal(y, np.cumsum(x, axis=1)[:, ::-1] + (7 + np.arange(64))[:, None])
    assert program.local_bytes >= 16 + 10 * np.dtype(dtype).itemsize
    assert count(program, "LDL") and count(program, "STL")


@sim.kernel
def beside_spills(k, x, n, *, live):
    kept = k.local(4, np.int32)
    for j in range(4):
        kept[j] = 100 + j
    values = [k.var(x[j]) for j in range(live)]
    for _ in k.range_(n, unroll=1):
        for j in range(live):
            values[j].set(values[j] + values[(j + 1) % live] * 3)
    for j in range(live):
        x[j] = values[j] + kept[j % 4]


def test_local_arrays_lie_before_what_registers_do_not_hold():
    x = np.ones(300, np.int32)
    program = run(beside_spills, (x, 0), block=1, live=300)
    np.testing.assert_array_equal(x, 101 + np.arange(300) % 4)
    assert program.local_bytes > 4 * (300 - 255)
