"""A launch: a program with its grid, block and arguments, ready to run on any device."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sim.isa import MAP_BYTES
from sim.program import Param, Program
from sim.tensor_maps import TensorMap

Dim3 = tuple[int, int, int]


class LaunchError(ValueError):
    """A launch that the GPU would refuse, or arguments that do not fit the kernel."""


@dataclass(frozen=True)
class OutputArray:
    """An array argument that starts filled with one value and need not be kept on the host."""

    shape: tuple[int, ...]
    dtype: np.dtype
    fill: float = 0

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


def zeros(shape: int | Sequence[int], dtype: npt.DTypeLike = np.float32) -> OutputArray:
    """An array argument of zeros, made on the device."""
    return OutputArray(array_shape(shape), np.dtype(dtype))


def array_shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    """`shape` as a tuple of ints. Raises `LaunchError` for what is no shape."""
    dims = _integers(shape)
    if dims is None or min(dims, default=0) < 0:
        raise LaunchError(f"shape {shape!r}: an array's dimensions are integers, none negative")
    return dims


def is_integer(value: object) -> bool:
    """Whether `value` is an int, of Python or NumPy; a bool is none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _integers(value: object) -> tuple[int, ...] | None:
    """One integer or a sequence of them as a tuple of ints; None for anything else."""
    parts: list[Any] = [value] if not isinstance(value, Iterable) or isinstance(value, str | bytes) else [*value]
    return tuple(int(part) for part in parts) if all(is_integer(part) for part in parts) else None


def dim3(value: int | Sequence[int], what: str) -> Dim3:
    """`value` as (x, y, z); an int or a shorter sequence is padded with ones.

    Raises `LaunchError` when a dimension is not a positive integer.
    """
    dims = _integers(value)
    if dims is None or not 1 <= len(dims) <= 3:
        raise LaunchError(f"{what} must be one to three integers, not {value!r}")
    if min(dims) < 1:
        raise LaunchError(f"{what}={dims}: every dimension must be at least 1 (cudaErrorInvalidConfiguration)")
    return (dims + (1, 1))[:3]  # type: ignore[return-value]


class HasOutputs(Protocol):
    """What `Launch.check` needs of a report."""

    @property
    def outputs(self) -> Mapping[str, npt.NDArray[Any]]: ...


