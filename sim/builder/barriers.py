"""Mbarriers, at which threads and copies arrive, phase by phase; the block's numbered barriers; `setmaxnreg`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sim.builder.arrays import Array
from sim.builder.ir import Access, BarrierAttr, Value
from sim.builder.trace import Tracer
from sim.builder.types import BOOL, I32, U32, U64
from sim.builder.values import Scalar, lift
from sim.isa import WARP_SIZE, MbarrierOp, Space

MAX_COUNT = (1 << 20) - 1  #: of arrivals, and of bytes, in a phase (PTX ISA, mbarrier)
_BARRIERS, _MOST_THREADS = 16, 1024


def whole_number(t: Tracer, value: Any, what: str) -> Value:
    """A 32-bit integer. Raises `BuildError` for a float or a 64-bit one."""
    number = lift(t, value)
    if not number.type.is_int and number.type is not BOOL or number.type.bits == 64:
        raise t.error(f"{what} is a 32-bit integer, not {number.type}")
    return t.bitcast(t.cast(number, I32) if number.type is BOOL else number, I32)


class Mbarriers:
    """Mbarriers of the block, side by side in shared memory: `k.mbarriers(4)`. Index them with a number or a value."""

    __slots__ = ("array", "count")

    def __init__(self, array: Array, count: int) -> None:
        self.array = array
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Mbarrier]:
        return (self[i] for i in range(self.count))

    def __getitem__(self, index: Any) -> Mbarrier:
        t = self.array.tracer
        at = whole_number(t, index, "an mbarrier's number")
        if at.is_const and not 0 <= at.attr < self.count:
            raise t.error(f"mbarrier {at.attr} of {self.count}; they are numbered from 0")
        return Mbarrier(self.array, at)


class Mbarrier:
    """One mbarrier. A phase is complete when all arrivals and all expected bytes have come; then the next begins.

    Phases have parities 0, 1, 0, ...: `wait(n)` waits for the n-th phase, counted from 0, as only the
    lowest bit of a number counts.
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Array, index: Value) -> None:
        self.array = array
        self.index = index

    def init(self, arrivals: int) -> None:
        """Begin the first phase; each has `arrivals`, a constant. One thread does, then all meet at a barrier."""
        t = self.array.tracer
        t.mark()
        count = self._constant(arrivals, "arrivals a phase")
        negated = (1 << 20) - count
        self._emit(MbarrierOp.INIT, t.const(negated << 1 | negated << 43, U64))

    def arrive(self, count: Any = 1) -> None:
        """Every active thread arrives, `count` times."""
        t = self.array.tracer
        t.mark()
        if isinstance(count, int) and count == 1:
            self._emit(MbarrierOp.ARRIVE)
        else:
            self._emit(MbarrierOp.ARRIVE, whole_number(t, count, "a count"))

    def arrive_expect(self, bytes: Any) -> None:
        """Every active thread arrives and expects `bytes` that copies will bring in this phase."""
        self.array.tracer.mark()
        self._emit(MbarrierOp.ARRIVE_EXPECT, self._bytes(bytes))

    def expect(self, bytes: Any) -> None:
        """`bytes` more will come in this phase, without arriving."""
        self.array.tracer.mark()
        self._emit(MbarrierOp.EXPECT, self._bytes(bytes))

    def test(self, parity: Any) -> Scalar:
        """Whether the phase of this parity is complete."""
        t = self.array.tracer
        t.mark()
        return Scalar(t, self._emit(MbarrierOp.TEST_WAIT, self._parity(parity)))

    def wait(self, parity: Any) -> None:
        """Wait until the phase of this parity is complete; what its copies brought is seen afterwards."""
        t = self.array.tracer
        t.mark()
        sign = self._parity(parity)
        with t.loop() as node:
            done = self._emit(MbarrierOp.TRY_WAIT, sign)
            node.condition = t.emit("pnot", BOOL, (done,))

    def arrive_after_copies(self) -> None:
        """Every active thread arrives, when what its warp has copied so far by `k.async_copy` has come."""
        self.array.tracer.mark()
        self._emit(MbarrierOp.ARRIVE, extra="copies")

    def remote(self, rank: Any) -> Any:
        """The same mbarrier of the cluster's block `rank`, for `.arrive()` and `.arrive_expect(bytes)`.

        `k.threadfence()` before an arrival that tells of stores to the cluster's shared memory.
        """
        from sim.builder.clusters import RemoteMbarrier

        return RemoteMbarrier(self, rank)

    def invalidate(self) -> None:
        """End its use, so that its bytes can be used otherwise."""
        self.array.tracer.mark()
        self._emit(MbarrierOp.INVALIDATE)

    def address(self) -> Value:
        """Its address in shared memory."""
        return self.array.shared_address(self.index)

    def _emit(self, operation: MbarrierOp, *values: Value, extra: str = "") -> Value:
        array = self.array
        access = Access(
            Space.SHARED, None, array.base_bytes, array.storage, array=array.name, barrier=operation, extra=extra
        )
        return array.tracer.emit("mbarrier", BOOL, (self.index, *values), access)

    def _parity(self, parity: Any) -> Value:
        t = self.array.tracer
        return t.emit("shl", U32, (t.bitcast(whole_number(t, parity, "a parity"), U32), t.i32(31)))

    def _bytes(self, bytes: Any) -> Value:
        t = self.array.tracer
        value = whole_number(t, bytes, "a number of bytes")
        return t.i32(self._constant(value.attr, "bytes in a phase")) if value.is_const else value

    def _constant(self, value: Any, what: str) -> int:
        t = self.array.tracer
        if not isinstance(value, int) or not 1 <= value <= MAX_COUNT:
            raise t.error(f"an mbarrier counts 1 to {MAX_COUNT} {what}, a constant, not {value!r}")
        return value


