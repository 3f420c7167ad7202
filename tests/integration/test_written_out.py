"""The whole fit with known nuisances against the estimator written out with loops and an explicit Jacobian."""

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.stats import norm

from dmlrank.functionals import CategoryWeights, RankCentrality

N_ITEMS = 4
LABELS = {
    2: ["model_a", "model_b"],
    3: ["model_a", "model_b", "tie"],
    4: ["model_a", "model_b", "both_good", "both_bad"],
    5: ["model_a", "model_b", "both_good", "both_bad", "tie"],
}
SCHEMES = [("half", 2), ("half", 5), ("paper", 4)]
EDGES = {
    "complete": ~np.eye(4, dtype=bool),
    "path with a chord": np.array([[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0]], dtype=bool),
}
STEP = 1e-30


def symmetric(mu, weights, j, k):
    return (np.dot(weights.first, mu[j, k]) + np.dot(weights.second, mu[k, j])) / 2


def log_odds(preference):
    return np.log(preference / (1 - preference))


def borda(mu, weights, importance):
    items = range(len(mu))
    total = [sum(importance[j, k] * symmetric(mu, weights, j, k) for k in items if k != j) for j in items]
    return np.array(total) / importance.sum(axis=1)


def bt(mu, weights, importance):
    rows, odds = [], []
    for j, k in np.argwhere(np.triu(importance) > 0):
        p1_jk, p2_jk = (np.dot(w, mu[j, k]) for w in (weights.first, weights.second))
        p1_kj, p2_kj = (np.dot(w, mu[k, j]) for w in (weights.first, weights.second))
        root = np.sqrt(importance[j, k])
        odds.append(root * (log_odds(p1_jk) + log_odds(p2_kj) - log_odds(p2_jk) - log_odds(p1_kj)) / 4)
        rows.append(root * (np.eye(len(mu))[j] - np.eye(len(mu))[k]))
    return np.linalg.pinv(np.array(rows)) @ np.array(odds)


def stationary(matrix):
    """The row vector f with f'matrix = 0 that sums to one."""
    size = len(matrix)
    conditions = np.vstack([matrix.T, np.ones(size)])
    return np.linalg.solve(conditions.T @ conditions, conditions.T @ np.eye(size + 1)[size])


def rates(mu, weights, edges):
    matrix = np.zeros(edges.shape, dtype=mu.dtype)
    for i, j in np.argwhere(edges):
        matrix[i, j] = symmetric(mu, weights, j, i)
    return matrix


def rank_centrality(mu, weights, importance):
    edges, matrix = importance > 0, rates(mu, weights, importance > 0)
    busy = edges.sum(axis=1) / edges.sum(axis=1).max()
    return stationary(busy[:, None] * matrix / matrix.sum(axis=1)[:, None] - np.diag(busy))


def rate_walk(mu, weights, importance):
    matrix = rates(mu, weights, importance > 0)
    return stationary(matrix - np.diag(matrix.sum(axis=1)))


FUNCTIONALS = {
    "borda": ("borda", borda),
    "bt": ("bt", bt),
    "rank_centrality": ("rank_centrality", rank_centrality),
    "rate": (RankCentrality(walk="rate"), rate_walk),
}


def jacobian(functional, mu, j, k):
    """Derivatives of the scores by the probabilities of one ordered pair, (K, C), by complex steps."""
    columns = []
    for category in range(mu.shape[-1]):
        moved = mu.astype(complex)
        moved[j, k, category] += 1j * STEP
        columns.append(functional(moved).imag / STEP)
    return np.stack(columns, axis=1)


def correction(functional, mu, propensity, votes):
    labels, total = LABELS[mu.shape[-1]], np.zeros(len(mu))
    for (first, second), cell in votes.groupby(["model_a", "model_b"]):
        j, k = int(first[1:]), int(second[1:])
        share = np.array([(cell["winner"] == label).mean() for label in labels])
        total += jacobian(functional, mu, j, k) @ (share - mu[j, k]) / propensity[j, k]
    return total


def written_out(functional, battles, debiased=True):
    phi = []
    for place, (_, rows) in enumerate(battles.frame.groupby("prompt", sort=False)):
        mu, propensity = battles.mu[place], battles.propensity[place]
        phi.append(functional(mu))
        if debiased:
            phi[-1] = phi[-1] + correction(functional, mu, propensity, rows[rows["winner"].notna()])
    theta = sum(phi) / len(phi)
    return theta, np.array([row - theta for row in phi])


