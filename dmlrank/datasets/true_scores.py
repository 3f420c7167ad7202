"""True scores: a ranking functional averaged over contexts whose category probabilities are known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
import pandas as pd

from ..exceptions import OptionTypeError
from ..functionals import CategoryWeights, named
from .random_draws import FloatArray


class Scorer(Protocol):
    """Anything with scores F(mu), (n, d), of category probabilities mu, (n, K, K, C)."""

    def value(self, mu: FloatArray) -> FloatArray: ...


def true_scores(
    functional: str | Scorer,
    chunks: Iterable[tuple[FloatArray, FloatArray]],
    *,
    n_categories: int,
    models: tuple[str, ...],
) -> pd.Series:
    """Weighted mean of F(mu) over contexts that come in chunks.

    Parameters
    ----------
    functional : str or functional
        A name, or an object with ``value``. Category weights that it leaves open are one half for every tie.
    chunks : iterable of (mu, weights)
        Category probabilities, (m, K, K, C), and the weight of each context, (m,).
    n_categories : int
        C.
    models : tuple of str
        Names of the K items.

    Returns
    -------
    pandas.Series
        Scores, (K,), by model. A functional whose scores are not one for each model, (d,), gives them by position.

    Raises
    ------
    OptionError
        If there is no functional of that name.
    OptionTypeError
        If ``functional`` is neither a name nor an object with ``value``.
    """
    scorer = _bound(functional, n_categories)
    total, weight = np.zeros(()), 0.0
    for mu, weights in chunks:
        total = total + weights @ scorer.value(mu)
        weight += weights.sum()
    scores = total / weight
    return pd.Series(scores, index=models if len(scores) == len(models) else None)


def _bound(functional: str | Scorer, n_categories: int) -> Scorer:
    chosen = named(functional) if isinstance(functional, str) else functional
    if isinstance(chosen, type) or not callable(getattr(chosen, "value", None)):
        raise OptionTypeError(f"functional must be a name or an object with value(mu), not {functional!r}")
    bind = getattr(chosen, "bind", None)
    return chosen if bind is None else bind(weights=CategoryWeights.half(n_categories))
