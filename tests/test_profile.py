"""Are profiles complete, checked, immutable, and are their errors of use?"""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hardware_profiles
from sim.isa import Pipe, TimingClass
from sim.profile import CONFIDENCES, Profile, ProfileError, load_profile, names
from sim.profile_keys import Timing

EXPECTED = ["a100_sxm_40gb", "a100_sxm_80gb", "h100_sxm", "h200", "rtx_4090", "t4", "toy", "v100_sxm2"]
H200 = (hardware_profiles.DIRECTORY / "h200.toml").read_text()


def line_of(text: str, key: str, section: str) -> int:
    """Line of `key` in `section` of a profile's text, from 1."""
    lines = text.splitlines()
    start = lines.index(f"[{section}]")
    return next(k for k in range(start, len(lines)) if lines[k].startswith(f"{key} =")) + 1


def edited(tmp_path: Path, old: str, new: str) -> Path:
    """The H200's file with one line changed, as `mine.toml`."""
    assert H200.count(old) == 1
    path = tmp_path / "mine.toml"
    path.write_text(H200.replace(old, new))
    return path


def entry(key: str, section: str) -> str:
    """The whole line of a key."""
    return H200.splitlines()[line_of(H200, key, section) - 1]


def test_names_are_the_files() -> None:
    assert names() == EXPECTED


@pytest.mark.parametrize("name", EXPECTED)
def test_profile_is_valid(name: str) -> None:
    assert load_profile(name).name == name


@pytest.mark.parametrize("name", EXPECTED)
def test_every_value_has_unit_source_and_confidence(name: str) -> None:
    for key, quantity in load_profile(name).quantities.items():
        assert quantity.unit and quantity.source.strip() and quantity.confidence in CONFIDENCES, key


@pytest.mark.parametrize("name", EXPECTED)
def test_every_source_is_explained(name: str) -> None:
    """Each source begins with a name that SOURCES.md explains, or says that the value is no one's."""
    explained = (hardware_profiles.DIRECTORY / "SOURCES.md").read_text()
    own_words = ("derived", "not published", "chosen for lessons", *(f"as {other}" for other in EXPECTED))
    for key, quantity in load_profile(name).quantities.items():
        source = quantity.source
        while source.startswith("as ") and ": " in source:
            source = source.partition(": ")[2]
        if not source.startswith(own_words):
            first = re.split(r"[;,:(]| and ", source)[0].strip()
            assert any(first.startswith(known) for known in _source_names(explained)), f"{key}: {source}"


def _source_names(markdown: str) -> list[str]:
    cells = re.findall(r"^\| ([^|]+) \|", markdown, re.MULTILINE)
    recalled = ["AD102 whitepaper", "TU104 whitepaper", "GDDR6"]
    return [name for cell in cells for name in cell.split(", ")] + recalled


def test_timing_has_a_row_for_each_class_but_memory() -> None:
    rows = {field.name for field in dataclasses.fields(Timing)}
    assert rows == {cls.name.lower() for cls in TimingClass} - {"load_store"}


@pytest.mark.parametrize("name", EXPECTED)
def test_pipes_are_the_instruction_sets(name: str) -> None:
    timing = load_profile(name).timing
    for field in dataclasses.fields(Timing):
        row = getattr(timing, field.name)
        for pipe in filter(None, (row.pipe, row.alternate_pipe)):
            assert pipe.upper() in Pipe.__members__


@pytest.mark.parametrize("name", [name for name in EXPECTED if name != "toy"])
def test_peak_follows_from_the_pipes(name: str) -> None:
    """FP32 lanes: what the pipes of the four sub-cores take in a cycle."""
    profile = load_profile(name)
    row = profile.timing.fp32
    pipes = 1 if row.alternate_pipe is None else 2
    lanes = profile.core.subcores * pipes * 32 / row.interval_cycles
    assert profile.peak.fp32 == 2 * lanes


@pytest.mark.parametrize("name", [name for name in EXPECTED if load_profile(name).peak.tensor_bf16])
def test_tensor_interval_does_not_beat_the_peak(name: str) -> None:
    profile = load_profile(name)
    flop = 2 * 16 * 8 * 16 * profile.core.subcores / profile.timing.hmma_16816.interval_cycles
    assert flop <= profile.peak.tensor_bf16 or name == "toy"


def test_h200_is_the_card_that_was_measured() -> None:
    p = load_profile("h200")
    assert (p.gpu.sm_count, p.l2.bytes, p.occupancy.shared_per_block_optin_bytes) == (132, 62914560, 232448)
    assert p.dram.peak_gbytes_per_s == pytest.approx(6016 / 8 * 3201e6 * 2 / 1e9, rel=1e-3)


