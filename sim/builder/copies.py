"""Asynchronous copies from global to shared memory."""

from __future__ import annotations

from typing import Any

from sim.builder.arrays import Array
from sim.builder.ir import Access
from sim.builder.trace import Tracer
from sim.builder.types import BOOL
from sim.builder.values import lift
from sim.isa import Space


def async_copy(t: Tracer, shared: Array, shared_index: Any, array: Array, index: Any, size: int, pred: Any) -> None:
    """LDGSTS of `size` bytes a thread; a false `pred` writes zeros and reads nothing.

    Raises `BuildError` for arrays in the wrong place or of different element types, and for other sizes.
    """
    t.mark()
    for name, x, space in (("first", shared, Space.SHARED), ("second", array, Space.GLOBAL)):
        if not isinstance(x, Array) or x.space != space:
            raise t.error(f"async_copy's {name} array must be in {space.name.lower()} memory")
    if shared.storage is not array.storage:
        raise t.error(f"async_copy from {array.storage} to {shared.storage} elements; it does not convert")
    if size not in (4, 8, 16) or size % array.storage.bytes:
        raise t.error(f"async_copy moves 4, 8 or 16 bytes, not {size}")
    to, source = shared.flat(shared_index), array.flat(index)
    width = size // array.storage.bytes
    target = Access(Space.SHARED, None, shared.base_bytes, shared.storage, width, array=shared.name)
    origin = Access(Space.GLOBAL, array.base, 0, array.storage, width, array=array.name)
    condition = () if pred is None else (t.cast(lift(t, pred), BOOL),)
    t.emit("ldgsts", BOOL, (to, source, *condition), (target, origin))
