"""Kernels from CUDA C++, Numba-CUDA and cubins, by NVIDIA's own compilers and disassembler, without a GPU."""

from sim.cuda.cubin import load_cubin
from sim.cuda.errors import CompileError, MissingToolError
from sim.cuda.from_numba import compile_numba
from sim.cuda.source import compile_cuda

__all__ = ["CompileError", "MissingToolError", "compile_cuda", "compile_numba", "load_cubin"]
