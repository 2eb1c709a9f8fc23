"""Does control flow do what Python's would, thread by thread?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim
from tests.builder.run import count, run


@sim.kernel
def classify(k, x, out):
    i = k.thread_idx.x
    kind = k.var(0)
    with k.if_(x[i] < 0):
        kind.set(1)
    with k.elif_(x[i] == 0):
        kind.set(2)
        kind += 40
    with k.elif_(x[i] < 5):
        with k.if_(x[i] == 3):
            kind.set(33)
        with k.else_():
            kind.set(3)
    with k.else_():
        kind.set(4)
    out[i] = kind


def test_a_chain_of_conditions_takes_the_first_that_holds():
    x = np.arange(32, dtype=np.int32) - 8
    out = np.zeros(32, np.int32)
    run(classify, (x, out))
    want = [1 if v < 0 else 42 if v == 0 else 33 if v == 3 else 3 if v < 5 else 4 for v in x.tolist()]
    assert out.tolist() == want


@sim.kernel
def counted(k, out, a, b, *, step, unroll):
    total = k.var(0)
    rounds = k.var(0)
    for i in k.range_(a, b, step, unroll=unroll):
        total += i * i + k.thread_idx.x
        rounds += 1
    out[0, k.thread_idx.x] = total
    out[1, k.thread_idx.x] = rounds


@settings(max_examples=50, deadline=None)
@given(
    a=st.integers(-40, 40), b=st.integers(-40, 90), step=st.sampled_from([1, 2, 3, 7, 32, -1, -2, -5]),
    unroll=st.sampled_from([None, None, 1, 2, 3, 4, 8, True]),
)  # fmt: skip
def test_loops_with_bounds_known_at_run_time(a, b, step, unroll):
    out = np.full((2, 32), -1, np.int32)
    run(counted, (out, a, b), step=step, unroll=unroll)
    for t in (0, 31):
        assert out[:, t].tolist() == [sum(i * i + t for i in range(a, b, step)), len(range(a, b, step))]


@sim.kernel
def counted_constant(k, out, *, a, b, step, unroll):
    total = k.var(0)
    for i in k.range_(a, b, step, unroll=unroll):
        total += i * i + k.thread_idx.x
    out[k.thread_idx.x] = total


@settings(max_examples=30, deadline=None)
@given(
    a=st.integers(-40, 40), b=st.integers(-40, 200), step=st.sampled_from([1, 2, 3, 7, -1, -5]),
    unroll=st.sampled_from([None, None, 1, 3, 4, True]),
)  # fmt: skip
def test_loops_with_constant_bounds(a, b, step, unroll):
    out = np.full(32, -1, np.int32)
    run(counted_constant, (out,), a=a, b=b, step=step, unroll=unroll)
    assert out[5] == sum(i * i + 5 for i in range(a, b, step))


@sim.kernel
def divergent_trips(k, trips, out):
    i = k.thread_idx.x
    v = k.var(1)
    for j in k.range_(trips[i]):
        v.set((v * 3 + j) & 0xFFFF)
    out[i] = v


def test_each_thread_makes_its_own_number_of_rounds():
    trips = np.random.default_rng(0).integers(-2, 70, 32).astype(np.int32)
    out = np.zeros(32, np.int32)
    run(divergent_trips, (trips, out))
    for t, got in zip(trips.tolist(), out.tolist(), strict=True):
        v = 1
        for j in range(t):
            v = (v * 3 + j) & 0xFFFF
        assert got == v


@sim.kernel
def collatz(k, x, out):
    i = k.thread_idx.x
    v, steps = k.var(x[i]), k.var(0)
    with k.while_(lambda: v != 1):
        with k.if_((v & 1) == 0):
            v //= 2
        with k.else_():
            v.set(3 * v + 1)
        steps += 1
    out[i] = steps


def test_while_loops():
    x = np.arange(1, 33, dtype=np.int32)
    out = np.zeros(32, np.int32)
    run(collatz, (x, out))

    def steps(v):
        return 0 if v == 1 else 1 + steps(v // 2 if v % 2 == 0 else 3 * v + 1)

    assert out.tolist() == [steps(v) for v in x.tolist()]


@sim.kernel
def early_return(k, x, out):
    i = k.thread_idx.x
    with k.if_(x[i] < 0):
        k.return_()
    with k.if_(x[i] > 10):
        out[i] = 100
        k.return_()
    for j in k.range_(5):
        with k.if_(x[i] == j):
            out[i] = -j
            k.return_()
    out[i] = x[i]


def test_threads_that_return_do_no_more():
    x = np.arange(32, dtype=np.int32) - 10
    out = np.full(32, 7, np.int32)
    run(early_return, (x, out))
    assert out.tolist() == [7 if v < 0 else 100 if v > 10 else -v if v < 5 else v for v in x.tolist()]


@sim.kernel
def rotate(k, out, n):
    a, b, c = k.var(1), k.var(2), k.var(3)
    for i in k.range_(n, unroll=1):
        keep = a.get()
        a.set(b)
        b.set(c)
        c.set(keep)
        out[i] = a * 100 + b * 10 + c


def test_variables_that_take_each_others_values():
    out = np.zeros(6, np.int32)
    run(rotate, (out, 6), block=1)
    assert out.tolist() == [231, 312, 123, 231, 312, 123]


@sim.kernel
def flags(k, x, out):
    i = k.thread_idx.x
    seen = k.var(False)
    for j in k.range_(4, unroll=1):
        with k.if_(x[i] == j):
            seen.set(True)
    out[i] = k.select(seen, 1, 0)


def test_variables_may_hold_conditions():
    x = np.arange(32, dtype=np.int32)
    out = np.zeros(32, np.int32)
    run(flags, (x, out))
    assert out.tolist() == [1] * 4 + [0] * 28


@sim.kernel
def many_conditions(k, x, out):
    i = k.thread_idx.x
    v = x[i]
    conditions = [v > 3 * j for j in range(12)]
    total = k.var(0)
    k.syncthreads()
    for c in conditions:
        with k.if_(c):
            total.set(total * 2 + 1)
    for c in conditions:
        total += k.select(c, 1, 0)
    out[i] = total


def test_more_conditions_than_predicates():
    x = np.arange(32, dtype=np.int32)
    out = np.zeros(32, np.int32)
    run(many_conditions, (x, out))
    for v, got in zip(x.tolist(), out.tolist(), strict=True):
        total = 0
        for j in range(12):
            if v > 3 * j:
                total = total * 2 + 1
        assert got == total + sum(v > 3 * j for j in range(12))


@sim.kernel
def whole_block(k, x, y, n):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        y[i] = x[i]


def test_a_condition_around_the_rest_is_an_exit():
    program = whole_block.build_for((np.zeros(1, np.float32), np.zeros(1, np.float32), 1))
    assert [i.guard for i in program.instructions if i.text == "EXIT"] == [16, 7]  # @!P0, then all
    assert count(program, "BSSY") == 0


@sim.kernel
def two_ways(k, x, y, n, *, divergent):
    i = k.thread_idx.x
    condition = (i < n) if divergent else (k.block_idx.x < n)
    v = k.var(0.0)
    with k.if_(condition):
        for j in k.range_(100, unroll=1):
            v += x[j]
    with k.else_():
        for j in k.range_(100, unroll=1):
            v -= x[j]
    y[i] = v


@pytest.mark.parametrize("divergent", [True, False])
def test_only_divergent_ways_need_a_convergence_barrier(divergent):
    x, y = np.ones(100, np.float32), np.zeros(32, np.float32)
    program = run(two_ways, (x, y, 7), divergent=divergent)
    assert count(program, "BSSY") == count(program, "BSYNC") == int(divergent)
    assert y.tolist() == ([100.0] * 7 + [-100.0] * 25 if divergent else [100.0] * 32)


@sim.kernel
def short_way(k, x, y):
    i = k.thread_idx.x
    v = x[i]
    with k.if_(v > 0.5):
        y[i] = v * 2 + 1


def test_a_short_way_is_guarded_not_branched_around():
    x, y = np.linspace(0, 1, 32, dtype=np.float32), np.zeros(33, np.float32)[:32]
    program = run(short_way, (x, y))
    assert count(program, "BRA") == 0
    np.testing.assert_array_equal(y, np.where(x > 0.5, x * 2 + 1, 0).astype(np.float32))


@sim.kernel
def uneven_sync(k, x, out):
    s = k.shared(64, np.int32)
    i = k.thread_idx.x
    with k.if_(i < 40):
        s[i] = x[i] * 2
    k.syncthreads()
    for d in (32, 16, 8, 4, 2, 1):
        with k.if_((i < d) & (i + d < 40)):
            s[i] += s[i + d]
        k.syncthreads()
    with k.if_(i == 0):
        out[0] = s[0]


def test_barriers_order_shared_memory():
    x, out = np.arange(64, dtype=np.int32), np.zeros(1, np.int32)
    run(uneven_sync, (x, out), block=64)
    assert out[0] == 2 * sum(range(40))


@sim.kernel
def loaded_condition(k, flag, data, out):
    i = k.thread_idx.x
    with k.if_(flag[i] > 0):
        out[i] = data[i]
    with k.elif_(lambda: flag[i] < -3):
        out[i] = -data[i]


def test_conditions_may_load():
    flag = np.arange(-8, 24, dtype=np.int32)
    data, out = np.arange(32, dtype=np.int32), np.full(32, 5, np.int32)
    run(loaded_condition, (flag, data, out))
    assert out.tolist() == [
        d if f > 0 else -d if f < -3 else 5 for f, d in zip(flag.tolist(), data.tolist(), strict=True)
    ]


@sim.kernel
def constant_conditions(k, out, *, wanted):
    i = k.thread_idx.x
    v = k.var(1)
    with k.if_(wanted):
        v.set(2)
    with k.else_():
        v.set(3)
    with k.if_(not wanted):
        v += 10
    out[i] = v


@pytest.mark.parametrize(("wanted", "value"), [(True, 2), (False, 13)])
def test_constant_conditions_leave_no_branch(wanted, value):
    out = np.zeros(32, np.int32)
    program = run(constant_conditions, (out,), wanted=wanted)
    assert out[0] == value and count(program, "BRA") == count(program, "ISETP") == 0


@sim.kernel
def changed_at_the_end(k, x, y, n):
    i = k.thread_idx.x
    v = k.var(1.0)
    with k.if_(i < n):
        v *= x[i]
        v += 2
        y[i] = v


def test_a_variable_changed_at_the_end_does_not_hinder_the_exit():
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    program = run(changed_at_the_end, (x, y, 20))
    np.testing.assert_array_equal(y, np.where(np.arange(32) < 20, x + 2, 0))
    assert count(program, "EXIT") == 2 and count(program, "BSSY") == 0


@sim.kernel
def indexed_in_two_ways(k, y, n, first):
    i = k.thread_idx.x
    at = first + ((i >> 5) + 1) * 32
    with k.if_(i < n):
        with k.if_((i & 1) == 0):
            y[at + (i & 31)] = 1
    with k.else_():
        with k.if_((i & 1) == 1):
            y[at + (i & 31) + 128] = 2


@pytest.mark.parametrize("n", [0, 50, 128])
def test_what_one_way_makes_of_an_index_is_not_there_in_the_other(n):
    y, i = np.zeros(300, np.int32), np.arange(128)
    run(indexed_in_two_ways, (y, n, 7), block=128)
    expected = np.zeros(300, np.int32)
    expected[39 + i[(i < n) & (i % 2 == 0)]] = 1
    expected[39 + 128 + i[(i >= n) & (i % 2 == 1)]] = 2
    np.testing.assert_array_equal(y, expected)