@dataclass(frozen=True)
class Launch:
    """One kernel launch.

    `args` holds, in the kernel's order, NumPy arrays (copied to the device when
    simulated), `OutputArray`s, device arrays and scalars. `expected` gives, from
    nothing, the right value of each array it names, by parameter name.
    """

    program: Program
    grid: Dim3
    block: Dim3
    args: tuple[Any, ...]
    shared_bytes: int = 0  #: dynamic shared memory
    name: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)  #: workload parameters, for tables
    expected: Callable[[], Mapping[str, npt.NDArray[Any]]] | None = None
    rtol: float = 1e-5
    atol: float = 1e-6
    flops: float = 0.0  #: useful floating-point operations, for TFLOP/s
    facts: Mapping[str, Any] = field(default_factory=dict)  #: what a table may show beside params: tiles, ...
    cluster: Dim3 = None  # type: ignore[assignment]  #: blocks of a cluster; None: the program's, or one
    non_portable_cluster: bool = False  #: allow clusters larger than every GPU of the kind has

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", dim3(self.grid, "grid"))
        object.__setattr__(self, "block", dim3(self.block, "block"))
        object.__setattr__(self, "cluster", self._cluster())
        if not is_integer(self.shared_bytes) or self.shared_bytes < 0:
            raise LaunchError(
                f"shared_bytes={self.shared_bytes!r}: must be an integer, not negative (cudaErrorInvalidValue)"
            )
        if not self.program.shared_is_known and self.shared_bytes == 0:
            raise LaunchError(
                f"{self.program.name} uses shared memory, and its listing does not say how much: give its static "
                'shared memory, load_sass(..., shared_static_bytes={"' + self.program.name + '": 4096}), '
                "or launch with shared_bytes"
            )
        object.__setattr__(self, "program", with_parameters(self.program, self.args))
        if not self.name:
            object.__setattr__(self, "name", self.program.name)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.params.items())
        return f"<Launch {self.name}({given}) {self.grid}x{self.block}>"

    def _cluster(self) -> Dim3:
        """The dimensions of a cluster. Raises `LaunchError` for what CUDA refuses."""
        compiled = self.program.cluster
        dims = compiled if self.cluster is None else dim3(self.cluster, "cluster")
        if compiled != (1, 1, 1) and dims != compiled:
            raise LaunchError(
                f"{self.program.name} is compiled for clusters of {compiled} blocks (__cluster_dims__), "
                f"cluster={dims} asks for others (cudaErrorInvalidClusterSize)"
            )
        if any(size % blocks for size, blocks in zip(self.grid, dims, strict=True)):
            raise LaunchError(
                f"{self.program.name}: clusters of {dims} blocks do not divide the grid of {self.grid}: "
                "use a grid of whole clusters (cudaErrorInvalidConfiguration)"
            )
        return dims

    @property
    def threads_per_block(self) -> int:
        x, y, z = self.block
        return x * y * z

    @property
    def blocks(self) -> int:
        x, y, z = self.grid
        return x * y * z

    def with_(self, **changes: Any) -> Launch:
        """A copy with some fields changed."""
        return replace(self, **changes)

    def check(self, report: HasOutputs) -> None:
        """Compare the arrays that the simulated kernel left with NumPy's answer.

        Raises `AssertionError` naming the array, the worst element and both values;
        `LaunchError` when the launch has no expected result.
        """
        if self.expected is None:
            raise LaunchError(f"{self.name}: this launch carries no expected result to check against")
        for name, right in self.expected().items():
            got = np.asarray(report.outputs[name]).reshape(right.shape)
            wide = np.float64 if right.dtype.kind not in "iub" else right.dtype
            a, b = got.astype(wide), right.astype(wide)
            if wide is np.float64:
                bad = ~np.isclose(a, b, rtol=self.rtol, atol=self.atol, equal_nan=True)
            else:
                bad = a != b
            if bad.any():
                error = np.where(bad, np.abs(a.astype(np.float64) - b.astype(np.float64)), -1)
                at = np.unravel_index(int(np.nanargmax(error)), right.shape)
                where = ", ".join(map(str, at))
                raise AssertionError(
                    f"{self.name}: {name}[{where}] is {got[at]!r}, NumPy says {right[at]!r} "
                    f"({int(bad.sum())} of {right.size} elements differ by more than rtol={self.rtol:g}, "
                    f"atol={self.atol:g})"
                )


def with_parameters(program: Program, args: Sequence[Any]) -> Program:
    """A compiled kernel with its parameters typed by a launch's arguments; other programs as they are.

    A pointer takes an array of any type and shape, or its address as an integer. Where only a
    parameter's size is known, an array, a NumPy scalar or the bytes of a struct (`np.void`) of
    that size. Where nothing is (`params_from_arguments`), each argument is one, at its
    natural alignment.

    Raises `LaunchError` for a Python number where only a NumPy scalar says its size.
    """
    if not program.params_from_arguments and not any(p.kind in ("pointer", "raw") for p in program.params):
        return program
    if program.params_from_arguments:
        made, end = [], 0
        for k, value in enumerate(args):
            param = _parameter_of(program, k, value)
            size = 8 if param.kind == "array" else param.dtype.itemsize
            offset = -(-end // size) * size
            made.append(replace(param, offset=offset))
            end = offset + size
    else:
        if len(args) != len(program.params):
            return program  # the device says so
        pairs = zip(program.params, args, strict=True)
        made = [_typed(program, k, p, value) for k, (p, value) in enumerate(pairs)]
        end = program.param_bytes
    typed = replace(program, params=tuple(made), param_bytes=end, params_from_arguments=False)
    typed.__dict__["decoded"] = program.decoded
    return typed


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "shape") and hasattr(value, "nbytes") and value.ndim > 0


