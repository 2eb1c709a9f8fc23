"""Tracing: runs the kernel's Python once and records what it does.

The tracer keeps the *scopes* of the blocks that are open (`k.if_`, `k.range_`,
...) and, for each, what the kernel's variables hold there. Closing a block makes
the join, carry and exit values that the variables need.
"""

from __future__ import annotations

import contextlib
import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sim.builder.emitter import Emitter
from sim.builder.errors import BuildError
from sim.builder.ir import Counted, Graph, If, Loop, Region, Value
from sim.builder.types import BOOL, Type
from sim.program import SourceLine

_HERE = (str(Path(__file__).parent), contextlib.__file__)  #: frames that are no kernel's


class Slot:
    """A variable of the kernel; what it holds depends on where the tracer is."""

    __slots__ = ("home", "name", "type")

    def __init__(self, type_: Type, home: Scope) -> None:
        self.type = type_
        self.home = home


class Scope:
    """An open block: its region and what variables hold in it."""

    __slots__ = ("carried", "chain", "env", "kind", "last_if", "node", "region")

    def __init__(self, kind: str, region: Region, node: If | Loop | None = None) -> None:
        self.kind = kind  # root, way, loop
        self.region = region
        self.node = node
        self.env: dict[Slot, Value] = {}
        self.carried: dict[Slot, Value] = {}
        self.last_if: Chain | None = None


class Chain:
    """An `if_` that `elif_` or `else_` may still follow, with all that is needed to reopen it."""

    __slots__ = ("after", "before", "ends_at", "levels")

    def __init__(self) -> None:
        self.after: dict[Slot, Value] = {}  # what the parent scope held when it was closed
        self.levels: list[tuple[If, Scope]] = []  # each If with the scope of its then-way, outermost first
        self.before: dict[Slot, Value] = {}  # what the parent scope held before
        self.ends_at = 0  # items of the parent region when it was closed


