"""What holds for any packets: earliest answers, conserved sectors, one result whatever the run and the SM order."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.core.layout import Requests
from sim.core.memory_state import ATOMIC, FETCH, LOAD, REDUCTION, STORE
from sim.counters import Mem
from sim.memory_system import MemorySystem
from sim.profile import load_profile
from tests.core.memory_packets import BASE, STEP, requests

quick = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])

PACKET = st.tuples(
    st.integers(0, STEP - 1),  # cycle in the step
    st.integers(0, 400),  # line
    st.integers(1, 15),  # sectors
    st.sampled_from([LOAD, STORE, ATOMIC, REDUCTION, FETCH]),
    st.integers(1, 128),  # bytes
)
STEPS = st.lists(st.lists(st.lists(PACKET, max_size=6), min_size=2, max_size=2), min_size=1, max_size=5)


def weave_steps(memory: MemorySystem, steps: list[list[list[tuple[int, ...]]]]) -> list[Requests]:
    """Run the toy through steps of packets, by SM; the requests of each step with their answers."""
    out = []
    for number, sms in enumerate(steps):
        q = requests(len(sms), 8)
        start = number * STEP
        for sm, packets in enumerate(sms):
            q.n[sm] = len(packets)
            for k, (time, line, sectors, kind, asked) in enumerate(sorted(packets)):
                part = sectors & 5 if kind == STORE else 0
                values = (start + time, BASE + line, sectors | part << 4, kind, 32, asked)
                for array, value in zip((q.time, q.line, q.sectors, q.kind, q.ops, q.asked), values, strict=True):
                    array[sm, k] = value
        memory.weave(q, start, start + STEP)
        out.append(q)
    return out


def answers(steps: list[Requests]) -> list[int]:
    """All answers, in order of step, SM and sequence."""
    return [int(t) for q in steps for sm in range(len(q.n)) for t in q.done[sm, : q.n[sm]]]


@quick
@given(STEPS)
def test_answers_take_at_least_the_hit_latency(steps: list[list[list[tuple[int, ...]]]]) -> None:
    profile = load_profile("toy")
    for q in weave_steps(MemorySystem(profile), steps):
        for sm in range(2):
            assert (q.done[sm, : q.n[sm]] - q.time[sm, : q.n[sm]] >= profile.l2.hit_latency_cycles).all()


@quick
@given(STEPS)
def test_sectors_are_conserved(steps: list[list[list[tuple[int, ...]]]]) -> None:
    memory = MemorySystem(load_profile("toy"))  # fetches single sectors, joins nothing
    sent = weave_steps(memory, steps)
    counts = {m: int(memory.counts()[m]) for m in Mem}

    def sectors(*kinds: int) -> int:
        return sum(
            int(q.sectors[sm, k] & 15).bit_count()
            for q in sent
            for sm in range(2)
            for k in range(q.n[sm])
            if q.kind[sm, k] in kinds
        )

    assert counts[Mem.L2_READ] == sectors(LOAD, FETCH)
    assert counts[Mem.L2_TEX] == sectors(LOAD, STORE, ATOMIC, REDUCTION)
    assert counts[Mem.L2_TEX] == counts[Mem.L2_TEX_HIT] + counts[Mem.L2_TEX_MISS]
    assert counts[Mem.XBAR_READ] == sectors(LOAD, FETCH, ATOMIC)
    assert counts[Mem.XBAR_WRITE] == sectors(STORE, ATOMIC, REDUCTION)
    assert counts[Mem.DRAM_READ_BURSTS] == 2 * counts[Mem.DRAM_READ]
    bursts = counts[Mem.DRAM_READ_BURSTS] + counts[Mem.DRAM_WRITE_BURSTS]
    opened = counts[Mem.DRAM_ROW_MISS] + counts[Mem.DRAM_ROW_CONFLICT]
    waiting = memory.state.writes[:, :, 2].sum() if memory.state.channels[:, 6].any() else 0
    assert bursts - waiting <= counts[Mem.DRAM_ROW_HIT] + opened <= bursts


@quick
@given(STEPS)
def test_equal_packets_get_equal_answers(steps: list[list[list[tuple[int, ...]]]]) -> None:
    runs = [MemorySystem(load_profile("toy")) for _ in range(2)]
    first, second = (answers(weave_steps(memory, steps)) for memory in runs)
    assert first == second
    assert (runs[0].counts() == runs[1].counts()).all()


@quick
@given(st.lists(st.integers(0, 400), min_size=2, max_size=8, unique=True))
def test_which_sm_asks_makes_no_difference_where_times_differ(lines: list[int]) -> None:
    """Two SMs of one GPC and L2 partition, one packet every 8 cycles: swapping them swaps the answers."""
    packets = [(8 * k, line, 15, LOAD, 128) for k, line in enumerate(lines)]
    halves = [packets[::2], packets[1::2]]
    straight, swapped = (
        weave_steps(MemorySystem(load_profile("toy")), [order])[0].done for order in (halves, halves[::-1])
    )
    assert (straight == swapped[::-1]).all()


def test_a_step_without_packets_changes_nothing() -> None:
    memory = MemorySystem(load_profile("toy"))
    weave_steps(memory, [[[(0, 1, 15, LOAD, 128)], []]])
    before = [array.copy() for array in memory.state]
    memory.weave(requests(2, 8), 10**6, 10**6 + STEP)
    assert all((a == b).all() for a, b in zip(before, memory.state, strict=True))


def test_time_may_jump() -> None:
    memory = MemorySystem(load_profile("toy"))
    weave_steps(memory, [[[(0, 1, 15, LOAD, 128)], []]])
    q = requests(2, 8)
    q.n[0], q.time[0, 0], q.line[0, 0], q.sectors[0, 0], q.asked[0, 0] = 1, 10**12, BASE + 1, 15, 128
    memory.weave(q, 10**12, 10**12 + STEP)
    assert q.done[0, 0] == 10**12 + 70


def digest() -> str:
    """A hash of the answers and counts of a fixed random stream on the toy and on an H200 with a small L2."""
    rng = np.random.default_rng(5)
    hashed = hashlib.sha256()
    for profile in (load_profile("toy"), load_profile("h200").override({"l2.bytes": 96 * 16 * 128 * 2})):
        memory = MemorySystem(profile)
        for start in range(0, 4 * STEP, STEP):
            q = requests(profile.gpu.sm_count, 8)
            q.n[:2] = 8
            q.time[:2] = start + np.sort(rng.integers(0, STEP, (2, 8)), 1)
            q.line[:2] = BASE + rng.integers(0, 5000, (2, 8))
            q.sectors[:2] = rng.integers(1, 16, (2, 8))
            q.kind[:2] = rng.integers(0, 5, (2, 8))
            q.asked[:2] = rng.integers(1, 129, (2, 8))
            q.ops[:2] = 32
            memory.weave(q, start, start + STEP)
            hashed.update(q.done[:2].tobytes())
        hashed.update(memory.counts().tobytes())
    return hashed.hexdigest()


def test_without_a_compiler_the_answers_are_the_same() -> None:
    command = "from tests.core.test_memory_properties import digest; print(digest())"
    other = "0" if os.environ.get("NUMBA_DISABLE_JIT") == "1" else "1"
    ran = subprocess.run(
        [sys.executable, "-c", command],
        env={**os.environ, "NUMBA_DISABLE_JIT": other},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.strip() == digest(), ran.stderr
