"""The size of a fit: rows to learn from, probabilities to predict, memory of the features."""

from __future__ import annotations

from dataclasses import dataclass

from ..data.preferences import PreferenceData


@dataclass(frozen=True, slots=True)
class Cost:
    """Size of a fit, without its time, which depends on the machine and on the rounds of boosting.

    training_rows: Labelled comparisons that the models of a fold learn from.
    probabilities: Numbers in mu, n K (K - 1) C. They are computed in chunks and never held together.
    megabytes: Memory of the features.
    """

    training_rows: int
    probabilities: int
    megabytes: float

    @classmethod
    def of(cls, data: PreferenceData, n_folds: int) -> Cost:
        """Return the size of a fit to these data."""
        return cls(
            training_rows=round(len(data.cells) * (n_folds - 1) / n_folds),
            probabilities=data.n_contexts * data.n_items * (data.n_items - 1) * data.n_categories,
            megabytes=data.x.nbytes / 1e6,
        )
