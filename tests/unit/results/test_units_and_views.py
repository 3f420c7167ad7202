"""Sequential views: their numbers against the written-out formulas, what they say, and what they refuse."""

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import OptionError, OptionTypeError
from dmlrank.options import in_objects

# What every public name of a result is in a sequential view.
AT_ALL_LOOKS = {
    "pvalues", "conf_int", "t_test", "wald_test", "win_probability", "t_test_pairwise", "ranks", "best_set",
    "ellipsoid", "summary", "verdict", "explain", "tidy", "plot", "report",
    "to_json", "update", "rescale", "pareto",
}  # fmt: skip
WITHOUT_STATEMENTS = {
    "models", "names", "params", "bse", "tvalues", "influence", "nobs",
    "functional", "graph", "diagnostics", "cov_params", "predict", "style", "judge",
}  # fmt: skip
REFUSED = {
    "sample_size": lambda view: view.sample_size(0.1),
    "annotators": lambda view: view.annotators("category"),
    "by": lambda view: view.by("category"),
    "sensitivity": lambda view: view.sensitivity(),
    "fragility": lambda view: view.fragility(),
    "restriction_test": lambda view: view.restriction_test(),
    "design": lambda view: view.design(100),
    "sequential": lambda view: view.sequential(planned=5000),
    "bootstrap": lambda view: view.bootstrap("webb"),
}
ALSO_REFUSED = {
    "false discovery rate": lambda view: view.t_test_pairwise("fdr_bh"),
    "calibration": lambda view: view.plot("calibration"),
    "comparison": lambda view: dr.compare(view, view.rescale(2.0)),
}
OTHER_ALPHA = {
    "conf_int": lambda view: view.conf_int(alpha=0.1),
    "t_test": lambda view: view.t_test("gpt-4 - claude-v1").conf_int(0.1),
    "t_test_pairwise": lambda view: view.t_test_pairwise(alpha=0.1),
    "ranks": lambda view: view.ranks(alpha=0.1),
    "best_set": lambda view: view.best_set(alpha=0.1),
    "ellipsoid": lambda view: view.ellipsoid(alpha=0.1),
    "win_probability": lambda view: view.win_probability("gpt-4", "claude-v1", alpha=0.1),
    "summary": lambda view: view.summary(alpha=0.1),
    "verdict": lambda view: view.verdict(alpha=0.1),
    "explain": lambda view: view.explain(alpha=0.1),
    "tidy": lambda view: view.tidy(alpha=0.1),
    "plot": lambda view: view.plot(alpha=0.1),
    "sheet": lambda view: view.plot("sheet", alpha=0.1),
    "report": lambda view: view.report(alpha=0.1),
    "update": lambda view: view.update(alpha=0.1),
}


@pytest.fixture(scope="module")
def res():
    battles = dr.datasets.simulate_arena(n=2000, rng=0)
    battles["annotator"] = np.arange(len(battles)) % 600
    return dr.dml_rank("winner ~ 1 | model_a + model_b", battles, functional="bt", context="question_id", rng=0)


@pytest.fixture(scope="module")
def view(res):
    return res.sequential(planned=8000, start=400)


def critical(m: int, t: int, planned: int, alpha: float = 0.05) -> float:
    """The critical value of m confidence sequences at t units, written out."""
    grid = np.linspace(0.01, 60, 2_000_000)
    squared = (1 + 1 / grid) * (np.log(1 + grid) - 2 * np.log(alpha / m))
    tau = grid[np.argmin(squared)] * t / planned
    return float(np.sqrt((1 + 1 / tau) * (np.log(1 + tau) - 2 * np.log(alpha / m))))


def test_every_public_name_is_sequential_refused_or_without_statements():
    public = {name for name in dir(dr.RankResults) if not name.startswith("_")}
    # The last two are of tables of scores alone.
    public -= {"estimates", "steps", "simultaneous", "per_success", "curve"}
    assert public == AT_ALL_LOOKS | WITHOUT_STATEMENTS | set(REFUSED)


