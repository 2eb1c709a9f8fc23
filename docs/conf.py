"""The site of the docs: `sphinx-build -W --keep-going -c docs . build/site`, then open build/site/index.html.

The repository's root is the source folder, so that README, notebooks and docs/ reach each other by the same links here
and in the repository.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import reference

import sim

project = "Tailwave"
author = "the Tailwave maintainers"
release = version = sim.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton"]
root_doc = "docs/index"
include_patterns = [
    "README.md",
    "docs/**",
    "notebooks/**",
    "benchmarks/README.md",
    "hardware_profiles/SOURCES.md",
    "tests/silicon/**",
]
exclude_patterns = [".venv", "build", "**/.ipynb_checkpoints", "**/__pycache__"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks are committed with their outputs; tests/test_notebooks.py executes them
nb_merge_streams = True

default_role = "code"  # docstrings have code in single backticks
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_type_aliases = {name: name for name in ("npt.ArrayLike", "npt.DTypeLike")}
maximum_signature_line_length = 100
python_use_unqualified_type_names = True

html_theme = "furo"
pygments_style = "friendly"
html_show_copyright = False
html_title = "Tailwave"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_root"]  # the site's index.html, which leads to root_doc
copybutton_exclude = ".linenos, .gp, .go"


def setup(app: Any) -> None:
    app.connect("builder-inited", lambda app: reference.write())
