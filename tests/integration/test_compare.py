"""Results side by side, and the covariance between them against stacked influence values."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import f, norm

import dmlrank as dr
from dmlrank.exceptions import HypothesisError, OptionError, OptionTypeError
from dmlrank.results.comparison import automatic_names

from ..support import COVARIANCES, draw_with_groups, fits_of

K = 4
pytestmark = pytest.mark.usefixtures("ignore_warnings")  # Seven clusters are meant here


@pytest.fixture(scope="module")
def battles(draw_battles):
    return draw_with_groups(draw_battles, seed=3, n=120, unlabelled=6)


@pytest.fixture(scope="module")
def fitted(battles, rank):
    fit = fits_of(battles, rank)
    return lambda functional="borda", kind="robust", **options: fit(functional, **COVARIANCES[kind], **options)


@pytest.mark.parametrize("kind", COVARIANCES)
def test_every_result_keeps_its_own_covariance(fitted, kind):
    results = [fitted(functional, kind) for functional in ("borda", "bt", "rank_centrality")]
    if kind not in ("fixed", "weighted"):
        results.append(results[1].update(estimator="bt_mle", min_labels="auto", mu=None, propensity="estimate"))
    side = dr.compare(*results)
    joint = side.cov_params()
    for name, result in zip(side.names, results, strict=True):
        np.testing.assert_array_equal(joint.loc[name, name], result.cov_params())
    spectrum = np.linalg.eigvalsh(joint.to_numpy())
    assert spectrum[0] > -1e-9 * spectrum[-1]
    # Quantiles are those of the result with the fewest effective clusters.
    own, beside = (one.conf_int(method="none") for one in (results[1], side))
    np.testing.assert_allclose(beside.loc["bt"], own, rtol=1e-2)
    assert ((beside.loc["bt"]["upper"] - own["upper"]) > -1e-12).all()


@pytest.mark.parametrize("kind", ["robust", "cluster", "fixed", "weighted"])
def test_between_results_lie_the_products_of_their_influence(battles, fitted, kind):
    one, other = fitted("borda", kind), fitted("borda", kind, edge_weights="counts")
    a, b = one.influence, other.influence
    factor = 1.0
    if kind == "fixed":
        a, b = (
            r.steps.influence.correction_by_context - r.steps.influence.correction_by_context.mean(axis=0)
            for r in (one, other)
        )
    if kind == "cluster":
        topic = battles.frame.groupby("prompt", sort=False)["topic"].first().to_numpy()
        a, b = (np.array([phi[topic == name].sum(axis=0) for name in np.unique(topic)]) for phi in (a, b))
        factor = 7 / 6
    expected = sum(np.outer(x, y) for x, y in zip(a, b, strict=True)) * factor / 120**2
    joint = dr.compare(a=one, b=other).cov_params()
    np.testing.assert_allclose(joint.loc["a", "b"], expected, rtol=1e-8, atol=1e-14)


def test_a_joint_test_is_about_both_functionals(fitted):
    one, other = fitted("borda"), fitted("bt")
    side = dr.compare(one, other)
    both = side.t_test("borda: m0 - borda: m1, bt: m0 - bt: m1")
    for number, result in enumerate((one, other)):
        alone = result.t_test("m0 - m1")
        np.testing.assert_allclose(both.effect[number], alone.effect[0])
        np.testing.assert_allclose(both.sd[number], alone.sd.ravel()[0], rtol=1e-10)
    difference = np.array([both.effect])
    matrix = side.cov_params().to_numpy()
    contrast = np.zeros((2, 2 * K))
    contrast[0, :2], contrast[1, K : K + 2] = (1, -1), (1, -1)
    expected = difference @ np.linalg.solve(contrast @ matrix @ contrast.T, difference.T)
    test = side.wald_test("borda: m0 = borda: m1, bt: m0 = bt: m1")
    # Hotelling's law of so few prompts for two restrictions.
    n = len(one.influence)
    assert (test.df_num, test.df_denom) == (2, n - 2)
    statistic = expected.item() * (n - 2) / (2 * n)
    np.testing.assert_allclose(float(test.statistic), statistic, rtol=1e-8)
    np.testing.assert_allclose(float(test.pvalue), f.sf(statistic, 2, n - 2), rtol=1e-8)


def test_a_result_and_itself_differ_by_nothing(fitted):
    side = dr.compare(a=fitted("bt"), b=fitted("bt"))
    joint = side.cov_params()
    np.testing.assert_allclose(joint.loc["a", "b"], joint.loc["a", "a"], rtol=1e-6, atol=1e-12)
    assert len(side.reversals()) == 0
    assert "All results have the models that they share in the same order" in " ".join(side.summary().as_text().split())
    same = dr.compare(a=fitted("borda"), b=fitted("borda"))
    with pytest.raises(HypothesisError):
        same.t_test("a: m0 - b: m0")


def test_prompts_are_matched_by_name_over_frames(battles, fitted, rank):
    one = fitted("borda")
    ids = battles.frame["prompt"].unique()
    shuffled = np.random.default_rng(1).permutation(ids)
    frame = battles.frame.set_index("prompt").loc[shuffled].reset_index()
    place = {name: at for at, name in enumerate(ids)}
    mu = battles.mu[[place[name] for name in shuffled]]
    kwds = {"mu": mu, "edge_weights": "counts"}
    for kind in ("robust", "cluster", "two-way"):
        one = fitted("borda", kind)
        expected = dr.compare(a=one, b=fitted("borda", kind, edge_weights="counts")).cov_params()
        other = rank(frame, functional="borda", propensity="shown", **kwds, **COVARIANCES[kind])
        found = dr.compare(a=one, b=other).cov_params()
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-13)


def test_repetitions_share_their_deals_of_folds(battles, rank):
    def learner(x, y, w, rng):
        share = np.bincount(y, w, minlength=3) + 1
        return lambda x: np.tile(share / share.sum(), (len(x), 1))

    given = {
        "propensity": "shown",
        "n_rep": 2,
        "learner": learner,
        "n_folds": 2,
        "formula": "winner ~ x0 | model_a + model_b",
    }
    one = rank(battles.frame, **given)
    other = one.update(edge_weights="counts")
    deals = [np.stack([r.one_step_result.target.estimate for r in fit.steps.repetitions]) for fit in (one, other)]
    shared = np.cov(np.hstack(deals).T)[:K, K:] / 2
    expected = one.influence.T @ other.influence / 120**2 + shared
    np.testing.assert_allclose(dr.compare(a=one, b=other).cov_params().loc["a", "b"], expected, rtol=1e-6, atol=1e-13)
    apart = rank(battles.frame, edge_weights="counts", **(given | {"rng": 1}))
    expected = one.influence.T @ apart.influence / 120**2
    np.testing.assert_allclose(dr.compare(a=one, b=apart).cov_params().loc["a", "b"], expected, rtol=1e-6, atol=1e-13)


def test_units_are_those_of_the_results(fitted):
    one, other = fitted("borda"), fitted("bt")
    plain, elo = dr.compare(a=one, b=other), dr.compare(a=one, b=other.rescale("elo", mean=1000))
    factor = 400 / np.log(10)
    np.testing.assert_allclose(elo.cov_params().loc["a", "b"], factor * plain.cov_params().loc["a", "b"], rtol=1e-9)
    np.testing.assert_allclose(elo.params["b"], 1000 + factor * plain.params["b"])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"estimator": "plugin"}, "estimate without intervals: the plug-in"),
        ({"prompts": "fixed"}, "one result is for new prompts"),
        ({"cov_type": "cluster", "cov_kwds": {"groups": "topic"}}, r"clusters differ \(none and clusters of topic\)"),
        ({"cov_type": "robust"}, None),
    ],
)
def test_results_that_do_not_go_together_stand_side_by_side_without_tests(fitted, changes, reason):
    one = fitted("borda")
    side = dr.compare(a=one, b=fitted("bt").update(**changes))
    if reason is None:
        assert side.t_test("a: m0 - a: m1").effect.shape == (1,)
        return
    with pytest.raises(OptionError, match=reason):
        side.t_test("a: m0 - a: m1")
    with pytest.raises(OptionError, match=reason):
        side.reversals()
    assert "There are no tests between the results" in " ".join(side.summary().as_text().split())


def test_stored_results_other_columns_and_groups_have_no_covariance_with_these(battles, fitted, rank):
    one = fitted("borda")
    with pytest.raises(OptionError):
        dr.compare(a=one, b=dr.read_json(one.to_json())).conf_int()
    rows = rank(battles.frame, propensity="shown", context=None)
    with pytest.raises(OptionError, match="context"):
        dr.compare(a=one, b=rows).cov_params()
    np.testing.assert_array_equal(
        dr.compare(a=rows, b=rows.update(edge_weights="counts")).cov_params().loc["a", "a"], rows.cov_params()
    )
    copied = rank(battles.frame.iloc[::-1], propensity="shown", context=None)
    with pytest.raises(OptionError):
        dr.compare(a=rows, b=copied).cov_params()
    view = rank(battles.frame, "winner ~ C(topic) | model_a + model_b", propensity="shown", mu=battles.mu).by("topic")
    with pytest.raises(OptionError):
        dr.compare(view["t1"], view["t2"]).cov_params()


def test_ranks_move_among_the_models_that_both_have(battles, rank, fitted):
    one = fitted("bt")
    order = one.params.sort_values(ascending=False).index.tolist()
    gone, kept = order[0], order[1:]
    votes = battles.frame
    some = votes[(votes["model_a"] != gone) & (votes["model_b"] != gone)]
    turned = {"model_a": "model_b", "model_b": "model_a", "tie": "tie"}
    fewer = rank(some.assign(winner=some["winner"].map(turned)), propensity="marginal", functional="bt")
    side = dr.compare(all=one, fewer=fewer)
    assert side.models == order
    assert side.ranks["all"].tolist() == [1, 2, 3, 4]
    assert pd.isna(side.ranks.loc[gone, "fewer"])
    assert pd.isna(side.params.loc[gone, "fewer"])
    before = {name: place for place, name in enumerate(kept)}
    after = {name: place for place, name in enumerate(fewer.params.sort_values(ascending=False).index)}
    row = next(row for row in side.summary().rows if row[0] == gone)
    assert row[3:] == ("", "")
    moved = next(name for name in kept if before[name] != after[name])
    shown = next(row for row in side.summary().rows if row[0] == moved)
    # So few votes do not show that the rank has changed.
    assert shown[4] == str(side.ranks.loc[moved, "fewer"])
    tidy = side.tidy()
    assert list(tidy) == ["result", "term", "estimate", "std_error", "rank"]
    assert len(tidy) == 7
    # Stored results of which nobody says how their samples are related have no other changes of ranks than shown ones.
    stored = dr.compare(**{name: dr.read_json(result.to_json()) for name, result in (("all", one), ("fewer", fewer))})
    assert isinstance(stored.joint_or_reason, str)
    assert stored.summary().notes[0].startswith("What moved: no model's rank is shown to differ")
    assert f"Ranked in 'all', not in 'fewer': {gone}." in stored.summary().notes[0]
    assert not any("(" in row[4] for row in stored.summary().rows)
    # Without intervals nothing is known of changes.
    plugin = one.update(estimator="plugin")
    assert not any("(" in row[4] for row in dr.compare(fewer=fewer, plugin=plugin).summary().rows)


def opposite_opinions(rank, names=("m0", "m1", "m2")):
    """Fits of humans and of a judge of the opposite opinion on the same 400 prompts."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(400):
        j, k = rng.choice(3, size=2, replace=False)
        won = rng.random() < 0.5 + 0.25 * np.sign(k - j)
        rows.append((f"q{i}", names[j], names[k], "model_a" if won else "model_b"))
    humans = pd.DataFrame(rows, columns=["prompt", "model_a", "model_b", "winner"])
    judge = humans.assign(winner=humans["winner"].map({"model_a": "model_b", "model_b": "model_a"}))
    judge = judge.sample(frac=1, random_state=0)
    return [rank(frame, functional="borda", propensity="marginal") for frame in (humans, judge)]


