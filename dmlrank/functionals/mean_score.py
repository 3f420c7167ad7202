"""The mean of scores, which is no functional of preferences: its name, its meaning and its limits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.preferences import FloatArray
from ..exceptions import OptionError
from .base import Functional, Gauge


@dataclass(frozen=True, eq=False)
class MeanScore(Functional):
    """The mean of a model's scores over prompts; ``number`` is the column of scores."""

    number: str = "score"
    name = "mean"
    interior = False
    linear = True
    gauge_is_known = True
    in_short = "means over prompts of the mean score of a model's runs"
    meaning = "Each score is the mean over prompts of the mean score of the model's runs on the prompt."

    @property
    def label(self) -> str:
        """The name with the column of scores."""
        return f"mean (of {self.number})"

    def gauge(self, n_items: int) -> Gauge:
        return Gauge(np.empty((0, n_items)), "")

    def value(self, mu: FloatArray) -> FloatArray:
        raise OptionError(
            "functional='mean' is the mean of scores, which preferences do not determine; use functional='borda'"
        )
