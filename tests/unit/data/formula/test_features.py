"""Features: a row per context, names from the frame or the caller, functions, transforms that are fitted once."""

import sys
import tracemalloc

import numpy as np
import pandas as pd
import patsy
import pytest

import dmlrank as dr
from dmlrank.data.formula.features import Text, caller_environment, check_features, fit_features
from dmlrank.data.frames import take_columns
from dmlrank.data.read_votes import preferences_of, take_rows
from dmlrank.exceptions import (
    ColumnError,
    DataError,
    FormulaError,
    MissingDataError,
    MissingExtraError,
    OptionError,
    OptionTypeError,
)
from dmlrank.options import Options, in_objects

from ....support import optional, quiet

QUICK = {"propensity": "marginal", "min_labels": 1, "tune": {"n_estimators": 2}, "rng": 0, "n_jobs": 1}


def by_question(frame):
    return frame.drop_duplicates("question").reset_index(drop=True)


def test_x_has_one_row_per_context_in_order_of_first_appearance(read, votes):
    data = read(votes, "length", context=["question"])
    np.testing.assert_array_equal(data.x, [[3], [1], [2], [5], [4]])
    assert data.context_ids.tolist() == ["q3", "q1", "q2", "q5", "q4"]


def test_transforms_are_fitted_on_contexts_and_not_on_rows(read, votes):
    data = read(votes, "center(length) + standardize(length)", context=["question"])
    np.testing.assert_allclose(data.x[:, 0], np.array([3, 1, 2, 5, 4]) - 3.0)
    np.testing.assert_allclose(data.x[:, 1], (np.array([3, 1, 2, 5, 4]) - 3) / np.sqrt(2))
    assert votes["length"].mean() != 3


@pytest.mark.parametrize("cell", [list, tuple, np.array], ids=["lists", "tuples", "arrays"])
def test_vectors_in_cells_are_features(read, many_votes, cell):
    rng = np.random.default_rng(0)
    embedding = {q: rng.normal(size=3) for q in many_votes["question"].unique()}
    frame = many_votes.assign(e=[cell(embedding[q]) for q in many_votes["question"]])
    data = read(frame, "e + e:length", context=["question"])
    expected = np.array([embedding[q] for q in data.context_ids])
    length = by_question(frame)["length"].to_numpy()
    np.testing.assert_allclose(data.x, np.hstack([expected, expected * length[:, None]]))
    assert data.feature_map.names == ("e[0]", "e[1]", "e[2]", "e[0]:length", "e[1]:length", "e[2]:length")


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, lambda rows: [list(row) for row in rows]])
def test_arrays_of_the_caller_have_a_row_per_row_of_the_data(read, many_votes, kind):
    codes = pd.factorize(many_votes["question"])[0]
    matrix = np.random.default_rng(1).normal(size=(60, 2))
    data = read(many_votes, "matrix", env={"matrix": kind(matrix[codes])}, context=["question"])
    np.testing.assert_array_equal(data.x, matrix)
    assert data.feature_map.names == ("matrix[0]", "matrix[1]")


def test_texts_of_the_caller_are_features_too(read, votes):
    topics = votes["topic"].to_numpy(dtype=object)
    with_array = read(votes, "topics", env={"topics": topics}, context=["question"])
    np.testing.assert_array_equal(with_array.x, read(votes, "topic", context=["question"]).x)


def test_names_are_looked_up_where_dml_rank_is_called(many_votes):
    spread = np.arange(200.0)

    def half(column):
        return column / 2

    with quiet():
        result = dr.dml_rank("winner ~ half(spread) | a + b", many_votes, **in_objects(QUICK))
    np.testing.assert_array_equal(result.steps.data.x[:, 0], spread / 2)


def rank_in_a_function_of_its_own(frame, env):
    with quiet():
        return dr.dml_rank("winner ~ scaled | a + b", frame, **in_objects({"env": env, **QUICK}))


def test_env_looks_further_up_or_into_a_mapping(many_votes):
    scaled = np.arange(200.0)
    np.testing.assert_array_equal(rank_in_a_function_of_its_own(many_votes, 1).steps.data.x[:, 0], scaled)
    given = rank_in_a_function_of_its_own(many_votes, {"scaled": -scaled})
    np.testing.assert_array_equal(given.steps.data.x[:, 0], -scaled)
    captured = rank_in_a_function_of_its_own(many_votes, patsy.EvalEnvironment.capture())
    np.testing.assert_array_equal(captured.steps.data.x[:, 0], scaled)
    with pytest.raises(ColumnError, match="scaled"):
        rank_in_a_function_of_its_own(many_votes, 0)


