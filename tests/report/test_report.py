"""The report's own face: figures, tables, comparison, text and HTML."""

import math
import re
from html.parser import HTMLParser

import pytest

from sim.counters import Stall
from sim.report.metrics import METRICS
from sim.report.sections import PAGE
from sim.report.text import WIDTH


def test_cycles_are_the_elapsed_ones(report):
    assert report.cycles == report["sm__cycles_elapsed.max"] == 1000


def test_seconds_follow_from_the_clock(report):
    assert report.seconds == pytest.approx(1e-6)


def test_tail_utilization_is_the_last_waves(report):
    assert (report.waves, report.tail_utilization) == (1, 100 / 128)


def test_frame_has_a_row_a_metric(report):
    frame = report.to_frame()
    assert frame.columns.tolist() == ["section", "name", "metric", "unit", "value"]
    assert frame["metric"].tolist() == [metric.name for metric in METRICS]


def test_frame_holds_labels_units_and_values(report):
    row = report.to_frame().set_index("metric").loc["gpu__time_duration.sum"]
    assert row.tolist() == ["GPU Speed Of Light Throughput", "Duration", "ns", 1000.0]


def test_blocks_have_sm_start_and_end(report):
    assert report.blocks.iloc[5].to_dict() == {"sm": 1, "start": 100, "end": 900}


def test_two_reports_stand_side_by_side(make_report):
    frame = make_report(cycles=2000).compare(make_report()).set_index("metric")
    assert frame.loc["sm__cycles_elapsed.max"].tolist() == ["cycle", 2000, 1000, 2.0]


def test_a_metric_without_breakdown_says_which_have_one(report):
    with pytest.raises(KeyError, match="sm__throughput"):
        report.breakdown("inst_executed")


def test_outputs_are_empty_without_a_device(report):
    assert dict(report.outputs) == {}


def test_repr_is_one_line(report):
    assert repr(report).startswith("<Report mix (100, 1, 1)x(32, 1, 1)") and "\n" not in repr(report)


# -- text --------------------------------------------------------------------------------


def test_text_begins_with_kernel_line_and_verdict(report):
    lines = str(report).splitlines()
    assert lines[0].startswith("mix (100, 1, 1)x(32, 1, 1), NVIDIA H200")
    assert any(line.startswith("Verdict  L2-bound: 95 % of the peak") for line in lines)


def test_the_verdicts_rule_is_shown(report):
    rule = "L2 95 %: lts__throughput.avg.pct_of_peak_sustained_elapsed; it decides from 60 %"
    assert f"  rule   {rule}" in str(report)
    assert rule in report._repr_html_()


def test_stalls_have_nsights_spelling_beside_source_lines(make_report, make_result):
    stall = make_result().stall * 0
    stall[:, Stall.MIO_THROTTLE] = 1
    assert re.search(r"\| MIO Throttle$", str(make_report(stall=stall)), re.MULTILINE)


def test_text_has_nsights_sections_in_order(report):
    titles = re.findall(r"^\[(.+?)\] -", str(report), re.M)
    assert titles[: len(PAGE)] == [section.title for section in PAGE]


@pytest.mark.parametrize(
    "line",
    [
        r"Compute \(SM\) Throughput +10\.00 % Duration +1\.00 us",
        r"Global Store +\| +100 \| +100 \| +1,600 \| +16\.00 \| +400 \| +0\.00 %",
        r"Shared Load +\| +100 \| +400 \| +300",
        r"Total +\| +\| +\| +9\.60 Kbyte \| 9\.60 Gbyte/s \| +15\.00 %",
        r"Stall Long Scoreboard +#{30} 21\.43 cycles/inst  75\.0 %",
        r"Blocks Per Wave +128 block Last Wave Cycles +800 cycle",
        r" +11 \| y\[i\] = tile\[j\] \* a \+ b \| +300 \| +32\.0 \| +16\.0 \| +300 \| +96\.5 \| Long Scoreboard",
    ],
)
def test_text_has_the_figures(report, line):
    assert re.search(f"^{line}$", str(report), re.M)


def test_text_leaves_out_kinds_of_access_that_did_not_happen(report):
    assert "Local Load" not in str(report)


def test_text_is_plain_and_no_wider_than_the_page(report):
    text = str(report)
    assert text.isascii() and "\x1b" not in text
    assert max(map(len, text.splitlines())) <= WIDTH
    assert not re.search(r" $", text, re.M)


def test_text_is_the_same_whatever_the_terminal(report, monkeypatch):
    plain = str(report)
    for name, value in {"COLUMNS": "40", "TERM": "dumb", "FORCE_COLOR": "1", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    assert str(report) == plain


def test_markup_in_source_is_shown_as_it_is(make_report, make_result):
    from dataclasses import replace

    from sim.program import SourceLine

    program = replace(make_result().program, source=[SourceLine("k.py", 1, "x[i] = [red] :smile: <b>")] * 3)
    report = make_report(program=program)
    assert "x[i] = [red] :smile: <b>" in str(report)
    assert "x[i] = [red] :smile: &lt;b&gt;" in report._repr_html_()


def test_notes_are_shown(make_report):
    assert "  note   one SM in four was simulated" in str(make_report(notes=("one SM in four was simulated",)))


def test_a_launch_without_any_counts_has_a_page(make_report, make_result):
    plain = make_result()
    nothing = {name: getattr(plain, name) * 0 for name in ("inst", "stall", "sm", "mem", "dram_channel_busy")}
    assert "L1/TEX Hit Rate" in str(make_report(**nothing))


# -- HTML --------------------------------------------------------------------------------


class Balance(HTMLParser):
    """Collects tags, and whether each is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.wrong = [], [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def test_html_is_well_formed_folds_without_scripts(report):
    parser = Balance()
    parser.feed(report._repr_html_())
    assert (parser.wrong, parser.open) == ([], [])
    assert "script" not in parser.seen
    assert parser.seen.count("details") == len(PAGE) + 1


def test_html_has_what_the_text_has(report):
    html = report._repr_html_()
    assert "Compute (SM) breakdown: " in html
    assert "k.py" in html
    assert '<th class="l">Source</th>' in html and '<th class="l">Top Stall</th>' in html


def test_html_shows_the_verdict_and_names_metrics(report):
    html = report._repr_html_()
    assert "L2-bound: 95 % of the peak" in html
    assert 'title="sm__cycles_active.avg"' in html


def test_nan_is_shown_as_not_available(make_report, make_result):
    report = make_report(inst=make_result().inst * 0)
    assert math.isnan(report["l1tex__t_sector_hit_rate.pct"])
    assert re.search(r"L1/TEX Hit Rate +n/a", str(report))
