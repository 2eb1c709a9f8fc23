"""Compiles the core before its first use: once a machine, two processes side by side, with a line that says so.

Whoever comes first compiles; other processes wait for it and then load what it left
in Numba's cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from sim._jit import COMPILED
from sim.core import chip, layout
from sim.core.execute import contexts
from sim.core.link import memory_address
from sim.core.sm import run_sms
from sim.engine import Engine, make_engine
from sim.isa import Op, TimingClass
from sim.launch import Launch
from sim.occupancy import occupancy
from sim.profile import load_profile
from sim.program import Instruction, Program
from sim.scale_memory import ScaleModelMemory

NOTICE = "Tailwave compiles its core once, about a minute ..."
WAITING = "Tailwave waits for another process, which compiles its core ..."


def ensure_compiled() -> None:
    """Compile the core unless this machine's cache has it; says so on stderr when it takes time."""
    if not COMPILED:
        return
    from sim._jit import compiled_mark

    mark = compiled_mark(run_sms)
    if mark.exists():
        return
    with _alone(mark.with_suffix(".lock")):
        if not mark.exists():
            print(NOTICE, file=sys.stderr, flush=True)
            _compile()
            mark.touch()


def _compile() -> None:
    """The SMs' half here, the other in a second process; what that one leaves is compiled when it is first called."""
    package = str(Path(__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([package, *filter(None, sys.path)])}
    command = [sys.executable, "-c", "from sim.compilation import compile_exchange; compile_exchange()"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as other:
        try:
            engine = _smallest_engine()
            engine.run_sms(0, 0)
            memory_address(engine.arrays, engine.shared)
        except BaseException:
            other.terminate()
            raise


def compile_exchange() -> None:
    """Compile all but the stepping of SMs: what instructions compute, the memory system, the block scheduler."""
    contexts(1)
    engine = _smallest_engine()
    engine.start(0, cold=True)
    engine.arrays[0].sv[layout.SV_PACKETS] = 1
    engine.arrays[0].rq[0, [layout.R_FIRST, layout.R_WAITERS, layout.R_L1]] = -1
    engine.keeps_strong = True  # what a kernel with atomics needs, too
    engine.exchange(0, 1)
    chip.tensor_use(engine.arrays, 1)
    engine.next_event(1)


def _smallest_engine() -> Engine:
    """A kernel that does nothing, on the smallest GPU; compiled code is the same for all."""
    profile = load_profile("toy")
    program = Program("nothing", [Instruction(Op.EXIT, TimingClass.BRANCH, "EXIT")], registers=8)
    return make_engine(
        profile,
        Launch(program, (1, 1, 1), (32, 1, 1), ()),
        occupancy(profile, 32, program.registers),
        ScaleModelMemory(profile, ()),  # calls what every memory system does, and its own
        global_memory=np.zeros(256, np.uint8),
        allocations=[(0, 256)],
        local_base=0,
        bank=np.zeros(256, np.uint8),
    )


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold a lock between processes; where the system has none, processes compile side by side."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(WAITING, file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
