"""What is installed is said, and what is not."""

import configparser
import pathlib
import re
import sys

import numpy as np

import dmlrank as dr
from dmlrank._utils import versions

ROOT = pathlib.Path(__file__).parents[3]


def test_versions_are_those_installed(capsys):
    dr.show_versions()
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert shown["numpy"] == np.__version__
    assert shown["dmlrank"] == dr.__version__
    assert shown["python"].startswith(sys.version.split()[0])
    assert shown["matplotlib"].endswith("(extra: plot)")


def test_what_is_absent_is_said():
    text = versions.versions_text({"plot": ("no-such-distribution",)})
    assert re.search(r"no-such-distribution +absent \(extra: plot\)", text)


def test_every_dependency_is_listed():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    needed = {re.split(r"[<>=~!]", line)[0] for line in parser["options"]["install_requires"].split()}
    assert needed == set(versions.REQUIRED)
    for extra, names in versions.EXTRAS.items():
        if extra in parser["options.extras_require"]:
            assert set(names) == {
                re.split(r"[<>=~!]", line)[0] for line in parser["options.extras_require"][extra].split()
            }
