"""What repeated runs and their costs tell: curves of pass@k and pass^k over k, and costs per success."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from .._utils.argument_checks import check_whole, place_of
from .._utils.tasks_and_threads import one_thread, warn
from ..data.derived_pairs import DerivedPairs
from ..data.preferences import FloatArray
from ..estimation.influence import Influence
from ..exceptions import DataError, IntervalWarning, MissingDataError, OptionError, check_choice, listed
from ..fit.direct_fits import limits_of_means
from ..fit.estimates import Estimates
from ..fit.fit_covariance import make_covariance
from ..fit.state import FitState
from ..functionals import PassAtK, PassHatK
from ..inference.covariance import cluster_sums
from ..inference.score_limits import CombinedMeans
from ..inference.simultaneous import MaxT
from .context_variables import costs_of_runs


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
    runs = source.score_table.n_runs
    if most is None and (few := int((runs < runs.max()).any(axis=1).sum())):
        warn(
            f"curve() ends at k={runs.min()}: {few:,} of {len(runs):,} prompts have fewer than {runs.max()} runs of a "
            f"model, and {runs.min()} at least; missing=0.0 counts lost runs as failures, and most= says how far to go"
        )
    most = int(runs.min()) if most is None else most
    check_whole("most", most, 1)
    scores = [kinds[kind](k, number=source.number).of_runs(source, False).values for k in range(1, most + 1)]
    values, n = np.stack(scores, axis=2).reshape(len(scores[0]), -1), state.data.n_contexts
    influence = Influence(values, np.zeros_like(values), np.arange(n), np.ones(n), state.influence.weight)
    covariance = make_covariance(influence, np.empty((0, values.shape[1])), state.units, fixed_prompts=False)
    cluster = None if state.units.clusters is None else state.units.clusters.of_context
    means = limits_of_means(influence, (0.0, 1.0), cluster, task=state.units.task)
    covariance = replace(covariance, means=CombinedMeans((means,), np.eye(values.shape[1])))
    critical = MaxT(covariance, e.description.seed).critical(alpha)
    low, high = covariance.law(influence.estimate, covariance.std_errors).limits(critical)
    columns = {kind: e.scale.of(influence.estimate), "std_error": e.scale.factor * covariance.std_errors}
    columns |= {"lower": e.scale.of(np.maximum(low, 0.0)), "upper": e.scale.of(np.minimum(high, 1.0))}
    return pd.DataFrame(columns, pd.MultiIndex.from_product([e.models, range(1, most + 1)], names=["model", "k"]))


@one_thread()
def table_per_success(e: Estimates, steps: FitState, column: str, against: str | None, alpha: float) -> pd.DataFrame:
    """Return mean costs per unit of the mean score, or their ratios, see :meth:`RankResults.per_success`."""
    costs, n_models = costs_of_runs(steps, e.models, column), len(e.models)
    own = steps.influence.by_context()
    parts = (np.hstack([own.value, costs]), np.hstack([own.correction, np.zeros_like(costs)]))
    influence = Influence(*parts, np.arange(len(costs)), np.ones(len(costs)), steps.influence.weight)
    joint = make_covariance(influence, np.empty((0, 2 * n_models)), steps.units, fixed_prompts=False)
    score, cost = influence.estimate[:n_models], influence.estimate[n_models:]
    for means, what in ((score, "score"), *([] if against is None else [(cost, "cost")])):
        if (means <= 0).any():
            none = listed([name for name, value in zip(e.models, means, strict=True) if value <= 0])
            raise DataError(f"the mean {what} of {none} is not above 0, so that there is no ratio; leave it out")
    names, below, above, change = e.models, score, cost, np.eye(2 * n_models)
    if against is not None:
        # The ratio of two costs per success is that of two products, c_j s_0 / (s_j c_0).
        base, (of_score, of_cost) = place_of(e.models, against), (change[:n_models], change[n_models:])
        other = np.delete(np.arange(n_models), base)
        names = tuple(f"{e.models[j]} / {against}" for j in other)
        below, above = score[other] * cost[base], cost[other] * score[base]
        of_below = cost[base] * of_score[other] + np.outer(score[other], of_cost[base])
        change = np.vstack([of_below, score[base] * of_cost[other] + np.outer(cost[other], of_score[base])])
    ratio = above / below
    # The derivative of a / b is (da - r db) / b.
    slope = np.hstack([np.diag(-ratio / below), np.diag(1 / below)]) @ change
    of_ratios = joint.of_combinations(slope)
    critical = MaxT(of_ratios, e.description.seed).critical(alpha, "max-t")
    low, high = fieller_limits(below, above, change @ joint.matrix @ change.T, critical)
    of_context = None if steps.units.clusters is None else steps.units.clusters.of_context
    doubt_of_skew(cluster_sums(influence, of_context)[0] @ slope.T, "costs per success")
    # Costs that cannot be negative have no negative ratio.
    low = np.maximum(low, 0.0) if (costs >= 0).all() else low
    first = {"score": score, "cost": cost, "per_success": ratio} if against is None else {"ratio": ratio}
    limits = {"std_error": of_ratios.std_errors, "lower": low, "upper": high}
    return pd.DataFrame(first | limits, index=names)


def fieller_limits(
    below: FloatArray, above: FloatArray, matrix: FloatArray, critical: float
) -> tuple[FloatArray, FloatArray]:
    """Return the ratios r at which above - r below is within ``critical`` standard errors of zero, (J,) each.

    Where the denominator itself is that close to zero, no ratio is too large. Shapes: ``matrix`` of denominators and
    then numerators, (2 J, 2 J).
    """
    n, spread = len(below), critical**2 * matrix
    a, c = below**2 - np.diag(spread)[:n], above**2 - np.diag(spread)[n:]
    b = below * above - np.diag(spread[:n, n:])
    root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
    is_bounded = a > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(is_bounded | (c > 0), c / (b + root), 0.0)
        high = np.where(is_bounded, (b + root) / a, np.inf)
    return low, high


def doubt_of_skew(rows: FloatArray, what: str) -> str:
    """Say, with a warning, that costs are too skewed for so few units, from what each adds to J estimates, (g, J).

    A mean of n values of skewness s is nearly normal if n > 25 s^2 (Cochran 1977, section 2.15). Here s is the median
    of all estimates. With six models, log-normal costs and 25 to 300 prompts, some joint interval of differences at
    95 % missed in 3 to 7 % of 150 samples in settings most of whose samples meet this, and in 6 to 42 % in those where
    most do not.
    """
    second, third = ((rows**power).mean(axis=0) for power in (2, 3))
    varying = second > 0
    skewness = float(np.median(np.abs(third[varying]) / second[varying] ** 1.5)) if varying.any() else 0.0
    if len(rows) >= 25 * skewness**2:
        return ""
    doubt = (
        f"Intervals of costs are too narrow: the {what} have a skewness of {skewness:.1f} (median), for which "
        f"{len(rows):,} prompts or clusters are too few; about {float(f'{25 * skewness**2:.2g}'):,.6g} or more are "
        f"needed."
    )
    warn(doubt, kind=IntervalWarning)
    return doubt
