"""Selection of asynchronous units' operations: mbarriers, TMA, warpgroup products."""

from __future__ import annotations

from typing import Any

from sim.builder.instructions import alu, load_uniform, move
from sim.builder.ir import CopyAttr, Descriptor, Value, WgmmaAttr
from sim.builder.machine import ZERO, Lane, Machine, Operand
from sim.builder.select import Selector, handles
from sim.builder.select_memory import flush_moves, gather
from sim.builder.types import BF16, E4M3, E5M2, F16, F32, I8, I32, I64, TF32, U8, U32, U64, Type, bits_of
from sim.isa import (
    FLAG_UNIFORM,
    MBARRIER_REMOTE,
    TMA_MULTICAST,
    TMA_OPERATION,
    TMA_PREFETCH,
    TMA_REDUCE,
    TMA_STORE,
    TMA_TYPE,
    URZ,
    WGMMA_A_MN_MAJOR,
    WGMMA_A_REGISTERS,
    WGMMA_A_TYPE,
    WGMMA_B_MN_MAJOR,
    WGMMA_B_TYPE,
    WGMMA_COMMIT,
    WGMMA_HALF_SUM,
    MbarrierOp,
    NumberType,
    Op,
    Space,
    TimingClass,
)
from sim.program import Imm, UReg

RUNS = 2  #: sets of uniform registers that operands use in turn
_NUMBER = {
    F16: NumberType.F16, BF16: NumberType.BF16, TF32: NumberType.TF32, E4M3: NumberType.E4M3, E5M2: NumberType.E5M2,
    I8: NumberType.S8, U8: NumberType.U8,
}  # fmt: skip


# --- uniform registers
@handles("uniform")
def _uniform(s: Selector, v: Value, dst: Lane) -> None:
    s.put(_to_uniform(dst, s.use(v.args[0])))


def _to_uniform(dst: Lane, source: Any) -> Machine:
    return Machine(Op.R2UR, TimingClass.VOTE, "R2UR", dst, 1, a=source, na=1, flags=FLAG_UNIFORM)


def _run(s: Selector, words: int) -> Lane:
    """Uniform registers side by side, for one instruction: two sets in turn, so that they are few."""
    runs = s.runs.setdefault(words, [])
    if len(runs) < RUNS:
        runs.append(s.register(words, "U"))
        return runs[-1]
    runs.append(runs.pop(0))
    return runs[-1]


def _word(s: Selector, dst: Lane, v: Value) -> Machine:
    """One word of an operand in uniform registers."""
    v = s.plain(v)
    if v.op == "const":
        return move(dst, Imm(bits_of(v.attr, v.type)))
    if v.op == "cbank" and isinstance(v.attr, int):
        return load_uniform(dst, v.attr, 1)
    if v.op == "shared_base":
        return move(dst, s.shared_base())
    return _to_uniform(dst, s.use(v))


def _constant(s: Selector, bits: int, words: int) -> Lane:
    """A number in uniform registers, made once."""

    def make(d: Lane) -> list[Machine]:
        return [move(Lane(d.reg, k), Imm(bits >> 32 * k & 0xFFFFFFFF)) for k in range(words)]

    return s.leaf(("uimm", bits, words), "U", words, make)


# --- mbarriers
_ARRIVALS = {
    MbarrierOp.INIT: "SYNCS.EXCH.64",
    MbarrierOp.ARRIVE: "SYNCS.ARRIVE.TRANS64.A1T0",
    MbarrierOp.ARRIVE_EXPECT: "SYNCS.ARRIVE.TRANS64",
    MbarrierOp.EXPECT: "SYNCS.ARRIVE.TRANS64.A0TR",
    MbarrierOp.TRY_WAIT: "SYNCS.PHASECHK.TRANS64.TRYWAIT",
    MbarrierOp.TEST_WAIT: "SYNCS.PHASECHK.TRANS64",
    MbarrierOp.INVALIDATE: "SYNCS.CCTL.IV",
}


