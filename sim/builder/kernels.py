"""Kernels: the decorator, what it checks, how a kernel is built, configured and launched."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.builder.arrays import Array
from sim.builder.compile import compile_graph
from sim.builder.errors import BuildError
from sim.builder.ir import Graph, Region
from sim.builder.source import check_source
from sim.builder.trace import Tracer
from sim.builder.types import I32, I64, U64, numpy_dtype, register_type, storage_type
from sim.builder.values import Scalar
from sim.builder.view import ThreadView
from sim.isa import Space
from sim.program import Param, Program

PARAM_BASE = 0x210  #: byte offset of the first argument in constant bank 0, cc 9.0


@dataclass(frozen=True)
class ArgSpec:
    """What is known of an argument when a kernel is built: `kind` is "array" or "scalar"."""

    kind: str
    dtype: Any
    ndim: int = 1

    @classmethod
    def of(cls, value: Any, name: str = "argument") -> ArgSpec:
        """The spec of an argument: of anything with `dtype` and `shape`, of a NumPy scalar, or of a Python number.

        Raises `BuildError` for anything else.
        """
        if isinstance(value, bool | np.bool_):
            return cls("scalar", I32.name, 0)
        if hasattr(value, "dtype") and hasattr(value, "shape"):
            try:
                storage = storage_type(value.dtype)
            except TypeError as error:
                raise BuildError(f"{name}: {error}") from None
            ndim = len(tuple(value.shape))
            return cls("array" if ndim else "scalar", storage.name, ndim)
        if isinstance(value, int):
            kind = I32 if -(1 << 31) <= value < 1 << 31 else I64 if value < 1 << 63 else U64
            return cls("scalar", kind.name, 0)
        if type(value) is float:
            return cls("scalar", "float32", 0)
        raise BuildError(f"{name} is a {type(value).__name__}; a kernel takes arrays and numbers")


class Kernel:
    """A Python kernel. Make one with `@sim.kernel`.

    The function's first parameter is the thread view `k`; further positional
    parameters are the launch's arguments; keyword-only ones are constants that
    are known when the kernel is built.
    """

    def __init__(self, function: Callable[..., None]) -> None:
        functools.update_wrapper(self, function)
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
        if len(parts) not in (2, 3):
            raise BuildError(
                f"{self.name}[grid, block] or {self.name}[grid, block, shared_bytes], not {len(parts)} values"
            )
        return Configured(self, *parts)

    def build(self, arg_specs: Sequence[ArgSpec], constants: Mapping[str, Any] | None = None) -> Program:
        """The program for arguments of these kinds. Kept: the same specs and constants give the same object.

        Raises `BuildError` for a wrong number of arguments, unknown or missing
        constants, and whatever is wrong in the kernel's body.
        """
        given = self._constants(constants or {})
        key = (tuple(arg_specs), tuple(sorted((k, _hashable(v)) for k, v in given.items())))
        program = self._built.get(key)
        if program is None:
            program = self._built[key] = trace(self, arg_specs, given)
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

    def build_for(self, args: Sequence[Any], constants: Mapping[str, Any] | None = None) -> Program:
        """The program for these arguments, by their types."""
        self.check_count(args)
        return self.build(
            [ArgSpec.of(a, f"{self.name}: {n}") for a, n in zip(args, self.arguments, strict=True)], constants
        )

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
        **fields: Any,
    ) -> Any:
        """A `sim.launch.Launch` of this kernel, for `sim.simulate`.

        `fields` are the launch's own: name, params, expected, rtol, ...
        """
        from sim.launch import Launch

        program = self.build_for(args, constants)
        return Launch(program, grid, block, tuple(args), shared_bytes=shared_bytes, **fields)


@dataclass(frozen=True)
class Configured:
    """A kernel with its grid and block: `kernel[grid, block]` or `kernel[grid, block, shared_bytes]`."""

    kernel: Kernel
    grid: Any
    block: Any
    shared_bytes: int = 0

    def on(self, device: Any) -> Callable[..., Any]:
        """A callable that runs the kernel on `device` with the arguments it gets and returns the report."""

        if not hasattr(device, "launch"):
            name = self.kernel.name
            raise BuildError(f"{name}[grid, block].on({device!r}): give a device, such as sim.Device('h200')")

        def run(*args: Any, **constants: Any) -> Any:
            program = self.kernel.build_for(args, constants)
            return device.launch(program, self.grid, self.block, args, shared_bytes=self.shared_bytes)

        return run

    def __call__(self, *args: Any, **constants: Any) -> Any:
        name = self.kernel.name
        raise BuildError(f"{name}[grid, block](...) needs a device: {name}[grid, block].on(sim.Device('h200'))(...)")


def kernel(function: Callable[..., None]) -> Kernel:
    """Make a kernel of a Python function: `@sim.kernel def f(k, n, x, y): ...`."""
    return Kernel(function)


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
        offset = -(-offset // size) * size
        placed.append((name, offset, spec, dtype))
        offset += size
    offset = -(-offset // 4) * 4
    params = []
    for name, at, spec, dtype in placed:
        extents = tuple(offset + 4 * d for d in range(max(0, spec.ndim - 1)))
        offset += 4 * len(extents)
        params.append(Param(name, at, spec.kind, dtype, spec.ndim, extents))
    return tuple(params), offset


def trace(kernel: Kernel, specs: Sequence[ArgSpec], constants: Mapping[str, Any]) -> Program:
    """Run the kernel's function on traced values and compile what it did."""
    if len(specs) != len(kernel.arguments):
        raise BuildError(f"kernel {kernel.name} takes {len(kernel.arguments)} arguments, not {len(specs)}")
    graph = Graph(kernel.name, Region())
    tracer = Tracer(graph)
    params, size = layout(kernel.arguments, specs)
    view = ThreadView(tracer)
    values = [_argument(tracer, p) for p in params]
    kernel.function(view, *values, **constants)
    tracer.finish()
    graph.lines = tracer.source
    return compile_graph(graph, params, size, PARAM_BASE)


def _argument(t: Tracer, p: Param) -> Any:
    storage = storage_type(p.dtype)
    at = PARAM_BASE + p.offset
    if p.kind == "scalar":
        value = t.leaf("cbank", register_type(storage), (at, storage) if storage.bits < 32 else at)
        return Scalar(t, value)
    extents = [None, *(t.leaf("cbank", I32, PARAM_BASE + e, nonneg=True) for e in p.extent_offsets)]
    return Array(t, p.name, Space.GLOBAL, storage, tuple(extents), t.leaf("cbank", U64, at), 0)
