"""Joins parts of the core that are compiled each on its own: memory instructions, and the rest of an SM.

Inlined into the loop over an SM's warps, memory instructions would be optimised anew
at every level of calls above them. So the loop reaches them by an address that the
SM's record holds, and what all SMs share goes along as a pointer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sim._jit import COMPILED
from sim.core import async_issue, memory_dispatch
from sim.core.context import Ctx
from sim.isa import Op


def needs_memory(ops: Iterable[int]) -> bool:
    """Whether a program of these opcodes has memory instructions."""
    return any(Op.LD <= op <= Op.CCTL for op in ops)


def needs_asynchronous(ops: Iterable[int]) -> bool:
    """Whether a program of these opcodes has instructions of asynchronous units."""
    return any(op >= Op.HGMMA for op in ops)


if COMPILED:
    import numba
    from llvmlite import ir
    from numba import extending, types
    from numba.core import cgutils

    from sim._jit import bare, inner

    intrinsic: Any = extending.intrinsic  # typed, it would give its functions the signatures of their generators

    @intrinsic
    def address_of(typingctx: Any, value: Any) -> Any:
        """The address of a copy of `value`, good until the function that asks returns."""

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            data = context.data_model_manager[value].as_data(builder, args[0])
            return builder.ptrtoint(cgutils.alloca_once_value(builder, data), ir.IntType(64))

        return types.int64(value), codegen

    @intrinsic
    def behind(typingctx: Any, pointer: Any) -> Any:
        """The value that a pointer points to."""

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            model = context.data_model_manager[pointer.dtype]
            return model.load_from_data_pointer(builder, builder.bitcast(args[0], model.get_data_type().as_pointer()))

        return pointer.dtype(pointer), codegen

    @intrinsic
    def call_memory(
        typingctx: Any, address: Any, a: Any, shared: Any, m: Any, sub: Any, w: Any, pc: Any, base: Any, on: Any, t: Any
    ) -> Any:
        """`memory_instruction` at its address."""
        numbers = [types.int64] * 7

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            passed = [a, types.voidptr, *numbers]
            kind = context.call_conv.get_function_type(types.none, passed)
            function = builder.inttoptr(args[0], kind.as_pointer())
            values = [args[1], builder.inttoptr(args[2], ir.IntType(8).as_pointer()), *args[3:]]
            unused = [cgutils.alloca_once(builder, t.pointee) for t in kind.args[:2]]  # what it returns and raises
            builder.call(function, [*unused, *context.call_conv._get_arg_packer(passed).as_arguments(builder, values)])
            return context.get_dummy_value()

        return types.void(types.int64, a, types.int64, *numbers), codegen

    @inner(inline="always")
    def issue_memory(a, s, m, sub, w, pc, base, on, t):
        """`memory_dispatch.issue_memory`, compiled on its own."""
        call_memory(a.ctx[Ctx.MEMORY], a, a.ctx[Ctx.SHARED], m, sub, w, pc, base, on, t)

    @inner(inline="always")
    def issue_asynchronous(a, s, m, sub, w, pc, base, on, t):
        """`async_issue.issue_asynchronous`, compiled on its own."""
        call_memory(a.ctx[Ctx.ASYNCHRONOUS], a, a.ctx[Ctx.SHARED], m, sub, w, pc, base, on, t)

    @bare(no_cfunc_wrapper=True, no_cpython_wrapper=True, cached=True)
    def asynchronous_instruction(a, shared, m, sub, w, pc, base, on, t):
        """`async_issue.issue_asynchronous` of an SM's record and a pointer to `layout.Shared`."""
        async_issue.issue_asynchronous(a, behind(shared), m, sub, w, pc, base, on, t)

    @bare(no_cfunc_wrapper=True, no_cpython_wrapper=True, cached=True)
    def memory_instruction(a, shared, m, sub, w, pc, base, on, t):
        """`memory_dispatch.issue_memory` of an SM's record and a pointer to `layout.Shared`."""
        memory_dispatch.issue_memory(a, behind(shared), m, sub, w, pc, base, on, t)

    @inner(inline="always")
    def lend(a, s):
        """Let an SM's memory instructions see `s` until the caller returns."""
        a.ctx[Ctx.SHARED] = address_of(s)

    def _address(function: Any, arrays: Any, shared: Any) -> int:
        """Compile one of the functions above for arrays of these types, or load it; its address."""
        record, kept = numba.typeof(arrays).dtype, types.CPointer(numba.typeof(shared))
        signature = types.void(record, kept, *[types.int64] * 7)
        function.compile(signature)
        compiled = function.overloads[signature.args]
        return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))

    def memory_address(arrays: Any, shared: Any) -> int:
        """The address of the compiled memory instructions, for `ctx[Ctx.MEMORY]`."""
        return _address(memory_instruction, arrays, shared)

    def asynchronous_address(arrays: Any, shared: Any) -> int:
        """The address of the compiled instructions of asynchronous units, for `ctx[Ctx.ASYNCHRONOUS]`."""
        return _address(asynchronous_instruction, arrays, shared)

else:
    issue_memory = memory_dispatch.issue_memory
    issue_asynchronous = async_issue.issue_asynchronous

    def lend(a: Any, s: Any) -> None:
        """Nothing to do: memory instructions are called as any function."""

    def memory_address(arrays: Any, shared: Any) -> int:
        """No address without a compiler."""
        return 0

    asynchronous_address = memory_address
