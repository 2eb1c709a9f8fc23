"""The roofline: what the GPU can do at each arithmetic intensity, and where kernels are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.plot.figure import BLACK, BLUE, GREEN, INK, ORANGE, headline, new_figure, tidy
from sim.report.flops import flops

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sim.profile import Profile
    from sim.report import Report

HEIGHT = 5.2
POINTS_AN_INCH = 72
NUMBER_POINTS = 13  #: between the numbers of two kernels
#: Levels of memory: colour, marker, and the metric of the bytes that crossed it.
LEVELS = {
    "L1": (GREEN, "^", "l1tex__t_bytes.sum"),
    "L2": (ORANGE, "s", "lts__t_bytes.sum"),
    "DRAM": (BLUE, "o", "dram__bytes.sum"),
}
DTYPE_NAMES = {
    "fp32": "FP32",
    "fp64": "FP64",
    "fp16": "FP16 (packed)",
    "tensor_fp16": "FP16 tensor",
    "tensor_bf16": "BF16 tensor",
    "tensor_tf32": "TF32 tensor",
    "tensor_fp64": "FP64 tensor",
    "tensor_int8": "INT8 tensor",
    "tensor_fp8": "FP8 tensor",
}


@dataclass(frozen=True)
class Ceilings:
    """Peaks of a GPU: bytes a second by level of memory, operations a second by data type (only those it has)."""

    bandwidth: dict[str, float]
    compute: dict[str, float]


def ceilings(profile: Profile) -> Ceilings:
    """The peaks of a profile: its own numbers, at its clock."""
    clock = profile.gpu.clock_mhz * 1e6
    l1 = profile.shared.banks * profile.shared.bank_bytes / profile.lsu.shared_wavefront_cycles * profile.gpu.sm_count
    l2 = profile.l2.slices * profile.l2.slice_bytes_per_cycle
    bandwidth = {"L1": l1 * clock, "L2": l2 * clock, "DRAM": profile.dram.peak_gbytes_per_s * 1e9}
    peaks = {name: getattr(profile.peak, name) * profile.gpu.sm_count * clock for name in DTYPE_NAMES}
    return Ceilings(bandwidth, {name: value for name, value in peaks.items() if value})


@dataclass(frozen=True)
class Point:
    """A kernel at one level of memory."""

    level: str
    intensity: float  #: operations a byte
    rate: float  #: operations a second


def points_of(report: Report) -> list[Point]:
    """Where a kernel is, by level of memory; levels that it moved no bytes through are left out."""
    work = sum(flops(report).values())
    found = []
    for level, (_, _, metric) in LEVELS.items():
        moved = report[metric]
        if work and moved > 0:
            found.append(Point(level, work / moved, work / report.seconds))
    return found


def draw_roofline(report: Report, *others: Report) -> Figure:
    """How many operations a second the GPU can do at each arithmetic intensity, and what the kernel does.

    How to read it: slanted lines are the bandwidths of DRAM, L2 and L1, flat ones the peaks of the data
    types. A kernel has a point for each level of memory: its operations a byte moved there, and its
    operations a second. The point of a level cannot lie above that level's slanted line, nor above the
    line of its data type. On a slanted line the kernel is bound by that memory: move fewer bytes.
    On the flat line it computes as fast as it can. Far below all lines, it waits: see the stalls.

    `others` are reports of the same GPU, drawn into the same picture, numbered. Raises
    `ValueError` for a kernel without floating-point or tensor operations.
    """
    reports = (report, *others)
    for each in reports:
        if not points_of(each):
            raise ValueError(f"{each.header.kernel}: it has no floating-point or tensor operations, so no roofline")
    work = [flops(each) for each in reports]
    top = ceilings(report.profile)
    kinds = [name for name in top.compute if any(name in kernel for kernel in work)]
    kinds += [name for name in ("fp32", "tensor_bf16") if name in top.compute and name not in kinds]
    points = [points_of(each) for each in reports]
    figure = new_figure(HEIGHT)
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.set_yscale("log")
    highest = max(top.compute[kind] for kind in kinds)
    least = min(point.rate for group in points for point in group)
    everywhere = [point.intensity for group in points for point in group]
    low = min([*everywhere, 0.3]) / 4
    high = max([*everywhere, 2 * highest / top.bandwidth["DRAM"]]) * 4
    bottom = min(least / 3, top.bandwidth["DRAM"] * low)
    axes.set_xlim(low, high)
    axes.set_ylim(bottom, highest * 3)
    _draw_ceilings(axes, top, kinds, (low, high), (bottom, highest * 3))
    for group in points:
        for point in group:
            color, marker, _ = LEVELS[point.level]
            axes.plot([point.intensity], [point.rate], marker, color=color, markeredgecolor="white", markersize=10)
        axes.plot([p.intensity for p in group], [p.rate for p in group], color=INK, linewidth=0.8, zorder=1)
    if others:
        _number(axes, points, HEIGHT * POINTS_AN_INCH / math.log10(highest * 3 / bottom))
    axes.set_xlabel("FLOP a byte", fontsize=9)
    axes.set_ylabel("FLOP/s", fontsize=9)
    axes.yaxis.set_major_formatter(lambda value, _: _rate(value))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.tick_params(labelsize=8)
    tidy(axes, axis="both")
    named = [
        f"{f'{k + 1}: ' if others else ''}{each.header.kernel}: {_rate(group[0].rate)}FLOP/s; FLOP a byte: "
        + ", ".join(f"{point.level} {point.intensity:.3g}" for point in group)
        for k, (each, group) in enumerate(zip(reports, points, strict=True))
    ]
    headline(figure, f"Roofline of {report.header.gpu}", *named)
    return figure


def _number(axes: Axes, points: list[list[Point]], points_a_decade: float) -> None:
    """A number to the right of each kernel's points, apart from the others' where kernels are as fast."""
    ends = [max(group, key=lambda p: p.intensity) for group in points]
    at = -math.inf
    for k in sorted(range(len(ends)), key=lambda k: (ends[k].rate, -k)):
        own = points_a_decade * math.log10(ends[k].rate)
        at = max(own, at + NUMBER_POINTS)
        place = (ends[k].intensity, ends[k].rate)
        axes.annotate(str(k + 1), place, (9, at - own), textcoords="offset points", va="center", fontsize=9)


def _draw_ceilings(
    axes: Axes, top: Ceilings, kinds: list[str], across: tuple[float, float], up: tuple[float, float]
) -> None:
    """Slanted lines by level, flat ones by type, each with its name; a slanted one ends at the highest flat one."""
    highest = max(top.compute[kind] for kind in kinds)
    for level, (color, marker, _) in LEVELS.items():
        speed = top.bandwidth[level]
        axes.plot([up[0] / speed, highest / speed], [up[0], highest], color=color, linewidth=1.4)
        axes.plot([], [], marker, color=color, label=f"{level}  {speed / 1e12:.3g} TB/s")
    for kind in kinds:
        rate = top.compute[kind]
        axes.plot([rate / top.bandwidth["L1"], across[1]], [rate, rate], color=BLACK, linewidth=1.2)
        name = f"{DTYPE_NAMES[kind]}  {_rate(rate)}FLOP/s"
        # Slanted lines pass below the highest; above the others stand points of kernels.
        side, where = (3, "bottom") if rate == highest else (-3, "top")
        axes.annotate(name, (across[1], rate), (-2, side), textcoords="offset points", ha="right", va=where, fontsize=8)
    title = "bandwidth, and the points of kernels"
    axes.legend(loc="lower right", frameon=False, fontsize=8, title=title, title_fontsize=8)


def _rate(value: float) -> str:
    """A number of operations a second with its prefix."""
    for size, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K")):
        if value >= size:
            return f"{value / size:.3g} {prefix}"
    return f"{value:.3g} "
