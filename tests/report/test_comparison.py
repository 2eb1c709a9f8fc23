"""Two reports side by side: what is marked as changed, as text and as HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from sim.report.comparison import COLUMNS, LESS, MORE, change_text, changes


@pytest.fixture
def comparison(make_report):
    return make_report(cycles=2000).compare(make_report())


def test_rows_that_changed_by_a_percent_are_marked(comparison):
    marks = {row.metric: row for row in changes(comparison)}
    cycles = marks["sm__cycles_elapsed.max"]
    assert (cycles.this, cycles.other, cycles.change, cycles.mark) == ("2,000 cycle", "1,000 cycle", "x 2.0", MORE)
    ipc = marks["sm__inst_executed.avg.per_cycle_elapsed"]
    assert (ipc.change, ipc.mark, ipc.ratio) == ("-50.0 %", LESS, 0.5)
    same = marks["launch__grid_size"]
    assert (same.change, same.mark) == ("", "")


def test_a_change_below_a_percent_is_none(make_report):
    def elapsed(cycles):
        rows = changes(make_report(cycles=cycles).compare(make_report()))
        return next(row for row in rows if row.metric == "gpc__cycles_elapsed.max")

    assert (elapsed(1009).change, elapsed(1009).mark) == ("+0.9 %", "")
    assert (elapsed(1011).change, elapsed(1011).mark) == ("+1.1 %", MORE)


def test_as_text_it_shows_what_changed_in_the_page_s_order(comparison):
    lines = repr(comparison).splitlines()
    assert lines[0].split() == ["metric", "other", "this", "change"]
    assert re.match(r" ?Compute \(SM\) Throughput .* -50.0 % +▼", lines[2])
    assert any(re.match(r" ?Elapsed Cycles +1,000 cycle +2,000 cycle +x 2.0 +▲", line) for line in lines)
    assert not any("Grid Size" in line for line in lines)


def test_equal_reports_have_nothing_to_show(make_report):
    same = make_report().compare(make_report())
    assert repr(same) == "no metric changed"
    assert MORE not in same._repr_html_() and LESS not in same._repr_html_()


def test_as_html_sections_with_changes_are_open(comparison):
    html = comparison._repr_html_()
    assert html.count("<details open>") == len(re.findall(r"<summary>[^<]*: [1-9]\d* of \d+ changed", html))
    assert "<summary>Launch Statistics: 0 of 10 changed</summary>" in html
    assert re.search(r"Elapsed Cycles</span></td><td>1,000 cycle</td><td>2,000 cycle</td><td>.*?x 2.0 ▲", html)
    assert 'class="more" style="width:6.00em"' in html and 'class="less" style="width:3.00em"' in html
    HTMLParser().feed(html)


def test_it_is_a_table_as_any_other(comparison):
    assert list(comparison.columns) == COLUMNS
    assert "sm__cycles_elapsed.max" in comparison[["metric", "this"]].to_string()
    assert comparison[["metric"]]._repr_html_().startswith("<div>")


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (100, 125, "+25.0 %"),
        (100, 400, "x 4.0"),
        (0, 3, "new"),
        (100, 100, ""),
        (float("nan"), 1, ""),
        (2, 0, "-100.0 %"),
    ],
)
def test_changes_in_words(before, after, text):
    assert change_text(before, after) == text
