"""Sampled launches: near the full ones, counted without contradiction, and refused where a part is not enough."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import sim
from sim import sampling
from sim.cli import app
from sim.core.memory_state import LOAD, STORE
from sim.counters import Inst, Mem
from sim.device import Device
from sim.launch import LaunchError
from sim.memory_system import MemorySystem
from sim.profile import Profile, load_profile
from sim.report import Report
from sim.scale_memory import Region, ScaleModelMemory
from sim.sweeps import SweepError
from tests.core.launches import Recorded, run
from tests.core.memory_packets import BASE, WHOLE, Bench, requests
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


@sim.kernel
def increment(k, x):
    """Adds 1 in place."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    x[i] = x[i] + 1.0


def spinning(trips) -> sim.Launch:
    trips = np.asarray(trips, np.int32)
    return spin.launch(len(trips), 64, args=(trips, sim.zeros(64 * len(trips))))


KERNELS = {
    "copy": lambda: memory.copy(1 << 22),
    "strided": lambda: memory.strided(1 << 20, 8),
    "naive": lambda: matmul.naive(512),
    "tiled": lambda: matmul.tiled(512, tile=16),
    "reduction": lambda: shared.reduction(1 << 22, "sequential"),
    "spin": lambda: spinning([500] * 5000),
}
SMALL = {"copy": lambda: memory.copy(1 << 20), "tiled": lambda: matmul.tiled(256, tile=16)}
GPU = "h200"  #: the toy GPU is too small for a scale model
#: Bounds of the differences: of cycles, work, sectors asked of L2, and sectors that DRAM reads.
CYCLES, WORK, SECTORS, READ = 0.04, 0.01, 0.05, 0.02
FEW = (
    30_000  #: sectors up to which chance decides how many cross to the other partition: the model has few pages of them
)
#: Where blocks on many SMs read the same, fewer of a model's SMs find what a neighbour has just asked for.
SHARED_DATA = {"naive": 0.25, "tiled": 0.15, "spin": 0.15}


def sampled(launch: sim.Launch, gpu: str | Profile = GPU, **options):
    device = Recorded(gpu, **options)
    report = device.launch(launch, flush=True, detail="sampled")
    return report, device


#: kernels, with one whose SMs share almost all that they load
WITH_ONE_THAT_IS_OFF = [
    pytest.param(
        name,
        marks=[pytest.mark.xfail(strict=True, reason="fewer loads of 8 SMs join than of 16: 1.35 times the look-ups")]
        if name == "naive"
        else [],
    )
    for name in KERNELS
]


@pytest.mark.parametrize("name", KERNELS)
def test_sampled_is_near_full(name):
    full, _ = run(KERNELS[name](), gpu=GPU, flush=True, detail="full")
    report, device = sampled(KERNELS[name]())
    result = device.result
    assert 0 < report["tailwave__sampled_blocks.pct"] < 7
    work = [Inst.EXECUTED, Inst.THREADS, Inst.THREADS_ON, Inst.REQUESTS, Inst.SECTORS, Inst.WAVEFRONTS]
    np.testing.assert_allclose(result.inst[:, work].sum(axis=0), full.inst[:, work].sum(axis=0), rtol=WORK)
    assert result.mem[Mem.DRAM_READ] == pytest.approx(full.mem[Mem.DRAM_READ], rel=READ)
    assert result.cycles == pytest.approx(full.cycles, rel=CYCLES)


@pytest.mark.parametrize("name", WITH_ONE_THAT_IS_OFF)
def test_sampled_asks_l2_as_full_does(name):
    full, _ = run(KERNELS[name](), gpu=GPU, flush=True, detail="full")
    result = sampled(KERNELS[name]())[1].result
    asked = [Mem.XBAR_READ, Mem.XBAR_WRITE, Mem.L2_READ, Mem.L2_WRITE]
    asked = [of for of in asked if full.mem[of] > FEW]
    np.testing.assert_allclose(result.mem[asked], full.mem[asked], rtol=SHARED_DATA.get(name, SECTORS))


