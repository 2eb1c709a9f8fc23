"""Reports as JSON files: canonical text, written whole or not at all, and read back with checks."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from sim.report.content import Content, Header
from sim.report.lines import SUMMED
from sim.report.metrics import TABLE
from sim.report.report import Report
from sim.report.verdict import Verdict

SCHEMA = "tailwave.report"
VERSION = 1
_PARTS = ("launch", "verdict", "advice", "metrics", "instructions", "blocks")
_PLACES = ("address", "sass", "kind", "file", "line", "source")


class ReportError(ValueError):
    """Text that is no report of this version; the message says what is wrong and what to do."""


def dump(report: Report) -> str:
    """The report as JSON: keys sorted, one fixed layout, NaN as null, a newline at the end."""
    content = report.content
    sm, start, end = content.block_times.T.tolist() if len(content.block_times) else ([], [], [])
    document = {
        "schema": SCHEMA,
        "version": VERSION,
        "launch": asdict(content.header),
        "verdict": asdict(content.verdict),
        "advice": list(content.advice),
        "metrics": {name: None if math.isnan(value) else value for name, value in content.values.items()},
        "instructions": content.instructions,
        "blocks": {"sm": sm, "start": start, "end": end},
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False) + "\n"


def load(source: str | os.PathLike[str]) -> Report:
    """The report in a file, or in a string that starts with a brace."""
    if isinstance(source, str) and source.lstrip().startswith("{"):
        return parse(source, "the given text")
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ReportError(f"{path}: not UTF-8 text ({error.reason}); give a file that to_json wrote") from None
    return parse(text, str(path))


def parse(text: str, where: str) -> Report:
    """The report in JSON text; `where` names it in errors."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ReportError(
            f"{where}: not JSON at line {error.lineno}, column {error.colno}: {error.msg}; write it again with to_json"
        ) from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ReportError(f"{where}: no Tailwave report (schema is not {SCHEMA!r}); give a file that to_json wrote")
    if document.get("version") != VERSION:
        raise ReportError(
            f"{where}: report version {document.get('version')!r}, this Tailwave reads {VERSION}; simulate again"
        )
    missing = [part for part in _PARTS if part not in document]
    if missing:
        raise ReportError(f"{where}: the report lacks {', '.join(missing)}; write it again with to_json")
    try:
        return _build(document)
    except (KeyError, TypeError, ValueError) as error:
        raise ReportError(f"{where}: damaged report ({error}); write it again with to_json") from None


def _build(document: dict[str, Any]) -> Report:
    launch = dict(document["launch"])
    for name in ("grid", "block", "notes"):
        launch[name] = tuple(launch[name])
    launch["params"] = tuple((name, value) for name, value in launch["params"])
    metrics = document["metrics"]
    lost = [name for name in TABLE if name not in metrics]
    if lost:
        raise ValueError(f"{len(lost)} metrics are missing, {lost[0]} among them")
    columns = {name: list(document["instructions"][name]) for name in (*_PLACES, *SUMMED)}
    if len({len(column) for column in columns.values()}) != 1:
        raise ValueError("instruction columns differ in length")
    times = [document["blocks"][name] for name in ("sm", "start", "end")]
    content = Content(
        Header(**launch),
        {name: math.nan if metrics[name] is None else metrics[name] for name in TABLE},
        columns,
        np.array(times, np.int64).T.reshape(-1, 3),
        Verdict(**document["verdict"]),
        tuple(document["advice"]),
    )
    return Report.of(content)
