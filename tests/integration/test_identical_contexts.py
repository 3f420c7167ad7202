"""Whole fits whose estimates come from groups of identical contexts, against fits that evaluate every context.

Without features mu is the same in all contexts, and a fit evaluates one context of each group. Where it is made to
evaluate every context, the numbers must be the same.
"""

from __future__ import annotations

import numpy as np
import pytest

import dmlrank as dr
from dmlrank.estimation import cross_fitting, one_step
from dmlrank.estimation.influence import CompressedInfluence, Influence
from dmlrank.exceptions import NoIntervalError
from dmlrank.options import in_objects

PLAIN = "winner ~ 1 | model_a + model_b"
N_MODELS = 4

FITS = {
    "plain": {},
    "display order ignored": {"position_bias": False},
    "weights": {"weights": "weight"},
    "clusters": {"cov_type": "cluster", "cov_kwds": {"groups": "topic"}},
    "two clusterings": {"cov_type": "cluster", "cov_kwds": {"groups": ["topic", "hour"]}},
    "fixed prompts": {"prompts": "fixed"},
    "plug-in": {"estimator": "plugin"},
    "floor": {"floor": 0.1},
}


@pytest.fixture(scope="module")
def battles():
    rng = np.random.default_rng(6)
    frame = dr.datasets.simulate_arena(n=2000, rng=6)
    models = frame["model_a"].unique()[:N_MODELS]
    frame = frame[frame["model_a"].isin(models) & frame["model_b"].isin(models)]
    frame = frame.reset_index(drop=True)
    frame.loc[frame.index[::19], "winner"] = None
    n = len(frame)
    return frame.assign(weight=rng.uniform(0.5, 2, n), topic=rng.integers(40, size=n), hour=rng.integers(35, size=n))


def by_context(monkeypatch):
    """Evaluate every context by itself from here on."""
    monkeypatch.setattr(one_step, "useful_kinds", lambda *arguments, **options: None)
    monkeypatch.setattr(cross_fitting, "may_save_half", lambda data: False)


@pytest.mark.usefixtures("ignore_warnings")
@pytest.mark.parametrize(
    ("functional", "options"),
    [("borda", {}), ("rank_centrality", {}), *(("bt", options) for options in FITS.values())],
    ids=["borda", "rank_centrality", *FITS],
)
def test_a_fit_by_groups_is_the_fit_of_all_contexts(battles, functional, options, monkeypatch):
    given = {"functional": functional, "min_labels": 1, "rng": 0, "n_jobs": 1} | options
    by_group = dr.dml_rank(PLAIN, battles, **in_objects(given))
    by_context(monkeypatch)
    apart = dr.dml_rank(PLAIN, battles, **in_objects(given))
    forms = [type(fit.steps.repetitions[0].one_step_result.target) for fit in (by_group, apart)]
    assert forms == [CompressedInfluence, Influence]
    np.testing.assert_allclose(by_group.params, apart.params, rtol=0, atol=1e-12)
    # The finite differences of the variance correction magnify rounding.
    close = {"borda": 1e-12, "bt": 1e-8, "rank_centrality": 1e-6}[functional]
    covariance = apart.cov_params().to_numpy()
    np.testing.assert_allclose(by_group.cov_params(), covariance, rtol=0, atol=close * np.abs(covariance).max())
    if by_group.estimator == "plugin":
        # Plug-in estimates have a covariance and claim no interval.
        for fit in (by_group, apart):
            with pytest.raises(NoIntervalError):
                fit.conf_int()
    else:
        np.testing.assert_allclose(by_group.conf_int(), apart.conf_int(), rtol=0, atol=close)
    np.testing.assert_allclose(by_group.influence, apart.influence, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(by_group.predict(), apart.predict(), rtol=1e-12)
    np.testing.assert_allclose(by_group.estimates.shares, apart.estimates.shares, rtol=1e-12)
    first, second = by_group.diagnostics, apart.diagnostics
    for name in first.__dataclass_fields__:
        if isinstance(getattr(first, name), float) or name == "cluster_factors":
            assert getattr(first, name) == pytest.approx(getattr(second, name), rel=1e-6, abs=1e-9, nan_ok=True), name
        else:
            assert getattr(first, name) == getattr(second, name), name
    cell_mu, propensities = (
        [get(fit.steps.first) for fit in (by_group, apart)]
        for get in (lambda first: first.one_step_result.cell_mu, lambda first: first.propensity.cells)
    )
    np.testing.assert_allclose(*cell_mu, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(*propensities, rtol=1e-12)


@pytest.mark.usefixtures("ignore_warnings")
@pytest.mark.long
def test_results_by_group_are_compared_grouped_and_bootstrapped(battles, monkeypatch):
    by_fit = []
    for number in range(2):
        if number:
            by_context(monkeypatch)
        borda = dr.dml_rank(PLAIN, battles, pairs=dr.Pairs(min_labels=1), rng=0, n_jobs=1)
        bt = borda.update(functional="bt")
        joint = dr.compare(borda, borda.update(category_weights="paper"))
        by_fit.append(
            [
                bt.bootstrap("rademacher").conf_int().to_numpy(),
                joint.cov_params().to_numpy(),
                np.array([bt.win_probability(*bt.models[:2]).estimate]),
                bt.update(estimator="plugin").params.to_numpy(),
                bt.steps.influence,
            ]
        )
    assert [type(numbers.pop()) for numbers in by_fit] == [CompressedInfluence, Influence]
    # The correction for a shrunken mu is a finite difference, which magnifies rounding.
    for of_groups, of_contexts in zip(*by_fit, strict=True):
        np.testing.assert_allclose(of_groups, of_contexts, rtol=0, atol=2e-8)
