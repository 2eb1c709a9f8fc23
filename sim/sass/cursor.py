"""Reading one instruction: its modifiers and operands are taken one by one, and what is left over is an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from sim.isa import (
    FLAG_UNIFORM,
    INSTRUCTION_BYTES,
    PT,
    RZ,
    SMOD_ABS_A,
    SMOD_NEG_A,
    SMOD_NOT_A,
    UPT,
    URZ,
    Op,
    TimingClass,
)
from sim.program import Imm, Instruction, Operand, Reg, UReg
from sim.sass.errors import SassError
from sim.sass.operands import (
    Constant,
    Memory,
    Number,
    ParsedOperand,
    Register,
    Word,
    parse_operand,
    source_of,
    split_operands,
)

T = TypeVar("T")
SLOTS = {"a": 0, "b": 1, "c": 2}
#: opcodes whose operands are separated by spaces in part
_SPACED = ("BRA", "BRX", "BRXU", "CALL", "RET", "JMP", "JMX", "WARPSYNC")


@dataclass(frozen=True)
class Surroundings:
    """What an instruction's meaning depends on besides its text."""

    kernel: str
    arch: str  #: sm_90
    labels: Mapping[str, int]
    instructions: int
    shared_window: int  #: address of the first byte of a block's own shared memory
    last_reduction: int  #: number of the barrier of the BAR.RED before this instruction
    grouped_scoreboards: frozenset[int]  #: scoreboards on which LDGDEPBAR counts groups of copies
    banks: Mapping[int, bytes]  #: constant banks other than 0


class Cursor:
    """One instruction while it is translated; `out` is what it becomes."""

    def __init__(self, text: str, address: int, surroundings: Surroundings, encoding: int | None = None) -> None:
        self.address, self.around, self.encoding = address, surroundings, encoding
        body = text
        guard = PT
        if body.startswith("@"):
            first, _, body = body.partition(" ")
            guard = self._predicate(parse_operand(first[1:]))
            body = body.strip()
        mnemonic, _, rest = body.partition(" ")
        self.base, *self.modifiers = mnemonic.split(".")
        rest = rest.split("(*")[0].strip()
        parts = split_operands(rest)
        if self.base in _SPACED:
            parts = [piece for part in parts for piece in _split_spaced(part)]
        self.operands = [parse_operand(part) for part in parts]
        self.uniform = False
        self.out = Instruction(Op.NOP, TimingClass.CONTROL, mnemonic, guard=guard, operands=rest)

    # --- modifiers

    def has(self, name: str) -> bool:
        """Take modifier `name` if it is there."""
        if name in self.modifiers:
            self.modifiers.remove(name)
            return True
        return False

    def drop(self, *names: str) -> None:
        """Take modifiers that change nothing here."""
        for name in names:
            self.has(name)

    def pick(self, table: Mapping[str, T], default: T) -> T:
        """Take the first modifier that is a key of `table`; its value, or `default`."""
        for name in self.modifiers:
            if name in table:
                self.modifiers.remove(name)
                return table[name]
        return default

    def need(self, table: Mapping[str, T], what: str) -> T:
        """Like `pick`, for a modifier that must be there."""
        for name in self.modifiers:
            if name in table:
                self.modifiers.remove(name)
                return table[name]
        raise SassError(f"it names no {what}")

    # --- operands

    def take(self) -> ParsedOperand:
        """The next operand."""
        if not self.operands:
            raise SassError("an operand is missing")
        return self.operands.pop(0)

    def peek(self, k: int = 0) -> ParsedOperand | None:
        """The k-th operand that is left."""
        return self.operands[k] if k < len(self.operands) else None

    def at_predicate(self) -> bool:
        """Whether a predicate comes next."""
        operand = self.peek()
        return isinstance(operand, Register) and operand.kind == "P"

    def destination(self, words: int = 1) -> None:
        """Take the destination register, of `words` words."""
        operand = self.take()
        if not isinstance(operand, Register) or operand.kind == "P" or operand.suffixes:
            raise SassError(f"{operand} cannot be a destination")
        self.out.dst = UReg(operand.n) if operand.kind == "UR" else Reg(operand.n)
        self.out.nd = 0 if operand.n == (URZ if operand.kind == "UR" else RZ) else words
        if operand.kind == "UR":
            self.out.flags |= FLAG_UNIFORM

    def predicate_destination(self) -> int:
        """Take a destination predicate."""
        number = self._predicate(self.take())
        if number & 16:
            raise SassError("a destination predicate cannot be negated")
        return PT if number == UPT else number

    def predicate_source(self, default: int | None = None) -> int:
        """Take a source predicate, + 16 when negated; `default` if none comes next."""
        if default is not None and not self.at_predicate():
            return default
        return self._predicate(self.take())

    def _predicate(self, operand: ParsedOperand) -> int:
        if not isinstance(operand, Register) or operand.kind != "P" or operand.suffixes:
            raise SassError(f"{operand} is no predicate")
        return operand.n + 16 * operand.inverted

    def source(
        self, slot: str, words: int = 1, immediate: str = "integer", suffixes: Mapping[str, int] | None = None
    ) -> int:
        """Take a source operand into slot a, b or c; returns what `suffixes` gives for its suffix, else 0."""
        operand = self.take()
        chosen = 0
        if isinstance(operand, Register | Constant):
            for suffix in operand.suffixes:
                if suffixes is None or suffix not in suffixes:
                    raise SassError(f"operand suffix .{suffix} is not known here")
                chosen = suffixes[suffix]
            shift = SLOTS[slot]
            if operand.negative:
                self.out.smod |= SMOD_NEG_A << shift
            if operand.absolute:
                self.out.smod |= SMOD_ABS_A << shift
            if operand.inverted:
                self.out.smod |= SMOD_NOT_A << shift
            self._check_bank(operand)
        if isinstance(operand, Number) and operand.is_nan:
            value: Operand = Imm(self._nan_bits() << (32 if immediate == "double" else 0), immediate == "single")
        else:
            value = source_of(operand, immediate, words)
        setattr(self.out, slot, value)
        setattr(self.out, f"n{slot}", words)
        return chosen

    def packed_source(self, slot: str, bf16: bool) -> int:
        """Take a packed-half source, or two numbers, high half first; its selector: 0 both, 1 low, 2 high half."""
        if isinstance(self.peek(), Number) and isinstance(self.peek(1), Number):
            high, low = self.take(), self.take()
            assert isinstance(high, Number) and isinstance(low, Number)
            nan = high.is_nan or low.is_nan
            setattr(self.out, slot, Imm(self._nan_bits() if nan else high.half(bf16) << 16 | low.half(bf16)))
            setattr(self.out, f"n{slot}", 1)
            return 0
        return self.source(slot, suffixes={"H0_H0": 1, "H1_H1": 2, "H1_H0": 0})

    def _nan_bits(self) -> int:
        """The bits of an immediate that is printed as a NaN, of which there are many: only the encoding has them."""
        if self.encoding is None:
            raise SassError("a NaN's bits are in the encoding only; print it too (nvdisasm -hex)")
        return self.encoding >> 32 & 0xFFFFFFFF

    def integer(self) -> int:
        """Take an immediate integer."""
        operand = self.take()
        if not isinstance(operand, Number):
            raise SassError(f"{operand} is no integer")
        return operand.integer()

    def word(self) -> str:
        """Take an operand that is a name."""
        operand = self.take()
        if not isinstance(operand, Word):
            raise SassError(f"{operand} is not understood here")
        return operand.text

    def memory(self) -> Memory:
        """Take an address."""
        operand = self.take()
        if isinstance(operand, Memory):
            return operand
        raise SassError(f"{operand} is no address")

    def target(self) -> int:
        """Take a place in the code; its byte address in the kernel."""
        operand = self.take()
        if isinstance(operand, Number):
            return operand.integer()
        if isinstance(operand, Word):
            label = operand.text.strip("`()")
            if label in self.around.labels:
                return self.around.labels[label]
            raise SassError(f"its target {label} is not in this kernel's code")
        raise SassError(f"{operand} is no place in the code")

    def target_index(self) -> int:
        """Take a place in the code; its instruction."""
        return self.index_of(self.target())

    def index_of(self, address: int) -> int:
        """The instruction at a byte address."""
        index, rest = divmod(address, INSTRUCTION_BYTES)
        if rest or not 0 <= index < self.around.instructions:
            raise SassError(f"its target {address:#x} lies outside the kernel's code")
        return index

    def _check_bank(self, operand: Register | Constant) -> None:
        if isinstance(operand, Constant) and operand.index is not None:
            raise SassError("a constant at a register's offset is read by LDC only")

    def finish(self) -> Instruction:
        """The instruction. Raises `SassError` for what has not been taken."""
        if self.modifiers:
            raise SassError(f"modifier .{self.modifiers[0]} is not known")
        if self.operands:
            raise SassError(f"operand {self.operands[0]} is one too many")
        return self.out


