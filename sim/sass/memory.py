"""Translation of memory instructions: loads, stores, atomics, matrices, asynchronous copies, fences."""

from __future__ import annotations

from sim.isa import (
    FLAG_CONSTANT_OPERAND,
    FLAG_COUNT,
    FLAG_NO_ALLOCATE,
    FLAG_SIGNED,
    FLAG_STRONG,
    FLAG_UNIFORM,
    FLAG_ZERO_FILL,
    PT,
    RZ,
    SCALE_SHIFT,
    SHARED_WINDOW,
    URZ,
    AtomicOp,
    Compare,
    NumberType,
    Op,
    Space,
    TimingClass,
)
from sim.program import Const, Imm, Operand, Reg, UReg
from sim.sass.cursor import Cursor, opcode
from sim.sass.errors import SassError
from sim.sass.integer import shape
from sim.sass.operands import Constant, Memory, Word

_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "32": 4, "64": 8, "128": 16}
#: cache hints, prefetch sizes and scopes within an SM, none of which the model distinguishes
_HINTS = (
    "EF", "EL", "LU", "EU", "NA", "CONSTANT", "PRIVATE", "SYS", "LTC64B", "LTC128B", "LTC256B", "WEAK", "U",
    "DEFAULT", "ENL2", "MMIO",
)  # fmt: skip
_SCALES = {"X4": 2, "X8": 3, "X16": 4}


def address(c: Cursor, memory: Memory, further: str, wide: bool) -> None:
    """The address: its register at a, a uniform one beside it at slot `further`, its offset at Y."""
    out = c.out
    register, uniform = memory.register, memory.uniform
    suffixes = (*(register.suffixes if register else ()), *(uniform.suffixes if uniform else ()))
    words = 2 if wide and "U32" not in suffixes and "S32" not in suffixes else 1
    for suffix in suffixes:
        if suffix in _SCALES:
            out.flags |= _SCALES[suffix] << SCALE_SHIFT
        elif suffix not in ("64", "U32"):
            raise SassError(f"address suffix .{suffix} is not known")
    base: Operand | None = None
    if register is not None and register.n != RZ:
        base = Reg(register.n)
    added: Operand | None = UReg(uniform.n) if uniform is not None and uniform.n != URZ else None
    if base is None and added is not None:
        if out.flags >> SCALE_SHIFT & 7:
            raise SassError("an address of a uniform register alone is not known here")
        base, added = added, None
        words = 2 if wide else 1
    out.a, out.na = base, words
    if added is not None:
        if not further:
            raise SassError("a uniform register in this address is not known")
        setattr(out, further, added)
        setattr(out, f"n{further}", 2 if wide else 1)
    out.y = memory.offset


def _signed_offset(c: Cursor, shared: bool) -> None:
    """Shared addresses of compiled code count from the window's first byte; those of a program from the block's own."""
    if shared:
        c.out.y -= c.around.shared_window


def _space(c: Cursor) -> tuple[Space, bool]:
    """The memory that LDG, STS, ... access, and whether its addresses have 64 bits."""
    letter = c.base[-1]
    spaces = {"G": Space.GLOBAL, "S": Space.SHARED, "L": Space.LOCAL}
    return spaces.get(letter, Space.GENERIC), letter not in "SL" and c.has("E")


def _access(c: Cursor) -> int:
    """Width, sign, strength of a load or store; returns its bytes."""
    for name in ("S8", "S16"):
        if name in c.modifiers:
            c.out.flags |= FLAG_SIGNED
    width = c.pick(_WIDTHS, 4)
    if c.has("STRONG"):
        if c.has("GPU") or "SYS" in c.modifiers or c.has("VC"):
            c.out.flags |= FLAG_STRONG
        c.drop("SM", "CTA")
    c.drop(*_HINTS)
    return width


