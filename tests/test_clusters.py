"""Thread block clusters: barriers, distributed shared memory, multicast, remote arrivals, and where blocks go."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import sim
from sim.engine import cluster_groups, cluster_order, step_cycles
from sim.errors import DeadlockError, KernelError, OutOfBoundsError
from sim.launch import LaunchError
from sim.occupancy import max_active_clusters, occupancy
from sim.program_checks import ProgramError
from sim.trace import TraceError
from tests.silicon.microbench import rows

H200 = sim.load_profile("h200")
BM, BN, BK = 64, 64, 64


@sim.kernel
def ranks(k: Any, out: Any) -> None:
    x = k.block_idx.x + k.grid_dim.x * (k.block_idx.y + k.grid_dim.y * k.block_idx.z)
    with k.if_(k.thread_idx.x == 0):
        out[x, 0] = k.cluster_rank
        out[x, 1] = k.cluster_dim.x
        out[x, 2] = k.cluster_dim.y
        out[x, 3] = k.cluster_dim.z


@sim.kernel
def histogram(k: Any, x: Any, out: Any, n: Any, *, bins: int) -> None:
    mine = k.shared(bins, np.int32)
    for i in k.range_(k.thread_idx.x, bins, k.block_dim.x):
        mine[i] = 0
    k.cluster_sync()
    for i in k.range_(k.block_idx.x * k.block_dim.x + k.thread_idx.x, n, k.grid_dim.x * k.block_dim.x):
        v = x[i]
        k.atomic_add(k.remote(mine, v // bins), v % bins, 1)
    k.cluster_sync()
    for i in k.range_(k.thread_idx.x, bins, k.block_dim.x):
        k.atomic_add(out, k.cluster_rank * bins + i, mine[i])


@sim.kernel
def rotate(k: Any, x: Any, y: Any, *, width: int) -> None:
    """Each block hands its part to the next of its cluster, by stores, and reads what the next has, by loads."""
    there, here = k.shared((128, width), np.float32), k.shared((128, width), np.float32)
    t, size = k.thread_idx.x, k.cluster_dim.x
    place = (k.block_idx.x * k.block_dim.x + t) * width
    following = (k.cluster_rank + 1) % size
    values = [x[place + j] for j in range(width)]
    k.cluster_sync()
    k.remote(there, following).store((t, 0), values)
    here.store((t, 0), values)
    k.cluster_sync()
    got = k.remote(here, following).load(t, 0, width=width)
    got = (got,) if width == 1 else got
    for j in range(width):
        y[place + j] = there[t, j] - 2.0 * got[j]
    k.cluster_sync()


@sim.kernel
def relay(k: Any, out: Any, turns: Any) -> None:
    """A word goes round the cluster: each block waits for its own mbarrier, adds, and tells the next."""
    bars, word = k.mbarriers(1), k.shared(1, np.int32)
    with k.if_(k.thread_idx.x == 0):
        bars[0].init(1)
        word[0] = 0
        k.fence_async()
    k.cluster_sync()
    following = (k.cluster_rank + 1) % k.cluster_dim.x
    with k.if_(k.thread_idx.x == 0):
        for i in k.range_(turns):
            with k.if_((k.cluster_rank > 0) | (i > 0)):
                bars[0].wait(k.select(k.cluster_rank > 0, i, i - 1))
            k.remote(word, following)[0] = word[0] + k.cluster_rank + 1
            k.threadfence()
            bars[0].remote(following).arrive()
        with k.if_(k.cluster_rank == 0):
            bars[0].wait(turns - 1)
            out[0] = word[0]
    k.cluster_sync()


@sim.kernel
def matmul(k: Any, a: Any, b: Any, c: Any, blocks_k: Any, *, stages: int, multicast: bool) -> None:
    """A @ B.T by clusters of two blocks with one tile of A, which one of them copies to both."""
    full, empty = k.mbarriers(stages), k.mbarriers(stages)
    tiles_a = k.shared((stages, BM, BK), a.dtype, align=1024)
    tiles_b = k.shared((stages, BN, BK), b.dtype, align=1024)
    row, column = k.block_idx.y * BM, k.block_idx.x * BN
    first = k.thread_idx.x == 0
    with k.if_(first):
        for bar in full:
            bar.init(1)
        for bar in empty:
            bar.init(2)
        k.fence_async()
    k.cluster_sync()
    sums = k.wgmma_sums(BN)
    for i in k.range_(blocks_k):
        slot = i % stages
        with k.if_(first):
            with k.if_(i >= stages):
                empty[slot].wait(i // stages - 1)
            full[slot].arrive_expect(a.box_bytes + b.box_bytes)
            with k.if_((k.cluster_rank == 0) if multicast else True):
                k.tma_load(tiles_a, slot, a, (row, i * BK), full[slot], blocks=3 if multicast else None)
            k.tma_load(tiles_b, slot, b, (column, i * BK), full[slot])
        left, right = k.smem_matrix(tiles_a, slot), k.smem_matrix(tiles_b, slot)
        full[slot].wait(i // stages)
        k.wgmma_fence()
        for j in range(4):
            k.wgmma(sums, left.step(j), right.step(j), add=i > 0 if j == 0 else True)
        k.wgmma_commit()
        k.wgmma_wait()
        k.syncthreads()
        with k.if_(k.thread_idx.x < 2):
            empty[slot].remote(k.thread_idx.x).arrive()
    for j in range(0, len(sums), 2):
        r, q = sums.place(j)
        c.store((row + r, column + q), (sums[j], sums[j + 1]))
    k.cluster_sync()


@sim.kernel
def accumulate(k: Any, m: Any, run: Any, x: Any, *, kind: str) -> None:
    """Every block adds its box to the same place, by TMA."""
    box = k.shared((8, 32), np.float32, align=128)
    t = k.thread_idx.x
    for i in range(8):
        box[i, t] = x[k.block_idx.x, i * 32 + t]
    k.fence_async()
    k.syncthreads()
    with k.if_(t == 0):
        if kind == "tensor":
            k.tma_reduce(m, (4, 0), box)
        else:
            k.bulk_reduce(run, 32, box, 0, 1024)
        k.tma_commit()
        k.tma_wait()


@sim.kernel
def barriers(k: Any, out: Any, turns: Any) -> None:
    k.cluster_sync()
    begin = k.clock()
    for _ in k.range_(turns, unroll=1):
        k.cluster_arrive(relaxed=True)
        k.cluster_wait()
    end = k.clock()
    with k.if_(k.thread_idx.x == 0):
        out[k.block_idx.x] = end - begin
    k.cluster_sync()


@sim.kernel
def chain(k: Any, out: Any, turns: Any) -> None:
    words = k.shared(32, np.int32)
    words[k.thread_idx.x] = 0
    k.cluster_sync()
    at = k.var(0)
    begin = k.clock()
    there = k.remote(words, (k.cluster_rank + 1) % k.cluster_dim.x)
    for _ in k.range_(turns, unroll=1):
        at.set(there[at])
    end = k.clock()
    with k.if_(k.thread_idx.x == 0):
        out[k.block_idx.x] = end - begin + at
    k.cluster_sync()


@sim.kernel
def ends_early(k: Any, out: Any) -> None:
    words = k.shared(32, np.int32)
    words[k.thread_idx.x] = 1
    k.cluster_sync()
    with k.if_(k.cluster_rank == 1):
        k.return_()
    total = k.var(0)
    for _ in k.range_(40, unroll=1):
        total += k.remote(words, 1)[k.thread_idx.x]
    out[k.thread_idx.x] = total


@sim.kernel
def reads(k: Any, out: Any, rank: Any, index: Any) -> None:
    words = k.shared(32, np.int32)
    words[k.thread_idx.x] = 1
    k.cluster_sync()
    out[k.thread_idx.x] = k.remote(words, rank)[index + k.thread_idx.x]
    k.cluster_sync()


@sim.kernel
def arrives_twice(k: Any, out: Any) -> None:
    bars = k.mbarriers(1)
    with k.if_(k.thread_idx.x == 0):
        bars[0].init(48)
        k.fence_async()
    k.cluster_sync()
    with k.if_(k.cluster_rank == 1):
        bars[0].remote(0).arrive()
        bars[0].remote(0).arrive()
    k.cluster_sync()
    out[k.thread_idx.x] = 1.0


@sim.kernel
def one_stays_away(k: Any, out: Any) -> None:
    with k.if_(k.cluster_rank > 0):
        k.cluster_sync()
    with k.else_():
        bars = k.mbarriers(1)
        with k.if_(k.thread_idx.x == 0):
            bars[0].init(1)
        k.syncthreads()
        bars[0].wait(0)
    out[k.thread_idx.x] = 1.0


def test_ranks_and_dimensions() -> None:
    launch = ranks.launch((6, 4, 2), 32, (sim.zeros((48, 4), np.int32),), cluster=(3, 2, 1))
    got = sim.simulate(launch).outputs["out"].reshape(2, 4, 6, 4)
    assert (got[..., 1:] == (3, 2, 1)).all()
    y, x = np.mgrid[:4, :6]
    assert (got[..., 0] == x % 3 + 3 * (y % 2)).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_histogram_in_distributed_shared_memory(threads: int) -> None:
    x = np.random.default_rng(0).integers(0, 256, 5000).astype(np.int32)
    launch = histogram.launch(8, 128, (x, sim.zeros(256, np.int32), 5000), {"bins": 64}, cluster=4)
    report = sim.simulate(launch, threads=threads)
    assert (report.outputs["out"] == np.bincount(x, minlength=256)).all()
    assert report.cycles == sim.simulate(launch).cycles


@pytest.mark.parametrize(("size", "width"), [(2, 1), (4, 4), (8, 2)])
def test_stores_and_loads_of_another_block(size: int, width: int) -> None:
    x = np.random.default_rng(1).standard_normal(16 * 128 * width).astype(np.float32)
    launch = rotate.launch(16, 128, (x, sim.zeros(len(x))), {"width": width}, cluster=size)
    got = sim.simulate(launch).outputs["y"].reshape(-1, size, 128 * width)
    parts = x.reshape(-1, size, 128 * width)
    assert np.allclose(got, np.roll(parts, 1, 1) - 2 * np.roll(parts, -1, 1))


@pytest.mark.parametrize("size", [2, 8])
def test_arrivals_at_another_blocks_mbarrier(size: int) -> None:
    report = sim.simulate(relay.launch(size, 32, (sim.zeros(1, np.int32), 20), cluster=size))
    assert report.outputs["out"][0] == 20 * sum(range(1, size + 1))


def test_a_multicast_tile_is_read_once() -> None:
    rng = np.random.default_rng(2)
    x, y = (rng.integers(-3, 4, (n, 512)).astype(np.float16) for n in (256, 256))
    # or L2 joins loads of two SMs by itself; and code is read too
    gpu = H200.override({"l2.coalesce_cycles": 0, "launch_traffic.code_reads": 0})
    sectors = {}
    for multicast in (False, True):
        maps = sim.tensor_map(x, (BM, BK)), sim.tensor_map(y, (BN, BK))
        constants = {"stages": 3, "multicast": multicast}
        launch = matmul.launch((4, 4), 128, (*maps, sim.zeros((256, 256)), 8), constants, cluster=2)
        report = sim.simulate(launch, gpu=gpu)
        assert (report.outputs["c"] == x.astype(np.float32) @ y.astype(np.float32).T).all()
        sectors[multicast] = report["lts__t_sectors_op_read.sum"]
    tile_sectors, steps, blocks = BM * BK * 2 // 32, 8, 16
    assert sectors[False] - sectors[True] == blocks // 2 * steps * tile_sectors  # half of what is read of A


@pytest.mark.parametrize("kind", ["tensor", "run"])
@pytest.mark.parametrize("threads", [1, 2])
def test_reductions_by_tma(kind: str, threads: int) -> None:
    x = np.random.default_rng(3).integers(-9, 9, (20, 256)).astype(np.float32)
    target, run = np.ones((16, 32), np.float32), np.ones(512, np.float32)
    launch = accumulate.launch(20, 32, (sim.tensor_map(target, (8, 32), swizzle=0), run, x), {"kind": kind})
    outputs = sim.simulate(launch, threads=threads).outputs
    total = x.sum(0)
    if kind == "tensor":
        assert (outputs["m"][4:12].reshape(-1) == 1 + total).all() and (outputs["m"][:4] == 1).all()
    else:
        assert (outputs["run"][32:288] == 1 + total).all() and (outputs["run"][288:] == 1).all()


@pytest.mark.parametrize("size", [2, 4, 8])
@pytest.mark.parametrize("threads", [32, 256])
def test_a_barrier_takes_what_the_card_takes(size: int, threads: int) -> None:
    report = sim.simulate(barriers.launch(size, threads, (sim.zeros(size, np.int32), 100), cluster=size))
    card = rows(9, k="barrier_relaxed", cluster=size, threads=threads)[0]["cycles"]
    assert report.outputs["out"].mean() / 100 == pytest.approx(card, rel=0.16)


@pytest.mark.parametrize("size", [2, 4, 8])
def test_a_load_takes_what_the_card_takes(size: int) -> None:
    report = sim.simulate(chain.launch(size, 32, (sim.zeros(size, np.int32), 100), cluster=size))
    card = rows(7, k="dsmem_chain", cluster=size)[0]["cycles"]
    assert report.outputs["out"].mean() / 100 == pytest.approx(card, rel=0.16)


def test_as_many_clusters_as_on_the_card() -> None:
    for row in rows(9, k="max_active_clusters"):
        fit = occupancy(H200, 128, 128, 16, row["shared"])
        if row["shared"] > 2048:  # registers do not limit these
            assert max_active_clusters(H200, fit, row["cluster"]) == row["clusters"]


def test_a_report_says_how_many_clusters_fit() -> None:
    report = sim.simulate(barriers.launch(160, 1024, (sim.zeros(160, np.int32), 1), cluster=8))
    assert report["launch__cluster_size"] == 8
    assert report["launch__cluster_max_active"] == 30  # of one block an SM: max_active_clusters with 100 KiB
    assert report["launch__waves_per_multiprocessor"] == pytest.approx(160 / (30 * 8))


@pytest.mark.parametrize("size", [2, 4, 8])
def test_a_cluster_stays_in_its_group(size: int) -> None:
    report = sim.simulate(barriers.launch(160, 64, (sim.zeros(160, np.int32), 2), cluster=size))
    group = {sm: g for g, sms in enumerate(cluster_groups(H200)) for sm in sms}
    for sms in report.blocks["sm"].to_numpy().reshape(-1, size):
        assert len({group[sm] for sm in sms}) == 1
        assert len(set(sms)) == size


def test_the_order_of_blocks_in_clusters() -> None:
    assert cluster_order((4, 2, 1), (2, 2, 1)).tolist() == [0, 1, 4, 5, 2, 3, 6, 7]
    assert cluster_order((3, 1, 1), (1, 1, 1)).tolist() == [0, 1, 2]


def test_a_step_is_no_longer_than_the_way_to_another_block() -> None:
    assert H200.cluster is not None
    assert step_cycles(H200, clusters=True) <= min(H200.cluster.latency_cycles, H200.cluster.barrier_cycles)


@pytest.mark.parametrize(
    ("grid", "options", "gpu", "message"),
    [
        (6, {"cluster": 4}, "h200", r"clusters of \(4, 1, 1\) blocks do not divide the grid of \(6, 1, 1\)"),
        (32, {"cluster": 16}, "h200", r"16 blocks, more than the 8 that every GPU"),
        (64, {"cluster": 32, "non_portable_cluster": True}, "h200", "at most 16 are possible"),
        (8, {"cluster": 4}, "toy", "no part of the GPU has 4 SMs together, the largest"),
        (4, {"cluster": 2}, "a100_sxm_40gb", "the GPU has no thread block clusters"),
    ],
)
def test_clusters_that_the_gpu_refuses(grid: int, options: dict[str, Any], gpu: str, message: str) -> None:
    with pytest.raises((LaunchError, ProgramError), match=message):
        sim.simulate(ranks.launch(grid, 32, (sim.zeros((grid, 4), np.int32),), **options), gpu=gpu)


def test_the_barrier_without_the_unit_is_refused() -> None:
    launch = barriers.launch(1, 32, (sim.zeros(1, np.int32), 1))
    with pytest.raises(ProgramError, match="thread block clusters, which a100_sxm_40gb does not have"):
        sim.simulate(launch, gpu="a100_sxm_40gb")


def test_shared_memory_of_a_block_that_has_ended() -> None:
    with pytest.raises(KernelError, match=r"block 1 of the cluster, whose threads have exited.*k\.remote"):
        sim.simulate(ends_early.launch(2, 32, (sim.zeros(32, np.int32),), cluster=2))


@pytest.mark.parametrize(
    ("rank", "index", "kind", "message"),
    [
        (5, 0, KernelError, r"block 5 of the cluster, which has 2, numbered from 0\. kernel reads,.*block \(0, 0, 0\)"),
        (1, 32, OutOfBoundsError, "at byte 128 of shared memory, of which the block has 128"),
    ],
)
def test_an_access_that_finds_no_shared_memory(rank: int, index: int, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        sim.simulate(reads.launch(2, 32, (sim.zeros(32, np.int32), rank, index), cluster=2))


def test_more_arrivals_from_another_block_than_a_phase_expects() -> None:
    with pytest.raises(KernelError, match=r"more threads arrived at it.*kernel arrives_twice,.*block \(1, 0, 0\)"):
        sim.simulate(arrives_twice.launch(2, 32, (sim.zeros(32),), cluster=2))


def test_a_barrier_that_a_block_never_reaches() -> None:
    with pytest.raises(DeadlockError) as raised:
        sim.simulate(one_stays_away.launch(2, 32, (sim.zeros(32),), cluster=2))
    assert re.search(r"k\.cluster_sync\(\).* \(barrier\): block \(1, 0, 0\) warp 0", str(raised.value))


def test_a_cluster_of_one_block_needs_nobody() -> None:
    report = sim.simulate(barriers.launch(3, 64, (sim.zeros(3, np.int32), 4)))
    assert (report.outputs["out"] > 4 * 50).all()


def test_clusters_have_no_trace() -> None:
    with pytest.raises(TraceError, match="simulate the launch itself"):
        sim.record(ranks.launch(2, 32, (sim.zeros((2, 4), np.int32),), cluster=2))


def test_the_short_form_of_a_launch() -> None:
    dev = sim.Device("h200")
    out = dev.array(np.zeros((4, 4), np.int32))
    ranks[4, 32, 0, 4].on(dev)(out)
    assert out.numpy()[:, 0].tolist() == [0, 1, 2, 3]
