"""Does the README say true: does its Python run, are its two commands there, do its names exist?"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import sim
from sim.cli import app
from sim.cli.workloads import find_workloads
from tests.cuda.extras import needs_cuda
from tests.docs.pages import Block, blocks
from workloads import matmul

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PYTHON = [block for block in blocks(ROOT / "README.md") if block.language == "python"]
SET_UP = "git clone <repository> tailwave && cd tailwave && python3 -m venv .venv && .venv/bin/pip install -q -e "


def commands() -> list[str]:
    return [line.strip() for line in README.splitlines() if "git clone" in line]


def test_two_commands_set_up_and_run_the_main_job_and_the_tests() -> None:
    assert commands() == [
        f"{SET_UP}. && .venv/bin/tailwave sawtooth",
        f"{SET_UP}'.[test]' && .venv/bin/pytest -q -n 2",
    ]


def examples() -> list[Any]:
    """The README's Python, each where what it needs is installed."""
    return [pytest.param(block, marks=[needs_cuda] if "compile_cuda" in block.code else []) for block in PYTHON]


@pytest.mark.parametrize("block", examples(), ids=range(len(PYTHON)))
def test_its_python_runs_each_block_by_itself(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    block.run({"__name__": "__main__"})


def names(line: str) -> str:
    """What stands in a line of a report besides figures, units and rules."""
    return " ".join(re.findall(r"[A-Za-z/()#.]{2,}", re.sub(r"-?[\d,]+(?:\.\d+)? (?:%|[A-Za-z/]+)", " ", line)))


def test_the_report_it_shows_has_the_lines_of_a_report() -> None:
    shown = re.search(r"```text\n(.*?)```", README, re.DOTALL)
    assert shown
    page = {names(line) for line in str(sim.simulate(matmul.tiled(n=64, tile=32), gpu="h200")).splitlines()}
    figures = shown[1].split("\n\n", 2)[2]  # what comes after the title and the verdict
    assert not [line for line in figures.splitlines() if names(line) not in page]


def test_its_links_lead_to_files() -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", README)
    assert targets
    assert not [target for target in targets if not (ROOT / target).exists()]


def test_the_workloads_that_its_commands_run_exist() -> None:
    ran = [name for name in re.findall(r"tailwave run ([a-z_]+\.[a-z_]+)", README) if not name.endswith(".cu")]
    assert ran
    assert set(ran) <= set(find_workloads())


def test_ci_finds_the_test_command() -> None:
    pattern = re.search(r"grep -m1 -E '(.*?)' README", (ROOT / ".ci" / "run").read_text())
    assert pattern
    found = [line for line in README.splitlines() if re.match(pattern[1], line)]
    assert [shlex.split(line)[-3:] for line in found] == [["-q", "-n", "2"]]


@needs_cuda
def test_its_command_for_a_source_file_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = re.search(r"^    tailwave (run saxpy\.cu .*)$", README, re.MULTILINE)
    kernel = re.search(r'compile_cuda\("""\n(.*?)"""\)', README, re.DOTALL)
    assert words and kernel
    monkeypatch.chdir(tmp_path)
    Path("saxpy.cu").write_text(kernel[1])
    ran = CliRunner().invoke(app, shlex.split(words[1]))
    assert ran.exit_code == 0, ran.output
    assert "saxpy.cu" in ran.output
