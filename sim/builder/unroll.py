"""Lowering counted loops: unrolled as CUDA's compiler does, with what cannot change moved out.

* Constant trip count and a small total: unrolled wholly.
* Constant trip count else: by the largest power of two that keeps the body small.
* Trip count known at run time and a constant step: four copies, and for tiny
  bodies first sixteen, then eight, then four, so that many loads are in flight;
  the remainder runs one by one. Loops with barriers and long bodies stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim.builder.ir import ASYNCHRONOUS, If, Loop, Region, Value, walk
from sim.builder.rebuild import Rebuilder, changing_carries
from sim.builder.types import BOOL, I32, U32

FULL_LIMIT = 250  #: operations that a wholly unrolled constant loop may have
PARTIAL_LIMIT = 280  #: and an unrolled body of a loop that stays
RUNTIME_LIMIT = 200  #: and four copies of the body of a loop whose trip count is known at run time
TIER_LIMIT = 30  #: four copies of a body below this size are made four times more
_FREE = frozenset(("part", "cast", "bitcast", "pair", "fragment", "word", "neg", "pnot"))
_BLOCKING = ASYNCHRONOUS | frozenset(("bar", "warpsync", "membar", "wait", "commit", "shfl", "vote"))


class LoopLowering(Rebuilder):
    """The pass. Afterwards no loop is `counted`."""

    def loop(self, old: Loop) -> None:
        if old.counted is None:
            super().loop(old)
            return
        _Counted(self, old).lower()


Again = Callable[[Value, Any], Value]  #: from the next index and what is left, whether a loop goes on


class _Counted:
    """One counted loop and the state that its rounds pass on."""

    def __init__(self, owner: LoopLowering, old: Loop) -> None:
        assert old.counted is not None
        self.owner, self.old, self.e = owner, old, owner.e
        self.line = owner.e.line
        counted = old.counted
        self.start, self.stop, self.step = (owner.of(v) for v in (counted.start, counted.stop, counted.step))
        self.index = counted.index
        self.unroll = counted.unroll
        self.changing = changing_carries(old)
        self.state = [owner.of(c.args[0]) for c in self.changing]
        self.size = body_size(old.body)
        owner.drop_constant_carries(old)

    # --- decisions
    def lower(self) -> None:
        step = self.step.attr if self.step.is_const else None
        if step is not None and self.start.is_const and self.stop.is_const:
            self._constant(len(range(self.start.attr, self.stop.attr, step)), step)
        else:
            self._runtime(step)
        for exit_value in self.old.exits:
            carry = exit_value.args[0]
            if carry in self.changing:
                self.owner.map[exit_value.id] = self.state[self.changing.index(carry)]
            else:
                self.owner.map[exit_value.id] = self.owner.map[carry.id]

    def _constant(self, trips: int, step: int) -> None:
        full = self.unroll is True or (self.unroll is None and trips * self.size <= FULL_LIMIT) or trips == 1
        if full:
            for j in range(trips):
                if self.e.region.terminated:
                    return
                self._round(self.e.i32(self.start.attr + j * step))
            return
        copies = self._copies_of_constant(trips)
        whole = trips // copies
        if whole > 1:
            end = self.start.attr + whole * copies * step
            self._loop(self.start, copies, lambda index, _: self._not_at(index, end, step), None)
        else:
            whole = 0
        for j in range(whole * copies, trips):
            self._round(self.e.i32(self.start.attr + j * step))

    def _not_at(self, index: Value, end: int, step: int) -> Value:
        return self.e.compare("lt" if step > 0 else "gt", index, self.e.i32(end))

    def _copies_of_constant(self, trips: int) -> int:
        if isinstance(self.unroll, int) and not isinstance(self.unroll, bool):
            return max(1, min(self.unroll, trips))
        copies = 1
        while copies * 2 <= trips // 2 and trips % (copies * 2) == 0 and self.size * copies * 2 <= PARTIAL_LIMIT:
            copies *= 2
        return copies

    def _runtime(self, step: int | None) -> None:
        e = self.e
        copies = self._copies_at_run_time(step)
        up = step is None or step > 0
        enter = e.compare("lt" if up else "gt", self.start, self.stop)
        with self._when(enter):
            if copies == 1 or step is None:
                self._loop(self.start, 1, lambda index, _: e.compare("lt" if up else "gt", index, self.stop), None)
                return
            self._tiers(self._trip_count(step), copies)

    def _copies_at_run_time(self, step: int | None) -> int:
        if isinstance(self.unroll, int) and not isinstance(self.unroll, bool):
            return max(1, self.unroll)
        if step is None or any(
            isinstance(v, Value) and (v.op in _BLOCKING or v.op == "end") for v in walk(self.old.body)
        ):
            return 1
        if any(isinstance(v, Loop) for v in walk(self.old.body)):
            return 1
        return 4 if self.size * 4 <= RUNTIME_LIMIT else 1

    def _trip_count(self, step: int) -> Value:
        """Rounds, at least one, as int32."""
        e = self.e
        distance = e.sub(self.stop, self.start) if step > 0 else e.sub(self.start, self.stop)
        size = abs(step)
        if size == 1:
            return distance
        from sim.builder.division import floor_divide

        rounded = e.emit("bitcast", U32, (e.add(distance, e.i32(size - 1)),))
        return e.bitcast(floor_divide(e, rounded, e.const(size, U32)), I32)  # type: ignore[arg-type]

    # --- shapes
    def _tiers(self, trips: Value, copies: int) -> None:
        """`copies` rounds at a time, then one by one; tiny bodies sixteen and eight at a time before."""
        e = self.e
        if copies & (copies - 1) == 0:
            rest = e.emit("and", I32, (trips, e.i32(copies - 1)))
        else:
            from sim.builder.division import modulo

            rest = modulo(e, trips, e.i32(copies))  # type: ignore[arg-type]
        tiered = copies == 4 and self.unroll is None and self.size * 4 <= TIER_LIMIT
        index = self.start
        enough = e.emit(
            "cmp", BOOL, (e.emit("bitcast", U32, (e.add(trips, e.i32(-1)),)), e.const(copies - 1, U32)), "ge"
        )
        with self._when(enough, index) as merged:
            left = e.sub(trips, rest)
            if tiered:
                with self._when(e.compare("gt", left, e.i32(12)), index, left) as at:
                    at[0], at[1] = self._loop(index, 16, lambda _, n: e.compare("gt", n, e.i32(12)), left)
                index, left = at
                with self._when(e.compare("gt", left, e.i32(4)), index, left) as at:
                    at[0] = self._rounds(index, 8)
                    at[1] = e.add(left, e.i32(-8))
                index, left = at
                with self._when(e.compare("ne", left, e.i32(0)), index) as at:
                    at[0] = self._rounds(index, 4)
                index = at[0]
            else:
                index, _ = self._loop(index, copies, lambda _, n: e.compare("ne", n, e.i32(0)), left)
            merged[0] = index
        with self._when(e.compare("ne", rest, e.i32(0))):
            self._loop(merged[0], 1, lambda _, n: e.compare("ne", n, e.i32(0)), rest)

    class _When:
        """`with` block under a condition; a list of values, and the loop's state, are joined after it."""

        def __init__(self, owner: _Counted, condition: Value, values: list[Value]) -> None:
            self.owner, self.condition, self.values = owner, condition, values

        def __enter__(self) -> list[Value]:
            o = self.owner
            self.before, self.state = list(self.values), list(o.state)
            if self.condition.is_const:
                self.node = None
                if not self.condition.attr:
                    # nothing runs: build it into a region that is thrown away
                    self.outer, o.e.region = o.e.region, Region(o.e.region)
                return self.values
            self.node = If(self.condition, o.e.region, o.line)
            self.outer, o.e.region = o.e.region, self.node.then
            return self.values

        def __exit__(self, *_: object) -> None:
            o = self.owner
            if self.node is None:
                if not self.condition.attr:
                    o.e.region = self.outer
                    self.values[:], o.state = self.before, self.state
                return
            o.e.region = self.outer
            o.e.append_node(self.node)
            self.values[:] = [o.e.join(self.node, a, b) for a, b in zip(self.values, self.before, strict=True)]
            o.state = [o.e.join(self.node, a, b) for a, b in zip(o.state, self.state, strict=True)]

    def _when(self, condition: Value, *values: Value) -> _When:
        return self._When(self, condition, list(values))

    def _loop(self, start: Value, copies: int, again: Again, left: Value | None) -> tuple[Value, Value]:
        """A loop of `copies` rounds at a time while `again(index, left)`; the index and what is left after it."""
        e = self.e
        self.owner.touch_all()
        node = Loop(e.region, self.line)
        index = e.carry(node, start)
        index.nonneg = self.index.nonneg
        node.note = (index, self.step, copies, left is None)
        counter = e.carry(node, left) if left is not None else None
        carries = [e.carry(node, v) for v in self.state]
        for carry, old in zip(carries, self.changing, strict=True):
            carry.nonneg = old.nonneg
        self.state = list(carries)
        with self.owner.inside(node.body):
            after = self._rounds(index, copies)
            ended = node.body.terminated
            index.args = (start, index if ended else after)
            for carry, value in zip(carries, self.state, strict=True):
                carry.args = (carry.args[0], value)
            remaining = None
            if counter is not None:
                remaining = e.add(counter, e.i32(-copies))
                counter.args = (counter.args[0], counter if ended else remaining)
            node.condition = e.const(False, BOOL) if ended else again(after, remaining)
        e.append_node(node)
        if ended:
            e.region.terminated = True
        self.owner.touch_all()
        self.state = [e.exit_value(node, c) for c in carries]
        end = e.exit_value(node, index)
        return end, e.exit_value(node, counter) if counter is not None else end

    def _rounds(self, index: Value, copies: int) -> Value:
        """Copies of the body; the index after them."""
        for j in range(copies):
            self._round(self._stepped(index, j))
        return self._stepped(index, copies)

    def _stepped(self, index: Value, rounds: int) -> Value:
        e = self.e
        e.line = self.line
        return e.add(index, e.mul(self.step, e.i32(rounds)))

    def _round(self, index: Value) -> None:
        """One copy of the body with this index."""
        owner = self.owner
        if self.index.nonneg:
            index.nonneg = True
        owner.map[self.index.id] = index
        for carry, value in zip(self.changing, self.state, strict=True):
            owner.map[carry.id] = value
        owner.region(self.old.body)
        if not self.e.region.terminated:
            self.state = [owner.of(c.args[1]) for c in self.changing]


def body_size(region: Region) -> float:
    """Instructions that a region will become, roughly: integer work is often folded into addresses."""
    size = 0.0
    for item in region.items:
        if isinstance(item, If):
            size += 2 + body_size(item.then) + body_size(item.otherwise)
        elif isinstance(item, Loop):
            size += 6 + 4 * body_size(item.body)
        elif item.op in _FREE or _is_multiplied_in(item, region):
            continue
        else:
            size += 0.5 if item.type.is_int and item.op in ("add", "sub", "mul", "and", "shr") else 1
    return size


def _is_multiplied_in(value: Value, region: Region) -> bool:
    """A float product is taken to become part of a multiply-add."""
    return value.op == "mul" and value.type.is_float
