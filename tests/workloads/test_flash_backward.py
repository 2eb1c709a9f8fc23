"""FlashAttention's gradients are NumPy's, for whole and partial tiles, causal or not."""

from __future__ import annotations

import pytest

import sim
from sim.profile import load_profile
from workloads.attention import flash_training


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("n", "d"), [(128, 64), (256, 64), (200, 64), (70, 32)])
def test_gradients_are_right(n: int, d: int, causal: bool) -> None:
    device = sim.Device(load_profile("h200").override({"gpu.sm_count": 2, "gpu.gpc_count": 1}))
    launches = flash_training(1, 2, n, d, causal, device=device)
    for launch in launches:
        report = device.launch(launch)
        if launch.expected is not None:
            launch.check(report)


@pytest.mark.parametrize("n", [256, 300])
def test_gradients_after_the_original_forward_pass_are_right(n: int) -> None:
    device = sim.Device(load_profile("a100_sxm_40gb").override({"gpu.sm_count": 2, "gpu.gpc_count": 1}))
    for launch in flash_training(1, 2, n, fast_math=True, original=True, device=device):
        report = device.launch(launch)
        if launch.expected is not None:
            launch.check(report)


def test_sums_of_queries_are_added_to_by_whole_lines() -> None:
    """Each tile of keys adds a float32 for each query and column; a warp's 32 lie in one line of 128 bytes."""
    gradients = sim.simulate(flash_training(1, 1, 256)[2], gpu="h200")
    requests = gradients["l1tex__t_requests_pipe_lsu_mem_global_op_red.sum"]
    assert requests == 2 * 256 * 64 / 32
    assert gradients["l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum"] == 4 * requests


def test_the_backward_pass_computes_the_scores_again() -> None:
    """Tensor instructions: two products forward, five backward; two warps a scheduler need 255 registers at most."""
    forward, _, gradients, _ = (
        sim.simulate(launch, gpu="h200")["sm__inst_executed_pipe_tensor.sum"] for launch in flash_training(1, 1, 256)
    )
    assert gradients == 2.5 * forward


def test_sizes_without_code_are_refused() -> None:
    with pytest.raises(ValueError, match="original=True: the first paper's order has no code for causal=True"):
        flash_training(1, 1, 64, causal=True, original=True)
    with pytest.raises(ValueError, match="d=128: choose one of"):
        flash_training(1, 1, 64, d=128)
