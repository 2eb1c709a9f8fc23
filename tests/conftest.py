"""What every test relies on."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from sim.compilation import ensure_compiled

# A run in the background of a script ignores Ctrl-C, and so would the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    """The core is compiled before the first test, which would otherwise take that long and print the notice."""
    ensure_compiled()


@pytest.fixture(scope="session", autouse=True)
def cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test finds what an earlier run of the tests, or the user, left in the cache folder."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("platformdirs.user_cache_path", lambda *words: folder.joinpath(*words))
        yield
