"""The site of the docs: `sphinx-build -W --keep-going -c docs . build/site`, then open build/site/index.html.

The repository's root is the source folder, so that README, notebooks and docs/ reach each other by the same links here
and in the repository.
"""

from __future__ import annotations

import sim

project = "Tailwave"
author = "the Tailwave maintainers"
release = version = sim.__version__

extensions = ["myst_nb", "sphinx_copybutton"]
root_doc = "docs/index"
include_patterns = [
    "README.md",
    "docs/**",
    "notebooks/**",
    "benchmarks/README.md",
    "hardware_profiles/SOURCES.md",
    "tests/silicon/**",
]
exclude_patterns = ["**/.ipynb_checkpoints", "**/__pycache__"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks are committed with their outputs; tests/test_notebooks.py executes them
nb_merge_streams = True

html_theme = "furo"
html_title = "Tailwave"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_root"]  # the site's index.html, which leads to root_doc
copybutton_exclude = ".linenos, .gp, .go"
