"""Cubins of Triton's compiler, which needs no GPU: they load, compute what NumPy does, and know their lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sim
from tests.cuda.extras import needs_triton

try:
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
except ImportError:
    pytestmark = needs_triton
else:

    @triton.jit
    def softmax(x, y, n, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        i = tl.arange(0, BLOCK)
        v = tl.load(x + row * n + i, i < n, -float("inf"))
        v = tl.exp(v - tl.max(v, 0))
        tl.store(y + row * n + i, v / tl.sum(v, 0), i < n)

    @triton.jit
    def multiply(a, b, c, size, BLOCK: tl.constexpr):
        row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        k = tl.arange(0, BLOCK)
        total = tl.zeros((BLOCK, BLOCK), tl.float32)
        for at in range(0, size, BLOCK):
            left = tl.load(a + row[:, None] * size + at + k[None, :])
            right = tl.load(b + (at + k[:, None]) * size + column[None, :])
            total = tl.dot(left, right, total)
        tl.store(c + row[:, None] * size + column[None, :], total)


RNG = np.random.default_rng(7)
GPUS = [(75, "t4"), (80, "a100_sxm_40gb"), (90, "h200")]


def simulate(kernel: Any, cc: int, gpu: str, grid: Any, types: dict[str, str], block: int, *args: Any) -> Any:
    source = ASTSource(kernel, signature={**types, "BLOCK": "constexpr"}, constexprs={"BLOCK": block})
    compiled = triton.compile(source, target=GPUTarget("cuda", cc, 32), options={"num_warps": 4})
    (program,) = sim.load_cubin(compiled.asm["cubin"]).values()
    scratch = (np.uint64(0),) * (len(program.params) - len(args))  # two pointers that these kernels do not use
    shared_bytes = compiled.metadata.shared
    return sim.simulate(sim.Launch(program, grid, 128, (*args, *scratch), shared_bytes), gpu=gpu)


@pytest.mark.parametrize(("cc", "gpu"), GPUS)
def test_rows(cc: int, gpu: str) -> None:
    x = RNG.standard_normal((6, 200), dtype=np.float32)
    types = {"x": "*fp32", "y": "*fp32", "n": "i32"}
    report = simulate(softmax, cc, gpu, 6, types, 256, x, sim.zeros((6, 200)), np.int32(200))
    right = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(report.outputs["arg1"], right / right.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)
    assert "v = tl.exp(v - tl.max(v, 0))" in set(report.lines()["source"])


@pytest.mark.parametrize(("cc", "gpu"), GPUS)
def test_products_of_tiles(cc: int, gpu: str) -> None:
    a, b = (RNG.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    types = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "size": "i32"}
    report = simulate(multiply, cc, gpu, (2, 2), types, 32, a, b, sim.zeros((64, 64)), np.int32(64))
    right = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(report.outputs["arg2"], right, rtol=1e-3, atol=1e-3)
