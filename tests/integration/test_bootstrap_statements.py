"""Tables, pages and pictures whose critical values come from a multiplier bootstrap, for fits with few clusters."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import dmlrank as dr
from dmlrank.exceptions import DataNotStoredError, NoIntervalError, OptionError
from dmlrank.fit.fit_covariance import multiplier_bootstrap
from dmlrank.inference.bootstrap_and_max_t import MultiplierBootstrap

pytestmark = pytest.mark.filterwarnings("ignore::dmlrank.exceptions.IntervalWarning")

FORMULA = "winner ~ 1 | model_a + model_b"
N_CLUSTERS = 10


def votes_of_few_users():
    battles = dr.datasets.simulate_arena(n=1500, rng=0)
    user = np.random.default_rng(0).integers(0, N_CLUSTERS, len(battles))
    return battles.assign(user=user).assign(user=lambda frame: frame.groupby("question_id")["user"].transform("first"))


def fit_of(votes):
    return dr.dml_rank(
        FORMULA, votes, functional="bt", context="question_id", cov_type="cluster", cov_kwds={"groups": "user"}, rng=0
    )


@pytest.fixture(scope="module")
def few():
    return fit_of(votes_of_few_users())


@pytest.fixture(scope="module")
def by_functional(few):
    return {name: few.update(functional=name) for name in ("bt", "borda", "rank_centrality")}


def cells(summary):
    return {row[0]: dict(zip(summary_columns(summary), row[1:], strict=True)) for row in summary.rows}


def summary_columns(summary):
    return [f"{head}{part}" for head, width in summary.columns for part in range(width)]


def test_summary_shows_the_intervals_and_rank_sets_of_the_same_bootstrap(few):
    summary = few.bootstrap("webb").summary()
    ranks, intervals = few.bootstrap("webb").ranks(), few.bootstrap("webb").conf_int()
    normal = cells(few.summary())
    for model, row in cells(summary).items():
        low, high = row["[95% simult. CI]0"], row["[95% simult. CI]1"]
        np.testing.assert_allclose([float(low), float(high)], intervals.loc[model], atol=0.0005)
        best, worst = (int(part) for part in (row["rank0"].split("-") * 2)[:2])
        assert (best, worst) == tuple(ranks.loc[model, ["lower", "upper"]])
        assert row["coef0"] == normal[model]["coef0"]
    assert cells(summary) != normal
    assert f"{ranks.n_separated} of 28 pairs are told apart" in " ".join(summary.as_text().split())
    assert "webb bootstrap" in " ".join(summary.as_text().split())
    assert "bootstrap" not in few.summary().as_text().split("Warning:")[0]


@pytest.mark.parametrize("functional", ["bt", "borda"])
def test_adjusted_p_values_are_below_alpha_exactly_where_intervals_exclude_the_neutral_value(by_functional, functional):
    fit = by_functional[functional]
    for alpha in (0.01, 0.03, 0.05, 0.1, 0.2, 0.3):
        interval = fit.bootstrap("webb").conf_int(alpha)
        neutral = fit.estimates.neutral
        excludes = (interval["lower"] > neutral) | (interval["upper"] < neutral)
        shown = cells(fit.bootstrap("webb").summary(alpha))
        for model, is_excluded in excludes.items():
            p = shown[model]["adj. P0"]
            # A p-value that is shown with three digits may be rounded to alpha.
            assert p == f"{alpha:.3f}" or (p.startswith("<") or float(p) < alpha) == is_excluded, (alpha, model)


@pytest.mark.parametrize("functional", ["bt", "borda", "rank_centrality"])
def test_adjusted_p_values_equal_shares_of_draws_that_are_made_one_by_one(by_functional, functional):
    fit = by_functional[functional]
    e = fit.estimates
    bootstrap = multiplier_bootstrap(fit.steps, "rademacher", 1.0, 0)
    n_models, rng = len(fit.models), np.random.default_rng(5)
    centring = np.eye(n_models) - (1 / n_models if e.neutral is None else 0)
    units = bootstrap.units @ centring.T
    values, vectors = np.linalg.eigh(centring @ bootstrap.added @ centring.T)
    root = vectors * np.sqrt(np.maximum(values, 0))
    statistic = np.abs(e.neutral_statistics())
    maxima = []
    for _ in range(4000):
        sign = rng.choice([-1.0, 1.0], len(units))
        moved = units * sign[:, None]
        total = moved.sum(axis=0) + root @ rng.standard_normal(n_models)
        centred = moved - moved.mean(axis=0)
        spread = np.sqrt(bootstrap.small_sample * np.square(centred).sum(axis=0) + np.square(root).sum(axis=1))
        maxima.append(np.abs(total / spread).max())
    expected = (np.array(maxima)[:, None] >= statistic).mean(axis=0)
    expected = np.maximum(expected, 2 * norm.sf(statistic))
    shown = cells(fit.bootstrap("rademacher").summary())
    p = [0.0 if shown[m]["adj. P0"].startswith("<") else float(shown[m]["adj. P0"]) for m in fit.models]
    np.testing.assert_allclose(p, expected, atol=0.035)


def test_a_bootstrap_is_not_advised_where_it_is_used_and_refused_with_few_clusters(few):
    assert "bootstrap('webb')" in str(few.diagnostics.warnings)
    assert "bootstrap('webb')" not in str(few.bootstrap("webb").diagnostics.warnings)
    votes = votes_of_few_users()
    three = fit_of(votes.assign(user=votes["user"] % 3))
    assert "bootstrap('webb')" not in str(three.diagnostics.warnings)
    with pytest.raises(OptionError, match="3 effective clusters"):
        three.bootstrap("webb")
    with pytest.raises(OptionError, match="rademacher"):
        few.bootstrap("rademaher")


def test_tidy_has_the_intervals_of_the_bootstrap_and_the_same_tests(few):
    tidy, normal = few.bootstrap("webb").tidy(), few.tidy()
    np.testing.assert_allclose(tidy[["conf_low", "conf_high"]], few.bootstrap("webb").conf_int())
    np.testing.assert_allclose(tidy["p_value"], normal["p_value"], rtol=0.1)


def test_the_view_has_the_methods_that_hold_and_no_others(few):
    view = few.bootstrap("webb")
    for name in ("t_test", "wald_test", "by", "update", "rescale", "to_json", "sequential", "bootstrap"):
        assert name not in dir(view)
        assert not hasattr(view, name)
        with pytest.raises(OptionError, match=name):
            getattr(view, name)
    assert {"conf_int", "summary", "t_test_pairwise", "ranks", "best_set", "tidy", "report"} <= set(dir(view))
    with pytest.raises(OptionError):
        dr.compare(few, view)


def test_draws_and_seed_of_the_view(few):
    limits = [few.bootstrap("webb", n_boot=500, rng=seed).conf_int() for seed in (1, 1, 2)]
    pd.testing.assert_frame_equal(limits[0], limits[1])
    assert not limits[0].equals(limits[2])
    np.testing.assert_allclose(limits[0], few.bootstrap("webb").conf_int(), atol=0.2)
    with pytest.raises(OptionError, match="n_boot"):
        few.bootstrap("webb", n_boot=10)


def test_what_is_drawn_is_kept(few, monkeypatch):
    view, drawn = few.bootstrap("webb"), []
    blocks = MultiplierBootstrap.blocks
    monkeypatch.setattr(MultiplierBootstrap, "blocks", lambda self, c: drawn.append(1) or blocks(self, c))
    view.summary(), view.conf_int(0.1), view.ranks(), view.t_test_pairwise(), view.t_test_pairwise(alpha=0.1)
    assert len(drawn) == 2  # scores, and differences


def test_a_bootstrap_that_is_not_known_or_has_no_data_is_refused(few, tmp_path):
    with pytest.raises(OptionError, match="wild"):
        few.bootstrap("wild")
    few.to_json(tmp_path / "few.json")
    with pytest.raises(DataNotStoredError):
        dr.read_json(tmp_path / "few.json").bootstrap("webb")
    with pytest.raises(NoIntervalError):
        few.update(estimator="plugin").bootstrap("webb")
    with pytest.raises(OptionError):
        few.sequential(100, start=5).bootstrap("webb")
