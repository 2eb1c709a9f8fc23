"""Atomics of every operation and type, lane after lane."""

from __future__ import annotations

import struct

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.core.exec_memory import apply_atomic, gather_operand, scatter_result
from sim.isa import AtomicOp, NumberType, Op, Space
from sim.program import Reg
from tests.core.one_instruction import lanes_of
from tests.core.test_execute_memory import ORIGIN, WARP_SIZE, Bench
from tests.core.values import few, masks

INTEGERS = {
    NumberType.U32: (4, False), NumberType.S32: (4, True), NumberType.U64: (8, False), NumberType.S64: (8, True),
}  # fmt: skip


def replaced(operation, old, operand, compare, bits, signed):
    """The integer that an atomic leaves, from Python integers."""
    if operation == AtomicOp.INC:
        return 0 if old >= operand else old + 1
    if operation == AtomicOp.DEC:
        return operand if old == 0 or old > operand else old - 1
    if operation in (AtomicOp.CAS, AtomicOp.CAST):
        return operand if old == compare else old
    if signed and operation in (AtomicOp.MIN, AtomicOp.MAX):
        choose = min if operation == AtomicOp.MIN else max
        return choose(old, operand, key=lambda v: v - (1 << bits) if v >> bits - 1 else v)
    return {
        AtomicOp.ADD: (old + operand) % (1 << bits), AtomicOp.MIN: min(old, operand), AtomicOp.MAX: max(old, operand),
        AtomicOp.AND: old & operand, AtomicOp.OR: old | operand, AtomicOp.XOR: old ^ operand,
        AtomicOp.EXCH: operand,
    }[operation]  # fmt: skip


