"""The table of FlashAttention's first paper on its A100: bytes, time and operations of attention forward and backward.

Dao et al., "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness" (2022), figure 2, left: 1024
positions, 64 sequences, 16 heads of 64, 40 GB A100. `pytest -m silicon -s tests/silicon/test_flash_paper.py` prints it.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import sim
from sim.launch import Launch
from workloads import attention

pytestmark = pytest.mark.silicon

GPU, BATCH, HEADS, N = "a100_sxm_40gb", 64, 16, 1024
BYTES_ERROR, TIME_ERROR, OPERATIONS_ERROR = 0.15, 0.30, 0.05


@dataclass(frozen=True)
class Row:
    """A way to compute attention, forward and backward."""

    gigabytes: float  #: of HBM
    milliseconds: float
    operations: float = 1.0  #: times those of standard attention

    def __str__(self) -> str:
        return f"{self.gigabytes:5.1f} GB {self.milliseconds:5.1f} ms {self.operations:5.2f}"


PAPER = {"standard": Row(40.3, 41.7), "flash": Row(4.4, 7.3, 1.13)}


def measured(launches: list[Launch], batch: int, detail: str = "auto") -> Row:
    """Launches for `batch` sequences, as of all of the table's."""
    times = BATCH / batch
    reports = [sim.simulate(launch, gpu=GPU, detail=detail) for launch in launches]
    read_and_written = sum(r["dram__bytes_read.sum"] + r["dram__bytes_write.sum"] for r in reports)
    milliseconds = sum(r["gpu__time_duration.sum"] for r in reports) / 1e6
    return Row(times * read_and_written / 1e9, times * milliseconds, times * sum(x.flops for x in launches))


def test_the_papers_table() -> None:
    """Standard attention of a part of the sequences, as its time and bytes grow with them.

    The forward pass, a block a head, has waves of blocks, so all sequences. Of the backward pass a part in full: its
    blocks share what they read, and of that sampling counts too much.
    """
    standard = measured(attention.unfused(16, HEADS, N, backward=True), 16)
    forward = attention.flash_original(BATCH, HEADS, N, fast_math=True)
    backward = attention.flash_training(8, HEADS, N, fast_math=True, original=True)[1:]
    parts = measured([forward], BATCH), measured(backward, 8, "full")
    flash = Row(*(sum(getattr(p, name) for p in parts) for name in ("gigabytes", "milliseconds", "operations")))
    flash, standard = (Row(x.gigabytes, x.milliseconds, x.operations / standard.operations) for x in (flash, standard))
    for name, row in (("standard", standard), ("flash", flash)):
        print(f"\n{name:8s} {row}, the paper {PAPER[name]}", end="")
    assert standard.gigabytes == pytest.approx(PAPER["standard"].gigabytes, rel=BYTES_ERROR)
    assert flash.gigabytes == pytest.approx(PAPER["flash"].gigabytes, rel=BYTES_ERROR)
    for name, error in (("gigabytes", BYTES_ERROR), ("milliseconds", TIME_ERROR), ("operations", OPERATIONS_ERROR)):
        ratio, of_paper = (getattr(a, name) / getattr(b, name) for a, b in ((standard, flash), tuple(PAPER.values())))
        print(f"\n{name}: ratio {ratio:.2f}, the paper's {of_paper:.2f}, {ratio / of_paper - 1:+.1%}", end="")
        assert ratio == pytest.approx(of_paper, rel=error)
