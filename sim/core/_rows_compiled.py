"""Rows for Numba: a value type of 32 lanes that LLVM keeps in vector registers.

A row is one LLVM vector (`<32 x i32>` and so on), so an instruction of 32 lanes
is a handful of machine instructions, with no loop for the compiler to recognise
and no aliasing question between source and destination registers.
"""

from __future__ import annotations

import operator
from typing import Any

import numba
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model

from sim.isa import PREDICATES

LANES = 32

carray: Any = numba.carray
intrinsic: Any = extending.intrinsic  # typed, it would give its functions the signatures of their generators

_ELEMENT = {
    types.uint32: ir.IntType(32),
    types.int32: ir.IntType(32),
    types.float32: ir.FloatType(),
    types.uint64: ir.IntType(64),
    types.int64: ir.IntType(64),
    types.float64: ir.DoubleType(),
    types.boolean: ir.IntType(1),
}


class RowType(types.Type):
    """Numba's type of a row of `dtype`."""

    def __init__(self, dtype):
        self.dtype = dtype
        super().__init__(name=f"Row({dtype})")

    @property
    def llvm(self):
        return ir.VectorType(_ELEMENT[self.dtype], LANES)

    @property
    def is_float(self) -> bool:
        return isinstance(self.dtype, types.Float)

    @property
    def is_signed(self) -> bool:
        return bool(getattr(self.dtype, "signed", False))


@register_model(RowType)
class _RowModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type: RowType):
        super().__init__(dmm, fe_type, fe_type.llvm)


BOOLEANS = RowType(types.boolean)


def _splat(builder, scalar):
    vector = ir.VectorType(scalar.type, LANES)
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), zeros)


def _register_operator(function, emit, *, compares: bool = False):
    """Type and lower a binary operator for row-row, row-scalar and scalar-row."""

    class Template(AbstractTemplate):
        def generic(self, args, kws):
            if len(args) != 2 or not any(isinstance(a, RowType) for a in args):
                return None
            row = next(a for a in args if isinstance(a, RowType))
            if any(isinstance(a, RowType) and a != row for a in args):
                return None
            result = BOOLEANS if compares else row
            return signature(result, *(a if isinstance(a, RowType) else row.dtype for a in args))

    infer_global(function)(Template)

    def lower(context, builder, sig, args):
        row = next(a for a in sig.args if isinstance(a, RowType))
        left, right = (v if isinstance(t, RowType) else _splat(builder, v) for t, v in zip(sig.args, args, strict=True))
        return emit(builder, row, left, right)

    lower_builtin(function, RowType, RowType)(lower)
    for scalar in (types.Integer, types.Float, types.Boolean):
        lower_builtin(function, RowType, scalar)(lower)
        lower_builtin(function, scalar, RowType)(lower)


def _arithmetic(integer: str | None, floating: str | None):
    def emit(builder, row: RowType, left, right):
        return getattr(builder, str(floating if row.is_float else integer))(left, right)

    return emit


def _shift_right(builder, row: RowType, left, right):
    return (builder.ashr if row.is_signed else builder.lshr)(left, right)


def _comparison(symbol: str):
    def emit(builder, row: RowType, left, right):
        if row.is_float:
            compare = builder.fcmp_unordered if symbol == "!=" else builder.fcmp_ordered
        else:
            compare = builder.icmp_signed if row.is_signed else builder.icmp_unsigned
        return compare(symbol, left, right)

    return emit


for _function, _integer, _floating in (
    (operator.add, "add", "fadd"),
    (operator.sub, "sub", "fsub"),
    (operator.mul, "mul", "fmul"),
    (operator.truediv, None, "fdiv"),
    (operator.floordiv, "udiv", None),
    (operator.and_, "and_", None),
    (operator.or_, "or_", None),
    (operator.xor, "xor", None),
    (operator.lshift, "shl", None),
):
    _register_operator(_function, _arithmetic(_integer, _floating))
_register_operator(operator.rshift, _shift_right)
for _function, _symbol in (
    (operator.lt, "<"),
    (operator.le, "<="),
    (operator.eq, "=="),
    (operator.ne, "!="),
    (operator.gt, ">"),
    (operator.ge, ">="),
):
    _register_operator(_function, _comparison(_symbol), compares=True)


def _register_unary(function, emit):
    class Template(AbstractTemplate):
        def generic(self, args, kws):
            return signature(args[0], args[0]) if len(args) == 1 and isinstance(args[0], RowType) else None

    infer_global(function)(Template)
    lower_builtin(function, RowType)(lambda context, builder, sig, args: emit(builder, sig.args[0], args[0]))


