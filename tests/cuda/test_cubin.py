"""`load_cubin`: what is no cubin, and cubins of other architectures."""

from __future__ import annotations

from pathlib import Path

import pytest

import sim
from sim.sass import SassError
from tests.cuda.extras import needs_cuda


def test_what_is_no_cubin(tmp_path: Path) -> None:
    with pytest.raises(SassError, match="these bytes are no cubin"):
        sim.load_cubin(b"text")
    file = tmp_path / "kernels.sass"
    file.write_text("text")
    with pytest.raises(SassError, match=r"kernels\.sass is no cubin"):
        sim.load_cubin(file)
    with pytest.raises(FileNotFoundError, match=r"nothing\.cubin"):
        sim.load_cubin("nothing.cubin")


@needs_cuda
def test_a_broken_cubin_is_told() -> None:
    with pytest.raises(SassError, match="these bytes are not readable by nvdisasm: nvdisasm fatal"):
        sim.load_cubin(b"\x7fELF" + bytes(100))
