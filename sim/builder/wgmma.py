"""Warpgroup products (wgmma): matrices in shared memory, sums in registers, and the products themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sim.builder.arrays import Array
from sim.builder.ir import EFFECTS, Descriptor, Value, WgmmaAttr
from sim.builder.trace import Slot, Tracer
from sim.builder.types import (
    BF16,
    BOOL,
    E4M3,
    E5M2,
    F16,
    F32,
    I8,
    I32,
    TF32,
    U8,
    U32,
    Type,
    storage_type,
    vector_type,
)
from sim.builder.values import Scalar, lift
from sim.isa import MAP_SWIZZLES, Space, SpecialRegister

K_BYTES = 32  #: of a row of A, or a column of B, that one instruction takes
UNIT = 16  #: bytes that a descriptor counts in
_CORE_ROWS = 8  #: rows of a core matrix
_LEADING_AT, _LAYOUT_AT = 16, 30  #: bits of the low and the high word of a descriptor
_FIELD = 0x3FFF
_ADDRESS = 0x3FFFF
#: types of A and B that go together -> types of the sums
_FAMILIES: tuple[tuple[frozenset[Type], tuple[Type, ...]], ...] = (
    (frozenset((F16,)), (F32, F16)),
    (frozenset((BF16,)), (F32,)),
    (frozenset((TF32,)), (F32,)),
    (frozenset((E4M3, E5M2)), (F32, F16)),
    (frozenset((I8, U8)), (I32,)),
)
_OPERANDS = tuple(t for family, _ in _FAMILIES for t in sorted(family, key=str))


def operand_type(t: Tracer, dtype: Any) -> Type:
    """The type of A or B; float32 is read as TF32. Raises `BuildError` for one that the tensor cores do not take."""
    try:
        found = TF32 if dtype == "tf32" or dtype is TF32 else storage_type(dtype)
    except TypeError as error:
        raise t.error(str(error)) from None
    found = TF32 if found is F32 else found
    if found not in _OPERANDS:
        raise t.error(f"wgmma does not take {found}; it takes {', '.join(map(str, _OPERANDS))}")
    return found


@dataclass(frozen=True, eq=False)
class Matrix:
    """A matrix in shared memory, as a descriptor: made by `k.smem_matrix`."""

    tracer: Tracer
    element: Type
    low: Value  #: word of the descriptor, without `units`
    descriptor: Descriptor
    atom: int  #: bytes of a row that lie together: the swizzle, or 16
    in_box: int  #: bytes from eight rows to the next eight
    between: int | None  #: bytes from one box to the next, where the rows go on

    def advance(self, bytes: Any) -> Matrix:
        """The matrix `bytes` further on, a multiple of 16 (a number or a value)."""
        t = self.tracer
        t.mark()
        if isinstance(bytes, int):
            if bytes % UNIT:
                raise t.error(f"a matrix begins at a multiple of {UNIT} bytes, not {bytes} further on")
            return self._moved(bytes)
        by = t.emit("shr", U32, (t.cast(lift(t, bytes), U32), t.i32(4)))
        return replace(self, low=t.add(self.low, by))

    def step(self, number: int) -> Matrix:
        """Where the `number`-th product along k begins: each takes 32 bytes of k (16 numbers of 16 bits)."""
        t = self.tracer
        t.mark()
        if not isinstance(number, int) or number < 0:
            raise t.error(f"a step along k is a constant from 0, not {number!r}; use .advance(bytes)")
        if self.descriptor.mn_major:
            return self._moved(number * 2 * self.in_box)
        box, inside = divmod(number * K_BYTES, self.atom)
        if box == 0:
            return self._moved(inside)
        if self.between is None:
            raise t.error(
                f"step {number} along k is beyond the {self.atom} bytes of a row; give the bytes to the next box, "
                "smem_matrix(..., leading=...)"
            )
        return self._moved(box * self.between + inside)

    def _moved(self, bytes: int) -> Matrix:
        moved = replace(self.descriptor, units=self.descriptor.units + bytes // UNIT)
        return replace(self, descriptor=moved)


def smem_matrix(
    t: Tracer, shared: Array, index: Any, major: str, swizzle: int, leading: int | None, stride: int | None, dtype: Any
) -> Matrix:
    """A descriptor. See `ThreadView.smem_matrix`."""
    t.mark()
    if not isinstance(shared, Array) or shared.space != Space.SHARED:
        raise t.error("smem_matrix needs an array in shared memory: k.shared(shape, dtype, align=1024)")
    if major not in ("k", "mn"):
        raise t.error(f"smem_matrix: major={major!r}; 'k' or 'mn' says along which dimension numbers lie side by side")
    if swizzle not in MAP_SWIZZLES:
        raise t.error(f"smem_matrix: swizzle={swizzle!r}; use 128, 64 or 32 bytes, or 0")
    element = operand_type(t, shared.storage if dtype is None else dtype)
    turned = major == "mn"
    if turned and element.bits != 16:
        raise t.error(f"smem_matrix: {element} must lie along k, major='k'; only 16-bit types may lie along m or n")
    atom = swizzle or UNIT
    if shared.base_bytes % (alignment := max(128, _CORE_ROWS * swizzle)):
        raise t.error(
            f"smem_matrix: the shared array begins at byte {shared.base_bytes}, no multiple of {alignment}: "
            f"make it with align={alignment}"
        )
    # Eight rows (of k, if numbers lie along m or n) are `in_box` bytes; a box of rows is `between` bytes from the next.
    in_box, between = _CORE_ROWS * atom, _box_bytes(shared, atom)
    if turned and not swizzle:
        in_box, between = _given(leading, in_box), _given(stride, between)
        fields = (in_box, between)
    else:
        in_box, between = _given(stride, in_box), _given(leading, between)
        fields = (between, in_box)
    if not swizzle and between is None:
        raise t.error("smem_matrix without a swizzle needs leading= and stride=, the bytes between its core matrices")
    if swizzle and not turned:
        fields = (UNIT, in_box)  # one swizzled row is all that an instruction takes
    leading_units, stride_units = (_units(t, value) for value in fields)
    base = t.emit("and", U32, (t.bitcast(t.leaf("shared_base", I32), U32), t.const(_ADDRESS, U32)))
    low = t.emit("shr", U32, (base, t.i32(4)))
    low = t.add(low, t.const(shared.base_bytes // UNIT + (leading_units << _LEADING_AT), U32))
    low = t.add(low, t.bitcast(shared.units(shared.start(index), UNIT), U32))
    high = stride_units | MAP_SWIZZLES[swizzle] << _LAYOUT_AT
    return Matrix(t, element, low, Descriptor(0, high, turned), atom, in_box, between)


def _units(t: Tracer, bytes: int | None) -> int:
    """A step between core matrices as a descriptor has it; 1 where there is none."""
    units, rest = divmod(UNIT if bytes is None else bytes, UNIT)
    if rest or not 0 <= units <= _FIELD:
        raise t.error(f"smem_matrix: leading and stride are multiples of {UNIT} up to {UNIT * _FIELD}, not {bytes}")
    return units


def _given(value: int | None, default: Any) -> Any:
    return default if value is None else int(value)


def _box_bytes(shared: Array, atom: int) -> int | None:
    """Bytes of a box of rows of `atom` bytes, where the last two dimensions of the shared array are one."""
    extents = [e.attr for e in shared.extents if e is not None]
    if len(shared.extents) < 2 or len(extents) < 2 or extents[-1] * shared.storage.bytes != atom:
        return None
    return int(extents[-2]) * atom


class Sums:
    """The sums of a warpgroup's 64 rows and `columns`, in the registers of its 128 threads: `k.wgmma_sums(columns)`.

    `sums[i]` is a number of this thread, and `sums.place(i)` its row and column. Between `k.wgmma` and
    `k.wgmma_wait` the numbers are on their way.
    """

    __slots__ = ("columns", "element", "slot", "tracer")

    def __init__(self, t: Tracer, columns: int, dtype: Any) -> None:
        t.mark()
        if not isinstance(columns, int) or columns % 8 or not 8 <= columns <= 256:
            raise t.error(f"wgmma_sums: {columns!r} columns; a product has a constant multiple of 8 up to 256")
        try:
            element = storage_type(dtype)
        except TypeError as error:
            raise t.error(str(error)) from None
        if element not in (F32, F16, I32):
            raise t.error(f"wgmma_sums of {element}; sums are float32, float16 or int32")
        self.tracer, self.columns, self.element = t, columns, element
        words = columns * element.bytes // 8
        self.slot: Slot = t.slot(t.emit("sums", vector_type(element, words), (), False))

    @property
    def dtype(self) -> Type:
        return self.element

    def __len__(self) -> int:
        """Numbers of each thread."""
        return self.columns // 2

    def _at(self, i: Any) -> int:
        if not isinstance(i, int):
            raise self.tracer.error("a sum's number is a constant: registers cannot be indexed by a value")
        if not 0 <= i < len(self):
            raise self.tracer.error(f"sum {i} of the {len(self)} that each thread has")
        return i

    def __getitem__(self, i: int) -> Scalar:
        t = self.tracer
        t.mark()
        word, half = divmod(self._at(i), 2) if self.element is F16 else (self._at(i), 0)
        value = t.emit("take", U32 if self.element is F16 else self.element, (t.read(self.slot),), word)
        return Scalar(t, t.emit("half", F16, (value,), half) if self.element is F16 else value)

    def __setitem__(self, i: int, value: Any) -> None:
        t = self.tracer
        t.mark()
        at, new = self._at(i), t.cast(lift(t, value, self.element), self.element)
        if self.element is F16:
            pair = [self[at - at % 2 + j].value for j in range(2)]
            pair[at % 2] = new
            at, new = at // 2, t.emit("packhalf", U32, tuple(pair), F16)
        t.write(self.slot, t.emit("put", self.slot.type, (t.read(self.slot), new), at))

    def __iter__(self) -> Iterator[Scalar]:
        return (self[i] for i in range(len(self)))

    def zero(self) -> None:
        """Make all numbers zero. A product with `add=False` spares it."""
        t = self.tracer
        t.mark()
        t.write(self.slot, t.emit("sums", self.slot.type, (), True))

    def place(self, i: int) -> tuple[Scalar, Scalar]:
        """(row, column) of `sums[i]` among the warpgroup's 64 rows and the product's columns, in a 1-D block."""
        t = self.tracer
        t.mark()
        at = self._at(i)
        thread = t.special(SpecialRegister.TID_X)
        warp = t.emit("and", I32, (t.emit("shr", I32, (thread, t.i32(1))), t.i32(48)))
        row = t.add(warp, t.emit("and", I32, (t.emit("shr", I32, (thread, t.i32(2))), t.i32(7))))
        column = t.mul(t.emit("and", I32, (thread, t.i32(3))), t.i32(2))
        return (
            Scalar(t, t.add(row, t.i32(8 * (at >> 1 & 1)))),
            Scalar(t, t.add(column, t.i32(8 * (at >> 2) + (at & 1)))),
        )


def wgmma(t: Tracer, sums: Sums, a: Any, b: Any, add: Any, commit: bool, dtype: Any) -> None:
    """One HGMMA. Raises `BuildError` for operands that it does not take together."""
    t.mark()
    if not isinstance(sums, Sums):
        raise t.error(f"wgmma adds to sums = k.wgmma_sums(columns), not to {type(sums).__name__}")
    if not isinstance(b, Matrix):
        raise t.error(f"wgmma reads B from shared memory: k.smem_matrix(...), not {type(b).__name__}")
    first = _first_type(t, a, b, dtype)
    _check_types(t, first, b.element, sums)
    args = [t.read(sums.slot)]
    if isinstance(a, Matrix):
        args.append(t.emit("uniform", U32, (a.low,)))
    else:
        args += _registers(t, a)
    args.append(t.emit("uniform", U32, (b.low,)))
    known: bool | None = None
    if isinstance(add, bool):
        known = add
    else:
        args.append(t.cast(lift(t, add), BOOL))
    attr = WgmmaAttr(
        sums.columns, first, b.element, sums.element, a.descriptor if isinstance(a, Matrix) else None, b.descriptor,
        known, bool(commit),
    )  # fmt: skip
    t.write(sums.slot, t.emit("wgmma", sums.slot.type, tuple(args), attr))


def _first_type(t: Tracer, a: Any, b: Matrix, dtype: Any) -> Type:
    if isinstance(a, Matrix):
        if dtype is not None and operand_type(t, dtype) is not a.element:
            raise t.error(f"wgmma: A is a matrix of {a.element}, not {dtype}")
        return a.element
    return b.element if dtype is None else operand_type(t, dtype)


def _check_types(t: Tracer, a: Type, b: Type, sums: Sums) -> None:
    for operands, results in _FAMILIES:
        if a in operands:
            if b not in operands:
                raise t.error(f"wgmma does not multiply {a} by {b}")
            if sums.element not in results:
                raise t.error(f"wgmma of {a} adds to {' or '.join(map(str, results))} sums, not {sums.element}")


def _registers(t: Tracer, a: Any) -> list[Value]:
    """A's fragment: four 32-bit registers, laid out as those of mma m16n8k16."""
    if not isinstance(a, Sequence) or len(a) != 4:
        raise t.error("wgmma takes A from shared memory, k.smem_matrix(...), or as four 32-bit registers")
    found = []
    for x in a:
        value = lift(t, x)
        if value.type.registers != 1:
            raise t.error(f"wgmma: A's fragment has 32-bit registers, not {value.type}")
        found.append(value if value.type is U32 else t.bitcast(value, U32))
    return found


def commit(t: Tracer) -> None:
    """The products since the last commit are a group; the last of them carries the commit where it stands before."""
    t.mark()
    for item in reversed(t.region.items):
        if not isinstance(item, Value):
            break
        if item.op == "wgmma" and not item.attr.commit:
            item.attr = replace(item.attr, commit=True)
            return
        if item.op in EFFECTS:
            break
    t.emit("wgmma_commit", BOOL)
