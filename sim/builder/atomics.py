"""Atomic operations of the thread view."""

from __future__ import annotations

from typing import Any

from sim.builder.arrays import Array
from sim.builder.trace import Tracer
from sim.builder.types import F32, F64, I32, I64, U32, U64, register_type
from sim.builder.values import Scalar, lift
from sim.isa import AtomicOp, Space

_ALLOWED = {
    "ADD": (I32, U32, I64, U64, F32, F64),
    "MIN": (I32, U32, I64, U64),
    "MAX": (I32, U32, I64, U64),
    "AND": (I32, U32, I64, U64),
    "OR": (I32, U32, I64, U64),
    "XOR": (I32, U32, I64, U64),
    "EXCH": (I32, U32, I64, U64, F32, F64),
    "CAS": (I32, U32, I64, U64, F32, F64),
}


def atomic(t: Tracer, name: str, array: Array, index: Any, value: Any, compare: Any = None) -> Scalar:
    """One atomic step on an element; the old value. Without a use of it a RED is made.

    Raises `BuildError` for an element type that the operation does not have.
    """
    t.mark()
    if not isinstance(array, Array):
        raise t.error(f"atomic_{name.lower()} needs an array first, not {type(array).__name__}")
    if array.space is Space.LOCAL:
        raise t.error(f"atomic_{name.lower()} on a local array, which no other thread sees; use + and a store")
    kind = register_type(array.storage)
    if array.storage not in _ALLOWED[name]:
        known = ", ".join(map(str, _ALLOWED[name]))
        raise t.error(f"atomic_{name.lower()} on {array.storage} elements; it has {known}")
    at = array.at(array.flat(index), array.storage)
    args = [at, t.cast(lift(t, value, kind), kind)]
    if compare is not None:
        args.append(t.cast(lift(t, compare, kind), kind))
    return Scalar(t, t.emit("atomic", kind, tuple(args), array.access(1, operation=AtomicOp[name])))
