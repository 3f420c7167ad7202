"""Leaderboards by group against the formula written out, the fit itself, and each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import f
from statsmodels.stats.proportion import proportion_confint

import dmlrank as dr
from dmlrank.exceptions import (
    ColumnError,
    DataError,
    DataNotStoredError,
    HypothesisError,
    MissingDataError,
    NoIntervalError,
    OptionError,
    UnknownModelError,
)
from dmlrank.report.phrases import independent_prompts, unseen_models

from ..support import COVARIANCES, by_prompt, draw_with_groups, fits_of, needs, two_of

K = 4
FORMULA = "winner ~ C(half) + x0 | model_a + model_b"
KINDS = COVARIANCES | {"two groupings": {"cov_type": "cluster", "cov_kwds": {"groups": ["topic", "block"]}}}
pytestmark = pytest.mark.usefixtures("ignore_warnings")  # Eleven clusters and small groups are meant here


@pytest.fixture(scope="module")
def battles(draw_battles):
    return draw_with_groups(draw_battles, seed=0, n=120, unlabelled=9)


@pytest.fixture(scope="module")
def fitted(battles, rank):
    return fits_of(battles, rank, FORMULA)


def raw_scores(results, weight=None):
    """F(mu(x)) plus correction of every context, (n, K)."""
    phi = results.influence if weight is None else results.influence / weight[:, None]
    return phi + results.params.to_numpy()


def borda_written_out(battles):
    """Mean share won against the other models, debiased, of every prompt, (n, K)."""
    rows = []
    for place, (_, votes) in enumerate(battles.frame.groupby("prompt", sort=False)):
        mu, pi = battles.mu[place], battles.propensity[place]
        share = {(j, k): mu[j, k] @ [1, 0, 0.5] for j in range(K) for k in range(K) if j != k}
        score = np.array([np.mean([(share[j, k] + 1 - share[k, j]) / 2 for k in range(K) if k != j]) for j in range(K)])
        for (a, b), cell in votes.dropna(subset=["winner"]).groupby(["model_a", "model_b"]):
            j, k = int(a[1:]), int(b[1:])
            won = cell["winner"].map({"model_a": 1.0, "model_b": 0.0, "tie": 0.5}).mean()
            gap = (won - share[j, k]) / pi[j, k] / 2 / (K - 1)
            score[j] += gap
            score[k] -= gap
        rows.append(score)
    return np.array(rows)


@pytest.mark.long
def test_scores_and_covariance_are_the_formula_written_out(battles, fitted):
    raw, group = borda_written_out(battles), by_prompt(battles.frame, "half")
    groups = fitted().by("half")
    n = len(raw)
    phi = []
    for name in ("odd one", "rest"):
        inside = group == name
        theta = sum(raw[inside]) / inside.sum()
        np.testing.assert_allclose(groups.params[name], theta, rtol=1e-10)
        phi.append([(row - theta) / inside.mean() if here else 0 * row for row, here in zip(raw, inside, strict=True)])
    phi = np.concatenate(phi, axis=1)
    expected = sum(np.outer(row, row) for row in phi) / n**2
    np.testing.assert_allclose(groups.cov_params(), expected, atol=1e-12)
    np.testing.assert_allclose(groups.bse.to_numpy().T.ravel(), np.sqrt(np.diag(expected)), rtol=1e-9)
    assert groups.nobs.to_dict() == {"odd one": 40, "rest": 80}


def test_clusters_add_up_the_influence_of_all_groups(battles, fitted):
    results = fitted(**KINDS["cluster"])
    raw, group, topic = raw_scores(results), by_prompt(battles.frame, "half"), by_prompt(battles.frame, "topic")
    total = np.zeros((7, 2 * K))
    for row, here, name in zip(raw, group, topic, strict=True):
        g = ["odd one", "rest"].index(here)
        gap = (row - raw[group == here].mean(axis=0)) / (group == here).mean()
        total[int(name[1:]), g * K : (g + 1) * K] += gap
    expected = total.T @ total * 7 / 6 / len(raw) ** 2
    np.testing.assert_allclose(results.by("half").cov_params(), expected, atol=1e-12)


def test_a_group_whose_crossed_clusters_fail_does_not_change_the_others():
    """Two annotators voted in one group, whose matrix has a negative variance; sixty did in each of the others."""
    rng = np.random.default_rng(0)
    part, prompt = np.repeat(["few", "u", "v"], [60, 270, 270]), np.repeat(np.arange(600), 2)
    first, second = two_of(rng, 3, 1200)
    names = np.array(list("abc"))
    frame = pd.DataFrame({"prompt": prompt, "part": part[prompt], "model_a": names[first], "model_b": names[second]})
    frame["rater"] = np.where(frame["part"] == "few", 60 + np.arange(1200) % 2, rng.integers(60, size=1200))
    frame["winner"] = rng.choice(["model_a", "model_b", "tie"], 1200)
    frame = frame.assign(**{name: frame["part"] == name for name in ("few", "u", "v")})
    options = {"context": "prompt", "cov_type": "cluster", "cov_kwds": {"groups": ["prompt", "rater"]}, "rng": 0}
    results = dr.dml_rank("winner ~ C(part) | model_a + model_b", frame, **options)
    groups = results.by("part")
    assert groups.joint.covariance.note.startswith("for 1 of 3 groups")
    assert np.linalg.eigvalsh(groups.cov_params()).min() > -1e-12
    assert not results.estimates.covariance.note
    for name, fails in {"few": True, "u": False, "v": False}.items():
        alone = results.by([name])
        assert bool(alone.joint.covariance.note) == fails
        np.testing.assert_allclose(groups.bse[name], alone.bse[name], rtol=1e-9)
    np.testing.assert_allclose(results.by("~ 0 + C(part)").bse.to_numpy(), groups.bse.T.to_numpy(), rtol=1e-8)


@pytest.mark.parametrize("functional", ["borda", "bt", "rank_centrality"])
@pytest.mark.parametrize("kind", KINDS)
def test_one_group_of_all_prompts_is_the_fit(fitted, functional, kind):
    results = fitted(functional, formula=FORMULA.replace("x0", "C(all)"), **KINDS[kind])
    groups = results.by("all")
    np.testing.assert_allclose(groups.params["everything"], results.params, rtol=1e-10)
    # The two-way fit may be conservative where the whole is not: same numbers, same decision here.
    np.testing.assert_allclose(groups.cov_params().to_numpy(), results.cov_params(), rtol=1e-8, atol=1e-13)
    view = groups["everything"]
    np.testing.assert_allclose(view.estimates.plugin, results.estimates.plugin)
    np.testing.assert_allclose(view.estimates.shares, results.estimates.shares)
    assert view.nobs == results.nobs
    for name in ("n_votes", "n_comparisons"):
        assert getattr(view.diagnostics, name) == getattr(results.diagnostics, name)
    assert view.estimates.description.n_unlabelled == results.estimates.description.n_unlabelled
    assert view.estimates.description.smallest_pair == results.estimates.description.smallest_pair


def test_win_shares_of_a_group_have_the_limits_of_a_fit_of_the_group_alone():
    """Where every prompt has one vote on the same pair, scores are shares of votes, whatever is learnt from others."""
    won, n = {"all": 24, "most": 38, "half": 61}, {"all": 24, "most": 40, "half": 120}
    place = np.concatenate([np.arange(size) for size in n.values()])
    votes = pd.DataFrame({"kind": np.repeat(list(n), list(n.values())), "first": "a", "other": "b"})
    votes["winner"] = np.where(place < votes["kind"].map(won), "model_a", "model_b")

    def fit(data):
        return dr.dml_rank("winner ~ C(kind) | first + other", data, position_bias=False, rng=0)

    groups = fit(votes).by("kind")
    for name in groups:
        alone = fit(votes[votes["kind"] == name])
        np.testing.assert_allclose(groups[name].bse, alone.bse, rtol=1e-9)
        for limits in (result.conf_int(method="none") for result in (groups[name], alone)):
            low, high = proportion_confint(won[name], n[name], 0.05, "beta")
            share = alone.win_probability("a", "b")
            np.testing.assert_allclose(limits.loc["a"], [share.conf_low, share.conf_high], rtol=1e-9)
            if name != "all":
                np.testing.assert_allclose(limits.loc["a"], [low, high], rtol=1e-6)
    limits = groups.conf_int()
    assert limits.loc["all", "a"]["upper"] == 1
    assert 1 - limits.loc["all", "a"]["lower"] == limits.loc["all", "b"]["upper"] > 3 / n["all"]
    assert ((limits >= 0) & (limits <= 1)).all(axis=None)
    tested = groups["all"].t_test("a - b")
    assert tested.conf_int()[0, 1] == 1
    assert tested.statistic[0] > 1.96


def test_a_group_without_weight_is_refused(battles, rank):
    frame = battles.frame.assign(importance=(battles.frame["half"] == "rest").astype(float))
    results = rank(frame, FORMULA, mu=battles.mu, propensity="shown", weights="importance")
    with pytest.raises(OptionError):
        results.by("half")


def test_repetitions_add_what_other_folds_change(battles, rank):
    formula = "winner ~ C(half) | model_a + model_b"
    results = rank(battles.frame, formula, propensity="shown", n_rep=3, learner=shrunken_shares, n_folds=2)
    groups, group = results.by("half"), by_prompt(battles.frame, "half")
    each = []
    for repetition in results.steps.repetitions:
        influence = repetition.one_step_result.target
        raw = influence.value + influence.correction_by_context
        each.append(np.concatenate([raw[group == name].mean(axis=0) for name in ("odd one", "rest")]))
    np.testing.assert_allclose(groups.params.to_numpy().T.ravel(), np.mean(each, axis=0), rtol=1e-10)
    raw = raw_scores(results)
    members = [(group == name)[:, None] for name in ("odd one", "rest")]
    phi = np.hstack([np.where(m, raw - raw[m[:, 0]].mean(axis=0), 0) / m.mean() for m in members])
    expected = phi.T @ phi / len(phi) ** 2 + np.cov(np.array(each).T) / 3
    np.testing.assert_allclose(groups.cov_params(), expected, atol=1e-12)
    assert np.trace(np.cov(np.array(each).T)) > 0


def shrunken_shares(features, labels, weights, rng):
    """Shares of the categories by the first model, a learner that depends on the fold."""
    first = features[:, -2].astype(int)
    table = np.full((K, 3), 1.0)
    np.add.at(table, (first, labels), weights)
    table /= table.sum(axis=1, keepdims=True)
    return lambda features: table[features[:, -2].astype(int)]


def test_the_view_of_a_group_is_a_result(fitted):
    groups = fitted("bt").by("half")
    view = groups["rest"]
    assert isinstance(view, dr.RankResults)
    np.testing.assert_array_equal(view.params, groups.params["rest"])
    np.testing.assert_array_equal(view.bse, groups.bse["rest"])
    one, other = view.t_test("m0 - m1"), groups.t_test("rest: m0 - rest: m1")
    np.testing.assert_allclose([one.effect, one.sd.ravel()], [other.effect, other.sd.ravel()], rtol=1e-10)
    frame = view.t_test_pairwise().result_frame
    assert len(frame) == K * (K - 1) // 2
    assert view.ranks().index[0] == view.params.idxmax()
    assert view.ellipsoid().df == K - 1
    assert "half = rest" in view.summary().as_text().splitlines()[0]
    assert "half = rest" in repr(view)
    assert dr.read_json(view.to_json()).estimates.part == "half = rest"
    with pytest.raises(DataNotStoredError):
        view.update(functional="borda")


def test_intervals_hold_for_all_groups_at_once_and_are_wider_than_those_of_one(fitted):
    groups = fitted("bt").by("half")
    joint, alone = groups.conf_int(), groups["rest"].conf_int()
    assert joint.index.names == ["group", "model"]
    widths = (joint["upper"] - joint["lower"]).loc["rest"]
    assert (widths > alone["upper"] - alone["lower"]).all()
    tidy = groups.tidy()
    assert list(tidy)[:4] == ["group", "term", "estimate", "std_error"]
    np.testing.assert_array_equal(tidy["conf_low"], joint["lower"])
    np.testing.assert_allclose(tidy["statistic"][:K], groups["odd one"].tvalues)
    # Adjusted p-values and intervals say the same; one by one, more scores differ from 0.
    assert set(tidy["interval"]) == {"simultaneous"}
    excludes = (tidy["conf_low"] > 0) | (tidy["conf_high"] < 0)
    np.testing.assert_array_equal(tidy["p_adjusted"] < 0.05, excludes)
    assert (tidy["p_value"] < tidy["p_adjusted"]).all()


def test_adjusted_p_values_of_scores_without_a_neutral_value_are_of_differences_from_the_mean_of_the_group():
    rng, names = np.random.default_rng(4), ["a", "b", "c"]
    n = 240
    table = pd.DataFrame({"task": np.repeat(np.arange(n), 3), "model": names * n})
    table["part"] = np.repeat(["x", "y"], n * 3 // 2)
    table["score"] = rng.normal(np.tile([0.3, 0.0, 0.0], n))
    tidy = dr.dml_rank("score ~ 1 | model", table, context="task", rng=0).by("part").tidy()
    wide = table.pivot(index="task", columns="model", values="score").to_numpy()
    gaps = wide - wide.mean(axis=1, keepdims=True)
    halves = gaps[: n // 2], gaps[n // 2 :]
    z = np.concatenate([part.mean(axis=0) / (part.std(axis=0) / np.sqrt(len(part))) for part in halves])
    # Limits allow for a prompt that is not seen.
    np.testing.assert_allclose(tidy["statistic"], z, atol=0.35)
    correlation = np.corrcoef(gaps.T)
    factor = np.linalg.cholesky(correlation + 1e-12 * np.eye(3))
    draws = np.abs(np.concatenate([rng.normal(size=(200_000, 3)) @ factor.T for _ in halves], axis=1)).max(axis=1)
    expected = (draws[:, None] >= np.abs(tidy["statistic"].to_numpy())).mean(axis=0)
    np.testing.assert_allclose(tidy["p_adjusted"], expected, atol=0.03)


@pytest.mark.parametrize("functional", ["borda", "bt", "rank_centrality"])
def test_equality_has_the_structural_rank(battles, fitted, functional):
    results = fitted(functional)
    groups = results.by("half")
    gap = (groups.params["rest"] - groups.params["odd one"]).to_numpy()
    matrix = groups.cov_params().to_numpy()
    # Johansen's law of a test between two groups, in the free directions and by the groups' precisions.
    n = np.array([independent_prompts(e) for e in groups.of_groups.values()])
    free = np.linalg.qr(np.column_stack([np.ones(K), np.eye(K)]))[0][:, 1:K]
    blocks = [matrix[g * K : g * K + K, g * K : g * K + K] * n[g] / (n[g] - 1) for g in range(2)]
    precisions = [np.linalg.inv(free.T @ block @ free) for block in blocks]
    others = [np.eye(K - 1) - np.linalg.solve(sum(precisions), precision) for precision in precisions]
    a = sum((np.trace(m @ m) + np.trace(m) ** 2) / (size - 1) for m, size in zip(others, n, strict=True)) / 2
    expected = gap @ np.linalg.pinv(sum(blocks), rcond=1e-10) @ gap / (K - 1 + 2 * a - 6 * a / (K + 1))
    df = (K - 1) * (K + 1) / (3 * a)
    test = groups.test_equal()
    np.testing.assert_allclose(float(test.statistic), expected, rtol=1e-6)
    assert (test.law, test.rank) == ("F", K - 1)
    np.testing.assert_allclose(float(test.pvalue), f.sf(expected, K - 1, df), rtol=1e-6)
    assert groups.test_equal(["m0"]).rank == 1
    with pytest.raises(dr.exceptions.OptionError, match="each once"):
        groups.test_equal(["m0", "m0"])
    single = groups.equal_by_model()
    z = gap / np.sqrt(np.diag(sum(blocks)))
    np.testing.assert_allclose(single["statistic"], z**2, rtol=1e-8)
    assert (single["p_holm"] >= single["p_value"]).all()


def test_models_with_few_votes_are_no_part_of_joint_tests():
    """Permuted groups do not differ, whatever a model of two votes has in them."""
    rng, n, n_models = np.random.default_rng(0), 1500, 6
    first = np.r_[rng.integers(n_models, size=n), [n_models] * 2]
    second = np.r_[(first[:n] + rng.integers(1, n_models, size=n)) % n_models, [0] * 2]
    gap = np.where(first == n_models, -np.inf, second - first)
    called = np.array([f"m{place}" for place in range(n_models + 1)])
    votes = pd.DataFrame({"model_a": called[first], "model_b": called[second]})
    votes["winner"] = np.where(rng.random(n + 2) < 1 / (1 + np.exp(-gap / 6)), "model_a", "model_b")
    p, options = [], {"functional": "bt", "pairs": "arena", "rng": 0, "learning": dr.Learning(tune=None)}
    for seed in range(3):
        language = np.random.default_rng(seed).choice(["de", "en", "fr"], size=n + 2)
        fit = dr.dml_rank("winner ~ C(language) | model_a + model_b", votes.assign(language=language), **options)
        groups, projection = fit.by("language"), fit.by("~ C(language)")
        p += [groups.test_equal().pvalue, projection.test_terms()["p_value"].item()]
        assert groups.test_equal().rank == projection.test_terms()["df"].item() == 2 * (n_models - 1)
        assert np.isnan(groups.equal_by_model().loc["m6", "p_value"])
        for result in (groups, projection):
            assert "(without m6: too few votes)" in " ".join(str(result.summary()).split())
    assert min(p) > 0.05 / len(p)
    halves = [dr.dml_rank("winner ~ 1 | model_a + model_b", votes[k::2], **options) for k in (0, 1)]
    comparison = dr.compare(one=halves[0], other=halves[1], independent=True)
    assert comparison.test_unchanged().rank == n_models - 1
    assert "differs from 'one' (without m6: too few votes):" in " ".join(str(comparison.summary()).split())


def test_equality_needs_more_clusters_than_restrictions(battles, fitted, rank):
    frame = battles.frame.assign(pair=lambda d: "p" + (d["prompt"].str[1:].astype(int) % 3).astype(str))
    results = fitted("bt", **KINDS["cluster"])
    assert results.by("half").test_equal().rank == 3
    clusters = {"cov_type": "cluster", "cov_kwds": {"groups": "pair"}, "n_folds": 2}
    groups = rank(frame, FORMULA, functional="bt", mu=battles.mu, propensity="shown", **clusters).by("half")
    with pytest.raises(HypothesisError):
        groups.test_equal()
    assert "There is no test of equal scores" in " ".join(groups.summary().as_text().split())


def test_several_columns_make_the_combinations_that_occur(battles, rank):
    formula = "winner ~ C(half) * C(topic) | model_a + model_b"
    results = rank(battles.frame, formula, mu=battles.mu, propensity="shown")
    groups = results.by("half", "topic")
    assert len(groups) == 14
    assert groups.variable == "half, topic"
    np.testing.assert_array_equal(groups["rest", "t3"].params, groups.params["rest, t3"])
    share = groups.nobs / groups.nobs.sum()
    np.testing.assert_allclose(groups.params.to_numpy() @ share, results.params, rtol=1e-10)


def test_what_cannot_be_grouped_is_refused_with_the_reason(battles, rank, fitted):
    results = fitted()
    holes = battles.frame.assign(half=battles.frame["half"].where(battles.frame["prompt"] != "q003"))
    gaps = rank(holes, FORMULA, mu=battles.mu, propensity="shown", missing="keep")
    for call, error, words in (
        (lambda: results.by("halt"), ColumnError, "half"),
        (lambda: results.by(), OptionError, None),
        (lambda: results.by("x0"), OptionError, None),
        (lambda: results.by("judge"), DataError, "judge"),
        (lambda: results.by("half")["resst"], UnknownModelError, "rest"),
        (lambda: results.update(estimator="plugin").by("half"), NoIntervalError, "not debiased"),
        (lambda: results.update(estimator="bt_mle", functional="bt").by("half"), OptionError, None),
        (lambda: dr.read_json(results.to_json()).by("half"), DataNotStoredError, None),
        (lambda: gaps.by("half"), MissingDataError, "half"),
    ):
        with pytest.raises(error, match=words):
            call()
    # Each column alone has two values; their combinations are as many as the prompts.
    halves = {f"h{number}": battles.frame["prompt"].str[1:].astype(int) // 2**number % 2 for number in range(8)}
    terms = " + ".join(f"C({name})" for name in halves)
    crossed = rank(battles.frame.assign(**halves), FORMULA.replace("C(half)", terms), mu=battles.mu, propensity="shown")
    with pytest.raises(OptionError, match=r"1.. combinations of the values of 'h0', 'h1'"):
        crossed.by(*halves)


@needs("matplotlib")
def test_groups_without_labels_are_refused_and_thin_ones_warned_of(battles, rank):
    silent = battles.frame.loc[battles.frame["winner"].isna(), "prompt"].unique()
    frame = battles.frame.assign(quiet=battles.frame["prompt"].isin(silent).map({True: "yes", False: "no"}))
    results = rank(frame, "winner ~ C(quiet) | model_a + model_b", mu=battles.mu, propensity="shown")
    with pytest.raises(DataError, match="yes"):
        results.by("quiet")
    lonely = frame.assign(topic=np.where(frame["model_a"].eq("m0") | frame["model_b"].eq("m0"), "with", "without"))
    lonely["prompt"] = lonely["prompt"] + lonely["topic"]
    mu = battles.mu[lonely.groupby("prompt", sort=False)["x0"].first().index.str[1:4].astype(int)]
    results = rank(lonely, "winner ~ C(topic) | model_a + model_b", mu=mu, propensity="shown")
    with pytest.warns(dr.DmlrankWarning, match=r"no votes on 'm0' in 'without'"):
        groups = results.by("topic")
    assert unseen_models(groups.of_groups["without"]) == ["m0"]
    assert "without (m0)" in " ".join(groups.summary().notes)
    assert next(row for row in groups.summary().rows if row[0] == "m0")[3:] == ("-", "-")
    # The frames have no number there, and all others keep theirs.
    tidy, is_unseen = groups.tidy(), np.repeat([False, True], K) & (np.tile(groups.models, 2) == "m0")
    np.testing.assert_array_equal(tidy.iloc[:, 2:].isna().all(axis=1), is_unseen)
    np.testing.assert_array_equal(groups.conf_int()["lower"].isna(), is_unseen)
    np.testing.assert_array_equal(groups.params.T.to_numpy().ravel()[~is_unseen], groups.joint.estimate[~is_unseen])
    equal = groups.equal_by_model()
    np.testing.assert_array_equal(equal["p_holm"].isna(), [name == "m0" for name in groups.models])
    seen = replace(groups, of_groups={name: replace(e, votes=None) for name, e in groups.of_groups.items()})
    np.testing.assert_array_equal(equal["p_holm"].dropna(), seen.equal_by_model()["p_holm"][1:])
    alone = groups["without"]
    row = next(row for row in alone.summary().rows if row[0] == "m0")
    assert set(row[1:]) <= {"-", ""}
    assert alone.tidy().set_index("term").loc["m0", ["estimate", "conf_low"]].isna().all()
    # Its result says the same: no score, no rank, no place in a picture, and no rank of others counts it.
    for numbers in (alone.params, alone.bse, alone.pvalues, alone.conf_int()["lower"]):
        np.testing.assert_array_equal(numbers.isna(), [name == "m0" for name in alone.models])
    ranks = alone.ranks()
    assert sorted(ranks.index) == sorted(set(alone.models) - {"m0"})
    assert ranks["rank"].max() == K - 1 == ranks["upper"].max()
    assert "have no score here: 'm0'" in " ".join(ranks.summary().notes)
    cells = {row[0]: row for row in alone.summary().rows}
    best = ranks.index[0]
    assert f"{ranks.loc[best, 'lower']}-{ranks.loc[best, 'upper']}".removeprefix("1-1") in cells[best]
    for picture in ("forest", "ranks"):
        assert "m0" not in [label.get_text() for label in alone.plot(picture).get_yticklabels()]
    page = groups.report()
    board = page[page.index('aria-label="without"') :]
    assert "Models without a vote in this group have no score here: &#39;m0&#39;." in board
    assert "<bdi>m0</bdi>" not in board[: board.index("</table>")]
    assert not alone.verdict().startswith("m0")
    groups.plot()
    few = frame.assign(topic=np.where(frame["topic"] == "t1", "t1", "other"))
    results = rank(few, "winner ~ C(topic) | model_a + model_b", mu=battles.mu, propensity="shown")
    with pytest.warns(dr.DmlrankWarning, match=r"fewer than 30 labelled prompts or clusters: 't1' \(1[0-9]\)"):
        results.by("topic")


def test_categories_keep_their_order(battles, rank):
    levels = pd.Categorical(battles.frame["half"], categories=["rest", "odd one", "unused"])
    results = rank(battles.frame.assign(half=levels), FORMULA, mu=battles.mu, propensity="shown")
    assert results.by("half").groups == ["rest", "odd one"]
