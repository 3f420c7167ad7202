"""What a user can get wrong: each mistake has its own error, given before any booster is trained."""

from __future__ import annotations

import warnings

import lightgbm
import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import (
    ColumnError,
    DataError,
    DmlrankError,
    FormulaError,
    FrameTypeError,
    GraphError,
    HypothesisError,
    MissingDataError,
    NuisanceError,
    OptionError,
    OptionTypeError,
    OutcomeError,
    UnknownModelError,
)

from ..support import optional

duckdb = optional("duckdb")
pl = optional("polars")

N, MODELS = 180, ["claude", "gpt", "koala"]


def battles():
    """180 prompts, one vote each, every ordered pair of three models 30 times."""
    rng = np.random.default_rng(0)
    pairs = [(a, b) for a in MODELS for b in MODELS if a != b]
    return pd.DataFrame(
        {
            "winner": rng.choice(["model_a", "model_b", "tie"], size=N),
            "model_a": [pairs[i % 6][0] for i in range(N)],
            "model_b": [pairs[i % 6][1] for i in range(N)],
            "length": rng.normal(size=N),
            "topic": rng.choice(["chat", "code"], size=N),
            "question": [f"q{i:03d}" for i in range(N)],
            "shown": 1 / 6,
        }
    )


def changed(**columns):
    return battles().assign(**columns)


def at(column, value, rows=(3,)):
    """The battles with a value in some rows of a column."""
    frame = battles()
    frame[column] = frame[column].astype(object) if isinstance(value, str) else frame[column]
    frame.loc[list(rows), column] = value
    return frame


def two_islands():
    frame = battles()
    lone = frame.assign(model_a=np.where(np.arange(N) % 2, "vicuna", "alpaca"), model_b="dolly")
    swapped = lone.assign(model_a=lone["model_b"], model_b=lone["model_a"])
    return pd.concat([frame, lone, swapped], ignore_index=True)


# A relation does not keep its connection open in every version of DuckDB.
CONNECTIONS = []


def unordered():
    connection = duckdb.connect()
    CONNECTIONS.append(connection)
    connection.execute("SET preserve_insertion_order = false")
    return connection.from_df(battles())


def third_wins():
    frame = changed(winner=battles()["model_a"])
    frame.loc[0, "winner"] = "koala"
    return frame


def mu(shape=(N, 3, 3, 3), pair=(1 / 3, 1 / 3, 1 / 3)):
    table = np.zeros(shape)
    table[..., :] = np.resize(pair, shape[-1])
    return table


def propensities(value=1 / 6):
    table = np.full((N, 3, 3), 1 / 6)
    table[4, 0, 1] = value
    return table


LEAD = "winner ~ {} | model_a + model_b"
# Features: where a mistake went unnoticed, a booster would be trained.
PLAIN = LEAD.format("length + C(topic)")

BAD_FORMULAS = {
    "no bar": ("winner ~ length", ["no |", "item columns are missing", "winner ~ features | model_a + model_b"]),
    "two bars": ("winner ~ length | model_a | model_b", ["| stands 2 times outside brackets"]),
    "double bar": ("winner ~ length || model_a + model_b", ["|| is not a separator"]),
    "one item": ("winner ~ length | model_a", ["1 item column after |", "there must be two"]),
    "three items": ("winner ~ length | model_a + model_b + topic", ["3 item columns after |"]),
    "function of an item": ("winner ~ length | C(model_a) + model_b", ["right of |", "'C(model_a)'"]),
    "no features": ("winner ~ | model_a + model_b", ["no features stand between ~ and |", "write 1"]),
    "no formula": (None, ["the formula is a NoneType"]),
    "outcome as a feature": (LEAD.format("winner"), ["'winner' is the outcome"]),
    "unknown function": (LEAD.format("centre(length)"), ["'centre'", "did you mean 'center'?"]),
    "a column named Intercept": (LEAD.format("length + Intercept"), ["'Intercept'", "the constant", "Q('Intercept')"]),
    "prompt as a category": (LEAD.format("question"), ["180 different values", "text(question, 100)"]),
}

