"""Propensities of prompts that were labelled in several rounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from .._utils.argument_checks import array_of_numbers, check_flag, checked
from ..data.preferences import FloatArray
from ..exceptions import NuisanceError, OptionError, shown


@checked
def mixture_propensity(propensities: Sequence[ArrayLike], shares: Sequence[float]) -> FloatArray:
    """Return the propensity of contexts that were assigned to rounds at random: sum_r rho_r pi_r(x).

    Where each context was offered in one round, chosen at random, the propensity given the context alone is the mixture
    of the rules of all rounds. The propensity of the context's own round is valid, too. The mixture has less extreme
    inverse propensities, by which the estimator weights labels, since a pair with a small propensity in one round may
    have a larger one in others (the balance heuristic of Veach and Guibas, SIGGRAPH 1995).

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

    Raises
    ------
    OptionError, NuisanceError
        If there is not one share for each round, the shares do not sum to one, or a propensity is outside [0, 1].

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
            f"shares={shown(shares)} with {len(tables)} rounds; pass one number of at least 0 per round, such that the "
            f"numbers sum to one"
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
    check_flag("position_bias", position_bias)
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
        raise NuisanceError(
            f"propensities range from {tables.min():g} to {tables.max():g}; pass probabilities, between 0 and 1"
        )
    return tables
