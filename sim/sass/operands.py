"""Operands of an instruction as a listing writes them."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from sim.isa import PT, RZ, UPT, URZ
from sim.program import Const, Imm, Operand, Reg, UReg
from sim.sass.errors import SassError

_REGISTER = re.compile(r"(R|UR)(\d+|Z)")
_PREDICATE = re.compile(r"(P|UP)(\d+|T)")
_CONSTANT = re.compile(r"c\[(0x[0-9a-f]+)\]\[(.*)\]")
_MEMORY = re.compile(r"(?:(?:g)?desc\[(UR\d+)\])?\[(.*)\]")
_INTEGER = re.compile(r"[+-]?(0x[0-9a-f]+|\d+)")
_FLOAT = re.compile(r"[+-]?(\d+(\.\d*)?(e[+-]?\d+)?|\.\d+(e[+-]?\d+)?|inf|nan|qnan|snan)", re.IGNORECASE)
_SPECIAL = re.compile(r"SR_?\w+(\.[XYZ])?|SRZ")

_INFINITIES = {"+INF": 0x7F800000, "-INF": 0xFF800000}  #: bits of float32


@dataclass(frozen=True)
class Register:
    """R, UR or a predicate with what is written around it. `n` counts uniform predicates from 8."""

    kind: str  #: "R", "UR", "P"
    n: int
    suffixes: tuple[str, ...] = ()
    negative: bool = False
    absolute: bool = False
    inverted: bool = False  #: `~`, or `!` of a predicate


@dataclass(frozen=True)
class Constant:
    """A word of a constant bank, at a register's offset if there is one."""

    bank: int
    offset: int
    index: Register | None = None
    suffixes: tuple[str, ...] = ()
    negative: bool = False
    absolute: bool = False
    inverted: bool = False


@dataclass(frozen=True)
class Number:
    """An immediate: an integer, or the text of a float, whose bits depend on the instruction."""

    text: str

    @property
    def is_integer(self) -> bool:
        return _INTEGER.fullmatch(self.text) is not None

    @property
    def is_nan(self) -> bool:
        """Whether it is printed as a NaN."""
        return "NAN" in self.text.upper()

    def integer(self) -> int:
        """Its value. Raises `SassError` for a float."""
        if not self.is_integer:
            raise SassError(f"{self.text!r} is no integer")
        return int(self.text, 0)

    def single(self) -> int:
        """Its bits as float32; an integer with 0x is bits already."""
        named = _INFINITIES.get(_signed_name(self.text))
        if named is not None:
            return named
        if "0x" in self.text:
            return int(self.text, 0) & 0xFFFFFFFF
        return int(struct.unpack("<I", struct.pack("<f", float(self.text)))[0])

    def half(self, bf16: bool) -> int:
        """Its bits as float16 or bfloat16."""
        if bf16:
            return _rounded_bf16(self.single())
        named = _INFINITIES.get(_signed_name(self.text))
        if named is not None:
            return (named >> 16 & 0x8000) | 0x7C00
        if "0x" in self.text:
            return int(self.text, 0) & 0xFFFF
        return int(struct.unpack("<H", struct.pack("<e", float(self.text)))[0])

    def double(self) -> int:
        """Its bits as float64, of which an instruction holds the upper half."""
        named = _INFINITIES.get(_signed_name(self.text))
        if named is not None:
            return ((named & 0x80000000) | 0x7FF00000) << 32
        if "0x" in self.text:
            return (int(self.text, 0) & 0xFFFFFFFF) << 32
        return int(struct.unpack("<Q", struct.pack("<d", float(self.text)))[0])


def _rounded_bf16(single: int) -> int:
    if single & 0x7FFFFFFF > 0x7F800000:
        return single >> 16
    return (single + 0x7FFF + (single >> 16 & 1)) >> 16


def _signed_name(text: str) -> str:
    name = text.strip().upper()
    return name if name[:1] in "+-" else "+" + name


@dataclass(frozen=True)
class Memory:
    """An address: the sum of a register, a uniform register and an offset in bytes, behind a descriptor maybe."""

    register: Register | None
    uniform: Register | None
    offset: int
    descriptor: str = ""


@dataclass(frozen=True)
class Word:
    """Anything else: a convergence barrier, a scoreboard, a special register, a label, `PR`."""

    text: str


