"""Selection of memory, warp, tensor and barrier operations."""

from __future__ import annotations

from typing import Any

from sim.builder.instructions import alu, word_of
from sim.builder.ir import Access, BarrierAttr, MmaAttr, Value
from sim.builder.machine import ZERO, Lane, Machine
from sim.builder.select import Selector, handles, is_zero
from sim.builder.types import BF16, F16, F32, F64, I32, I64, U32, U64, register_type
from sim.isa import (
    FLAG_NO_ALLOCATE,
    FLAG_SIGNED,
    FLAG_ZERO_FILL,
    AtomicOp,
    MmaShape,
    NumberType,
    Op,
    Space,
    SpecialRegister,
    TimingClass,
)
from sim.program import Imm

_NARROW = (Space.SHARED, Space.LOCAL)  #: whose addresses have 32 bits
_LETTER = {Space.GLOBAL: "G", Space.SHARED: "S", Space.LOCAL: "L", Space.GENERIC: ""}


def _suffix(access: Access) -> str:
    size = access.bytes
    if size > 4:
        return f".{8 * size}"
    if size < 4:
        return f".{'S' if access.storage.kind == 'i' else 'U'}{8 * size}"  # narrow integers, halves and bools
    return ""


def _memory(s: Selector, op: Op, text: str, access: Access, address: Value) -> Machine:
    """A memory instruction with its address at A."""
    space = access.space if access.space in (Space.SHARED, Space.LOCAL, Space.GENERIC) else Space.GLOBAL
    m = Machine(op, TimingClass.LOAD_STORE, text, space=space, width=access.bytes, y=access.offset)
    if space == Space.LOCAL:
        m.a, m.na = ZERO if is_zero(address) else s.use(address), 1
    elif space != Space.SHARED:
        if space == Space.GLOBAL:
            s.descriptor()
        m.a, m.na = s.use(address), 2
    else:
        m.a, m.na = s.flexible(address), 1
    return m


