"""Scores and influence values of single contexts."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .._utils.blas import one_thread
from ..data.formula.features import new_features
from ..data.frames import column_names, require_columns, take_columns
from ..data.preferences import FloatArray
from ..fit.estimates import Estimates, Scale
from ..fit.post_estimation import scores_at, scores_of_contexts
from ..fit.state import FitState


@one_thread()
def influence_values(steps: FitState, scale: Scale) -> FloatArray:
    """Return the influence values phi in the unit of the scores, (n, d), with mean zero."""
    return steps.influence.by_context().centred * scale.factor


@one_thread()
def fitted_scores(estimates: Estimates, steps: FitState) -> pd.DataFrame:
    """Return F(mu(x)) of the fit's contexts, (n, d), from out-of-fold mu; with ``subsample=`` only sampled contexts."""
    if steps.repetitions and steps.first.mean is not None:
        contexts, value = scores_of_contexts(steps)
    elif steps.sample is None:
        contexts, value = np.arange(steps.data.n_contexts), steps.influence.by_context().value
    else:
        contexts, value = steps.sample, steps.first.one_step_result.target.by_context().value
    index = pd.Index([steps.data.context_ids[i] for i in contexts], name="context", tupleize_cols=False)
    return pd.DataFrame(estimates.scale.of(value[contexts]), index=index, columns=list(estimates.names))


@one_thread()
def predicted_scores(estimates: Estimates, steps: FitState, newdata: object) -> pd.DataFrame:
    """Return F(mu(x)) of the rows of a frame, (n, d), from the mean of the folds' learners."""
    feature_map = steps.data.feature_map
    require_columns(feature_map.variables, column_names(newdata), "newdata")
    table = take_columns(newdata, feature_map.variables)
    x = new_features(feature_map, table, keep_missing=steps.options.missing == "keep")
    return pd.DataFrame(estimates.scale.of(scores_at(steps, x)), columns=list(estimates.names))