_register_unary(operator.neg, lambda builder, row, x: builder.fneg(x) if row.is_float else builder.neg(x))
_register_unary(operator.invert, lambda builder, row, x: builder.not_(x))


def _data(context, builder, array_type, array):
    """The first element's address: of an array, or of memory that came as a plain pointer."""
    if isinstance(array_type, types.CPointer):
        return array
    return context.make_array(array_type)(context, builder, array).data


def _row_pointer(context, builder, array_type, array, row, llvm):
    data = _data(context, builder, array_type, array)
    offset = builder.shl(row, ir.Constant(row.type, 5))
    return builder.bitcast(builder.gep(data, [offset]), llvm.as_pointer())


def _lanes(builder, mask):
    return builder.bitcast(builder.trunc(mask, ir.IntType(32)), BOOLEANS.llvm)


@intrinsic
def load(typingctx, array, row):
    result = RowType(array.dtype)

    def codegen(context, builder, sig, args):
        return builder.load(_row_pointer(context, builder, array, args[0], args[1], result.llvm), align=4)

    return result(array, types.int64), codegen


@intrinsic
def save(typingctx, array, row, value):
    target = RowType(array.dtype)

    def codegen(context, builder, sig, args):
        pointer = _row_pointer(context, builder, array, args[0], args[1], target.llvm)
        builder.store(builder.bitcast(args[2], target.llvm), pointer, align=4)
        return context.get_dummy_value()

    return types.void(array, types.int64, value), codegen


@intrinsic
def store(typingctx, array, row, value, mask):
    target = RowType(array.dtype)

    def codegen(context, builder, sig, args):
        pointer = _row_pointer(context, builder, array, args[0], args[1], target.llvm)
        old = builder.load(pointer, align=4)
        new = builder.bitcast(args[2], target.llvm)
        builder.store(builder.select(_lanes(builder, args[3]), new, old), pointer, align=4)
        return context.get_dummy_value()

    return types.void(array, types.int64, value, types.int64), codegen


def _convert(builder, source: RowType, target: RowType, x):
    """A value conversion, as C's cast; a float out of the integer's range gives no particular value."""
    if source.dtype == types.boolean:
        return builder.uitofp(x, target.llvm) if target.is_float else builder.zext(x, target.llvm)
    if source.is_float and target.is_float:
        if source.dtype.bitwidth == target.dtype.bitwidth:
            return x
        wider = target.dtype.bitwidth > source.dtype.bitwidth
        return (builder.fpext if wider else builder.fptrunc)(x, target.llvm)
    if source.is_float:
        return (builder.fptosi if target.is_signed else builder.fptoui)(x, target.llvm)
    if target.is_float:
        return (builder.sitofp if source.is_signed else builder.uitofp)(x, target.llvm)
    if source.dtype.bitwidth == target.dtype.bitwidth:
        return x
    if target.dtype.bitwidth < source.dtype.bitwidth:
        return builder.trunc(x, target.llvm)
    return (builder.sext if source.is_signed else builder.zext)(x, target.llvm)


def _conversion(dtype):
    target = RowType(dtype)

    def convert(typingctx, x):
        def codegen(context, builder, sig, args):
            if isinstance(x, RowType):
                return _convert(builder, x, target, args[0])
            return _splat(builder, args[0])

        return target(x if isinstance(x, RowType) else dtype), codegen

    return intrinsic(convert)


u32, i32, f32 = _conversion(types.uint32), _conversion(types.int32), _conversion(types.float32)
u64, i64, f64 = _conversion(types.uint64), _conversion(types.int64), _conversion(types.float64)


def _reinterpretation(dtype):
    target = RowType(dtype)

    def reinterpret(typingctx, x):
        return target(x), lambda context, builder, sig, args: builder.bitcast(args[0], target.llvm)

    return intrinsic(reinterpret)


as_u32, as_i32, as_f32 = (_reinterpretation(t) for t in (types.uint32, types.int32, types.float32))
as_u64, as_i64, as_f64 = (_reinterpretation(t) for t in (types.uint64, types.int64, types.float64))


@intrinsic
def where(typingctx, condition, x, y):
    row = x if isinstance(x, RowType) else y

    def codegen(context, builder, sig, args):
        left, right = (
            v if isinstance(t, RowType) else _splat(builder, v) for t, v in zip(sig.args[1:], args[1:], strict=True)
        )
        return builder.select(args[0], left, right)

    return row(condition, *(a if isinstance(a, RowType) else row.dtype for a in (x, y))), codegen


