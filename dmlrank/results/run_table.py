"""What repeated runs tell: their part in the variance of mean scores, and curves of pass@k and pass^k over k."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from .._utils.argument_checks import check_whole, real_number
from .._utils.computation import one_thread, warn
from ..data.derived_pairs import DerivedPairs
from ..estimation.influence import Influence
from ..exceptions import DataError, MissingDataError, OptionError, check_choice, listed, shown
from ..fit.direct_fits import limits_of_means, variance_from_runs
from ..fit.estimates import Estimates
from ..fit.fit_covariance import make_covariance
from ..fit.state import FitState
from ..functionals import PassAtK, PassHatK
from ..inference.score_limits import CombinedMeans
from ..inference.simultaneous import MaxT

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


@one_thread()
def table_of_curve(e: Estimates, state: FitState, kind: str | None, most: int | None, alpha: float) -> pd.DataFrame:
    """Return pass@k or pass^k of all models over k with joint limits, see :meth:`RankResults.curve`."""
    options, source, kinds = state.options, state.source.data, {"pass@k": PassAtK, "pass^k": PassHatK}
    kind = "pass^k" if kind is None and isinstance(options.functional, PassHatK) else kind or "pass@k"
    check_choice(kind, kinds, "kind")
    assert isinstance(source, DerivedPairs)
    if e.sign < 0:
        raise OptionError("curve() counts runs that succeed, and lower_is_better=True says that a score is a failure")
    if state.data.scores is None or np.isnan(state.data.scores.mean).any():
        raise MissingDataError(f"curve(): runs are missing, and missing={options.missing!r} does not say what they are")
    source = source if isinstance(options.missing, str) else source.filled(float(options.missing))
    is_used = np.zeros(len(source.values), dtype=bool)
    is_used[state.data.row_index[state.data.first_row]] = True
    source = source.with_enough(options.pairs.min_votes).only(is_used)
    most = int(source.score_table.n_runs.min()) if most is None else most
    check_whole("most", most, 1)
    scores = [kinds[kind](k, number=source.number).of_runs(source, False).values for k in range(1, most + 1)]
    values, n = np.hstack(scores), state.data.n_contexts
    influence = Influence(values, np.zeros_like(values), np.arange(n), np.ones(n), state.influence.weight)
    covariance = make_covariance(influence, np.empty((0, values.shape[1])), state.units, fixed_prompts=False)
    cluster = None if state.units.clusters is None else state.units.clusters.of_context
    means = limits_of_means(influence, (0.0, 1.0), cluster, task=state.units.task)
    covariance = replace(covariance, means=CombinedMeans((means,), np.eye(values.shape[1])))
    critical = MaxT(covariance, e.description.seed).critical(alpha)
    low, high = covariance.law(influence.estimate, covariance.std_errors).limits(critical)
    columns = {kind: e.scale.of(influence.estimate), "std_error": e.scale.factor * covariance.std_errors}
    columns |= {"lower": e.scale.of(np.maximum(low, 0.0)), "upper": e.scale.of(np.minimum(high, 1.0))}
    index = pd.MultiIndex.from_product([range(1, most + 1), e.models], names=["k", "model"])
    return pd.DataFrame(columns, index=index).swaplevel().sort_index(level="model", sort_remaining=False)
