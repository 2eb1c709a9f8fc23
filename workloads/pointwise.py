"""Pointwise kernels: one element a thread, so traffic decides; chains show what fusing and recomputing save."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from ml_dtypes import bfloat16

import sim
from sim.launch import Launch
from workloads.data import blocks_for, centred, require_choice, require_positive, workload

BLOCK = 256
Floats = npt.NDArray[np.float32]

CHAIN_STEPS = ("sin", "cos", "square", "add", "fused")


@sim.kernel
def saxpy_kernel(k: Any, n: Any, a: Any, x: Any, y: Any) -> None:
    """y = a x + y."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        y[i] = a * x[i] + y[i]


@sim.kernel
def add_kernel(k: Any, a: Any, b: Any, c: Any, n: Any) -> None:
    """c = a + b."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        c[i] = a[i] + b[i]


@sim.kernel
def relu_kernel(k: Any, x: Any, y: Any, n: Any) -> None:
    """y = max(x, 0), computed in float32 whatever the arrays hold."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        v = x[i].astype(np.float32)
        y[i] = k.select(v > 0.0, v, 0.0).astype(y.dtype)


@sim.kernel
def relu_branch_kernel(k: Any, x: Any, y: Any, n: Any) -> None:
    """y = max(x, 0) with a branch that half of the lanes take."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        with k.if_(x[i] > 0.0):
            y[i] = x[i]
        with k.else_():
            y[i] = 0.0


@sim.kernel
def gelu_kernel(k: Any, x: Any, y: Any, n: Any) -> None:
    """y = GELU(x) by the tanh formula."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        v = x[i]
        y[i] = 0.5 * v * (1.0 + k.tanh(0.79788456 * (v + 0.044715 * v * v * v)))


@sim.kernel
def sin_kernel(k: Any, x: Any, y: Any, n: Any) -> None:
    """y = sin(x)."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        y[i] = k.sin(x[i])


@sim.kernel
def cos_kernel(k: Any, x: Any, y: Any, n: Any) -> None:
    """y = cos(x)."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        y[i] = k.cos(x[i])


@sim.kernel
def square_kernel(k: Any, x: Any, y: Any, n: Any) -> None:
    """y = x squared."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        y[i] = x[i] * x[i]


@sim.kernel
def fused_kernel(k: Any, x: Any, y: Any, n: Any) -> None:
    """y = sin(x)^2 + cos(x)^2: five steps, one pass over memory."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        s, c = k.sin(x[i]), k.cos(x[i])
        y[i] = s * s + c * c


def sigmoid(k: Any, v: Any) -> Any:
    """1 / (1 + exp(-v)) in kernel code."""
    return 1.0 / (1.0 + k.exp(-v, fast=True))


@sim.kernel
def sigmoids_forward_store_kernel(k: Any, x: Any, s1: Any, s2: Any, o: Any, n: Any) -> None:
    """o = sigmoid three times, keeping both results on the way for the backward pass."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        a = sigmoid(k, x[i])
        s1[i] = a
        b = sigmoid(k, a)
        s2[i] = b
        o[i] = sigmoid(k, b)


@sim.kernel
def sigmoids_backward_load_kernel(k: Any, g: Any, s1: Any, s2: Any, o: Any, dx: Any, n: Any) -> None:
    """dx = g times the three slopes, from the stored results."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        a, b, c = s1[i], s2[i], o[i]
        dx[i] = g[i] * c * (1.0 - c) * b * (1.0 - b) * a * (1.0 - a)


@sim.kernel
def sigmoids_forward_kernel(k: Any, x: Any, o: Any, n: Any) -> None:
    """o = sigmoid three times, keeping nothing."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        o[i] = sigmoid(k, sigmoid(k, sigmoid(k, x[i])))


@sim.kernel
def sigmoids_backward_recompute_kernel(k: Any, g: Any, x: Any, dx: Any, n: Any) -> None:
    """dx = g times the three slopes, computing the results again from x."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        a = sigmoid(k, x[i])
        b = sigmoid(k, a)
        c = sigmoid(k, b)
        dx[i] = g[i] * c * (1.0 - c) * b * (1.0 - b) * a * (1.0 - a)


def _pointwise(
    kernel: Any,
    name: str,
    args: tuple[Any, ...],
    params: dict[str, Any],
    expected: Callable[[], dict[str, Any]],
    **more: Any,
) -> Launch:
    """A launch of one thread an element, `params["n"]` elements."""
    launch = kernel.launch(blocks_for(params["n"], BLOCK), BLOCK, args=args)
    return launch.with_(name=f"pointwise.{name}", params=params, expected=expected, **more)


@workload
def saxpy(n: int, a: float = 2.0) -> Launch:
    """y = a x + y on `n` floats."""
    require_positive(n=n)
    x, y = centred(n), centred(n, seed=8)
    args, params = (n, float(a), x, y), {"n": n, "a": a}
    return _pointwise(saxpy_kernel, "saxpy", args, params, lambda: {"y": np.float32(a) * x + y}, flops=2.0 * n)


