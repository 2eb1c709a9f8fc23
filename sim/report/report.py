"""A report: what a launch did, as numbers by Nsight's names, tables, text, HTML and JSON."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from functools import cached_property
from types import MethodType
from typing import TYPE_CHECKING, Any, overload

import numpy.typing as npt

from sim.counters import LaunchResult
from sim.files import whole_file
from sim.launch import Launch
from sim.occupancy import Occupancy
from sim.profile import Profile, load_profile
from sim.report.content import Content, Header, content_of
from sim.report.lines import LINE_ORDER, Columns, line_columns
from sim.report.metrics import BREAKDOWNS, TABLE, unknown_metric
from sim.report.sections import TITLES
from sim.report.verdict import Verdict
from sim.timeline import Timeline, TimelineError

if TYPE_CHECKING:
    import pandas as pd

    from sim import plot
    from sim.report.comparison import Comparison


class Report:
    """Everything that a profiler's page shows of one launch; it knows no SM.

    `print(report)` is the page, `report["sm__cycles_elapsed.max"]` one metric by
    Nsight's name. A metric without a meaning for this launch, such as the hit rate of
    no accesses, is NaN. `outputs` holds the arrays that the kernel left, by parameter
    name, and `launch` what ran, where the report comes from a device; a saved report
    keeps neither.
    """

    def __init__(
        self,
        result: LaunchResult,
        profile: Profile,
        occupancy: Occupancy,
        *,
        outputs: Mapping[str, npt.NDArray[Any]] | None = None,
        launch: Launch | None = None,
    ) -> None:
        self.content = content_of(result, profile, occupancy, launch.params if launch else {})
        self.outputs: Mapping[str, npt.NDArray[Any]] = {} if outputs is None else outputs
        self.launch = launch
        self._timeline = result.timeline
        self._profile: Profile | None = profile

    @classmethod
    def of(cls, content: Content) -> Report:
        """A report with this content, such as a saved one."""
        report = cls.__new__(cls)
        report.content, report.outputs, report.launch = content, {}, None
        report._timeline = report._profile = None
        return report

    @property
    def header(self) -> Header:
        """What ran, where."""
        return self.content.header

    @property
    def profile(self) -> Profile:
        """The GPU that it ran on.

        Of a saved report it is the profile of that name as it is now. Raises `ProfileError`
        if there is none, as where values were overridden.
        """
        if self._profile is None:
            self._profile = load_profile(self.header.profile)
        return self._profile

    @property
    def verdict(self) -> Verdict:
        """What bounds the kernel, and the rule that says so."""
        return self.content.verdict

    @property
    def advice(self) -> tuple[str, ...]:
        """Up to three lines of advice, weightiest first."""
        return self.content.advice

    @property
    def values(self) -> Mapping[str, int | float]:
        """All metrics by name."""
        return self.content.values

    # -- single figures ----------------------------------------------------------------

    def __getitem__(self, name: str) -> int | float:
        """A metric by Nsight's name; `KeyError` with close matches, or the reason why there is none."""
        try:
            return self.values[name]
        except KeyError:
            raise unknown_metric(name) from None

    def __contains__(self, name: object) -> bool:
        return name in self.values

    @property
    def cycles(self) -> int:
        """`sm__cycles_elapsed.max`: launch to drain."""
        return int(self.values["sm__cycles_elapsed.max"])

    @property
    def seconds(self) -> float:
        return self.values["gpu__time_duration.sum"] * 1e-9

    @property
    def waves(self) -> int:
        """Waves of blocks, the last one counted whole."""
        return int(self.values["tailwave__waves"])

    @property
    def tail_utilization(self) -> float:
        """Share of the last wave's places that hold a block, 0 to 1."""
        return self.values["tailwave__last_wave_blocks"] / self.values["tailwave__blocks_per_wave"]

    # -- tables ------------------------------------------------------------------------

    def to_frame(self) -> pd.DataFrame:
        """One row a metric: `section`, `name` (its label), `metric` (Nsight's name), `unit`, `value`."""
        import pandas as pd

        rows = [
            (TITLES[TABLE[name].section], TABLE[name].label, name, TABLE[name].unit, value)
            for name, value in self.values.items()
        ]
        return pd.DataFrame(rows, columns=["section", "name", "metric", "unit", "value"])

    @cached_property
    def line_columns(self) -> Columns:
        """The table of `lines()` as plain columns."""
        return line_columns(self.content.instructions)

    def lines(self) -> pd.DataFrame:
        """One row a source line, sorted by file and line.

        Counts are of warp instructions; `stall_cycles` are warp-cycles in which a warp
        waited at the line, `top_stall` the reason for most of them, and `stall_*` the
        warp-cycles by reason. Instructions without a line stand one by one, by address.
        """
        import pandas as pd

        return pd.DataFrame({name: self.line_columns[name] for name in LINE_ORDER})

    def instructions(self) -> pd.DataFrame:
        """One row an instruction, in program order: its SASS, its source line, its counts and stalls."""
        import pandas as pd

        return pd.DataFrame(self.content.instructions)

    def opcodes(self) -> pd.DataFrame:
        """Executed warp instructions by basic opcode, most first."""
        import pandas as pd

        return pd.DataFrame(self.opcode_counts(), columns=["opcode", "instructions"])

    def opcode_counts(self) -> list[tuple[str, int]]:
        """`(opcode, executed warp instructions)`, most first; equal counts by name."""
        totals: dict[str, int] = {}
        columns = self.content.instructions
        for text, count in zip(columns["sass"], columns["instructions"], strict=True):
            words = text.split()
            opcode = (words[1] if words[0].startswith("@") else words[0]).partition(".")[0]
            totals[opcode] = totals.get(opcode, 0) + count
        return sorted(((op, n) for op, n in totals.items() if n), key=lambda item: (-item[1], item[0]))

    @property
    def blocks(self) -> pd.DataFrame:
        """When and where each block ran, in grid order: `sm`, `start`, `end` in cycles from launch."""
        import pandas as pd

        return pd.DataFrame(self.content.block_times, columns=["sm", "start", "end"])

    @property
    def has_timeline(self) -> bool:
        """Whether SMs were recorded over time."""
        return self._timeline is not None

    @property
    def recorded(self) -> Timeline:
        """What was recorded over time: intervals, addresses, the SMs.

        Raises `TimelineError` where nothing was, or the report was loaded from a file.
        """
        if self._timeline is None:
            raise TimelineError(
                f"{self.header.kernel}: no timeline was recorded; simulate it with timeline=0 (an SM, or several)"
            )
        return self._timeline

    @property
    def timeline(self) -> pd.DataFrame:
        """What the recorded SMs did over time, one row an interval; docs/timeline.md says what each column is.

        `sm`, `track` ("warp", "load", "copy"), `slot`, `block`, `warp`, `start`, `end` in cycles
        from launch, `state` (a stall reason, "selected" for an issue; "active" on other
        tracks), `pc`, `active` and `on` (lanes, at an issue), `access` (row of
        `recorded.addresses`, or -1). Raises `TimelineError` where nothing was recorded.
        """
        return self.recorded.frame

    def pipeline(self) -> pd.DataFrame:
        """When TMA, tensor cores and epilogues of the recorded SMs were busy, one row a span.

        `sm`, `unit`, `block`, `warpgroup` (of the block: its warps 4 k to 4 k + 3), `start`, `end` in
        cycles from launch. `unit` is "tma" (copies that these warps issued are under way), "tensor" (one
        of their warpgroup products has tensor cores) or "epilogue" (from the end of a warp's product to
        its last store to global memory before its next product). Spans of one warpgroup and unit that
        touch are one row. Raises `TimelineError` where nothing was recorded.
        """
        from sim.report.pipeline import spans

        return spans(self)

    def tensor_utilization(self, step: int = 100) -> pd.DataFrame:
        """How busy warpgroup products kept the tensor cores of the recorded SMs, one row for `step` cycles.

        `sm`, `start`, `end` in cycles from launch, `utilization` (0 to 1: share of the sub-cores' cycles
        in which their tensor cores had a product). The last row of an SM may be shorter. Raises
        `TimelineError` where nothing was recorded, `ValueError` for a step below 1.
        """
        from sim.report.pipeline import utilization

        return utilization(self, step)

    def breakdown(self, name: str) -> pd.DataFrame:
        """What a throughput figure is the largest of: `name`, `metric`, `value`, largest first.

        Raises `KeyError` for a metric that has no breakdown.
        """
        import pandas as pd

        if name not in BREAKDOWNS:
            raise KeyError(f"{name!r} has no breakdown; these have one: {', '.join(BREAKDOWNS)}")
        rows = [(TABLE[part].label, part, self.values[part]) for part in BREAKDOWNS[name]]
        frame = pd.DataFrame(rows, columns=["name", "metric", "value"])
        return frame.sort_values("value", ascending=False, kind="stable", ignore_index=True)

    def compare(self, other: Report) -> Comparison:
        """Two reports side by side: `metric`, `unit`, `this`, `other`, `ratio` (this over other).

        Shown, it is the metrics that changed, marked: ▲ where this report has more, ▼ where it has less.
        """
        from sim.report.comparison import COLUMNS, Comparison

        rows = []
        for name, value in self.values.items():
            against = other.values.get(name, math.nan)
            rows.append((name, TABLE[name].unit, value, against, value / against if against else math.nan))
        return Comparison(rows, columns=COLUMNS)

    # -- pictures: the functions of `sim.plot`, each with what it shows and how to read it ---

    if TYPE_CHECKING:
        draw_banks = plot.draw_banks
        draw_blocks = plot.draw_blocks
        draw_divergence = plot.draw_divergence
        draw_memory = plot.draw_memory
        draw_occupancy = plot.draw_occupancy
        draw_pipeline = plot.draw_pipeline
        draw_pipes = plot.draw_pipes
        draw_roofline = plot.draw_roofline
        draw_sectors = plot.draw_sectors
        draw_source = plot.draw_source
        draw_stalls = plot.draw_stalls
        draw_warps = plot.draw_warps
    else:

        def __getattr__(self, name: str) -> Any:
            """`draw_*`: a picture of `sim.plot`, which is loaded when it is first used."""
            if name.startswith("draw_"):
                from sim import plot

                if name in plot.OF_REPORT:
                    return MethodType(getattr(plot, name), self)
            raise AttributeError(f"a report has no attribute {name!r}", name=name, obj=self)

        def __dir__(self) -> list[str]:
            from sim import plot

            return sorted({*super().__dir__(), *plot.OF_REPORT})

    # -- documents ---------------------------------------------------------------------

    def __str__(self) -> str:
        from sim.report.text import page

        return page(self)

    def __repr__(self) -> str:
        return f"<Report {self.header.title}: {self.cycles:,} cycles>"

    def _repr_html_(self) -> str:
        from sim.report.notebook import tabs

        return tabs(self)

    @overload
    def to_json(self) -> str: ...

    @overload
    def to_json(self, path: str | os.PathLike[str]) -> None: ...

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Canonical JSON, byte-identical for equal reports: as a string, or written whole to `path`."""
        from sim.report.archive import dump

        return _text(dump(self), path)

    @classmethod
    def from_json(cls, source: str | os.PathLike[str]) -> Report:
        """The report in a file, or in a string of JSON that starts with a brace.

        Raises `ReportError` for text that is no report, or one of another version.
        """
        from sim.report.archive import load

        return load(source)

    @overload
    def to_csv(self, path: None = None, table: str = "metrics") -> str: ...

    @overload
    def to_csv(self, path: str | os.PathLike[str], table: str = "metrics") -> None: ...

    def to_csv(self, path: str | os.PathLike[str] | None = None, table: str = "metrics") -> str | None:
        """A table as CSV: "metrics" (`to_frame()`), "lines", "instructions", "blocks" or "timeline"."""
        from sim.report.exports.tables import frame

        return _text(frame(self, table).to_csv(index=False, lineterminator="\n"), path)

    def to_parquet(self, path: str | os.PathLike[str], table: str = "metrics") -> None:
        """A table, as for `to_csv`, as Parquet. Raises `ImportError` without pyarrow (extra `parquet`)."""
        from sim.report.exports.tables import write_parquet

        with whole_file(path) as file:
            write_parquet(self, table, file)

    @overload
    def to_nsight_csv(self, path: None = None) -> str: ...

    @overload
    def to_nsight_csv(self, path: str | os.PathLike[str]) -> None: ...

    def to_nsight_csv(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """The metrics as `ncu --csv --page raw --print-units base` prints them, for scripts that read that."""
        from sim.report.exports.nsight_csv import raw_page

        return _text(raw_page([self]), path)

    @overload
    def to_perfetto(self, path: None = None) -> str: ...

    @overload
    def to_perfetto(self, path: str | os.PathLike[str]) -> None: ...

    def to_perfetto(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Blocks, and warps, loads and copies of the recorded SMs, over time, for ui.perfetto.dev and chrome://tracing.

        One microsecond of the file is one SM cycle. Without a recorded SM it has blocks only.
        A name that ends in `.gz` makes a file a tenth of the size, which Perfetto opens as well.
        """
        from sim.report.exports.chrome_trace import lines_of, write

        if path is None:
            return "".join(lines_of(self))
        with whole_file(path) as file:
            write(self, file)
        return None

    @overload
    def to_html(self, path: None = None) -> str: ...

    @overload
    def to_html(self, path: str | os.PathLike[str]) -> None: ...

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """The report as one HTML file that needs no network: the page, and a timeline to zoom and point at.

        Without a recorded SM the timeline has blocks only.
        """
        from sim.report.exports.web_page import dump

        return _text(dump(self), path)


def _text(text: str, path: str | os.PathLike[str] | None) -> str | None:
    """The text itself, or written whole to `path`."""
    if path is None:
        return text
    with whole_file(path) as file:
        file.write_text(text, encoding="utf-8", newline="\n")
    return None
