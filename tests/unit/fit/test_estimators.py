"""Estimators are objects: they say what they assume, and nobody asks for one by its name."""

from __future__ import annotations

import ast
import pathlib

import pytest

from dmlrank.fit.estimators import BT_MLE, DEBIASED, PLUGIN, estimator_named
from dmlrank.options import ESTIMATORS

PACKAGE = pathlib.Path(__file__).parents[3] / "dmlrank"


def test_every_estimator_has_an_object():
    assert [estimator_named(name).name for name in ESTIMATORS] == list(ESTIMATORS)


def test_nobody_asks_for_an_estimator_by_name():
    """No comparison with an estimator's name anywhere in the package."""
    asking = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                parts = [part for side in (node.left, *node.comparators) for part in ast.walk(side)]
                named = any(isinstance(part, ast.Constant) and part.value in ESTIMATORS for part in parts)
                asking += [f"{path.name}:{node.lineno}"] if named else []
    assert asking == []


@pytest.mark.parametrize("name", ["debiased", "plugin"])
def test_the_default_functional_means_the_model_s_scores_only_where_one_is_assumed(name):
    assert estimator_named(name).functional("borda") == "borda"
    assert BT_MLE.functional("borda") == "bt"
    assert BT_MLE.functional("softmin") == "softmin"


def test_only_the_plug_in_leaves_the_correction_out():
    assert [estimator_named(name).is_debiased for name in ESTIMATORS] == [True, False, True, True]
    assert [estimator_named(name).valid_intervals for name in ESTIMATORS] == [True, False, True, True]
    assert not PLUGIN.has_restriction_test
    assert not DEBIASED.has_restriction_test
    assert not BT_MLE.has_first_stages
