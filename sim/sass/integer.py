"""Translation of integer, logic, predicate and move instructions."""

from __future__ import annotations

from sim.isa import (
    ADD_64,
    FLAG_EXTENDED,
    FLAG_SIGNED,
    PT,
    RZ,
    SMOD_NEG_A,
    UPT,
    URZ,
    BoolOp,
    Compare,
    Op,
    ShiftMode,
    TimingClass,
)
from sim.program import Imm, Reg, UReg
from sim.sass.cursor import SLOTS, Cursor, opcode
from sim.sass.errors import SassError
from sim.sass.operands import Number, Register

COMPARES = {name: Compare[name] for name in ("F", "LT", "EQ", "LE", "GT", "NE", "GE", "T")}
BOOLEANS = {name: BoolOp[name] for name in ("AND", "OR", "XOR")}


def shape(c: Cursor, op: Op, cls: TimingClass) -> None:
    """What the instruction computes, and its timing class."""
    c.out.op, c.out.cls = op, cls


@opcode("MOV", uniform=("UMOV",))
def move(c: Cursor) -> None:
    shape(c, Op.MOV, TimingClass.MOV)
    c.destination()
    c.source("a")
    if isinstance(c.peek(), Number) and c.integer() != 0xF:
        raise SassError("a mask of bytes other than 0xf is not known")


@opcode("SEL", uniform=("USEL",))
def select(c: Cursor) -> None:
    shape(c, Op.SEL, TimingClass.ALU)
    c.destination()
    c.source("a")
    c.source("b")
    c.out.pa = c.predicate_source()


@opcode("IADD3", uniform=("UIADD3",))
def add3(c: Cursor) -> None:
    shape(c, Op.IADD3, TimingClass.ALU)
    extended = c.has("X")
    words = 2 if c.has("64") else 1
    c.destination(words)
    if c.at_predicate():
        c.out.pd = c.predicate_destination()
    if c.at_predicate():
        c.out.pe = c.predicate_destination()
    for slot in "abc":
        c.source(slot, words)
    if words == 2:
        c.out.x = ADD_64
        if extended or c.out.smod or (c.out.pd, c.out.pe) != (PT, PT):
            raise SassError("carries and signs of a 64-bit addition are not known")
    if extended:
        c.out.flags |= FLAG_EXTENDED
        c.out.pa = c.predicate_source(PT + 16)
        c.out.pb = c.predicate_source(PT + 16)
        _carry_of_constant(c)


def _carry_of_constant(c: Cursor) -> None:
    """A carry in that is always there (PT) becomes an addend of one; PT stands for no carry in a program."""
    for name in ("pa", "pb"):
        if getattr(c.out, name) in (PT, UPT):
            free = [slot for slot in "abc" if getattr(c.out, slot) in (Reg(RZ), UReg(URZ))]
            modified = [slot for slot in free if c.out.smod & (0b1001001 << SLOTS[slot])]
            if not free or modified:
                raise SassError("a carry that is always true is known beside a zero addend only")
            setattr(c.out, free[0], Imm(1))
            setattr(c.out, name, PT + 16)


@opcode("VIADD", uniform=("UVIADD",))
def add2(c: Cursor) -> None:
    """VIADD: the card counts it on the FMA pipe (`sm__inst_executed_pipe_fma` over the suite's kernels), not ALU."""
    shape(c, Op.IADD3, TimingClass.FP32)
    c.destination()
    c.source("a")
    c.source("b")


@opcode("IMAD", uniform=("UIMAD",))
def multiply_add(c: Cursor) -> None:
    shape(c, Op.IMAD, TimingClass.IMAD)
    c.drop("MOV", "IADD", "SHL")
    words = 1
    if c.has("WIDE"):
        shape(c, Op.IMAD_WIDE, TimingClass.IMAD_WIDE)
        words = 2
    elif c.has("HI"):
        shape(c, Op.IMAD_HI, TimingClass.IMAD_WIDE)
    if not c.has("U32"):
        c.out.flags |= FLAG_SIGNED
    c.drop("S32")
    extended = c.has("X")
    c.destination(words)
    if c.at_predicate():
        c.out.pd = c.predicate_destination()
    c.source("a")
    c.source("b")
    c.source("c", 1 if c.out.op is Op.IMAD else 2)
    if extended:
        c.out.flags |= FLAG_EXTENDED
        c.out.pa = c.predicate_source(PT)
        if c.at_predicate() and c.predicate_source() & 15 not in (7, 15):
            raise SassError("a second carry is not known")


