"""What a user can get wrong: each mistake has its own error, given before any booster is trained."""

import lightgbm
import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import (
    ColumnError,
    DataError,
    DmlrankError,
    DmlrankWarning,
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
from dmlrank.options import in_objects

from ..support import quiet

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
    "no bar": ("winner ~ length", ""),
    "function of an item": ("winner ~ length | C(model_a) + model_b", ""),
    "unknown function": (LEAD.format("centre(length)"), "center"),
    "a column named Intercept": (LEAD.format("length + Intercept"), "Intercept"),
    "prompt as a category": (LEAD.format("question"), ""),
}

# Formula, data, options; error, the name that its message must have.
BAD_DATA = {
    "feature column": (LEAD.format("lenght"), battles, {}, ColumnError, "length"),
    "item column": ("winner ~ 1 | modela + model_b", battles, {}, ColumnError, "model_a"),
    "outcome column": ("won ~ 1 | model_a + model_b", battles, {}, ColumnError, "won"),
    "unknown label": (PLAIN, lambda: at("winner", "modle_b"), {}, OutcomeError, "model_b"),
    "against itself": (PLAIN, lambda: changed(model_a="claude", model_b="claude"), {}, DataError, "claude"),
    "one model": (PLAIN, lambda: changed(model_a="gpt", model_b=None, winner=None), {}, DataError, "gpt"),
    "no label": (PLAIN, lambda: changed(winner=None), {}, DataError, "winner"),
    "infinite feature": (PLAIN, lambda: at("length", np.inf), {}, DataError, "length"),
    "missing feature": (PLAIN, lambda: at("length", np.nan), {}, MissingDataError, "length"),
    "missing propensity": (PLAIN, lambda: at("shown", np.nan), {"propensity": "shown"}, MissingDataError, "shown"),
    "no prompt at all": (
        LEAD.format("text(topic, 2)"),
        lambda: changed(topic=None),
        {"missing": "keep"},
        DataError,
        "",
    ),
    "too many components": (LEAD.format("text(topic, 9)"), battles, {}, DataError, ""),
    "fewer contexts than folds": (
        LEAD.format("C(topic)"),
        battles,
        {"context": "topic", "min_labels": 1},
        DataError,
        "n_folds",
    ),
    "timestamp": (LEAD.format("day"), lambda: changed(day=pd.Timestamp("2024-05-01")), {}, DataError, "day"),
}

# Options; error, the name that its message must have.
BAD_OPTIONS = {
    "context column": ({"context": "qestion"}, ColumnError, "question"),
    "cluster column": ({"cov_type": "cluster", "cov_kwds": {"groups": "topics"}}, ColumnError, "topic"),
    "too few labels": ({"min_labels": 31, "position_bias": True}, GraphError, "min_labels"),
    "one cluster": ({"cov_type": "cluster", "cov_kwds": {"groups": "shown"}}, DataError, "shown"),
    "mu without ties": ({"mu": mu((N, 3, 3, 2))}, NuisanceError, "first"),
    "functional": ({"functional": "bordaa"}, OptionError, "borda"),
    "estimator": ({"estimator": "plug-in"}, OptionError, "plugin"),
    "learner": ({"learner": "lightgmb"}, OptionError, "lightgbm"),
    "graph of other models": ({"graph": dr.Graph.all_pairs(4)}, OptionTypeError, ""),
    "one-way graph": ({"graph": np.triu(np.ones((3, 3), dtype=bool), 1)}, GraphError, ""),
    "graph of two islands": (
        {"graph": np.array([[False, True, False], [True, False, False], [False, False, False]])},
        GraphError,
        "graph",
    ),
    "edge weights": ({"edge_weights": "count"}, OptionError, "counts"),
    "one-way edge weights": ({"edge_weights": np.triu(np.ones((3, 3)), 1)}, OptionError, ""),
    "categories": ({"categories": {"tie": "draw"}}, OptionError, "draw"),
    "category weights": ({"category_weights": "thirds"}, OptionError, "thirds"),
    "two category weights": ({"category_weights": [(1, 0), (0, 1)]}, OptionError, ""),
    "cluster without groups": ({"cov_type": "cluster"}, OptionError, "groups"),
    "groups without cluster": ({"cov_kwds": {"groups": "topic"}}, OptionError, "cluster"),
    "cov_kwds": ({"cov_type": "cluster", "cov_kwds": {"group": "topic"}}, OptionError, "groups"),
    "three ways": ({"cov_type": "cluster", "cov_kwds": {"groups": ["topic", "question", "winner"]}}, OptionError, ""),
    "context twice": ({"context": ["topic", "topic"]}, OptionError, ""),
    "alpha as a level": ({"alpha": 95}, OptionError, "alpha"),
    "alpha of zero": ({"alpha": 0}, OptionError, "alpha"),
    "n_folds": ({"n_folds": 1}, OptionError, "n_folds"),
    "floor": ({"floor": -0.1}, OptionError, "floor"),
    "global rng": ({"rng": np.random}, OptionTypeError, ""),
    "propensity name": ({"propensity": "marginl"}, ColumnError, "marginal"),
    "propensity of two axes": ({"propensity": np.full((3, 3), 0.1)}, OptionTypeError, ""),
}

