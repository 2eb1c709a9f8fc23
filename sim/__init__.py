"""Tailwave: a cycle-approximate GPU simulator.

`sim.simulate(launch, gpu="h200")` runs one kernel and returns its Report;
`sim.kernel` makes a kernel of a Python function; `sim.Device` keeps memory and
caches between kernels; `sim.sweep` runs a workload over sizes and GPUs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim.builder import kernel as kernel
    from sim.cuda import compile_cuda as compile_cuda
    from sim.cuda import compile_numba as compile_numba
    from sim.cuda import load_cubin as load_cubin
    from sim.device import Device as Device
    from sim.device import DeviceArray as DeviceArray
    from sim.device import simulate as simulate
    from sim.launch import Launch as Launch
    from sim.launch import LaunchError as LaunchError
    from sim.launch import OutputArray as OutputArray
    from sim.launch import zeros as zeros
    from sim.profile import Profile as Profile
    from sim.profile import load_profile as load_profile
    from sim.program import Program as Program
    from sim.report import Report as Report
    from sim.sass import load_sass as load_sass
    from sim.sweeps import sweep as sweep
    from sim.tensor_maps import TensorMap as TensorMap
    from sim.tensor_maps import tensor_map as tensor_map
    from sim.trace import Trace as Trace
    from sim.trace import record as record

__version__ = "0.1.0"

_HOME = {
    "kernel": "sim.builder",
    "compile_cuda": "sim.cuda",
    "compile_numba": "sim.cuda",
    "load_cubin": "sim.cuda",
    "Device": "sim.device",
    "DeviceArray": "sim.device",
    "simulate": "sim.device",
    "Launch": "sim.launch",
    "LaunchError": "sim.launch",
    "OutputArray": "sim.launch",
    "zeros": "sim.launch",
    "Profile": "sim.profile",
    "load_profile": "sim.profile",
    "Program": "sim.program",
    "Report": "sim.report",
    "load_sass": "sim.sass",
    "sweep": "sim.sweeps",
    "TensorMap": "sim.tensor_maps",
    "tensor_map": "sim.tensor_maps",
    "Trace": "sim.trace",
    "record": "sim.trace",
}

__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import sim` stays quick."""
    if name in _HOME:
        import importlib

        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'sim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
