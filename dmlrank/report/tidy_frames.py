"""Tidy frames of a result: tidy, glance and augment, named as in the R package broom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from ..data.preferences import FloatArray
from ..fit.estimates import Estimates
from ..fit.state import FitSteps
from ..inference.z_tests import z_statistics


def tidy_frame(results: Estimates, critical: float) -> pd.DataFrame:
    """Return one row per score: term, estimate, std_error, statistic, p_value, conf_low, conf_high, votes.

    A further column ``votes_left_out`` counts the votes on pairs that are not compared. Outputs that are not scores of
    models have no columns of votes. Standard errors, tests and limits are NaN in a result without intervals.
    """
    std_errors = results.std_errors
    lower, upper = results.intervals(critical)
    z = z_statistics(*results.against_neutral())
    frame = pd.DataFrame(
        {
            "term": list(results.names),
            "estimate": results.estimate,
            "std_error": std_errors,
            "statistic": z,
            "p_value": results.p_values(),
            "conf_low": lower,
            "conf_high": upper,
        }
    )
    if results.votes is not None and results.of_models:
        frame["votes"] = results.votes.used
        frame["votes_left_out"] = results.votes.total - results.votes.used
    return frame


def glance_frame(results: Estimates, critical: float, alpha: float) -> pd.DataFrame:
    """Return one row about the fit as a whole; ``critical`` belongs to the intervals at ``alpha``."""
    description, diagnostics = results.description, results.diagnostics
    row = {
        "functional": results.functional,
        "average": results.description.average,
        "estimator": results.estimator,
        "nobs": description.n_contexts,
        "nvotes": description.n_votes,
        "nvotes_used": results.votes.n_used if results.votes else np.nan,
        "nvotes_left_out": results.votes.n_left_out if results.votes else np.nan,
        "ncomparisons": description.n_comparisons,
        "n_unlabelled": description.n_unlabelled,
        "n_dropped": description.n_dropped,
        "n_models": len(results.models),
        "n_pairs": results.graph.n_edges,
        "learner": description.learner,
        "n_folds": description.n_folds,
        "propensity": description.propensity,
        "min_propensity": diagnostics.min_propensity,
        "log_loss": diagnostics.log_loss,
        "log_loss_constant": diagnostics.log_loss_constant,
        "cov_type": description.cov_type,
        "n_clusters": min(results.covariance.n_clusters, default=description.n_contexts),
        "critical": critical,
        "alpha": alpha,
        "scale": results.scale.name,
        "seed": description.seed,
        "version": description.version,
    }
    if results.sequence is not None:
        row |= {"planned": results.sequence.planned, "start": results.sequence.start}
    return pd.DataFrame([row])


def augment_frame(steps: FitSteps, phi: FloatArray, models: tuple[str, ...], model: str | None) -> pd.DataFrame:
    """Return one row per labelled cell, with its first stages and the influence of its context.

    Shapes: phi (n, K).
    """
    data, cells = steps.data, steps.data.cells
    names = np.array(data.items, dtype=object)
    columns: dict[str, object] = {"first": names[cells.first], "second": names[cells.second], "n_votes": cells.n_votes}
    columns |= {f"mean_{name}": cells.y[:, c] for c, name in enumerate(data.categories)}
    if steps.likelihood:
        columns["fitted"] = steps.likelihood.cell_probabilities(data)
    else:
        columns["fold"] = steps.folds.fold[cells.context]
        columns |= {f"prob_{name}": steps.one_step_result.cell_mu[:, c] for c, name in enumerate(data.categories)}
        columns["propensity"] = steps.propensity.cells
        columns["weight"] = 1 / steps.propensity.cells
    if model is None:
        columns |= {f"influence_{name}": phi[cells.context, j] for j, name in enumerate(models)}
    else:
        columns["influence"] = phi[cells.context, models.index(model)]
    return pd.DataFrame(_identifiers(steps, set(columns)) | columns)


def _identifiers(steps: FitSteps, used_names: set[str]) -> dict[str, object]:
    """Return the columns that identify each cell's context; a name in ``used_names`` gets the prefix ``context_``."""
    ids = steps.data.context_ids[steps.data.cells.context]
    names = steps.options.context or ("context",)
    parts: Sequence[Iterable[object]] = list(zip(*ids, strict=True)) if len(names) > 1 else [ids]
    labels = (f"context_{name}" if name in used_names else name for name in names)
    return {label: list(part) for label, part in zip(labels, parts, strict=True)}