def worth(battles):
    """Mean over the prompts of S / pi^2 by ordered pair, and how much labels spread as a share of the model's."""
    n_categories = battles.mu.shape[-1]
    table, spread, full = np.zeros((N_ITEMS, N_ITEMS)), 0.0, 0.0
    for place, (_, rows) in enumerate(battles.frame.groupby("prompt", sort=False)):
        for (first, second), cell in rows.dropna().groupby(["model_a", "model_b"]):
            j, k = int(first[1:]), int(second[1:])
            table[j, k] += 1 / battles.propensity[place, j, k] ** 2
            share = np.array([(cell["winner"] == label).mean() for label in LABELS[n_categories]])
            spread += np.square(share - battles.mu[place, j, k]).sum()
            full += 1 - np.square(battles.mu[place, j, k]).sum()
    return table / battles.frame["prompt"].nunique() * min(spread / full, 1)


def labelled_cells(battles):
    """By ordered pair the prompts' weights 1 / (n pi), shares of labels and mu, in rows."""
    n_prompts, cells = battles.frame["prompt"].nunique(), {}
    for place, (_, rows) in enumerate(battles.frame.groupby("prompt", sort=False)):
        for (first, second), cell in rows.dropna().groupby(["model_a", "model_b"]):
            j, k = int(first[1:]), int(second[1:])
            share = np.array([(cell["winner"] == label).mean() for label in LABELS[battles.mu.shape[-1]]])
            weight = 1 / (n_prompts * battles.propensity[place, j, k])
            cells.setdefault((j, k), []).append((weight, share, battles.mu[place, j, k]))
    return {pair: [np.array(column) for column in zip(*rows, strict=True)] for pair, rows in cells.items()}


def in_one_class(shares, weights):
    """Whether all labels are worth the same to both models."""
    return all(np.ptp(shares @ np.array(side)) < 1e-9 for side in (weights.first, weights.second))


def labels_alike(uniform, pair, weights):
    """Labels of unanimous pairs that say of one model of the pair what the pair's own say; the larger of both."""

    def verdict(j, k, model):
        gap = uniform[j, k][1][0] @ np.subtract(weights.first, weights.second)
        return 0 if abs(gap) < 1e-9 else np.sign(gap) * (1 if model == j else -1)

    counts = []
    for model in pair:
        own = verdict(*pair, model)
        counts.append(sum(len(uniform[p][0]) for p in uniform if model in p and verdict(*p, model) == own))
    return max(counts)


def other_labels(label, weights, number):
    """Probability of each label not seen: the rule of three for wins together and for ties together."""
    away = [
        max(abs(np.subtract(side, np.dot(side, label)))[c] for side in (weights.first, weights.second))
        for c in range(len(label))
    ]
    probability = np.zeros(len(label))
    for kind in (range(2), range(2, len(label))):
        unseen = [c for c in kind if away[c] > 1e-9]
        if unseen:
            largest = 0.25 / np.mean([away[c] ** 2 for c in unseen])
            probability[unseen] = min((3 / norm.ppf(0.975)) ** 2 / number, largest) / len(unseen)
    return probability


def positive_part(matrix):
    values, axes = np.linalg.eigh(matrix)
    return axes @ np.diag(np.maximum(values, 0)) @ axes.T


def hidden(functional, battles, weights, interior=True):
    """What labels that all say the same hide: by pair, the excess of J V J' over what their residuals show."""
    cells, n_prompts, n_categories = labelled_cells(battles), battles.frame["prompt"].nunique(), battles.mu.shape[-1]
    uniform = {pair: rows for pair, rows in cells.items() if in_one_class(rows[1], weights)}
    table = np.full((N_ITEMS, N_ITEMS, n_categories), 1 / n_categories)
    turned = [1, 0, *range(2, n_categories)]
    for j, k in np.argwhere(~np.eye(N_ITEMS, dtype=bool)):
        if (j, k) in cells:
            table[j, k] = cells[j, k][2].mean(axis=0)
        elif (k, j) in cells:
            table[j, k] = cells[k, j][2].mean(axis=0)[turned]
    raised, probabilities = table.copy(), {}
    for pair, (_, shares, _) in uniform.items():
        number = labels_alike(uniform, pair, weights)
        probabilities[pair] = other_labels(shares.mean(axis=0), weights, number)
        raised[pair] = np.maximum(table[pair], np.minimum(probabilities[pair], 0.5))
        raised[pair] /= raised[pair].sum()
    total, weights_of_all = np.zeros((N_ITEMS, N_ITEMS)), sum(rows[0].sum() for rows in uniform.values())
    for pair, (weight, shares, mu) in uniform.items():
        away = np.eye(n_categories) - shares.mean(axis=0)
        expected = away.T @ np.diag(probabilities[pair]) @ away
        amount, residual = np.square(weight).sum(), weight[:, None] * (shares - mu)
        # The mean of the influence values takes the share that unanimous pairs have in common off.
        centred = max(1 - weight.sum() * weights_of_all / (n_prompts * amount), 0)
        outer, inner = (jacobian(functional, at, *pair) for at in (raised if interior else table, table))
        total += positive_part(amount * outer @ expected @ outer.T - centred * inner @ residual.T @ residual @ inner.T)
    return total, len({frozenset(pair) for pair in uniform})


