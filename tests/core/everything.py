"""Every opcode on edge values, reduced to digests: run with and without the compiler, they must agree.

As a program it prints the digests as JSON.
"""

from __future__ import annotations

import hashlib
import json
import sys

import numpy as np

from sim.isa import (
    FLAG_EXTENDED,
    FLAG_FTZ,
    FLAG_SIGNED,
    SMOD_ABS_A,
    SMOD_NEG_A,
    SMOD_NEG_B,
    SMOD_NEG_C,
    MmaShape,
    MufuFunction,
    NumberType,
    Op,
)
from tests.core.functional import run_functional
from tests.core.one_instruction import run_one
from tests.core.programs import atomic_histogram, block_sum, collatz
from tests.core.values import DOUBLE_EDGES, FLOAT_EDGES, INTEGER_EDGES

N = NumberType
MASK = 0xF7FFFFFE
WIDE_RESULTS = {Op.IMAD_WIDE: 2, Op.DADD: 2, Op.DMUL: 2, Op.DFMA: 2, Op.DMNMX: 2, Op.HMMA: 4, Op.IMMA: 4, Op.DMMA: 4}

#: values of X (and flags) that are worth a run, by opcode; others run with X = 0
VARIANTS: dict[Op, list[tuple[int, int]]] = {
    Op.IADD3: [(0, 0), (0, FLAG_EXTENDED)],
    Op.IMAD_WIDE: [(0, 0), (0, FLAG_SIGNED)],
    Op.IMAD_HI: [(0, 0), (0, FLAG_SIGNED)],
    Op.LOP3: [(0x96, 0), (0xC0, 0), (0x1B, 0)],
    Op.SHF: [(x, 0) for x in range(32)],
    Op.LEA: [(5, 0)],
    Op.LEA_HI: [(5, 0), (7, FLAG_SIGNED | FLAG_EXTENDED)],
    Op.ISETP: [(c | b << 4 | u, 0) for c in range(8) for b in range(3) for u in (0, 256, 512)],
    Op.FLO: [(0, 0), (1, 0), (2, 0), (3, 0)],
    Op.PRMT: [(x, 0) for x in range(7)],
    Op.S2R: [(x, 0) for x in range(25)],
    Op.PLOP3: [(0x1234, 0), (0xE8F1, 0)],
    Op.VOTE: [(0, 0), (1, 0), (2, 0)],
    Op.SHFL: [(0, 0), (1, 0), (2, 0), (3, 0)],
    Op.MATCH: [(0, 0), (1, 0)],
    Op.REDUX: [(x, f) for x in (0, 1, 2, 5, 6, 7) for f in (0, FLAG_SIGNED)],
    Op.IDP: [(x, 0) for x in (0, 1, 2, 3, 4, 5, 8, 24)],
    Op.FADD: [(x, 0) for x in range(16)],
    Op.FMUL: [(x, 0) for x in range(16)],
    Op.FFMA: [(x, f) for x in range(16) for f in (0, FLAG_FTZ)],
    Op.FSETP: [(x | b << 4, 0) for x in range(16) for b in range(3)],
    Op.FMNMX: [(0, 0), (1, 0), (4, 0)],
    Op.MUFU: [(f, 0) for f in MufuFunction],
    Op.I2F: [(s | d << 4 | m << 8, 0) for s in range(8) for d in (N.F16, N.BF16, N.F32, N.F64) for m in range(4)],
    Op.F2I: [(s | d << 4 | m << 8, 0) for s in (N.F16, N.BF16, N.F32, N.F64) for d in range(8) for m in range(4)],
    Op.F2F: [(s | d << 4 | m << 8, 0) for s in range(8, 12) for d in range(8, 12) for m in range(4)],
    Op.FRND: [(s * 17 | m << 8, 0) for s in range(8, 12) for m in range(4)],
    Op.I2I: [(s | d << 4 | t, 0) for s in range(8) for d in range(8) for t in (0, 1024)],
    Op.F2FP: [(t | m << 8, 0) for t in (N.F16, N.BF16) for m in range(4)],
    Op.HADD2: [(0, 0), (1, 0), (2 << 4 | 1 << 10, 0), (1 << 11, FLAG_FTZ)],
    Op.HMUL2: [(0, 0), (1, FLAG_FTZ)],
    Op.HFMA2: [(0, 0), (1, 0)],
    Op.HSETP2: [(t | c << 12, 0) for t in (0, 1) for c in range(16)],
    Op.HSET2: [(1 << 12, 0), (1 | 4 << 12 | 1 << 19, 0)],
    Op.HMNMX2: [(0, 0), (1, 0), (1 << 20, 0)],
    Op.DADD: [(m, 0) for m in range(4)],
    Op.DMUL: [(m, 0) for m in range(4)],
    Op.DFMA: [(m, 0) for m in range(4)],
    Op.DSETP: [(x, 0) for x in range(16)],
    Op.HMMA: [
        (MmaShape.M16N8K16 | N.F16 << 8, 0), (MmaShape.M16N8K16 | N.BF16 << 8, 0), (MmaShape.M16N8K8 | N.TF32 << 8, 0),
        (MmaShape.M16N8K8 | N.F16 << 8 | 1 << 16, 0),
    ],
    Op.IMMA: [(MmaShape.M16N8K32 | N.S8 << 8, 0), (MmaShape.M16N8K16 | 1 << 17, 0), (MmaShape.M8N8K16 | 1 << 18, 0)],
}  # fmt: skip

