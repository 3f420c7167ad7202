"""The summary says what was done, in one width, best model first, with names escaped in HTML; tidy frames."""

from __future__ import annotations

import io
import re

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import OptionError
from dmlrank.functionals import Custom
from dmlrank.options import in_objects
from dmlrank.report.phrases import enumerated, tie_weight
from dmlrank.results.units_and_views import adjusted_p_values
from dmlrank.tables.summary_table import decimals


def battles(names=("alpha", "beta", "gamma"), n=600, seed=0, labels=("model_a", "model_b", "tie")):
    rng = np.random.default_rng(seed)
    pair = np.array([rng.permutation(len(names))[:2] for _ in range(n)])
    strength = np.arange(len(names))[pair]
    p = 1 / (1 + np.exp(strength[:, 1] - strength[:, 0]))
    winner = np.where(rng.uniform(size=n) < p, labels[0], labels[1]).astype(object)
    winner[rng.uniform(size=n) < 0.2] = labels[-1]
    return pd.DataFrame(
        {"winner": winner, "model_a": np.array(names)[pair[:, 0]], "model_b": np.array(names)[pair[:, 1]]}
    )


def fit(data, **options):
    return dr.dml_rank("winner ~ 1 | model_a + model_b", data, **in_objects({"rng": 0, **options}))


@pytest.fixture(scope="module")
def result():
    return fit(battles(), functional="bt")


def test_the_best_model_comes_first_with_its_numbers(result):
    text = result.summary().as_text()
    rows = re.findall(r"^(alpha|beta|gamma) +(.+)$", text.rpartition("====")[0], flags=re.M)
    assert [name for name, _ in rows] == result.params.sort_values(ascending=False).index.tolist()
    best = rows[0][1].split()
    limits = result.conf_int().loc[rows[0][0]]
    assert best[3] == "<0.001"
    shown = [float(cell.lstrip("<")) for cell in best[:6]]
    p = dict(zip(result.models, adjusted_p_values(result.estimates, result.simultaneous), strict=True))
    expected = [result.params.max(), result.bse[rows[0][0]], result.tvalues[rows[0][0]], p[rows[0][0]]]
    np.testing.assert_allclose(shown[:4], expected, atol=5e-3)
    np.testing.assert_allclose(shown[4:6], limits, atol=5e-4)
    standing = result.ranks().loc[rows[0][0]]
    assert best[6] == "-".join(map(str, sorted({standing["lower"], standing["upper"]})))


def test_the_level_is_said_and_changes_the_limits(result):
    wide, narrow = result.summary(alpha=0.01).as_text(), result.summary(alpha=0.5).as_text()
    assert "[99% simult. CI]" in wide
    assert "[50% simult. CI]" in narrow
    assert wide != narrow


@pytest.mark.filterwarnings("ignore:labels without variation")
@pytest.mark.parametrize("functional", ["bt", "borda", "rank_centrality"])
def test_adjusted_p_values_are_small_exactly_where_intervals_exclude_the_value_tested(functional):
    """Many models of little difference, so that some unadjusted p-values are below where intervals cover."""
    near = 0
    for seed in range(3):
        shown = fit(battles(tuple("abcdefgh"), n=900, seed=seed), min_labels=1).update(functional=functional)
        for alpha in (0.5, 0.05):
            limits = shown.conf_int(alpha=alpha)
            neutral = shown.estimates.neutral
            excludes = (limits["lower"] > neutral) | (limits["upper"] < neutral)
            np.testing.assert_array_equal(adjusted_p_values(shown.estimates, shown.simultaneous) < alpha, excludes)
            near += ((shown.pvalues < alpha) & ~excludes).sum()
    assert near > 0
    assert (adjusted_p_values(shown.estimates, shown.simultaneous) >= shown.pvalues).all()
    text = " ".join(shown.explain().split())
    assert "it is below 0.05 exactly where the interval excludes" in text


