"""Runs whole programs without any timing: a plain driver for tests of what kernels compute.

Warps run one after another, each until it waits at a block barrier or ends.
Control flow is plain Python; everything else calls the core's functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.core.context import Ctx
from sim.core.exec_memory import (
    apply_atomic,
    copy_async,
    effective_addresses,
    first_misaligned,
    gather_operand,
    load,
    load_matrix,
    scatter_result,
    store,
    store_matrix,
)
from sim.core.execute import contexts, execute
from sim.core.layout import GLOBAL_BASE
from sim.isa import FLAG_ZERO_FILL, FULL_MASK, PREDICATES, PT, UPT, WARP_SIZE, Col, Op, Space
from sim.launch import pack_params
from sim.program import Program

ALIGNMENT = 256  # bytes, of arrays in global memory, as cudaMalloc's


class FunctionalError(RuntimeError):
    """A program that cannot run here: a bad access, a deadlock, an opcode without a driver."""


@dataclass
class Part:
    """Lanes of a warp that run together. `wait` is None, ("sync", barrier), ("bar", number) or ("warp", mask)."""

    pc: int
    mask: int
    wait: tuple[str, int] | None = None


@dataclass
class Warp:
    index: int
    base: int
    parts: list[Part]
    preds: npt.NDArray[np.int64]
    live: int
    barriers: dict[int, int] = field(default_factory=dict)
    _local: npt.NDArray[np.uint8] | None = None


@dataclass
class Machine:
    """One block at a time, on one register file."""

    program: Program
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    memory: npt.NDArray[np.uint8]
    bank: npt.NDArray[np.uint8]
    shared: npt.NDArray[np.uint8]
    U: npt.NDArray[np.uint32]
    first_row: int
    ctx: npt.NDArray[np.int64]
    warps: list[Warp] = field(default_factory=list)
    addr: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(WARP_SIZE, np.int64))
    source: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(WARP_SIZE, np.int64))
    issued: int = 0


def run_functional(
    program: Program,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any],
    shared_bytes: int = 0,
    max_instructions: int = 5_000_000,
) -> None:
    """Execute `program` on `args`: NumPy arrays, changed in place, and scalars, in the order of `program.params`.

    Raises `FunctionalError` on an access outside global, shared or local memory, a
    misaligned one, a barrier that some threads never reach, or more than
    `max_instructions` warp instructions.
    """
    grid3, block3 = _dim3(grid), _dim3(block)
    memory, addresses = _global_memory(args)
    bank = _bank0(program, grid3, block3, args, addresses)
    shared_values = program.shared_row_values({0: bank, **_other_banks(program)})
    threads = block3[0] * block3[1] * block3[2]
    warps = -(-threads // WARP_SIZE)
    U = np.zeros((len(shared_values) + warps * program.rows_per_warp, WARP_SIZE), np.uint32)
    U[: len(shared_values)] = shared_values
    ctx = contexts(1, (i.op for i in program.instructions))[0]
    machine = Machine(program, grid3, block3, memory, bank, np.zeros(0, np.uint8), U, len(shared_values), ctx)
    with np.errstate(all="ignore"):
        for z in range(grid3[2]):
            for y in range(grid3[1]):
                for x in range(grid3[0]):
                    machine.shared = np.zeros(program.shared_static_bytes + shared_bytes, np.uint8)
                    _run_block(machine, (x, y, z), threads, max_instructions)
    for arg, address in zip(args, addresses, strict=True):
        if isinstance(arg, np.ndarray):
            at = address - GLOBAL_BASE
            arg[...] = memory[at : at + arg.nbytes].view(arg.dtype).reshape(arg.shape)


def _dim3(value: int | Sequence[int]) -> tuple[int, int, int]:
    dims = (value,) if isinstance(value, int | np.integer) else tuple(value)
    x, y, z = (*dims, 1, 1)[:3]
    return int(x), int(y), int(z)


def _global_memory(args: Sequence[Any]) -> tuple[npt.NDArray[np.uint8], list[int]]:
    """All arrays in one piece of memory, and each argument's address (or the scalar itself)."""
    addresses: list[Any] = []
    size = ALIGNMENT
    for arg in args:
        addresses.append(GLOBAL_BASE + size if isinstance(arg, np.ndarray) else arg)
        if isinstance(arg, np.ndarray):
            size += -(-arg.nbytes // ALIGNMENT) * ALIGNMENT
    memory = np.zeros(size, np.uint8)
    for arg, address in zip(args, addresses, strict=True):
        if isinstance(arg, np.ndarray):
            at = address - GLOBAL_BASE
            memory[at : at + arg.nbytes] = np.ascontiguousarray(arg).reshape(-1).view(np.uint8)
    return memory, addresses


def _bank0(
    program: Program, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], addresses: Sequence[Any]
) -> npt.NDArray[np.uint8]:
    extents = {k: arg.shape for k, arg in enumerate(args) if isinstance(arg, np.ndarray)}
    area = pack_params(program, addresses, extents)
    size = -(-(program.param_base + len(area)) // 64) * 64 + 64
    bank = np.zeros(size, np.uint8)
    bank[0:24] = np.array([*block, *grid], np.int32).view(np.uint8)
    bank[program.param_base : program.param_base + len(area)] = np.frombuffer(area, np.uint8)
    return bank


def _other_banks(program: Program) -> dict[int, npt.NDArray[np.uint8]]:
    return {k: np.frombuffer(data + bytes(-len(data) % 64), np.uint8) for k, data in program.banks.items()}


def _run_block(m: Machine, block: tuple[int, int, int], threads: int, limit: int) -> None:
    m.ctx[Ctx.BLOCK_X : Ctx.BLOCK_Z + 1] = block
    m.ctx[Ctx.BLOCK_DIM_X : Ctx.BLOCK_DIM_Z + 1] = m.block
    m.ctx[Ctx.GRID_DIM_X : Ctx.GRID_DIM_Z + 1] = m.grid
    m.warps = []
    m.U[m.first_row :] = 0
    for index in range(-(-threads // WARP_SIZE)):
        mask = (1 << min(WARP_SIZE, threads - index * WARP_SIZE)) - 1
        preds = np.zeros((1, PREDICATES), np.int64)
        preds[0, [PT, UPT]] = FULL_MASK
        base = m.first_row + index * m.program.rows_per_warp
        m.warps.append(Warp(index, base, [Part(0, mask)], preds, mask))
    while any(w.live for w in m.warps):
        before = m.issued
        for warp in m.warps:
            while (part := _runnable(warp)) is not None:
                _step(m, warp, part)
                if m.issued > limit:
                    raise FunctionalError(
                        f"{m.program.name}: more than {limit} instructions; warp {warp.index} at {part.pc}"
                    )
        _open_block_barriers(m)
        if m.issued == before and any(w.live for w in m.warps) and not any(_runnable(w) for w in m.warps):
            waits = {w.index: [(p.pc, hex(p.mask), p.wait) for p in w.parts] for w in m.warps if w.live}
            raise FunctionalError(f"{m.program.name}: block {block} waits for ever: {waits}")


def _runnable(warp: Warp) -> Part | None:
    """The part that runs: the last one that waits for nothing."""
    for part in reversed(warp.parts):
        if part.wait is None:
            return part
    return None


def _open_block_barriers(m: Machine) -> None:
    waiting: dict[int, int] = {}
    for warp in m.warps:
        for part in warp.parts:
            if part.wait and part.wait[0] == "bar":
                waiting[part.wait[1]] = waiting.get(part.wait[1], 0) + part.mask.bit_count()
    threads = sum(w.live.bit_count() for w in m.warps)
    for barrier, arrived in waiting.items():
        if arrived >= threads:
            for warp in m.warps:
                for part in warp.parts:
                    if part.wait == ("bar", barrier):
                        part.wait = None


def _open_convergence(warp: Warp) -> None:
    """Merge the parts that wait at one place once all lanes that it waits for are there or have exited."""
    for wait in {p.wait for p in warp.parts if p.wait and p.wait[0] != "bar"}:
        wanted = (warp.barriers.get(wait[1], 0) if wait[0] == "sync" else wait[1]) & warp.live
        here = [p for p in warp.parts if p.wait == wait]
        lanes = 0
        for part in here:
            lanes |= part.mask
        if lanes & wanted == wanted:
            warp.parts = [p for p in warp.parts if p.wait != wait]
            warp.parts.append(Part(here[0].pc, lanes))


def _step(m: Machine, warp: Warp, part: Part) -> None:
    code, pc = m.program.decoded.code, part.pc
    if not 0 <= pc < len(code):
        raise FunctionalError(f"{m.program.name}: warp {warp.index} ran past the end of the program, to {pc}")
    m.issued += 1
    guard = int(code[pc, Col.GUARD])
    on = int(warp.preds[0, guard & 15]) ^ (FULL_MASK if guard & 16 else 0)
    on &= part.mask
    op = int(code[pc, Col.OP])
    part.pc = pc + 1
    if op >= Op.BRA:
        _control(m, warp, part, pc, on)
    elif op >= Op.LD and op < Op.HMMA:
        if on:
            _access(m, warp, pc, on)
    elif op != Op.NOP and on:
        m.ctx[Ctx.WARP], m.ctx[Ctx.CLOCK] = warp.index, m.issued
        execute(code, pc, m.U, warp.base, warp.preds, 0, on, m.ctx)


def _control(m: Machine, warp: Warp, part: Part, pc: int, on: int) -> None:
    row = m.program.decoded.code[pc]
    op, x, y = Op(row[Col.OP]), int(row[Col.X]), int(row[Col.Y])
    if op is Op.BRA:
        if on == part.mask:
            part.pc = y
        elif on:
            part.mask &= ~on
            warp.parts.insert(warp.parts.index(part), Part(y, on))
    elif op is Op.EXIT:
        warp.live &= ~on
        part.mask &= ~on
        if not part.mask:
            warp.parts.remove(part)
        _open_convergence(warp)
    elif op is Op.BSSY:
        warp.barriers[x] = part.mask
    elif op is Op.BREAK:
        warp.barriers[x] = warp.barriers.get(x, 0) & ~on
        _open_convergence(warp)
    elif op in (Op.BSYNC, Op.WARPSYNC) and on:
        mask = FULL_MASK
        if op is Op.WARPSYNC and row[Col.A] != -1:
            operand = int(row[Col.A])
            mask = int(m.U[warp.base + operand if operand >= 0 else -operand - 1, (on & -on).bit_length() - 1])
        part.wait = ("sync", x) if op is Op.BSYNC else ("warp", mask)
        _open_convergence(warp)
    elif op is Op.BAR and on:
        if x == 0:
            part.wait = ("bar", y)
        else:
            raise FunctionalError(f"{m.program.name}: BAR mode {x} at {pc} has no driver here")
    elif op not in (Op.YIELD, Op.NANOSLEEP, Op.BSYNC, Op.WARPSYNC, Op.BAR):
        raise FunctionalError(f"{m.program.name}: {op.name} at {pc} has no driver here")


def _access(m: Machine, warp: Warp, pc: int, on: int) -> None:
    """One memory instruction of the lanes `on`."""
    code = m.program.decoded.code
    row = code[pc]
    op, space, width = Op(row[Col.OP]), Space(row[Col.SPACE]), int(row[Col.WIDTH])
    if op in (Op.LDGDEPBAR, Op.DEPBAR, Op.MEMBAR, Op.CCTL):
        return
    effective_addresses(code, pc, m.U, warp.base, m.addr, m.source)
    if op is Op.LDGSTS:
        reading = on
        if row[Col.FLAGS] & FLAG_ZERO_FILL:
            predicate = int(row[Col.PA])
            reading = on & (int(warp.preds[0, predicate & 15]) ^ (FULL_MASK if predicate & 16 else 0))
        _check(m, pc, m.addr, on, width, 0, len(m.shared))
        _check(m, pc, m.source, reading, width, GLOBAL_BASE, len(m.memory))
        copy_async(on, reading, width, m.addr, m.source, GLOBAL_BASE, m.memory, m.shared)
        return
    memory, origin = m.memory, GLOBAL_BASE
    if space is Space.SHARED:
        memory, origin = m.shared, 0
    elif space is Space.CONSTANT:
        memory, origin = m.bank if row[Col.X] == 0 else _other_banks(m.program)[int(row[Col.X])], 0
    elif space is Space.LOCAL:
        memory, origin = _local_memory(m, warp), 0
        _check(m, pc, m.addr, on, width, 0, m.program.local_bytes)
        m.addr += np.arange(WARP_SIZE) * m.program.local_bytes
    if op in (Op.LDSM, Op.STSM):
        _check(m, pc, m.addr, (1 << 8 * width) - 1, 16, origin, len(memory))
        (load_matrix if op is Op.LDSM else store_matrix)(code, pc, m.U, warp.base, m.addr, memory)
        return
    _check(m, pc, m.addr, on, width, origin, len(memory))
    if op is Op.LD:
        load(code, pc, m.U, warp.base, on, m.addr, origin, memory)
    elif op is Op.ST:
        store(code, pc, m.U, warp.base, on, m.addr, origin, memory)
    else:
        data = np.zeros((4, WARP_SIZE), np.int64)
        data[0] = m.addr
        gather_operand(code, pc, m.U, warp.base, data)
        apply_atomic(row[Col.X], width, on, data, origin, memory)
        if op is Op.ATOM:
            scatter_result(code, pc, m.U, warp.base, on, data)


def _local_memory(m: Machine, warp: Warp) -> npt.NDArray[np.uint8]:
    if warp._local is None:
        warp._local = np.zeros(WARP_SIZE * m.program.local_bytes, np.uint8)
    return warp._local


def _check(m: Machine, pc: int, addr: npt.NDArray[np.int64], on: int, width: int, origin: int, size: int) -> None:
    lane = int(first_misaligned(addr, on, width))
    what = "misaligned"
    if lane < 0:
        what = "outside memory"
        for lane in range(WARP_SIZE):
            if on >> lane & 1 and not 0 <= addr[lane] - origin <= size - width:
                break
        else:
            return
    line = m.program.instructions[pc].text
    where = f"block {tuple(m.ctx[Ctx.BLOCK_X : Ctx.BLOCK_Z + 1].tolist())}, lane {lane}"
    raise FunctionalError(f"{m.program.name}: {line} at {pc}: {what}: address {addr[lane]:#x}, {width} bytes, {where}")
