"""Finished points on disk: a file of JSON lines that a sweep can be killed at any moment of."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sim.sweeps.errors import SweepError
from sim.sweeps.keys import model_version, name_of

_RECORD_START = b'{"key": "'


def usual_place(workload: Any) -> Path:
    """Where the points of a workload are kept when the caller names no file: in the user's cache folder.

    A version of the package has a folder of its own, so that old points can be thrown away.
    """
    from platformdirs import user_cache_path

    file = re.sub(r"[^\w.]+", "_", name_of(workload)) + ".jsonl"
    return user_cache_path("tailwave") / "sweeps" / model_version() / file


def load(path: Path) -> dict[str, dict[str, Any]]:
    """Rows by key. A line that was cut short when a sweep died is as if it were not there.

    Raises `SweepError` when the file holds anything else: it is not a store, and must not be added to.
    """
    if not path.exists():
        return {}
    rows = {}
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        try:
            record = json.loads(line)
            rows[record["key"]] = record["row"]
        except (ValueError, KeyError, TypeError):
            start = line.strip(b"\0")[: len(_RECORD_START)]  # zeros: what a power cut can leave
            if not _RECORD_START.startswith(start):
                raise SweepError(
                    f"{path}, line {number}: not a record of a sweep; give another file as store"
                ) from None
    return rows


def add(path: Path, key: str, row: Mapping[str, Any]) -> None:
    """Add one line, on the disk when this returns, after ending a line that an earlier run left unfinished."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab+", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        unfinished = False
        if size:
            file.seek(size - 1)
            unfinished = file.read(1) != b"\n"
        file.write((b"\n" if unfinished else b"") + json.dumps({"key": key, "row": row}).encode() + b"\n")
        os.fsync(file.fileno())