@handles("load")
def _load(s: Selector, v: Value, dst: Lane) -> None:
    access: Access = v.attr
    extended = "" if access.space in _NARROW else ".E"
    m = _memory(s, Op.LD, f"LD{_LETTER[access.space]}{extended}{_suffix(access)}", access, v.args[0])
    m.dst, m.nd = dst, max(1, access.bytes // 4)
    m.flags = FLAG_SIGNED if access.storage.kind == "i" and access.storage.bits < 32 else 0
    s.put(m)


@handles("store")
def _store(s: Selector, v: Value, dst: Any) -> None:
    access: Access = v.attr
    extended = "" if access.space in _NARROW else ".E"
    m = _memory(s, Op.ST, f"ST{_LETTER[access.space]}{extended}{_suffix(access)}", access, v.args[0])
    words = max(1, access.bytes // 4)
    m.b, m.nb = gather(s, list(v.args[1:]), words)
    s.put(m)
    flush_moves(s)


def gather(s: Selector, values: list[Value], words: int) -> tuple[Any, int]:
    """A register of `words` words that holds `values` side by side, moved together where they are not.

    The moves are kept back until the user has been put (instructions are put in reverse).
    """
    if all(is_zero(v) for v in values):
        return ZERO, words
    if len(values) == 1:
        return s.use(values[0]), words
    first = s.plain(values[0])
    if first.op == "part" and first.attr == 0:
        vector = first.args[0]
        parts = [s.plain(v) for v in values]
        if all(p.op == "part" and p.args[0] is vector and p.attr == j for j, p in enumerate(parts)):
            lane = s.use(vector)
            if lane.reg.width >= words:
                return lane, words
    run = _run_of_parts(s, values, words)
    if run is not None:
        return run, words
    target = s.register(words)
    at = 0
    for v in values:
        s.kept.append((Lane(target.reg, at), v))
        at += v.type.registers
    return target, words


def _run_of_parts(s: Selector, values: list[Value], words: int) -> Lane | None:
    """Consecutive parts of one vector, aligned, as a register of their own."""
    parts = [s.plain(v) for v in values]
    first = parts[0]
    if first.op != "part" or first.attr % words:
        return None
    if all(p.op == "part" and p.args[0] is first.args[0] and p.attr == first.attr + j for j, p in enumerate(parts)):
        lane = s.use(first.args[0])
        return Lane(lane.reg, lane.word + first.attr)
    return None


def flush_moves(s: Selector) -> None:
    """Put the moves that `gather` kept back, before the instruction that wanted them."""
    kept, s.kept = s.kept, []
    for lane, v in reversed(kept):
        s.copy(lane, v)


# --- atomics
_ATOMIC_TYPE = {
    I32: NumberType.S32,
    U32: NumberType.U32,
    I64: NumberType.S64,
    U64: NumberType.U64,
    F32: NumberType.F32,
    F64: NumberType.F64,
}
_TYPE_TEXT = {I32: "", U32: "", I64: ".64", U64: ".64", F32: ".F32.FTZ.RN", F64: ".F64.RN"}


@handles("atomic")
def _atomic(s: Selector, v: Value, dst: Lane | None) -> None:
    access: Access = v.attr
    operation = access.operation
    assert operation is not None
    kind = register_type(access.storage)
    shared = access.space == Space.SHARED
    name = operation.name
    generic = access.space == Space.GENERIC
    reduction = dst is None and operation not in (AtomicOp.EXCH, AtomicOp.CAS) and not generic
    if shared:
        text = f"ATOMS.{name}{_TYPE_TEXT[kind] if operation is AtomicOp.ADD else ''}"
    else:
        sign = ".S32" if kind is I32 and operation in (AtomicOp.MIN, AtomicOp.MAX) else ""
        text = f"{'REDG' if reduction else 'ATOM' if generic else 'ATOMG'}.E.{name}{_TYPE_TEXT[kind]}{sign}.STRONG.GPU"
    m = _memory(s, Op.RED if reduction else Op.ATOM, text, access, v.args[0])
    m.x = operation | _ATOMIC_TYPE[kind] << 4
    words = kind.registers
    m.b, m.nb = s.use(v.args[1]), words
    if len(v.args) > 2:  # compare and swap: the new value at b, the old one compared with at c
        m.c, m.nc = s.use(v.args[2]), words
    if not reduction:
        m.dst, m.nd = (dst, words) if dst is not None else (None, 0)
    s.put(m)


# --- matrices and asynchronous copies
@handles("ldsm")
def _ldmatrix(s: Selector, v: Value, dst: Lane) -> None:
    access: Access = v.attr
    count, transposed = access.extra
    m = _memory(
        s,
        Op.LDSM,
        f"LDSM.16.{'MT88' if transposed else 'M88'}{'.' + str(count) if count > 1 else ''}",
        access,
        v.args[0],
    )
    m.dst, m.nd, m.width, m.x = dst, count, count, int(transposed)
    s.put(m)


@handles("ldgsts")
def _async_copy(s: Selector, v: Value, dst: Any) -> None:
    target, origin = v.attr
    s.descriptor()
    size = target.bytes
    bypass = ".BYPASS" if size == 16 else ""
    m = Machine(
        Op.LDGSTS, TimingClass.LOAD_STORE, f"LDGSTS.E{bypass}{'.' + str(8 * size) if size > 4 else ''}",
        space=Space.GLOBAL, width=size, y=target.offset, x=origin.offset, flags=FLAG_NO_ALLOCATE if bypass else 0,
    )  # fmt: skip
    m.a, m.na = s.use(v.args[0]), 1
    m.b, m.nb = s.use(v.args[1]), 2
    m.operands = ""
    if len(v.args) > 2:
        test = s.test(v.args[2])
        if test is not True:
            m.pa, m.flags, m.text = test, m.flags | FLAG_ZERO_FILL, m.text + ".ZFILL"
    s.put(m)


@handles("commit")
def _commit(s: Selector, v: Value, dst: Any) -> None:
    s.put(Machine(Op.LDGDEPBAR, TimingClass.LOAD_STORE, "LDGDEPBAR"))


@handles("wait")
def _wait(s: Selector, v: Value, dst: Any) -> None:
    s.put(Machine(Op.DEPBAR, TimingClass.CONTROL, "DEPBAR.LE", x=v.attr, operands=f"SB0, {v.attr:#x}"))


_SHAPE = {"m16n8k16": MmaShape.M16N8K16, "m16n8k8": MmaShape.M16N8K8, "m16n8k4": MmaShape.M16N8K4}


@handles("mma")
def _mma(s: Selector, v: Value, dst: Lane) -> None:
    attr: MmaAttr = v.attr
    count = len(v.args)
    a = {"m16n8k16": 4, "m16n8k8": 4 if attr.a.name == "tf32" else 2, "m16n8k4": 2}[attr.shape]
    b = count - a - 4
    kind = {F16: NumberType.F16, BF16: NumberType.BF16}.get(attr.a, NumberType.TF32)
    name = {NumberType.F16: "", NumberType.BF16: ".BF16", NumberType.TF32: ".TF32"}[kind]
    short = attr.shape.replace("m16n8k", "168") if attr.shape != "m16n8k16" else "16816"
    cls = (
        TimingClass.HMMA_16816
        if attr.shape == "m16n8k16" or (kind is NumberType.TF32 and attr.shape == "m16n8k8")
        else TimingClass.HMMA_1688
    )
    m = Machine(Op.HMMA, cls, f"HMMA.{short}.F32{name}", dst, 4, x=_SHAPE[attr.shape] | kind << 8)
    m.a, m.na = gather(s, list(v.args[:a]), a)
    m.b, m.nb = gather(s, list(v.args[a : a + b]), b)
    m.c, m.nc = gather(s, list(v.args[a + b :]), 4)
    s.put(m)
    flush_moves(s)


# --- warp
@handles("shfl")
def _shuffle(s: Selector, v: Value, dst: Lane) -> None:
    value, lane, clamp = v.args
    name = ("IDX", "UP", "DOWN", "BFLY")[v.attr]
    by = s.flexible(lane) if lane.is_const else s.use(lane)
    bounds = Imm(clamp.attr)
    s.put(alu(Op.SHFL, f"SHFL.{name}", dst, s.use(value), by, bounds, x=v.attr, cls=TimingClass.SHUFFLE))


@handles("vote")
def _vote(s: Selector, v: Value, dst: Any) -> None:
    test = s.test(v.args[0])
    pa = None if test is True else test
    if v.attr == "ballot":
        s.put(alu(Op.VOTE, "VOTE.ANY", dst, x=1, pa=pa, cls=TimingClass.VOTE))
    else:
        mode = 0 if v.attr == "all" else 1
        s.put(alu(Op.VOTE, f"VOTE.{v.attr.upper()}", None, x=mode, pd=dst.reg, pa=pa, cls=TimingClass.VOTE))


@handles("clock")
def _clock(s: Selector, v: Value, dst: Lane | None) -> None:
    s.put(Machine(Op.S2R, TimingClass.S2R, "CS2R.32", dst, 1 if dst is not None else 0, x=SpecialRegister.CLOCKLO))


# --- barriers
@handles("bar")
def _barrier(s: Selector, v: Value, dst: Any) -> None:
    attr: BarrierAttr = v.attr
    m = Machine(Op.BAR, TimingClass.BARRIER, "BAR.ARV" if attr.arrives else "BAR.SYNC.DEFER_BLOCKING")
    m.x, m.y, m.operands = int(attr.arrives), attr.number or 0, hex(attr.number or 0)
    if attr.number is None:
        m.a, m.na, m.operands = s.use(v.args[0]), 1, "{a}"
    if attr.threads:
        m.b, m.nb = Imm(attr.threads), 1
        m.operands += ", {b}"
    s.put(m)


@handles("warpsync")
def _warpsync(s: Selector, v: Value, dst: Any) -> None:
    mask = v.attr & 0xFFFFFFFF
    if mask == 0xFFFFFFFF:
        s.put(Machine(Op.WARPSYNC, TimingClass.CONTROL, "WARPSYNC.ALL"))
    else:
        s.put(Machine(Op.WARPSYNC, TimingClass.CONTROL, "WARPSYNC", a=Imm(mask), na=1))


@handles("membar")
def _fence(s: Selector, v: Value, dst: Any) -> None:
    s.put(Machine(Op.MEMBAR, TimingClass.LOAD_STORE, "MEMBAR.SC.GPU", x=v.attr))


@handles("pair")
def _pair(s: Selector, v: Value, dst: Lane) -> None:
    s.copy(dst, v.args[0])
    s.copy(word_of(dst, 1), v.args[1])


@handles("fragment")
def _fragment(s: Selector, v: Value, dst: Lane) -> None:
    for j, word in enumerate(v.args):
        s.copy(word_of(dst, j), word)
