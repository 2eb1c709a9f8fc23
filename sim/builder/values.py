"""What a kernel's Python handles: values and variables, with arithmetic that traces.

Conversions are C's: int32 with float32 gives float32, int32 with int64 gives
int64, int32 with uint32 gives uint32. Python numbers take the type of the other
operand. `//` and `%` on integers are Python's and NumPy's: they round down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from sim.builder import division
from sim.builder.emitter import fits
from sim.builder.ir import Value
from sim.builder.trace import Slot, Tracer
from sim.builder.types import BOOL, F32, F64, I32, I64, U64, Type, promote, register_type, storage_type


def lift(t: Tracer, x: Any, like: Type | None = None) -> Value:
    """`x` as a value. Python numbers become constants of type `like`, or of int32, int64 or float32.

    Raises `BuildError` for what is no number, and for a constant that `like` cannot hold.
    """
    if isinstance(x, Scalar):
        return t.check(x.value)
    if isinstance(x, bool | np.bool_):
        return t.const(bool(x), BOOL if like is None else like)
    if isinstance(x, int) or type(x) is np.int64:
        return _lift_int(t, int(x), like)
    if isinstance(x, float):  # np.float64 is a float too
        return t.const(float(x), like if like is not None and like.is_float else F64 if like in (I64, U64) else F32)
    if isinstance(x, np.generic):
        return t.const(x.item() if x.dtype.kind in "iufb" else float(x), register_type(storage_type(x.dtype)))
    raise t.error(f"a number or a kernel value is needed here, not {type(x).__name__}")


def _lift_int(t: Tracer, x: int, like: Type | None) -> Value:
    if like is None or like is BOOL:
        like = I32 if fits(x, I32) else I64 if fits(x, I64) else U64
    if like.is_int and not fits(x, like):
        raise t.error(f"the constant {x} does not fit {like}; convert the other operand with .astype(np.int64)")
    return t.const(x, like)


def pair(t: Tracer, a: Any, b: Any) -> tuple[Value, Value, Type]:
    """Two operands in their common type. Raises `BuildError` when they have none."""
    weak_a, weak_b = _is_weak(a), _is_weak(b)
    x = lift(t, a) if not weak_a or weak_b else None
    y = lift(t, b, x.type if x is not None and weak_b and not weak_a else None) if x is not None else lift(t, b)
    if x is None:
        x = lift(t, a, y.type)
    try:
        common = promote(x.type, y.type)
    except TypeError as error:
        raise t.error(str(error)) from None
    return t.cast(x, common), t.cast(y, common), common


def _is_weak(x: Any) -> bool:
    return not isinstance(x, Scalar) and (isinstance(x, int | float) or type(x) is np.int64)


class Scalar:
    """A value of each thread. Made by the thread view `k`, by arrays and by arithmetic."""

    __slots__ = ("_value", "home", "tracer")
    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 1000
    __array_ufunc__ = None  # NumPy scalars leave arithmetic to us

    def __init__(self, tracer: Tracer, value: Value) -> None:
        self.tracer = tracer
        self.home = tracer.region  # the block that was open when Python made it
        self._value = value

    @property
    def value(self) -> Value:
        """The value in the intermediate form."""
        return self._value

    @property
    def dtype(self) -> Type:
        return self.value.type

    def __repr__(self) -> str:
        return f"<kernel value of type {self.value.type}>"

    def astype(self, dtype: Any) -> Scalar:
        """Converted to `dtype`: floats to integers toward zero, saturating, as CUDA."""
        self.tracer.mark()
        return cast(self.tracer, self, dtype)

    def view(self, dtype: Any) -> Scalar:
        """The same bits as another type of the same size."""
        self.tracer.mark()
        t, to = self.tracer, register_type(storage_type(dtype))
        value = t.check(self.value)
        if value.type.registers != to.registers:
            raise t.error(f"view({to}) of a {value.type}: the sizes differ")
        return Scalar(t, t.bitcast(value, to))

    # --- arithmetic
    def __add__(self, other: Any) -> Scalar:
        return arithmetic("add", self, other)

    def __radd__(self, other: Any) -> Scalar:
        return arithmetic("add", other, self)

    def __sub__(self, other: Any) -> Scalar:
        return arithmetic("sub", self, other)

    def __rsub__(self, other: Any) -> Scalar:
        return arithmetic("sub", other, self)

    def __mul__(self, other: Any) -> Scalar:
        return arithmetic("mul", self, other)

    def __rmul__(self, other: Any) -> Scalar:
        return arithmetic("mul", other, self)

    def __truediv__(self, other: Any) -> Scalar:
        return arithmetic("div", self, other)

    def __rtruediv__(self, other: Any) -> Scalar:
        return arithmetic("div", other, self)

    def __floordiv__(self, other: Any) -> Scalar:
        return arithmetic("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Scalar:
        return arithmetic("floordiv", other, self)

    def __mod__(self, other: Any) -> Scalar:
        return arithmetic("mod", self, other)

    def __rmod__(self, other: Any) -> Scalar:
        return arithmetic("mod", other, self)

    def __pow__(self, exponent: Any) -> Scalar:
        return power(self, exponent)

    def __neg__(self) -> Scalar:
        return unary("neg", self)

    def __pos__(self) -> Scalar:
        return self

    def __abs__(self) -> Scalar:
        return unary("abs", self)

    # --- bits and predicates
    def __invert__(self) -> Scalar:
        return unary("not", self)

    def __and__(self, other: Any) -> Scalar:
        return logic("and", self, other)

    def __rand__(self, other: Any) -> Scalar:
        return logic("and", other, self)

    def __or__(self, other: Any) -> Scalar:
        return logic("or", self, other)

    def __ror__(self, other: Any) -> Scalar:
        return logic("or", other, self)

    def __xor__(self, other: Any) -> Scalar:
        return logic("xor", self, other)

    def __rxor__(self, other: Any) -> Scalar:
        return logic("xor", other, self)

    def __lshift__(self, other: Any) -> Scalar:
        return shift("shl", self, other)

    def __rlshift__(self, other: Any) -> Scalar:
        return shift("shl", other, self)

    def __rshift__(self, other: Any) -> Scalar:
        return shift("shr", self, other)

    def __rrshift__(self, other: Any) -> Scalar:
        return shift("shr", other, self)

    # --- comparison
    def __lt__(self, other: Any) -> Scalar:
        return compare("lt", self, other)

    def __le__(self, other: Any) -> Scalar:
        return compare("le", self, other)

    def __gt__(self, other: Any) -> Scalar:
        return compare("gt", self, other)

    def __ge__(self, other: Any) -> Scalar:
        return compare("ge", self, other)

    def __eq__(self, other: Any) -> Scalar:  # type: ignore[override]
        return compare("eq", self, other)

    def __ne__(self, other: Any) -> Scalar:  # type: ignore[override]
        return compare("ne", self, other)

    # --- what tracing cannot do
    def _refuse(self, what: str, instead: str) -> NoReturn:
        raise self.tracer.error(
            f"{what} needs a number while the kernel is traced, and this one is only known when it runs; {instead}"
        )

    def __bool__(self) -> bool:
        self._refuse(
            "if, while, and, or, not, or a chained comparison",
            "use k.if_(condition), k.while_(lambda: condition), k.select(condition, a, b), and & | ~ on conditions",
        )

    def __int__(self) -> int:
        self._refuse("int()", "use .astype(np.int32)")

    def __float__(self) -> float:
        self._refuse("float()", "use .astype(np.float32)")

    def __index__(self) -> int:
        self._refuse("range() or a Python list's index", "use k.range_ or a kernel array")

    def __getitem__(self, index: Any) -> Any:
        raise self.tracer.error("this is a number, which has no elements; what is indexed must be an array")

    def __setitem__(self, index: Any, value: Any) -> None:
        self[index]

    def __iter__(self) -> Any:
        self._refuse("iteration", "loads with width= give a tuple")

    # --- in place
    def _in_place(self, operation: str, result: Scalar) -> Scalar:
        if self.home is not self.tracer.region:
            raise self.tracer.error(
                f"{operation} on a value made outside this traced block would only rebind its name; "
                "make it a variable before the block: v = k.var(0.0)"
            )
        return result

    def __iadd__(self, other: Any) -> Scalar:
        return self._in_place("+=", self + other)

    def __isub__(self, other: Any) -> Scalar:
        return self._in_place("-=", self - other)

    def __imul__(self, other: Any) -> Scalar:
        return self._in_place("*=", self * other)


class Var(Scalar):
    """A variable: reading it is implicit; `v.set(x)`, `v += x` and the like change it in place."""

    __slots__ = ("slot",)
    slot: Slot

    def __init__(self, tracer: Tracer, slot: Slot) -> None:
        self.tracer = tracer
        self.slot = slot

    @property
    def value(self) -> Value:
        value = self.tracer.read(self.slot)
        return self.tracer.compare("ne", value, self.tracer.i32(0)) if self.slot.type is BOOL else value

    @property
    def dtype(self) -> Type:
        return self.slot.type

    def set(self, new: Any) -> None:
        """Make the variable hold `new`, converted to its type."""
        t = self.tracer
        t.mark()
        value = t.cast(lift(t, new, self.slot.type), self.slot.type)
        t.write(self.slot, stored(t, value))

    def get(self) -> Scalar:
        """What it holds now, as a value that later changes do not touch."""
        return Scalar(self.tracer, self.value)

    def _in_place(self, operation: str, result: Scalar) -> Scalar:
        self.set(result)
        return self

    def __itruediv__(self, other: Any) -> Scalar:
        return self._in_place("/=", self / other)

    def __ifloordiv__(self, other: Any) -> Scalar:
        return self._in_place("//=", self // other)

    def __imod__(self, other: Any) -> Scalar:
        return self._in_place("%=", self % other)

    def __iand__(self, other: Any) -> Scalar:
        return self._in_place("&=", self & other)

    def __ior__(self, other: Any) -> Scalar:
        return self._in_place("|=", self | other)

    def __ixor__(self, other: Any) -> Scalar:
        return self._in_place("^=", self ^ other)

    def __ilshift__(self, other: Any) -> Scalar:
        return self._in_place("<<=", self << other)

    def __irshift__(self, other: Any) -> Scalar:
        return self._in_place(">>=", self >> other)


def stored(t: Tracer, value: Value) -> Value:
    """How a variable keeps a value: predicates as int32."""
    return t.select(value, t.i32(1), t.i32(0)) if value.type is BOOL else value


def _tracer(*operands: Any) -> Tracer:
    for x in operands:
        if isinstance(x, Scalar):
            x.tracer.mark()
            return x.tracer
    raise TypeError("no kernel value among the operands")


def cast(t: Tracer, x: Any, dtype: Any) -> Scalar:
    """`x` converted to `dtype`."""
    try:
        storage = storage_type(dtype)
    except TypeError as error:
        raise t.error(str(error)) from None
    if storage.is_float and storage.bits == 8:
        raise t.error(f"conversion to {storage} is not available; tensor cores read it from memory")
    value = t.cast(lift(t, x), register_type(storage))
    if storage.is_int and storage.bits < 32:
        value = _narrow(t, value, storage)
    return Scalar(t, value)


def _narrow(t: Tracer, value: Value, storage: Type) -> Value:
    if storage.kind == "u":
        return t.emit("and", I32, (value, t.i32((1 << storage.bits) - 1)))
    by = t.i32(32 - storage.bits)
    return t.emit("shr", I32, (t.emit("shl", I32, (value, by)), by))


def arithmetic(op: str, a: Any, b: Any) -> Scalar:
    """`a op b` for add, sub, mul, div, floordiv, mod."""
    t = _tracer(a, b)
    if not isinstance(a, _NUMBERS) or not isinstance(b, _NUMBERS):
        return NotImplemented
    x, y, common = pair(t, a, b)
    if common is BOOL:
        common = I32
        x, y = t.cast(x, I32), t.cast(y, I32)
    if op == "div" and common.is_int:
        common = F32 if common.bits == 32 else F64
        x, y = t.cast(x, common), t.cast(y, common)
    make = _DIVISIONS.get(op)
    return Scalar(t, make(t, x, y) if make is not None else t.emit(op, common, (x, y)))


_NUMBERS = (Scalar, int, float, np.generic)
_DIVISIONS: dict[str, Callable[[Tracer, Value, Value], Value]] = {
    "div": division.divide,
    "floordiv": division.floor_divide,
    "mod": division.modulo,
}


def unary(op: str, a: Scalar) -> Scalar:
    t = _tracer(a)
    x = t.check(a.value)
    if x.type is BOOL:
        if op == "not":
            return Scalar(t, t.emit("pnot", BOOL, (x,)))
        x = t.cast(x, I32)
    if op == "not" and not x.type.is_int:
        raise t.error(f"~ of a {x.type}; it works on integers and conditions")
    return Scalar(t, t.emit(op, x.type, (x,)))


def logic(op: str, a: Any, b: Any) -> Scalar:
    """`&`, `|`, `^` of integers or of conditions."""
    t = _tracer(a, b)
    x, y, common = pair(t, a, b)
    if common is BOOL:
        return Scalar(t, t.emit("p" + op, BOOL, (x, y)))
    if not common.is_int:
        raise t.error(f"& | ^ on {common}; they work on integers and conditions")
    return Scalar(t, t.emit(op, common, (x, y)))


def shift(op: str, a: Any, b: Any) -> Scalar:
    """`a << b`, `a >> b`; the result has the type of `a`."""
    t = _tracer(a, b)
    x, y = lift(t, a), lift(t, b)
    if not (x.type.is_int and y.type.is_int):
        raise t.error(f"<< and >> need integers, not {x.type} and {y.type}")
    return Scalar(t, t.emit(op, x.type, (x, t.cast(y, I32))))


def compare(how: str, a: Any, b: Any) -> Scalar:
    """A condition."""
    t = _tracer(a, b)
    if not isinstance(a, _NUMBERS) or not isinstance(b, _NUMBERS):
        raise t.error(f"a kernel value cannot be compared with {type(b).__name__}")
    x, y, common = pair(t, a, b)
    if common is BOOL:
        both = t.emit("pxor", BOOL, (x, y))
        if how not in ("eq", "ne"):
            raise t.error("conditions can only be compared with == and !=")
        return Scalar(t, both if how == "ne" else t.emit("pnot", BOOL, (both,)))
    return Scalar(t, t.compare("neu" if how == "ne" and common.is_float else how, x, y))


def power(a: Scalar, exponent: Any) -> Scalar:
    """`a ** n` for a small whole number or one half."""
    t = _tracer(a)
    x = t.check(a.value)
    if exponent == 0.5 and x.type.is_float:
        from sim.builder.functions import sqrt

        return Scalar(t, sqrt(t, x))
    if not isinstance(exponent, int | float | np.generic) or float(exponent) not in range(-16, 65):
        raise t.error("** takes a whole number from -16 to 64, or 0.5; else use k.exp2(y * k.log2(x))")
    power_ = int(exponent)
    n, result, base = abs(power_), None, x
    while n:
        if n & 1:
            result = base if result is None else t.mul(result, base)
        n >>= 1
        if n:
            base = t.mul(base, base)
    if result is None:
        return Scalar(t, t.const(1, x.type))
    if power_ < 0:
        result = division.divide(t, t.const(1, x.type), result)
    return Scalar(t, result)
