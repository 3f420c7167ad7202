"""Few prompts or clusters: limits of means of scores, and Student's quantiles of votes."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, f, norm

import dmlrank as dr
from dmlrank.exceptions import DataError, HypothesisError, IntervalWarning
from dmlrank.options import in_objects

from ..support import quiet, two_of, votes_of


def table_of(y):
    prompt, model = (places.ravel() for places in np.indices(y.shape))
    return pd.DataFrame({"prompt": prompt, "model": np.array(list("abcdefgh"))[model], "score": y.ravel()})


def fit(y, **options):
    return dr.dml_rank(
        "score ~ 1 | model", table_of(np.asarray(y, float)), **in_objects({"context": "prompt", "rng": 0, **options})
    )


def binary(n, k, seed=0, p=0.8):
    return (np.random.default_rng(seed).random((n, k)) < p).astype(float)


def test_limits_count_one_unseen_prompt():
    n, z = 30, norm.isf(0.025)
    y = binary(n, 2)
    res = fit(y)
    pair = res.t_test_pairwise().result_frame.iloc[0]
    assert pair["std_error"] == pytest.approx((y[:, 0] - y[:, 1]).std() / np.sqrt(n), rel=1e-10)
    # No limit of a difference is inside the normal one with a lost prompt in its variance.
    test = res.t_test("a - b")
    (low, high), gap = test.conf_int()[0], test.effect[0]
    for end, unseen in ((gap - low, gap + 1), (high - gap, 1 - gap)):
        assert end >= z * np.sqrt(((y[:, 0] - y[:, 1]).var() + unseen**2 / n) / n) * (1 - 1e-9)
    # The interval that is as wide as the p-value says ends at zero.
    assert np.abs(test.conf_int(float(test.pvalue))).min() < 1e-7
    np.testing.assert_allclose(res.bse, y.std(axis=0) / np.sqrt(n), rtol=1e-10)
    limits, successes = res.conf_int(method="none"), (n * res.params).round().astype(int)
    for model, x in successes.items():
        exact = beta.ppf([0.025, 0.975], [x, x + 1], [n - x + 1, n - x])
        np.testing.assert_allclose(limits.loc[model], exact, atol=0.6 / n)
    assert "each limit allows for one unseen prompt" in " ".join(res.summary().as_text().split())


def test_models_that_agree_on_all_prompts_have_intervals():
    one = binary(20, 1)
    for y in (np.ones((20, 3)), np.repeat(one, 3, axis=1)):
        res = fit(y)
        pairs = res.t_test_pairwise().result_frame
        assert (pairs["conf_high"] > 2 / 20).all()
        np.testing.assert_allclose(pairs["conf_low"], -pairs["conf_high"])
        assert not pairs["statistic"].any()
        assert (res.params - res.conf_int()["lower"] > 3 / 20).all()
    assert res.t_test("a - b").pvalue == 1
    # Nothing tells what another score of a table of fives would be.
    with pytest.warns(IntervalWarning, match="same on all"):
        res = fit(np.full((20, 2), 5.0))
    assert not res.bse.any()


def test_no_unsafe_answer_of_500_is_at_most_seven_in_a_thousand():
    limits = fit(np.zeros((500, 8))).conf_int(method="none")
    assert (limits["lower"] == 0).all()
    np.testing.assert_allclose(limits["upper"], 1 - 0.025 ** (1 / 500), rtol=1e-6)
    assert (fit(np.zeros((500, 8))).t_test_pairwise().result_frame["p_adjusted"] == 1).all()


def test_units_and_order_of_models_do_not_matter():
    y = np.random.default_rng(1).gamma(2, size=(25, 3))
    one, other = fit(y), fit(5 - 2 * y[:, ::-1])
    critical = one.estimates.critical / other.estimates.critical
    assert critical == pytest.approx(1, abs=0.01)
    mirrored = (5 - other.conf_int(method="none").to_numpy()[::-1, ::-1]) / 2
    np.testing.assert_allclose(one.conf_int(method="none"), mirrored, rtol=1e-9)
    np.testing.assert_allclose(one.rescale(3.0).conf_int(), 3 * one.conf_int(), rtol=1e-10)
    stored = dr.read_json(one.to_json())
    assert stored.summary().as_text() == one.summary().as_text()
    pd.testing.assert_frame_equal(stored.t_test_pairwise().result_frame, one.t_test_pairwise().result_frame)
    with pytest.raises(dr.exceptions.DataNotStoredError, match="ask for the difference of two"):
        stored.t_test("0.5 * a + 0.3 * b - c")


@pytest.mark.parametrize("won", [0.6, 0.97, 1.0])
def test_votes_of_two_models_on_few_prompts_have_the_limits_of_clopper_and_pearson(won):
    rng = np.random.default_rng(4)
    votes = pd.DataFrame(
        {"model_a": "a", "model_b": "b", "winner": np.where(rng.random(80) < won, "model_a", "model_b")}
    )
    with quiet():
        res = dr.dml_rank("winner ~ 1 | model_a + model_b", votes, position_bias=False, rng=0)
    x = int((votes["winner"] == "model_a").sum())
    low = beta.ppf(0.025, x, 81 - x)
    high = 1.0 if x == 80 else beta.isf(0.025, x + 1, 80 - x)
    np.testing.assert_allclose(res.conf_int(method="none").loc["a"], [low, high], atol=1e-6)
    # The difference of the two shares is one share, too.
    pair = res.t_test_pairwise().result_frame.iloc[0]
    np.testing.assert_allclose([pair["conf_low"], pair["conf_high"]], [2 * low - 1, 2 * high - 1], atol=1e-6)
    # Tests and limits say the same.
    for delta in (2 * low - 1.01, 2 * low - 0.99):
        assert (res.t_test(f"a - b = {delta}").pvalue < 0.05) == (delta < 2 * low - 1)


def test_few_clusters_have_one_degree_less_than_clusters():
    y = binary(200, 3)
    table = table_of(y).assign(suite=lambda d: d["prompt"] // 5)
    res = dr.dml_rank(
        "score ~ 1 | model", table, context="prompt", cov_type="cluster", cov_kwds={"groups": "suite"}, rng=0
    )
    covariance = res.estimates.covariance
    assert covariance.df == pytest.approx(39, rel=0.03)
    np.testing.assert_allclose(covariance.wald_law(2).tail(3.0), f(2, 38).sf(3.0 * 38 / 39 / 2), rtol=0.01)
    assert "one unseen cluster" in " ".join(str(res.summary()).split())
    # Suites of one prompt are the prompts; a prompt that counts five times is no more than one.
    single = table.assign(suite=table["prompt"])
    clustered = {"cov_type": "cluster", "cov_kwds": {"groups": "suite"}}
    plain, alone = (fit_table(single, **kind).conf_int(method="none") for kind in ({}, clustered))
    np.testing.assert_allclose(alone, plain, atol=0.01)
    same = table_of(np.repeat(y[:40], 5, axis=0)).assign(suite=lambda d: d["prompt"] // 5)
    limits = fit_table(same, **clustered).conf_int(method="none")
    # Clusters have Student's quantiles besides.
    np.testing.assert_allclose(limits, fit(y[:40]).conf_int(method="none"), atol=0.025)


def test_a_group_of_few_prompts_is_a_fit_of_few_prompts():
    y = binary(150, 3)
    table = table_of(y).assign(part=lambda d: np.where(d["prompt"] < 40, "few", "many"))
    group = dr.dml_rank("score ~ 1 | model", table, context="prompt", rng=0).by("part")["few"]
    single = dr.dml_rank("score ~ 1 | model", table[table["part"] == "few"], context="prompt", rng=0)
    assert group.estimates.covariance.df == 39
    np.testing.assert_allclose(group.conf_int(), single.conf_int(), rtol=1e-10)


def test_drawn_scores_have_limits_of_the_prompts_that_were_drawn():
    rng = np.random.default_rng(3)
    y, is_drawn = binary(2000, 3, seed=3, p=0.95), np.repeat(rng.random((2000, 1)) < 0.04, 3, axis=1)
    is_drawn[:, 2] |= rng.random(2000) < 0.4
    propensity = np.where(np.arange(3) < 2, 0.04, 1 - 0.96 * 0.6) * np.ones((2000, 1))
    table = pd.concat([table_of(y)[is_drawn.ravel()], pd.DataFrame({"prompt": np.flatnonzero(~is_drawn.any(axis=1))})])
    res = dr.dml_rank("score ~ 1 | model", table, context="prompt", propensity=propensity, rng=0)
    assert res.estimates.covariance.df == pytest.approx(is_drawn[:, :2].sum() / 2 - 1)
    # Those of the first two models are about what a table of their prompts has, and further away on the side of misses.
    few, drawn = fit(y[is_drawn[:, 0]]).conf_int(method="none"), res.conf_int(method="none")
    for name in "ab":
        ends = [res.params[name] - drawn.loc[name, "lower"], drawn.loc[name, "upper"] - res.params[name]]
        assert ends[0] > ends[1]
        width = (few.loc[name, "upper"] - few.loc[name, "lower"]) * res.bse[name] / fit(y[is_drawn[:, 0]]).bse[name]
        assert sum(ends) == pytest.approx(width, rel=0.25)
    # Without a miss, one that is not seen is as many times farther away as there are prompts for each that was drawn.
    certain = table.assign(score=table["score"].where(table["score"].isna(), 1.0))
    limits = fit_table(certain, propensity=propensity).conf_int(method="none")
    np.testing.assert_allclose(
        (1 - limits["lower"])["a"], 2000 / is_drawn[:, 0].sum() * (1 - 0.025 ** (1 / 2000)), rtol=1e-6
    )


def test_results_together_have_the_limits_of_each():
    one, other = table_of(binary(20, 3, seed=1, p=0.95)), table_of(binary(20, 3, seed=2, p=0.95))
    fits = [fit_table(one), fit_table(other.assign(prompt=other["prompt"] + 20))]
    comparison = dr.compare(x=fits[0], y=fits[1], independent=True)
    for name, res in zip("xy", fits, strict=True):
        np.testing.assert_allclose(
            comparison.conf_int(method="none").loc[name], res.conf_int(method="none"), rtol=1e-9, atol=1e-12
        )
    changes = comparison.changes(method="none").set_index("model").loc[list("abc")]
    np.testing.assert_allclose(changes["std_error"], np.hypot(*(res.bse for res in fits)), rtol=1e-9)
    assert ((changes["conf_high"] - changes["conf_low"]) / 2 > norm.isf(0.025) * changes["std_error"]).all()
    assert (changes["conf_high"] - changes["conf_low"] < 3 * norm.isf(0.025) * changes["std_error"] + 0.3).all()
    # On the same prompts, an unchanged score is that of two models that agree everywhere.
    same = dr.compare(x=fits[0], y=fit_table(one.assign(score=one["score"]))).changes(method="none")
    agreeing = fit(np.ones((20, 2))).t_test("a - b").conf_int()[0, 1]
    np.testing.assert_allclose(same["conf_high"], agreeing, rtol=1e-6)


def test_criteria_have_the_limits_of_their_fits():
    table = table_of(binary(20, 3, seed=1, p=0.95)).assign(style=binary(20, 3, seed=2, p=0.95).ravel())
    criteria = dr.dml_rank("score + style ~ 1 | model", table, context="prompt", rng=0)
    own = criteria.results[0]
    np.testing.assert_allclose(criteria.weighted({"score": 1}).conf_int(), own.conf_int(), rtol=1e-9)


def fit_table(table, formula="score ~ 1 | model", **options):
    return dr.dml_rank(formula, table, **in_objects({"context": "prompt", "rng": 0, **options}))


def test_a_model_with_few_scores_is_refused():
    y = binary(30, 3, seed=7)
    y[9:, 2] = np.nan
    with pytest.raises(dr.exceptions.MissingDataError, match="'c' has 9 scores; an interval needs at least 10"):
        fit(y, missing="model")


@pytest.mark.filterwarnings("ignore:few prompts:dmlrank.exceptions.IntervalWarning")
def test_small_tasks_borrow_from_the_variance_of_the_others():
    table = table_of(binary(70, 2)).assign(task=lambda d: np.where(d["prompt"] < 10, "few", "many"))
    res = fit_table(table, weights=dr.EqualTasks("task"))
    size = np.array([10, 60])
    weight = (1 - 1 / size) * (1 / size + (1 / size**2).sum() / (1 - 1 / size).sum())
    df = weight.sum() ** 2 / (weight**2 / (size - 1)).sum()
    assert res.estimates.covariance.df == pytest.approx(df)
    # Equal tasks have one degree of freedom less than prompts each; many of these are normal.
    equal = table.assign(task=lambda d: d["prompt"] % 7)
    assert fit_table(equal, weights=dr.EqualTasks("task")).estimates.covariance.df == pytest.approx(63)
    # Prompts of the small task count most, and so does one that is not seen.
    limits, plain = res.conf_int(method="none"), fit_table(table).conf_int(method="none")
    assert (limits["upper"] - limits["lower"] > plain["upper"] - plain["lower"]).all()
    # The typical difference is one of single prompts, without what small tasks borrow.
    y = table["score"].to_numpy().reshape(70, 2) @ [1.0, -1.0]
    gap = y - np.repeat([y[:10].mean(), y[10:].mean()], size) + np.mean([y[:10].mean(), y[10:].mean()])
    typical = res.estimates.covariance.means.parts[0].size
    np.testing.assert_allclose(typical, np.sqrt((gap**4).sum() / (gap**2).sum()), rtol=1e-7)
    # Without an event it is as many times farther away as its weight says.
    certain = fit_table(table.assign(score=1.0), weights=dr.EqualTasks("task")).conf_int(method="none")
    np.testing.assert_allclose(1 - certain["lower"], (70 / 2 / 10) * (1 - 0.025 ** (1 / 70)), rtol=1e-6)
    # Scores that differ between tasks alone say nothing of a range within them.
    steps = table.assign(score=np.where(table["task"] == "few", 2.0, 9.0))
    with pytest.warns(IntervalWarning, match="standard error is zero"):
        alike = fit_table(steps, weights=dr.EqualTasks("task"))
    np.testing.assert_allclose(alike.conf_int(method="none"), 5.5)


def votes_of_users(sizes, seed=0):
    """Votes on pairs of three models by users, each with a taste of their own, on a prompt for each vote."""
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(len(sizes)), sizes)
    first, second = two_of(rng, 3, len(user))
    taste = rng.normal(size=(len(sizes), 3))
    won = rng.normal(size=len(user)) < taste[user, first] - taste[user, second]
    return votes_of(list("abc"), first, second, won, user=user)


def test_users_with_most_votes_leave_few_effective_clusters():
    """241 users, of whom three cast 45 % of the votes."""
    by_user = {"functional": "borda", "cov_type": "cluster", "cov_kwds": {"groups": "user"}, "rng": 0}
    votes = votes_of_users([225] * 3 + [3, 4] * 119)
    with pytest.warns(IntervalWarning, match=r"the 241 clusters count as \d\.\d of one size"):
        res = dr.dml_rank("winner ~ 1 | model_a + model_b", votes, **in_objects(by_user))
    covariance = res.estimates.covariance
    assert covariance.df < 10
    assert f"{covariance.df + 1:.0f} effective clusters: t quantiles" in " ".join(str(res.summary()).split())
    assert dr.read_json(res.to_json()).conf_int().equals(res.conf_int())
    even = dr.dml_rank("winner ~ 1 | model_a + model_b", votes_of_users([1] * 60), **in_objects(by_user))
    assert "(60 clusters: t quantiles)" in " ".join(str(even.summary()).split())
    with pytest.raises(DataError, match=r"'user' count as 2\.4 of one size \(48 % are in one\)"):
        dr.dml_rank("winner ~ 1 | model_a + model_b", votes_of_users([500, 450, *[1] * 90]), **in_objects(by_user))


@pytest.fixture(scope="module")
def crowd():
    rng = np.random.default_rng(5)
    n, models = 3000, np.array(list("abcdefghijklmnopqrst"))
    first, step = rng.integers(20, size=n), rng.integers(1, 20, size=n)
    first, second = models[first], models[(first + step) % 20]
    ahead = rng.random(n) < 0.5 + 0.02 * (np.searchsorted(models, second) - np.searchsorted(models, first))
    votes = pd.DataFrame({"left": first, "right": second, "winner": np.where(ahead, "left", "right")})
    prompt, worker = ([f"{what}{i}" for i in rng.integers(k, size=n)] for what, k in (("p", 13), ("w", 60)))
    return votes.assign(prompt=prompt, worker=worker)


VOTES = "winner ~ 1 | left + right"


def test_crossed_clusters_that_are_counted_twice_are_warned_of(crowd):
    groups = {"groups": ["prompt", "worker"]}
    with pytest.warns(dr.DmlrankWarning) as found:
        res = dr.dml_rank(VOTES, crowd, context="prompt", cov_type="cluster", cov_kwds=groups, rng=0)
    messages = [str(one.message) for one in found]
    assert sum("is counted twice" in text and "standard errors are too large" in text for text in messages) == 1
    assert sum("leave context= out" in text for text in messages) == 1
    assert not any("use columns with more clusters" in text for text in messages)
    said = " ".join(res.summary().as_text().split())
    assert "is counted twice" in said
    assert set(messages) == set(res.diagnostics.warnings)


def test_maximum_likelihood_with_few_prompts_warns_and_tests_no_more_restrictions_than_prompts_allow():
    rng, n, names = np.random.default_rng(2), 2000, np.array([f"m{j}" for j in range(12)])
    first, second = two_of(rng, 12, n)
    votes = pd.DataFrame({"left": names[first], "right": names[second], "prompt": rng.integers(8, size=n)})
    votes["winner"] = np.where(rng.random(n) < 0.5 + 0.02 * (second - first), "left", "right")
    with pytest.warns(IntervalWarning, match="collect votes or scores on more than 30 prompts"):
        res = dr.dml_rank(VOTES, votes, context="prompt", estimator="bt_mle", functional="bt")
    assert res.wald_test([("m0", "m1"), ("m0", "m2")]).law == "F"
    with pytest.raises(HypothesisError, match="11 restrictions cannot be tested with 8 prompts"):
        res.wald_test([("m0", name) for name in names[1:]])
