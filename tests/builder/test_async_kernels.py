"""Whole kernels of asynchronous units: pipelined products, warps that load and warps that compute, attention."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

import sim
from sim.isa import Op
from tests.builder.run import count

BK = 64  # numbers of k a stage: 128 bytes


def store_tile(k, sums, c, row, column):
    """A warpgroup's sums to rows `row` and on, columns `column` and on, two at a time."""
    for i in range(0, len(sums), 2):
        r, q = sums.place(i)
        c.store((row + r, column + q), (sums[i], sums[i + 1]))


def stage_products(k, sums, a, b, first):
    k.wgmma_fence()
    for j in range(4):
        k.wgmma(sums, a.step(j), b.step(j), add=~first if j == 0 else True)
    k.wgmma_commit()


@sim.kernel
def pipelined(k, ma, mb, c, blocks_k, *, bm, bn, stages):
    """One tile a block; thread 0 loads `stages - 1` ahead; each warpgroup has 64 rows."""
    full = k.mbarriers(stages)
    a, b = (k.shared((stages, rows, BK), ma.dtype, align=1024) for rows in (bm, bn))
    t = k.thread_idx.x
    row, column, group = k.block_idx.y * bm, k.block_idx.x * bn, t // 128
    with k.if_(t == 0):
        for bar in full:
            bar.init(1)
        k.fence_async()
    k.syncthreads()

    def load(i):
        slot = i % stages
        full[slot].arrive_expect(ma.box_bytes + mb.box_bytes)
        k.tma_load(a, slot, ma, (row, i * BK), full[slot])
        k.tma_load(b, slot, mb, (column, i * BK), full[slot])

    with k.if_(t == 0):
        for i in k.range_(k.min(stages - 1, blocks_k), unroll=1):
            load(i)
    sums = k.wgmma_sums(bn)
    for i in k.range_(blocks_k, unroll=1):
        slot = i % stages
        left, right = k.smem_matrix(a, (slot, group * 64)), k.smem_matrix(b, slot)
        full[slot].wait(i // stages)
        stage_products(k, sums, left, right, i == 0)
        k.wgmma_wait(1)
        k.syncthreads()
        with k.if_((t == 0) & (i + stages - 1 < blocks_k)):
            load(i + stages - 1)
    k.wgmma_wait()
    store_tile(k, sums, c, row + group * 64, column)


@sim.kernel(registers=168)
def specialised(k, ma, mb, c, tiles, tiles_n, blocks_k, *, bn, stages):
    """Persistent ping-pong: warpgroup 0 loads, 1 and 2 compute tiles in turn and pass the tensor cores on."""
    full, empty = k.mbarriers(stages), k.mbarriers(stages)
    a, b = (k.shared((stages, rows, BK), ma.dtype, align=1024) for rows in (64, bn))
    t = k.thread_idx.x
    group = t // 128
    with k.if_(t == 0):
        for i in range(stages):
            full[i].init(1)
            empty[i].init(128)
        k.fence_async()
    k.syncthreads()
    with k.if_(group == 0):
        k.set_max_registers(40)
        with k.if_(t == 0):
            step = k.var(0)
            for tile in k.range_(k.block_idx.x, tiles, k.grid_dim.x):
                row, column = tile // tiles_n * 64, tile % tiles_n * bn
                for i in k.range_(blocks_k, unroll=1):
                    slot = step % stages
                    with k.if_(step >= stages):
                        empty[slot].wait(step // stages - 1)
                    full[slot].arrive_expect(ma.box_bytes + mb.box_bytes)
                    k.tma_load(a, slot, ma, (row, i * BK), full[slot])
                    k.tma_load(b, slot, mb, (column, i * BK), full[slot])
                    step += 1
    with k.else_():
        k.set_max_registers(232)
        me, turn = group - 1, k.var(0)
        for tile in k.range_(k.block_idx.x, tiles, k.grid_dim.x):
            with k.if_((turn & 1) == me):
                sums = k.wgmma_sums(bn)
                with k.if_(turn > 0):
                    k.barrier(2 + me, 256)
                for i in k.range_(blocks_k, unroll=1):
                    step = turn * blocks_k + i
                    slot = step % stages
                    left, right = k.smem_matrix(a, slot), k.smem_matrix(b, slot)
                    full[slot].wait(step // stages)
                    stage_products(k, sums, left, right, i == 0)
                    with k.if_(i > 0):
                        k.wgmma_wait(1)
                        empty[(step - 1) % stages].arrive()
                with k.if_(tile + k.grid_dim.x < tiles):
                    k.barrier_arrive(2 + (me ^ 1), 256)
                k.wgmma_wait()
                empty[(turn * blocks_k + blocks_k - 1) % stages].arrive()
                store_tile(k, sums, c, tile // tiles_n * 64, tile % tiles_n * bn)
            turn += 1


def matrices(m, n, depth):
    rng = np.random.default_rng(11)
    a, b = (rng.integers(-3, 4, (rows, depth)).astype(bfloat16) for rows in (m, n))
    return a, b, a.astype(np.float32) @ b.astype(np.float32).T


@pytest.mark.parametrize("stages", [2, 3])
def test_a_pipelined_product(stages):
    m, n, depth, bm, bn = 256, 192, 448, 128, 96
    a, b, want = matrices(m, n, depth)
    made = pipelined.launch(
        (n // bn, m // bm), 256, (sim.tensor_map(a, (bm, BK)), sim.tensor_map(b, (bn, BK)), sim.zeros((m, n)), 7),
        {"bm": bm, "bn": bn, "stages": stages}, expected=lambda: {"c": want}, rtol=0, atol=0,
    )  # fmt: skip
    made.check(sim.simulate(made))
    program = made.program
    assert count(program, "HGMMA") == 4 and count(program, "UTMALDG") == 4
    assert count(program, "STG.E.64") == bn // 4
    assert program.registers < bn // 2 + 24 and program.local_bytes == 0


def test_a_persistent_ping_pong_product():
    m, n, depth, bn = 320, 256, 320, 128
    a, b, want = matrices(m, n, depth)
    args = (sim.tensor_map(a, (64, BK)), sim.tensor_map(b, (bn, BK)), sim.zeros((m, n)), 10, 2, 5)
    made = specialised.launch(3, 384, args, {"bn": bn, "stages": 3}, expected=lambda: {"c": want}, rtol=0, atol=0)
    made.check(sim.simulate(made))
    program = made.program
    code = program.instructions
    assert program.registers_at_launch == program.registers_per_thread == 168
    less, more = (i for i in code if i.op is Op.SETMAXREG)
    assert (less.text, less.x, less.pd) == ("USETMAXREG.DEALLOC.CTAPOOL", 40, 7)
    assert (more.text, more.x) == ("USETMAXREG.TRY_ALLOC.CTAPOOL", 232)
    again = code[code.index(more) + 1]
    assert again.op is Op.BRA and again.y == code.index(more) and again.guard == more.pd | 16
    wait, arrive = (i for i in code if i.op is Op.BAR and i.na)
    assert (wait.text, wait.x, wait.b.bits) == ("BAR.SYNC.DEFER_BLOCKING", 0, 256)
    assert (arrive.text, arrive.x, arrive.b.bits) == ("BAR.ARV", 1, 256)


def test_what_runs_with_few_registers_has_the_lowest_numbers():
    """Between giving registers back and the loading warps' end no register beyond them is named."""
    program = specialised.build_for(
        (*(sim.tensor_map(np.zeros((64, 64), bfloat16), (64, BK)) for _ in range(2)), np.zeros((64, 64), np.float32))
        + (1, 1, 1), {"bn": 64, "stages": 3},
    )  # fmt: skip
    code = program.instructions
    first, last = (k for k, i in enumerate(code) if i.op is Op.SETMAXREG)
    named = [o.n for i in code[first:last] for o in (i.a, i.b, i.c, i.dst) if type(o).__name__ == "Reg" and o.n != 255]
    assert 0 < max(named) < 40


@sim.kernel(registers=32)
def narrow(k, x, y):
    t = k.thread_idx.x
    kept = [x[t + 32 * j] for j in range(40)]
    k.syncthreads()
    for j, value in enumerate(kept):
        y[t + 32 * j] = value + j


def test_a_kernel_that_does_with_the_registers_of_its_launch():
    x = np.arange(32 * 40, dtype=np.float32)
    made = narrow.launch(1, 32, (x, sim.zeros(32 * 40)))
    assert made.program.registers <= made.program.registers_per_thread == 32 and made.program.local_bytes > 0
    np.testing.assert_array_equal(sim.simulate(made).outputs["y"], x + np.repeat(np.arange(40), 32))
    wide = narrow.launch(1, 32, (x, sim.zeros(32 * 40)), registers=64).program
    assert wide.registers_per_thread == 64 and wide.local_bytes == 0


DEPTH = 64  #: numbers of a query


@sim.kernel
def attention(k, mq, mk, mv, o, blocks, scale, *, keys):
    """FlashAttention of 64 queries a block: scores in registers become the left factor of the second product."""
    bars = k.mbarriers(2)
    q, kt, v = (k.shared((rows, DEPTH), mq.dtype, align=1024) for rows in (64, keys, keys))
    t = k.thread_idx.x
    row = k.block_idx.x * 64
    with k.if_(t == 0):
        bars[0].init(1)
        bars[1].init(1)
        k.fence_async()
    k.syncthreads()
    with k.if_(t == 0):
        bars[0].arrive_expect(mq.box_bytes)
        k.tma_load(q, 0, mq, (row, 0), bars[0])
    out, scores = k.wgmma_sums(DEPTH), k.wgmma_sums(keys)
    out.zero()
    top, total = k.vars(2, -1e30), k.vars(2, 0.0)
    bars[0].wait(0)
    for j in k.range_(blocks, unroll=1):
        with k.if_(t == 0):
            bars[1].arrive_expect(mk.box_bytes + mv.box_bytes)
            k.tma_load(kt, 0, mk, (j * keys, 0), bars[1])
            k.tma_load(v, 0, mv, (j * keys, 0), bars[1])
        a, b = k.smem_matrix(q), k.smem_matrix(kt)
        bars[1].wait(j)
        k.wgmma_fence()
        for i in range(DEPTH // 16):
            k.wgmma(scores, a.step(i), b.step(i), add=i > 0)
        k.wgmma_commit()
        k.wgmma_wait()
        for h in range(2):  # this thread's two rows
            best = top[h].get()
            for i in range(len(scores)):
                if i >> 1 & 1 == h:
                    best = k.max(best, scores[i])
            for lane in (1, 2):
                best = k.max(best, k.shfl_xor(best, lane))
            factor = k.exp2((top[h] - best) * scale, fast=True)
            top[h].set(best)
            total[h] *= factor
            for i in range(len(out)):
                if i >> 1 & 1 == h:
                    out[i] = out[i] * factor
        p = [k.exp2(x * scale - top[i >> 1 & 1] * scale, fast=True) for i, x in enumerate(scores)]
        for i, x in enumerate(p):
            total[i >> 1 & 1] += x
        halves = [k.pack(p[i], p[i + 1], mv.dtype) for i in range(0, len(p), 2)]
        k.wgmma_fence()
        for i in range(keys // 16):
            k.wgmma(out, halves[4 * i : 4 * i + 4], k.smem_matrix(v, major="mn").step(i))
        k.wgmma_commit()
        k.wgmma_wait()
        k.syncthreads()
    for h in range(2):
        for lane in (1, 2):
            total[h] += k.shfl_xor(total[h], lane)
    for i in range(0, len(out), 2):
        r, q_ = out.place(i)
        o.store((row + r, q_), (out[i] / total[i >> 1 & 1], out[i + 1] / total[i >> 1 & 1]))


def test_attention_with_probabilities_in_registers():
    rng = np.random.default_rng(2)
    n, keys = 128, 64
    q, kt, v = (rng.standard_normal((n, DEPTH)).astype(np.float16) for _ in range(3))
    scores = q.astype(np.float64) @ kt.astype(np.float64).T / 8
    weights = np.exp(scores - scores.max(1, keepdims=True))
    want = (weights / weights.sum(1, keepdims=True) @ v.astype(np.float64)).astype(np.float32)
    maps = (sim.tensor_map(q, (64, DEPTH)), sim.tensor_map(kt, (keys, DEPTH)), sim.tensor_map(v, (keys, DEPTH)))
    made = attention.launch(
        n // 64, 128, (*maps, sim.zeros((n, DEPTH)), n // keys, float(np.log2(np.e) / 8)), {"keys": keys},
        expected=lambda: {"o": want}, rtol=2e-3, atol=1e-3,
    )  # fmt: skip
    made.check(sim.simulate(made))
    code = made.program.instructions
    second = [k for k, i in enumerate(code) if i.op is Op.HGMMA][4:]
    assert len(second) == keys // 16 and len({code[k].dst for k in second}) == 1
    fragments = [code[k].a.n for k in second]
    assert len(set(fragments)) == len(second)  # none is written again while products may read it
    fence = max(k for k in range(second[0]) if code[k].op is Op.WARPGROUP_ARRIVE)
    assert not any(i.text.startswith("F2FP") for i in code[fence : second[-1]])
    loop = code[min(k for k, i in enumerate(code) if i.op is Op.HGMMA) : second[-1]]
    assert sum(i.text == "MOV" for i in loop) <= 4  # the running maxima; sums are changed in place
    assert made.program.registers < DEPTH // 2 + keys // 2 + 30
