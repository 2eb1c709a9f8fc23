"""Do the blocks of docs/sweeps.md run as scripts?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks

BLOCKS = [block.code for block in blocks(ROOT / "docs/sweeps.md") if block.runs]


@pytest.mark.parametrize("code", BLOCKS, ids=["local", "profiles", "cluster"])
def test_a_block_runs_and_prints_a_frame(code: str, tmp_path: Path) -> None:
    script = tmp_path / "block.py"
    script.write_text(code)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "XDG_CACHE_HOME": str(tmp_path),
        "MPLCONFIGDIR": str(tmp_path),
    }
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "cycles" in done.stdout.splitlines()[0]
