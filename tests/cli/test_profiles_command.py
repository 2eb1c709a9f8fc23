"""`tailwave profiles`, `profile` and `occupancy`: what they print, and one line for what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sim.cli import app
from sim.profile import load_profile, names


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def test_profiles_lists_each_gpu_on_a_line() -> None:
    lines = invoke("profiles").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == names()


def test_profile_prints_every_key_with_its_source() -> None:
    text = invoke("profile", "h200").stdout
    for key, quantity in load_profile("h200").quantities.items():
        line = next(line for line in text.splitlines() if line.startswith(f"{key} "))
        assert quantity.unit in line and quantity.source.split()[0] in line


def test_profile_section_prints_only_its_keys() -> None:
    lines = invoke("profile", "t4", "--section", "timing.fp64").stdout.splitlines()
    assert [line.split()[0] for line in lines[2:-2]] == [
        "timing.fp64.pipe",
        "timing.fp64.latency_cycles",
        "timing.fp64.interval_cycles",
    ]


def test_profile_prints_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[gpu]\n")
    result = invoke("profile", str(path))
    assert result.exit_code == 2 and "mine.toml:1: gpu.name: missing key" in result.stderr


def test_occupancy_prints_limits_limiter_and_waves() -> None:
    text = invoke("occupancy", "--threads", "256", "--registers", "64", "--shared", "49152", "--blocks", "1000").stdout
    assert "4 blocks, 32 of 64 warps an SM" in text
    assert "theoretical occupancy 50.0%, limited by registers, shared memory" in text
    assert "warps 8, registers 4, shared memory 4, blocks 32" in text
    assert "1000 blocks are 1.89 waves of 528; the last wave has 472 blocks (89.4%)" in text


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["profile", "h2000"], 2, "tailwave: unknown profile 'h2000'; did you mean 'h200'?"),
        (["profile", "h200", "--section", "l3"], 2, "no section 'l3'; sections: cluster, constant, core"),
        (["occupancy", "--threads", "1025"], 2, "tailwave: 1025 threads a block: at most 1024"),
        (["occupancy", "--threads", "1024", "--registers", "65"], 1, "no block fits"),
        (["occupancy"], 2, "--threads"),
        (["ocupancy"], 2, "ocupancy"),
    ],
)
def test_bad_input_is_told_in_a_line(words: list[str], code: int, message: str) -> None:
    result = invoke(*words)
    assert result.exit_code == code
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
