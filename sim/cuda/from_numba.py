"""`compile_numba`: a kernel of Numba-CUDA, a Python function, through NVVM, nvJitLink and nvdisasm."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sim.cuda import tools
from sim.cuda.cubin import kernels_of
from sim.cuda.errors import CompileError
from sim.program import Param, Program

WORD = 8  #: bytes of each word of an array's description
WORDS_BEFORE = 4  #: owner, parent, number of elements, bytes of one; then come address, extents and strides


def compile_numba(
    function: Callable[..., Any], signature: Any, arch: str = "sm_90", *, fastmath: bool = False
) -> Program:
    """Compile a kernel of Numba-CUDA and read its machine code. No GPU or driver is needed.

    `function` is a Python function or what `numba.cuda.jit` made of it, `signature` the types
    of its arguments, as Numba takes them: `"void(float32, float32[:], float32[:])"` or a tuple
    of types. Returns a program whose parameters have the function's names and whose lines are
    the function's. Arrays that it is launched with are contiguous, rows first.

    Raises `CompileError` for a function that Numba cannot compile and for arguments that are
    neither numbers nor arrays, `MissingToolError` without the extra `numba-cuda`.
    """
    cuda, sigutils = tools.numba_cuda()
    nvjitlink = tools.nvjitlink()
    tools.nvdisasm()
    function = getattr(function, "py_func", function)
    name = getattr(function, "__name__", "kernel")
    number = tools.check_arch(arch, name)
    try:
        types, _ = sigutils.normalize_signature(signature)
        ptx, _ = cuda.compile_ptx(
            function, tuple(types), cc=divmod(number, 10), lineinfo=True, fastmath=fastmath, device=False
        )
    except Exception as error:  # Numba's have no common class
        raise CompileError(f"{name} does not compile for {signature}: {type(error).__name__}: {error}") from error
    kernels = kernels_of(_link(nvjitlink, ptx.encode(), arch, name))
    (program,) = kernels.values()
    return replace(program, name=name, params=_parameters(function, types, program), params_from_arguments=False)


def _link(nvjitlink: Any, ptx: bytes, arch: str, name: str) -> bytes:
    """PTX as a cubin. Raises `CompileError` with the assembler's messages."""
    options = [f"-arch={arch}", "-lineinfo"]
    handle = nvjitlink.create(len(options), options)
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, ptx, len(ptx), name)
        nvjitlink.complete(handle)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
    except nvjitlink.nvJitLinkError as error:
        log = bytearray(nvjitlink.get_error_log_size(handle))
        nvjitlink.get_error_log(handle, log)
        message = log.rstrip(b"\0").decode(errors="replace").strip()
        raise CompileError(f"{name} does not assemble: {message or error}") from error
    finally:
        nvjitlink.destroy(handle)
    return bytes(cubin)


def _parameters(function: Callable[..., Any], types: Sequence[Any], program: Program) -> tuple[Param, ...]:
    """Parameters by name: a number is one of the compiled kernel's, an array several that describe it."""
    words = list(program.params)
    made: list[Param] = []
    at = 0
    for name, kind in zip(inspect.signature(function).parameters, types, strict=True):
        dimensions = getattr(kind, "ndim", None)
        dtype = _dtype(name, kind if dimensions is None else kind.dtype)
        if dimensions is None:
            made.append(Param(name, words[at].offset, "scalar", dtype))
            at += 1
            continue
        if getattr(kind, "layout", "") not in ("C", "A"):
            raise CompileError(f"argument {name} is {kind}: arrays are contiguous, rows first ([:, ::1] or [:, :])")
        address = words[at].offset + WORDS_BEFORE * WORD
        made.append(Param(name, address, "array", dtype, dimensions, described=True))
        at += WORDS_BEFORE + 1 + 2 * dimensions
    if at != len(words):
        raise CompileError(
            f"{program.name} has {len(words)} parameters where {at} were expected: this version of numba-cuda "
            "passes arguments in another way"
        )
    return tuple(made)


def _dtype(name: str, kind: Any) -> np.dtype:
    """A number's type. Raises `CompileError` for what has none."""
    try:
        return np.dtype({"boolean": "bool"}.get(str(kind), str(kind)))
    except TypeError:
        raise CompileError(f"argument {name} is {kind}: numbers and arrays of numbers are supported") from None
