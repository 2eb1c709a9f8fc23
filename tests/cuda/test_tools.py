"""Tools that are not installed, and architectures: the error says what to do."""

from __future__ import annotations

import sys
from functools import _lru_cache_wrapper
from typing import Any

import pytest

from sim.cuda import CompileError, MissingToolError, tools


@pytest.mark.parametrize(
    ("hidden", "look_up", "what", "extra"),
    [
        (("cuda", "cuda.bindings"), tools.nvrtc, "NVRTC, the compiler of CUDA C++,", "cuda"),
        (("cuda", "cuda.pathfinder"), tools.nvdisasm, "nvdisasm, the disassembler of cubins,", "cuda"),
        (("numba_cuda",), tools.numba_cuda, "Numba-CUDA", "numba-cuda"),
        (("cuda", "cuda.bindings"), tools.nvjitlink, "nvJitLink, the assembler of PTX,", "numba-cuda"),
    ],
)
def test_a_missing_tool_is_named_with_its_extra(
    hidden: tuple[str, ...],
    look_up: _lru_cache_wrapper[Any],
    what: str,
    extra: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in hidden:
        monkeypatch.setitem(sys.modules, module, None)
    look_up.cache_clear()
    with pytest.raises(MissingToolError) as raised:
        look_up()
    assert str(raised.value) == f"{what} is not installed: pip install 'tailwave[{extra}]'"


@pytest.mark.parametrize("arch", ["sm_70", "sm_100", "sm_80a", "hopper", "90"])
def test_other_architectures_are_refused(arch: str) -> None:
    with pytest.raises(CompileError, match=f"k.cu: arch='{arch}' is not of Turing to Hopper: sm_75, .*, sm_90a"):
        tools.check_arch(arch, "k.cu")