BAD_PROPENSITIES = {
    "zero": ({"propensity": propensities(0.0)}, "claude"),
    "above one in a column": ({"shown": 1.01}, "shown"),
}


def fails(call, error, name):
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, DmlrankError)
    assert isinstance(caught.value, ValueError | TypeError | KeyError)
    assert name in str(caught.value)


@pytest.fixture
def no_training(monkeypatch):
    def refuse(*args, **kwargs):
        pytest.fail("a booster was trained before the mistake was found")

    monkeypatch.setattr(lightgbm, "train", refuse)
    monkeypatch.setattr(lightgbm, "cv", refuse)


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("mistake", BAD_FORMULAS)
def test_bad_formulas(mistake):
    formula, name = BAD_FORMULAS[mistake]
    fails(lambda: dr.dml_rank(formula, battles(), rng=0), FormulaError, name)


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("mistake", BAD_DATA)
def test_bad_data(mistake):
    formula, data, options, error, name = BAD_DATA[mistake]
    fails(lambda: dr.dml_rank(formula, data(), **in_objects({"rng": 0, **options})), error, name)


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("mistake", BAD_OPTIONS)
def test_bad_options(mistake):
    options, error, name = BAD_OPTIONS[mistake]
    fails(lambda: dr.dml_rank(PLAIN, battles(), **in_objects({"rng": 0} | options)), error, name)


@pytest.mark.parametrize("mistake", BAD_PROPENSITIES)
def test_bad_propensities(mistake):
    options, name = BAD_PROPENSITIES[mistake]
    data = at("shown", options["shown"]) if "shown" in options else battles()
    known = options if "propensity" in options else {"propensity": "shown"}
    fails(lambda: dr.dml_rank(PLAIN, data, **in_objects({"mu": mu(), "rng": 0, **known})), NuisanceError, name)


def test_votes_on_one_pair_have_one_propensity():
    twice = pd.concat([battles(), battles().iloc[:1].assign(shown=0.5)])
    fit = {"context": "question", "propensity": "shown", "mu": mu(), "rng": 0}
    fails(lambda: dr.dml_rank(PLAIN, twice, **in_objects(fit)), NuisanceError, "q000")


def test_a_floor_that_the_categories_cannot_keep():
    options = {"functional": "bt", "floor": 0.4, "mu": mu(), "propensity": "marginal", "rng": 0}
    fails(lambda: dr.dml_rank(PLAIN, battles(), **in_objects(options)), OptionError, "floor")
    # At the limit all probabilities would be equal.
    options["floor"] = 0.25
    quarters = np.full((N, 3, 3, 4), 0.25)
    labels = {"model_a": "first", "model_b": "second", "tie": "both_good", "bad": "both_bad"}
    four = changed(winner=np.resize(list(labels), N))
    fails(
        lambda: dr.dml_rank(PLAIN, four, **in_objects(options | {"mu": quarters, "categories": labels})),
        OptionError,
        "floor",
    )


QUICK = {"propensity": "marginal", "tune": {"n_estimators": 2}, "rng": 0, "n_jobs": 1}


@pytest.fixture(scope="module")
def result():
    with quiet():
        return dr.dml_rank(LEAD.format("length"), battles(), **in_objects(QUICK))


