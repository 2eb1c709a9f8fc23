"""Kernels: the decorator, what it checks, how a kernel is built, configured and launched."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from sim.builder.arrays import Array
from sim.builder.compile import compile_graph
from sim.builder.errors import BuildError
from sim.builder.ir import Graph, Region
from sim.builder.source import check_source
from sim.builder.tma import TensorMapArgument
from sim.builder.trace import Tracer
from sim.builder.types import I32, I64, U64, Type, numpy_dtype, register_type, storage_type
from sim.builder.values import Scalar
from sim.builder.view import ThreadView
from sim.isa import CONSTANT_WINDOW, MAP_BYTES, Space
from sim.program import Param, Program
from sim.tensor_maps import TensorMap

PARAM_BASE = 0x210  #: byte offset of the first argument in constant bank 0, cc 9.0
MAP_ALIGNMENT = 64  #: bytes, of a tensor map (CUDA driver API, CUtensorMap)
MIN_REGISTERS, MAX_REGISTERS = 16, 255  #: a thread, that a kernel may ask for


@dataclass(frozen=True)
class ArgSpec:
    """What is known of an argument when a kernel is built: `kind` is "array", "scalar" or "tensor_map".

    Of a tensor map, `box` and `swizzle` too, so that a kernel is built for them.
    """

    kind: str
    dtype: Any
    ndim: int = 1
    box: tuple[int, ...] = ()
    swizzle: int = 0

    @classmethod
    def of(cls, value: Any, name: str = "argument") -> ArgSpec:
        """The spec of an argument.

        Of a tensor map, of anything with `dtype` and `shape`, of a NumPy scalar, or of a Python number.

        Raises `BuildError` for anything else.
        """
        if isinstance(value, TensorMap):
            return cls("tensor_map", _stored(value.array, name).name, value.rank, value.box, value.swizzle)
        if isinstance(value, bool | np.bool_):
            return cls("scalar", I32.name, 0)
        if hasattr(value, "dtype") and hasattr(value, "shape"):
            ndim = len(tuple(value.shape))
            return cls("array" if ndim else "scalar", _stored(value, name).name, ndim)
        if isinstance(value, int):
            kind = I32 if -(1 << 31) <= value < 1 << 31 else I64 if value < 1 << 63 else U64
            return cls("scalar", kind.name, 0)
        if type(value) is float:
            return cls("scalar", "float32", 0)
        raise BuildError(f"{name} is a {type(value).__name__}; a kernel takes arrays and numbers")


def _stored(array: Any, name: str) -> Type:
    """The type of an array's elements. Raises `BuildError` for a dtype that no register can hold."""
    try:
        return storage_type(array.dtype)
    except TypeError as error:
        raise BuildError(f"{name}: {error}") from None


