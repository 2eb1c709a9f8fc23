"""Loads, stores, matrix loads and asynchronous copies."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.core.exec_memory import (
    copy_async,
    effective_addresses,
    first_misaligned,
    load,
    load_matrix,
    store,
    store_matrix,
)
from sim.isa import FLAG_SIGNED, FULL_MASK, WARP_SIZE, Op, Space, TimingClass
from sim.program import Imm, Instruction, Program, Reg
from tests.core.one_instruction import lanes_of
from tests.core.values import few, masks

ORIGIN = 0x7F00_0000_0000
LANE = np.arange(WARP_SIZE)
WIDTHS = [1, 2, 4, 8, 16]


class Bench:
    """One memory instruction with registers R0.. and a memory of `size` random bytes."""

    def __init__(self, op: Op, size: int = 4096, **fields: object) -> None:
        self.program = Program("one", [Instruction(op, TimingClass.LOAD_STORE, op.name, **fields)], 24)  # type: ignore[arg-type]
        shared = self.program.shared_row_values({})
        self.U = np.zeros((len(shared) + self.program.rows_per_warp, WARP_SIZE), np.uint32)
        self.U[: len(shared)] = shared
        self.base = len(shared)
        self.memory = np.random.default_rng(size).integers(0, 256, size, np.uint8)
        self.addr = np.zeros(WARP_SIZE, np.int64)
        self.source = np.zeros(WARP_SIZE, np.int64)

    @property
    def code(self) -> npt.NDArray[np.int32]:
        return self.program.decoded.code

    @property
    def R(self) -> npt.NDArray[np.uint32]:
        return self.U[self.base :]

    def addresses(self) -> npt.NDArray[np.int64]:
        effective_addresses(self.code, 0, self.U, self.base, self.addr, self.source)
        return self.addr


@pytest.mark.parametrize("y", [0, 12, -8, 0x7FFFFF, -0x800000])
def test_a_64_bit_address_is_a_register_pair_plus_an_offset(y):
    bench = Bench(Op.LD, a=Reg(2), na=2, y=y, space=Space.GLOBAL, width=4)
    bases = ORIGIN + 0xFFFFFFF0 + LANE * 128
    bench.R[2], bench.R[3] = bases & 0xFFFFFFFF, bases >> 32
    assert (bench.addresses() == bases + y).all()


@pytest.mark.parametrize("y", [0, 12, -8])
def test_a_32_bit_address_wraps_around(y):
    bench = Bench(Op.LD, a=Reg(2), na=1, y=y, space=Space.SHARED, width=4)
    bench.R[2] = LANE * 4
    assert (bench.addresses() == (LANE * 4 + y) % 2**32).all()


def test_a_further_part_of_the_address_is_added():
    bench = Bench(Op.LD, a=Reg(2), na=1, b=Imm(256), nb=1, y=4, space=Space.SHARED, width=4)
    bench.R[2] = LANE * 4
    assert (bench.addresses() == LANE * 4 + 260).all()
    bench = Bench(Op.ST, a=Reg(2), na=2, b=Reg(9), nb=1, c=Reg(4), nc=2, space=Space.GLOBAL, width=4)
    bench.R[2], bench.R[4], bench.R[5] = LANE, 8, 1
    assert (bench.addresses() == (1 << 32) + LANE + 8).all()


def test_a_copy_has_two_addresses():
    bench = Bench(Op.LDGSTS, a=Reg(0), na=1, b=Reg(2), nb=2, y=32, x=-16, space=Space.SHARED, width=16)
    bench.R[0], bench.R[2], bench.R[3] = LANE * 16, LANE * 64, 0x7F00
    bench.addresses()
    assert (bench.addr == LANE * 16 + 32).all()
    assert (bench.source == ORIGIN + LANE * 64 - 16).all()


@pytest.mark.parametrize("width", WIDTHS)
def test_first_misaligned_names_the_first_active_lane(width):
    addr = ORIGIN + LANE * width
    assert first_misaligned(addr, FULL_MASK, width) == -1
    addr[[7, 20]] += 1
    expected = -1 if width == 1 else 7
    assert first_misaligned(addr, FULL_MASK, width) == expected
    assert first_misaligned(addr, FULL_MASK ^ (1 << 7), width) == (-1 if width == 1 else 20)
    assert first_misaligned(addr, 0xF, width) == -1


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("flags", [0, FLAG_SIGNED])
@few
@given(masks, st.integers(0, 2**32 - 1))
def test_loads_of_every_width(width, flags, mask, seed):
    bench = Bench(
        Op.LD, dst=Reg(4), nd=max(width // 4, 1), a=Reg(0), na=2, space=Space.GLOBAL, width=width, flags=flags
    )
    bench.R[:] = 0xDEADBEEF
    slots = np.random.default_rng(seed).integers(0, 4096 // width, WARP_SIZE)
    addr = np.where(lanes_of(mask), ORIGIN + slots * width, -1)
    load(bench.code, 0, bench.U, bench.base, mask, addr, ORIGIN, bench.memory)
    for lane in range(WARP_SIZE):
        data = bench.memory[slots[lane] * width :][:width].tobytes()
        number = int.from_bytes(data, "little", signed=bool(flags) and width < 4)
        for word in range(4):
            untouched = not mask >> lane & 1 or word >= max(width // 4, 1)
            right = 0xDEADBEEF if untouched else number >> 32 * word & FULL_MASK
            assert bench.R[4 + word, lane] == right


@pytest.mark.parametrize("width", WIDTHS)
@few
@given(masks, st.integers(0, 2**32 - 1))
def test_stores_of_every_width_and_the_highest_lane_wins(width, mask, seed):
    bench = Bench(Op.ST, a=Reg(0), na=2, b=Reg(4), nb=max(width // 4, 1), space=Space.GLOBAL, width=width)
    random = np.random.default_rng(seed)
    bench.R[4:8] = random.integers(0, 2**32, (4, WARP_SIZE), np.uint32)
    slots = random.integers(0, 48, WARP_SIZE)
    right = bench.memory.copy()
    for lane in np.flatnonzero(lanes_of(mask)):
        data = bench.R[4:8, lane].tobytes()[:width]
        right[slots[lane] * width :][:width] = np.frombuffer(data, np.uint8)
    addr = np.where(lanes_of(mask), ORIGIN + slots * width, -1)
    store(bench.code, 0, bench.U, bench.base, mask, addr, ORIGIN, bench.memory)
    assert (bench.memory == right).all()


@pytest.mark.parametrize("width", [4, 8, 16])
@few
@given(masks, masks, st.integers(0, 2**32 - 1))
def test_copies_write_zeros_for_lanes_that_do_not_read(width, mask, reading, seed):
    random = np.random.default_rng(seed)
    memory, shared = random.integers(0, 256, 8192, np.uint8), random.integers(0, 256, 4096, np.uint8)
    reading &= mask
    slots, places = random.integers(0, 8192 // width, WARP_SIZE), random.permutation(4096 // width)[:WARP_SIZE]
    right = shared.copy()
    for lane in np.flatnonzero(lanes_of(mask)):
        piece = memory[slots[lane] * width :][:width] if reading >> lane & 1 else 0
        right[places[lane] * width :][:width] = piece
    source = np.where(lanes_of(reading), ORIGIN + slots * width, 0)
    copy_async(mask, reading, width, places.astype(np.int64) * width, source, ORIGIN, memory, shared)
    assert (shared == right).all()


@pytest.mark.parametrize("matrices", [1, 2, 4])
@pytest.mark.parametrize("transposed", [0, 1])
def test_ldmatrix_deals_rows_to_lanes_and_stmatrix_takes_them_back(matrices, transposed):
    fields = {"a": Reg(0), "na": 1, "x": transposed, "space": Space.SHARED, "width": matrices}
    bench = Bench(Op.LDSM, 8192, dst=Reg(4), nd=matrices, **fields)
    elements = bench.memory.view(np.uint16)
    rows = np.random.default_rng(3).permutation(512)[:WARP_SIZE]
    addr = rows.astype(np.int64) * 16
    load_matrix(bench.code, 0, bench.U, bench.base, addr, bench.memory)
    for matrix in range(matrices):
        m = np.array([elements[8 * r : 8 * r + 8] for r in rows[8 * matrix : 8 * matrix + 8]])
        m = m.T if transposed else m
        low, high = m[LANE // 4, LANE % 4 * 2], m[LANE // 4, LANE % 4 * 2 + 1]
        assert (bench.R[4 + matrix] == low | high.astype(np.uint32) << 16).all()
    back = Bench(Op.STSM, 8192, b=Reg(4), nb=matrices, **fields)
    back.R[4:8] = bench.R[4:8]
    back.memory[:] = 0
    store_matrix(back.code, 0, back.U, back.base, addr, back.memory)
    for row in rows[: 8 * matrices]:
        assert (back.memory[16 * row : 16 * row + 16] == bench.memory[16 * row : 16 * row + 16]).all()
    assert np.count_nonzero(back.memory) <= 8 * matrices * 16