def _llvm(builder, name: str, row: RowType, arguments: list[Any]):
    """A call of the LLVM intrinsic `name` for rows of one type."""
    suffix = {"i32": "i32", "i64": "i64", "float": "f32", "double": "f64"}[str(_ELEMENT[row.dtype])]
    symbol = f"llvm.{name}.v{LANES}{suffix}"
    function = builder.module.globals.get(symbol)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(row.llvm, [a.type for a in arguments]), symbol)
    return builder.call(function, arguments)


@intrinsic
def fma(typingctx, x, y, z):
    return x(x, x, x), lambda context, builder, sig, args: _llvm(builder, "fma", x, list(args))


def _llvm_unary(name: str, *extra):
    def unary(typingctx, x):
        return x(x), lambda context, builder, sig, args: _llvm(builder, name, x, [args[0], *extra])

    return intrinsic(unary)


sqrt, floor, ceil, trunc = (_llvm_unary(name) for name in ("sqrt", "floor", "ceil", "trunc"))
rint, magnitude = _llvm_unary("rint"), _llvm_unary("fabs")
count_ones, reverse_bits = _llvm_unary("ctpop"), _llvm_unary("bitreverse")
leading_zeros = _llvm_unary("ctlz", ir.Constant(ir.IntType(1), 0))


@intrinsic
def ordered(typingctx, x):
    return BOOLEANS(x), lambda context, builder, sig, args: builder.fcmp_ordered("ord", args[0], args[0])


@intrinsic
def lane_numbers(typingctx):
    row = RowType(types.int32)
    return row(), lambda context, builder, sig, args: ir.Constant(row.llvm, list(range(LANES)))


@intrinsic
def element(typingctx, x, lane):
    return x.dtype(x, types.int64), lambda context, builder, sig, args: builder.extract_element(*args)


@intrinsic
def lanes(typingctx, mask):
    return BOOLEANS(types.int64), lambda context, builder, sig, args: _lanes(builder, args[0])


@intrinsic
def mask_of(typingctx, condition):
    def codegen(context, builder, sig, args):
        return builder.zext(builder.bitcast(args[0], ir.IntType(LANES)), ir.IntType(64))

    return types.int64(BOOLEANS), codegen


