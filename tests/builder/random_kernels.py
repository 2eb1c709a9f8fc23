"""Random kernels and what they mean: a program as data, run by Python thread by thread, and traced by the builder.

A program is a list of statements on four int32 variables, two arrays, the thread and
block numbers and an argument. Values are kept small, as signed overflow has no meaning.
"""

from __future__ import annotations

import operator
import random
from typing import Any

import numpy as np

import sim

VARIABLES = 4
SLOTS = 16  #: array elements a thread
STEPS = 20_000  #: statements after which a program is given up
BINARY = {
    "+": operator.add, "-": operator.sub, "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip
COMPARE = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
DIVISORS = (1, 2, 3, 4, 5, 7, 8, 10, 16, 33, -3, -4)
STRIDES = (1, 1, 1, 2, 3, -1, 5)


# --- making programs
def expression(r: random.Random, depth: int) -> tuple[Any, ...]:
    c = r.random()
    if depth <= 0 or c < 0.25:
        return r.choice(
            [("var", r.randrange(VARIABLES)), ("const", r.randrange(-20, 40)), ("t",), ("n",), ("b",), ("i",)]
        )
    if c < 0.75:
        return ("binary", r.choice([*BINARY, "*", "min", "max"]), expression(r, depth - 1), expression(r, depth - 1))
    if c < 0.82:
        return ("shift", r.choice(["<<", ">>"]), expression(r, depth - 1), r.randrange(0, 5))
    if c < 0.9:
        return ("divide", r.choice(["//", "%"]), expression(r, depth - 1), ("const", r.choice(DIVISORS)))
    if c < 0.94:
        return ("divide", r.choice(["//", "%"]), expression(r, depth - 1), ("odd", expression(r, depth - 1)))
    return ("select", condition(r, depth - 1), expression(r, depth - 1), expression(r, depth - 1))


def condition(r: random.Random, depth: int) -> tuple[Any, ...]:
    c = r.random()
    if depth <= 0 or c < 0.6:
        return ("compare", r.choice(list(COMPARE)), expression(r, depth - 1), expression(r, depth - 1))
    if c < 0.9:
        return ("logic", r.choice("&|^"), condition(r, depth - 1), condition(r, depth - 1))
    return ("not", condition(r, depth - 1))


def statements(r: random.Random, depth: int = 3, loops: int = 0) -> list[tuple[Any, ...]]:
    out: list[tuple[Any, ...]] = []
    for _ in range(r.randrange(1, 4)):
        c = r.random()
        if depth <= 0 or c < 0.4:
            out.append(("set", r.randrange(VARIABLES), expression(r, 2)))
        elif c < 0.48:
            out.append(("store", expression(r, 1), expression(r, 2)))
        elif c < 0.56:
            out.append(("load", r.randrange(VARIABLES), expression(r, 1)))
        elif c < 0.75:
            ways = [(condition(r, 2), statements(r, depth - 1, loops)) for _ in range(r.choice([1, 1, 1, 2, 3]))]
            out.append(("if", ways, statements(r, depth - 1, loops) if r.random() < 0.5 else None))
        elif c < 0.9 and loops < 3:
            start = expression(r, 1) if r.random() < 0.3 else ("const", r.randrange(-3, 5))
            stop = expression(r, 1) if r.random() < 0.6 else ("const", r.randrange(0, 30))
            unroll = r.choice([None, None, None, 1, 2, 3, True])
            out.append(("for", start, stop, r.choice(STRIDES), unroll, statements(r, depth - 1, loops + 1)))
        elif loops < 3:
            out.append(("while", r.randrange(VARIABLES), statements(r, depth - 1, loops + 1)))
        if r.random() < 0.03:
            out.append(("return", condition(r, 1)))
    return out


# --- meaning, shared by both ways of running
class Machine:
    """Evaluates expressions; `value`s are Python integers or traced ones."""

    def __init__(self, t: Any, b: Any, n: Any, minimum: Any, maximum: Any, select: Any, negate: Any) -> None:
        self.places = {"t": t, "b": b, "n": n, "i": 0}
        self.minimum, self.maximum, self.select, self.negate = minimum, maximum, select, negate

    def variable(self, k: int) -> Any:
        raise NotImplementedError

    def value(self, x: tuple[Any, ...]) -> Any:
        kind = x[0]
        if kind == "var":
            return self.variable(x[1])
        if kind == "const":
            return x[1]
        if kind == "odd":
            return self.value(x[1]) | 1
        if kind == "select":
            return self.select(self.test(x[1]), self.value(x[2]), self.value(x[3]))
        if kind in self.places:
            return self.places[kind]
        a = self.value(x[2])
        if kind == "shift":
            return (a & 4095) << x[3] if x[1] == "<<" else a >> x[3]
        b = self.value(x[3])
        if kind == "divide":
            return a // b if x[1] == "//" else a % b
        if x[1] == "*":
            return (a & 1023) * (b & 31)
        if x[1] in ("min", "max"):
            return (self.minimum if x[1] == "min" else self.maximum)(a, b)
        return BINARY[x[1]](a, b)

    def test(self, x: tuple[Any, ...]) -> Any:
        if x[0] == "compare":
            return COMPARE[x[1]](self.value(x[2]), self.value(x[3]))
        if x[0] == "logic":
            return BINARY[x[1]](self.test(x[2]), self.test(x[3]))
        return self.negate(self.test(x[1]))

    def bound(self, x: tuple[Any, ...], mask: int) -> Any:
        return x[1] if x[0] == "const" else self.value(x) & mask


class Return(Exception):
    """A thread ends."""


class Endless(Exception):
    """A program that is too long to test with."""


class Interpreter(Machine):
    """One thread, run by Python."""

    def __init__(self, t: int, b: int, n: int, memory: Any) -> None:
        super().__init__(t, b, n, min, max, lambda c, x, y: x if c else y, operator.not_)
        self.variables = [0] * VARIABLES
        self.memory = memory
        self.steps = 0

    def variable(self, k: int) -> int:
        return self.variables[k]

    def run(self, body: list[tuple[Any, ...]]) -> None:
        for s in body:
            self.steps += 1
            if self.steps > STEPS:
                raise Endless
            getattr(self, "do_" + s[0])(*s[1:])

    def do_set(self, k: int, x: Any) -> None:
        self.variables[k] = self.value(x) % 65536 - 30000

    def do_store(self, at: Any, x: Any) -> None:
        self.memory[self.value(at) & (SLOTS - 1)] = self.value(x)

    def do_load(self, k: int, at: Any) -> None:
        self.variables[k] = int(self.memory[self.value(at) & (SLOTS - 1)]) % 65536

    def do_if(self, ways: Any, otherwise: Any) -> None:
        for c, body in ways:
            if self.test(c):
                self.run(body)
                return
        if otherwise is not None:
            self.run(otherwise)

    def do_for(self, start: Any, stop: Any, step: int, unroll: Any, body: Any) -> None:
        old = self.places["i"]
        for i in range(self.bound(start, 15), self.bound(stop, 31), step):
            self.places["i"] = i
            self.run(body)
        self.places["i"] = old

    def do_while(self, k: int, body: Any) -> None:
        self.variables[k] &= 7
        while self.variables[k] > 0:
            self.run(body)
            self.variables[k] = (self.variables[k] & 7) - 1

    def do_return(self, c: Any) -> None:
        if self.test(c):
            raise Return


class Traced(Machine):
    """The same program, traced."""

    def __init__(self, k: Any, memory: Any, n: Any) -> None:
        super().__init__(k.thread_idx.x, k.block_idx.x, n, k.min, k.max, k.select, self._not)
        self.k, self.memory = k, memory
        self.base = (k.block_idx.x * k.block_dim.x + k.thread_idx.x) * SLOTS
        self.variables = k.vars(VARIABLES, 0)

    @staticmethod
    def _not(c: Any) -> Any:
        return (not c) if isinstance(c, bool) else ~c

    def variable(self, k: int) -> Any:
        return self.variables[k].get()

    def run(self, body: list[tuple[Any, ...]]) -> None:
        for s in body:
            getattr(self, "do_" + s[0])(*s[1:])

    def do_set(self, k: int, x: Any) -> None:
        self.variables[k].set(self.value(x) % 65536 - 30000)

    def do_store(self, at: Any, x: Any) -> None:
        self.memory[self.base + (self.value(at) & (SLOTS - 1))] = self.value(x)

    def do_load(self, k: int, at: Any) -> None:
        self.variables[k].set(self.memory[self.base + (self.value(at) & (SLOTS - 1))] % 65536)

    def do_if(self, ways: Any, otherwise: Any) -> None:
        for number, (c, body) in enumerate(ways):
            with (self.k.elif_ if number else self.k.if_)(self.test(c)):
                self.run(body)
        if otherwise is not None:
            with self.k.else_():
                self.run(otherwise)

    def do_for(self, start: Any, stop: Any, step: int, unroll: Any, body: Any) -> None:
        old = self.places["i"]
        for i in self.k.range_(self.bound(start, 15), self.bound(stop, 31), step, unroll=unroll):
            self.places["i"] = i
            self.run(body)
        self.places["i"] = old

    def do_while(self, k: int, body: Any) -> None:
        v = self.variables[k]
        v.set(v & 7)
        with self.k.while_(lambda: v > 0):
            self.run(body)
            v.set((v & 7) - 1)

    def do_return(self, c: Any) -> None:
        with self.k.if_(self.test(c)):
            self.k.return_()


@sim.kernel
def random_kernel(k: Any, x: Any, y: Any, n: Any, *, program: Any) -> None:
    machine = Traced(k, y, n)
    machine.run(program)
    for j in range(VARIABLES):
        x[machine.base + j] = machine.variables[j]


def interpret(program: list[tuple[Any, ...]], threads: int, blocks: int, n: int, x: np.ndarray, y: np.ndarray) -> None:
    """Run `program` by Python for all threads. Raises `Endless`."""
    for b in range(blocks):
        for t in range(threads):
            base = (b * threads + t) * SLOTS
            one = Interpreter(t, b, n, y[base : base + SLOTS])
            try:
                one.run(program)
                x[base : base + VARIABLES] = one.variables
            except Return:
                pass
