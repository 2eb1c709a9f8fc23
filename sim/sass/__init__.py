"""The SASS reader: listings of compiled kernels as programs."""

from sim.sass.errors import NoKernelError, SassError
from sim.sass.kernels import Kernels, SourceText, load_sass

__all__ = ["Kernels", "NoKernelError", "SassError", "SourceText", "load_sass"]
