"""Comparisons of samples: independent ones, overlapping ones, what is refused, and the coverage of changes."""

import html
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

import dmlrank as dr
from dmlrank.exceptions import HypothesisError, OptionError, OptionTypeError

from ..support import COVARIANCES, draw_with_groups, simulated_votes

K = 4
pytestmark = pytest.mark.usefixtures("ignore_warnings")  # Seven clusters are meant here


@pytest.fixture(scope="module")
def battles(draw_battles):
    return draw_with_groups(draw_battles, seed=5, n=140, unlabelled=0)


@pytest.fixture(scope="module")
def part(battles, rank):
    """A fit of the prompts in a range, with their true first stages."""
    numbers = battles.frame["prompt"].str[1:].astype(int)

    def fit(start, stop, functional="borda", **options):
        chosen = battles.frame[(numbers >= start) & (numbers < stop)].reset_index(drop=True)
        known = {"propensity": "shown", "mu": battles.mu[start:stop], "functional": functional}
        return rank(chosen, **(known | options))

    return fit


@pytest.fixture(scope="module")
def months(rank):
    """Votes of two months on different prompts, by the months' names."""
    frames = [simulated_votes(5, 500, seed=seed) for seed in (1, 2)]
    for name, frame in zip("ab", frames, strict=True):
        frame["prompt"] = name + frame["prompt"]
    return dict(zip("ab", frames, strict=True))


@pytest.fixture(scope="module")
def fitted(months, rank):
    return {name: rank(frame, functional="borda", propensity="marginal") for name, frame in months.items()}


@pytest.mark.parametrize("kind", ["robust", "cluster", "two-way"])
def test_overlapping_samples_have_the_covariance_of_their_shared_prompts(battles, part, kind):
    one, other = part(0, 100, **COVARIANCES[kind]), part(40, 140, **COVARIANCES[kind])
    side = dr.compare(a=one, b=other)
    # Influence values of all 140 prompts, zero where a result does not have a prompt.
    a, b = np.zeros((140, K)), np.zeros((140, K))
    a[:100], b[40:] = one.influence, other.influence
    if kind == "robust":
        expected = a.T @ b
    else:
        column = {"cluster": "topic", "two-way": "prompt"}[kind]
        group = battles.frame.groupby("prompt", sort=False)[column].first().to_numpy()
        sums = [pd.DataFrame(phi).groupby(group).sum().to_numpy() for phi in (a, b)]
        expected = sums[0].T @ sums[1]
        count = len(np.unique(group))
    if kind == "two-way":
        cells, judges, prompts = [], [], []
        for start, result in ((0, one), (40, other)):
            cells.append(result.steps.influence.centred_correction)
            names = np.array([*sorted(set(result.steps.data.columns.texts("judge"))), "nobody"])
            judges.append(names[result.steps.units.annotator])
            prompts.append(result.steps.influence.block_context + start)
        keys = [pd.MultiIndex.from_arrays([j, p]) for j, p in zip(judges, prompts, strict=True)]
        by_judge = [pd.DataFrame(c).groupby(j).sum() for c, j in zip(cells, judges, strict=True)]
        by_cell = [pd.DataFrame(c, index=k) for c, k in zip(cells, keys, strict=True)]
        shared = [frame.loc[by_judge[0].index.intersection(by_judge[1].index)].to_numpy() for frame in by_judge]
        expected = expected + shared[0].T @ shared[1]
        both = by_cell[0].index.intersection(by_cell[1].index)
        if not side.joint.covariance.note:
            expected = expected - by_cell[0].loc[both].to_numpy().T @ by_cell[1].loc[both].to_numpy()
        count = min(count, len(np.unique(np.concatenate(judges)[np.concatenate(judges) != "nobody"])))
    if kind != "robust":
        expected = expected * count / (count - 1)
    np.testing.assert_allclose(side.cov_params().loc["a", "b"], expected / (100 * 100), rtol=1e-6, atol=1e-12)
    for name, result in (("a", one), ("b", other)):
        np.testing.assert_array_equal(side.cov_params().loc[name, name], result.cov_params())
    assert "'a' and 'b' 60 in common, of 100, 100" in side.samples
    assert side.samples in side.summary().notes


