"""What is loaded when: libraries that take long are loaded by what needs them."""

import subprocess
import sys

import pytest

import dmlrank as dr

SLOW = ("lightgbm", "sklearn", "statsmodels", "matplotlib", "dask", "scipy.stats", "scipy.optimize")
FRAMES = ("scipy", "patsy", "pandas", "numpy", "dmlrank.api", "dmlrank.cli.commands")
# Rooms and modules of answers that a fit with its summary does not give.
FURTHER = (
    "cli",
    "inspection",
    "planning",
    "plotting",
    "report.render_page",
    "sensitivity",
    "fit.json_format",
    "datasets.eval_logs",
)
FURTHER = (*FURTHER, "fit.direct_fits", "fit.post_estimation", "fit.adjusted_for_style", "nuisance.verdicts")
HELP = "from dmlrank.cli.main import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
SIMULATE = "battles = dr.datasets.simulate_arena(n=300, rng=0)\n"
FIT = """
dr.dml_rank('winner ~ {} | model_a + model_b', battles, context='question_id', pairs=dr.Pairs(min_labels=1)).summary()
"""


@pytest.mark.parametrize(
    ("code", "libraries", "rooms"),
    [
        ("", (*SLOW, *FRAMES), FURTHER),
        (HELP, (*SLOW, *FRAMES), FURTHER[1:]),
        (SIMULATE, SLOW, (*FURTHER, "fit", "results", "estimation", "inference")),
        (SIMULATE + FIT.format("1"), SLOW, FURTHER),
        (SIMULATE + FIT.format("length"), ("statsmodels",), FURTHER),
    ],
    ids=["the package alone", "the help of the command line", "votes", "a fit without features", "a fit with features"],
)
def test_what_is_not_needed_is_not_loaded(code, libraries, rooms):
    program = f"import sys\nimport dmlrank as dr\n{code}\nprint(*sys.modules)"
    command = [sys.executable, "-W", "ignore", "-c", program]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1].split())
    assert "dmlrank" in loaded
    assert not loaded.intersection([*libraries, *(f"dmlrank.{room}" for room in rooms)])


def test_every_public_name_is_found_and_listed():
    assert set(dr.__all__) <= set(dir(dr))
    assert all(getattr(dr, name) is not None for name in dr.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        dr.no_such_name  # noqa: B018


def test_a_word_of_a_room_says_where_it_is():
    with pytest.raises(AttributeError, match=r"no attribute 'Plan'; it is dmlrank\.planning\.Plan"):
        dr.Plan  # noqa: B018