# Formula, data, options; error, fragments of its message.
BAD_DATA = {
    "feature column": (LEAD.format("lenght"), battles, {}, ColumnError, ["'lenght'", "did you mean 'length'?"]),
    "item column": ("winner ~ 1 | modela + model_b", battles, {}, ColumnError, ["'modela'", "did you mean 'model_a'?"]),
    "outcome column": (
        "won ~ 1 | model_a + model_b",
        battles,
        {},
        ColumnError,
        ["'won'", "columns: 'winner', 'model_a'"],
    ),
    "unknown label": (
        PLAIN,
        lambda: at("winner", "modle_b"),
        {},
        OutcomeError,
        ["unknown winner label 'modle_b'", "did you mean 'model_b'?", "labels found"],
    ),
    "a third model wins": (
        PLAIN,
        third_wins,
        {},
        OutcomeError,
        ["1 votes name a winner that was not compared", "'koala' in a comparison of 'claude' with 'gpt'"],
    ),
    "against itself": (
        PLAIN,
        lambda: at("model_b", "claude", [0]),
        {},
        DataError,
        ["compare a model with itself", "'claude'"],
    ),
    "one model": (
        PLAIN,
        lambda: changed(model_a="gpt", model_b=None, winner=None),
        {},
        DataError,
        ["only one model in the data ('gpt')", "at least two"],
    ),
    "two islands": (
        PLAIN,
        two_islands,
        {},
        GraphError,
        ["2 components", "{'claude', 'gpt', 'koala'}", "{'alpaca', 'dolly', 'vicuna'}", "component='largest'"],
    ),
    "percentages": (PLAIN, lambda: changed(winner=37.5), {}, OutcomeError, ["'winner' is 37.5 in row 0", "by 100"]),
    "a preference below zero": (
        PLAIN,
        lambda: changed(winner=np.linspace(-0.5, 1, N)),
        {},
        OutcomeError,
        ["is -0.5 in row 0 (60 such rows)", "lie in [0, 1]"],
    ),
    "probabilities of two": (
        "pa + p_b ~ 1 | model_a + model_b",
        lambda: changed(pa=0.5, p_b=0.5),
        {},
        OutcomeError,
        ["columns 'pa'", "categories={'pa': ...}"],
    ),
    "probabilities that do not add up": (
        "p_a + p_b ~ 1 | model_a + model_b",
        lambda: changed(p_a=0.5, p_b=np.where(np.arange(N) == 7, 0.6, 0.5)),
        {},
        OutcomeError,
        ["row 7 sums to 1.1: p_a = 0.5, p_b = 0.6 (1 such rows)"],
    ),
    "some probabilities": (
        "p_a + p_b ~ 1 | model_a + model_b",
        lambda: changed(p_a=0.5, p_b=np.where(np.arange(N) == 7, np.nan, 0.5)),
        {},
        MissingDataError,
        ["'p_b' in 1 of 180 rows"],
    ),
    "a lazy frame": (PLAIN, lambda: pl.LazyFrame(battles()), {}, FrameTypeError, ["LazyFrame", ".collect() makes one"]),
    "rows in no order": (PLAIN, unordered, {}, DataError, ["preserve_insertion_order = false"]),
    "no label": (PLAIN, lambda: changed(winner=None), {}, DataError, ["no row has a label", "'winner'", "180 rows"]),
    "infinite feature": (
        PLAIN,
        lambda: at("length", np.inf),
        {},
        DataError,
        ["infinite values in the features 'length'"],
    ),
    "infinite feature kept": (
        PLAIN,
        lambda: at("length", -np.inf),
        {"missing": "keep"},
        DataError,
        ["infinite values"],
    ),
    "missing feature": (
        PLAIN,
        lambda: at("length", np.nan),
        {},
        MissingDataError,
        ["'length' in 1 of 180 rows", "missing='drop'", "missing='keep'"],
    ),
    "missing item": (
        PLAIN,
        lambda: at("model_a", None),
        {},
        MissingDataError,
        ["'model_a' in 1 of 180 rows", "missing='drop'"],
    ),
    "missing context": (
        PLAIN,
        lambda: at("question", None, [1, 2]),
        {"context": "question"},
        MissingDataError,
        ["'question' in 2 of 180 rows", "belongs to no context"],
    ),
    "missing propensity": (
        PLAIN,
        lambda: at("shown", np.nan),
        {"propensity": "shown"},
        MissingDataError,
        ["'shown' in 1 of 180 rows"],
    ),
    "everything missing": (
        PLAIN,
        lambda: changed(length=np.nan),
        {"missing": "drop"},
        MissingDataError,
        ["each of the 180 rows", "'length' in 180"],
    ),
    "no prompt at all": (
        LEAD.format("text(topic, 2)"),
        lambda: changed(topic=None),
        {"missing": "keep"},
        DataError,
        ["every text of the column is missing"],
    ),
    "too many components": (LEAD.format("text(topic, 9)"), battles, {}, DataError, ["2 distinct words", "at most 2"]),
    "context with two lengths": (
        PLAIN,
        lambda: changed(question=battles()["topic"]),
        {"context": "question"},
        DataError,
        ["'length' differs within 2 contexts", "one value of every feature"],
    ),
    "fewer contexts than folds": (
        LEAD.format(1),
        battles,
        {"context": "topic", "min_labels": 1},
        DataError,
        ["2 contexts", "n_folds=5", "use fewer folds"],
    ),
    "timestamp": (
        LEAD.format("day"),
        lambda: changed(day=pd.Timestamp("2024-05-01")),
        {},
        DataError,
        ["'day' is a timestamp"],
    ),
    "no rows": (PLAIN, lambda: battles().iloc[:0], {}, DataError, ["the frame has no rows"]),
    "a dict": (
        PLAIN,
        lambda: battles().to_dict(),
        {},
        FrameTypeError,
        ["data is a builtins.dict", "pandas.DataFrame(data)"],
    ),
    "a list": (PLAIN, lambda: battles().to_dict("records"), {}, FrameTypeError, ["data is a builtins.list"]),
    "nothing": (PLAIN, lambda: None, {}, FrameTypeError, ["data is a builtins.NoneType"]),
    "two columns of a name": (
        PLAIN,
        lambda: pd.concat([battles(), battles()], axis=1),
        {},
        DataError,
        ["several columns named 'winner'"],
    ),
    "rank centrality of two": (
        PLAIN,
        lambda: battles().query("model_a != 'koala' and model_b != 'koala'"),
        {"functional": "rank_centrality"},
        OptionError,
        ["two items", "borda", "bt", "rate"],
    ),
}

