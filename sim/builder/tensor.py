"""Tensor operations and packed halves of the thread view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim.builder.arrays import Array
from sim.builder.ir import Access, MmaAttr, Value
from sim.builder.trace import Tracer
from sim.builder.types import BF16, F16, F32, TF32, U32, Type, storage_type
from sim.builder.values import Scalar, lift
from sim.isa import Space

#: shape -> operand types -> registers of a, b, c
SHAPES: dict[str, dict[Type, tuple[int, int, int]]] = {
    "m16n8k16": {F16: (4, 2, 4), BF16: (4, 2, 4)},
    "m16n8k8": {F16: (2, 1, 4), BF16: (2, 1, 4), TF32: (4, 2, 4)},
    "m16n8k4": {TF32: (2, 1, 4)},
}


def pack(t: Tracer, low: Any, high: Any, dtype: Type) -> Scalar:
    """Two floats converted to halves of `dtype` in one register."""
    t.mark()
    if not dtype.is_half:
        raise t.error(f"pack to {dtype}; it makes float16 or bfloat16 halves")
    x, y = lift(t, low, dtype), lift(t, high, dtype)
    if x.type is dtype and y.type is dtype:
        return Scalar(t, t.emit("packhalf", U32, (x, y), dtype))
    return Scalar(t, t.emit("packfloat", U32, (t.cast(x, F32), t.cast(y, F32)), dtype))


def unpack(t: Tracer, word: Any, dtype: Type) -> tuple[Scalar, Scalar]:
    """Both halves of a register."""
    t.mark()
    if not dtype.is_half:
        raise t.error(f"unpack to {dtype}; it takes float16 or bfloat16 halves")
    x = t.bitcast(lift(t, word), U32)
    return Scalar(t, t.emit("half", dtype, (x,), 0)), Scalar(t, t.emit("half", dtype, (x,), 1))


class Fragment(tuple[Scalar, ...]):
    """Registers of one matrix fragment that remember their element type."""

    element: Type | None = None


def ldmatrix(t: Tracer, array: Array, index: tuple[Any, ...], count: int, transposed: bool) -> Fragment:
    """LDSM: `count` registers a lane, each two halves of an 8x8 matrix."""
    t.mark()
    if not isinstance(array, Array) or array.space != Space.SHARED:
        raise t.error("ldmatrix reads a shared array: k.ldmatrix(shared_array, index, ...)")
    if count not in (1, 2, 4):
        raise t.error(f"ldmatrix loads 1, 2 or 4 matrices, not {count}")
    if array.storage.bits != 16:
        raise t.error(f"ldmatrix needs an array of 16-bit elements, not {array.storage}")
    at = array.flat(index)
    access = Access(
        array.space, None, array.base_bytes, array.storage, 8, array=array.name, extra=(count, bool(transposed))
    )
    vector = t.emit("ldsm", U32, (at,), access)
    parts = [vector] if count == 1 else [t.part(vector, j, U32) for j in range(count)]
    fragment = Fragment(Scalar(t, p) for p in parts)
    fragment.element = array.storage if array.storage.is_half else None
    return fragment


def mma(t: Tracer, a: Sequence[Any], b: Sequence[Any], c: Sequence[Any], shape: str, dtype: Any) -> tuple[Scalar, ...]:
    """HMMA. Raises `BuildError` for a shape, type or fragment size that it does not have."""
    t.mark()
    if shape not in SHAPES:
        raise t.error(f"mma has no shape {shape!r}; it has {', '.join(SHAPES)}")
    element = _element(t, a, b, dtype)
    sizes = SHAPES[shape].get(element)
    if sizes is None:
        raise t.error(f"mma {shape} does not take {element}; it takes {', '.join(map(str, SHAPES[shape]))}")
    for name, fragment, size in zip("abc", (a, b, c), sizes, strict=True):
        if len(fragment) != size:
            raise t.error(f"mma {shape} {element}: fragment {name} has {len(fragment)} registers, not {size}")
    registers = [*_side_by_side(t, a), *_side_by_side(t, b)]
    sums = [t.cast(lift(t, x, F32), F32) for x in c]
    result = t.emit("mma", F32, (*registers, *sums), MmaAttr(shape, element, F32))
    return tuple(Scalar(t, t.part(result, j, F32)) for j in range(sizes[2]))


def _element(t: Tracer, a: Any, b: Any, dtype: Any) -> Type:
    if dtype is not None:
        return TF32 if dtype == "tf32" else storage_type(dtype)
    known = {f.element for f in (a, b) if isinstance(f, Fragment) and f.element is not None}
    if len(known) != 1:
        raise t.error(
            "mma cannot tell the type of a and b from their registers; say dtype=np.float16 or dtype='bfloat16'"
        )
    return known.pop()


def _side_by_side(t: Tracer, fragment: Sequence[Any]) -> list[Value]:
    """A fragment's registers as parts of one vector: put together once, however many products use it."""
    registers = [_register(t, x) for x in fragment]
    first = registers[0]
    if len(registers) == 1 or all(
        r.op == "part" and first.op == "part" and r.args[0] is first.args[0] and r.attr == first.attr + j
        for j, r in enumerate(registers)
    ):
        return registers
    vector = t.emit("fragment", U32, tuple(registers))
    return [t.part(vector, j, U32) for j in range(len(registers))]


def _register(t: Tracer, x: Any) -> Value:
    value = lift(t, x)
    if value.type.registers != 1:
        raise t.error(f"mma fragments are 32-bit registers, not {value.type}")
    return value if value.type is U32 else t.bitcast(value, U32)