def test_notes_and_warnings_agree_on_whether_intervals_hold(result):
    confident = "with 95 % confidence all 3 intervals contain the true scores at the same time"
    assert confident in " ".join(result.explain().split())
    data = battles().assign(rater=[f"r{i % 3}" for i in range(600)])
    with pytest.warns(dr.DmlrankWarning, match="only 3 clusters"):
        few = fit(data, functional="bt", n_folds=3, cov_type="cluster", cov_kwds={"groups": "rater"})
    for summary in (few.summary(), few.t_test_pairwise().summary()):
        assert "Intervals, tests and ranks may not hold for these data" in " ".join(summary.notes)
    assert dr.read_json(few.to_json()).summary().notes == few.summary().notes
    with pytest.warns(dr.DmlrankWarning, match="only 3 clusters"):
        again = few.update(functional="borda")
    assert again.diagnostics.doubts


@pytest.mark.parametrize(
    ("formula", "functional", "words"),
    [
        (
            "winner ~ x | model_a + model_b",
            "bt",
            "a formula with other features would define other scores; average='preferences' has a target that "
            "does not depend on the features.",
        ),
        ("winner ~ 1 | model_a + model_b", "bt", "A formula with features would define other scores"),
        ("winner ~ x | model_a + model_b", "borda", None),
    ],
)
def test_the_notes_say_what_the_features_do_to_the_target(formula, functional, words):
    data = battles(n=500).assign(x=np.arange(500) % 7)
    text = " ".join(dr.dml_rank(formula, data, functional=functional, rng=0).explain().split())
    assert ("other scores" in text) == (words is not None)
    assert words is None or words in text


@pytest.mark.filterwarnings("ignore:borda is computed on an incomplete graph")
def test_a_bias_that_may_be_left_in_is_said_without_a_warning():
    data, left_in = dr.datasets.simulate_arena(n=500, rng=5), dr.Learning(second_order=False)
    fixed = {"context": "question_id", "rng": 0, "n_jobs": 1, "learning": left_in}
    result = dr.dml_rank("winner ~ length | model_a + model_b", data, functional="dominance", **fixed)
    name, bias, error = result.diagnostics.largest_second_order
    assert 0.5 < abs(bias) < 2 * error
    assert result.diagnostics.warnings == ()
    text = " ".join(result.summary().as_text().split())
    assert (
        f"may have a bias, estimated as up to {bias:+.2f} standard errors (own error {error:.2f}), for {name}" in text
    )
    assert "functional='borda', which has no such bias" in text
    assert "may have a bias" not in result.update(functional="borda").summary().as_text()


def test_two_models_have_one_other_model():
    names = ("alpha", "beta")
    for functional in ("borda", "bt"):
        result = fit(battles(names, labels=("model_a", "model_b")), functional=functional, position_bias=False)
        for text in (result.summary().as_text(), result.explain()):
            text = " ".join(text.split())
            assert "the other 1" not in text
            assert "the other models" not in text
        assert ("against the other model." in text) == (functional == "borda")


def test_numeric_labels_are_explained():
    data = battles(labels=(1, 0, 0))
    text = " ".join(fit(data).explain().split())
    assert "1 = first wins" in text
    assert "0 = second wins" in text


def test_the_plug_in_says_that_its_intervals_are_not_valid(result):
    text = " ".join(result.update(estimator="plugin").explain().split())
    assert "estimates without intervals: the plug-in estimate is not debiased" in text
    assert "update(estimator='debiased') has intervals" in text


def test_a_score_without_variance_gets_a_reason_instead_of_a_statistic():
    constant = Custom(lambda mu: 0.1 + 0 * mu[..., 0].sum(axis=2), interior=False)
    text = " ".join(fit(battles(n=200), functional=constant).summary().as_text().split())
    assert "n/a" in text
    assert "the standard error is zero, because the estimate does not vary in these data" in text


def test_the_hub_of_a_star_is_fixed_by_the_functional():
    data = battles(("hub", "x", "y", "z"), n=1500)
    star = data[(data.model_a == "hub") | (data.model_b == "hub")]
    text = " ".join(fit(star, functional="rank_centrality").explain().split())
    assert "There is no test for hub: the standard error is zero, because the functional fixes the score." in text


def test_dropped_rows_and_seed_are_in_the_notes():
    data = battles()
    data.loc[:4, "model_a"] = None
    text = " ".join(fit(data, missing="drop").explain().split())
    assert " rows: 5 with missing values; the votes of the other " in text
    assert "Seed 0" in text