@handles("mbarrier")
def _mbarrier(s: Selector, v: Value, dst: Any) -> None:
    operation = v.attr.barrier
    m = Machine(Op.MBARRIER, TimingClass.LOAD_STORE, _ARRIVALS[operation], space=Space.SHARED)
    m.x, m.y = operation, v.attr.offset
    if v.attr.extra == "remote":
        m.x |= MBARRIER_REMOTE
    elif v.attr.extra == "copies":
        m.op, m.x, m.text, m.operands = Op.COPY_ARRIVE, 0, "ARRIVES.LDGSTSBAR.64.ARVCNT", f"[{{a}}+{m.y:#x}]"
        m.a, m.na = s.flexible(v.args[0]), 1
        s.put(m)
        return
    m.a, m.na = s.flexible(v.args[0]), 1
    if operation is MbarrierOp.INIT:
        m.b, m.nb = _constant(s, v.args[1].attr, 2), 2
    elif len(v.args) > 1:
        m.b, m.nb = s.use(v.args[1]), 1
    if operation in (MbarrierOp.TRY_WAIT, MbarrierOp.TEST_WAIT):
        m.pd = s.predicate() if dst is None else dst.reg
    if operation is MbarrierOp.ARRIVE and m.nb:
        m.text = "SYNCS.ARRIVE.TRANS64.ART0"
    if m.x & MBARRIER_REMOTE:
        m.text = m.text.replace("TRANS64", "TRANS64.RED")
    place = f"[{{a}}+{m.y:#x}]"
    m.operands = {
        MbarrierOp.INIT: f"URZ, {place}, {{b}}",
        MbarrierOp.ARRIVE: f"RZ, {place}, {'{b}' if m.nb else 'RZ'}",
        MbarrierOp.TRY_WAIT: f"{{pd}}, {place}, {{b}}",
        MbarrierOp.TEST_WAIT: f"{{pd}}, {place}, {{b}}",
        MbarrierOp.INVALIDATE: place,
    }.get(operation, f"RZ, {place}, {{b}}")
    s.put(m)


@handles("elect")
def _elect(s: Selector, v: Value, dst: Any) -> None:
    s.put(Machine(Op.ELECT, TimingClass.VOTE, "ELECT", pd=dst.reg, operands="{pd}, URZ, PT"))


@handles("fence_async")
def _fence(s: Selector, v: Value, dst: Any) -> None:
    s.put(Machine(Op.NOP, TimingClass.CONTROL, "FENCE.VIEW.ASYNC.S"))


@handles("setmaxreg")
def _registers(s: Selector, v: Value, dst: Any) -> None:
    taking = dst is not None
    text = "USETMAXREG.TRY_ALLOC.CTAPOOL" if taking else "USETMAXREG.DEALLOC.CTAPOOL"
    m = Machine(Op.SETMAXREG, TimingClass.UNIFORM, text, x=v.attr, pd=dst.reg if taking else None)
    m.operands = ("{pd}, " if taking else "") + hex(v.attr)
    s.put(m)


@handles("cluster_arrive")
def _arrive_at_cluster(s: Selector, v: Value, dst: Any) -> None:
    s.put(Machine(Op.CLUSTER_ARRIVE, TimingClass.BARRIER, "UCGABAR_ARV"))


@handles("cluster_wait")
def _wait_for_cluster(s: Selector, v: Value, dst: Any) -> None:
    s.put(Machine(Op.CLUSTER_WAIT, TimingClass.BARRIER, "UCGABAR_WAIT"))


# --- TMA
_DIRECTION = {"load": 0, "store": TMA_STORE, "prefetch": TMA_PREFETCH, "reduce": TMA_STORE | TMA_REDUCE}
_REDUCED = {
    I32: NumberType.S32, U32: NumberType.U32, I64: NumberType.S64, U64: NumberType.U64,
    F16: NumberType.F16, BF16: NumberType.BF16, F32: NumberType.F32,
}  # fmt: skip


def _copy_bits(attr: CopyAttr) -> int:
    """X of a copy, but for its dimensions."""
    bits = _DIRECTION[attr.kind] | (TMA_MULTICAST if attr.multicast else 0)
    if attr.operation is not None and attr.element is not None:
        bits |= attr.operation << TMA_OPERATION | _REDUCED[attr.element] << TMA_TYPE
    return bits


def _copy_suffix(attr: CopyAttr) -> str:
    """Modifiers behind a copy's name."""
    if attr.operation is None:
        return ".MULTICAST" if attr.multicast else ""
    kind = _REDUCED[attr.element] if attr.element is not None and attr.rank == 0 else NumberType.U32
    return f".{attr.operation.name}" + ("" if kind is NumberType.U32 else f".{kind.name}")