def test_samples_without_a_common_prompt_are_independent(fitted):
    side = dr.compare(**fitted)
    assert "The samples of prompts are independent: no prompt is in two of them." in side.samples
    joint = side.cov_params()
    assert (joint.loc["a", "b"] == 0).all(axis=None)
    for name, result in fitted.items():
        np.testing.assert_array_equal(joint.loc[name, name], result.cov_params())
    a, b = fitted["a"], fitted["b"]
    changes = side.changes().set_index("model")
    assert changes.index.tolist() == a.params.sort_values(ascending=False).index.tolist()
    np.testing.assert_allclose(changes["estimate"], (b.params - a.params)[changes.index])
    np.testing.assert_allclose(changes["std_error"], np.sqrt(a.bse**2 + b.bse**2)[changes.index])
    covariance = (a.cov_params() + b.cov_params()).loc[changes.index, changes.index].to_numpy()
    draws = np.random.default_rng(0).multivariate_normal(np.zeros(5), covariance, size=200_000, method="eigh")
    largest = np.abs(draws / np.sqrt(np.diag(covariance))).max(axis=1)
    half_width = (changes["conf_high"] - changes["conf_low"]) / 2 / changes["std_error"]
    # Limits of win shares are a little wider.
    np.testing.assert_allclose(half_width, np.quantile(largest, 0.95), atol=0.04)
    p = [(largest >= abs(z)).mean() for z in changes["statistic"]]
    np.testing.assert_allclose(changes["p_adjusted"], p, atol=0.01)
    for model in a.models:
        test = side.t_test(f"b: {model} - a: {model}")
        found = changes.loc[model, ["estimate", "std_error"]].tolist()
        np.testing.assert_allclose(found, [test.effect[0], test.sd.item()])
    contrast = np.eye(5)[:4] - np.eye(5)[4]
    gap = contrast @ changes["estimate"].to_numpy()
    statistic = gap @ np.linalg.solve(contrast @ covariance @ contrast.T, gap)
    unchanged = side.test_unchanged()
    assert float(unchanged.statistic) == pytest.approx(statistic)
    assert float(unchanged.pvalue) == pytest.approx(chi2.sf(statistic, 4))


def test_annotators_of_both_samples_are_not_independent(months, rank):
    rng = np.random.default_rng(3)
    clusters, fits = {"cov_type": "cluster", "cov_kwds": {"groups": ["prompt", "judge"]}}, []
    for month in months.values():
        turned = month.rename(columns={"model_a": "model_b", "model_b": "model_a"})
        twice = pd.concat([month, turned], ignore_index=True).assign(judge=rng.integers(0, 40, 1000).astype(str))
        fits.append(rank(twice, functional="borda", propensity="marginal", **clusters))
    assert fits[0].steps.units.annotator is not None
    for independent in (False, True):
        side = dr.compare(a=fits[0], b=fits[1], independent=independent)
        assert np.abs(side.cov_params().loc["a", "b"].to_numpy()).max() > 0
        assert "clusters (prompt, judge)" in side.samples


def test_stored_results_are_independent_where_the_caller_says_so(fitted):
    stored = {name: dr.read_json(result.to_json()) for name, result in fitted.items()}
    side = dr.compare(**stored)
    with pytest.raises(OptionError, match="independent"):
        side.changes()
    side = dr.compare(**stored, independent=True)
    assert "independent, as the caller of compare says" in side.samples
    pd.testing.assert_frame_equal(side.changes(), dr.compare(**fitted).changes())
    mixed = dr.compare(a=fitted["a"], b=stored["b"], independent=True)
    pd.testing.assert_frame_equal(mixed.changes(), side.changes())


def test_who_says_independent_is_checked(fitted, months, rank):
    a = fitted["a"]
    with pytest.raises(OptionError):
        dr.compare(a=a, b=a.update(edge_weights="counts"), independent=True)
    stored = dr.read_json(a.to_json())
    with pytest.raises(OptionError):
        dr.compare(a=a, b=stored, independent=True)
    assert "independent=True" not in dr.compare(a=a, b=stored).joint_or_reason
    with pytest.raises(OptionTypeError, match="independent"):
        dr.compare(**fitted, independent="yes")
    # Numbers that start anew every month are no identifiers; only the caller can know.
    renamed = months["b"].assign(prompt=months["b"]["prompt"].str.replace("b", "a"))
    other = rank(renamed, functional="borda", propensity="marginal")
    assert "although 500 identifiers of prompts are in two" in dr.compare(a=a, b=other, independent=True).samples
    assert (dr.compare(a=a, b=other, independent=True).cov_params().loc["a", "b"] == 0).all(axis=None)
    assert (dr.compare(a=a, b=other).cov_params().loc["a", "b"] != 0).any(axis=None)
    rows = [rank(frame, functional="borda", propensity="marginal", context=None) for frame in months.values()]
    with pytest.raises(OptionError, match="context"):
        dr.compare(*rows).changes()
    assert len(dr.compare(*rows, independent=True).changes()) == 5


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"functional": "bt"}, "their functionals are 'borda "),
        ({"functional": "bt", "estimator": "bt_mle", "propensity": "estimate"}, "their estimators are"),
        ({"functional": "rank_centrality"}, "their functionals are"),
        ({"category_weights": ([1, 0, 0.25], [0, 1, 0.25])}, "ties and other categories count differently"),
        ({"prompts": "fixed"}, "cov_kwds prompts is 'random' and 'fixed'"),
    ],
)
def test_scores_that_are_other_quantities_have_no_changes(fitted, changes, reason):
    side = dr.compare(a=fitted["a"], b=fitted["b"].update(**changes), independent=True)
    with pytest.raises(OptionError, match=reason):
        side.changes()
    with pytest.raises(OptionError, match=reason):
        side.test_unchanged()
    assert any(reason in note and "There are no tests of changes" in note for note in side.summary().notes)
    # Statements about the order within each result remain.
    assert isinstance(side.reversals(), pd.DataFrame)


