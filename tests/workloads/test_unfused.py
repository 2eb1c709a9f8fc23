"""Attention kernel by kernel: right for any length; its bytes grow with n squared, FlashAttention's do not."""

from __future__ import annotations

import pytest

import sim
from sim.launch import Launch
from sim.profile import Profile, load_profile
from workloads.attention import flash, unfused


@pytest.fixture(scope="module")
def gpu() -> Profile:
    return load_profile("h200").override({"gpu.sm_count": 2, "gpu.gpc_count": 1})


@pytest.mark.parametrize(("b", "n", "d"), [(2, 64, 64), (1, 33, 64), (1, 200, 32), (1, 1030, 64)])
def test_the_launches_in_order_are_attention(gpu: Profile, b: int, n: int, d: int) -> None:
    device = sim.Device(gpu)
    run_and_check(device, unfused(b, 1, n, d, device=device), results=1)


@pytest.mark.parametrize(("n", "d"), [(128, 64), (70, 32), (33, 64)])
def test_the_launches_backward_give_the_gradients(gpu: Profile, n: int, d: int) -> None:
    device = sim.Device(gpu)
    run_and_check(device, unfused(1, 2, n, d, backward=True, device=device), results=4)


def run_and_check(device: sim.Device, launches: list[Launch], results: int) -> None:
    checked = 0
    for launch in launches:
        report = device.launch(launch)
        if launch.expected is not None:
            launch.check(report)
            checked += 1
    assert checked == results


def test_instructions_are_the_librarys(gpu: Profile) -> None:
    """Executed instructions a warp: 43 and 652 in PyTorch 2.11's scale and softmax of rows of 512 on an H200."""
    _, scale, softmax, _ = (sim.simulate(launch, gpu=gpu) for launch in unfused(1, 1, 512))
    for report, card in ((scale, 43), (softmax, 652)):
        warps = report.launch.blocks * report.launch.block[0] / 32
        assert report["smsp__inst_executed.sum"] / warps == pytest.approx(card, rel=0.1)


@pytest.mark.parametrize(("n", "registers", "instructions"), [(512, 32, 612), (1024, 48, 1188), (2048, 80, 2340)])
def test_the_softmax_is_what_nvcc_makes_of_it(gpu: Profile, n: int, registers: int, instructions: int) -> None:
    """Registers, which decide how many warps hide the loads, and instructions a warp, of the same statements in C++."""
    report = sim.simulate(unfused(1, 1, n)[2], gpu=gpu)
    assert report["launch__registers_per_thread"] == registers
    assert report["smsp__inst_executed.sum"] / n == pytest.approx(instructions, rel=0.01)


def test_scores_pass_through_memory_and_flash_keeps_them(gpu: Profile) -> None:
    """Sectors that the SMs exchange with L2, per head: 5 x n x n x 2 bytes and more, against n x d."""
    fused = {n: sim.simulate(flash(1, 2, n), gpu=gpu) for n in (256, 512)}
    whole = {n: [sim.simulate(launch, gpu=gpu) for launch in unfused(1, 2, n)] for n in (256, 512)}

    def stored(report: sim.Report) -> float:
        return report["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"]

    assert stored(fused[512]) == 2 * stored(fused[256])
    for n, reports in whole.items():
        passes = sum(map(stored, reports[:3])) * 32 / (2 * n * n * 2)
        assert passes == pytest.approx(3.0, rel=0.01)
        assert stored(reports[3]) == pytest.approx(stored(fused[n]), rel=0.1)


def test_rows_that_no_block_holds_are_refused() -> None:
    with pytest.raises(ValueError, match="n=8193: a block of the softmax holds rows of at most 8192"):
        unfused(1, 1, 8193)
