"""Where operands come from and where results go: registers, immediates, constants, RZ, masks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from sim.isa import FLAG_UNIFORM, FULL_MASK, PREDICATES, PT, RZ, UPT, WARP_SIZE, Col, Op, TimingClass
from sim.program import Const, Imm, Instruction, Program, Reg, UReg
from tests.core.one_instruction import UNTOUCHED, ZERO, D, lanes_of, run_one
from tests.core.values import few, integers, masks

BANK = [0x11111111 * k for k in range(16)]


@few
@given(integers, integers, masks)
def test_lanes_outside_the_mask_keep_their_value(a, b, mask):
    out = run_one(Op.IADD3, a, b, ZERO, mask=mask, preds={0: FULL_MASK ^ mask, 1: 0})
    active = lanes_of(mask)
    assert (out.d[0][active] == (a + b)[active]).all()
    assert (out.d[0][~active] == UNTOUCHED).all()
    assert (out.d[1:] == UNTOUCHED).all()
    assert out.pd[~active].all()


@pytest.mark.parametrize("operand", [Imm(0x1234), Const(0, 12), UReg(3), Imm(-5)])
@few
@given(integers, masks)
def test_shared_operands_serve_every_lane(operand, a, mask):
    value = {Imm: getattr(operand, "bits", 0) & FULL_MASK, Const: BANK[3], UReg: 0}[type(operand)]
    out = run_one(Op.IADD3, a, operand, ZERO, bank=BANK, mask=mask)
    active = lanes_of(mask)
    assert (out.d[0][active] == (a + np.uint32(value))[active]).all()


def test_a_64_bit_constant_is_two_words_and_a_negative_immediate_is_extended():
    ones = np.ones(32, np.uint32)
    out = run_one(Op.DADD, Const(0, 8), Imm(0), bank=BANK, nd=2)
    assert (out.double == BANK[3] << 32 | BANK[2]).all()
    assert (run_one(Op.IMAD, ones, Imm(-7), ZERO).d[0] == FULL_MASK - 6).all()


def test_a_destination_rz_changes_no_register():
    a = np.arange(32, dtype=np.uint32)
    out = run_one(Op.IMAD_WIDE, a, a, ZERO, nd=2, dst=Reg(RZ))
    assert (out.d == UNTOUCHED).all()
    assert not out.uniform.any()


def test_a_uniform_destination_is_written_in_all_lanes():
    out = run_one(Op.MOV, Imm(42), dst=UReg(5), flags=FLAG_UNIFORM, mask=0x10)
    assert (out.uniform[5] == 42).all()
    assert (np.delete(out.uniform, 5, 0) == 0).all()


@few
@given(integers, integers)
def test_a_destination_may_be_a_source(a, b):
    from sim.core.execute import contexts, execute

    instruction = Instruction(
        Op.IMAD_WIDE, TimingClass.IMAD_WIDE, "IMAD.WIDE", Reg(0), 2, Reg(0), Reg(1), Reg(0), 1, 1, 2
    )
    program = Program("one", [instruction], 4)
    U = np.zeros((8 + program.rows_per_warp, WARP_SIZE), np.uint32)
    U[8], U[9] = a, b
    preds = np.full((1, PREDICATES), FULL_MASK, np.int64)
    execute(program.decoded.code, 0, U, 8, preds, 0, FULL_MASK, contexts(1, [Op.IMAD_WIDE])[0])
    right = a.astype(np.uint64) * b.astype(np.uint64) + (a.astype(np.uint64) | b.astype(np.uint64) << np.uint64(32))
    assert (U[8] == right.astype(np.uint32)).all()
    assert (U[9] == (right >> np.uint64(32)).astype(np.uint32)).all()


@few
@given(integers, masks)
def test_a_discarded_predicate_result_leaves_pt_true(a, mask):
    from sim.core.execute import contexts, execute

    instruction = Instruction(Op.ISETP, TimingClass.SETP, "ISETP", a=Reg(0), b=Reg(0), na=1, nb=1, pd=PT, pe=UPT, x=5)
    program = Program("one", [instruction], 1)
    U = np.zeros((8 + program.rows_per_warp, WARP_SIZE), np.uint32)
    U[8] = a
    preds = np.full((1, PREDICATES), FULL_MASK, np.int64)
    execute(program.decoded.code, 0, U, 8, preds, 0, mask, contexts(1, [Op.ISETP])[0])
    assert (preds == FULL_MASK).all()


def test_a_context_without_the_group_is_refused():
    from sim._jit import COMPILED
    from sim.core.execute import contexts, execute

    if not COMPILED:
        pytest.skip("without a compiler there are no groups to fetch")
    program = Program("one", [Instruction(Op.FADD, TimingClass.FP32, "FADD", Reg(0), 1)], 1)
    U = np.zeros((8 + program.rows_per_warp, WARP_SIZE), np.uint32)
    preds = np.full((1, PREDICATES), FULL_MASK, np.int64)
    with pytest.raises(RuntimeError, match="contexts"):
        execute(program.decoded.code, 0, U, 8, preds, 0, FULL_MASK, contexts(1, [Op.MOV])[0])


def test_the_test_bench_agrees_with_the_decoded_form():
    program = Program("one", [Instruction(Op.MOV, TimingClass.MOV, "MOV", Reg(D), 1, Reg(3), na=1)], 32)
    row = program.decoded.code[0]
    assert (row[Col.D], row[Col.A], row[Col.B]) == (D, 3, -1)
