"""Traces: recorded, kept, edited, made by hand and replayed; and files and columns that are no trace."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import sim
from sim.core.layout import GLOBAL_BASE, ISSUE_ORDERS
from sim.device import Device
from sim.errors import MisalignedError
from sim.isa import Compare, Op, Space
from sim.launch import Launch, LaunchError
from sim.program import Imm, Reg
from sim.trace import Trace, TraceError, record
from tests.core.launches import small
from tests.core.programs import OUT, address, alu, control, index_of_thread, isetp, program
from tests.core.programs import memory as access
from workloads import divergence, matmul, memory, rows, shared


@sim.kernel
def waits_in_branches(k, y):
    """Both sides of a branch wait at the block's barrier, in loops of different lengths; some lanes leave early."""
    i = k.thread_idx.x
    s = k.var(0)
    with k.if_((i & 7) == 7):
        k.return_()
    with k.if_((i & 31) < 5):
        for _ in k.range_((i & 3) + 1, unroll=1):
            s += 3
        k.syncthreads()
        for _ in k.range_(i & 3, unroll=1):
            s += 1
    with k.else_():
        s += i
        k.syncthreads()
        for _ in k.range_(i & 15, unroll=1):
            s += 2
    y[k.block_idx.x * k.block_dim.x + i] = s


@sim.kernel
def exchanges(k, x, y):
    """Fences, warp barriers and global atomics with and without an answer."""
    i = k.thread_idx.x
    with k.if_(i < 12):
        k.atomic_add(y, i & 3, 1)
        k.threadfence()
        k.syncwarp(0xFFF)
    with k.else_():
        old = k.atomic_max(y, 4 + (i & 1), i)
        x[k.block_idx.x * k.block_dim.x + i] = old
    k.syncthreads()
    with k.if_(i == 40):
        k.atomic_exch(y, 7, k.block_idx.x)


def spilled() -> Launch:
    """Local memory, and arguments on the device before it."""
    body = [
        *index_of_thread(),
        alu(Op.MOV, 7, Imm(8)),
        access(Op.ST, Space.LOCAL, 7, 2),
        access(Op.LD, Space.LOCAL, 7, 6),
        address(4, 2, OUT),
        access(Op.ST, Space.GLOBAL, 4, 6),
        control(Op.EXIT),
    ]
    made = program("spilled", body)
    made.local_bytes = 16
    return Launch(made, 3, 64, (np.zeros(5000, np.uint32), sim.zeros(192, np.uint32), 0))


def guarded_barrier() -> Launch:
    """A barrier that only some lanes of a warp execute, and one that the rest does."""
    body = [
        *index_of_thread(),
        isetp(0, Compare.LT, Reg(0), Imm(8)),
        control(Op.BAR, guard=0),
        control(Op.BAR, guard=16),
        address(4, 2, OUT),
        access(Op.ST, Space.GLOBAL, 4, 2),
        control(Op.EXIT),
    ]
    return Launch(program("guarded", body), 2, 64, (np.zeros(4, np.uint32), sim.zeros(128, np.uint32), 0))


KERNELS: dict[str, Callable[[], Launch]] = {
    "copy": lambda: memory.copy(500, width=2, block=96),
    "strided": lambda: memory.strided(200, 7, write=True),
    "transpose": lambda: memory.transpose(40, "padded"),
    "tiled": lambda: matmul.tiled(20, tile=8),
    "lane_if": lambda: divergence.lane_if(100, 5, iters=4),
    "switch": lambda: divergence.switch(64, 5, iters=3),
    "trip_counts": lambda: divergence.trip_counts(100, below=20),
    "lecture": lambda: divergence.lecture(64),
    "reduction": lambda: shared.reduction(700, "modulo"),
    "histogram": lambda: shared.histogram(500, 10, grid=4),
    "softmax": lambda: rows.softmax(3, 100, block=64),
    "waits_in_branches": lambda: waits_in_branches.launch(5, 80, args=(sim.zeros(400, np.int32),)),
    "exchanges": lambda: exchanges.launch(3, 64, args=(sim.zeros(192, np.int32), sim.zeros(8, np.int32))),
    "spilled": spilled,
    "guarded_barrier": guarded_barrier,
}


def counts(report: sim.Report) -> str:
    """A report as JSON, without the launch's parameters, which a trace does not know."""
    return json.dumps({key: value for key, value in json.loads(report.to_json()).items() if key != "launch"})


@pytest.fixture(scope="module")
def copied() -> Trace:
    return record(memory.copy(100), gpu="toy")


# --- replay


