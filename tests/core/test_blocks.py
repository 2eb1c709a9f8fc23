"""Blocks on SMs: how many are resident, where they start, how fast they follow each other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import sim
from sim.counters import Mem, Sm
from sim.engine import fill_turns
from sim.errors import OutOfBoundsError
from sim.launch import LaunchError
from sim.memory_system import gpc_of_each_sm
from sim.occupancy import occupancy
from sim.profile import load_profile
from tests.core.launches import run, small
from tests.core.test_accounting import check_blocks, check_counts
from tests.silicon.microbench import rows


@sim.kernel
def spin(k, y, turns, *, words):
    """Each block works for a while; `words` of shared memory keep others out."""
    if words:
        s = k.shared(words, np.float32)
        s[k.thread_idx.x] = 1.0
    x = k.var(0.0)
    for _ in k.range_(turns, unroll=1):
        x += 1.0
    y[k.block_idx.x * k.block_dim.x + k.thread_idx.x] = x


def blocks_of(grid, block, gpu, turns=300, words=0, shared_bytes=0):
    launch = spin.launch(
        grid, block, args=(sim.zeros(grid * block), turns), constants={"words": words}, shared_bytes=shared_bytes
    )
    result, arrays = run(launch, gpu=gpu)
    assert (arrays["y"] == turns).all()
    check_counts(result)
    check_blocks(result)
    return launch, result


def most_resident(result) -> int:
    """Blocks that one SM held at a time, at most."""
    most = 0
    for m in range(len(result.sm)):
        mine = result.blocks[result.blocks[:, 0] == m]
        most = max([most, *(int(((mine[:, 1] <= t) & (t < mine[:, 2])).sum()) for t in mine[:, 1])])
    return most


@pytest.mark.parametrize(
    ("gpu", "block", "words", "limiter"),
    [
        ("toy", 32, 0, "blocks"),
        ("toy", 256, 0, "warps"),
        ("toy", 64, 1024, "shared memory"),
        ("t4", 64, 0, "blocks"),
        ("t4", 512, 0, "warps"),
        ("rtx_4090", 128, 0, "warps"),
        ("h200", 1024, 0, "warps"),
        ("h200", 96, 10000, "shared memory"),
    ],
)
def test_as_many_blocks_are_resident_as_the_occupancy_says(gpu, block, words, limiter):
    profile = small(gpu, launch__fill_blocks_per_cycle=1.0, launch__blocks_per_cycle=1.0)
    program = spin.launch(1, block, args=(sim.zeros(block), 1), constants={"words": words}).program
    fit = occupancy(profile, block, program.registers, program.shared_static_bytes)
    assert limiter in fit.limiters
    _, result = blocks_of(2 * fit.blocks_per_sm * 2 + 3, block, profile, words=words)
    assert most_resident(result) == fit.blocks_per_sm


def test_dynamic_shared_memory_limits_residency_too():
    _, result = blocks_of(12, 32, "toy", shared_bytes=8192)
    assert most_resident(result) == 2


def test_registers_limit_residency():
    profile = small("toy", occupancy__registers_per_sm=4096, occupancy__registers_per_block=4096)
    launch, result = blocks_of(20, 64, profile)
    fit = occupancy(profile, 64, launch.program.registers)
    assert "registers" in fit.limiters and fit.blocks_per_sm < 8
    assert most_resident(result) == fit.blocks_per_sm


def test_one_block_of_one_thread():
    _, result = blocks_of(1, 1, "h200")
    assert result.sm[:, Sm.BLOCKS].sum() == 1


def test_fewer_blocks_than_places_go_to_sms_of_their_own():
    _, result = blocks_of(3, 32, "h200")
    assert len(set(result.blocks[:, 0])) == 3


def test_blocks_are_dealt_round_the_sms_in_order():
    _, result = blocks_of(8, 32, "toy")
    assert result.blocks[:, 0].tolist() == [0, 1] * 4


def sm_of_block(turns: npt.NDArray[np.int64], blocks: int) -> list[int]:
    """The SM that gets each block while slots are filled for the first time."""
    slots = turns.shape[1]
    return (turns.reshape(-1).argsort() // slots)[:blocks].tolist()


def test_blocks_fill_the_sms_in_the_cards_order():
    """microbench_4, `place`: the card's SMs by their places in the order of a grid of 132 blocks."""
    h200 = load_profile("h200")
    grids = rows(4, k="place")
    place = {sm: k for k, sm in enumerate(grids[0]["sm"])}
    assert len(place) == grids[0]["grid"] == 132
    for row in grids:
        slots = 2048 // row["threads"]
        assert sm_of_block(fill_turns(h200, row["grid"], slots), row["grid"]) == [place[sm] for sm in row["sm"]]


