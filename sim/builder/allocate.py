"""Register allocation: numbers for registers, predicates and uniform registers.

Each register gets numbers, aligned to its width, that are free over its whole range,
wide registers first. A
predicate that finds none of the seven is kept in a register between its uses, and a
register that finds none of the 255 in local memory.

A kernel may say how many registers a thread has at first, and change that
(`sim.builder.limits`). What is needed where there are few gets its numbers before the rest.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

from sim.builder.errors import BuildError
from sim.builder.limits import Limits
from sim.builder.liveness import Ranges
from sim.builder.machine import ZERO, Code, Guard, Lane, Machine, VReg
from sim.builder.spill import choose, spill
from sim.isa import Op, TimingClass
from sim.program import Imm

SPILL_MARGIN = 2  #: registers moved to memory beyond what is missing, for the loads and stores themselves
MAX_UNIFORM = 63
FIRST_UNIFORM = 4  #: compilers leave the first ones to the system
PREDICATE_COUNT = 7
FREE_REGISTERS = 14  #: that a kernel may use without its reported count rising above the least, 16
WIDEST_ALIGNMENT = 8  #: registers, of the numbers of wider ones
ROTATED_REGISTERS = 64  #: kernels that need more keep the lowest numbers


@dataclass(slots=True)
class Allocation:
    """`number[reg.id]`: the first register, uniform register or predicate; counts of registers used; local memory."""

    number: dict[int, int]
    registers: int
    uniform: int
    local_bytes: int = 0


def allocate(code: Code) -> Allocation:
    """Numbers for everything; values that 255 registers do not hold go to local memory.

    Raises `BuildError` when that does not help.
    """
    slots = -(-code.local_bytes // 4)
    while True:
        ranges = Ranges(code)
        number: dict[int, int] = {}
        spilled = _predicates(code, ranges, number)
        if spilled is not None:
            _keep_in_register(code, spilled)
            continue
        limits = Limits(code)
        needed = _registers(code, ranges, limits, number)
        missing = limits.missing(code, ranges, number)
        if missing <= 0:
            return Allocation(number, needed, _uniform(code, ranges, number), 4 * slots)
        chosen = choose(code, ranges, missing + SPILL_MARGIN)
        if not chosen:
            raise BuildError(
                f"this kernel needs {needed} registers a thread, and there are {needed - missing}; "
                "keep fewer values at a time (smaller tiles, fewer variables, less unrolling)"
            )
        spill(code, chosen, slots)
        slots += len(chosen)


def _by_start(code: Code, ranges: Ranges, kind: str) -> list[tuple[int, VReg, list[int]]]:
    """Registers of a kind that are used, by where they are first needed."""
    found = []
    for reg in code.registers:
        if reg.kind == kind:
            words = [ranges.of(reg, k) for k in range(reg.width)]
            whole = 0
            for w in words:
                whole |= w
            if whole:
                found.append(((whole & -whole).bit_length(), reg, words))
    found.sort(key=lambda item: (item[0], item[1].id))
    return found


def _registers(code: Code, ranges: Ranges, limits: Limits, number: dict[int, int]) -> int:
    """Lowest numbers first, which tells how many are needed; then, of so many, those that have been free for longest.

    The second round keeps an instruction from waiting for an earlier one that still reads its register.
    """
    order = _by_start(code, ranges, "R")
    # Wide ones first: they fit together without gaps. But what must do with few registers before all else.
    order.sort(key=lambda item: (limits.of(ranges, item[1]), -item[1].width))
    count, numbers = _lowest(order)
    if count <= ROTATED_REGISTERS:
        count = max(count, FREE_REGISTERS)
        there = [min(count, limits.of(ranges, reg)) for _, reg, _ in order]
        numbers = _longest_free(order, there) or numbers
        count = max((numbers[reg.id] + reg.width for _, reg, _ in order), default=0)
    number.update(numbers)
    return count


def _alignment(reg: VReg) -> int:
    return reg.width if reg.width < WIDEST_ALIGNMENT else WIDEST_ALIGNMENT


def _lowest(order: list[tuple[int, VReg, list[int]]]) -> tuple[int, dict[int, int]]:
    taken: list[int] = []
    numbers: dict[int, int] = {}
    for _, reg, words in order:
        at = 0
        while True:
            while len(taken) < at + reg.width:
                taken.append(0)
            if not any(taken[at + k] & words[k] for k in range(reg.width)):
                break
            at += _alignment(reg)
        for k in range(reg.width):
            taken[at + k] |= words[k]
        numbers[reg.id] = at
    return len(taken), numbers


def _longest_free(order: list[tuple[int, VReg, list[int]]], counts: list[int]) -> dict[int, int] | None:
    """Numbers below each one's `counts`; None when they do not suffice in this order."""
    taken = [0] * max(counts, default=0)
    numbers: dict[int, int] = {}
    for (start, reg, words), count in zip(order, counts, strict=True):
        best, best_end = -1, 1 << 60
        before = (1 << start) - 1
        for at in range(0, count - reg.width + 1, _alignment(reg)):
            if any(taken[at + k] & words[k] for k in range(reg.width)):
                continue
            end = max((taken[at + k] & before).bit_length() for k in range(reg.width))
            if end < best_end:
                best, best_end = at, end
        if best < 0:
            return None
        for k in range(reg.width):
            taken[best + k] |= words[k]
        numbers[reg.id] = best
    return numbers


