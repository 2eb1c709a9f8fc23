"""Translation of Hopper's asynchronous instructions: warpgroup products, mbarriers, TMA, setmaxnreg."""

from __future__ import annotations

import re

from sim.isa import (
    MBARRIER_REMOTE,
    PT,
    REMOTE_REDUCTION,
    TMA_CLUSTER,
    TMA_MULTICAST,
    TMA_OPERATION,
    TMA_PREFETCH,
    TMA_REDUCE,
    TMA_STORE,
    TMA_TYPE,
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
    AtomicOp,
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
    "A0T1": (MbarrierOp.EXPECT, False),
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
        if remote and (dropped or out.nd):
            raise SassError("an arrival at another block's barrier neither drops out nor has a result")
        out.x |= MBARRIER_REMOTE if remote else 0
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


_REDUCTIONS = {op.name: op for op in AtomicOp if op <= AtomicOp.XOR}
_NUMBERS = {
    "U32": NumberType.U32, "S32": NumberType.S32, "U64": NumberType.U64, "S64": NumberType.S64, "64": NumberType.U64,
    "F16": NumberType.F16, "BF16": NumberType.BF16, "F32": NumberType.F32, "F64": NumberType.F64,
}  # fmt: skip


def _reduction(c: Cursor) -> int:
    """Bits of TMA's X: what a reduction does; its numbers' type, which a tensor's map has too."""
    operation = c.need(_REDUCTIONS, "operation that is known")
    kind = c.pick(_NUMBERS, NumberType.U32)
    c.drop("RN", "FTZ")
    return TMA_STORE | TMA_REDUCE | operation << TMA_OPERATION | kind << TMA_TYPE


@opcode("UTMALDG", "UTMASTG", "UTMAPF", "UTMAREDG")
def tensor_copy(c: Cursor) -> None:
    """TMA: a tensor's box to shared memory, of several blocks too, back, added to what is there, or into L2."""
    shape(c, Op.TMA, TimingClass.UNIFORM)
    c.drop("L2", "TILE")
    dimensions = c.need({f"{d}D": d for d in range(1, 6)}, "number of dimensions")
    addresses = {"UTMALDG": 2, "UTMAPF": 0}.get(c.base, 1)
    c.out.x = dimensions | {"UTMALDG": 0, "UTMAPF": TMA_PREFETCH}.get(c.base, TMA_STORE)
    if c.base == "UTMAREDG":
        c.out.x |= _reduction(c)
    c.out.x |= TMA_MULTICAST if c.has("MULTICAST") else 0
    _uniform_pair(c, "a", dimensions + addresses)
    _uniform_pair(c, "b", 2)
    if c.out.x & TMA_MULTICAST:
        c.source("c")
    if c.operands:  # a cache hint
        c.take()


@opcode("UBLKCP", "UBLKPF", "UBLKRED")
def bulk_copy(c: Cursor) -> None:
    """TMA: a run of bytes to shared memory, of other blocks too, back, added to what is there, or into L2."""
    shape(c, Op.TMA, TimingClass.UNIFORM)
    directions = [m for m in c.modifiers if m in ("S", "G", "L2")]
    for name in directions:
        c.has(name)
    c.out.x = TMA_MULTICAST if c.has("MULTICAST") else 0
    if c.base == "UBLKRED":
        c.out.x |= _reduction(c)
    if c.base == "UBLKPF":
        c.out.x |= TMA_PREFETCH
    elif directions == ["S", "G"] and c.base == "UBLKCP":
        _uniform_pair(c, "a", 2)
    elif directions == ["S", "S"] and c.base == "UBLKCP":
        c.out.x |= TMA_CLUSTER
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


@opcode("ARRIVES")
def arrive_after_copies(c: Cursor) -> None:
    """ARRIVES.LDGSTSBAR: an mbarrier learns when the warp's asynchronous copies so far have come."""
    shape(c, Op.COPY_ARRIVE, TimingClass.LOAD_STORE)
    if not (c.has("LDGSTSBAR") and c.has("64")):
        raise SassError("only ARRIVES.LDGSTSBAR.64 is known")
    c.out.x = c.need({"ARVCNT": 0, "TRANSCNT": 1}, "count that is known")
    c.out.space = Space.SHARED
    _barrier_address(c)


@opcode("STAS", "REDAS")
def remote_store(c: Cursor) -> None:
    """st.async and red.async: to the cluster's shared memory, whose mbarrier learns that the bytes are there."""
    shape(c, Op.REMOTE_STORE, TimingClass.LOAD_STORE)
    out = c.out
    if c.base == "REDAS":
        out.x = REMOTE_REDUCTION | c.need(_REDUCTIONS, "operation that is known")
        out.x |= c.pick(_NUMBERS, NumberType.U32) << 4
        out.width = 8 if (out.x >> 4) & 15 in (NumberType.U64, NumberType.S64) else 4
    else:
        out.width = c.pick({"64": 8, "128": 16}, 4)
    address(c, c.memory(), "", True)
    if out.na != 2:
        raise SassError("the addresses of what is stored and of its mbarrier are needed")
    out.y -= c.around.shared_window
    c.source("b", out.width // 4)


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
