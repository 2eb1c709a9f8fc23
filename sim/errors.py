"""Errors of a running kernel: what happened, in which kernel, line, block, warp and thread, and what to do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from sim.core import layout
from sim.core.mbarrier import BYTES_BITS, BYTES_SHIFT, COUNT_BITS, PENDING_SHIFT
from sim.counters import Stall
from sim.isa import Col, Op
from sim.program import Program

if TYPE_CHECKING:
    from sim.engine import Engine

SHOWN_PLACES = 8


class Place(NamedTuple):
    """An address as a user knows it: the array argument nearest to it, and the element counted from its start."""

    array: str
    element: int
    shape: tuple[int, ...]


Describe = Callable[[int], Place | None]


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
        return OutOfBoundsError(
            f"{what} of {width} bytes {_place(describe, address)}: out of bounds. {where}; "
            "check the index, or keep threads without work away from it"
        )
    if code == layout.ERROR_MISALIGNED:
        in_global = address >= layout.GLOBAL_BASE // 2
        place = _place(describe, address) if in_global else f"at byte {address} of shared or local memory"
        return MisalignedError(
            f"{what} {place}: the address is not a multiple of its {width} bytes. {where}; "
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
    if code == layout.ERROR_TRAP:
        return KernelError(f"{what}: the kernel ended itself (a failed assert, or __trap()). {where}")
    if code == layout.ERROR_MIXED_SPACES:
        return KernelError(
            f"{what}: a warp's generic addresses lie in more than one of global, shared and local memory, "
            f"which is not simulated. {where}"
        )
    if code == layout.ERROR_DESCRIPTOR:
        return KernelError(
            f"{what}: there is no tensor map of so many dimensions at address {address:#x}; "
            f"give sim.tensor_map(array, box=...) as the argument. {where}"
        )
    if code == layout.ERROR_TENSOR_BOUNDS:
        return OutOfBoundsError(
            f"{what} {_place(describe, address)}: the box of {width} bytes leaves the array that its tensor map, "
            f"or its pointer, is of. {where}"
        )
    if code == layout.ERROR_BARRIER:
        return KernelError(
            f"{what}: the word at byte {address} of shared memory is no mbarrier, or more threads arrived at it than "
            f"it was initialised for. {where}"
        )
    if code == layout.ERROR_NO_BLOCK:
        return KernelError(
            f"{what}: block {address} of the cluster, which has {math.prod(engine.launch.cluster)}, numbered from 0. "
            f"{where}; launch with cluster=..."
        )
    if code == layout.ERROR_ENDED_BLOCK:
        return KernelError(
            f"{what}: shared memory of block {address} of the cluster, whose threads have exited. {where}; "
            "let the blocks meet at the cluster's barrier before they end"
        )
    if code == layout.ERROR_WARPGROUP:
        return KernelError(f"{what}: all 32 threads of a warp must execute it together. {where}")
    if code == layout.ERROR_UNKNOWN_OPCODE:
        return KernelError(f"{what} is not an instruction that the simulator executes. {where}")
    return KernelError(f"{what}: more than {layout.MAX_SPLITS} diverged parts in one warp. {where}")


def _place(describe: Describe, address: int) -> str:
    """An address in terms of the nearest array argument."""
    found = describe(address)
    if found is None:
        return f"at address {address:#x}"
    name, element, shape = found
    if len(shape) > 1 and 0 <= element < np.prod(shape, dtype=np.int64):
        at = f"{name}[{', '.join(str(int(i)) for i in np.unravel_index(element, shape))}]"
    elif len(shape) > 1:
        at = f"element {element} of {name}"
    else:
        at = f"{name}[{element}]"
    return f"at {at} (address {address:#x}; {name} has shape {shape})"


def waiting_warps(engine: Engine) -> str:
    """Which warps are where: a line a place, for kernels that hang."""
    a, program, subcores = engine.arrays, engine.launch.program, engine.profile.core.subcores
    places: dict[tuple[int, str], list[str]] = {}
    for m, w in np.argwhere(a.ws[:, :, layout.W_STATE] == layout.W_LIVE):
        ws = a.ws[m, w]
        block = int(a.bs[m, ws[layout.W_SLOT], layout.B_ID])
        name = f"block {block_of(engine, block)} warp {int(ws[layout.W_INDEX])}"
        if ws[layout.W_MASK]:
            reason = Stall(int(a.why[m, w % subcores, w // subcores])).name.lower()
            places.setdefault((int(ws[layout.W_PC]), reason), []).append(name)
        for pc, mask, wait in a.sp[m, w, : ws[layout.W_SPLITS]]:
            lanes = f"{name} lanes {int(mask):#010x}"
            places.setdefault((int(pc) - (wait != layout.SP_RUNNABLE), _waits_for(int(wait))), []).append(lanes)
    lines = []
    for (pc, reason), warps in sorted(places.items())[:SHOWN_PLACES]:
        few = ", ".join(warps[:3]) + (f" and {len(warps) - 3} more" if len(warps) > 3 else "")
        lines.append(f"  {source_of(program, pc)} ({reason}): {few}")
    if len(places) > SHOWN_PLACES:
        lines.append(f"  and {len(places) - SHOWN_PLACES} places more")
    return "\n".join(lines)


def _waits_for(wait: int) -> str:
    """What SP_WAIT says, in words."""
    if wait == layout.SP_RUNNABLE:
        return "diverged, waits for its turn"
    if wait < layout.SP_AT_BARRIER:
        return "waits for the warp's other lanes"
    return "block's barrier" if wait < layout.SP_AT_WARPSYNC else "syncwarp"


def deadlock_error(engine: Engine) -> DeadlockError:
    """No warp can ever go on."""
    registers = _registers_waited_for(engine)
    if registers:
        return DeadlockError(f"kernel {engine.launch.program.name} hangs: {registers}")
    mbarriers = _mbarriers_waited_for(engine)
    name = engine.launch.program.name
    if mbarriers:
        return DeadlockError(
            f"kernel {name} hangs: a phase of an mbarrier is waited for that never completes; as many threads must "
            f"arrive, and as many bytes come, as it expects:\n{mbarriers}\nWaiting:\n{waiting_warps(engine)}"
        )
    return DeadlockError(
        f"kernel {name} hangs: a barrier is waited for that some threads never reach; "
        f"every thread of a block that has not returned must reach the same barrier. Waiting:\n{waiting_warps(engine)}"
    )


def _registers_waited_for(engine: Engine) -> str:
    """The first warp that waits for registers (setmaxnreg) that no warp of its block gives back, if there is one."""
    a, code = engine.arrays, engine.shared.code
    for m, w in np.argwhere(a.ws[:, :, layout.W_STATE] == layout.W_LIVE):
        ws = a.ws[m, w]
        pc = int(ws[layout.W_PC])
        if code[pc, Col.OP] != Op.SETMAXREG or not ws[layout.W_MASK]:
            continue
        slot = a.bs[m, ws[layout.W_SLOT]]
        return (
            f"warp {int(ws[layout.W_INDEX])} of block {block_of(engine, int(slot[layout.B_ID]))} waits for "
            f"{int(code[pc, Col.X])} registers a thread (setmaxnreg), has {int(ws[layout.W_REGISTERS])}, and of "
            f"those that other warps gave back {int(slot[layout.B_POOL])} a thread are left: "
            f"{source_of(engine.launch.program, pc)}; let other warps give back more, or ask for fewer"
        )
    return ""


def _mbarriers_waited_for(engine: Engine) -> str:
    """A line for each mbarrier that a warp waits for: what it still lacks."""
    lines: dict[tuple[int, int], str] = {}
    for m, a in enumerate(engine.arrays):
        for waiter in a.mw[: a.sv[layout.SV_WAITERS]]:
            at, w = int(waiter[layout.MW_BARRIER]), int(waiter[layout.MW_WARP])
            slot = a.bs[a.ws[w, layout.W_SLOT]]
            word = int.from_bytes(bytes(a.s8[at : at + 8]), "little")
            pending = -(word >> PENDING_SHIFT) % (1 << COUNT_BITS)
            coming = (word >> BYTES_SHIFT) % (1 << BYTES_BITS)
            block = block_of(engine, int(slot[layout.B_ID]))
            offset = at - int(slot[layout.B_SHARED])
            place = source_of(engine.launch.program, int(waiter[layout.MW_PC]))
            lines.setdefault(
                (m, at),
                f"  byte {offset} of shared memory, block {block}: {pending} arrivals and {coming} bytes lack; "
                f"warp {int(a.ws[w, layout.W_INDEX])} waits at {place}",
            )
    shown = list(lines.values())
    more = [f"  and {len(shown) - SHOWN_PLACES} more"] if len(shown) > SHOWN_PLACES else []
    return "\n".join([*shown[:SHOWN_PLACES], *more])


def no_end_error(engine: Engine, limit: int) -> CycleLimitError:
    """The cycle limit is reached."""
    return CycleLimitError(
        f"kernel {engine.launch.program.name} did not end within {limit:,} cycles "
        f"(cycle_limit=... sets another limit). Its warps are at:\n{waiting_warps(engine)}"
    )