@pytest.fixture(scope="module")
def opposed(rank):
    return opposite_opinions(rank)


def test_reversals_are_shown_when_both_orders_are(opposed):
    human, judge = opposed
    side = dr.compare(human=human, judge=judge)
    found = side.reversals()
    assert len(found) == 3
    assert (found["p_adjusted"] >= found["p_value"]).all()
    for row in found.itertuples():
        above = getattr_result(row.above_in, opposed).t_test(f"{row.model} - {row.other}")
        below = getattr_result(row.below_in, opposed).t_test(f"{row.other} - {row.model}")
        assert (row.gap_above, row.gap_below) == pytest.approx((above.effect[0], -below.effect[0]))
        p = max(norm.sf(above.statistic.item()), norm.sf(below.statistic.item()))
        assert row.p_value == pytest.approx(p, rel=1e-6)
    assert (found.iloc[0]["model"], found.iloc[0]["other"]) == ("m0", "m2")
    assert found.iloc[0]["p_adjusted"] < 0.01
    assert "m0 is above m2 in human and below in judge" in " ".join(side.summary().notes)
    # Opposite votes on the same prompts: the errors of the two are opposite, too.
    joint = side.cov_params()
    correlation = joint.loc[("human", "m0"), ("judge", "m0")] / human.bse["m0"] / judge.bse["m0"]
    assert correlation < -0.95