def test_intervals_are_those_of_the_formula(res, view):
    for method, m in (("max-t", 8), ("bonferroni", 8), ("none", 1)):
        half_width = critical(m, 2000, 8000) * res.bse
        limits = view.conf_int(method=method)
        np.testing.assert_allclose(limits["lower"], res.params - half_width, rtol=1e-6)
        np.testing.assert_allclose(limits["upper"], res.params + half_width, rtol=1e-6)
    assert view.params.equals(res.params)
    assert view.bse.equals(res.bse)
    frame = view.tidy()
    np.testing.assert_allclose(frame["conf_low"], view.conf_int()["lower"])
    assert (frame["p_value"].to_numpy() == view.pvalues.to_numpy()).all()
    assert (view.pvalues >= res.pvalues).all()


def test_tests_decide_as_their_intervals(res, view):
    pairs = view.t_test_pairwise()
    assert (pairs.method, pairs.estimates.looks) == ("bonferroni", "at all looks from 400 prompts on")
    assert pairs.critical == pytest.approx(critical(28, 2000, 8000), rel=1e-6)
    frame = pairs.result_frame
    assert ((frame["conf_low"] > 0) | (frame["conf_high"] < 0)).equals(frame["p_adjusted"] <= 0.05)
    assert view.t_test_pairwise("step-down").rejected.sum() >= pairs.rejected.sum()
    for first, second in (("gpt-4", "claude-v1"), ("gpt-4", "dolly-v2-12b")):
        both, above = (view.t_test((first, second), side=side) for side in ("two-sided", "larger"))
        low, high = both.conf_int()[0]
        assert (low > 0 or high < 0) == (both.pvalue <= 0.05)
        assert (above.conf_int()[0, 0] > 0) == (above.pvalue <= 0.05)
        assert both.statistic[0] == pytest.approx(float(res.t_test((first, second)).statistic.item()))
        assert (high - low) / 2 == pytest.approx(float(critical(1, 2000, 8000) * both.sd[0]), rel=1e-6)
    assert "at all looks from 400 prompts on" in " ".join(str(both.summary()).split())
    assert both.summary_frame().shape == (1, 6)
    joint = view.wald_test("gpt-4 = claude-v1 = palm-2")
    assert joint.pvalue > res.wald_test("gpt-4 = claude-v1 = palm-2").pvalue
    region = view.ellipsoid(models=["gpt-4", "claude-v1"])
    assert region.radius2 > res.ellipsoid(models=["gpt-4", "claude-v1"]).radius2
    assert region.summary().header[0][1] == "95 %"


def test_rank_sets_follow_the_separated_pairs(res, view):
    ranks, frame = view.ranks(), view.t_test_pairwise().result_frame
    n_above = frame[frame["p_adjusted"] <= 0.05].groupby("second").size().reindex(ranks.index, fill_value=0)
    assert (ranks["lower"] >= 1 + n_above).all()
    assert (ranks["lower"] <= res.ranks()["lower"]).all()
    assert set(res.best_set()) <= set(view.best_set())
    alone = view.ranks(simultaneous=False)
    assert (alone["upper"] - alone["lower"]).sum() <= (ranks["upper"] - ranks["lower"]).sum()
    assert "Holm, at all looks" in " ".join(str(ranks.summary()).split())


def test_the_win_share_holds_at_all_looks(res, view):
    share, at_one_look = (result.win_probability("gpt-4", "claude-v1") for result in (view, res))
    assert share.estimate == at_one_look.estimate
    assert share.conf_low < at_one_look.conf_low < at_one_look.conf_high < share.conf_high
    assert "at all looks" in str(share)