EDGES = np.array([*INTEGER_EDGES, *FLOAT_EDGES], np.uint32)


def operands(op: Op, seed: int) -> list[np.ndarray]:
    """Three operands of eight rows of edge values (doubles where the opcode takes them)."""
    random = np.random.default_rng(seed)
    rows = []
    for _ in range(3):
        if Op.DADD <= op <= Op.DMNMX or op == Op.DMMA:
            words = random.choice(np.array(DOUBLE_EDGES, np.uint64), (4, 32))
            rows.append(np.stack([words & np.uint64(0xFFFFFFFF), words >> np.uint64(32)], 1).reshape(8, 32))
        else:
            mixed = np.where(
                random.random((8, 32)) < 0.5, random.choice(EDGES, (8, 32)), random.integers(0, 2**32, (8, 32))
            )
            rows.append(mixed)
    return [r.astype(np.uint32) for r in rows]


def instruction_digests() -> dict[str, str]:
    """A digest of all that each opcode writes."""
    digests = {}
    for op in Op:
        if not (op < Op.LD or Op.HMMA <= op < Op.BRA):
            continue
        digest = hashlib.sha256()
        for k, (x, flags) in enumerate(VARIANTS.get(op, [(0, 0)])):
            nd = WIDE_RESULTS.get(op, 2 if op in (Op.I2F, Op.F2I, Op.F2F, Op.FRND, Op.I2I) else 1)
            signs = SMOD_NEG_A | SMOD_NEG_C | SMOD_ABS_A if k % 3 == 1 else SMOD_NEG_B if k % 3 == 2 else 0
            a, b, c = operands(op, 100 * op + k)
            preds = {2: 0xCCCC1234, 3: 0x0F0F5678, 4: 0xAAAA5555}
            fields = {"nd": nd, "smod": signs, "flags": flags, "pa": 2, "pb": 3, "preds": preds}
            out = run_one(op, a, b, c, x=int(x), y=4, mask=MASK, **fields)
            digest.update(out.d.tobytes() + out.preds.tobytes() + out.uniform.tobytes())
        digests[op.name] = digest.hexdigest()
    return digests


def program_digests() -> dict[str, str]:
    """A digest of what each of the small programs leaves in memory."""
    digests = {}
    for make in (block_sum, collatz, atomic_histogram):
        program, grid, block, args, shared = make()
        run_functional(program, grid, block, args, shared)
        digests[program.name] = hashlib.sha256(b"".join(a.tobytes() for a in args if hasattr(a, "tobytes"))).hexdigest()
    return digests


def digests() -> dict[str, str]:
    return instruction_digests() | program_digests()


if __name__ == "__main__":
    json.dump(digests(), sys.stdout)
