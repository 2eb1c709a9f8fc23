"""Attention in NumPy: inputs, right answers and operation counts of the attention workloads."""

from __future__ import annotations

import math

import numpy as np
from ml_dtypes import bfloat16

from workloads.data import standard_normal


def inputs(b: int, h: int, n: int, d: int, count: int = 3) -> list[np.ndarray]:
    """Q, K and V (and what else is needed), standard normal in bfloat16."""
    return [standard_normal(b * h * n * d, seed=seed).astype(bfloat16) for seed in range(7, 7 + count)]


def attention(q: np.ndarray, keys: np.ndarray, values: np.ndarray, causal: bool) -> tuple[np.ndarray, np.ndarray]:
    """Attention of [heads, n, d] in float32: the output, and the logarithms of the rows' sums of exponentials."""
    weights, logs = attention_weights(q, keys, causal)
    return weights @ values.astype(np.float32), logs


def attention_weights(q: np.ndarray, keys: np.ndarray, causal: bool) -> tuple[np.ndarray, np.ndarray]:
    """Softmax of the scores [heads, n, n] in float32, and the logarithms of the rows' sums of exponentials."""
    n, d = q.shape[1:]
    scores = q.astype(np.float32) @ keys.astype(np.float32).transpose(0, 2, 1) / np.float32(math.sqrt(d))
    if causal:
        scores[:, np.triu(np.ones((n, n), bool), 1)] = -np.inf
    highest = scores.max(-1, keepdims=True)
    exponentials = np.exp(scores - highest)
    sums = exponentials.sum(-1, keepdims=True)
    return exponentials / sums, (highest + np.log(sums))[..., 0]


def attention_flops(b: int, h: int, n: int, d: int, causal: bool) -> float:
    """Operations of the two products; causal, of the half that is needed."""
    return 4.0 * b * h * n * n * d * (0.5 if causal else 1.0)


def gradients(
    q: np.ndarray, keys: np.ndarray, values: np.ndarray, do: np.ndarray, causal: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients of Q, K and V [heads, n, d] in float32 for the output's gradient `do`."""
    q, keys, values, do = (x.astype(np.float32) for x in (q, keys, values, do))
    weights, _ = attention_weights(q, keys, causal)
    of_weights = do @ values.transpose(0, 2, 1)
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdims=True))
    of_scores /= np.float32(math.sqrt(q.shape[-1]))
    return of_scores @ keys, of_scores.transpose(0, 2, 1) @ q, weights.transpose(0, 2, 1) @ do
