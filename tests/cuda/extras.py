"""Which of the tools that come with extras are here."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest

from sim.cuda import MissingToolError, tools


def _needs(*look_ups: Callable[[], Any]) -> pytest.MarkDecorator:
    """Skips a test, with the reason, where one of the tools is not installed."""
    try:
        for look_up in look_ups:
            look_up()
    except MissingToolError as error:
        return pytest.mark.skipif(True, reason=str(error))
    return pytest.mark.skipif(False, reason="all are here")


needs_cuda = _needs(tools.nvrtc, tools.nvdisasm)
needs_numba_cuda = _needs(tools.numba_cuda, tools.nvjitlink, tools.nvdisasm)
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed: pip install 'tailwave[triton]'"
)
