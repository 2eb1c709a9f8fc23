"""How many registers a thread has where: as a launch gives them, and after `set_max_registers`."""

from __future__ import annotations

from sim.builder.errors import BuildError
from sim.builder.liveness import Ranges
from sim.builder.machine import Block, Code, VReg
from sim.isa import Op

MAX_REGISTERS = 255
RESERVED_REGISTERS = 2  #: that the compiler reports beyond those in its code, cc 9.0


class Limits:
    """`masks`: registers that are there -> positions (as those of `Ranges`) at which there are no more."""

    def __init__(self, code: Code) -> None:
        self.launched = code.registers_at_launch
        self.masks: dict[int, int] = {}
        self.lines: dict[int, int] = {}  # registers -> source line that asks for so many
        given = min(self.launched - RESERVED_REGISTERS, MAX_REGISTERS) if self.launched else MAX_REGISTERS
        into = {code.blocks[0].number: given}  # the least of all ways to a block
        pending = [code.blocks[0]]
        while pending:
            block = pending.pop()
            after = self._through(block, into[block.number])
            for following in block.successors:
                if after < into.get(following.number, MAX_REGISTERS + 1):
                    into[following.number] = after
                    pending.append(following)
        self._mark(code, into)

    def _through(self, block: Block, registers: int) -> int:
        """Registers after a block."""
        for m in block.code:
            if m.op is Op.SETMAXREG:
                registers = min(m.x, MAX_REGISTERS)
        return registers

    def _mark(self, code: Code, into: dict[int, int]) -> None:
        position = 0
        for block in code.blocks:
            registers, first = into.get(block.number, MAX_REGISTERS), position
            for k, m in enumerate(block.code, position + 1):
                if m.op is Op.SETMAXREG:
                    self._add(registers, first, k)
                    registers, first = min(m.x, MAX_REGISTERS), k
                    self.lines[registers] = m.line
            position += len(block.code) + 1
            self._add(registers, first, position)

    def _add(self, registers: int, first: int, end: int) -> None:
        self.masks[registers] = self.masks.get(registers, 0) | (1 << end) - (1 << first)

    def of(self, ranges: Ranges, reg: VReg) -> int:
        """Registers that there are wherever `reg` is needed."""
        if len(self.masks) == 1:
            return next(iter(self.masks))
        whole = 0
        for k in range(reg.width):
            whole |= ranges.of(reg, k)
        return min((n for n, mask in self.masks.items() if mask & whole), default=MAX_REGISTERS)

    def missing(self, code: Code, ranges: Ranges, number: dict[int, int]) -> int:
        """Registers that are too few, of those that a thread has from its launch on.

        Raises `BuildError` where `set_max_registers` leaves too few.
        """
        most = 0
        for reg in code.registers:
            if reg.kind == "R" and reg.id in number:
                there, needed = self.of(ranges, reg), number[reg.id] + reg.width
                if needed > there and there in self.lines:
                    raise BuildError(
                        f"the code after set_max_registers({there}) needs {needed} registers a thread; "
                        "let it keep more, or fewer values",
                        self._where(code, self.lines[there]),
                    )
                most = max(most, needed - there)
        return most

    @staticmethod
    def _where(code: Code, line: int) -> str:
        return f"{code.lines[line].file}:{code.lines[line].number}" if 0 <= line < len(code.lines) else ""
