"""A test of given propensities: the mean of S / pi over prompts is one for every pair where they are right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincc
from scipy.stats import norm

from ..._utils.warning_collection import warn
from ...data.preferences import FloatArray, IntArray, PreferenceData
from .all_pairs import TabulatedPairPropensity
from .estimate import Propensity

# Levels of the test over all pairs and of that of single pairs (Bonferroni), and factors that are no cause for concern.
_LEVEL = 1e-4
_LEAST, _MOST, _PAIR_FACTOR = 0.67, 1.25, 2.0
_CHUNK = 20_000_000
# Labels of a pair, and what all are worth by the variation of 1 / pi (for means above and below one), below which
# propensities in a column say little.
_STEADY = 20
_FEWEST = 30, 100


@dataclass(frozen=True, slots=True, eq=False)
class MeanWeights:
    """The mean of S / pi over contexts, of every pair with labels and of all of them together.

    Attributes
    ----------
    first, second : ndarray of int, shape (q,)
        Pairs with labels.
    observed, expected : ndarray, shape (q,)
        Labels, and how many the propensities let expect.
    factor : float
        Weighted mean over pairs, with the expected numbers of labels as weights.
    std_error : float
        Its standard error over contexts, or clusters of them.
    z : float
        How far it is from one, in standard errors.
    overlap : float
        How much larger the variance over contexts or clusters is than with independent labels, at least 1.
    steady : ndarray of bool, shape (q,)
        Whether ``expected`` is known well enough to say that there are too few labels.
    """

    first: IntArray
    second: IntArray
    observed: FloatArray
    expected: FloatArray
    factor: float
    std_error: float
    z: float
    overlap: float
    steady: NDArray[np.bool_]

    @property
    def factors(self) -> FloatArray:
        """Mean of S / pi of each pair, (q,)."""
        return self.observed / self.expected

    @property
    def p_values(self) -> FloatArray:
        """Two-sided p-values of "the mean is one" by pair, (q,).

        Given at least one label, which makes a pair one of these, their number is compared with a Poisson distribution
        cut off at zero; it is wider than that of independent draws with the propensities.
        """
        k, rate = self.observed / self.overlap, self.expected / self.overlap
        some = -np.expm1(-rate)
        below = np.clip((gammaincc(k + 1, rate) - np.exp(-rate)) / some, 0.0, 1.0)
        above = np.clip(gammainc(np.maximum(k, 1e-12), rate) / some, 0.0, 1.0)
        return np.minimum(1.0, 2 * np.minimum(np.where(self.steady, below, 1.0), above))

    @property
    def is_off(self) -> bool:
        """Whether the overall factor is far from one, and not by chance."""
        far = not _LEAST <= self.factor <= _MOST
        return far and abs(self.z) > norm.isf(_LEVEL / 2)

    @property
    def pairs_off(self) -> IntArray:
        """Places of pairs whose factor is far from one, and not by chance; the furthest first."""
        distance = np.abs(np.log(self.factors))
        off = (distance > np.log(_PAIR_FACTOR)) & (self.p_values < _LEVEL / len(self.factors))
        order = np.argsort(-distance, kind="stable")
        return order[off[order]]


def mean_weights(data: PreferenceData, propensity: Propensity, unit: IntArray) -> MeanWeights:
    """The mean of S / pi by pair, and over all.

    Where propensities of all pairs are known, the expected number of labels is their sum. Where they stand in a column,
    they are known at the labels only: a pair's expected number is n by the mean of 1 / pi over its labels, which is too
    large where 1 / pi varies and the largest values were not drawn.

    Parameters
    ----------
    data : PreferenceData
    propensity : Propensity
    unit : ndarray of int, shape (n,)
        What is independent: contexts, or clusters of them.
    """
    cells, n_items = data.cells, data.n_items
    pair = cells.first * n_items + cells.second
    weight = 1 / propensity.cells
    labels, total, square = (
        np.bincount(pair, w, minlength=n_items**2) for w in (np.ones_like(weight), weight, weight**2)
    )
    seen = np.flatnonzero(labels)
    worth = total[seen] ** 2 / square[seen]
    steady = (labels[seen] >= _STEADY) & (worth > 0.9 * labels[seen])
    observed, expected = worth, worth * data.n_contexts / total[seen]
    if isinstance(propensity.pairs, TabulatedPairPropensity):
        known, summed = _expected_labels(propensity.pairs.values, data.n_contexts)
        here = known[seen]
        steady |= here
        observed, expected = np.where(here, labels[seen], observed), np.where(here, summed[seen], expected)
    codes = np.unique(unit, return_inverse=True)[1].reshape(-1)
    of_pair = np.zeros(n_items**2)
    of_pair[seen] = observed / total[seen]
    by_unit = np.bincount(codes[cells.context], weights=weight * of_pair[pair], minlength=codes.max() + 1)
    spread = float(by_unit.var() * len(by_unit))
    overlap = max(1.0, spread / float(observed.sum()))
    if steady.all() and isinstance(propensity.pairs, TabulatedPairPropensity):
        mean, variance = _cut_off(expected)
        error = np.sqrt(max(spread, float(variance.sum())))
        z = float((observed - mean).sum()) / error if error > 0 else 0.0
        factor, error = float(observed.sum() / expected.sum()), error / float(expected.sum())
    else:
        factor, error, z = _by_halves(pair, weight, codes, cells.context)
    return MeanWeights(seen // n_items, seen % n_items, observed, expected, factor, float(error), z, overlap, steady)


def _by_halves(pair: IntArray, weight: FloatArray, unit: IntArray, context: IntArray) -> tuple[float, float, float]:
    """Weighted mean of S / pi, its standard error and z, where propensities are known at the labels only.

    The weights of pairs come from one half of the contexts (or clusters) and the means from the other, so that the mean
    is one in expectation whatever was drawn.

    Parameters
    ----------
    pair : ndarray of int, shape (m,)
    weight : ndarray, shape (m,)
        1 / pi.
    unit : ndarray of int, shape (n,)
        Of each context, from 0.
    context : ndarray of int, shape (m,)
    """
    half = unit % 2
    found, right, variance = 0.0, 0.0, 0.0
    drawn = []
    for own in (0, 1):
        inside = half[context] == own
        n_own, n_other = int((half == own).sum()), int((half != own).sum())
        count, total = (np.bincount(pair[~inside], w, minlength=pair.max() + 1) for w in (None, weight[~inside]))
        rate = np.divide(count, total, out=np.zeros(len(total)), where=total > 0)
        by_unit = np.bincount(
            unit[context[inside]], weights=weight[inside] * rate[pair[inside]], minlength=unit.max() + 1
        )
        by_unit = by_unit[own::2]
        share = n_own / max(n_own + n_other, 1)
        found += share * by_unit.sum() / max(n_own, 1)
        right += share * rate.sum()
        variance += share**2 * by_unit.var() * len(by_unit) / max(n_own, 1) ** 2
        drawn.append(by_unit)
    everything = np.concatenate(drawn)
    worth = everything.sum() ** 2 / max(np.square(everything).sum(), 1e-300)
    # Where 1 / pi varies, means that are too small are what rare large values leave: these need more labels.
    if not right > 0 or worth < _FEWEST[int(found < right)]:
        return float("nan"), float("nan"), 0.0
    factor = found / right
    error = np.sqrt(variance) / right * max(1.0, 1 / np.sqrt(max(factor, 1e-12)))
    return float(factor), float(error), float((factor - 1) / error) if error > 0 else 0.0


def _expected_labels(values: FloatArray, n_contexts: int) -> tuple[NDArray[np.bool_], FloatArray]:
    """Pairs whose propensities are known in every context, (K * K,), and the sum of these over contexts."""
    flat = values.reshape(len(values), -1)
    size = max(1, _CHUNK // flat.shape[1])
    summed, known = np.zeros(flat.shape[1]), np.ones(flat.shape[1], dtype=bool)
    for at in range(0, len(flat), size):
        part = flat[at : at + size]
        summed += part.sum(axis=0)
        known &= (part > 0).all(axis=0)
    return known, summed * (n_contexts / len(flat))


def _cut_off(rate: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance, (q,) each, of Poisson numbers that are not zero."""
    mean = rate / -np.expm1(-rate)
    return mean, np.maximum(mean * (1 + rate - mean), 0.0)