@pytest.mark.parametrize("gpu", [GPU, "a100_sxm_40gb", "t4"])
@pytest.mark.parametrize("name", SMALL)
def test_counts_of_a_sampled_launch_agree_with_each_other(name, gpu):
    _, device = sampled(SMALL[name](), gpu)
    result = device.result
    assert result.sampling is not None
    check_counts(result)
    check_blocks(result)
    mem = result.mem
    assert mem[Mem.L2_READ_HIT] <= mem[Mem.L2_READ] and mem[Mem.L2_TEX_HIT] <= mem[Mem.L2_TEX]
    rows = mem[[Mem.DRAM_ROW_HIT, Mem.DRAM_ROW_MISS, Mem.DRAM_ROW_CONFLICT]].sum()
    waiting = mem[Mem.DRAM_READ_BURSTS] + mem[Mem.DRAM_WRITE_BURSTS] - rows  # writes in the queues at the end
    dram, line = device.profile.dram, device.profile.l2.line_bytes
    assert 0 <= waiting <= dram.channels * dram.write_queue_entries * line // dram.burst_bytes
    assert mem[Mem.DRAM_CYCLES_BUSY] == result.dram_channel_busy.sum()
    assert len(result.dram_channel_busy) == dram.channels and len(result.sm) == device.profile.gpu.sm_count
    assert device.env.now == result.cycles  # watching the beginning takes no time of the device's


@pytest.mark.parametrize("threads", [1, 2])
def test_a_sampled_launch_gives_the_same_bytes_again_and_on_two_threads(threads):
    assert sampled(SMALL["copy"](), threads=threads)[0].to_json() == sampled(SMALL["copy"]())[0].to_json()


def test_the_next_launch_on_the_device_is_counted_from_its_own_start():
    device = Device(GPU)
    device.launch(SMALL["copy"](), detail="sampled")
    report = device.launch(memory.copy(2000), flush=True)
    assert report.cycles == pytest.approx(sim.simulate(memory.copy(2000), gpu=GPU).cycles, rel=0.05)


def test_the_report_says_what_ran():
    report, _ = sampled(SMALL["copy"]())
    share, spread = (report[f"tailwave__sampled_{name}.pct"] for name in ("blocks", "block_time_spread"))
    note = f"Sampled: {share:.1f} % of blocks ran, block time spread {spread:.0f} %"
    assert note in str(report) and note in report._repr_html_()
    again = Report.from_json(report.to_json())
    assert again.header.notes == (note,) and again.to_json() == report.to_json()
    assert again["tailwave__sampled_blocks.sum"] == report["tailwave__sampled_blocks.sum"] < 512


def test_full_and_small_launches_say_nothing_and_are_the_same():
    launch = SMALL["copy"]()
    full, auto = (sim.simulate(launch, gpu=GPU, detail=detail) for detail in ("full", "auto"))
    assert full.to_json() == auto.to_json()
    assert full.header.notes == () and full["tailwave__sampled_blocks.pct"] == 100


