"""Integer values as polynomials: what an index is made of.

A polynomial maps a monomial, a sorted tuple of value numbers, to its coefficient;
`()` is the constant term. Sums, products and widening are seen through, all else
is a variable. Signed arithmetic is taken not to overflow, as in C.
"""

from __future__ import annotations

from collections.abc import Iterable

from sim.builder.ir import Loop, Value

Monomial = tuple[int, ...]
Terms = dict[Monomial, int]
MAX_TERMS = 12
MAX_DEGREE = 3
ALIGNED = 1 << 20  #: a power of two that stands for "as aligned as one likes"


class Polynomials:
    """Polynomials of values, remembered; `variable` gives the value of a number."""

    def __init__(self) -> None:
        self._known: dict[int, Terms] = {}
        self.variable: dict[int, Value] = {}

    def of(self, v: Value) -> Terms:
        """The polynomial of an integer value."""
        found = self._known.get(v.id)
        if found is None:
            found = self._make(v)
            if len(found) > MAX_TERMS or any(len(m) > MAX_DEGREE for m in found):
                found = self._single(v)
            self._known[v.id] = found
        return found

    def _single(self, v: Value) -> Terms:
        self.variable[v.id] = v
        return {(v.id,): 1}

    def _make(self, v: Value) -> Terms:
        op, args = v.op, v.args
        if op == "const":
            return {(): v.attr} if v.attr else {}
        if op in ("add", "sub"):
            return combine(self._addend(args[0]), self._addend(args[1]), 1 if op == "add" else -1)
        if op == "neg":
            return scale(self.of(args[0]), -1)
        if op == "mul":
            if args[1].is_const:
                return multiply(self.of(args[0]), self.of(args[1]))
            return multiply(self._factor(args[0]), self._factor(args[1]))
        if op == "madwide":
            return combine(multiply(self.of(args[0]), self.of(args[1])), self.of(args[2]), 1)
        if op == "bitcast" and args[0].type.is_int or (op == "cast" and args[0].type.is_int and v.type.bits == 64):
            return self.of(args[0])
        return self._single(v)

    def _factor(self, v: Value) -> Terms:
        """A factor of a product. A sum that no loop advances stays one variable, plus its constant."""
        terms = self.of(v)
        if sum(1 for m in terms if m) < 2 or any(_is_index(x) for x in self.values(terms)):
            return terms
        constant = 0
        while v.op == "add" and v.args[1].is_const:
            constant += v.args[1].attr
            v = v.args[0]
        if constant != terms.get((), 0):
            return terms
        return combine(self._single(v), {(): constant} if constant else {}, 1)

    def _addend(self, v: Value) -> Terms:
        """A term of a sum: as a factor, when it is a sum itself."""
        return self._factor(v) if v.op in ("add", "sub") else self.of(v)

    def values(self, terms: Terms) -> Iterable[Value]:
        """The variables of a polynomial, each once."""
        return [self.variable[i] for i in {i for m in terms for i in m}]

    def multiple(self, terms: Terms) -> int:
        """The largest power of two, to `ALIGNED`, that surely divides a polynomial."""
        result = ALIGNED
        for monomial, coefficient in terms.items():
            factor = power_of_two(coefficient)
            for i in monomial:
                factor *= multiple_of(self.variable[i])
            result = min(result, factor)
        return result


def _is_index(v: Value) -> bool:
    """True for the index of a lowered counted loop."""
    return v.op == "carry" and isinstance(v.owner, Loop) and v.owner.note is not None and v.owner.note[0] is v


def combine(a: Terms, b: Terms, sign: int) -> Terms:
    """`a + sign * b`."""
    out = dict(a)
    for monomial, coefficient in b.items():
        total = out.get(monomial, 0) + sign * coefficient
        if total:
            out[monomial] = total
        else:
            out.pop(monomial, None)
    return out


def scale(a: Terms, factor: int) -> Terms:
    return {m: c * factor for m, c in a.items()} if factor else {}


def multiply(a: Terms, b: Terms) -> Terms:
    out: Terms = {}
    for m, c in a.items():
        for n, d in b.items():
            monomial = tuple(sorted(m + n))
            total = out.get(monomial, 0) + c * d
            if total:
                out[monomial] = total
            else:
                out.pop(monomial, None)
    return out


def split(terms: Terms, variable: int) -> tuple[Terms, Terms] | None:
    """`terms` as `variable * factor + rest`, as (factor, rest); None when the variable occurs squared."""
    factor: Terms = {}
    rest: Terms = {}
    for monomial, coefficient in terms.items():
        occurrences = monomial.count(variable)
        if occurrences > 1:
            return None
        if occurrences:
            at = monomial.index(variable)
            factor[monomial[:at] + monomial[at + 1 :]] = coefficient
        else:
            rest[monomial] = coefficient
    return factor, rest


def power_of_two(n: int) -> int:
    """The largest power of two that divides `n`, at most `ALIGNED`."""
    return min(n & -n, ALIGNED) if n else ALIGNED


def multiple_of(v: Value, depth: int = 0) -> int:
    """The largest power of two that surely divides a value."""
    if depth > 8 or not v.type.is_int:
        return 1
    op, args = v.op, v.args
    if op == "const":
        return power_of_two(v.attr)
    if op == "mul":
        return min(ALIGNED, multiple_of(args[0], depth + 1) * multiple_of(args[1], depth + 1))
    if op in ("add", "sub", "join", "or"):
        return min(multiple_of(args[0], depth + 1), multiple_of(args[1], depth + 1))
    if op == "and":
        return max(multiple_of(args[0], depth + 1), multiple_of(args[1], depth + 1))
    if op in ("neg", "cast", "bitcast", "exit"):
        return multiple_of(args[0], depth + 1)
    if op == "carry" and isinstance(v.owner, Loop) and v.owner.note is not None:
        index, step, copies, _ = v.owner.note
        if v is index and step.is_const:
            return min(multiple_of(args[0], depth + 1), power_of_two(step.attr * copies))
    return 1
