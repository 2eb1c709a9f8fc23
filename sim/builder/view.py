"""The thread view `k`: what a kernel asks of the GPU.

Every kernel function gets it as its first argument. Its methods run while the
kernel is traced, once; they return values that each thread has when it runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from sim.builder import atomics, copies, functions, tensor, warp
from sim.builder.arrays import Array
from sim.builder.division import fast_divide, truncating
from sim.builder.ir import BarrierAttr, Value
from sim.builder.trace import Tracer
from sim.builder.types import BOOL, F32, F64, I32, U32, Type, register_type, storage_type
from sim.builder.values import Scalar, Var, cast, lift, pair, stored
from sim.builder.view_async import AsynchronousView
from sim.isa import Rounding, Space, SpecialRegister

LOCAL_ALIGNMENT = 16  #: bytes
MAX_LOCAL_BYTES = 512 * 1024  #: a thread (CUDA programming guide, technical specifications)


def _aligned(t: Tracer, offset: int, align: int) -> int:
    """The next multiple of `align`, a power of two of at least 16 bytes."""
    if not isinstance(align, int) or align < 16 or align & (align - 1):
        raise t.error(f"align={align!r}: a power of two from 16")
    return -(-offset // align) * align


class Triple:
    """`.x`, `.y`, `.z` as int32."""

    __slots__ = ("_tracer", "_values")

    def __init__(self, tracer: Tracer, values: Sequence[Value]) -> None:
        self._tracer = tracer
        self._values = values

    @property
    def x(self) -> Scalar:
        return Scalar(self._tracer, self._values[0])

    @property
    def y(self) -> Scalar:
        return Scalar(self._tracer, self._values[1])

    @property
    def z(self) -> Scalar:
        return Scalar(self._tracer, self._values[2])


class ThreadView(AsynchronousView):
    """One thread, as the kernel sees it.

    Places: `thread_idx`, `block_idx`, `block_dim`, `cluster_dim`, `grid_dim` (each `.x .y .z`),
    `lane_id`, `warp_id`.

    Control: `with k.if_(c):`, `with k.elif_(c):`, `with k.else_():`,
    `for i in k.range_(stop)`, `with k.while_(lambda: c):`, `k.return_()`.

    Variables: `v = k.var(0.0)`; reading is implicit; `v += x`, `v.set(x)`.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._t = tracer
        self._dynamic_begins = False  # whether dynamic shared memory has its place
        t, s = tracer, SpecialRegister
        self.thread_idx = Triple(t, [t.special(r) for r in (s.TID_X, s.TID_Y, s.TID_Z)])
        self.block_idx = Triple(t, [t.special(r) for r in (s.CTAID_X, s.CTAID_Y, s.CTAID_Z)])
        self.block_dim = Triple(t, [t.leaf("cbank", I32, 4 * d, nonneg=True) for d in range(3)])
        self.cluster_dim = Triple(t, [t.leaf("cbank", I32, 0x144 + 4 * d, nonneg=True) for d in range(3)])
        self.grid_dim = Triple(t, [t.leaf("cbank", I32, 0xC + 4 * d, nonneg=True) for d in range(3)])

    @property
    def lane_id(self) -> Scalar:
        """Lane in the warp, 0..31."""
        return Scalar(self._t, self._t.special(SpecialRegister.LANEID))

    @property
    def warp_id(self) -> Scalar:
        """Warp in the block: the linear thread number divided by 32."""
        t = self._t
        x, y, z = (t.special(r) for r in (SpecialRegister.TID_X, SpecialRegister.TID_Y, SpecialRegister.TID_Z))
        bx, by = (t.leaf("cbank", I32, 4 * d, nonneg=True) for d in range(2))
        linear = t.add(t.mul(t.add(t.mul(z, by), y), bx), x)
        return Scalar(t, t.emit("shr", I32, (linear, t.i32(5))))

    # --- control
    def if_(self, condition: Any) -> AbstractContextManager[None]:
        """The block runs in the threads for which `condition` holds."""
        self._t.mark()
        return self._t.if_(self._condition(condition))

    def elif_(self, condition: Any) -> AbstractContextManager[None]:
        """After `if_` or `elif_`: runs where no earlier condition held and this one does.

        `condition` is a value, or a function that gives it.
        """
        self._t.mark()
        if callable(condition):
            return self._t.elif_(lambda: self._condition(condition()))
        return self._t.elif_(self._condition(condition))

    def else_(self) -> AbstractContextManager[None]:
        """After `if_` or `elif_`: runs where no condition held."""
        self._t.mark()
        return self._t.else_()

    def range_(
        self, start: Any, stop: Any = None, step: Any = 1, *, unroll: int | bool | None = None
    ) -> Iterator[Scalar]:
        """`for i in k.range_(start, stop, step):` traced once, run as often as Python's range would.

        `unroll`: None lets the compiler choose, True unrolls a loop of constant
        bounds wholly, a number makes so many copies of the body (1: none).
        """
        t = self._t
        t.mark()
        if stop is None:
            start, stop = 0, start
        first, last, by = (self._bound(v) for v in (start, stop, step))
        if by.is_const and by.attr == 0:
            raise t.error("k.range_ with step 0")
        if not by.is_const and not by.nonneg:
            by.nonneg = True  # a step that is only known when the kernel runs is taken to be positive
        if first.is_const and last.is_const and by.is_const and not len(range(first.attr, last.attr, by.attr)):
            return
        for index in t.for_(first, last, by, unroll):
            yield Scalar(t, index)

    def _bound(self, v: Any) -> Value:
        value = lift(self._t, v)
        if not value.type.is_int:
            raise self._t.error(f"k.range_ takes integers, not {value.type}")
        return self._t.cast(value, I32)

    def while_(self, condition: Callable[[], Any]) -> AbstractContextManager[None]:
        """`with k.while_(lambda: c):` runs the block while `c` holds; the function is traced twice."""
        self._t.mark()
        if not callable(condition):
            raise self._t.error(
                "k.while_ takes a function, so that the condition is seen again: k.while_(lambda: x > 0)"
            )
        return self._t.while_(lambda: self._condition(condition()))

    def return_(self) -> None:
        """End the thread here."""
        self._t.mark()
        self._t.exit()

    def _condition(self, condition: Any) -> Value:
        value = lift(self._t, condition)
        return self._t.cast(value, BOOL)

    # --- variables and memory
    def var(self, initial: Any = 0.0, dtype: Any = None) -> Var:
        """A variable. Without `dtype` it has the type of `initial`: float32, int32 or bool for Python's numbers."""
        t = self._t
        t.mark()
        value = lift(t, initial)
        if dtype is not None:
            value = t.cast(value, self._type(dtype))
        slot = t.slot(stored(t, value))
        if value.type is BOOL:
            slot.type = BOOL
        return Var(t, slot)

    def vars(self, count: int, initial: Any = 0.0, dtype: Any = None) -> list[Var]:
        """A Python list of `count` variables."""
        return [self.var(initial, dtype) for _ in range(count)]

    def shared(self, shape: int | Sequence[int], dtype: Any = np.float32, align: int = 16) -> Array:
        """A shared array of the block, of constant shape, at a multiple of `align` bytes.

        Raises `BuildError` for a traced shape.
        """
        t = self._t
        t.mark()
        storage, dims, size = self._constant_shape(
            "shared", shape, dtype, "; use k.shared_dynamic for a size given at launch"
        )
        return Array(t, "shared array", Space.SHARED, storage, dims, None, self._place(size, align))

    def shared_dynamic(self, dtype: Any = np.float32, offset_bytes: int = 0, align: int = 16) -> Array:
        """The launch's dynamic shared memory as a 1-D array, from `offset_bytes` on. Make static arrays before it.

        It begins at a multiple of `align` bytes: a launch that needs more than 16 gives `align` bytes more.
        """
        t = self._t
        t.mark()
        self._dynamic_begins = True
        start = _aligned(t, t.graph.shared_bytes, align)
        return Array(t, "dynamic shared array", Space.SHARED, self._storage(dtype), (None,), None, start + offset_bytes)

    def local(self, shape: int | Sequence[int], dtype: Any = np.float32) -> Array:
        """An array of the thread's own, of constant shape, in local memory; what it holds at first is undefined.

        Each index is an access of memory: what shall stay in registers is a Python list of variables.
        Raises `BuildError` for a traced shape, or more than a thread can have.
        """
        t = self._t
        t.mark()
        storage, dims, size = self._constant_shape("local", shape, dtype)
        offset = _aligned(t, t.graph.local_bytes, LOCAL_ALIGNMENT)
        if offset + size > MAX_LOCAL_BYTES:
            raise t.error(f"local arrays of {offset + size} bytes; a thread can have {MAX_LOCAL_BYTES}")
        t.graph.local_bytes = offset + size
        return Array(t, "local array", Space.LOCAL, storage, dims, None, offset)

    def _constant_shape(
        self, what: str, shape: int | Sequence[int], dtype: Any, instead: str = ""
    ) -> tuple[Type, tuple[Value, ...], int]:
        """Element type, extents and bytes of an array of the kernel's own."""
        t = self._t
        dims = tuple(shape) if isinstance(shape, Sequence) else (shape,)
        if not dims or not all(isinstance(d, int | np.integer) and d > 0 for d in dims):
            raise t.error(f"a {what} array needs a constant shape of positive integers, not {shape!r}{instead}")
        storage = self._storage(dtype)
        return storage, tuple(t.i32(int(d)) for d in dims), math.prod(int(d) for d in dims) * storage.bytes

    def _place(self, size: int, align: int) -> int:
        """The byte at which a new static array of `size` bytes begins."""
        t = self._t
        if self._dynamic_begins:
            raise t.error("static shared memory lies before dynamic: make this before k.shared_dynamic")
        offset = _aligned(t, t.graph.shared_bytes, align)
        t.graph.shared_bytes = offset + size
        return offset

    def _storage(self, dtype: Any) -> Type:
        try:
            return storage_type(dtype)
        except TypeError as error:
            raise self._t.error(str(error)) from None

    def _type(self, dtype: Any) -> Type:
        return register_type(self._storage(dtype))

    # --- synchronisation
    def syncthreads(self) -> None:
        """Wait for all threads of the block; shared and global writes before it are seen after it."""
        self._t.mark()
        self._t.emit("bar", BOOL, (), BarrierAttr(False, 0, 0))

    def syncwarp(self, mask: int = 0xFFFFFFFF) -> None:
        """Wait for the warp's threads in `mask`."""
        self._t.mark()
        self._t.emit("warpsync", BOOL, (), mask)

    def threadfence(self) -> None:
        """Order this thread's global writes before its later ones, for the whole GPU."""
        self._t.mark()
        self._t.emit("membar", BOOL, (), 1)

    # --- warp
    def shfl(self, value: Any, lane: Any, width: int = 32) -> Scalar:
        """The value of lane `lane`."""
        return warp.shuffle(self._t, value, lane, 0, width)

    def shfl_up(self, value: Any, delta: Any, width: int = 32) -> Scalar:
        """The value of the lane `delta` below, or the own one where there is none."""
        return warp.shuffle(self._t, value, delta, 1, width)

    def shfl_down(self, value: Any, delta: Any, width: int = 32) -> Scalar:
        """The value of the lane `delta` above, or the own one where there is none."""
        return warp.shuffle(self._t, value, delta, 2, width)

    def shfl_xor(self, value: Any, mask: Any, width: int = 32) -> Scalar:
        """The value of the lane whose number differs by `mask`'s bits."""
        return warp.shuffle(self._t, value, mask, 3, width)

    def ballot(self, condition: Any) -> Scalar:
        """Bit `l` is lane `l`'s condition, as uint32."""
        return warp.vote(self._t, condition, "ballot")

    def any_(self, condition: Any) -> Scalar:
        """True when the condition holds in some active lane."""
        return warp.vote(self._t, condition, "any")

    def all_(self, condition: Any) -> Scalar:
        """True when the condition holds in every active lane."""
        return warp.vote(self._t, condition, "all")

    def popc(self, x: Any) -> Scalar:
        """Number of one bits."""
        return warp.bits(self._t, "popc", x)

    def clz(self, x: Any) -> Scalar:
        """Number of leading zero bits of a 32-bit integer."""
        return warp.leading_zeros(self._t, x)

    def brev(self, x: Any) -> Scalar:
        """The bits of a 32-bit integer in reverse order."""
        return warp.bits(self._t, "brev", x)

    # --- atomics: return the old value
    def atomic_add(self, array: Array, index: Any, value: Any) -> Scalar:
        """`array[index] += value` as one step; the old value."""
        return atomics.atomic(self._t, "ADD", array, index, value)

    def atomic_min(self, array: Array, index: Any, value: Any) -> Scalar:
        return atomics.atomic(self._t, "MIN", array, index, value)

    def atomic_max(self, array: Array, index: Any, value: Any) -> Scalar:
        return atomics.atomic(self._t, "MAX", array, index, value)

    def atomic_and(self, array: Array, index: Any, value: Any) -> Scalar:
        return atomics.atomic(self._t, "AND", array, index, value)

    def atomic_or(self, array: Array, index: Any, value: Any) -> Scalar:
        return atomics.atomic(self._t, "OR", array, index, value)

    def atomic_xor(self, array: Array, index: Any, value: Any) -> Scalar:
        return atomics.atomic(self._t, "XOR", array, index, value)

    def atomic_exch(self, array: Array, index: Any, value: Any) -> Scalar:
        return atomics.atomic(self._t, "EXCH", array, index, value)

    def atomic_cas(self, array: Array, index: Any, compare: Any, value: Any) -> Scalar:
        """Store `value` where the element equals `compare`; the old value."""
        return atomics.atomic(self._t, "CAS", array, index, value, compare)

    # --- choice and arithmetic
    def select(self, condition: Any, a: Any, b: Any) -> Scalar:
        """`a` where the condition holds, else `b`; both are computed."""
        t = self._t
        t.mark()
        x, y, _ = pair(t, a, b)
        return Scalar(t, t.select(self._condition(condition), x, y))

    def cast(self, x: Any, dtype: Any) -> Scalar:
        """`x` converted to `dtype`."""
        self._t.mark()
        return cast(self._t, x, dtype)

    def min(self, a: Any, b: Any) -> Scalar:
        """The smaller; of a NaN and a number the number."""
        return self._two("min", a, b)

    def max(self, a: Any, b: Any) -> Scalar:
        """The larger; of a NaN and a number the number."""
        return self._two("max", a, b)

    def _two(self, op: str, a: Any, b: Any) -> Scalar:
        t = self._t
        t.mark()
        x, y, common = pair(t, a, b)
        return Scalar(t, t.emit(op, common, (x, y)))

    def mul(self, a: Any, b: Any) -> Scalar:
        """`a * b`, which no sum takes in as a fused multiply-add: CUDA's `__fmul_rn`."""
        t = self._t
        t.mark()
        x, y, common = pair(t, a, b)
        return Scalar(t, t.emit("mul", common, (x, y), Rounding.RN))

    def fma(self, a: Any, b: Any, c: Any) -> Scalar:
        """`a * b + c` rounded once."""
        t = self._t
        t.mark()
        x, y, _ = pair(t, a, b)
        x, z, common = pair(t, Scalar(t, x), c)
        return Scalar(t, t.fma(x, t.cast(y, common), z))

    def abs(self, x: Any) -> Scalar:
        t = self._t
        t.mark()
        value = lift(t, x)
        return Scalar(t, t.emit("abs", value.type, (value,)))

    def divmod_truncating(self, a: Any, b: Any) -> tuple[Scalar, Scalar]:
        """C's `a / b` and `a % b` of integers, rounded toward zero."""
        t = self._t
        t.mark()
        x, y, _ = pair(t, a, b)
        q, r = truncating(t, x, y)
        return Scalar(t, q), Scalar(t, r)

    def fdividef(self, a: Any, b: Any) -> Scalar:
        """`a * (1/b)` in float32 by the reciprocal estimate."""
        t = self._t
        t.mark()
        x, y, _ = pair(t, a, b)
        return Scalar(t, fast_divide(t, t.cast(x, F32), t.cast(y, F32)))

    def mulhi(self, a: Any, b: Any) -> Scalar:
        """The high 32 bits of a 32-bit product."""
        t = self._t
        t.mark()
        x, y, common = pair(t, a, b)
        if common not in (I32, U32):
            raise t.error(f"mulhi takes 32-bit integers, not {common}")
        return Scalar(t, t.emit("mulhi", common, (x, y)))

    # --- functions
    def _call(self, function: Callable[..., Value], x: Any, *more: Any, doubles: bool = False) -> Scalar:
        t = self._t
        t.mark()
        value = lift(t, x)
        if not value.type.is_float:
            value = t.cast(value, F32)
        if value.type is F64 and not doubles:
            raise t.error(f"k.{function.__name__} of float64 is not available; convert with .astype(np.float32)")
        if value.type.is_half:
            return Scalar(t, t.cast(function(t, t.cast(value, F32), *more), value.type))
        return Scalar(t, function(t, value, *more))

    def exp(self, x: Any, fast: bool = False) -> Scalar:
        """e**x. `fast` is CUDA's `__expf`."""
        return self._call(functions.exp, x, fast)

    def exp2(self, x: Any, fast: bool = False) -> Scalar:
        """2**x. `fast` is the special-function unit's, where results below 2**-126 are zero."""
        return self._call(functions.exp2, x, fast)

    def log(self, x: Any, fast: bool = False) -> Scalar:
        """Natural logarithm. `fast` is CUDA's `__logf`."""
        return self._call(functions.log, x, fast)

    def log2(self, x: Any, fast: bool = False) -> Scalar:
        """Logarithm to base 2."""
        return self._call(functions.log2, x, fast)

    def sqrt(self, x: Any, fast: bool = False) -> Scalar:
        """Square root."""
        return self._call(functions.sqrt, x, fast, doubles=True)

    def rsqrt(self, x: Any) -> Scalar:
        """1 / sqrt(x)."""
        return self._call(functions.rsqrt, x, doubles=True)

    def rcp(self, x: Any, fast: bool = False) -> Scalar:
        """1 / x. `fast` is the estimate alone."""
        return self._call(functions.rcp, x, fast, doubles=not fast)

    def sin(self, x: Any, fast: bool = False) -> Scalar:
        """Sine. `fast` is CUDA's `__sinf`."""
        return self._call(functions.sin, x, fast)

    def cos(self, x: Any, fast: bool = False) -> Scalar:
        """Cosine. `fast` is CUDA's `__cosf`."""
        return self._call(functions.cos, x, fast)

    def tanh(self, x: Any, fast: bool = False) -> Scalar:
        """Hyperbolic tangent. `fast` is the special-function unit's."""
        return self._call(functions.tanh, x, fast)

    def floor(self, x: Any) -> Scalar:
        """Rounded down, as a float."""
        return self._round(x, Rounding.RM)

    def ceil(self, x: Any) -> Scalar:
        """Rounded up, as a float."""
        return self._round(x, Rounding.RP)

    def trunc(self, x: Any) -> Scalar:
        """Rounded toward zero, as a float."""
        return self._round(x, Rounding.RZ)

    def rint(self, x: Any) -> Scalar:
        """Rounded to nearest, ties to even, as a float."""
        return self._round(x, Rounding.RN)

    def _round(self, x: Any, mode: Rounding) -> Scalar:
        t = self._t
        t.mark()
        value = lift(t, x)
        if not value.type.is_float:
            return Scalar(t, value)
        wide = t.cast(value, F32) if value.type.is_half else value
        return Scalar(t, t.cast(t.emit("frnd", wide.type, (wide,), mode), value.type))

    # --- halves, tensor cores, asynchronous copies
    def pack(self, low: Any, high: Any, dtype: Any) -> Scalar:
        """Two values as float16 or bfloat16 halves of one uint32."""
        return tensor.pack(self._t, low, high, self._type(dtype))

    def unpack(self, word: Any, dtype: Any) -> tuple[Scalar, Scalar]:
        """The low and the high half of a 32-bit value."""
        return tensor.unpack(self._t, word, self._type(dtype))

    def mma(
        self, a: Sequence[Any], b: Sequence[Any], c: Sequence[Any], shape: str = "m16n8k16", dtype: Any = None
    ) -> tuple[Scalar, ...]:
        """`a @ b + c` by the warp, with fragments laid out as PTX's `mma.sync`.

        `a`, `b`: tuples of 32-bit registers (from `ldmatrix`, `pack` or loads of
        uint32); `c`: float32 accumulators, four. `dtype`: of `a` and `b`, float16
        or bfloat16 (default: what the registers came from), "tf32" for m16n8k8.
        """
        return tensor.mma(self._t, a, b, c, shape, dtype)

    def ldmatrix(self, array: Array, *index: Any, count: int = 4, transposed: bool = False) -> tuple[Scalar, ...]:
        """`count` 8x8 matrices of halves from shared memory.

        Lane `l` gives the index of row `l % 8` of matrix `l // 8`.
        """
        return tensor.ldmatrix(self._t, array, index, count, transposed)

    def async_copy(
        self, shared_array: Array, shared_index: Any, array: Array, index: Any, bytes: int = 16, pred: Any = None
    ) -> None:
        """Start copying 4, 8 or 16 bytes from global to shared memory past the registers.

        Where `pred` is false, zeros are written and nothing is read.
        """
        copies.async_copy(self._t, shared_array, shared_index, array, index, bytes, pred)

    def async_commit(self) -> None:
        """What this thread has started copying becomes a group."""
        self._t.mark()
        self._t.emit("commit", BOOL)

    def async_wait(self, groups_left: int = 0) -> None:
        """Wait until at most `groups_left` of this thread's groups are on their way."""
        self._t.mark()
        self._t.emit("wait", BOOL, (), int(groups_left))

    def clock(self) -> Scalar:
        """The SM's cycle counter, low 32 bits."""
        self._t.mark()
        return Scalar(self._t, self._t.emit("clock", U32))
