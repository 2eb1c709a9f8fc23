"""docs/metrics.md is what the table of metrics says today."""

from pathlib import Path

import pytest

from sim.report.docs import formula_text, markdown
from sim.report.metrics import TABLE

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_page_is_current():
    text = PAGE.read_text(encoding="utf-8")
    assert text == markdown(), "run: python -m sim.report.docs > docs/metrics.md"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sm__cycles_active.avg", "active / sms"),
        ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", "inst(REQUESTS, 'global_ld')"),
        ("smsp__average_warps_issue_stalled_wait_per_issue_active.ratio", "ratio(stall(WAIT), issue_cycles)"),
        ("lts__cycles_active.avg.pct_of_peak_sustained_elapsed",
         "percent(mem(L2_CYCLES_BUSY), elapsed * profile.l2.slices)"),
    ],
)  # fmt: skip
def test_formulas_are_shown_with_their_values(name, text):
    assert formula_text(TABLE[name].formula) == text
