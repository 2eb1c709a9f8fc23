"""Listings: text that `cuobjdump --dump-sass` and `nvdisasm` print, taken apart into kernels, banks and facts.

`cuobjdump` prints instructions only. `nvdisasm` prints all sections of a cubin, so from
its listings come register counts, stack frames, shared memory, parameters and constant
banks too. Instructions are 16 bytes long, Volta to Hopper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from sim.isa import INSTRUCTION_BYTES
from sim.sass.errors import NoKernelError, SassError

_FUNCTION = re.compile(r"\s*Function\s*:\s*(\S+)")
_SECTION = re.compile(r'\s*\.section\s+([^\s,"]+)')
_ARCH = re.compile(r"(?:code for|\.target|arch =)\s+(sm_\d+[a-z]?)")
_ARCH_FLAG = re.compile(r"\bEF_CUDA_SM(\d+)")
_INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,8})\*/\s+([^;]*?)\s*;(.*)")
_ENCODING = re.compile(r"/\*\s*0x([0-9a-f]{16})\s*\*/")
_LABEL = re.compile(r"\s*([.$\w][^\s:]*):\s*$")
_LINE = re.compile(r'\s*//## File "([^"]*)", line (\d+)')
_ATTRIBUTE = re.compile(r"\s*//-+ nvinfo : (EIATTR_\w+)")
_DATA = re.compile(r"\s*(?:/\*[0-9a-f]+\*/)?\s*\.(byte|short|word|dword|quad|zero|align)\s+(.*?)\s*(?://.*)?$")
_REGISTERS = re.compile(r"SHI_REGISTERS=(\d+)")
VARIABLE_ALIGNMENT = 256
_SIZES = {"byte": 1, "short": 2, "word": 4, "dword": 8, "quad": 8}
_OLD_ARCHES = (
    "of Volta to Hopper (sm_70 to sm_90) are read; instructions of older GPUs are not 16 bytes long, "
    "those of newer ones differ"
)


@dataclass(frozen=True)
class RawInstruction:
    """One line of code."""

    address: int  #: bytes from the kernel's first instruction
    text: str  #: guard, mnemonic and operands
    encoding: int | None  #: 128 bits
    line: tuple[str, int] | None  #: source file and line number


@dataclass
class RawKernel:
    """A kernel's code, and what its listing says about it; None where it says nothing."""

    name: str
    arch: str
    instructions: list[RawInstruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    registers: int | None = None
    frame_bytes: int | None = None  #: stack of a thread, called functions included
    shared_bytes: int | None = None
    cluster: tuple[int, int, int] = (1, 1, 1)  #: blocks of a cluster, `__cluster_dims__`
    param_base: int | None = None
    params: dict[int, tuple[int, int]] = field(default_factory=dict)  #: position -> (offset, bytes)
    banks: dict[int, bytes] = field(default_factory=dict)
    addresses: list[tuple[int, int, str]] = field(default_factory=list)  #: (bank, byte, name of what is there)


@dataclass
class Listing:
    """All kernels of a listing."""

    kernels: dict[str, RawKernel] = field(default_factory=dict)
    variables: bytes = b""  #: global variables, initial values
    symbols: dict[str, int] = field(default_factory=dict)  #: name of a variable -> its first byte
    whole: bool = False  #: it has the cubin's data sections


@dataclass
class _Section:
    """Data of one section of a cubin."""

    data: bytearray = field(default_factory=bytearray)
    symbols: list[tuple[int, str]] = field(default_factory=list)  #: (offset, name) of words that name something
    labels: dict[str, int] = field(default_factory=dict)
    attributes: list[tuple[str, list[tuple[str, str]]]] = field(default_factory=list)


def parse_listing(text: str) -> Listing:
    """Take a listing apart. Raises `SassError` when it has no kernel, or none of a GPU that is supported."""
    reader = _Reader()
    for number, line in enumerate(text.splitlines(), 1):
        reader.read(line, number)
    return reader.finish()


class _Reader:
    """State while lines are read."""

    def __init__(self) -> None:
        self.listing = Listing()
        self.arch = ""
        self.kernel: RawKernel | None = None
        self.section: _Section | None = None
        self.sections: dict[str, _Section] = {}
        self.line: tuple[str, int] | None = None
        self.placed = False  # the last line was a source line
        self.incomplete = False  # the last instruction's encoding lacks its high word
        self.sections_of_data = False

    def read(self, line: str, number: int) -> None:
        if self.kernel is not None and self._instruction(line, number):
            return
        found = _ARCH.search(line)
        if found:
            self.arch = found[1]
            return
        found = _ARCH_FLAG.search(line)
        if found and not self.arch:
            self.arch = f"sm_{found[1]}"
        found = _FUNCTION.match(line)
        if found:
            self._begin(found[1], number)
            return
        found = _SECTION.match(line)
        if found:
            self._begin_section(found[1], number)
            return
        if self.kernel is not None:
            self._about_kernel(line)
        elif self.section is not None:
            self._data(line)

    def _begin(self, name: str, number: int) -> None:
        if name in self.listing.kernels:
            raise SassError(
                f"line {number}: kernel {name} is there twice; a listing of one architecture is needed "
                "(cuobjdump --dump-sass -arch sm_90)"
            )
        self.kernel = RawKernel(name, self.arch)
        self.listing.kernels[name] = self.kernel
        self.section = self.line = None

    def _begin_section(self, name: str, number: int) -> None:
        self.kernel = self.section = None
        if name.startswith(".text."):
            self._begin(name[len(".text.") :], number)
        elif name.startswith((".nv.constant", ".nv.shared", ".nv.info", ".nv.global")):
            self.section = self.sections.setdefault(name, _Section())
        self.sections_of_data = self.sections_of_data or not name.startswith(".text.")

    def _instruction(self, line: str, number: int) -> bool:
        """Whether the line is an instruction, or the second half of an encoding."""
        assert self.kernel is not None
        code = self.kernel.instructions
        found = _INSTRUCTION.match(line)
        if found:
            address = int(found[1], 16)
            if address != len(code) * INSTRUCTION_BYTES:
                raise SassError(
                    f"line {number}: {self.kernel.name} has an instruction at {address:#x} "
                    f"where {len(code) * INSTRUCTION_BYTES:#x} was expected; only listings {_OLD_ARCHES}"
                )
            low = _ENCODING.search(found[3])
            self.incomplete = low is not None
            self.placed = False
            code.append(RawInstruction(address, found[2].strip(), int(low[1], 16) if low else None, self.line))
            return True
        if self.incomplete:
            high = _ENCODING.search(line)
            if high and not line[: high.start()].strip():
                last = code[-1]
                assert last.encoding is not None
                both = last.encoding | int(high[1], 16) << 64
                code[-1] = RawInstruction(last.address, last.text, both, last.line)
                self.incomplete = False
                return True
        return False

    def _about_kernel(self, line: str) -> None:
        assert self.kernel is not None
        found = _LABEL.match(line)
        if found:
            self.kernel.labels[found[1]] = len(self.kernel.instructions) * INSTRUCTION_BYTES
            return
        found = _LINE.match(line)
        if found:
            if not self.placed:  # of an inlined function; the lines that call it follow
                self.line = found[1], int(found[2])
            self.placed = True
            return
        self.placed = False
        found = _REGISTERS.search(line)
        if found:
            self.kernel.registers = int(found[1])

    def _data(self, line: str) -> None:
        assert self.section is not None
        found = _ATTRIBUTE.match(line)
        if found:
            self.section.attributes.append((found[1], []))
            return
        found = _LABEL.match(line)
        if found:
            self.section.labels[found[1]] = len(self.section.data)
            return
        found = _DATA.match(line)
        if found is None:
            return
        kind, values = found.groups()
        if self.section.attributes:
            self.section.attributes[-1][1].extend((kind, v.strip()) for v in values.split(","))
        data = self.section.data
        if kind == "align":
            alignment = int(values, 0)
            data.extend(bytes(-len(data) % alignment))
        elif kind == "zero":
            data.extend(bytes(int(values, 0)))
        else:
            for value in values.split(","):
                try:
                    number = int(value.strip(), 0)
                except ValueError:
                    self.section.symbols.append((len(data), value.strip()))
                    number = 0
                data.extend(number.to_bytes(_SIZES[kind], "little"))

    def finish(self) -> Listing:
        listing = self.listing
        listing.whole = self.sections_of_data
        for name in [n for n, k in listing.kernels.items() if not k.instructions]:
            del listing.kernels[name]
        if not listing.kernels:
            raise NoKernelError("no kernel found; what `cuobjdump --dump-sass` or `nvdisasm` prints is needed")
        for kernel in listing.kernels.values():
            kernel.arch = kernel.arch or self.arch
            if not re.fullmatch(r"sm_(7[05]|72|8[0-9]|90)[a-z]?", kernel.arch):
                what = (
                    f"is of {kernel.arch}" if kernel.arch else "does not say of which architecture it is (sm_90, ...)"
                )
                raise SassError(f"kernel {kernel.name} {what}; listings {_OLD_ARCHES}")
            self._facts(kernel)
        self._variables()
        return listing

    def _variables(self) -> None:
        """Global variables: those with initial values, then the others."""
        image = bytearray()
        for name in (".nv.global.init", ".nv.global"):
            section = self.sections.get(name)
            if section is not None:
                image.extend(bytes(-len(image) % VARIABLE_ALIGNMENT))
                self.listing.symbols.update({label: len(image) + at for label, at in section.labels.items()})
                image.extend(section.data)
        self.listing.variables = bytes(image)

    def _facts(self, kernel: RawKernel) -> None:
        """What the data sections say about a kernel."""
        name = kernel.name
        for bank in (1, 2, 3, 4, 5):
            for suffix in (f".{name}", ""):
                section = self.sections.get(f".nv.constant{bank}{suffix}")
                if section is not None and section.data:
                    kernel.banks[bank] = bytes(section.data)
                    kernel.addresses += [(bank, at, name) for at, name in section.symbols]
                    break
        if not listing_has_facts(self.sections):
            return
        shared = self.sections.get(f".nv.shared.{name}")
        kernel.shared_bytes = len(shared.data) if shared is not None else 0
        for attribute, values in self._attributes(".nv.info"):
            if len(values) >= 2 and values[0] == f"index@({name})":
                number = int(values[1], 0)
                if attribute == "EIATTR_REGCOUNT":
                    kernel.registers = number
                elif attribute in ("EIATTR_FRAME_SIZE", "EIATTR_MIN_STACK_SIZE"):
                    kernel.frame_bytes = max(kernel.frame_bytes or 0, number)
        for attribute, values in self._attributes(f".nv.info.{name}"):
            if attribute == "EIATTR_PARAM_CBANK" and len(values) >= 3:
                kernel.param_base = int(values[1], 0)
            elif attribute == "EIATTR_CTA_PER_CLUSTER" and len(values) >= 3:
                x, y, z = (int(v, 0) for v in values[:3])
                kernel.cluster = x, y, z
            elif attribute == "EIATTR_KPARAM_INFO" and len(values) >= 4:
                size = sum(int(v, 0) << 8 * k for k, v in enumerate(values[3:7])) >> 18
                kernel.params[int(values[1], 0)] = int(values[2], 0), size

    def _attributes(self, section: str) -> Iterator[tuple[str, list[str]]]:
        """Attributes of a `.nv.info` section with their values, without the two bytes and the length before them."""
        if section in self.sections:
            for name, items in self.sections[section].attributes:
                values = [value for kind, value in items if kind != "align"]
                yield name, values[3:]


def listing_has_facts(sections: dict[str, _Section]) -> bool:
    """Whether the listing has the sections in which a cubin describes its kernels."""
    return ".nv.info" in sections
