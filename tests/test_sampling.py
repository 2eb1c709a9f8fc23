"""Sampled launches: near the full ones, counted without contradiction, and refused where a part is not enough."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

import sim
from sim import sampling
from sim.cli import app
from sim.counters import Inst, Mem
from sim.device import Device
from sim.launch import LaunchError
from sim.report import Report
from sim.sweeps import SweepError
from tests.core.launches import Recorded, run
from tests.core.test_accounting import check_blocks, check_counts
from workloads import matmul, memory, shared


@sim.kernel
def spin(k, trips, y):
    """A block's threads do as many rounds as `trips` says for the block."""
    n = trips[k.block_idx.x]
    total = k.var(0.0)
    for _ in k.range_(n):
        total.set(total * 1.0001 + 1.0)
    y[k.block_idx.x * k.block_dim.x + k.thread_idx.x] = total


@sim.kernel
def ticket(k, count, y):
    """Each block takes a number."""
    with k.if_(k.thread_idx.x == 0):
        y[k.block_idx.x] = k.atomic_add(count, 0, 1)


def spinning(trips) -> sim.Launch:
    trips = np.asarray(trips, np.int32)
    return spin.launch(len(trips), 64, args=(trips, sim.zeros(64 * len(trips))))


KERNELS = {
    "copy": lambda: memory.copy(1 << 18),
    "strided": lambda: memory.strided(1 << 16, 8),
    "naive": lambda: matmul.naive(192),
    "tiled": lambda: matmul.tiled(256, tile=16),
    "reduction": lambda: shared.reduction(1 << 17, "sequential"),
    "spin": lambda: spinning([200] * 1500),
}
#: Bounds of the differences on the toy GPU, whose waves are of 8 blocks: of cycles, work, and sectors asked of L2.
CYCLES, WORK, SECTORS = 0.04, 0.01, 0.05
#: Short blocks of equal work, 8 at a time, drift in and out of step: a full launch's own rate varies by 10 %.
DRIFTING = {"reduction": 0.08, "spin": 0.08}


def sampled(launch: sim.Launch, **options):
    device = Recorded("toy", **options)
    report = device.launch(launch, flush=True, detail="sampled")
    return report, device


@pytest.mark.parametrize("name", KERNELS)
def test_sampled_is_near_full(name):
    full, _ = run(KERNELS[name](), flush=True, detail="full")
    report, device = sampled(KERNELS[name]())
    result = device.result
    assert 0 < report["tailwave__sampled_blocks.pct"] < 25
    assert result.cycles == pytest.approx(full.cycles, rel=DRIFTING.get(name, CYCLES))
    work = [Inst.EXECUTED, Inst.THREADS, Inst.THREADS_ON, Inst.REQUESTS, Inst.SECTORS, Inst.WAVEFRONTS]
    np.testing.assert_allclose(result.inst[:, work].sum(axis=0), full.inst[:, work].sum(axis=0), rtol=WORK)
    asked = [Mem.XBAR_READ, Mem.XBAR_WRITE, Mem.L2_READ, Mem.L2_WRITE]
    np.testing.assert_allclose(result.mem[asked], full.mem[asked], rtol=SECTORS)


@pytest.mark.parametrize("name", KERNELS)
def test_counts_of_a_sampled_launch_agree_with_each_other(name):
    _, device = sampled(KERNELS[name]())
    result = device.result
    check_counts(result)
    check_blocks(result)
    mem = result.mem
    assert mem[Mem.L2_READ_HIT] <= mem[Mem.L2_READ] and mem[Mem.L2_TEX_HIT] <= mem[Mem.L2_TEX]
    rows = mem[[Mem.DRAM_ROW_HIT, Mem.DRAM_ROW_MISS, Mem.DRAM_ROW_CONFLICT]].sum()
    waiting = mem[Mem.DRAM_READ_BURSTS] + mem[Mem.DRAM_WRITE_BURSTS] - rows  # writes in the queues at the end
    dram, line = device.profile.dram, device.profile.l2.line_bytes
    assert 0 <= waiting <= dram.channels * dram.write_queue_entries * line // dram.burst_bytes
    assert mem[Mem.DRAM_CYCLES_BUSY] == result.dram_channel_busy.sum()
    assert device.env.now == result.cycles  # the device's clock has moved over the skipped blocks


@pytest.mark.parametrize("threads", [1, 2])
def test_a_sampled_launch_gives_the_same_bytes_again_and_on_two_threads(threads):
    assert sampled(KERNELS["copy"](), threads=threads)[0].to_json() == sampled(KERNELS["copy"]())[0].to_json()


