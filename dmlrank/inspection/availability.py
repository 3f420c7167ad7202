"""When models and pairs of models were available: from the first to the last vote of each model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..data.preferences import IntArray
from ..data.read_times import Times


class Availability(NamedTuple):
    """First and last votes of the K models.

    first, last (K,): Times of the first and the last vote of each model; NaT ("not a time") for a model without votes.
    """

    first: Times
    last: Times

    @classmethod
    def of_votes(cls, model_a: IntArray, model_b: IntArray, times: Times, n_models: int) -> Availability:
        """Return the availability of the models.

        Shapes: model_a, model_b (v,), times (v,).
        """
        models, times_of_models = np.concatenate([model_a, model_b]), np.concatenate([times, times]).astype(np.int64)
        bounds = np.iinfo(np.int64)
        first, last = np.full(n_models, bounds.max), np.full(n_models, bounds.min)
        np.minimum.at(first, models, times_of_models)
        np.maximum.at(last, models, times_of_models)
        # A model without votes has no times: the smallest integer stands for "not a time".
        first[first > last] = bounds.min
        return cls(first.view("datetime64[ns]"), last.view("datetime64[ns]"))

    def shares(self, context_times: Times) -> NDArray[np.float64]:
        """Return for each pair of models the share of prompts at whose time both models were available, (K, K).

        The diagonal has the shares of the single models.
        """
        ordered = np.sort(context_times)
        start, end = np.maximum.outer(self.first, self.first), np.minimum.outer(self.last, self.last)
        count = np.searchsorted(ordered, end, side="right") - np.searchsorted(ordered, start, side="left")
        return np.maximum(count, 0) / len(ordered)

    @property
    def are_together(self) -> NDArray[np.bool_]:
        """Whether two models were available at the same time at some moment, (K, K)."""
        return np.maximum.outer(self.first, self.first) <= np.minimum.outer(self.last, self.last)

    def pair_table(self, names: tuple[str, ...], shares: NDArray[np.float64], votes: NDArray[np.int64]) -> pd.DataFrame:
        """Return a row for each unordered pair: when both models were available, for which prompts, with which votes.

        Shapes: shares (K, K), votes (K, K).
        """
        j, k = np.triu_indices(len(names), 1)
        labels, together = np.array(names, dtype=object), self.are_together[j, k]
        start, end = np.maximum(self.first[j], self.first[k]), np.minimum(self.last[j], self.last[k])
        return pd.DataFrame(
            {
                "first": labels[j],
                "second": labels[k],
                "together": together,
                "together_from": pd.Series(start).where(together),
                "together_until": pd.Series(end).where(together),
                "share_prompts": shares[j, k],
                "votes": votes[j, k],
            }
        )