class Kernel:
    """A Python kernel. Make one with `@sim.kernel`.

    The function's first parameter is the thread view `k`; further positional
    parameters are the launch's arguments; keyword-only ones are constants that
    are known when the kernel is built. `registers` are a thread's when it starts.
    """

    def __init__(self, function: Callable[..., None], registers: int = 0) -> None:
        functools.update_wrapper(self, function)
        self.registers = registers
        self.function = function
        self.name = function.__name__
        parameters = list(inspect.signature(function).parameters.values())
        if not parameters or parameters[0].kind not in (
            parameters[0].POSITIONAL_OR_KEYWORD,
            parameters[0].POSITIONAL_ONLY,
        ):
            raise BuildError(f"kernel {self.name} needs a first parameter for the thread view: def {self.name}(k, ...)")
        for p in parameters:
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                raise BuildError(f"kernel {self.name}: *{p.name} is not possible; name each argument")
        self.arguments = [p.name for p in parameters[1:] if p.kind != p.KEYWORD_ONLY]
        self.constants = {p.name: p.default for p in parameters if p.kind == p.KEYWORD_ONLY}
        check_source(function, parameters[0].name)
        self._built: dict[Any, Program] = {}

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(self.arguments)})>"

    def __call__(self, *args: Any, **constants: Any) -> Any:
        raise BuildError(
            f"kernel {self.name} needs a grid and a block: {self.name}[grid, block].on(device)(...) "
            f"or {self.name}.launch(grid, block, args=(...))"
        )

    def __getitem__(self, configuration: Any) -> Configured:
        parts = configuration if isinstance(configuration, tuple) else (configuration,)
        if len(parts) not in (2, 3, 4):
            raise BuildError(
                f"{self.name}[grid, block], {self.name}[grid, block, shared_bytes] or "
                f"{self.name}[grid, block, shared_bytes, cluster], not {len(parts)} values"
            )
        return Configured(self, *parts)

    def build(
        self, arg_specs: Sequence[ArgSpec], constants: Mapping[str, Any] | None = None, registers: int | None = None
    ) -> Program:
        """The program for arguments of these kinds. Kept: the same specs and constants give the same object.

        `registers`: a thread's, that the code must do with, in place of the kernel's own number.

        Raises `BuildError` for a wrong number of arguments, unknown or missing
        constants, and whatever is wrong in the kernel's body.
        """
        given = self._constants(constants or {})
        wanted = self.registers if registers is None else registers
        if not isinstance(wanted, int) or (wanted and not MIN_REGISTERS <= wanted <= MAX_REGISTERS):
            raise BuildError(
                f"kernel {self.name}: registers={wanted!r}; a thread has {MIN_REGISTERS} to {MAX_REGISTERS}, "
                "or 0 for what the code needs"
            )
        key = (tuple(arg_specs), tuple(sorted((k, _hashable(v)) for k, v in given.items())), wanted)
        program = self._built.get(key)
        if program is None:
            program = self._built[key] = trace(self, arg_specs, given, wanted)
        return program

    def _constants(self, given: Mapping[str, Any]) -> dict[str, Any]:
        unknown = set(given) - set(self.constants)
        if unknown:
            known = ", ".join(self.constants) or "none"
            raise BuildError(f"kernel {self.name} has no constant {', '.join(sorted(unknown))}; it has {known}")
        merged = {**self.constants, **given}
        missing = [k for k, v in merged.items() if v is inspect.Parameter.empty]
        if missing:
            raise BuildError(f"kernel {self.name} needs a value for {', '.join(missing)}=")
        return merged

    def build_for(
        self, args: Sequence[Any], constants: Mapping[str, Any] | None = None, registers: int | None = None
    ) -> Program:
        """The program for these arguments, by their types."""
        self.check_count(args)
        specs = [ArgSpec.of(a, f"{self.name}: {n}") for a, n in zip(args, self.arguments, strict=True)]
        return self.build(specs, constants, registers)

    def check_count(self, args: Sequence[Any]) -> None:
        """Raises `BuildError` when there are too many or too few arguments."""
        if len(args) != len(self.arguments):
            wanted = ", ".join(self.arguments) or "nothing"
            raise BuildError(f"kernel {self.name} takes {len(self.arguments)} arguments ({wanted}), not {len(args)}")

    def launch(
        self,
        grid: Any,
        block: Any,
        args: Sequence[Any] = (),
        constants: Mapping[str, Any] | None = None,
        shared_bytes: int = 0,
        registers: int | None = None,
        **fields: Any,
    ) -> Any:
        """A `sim.launch.Launch` of this kernel, for `sim.simulate`.

        `registers` are a thread's when it starts, in place of the kernel's own number. `fields` are the
        launch's own: name, params, expected, rtol, ...
        """
        from sim.launch import Launch

        program = self.build_for(args, constants, registers)
        return Launch(program, grid, block, tuple(args), shared_bytes=shared_bytes, **fields)


@dataclass(frozen=True)
class Configured:
    """A kernel with its grid and block, and dynamic shared memory and cluster: `kernel[grid, block, 0, (2, 1)]`."""

    kernel: Kernel
    grid: Any
    block: Any
    shared_bytes: int = 0
    cluster: Any = 1

    def on(self, device: Any) -> Callable[..., Any]:
        """A callable that runs the kernel on `device` with the arguments it gets and returns the report."""

        if not hasattr(device, "launch"):
            name = self.kernel.name
            raise BuildError(f"{name}[grid, block].on({device!r}): give a device, such as sim.Device('h200')")

        def run(*args: Any, **constants: Any) -> Any:
            program = self.kernel.build_for(args, constants)
            more = {} if self.cluster == 1 else {"cluster": self.cluster}
            return device.launch(program, self.grid, self.block, args, shared_bytes=self.shared_bytes, **more)

        return run

    def __call__(self, *args: Any, **constants: Any) -> Any:
        name = self.kernel.name
        raise BuildError(f"{name}[grid, block](...) needs a device: {name}[grid, block].on(sim.Device('h200'))(...)")