@handles("tma")
def _box(s: Selector, v: Value, dst: Any) -> None:
    attr: CopyAttr = v.attr
    name = {"load": "UTMALDG", "store": "UTMASTG", "prefetch": "UTMAPF.L2", "reduce": "UTMAREDG"}[attr.kind]
    m = Machine(Op.TMA, TimingClass.UNIFORM, f"{name}.{attr.rank}D{_copy_suffix(attr)}")
    m.x = attr.rank | _copy_bits(attr)
    run = _run(s, len(v.args))
    m.a, m.na = run, len(v.args) - attr.multicast
    m.b, m.nb = _constant(s, attr.map_address, 2), 2
    m.operands = "[{a}], [{b}]"
    if attr.multicast:
        m.c, m.nc = Lane(run.reg, m.na), 1
        m.operands += ", {c}"
    s.put(m)
    s.put(*(_word(s, Lane(run.reg, k), arg) for k, arg in enumerate(v.args)))


@handles("bulk")
def _bytes(s: Selector, v: Value, dst: Any) -> None:
    kind = v.attr.kind
    name = {"load": "UBLKCP.S.G", "store": "UBLKCP.G.S", "prefetch": "UBLKPF.L2", "reduce": "UBLKRED.G.S"}[kind]
    m = Machine(Op.TMA, TimingClass.UNIFORM, name + _copy_suffix(v.attr), x=_copy_bits(v.attr))
    address, *shared, count = v.args
    run = _run(s, 3 + len(shared))  # address, number of units, places in shared memory
    m.b, m.nb = run, 2
    m.c, m.nc = Lane(run.reg, 2), 1
    m.operands = {"load": "[{a}], [{b}], {c}", "prefetch": "[{b}], {c}"}.get(kind, "[{b}], [{a}], {c}")
    if shared:
        m.a, m.na = Lane(run.reg, 3), len(shared)
    s.put(m)
    start = s.use(address)
    words = [_to_uniform(Lane(run.reg, k), Lane(start.reg, start.word + k)) for k in range(2)]
    words += [_word(s, Lane(run.reg, 2 + k), arg) for k, arg in enumerate((count, *shared))]
    s.put(*words)


@handles("tma_commit")
def _commit_stores(s: Selector, v: Value, dst: Any) -> None:
    s.put(Machine(Op.TMA_COMMIT, TimingClass.CONTROL, "UTMACMDFLUSH"))


# --- warpgroup products
@handles("sums")
def _sums(s: Selector, v: Value, dst: Lane) -> None:
    words = v.type.registers
    if not v.attr:
        s.put(Machine(Op.NOP, TimingClass.CONTROL, "", dst, words, phantom=True))
        return
    for at in range(0, words, 2):
        m = Machine(Op.MOV, TimingClass.ALU, "CS2R", Lane(dst.reg, dst.word + at), 2, a=ZERO, na=2)
        m.operands = "{dst}, SRZ"
        s.put(m)


@handles("take")
def _take(s: Selector, v: Value, dst: Lane) -> None:
    sums = s.use(v.args[0])
    s.put(move(dst, Lane(sums.reg, sums.word + v.attr)))


@handles("put")
def _put(s: Selector, v: Value, dst: Lane) -> None:
    s.copy(Lane(dst.reg, dst.word + v.attr), v.args[1])
    _tie(s, v.args[0], dst)


def _tie(s: Selector, before: Value, lane: Lane) -> None:
    """Let sums lie in the register of what is made of them, or move them there where they are needed afterwards."""
    held = before
    while held.op in ("bitcast", "exit"):
        held = held.args[0]
    if held.id not in s.lanes and before.region is s.region and held.region is not None:
        s.lanes[held.id] = lane
    else:
        s.copy(lane, before)