def _typed(program: Program, k: int, param: Param, value: Any) -> Param:
    """A parameter for one argument."""
    if param.kind == "raw":
        typed = _parameter_of(program, k, value)
        size = 8 if typed.kind == "array" else typed.dtype.itemsize
        if size != param.dtype.itemsize:
            raise LaunchError(
                f"{program.name}: argument {k} has {size} bytes, the kernel's parameter {param.dtype.itemsize}"
            )
        return replace(typed, offset=param.offset)
    if param.kind != "pointer":
        return param
    if _is_array(value):
        return replace(param, kind="array", dtype=np.dtype(value.dtype), ndim=value.ndim)
    return replace(param, kind="scalar", dtype=np.dtype(np.uint64))


def _parameter_of(program: Program, k: int, value: Any) -> Param:
    """The parameter that argument `k` is; its offset is still to be set."""
    if _is_array(value):
        return Param(f"arg{k}", 0, "array", np.dtype(value.dtype), value.ndim)
    if isinstance(value, TensorMap):
        return Param(f"arg{k}", 0, "tensor_map", np.dtype((np.void, MAP_BYTES)))
    if isinstance(value, np.generic | np.ndarray):
        return Param(f"arg{k}", 0, "scalar", value.dtype)
    raise LaunchError(
        f"{program.name}: argument {k} is {value!r}, and the kernel's name does not tell its type: "
        "give an array or a NumPy scalar, np.int32(...) or np.float32(...)"
    )


def pack_params(program: Program, values: Sequence[int | float | Any], extents: Mapping[int, Sequence[int]]) -> bytes:
    """The parameter area of constant bank 0.

    `values` are device addresses for arrays and scalars otherwise; `extents[k]` is
    the shape of array parameter `k`. Raises `LaunchError` on a scalar that does
    not fit its type.
    """
    area = bytearray(max(program.param_bytes, 8))
    for k, (param, value) in enumerate(zip(program.params, values, strict=True)):
        data = _param_bytes(program, param, value)
        area[param.offset : param.offset + len(data)] = data
        for extent_offset, extent in zip(param.extent_offsets, tuple(extents.get(k, ()))[1:], strict=False):
            area[extent_offset : extent_offset + 4] = np.int32(extent).tobytes()
        if param.described:
            data = _description(value, extents[k], param.dtype.itemsize)
            area[param.offset - 16 : param.offset - 16 + len(data)] = data
    return bytes(area)


def _description(address: Any, shape: Sequence[int], itemsize: int) -> bytes:
    """Elements, bytes of one, address, extents and strides of a contiguous array, as 64-bit words."""
    strides = [itemsize * math.prod(shape[k + 1 :]) for k in range(len(shape))]
    words = [math.prod(shape), itemsize, int(address), *shape, *strides]
    return np.array(words, np.uint64).tobytes()


def _param_bytes(program: Program, param: Param, value: Any) -> bytes:
    if param.kind == "array":
        return np.uint64(value).tobytes()
    if param.dtype.kind == "V":
        return bytes(value)
    what = f"{program.name}: argument {param.name}={value!r}"
    unfit = LaunchError(f"{what} does not fit {param.dtype}")
    number = value[()] if isinstance(value, np.ndarray) else value  # of an array of no dimensions
    try:
        if isinstance(number, str | bytes):
            raise TypeError
        wide = int(number) if isinstance(number, int | np.integer) else float(number)
        exact = float(wide)
    except (TypeError, ValueError):
        raise LaunchError(f"{what} is not a number; {param.dtype} is needed") from None
    except OverflowError:
        raise unfit from None
    if param.dtype.kind in "iu":
        limits = np.iinfo(param.dtype)
        if math.isnan(exact) or not limits.min <= wide <= limits.max or int(wide) != wide:
            raise unfit
        return np.asarray(int(wide)).astype(param.dtype).tobytes()
    with np.errstate(over="ignore"):
        stored = np.float64(exact).astype(param.dtype)
    if math.isfinite(exact) and not math.isfinite(float(stored)):
        raise unfit
    return stored.tobytes()