@overload
def kernel(function: Callable[..., None]) -> Kernel: ...
@overload
def kernel(*, registers: int) -> Callable[[Callable[..., None]], Kernel]: ...
def kernel(function: Callable[..., None] | None = None, *, registers: int = 0) -> Any:
    """Make a kernel of a Python function: `@sim.kernel def f(k, n, x, y): ...`.

    `@sim.kernel(registers=168)`: each thread starts with so many registers, and the code does with
    them (CUDA's `__launch_bounds__`) until `k.set_max_registers` changes their number.
    """
    if function is None:
        return functools.partial(Kernel, registers=registers)
    return Kernel(function, registers)


def build(
    function: Kernel | Callable[..., None], arg_specs: Sequence[ArgSpec], constants: Mapping[str, Any] | None = None
) -> Program:
    """The program of a kernel or of a plain function for arguments of these kinds."""
    made = function if isinstance(function, Kernel) else _plain(function)
    return made.build(arg_specs, constants)


@functools.cache
def _plain(function: Callable[..., None]) -> Kernel:
    return Kernel(function)


def _hashable(value: Any) -> Any:
    if isinstance(value, np.dtype | type):
        return str(value)
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return (type(value).__name__, value)


def layout(names: Sequence[str], specs: Sequence[ArgSpec]) -> tuple[tuple[Param, ...], int]:
    """Parameters with their offsets, and their bytes.

    Each lies at a multiple of its size; extents of arrays come after all of them.
    """
    offset, placed = 0, []
    for name, spec in zip(names, specs, strict=True):
        dtype = numpy_dtype(storage_type(spec.dtype))
        size = 8 if spec.kind == "array" else dtype.itemsize
        if spec.kind == "tensor_map":
            size, dtype = MAP_BYTES, np.dtype((np.void, MAP_BYTES))
        # The map's address is a multiple of 64, the others' that of their size.
        step, before = (MAP_ALIGNMENT, PARAM_BASE) if spec.kind == "tensor_map" else (size, 0)
        offset = -(-(before + offset) // step) * step - before
        placed.append((name, offset, spec, dtype))
        offset += size
    offset = -(-offset // 4) * 4
    params = []
    for name, at, spec, dtype in placed:
        extents = tuple(offset + 4 * d for d in range(spec.ndim - 1)) if spec.kind == "array" else ()
        offset += 4 * len(extents)
        params.append(Param(name, at, spec.kind, dtype, spec.ndim, extents))
    return tuple(params), offset


def trace(kernel: Kernel, specs: Sequence[ArgSpec], constants: Mapping[str, Any], registers: int) -> Program:
    """Run the kernel's function on traced values and compile what it did."""
    if len(specs) != len(kernel.arguments):
        raise BuildError(f"kernel {kernel.name} takes {len(kernel.arguments)} arguments, not {len(specs)}")
    graph = Graph(kernel.name, Region(), registers=registers)
    tracer = Tracer(graph)
    params, size = layout(kernel.arguments, specs)
    view = ThreadView(tracer)
    values = [_argument(tracer, p, s) for p, s in zip(params, specs, strict=True)]
    kernel.function(view, *values, **constants)
    tracer.finish()
    graph.lines = tracer.source
    return compile_graph(graph, params, size, PARAM_BASE)


def _argument(t: Tracer, p: Param, spec: ArgSpec) -> Any:
    storage = storage_type(spec.dtype)
    at = PARAM_BASE + p.offset
    if p.kind == "tensor_map":
        return TensorMapArgument(p.name, storage, spec.box, spec.swizzle, CONSTANT_WINDOW + at)
    if p.kind == "scalar":
        value = t.leaf("cbank", register_type(storage), (at, storage) if storage.bits < 32 else at)
        return Scalar(t, value)
    extents = [None, *(t.leaf("cbank", I32, PARAM_BASE + e, nonneg=True) for e in p.extent_offsets)]
    return Array(t, p.name, Space.GLOBAL, storage, tuple(extents), t.leaf("cbank", U64, at), 0)
