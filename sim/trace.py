"""Traces: the instructions that a kernel's warps issued, with masks and addresses, to keep, edit and replay.

A trace holds what happened, not what was computed: replaying it runs the same
timing as executing the kernel did, on any profile, without any data.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sim import isa
from sim.core import layout
from sim.engine import Recording
from sim.files import whole_file
from sim.isa import Op
from sim.launch import Dim3, Launch, LaunchError, dim3
from sim.program import Const, Imm, Instruction, Operand, Program, Reg, SourceLine, UReg
from sim.program_checks import ProgramError, check_program
from sim.recorder import addressed

if TYPE_CHECKING:
    from sim.device import Device
    from sim.profile import Profile
    from sim.report import Report

FORMAT = 1
COLUMNS = {
    "pc": np.int32,
    "block": np.int32,
    "warp": np.int32,
    "active": np.uint32,
    "on": np.uint32,
    "address": np.int64,
}


class TraceError(ValueError):
    """A trace that is damaged or does not fit together."""


@dataclass(frozen=True, eq=False)
class Trace:
    """What the warps of one launch issued, block by block and warp by warp, in order.

    `block` (linear), `warp` (in its block), `pc` int32, `active`, `on` uint32 (lanes that
    were active; those of them whose guard was true): a row a warp instruction. `address`
    int64 `[m, 64]`: lanes' byte addresses of the k-th row that `is_memory` in the first 32
    columns (shared and local memory: offsets in the block's or thread's); an asynchronous
    copy has its global addresses in the last 32, -1 where a lane copies zeros. Addresses
    of lanes that are not on mean nothing.

    Raises `TraceError`, when made, loaded or edited, for columns that do not fit together.
    """

    program: Program
    grid: Dim3
    threads: Dim3
    shared_bytes: int  #: dynamic
    block: npt.NDArray[np.int32]
    warp: npt.NDArray[np.int32]
    pc: npt.NDArray[np.int32]
    active: npt.NDArray[np.uint32]
    on: npt.NDArray[np.uint32]
    address: npt.NDArray[np.int64]
    gpu: str = ""  #: profile it was recorded on
    local_base: int = 0  #: where threads' local memory was, from the start of global memory
    report: Report | None = field(default=None, repr=False)  #: of the recorded run; not kept in files and edits

    def __post_init__(self) -> None:
        try:
            check_program(self.program)
            for name in ("grid", "threads"):
                object.__setattr__(self, name, dim3(getattr(self, name), name))
        except (ProgramError, LaunchError) as problem:
            raise self._error(str(problem)) from None
        for name, dtype in COLUMNS.items():
            object.__setattr__(self, name, self._column(name, dtype))
        bad = _first_bad(
            (self.pc < 0) | (self.pc >= len(self.program.instructions)),
            (self.block < 0) | (self.block >= self.blocks),
            (self.warp < 0) | (self.warp >= self.warps),
            self.active == 0,
            (self.on & ~self.active) != 0,
        )
        if bad is not None:
            row, which = bad
            why = (
                f"pc={self.pc[row]} lies outside the program's {len(self.program.instructions)} instructions",
                f"block={self.block[row]} lies outside the grid's {self.blocks} blocks",
                f"warp={self.warp[row]} lies outside the block's {self.warps} warps",
                "active is empty: an instruction has at least one lane",
                f"on={self.on[row]:#x} has lanes that are not in active={self.active[row]:#x}",
            )[which]
            raise self._error(f"row {row}: {why}")
        if (np.diff(self._warp_number()) < 0).any():
            raise self._error("rows must be sorted by block, then warp")
        memory = int(self.is_memory.sum())
        if self.address.shape != (memory, 2 * isa.WARP_SIZE):
            raise self._error(
                f"{memory} memory instructions need address of shape ({memory}, 64), found {self.address.shape}"
            )

    def __repr__(self) -> str:
        gpu = f" on {self.gpu}" if self.gpu else ""
        return f"<Trace of {self.program.name} {self.grid}x{self.threads}{gpu}: {len(self.pc):,} warp instructions>"

    def _error(self, what: str) -> TraceError:
        return TraceError(f"trace of {self.program.name}: {what}")

    def _column(self, name: str, dtype: Any) -> npt.NDArray[Any]:
        """A column as an array of its type; refuses what would change a value."""
        given = np.asarray(getattr(self, name))
        dimensions = 2 if name == "address" else 1
        if given.ndim != dimensions or given.dtype.kind not in "iu":
            raise self._error(f"{name} must be integers, {dimensions}-D, found {given.dtype} of shape {given.shape}")
        if dimensions == 1 and len(given) != len(self.pc):
            raise self._error(f"{name} has {len(given)} rows, pc has {len(self.pc)}")
        made = np.ascontiguousarray(given.astype(dtype))
        if (made != given).any():
            raise self._error(f"{name} has values that do not fit {np.dtype(dtype)}")
        return made

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        x, y, z = self.grid
        return x * y * z

    @property
    def warps(self) -> int:
        """Warps of a block."""
        x, y, z = self.threads
        return -(-x * y * z // isa.WARP_SIZE)

    def _warp_number(self) -> npt.NDArray[np.int64]:
        """A row's warp, counted over the grid."""
        return self.block.astype(np.int64) * self.warps + self.warp

    @property
    def is_memory(self) -> npt.NDArray[np.bool_]:
        """Rows that have addresses: accesses of global, shared or local memory with a lane switched on."""
        return np.asarray(addressed(self.program)[self.pc] & (self.on != 0))

    def edit(self, **changes: Any) -> Trace:
        """A copy with other columns (NumPy arrays) or fields."""
        return replace(self, **{"report": None, **changes})

    # --- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a compressed `.npz`; the file appears whole or not at all."""
        head = {
            "format": FORMAT,
            "grid": self.grid,
            "threads": self.threads,
            "shared_bytes": self.shared_bytes,
            "gpu": self.gpu,
            "local_base": self.local_base,
            "program": _program_to_json(self.program),
        }
        with whole_file(path) as partial, open(partial, "wb") as out:
            np.savez_compressed(
                out,
                head=np.frombuffer(json.dumps(head).encode(), np.uint8),
                **{column: getattr(self, column) for column in COLUMNS},
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Read what `save` wrote. Raises `TraceError` for a damaged file, `OSError` for one that cannot be opened."""
        with open(path, "rb") as file:
            try:
                if not zipfile.is_zipfile(file):
                    raise TraceError("not a whole trace file; record it again")
                file.seek(0)
                with np.load(file, allow_pickle=False) as data:
                    return cls._of(data)
            except TraceError as problem:
                raise TraceError(f"{path}: {problem}") from None
            except Exception as problem:  # whatever zip, zlib, NumPy and JSON raise at damaged bytes
                raise TraceError(
                    f"{path}: not a whole trace file ({type(problem).__name__}: {problem}); record it again"
                ) from problem

    @classmethod
    def _of(cls, data: Mapping[str, npt.NDArray[Any]]) -> Trace:
        head = json.loads(data["head"].tobytes())
        if head["format"] != FORMAT:
            raise TraceError(f"trace format {head['format']}; this version reads format {FORMAT}")
        return cls(
            program=_program_from_json(head["program"]),
            grid=tuple(head["grid"]),
            threads=tuple(head["threads"]),
            shared_bytes=int(head["shared_bytes"]),
            gpu=str(head["gpu"]),
            local_base=int(head["local_base"]),
            pc=data["pc"],
            block=data["block"],
            warp=data["warp"],
            active=data["active"],
            on=data["on"],
            address=data["address"],
        )

    # --- replay

    def recording(self) -> Recording:
        """The trace as the core replays it. Raises `TraceError` if a warp of the grid has no instruction."""
        counts = np.bincount(self._warp_number(), minlength=self.blocks * self.warps)
        if (counts == 0).any():
            missing = int(np.argmin(counts))
            raise self._error(
                f"block {missing // self.warps} warp {missing % self.warps} has no rows; "
                f"each of the {self.warps} warps of {self.blocks} blocks needs at least one instruction"
            )
        replay = np.zeros((len(self.pc), layout.T_COLUMNS), np.int64)
        replay[:, layout.T_BLOCK] = self.block
        replay[:, layout.T_WARP] = self.warp
        replay[:, layout.T_PC] = self.pc
        replay[:, layout.T_ACTIVE] = self.active
        replay[:, layout.T_ON] = self.on
        memory = self.is_memory
        at = np.where(memory, np.cumsum(memory) - 1, -1)
        address = self.address if len(self.address) else np.zeros((1, 2 * isa.WARP_SIZE), np.int64)
        return Recording(replay, np.concatenate([[0], np.cumsum(counts)]), address, at, self.local_base)


def _first_bad(*columns: npt.NDArray[np.bool_]) -> tuple[int, int] | None:
    """The first row in which one of the columns is true, and which; None if there is none."""
    table = np.stack(columns, axis=1)
    row = int(table.any(axis=1).argmax()) if len(table) else 0
    return (row, int(table[row].argmax())) if len(table) and table[row].any() else None


def record(work: Launch | Program, *args: Any, gpu: str | Profile = "h200", **options: Any) -> Trace:
    """Run a launch (or a program with grid, block and arguments) on cold caches and return its trace.

    The report of the run is the trace's `report`. Options as in `sim.simulate`; the
    caches are empty before the run. Raises `TraceError` for a kernel of asynchronous units (mbarriers, TMA,
    warpgroup products), whose waits depend on more than what a warp issued.
    """
    from sim.device import Device

    program = work.program if isinstance(work, Launch) else work
    if isinstance(work, Launch) and work.cluster != (1, 1, 1):
        raise TraceError(
            f"trace of {program.name}: blocks of a cluster wait for each other, which their instructions do not tell; "
            "simulate the launch itself"
        )
    if isinstance(program, Program) and any(i.op >= Op.HGMMA for i in program.instructions):
        raise TraceError(
            f"trace of {program.name}: kernels with mbarriers, TMA or warpgroup products cannot be replayed from what "
            "their warps issued; simulate the launch itself"
        )
    device = Device(gpu)
    rows: list[Any] = []
    report = device.launch(work, *args, flush=True, record=rows, **options)
    return _trace_of(report, rows, device)


def _trace_of(report: Report, rows: list[Any], device: Device) -> Trace:
    """Sort the records of all steps by block and warp."""
    launch = report.launch
    assert launch is not None
    table = np.concatenate([r for r, _ in rows])
    address = np.concatenate([a for _, a in rows])
    memory = addressed(launch.program)[table[:, layout.T_PC]] & (table[:, layout.T_ON] != 0)
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
        gpu=device.profile.name,
        local_base=device.heap.local_offset if launch.program.local_bytes else 0,
        report=report,
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