@workload
def add(n: int) -> Launch:
    """c = a + b on `n` floats."""
    require_positive(n=n)
    a, b = centred(n), centred(n, seed=8)
    return _pointwise(add_kernel, "add", (a, b, sim.zeros(n), n), {"n": n}, lambda: {"c": a + b}, flops=float(n))


@workload
def relu(n: int, dtype: str = "bf16", branch: bool = False) -> Launch:
    """max(x, 0) on `n` elements of `dtype` ("bf16" or "f32"); with `branch`, by divergent stores (f32 only)."""
    require_positive(n=n)
    require_choice("dtype", dtype, ("bf16", "f32"))
    if branch and dtype != "f32":
        raise ValueError(f"branch=True with dtype={dtype!r}: the kernel that branches is for dtype='f32'")
    x: Any = centred(n)
    if dtype == "bf16":
        x = x.astype(bfloat16)
    kernel = relu_branch_kernel if branch else relu_kernel
    params = {"n": n, "dtype": dtype, "branch": branch}
    zero = x.dtype.type(0)
    return _pointwise(kernel, "relu", (x, sim.zeros(n, x.dtype), n), params, lambda: {"y": np.maximum(x, zero)})


@workload
def gelu(n: int) -> Launch:
    """GELU (tanh form) of `n` floats."""
    require_positive(n=n)
    x = centred(n)

    def right() -> dict[str, Floats]:
        v = x.astype(np.float64)
        return {"y": (0.5 * v * (1 + np.tanh(0.79788456 * (v + 0.044715 * v**3)))).astype(np.float32)}

    return _pointwise(gelu_kernel, "gelu", (x, sim.zeros(n), n), {"n": n}, right, atol=1e-5)


@workload
def chain(n: int, step: str = "fused") -> Launch:
    """One kernel of the chain y = sin(x)^2 + cos(x)^2 on `n` floats.

    `step`: `"sin"`, `"cos"`, `"square"` and `"add"` are the kernels of the unfused
    chain, each a pass over memory; `"fused"` does all in one.
    """
    require_positive(n=n)
    require_choice("step", step, CHAIN_STEPS)
    x = centred(n)
    params = {"n": n, "step": step}
    if step == "add":
        return add(n).with_(name="pointwise.chain", params=params)
    kernel, right = {
        "sin": (sin_kernel, lambda: {"y": np.sin(x)}),
        "cos": (cos_kernel, lambda: {"y": np.cos(x)}),
        "square": (square_kernel, lambda: {"y": x * x}),
        "fused": (fused_kernel, lambda: {"y": np.ones(n, np.float32)}),
    }[step]
    return _pointwise(kernel, "chain", (x, sim.zeros(n), n), params, right, atol=2e-6)


def unfused_chain(n: int) -> list[Launch]:
    """The five launches that do what `chain(n, "fused")` does in one."""
    return [chain(n, step) for step in ("sin", "cos", "square", "square", "add")]


def _sigmoids(x: Floats) -> tuple[Floats, Floats, Floats]:
    def once(v: Floats) -> Floats:
        return (1.0 / (1.0 + np.exp(-v.astype(np.float64)))).astype(np.float32)

    a = once(x)
    b = once(a)
    return a, b, once(b)


def _slopes(g: Floats, x: Floats) -> Floats:
    a, b, c = _sigmoids(x)
    return g * c * (1 - c) * b * (1 - b) * a * (1 - a)


@workload
def sigmoids(n: int, direction: str = "forward", stored: bool = True) -> Launch:
    """Three sigmoids in a row on `n` floats, `direction` "forward" or "backward".

    `stored`: the forward pass stores what the backward pass needs, which loads it;
    otherwise the backward pass computes it again from the input.
    """
    require_positive(n=n)
    require_choice("direction", direction, ("forward", "backward"))
    x = centred(n)
    params = {"n": n, "direction": direction, "stored": stored}
    out = [sim.zeros(n) for _ in range(3)]
    if direction == "forward" and stored:

        def results() -> dict[str, Floats]:
            return dict(zip(("s1", "s2", "o"), _sigmoids(x), strict=True))

        return _pointwise(sigmoids_forward_store_kernel, "sigmoids", (x, *out, n), params, results)
    if direction == "forward":
        return _pointwise(sigmoids_forward_kernel, "sigmoids", (x, out[0], n), params, lambda: {"o": _sigmoids(x)[2]})
    g = centred(n, seed=8)
    kernel = sigmoids_backward_load_kernel if stored else sigmoids_backward_recompute_kernel
    args: tuple[Any, ...] = (g, *(_sigmoids(x) if stored else (x,)), out[0], n)
    return _pointwise(kernel, "sigmoids", args, params, lambda: {"dx": _slopes(g, x)})
