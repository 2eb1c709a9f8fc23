"""A simulated GPU: memory and caches that live on, streams, and kernels that run one after another.

SimPy keeps the clock. Each stream is a process that takes its kernels in order;
a kernel holds the compute engine from its launch to its drain, and wakes once a
time step to let the compiled core advance all SMs.
"""

from __future__ import annotations

import bisect
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import simpy

from sim import engine as engines
from sim.compilation import ensure_compiled
from sim.core import layout
from sim.core.layout import GLOBAL_BASE
from sim.counters import LaunchResult
from sim.errors import deadlock_error, error_of, no_end_error
from sim.launch import Dim3, Launch, LaunchError, OutputArray, dim3, pack_params
from sim.memory_system import MemorySystem
from sim.occupancy import check_launch, occupancy
from sim.profile import Profile, load_profile
from sim.program import Program
from sim.report import Report

ALIGNMENT = 256  #: bytes; cudaMalloc's
DEFAULT_CYCLE_LIMIT = 2_000_000_000


class DeviceArray:
    """An array in a device's global memory."""

    def __init__(self, device: Device, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.device, self.offset, self.shape, self.dtype = device, offset, shape, dtype
        self.nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize

    @property
    def ndim(self) -> int:
        """Dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def address(self) -> int:
        """What a kernel sees as the pointer."""
        return GLOBAL_BASE + self.offset

    def numpy(self) -> npt.NDArray[Any]:
        """A copy of the contents on the host."""
        raw = self.device.memory_bytes[self.offset : self.offset + self.nbytes]
        return raw.view(self.dtype).reshape(self.shape).copy()

    def set(self, values: npt.ArrayLike) -> None:
        """Copy `values` (of the same shape) to the device."""
        data = np.ascontiguousarray(np.broadcast_to(np.asarray(values, self.dtype), self.shape))
        self.device.memory_bytes[self.offset : self.offset + self.nbytes] = data.reshape(-1).view(np.uint8)

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, address={self.address:#x})"


class Outputs(Mapping[str, npt.NDArray[Any]]):
    """The array arguments of a launch as the kernel left them, by parameter name; copied when read."""

    def __init__(self, arrays: Mapping[str, DeviceArray]) -> None:
        self._arrays = dict(arrays)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self._arrays[name].numpy()

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


class Stream:
    """Kernels in order. Streams of one device share its one compute engine, so kernels never overlap."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._queue: simpy.Store = simpy.Store(device.env)
        device.env.process(self._run())

    def submit(self, launch: Launch, **options: Any) -> simpy.Event:
        """Queue a launch; `Device.synchronize()` runs it. The event's value is the report."""
        done = self._device.env.event()
        self._queue.put((launch, options, done))
        return done

    def _run(self) -> Generator[simpy.Event, Any, None]:
        while True:
            launch, options, done = yield self._queue.get()
            with self._device.compute.request() as turn:
                yield turn
                try:
                    report = yield self._device.env.process(self._device.run_kernel(launch, **options))
                except Exception as problem:
                    done.fail(problem)  # whoever waits for the kernel gets it; the stream goes on
                    continue
            done.succeed(report)


class Device:
    """One simulated GPU. `gpu` is a profile's name, a path to one, or a `Profile`.

    `threads` steps the SMs on several threads; results are the same for any number.
    """

    def __init__(self, gpu: str | Profile = "h200", *, threads: int = 1) -> None:
        if threads < 1:
            raise ValueError(f"threads={threads}: at least 1 is needed")
        self.profile = gpu if isinstance(gpu, Profile) else load_profile(gpu)
        self.env = simpy.Environment()
        self.compute = simpy.Resource(self.env, capacity=1)
        self.memory = MemorySystem(self.profile)
        self.memory_bytes: npt.NDArray[np.uint8] = np.zeros(1 << 20, np.uint8)
        self._used = ALIGNMENT
        self._allocations: list[tuple[int, int]] = []
        self._names: dict[int, str] = {}
        self._threads = min(threads, self.profile.gpu.sm_count)
        self._pool = ThreadPoolExecutor(self._threads) if self._threads > 1 else None
        self._default = Stream(self)

    # --- memory

    def array(self, values: npt.ArrayLike | OutputArray) -> DeviceArray:
        """Copy an array to the device's global memory."""
        if isinstance(values, OutputArray):
            made = self.empty(values.shape, values.dtype)
            if values.fill:
                made.set(np.asarray(values.fill, values.dtype))
            return made
        data = np.asarray(values)
        if data.dtype.kind not in "iufbV" and data.dtype.name not in ("bfloat16",):
            raise LaunchError(f"an array of dtype {data.dtype} cannot live on the device")
        made = self.empty(data.shape, data.dtype)
        made.set(data)
        return made

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> DeviceArray:
        """An array of zeros in global memory (fresh memory of the simulated device reads zero)."""
        dims = (shape,) if isinstance(shape, int) else tuple(shape)
        made = DeviceArray(self, self._used, dims, np.dtype(dtype))
        self._reserve(made.nbytes)
        self._allocations.append((made.offset, made.offset + made.nbytes))
        return made

    def _reserve(self, nbytes: int) -> int:
        """Take the next `nbytes` of global memory; grows the backing array."""
        offset = self._used
        end = offset + nbytes
        if end > self.profile.dram.capacity_bytes:
            raise MemoryError(
                f"out of memory on {self.profile.name}: {end} bytes are needed, it has "
                f"{self.profile.dram.capacity_bytes} (cudaErrorMemoryAllocation)"
            )
        self._used = -(-end // ALIGNMENT) * ALIGNMENT
        if self._used > len(self.memory_bytes):
            grown = np.zeros(max(self._used, 2 * len(self.memory_bytes)), np.uint8)
            grown[: len(self.memory_bytes)] = self.memory_bytes
            self.memory_bytes = grown
        return offset

    def flush(self) -> None:
        """Write back and empty L2, as a profiler does before each kernel."""
        self.memory.flush()

    # --- kernels

    def stream(self) -> Stream:
        """A new stream."""
        return Stream(self)

    def synchronize(self) -> None:
        """Run until every queued kernel has ended."""
        self.env.run()

    def launch(
        self,
        program: Program | Launch,
        grid: int | tuple[int, ...] | None = None,
        block: int | tuple[int, ...] | None = None,
        args: tuple[Any, ...] = (),
        shared_bytes: int = 0,
        **options: Any,
    ) -> Report:
        """Run a kernel on the default stream and return its report.

        Either a ready `Launch`, or a program with grid, block and arguments (device
        arrays, NumPy arrays, which are copied to the device, and scalars). Options:
        `flush`, `scheduler`, `cycle_limit`, as in `sim.simulate`.
        """
        if isinstance(program, Launch):
            ready = program
        else:
            if grid is None or block is None:
                raise LaunchError(f"{program.name}: a launch needs grid and block")
            ready = Launch(program, dim3(grid, "grid"), dim3(block, "block"), tuple(args), shared_bytes)
        done = self._default.submit(ready, **options)
        report = self.env.run(until=done)
        assert isinstance(report, Report)
        return report

    def run_kernel(
        self,
        launch: Launch,
        *,
        flush: bool = False,
        scheduler: str | None = None,
        cycle_limit: int = DEFAULT_CYCLE_LIMIT,
        record: list[Any] | None = None,
        recording: engines.Recording | None = None,
    ) -> Generator[simpy.Event, Any, Report]:
        """The SimPy process of one kernel: launch, steps, drain. Its value is the report."""
        profile, program = self.profile, launch.program
        order = scheduler or profile.core.issue_order
        if order not in ("gto", "lrr"):
            raise LaunchError(f"scheduler={order!r}: use 'gto' (greedy, then youngest) or 'lrr' (loose round robin)")
        shared = program.shared_static_bytes + launch.shared_bytes
        check_launch(profile, launch.grid, launch.block, program.registers, shared)
        fit = occupancy(
            profile, launch.threads_per_block, program.registers, program.shared_static_bytes, launch.shared_bytes
        )
        if flush:
            self.flush()
        ensure_compiled()
        arrays, bank = self._bind(launch) if recording is None else ({}, self._bank(launch, ()))
        engine = engines.make_engine(
            profile,
            launch,
            fit,
            self.memory,
            local_base=self._local_memory(program),
            global_memory=self.memory_bytes,
            allocations=self._allocations if recording is None else [(0, 1 << 46)],
            bank=bank,
            threads=self._threads,
            pool=self._pool,
            round_robin=order == "lrr",
            recording=recording,
            record=record is not None,
        )
        self.memory.begin_launch()
        begin = int(self.env.now)
        yield self.env.timeout(profile.launch.launch_cycles)
        now = int(self.env.now)
        engine.start(now)
        step = engines.step_cycles(profile)
        while not engine.ended:
            following = engine.step(now, now + step)
            if engine.error is not None:
                raise error_of(engine, self._name_of(arrays))
            if engine.ended:
                break
            if following >= layout.NEVER:
                raise deadlock_error(engine)
            if following - begin > cycle_limit:
                raise no_end_error(engine, cycle_limit)
            yield self.env.timeout(following - now)
            now = following
        last = int(engine.blocks[:, 2].max())
        end = last + profile.launch.drain_cycles
        yield self.env.timeout(max(0, end - int(self.env.now)))
        if record is not None:
            record.extend(engine.records)
        result = self._result(engine, begin, end, order)
        return Report(result, profile, fit, outputs=Outputs(arrays), launch=launch)

    def _result(self, engine: engines.Engine, begin: int, end: int, order: str) -> LaunchResult:
        launch = engine.launch
        per_sm = np.array(engine.arrays.sm)
        per_sm[:, layout_tick_columns()] //= layout.TICK
        blocks = engine.blocks.copy()
        blocks[:, 1:] -= begin
        active = int(blocks[:, 2].max()) - int(blocks[:, 1].min())
        return LaunchResult(
            program=launch.program,
            gpu=self.profile.name,
            grid=launch.grid,
            block=launch.block,
            shared_dynamic_bytes=launch.shared_bytes,
            cycles=end - begin,
            launch_cycles=end - begin - active,
            inst=engine.shared.inst.sum(axis=0),
            stall=engine.shared.stall.sum(axis=0),
            sm=per_sm,
            mem=self.memory.counts(),
            dram_channel_busy=self.memory.channel_busy(),
            blocks=blocks,
            scheduler=order,
        )

    def _bind(self, launch: Launch) -> tuple[dict[str, DeviceArray], npt.NDArray[np.uint8]]:
        """Put array arguments on the device; returns them by name, and constant bank 0."""
        program = launch.program
        if len(launch.args) != len(program.params):
            names = ", ".join(p.name for p in program.params)
            raise LaunchError(f"{program.name}({names}) takes {len(program.params)} arguments, got {len(launch.args)}")
        arrays: dict[str, DeviceArray] = {}
        values: list[Any] = []
        extents: dict[int, tuple[int, ...]] = {}
        for k, (param, value) in enumerate(zip(program.params, launch.args, strict=True)):
            if param.kind != "array":
                if isinstance(value, np.ndarray | DeviceArray | OutputArray):
                    raise LaunchError(f"{program.name}: argument {param.name} is a scalar, got an array")
                values.append(value)
                continue
            if not isinstance(value, np.ndarray | DeviceArray | OutputArray):
                raise LaunchError(f"{program.name}: argument {param.name} is an array, got {type(value).__name__}")
            if np.dtype(value.dtype) != param.dtype:
                raise LaunchError(f"{program.name}: argument {param.name} is {param.dtype}, got {value.dtype}")
            if value.ndim != param.ndim:
                raise LaunchError(
                    f"{program.name}: argument {param.name} has {param.ndim} dimensions, got {value.ndim}"
                )
            array = value if isinstance(value, DeviceArray) else self.array(value)
            if array.device is not self:
                raise LaunchError(f"{program.name}: argument {param.name} lives on another device")
            arrays[param.name] = array
            values.append(array.address)
            extents[k] = array.shape
        return arrays, self._bank(launch, values, extents)

    def _bank(
        self, launch: Launch, values: Any, extents: Mapping[int, tuple[int, ...]] | None = None
    ) -> npt.NDArray[np.uint8]:
        """Constant bank 0: launch dimensions and parameters."""
        bank = np.zeros(engines.PARAM_BANK_BYTES, np.uint8)
        bank[0:12] = np.array(launch.block, np.int32).view(np.uint8)
        bank[12:24] = np.array(launch.grid, np.int32).view(np.uint8)
        if values:
            area = np.frombuffer(pack_params(launch.program, values, extents or {}), np.uint8)
            base = launch.program.param_base
            bank[base : base + len(area)] = area
        return bank

    def _local_memory(self, program: Program) -> int:
        """Byte offset of memory for all resident threads' local arrays; 0 if the program has none."""
        if program.local_bytes == 0:
            return 0
        threads = self.profile.gpu.sm_count * layout.MAX_WARPS * 32
        return self._reserve(threads * program.local_bytes)

    def _name_of(self, arrays: Mapping[str, DeviceArray]) -> Any:
        """A function from an address to the nearest array argument, for error messages."""
        placed = sorted((a.address, name) for name, a in arrays.items())

        def describe(address: int) -> tuple[str, int, DeviceArray] | None:
            at = bisect.bisect_right([p for p, _ in placed], address) - 1
            if at < 0:
                at = 0
            if not placed:
                return None
            name = placed[at][1]
            array = arrays[name]
            return name, (address - array.address) // array.dtype.itemsize, array

        return describe


def layout_tick_columns() -> slice:
    """The per-SM columns that the core counts in ticks."""
    from sim.counters import Sm

    return slice(Sm.L1_DATA, None)


def simulate(
    work: Launch | Any,
    gpu: str | Profile = "h200",
    *,
    threads: int = 1,
    flush: bool = True,
    scheduler: str | None = None,
    cycle_limit: int = DEFAULT_CYCLE_LIMIT,
) -> Report:
    """Simulate one launch (or replay a `sim.Trace`) on a fresh device and return its report.

    `scheduler` is "gto" or "lrr"; `cycle_limit` ends a kernel that never ends.
    """
    from sim.trace import Trace, replay

    device = Device(gpu, threads=threads)
    if isinstance(work, Trace):
        return replay(work, device, scheduler=scheduler, cycle_limit=cycle_limit)
    return device.launch(work, flush=flush, scheduler=scheduler, cycle_limit=cycle_limit)


__all__ = ["Device", "DeviceArray", "Dim3", "Outputs", "Stream", "simulate"]