@handles("wgmma")
def _wgmma(s: Selector, v: Value, dst: Lane | None) -> None:
    attr: WgmmaAttr = v.attr
    words = v.type.registers
    if dst is None:
        dst = s.lanes[v.id] = s.register(words)
    if attr.commit:
        s.waits.commit(s.block)
    sums, *operands = v.args
    test: Any = attr.add
    if attr.add is None:
        test = s.test(operands.pop())
    m = Machine(Op.HGMMA, TimingClass.HMMA_16816, _name(attr), dst, words, merge=test is not False)
    m.pa = None if test is True else test
    m.x = attr.columns // 8 | _NUMBER[attr.a] << WGMMA_A_TYPE | _NUMBER[attr.b] << WGMMA_B_TYPE
    m.x |= (WGMMA_HALF_SUM if attr.sum is F16 else 0) | (WGMMA_COMMIT if attr.commit else 0)
    m.x |= WGMMA_B_MN_MAJOR if attr.b_descriptor.mn_major else 0
    descriptors = [(attr.b_descriptor, operands[-1])]
    matrices = "gdesc[{b}]"
    if attr.a_descriptor is None:
        m.x |= WGMMA_A_REGISTERS
        m.a, m.na = gather(s, operands[:4], 4)
        if isinstance(m.a, Lane):
            s.waits.keep(s.block, m.a, 4)
        matrices = "{a}, gdesc[{b}]"
    else:
        m.x |= WGMMA_A_MN_MAJOR if attr.a_descriptor.mn_major else 0
        descriptors.insert(0, (attr.a_descriptor, operands[0]))
        matrices = "gdesc[{a}]" + (".tnspA" if attr.a_descriptor.mn_major else "")
    run = _run(s, 2 * len(descriptors))
    if attr.a_descriptor is not None:
        m.a, m.na = run, 2
    m.b, m.nb = Lane(run.reg, 2 * len(descriptors) - 2), 2
    condition = "" if test is True else ", !UPT" if test is False else ", {pa}"
    m.operands = f"{{dst}}, {matrices}{'.tnspB' if attr.b_descriptor.mn_major else ''}, {{dst}}{condition}"
    m.operands += ", gsb0" if attr.commit else ""
    s.put(m)
    if m.merge:
        _tie(s, sums, dst)
    flush_moves(s)
    for k, (descriptor, low) in enumerate(descriptors):
        s.put(*_descriptor(s, Lane(run.reg, 2 * k), descriptor, low))


def _descriptor(s: Selector, dst: Lane, descriptor: Descriptor, low: Value) -> list[Machine]:
    """The two words of a matrix descriptor."""
    base: Operand = s.use(low)
    if descriptor.units:
        first = alu(Op.IADD3, "UIADD3", dst, base, Imm(descriptor.units), UReg(URZ), cls=TimingClass.UNIFORM)
        first.flags = FLAG_UNIFORM
    else:
        first = move(dst, base)
    return [first, move(Lane(dst.reg, dst.word + 1), Imm(descriptor.high))]


def _name(attr: WgmmaAttr) -> str:
    """HGMMA, QGMMA (8-bit floats) or IGMMA, with its shape and types."""
    a, b = (_type_name(t) for t in (attr.a, attr.b))
    if attr.a.is_int:
        return f"IGMMA.64x{attr.columns}x32.{a}.{b}"
    total = "F32" if attr.sum is F32 else "F16"
    if attr.a.bits == 8:
        return f"QGMMA.64x{attr.columns}x32.{total}.{a}.{b}"
    return f"HGMMA.64x{attr.columns}x{256 // attr.a.bits}.{total}" + (f".{a}" if attr.a is not F16 else "")


def _type_name(t: Type) -> str:
    return NumberType(_NUMBER[t]).name


@handles("wgmma_fence")
def _arrive(s: Selector, v: Value, dst: Any) -> None:
    s.put(Machine(Op.WARPGROUP_ARRIVE, TimingClass.CONTROL, "WARPGROUP.ARRIVE"))


@handles("wgmma_commit")
def _commit_products(s: Selector, v: Value, dst: Any) -> None:
    m = Machine(Op.WARPGROUP_COMMIT, TimingClass.CONTROL, "HGMMA.64x8x16.F32")
    m.operands = "RZ, gdesc[URZ], RZ, !UPT, gsb0"
    s.waits.commit(s.block)
    s.put(m)


@handles("wgmma_wait")
def _depend(s: Selector, v: Value, dst: Any) -> None:
    m = Machine(Op.WARPGROUP_DEPBAR, TimingClass.CONTROL, "WARPGROUP.DEPBAR.LE", x=v.attr)
    m.operands = f"gsb0, {v.attr:#x}"
    s.waits.add(s.block, m, v.attr)
    s.put(m)
