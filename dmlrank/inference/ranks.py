r"""Ranks and rank sets from separated pairs, letters of groups and the power of a test of a difference.

Whether the model with the highest estimate is shown to be first is one question and no family of tests.

Notes
-----
Let a be the model with the highest estimate, z_b the estimated difference a - b over its standard error, and c the
two-sided critical value of a single test at level alpha, so that 1 - Phi(c) = alpha / 2. First place is decided if
z_b >= c for every other model b. For estimates that are jointly normal with any covariance, the probability that
first place is decided for a model that is not alone in first place is at most alpha, however many models there are
and however many share first place. No adjustment pays for the choice of a.

*Proof.* Fix a model a for which the claim is wrong: there is a model k with theta_a <= theta_k. Condition on a having
the highest estimate, and on the part of all estimates that is independent of the difference D = a - k. Let rho_b be
the correlation of the differences a - b and D. In units of its standard error, D is then a normal variable with a
mean of at most zero, restricted to an interval [l, h]: the condition that a is above b says that D exceeds z_k - z_b
/ rho_b where rho_b > 0, and is an upper limit where rho_b < 0. So l = max(0, max_b (z_k - z_b / rho_b)), and

.. math:: p = \frac{\Phi(h) - \Phi(z_k)}{\Phi(h) - \Phi(l)} \le \frac{1 - \Phi(z_k)}{1 - \Phi(l)}

is a conditional p-value of theta_a <= theta_k. If first place is decided, z_b / rho_b >= c for every b, so that l <=
z_k - c, and p <= (1 - Phi(z)) / (1 - Phi(z - c)) at z = z_k. The hazard of the normal distribution increases, and
therefore this ratio falls in z; at the smallest z allowed, z = c, it is 2 (1 - Phi(c)) = alpha. Hence p <= alpha
whenever first place is decided for a, which has conditional probability at most alpha. The sum over all such a,
weighted by the probability that a has the highest estimate, is at most alpha.

The p-value is the largest two-sided p-value of the differences between a and each other model. Multiple comparisons
with the best (Edwards and Hsu) test whether b may be best by the largest of the one-sided statistics of all models
against b; their critical value grows with the number of models, and is never below c in the two-sided form that also
holds where models share first place.

All pairs of models, on which rank sets and letters rest, are another question. What step-down tests of all pairs
decide is decided here, too: when they reject "a is not above b", both directions of this pair are in their family, so
that their critical value is at least c. The smaller of both p-values is taken, because those of step-down tests come
from draws.

The proof needs normal tails and one look at the data. Views with the draws of a bootstrap and sequential views
therefore decide first place by their tests of all pairs.

References
----------
Gutmann and Maymin (1987), Is the selected population the best?, Annals of Statistics 15: independent estimates with
equal variances. Hung and Fithian (2019), Rank verification for exponential families, Annals of Statistics 47. Edwards
and Hsu (1983), Multiple comparisons with the best treatment, Journal of the American Statistical Association 78.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..data.preferences import FloatArray, IntArray
from .covariance import Covariance
from .score_limits import normal_tail
from .simultaneous import MaxT, Separation, Simultaneous, compare_differences, law_of_differences

_ALPHABET = string.ascii_lowercase + string.ascii_uppercase
# Numbers drawn for the power to find several leads at once, and the fewest draws.
_LEADS_DRAWN, _FEWEST_DRAWS = 1_000_000, 5_000
# Most differences that are counted together where it is said how much data would decide first place.
_HARDEST = 50

# A display with more groups than this number would be unreadable. The limit also bounds the computation, because the
# number of groups may grow exponentially with the number of models.
MAX_GROUPS = 200


def rank_bounds(above: NDArray[np.bool_], below: NDArray[np.bool_] | None = None) -> tuple[IntArray, IntArray]:
    """Return the best and the worst rank in the rank set of each model, (K,) each.

    The best rank is one plus the number of models above it, the worst rank is K less the number of models below it.

    Shapes: above (K, K), below (K, K).

    References
    ----------
    Mogstad, Romano, Shaikh and Wilhelm (2024), Inference for ranks with applications to mobility across neighbourhoods
    and academic achievement across countries, Review of Economic Studies 91.
    """
    below = above.T if below is None else below
    return 1 + below.sum(axis=1), len(above) - above.sum(axis=1)


def ranks_of(scores: FloatArray) -> IntArray:
    """Return the ranks of scores, (K,): one plus the number of higher scores."""
    return 1 + (scores[None, :] > scores[:, None]).sum(axis=1)


def rank_changes(scores: Sequence[FloatArray], above: Sequence[NDArray[np.bool_]]) -> dict[str, IntArray]:
    """Return ranks before and after, the gain in rank, and its limits, which hold where both rank sets do, (K,) each.

    Shapes: of each of the two ``scores`` (K,), of ``above``, see :func:`rank_bounds`, (K, K).
    """
    before, after = map(ranks_of, scores)
    (best, worst), (later_best, later_worst) = map(rank_bounds, above)
    return {
        "rank_before": before,
        "rank_after": after,
        "rank_change": before - after,
        "rank_change_low": best - later_worst,
        "rank_change_high": worst - later_best,
    }


def power_of(difference: float, std_error: float, critical: float) -> float:
    """Return the power: the probability that an estimated difference exceeds ``critical`` standard errors."""
    z = difference / std_error
    return float(normal_tail(critical - z) + normal_tail(z + critical))


def smallest_gap(std_error: float, critical: float, power: float = 0.8) -> float:
    """Return the smallest true difference whose test has a given power."""
    # The power is 1 up to rounding at a difference of 40 standard errors more than the critical value.
    low, high = 0.0, 40.0 + critical
    # Bisection, because scipy.optimize takes longer to load than a summary to print.
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if power_of(middle, 1.0, critical) > power else (middle, high)
    return std_error * high


def multiple_needed(difference: float, std_error: float, critical: float, power: float = 0.8) -> float:
    """Return the multiple of the data with which a test finds a true difference with a power; infinite for none."""
    return (smallest_gap(std_error, critical, power) / abs(difference)) ** 2 if difference else np.inf


def leads_needed(leads: FloatArray, factor: FloatArray, critical: float) -> FloatArray:
    """Draw the multiple of true leads at which all J estimates exceed ``critical`` standard errors at once, (draws,).

    The share of draws up to 1 is the power to find all leads at once, and a quantile is the multiple that has a power.

    Shapes: leads (J,), all positive; factor (J, r), whose product with its transpose is the covariance of the leads.
    """
    n_draws = int(np.clip(_LEADS_DRAWN // factor.shape[1], _FEWEST_DRAWS, 20 * _FEWEST_DRAWS))
    noise = np.random.default_rng(0).standard_normal((n_draws, factor.shape[1])) @ factor.T
    limits = critical * np.sqrt(np.square(factor).sum(axis=1))
    return np.asarray(((limits - noise) / leads).max(axis=1))


def multiple_for_all(
    leads: FloatArray, rows: FloatArray, covariance: Covariance, critical: float, power: float
) -> float:
    """Return the multiple of the data with which tests find J true leads all at once with a power; infinite for none.

    Sizes before there are data, fits and plans all ask here. Shapes: leads (J,), rows (J, d), the combinations of
    estimates that lead.
    """
    error = np.sqrt(np.maximum(((rows @ covariance.matrix) * rows).sum(axis=1), 0.0))
    if not ((leads > 0) & (error > 0)).all():
        return np.inf
    if len(leads) == 1:
        return multiple_needed(float(leads[0]), float(error[0]), critical, power)
    # Beside the differences that need most data, the others need next to nothing.
    hardest = np.argsort(-error / leads, kind="stable")[:_HARDEST]
    factor = covariance.of_combinations(rows[hardest]).factor
    return float(np.quantile(leads_needed(leads[hardest], factor, critical), power) ** 2)


def letter_groups(separated: NDArray[np.bool_], scores: FloatArray, max_groups: int = MAX_GROUPS) -> tuple[str, ...]:
    """Return the letters of each model: two models share a letter exactly where they are not separated.

    Shapes: separated (K, K), scores (K,).

    References
    ----------
    Piepho (2004), An algorithm for a letter-based representation of all-pairwise comparisons.
    """
    best_first = np.argsort(-scores, kind="stable")
    not_separated = ~separated[np.ix_(best_first, best_first)]
    np.fill_diagonal(not_separated, True)
    maximal = _maximal_groups(not_separated, max_groups)
    if maximal is None:
        return ("",) * len(scores)
    # Groups of which each pair is also in another group are dropped, the smallest first.
    n_groups_of_pair = np.zeros(separated.shape, dtype=int)
    for group in maximal:
        n_groups_of_pair[np.ix_(group, group)] += 1
    necessary = []
    for group in sorted(maximal, key=len):
        pairs = np.ix_(group, group)
        if (n_groups_of_pair[pairs] > 1).all():
            n_groups_of_pair[pairs] -= 1
        else:
            necessary.append(group)
    groups = sorted(necessary)
    names = _ALPHABET if len(groups) <= len(_ALPHABET) else [str(number) for number in range(1, len(groups) + 1)]
    separator = "" if names is _ALPHABET else ","
    letters = [""] * len(best_first)
    for place, model in enumerate(best_first):
        letters[model] = separator.join(name for name, group in zip(names, groups, strict=False) if place in group)
    return tuple(letters)


def _maximal_groups(not_separated: NDArray[np.bool_], max_groups: int) -> list[tuple[int, ...]] | None:
    """Return all groups, each sorted: sets of models of which no two are separated, to which no model can be added."""
    groups: list[int] = []
    for model in range(len(not_separated)):
        compatible = sum(1 << int(other) for other in np.flatnonzero(not_separated[model, :model]))
        with_model = {(group & compatible) | (1 << model) for group in groups} or {1 << model}
        candidates = [group for group in groups if group & ~compatible] + list(with_model)
        candidates.sort(key=int.bit_count, reverse=True)
        groups = []
        for candidate in candidates:
            if not any(candidate & larger == candidate for larger in groups):
                groups.append(candidate)
        if len(groups) > max_groups:
            return None
    return [tuple(j for j in range(len(not_separated)) if group >> j & 1) for group in groups]


@dataclass(frozen=True, slots=True, eq=False)
class FirstPlace:
    """Whether the model with the highest estimate, the leader, is shown to be above every other model.

    leader: Place of the leader.
    others (J,): Places of the other models, the best first.
    unplaced: Places of the models that are left out, the best first.
    difference, std_error (J,): Estimated leads of the leader over the others, with standard errors of predictions.
    low, high (J,): Limits of the leads that hold for all pairs at once.
    p (J,): p-value of each; first place is decided where none is above alpha.
    separated (J,): Whether all pairs at once separate them from the leader.
    critical: Critical value of each difference for the question who is first; NaN for tests at all looks.
    alpha: Probability of a wrong claim of first place.
    is_single: Whether p-values are of one question, who is first; otherwise they are adjusted for all pairs.
    covariance: Of the scores.
    """

    leader: int
    others: IntArray
    unplaced: IntArray
    difference: FloatArray
    std_error: FloatArray
    low: FloatArray
    high: FloatArray
    p: FloatArray
    separated: NDArray[np.bool_]
    critical: float
    alpha: float
    is_single: bool
    covariance: Covariance

    @property
    def decided(self) -> bool:
        """Whether the leader is shown to be above every other model."""
        return bool(self.p.max() <= self.alpha)

    @property
    def rival(self) -> int:
        """Place among ``others`` of the best model that may be first as well; of the second model where none may."""
        return int(np.argmax(self.p > self.alpha))

    def times_more(self, power: float, leads: FloatArray | None = None) -> float:
        """Return the multiple of the data that would decide first place with a power if the estimated leads were true.

        The power is that of finding all differences at once that are not found yet; with other true ``leads``, (J,),
        that of finding all. The multiple is infinite where the leader has no lead, and 0 where the data decide already.
        """
        is_open = self.p > self.alpha if leads is None else np.ones(len(self.p), dtype=bool)
        short = np.flatnonzero(is_open)
        if not len(short):
            return 0.0
        rows = np.zeros((len(short), len(self.covariance.matrix)))
        rows[:, self.leader], rows[range(len(short)), self.others[short]] = 1.0, -1.0
        lead = (self.difference if leads is None else leads)[short]
        return multiple_for_all(lead, rows, self.covariance, self.critical, power)


def first_place(
    estimate: FloatArray,
    simultaneous: Simultaneous,
    separation: Separation,
    sign: int = 1,
    few: NDArray[np.bool_] | None = None,
) -> FirstPlace | None:
    """Test whether the model with the highest estimate (lowest, with the sign -1) is first; None where none varies.

    This is one question and no family of tests; the proof is at the top of this module. Where it is not decided, models
    with few votes are left out that are not shown to be below the best of the others. Shapes: estimate (K,), few (K,).
    """
    if not np.isfinite(separation.critical):
        return None

    def among(order: IntArray, unplaced: IntArray) -> FirstPlace:
        first, others = np.full(len(order) - 1, order[0]), order[1:]
        by_pairs = separation.p_above[first, others]
        single = compare_differences(estimate, simultaneous, first, others, method="none", alpha=separation.alpha)
        is_normal = isinstance(simultaneous, MaxT) and simultaneous.bootstrap is None
        critical = separation.critical if isinstance(simultaneous, MaxT) else float("nan")
        low, high = law_of_differences(estimate, simultaneous, first, others)[1].limits(separation.critical)
        low, high = (low, high) if sign > 0 else (-high, -low)
        return FirstPlace(
            leader=int(order[0]),
            others=others,
            unplaced=unplaced,
            difference=sign * single.estimate,
            std_error=single.std_error,
            low=low,
            high=high,
            p=np.fmin(by_pairs, single.p_value) if is_normal else by_pairs,
            separated=separation.above[first, others],
            critical=single.critical if is_normal else critical,
            alpha=separation.alpha,
            is_single=is_normal,
            covariance=simultaneous.widened,
        )

    order = np.argsort(-sign * estimate, kind="stable")
    place = among(order, order[:0])
    if few is None or not few.any() or (~few).sum() < 2 or place.decided:
        return place
    leader = order[~few[order]][:1]
    others = order[order != leader]
    # Bonferroni: of a leader above all models with many votes, the proof then holds for those with few, too.
    is_left_out = few[others] & ~(few.sum() * among(np.r_[leader, others], others[:0]).p <= separation.alpha)
    return among(np.r_[leader, others[~is_left_out]], others[is_left_out])