def test_models_of_one_sample_only_are_left_out_and_variables_are_names(months, rank):
    (feb_votes, mar_votes), gone = months.values(), "model-3"
    feb_votes = feb_votes[(feb_votes["model_a"] != gone) & (feb_votes["model_b"] != gone)]
    feb, mar = (rank(votes, "winner ~ 1 | model_a + model_b", min_labels=1) for votes in (feb_votes, mar_votes))
    side = dr.compare(feb, mar, independent=True)
    assert side.names == ("feb", "mar")
    assert gone not in side.models
    lost = len(mar_votes) - (~mar_votes[["model_a", "model_b"]].eq(gone).any(axis=1)).sum()
    assert f"This leaves out {lost} of {len(mar_votes)} votes of mar (" in side.basis
    # The model that is not in the table has a row on the page of March.
    news = side.summary().notes[0]
    assert f"Ranked in 'mar', not in 'feb': {gone}." in news
    assert "Ranked in 'feb'" not in news
    few = replace(mar.estimates, diagnostics=replace(mar.diagnostics, models_with_few_prompts=(gone,)))
    table = dr.compare(mar=mar, again=replace(mar, estimates=few)).summary()
    cells = {model: row for model, *row in table.rows}
    assert cells[gone][1] == str(mar.ranks().result_frame.loc[gone, "rank"])
    assert cells[gone][3] == "-"
    assert '"-": too few votes for a rank.' in " ".join(table.notes)
    back = dr.compare(mar, feb, independent=True).summary().notes[0]
    assert f"Ranked in 'mar', not in 'feb': {gone}." in back
    page = pytest.importorskip("jinja2") and side.report()
    first_tab, feb_tab, mar_tab = page.split('<section class="panel"')[1:]
    assert f"Ranked in 'mar', not in 'feb': {gone}" in html.unescape(first_tab.split("<table")[0])
    assert f"<bdi>{gone}</bdi>" in mar_tab
    for tab, name in ((feb_tab, "feb"), (mar_tab, "mar")):
        assert f"This leaderboard has all models and pairs of {name}." in tab.split("<table")[0]
    assert "This leaderboard has all models" not in dr.compare(a=feb, b=feb.update(functional="bt")).report()
    inside = mar_votes[(mar_votes["model_a"] != gone) & (mar_votes["model_b"] != gone)]
    alone = rank(inside, "winner ~ 1 | model_a + model_b", min_labels=1)
    np.testing.assert_allclose(side.params["mar"], alone.params[side.models], atol=1e-9)


def test_a_pair_that_one_result_alone_compares_is_why_scores_are_no_changes(months, rank):
    votes = months["a"]
    is_pair = votes[["model_a", "model_b"]].isin(sorted(set(votes["model_a"]))[:2]).all(axis=1)
    fits = [rank(rows, "winner ~ 1 | model_a + model_b", min_labels=1) for rows in (votes, votes[~is_pair])]
    note = dr.compare(*fits).summary().notes[0]
    assert "their compared pairs differ (1 pair of models in one of them only)" in note


def test_a_model_that_common_pairs_do_not_connect_does_not_prevent_the_tests(months, rank):
    models = sorted(set(months["a"]["model_a"]))
    # The last model meets one opponent in the first month and another one in the second month.
    fits = []
    for month, opponent in zip(months.values(), models, strict=False):
        sides = month[["model_a", "model_b"]].to_numpy()
        is_kept = (sides != models[-1]).all(axis=1) | (sides == opponent).any(axis=1)
        fits.append(rank(month[is_kept], min_labels=1, functional="borda"))
    comparison = dr.compare(january=fits[0], february=fits[1], independent=True)
    assert sorted(comparison.changes()["model"]) == models[:-1]
    assert f"There is no score of '{models[-1]}', which these pairs do not connect" in comparison.basis


