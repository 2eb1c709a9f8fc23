"""Matrix products of Hopper as compiled: three schedules of one kernel (nvcc), and Triton's with a known tile.

`gemm_schedules.sass.gz` is the validation suite's `gemm_schedules.cu`, through NVRTC; `gemm_tile_*.sass.gz` its
`gemm_tile.py`, through Triton 3.6.0 for cc 9.0, whose code executes as many instructions as the card counted; that of
3.3 to 3.5 and of 3.7 to 3.9 does not. Launches and inputs are those of their `main`s.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from ml_dtypes import bfloat16

import sim
from sim.launch import Launch
from validation.suite import SUITE

HERE = Path(__file__).parent
MODES = {"gemm_basic": "ILi0E", "gemm_cooperative": "ILi1E", "gemm_pingpong": "ILi2E"}
STAGES, BN, BK = 4, 256, 64
SMS = 132
TILES = {"128x256x64": (128, 256, 8, 147456), "64x64x64": (64, 64, 4, 49152)}  #: rows, columns, warps, shared bytes


@dataclass(frozen=True)
class Case:
    """A launch, and what the card counted."""

    name: str
    params: tuple[tuple[str, str], ...]
    cycles: int
    instructions: int

    @property
    def sizes(self) -> dict[str, str]:
        return dict(self.params)

    @property
    def label(self) -> str:
        return f"{self.name}({','.join(f'{k}={v}' for k, v in self.params)})"

    def launch(self) -> Launch:
        """The launch; every matrix is made anew."""
        return schedule(self) if self.name in MODES else tile(self)


def measured(file: str) -> list[Case]:
    """The launches of one of the suite's tables."""
    with open(SUITE / file, newline="") as lines:
        return [
            Case(
                row["case"],
                tuple(tuple(part.split("=")) for part in row["params"].split(",")),  # type: ignore[misc]
                int(row["sm__cycles_elapsed.max"]),
                int(row["smsp__inst_executed.sum"]),
            )
            for row in csv.DictReader(lines)
        ]


@cache
def kernels(name: str) -> sim.sass.Kernels:
    return sim.load_sass(HERE / f"{name}.sass.gz")


@cache
def filled(count: int, seed: int) -> npt.NDArray[np.generic]:
    """The suite's own numbers between -0.5 and 0.5."""
    x = np.arange(count, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(seed)
    x ^= x >> np.uint32(15)
    x *= np.uint32(2246822519)
    x ^= x >> np.uint32(13)
    return ((x & np.uint32(0xFFFF)).astype(np.float32) / np.float32(65536) - np.float32(0.5)).astype(bfloat16)


def schedule(case: Case) -> Launch:
    """`gemm_schedules.cu`: C[m, n] = A[m, k] B[n, k]^T."""
    m, n, k = (int(case.sizes[name]) for name in "mnk")
    rows = 64 if case.name == "gemm_pingpong" else 128
    a, b = filled(m * k, 1).reshape(m, k), filled(n * k, 77).reshape(n, k)
    listed = kernels("gemm_schedules")
    (program,) = (listed[name] for name in listed if MODES[case.name] in name)
    tiles = m // rows * (n // BN)
    basic = case.name == "gemm_basic"
    return Launch(
        program,
        tiles if basic else min(tiles, SMS),
        256 if basic else 384,
        (
            sim.tensor_map(a, (rows, BK)), sim.tensor_map(b, (BN, BK)), sim.zeros((m, n), bfloat16),
            np.int32(m), np.int32(n), np.int32(k), np.int32(0),
        ),
        shared_bytes=STAGES * (rows + BN) * BK * 2 + 1024,
        name=case.label,
        expected=lambda: {"arg2": a.astype(np.float32) @ b.astype(np.float32).T},
        rtol=1e-2,
        atol=1e-2,
    )  # fmt: skip


def tile(case: Case) -> Launch:
    """`gemm_tile.py`: C[n, n] = A[n, n] B[n, n]."""
    n = int(case.sizes["n"])
    bm, bn, warps, shared = TILES[case.sizes["tile"]]
    a, b = filled(n * n, 1).reshape(n, n), filled(n * n, 77).reshape(n, n)
    (program,) = kernels(f"gemm_tile_{bm}x{bn}").values()
    scratch = (np.uint64(0), np.uint64(0))
    return Launch(
        program,
        -(-n // bm) * -(-n // bn),
        32 * warps,
        (a, b, sim.zeros((n, n), bfloat16), *(np.int32(n) for _ in range(6)), *scratch),
        shared_bytes=shared,
        name=case.label,
        expected=lambda: {"arg2": a.astype(np.float32) @ b.astype(np.float32)},
        rtol=1e-2,
        atol=1e-2,
    )
