"""Reports as JSON: canonical, whole, read back equal; damaged files are refused with a reason."""

import json
import os

import pytest

from sim.report import Report
from sim.report.archive import ReportError


def test_equal_launches_give_equal_bytes(make_report):
    assert make_report().to_json() == make_report().to_json()


def test_a_report_read_back_writes_the_same_bytes(report):
    assert Report.from_json(report.to_json()).to_json() == report.to_json()


def test_a_report_read_back_prints_the_same_page(report):
    assert str(Report.from_json(report.to_json())) == str(report)


def test_a_file_is_read_back(report, tmp_path):
    report.to_json(tmp_path / "r.json")
    assert Report.from_json(tmp_path / "r.json").cycles == 1000
    assert Report.from_json(str(tmp_path / "r.json")).lines().equals(report.lines())


def test_keys_are_sorted_and_the_version_stands_in_the_file(report):
    document = json.loads(report.to_json())
    assert list(document) == sorted(document)
    assert (document["schema"], document["version"]) == ("tailwave.report", 1)


def test_a_metric_without_meaning_is_null(report):
    document = json.loads(report.to_json())
    assert document["metrics"]["l1tex__t_sector_pipe_lsu_mem_local_op_ld_hit_rate.pct"] is None


def test_a_failed_write_leaves_the_old_file_and_nothing_else(report, tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    path.write_text("old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        report.to_json(path)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("r.json", "old")]


def test_text_that_is_not_json_names_its_place(tmp_path):
    (tmp_path / "r.json").write_text("{\n oops")
    with pytest.raises(ReportError, match=r"r\.json: not JSON at line 2, column 2"):
        Report.from_json(tmp_path / "r.json")


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "r.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ReportError, match="not UTF-8"):
        Report.from_json(tmp_path / "r.json")


def damaged(report, **changes):
    """The report's JSON with some parts changed, or left out where the change is None."""
    document = json.loads(report.to_json()) | changes
    return json.dumps({key: value for key, value in document.items() if value is not None})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": "other"}, "no Tailwave report"),
        ({"version": 99}, "report version 99, this Tailwave reads 1"),
        ({"blocks": None}, "lacks blocks"),
        ({"metrics": {}}, "metrics are missing"),
        ({"launch": {}}, "damaged report"),
        ({"blocks": {"sm": [1], "start": [], "end": []}}, "damaged report"),
    ],
)
def test_a_damaged_report_says_what_is_wrong(report, changes, message):
    with pytest.raises(ReportError, match=message):
        Report.from_json(damaged(report, **changes))


def test_instruction_columns_of_unequal_length_are_refused(report):
    document = json.loads(report.to_json())
    document["instructions"]["sass"].pop()
    with pytest.raises(ReportError, match="differ in length"):
        Report.from_json(json.dumps(document))


def test_a_missing_file_is_the_systems_own_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        Report.from_json(tmp_path / "none.json")
