"""Which workload is which launch of the measured card."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sim.launch import Launch
from workloads import attention, divergence, matmul, memory, pointwise, rows, shared, stencil, waves

TABLE = Path(__file__).with_name("h200.csv")

Values = dict[str, str]
Factory = Callable[[Values], Launch]


def _block(p: Values) -> tuple[int, int]:
    x, y = p["block"].split("x")
    return int(x), int(y)


#: Case name -> (class of the error table, workload from the launch's parameters).
WORKLOADS: dict[str, tuple[str, Factory]] = {
    "copy1": ("streaming", lambda p: memory.copy(int(p["n"]), 1, int(p["block"]))),
    "copy4": ("streaming", lambda p: memory.copy(int(p["n"]), 4, int(p["block"]))),
    "saxpy": ("streaming", lambda p: pointwise.saxpy(int(p["n"]))),
    "vadd": ("streaming", lambda p: pointwise.add(int(p["n"]))),
    "relu_bf16": ("streaming", lambda p: pointwise.relu(int(p["n"]), "bf16")),
    "gelu": ("streaming", lambda p: pointwise.gelu(int(p["n"]))),
    "grid_stride_copy": ("streaming", lambda p: memory.grid_stride_copy(int(p["n"]), int(p["grid"]), int(p["block"]))),
    "relu_branch": ("divergence", lambda p: pointwise.relu(int(p["n"]), "f32", branch=True)),
    "stride_read": ("coalescing", lambda p: memory.strided(int(p["n"]), int(p["stride"]))),
    "stride_write": ("coalescing", lambda p: memory.strided(int(p["n"]), int(p["stride"]), write=True)),
    "offset_copy": ("coalescing", lambda p: memory.offset(int(p["n"]), int(p["offset"]))),
    "gather": ("coalescing", lambda p: memory.gather(int(p["n"]))),
    "transpose_naive": ("transpose", lambda p: memory.transpose(int(p["n"]), "naive")),
    "transpose_tile": ("transpose", lambda p: memory.transpose(int(p["n"]), "padded" if p["pad"] == "1" else "tiled")),
    "mm_naive_coal": ("matmul", lambda p: matmul.naive(int(p["n"]), True, _block(p))),
    "mm_naive_uncoal": ("matmul", lambda p: matmul.naive(int(p["n"]), False, _block(p))),
    "mm_tiled": ("matmul", lambda p: matmul.tiled(int(p["n"]), int(p["tile"]))),
    "mm_reg": ("matmul", lambda p: matmul.register_tiled(int(p["n"]))),
    "gemv_row": ("gemv", lambda p: matmul.gemv(int(p["n"]), "row")),
    "gemv_warp": ("gemv", lambda p: matmul.gemv(int(p["n"]), "warp")),
    "div_if": ("divergence", lambda p: divergence.lane_if(int(p["n"]), int(p["k"]), int(p["iters"]))),
    "div_ways": ("divergence", lambda p: divergence.switch(int(p["n"]), int(p["ways"]), int(p["iters"]))),
    "div_warp": ("divergence", lambda p: divergence.per_warp(int(p["n"]), int(p["iters"]))),
    "div_trip": ("divergence", lambda p: divergence.trip_counts(int(p["n"]))),
    "bank": ("banks", lambda p: shared.bank_stride(int(p["stride"]), int(p["iters"]), int(p["grid"]), int(p["block"]))),
    "reduce_mod": ("reductions", lambda p: shared.reduction(int(p["n"]), "modulo")),
    "reduce_bank": ("reductions", lambda p: shared.reduction(int(p["n"]), "strided")),
    "reduce_seq": ("reductions", lambda p: shared.reduction(int(p["n"]), "sequential")),
    "reduce_shfl": ("reductions", lambda p: shared.reduction(int(p["n"]), "shuffle")),
    "softmax_row": ("rows", lambda p: rows.softmax(int(p["rows"]), int(p["d"]), int(p["block"]))),
    "layernorm_row": ("rows", lambda p: rows.layernorm(int(p["rows"]), int(p["d"]), int(p["block"]))),
    "hist": ("histogram", lambda p: shared.histogram(int(p["n"]), int(p["bins"]), int(p["grid"]))),
    "k_sin": ("fusion", lambda p: pointwise.chain(int(p["n"]), "sin")),
    "k_cos": ("fusion", lambda p: pointwise.chain(int(p["n"]), "cos")),
    "k_sq": ("fusion", lambda p: pointwise.chain(int(p["n"]), "square")),
    "k_fused": ("fusion", lambda p: pointwise.chain(int(p["n"]), "fused")),
    "sig3_fwd_store": ("fusion", lambda p: pointwise.sigmoids(int(p["n"]), "forward", stored=True)),
    "sig3_bwd_load": ("fusion", lambda p: pointwise.sigmoids(int(p["n"]), "backward", stored=True)),
    "sig3_fwd": ("fusion", lambda p: pointwise.sigmoids(int(p["n"]), "forward", stored=False)),
    "sig3_bwd_recompute": ("fusion", lambda p: pointwise.sigmoids(int(p["n"]), "backward", stored=False)),
    "flash_fp32": ("attention", lambda p: attention.fused(int(p["n"]), int(p["heads"]))),
    "attn_scores": ("attention", lambda p: attention.scores(int(p["n"]), int(p["heads"]), int(p["d"]))),
    "attn_pv": ("attention", lambda p: attention.weighted(int(p["n"]), int(p["heads"]), int(p["d"]))),
    "spin": ("waves", lambda p: waves.spin(int(p["grid"]), int(p["block"]), int(p["iters"]))),
    "occ": (
        "waves",
        lambda p: waves.live_values(int(p["grid"]), int(p["live"]), int(p["smem_kb"]) * 1024, int(p["block"])),
    ),
    "stencil": ("stencil", lambda p: stencil.five_point(int(p["n"]))),
}

#: Kernels of the card's table that no workload matches, with the reason.
NOT_COVERED = {
    "mm_wmma": "wmma's fragment loads from global memory need a transposing move between lanes that the builder lacks",
}

#: Launches with more warp instructions, or more sectors of global memory, take too long for a test run.
MOST_INSTRUCTIONS = 40_000_000
MOST_SECTORS = 100_000_000


@dataclass(frozen=True)
class Case:
    """One launch of the card: its parameters and what it counted."""

    id: int
    name: str
    params: str
    counters: dict[str, float]

    @property
    def label(self) -> str:
        return f"{self.name}({self.params})"

    @property
    def group(self) -> str:
        return WORKLOADS[self.name][0]

    @property
    def is_quick(self) -> bool:
        """Whether it is small enough for a test run."""
        sectors = sum(self.counters[f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum"] for op in ("ld", "st"))
        return self.counters["smsp__inst_executed.sum"] <= MOST_INSTRUCTIONS and sectors <= MOST_SECTORS

    def launch(self) -> Launch:
        values = dict(part.split("=") for part in self.params.split(","))
        return WORKLOADS[self.name][1](values)


def all_cases() -> list[Case]:
    """Every launch in the table, in the order they were measured."""
    with open(TABLE, newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        Case(
            id=int(row["id"]),
            name=row["case"],
            params=row["params"],
            counters={key: float(value) for key, value in row.items() if key not in ("id", "case", "params")},
        )
        for row in rows
    ]


def covered_cases() -> list[Case]:
    """The launches that the test simulates."""
    return [case for case in all_cases() if case.name in WORKLOADS and case.is_quick]
