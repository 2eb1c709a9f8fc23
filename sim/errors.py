"""Errors of a running kernel: what happened, in which kernel, line, block, warp and thread, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sim.core import layout
from sim.program import Program

if TYPE_CHECKING:
    from sim.engine import Engine

Describe = Callable[[int], Any]
SHOWN_WARPS = 8


class KernelError(RuntimeError):
    """A kernel did something that ends it on a GPU too."""


class OutOfBoundsError(KernelError):
    """An access outside an allocation (CUDA: an illegal memory access)."""


class MisalignedError(KernelError):
    """An access whose address is not a multiple of its width (cudaErrorMisalignedAddress)."""


class DeadlockError(KernelError):
    """Warps wait for each other for ever: a barrier that some threads never reach."""


class CycleLimitError(KernelError):
    """The kernel ran longer than the cycle limit."""


def source_of(program: Program, pc: int) -> str:
    """Where instruction `pc` comes from, for messages."""
    line = program.instructions[pc].line
    if 0 <= line < len(program.source):
        at = program.source[line]
        return f"{at.file}:{at.number}: `{at.text.strip()}`"
    return f"instruction {pc} ({program.instructions[pc].text})"


def block_of(engine: Engine, linear: int) -> tuple[int, int, int]:
    """Block index (x, y, z) of a linear one."""
    x, y, _ = engine.launch.grid
    return linear % x, linear // x % y, linear // (x * y)


def thread_of(engine: Engine, warp: int, lane: int) -> tuple[int, int, int]:
    """Thread index (x, y, z) of a lane."""
    x, y, _ = engine.launch.block
    t = warp * 32 + lane
    return t % x, t // x % y, t // (x * y)


def error_of(engine: Engine, describe: Describe) -> KernelError:
    """The exception for the error that the core noted."""
    er: npt.NDArray[np.int64] | None = engine.error
    assert er is not None
    program = engine.launch.program
    code, pc, lane = int(er[layout.ER_CODE]), int(er[layout.ER_PC]), int(er[layout.ER_LANE])
    address, width = int(er[layout.ER_ADDRESS]), int(er[layout.ER_WIDTH])
    where = (
        f"kernel {program.name}, {source_of(program, pc)}, block {block_of(engine, int(er[layout.ER_BLOCK]))}, "
        f"thread {thread_of(engine, int(er[layout.ER_WARP]), lane)}"
    )
    what = program.instructions[pc].text
    if code == layout.ERROR_GLOBAL_BOUNDS:
        return OutOfBoundsError(f"{what} of {width} bytes {_place(describe, address)}: out of bounds. {where}")
    if code == layout.ERROR_MISALIGNED:
        return MisalignedError(
            f"{what} at address {address:#x}, which is not a multiple of its {width} bytes. {where}; "
            "use a narrower access or align the index"
        )
    if code == layout.ERROR_SHARED_BOUNDS:
        size = program.shared_static_bytes + engine.launch.shared_bytes
        return OutOfBoundsError(
            f"{what} of {width} bytes at byte {address} of shared memory, of which the block has {size}: "
            f"out of bounds. {where}"
        )
    if code == layout.ERROR_LOCAL_BOUNDS:
        return OutOfBoundsError(f"{what} at byte {address} of local memory or a constant bank: out of bounds. {where}")
    if code == layout.ERROR_UNKNOWN_OPCODE:
        return KernelError(f"{what} is not an instruction that the simulator executes. {where}")
    return KernelError(f"{what}: more than {layout.MAX_SPLITS} diverged parts in one warp. {where}")


def _place(describe: Describe, address: int) -> str:
    """An address in terms of the nearest array argument."""
    found = describe(address)
    if found is None:
        return f"at address {address:#x}"
    name, element, array = found
    shape = array.shape
    if len(shape) > 1 and 0 <= element < array.size:
        index = ", ".join(str(int(i)) for i in np.unravel_index(element, shape))
    else:
        index = str(element)
    return f"at {name}[{index}] (address {address:#x}), but {name} has shape {shape}"


def waiting_warps(engine: Engine) -> str:
    """Which warps are where: a line a place, for kernels that hang."""
    a, program = engine.arrays, engine.launch.program
    places: dict[tuple[int, int], list[str]] = {}
    for m, w in np.argwhere(a.ws[:, :, layout.W_STATE] == layout.W_LIVE):
        subcores = engine.profile.core.subcores
        pc, reason = int(a.ws[m, w, layout.W_PC]), int(a.why[m, w % subcores, w // subcores])
        block = int(a.bs[m, a.ws[m, w, layout.W_SLOT], layout.B_ID])
        places.setdefault((pc, reason), []).append(f"block {block} warp {int(a.ws[m, w, layout.W_INDEX])}")
    from sim.counters import Stall

    lines = []
    for (pc, reason), warps in sorted(places.items())[:SHOWN_WARPS]:
        few = ", ".join(warps[:3]) + (f" and {len(warps) - 3} more" if len(warps) > 3 else "")
        lines.append(f"  {source_of(program, pc)} ({Stall(reason).name.lower()}): {few}")
    return "\n".join(lines)


def deadlock_error(engine: Engine) -> DeadlockError:
    """No warp can ever go on."""
    return DeadlockError(
        f"kernel {engine.launch.program.name} hangs: a barrier is waited for that some threads never reach; "
        f"every thread of a block that has not returned must reach the same barrier. Waiting:\n{waiting_warps(engine)}"
    )


def no_end_error(engine: Engine, limit: int) -> CycleLimitError:
    """The cycle limit is reached."""
    return CycleLimitError(
        f"kernel {engine.launch.program.name} did not end within {limit:,} cycles "
        f"(cycle_limit=... sets another limit). Its warps are at:\n{waiting_warps(engine)}"
    )
