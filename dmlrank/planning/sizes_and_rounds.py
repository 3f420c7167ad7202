"""How many prompts or votes a difference needs, before there are data; propensities of prompts of several rounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from .._utils.argument_checks import array_of_numbers, check_alpha, check_positive, check_whole, checked, number_in
from ..data.preferences import FloatArray
from ..exceptions import NuisanceError, OptionError, shown
from ..inference.covariance import Covariance
from ..inference.ranks import multiple_for_all
from ..inference.score_limits import normal_critical


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
        gap = np.sqrt(of_one / wanted)
    else:
        gap = np.full(len(runs), check_positive(difference, "difference"))
        wanted = np.ceil(of_one / gap**2).astype(int)
    return pd.DataFrame({"prompts": wanted, "difference": gap}, index=pd.Index(runs.astype(int), name="runs"))


@checked
def mixture_propensity(propensities: Sequence[ArrayLike], shares: Sequence[float]) -> FloatArray:
    """Return the propensity of contexts that were assigned to rounds at random: sum_r rho_r pi_r(x).

    Where each context was offered in one round, chosen at random, the propensity given the context alone is the mixture
    of the rules of all rounds. That of the context's own round is valid, too; the mixture has less extreme inverse
    propensities, by which labels are weighted (the balance heuristic of Veach and Guibas, SIGGRAPH 1995).

    Parameters
    ----------
    propensities : sequence of R arrays, shape (n, K, K)
        The rule of every round in *all* n contexts, not only in those of the round: :meth:`Plan.at`.
    shares : sequence of R float
        Share of the contexts that were offered in each round; the shares sum to one.

    Returns
    -------
    ndarray, shape (n, K, K)
        For ``dml_rank(..., propensity=...)``.

    Examples
    --------
    >>> even, uneven = np.full((1, 2, 2), 0.5), np.full((1, 2, 2), 0.1)
    >>> round(float(mixture_propensity([even, uneven], [0.25, 0.75])[0, 0, 1]), 3)
    0.2
    """
    tables = _tables(propensities)
    rho = array_of_numbers(shares, 1)
    if rho is None or rho.shape != (len(tables),) or not (rho >= 0).all() or not np.isclose(rho.sum(), 1):
        raise OptionError(
            f"shares={shown(shares)} with {len(tables)} rounds; give a number of at least 0 per round, in all one"
        )
    return np.asarray(np.tensordot(rho, tables, axes=1))


@checked
def repeated_propensity(propensities: Sequence[ArrayLike], position_bias: bool = True) -> FloatArray:
    """Return the propensity of contexts that were offered in each of several rounds, with propensities pi_r.

    Votes on one prompt and ordered pair are averaged, so that the pair counts once however often it was labelled. Its
    propensity is therefore the probability of at least one label, 1 - prod_r (1 - pi_r); the expected *number* of
    labels would be too large. With ``position_bias=False`` the display order of each label is drawn at random, so that
    each of the two ordered pairs has the propensity 1 - prod_r (1 - pi_r / 2). Estimation then needs the sum of these
    two.

    Parameters
    ----------
    propensities : sequence of arrays, shape (n, K, K)
        Propensities of the same contexts in each round. The draws of the rounds are independent.
    position_bias : bool
        The ``position_bias`` of the plans.

    Returns
    -------
    ndarray, shape (n, K, K)
        For ``dml_rank(..., propensity=...)``.

    Notes
    -----
    The rule of a round may depend on the labels of earlier rounds through a refit, but not on earlier labels of the
    same context. Otherwise the labels of a context would decide how many votes the context gets, and the average of its
    votes would be biased.

    Examples
    --------
    >>> half = np.full((1, 2, 2), 0.5)
    >>> float(repeated_propensity([half, half])[0, 0, 1])
    0.75
    """
    tables, orders = _tables(propensities), 1 if position_bias else 2
    return np.asarray(orders * (1 - np.prod(1 - tables / orders, axis=0)))


def _tables(propensities: Sequence[ArrayLike]) -> FloatArray:
    """Return the propensities of the rounds as one array, (R, n, K, K)."""
    is_list = isinstance(propensities, Sequence | np.ndarray) and not isinstance(propensities, str)
    parts = [array_of_numbers(part, 3) for part in propensities] if is_list else []
    shapes = {None if part is None else part.shape for part in parts}
    if len(shapes) != 1 or None in shapes:
        raise NuisanceError(
            f"propensities={shown(propensities)} cannot be read; give a list of one array (contexts, models, models) "
            f"per round, all for the same contexts"
        )
    tables = np.stack([part for part in parts if part is not None])
    if not ((tables >= 0) & (tables <= 1)).all():
        raise NuisanceError(f"propensities range from {tables.min():g} to {tables.max():g}; pass probabilities")
    return tables
