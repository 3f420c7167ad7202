"""Refits of an outcome model and its scores after rows of the data frame were dropped, or labels deleted."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._utils.warning_collection import collected_warnings
from ..data.derived_pairs import DerivedPairs
from ..data.formula.features import locate_names
from ..data.formula.parse import parse_formula
from ..data.frames import column_names, take_columns
from ..data.preferences import FloatArray
from ..exceptions import DmlrankError, OptionError
from ..fit.pipeline import run
from ..fit.state import FitSteps, Source
from ..functionals.base import output_names
from ..inference.covariance import Covariance


@dataclass(frozen=True, slots=True, eq=False)
class Refit:
    """Estimates of a contrast after a refit.

    estimate: NaN where the refit failed.
    std_error: Standard error of the estimate; NaN where the refit failed.
    failure: Why the refit failed; empty where it did not.
    """

    estimate: float
    std_error: float
    failure: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class RefitFrames:
    """The frames of a fit, from which rows can be dropped before the model is fitted again.

    steps: The fit to all rows.
    data: The frame of the votes, with all its columns.
    unlabelled: The frame of further contexts.
    """

    steps: FitSteps
    data: pd.DataFrame
    unlabelled: pd.DataFrame | None

    @classmethod
    def of(cls, steps: FitSteps) -> RefitFrames:
        """Read all columns of the frames; refuse fits whose arrays would no longer match the rows."""
        options, source = steps.options, steps.source
        if isinstance(source.data, DerivedPairs):
            raise OptionError(
                "fragility() with comparisons made from scores or rankings: these data have no row per vote that could "
                "be dropped; fit a frame of battles"
            )
        arrays = {
            "mu": options.mu is not None,
            "weights": options.weights is not None and not isinstance(options.weights, str),
            "propensity": not isinstance(options.propensity, str),
            "edge_weights": not isinstance(options.edge_weights, str),
            "graph": not isinstance(options.graph, str),
            "judge": options.judge is not None,
        }
        for name, is_array in arrays.items():
            if is_array:
                raise OptionError(
                    f"fragility() of a fit with {name}=: a refit without some rows needs {name} in a form that follows "
                    f"the rows; give a column, or one of the words that {name} allows, or leave {name} out"
                )
        data = take_columns(source.data, column_names(source.data))
        formula = parse_formula(source.formula)
        roles = (*formula.outcomes, formula.first, formula.second)
        names = locate_names(formula.features, list(data.columns), source.environment, len(data), roles)
        if names.arrays:
            raise OptionError(
                f"fragility() of a fit whose formula uses the array {names.arrays[0]!r}: a refit without some rows "
                f"needs it as a column of the frame"
            )
        unlabelled = options.unlabelled
        further = None if unlabelled is None else take_columns(unlabelled, column_names(unlabelled))
        return cls(steps, data, further)

    def without_contexts(self, dropped: NDArray[np.bool_], contrast: FloatArray) -> Refit:
        """Fit again without all rows of the contexts that ``dropped``, boolean and of shape (n,), marks."""
        data = self.steps.data
        rows = data.row_index[dropped[data.row_context]]
        keep = np.ones(data.n_rows, dtype=bool)
        keep[rows] = False
        if data.n_votes_dropped:
            # Of several votes on a context and pair, the fit has kept the first one. The rows of the others are found
            # by the identifier of their context.
            keep[: len(self.data)] &= ~self._has_identifier(dropped)
        n = len(self.data)
        unlabelled = None if self.unlabelled is None else self.unlabelled[keep[n:]]
        return self._fit(self.data[keep[:n]], unlabelled, contrast)

    def without_votes(self, dropped: NDArray[np.bool_], contrast: FloatArray) -> Refit:
        """Fit again without the labels of the votes that ``dropped``, boolean and of shape (v,), marks; rows stay."""
        data, formula = self.steps.data, parse_formula(self.steps.source.formula)
        rows = data.row_index[data.vote_row[dropped]]
        frame = self.data.copy()
        for name in formula.outcomes:
            column = frame[name]
            frame[name] = column.mask(np.isin(np.arange(len(frame)), rows))
        return self._fit(frame, self.unlabelled, contrast)

    def _has_identifier(self, dropped: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which rows of the frame belong to one of the dropped contexts, by their identifiers."""
        names = list(self.steps.options.context)
        identifiers = pd.MultiIndex.from_frame(self.data[names])
        gone = pd.MultiIndex.from_frame(
            self.steps.data.columns.table(names, self.steps.data.first_row[dropped]).reset_index(drop=True)
        )
        return np.asarray(identifiers.isin(gone))

    def _fit(self, frame: pd.DataFrame, unlabelled: pd.DataFrame | None, contrast: FloatArray) -> Refit:
        """Fit other frames with the options of the first fit, and return the estimate of the contrast."""
        steps = self.steps
        options = replace(steps.options, position_bias=steps.data.ordered)
        if unlabelled is not None:
            options = replace(options, unlabelled=unlabelled if len(unlabelled) else None)
        source = Source(steps.source.formula, frame.reset_index(drop=True), steps.source.environment)
        try:
            with collected_warnings():
                refit = run(options, source)
        except DmlrankError as error:
            return Refit(float("nan"), float("nan"), str(error))
        names = output_names(refit.setup.functional, refit.data.items)
        old_names = output_names(steps.setup.functional, steps.data.items)
        needed = [name for name, weight in zip(old_names, contrast, strict=True) if weight]
        missing = [name for name in needed if name not in names]
        if missing:
            return Refit(float("nan"), float("nan"), f"{missing[0]} has no votes left")
        place = {name: weight for name, weight in zip(old_names, contrast, strict=True) if weight}
        weights = np.array([place.get(name, 0.0) for name in names])
        return Refit(float(weights @ refit.influence.estimate), contrast_error(refit.covariance, weights))


def contrast_error(covariance: Covariance, weights: FloatArray) -> float:
    """Return the standard error of a linear combination of scores with coefficients (d,)."""
    return float(np.sqrt(np.maximum(weights @ covariance.matrix @ weights, 0.0)))