def test_auto_samples_above_its_threshold(monkeypatch):
    instructions = sim.simulate(SMALL["tiled"](), gpu=GPU)["smsp__inst_executed.sum"]
    for threshold, below in ((instructions // 2, True), (instructions * 2, False)):
        monkeypatch.setattr(sampling, "AUTO_INSTRUCTIONS", threshold)
        report = sim.simulate(SMALL["tiled"](), gpu=GPU, detail="auto")
        assert (report["tailwave__sampled_blocks.pct"] < 100) is below


def test_a_launch_is_sampled_as_it_would_have_been_from_the_start(monkeypatch):
    """What the whole GPU executed before the decision leaves nothing behind: not in memory, caches or time."""
    monkeypatch.setattr(sampling, "AUTO_INSTRUCTIONS", 350_000)
    x = np.zeros(1 << 20, np.float32)
    device = Device(GPU)
    held = device.array(x)
    report = device.launch(increment.launch(4096, 256, args=(held,)), flush=True, detail="auto")
    assert report["tailwave__sampled_blocks.pct"] < 100
    assert sorted(np.unique(held.numpy())) == [0, 1]  # no element twice
    own = device.launch(increment.launch(4096, 256, args=(x + 3,)), flush=True, detail="auto").outputs
    assert sorted(np.unique(own._arrays["x"].numpy())) == [3, 4]  # of an array that the launch puts there neither


@pytest.mark.parametrize("sms", range(60, 140, 7))
@pytest.mark.parametrize("blocks", [66, 132, 133, 1000, 4225])
def test_a_scale_model_has_its_share_of_the_blocks_each_once(blocks, sms):
    profile = load_profile(GPU).override({"gpu.sm_count": sms})
    chosen = sampling.model_blocks(profile, blocks, 4)
    assert len(chosen) == len(set(chosen)) == -(-blocks * sampling.model_sms(profile) // sms)
    assert 0 <= chosen.min() and chosen.max() < blocks


def test_later_blocks_are_pairs_of_neighbours_one_of_each_part():
    later = sampling.model_blocks(load_profile(GPU), 4224, 4)[32:].reshape(-1, 2)  # 132 * 32, of which 528 in the fill
    np.testing.assert_array_equal(later[:, 1], later[:, 0] + 1)
    parts = 528 + 2 * (np.arange(113) * (4224 - 528) // 2 // 112)
    assert ((later[:, 0] >= parts[:-1]) & (later[:, 1] < parts[1:])).all()
    assert len(set(later[:, 0] % 132)) > 50  # not always one place of a turn: blocks of one column may have it


@pytest.mark.parametrize("columns", [4, 8, 32, 33, 63, 128, 132])
def test_later_blocks_are_of_all_columns_alike(columns):
    later = sampling.model_blocks(load_profile(GPU), 132 * 256, 4)[32:]
    shares = np.bincount(later % columns, minlength=columns) / len(later) * columns
    assert shares.std() < 0.6 * (columns / len(later)) ** 0.5  # by chance 1
    assert 0.9 < shares[-4:].mean() < 1.1  # the edge


def test_a_grid_that_just_needs_another_wave_does_so_in_the_scale_model():
    even, odd = (sampled(spinning([500] * n))[1].result.cycles for n in (132 * 32, 132 * 32 + 1))
    full_even, full_odd = (run(spinning([500] * n), gpu=GPU, flush=True, detail="full")[0].cycles
                           for n in (132 * 32, 132 * 32 + 1))  # fmt: skip
    assert 0 < odd - even == pytest.approx(full_odd - full_even, abs=0.02 * full_even)


def test_results_of_a_sampled_launch_are_refused():
    launch = SMALL["copy"]()
    report, _ = sampled(launch)
    with pytest.raises(LaunchError, match="was sampled.*detail='full'"):
        report.outputs["y"]
    with pytest.raises(LaunchError, match="was sampled"):
        launch.check(report)
    full = sim.simulate(launch, gpu=GPU, detail="full")
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
    ("launch", "gpu", "why"),
    [
        (memory.copy(4000), GPU, "leaves most of the GPU idle"),
        (memory.copy(1 << 18), "toy", "small enough"),
        (ticket.launch(800, 64, args=(sim.zeros(1, np.int32), sim.zeros(800, np.int32))), GPU, "see each other's"),
        (memory.copy(1 << 16), GPU, ""),  # it ends while it is watched
    ],
    ids=["small grid", "small GPU", "tickets", "short"],
)
def test_what_cannot_be_left_out_is_run(launch, gpu, why):
    report, device = sampled(launch, gpu)
    full, outputs = run(launch, gpu=gpu, flush=True, detail="full")
    assert report["tailwave__sampled_blocks.pct"] == 100
    assert device.result.cycles == full.cycles and why in device._sampler.why_not
    assert set(report.outputs) == set(outputs)


@pytest.mark.parametrize(
    ("trips", "spread", "near"),
    [(np.arange(8000) // 10, 50, 0.10), (np.random.default_rng(1).integers(100, 300, 10_000), 15, 0.08)],
    ids=["growing", "random"],
)
def test_blocks_that_differ_are_reported_as_such(trips, spread, near):
    report, device = sampled(spinning(trips))
    full, _ = run(spinning(trips), gpu=GPU, flush=True, detail="full")
    assert report["tailwave__sampled_block_time_spread.pct"] > spread
    assert device.result.cycles == pytest.approx(full.cycles, rel=near)


def test_the_command_line_and_sweeps_take_it():
    runner = CliRunner()
    page = runner.invoke(app, ["run", "memory.copy", "n=1048576", "--gpu", GPU, "--detail", "sampled"])
    assert page.exit_code == 0 and "Sampled: " in page.output
    refused = runner.invoke(app, ["run", "memory.copy", "n=64", "--gpu", "toy", "--detail", "sampled", "--check"])
    assert refused.exit_code == 2
    frame = sim.sweep(memory.copy, {"n": [1 << 20]}, gpu=GPU, detail="sampled", progress=False, processes=1,
                      metrics="tailwave__sampled_blocks.pct")  # fmt: skip
    assert frame["tailwave__sampled_blocks.pct"][0] < 100


@pytest.mark.parametrize(("late", "goes_on"), [(10, True), (1, False)])
def test_the_beginning_goes_on_while_an_array_is_new(late, goes_on):
    """39 steps, of which an array was first loaded in one of the first 9, or later."""
    watch = sampling.Watch(slice(0, 1), share=0.5, part=0.5, gpc=np.ones(2, np.bool_))
    bench = Bench(GPU)
    arrays = SimpleNamespace(starts=np.array([0, 1 << 23]))  # one of 65,536 lines, and another
    for step in range(39):
        bench.send(1000 * step, step + (1 << 16) * (step >= late))
        watch.note(SimpleNamespace(requests=bench.requests, memory=bench.memory, shared=arrays))
    assert watch.begins() is goes_on


def memory_of(regions, **changes):
    """A scale model's memory system for one packet after another."""
    bench = Bench(sampling.scale_model(load_profile(GPU), 0.5), **changes)
    bench.memory = ScaleModelMemory(bench.profile, regions)
    return bench


def waits(cycles, part):
    """Of 100 lines, ticks that a part of them takes longer than a hit."""
    return np.where(np.arange(100) < 100 * part, cycles * 256, 0)


@pytest.mark.parametrize(("cold", "late"), [(0.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.25, 0.5)])
def test_lines_that_other_sms_fetch_are_there_or_on_their_way(cold, late):
    array = range(1 << 16, 1 << 17, 16)
    bench = memory_of(
        [Region(BASE + array.start, BASE + array.stop, (cold, cold), (waits(220, late), waits(220, late)))]
    )
    times = np.array([bench.one(10_000 * k, line) for k, line in enumerate(array)])
    l2 = bench.profile.l2
    assert bench.count(Mem.DRAM_READ) == pytest.approx(4 * cold * len(array), rel=0.05)
    assert (times > l2.hit_latency_cycles + l2.far_extra_cycles).mean() <= late
    assert (times >= l2.hit_latency_cycles + 150).mean() == pytest.approx(late, abs=0.05)


@pytest.mark.parametrize("away", [0.0, 0.5, 1.0])
def test_far_lines_take_the_way_across_that_other_sms_have_not_gone_for_them(away):
    array = range(1 << 16, 1 << 17, 16)
    l2 = load_profile(GPU).l2
    region = Region(BASE + array.start, BASE + array.stop, (0.0, 0.0), (waits(0, 1), waits(l2.far_extra_cycles, away)))
    bench = memory_of([region])
    times = np.array([bench.one(10_000 * k, line) for k, line in enumerate(array)])
    hit = l2.hit_latency_cycles + bench.profile.l2.sm_distance_cycles[0]
    across = (times >= hit + l2.far_extra_cycles).mean()
    assert across == pytest.approx(away / 2, abs=0.03)  # half of the lines are far
    assert bench.count(Mem.DRAM_READ) == bench.count(Mem.L2_CROSSED) == 0  # others do it


def test_of_far_lines_its_share_crosses_for_the_first_time():
    array = range(1 << 16, 1 << 17, 16)
    l2 = load_profile(GPU).l2
    found = waits(220, 1), waits(l2.far_extra_cycles, 1)
    bench = memory_of([Region(BASE + array.start, BASE + array.stop, (0.2, 0.0), found)])
    times = [bench.one(10_000 * k, line) for k, line in enumerate(array)]
    sectors = 4 * len(array) / 2
    assert bench.count(Mem.DRAM_READ) == pytest.approx(0.2 * sectors, rel=0.1)
    assert bench.count(Mem.L2_CROSSED) == pytest.approx(0.2 * sectors, rel=0.1)  # one of ten is ours, of 2 partitions
    assert min(times) >= l2.hit_latency_cycles + 200  # whoever fetches it, it takes as long


def test_of_a_shared_array_no_more_than_its_share_comes_from_dram_and_once():
    lines = range(1 << 16, (1 << 16) + 1600, 16)
    found = waits(220, 1), waits(500, 1)
    bench = memory_of([Region(BASE + lines.start, BASE + lines.stop, (1.0, 1.0), found, most=240)])
    for turn, slow in enumerate((100, 0)):
        times = [bench.one(1_000_000 * turn + 10_000 * k, line) for k, line in enumerate(lines)]
        assert bench.count(Mem.DRAM_READ) == 240
        assert sum(time > bench.profile.l2.hit_latency_cycles + 200 for time in times) == slow
        bench.memory.flush()  # as if other data had pushed them out


@pytest.mark.parametrize(("most", "reads"), [(400, (400, 800)), (240, (240, 240))], ids=["private", "shared after all"])
def test_what_leaves_l2_is_read_again_unless_more_than_its_share_shows_that_sms_share_the_array(most, reads):
    lines = range(1 << 16, (1 << 16) + 1600, 16)
    bench = memory_of([Region(BASE + lines.start, BASE + lines.stop, most=most, shared=False)])
    slow = bench.profile.l2.hit_latency_cycles + 200
    before = 0
    for turn, read in enumerate(reads):
        times = [bench.one(1_000_000 * turn + 10_000 * k, line) for k, line in enumerate(lines)]
        assert bench.count(Mem.DRAM_READ) == read
        assert sum(time > slow for time in times) == (read - before) / 4
        before = read
        bench.memory.flush()  # as if other data had pushed them out


def test_lines_beyond_the_share_wait_as_others_and_half_of_the_far_ones_cross():
    lines = range(1 << 16, 1 << 17, 16)
    l2 = load_profile(GPU).l2
    across = l2.far_extra_cycles  # of lines that are not cold, all found far: as long as the way there
    found = waits(220, 0.5), np.where(np.arange(100) < 50, 2 * across, across) * 256
    bench = memory_of([Region(BASE + lines.start, BASE + lines.stop, (0.5, 0.5), found, most=0)])
    times = np.array([bench.one(10_000 * k, line) for k, line in enumerate(lines)])
    hit = l2.hit_latency_cycles + bench.profile.l2.sm_distance_cycles[0]
    assert bench.count(Mem.DRAM_READ) == 0
    assert ((times < hit + 10).mean(), (times > hit + 1.5 * across).mean()) == (pytest.approx(0.5, abs=0.02), 0)
    far = [line for line, time in zip(lines, times, strict=True) if time > hit + across / 2]
    for k, line in enumerate(far):
        bench.one(100_000_000 + 10_000 * k, line)
    # Half were cold, of which half cross; of the others all do.
    assert bench.count(Mem.L2_CROSSED) == pytest.approx(4 * 0.75 * len(far), rel=0.05)


def test_half_of_the_pages_of_each_array_have_their_home_in_either_partition():
    """Every 17th block, which touches eight pages of one array and one of another."""
    x, y = 0, 1 << 18
    regions = [Region(BASE + first, BASE + first + (1 << 17), shared=False) for first in (x, y)]
    bench = memory_of(regions)
    crossed = 0
    blocks = range(0, 17 * 256, 17)
    for block in blocks:
        bench.send(1000 * block, *range(x + 64 * block, x + 64 * (block + 1)))
        before = bench.count(Mem.L2_CROSSED)
        bench.send(1000 * block + 500, *range(y + 8 * block, y + 8 * (block + 1)))
        crossed += bench.count(Mem.L2_CROSSED) - before
    assert crossed == pytest.approx(4 * 8 * len(blocks) / 2, abs=4 * 32)  # but for the chunk that the last are in


def test_what_a_models_sms_read_and_write_crosses_by_one_way():
    """On the GPU each way has what SMs of one partition read, and what those of the other write."""

    def last_load(memory, stores):
        q = requests(memory.profile.gpu.sm_count, 64)
        q.sectors[:], q.asked[:], q.line[0] = WHOLE, 128, BASE + np.arange(64)
        q.n[0], q.kind[0] = 64, STORE
        memory.weave(q, 0, 5_000)  # now the lines are at home
        q.n[0], q.n[1:], q.kind[0], q.kind[1:], q.time[:] = 64, stores, LOAD, STORE, 10_000
        q.line[1:] = BASE + (1 << 12) + np.arange(7 * 64).reshape(7, 64)
        q.line[0] = BASE + np.arange(64)
        memory.weave(q, 10_000, 15_000)
        return q.done[0].max()

    profile = sampling.scale_model(load_profile(GPU), 0.5)
    two_ways, one_way = (
        last_load(of(profile), 16) - last_load(of(profile), 0)
        for of in (MemorySystem, lambda profile: ScaleModelMemory(profile, ()))
    )
    all_stores = 7 * 16 / 2 * 128 / profile.l2.cross_bytes_per_cycle  # those that cross
    assert two_ways < 0.25 * all_stores < 0.75 * all_stores < one_way < 1.25 * all_stores


def test_lines_that_others_use_as_well_are_there_however_full_l2_is():
    array = np.random.default_rng(0).permutation(2000)
    lines = Region(BASE, BASE + len(array), (0.0, 0.0), (waits(0, 1), waits(0, 1)))
    bench = memory_of([lines], l2__bytes=128 * 16 * 6)  # one set a slice
    for k, some in enumerate(array.reshape(-1, 20)):
        bench.send(10_000 * k, *some)
    assert bench.count(Mem.DRAM_READ) == 0


def test_lines_of_other_arrays_come_from_dram():
    bench = memory_of([Region(BASE + 100_000, BASE + 200_000, (0.0, 0.0), (waits(0, 1), waits(0, 1)))])
    for k, line in enumerate((99_000, 200_000, 300_000)):
        bench.one(10_000 * k, line)
    assert bench.count(Mem.DRAM_READ) == 12


def test_a_scale_model_keeps_latencies_and_shares_rates():
    whole = load_profile(GPU)
    model = sampling.scale_model(whole, 0.5)
    share = model.gpu.sm_count / whole.gpu.sm_count
    assert model.gpu.sm_count == 8 and model.l2.bytes == pytest.approx(whole.l2.bytes / 2, rel=0.01)
    for each in ("hit_latency_cycles", "far_extra_cycles", "sm_read_bytes_per_cycle"):
        assert getattr(model.l2, each) == getattr(whole.l2, each)
    for profile, part in ((whole, share), (model, 1)):
        assert profile.l2.slices * profile.l2.slice_bytes_per_cycle * part == pytest.approx(
            model.l2.slices * model.l2.slice_bytes_per_cycle
        )
        assert profile.dram.peak_gbytes_per_s * part == pytest.approx(model.dram.peak_gbytes_per_s)
        for interval in ("trrd_ns", "tfaw_ns", "trp_ns", "twtr_ns"):  # 12 channels are to do no more than 11.64
            rates = [of.dram.channels / getattr(of.dram, interval) for of in (profile, model)]
            assert rates[0] * part == pytest.approx(rates[1])
