"""Advice names the line that costs most, and stays silent where there is nothing to say."""

import numpy as np
import pytest

from sim.counters import Inst, Stall
from sim.report.advice import MOST, advise
from sim.report.lines import line_columns


def starting(report, start):
    """The pieces of advice that begin with a word."""
    return [text for text in report.advice if text.startswith(start)]


def test_the_scattered_store_is_named_with_its_line(report):
    (text,) = starting(report, "Uncoalesced")
    assert "at k.py:11 (y[i] = tile[j] * a + b): 16.0 sectors a request where 4.0 would do" in text


def test_the_conflicting_load_is_named_with_its_line(report):
    (text,) = starting(report, "Bank conflicts")
    assert "at k.py:11" in text and "4.0 times the wavefronts" in text


def test_divergence_names_the_branch(make_report, make_result):
    inst = make_result().inst.copy()
    inst[:, Inst.THREADS] //= 2
    (text,) = starting(make_report(inst=inst), "Divergence")
    assert "at k.py:12 (with k.if_(i < n):): 50 branches part a warp's threads, 16.0 of 32 are active" in text


def test_a_tail_names_its_blocks(make_report):
    blocks = np.array([(k % 4, 100, 500) for k in range(128)] + [(0, 500, 900)], np.int64)
    (text,) = starting(make_report(grid=(129, 1, 1), blocks=blocks), "Tail")
    assert "1 blocks in a last wave of 128 cost 38 % of the SMs' time" in text


def test_at_most_three_pieces(make_report, make_result):
    inst = make_result().inst.copy()
    inst[:, Inst.THREADS] //= 2
    blocks = np.array([(k % 4, 100, 500) for k in range(128)] + [(0, 500, 900)], np.int64)
    assert len(make_report(inst=inst, grid=(129, 1, 1), blocks=blocks).advice) == MOST == 3


def test_a_kernel_without_flaws_gets_none(make_report, make_result):
    plain = make_result()
    inst, stall = plain.inst.copy(), plain.stall * 0
    inst[4, [Inst.SECTORS, Inst.WAVEFRONTS]] = (400, 100)
    inst[3, Inst.WAVEFRONTS] = 100
    inst[5, Inst.BRANCHES_DIVERGENT] = 0
    stall[:, Stall.SELECTED] = 100
    assert make_report(inst=inst, stall=stall, mem=plain.mem * 0).advice == ()


def test_an_instruction_without_a_line_is_named_by_its_address(make_report, make_result):
    from dataclasses import replace

    program = replace(make_result().program, source=[])
    (text,) = starting(make_report(program=program), "Uncoalesced")
    assert "instruction 0x0040 (STG.E" in text


def test_the_long_stall_line_is_named_where_no_unit_is_busy(report):
    values = dict(report.values)
    for name in ("gpu__compute_memory_throughput", "sm__throughput"):
        values[f"{name}.avg.pct_of_peak_sustained_elapsed"] = 10.0
    columns = report.content.instructions
    advice = advise(values, line_columns(columns), columns)
    assert any(text.startswith("Stall Long Scoreboard at k.py:11") for text in advice)


@pytest.mark.parametrize("text", ["short", "x" * 100])
def test_source_is_quoted_short(text):
    from sim.report.advice import shorten

    assert len(shorten(text)) == min(len(text), 48)
