"""Programs: a kernel's instructions, what it needs, and the form the core reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sim.isa import (
    INSTRUCTION_BYTES,
    PT,
    RZ,
    SCRATCH_ROWS,
    URZ,
    WARP_SIZE,
    Col,
    Op,
    Space,
    TimingClass,
)

ZERO_ROWS = 8  #: shared rows 0..7 stay zero, so RZ serves as any operand width


@dataclass(frozen=True, slots=True)
class Reg:
    """R0..R254; `Reg(255)` is RZ."""

    n: int

    def __str__(self) -> str:
        return "RZ" if self.n == RZ else f"R{self.n}"


@dataclass(frozen=True, slots=True)
class UReg:
    """UR0..UR62; `UReg(63)` is URZ."""

    n: int

    def __str__(self) -> str:
        return "URZ" if self.n == URZ else f"UR{self.n}"


@dataclass(frozen=True, slots=True)
class Imm:
    """An immediate, as bits: 32, or 64 where the operand has two words."""

    bits: int
    is_float: bool = False

    def __str__(self) -> str:
        if self.is_float:
            return repr(float(np.uint32(self.bits).view(np.float32)))
        return hex(self.bits)


@dataclass(frozen=True, slots=True)
class Const:
    """A word of a constant bank, `c[bank][offset]`."""

    bank: int
    offset: int

    def __str__(self) -> str:
        return f"c[{self.bank:#x}][{self.offset:#x}]"


Operand = Reg | UReg | Imm | Const


@dataclass(slots=True)
class Instruction:
    """One instruction. Fields follow `sim.isa.Col`, with operands still symbolic."""

    op: Op
    cls: TimingClass
    text: str  #: mnemonic with modifiers as `cuobjdump` prints it: "LDG.E.128"
    dst: Operand | None = None
    nd: int = 0
    a: Operand | None = None
    b: Operand | None = None
    c: Operand | None = None
    na: int = 0
    nb: int = 0
    nc: int = 0
    smod: int = 0
    pd: int = PT
    pe: int = PT
    pa: int = PT
    pb: int = PT
    x: int = 0
    y: int = 0
    space: Space = Space.NONE
    width: int = 0
    guard: int = PT  #: + 16 when negated
    flags: int = 0
    line: int = -1
    stall: int = 0
    yield_: int = 0
    wbar: int = 7
    rbar: int = 7
    wait: int = 0
    reuse: int = 0
    operands: str = ""  #: operand text for the listing, where a producer knows better than the fields


@dataclass(frozen=True, slots=True)
class Param:
    """A kernel parameter in constant bank 0.

    `kind` is `"array"` (a 64-bit address) or `"scalar"`; in a compiled kernel also
    `"pointer"`, or `"raw"` where only the size is known, and a launch's argument says which. An array of more than one
    dimension has its extents 1, 2, ... as int32 at `extent_offsets`. A `described` one (Numba's) has
    64-bit words around its address: number of elements and bytes of one before, extents and strides in bytes after.
    """

    name: str
    offset: int  #: bytes from `Program.param_base`
    kind: str
    dtype: np.dtype
    ndim: int = 1
    extent_offsets: tuple[int, ...] = ()
    described: bool = False


@dataclass(frozen=True, slots=True)
class SourceLine:
    file: str
    number: int
    text: str


class Decoded(NamedTuple):
    """What the core reads: `code` int32 `[n, len(Col)]`; rows that warps share."""

    code: npt.NDArray[np.int32]
    shared_rows: tuple[tuple[int, int], ...]  #: (bank, offset) or (-1, immediate bits) a row


@dataclass
class Program:
    """A kernel: instructions, registers, memory needs, parameters, source lines."""

    name: str
    instructions: list[Instruction]
    registers: int  #: R registers a thread, as the compiler reports them
    uniform_registers: int = 0
    shared_static_bytes: int = 0
    local_bytes: int = 0
    shared_is_known: bool = True  #: whether `shared_static_bytes` is all that the kernel has
    shared_window: int = 0  #: what compiled code adds to a shared address; only generic addresses still have it
    params: tuple[Param, ...] = ()
    params_from_arguments: bool = False  #: parameters are not known: a launch's arguments say what they are
    cluster: tuple[int, int, int] = (1, 1, 1)  #: blocks of a cluster that the code is compiled for
    param_base: int = 0x210
    param_bytes: int = 0
    source: Sequence[SourceLine] = ()
    has_control: bool = False  #: instructions carry control bits
    arch: str = "sm_90"
    registers_at_launch: int = 0  #: registers a thread that a launch gives, if not `registers`: setmaxnreg changes them
    banks: Mapping[int, bytes] = field(default_factory=dict)  #: constant banks other than 0
    variables: bytes = b""  #: global variables of the module, as they are when it is loaded
    addresses: tuple[
        tuple[int, int, int], ...
    ] = ()  #: (bank, byte in it, byte of `variables` whose address stands there)

    def __repr__(self) -> str:
        return f"<Program {self.name}: {len(self.instructions)} instructions, {self.registers} registers, {self.arch}>"

    @property
    def registers_per_thread(self) -> int:
        """Registers that a launch gives each thread."""
        return self.registers_at_launch or self.registers

    @property
    def rows_per_warp(self) -> int:
        """Rows of 32 words that a warp occupies in the simulated register file."""
        return self.registers + self.uniform_registers + SCRATCH_ROWS

    @cached_property
    def decoded(self) -> Decoded:
        """The decoded form. Instructions must not change after the first use."""
        rows: list[tuple[int, int]] = [(-1, 0)] * ZERO_ROWS
        index: dict[tuple[tuple[int, int], ...], int] = {}
        dump = self.registers + self.uniform_registers

        def shared(words: tuple[tuple[int, int], ...]) -> int:
            if all(w == (-1, 0) for w in words) and len(words) <= ZERO_ROWS:
                return -1
            at = index.get(words)
            if at is None:
                at = index[words] = len(rows)
                rows.extend(words)
            return -at - 1

        def source(operand: Operand | None, count: int) -> int:
            match operand:
                case None:
                    return -1
                case Reg(n):
                    return -1 if n == RZ else n
                case UReg(n):
                    return -1 if n == URZ else self.registers + n
                case Imm(bits):
                    return shared(tuple((-1, bits >> 32 * k & 0xFFFFFFFF) for k in range(max(count, 1))))
                case Const(bank, offset):
                    return shared(tuple((bank, offset + 4 * k) for k in range(max(count, 1))))

        def destination(operand: Operand | None) -> int:
            match operand:
                case Reg(n) if n != RZ:
                    return n
                case UReg(n) if n != URZ:
                    return self.registers + n
            return dump

        code = np.zeros((len(self.instructions), len(Col)), np.int32)
        for row, i in zip(code, self.instructions, strict=True):
            row[:] = (
                i.op, i.cls, i.guard, destination(i.dst), i.nd,
                source(i.a, i.na), source(i.b, i.nb), source(i.c, i.nc), i.na, i.nb, i.nc,
                i.smod, i.pd, i.pe, i.pa, i.pb, i.x, i.y, i.space, i.width, i.line, i.flags,
                i.stall, i.yield_, i.wbar, i.rbar, i.wait, i.reuse,
            )  # fmt: skip
        return Decoded(code, tuple(rows))

    def shared_row_values(self, banks: Mapping[int, npt.NDArray[np.uint8]]) -> npt.NDArray[np.uint32]:
        """The shared rows `[rows, 32]` with immediates and the words of `banks` filled in."""
        rows = self.decoded.shared_rows
        values = np.zeros((len(rows), WARP_SIZE), np.uint32)
        words = {bank: data.view(np.uint32) for bank, data in banks.items()}
        for row, (bank, value) in zip(values, rows, strict=True):
            row[:] = value if bank < 0 else words[bank][value // 4]
        return values

    def listing(self) -> str:
        """The program as `cuobjdump --dump-sass` would print it, without encodings."""
        lines = [f"\t\tFunction : {self.name}"]
        for k, i in enumerate(self.instructions):
            guard = "" if i.guard == PT else f"@{'!' if i.guard & 16 else ''}{predicate_name(i.guard & 15)} "
            body = f"{i.text} {i.operands or operand_text(i)}".rstrip()
            lines.append(f"        /*{k * INSTRUCTION_BYTES:04x}*/  {guard:>6}{body} ;")
        return "\n".join(lines)


def predicate_name(n: int) -> str:
    """P0..P6, PT, UP0..UP6, UPT."""
    return ("PT" if n == PT else f"P{n}") if n < 8 else ("UPT" if n == 15 else f"UP{n - 8}")


def operand_text(i: Instruction) -> str:
    """Operands of an instruction in SASS order, from its fields."""
    from sim.isa import SMOD_ABS_A, SMOD_NEG_A, SMOD_NOT_A

    def predicate(p: int) -> str:
        return ("!" if p & 16 else "") + predicate_name(p & 15)

    def with_modifiers(operand: Operand, k: int) -> str:
        text = str(operand)
        if i.smod & (SMOD_ABS_A << k):
            text = f"|{text}|"
        if i.smod & (SMOD_NEG_A << k):
            text = f"-{text}"
        if i.smod & (SMOD_NOT_A << k):
            text = f"~{text}"
        return text

    parts: list[str] = []
    offset = f"+{i.y:#x}" if i.y > 0 else f"-{-i.y:#x}" if i.y < 0 else ""
    if i.op in (Op.BRA, Op.CALL, Op.BRA_DIV, Op.BSSY):
        if i.op is Op.BSSY:
            parts.append(f"B{i.x}")
        return ", ".join([*parts, f"{i.y * INSTRUCTION_BYTES:#x}"])
    if i.op in (Op.BSYNC, Op.BREAK):
        return f"B{i.x}"
    if i.op is Op.S2R and i.dst is not None:
        from sim.isa import SpecialRegister

        return f"{i.dst}, SR_{SpecialRegister(i.x).name.replace('_X', '.X').replace('_Y', '.Y').replace('_Z', '.Z')}"
    if i.pd != PT or i.op in (Op.ISETP, Op.FSETP, Op.DSETP, Op.HSETP2, Op.PLOP3):
        parts.append(predicate(i.pd))
        if i.op in (Op.ISETP, Op.FSETP, Op.DSETP, Op.HSETP2, Op.PLOP3):
            parts.append(predicate(i.pe))
    if i.nd and i.dst is not None:
        parts.append(str(i.dst))
    if i.space != Space.NONE:
        base = "" if i.a is None else f"{i.a}.64" if i.na == 2 else str(i.a)
        parts.append(f"[{base}{offset}]")
    elif i.a is not None:
        parts.append(with_modifiers(i.a, 0))
    if i.b is not None:
        parts.append(with_modifiers(i.b, 1))
    if i.c is not None:
        parts.append(with_modifiers(i.c, 2))
    if i.op is Op.LOP3:
        parts.append(hex(i.x))
    if i.op is Op.LEA:
        parts.append(hex(i.x))
    if i.pa != PT or i.op in (Op.ISETP, Op.FSETP, Op.SEL, Op.IMNMX, Op.FMNMX, Op.FSEL):
        parts.append(predicate(i.pa))
    if i.op is Op.BAR:
        parts.append(hex(i.y))
    return ", ".join(parts)
