"""Does the block of docs/exports.md run, and make the files it names?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest


def test_the_block_runs_and_makes_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    page = (Path(__file__).parents[3] / "docs/exports.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    named = set(re.findall(r'"([\w.]+\.(?:json|csv|parquet|html))"', code))
    assert {path.name for path in tmp_path.iterdir()} == named and len(named) == 6
