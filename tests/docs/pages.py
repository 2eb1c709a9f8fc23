"""The code blocks of a page of the docs, and how they are run: all blocks of a page in order, in one folder.

    python      is run, in one scope a page
    sh          commands of `tailwave` and `python` are run
    output      its lines are among those that the block before printed; `...` stands for lines left out
    diff        is made to the folder's file; with a/ and b/ it is one that the repository takes, or has taken
    any other   is not run

A block whose first line is a comment with a file's name and nothing else, such as `# copy.py`, is saved under that name
and not run: a later command does that. A block that cannot be run says why in a comment before it:
`<!-- not run: needs a cluster -->`.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from sim.cli import app

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"(?:<!-- not run: (?P<why>[^>]+) -->\n)?^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.M | re.S)
_FILE_NAME = re.compile(r"(?:#|//) ([\w.]+\.\w+)\n")


@dataclass(frozen=True)
class Block:
    """A fenced block: what is in it, and where."""

    page: Path
    line: int  #: lines of the page before its code
    language: str
    code: str
    why_not_run: str | None

    @property
    def file_name(self) -> str | None:
        """The file that it is saved as."""
        named = _FILE_NAME.match(self.code)
        return named[1] if named else None

    @property
    def runs(self) -> bool:
        return self.language in ("python", "sh", "diff") and not self.why_not_run and not self.file_name

    def commands(self) -> list[str]:
        """Of a block of language sh, its commands without comments."""
        lines = self.code.replace("\\\n", " ").splitlines()
        return [line for line in lines if line.strip() and not line.startswith("#")]

    def run(self, scope: dict[str, Any]) -> str:
        """What it printed, run in the current folder; of Python, names come from `scope` and go there."""
        if self.file_name:
            Path(self.file_name).write_text(self.code, encoding="utf-8")
        elif self.runs:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                self._run(scope)
            return printed.getvalue()
        return ""

    def _run(self, scope: dict[str, Any]) -> None:
        if self.language == "python":
            # At its own place in the page, where kernels and tracebacks look for their source.
            exec(compile("\n" * self.line + self.code, str(self.page), "exec"), scope)
        elif self.language == "diff":
            _apply(self.code)
        else:
            for command in self.commands():
                _run_command(command)


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return list(_blocks(page))


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("code"))
        yield Block(page, line, found["language"], found["code"], found["why"])


def run_page(page: Path) -> None:
    """Run the blocks of a page in the current folder, and compare what it says that they print."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    for block in blocks(page):
        if block.language == "output":
            lines = {line.rstrip() for line in printed.splitlines()} | {"", "..."}
            absent = [line for line in block.code.splitlines() if line.rstrip() not in lines]
            assert not absent, f"{page.name}:{block.line + 1}: not printed: {absent}; this was:\n{printed}"
        else:
            printed = block.run(scope)


def _apply(change: str) -> None:
    if change.startswith("--- a/"):
        tried = [_git_apply(change, ROOT, "--check", *direction) for direction in ([], ["--reverse"])]
    else:
        tried = [_git_apply(change, Path.cwd(), "-p0", "--unidiff-zero")]
    assert any(done.returncode == 0 for done in tried), f"{tried[-1].stderr}{change}"


def _git_apply(change: str, where: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "apply", *options], input=change, text=True, cwd=where, capture_output=True)


def _run_command(command: str) -> None:
    program, *words = shlex.split(command, comments=True)
    if program == "tailwave":
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, f"{command}\n{done.output}"
        print(done.output)
    elif program == "python":
        runpy.run_path(words[0], run_name="__main__")
    else:
        raise AssertionError(f"{program} is no command that pages run: say why not in a comment before the block")