@opcode("LD", "LDG", "LDS", "LDL")
def load(c: Cursor) -> None:
    shape(c, Op.LD, TimingClass.LOAD_STORE)
    c.out.space, wide = _space(c) if c.base != "LD" else (Space.GENERIC, c.has("E"))
    c.out.width = _access(c)
    if c.out.flags & FLAG_STRONG and c.out.space in (Space.SHARED, Space.LOCAL):
        c.out.flags &= ~FLAG_STRONG
    if c.at_predicate():  # LDG.E with a predicate for the data's being valid
        if c.predicate_destination() != 7:
            raise SassError("its predicate result is not known")
    c.destination(max(1, c.out.width // 4))
    address(c, c.memory(), "b", wide)
    _signed_offset(c, c.out.space is Space.SHARED)


@opcode("ST", "STG", "STS", "STL")
def store(c: Cursor) -> None:
    shape(c, Op.ST, TimingClass.LOAD_STORE)
    c.out.space, wide = _space(c) if c.base != "ST" else (Space.GENERIC, c.has("E"))
    c.out.width = _access(c)
    c.out.flags &= ~(FLAG_SIGNED | FLAG_STRONG)
    address(c, c.memory(), "c", wide)
    _signed_offset(c, c.out.space is Space.SHARED)
    c.source("b", max(1, c.out.width // 4))


@opcode("LDC", "ULDC")
def load_constant(c: Cursor) -> None:
    """LDC; ULDC of a fixed place is a move of a constant operand."""
    uniform = c.base == "ULDC"
    for name in ("S8", "S16"):
        if name in c.modifiers:
            c.out.flags |= FLAG_SIGNED
    width = c.pick(_WIDTHS, 4)
    c.drop("IL", "IS", "ISL")
    words = max(1, width // 4)
    c.destination(words)
    operand = c.take()
    if not isinstance(operand, Constant):
        raise SassError(f"{operand} is no constant")
    if uniform and width >= 4 and operand.index is None:
        shape(c, Op.MOV, TimingClass.UNIFORM)
        c.out.a, c.out.na = Const(operand.bank, operand.offset), words
        c.out.flags |= FLAG_CONSTANT_OPERAND | FLAG_UNIFORM
        return
    shape(c, Op.LD, TimingClass.UNIFORM if uniform else TimingClass.LDC)
    c.out.space, c.out.width, c.out.y, c.out.x = Space.CONSTANT, width, operand.offset, operand.bank
    index = operand.index
    if index is not None and index.n != (URZ if index.kind == "UR" else RZ):
        c.out.a, c.out.na = (UReg(index.n) if index.kind == "UR" else Reg(index.n)), 1


# --- atomics

_OPERATIONS = {op.name: op for op in AtomicOp if op.name != "CAST"}
_NUMBERS = {
    "S32": NumberType.S32, "U32": NumberType.U32, "S64": NumberType.S64, "U64": NumberType.U64,
    "64": NumberType.U64, "F32": NumberType.F32, "F64": NumberType.F64, "F16": NumberType.F16,
    "F16x2": NumberType.F16, "BF16_V2": NumberType.BF16, "BF16x2": NumberType.BF16, "32": NumberType.U32,
}  # fmt: skip


def _atomic_type(c: Cursor) -> tuple[NumberType, int]:
    """The type of an atomic's operands and their bytes."""
    packed = any(m in ("F16x2", "BF16_V2", "BF16x2") for m in c.modifiers)
    wide = c.has("64")
    kind = c.pick(_NUMBERS, NumberType.U64 if wide else NumberType.U32)
    c.drop("FTZ", "RN")
    if kind in (NumberType.F16, NumberType.BF16):
        return kind, 4 if packed else 2
    return kind, 8 if kind in (NumberType.U64, NumberType.S64, NumberType.F64) else 4


def _scope(c: Cursor) -> None:
    c.drop("STRONG", "GPU", "SM", "CTA", "SYS", *_HINTS)


def _operation(c: Cursor) -> AtomicOp:
    """What an atomic does; with its type and width."""
    if c.has("CAST"):
        c.drop("SPIN")
        operation = AtomicOp.CAST
    else:
        operation = c.need(_OPERATIONS, "operation that is known")
    kind, c.out.width = _atomic_type(c)
    c.out.x = operation | kind << 4
    return operation


@opcode("ATOM", "ATOMG", "RED", "REDG")
def global_atomic(c: Cursor) -> None:
    reduction = c.base.startswith("RED")
    shape(c, Op.RED if reduction else Op.ATOM, TimingClass.LOAD_STORE)
    generic = c.base in ("ATOM", "RED")
    c.out.space = Space.GENERIC if generic else Space.GLOBAL
    wide = c.has("E")
    _scope(c)
    operation = _operation(c)
    words = max(1, c.out.width // 4)
    if not reduction:
        if c.at_predicate():  # of a generic atomic: whether it was in global memory
            c.out.pd = c.predicate_destination()
            if c.out.pd != PT and not generic:
                raise SassError("its predicate result is not known")
        c.destination(1 if operation is AtomicOp.CAST else words)
    compares = operation in (AtomicOp.CAS, AtomicOp.CAST)
    address(c, c.memory(), "" if compares else "c", wide)
    _data(c, AtomicOp.CAS if compares else operation, words)


def _data(c: Cursor, operation: AtomicOp, words: int) -> None:
    """What an atomic brings along: its operand at b, a value to compare with at c."""
    if operation is AtomicOp.CAS:
        c.source("c", words)
    c.source("b", words)


@opcode("ATOMS")
def shared_atomic(c: Cursor) -> None:
    shape(c, Op.ATOM, TimingClass.LOAD_STORE)
    c.out.space = Space.SHARED
    if c.has("POPC"):
        if not (c.has("INC") and c.has("32")):
            raise SassError("only ATOMS.POPC.INC.32 is known")
        c.out.x, c.out.width = AtomicOp.ADD | NumberType.U32 << 4, 4
        c.destination()
        address(c, c.memory(), "c", False)
        _signed_offset(c, True)
        c.out.b, c.out.nb = Imm(1), 1
        c.out.flags |= FLAG_COUNT
        return
    operation = _operation(c)
    words = c.out.width // 4
    if c.at_predicate():
        c.out.pd = c.predicate_destination()
        if c.out.pd != 7:
            raise SassError("its predicate result is not known")
    c.destination(words if operation is not AtomicOp.CAST else 1)
    compares = operation in (AtomicOp.CAS, AtomicOp.CAST)
    address(c, c.memory(), "" if compares else "c", False)
    _signed_offset(c, True)
    _data(c, AtomicOp.CAS if compares else operation, words)


# --- matrices and asynchronous copies


@opcode("QSPC")
def query_space(c: Cursor) -> None:
    """QSPC: whether a generic address lies in shared memory (S); no block sees another's (D)."""
    shape(c, Op.ISETP, TimingClass.SETP)
    other = c.has("D")
    if not (c.has("E") and (other or c.has("S"))):
        raise SassError("only QSPC.E.S and QSPC.E.D are known")
    c.out.pd = c.predicate_destination()
    c.destination()
    address = c.memory()
    if c.out.nd or address.register is None or address.uniform is not None or address.offset:
        raise SassError("only a predicate result, of a register's address, is known")
    c.out.dst = None
    c.out.x = Compare.F if other else Compare.EQ
    c.out.a, c.out.na = Reg(address.register.n + 1), 1
    c.out.b, c.out.nb = Imm(SHARED_WINDOW >> 32), 1


@opcode("LDSM", "STSM")
def matrices(c: Cursor) -> None:
    load_ = c.base == "LDSM"
    shape(c, Op.LDSM if load_ else Op.STSM, TimingClass.LOAD_STORE)
    c.out.space = Space.SHARED
    if not c.has("16"):
        raise SassError("only matrices of 16-bit elements are known")
    c.out.x = c.need({"M88": 0, "MT88": 1}, "layout that is known")
    count = c.out.width = c.pick({"2": 2, "4": 4}, 1)
    if load_:
        c.destination(count)
    address(c, c.memory(), "b" if load_ else "c", False)
    _signed_offset(c, True)
    if not load_:
        c.source("b", count)


@opcode("LDGSTS")
def copy_async(c: Cursor) -> None:
    shape(c, Op.LDGSTS, TimingClass.LOAD_STORE)
    out = c.out
    out.space = Space.GLOBAL
    wide = c.has("E")
    if c.has("BYPASS"):
        out.flags |= FLAG_NO_ALLOCATE
    filled = c.has("ZFILL")
    out.width = c.pick(_WIDTHS, 4)
    c.drop("STRONG", "GPU", "ACCESS", *_HINTS)
    to, origin = c.memory(), c.memory()
    if to.uniform is not None and to.uniform.n != URZ and to.register is not None and to.register.n != RZ:
        raise SassError("a uniform register in the shared address is not known")
    address(c, to, "", False)
    _signed_offset(c, True)
    offset, scale = out.y, out.flags
    a, na = out.a, out.na
    address(c, origin, "", wide)
    if scale != out.flags:
        raise SassError("a scaled global address is not known")
    out.b, out.nb, out.x = out.a, out.na, out.y
    out.a, out.na, out.y = a, na, offset
    if c.operands:
        # the predicate says which lanes read; the others write zeros
        out.pa = c.predicate_source()
        out.flags |= FLAG_ZERO_FILL
    elif filled:
        raise SassError("it names no predicate of the lanes that read")


@opcode("LDGDEPBAR")
def commit_copies(c: Cursor) -> None:
    shape(c, Op.LDGDEPBAR, TimingClass.CONTROL)


@opcode("DEPBAR")
def wait_for_copies(c: Cursor) -> None:
    """DEPBAR.LE: waits for groups of copies where the scoreboard counts those, else for the scoreboard itself."""
    shape(c, Op.DEPBAR, TimingClass.CONTROL)
    c.drop("LE", "ALL")
    c.out.x = NEVER_WAITS
    for operand in c.operands:
        if isinstance(operand, Word) and operand.text.startswith("{"):
            for number in operand.text.strip("{}").split(","):
                if number.strip():
                    c.out.wait |= 1 << int(number)
    c.operands = [o for o in c.operands if not (isinstance(o, Word) and o.text.startswith("{"))]
    if not c.operands:
        return
    name = c.word()
    if not name.startswith("SB"):
        raise SassError(f"{name} is no scoreboard")
    scoreboard, left = int(name[2:]), c.integer()
    if scoreboard in c.around.grouped_scoreboards:
        c.out.x = left
    elif left == 0:
        c.out.wait |= 1 << scoreboard


NEVER_WAITS = 1 << 20  #: groups that may be pending: more than there ever are


@opcode("MEMBAR")
def fence(c: Cursor) -> None:
    shape(c, Op.MEMBAR, TimingClass.LOAD_STORE)
    c.drop("SC", "ALL")
    c.out.x = c.need({"CTA": 0, "SM": 0, "GPU": 1, "SYS": 2, "VC": 1}, "scope")


@opcode("CCTL", "CCTLL", "CCTLT", "ERRBAR", "CGAERRBAR", "UCCTL")
def cache_control(c: Cursor) -> None:
    """Cache control and error barriers, which cost an issue slot and change nothing here."""
    shape(c, Op.CCTL, TimingClass.CONTROL)
    c.modifiers.clear()
    c.operands.clear()
