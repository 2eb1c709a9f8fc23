"""Translation of control flow: branches, calls, convergence, barriers, exit."""

from __future__ import annotations

from sim.isa import BRANCH_ANY, PT, UPT, URZ, Op, TimingClass
from sim.program import Imm, Reg, UReg
from sim.sass.cursor import Cursor, opcode
from sim.sass.errors import SassError
from sim.sass.integer import shape
from sim.sass.operands import Number, Register, Word

BAR_SYNC, BAR_ARRIVE, BAR_POPC, BAR_AND, BAR_OR = range(5)
_REDUCTIONS = {"POPC": BAR_POPC, "AND": BAR_AND, "OR": BAR_OR}


@opcode("NOP", "PREEXIT", "ACQBULK", "PMTRIG")
def nothing(c: Cursor) -> None:
    shape(c, Op.NOP, TimingClass.CONTROL)


@opcode("BRA", "JMP", "UBRA")
def branch(c: Cursor) -> None:
    shape(c, Op.BRA, TimingClass.BRANCH)
    if "DIV" in c.modifiers or "CONV" in c.modifiers:
        c.out.op = Op.BRA_DIV
        c.out.x = int(c.has("CONV"))
        c.drop("DIV")
        if isinstance(c.peek(), Register):
            c.source("a")
        if c.out.a == UReg(URZ):  # ~URZ: all lanes
            if not c.out.smod:
                raise SassError("a mask without lanes is not known")
            c.out.a, c.out.na, c.out.smod = None, 0, 0
    c.drop("U", "INC", "DEC")
    if c.has("ANY"):
        c.out.x = BRANCH_ANY
    if c.at_predicate():
        c.out.pa = c.predicate_source()
        if c.out.pa == UPT:
            c.out.pa = PT
    c.out.y = c.target_index()


@opcode("BRX", "BRXU", "JMX", "JMXU")
def indirect_branch(c: Cursor) -> None:
    """BRX: to a register's value, counted from an offset behind this instruction."""
    shape(c, Op.BRX, TimingClass.BRANCH)
    c.drop("INC", "DEC")
    c.source("a")
    offset = c.integer() if c.operands else 0
    c.out.y = offset + (c.address + 16 if c.base.startswith("BRX") else 0)


@opcode("CALL")
def call(c: Cursor) -> None:
    """CALL: a branch; the caller has put the return address into a register."""
    c.drop("REL", "ABS", "NOINC", "INC")
    if isinstance(c.peek(), Register):
        shape(c, Op.BRX, TimingClass.BRANCH)
        c.source("a", suffixes={"64": 0})
        c.out.y = c.target() if c.operands else 0
        return
    shape(c, Op.CALL, TimingClass.BRANCH)
    c.out.y = c.target_index()


@opcode("RET")
def return_(c: Cursor) -> None:
    """RET: to a register's value, counted from the kernel's first instruction."""
    shape(c, Op.RET, TimingClass.BRANCH)
    c.drop("REL", "ABS", "NODEC", "DEC")
    c.source("a", suffixes={"64": 0})
    c.out.y = c.target() if c.operands else 0


@opcode("EXIT")
def exit_(c: Cursor) -> None:
    shape(c, Op.EXIT, TimingClass.CONTROL)
    c.drop("KEEPREFCOUNT", "PREEMPTED", "NO_ATEXIT")


@opcode("KILL")
def kill(c: Cursor) -> None:
    shape(c, Op.EXIT, TimingClass.CONTROL)


@opcode("BPT")
def breakpoint_(c: Cursor) -> None:
    """BPT.TRAP ends the kernel with an error."""
    shape(c, Op.BPT, TimingClass.CONTROL)
    c.drop("TRAP", "INT", "DRAIN", "PAUSE")
    if c.operands:
        c.out.x = c.integer()


def _convergence_barrier(c: Cursor) -> int:
    name = c.word()
    if not (name.startswith("B") and name[1:].isdigit()):
        raise SassError(f"{name} is no convergence barrier")
    return int(name[1:])


