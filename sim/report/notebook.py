"""A report in a notebook: a compact page of tabs with pictures and folds, in HTML and CSS alone.

Tabs are radio buttons of a form, which need no script and no names that a page could use
twice. Where a viewer drops forms and styles, as code hosts do, the tabs stand one below the other.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from sim.report.html import STYLE, head, section_fold, source_fold
from sim.report.sections import PAGE

if TYPE_CHECKING:
    from sim.report.report import Report

SECTIONS = {section.key: section for section in PAGE}


@dataclass(frozen=True)
class Tab:
    """A tab: the pictures that stand on top, by their names as methods, and the sections below, the first one open."""

    title: str
    pictures: tuple[str, ...]
    sections: tuple[str, ...]


TABS = (
    Tab("Speed of light", (), ("SpeedOfLight", "LaunchStats")),
    Tab("Memory", ("draw_memory",), ("MemoryWorkloadAnalysis", "Dram")),
    Tab("Compute", ("draw_roofline",), ("ComputeWorkloadAnalysis", "InstructionStats", "SourceCounters")),
    Tab("Warps", (), ("WarpStateStats", "SchedulerStats", "Occupancy")),
    Tab("Blocks", ("draw_blocks",), ("Tail", "WorkloadDistribution")),
    Tab("Source", (), ()),
)
TIMELINE = Tab("Timeline", ("draw_warps",), ())
TAB_STYLE = """
.tailwave form{margin:.5em 0}
.tailwave .tab{display:inline-block;padding:.25em .9em;cursor:pointer;font-weight:600;
 border-bottom:3px solid transparent}
.tailwave .tab input{position:absolute;opacity:0;pointer-events:none}
.tailwave .tab:has(input:focus-visible){outline:2px solid #4c8dd6}
.tailwave .tab:has(input:checked){border-bottom-color:#4c8dd6}
.tailwave .panel{padding:.4em 0;border-top:1px solid rgba(128,128,128,.3)}
.tailwave img{max-width:100%;background:white}
""".strip()


def tabs(report: Report) -> str:
    """An HTML fragment with its own style and pictures."""
    shown = (*TABS, TIMELINE) if report.has_timeline else TABS
    switches = "".join(_switch(tab, k == 0) for k, tab in enumerate(shown))
    panels = "".join(f'<div class="panel">{_panel(report, tab)}</div>' for tab in shown)
    style = f"{STYLE}\n{TAB_STYLE}\n{_switching(len(shown))}"
    return f'<div class="tailwave"><style>{style}</style>{head(report)}<form>{switches}{panels}</form></div>'


def _switch(tab: Tab, checked: bool) -> str:
    mark = " checked" if checked else ""
    return f'<label class="tab"><input type="radio" name="tab"{mark}/>{escape(tab.title)}</label>'


def _switching(count: int) -> str:
    """Rules that hide all panels but the one whose tab is chosen, where the browser can tell."""
    hide = ".tailwave form .panel{display:none}"
    show = ",".join(
        f".tailwave form:has(.tab:nth-of-type({k}) input:checked) .panel:nth-of-type({k})" for k in range(1, count + 1)
    )
    return f"@supports selector(:has(*)){{{hide}{show}{{display:block}}}}"


def _panel(report: Report, tab: Tab) -> str:
    parts = [_picture(report, name) for name in tab.pictures]
    parts += [section_fold(report, SECTIONS[key], k == 0) for k, key in enumerate(tab.sections)]
    if tab.title == "Source":
        parts.append(source_fold(report, is_open=True) or "<p>No instruction was executed.</p>")
    return "".join(parts)


def _picture(report: Report, name: str) -> str:
    """The picture in the page itself; nothing for a report that has none of this kind."""
    try:
        figure = getattr(report, name)()
    except ValueError:  # no floating-point work, or a saved report of a GPU that is not known here
        return ""
    data, size = figure._repr_png_()
    source = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    return f'<img alt="{escape(name)}" width="{size["width"]}" src="{source}"/>'
