"""More runs or more prompts: how much of the variance of mean scores comes from repeated runs."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .._utils.argument_checks import real_number
from .._utils.computation import warn
from ..exceptions import DataError, OptionError, listed, shown
from ..fit.direct_fits import variance_from_runs
from ..fit.estimates import Estimates
from ..fit.state import FitState

# Largest best number of runs, as a multiple of the runs of the data.
_MOST_RUNS = 10


def table_of_runs(e: Estimates, state: FitState, prompt_cost: float | None, run_cost: float | None) -> pd.DataFrame:
    """Return the shares of runs in the variances of scores and leading differences, see :meth:`RankResults.runs`."""
    costs = [("prompt_cost", prompt_cost), ("run_cost", run_cost)]
    for name, cost in costs:
        number = real_number(cost)
        # A further prompt may be free, and a run is what is paid for.
        is_allowed = number is not None and (0 < number < np.inf or (number == 0 and name == "prompt_cost"))
        if cost is not None and not is_allowed:
            kind = "a number of at least 0" if name == "prompt_cost" else "a positive number"
            raise OptionError(f"{name}={shown(cost)} is not allowed: it is {kind}, or None")
    if (prompt_cost is None) != (run_cost is None):
        raise OptionError("runs() needs both costs for the best number of runs; give prompt_cost= and run_cost=")
    scores = state.data.scores
    if scores is None or not np.isfinite(scores.variance).any():
        reason = f"{e.functional} is no mean of" if scores and (scores.n_runs > 1).any() else "no model has two"
        raise DataError(f"runs(): {reason} runs on a prompt, so that the variance between runs is not known")
    first, *others = np.argsort(-e.merit, kind="stable").tolist()
    contrasts = np.eye(len(e.models))
    contrasts = np.vstack([contrasts, contrasts[first] - contrasts[others]])
    names = [*e.models, *(f"{e.models[first]} - {e.models[j]}" for j in others)]
    variance = np.maximum(np.einsum("pj,jk,pk->p", contrasts, e.covariance.matrix, contrasts), 0.0)
    of_runs, of_one_run = (part * e.scale.factor**2 for part in variance_from_runs(state, contrasts))
    of_prompts = np.where(np.isnan(of_runs), np.nan, np.maximum(variance - of_runs, 0.0))
    is_cut = of_runs > variance
    if is_cut.any():
        warn(
            f"runs(): share_runs is cut at 1 and se_unlimited_runs at 0 for "
            f"{listed([name for name, cut in zip(names, is_cut, strict=True) if cut], 3)}: the variance of runs was "
            f"estimated as larger than the whole variance, so that the data do not tell the part of prompts from none",
        )
    share = np.full(len(variance), np.nan)
    np.divide(variance - of_prompts, variance, out=share, where=variance > 0)
    frame = pd.DataFrame(
        {
            "share_runs": share,
            "se": np.sqrt(variance),
            "se_unlimited_runs": np.sqrt(of_prompts),
            "se_twice_runs": np.sqrt((variance + of_prompts) / 2),
            "se_twice_prompts": np.sqrt(variance / 2),
        },
        index=names,
    )
    if prompt_cost is None or run_cost is None:
        return frame
    with np.errstate(divide="ignore", invalid="ignore"):
        best = np.sqrt(of_one_run * prompt_cost / (state.data.n_contexts * of_prompts * run_cost))
    if prompt_cost == 0:
        best = np.where(np.isnan(of_prompts), np.nan, 1.0)
    # An estimate of no variance between prompts would ask for runs without end, and is often noise.
    most = _MOST_RUNS * float(scores.n_runs.mean())
    capped = [name for name, number in zip(names, best, strict=True) if number > most]
    if capped:
        warn(
            f"runs(): best_runs of {listed(capped, 3)} is cut at {most:.3g}, {_MOST_RUNS} times the runs of the data: "
            f"nearly all of the variance seems to be of runs, and the data do not tell how little is of prompts",
        )
    return frame.assign(best_runs=np.clip(best, 1.0, most))
