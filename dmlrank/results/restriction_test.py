"""The test of the Bradley-Terry model that a restricted fit assumes, by model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .._utils.blas import one_thread
from .._utils.number_text import decimals, fewest_decimals, fixed_text, p_value_clause, p_value_text
from ..exceptions import OptionError
from ..fit.estimates import Estimates
from ..fit.post_estimation import restricted_against_projection
from ..fit.state import FitSteps
from ..report.leaderboard import choose_models
from ..tables.summary_table import Summarised, Summary
from .lookup import require_intervals, require_steps


@dataclass(frozen=True, slots=True, eq=False)
class RestrictionTest(Summarised):
    """Hausman test of the Bradley-Terry model: restricted against unrestricted scores.

    Attributes
    ----------
    statistic : float
        Wald statistic; chi-squared in large samples if the model holds.
    df : int
        Degrees of freedom: the number of directions in which the two estimators can differ.
    pvalue : float
        The share of ``n_draws`` samples of labels from the restricted model whose statistic is at least as large; the
        p-value is at least 1 / (n_draws + 1). Samples are used because the statistic has heavier tails than chi-squared
        where probabilities are near 0 or 1. With clusters, the p-value comes from the chi-squared distribution.
    frame : DataFrame
        By model: ``restricted``, ``unrestricted``, ``difference`` (unrestricted minus restricted), ``std_error`` of the
        difference and ``z``.
    n_draws : int
        Number of samples from the restricted model; zero where the p-value comes from the chi-squared distribution.
    is_natural : bool
        Whether the scores have the functional's own unit.
    """

    statistic: float
    df: int
    pvalue: float
    frame: pd.DataFrame
    n_draws: int = 0

    is_natural: bool = True

    def summary(
        self, title: str | None = None, *, models: Sequence[str] | None = None, top: int | None = None
    ) -> Summary:
        """Return the table for a report: the test, and the scores of both estimators.

        Parameters
        ----------
        title : str, optional
            Stands above the table in place of the default title.
        models : str or sequence of str, optional
            The models that the table shows, in this order; all when None.
        top : int, optional
            Number of models that the table shows, those with the highest restricted scores. The test refers to all
            models in any case; a note says so.

        Returns
        -------
        Summary
            It has ``as_text()``, ``as_html()``, ``as_latex()``, ``as_markdown()`` and ``as_csv()``.

        Raises
        ------
        UnknownModelError
            If no model has a name of ``models``.
        OptionError
            If ``models`` and ``top`` are both given, or have values that they cannot have.
        """
        names = [str(name) for name in self.frame.index]
        ranking = np.argsort(-self.frame["restricted"].to_numpy(), kind="stable").tolist()
        shown = choose_models(names, ranking, models, top)
        digits = decimals(self.frame["std_error"].to_numpy(), fewest=fewest_decimals(self.is_natural))
        scores = self.frame[["restricted", "unrestricted", "difference", "std_error"]].to_numpy()
        z = self.frame["z"].to_numpy()
        rows = tuple(
            (names[j], *(fixed_text(number, digits) for number in scores[j]), _statistic_text(z[j]))
            for j in shown.places
        )
        how = f"{self.n_draws:,} samples of labels from the model" if self.n_draws else "the chi-squared distribution"
        header = (("Statistic:", f"chi2({self.df}) = {self.statistic:.2f}", "P:", p_value_text(self.pvalue)),)
        notes = (
            f"Hausman test of the Bradley-Terry model: P {p_value_clause(self.pvalue)}, from {how}. The hypothesis is "
            f"that the Bradley-Terry model holds for every prompt.",
            '"difference" is the unrestricted minus the restricted score; "std err" is that of the difference. z tests '
            "one difference and is not adjusted.",
        )
        columns = (("restricted", 1), ("unrestricted", 1), ("difference", 1), ("std err", 1), ("z", 1))
        table = Summary("Test of the Bradley-Terry Model", header, columns, rows, notes)
        return table.with_notes(shown.note("The statistic and its P")).with_title(title)


def _statistic_text(z: float) -> str:
    """Return a z statistic as text."""
    return fixed_text(z, 2) if np.isfinite(z) else "n/a"


@one_thread()
def bradley_terry_test(estimates: Estimates, steps: FitSteps | None) -> RestrictionTest:
    """Test the Bradley-Terry model that the fit assumes, see :meth:`RankResults.restriction_test`."""
    if not estimates.estimated_by.has_restriction_test:
        raise OptionError(
            f"restriction_test is for estimator='bt_restricted'; this fit has {estimates.estimator!r}: use "
            f"update(functional='bt', estimator='bt_restricted').restriction_test()"
        )
    require_intervals(estimates, "restriction_test")
    test = restricted_against_projection(require_steps(estimates, steps, "restriction_test"))
    columns = {
        "restricted": test.restricted,
        "unrestricted": test.unrestricted,
        "difference": test.unrestricted - test.restricted,
        "std_error": test.std_errors,
        "z": test.z,
    }
    frame = pd.DataFrame(columns, index=list(estimates.models))
    return RestrictionTest(test.statistic, test.df, test.pvalue, frame, test.n_draws, estimates.scale.natural)
