"""`compile_cuda`: kernels of CUDA C++ source, through NVRTC and nvdisasm."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sim.cuda import tools
from sim.cuda.cubin import kernels_of
from sim.cuda.errors import CompileError
from sim.cuda.headers import ALWAYS_INCLUDED, STANDARD_HEADERS
from sim.sass import Kernels, NoKernelError, SourceText


def compile_cuda(
    source: str | os.PathLike[str],
    arch: str = "sm_90a",
    *,
    options: Sequence[str] = (),
    names: Sequence[str] = (),
    filename: str = "kernel.cu",
) -> Kernels:
    """Compile CUDA C++ with NVRTC and read the machine code. No GPU or driver is needed.

    `source` is a path or the text itself. Returns a mapping from kernel names to programs, as
    `sim.load_sass` does, with registers, shared and local memory, parameters and constants as
    the compiler set them, and source lines. `arch` is sm_75 to sm_90a. `options` go to NVRTC
    (`-DN=32`, `-I/some/folder`, `--std=c++20`, `--use_fast_math`, `--maxrregcount=32`); CUDA's
    headers and the source's own folder are found without. `names` are the templates to
    instantiate (`"mm<32>"`), which then are names of kernels too. `filename` is what reports
    call a text.

    NVRTC compiles device code: C's headers are there as far as device code has them, host code
    has to be inside `#ifndef __CUDACC_RTC__`. The compiler's warnings come as Python's.

    Raises `CompileError` with the compiler's messages, `MissingToolError` without the extra
    `cuda`, `OSError` for a file that cannot be read.
    """
    text, name = _source(source, filename)
    nvrtc = tools.nvrtc()
    tools.check_arch(arch, name)
    tools.nvdisasm()  # before the work of compiling
    folders = [f"-I{folder}" for folder in tools.header_folders()]
    arguments = [f"--gpu-architecture={arch}", "-lineinfo", f"--pre-include={ALWAYS_INCLUDED}", *options, *folders]
    cubin, lowered, log = _compile(nvrtc, text, name, arguments, names)
    if log:
        warnings.warn(log, stacklevel=2)
    try:
        absolute = os.path.abspath(name)  # as NVRTC writes it into the cubin
        return kernels_of(cubin, sources={absolute: SourceText(name, text)}, names=lowered)
    except NoKernelError:
        raise CompileError(
            f"{name} has no kernel: no __global__ function, or only templates, of which "
            'compile_cuda(..., names=["kernel<32>"]) makes kernels'
        ) from None


def _source(source: str | os.PathLike[str], filename: str) -> tuple[str, str]:
    """The text and what the compiler calls it."""
    if isinstance(source, str) and (re.search(r"[\n{;]", source) or not source.strip()):
        return source, filename
    return Path(source).read_text(errors="replace"), os.fspath(source)


def _compile(
    nvrtc: Any, text: str, name: str, arguments: Sequence[str], names: Sequence[str]
) -> tuple[bytes, dict[str, str], str]:
    """The cubin, the mangled name of each of `names`, and the compiler's messages."""
    contents = [text.encode() for text in STANDARD_HEADERS.values()]
    files = [header.encode() for header in STANDARD_HEADERS]
    program = _checked(nvrtc, nvrtc.nvrtcCreateProgram(text.encode(), name.encode(), len(files), contents, files))
    try:
        for expression in names:
            _checked(nvrtc, nvrtc.nvrtcAddNameExpression(program, expression.encode()))
        (status,) = nvrtc.nvrtcCompileProgram(program, len(arguments), [option.encode() for option in arguments])
        log = bytes(_checked(nvrtc, nvrtc.nvrtcGetProgramLogSize(program)))
        _checked(nvrtc, nvrtc.nvrtcGetProgramLog(program, log))
        messages = log.rstrip(b"\0").decode(errors="replace").strip()
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CompileError(f"{name} does not compile:\n{messages or status.name}{_hint(messages)}")
        cubin = bytes(_checked(nvrtc, nvrtc.nvrtcGetCUBINSize(program)))
        _checked(nvrtc, nvrtc.nvrtcGetCUBIN(program, cubin))
        lowered = {
            expression: _checked(nvrtc, nvrtc.nvrtcGetLoweredName(program, expression.encode())).decode()
            for expression in names
        }
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return cubin, lowered, messages


def _checked(nvrtc: Any, returned: tuple[Any, ...]) -> Any:
    """What a call returned beside its status. Raises `CompileError` where the status is an error."""
    status, *values = returned
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompileError(f"NVRTC: {status.name}")
    return values[0] if values else None


_HOST = re.compile(
    r'cannot open source file "|could not open source file "|execution space|identifier "cuda[A-Z]|"main"'
)


def _hint(messages: str) -> str:
    """What to do about messages that come of host code."""
    if _HOST.search(messages):
        return (
            "\nNVRTC compiles device code: keep host code and its headers inside #ifndef __CUDACC_RTC__; folders of "
            "your own headers are options, -I<folder>"
        )
    return ""
