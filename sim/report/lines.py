"""Counts by instruction and by source line: where a kernel spends its time and its bandwidth.

Both tables are plain columns, `{name: list}`, so that a report can be made, saved
and loaded without pandas.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.counters import Inst, Stall
from sim.isa import INSTRUCTION_BYTES, PT
from sim.program import Instruction, Program, operand_text, predicate_name
from sim.report.counts import MEMORY_KINDS, Counts
from sim.report.metrics.memory import CACHED, SHARED

Columns = dict[str, list[Any]]

STALL_COLUMNS = tuple(f"stall_{reason.name.lower()}" for reason in Stall)
#: Columns that add up over the instructions of a line.
SUMMED = (
    "instructions",
    "threads",
    "threads_on",
    "requests",
    "cached_requests",
    "sectors",
    "ideal_sectors",
    "hit_sectors",
    "wavefronts",
    "ideal_wavefronts",
    "bank_conflicts",
    "divergent_branches",
    *STALL_COLUMNS,
)
#: Reasons that are not waits: the warp issued, or could have.
NOT_WAITING = (Stall.SELECTED, Stall.NOT_SELECTED)


def sass(instruction: Instruction) -> str:
    """One instruction as a listing shows it, without its address."""
    guard = "" if instruction.guard == PT else f"@{'!' if instruction.guard & 16 else ''}"
    guard += f"{predicate_name(instruction.guard & 15)} " if guard else ""
    return f"{guard}{instruction.text} {instruction.operands or operand_text(instruction)}".rstrip()


def _place(program: Program, line: int) -> tuple[str, int, str]:
    """File, line number and text of a source index; nothing for an instruction without a line."""
    if not 0 <= line < len(program.source):
        return "", 0, ""
    source = program.source[line]
    return source.file, source.number, source.text.strip()


def instruction_columns(c: Counts) -> Columns:
    """One row an instruction, in program order: `address`, `sass`, `kind`, source place, and the summed columns.

    `cached_requests` are the requests that look up sectors: those to global and local memory.
    """
    program, inst, stall = c.result.program, c.result.inst, c.result.stall
    kinds = np.full(len(inst), "", object)
    for kind in MEMORY_KINDS:
        kinds[c.of_kind(kind)] = kind
    places = [_place(program, i.line) for i in program.instructions]
    cached = np.where(c.of_kind(*CACHED), inst[:, Inst.REQUESTS], 0)
    excess = np.where(c.of_kind(*SHARED["mem_shared"][0]), inst[:, Inst.WAVEFRONTS] - inst[:, Inst.IDEAL_WAVEFRONTS], 0)
    columns: Columns = {
        "address": [k * INSTRUCTION_BYTES for k in range(len(inst))],
        "sass": [sass(i) for i in program.instructions],
        "kind": kinds.tolist(),
        "file": [place[0] for place in places],
        "line": [place[1] for place in places],
        "source": [place[2] for place in places],
        "instructions": inst[:, Inst.EXECUTED].tolist(),
        "threads": inst[:, Inst.THREADS].tolist(),
        "threads_on": inst[:, Inst.THREADS_ON].tolist(),
        "requests": inst[:, Inst.REQUESTS].tolist(),
        "cached_requests": cached.tolist(),
        "sectors": inst[:, Inst.SECTORS].tolist(),
        "ideal_sectors": c.ideal_sectors_each.tolist(),
        "hit_sectors": inst[:, Inst.HIT_SECTORS].tolist(),
        "wavefronts": inst[:, Inst.WAVEFRONTS].tolist(),
        "ideal_wavefronts": inst[:, Inst.IDEAL_WAVEFRONTS].tolist(),
        "bank_conflicts": excess.tolist(),
        "divergent_branches": inst[:, Inst.BRANCHES_DIVERGENT].tolist(),
    }
    columns.update(zip(STALL_COLUMNS, stall.T.tolist(), strict=True))
    return columns


def line_columns(instructions: Columns) -> Columns:
    """One row a source line that has instructions, sorted by file and line.

    Instructions without a source line come last, a row each, by address, with their
    SASS as the source. Ratios are NaN where there is nothing to divide by.
    """
    keys: dict[tuple[str, int, int], list[int]] = {}
    for k, (file, line, address) in enumerate(
        zip(instructions["file"], instructions["line"], instructions["address"], strict=True)
    ):
        keys.setdefault((file, line, -1) if line else ("", 0, address), []).append(k)
    rows = sorted(keys.items(), key=lambda row: (not row[0][0], row[0]))
    first = [members[0] for _, members in rows]
    columns: Columns = {
        "file": [key[0] for key, _ in rows],
        "line": [key[1] if key[1] else key[2] for key, _ in rows],
        "source": [
            instructions["source"][k] if key[1] else instructions["sass"][k]
            for (key, _), k in zip(rows, first, strict=True)
        ],
    }
    for name in SUMMED:
        values = instructions[name]
        columns[name] = [sum(values[k] for k in members) for _, members in rows]
    _add_ratios(columns)
    return columns


def _add_ratios(columns: Columns) -> None:
    def divide(part: str, whole: str) -> list[float]:
        return [p / w if w else float("nan") for p, w in zip(columns[part], columns[whole], strict=True)]

    columns["threads_per_instruction"] = divide("threads", "instructions")
    columns["sectors_per_request"] = divide("sectors", "cached_requests")
    waits = [f"stall_{reason.name.lower()}" for reason in Stall if reason not in NOT_WAITING]
    rows = list(zip(*(columns[name] for name in waits), strict=True))
    columns["stall_cycles"] = [sum(row) for row in rows]
    columns["top_stall"] = [waits[row.index(max(row))].removeprefix("stall_") if any(row) else "" for row in rows]
    columns["warp_cycles"] = [sum(row) for row in zip(*(columns[name] for name in STALL_COLUMNS), strict=True)]


#: Order of `Report.lines()`: what a reader looks for first, then the cycles by reason.
LINE_ORDER = (
    "file",
    "line",
    "source",
    "instructions",
    "threads_per_instruction",
    "requests",
    "sectors",
    "sectors_per_request",
    "ideal_sectors",
    "hit_sectors",
    "wavefronts",
    "ideal_wavefronts",
    "bank_conflicts",
    "divergent_branches",
    "warp_cycles",
    "stall_cycles",
    "top_stall",
    *STALL_COLUMNS,
)
