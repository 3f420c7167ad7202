"""What speaks against intervals: each sign against its twin, and the warnings where they are due and where not."""

import warnings

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import minimize
from scipy.special import expit, logit, logsumexp

from dmlrank.data.preferences import Cells
from dmlrank.estimation.cross_fitting import HeldOutLabels
from dmlrank.estimation.diagnostics import (
    Validity,
    calibration,
    effective_contexts,
    warn_about_intervals,
    warn_of_few_prompts,
)
from dmlrank.estimation.influence import Influence
from dmlrank.exceptions import DmlrankWarning

DOUBTS = (
    "few prompts determine the standard error of",
    "too few labels for this functional",
    "the fitted probabilities are",
)


def calibration_slope(mu, cells):
    return calibration(HeldOutLabels(mu, cells))[0]


def influence_of(phi):
    n = len(phi)
    return Influence(phi, np.zeros_like(phi), np.arange(n), np.ones(n), np.ones(n))


def cells_of(y, n_votes=None):
    n = len(y)
    votes = np.ones(n, dtype=int) if n_votes is None else n_votes
    return Cells(np.arange(n), np.zeros(n, dtype=int), np.ones(n, dtype=int), y, votes, np.zeros(n, dtype=bool))


def test_effective_contexts_in_loops():
    phi = np.random.default_rng(0).standard_t(3, size=(200, 3))
    made = effective_contexts(influence_of(phi))
    for j in range(3):
        centred = [value - sum(phi[:, j]) / 200 for value in phi[:, j]]
        assert made[j] == pytest.approx(sum(v**2 for v in centred) ** 2 / sum(v**4 for v in centred))


def test_effective_contexts_of_a_score_that_does_not_vary():
    phi = np.column_stack([np.random.default_rng(1).normal(size=30), np.full(30, 0.1 + 0.2)])
    assert effective_contexts(influence_of(phi))[1] == 30


@pytest.mark.parametrize("true_slope", [0.4, 1.0, 2.0])
def test_the_slope_of_two_categories_is_statsmodels(true_slope):
    rng = np.random.default_rng(2)
    p = expit(2 * rng.normal(size=800))
    votes = rng.integers(1, 4, size=800)
    share = rng.binomial(votes, expit(true_slope * logit(p) + 0.3)) / votes
    design = sm.add_constant(logit(p))
    twin = sm.GLM(share, design, family=sm.families.Binomial(), freq_weights=votes).fit(tol=1e-12).params[1]
    made = calibration_slope(np.column_stack([p, 1 - p]), cells_of(np.column_stack([share, 1 - share]), votes))
    assert made == pytest.approx(twin, abs=1e-4)
    assert made == pytest.approx(true_slope, abs=0.25)


@pytest.mark.parametrize("n_categories", [3, 5])
def test_the_slope_of_several_categories_is_scipys(n_categories):
    rng = np.random.default_rng(3)
    mu = rng.dirichlet(np.ones(n_categories), size=400)
    y = np.stack([rng.multinomial(1, p) for p in mu]).astype(float)

    def loss(theta):
        scores = theta[0] * np.log(mu) + np.append(theta[1:], 0.0)
        return float((logsumexp(scores, axis=1) - (y * scores).sum(axis=1)).sum())

    twin = minimize(loss, np.append(1.0, np.zeros(n_categories - 1)), method="BFGS").x[0]
    assert calibration_slope(mu, cells_of(y)) == pytest.approx(twin, abs=1e-3)


def test_extreme_predictions_have_a_small_slope_and_shrunken_ones_a_large_one():
    rng = np.random.default_rng(4)
    mu = rng.dirichlet(np.full(3, 2.0), size=3000)
    cells = cells_of(np.stack([rng.multinomial(1, p) for p in mu]).astype(float))
    right = calibration_slope(mu, cells)
    for power in (0.5, 2.0):
        bent = mu**power / (mu**power).sum(axis=1, keepdims=True)
        assert calibration_slope(bent, cells) == pytest.approx(right / power, rel=1e-3)
    assert right == pytest.approx(1, abs=0.1)
    order = [2, 0, 1]
    assert calibration_slope(mu[:, order], cells_of(cells.y[:, order])) == pytest.approx(right, rel=1e-4)


def test_there_is_no_slope_where_nothing_varies():
    assert np.isnan(calibration_slope(np.full((50, 3), 1 / 3), cells_of(np.eye(3)[np.arange(50) % 3])))


