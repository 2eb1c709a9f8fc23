"""A timeline: every cycle of every warp stands in it once, it agrees with counts and traces, and costs no cycle."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import sim
from sim.counters import Stall, Track
from sim.launch import Launch, LaunchError
from sim.report import Report
from sim.timeline import ACTIVE, COLUMNS, Timeline, TimelineError
from tests.core.launches import Recorded, small
from workloads import divergence, matmul, memory, rows, shared, tensor

ROOT = Path(__file__).parents[1]
WORKLOADS: dict[str, Callable[[], Launch]] = {
    "transpose": lambda: memory.transpose(40, "tiled"),
    "tiled": lambda: matmul.tiled(24, tile=8),
    "trip_counts": lambda: divergence.trip_counts(100, below=20),
    "lecture": lambda: divergence.lecture(64),
    "histogram": lambda: shared.histogram(500, 10, grid=4),
    "softmax": lambda: rows.softmax(3, 100, block=64),
    "gemm": lambda: tensor.gemm(40),
}


def recorded(work: Launch, gpu: str, threads: int = 1) -> tuple[Recorded, Report]:
    """A device that ran `work` with both of its SMs recorded, and the report."""
    device = Recorded(small(gpu) if gpu != "toy" else gpu, threads=threads)
    return device, device.launch(work, timeline=(0, 1))


def only(timeline: Timeline, track: Track) -> dict[str, np.ndarray]:
    """The columns of one track's intervals."""
    rows = timeline.columns["track"] == track
    return {name: values[rows] for name, values in timeline.columns.items()}


