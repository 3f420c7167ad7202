"""Sphinx's configuration of the documentation site.

    python -m sphinx -W --keep-going -b html docs docs/_build/html

A build needs the extra ``docs`` and no network: fonts, scripts and the search index are files of the site, and formulas
are MathML.
"""

from __future__ import annotations

import os
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

# Pages are built side by side; threads of numerical libraries would only wait for each other.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import dmlrank

project = "dmlrank"
author = "The dmlrank developers"
copyright = "the dmlrank developers"
version = release = dmlrank.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "executed_code",
    "llms_txt",
    "mathml",
    "reference_links",
    "root_pages",
]
exclude_patterns = ["_build", "_templates", "_ext", "figures"]
# Pages of the reference are generated as .rst.
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
templates_path = ["_templates"]
nitpicky = True

# Dollar signs and fences of formulas are read as GitHub reads them, so that a page looks alike in both places.
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4
suppress_warnings = ["myst.strikethrough"]

# Pages whose Python blocks are run while the site is built; output and figures stand below each block. The other pages
# with Python blocks are in the second list, with the reason.
executed_pages = [
    "index",
    "get_started",
    "gallery",
    "intervals",
    "daily",
    "data",
    "tables",
    "groups",
    "tutorials/*",
    "how_to/*",
    "coming_from/*",
    "explanation/*",
]
executed_pages_not_run = {
    "bt_restricted": "shows calls in place of an analysis; the reference has examples that run",
    "judges": "shows calls in place of an analysis; the tutorial on judges runs",
    "pictures": "its pictures have 3 to 200 models and are drawn by benchmarks/pictures.py; tests run its code",
    "scale": "starts processes and connects to a cluster",
    "sensitivity": "shows calls in place of an analysis; the guide on votes that were not cast runs",
    "style": "shows calls in place of an analysis; the guide on style runs",
}

autosummary_generate = True
autodoc_typehints = "none"  # docstrings describe types
autodoc_member_order = "bysource"
add_module_names = False
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = True
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False

# Inventories of other projects only if somebody has put them here: a build makes no request.
intersphinx_mapping = {
    name: (address, str(HERE / "_inventories" / f"{name}.inv"))
    for name, address in {
        "numpy": "https://numpy.org/doc/stable/",
        "pandas": "https://pandas.pydata.org/docs/",
        "statsmodels": "https://www.statsmodels.org/stable/",
    }.items()
    if (HERE / "_inventories" / f"{name}.inv").exists()
}

copybutton_exclude = ".linenos, .gp, .go"

html_theme = "pydata_sphinx_theme"
html_title = "dmlrank"
html_baseurl = os.environ.get("READTHEDOCS_CANONICAL_URL", "")
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_sidebars = {"index": [], "get_started": [], "gallery": []}
html_theme_options = {
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "show_version_warning_banner": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
llms_summary = (
    "Python package that ranks language models (or any items) from pairwise preference data, with simultaneous "
    "confidence intervals, rank sets and tests, by debiased machine learning and without the Bradley-Terry assumption."
)
linkcheck_timeout = 20