@pytest.mark.parametrize(("env", "error"), [("here", OptionTypeError), (-1, OptionError), (10_000, OptionError)])
def test_an_env_that_is_none(env, error):
    with pytest.raises(error):
        caller_environment(env, depth=0)


def test_a_column_comes_before_a_name_of_the_caller(read, votes):
    data = read(votes, "length", env={"length": np.zeros(9)}, context=["question"])
    assert data.x[:, 0].tolist() == [3, 1, 2, 5, 4]


def test_text_columns(read, votes):
    frame = votes.assign(text=votes["topic"] + " of " + votes["question"])
    data = read(frame, "text(text, 2)", context=["question"])
    assert data.x.shape == (5, 2)
    assert data.feature_map.names == ("text(text, 2)[0]", "text(text, 2)[1]")
    holes = frame.assign(text=frame["text"].mask(frame["question"] == "q1"))
    kept = read(holes, "text(text, 2)", context=["question"], missing="keep").x
    np.testing.assert_array_equal(np.isnan(kept).all(axis=1), [False, True, False, False, False])


def test_factors(read, votes):
    codes = pd.get_dummies(by_question(votes)["topic"]).to_numpy(dtype=float)
    np.testing.assert_array_equal(read(votes, "topic", context=["question"]).x, codes[:, 1:])
    full = read(votes, "0 + C(topic)", context=["question"])
    np.testing.assert_array_equal(full.x, codes)
    assert full.feature_map.names == ("C(topic)[chat]", "C(topic)[code]", "C(topic)[math]")


def test_categoricals_keep_their_order_and_lose_unused_levels(read, votes):
    levels = ["science", "math", "code", "chat"]
    frame = votes.assign(topic=pd.Categorical(votes["topic"], categories=levels))
    data = read(frame, "topic", context=["question"])
    assert data.feature_map.names == ("topic[T.code]", "topic[T.chat]")


@pytest.mark.parametrize("features", ["1", "0", "-1"])
def test_no_context(read, votes, features):
    data = read(votes, features, context=["question"])
    assert data.x.shape == (5, 0)
    assert data.feature_map.names == ()
    assert data.feature_map.transform(votes[[]]).shape == (9, 0)


def test_the_intercept_is_dropped_and_only_it(read, votes):
    data = read(votes, "1 + length + topic:length", context=["question"])
    assert data.feature_map.names == ("length", "topic[T.code]:length", "topic[T.math]:length")
    assert not (data.x == 1).all(axis=0).any()


@pytest.mark.parametrize(
    "features",
    ["length", "center(length) + topic", "bs(length, df=4)", "text(prompt, 3)", "e * C(topic)", "np.exp(length) - 1"],
)
def test_new_contexts_get_the_fitted_transforms(read, many_votes, features):
    frame = many_votes.assign(
        prompt=many_votes["topic"] + " word" + many_votes["question"].str[1:2],
        e=[[v, v**2] for v in many_votes["length"]],
    )
    data = read(frame, features, context=["question"], env={"np": np})
    columns = data.feature_map.variables
    same = data.feature_map.transform(take_columns(by_question(frame), columns))
    np.testing.assert_array_equal(same, data.x)
    few = by_question(frame).iloc[[5, 2]]
    np.testing.assert_array_equal(data.feature_map.transform(take_columns(few, columns)), data.x[[5, 2]])


@pytest.mark.parametrize(
    ("newdata", "error"),
    [
        ({"topic": ["poetry"], "length": [1.0]}, DataError),
        ({"topic": ["math"]}, ColumnError),
        ({"topic": ["math"], "length": ["long"]}, DataError),
    ],
)
def test_new_contexts_that_do_not_fit(read, votes, newdata, error):
    features = read(votes, "topic + length", context=["question"]).feature_map
    with pytest.raises(error):
        features.transform(take_columns(pd.DataFrame(newdata), list(newdata)))


def test_a_missing_category_is_missing_in_its_columns_only(read, votes):
    holes = votes.assign(topic=votes["topic"].mask(votes["question"] == "q1"))
    for topic in (holes["topic"], holes["topic"].astype("category"), holes["topic"].astype("string")):
        data = read(holes.assign(topic=topic), "topic + length + topic:length", context=["question"], missing="keep")
        assert data.feature_map.names[:3] == ("topic[T.code]", "topic[T.math]", "length")
        np.testing.assert_array_equal(np.isnan(data.x[1]), [True, True, False, True, True])
        assert not np.isnan(data.x[[0, 2, 3, 4]]).any()
    new = data.feature_map.transform(
        take_columns(pd.DataFrame({"topic": [None], "length": [1.0]}), ["topic", "length"])
    )
    np.testing.assert_array_equal(np.isnan(new[0]), [True, True, False, True, True])