QUESTIONS = {
    "method": (lambda r: r.conf_int(method="tukey"), OptionError, "tukey"),
    "alpha": (lambda r: r.conf_int(alpha=1), OptionError, "alpha"),
    "alpha of a summary": (lambda r: r.summary(alpha=5), OptionError, "alpha"),
    "unknown model": (lambda r: r.t_test("gpt - clade"), UnknownModelError, "claude"),
    "unknown region": (lambda r: r.ellipsoid(models=["gtp"]), UnknownModelError, "gpt"),
    "unknown share": (lambda r: r.win_probability("gpt", "x"), UnknownModelError, ""),
    "share of one": (lambda r: r.win_probability("gpt", "gpt"), OptionError, "gpt"),
    "a constant": (lambda r: r.t_test("gpt + claude + koala = 1"), HypothesisError, ""),
    "option": (lambda r: r.update(functionl="bt"), OptionError, "functional"),
    "option value": (lambda r: r.update(functional="elo"), OptionError, "elo"),
    "new column": (lambda r: r.predict(pd.DataFrame({"size": [1.0]})), ColumnError, "length"),
    "new text": (lambda r: r.predict(pd.DataFrame({"length": ["x"]})), DataError, "length"),
    "new NaN": (lambda r: r.predict(pd.DataFrame({"length": [np.nan]})), MissingDataError, "length"),
    "new infinity": (lambda r: r.predict(pd.DataFrame({"length": [np.inf]})), DataError, ""),
    "no new frame": (lambda r: r.predict([1.0]), FrameTypeError, ""),
}


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("mistake", QUESTIONS)
def test_bad_questions(mistake, result):
    ask, error, name = QUESTIONS[mistake]
    fails(lambda: ask(result), error, name)


def test_an_unseen_category_in_new_data():
    with quiet():
        result = dr.dml_rank(LEAD.format("topic"), battles(), **in_objects(QUICK))
    fails(lambda: result.predict(pd.DataFrame({"topic": ["poetry"]})), DataError, "poetry")


def test_a_mistake_leaves_a_result_as_it_was(result):
    before = result.params.copy()
    fails(lambda: result.update(propensity="nowhere"), ColumnError, "nowhere")
    pd.testing.assert_series_equal(result.params, before)
    assert result.update(alpha=0.1).params.equals(before)


def with_wrong_cells(frame, column, value, rows):
    """A frame with a value in some rows of a column, and with the rows before them numbered from 0."""
    is_number, frame = isinstance(value, float), frame.assign(**{column: frame[column].astype(object)})
    for row in rows:
        frame.iat[row, frame.columns.get_loc(column)] = value
    # Texts make a column of objects, as files do; numbers one of floats.
    return frame.assign(**{column: frame[column].astype(float)}) if is_number else frame


SCORES = pd.DataFrame(
    {"prompt": np.repeat(np.arange(60), 3), "model": np.tile(MODELS, 60), "score": np.linspace(0.0, 1.0, 180)}
)
COUNTS = pd.DataFrame(
    {"model_a": np.repeat(MODELS, 60), "model_b": np.repeat(np.roll(MODELS, 1), 60), "won": 5.0, "lost": 3.0}
)
WRONG_CELLS = {
    "an unknown label": ("winner", "modl_a", "modl_a", {}),
    "a label that is a number": ("winner", 7, "7", {}),
    "half a vote": ("won", 2.5, "'won' is 2.5", {}),
    "less than no vote": ("lost", -1.0, "'lost' is -1", {}),
    "a list as a model": ("model_a", ["claude"], "['claude']", {}),
    "no model": ("model_a", None, "model_a", {}),
    "a blank model": ("model_b", " ", "model_b", {}),
    "no feature": ("length", np.nan, "length", {}),
    "an infinite feature": ("length", -np.inf, "length", {}),
    "a negative weight": ("weight", -2.0, "-2", {"weights": "weight"}),
    "a text as a weight": ("weight", "two", "two", {"weights": "weight"}),
    "no cluster": ("topic", None, "topic", {"cov_type": "cluster", "cov_kwds": {"groups": "topic"}}),
    "no prompt": ("question", None, "question", {"context": "question"}),
    "a propensity of zero": ("shown", 0.0, "is 0", {"propensity": "shown"}),
    "a propensity of two": ("shown", 2.5, "2.5", {"propensity": "shown"}),
    "a text as a score": ("score", "7 %", "7 %", {}),
    "an infinite score": ("score", np.inf, "inf", {}),
    "no model of a score": ("model", None, "model", {}),
    "no prompt of a score": ("prompt", None, "prompt", {}),
}


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("kind", WRONG_CELLS)
def test_an_error_about_cells_names_the_cell_and_its_first_row(kind, number):
    column, value, shown, options = WRONG_CELLS[kind]
    rows = np.sort(np.random.default_rng(number).choice(np.arange(1, 170), size=number, replace=False)).tolist()
    if column in SCORES:
        frame, formula, options = SCORES, "score ~ 1 | model", {"context": "prompt"}
    elif column in ("won", "lost"):
        frame, formula = COUNTS, "won + lost ~ 1 | model_a + model_b"
    else:
        frame, formula = changed(weight=1.0), LEAD.format("length")
    with pytest.raises(DmlrankError) as error:
        dr.dml_rank(formula, with_wrong_cells(frame, column, value, rows), rng=0, **options)
    assert shown in str(error.value)
    # A prompt is one row here.
    assert f"row {rows[0]}" in str(error.value) or f"context {rows[0]}" in str(error.value)
    assert "float64" not in str(error.value)


