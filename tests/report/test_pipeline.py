"""Spans of TMA, tensor cores and epilogues: of a timeline made by hand, and of a GEMM against its counters."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import sim
from sim.report.pipeline import at_once, joined, spans
from sim.timeline import TimelineError
from tests.core.launches import small
from workloads import divergence, gemm


@cache
def pingpong() -> sim.Report:
    """Each of two SMs has a block of eight tiles."""
    return sim.simulate(gemm.pingpong(256, 1024, 128, blocks=2), gpu=small(), timeline=(0, 1))


def test_intervals_of_one_key_that_touch_or_overlap_are_one() -> None:
    key, start, end = (np.array(column) for column in ([0, 0, 0, 1, 0], [10, 0, 15, 15, 30], [15, 20, 25, 16, 31]))
    assert [column.tolist() for column in joined(key, start, end)] == [[0, 0, 1], [0, 30, 15], [25, 31, 16]]
    assert [len(column) for column in joined(key[:0], start[:0], end[:0])] == [0, 0, 0]


def test_cycles_count_the_intervals_that_hold_them() -> None:
    assert at_once(np.array([1, 2, 2]), np.array([3, 4, 6]), 6).tolist() == [0, 1, 3, 2, 1, 1]


TMA, PRODUCT, STORE, STORE_BY_TMA, ADD = range(5)
INSTRUCTIONS = {
    "sass": ["UTMALDG.2D [UR8], [UR4]", "HGMMA.64x8x16.F32", "STG.E [R2], R4", "@P0 UTMASTG.2D [UR4], [UR8]", "IADD3"],
    "kind": ["", "", "global_st", "", ""],
}


def timeline(*rows: tuple[str, int, int, int, int, int]) -> SimpleNamespace:
    """A report of these rows: track, block, warp, start, end, pc."""
    frame = pd.DataFrame(rows, columns=["track", "block", "warp", "start", "end", "pc"]).assign(sm=3, on=1)
    frame["state"] = np.where(frame["track"] == "warp", "selected", "active")
    return SimpleNamespace(recorded=SimpleNamespace(frame=frame), content=SimpleNamespace(instructions=INSTRUCTIONS))


def spans_of(*rows: tuple[str, int, int, int, int, int]) -> list[tuple[str, int, int, int, int]]:
    table = spans(timeline(*rows))  # type: ignore[arg-type]
    assert (table["sm"] == 3).all()
    return list(table[["unit", "block", "warpgroup", "start", "end"]].itertuples(index=False, name=None))


def test_an_epilogue_lasts_from_the_end_of_a_product_to_the_last_store_before_the_next() -> None:
    assert spans_of(
        ("tensor", 7, 4, 100, 132, PRODUCT),
        ("tensor", 7, 4, 132, 164, PRODUCT),
        ("warp", 7, 4, 170, 171, STORE),
        ("warp", 7, 4, 180, 181, ADD),
        ("warp", 7, 4, 190, 191, STORE_BY_TMA),
        ("tensor", 7, 4, 200, 232, PRODUCT),
        ("warp", 7, 4, 240, 241, STORE),
    ) == [
        ("tensor", 7, 1, 100, 164),
        ("epilogue", 7, 1, 164, 191),
        ("tensor", 7, 1, 200, 232),
        ("epilogue", 7, 1, 232, 241),
    ]


def test_warps_of_a_warpgroup_are_put_together_and_those_of_others_are_not() -> None:
    products = [("tensor", 0, warp, 10, 20 + warp, PRODUCT) for warp in (3, 4, 5)]
    stores = [("warp", 0, warp, 40 + warp, 41 + warp, STORE) for warp in (3, 4, 5)]
    other_block = ("tensor", 1, 4, 15, 50, PRODUCT)
    assert spans_of(*products, *stores, other_block) == [
        ("tensor", 0, 0, 10, 23),
        ("tensor", 0, 1, 10, 25),
        ("tensor", 1, 1, 15, 50),
        ("epilogue", 0, 0, 23, 44),
        ("epilogue", 0, 1, 24, 46),
    ]


def test_stores_of_warps_without_products_are_no_epilogue() -> None:
    rows = (("tma", 0, 0, 5, 90, TMA), ("warp", 0, 0, 95, 96, STORE), ("tensor", 0, 4, 20, 30, PRODUCT))
    assert spans_of(*rows) == [("tma", 0, 0, 5, 90), ("tensor", 0, 1, 20, 30)]


def test_every_tile_of_a_gemm_has_its_epilogue() -> None:
    table = pingpong().pipeline()
    assert (table["start"] < table["end"]).all()
    epilogues = table[table["unit"] == "epilogue"]
    assert epilogues.groupby(["sm", "block", "warpgroup"]).size().to_dict() == {
        (sm, block, warpgroup): 4 for sm, block in zip(*blocks_on_sms(), strict=True) for warpgroup in (1, 2)
    }
    assert set(table.loc[table["unit"] == "tma", "warpgroup"]) == {0}


def blocks_on_sms() -> tuple[list[int], list[int]]:
    return pingpong().blocks["sm"].tolist(), list(range(2))


@pytest.mark.parametrize("step", [1, 97, 10**6])
def test_utilization_over_time_adds_up_to_the_pipes_counter(step: int) -> None:
    table = pingpong().tensor_utilization(step)
    cycles = table["end"] - table["start"]
    assert cycles.groupby(table["sm"]).sum().to_dict() == dict.fromkeys((0, 1), pingpong().cycles)
    assert table["utilization"].between(0, 1).all()
    busy = 100 * (table["utilization"] * cycles).sum() / (2 * pingpong().cycles)
    counter = pingpong()["sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"]
    assert busy == pytest.approx(counter, rel=1e-3) and counter > 5


def test_what_was_not_recorded_or_is_no_step_is_refused() -> None:
    plain = sim.simulate(divergence.lecture(64), gpu="toy")
    for table in (plain.pipeline, plain.tensor_utilization):
        with pytest.raises(TimelineError, match="simulate it with timeline=0"):
            table()
    with pytest.raises(ValueError, match="step=0: must be a positive number of cycles"):
        pingpong().tensor_utilization(0)


def test_a_launch_without_tensor_cores_or_tma_has_no_spans() -> None:
    report = sim.simulate(divergence.lecture(64), gpu="toy", timeline=0)
    assert report.pipeline().empty
    assert (report.tensor_utilization(50)["utilization"] == 0).all()
