"""Counts behind the formulas: pipes that share instructions, kinds of access, ideal sectors."""

from dataclasses import replace

import numpy as np
import pytest

from sim.counters import Inst, Sm
from sim.isa import Op, Pipe, Space
from sim.occupancy import occupancy
from sim.report.counts import Counts


@pytest.fixture
def counts(make_result, profile):
    def make(**changes):
        return Counts(make_result(**changes), profile, occupancy(profile, 32, 32, 1024))

    return make


@pytest.mark.parametrize(("heavy", "lite"), [(60, 40), (100, 0), (0, 100)])
def test_instructions_of_two_pipes_are_divided_by_their_busy_cycles(counts, make_result, heavy, lite):
    sm = make_result().sm.copy()
    sm[:, Sm.PIPE + Pipe.FMAHEAVY] = 2 * heavy // 4
    sm[:, Sm.PIPE + Pipe.FMA] = 2 * lite // 4
    executed = counts(sm=sm).pipe_executed
    assert (executed[Pipe.FMAHEAVY], executed[Pipe.FMA]) == (heavy, lite)


def test_without_busy_cycles_the_first_pipe_has_them_all(counts, make_result):
    executed = counts(sm=make_result().sm * 0).pipe_executed
    assert (executed[Pipe.FMAHEAVY], executed[Pipe.FMA]) == (100, 0)


def test_generic_accesses_count_as_global(counts, make_result):
    program = make_result().program
    generic = [replace(i, space=Space.GENERIC) if i.op == Op.LD else i for i in program.instructions]
    c = counts(program=replace(program, instructions=generic))
    assert c.inst(Inst.EXECUTED, "global_ld") == 200


def test_each_request_needs_at_least_one_sector(counts, make_result):
    inst = make_result().inst.copy()
    inst[0, [Inst.SECTORS, Inst.BYTES_ASKED]] = (100, 400)  # 100 broadcasts of 4 bytes
    assert counts(inst=inst).ideal_sectors("global_ld") == 100


def test_ideal_is_never_more_than_was_needed(counts, make_result):
    inst = make_result().inst.copy()
    inst[0, [Inst.SECTORS, Inst.BYTES_ASKED]] = (50, 12800)
    assert counts(inst=inst).ideal_sectors("global_ld") == 50


def test_no_kind_means_all_instructions(counts):
    assert counts().inst(Inst.EXECUTED) == 700


def test_waves_count_blocks_an_sm(counts):
    assert counts().waves.blocks_per_wave == 4 * 32


def test_every_kind_of_memory_instruction_is_of_one_kind(counts):
    from sim.report.counts import MEMORY_KINDS

    c = counts()
    assert np.sum([c.of_kind(kind) for kind in MEMORY_KINDS], axis=0).max() == 1
