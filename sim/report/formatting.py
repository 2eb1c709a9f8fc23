"""Numbers and units as a reader wants them: grouped, scaled, few digits."""

from __future__ import annotations

import math

#: Units whose values are scaled by a prefix; the second word is how the scaled unit is written.
_SCALED = {"byte": "byte", "byte/second": "byte/s", "hz": "Hz"}
_SHORT = {"register/thread": "reg/thread"}
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K"))
_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))
MISSING = "n/a"


def number(value: float) -> str:
    """A count with thousands grouped, or two decimals; `n/a` for NaN."""
    if isinstance(value, float) and math.isnan(value):
        return MISSING
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.2f}"


def short_number(value: float) -> str:
    """A count in at most six characters: `9,999`, `12.3 K`, `5.51 M`."""
    for size, prefix, least in ((1e9, "G", 0.9995), (1e6, "M", 0.9995), (1e3, "K", 10)):
        if value >= least * size:
            return f"{value / size:.3g} {prefix}"
    return f"{int(value):,}"


def counted(value: float, noun: str) -> str:
    """`1 block`, `2 blocks`."""
    return f"{number(value)} {noun}{'s' * (value != 1)}"


def with_unit(value: float, unit: str) -> tuple[str, str]:
    """The number and the unit as printed, scaled where the unit has prefixes."""
    if isinstance(value, float) and math.isnan(value):
        return MISSING, "" if unit in ("", "%") else _SCALED.get(unit, unit)
    if unit == "ns":
        return _scale(value, _TIMES)
    if unit in _SCALED and abs(value) >= 1e3:
        digits, prefix = _scale(value, _PREFIXES)
        return digits, prefix + _SCALED[unit]
    return number(value), _SCALED.get(unit, _SHORT.get(unit, unit))


def _scale(value: float, steps: tuple[tuple[float, str], ...]) -> tuple[str, str]:
    size, name = next(((s, n) for s, n in steps if abs(value) >= s), steps[-1])
    return f"{value / size:,.2f}", name


def percent_text(value: float) -> str:
    """`41 %`, with a decimal below ten."""
    return MISSING if math.isnan(value) else f"{value:.0f} %" if value >= 10 else f"{value:.1f} %"
