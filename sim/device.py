"""A simulated GPU: memory and caches that live on, streams, and kernels that run one after another.

SimPy keeps the clock. Each stream is a process that takes its kernels in order;
a kernel holds the compute engine from its launch to its drain, and wakes once a
time step to let the compiled core advance all SMs.

After an error or Ctrl-C in a kernel the device is usable at once: global memory holds
what the kernel had stored by then, the arrays that its launch put on the device are
gone, and the caches are empty. `repr(device)` says so. What is queued behind a kernel
that failed stays queued; Ctrl-C drops it.
"""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any

import numpy as np
import numpy.typing as npt
import simpy

from sim import engine as engines
from sim.compilation import ensure_compiled
from sim.core import layout
from sim.core.layout import ISSUE_ORDERS
from sim.counters import LaunchResult, Sm
from sim.errors import KernelError, Place, deadlock_error, error_of, no_end_error
from sim.heap import DeviceArray, Heap, Mark, Outputs
from sim.isa import CONSTANT_WINDOW, INSTRUCTION_BYTES, LOCAL_WINDOW, SHARED_WINDOW, WARP_SIZE
from sim.launch import Dim3, Launch, LaunchError, OutputArray, dim3, is_integer, pack_params
from sim.memory_system import MemorySystem, launch_reads
from sim.occupancy import Occupancy, check_launch, occupancy, with_clusters
from sim.profile import Profile, load_profile
from sim.program import Param, Program
from sim.program_checks import PARAM_BANK_BYTES, ProgramError, check_program, check_units
from sim.recorder import Recorder
from sim.report import Report
from sim.sampling import DETAILS, Sampler
from sim.scale_memory import ScaleModelMemory
from sim.tensor_maps import TensorMap
from sim.timeline import Place as ArrayPlace

DEFAULT_CYCLE_LIMIT = 2_000_000_000
#: constant bank 0: bases of generic addresses; top of the stack; number of SMs
WINDOWS_AT, STACK_AT, SM_COUNT_AT, PARAMS_AT = 0x18, 0x28, 0x10C, 0x198
CLUSTER_AT, CLUSTER_BLOCKS_AT = 0x140, 0x188  #: likewise, of clusters
Process = Generator[simpy.Event, Any, Any]


class Stream:
    """Kernels in order.

    Streams of one device share its one compute engine, so kernels never overlap: they
    run in the order in which they were submitted, to whichever stream.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self.restart()

    def restart(self) -> None:
        """Begin with nothing queued, on the device's clock."""
        self._queue: simpy.Store = simpy.Store(self._device.env)
        self._device.env.process(self._run())

    def submit(self, launch: Launch, **options: Any) -> simpy.Event:
        """Queue a launch; `Device.synchronize()` runs it. The event's value is the report, or the error.

        `options` as in `Device.launch`.
        """
        if not isinstance(launch, Launch):
            raise LaunchError(
                f"{launch!r:.80} cannot be launched: give a Launch, such as kernel.launch(grid, block, args=(...)) "
                "makes, or a Program with grid, block and arguments"
            )
        done = self._device.env.event()
        self._queue.put((self._device.run_kernel(launch, **options), self._device.compute.request(), done))
        return done

    def _run(self) -> Process:
        while True:
            kernel, turn, done = yield self._queue.get()
            with turn:
                yield turn
                try:
                    done.succeed((yield from kernel))
                except Exception as error:
                    self._device.note_failure(error)
                    done.fail(error)
                    done.defused = True  # the device raises it
            del kernel, done  # and with them the report


