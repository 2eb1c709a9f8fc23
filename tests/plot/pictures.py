"""What tests ask of any picture: its texts, and whether one lies on another or outside."""

from __future__ import annotations

from itertools import combinations

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

SLACK = 1.0  #: pixels by which neighbours may touch


def texts(figure: Figure) -> list[str]:
    """All words that the figure shows."""
    return [text.get_text() for text, _ in boxes(figure)]


def boxes(figure: Figure) -> list[tuple[Text, Bbox]]:
    """The visible texts and where they are, in pixels."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    hidden = _not_drawn(figure)
    found = []
    for text in figure.findobj(Text):
        if text.get_visible() and text.get_text().strip() and id(text) not in hidden:
            found.append((text, text.get_window_extent(canvas.get_renderer())))
    return found


def _not_drawn(figure: Figure) -> set[int]:
    """Tick labels beyond the ends of an axis, or of axes that are off: they are kept, not drawn."""
    hidden: set[int] = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not (axes.axison and low <= tick.get_loc() <= high):
                    hidden |= {id(tick.label1), id(tick.label2)}
    return hidden


def overlaps(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of texts that lie on each other."""
    placed = [(text.get_text(), box.padded(-SLACK)) for text, box in boxes(figure)]
    return [(a, b) for (a, at), (b, where) in combinations(placed, 2) if at.overlaps(where)]


def outside(figure: Figure) -> list[str]:
    """Texts that leave the figure."""
    wide, high = figure.bbox.width, figure.bbox.height
    return [
        text.get_text()
        for text, box in boxes(figure)
        if box.x0 < -SLACK or box.y0 < -SLACK or box.x1 > wide + SLACK or box.y1 > high + SLACK
    ]
