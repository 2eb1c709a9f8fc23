"""The gallery: its page is what `docs/gallery.py` makes, its code runs, and its pictures have their sizes."""

from __future__ import annotations

import importlib.util
import struct
import sys
from pathlib import Path
from types import ModuleType

import pytest

from sim import plot
from sim.plot.figure import DPI

DOCS = Path(__file__).parents[2] / "docs"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_gallery", DOCS / "gallery.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where a dataclass looks for its module
    spec.loader.exec_module(module)
    return module


gallery = load()


def test_the_page_is_as_it_is_made() -> None:
    assert (DOCS / "gallery.md").read_text(encoding="utf-8") == gallery.page()


def test_it_shows_every_picture_of_a_report() -> None:
    assert sorted(entry.function for entry in gallery.ENTRIES) == sorted(plot.OF_REPORT)
    assert {file.stem for file in gallery.IMAGES.glob("*")} == set(plot.OF_REPORT)


@pytest.mark.parametrize("entry", gallery.ENTRIES, ids=lambda entry: entry.function)
def test_its_code_draws_a_picture_of_that_size(entry: object) -> None:
    figure = gallery.figure_of(entry)
    data = (gallery.IMAGES / f"{entry.function}.png").read_bytes()  # type: ignore[attr-defined]
    assert struct.unpack(">II", data[16:24]) == tuple(int(DPI * inches) for inches in figure.get_size_inches())