class Device:
    """One simulated GPU. `gpu` is a profile's name, a path to one, or a `Profile`.

    `threads` steps the SMs on several threads; results are the same for any number.
    `last_error` is the error that ended the last kernel, or None.
    """

    def __init__(self, gpu: str | Profile = "h200", *, threads: int = 1) -> None:
        if not is_integer(threads) or threads < 1:
            raise LaunchError(f"threads={threads!r}: an integer of at least 1 is needed")
        self.profile = gpu if isinstance(gpu, Profile) else load_profile(gpu)
        self.env = simpy.Environment()
        self.compute = simpy.Resource(self.env, capacity=1)
        self.memory = MemorySystem(self.profile)
        self.heap = Heap(self.profile.name, self.profile.dram.capacity_bytes)
        self.last_error: Exception | None = None
        self._modules: dict[bytes, DeviceArray] = {}
        self._threads = min(threads, self.profile.gpu.sm_count)
        self._pool = ThreadPoolExecutor(self._threads) if self._threads > 1 else None
        self._running: tuple[Launch, Mark] | None = None
        self._sampler: Sampler | None = None
        self._cold = True  # L2 was empty when the launch began
        self._in_core = self._stop_asked = False
        self._failure: Exception | None = None
        self._default = Stream(self)
        self._streams = [self._default]

    def __repr__(self) -> str:
        arrays = len(self.heap.allocations)
        held = sum(end - first for first, end in self.heap.allocations)
        state = "ready" if self.last_error is None else f"ready; its last kernel failed: {self.last_error}"
        return f"<Device {self.profile.name} at cycle {self.env.now:,} with {arrays} arrays of {held:,} bytes: {state}>"

    # --- memory

    def array(self, values: npt.ArrayLike | OutputArray) -> DeviceArray:
        """Copy an array to the device's global memory."""
        data = values if isinstance(values, OutputArray) else np.asarray(values)
        made = self.empty(data.shape, data.dtype.newbyteorder("="))
        made.start(data)
        return made

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> DeviceArray:
        """An array of zeros in global memory (fresh memory of the simulated device reads zero)."""
        return self.heap.array(shape, dtype)

    def flush(self) -> None:
        """Write back and empty L2, as a profiler does before each kernel."""
        self.memory.flush()

    # --- kernels

    def stream(self) -> Stream:
        """A new stream."""
        self._streams.append(Stream(self))
        return self._streams[-1]

    def synchronize(self) -> None:
        """Run until every queued kernel has ended.

        Raises the error of a kernel that fails; what is queued behind it runs with the next call.
        """
        self._advance(lambda: self.env.peek() == simpy.core.Infinity)

    def launch(
        self,
        program: Program | Launch,
        grid: int | tuple[int, ...] | None = None,
        block: int | tuple[int, ...] | None = None,
        args: tuple[Any, ...] = (),
        shared_bytes: int = 0,
        cluster: int | tuple[int, ...] | None = None,
        **options: Any,
    ) -> Report:
        """Run a kernel on the default stream and return its report.

        Either a ready `Launch`, or a program with grid, block and arguments (device
        arrays, NumPy arrays, which are copied to the device, and scalars). `cluster`: blocks
        of a cluster, where the program does not say. Options:
        `flush`, `scheduler`, `cycle_limit`, `detail`, `timeline`, as in `sim.simulate`.

        Raises `LaunchError` for what a GPU would refuse, `KernelError` (from
        `sim.errors`) for what ends a running kernel.
        """
        if isinstance(program, Program):
            if grid is None or block is None:
                raise LaunchError(f"{program.name}: a launch needs grid and block")
            dims = program.cluster if cluster is None else dim3(cluster, "cluster")
            program = Launch(program, dim3(grid, "grid"), dim3(block, "block"), tuple(args), shared_bytes, cluster=dims)
        elif grid is not None or block is not None or args or shared_bytes or cluster is not None:
            raise LaunchError("a Launch has its own grid, block and arguments; launch.with_(...) makes one with others")
        done = self._default.submit(program, **options)
        self._advance(lambda: done.processed)
        report = done.value
        assert isinstance(report, Report)
        return report

    def note_failure(self, error: Exception) -> None:
        """A kernel ended with `error`; whoever waits for the device gets it."""
        self._failure = self._failure or error

    def _advance(self, done: Callable[[], bool]) -> None:
        """Run the clock until `done()` or until a kernel fails."""
        try:
            with self._asked_to_stop_between_steps():
                while self._failure is None and not done():
                    self.env.step()
        except KeyboardInterrupt:
            raise KeyboardInterrupt(self._interrupt()) from None
        except BaseException:
            self._interrupt()
            raise
        failure, self._failure = self._failure, None
        if isinstance(failure, KernelError | LaunchError | ProgramError | MemoryError):
            raise failure.with_traceback(None)  # where in the simulator is of no interest
        if failure is not None:
            raise failure

    @contextmanager
    def _asked_to_stop_between_steps(self) -> Iterator[None]:
        """Ctrl-C during a step of the core takes effect after it.

        Compiled code swallows an exception that is raised in what little Python it calls.
        """
        here = threading.current_thread() is threading.main_thread()
        if not here or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return

        def ask(number: int, frame: FrameType | None) -> None:
            if not self._in_core:
                signal.default_int_handler(number, frame)
            self._stop_asked = True

        signal.signal(signal.SIGINT, ask)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._in_core = self._stop_asked = False

    def _step(self, engine: engines.Engine, t0: int, t1: int) -> int:
        """`Engine.step`, and then Ctrl-C if it was pressed meanwhile."""
        self._in_core = True
        try:
            following = engine.step(t0, t1)
        finally:
            self._in_core = False
        if self._stop_asked:
            raise KeyboardInterrupt
        return following

    def _interrupt(self) -> str:
        """Give up the running kernel and everything queued, and make the device usable; says what happened."""
        name = self._running[0].name if self._running else "no kernel"
        said = f"stopped at cycle {self.env.now:,} in {name}; queued launches are dropped, the device can be used on"
        if self._running is not None:
            self.heap.release(self._running[1])
            self._running = None
        self.memory.flush()
        self._failure = None
        self.env = simpy.Environment(self.env.now + engines.step_cycles(self.profile))
        self.compute = simpy.Resource(self.env, capacity=1)
        for stream in self._streams:
            stream.restart()
        return said

    def run_kernel(
        self,
        launch: Launch,
        *,
        flush: bool = False,
        scheduler: str | None = None,
        cycle_limit: int = DEFAULT_CYCLE_LIMIT,
        detail: str = "auto",
        timeline: int | Sequence[int] = (),
        record: list[Any] | None = None,
        recording: engines.Recording | None = None,
    ) -> Process:
        """The SimPy process of one kernel: launch, steps, drain. Its value is the report.

        A kernel that fails leaves the device as the module says, at the end of the step in which it failed.
        """
        variables_at = self._variables_of(launch.program)
        mark = self.heap.mark()
        self._running = launch, mark
        try:
            order = scheduler or self.profile.core.issue_order
            fit = self._check(launch, order, cycle_limit)
            recorder = Recorder(launch.program, record is not None, timed_sms(self.profile, timeline))
            detail = checked_detail(detail, recorder)
            if flush:
                self.flush()
            ensure_compiled()
            arrays, bank = self._bind(launch) if recording is None else ({}, self._bank(launch, ()))
            engine = self._engine(launch, fit, bank, order, recorder, recording, variables_at)
            begin = int(self.env.now)
            sampler = self._sampler = None if detail == "full" else Sampler.of(engine, detail)
            before = self.heap.copy(mark) if sampler is not None and sampler.watch else np.zeros(0, np.uint8)
            try:
                yield from self._run(engine, arrays, cycle_limit, sampler)
                if sampler is not None and sampler.model is not None:
                    self.memory.flush()
                    self._start_again(launch, arrays, mark, before)
                    engine = self._engine(launch, fit, bank, order, recorder, recording, variables_at, sampler)
                    yield from self._run(engine, arrays, cycle_limit)
            except Exception:
                self.memory.flush()
                yield self.env.timeout(engines.step_cycles(self.profile))
                raise
            end = int(self.env.now)
        except Exception as error:
            self.heap.release(mark)
            self._running, self.last_error = None, error
            self._sampler = None
            raise
        if record is not None:
            record.extend(recorder.records)
        self._running, self.last_error = None, None
        places = {name: ArrayPlace(a.address, a.nbytes, a.dtype.itemsize) for name, a in arrays.items()}
        result = replace(self._result(engine, begin, end, order), timeline=recorder.timeline(begin, places))
        outputs = Outputs(arrays, sampled=result.sampling is not None)
        return Report(result, self.profile, fit, outputs=outputs, launch=launch)

    def _check(self, launch: Launch, order: str, cycle_limit: int) -> Occupancy:
        """The launch's occupancy. Raises `LaunchError` or `ProgramError` for what cannot run."""
        program = launch.program
        if order not in ISSUE_ORDERS:
            raise LaunchError(
                f"scheduler={order!r}: use 'gto' (greedy, then youngest), 'lrr' (loose round robin) "
                "or 'oldest_block' (oldest block first, its warps in turn)"
            )
        if not is_integer(cycle_limit) or cycle_limit < 1:
            raise LaunchError(f"cycle_limit={cycle_limit!r}: an integer of at least 1 is needed")
        shared = program.shared_static_bytes + launch.shared_bytes
        try:
            check_launch(self.profile, launch.grid, launch.block, program.registers_per_thread, shared)
        except LaunchError as problem:
            raise LaunchError(f"{program.name} on {self.profile.name}: {problem}") from None
        check_program(program)
        check_units(program, self.profile)
        fit = occupancy(
            self.profile,
            launch.threads_per_block,
            program.registers_per_thread,
            program.shared_static_bytes,
            launch.shared_bytes,
        )
        try:
            return with_clusters(self.profile, fit, launch.cluster, launch.non_portable_cluster)
        except LaunchError as problem:
            raise LaunchError(f"{program.name} on {self.profile.name}: {problem}") from None

    def _engine(
        self,
        launch: Launch,
        fit: Occupancy,
        bank: npt.NDArray[np.uint8],
        order: str,
        recorder: Recorder,
        recording: engines.Recording | None,
        variables_at: int,
        sampler: Sampler | None = None,
    ) -> engines.Engine:
        """The core's state for a launch, which begins now, on the whole GPU or on the sampler's scale model."""
        local_base = self._local_memory(launch.program) if recording is None else recording.local_base
        profile, memory, blocks = self.profile, self.memory, None
        if sampler is not None and sampler.model is not None:
            profile, blocks = sampler.model, sampler.blocks
            memory = ScaleModelMemory(profile, sampler.regions)
        engine = engines.make_engine(
            profile,
            launch,
            fit,
            memory,
            local_base=local_base,
            global_memory=self.heap.bytes,
            allocations=self.heap.allocations if recording is None else engines.EVERYWHERE,
            bank=bank,
            threads=self._threads,
            pool=self._pool,
            order=order,
            recording=recording,
            recorder=recorder,
            variables_at=variables_at,
            blocks=blocks,
        )
        self._cold = memory.cold
        memory.begin_launch()
        return engine

    def _run(
        self,
        engine: engines.Engine,
        arrays: Mapping[str, DeviceArray],
        cycle_limit: int,
        sampler: Sampler | None = None,
    ) -> Process:
        """From launch to drain. Raises `KernelError` for what ends the kernel early.

        While a sampler watches, the clock stands still; it ends here if the launch is to be sampled.
        """
        begin = int(self.env.now)
        now = begin + engine.profile.launch.launch_cycles
        engine.start(now, cold=self._cold)
        step = engine.step_cycles
        while True:
            following = self._step(engine, now, now + step)
            if engine.error is not None:
                raise error_of(engine, lambda address: place_of(arrays, address))
            if following >= layout.NEVER:  # nothing is left to do, nor to send
                if engine.ended:
                    break
                raise deadlock_error(engine)
            if following - begin > cycle_limit:
                raise no_end_error(engine, cycle_limit)
            now = following
            if sampler is not None and sampler.watch:
                sampler.after_step(engine, now)
                if sampler.model is not None:
                    return
            else:
                yield self.env.timeout(now - int(self.env.now))
        end = max(int(engine.blocks[:, 2].max()) + engine.profile.launch.drain_cycles, engine.answered)
        engine.memory.end_launch()
        yield self.env.timeout(max(0, end - int(self.env.now)))

    def _result(self, engine: engines.Engine, begin: int, end: int, order: str) -> LaunchResult:
        launch = engine.launch
        result = LaunchResult(
            program=launch.program,
            gpu=self.profile.name,
            grid=launch.grid,
            block=launch.block,
            shared_dynamic_bytes=launch.shared_bytes,
            cycles=end - begin,
            launch_cycles=0,
            inst=engine.shared.inst.sum(axis=0),
            stall=engine.shared.stall.sum(axis=0),
            sm=np.array(engine.arrays.sm),
            mem=engine.memory.counts(),
            dram_channel_busy=engine.memory.channel_busy(),
            blocks=engine.blocks.copy(),
            scheduler=order,
            clock_ratio=engine.clock_ratio,
        )
        if self._sampler is not None and self._sampler.model is not None:
            result = self._sampler.complete(result, self.profile)
        result.mem[:] += launch_reads(
            self.profile, INSTRUCTION_BYTES * len(result.program.instructions), cold=self._cold
        )
        result.blocks[:, 1:] -= begin
        result.sm[:, Sm.L1_DATA :] //= layout.TICK
        result.sm[:, Sm.ACTIVE] = active_cycles(result.blocks, len(result.sm))
        return replace(result, launch_cycles=int(result.blocks[:, 1].min()) + self.profile.launch.drain_cycles)

    def _bind(self, launch: Launch) -> tuple[dict[str, DeviceArray], npt.NDArray[np.uint8]]:
        """Put array arguments on the device; returns them by name, and constant bank 0."""
        program = launch.program
        if len(launch.args) != len(program.params):
            names = ", ".join(p.name for p in program.params)
            raise LaunchError(f"{program.name}({names}) takes {len(program.params)} arguments, got {len(launch.args)}")
        arrays: dict[str, DeviceArray] = {}
        values: list[Any] = []
        extents: dict[int, tuple[int, ...]] = {}
        placed: dict[int, DeviceArray] = {}
        given = [value.array if isinstance(value, TensorMap) else value for value in launch.args]
        self.heap.prepare(value.nbytes for value in given if isinstance(value, np.ndarray | OutputArray))
        for k, (param, value) in enumerate(zip(program.params, launch.args, strict=True)):
            if param.kind == "tensor_map":
                if not isinstance(value, TensorMap):
                    raise LaunchError(
                        f"{program.name}: argument {param.name} is a tensor map, got {type(value).__name__}; "
                        "make one with sim.tensor_map(array, box=...)"
                    )
                arrays[param.name] = array = self._placed(program, param, value.array, placed)
                values.append(value.encode(array.address))
                continue
            if isinstance(value, TensorMap):
                raise LaunchError(f"{program.name}: argument {param.name} is no tensor map")
            if param.kind != "array":
                if isinstance(value, np.ndarray | DeviceArray | OutputArray) and value.ndim:
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
            arrays[param.name] = array = self._placed(program, param, value, placed)
            values.append(array.address)
            extents[k] = array.shape
        return arrays, self._bank(launch, values, extents)

    def _start_again(
        self, launch: Launch, arrays: Mapping[str, DeviceArray], mark: Mark, before: npt.NDArray[np.uint8]
    ) -> None:
        """Let memory hold what it did when the launch began: what was there `before` it, and its own arrays."""
        self.heap.restore(before)
        self.heap.clear(mark)
        for param, value in zip(launch.program.params, launch.args, strict=True):
            source = value.array if isinstance(value, TensorMap) else value
            if param.name in arrays and not isinstance(source, DeviceArray):
                arrays[param.name].start(source)

    def _placed(self, program: Program, param: Param, value: Any, placed: dict[int, DeviceArray]) -> DeviceArray:
        """An array argument on the device; one that tensor maps and parameters share is there once."""
        if isinstance(value, DeviceArray):
            if value.heap is not self.heap:
                raise LaunchError(f"{program.name}: argument {param.name} lives on another device")
            value.about_to_change()
            return value
        if id(value) not in placed:
            placed[id(value)] = self.array(value)
        return placed[id(value)]

    def _bank(
        self, launch: Launch, values: Any, extents: Mapping[int, tuple[int, ...]] | None = None
    ) -> npt.NDArray[np.uint8]:
        """Constant bank 0: launch dimensions and parameters."""
        bank = np.zeros(PARAM_BANK_BYTES, np.uint8)
        bank[0:12] = np.array(launch.block, np.int32).view(np.uint8)
        bank[12:24] = np.array(launch.grid, np.int32).view(np.uint8)
        bank[WINDOWS_AT : WINDOWS_AT + 16] = np.array([SHARED_WINDOW, LOCAL_WINDOW], np.uint64).view(np.uint8)
        bank[SM_COUNT_AT : SM_COUNT_AT + 4] = np.array([self.profile.gpu.sm_count], np.int32).view(np.uint8)
        params = CONSTANT_WINDOW + launch.program.param_base
        _describe_clusters(bank, launch)
        bank[PARAMS_AT : PARAMS_AT + 8] = np.array([params], np.uint64).view(np.uint8)
        bank[STACK_AT : STACK_AT + 4] = np.array([launch.program.local_bytes], np.int32).view(np.uint8)
        if values:
            area = np.frombuffer(pack_params(launch.program, values, extents or {}), np.uint8)
            base = launch.program.param_base
            bank[base : base + len(area)] = area
        return bank

    def _variables_of(self, program: Program) -> int:
        """Address of the global variables that come with a program's module, which is loaded once; 0 without any."""
        if not program.variables:
            return 0
        if program.variables not in self._modules:
            self._modules[program.variables] = self.array(np.frombuffer(program.variables, np.uint8))
        return self._modules[program.variables].address

    def _local_memory(self, program: Program) -> int:
        """Byte offset of memory for all resident threads' local arrays; 0 if the program has none."""
        if program.local_bytes == 0:
            return 0
        return self.heap.local_memory(self.profile.gpu.sm_count * layout.MAX_WARPS * WARP_SIZE * program.local_bytes)


