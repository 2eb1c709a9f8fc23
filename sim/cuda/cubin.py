"""`load_cubin`: kernels of a cubin, through nvdisasm."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from sim.cuda import tools
from sim.sass import Kernels, SassError, SourceText
from sim.sass.listing import parse_listing

ELF = b"\x7fELF"


def load_cubin(cubin: str | os.PathLike[str] | bytes) -> Kernels:
    """Read the kernels of a cubin (Turing to Hopper): a path, or the bytes themselves.

    Compilers keep cubins in files (`nvcc -cubin`) and in memory (`asm["cubin"]` of a kernel that
    Triton compiled). Returns what `sim.load_sass` does of a listing, with all facts that a cubin has:
    registers, shared and local memory, parameters, constant banks, source lines.

    Raises `MissingToolError` without the extra `cuda`, `SassError` for what is no cubin or of
    another architecture, `OSError` for a file that cannot be read.
    """
    data = cubin if isinstance(cubin, bytes) else Path(cubin).read_bytes()
    what = "these bytes are" if isinstance(cubin, bytes) else f"{os.fspath(cubin)} is"
    if data[:4] != ELF:
        raise SassError(f"{what} no cubin, which begins with the bytes 7f 'ELF'")
    return Kernels(parse_listing(disassemble(data, what)))


def kernels_of(
    cubin: bytes, *, sources: Mapping[str, SourceText] | None = None, names: Mapping[str, str] | None = None
) -> Kernels:
    """Kernels of a cubin that was just made: `sources` are texts by file name, `names` mangled ones by expression."""
    return Kernels(parse_listing(disassemble(cubin, "what was compiled is")), sources=sources, names=names)


def disassemble(cubin: bytes, what: str) -> str:
    """What nvdisasm prints of a cubin: every section, encodings, source lines. Raises `SassError` with its message."""
    with tempfile.TemporaryDirectory(prefix="tailwave-") as folder:
        file = Path(folder, "kernels.cubin")
        file.write_bytes(cubin)
        command = [tools.nvdisasm(), "-hex", "-g", str(file)]
        ran = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if ran.returncode:
        message = " ".join(ran.stderr.replace(str(file), "it").split()) or f"exit code {ran.returncode}"
        raise SassError(f"{what} not readable by nvdisasm: {message}")
    return ran.stdout