def test_warnings_are_kept_for_the_reader():
    data = battles(("a", "b", "c", "d"), n=1500)
    data = data[~(data.model_a.isin(["a", "b"]) & data.model_b.isin(["a", "b"]))]
    with pytest.warns(dr.DmlrankWarning, match="incomplete graph"):
        result = fit(data)
    assert "functional='bt' takes the opponents into account" in " ".join(result.summary().as_text().split())
    assert len(result.diagnostics.warnings) == 1


def test_decimals_follow_the_smallest_standard_error():
    assert [decimals(np.array([e])) for e in (0.5, 0.02, 0.002, 1e-9, 0.0)] == [3, 3, 4, 6, 3]


def test_ties_in_words():
    assert tie_weight([]) == "no ties"
    assert tie_weight([("both_good", 1.0, 1.0), ("both_bad", 0.0, 0.0)]) == "both good 1, both bad 0"
    assert tie_weight([("tie", 0.25, 0.75)]) == "0.25 and 0.75"


@pytest.mark.parametrize("options", [{}, {"functional": "borda"}, {"estimator": "plugin"}, {"estimator": "bt_mle"}])
def test_the_last_note_is_short_and_explain_has_the_rest(result, options):
    changed = result.update(**options)
    notes = changed.summary().notes
    assert len(notes[-1].split()) <= 60
    assert sum(len(note.split()) for note in notes) <= 115
    text = changed.explain()
    assert all(len(line) <= 78 for line in text.splitlines())
    assert f"log-loss is {changed.diagnostics.log_loss:.3f}" in " ".join(text.split())
    assert dr.read_json(changed.to_json()).explain() == text


def test_the_verdict_names_the_models_of_the_top(result):
    ranks = result.ranks().result_frame
    assert "in the top" not in result.verdict(top=1)  # which the test of first place answers
    for top in (2, len(result.models)):
        shown = ranks.index[ranks["upper"] <= top].tolist()
        others = ranks.index[(ranks["lower"] <= top) & (ranks["upper"] > top)].tolist()
        assert [*shown, *others] == sorted(result.best_set(top), key=[*shown, *others].index)
        are, may_be = (enumerated(names) or "none" for names in (shown, others))
        said = f"Shown to be in the top {top} (95 % joint confidence): {are}; others that may be: {may_be}."
        assert said in result.verdict(top=top)
    assert "in the top" not in result.verdict()
    with pytest.raises(OptionError, match="top"):
        result.verdict(top=99)


def test_tidy_holds_the_numbers_of_the_result(arena_result):
    tidy = arena_result.tidy().set_index("term")
    numbers = ["estimate", "std_error", "statistic", "p_value", "p_adjusted", "conf_low", "conf_high"]
    assert list(tidy) == [*numbers, "interval", "votes", "votes_left_out"]
    shown = pd.read_csv(io.StringIO(arena_result.summary().as_csv()), index_col="model")["adj. P"].astype(str)
    np.testing.assert_allclose(shown.str.lstrip("<").astype(float)[tidy.index], tidy["p_adjusted"], atol=0.001)
    assert (tidy["p_adjusted"] >= tidy["p_value"]).all()
    np.testing.assert_array_equal(tidy["estimate"], arena_result.params)
    np.testing.assert_array_equal(tidy["p_value"], arena_result.pvalues)
    np.testing.assert_allclose(tidy[["conf_low", "conf_high"]], arena_result.conf_int())


@pytest.mark.parametrize("method", ["bonferroni", "none"])
def test_tidy_takes_the_methods_of_conf_int(arena_result, method):
    tidy = arena_result.tidy(alpha=0.1, method=method)
    np.testing.assert_allclose(tidy[["conf_low", "conf_high"]], arena_result.conf_int(alpha=0.1, method=method))
    assert set(tidy["interval"]) == {
        {"none": "pointwise", "max-t": "simultaneous"}.get(method, "simultaneous (Bonferroni)")
    }
    np.testing.assert_array_equal(tidy["p_adjusted"], arena_result.tidy()["p_adjusted"])