def _split_spaced(part: str) -> list[str]:
    """`R20 `(ind)` and `R6 -0x110` as two operands."""
    if part.startswith("`") or " " not in part:
        return [part]
    first, _, rest = part.partition(" ")
    return [first, rest.strip()]


Handler = Callable[[Cursor], None]
HANDLERS: dict[str, Handler] = {}
UNIFORM: set[str] = set()  #: opcodes of the uniform datapath


def opcode(*names: str, uniform: tuple[str, ...] = ()) -> Callable[[Handler], Handler]:
    """Register what translates opcodes `names`, and `uniform`, which do the same on the uniform datapath."""

    def register(handler: Handler) -> Handler:
        for name in (*names, *uniform):
            assert name not in HANDLERS, name
            HANDLERS[name] = handler
        UNIFORM.update(uniform)
        return handler

    return register


def translate(text: str, address: int, surroundings: Surroundings, encoding: int | None = None) -> Instruction:
    """One instruction of a program; `encoding` (128 bits) tells one NaN from another.

    Raises `SassError` that names the instruction, its kernel and its address.
    """
    try:
        cursor = Cursor(text, address, surroundings, encoding)
        handler = HANDLERS.get(cursor.base)
        if handler is None:
            raise SassError(f"opcode {cursor.base} is not known")
        cursor.uniform = cursor.base in UNIFORM
        if cursor.uniform:
            cursor.out.flags |= FLAG_UNIFORM
        handler(cursor)
        if cursor.uniform:
            cursor.out.cls = TimingClass.UNIFORM
        return cursor.finish()
    except (SassError, ValueError) as problem:
        raise SassError(f"kernel {surroundings.kernel}, address {address:#06x}: `{text}`: {problem}") from None
