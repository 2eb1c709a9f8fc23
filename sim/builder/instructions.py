"""Making machine instructions: the common shapes, with their operand counts and timing classes."""

from __future__ import annotations

from typing import Any

from sim.builder.machine import ZERO, Guard, Lane, Machine, Operand, VReg
from sim.isa import (
    FLAG_CONSTANT_OPERAND,
    FLAG_EXTENDED,
    FLAG_SIGNED,
    FLAG_UNIFORM,
    SMOD_NEG_B,
    SMOD_NOT_B,
    THREAD_NUMBERS,
    BoolOp,
    Compare,
    Op,
    ShiftMode,
    Space,
    SpecialRegister,
    TimingClass,
)
from sim.program import Const, Imm

STACK_POINTER = 0x28  #: byte offset in constant bank 0, cc 9.0
COMPARES = {"lt": Compare.LT, "eq": Compare.EQ, "le": Compare.LE, "gt": Compare.GT, "ne": Compare.NE, "ge": Compare.GE}
COMPARES |= {k + "u": Compare(v | 8) for k, v in COMPARES.items()}


def alu(op: Op, text: str, dst: Lane | None, a: Any = None, b: Any = None, c: Any = None, **more: Any) -> Machine:
    """An instruction on single words."""
    cls = TimingClass.IMAD if op is Op.IMAD else TimingClass.ALU
    return Machine(
        op, more.pop("cls", cls), text, dst, more.pop("nd", 1 if dst is not None else 0), a, b, c,
        int(a is not None), int(b is not None), int(c is not None), **more,
    )  # fmt: skip


def word_of(operand: Any, k: int) -> Any:
    """Word `k` of an operand."""
    if isinstance(operand, Lane):
        return Lane(operand.reg, operand.word + k) if k else operand
    if isinstance(operand, Const):
        return Const(operand.bank, operand.offset + 4 * k)
    return operand


def words(operand: Any) -> tuple[Any, Any]:
    """Low and high word of a 64-bit operand."""
    return operand, word_of(operand, 1)


# --- moves and loads of constants
def move(dst: Lane, source: Operand) -> Machine:
    """One word moved."""
    if dst.reg.kind == "U":
        return Machine(Op.MOV, TimingClass.UNIFORM, "UMOV", dst, 1, a=source, na=1, flags=FLAG_UNIFORM)
    is_copy = isinstance(source, Lane) and source.reg.kind == dst.reg.kind
    return Machine(Op.MOV, TimingClass.MOV, "MOV", dst, 1, a=source, na=1, copy=is_copy)


def move_immediate(dst: Lane, bits: int, floating: bool) -> Machine:
    return move(dst, Imm(bits, floating) if bits else ZERO)


def special_register(dst: Lane, register: SpecialRegister) -> Machine:
    """S2R, or S2UR to a uniform register."""
    uniform = dst.reg.kind == "U"
    flags = FLAG_UNIFORM if uniform else 0
    cls = TimingClass.TID if register in THREAD_NUMBERS else TimingClass.S2R
    return Machine(Op.S2R, cls, "S2UR" if uniform else "S2R", dst, 1, x=register, flags=flags)


def load_constant(dst: Lane, offset: int, width: int, storage: Any = None) -> Machine:
    """LDC of a word or two, or of a narrow argument."""
    size, suffix, flags = 4 * width, {1: "", 2: ".64"}[width], 0
    if storage is not None:
        size, suffix = storage.bytes, f".{'S' if storage.kind == 'i' else 'U'}{storage.bits}"
        flags = FLAG_SIGNED if storage.kind == "i" else 0
    return Machine(
        Op.LD, TimingClass.LDC, "LDC" + suffix, dst, width, y=offset, space=Space.CONSTANT, width=size, flags=flags
    )


def stack_pointer() -> Machine:
    """LDC of the stack's top, with which every compiled kernel begins; nothing here reads it, so it goes to RZ."""
    m = Machine(Op.LD, TimingClass.LDC, "LDC", y=STACK_POINTER, space=Space.CONSTANT, width=4)
    m.operands, m.pinned = f"RZ, c[0x0][{STACK_POINTER:#x}]", True
    return m


def load_uniform(dst: Lane, offset: int, width: int) -> Machine:
    """ULDC: a constant-bank word or two into uniform registers."""
    text = "ULDC" + (".64" if width == 2 else "")
    flags = FLAG_UNIFORM | FLAG_CONSTANT_OPERAND
    return Machine(Op.MOV, TimingClass.UNIFORM, text, dst, width, a=Const(0, offset), na=width, flags=flags)


# --- shifts, sums and comparisons
def shift_left(dst: Lane, a: Any, amount: Any) -> Machine:
    return alu(Op.SHF, "SHF.L.U32", dst, a, amount, ZERO)


def shift_right(dst: Lane, a: Any, amount: Any, signed: bool) -> Machine:
    """The word `a` shifted right."""
    mode = ShiftMode.RIGHT | ShiftMode.HI | (ShiftMode.SIGNED if signed else 0)
    return alu(Op.SHF, f"SHF.R.{'S' if signed else 'U'}32.HI", dst, ZERO, amount, a, x=mode)


def sign_words(dst: Lane, a: Any) -> Machine:
    """All ones where `a` is negative, else zero."""
    return shift_right(dst, a, Imm(31), signed=True)


def add_pairs(dst: Lane, a: tuple[Any, Any], b: tuple[Any, Any], carry: VReg, minus: bool) -> list[Machine]:
    """The 64-bit sum, or with `minus` difference, of two pairs of words."""
    low = alu(Op.IADD3, "IADD3", dst, a[0], b[0], ZERO, smod=SMOD_NEG_B if minus else 0, pd=carry)
    high = alu(Op.IADD3, "IADD3.X", word_of(dst, 1), a[1], b[1], ZERO, smod=SMOD_NOT_B if minus else 0)
    high.flags, high.pa = FLAG_EXTENDED, Guard(carry)
    return [low, high]


def choose(dst: Lane, a: Any, b: Any, test: Guard) -> Machine:
    """SEL: `a` where `test` holds, else `b`."""
    return alu(Op.SEL, "SEL", dst, a, b, pa=test)


def compare_words(
    attr: str, a: Any, b: Any, unsigned: bool, pd: VReg, other: Guard | None = None, how: BoolOp = BoolOp.AND
) -> Machine:
    """ISETP of 32-bit words, combined with the condition `other`."""
    text = f"ISETP.{attr.upper()}{'.U32' if unsigned else ''}.{how.name}"
    code = COMPARES[attr] | how << 4 | unsigned << 8
    return alu(Op.ISETP, text, None, a, b, x=code, pd=pd, pa=other, cls=TimingClass.SETP)


def compare_pairs(
    attr: str, a: tuple[Any, Any], b: tuple[Any, Any], unsigned: bool, pd: VReg, low: VReg,
    other: Guard | None = None, how: BoolOp = BoolOp.AND,
) -> list[Machine]:  # fmt: skip
    """64-bit comparison: low words unsigned, then high words, which decide unless they are equal."""
    first = compare_words(attr, a[0], b[0], True, low)
    second = compare_words(attr, a[1], b[1], unsigned, pd, other, how)
    second.text += ".EX"
    second.x |= 1 << 9
    second.pb = Guard(low)
    return [first, second]
