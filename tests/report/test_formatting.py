"""Numbers as a reader wants them."""

import math

import pytest

from sim.report.formatting import number, percent_text, short_number, with_unit


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (1234567, "inst", ("1,234,567", "inst")),
        (0.5, "", ("0.50", "")),
        (2.0, "byte", ("2.00", "byte")),
        (135168, "byte", ("135.17", "Kbyte")),
        (4.8e12, "byte/second", ("4.80", "Tbyte/s")),
        (1.98e9, "hz", ("1.98", "GHz")),
        (950.0, "ns", ("950.00", "ns")),
        (2272.0, "ns", ("2.27", "us")),
        (3e9, "ns", ("3.00", "s")),
        (0.0, "ns", ("0.00", "ns")),
        (math.nan, "%", ("n/a", "")),
        (math.nan, "byte/second", ("n/a", "byte/s")),
    ],
)
def test_values_are_scaled_with_their_units(value, unit, shown):
    assert with_unit(value, unit) == shown


def test_a_number_that_is_none_is_not_available():
    assert number(math.nan) == percent_text(math.nan) == "n/a"


@pytest.mark.parametrize(("value", "text"), [(0.84, "0.8 %"), (9.96, "10.0 %"), (41.4, "41 %"), (100.0, "100 %")])
def test_percentages_have_a_decimal_below_ten(value, text):
    assert percent_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (9999, "9,999"),
        (10000, "10 K"),
        (12345, "12.3 K"),
        (999_499, "999 K"),
        (999_999, "1 M"),
        (5.51e9, "5.51 G"),
    ],
)
def test_short_numbers_have_three_digits_from_ten_thousand_on(value, text):
    assert short_number(value) == text and len(text) <= 6
