"""Benchmark scores and rankings as data: the fit is that of the frame with a row per comparison."""

import itertools

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import ColumnError, DataError, MissingDataError, OptionError, OptionTypeError
from dmlrank.options import in_objects

FORMULA = "winner ~ 1 | model_a + model_b"
COLUMNS = {"prompt": "task", "model": "model", "score": "score"}


def benchmark(n, k, seed=0, missing=0.0, digits=9):
    rng = np.random.default_rng(seed)
    scores = (rng.normal(size=(n, k)) + np.linspace(0, 1, k)).round(digits)
    scores[rng.random((n, k)) < missing] = np.nan
    return scores


def table_of(scores):
    """A row per task and model, in random order, with a topic and a length of each task."""
    n, k = scores.shape
    rng = np.random.default_rng(1)
    topic, length = rng.choice(["code", "maths"], size=n), rng.normal(size=n)
    frame = pd.DataFrame(
        {
            "task": np.repeat([f"t{i:03d}" for i in range(n)], k),
            "model": np.tile([f"m{j:03d}" for j in range(k)], n),
            "score": scores.ravel(),
            "topic": np.repeat(topic, k),
            "length": np.repeat(length, k),
        }
    )
    return frame.sample(frac=1, random_state=2)


def written_out(table, margin=0.0):
    """The comparisons of a table of scores as a frame with a row each, the model whose name comes first on the left."""
    rows = []
    for task, part in table.groupby("task", sort=False):
        known = part.dropna(subset=["score"]).sort_values("model")
        for (_, one), (_, other) in itertools.combinations(known.iterrows(), 2):
            gap = one.score - other.score
            winner = "tie" if abs(gap) <= margin else "model_a" if gap > 0 else "model_b"
            about = {"task": task, "topic": one.topic, "length": one.length}
            rows.append(about | {"model_a": one.model, "model_b": other.model, "winner": winner})
    return pd.DataFrame(rows)


def test_borda_is_the_mean_share_of_models_beaten_and_differences_are_paired():
    scores = benchmark(150, 7)
    pairs = dr.data.pairs_from_scores(table_of(scores), **COLUMNS)
    res = dr.dml_rank(FORMULA, pairs, rng=0)
    share = (scores[:, :, None] > scores[:, None, :]).sum(axis=2) / 6
    np.testing.assert_allclose(res.params, share.mean(axis=0), rtol=0, atol=1e-12)
    np.testing.assert_allclose(res.bse, share.std(axis=0) / np.sqrt(150), rtol=1e-12)
    gap = share[:, 0] - share[:, 1]
    assert res.t_test("m000 - m001").sd.item() == pytest.approx(gap.std() / np.sqrt(150), rel=1e-12)


