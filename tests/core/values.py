"""Operand values for tests: rows of 32 numbers, edge values and random ones mixed."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

INTEGER_EDGES = (0, 1, 2, 31, 32, 33, 63, 64, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x10000)
INTEGER_EDGES += (0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFF80, 0xFFFFFFFE, 0xFFFFFFFF, 0x55555555, 0xAAAAAAAA)

FLOAT_EDGES = (0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x00800001, 0x807FFFFF)
FLOAT_EDGES += (0x3F800000, 0xBF800000, 0x3F7FFFFF, 0x3F800001, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000)
FLOAT_EDGES += (0x7FC00000, 0xFFC00000, 0x7F800001, 0x7FFFFFFF, 0x4B000001, 0x4EFFFFFF, 0x4F000000, 0xCF000000)
FLOAT_EDGES += (0x33800000, 0x38800000, 0x387FE000, 0x477FE000, 0x477FF000, 0x47800000, 0x7E800000, 0x40490FDB)

DOUBLE_EDGES = tuple(
    int(np.float64(v).view(np.uint64))
    for v in (0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, 2.0**-1022, 1.7976931348623157e308, np.inf, -np.inf, np.nan)
)
DOUBLE_EDGES += tuple(
    int(np.float64(v).view(np.uint64)) for v in (1 + 2.0**-52, 2.0**53 + 2, 2.0**31, -(2.0**31), 2.0**63, 2.0**64, 0.1)
)


def row_of(edges: tuple[int, ...], bits: int) -> Any:
    """A strategy for 32 words of `bits` bits, edge values and any others, from one drawn seed."""
    dtype = np.uint64 if bits == 64 else np.uint32

    def make(seed: int) -> Any:
        random = np.random.default_rng(seed)
        anything = random.integers(0, 2**bits, 32, dtype, endpoint=False)
        return np.where(random.random(32) < 0.7, random.choice(np.array(edges, dtype), 32), anything)

    return st.integers(0, 2**32 - 1).map(make)


def small_row(edges: tuple[int, ...], limit: int) -> Any:
    """A strategy for 32 words below `limit`, or edge values."""

    def make(seed: int) -> Any:
        random = np.random.default_rng(seed)
        small = random.integers(0, limit, 32, np.uint32)
        return np.where(random.random(32) < 0.8, small, random.choice(np.array(edges, np.uint32), 32))

    return st.integers(0, 2**32 - 1).map(make)


integers = row_of(INTEGER_EDGES, 32)
floats = row_of(FLOAT_EDGES, 32).map(lambda w: w.view(np.float32))
doubles = row_of(DOUBLE_EDGES, 64).map(lambda w: w.view(np.float64))
longs = row_of((0, 1, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 1024), 64)
masks = st.sampled_from((0xFFFFFFFF, 0x1, 0x80000000, 0x0000FFFF, 0x55555555)) | st.integers(1, 2**32 - 1)

few = settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def signed(values: Any) -> list[int]:
    """Words as signed Python integers."""
    return [int(v) for v in np.asarray(values).view(np.int32 if values.dtype.itemsize == 4 else np.int64)]


def unsigned(values: Any) -> list[int]:
    """Words as Python integers."""
    return [int(v) for v in values]


def wrapped(values: Any, bits: int = 32) -> Any:
    """Python integers cut to words."""
    return np.array([v & (2**bits - 1) for v in values], np.uint64 if bits == 64 else np.uint32)
