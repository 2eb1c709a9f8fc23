"""The SASS reader: listings of compiled kernels as programs."""

from sim.sass.errors import SassError
from sim.sass.kernels import Kernels, load_sass

__all__ = ["Kernels", "SassError", "load_sass"]
