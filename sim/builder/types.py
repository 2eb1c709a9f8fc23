"""Scalar types of kernel values: what a register holds, and how NumPy dtypes map to it.

A *register type* is what arithmetic works on: bool (a predicate), 32- and 64-bit
integers, and four floats. A *storage type* is what an array holds; integers
narrower than 32 bits are widened when loaded and cut when stored, as in C.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Type:
    """A scalar type. `kind` is `b` (bool), `i` (signed), `u` (unsigned) or `f` (float)."""

    name: str
    kind: str
    bits: int

    def __str__(self) -> str:
        return self.name

    @property
    def registers(self) -> int:
        """32-bit registers that a value takes; 0 for a predicate."""
        return 0 if self.kind == "b" else max(1, self.bits // 32)

    @property
    def bytes(self) -> int:
        """Bytes of an array element."""
        return max(1, self.bits // 8)

    @property
    def is_int(self) -> bool:
        return self.kind in "iu"

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_half(self) -> bool:
        return self.kind == "f" and self.bits == 16


BOOL = Type("bool", "b", 1)
I32, U32 = Type("int32", "i", 32), Type("uint32", "u", 32)
I64, U64 = Type("int64", "i", 64), Type("uint64", "u", 64)
F16, BF16 = Type("float16", "f", 16), Type("bfloat16", "f", 16)
F32, F64 = Type("float32", "f", 32), Type("float64", "f", 64)
I8, U8 = Type("int8", "i", 8), Type("uint8", "u", 8)
I16, U16 = Type("int16", "i", 16), Type("uint16", "u", 16)
E4M3, E5M2 = Type("float8_e4m3fn", "f", 8), Type("float8_e5m2", "f", 8)  #: in memory only, for tensor cores
TF32 = Type("tf32", "f", 32)  #: how tensor cores read float32

_ALL = {t.name: t for t in (BOOL, I8, U8, I16, U16, I32, U32, I64, U64, E4M3, E5M2, F16, BF16, F32, F64)}
_REGISTER = {I8: I32, U8: I32, I16: I32, U16: I32, BOOL: BOOL}
_WORDS = {int: "int32", float: "float32", bool: "bool"}


def storage_type(dtype: Any) -> Type:
    """The type of an array's elements from a dtype, a dtype's name or a Python type.

    Raises `TypeError` for dtypes that no register can hold.
    """
    if isinstance(dtype, Type):
        return dtype
    if dtype in _WORDS and isinstance(dtype, type):
        return _ALL[_WORDS[dtype]]
    name = dtype if isinstance(dtype, str) else None
    if name not in _ALL:
        try:
            name = np.dtype(dtype).name
        except TypeError:
            name = getattr(dtype, "name", None) or repr(dtype)
    if name not in _ALL:
        known = ", ".join(_ALL)
        raise TypeError(f"dtype {name} is not one that a kernel can hold; use one of {known}")
    return _ALL[name]


def register_type(storage: Type) -> Type:
    """The type of a value loaded from elements of `storage`."""
    return _REGISTER.get(storage, storage)


@cache
def numpy_dtype(t: Type) -> np.dtype:
    """The NumPy dtype of a type; those of bfloat16 and float8 come from `ml_dtypes`."""
    if t in (BF16, E4M3, E5M2):
        try:
            import ml_dtypes
        except ImportError as error:
            raise TypeError(f"{t} arrays need the package ml_dtypes: pip install ml_dtypes") from error
        return np.dtype(getattr(ml_dtypes, t.name))
    return np.dtype(t.name)


def int_range(t: Type) -> tuple[int, int]:
    """Smallest and largest value of an integer type."""
    return (-(1 << (t.bits - 1)), (1 << (t.bits - 1)) - 1) if t.kind == "i" else (0, (1 << t.bits) - 1)


def wrap(value: int, t: Type) -> int:
    """`value` modulo 2**bits, as `t` would hold it."""
    value &= (1 << t.bits) - 1
    return value - (1 << t.bits) if t.kind == "i" and value >> (t.bits - 1) else value


def vector_type(element: Type, registers: int) -> Type:
    """So many registers side by side, as one value: the sums of a warpgroup's product."""
    return Type(f"{element} x {registers}", "v", 32 * registers)


def round_float(value: float, t: Type) -> float:
    """`value` rounded to `t`."""
    if t is F64:
        return float(value)
    if t is F32:
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    if t is F16:
        with np.errstate(over="ignore"):
            return float(np.float16(value))
    bits = int(np.float32(value).view(np.uint32))
    if (bits & 0x7FFFFFFF) > 0x7F800000:
        return float("nan")
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return float(np.uint32(bits).view(np.float32))


def bits_of(value: Any, t: Type) -> int:
    """The register bits of a constant of type `t`; halves stand in both halves of the word."""
    if t.is_int:
        return int(value) & ((1 << t.bits) - 1)
    if t is BOOL:
        return int(bool(value))
    if t is F64:
        return int(np.float64(value).view(np.uint64))
    if t is F32:
        return int(np.float32(value).view(np.uint32))
    half = int(np.float16(value).view(np.uint16)) if t is F16 else int(np.float32(value).view(np.uint32)) >> 16
    return half | half << 16


def from_bits(bits: int, t: Type) -> Any:
    """The Python value of register bits."""
    if t.is_int:
        return wrap(bits, t)
    if t is BOOL:
        return bool(bits & 1)
    if t is F64:
        return float(np.uint64(bits).view(np.float64))
    if t is F32:
        return float(np.uint32(bits & 0xFFFFFFFF).view(np.float32))
    if t is F16:
        return float(np.uint16(bits & 0xFFFF).view(np.float16))
    return float(np.uint32((bits & 0xFFFF) << 16).view(np.float32))


def promote(a: Type, b: Type) -> Type:
    """The common type of two operands, by C's usual conversions.

    Raises `TypeError` for float16 with bfloat16, which have none.
    """
    if a is b:
        return a
    if a is BOOL:
        return b
    if b is BOOL:
        return a
    if a.is_float or b.is_float:
        if not (a.is_float and b.is_float):
            return a if a.is_float else b
        if a.bits == b.bits:
            raise TypeError("float16 and bfloat16 have no common type; convert one with .astype(np.float32)")
        return a if a.bits > b.bits else b
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return a if a.kind == "u" else b