def getattr_result(name, opposed):
    return opposed[("human", "judge").index(name)]


def test_reversals_of_results_and_models_whose_names_run_together(rank, opposed):
    """Model "x: y" of the result "r" and model "y" of the result "r: x" would be the same text."""
    names = {"m0": "y", "m1": "x: y", "m2": "z"}
    human, judge = opposite_opinions(rank, tuple(names.values()))
    expected = dr.compare(r=opposed[0], other=opposed[1]).reversals()
    found = dr.compare(**{"r": human, "r: x": judge}).reversals()
    assert found["model"].tolist() == [names[model] for model in expected["model"]]
    np.testing.assert_allclose(found["p_value"], expected["p_value"], rtol=1e-9)


def test_names_come_from_what_differs(fitted):
    one = fitted("bt")
    other = one.update(functional="borda")
    assert dr.compare(one, other).names == ("bt", "borda")
    assert dr.compare(one, one).names == ("bt", "bt (2)")
    assert dr.compare(one, bt=other).names == ("bt (2)", "bt")
    plugin = one.update(estimator="plugin")
    assert dr.compare(one, plugin, other).names == ("bt", "bt, plugin", "borda")
    assert automatic_names([one.estimates, one.update(edge_weights="counts").estimates]) == ("bt", "bt, counts edges")
    assert dr.compare(one, human=other).names == ("bt", "human")


def test_what_is_no_result_is_refused(fitted):
    with pytest.raises(OptionError):
        dr.compare(fitted("bt"))
    with pytest.raises(OptionTypeError):
        dr.compare(fitted("bt"), "borda")
    with pytest.raises(OptionTypeError):
        dr.compare(fitted("bt"), x={})
    with pytest.raises(OptionTypeError, match=r"not a list; to name the results, write compare\(jan=a, feb=b\)"):
        dr.compare(fitted("bt"), fitted("borda"), names=["jan", "feb"])
