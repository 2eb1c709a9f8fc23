"""Floating-point operations of a launch by data type, from what its instructions executed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sim.report.report import Report

#: Operations of one thread, by opcode; a multiply and add counts as 2, a packed pair twice.
THREAD_FLOPS = {
    "FADD": ("fp32", 1),
    "FMUL": ("fp32", 1),
    "FFMA": ("fp32", 2),
    "DADD": ("fp64", 1),
    "DMUL": ("fp64", 1),
    "DFMA": ("fp64", 2),
    "HADD2": ("fp16", 2),
    "HMUL2": ("fp16", 2),
    "HFMA2": ("fp16", 4),
}
#: Products of one tensor instruction of a warp, by its shape in SASS (m16n8k16 is 16816, m8n8k4 also 8x8x4).
_PRODUCTS = {
    "884": 8 * 8 * 4,
    "8x8x4": 8 * 8 * 4,
    "8816": 8 * 8 * 16,
    "1684": 16 * 8 * 4,
    "1688": 16 * 8 * 8,
    "16816": 16 * 8 * 16,
    "16832": 16 * 8 * 32,
    "16864": 16 * 8 * 64,
}
_GROUP_SHAPE = re.compile(r"64x(\d+)x(\d+)")  # of a warpgroup's instruction, which each of its four warps executes
_TENSOR = {"HMMA": "tensor_fp16", "HGMMA": "tensor_fp16", "IMMA": "tensor_int8", "IGMMA": "tensor_int8"}
_TENSOR |= {"DMMA": "tensor_fp64", "QGMMA": "tensor_fp8"}
_TYPES = {"BF16": "tensor_bf16", "TF32": "tensor_tf32"}


def flops(report: Report) -> dict[str, float]:
    """Operations executed, by the names of the profile's peaks (`fp32`, `tensor_bf16`, ...); only types that occur.

    Threads that a predicate switched off do not count. Integer tensor operations do;
    of all others only floating point.
    """
    columns = report.content.instructions
    totals: dict[str, float] = {}
    for sass, executed, on in zip(columns["sass"], columns["instructions"], columns["threads_on"], strict=True):
        words = sass.split()
        opcode, *modifiers = (words[1] if words[0].startswith("@") else words[0]).split(".")
        if opcode in THREAD_FLOPS:
            kind, each = THREAD_FLOPS[opcode]
            count = float(each * on)
        elif opcode in _TENSOR:
            kind = next((_TYPES[m] for m in modifiers if m in _TYPES), _TENSOR[opcode])
            count = float(executed * _tensor_flops(modifiers))
        else:
            continue
        if count:
            totals[kind] = totals.get(kind, 0.0) + count
    return totals


def _tensor_flops(modifiers: list[str]) -> int:
    """Operations of a tensor instruction of one warp: 2 a product."""
    for modifier in modifiers:
        if modifier in _PRODUCTS:
            return 2 * _PRODUCTS[modifier]
        if group := _GROUP_SHAPE.fullmatch(modifier):
            return 2 * 64 * int(group[1]) * int(group[2]) // 4
    return 0
