"""Tensor maps: what the tensor memory accelerator needs to know of an array to copy boxes of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.isa import (
    MAP_ADDRESS,
    MAP_BOX,
    MAP_BOX_BITS,
    MAP_BYTES,
    MAP_MAGIC,
    MAP_MAX_RANK,
    MAP_SHAPE,
    MAP_SIZES,
    MAP_STRIDES,
    MAP_SWIZZLES,
    NumberType,
)

MAX_BOX = 256  #: elements of a box in any dimension (CUDA driver API, cuTensorMapEncodeTiled)
ALIGNMENT = 16  #: bytes: of rows, strides and the first element (same source)


_NUMBERS = {
    "uint8": NumberType.U8, "int8": NumberType.S8, "uint16": NumberType.U16, "int16": NumberType.S16,
    "uint32": NumberType.U32, "int32": NumberType.S32, "uint64": NumberType.U64, "int64": NumberType.S64,
    "float16": NumberType.F16, "bfloat16": NumberType.BF16, "float32": NumberType.F32, "float64": NumberType.F64,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class TensorMap:
    """An array with the box of it that one TMA instruction copies; an argument of a kernel.

    Dimensions are in NumPy's order, the innermost last. `tensor_map` makes one.
    """

    array: Any  #: a NumPy array, an `OutputArray` or a device array
    shape: tuple[int, ...]
    strides: tuple[int, ...]  #: bytes, of all dimensions but the last
    box: tuple[int, ...]
    swizzle: int  #: bytes, or 0

    @property
    def rank(self) -> int:
        """Dimensions."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return int(np.dtype(self.array.dtype).itemsize)

    @property
    def box_bytes(self) -> int:
        """Bytes that a box takes in shared memory, and that its mbarrier expects."""
        return math.prod(self.box) * self.itemsize

    def encode(self, address: int) -> np.void:
        """The 128 bytes that a kernel gets for an array at a device address."""
        words = [0] * (MAP_BYTES // 8)
        words[MAP_SHAPE] = MAP_MAGIC | self.rank << 32 | MAP_SWIZZLES[self.swizzle] << 40 | self.itemsize << 48
        words[MAP_SHAPE] |= _NUMBERS.get(np.dtype(self.array.dtype).name, NumberType.U8) << 56
        words[MAP_ADDRESS] = address
        for d, (size, box) in enumerate(zip(reversed(self.shape), reversed(self.box), strict=True)):
            words[MAP_SIZES + d] = size
            words[MAP_BOX] |= box << MAP_BOX_BITS * d
        for d, stride in enumerate(reversed(self.strides)):
            words[MAP_STRIDES + d] = stride
        return np.void(np.array(words, np.uint64).tobytes())


def tensor_map(
    array: Any,
    box: Sequence[int],
    *,
    swizzle: int = 128,
    shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> TensorMap:
    """What TMA copies of `array`, as `cuTensorMapEncodeTiled` says it on a card.

    `box` elements of each dimension are copied at a time, in NumPy's order; elements outside the
    array are zero, and are not stored. In shared memory a box is dense, its 16-byte units placed
    by `swizzle`: 128, 64 or 32 bytes, or 0 for none. `shape` and `strides` (bytes, of all
    dimensions but the last) describe another view of the array's memory.

    Raises `ValueError` for what the hardware cannot do: more than 5 dimensions, a box of more
    than 256 elements in one, rows or strides that are not multiples of 16 bytes, a row of the box
    that is longer than the swizzle.
    """
    item = np.dtype(array.dtype).itemsize
    sizes = tuple(int(n) for n in (array.shape if shape is None else shape))
    boxes = tuple(int(n) for n in box)
    if not 1 <= len(sizes) <= MAP_MAX_RANK:
        raise ValueError(f"tensor_map: the array has {len(sizes)} dimensions; TMA copies 1 to {MAP_MAX_RANK}")
    if len(boxes) != len(sizes):
        raise ValueError(f"tensor_map: box={boxes} for an array of shape {sizes}: give as many numbers")
    if swizzle not in MAP_SWIZZLES:
        raise ValueError(f"tensor_map: swizzle={swizzle!r}: use 128, 64 or 32 bytes, or 0")
    for n in boxes:
        if not 1 <= n <= MAX_BOX:
            raise ValueError(f"tensor_map: box={boxes}: each number must lie in 1..{MAX_BOX}")
    row = boxes[-1] * item
    if row % ALIGNMENT:
        raise ValueError(f"tensor_map: box={boxes}: a row of {row} bytes is no multiple of {ALIGNMENT}")
    if swizzle and row > swizzle:
        raise ValueError(f"tensor_map: box={boxes}: a row of {row} bytes is longer than the swizzle of {swizzle}")
    if strides is None:
        steps = tuple(item * math.prod(sizes[k + 1 :]) for k in range(len(sizes) - 1))
    else:
        steps = tuple(int(n) for n in strides)
        if len(steps) != len(sizes) - 1:
            raise ValueError(f"tensor_map: strides={steps} for {len(sizes)} dimensions: give one less")
    for step in steps:
        if step % ALIGNMENT:
            raise ValueError(
                f"tensor_map: rows are {step} bytes apart, no multiple of {ALIGNMENT}: pad the array's last dimension"
            )
    return TensorMap(array, sizes, steps, boxes, swizzle)
