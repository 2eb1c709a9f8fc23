"""Nsight's stall reasons: their names on the page, what each means, and what helps.

The reasons and their meanings are those of NVIDIA's Nsight Compute documentation
(Profiling Guide, warp stall reasons); what the model maps to each is in docs/metrics.md.
"""

from __future__ import annotations

from typing import NamedTuple

from sim.counters import Stall


class Reason(NamedTuple):
    label: str
    meaning: str
    advice: str


REASONS: dict[Stall, Reason] = {
    Stall.SELECTED: Reason("Selected", "issued an instruction", ""),
    Stall.NOT_SELECTED: Reason(
        "Stall Not Selected", "was ready, another one issued", "more warps than the schedulers need"
    ),
    Stall.WAIT: Reason(
        "Stall Wait",
        "waits for a fixed-latency result",
        "give each thread more independent work, or run more warps",
    ),
    Stall.LONG_SCOREBOARD: Reason(
        "Stall Long Scoreboard",
        "waits for data from global or local memory",
        "load earlier and more at a time, keep data in shared memory, or run more warps",
    ),
    Stall.SHORT_SCOREBOARD: Reason(
        "Stall Short Scoreboard",
        "waits for shared memory, a shuffle or a special function",
        "use fewer or wider shared-memory accesses, and keep clear of bank conflicts",
    ),
    Stall.MATH_PIPE_THROTTLE: Reason(
        "Stall Math Pipe Throttle",
        "waits for its execution pipe",
        "the pipe is full: use another pipe or fewer such instructions",
    ),
    Stall.MIO_THROTTLE: Reason(
        "Stall MIO Throttle",
        "waits for room in the memory input/output queue",
        "use fewer, wider shared-memory accesses and fewer shuffles",
    ),
    Stall.LG_THROTTLE: Reason(
        "Stall LG Throttle",
        "waits for room in the queue for global and local memory",
        "use fewer, wider global accesses",
    ),
    Stall.TEX_THROTTLE: Reason(
        "Stall Tex Throttle", "waits for room in the texture queue", "use fewer texture instructions"
    ),
    Stall.DISPATCH_STALL: Reason(
        "Stall Dispatch Stall", "the dispatcher held the instruction back", "spread register operands over the banks"
    ),
    Stall.NO_INSTRUCTION: Reason(
        "Stall No Instruction",
        "waits for an instruction fetch",
        "make the code smaller, or the grid larger so that its start counts less",
    ),
    Stall.IMC_MISS: Reason(
        "Stall IMC Miss", "waits for the constant cache", "use fewer different constants and kernel arguments"
    ),
    Stall.BRANCH_RESOLVING: Reason(
        "Stall Branch Resolving", "waits for a branch target", "unroll loops, replace branches by selections"
    ),
    Stall.BARRIER: Reason(
        "Stall Barrier",
        "waits for other warps at a block barrier",
        "balance the work between barriers, use smaller blocks or fewer barriers",
    ),
    Stall.MEMBAR: Reason("Stall Membar", "waits for a memory fence", "use fewer or narrower fences"),
    Stall.GMMA: Reason("Stall GMMA", "waits for a warp-group matrix operation", "keep more of them in flight"),
    Stall.SLEEPING: Reason(
        "Stall Sleeping", "all its threads are asleep, yielded or wait to reconverge", "shorten sleeps"
    ),
    Stall.DRAIN: Reason(
        "Stall Drain",
        "has exited and waits for its stores to leave",
        "store less at the end, in full sectors",
    ),
    Stall.MISC: Reason("Stall Misc", "another reason", ""),
}

#: How pictures show each state. The frequent ones are of Okabe and Ito's palette and a few more, which stay distinct
#: for colour-blind readers; reasons that seldom count have shades of them.
COLOURS: dict[Stall, str] = {
    Stall.SELECTED: "#000000",
    Stall.NOT_SELECTED: "#C8C8C8",
    Stall.WAIT: "#009E73",
    Stall.LONG_SCOREBOARD: "#D55E00",
    Stall.SHORT_SCOREBOARD: "#56B4E9",
    Stall.MATH_PIPE_THROTTLE: "#CC79A7",
    Stall.MIO_THROTTLE: "#F0E442",
    Stall.LG_THROTTLE: "#E69F00",
    Stall.TEX_THROTTLE: "#F3A683",
    Stall.DISPATCH_STALL: "#8E5A8A",
    Stall.NO_INSTRUCTION: "#7A5230",
    Stall.IMC_MISS: "#A98467",
    Stall.BRANCH_RESOLVING: "#5A5A5A",
    Stall.BARRIER: "#0072B2",
    Stall.MEMBAR: "#1F3A5F",
    Stall.GMMA: "#5B2C83",
    Stall.SLEEPING: "#D9DCE1",
    Stall.DRAIN: "#8A8F98",
    Stall.MISC: "#3A3F47",
}


def ratio_name(reason: Stall) -> str:
    """Nsight's metric: warps in this state an issued instruction."""
    return f"smsp__average_warps_issue_stalled_{reason.name.lower()}_per_issue_active.ratio"


def cycles_name(reason: Stall) -> str:
    """Nsight's sampling metric, which here counts every warp-cycle."""
    name = "no_instructions" if reason is Stall.NO_INSTRUCTION else reason.name.lower()
    return f"smsp__pcsamp_warps_issue_stalled_{name}"
