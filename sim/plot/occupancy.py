"""What-if curves of occupancy: warps an SM against registers, shared memory and block size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from sim.launch import LaunchError
from sim.occupancy import Occupancy, occupancy
from sim.plot.figure import BLUE, INK, ORANGE, headline, new_figure, subject, tidy
from sim.report.formatting import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sim.profile import Profile
    from sim.report import Report

KIB = 1024


def what_if(profile: Profile, threads: int, registers: int, shared_bytes: int) -> dict[str, pd.DataFrame]:
    """Theoretical occupancy when one of the three changes and the others stay.

    By "registers", "shared" and "threads" a table with the values of that one (`value`), the
    warps that an SM holds (`warps`) and what limits them (`limiters`). Values that CUDA refuses are left out.
    """
    limits = profile.occupancy
    kernel = {"threads": threads, "registers": registers, "shared": shared_bytes}
    values = {
        "registers": range(1, limits.max_registers_per_thread + 1),
        "shared": range(0, limits.shared_per_block_optin_bytes + 1, KIB),
        "threads": range(limits.warp_size, limits.max_threads_per_block + 1, limits.warp_size),
    }
    frames = {}
    for name, choices in values.items():
        rows = []
        for value in choices:
            fit = _fit(profile, **kernel | {name: value})
            if fit is not None:
                rows.append((value, fit.warps_per_sm, " and ".join(fit.limiters)))
        frames[name] = pd.DataFrame(rows, columns=["value", "warps", "limiters"])
    return frames


def _fit(profile: Profile, threads: int, registers: int, shared: int) -> Occupancy | None:
    try:
        return occupancy(profile, threads, registers, shared)
    except LaunchError:
        return None


def draw_occupancy(report: Report) -> Figure:
    """How many warps an SM would hold if the kernel used other registers, shared memory or block sizes.

    How to read it: each curve changes one quantity and leaves the other two; the orange dot is the
    kernel as it is. Steps down are where one block fewer fits. Left of a step there is occupancy to
    be had by using a little less; on a long flat stretch using less brings nothing, and more costs
    nothing.
    """
    threads, registers = int(report["launch__block_size"]), int(report["launch__registers_per_thread"])
    shared = int(report["launch__shared_mem_per_block_static"] + report["launch__shared_mem_per_block_dynamic"])
    profile = report.profile
    frames = what_if(profile, threads, registers, shared)
    now = occupancy(profile, threads, registers, shared)
    most = profile.occupancy.max_warps_per_sm
    figure = new_figure(3.3)
    panels = figure.subplots(1, 3, sharey=True)
    labels = {"registers": "registers a thread", "shared": "shared memory a block (KiB)", "threads": "threads a block"}
    at = {"registers": registers, "shared": shared / KIB, "threads": threads}
    for axes, (name, label) in zip(panels, labels.items(), strict=True):
        frame = frames[name]
        x = frame["value"] / (KIB if name == "shared" else 1)
        if name == "threads":
            axes.plot(x, frame["warps"], ".-", color=BLUE, linewidth=0.8, markersize=4)
        else:
            axes.step(x, frame["warps"], where="pre", color=BLUE, linewidth=1.4)
        axes.plot([at[name]], [now.warps_per_sm], "o", color=ORANGE, markersize=8, zorder=3)
        right = at[name] > 0.7 * float(x.max())
        axes.annotate(
            f"{at[name]:,.4g}", (at[name], now.warps_per_sm), (-7 if right else 7, 5), textcoords="offset points",
            ha="right" if right else "left", fontsize=9,
        )  # fmt: skip
        axes.set_xlabel(label, fontsize=9)
        axes.set_ylim(0, 1.12 * most)
        axes.axhline(most, color=INK, linewidth=0.8, linestyle=":")
        axes.tick_params(labelsize=8)
        tidy(axes, axis="y")
    panels[0].set_ylabel("warps an SM", fontsize=9)
    panels[0].set_yticks(range(0, most + 1, max(1, most // 4)))
    note = (
        f"{counted(now.blocks_per_sm, 'block')} of {counted(now.warps_per_block, 'warp')}: "
        f"{now.warps_per_sm} of {most} warps ({100 * now.fraction:.0f} %), limited by {' and '.join(now.limiters)}"
    )
    headline(figure, subject(report), note)
    return figure
