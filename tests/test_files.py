"""Files that appear whole or not at all: what is written, what is left after an error, what an error says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sim.files import check_place, whole_file


def test_what_is_written_takes_the_place_of_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    target.write_text("old")
    with whole_file(target) as file:
        assert file.suffix == ".json"
        file.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert os.listdir(tmp_path) == ["report.json"]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    target.write_text("old")
    with pytest.raises(KeyboardInterrupt), whole_file(target) as file:
        file.write_text("half")
        raise KeyboardInterrupt
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.json"]


def test_the_file_has_the_mode_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    with whole_file(tmp_path / "whole") as file:
        file.touch()
    assert (tmp_path / "whole").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize(
    ("path", "error", "says"),
    [(".", IsADirectoryError, "folder; give the name of a file"), ("no/x.json", FileNotFoundError, "no folder .*make")],
)
def test_a_place_where_no_file_can_be_is_named(tmp_path: Path, path: str, error: type[OSError], says: str) -> None:
    target = tmp_path / path
    with pytest.raises(error, match=says) as caught:
        check_place(target)
    assert caught.value.filename == str(target)
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write to any folder")
def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="cannot be written to"):
        check_place(tmp_path / "x.json")