def test_toy_has_bursts_of_four_words() -> None:
    assert load_profile("toy").dram.burst_bytes == 16


def test_loading_twice_gives_the_same_object() -> None:
    assert load_profile("h200") is load_profile("h200")


def test_a_profile_loads_itself() -> None:
    profile = load_profile("h200")
    assert load_profile(profile) is profile


def test_a_file_loads_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(H200)
    mine = load_profile(str(path))
    assert mine.name == "mine" and mine.l2 == load_profile("h200").l2


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(H200)
    load_profile(path)
    path.write_text(H200.replace("value = 132,", "value = 66, "))
    assert load_profile(path).gpu.sm_count == 66


def test_a_profile_cannot_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        load_profile("h200").l2.bytes = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        load_profile("h200").quantities["l2.bytes"] = None  # type: ignore[index]


def test_quantity_tells_where_a_value_comes_from() -> None:
    quantity = load_profile("h200").quantity("launch.blocks_per_cycle")
    assert (quantity.value, quantity.unit, quantity.confidence) == (0.83, "1/cycle", "H")
    assert "empty_kernel" in quantity.source


def test_quantity_of_an_unknown_key_names_a_near_one() -> None:
    with pytest.raises(KeyError, match="did you mean 'l2.slices'"):
        load_profile("h200").quantity("l2.slice")


def test_unknown_name_lists_the_names_and_a_near_one() -> None:
    with pytest.raises(ProfileError, match=r"unknown profile 'h20'; did you mean 'h200'\?; profiles: a100_sxm_40gb, "):
        load_profile("h20")


def test_missing_file_is_named() -> None:
    with pytest.raises(ProfileError, match=r"no profile file 'nowhere/gpu\.toml'.*h200"):
        load_profile("nowhere/gpu.toml")


@pytest.mark.parametrize(
    ("key", "section", "replacement", "message"),
    [
        ("slices", "l2", 'slicez = { value = 96, unit = "count", source = "x", confidence = "L" }', "did you mean"),
        ("bytes", "l2", 'bytes = { value = -1, unit = "bytes", source = "x", confidence = "L" }', "greater than 0"),
        ("bytes", "l2", 'bytes = { value = 1.5, unit = "bytes", source = "x", confidence = "L" }', "valid integer"),
        ("bytes", "l2", 'bytes = { value = "6", unit = "bytes", source = "x", confidence = "L" }', "valid integer"),
        ("bytes", "l2", 'bytes = { value = true, unit = "bytes", source = "x", confidence = "L" }', "valid integer"),
        ("bytes", "l2", 'bytes = { value = 100, unit = "bytes", source = "x", confidence = "L" }', "128-byte lines"),
        ("bytes", "l2", "bytes = 62914560", "bare value 62914560 without unit"),
        ("bytes", "l2", 'bytes = { value = 62914560, source = "x", confidence = "L" }', "unit is missing"),
        ("bytes", "l2", 'bytes = { value = 62914560, unit = "bytes", confidence = "L" }', "source is missing"),
        ("bytes", "l2", 'bytes = { value = 1, unit = "bytes", source = "x", sauce = 1, confidence = "L" }', "'sauce'"),
        ("bytes", "l2", 'bytes = { value = 1, unit = "bytes", source = " ", confidence = "L" }', "source is empty"),
        (
            "bytes",
            "l2",
            'bytes = { value = 60, unit = "MiB", source = "x", confidence = "L" }',
            "unit is 'MiB'; .*'byt",
        ),
        ("bytes", "l2", 'bytes = { value = 1, unit = "bytes", source = "x", confidence = "sure" }', "H, M, L"),
        ("clock_mhz", "gpu", 'clock_mhz = { value = nan, unit = "MHz", source = "x", confidence = "L" }', "finite"),
        ("pipe", "timing.fp32", 'pipe = { value = "fmb", unit = "pipe", source = "x", confidence = "L" }', "'fma'"),
        (
            "shared_per_sm_bytes",
            "occupancy",
            'shared_per_sm_bytes = { value = 300000, unit = "bytes", source = "x", confidence = "L" }',
            "largest carve-out, 228 KiB",
        ),
        (
            "max_warps_per_sm",
            "occupancy",
            'max_warps_per_sm = { value = 48, unit = "count", source = "x", confidence = "L" }',
            "make them agree",
        ),
    ],
)
def test_bad_value_is_reported_with_file_line_and_key(
    tmp_path: Path, key: str, section: str, replacement: str, message: str
) -> None:
    lines = H200.splitlines()
    number = line_of(H200, key, section)
    lines[number - 1] = replacement
    path = tmp_path / "mine.toml"
    path.write_text("\n".join(lines))
    with pytest.raises(ProfileError, match=message) as caught:
        load_profile(path)
    if message != "make them agree":
        assert f"mine.toml:{number}: {section}.{replacement.partition(' ')[0]}: " in str(caught.value)