@opcode("LEA", uniform=("ULEA",))
def load_effective_address(c: Cursor) -> None:
    shape(c, Op.LEA, TimingClass.ALU)
    high = c.has("HI")
    extended, signed = c.has("X"), c.has("SX32")
    if high:
        c.out.op = Op.LEA_HI
        if signed:
            c.out.flags |= FLAG_SIGNED
    elif signed:
        raise SassError("modifier .SX32 is not known without .HI")
    c.destination()
    if c.at_predicate():
        c.out.pd = c.predicate_destination()
    c.source("a")
    c.source("b")
    if high and not signed:
        c.source("c")
    c.out.x = c.integer()
    if extended:
        c.out.flags |= FLAG_EXTENDED
        c.out.pa = c.predicate_source(PT)
        if not high:
            raise SassError("modifier .X is not known without .HI")


@opcode("LOP3", uniform=("ULOP3",))
def logic(c: Cursor) -> None:
    shape(c, Op.LOP3, TimingClass.ALU)
    c.drop("LUT")
    every = c.has("PAND")
    if c.at_predicate():
        c.out.pd = c.predicate_destination()
    c.destination()
    for slot in "abc":
        c.source(slot)
    c.out.x = c.integer()
    c.out.pa = c.predicate_source(PT + 16)
    # PT stands for no predicate in a program
    if c.out.pa in (PT, UPT) and not every:
        raise SassError("a predicate result that is always true is not known")
    if every and c.out.pa in (PT, UPT):
        c.out.pa = PT + 16
    elif every:
        c.out.x |= 256


@opcode("PLOP3", uniform=("UPLOP3",))
def predicate_logic(c: Cursor) -> None:
    shape(c, Op.PLOP3, TimingClass.SETP)
    c.drop("LUT")
    c.out.pd, c.out.pe = c.predicate_destination(), c.predicate_destination()
    c.out.pa, c.out.pb, c.out.y = c.predicate_source(), c.predicate_source(), c.predicate_source()
    c.out.x = c.integer()
    c.out.x |= c.integer() << 8


@opcode("SHF", uniform=("USHF",))
def funnel_shift(c: Cursor) -> None:
    shape(c, Op.SHF, TimingClass.ALU)
    mode = 0
    if c.has("R"):
        mode |= ShiftMode.RIGHT
    elif not c.has("L"):
        raise SassError("it names no direction")
    if c.has("W"):
        mode |= ShiftMode.WRAP
    types = {"U32": 0, "S32": ShiftMode.SIGNED, "U64": ShiftMode.WIDE, "S64": ShiftMode.SIGNED | ShiftMode.WIDE}
    mode |= c.pick(types, 0)
    if c.has("HI"):
        mode |= ShiftMode.HI
    c.destination()
    for slot in "abc":
        c.source(slot)
    c.out.x = mode


@opcode("ISETP", uniform=("UISETP",))
def compare(c: Cursor) -> None:
    shape(c, Op.ISETP, TimingClass.SETP)
    comparison = c.need(COMPARES, "comparison")
    unsigned = c.has("U32")
    c.drop("S32")
    how = c.pick(BOOLEANS, BoolOp.AND)
    extended = c.has("EX")
    c.out.x = comparison | how << 4 | unsigned << 8 | extended << 9
    c.out.pd, c.out.pe = c.predicate_destination(), c.predicate_destination()
    c.source("a")
    c.source("b")
    c.out.pa = c.predicate_source()
    if extended:
        c.out.pb = c.predicate_source()


@opcode("IMNMX", "VIMNMX", uniform=("UIMNMX",))
def extreme(c: Cursor) -> None:
    _extreme(c, 0, "ab")


@opcode("VIADDMNMX")
def extreme_of_sum(c: Cursor) -> None:
    _extreme(c, 2, "acb")


def _extreme(c: Cursor, kind: int, slots: str) -> None:
    """The lesser or the greater, by a predicate, of what is read in the order of `slots`; `kind` is of `Col.X`."""
    shape(c, Op.IMNMX, TimingClass.ALU)
    c.out.x = kind | c.has("U32")
    c.drop("S32")
    c.destination()
    for slot in slots:
        c.source(slot)
    c.out.pa = c.predicate_source()


@opcode("VABSDIFF")
def absolute_difference(c: Cursor) -> None:
    shape(c, Op.IDP, TimingClass.ALU)
    c.out.x = 4 | c.has("U32")
    c.drop("S32")
    c.destination()
    for slot in "abc":
        c.source(slot)
    if c.out.smod & ~(SMOD_NEG_A << 2):
        raise SassError("a sign at the difference's operands is not known")


