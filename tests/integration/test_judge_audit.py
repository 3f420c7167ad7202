"""What judges prefer: effects by ordinary least squares, errors by prompts, families, several judges, and errors."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.api import OLS

import dmlrank as dr
from dmlrank.exceptions import ColumnError, DataError, UnknownModelError
from dmlrank.options import in_objects

from ..support import FORMULA, quiet

FAMILY = ["gpt-4", "claude-v1", "vicuna-13b"]


def arena(n=2500, seed=0, effects=(0.1, 0.05, 0.15)):
    """Battles with human votes, and a judge who repeats the vote but for position, length and family."""
    rng = np.random.default_rng(seed)
    battles = dr.datasets.simulate_arena(n=n, no_vote=0.0, rng=seed)
    length = rng.normal(size=n)
    own = battles["model_a"].isin(FAMILY).astype(int) - battles["model_b"].isin(FAMILY).astype(int)
    drift = effects[0] + effects[1] * length + effects[2] * own
    turns = rng.random(n) < np.abs(drift)
    verdict = battles["winner"].where(~turns, np.where(drift > 0, "model_a", "model_b"))
    other = battles["winner"].where(rng.random(n) < 0.9, "tie")
    hidden = rng.random(n) < 0.3
    return battles.assign(
        verdict=verdict, other=other, log_length=length, own=own, winner=battles["winner"].where(~hidden, None)
    )


def fit(battles, judge=("verdict", "other"), **options):
    with quiet():
        given = {"context": "question_id", "position_bias": False, "rng": 0, "n_jobs": 1}
        return dr.dml_rank(FORMULA, battles, **in_objects({"judge": list(judge), **(given | options)}))


@pytest.fixture(scope="module")
def battles():
    return arena()


@pytest.fixture(scope="module")
def fitted(battles):
    return fit(battles, propensity="marginal")


def share(labels):
    return labels.map({"model_a": 1.0, "model_b": 0.0}).fillna(0.5)


@pytest.mark.long
@pytest.mark.parametrize("position_bias", [False, True])
def test_effects_and_errors_are_those_of_least_squares_by_prompts(battles, position_bias):
    res = fit(battles, position_bias=position_bias)
    audit = res.judge.audit({"verdict": FAMILY}, "log_length")
    data, mu = res.steps.data, res.steps.first.mu_without_judge.at(res.steps.data.cells)
    cell = pd.Series(data.vote_cell, index=data.row_index[data.vote_row])
    table = audit.table().set_index(["judge", "effect"])
    voted = battles[battles["winner"].notna()]
    at = cell.loc[voted.index].to_numpy()
    strength = (mu[:, 0] + mu[:, 2:].sum(axis=1) / 2 - 0.5)[at] * np.where(data.cells.flipped[at], -1, 1)
    for judge in ("verdict", "other"):
        names = ["strength", "position", "log_length", *(["family"] if judge == "verdict" else [])]
        design = voted.assign(position=1.0, strength=strength, family=voted["own"])[names].astype(float)
        excess = share(voted[judge]) - share(voted["winner"])
        ols = OLS(excess, design).fit(
            cov_type="cluster", cov_kwds={"groups": voted["question_id"].factorize()[0], "use_correction": False}
        )
        rows = table.loc[judge].loc[names]
        np.testing.assert_allclose(rows["estimate"], ols.params, atol=1e-10)
        np.testing.assert_allclose(rows["std_error"], ols.bse, rtol=1e-8)
        same = (voted[judge].map({"model_a": 0, "model_b": 1}).fillna(2)) == (
            voted["winner"].map({"model_a": 0, "model_b": 1}).fillna(2)
        )
        agreement = table.loc[(judge, "agreement")]
        assert agreement["estimate"] == pytest.approx(same.mean())
        assert agreement["std_error"] == pytest.approx(same.std(ddof=0) / np.sqrt(len(same)), rel=1e-8)
    assert audit.pairs == {"verdict": len(voted), "other": len(voted)}


def test_the_effects_are_found_and_the_fair_judge_is_fair(fitted):
    audit = fitted.judge.audit({"verdict": FAMILY, "other": FAMILY}, "log_length")
    table = audit.table().set_index(["judge", "effect"])
    low, high = table["conf_low"], table["conf_high"]
    assert (low.loc["verdict"][["position", "family"]] > 0).all()
    assert (low.loc["other"][["position", "log_length", "family"]] < 0).all()
    assert (high.loc["other"][["position", "log_length", "family"]] > 0).all()
    assert float(audit.test("verdict").pvalue) < 1e-6 < 0.01 < float(audit.test("other").pvalue)
    assert audit.test().df_denom == 6
    assert table["p_adjusted"].isna().tolist() == [True, False, False, False, False] * 2
    found = fitted.judge.agreement["agreement"]
    np.testing.assert_allclose(table.xs("agreement", level="effect")["estimate"], found, atol=1e-12)
    assert float(audit.t_test("verdict: family - other: family").pvalue) < 0.01


def test_bad_input_is_an_error(battles, fitted):
    assert fitted.update(judge=None).judge is None
    with pytest.raises(UnknownModelError, match="no judge 'verdit'"):
        fitted.judge.audit({"verdit": FAMILY})
    with pytest.raises(UnknownModelError, match="no model 'gpt4'"):
        fitted.judge.audit({"verdict": ["gpt4"]})
    with pytest.raises(ColumnError, match="'lenght'"):
        fitted.judge.audit(style="lenght")
    with pytest.raises(DataError, match="do not vary"):
        fitted.judge.audit({"verdict": list(fitted.models)})
    with pytest.raises(UnknownModelError):
        fitted.judge.audit().test("x")
    pd.testing.assert_frame_equal(fitted.judge.audit().table(), fitted.judge.audit(alpha=0.05).table())