def test_the_next_launch_on_the_device_is_counted_from_its_own_start():
    device = Device("toy")
    device.launch(KERNELS["copy"](), detail="sampled")
    report = device.launch(memory.copy(2000), flush=True)
    assert report.cycles == pytest.approx(sim.simulate(memory.copy(2000), gpu="toy").cycles, rel=0.05)


def test_the_report_says_what_ran():
    report, _ = sampled(KERNELS["copy"]())
    share, spread = (report[f"tailwave__sampled_{name}.pct"] for name in ("blocks", "block_time_spread"))
    note = f"Sampled: {share:.1f} % of blocks ran, block time spread {spread:.0f} %"
    assert note in str(report) and note in report._repr_html_()
    again = Report.from_json(report.to_json())
    assert again.header.notes == (note,) and again.to_json() == report.to_json()
    assert again["tailwave__sampled_blocks.sum"] == report["tailwave__sampled_blocks.sum"] < 1024


def test_full_and_small_launches_say_nothing_and_are_the_same():
    launch = KERNELS["copy"]()
    full, auto = (sim.simulate(launch, gpu="toy", detail=detail) for detail in ("full", "auto"))
    assert full.to_json() == auto.to_json()
    assert full.header.notes == () and full["tailwave__sampled_blocks.pct"] == 100


def test_auto_samples_above_its_threshold(monkeypatch):
    instructions = sim.simulate(KERNELS["copy"](), gpu="toy")["smsp__inst_executed.sum"]
    for threshold, below in ((instructions // 2, True), (instructions * 2, False)):
        monkeypatch.setattr(sampling, "AUTO_INSTRUCTIONS", threshold)
        report = sim.simulate(KERNELS["copy"](), gpu="toy", detail="auto")
        assert (report["tailwave__sampled_blocks.pct"] < 100) is below


def test_results_of_a_sampled_launch_are_refused():
    launch = KERNELS["copy"]()
    report, _ = sampled(launch)
    with pytest.raises(LaunchError, match="was sampled.*detail='full'"):
        report.outputs["y"]
    with pytest.raises(LaunchError, match="was sampled"):
        launch.check(report)
    full = sim.simulate(launch, gpu="toy", detail="full")
    launch.check(full)


def test_a_trace_needs_every_instruction():
    with pytest.raises(LaunchError, match="record it with detail='full'"):
        sim.record(KERNELS["copy"](), gpu="toy", detail="sampled")


def test_words_that_mean_nothing_are_refused():
    with pytest.raises(LaunchError, match="detail='half': use 'auto', 'full', 'sampled'"):
        sim.simulate(KERNELS["copy"](), gpu="toy", detail="half")
    with pytest.raises(SweepError, match="detail='half'"):
        sim.sweep(memory.copy, {"n": [64]}, gpu="toy", detail="half")


@pytest.mark.parametrize(
    "launch",
    [
        memory.copy(4000),  # two waves
        spinning(np.arange(800) * 2),  # later blocks have more to do, wave by wave
        ticket.launch(800, 64, args=(sim.zeros(1, np.int32), sim.zeros(800, np.int32))),  # blocks count each other
    ],
    ids=["few waves", "growing blocks", "tickets"],
)
def test_what_cannot_be_left_out_is_run(launch):
    report, device = sampled(launch)
    full, outputs = run(launch, flush=True, detail="full")
    if report["tailwave__sampled_blocks.pct"] < 100:  # growing blocks: near all the same
        assert report["tailwave__sampled_block_time_spread.pct"] > 50
        assert device.result.cycles == pytest.approx(full.cycles, rel=0.15)
    else:
        assert device.result.cycles == full.cycles and device._sampler.why_not
        assert set(report.outputs) == set(outputs)


def test_blocks_that_differ_at_random_are_reported_as_such():
    trips = np.random.default_rng(1).integers(100, 300, 1500)
    report, device = sampled(spinning(trips))
    full, _ = run(spinning(trips), flush=True, detail="full")
    assert report["tailwave__sampled_block_time_spread.pct"] > 15
    assert device.result.cycles == pytest.approx(full.cycles, rel=0.08)


def test_the_command_line_and_sweeps_take_it():
    runner = CliRunner()
    page = runner.invoke(app, ["run", "memory.copy", "n=262144", "--gpu", "toy", "--detail", "sampled"])
    assert page.exit_code == 0 and "Sampled: " in page.output
    refused = runner.invoke(app, ["run", "memory.copy", "n=64", "--gpu", "toy", "--detail", "sampled", "--check"])
    assert refused.exit_code == 2
    frame = sim.sweep(memory.copy, {"n": [1 << 18]}, gpu="toy", detail="sampled", progress=False, processes=1,
                      metrics="tailwave__sampled_blocks.pct")  # fmt: skip
    assert frame["tailwave__sampled_blocks.pct"][0] < 100
