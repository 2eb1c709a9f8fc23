"""Where NVIDIA's tools are: in Python packages first, then in a CUDA toolkit (`cuda.pathfinder` looks them up)."""

from __future__ import annotations

from functools import cache
from typing import Any

from sim.cuda.errors import MissingToolError

EXTRA = "cuda"
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
