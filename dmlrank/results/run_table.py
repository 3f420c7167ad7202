"""Tables of repeated runs: curves over numbers of runs, costs per success, and how many runs a difference needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.linalg import block_diag

from .._utils.argument_checks import check_positive, check_whole, number_in, place_of
from .._utils.tasks_and_threads import one_thread, warn
from ..data.arrays import FloatArray
from ..data.derived_pairs import DerivedPairs, Runs
from ..data.frames import column_names, require_columns, take_columns
from ..data.pairs_from_scores import further_runs
from ..estimation.influence import Influence
from ..estimation.joint_influence import side_by_side
from ..exceptions import DataError, IntervalWarning, MissingDataError, OptionError, check_choice, listed
from ..fit.direct_fits import limits_of_means, variance_from_runs
from ..fit.estimates import Estimates
from ..fit.estimators import MEANS
from ..fit.fit_covariance import clustered_covariance, covariance_of, make_covariance
from ..fit.linear_map import in_unit
from ..fit.state import FitState
from ..functionals import PassAtK, PassHatK
from ..inference.covariance import Covariance, cluster_sums, match_blocks
from ..inference.ranks import multiple_needed, smallest_gap
from ..inference.score_limits import UNBOUNDED, CombinedMeans
from ..inference.simultaneous import MaxT
from ..report.first_place import independent_units
from ..report.phrases import SummaryLevel
from .context_variables import context_table


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
    means = limits_of_means(influence, (0.0, 1.0), state.units.cluster, task=state.units.task)
    covariance = replace(covariance, means=CombinedMeans((means,), np.eye(values.shape[1])))
    critical = MaxT(covariance, e.description.seed).critical(alpha)
    low, high = covariance.law(influence.estimate).limits(critical)
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
    doubt_of_skew(cluster_sums(influence, steps.units.cluster)[0] @ slope.T, "costs per success")
    # Costs that cannot be negative have no negative ratio.
    low = np.maximum(low, 0.0) if (costs >= 0).all() else low
    first = {"score": score, "cost": cost, "per_success": ratio} if against is None else {"ratio": ratio}
    limits = {"std_error": of_ratios.std_errors, "lower": low, "upper": high}
    return pd.DataFrame(first | limits, index=names)


def values_of_runs(state: FitState, models: Sequence[str], column: str) -> Runs:
    """Return a further column of a table of scores for the runs of some models on the prompts of the fit."""
    source = state.source.data
    if not isinstance(source, DerivedPairs) or source.rows is None:
        raise OptionError(
            f"{column!r} names a column by prompt and model, which a table of scores has; for votes, give a number for "
            f"each model: pareto({{'{models[0]}': 0.5, ...}})"
        )
    is_used = np.zeros(len(source.values), dtype=bool)
    is_used[state.data.row_index[state.data.first_row]] = True
    return further_runs(source, column).only(is_used).of_items(np.array([source.models.index(name) for name in models]))


def costs_of_runs(state: FitState, models: Sequence[str], column: str) -> FloatArray:
    """Return mean costs of the runs of a model on a prompt, (n, K); those of k runs where the score is that of k runs.

    Runs that failed or were lost count with what they cost. A run without a recorded cost is left out, which is said.
    """
    runs, functional = values_of_runs(state, models, column), state.options.functional
    costs, n_unknown = runs.table().mean, int(runs.n_missing.sum())
    n_missing = np.isnan(costs).sum(axis=0)
    if n_missing[j := int(n_missing.argmax())]:
        raise MissingDataError(
            f"column {column!r} has no value for {models[j]!r} on {n_missing[j]:,} of {len(costs):,} prompts; every "
            f"model needs a cost on every prompt: fit with missing='common', or give pareto() a number for each model"
        )
    if n_unknown:
        warn(
            f"{n_unknown:,} of {n_unknown + len(runs.value):,} runs have no {column}: mean costs are those of the runs "
            f"whose cost was recorded, also of failed and lost ones"
        )
    return costs * functional.k if isinstance(functional, PassAtK) else costs


def costs_in_column(state: FitState, models: Sequence[str], column: str, newdata: object) -> FloatArray:
    """Return the costs of a plan from a column: (n,) by prompt for votes, (n, K) by prompt and model for scores."""
    if state.estimator is not MEANS:
        if newdata is None:
            given = context_table(state, [column], "costs of a plan")[column]
        else:
            require_columns([column], column_names(newdata), "newdata")
            given = take_columns(newdata, [column])[column]
        costs = pd.to_numeric(given, errors="coerce").to_numpy(dtype=float)
        if np.isnan(costs).any():
            wrong = given[np.isnan(costs)].iloc[0]
            raise DataError(f"costs of a plan: column {column!r} holds {wrong!r}; every prompt needs a number")
        return np.asarray(costs)
    known = [name for name in models if name in state.data.items]
    values = np.full((state.data.n_contexts, len(models)), np.nan)
    values[:, : len(known)] = values_of_runs(state, known, column).table().mean
    is_there = np.isfinite(values)
    n_there = is_there.sum(axis=1, keepdims=True)
    total = np.where(is_there, values, 0.0).sum(axis=1, keepdims=True)
    if not n_there.all():
        raise MissingDataError(
            f"column {column!r} has no value on {int((n_there == 0).sum()):,} of {len(values):,} prompts; fill the gaps"
        )
    # A run without a cost has the mean of the others on the prompt, times the model's cost elsewhere relative to it.
    mean = total / n_there
    of_model = np.where(is_there, values, 0.0).sum(axis=0)
    elsewhere = (is_there * mean).sum(axis=0)
    ratio = np.divide(of_model, elsewhere, out=np.ones(len(models)), where=elsewhere > 0)
    return np.where(is_there, values, mean * ratio)


def random_costs(e: Estimates, state: FitState, column: str) -> tuple[FloatArray, float | None, Covariance, str]:
    """Return mean costs, (K,), their unit, the joint covariance with scores, (2 K, 2 K), in it, and a doubt.

    The unit is such that costs and scores have errors of one size. Costs are known, with None in its place, where each
    model costs the same on all prompts, or the prompts of the fit are all there are.
    """
    units, values = state.units, costs_of_runs(state, e.models, column)
    n, weight = len(values), state.influence.weight
    if state.options.prompts == "fixed" or (values == values[0]).all():
        return weight @ values / weight.sum(), None, e.covariance, ""
    sizes = np.median(values.std(axis=0)) / np.sqrt(n), np.median(e.covariance.std_errors)
    size = float(sizes[0] / sizes[1]) if min(sizes) > 0 else 1.0
    values = values / size
    influence = Influence(values, np.zeros_like(values), np.arange(n), np.ones(n), weight)
    none = np.empty((0, values.shape[1]))
    of_costs = covariance_of(state, influence, none)
    parts = [state.influence.by_context(), influence]
    parts = parts if units.task is None else [part.within(units.task) for part in parts]
    gauge = block_diag(state.setup.functional.gauge(state.data.n_items).basis, none)
    rows = side_by_side([in_unit(parts[0], e.scale), parts[1]])
    joint = clustered_covariance(rows, gauge, units.clusters, None)
    matrix = match_blocks(joint.matrix, [e.covariance, of_costs])
    basis = np.asarray(block_diag(e.covariance.basis, of_costs.basis))
    means, df = e.covariance.means, min(e.covariance.df, joint.df)
    if means is not None:
        part = limits_of_means(influence, (float(values.min()), float(values.max())), units.cluster, task=units.task)
        unbounded = np.full(values.shape[1], UNBOUNDED)
        costs = CombinedMeans((replace(part, least=-unbounded, most=unbounded),), np.eye(values.shape[1]))
        # The unseen prompt has a cost of its own, whatever its score is.
        means = CombinedMeans.side_by_side([means, costs], [np.arange(int(part.n))] * 2)
    joint = replace(joint, matrix=matrix, basis=basis, note=e.covariance.note, df=df, means=means)
    sums = cluster_sums(parts[1], units.cluster)[0]
    gaps = np.hstack([sums[:, :j] - sums[:, [j]] for j in range(1, sums.shape[1])])
    return influence.estimate * size, size, joint, doubt_of_skew(gaps, "differences of costs")


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


def table_of_sizes(
    e: Estimates, steps: FitState | None, level: SummaryLevel, difference: float | None, power: float
) -> pd.DataFrame:
    """Return what the leads of the first model need, alone and all at once; see :meth:`RankResults.sample_size`."""
    first, alpha = level.first, level.alpha
    number_in("power", power, lambda x: alpha < x < 1, f"it must be a number between alpha={alpha:g} and 1")
    if first is None or e.description.prompts == "fixed":
        raise OptionError("sample_size() is about differences of models on further prompts, and this result has none")
    given = None if difference is None else np.full(len(first.others), check_positive(difference, "difference"))
    lead = first.difference if given is None else given
    unit, n_units = independent_units(e)
    errors, leader = first.std_error, e.models[first.leader]
    times = [multiple_needed(*pair, first.critical, power) for pair in zip(lead, errors, strict=True)]
    frame = pd.DataFrame(
        {
            "difference": lead,
            "std_error": errors,
            "smallest": [smallest_gap(error, first.critical, power) for error in errors],
            "times": times,
        },
        index=[f"{leader} - {e.models[k]}" for k in first.others],
    )
    frame.loc["first place"] = (np.nan, np.nan, np.nan, first.times_more(power, leads=given))
    wanted = frame["times"]
    named = {unit if " " not in unit else "clusters": n_units, f"{e.counts}s": e.description.n_votes}
    frame = frame.assign(**{name: np.ceil(wanted * number) for name, number in named.items()})
    scores = None if steps is None else steps.data.scores
    if steps is None or scores is None or np.isnan(scores.mean).any() or not np.isfinite(scores.variance).any():
        return frame
    # With R times the runs the variance is that of prompts and 1 / R of that of runs.
    rows = np.eye(len(e.models))[first.leader] - np.eye(len(e.models))[first.others]
    of_runs = np.append(np.minimum(variance_from_runs(steps, rows) * e.scale.factor**2, errors**2), np.nan)
    variance = np.append(errors**2, np.nan)
    share = np.divide(of_runs, variance, out=np.full(len(variance), np.nan), where=variance > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        room = variance / wanted.to_numpy() - (variance - of_runs)
        further = np.where(room <= 0, np.inf, of_runs / room)
        least = np.maximum(np.ceil(n_units * wanted * (1 - share)), 1)
    return frame.assign(share_runs=share, times_runs=further, prompts_many_runs=least)
