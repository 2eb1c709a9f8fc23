"""Metrics of the hand-made launch, each worked out by hand; names; what may never happen to a value."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.counters import Inst, Mem, Sm, Stall
from sim.report.metric import PREFIX
from sim.report.metrics import ABSENT, BREAKDOWNS, METRICS, TABLE, why_absent
from sim.report.sections import PAGE, TITLES
from sim.report.stalls import REASONS, cycles_name, ratio_name

ELAPSED = ".avg.pct_of_peak_sustained_elapsed"
ACTIVE = ".avg.pct_of_peak_sustained_active"

#: The plain launch of conftest.py: 1,000 cycles at 1 GHz on 4 SMs of 4 sub-cores, 800 active cycles each.
EXPECTED = {
    "sm__cycles_elapsed.max": 1000,
    "gpc__cycles_elapsed.max": 1000,
    "gpu__time_duration.sum": 1000.0,
    "gpc__cycles_elapsed.avg.per_second": 1e9,
    "sm__cycles_active.avg": 800.0,
    "sm__cycles_active.max": 800,
    "sm__cycles_active.sum": 3200,
    "smsp__cycles_active.sum": 12800,
    "sm__cycles_elapsed.sum": 4000,
    # instructions: 7 of 100 warps
    "inst_executed": 700,
    "smsp__inst_executed.sum": 700,
    "smsp__inst_executed.avg": 700 / 16,
    "sm__inst_executed.avg.per_cycle_elapsed": 700 / 4000,
    "sm__inst_executed.avg.per_cycle_active": 700 / 3200,
    "smsp__thread_inst_executed.sum": 22400,
    "smsp__thread_inst_executed_per_inst_executed.ratio": 32.0,
    "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio": 20800 / 700,
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 3200,
    # issue: 700 of 12,800 active sub-core cycles, 16,000 elapsed ones
    f"smsp__issue_active{ACTIVE}": 100 * 700 / 12800,
    f"smsp__issue_inst0{ACTIVE}": 100 - 100 * 700 / 12800,
    f"sm__inst_issued{ELAPSED}": 100 * 700 / 16000,
    "sm__inst_issued.max.pct_of_peak_sustained_elapsed": 100 * 175 / 4000,
    "smsp__warps_active.avg.per_cycle_active": 20000 / 12800,
    "smsp__warps_eligible.avg.per_cycle_active": 1000 / 12800,
    "smsp__average_warp_latency_per_inst_issued.ratio": 20000 / 700,
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": 15000 / 700,
    "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio": 1.0,
    # pipes: FFMA on both halves, 60 heavy and 40 lite by the busy cycles
    "sm__inst_executed_pipe_fma.sum": 100,
    "sm__inst_executed_pipe_fmaheavy.sum": 60,
    "sm__inst_executed_pipe_cbu.sum": 200,
    "sm__inst_executed_pipe_lsu.sum": 400,
    f"sm__pipe_fma_cycles_active{ELAPSED}": 100 * 200 / 32000,
    f"sm__pipe_fmaheavy_cycles_active{ELAPSED}": 100 * 120 / 16000,
    f"sm__inst_executed_pipe_lsu{ELAPSED}": 100 * 400 * 4 / 16000,
    f"sm__throughput{ELAPSED}": 10.0,
    # L1 and shared memory
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 100,
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 400,
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum": 100,
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_miss.sum": 300,
    "l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct": 25.0,
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio": 16.0,
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": 32.0,
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio": 8.0,
    "l1tex__t_sector_hit_rate.pct": 5.0,
    "l1tex__data_pipe_lsu_wavefronts.sum": 1000,
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": 400,
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": 300,
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": 0,
    "derived__memory_l1_conflicts_shared_nway": 500 / 200,
    "memory_l2_theoretical_sectors_global": 2000,
    "memory_l2_theoretical_sectors_global_ideal": 800,
    "memory_l1_tag_requests_global": 500,
    f"l1tex__data_pipe_lsu_wavefronts{ELAPSED}": 25.0,
    f"l1tex__m_xbar2l1tex_read_sectors{ELAPSED}": 100 * 300 * 32 / (4000 * 64),
    f"l1tex__throughput{ACTIVE}": 100 * 1600 * 32 / (3200 * 32),
    # L2 and DRAM: 64 bytes a cycle each
    "lts__t_sectors.sum": 1900,
    "lts__t_sector_hit_rate.pct": 100 * 1700 / 1900,
    "lts__t_sector_op_read_hit_rate.pct": 100 / 3,
    f"lts__t_sectors{ELAPSED}": 95.0,
    f"lts__throughput{ELAPSED}": 95.0,
    "dram__bytes_read.sum": 6400,
    "dram__bytes.sum": 9600,
    "dram__bytes.sum.per_second": 9.6e9,
    f"dram__bytes{ELAPSED}": 15.0,
    f"dram__cycles_active{ELAPSED}": 15.0,
    "dram__cycles_active.avg": 150.0,
    "dram__cycles_active.max": 200,
    f"gpu__compute_memory_throughput{ELAPSED}": 95.0,
    "tailwave__dram_row_hit_rate.pct": 80.0,
    "tailwave__dram_useful_bytes.pct": 75.0,
    # launch: 100 blocks of a warp, 32 blocks an SM
    "launch__grid_size": 100,
    "launch__thread_count": 3200,
    "launch__waves_per_multiprocessor": 100 / 128,
    "launch__registers_per_thread": 32,
    "launch__shared_mem_per_block_static": 1024,
    "launch__shared_mem_per_block_allocated": 2048,
    "launch__occupancy_limit_blocks": 32,
    "launch__occupancy_limit_warps": 64,
    "sm__maximum_warps_per_active_cycle_pct": 50.0,
    f"sm__warps_active{ACTIVE}": 100 * 20000 / (3200 * 64),
    "tailwave__waves": 1,
    "tailwave__launch_cycles.pct": 15.0,
    "tailwave__block_starts.pct": 5.0,
    # branches: BRA and EXIT
    "smsp__inst_executed_op_branch.sum": 200,
    "sm__sass_branch_targets.sum": 100,
    "sm__sass_branch_targets_threads_divergent.sum": 50,
    "smsp__sass_average_branch_targets_threads_uniform.pct": 50.0,
}

#: The counters that the measured card's table holds (tests/silicon), without the two of its own clocks.
CARD_COUNTERS = """
gpu__time_duration.sum sm__cycles_elapsed.max sm__cycles_active.avg sm__cycles_active.max lts__cycles_elapsed.max
smsp__inst_executed.sum smsp__inst_issued.sum smsp__thread_inst_executed.sum
smsp__thread_inst_executed_per_inst_executed.ratio smsp__thread_inst_executed_pred_on_per_inst_executed.ratio
smsp__issue_active.avg.pct_of_peak_sustained_active sm__warps_active.avg.pct_of_peak_sustained_active
sm__maximum_warps_per_active_cycle_pct smsp__warps_eligible.avg.per_cycle_active launch__registers_per_thread
launch__waves_per_multiprocessor launch__occupancy_limit_blocks launch__occupancy_limit_registers
launch__occupancy_limit_shared_mem launch__occupancy_limit_warps launch__shared_mem_per_block_static
launch__shared_mem_per_block_dynamic launch__shared_mem_per_block_driver launch__shared_mem_config_size
launch__grid_size launch__block_size l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum
l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum
l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_miss.sum l1tex__t_requests_pipe_lsu_mem_global_op_st.sum
l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum l1tex__m_xbar2l1tex_read_sectors.sum
l1tex__data_pipe_lsu_wavefronts.sum l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum
l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum
l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum smsp__inst_executed_op_shared_ld.sum
smsp__inst_executed_op_shared_st.sum smsp__inst_executed_op_global_ld.sum smsp__inst_executed_op_global_st.sum
lts__t_sectors_op_read.sum lts__t_sectors_op_write.sum lts__t_sectors_op_atom.sum lts__t_sectors_op_red.sum
lts__t_sectors_srcunit_tex.sum lts__t_sectors_srcunit_tex_lookup_hit.sum lts__t_sectors_srcunit_tex_lookup_miss.sum
lts__t_requests_srcunit_tex.sum dram__sectors_read.sum dram__sectors_write.sum dram__bytes_read.sum
dram__bytes_write.sum smsp__inst_executed_op_branch.sum sm__inst_executed_pipe_fma.sum
sm__inst_executed_pipe_fmaheavy.sum sm__inst_executed_pipe_alu.sum sm__inst_executed_pipe_lsu.sum
sm__inst_executed_pipe_xu.sum sm__inst_executed_pipe_tensor.sum sm__inst_executed_pipe_cbu.sum
sm__inst_executed_pipe_adu.sum sm__inst_executed_pipe_uniform.sum sm__sass_branch_targets_threads_divergent.sum
sm__sass_branch_targets.sum smsp__average_warp_latency_per_inst_issued.ratio launch__registers_per_thread_allocated
launch__shared_mem_per_block_allocated
""".split()


@pytest.mark.parametrize("name", EXPECTED)
def test_metric_is_what_hand_calculation_gives(report, name):
    assert report[name] == pytest.approx(EXPECTED[name])


@pytest.mark.parametrize("name", [*CARD_COUNTERS, *map(ratio_name, Stall)])
def test_every_counter_of_the_measured_card_is_given(report, name):
    assert name in report


def test_names_are_nsights_or_marked_as_our_own():
    units = ("sm__", "smsp__", "gpc__", "gpu__", "l1tex__", "lts__", "dram__", "launch__", "derived__", "memory_")
    plain = ("inst_executed", "thread_inst_executed", "thread_inst_executed_true")
    assert [m.name for m in METRICS if not m.name.startswith((*units, PREFIX)) and m.name not in plain] == []


def test_every_metric_says_what_it_means_in_a_sentence():
    assert [
        m.name for m in METRICS if not (m.meaning[:1].isupper() or m.meaning[:1].isdigit()) or m.meaning[-1] != "."
    ] == []


def test_every_section_has_a_title():
    assert {m.section for m in METRICS} <= set(TITLES)


def test_the_page_shows_only_known_metrics():
    shown = [name for section in PAGE for name in section.rows]
    shown += [name for s in PAGE for grid in s.grids for _, cells in grid.rows for name in cells if name]
    shown += [part for parts in BREAKDOWNS.values() for part in parts]
    assert [name for name in shown if name not in TABLE] == []


def test_a_misspelt_name_gets_near_ones(report):
    with pytest.raises(KeyError, match="did you mean 'sm__cycles_elapsed.max'"):
        report["sm__cycles_elapsed.mx"]


def test_a_unit_that_the_model_lacks_is_named(report):
    with pytest.raises(KeyError, match="no tensor memory accelerator"):
        report[f"sm__inst_executed_pipe_tma{ELAPSED}"]


@pytest.mark.parametrize(
    "name",
    [f"sm__pipe_tc_cycles_active{ELAPSED}", "pcie__read_bytes.sum.per_second", "launch__cluster_scheduling_policy"],
)
def test_absent_names_have_a_reason(name):
    assert why_absent(name) in ABSENT.values()


def test_the_parts_of_a_throughput_are_sorted_and_the_first_is_the_throughput(report):
    name = f"gpu__compute_memory_throughput{ELAPSED}"
    parts = report.breakdown(name)
    assert parts["value"].iloc[0] == report[name]
    assert parts["value"].is_monotonic_decreasing


def test_a_hit_rate_of_no_accesses_is_not_a_number(report):
    assert math.isnan(report["l1tex__t_sector_pipe_lsu_mem_local_op_ld_hit_rate.pct"])


def test_every_stall_reason_has_a_name_a_meaning_and_metrics(report):
    assert set(REASONS) == set(Stall)
    assert all(ratio_name(reason) in report and cycles_name(reason) in report for reason in Stall)


def random_launches():
    """Executed instructions, warp-cycles by stall reason, and a share in percent."""
    counts = st.integers(0, 10**6)
    return st.tuples(
        st.lists(counts, min_size=7, max_size=7), st.lists(counts, min_size=19, max_size=19), st.integers(0, 99)
    )


@settings(max_examples=30, deadline=None)
@given(random_launches())
def test_stall_reasons_add_up_to_the_warp_cycles(make_report, make_result, launch):
    executed, stalls, _ = launch
    stall = np.zeros((7, len(Stall)), np.int64)
    stall[0] = stalls
    sm = make_result().sm.copy()
    sm[:, Sm.WARPS] = 0
    sm[0, Sm.WARPS] = sum(stalls)
    report = make_report(stall=stall, sm=sm)
    total = sum(report[ratio_name(reason)] for reason in Stall)
    latency = report["smsp__average_warp_latency_per_inst_issued.ratio"]
    assert total == pytest.approx(latency)
    assert sum(report[cycles_name(reason)] for reason in Stall) == report["smsp__pcsamp_sample_count"] == sum(stalls)


@settings(max_examples=30, deadline=None)
@given(random_launches())
def test_percentages_stay_between_0_and_100(make_report, make_result, launch):
    executed, _, share = launch
    plain = make_result()
    inst = plain.inst.copy()
    cycles = 4 * max(executed) + 1000  # an LSU takes one instruction in four cycles
    inst[:, Inst.EXECUTED] = inst[:, Inst.ISSUED] = executed
    inst[:, Inst.SECTORS] = inst[:, Inst.REQUESTS] = executed
    inst[:, Inst.HIT_SECTORS] = np.array(executed) * share // 100
    inst[:, Inst.BRANCHES_DIVERGENT] = 0
    sm = plain.sm.copy()
    sm[:, Sm.ACTIVE] = cycles
    sm[:, Sm.ISSUE_ACTIVE] = sum(executed) // 4
    mem = plain.mem * share // 100
    mem[Mem.L2_READ_HIT] = min(mem[Mem.L2_READ_HIT], mem[Mem.L2_READ])
    report = make_report(inst=inst, sm=sm, mem=mem, cycles=cycles)
    wrong = {
        m.name: report[m.name]
        for m in METRICS
        if m.unit == "%" and not math.isnan(report[m.name]) and not -1e-9 <= report[m.name] <= 100 + 1e-9
    }
    assert wrong == {}


def test_more_cycles_at_the_same_counts_lower_every_share_of_the_elapsed_time(make_report):
    fast, slow = make_report(), make_report(cycles=2000)
    names = [m.name for m in METRICS if m.name.endswith(ELAPSED) and fast[m.name] > 0]
    assert names and all(slow[name] == pytest.approx(fast[name] / 2) for name in names)


def test_results_are_not_changed(make_result, profile):
    from sim.occupancy import occupancy
    from sim.report import Report

    result = make_result()
    before = {f.name: np.copy(getattr(result, f.name)) for f in dataclasses.fields(result) if f.name in ("inst", "sm")}
    str(Report(result, profile, occupancy(profile, 32, 32)))
    assert all((getattr(result, name) == value).all() for name, value in before.items())