@pytest.mark.parametrize("scheduler", ISSUE_ORDERS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_replay_takes_the_same_cycles_and_counts(kernel, scheduler):
    trace = record(KERNELS[kernel](), gpu="toy", scheduler=scheduler)
    again = sim.simulate(trace, gpu="toy", scheduler=scheduler)
    assert again.cycles == trace.report.cycles
    assert counts(again) == counts(trace.report)


def test_a_replay_of_tensor_kernels_with_asynchronous_copies_is_the_same():
    trace = record(matmul.gemm(n=72, tile=(64, 64, 32), dtype="bf16"), gpu=small())
    assert counts(sim.simulate(trace, gpu=small())) == counts(trace.report)


def test_recording_does_not_change_the_run():
    launch = divergence.trip_counts(100, below=20)
    trace = record(launch, gpu="toy")
    assert trace.report.to_json() == sim.simulate(launch, gpu="toy").to_json()
    launch.check(trace.report)


def test_a_replay_is_the_same_on_two_threads():
    trace = record(waits_in_branches.launch(5, 80, args=(sim.zeros(400, np.int32),)), gpu="toy")
    assert sim.simulate(trace, gpu="toy", threads=2).to_json() == sim.simulate(trace, gpu="toy").to_json()


@pytest.mark.parametrize("gpu", ["h200", "t4", "a100_sxm_40gb"])
def test_a_trace_runs_on_any_gpu(copied, gpu):
    replayed = sim.simulate(copied, gpu=gpu)
    direct = sim.simulate(memory.copy(100), gpu=gpu)
    assert replayed.cycles == direct.cycles
    assert counts(replayed) == counts(direct)


def test_a_program_with_its_grid_can_be_recorded():
    launch = memory.copy(100)
    trace = record(launch.program, launch.grid, launch.block, launch.args, gpu="toy")
    assert trace.grid == launch.grid and trace.report.cycles > 0


def test_a_trace_that_does_not_fit_a_gpu_is_refused_as_its_launch_would_be():
    trace = record(matmul.gemm(n=64, tile=(64, 64, 32), dtype="bf16"), gpu=small())
    with pytest.raises(LaunchError, match="bytes of shared memory a block"):
        sim.simulate(trace, gpu="toy")


# --- what it holds


def test_a_trace_holds_a_row_an_instruction_in_order(copied):
    assert copied.gpu == "toy" and copied.threads == (256, 1, 1) and copied.grid == (1, 1, 1)
    assert (copied.blocks, copied.warps) == (1, 8)
    assert copied.warp.tolist() == sorted(copied.warp.tolist())
    first = copied.pc[copied.warp == 0]
    assert first.tolist() == list(range(len(first)))
    assert copied.report["smsp__inst_executed.sum"] == len(copied.pc)


def test_addresses_are_those_of_the_lanes(copied):
    ops = [copied.program.instructions[pc].op for pc in copied.pc[copied.is_memory]]
    loads = copied.address[np.array(ops) == Op.LD]
    assert len(loads) == 4 and (loads[:, 32:] == -1).all()
    assert (np.diff(loads[0, :32]) == 4).all() and loads[0, 0] >= GLOBAL_BASE
    assert loads[1, 0] == loads[0, 0] + 128


def test_lanes_that_are_off_are_not_on(copied):
    assert copied.on[copied.is_memory & (copied.warp == 3)].tolist() == [0xF, 0xF]  # elements 96 to 99


# --- editing


def test_an_edited_trace_costs_what_its_addresses_cost(copied):
    """The same copy with all addresses a line apart."""
    apart = copied.address.copy()
    apart[:, :32] = GLOBAL_BASE + 128 * np.arange(apart.shape[0] * 32).reshape(-1, 32)
    scattered = sim.simulate(copied.edit(address=apart), gpu="toy")
    report = sim.simulate(copied, gpu="toy")
    sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
    assert (report[sectors], scattered[sectors]) == (13, 100)
    assert scattered.cycles > report.cycles


def test_an_edit_leaves_the_original_alone_and_drops_its_report(copied):
    edited = copied.edit(gpu="none")
    assert edited.report is None and edited.gpu == "none"
    assert copied.report is not None and copied.gpu == "toy"


def handmade(**changes) -> Trace:
    """Two warps of two blocks: a load and the end, at addresses of a NumPy expression anywhere in memory."""
    made = program("handmade", [access(Op.LD, Space.GLOBAL, 4, 6), control(Op.EXIT)])
    full = np.full(8, 0xFFFFFFFF, np.int64)
    addresses = np.full((4, 64), -1, np.int64)
    addresses[:, :32] = 0x1000 + 512 * np.arange(4)[:, None] + 16 * np.arange(32)
    columns = {
        "block": np.repeat([0, 1], 4),
        "warp": np.tile([0, 0, 1, 1], 2),
        "pc": np.tile([0, 1], 4),
        "active": full,
        "on": full,
        "address": addresses,
    }
    return Trace(**{"program": made, "grid": 2, "threads": 64, "shared_bytes": 0, **columns, **changes})


def test_a_trace_can_be_made_with_numpy():
    report = sim.simulate(handmade(), gpu="toy")
    assert report["smsp__inst_executed.sum"] == 8
    assert report["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 4 * 16
    assert report.launch.name == "handmade (replayed)"


def test_a_warp_of_a_trace_need_not_end_with_exit():
    """Blocks end with their last rows; a barrier does not wait for a warp that has ended."""
    made = program("cut", [control(Op.BAR), access(Op.LD, Space.GLOBAL, 4, 6), control(Op.EXIT)])
    full = np.full(4, 0xFFFFFFFF, np.int64)
    trace = handmade(
        program=made,
        grid=1,
        block=np.zeros(4, int),
        warp=np.array([0, 0, 1, 1]),
        pc=np.array([0, 1, 1, 2]),
        active=full,
        on=full,
        address=handmade().address[:2],
    )
    assert sim.simulate(trace, gpu="toy")["smsp__inst_executed.sum"] == 4


def test_misaligned_addresses_of_a_trace_are_an_error():
    with pytest.raises(MisalignedError, match="kernel handmade"):
        sim.simulate(handmade(address=handmade().address + 1), gpu="toy")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pc": np.arange(8)}, r"row 2: pc=2 lies outside the program's 2 instructions"),
        ({"pc": -np.ones(8, int)}, "row 0: pc=-1 lies outside"),
        ({"block": np.full(8, 2)}, "row 0: block=2 lies outside the grid's 2 blocks"),
        ({"block": np.full(8, -1)}, "row 0: block=-1 lies outside"),
        ({"warp": np.full(8, 2)}, "row 0: warp=2 lies outside the block's 2 warps"),
        ({"warp": np.tile([1, 1, 0, 0], 2)}, "sorted by block, then warp"),
        ({"active": np.zeros(8, int)}, "row 0: active is empty"),
        ({"active": np.ones(8, int)}, "row 0: on=0xffffffff has lanes that are not in active=0x1"),
        ({"on": np.full(8, 1 << 40)}, "on has values that do not fit uint32"),
        ({"active": -np.ones(8, int)}, "active has values that do not fit uint32"),
        ({"pc": np.zeros(8)}, "pc must be integers, 1-D, found float64"),
        ({"warp": np.zeros((8, 1), int)}, "warp must be integers, 1-D"),
        ({"block": np.zeros(3, int)}, "block has 3 rows, pc has 8"),
        ({"address": np.zeros((3, 64), int)}, r"4 memory instructions need address of shape \(4, 64\)"),
        ({"address": np.zeros((4, 32), int)}, r"found \(4, 32\)"),
        ({"grid": (0, 1, 1)}, "grid=.*at least 1"),
        ({"threads": "many"}, "threads must be one to three integers"),
    ],
)
def test_columns_that_do_not_fit_together_are_refused(changes, message):
    with pytest.raises(TraceError, match=f"trace of handmade: .*{message}"):
        handmade(**changes)


