"""Copies by the tensor memory accelerator: a tensor's boxes, or runs of bytes, to and from shared memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sim.builder.arrays import Array
from sim.builder.barriers import is_mbarrier, whole_number
from sim.builder.ir import Access, CopyAttr, Value
from sim.builder.trace import Tracer
from sim.builder.types import BOOL, F32, I32, Type
from sim.isa import AtomicOp, Space
from sim.limits import MAX_CLUSTER

UNIT = 16  #: bytes that runs, and addresses in shared memory, are multiples of (PTX ISA, cp.async.bulk)
BOX_ALIGNMENT = 128  #: of a tensor's box in shared memory (PTX ISA, cp.async.bulk.tensor)
_PATTERN_ROWS = 8  #: rows after which a swizzle repeats
_MOST_UNITS = 0xFFFF


@dataclass(frozen=True, eq=False)
class TensorMapArgument:
    """A tensor map among a kernel's arguments."""

    name: str
    dtype: Type
    box: tuple[int, ...]  #: elements that one instruction copies, innermost dimension last
    swizzle: int  #: bytes, or 0
    address: int  #: of the map, in constant memory

    @property
    def rank(self) -> int:
        """Dimensions."""
        return len(self.box)

    @property
    def box_bytes(self) -> int:
        """Bytes of a box, which its mbarrier expects."""
        return math.prod(self.box) * self.dtype.bytes

    @property
    def alignment(self) -> int:
        """Bytes that a box's place in shared memory is a multiple of, so that its swizzle is a matrix descriptor's."""
        return max(BOX_ALIGNMENT, _PATTERN_ROWS * self.swizzle)


def copy_box(
    t: Tracer,
    kind: str,
    tensor_map: TensorMapArgument,
    coordinates: Sequence[Any],
    shared: Array | None = None,
    index: Any = 0,
    barrier: Any = None,
    blocks: Any = None,
    operation: str | None = None,
) -> None:
    """UTMALDG, UTMASTG, UTMAREDG or UTMAPF. Raises `BuildError` for wrong arguments, a box that cannot lie there."""
    t.mark()
    who = f"tma_{kind}"
    if not isinstance(tensor_map, TensorMapArgument):
        raise t.error(
            f"{who} needs an argument that the launch gives as sim.tensor_map(array, box=...), "
            f"not {type(tensor_map).__name__}"
        )
    places = tuple(coordinates) if isinstance(coordinates, Sequence) else (coordinates,)
    if len(places) != tensor_map.rank:
        raise t.error(
            f"{who} of {tensor_map.name} needs {tensor_map.rank} coordinates, innermost last, not {len(places)}"
        )
    args = []
    if kind != "prefetch":
        args.append(_place(t, who, shared, index, tensor_map.box_bytes, tensor_map.alignment))
    if kind == "load":
        args.append(is_mbarrier(t, barrier, who).address())
    args += [whole_number(t, c, "a coordinate") for c in reversed(places)]
    if blocks is not None:
        args.append(_blocks(t, blocks))
    attr = CopyAttr(
        kind, tensor_map.rank, tensor_map.address, None, blocks is not None,
        None if operation is None else _operation(t, operation, tensor_map.dtype), tensor_map.dtype,
    )  # fmt: skip
    t.emit("tma", BOOL, tuple(args), attr)


def _blocks(t: Tracer, blocks: Any) -> Value:
    """The blocks of a multicast, a bit each by rank, where an instruction has them."""
    mask = whole_number(t, blocks, "a multicast's blocks, a bit each by rank,")
    if mask.is_const and not 0 < mask.attr < 1 << MAX_CLUSTER:
        raise t.error(f"blocks={mask.attr:#x}: a bit for each block of the cluster, of {MAX_CLUSTER} at most")
    return t.emit("shl", I32, (mask, t.i32(16)))


def _operation(t: Tracer, name: str, element: Type) -> AtomicOp:
    """What a reduction does. Raises `BuildError` for what TMA cannot do to numbers of this type."""
    allowed = ["add"] if element is F32 else ["add", "min", "max"]
    if element.is_int:
        allowed += ["and", "or", "xor"]
    if name not in allowed or element.bits < (32 if element.is_int else 16):
        raise t.error(
            f"operation={name!r} on {element} elements: TMA has {', '.join(allowed)} of these, and adds integers of "
            "32 and 64 bits, float16, bfloat16 and float32"
        )
    return AtomicOp[name.upper()]


def copy_run(
    t: Tracer,
    kind: str,
    array: Array,
    index: Any,
    size: Any,
    shared: Array | None = None,
    shared_index: Any = 0,
    barrier: Any = None,
    blocks: Any = None,
    operation: str | None = None,
) -> None:
    """UBLKCP, UBLKRED or UBLKPF of `size` bytes. Raises `BuildError` for arrays in the wrong place, other sizes."""
    t.mark()
    who = f"bulk_{kind}"
    if not isinstance(array, Array) or array.space != Space.GLOBAL:
        raise t.error(f"{who} needs an array argument of the kernel, in global memory")
    count = whole_number(t, size, "a number of bytes")
    if count.is_const and (count.attr % UNIT or not 0 < count.attr <= UNIT * _MOST_UNITS):
        raise t.error(f"{who} copies a multiple of {UNIT} bytes up to {UNIT * _MOST_UNITS}, not {count.attr}")
    args = [array.flat(index)]
    if kind != "prefetch":
        args.append(_place(t, who, shared, shared_index, count.attr if count.is_const else 0, UNIT))
    if kind == "load":
        args.append(is_mbarrier(t, barrier, who).address())
    units = t.emit("shr", I32, (count, t.i32(4)))
    args.append(units if blocks is None else t.emit("or", I32, (units, _blocks(t, blocks))))
    access = Access(Space.GLOBAL, array.base, 0, array.storage, array=array.name)
    what = None if operation is None else _operation(t, operation, array.storage)
    attr = CopyAttr(kind, 0, access=access, multicast=blocks is not None, operation=what, element=array.storage)
    t.emit("bulk", BOOL, tuple(args), attr)


def _place(t: Tracer, who: str, shared: Any, index: Any, size: int, alignment: int) -> Value:
    """The address of a copy's place in shared memory, checked as far as it is known."""
    if not isinstance(shared, Array) or shared.space != Space.SHARED:
        raise t.error(f"{who} needs an array in shared memory: k.shared(shape, dtype, align={alignment})")
    if shared.base_bytes % alignment:
        raise t.error(
            f"{who}: the shared array begins at byte {shared.base_bytes}, no multiple of {alignment}: "
            f"make it with align={alignment}"
        )
    at = shared.start(index)
    if at.is_const:
        first = at.attr * shared.storage.bytes
        if first % alignment:
            raise t.error(f"{who}: byte {first} of the shared array is no multiple of {alignment}")
        room = shared.size_bytes
        if room is not None and first + size > room:
            raise t.error(f"{who} of {size} bytes at byte {first} of a shared array of {room} bytes")
    return shared.shared_address(at)