ParsedOperand = Register | Constant | Number | Memory | Word


def split_operands(text: str) -> list[str]:
    """Operands of an instruction, separated by commas outside brackets and braces."""
    parts: list[str] = []
    depth, start = 0, 0
    for k, letter in enumerate(text):
        if letter in "[({":
            depth += 1
        elif letter in "])}":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:k].strip())
            start = k + 1
    last = text[start:].strip()
    return [*parts, last] if last or parts else []


def parse_operand(text: str) -> ParsedOperand:
    """One operand. Raises `SassError` for what has no meaning."""
    body = text.strip()
    negative = absolute = inverted = False
    if body[:1] == "-" and not (_INTEGER.fullmatch(body) or _FLOAT.fullmatch(body)):
        negative, body = True, body[1:].strip()
    elif body[:1] in ("~", "!"):
        inverted, body = True, body[1:].strip()
    if body[:1] == "|":
        end = body.index("|", 1)
        absolute, body = True, body[1:end] + body[end + 1 :]
        if body[:1] == "-":
            raise SassError(f"operand {text!r} is not understood")
    if _INTEGER.fullmatch(body) or _FLOAT.fullmatch(body):
        return Number(body)
    head, *rest = _suffixed(body)
    suffixes = tuple(s for s in rest if s != "reuse")
    found = _REGISTER.fullmatch(head)
    if found:
        kind, n = found.groups()
        number = (RZ if kind == "R" else URZ) if n == "Z" else int(n)
        return Register(kind, number, suffixes, negative, absolute, inverted)
    found = _PREDICATE.fullmatch(head)
    if found:
        kind, n = found.groups()
        first = 8 if kind == "UP" else 0
        number = (UPT if first else PT) if n == "T" else first + int(n)
        return Register("P", number, suffixes, negative, absolute, inverted)
    found = _CONSTANT.fullmatch(head)
    if found:
        bank, inside = found.groups()
        index, _, offset = _address(inside)
        return Constant(int(bank, 16), offset, index, suffixes, negative, absolute, inverted)
    found = _MEMORY.fullmatch(head)
    if found:
        register, uniform, offset = _address(found[2])
        return Memory(register, uniform, offset, found[1] or "")
    return Word(text.strip())


def _suffixed(body: str) -> list[str]:
    """`R2.H0_H0.reuse` as its parts; dots inside brackets do not count."""
    close = body.rfind("]")
    head, tail = body[: close + 1], body[close + 1 :]
    if close >= 0:
        return [head, *[s for s in tail.split(".") if s]]
    if body.startswith(("SR", "`", ".", "(")) or "@" in body:
        return [body]
    return body.split(".")


def _address(text: str) -> tuple[Register | None, Register | None, int]:
    """Register, uniform register and offset of an address such as `R2.64+UR4+-0x10`."""
    register = uniform = None
    offset = 0
    for part in re.split(r"\+", text.replace(" ", "")):
        if not part:
            continue
        if _INTEGER.fullmatch(part):
            offset += int(part, 0)
            continue
        term = parse_operand(part)
        if not isinstance(term, Register) or term.kind == "P" or term.negative:
            raise SassError(f"address [{text}] is not understood")
        if term.kind == "UR":
            if uniform is not None:
                raise SassError(f"address [{text}] is not understood")
            uniform = term
        else:
            if register is not None:
                raise SassError(f"address [{text}] is not understood")
            register = term
    return register, uniform, offset


def source_of(operand: ParsedOperand, immediate: str = "integer", words: int = 1) -> Operand:
    """A source operand of a program. `immediate` says how a number is stored: integer, single, double."""
    match operand:
        case Register("R", n):
            return Reg(n)
        case Register("UR", n):
            return UReg(n)
        case Constant(bank, offset, None):
            return Const(bank, offset)
        case Number():
            if immediate == "single":
                return Imm(operand.single(), True)
            if immediate == "double":
                return Imm(operand.double())
            value = operand.integer()
            return Imm(value if words > 1 else value & 0xFFFFFFFF)
    raise SassError(f"{operand} cannot be a source operand here")


def is_special_register(text: str) -> bool:
    """Whether `text` names a special register."""
    return _SPECIAL.fullmatch(text) is not None
