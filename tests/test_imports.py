"""What is loaded when: libraries that take long are loaded by what needs them."""

import subprocess
import sys

import pytest

import dmlrank as dr

SLOW = ("lightgbm", "sklearn", "statsmodels", "matplotlib")
HELP = "from dmlrank.cli.main import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
FIT = """
battles = dr.datasets.simulate_arena(n=300, rng=0)
dr.dml_rank('winner ~ 1 | model_a + model_b', battles, context='question_id', pairs=dr.Pairs(min_labels=1)).summary()
"""


@pytest.mark.parametrize(
    ("code", "not_loaded"),
    [
        ("", (*SLOW, "scipy.stats", "scipy.optimize", "patsy", "pandas", "numpy")),
        (HELP, (*SLOW, "scipy", "pandas", "numpy", "dmlrank.api", "dmlrank.cli.commands")),
        (FIT, SLOW),
    ],
    ids=["the package alone", "the help of the command line", "a fit without features"],
)
def test_libraries_that_are_not_needed_are_not_loaded(code, not_loaded):
    program = f"import sys\nimport dmlrank as dr\n{code}\nprint(*sys.modules)"
    command = [sys.executable, "-W", "ignore", "-c", program]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1].split())
    assert "dmlrank" in loaded
    assert not loaded.intersection(not_loaded)


def test_every_public_name_is_found_and_listed():
    assert set(dr.__all__) <= set(dir(dr))
    assert all(getattr(dr, name) is not None for name in dr.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        dr.no_such_name  # noqa: B018


def test_a_word_of_a_room_says_where_it_is():
    with pytest.raises(AttributeError, match=r"no attribute 'Top'; it is dmlrank\.planning\.Top"):
        dr.Top  # noqa: B018
