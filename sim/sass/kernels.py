"""`load_sass`: kernels of a listing, found by name, as programs."""

from __future__ import annotations

import gzip
import linecache
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sim.isa import RZ, URZ, Op, Space
from sim.program import Const, Instruction, Param, Program, Reg, SourceLine, UReg
from sim.sass import asynchronous, floating, flow, integer, memory, warp
from sim.sass.control import control_bits
from sim.sass.cursor import Surroundings, translate
from sim.sass.errors import SassError
from sim.sass.listing import Listing, RawInstruction, RawKernel, parse_listing
from sim.sass.names import POINTER, parameter_types, plain_name

HANDLER_MODULES = (integer, floating, memory, warp, flow, asynchronous)  #: importing them registers the opcodes
SHARED_WINDOW = 1024  #: bytes of shared memory below a block's own that sm_90's code counts from
ADDRESS_BANK = 4  #: addresses of variables, null where the listing does not say
DEFAULT_STACK_BYTES = 1024  #: of a thread, unless a program sets cudaLimitStackSize
LEAST_REGISTERS = 16  #: what the driver gives a thread at least
RESERVED_REGISTERS = 2  #: of a thread, beyond those that instructions name (Volta and later: the program counter)
Size = int | Mapping[str, int] | None


class SourceText(NamedTuple):
    """A source file at hand, whatever the disk has."""

    name: str  #: what reports call it
    text: str


def load_sass(
    listing: str | os.PathLike[str],
    *,
    shared_static_bytes: Size = None,
    registers: Size = None,
    local_bytes: Size = None,
    banks: Mapping[int, bytes] | None = None,
) -> Kernels:
    """Read a listing of compiled kernels (Volta to Hopper), by `cuobjdump --dump-sass` or `nvdisasm`.

    `listing` is a path (plain or .gz) or the text itself. Returns a mapping from mangled
    names to programs; plain names find kernels too (`Kernels`). A kernel is translated
    when it is first looked up, so one with an unknown instruction leaves the others usable.

    `cuobjdump` prints code only. What is certain follows from it: registers (the highest
    that is named, and two), control bits, the first parameter's place (by architecture),
    parameters (by the mangled name), stack (by what is taken off R1). Static shared memory
    is not in the code: give `shared_static_bytes`, for all kernels or by name, or launching
    a kernel that uses shared memory without any dynamic is refused. `registers` and
    `local_bytes` override what was found. `banks` are the constant banks 1 to 5 (`nvdisasm` prints
    them): bank 3 holds `__constant__` variables, bank 2 literals and jump tables. Bank 4,
    addresses of variables, reads as null pointers without.

    Raises `SassError` for a listing without kernels or of another architecture, `OSError`
    for a file that cannot be read.
    """
    return Kernels(
        parse_listing(_text_of(listing)),
        {"shared_static_bytes": shared_static_bytes, "registers": registers, "local_bytes": local_bytes},
        banks,
    )


def _text_of(listing: str | os.PathLike[str]) -> str:
    if isinstance(listing, str) and ("\n" in listing or not listing.strip()):
        return listing
    data = Path(listing).read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    if data[:4] == b"\x7fELF":
        raise SassError(f"{listing} is a cubin, not a listing: sim.load_cubin reads it")
    return data.decode(errors="replace")


