"""Translation of special registers and of what a warp's lanes do together."""

from __future__ import annotations

from sim.isa import (
    FLAG_SIGNED,
    FLAG_UNIFORM,
    LOCAL_WINDOW,
    SHARED_WINDOW,
    THREAD_NUMBERS,
    AtomicOp,
    Op,
    SpecialRegister,
    TimingClass,
)
from sim.program import Imm
from sim.sass.cursor import Cursor, opcode
from sim.sass.errors import SassError
from sim.sass.integer import shape
from sim.sass.operands import Word

_SPECIAL = {
    "SR_TID.X": SpecialRegister.TID_X,
    "SR_TID.Y": SpecialRegister.TID_Y,
    "SR_TID.Z": SpecialRegister.TID_Z,
    "SR_CTAID.X": SpecialRegister.CTAID_X,
    "SR_CTAID.Y": SpecialRegister.CTAID_Y,
    "SR_CTAID.Z": SpecialRegister.CTAID_Z,
    "SR_LANEID": SpecialRegister.LANEID,
    "SR_WARPID": SpecialRegister.WARPID,
    "SR_VIRTUALSMID": SpecialRegister.SMID,
    "SR_SMID": SpecialRegister.SMID,
    "SR_CLOCKLO": SpecialRegister.CLOCKLO,
    "SR_CLOCKHI": SpecialRegister.CLOCKHI,
    "SR_GLOBALTIMERLO": SpecialRegister.GLOBALTIMERLO,
    "SR_GLOBALTIMERHI": SpecialRegister.GLOBALTIMERHI,
    "SR_EQMASK": SpecialRegister.EQMASK,
    "SR_LTMASK": SpecialRegister.LTMASK,
    "SR_LEMASK": SpecialRegister.LEMASK,
    "SR_GTMASK": SpecialRegister.GTMASK,
    "SR_GEMASK": SpecialRegister.GEMASK,
    "SR_CgaCtaId": SpecialRegister.CGACTAID,
    "SR_VIRTID": SpecialRegister.VIRTID,
}
_WINDOWS = {"SR_SWINHI": SHARED_WINDOW >> 32, "SR_LWINHI": LOCAL_WINDOW >> 32}
_SHUFFLES = {"IDX": 0, "UP": 1, "DOWN": 2, "BFLY": 3}
_REDUCTIONS = {"AND": AtomicOp.AND, "OR": AtomicOp.OR, "XOR": AtomicOp.XOR, "SUM": AtomicOp.ADD,
               "MIN": AtomicOp.MIN, "MAX": AtomicOp.MAX}  # fmt: skip


def _special(c: Cursor) -> SpecialRegister:
    name = c.word()
    if name not in _SPECIAL:
        raise SassError(f"special register {name} is not known")
    return _SPECIAL[name]


@opcode("S2R", "S2UR")
def special_register(c: Cursor) -> None:
    shape(c, Op.S2R, TimingClass.S2R)
    c.destination()
    operand = c.peek()
    if isinstance(operand, Word) and operand.text in _WINDOWS:
        c.out.op, c.out.a, c.out.na = Op.MOV, Imm(_WINDOWS[c.word()]), 1
        return
    c.out.x = _special(c)
    if c.out.x in THREAD_NUMBERS:
        c.out.cls = TimingClass.TID


@opcode("CS2R")
def copied_special_register(c: Cursor) -> None:
    words = 1 if c.has("32") else 2
    c.destination(words)
    operand = c.peek()
    if isinstance(operand, Word) and operand.text == "SRZ":
        c.take()
        shape(c, Op.MOV, TimingClass.ALU)
        c.out.a, c.out.na = Imm(0), words
        return
    shape(c, Op.S2R, TimingClass.S2R)
    c.out.x = _special(c)
    if words == 2 and c.out.x not in (SpecialRegister.CLOCKLO, SpecialRegister.GLOBALTIMERLO):
        raise SassError("only a counter has 64 bits")


@opcode("SHFL")
def shuffle(c: Cursor) -> None:
    shape(c, Op.SHFL, TimingClass.SHUFFLE)
    c.out.x = c.need(_SHUFFLES, "way to shuffle")
    c.out.pd = c.predicate_destination()
    c.destination()
    c.source("a")
    c.source("b")
    c.source("c")


@opcode("VOTE", "VOTEU")
def vote(c: Cursor) -> None:
    shape(c, Op.VOTE, TimingClass.VOTE)
    c.out.x = c.need({"ALL": 0, "ANY": 1, "EQ": 2}, "way to vote")
    if c.base == "VOTEU":
        c.out.flags |= FLAG_UNIFORM
    if not c.at_predicate():
        c.destination()
    c.out.pd = c.predicate_destination()
    c.out.pa = c.predicate_source()


@opcode("MATCH")
def match(c: Cursor) -> None:
    shape(c, Op.MATCH, TimingClass.VOTE)
    c.out.x = c.need({"ANY": 0, "ALL": 1}, "way to match")
    words = 2 if c.has("U64") else 1
    c.drop("U32")
    if c.at_predicate():
        c.out.pd = c.predicate_destination()
    c.destination()
    c.source("a", words)


@opcode("REDUX")
def reduce_lanes(c: Cursor) -> None:
    shape(c, Op.REDUX, TimingClass.VOTE)
    c.out.x = c.pick(_REDUCTIONS, AtomicOp.AND)
    if c.has("S32"):
        c.out.flags |= FLAG_SIGNED
    c.drop("U32")
    c.destination()
    c.source("a")


@opcode("R2UR")
def to_uniform_register(c: Cursor) -> None:
    shape(c, Op.R2UR, TimingClass.VOTE)
    c.drop("FILL", "BROADCAST", "OR")
    if c.at_predicate() and c.predicate_destination() != 7:
        raise SassError("its predicate result is not known")
    c.destination()
    c.source("a")