@pytest.mark.parametrize("operation", list(AtomicOp))
@pytest.mark.parametrize("kind", INTEGERS)
@few
@given(masks, st.integers(0, 2**32 - 1))
def test_integer_atomics(operation, kind, mask, seed):
    width, signed = INTEGERS[kind]
    random = np.random.default_rng(seed)
    memory = random.integers(0, 256, 64, np.uint8)
    edges = np.array([0, 1, 5, 2**31, 2**31 - 1, 2**32 - 1, 2**63, 2**64 - 1], np.uint64)
    slots = random.integers(0, 64 // width, WARP_SIZE)
    small = random.integers(0, 9, WARP_SIZE, np.uint64)
    operands = np.where(random.random(WARP_SIZE) < 0.5, random.choice(edges, WARP_SIZE), small)
    operands &= np.uint64(2 ** (8 * width) - 1)
    data = np.zeros((4, WARP_SIZE), np.int64)
    data[0] = np.where(lanes_of(mask), ORIGIN + slots * width, 0)
    data[1] = operands.view(np.int64)
    right = [int.from_bytes(memory[k * width :][:width].tobytes(), "little") for k in range(64 // width)]
    compares = np.array([right[s] if random.random() < 0.5 else 7 for s in slots], np.uint64)
    data[2] = compares.view(np.int64)
    olds = np.zeros(WARP_SIZE, np.uint64)
    for lane in np.flatnonzero(lanes_of(mask)):
        olds[lane] = right[slots[lane]]
        if operation == AtomicOp.CAST:
            olds[lane] = olds[lane] == compares[lane]
        arguments = (right[slots[lane]], int(operands[lane]), int(compares[lane]), 8 * width, signed)
        right[slots[lane]] = replaced(operation, *arguments)
    with np.errstate(all="ignore"):
        apply_atomic(operation | kind << 4, width, mask, data, ORIGIN, memory)
    assert [int.from_bytes(memory[k * width :][:width].tobytes(), "little") for k in range(64 // width)] == right
    assert (data[3].view(np.uint64)[lanes_of(mask)] == olds[lanes_of(mask)]).all()


FLOATS = {NumberType.F32: np.float32, NumberType.F64: np.float64}


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("operation", [AtomicOp.ADD, AtomicOp.MIN, AtomicOp.MAX, AtomicOp.EXCH])
@few
@given(st.integers(0, 2**32 - 1))
def test_float_atomics_go_lane_after_lane(kind, operation, seed):
    random = np.random.default_rng(seed)
    values = (random.standard_normal(WARP_SIZE) * 10.0 ** random.integers(-3, 9, WARP_SIZE)).astype(FLOATS[kind])
    values[random.integers(0, WARP_SIZE)] = np.nan
    memory = np.zeros(8, np.uint8)
    data = np.zeros((4, WARP_SIZE), np.int64)
    data[1] = values.view(np.uint32 if kind == NumberType.F32 else np.uint64).astype(np.int64)
    width = values.itemsize
    apply_atomic(operation | kind << 4, width, 0xFFFFFFFF, data, 0, memory)
    total = FLOATS[kind](0)
    for value in values:
        total = {
            AtomicOp.ADD: total + value, AtomicOp.MIN: np.fmin(total, value), AtomicOp.MAX: np.fmax(total, value),
            AtomicOp.EXCH: value,
        }[operation]  # fmt: skip
    got = memory[:width].view(FLOATS[kind])[0]
    assert got == total or np.isnan(got) and np.isnan(total)


@pytest.mark.parametrize(("kind", "dtype"), [(NumberType.F16, np.float16), (NumberType.BF16, ml_dtypes.bfloat16)])
@pytest.mark.parametrize("width", [2, 4])
@few
@given(st.integers(0, 2**32 - 1))
def test_half_atomics_single_and_packed(kind, dtype, width, seed):
    random = np.random.default_rng(seed)
    values = (random.standard_normal((WARP_SIZE, 2)) * 8.0 ** random.integers(-6, 4, (WARP_SIZE, 2))).astype(dtype)
    memory = np.zeros(4, np.uint8)
    data = np.zeros((4, WARP_SIZE), np.int64)
    bits = values.view(np.uint16).astype(np.int64)
    data[1] = bits[:, 0] | bits[:, 1] << 16
    apply_atomic(AtomicOp.ADD | kind << 4, width, 0xFFFFFFFF, data, 0, memory)
    total = np.zeros(2, dtype)
    for pair in values:
        total = (total.astype(np.float64) + pair.astype(np.float64)).astype(dtype)
    assert (memory.view(dtype)[: width // 2] == total[: width // 2]).all()


@pytest.mark.parametrize("width", [4, 8])
def test_operands_come_from_registers_and_results_go_to_them(width):
    words = width // 4
    fields = {"a": Reg(0), "na": 2, "b": Reg(4), "nb": words, "c": Reg(8), "nc": words}
    bench = Bench(Op.ATOM, dst=Reg(12), nd=words, space=Space.GLOBAL, width=width, **fields)
    bench.R[:16] = np.arange(16 * WARP_SIZE).reshape(16, WARP_SIZE)
    data = np.zeros((4, WARP_SIZE), np.int64)
    gather_operand(bench.code, 0, bench.U, bench.base, data)
    for row, first in ((1, 4), (2, 8)):
        right = bench.R[first].astype(np.int64) | (bench.R[first + 1].astype(np.int64) << 32 if width == 8 else 0)
        assert (data[row] == right).all()
    data[3] = 0x0000000500000006
    scatter_result(bench.code, 0, bench.U, bench.base, 0x3, data)
    assert bench.R[12].tolist() == [6, 6, *range(12 * WARP_SIZE + 2, 13 * WARP_SIZE)]
    assert bench.R[13, 0] == (5 if width == 8 else 13 * WARP_SIZE)


def test_a_nan_result_of_a_float32_sum_is_canonical():
    memory = np.frombuffer(struct.pack("f", np.inf), np.uint8).copy()
    data = np.zeros((4, WARP_SIZE), np.int64)
    data[1] = 0xFF800000
    with np.errstate(invalid="ignore"):
        apply_atomic(AtomicOp.ADD | NumberType.F32 << 4, 4, 1, data, 0, memory)
    assert memory.view(np.uint32)[0] == 0x7FFFFFFF
