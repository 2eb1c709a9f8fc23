"""Kernels from source: CUDA C++ and cubins, by NVIDIA's own compiler and disassembler. No GPU or driver is needed."""

from sim.cuda.cubin import load_cubin
from sim.cuda.errors import CompileError, MissingToolError
from sim.cuda.source import compile_cuda

__all__ = ["CompileError", "MissingToolError", "compile_cuda", "load_cubin"]
