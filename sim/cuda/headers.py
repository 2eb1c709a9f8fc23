"""Headers of C that NVRTC does not have: what they declare for device code is built in, or CUDA's libcu++ has it."""

from __future__ import annotations

_MATH = """#pragma once
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#endif
"""

ALWAYS_INCLUDED = "math.h"  #: as `nvcc` does

#: file name -> text, for the sources' `#include`s
STANDARD_HEADERS: dict[str, str] = {
    **dict.fromkeys(("assert.h", "cassert", "stdio.h", "cstdio", "stdlib.h", "cstdlib", "string.h", "cstring"), ""),
    **dict.fromkeys(("math.h", "cmath"), _MATH),
    **dict.fromkeys(("stdint.h", "cstdint"), "#include <cuda/std/cstdint>\n"),
    **dict.fromkeys(("stddef.h", "cstddef"), "#include <cuda/std/cstddef>\n"),
    **dict.fromkeys(("float.h", "cfloat"), "#include <cuda/std/cfloat>\n"),
    **dict.fromkeys(("limits.h", "climits"), "#include <cuda/std/climits>\n"),
}