@pytest.mark.parametrize(
    ("features", "env", "error"),
    [
        ("lenght", {}, ColumnError),
        ("id", {}, ColumnError),
        ("k", {"k": 5}, ColumnError),
        ("k", {"k": np.zeros(4)}, ColumnError),
        ("centre(length)", {}, FormulaError),
        ("winner + length", {}, FormulaError),
        ("C(a)", {}, FormulaError),
        ("f(length)", {"f": lambda v: v.sum()}, FormulaError),
        ("f(length)", {"f": lambda v: v[:3]}, FormulaError),
        ("f(length) + length:topic", {"f": lambda v: v[:3]}, FormulaError),
        ("f(length)", {"f": lambda v: 1 / 0}, FormulaError),
        ("f(length)", {"f": lambda v: np.zeros((len(v), 1, 2))}, FormulaError),
        ("f(length)", {"f": lambda v: v * 1j}, FormulaError),
        ("topic + topic(length)", {}, FormulaError),
    ],
)  # fmt: skip
def test_features_that_cannot_be_computed(read, votes, features, env, error):
    with pytest.raises(error):
        read(votes, features, env=env, context=["question"])


@pytest.mark.parametrize(
    "values",
    [
        pd.to_datetime(["2024-01-01"] * 9),
        pd.period_range("2024", periods=9, freq="D"),
        pd.to_timedelta(range(9), unit="h"),
        [pd.Timestamp("2024-01-01").date()] * 9,
        [{"hour": 1}] * 9,
        [[1], [2, 3]] + [[1]] * 7,
    ],
)
def test_columns_that_are_no_features(read, votes, values):
    with pytest.raises(DataError):
        read(votes.assign(when=values), "when")


def test_a_prompt_is_no_category(read, many_votes):
    frame = many_votes.assign(prompt="Please explain " + many_votes["question"])
    with pytest.raises(FormulaError):
        read(frame, "prompt", context=["question"])
    assert read(frame, "text(prompt, 5)", context=["question"]).x.shape == (60, 5)


FORMULAS = [
    "e",
    "u + e + v",
    "e + C(topic)",
    "topic + e + u:topic",
    "0 + e + topic",
    "e + u + u:e",
    "u + topic:v + v + e + topic",
    "e + np.log(u) + flag + v",
    "flag + whole + Q('a b') + e",
    "v + topic*u + m + e",
    "center(u) + m + one + e:v - v",
    "(u + v + e)**2 - u",
    "bs(u, df=4) + e + topic:m + v:topic + u",
]


@pytest.mark.parametrize("features", FORMULAS)
def test_x_is_what_patsy_makes_of_the_formula(features):
    """Plain terms do not go through patsy, but stand where it would put them, with its names."""
    rng = np.random.default_rng(2)
    n = 40
    columns = {
        "u": pd.Series(rng.uniform(1, 2, size=n), index=rng.permutation(n)),
        "v": pd.Series(rng.normal(size=n).astype(np.float32)),
        "whole": pd.Series(rng.integers(5, size=n)),
        "a b": pd.Series(rng.normal(size=n)),
        "flag": pd.Series(rng.random(n) < 0.5),
        "topic": pd.Series(rng.choice(["chat", "code", "math"], size=n)),
        "e": pd.Series(list(rng.normal(size=(n, 3)))),
        "m": rng.normal(size=(n, 2)),
        "one": rng.normal(size=(n, 1)),
    }
    x, features_of = fit_features(features, columns, n, caller_environment({"np": np}, depth=0))
    stacked = {name: np.stack(list(column)) if name == "e" else np.asarray(column) for name, column in columns.items()}
    expected = patsy.dmatrix(features, stacked)
    kept = [name != "Intercept" for name in expected.design_info.column_names]
    np.testing.assert_array_equal(x, np.asarray(expected)[:, kept])
    assert features_of.names == tuple(np.array(expected.design_info.column_names)[kept])
    assert x.flags.c_contiguous
    table = pd.DataFrame({name: list(c) if np.ndim(c) == 2 else np.asarray(c) for name, c in columns.items()})
    np.testing.assert_array_equal(features_of.transform(take_columns(table, features_of.variables)), x)


