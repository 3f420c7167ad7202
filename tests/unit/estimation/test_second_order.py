"""The second-order bias: against loops over all pairs of labels, against its exact size, and after a fit."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

import dmlrank as dr
from dmlrank.estimation import second_order as module
from dmlrank.estimation.cross_fitting import clip_and_renormalise
from dmlrank.estimation.second_order import ErrorOfMu, dictionaries, strongest_features
from dmlrank.functionals import BradleyTerry, CategoryWeights, Functional, RankCentrality
from dmlrank.options import in_objects

pytestmark = pytest.mark.filterwarnings("ignore::dmlrank.exceptions.DmlrankWarning")

FORMULA = "winner ~ x0 + x1 | model_a + model_b"
SOFT = "p_a + p_b ~ x0 + x1 | model_a + model_b"


def strengths(x, scale):
    """Strengths of three models, (n, 3), that depend on the features."""
    return scale * np.column_stack([0.6 + x[:, 0] - 0.5 * x[:, 1], -0.4 * x[:, 0] * x[:, 1], -1.2 + 0.7 * x[:, 1]])


def distorted(features, labels, weights, rng):
    """A learner that has learnt nothing: fixed strengths, and no noise."""
    return predict


def predict(features):
    fitted = strengths(features[:, :2], 1.0)
    first, second = features[:, -2:].astype(int).T
    rows = np.arange(len(features))
    won = expit(fitted[rows, first] - fitted[rows, second])
    return np.column_stack([won, 1 - won])


def battles(n, seed=0, per_prompt=1, scale=1.0):
    """Votes on pairs of three models, in both orders."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 2))
    rows = []
    for i in range(n):
        pairs = rng.permutation([(0, 1), (0, 2), (1, 2), (1, 0), (2, 0), (2, 1)])[:per_prompt]
        for j, k in pairs:
            gap = strengths(x[i : i + 1], scale)[0]
            won = rng.random() < expit(gap[j] - gap[k] + 0.4 * (j - k) * x[i, 0])
            rows.append((f"q{i:05}", *x[i], f"m{j}", f"m{k}", "model_a" if won else "model_b", f"c{i % 40}"))
    return pd.DataFrame(rows, columns=["prompt", "x0", "x1", "model_a", "model_b", "winner", "cluster"])


def fit(frame, formula=FORMULA, **options):
    given = {"functional": "bt", "context": "prompt", "rng": 0, "n_jobs": 1, "propensity": "marginal", "min_labels": 1}
    return dr.dml_rank(formula, frame, **in_objects(given | {"learner": distorted} | options))


