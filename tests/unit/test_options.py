"""The table of options is what the signature, the checks, the readers and the stored description say."""

import inspect
import re
import typing

import pytest

import dmlrank as dr
from dmlrank.exceptions import OptionError, OptionTypeError
from dmlrank.fit.estimators import options_for
from dmlrank.options import ESTIMATORS, KEYWORDS, OPTIONS, Options, in_objects, one_by_one

SIGNATURE = inspect.signature(dr.dml_rank).parameters
# Keywords that say how a fit is run, and not what is fitted.
ABOUT_THE_CALL = ("progress", "env")


def options_of_fit(**given):
    return options_for(None, Options.of(in_objects(given)), given)


def options_of_update(options, changes):
    return options_for(None, options.changed(changes), changes)


def test_the_signature_has_the_options_with_their_defaults():
    keywords = {name: p.default for name, p in SIGNATURE.items() if name not in ("formula", "data", *ABOUT_THE_CALL)}
    assert list(keywords) == list(KEYWORDS)
    assert one_by_one(keywords).keys() == OPTIONS.keys()
    for name, value in one_by_one(keywords).items():
        assert OPTIONS[name].is_default(value), name
    of_check = {name: p.default for name, p in inspect.signature(dr.check).parameters.items()}
    assert all(KEYWORDS[name].is_default(of_check[name]) for name in of_check if name in KEYWORDS and name != "pairs")


def test_words_in_the_signature_are_those_of_the_table():
    hints = {
        name: p.annotation
        for name, p in inspect.signature(
            dr.dml_rank, locals={"Plan": dr.planning.Plan}, eval_str=True
        ).parameters.items()
    }
    literal = {name: typing.get_args(hint) for name, hint in hints.items() if typing.get_origin(hint) is typing.Literal}
    assert len(literal) == 3
    assert literal == {name: OPTIONS[name].words for name in literal}


@pytest.mark.parametrize("owner", [dr.dml_rank, dr.Pairs, dr.Learning])
def test_every_option_is_documented(owner):
    documentation = inspect.cleandoc(owner.__doc__)
    documented = re.findall(r"(?m)^(\w+) : ", re.split("Returns|Raises", documentation)[0])
    assert documented == list(inspect.signature(owner).parameters)


def test_an_option_of_an_object_is_given_to_an_update_by_its_own_name():
    before = Options.of({"pairs": dr.Pairs(min_labels=3), "cov_type": "cluster", "cov_kwds": {"groups": "user"}})
    after = before.changed({"edge_weights": "counts", "n_rep": 2, "prompts": "fixed"})
    assert (after.pairs.min_labels, after.pairs.edge_weights, after.learning.n_rep) == (3, "counts", 2)
    assert (after.clusters, after.prompts) == (("user",), "fixed")
    assert before.changed({"pairs": dr.Pairs()}).pairs.min_labels == "auto"
    assert before.changed({"cov_type": "robust"}).clusters == ()


def test_an_argument_that_is_not_known_says_where_the_option_stands():
    for wrong, place in (
        ({"min_labels": 5}, r"write pairs=Pairs\(min_labels=\.\.\.\)"),
        ({"prompts": "fixed"}, r"write cov_kwds=\{'prompts': \.\.\.\}"),
        ({"functionl": "bt"}, "did you mean 'functional'"),
    ):
        with pytest.raises(OptionTypeError, match=place):
            dr.dml_rank("winner ~ 1 | model_a + model_b", None, **wrong)
    with pytest.raises(OptionTypeError, match=r"check\(\) has no argument 'n_folds'"):
        dr.check("winner ~ 1 | model_a + model_b", None, n_folds=3)
    with pytest.raises(OptionTypeError, match=r"no argument 'propensity'; it belongs to dml_rank\(\)$"):
        dr.check("winner ~ 1 | model_a + model_b", None, propensity="marginal")


@pytest.mark.parametrize("name", ["estimator", "graph", "missing", "learner", "judge_as", "component"])
def test_a_wrong_word_is_refused_wherever_it_is_given(name):
    of_object = rf"(pairs=Pairs|learning=Learning)\(\.\.\.\): {name}" if OPTIONS[name].group else f"^{name}"
    with pytest.raises(OptionError, match=f"{of_object}='wrong'"):
        options_of_fit(**{name: "wrong"})
    with pytest.raises(OptionError, match=f"{name}='wrong'"):
        options_of_update(options_of_fit(), {name: "wrong"})


def test_what_is_about_the_call_is_no_option_of_an_update():
    for name in ABOUT_THE_CALL:
        with pytest.raises(OptionError, match=name):
            options_of_update(options_of_fit(), {name: None})


def test_an_update_refuses_unknown_names_and_says_how_clusters_are_given():
    with pytest.raises(OptionError, match=r"update\(\) has no option 'clusters'.*'groups', 'prompts'"):
        Options.of({}).changed({"clusters": "topic"})
    with pytest.raises(OptionError, match=r"update\(\) has no option 'functionl'.*did you mean 'functional'"):
        Options.of({}).changed({"functionl": "bt"})


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_refuses_what_the_table_says_it_does_not_use(name):
    another = {"judge": "verdict", "n_folds": 3, "propensity": "marginal", "floor": 0.01}
    for option, value in another.items():
        given = {"estimator": name, option: value}
        if name in OPTIONS[option].used_by:
            options_of_fit(**given)
        else:
            with pytest.raises(OptionError, match=option):
                options_of_fit(**given)


def test_what_no_estimator_of_a_kind_uses():
    unused = {name: {key for key, option in OPTIONS.items() if name not in option.used_by} for name in ESTIMATORS}
    of_scores = {"lower_is_better", "bounds"}
    learnt = {"average", "adjust", "judge", "judge_as", "second_order", "propensity", "mu", "learner", "tune", "floor"}
    likelihood = of_scores | learnt | {"n_folds", "n_rep", "weights", "min_labels", "edge_weights"}
    assert unused == {
        "debiased": of_scores,
        "plugin": of_scores | {"adjust", "second_order"},
        "bt_restricted": of_scores | {"adjust", "average", "judge", "second_order"},
        "bt_mle": likelihood | {"prompts"},
        "bt_contextual": likelihood | {"position_bias"},
    }