class Kernels(Mapping[str, Program]):
    """Kernels of a listing by mangled name; `kernels["copy1"]` finds `_Z5copy1PKfPfi` as well.

    A name finds, in this order, the kernel mangled so; the one whose plain name it is
    (`mm_tiled`, `gpu::saxpy`); the one whose mangled name begins so (`_Z8mm_tiledILi32E`).
    Raises `KeyError` when none or several do, and `SassError`, naming instruction and
    address, when the kernel has an instruction that is not known.

    `sources` are texts by the listing's file names; lines of other files are read from disk.
    `names` are further names of kernels, each with the mangled one.
    """

    def __init__(
        self,
        listing: Listing,
        sizes: Mapping[str, Size] | None = None,
        banks: Mapping[int, bytes] | None = None,
        *,
        sources: Mapping[str, SourceText] | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        sizes = sizes or {}
        self._listing, self._sizes, self._banks = listing, sizes, dict(banks or {})
        self._sources, self._names = dict(sources or {}), dict(names or {})
        self._programs: dict[str, Program] = {}
        for option, size in sizes.items():
            if isinstance(size, Mapping):
                for name in size:
                    if not self._matches(name):
                        raise KeyError(f"{option} names {name!r}, which the listing does not have")

    def __iter__(self) -> Iterator[str]:
        return iter(self._listing.kernels)

    def __len__(self) -> int:
        return len(self._listing.kernels)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and len(self._matches(name)) == 1

    def __getitem__(self, name: str) -> Program:
        found = self._matches(name)
        if not found:
            known = ", ".join(sorted({plain_name(k) for k in self}))
            raise KeyError(f"no kernel {name!r}; the listing has {known}")
        if len(found) > 1:
            raise KeyError(f"{name!r} may be any of {', '.join(found)}; give one of these mangled names")
        mangled = found[0]
        if mangled not in self._programs:
            self._programs[mangled] = self._program(self._listing.kernels[mangled])
        return self._programs[mangled]

    def __repr__(self) -> str:
        return f"<{len(self)} kernels: {', '.join(sorted({plain_name(k) for k in self}))}>"

    def _matches(self, name: str) -> list[str]:
        kernels = self._listing.kernels
        name = self._names.get(name, name)
        if name in kernels:
            return [name]
        plain = [k for k in kernels if name in _plain_names(k)]
        return plain or [k for k in kernels if k.startswith(name) and name.startswith("_Z")]

    def _size(self, option: str, mangled: str) -> int | None:
        size = self._sizes.get(option)
        if isinstance(size, Mapping):
            return next((v for name, v in size.items() if mangled in self._matches(name)), None)
        return size

    def _program(self, kernel: RawKernel) -> Program:
        kernel = replace(kernel, banks={**kernel.banks, **self._banks})
        program = _translated(kernel, self._sources)
        symbols = self._listing.symbols
        program.addresses = tuple((bank, at, symbols[name]) for bank, at, name in kernel.addresses if name in symbols)
        program.variables = self._listing.variables if program.addresses else b""
        for option in ("shared_static_bytes", "registers", "local_bytes"):
            size = self._size(option, kernel.name)
            if size is not None:
                setattr(program, option, size)
                if option == "shared_static_bytes":
                    program.shared_is_known = True
        return program


def _plain_names(mangled: str) -> tuple[str, ...]:
    """The plain name, with and without its namespaces."""
    plain = plain_name(mangled)
    return plain, plain.rsplit("::", 1)[-1]


def param_base(arch: str) -> int:
    """Offset of the first parameter in constant bank 0: 0x210 on sm_90, 0x160 before."""
    return 0x210 if arch.startswith("sm_90") else 0x160


def _line_text(file: str, number: int, sources: Mapping[str, SourceText]) -> str:
    """One line of a source; nothing where it is not at hand."""
    if file not in sources:
        linecache.checkcache(file)
        return linecache.getline(file, number).rstrip("\r\n")
    lines = sources[file].text.splitlines()
    return lines[number - 1] if 0 < number <= len(lines) else ""


def _source(
    kernel: RawKernel, sources: Mapping[str, SourceText]
) -> tuple[list[SourceLine], dict[tuple[str, int], int]]:
    """Source lines of a kernel, with their text where the file is at hand, and the index of each."""
    index: dict[tuple[str, int], int] = {}
    source: list[SourceLine] = []
    for raw in kernel.instructions:
        if raw.line is not None and raw.line not in index:
            index[raw.line] = len(source)
            file, number = raw.line
            name = sources[file].name if file in sources else file
            source.append(SourceLine(name, number, _line_text(file, number, sources)))
    return source, index


def _translated(kernel: RawKernel, sources: Mapping[str, SourceText]) -> Program:
    """A kernel as a program. Raises `SassError` for the first instruction that is not known."""
    code = list(kernel.instructions)
    while code and code[-1].text == "NOP":
        code.pop()
    window = SHARED_WINDOW if kernel.arch.startswith("sm_90") else 0
    encoded = all(raw.encoding is not None for raw in code)
    controls = [control_bits(raw.encoding or 0) for raw in code]
    grouped = frozenset(
        control.write_barrier
        for raw, control in zip(code, controls, strict=True)
        if re.search(r"\b(LDGDEPBAR|UTMACMDFLUSH)\b", raw.text)
    )
    if grouped and not encoded:
        grouped = frozenset(range(6))
    source, line_of = _source(kernel, sources)
    instructions: list[Instruction] = []
    reduction = 0
    for raw, control in zip(code, controls, strict=True):
        around = Surroundings(
            kernel.name, kernel.arch, kernel.labels, len(code), window, reduction, grouped, kernel.banks
        )
        made = translate(raw.text, raw.address, around, raw.encoding)
        if made.op is Op.BAR and made.x > flow.BAR_ARRIVE:
            reduction = made.y
        made.line = line_of[raw.line] if raw.line is not None else -1
        if encoded:
            made.stall, made.yield_ = control.stall, control.yield_
            made.wbar, made.rbar, made.reuse = control.write_barrier, control.read_barrier, control.reuse
            made.wait |= control.wait
        instructions.append(made)
    banks = _banks(kernel, code, instructions)
    highest, uniform = _highest(instructions)
    least = highest + 1
    given = kernel.registers if kernel.registers is not None else least + RESERVED_REGISTERS
    shared_known, shared = _shared(kernel, instructions, window)
    params = _params(kernel)
    return Program(
        name=kernel.name,
        instructions=instructions,
        registers=min(max(given, least, LEAST_REGISTERS), 255),
        registers_at_launch=given if given < least else 0,
        uniform_registers=uniform + 1,
        shared_static_bytes=shared,
        shared_is_known=shared_known,
        shared_window=window,
        local_bytes=_local(kernel, instructions),
        cluster=kernel.cluster,
        params=params or (),
        params_from_arguments=params is None,
        param_base=kernel.param_base if kernel.param_base is not None else param_base(kernel.arch),
        param_bytes=max((p.offset + p.dtype.itemsize for p in params), default=0) if params else 0,
        source=source,
        has_control=encoded,
        arch=kernel.arch,
        banks=banks,
    )


def _banks(kernel: RawKernel, code: list[RawInstruction], instructions: list[Instruction]) -> dict[int, bytes]:
    """Constant banks other than 0, as long as the code needs. Raises `SassError` for one that is not there."""
    banks = dict(kernel.banks)
    for raw, made in zip(code, instructions, strict=True):
        for bank, end in _constants_read(made):
            if bank == ADDRESS_BANK:
                banks.setdefault(bank, b"")
            if bank not in banks:
                raise SassError(
                    f"kernel {kernel.name}, address {raw.address:#06x}: `{raw.text}` reads constant bank {bank}, which "
                    f"the listing does not have; nvdisasm prints it, or give load_sass(..., banks={{{bank}: bytes}})"
                )
            banks[bank] = banks[bank].ljust(end, b"\0")
    return banks


def _constants_read(i: Instruction) -> Iterator[tuple[int, int]]:
    """(bank, end of what is read for certain) of each access to a constant bank but 0."""
    for operand, words in ((i.a, i.na), (i.b, i.nb), (i.c, i.nc)):
        if isinstance(operand, Const) and operand.bank:
            yield operand.bank, operand.offset + 4 * max(words, 1)
    if i.op is Op.LD and i.space is Space.CONSTANT and i.x:
        yield i.x, max(i.y, 0) + max(i.width, 4)


def _highest(instructions: list[Instruction]) -> tuple[int, int]:
    """Highest R and UR that any instruction touches; -1 for none."""
    highest = uniform = -1
    for i in instructions:
        for operand, words in ((i.dst, i.nd), (i.a, i.na), (i.b, i.nb), (i.c, i.nc)):
            if isinstance(operand, Reg) and operand.n != RZ:
                highest = max(highest, operand.n + max(words, 1) - 1)
            elif isinstance(operand, UReg) and operand.n != URZ:
                uniform = max(uniform, operand.n + max(words, 1) - 1)
    return highest, uniform


def _shared(kernel: RawKernel, instructions: list[Instruction], window: int) -> tuple[bool, int]:
    """Whether the static shared memory is known, and its bytes."""
    if kernel.shared_bytes is not None:
        return True, max(kernel.shared_bytes - window, 0)
    uses = any(i.space == Space.SHARED or i.op is Op.LDGSTS for i in instructions)
    return not uses, 0


_FRAME = re.compile(r"(?:IADD3|VIADD|IADD) R1, R1, (-?0x[0-9a-f]+)")


def _local(kernel: RawKernel, instructions: list[Instruction]) -> int:
    """Bytes of a thread's stack: the listing's, or what the code takes off R1, in whole 16 bytes."""
    if kernel.frame_bytes is not None:
        if kernel.frame_bytes >> 31:  # recursion: the compiler cannot say
            return DEFAULT_STACK_BYTES
        return -(-kernel.frame_bytes // 16) * 16
    taken = 0
    for raw in kernel.instructions:
        found = _FRAME.search(raw.text)
        if found:
            value = int(found[1], 16) & 0xFFFFFFFF
            taken += (1 << 32) - value if value >> 31 else 0
    return -(-taken // 16) * 16


def _params(kernel: RawKernel) -> tuple[Param, ...] | None:
    """Parameters, by the listing and by the mangled name; None where neither tells all of them."""
    types = parameter_types(kernel.name)
    if types is not None and all(t is not None for t in types):
        made, end = [], 0
        for k, kind in enumerate(types):
            dtype = np.dtype(np.uint64) if isinstance(kind, str) or kind is None else kind
            offset = -(-end // dtype.itemsize) * dtype.itemsize
            made.append(Param(f"arg{k}", offset, "pointer" if kind == POINTER else "scalar", dtype))
            end = offset + dtype.itemsize
        if not kernel.params or [kernel.params.get(k) for k in range(len(made))] == [
            (p.offset, p.dtype.itemsize) for p in made
        ]:
            return tuple(made)
    if kernel.params:
        return tuple(
            Param(f"arg{k}", offset, "raw", np.dtype((np.void, size)))
            for k, (offset, size) in sorted(kernel.params.items())
        )
    return None