def test_pairs_counted_in_both_samples_have_the_harmonic_means_of_their_counts(months, rank):
    formula = "winner ~ 1 | model_a + model_b"
    feb, mar = (rank(votes, formula, min_labels=1, edge_weights="counts") for votes in months.values())
    side = dr.compare(feb, mar, independent=True)
    assert "harmonic means" in side.basis
    counts = [(n + n.T).astype(float) for n in (result.steps.data.pair_counts() for result in (feb, mar))]
    off = ~np.eye(len(counts[0]), dtype=bool)
    weights = np.zeros_like(counts[0])
    weights[off] = 2 / (1 / counts[0][off] + 1 / counts[1][off])
    for name, votes in zip(side.names, months.values(), strict=True):
        alone = rank(votes, formula, min_labels=1, edge_weights=weights)
        np.testing.assert_allclose(side.params[name], alone.params[side.models], atol=1e-9)


def test_other_models_are_compared_under_bradley_terry_alone(months, fitted, rank):
    fewer = months["b"][(months["b"]["model_a"] != "model-0") & (months["b"]["model_b"] != "model-0")]
    other = rank(fewer, functional="borda", propensity="marginal")
    with pytest.raises(OptionError, match="model-0"):
        dr.compare(a=fitted["a"], b=other).changes()
    options = {"estimator": "bt_mle", "functional": "bt", "min_labels": "auto"}
    a, b = rank(months["a"], **options), rank(fewer, **options)
    side = dr.compare(a=a, b=b)
    changes = side.changes().set_index("model")
    common = b.models
    assert sorted(changes.index) == sorted(common)
    centred = b.params[common] - b.params[common].mean() - (a.params[common] - a.params[common].mean())
    np.testing.assert_allclose(changes["estimate"], centred[changes.index], atol=1e-12)
    assert float(side.test_unchanged().df_denom) == len(common) - 1
    assert any("relative to the mean of the models that all results have" in note for note in side.summary().notes)
    others = {f"model-{place}": f"other-{place}" for place in (0, 2, 3, 4)}
    renamed = rank(months["b"].replace(others), **options)
    with pytest.raises(OptionError, match="model-1"):
        dr.compare(a=a, b=renamed).changes()


def test_too_few_clusters_leave_out_the_joint_test(months, rank):
    frames = [frame.assign(user=np.arange(500) % 4) for frame in months.values()]
    kwds = {"cov_type": "cluster", "cov_kwds": {"groups": "user"}, "functional": "borda", "propensity": "marginal"}
    one, other = (
        rank(frame.assign(user=name + frame["user"].astype(str)), **kwds)
        for name, frame in zip("ab", frames, strict=True)
    )
    side = dr.compare(a=one, b=other)
    assert "no prompt is in two of them" in side.samples
    with pytest.raises(HypothesisError):
        side.test_unchanged()
    assert any("There is no joint test of all changes" in note for note in side.summary().notes)


def test_months_whose_identifiers_repeat_are_named_as_the_same_prompts():
    one, other = (dr.datasets.simulate_arena(n=300, rng=seed) for seed in (0, 1))
    one["question_id"] = other["question_id"] = np.arange(300)
    options = {"context": "question_id", "position_bias": False, "pairs": dr.Pairs(min_labels=1), "rng": 0}
    a, b = (dr.dml_rank("winner ~ 1 | model_a + model_b", frame, **options) for frame in (one, other))
    assert "All 300 prompts are taken for the same in these results" in " ".join(str(dr.compare(a=a, b=b)).split())
    assert dr.compare(a, a.update(functional="bt")).samples == ""


def test_months_of_scores_are_two_data_sets_and_change_whatever_other_models_are_there():
    rng, names = np.random.default_rng(0), ["m0", "m1", "m2"]
    table = pd.DataFrame({"prompt": np.repeat(np.arange(99), 3), "model": names * 99})
    frames = [table.assign(score=rng.normal(size=297)) for _ in "ab"]
    fewer = frames[1][frames[1]["model"] != "m2"]
    a, b, c = (dr.dml_rank("score ~ 1 | model", frame, context="prompt", rng=0) for frame in (*frames, fewer))
    assert "All 99 prompts are taken for the same" in dr.compare(a=a, b=b).samples
    gap = frames[1]["score"].to_numpy().reshape(99, 3) - frames[0]["score"].to_numpy().reshape(99, 3)
    for later, places in ((b, [0, 1, 2]), (c, [0, 1])):
        together, apart = (
            dr.compare(a=a, b=later, independent=said).changes().set_index("model").loc[names[: len(places)]]
            for said in (False, True)
        )
        np.testing.assert_allclose(together["estimate"], gap.mean(axis=0)[places])
        np.testing.assert_allclose(together["std_error"], gap.std(axis=0, ddof=1)[places] / np.sqrt(99), rtol=0.01)
        np.testing.assert_allclose(apart["std_error"] ** 2, (a.bse**2 + b.bse**2).loc[names].to_numpy()[places])