def _describe_clusters(bank: npt.NDArray[np.uint8], launch: Launch) -> None:
    """Constant bank 0: whether the launch has clusters, their dimensions, reciprocals of these, the grid's clusters."""
    dims = np.array(launch.cluster, np.int32)
    words = np.zeros(10, np.int32)
    words[0] = math.prod(launch.cluster) > 1
    words[1:4] = dims
    words[4:7] = np.nextafter(np.float32(1) / dims.astype(np.float32), np.float32(2)).view(
        np.int32
    )  # quotients round down
    words[7:10] = np.array(launch.grid, np.int32) // dims
    bank[CLUSTER_AT : CLUSTER_AT + 40] = words.view(np.uint8)
    bank[CLUSTER_BLOCKS_AT : CLUSTER_BLOCKS_AT + 4] = np.array([math.prod(launch.cluster)], np.int32).view(np.uint8)


def timed_sms(profile: Profile, timeline: int | Sequence[int]) -> tuple[int, ...]:
    """The SMs whose timeline is recorded, ascending. Raises `LaunchError` for what is no SM of the profile."""
    given = (timeline,) if isinstance(timeline, int | np.integer) else tuple(timeline)
    last = profile.gpu.sm_count - 1
    if not all(is_integer(sm) and 0 <= sm <= last for sm in given):
        raise LaunchError(
            f"timeline={timeline!r}: give the number of an SM, or several; {profile.name} has 0 to {last}"
        )
    return tuple(sorted({int(sm) for sm in given}))


