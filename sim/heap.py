"""Global memory of a device: bytes that grow with use, allocations in them, and the arrays that a program sees."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sim.core.layout import GLOBAL_BASE
from sim.launch import LaunchError, OutputArray, array_shape

ALIGNMENT = 256  #: bytes; cudaMalloc's
FIRST_BYTES = 1 << 20  #: backing store at first
CLEARED_BYTES = 1 << 20  #: looked at and cleared together
ML_DTYPES = frozenset(("bfloat16", "float8_e4m3fn", "float8_e5m2"))  #: that NumPy alone does not have


class Mark(NamedTuple):
    """How far a heap was filled."""

    used: int
    allocations: int


class Heap:
    """The bytes and what they are given to. Offsets count from the first byte; fresh memory reads zero.

    Between allocations lie `ALIGNMENT` bytes that belong to none, so that a kernel which
    runs past the end of an array is caught instead of meeting the next one.
    """

    def __init__(self, owner: str, capacity_bytes: int) -> None:
        self.owner, self.capacity_bytes = owner, capacity_bytes
        self.bytes: npt.NDArray[np.uint8] = np.zeros(FIRST_BYTES, np.uint8)
        self.allocations: list[tuple[int, int]] = []  #: (first, end) of arrays, ascending
        self._used = ALIGNMENT
        self._local = (0, 0)  # (offset, bytes) of threads' local memory

    def array(self, shape: int | Sequence[int], dtype: npt.DTypeLike) -> DeviceArray:
        """A new array of zeros. Raises `LaunchError` for an impossible shape, `MemoryError` when it does not fit."""
        dims, kind = array_shape(shape), np.dtype(dtype)
        if (kind.kind not in "iufb" and kind.name not in ML_DTYPES) or kind.itemsize > 8 or not kind.isnative:
            raise LaunchError(f"an array of dtype {kind} cannot live on the device; convert it with .astype(...) first")
        made = DeviceArray(self, self._used, dims, kind)
        self._reserve(made.nbytes)
        self.allocations.append((made.offset, made.offset + made.nbytes))
        return made

    def local_memory(self, nbytes: int) -> int:
        """Offset of `nbytes` for the local memory of all threads, which one launch after another uses."""
        if nbytes > self._local[1]:
            self._local = (self._reserve(nbytes), nbytes)
        return self._local[0]

    @property
    def local_offset(self) -> int:
        """Offset of the local memory that the last launch with any used."""
        return self._local[0]

    def mark(self) -> Mark:
        """Where the heap stands, for `release`."""
        return Mark(self._used, len(self.allocations))

    def release(self, mark: Mark) -> None:
        """Take back all that was given since `mark`."""
        self.clear(mark)
        self._used = mark.used
        del self.allocations[mark.allocations :]
        if self._local[0] >= mark.used:
            self._local = (0, 0)

    def clear(self, mark: Mark) -> None:
        """Let all that was given since `mark` read zero; what nobody wrote takes no memory of the host afterwards."""
        for first in range(mark.used, self._used, CLEARED_BYTES):
            part = self.bytes[first : min(first + CLEARED_BYTES, self._used)]
            if part.any():
                part[:] = 0

    def copy(self, mark: Mark) -> npt.NDArray[np.uint8]:
        """The bytes before `mark` as they are now, for `restore`."""
        return self.bytes[: mark.used].copy()

    def restore(self, held: npt.NDArray[np.uint8]) -> None:
        """Hold again what `copy` gave."""
        self.bytes[: len(held)] = held

    def prepare(self, sizes: Iterable[int]) -> None:
        """Have room for arrays of so many bytes each, so that those that come first are not copied for the others."""
        end = self._used + sum(-(-nbytes // ALIGNMENT) * ALIGNMENT + ALIGNMENT for nbytes in sizes)
        if end <= self.capacity_bytes:  # else the array that does not fit says so
            self._grow(end)

    def _grow(self, end: int) -> None:
        """Let the backing store reach as far as `end`."""
        if end > len(self.bytes):
            grown = np.zeros(max(end, 2 * len(self.bytes)), np.uint8)
            grown[: self._used] = self.bytes[: self._used]
            self.bytes = grown

    def _reserve(self, nbytes: int) -> int:
        """Take the next `nbytes`; grows the backing store."""
        offset = self._used
        end = offset + nbytes
        if end > self.capacity_bytes:
            raise MemoryError(
                f"out of memory on {self.owner}: {end} bytes are needed, it has "
                f"{self.capacity_bytes} (cudaErrorMemoryAllocation)"
            )
        used = -(-end // ALIGNMENT) * ALIGNMENT + ALIGNMENT
        self._grow(used)
        self._used = used
        return offset


class DeviceArray:
    """An array in a device's global memory."""

    def __init__(self, heap: Heap, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.heap, self.offset, self.shape, self.dtype = heap, offset, shape, dtype
        self.nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        self._readers: list[weakref.ref[Outputs]] = []

    @property
    def ndim(self) -> int:
        """Dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def address(self) -> int:
        """What a kernel sees as the pointer."""
        return GLOBAL_BASE + self.offset

    def numpy(self) -> npt.NDArray[Any]:
        """A copy of the contents on the host."""
        raw = self.heap.bytes[self.offset : self.offset + self.nbytes]
        return raw.view(self.dtype).reshape(self.shape).copy()

    def set(self, values: npt.ArrayLike) -> None:
        """Copy `values` to the device; a smaller shape is repeated as NumPy would.

        Raises `ValueError` when it cannot be.
        """
        data = np.ascontiguousarray(np.broadcast_to(np.asarray(values, self.dtype), self.shape))
        self.about_to_change()
        self.heap.bytes[self.offset : self.offset + self.nbytes] = data.reshape(-1).view(np.uint8)

    def start(self, values: npt.ArrayLike | OutputArray) -> None:
        """Hold `values`, where all is zero so far."""
        if not isinstance(values, OutputArray):
            self.set(values)
        elif values.fill:
            self.set(np.asarray(values.fill, values.dtype))

    def about_to_change(self) -> None:
        """Reports that show this array keep what it holds now."""
        for reader in self._readers:
            outputs = reader()
            if outputs is not None:
                outputs.keep(self)
        self._readers.clear()

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, address={self.address:#x})"


class Outputs(Mapping[str, npt.NDArray[Any]]):
    """The array arguments of a launch as the kernel left them, by parameter name.

    They are copied when read, or when a later launch or `DeviceArray.set` may change them.
    Those of a sampled launch cannot be read: blocks that were not executed wrote nothing.
    """

    def __init__(self, arrays: Mapping[str, DeviceArray], *, sampled: bool = False) -> None:
        self._arrays = dict(arrays)
        self._sampled = sampled
        self._kept: dict[str, npt.NDArray[Any]] = {}
        for array in self._arrays.values():
            array._readers = [reader for reader in array._readers if reader() is not None]
            array._readers.append(weakref.ref(self))

    def __repr__(self) -> str:
        named = (f"{name} {array.dtype}{list(array.shape)}" for name, array in self._arrays.items())
        return f"<Outputs: {', '.join(named) or 'none'}>"

    def keep(self, array: DeviceArray) -> None:
        """Copy `array` now: it is about to change."""
        for name, own in self._arrays.items():
            if own is array and name not in self._kept:
                self._kept[name] = own.numpy()

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        if self._sampled and name in self._arrays:
            raise LaunchError(
                f"{name} is not what the kernel computes: the launch was sampled, and most blocks were not executed; "
                "simulate it with detail='full' to read or check its results"
            )
        kept = self._kept.get(name)
        return self._arrays[name].numpy() if kept is None else kept.copy()

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)
