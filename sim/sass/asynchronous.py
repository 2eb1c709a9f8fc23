"""Translation of Hopper's asynchronous instructions: warpgroup products, mbarriers, TMA, setmaxnreg."""

from __future__ import annotations

import re

from sim.isa import (
    PT,
    TMA_PREFETCH,
    TMA_STORE,
    UPT,
    URZ,
    WGMMA_A_MN_MAJOR,
    WGMMA_A_REGISTERS,
    WGMMA_A_TYPE,
    WGMMA_B_MN_MAJOR,
    WGMMA_B_TYPE,
    WGMMA_COMMIT,
    WGMMA_HALF_SUM,
    WGMMA_SATURATE,
    MbarrierOp,
    NumberType,
    Op,
    Space,
    TimingClass,
)
from sim.program import Reg, UReg
from sim.sass.cursor import Cursor, opcode
from sim.sass.errors import SassError
from sim.sass.integer import shape
from sim.sass.memory import address
from sim.sass.operands import Register, Word

_TYPES = {
    "BF16": NumberType.BF16,
    "TF32": NumberType.TF32,
    "E4M3": NumberType.E4M3,
    "E5M2": NumberType.E5M2,
    "S8": NumberType.S8,
    "U8": NumberType.U8,
}
_DESCRIPTOR = re.compile(r"gdesc\[(UR\d+|URZ)\]((?:\.tnsp[AB])*)")
_SHAPE = re.compile(r"64x(\d+)x(\d+)")


def _product_types(c: Cursor) -> tuple[NumberType, NumberType]:
    """The types of A and B, which are one where only one is named; float16 where none is."""
    names = [name for name in c.modifiers if name in _TYPES]
    for name in names:
        c.drop(name)
    if not names:
        return NumberType.F16, NumberType.F16
    return _TYPES[names[0]], _TYPES[names[-1]]


