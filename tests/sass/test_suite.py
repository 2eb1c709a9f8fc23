"""The card's validation suite from its machine code: results as NumPy has them, counts as the card counted them."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

import sim
from sim.program import Imm
from sim.sass.listing import parse_listing
from tests.silicon.sass_answers import answers, smallest_cases
from validation.suite import LISTING, SUITE, Case, all_cases, c_random, card, kernels, random_floats

here = pytest.mark.skipif(not (SUITE / LISTING).exists(), reason="the card's kernels are not here")

#: counters that do not depend on time
EXACT = (
    "smsp__inst_executed.sum",
    "smsp__thread_inst_executed.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "smsp__inst_executed_op_shared_ld.sum",
    "smsp__inst_executed_op_shared_st.sum",
    "launch__registers_per_thread",
    "launch__grid_size",
    "launch__block_size",
    "launch__shared_mem_per_block_static",
)
MOST_INSTRUCTIONS = 1_400_000
#: its inputs are float32 seen as bfloat16, whose products overflow in an order of their own
UNCHECKED = ("mm_wmma",)


def few() -> list[Case]:
    return list(smallest_cases(MOST_INSTRUCTIONS)) if (SUITE / LISTING).exists() else []


def test_glibc_random_numbers() -> None:
    assert c_random(1, 3).tolist() == [1804289383, 846930886, 1681692777]
    assert c_random(42, 2).tolist() == [71876166, 708592740]


@here
def test_the_cases_are_the_cards() -> None:
    assert len(all_cases()) == 217
    for case in all_cases():
        counted = card()[case.id]
        assert np.prod(case.grid) == counted["launch__grid_size"], case.label
        assert np.prod(case.block) == counted["launch__block_size"], case.label
        assert case.shared_bytes == counted["launch__shared_mem_per_block_dynamic"], case.label


@here
def test_every_kernel_translates_with_the_cards_registers() -> None:
    assert len(kernels()) == 50
    for case in all_cases():
        program = kernels()[case.kernel]
        counted = card()[case.id]
        assert program.registers == counted["launch__registers_per_thread"], case.label
        assert program.shared_static_bytes == counted["launch__shared_mem_per_block_static"], case.label
        assert program.has_control


@here
@pytest.mark.parametrize("case", few(), ids=lambda case: case.label)
def test_a_launch_computes_and_counts_what_the_card_does(case: Case) -> None:
    report = sim.simulate(case.launch())
    counted = card()[case.id]
    assert {name: float(report[name]) for name in EXACT} == {name: counted[name] for name in EXACT}
    if case.name not in UNCHECKED:
        for position, right in answers(case).items():
            got = report.outputs[f"arg{position}"].reshape(-1)
            np.testing.assert_allclose(got, right, rtol=1e-4, atol=2e-5)


@here
def test_immediates_are_those_of_the_encodings() -> None:
    """A 32-bit immediate operand stands in the encoding's second word."""
    other = ("SHFL", "ATOMS", "QSPC", "BAR")
    compared = 0
    listing = parse_listing(gzip.decompress((SUITE / LISTING).read_bytes()).decode())
    for name, kernel in listing.kernels.items():
        for raw, made in zip(kernel.instructions, kernels()[name].instructions, strict=False):
            for operand in (made.a, made.b, made.c):
                if isinstance(operand, Imm) and not made.text.startswith((*other, "CS2R")):
                    assert raw.encoding is not None
                    assert operand.bits == raw.encoding >> 32 & 0xFFFFFFFF, raw.text
                    compared += 1
    assert compared > 3000


@here
def test_a_wmma_product_of_sane_numbers() -> None:
    """The suite's own inputs are float32 seen as bfloat16, of which NumPy can say little."""
    n = 128
    a, b = (random_floats()[k * n * n :][: n * n].view(np.uint32) >> 16 for k in (0, 1))
    args = (a.astype(np.uint16), b.astype(np.uint16), sim.zeros(n * n), np.int32(n))
    report = sim.simulate(sim.Launch(kernels()["mm_wmma"], (n // 32, n // 32), 128, args))
    wide = [(x << 16).view(np.float32).astype(np.float64).reshape(n, n) for x in (a, b)]
    np.testing.assert_allclose(report.outputs["arg2"].reshape(n, n), wide[0] @ wide[1], rtol=1e-4, atol=1e-5)


@here
def test_a_compiled_kernel_is_recorded_and_replayed() -> None:
    case = next(case for case in all_cases() if case.label == "reduce_shfl(n=1048576)")
    launch = case.launch().with_(grid=64)
    trace = sim.record(launch)
    assert trace.report is not None
    assert sim.simulate(trace).cycles == trace.report.cycles
