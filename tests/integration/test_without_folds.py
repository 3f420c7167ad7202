"""Fits without features: one pilot of mu from all labels, one step, no folds and no seed."""

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.estimation.cross_fitting import mu_by_fold
from dmlrank.nuisance.outcome_model.cross_fit import _PRIOR_STRENGTHS, main_effects, shrunken_frequencies
from dmlrank.options import in_objects

from ..support import two_of, votes_of

pytestmark = pytest.mark.filterwarnings("ignore::dmlrank.exceptions.IntervalWarning")

PLAIN = "winner ~ 1 | model_a + model_b"
OPTIONS = {"context": "q", "min_labels": 1, "position_bias": False, "graph": "observed"}


def sparse_crowd(n_prompts=13, n_models=12, seed=0, big=True):
    """A crowd in which most pairs have few prompts, and one prompt has many votes."""
    rng = np.random.default_rng(seed)
    q = np.repeat(np.arange(n_prompts), 90)
    if big:
        q[:400] = 8
    j, k = two_of(rng, n_models, len(q))
    won = rng.uniform(size=len(q)) < 1 / (1 + np.exp((j - k) / 6))
    return votes_of([f"m{place:02d}" for place in range(n_models)], j, k, won, q=q, w=1.0 + q % 3)


def rank(frame, **options):
    return dr.dml_rank(PLAIN, frame, **in_objects(OPTIONS | {"rng": 0} | options))


def pair_means(frame, weight=None):
    """The weighted mean over prompts, and over display orders in a prompt, of the mean label of a pair; names."""
    names = sorted({*frame["model_a"], *frame["model_b"]})
    place = {name: number for number, name in enumerate(names)}
    labels: dict[tuple[int, int], dict[tuple[object, bool], list[float]]] = {}
    for a, b, winner, q in frame[["model_a", "model_b", "winner", "q"]].itertuples(index=False):
        j, k, y = place[a], place[b], float(winner == "model_a")
        pair, label = ((j, k), y) if j < k else ((k, j), 1 - y)
        labels.setdefault(pair, {}).setdefault((q, j < k), []).append(label)
    of_prompt = dict.fromkeys(frame["q"], 1.0) if weight is None else dict(zip(frame["q"], frame[weight], strict=True))
    means = np.full((len(names), len(names)), np.nan)
    for (j, k), by_prompt in labels.items():
        y, w = [np.mean(votes) for votes in by_prompt.values()], [of_prompt[q] for q, _ in by_prompt]
        means[j, k] = np.average(y, weights=w)
        means[k, j] = 1 - means[j, k]
    return means, names


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("big", [True, False])
def test_borda_is_the_plain_share_over_prompts(weight, big):
    frame = sparse_crowd(big=big)
    means, names = pair_means(frame, weight)
    result = rank(frame, weights=weight)
    np.testing.assert_allclose(result.params[names], np.nanmean(means, axis=1), atol=1e-12)


@pytest.mark.parametrize("functional", ["borda", "bt", "rank_centrality"])
def test_the_seed_and_the_number_of_folds_change_nothing(functional):
    frame = sparse_crowd()
    one, two = (rank(frame, functional=functional, rng=seed, n_folds=k) for seed, k in ((1, 5), (2, 3)))
    assert np.array_equal(one.params, two.params)
    assert np.array_equal(one.cov_params(), two.cov_params())
    assert np.array_equal(one.influence, two.influence)
    assert repr(one.diagnostics) == repr(two.diagnostics)


@pytest.mark.parametrize("weight", [None, "w"])
def test_bt_is_one_step_from_the_pilot(weight):
    frame = sparse_crowd(seed=3)
    means, names = pair_means(frame, weight)
    result = rank(frame, functional="bt", weights=weight, floor=1e-6)
    place = {name: number for number, name in enumerate(names)}
    counts = np.zeros((len(names), len(names), 2))
    for a, b, winner in frame[["model_a", "model_b", "winner"]].itertuples(index=False):
        counts[place[a], place[b], int(winner != "model_a")] += 1
        counts[place[b], place[a], int(winner == "model_a")] += 1
    pilot = shrunken_frequencies(counts).table[..., 0]
    pilot = (pilot + 1 - pilot.T) / 2
    edge = ~np.isnan(means)
    p, step = pilot[edge], means[edge] - pilot[edge]
    linked = np.zeros_like(pilot)
    linked[edge] = np.log(p / (1 - p)) + step / (p * (1 - p))
    # Least squares of the log-odds on differences of scores, with the same weight for all compared pairs.
    laplacian = np.diag(edge.sum(axis=1)) - edge
    np.testing.assert_allclose(result.params[names], np.linalg.pinv(laplacian) @ linked.sum(axis=1), atol=1e-9)


