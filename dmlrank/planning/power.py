"""What a plan will know: predicted errors, widths and power, and the smallest budget that reaches them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import norm

from ..data.preferences import FloatArray
from ..exceptions import OptionError
from ..inference.covariance import Covariance, free_basis
from ..inference.simultaneous import critical_value
from .specification import Filled, Order, fill

# Relative precision of a budget that is searched for.
_CLOSE = 1e-4


def contrast_covariance(order: Order, sigma: FloatArray, rows: FloatArray) -> Covariance:
    """Predicted covariance of combinations of scores, (J, J), with the rank that the functional's gauge leaves."""
    moving = rows @ free_basis(order.gauge, rows.shape[1])
    directions, size, _ = np.linalg.svd(moving, full_matrices=False)
    matrix = rows @ sigma @ rows.T / order.problem.n_contexts
    return Covariance(matrix, directions[:, size > 1e-9 * size[0]])


def forecast(
    order: Order, filled: Filled, rows: FloatArray, labels: list[str], alpha: float, method: str
) -> pd.DataFrame:
    """Scores, predicted standard errors and full widths of intervals, beside the uniform plan's at the same cost."""
    made: dict[str, FloatArray] = {"score": rows @ order.scores}
    for prefix, sigma in (("", filled.sigma), ("uniform_", filled.uniform_sigma)):
        covariance = contrast_covariance(order, sigma, rows)
        made[f"{prefix}std_error"] = covariance.std_errors
        made[f"{prefix}width"] = 2 * critical_value(covariance, alpha, method) * covariance.std_errors
    made["ratio"] = np.divide(
        made["std_error"],
        made["uniform_std_error"],
        out=np.ones(len(rows)),
        where=made["uniform_std_error"] > 0,
    )
    return pd.DataFrame(made, index=labels)


def widest(order: Order, filled: Filled, alpha: float, method: str) -> float:
    """The largest full width of the intervals of what was asked for."""
    rows = order.asked if len(order.asked) else np.eye(len(order.labels.names))
    covariance = contrast_covariance(order, filled.sigma, rows)
    return float(2 * critical_value(covariance, alpha, method) * covariance.std_errors.max())


def power_of(difference: float, std_error: float, alpha: float) -> float:
    """Power of the two-sided z test of no difference.

    Examples
    --------
    >>> round(power_of(2.8, 1.0, 0.05), 2)
    0.8
    """
    critical = norm.ppf(1 - alpha / 2)
    return float(norm.cdf(difference / std_error - critical) + norm.cdf(-difference / std_error - critical))


def needed_error(difference: float, power: float, alpha: float) -> float:
    """The standard error at which the two-sided z test of no difference has the power, which is above alpha."""
    distance = brentq(lambda z: power_of(z, 1.0, alpha) - power, 0.0, 40.0, xtol=1e-12)
    return abs(difference) / float(distance)


def smallest_budget(
    order: Order, start: float, excess: Callable[[Filled], float], explain: Callable[[Filled], str]
) -> float:
    """The smallest budget with ``excess(plan) <= 1``, to four figures.

    Parameters
    ----------
    order : Order
    start : float
        Where the search begins.
    excess : callable
        What a plan reaches over what it should, falling in the budget.
    explain : callable
        The error for a plan that labels everything and does not reach it.

    Raises
    ------
    OptionError
        If labelling everything is not enough.
    """
    problem = order.problem
    # What a label is worth does not depend on the budget, unless the criterion looks at all of Sigma.
    worth = (
        problem.worth(order.criterion.metric(order.between))
        if order.criterion.kind == "A" and not problem.interdependent
        else None
    )

    def log_excess(log_budget: float) -> float:
        return float(np.log(excess(fill(order, float(np.exp(log_budget)), worth))))

    everything = fill(order, problem.total_cost, worth)
    if excess(everything) > 1:
        raise OptionError(explain(everything))
    top = float(np.log(everything.cost))
    least = -np.inf
    if order.min_propensity is not None:
        least = float(np.log(order.min_propensity * problem.total_cost))
        if log_excess(least) <= 0:
            return float(np.exp(least))
    low = max(min(float(np.log(start)), top) - 0.7, least)
    while log_excess(low) <= 0:
        top, low = low, max(low - 1.5, least)
    found = float(brentq(log_excess, low, top, xtol=_CLOSE / 4)) if log_excess(top) < 0 else top
    while log_excess(found) > 0:
        found += _CLOSE / 2
    return float(np.exp(found))
