"""Where NVIDIA's tools are: in Python packages first, then in a CUDA toolkit (`cuda.pathfinder` looks them up)."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from sim.cuda.errors import CompileError, MissingToolError

EXTRA = "cuda"
NUMBA_EXTRA = "numba-cuda"
OLDEST, NEWEST = 75, 90  #: Turing to Hopper: what both NVIDIA's tools and the reader know
HEADERS = ("cudart", "nvcc", "cccl", "curand")  #: pathfinder's names of what has CUDA's header files


@cache
def nvrtc() -> Any:
    """The bindings of NVRTC, whose library is there. Raises `MissingToolError`."""
    try:
        from cuda.bindings import nvrtc as bindings

        bindings.nvrtcVersion()
    except (ImportError, OSError, RuntimeError) as error:
        raise MissingToolError("NVRTC, the compiler of CUDA C++,", EXTRA) from error
    return bindings


@cache
def nvdisasm() -> str:
    """The path of nvdisasm. Raises `MissingToolError`."""
    try:
        from cuda.pathfinder import find_nvidia_binary_utility
    except ImportError as error:
        raise MissingToolError("nvdisasm, the disassembler of cubins,", EXTRA) from error
    path = find_nvidia_binary_utility("nvdisasm")
    if path is None:
        raise MissingToolError("nvdisasm, the disassembler of cubins,", EXTRA)
    return str(path)


@cache
def header_folders() -> tuple[str, ...]:
    """Folders of CUDA's header files, as far as they are installed."""
    try:
        from cuda.pathfinder import find_nvidia_header_directory
    except ImportError:
        return ()
    found = (find_nvidia_header_directory(name) for name in HEADERS)
    return tuple(dict.fromkeys(str(folder) for folder in found if folder is not None))


@cache
def numba_cuda() -> tuple[Any, Any]:
    """Numba-CUDA, and its reader of signatures. Raises `MissingToolError`."""
    try:
        import numba_cuda as installed
        from numba import cuda
        from numba.cuda.core import sigutils
    except (ImportError, OSError) as error:
        raise MissingToolError("Numba-CUDA", NUMBA_EXTRA) from error
    assert installed
    return cuda, sigutils


@cache
def nvjitlink() -> Any:
    """The bindings of nvJitLink, the assembler of PTX, whose library is there. Raises `MissingToolError`."""
    try:
        from cuda.bindings import nvjitlink as bindings

        bindings.version()
    except (ImportError, OSError, RuntimeError) as error:
        raise MissingToolError("nvJitLink, the assembler of PTX,", NUMBA_EXTRA) from error
    return bindings


def check_arch(arch: str, what: str) -> int:
    """The number in an architecture's name. Raises `CompileError` for one that is not of Turing to Hopper."""
    found = re.fullmatch(r"sm_(\d+)a?", arch)
    if found is None or not OLDEST <= int(found[1]) <= NEWEST or (arch[-1] == "a" and int(found[1]) < NEWEST):
        raise CompileError(
            f"{what}: arch={arch!r} is not of Turing to Hopper: sm_75, sm_80, sm_86, sm_89, sm_90, sm_90a"
        )
    return int(found[1])
