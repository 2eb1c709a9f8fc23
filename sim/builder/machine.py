"""Machine form: instructions of the real set on registers that have no number yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sim.isa import Op, Space, TimingClass
from sim.program import Const, Imm, Reg, SourceLine, UReg

ZERO = Reg(255)


class VReg:
    """A register to be: `width` 32-bit words side by side, or a predicate. `kind` is R, U or P."""

    __slots__ = ("id", "kind", "width")

    def __init__(self, id_: int, kind: str, width: int = 1) -> None:
        self.id = id_
        self.kind = kind
        self.width = width

    def __repr__(self) -> str:
        return f"{self.kind.lower()}{self.id}"


@dataclass(frozen=True, slots=True)
class Lane:
    """Word `word` of a register and those after it."""

    reg: VReg
    word: int = 0

    def __repr__(self) -> str:
        return f"{self.reg!r}" + (f".{self.word}" if self.reg.width > 1 else "")


Operand = Lane | Reg | UReg | Imm | Const


@dataclass(frozen=True, slots=True)
class Guard:
    """A predicate as a source, possibly negated."""

    reg: VReg
    negated: bool = False

    def inverted(self) -> Guard:
        return Guard(self.reg, not self.negated)


@dataclass(eq=False, slots=True)
class Machine:
    """An instruction. Fields follow `sim.program.Instruction`; predicates are None for always true."""

    op: Op
    cls: TimingClass
    text: str
    dst: Lane | None = None
    nd: int = 0
    a: Operand | None = None
    b: Operand | None = None
    c: Operand | None = None
    na: int = 0
    nb: int = 0
    nc: int = 0
    smod: int = 0
    pd: VReg | None = None
    pe: VReg | None = None
    pa: Guard | bool | None = None  # False: the constant !PT
    pb: Guard | None = None
    x: int = 0
    y: int = 0
    space: Space = Space.NONE
    width: int = 0
    guard: Guard | None = None
    flags: int = 0
    line: int = -1
    operands: str = ""
    target: Block | None = None
    merge: bool = False  #: a guarded write that keeps the other threads' old value
    copy: bool = False  #: moves one register to another; goes away when both get the same number
    pinned: bool = False  #: stays first in its block
    keeps: tuple[Lane, ...] = ()  #: registers that must stay until here: products on their way may still read them
    phantom: bool = False  #: no instruction: from here on, what its destination held before is not needed

    def reads(self) -> Iterator[tuple[VReg, int, int]]:
        """(register, first word, words) of each register source."""
        if self.na and type(self.a) is Lane:
            yield self.a.reg, self.a.word, self.na
        if self.nb and type(self.b) is Lane:
            yield self.b.reg, self.b.word, self.nb
        if self.nc and type(self.c) is Lane:
            yield self.c.reg, self.c.word, self.nc
        if self.merge and self.dst is not None:
            yield self.dst.reg, self.dst.word, self.nd
        for lane in self.keeps:
            yield lane.reg, lane.word, 1

    def predicate_reads(self) -> Iterator[VReg]:
        """Predicates that are sources."""
        for p in (self.guard, self.pa, self.pb):
            if type(p) is Guard:
                yield p.reg

    def predicate_writes(self) -> Iterator[VReg]:
        if self.pd is not None:
            yield self.pd
        if self.pe is not None:
            yield self.pe


@dataclass(eq=False, slots=True)
class Block:
    """Instructions without a branch target inside, and where control goes after them."""

    number: int
    code: list[Machine] = field(default_factory=list)
    successors: list[Block] = field(default_factory=list)
    depth: int = 0  #: loops around it

    def __repr__(self) -> str:
        return f"<block {self.number}>"


@dataclass(eq=False, slots=True)
class Code:
    """A kernel in machine form: blocks in layout order."""

    blocks: list[Block]
    registers: list[VReg]
    lines: Sequence[SourceLine] = ()  #: that instructions' lines number
    registers_at_launch: int = 0  #: a thread; 0: what the code needs
    local_bytes: int = 0  #: a thread, before values that registers do not hold

    def new(self, kind: str, width: int = 1) -> VReg:
        reg = VReg(len(self.registers), kind, width)
        self.registers.append(reg)
        return reg
