"""A report's tables as CSV and Parquet."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from sim.report.report import Report

TABLES: dict[str, Callable[[Report], pd.DataFrame]] = {
    "metrics": lambda report: report.to_frame(),
    "lines": lambda report: report.lines(),
    "instructions": lambda report: report.instructions(),
    "blocks": lambda report: report.blocks,
    "timeline": lambda report: report.timeline,
}
TITLE = "tailwave"  #: key of a Parquet file's metadata that holds what ran where


def frame(report: Report, table: str) -> pd.DataFrame:
    """A table by name. Raises `ValueError` for a name that is none."""
    if table not in TABLES:
        raise ValueError(f"table={table!r}: use {', '.join(map(repr, TABLES))}")
    return TABLES[table](report)


def write_parquet(report: Report, table: str, path: Path) -> None:
    """A table as Parquet, with the report's title in the file's metadata. Raises `ImportError` without pyarrow."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError("Parquet needs pyarrow: pip install 'tailwave[parquet]'") from None
    columns = pyarrow.Table.from_pandas(frame(report, table), preserve_index=False)
    title = json.dumps({"title": report.header.title, "table": table})
    pyarrow.parquet.write_table(columns.replace_schema_metadata({**columns.schema.metadata, TITLE: title}), path)
