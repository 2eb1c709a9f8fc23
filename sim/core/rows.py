"""Rows: values of 32 lanes, and what can be done with them, compiled or not.

Instruction code is written once, on whole rows: `store(U, d, load(U, a) +
load(U, b), mask)`. Compiled, a row is a vector of machine registers; without
Numba it is a NumPy array of 32. Rows hold uint32, int32, float32, uint64, int64,
float64 or booleans. `+ - * / & | ^ << >> ~` and comparisons work lane by lane
between rows of one type, or a row and a Python literal; integers wrap around;
shift amounts must be below the width; `//` is for unsigned integers.

* `load(array, row)`: 32 elements from `array[row]` (any C-ordered array, in units of 32 elements)
* `save(array, row, value)`: all 32 lanes; `store(array, row, value, mask)`: the lanes in an int64 mask;
  a value of another type of the same width is stored bit for bit
* `u32 i32 f32 u64 i64 f64`: value conversion of a row, or a row full of a scalar
* `as_u32` and so on: the same bits as another type
* `where(condition, x, y)`, `fma(x, y, z)` (rounded once), `sqrt floor ceil trunc rint magnitude`
* `ordered(x)`: lanes that hold a number, not a NaN
* `count_ones leading_zeros reverse_bits` of unsigned rows
* `lanes(mask)`: booleans of an int64 mask; `mask_of(booleans)`: the mask
* `carray(pointer, shape)`: an array over memory that came as a plain pointer
* `lane_numbers()`: 0..31 as int32
* `element(x, lane)`: one lane's value
* `permute(x, source)`: lane i takes lane source[i]; both uint32
* `gather8/16/32(memory, offset, mask)`, `scatter8/16/32(memory, offset, value, mask)`: little-endian
  elements of a byte array at int64 byte offsets, as uint32; where lanes meet, the highest one's value stays
* `load_run(memory, offset, count)`: `count` (1, 2, 4) words a lane from one run of bytes, as a tuple of rows;
  `save_run(memory, offset, rows)`: the inverse; `word_at(memory, offset)`: one word as a uint32
* `load_octet(memory, offsets, first)`: 16 bytes each from the offsets of lanes first to first + 7, one after another
* `move(target, to, source, at, size)`, `clear(target, to, size)`: 4, 8 or 16 bytes of a byte array
* `any_bits(x)`: the lanes of a uint32 row or-ed, as int64; `least(x)`: the least of an int64 row; `set_bits(x)`: set
  bits of an int64
* `eight_equal(array, index, value)`: the mask of those of eight int64 elements that are `value`; `index`, of the first,
  counts in memory order
* `previous(x)`: lane i takes lane i - 1, lane 0 lane 31
* `prefetch(array, index)`: a hint that the 64 bytes around an element will be read; `index` counts in memory order
* `spread(x, group, thread, first)`: lane 4 g + t takes lane g * group + t * thread + first; literals only
"""

from sim._jit import COMPILED, jit

if COMPILED:
    from sim.core._rows_compiled import (
        any_bits,
        as_f32,
        as_f64,
        as_i32,
        as_i64,
        as_u32,
        as_u64,
        carray,
        ceil,
        clear,
        count_ones,
        eight_equal,
        element,
        f32,
        f64,
        floor,
        fma,
        gather8,
        gather16,
        gather32,
        i32,
        i64,
        lane_numbers,
        lanes,
        leading_zeros,
        least,
        load,
        load_octet,
        load_run,
        magnitude,
        mask_of,
        move,
        ordered,
        permute,
        prefetch,
        previous,
        reverse_bits,
        rint,
        save,
        save_run,
        scatter8,
        scatter16,
        scatter32,
        set_bits,
        spread,
        sqrt,
        store,
        trunc,
        u32,
        u64,
        where,
        word_at,
    )
else:
    from sim.core._rows_numpy import (
        any_bits,
        as_f32,
        as_f64,
        as_i32,
        as_i64,
        as_u32,
        as_u64,
        carray,
        ceil,
        clear,
        count_ones,
        eight_equal,
        element,
        f32,
        f64,
        floor,
        fma,
        gather8,
        gather16,
        gather32,
        i32,
        i64,
        lane_numbers,
        lanes,
        leading_zeros,
        least,
        load,
        load_octet,
        load_run,
        magnitude,
        mask_of,
        move,
        ordered,
        permute,
        prefetch,
        previous,
        reverse_bits,
        rint,
        save,
        save_run,
        scatter8,
        scatter16,
        scatter32,
        set_bits,
        spread,
        sqrt,
        store,
        trunc,
        u32,
        u64,
        where,
        word_at,
    )

#: decorates functions of rows: compiled, they can be called from compiled code only
row_function = jit(no_cpython_wrapper=True, no_cfunc_wrapper=True)

__all__ = [
    "any_bits",
    "as_f32",
    "as_f64",
    "as_i32",
    "as_i64",
    "as_u32",
    "as_u64",
    "carray",
    "ceil",
    "clear",
    "count_ones",
    "eight_equal",
    "element",
    "f32",
    "f64",
    "floor",
    "fma",
    "gather16",
    "gather32",
    "gather8",
    "i32",
    "i64",
    "lane_numbers",
    "lanes",
    "leading_zeros",
    "least",
    "load",
    "load_octet",
    "load_run",
    "magnitude",
    "mask_of",
    "move",
    "ordered",
    "permute",
    "set_bits",
    "prefetch",
    "previous",
    "reverse_bits",
    "rint",
    "row_function",
    "save",
    "save_run",
    "scatter16",
    "scatter32",
    "scatter8",
    "spread",
    "sqrt",
    "store",
    "trunc",
    "u32",
    "u64",
    "where",
    "word_at",
]
