"""Warpgroup products: every type, layout and source of A against NumPy; the instructions that they become."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16, float8_e4m3fn, float8_e5m2

import sim
from sim.isa import (
    WGMMA_A_MN_MAJOR,
    WGMMA_A_REGISTERS,
    WGMMA_B_MN_MAJOR,
    WGMMA_COMMIT,
    NumberType,
    Op,
)
from sim.program import UReg
from tests.builder.run import count

M, N, K_BYTES = 64, 24, 128
ALL = [np.float16, bfloat16, np.float32, float8_e4m3fn, float8_e5m2, np.int8, np.uint8]


def operands(dtype, seed=3):
    """Small whole numbers, of which every type holds the products' sums exactly."""
    rng = np.random.default_rng(seed)
    low = 0 if dtype == np.uint8 else -4
    columns = K_BYTES // np.dtype(dtype).itemsize
    return rng.integers(low, 5, (M, columns)).astype(dtype), rng.integers(low, 5, (N, columns)).astype(dtype)


def boxes(array, rows, swizzle):
    """A tensor map whose boxes are all rows of one swizzled row's bytes."""
    return sim.tensor_map(array, (rows, (swizzle or 16) // array.dtype.itemsize), swizzle=swizzle)


def load(k, shared, tensor_map, bar):
    """All boxes of a tensor, side by side."""
    for j in range(shared.shape[0]):
        k.tma_load(shared, j, tensor_map, (0, j * shared.shape[2]), bar)


@sim.kernel
def product(k, ma, mb, a_words, c, *, majors, swizzle, sums, registers):
    item, atom = ma.dtype.bytes, swizzle or 16
    depth = K_BYTES // item
    shapes = [
        (K_BYTES // atom, rows, atom // item) if major == "k" else (rows * item // atom, depth, atom // item)
        for rows, major in zip((M, rows_of(mb, majors[1])), majors, strict=True)
    ]
    a, b = (k.shared(shape, ma.dtype, align=1024) for shape in shapes)
    bar = k.mbarriers(1)[0]
    t = k.thread_idx.x
    with k.if_(t == 0):
        bar.init(1)
        k.fence_async()
    k.syncthreads()
    with k.if_(t == 0):
        bar.arrive_expect(a.size_bytes + b.size_bytes)
        load(k, a, ma, bar)
        load(k, b, mb, bar)
    bar.wait(0)
    acc = k.wgmma_sums(N, sums)
    left = k.smem_matrix(a, major=majors[0], swizzle=swizzle)
    right = k.smem_matrix(b, major=majors[1], swizzle=swizzle)
    row = t // 32 * 16 + t % 32 // 4
    k.wgmma_fence()
    for s in range(K_BYTES // 32):
        source = left.step(s)
        if registers:
            source = [a_words[row + 8 * (j % 2), 8 * s + t % 4 + 4 * (j // 2)] for j in range(4)]
        k.wgmma(acc, source, right.step(s), add=s > 0)
    k.wgmma_commit()
    k.wgmma_wait()
    for i, value in enumerate(acc):
        c[acc.place(i)] = value


def rows_of(mb, major):
    """Rows of B that its boxes bring: those of all columns."""
    return N if major == "k" else -(-N // mb.box[1]) * mb.box[1]


def launch(dtype, majors=("k", "k"), swizzle=128, sums=np.float32, registers=False):
    a, b = operands(dtype)
    maps = [
        boxes(x, x.shape[0], swizzle) if major == "k" else boxes(np.ascontiguousarray(x.T), x.shape[1], swizzle)
        for x, major in zip((a, b), majors, strict=True)
    ]
    constants = {"majors": majors, "swizzle": swizzle, "sums": sums, "registers": registers}
    args = (*maps, a.view(np.uint32), sim.zeros((M, N), sums))
    exact = (a.astype(np.float64) @ b.astype(np.float64).T).astype(sums)
    return product.launch(1, 128, args, constants, expected=lambda: {"c": exact}, rtol=0, atol=0)


def check(made):
    made.check(sim.simulate(made))
    (first, *_) = tensor = [i for i in made.program.instructions if i.op is Op.HGMMA]
    assert len(tensor) == K_BYTES // 32
    return first


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("registers", [False, True])
def test_every_type_with_a_from_shared_memory_and_from_registers(dtype, registers):
    sums = np.int32 if np.dtype(dtype).kind in "iu" else np.float32
    first = check(launch(dtype, sums=sums, registers=registers))
    assert bool(first.x & WGMMA_A_REGISTERS) == registers and first.na == (4 if registers else 2)
    assert first.x & 63 == N // 8 and first.nd == N // 2
    names = {np.float16: "F16", bfloat16: "BF16", np.float32: "TF32", float8_e4m3fn: "E4M3", float8_e5m2: "E5M2"}
    kind = NumberType[names.get(dtype, "S8" if dtype is np.int8 else "U8")]
    assert first.x >> 8 & 15 == first.x >> 12 & 15 == kind


@pytest.mark.parametrize("dtype", [np.float16, float8_e4m3fn])
def test_sums_of_halves_are_two_a_register(dtype):
    first = check(launch(dtype, sums=np.float16))
    assert first.nd == N // 4


@pytest.mark.parametrize("swizzle", [128, 64, 32, 0])
@pytest.mark.parametrize("majors", [("k", "k"), ("mn", "k"), ("k", "mn"), ("mn", "mn")])
def test_every_layout_in_shared_memory(swizzle, majors):
    first = check(launch(bfloat16, majors, swizzle))
    assert bool(first.x & WGMMA_A_MN_MAJOR) == (majors[0] == "mn")
    assert bool(first.x & WGMMA_B_MN_MAJOR) == (majors[1] == "mn")


@pytest.mark.parametrize("swizzle", [64, 32, 0])
@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_layouts_of_other_sizes(swizzle, dtype):
    check(launch(dtype, swizzle=swizzle, sums=np.int32 if dtype is np.int8 else np.float32))


@sim.kernel
def accumulated(k, out, n, *, columns):
    tile = k.shared((256, 64), bfloat16, align=1024)
    acc, other = k.wgmma_sums(columns), k.wgmma_sums(64)
    acc.zero()
    a, b = k.smem_matrix(tile), k.smem_matrix(tile, 64)
    for _ in k.range_(n, unroll=1):
        k.wgmma_fence()
        for s in range(4):
            k.wgmma(acc, a.step(s), b.step(s))
        k.wgmma_commit()
        k.wgmma_wait(1)
        k.wgmma(other, a, b, add=False, commit=True)
    k.wgmma_wait()
    t = k.thread_idx.x
    for i in range(0, len(acc), 2):
        out.store((i // 2) * 256 + 2 * t, (acc[i] * 2, acc[i + 1] + other[0]))


def test_sums_stay_in_their_registers_and_products_between_their_waits():
    program = accumulated.build_for((np.zeros(4, np.float32), 5), {"columns": 192})
    code = program.instructions
    tensor = [i for i in code if i.op is Op.HGMMA]
    assert len({i.dst for i in tensor[:4]}) == 1 and tensor[0].dst != tensor[4].dst
    assert [bool(i.x & WGMMA_COMMIT) for i in tensor] == [False, False, False, True, True]
    where = [i.text for i in code if i.text.startswith(("HGMMA", "WARPGROUP"))]
    product = ["HGMMA.64x192x16.F32.BF16"] * 4
    assert where == [
        "WARPGROUP.ARRIVE", *product, "WARPGROUP.DEPBAR.LE", "HGMMA.64x64x16.F32.BF16", "WARPGROUP.DEPBAR.LE",
    ]  # fmt: skip
    last = max(k for k, i in enumerate(code) if i.op is Op.WARPGROUP_DEPBAR)
    loop = code.index(tensor[0])
    assert count(program, "CS2R") == 48  # zeros, two registers each
    assert all(i.text != "MOV" or not isinstance(i.dst, type(i.a)) for i in code[loop : last + 1])
    assert not any(i.text.startswith(("FMUL", "FADD", "STG")) for i in code[:last])
    assert program.registers <= 96 + 32 + 20


def test_descriptors_are_made_as_the_compiler_makes_them():
    """Low words move on by a uniform addition, high words are constants: stride 1024, 128-byte swizzle."""
    program = accumulated.build_for((np.zeros(4, np.float32), 5), {"columns": 64})
    tensor = [i for i in program.instructions if i.op is Op.HGMMA]
    assert all(isinstance(i.a, UReg) and i.b == UReg(i.a.n + 2) for i in tensor)
    steps = [i.b.bits for i in program.instructions if i.text == "UIADD3"]
    assert sorted(steps) == [2, 2, 4, 4, 6, 6]
    assert count(program, "R2UR") == 2
    high = [i for i in program.instructions if i.text == "UMOV" and getattr(i.a, "bits", 0) == 0x40000040]
    assert len(high) == 2 * len(tensor)


@sim.kernel
def changed(k, out, *, dtype):
    a = k.shared((64, 64), np.float16, align=1024)
    t = k.thread_idx.x
    for j in k.range_(t, 64 * 64, 128):
        a[j // 64, j % 64] = 1.0
    k.fence_async()
    k.syncthreads()
    acc = k.wgmma_sums(8, dtype)
    for i in range(len(acc)):
        acc[i] = i + t
    before = acc[1]
    ones = k.smem_matrix(a)
    k.wgmma_fence()
    k.wgmma(acc, ones, ones, commit=True)
    k.wgmma_wait()
    for i in range(len(acc)):
        acc[i] = acc[i] * 2
        out[t, i] = acc[i]
    out[t, 4] = before


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_sums_can_be_set_and_read(dtype):
    made = changed.launch(1, 128, (sim.zeros((128, 5), dtype),), {"dtype": dtype})
    t, i = np.arange(128)[:, None], np.arange(4)
    out = sim.simulate(made).outputs["out"]
    np.testing.assert_array_equal(out[:, :4], 2 * (t + i + 16))
    np.testing.assert_array_equal(out[:, 4], t[:, 0] + 1)
