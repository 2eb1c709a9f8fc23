"""What all commands have: help with an example that runs, one line for an error, completion."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.cli import app
from sim.profile import names
from workloads import matmul

COMMANDS = [command.callback.__name__ for command in app.registered_commands if command.callback]
#: Examples that take long, or need files or extras that may not be there.
NOT_RUN = ("tailwave sawtooth", "tailwave validate", "tailwave run kernel.cu", "tailwave compare before.json")


def examples(command: str) -> list[str]:
    """The commands that a command's help shows, with continued lines joined."""
    callback = next(c.callback for c in app.registered_commands if c.callback and c.callback.__name__ == command)
    text = (callback.__doc__ or "").replace("\\\n", " ")
    return [" ".join(line.split()) for line in text.splitlines() if line.strip().startswith(f"tailwave {command}")]


def test_the_commands_are_those_that_the_documentation_names() -> None:
    assert COMMANDS == [
        "run", "sweep", "sawtooth", "compare", "profiles", "profile", "occupancy", "lesson", "validate"
    ]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example(tailwave: Callable[..., Any], command: str) -> None:
    result = tailwave(command, "--help")
    assert result.exit_code == 0 and examples(command)
    shown = " ".join(result.stdout.replace("\\\n", " ").split())
    assert all(example in shown for example in examples(command))


@pytest.mark.parametrize("example", [e for c in COMMANDS for e in examples(c) if not e.startswith(NOT_RUN)])
def test_the_example_runs(
    tailwave: Callable[..., Any], example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = tailwave(*shlex.split(example)[1:])
    assert result.exit_code == 0, result.output
    assert result.stdout
    for file in re.findall(r"--(?:json|csv|html|trace) ([\w.]+\.\w+)", example):
        assert (tmp_path / file).stat().st_size > 0


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_option_is_a_line(tailwave: Callable[..., Any], command: str) -> None:
    result = tailwave(command, "--no-such-option")
    assert result.exit_code == 2
    assert re.fullmatch(rf"tailwave: .*--no-such-option.* \(.*{command} --help tells more\)\n", result.stderr)


def test_an_unknown_command_is_a_line(tailwave: Callable[..., Any]) -> None:
    result = tailwave("sweeep")
    assert result.exit_code == 2 and len(result.stderr.splitlines()) == 1 and "sweeep" in result.stderr


# -- outputs of `run` --------------------------------------------------------------------


def test_run_writes_every_output(tailwave: Callable[..., Any], tmp_path: Path) -> None:
    html, trace, csv, saved = (tmp_path / f"tiled.{kind}" for kind in ("html", "trace.json", "csv", "json"))
    words = ("--html", html, "--trace", trace, "--csv", csv, "--json", saved, "--timeline", "1")
    result = tailwave("run", "matmul.tiled", "n=32", "tile=8", "--gpu", "toy", *words)
    assert result.exit_code == 0, result.output
    report = sim.simulate(matmul.tiled(n=32, tile=8), gpu="toy", timeline=1)
    assert result.stdout.rstrip("\n") == str(report)
    assert html.read_text() == report.to_html()
    assert trace.read_text() == report.to_perfetto()
    assert csv.read_text() == report.to_nsight_csv()
    assert saved.read_text() == report.to_json()


def test_run_records_the_first_sm_for_a_page_unless_told_otherwise(
    tailwave: Callable[..., Any], tmp_path: Path
) -> None:
    page = tmp_path / "tiled.html"
    tailwave("run", "matmul.tiled", "n=32", "tile=8", "--gpu", "toy", "--html", page)
    assert page.read_text() == sim.simulate(matmul.tiled(n=32, tile=8), gpu="toy", timeline=0).to_html()


@pytest.mark.parametrize("form", ["--json", "--csv"])
def test_run_prints_data_alone(tailwave: Callable[..., Any], form: str) -> None:
    report = sim.simulate(matmul.tiled(n=32, tile=8), gpu="toy")
    wanted = report.to_json() if form == "--json" else report.to_nsight_csv()
    assert tailwave("run", "matmul.tiled", "n=32", "tile=8", "--gpu", "toy", form, "-").stdout == wanted


def test_a_page_on_standard_output_is_refused(tailwave: Callable[..., Any]) -> None:
    result = tailwave("run", "memory.copy", "n=32", "--html", "-")
    assert result.exit_code == 2 and "--html and --trace need the name of a file" in result.stderr


@pytest.mark.parametrize(
    "words",
    [("profiles",), ("profile", "toy"), ("occupancy", "--threads", "256"), ("sawtooth", "--gpu", "toy", "--tile",
      "64x64x16", "--sizes", "64", "--processes", "1")],
)  # fmt: skip
def test_other_commands_print_json_alone(
    tailwave: Callable[..., Any], words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    value = json.loads(tailwave(*words, "--json", "-").stdout)
    saved = tmp_path / "saved.json"
    assert tailwave(*words, "--json", saved).exit_code == 0
    assert json.loads(saved.read_text()) == value
    if words == ("profiles",):
        assert [entry["name"] for entry in value] == names()


# -- completion --------------------------------------------------------------------------


def complete(*words: str) -> list[str]:
    """What bash would offer after these words, the last one begun."""
    environment = os.environ | {
        "_TAILWAVE_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    script = "from sim.cli import app; app(prog_name='tailwave')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offers"),
    [
        (("tailwave", "sa"), ["sawtooth"]),
        (("tailwave", "run", "memory.tr"), ["memory.transpose"]),
        (("tailwave", "run", "memory.copy", "n=64", ""), ["width=", "block="]),
        (("tailwave", "run", "memory.copy", "--gpu", "h"), ["h100_sxm", "h200"]),
        (("tailwave", "profile", "t"), ["t4", "toy"]),
        (("tailwave", "sweep", "memory.copy", "--metric", "sm__cycles_elapsed.m"), ["sm__cycles_elapsed.max"]),
    ],
)
def test_completion_offers_what_fits(words: tuple[str, ...], offers: list[str]) -> None:
    assert complete(*words) == offers


def test_completion_can_be_installed(tailwave: Callable[..., Any]) -> None:
    assert "--install-completion" in tailwave("--help").stdout


def test_the_page_about_the_commands_names_them_all() -> None:
    page = (Path(__file__).parents[2] / "docs/command_line.md").read_text()
    rows = [line.split("|")[1] for line in page.split("## Values")[0].splitlines() if line.startswith("| `")]
    assert re.findall(r"`(\w+)`", " ".join(rows)) == COMMANDS
