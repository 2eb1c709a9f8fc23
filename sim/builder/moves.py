"""Moves of values to where they are joined or carried."""

from __future__ import annotations

from sim.builder.instructions import move
from sim.builder.ir import Value
from sim.builder.machine import Lane
from sim.builder.select import Selector


def put_copies(s: Selector, pairs: list[tuple[Value, Value]]) -> None:
    """Moves of values to where they are joined or carried, as if all at once."""
    targets = {id(s.use(to).reg) for to, _ in pairs}
    late, plain, first = [], [], []  # program order: first, plain, late
    for to, value in pairs:
        dst = s.use(to)
        source = s.use(value) if value.region is not None else None
        if isinstance(source, Lane) and source.reg is dst.reg and source.word == dst.word:
            continue
        if isinstance(source, Lane) and id(source.reg) in targets:
            temporary = s.register(value.type.registers)
            late.append((dst, temporary, value.type.registers))
            first.append((temporary, value))
        else:
            plain.append((dst, value))
    for dst, temporary, words in late:
        s.put(*(move(Lane(dst.reg, dst.word + k), Lane(temporary.reg, k)) for k in range(words)))
    for dst, value in (*plain, *first):
        s.copy(dst, value)
