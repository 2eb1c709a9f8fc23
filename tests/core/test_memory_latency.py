"""When an idle memory system answers: to the cycle, at each distance."""

from __future__ import annotations

import numpy as np
import pytest

from sim.core.address_map import home_partition
from sim.core.memory_state import ATOMIC, FETCH, LOAD, REDUCTION, STORE
from sim.profile import names
from tests.core.memory_packets import BASE, Bench
from tests.silicon.microbench import rows

NO_REFRESH = {"dram__trefi_ns": 1e7}


def line_at_home_in(bench: Bench, partition: int) -> int:
    """A line of that home partition."""
    return next(line for line in range(0, 256, 32) if home_partition(BASE + line, 2) == partition)


@pytest.mark.parametrize("kind", [LOAD, FETCH, STORE, ATOMIC, REDUCTION])
def test_hit_takes_the_hit_latency(kind: int) -> None:
    bench = Bench("toy")
    bench.one(0, 7)
    extra = {ATOMIC: 4 * 2, REDUCTION: 4 * 2}.get(kind, 0)  # four sectors in the atomic unit, 2 cycles each
    assert bench.one(1000, 7, kind=kind) == 70 + extra


def test_hit_in_the_other_partition_takes_the_far_latency() -> None:
    bench = Bench("h200")
    far = line_at_home_in(bench, 1)
    near_sm, other_sm = 0, 32  # GPCs 0 and 2
    assert bench.memory.state.sms[[near_sm, other_sm], 0].tolist() == [0, 1]
    bench.one(0, far, sm=other_sm)
    l2 = bench.profile.l2
    near = l2.hit_latency_cycles + l2.sm_distance_cycles[near_sm]
    assert bench.one(5000, far, sm=near_sm) == near + l2.far_extra_cycles
    assert bench.one(9000, far, sm=near_sm) == near, "a copy is near now"


def test_store_is_acknowledged_by_the_home_slice() -> None:
    bench = Bench("h200")
    l2 = bench.profile.l2
    near = l2.hit_latency_cycles + l2.sm_distance_cycles[0]
    assert bench.one(0, line_at_home_in(bench, 0), kind=STORE) == near
    assert bench.one(5000, line_at_home_in(bench, 1), kind=STORE) == near + l2.far_extra_cycles


def test_sms_are_as_far_from_l2_as_on_the_card() -> None:
    """microbench_33, `distance`: a load's mean over 384 lines by SM in order of blocks (microbench_4, `place`)."""
    card = {row["sm"]: np.mean(row["cycles"]) / 16 for row in rows(33, k="distance")}
    first = rows(4, k="place")[0]["sm"]
    bench = Bench("h200")
    ours = []
    for sm in range(132):
        bench.one(10_000 * sm, 5, sm=sm)
        ours.append(bench.one(10_000 * sm + 5000, 5, sm=sm))
    apart = np.array(ours) - [card[sm] for sm in [*sorted(first[:8]), *first[8:]]]
    assert np.abs(apart - apart.mean()).max() <= 1


def test_miss_adds_activation_column_bursts_and_controller() -> None:
    bench = Bench("toy", **NO_REFRESH)
    trcd, tcl, bursts, controller = 20, 20, 8 * 2, 60
    assert bench.one(0, 0) == 70 + trcd + tcl + bursts + controller


def test_fewer_sectors_take_fewer_bursts() -> None:
    bench = Bench("toy", **NO_REFRESH)
    assert bench.one(0, 0, sectors=0b0001) == 70 + 20 + 20 + 2 * 2 + 60


def test_far_miss_is_later_than_a_near_one_by_the_far_latency() -> None:
    near, far = (Bench("h200", **NO_REFRESH) for _ in range(2))
    extra = far.one(0, line_at_home_in(far, 1)) - near.one(0, line_at_home_in(near, 0))
    assert extra == far.profile.l2.far_extra_cycles


def chase(bench: Bench, mib: float, stride: int, reads: int, passes: int = 0) -> float:
    """Mean cycles of dependent reads of one SM in random order, after `passes` over all of them; plus L1's 41.8."""
    order = np.random.default_rng(1).permutation(int(mib * 2**20) // stride) * stride
    now = 1000
    cycles = []
    for offset in np.concatenate([order] * passes + [order[:reads]]).tolist():
        cycles.append(bench.one(now, offset >> 7, sectors=1 << (offset >> 5 & 3), asked=8))
        now += cycles[-1] + 42
    return float(np.mean(cycles[-reads:])) + 41.8


@pytest.mark.parametrize(("mib", "card"), [(64, 664.7), (2048, 676.3)])
def test_cold_chase_on_the_h200_takes_what_the_card_takes(mib: int, card: float) -> None:
    assert chase(Bench("h200"), mib, 4096, 1500) == pytest.approx(card, rel=0.03)


@pytest.mark.parametrize("gpu", names())
def test_no_answer_before_the_hit_latency(gpu: str) -> None:
    bench = Bench(gpu)
    answers = [bench.one(t, line, kind=kind) for t, (line, kind) in enumerate([(0, LOAD), (0, LOAD), (9, STORE)])]
    assert min(answers) >= bench.profile.l2.hit_latency_cycles


def test_reductions_on_neighbouring_lines_wait_for_one_unit() -> None:
    """Each SM adds to the same four lines: 18 to 19 cycles an SM where they share a unit (microbench_6 `red_all`)."""
    sms = np.arange(128)[:, None]
    ends = {}
    for apart in (1, 4):
        bench = Bench("h200", **NO_REFRESH)
        q, lines = bench.requests, BASE + apart * np.arange(4)
        q.n[: len(sms)] = 4
        for array, value in ((q.line, lines), (q.sectors, 15), (q.kind, REDUCTION), (q.asked, 128)):
            array[sms, np.arange(4)] = value
        bench.memory.weave(q, 0, 64)
        ends[apart] = int(q.done[sms, :4].max())
    assert (ends[1] - ends[4]) / len(sms) == pytest.approx(18.5 - 5.0, rel=0.2)