def test_missing_key_is_reported_at_its_section(tmp_path: Path) -> None:
    path = edited(tmp_path, entry("far_extra_cycles", "l2") + "\n", "")
    section = H200.splitlines().index("[l2]") + 1
    with pytest.raises(ProfileError, match=rf"mine\.toml:{section}: l2\.far_extra_cycles: missing key .*'cycles'"):
        load_profile(path)


def test_missing_keys_are_reported_in_the_order_of_a_profile(tmp_path: Path) -> None:
    path = tmp_path / "empty.toml"
    path.write_text("")
    with pytest.raises(ProfileError) as caught:
        load_profile(path)
    lines = str(caught.value).splitlines()
    assert "gpu.name: missing key" in lines[0] and "gpu.architecture" in lines[1]


@pytest.mark.parametrize("gpu", [None, 5])
def test_what_names_no_profile_is_refused(gpu: object) -> None:
    with pytest.raises(ProfileError, match=f"a TOML file's path or a Profile, not {gpu}"):
        load_profile(gpu)  # type: ignore[arg-type]
    with pytest.raises(ProfileError, match="give a dict"):
        load_profile("toy").override(gpu)  # type: ignore[arg-type]


def test_unknown_section_is_reported(tmp_path: Path) -> None:
    path = edited(tmp_path, "[l2]", "[level2]")
    with pytest.raises(ProfileError, match=r"level2\.bytes: unknown key"):
        load_profile(path)


def test_all_problems_are_reported_together(tmp_path: Path) -> None:
    text = H200.replace(entry("slices", "l2"), "").replace(entry("banks", "shared"), "banks = 32")
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ProfileError) as caught:
        load_profile(path)
    assert "l2.slices" in str(caught.value) and "shared.banks" in str(caught.value)


def test_broken_toml_tells_the_line(tmp_path: Path) -> None:
    path = edited(tmp_path, "[l2]", "[l2")
    number = H200.splitlines().index("[l2]") + 1
    with pytest.raises(ProfileError, match=rf"mine\.toml: not valid TOML: .*line {number}"):
        load_profile(path)


def test_override_gives_a_checked_copy() -> None:
    profile = load_profile("toy")
    changed = profile.override({"l2.far_extra_cycles": 7, "timing.fp32.latency_cycles": 9})
    assert (changed.l2.far_extra_cycles, changed.timing.fp32.latency_cycles) == (7, 9)
    assert profile.l2.far_extra_cycles == 0
    assert changed.label == "toy (l2.far_extra_cycles=7, timing.fp32.latency_cycles=9)"
    assert "override" in changed.quantity("l2.far_extra_cycles").source


def test_override_of_an_override_keeps_both() -> None:
    changed = load_profile("toy").override({"l2.far_extra_cycles": 7}).override({"gpu.sm_count": 4})
    assert changed.overrides == (("gpu.sm_count", 4), ("l2.far_extra_cycles", 7))


def test_equal_overrides_make_equal_profiles() -> None:
    def changed() -> Profile:
        return load_profile("toy").override({"gpu.sm_count": 4})

    assert changed() == changed() and hash(changed()) == hash(changed())
    assert changed() != load_profile("toy")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"l2.byte": 1}, r"unknown key 'l2\.byte'; did you mean 'l2\.bytes'"),
        ({"l2.bytes": 0}, "l2.bytes: 0: input should be greater than 0"),
        ({"l2.bytes": "1024"}, "valid integer"),
        ({"l2.bytes": 1000}, "128-byte lines"),
        ({"gpu.clock_mhz": float("inf")}, "finite number"),
        ({"core.issue_order": "oldest"}, "'gto', 'lrr' or 'oldest_block'"),
        ({"gpu": 1}, "unknown key 'gpu'"),
        ({"gpu.sm_count": object()}, "plain numbers, texts and lists"),
    ],
)
def test_bad_override_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        load_profile("toy").override(changes)


def test_importing_profiles_does_not_import_pydantic() -> None:
    code = "import sys, sim.profile; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=hardware_profiles.DIRECTORY.parent).returncode == 0