@opcode("BSSY")
def join(c: Cursor) -> None:
    shape(c, Op.BSSY, TimingClass.CONTROL)
    c.drop("RECONVERGENT", "RELIABLE")
    c.out.x = _convergence_barrier(c)
    c.out.y = c.target_index()


@opcode("BSYNC")
def meet(c: Cursor) -> None:
    shape(c, Op.BSYNC, TimingClass.BRANCH)
    c.drop("RECONVERGENT", "RELIABLE")
    c.out.x = _convergence_barrier(c)
    _further_predicate(c)


@opcode("BREAK")
def leave(c: Cursor) -> None:
    shape(c, Op.BREAK, TimingClass.CONTROL)
    c.drop("RELIABLE")
    if c.at_predicate():
        c.out.pa = c.predicate_source()
    c.out.x = _convergence_barrier(c)


def _further_predicate(c: Cursor) -> None:
    if c.at_predicate() and c.predicate_source() != PT:
        raise SassError("a predicate besides its guard is not known")


@opcode("WARPSYNC")
def warpsync(c: Cursor) -> None:
    """WARPSYNC: for all lanes, or those of a mask. COLLECTIVE names the end of what the lanes then do together."""
    shape(c, Op.WARPSYNC, TimingClass.CONTROL)
    every, collective = c.has("ALL"), c.has("COLLECTIVE")
    c.drop("EXCLUSIVE")
    if not every:
        c.source("a")
    if collective:
        c.target()


@opcode("BMOV")
def move_barrier(c: Cursor) -> None:
    """BMOV: a convergence barrier's lanes to or from a register."""
    shape(c, Op.BMOV, TimingClass.CONTROL)
    c.drop("32", "64", "PQUAD")
    clear = c.has("CLEAR")
    if isinstance(c.peek(), Word):
        c.out.x = _convergence_barrier(c) | 64
        c.source("a")
        return
    c.destination()
    c.out.x = _convergence_barrier(c) | 128 * clear


@opcode("YIELD")
def yield_(c: Cursor) -> None:
    shape(c, Op.YIELD, TimingClass.CONTROL)


@opcode("NANOSLEEP")
def sleep(c: Cursor) -> None:
    shape(c, Op.NANOSLEEP, TimingClass.CONTROL)
    c.drop("SYNCS", "WARP")
    c.source("a")


@opcode("BAR")
def barrier(c: Cursor) -> None:
    """BAR.SYNC, BAR.ARV and BAR.RED of a block's barrier, which a register may number."""
    shape(c, Op.BAR, TimingClass.BARRIER)
    c.drop("DEFER_BLOCKING")
    if c.has("ARV"):
        c.out.x = BAR_ARRIVE
    elif c.has("RED"):
        c.out.x = c.need(_REDUCTIONS, "reduction")
    elif c.has("SYNC"):
        c.out.x = BAR_SYNC
    else:
        raise SassError("only BAR.SYNC, BAR.ARV and BAR.RED are known")
    first = c.take()
    if isinstance(first, Number):
        c.out.y = first.integer()
    elif isinstance(first, Register) and first.kind != "P":
        c.out.a, c.out.na = (UReg(first.n) if first.kind == "UR" else Reg(first.n)), 1
    else:
        raise SassError(f"{first} is no barrier")
    if c.operands and not c.at_predicate():
        c.source("b")
    if c.out.x >= BAR_POPC:
        c.out.pa = c.predicate_source()
    if isinstance(c.out.b, Imm) and c.out.b.bits % 32:
        raise SassError(f"a barrier counts whole warps, not {c.out.b.bits} threads")


@opcode("B2R")
def barrier_result(c: Cursor) -> None:
    """B2R.RESULT: what the last BAR.RED of this warp found."""
    shape(c, Op.B2R, TimingClass.BARRIER)
    if not c.has("RESULT"):
        raise SassError("only B2R.RESULT is known")
    c.destination()
    if c.at_predicate():
        c.out.pd = c.predicate_destination()
    c.out.y = c.around.last_reduction