def larger(covariance, added):
    """The larger of a covariance and its sum with ``added`` along the directions in which both are diagonal."""
    spectrum, axes = np.linalg.eigh(covariance)
    free = axes[:, spectrum > 1e-10 * spectrum[-1]]
    gains, directions = eigh(free.T @ added @ free, free.T @ covariance @ free)
    back = free @ np.linalg.inv(directions).T
    return back @ np.diag(np.maximum(1 + gains, 1)) @ back.T


def assert_same(results, expected, unseen=None):
    """Estimate, influence values and, where nothing corrects it for mu, covariance, with what unanimous pairs hide."""
    theta, phi = expected
    np.testing.assert_allclose(results.params, theta, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(results.influence, phi, rtol=1e-8, atol=1e-8 * np.abs(phi).max())
    if results.functional == "borda" or results.estimates.estimator == "plugin":
        covariance = phi.T @ phi / len(phi) ** 2
        if unseen is not None:
            added, n_pairs = unseen
            assert results.diagnostics.pairs_without_variation == n_pairs
            covariance = covariance + added
        np.testing.assert_allclose(results.cov_params(), covariance, rtol=1e-8, atol=1e-8 * np.abs(covariance).max())


@pytest.mark.parametrize("name", FUNCTIONALS)
@pytest.mark.parametrize(("kind", "n_categories"), SCHEMES, ids=[f"{kind}-{c}" for kind, c in SCHEMES])
@pytest.mark.parametrize(("graph", "many"), [("complete", False), ("path with a chord", True)])
@pytest.mark.long
def test_debiased_scores_and_covariance(draw_battles, rank, name, kind, n_categories, graph, many):
    rng = np.random.default_rng(n_categories)
    extra = {"n_pairs": 3, "repeats": True, "unlabelled": 5} if many else {}
    battles = draw_battles(rng, 20, N_ITEMS, n_categories, EDGES[graph], **extra)
    option, functional = FUNCTIONALS[name]
    weights = getattr(CategoryWeights, kind)(n_categories)

    def value(mu):
        return functional(mu, weights, EDGES[graph].astype(float))

    expected, unseen = written_out(value, battles), hidden(value, battles, weights, interior=name != "borda")
    for propensity in (battles.propensity, "shown"):
        options = {"functional": option, "graph": EDGES[graph], "category_weights": kind, "floor": 0}
        results = rank(battles.frame, mu=battles.mu, propensity=propensity, **options)
        assert_same(results, expected, unseen)


@pytest.mark.parametrize("name", FUNCTIONALS)
@pytest.mark.parametrize("graph", ["complete", "path with a chord"])
def test_plugin_scores_and_covariance(draw_battles, rank, name, graph):
    battles = draw_battles(np.random.default_rng(10), 20, edges=EDGES[graph], n_pairs=2, unlabelled=4)
    option, functional = FUNCTIONALS[name]
    importance = EDGES[graph].astype(float)
    expected = written_out(lambda mu: functional(mu, CategoryWeights.half(3), importance), battles, debiased=False)
    options = {"mu": battles.mu, "propensity": battles.propensity, "graph": EDGES[graph], "floor": 0}
    assert_same(rank(battles.frame, functional=option, estimator="plugin", **options), expected)
    debiased = rank(battles.frame, functional=option, **options)
    np.testing.assert_allclose(debiased.estimates.plugin, expected[0], rtol=1e-10)
    assert np.abs(debiased.params - debiased.estimates.plugin).max() > 1e-3
