"""The trace file: its schema, nesting, threads, and that its events are the timeline's intervals."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from sim.report import Report
from sim.report.exports.chrome_trace import FIRST_SM, coverage


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    pid: Annotated[int, Field(ge=1, lt=2**31)]
    tid: Annotated[int, Field(ge=0, lt=2**31)]
    name: Annotated[str, Field(min_length=1)]


class Name(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    name: Annotated[str, Field(min_length=1)]


class SortIndex(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    sort_index: int


class Metadata(Strict):
    ph: Literal["M"]
    name: Literal["process_name", "process_sort_index", "thread_name", "thread_sort_index"]
    args: Name | SortIndex


class Complete(Strict):
    ph: Literal["X"]
    cat: Literal["block", "warp", "issue", "stall", "loads", "asynchronous copies"]
    ts: Annotated[int, Field(ge=0)]
    dur: Annotated[int, Field(ge=1)]
    args: dict[str, str | int]


class Count(Strict):
    ph: Literal["C"]
    ts: Annotated[int, Field(ge=0)]
    args: dict[Literal["value"], Annotated[float, Field(ge=0)]]


class File(BaseModel):
    """What Chrome's trace event format asks for, as far as the file uses it."""

    model_config = ConfigDict(extra="forbid")
    displayTimeUnit: Literal["ns", "ms"]
    otherData: dict[str, str]
    traceEvents: list[Annotated[Metadata | Complete | Count, Field(discriminator="ph")]]


REPORTS = ("tiled", "copying", "plain")


@pytest.fixture(params=REPORTS)
def report(request: pytest.FixtureRequest) -> Report:
    return request.getfixturevalue(request.param)


def events(report: Report) -> list[dict[str, Any]]:
    return json.loads(report.to_perfetto())["traceEvents"]


def spans(report: Report, *categories: str) -> list[dict[str, Any]]:
    return [event for event in events(report) if event["ph"] == "X" and event["cat"] in categories]


def test_the_file_obeys_the_formats_schema(report: Report) -> None:
    TypeAdapter(File).validate_json(report.to_perfetto())


def test_events_of_a_thread_nest_and_stand_in_order_of_time(report: Report) -> None:
    open_until: dict[tuple[int, int], list[int]] = defaultdict(list)
    last: dict[tuple[int, int], int] = defaultdict(int)
    for event in (event for event in events(report) if event["ph"] == "X"):
        thread, start, end = (event["pid"], event["tid"]), event["ts"], event["ts"] + event["dur"]
        assert start >= last[thread], event
        last[thread] = start
        stack = open_until[thread]
        while stack and stack[-1] <= start:
            stack.pop()
        assert not stack or end <= stack[-1], f"{event} ends after the event that it began in"
        stack.append(end)
        assert len(stack) <= 2
    assert open_until


def test_every_thread_and_process_has_one_name_and_a_place(report: Report) -> None:
    named = Counter((event["name"], event["pid"], event["tid"]) for event in events(report) if event["ph"] == "M")
    assert set(named.values()) == {1}
    for event in events(report):
        assert ("process_name", event["pid"], 0) in named and ("process_sort_index", event["pid"], 0) in named
        if event["ph"] == "X":
            assert ("thread_name", event["pid"], event["tid"]) in named
    threads = [(tid, pid) for name, pid, tid in named if name == "thread_name"]
    assert len({tid for tid, _ in threads}) == len(threads), "viewers know threads by number alone"


