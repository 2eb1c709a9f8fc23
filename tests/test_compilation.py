"""Is the core compiled once, by one process, with a word about it?"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from sim import _jit, compilation

pytestmark = pytest.mark.skipif(not _jit.COMPILED, reason="nothing is compiled here")


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """An empty cache, and what was compiled into it."""
    done: list[str] = []
    monkeypatch.setattr(_jit, "compiled_mark", lambda _: tmp_path / "compiled")
    monkeypatch.setattr(compilation, "_compile", lambda: done.append("core"))
    return done


def test_a_cold_cache_is_announced(compiled: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    compilation.ensure_compiled()
    assert capsys.readouterr().err == compilation.NOTICE + "\n"


def test_a_warm_cache_is_silent(compiled: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    compilation.ensure_compiled()
    capsys.readouterr()
    compilation.ensure_compiled()
    assert capsys.readouterr().err == ""


def test_whoever_comes_second_waits_and_compiles_nothing(compiled: list[str]) -> None:
    both = [threading.Thread(target=compilation.ensure_compiled) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert compiled == ["core"]


def test_whoever_waits_says_so(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    second = threading.Thread(target=compilation.ensure_compiled)

    def slow() -> None:
        second.start()
        while compilation.WAITING not in heard():
            second.join(0.01)

    said: list[str] = []

    def heard() -> str:
        said.append(capsys.readouterr().err)
        return "".join(said)

    monkeypatch.setattr(compilation, "_compile", slow)
    compilation.ensure_compiled()
    second.join()
    assert heard() == f"{compilation.NOTICE}\n{compilation.WAITING}\n"


def test_a_compilation_that_fails_is_tried_again(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr(compilation, "_compile", fail)
        with pytest.raises(MemoryError):
            compilation.ensure_compiled()
    compilation.ensure_compiled()
    assert compiled == ["core"]


def test_everything_but_the_stepping_of_sms_is_compiled_by_one_call() -> None:
    from sim.core import chip, memory

    compilation.ensure_compiled()  # so that the next line only loads
    compilation.compile_exchange()
    functions = [chip.collect, chip.deliver, chip.commit, chip.note_ended, chip.assign, chip.next_event]
    functions += [chip.tensor_use, memory.weave]
    assert not [f.py_func.__name__ for f in functions if not f.signatures]
