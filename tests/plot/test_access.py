"""Sectors and banks of one access: exact for known patterns, and in sum the counters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.colors import to_hex

import sim
from sim.counters import Stall, Track
from sim.launch import Launch
from sim.plot.access import (
    GLOBAL_KINDS,
    SHARED_KINDS,
    Access,
    choose_access,
    draw_banks,
    draw_sectors,
    passes_of,
    sectors_of,
)
from sim.plot.figure import BLUE, ORANGE, PALE, YELLOW
from sim.report import Report
from tests.core.launches import small
from tests.plot.pictures import texts
from workloads import matmul, memory, shared, tensor

LANES = np.arange(32)


def access(addresses: np.ndarray, width: int = 4, kind: str = "global_ld", lanes: np.ndarray = LANES) -> Access:
    return Access(0, 0, 0, 0, kind, width, lanes, np.asarray(addresses, np.int64), "x")


@pytest.mark.parametrize(
    ("stride", "sectors", "bursts", "lines", "used"),
    [
        (1, 4, 2, 1, 128),
        (2, 8, 4, 2, 128),
        (3, 12, 6, 3, 128),
        (8, 32, 16, 8, 128),
        (32, 32, 32, 32, 128),
        (0, 1, 1, 1, 4),
    ],
)
def test_sectors_of_a_stride(stride: int, sectors: int, bursts: int, lines: int, used: int) -> None:
    found = sectors_of(access(4096 + 4 * stride * LANES), 128, 32, 64)
    assert (len(found.sectors), len(found.bursts), len(found.lines), found.used_bytes) == (sectors, bursts, lines, used)


def test_an_offset_touches_one_sector_more() -> None:
    found = sectors_of(access(4096 + 4 + 4 * LANES), 128, 32, 64)
    assert found.sectors == (4096, 4128, 4160, 4192, 4224) and found.bursts == (4096, 4160, 4224)
    assert found.words[-1].line == 4224 and found.words[-1].first == 0 and found.words[-1].lanes == (31,)


def test_lanes_of_one_address_share_its_word() -> None:
    found = sectors_of(access(4096 + 4 * (LANES // 16)), 128, 32, 64)
    assert [word.lanes for word in found.words] == [tuple(range(16)), tuple(range(16, 32))]


@pytest.mark.parametrize(
    ("addresses", "width", "passes", "ideal"),
    [
        (4 * LANES, 4, 1, 1),
        (8 * LANES, 4, 2, 1),
        (128 * LANES, 4, 32, 1),
        (132 * LANES, 4, 1, 1),
        (0 * LANES, 4, 1, 1),
        (8 * LANES, 8, 2, 2),
        (16 * LANES, 16, 4, 4),
        (256 * LANES, 16, 32, 4),
        (0 * LANES, 16, 2, 2),
    ],
)
def test_passes_over_the_banks(addresses: np.ndarray, width: int, passes: int, ideal: int) -> None:
    found = passes_of(access(addresses, width, "shared_ld"), 32, 4)
    assert (found.passes, found.ideal, found.conflicts) == (passes, ideal, passes - ideal)
    cells = [(unit.which_pass, unit.bank + k) for unit in found.units for k in range(unit.banks)]
    assert len(set(cells)) == len(cells)  # a bank serves one word a pass
    assert sorted(lane for unit in found.units for lane in unit.lanes) == LANES.tolist()


WORKLOADS: dict[str, Callable[[], Launch]] = {
    "transpose": lambda: memory.transpose(40, "tiled"),
    "padded": lambda: memory.transpose(64, "padded"),
    "tiled": lambda: matmul.tiled(24, tile=8),
    "reduction": lambda: shared.reduction(1000, "modulo"),
    "bank_stride": lambda: shared.bank_stride(6, iters=4, grid=2),
    "gemm": lambda: tensor.gemm(72),
    "strided": lambda: memory.strided(500, 3),
    "offset": lambda: memory.offset(500, 5),
    "wide": lambda: memory.copy(1000, width=4, block=96),
}


def all_accesses(report: Report, kinds: tuple[str, ...]) -> list[Access]:
    """Every recorded access of these kinds, in order of time."""
    table, columns = report.recorded.columns, report.content.instructions
    issued = (table["track"] == Track.WARP) & (table["state"] == Stall.SELECTED) & (table["access"] >= 0)
    pcs = table["pc"][issued].tolist()
    return [
        choose_access(report, kinds, pc=pc, nth=n)
        for pc in sorted(set(pcs))
        if columns["kind"][pc] in kinds
        for n in range(pcs.count(pc))
    ]


@pytest.mark.parametrize("name", WORKLOADS)
def test_all_accesses_together_have_the_sectors_and_passes_that_were_counted(name: str) -> None:
    report = sim.simulate(WORKLOADS[name](), gpu=small(), timeline=(0, 1))
    columns = report.content.instructions
    sectors, passes = [0] * len(columns["sass"]), [0] * len(columns["sass"])
    ideal = list(passes)
    for each in all_accesses(report, GLOBAL_KINDS):
        sectors[each.pc] += len(sectors_of(each, 128, 32, 64).sectors)
    for each in all_accesses(report, tuple(kind for kind in SHARED_KINDS if kind != "ldgsts")):
        found = passes_of(each, 32, 4)
        passes[each.pc] += found.passes
        ideal[each.pc] += found.ideal
    assert sectors == columns["sectors"]
    of_shared = [kind in SHARED_KINDS and kind != "ldgsts" for kind in columns["kind"]]
    for counted, found in (("wavefronts", passes), ("ideal_wavefronts", ideal)):
        assert found == [n if of else 0 for n, of in zip(columns[counted], of_shared, strict=True)]


def test_the_picture_of_a_stride() -> None:
    report = sim.simulate(memory.strided(64, 9, block=32), gpu=small(), timeline=(0, 1))
    figure = draw_sectors(report, block=0)
    axes = figure.axes[0]
    bars: dict[str, list[tuple[int, float, float]]] = {color: [] for color in (BLUE, ORANGE, YELLOW, PALE)}
    for bar in axes.patches:
        if bar.get_fill():
            color = to_hex(bar.get_facecolor()).upper()
            bars[color].append((round(bar.get_y() + 0.4), bar.get_x(), bar.get_width()))
    bytes_of = 36 * LANES
    assert sorted(bars[BLUE]) == [(a // 128, a % 128, 4) for a in bytes_of.tolist()]
    assert sorted(bars[ORANGE]) == sorted({(a // 128, a % 128 // 32 * 32, 32) for a in bytes_of.tolist()})
    assert sorted(bars[YELLOW]) == sorted({(a // 128, a % 128 // 64 * 64, 64) for a in bytes_of.tolist()})
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"x[{32 * k}]" for k in range(9)]
    assert any("32 sectors = 1,024 bytes, 12 % used" in text for text in texts(figure))
    assert {str(lane) for lane in range(32)} <= set(texts(figure))


def test_the_picture_of_bank_conflicts() -> None:
    report = sim.simulate(memory.transpose(32, "tiled"), gpu=small(), timeline=(0, 1))
    figure = draw_banks(report)
    cells = [bar for bar in figure.axes[0].patches if to_hex(bar.get_facecolor()).upper() in (BLUE, ORANGE)]
    assert len(cells) == 32 and len({bar.get_x() for bar in cells}) == 1
    colors = [to_hex(bar.get_facecolor()).upper() for bar in sorted(cells, key=lambda bar: bar.get_y())]
    assert colors == [BLUE] + 31 * [ORANGE]
    assert any("32 passes, 31 bank conflicts" in text for text in texts(figure))


def test_an_instruction_is_chosen_by_line_block_warp_and_time() -> None:
    report = sim.simulate(memory.transpose(64, "naive"), gpu=small(), timeline=(0, 1))
    columns = report.content.instructions
    loads = [pc for pc, kind in enumerate(columns["kind"]) if kind == "global_ld"]
    line = columns["line"][loads[0]]
    found = choose_access(report, ("global_ld",), line=line, block=1, warp=2)
    assert (found.block, found.warp, found.kind) == (1, 2, "global_ld")
    later = choose_access(report, ("global_ld",), line=line, block=1, warp=2, nth=1)
    assert later.cycle > found.cycle
    with pytest.raises(ValueError, match=r"kind global_ld, line=1 were recorded on SM 0, 1; none is nth=0"):
        choose_access(report, ("global_ld",), line=1)
