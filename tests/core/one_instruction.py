"""Runs one instruction on given registers and returns what it wrote: for tests of single opcodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from sim.core.context import Ctx
from sim.core.execute import contexts, execute
from sim.isa import FULL_MASK, PREDICATES, PT, RZ, UPT, WARP_SIZE, Op, TimingClass
from sim.program import Const, Imm, Instruction, Operand, Program, Reg, UReg

Words = npt.NDArray[np.uint32]

A, B, C, D = 0, 8, 16, 24  # first registers of the operands
REGISTERS, UNIFORM = 32, 8
UNTOUCHED = 0xDEADBEEF  # what destinations hold before


@cache
def _context(op: Op) -> npt.NDArray[np.int64]:
    return contexts(1, [op])[0]


@dataclass(frozen=True)
class Outcome:
    d: Words  #: [rows, 32], the eight rows at the destination
    preds: npt.NDArray[np.int64]  #: predicates afterwards
    pd: npt.NDArray[np.bool_]  #: P0 by lane
    pe: npt.NDArray[np.bool_]  #: P1 by lane
    uniform: Words  #: [UNIFORM, 32]

    @property
    def double(self) -> npt.NDArray[np.uint64]:
        """The destination's first two rows as 64-bit words."""
        return self.d[0].astype(np.uint64) | self.d[1].astype(np.uint64) << np.uint64(32)

    @property
    def single(self) -> npt.NDArray[np.float32]:
        return self.d[0].view(np.float32)


def words(values: npt.ArrayLike) -> Words:
    """Values of any 32-bit or 64-bit type as rows of words, low word first."""
    array = np.asarray(values)
    if array.dtype == np.int64 and array.ndim == 1 and array.size and array.min() >= -(2**31) and array.max() < 2**32:
        array = array.astype(np.uint32)
    if array.dtype.itemsize == 8:
        low = array.view(np.uint64) & np.uint64(0xFFFFFFFF)
        return np.stack([low, array.view(np.uint64) >> np.uint64(32)]).astype(np.uint32)
    if array.dtype.itemsize == 2:
        array = array.view(np.uint16).astype(np.uint32)
    return array.view(np.uint32).reshape(-1, array.shape[-1])


def lanes_of(mask: int) -> npt.NDArray[np.bool_]:
    return (np.int64(mask) >> np.arange(WARP_SIZE) & 1).astype(bool)


def mask_of(lanes: npt.ArrayLike) -> int:
    return int(sum(1 << k for k in range(WARP_SIZE) if np.asarray(lanes)[k]))


def run_one(
    op: Op,
    a: npt.ArrayLike | Operand | None = None,
    b: npt.ArrayLike | Operand | None = None,
    c: npt.ArrayLike | Operand | None = None,
    *,
    x: int = 0,
    y: int = 0,
    nd: int = 1,
    smod: int = 0,
    flags: int = 0,
    pa: int = PT,
    pb: int = PT,
    pd: int = 0,
    pe: int = 1,
    mask: int = FULL_MASK,
    preds: dict[int, int] | None = None,
    dst: Operand | None = None,
    bank: Sequence[int] = (),
    context: dict[Ctx, int] | None = None,
) -> Outcome:
    """Execute one instruction: register operands come as values of the 32 lanes, others as `sim.program` operands.

    P0 and P1 take the predicate results unless `pd` and `pe` say otherwise; `preds` sets
    source predicates, `bank` is the start of constant bank 0.
    """
    rows: dict[int, Words] = {}
    operands: list[Operand | None] = []
    counts = []
    for first, value in ((A, a), (B, b), (C, c)):
        if value is None or isinstance(value, Reg | UReg | Imm | Const):
            operands.append(value)
            counts.append(2 if op in WIDE and value is not None else int(value is not None))
        else:
            rows[first] = words(value)
            operands.append(Reg(first))
            counts.append(len(rows[first]))
    instruction = Instruction(
        op, TimingClass.ALU, op.name, Reg(D) if dst is None else dst, nd, *operands, *counts,
        smod=smod, pd=pd, pe=pe, pa=pa, pb=pb, x=x, y=y, flags=flags,
    )  # fmt: skip
    program = Program("one", [instruction], REGISTERS, UNIFORM)
    bytes_of_bank = np.zeros(0x400, np.uint8)
    bytes_of_bank.view(np.uint32)[: len(bank)] = bank
    shared = program.shared_row_values({0: bytes_of_bank})
    U = np.zeros((len(shared) + program.rows_per_warp, WARP_SIZE), np.uint32)
    U[: len(shared)] = shared
    base = len(shared)
    U[base + D : base + REGISTERS] = UNTOUCHED
    for first, value in rows.items():
        U[base + first : base + first + len(value)] = value
    predicates = np.zeros((2, PREDICATES), np.int64)
    predicates[:, [PT, UPT]] = FULL_MASK
    for k, value in (preds or {}).items():
        predicates[1, k] = value
    ctx = _context(op).copy()
    ctx[Ctx.BLOCK_DIM_X : Ctx.GRID_DIM_Z + 1] = 1
    ctx[Ctx.BLOCK_DIM_X] = 1024
    for key, number in (context or {}).items():
        ctx[key] = number
    with np.errstate(all="ignore"):
        execute(program.decoded.code, 0, U, base, predicates, 1, mask, ctx)
    assert not U[:8].any(), "the shared zero rows changed"
    assert (predicates[1, [PT, UPT]] == FULL_MASK).all(), "PT changed"
    after = predicates[1].copy()
    uniform = U[base + REGISTERS : base + REGISTERS + UNIFORM].copy()
    return Outcome(U[base + D : base + D + 8].copy(), after, lanes_of(after[0]), lanes_of(after[1]), uniform)


WIDE = {Op.DADD, Op.DMUL, Op.DFMA, Op.DSETP, Op.DMNMX}
ZERO = Reg(RZ)
