"""What pictures share: size, colours, titles, and how a figure becomes a file or a cell of a notebook."""

from __future__ import annotations

import io
import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.files import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

    from sim.report import Report

# Okabe and Ito's palette, which stays distinct for colour-blind readers.
BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
SKY, RED, BLACK, YELLOW = "#56B4E9", "#D55E00", "#000000", "#F0E442"
INK = "#777777"  #: of what only helps to read
PALE = "#EEEEEE"  #: of what is empty

WIDTH = 8.5  #: inches, of a notebook's cell
DPI = 100  #: at which a notebook shows a picture
SHARP_DPI = 160  #: of the pixels that it gets
PNG_COLORS = 128
TITLE_CHARACTERS, NOTE_CHARACTERS = 95, 118  #: that a line holds at that width
TITLE_INCHES, NOTE_INCHES, GAP_INCHES = 0.2, 0.17, 0.12  #: heights of lines, and the gap round them

LEGEND_CHARACTERS = 130  #: of a row of the legend


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """An empty figure of so many inches, which a notebook shows without pyplot."""
    from matplotlib.figure import Figure

    class Picture(Figure):
        """A figure that shows itself."""

        def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
            """More pixels than its size on the page, so that it is sharp on fine screens too."""
            wide, high = self.get_size_inches()
            return png(self, SHARP_DPI), {"width": round(DPI * wide), "height": round(DPI * high)}

        def get_tightbbox(self, *_: Any, **__: Any) -> Bbox:
            """All of it: notebooks with pyplot cut figures to what layout knows, which the title is not part of."""
            return self.bbox_inches

    return Picture(figsize=(width, height), dpi=DPI, layout="constrained")


def png(figure: Figure, dpi: int) -> bytes:
    """A figure as a small PNG: pictures have few colours, so a palette holds them."""
    from PIL import Image

    drawn, out = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="rgba", dpi=dpi)
    wide, high = (int(dpi * inches) for inches in figure.get_size_inches())
    image = Image.frombytes("RGBA", (wide, high), drawn.getvalue()).convert("RGB")
    image.quantize(PNG_COLORS, dither=Image.Dither.NONE).save(out, "png")
    return out.getvalue()


def subject(report: Report) -> str:
    """What ran, where: the title of a report's picture."""
    header = report.header
    params = ", ".join(f"{name}={value}" for name, value in header.params)
    return f"{header.kernel}{f'({params})' if params else ''} on {header.gpu}"


def headline(figure: Figure, title: str, *notes: str) -> None:
    """A title, and below it what the picture says in figures; the figure grows by the room that they take."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    titles = textwrap.wrap(title, TITLE_CHARACTERS)
    lines = [line for note in notes for line in textwrap.wrap(note, NOTE_CHARACTERS)]
    wide, body = figure.get_size_inches()
    room = TITLE_INCHES * len(titles) + NOTE_INCHES * len(lines) + GAP_INCHES
    high = body + room
    figure.set_size_inches(wide, high)
    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    engine.set(rect=(0, 0, 1, body / high))
    y = high - GAP_INCHES / 2
    for k, text in enumerate((*titles, *lines)):
        is_title = k < len(titles)
        look: dict[str, Any] = {"fontsize": 11} if is_title else {"fontsize": 9, "color": INK}
        figure.text(GAP_INCHES / wide, y / high, text, va="top", **look).set_in_layout(False)
        y -= TITLE_INCHES if is_title else NOTE_INCHES


def draw_legend(figure: Figure, colors: dict[str, str]) -> None:
    """What each colour means, below the picture, in as many rows as it needs."""
    from matplotlib.patches import Patch

    handles = [Patch(color=color, label=label) for label, color in colors.items()]
    columns = LEGEND_CHARACTERS // (max(map(len, colors)) + 7)
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)


def tidy(axes: Axes, **grid: Any) -> None:
    """No frame, and faint lines across where `axis` says."""
    axes.spines[["top", "right"]].set_visible(False)
    if grid:
        axes.grid(color="#e5e5e5", linewidth=0.6, zorder=0, **grid)
    axes.set_axisbelow(True)


def save_figure(figure: Figure, path: str | os.PathLike[str], dpi: int = 150) -> Path:
    """Write the figure whole or not at all; makes the folder if there is none."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(target) as partial:
        figure.savefig(partial, dpi=dpi)
    return target