def test_a_label_is_held_out_by_taking_its_votes_away():
    frame = sparse_crowd(seed=1)
    result = rank(frame)
    data, one_step = result.steps.data, result.steps.first.one_step_result
    cells, n = data.cells, data.n_items
    counts = np.zeros((n, n, 2))
    np.add.at(counts, (cells.first, cells.second), cells.y * cells.n_votes[:, None])
    counts += np.swapaxes(counts, 0, 1)[..., ::-1]
    pilot = shrunken_frequencies(counts)
    prior = main_effects(counts)
    prior = (prior + np.swapaxes(prior, 0, 1)[..., ::-1]) / 2
    strength = pilot.votes - counts.sum(axis=-1)
    assert np.isclose(_PRIOR_STRENGTHS, strength[0, 1]).any()
    for i in range(0, len(cells), 7):
        j, k = cells.first[i], cells.second[i]
        # The votes of a prompt on a pair may be two cells, one for each display order.
        same = (cells.context == cells.context[i]) & (cells.first == j) & (cells.second == k)
        own = cells.y[same].T @ cells.n_votes[same]
        left = counts[j, k] - own + strength[j, k] * prior[j, k]
        left /= left.sum()
        np.testing.assert_allclose(one_step.held_out[i], left, atol=1e-9)
    loss = -(cells.n_votes[:, None] * cells.y * np.log(one_step.held_out)).sum() / cells.n_votes.sum()
    assert result.diagnostics.log_loss == pytest.approx(loss)


def test_votes_of_a_cluster_are_held_out_together():
    frame = sparse_crowd(seed=1, n_prompts=40, big=False).assign(topic=lambda d: d["q"] // 4)
    result = rank(frame, cov_type="cluster", cov_kwds={"groups": "topic"})
    constant, cells = mu_by_fold(result.steps.first.inputs.mu), result.steps.data.cells
    topic, votes, pilot = cells.context // 4, cells.y * cells.n_votes[:, None], constant.models[0]
    for i in range(0, len(cells), 11):
        same = (topic == topic[i]) & (cells.first == cells.first[i]) & (cells.second == cells.second[i])
        j, k = cells.first[i], cells.second[i]
        left = pilot.votes[j, k] * pilot.table[j, k] - votes[same].sum(axis=0)
        np.testing.assert_allclose(constant.held_out(cells)[i], left / left.sum(), atol=1e-9)


def test_repetitions_are_not_repeated():
    battles = dr.datasets.simulate_arena(n=800, rng=0)
    with pytest.warns(UserWarning, match="n_rep=3"):
        result = dr.dml_rank(PLAIN, battles, rng=0, learning=dr.Learning(n_rep=3))
    assert result.estimates.description.n_rep == 1
    assert np.array_equal(result.params, dr.dml_rank(PLAIN, battles, rng=1).params)


def test_no_rank_where_a_standard_error_rests_on_fewer_than_three_prompts(tmp_path):
    result = rank(sparse_crowd(), functional="borda")
    few = result.diagnostics.models_with_few_prompts
    assert few
    ranks = result.ranks()
    assert ranks["rank"].isna().equals(pd.Series(ranks.index.isin(few), index=ranks.index, name="rank"))
    assert (ranks["lower"] <= ranks["upper"]).all()
    assert few[0] in str(ranks.summary().notes)
    ranks.plot()
    again = dr.read_json(result.to_json())
    assert again.diagnostics.models_with_few_prompts == few
    result.report(tmp_path / "page.html")
