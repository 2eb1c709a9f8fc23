"""Sliders: the picture follows them, each setting is simulated once, and without widgets the picture is there."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from matplotlib.figure import Figure

from sim import plot
from sim.launch import Launch
from sim.plot.sliders import INSTALL
from tests.core.launches import small
from tests.plot.pictures import texts
from workloads import memory

calls: list[int] = []


def strided(n: int, stride: int) -> Launch:
    """A workload that counts how often it is made, and refuses one stride."""
    calls.append(stride)
    if stride == 13:
        raise ValueError("13 brings bad luck")
    return memory.strided(n, stride, block=32)


@pytest.fixture
def explorer() -> Any:
    calls.clear()
    return plot.explore(strided, "draw_sectors", gpu=small(), n=64, stride=[1, 2, 13])


def test_the_picture_is_that_of_the_values_that_are_set(explorer) -> None:
    assert any("4 sectors" in text for text in texts(explorer.figure()))
    assert any("8 sectors" in text for text in texts(explorer.set(stride=2).figure()))
    assert repr(explorer) == "<Explorer of strided at stride=2>"


def test_each_setting_is_simulated_once(explorer) -> None:
    for stride in (1, 2, 1, 2):
        explorer.set(stride=stride).figure()
    assert calls == [1, 2]


def test_any_function_of_a_report_can_be_drawn() -> None:
    explorer = plot.explore(strided, lambda report: report.draw_memory(), gpu=small(), n=64, stride=[1, 2])
    assert "Device\nmemory" in texts(explorer.figure())


WIDGETS = {"reason": "the extra is not installed: pip install 'tailwave[notebook]'"}


def test_a_slider_moves_the_picture(explorer) -> None:
    pytest.importorskip("ipywidgets", **WIDGETS)
    shown: list[Figure] = []
    slider, problem = explorer.sliders(shown.append).children
    assert slider.options == (1, 2, 13) and slider.value == 1
    slider.value = 2
    assert explorer.values == {"stride": 2} and shown == [explorer.figure()]
    slider.value = 13
    assert problem.value == "13 brings bad luck" and len(shown) == 1
    slider.value = 1
    assert problem.value == "" and any("4 sectors" in text for text in texts(shown[-1]))


class Notebook:
    """What IPython would be asked to display."""

    def __init__(self) -> None:
        self.outputs: list[Any] = []

    def display(self, output: Any, display_id: bool = False) -> Notebook:
        self.outputs.append(output)
        return self

    def update(self, output: Any) -> None:
        self.outputs[-1] = output


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    ipython = pytest.importorskip("IPython.display", **WIDGETS)
    notebook = Notebook()
    monkeypatch.setattr(ipython, "display", notebook.display)
    return notebook


def test_in_a_notebook_sliders_stand_over_the_picture_and_change_it(explorer, notebook: Notebook) -> None:
    pytest.importorskip("ipywidgets", **WIDGETS)
    explorer._ipython_display_()
    box, figure = notebook.outputs
    assert figure is explorer.figure()
    box.children[0].value = 2
    assert notebook.outputs == [box, explorer.figure()] and explorer.figure() is not figure


def test_without_widgets_the_picture_is_there(explorer, notebook: Notebook, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    explorer._ipython_display_()
    assert notebook.outputs == [explorer.figure()] and capsys.readouterr().out.strip() == INSTALL


def test_what_cannot_be_explored_is_refused(explorer) -> None:
    with pytest.raises(ValueError, match="'draw_cats' is no picture of a report; use draw_banks"):
        plot.explore(strided, "draw_cats", n=64, stride=[1])
    with pytest.raises(ValueError, match="needs a parameter with several values"):
        plot.explore(strided, n=64, stride=1)
    with pytest.raises(ValueError, match=r"stride=3: no slider has that; there are stride=\[1, 2, 13\]"):
        explorer.set(stride=3)