@intrinsic(prefer_literal=True)
def spread(typingctx, x, group, thread, first):
    def codegen(context, builder, sig, args):
        sources = [
            (lane // 4 * group.literal_value + lane % 4 * thread.literal_value + first.literal_value) % LANES
            for lane in range(LANES)
        ]
        picks = ir.Constant(ir.VectorType(ir.IntType(32), LANES), sources)
        return builder.shuffle_vector(args[0], args[0], picks)

    return x(x, group, thread, first), codegen


@intrinsic
def previous(typingctx, x):
    before = [31, *range(31)]
    return x(x), lambda context, builder, sig, args: _shuffle(builder, args[0], args[0], before)


@intrinsic
def any_bits(typingctx, x):
    def codegen(context, builder, sig, args):
        name = f"llvm.vector.reduce.or.v{LANES}i32"
        bits = _memory_intrinsic(builder, name, [args[0]], ir.IntType(32))
        return builder.zext(bits, ir.IntType(64))

    return types.int64(RowType(types.uint32)), codegen


@intrinsic
def least(typingctx, x):
    def codegen(context, builder, sig, args):
        return _memory_intrinsic(builder, f"llvm.vector.reduce.smin.v{LANES}i64", [args[0]], ir.IntType(64))

    return types.int64(RowType(types.int64)), codegen


@intrinsic
def set_bits(typingctx, x):
    return types.int64(types.int64), lambda context, builder, sig, args: builder.ctpop(args[0])


@intrinsic
def prefetch(typingctx, array, index):
    def codegen(context, builder, sig, args):
        at = builder.gep(_data(context, builder, array, args[0]), [args[1]])
        at = builder.bitcast(at, ir.IntType(8).as_pointer())
        hint = [ir.Constant(ir.IntType(32), v) for v in (0, 3, 1)]  # to read, into the nearest cache, data
        _memory_intrinsic(builder, "llvm.prefetch.p0", [at, *hint], ir.VoidType())
        return context.get_dummy_value()

    return types.void(array, types.int64), codegen


@intrinsic
def eight_equal(typingctx, array, index, value):
    def codegen(context, builder, sig, args):
        eight = ir.VectorType(ir.IntType(64), 8)
        at = builder.bitcast(builder.gep(_data(context, builder, array, args[0]), [args[1]]), eight.as_pointer())
        one = builder.insert_element(ir.Constant(eight, ir.Undefined), args[2], ir.Constant(ir.IntType(32), 0))
        hits = builder.icmp_signed("==", builder.load(at, align=8), _shuffle(builder, one, one, [0] * 8))
        return builder.zext(builder.bitcast(hits, ir.IntType(8)), ir.IntType(64))

    return types.int64(array, types.int64, types.int64), codegen


def _bytes_at(context, builder, memory_type, memory, offset, llvm):
    """A pointer to a value of type `llvm` at a byte offset."""
    return builder.bitcast(builder.gep(_data(context, builder, memory_type, memory), [offset]), llvm.as_pointer())


def _words(count: int):
    return ir.VectorType(ir.IntType(32), count)


def _shuffle(builder, left, right, sources):
    return builder.shuffle_vector(left, right, ir.Constant(_words(len(sources)), list(sources)))


@intrinsic(prefer_literal=True)
def load_run(typingctx, memory, offset, count):
    row, n = RowType(types.uint32), count.literal_value
    result = types.UniTuple(row, n)

    def codegen(context, builder, sig, args):
        first = _bytes_at(context, builder, memory, args[0], args[1], row.llvm)
        rows = [builder.load(builder.gep(first, [ir.Constant(ir.IntType(32), k)]), align=4) for k in range(n)]
        for _ in range(n.bit_length() - 1):  # parts every second word: the odd ones go behind the even ones
            pairs = list(zip(rows[::2], rows[1::2], strict=True))
            rows = [_shuffle(builder, *pair, range(odd, 2 * LANES, 2)) for odd in (0, 1) for pair in pairs]
        return context.make_tuple(builder, result, rows)

    return result(memory, types.int64, count), codegen


@intrinsic
def save_run(typingctx, memory, offset, rows):
    n = len(rows)

    def codegen(context, builder, sig, args):
        parts = [builder.extract_value(args[2], k) for k in range(n)]
        while len(parts) > 1:
            half = len(parts) // 2
            size = parts[0].type.count
            pairs = [at for k in range(size) for at in (k, size + k)]
            parts = [_shuffle(builder, parts[k], parts[half + k], pairs) for k in range(half)]
        pointer = _bytes_at(context, builder, memory, args[0], args[1], parts[0].type)
        builder.store(parts[0], pointer, align=4)
        return context.get_dummy_value()

    return types.void(memory, types.int64, rows), codegen


@intrinsic
def word_at(typingctx, memory, offset):
    def codegen(context, builder, sig, args):
        return builder.load(_bytes_at(context, builder, memory, args[0], args[1], ir.IntType(32)), align=4)

    return types.uint32(memory, types.int64), codegen


@intrinsic(prefer_literal=True)
def load_octet(typingctx, memory, offsets, first):
    def codegen(context, builder, sig, args):
        parts = []
        for lane in range(first.literal_value, first.literal_value + 8):
            offset = builder.extract_element(args[1], ir.Constant(ir.IntType(32), lane))
            parts.append(builder.load(_bytes_at(context, builder, memory, args[0], offset, _words(4)), align=4))
        while len(parts) > 1:
            both = range(2 * parts[0].type.count)
            parts = [_shuffle(builder, left, right, both) for left, right in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    return RowType(types.uint32)(memory, RowType(types.int64), first), codegen


@intrinsic(prefer_literal=True)
def move(typingctx, target, to, source, at, size):
    value = _words(size.literal_value // 4)

    def codegen(context, builder, sig, args):
        moved = builder.load(_bytes_at(context, builder, source, args[2], args[3], value), align=4)
        builder.store(moved, _bytes_at(context, builder, target, args[0], args[1], value), align=4)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, size), codegen


@intrinsic(prefer_literal=True)
def clear(typingctx, target, to, size):
    value = _words(size.literal_value // 4)

    def codegen(context, builder, sig, args):
        zeros = ir.Constant(value, [0] * value.count)
        builder.store(zeros, _bytes_at(context, builder, target, args[0], args[1], value), align=4)
        return context.get_dummy_value()

    return types.void(target, types.int64, size), codegen


def _byte_pointers(context, builder, memory_type, memory, offsets, bits: int):
    """Pointers to elements of `bits` bits at byte offsets into a byte array, one a lane."""
    data = builder.ptrtoint(_data(context, builder, memory_type, memory), ir.IntType(64))
    pointers = ir.VectorType(ir.IntType(bits).as_pointer(), LANES)
    return builder.inttoptr(builder.add(_splat(builder, data), offsets), pointers)


def _memory_intrinsic(builder, name: str, arguments: list[Any], result):
    function = builder.module.globals.get(name)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(result, [a.type for a in arguments]), name)
    return builder.call(function, arguments)


def _gather(bits: int):
    row, offsets = RowType(types.uint32), RowType(types.int64)
    vector, align = ir.VectorType(ir.IntType(bits), LANES), ir.Constant(ir.IntType(32), bits // 8)

    def gather(typingctx, memory, offset, mask):
        def codegen(context, builder, sig, args):
            pointers = _byte_pointers(context, builder, memory, args[0], args[1], bits)
            arguments = [pointers, align, _lanes(builder, args[2]), ir.Constant(vector, [0] * LANES)]
            elements = _memory_intrinsic(builder, f"llvm.masked.gather.v{LANES}i{bits}.v{LANES}p0", arguments, vector)
            return elements if bits == 32 else builder.zext(elements, row.llvm)

        return row(memory, offsets, types.int64), codegen

    return intrinsic(gather)


def _scatter(bits: int):
    row, offsets = RowType(types.uint32), RowType(types.int64)
    vector, align = ir.VectorType(ir.IntType(bits), LANES), ir.Constant(ir.IntType(32), bits // 8)

    def scatter(typingctx, memory, offset, value, mask):
        def codegen(context, builder, sig, args):
            pointers = _byte_pointers(context, builder, memory, args[0], args[1], bits)
            elements = args[2] if bits == 32 else builder.trunc(args[2], vector)
            arguments = [elements, pointers, align, _lanes(builder, args[3])]
            _memory_intrinsic(builder, f"llvm.masked.scatter.v{LANES}i{bits}.v{LANES}p0", arguments, ir.VoidType())
            return context.get_dummy_value()

        return types.void(memory, offsets, row, types.int64), codegen

    return intrinsic(scatter)


gather8, gather16, gather32 = _gather(8), _gather(16), _gather(32)
scatter8, scatter16, scatter32 = _scatter(8), _scatter(16), _scatter(32)


@intrinsic
def permute(typingctx, x, source):
    def codegen(context, builder, sig, args):
        slot = cgutils.alloca_once_value(builder, args[0])
        first = builder.ptrtoint(slot, ir.IntType(64))
        wide = ir.VectorType(ir.IntType(64), LANES)
        offsets = builder.shl(builder.zext(args[1], wide), ir.Constant(wide, [2] * LANES))
        pointers = builder.inttoptr(
            builder.add(_splat(builder, first), offsets), ir.VectorType(ir.IntType(32).as_pointer(), LANES)
        )
        return _memory_intrinsic(
            builder,
            f"llvm.masked.gather.v{LANES}i32.v{LANES}p0",
            [
                pointers,
                ir.Constant(ir.IntType(32), 4),
                ir.Constant(BOOLEANS.llvm, [1] * LANES),
                ir.Constant(x.llvm, [0] * LANES),
            ],
            x.llvm,
        )

    return x(RowType(types.uint32), RowType(types.uint32)), codegen


def address_of(function, signature) -> int:
    """Compile a function for plain C arguments; the address by which `call_address` reaches it."""
    function.compile(signature)
    compiled = function.overloads[signature.args]
    return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name))


#: of the groups of `sim.core.execute`: code, pc, U, base, preds, mask, ctx
GROUP_SIGNATURE = types.void(
    types.CPointer(types.int32),
    types.int64,
    types.CPointer(types.uint32),
    types.int64,
    types.CPointer(types.int64),
    types.int64,
    types.CPointer(types.int64),
)


@intrinsic
def call_address(typingctx, address, code, pc, U, base, preds, warp, mask, ctx):
    signature = types.void(types.int64, code, types.int64, U, types.int64, preds, types.int64, types.int64, ctx)

    def codegen(context, builder, sig, args):
        pointers = [_data(context, builder, sig.args[k], args[k]) for k in (1, 3, 5, 8)]
        row = builder.mul(args[6], ir.Constant(args[6].type, PREDICATES))
        pointers[2] = builder.gep(pointers[2], [row])
        arguments = [pointers[0], args[2], pointers[1], args[4], pointers[2], args[7], pointers[3]]
        kind = ir.FunctionType(ir.VoidType(), [a.type for a in arguments])
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), arguments)
        return context.get_dummy_value()

    return signature, codegen