def test_infinite_features_in_several_rows_are_named_together():
    frame = changed(other=battles()["length"])
    frame.loc[9, "length"], frame.loc[[4, 9, 30], "other"] = np.inf, -np.inf
    with pytest.raises(DataError, match=r"the features 'length', 'other' are infinite in row 4 and 2 more;"):
        dr.dml_rank(LEAD.format("length + topic + other"), frame, rng=0)


def test_features_of_scores_that_differ_name_the_prompt():
    frame = SCORES.assign(topic=["chat", "code"] * 90, length=SCORES["prompt"])
    frame.loc[7, "length"] = 30
    for feature, found in (("topic", "'prompt' is 0: 'chat', 'code'"), ("length", "'prompt' is 2: 2, 30")):
        with pytest.raises(DataError, match=f"column '{feature}' differs between the rows of a prompt .{found}"):
            dr.dml_rank(f"score ~ {feature} | model", frame, context="prompt", rng=0)
    with pytest.raises(ColumnError, match=r"no column 'topic'.*columns that differ between the rows"):
        dr.dml_rank("score ~ 1 | model", frame, context="prompt").by("topic")


@pytest.mark.parametrize("cell", [{"role": "user"}, [{"role": "user"}], ["user", "system"]])
def test_cells_without_a_hash_stop_no_fit_that_does_not_use_them(cell):
    scores, votes = SCORES.assign(chat=[cell] * N), changed(prompt=[[cell, row % 20] for row in range(N)])
    means = dr.dml_rank("score ~ 1 | model", scores, context="prompt")
    assert means.params.equals(dr.dml_rank("score ~ 1 | model", SCORES, context="prompt").params)
    with pytest.raises(DataError, match="'chat' holds"):
        dr.dml_rank("score ~ chat | model", scores, context="prompt", functional="borda", rng=0)
    with pytest.warns(DmlrankWarning, match=r"rows are about 20 prompts \(values of 'prompt'\)"):
        dr.dml_rank(LEAD.format("1"), votes.drop(columns="question"), rng=0)
    of_prompts = {"cov_type": "cluster", "cov_kwds": {"groups": "prompt"}}
    with pytest.raises(DataError, match="column 'prompt' holds"):
        dr.dml_rank(LEAD.format("1"), votes.assign(prompt=[{"a": 1}] * N), **of_prompts)


def test_vectors_of_prompts_are_features_of_scores():
    vectors, options = SCORES.assign(vector=[[i / 60, 1.0] for i in SCORES["prompt"]]), {"context": "prompt", "rng": 0}
    with quiet():
        formulas = [f"score ~ {feature} | model" for feature in ("I(prompt / 60)", "vector")]
        one, other = (dr.dml_rank(formula, vectors, functional="borda", **options) for formula in formulas)
    np.testing.assert_allclose(one.params, other.params, atol=1e-9)
    # A model that loses everything has the share 0, apart from rounding errors, which are no reason for a warning.
    assert not any("lie outside" in text for text in (*one.diagnostics.warnings, *other.diagnostics.warnings))


def test_a_text_among_numbers_makes_no_categories_of_them():
    for text, rows in (("long", (3,)), ("12,5", (3, 9))):
        with pytest.raises(
            FormulaError, match=f"'length' holds '{text}' .str. in {len(rows)} of 180 contexts, and numb"
        ):
            dr.dml_rank(PLAIN, with_wrong_cells(battles(), "length", text, rows), rng=0)
    frame = changed(length=(np.arange(N) % 25).astype(str))
    with pytest.raises(FormulaError, match=r"'length' holds '0' .str. in 8 of 180 contexts, and numbers: .*C.length"):
        dr.dml_rank(PLAIN, frame, rng=0)
    with quiet():
        assert dr.dml_rank(LEAD.format("C(length)"), frame, rng=0).params.notna().all()


def test_data_that_are_no_frame_say_what_makes_one():
    for data in (battles().to_dict("list"), battles().to_dict("records")):
        with pytest.raises(FrameTypeError, match=r"; pandas\.DataFrame\(data\) makes one$"):
            dr.dml_rank(PLAIN, data)