# Options; error, fragments of its message.
BAD_OPTIONS = {
    "context column": ({"context": "qestion"}, ColumnError, ["context=", "did you mean 'question'?"]),
    "cluster column": (
        {"cov_type": "cluster", "cov_kwds": {"groups": "topics"}},
        ColumnError,
        ["cov_kwds groups", "did you mean 'topic'?"],
    ),
    "too few labels": (
        {"min_labels": 31, "position_bias": True},
        GraphError,
        ["3 components", "min_labels=31", "min_labels=5 would connect them"],
    ),
    "one cluster": (
        {"cov_type": "cluster", "cov_kwds": {"groups": "shown"}},
        DataError,
        ["in one cluster of 'shown'", "need at least two clusters", "leave cov_type='cluster' out"],
    ),
    "mu of one fold": ({"mu": mu((9, 3, 3, 3))}, NuisanceError, ["mu= has shape (9, 3, 3, 3)", "(180, 3, 3, 3)"]),
    "mu without ties": ({"mu": mu((N, 3, 3, 2))}, NuisanceError, ["('first', 'second', 'tie')"]),
    "mu above one": ({"mu": mu(pair=(1.2, -0.1, -0.1))}, NuisanceError, ["mu= is not a probability", "context 0"]),
    "mu with NaN": ({"mu": mu(pair=(np.nan, 0.5, 0.5))}, NuisanceError, ["mu= is not a probability"]),
    "mu that leaks": ({"mu": mu(pair=(0.3, 0.3, 0.3))}, NuisanceError, ["mu= does not sum to one"]),
    "mu of words": ({"mu": "lightgbm"}, OptionTypeError, ["mu= has the type str", "pass an array"]),
    "functional": ({"functional": "bordaa"}, OptionError, ["'bordaa'", "did you mean 'borda'?", "'rank_centrality'"]),
    "functional class": ({"functional": dr.functionals.Borda}, OptionTypeError, ["functional is the class Borda"]),
    "functional object": ({"functional": 3}, OptionTypeError, ["functional is a int", "'bt'"]),
    "estimator": ({"estimator": "plug-in"}, OptionError, ["estimator='plug-in'", "did you mean 'plugin'?"]),
    "learner": ({"learner": "lightgmb"}, OptionError, ["learner='lightgmb'", "did you mean 'lightgbm'?"]),
    "tune": ({"tune": "random forest"}, OptionError, ["tune='random forest'", "'cv'"]),
    "tune of another kind": ({"tune": 30}, OptionTypeError, ["tune has the type int", "pass 'cv'"]),
    "graph": ({"graph": "full"}, OptionError, ["graph='full'", "'observed', 'complete'"]),
    "graph of other models": ({"graph": dr.Graph.all_pairs(4)}, OptionTypeError, ["(4, 4)", "(3, 3)"]),
    "one-way graph": ({"graph": np.triu(np.ones((3, 3), dtype=bool), 1)}, GraphError, ["not symmetric"]),
    "graph of two islands": (
        {"graph": np.array([[False, True, False], [True, False, False], [False, False, False]])},
        GraphError,
        ["graph= does not connect the models", "{'claude', 'gpt'}; {'koala'}", "graph='observed'"],
    ),
    "component": ({"component": "biggest"}, OptionError, ["component='biggest'", "'largest'"]),
    "edge weights": ({"edge_weights": "count"}, OptionError, ["edge_weights='count'", "did you mean 'counts'?"]),
    "edge weights of words": ({"edge_weights": {"gpt": 1}}, OptionTypeError, ["edge_weights is a dict", "(3, 3)"]),
    "one-way edge weights": ({"edge_weights": np.triu(np.ones((3, 3)), 1)}, OptionError, ["symmetric"]),
    "categories": ({"categories": {"tie": "draw"}}, OptionError, ["'draw'", "allowed are"]),
    "categories as a list": ({"categories": ["tie"]}, OptionTypeError, ["categories is a list"]),
    "category weights": ({"category_weights": "thirds"}, OptionError, ["category_weights='thirds'"]),
    "two category weights": ({"category_weights": [(1, 0), (0, 1)]}, OptionError, ["2 categories, the data have 3"]),
    "cov_type": ({"cov_type": "HC1"}, OptionError, ["cov_type='HC1'", "'robust', 'cluster'"]),
    "cluster without groups": ({"cov_type": "cluster"}, OptionError, ["cov_kwds={'groups': column}"]),
    "groups without cluster": ({"cov_kwds": {"groups": "topic"}}, OptionError, ["cov_type='cluster' only"]),
    "cov_kwds": (
        {"cov_type": "cluster", "cov_kwds": {"group": "topic"}},
        OptionError,
        ["'group'", "did you mean 'groups'?"],
    ),
    "cov_kwds as a name": ({"cov_type": "cluster", "cov_kwds": "topic"}, OptionTypeError, ["cov_kwds is a str"]),
    "three ways": (
        {"cov_type": "cluster", "cov_kwds": {"groups": ["topic", "question", "winner"]}},
        OptionError,
        ["names 3 columns", "at most two"],
    ),
    "missing": ({"missing": "ignore"}, OptionError, ["missing='ignore'", "'raise', 'drop', 'keep'"]),
    "votes": ({"votes": "last"}, OptionError, ["votes='last'", "'mean', 'first'"]),
    "votes that are counted": ({"votes": 1}, OptionError, ["votes=1"]),
    "context as a number": ({"context": 3}, OptionTypeError, ["context names columns", "int"]),
    "context twice": ({"context": ["topic", "topic"]}, OptionError, ["names a column twice"]),
    "alpha as a level": ({"alpha": 95}, OptionError, ["alpha=95", "strictly between 0 and 1", "0.05"]),
    "alpha of zero": ({"alpha": 0}, OptionError, ["alpha=0", "strictly between 0 and 1"]),
    "alpha as an array": ({"alpha": np.array([0.1, 0.05])}, OptionError, ["strictly between 0 and 1"]),
    "n_folds": ({"n_folds": 1}, OptionError, ["n_folds=1", "at least 2"]),
    "n_jobs": ({"n_jobs": 0}, OptionError, ["n_jobs=0", "at least 1"]),
    "floor": ({"floor": -0.1}, OptionError, ["floor=-0.1"]),
    "rng": ({"rng": "seed"}, OptionTypeError, ["rng='seed'", "Generator"]),
    "global rng": ({"rng": np.random}, OptionTypeError, ["a numpy Generator or None"]),
    "env": ({"env": "globals"}, OptionTypeError, ["env is a str"]),
    "propensity name": ({"propensity": "marginl"}, ColumnError, ["propensity='marginl'", "did you mean 'marginal'?"]),
    "propensity of another kind": (
        {"propensity": 0.1},
        OptionTypeError,
        ["propensity is a float", "(contexts, models, models)"],
    ),
    "propensity of two axes": (
        {"propensity": np.full((3, 3), 0.1)},
        OptionTypeError,
        ["array of numbers (contexts, models, models)"],
    ),
    "propensities of words": ({"propensity": np.full((N, 3, 3), "x")}, OptionTypeError, ["array of numbers"]),
}

