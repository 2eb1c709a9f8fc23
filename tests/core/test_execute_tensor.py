"""Tensor instructions against NumPy matrix products, with fragments laid out as PTX describes them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from sim.isa import FULL_MASK, MmaShape, NumberType, Op
from tests.core.one_instruction import UNTOUCHED, run_one

LANE = np.arange(32)
GROUP, THREAD = LANE // 4, LANE % 4
RANDOM = np.random.default_rng(5)
DTYPES = {NumberType.F16: np.float16, NumberType.BF16: ml_dtypes.bfloat16}


def packed(low, high):
    """Two 16-bit rows as one row of words."""
    return low.view(np.uint16).astype(np.uint32) | high.view(np.uint16).astype(np.uint32) << 16


def a_halves(m):
    """Registers of a 16 x 8 or 16 x 16 matrix of 16-bit elements."""
    return np.array([
        packed(m[GROUP + 8 * (r % 2), 2 * THREAD + 8 * (r // 2)], m[GROUP + 8 * (r % 2), 2 * THREAD + 8 * (r // 2) + 1])
        for r in range(m.shape[1] // 4)
    ])  # fmt: skip


def b_halves(m):
    """Registers of an 8 x 8 or 16 x 8 matrix."""
    return np.array([
        packed(m[2 * THREAD + 8 * r, GROUP], m[2 * THREAD + 8 * r + 1, GROUP]) for r in range(m.shape[0] // 8)
    ])  # fmt: skip


def c_words(m):
    """Registers of a 16 x 8 (or 8 x 8) matrix of 32-bit accumulators."""
    return np.array([m[GROUP + 8 * (r // 2), 2 * THREAD + r % 2] for r in range(m.shape[0] // 4)]).view(np.uint32)


def c_halves(m):
    return np.array([packed(m[GROUP + 8 * r, 2 * THREAD], m[GROUP + 8 * r, 2 * THREAD + 1]) for r in range(2)])


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize(("shape", "depth"), [(MmaShape.M16N8K8, 8), (MmaShape.M16N8K16, 16)])
def test_hmma_of_halves_into_float32(kind, shape, depth):
    a = RANDOM.standard_normal((16, depth)).astype(DTYPES[kind])
    b = RANDOM.standard_normal((depth, 8)).astype(DTYPES[kind])
    c = RANDOM.standard_normal((16, 8)).astype(np.float32)
    out = run_one(Op.HMMA, a_halves(a), b_halves(b), c_words(c), x=shape | kind << 8, nd=4)
    right = a.astype(np.float64) @ b.astype(np.float64) + c
    got = out.d[:4].view(np.float32)
    assert np.allclose(got, c_words(right.astype(np.float32)).view(np.float32), rtol=1e-5, atol=1e-5)


def test_hmma_is_exact_where_float32_is():
    a = RANDOM.integers(-30, 30, (16, 16)).astype(np.float16)
    b = RANDOM.integers(-30, 30, (16, 8)).astype(np.float16)
    c = RANDOM.integers(-1000, 1000, (16, 8)).astype(np.float32)
    out = run_one(Op.HMMA, a_halves(a), b_halves(b), c_words(c), x=MmaShape.M16N8K16 | NumberType.F16 << 8, nd=4)
    right = a.astype(np.float32) @ b.astype(np.float32) + c
    assert (out.d[:4] == c_words(right)).all()
    assert (out.d[4:] == UNTOUCHED).all()


def test_hmma_takes_subnormal_halves_as_they_are():
    a = np.full((16, 16), 2.0**-24, np.float16)
    b = np.full((16, 8), 1.0, np.float16)
    zero = np.zeros((16, 8), np.float32)
    out = run_one(Op.HMMA, a_halves(a), b_halves(b), c_words(zero), x=MmaShape.M16N8K16 | NumberType.F16 << 8, nd=4)
    assert (out.d[:4].view(np.float32) == 2.0**-20).all()


@pytest.mark.parametrize(("shape", "depth"), [(MmaShape.M16N8K8, 8), (MmaShape.M16N8K16, 16)])
def test_hmma_with_half_accumulators(shape, depth):
    a = RANDOM.integers(-8, 8, (16, depth)).astype(np.float16)
    b = RANDOM.integers(-8, 8, (depth, 8)).astype(np.float16)
    c = RANDOM.integers(-8, 8, (16, 8)).astype(np.float16)
    x = shape | NumberType.F16 << 8 | 1 << 16
    out = run_one(Op.HMMA, a_halves(a), b_halves(b), c_halves(c), x=x, nd=2)
    right = (a.astype(np.float32) @ b.astype(np.float32) + c.astype(np.float32)).astype(np.float16)
    assert (out.d[:2] == c_halves(right)).all()
    assert (out.d[2:] == UNTOUCHED).all()


@pytest.mark.parametrize(("shape", "depth"), [(MmaShape.M16N8K4, 4), (MmaShape.M16N8K8, 8)])
def test_hmma_of_tf32_drops_the_low_bits(shape, depth):
    a = RANDOM.integers(-500, 500, (16, depth)).astype(np.float32)
    b = RANDOM.integers(-500, 500, (depth, 8)).astype(np.float32)
    c = np.zeros((16, 8), np.float32)
    noise = np.float32(1 + 2.0**-12)  # below TF32's ten bits
    registers_a = np.array([(a * noise)[GROUP + 8 * (r % 2), THREAD + 4 * (r // 2)] for r in range(depth // 2)])
    registers_b = np.array([b[THREAD + 4 * r, GROUP] for r in range(depth // 4)])
    x = shape | NumberType.TF32 << 8
    out = run_one(Op.HMMA, registers_a.view(np.uint32), registers_b.view(np.uint32), c_words(c), x=x, nd=4)
    assert (out.d[:4] == c_words(a @ b)).all()


@pytest.mark.parametrize("a_type", [np.int8, np.uint8])
@pytest.mark.parametrize("b_type", [np.int8, np.uint8])
@pytest.mark.parametrize(
    ("shape", "rows", "depth"),
    [(MmaShape.M16N8K16, 16, 16), (MmaShape.M16N8K32, 16, 32), (MmaShape.M8N8K16, 8, 16)],
)
def test_imma_is_exact(a_type, b_type, shape, rows, depth):
    a = RANDOM.integers(np.iinfo(a_type).min, np.iinfo(a_type).max + 1, (rows, depth)).astype(a_type)
    b = RANDOM.integers(np.iinfo(b_type).min, np.iinfo(b_type).max + 1, (depth, 8)).astype(b_type)
    c = RANDOM.integers(-(2**31), 2**31, (rows, 8)).astype(np.int32)
    groups = rows // 8
    words_a = [
        np.ascontiguousarray(a[GROUP + 8 * (r % groups)]).reshape(32, -1, 4)[LANE, THREAD + 4 * (r // groups)]
        for r in range(groups * depth // 16)
    ]
    words_b = [np.stack([b[4 * THREAD + 16 * r + k, GROUP] for k in range(4)], 1) for r in range(depth // 16)]
    registers = [np.array([np.ascontiguousarray(w).view(np.uint32)[:, 0] for w in ws]) for ws in (words_a, words_b)]
    x = shape | (a_type is np.int8) << 8 | (a_type is not b_type) << 17
    out = run_one(Op.IMMA, *registers, c_words(c), x=x, nd=rows // 4)
    exact = a.astype(np.int64) @ b.astype(np.int64) + c
    assert (out.d[: rows // 4] == c_words(exact.astype(np.int32))).all()
    clipped = run_one(Op.IMMA, *registers, c_words(c), x=x | 1 << 18, nd=rows // 4)
    assert (clipped.d[: rows // 4] == c_words(np.clip(exact, -(2**31), 2**31 - 1).astype(np.int32))).all()


def test_dmma_multiplies_doubles():
    a, b, c = (RANDOM.integers(-99, 99, s).astype(np.float64) for s in ((8, 4), (4, 8), (8, 8)))
    columns = [c[GROUP, 2 * THREAD + k].view(np.uint64) for k in range(2)]
    shift = np.uint64(32)
    accumulators = np.array([w for m in columns for w in (m & np.uint64(0xFFFFFFFF), m >> shift)]).astype(np.uint32)
    out = run_one(Op.DMMA, a[GROUP, THREAD], b[THREAD, GROUP], accumulators, x=MmaShape.M8N8K4, nd=4)
    wide = out.d[:4].astype(np.uint64)
    right = a @ b + c
    for k in range(2):
        assert ((wide[2 * k] | wide[2 * k + 1] << np.uint64(32)).view(np.float64) == right[GROUP, 2 * THREAD + k]).all()


def test_movm_transposes():
    m = np.arange(64, dtype=np.uint16).reshape(8, 8)
    out = run_one(Op.MOVM, packed(m[GROUP, 2 * THREAD], m[GROUP, 2 * THREAD + 1]))
    assert (out.d[0] == packed(m.T[GROUP, 2 * THREAD], m.T[GROUP, 2 * THREAD + 1])).all()


def test_hmma_may_overwrite_its_operands():
    from sim.core.execute import contexts, execute
    from sim.isa import PREDICATES, TimingClass
    from sim.program import Instruction, Program, Reg

    a, b = RANDOM.integers(-9, 9, (16, 16)).astype(np.float16), RANDOM.integers(-9, 9, (16, 8)).astype(np.float16)
    instruction = Instruction(
        Op.HMMA, TimingClass.HMMA_16816, "HMMA", Reg(0), 4, Reg(0), Reg(4), Reg(8), 4, 2, 4,
        x=MmaShape.M16N8K16 | NumberType.F16 << 8,
    )  # fmt: skip
    program = Program("one", [instruction], 12)
    U = np.zeros((8 + program.rows_per_warp, 32), np.uint32)
    U[8:12], U[12:14] = a_halves(a), b_halves(b)
    preds = np.full((1, PREDICATES), FULL_MASK, np.int64)
    execute(program.decoded.code, 0, U, 8, preds, 0, FULL_MASK, contexts(1, [Op.HMMA])[0])
    assert (U[8:12] == c_words(a.astype(np.float32) @ b.astype(np.float32))).all()
