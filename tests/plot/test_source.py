"""The picture of a kernel's source: its lines, what they cost, and which one stands out."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import sim
from sim.plot.figure import BLUE, RED
from sim.plot.source import draw_source
from tests.sass.listings import cuobjdump

SOURCE = "first\n\nload\nend\n"


@cache
def report(with_lines: bool = True) -> sim.Report:
    code = ["S2R R0, SR_TID.X", "IMAD R2, R0, 0x80, RZ", "LDS R4, [R2]", "IADD3 R4, R4, R4, RZ"]
    text = cuobjdump(code, arch="sm_80")
    places = {0x0: 1, 0x20: 3, 0x40: 4} if with_lines else {}
    for address, line in places.items():
        mark = f"        /*{address:04x}*/"
        text = text.replace(mark, f'\t//## File "/src/k.cu", line {line}\n{mark}', 1)
    program = sim.load_sass(text, shared_static_bytes=4096)["k"]
    return sim.simulate(sim.Launch(program, 1, 32, (sim.zeros(4, np.uint32), 1)), gpu="toy")


def texts(figure: Figure) -> list[str]:
    return [text.get_text().strip() for axis in figure.axes for text in axis.texts]


def test_lines_of_the_text_stand_beside_their_bars() -> None:
    figure = draw_source(report(), SOURCE)
    shown = texts(figure)
    assert {"first", "load", "end", "1", "2", "3", "4"} <= set(shown)
    bars = figure.axes[1].patches
    assert [round(bar.get_y() + bar.get_height() / 2) for bar in bars] == [0, 2, 3]
    columns = report().line_columns
    cycles = [columns["warp_cycles"][k] for k, file in enumerate(columns["file"]) if file]
    np.testing.assert_allclose([bar.get_width() for bar in bars], 100 * np.array(cycles) / sum(columns["warp_cycles"]))
    hottest = int(np.argmax(cycles))
    colors = [to_hex(bar.get_facecolor()).upper() for bar in bars]
    assert colors == [RED if k == hottest else BLUE for k in range(3)]


def test_instructions_are_told() -> None:
    columns = report().line_columns
    counts = [n for n, file in zip(columns["instructions"], columns["file"], strict=True) if file]
    assert {"warp\ninst", *map(str, counts)} <= set(texts(draw_source(report(), SOURCE)))


def test_bank_conflicts_are_told() -> None:
    shown = texts(draw_source(report(), SOURCE))
    assert "31" in shown and "bank\nconflicts" in shown


def test_without_the_text_only_lines_with_instructions_are_shown() -> None:
    assert len(draw_source(report()).axes[1].patches) == 3
    code = draw_source(report()).axes[0]
    assert [text.get_text().strip() for text in code.texts][::2] == ["1", "3", "4"]


def test_a_report_without_lines_is_refused() -> None:
    with pytest.raises(ValueError, match="k: the report has no source lines"):
        draw_source(report(False))
    with pytest.raises(ValueError, match=r"no source lines of other\.cu"):
        draw_source(report(), file="other.cu")