def test_stalls_and_issues_are_the_timelines(tiled: Report) -> None:
    timeline = tiled.timeline
    warps = timeline[timeline["track"] == "warp"]
    wanted = Counter(zip(warps["sm"] + FIRST_SM, warps["start"], warps["end"] - warps["start"], strict=True))
    found = Counter((event["pid"], event["ts"], event["dur"]) for event in spans(tiled, "stall", "issue"))
    assert found == wanted
    issues = Counter(event["name"].partition(".")[0] for event in spans(tiled, "issue"))
    assert issues == dict(tiled.opcode_counts())  # both SMs of the GPU were recorded
    named = Counter({event["name"]: 0 for event in spans(tiled, "stall")})
    for event in spans(tiled, "stall"):
        named[event["name"]] += event["dur"]
    assert named["Long Scoreboard"] == tiled["smsp__pcsamp_warps_issue_stalled_long_scoreboard"] > 0
    assert named["Barrier"] == tiled["smsp__pcsamp_warps_issue_stalled_barrier"] > 0


def test_a_warp_holds_its_states_from_its_blocks_start(tiled: Report) -> None:
    stays = spans(tiled, "warp")
    assert len(stays) == 16 * 2  # warps
    for stay in stays:
        sm, start, end = tiled.blocks.iloc[stay["args"]["block"]]
        assert (stay["pid"], stay["ts"]) == (sm + FIRST_SM, start)
        assert stay["ts"] + stay["dur"] <= end


def test_blocks_are_those_of_the_report(report: Report) -> None:
    found = {
        (event["name"], event["pid"] - FIRST_SM, event["ts"], event["ts"] + event["dur"])
        for event in spans(report, "block")
    }
    assert found == {(f"block {row.Index}", row.sm, row.start, row.end) for row in report.blocks.itertuples()}


def test_asynchronous_copies_are_on_tracks_of_their_own(copying: Report) -> None:
    copies = spans(copying, "asynchronous copies")
    assert len(copies) == (copying.timeline["track"] == "copy").sum() > 0
    assert {event["name"].split(".")[0].split()[-1] for event in copies} == {"LDGSTS"}
    threads = {event["tid"] for event in copies}
    assert not threads & {event["tid"] for event in spans(copying, "stall", "issue", "block", "loads")}
    names = {e["args"]["name"] for e in events(copying) if e["name"] == "thread_name" and e["tid"] in threads}
    assert all(name.startswith("asynchronous copies ") for name in names)


def test_counters_add_up_to_the_counts(tiled: Report) -> None:
    found: dict[tuple[int, str], list[tuple[int, float]]] = defaultdict(list)
    for event in events(tiled):
        if event["ph"] == "C":
            found[event["pid"], event["name"]].append((event["ts"], event["args"]["value"]))
    sums = defaultdict(float)
    for (_, name), points in found.items():
        times, values = zip(*points, strict=True)
        assert times[-1] == tiled.cycles and values[-1] == 0
        sums[name] += float(np.dot(np.diff(times), values[:-1]))
    assert sums["warp instructions a cycle"] == pytest.approx(tiled["smsp__inst_executed.sum"], rel=1e-3)
    assert sums["resident warps"] == pytest.approx(tiled["smsp__pcsamp_sample_count"], rel=1e-3)
    blocks = tiled.blocks
    assert sums["blocks on the GPU"] == pytest.approx((blocks["end"] - blocks["start"]).sum(), rel=1e-3)


def test_coverage_of_hand_made_intervals() -> None:
    step, averages = coverage(np.array([0, 2]), np.array([4, 4]), 5)
    assert (step, averages.tolist()) == (1, [1, 1, 2, 2, 0])
    step, averages = coverage(np.array([0]), np.array([3]), 1001)
    assert (step, len(averages), averages[0], averages[1:].sum()) == (4, 251, 0.75, 0)


def test_a_report_without_a_timeline_has_blocks_only(plain: Report) -> None:
    assert {event["cat"] for event in events(plain) if event["ph"] == "X"} == {"block"}


def test_the_file_is_written_whole_and_the_same_each_time(tiled: Report, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    tiled.to_perfetto(path)
    assert path.read_text() == tiled.to_perfetto()
    packed = tmp_path / "trace.json.gz"
    tiled.to_perfetto(packed)
    assert gzip.decompress(packed.read_bytes()).decode() == tiled.to_perfetto()
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        tiled.to_perfetto(tmp_path / "no" / "trace.json")
