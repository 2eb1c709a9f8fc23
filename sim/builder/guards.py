"""Short ways of an `If` as guarded instructions, without a branch."""

from __future__ import annotations

from collections.abc import Callable

from sim.builder.ir import ASYNCHRONOUS, KEPT, If, Region, Value
from sim.builder.machine import Guard, Lane
from sim.builder.moves import put_copies
from sim.builder.select import Selector, is_alias
from sim.builder.tails import is_exit

GUARD_LIMIT = 8  #: instructions of a way that is guarded instead of branched around
_UNGUARDED = (ASYNCHRONOUS - {"mbarrier"}) | frozenset(
    "bar warpsync membar wait commit shfl vote mma ldsm clock elect uniform sums take put".split()
)
Walk = Callable[[Selector, Region], None]


def can_guard(s: Selector, node: If, joins: list[Value]) -> bool:
    """True when both ways are short, without nests and without what guards cannot hold."""
    if s.guard is not None:
        return False
    total = 0
    for way, side in ((node.then, 0), (node.otherwise, 1)):
        length = 0
        for item in way.items:
            if not isinstance(item, Value) or item.op in _UNGUARDED:
                return False
            if is_exit(item) and (item is not way.items[-1] or side == 1):
                return False
            if item.id in s.marking.live or item.op in KEPT:
                length += _cost(s, item)
        if side == 0 or way.items:
            length += sum(1 for j in joins if j.args[side].region is not way)
        if length > GUARD_LIMIT:
            return False
        total += length
    return total <= GUARD_LIMIT + 2


def _cost(s: Selector, v: Value) -> int:
    """Instructions of a value, roughly."""
    if is_alias(v) or v.op == "pnot":
        return 0
    if v.op == "mul" and s.uses.get(v.id, 0) == 1:
        return 0  # part of a multiply-add, mostly
    if v.op in ("store", "atomic", "load", "madwide"):
        return 1
    return max(1, v.type.registers)


def guarded_if(s: Selector, node: If, joins: list[Value], walk: Walk) -> None:
    """Put both ways of an `If` under guards. `walk` puts a region's instructions."""
    test = s.test(node.condition)
    assert isinstance(test, Guard)
    both = bool(node.otherwise.items)
    if both:
        _guarded_way(s, node.otherwise, 1, joins, test.inverted(), walk, in_place=False)
        _guarded_way(s, node.then, 0, joins, test, walk, in_place=False)
        for j in joins:
            _first_write_is_whole(s, s.use(j))
        return
    _guarded_way(s, node.then, 0, joins, test, walk, in_place=True)
    s.redirect.clear()
    restores, s.restores = s.restores, []
    for value, lane in reversed(restores):
        if lane is None:
            s.lanes.pop(value.id, None)
        else:
            s.lanes[value.id] = lane
    s.line = node.line
    put_copies(s, [(j, j.args[1]) for j in joins])


def _guarded_way(
    s: Selector, way: Region, side: int, joins: list[Value], guard: Guard, walk: Walk, in_place: bool
) -> None:
    """One way under a guard. What a join receives is made in the join's register where that can be.

    With `in_place` the register holds the join's other value before, and what reads
    that one reads the register.
    """
    redirected: set[int] = set()
    for j in joins:
        value, other = j.args[side], j.args[1 - side]
        dst = s.use(j)
        vector = value.args[0] if value.op == "part" else None
        joined = s.joined.get((id(j.owner), vector.id)) if vector is not None and vector.region is way else None
        if joined is not None and vector is not None and s.lanes.get(vector.id, joined) == joined:
            s.lanes[vector.id] = joined
            s.merged.add(vector.id)
            continue
        if value.region is way and not is_alias(value) and value.id not in s.lanes:
            s.lanes[value.id] = dst
            s.merged.add(value.id)
            if (
                in_place
                and not _made_in(way, other)
                and other.region is not None
                and not is_alias(other)
                and other.id not in redirected
            ):
                redirected.add(other.id)
                s.redirect[value.id] = (other, dst)
        else:
            s.line = j.line
            s.copy(dst, value, guard, merge=True)
    s.guard = guard
    walk(s, way)
    s.guard = None
    s.flush(way)


def _made_in(way: Region, value: Value) -> bool:
    """True when a value is made in either way of the `If` that `way` belongs to."""
    node = way.node
    return isinstance(node, If) and value.region in (node.then, node.otherwise)


def _first_write_is_whole(s: Selector, lane: Lane) -> None:
    """When both ways write a join, the earlier write need not keep what was there."""
    for m in reversed(s.block.code):  # program order
        if m.merge and m.dst is not None and m.dst.reg is lane.reg and m.dst.word == lane.word:
            m.merge = False
            return
