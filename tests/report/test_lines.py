"""Counts by source line: sums, ratios, order, and instructions that have no line."""

import math

from sim.counters import Stall


def row(report, line):
    frame = report.lines()
    return frame[frame["line"] == line].iloc[0]


def test_lines_are_sorted_and_line_less_instructions_come_last(report):
    assert report.lines()["line"].tolist() == [10, 11, 12, 0x60]


def test_counts_of_a_lines_instructions_add_up(report):
    assert row(report, 11)["instructions"] == 300


def test_sectors_are_divided_by_the_requests_that_look_them_up(report):
    assert row(report, 11)["sectors_per_request"] == 16.0  # the shared load on the line has no sectors


def test_a_line_without_global_accesses_has_no_sectors_per_request(report):
    assert math.isnan(row(report, 12)["sectors_per_request"])


def test_ideal_sectors_hold_the_bytes_asked_for(report):
    assert row(report, 11)["ideal_sectors"] == 12800 // 32


def test_bank_conflicts_are_of_shared_memory_alone(report):
    assert row(report, 11)["bank_conflicts"] == 300  # not the scattered store's 300 extra passes


def test_top_stall_is_the_most_frequent_wait(report):
    assert row(report, 11)["top_stall"] == "long_scoreboard"


def test_stall_cycles_leave_out_issuing_and_being_ready(report):
    assert row(report, 11)["stall_cycles"] == 19000
    assert row(report, 0x60)["stall_cycles"] == 0


def test_stall_columns_of_all_lines_hold_every_warp_cycle(report):
    lines = report.lines()
    assert lines[[f"stall_{reason.name.lower()}" for reason in Stall]].sum().sum() == 20000
    assert lines["warp_cycles"].sum() == 20000


def test_a_line_less_instruction_shows_its_sass(report):
    assert row(report, 0x60)["source"] == "EXIT"


def test_instructions_show_guards_and_operands(report):
    assert report.instructions()["sass"].tolist()[5] == "@P0 BRA 0x0"


def test_opcodes_are_counted_without_modifiers(report):
    counts = report.opcodes().set_index("opcode")["instructions"].to_dict()
    assert counts == dict.fromkeys(("BRA", "EXIT", "FFMA", "LDG", "LDS", "STG", "STS"), 100)


def test_two_instructions_on_different_lines_of_two_files_stay_apart(make_report, make_result):
    from dataclasses import replace

    from sim.program import SourceLine

    program = make_result().program
    program = replace(
        program, source=[SourceLine("b.py", 1, "x"), SourceLine("a.py", 1, "y"), SourceLine("a.py", 2, "z")]
    )
    lines = make_report(program=program).lines()
    assert lines[["file", "line"]].values.tolist()[:3] == [["a.py", 1], ["a.py", 2], ["b.py", 1]]