def test_every_warp_of_the_grid_needs_a_row():
    with pytest.raises(TraceError, match="block 2 warp 0 has no rows; each of the 2 warps of 3 blocks"):
        sim.simulate(handmade(grid=3), gpu="toy")


def test_a_program_that_cannot_run_makes_no_trace():
    bad = program("bad", [control(Op.BRA, y=9)])
    with pytest.raises(TraceError, match="its target lies outside the program"):
        handmade(program=bad)


# --- files


def assert_same(a: Trace, b: Trace) -> None:
    for field in dataclasses.fields(Trace):
        if field.name != "report":
            x, y = getattr(a, field.name), getattr(b, field.name)
            if isinstance(x, np.ndarray):
                assert x.dtype == y.dtype and (x == y).all()
            elif field.name == "program":
                assert (x.decoded.code == y.decoded.code).all() and x.listing() == y.listing()
                assert [str(s) for s in x.source] == [str(s) for s in y.source]
            else:
                assert x == y


@pytest.mark.parametrize("kernel", ["tiled", "exchanges", "spilled"])
def test_a_saved_trace_comes_back_whole(tmp_path, kernel):
    trace = record(KERNELS[kernel](), gpu="toy")
    trace.save(tmp_path / "kernel.npz")
    loaded = Trace.load(tmp_path / "kernel.npz")
    assert_same(trace, loaded)
    assert loaded.report is None
    assert counts(sim.simulate(loaded, gpu="toy")) == counts(trace.report)
    assert [p.name for p in tmp_path.iterdir()] == ["kernel.npz"]


