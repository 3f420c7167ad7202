"""How many prompts and runs, or votes, a difference of two models needs, before there are data."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .._utils.argument_checks import check_alpha, check_whole, checked, number_in
from ..exceptions import OptionError
from ..inference.covariance import Covariance
from ..inference.ranks import multiple_for_all
from ..inference.score_limits import normal_critical
from .plan_options import check_positive


@checked
def sample_size(
    difference: float | None = None,
    *,
    prompts: int | None = None,
    rate: float | None = None,
    repeat: float = 0.5,
    shared: float = 0.0,
    ties: float = 0.0,
    models: int = 2,
    alpha: float = 0.05,
    power: float = 0.8,
) -> pd.DataFrame:
    """Say how many prompts show a difference of two models, or which difference so many prompts show.

    After a fit, also of a pilot, :meth:`RankResults.sample_size` says it from the data.

    Parameters
    ----------
    difference : float, optional
        The true difference: of rates of success, or without a rate of the shares of votes that the two models win.
    prompts : int, optional
        The number of prompts (of votes without a rate), in place of a difference.
    rate : float, optional
        Share of runs that succeed, that of both models about; None for votes on answers of the two.
    repeat, shared : float
        Correlation of two runs of a model on a prompt, and of runs of the two models on a prompt, at most ``repeat``.
    ties : float
        Share of votes that are ties.
    models : int
        Number of models, of which the first leads each of the others by the difference: the test of first place, as in
        :meth:`RankResults.sample_size`, finds all of these leads at once.
    alpha, power : float
        Probability of a wrong claim, and of finding the difference.

    Returns
    -------
    DataFrame
        For votes a row, else a row for 1, 2, 4 and 8 ``runs`` of each prompt: ``prompts`` and ``difference``.

    Raises
    ------
    OptionError
        If not one of difference and prompts is given, or a number is not allowed.

    Notes
    -----
    The variance of the difference on a prompt with R runs is 2 p (1 - p) (repeat + (1 - repeat) / R - shared); that of
    a vote is 1 - ties.

    Examples
    --------
    >>> import dmlrank as dr
    >>> dr.planning.sample_size(0.02, rate=0.6, repeat=0.6, shared=0.4)["prompts"].tolist()
    [5652, 3768, 2826, 2355]
    """
    if (difference is None) == (prompts is None):
        raise OptionError("sample_size() has a difference to show or a number of prompts; give one of the two")
    level, inside = check_alpha(alpha), "it must be a number between 0 and 1"
    number_in("power", power, lambda x: level < x < 1, f"it must be a number between alpha={level:g} and 1")
    for name, value, most in (("ties", ties, 0.99), ("repeat", repeat, 1.0), ("shared", shared, repeat)):
        number_in(name, value, lambda x, most=most: 0 <= x <= most, f"it must be between 0 and {most:g}")  # type: ignore[misc]
    check_whole("models", models, 2)
    runs, variance = np.ones(1), np.array([1.0 - ties])
    if rate is not None:
        number_in("rate", rate, lambda x: 0 < x < 1, inside)
        runs = np.array([1.0, 2.0, 4.0, 8.0])
        variance = np.maximum(2 * rate * (1 - rate) * (repeat + (1 - repeat) / runs - shared), 1e-12)
    # Of a unit lead over each of the others, whose variances and covariances are those of independent models.
    rows, leads = np.eye(models)[0] - np.eye(models)[1:], np.ones(models - 1)
    critical = float(normal_critical(level / 2))
    of_one = np.array(
        [multiple_for_all(leads, rows, Covariance(v / 2 * np.eye(models), rows.T), critical, power) for v in variance]
    )
    if difference is None:
        check_whole("prompts", prompts, 2)
        wanted = np.full(len(runs), prompts)
        shown = np.sqrt(of_one / wanted)
    else:
        shown = np.full(len(runs), check_positive(difference, "difference"))
        wanted = np.ceil(of_one / shown**2).astype(int)
    return pd.DataFrame({"prompts": wanted, "difference": shown}, index=pd.Index(runs.astype(int), name="runs"))