def test_probabilities_of_zero_have_a_finite_slope():
    rng = np.random.default_rng(5)
    mu = np.where(rng.random((60, 1)) < 0.5, [1.0, 0.0], [0.3, 0.7])
    assert np.isfinite(calibration_slope(mu, cells_of(np.eye(2)[rng.integers(2, size=60)])))


def test_the_spread_of_mu_is_that_of_its_log_within_cells():
    rng = np.random.default_rng(10)
    mu = rng.dirichlet(np.ones(3), size=80)
    _, spread = calibration(HeldOutLabels(mu, cells_of(np.eye(3)[rng.integers(3, size=80)])))
    log_mu = np.log(mu) - np.log(mu).mean(axis=1, keepdims=True)
    assert spread == pytest.approx(np.sqrt(log_mu.var(axis=0).mean()))


GOOD = {
    "effective_contexts": [300.0, 200.0],
    "second_order": [0.01, -0.01],
    "own_errors": [0.01, 0.01],
    "treatment": "left in",
    "calibration": 1.0,
    "log_mu_std": 1.0,
}


def warnings_of(interior=True, votes=None, **changes):
    parts = GOOD | changes
    validity = Validity(
        np.array(parts["effective_contexts"]),
        np.array(parts["second_order"]),
        np.array(parts["own_errors"]),
        parts["treatment"],
        parts["calibration"],
        parts["log_mu_std"],
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_about_intervals(validity, np.array([0.1, 0.1]), ["ada", "bob"], 1000, interior, votes=votes)
    assert all(issubclass(w.category, DmlrankWarning) for w in caught)
    return [str(w.message) for w in caught]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"effective_contexts": [50.0, 6.0]}, "standard error of 'bob': their effective number is 6 of 1,000"),
        (
            {"effective_contexts": [50.0, 9.8]},
            "number is 9 of 1,000 prompts, and a reliable interval needs at least 10",
        ),
        (
            {"effective_contexts": [8.0, 6.0]},
            r"error of 'bob': their .* number is 6 of .* \(1 further has fewer, too\)",
        ),
        (
            {"effective_contexts": [2.0, 6.0]},
            "functional='borda' depends least on such labels, and a larger floor, .* bounds their influence$",
        ),
        # Where the model is rare, to leave it out; the other functional would say the same of it.
        (
            {"effective_contexts": [50.0, 6.0], "votes": np.array([900, 60])},
            r"far too short; .*min_votes=61\) leaves out models with so few votes; a larger floor, .* bounds the inf",
        ),
        (
            {"effective_contexts": [50.0, 6.0], "votes": np.array([900, 60]), "interior": False},
            r"far too short; .*min_votes=61\) leaves out models with so few votes$",
        ),
        (
            {"effective_contexts": [2.0, 6.0], "interior": False},
            "leave pairs with few labels out [(]pairs=Pairs[(]min_labels=[.]{3}[)][)]",
        ),
        ({"second_order": [-0.08, 0.02]}, "biases 'ada' by an estimated -0.08, which is 0.8 standard errors"),
        ({"second_order": [0.12, 0.02], "treatment": "removed"}, "which is 1.2 standard errors and was removed"),
        ({"calibration": 0.4}, "too extreme: their calibration slope is 0.40"),
        ({"calibration": 2.5}, "too close to even: their calibration slope is 2.50"),
    ],
)
def test_every_sign_has_its_warning(changes, words):
    (text,) = warnings_of(**changes)
    assert text.startswith(DOUBTS)
    with pytest.warns(DmlrankWarning, match=words):
        warnings.warn(text, DmlrankWarning, stacklevel=1)


def test_models_with_few_prompts_are_named_where_others_have_enough():
    with pytest.warns(DmlrankWarning, match="error of 'c', 'a': their effective number is 4 to 6 of 900 prompts, and"):
        warn_of_few_prompts(np.array([6.0, 50.0, 4.0]), "abc", 900, "Some outweigh others", "add prompts")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"second_order": [np.nan, np.nan]},
        {"second_order": [0.08, 0.08], "treatment": "removed"},
        {"second_order": [0.08, 0.08], "own_errors": [0.05, 0.05]},
        {"calibration": np.nan, "log_mu_std": 0.0},
        {"calibration": -0.9, "log_mu_std": 0.2},
        {"calibration": 2.0, "log_mu_std": 0.2},
    ],
)
def test_no_sign_no_warning(changes):
    assert warnings_of(**changes) == []
