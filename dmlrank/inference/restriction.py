"""A test of a model by what it changes: the restricted estimate against the one that does without the restriction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import chi2

from ..data.preferences import FloatArray
from ..exceptions import OptionError
from .covariance import Covariance

# Variance of a difference, as a share of the free estimate's, below which both estimates are the same thing.
_SAME = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class RestrictionTest:
    """Hausman-type test: do the unrestricted scores differ from the restricted ones by more than noise?

    Attributes
    ----------
    statistic : float
        Chi-squared under the restriction.
    df : int
        Directions in which the two estimators differ at all.
    pvalue : float
    frame : DataFrame
        By model: ``restricted``, ``unrestricted``, ``difference`` (unrestricted less restricted), ``std_error`` of the
        difference and ``z``.
    """

    statistic: float
    df: int
    pvalue: float
    frame: pd.DataFrame

    def __str__(self) -> str:
        p = "< 0.001" if self.pvalue < 0.001 else f"= {self.pvalue:.3f}"
        return (
            f"Test of the restriction: chi2({self.df}) = {self.statistic:.2f}, p {p}\n"
            f"{self.frame.to_string(float_format=lambda number: f'{number:.3f}')}"
        )


def compare_restricted(
    restricted: FloatArray, unrestricted: FloatArray, free: Covariance, difference: Covariance, names: tuple[str, ...]
) -> RestrictionTest:
    """The test from both estimates, (d,), the covariance of the unrestricted one and that of the difference.

    The covariance of the difference is that of the difference of the influence values: it needs neither estimator to be
    efficient, nor equal variances of the labels. Its rank is that of the directions in which the two differ; where the
    graph leaves no restriction (across a bridge, with two models) they are the same up to rounding.

    Raises
    ------
    OptionError
        If they are the same in all directions.
    """
    gap = unrestricted - restricted
    spectrum, axes = np.linalg.eigh(difference.reduced)
    kept = spectrum > _SAME * max(float(np.linalg.eigvalsh(free.reduced)[-1]), 0.0)
    if not kept.any():
        raise OptionError(
            "the restriction cannot be tested: with these pairs (two models, or a graph without cycles) the restricted "
            "and the unrestricted scores are the same"
        )
    along = (axes[:, kept].T @ difference.basis.T @ gap) / np.sqrt(spectrum[kept])
    statistic, df = float(along @ along), int(kept.sum())
    errors = difference.std_errors
    z = np.divide(gap, errors, out=np.full(len(gap), np.nan), where=errors > 0)
    columns = {
        "restricted": restricted,
        "unrestricted": unrestricted,
        "difference": gap,
        "std_error": errors,
        "z": z,
    }
    return RestrictionTest(statistic, df, float(chi2.sf(statistic, df)), pd.DataFrame(columns, index=list(names)))