def test_single_precision_stays_where_all_of_x_has_it():
    rng = np.random.default_rng(3)
    single, double = rng.normal(size=(20, 4)).astype(np.float32), rng.normal(size=(20, 4))
    cells, length = pd.Series(list(single)), pd.Series(rng.normal(size=20))
    for features, columns, dtype in (
        ("m", {"m": single}, np.float32),
        ("e + m", {"e": cells, "m": single}, np.float32),
        ("m", {"m": double}, np.float64),
        ("m", {"m": single.astype(np.float16)}, np.float64),
        ("e + length", {"e": cells, "length": length}, np.float64),
        ("m + center(length)", {"m": single, "length": length}, np.float64),
    ):
        x, _ = fit_features(features, columns, 20, caller_environment({}, depth=0))
        assert x.dtype == dtype
        first = next(iter(columns.values()))
        np.testing.assert_array_equal(x[:, :4], np.stack(list(first)))


def test_reading_an_embedding_copies_it_once(many_votes):
    """Peak of what is allocated on the way to X, as a multiple of X itself: X, and masks of a byte per number."""
    rng = np.random.default_rng(5)
    matrix = rng.normal(size=(200, 2000))
    frame = many_votes.assign(e=list(matrix))
    # The first time, modules are loaded.
    for number, (features, env) in enumerate((("e", {}), ("e", {}), ("matrix", {"matrix": matrix}), ("topic + e", {}))):
        tracemalloc.start()
        with quiet():
            data = preferences_of(
                take_rows(f"winner ~ {features} | a + b", frame, caller_environment(env, depth=0), Options.of({}))
            )
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert data.x.shape[1] >= 2000
        assert not number or peak < 1.7 * data.x.nbytes


def test_missing_features_are_counted():
    x = np.array([[1.0, np.nan], [np.nan, np.nan], [1.0, 2.0]])
    assert check_features(x, ["u", "v"], keep_missing=True).tolist() == [True, True, False]
    with pytest.raises(MissingDataError):
        check_features(x, ["u", "v"], keep_missing=False)
    with pytest.raises(DataError):
        check_features(np.array([[1.0, -np.inf]]), ["u", "v"], keep_missing=True)


def test_a_column_named_like_patsys_constant(read, votes):
    data = read(votes.assign(Intercept=votes["length"]), "Q('Intercept')", context=["question"])
    np.testing.assert_array_equal(data.x[:, 0], [3, 1, 2, 5, 4])


@pytest.mark.parametrize(
    ("features", "hidden"),
    [
        ("C(topic)", "C"),
        ("C(topic, Treatment('math'))", "Treatment"),
        ("I(length**2)", "I"),
        ("Q('length') + center(length)", "Q"),
        ("center(length)", "center"),
        ("standardize(length)", "standardize"),
        ("bs(length, df=4)", "bs"),
        ("text(topic, 1)", "text"),
        ("I(abs(length))", "abs"),
    ],
)
@pytest.mark.parametrize("value", [3.0, "a text", np.arange(3.0), None], ids=["number", "text", "array", "none"])
def test_a_variable_of_the_caller_does_not_hide_a_function(read, votes, features, hidden, value):
    expected = read(votes, features, context=["question"])
    data = read(votes, features, env={hidden: value}, context=["question"])
    np.testing.assert_array_equal(data.x, expected.x)
    assert data.feature_map.names == expected.feature_map.names


def test_a_variable_in_the_notebook_does_not_hide_a_function(many_votes):
    C = 3.0  # noqa: F841 - a name that the formula reads
    res = dr.dml_rank("winner ~ C(topic) + length | a + b", many_votes, **in_objects({"context": "question", **QUICK}))
    assert res.nobs == 60


def test_a_function_of_the_caller_goes_before_that_of_patsy(read, votes):
    data = read(votes, "center(length)", env={"center": lambda x: x - 1}, context=["question"])
    np.testing.assert_array_equal(data.x[:, 0], [2, 0, 1, 4, 3])


def test_an_array_with_the_name_of_a_function_is_still_a_feature(read, votes):
    array = votes["length"].to_numpy() * 2
    data = read(votes, "C(topic) + C", env={"C": array}, context=["question"])
    np.testing.assert_array_equal(data.x[:, -1], [6, 2, 4, 10, 8])


