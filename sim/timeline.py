"""A timeline: what the warps of chosen SMs did in each cycle, with masks and addresses; a table of intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sim.counters import Stall, Track

if TYPE_CHECKING:
    import pandas as pd

#: Columns of a timeline, in order, and their types.
COLUMNS = {
    "sm": np.int32,
    "track": np.int8,
    "slot": np.int32,
    "block": np.int32,
    "warp": np.int32,
    "start": np.int64,
    "end": np.int64,
    "state": np.int8,
    "pc": np.int32,
    "active": np.uint32,
    "on": np.uint32,
    "access": np.int32,
}
TRACKS = tuple(track.name.lower() for track in Track)
STATES = (*(reason.name.lower() for reason in Stall), "active")
ACTIVE = len(Stall)  #: the state of an interval of any track but a warp's


class TimelineError(ValueError):
    """A picture or table over time of a launch of which none was recorded."""


class Place(NamedTuple):
    """Where an array argument lies in global memory."""

    address: int
    nbytes: int
    itemsize: int


@dataclass(frozen=True, eq=False)
class Timeline:
    """Intervals of the recorded SMs, sorted by SM, start, track and warp slot; docs/timeline.md says what they mean.

    `columns` holds a NumPy array for each of `COLUMNS`; `track` is a `Track`, `state` of a
    warp's interval a `Stall`. `addresses` int64 `[m, 64]`: lanes' byte addresses of the
    memory instruction whose `access` is that row, as in a `sim.Trace`.
    """

    sms: tuple[int, ...]
    columns: Mapping[str, npt.NDArray[Any]]
    addresses: npt.NDArray[np.int64]
    arrays: Mapping[str, Place] = field(default_factory=dict)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The columns as a table, tracks and states as words."""
        import pandas as pd

        words = {"track": TRACKS, "state": STATES}
        return pd.DataFrame(
            {
                name: pd.Categorical.from_codes(values, categories=words[name]) if name in words else values
                for name, values in self.columns.items()
            }
        )
