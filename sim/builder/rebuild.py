"""Copying a graph through the emitter, the base of the passes that change it.

A copy folds, merges and hoists again, so each pass leaves the graph as clean as
if it had been traced that way. Subclasses override what they change.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sim.builder.emitter import Emitter
from sim.builder.ir import Graph, If, Loop, Region, Value
from sim.builder.types import BOOL


class Rebuilder:
    """Copies `old` into `self.graph`. `self.emit` is the emitter of the copy."""

    def __init__(self, old: Graph, hoist: bool) -> None:
        self.graph = Graph(old.name, Region(), old.shared_bytes, old.local_bytes, old.registers, old.count, old.lines)
        self.e = Emitter(self.graph, hoist)
        self.old = old
        self.map: dict[int, Value] = {}

    def run(self) -> Graph:
        self.region(self.old.root)
        return self.graph

    def of(self, old: Value) -> Value:
        """The copy of a value."""
        if old.region is None:
            e = self.e
            if old.op == "const":
                return e.const(old.attr, old.type)
            return e.leaf(old.op, old.type, old.attr, old.nonneg)
        return self.map[old.id]

    @contextmanager
    def inside(self, region: Region) -> Iterator[None]:
        """Emit into `region`."""
        outer, self.e.region = self.e.region, region
        yield
        self.e.region = outer

    def region(self, old: Region) -> None:
        """Copy a region's items to where the emitter stands."""
        for item in old.items:
            if self.e.region.terminated:
                return
            self.e.line = item.line
            if isinstance(item, Value):
                self.map[item.id] = self.value(item)
                if item.op == "end":
                    self.e.region.terminated = True
            elif isinstance(item, If):
                self.if_(item)
            else:
                self.loop(item)

    def value(self, old: Value) -> Value:
        new = self.e.emit(old.op, old.type, tuple(self.of(a) for a in old.args), old.attr)
        if old.nonneg:
            new.nonneg = True
        return new

    def if_(self, old: If) -> None:
        condition = self.of(old.condition)
        if condition.is_const:
            self.region(old.then if condition.attr else old.otherwise)
            for join in old.joins:
                chosen = join.args[0 if condition.attr else 1]
                if not self.e.region.terminated:
                    self.map[join.id] = self.of(chosen)
            return
        line = self.e.line
        node = If(condition, self.e.region, line)
        node.rare = old.rare
        with self.inside(node.then):
            self.region(old.then)
        with self.inside(node.otherwise):
            self.region(old.otherwise)
        self.close_if(node, old)

    def close_if(self, node: If, old: If) -> None:
        """Append a copied `If`, or selections in its place when nothing is left in it."""
        e = self.e
        empty = not node.then.items and not node.otherwise.items
        if empty and not node.then.terminated and not node.otherwise.terminated:
            for join in old.joins:
                self.map[join.id] = e.select(node.condition, self.of(join.args[0]), self.of(join.args[1]))
            return
        e.append_node(node)
        for join in old.joins:
            ways = [
                e.leaf("undef", join.type) if way.terminated else self.of(arg)
                for way, arg in zip((node.then, node.otherwise), join.args, strict=True)
            ]
            self.map[join.id] = e.join(node, ways[0], ways[1])
        if node.then.terminated and node.otherwise.terminated:
            e.region.terminated = True

    def touch_all(self) -> None:
        for space in self.e.epochs:
            self.e.touch(space)

    def loop(self, old: Loop) -> None:
        e = self.e
        line = e.line
        self.touch_all()
        node = Loop(e.region, line)
        changing = changing_carries(old)
        self.drop_constant_carries(old)
        copies = []
        for c in changing:
            copy = self.map[c.id] = e.carry(node, self.of(c.args[0]))
            copy.nonneg = c.nonneg
            copies.append(copy)
        if old.note is not None:
            index, step, *rest = old.note
            node.note = (self.map[index.id], self.of(step), *rest)
        with self.inside(node.body):
            self.region(old.body)
            ended = node.body.terminated
            for copy, c in zip(copies, changing, strict=True):
                copy.args = (copy.args[0], copy if ended else self.of(c.args[1]))
            assert old.condition is not None
            node.condition = e.const(False, BOOL) if ended else self.of(old.condition)
        self.finish_loop(node, old, {c.id: copy for c, copy in zip(changing, copies, strict=True)})

    def drop_constant_carries(self, old: Loop) -> None:
        """Carries that never change are their initial value."""
        for c in old.carries:
            if c.args[1] is c and (old.counted is None or c is not old.counted.index):
                self.map[c.id] = self.of(c.args[0])

    def finish_loop(self, node: Loop, old: Loop, copies: dict[int, Value]) -> None:
        """Append a copied loop and map the values that leave it."""
        self.e.append_node(node)
        self.touch_all()
        if node.body.terminated:
            self.e.region.terminated = True
        for exit_value in old.exits:
            carry = exit_value.args[0]
            copy = copies.get(carry.id)
            self.map[exit_value.id] = self.map[carry.id] if copy is None else self.e.exit_value(node, copy)


def changing_carries(loop: Loop) -> list[Value]:
    """Carries that some round changes, without a counted loop's index."""
    index = loop.counted.index if loop.counted is not None else None
    return [c for c in loop.carries if c is not index and c.args[1] is not c]