@pytest.mark.parametrize("gpu", ["toy", "h200"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_every_cycle_of_every_warp_stands_in_it_once(name: str, gpu: str) -> None:
    if (name, gpu) == ("gemm", "toy"):
        pytest.skip("it needs more shared memory")
    device, report = recorded(WORKLOADS[name](), gpu)
    warps = only(report.recorded, Track.WARP)
    stall = np.zeros_like(device.result.stall)
    np.add.at(stall, (warps["pc"], warps["state"]), warps["end"] - warps["start"])
    assert (stall == device.result.stall).all()

    frame = report.timeline
    frame = frame[frame["track"] == "warp"].sort_values("start", kind="stable")
    blocks = device.result.blocks
    ends = np.zeros(len(blocks), np.int64)
    for (sm, block, _), intervals in frame.groupby(["sm", "block", "warp"]):
        assert intervals["slot"].nunique() == 1
        assert sm == blocks[block, 0] and intervals["start"].iloc[0] == blocks[block, 1]
        assert (intervals["end"].to_numpy()[:-1] == intervals["start"].to_numpy()[1:]).all()
        ends[block] = max(ends[block], intervals["end"].iloc[-1])
    assert (ends == blocks[:, 2]).all()


@pytest.mark.parametrize("name", WORKLOADS)
def test_issues_are_those_of_a_trace_with_its_masks_and_addresses(name: str) -> None:
    gpu = small()
    report = sim.simulate(WORKLOADS[name](), gpu=gpu, timeline=(0, 1))
    trace = sim.record(WORKLOADS[name](), gpu=gpu)
    warps = only(report.recorded, Track.WARP)
    issues = {column: values[warps["state"] == Stall.SELECTED] for column, values in warps.items()}
    order = np.lexsort((issues["start"], issues["warp"], issues["block"]))
    for column in ("block", "warp", "pc", "active", "on"):
        assert (issues[column][order] == getattr(trace, column)).all()
    access = issues["access"][order]
    assert ((access >= 0) == trace.is_memory).all()
    on = (trace.on[trace.is_memory, None] >> np.arange(32)) & 1 == 1
    found, wanted = (a[:, :32][on] for a in (report.recorded.addresses[access[access >= 0]], trace.address))
    assert (found == wanted).all()


@pytest.mark.parametrize("name", WORKLOADS)
def test_recording_changes_no_figure(name: str) -> None:
    gpu = small()
    plain = sim.simulate(WORKLOADS[name](), gpu=gpu)
    assert sim.simulate(WORKLOADS[name](), gpu=gpu, timeline=0).to_json() == plain.to_json()


def test_any_number_of_threads_gives_one_timeline() -> None:
    one, two = (recorded(WORKLOADS["tiled"](), "h200", threads)[1].recorded for threads in (1, 2))
    for name in COLUMNS:
        assert (one.columns[name] == two.columns[name]).all()
    assert (one.addresses == two.addresses).all()


@sim.kernel
def one_load(k, x, y):
    i = k.thread_idx.x
    y[i] = x[i]


def test_a_load_that_waits_for_l2_is_in_flight_until_its_data_is_there() -> None:
    work = one_load.launch(1, 32, args=(np.zeros(32, np.float32), sim.zeros(32)))
    report = sim.simulate(work, gpu=small(), timeline=0)
    warp, load = (only(report.recorded, track) for track in (Track.WARP, Track.LOAD))
    assert (load["state"] == ACTIVE).all() and len(load["pc"]) == 1
    issue = (warp["pc"] == load["pc"][0]) & (warp["state"] == Stall.SELECTED)
    assert warp["start"][issue] == load["start"]
    wait = warp["state"] == Stall.LONG_SCOREBOARD
    assert warp["end"][wait] == load["end"]  # and then the store that needs it can go on


def test_asynchronous_copies_are_on_a_track_of_their_own() -> None:
    report = sim.simulate(tensor.gemm(40), gpu=small(), timeline=(0, 1))
    copies = only(report.recorded, Track.COPY)
    columns = report.content.instructions
    executed = sum(n for n, kind in zip(columns["instructions"], columns["kind"], strict=True) if kind == "ldgsts")
    assert 0 < len(copies["pc"]) <= executed  # some copy zeros only
    assert {columns["kind"][pc] for pc in copies["pc"]} == {"ldgsts"}
    assert not (set(only(report.recorded, Track.LOAD)["pc"]) & set(copies["pc"]))


def test_array_arguments_are_found_by_address() -> None:
    work = one_load.launch(1, 32, args=(np.zeros(32, np.float32), sim.zeros(32)))
    recorded = sim.simulate(work, gpu=small(), timeline=0).recorded
    assert {name: (place.nbytes, place.itemsize) for name, place in recorded.arrays.items()} == {
        "x": (128, 4),
        "y": (128, 4),
    }
    assert [a[0] for a in recorded.addresses] == [recorded.arrays["x"].address, recorded.arrays["y"].address]


def test_a_replayed_trace_has_a_timeline_too() -> None:
    gpu = small()
    trace = sim.record(WORKLOADS["tiled"](), gpu=gpu)
    replayed = sim.simulate(trace, gpu=gpu, timeline=0).recorded
    executed = sim.simulate(WORKLOADS["tiled"](), gpu=gpu, timeline=0).recorded
    for name in COLUMNS:
        assert (replayed.columns[name] == executed.columns[name]).all()


def test_without_one_the_report_says_how_to_record_it() -> None:
    report = sim.simulate(WORKLOADS["lecture"](), gpu="toy")
    with pytest.raises(TimelineError, match=r"lecture.*no timeline was recorded; simulate it with timeline=0"):
        _ = report.timeline
    recorded = sim.simulate(WORKLOADS["lecture"](), gpu="toy", timeline=0)
    with pytest.raises(TimelineError):
        _ = Report.from_json(recorded.to_json()).timeline


@pytest.mark.parametrize("timeline", [2, -1, True, (0, 2), (0.5,), "all"])
def test_what_is_no_sm_is_refused(timeline: object) -> None:
    with pytest.raises(LaunchError, match=r"timeline=.*: give the number of an SM, or several; toy has 0 to 1"):
        sim.simulate(WORKLOADS["lecture"](), gpu="toy", timeline=timeline)


def test_a_sampled_launch_has_none() -> None:
    with pytest.raises(LaunchError, match="record it with detail='full'"):
        sim.simulate(WORKLOADS["lecture"](), gpu="toy", timeline=0, detail="sampled")


def test_the_page_about_it_is_true() -> None:
    page = (ROOT / "docs" / "timeline.md").read_text()
    table = page.split("\n\n| track | an interval is")[0]
    assert re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in table.splitlines() if line[:3] == "| `")) == [
        "sm", "track", "slot", "block", "warp", "start", "end", "state", "pc", "active", "on", "access"
    ]  # fmt: skip
    assert re.findall(r"^\| `(\w+)` \|", page.split("an interval is")[1], re.MULTILINE) == [
        track.name.lower() for track in Track
    ]