def test_the_name_may_end_as_it_likes(tmp_path, copied):
    copied.save(tmp_path / "copy.trace")
    assert_same(copied, Trace.load(tmp_path / "copy.trace"))


def test_saving_replaces_a_file_whole_or_not_at_all(tmp_path, copied, monkeypatch):
    path = tmp_path / "copy.npz"
    copied.save(path)
    before = path.read_bytes()

    def fails(*args, **kwargs):
        args[0].write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", fails)
    with pytest.raises(OSError, match="disk full"):
        copied.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["copy.npz"]


def test_a_file_that_is_not_there_is_not_a_damaged_one(tmp_path):
    with pytest.raises(FileNotFoundError):
        Trace.load(tmp_path / "nothing.npz")
    with pytest.raises(IsADirectoryError):
        Trace.load(tmp_path)


@pytest.fixture(scope="module")
def saved(tmp_path_factory, copied) -> bytes:
    path = tmp_path_factory.mktemp("trace") / "copy.npz"
    copied.save(path)
    return path.read_bytes()


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: b"",
        lambda whole: b"garbage" * 100,
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole[:-10],
        lambda whole: whole[20:],
        lambda whole: b"PK\x03\x04" + bytes(200),
        lambda whole: b"\x93NUMPY" + whole,
    ],
    ids=["empty", "garbage", "half", "end missing", "start missing", "zip head", "npy head"],
)
def test_a_damaged_file_is_no_trace(tmp_path, saved, damage):
    path = tmp_path / "bad.npz"
    path.write_bytes(damage(saved))
    with pytest.raises(TraceError, match="bad.npz: not a whole trace file.*; record it again"):
        Trace.load(path)


def test_flipped_bits_never_pass_unnoticed(tmp_path, saved, copied):
    """Each of many single damaged bytes either raises `TraceError` or changes nothing that is read."""
    path = tmp_path / "bad.npz"
    noticed = 0
    for at in range(0, len(saved), max(1, len(saved) // 150)):
        damaged = bytearray(saved)
        damaged[at] ^= 0x55
        path.write_bytes(bytes(damaged))
        try:
            assert_same(copied, Trace.load(path))
        except TraceError:
            noticed += 1
    assert noticed > 75


def rewritten(path: Path, saved: bytes, change: Callable[[dict], None]) -> Path:
    """A trace file whose head `change` has changed."""
    path.write_bytes(saved)
    with np.load(path) as data:
        arrays = {name: data[name] for name in data.files}
    head = json.loads(arrays["head"].tobytes())
    change(head)
    arrays["head"] = np.frombuffer(json.dumps(head).encode(), np.uint8)
    with open(path, "wb") as out:
        np.savez(out, **arrays)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda head: head.update(format=99), "trace format 99; this version reads format 1"),
        (lambda head: head.pop("program"), "not a whole trace file"),
        (lambda head: head["program"]["instructions"][0].update(op=9999), "not a whole trace file"),
        (lambda head: head["program"]["instructions"][0].update(colour=1), "not a whole trace file"),
        (lambda head: head["program"]["instructions"][0].update(guard=77), "GUARD names no predicate"),
        (lambda head: head["program"]["instructions"][3].update(dst=["R", 254]), "D names a register beyond"),
        (lambda head: head["program"].update(registers=4000), "registers=4000 must lie in 0..255"),
        (lambda head: head.update(grid=["a"]), "grid must be one to three integers"),
        (lambda head: head.update(threads=[32, 1, 1]), "warp=1 lies outside"),
    ],
)
def test_a_head_that_does_not_fit_is_refused(tmp_path, saved, change, message):
    path = rewritten(tmp_path / "changed.npz", saved, change)
    with pytest.raises(TraceError, match=f"changed.npz: .*{message}"):
        Trace.load(path)


def test_a_column_that_is_missing_is_named(tmp_path, saved):
    path = tmp_path / "short.npz"
    path.write_bytes(saved)
    with zipfile.ZipFile(path) as whole:
        members = {name: whole.read(name) for name in whole.namelist() if name != "on.npy"}
    with zipfile.ZipFile(path, "w") as out:
        for name, data in members.items():
            out.writestr(name, data)
    with pytest.raises(TraceError, match="short.npz: .*on"):
        Trace.load(path)


def test_a_device_replays_between_other_kernels(copied):
    from sim.trace import replay

    device = Device("toy")
    first = device.launch(memory.copy(100), flush=True)
    assert replay(copied, device).cycles == pytest.approx(first.cycles, rel=0.05)
    launch = memory.copy(100)
    launch.check(device.launch(launch))