class Tracer(Emitter):
    """Records one kernel. Methods with a trailing `_` in `ThreadView` lead here."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.scopes = [Scope("root", graph.root)]
        self.source: list[SourceLine] = []
        self._source_index: dict[tuple[str, int], int] = {}

    # --- where we are
    def mark(self) -> None:
        """Take the source line of the innermost frame outside the builder."""
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(_HERE):
            frame = frame.f_back  # type: ignore[assignment]
        if frame is None:
            return
        key = (frame.f_code.co_filename, frame.f_lineno)
        index = self._source_index.get(key)
        if index is None:
            index = self._source_index[key] = len(self.source)
            text = linecache.getline(*key).strip()
            self.source.append(SourceLine(_short(key[0]), key[1], text))
        self.line = index

    def where(self) -> str:
        """`file:line` of the current source line."""
        if not 0 <= self.line < len(self.source):
            return self.graph.name
        at = self.source[self.line]
        return f"{at.file}:{at.number}"

    def error(self, message: str) -> BuildError:
        """An error at the kernel's current line."""
        self.mark()
        return BuildError(message, self.where())

    def check(self, value: Value) -> Value:
        """`value`, if it may be used here. Raises `BuildError` for one made in a block that is closed."""
        if value.region is not None and not value.region.encloses(self.region):
            raise self.error(
                "this uses a value that was made inside a traced block that is closed; "
                "keep it in a variable made before the block: v = k.var(0.0); ...; v.set(value)"
            )
        return value

    # --- variables
    def slot(self, initial: Value) -> Slot:
        """A new variable."""
        slot = Slot(initial.type, self.scopes[-1])
        self.scopes[-1].env[slot] = initial
        return slot

    def read(self, slot: Slot) -> Value:
        """What a variable holds here. Raises `BuildError` outside the block that made it."""
        return self._read(slot, len(self.scopes) - 1)

    def _read(self, slot: Slot, level: int) -> Value:
        if level < 0:
            raise self.error("this variable was made inside a traced block that is closed; make it before the block")
        scope = self.scopes[level]
        found = scope.env.get(slot)
        if found is not None:
            return found
        value = self._read(slot, level - 1)
        if scope.kind == "loop":
            assert isinstance(scope.node, Loop)
            value = scope.env[slot] = scope.carried[slot] = self.carry(scope.node, value)
        return value

    def write(self, slot: Slot, value: Value) -> None:
        """Make a variable hold `value` from here on."""
        self.scopes[-1].env[slot] = value

    # --- blocks
    def _enter(self, kind: str, region: Region, node: If | Loop) -> Scope:
        scope = Scope(kind, region, node)
        self.scopes.append(scope)
        self.region = region
        return scope

    def _leave(self) -> Scope:
        scope = self.scopes.pop()
        self.region = self.scopes[-1].region
        return scope

    @contextmanager
    def if_(self, condition: Value, rare: bool = False) -> Iterator[None]:
        """The then-way of a new `If`; `rare` when it is hardly ever taken."""
        chain = Chain()
        node = If(self.check(condition), self.region, self.line)
        node.rare = rare
        self.append_node(node)
        chain.before = dict(self.scopes[-1].env)
        then = self._enter("way", node.then, node)
        yield
        self._expect(then, "if_")
        chain.levels.append((node, self._leave()))
        self._close_if(chain, None)

    @contextmanager
    def elif_(self, condition: Value | Callable[[], Value]) -> Iterator[None]:
        """A further way of the `If` just closed, under a condition of its own."""
        chain, moved = self._reopen("elif_")
        if isinstance(condition, Value):
            condition = self._move(condition, moved)
        else:
            condition = condition()
        node = If(self.check(condition), self.region, self.line)
        self.append_node(node)
        then = self._enter("way", node.then, node)
        yield
        self._expect(then, "elif_")
        chain.levels.append((node, self._leave()))
        self._close_if(chain, None)

    @contextmanager
    def else_(self) -> Iterator[None]:
        """The last way of the `If` just closed."""
        chain, moved = self._reopen("else_")
        if moved:
            raise self.error("k.else_() must directly follow its k.if_ or k.elif_ block")
        otherwise = self.scopes[-1]
        yield
        self._expect(otherwise, "else_")
        self._close_if(chain, self._leave())
        self.scopes[-1].last_if = None

    def _expect(self, scope: Scope, what: str) -> None:
        if self.scopes[-1] is not scope:
            raise self.error(f"a block inside this k.{what} was left by break, return or an exception")

    def _reopen(self, what: str) -> tuple[Chain, list[Any]]:
        """Take back the joins of the `If` just closed and stand in its last else-way."""
        scope = self.scopes[-1]
        chain = scope.last_if
        if chain is None:
            raise self.error(f"k.{what}() without a k.if_() before it in the same block")
        moved = scope.region.items[chain.ends_at :]
        del scope.region.items[chain.ends_at :]
        changed = any(
            value is not chain.after.get(slot) and value is not scope.carried.get(slot)
            for slot, value in scope.env.items()
        )
        if changed or any(not isinstance(item, Value) for item in moved):
            raise self.error(f"k.{what}() must directly follow its k.if_ or k.elif_ block")
        scope.env = {**scope.carried, **chain.before}
        for node, _ in chain.levels:
            for join in node.joins:
                join.owner = None
            node.joins = []
            self._enter("way", node.otherwise, node)
        return chain, moved

    def _move(self, condition: Value, moved: list[Value]) -> Value:
        """An `elif_` condition's values, remade in the else-way, where variables hold what they held before."""
        mapping: dict[int, Value] = {}

        def remade(v: Value) -> Value:
            if v.id in mapping:
                return mapping[v.id]
            if v.op == "join" and v.owner is None:
                return remade(v.args[1])
            return v

        known = self._outer_of(moved).known
        for key in [key for key, value in known.items() if value in moved]:
            del known[key]
        for item in moved:
            mapping[item.id] = self.emit(item.op, item.type, tuple(remade(a) for a in item.args), item.attr)
        return remade(condition)

    def _outer_of(self, moved: list[Value]) -> Region:
        region = moved[0].region if moved else None
        return region if region is not None else self.region

    def _close_if(self, chain: Chain, otherwise: Scope | None) -> None:
        """Make joins from the innermost level outwards; the chain can be reopened until something else is traced."""
        depth = len(chain.levels)
        for level in range(depth - 1, -1, -1):
            node, then = chain.levels[level]
            if level < depth - 1 or otherwise is not None:
                way = otherwise if level == depth - 1 else self._leave()
            else:
                way = Scope("way", node.otherwise, node)
            assert way is not None
            self._join(node, then, way)
        outer = self.scopes[-1]
        chain.ends_at = len(outer.region.items)
        chain.after = dict(outer.env)
        outer.last_if = chain

    def _join(self, node: If, then: Scope, otherwise: Scope) -> None:
        outer = self.scopes[-1]
        if node.then.terminated and node.otherwise.terminated:
            outer.region.terminated = True
            return
        slots = [s for s in {**then.env, **otherwise.env} if s.home is not then and s.home is not otherwise]
        for slot in slots:
            old = None if slot in then.env and slot in otherwise.env else self.read(slot)
            ways = []
            for scope in (then, otherwise):
                value = scope.env.get(slot, old)
                assert value is not None
                ways.append(self.leaf("undef", slot.type) if scope.region.terminated else value)
            outer.env[slot] = self.join(node, *ways)

    @contextmanager
    def loop(self, counted: Counted | None = None) -> Iterator[Loop]:
        """A loop. The caller sets `condition` of an uncounted one before the block ends."""
        node = Loop(self.region, self.line)
        for space in self.epochs:
            self.touch(space)
        scope = self._enter("loop", node.body, node)
        yield node
        self._expect(scope, "range_ or k.while_")
        outer_level = len(self.scopes) - 2
        for slot, value in scope.env.items():
            if slot.home is scope:
                continue
            carry = scope.carried.get(slot)
            if carry is None:
                carry = scope.carried[slot] = self.carry(node, self._read(slot, outer_level))
            carry.args = (carry.args[0], value)
        self._leave()
        self.append_node(node)
        for space in self.epochs:
            self.touch(space)
        for slot, carry in scope.carried.items():
            if carry.args[1] is not carry:
                self.scopes[-1].env[slot] = self.exit_value(node, carry)

    def for_(self, start: Value, stop: Value, step: Value, unroll: int | bool | None) -> Iterator[Value]:
        """A counted loop; yields its index once."""
        with self.loop() as node:
            index = self.carry(node, start)
            index.nonneg = start.nonneg and step.nonneg
            node.counted = Counted(index, start, stop, step, unroll)
            yield index
            index.args = (start, index)

    @contextmanager
    def while_(self, condition: Callable[[], Value]) -> Iterator[None]:
        """`while condition()`: tested before the loop and, traced again, at its end."""
        with self.if_(condition()), self.loop() as node:
            yield
            node.condition = self.check(condition())
        self.scopes[-1].last_if = None

    def exit(self) -> None:
        """All threads here end."""
        self.emit("end", BOOL)
        self.region.terminated = True

    def finish(self) -> None:
        """Raises `BuildError` when a block is still open."""
        if len(self.scopes) != 1:
            raise self.error("a traced block was left by break or return; use k.if_, k.return_() or a loop condition")


def _short(filename: str) -> str:
    """A path relative to the working directory where it is below it, else the file's name."""
    path = Path(filename)
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return path.name
