"""`tailwave lesson`: the list, a copy to work in, which is not overwritten, and Jupyter."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from notebooks import DIRECTORY

FIRST = min(path.stem for path in DIRECTORY.glob("*.ipynb"))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_every_lesson_is_listed_with_its_title(tailwave: Callable[..., Any]) -> None:
    lines = tailwave("lesson").stdout.splitlines()
    assert [line.split()[0] for line in lines] == sorted(path.stem for path in DIRECTORY.glob("*.ipynb"))
    assert all(len(line.split()) > 2 for line in lines)


def test_a_lesson_is_copied_and_what_was_done_in_it_kept(tailwave: Callable[..., Any]) -> None:
    assert tailwave("lesson", FIRST).exit_code == 0
    copy = Path(f"{FIRST}.ipynb")
    assert json.loads(copy.read_text()) == json.loads((DIRECTORY / copy.name).read_text())
    copy.write_text("my work")
    again = tailwave("lesson", FIRST)
    assert (again.exit_code, copy.read_text()) == (2, "my work") and "is here already" in again.stderr
    assert tailwave("lesson", FIRST, "--force").exit_code == 0
    assert copy.read_text() != "my work"


def test_it_is_opened_in_jupyter(tailwave: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda program, words: started.append(words))
    monkeypatch.setattr(sys.modules["sim.cli.lesson"], "installed", lambda module: module == "jupyterlab")
    assert tailwave("lesson", FIRST, "--open").exit_code == 0
    assert started[0][1:] == ["-m", "jupyter", "lab", f"{FIRST}.ipynb"] and Path(f"{FIRST}.ipynb").exists()


def test_without_jupyter_nothing_is_copied(tailwave: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["sim.cli.lesson"], "installed", lambda module: False)
    result = tailwave("lesson", FIRST, "--open")
    assert result.exit_code == 2 and "pip install jupyterlab" in result.stderr
    assert not list(Path().iterdir())


def test_an_unknown_lesson_is_a_line(tailwave: Callable[..., Any]) -> None:
    result = tailwave("lesson", "no such")
    assert result.exit_code == 2 and f"'no such' is no lesson; there are {FIRST}" in result.stderr
    assert len(result.stderr.splitlines()) == 1
