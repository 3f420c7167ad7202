"""True scores: the mean of a ranking functional over contexts whose category probabilities are known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
import pandas as pd

from ..data.arrays import FloatArray
from ..exceptions import OptionTypeError
from ..functionals import CategoryWeights, named


class Scorer(Protocol):
    """A functional that maps category probabilities to scores."""

    def value(self, mu: FloatArray) -> FloatArray:
        """Return the scores F(mu), (n, d), of category probabilities mu, (n, K, K, C)."""


def true_scores(
    functional: str | Scorer,
    chunks: Iterable[tuple[FloatArray, FloatArray]],
    *,
    n_categories: int,
    models: tuple[str, ...],
) -> pd.Series:
    """Return the weighted mean of F(mu) over contexts."""
    scorer = _bound_functional(functional, n_categories)
    total, weight = np.zeros(()), 0.0
    for mu, weights in chunks:
        total = total + weights @ scorer.value(mu)
        weight += weights.sum()
    scores = total / weight
    return pd.Series(scores, index=models if len(scores) == len(models) else None)


def _bound_functional(functional: str | Scorer, n_categories: int) -> Scorer:
    """Return a functional by name or as it is, with one half as the weight of ties where it leaves the weights open."""
    chosen = named(functional) if isinstance(functional, str) else functional
    if isinstance(chosen, type) or not callable(getattr(chosen, "value", None)):
        raise OptionTypeError(f"functional must be a name or an object with value(mu), not {functional!r}")
    bind = getattr(chosen, "bind", None)
    return chosen if bind is None else bind(weights=CategoryWeights.half(n_categories))
