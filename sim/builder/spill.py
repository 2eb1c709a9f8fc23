"""Keeping registers in local memory when there are more than a thread can have."""

from __future__ import annotations

from copy import copy

from sim.builder.liveness import Ranges
from sim.builder.machine import ZERO, Code, Lane, Machine, VReg
from sim.isa import Op, Space, TimingClass

LOOP_WEIGHT = 10  #: how much more often an instruction inside one more loop is taken to run


def choose(code: Code, ranges: Ranges, count: int) -> list[VReg]:
    """The `count` single registers that are needed longest for the least uses; fewer when there are not so many."""
    uses: dict[int, float] = {}
    for block in code.blocks:
        weight = float(LOOP_WEIGHT**block.depth)
        for m in block.code:
            for reg, _, _ in m.reads():
                uses[reg.id] = uses.get(reg.id, 0) + weight
            if m.dst is not None and m.nd:
                uses[m.dst.reg.id] = uses.get(m.dst.reg.id, 0) + weight
    found = []
    for reg in code.registers:
        length = ranges.of(reg).bit_count() if reg.kind == "R" and reg.width == 1 else 0
        if length > 4:  # shorter ones are what earlier rounds left
            found.append((-length / uses.get(reg.id, 1.0), reg.id, reg))
    return [reg for _, _, reg in sorted(found)[:count]]


def spill(code: Code, regs: list[VReg], first_slot: int) -> None:
    """Move registers to local memory, 4 bytes each from slot `first_slot`: stored when written, loaded before use."""
    slots = {reg.id: 4 * (first_slot + n) for n, reg in enumerate(regs)}
    for block in code.blocks:
        out: list[Machine] = []
        for m in block.code:
            changed = copy(m)
            loaded: dict[int, Lane] = {}
            for name in ("a", "b", "c"):
                operand = getattr(m, name)
                if isinstance(operand, Lane) and operand.reg.id in slots:
                    if operand.reg.id not in loaded:
                        loaded[operand.reg.id] = Lane(code.new("R"))
                        out.append(_load(loaded[operand.reg.id], slots[operand.reg.id], m.line))
                    setattr(changed, name, loaded[operand.reg.id])
            out.append(changed)
            if m.dst is not None and m.nd and m.dst.reg.id in slots:
                slot = slots[m.dst.reg.id]
                changed.dst = Lane(code.new("R"))
                changed.copy = False
                if m.merge:
                    out.insert(len(out) - 1, _load(changed.dst, slot, m.line))
                store = Machine(Op.ST, TimingClass.LOAD_STORE, "STL", a=ZERO, na=1, b=changed.dst, nb=1, y=slot)
                store.space, store.width, store.line, store.guard = Space.LOCAL, 4, m.line, m.guard
                out.append(store)
        block.code = out


def _load(dst: Lane, slot: int, line: int) -> Machine:
    m = Machine(Op.LD, TimingClass.LOAD_STORE, "LDL", dst, 1, a=ZERO, na=1, y=slot, space=Space.LOCAL, width=4)
    m.line = line
    return m
