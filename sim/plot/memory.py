"""The memory chart: units of the memory system as boxes, what moved between them as arrows, as Nsight draws it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sim.plot.figure import headline, new_figure, subject
from sim.report.formatting import MISSING, short_number, with_unit
from sim.report.metrics.speed import ELAPSED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sim.report import Report

HEIGHT = 4.6
BOX: dict[str, Any] = {"boxstyle": "round,pad=0.02,rounding_size=0.06", "linewidth": 1.0, "edgecolor": "#444444"}

ARROW = {"arrowstyle": "-|>,head_width=0.35,head_length=0.6", "linewidth": 3, "shrinkA": 0, "shrinkB": 0}
UNMEASURED, EMPTY = "#9A9A9A", "#DDDDDD"  #: arrows that have no peak, and those on which nothing moved


@dataclass(frozen=True)
class Unit:
    """A box: its centre and size in the picture's own units, name, and hit rate in percent, if it has one."""

    name: str
    x: float
    y: float
    width: float
    height: float
    hit_rate: float | None = None


@dataclass(frozen=True)
class Flow:
    """An arrow between two units: what moved, and in percent of what could have; NaN where that has no measure."""

    start: str
    end: str
    text: str
    share: float
    y: float


def units_of(report: Report) -> list[Unit]:
    """The boxes, from the kernel on the left to DRAM on the right."""
    hits = {"L1/TEX cache": "l1tex__t_sector_hit_rate.pct", "L2 cache": "lts__t_sector_hit_rate.pct"}
    units = [
        Unit("Kernel", 0.5, 2.5, 0.9, 4.6),
        Unit("Global", 2.75, 4.1, 1.1, 0.8),
        Unit("Local", 2.75, 2.7, 1.1, 0.8),
        Unit("Shared", 2.75, 0.9, 1.1, 0.8),
        Unit("L1/TEX cache", 5.75, 3.4, 1.3, 2.2),
        Unit("Shared memory", 5.75, 0.9, 1.3, 0.8),
        Unit("L2 cache", 8.6, 3.4, 1.2, 2.2),
        Unit("Device memory", 11.25, 3.4, 1.2, 2.2),
    ]
    return [Unit(u.name, u.x, u.y, u.width, u.height, report[hits[u.name]] if u.name in hits else None) for u in units]


def flows_of(report: Report) -> list[Flow]:
    """The arrows. Kernel to address spaces: instructions; to L1 and shared memory: requests; beyond: bytes."""

    def total(*names: str) -> int:
        return sum(int(report[name]) for name in names)

    def instructions(*kinds: str) -> str:
        return f"{short_number(total(*(f'smsp__inst_executed_op_{kind}.sum' for kind in kinds)))} inst"

    def requests(*kinds: str) -> str:
        return f"{short_number(total(*(f'l1tex__t_requests_pipe_lsu_mem_{kind}.sum' for kind in kinds)))} req"

    def bytes_of(name: str) -> str:
        return " ".join(with_unit(report[name], "byte")).replace("byte", "B")

    global_kinds = ("global_ld", "global_st", "global_atom", "global_red", "ldgsts")
    l1_kinds = ("global_op_ld", "global_op_st", "global_op_atom", "global_op_red", "global_op_ldgsts")
    nothing = math.nan
    to_l2, from_l2 = (
        report[f"l1tex__m_{way}{ELAPSED}"] for way in ("l1tex2xbar_req_cycles_active", "xbar2l1tex_read_sectors")
    )
    wavefronts = short_number(report["l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"])
    shared = short_number(report["smsp__sass_inst_executed_op_shared.sum"])
    data_stage = report[f"l1tex__data_pipe_lsu_wavefronts{ELAPSED}"]
    read, written = (report[f"dram__bytes_{way}{ELAPSED}"] for way in ("read", "write"))
    return [
        Flow("Kernel", "Global", instructions(*global_kinds), nothing, 4.1),
        Flow("Kernel", "Local", instructions("local_ld", "local_st"), nothing, 2.7),
        Flow("Kernel", "Shared", f"{shared} inst", nothing, 0.9),
        Flow("Global", "L1/TEX cache", requests(*l1_kinds), report[f"l1tex__lsuin_requests{ELAPSED}"], 4.1),
        Flow("Local", "L1/TEX cache", requests("local_op_ld", "local_op_st"), nothing, 2.7),
        Flow("Shared", "Shared memory", f"{wavefronts} wavefronts", data_stage, 0.9),
        Flow("L2 cache", "L1/TEX cache", bytes_of("l1tex__m_xbar2l1tex_read_bytes.sum"), from_l2, 3.9),
        Flow("L1/TEX cache", "L2 cache", bytes_of("l1tex__m_l1tex2xbar_write_bytes.sum"), to_l2, 2.9),
        Flow("Device memory", "L2 cache", bytes_of("dram__bytes_read.sum"), read, 3.9),
        Flow("L2 cache", "Device memory", bytes_of("dram__bytes_write.sum"), written, 2.9),
    ]  # fmt: skip


