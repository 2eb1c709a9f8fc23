"""CSV, Parquet and Nsight's CSV: what reads them finds the report's figures."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pandas as pd
import pytest

from sim.report import Report
from sim.report.exports.nsight_csv import raw_page
from sim.report.exports.tables import TABLES, TITLE
from sim.report.metrics import TABLE


@pytest.mark.parametrize("table", TABLES)
def test_a_csv_file_holds_the_table(tiled: Report, tmp_path: Path, table: str) -> None:
    path = tmp_path / "table.csv"
    tiled.to_csv(path, table)
    wanted = TABLES[table](tiled)
    read = pd.read_csv(path, keep_default_na=False, na_values=[""]) if table == "metrics" else pd.read_csv(path)
    assert list(read.columns) == list(wanted.columns) and len(read) == len(wanted)
    numbers = wanted.select_dtypes("number").columns
    assert len(numbers) and read[numbers].to_numpy() == pytest.approx(wanted[numbers].to_numpy(), nan_ok=True)


@pytest.mark.parametrize("table", TABLES)
def test_a_parquet_file_holds_the_table_with_its_types(tiled: Report, tmp_path: Path, table: str) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "table.parquet"
    tiled.to_parquet(path, table)
    wanted = TABLES[table](tiled)
    pd.testing.assert_frame_equal(pd.read_parquet(path), wanted)
    metadata = parquet.read_schema(path).metadata
    assert json.loads(metadata[TITLE.encode()]) == {"title": tiled.header.title, "table": table}


def test_an_unknown_table_is_refused_and_nothing_written(tiled: Report, tmp_path: Path) -> None:
    for write in (tiled.to_csv, tiled.to_parquet):
        with pytest.raises(ValueError, match="table='stalls': use 'metrics', 'lines'"):
            write(tmp_path / "table", "stalls")
    assert not list(tmp_path.iterdir())


def test_nsights_raw_page_is_columns_units_and_a_line_a_launch(tiled: Report, plain: Report) -> None:
    text = raw_page([tiled, plain])
    columns, units, *launches = csv.reader(text.splitlines())
    assert ",".join(columns[:11]) == (
        "ID,Process ID,Process Name,Host Name,Kernel Name,Context,Stream,Block Size,Grid Size,Device,CC"
    )
    assert columns[11:] == sorted(TABLE)
    assert units == [""] * 11 + [TABLE[name].unit for name in columns[11:]]
    assert [launch[0] for launch in launches] == ["0", "1"]
    assert all(line.startswith('"') and line.endswith('"') for line in text.splitlines())
    found = dict(zip(columns, launches[0], strict=True))
    assert found["Kernel Name"] == "tiled_kernel"
    assert (found["Block Size"], found["Grid Size"], found["CC"]) == (
        "(8, 8, 1)",
        "(4, 4, 1)",
        tiled.header.compute_capability,
    )


def test_scripts_made_for_the_profiler_read_it(tiled: Report, tmp_path: Path) -> None:
    """The two usual ways: pandas with the line of units left out, and a reader that strips separators."""
    path = tmp_path / "raw.csv"
    tiled.to_nsight_csv(path)
    frame = pd.read_csv(path, skiprows=[1], thousands=",")
    assert frame["sm__cycles_elapsed.max"].item() == tiled.cycles
    with open(path, newline="") as file:
        units, row = csv.DictReader(file)
    assert units["gpu__time_duration.sum"] == "ns"
    for name, value in tiled.values.items():
        text = row[name]
        read = math.nan if text == "n/a" else float(text.replace(",", ""))
        assert read == value or (math.isnan(read) and math.isnan(value)), name
