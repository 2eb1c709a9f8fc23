"""The timeline in Chrome's trace event format, which Perfetto, chrome://tracing and speedscope read.

Each SM is a process. Its threads are its blocks, its warp slots, its loads in flight
and its asynchronous copies; a thread's events never overlap but by nesting: a warp's
states lie within its block's time. Counters show throughput over time.

The format's time is microseconds, and viewers keep whole nanoseconds, which a cycle at
2 GHz is shorter than. So one microsecond of the file is one SM cycle.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sim.counters import Stall, Track
from sim.report.exports.tracks import STATE_NAMES, Spans, tracks_of

if TYPE_CHECKING:
    from sim.report.report import Report

Event = dict[str, Any]
KINDS = ("blocks", "asynchronous copies", "loads", "warps")  #: in the order in which a viewer shows them
GPU = 1  #: process of what concerns all SMs
FIRST_SM = 2  #: process of SM 0; there is no process 0, which systems keep for themselves
POINTS = 500  #: of a counter


def lines_of(report: Report) -> Iterator[str]:
    """The trace as JSON, one event a line; equal reports give equal text."""
    clock = f"{report.cycles / report.seconds / 1e6:.6g} MHz"
    other = {"kernel": report.header.title, "time": "1 us is 1 SM cycle", "clock": clock}
    yield f'{{"displayTimeUnit":"ns","otherData":{json.dumps(other)},"traceEvents":[\n'
    encode = json.JSONEncoder(separators=(",", ":")).encode
    before = ""
    for event in events_of(report):
        yield before + encode(event)
        before = ",\n"
    yield "\n]}\n"


def write(report: Report, path: Path) -> None:
    """The trace as a file, gzipped where its name ends in `.gz`, which Perfetto opens as well."""
    if path.suffix == ".gz":
        with open(path, "wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
            packed.writelines(line.encode() for line in lines_of(report))
    else:
        with open(path, "w", encoding="utf-8", newline="\n") as text:
            text.writelines(lines_of(report))


def events_of(report: Report) -> Iterator[Event]:
    """Metadata, then the spans of each thread by time, then counters."""
    tracks = tracks_of(report)
    yield _named("process_name", GPU, 0, name=report.header.gpu)
    yield _named("process_sort_index", GPU, 0, sort_index=GPU)
    for sm in sorted({track.sm for track in tracks}):
        yield _named("process_name", sm + FIRST_SM, 0, name=f"SM {sm}")
        yield _named("process_sort_index", sm + FIRST_SM, 0, sort_index=sm + FIRST_SM)
    for track in tracks:
        pid, tid = track.sm + FIRST_SM, thread_of(track)
        yield _named("thread_name", pid, tid, name=track.name)
        yield _named("thread_sort_index", pid, tid, sort_index=tid)
    columns = report.content.instructions
    for track in tracks:
        yield from _spans(track, columns)
    yield from _counters(report)


def thread_of(track: Spans) -> int:
    """A number that no other thread has, of this process or another; viewers sort threads by it."""
    return (track.sm + FIRST_SM) * 1_000_000 + KINDS.index(track.kind) * 100_000 + track.lane


def _named(what: str, pid: int, tid: int, **args: Any) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}


def _spans(track: Spans, columns: dict[str, list[Any]]) -> Iterator[Event]:
    """A thread's events, each before those within it."""
    at = {"ph": "X", "pid": track.sm + FIRST_SM, "tid": thread_of(track)}
    rows = zip(
        track.start.tolist(), track.end.tolist(), track.state.tolist(), track.block.tolist(), track.warp.tolist(),
        track.pc.tolist(), track.on.tolist(), strict=True,
    )  # fmt: skip
    ends = _ends_of_stays(track) if track.kind == "warps" else {}
    for k, (start, end, state, block, warp, pc, on) in enumerate(rows):
        if track.kind == "blocks":
            args = {"block": block}
            yield {**at, "name": f"block {block}", "cat": "block", "ts": start, "dur": end - start, "args": args}
            continue
        if k in ends:
            name, args = f"block {block} warp {warp}", {"block": block, "warp": warp}
            yield {**at, "name": name, "cat": "warp", "ts": start, "dur": ends[k] - start, "args": args}
        args = {"sass": columns["sass"][pc], "address": f"{columns['address'][pc]:#x}"}
        if columns["file"][pc]:
            args["line"] = f"{columns['line'][pc]}: {columns['source'][pc]}"
        if track.kind != "warps":
            name, category, args = columns["sass"][pc], track.kind, args | {"block": block, "warp": warp}
        elif state == Stall.SELECTED:
            name, category, args = _opcode(columns["sass"][pc]), "issue", args | {"threads": on.bit_count()}
        else:
            name, category = STATE_NAMES[state], "stall"
        yield {**at, "name": name, "cat": category, "ts": start, "dur": end - start, "args": args}


