"""Which of the tools that come with extras are here."""

from __future__ import annotations

import pytest

from sim.cuda import MissingToolError, tools


def _missing() -> str:
    """Why CUDA C++ cannot be compiled here; nothing where it can."""
    try:
        tools.nvrtc()
        tools.nvdisasm()
    except MissingToolError as error:
        return str(error)
    return ""


needs_cuda = pytest.mark.skipif(bool(_missing()), reason=_missing() or "the extra is here")
