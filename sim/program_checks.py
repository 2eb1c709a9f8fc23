"""What a program must satisfy so that the core can run it: operands, targets and an end that lie where they can."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.isa import CONVERGENCE_BARRIERS, PREDICATES, PT, Col, Op, Space
from sim.program import Const, Program

MAX_REGISTERS, MAX_UNIFORM_REGISTERS = 255, 63
MAX_ROWS = 8  #: rows of one operand
MAX_SUM_ROWS = 128  #: rows of the sums of a warpgroup product
BLOCK_BARRIERS = 16
PARAM_BANK_BYTES = 0x210 + 4096  #: constant bank 0: launch dimensions and 4 KiB of parameters
LAST_CONSTANT = PARAM_BANK_BYTES - 16  #: an operand may be four words
UNSUPPORTED = (Op.KILL,)
WIDTHS = (0, 1, 2, 4, 8, 16)

Mask = npt.NDArray[np.bool_]


class ProgramError(ValueError):
    """A program that the core cannot run."""


def check_program(program: Program) -> None:
    """Raise `ProgramError` for the first instruction, or the first fact of the program, that cannot be run."""
    if not program.instructions:
        raise ProgramError(f"program {program.name} has no instructions")
    for name, most in (("registers", MAX_REGISTERS), ("uniform_registers", MAX_UNIFORM_REGISTERS)):
        if not 0 <= getattr(program, name) <= most:
            raise ProgramError(f"program {program.name}: {name}={getattr(program, name)} must lie in 0..{most}")
    for name in ("shared_static_bytes", "local_bytes"):
        if getattr(program, name) < 0:
            raise ProgramError(f"program {program.name}: {name}={getattr(program, name)} must not be negative")
    if program.param_base + program.param_bytes > PARAM_BANK_BYTES:
        raise ProgramError(
            f"program {program.name}: {program.param_bytes} bytes of parameters do not fit the "
            f"{PARAM_BANK_BYTES - program.param_base} that a kernel has"
        )
    for bad, why in (*_operands(program), *_fields(program), *_control(program)):
        if bad.any():
            k = int(np.flatnonzero(bad)[0])
            raise ProgramError(f"program {program.name}, instruction {k} ({program.instructions[k].text}): {why}")


#: units that not every GPU has: a profile's section, what it is called, and its instructions
UNITS = (
    ("wgmma", "warpgroup products (wgmma)", (Op.HGMMA, Op.WARPGROUP_ARRIVE, Op.WARPGROUP_DEPBAR)),
    ("mbarrier", "barriers in shared memory (mbarrier)", (Op.MBARRIER, Op.COPY_ARRIVE)),
    ("tma", "the tensor memory accelerator (TMA)", (Op.TMA, Op.TMA_COMMIT)),
    ("cluster", "thread block clusters", (Op.CLUSTER_ARRIVE, Op.CLUSTER_WAIT, Op.REMOTE_STORE)),
)


def check_units(program: Program, profile: Any) -> None:
    """Raise `ProgramError` if the program needs a unit that the GPU does not have."""
    ops = program.decoded.code[:, Col.OP]
    for section, what, needed in UNITS:
        if getattr(profile, section) is None and np.isin(ops, needed).any():
            raise ProgramError(
                f"program {program.name} uses {what}, which {profile.name} does not have: "
                f"its profile has no table [{section}]; use a GPU of Hopper's kind, such as h200"
            )


def _operands(program: Program) -> Iterator[tuple[Mask, str]]:
    """Register rows and predicates."""
    code = program.decoded.code
    rows = program.registers + program.uniform_registers
    for first, count in ((Col.A, Col.NA), (Col.B, Col.NB), (Col.C, Col.NC), (Col.D, Col.ND)):
        most = np.where((code[:, Col.OP] == Op.HGMMA) & (first == Col.D), MAX_SUM_ROWS, MAX_ROWS)
        yield (code[:, count] < 0) | (code[:, count] > most), f"{first.name} has 0 to {MAX_ROWS} rows"
        end = code[:, first] + np.maximum(code[:, count], 1)
        inside = code[:, first] < 0 if first is not Col.D else code[:, first] == rows  # shared rows; RZ
        yield ~inside & ((code[:, first] < 0) | (end > rows)), f"{first.name} names a register beyond the program's"
    negated = 2 * PREDICATES
    for column, many in (
        (Col.PD, PREDICATES), (Col.PE, PREDICATES), (Col.PA, negated), (Col.PB, negated), (Col.GUARD, negated),
    ):  # fmt: skip
        yield (code[:, column] < 0) | (code[:, column] >= many), f"{column.name} names no predicate"
    beyond = [
        any(isinstance(o, Const) and o.bank == 0 and not 0 <= o.offset <= LAST_CONSTANT for o in (i.a, i.b, i.c))
        for i in program.instructions
    ]
    yield np.array(beyond), f"a constant lies beyond the {PARAM_BANK_BYTES} bytes of bank 0"


def _fields(program: Program) -> Iterator[tuple[Mask, str]]:
    """Widths, control bits, source lines."""
    code = program.decoded.code
    yield ~np.isin(code[:, Col.WIDTH], WIDTHS), f"its width must be one of {WIDTHS}"
    for column, most in ((Col.WBAR, 7), (Col.RBAR, 7), (Col.WAIT, 63)):
        yield (code[:, column] < 0) | (code[:, column] > most), f"{column.name} must lie in 0..{most}"
    yield code[:, Col.STALL] < 0, "its stall count is negative"
    yield (code[:, Col.LINE] < -1) | (code[:, Col.LINE] >= len(program.source)), "its source line is not there"
    yield (code[:, Col.SPACE] < 0) | (code[:, Col.SPACE] >= len(Space)), "its memory space is unknown"


def _control(program: Program) -> Iterator[tuple[Mask, str]]:
    """Targets, barriers, and that nothing runs past the last instruction."""
    code = program.decoded.code
    op, x, y = code[:, Col.OP], code[:, Col.X], code[:, Col.Y]
    yield np.isin(op, UNSUPPORTED), "the simulator does not execute it"
    yield (
        np.isin(op, (Op.BRA, Op.CALL, Op.BRA_DIV, Op.BSSY)) & ((y < 0) | (y >= len(code))),
        "its target lies outside the program",
    )
    converging = np.isin(op, (Op.BSSY, Op.BSYNC, Op.BREAK))
    yield converging & ((x < 0) | (x >= CONVERGENCE_BARRIERS)), f"there are {CONVERGENCE_BARRIERS} convergence barriers"
    bar = op == Op.BAR
    yield bar & ((y < 0) | (y >= BLOCK_BARRIERS)), f"a block has {BLOCK_BARRIERS} barriers"
    yield bar & ((x < 0) | (x > 4)), "a barrier is waited at, arrived at or reduces: X lies in 0..4"
    moved = op == Op.BMOV
    yield moved & ((x & 63) >= CONVERGENCE_BARRIERS), f"there are {CONVERGENCE_BARRIERS} convergence barriers"
    ends = np.isin(op, (Op.EXIT, Op.BRA, Op.BRX, Op.RET)) & (code[:, Col.GUARD] == PT) & (code[:, Col.PA] == PT)
    last = np.arange(len(code)) == len(code) - 1
    yield last & ~ends, "the last instruction must be EXIT, BRA or RET without a guard"