def is_mbarrier(t: Tracer, value: Any, who: str) -> Mbarrier:
    """Raises `BuildError` for anything but one mbarrier."""
    if not isinstance(value, Mbarrier):
        raise t.error(f"{who} needs an mbarrier, such as bars[0] of bars = k.mbarriers(4), not {type(value).__name__}")
    return value


def block_barrier(t: Tracer, number: Any, threads: int, arrives: bool) -> None:
    """BAR.SYNC or BAR.ARV of a numbered barrier. Raises `BuildError` for numbers that it does not have."""
    t.mark()
    if not isinstance(threads, int) or not WARP_SIZE <= threads <= _MOST_THREADS or threads % WARP_SIZE:
        raise t.error(
            f"a barrier is for a constant number of threads, whole warps up to {_MOST_THREADS}, not {threads!r}"
        )
    at = whole_number(t, number, "a barrier's number")
    if at.is_const and not 0 <= at.attr < _BARRIERS:
        raise t.error(f"barrier {at.attr}: a block has barriers 0 to {_BARRIERS - 1}")
    known = int(at.attr) if at.is_const else None
    t.emit("bar", BOOL, () if at.is_const else (at,), BarrierAttr(arrives, known, threads))


def set_max_registers(t: Tracer, registers: int) -> None:
    """USETMAXREG: at once to give registers back, again and again to get some."""
    t.mark()
    launched = t.graph.registers
    if not isinstance(registers, int) or registers % 8 or not 24 <= registers <= 256:
        raise t.error(f"set_max_registers takes a constant multiple of 8 from 24 to 256, not {registers!r}")
    if not launched:
        raise t.error(
            "set_max_registers needs to know how many registers a launch gives a thread: @sim.kernel(registers=168)"
        )
    if registers <= launched:
        t.emit("setmaxreg", BOOL, (), registers)
        return
    with t.loop() as node:
        node.condition = t.emit("pnot", BOOL, (t.emit("setmaxreg", BOOL, (), registers),))
