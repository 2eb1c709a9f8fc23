"""Traces: the instructions that a kernel's warps issued, with masks and addresses, to keep, edit and replay.

A trace holds what happened, not what was computed: replaying it runs the same
timing as executing the kernel did, on any profile, without any data.
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sim import isa
from sim.core import layout
from sim.engine import Recording
from sim.launch import Dim3, Launch
from sim.program import Const, Imm, Instruction, Operand, Program, Reg, SourceLine, UReg

if TYPE_CHECKING:
    from sim.device import Device
    from sim.profile import Profile
    from sim.report import Report

FORMAT = 1
MEMORY_OPS = (isa.Op.LD, isa.Op.ST, isa.Op.ATOM, isa.Op.RED, isa.Op.LDSM, isa.Op.STSM, isa.Op.LDGSTS)


class TraceError(ValueError):
    """A trace that is damaged or does not fit together."""


@dataclass(frozen=True)
class Trace:
    """What the warps of one launch issued, block by block and warp by warp, in order.

    `block`, `warp`, `pc` int32, `active`, `on` uint32 (lanes that were active; lanes
    whose guard was true): a row a warp instruction. `address` int64 `[m, 64]`: lanes'
    byte addresses of the k-th memory instruction in the first 32 columns (shared
    memory: offsets in the block's; an asynchronous copy has its global addresses in
    the last 32, -1 where a lane copies zeros).
    """

    program: Program
    grid: Dim3
    threads: Dim3
    shared_bytes: int
    block: npt.NDArray[np.int32]
    warp: npt.NDArray[np.int32]
    pc: npt.NDArray[np.int32]
    active: npt.NDArray[np.uint32]
    on: npt.NDArray[np.uint32]
    address: npt.NDArray[np.int64]
    gpu: str = ""  #: profile it was recorded on

    def __post_init__(self) -> None:
        n = len(self.pc)
        for name in ("block", "warp", "active", "on"):
            if len(getattr(self, name)) != n:
                raise TraceError(
                    f"trace of {self.program.name}: {name} has {len(getattr(self, name))} rows, pc has {n}"
                )
        if n and not (0 <= int(self.pc.min()) and int(self.pc.max()) < len(self.program.instructions)):
            raise TraceError(
                f"trace of {self.program.name}: pc must lie in 0..{len(self.program.instructions) - 1}, "
                f"found {int(self.pc.min())}..{int(self.pc.max())}"
            )
        memory = int(self.is_memory.sum())
        if self.address.shape != (memory, 64):
            raise TraceError(
                f"trace of {self.program.name}: {memory} memory instructions need address of shape ({memory}, 64), "
                f"found {self.address.shape}"
            )
        key = self.block.astype(np.int64) * 64 + self.warp
        if n and (np.diff(key) < 0).any():
            raise TraceError(f"trace of {self.program.name}: rows must be sorted by block, then warp")

    @property
    def is_memory(self) -> npt.NDArray[np.bool_]:
        """Rows that have addresses: memory instructions with a lane switched on."""
        ops = np.array([i.op in MEMORY_OPS for i in self.program.instructions], bool)
        return ops[self.pc] & (self.on != 0)

    def edit(self, **columns: Any) -> Trace:
        """A copy with other columns (NumPy arrays) or fields."""
        return replace(self, **columns)

    # --- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a compressed `.npz`; the file appears whole or not at all."""
        target = Path(path)
        head = {
            "format": FORMAT,
            "grid": self.grid,
            "threads": self.threads,
            "shared_bytes": self.shared_bytes,
            "gpu": self.gpu,
            "program": _program_to_json(self.program),
        }
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".npz")
        try:
            with os.fdopen(handle, "wb") as out:
                np.savez_compressed(
                    out,
                    head=np.frombuffer(json.dumps(head).encode(), np.uint8),
                    block=self.block,
                    warp=self.warp,
                    pc=self.pc,
                    active=self.active,
                    on=self.on,
                    address=self.address,
                )
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Read what `save` wrote. Raises `TraceError` for a damaged file, `FileNotFoundError` for none."""
        try:
            with np.load(path, allow_pickle=False) as data:
                head = json.loads(data["head"].tobytes())
                if head["format"] != FORMAT:
                    raise TraceError(f"{path}: trace format {head['format']}; this version reads format {FORMAT}")
                return cls(
                    program=_program_from_json(head["program"]),
                    grid=tuple(head["grid"]),
                    threads=tuple(head["threads"]),
                    shared_bytes=head["shared_bytes"],
                    gpu=head["gpu"],
                    **{k: data[k] for k in ("block", "warp", "pc", "active", "on", "address")},
                )
        except FileNotFoundError:
            raise
        except TraceError:
            raise
        except (OSError, KeyError, ValueError, TypeError, EOFError, zipfile.BadZipFile) as problem:
            raise TraceError(f"{path}: not a whole trace file ({problem}); record it again") from problem

    # --- replay

    def recording(self) -> Recording:
        """The trace as the core replays it. Raises `TraceError` if a warp of the grid has no instruction."""
        x, y, z = self.grid
        blocks = x * y * z
        a, b, c = self.threads
        warps = -(-(a * b * c) // 32)
        key = self.block.astype(np.int64) * warps + self.warp
        counts = np.bincount(key, minlength=blocks * warps)
        if len(counts) != blocks * warps or (counts == 0).any():
            bad = int(np.argmin(counts)) if len(counts) == blocks * warps else len(counts) - 1
            raise TraceError(
                f"trace of {self.program.name}: block {bad // warps} warp {bad % warps} does not match the grid "
                f"of {blocks} blocks of {warps} warps: each needs at least one instruction"
            )
        n = len(self.pc)
        replay = np.zeros((n, layout.T_COLUMNS), np.int64)
        replay[:, layout.T_BLOCK] = self.block
        replay[:, layout.T_WARP] = self.warp
        replay[:, layout.T_PC] = self.pc
        replay[:, layout.T_ACTIVE] = self.active
        replay[:, layout.T_ON] = self.on
        memory = self.is_memory
        at = np.where(memory, np.cumsum(memory) - 1, -1)
        address = self.address if len(self.address) else np.zeros((1, 64), np.int64)
        return Recording(replay, np.concatenate([[0], np.cumsum(counts)]), address, at)


def record(work: Launch | Program, *args: Any, gpu: str | Profile = "h200", **options: Any) -> Trace:
    """Run a launch (or a program with grid, block and arguments) on cold caches and return its trace.

    A replay on the same profile takes as many cycles as `sim.simulate` of the launch.
    """
    from sim.device import Device

    device = Device(gpu)
    rows: list[Any] = []
    launch = device.launch(work, *args, flush=True, record=rows, **options).launch
    assert launch is not None  # the device's reports know their launch
    return _trace_of(launch, rows, device.profile.name)


def _trace_of(launch: Launch, rows: list[Any], gpu: str) -> Trace:
    """Sort the records of all steps by block and warp."""
    table = np.concatenate([r for r, _ in rows]) if rows else np.zeros((0, layout.T_COLUMNS), np.int64)
    ops = np.array([i.op in MEMORY_OPS for i in launch.program.instructions], bool)
    kept = [addr[ops[t[:, layout.T_PC]] & (t[:, layout.T_ON] != 0)] for t, addr in rows]
    address = np.concatenate(kept) if kept else np.zeros((0, 64), np.int64)
    memory = ops[table[:, layout.T_PC]] & (table[:, layout.T_ON] != 0)
    order = np.lexsort((np.arange(len(table)), table[:, layout.T_WARP], table[:, layout.T_BLOCK]))
    row_of = np.cumsum(memory) - 1
    return Trace(
        program=launch.program,
        grid=launch.grid,
        threads=launch.block,
        shared_bytes=launch.shared_bytes,
        block=table[order, layout.T_BLOCK].astype(np.int32),
        warp=table[order, layout.T_WARP].astype(np.int32),
        pc=table[order, layout.T_PC].astype(np.int32),
        active=table[order, layout.T_ACTIVE].astype(np.uint32),
        on=table[order, layout.T_ON].astype(np.uint32),
        address=address[row_of[order][memory[order]]],
        gpu=gpu,
    )


def replay(trace: Trace, device: Device, **options: Any) -> Report:
    """Run a trace's timing on `device`, caches flushed before it."""
    launch = Launch(
        trace.program, trace.grid, trace.threads, (), trace.shared_bytes, name=f"{trace.program.name} (replayed)"
    )
    return device.launch(launch, flush=True, recording=trace.recording(), **options)


