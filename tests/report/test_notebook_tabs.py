"""A report's tabs in a browser: one panel at a time, by mouse and by keyboard, two reports on one page apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sim
from sim.report.notebook import TABS
from tests.report.exports.test_web_page import browser  # noqa: F401
from workloads import memory


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Any:  # noqa: F811
    html = sim.simulate(memory.copy(1 << 10), gpu="toy")._repr_html_()
    path = tmp_path / "notebook.html"
    path.write_text(f"<!DOCTYPE html><meta charset=utf-8><body>{html}{html}</body>", encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    yield page
    page.close()


def shown(page: Any) -> list[int]:
    """The panels of both reports that are seen."""
    panels = page.locator(".panel")
    return [k for k in range(panels.count()) if panels.nth(k).is_visible()]


def test_a_tab_shows_its_panel_alone(page: Any) -> None:
    count = len(TABS)
    assert page.locator(".panel").count() == 2 * count and shown(page) == [0, count]
    page.locator(".tab", has_text="Memory").first.click()
    assert shown(page) == [1, count]
    assert page.locator("img[alt=draw_memory]").first.is_visible()
    page.locator(".tab", has_text="Source").last.click()
    assert shown(page) == [1, 2 * count - 1]


def test_arrow_keys_go_from_tab_to_tab(page: Any) -> None:
    page.locator(".tab input").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert shown(page) == [2, len(TABS)]