def test_scale_and_order_of_models_do_not_matter(res, view):
    elo = view.rescale("elo", mean=1000)
    again = res.rescale("elo", mean=1000).sequential(planned=8000, start=400)
    pd.testing.assert_frame_equal(elo.conf_int(), again.conf_int())
    factor = 400 / np.log(10)
    np.testing.assert_allclose(np.ptp(elo.conf_int(), axis=1), factor * np.ptp(view.conf_int(), axis=1))
    p = (result.t_test_pairwise().result_frame["p_adjusted"] for result in (elo, view))
    np.testing.assert_allclose(*p)
    assert elo.ranks().result_frame.equals(view.ranks().result_frame)


def test_views_are_stored_and_updated_as_views(view):
    read = dr.read_json(view.to_json())
    pd.testing.assert_frame_equal(read.conf_int(), view.conf_int())
    assert str(read.summary()) == str(view.summary())
    updated = view.rescale(2.0).update(functional="borda")
    assert updated.estimates.sequence == view.estimates.sequence
    assert updated.estimates.scale.factor == 2


@pytest.mark.parametrize("name", [*REFUSED, *ALSO_REFUSED])
def test_what_holds_at_one_look_is_refused(view, name):
    call = (REFUSED | ALSO_REFUSED)[name]
    with pytest.raises(dr.exceptions.OptionError, match=r"sequential view|holds at one look"):
        call(view)


@pytest.mark.parametrize("name", OTHER_ALPHA)
def test_alpha_is_not_changed_after_a_look(view, name):
    with pytest.raises(dr.exceptions.OptionError, match="alpha"):
        OTHER_ALPHA[name](view)


def test_too_few_prompts_and_other_results_are_refused(res):
    error = dr.exceptions.OptionError
    with pytest.warns(dr.DmlrankWarning, match="change nothing without features"):
        fixed = res.update(prompts="fixed")
    plugin = res.update(estimator="plugin")
    for result, options, kind, words in (
        (res, {"planned": 8000, "start": 3000}, error, None),
        (res, {"planned": 100}, error, "planned"),
        (res, {"planned": 1e4}, OptionTypeError, "planned"),
        (fixed, {"planned": 8000}, error, None),
        (plugin, {"planned": 8000}, dr.exceptions.NoIntervalError, None),
    ):
        with pytest.raises(kind, match=words):
            result.sequential(**options)


def test_clusters_count_clusters(res):
    clustered = res.update(cov_type="cluster", cov_kwds={"groups": "annotator"})
    with pytest.raises(dr.exceptions.OptionError, match="annotator"):
        clustered.sequential(planned=2000, start=700)
    view = clustered.sequential(planned=2000)
    half_width = critical(8, 600, 2000) * clustered.bse
    np.testing.assert_allclose(view.conf_int()["upper"], clustered.params + half_width, rtol=1e-6)
    assert "from 500 clusters of 'annotator' on" in " ".join(str(view.summary()).split())


def test_a_group_has_a_view_of_its_own():
    sim = dr.datasets.Bt(n_items=3, n_features=1, gamma=0)
    battles = sim.sample(600, rng=0).assign(positive=lambda rows: rows["x0"] > 0)
    x = battles.drop_duplicates("question_id")[["x0"]].to_numpy()
    known = {"mu": sim.mu(x), "propensity": sim.propensity(x), "context": "question_id"}
    known |= {"rng": 0, "functional": "bt"}
    group = dr.dml_rank("winner ~ x0 | model_a + model_b", battles, **in_objects(known)).by(["positive"])["positive"]
    view = group.sequential(planned=2000, start=100)
    half_width = critical(3, group.nobs, 2000) * group.bse
    np.testing.assert_allclose(view.conf_int()["lower"], group.params - half_width, rtol=1e-5)


def test_a_view_refuses_new_models(res, view):
    """Statements of all looks are about models that were fixed before the first look."""
    rows = dr.datasets.simulate_arena(n=2400, rng=0)
    rows["annotator"] = 0
    rows.iloc[2000:] = rows.iloc[2000:].replace("koala-13b", "gnu")
    with pytest.raises(OptionError, match="gnu"):
        view.update(data=rows)
    assert "gnu" in res.update(data=rows).sequential(8000, start=400).models