# --- programs in files


def _operand_to_json(operand: Operand | None) -> Any:
    match operand:
        case Reg(n):
            return ["R", n]
        case UReg(n):
            return ["UR", n]
        case Imm(bits, is_float):
            return ["I", bits, is_float]
        case Const(bank, offset):
            return ["C", bank, offset]
    return None


def _operand_from_json(value: Any) -> Operand | None:
    if value is None:
        return None
    makers = {"R": Reg, "UR": UReg, "I": Imm, "C": Const}
    made: Operand = makers[value[0]](*value[1:])
    return made


def _program_to_json(program: Program) -> dict[str, Any]:
    instructions = []
    for i in program.instructions:
        fields = asdict(i)
        for name in ("dst", "a", "b", "c"):
            fields[name] = _operand_to_json(getattr(i, name))
        instructions.append({k: int(v) if isinstance(v, isa.IntEnum) else v for k, v in fields.items()})
    return {
        "name": program.name,
        "registers": program.registers,
        "uniform_registers": program.uniform_registers,
        "shared_static_bytes": program.shared_static_bytes,
        "local_bytes": program.local_bytes,
        "has_control": program.has_control,
        "arch": program.arch,
        "source": [[s.file, s.number, s.text] for s in program.source],
        "instructions": instructions,
    }


def _program_from_json(data: dict[str, Any]) -> Program:
    instructions = []
    for fields in data["instructions"]:
        for name in ("dst", "a", "b", "c"):
            fields[name] = _operand_from_json(fields[name])
        fields["op"], fields["cls"] = isa.Op(fields["op"]), isa.TimingClass(fields["cls"])
        fields["space"] = isa.Space(fields["space"])
        instructions.append(Instruction(**fields))
    keys = ("name", "registers", "uniform_registers", "shared_static_bytes", "local_bytes", "has_control", "arch")
    return Program(
        instructions=instructions, source=[SourceLine(*s) for s in data["source"]], **{k: data[k] for k in keys}
    )