def test_blocks_that_are_left_are_spread_over_the_gpcs():
    """microbench_20, `place`: how many of the blocks that are left each GPC gets, and how many TPCs two."""
    h200 = load_profile("h200")
    order = {sm: k for k, sm in enumerate(rows(4, k="place")[0]["sm"])}
    gpc = gpc_of_each_sm(h200)
    checked = 0
    for row in rows(20, k="place"):
        left = row["blocks"] % 132
        if row["kib"] or row["threads"] != 256 or not left or row["blocks"] == 400:  # 400: four of the SMs filled ahead
            continue
        card = np.array([order[sm] for sm in row["sm"][-left:]])
        ours = np.array(sm_of_block(fill_turns(h200, row["blocks"], 8), row["blocks"])[-left:])
        for sms in (card, ours):
            assert (sms[:8] // 2).max() < 4 or left < 8  # the SMs that are filled ahead come first
        assert sorted(np.bincount(gpc[card], minlength=8)) == sorted(np.bincount(gpc[ours], minlength=8)), row["blocks"]
        assert (np.bincount(card // 2) == 2).sum() == (np.bincount(ours // 2) == 2).sum()
        checked += 1
    assert checked > 40


def test_few_blocks_are_spread_over_the_gpcs():
    """microbench_15, `same_lines`: 16 SMs in step make 10 look-ups of each line, one for up to four SMs of a GPC.

    microbench_20, `place`: which SMs they are, by their places in the order of a full grid; a GPC's get blocks that
    follow one another.
    """
    h200 = load_profile("h200")
    order = fill_turns(h200, 16, 8)[:, 0].argsort()
    assert order[:16].tolist() == [*range(8), 8, 16, 32, 48, 64, 80, 96, 114]
    asking = np.bincount(gpc_of_each_sm(h200)[order[:16]])
    assert sum(-(-asking // 4)) == 10
    _, result = blocks_of(16, 32, "h200")
    assert sorted(result.blocks[:, 0]) == sorted(order[:16])


def test_blocks_go_where_the_order_of_filling_says():
    profile = small("toy", gpu__sm_count=4, gpu__gpc_count=2, launch__ahead_sms=1, launch__ahead_turns=2)
    _, result = blocks_of(8, 512, profile)
    assert result.blocks[:, 0].tolist() == [0, 1, 0, 2, 3, 1, 2, 3]
    _, result = blocks_of(7, 512, profile)
    assert result.blocks[:, 0].tolist() == [0, 1, 2, 3, 0, 1, 2]


def test_a_launch_lasts_until_its_last_stores_are_at_l2():
    """`spin` with 132 blocks of 1,024 threads: 16,896 sectors on the card, all stored in its last cycles."""
    _, result = blocks_of(132, 1024, "h200")
    assert result.mem[Mem.L2_TEX] == 132 * 1024 * 4 // 32


def test_the_first_blocks_start_at_the_fill_rate():
    profile = small("toy", launch__fill_blocks_per_cycle=0.25)
    _, result = blocks_of(8, 32, profile)
    assert np.diff(result.blocks[:, 1]).tolist() == [4] * 7


def test_a_place_is_free_again_after_the_turnaround():
    profile = load_profile("toy")
    _, result = blocks_of(4, 1024, "toy")
    first = result.blocks[:2]
    for _, start, _ in result.blocks[2:]:
        gap = profile.launch.block_end_cycles + profile.launch.block_start_cycles
        assert min(abs(start - end - gap) for end in first[:, 2]) <= 2


def test_launch_and_drain_surround_the_blocks():
    profile = load_profile("toy")
    _, result = blocks_of(1, 32, "toy")
    (_, start, end), launch = result.blocks[0], profile.launch
    assert start == launch.launch_cycles + launch.block_start_cycles
    assert 0 <= result.cycles - (end + launch.drain_cycles) < profile.l2.hit_latency_cycles  # for the last store
    assert result.launch_cycles == start + launch.drain_cycles


def test_shared_memory_of_a_new_block_holds_nothing_of_the_last():
    @sim.kernel
    def leave(k, y):
        s = k.shared(64, np.int32)
        i = k.thread_idx.x
        y[k.block_idx.x * 64 + i] = s[i]
        k.syncthreads()
        s[i] = 7

    result, arrays = run(leave.launch(40, 64, args=(sim.zeros(40 * 64, np.int32),)))
    assert result.sm[:, Sm.BLOCKS].tolist() == [20, 20]
    assert not arrays["y"].any()


def test_blocks_do_not_see_each_others_shared_memory():
    @sim.kernel
    def own(k, y):
        s = k.shared(32, np.int32)
        i = k.thread_idx.x
        for _ in k.range_(20, unroll=1):
            s[i] = s[i] + k.block_idx.x
        y[k.block_idx.x * 32 + i] = s[i]

    _, arrays = run(own.launch(16, 32, args=(sim.zeros(16 * 32, np.int32),)))
    assert (arrays["y"].reshape(16, 32) == 20 * np.arange(16)[:, None]).all()


def test_static_shared_memory_beyond_48_kib_needs_a_gpu_that_has_it():
    @sim.kernel
    def big(k, y):
        s = k.shared(20_000, np.float32)
        i = k.thread_idx.x
        s[19_968 + i] = 2.0
        y[i] = s[19_968 + i]

    launch = big.launch(1, 32, args=(sim.zeros(32),))
    assert (run(launch, gpu=small())[1]["y"] == 2.0).all()
    with pytest.raises(LaunchError, match="80000 bytes of shared memory a block: at most 65536"):
        run(launch, gpu=small("t4"))


def test_the_last_byte_of_shared_memory_is_in_bounds_and_the_next_is_not():
    @sim.kernel
    def reach(k, y, i):
        s = k.shared_dynamic(np.int32)
        s[i] = 3
        y[0] = s[i]

    launch = reach.launch(1, 1, args=(sim.zeros(1, np.int32), 4), shared_bytes=20)
    assert run(launch)[1]["y"].tolist() == [3]
    with pytest.raises(OutOfBoundsError, match="at byte 20 of shared memory, of which the block has 20"):
        run(reach.launch(1, 1, args=(sim.zeros(1, np.int32), 5), shared_bytes=20))