@opcode("VABSDIFF4")
def byte_differences(c: Cursor) -> None:
    shape(c, Op.IDP, TimingClass.ALU)
    if not c.has("U8"):
        raise SassError("only unsigned bytes are known")
    c.out.x = 8 if c.has("ACC") else 8 | 16
    c.destination()
    for slot in "abc":
        c.source(slot)


@opcode("IABS")
def absolute(c: Cursor) -> None:
    shape(c, Op.IABS, TimingClass.ALU)
    c.destination()
    c.source("a")


@opcode("POPC", "BREV", uniform=("UPOPC", "UBREV"))
def bits(c: Cursor) -> None:
    shape(c, Op.POPC if c.base.endswith("POPC") else Op.BREV, TimingClass.XU)
    c.destination()
    c.source("a")


@opcode("FLO", uniform=("UFLO",))
def find_leading_one(c: Cursor) -> None:
    shape(c, Op.FLO, TimingClass.XU)
    c.out.x = 0 if c.has("U32") else 1
    c.drop("S32")
    c.out.x |= 2 * c.has("SH")
    c.destination()
    c.source("a")
    if c.at_predicate() and c.predicate_destination() != PT:
        raise SassError("its predicate result is not known")


@opcode("PRMT", uniform=("UPRMT",))
def permute(c: Cursor) -> None:
    shape(c, Op.PRMT, TimingClass.ALU)
    c.out.x = c.pick({"F4E": 1, "B4E": 2, "RC8": 3, "ECL": 4, "ECR": 5, "RC16": 6}, 0)
    c.destination()
    for slot in "abc":
        c.source(slot)


@opcode("SGXT", uniform=("USGXT",))
def extend(c: Cursor) -> None:
    shape(c, Op.SGXT, TimingClass.ALU)
    c.out.x = int(c.has("U32"))
    c.drop("S32")
    wrapped = c.has("W")
    c.destination()
    c.source("a")
    if wrapped and not isinstance(c.peek(), Number):
        raise SassError("modifier .W is known with an immediate width only")
    c.source("b")
    if wrapped and isinstance(c.out.b, Imm):
        c.out.b = Imm(c.out.b.bits & 31)


@opcode("BMSK", uniform=("UBMSK",))
def bit_mask(c: Cursor) -> None:
    shape(c, Op.BMSK, TimingClass.ALU)
    c.drop("C")
    c.destination()
    c.source("a")
    c.source("b")


@opcode("IDP")
def dot_product(c: Cursor) -> None:
    shape(c, Op.IDP, TimingClass.IMAD)
    if not c.has("4A"):
        raise SassError("only IDP.4A is known")
    kinds = [m for m in c.modifiers if m in ("U8", "S8")]
    c.modifiers = [m for m in c.modifiers if m not in ("U8", "S8")]
    if len(kinds) != 2:
        raise SassError("it names no types")
    c.out.x = (kinds[0] == "U8") | (kinds[1] == "U8") << 1
    c.destination()
    for slot in "abc":
        c.source(slot)


def _byte(c: Cursor, operand_suffixes: tuple[str, ...]) -> int:
    """The byte B0..B3 that a modifier or an operand's suffix names."""
    for name in operand_suffixes:
        if name in ("B0", "B1", "B2", "B3"):
            return int(name[1])
        raise SassError(f"operand suffix .{name} is not known here")
    return c.pick({f"B{k}": k for k in range(4)}, 0)


@opcode("P2R")
def predicates_to_register(c: Cursor) -> None:
    shape(c, Op.P2R, TimingClass.ALU)
    c.out.x = _byte(c, ())
    c.destination()
    if c.word() != "PR":
        raise SassError("only PR is known as its source")
    c.source("a")
    c.source("b")


@opcode("R2P")
def register_to_predicates(c: Cursor) -> None:
    shape(c, Op.R2P, TimingClass.ALU)
    if c.word() != "PR":
        raise SassError("only PR is known as its destination")
    operand = c.peek()
    c.out.x = _byte(c, operand.suffixes if isinstance(operand, Register) else ())
    c.source("a", suffixes={f"B{k}": k for k in range(4)})
    c.source("b")


@opcode("LEPC")
def program_counter(c: Cursor) -> None:
    """LEPC: the address of the next instruction; code lies at address 0."""
    shape(c, Op.MOV, TimingClass.ALU)
    c.destination(2)
    if c.operands:
        address = c.target()
    else:
        address = c.address
    c.out.a, c.out.na = Imm(address), 2