@opcode("HGMMA", "IGMMA", "QGMMA")
def product(c: Cursor) -> None:
    """wgmma: D from A in registers or shared memory, B in shared memory, and D unless a predicate says no."""
    shape(c, Op.HGMMA, TimingClass.HMMA_16816)
    out = c.out
    size = next((m for m in c.modifiers if _SHAPE.fullmatch(m)), None)
    if size is None:
        raise SassError("it names no shape")
    c.has(size)
    columns = int(_SHAPE.fullmatch(size)[1])  # type: ignore[index]
    half_sum = not c.has("F32") and c.has("F16")
    first, second = _product_types(c)
    out.x = columns // 8 | first << WGMMA_A_TYPE | second << WGMMA_B_TYPE
    out.x |= (WGMMA_HALF_SUM if half_sum else 0) | (WGMMA_SATURATE if c.has("SAT") else 0)
    if c.base == "IGMMA" and out.x & WGMMA_SATURATE:
        raise SassError("saturating sums are not known")
    c.destination(columns // 4 if half_sum else columns // 2)
    operand = c.take()
    if isinstance(operand, Register) and operand.kind == "R":
        out.a, out.na = Reg(operand.n), 4
        out.x |= WGMMA_A_REGISTERS
        operand = c.take()
    found = _DESCRIPTOR.fullmatch(operand.text) if isinstance(operand, Word) else None
    if found is None:
        raise SassError(f"{operand} is no matrix descriptor")
    number = URZ if found[1] == "URZ" else int(found[1][2:])
    out.x |= WGMMA_A_MN_MAJOR if ".tnspA" in found[2] else 0
    out.x |= WGMMA_B_MN_MAJOR if ".tnspB" in found[2] else 0
    if out.x & WGMMA_A_REGISTERS:
        out.b, out.nb = UReg(number), 2
    else:
        out.a, out.na = UReg(number), 2
        out.b, out.nb = UReg(number if number == URZ else number + 2), 2
    c.take()  # the sums that D adds to: D
    out.pa = PT
    if c.at_predicate():
        out.pa = c.predicate_source()
    if isinstance(c.peek(), Word) and c.word() == "gsb0":
        out.x |= WGMMA_COMMIT
    if out.nd == 0:  # no product: it only ends a group
        out.op, out.cls, out.x = Op.WARPGROUP_COMMIT, TimingClass.CONTROL, 0
        out.a = out.b = None
        out.na = out.nb = 0
        out.pa = PT


@opcode("WARPGROUP")
def warpgroup(c: Cursor) -> None:
    """WARPGROUP.ARRIVE is wgmma's fence, WARPGROUP.DEPBAR waits for groups of products."""
    if c.has("ARRIVE"):
        shape(c, Op.WARPGROUP_ARRIVE, TimingClass.CONTROL)
        return
    if not c.has("DEPBAR"):
        raise SassError("only WARPGROUP.ARRIVE and WARPGROUP.DEPBAR are known")
    shape(c, Op.WARPGROUP_DEPBAR, TimingClass.CONTROL)
    c.drop("LE")
    if c.word() != "gsb0":
        raise SassError("it waits for gsb0")
    c.out.x = c.integer()


_ARRIVALS = {
    "A1T0": (MbarrierOp.ARRIVE, False),
    "ART0": (MbarrierOp.ARRIVE, True),
    "A0TR": (MbarrierOp.EXPECT, True),
    "A0TX": (MbarrierOp.COMPLETE, True),
    "": (MbarrierOp.ARRIVE_EXPECT, True),
}


@opcode("SYNCS")
def mbarrier(c: Cursor) -> None:
    """SYNCS.EXCH initialises, .ARRIVE counts threads and bytes, .PHASECHK asks for a phase, .CCTL.IV ends one."""
    shape(c, Op.MBARRIER, TimingClass.LOAD_STORE)
    out = c.out
    out.space = Space.SHARED
    if c.has("EXCH"):
        c.drop("64")
        out.x = MbarrierOp.INIT
        c.destination(2)
        if out.nd:
            raise SassError("its old value is not known")
        _barrier_address(c)
        c.source("b", 2)
    elif c.has("ARRIVE"):
        c.drop("TRANS64")
        remote = c.has("RED")
        dropped = c.has("OPTOUT")
        kind, counted = c.pick(_ARRIVALS, _ARRIVALS[""])
        if dropped and kind is not MbarrierOp.ARRIVE:
            raise SassError("only a plain arrival can be dropped")
        out.x = MbarrierOp.ARRIVE_DROP if dropped else kind
        c.destination(2)
        if remote:
            raise SassError("an arrival in the shared memory of another block of the cluster is not known")
        _barrier_address(c)
        if counted:
            c.source("b")
        else:
            c.take()
    elif c.has("PHASECHK"):
        c.drop("TRANS64")
        out.x = MbarrierOp.TRY_WAIT if c.has("TRYWAIT") else MbarrierOp.TEST_WAIT
        out.pd = c.predicate_destination()
        _barrier_address(c)
        c.source("b")
    elif c.has("CCTL") and c.has("IV"):
        out.x = MbarrierOp.INVALIDATE
        _barrier_address(c)
    else:
        raise SassError("only SYNCS.EXCH, .ARRIVE, .PHASECHK and .CCTL.IV are known")
    out.flags = 0


def _barrier_address(c: Cursor) -> None:
    operand = c.memory()
    address(c, operand, "c", False)
    c.out.y -= c.around.shared_window


@opcode("USETMAXREG")
def registers(c: Cursor) -> None:
    """setmaxnreg: a warp gives registers away, or takes some if there are enough, which its predicate says."""
    shape(c, Op.SETMAXREG, TimingClass.UNIFORM)
    c.drop("TRY_ALLOC", "DEALLOC", "RELEASE", "CTAPOOL")
    if c.at_predicate():
        c.out.pd = c.predicate_destination()
    c.out.x = c.integer()


@opcode("ELECT")
def elect(c: Cursor) -> None:
    """The first active lane alone."""
    shape(c, Op.ELECT, TimingClass.VOTE)
    c.out.pd = c.predicate_destination()
    c.destination()
    if c.out.nd:
        raise SassError("the elected lane's number is not known")
    c.out.dst, c.out.flags = None, 0
    if c.at_predicate() and c.predicate_source() not in (PT, UPT):
        raise SassError("a choice among a predicate's lanes is not known")


@opcode("FENCE")
def fence(c: Cursor) -> None:
    """FENCE.VIEW.ASYNC: what was written is seen by asynchronous units, as it is here anyway."""
    shape(c, Op.NOP, TimingClass.CONTROL)
    c.drop("VIEW", "ASYNC", "S", "G", "T")


def _uniform_pair(c: Cursor, slot: str, words: int) -> None:
    operand = c.memory()
    register = operand.uniform or operand.register
    if register is None or register.kind != "UR" or operand.offset:
        raise SassError("a uniform register's address is needed")
    setattr(c.out, slot, UReg(register.n))
    setattr(c.out, f"n{slot}", words)


def _refuse_multicast(c: Cursor) -> None:
    if "MULTICAST" in c.modifiers:
        raise SassError("a copy to several blocks of a cluster is not known")


@opcode("UTMALDG", "UTMASTG", "UTMAPF")
def tensor_copy(c: Cursor) -> None:
    """TMA: a tensor's box to shared memory, back, or into L2."""
    shape(c, Op.TMA, TimingClass.UNIFORM)
    c.drop("L2", "TILE")
    dimensions = c.need({f"{d}D": d for d in range(1, 6)}, "number of dimensions")
    kind = {"UTMALDG": 0, "UTMASTG": TMA_STORE, "UTMAPF": TMA_PREFETCH}[c.base]
    c.out.x = dimensions | kind
    _refuse_multicast(c)
    _uniform_pair(c, "a", dimensions + {0: 2, TMA_STORE: 1, TMA_PREFETCH: 0}[kind])
    _uniform_pair(c, "b", 2)
    if c.operands:  # a cache hint
        c.take()


@opcode("UBLKCP", "UBLKPF")
def bulk_copy(c: Cursor) -> None:
    """TMA: a run of bytes to shared memory, back, or into L2."""
    shape(c, Op.TMA, TimingClass.UNIFORM)
    directions = [m for m in c.modifiers if m in ("S", "G", "L2")]
    for name in directions:
        c.has(name)
    _refuse_multicast(c)
    if c.base == "UBLKPF":
        c.out.x |= TMA_PREFETCH
    elif directions == ["S", "G"]:
        _uniform_pair(c, "a", 2)
    elif directions == ["G", "S"]:
        c.out.x |= TMA_STORE
        _uniform_pair(c, "b", 2)
        _uniform_pair(c, "a", 1)
        c.source("c")
        return
    else:
        raise SassError("only copies between global and shared memory are known")
    _uniform_pair(c, "b", 2)
    c.source("c")


@opcode("UTMACMDFLUSH")
def commit_stores(c: Cursor) -> None:
    """What TMA stored since the last one is a group, for DEPBAR."""
    shape(c, Op.TMA_COMMIT, TimingClass.CONTROL)


@opcode("UTMACCTL")
def map_control(c: Cursor) -> None:
    """Prefetch or invalidation of a tensor map, whose fetch is not modelled."""
    shape(c, Op.CCTL, TimingClass.CONTROL)
    c.modifiers.clear()
    c.operands.clear()


@opcode("UCGABAR_ARV", "UCGABAR_WAIT", "UCGABAR_GET", "UCGABAR_SET")
def cluster_barrier(c: Cursor) -> None:
    """The barrier of a thread block cluster."""
    if c.base not in ("UCGABAR_ARV", "UCGABAR_WAIT"):
        raise SassError("only UCGABAR_ARV and UCGABAR_WAIT are known")
    shape(c, Op.CLUSTER_ARRIVE if c.base == "UCGABAR_ARV" else Op.CLUSTER_WAIT, TimingClass.BARRIER)
