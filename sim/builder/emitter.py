"""Making values: the one place that appends to the intermediate form.

Every value passes through `Emitter.emit`, which folds constants, finds an equal
value that is already there, and (with `hoist`) places what does not change in a
loop before that loop. Tracing and every later pass build with it.
"""

from __future__ import annotations

import struct
from typing import Any

from sim.builder import fold
from sim.builder.ir import EFFECTS, ORDERING, Access, Graph, If, Loop, Region, Value
from sim.builder.types import BOOL, F32, F64, I32, Type, int_range, round_float, wrap
from sim.isa import Space, SpecialRegister

LEAVES = frozenset(
    ("const", "cbank", "sreg", "shared_base", "undef")
)  #: available everywhere; made where they are used
_COMMUTATIVE = frozenset(("add", "mul", "and", "or", "xor", "min", "max", "pand", "por", "pxor"))


class Emitter:
    """Builds one graph. `region` is where values go, `line` the source line they get."""

    def __init__(self, graph: Graph, hoist: bool = False) -> None:
        self.graph = graph
        self.region = graph.root
        self.line = -1
        self.hoist = hoist
        spaces = (Space.GLOBAL, Space.SHARED, Space.LOCAL, Space.GENERIC)
        self.epochs = dict.fromkeys(spaces, 0)  # change when loads may see something new
        self._leaves: dict[Any, Value] = {}

    # --- leaves
    def const(self, value: Any, type_: Type) -> Value:
        """A constant, wrapped or rounded to its type."""
        if type_.is_int:
            value = wrap(int(value), type_)
            key: Any = (type_, value)
        elif type_.is_float:
            value = round_float(float(value), type_)
            key = (type_, struct.pack("<d", value))
        else:
            value = bool(value)
            key = (type_, value)
        found = self._leaves.get(key)
        if found is None:
            found = self._leaf("const", type_, value, key)
            found.nonneg = type_.is_int and value >= 0
        return found

    def _leaf(self, op: str, type_: Type, attr: Any, key: Any) -> Value:
        value = self._leaves[key] = Value(op, type_, (), attr, None, -1)
        value.id = self.graph.count
        self.graph.count += 1
        return value

    def leaf(self, op: str, type_: Type, attr: Any = None, nonneg: bool = False) -> Value:
        """A constant-bank word, special register, or the shared memory's base."""
        key = (op, type_, attr)
        found = self._leaves.get(key)
        if found is None:
            found = self._leaf(op, type_, attr, key)
            found.nonneg = nonneg
        return found

    def special(self, register: SpecialRegister) -> Value:
        """A special register, as int32."""
        return self.leaf("sreg", I32, register, nonneg=True)

    # --- operations
    def emit(self, op: str, type_: Type, args: tuple[Value, ...] = (), attr: Any = None) -> Value:
        """The value of an operation: an old one when it is known, folded when it can be, else new."""
        if op in _COMMUTATIVE and args[0].op == "const" and args[1].op != "const":
            args = (args[1], args[0])
        simpler = fold.fold(self, op, type_, args, attr)
        if simpler is not None:
            return simpler
        if op == "load":
            return self._load(type_, args, attr)
        if op == "take":  # of sums that never change: what does is another value
            return self._once((op, type_, *map(id, args), attr), op, type_, args, attr)
        if op in EFFECTS:
            return self._append(self.region, op, type_, args, attr)
        region = self._home(args) if self.hoist and type_ is not BOOL else self.region
        key = (op, type_, *map(id, args), attr)
        found = self._find(region, key)
        if found is None:
            found = region.known[key] = self._append(region, op, type_, args, attr)
            found.nonneg = fold.is_nonneg(found)
        return found

    def _append(self, region: Region, op: str, type_: Type, args: tuple[Value, ...], attr: Any) -> Value:
        assert all(a.region is None or a.region.encloses(region) for a in args), f"{op} of a value of another way"
        value = Value(op, type_, args, attr, region, self.line)
        value.id = self.graph.count
        self.graph.count += 1
        if not region.terminated:
            region.items.append(value)
        if op in ("store", "atomic", "ldgsts", "wait"):
            space = Space.SHARED if op in ("ldgsts", "wait") else attr.space
            self.touch(space)
            if space in (Space.SHARED, Space.GENERIC):  # distributed shared memory has the block's own in it
                self.touch(Space.SHARED if space is Space.GENERIC else Space.GENERIC)
        elif op in ORDERING:
            for space in self.epochs:
                self.touch(space)
        return value

    def _load(self, type_: Type, args: tuple[Value, ...], access: Access) -> Value:
        key = ("load", self.epochs[access.space], type_, *map(id, args), access)
        found = self._once(key, "load", type_, args, access)
        found.nonneg = found.nonneg or access.storage.kind == "u" and access.storage.bits < 32
        return found

    def _once(self, key: Any, op: str, type_: Type, args: tuple[Value, ...], attr: Any) -> Value:
        """The value that has this key, made here if it is not known."""
        found = self._find(self.region, key)
        if found is None:
            found = self.region.known[key] = self._append(self.region, op, type_, args, attr)
        return found

    @staticmethod
    def _find(region: Region | None, key: Any) -> Value | None:
        while region is not None:
            found = region.known.get(key)
            if found is not None:
                return found
            region = region.parent
        return None

    def _home(self, args: tuple[Value, ...]) -> Region:
        """The outermost place for a pure value: before every loop that changes none of `args`."""
        region = self.region
        while region.is_loop and not region.terminated:
            parent = region.parent
            assert parent is not None
            if not all(a.region is None or a.region.encloses(parent) for a in args):
                break
            region = parent
        return region

    def touch(self, space: Space) -> None:
        """Loads from `space` may see something new from here on."""
        self.epochs[space] += 1

    def part(self, vector: Value, index: int, type_: Type) -> Value:
        """Element `index` of a vector value."""
        return self.emit("part", type_, (vector,), index)

    # --- nests
    def append_node(self, node: If | Loop) -> None:
        if not self.region.terminated:
            self.region.items.append(node)

    def join(self, node: If, then: Value, otherwise: Value) -> Value:
        """The value after an `If`."""
        if then is otherwise:
            return then
        region = node.then.parent
        assert region is not None
        for kept, gone in ((then, otherwise), (otherwise, then)):
            if gone.op == "undef" and (kept.region is None or kept.region.encloses(region)):
                return kept  # threads of the other way have ended
        value = Value("join", then.type, (then, otherwise), None, region, node.line)
        value.id = self.graph.count
        self.graph.count += 1
        value.owner = node
        value.nonneg = then.nonneg and otherwise.nonneg
        node.joins.append(value)
        return value

    def carry(self, loop: Loop, initial: Value) -> Value:
        """A value that a loop carries; `args` becomes (initial, next) when the loop is closed."""
        value = Value("carry", initial.type, (initial,), None, loop.body, loop.line)
        value.id = self.graph.count
        self.graph.count += 1
        value.owner = loop
        loop.carries.append(value)
        return value

    def exit_value(self, loop: Loop, carry: Value) -> Value:
        """What a carry ends with, for use after the loop."""
        value = Value("exit", carry.type, (carry,), None, loop.body.parent, loop.line)
        value.id = self.graph.count
        self.graph.count += 1
        value.owner = loop
        loop.exits.append(value)
        return value

    # --- shorthands
    def i32(self, value: int) -> Value:
        return self.const(value, I32)

    def f32(self, value: float) -> Value:
        return self.const(value, F32)

    def f64(self, value: float) -> Value:
        return self.const(value, F64)

    def add(self, a: Value, b: Value) -> Value:
        return self.emit("add", a.type, (a, b))

    def sub(self, a: Value, b: Value) -> Value:
        return self.emit("sub", a.type, (a, b))

    def mul(self, a: Value, b: Value) -> Value:
        return self.emit("mul", a.type, (a, b))

    def fma(self, a: Value, b: Value, c: Value, attr: Any = None) -> Value:
        return self.emit("fma", a.type, (a, b, c), attr)

    def compare(self, how: str, a: Value, b: Value) -> Value:
        return self.emit("cmp", BOOL, (a, b), how)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        return self.emit("select", a.type, (condition, a, b))

    def cast(self, a: Value, type_: Type) -> Value:
        return self.emit("cast", type_, (a,))

    def bitcast(self, a: Value, type_: Type) -> Value:
        return self.emit("bitcast", type_, (a,))


def fits(value: int, type_: Type) -> bool:
    """True when an integer type can hold `value`."""
    low, high = int_range(type_)
    return low <= value <= high
