"""What pictures share: colours, and how a figure becomes a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from sim.files import whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which stays distinct for colour-blind readers.
BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
SKY, RED, BLACK = "#56B4E9", "#D55E00", "#000000"
INK = "#777777"  #: of what only helps to read


def save_figure(figure: Figure, path: str | os.PathLike[str], dpi: int = 150) -> Path:
    """Write the figure whole or not at all; makes the folder if there is none."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(target) as partial:
        figure.savefig(partial, dpi=dpi)
    return target
