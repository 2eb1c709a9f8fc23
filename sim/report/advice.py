"""Up to three lines of advice: the source lines and the launch shapes that cost most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from sim.report.formatting import number, percent_text
from sim.report.lines import Columns
from sim.report.metrics.speed import ELAPSED
from sim.report.stalls import REASONS
from sim.report.verdict import Values, limiter, top_stall

MOST = 3
LEAST_WEIGHT = 0.02
WORTH_SAYING = 0.1  #: share of its kind of cost from which a piece of advice is given


class Advice(NamedTuple):
    """A piece of advice and its weight: about the share of the time that it concerns."""

    weight: float
    text: str


def place(lines: Columns, row: int) -> str:
    """Where a row of the line table is, for a sentence."""
    if not lines["file"][row]:
        return f"instruction {lines['line'][row]:#06x} ({lines['source'][row]})"
    name = lines["file"][row].replace("\\", "/").rpartition("/")[2]
    return f"{name}:{lines['line'][row]} ({shorten(lines['source'][row])})"


def shorten(text: str, width: int = 48) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _worst(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


def _less(columns: Columns, part: str, whole: str) -> list[int]:
    return [w - p for p, w in zip(columns[part], columns[whole], strict=True)]


def _line_of(lines: Columns, instructions: Columns, row: int) -> int:
    """The row of the line table that holds an instruction."""
    file, line = instructions["file"][row], instructions["line"][row] or instructions["address"][row]
    return next(k for k, key in enumerate(zip(lines["file"], lines["line"], strict=True)) if key == (file, line))


def _uncoalesced(v: Values, lines: Columns, instructions: Columns) -> Advice | None:
    excess, total = _less(instructions, "ideal_sectors", "sectors"), sum(instructions["sectors"])
    if not total or sum(excess) < WORTH_SAYING * total:
        return None
    row = _worst(excess)
    requests = max(instructions["cached_requests"][row], 1)
    load = max(v[f"gpu__compute_memory_throughput{ELAPSED}"] / 100, top_stall(v)[1])
    return Advice(
        sum(excess) / total * load,
        f"Uncoalesced access at {place(lines, _line_of(lines, instructions, row))}: "
        f"{instructions['sectors'][row] / requests:.1f} sectors a request where "
        f"{instructions['ideal_sectors'][row] / requests:.1f} would do; let neighbouring threads use "
        "neighbouring words",
    )


def _bank_conflicts(v: Values, lines: Columns, instructions: Columns) -> Advice | None:
    excess, total = instructions["bank_conflicts"], sum(instructions["wavefronts"])
    if not total or sum(excess) < WORTH_SAYING * total:
        return None
    row = _worst(excess)
    ways = instructions["wavefronts"][row] / max(instructions["ideal_wavefronts"][row], 1)
    return Advice(
        sum(excess) / total * v[f"l1tex__data_pipe_lsu_wavefronts{ELAPSED}"] / 100,
        f"Bank conflicts at {place(lines, _line_of(lines, instructions, row))}: {ways:.1f} times the wavefronts "
        "that it needs; pad the array's rows or swizzle its index",
    )


def _divergence(v: Values, lines: Columns, instructions: Columns) -> Advice | None:
    threads = v["smsp__thread_inst_executed_per_inst_executed.ratio"]
    branches = sum(lines["divergent_branches"])
    if math.isnan(threads) or not branches or 1 - threads / 32 < WORTH_SAYING:
        return None
    row = _worst(lines["divergent_branches"])
    return Advice(
        1 - threads / 32,
        f"Divergence at {place(lines, row)}: {number(lines['divergent_branches'][row])} branches part a warp's "
        f"threads, {threads:.1f} of 32 are active on average; let whole warps take one way",
    )


def _tail(v: Values, lines: Columns, instructions: Columns) -> Advice | None:
    lost = v["tailwave__tail_cycles.pct"] / 100
    if lost < WORTH_SAYING or v["tailwave__waves"] < 2:
        return None
    return Advice(
        lost,
        f"Tail: {number(v['tailwave__last_wave_blocks'])} blocks in a last wave of "
        f"{number(v['tailwave__blocks_per_wave'])} cost {percent_text(100 * lost)} of the SMs' time; "
        "choose block and tile sizes that fill whole waves, or smaller blocks",
    )


def _occupancy(v: Values, lines: Columns, instructions: Columns) -> Advice | None:
    theoretical = v["sm__maximum_warps_per_active_cycle_pct"]
    busy = v[f"sm__issue_active{ELAPSED}"]
    if theoretical > 50 or math.isnan(busy) or busy > 60 or v["launch__waves_per_multiprocessor"] < 1:
        return None
    return Advice(
        (1 - theoretical / 100) * (1 - busy / 100) / 2,
        f"Occupancy is at most {percent_text(theoretical)}, limited by {limiter(v)}; use less of it a block",
    )


def _dram_waste(v: Values, lines: Columns, instructions: Columns) -> Advice | None:
    useful = v["tailwave__dram_useful_bytes.pct"] / 100
    if math.isnan(useful) or useful > 0.75:
        return None
    return Advice(
        (1 - useful) * v[f"gpu__dram_throughput{ELAPSED}"] / 100,
        f"Only {percent_text(100 * useful)} of the bytes that DRAM moved were asked for; use whole sectors and bursts",
    )


def _stall(v: Values, lines: Columns, instructions: Columns) -> Advice | None:
    reason, share = top_stall(v)
    about = REASONS[reason]
    busiest = max(v[f"gpu__compute_memory_throughput{ELAPSED}"], v[f"sm__throughput{ELAPSED}"])
    if share < 0.3 or busiest >= 60 or not about.advice or not lines["stall_cycles"]:
        return None
    row = _worst(lines[f"stall_{reason.name.lower()}"])
    return Advice(share / 2, f"{about.label} at {place(lines, row)}: the warp {about.meaning}; {about.advice}")


def advise(values: Values, lines: Columns, instructions: Columns) -> tuple[str, ...]:
    """The weightiest pieces of advice, at most three, weightiest first.

    `values` are metrics by name, `lines` and `instructions` the columns of
    `sim.report.lines`.
    """
    finders = (_uncoalesced, _bank_conflicts, _divergence, _tail, _occupancy, _dram_waste, _stall)
    found = [advice for find in finders if (advice := find(values, lines, instructions))]
    heavy = sorted((advice for advice in found if advice.weight >= LEAST_WEIGHT), key=lambda advice: -advice.weight)
    return tuple(advice.text for advice in heavy[:MOST])