def _uniform(code: Code, ranges: Ranges, number: dict[int, int]) -> int:
    """Uniform registers are shared by all parts of a diverged warp, so a range has no gaps in layout order."""
    taken: list[int] = []
    for start, reg, words in _by_start(code, ranges, "U"):
        whole = 0
        for w in words:
            whole |= w
        solid = (1 << whole.bit_length()) - (1 << (start - 1))
        if whole.bit_count() == 1:  # a descriptor, which global accesses name without reading it
            solid = (1 << ranges.size) - (1 << (start - 1))
        at = 0
        while True:
            while len(taken) < at + reg.width:
                taken.append(0)
            if not any(taken[at + k] & solid for k in range(reg.width)):
                break
            at += reg.width
        for k in range(reg.width):
            taken[at + k] |= solid
        number[reg.id] = at + FIRST_UNIFORM
    if len(taken) + FIRST_UNIFORM > MAX_UNIFORM:
        raise BuildError(
            f"this kernel needs {len(taken)} uniform registers, and there are {MAX_UNIFORM - FIRST_UNIFORM}"
        )
    return len(taken) + FIRST_UNIFORM if taken else 0


def _predicates(code: Code, ranges: Ranges, number: dict[int, int]) -> VReg | None:
    """Number the predicates; the one to keep elsewhere when there are too many."""
    taken = [0] * PREDICATE_COUNT
    order = _by_start(code, ranges, "P")
    for _, reg, (range_,) in order:
        for at in range(PREDICATE_COUNT):
            if not taken[at] & range_:
                taken[at] |= range_
                number[reg.id] = at
                break
        else:
            rivals = [r for _, r, (other,) in order if other & range_]
            return max(rivals, key=lambda r: (ranges.of(r).bit_count(), r.id))
    return None


def _keep_in_register(code: Code, reg: VReg) -> None:
    """Move a predicate to a register after it is set, and back before each use."""
    kept = Lane(code.new("R"))
    for block in code.blocks:
        out: list[Machine] = []
        for m in map(copy, block.code):  # the given instructions stay as they are
            if any(p is reg for p in m.predicate_reads()):
                again = code.new("P")
                out.append(
                    Machine(
                        Op.ISETP,
                        TimingClass.SETP,
                        "ISETP.NE.AND",
                        a=kept,
                        b=ZERO,
                        na=1,
                        nb=1,
                        pd=again,
                        x=5,
                        line=m.line,
                    )
                )
                m.guard, m.pa, m.pb = (_renamed(g, reg, again) for g in (m.guard, m.pa, m.pb))  # type: ignore[assignment]
            out.append(m)
            if reg in (m.pd, m.pe):
                fresh = code.new("P")
                m.pd = fresh if m.pd is reg else m.pd
                m.pe = fresh if m.pe is reg else m.pe
                out.append(
                    Machine(
                        Op.SEL,
                        TimingClass.ALU,
                        "SEL",
                        kept,
                        1,
                        a=ZERO,
                        b=Imm(1),
                        na=1,
                        nb=1,
                        pa=Guard(fresh, True),
                        line=m.line,
                    )
                )
        block.code = out


def _renamed(guard: object, old: VReg, new: VReg) -> object:
    if isinstance(guard, Guard) and guard.reg is old:
        return Guard(new, guard.negated)
    return guard
