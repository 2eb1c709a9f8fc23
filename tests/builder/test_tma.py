"""Copies by the tensor memory accelerator, and mbarriers: what they move, and the instructions that they become."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

import sim
from sim.isa import CONSTANT_WINDOW, TMA_PREFETCH, TMA_STORE, MbarrierOp, Op
from sim.program import UReg
from tests.builder.run import mnemonics


@sim.kernel
def moved(k, source, target, *, first, shape, to):
    """A box of `source` to `target`, through shared memory."""
    tile = k.shared(shape, source.dtype, align=1024)
    bars = k.mbarriers(1)
    with k.if_(k.thread_idx.x == 0):
        bars[0].init(1)
        k.fence_async()
    k.syncthreads()
    with k.if_(k.thread_idx.x < 32):
        with k.if_(k.elect()):
            bars[0].arrive_expect(source.box_bytes)
            k.tma_load(tile, 0, source, first, bars[0])
        bars[0].wait(0)
        with k.if_(k.elect()):
            k.tma_store(target, to, tile)
            k.tma_commit()
            k.tma_wait()


CASES = [
    # shape, box, first, to
    ((96,), (32,), (48,), (0,)),
    ((96,), (64,), (48,), (40,)),
    ((20, 64), (8, 32), (7, 16), (3, 0)),
    ((20, 64), (16, 32), (-5, 48), (12, 8)),
    ((5, 6, 32), (2, 3, 16), (4, -1, 8), (1, 2, 20)),
    ((3, 4, 5, 16), (2, 2, 4, 8), (2, 1, -2, 12), (0, 3, 3, -4)),
    ((2, 3, 4, 3, 16), (2, 2, 3, 2, 8), (-1, 2, 1, 2, 4), (1, 0, 2, -1, 8)),
]


SWIZZLED = [(*case, 64) for case in CASES if 4 * case[1][-1] <= 64]


@pytest.mark.parametrize(("shape", "box", "first", "to", "swizzle"), [*((*case, 0) for case in CASES), *SWIZZLED])
def test_boxes_of_one_to_five_dimensions_with_edges(shape, box, first, to, swizzle):
    x = np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
    target = sim.zeros(shape)
    maps = (sim.tensor_map(x, box, swizzle=swizzle), sim.tensor_map(target, box, swizzle=swizzle))
    made = moved.launch(1, 64, maps, {"first": first, "shape": box, "to": to})
    wide = np.pad(x, 16)
    part = wide[tuple(slice(16 + f, 16 + f + n) for f, n in zip(first, box, strict=True))]
    want = np.pad(np.zeros(shape, np.float32), 16)
    want[tuple(slice(16 + f, 16 + f + n) for f, n in zip(to, box, strict=True))] = part
    inside = want[(slice(16, -16),) * len(shape)]
    np.testing.assert_array_equal(sim.simulate(made).outputs["target"], inside)


def constants_before(code, instruction):
    """Uniform register -> the constant that it holds."""
    before = code[: code.index(instruction)]
    return {i.dst.n: i.a.bits for i in before if i.text == "UMOV" and hasattr(i.a, "bits")}


def test_a_box_is_one_instruction_with_its_operands_in_uniform_registers():
    x = np.zeros((20, 64), np.float32)
    maps = (sim.tensor_map(x, (8, 32)), sim.tensor_map(x, (8, 32)))
    program = moved.build_for(maps, {"first": (7, 16), "shape": (8, 32), "to": (3, 0)})
    code = program.instructions
    load, store = (i for i in code if i.op is Op.TMA)
    assert (load.text, load.x, load.na) == ("UTMALDG.2D", 2, 4)
    assert (store.text, store.x, store.na) == ("UTMASTG.2D", 2 | TMA_STORE, 3)
    assert isinstance(load.a, UReg) and isinstance(load.b, UReg) and load.nb == 2
    words = constants_before(code, load)
    assert words[load.a.n + 2] == 16 and words[load.a.n + 3] == 7  # coordinates, innermost first
    (first, second) = (p.offset + program.param_base for p in program.params)
    assert first % 64 == second % 64 == 0
    assert words[load.b.n] | words[load.b.n + 1] << 32 == CONSTANT_WINDOW + first
    words = constants_before(code, store)
    assert words[store.b.n] | words[store.b.n + 1] << 32 == CONSTANT_WINDOW + second
    assert [p.kind for p in program.params] == ["tensor_map", "tensor_map"]


def test_mbarriers_are_the_compilers_instructions():
    x = np.zeros((20, 64), np.float32)
    maps = (sim.tensor_map(x, (8, 32)), sim.tensor_map(x, (8, 32)))
    program = moved.build_for(maps, {"first": (7, 16), "shape": (8, 32), "to": (3, 0)})
    code = program.instructions
    start, arrive, wait = (i for i in code if i.op is Op.MBARRIER)
    assert [i.text for i in (start, arrive, wait)] == [
        "SYNCS.EXCH.64", "SYNCS.ARRIVE.TRANS64", "SYNCS.PHASECHK.TRANS64.TRYWAIT",
    ]  # fmt: skip
    assert [i.x for i in (start, arrive, wait)] == [MbarrierOp.INIT, MbarrierOp.ARRIVE_EXPECT, MbarrierOp.TRY_WAIT]
    again = code[code.index(wait) + 1]
    assert again.op is Op.BRA and again.y == code.index(wait) and again.guard == wait.pd | 16
    # one arrival a phase: its negated number at bits 1 and 43
    words = constants_before(code, start)
    assert (words[start.b.n], words[start.b.n + 1]) == ((1 << 20) - 1 << 1, (1 << 20) - 1 << 11)
    assert "FENCE.VIEW.ASYNC.S" in mnemonics(program) and mnemonics(program).count("ELECT") == 2


@sim.kernel
def runs(k, source, target, n):
    """Rounds of 1 KiB through two places in shared memory, loaded by one warp and stored by another."""
    tile = k.shared((2, 256), np.uint32, align=128)
    full, empty = k.mbarriers(2), k.mbarriers(2)
    t = k.thread_idx.x
    with k.if_(t == 0):
        for i in range(2):
            full[i].init(1)
            empty[i].init(32)
        k.bulk_prefetch(source, 0, 512)
        k.fence_async()
    k.syncthreads()
    with k.if_(t == 0):
        for i in k.range_(n, unroll=1):
            with k.if_(i >= 2):
                empty[i % 2].wait(i // 2 - 1)
            full[i % 2].expect(1024)
            full[i % 2].arrive()
            k.bulk_load(tile, i % 2, source, i * 256, 1024, full[i % 2])
    with k.if_(t >= 32):
        for i in k.range_(n, unroll=1):
            full[i % 2].wait(i // 2)
            for j in range(8):
                at = j * 32 + t - 32
                tile[i % 2, at] = tile[i % 2, at] + i
            k.fence_async()
            k.barrier(1, 32)
            with k.if_(t == 32):
                k.bulk_store(target, i * 256, tile, i % 2, 1024)
                k.tma_commit()
                k.tma_wait()
            k.syncwarp()
            empty[i % 2].arrive()


def test_runs_of_bytes_between_two_warps():
    n = 5
    x = np.arange(n * 256, dtype=np.uint32)
    made = runs.launch(1, 64, (x, sim.zeros(n * 256, np.uint32), n))
    want = (x.reshape(n, 256) + np.arange(n, dtype=np.uint32)[:, None]).ravel()
    np.testing.assert_array_equal(sim.simulate(made).outputs["target"], want)
    copies = [i for i in made.program.instructions if i.op is Op.TMA]
    assert [(i.text, i.x) for i in copies] == [
        ("UBLKPF.L2", TMA_PREFETCH), ("UBLKCP.S.G", 0), ("UBLKCP.G.S", TMA_STORE),
    ]  # fmt: skip
    barrier = next(i for i in made.program.instructions if i.text.startswith("BAR") and i.nb)
    assert barrier.y == 1 and barrier.b.bits == 32


@sim.kernel
def phases(k, out):
    bars = k.mbarriers(3)
    t = k.thread_idx.x
    with k.if_(t == 0):
        for j in range(3):
            bars[j].init(64)
        k.fence_async()
    k.syncthreads()
    before = bars[1].test(0)
    k.syncthreads()
    bars[1].arrive()
    with k.if_(t < 32):
        bars[2].arrive(2)
    k.syncthreads()
    for j in k.range_(3, unroll=1):
        out[j, t] = bars[j].test(0).astype(np.int32)
    out[3, t] = before.astype(np.int32)
    k.syncthreads()
    with k.if_(t == 0):
        bars[0].invalidate()


def test_a_phase_is_complete_when_all_have_come():
    out = sim.simulate(phases.launch(1, 64, (sim.zeros((4, 64), np.int32),))).outputs["out"]
    np.testing.assert_array_equal(out, np.repeat([[0], [1], [1], [0]], 64, axis=1))


def test_a_kernel_is_built_for_a_maps_type_and_box():
    x, wide = np.zeros((20, 64), np.float32), np.zeros((20, 64), bfloat16)
    constants = {"first": (0, 0), "shape": (8, 32), "to": (0, 0)}

    def built(array, box=(8, 32)):
        made = sim.tensor_map(array, box)
        return moved.build_for((made, made), constants)

    program = built(x)
    assert built(np.ones((4, 32), np.float32)) is program
    assert built(wide) is not program and built(x, (4, 32)) is not program
