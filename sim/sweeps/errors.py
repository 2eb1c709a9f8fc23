"""What a sweep raises."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


class SweepError(ValueError):
    """A sweep that cannot be run as asked."""


class SweepStopped(KeyboardInterrupt):
    """Ctrl-C during a sweep. `frame` holds the finished points; the message says how to go on."""

    def __init__(self, message: str, frame: pd.DataFrame) -> None:
        super().__init__(message)
        self.frame = frame