def brute_force(result, unit=None, parts=(([1.0, 0.0], [1.0, -1.0], -1),)):
    """The change of the scores as a sum over all pairs of labels of different units, by differences of the scores.

    A part of the categories has its worths, how the categories change with it, and -1 if exchanging models negates it.
    """
    steps = result.steps
    data, mu, floor, n_items = steps.data, steps.first.inputs.mu, steps.first.inputs.floor, steps.data.n_items
    functional, contexts = steps.setup.functional, np.argsort(data.seed_order)[:400]
    tables = [clip_and_renormalise(model.predict(data.x[contexts]), floor) for model in mu.models]
    cells, fold = data.cells, mu.folds.fold
    off = ~np.eye(n_items, dtype=bool)
    shares = [[np.where(off, table @ np.array(worth), 0.5) for worth, _, _ in parts] for table in tables]
    strongest = strongest_features(data, contexts, [share[0] for share in shares], np.arange(len(contexts)))
    functions, _ = next(dictionaries(data, strongest, len(cells) / len(tables), *[np.arange(len(data.x))] * 2))
    q = functions.shape[1]
    fitted_cells = clip_and_renormalise(mu.at(cells), floor)
    terms = [np.zeros((len(cells), *tables[0].shape)) for _ in tables]
    for place, (worth, direction, sign) in enumerate(parts):
        fitted = fitted_cells @ np.array(worth)
        scale = np.sqrt(np.mean(np.clip(logit(fitted), -3, 3) ** 2))

        def z(context, j, k, s, sign=sign, scale=scale):
            column = np.zeros((n_items, q))
            column[j] += functions[context]
            column[k] += sign * functions[context]
            return np.append(column, np.clip(logit(s), -3, 3) / scale)

        columns = np.array([z(*where) for where in zip(cells.context, cells.first, cells.second, fitted, strict=True)])
        information = columns.T @ ((fitted * (1 - fitted))[:, None] * columns)
        residual = cells.y @ np.array(worth) - fitted
        for f, share in enumerate(shares):
            of_fold = np.mean(fold[cells.context] == f)
            inverse = np.linalg.inv(information * of_fold + np.eye(n_items * q + 1))
            b = (columns @ inverse) * residual[:, None]
            for at, context in enumerate(contexts):
                for j, k in np.argwhere(off):
                    s = share[place][at, j, k]
                    change = s * (1 - s) * (b @ z(context, j, k, s))
                    terms[f][:, at, j, k] += change[:, None] * np.array(direction)
    unit = data.seed_order if unit is None else unit
    total = 0.0
    for f, table in enumerate(tables):
        mine = np.flatnonzero(fold[cells.context] == f)
        of_unit = unit[cells.context[mine]]
        # As many pairs of different labels as there are pairs in all.
        share = 1 - np.square(np.unique(of_unit, return_counts=True)[1] / len(mine)).sum()
        for i, c in zip(mine, of_unit, strict=True):
            others = terms[f][mine[of_unit != c]].sum(axis=0)
            h = 1e-3 / max(np.abs(terms[f][i]).max(), np.abs(others).max())
            signs = itertools.product((1, -1), repeat=2)
            corners = [a * d * functional.value(table + h * (a * terms[f][i] + d * others)) for a, d in signs]
            total = total + (fold == f).mean() / share * (np.sum(corners, axis=0) / (4 * h**2)).mean(axis=0) / 2
    return total


@pytest.mark.parametrize("position_bias", [True, False])
def test_the_change_is_the_sum_over_all_pairs_of_labels(monkeypatch, position_bias):
    monkeypatch.setattr(module, "_COLUMNS_PER_LABEL", 100)
    result = fit(battles(12, per_prompt=2), n_folds=2, position_bias=position_bias)
    expected = brute_force(result)
    size = np.abs(expected).max()
    change = result.params - result.update(second_order=False).params
    np.testing.assert_allclose(change, expected, atol=1e-4 * size)
    assert size > 1e-4


def satisfied(mu):
    """An own curved score, of wins and of ties, (n, K)."""
    ties = mu[..., 2] if mu.shape[-1] > 2 else 0.0
    return ((mu[..., 0] + 0.8 * ties) ** 3 + 0.5 * np.swapaxes(mu[..., 1] + ties, 1, 2) ** 2).sum(axis=2)


@pytest.mark.parametrize("position_bias", [True, False])
@pytest.mark.parametrize("functional", ["rank_centrality", satisfied])
def test_of_any_functional_it_is_the_sum_over_pairs_of_labels_of_ten_groups(monkeypatch, functional, position_bias):
    monkeypatch.setattr(module, "_COLUMNS_PER_LABEL", 100)
    monkeypatch.setattr(module, "_LARGEST_NOISE", np.inf)
    monkeypatch.setattr(module, "_FEWEST_CONTEXTS", 1)
    parts = [([1.0, 0.0], [1.0, -1.0], -1)]
    options, frame = {}, battles(15, per_prompt=2)
    if functional is satisfied:
        parts = [([1.0, 0.0, 0.5], [1.0, -1.0, 0.0], -1), ([0.0, 0.0, 1.0], [-0.5, -0.5, 1.0], 1)]
        frame["winner"] = frame["winner"].where(np.arange(len(frame)) % 3 > 0, "tie")
        options = {"learner": lambda *given: lambda x: predict(x) @ [[0.8, 0.0, 0.2], [0.1, 0.6, 0.3]]}
    result = fit(frame, n_folds=2, functional=functional, position_bias=position_bias, **options)
    expected = brute_force(result, result.steps.data.seed_order % 10, parts)
    change = result.params - result.update(second_order=False).params
    np.testing.assert_allclose(change, expected, atol=1e-3 * np.abs(expected).max())
    assert np.abs(expected).max() > 1e-4


