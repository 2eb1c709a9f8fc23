"""Shuffles, votes, atomics and barriers of a warp."""

from __future__ import annotations

import numpy as np
import pytest

import sim
from tests.builder.run import count, run

LANES = np.arange(32)


@sim.kernel
def shuffles(k, x, out):
    t = k.thread_idx.x
    v = x[t]
    out[0, t] = k.shfl(v, 5)
    out[1, t] = k.shfl_up(v, 3)
    out[2, t] = k.shfl_down(v, 3)
    out[3, t] = k.shfl_xor(v, 9)
    out[4, t] = k.shfl_down(v, 1, width=8)
    out[5, t] = k.shfl(v, t + 1)


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.int64, np.float64, np.float16])
def test_shuffles(dtype):
    x, out = (LANES * 7 - 50).astype(dtype), np.zeros((6, 32), dtype)
    run(shuffles, (x, out))
    sources = [
        np.full(32, 5), np.where(LANES >= 3, LANES - 3, LANES), np.where(LANES < 29, LANES + 3, LANES), LANES ^ 9,
        np.where(LANES % 8 < 7, LANES + 1, LANES), (LANES + 1) % 32,
    ]  # fmt: skip
    np.testing.assert_array_equal(out, x[np.array(sources)])


@sim.kernel
def votes(k, x, out):
    t = k.thread_idx.x
    out[0, t] = k.ballot(x[t] > 10)
    out[1, t] = k.select(k.any_(x[t] > 30), 1, 0).astype(np.uint32)
    out[2, t] = k.select(k.all_(x[t] >= 0), 1, 0).astype(np.uint32)
    with k.if_(t < 20):
        k.syncwarp(0xFFFFF)
        out[3, t] = k.ballot(x[t] > 10)


def test_votes_of_active_lanes():
    x, out = LANES.astype(np.int32), np.zeros((4, 32), np.uint32)
    run(votes, (x, out))
    above = int(sum(1 << v for v in range(11, 32)))
    assert set(out[0]) == {above} and set(out[1]) == {1} and set(out[2]) == {1}
    assert set(out[3, :20]) == {above & 0xFFFFF} and set(out[3, 20:]) == {0}


@sim.kernel
def places(k, out):
    t = k.thread_idx.y * k.block_dim.x + k.thread_idx.x
    out[t] = k.warp_id * 100 + k.lane_id


def test_lane_and_warp_numbers():
    out = np.zeros(96, np.int32)
    run(places, (out,), block=(8, 12))
    assert out.tolist() == [t // 32 * 100 + t % 32 for t in range(96)]


@sim.kernel
def atomics(k, x, *, operation):
    t = k.thread_idx.x
    getattr(k, "atomic_" + operation)(x, t % 4, t + 5)


FOLD = {
    "add": np.add.reduce, "min": np.minimum.reduce, "max": np.maximum.reduce, "and": np.bitwise_and.reduce,
    "or": np.bitwise_or.reduce, "xor": np.bitwise_xor.reduce,
}  # fmt: skip


@pytest.mark.parametrize("operation", FOLD)
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
def test_reductions_in_memory(operation, dtype):
    x = np.array([100, 3, 2**20 + 1, 9], dtype)
    start = x.copy()
    program = run(atomics, (x,), operation=operation)
    for j in range(4):
        want = FOLD[operation](np.concatenate([[start[j]], (LANES[j::4] + 5).astype(dtype)]))
        assert x[j] == want
    assert count(program, "REDG") == 1 and count(program, "ATOMG") == 0


@sim.kernel
def tickets(k, counter, out):
    t = k.thread_idx.x
    out[k.atomic_add(counter, 0, 1)] = t


def test_the_old_value_comes_back_when_it_is_used():
    counter, out = np.zeros(1, np.int32), np.full(32, -1, np.int32)
    program = run(tickets, (counter, out))
    assert counter[0] == 32 and sorted(out.tolist()) == LANES.tolist()
    assert count(program, "ATOMG") == 1


@sim.kernel
def shared_histogram(k, x, out):
    h = k.shared(8, np.int32)
    t = k.thread_idx.x
    with k.if_(t < 8):
        h[t] = 0
    k.syncthreads()
    k.atomic_add(h, x[t], 1)
    k.syncthreads()
    with k.if_(t < 8):
        out[t] = h[t]


def test_shared_atomics():
    x, out = np.random.default_rng(3).integers(0, 8, 64).astype(np.int32), np.zeros(8, np.int32)
    run(shared_histogram, (x, out), block=64)
    np.testing.assert_array_equal(out, np.bincount(x, minlength=8))


@sim.kernel
def float_sum(k, x, out):
    k.atomic_add(out, 0, x[k.thread_idx.x])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float_atomics(dtype):
    x, out = np.arange(32).astype(dtype), np.zeros(1, dtype)
    run(float_sum, (x, out))
    assert out[0] == 496


@sim.kernel
def lock_free_maximum(k, x, out):
    t = k.thread_idx.x
    old = k.var(out[0])
    with k.while_(lambda: old < x[t]):
        seen = k.atomic_cas(out, 0, old, x[t])
        old.set(k.select(seen == old, x[t], seen))


def test_compare_and_swap():
    x, out = np.random.default_rng(4).permutation(32).astype(np.int32), np.zeros(1, np.int32)
    run(lock_free_maximum, (x, out))
    assert out[0] == 31


@sim.kernel
def exchange(k, x, out):
    t = k.thread_idx.x
    out[t] = k.atomic_exch(x, 0, t.astype(np.float32))


def test_exchange():
    x, out = np.array([-1.0], np.float32), np.zeros(32, np.float32)
    run(exchange, (x, out))
    assert sorted([*out.tolist(), x[0]]) == [-1.0, *range(32)]
