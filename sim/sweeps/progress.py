"""The progress bar of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Self


class Progress(AbstractContextManager["Progress"]):
    """A bar with points done, time left and what finished last, by the columns that vary."""

    def __init__(self, total: int, done: int, varied: Sequence[str]) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._progress = Progress(
            TextColumn("simulating"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=Console(stderr=True),  # standard output is for results
        )
        self._varied = varied
        self._task = self._progress.add_task("starting" if done < total else "", total=total, completed=done)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._progress.stop()

    def advance(self, row: Mapping[str, Any]) -> None:
        """Count a finished point and name it."""
        named = " ".join(f"{name}={row[name]}" for name in self._varied)
        state = f"failed: {named}" if row["error"] else named
        self._progress.update(self._task, advance=1, description=state)
