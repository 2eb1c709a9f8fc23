"""Thread block clusters: shared memory of the other blocks, and their mbarriers."""

from __future__ import annotations

from typing import Any

from sim.builder.arrays import Array
from sim.builder.barriers import Mbarrier, whole_number
from sim.builder.ir import Access, Value
from sim.builder.trace import Tracer
from sim.builder.types import BOOL, I32, U32, U64, Type
from sim.isa import CLUSTER_SHIFT, SHARED_WINDOW, MbarrierOp, Space

OFFSET_MASK = (1 << CLUSTER_SHIFT) - 1


def mapped(t: Tracer, address: Value, rank: Value) -> Value:
    """MAPA: the address of the same place in the shared memory of the cluster's block `rank`."""
    own = t.emit("and", U32, (t.bitcast(address, U32), t.const(OFFSET_MASK, U32)))
    other = t.emit("shl", U32, (t.bitcast(rank, U32), t.i32(CLUSTER_SHIFT)))
    return t.bitcast(t.emit("or", U32, (own, other)), I32)


class RemoteArray(Array):
    """A shared array as another block of the cluster has it. Its `base` is the mapped address, in 32 bits."""

    __slots__ = ()

    def at(self, index: Value, storage: Type) -> Value:
        """The generic address of an element."""
        t = self.tracer
        assert self.base is not None
        low = t.add(self.base, t.mul(t.cast(index, I32), t.i32(storage.bytes)))
        return t.emit("pair", U64, (t.bitcast(low, U32), t.const(SHARED_WINDOW >> 32, U32)))

    def access(self, width: int, **more: Any) -> Access:
        """An access whose address is there already."""
        return Access(Space.GENERIC, None, 0, self.storage, width, lowered=True, array=self.name, **more)

    def shared_address(self, index: Value) -> Value:
        raise self.tracer.error(f"{self.name} is another block's: it is read, written and has atomics, no more")


def remote(t: Tracer, shared: Any, rank: Any) -> RemoteArray:
    """The block `rank`'s part of a shared array. Raises `BuildError` for anything but a shared array."""
    t.mark()
    if not isinstance(shared, Array) or shared.space != Space.SHARED:
        raise t.error("remote needs an array in shared memory: k.shared(shape, dtype)")
    start = t.add(t.leaf("shared_base", I32), t.i32(shared.base_bytes))
    base = mapped(t, start, whole_number(t, rank, "a block's rank"))
    return RemoteArray(t, shared.name, Space.GENERIC, shared.storage, shared.extents, base, 0)


class RemoteMbarrier:
    """An mbarrier of another block of the cluster, at which this block's threads arrive. They cannot wait there."""

    __slots__ = ("address", "array")

    def __init__(self, bar: Mbarrier, rank: Any) -> None:
        t = bar.array.tracer
        t.mark()
        self.array = bar.array
        self.address = mapped(t, bar.address(), whole_number(t, rank, "a block's rank"))

    def arrive(self) -> None:
        """Every active thread arrives."""
        self._emit(MbarrierOp.ARRIVE)

    def arrive_expect(self, bytes: Any) -> None:
        """Every active thread arrives and expects `bytes` that copies will bring in this phase."""
        self._emit(MbarrierOp.ARRIVE_EXPECT, whole_number(self.array.tracer, bytes, "a number of bytes"))

    def _emit(self, operation: MbarrierOp, *values: Value) -> None:
        array = self.array
        array.tracer.mark()
        access = Access(
            Space.SHARED, None, 0, array.storage, lowered=True, array=array.name, barrier=operation, extra="remote"
        )
        array.tracer.emit("mbarrier", BOOL, (self.address, *values), access)
