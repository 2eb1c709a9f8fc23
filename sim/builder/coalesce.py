"""Giving moved registers one number, so that the moves go away.

Registers are joined into groups; a member has a place in its group's words. Two
groups join when their words that would lie on each other are never needed at the
same time.
"""

from __future__ import annotations

from sim.builder.liveness import Ranges
from sim.builder.machine import Code, Lane, VReg
from sim.isa import Op


class Groups:
    """Union-find of registers with offsets."""

    def __init__(self, code: Code, ranges: Ranges) -> None:
        self.parent: dict[int, tuple[VReg, int]] = {}
        self.ranges: dict[int, list[int]] = {}
        self._all = ranges

    def find(self, reg: VReg) -> tuple[VReg, int]:
        """The group of a register and the register's first word in it."""
        offset = 0
        while reg.id in self.parent:
            reg, more = self.parent[reg.id]
            offset += more
        return reg, offset

    def words(self, root: VReg) -> list[int]:
        found = self.ranges.get(root.id)
        if found is None:
            found = self.ranges[root.id] = [self._all.of(root, k) for k in range(root.width)]
        return found

    def join(self, a: Lane, b: Lane) -> bool:
        """Make two words one, if that can be."""
        x, at_x = self.find(a.reg)
        y, at_y = self.find(b.reg)
        shift = (at_x + a.word) - (at_y + b.word)  # y's words lie `shift` above x's
        if x is y:
            return shift == 0
        if shift < 0 or shift + y.width > x.width:
            x, y, shift = y, x, -shift
        if shift < 0 or shift + y.width > x.width or shift % y.width:
            return False
        outer, inner = self.words(x), self.words(y)
        if any(outer[shift + k] & inner[k] for k in range(y.width)):
            return False
        for k in range(y.width):
            outer[shift + k] |= inner[k]
        self.parent[y.id] = (x, shift)
        return True


def coalesce(code: Code) -> None:
    """Join what moves connect, inner loops first, and drop the moves that have become empty."""
    ranges = Ranges(code)
    groups = Groups(code, ranges)
    moves = [(block.depth, m) for block in code.blocks for m in block.code if m.copy]
    moves.sort(key=lambda item: -item[0])
    for _, m in moves:
        if isinstance(m.a, Lane) and m.dst is not None and m.a.reg.kind == m.dst.reg.kind:
            groups.join(m.dst, m.a)
    cache: dict[tuple[int, int], Lane] = {}

    def renamed(operand: object) -> object:
        if type(operand) is not Lane or operand.reg.id not in groups.parent:
            return operand
        key = (operand.reg.id, operand.word)
        lane = cache.get(key)
        if lane is None:
            root, offset = groups.find(operand.reg)
            lane = cache[key] = Lane(root, offset + operand.word)
        return lane

    for block in code.blocks:
        kept = []
        for m in block.code:
            m.dst, m.a, m.b, m.c = renamed(m.dst), renamed(m.a), renamed(m.b), renamed(m.c)  # type: ignore[assignment]
            m.keeps = tuple(renamed(lane) for lane in m.keeps)  # type: ignore[misc]
            if (m.copy and m.dst == m.a) or m.op is Op.NOP and not m.text and not m.phantom:
                continue
            kept.append(m)
        block.code = kept
    while _drop_dead(code):
        pass


def _drop_dead(code: Code) -> bool:
    """Remove moves whose result nothing reads; True when there were any."""
    dead = Ranges(code).dead
    position = 0
    found = False
    for block in code.blocks:
        count = len(block.code)
        kept = [m for at, m in enumerate(block.code, position + 1) if not (at in dead and m.op is Op.MOV and m.nd == 1)]
        found |= len(kept) < count
        position += count + 1
        block.code = kept
    return found
