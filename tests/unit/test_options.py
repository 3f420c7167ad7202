"""The table of options is what the signature, the checks, the readers and the stored description say."""

from __future__ import annotations

import inspect
import re
import typing

import numpy as np
import pytest

import dmlrank as dr
from dmlrank import options as options_module
from dmlrank.exceptions import OptionError
from dmlrank.fit.estimators import options_for
from dmlrank.fit.stages import reading_options
from dmlrank.options import ESTIMATORS, OPTIONS, Options

SIGNATURE = inspect.signature(dr.dml_rank).parameters
# Keywords that say how a fit is run, and not what is fitted.
ABOUT_THE_CALL = ("progress", "executor", "env")
DEFAULTS = {name: option.default for name, option in OPTIONS.items()}
# Another value of each option that reading depends on.
READ_ANOTHER_WAY = {
    "context": "question_id",
    "propensity": "shown",
    "weights": "weight",
    "categories": {"draw": "tie"},
    "cov_kwds": {"groups": "topic"},
    "missing": "drop",
    "votes": "first",
    "runs": "mean",
    "adjust": "~ log_length",
}


def options_of_fit(**given):
    return options_for(None, Options.of(**given), given)


def options_of_update(options, changes):
    return options_for(None, options.changed(changes), changes)


def test_the_signature_is_the_table():
    keywords = [name for name, p in SIGNATURE.items() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    assert keywords == [*OPTIONS, *ABOUT_THE_CALL]
    assert {name: SIGNATURE[name].default for name in OPTIONS} == DEFAULTS


def test_words_in_the_signature_are_those_of_the_table():
    hints = {name: getattr(options_module, str(p.annotation), None) for name, p in SIGNATURE.items()}
    literal = {name: typing.get_args(hint) for name, hint in hints.items() if typing.get_origin(hint) is typing.Literal}
    assert len(literal) == 6
    assert literal == {name: OPTIONS[name].words for name in literal}


def test_every_option_is_documented():
    documentation = inspect.cleandoc(dr.dml_rank.__doc__)
    documented = re.findall(r"(?m)^(\w+) : ", documentation.partition("Returns")[0])
    assert documented == ["formula", "data", *OPTIONS, *ABOUT_THE_CALL]
    groups = documentation.partition("in this order:")[2].partition("Parameters")[0]
    assert re.findall(r"``(\w+)``", groups) == [*OPTIONS, *ABOUT_THE_CALL]


@pytest.mark.parametrize("name", ["estimator", "graph", "missing", "learner", "judge_as", "component", "votes"])
def test_a_wrong_word_is_refused_wherever_it_is_given(name):
    with pytest.raises(OptionError, match=f"{name}='wrong'"):
        options_of_fit(**{name: "wrong"})
    with pytest.raises(OptionError, match=f"{name}='wrong'"):
        options_of_update(options_of_fit(), {name: "wrong"})


def test_what_is_about_the_call_is_no_option_of_an_update():
    for name in ABOUT_THE_CALL:
        with pytest.raises(OptionError, match=name):
            options_of_update(options_of_fit(), {name: None})


def test_reading_depends_on_the_options_that_say_so():
    before = reading_options(options_of_fit())
    for name, value in READ_ANOTHER_WAY.items():
        changes = {name: value} | ({"cov_type": "cluster"} if name == "cov_kwds" else {})
        assert reading_options(Options.of(**changes)) != before, name
    others = {"functional": "bt", "n_folds": 3, "alpha": 0.1, "rng": 1, "propensity": "marginal", "weights": np.ones(3)}
    assert reading_options(options_of_fit(**others)) == before


def test_an_update_refuses_unknown_names_and_says_how_clusters_are_given():
    with pytest.raises(OptionError, match=r"update\(\) has no option 'clusters'.*cov_kwds=\{'groups': 'a_column'\}"):
        Options.of().changed({"clusters": "topic"})
    with pytest.raises(OptionError, match=r"update\(\) has no option 'functionl'.*did you mean 'functional'"):
        Options.of().changed({"functionl": "bt"})


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_refuses_what_the_table_says_it_does_not_use(name):
    another = {"judge": "verdict", "n_folds": 3, "propensity": "marginal", "floor": 0.01, "subsample": 7}
    for option, value in another.items():
        given = {"estimator": name, option: value}
        if name in OPTIONS[option].used_by:
            options_of_fit(**given)
        else:
            with pytest.raises(OptionError, match=option):
                options_of_fit(**given)


def test_a_stored_result_says_what_the_options_were(draw_battles, rank):
    battles = draw_battles(np.random.default_rng(0), 120, 3, 3)
    given = {"context": "prompt", "n_folds": 2, "prompts": "fixed", "position_bias": False, "rng": 9}
    given |= {
        "cov_type": "cluster",
        "cov_kwds": {"groups": "topic"},
        "category_weights": "half",
        "min_labels": 1,
        "average": "preferences",
    }
    result = rank(battles.frame, "winner ~ 1 | model_a + model_b", **given)
    again = dr.read_json(result.to_json()).estimates.description
    assert (again.context, again.n_rep, again.prompts) == (("prompt",), 1, "fixed")
    assert (again.cov_type, again.clusters, again.seed, again.average) == ("cluster", ("topic",), 9, "preferences")
