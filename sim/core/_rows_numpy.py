"""Rows without a compiler: NumPy arrays of 32 lanes."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sim._jit import fma64

LANES = 32
_BITS = np.arange(LANES, dtype=np.int64)


def carray(array, shape):
    return array


def load(array, row):
    return array.reshape(-1, LANES)[row].copy()


def save(array, row, value):
    array.reshape(-1, LANES)[row] = value.view(array.dtype)


def store(array, row, value, mask):
    np.copyto(array.reshape(-1, LANES)[row], value.view(array.dtype), where=lanes(mask))


def _conversion(dtype):
    def convert(x):
        if isinstance(x, np.ndarray):
            return x.astype(dtype)
        return np.full(LANES, np.array(x).astype(dtype), dtype)

    return convert


def _reinterpretation(dtype):
    return lambda x: x.view(dtype)


u32, i32, f32 = _conversion(np.uint32), _conversion(np.int32), _conversion(np.float32)
u64, i64, f64 = _conversion(np.uint64), _conversion(np.int64), _conversion(np.float64)
as_u32, as_i32, as_f32 = (_reinterpretation(t) for t in (np.uint32, np.int32, np.float32))
as_u64, as_i64, as_f64 = (_reinterpretation(t) for t in (np.uint64, np.int64, np.float64))

sqrt, floor, ceil, trunc, rint, magnitude = np.sqrt, np.floor, np.ceil, np.trunc, np.rint, np.abs


def where(condition, x, y):
    dtype = x.dtype if isinstance(x, np.ndarray) else y.dtype
    return np.where(condition, np.asarray(x).astype(dtype), np.asarray(y).astype(dtype))


def fma(x, y, z):
    """`x * y + z` rounded once: for float32 the float64 sum is rounded to odd first."""
    if x.dtype == np.float64:
        return np.array([fma64(*t) for t in zip(x, y, z, strict=True)])
    product, addend = x.astype(np.float64) * y, z.astype(np.float64)
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    inexact = np.isfinite(total) & (error != 0) & (total.view(np.int64) & 1 == 0)
    odd = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where(inexact, odd, total).astype(np.float32)


def count_ones(x):
    return np.bitwise_count(x).astype(x.dtype)


def reverse_bits(x):
    for shift, pattern in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF), (16, 0x0000FFFF)):
        keep = np.uint32(pattern)
        x = ((x >> np.uint32(shift)) & keep) | ((x & keep) << np.uint32(shift))
    return x


def leading_zeros(x):
    width = 8 * x.dtype.itemsize
    return np.array([width - int(v).bit_length() for v in x], x.dtype)


def ordered(x):
    return ~np.isnan(x)


def lane_numbers():
    return np.arange(LANES, dtype=np.int32)


def element(x, lane):
    return x[lane]


def lanes(mask):
    return (np.int64(mask) >> _BITS & 1).astype(bool)


def mask_of(condition):
    return np.int64((condition.astype(np.int64) << _BITS).sum())


@lru_cache
def _spread_sources(group: int, thread: int, first: int):
    lane = np.arange(LANES)
    return (lane // 4 * group + lane % 4 * thread + first) % LANES


def spread(x, group: int, thread: int, first: int):
    return x[_spread_sources(group, thread, first)]


def _gather(size: int):
    def gather(memory, offset, mask):
        result, active = np.zeros(LANES, np.uint32), lanes(mask)
        elements = memory[offset[active, None] + np.arange(size)]
        result[active] = np.ascontiguousarray(elements).view(f"<u{size}")[:, 0]
        return result

    return gather


def _scatter(size: int):
    def scatter(memory, offset, value, mask):
        active = lanes(mask)
        elements = np.ascontiguousarray(value[active]).view(np.uint8).reshape(-1, 4)
        memory[offset[active, None] + np.arange(size)] = elements[:, :size]

    return scatter


gather8, gather16, gather32 = _gather(1), _gather(2), _gather(4)
scatter8, scatter16, scatter32 = _scatter(1), _scatter(2), _scatter(4)


def previous(x):
    return np.roll(x, 1)


def any_bits(x):
    return np.int64(np.bitwise_or.reduce(x))


def least(x):
    return x.min()


def set_bits(x):
    return int(x).bit_count()


def prefetch(array, index):
    pass


def eight_equal(array, index, value):
    here = array.reshape(-1)[index : index + 8] == value
    return np.int64((here << _BITS[:8]).sum())


def load_run(memory, offset, count):
    words = memory[offset : offset + 4 * count * LANES].view(np.uint32).reshape(LANES, count)
    return tuple(words[:, k].copy() for k in range(count))


def save_run(memory, offset, rows):
    words = np.ascontiguousarray(np.stack(rows, 1))
    memory[offset : offset + words.nbytes] = words.reshape(-1).view(np.uint8)


def word_at(memory, offset):
    return memory[offset : offset + 4].view(np.uint32)[0]


def load_octet(memory, offsets, first):
    rows = offsets[first : first + 8, None] + np.arange(16)
    return np.ascontiguousarray(memory[rows]).reshape(-1).view(np.uint32)


def move(target, to, source, at, size):
    target[to : to + size] = source[at : at + size]


def clear(target, to, size):
    target[to : to + size] = 0


def permute(x, source):
    return x[source]