def draw_memory(report: Report) -> Figure:
    """How much moved between the levels of memory, and how much each cache could answer itself.

    How to read it: follow the arrows from the kernel to the right. Between address spaces and caches
    stand requests of warps, further right bytes; the percentage below is the share of what that
    way can carry, and the darker an arrow, the nearer it is to its peak. A cache's hit rate stands in its
    box. Bytes that grow from right to left were used again from a cache; many bytes from device
    memory at a low hit rate mean data that is read once, or read again after it was thrown out.
    """
    figure = new_figure(HEIGHT)
    axes = figure.subplots()
    units = {unit.name: unit for unit in units_of(report)}
    for unit in units.values():
        _draw_unit(axes, unit)
    for flow in flows_of(report):
        _draw_flow(axes, flow, units)
    copies = int(report["smsp__inst_executed_op_ldgsts.sum"])
    if copies:
        _draw_copies(axes, units, copies)
    axes.set_xlim(0, 11.9)
    axes.set_ylim(0, 5.0)
    axes.set_axis_off()
    rate = " ".join(with_unit(report["dram__bytes.sum.per_second"], "byte/second")).replace("byte", "B")
    busy = report[f"gpu__dram_throughput{ELAPSED}"]
    headline(figure, subject(report), f"Device memory: {rate}, {busy:.0f} % of the peak")
    _draw_scale(figure, axes)
    return figure


def _color(share: float) -> tuple[float, float, float, float]:
    """The colour of a share of the peak in percent: pale to dark blue, which also tells apart in grey."""
    from matplotlib import colormaps

    return colormaps["Blues"](0.25 + 0.75 * min(max(share, 0.0), 100.0) / 100)


def _draw_unit(axes: Axes, unit: Unit) -> None:
    from matplotlib.patches import FancyBboxPatch

    corner = (unit.x - unit.width / 2, unit.y - unit.height / 2)
    axes.add_patch(FancyBboxPatch(corner, unit.width, unit.height, facecolor="#F4F4F4", **BOX))
    name = unit.name.replace(" ", "\n") if unit.height > 1 or len(unit.name) > 8 else unit.name
    axes.text(unit.x, unit.y + (0.25 if unit.hit_rate is not None else 0), name, ha="center", va="center", fontsize=9)
    if unit.hit_rate is not None:
        rate = MISSING if math.isnan(unit.hit_rate) else f"{unit.hit_rate:.1f} %"
        axes.text(unit.x, unit.y - 0.5, f"hit rate\n{rate}", ha="center", va="center", fontsize=8)


def _draw_flow(axes: Axes, flow: Flow, units: dict[str, Unit]) -> None:
    start, end = units[flow.start], units[flow.end]
    right = end.x > start.x
    side = 1 if right else -1
    x0, x1 = start.x + side * (start.width / 2 + 0.07), end.x - side * (end.width / 2 + 0.07)
    moved = not flow.text.startswith("0 ") and not flow.text.startswith("0.00 ")
    known = moved and not math.isnan(flow.share)
    color = _color(flow.share) if known else (UNMEASURED if moved else EMPTY)
    axes.annotate("", (x1, flow.y), (x0, flow.y), arrowprops=ARROW | {"color": color})
    ink = "black" if moved else "#999999"
    axes.text((x0 + x1) / 2, flow.y + 0.13, flow.text, ha="center", va="bottom", fontsize=8, color=ink)
    if known:
        axes.text((x0 + x1) / 2, flow.y - 0.13, f"{flow.share:.1f} %", ha="center", va="top", fontsize=8)


def _draw_copies(axes: Axes, units: dict[str, Unit], copies: int) -> None:
    """The way of asynchronous copies from L1 down to shared memory."""
    l1, shared = units["L1/TEX cache"], units["Shared memory"]
    y0, y1 = l1.y - l1.height / 2 - 0.07, shared.y + shared.height / 2 + 0.07
    axes.annotate("", (l1.x, y1), (l1.x, y0), arrowprops=ARROW | {"color": UNMEASURED})
    axes.text(
        l1.x + 0.2, (y0 + y1) / 2, f"{short_number(copies)} asynchronous copies", ha="left", va="center", fontsize=8
    )


def _draw_scale(figure: Figure, axes: Axes) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    colors = ListedColormap([_color(k) for k in range(101)])
    bar = figure.colorbar(
        ScalarMappable(Normalize(0, 100), colors), ax=axes, orientation="horizontal", shrink=0.35, aspect=35, pad=0.01
    )
    bar.set_label("% of the way's peak over the elapsed time", fontsize=8)
    bar.ax.tick_params(labelsize=8)
