"""Sweeps: a workload at many sizes and on many GPUs, on many processes or a cluster, as a table."""

from sim.sweeps.errors import SweepError, SweepStopped
from sim.sweeps.point import RESULT_COLUMNS
from sim.sweeps.sweeping import sweep

__all__ = ["RESULT_COLUMNS", "SweepError", "SweepStopped", "sweep"]
