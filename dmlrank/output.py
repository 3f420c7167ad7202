"""What a result can be written as: summaries, frames, plots and files; the base of RankResults."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from ._options import check_alpha
from .estimates import Estimates
from .exceptions import DataError, DataNotStoredError
from .inference.simultaneous import critical_value
from .report.frames import tidy_frame
from .report.plots import forest_plot
from .report.summary import build_summary
from .report.table import Summary
from .steps import Steps

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Output:
    """The written forms of a result, and the small helpers that its questions share."""

    __slots__ = ()

    estimates: Estimates
    steps: Steps | None

    def summary(self, alpha: float | None = None) -> Summary:
        """The table for a report, best model first, with simultaneous intervals; ``as_text()`` and ``as_html()``."""
        level = self._alpha(alpha)
        return build_summary(self.estimates, level, self._critical(level, "max-t"))

    def tidy(self, alpha: float | None = None, method: str = "max-t") -> pd.DataFrame:
        """One row per model: term, estimate, std_error, statistic, p_value, conf_low, conf_high."""
        return tidy_frame(self.estimates, self._critical(alpha, method))

    def plot(self, ax: Axes | None = None, alpha: float | None = None) -> Axes:
        """Forest plot of the scores with simultaneous intervals; needs matplotlib."""
        level = self._alpha(alpha)
        return forest_plot(self.estimates, self._critical(level, "max-t"), level, ax)

    def __repr__(self) -> str:
        e = self.estimates
        return (
            f"<RankResults: {e.functional}, {len(e.models)} models, {e.design.n_contexts:,} contexts, "
            f"{e.design.n_votes:,} votes; first {e.models[int(np.argmax(e.estimate))]!r}>"
        )

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Store the numbers in a file, without data and learners; :func:`dmlrank.load` reads it."""
        with open(path, "wb") as file:
            pickle.dump(self, file)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a result that :meth:`save` has stored. Only load files that you trust: the format is pickle."""
        with open(path, "rb") as file:
            stored = pickle.load(file)
        if not isinstance(stored, cls):
            raise DataError(f"{os.fspath(path)!r} holds a {type(stored).__name__}, not a RankResults")
        return stored

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.estimates,)

    def _alpha(self, alpha: float | None) -> float:
        return self.estimates.alpha if alpha is None else check_alpha(alpha)

    def _critical(self, alpha: float | None, method: str) -> float:
        level = self._alpha(alpha)
        if method == "max-t" and level == self.estimates.alpha:
            return self.estimates.critical
        return critical_value(self.estimates.covariance, level, method)

    def _live(self, method: str) -> Steps:
        if self.steps is None:
            raise DataNotStoredError(
                f"{method} needs the data and learners of the fit, and this result was stored without them; fit again"
            )
        return self.steps
