"""Stall bars, pipes, memory chart, roofline and occupancy curves: what they show is what the metrics say."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import sim
from sim.counters import Stall
from sim.occupancy import occupancy
from sim.plot.bars import draw_pipes, draw_stalls
from sim.plot.memory import draw_memory, flows_of, units_of
from sim.plot.occupancy import draw_occupancy, what_if
from sim.plot.roofline import ceilings, draw_roofline, points_of
from sim.profile import load_profile
from sim.report.flops import flops
from sim.report.stalls import ratio_name
from tests.core.launches import small
from tests.plot.pictures import overlaps, texts
from workloads import matmul, memory, tensor


@cache
def tiled() -> sim.Report:
    return sim.simulate(matmul.tiled(64, tile=16), gpu=small())


@cache
def gemm() -> sim.Report:
    return sim.simulate(tensor.gemm(256), gpu=small())


def test_stall_bars_are_the_ratios_longest_first() -> None:
    bars = draw_stalls(tiled()).axes[0].patches
    widths = [bar.get_width() for bar in bars]
    ratios = sorted((tiled()[ratio_name(reason)] for reason in Stall), reverse=True)
    assert widths == ratios[: len(widths)] and sum(widths) > 0.97 * sum(ratios)


def test_pipe_bars_are_the_shares() -> None:
    figure = draw_pipes(gemm())
    widths = [bar.get_width() for bar in figure.axes[0].patches][1::2]
    assert widths == sorted(widths, reverse=True)
    assert gemm()["sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"] == widths[0]
    assert f"{gemm()['sm__inst_executed_pipe_tensor.sum']:,}" in texts(figure)


def test_the_memory_chart_shows_what_moved() -> None:
    report = gemm()
    flows = {(flow.start, flow.end): flow for flow in flows_of(report)}
    read, written = report["dram__bytes_read.sum"], report["dram__bytes_write.sum"]
    assert flows["Device memory", "L2 cache"].text == f"{read / 1e3:.2f} KB"
    assert written == 0 and flows["L2 cache", "Device memory"].text == "0 B"
    asked = sum(report[f"l1tex__t_requests_pipe_lsu_mem_global_op_{k}.sum"] for k in ("ld", "st", "ldgsts"))
    assert flows["Global", "L1/TEX cache"].text == f"{asked:,} req"
    hits = {unit.name: unit.hit_rate for unit in units_of(report) if unit.hit_rate is not None}
    assert hits == {
        "L1/TEX cache": report["l1tex__t_sector_hit_rate.pct"],
        "L2 cache": report["lts__t_sector_hit_rate.pct"],
    }
    shown = texts(draw_memory(report))
    assert {flow.text for flow in flows.values()} <= set(shown)
    assert f"hit rate\n{hits['L2 cache']:.1f} %" in shown
    assert f"{report['smsp__inst_executed_op_ldgsts.sum']:,} asynchronous copies" in shown


def test_a_product_does_two_operations_a_multiply_and_add() -> None:
    fp32 = flops(tiled())["fp32"]
    assert 2 * 64**3 == fp32
    assert flops(gemm()) == {"tensor_bf16": 2 * 256**3}
    assert flops(sim.simulate(memory.transpose(32, "tiled"), gpu=small())) == {}


def test_ceilings_are_the_vendor_s_numbers() -> None:
    h200 = ceilings(load_profile("h200"))
    assert h200.compute["fp32"] == pytest.approx(66.9e12, rel=1e-3)  # NVIDIA: 67 TFLOPS
    assert h200.compute["tensor_bf16"] == pytest.approx(1070e12, rel=1e-2)  # at 1,980 MHz; NVIDIA: 989 at 1,830
    assert h200.bandwidth["DRAM"] == pytest.approx(4.8e12, rel=1e-2)  # NVIDIA: 4.8 TB/s
    assert "tensor_fp8" not in ceilings(load_profile("v100_sxm2")).compute


@pytest.mark.parametrize("report", [tiled, gemm])
def test_points_are_work_over_bytes_and_lie_below_the_ceilings(report) -> None:
    report = report()
    work, top = sum(flops(report).values()), ceilings(report.profile)
    metric = {"L1": "l1tex__t_bytes.sum", "L2": "lts__t_bytes.sum", "DRAM": "dram__bytes.sum"}
    points = points_of(report)
    assert {point.level for point in points} == set(metric)
    for point in points:
        assert point.intensity == work / report[metric[point.level]]
        assert point.rate == pytest.approx(work / report.seconds)
        assert point.rate <= min(top.bandwidth[point.level] * point.intensity, max(top.compute.values()))
    drawn = [
        line.get_xydata()[0].tolist() for line in draw_roofline(report).axes[0].lines if len(line.get_xdata()) == 1
    ]
    assert drawn == [[point.intensity, point.rate] for point in points]


def test_several_reports_share_a_roofline() -> None:
    assert overlaps(draw_roofline(tiled(), tiled(), gemm(), tiled())) == []
    shown = texts(draw_roofline(gemm(), tiled()))
    assert {"1", "2"} <= set(shown)
    assert [text[:3] for text in shown if "FLOP a byte:" in text] == ["1: ", "2: "]


def test_what_if_curves_change_one_quantity_and_keep_the_others() -> None:
    h200 = load_profile("h200")
    frames = what_if(h200, 256, 64, 20_000)
    assert len(frames["registers"]) == 255 and len(frames["threads"]) == 32
    for name, kernel in {
        "registers": (256, None, 20_000),
        "shared": (256, 64, None),
        "threads": (None, 64, 20_000),
    }.items():
        for value, warps in zip(frames[name]["value"], frames[name]["warps"], strict=True):
            fit = occupancy(h200, *(int(value) if part is None else part for part in kernel))
            assert fit.warps_per_sm == warps


def test_the_dot_is_the_kernel_s_own_occupancy() -> None:
    figure = draw_occupancy(tiled())
    warps = tiled()["sm__maximum_warps_avg_per_active_cycle"]
    own = [axes.lines[1].get_xydata()[0].tolist() for axes in figure.axes]
    shared = tiled()["launch__shared_mem_per_block_static"] / 1024
    assert own == [[tiled()["launch__registers_per_thread"], warps], [shared, warps], [256, warps]]
    for axes, (x, _) in zip(figure.axes, own, strict=True):
        curve = axes.lines[0].get_xydata()
        assert curve[np.abs(curve[:, 0] - x).argmin(), 1] == warps
