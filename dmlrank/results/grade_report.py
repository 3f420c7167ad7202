"""Judges of a table of scores: how well they explain grades, whom they favour, what grades are worth beside them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from .._utils.distributions import normal_critical
from ..fit.estimates import Estimates
from ..fit.state import GradeFigures
from ..inference.covariance import Covariance, free_basis
from ..report.phrases import grades_sentences
from ..tables.display_text import decimals, fixed_text
from ..tables.summary_table import Summary
from .joint_estimates import JointEstimates, JointResults
from .requirements import TitledTable
from .sequential_and_bootstrap import alpha_of


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GradeReport(JointResults, TitledTable):
    """How judges of all answers compare with the grades of a few; :attr:`RankResults.judge` of a table of scores.

    :meth:`conf_int` has joint intervals of whom the judge favours.

    Attributes
    ----------
    estimates : Estimates
        The estimates of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dmlrank as dr
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.normal(size=(300, 1)) + rng.normal(size=(300, 2)) + [0.0, 0.5]
    >>> answers = pd.DataFrame({"prompt": np.repeat(np.arange(300), 2), "model": ["a", "b"] * 300})
    >>> answers["judge_score"] = (truth + 0.5 * rng.normal(size=(300, 2))).ravel()
    >>> answers["grade"] = np.where(rng.random((300, 1)) < 0.2, truth > 0, np.nan).ravel()
    >>> res = dr.dml_rank("grade ~ 1 | model", answers, context="prompt", judge="judge_score", rng=0)
    >>> bool((res.judge.models["worth"] > res.judge.models["graded"]).all())
    True
    """

    estimates: Estimates

    @property
    def figures(self) -> GradeFigures:
        """The numbers of the report."""
        assert self.estimates.grades is not None
        return self.estimates.grades

    @property
    def joint(self) -> JointEstimates:
        """Whom the judge favours, with its covariance."""
        e, g = self.estimates, self.figures
        k, factor = len(e.names), e.scale.factor
        basis = free_basis(np.ones((1, k)), k)
        covariance = Covariance(g.favour_covariance * factor**2, basis, df=e.covariance.df)
        index = pd.Index(list(e.names), name="model")
        return JointEstimates(
            g.favour * factor, covariance, e.names, "", index=index, alpha=e.alpha, seed=e.description.seed
        )

    @property
    def models(self) -> pd.DataFrame:
        """What is known of each model, a row each.

        ``answers``, and how many of them are ``graded`` and ``judged``; the mean ``grade`` that the fit estimates, and
        ``judge``, the mean of the line a + b J through all graded answers (J is the judge's score). ``favour`` is how
        much higher the judge places the model than people do, in grades and compared with the mean of all models, with
        limits that hold jointly. ``correlation`` is that of grades and judge, ``worth`` the number of grades that would
        be as precise without a judge (from 20 grades on).
        """
        e, g = self.estimates, self.figures
        limits = self.conf_int()
        columns = {
            "answers": g.answers,
            "graded": g.graded,
            "judged": g.judged,
            "grade": e.estimate,
            "judge": e.scale.of(g.judge),
            "favour": self.joint.estimate,
            "lower": limits["lower"].to_numpy(),
            "upper": limits["upper"].to_numpy(),
            "correlation": g.correlation,
            "worth": g.worth,
        }
        return pd.DataFrame(columns, index=self.joint.index)

    @property
    def explained(self) -> pd.Series:
        """Share of the variance of grades that is predicted out of fold: by each judge, and by all that is known."""
        return pd.Series(self.figures.explained, [*self.figures.names, "all"], name="explained")

    def table(self, alpha: float | None = None) -> pd.DataFrame:
        """Return estimates from people alone, from people and judges, and from judges alone, side by side.

        Parameters
        ----------
        alpha : float, optional
            One minus the level of each interval; the fit's when None.

        Returns
        -------
        DataFrame
            A row per model: ``humans humans_se both both_se judge judge_se judge_lower judge_upper judge_differs``, as
            :meth:`JudgeReport.table` has them. ``humans`` is the mean of the grades that are there, ``both`` the
            estimate of the fit; ``judge`` is the mean of the line a + b J through all graded answers, and its interval
            is about what the judge would say of all answers.
        """
        e, g = self.estimates, self.figures
        judge, error = e.scale.of(g.judge), g.judge_errors * e.scale.factor
        critical = e.covariance.from_normal(float(normal_critical(alpha_of(e, alpha) / 2)))
        half_width = critical * error
        columns = {
            "humans": e.scale.of(g.alone),
            "humans_se": g.alone_errors * e.scale.factor,
            "both": e.estimate,
            "both_se": e.covariance.std_errors,
            "judge": judge,
            "judge_se": error,
            "judge_lower": judge - half_width,
            "judge_upper": judge + half_width,
            "judge_differs": np.abs(judge - e.estimate) > np.hypot(half_width, critical * e.covariance.std_errors),
        }
        return pd.DataFrame(columns, index=list(e.names))

    def _table(self) -> Summary:
        models, g = self.models, self.figures
        digits = decimals(self.estimates.covariance.std_errors, fewest=3)

        def text(number: float, places: int) -> str:
            return "" if np.isnan(number) else fixed_text(number, places)

        rows = tuple(
            (name, f"{row[0]:,}", f"{row[1]:,}", *(text(v, digits) for v in row[3:8]), text(row[8], 2), text(row[9], 0))
            for name, *row in models.itertuples(name=None)
        )
        heads = tuple((head, 1) for head in ("answers", "graded", "grade", "judge", "favour"))
        heads = (*heads, ("[interval]", 2), ("corr.", 1), ("worth", 1))
        shares = zip(("together", *g.names) if len(g.names) > 1 else ("judge",), np.roll(g.explained, 1), strict=False)
        header = tuple((f"Explained, {name}:", f"{share:.2f}") for name, share in shares)
        note = (
            '"judge" is the mean of the line through all graded answers that turns judge scores into grades. "favour" '
            "is how much higher the judge places a model than people do, compared with the mean of all models; its "
            'intervals hold jointly. "corr.": of grades and judge; "worth" grades would be as precise '
            "without a judge."
        )
        notes = (*grades_sentences(self.estimates), note)
        return Summary("Grades and Judge", header, heads, rows, notes, row_head="model")

    def __repr__(self) -> str:
        return self.as_text()

    def as_text(self) -> str:
        """Return the report as plain text."""
        return self.summary().as_text()