@pytest.mark.parametrize("size", [lambda i: i // 2, lambda i: np.maximum(i - 6, 0) // 2])
def test_pairs_of_labels_of_one_cluster_do_not_count(monkeypatch, size):
    monkeypatch.setattr(module, "_COLUMNS_PER_LABEL", 100)
    frame = battles(14).assign(cluster=size(np.arange(14)))
    result = fit(frame, n_folds=2, cov_type="cluster", cov_kwds={"groups": "cluster"})
    expected = brute_force(result, result.steps.units.clusters.of_context)
    change = result.params - result.update(second_order=False).params
    np.testing.assert_allclose(change, expected, atol=1e-4 * np.abs(expected).max())


def expected_battles(n, size):
    """Every pair of every prompt with its expected label, where the error of mu is of a size and in the dictionary."""
    x = np.random.default_rng(3).uniform(-1, 1, (n, 2))
    fitted = strengths(x, 1.0)
    error = np.reshape(size, (-1, 1)) * np.column_stack([1 + x[:, 0], x[:, 0] * x[:, 1], x[:, 1] ** 3 - x[:, 1] ** 2])
    rows = []
    for j, k in ((0, 1), (0, 2), (1, 2)):
        s = expit(fitted[:, j] - fitted[:, k])
        truth = s + s * (1 - s) * (error[:, j] - error[:, k])
        rows.append(pd.DataFrame({"p_a": truth, "p_b": 1 - truth, "model_a": f"m{j}", "model_b": f"m{k}"}))
    features = pd.DataFrame({"prompt": np.arange(n), "x0": x[:, 0], "x1": x[:, 1]})
    frame = pd.concat([pd.concat([features, part], axis=1) for part in rows], ignore_index=True)
    odds = np.zeros((n, 3, 3))
    for (j, k), part in zip(((0, 1), (0, 2), (1, 2)), rows, strict=True):
        odds[:, j, k], odds[:, k, j] = logit(part["p_a"]), -logit(part["p_a"])
    return frame, odds.sum(axis=2) / 3


def test_its_expectation_is_the_exact_bias_up_to_third_order():
    """With expected labels on every pair, the estimate is its expectation, and the truth is a mean over the prompts."""
    left, remaining = [], []
    for size in (0.05, 0.1):
        frame, of_prompts = expected_battles(3000, size)
        truth = of_prompts.mean(axis=0)
        result = fit(frame, SOFT, position_bias=False, floor=0.0)
        left.append(np.abs(result.update(second_order=False).params - truth).max())
        remaining.append(np.abs(result.params - truth).max())
    assert remaining[0] < 0.15 * left[0]
    # Errors of second order grow by four, those of third order by eight.
    assert left[1] / left[0] == pytest.approx(4, rel=0.15)
    assert remaining[1] / remaining[0] > 6


def test_folds_count_by_their_weight_and_labels_by_what_they_show():
    frame, _ = expected_battles(3000, 0.1)
    first = fit(frame, SOFT, position_bias=False, floor=0.0, n_folds=2)
    # Labels without noise that agree with mu have no part in the change, and all labels together are the change.
    second_order = first.steps.first.second_order
    of_labels = np.abs(frame["p_a"] - predict_frame(frame)).groupby(frame["prompt"]).max()
    agree = np.argsort(of_labels.to_numpy())[:150]
    assert (np.abs(second_order.correction[agree].mean(axis=0)) < 0.2 * np.abs(second_order.change)).all()
    # Of more features than the dictionary holds, those are taken that mu depends on.
    noise = np.random.default_rng(1).normal(size=(3000, 5))[frame["prompt"]]
    crowded = frame.assign(**{f"z{j}": noise[:, j] for j in range(5)})
    formula = SOFT.replace("x1", "x1 + z0 + z1 + z2 + z3 + z4")
    change = fit(crowded, formula, position_bias=False, floor=0.0, n_folds=2).steps.first.second_order.change
    np.testing.assert_allclose(change, second_order.change, atol=0.1 * np.abs(change).max())
    # Heavy prompts are in one fold, in which mu is wrong by less.
    is_heavy = first.steps.first.inputs.mu.folds.fold == 0
    frame, of_prompts = expected_battles(3000, np.where(is_heavy, 0.05, 0.15))
    frame["w"] = np.where(is_heavy, 4.0, 1.0)[frame["prompt"]]
    result = fit(frame, SOFT, position_bias=False, floor=0.0, n_folds=2, weights="w")
    truth = np.average(of_prompts, axis=0, weights=np.where(is_heavy, 4.0, 1.0))
    left = result.update(second_order=False).params - truth
    assert np.abs(result.params - truth).max() < 0.3 * np.abs(left).max()


def predict_frame(frame):
    """What the learner says of the rows of a frame."""
    pairs = frame[["model_a", "model_b"]].map(lambda name: int(name[1:]))
    return predict(np.column_stack([frame[["x0", "x1"]], pairs]))[:, 0]


@pytest.mark.parametrize("functional", ["bt", "rank_centrality"])
def test_heavy_users_do_not_make_it_smaller(functional):
    """Without noise in labels every pair of them shows the same bias, whoever gave them."""
    frame, _ = expected_battles(1500, 0.2)
    user = np.random.default_rng(0).permutation(1500)
    frame["user"] = np.where(user < 900, user // 300, user)[frame["prompt"]]

    def bias(**options):
        result = fit(frame, SOFT, functional=functional, position_bias=False, floor=0.01, **options)
        return np.array([z for _, z, _ in result.diagnostics.second_order_by_model]) * result.bse

    independent, by_user = bias(), bias(cov_type="cluster", cov_kwds={"groups": "user"})
    assert np.abs(by_user - independent).max() < 0.15 * np.abs(independent).max()
    # Two kinds of clusters that are one kind: what both share is taken off once.
    frame["twin"] = frame["user"]
    by_both = bias(cov_type="cluster", cov_kwds={"groups": ["user", "twin"]})
    np.testing.assert_allclose(by_both, by_user, rtol=1e-6)


def change_of(result):
    return result.params - result.update(second_order=False).params


def test_labels_count_by_the_weight_of_their_prompt_and_the_share_of_their_voter():
    frame = battles(700)
    weight = frame["prompt"].str[1:].astype(int) % 4
    flipped = frame["winner"].map({"model_a": "model_b", "model_b": "model_a"})
    other = frame.assign(winner=frame["winner"].where(weight > 0, flipped))
    changes = [change_of(fit(votes.assign(w=weight), weights="w")) for votes in (frame, other)]
    np.testing.assert_allclose(*changes, atol=1e-12)
    # Voters of one vote each are no further dependence.
    twice = pd.concat([frame, frame.assign(winner=flipped.where(weight == 1, frame["winner"]))], ignore_index=True)
    twice["voter"] = [f"v{place}" for place in range(len(twice))]
    by_voter = fit(twice, cov_type="cluster", cov_kwds={"groups": ["prompt", "voter"]})
    np.testing.assert_allclose(change_of(by_voter), change_of(fit(twice)), rtol=1e-8)


def test_labels_that_are_nearly_all_of_one_unit_show_nothing():
    user = np.where(np.arange(3000) < 1850, 0, np.arange(3000))
    frame = battles(3000).assign(user=user)
    result = fit(frame, n_folds=20, cov_type="cluster", cov_kwds={"groups": "user"})
    correction, in_fold = result.steps.first.second_order.correction, result.steps.first.inputs.mu.folds.fold
    spread = [np.ptp(correction[in_fold == fold], axis=0).max() for fold in range(20)]
    # What is spread over all labels alike is theirs, too.
    assert [fold for fold in range(20) if spread[fold] < 1e-12] == [in_fold[0]]


def test_influence_is_the_derivative_in_the_weight_of_a_label(monkeypatch):
    fold_errors = []
    of = ErrorOfMu.of.__func__

    def noted(cls, labels, information, n_items):
        error = of(cls, labels, information, n_items)
        fold_errors.append((labels, error))
        return error

    monkeypatch.setattr(ErrorOfMu, "of", classmethod(noted))
    monkeypatch.setattr(module, "_COLUMNS_PER_LABEL", 100)
    result = fit(battles(60), n_folds=2)
    directions = 2 * result.steps.setup.functional.label_directions(3)
    labels, error = fold_errors[0]
    rng = np.random.default_rng(0)
    share = expit(rng.normal(size=(20, 3, 3)))
    share[:, range(3), range(3)] = 0.5
    arguments = labels, [(1.0, labels.block)], share, labels.functions[:20], np.full(20, 1 / 20), directions
    gradient = error.curvature(*arguments)[1]
    n_labels = len(labels.first)
    terms = error.terms(labels, np.arange(n_labels), 3)
    for term in terms[:5]:
        changed = [replace(error, coefficients=error.coefficients + h * term) for h in (1e-3, -1e-3)]
        above, below = (one.curvature(*arguments)[0] for one in changed)
        np.testing.assert_allclose((above - below) / 2e-3, term @ gradient, atol=1e-10)
    np.testing.assert_allclose(terms.sum(axis=0), error.coefficients, atol=1e-12)


def test_influence_values_have_the_change_as_their_mean():
    result = fit(battles(600))
    without = result.update(second_order=False)
    second_order = result.steps.first.second_order
    np.testing.assert_allclose(result.params - without.params, second_order.change, atol=1e-13)
    np.testing.assert_allclose(second_order.correction.mean(axis=0), second_order.change, atol=1e-13)
    difference = result.influence - without.influence
    np.testing.assert_allclose(difference, second_order.correction - second_order.change, atol=1e-11)
    covariance = result.influence.T @ result.influence / 600**2
    assert np.linalg.eigvalsh(result.cov_params() - covariance).min() > -1e-12


@pytest.mark.parametrize("functional", ["bt", "rank_centrality"])
@pytest.mark.parametrize("position_bias", [True, False])
def test_flips_names_and_the_order_of_rows_change_nothing(position_bias, functional):
    frame, options = battles(400), {"position_bias": position_bias, "functional": functional}
    result = fit(frame, **options)
    names = {"m0": "z", "m1": "a", "m2": "k"}
    renamed = frame.replace({"model_a": names, "model_b": names}).sample(frac=1, random_state=1)

    def in_old_codes(features, labels, weights, rng):
        codes = np.array([1, 2, 0])
        return lambda rows: predict(np.column_stack([rows[:, :2], codes[rows[:, 2:].astype(int)]]))

    other = fit(renamed, learner=in_old_codes, **options)
    np.testing.assert_allclose(other.params[list(names.values())], result.params[list(names)], atol=1e-10)
    np.testing.assert_allclose(other.bse[list(names.values())], result.bse[list(names)], atol=1e-10)
    if not position_bias:
        winner = frame["winner"].map({"model_a": "model_b", "model_b": "model_a"})
        flipped = frame.rename(columns={"model_a": "model_b", "model_b": "model_a"}).assign(winner=winner)
        np.testing.assert_allclose(fit(flipped, **options).params, result.params, atol=1e-10)


@pytest.mark.parametrize(
    "options",
    [
        {"second_order": False},
        {"functional": "borda"},
        {"estimator": "plugin"},
        {"average": "preferences"},
        {"formula": "winner ~ 1 | model_a + model_b", "learner": "auto"},
        {"category_weights": CategoryWeights((1.0, 0.0), (0.0, 0.9)), "position_bias": True},
    ],
)
def test_it_is_left_in_where_it_is_not_defined(options):
    result = fit(battles(300), **options)
    assert result.diagnostics.second_order_treatment == "left in"
    if options.get("estimator") != "plugin" and "second_order" not in options:
        without = result.update(second_order=False)
        np.testing.assert_array_equal(result.params, without.params)
        np.testing.assert_array_equal(result.cov_params(), without.cov_params())


def test_a_fold_with_few_labels_has_a_smaller_dictionary_or_none():
    assert fit(battles(700)).diagnostics.second_order_treatment == "removed"
    assert fit(battles(300)).diagnostics.second_order_treatment == "partly removed"
    few = fit(battles(60)).diagnostics
    assert few.second_order_treatment == "left in"
    assert np.isnan(few.second_order)


def test_more_noise_than_the_scores_bear_leaves_columns_out(monkeypatch):
    curved = fit(battles(700), functional="rank_centrality")
    assert curved.diagnostics.second_order_treatment == "removed"
    # The limit is for the root mean square over scores, in standard errors.
    noise = np.sqrt(np.mean([error**2 for *_, error in curved.diagnostics.second_order_by_model]))
    for factor, treatment in ((1.2, "removed"), (0.8, "partly removed")):
        monkeypatch.setattr(module, "_LARGEST_NOISE", factor * noise)
        found = fit(battles(700), functional="rank_centrality").diagnostics.second_order_treatment
        assert found == treatment
    monkeypatch.setattr(module, "_LARGEST_NOISE", 0.0)
    fewest = fit(battles(700), functional="rank_centrality")
    assert fewest.diagnostics.second_order_treatment == "partly removed"
    errors = [np.mean([error for *_, error in one.diagnostics.second_order_by_model]) for one in (fewest, curved)]
    assert errors[0] < errors[1]


def test_an_own_function_that_is_linear_keeps_its_numbers():
    result = fit(battles(300), functional=lambda mu: mu[..., 0].sum(axis=2))
    assert result.diagnostics.second_order_by_model == ()
    np.testing.assert_array_equal(result.params, result.update(second_order=False).params)


def test_figures_by_model_are_in_standard_errors():
    result = fit(battles(600))
    d = result.diagnostics
    change = result.steps.first.second_order.change
    expected = -change / result.bse.to_numpy()
    assert [name for name, *_ in d.second_order_by_model] == result.models
    np.testing.assert_allclose([bias for _, bias, _ in d.second_order_by_model], expected)
    assert d.second_order == pytest.approx(np.abs(expected).max())
    assert d.largest_second_order[0] == result.models[int(np.abs(expected).argmax())]
    correction = result.steps.first.second_order.correction
    spread = (correction - change).std(axis=0) / np.sqrt(600) / result.bse.to_numpy()
    np.testing.assert_allclose([error for *_, error in d.second_order_by_model], spread, rtol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"cov_type": "cluster", "cov_kwds": {"groups": "cluster"}},
        {"cov_type": "cluster", "cov_kwds": {"groups": ["prompt", "annotator"]}},
        {"weights": "weight"},
        {"n_rep": 2},
        {"prompts": "fixed"},
    ],
)
def test_what_follows_a_fit_takes_its_influence_values(options):
    rng = np.random.default_rng(5)
    frame = battles(500, per_prompt=2)
    of_prompt = frame["prompt"].str[1:].astype(int)
    frame["weight"], frame["group"] = 1.0 + of_prompt % 3, np.where(of_prompt % 2 == 0, "even", "odd")
    frame["annotator"] = rng.integers(40, size=len(frame))
    result = fit(frame, "winner ~ x0 + x1 + C(group) | model_a + model_b", **options)
    without = result.update(second_order=False)
    changes = [repetition.second_order.change for repetition in result.steps.repetitions]
    np.testing.assert_allclose(result.params - without.params, np.mean(changes, axis=0), atol=1e-12)
    whole = result.by("~ 1")
    np.testing.assert_allclose(whole.params.to_numpy().ravel(), result.params, atol=1e-10)
    groups = result.by("group")
    of_prompts = frame.drop_duplicates("prompt")
    weight = of_prompts["weight"] if "weights" in options else pd.Series(1.0, of_prompts.index)
    share = weight.groupby(of_prompts["group"]).sum() / weight.sum()
    table = groups.params.unstack() if groups.params.index.nlevels > 1 else groups.params
    table = table[result.models] if set(result.models) <= set(table.columns) else table.T[result.models]
    np.testing.assert_allclose(share[table.index].to_numpy() @ table.to_numpy(), result.params, atol=1e-10)
    compared = dr.compare(result, without)
    np.testing.assert_allclose(compared.params.diff(axis=1).iloc[:, 1], without.params - result.params, atol=1e-12)


class OwnBradleyTerry(Functional):
    """Bradley-Terry scores as a user writes them, of which the package knows values alone."""

    def value(self, mu):
        return BradleyTerry(self.weights, self.graph).value(mu)


def test_groups_and_differences_give_what_prompts_and_the_closed_form_give(monkeypatch):
    """Groups leave out more pairs of labels than prompts do; the difference is small beside the standard error."""
    monkeypatch.setattr(module, "_LARGEST_NOISE", np.inf)
    result = fit(battles(1500))
    own = result.update(functional=OwnBradleyTerry())
    changes = [one.steps.first.change for one in (result, own)]
    errors = [np.sqrt(one.second_moment().diagonal()) / 1500 for one in changes]
    assert (np.abs(changes[1].estimate - changes[0].estimate) < errors[0]).all()
    np.testing.assert_allclose(errors[1], errors[0], rtol=0.3)


def test_the_second_derivative_is_that_of_the_derivative(draw_mu):
    rng = np.random.default_rng(11)
    mu = draw_mu(rng, 4, 3, 3, floor=0.1)
    delta, other = (draw_mu(rng, 4, 3, 3) - draw_mu(rng, 4, 3, 3) for _ in range(2))
    for kind in (BradleyTerry, RankCentrality):
        uneven = CategoryWeights((1.0, 0.0, 0.3), (0.0, 1.0, 0.5))
        functional, h = kind(uneven if kind is BradleyTerry else CategoryWeights.half(3)), 1e-5
        above, below = (functional.derivative(mu + step * other, delta) for step in (h, -h))
        expected = (above - below) / (2 * h)
        made = functional.second_derivative(mu, delta, other)
        np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(made, functional.second_derivative(mu, other, delta), rtol=1e-4, atol=1e-5)


def test_a_repetition_keeps_the_estimate_before_the_change_whether_the_change_is_added_or_not():
    result = fit(battles(600), n_rep=2)
    left_in = result.update(second_order=False)
    for added, alone in zip(result.steps.repetitions, left_in.steps.repetitions, strict=True):
        assert alone.one_step_result is alone.before_change is added.before_change
        np.testing.assert_array_equal(added.change.correction, alone.change.correction)
        step = added.target.estimate - added.before_change.target.estimate
        np.testing.assert_allclose(step, added.change.estimate, atol=1e-12)
        assert np.abs(step).max() > 1e-4


@pytest.mark.parametrize("n_rep", [1, 2])
def test_the_variance_is_at_least_that_of_the_scores_with_their_bias_plus_that_of_the_change(n_rep):
    """Influence values alone make some variances too small: they multiply a label's residual with its own square."""
    result = fit(battles(600), n_rep=n_rep)
    left_in = result.update(second_order=False)
    removed, kept = (one.influence.T @ one.influence / 600**2 for one in (result, left_in))
    assert np.linalg.eigvalsh(removed - kept).min() < -1e-5
    change = np.mean([one.second_order.correction for one in result.steps.repetitions], axis=0)
    change -= change.mean(axis=0)
    least = left_in.cov_params() + change.T @ change / 600**2
    assert np.linalg.eigvalsh(result.cov_params() - least).min() > -1e-12


@pytest.mark.parametrize("prompts", ["random", "fixed"])
def test_variances_in_groups_and_of_projections_have_the_same_bound(prompts):
    frame = battles(600)
    frame = frame.assign(group=np.where(frame["x0"] > 0, "high", "low"))
    result = fit(frame, "winner ~ x0 + x1 + C(group) | model_a + model_b", prompts=prompts)
    left_in, steps = result.update(second_order=False), result.steps
    whole = result.by("~ 1")
    np.testing.assert_allclose(whole.bse.to_numpy().ravel(), result.bse, rtol=1e-10)
    bound = {}
    for name in ("high", "low"):
        inside = (frame["group"] == name).to_numpy()
        change = steps.first.second_order.correction[inside]
        bound[name] = (change - change.mean(axis=0)).T @ (change - change.mean(axis=0)) / inside.sum() ** 2
    groups, kept = result.by("group"), left_in.by("group")
    for name, of_change in bound.items():
        least = kept[name].cov_params() + of_change
        assert np.linalg.eigvalsh(groups[name].cov_params() - least).min() > -1e-10
    projected = result.by("~ 0 + C(group)")
    np.testing.assert_allclose(projected.bse.to_numpy(), groups.bse.T.to_numpy(), rtol=1e-8)


def of_three(n, size, seed=0):
    """Soft votes whose log-odds are, to first order, the product of three of five features; and their mean square."""
    rng = np.random.default_rng(seed)
    x, (j, k) = rng.uniform(-1, 1, (n, 5)), rng.permuted(np.tile(np.arange(3), (n, 1)), axis=1)[:, :2].T
    error = np.clip(size * x[:, [0, 2, 4]].prod(axis=1) * (k - j), -2, 2)
    frame = pd.DataFrame(x, columns=[f"x{f}" for f in range(5)])
    frame["prompt"], frame["model_a"], frame["model_b"] = np.arange(n), [f"m{i}" for i in j], [f"m{i}" for i in k]
    return frame.assign(p_a=0.5 + error / 4, p_b=0.5 - error / 4), np.square(error).mean()


def even(features, labels, weights, rng):
    """A learner that has learnt nothing."""
    return lambda features: np.full((len(features), 2), 0.5)


def products_missed(frame, features="x0 + x1 + x2 + x3 + x4", **options):
    """What the warning of products says: their names and the error of the log-odds; None without a warning."""
    formula = f"{'p_a + p_b' if 'p_a' in frame else 'winner'} ~ {features} | model_a + model_b"
    said = fit(frame, formula, learner=even, position_bias=False, **options).diagnostics.warnings
    found = [re.search(r"wrong by (\S+) in .* product, (\S+), to", text) for text in said]
    return next(((one[2], float(one[1])) for one in found if one), None)


@pytest.mark.parametrize("functional", ["bt", "rank_centrality"])
def test_how_three_features_act_together_is_found_where_mu_misses_it(functional):
    frame, mean_square = of_three(1500, 1.9)
    product, error = products_missed(frame, functional=functional)
    assert product == "x0:x2:x4"
    assert error == pytest.approx(np.sqrt(mean_square), rel=0.1)
    # Other orders of rows and of features, and other units, are the same question.
    other = frame.sample(frac=1, random_state=1).assign(x2=3 - 100 * frame["x2"])
    again = products_missed(other, "x4 + x3 + x2 + x1 + x0", functional=functional)
    assert again == ("x4:x2:x0", pytest.approx(error, rel=0.05))
    assert products_missed(of_three(1500, 0.6)[0], functional=functional) is None


def test_noise_of_labels_is_not_taken_for_a_product():
    for seed in range(4):
        frame, _ = of_three(300, 0.0, seed)
        winner = np.random.default_rng(seed).choice(["model_a", "model_b"], 300)
        frame = frame.drop(columns=["p_a", "p_b"]).assign(winner=winner)
        assert products_missed(frame) is None
    # One vote under ten names is one vote, if the names are known to be of one user.
    copies = pd.concat([frame] * 10).assign(prompt=np.arange(3000), user=np.tile(np.arange(300), 10))
    assert products_missed(copies) is not None
    assert products_missed(copies, cov_type="cluster", cov_kwds={"groups": "user"}) is None
