"""Where registers hold what is still needed.

Positions count blocks' entries and instructions in layout order. A word's range
is an integer with a bit for each position after which it must be kept: a value
made at `d` and last read at `u` has bits `d` to `u - 1`. So two words may share a
register exactly when `a & b == 0`.
"""

from __future__ import annotations

from sim.builder.machine import Block, Code, Machine, VReg


class Ranges:
    """Ranges of all words. `base[reg.id]` is the number of a register's first word in `words`."""

    def __init__(self, code: Code) -> None:
        self.base: list[int] = []
        self.registers = 0  # bits of the words of R registers
        self.predicates = 0
        self.dead: set[int] = set()  # positions of instructions that write a word which nothing reads
        total = 0
        for reg in code.registers:
            self.base.append(total)
            if reg.kind == "R":
                self.registers |= ((1 << reg.width) - 1) << total
            elif reg.kind == "P":
                self.predicates |= 1 << total
            total += reg.width
        self.words = [0] * total
        self.live_out: dict[int, int] = {}
        self.size = 0
        self._compute(code)

    def of(self, reg: VReg, word: int = 0) -> int:
        return self.words[self.base[reg.id] + word]

    def _writes(self, m: Machine) -> tuple[list[int], list[int]]:
        """Words that an instruction sets, and predicates."""
        out: list[int] = []
        if m.dst is not None and m.nd:
            first = self.base[m.dst.reg.id] + m.dst.word
            out = list(range(first, first + m.nd))
        return out, [self.base[p.id] for p in m.predicate_writes()]

    def _reads(self, m: Machine) -> list[int]:
        out: list[int] = []
        for reg, word, count in m.reads():
            first = self.base[reg.id] + word
            out.extend(range(first, first + count))
        out.extend(self.base[p.id] for p in m.predicate_reads())
        return out

    def _compute(self, code: Code) -> None:
        gen: dict[int, int] = {}
        kill: dict[int, int] = {}
        summary: dict[int, list[tuple[list[int], list[int]]]] = {}
        for block in code.blocks:
            g = k = 0
            rows = []
            for m in block.code:
                reads = self._reads(m)
                written, predicates = self._writes(m)
                for w in reads:
                    if not k >> w & 1:
                        g |= 1 << w
                for w in written:
                    k |= 1 << w
                for w in predicates:
                    k |= 1 << w
                rows.append((reads, written + predicates))
            gen[block.number], kill[block.number] = g, k
            summary[block.number] = rows
        live_in = {b.number: 0 for b in code.blocks}
        changed = True
        while changed:
            changed = False
            for block in reversed(code.blocks):
                out = 0
                for successor in block.successors:
                    out |= live_in[successor.number]
                into = gen[block.number] | (out & ~kill[block.number])
                self.live_out[block.number] = out
                if into != live_in[block.number]:
                    live_in[block.number] = into
                    changed = True
        position = 0
        for block in code.blocks:
            self._block(block, summary[block.number], position, self.live_out[block.number])
            position += len(block.code) + 1
        self.size = position

    def _block(self, block: Block, rows: list[tuple[list[int], list[int]]], entry: int, out: int) -> None:
        words = self.words
        last = entry + len(rows)
        open_: dict[int, int] = {}
        while out:
            low = out & -out
            open_[low.bit_length() - 1] = last
            out ^= low
        for at in range(last, entry, -1):
            reads, writes = rows[at - entry - 1]
            for w in writes:
                end = open_.pop(w, -1)
                if end < 0:
                    end = at
                    self.dead.add(at)
                words[w] |= ((1 << (end - at + 1)) - 1) << at
            for w in reads:
                if w not in open_:
                    open_[w] = at - 1
        for w, end in open_.items():
            words[w] |= ((1 << (end - entry + 1)) - 1) << entry
