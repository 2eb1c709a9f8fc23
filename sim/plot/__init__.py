"""Pictures of reports and sweeps. Plots know tables and reports, not the simulator, which only `explore` starts.

Each picture of a report is a method of `Report` as well: `report.draw_stalls()` is
`sim.plot.draw_stalls(report)`. All return matplotlib figures; docs/gallery.md shows them. `explore`
puts sliders over a workload's parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim.plot.access import draw_banks as draw_banks
    from sim.plot.access import draw_sectors as draw_sectors
    from sim.plot.bars import draw_pipes as draw_pipes
    from sim.plot.bars import draw_stalls as draw_stalls
    from sim.plot.blocks import draw_blocks as draw_blocks
    from sim.plot.correlation import draw_correlation as draw_correlation
    from sim.plot.figure import save_figure as save_figure
    from sim.plot.memory import draw_memory as draw_memory
    from sim.plot.occupancy import draw_occupancy as draw_occupancy
    from sim.plot.pipeline import draw_pipeline as draw_pipeline
    from sim.plot.roofline import draw_roofline as draw_roofline
    from sim.plot.sawtooth import draw_sawtooth as draw_sawtooth
    from sim.plot.sliders import explore as explore
    from sim.plot.source import draw_source as draw_source
    from sim.plot.warps import draw_divergence as draw_divergence
    from sim.plot.warps import draw_warps as draw_warps

#: Pictures of one report, which are methods of `Report` too, and where they are.
OF_REPORT = {
    "draw_banks": "sim.plot.access",
    "draw_blocks": "sim.plot.blocks",
    "draw_divergence": "sim.plot.warps",
    "draw_memory": "sim.plot.memory",
    "draw_occupancy": "sim.plot.occupancy",
    "draw_pipeline": "sim.plot.pipeline",
    "draw_pipes": "sim.plot.bars",
    "draw_roofline": "sim.plot.roofline",
    "draw_sectors": "sim.plot.access",
    "draw_source": "sim.plot.source",
    "draw_stalls": "sim.plot.bars",
    "draw_warps": "sim.plot.warps",
}
_HOME = OF_REPORT | {
    "draw_correlation": "sim.plot.correlation",
    "draw_sawtooth": "sim.plot.sawtooth",
    "explore": "sim.plot.sliders",
    "save_figure": "sim.plot.figure",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Import a picture when it is first used, so that matplotlib is loaded only then."""
    if name in _HOME:
        import importlib

        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'sim.plot' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
