"""Arrays of a kernel: in global memory (arguments), in shared memory, and in a thread's own.

Indices are element indices, row-major. Negative indices are not wrapped. An
access outside an array is an error when the kernel runs, not when it is built.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sim.builder.ir import Access, Value
from sim.builder.trace import Tracer
from sim.builder.types import BOOL, E4M3, E5M2, I32, I64, U32, Type, register_type, storage_type
from sim.builder.values import Scalar, lift, stored
from sim.isa import Space


class Shape(Sequence[Any]):
    """The extents of a kernel's array: numbers where they are constants, else values."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array

    def __len__(self) -> int:
        return self._array.ndim

    def __getitem__(self, d: Any) -> Any:
        array = self._array
        extent = array.extents[d]
        if isinstance(extent, tuple):
            return tuple(self[k] for k in range(len(self))[d])
        if extent is None:
            raise array.tracer.error(f"{array.name}.shape[0] is not known inside a kernel; pass it as an argument")
        return extent.attr if extent.is_const else Scalar(array.tracer, extent)


class Array:
    """An array that a kernel indexes: `x[i]`, `x[i, j]`, `x[i] = v`, `x.load(i, width=4)`."""

    __slots__ = ("base", "base_bytes", "extents", "name", "space", "storage", "tracer")

    def __init__(
        self,
        tracer: Tracer,
        name: str,
        space: Space,
        storage: Type,
        extents: tuple[Value | None, ...],
        base: Value | None,
        base_bytes: int,
    ) -> None:
        self.tracer = tracer
        self.name = name
        self.space = space
        self.storage = storage
        self.extents = extents  # the first one is not needed for indexing and may be None
        self.base = base
        self.base_bytes = base_bytes

    @property
    def ndim(self) -> int:
        return len(self.extents)

    @property
    def dtype(self) -> Type:
        return self.storage

    @property
    def shape(self) -> Shape:
        """Extents; of an argument only extents 1, 2, ... are known to the kernel."""
        return Shape(self)

    def __len__(self) -> int:
        raise self.tracer.error(f"len({self.name}) is not known inside a kernel; pass it as an argument")

    def __iter__(self) -> Any:
        raise self.tracer.error(f"{self.name} cannot be iterated inside a kernel; index it in k.range_")

    def view(self, dtype: Any) -> Array:
        """The same bytes as elements of another type, in one dimension; indices count the new elements."""
        return type(self)(self.tracer, self.name, self.space, storage_type(dtype), (None,), self.base, self.base_bytes)

    # --- element access
    def __getitem__(self, index: Any) -> Scalar:
        t = self.tracer
        t.mark()
        return Scalar(t, self._load(self.flat(index), 1)[0])

    def __setitem__(self, index: Any, value: Any) -> None:
        t = self.tracer
        t.mark()
        self._store(self.flat(index), (value,))

    def load(self, *index: Any, width: int = 1, where: Any = None, otherwise: Any = 0) -> Any:
        """Elements `index`, `index + 1`, ... of the last dimension.

        `width` 1 gives a value, 2, 4, ... a tuple; one instruction moves up to 16
        bytes, and the address must be a multiple of its size. Threads for which
        `where` is false load nothing and get `otherwise`.
        """
        t = self.tracer
        t.mark()
        at = self.flat(index)
        self._check_width(width)
        if where is None:
            values = self._load(at, width)
        else:
            kind = register_type(self.storage)
            slots = [t.slot(t.cast(lift(t, otherwise, kind), kind)) for _ in range(width)]
            with t.if_(t.cast(lift(t, where), BOOL)):
                for slot, value in zip(slots, self._load(at, width), strict=True):
                    t.write(slot, stored(t, value))
            values = [t.read(slot) for slot in slots]
        out = tuple(Scalar(t, v) for v in values)
        return out[0] if width == 1 else out

    def store(self, index: Any, values: Any) -> None:
        """Store one value, or a tuple of 2, 4, ... to consecutive elements with one instruction."""
        t = self.tracer
        t.mark()
        if isinstance(values, Scalar | int | float):
            values = (values,)
        values = tuple(values)
        self._check_width(len(values))
        self._store(self.flat(index), values)

    def _check_width(self, width: int) -> None:
        size = width * self.storage.bytes
        if size not in (1, 2, 4, 8, 16) or width < 1:
            raise self.tracer.error(
                f"{width} elements of {self.storage} are {size} bytes; an access takes 1, 2, 4, 8 or 16"
            )

    def flat(self, index: Any) -> Value:
        """The row-major element index. Raises `BuildError` for a wrong number of dimensions or a float."""
        t = self.tracer
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) == 1 and isinstance(parts[0], tuple):
            parts = parts[0]
        if len(parts) != self.ndim:
            raise t.error(
                f"{self.name} has {self.ndim} dimension{'s' * (self.ndim != 1)}, "
                f"but {len(parts)} {'index is' if len(parts) == 1 else 'indices are'} given"
            )
        values = []
        for part in parts:
            if isinstance(part, slice):
                raise t.error(
                    f"{self.name} cannot be sliced in a kernel; index single elements or use .load(..., width=)"
                )
            value = lift(t, part)
            if not value.type.is_int:
                raise t.error(
                    f"{self.name} is indexed with a {value.type}; an index is an integer: use .astype(np.int32) or //"
                )
            values.append(value)
        wide = any(v.type.bits == 64 for v in values)
        total: Value | None = None
        for value, extent in zip(values, self.extents, strict=True):
            value = t.cast(value, I64 if wide else I32)
            if total is not None:
                assert extent is not None
                total = t.add(t.mul(total, t.cast(extent, total.type)), value)
            else:
                total = value
        assert total is not None
        return total

    def start(self, index: Any) -> Value:
        """The first element of a part, as NumPy's `x[i]` is one of a matrix: dimensions without an index begin at 0."""
        parts = index if isinstance(index, tuple) else (index,)
        return self.flat((*parts, *(0,) * (self.ndim - len(parts))))

    @property
    def size_bytes(self) -> int | None:
        """Bytes of a shared array whose extents are known."""
        if any(e is None or not e.is_const for e in self.extents):
            return None
        return math.prod(e.attr for e in self.extents if e is not None) * self.storage.bytes

    def shared_address(self, index: Value) -> Value:
        """The address of an element in shared memory, as int32."""
        t = self.tracer
        base = t.add(t.leaf("shared_base", I32), t.i32(self.base_bytes))
        return t.add(base, t.mul(t.cast(index, I32), t.i32(self.storage.bytes)))

    def units(self, index: Value, size: int) -> Value:
        """An element's distance from the array's start in units of `size` bytes, which divide it."""
        t = self.tracer
        exact = self._exact_units(index, size)
        if exact is not None:
            return exact
        return t.emit("shr", I32, (t.mul(t.cast(index, I32), t.i32(self.storage.bytes)), t.i32(size.bit_length() - 1)))

    def _exact_units(self, index: Value, size: int) -> Value | None:
        """The same without a shift, where the parts of the index are multiples of a unit by themselves."""
        t = self.tracer
        if index.is_const:
            units, rest = divmod(index.attr * self.storage.bytes, size)
            return None if rest else t.i32(units)
        if index.op == "mul" and index.args[1].is_const:
            units, rest = divmod(index.args[1].attr * self.storage.bytes, size)
            return None if rest else t.mul(t.cast(index.args[0], I32), t.i32(units))
        if index.op == "add":
            parts = [self._exact_units(a, size) for a in index.args]
            if parts[0] is not None and parts[1] is not None:
                return t.add(parts[0], parts[1])
        return None

    def at(self, index: Value, storage: Type) -> Value:
        """What an access of `storage` elements has as its first argument: the element's index."""
        return index

    def access(self, width: int, **more: Any) -> Access:
        return Access(self.space, self.base, self.base_bytes, self.storage, width, array=self.name, **more)

    def _load(self, index: Value, width: int) -> list[Value]:
        self._check_element()
        t, kind = self.tracer, register_type(self.storage)
        if width == 1:
            if self.storage is BOOL:
                raw = t.emit("load", I32, (self.at(index, self.storage),), self.access(1))
                return [t.compare("ne", raw, t.i32(0))]
            return [t.emit("load", kind, (self.at(index, self.storage),), self.access(1))]
        if self.storage.bits < 32:
            return self._load_packed(index, width)
        vector = t.emit("load", kind, (self.at(index, self.storage),), self.access(width))
        return [t.part(vector, j, kind) for j in range(width)]

    def _load_packed(self, index: Value, width: int) -> list[Value]:
        """Narrow elements side by side: whole words are loaded and taken apart."""
        t, bits = self.tracer, self.storage.bits
        words = max(1, width * bits // 32)
        storage = U32 if width * bits >= 32 else storage_type("uint16")
        scale = storage.bits // bits
        access = replace(self.access(words), storage=storage)
        raw = t.emit("load", register_type(storage), (self.at(self._divided(index, scale), storage),), access)
        registers = [t.part(raw, j, U32) for j in range(words)] if words > 1 else [t.bitcast(raw, U32)]
        return [self._element(registers[j * bits // 32], j % (32 // bits)) for j in range(width)]

    def _divided(self, index: Value, scale: int) -> Value:
        from sim.builder.division import floor_divide

        if index.op == "mul" and index.args[1].is_const and index.args[1].attr % scale == 0:
            return self.tracer.mul(index.args[0], self.tracer.const(index.args[1].attr // scale, index.type))
        return floor_divide(self.tracer, index, self.tracer.const(scale, index.type))

    def _element(self, word: Value, position: int) -> Value:
        t, storage = self.tracer, self.storage
        shift = position * storage.bits
        if storage.is_half:
            return t.emit("half", storage, (word,), position)
        if storage.kind == "u":
            piece = t.emit("shr", U32, (word, t.i32(shift)))
            return t.bitcast(t.emit("and", U32, (piece, t.const((1 << storage.bits) - 1, U32))), I32)
        left = t.emit("shl", I32, (t.bitcast(word, I32), t.i32(32 - storage.bits - shift)))
        return t.emit("shr", I32, (left, t.i32(32 - storage.bits)))

    def _check_element(self) -> None:
        if self.storage in (E4M3, E5M2):
            raise self.tracer.error(
                f"{self.storage} elements are for tensor cores only; .view(np.uint8) reads and writes their bits"
            )

    def _store(self, index: Value, values: tuple[Any, ...]) -> None:
        self._check_element()
        t, kind = self.tracer, register_type(self.storage)
        typed = tuple(stored(t, t.cast(lift(t, v, kind), kind)) for v in values)
        if len(typed) > 1 and self.storage.bits < 32:
            if not self.storage.is_half:
                raise t.error(
                    f"store of {len(typed)} {self.storage} elements; store them one by one, "
                    "or as uint32 through .view(np.uint32)"
                )
            words = tuple(t.emit("packhalf", U32, typed[j : j + 2], self.storage) for j in range(0, len(typed), 2))
            access = replace(self.access(len(words)), storage=U32)
            t.emit("store", BOOL, (self.at(self._divided(index, 2), U32), *words), access)
            return
        t.emit("store", BOOL, (self.at(index, self.storage), *typed), self.access(len(typed)))