BAD_PROPENSITIES = {
    "other shape": ({"propensity": np.full((N, 4, 4), 0.1)}, ["shape (180, 4, 4)", "(180, 3, 3)"]),
    "zero": ({"propensity": propensities(0.0)}, ["propensity= is 0.0 in context 4 for 'claude' before 'gpt'"]),
    "above one": ({"propensity": propensities(1.5)}, ["propensity= is 1.5", "(0, 1]"]),
    "missing": ({"propensity": propensities(np.nan)}, ["propensity= is nan", "1 such entries"]),
    "infinite": ({"propensity": propensities(np.inf)}, ["propensity= is inf"]),
    "zero in a column": ({"shown": 0.0}, ["'shown' is 0.0 in row 3", "allowed: numbers in (0, 1]"]),
    "above one in a column": ({"shown": 1.01}, ["'shown' is 1.01 in row 3"]),
    "infinite in a column": ({"shown": np.inf}, ["'shown' is inf in row 3"]),
    "words in a column": ({"shown": "often"}, ["'shown' holds 'often'; allowed: numbers"]),
}


def fails(call, error, fragments):
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, DmlrankError)
    assert isinstance(caught.value, ValueError | TypeError | KeyError)
    for fragment in fragments:
        assert fragment in str(caught.value)


