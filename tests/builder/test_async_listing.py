"""Do the instructions of asynchronous units read back, from their listing, as those that the builder made?"""

from __future__ import annotations

import re

import numpy as np
import pytest
from ml_dtypes import bfloat16, float8_e5m2

import sim
from sim.isa import PT, UPT, Op
from sim.sass import load_sass
from tests.builder.test_async_kernels import BK, specialised
from tests.builder.test_tma import phases, runs
from tests.builder.test_wgmma import accumulated, launch

READ_BACK = ("SYNCS", "HGMMA", "QGMMA", "IGMMA", "WARPGROUP", "UTMA", "UBLK", "USETMAXREG", "BAR.", "FENCE", "ELECT")
_WINDOW = 1024  #: bytes of shared memory that compiled kernels leave to the system, and the builder does not


def gemm():
    maps = [sim.tensor_map(np.zeros((64, 64), bfloat16), (64, BK)) for _ in range(2)]
    return specialised.build_for((*maps, np.zeros((64, 64), np.float32), 1, 1, 1), {"bn": 64, "stages": 3})


PROGRAMS = {
    "gemm": gemm,
    "runs of bytes": lambda: runs.build_for((np.zeros(4, np.uint32), np.zeros(4, np.uint32), 1)),
    "phases": lambda: phases.build_for((np.zeros((4, 64), np.int32),)),
    "two sums": lambda: accumulated.build_for((np.zeros(4, np.float32), 5), {"columns": 192}),
    "turned": lambda: launch(bfloat16, ("mn", "mn")).program,
    "registers": lambda: launch(float8_e5m2, registers=True).program,
    "integers": lambda: launch(np.int8, sums=np.int32).program,
    "halves": lambda: launch(np.float16, sums=np.float16).program,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_listings_read_back(name):
    program = PROGRAMS[name]()
    lines = program.listing().split("\n")[1:]
    made = [k for k, i in enumerate(program.instructions) if i.text.startswith(READ_BACK)]
    assert made
    body = [re.sub(r"^\s*/\*\w+\*/", "", lines[k]) for k in made]
    numbered = [f"        /*{16 * n:04x}*/ {text} /* 0x0 */" for n, text in enumerate([*body, " EXIT ;"])]
    read = load_sass("\n".join(["\tcode for sm_90", "\t\tFunction : f", *numbered]), registers=program.registers)["f"]
    for k, theirs in zip(made, read.instructions, strict=False):
        ours = program.instructions[k]
        for field in ("op", "cls", "nd", "na", "nb", "nc", "pd", "x", "space", "guard", "flags", "smod"):
            assert getattr(ours, field) == getattr(theirs, field), (lines[k], field)
        for field, count in (("dst", ours.nd), ("a", ours.na), ("b", ours.nb), ("c", ours.nc)):
            assert count == 0 or getattr(ours, field) == getattr(theirs, field), (lines[k], field)
        assert ours.pa == {UPT: PT, 16 | UPT: 16 | PT}.get(theirs.pa, theirs.pa), lines[k]
        window = _WINDOW if ours.op is Op.MBARRIER else 0
        assert ours.y == theirs.y + window, lines[k]
