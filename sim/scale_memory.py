"""The memory system of a scale model: few SMs, and what those that it lacks have fetched for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.core import scale_model as columns
from sim.core.layout import Requests as Packets
from sim.core.memory_state import Int64s, MemoryConfig
from sim.core.scale_model import ScaleModel, move_pages, redirect
from sim.memory_system import MemorySystem
from sim.profile import Profile

NO_WAIT = np.zeros(1, np.int64)


@dataclass(frozen=True)
class Region:
    """Lines of an array, and what a scale model's SMs find when they are the first of its to load them.

    Pairs are for lines whose home is near, and for those whose home is the other partition.
    """

    first: int
    end: int
    cold: tuple[float, float] = (1.0, 1.0)  #: part of the lines that nobody has asked for
    waits: tuple[Int64s, Int64s] = (NO_WAIT, NO_WAIT)  #: ticks longer than a hit that some such lines took, descending
    most: int = 1 << 62  #: sectors that new lines read from DRAM: an array is read once for the first time
    shared: bool = True  #: other SMs use its lines as the model's do, so they stay in L2 or are brought back


class ScaleModelMemory(MemorySystem):
    """The memory system of a scale model, whose few SMs run a part of a launch's blocks.

    Pages get their places in L2 and DRAM as they are first touched, those of an array one after another: so the data of
    a part of the blocks fill partitions, sets, channels and rows as evenly as all blocks' would. Of what SMs share,
    those lines are in L2, or on their way, that some other SM of the whole GPU would have asked for; and they stay, for
    the others use them as well.
    """

    def __init__(self, profile: Profile, regions: Sequence[Region]) -> None:
        """`regions` by their first lines, no two overlapping."""
        super().__init__(profile)
        self._model = ScaleModel(
            regions=_regions(regions),
            waits=np.concatenate([NO_WAIT, *(part for region in regions for part in region.waits)]),
            slots=np.zeros(sum(region.end - region.first for region in regions), np.int32),
            pages=_no_pages(0),
            placed=np.array([0, sum(map(_pages, regions))]),
            touched=np.zeros(0, np.int64),
            lines=np.zeros((0, columns.N_COLUMNS), np.int64),
        )

    def _config_at(self, clock: float) -> MemoryConfig:
        """All SMs are of one partition: what they read comes one way, what they write goes the other.

        Of the GPU's each way has a half of both. So here both go one way, which is as wide as the two.
        """
        config = super()._config_at(clock)
        return config._replace(cross_slices=config.slices)

    def weave(self, packets: Packets, t_start: int, t_end: int) -> None:
        """`MemorySystem.weave` of the lines where they are placed."""
        self._model = _with_room(self._model, int(packets.n.sum()))
        redirect(self._model, self.state, self.config, packets)
        super().weave(packets, t_start, t_end)


def _regions(regions: Sequence[Region]) -> Int64s:
    """The regions' columns."""
    table = np.zeros((len(regions), columns.G_COLUMNS), np.int64)
    lines, waits, place = 0, len(NO_WAIT), 0
    for row, region in zip(table, regions, strict=True):
        row[[columns.G_FIRST, columns.G_END]] = region.first, region.end
        row[columns.G_SHIFT] = lines - region.first
        row[[columns.G_KEPT, columns.G_MOST]] = region.shared, region.most
        row[columns.G_PLACE] = place
        lines += region.end - region.first
        place += _pages(region)
        for far in (0, 1):
            row[columns.G_COLD + far] = round(region.cold[far] * (1 << columns.HASH_BITS))
            row[columns.G_WAITS + far] = len(region.waits[far])
            row[columns.G_WAITS_AT + far] = waits
            waits += len(region.waits[far])
    return table


def _pages(region: Region) -> int:
    """At most so many pages have the region's lines."""
    return (region.end - region.first >> columns.PAGE_BITS) + 2


def _no_pages(entries: int) -> Int64s:
    return np.full((entries, columns.P_COLUMNS), -1, np.int64)


def _with_room(model: ScaleModel, packets: int) -> ScaleModel:
    """The state with room for a step of so many packets: half of the table of pages stays empty."""
    if len(model.lines) < packets:
        touched, lines = np.zeros(2 * packets, np.int64), np.zeros((2 * packets, columns.N_COLUMNS), np.int64)
        model = model._replace(touched=touched, lines=lines)
    wanted = 2 * (int(model.placed[0]) + packets)
    if len(model.pages) < wanted:
        pages = _no_pages(1 << wanted.bit_length())
        move_pages(model.pages, pages)
        model = model._replace(pages=pages)
    return model