def _opcode(sass: str) -> str:
    """An instruction's opcode with its modifiers, without its guard and operands."""
    first, _, rest = sass.partition(" ")
    return rest.partition(" ")[0] if first.startswith("@") else first


def _ends_of_stays(track: Spans) -> dict[int, int]:
    """By the first span of a warp's stay in its slot: when it left."""
    comes = np.flatnonzero(np.diff(track.block, prepend=-1) | np.diff(track.warp, prepend=-1))
    lasts = [*(comes[1:] - 1), len(track.block) - 1]
    return {int(first): int(track.end[last]) for first, last in zip(comes, lasts, strict=True)}


# -- counters ----------------------------------------------------------------------------


def _counters(report: Report) -> Iterator[Event]:
    """Averages over stretches of time, of all SMs and of those that were recorded."""
    cycles = report.cycles
    _, start, end = report.content.block_times.T
    yield from _counter(GPU, "blocks on the GPU", start, end, cycles)
    if not report.has_timeline:
        return
    timeline = report.recorded
    c = timeline.columns
    warp, issue = c["track"] == Track.WARP, c["state"] == Stall.SELECTED
    for sm in timeline.sms:
        here = c["sm"] == sm
        for name, rows in (
            ("warp instructions a cycle", here & warp & issue),
            ("resident warps", here & warp),
            ("loads in flight", here & (c["track"] == Track.LOAD)),
            ("asynchronous copies in flight", here & (c["track"] == Track.COPY)),
            ("TMA copies in flight", here & (c["track"] == Track.TMA)),
            ("sub-cores with busy tensor cores", here & (c["track"] == Track.TENSOR)),
        ):
            if rows.any():
                yield from _counter(sm + FIRST_SM, name, c["start"][rows], c["end"][rows], cycles)


def _counter(
    pid: int, name: str, start: npt.NDArray[np.int64], end: npt.NDArray[np.int64], cycles: int
) -> Iterator[Event]:
    """How many intervals cover a cycle, on average of each stretch of time."""
    step, averages = coverage(start, end, cycles)
    for k, value in enumerate(averages.tolist()):
        yield {"ph": "C", "name": name, "pid": pid, "tid": 0, "ts": k * step, "args": {"value": round(value, 4)}}
    yield {"ph": "C", "name": name, "pid": pid, "tid": 0, "ts": cycles, "args": {"value": 0}}


def coverage(
    start: npt.NDArray[np.int64], end: npt.NDArray[np.int64], cycles: int
) -> tuple[int, npt.NDArray[np.float64]]:
    """Cycles of a stretch, and for each stretch how many of the intervals cover a cycle of it on average."""
    step = 1 << max(0, (max(cycles, 1) - 1) // POINTS).bit_length()
    stretches = -(-max(cycles, 1) // step)
    change = np.zeros(stretches * step + 1, np.int32)
    np.add.at(change, start, 1)
    np.add.at(change, end, -1)
    covered = np.cumsum(change)[:-1].reshape(stretches, step).sum(axis=1)
    lengths = np.minimum(step, cycles - step * np.arange(stretches))
    return step, covered / np.maximum(lengths, 1)
