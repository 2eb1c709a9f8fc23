"""Tracks: what overlaps goes to lanes, as few as it can."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sim.report import Report
from sim.report.exports.tracks import lanes_of, tracks_of

INTERVALS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 15)), max_size=30)


@given(INTERVALS)
def test_no_two_of_a_lane_overlap_and_there_are_no_more_lanes_than_needed(intervals: list[tuple[int, int]]) -> None:
    spans = sorted((start, start + length) for start, length in intervals)
    lanes = lanes_of([start for start, _ in spans], [end for _, end in spans])
    for lane in set(lanes.tolist()):
        own = [span for span, each in zip(spans, lanes.tolist(), strict=True) if each == lane]
        assert all(first[1] <= second[0] for first, second in zip(own, own[1:], strict=False))
    most = max((sum(start <= time < end for start, end in spans) for time in range(60)), default=0)
    assert set(lanes.tolist()) == set(range(most))


def test_tracks_hold_every_interval_and_block_once(copying: Report) -> None:
    tracks = tracks_of(copying)
    assert sum(len(track.start) for track in tracks) == len(copying.timeline) + len(copying.blocks)
    for track in tracks:
        assert (np.diff(track.start) >= 0).all() and (track.start[1:] >= track.end[:-1]).all(), track.name
    assert len({(track.sm, track.name) for track in tracks}) == len(tracks)
