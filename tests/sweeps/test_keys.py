"""Keys of points: equal where simulating again gives the same row, different wherever it might not."""

from __future__ import annotations

import functools
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import sim
from sim.cli.workloads import find_workloads
from sim.launch import Launch
from sim.profile import load_profile
from sim.sweeps import SweepError, keys
from workloads import memory

TOY = load_profile("toy")


class Colour(Enum):
    RED = 1


def key_of(workload: Any = memory.copy, profile: Any = TOY, reads: Any = (), options: Any = (), **params: Any) -> str:
    return keys.key_maker(workload, reads, *options)(params, profile)


DIFFERENT = [
    1, True, 1.0, "1", None, -0.0, 0.0, float("nan"), b"1", (1,), [1], (1, 2), ((1,), 2), {1}, {"a": 1}, {"a": 1.0},
    Colour.RED, Path("a"), np.dtype("float32"), np.dtype("float64"), np.float32, np.ones(2), np.ones(2, np.float32),
    np.ones((1, 2)), np.zeros(2), TOY, len, memory.copy, memory.gather,
]  # fmt: skip


def test_values_of_different_types_and_contents_have_different_keys() -> None:
    assert len({key_of(n=value) for value in DIFFERENT}) == len(DIFFERENT)


def test_equal_values_have_equal_keys() -> None:
    assert key_of(n=np.arange(4)) == key_of(n=np.arange(4))
    assert key_of(n={"a": 1, "b": 2}) == key_of(n={"b": 2, "a": 1})
    assert key_of(n=1, width=2) == key_of(width=2, n=1)


def test_a_key_is_the_same_in_another_process() -> None:
    script = (
        "from sim.profile import load_profile; from sim.sweeps import keys; from workloads import memory\n"
        "print(keys.key_maker(memory.copy, [])({'n': {'a', 'b', 'c'}, 'tile': (1, 2)}, load_profile('toy')))"
    )
    again = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert again.stdout.strip() == key_of(n={"c", "b", "a"}, tile=(1, 2))


def test_a_value_that_cannot_be_told_from_others_is_refused() -> None:
    with pytest.raises(SweepError, match="a stored point cannot be told from others by a builtins.object"):
        key_of(n=object())


def test_a_key_is_of_the_profiles_values_not_of_its_name() -> None:
    changed = TOY.override({"gpu.clock_mhz": TOY.gpu.clock_mhz + 1})
    assert key_of(profile=changed) != key_of(profile=TOY)


def test_a_key_is_of_the_options() -> None:
    assert len({key_of(options=options) for options in ((), (("a",), "full"), (("a",), "auto"), (("b",), "auto"))}) == 4


def test_a_key_is_of_what_the_files_hold_that_the_workload_reads(tmp_path: Path) -> None:
    data, found = tmp_path / "data", set()
    for text in ("one", "two"):
        data.write_text(text)
        found.add(key_of(reads=[data]))
    assert len(found) == 2


def test_a_key_is_of_this_packages_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key_of()
    monkeypatch.setattr(keys, "model_version", lambda: "another")
    assert key_of() != before


def test_the_models_version_covers_the_core_and_not_the_command_line(tmp_path: Path) -> None:
    package = tmp_path / "sim"
    for name in ("core/sm.py", "cli/run.py", "__init__.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("a = 1\n")

    def version() -> str:
        return keys._digest_of_files(package, without=keys.AFTER_A_RESULT)

    first = version()
    (package / "cli/run.py").write_text("a = 2\n")
    assert version() == first
    (package / "core/sm.py").write_text("a = 2\n")
    assert version() != first


# -- workloads ---------------------------------------------------------------------------


def module_of(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def test_a_key_is_of_the_workloads_file_and_of_what_it_imports_beside_it(tmp_path: Path) -> None:
    mine, helper, other = (tmp_path / f"{name}_of_sweep.py" for name in ("mine", "helper", "other"))
    helper.write_text("SIZE = 1\n")
    other.write_text("unused = 1\n")
    mine.write_text("def work(n):\n    import helper_of_sweep\n")
    work = module_of(mine).work
    first = key_of(work)
    other.write_text("unused = 2\n")
    assert key_of(work) == first
    helper.write_text("SIZE = 2\n")
    second = key_of(work)
    mine.write_text(mine.read_text() + "# changed\n")
    assert len({first, second, key_of(work)}) == 3


def padded(by: int) -> Callable[..., Launch]:
    def work(n: int) -> Launch:
        return memory.copy(n + by)

    return work


def test_a_key_is_of_what_a_workload_is_bound_to() -> None:
    bound = [
        padded(1), padded(2), functools.partial(memory.copy, width=1), functools.partial(memory.copy, width=4),
        lambda n, by=1: memory.copy(n + by), lambda n, by=2: memory.copy(n + by),
    ]  # fmt: skip
    assert len({key_of(work) for work in bound}) == len(bound)
    assert key_of(padded(1)) == key_of(padded(1))


def test_a_workload_of_a_notebook_is_simulated_and_not_kept(tmp_path: Path) -> None:
    space: dict[str, Any] = {"__name__": "of_a_notebook", "memory": memory}
    exec("def work(n):\n    return memory.copy(n)\n", space)
    with pytest.raises(SweepError, match=r"comes from no file.*give store=None"):
        sim.sweep(space["work"], {"n": [32]}, "toy", progress=False, store=tmp_path / "points.jsonl")
    frame = sim.sweep(space["work"], {"n": [32]}, "toy", progress=False)
    assert frame["error"].tolist() == [""]


@pytest.mark.parametrize("workload", find_workloads().values(), ids=find_workloads())
def test_every_workload_has_keys(workload: Callable[..., Launch]) -> None:
    assert len(key_of(workload)) == 32
