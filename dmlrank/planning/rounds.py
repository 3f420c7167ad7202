"""Propensities of contexts that were labelled in several rounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..data.preferences import FloatArray
from ..exceptions import NuisanceError, OptionError


def mixture_propensity(propensities: Sequence[ArrayLike], shares: Sequence[float]) -> FloatArray:
    """Propensity of contexts that were dealt to rounds at random: sum_r rho_r pi_r(x).

    Where each context was offered in one round, and which one says nothing about it, the propensity given the context
    alone is the mixture of the rounds' rules. Its own round's propensity is valid, too; the mixture has less extreme
    weights, since a pair that one rule neglects counts with the attention of the others (the balance heuristic of
    Veach and Guibas, SIGGRAPH 1995).

    Parameters
    ----------
    propensities : sequence of R arrays, shape (n, K, K)
        Every round's rule in *all* n contexts, not only in its own: :meth:`Plan.at`.
    shares : sequence of R float
        Share of the contexts that each round was offered; they sum to one.

    Returns
    -------
    ndarray, shape (n, K, K)
        For ``dml_rank(..., propensity=...)``.

    Raises
    ------
    OptionError, NuisanceError
        If the shares are no shares of these rounds, or a propensity is outside [0, 1].

    Examples
    --------
    >>> even, uneven = np.full((1, 2, 2), 0.5), np.full((1, 2, 2), 0.1)
    >>> round(float(mixture_propensity([even, uneven], [0.25, 0.75])[0, 0, 1]), 3)
    0.2
    """
    tables = _tables(propensities)
    rho = np.asarray(shares, dtype=float)
    if rho.shape != (len(tables),) or not (rho >= 0).all() or not np.isclose(rho.sum(), 1):
        raise OptionError(f"shares={list(shares)}: needed are {len(tables)} numbers that sum to one, one per round")
    return np.asarray(np.tensordot(rho, tables, axes=1))


def repeated_propensity(propensities: Sequence[ArrayLike], position_bias: bool = True) -> FloatArray:
    """Propensity of contexts that were offered in every one of several rounds: P(at least one label).

    Votes on one prompt and ordered pair are averaged, and such a cell counts once however often it was labelled. Its
    propensity is therefore 1 - prod_r (1 - pi_r): the expected *number* of labels would be too large. Where order does
    not matter a pair has two cells, shown in a random order each time, and what estimation needs is the expected number
    of labelled ones, 2 (1 - prod_r (1 - pi_r / 2)).

    Parameters
    ----------
    propensities : sequence of arrays, shape (n, K, K)
        Propensities of the same contexts in each round; independent draws.
    position_bias : bool
        As in the plans.

    Returns
    -------
    ndarray, shape (n, K, K)

    Notes
    -----
    A round's rule may depend on the labels of earlier rounds as a whole (through a refit), not on those of the context
    itself: otherwise its votes would be more numerous where they turned out one way.

    Examples
    --------
    >>> half = np.full((1, 2, 2), 0.5)
    >>> float(repeated_propensity([half, half])[0, 0, 1])
    0.75
    """
    tables, orders = _tables(propensities), 1 if position_bias else 2
    return np.asarray(orders * (1 - np.prod(1 - tables / orders, axis=0)))


def _tables(propensities: Sequence[ArrayLike]) -> FloatArray:
    parts = [np.asarray(part, dtype=float) for part in propensities]
    if not parts or any(part.shape != parts[0].shape or part.ndim != 3 for part in parts):
        raise NuisanceError(
            f"propensities have the shapes {[part.shape for part in parts]}; needed is one array (contexts, models, "
            f"models) per round, all for the same contexts"
        )
    tables = np.stack(parts)
    if not ((tables >= 0) & (tables <= 1)).all():
        raise NuisanceError("propensities lie between 0 and 1")
    return tables
