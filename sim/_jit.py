"""The one place that imports Numba: `jit`, bit casts and fused multiply-add, with or without a compiler.

Compiled code is kept in a per-user cache whose key covers every compiled source
file of the package, so an edited helper never leaves a stale caller behind.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
if COMPILED:
    try:
        import numba
    except ImportError:
        COMPILED = False

if COMPILED:
    import hashlib
    from pathlib import Path

    from llvmlite import ir
    from numba import types
    from numba.core.caching import IndexDataCacheFile
    from numba.extending import intrinsic

    _HERE = Path(__file__).parent

    def _digest() -> str:
        """A hash of the sources that hold compiled code, and of the compiler's version."""
        h = hashlib.sha256(numba.__version__.encode())
        constants = (_HERE / f"{name}.py" for name in ("_jit", "counters", "isa", "limits"))
        for path in sorted([*_HERE.glob("core/*.py"), *constants]):
            h.update(path.read_bytes())
        return h.hexdigest()[:16]

    SOURCE_DIGEST = _digest()

    _OPTIONS = {"nogil": True, "error_model": "numpy", "boundscheck": None}

    class _CacheFile(IndexDataCacheFile):
        """A function's compiled forms on disk; files carry their process's number, so that two never mix theirs."""

        def _data_name(self, number: int) -> str:
            return f"{os.getpid()}.{super()._data_name(number)}"

    def _general(t: Any) -> Any:
        """The type that a call passes: int64 for literals, enum members and int32, so one compilation serves all."""
        t = types.unliteral(t)
        if isinstance(t, types.IntEnumMember):
            t = t.dtype
        return types.int64 if t == types.int32 else t

    def jit(function: Any = None, /, *, cached: bool | None = None, **options: Any) -> Any:
        """`numba.njit` without the global interpreter lock, division as NumPy's.

        Cached unless only compiled code can call it, which has it inside what is cached.
        """
        if cached is None:
            cached = not options.get("no_cpython_wrapper")

        def wrap(f: Any) -> Any:
            dispatcher = numba.njit(**{**_OPTIONS, **options})(f)
            resolve = dispatcher.get_call_template
            dispatcher.get_call_template = lambda args, kws: resolve(
                tuple(_general(t) for t in args), {k: _general(t) for k, t in kws.items()}
            )
            if not cached:
                return dispatcher
            dispatcher.enable_caching()
            # A function is stale when any compiled source changed, not only its own file, which is
            # all that Numba's stamp sees: so each state of the sources has a cache folder of its own.
            cache = dispatcher._cache
            cache._cache_path = str(Path(cache._cache_path) / f"tailwave-{SOURCE_DIGEST}")
            Path(cache._cache_path).mkdir(parents=True, exist_ok=True)
            cache._cache_file = _CacheFile(
                cache_path=cache._cache_path,
                filename_base=cache._impl.filename_base,
                source_stamp=SOURCE_DIGEST,
            )
            return dispatcher

        return wrap if function is None else wrap(function)

    def compiled_mark(dispatcher: Any) -> Path:
        """The file that says that all is compiled: beside the function's cache, one for each kind of processor."""
        host = hashlib.sha256(repr(dispatcher.targetctx.codegen().magic_tuple()).encode()).hexdigest()[:16]
        return Path(dispatcher._cache._cache_path) / f"compiled-{host}"

    def bare(function: Any = None, /, **options: Any) -> Any:
        """`jit` without reference counts: for functions that make no arrays; the caller keeps its own alive."""
        return jit(function, _nrt=False, **options)

    def inner(function: Any = None, /, **options: Any) -> Any:
        """`jit` for functions that only compiled code calls: no way in from Python, and no reference counts."""
        return bare(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)

    def _cast(source: Any, target: Any, llvm: Any) -> Any:
        def cast(typingctx: Any, x: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                return builder.bitcast(args[0], llvm)

            return target(source), codegen

        return intrinsic(cast)

    bits_to_f32 = _cast(types.uint32, types.float32, ir.FloatType())
    f32_to_bits = _cast(types.float32, types.uint32, ir.IntType(32))
    bits_to_f64 = _cast(types.uint64, types.float64, ir.DoubleType())
    f64_to_bits = _cast(types.float64, types.uint64, ir.IntType(64))

    def _fma(kind: Any) -> Any:
        def fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                return builder.fma(*args)

            return kind(kind, kind, kind), codegen

        return intrinsic(fma)

    fma32 = _fma(types.float32)  #: a * b + c in float32, rounded once
    fma64 = _fma(types.float64)
else:
    SOURCE_DIGEST = "python"

    def jit(function: Any = None, /, *, cached: bool | None = None, **options: Any) -> Any:
        """The function itself: no compiler here."""
        return (lambda f: f) if function is None else function

    bare = inner = jit

    def bits_to_f32(x: Any) -> Any:
        return np.uint32(x).view(np.float32)

    def f32_to_bits(x: Any) -> Any:
        return np.float32(x).view(np.uint32)

    def bits_to_f64(x: Any) -> Any:
        return np.uint64(x).view(np.float64)

    def f64_to_bits(x: Any) -> Any:
        return np.float64(x).view(np.uint64)

    def fma32(a: Any, b: Any, c: Any) -> Any:
        """Exact product in float64, one float64 addition, rounded to odd before float32: one rounding in effect."""
        a, b, c = np.float64(a), np.float64(b), np.float64(c)
        product = a * b
        total = product + c
        if not np.isfinite(total):
            return np.float32(total)
        back = total - product
        error = (product - (total - back)) + (c - back)
        if error != 0.0:
            bits = total.view(np.int64)
            if not bits & 1:
                total = np.nextafter(total, np.inf if error > 0 else -np.inf)
                if not total.view(np.int64) & 1:
                    total = bits.view(np.float64)
        return np.float32(total)

    def fma64(a: Any, b: Any, c: Any) -> Any:
        """Through exact fractions."""
        from fractions import Fraction

        if not (np.isfinite(a) and np.isfinite(b)):
            return np.float64(a) * np.float64(b) + np.float64(c)
        if not np.isfinite(c):
            return np.float64(c)
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        if exact == 0:
            return np.float64(a) * np.float64(b) + np.float64(c)
        try:
            return np.float64(float(exact))
        except OverflowError:
            return np.float64(np.inf if exact > 0 else -np.inf)
