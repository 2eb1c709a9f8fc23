"""Lowering array accesses to addresses, as cheaply as CUDA's compiler makes them.

An access's byte offset is a polynomial. Its constant part becomes the
instruction's immediate offset; the rest becomes an address:

* an equal one that is already there is used again;
* in a loop with a constant step, one that advances with the loop's index becomes
  a pointer that the loop carries and moves on;
* one that differs from an address that is there by a multiple of one value is
  made from it with one wide multiply-add;
* else the index is computed and scaled onto the array's base.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sim.builder.ir import Access, Graph, Loop, Region, Value
from sim.builder.polynomial import ALIGNED, Polynomials, Terms, combine, multiply, power_of_two, scale, split
from sim.builder.rebuild import Rebuilder
from sim.builder.types import I32, I64, U32
from sim.isa import Space

MAX_OFFSET = (1 << 23) - 1  #: immediate offsets are signed and have 24 bits


@dataclass(slots=True)
class Known:
    """An address that is there: `value` is base + terms + constant bytes."""

    base: Value
    terms: Terms
    constant: int
    value: Value


@dataclass(slots=True)
class Pointer:
    """A pointer that a loop carries, and what it advances by each round, in bytes."""

    carry: Value
    step: Terms
    wide: bool  #: the index that it stands for has 64 bits


class AddressLowering(Rebuilder):
    """The pass. `alignment` gives the largest power of two that divides an address, by value number."""

    def __init__(self, old: Graph) -> None:
        super().__init__(old, hoist=True)
        self.polynomials = Polynomials()
        self.alignment: dict[int, int] = {}
        self._known: dict[int, list[Known]] = {}  # by region
        self._pointers: dict[int, list[Pointer]] = {}  # by loop body region
        self._wide = False  # the index at hand has 64 bits
        self._stripped: dict[int, tuple[Value | None, int]] = {}

    # --- accesses
    def value(self, old: Value) -> Value:
        if old.op in ("load", "store", "atomic", "ldsm", "mbarrier") and not old.attr.lowered:
            address, offset = self.address(old.attr, self.of(old.args[0]))
            rest = tuple(self.of(a) for a in old.args[1:])
            access = replace(old.attr, base=None, base_bytes=0, offset=offset, lowered=True)
            new = self.e.emit(old.op, old.type, (address, *rest), access)
            new.nonneg = new.nonneg or old.nonneg
            return new
        if old.op == "ldgsts":
            target, origin = old.attr
            to, to_offset = self.address(target, self.of(old.args[0]))
            source, source_offset = self.address(origin, self.of(old.args[1]))
            attr = (
                replace(target, base_bytes=0, offset=to_offset, lowered=True),
                replace(origin, base=None, offset=source_offset, lowered=True),
            )
            return self.e.emit("ldgsts", old.type, (to, source, *(self.of(a) for a in old.args[2:])), attr)
        if old.op == "bulk":
            start, offset = self.address(old.attr.access, self.of(old.args[0]))
            start = self.e.add(start, self.e.const(offset, start.type))
            return self.e.emit("bulk", old.type, (start, *(self.of(a) for a in old.args[1:])), old.attr)
        return super().value(old)

    def address(self, access: Access, index: Value) -> tuple[Value, int]:
        """The address value and immediate offset of an element."""
        base = access.base
        if base is None:  # local addresses count from the thread's own first byte
            base = self.e.i32(0) if access.space is Space.LOCAL else self.e.leaf("shared_base", I32)
        size = access.storage.bytes
        self._wide = index.type.bits == 64
        terms = scale(self.polynomials.of(index), size)
        terms = combine(terms, {(): access.base_bytes} if access.base_bytes else {}, 1)
        return self._locate(base, terms, index, size)

    def _locate(self, base: Value, terms: Terms, index: Value | None, size: int) -> tuple[Value, int]:
        constant = terms.get((), 0)
        moving = {m: c for m, c in terms.items() if m}
        found = self._find(base, moving)
        if found is not None and abs(constant - found.constant) <= MAX_OFFSET:
            return found.value, constant - found.constant
        if abs(constant) > MAX_OFFSET:
            return self._far(base, moving, constant, index, size), 0
        if not moving:
            self._remember(base, moving, 0, base)
            return base, constant
        loop = self._advancing_loop(moving)
        if loop is not None:
            value, start = self._pointer(loop, base, moving, constant)
            return value, constant - start
        value = (self._derived(base, moving) if base.type.bits == 64 else None) or self._fresh(
            base, moving, index, size
        )
        self._remember(base, moving, 0, value)
        return value, constant

    def _far(self, base: Value, moving: Terms, constant: int, index: Value | None, size: int) -> Value:
        near, offset = self._locate(base, moving, None, size) if moving else (base, 0)
        value = self.e.add(near, self.e.const(constant + offset, near.type))
        self._remember(base, moving, constant, value)
        return value

    # --- what is there already
    def _find(self, base: Value, moving: Terms) -> Known | None:
        region: Region | None = self.e.region
        while region is not None:
            for known in self._known.get(id(region), ()):
                if known.base is base and known.terms == moving:
                    return known
            region = region.parent
        return None

    def _remember(self, base: Value, moving: Terms, constant: int, value: Value) -> None:
        region = value.region if value.region is not None else self.graph.root
        self._known.setdefault(id(region), []).append(Known(base, moving, constant, value))
        aligned = min(self.polynomials.multiple(moving), power_of_two(constant))
        self.alignment[value.id] = min(aligned, self.alignment.get(value.id, ALIGNED))

    def _derived(self, base: Value, moving: Terms, within: Region | None = None) -> Value | None:
        """An address one multiply-add away from one that is there (in the region `within`)."""
        if len(moving) == 1 and len(next(iter(moving))) == 1:
            return None  # as cheap from the base
        region: Region | None = self.e.region
        while region is not None:
            for known in reversed(self._known.get(id(region), ())):
                if known.base is not base or known.constant:
                    continue
                if within is not None and not within.encloses(known.value.region):
                    continue
                difference = combine(moving, known.terms, -1)
                if len(difference) == 1:
                    ((monomial, coefficient),) = difference.items()
                    value = self._added(known.value, monomial, coefficient)
                    if value is not None:
                        return value
            region = region.parent
        return None

    def _added(self, address: Value, monomial: tuple[int, ...], coefficient: int) -> Value | None:
        if len(monomial) != 1 or not -(1 << 31) <= coefficient < 1 << 31:
            return None
        variable = self.polynomials.variable[monomial[0]]
        if variable.type.bits != 32:
            return None
        return self._multiply_add(variable, coefficient, address)

    def _multiply_add(self, variable: Value, coefficient: int, address: Value) -> Value:
        e = self.e
        if address.type.bits == 32:
            return e.add(e.mul(e.bitcast(variable, I32), e.i32(coefficient)), address)
        unsigned = variable.type is U32
        return e.emit("madwide", address.type, (variable, e.const(coefficient, variable.type), address), unsigned)

    # --- new addresses
    def _fresh(self, base: Value, moving: Terms, index: Value | None, size: int) -> Value:
        """The index without its constant, scaled onto the base."""
        e = self.e
        plain = self._without_constant(index)[0] if index is not None else None
        if plain is None:
            return self._sum(base, moving)
        if plain.op == "mul" and plain.args[1].is_const and abs(plain.args[1].attr * size) < 1 << 31:
            plain, size = plain.args[0], plain.args[1].attr * size
        if base.type.bits == 32:
            return e.add(e.mul(e.cast(plain, I32), e.i32(size)), base)
        if plain.type.bits == 64:
            return e.add(e.mul(e.bitcast(plain, base.type), e.const(size, base.type)), base)
        return e.emit("madwide", base.type, (plain, e.const(size, plain.type), base), plain.type is U32)

    def _without_constant(self, v: Value) -> tuple[Value | None, int]:
        """`v` as a value plus a constant; the value is None for a constant."""
        found = self._stripped.get(v.id)
        if found is None or not self._is_there(found[0]):
            found = self._stripped[v.id] = self._strip(v)
        return found

    def _is_there(self, value: Value | None) -> bool:
        """True when `value` was made in a region around this one, not in the other way of an `If`."""
        return value is None or value.region is None or value.region.encloses(self.e.region)

    def _strip(self, v: Value) -> tuple[Value | None, int]:
        e, op = self.e, v.op
        if op == "const":
            return None, v.attr
        if op in ("add", "sub"):
            (a, x), (b, y) = self._without_constant(v.args[0]), self._without_constant(v.args[1])
            total = x + y if op == "add" else x - y
            if total == 0 and x == 0:
                return v, 0
            if a is None or b is None:
                kept = a if b is None else (e.emit("neg", v.type, (b,)) if op == "sub" else b)
            else:
                kept = e.emit(op, v.type, (a, b))
            return kept, total
        if op == "mul" and v.args[1].is_const:
            a, x = self._without_constant(v.args[0])
            if x == 0:
                return v, 0
            return (None if a is None else e.mul(a, v.args[1])), x * v.args[1].attr
        if op == "cast" and v.type.bits == 64 and v.args[0].type is I32:
            a, x = self._without_constant(v.args[0])
            if x == 0:
                return v, 0
            return (None if a is None else e.cast(a, v.type)), x
        return v, 0

    def _sum(self, base: Value, moving: Terms) -> Value:
        """base + terms, one multiply-add a term."""
        value = base
        for monomial, coefficient in moving.items():
            value = self._plus(value, monomial, coefficient)
        return value

    def _plus(self, address: Value, monomial: tuple[int, ...], coefficient: int) -> Value:
        """An address moved by a multiple of a product; the empty product is 1."""
        e = self.e
        if not monomial:
            return e.add(address, e.const(coefficient, address.type))
        variable = self._product(monomial)
        if variable.type.bits == 64:
            return e.add(e.mul(e.bitcast(variable, address.type), e.const(coefficient, address.type)), address)
        return self._multiply_add(variable, coefficient, address)

    def _product(self, monomial: tuple[int, ...]) -> Value:
        """The product of a monomial's variables, in 64 bits when the kernel's index has them."""
        e = self.e
        factors = [self.polynomials.variable[i] for i in monomial]
        if len(factors) > 1 and (self._wide or any(f.type.bits == 64 for f in factors)):
            factors = [e.cast(f, I64) for f in factors]
        value = factors[0]
        for factor in factors[1:]:
            value = e.mul(value, e.bitcast(factor, value.type))
        return value

    # --- pointers that loops carry
    def _advancing_loop(self, moving: Terms) -> Loop | None:
        """The innermost loop that changes `moving`, when only its index does and its step is constant."""
        variables = self.polynomials.values(moving)
        region: Region | None = self.e.region
        while region is not None:
            if region.is_loop:
                inside = [v for v in variables if v.region is not None and region.encloses(v.region)]
                if inside:
                    loop = region.node
                    assert isinstance(loop, Loop)
                    if loop.note is None or len(inside) != 1 or inside[0] is not loop.note[0]:
                        return None
                    index, step, _, by_index = loop.note
                    if (
                        not step.is_const
                        or split(moving, index.id) is None
                        or (by_index and set(moving) == {(index.id,)})
                    ):
                        return None  # as cheap from the index itself, or impossible
                    return loop
            region = region.parent
        return None

    def _pointer(self, loop: Loop, base: Value, moving: Terms, constant: int) -> tuple[Value, int]:
        """The pointer that `loop` carries for these terms, and the constant that it includes."""
        e = self.e
        index, step, copies, _ = loop.note
        parts = split(moving, index.id)
        assert parts is not None
        factor, rest = parts
        if base.type.bits == 64:
            value = self._derived(base, moving, loop.body)
            if value is not None:
                self._remember(base, moving, 0, value)
                return value, 0
        first = combine(
            combine(multiply(factor, self.polynomials.of(index.args[0])), rest, 1),
            {(): constant} if constant else {},
            1,
        )
        outer = loop.body.parent
        assert outer is not None
        with self.inside(outer):
            start, offset = self._start(base, first)
        carry = e.carry(loop, start)
        included = constant - offset
        advance = scale(factor, step.attr * copies)
        self._pointers.setdefault(id(loop.body), []).append(Pointer(carry, advance, self._wide))
        self._known.setdefault(id(loop.body), []).append(Known(base, moving, included, carry))
        aligned = min(self.polynomials.multiple(first), power_of_two(offset), self.polynomials.multiple(advance))
        self.alignment[carry.id] = aligned
        return carry, included

    def _start(self, base: Value, terms: Terms) -> tuple[Value, int]:
        """Where a pointer starts: an address and the constant left over."""
        index = self._index(base, terms)
        if index is None:
            return self._locate(base, terms, None, 1)
        return self._locate(base, terms, index[0], index[1])

    def _index(self, base: Value, terms: Terms) -> tuple[Value, int] | None:
        """The moving part of `terms` as an index and an element size that divides all of it."""
        moving = {m: c for m, c in terms.items() if m}
        if not moving:
            return None
        size = min(16, *(power_of_two(c) for c in moving.values()))
        narrow = all(self.polynomials.variable[i].type.bits == 32 for m in moving for i in m)
        if len(moving) == 1 or not (narrow or self._wide):
            return None
        e, kind = self.e, I64 if self._wide else I32
        total: Value | None = None
        for monomial, coefficient in sorted(moving.items(), key=lambda item: -len(item[0])):
            term = e.mul(e.cast(self._product(monomial), kind), e.const(coefficient // size, kind))
            total = term if total is None else e.add(total, term)
        assert total is not None
        return total, size

    def finish_loop(self, node: Loop, old: Loop, copies: dict[int, Value]) -> None:
        with self.inside(node.body):
            for pointer in self._pointers.pop(id(node.body), ()):
                pointer.carry.args = (pointer.carry.args[0], self._advanced(pointer))
        super().finish_loop(node, old, copies)

    def _advanced(self, pointer: Pointer) -> Value:
        self._wide = pointer.wide
        value = pointer.carry
        for monomial, coefficient in pointer.step.items():
            value = self._plus(value, monomial, coefficient)
        return value
