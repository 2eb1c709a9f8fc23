"""A report in a notebook: every tab has its panel, every section is there once, pictures are in the page itself."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from functools import cache

import pytest

import sim
from sim.report.notebook import TABS, TIMELINE, tabs
from sim.report.sections import PAGE
from workloads import matmul, memory


@cache
def page(timeline: bool = True) -> str:
    return tabs(sim.simulate(matmul.tiled(64, tile=16), gpu="h200", timeline=0 if timeline else ()))


def panels(html: str) -> list[str]:
    return re.split(r'<div class="panel">', html)[1:]


def test_each_section_stands_in_one_tab() -> None:
    assert sorted(key for tab in TABS for key in tab.sections) == sorted(section.key for section in PAGE)


@pytest.mark.parametrize("timeline", [True, False])
def test_each_tab_has_its_panel_and_the_first_is_chosen(timeline: bool) -> None:
    titles = [tab.title for tab in (*TABS, TIMELINE)[: len(TABS) + timeline]]
    switch = r'<label class="tab"><input type="radio" name="tab"(?: checked)?/>([^<]*)</label>'
    assert re.findall(switch, page(timeline)) == titles
    assert len(panels(page(timeline))) == len(titles)
    assert page(timeline).count(" checked/>") == 1
    assert f'name="tab" checked/>{titles[0]}' in page(timeline)
    assert len(re.findall(r"\.panel:nth-of-type\(\d+\)", page(timeline))) == len(titles)


def test_a_panel_is_hidden_only_where_the_browser_can_show_it_again() -> None:
    style = re.search(r"<style>(.*?)</style>", page(), re.DOTALL)
    assert style
    before, rules = style[1].split("@supports selector(:has(*))")
    assert "display:none" not in before and rules.count("display:none") == 1


def test_pictures_are_in_the_page_itself() -> None:
    for tab, panel in zip((*TABS, TIMELINE), panels(page()), strict=True):
        found = re.findall(r'<img alt="(\w+)" width="850" src="data:image/png;base64,([^"]+)"/>', panel)
        assert tuple(name for name, _ in found) == tab.pictures
        assert all(base64.b64decode(data).startswith(b"\x89PNG") for _, data in found)
    assert "<script" not in page() and "http" not in page()
    assert len(page()) < 300_000


def test_a_kernel_without_arithmetic_has_no_roofline() -> None:
    html = tabs(sim.simulate(memory.copy(1 << 10), gpu="toy"))
    assert "draw_roofline" not in html and "draw_memory" in html


def test_a_saved_report_of_an_unknown_gpu_shows_what_it_can(make_report: Callable[..., sim.Report]) -> None:
    saved = sim.Report.from_json(make_report().to_json())
    html = saved._repr_html_()
    assert "draw_memory" in html and "draw_roofline" not in html


def test_the_notebook_picks_the_tabs() -> None:
    report = sim.simulate(memory.copy(1 << 10), gpu="toy")
    assert report._repr_html_() == tabs(report)


def test_printed_in_a_notebook_it_is_text(
    monkeypatch: pytest.MonkeyPatch, make_report: Callable[..., sim.Report]
) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    report = make_report(cycles=2000)
    assert "[GPU Speed Of Light Throughput]" in str(report)
    assert "Elapsed Cycles" in repr(report.compare(make_report()))
