"""Every code block of the docs runs, or says why not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from matplotlib import pyplot

from tests.cuda.extras import needs_cuda, needs_numba_cuda
from tests.docs.pages import ROOT, Block, blocks, run_page

DOCS = ROOT / "docs"
#: Pages whose blocks have tests of their own: of pictures' sizes, and as scripts whose processes import them again.
ELSEWHERE = {"gallery": "tests/plot/test_gallery.py", "sweeps": "tests/sweeps/test_docs.py"}
PAGES = sorted(DOCS.rglob("*.md"))
_WRITTEN = re.compile(r"""(?:\.to_\w+\(|--(?:csv|html|json|trace) )"?(\w[\w.]*)""")


def marks(page: Path) -> list[Any]:
    """What a page's blocks need besides the package."""
    code = "\n".join(block.code for block in blocks(page) if not block.why_not_run)
    needs = {r"compile_cuda|\.cu\b": needs_cuda, r"compile_numba": needs_numba_cuda}
    return [mark for pattern, mark in needs.items() if re.search(pattern, code)]


def pages_that_run() -> list[Any]:
    pages = [page for page in PAGES if page.stem not in ELSEWHERE and any(block.runs for block in blocks(page))]
    return [pytest.param(page, marks=marks(page), id=str(page.relative_to(DOCS).with_suffix(""))) for page in pages]


@pytest.mark.parametrize("page", pages_that_run())
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They run, and write the files that they name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as for a script that lies there
    run_page(page)
    pyplot.close("all")
    code = "\n".join(block.code for block in blocks(page) if block.runs)
    assert {name for name in _WRITTEN.findall(code) if "." in name} <= {file.name for file in tmp_path.iterdir()}


def test_pages_that_are_run_elsewhere_are_there() -> None:
    assert {page.stem for page in PAGES} >= set(ELSEWHERE)
    assert all((ROOT / test).exists() for test in ELSEWHERE.values())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_commands_stand_in_blocks_that_are_run(page: Path) -> None:
    assert not re.findall(r"^    (?:tailwave|python|pip|pytest|\.venv) .*", page.read_text(), re.MULTILINE)


PAGE = """\
```python
# made.py
N = 3
print(N * "yes ")
```
```diff
--- made.py
+++ made.py
@@ -2 +2 @@
-N = 3
+N = 2
```
```sh
python made.py
```
```output
yes yes
```
<!-- not run: it cannot -->
```python
1 / 0
```
```python

seen = open("made.py").read()[:11]
raise KeyError(seen)
```
"""


def test_files_changes_commands_and_blocks_are_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    monkeypatch.chdir(tmp_path)
    assert [block.runs for block in blocks(page)] == [False, True, True, False, False, True]
    with pytest.raises(KeyError, match=r"# made\.py") as raised:
        run_page(page)
    assert raised.traceback[-1].lineno == PAGE.splitlines().index("raise KeyError(seen)")
    page.write_text(PAGE.replace("yes yes\n", "yes yes yes\n"))
    with pytest.raises(AssertionError, match=r"page\.md:17: not printed: \['yes yes yes'\]"):
        run_page(page)


def test_a_change_that_the_repository_does_not_take_is_seen() -> None:
    change = "--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-# Not its title\n+# Another\n"
    with pytest.raises(AssertionError, match="patch does not apply"):
        Block(Path("page.md"), 0, "diff", change, None).run({})


@pytest.mark.parametrize("command", ["tailwave run no.such", "rm -r build"])
def test_a_command_that_fails_is_seen(command: str) -> None:
    with pytest.raises(AssertionError):
        Block(Path("page.md"), 0, "sh", command, None).run({})
