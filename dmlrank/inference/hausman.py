"""Hausman's specification test: the restricted estimate against the unrestricted one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
from scipy.stats import chi2

from .._utils.number_text import p_value_clause
from ..data.preferences import FloatArray
from ..exceptions import OptionError
from .covariance import Covariance
from .z_tests import z_statistics

# Variance of a difference, as a share of the free estimate's, below which both estimates are the same thing.
_SAME = 1e-9
_ROUNDING = 1e-9


class NullDistribution(Protocol):
    """Distribution of Wald statistics under the restriction, to be drawn from."""

    def statistics(self, along: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Wald statistics, (B,), of samples from the restricted model, along some directions, (d, r)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class RestrictionTest:
    """Hausman-type test: do the unrestricted scores differ from the restricted ones by more than noise?

    Attributes
    ----------
    statistic : float
        Wald statistic, chi-squared under the restriction in large samples.
    df : int
        Directions in which the two estimators differ at all.
    pvalue : float
        From ``n_draws`` samples of labels from the restricted model, whose statistics have heavier tails than
        chi-squared where probabilities are near 0 or 1; it is at least 1 / (n_draws + 1). From chi-squared where there
        are clusters.
    frame : DataFrame
        By model: ``restricted``, ``unrestricted``, ``difference`` (unrestricted less restricted), ``std_error`` of the
        difference and ``z``.
    """

    statistic: float
    df: int
    pvalue: float
    frame: pd.DataFrame
    n_draws: int = 0

    def __str__(self) -> str:
        p = p_value_clause(self.pvalue)
        how = f"{self.n_draws:,} samples from the model" if self.n_draws else "chi-squared"
        return (
            f"Test of the restriction: chi2({self.df}) = {self.statistic:.2f}, p {p} ({how})\n"
            f"{self.frame.to_string(float_format=lambda number: f'{number:.3f}')}"
        )


def hausman_test(
    restricted: FloatArray,
    unrestricted: FloatArray,
    *,
    covariance: Covariance,
    difference: Covariance,
    names: tuple[str, ...],
    null: NullDistribution | None,
    rng: np.random.Generator,
) -> RestrictionTest:
    """The test from both estimates, (d,), the ``covariance`` of the unrestricted one and that of the difference.

    The covariance of the difference is that of the difference of the influence values: it needs neither estimator to be
    efficient, nor equal variances of the labels. Its rank is that of the directions in which the two differ; where the
    graph leaves no restriction (across a bridge, with two models) they are the same up to rounding. Without ``null``
    the p-value is that of chi-squared.

    Raises
    ------
    OptionError
        If they are the same in all directions.
    """
    gap = unrestricted - restricted
    spectrum, axes = np.linalg.eigh(difference.reduced)
    kept = spectrum > _SAME * max(float(np.linalg.eigvalsh(covariance.reduced)[-1]), 0.0)
    if not kept.any():
        raise OptionError(
            "the restriction cannot be tested: with these pairs (two models, or a graph without cycles) the restricted "
            "and the unrestricted scores are the same"
        )
    along = (axes[:, kept].T @ difference.basis.T @ gap) / np.sqrt(spectrum[kept])
    statistic, df = float(along @ along), int(kept.sum())
    errors = difference.std_errors
    z = z_statistics(gap, errors)
    columns = {
        "restricted": restricted,
        "unrestricted": unrestricted,
        "difference": gap,
        "std_error": errors,
        "z": z,
    }
    frame = pd.DataFrame(columns, index=list(names))
    if null is None:
        return RestrictionTest(statistic, df, float(chi2.sf(statistic, df)), frame)
    draws = null.statistics(difference.basis @ axes[:, kept], rng)
    # Rounding must not decide between equal statistics.
    reached = int((draws >= statistic * (1 - _ROUNDING)).sum())
    return RestrictionTest(statistic, df, (1 + reached) / (1 + len(draws)), frame, len(draws))
