"""What bounds a kernel: ordered rules, each a function of the metrics, and the one line they agree on.

Rules stand in three stages. In the first stage whose rules include one that
reaches its threshold, the rule with the highest score decides; equal scores go to
the earlier rule.

1. *ending and starting*: the GPU was not full for much of the time - launch and
   drain, a grid too small for the SMs, the tail;
2. *throughput*: some unit ran near its peak over the elapsed time - DRAM, L2, L1 and
   shared memory, an execution pipe, the issue slots, the start of blocks. 60 % is
   where NVIDIA's speed-of-light rule draws the line as well;
3. *latency*: neither, so warps waited; the top stall reason says for what.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sim.counters import Stall
from sim.report.formatting import counted, number, percent_text, with_unit
from sim.report.lines import NOT_WAITING
from sim.report.metrics.compute import CYCLE_PIPES
from sim.report.metrics.speed import ELAPSED
from sim.report.stalls import REASONS, cycles_name

Values = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What bounds the kernel: the rule that says so, its score 0 to 1, and the sentence."""

    rule: str
    score: float
    text: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: its stage, the score from which it may decide, what it looks at, and its finding."""

    name: str
    stage: int
    threshold: float
    looks_at: str
    find: Callable[[Values], tuple[float, str]]


def rule_text(verdict: Verdict) -> str:
    """The rule that decided, in a line: what it looks at, its score, and the score from which it may decide."""
    (rule,) = (rule for rule in RULES if rule.name == verdict.rule)
    why = f"it decides from {percent_text(100 * rule.threshold)}" if rule.threshold else "no other rule applies"
    return f"{rule.name} {percent_text(100 * verdict.score)}: {rule.looks_at}; {why}"


def _launch(v: Values) -> tuple[float, str]:
    share = v["tailwave__launch_cycles.pct"]
    return share / 100, (
        f"Launch-bound: {number(v['tailwave__launch_cycles.max'])} of {number(v['sm__cycles_elapsed.max'])} cycles "
        f"({percent_text(share)}) are launch and drain; give the kernel more work"
    )


def _small_grid(v: Values) -> tuple[float, str]:
    blocks, sms = v["launch__grid_size"], v["launch__sm_count"]
    idle = max(0.0, 1 - blocks / sms)
    return idle, (
        f"Grid too small: {counted(blocks, 'block')} for {number(sms)} SMs, "
        f"{percent_text(100 * idle)} of them have no work"
    )


def _tail(v: Values) -> tuple[float, str]:
    if v["launch__grid_size"] < v["launch__sm_count"]:
        return 0.0, ""
    lost = v["tailwave__tail_cycles.pct"]
    if v["tailwave__waves"] > 1:
        why = (
            f"the last of {number(v['tailwave__waves'])} waves has {number(v['tailwave__last_wave_blocks'])} of "
            f"{number(v['tailwave__blocks_per_wave'])} blocks (utilization "
            f"{percent_text(v['tailwave__tail_utilization.pct'])})"
        )
    else:
        why = "blocks end at different times in a single wave"
    return lost / 100, (
        f"Tail-bound: {why}, {number(round(v['tailwave__tail_cycles.avg']))} cycles an SM "
        f"({percent_text(lost)}) are idle at the end"
    )


def _dram(v: Values) -> tuple[float, str]:
    share = v[f"gpu__dram_throughput{ELAPSED}"]
    moved = " ".join(with_unit(v["dram__bytes.sum.per_second"], "byte/second"))
    useful = v["tailwave__dram_useful_bytes.pct"]
    asked = "" if math.isnan(useful) else f", {percent_text(useful)} of the bytes were asked for"
    hits = v["tailwave__dram_row_hit_rate.pct"]
    rows = "" if math.isnan(hits) else f", row hits {percent_text(hits)}"
    return share / 100, f"DRAM-bound: {percent_text(share)} of the peak, {moved}{asked}{rows}"


def _l2(v: Values) -> tuple[float, str]:
    share = v[f"lts__throughput{ELAPSED}"]
    text = f"L2-bound: {percent_text(share)} of the peak, hit rate {percent_text(v['lts__t_sector_hit_rate.pct'])}"
    return share / 100, text + _scattered(v)


def _scattered(v: Values) -> str:
    """The cost of scattered global accesses, where there is one."""
    sectors = v["memory_l2_theoretical_sectors_global"]
    ideal = v["memory_l2_theoretical_sectors_global_ideal"]
    if not ideal or sectors < 1.25 * ideal:
        return ""
    return f"; global accesses take {sectors / ideal:.1f} times the sectors that dense ones would"


def _l1(v: Values) -> tuple[float, str]:
    share = v[f"l1tex__throughput{ELAPSED}"]
    passes = v["l1tex__data_pipe_lsu_wavefronts.sum"]
    shared = v["memory_l1_wavefronts_shared"]
    excess = v["derived__memory_l1_wavefronts_shared_excessive"]
    if passes and shared / passes > 0.5:
        text = f"Shared-memory-bound: {percent_text(share)} of the peak"
        if excess / shared > 0.1:
            text += f"; bank conflicts make {percent_text(100 * excess / shared)} of the wavefronts"
        return share / 100, text
    return share / 100, f"L1-bound: {percent_text(share)} of the peak" + _scattered(v)


def _pipe(v: Values) -> tuple[float, str]:
    shares = {label: v[f"sm__pipe_{pipe}_cycles_active{ELAPSED}"] for pipe, label in CYCLE_PIPES.items()}
    for pipe, label in {"xu": "XU", "fp16": "FP16", "lsu": "LSU", "uniform": "Uniform", "adu": "ADU"}.items():
        shares[label] = v[f"sm__inst_executed_pipe_{pipe}{ELAPSED}"]
    label = max(shares, key=lambda name: -1.0 if math.isnan(shares[name]) else shares[name])
    share = shares[label]
    text = f"Compute-bound: the {label} pipe is busy {percent_text(share)} of the time"
    threads = v["smsp__thread_inst_executed_per_inst_executed.ratio"]
    if threads < 28:
        text += f", with {threads:.1f} of 32 threads active an instruction"
    return share / 100, text


def _issue(v: Values) -> tuple[float, str]:
    share = v[f"sm__issue_active{ELAPSED}"]
    return share / 100, (
        f"Issue-bound: {percent_text(share)} of the issue slots are used; only fewer instructions help"
    )


def _block_starts(v: Values) -> tuple[float, str]:
    share = v["tailwave__block_starts.pct"]
    return share / 100, (
        f"Block-start-bound: {number(v['launch__grid_size'])} blocks of {number(v['launch__block_size'])} threads "
        f"take the block scheduler {percent_text(share)} of the time to start; give each block more work"
    )


def top_stall(v: Values) -> tuple[Stall, float]:
    """The reason that warps waited for most, and its share of all warp-cycles."""
    total = v["smsp__pcsamp_sample_count"]
    waits = [reason for reason in Stall if reason not in NOT_WAITING]
    top = max(waits, key=lambda reason: v[cycles_name(reason)])
    return top, v[cycles_name(top)] / total if total else 0.0


def _latency(v: Values) -> tuple[float, str]:
    reason, share = top_stall(v)
    about = REASONS[reason]
    eligible = v["smsp__warps_eligible.avg.per_cycle_active"]
    text = (
        f"Latency-bound: warps spend {percent_text(100 * share)} of their cycles in {about.label} "
        f"({about.meaning}); {number(eligible)} warps a scheduler are eligible"
    )
    return share, text + _few_warps(v)


def _few_warps(v: Values) -> str:
    """Why there are few warps to hide latency, where there are few."""
    theoretical = v["sm__maximum_warps_per_active_cycle_pct"]
    if v["launch__waves_per_multiprocessor"] < 1:
        share = 100 * v["launch__waves_per_multiprocessor"]
        return f"; the grid fills {percent_text(share)} of one wave"
    if theoretical <= 50:
        return f"; occupancy is at most {percent_text(theoretical)}, limited by {limiter(v)}"
    return ""


def limiter(v: Values) -> str:
    """What bounds the blocks on an SM, in words; more than one where they tie."""
    limits = {
        "registers": v["launch__occupancy_limit_registers"],
        "shared memory": v["tailwave__occupancy_limit_shared_mem_largest"],
        "warp slots": v["launch__occupancy_limit_warps"],
        "block slots": v["launch__occupancy_limit_blocks"],
    }
    least = min(limits.values())
    return " and ".join(word for word, limit in limits.items() if limit == least)


RULES: tuple[Rule, ...] = (
    Rule("launch", 1, 0.5, "launch and drain cycles over elapsed cycles", _launch),
    Rule("small grid", 1, 0.25, "SMs without a block, where there are fewer blocks than SMs", _small_grid),
    Rule("tail", 1, 0.25, "SM cycles idle after an SM's last block, where every SM has a block", _tail),
    Rule("DRAM", 2, 0.6, f"gpu__dram_throughput{ELAPSED}", _dram),
    Rule("L2", 2, 0.6, f"lts__throughput{ELAPSED}", _l2),
    Rule("L1 and shared memory", 2, 0.6, f"l1tex__throughput{ELAPSED}", _l1),
    Rule("pipe", 2, 0.6, "the busiest execution pipe over the elapsed time", _pipe),
    Rule("issue", 2, 0.7, f"sm__issue_active{ELAPSED}", _issue),
    Rule("block start", 2, 0.6, "tailwave__block_starts.pct", _block_starts),
    Rule("latency", 3, 0.0, "the top stall reason's share of warp-cycles", _latency),
)


def judge(values: Values) -> Verdict:
    """The verdict on a launch with these metrics."""
    for stage in sorted({rule.stage for rule in RULES}):
        findings = [(rule, *rule.find(values)) for rule in RULES if rule.stage == stage]
        firing = [(rule, score, text) for rule, score, text in findings if score >= rule.threshold]
        if firing:
            rule, score, text = max(firing, key=lambda finding: finding[1])
            return Verdict(rule.name, min(score, 1.0), text)
    raise AssertionError("the last rule has no threshold")