def checked_detail(detail: str, recorder: Recorder) -> str:
    """How much of a launch is executed. Raises `LaunchError` for an unknown word, and for a record of a part."""
    if detail not in DETAILS:
        raise LaunchError(f"detail={detail!r}: use {', '.join(map(repr, DETAILS))}")
    if recorder.active and detail == "sampled":
        raise LaunchError(
            "a trace and a timeline hold every instruction: record it with detail='full' (or 'auto', the default)"
        )
    return "full" if recorder.active else detail


def active_cycles(blocks: npt.NDArray[np.int64], sms: int) -> npt.NDArray[np.int64]:
    """Cycles in which each of `sms` SMs held a block; `blocks` as in `LaunchResult`."""
    sm, start, end = blocks[np.lexsort((blocks[:, 1], blocks[:, 0]))].T
    shift = sm * (int(blocks[:, 2].max()) + 1)  # so that one SM's times lie behind those of the SM before
    latest = np.maximum.accumulate(end + shift)
    before = np.concatenate([[0], latest[:-1]])
    held = np.maximum(end + shift - np.maximum(start + shift, before), 0)
    return np.bincount(sm, held, sms).astype(np.int64)


def place_of(arrays: Mapping[str, DeviceArray], address: int) -> Place | None:
    """The array argument nearest to an address, for messages; None if there is none."""
    if not arrays:
        return None

    def distance(name: str) -> int:
        first = arrays[name].address
        return max(first - address, address - (first + arrays[name].nbytes) + 1, 0)

    name = min(arrays, key=distance)
    array = arrays[name]
    return Place(name, (address - array.address) // array.dtype.itemsize, array.shape)


def simulate(
    work: Launch | Any,
    gpu: str | Profile = "h200",
    *,
    threads: int = 1,
    flush: bool = True,
    scheduler: str | None = None,
    cycle_limit: int = DEFAULT_CYCLE_LIMIT,
    detail: str = "auto",
    timeline: int | Sequence[int] = (),
) -> Report:
    """Simulate one launch (or replay a `sim.Trace`) on a fresh device and return its report.

    `scheduler` is "gto", "lrr" or "oldest_block"; `cycle_limit` ends a kernel that never ends.
    `detail` is "full": every block is executed; "sampled": a part of them is, on a scale
    model of the GPU, and the report says so (docs/model/sampling.md); or "auto": sampled
    from 50 million warp instructions on.
    `timeline` is an SM, or several, of which everything is recorded over time, for
    `Report.timeline` and the pictures that need it (docs/timeline.md); all blocks are
    executed then.
    """
    from sim.trace import Trace, replay

    device = Device(gpu, threads=threads)
    options: dict[str, Any] = {
        "scheduler": scheduler,
        "cycle_limit": cycle_limit,
        "detail": detail,
        "timeline": timeline,
    }
    if isinstance(work, Trace):
        return replay(work, device, **options)
    return device.launch(work, flush=flush, **options)


__all__ = ["Device", "DeviceArray", "Dim3", "Outputs", "Stream", "simulate"]