@pytest.fixture
def no_training(monkeypatch):
    def refuse(*args, **kwargs):
        pytest.fail("a booster was trained before the mistake was found")

    monkeypatch.setattr(lightgbm, "train", refuse)
    monkeypatch.setattr(lightgbm, "cv", refuse)


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("mistake", BAD_FORMULAS)
def test_bad_formulas(mistake):
    formula, fragments = BAD_FORMULAS[mistake]
    fails(lambda: dr.dml_rank(formula, battles(), rng=0), FormulaError, fragments)


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("mistake", BAD_DATA)
def test_bad_data(mistake):
    formula, data, options, error, fragments = BAD_DATA[mistake]
    fails(lambda: dr.dml_rank(formula, data(), rng=0, **options), error, fragments)


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("mistake", BAD_OPTIONS)
def test_bad_options(mistake):
    options, error, fragments = BAD_OPTIONS[mistake]
    fails(lambda: dr.dml_rank(PLAIN, battles(), **({"rng": 0} | options)), error, fragments)


@pytest.mark.parametrize("mistake", BAD_PROPENSITIES)
def test_bad_propensities(mistake):
    options, fragments = BAD_PROPENSITIES[mistake]
    data = at("shown", options["shown"]) if "shown" in options else battles()
    known = options if "propensity" in options else {"propensity": "shown"}
    fails(lambda: dr.dml_rank(PLAIN, data, mu=mu(), rng=0, **known), NuisanceError, fragments)


def test_votes_on_one_pair_have_one_propensity():
    twice = pd.concat([battles(), battles().iloc[:1].assign(shown=0.5)])
    fit = {"context": "question", "propensity": "shown", "mu": mu(), "rng": 0}
    fails(lambda: dr.dml_rank(PLAIN, twice, **fit), NuisanceError, ["different values", "'q000'", "one propensity"])


