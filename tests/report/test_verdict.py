"""Each rule decides where it should, with its numbers in the sentence; stages and thresholds are kept."""

import numpy as np
import pytest

from sim.counters import Inst, Mem, Sm, Stall
from sim.isa import Pipe
from sim.report.verdict import RULES, judge, limiter

ELAPSED = ".avg.pct_of_peak_sustained_elapsed"


@pytest.fixture(scope="module")
def quiet(report):
    """Metrics of a launch that no rule of the first two stages finds anything in."""
    return dict(report.values) | {f"lts__throughput{ELAPSED}": 10.0}


def test_a_busy_unit_bounds_the_kernel(report):
    assert report.verdict.rule == "L2"
    assert report.verdict.score == pytest.approx(0.95)
    assert report.verdict.text.startswith("L2-bound: 95 % of the peak, hit rate 89 %")


def test_launch_and_drain_bound_a_tiny_kernel(make_report):
    verdict = make_report(launch_cycles=700).verdict
    assert (verdict.rule, verdict.score) == ("launch", 0.7)
    assert "700 of 1,000 cycles (70 %)" in verdict.text


def test_fewer_blocks_than_sms_leave_sms_without_work(make_report):
    blocks = np.array([(0, 100, 900)], np.int64)
    verdict = make_report(grid=(1, 1, 1), blocks=blocks).verdict
    assert verdict.rule == "small grid"
    assert "1 block for 4 SMs, 75 % of them have no work" in verdict.text


def test_a_last_wave_of_few_blocks_is_a_tail(make_report):
    first = [(k % 4, 100, 500) for k in range(128)]
    blocks = np.array([*first, (0, 500, 900)], np.int64)
    verdict = make_report(grid=(129, 1, 1), blocks=blocks).verdict
    assert verdict.rule == "tail"
    assert verdict.score == pytest.approx(0.75 * 400 / 800)
    assert "the last of 2 waves has 1 of 128 blocks (utilization 0.8 %), 300 cycles an SM (38 %)" in verdict.text


def test_uneven_blocks_in_one_wave_are_a_tail(make_report):
    blocks = np.array([(0, 100, 900)] + [(k % 4, 100, 300) for k in range(99)], np.int64)
    assert "single wave" in make_report(blocks=blocks).verdict.text


def test_dram_near_its_peak_bounds(make_report, make_result):
    mem = make_result().mem.copy()
    mem[[Mem.L2_WRITE, Mem.L2_WRITE_HIT]] = 0
    mem[Mem.DRAM_READ_BURSTS] = 1400
    verdict = make_report(mem=mem).verdict
    assert verdict.rule == "DRAM"
    assert verdict.text.startswith("DRAM-bound: 75 % of the peak, 48.00 Gbyte/s")


def test_bank_conflicts_are_named_where_shared_memory_bounds(make_report, make_result):
    plain = make_result()
    sm, inst, mem = plain.sm.copy(), plain.inst.copy(), plain.mem.copy()
    sm[:, Sm.L1_DATA] = 900
    inst[4, [Inst.WAVEFRONTS, Inst.IDEAL_WAVEFRONTS]] = 100
    mem[[Mem.L2_WRITE, Mem.L2_WRITE_HIT]] = 0
    verdict = make_report(sm=sm, inst=inst, mem=mem).verdict
    assert verdict.rule == "L1 and shared memory"
    assert verdict.text == "Shared-memory-bound: 90 % of the peak; bank conflicts make 60 % of the wavefronts"


def test_a_full_pipe_is_named(make_report, make_result):
    plain = make_result()
    sm, mem = plain.sm.copy(), plain.mem * 0
    sm[:, Sm.PIPE + Pipe.TENSOR] = 3600
    verdict = make_report(sm=sm, mem=mem).verdict
    assert verdict.rule == "pipe"
    assert verdict.text.startswith("Compute-bound: the Tensor (All) pipe is busy 90 % of the time")


def test_full_issue_slots_bound(make_report, make_result):
    sm = make_result().sm.copy()
    sm[:, Sm.ISSUE_ACTIVE] = 3600
    assert make_report(sm=sm, mem=make_result().mem * 0).verdict.rule == "issue"


def test_many_small_blocks_are_bound_by_their_start(quiet):
    assert judge(quiet | {"tailwave__block_starts.pct": 80.0}).rule == "block start"


def test_otherwise_the_top_stall_reason_says_what_warps_wait_for(quiet):
    verdict = judge(quiet)
    assert (verdict.rule, verdict.score) == ("latency", 0.75)
    assert "75 % of their cycles in Stall Long Scoreboard (waits for data from global or local memory)" in verdict.text


def test_few_waves_explain_latency(quiet):
    assert judge(quiet).text.endswith("the grid fills 78 % of one wave")


def test_low_occupancy_explains_latency(quiet):
    text = judge(quiet | {"launch__waves_per_multiprocessor": 4.0}).text
    assert text.endswith("occupancy is at most 50 %, limited by block slots")


def test_ties_name_all_limiters(quiet):
    assert limiter(quiet | {"launch__occupancy_limit_registers": 32}) == "registers and block slots"


def test_an_earlier_stage_decides_before_a_higher_score_of_a_later_one(quiet):
    values = quiet | {"tailwave__launch_cycles.pct": 55.0, f"lts__throughput{ELAPSED}": 99.0}
    assert judge(values).rule == "launch"


def test_within_a_stage_the_highest_score_decides(quiet):
    values = quiet | {f"lts__throughput{ELAPSED}": 70.0, f"gpu__dram_throughput{ELAPSED}": 80.0}
    assert judge(values).rule == "DRAM"


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.name in ("DRAM", "L2", "L1 and shared memory")])
def test_throughput_rules_decide_from_their_threshold_on(quiet, rule):
    name = rule.looks_at
    assert judge(quiet | {name: 59.9}).rule == "latency"
    assert judge(quiet | {name: 60.0}).rule == rule.name


def test_a_launch_without_any_counts_gets_a_verdict(make_report, make_result):
    plain = make_result()
    nothing = {name: getattr(plain, name) * 0 for name in ("inst", "stall", "sm", "mem", "dram_channel_busy")}
    assert make_report(**nothing).verdict.rule == "latency"


def test_selected_and_ready_warps_are_no_stall(quiet):
    from sim.report.stalls import cycles_name
    from sim.report.verdict import top_stall

    assert top_stall(quiet | {cycles_name(Stall.NOT_SELECTED): 10**9})[0] is Stall.LONG_SCOREBOARD