@pytest.mark.parametrize("functional", ["borda", "bt", "rank_centrality"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_the_fit_is_that_of_the_written_out_comparisons(functional, missing, ignore_warnings):
    table = table_of(benchmark(60, 5, missing=missing, digits=1))
    pairs = dr.data.pairs_from_scores(table, **COLUMNS, margin=0.1)
    frame = written_out(table, margin=0.1 + 1e-9)
    assert pairs.n_comparisons == len(frame)
    options = {"functional": functional, "rng": 0, "n_jobs": 1}
    res = dr.dml_rank(FORMULA, pairs, **in_objects(options))
    twin = dr.dml_rank(FORMULA, frame, **in_objects({"context": "task", "position_bias": False, **options}))
    np.testing.assert_allclose(res.params, twin.params[res.params.index], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(res.bse, twin.bse[res.bse.index], rtol=1e-8)
    assert res.diagnostics.n_votes == len(frame)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("hundredths", [0, 1, 7])
def test_margins_of_decimal_scores_are_those_of_their_hundredths(dtype, hundredths):
    rng = np.random.default_rng(3)
    whole = rng.integers(-300, 300, size=(400, 5)) // rng.integers(1, 30, size=(400, 1))
    *_, y = dr.data.pairs_from_scores(
        table_of(whole / 100).astype({"score": dtype}), **COLUMNS, margin=hundredths / 100
    ).compare()
    *_, exact = dr.data.pairs_from_scores(table_of(whole), **COLUMNS, margin=hundredths).compare()
    np.testing.assert_array_equal(y, exact)
    assert 0 < y[:, 2].mean() < 1


def two_models(a, b, dtype=None):
    score = pd.Series([a, b, 3], dtype=dtype)
    return pd.DataFrame({"task": ["t", "t", "u"], "model": ["a", "b", "a"], "score": score})


@pytest.mark.parametrize(
    ("a", "b", "label"),
    [
        (0.1 + 0.2, 0.3, 2),
        (0.1 + 0.2, 0.3 + 1e-14, 1),
        (np.float32(0.1) + np.float32(0.2), np.float32(0.3), 2),
        (1e7, 1e7 + 1, 1),
        (-1e-300, 1e-300, 1),
    ],
)
def test_scores_tie_up_to_the_rounding_of_their_type(a, b, label):
    for one, other, winner in ((a, b, label), (b, a, {0: 1, 1: 0, 2: 2}[label])):
        *_, y = dr.data.pairs_from_scores(two_models(one, other), **COLUMNS).compare()
        assert y.argmax() == winner % y.shape[1]


@pytest.mark.parametrize("dtype", ["int64", "uint64", "Int64", "object"])
def test_large_whole_scores_are_compared_exactly_or_refused(dtype):
    frame = two_models(2**62, 2**62 + 1, dtype).assign(score=lambda t: t.score.where(t.task == "t", 2**62))
    if dtype in ("Int64", "object"):
        frame.loc[2, "score"] = None
    for lower, winner in ((False, 1), (True, 0)):
        *_, y = dr.data.pairs_from_scores(frame, **COLUMNS, lower_is_better=lower).compare()
        np.testing.assert_array_equal(y, [np.eye(2)[winner]])
    with pytest.raises(DataError):
        dr.data.pairs_from_scores(two_models(2**62, 2**62 + 1, dtype), **COLUMNS)


def rankings(n=60, k=4, annotators=2, seed=0):
    rng = np.random.default_rng(seed)
    rows = []
    for prompt, annotator in itertools.product(range(n), range(annotators)):
        models = rng.choice([f"m{j}" for j in range(k)], size=rng.integers(2, k + 1), replace=False)
        ranks = rng.integers(1, len(models) + 1, size=len(models))
        about = {"prompt": f"p{prompt}", "annotator": f"a{annotator}"}
        rows += [about | {"model": m, "place": int(r)} for m, r in zip(models, ranks, strict=True)]
    return pd.DataFrame(rows)


def test_rankings_with_ties_by_several_annotators_are_the_written_out_comparisons(ignore_warnings):
    frame = rankings(annotators=3)
    pairs = dr.data.pairs_from_rankings(frame, prompt="prompt", model="model", rank="place", annotator="annotator")
    rows = []
    for (prompt, annotator), part in frame.groupby(["prompt", "annotator"], sort=False):
        for (_, one), (_, other) in itertools.combinations(part.sort_values("model").iterrows(), 2):
            winner = "tie" if one.place == other.place else "model_a" if one.place < other.place else "model_b"
            about = {"prompt": prompt, "annotator": annotator, "winner": winner}
            rows.append(about | {"model_a": one.model, "model_b": other.model})
    options = {"functional": "bt", "rng": 0, "cov_type": "cluster", "cov_kwds": {"groups": ["prompt", "annotator"]}}
    res = dr.dml_rank(FORMULA, pairs, **in_objects(options))
    twin = dr.dml_rank(
        FORMULA, pd.DataFrame(rows), **in_objects({"context": "prompt", "position_bias": False, **options})
    )
    np.testing.assert_allclose(res.params, twin.params[res.params.index], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(res.bse, twin.bse[res.bse.index], rtol=1e-8)


def test_best_of_k_and_truncated_rankings_are_refused():
    frame = rankings(annotators=1)
    names = {"prompt": "prompt", "model": "model", "rank": "place"}
    full = pd.DataFrame({"prompt": np.repeat(np.arange(9), 3), "model": list("abc") * 9, "place": [1, 2, 2] * 9})
    with pytest.raises(DataError, match="best of K"):
        dr.data.pairs_from_rankings(full, **names)
    assert dr.data.pairs_from_rankings(full.assign(place=[1, 2, 3] * 9), **names).n_comparisons == 27
    with pytest.raises(MissingDataError):
        dr.data.pairs_from_rankings(frame.assign(place=frame.place.where(frame.index > 2)), **names)


@pytest.mark.parametrize(
    ("change", "options", "error"),
    [
        (lambda t: pd.concat([t, t.iloc[:1]]), {}, DataError),
        (lambda t: t.assign(score="good"), {}, DataError),
        (lambda t: t.assign(score=np.inf), {}, DataError),
        (lambda t: t.assign(score=[np.inf, *t.score[1:]]), {}, DataError),
        (lambda t: t[t.model == "m000"], {}, DataError),
        (lambda t: t.assign(model=None), {}, MissingDataError),
        (lambda t: t, {"score": "acc"}, ColumnError),
        (lambda t: t, {"score": "task"}, OptionError),
        (lambda t: t, {"prompt": []}, OptionTypeError),
        (lambda t: t, {"margin": -1}, OptionError),
        (lambda t: t, {"margin": "small"}, OptionTypeError),
    ],
)
def test_tables_that_cannot_be_compared(change, options, error):
    with pytest.raises(error):
        dr.data.pairs_from_scores(change(table_of(benchmark(5, 4))), **(COLUMNS | options))


@pytest.mark.parametrize(
    "options", [{"position_bias": True}, {"context": "topic"}, {"categories": {"x": "tie"}}, {"judge": "topic"}]
)
def test_options_about_votes_are_refused(options):
    pairs = dr.data.pairs_from_scores(table_of(benchmark(20, 3)), **COLUMNS)
    with pytest.raises(OptionError):
        dr.dml_rank(FORMULA, pairs, **in_objects({"rng": 0, **options}))


def test_pairs_are_not_derived_from_pairs():
    pairs = dr.data.pairs_from_scores(table_of(benchmark(20, 3)), **COLUMNS)
    with pytest.raises(OptionTypeError, match="pairs already"):
        dr.data.pairs_from_scores(pairs, **COLUMNS)


def test_a_blank_name_is_no_model():
    table = pd.DataFrame({"q": np.repeat(range(9), 3), "m": ["a", "b", "  "] * 9, "s": np.arange(27.0)})
    with pytest.raises(MissingDataError, match="'m' in row 2 and 8 more"):
        dr.data.pairs_from_scores(table, prompt="q", model="m", score="s")
    with pytest.raises(MissingDataError, match="'m' in row 2 and 8 more"):
        dr.dml_rank("s ~ 1 | m", table, context="q", rng=0)