def check_mean_weights(data: PreferenceData, propensity: Propensity, unit: IntArray) -> float | None:
    """The overall factor of given propensities, with a warning where it, or that of some pairs, is far from one.

    None where propensities are not given: estimated ones are scaled so that the factors are one.
    """
    if propensity.how != "given":
        return None
    found = mean_weights(data, propensity, unit)
    message = ""
    if found.is_off:
        message = (
            f"the given propensities do not fit the labels: the mean of S / pi over prompts and pairs, 1 where "
            f"they are right, is {found.factor:.3g} (standard error {found.std_error:.2g}); "
            f"{_cause(found, data.ordered)}"
        )
    elif len(found.pairs_off):
        message = (
            f"the given propensities of {_named(found, data.items, data.ordered)} do not fit the labels: the mean of "
            f"S / pi over prompts is 1 where they are right; look at how they were computed"
        )
    if message:
        warn(message, stacklevel=2)
    return found.factor if np.isfinite(found.factor) else None


def _cause(found: MeanWeights, ordered: bool) -> str:
    """What a factor suggests."""
    if found.factor > 1:
        if not ordered and abs(found.factor / 2 - 1) < 0.2:
            return (
                "it is about 2 where the propensities are those of ordered pairs: with position_bias=False give the "
                "expected number of labelled orders of a pair, the sum of both, or pass position_bias=True"
            )
        return (
            f"they are about {found.factor:.3g} times too small: needed is the probability that this pair is labelled "
            f"in this prompt"
        )
    if ordered and abs(found.factor * 2 - 1) < 0.2:
        return (
            "it is about 1/2 where the propensities are those of pairs in either order: where order matters give that "
            "of the order shown, or pass position_bias=False"
        )
    return (
        f"they are about {1 / found.factor:.3g} times too large: needed is the probability that this pair is labelled "
        f"in a prompt of the data, those without a label counted in, and not the probability given that some pair is"
    )


def _named(found: MeanWeights, items: Sequence[str], ordered: bool, most: int = 3) -> str:
    """The pairs that are off, with their factors."""
    between = " before " if ordered else " and "
    named = [
        f"{items[found.first[q]]!r}{between}{items[found.second[q]]!r} ({found.factors[q]:.3g})"
        for q in found.pairs_off[:most]
    ]
    further = len(found.pairs_off) - most
    return ", ".join(named) + (f" and {further} more pairs" if further > 0 else "")
