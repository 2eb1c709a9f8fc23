"""What the card answered to the microbenchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def rows(number: int, **values: Any) -> list[dict[str, Any]]:
    """The answers of one microbenchmark that have these values."""
    text = (Path(__file__).parent / f"microbench_{number}.jsonl").read_text()
    found = [json.loads(line) for line in text.splitlines()]
    return [row for row in found if all(row.get(name) == value for name, value in values.items())]
