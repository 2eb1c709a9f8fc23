"""Tensor products, matrix loads, packed halves and asynchronous copies."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

import sim
from tests.builder.run import count, run


@sim.kernel
def product_16816(k, a, b, c):
    ta, tb = k.shared((16, 24), a.dtype), k.shared((16, 24), a.dtype)
    t = k.thread_idx.x
    for j in range(16):
        with k.if_(t < 16):
            ta[j, t] = a[j, t]
            tb[j, t] = b[j, t]
    k.syncthreads()
    fa = k.ldmatrix(ta, t % 16, t // 16 * 8)
    fb = k.ldmatrix(tb, t % 16, t // 16 * 8, transposed=True)
    for half in range(2):
        result = k.mma(fa, fb[2 * half : 2 * half + 2], (1.0, 0.0, 0.0, 0.0), dtype=a.dtype)
        for e in range(4):
            c[t // 4 + 8 * (e // 2), t % 4 * 2 + e % 2 + 8 * half] = result[e]


@pytest.mark.parametrize("dtype", [np.float16, bfloat16])
def test_a_16x16x16_product(dtype):
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-4, 5, (16, 16)).astype(dtype) for _ in range(2))
    c = np.zeros((16, 16), np.float32)
    program = run(product_16816, (a, b, c))
    want = a.astype(np.float32) @ b.astype(np.float32)
    want[:8, 0::2] += 1  # element 0 of each fragment started at 1
    np.testing.assert_array_equal(c, want)
    assert count(program, "LDSM") == count(program, "HMMA.16816") == 2


@sim.kernel
def product_tf32(k, a, b, c):
    t = k.thread_idx.x
    g, q = t // 4, t % 4
    fa = (a[g, q], a[g + 8, q], a[g, q + 4], a[g + 8, q + 4])
    fb = (b[q, g], b[q + 4, g])
    result = k.mma(fa, fb, (0.0,) * 4, shape="m16n8k8", dtype="tf32")
    for e in range(4):
        c[g + 8 * (e // 2), 2 * q + e % 2] = result[e]


def test_a_tf32_product():
    rng = np.random.default_rng(6)
    a, b = rng.integers(-9, 10, (16, 8)).astype(np.float32), rng.integers(-9, 10, (8, 8)).astype(np.float32)
    c = np.zeros((16, 8), np.float32)
    run(product_tf32, (a, b, c))
    np.testing.assert_array_equal(c, a @ b)


@sim.kernel
def chained(k, a, b, c, n):
    t = k.thread_idx.x
    acc = k.vars(4)
    words_a, words_b = a.view(np.uint32), b.view(np.uint32)
    for i in k.range_(n, unroll=1):
        fa = words_a.load((i * 32 + t) * 4, width=4)
        fb = words_b.load((i * 32 + t) * 2, width=2)
        for v, new in zip(acc, k.mma(fa, fb, acc, dtype="float16"), strict=True):
            v.set(new)
    c.store(t * 4, tuple(acc))


def test_accumulators_stay_in_their_registers():
    z = np.zeros(32 * 8 * 3, np.float16)
    c = np.ones(128, np.float32)
    program = run(chained, (z, z.copy(), c, 3))
    assert not c.any()
    (tensor,) = [i for i in program.instructions if i.text.startswith("HMMA")]
    assert tensor.dst == tensor.c
    start = program.instructions.index(tensor)
    assert not any(i.text == "MOV" for i in program.instructions[start - 3 : start + 3])


@sim.kernel
def staged(k, x, y, n):
    buffer = k.shared((2, 128), np.float32)
    t = k.thread_idx.x

    def start(tile):
        at = tile * 128 + t * 4
        k.async_copy(buffer, (tile % 2, t * 4), x, at, bytes=16, pred=at < n)
        k.async_commit()

    start(k.var(0).get())
    for tile in k.range_(4, unroll=1):
        start(tile + 1)
        k.async_wait(1)
        k.syncthreads()
        for j in range(4):
            y[tile * 128 + t + 32 * j] = buffer[tile % 2, t + 32 * j] * 2
        k.syncthreads()


def test_asynchronous_copies_with_zeros_outside():
    x, y = np.arange(512, dtype=np.float32), np.full(512, -1, np.float32)
    program = run(staged, (x, y, 400))
    np.testing.assert_array_equal(y, np.where(np.arange(512) < 400, x * 2, 0))
    assert count(program, "LDGSTS") == 2 and count(program, "LDGDEPBAR") == 2 and count(program, "DEPBAR") == 1


@sim.kernel
def packs(k, x, out):
    t = k.thread_idx.x
    low, high = k.unpack(x[t], "bfloat16")
    out[t] = k.pack(high.astype(np.float32) * 2, low.astype(np.float32) + 1, np.float16)


def test_packing_halves():
    v = (np.arange(64) - 20).astype(bfloat16)
    x, out = v.view(np.uint32), np.zeros(32, np.uint32)
    run(packs, (x, out))
    got = out.view(np.float16).reshape(32, 2)
    pairs = v.astype(np.float32).reshape(32, 2)
    np.testing.assert_array_equal(got, np.stack([pairs[:, 1] * 2, pairs[:, 0] + 1], 1).astype(np.float16))


@sim.kernel
def half_arithmetic(k, x, y, out):
    i = k.thread_idx.x
    a, b = x[i], y[i]
    out[i] = k.max(a * b + a, -b) - abs(a)


@pytest.mark.parametrize("dtype", [np.float16, bfloat16])
def test_half_arithmetic_uses_the_packed_instructions(dtype):
    rng = np.random.default_rng(7)
    x, y = rng.standard_normal((2, 32)).astype(dtype)
    out = np.zeros(32, dtype)
    program = run(half_arithmetic, (x, y, out))
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
    fused = (wide_x * wide_y + wide_x).astype(dtype)
    want = (np.maximum(fused, -y).astype(np.float64) - np.abs(wide_x)).astype(dtype)
    np.testing.assert_array_equal(out, want)
    assert count(program, "HFMA2") == 1 and count(program, "F2FP") == 0


@sim.kernel
def one_left_operand_many_products(k, a, out):
    """16 x 8 sums of a 16 x 16 `a` of ones times columns, made in registers, used four times."""
    left = [k.pack(a[k.thread_idx.x], a[k.thread_idx.x], "bfloat16") for _ in range(4)]
    for j in range(4):
        right = [k.pack(float(j), float(j), "bfloat16")] * 2
        out[j * 32 + k.thread_idx.x] = k.mma(left, right, (0.0,) * 4, dtype="bfloat16")[0]


def test_a_fragment_from_registers_is_put_together_once():
    a, out = np.ones(32, np.float32), np.zeros(128, np.float32)
    program = run(one_left_operand_many_products, (a, out))
    np.testing.assert_array_equal(out.reshape(4, 32), np.repeat(16.0 * np.arange(4), 32).reshape(4, 32))
    moves = count(program, "MOV")
    assert count(program, "HMMA") == 4 and moves <= 4 + 2 * 4  # one left operand, and four right ones