def test_a_floor_that_the_categories_cannot_keep():
    options = {"functional": "bt", "floor": 0.4, "mu": mu(), "propensity": "marginal", "rng": 0}
    fails(lambda: dr.dml_rank(PLAIN, battles(), **options), OptionError, ["floor=0.4 is too high for 3 categories"])
    # At the limit all probabilities would be equal.
    options["floor"] = 0.25
    quarters = np.full((N, 3, 3, 4), 0.25)
    labels = {"model_a": "first", "model_b": "second", "tie": "both_good", "bad": "both_bad"}
    four = changed(winner=np.resize(list(labels), N))
    fails(
        lambda: dr.dml_rank(PLAIN, four, **options | {"mu": quarters, "categories": labels}),
        OptionError,
        ["floor=0.25 is too high for 4 categories"],
    )


QUICK = {"propensity": "marginal", "tune": {"n_estimators": 2}, "rng": 0, "n_jobs": 1}


@pytest.fixture(scope="module")
def result():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dr.DmlrankWarning)
        return dr.dml_rank(LEAD.format("length"), battles(), **QUICK)


QUESTIONS = {
    "method": (lambda r: r.conf_int(method="tukey"), OptionError, ["method='tukey'", "'max-t', 'bonferroni', 'none'"]),
    "alpha": (lambda r: r.conf_int(alpha=1), OptionError, ["alpha=1", "strictly between 0 and 1"]),
    "alpha of a summary": (lambda r: r.summary(alpha=5), OptionError, ["alpha=5"]),
    "unknown model": (lambda r: r.t_test("gpt - clade"), UnknownModelError, ["'clade'", "did you mean 'claude'?"]),
    "unknown pair": (lambda r: r.t_test(("gpt", "vicuna")), UnknownModelError, ["'vicuna'", "known are 'claude'"]),
    "unknown coefficient": (lambda r: r.wald_test({"gpt4": 1}), UnknownModelError, ["'gpt4'", "did you mean 'gpt'?"]),
    "unknown region": (lambda r: r.ellipsoid(models=["gtp"]), UnknownModelError, ["'gtp'", "did you mean 'gpt'?"]),
    "unknown share": (lambda r: r.win_probability("gpt", "x"), UnknownModelError, ["no model 'x' was ranked"]),
    "share of one": (lambda r: r.win_probability("gpt", "gpt"), OptionError, ["two different models", "'gpt' twice"]),
    "a constant": (lambda r: r.t_test("gpt + claude + koala = 1"), HypothesisError, ["constant", "whatever the data"]),
    "an inequality": (lambda r: r.t_test("gpt > claude"), HypothesisError, ["'>' is not allowed"]),
    "an empty test": (lambda r: r.t_test(""), HypothesisError, ["empty"]),
    "another size": (lambda r: r.t_test(np.ones(4)), HypothesisError, ["shape (4,)", "(3,)"]),
    "option": (lambda r: r.update(functionl="bt"), OptionError, ["'functionl'", "did you mean 'functional'?"]),
    "option value": (lambda r: r.update(functional="elo"), OptionError, ["functional='elo'", "'borda', 'bt'"]),
    "new column": (lambda r: r.predict(pd.DataFrame({"size": [1.0]})), ColumnError, ["newdata", "no column 'length'"]),
    "new text": (lambda r: r.predict(pd.DataFrame({"length": ["x"]})), DataError, ["'length' is 'x'", "hold numbers"]),
    "new NaN": (lambda r: r.predict(pd.DataFrame({"length": [np.nan]})), MissingDataError, ["'length' are NaN"]),
    "new infinity": (lambda r: r.predict(pd.DataFrame({"length": [np.inf]})), DataError, ["infinite values"]),
    "no new frame": (lambda r: r.predict([1.0]), FrameTypeError, ["data is a builtins.list"]),
}


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("mistake", QUESTIONS)
def test_bad_questions(mistake, result):
    ask, error, fragments = QUESTIONS[mistake]
    fails(lambda: ask(result), error, fragments)


def test_an_unseen_category_in_new_data():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dr.DmlrankWarning)
        result = dr.dml_rank(LEAD.format("topic"), battles(), **QUICK)
    fails(lambda: result.predict(pd.DataFrame({"topic": ["poetry"]})), DataError, ["'poetry'", "topic"])


def test_a_mistake_leaves_a_result_as_it_was(result):
    before = result.params.copy()
    fails(lambda: result.update(propensity="nowhere"), ColumnError, ["'nowhere'"])
    pd.testing.assert_series_equal(result.params, before)
    assert result.update(alpha=0.1).params.equals(before)