@pytest.mark.parametrize(
    ("features", "columns", "env", "fragments"),
    [
        ("C(C)", {"topic": "C"}, {}, ["C()", "column 'C'", "hides", "rename"]),
        ("double(length)", {}, {"double": 2.0}, ["'double'", "2.0", "env="]),
    ],
)
def test_a_function_that_is_hidden_is_named(read, votes, features, columns, env, fragments):
    with pytest.raises(FormulaError) as caught:
        read(votes.rename(columns=columns), features, env=env, context=["question"])
    assert all(fragment in str(caught.value) for fragment in fragments)


def test_a_column_may_have_the_name_of_its_transform(read, votes):
    data = read(votes.rename(columns={"length": "center"}), "center(center)", context=["question"])
    np.testing.assert_allclose(data.x[:, 0], np.array([3, 1, 2, 5, 4]) - 3.0)


@pytest.mark.parametrize("name", ["criteria_v0.1.length", "math_v0.1.math", "a.1b", "x v2.0"])
def test_a_name_that_is_not_python_is_quoted_as_it_was_written(name):
    battles = dr.datasets.simulate_arena(n=60, rng=0).rename(columns={"length": name})
    with pytest.raises(FormulaError) as error:
        dr.dml_rank(f"winner ~ {name} | model_a + model_b", battles)
    assert f"Q({name!r})" in str(error.value)


WORDS = ["write", "poem", "sort", "the", "list", "of", "primes", "prove", "none", "is", "even", "into", "french"]


def prompts(n, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, size=6)) for _ in range(n)]


def fitted(texts, k):
    transform = Text()
    transform.memorize_chunk(texts, k)
    transform.memorize_finish()
    return transform


def components(texts, k, new):
    vectorizer = optional("sklearn.feature_extraction.text").TfidfVectorizer()
    decomposition = (
        optional("sklearn.decomposition")
        .TruncatedSVD(n_components=k, random_state=0)
        .fit(vectorizer.fit_transform(sorted(texts)))
    )
    return decomposition.transform(vectorizer.transform(new))


@pytest.mark.parametrize("k", [1, 3, 8])
def test_text_is_tfidf_and_truncated_svd(k):
    texts, new = prompts(40), [*prompts(10, seed=1), "no word of these"]
    transform = fitted(texts, k)
    np.testing.assert_array_equal(transform.transform(texts, k), components(texts, k, texts))
    np.testing.assert_array_equal(transform.transform(new, k), components(texts, k, new))


def test_chunks_add_up():
    texts = prompts(30)
    in_chunks = Text()
    for at in range(0, 30, 10):
        in_chunks.memorize_chunk(texts[at : at + 10], 3)
    in_chunks.memorize_finish()
    np.testing.assert_array_equal(in_chunks.transform(texts, 3), fitted(texts, 3).transform(texts, 3))


def test_the_order_of_the_texts_changes_no_bit():
    texts = prompts(60)
    turned = texts[::-1]
    np.testing.assert_array_equal(fitted(turned, 5).transform(texts, 5), fitted(texts, 5).transform(texts, 5))


def test_a_missing_text_is_missing_and_no_token():
    texts = prompts(30)
    holes = [text if i % 5 else None for i, text in enumerate(texts)]
    known = [text for text in holes if text is not None]
    transform = fitted(pd.Series(holes, dtype="string"), 3)
    features = transform.transform(pd.Series(holes, dtype="string"), 3)
    here = np.array([text is not None for text in holes])
    assert np.isnan(features[~here]).all()
    np.testing.assert_array_equal(features[here], components(known, 3, known))
    assert np.isnan(transform.transform([None, None], 3)).all()
    # A prompt that says "none" is a text like any other.
    assert not np.isnan(transform.transform(["none"], 3)).any()


def test_an_empty_text_is_known():
    transform = fitted(["", *prompts(20)], 2)
    np.testing.assert_array_equal(transform.transform([""], 2), [[0.0, 0.0]])


def test_texts_that_are_all_the_same():
    features = fitted(["sort the list"] * 5, 1).transform(["sort the list"], 1)
    np.testing.assert_allclose(features, [[1.0]])


@pytest.mark.parametrize(
    ("texts", "k"),
    [
        ([None, None], 2),
        (["", "a", "?"], 2),
        (["sort lists", "sort primes"], 3),
        (["sort lists"] * 9, 3),
        ([1.5, 2.5], 2),
        (["sort"], 0),
        (["sort"], 2.0),
    ],
)
def test_texts_that_cannot_be_used(texts, k):
    with pytest.raises(DataError):
        fitted(texts, k)


def test_without_scikit_learn_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    with pytest.raises(MissingExtraError):
        fitted(["sort"], 1)
