"""The HTML file: self-contained, and in a browser zoomed, pointed at, and read."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sim.counters import Stall
from sim.report import Report
from sim.report.stalls import COLOURS, REASONS, cycles_name

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LABEL = 168  #: where the chart's rows begin, in pixels


def test_the_file_is_whole_and_needs_no_network(tiled: Report, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    tiled.to_html(path)
    text = path.read_text()
    assert text == tiled.to_html()
    assert text.startswith("<!DOCTYPE html>") and text.endswith("</html>\n")
    assert not re.findall(r"""(?:src|href)=["'](?!data:)|https?://|@import|url\(""", text)
    assert len(text) < 300_000


def test_text_of_a_kernel_cannot_end_the_script(tiled: Report) -> None:
    from dataclasses import replace

    header = replace(tiled.header, kernel="</script><script>alert(1)</script>")
    instructions = tiled.content.instructions | {
        "source": ["</script><b>&amp;" for _ in tiled.content.instructions["source"]]
    }
    report = Report.of(replace(tiled.content, header=header, instructions=instructions))
    report._timeline = tiled.recorded
    text = report.to_html()
    assert text.count("</script>") == 3 and "<script>alert" not in text


# -- in a browser ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install 'tailwave[browser]'")
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any, tiled: Report, tmp_path: Path) -> Iterator[Any]:
    """The file, opened; it must say nothing on the console and ask for nothing but itself."""
    path = tmp_path / "report.html"
    tiled.to_html(path)
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url) if request.url != path.as_uri() else None)
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-ready]", timeout=20_000)
    yield page
    assert said == []
    page.close()


def shown_cycles(page: Any) -> tuple[int, int]:
    first, last = re.findall(r"[\d,]+", page.locator("#span").inner_text())
    return int(first.replace(",", "")), int(last.replace(",", ""))


def point(page: Any, cycle: float, row: int) -> str:
    """Point at a cycle of a warp row, counted from the top; what the page says of it."""
    chart = page.locator("#chart").bounding_box()
    first, last = shown_cycles(page)
    x = chart["x"] + LABEL + (cycle - first) * (chart["width"] - LABEL) / (last - first)
    page.mouse.move(x - 3, chart["y"] + 4 + 13 * row + 6)
    page.mouse.move(x, chart["y"] + 4 + 13 * row + 6)
    return page.locator("#tip").inner_text() if page.locator("#tip").is_visible() else ""


def longest_stall(report: Report) -> Any:
    rows = report.timeline
    rows = rows[(rows["track"] == "warp") & (rows["sm"] == 0) & (rows["state"] == "long_scoreboard")]
    return rows.loc[(rows["end"] - rows["start"]).idxmax()]


def test_pointing_at_a_bar_tells_its_stall_reason_instruction_and_line(page: Any, tiled: Report) -> None:
    stall = longest_stall(tiled)
    slots = sorted(set(tiled.timeline.query("sm == 0 and track == 'warp'")["slot"]))
    said = point(page, (stall["start"] + stall["end"]) / 2, slots.index(stall["slot"]))
    assert said.startswith("Long Scoreboard")
    assert f"block {stall['block']}, warp {stall['warp']}" in said
    assert f"cycles {stall['start']:,} to {stall['end']:,} ({stall['end'] - stall['start']:,})" in said
    assert tiled.content.instructions["sass"][stall["pc"]] in said
    assert tiled.content.instructions["source"][stall["pc"]] in said
    assert "waits for data from global or local memory" in said


def test_the_wheel_zooms_around_the_pointer_and_buttons_and_keys_do_too(page: Any, tiled: Report) -> None:
    assert shown_cycles(page) == (0, tiled.cycles)
    stall = longest_stall(tiled)
    middle = (stall["start"] + stall["end"]) / 2
    point(page, middle, 0)
    page.keyboard.down("Control")
    for _ in range(6):
        page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.wait_for_function(f"document.getElementById('span').textContent !== 'cycles 0 to {tiled.cycles:,}'")
    page.wait_for_timeout(100)
    first, last = shown_cycles(page)
    assert last - first < tiled.cycles / 8
    assert first <= middle <= last
    slots = sorted(set(tiled.timeline.query("sm == 0 and track == 'warp'")["slot"]))
    assert point(page, middle, slots.index(stall["slot"])).startswith("Long Scoreboard")

    page.click("#all")
    page.wait_for_function(f"document.getElementById('span').textContent === 'cycles 0 to {tiled.cycles:,}'")
    page.click("#in")
    page.wait_for_timeout(100)
    assert shown_cycles(page)[1] - shown_cycles(page)[0] == pytest.approx(tiled.cycles / 2, abs=1)
    page.locator("#chart").focus()
    page.keyboard.press("0")
    page.wait_for_function(f"document.getElementById('span').textContent === 'cycles 0 to {tiled.cycles:,}'")


def test_dragging_moves_through_time(page: Any, tiled: Report) -> None:
    page.click("#in")
    page.wait_for_timeout(100)
    before = shown_cycles(page)
    point(page, sum(before) / 2, 0)
    chart = page.locator("#chart").bounding_box()
    page.mouse.down()
    page.mouse.move(chart["x"] + LABEL + 40, chart["y"] + 8)
    page.mouse.up()
    page.wait_for_timeout(100)
    after = shown_cycles(page)
    assert after[0] > before[0] and after[1] - after[0] == pytest.approx(before[1] - before[0], abs=1)


COLOURS_OF_CHART = """() => {
    const chart = document.getElementById('chart'), copy = document.createElement('canvas');
    [copy.width, copy.height] = [chart.width, chart.height];
    const context = copy.getContext('2d', { willReadFrequently: true });
    context.drawImage(chart, 0, 0);
    const data = context.getImageData(0, 0, copy.width, copy.height).data, found = new Set();
    for (let k = 0; k < data.length; k += 4) found.add([data[k], data[k + 1], data[k + 2]].join());
    return [...found];
}"""


def rgb(state: Stall) -> str:
    """A state's colour as the chart's pixels have it."""
    return ",".join(str(int(COLOURS[state][k : k + 2], 16)) for k in (1, 3, 5))


def test_the_legend_has_the_reports_shares_and_shows_where_a_state_is(page: Any, tiled: Report) -> None:
    entries = page.locator("#legend button")
    texts = entries.all_inner_texts()
    total = tiled["smsp__pcsamp_sample_count"]
    for reason, about in REASONS.items():
        if cycles := tiled[cycles_name(reason)]:
            assert f"{about.label.removeprefix('Stall ')} {100 * cycles / total:.1f} %" in texts
    entries.nth(0).click()
    assert entries.nth(0).get_attribute("aria-pressed") == "true"
    page.wait_for_timeout(100)
    colours = page.evaluate(COLOURS_OF_CHART)
    assert "Long Scoreboard" in texts[0]
    assert rgb(Stall.LONG_SCOREBOARD) in colours
    assert rgb(Stall.BARRIER) not in colours  # dimmed now
    entries.nth(0).click()
    page.wait_for_timeout(100)
    assert rgb(Stall.BARRIER) in page.evaluate(COLOURS_OF_CHART)


def test_a_page_without_a_timeline_shows_blocks(browser: Any, plain: Report, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    plain.to_html(path)
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-ready]", timeout=20_000)
    chart = page.locator("#chart").bounding_box()
    page.mouse.move(chart["x"] + chart["width"] / 2, chart["y"] + 8)
    assert page.locator("#tip").inner_text().startswith("Block ")
    assert "Blocks only" in page.locator("#bar").inner_text()
    page.close()
