"""The report as one HTML file: the page of sections, and an interactive timeline drawn on a canvas.

The timeline is our own script of a few hundred lines: a chart library would add
megabytes to each file and draws tens of thousands of bars slowly. The spans go into the
file as gzipped columns of integers, so that a hundred thousand take about 500 KB.
"""

from __future__ import annotations

import base64
import gzip
import json
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sim.report.exports.tracks import BLOCK, STATE_MEANINGS, STATE_NAMES, Spans, tracks_of
from sim.report.html import page
from sim.report.stalls import COLOURS

if TYPE_CHECKING:
    from sim.report.report import Report

HERE = Path(__file__).parent
IN_FLIGHT_COLOUR, BLOCK_COLOUR = "#9A86B8", "#7F97AD"
#: A span's columns, in the order in which the script reads them.
COLUMNS = {"start": "<u4", "length": "<u4", "state": "u1", "block": "<i4", "warp": "<i2", "pc": "<i4", "on": "<u4"}


def dump(report: Report) -> str:
    """The whole file."""
    tracks = sorted(tracks_of(report), key=_place)
    meta = json.dumps(_meta(report, tracks), separators=(",", ":")).replace("<", "\\u003c")
    data = base64.b64encode(gzip.compress(_packed(tracks), mtime=0)).decode()
    hint = "" if report.has_timeline else "Blocks only: simulate with timeline=0 to see the warps of SM 0."
    return TEMPLATE.format(
        title=escape(report.header.title),
        style=(HERE / "timeline.css").read_text(encoding="utf-8"),
        hint=escape(hint),
        report=page(report),
        meta=meta,
        data=data,
        script=(HERE / "timeline.js").read_text(encoding="utf-8"),
    )


TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
<section id="timeline" aria-label="Timeline">
<div id="bar">
<button id="in" title="zoom in (key +)">+</button><button id="out" title="zoom out (key -)">&minus;</button>
<button id="all" title="the whole launch (key 0)">All</button>
<span id="span"></span>
<span class="hint">Drag to move, Ctrl + wheel or double click to zoom, point at a bar to read it.
Click a state below to see where it is. {hint}</span>
</div>
<div id="legend"></div>
<div id="rows"><canvas id="axis"></canvas><div id="scroll"><canvas id="chart" tabindex="0"></canvas></div></div>
<div id="tip" role="status" hidden></div>
</section>
<section id="report">{report}</section>
<script id="meta" type="application/json">{meta}</script>
<script id="data" type="text/plain">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def _place(track: Spans) -> tuple[bool, int, int, int]:
    """Recorded SMs stand above the blocks of all, and there warps first, because loads and copies take many rows."""
    kinds = ("warps", "loads", "asynchronous copies", "blocks")
    return track.kind == "blocks", track.sm, kinds.index(track.kind), track.lane


def _meta(report: Report, tracks: list[Spans]) -> dict[str, Any]:
    """What the script needs besides the spans."""
    columns = report.content.instructions
    shown = sorted({pc for track in tracks for pc in np.unique(track.pc).tolist() if pc >= 0})
    return {
        "cycles": report.cycles,
        "tracks": [[track.sm, track.kind, track.lane, len(track.start)] for track in tracks],
        "columns": list(COLUMNS.items()),
        "states": [
            list(state)
            for state in zip(
                STATE_NAMES, (*COLOURS.values(), IN_FLIGHT_COLOUR, BLOCK_COLOUR), STATE_MEANINGS, strict=True
            )
        ],
        "block": BLOCK,
        "instructions": {
            pc: [columns["sass"][pc], columns["address"][pc], columns["line"][pc], columns["source"][pc]]
            for pc in shown
        },
    }


def _packed(tracks: list[Spans]) -> bytes:
    """The columns one after the other, each of all tracks' spans."""

    def column(name: str) -> npt.NDArray[np.int64]:
        parts = [track.end - track.start if name == "length" else getattr(track, name) for track in tracks]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    return b"".join(column(name).astype(kind).tobytes() for name, kind in COLUMNS.items())
