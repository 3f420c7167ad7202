"""What labels cost and tell: what judges bought, what to label next; a base of RankResults."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import norm

from ..exceptions import OptionError
from ..fit.judge_value import judge_alone
from ..planning.contrasts import ContrastsLike
from ..planning.from_fit import design_fit
from ..planning.plan import Plan
from ..planning.validate import PlanOptions
from ..report.judge_summary import JudgeReport
from .heterogeneity import Subgroups


class Labelling(Subgroups):
    """The judges of a fit, and plans for further labels."""

    __slots__ = ()

    @property
    def judge(self) -> JudgeReport | None:
        """How judges agree with humans and what they bought; None where the fit has none."""
        e = self.estimates
        return None if e.judge is None else JudgeReport(e.judge, e.names, e.scale.factor)

    def judge_table(self, alpha: float | None = None) -> pd.DataFrame:
        """Scores from humans alone, from humans and judges, and from the judges' verdicts alone, side by side.

        The last are estimated from the verdicts as the first are from the votes (of several judges from their mean), so
        that they rank models as the judge does, with an interval for that. ``judge_differs`` says where this interval
        excludes the estimate from both.

        Parameters
        ----------
        alpha : float, optional
            One minus the level of each interval; the fit's when None.

        Returns
        -------
        DataFrame
            A row per model: ``humans humans_se both both_se judge judge_se judge_lower judge_upper judge_differs``.

        Raises
        ------
        OptionError
            If the fit has no judge.
        JudgeError
            If verdicts are no probabilities.
        DataNotStoredError
            If the result was loaded without data.
        """
        steps, figures, scale = self._live("judge_table"), self.estimates.judge, self.estimates.scale
        if figures is None or steps.verdicts is None:
            raise OptionError("judge_table: this fit has no judge; pass judge= to dml_rank")
        influence, covariance = judge_alone(steps, steps.verdicts)
        said, error = scale.of(influence.estimate), covariance.std_errors * scale.factor
        reach = norm.ppf(1 - self._alpha(alpha) / 2) * error
        columns = {
            "humans": scale.of(figures.alone),
            "humans_se": figures.alone_errors * scale.factor,
            "both": self.estimates.estimate,
            "both_se": self.estimates.covariance.std_errors,
            "judge": said,
            "judge_se": error,
            "judge_lower": said - reach,
            "judge_upper": said + reach,
            "judge_differs": np.abs(said - self.estimates.estimate) > reach,
        }
        return pd.DataFrame(columns, index=list(self.estimates.names))

    def design(
        self,
        budget: float,
        criterion: str = "A",
        *,
        contrasts: ContrastsLike = None,
        costs: ArrayLike = 1.0,
        min_propensity: float | None = None,
        one_pair: bool = False,
        explore: float = 0.0,
        newdata: object = None,
    ) -> Plan:
        """What to label next: the plan that makes the scores most precise for a budget.

        Functional, graph, category weights, position bias and floor are the fit's, probabilities its learners'.

        Parameters
        ----------
        budget, criterion, contrasts, costs, min_propensity, one_pair, explore
            As for :func:`dmlrank.design`.
        newdata : frame, optional
            The prompts to plan for, a row each, with the formula's feature columns and, where the fit has it, the
            column that identifies a prompt. None: the prompts of the fit, out of fold.

        Returns
        -------
        Plan
            Predicted standard errors are those of an estimate from the planned labels alone, prompts independent.

        Raises
        ------
        OptionError
            If an option cannot be used, or the fit has no probabilities (``bt_mle``).
        DataNotStoredError
            If the result was loaded without data.

        Examples
        --------
        >>> import dmlrank as dr
        >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", battles, functional="bt", rng=0)
        >>> plan = res.design(budget=1000, one_pair=True)
        >>> round(plan.expected_cost), len(plan.sample(rng=1))
        (1000, 2000)
        """
        options = PlanOptions(
            budget=budget,
            criterion=criterion,
            contrasts=contrasts,
            costs=costs,
            min_propensity=min_propensity,
            one_pair=one_pair,
            explore=explore,
        )
        return design_fit(self._live("design"), newdata, options)
