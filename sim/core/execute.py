"""What one instruction computes, for the core's timing loop.

`execute` covers the register-to-register instructions; `sim.core.exec_memory` the
memory instructions; control flow and barriers belong to the warp scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from sim._jit import COMPILED, jit
from sim.core.context import CTX_SIZE, GROUPS, Ctx
from sim.core.exec_groups import (
    conversion_group,
    float_group,
    half_and_double_group,
    integer_group,
    tensor_group,
    warp_group,
)
from sim.isa import Op

INTEGER, WARP, FLOAT, CONVERSION, HALF_AND_DOUBLE, TENSOR = range(GROUPS)
_FUNCTIONS = (integer_group, warp_group, float_group, conversion_group, half_and_double_group, tensor_group)


@jit
def group_of(op):
    """The group that computes a register-to-register opcode."""
    if op < Op.FADD:
        return INTEGER if op < Op.POPC or op == Op.IDP or op == Op.IMUL else WARP
    if op < Op.HADD2:
        return FLOAT if op < Op.MUFU or op == Op.FSWZADD else CONVERSION
    return HALF_AND_DOUBLE if op < Op.LD else TENSOR


def group_addresses(ops: Iterable[int] | None = None) -> npt.NDArray[np.int64]:
    """Addresses of the compiled groups, `int64[GROUPS]`, for `ctx[Ctx.GROUP:]`.

    Compiles, or loads from the cache, the groups that `ops` (opcodes of a program;
    default: all there are) need; the others stay 0. Without a compiler all are 0.
    """
    addresses = np.zeros(GROUPS, np.int64)
    if COMPILED:
        from sim.core._rows_compiled import GROUP_SIGNATURE, address_of

        computed = (op for op in (Op if ops is None else ops) if op < Op.LD or Op.HMMA <= op < Op.BRA)
        wanted = {group_of(int(op)) for op in computed}  # a member of an enum takes Numba a third of a millisecond
        for group in sorted(wanted):
            addresses[group] = address_of(_FUNCTIONS[group], GROUP_SIGNATURE)
    return addresses


def contexts(count: int, ops: Iterable[int] | None = None) -> npt.NDArray[np.int64]:
    """`int64[count, CTX_SIZE]`: zeros, with the addresses of the groups that `ops` need."""
    ctx = np.zeros((count, CTX_SIZE), np.int64)
    ctx[:, Ctx.GROUP :] = group_addresses(ops)
    return ctx


if COMPILED:
    from sim.core._rows_compiled import call_address

    @jit
    def execute(code, pc, U, base, preds, warp, mask, ctx):
        """Perform register-to-register instruction `pc` for one warp.

        Parameters
        ----------
        code : int32[n, len(Col)], decoded instructions
        pc : index of the instruction (groups 0, 32, 64 and 128 of `Op`)
        U : uint32[rows, 32], the SM's register file
        base : the warp's first row; after its registers come the 8 rows that RZ destinations write
        preds : int64[warps, 16], lane masks of predicates; 7 and 15 stay all ones
        warp : the warp's row of `preds`
        mask : int64, active lanes whose guard is true; nothing changes when it is 0
        ctx : int64[CTX_SIZE], who the warp is, made by `contexts` (`sim.core.context.Ctx`)

        Raises RuntimeError when `ctx` lacks the address of the instruction's group.
        """
        op = code[pc, 0]  # Col.OP
        if mask == 0 or op == Op.NOP:
            return
        address = ctx[Ctx.GROUP + group_of(op)]
        if address == 0:
            raise RuntimeError("execute: no address for this opcode's group; make ctx with contexts()")
        call_address(address, code, pc, U, base, preds, warp, mask, ctx)

else:

    def execute(code, pc, U, base, preds, warp, mask, ctx):
        """Perform register-to-register instruction `pc` for one warp; see the compiled form above."""
        op = code[pc, 0]
        if mask != 0 and op != Op.NOP:
            _FUNCTIONS[group_of(op)](code, pc, U, base, preds[warp], mask, ctx)
