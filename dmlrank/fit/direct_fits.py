"""Fits without the first stages mu and pi: Bradley-Terry by maximum likelihood, and means of scores.

Means with missing scores have a predictor of their own (:mod:`dmlrank.estimation.predicted_scores`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._utils.argument_checks import real_array, require_shape
from .._utils.tasks_and_threads import warn
from ..data.arrays import name_of
from ..data.derived_pairs import DerivedPairs, ScoreTable
from ..data.formula.parse import parse_formula
from ..data.frames import require_columns
from ..data.graph import Graph
from ..data.outcomes import require_mirrored_worths
from ..data.pairs_from_scores import numbers_in
from ..data.preferences import FEW_CLUSTERS, FloatArray, IntArray, PreferenceData
from ..estimation.cross_fitting import assign_folds, fold_key
from ..estimation.diagnostics import FEW_UNLIKE, effective_contexts, warn_of_few_prompts
from ..estimation.influence import Influence
from ..estimation.unanimous_pairs import LabelErrors, find_unanimous_pairs
from ..exceptions import DataError, IntervalWarning, MissingDataError, NuisanceError, OptionError, listed
from ..functionals import Borda, CategoryWeights
from ..inference.covariance import cluster_sums, unit_sums
from ..inference.score_limits import CombinedMeans, MeanScores, typical_sizes
from ..nuisance.supplied_propensity import places_in
from .compared_pairs import (
    OrderChoice,
    Setup,
    choose_pairs,
    comparison_graph,
    restrict_items,
    set_up_likelihood,
    votes_left_out,
)
from .fit_covariance import (
    crossed_cluster,
    ignored_order,
    make_covariance,
    warn_of_covariance,
    warn_of_ignored_order,
    warn_of_unanimous_pairs,
)
from .judges_of_scores import (
    Judges,
    grade_figures,
    read_judges,
    require_comparable,
    require_enough,
    warn_without_overlap,
)
from .stages import FirstStages, read_units
from .state import FitState, Source, Units

if TYPE_CHECKING:
    from ..estimation.bt_mle import BradleyTerryFit
    from ..estimation.predicted_scores import CorrectedMeans, ScoreCells


def run_maximum_likelihood(stages: FirstStages, data_as_read: PreferenceData) -> FitState:
    """Carry out a fit by maximum likelihood.

    The covariance is the sandwich H^-1 (sum of s s') H^-1, plus the covariance for unanimous pairs: H is the Hessian of
    the negative log-likelihood, and s its gradient, summed over the votes of a context or cluster. With features, the
    scores are means over contexts, which add their own variance unless prompts are fixed.
    """
    from ..estimation.bt_mle import fit_bradley_terry, fit_contextual_bradley_terry

    options, estimator = stages.options, stages.estimator
    if estimator.uses_features and options.weights is not None:
        raise OptionError(
            f"weights= of the earlier fit is not used by estimator={estimator.name!r}, which averages over all prompts "
            f"equally; use update(estimator={estimator.name!r}, weights=None), or estimator='debiased'"
        )
    has_order = not isinstance(options.position_bias, str) and bool(options.position_bias)
    has_order = has_order and not estimator.uses_features
    if has_order:
        choose_pairs(data_as_read, options)  # refuses columns that are no display order
    else:
        # The two display orders of a pair are joined.
        require_mirrored_worths(options.categories)
    # The votes alone decide which pairs are compared: min_labels is an option of first stages.
    graph_option = "votes" if isinstance(options.pairs.graph, str) else options.pairs.graph
    ranked = restrict_items(data_as_read, comparison_graph(data_as_read, graph_option, 1), options, 1)
    data = stages.keep("ranked votes of the likelihood", (data_as_read, ranked.items), lambda: ranked)
    graph = comparison_graph(data, graph_option, 1)
    setup = set_up_likelihood(data, graph, options)
    left_out = votes_left_out(data_as_read, data, graph, options, OrderChoice(False, 1))
    if left_out is not None:
        warn(left_out)
    # Maximum likelihood uses no weights.
    units = read_units(data, stages.source, replace(options, weights=None), None)
    given = (data, np.array(setup.weights.first), graph.edges)
    likelihood = stages.keep(
        "likelihood",
        (data, graph_option, options.pairs.category_weights, options.pairs.apart, estimator.name, has_order),
        lambda: (
            fit_contextual_bradley_terry(*given)
            if estimator.uses_features
            else fit_bradley_terry(*given, has_order=has_order)
        ).without(setup.functional.apart),
    )
    influence = likelihood.influence(data, units.blocks)
    unordered = data.unordered() if setup.weights.mirrored else data
    won = likelihood.cell_probabilities(unordered)
    mu = np.column_stack([won, 1 - won, np.zeros((len(won), data.n_categories - 2))])
    # Labels are weighted by their votes, and both orders of a pair are one pair.
    cells = unordered.cells
    errors = LabelErrors(
        cells=cells,
        weight=cells.votes_each.astype(float),
        mu=mu,
        residual=cells.y - mu,
        unit=units.of_contexts(data)[cells.context],
        other_unit=crossed_cluster(unordered, units.clusters),
    )
    unanimous, added = find_unanimous_pairs(errors, unordered, setup.weights, setup.graph.edges), None
    if unanimous is not None:
        # All labels of a unanimous pair agree, so that the sandwich contains no variance of these labels.
        derivative = likelihood.mean_derivative(likelihood.mean_z[None])
        added = unanimous.covariance_along(partial(likelihood.changes, derivative))
    gauge = setup.functional.gauge(influence.n_scores).basis
    are_fixed = estimator.uses_features and options.prompts == "fixed"
    covariance = make_covariance(influence, gauge, units, are_fixed, unanimous_covariance=added, warns=True)
    warn_of_unanimous_pairs(data, setup, unanimous, added, covariance)
    warn_of_covariance(covariance, data, options)
    if not units.clusters and data.n_contexts <= FEW_CLUSTERS:
        warn_of_few_prompts(effective_contexts(influence), data.items, data.n_contexts, "", "")
    state = FitState(
        options=options,
        source=stages.source,
        data=data,
        dropped=tuple(name for name in data_as_read.items if name not in data.items),
        setup=setup,
        units=units,
        influence=influence,
        win_share=win_share(data, setup, likelihood),
        covariance=covariance,
        kept={**stages.earlier, **stages.kept},
        likelihood=likelihood,
        unanimous=unanimous,
    )
    if has_order:
        return state
    order = ignored_order(state, unordered, mu)
    warn_of_ignored_order(order, data, remedy="position_bias=True, or estimator='debiased' with it,")
    return replace(state, ignored_order=order)


def win_share(
    data: PreferenceData, setup: Setup, likelihood: BradleyTerryFit, inside: NDArray[np.bool_] | None = None
) -> FloatArray:
    """Return the share of comparisons that each model wins according to the fitted probabilities, (K,)."""
    mu = likelihood.mean_probabilities(data.x if inside is None else data.x[inside], data.n_categories)
    return Borda(setup.weights, setup.graph, apart=setup.functional.apart).value(mu[None])[0]


def order_influence(state: FitState, likelihood: BradleyTerryFit) -> Influence | None:
    """Return the influence values of the effect of display order on the log-odds; None where the fit has none."""
    if likelihood.order is None:
        return None
    derivative = np.zeros((state.data.n_items + 1, 1, 1))
    derivative[-1] = 1.0
    correction = likelihood.corrections(derivative, state.data, state.units.blocks)
    value = np.full((len(state.data.x), 1), likelihood.order)
    return replace(state.influence.by_context(), value=value, correction=correction)


def win_probability_influence(state: FitState, item: int, opponent: int) -> tuple[Influence, FloatArray | None]:
    """Return the influence values of P(item beats opponent), a mean over contexts, under maximum likelihood."""
    likelihood = state.likelihood
    assert likelihood is not None
    p, derivative = likelihood.win_probability(state.data.x, item, opponent)
    correction = likelihood.corrections(derivative, state.data, state.units.blocks)
    changes = partial(likelihood.changes, derivative)
    unanimous_variance = None if state.unanimous is None else state.unanimous.covariance_along(changes)
    return replace(state.influence.by_context(), value=p[:, None], correction=correction), unanimous_variance


# Fewest prompts, or clusters, with which intervals have been found to hold.
FEWEST_PROMPTS = 20
# Scores with an effective number below this share of their number were drawn with very different propensities.
_UNEVEN = 0.25


def run_means(stages: FirstStages, data: PreferenceData) -> FitState:
    """Carry out a fit of means of scores.

    The score of model j is the mean over prompts of Y_ij, the mean score of its runs on prompt i. Its influence value
    is Y_ij less the score, so that the covariance of all scores, and of their differences, is that of paired data.
    Where scores are missing, m_ij + W_ij (Y_ij - m_ij) takes the place of Y_ij
    (:mod:`dmlrank.estimation.predicted_scores`).
    """
    options, scores, source = stages.options, data.score_table, stages.source.data
    assert isinstance(source, DerivedPairs)
    source = source.with_enough(options.pairs.min_votes)
    propensity = _known_propensity(options.propensity, data, stages.source)
    if propensity is not None and not isinstance(options.missing, str):
        raise OptionError(
            f"missing={options.missing!r} counts every missing score as a value, also those that were not drawn, which "
            f"propensity= corrects for; leave missing= out, and write scores of failed runs in the table"
        )
    if options.judge is not None and options.missing not in ("raise", "model"):
        raise OptionError(
            f"missing={options.missing!r} was given with judge=, which means missing='model': a judge's scores stand "
            f"in for grades that nobody gave; leave missing= out"
        )
    is_drawn = propensity is not None and options.judge is None
    lost = np.zeros(data.n_items) if not is_drawn or source.runs is None else source.runs.n_lost.sum(axis=0)
    if lost.any():
        by_model = ", ".join(f"{data.items[j]!r} {lost[j]:,}" for j in np.argsort(-lost) if lost[j])
        raise MissingDataError(
            f"{int(lost.sum()):,} rows with a model have no score ({by_model}): these runs were drawn, so that "
            f"propensity= does not correct for them. Name the judge of answers that nobody graded (judge=), and give "
            f"runs that failed a score, such as 0"
        )
    judges = read_judges(data, source, options.judge)
    has_judge, grades = judges is not None, None
    has_gaps = np.asarray(np.isnan(scores.mean).any(axis=0))
    is_modelled = propensity is not None or has_judge or (options.missing == "model" and bool(has_gaps.any()))
    if not is_modelled:
        _require_complete(scores, data)
    if is_modelled and propensity is None and not data.x.shape[1] and not has_judge:
        warn(
            "missing='model' without features or a judge: scores of other models on the prompt stand in, as if scores "
            "were missing for no reason; name features that say which are missing, or use missing='common'",
            kind=IntervalWarning,
        )
    weights, graph = CategoryWeights.for_categories(data.categories, "half"), Graph.all_pairs(data.n_items)
    n_scores = np.isfinite(scores.mean).sum(axis=0)
    require_enough(data.items, n_scores, has_gaps & is_modelled, has_judge=has_judge)
    setup = Setup(replace(options.functional, number=source.number), weights, graph, "equal")
    units = read_units(data, stages.source, options, None)
    n, weight = data.n_contexts, units.weights(data)
    value, correction = scores.mean, np.zeros((n, data.n_items))
    predictor = share = widening = None
    if is_modelled:
        if propensity is None:
            require_comparable(data, units, has_judge=has_judge)
        predictor = _modelled_means(stages, data, units, propensity, judges)
        value, correction = predictor.fitted, predictor.correction
        share = effective_share(predictor.inverse * weight[:, None], units.cluster)
        if has_judge and propensity is None:
            warn_without_overlap(data.items, predictor.propensity, np.isfinite(scores.mean))
    influence = Influence(
        value=value, correction=correction, block_context=np.arange(n), block_weight=np.ones(n), weight=weight
    )
    gauge = setup.functional.gauge(data.n_items).basis
    covariance = make_covariance(influence, gauge, units, fixed_prompts=False, warns=True)
    warn_of_covariance(covariance, data, options)
    n_units = len(np.unique(units.of_contexts(data)))
    if predictor is not None and share is not None:
        # A model is only as well known as the prompts with its scores allow: m and the mean are learnt from these.
        number = n_units * share
        widening = np.sqrt(np.where(has_gaps, number / np.maximum(number - 2, 1), 1.0))
        df = min(covariance.df, n_units * float(share.min()) - 1)
        covariance = replace(covariance, matrix=covariance.matrix * np.outer(widening, widening), df=df)
        if judges is not None:
            known = propensity is not None
            grades = grade_figures(data, units, influence, judges, predictor, widening=widening, is_known=known)
    bounds = bounds_of(scores.mean, options.bounds)
    of_means = limits_of_means(influence, bounds, units.cluster, share=share, task=units.task)
    covariance = replace(covariance, means=CombinedMeans((of_means,), np.eye(data.n_items)))
    # Some models have too few prompts for reliable intervals, and others have many more.
    n_effective = n_units * (np.ones(data.n_items) if share is None else share)
    is_uneven = (n_effective < _UNEVEN * n_scores) & (propensity is not None)
    is_thin = (n_effective < FEWEST_PROMPTS) & (n_effective.max() >= 2 * FEWEST_PROMPTS) & ~is_uneven
    _warn_of_few_scores(data, n_effective, is_uneven, is_thin)
    others = np.flatnonzero(~is_thin)
    if covariance.df + 1 < FEWEST_PROMPTS:
        effective, names = effective_contexts(influence)[others], [data.items[j] for j in others]
        warn_of_few_prompts(effective, names, n, FEW_UNLIKE, "add prompts")
    constant = [name for name, error in zip(data.items, covariance.widened.std_errors, strict=True) if not error > 0]
    if constant:
        same = f"the scores of {listed(constant)} are the same on all {n:,} prompts"
        warn(f"{same}: their standard error is zero, which says nothing about others", kind=IntervalWarning)
    return FitState(
        options=options,
        source=stages.source,
        data=data,
        dropped=(),
        setup=setup,
        units=units,
        influence=influence,
        win_share=np.full(data.n_items, np.nan),
        covariance=covariance,
        kept={**stages.earlier, **stages.kept},
        grades=grades,
        known_propensity=propensity,
        predictor=predictor,
        widening=widening,
    )


def _warn_of_few_scores(
    data: PreferenceData, effective: FloatArray, is_uneven: NDArray[np.bool_], is_thin: NDArray[np.bool_]
) -> None:
    """Warn of models whose scores were drawn very unevenly, and of those with too few. Shapes: all (K,)."""
    models, uneven, few = data.items, np.flatnonzero(is_uneven), np.flatnonzero(is_thin)
    if len(uneven):
        n_scores = np.isfinite(data.score_table.mean).sum(axis=0)
        worst = uneven[np.argmin(effective[uneven] / n_scores[uneven])]
        warn(
            f"scores of {listed([models[j] for j in uneven])} were drawn with very different propensities, and few "
            f"scores with small ones outweigh all others: {n_scores[worst]:,} scores of {models[worst]!r} are worth "
            f"{effective[worst]:.0f} with equal propensities. If rounds were on different prompts, fit each by itself",
        )
    if not len(few):
        return
    advice, n_runs = "run them on more prompts", data.score_table.n_runs.sum(axis=0)
    if n_runs[few].max() < n_runs[~is_thin].min():
        advice += f", or leave them out: res.update(min_votes={n_runs[few].max() + 1})"
    warn(
        f"{listed([models[j] for j in few])} {'has' if len(few) == 1 else 'have'} scores on too few prompts for "
        f"reliable intervals, which need at least {FEWEST_PROMPTS}; the fewest are equivalent to "
        f"{np.floor(effective[few].min()):.0f}. They may keep ranks open; {advice}",
        kind=IntervalWarning,
    )


def bounds_of(scores: FloatArray, given: object = None) -> tuple[float, float]:
    """Return the bounds of scores, NaN where there is none: 0 and 1 where all lie between, or the extreme scores."""
    low, high = float(np.nanmin(scores)), float(np.nanmax(scores))
    if isinstance(given, tuple):
        if low < given[0] or high > given[1]:
            raise OptionError(f"bounds={given}: the scores lie between {low:g} and {high:g}; give wider ones")
        return given
    return (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)


def limits_of_means(
    influence: Influence,
    bounds: tuple[float, float],
    cluster: IntArray | None,
    *,
    share: FloatArray | None = None,
    task: IntArray | None = None,
) -> MeanScores:
    """Return what limits of means of prompts, or clusters, need (:mod:`dmlrank.inference.score_limits`).

    An unseen prompt has the median score of a model, less or plus a typical deviation, inside the bounds of scores. It
    may be one of the smallest ``task``, (n,), whose prompts have the largest weight. Where scores are missing, n is the
    effective number of prompts with scores of a model, its ``share`` of all prompts, (K,).
    """
    n = len(influence.weight)
    rows, plain, heaviest = influence.by_context(), influence.by_context(), 1.0
    if task is not None:
        heaviest = float(influence.weight.max() / influence.weight.mean())
        rows, plain = (rows.within(task, borrow=borrow) for borrow in (True, False))
        plain = replace(plain, weight=np.ones(n))
    share = np.ones(influence.n_scores) if share is None else share
    sums, _ = cluster_sums(rows, cluster)
    n_units, estimate = len(sums), influence.estimate
    values = estimate + n_units * sums
    typical = estimate + n_units * share * cluster_sums(plain, cluster)[0]
    span = bounds[1] - bounds[0]
    if task is not None and bounds != (0.0, 1.0):
        span = max(float(np.ptp(plain.value[task == code], axis=0).max()) for code in np.unique(task))
    # Of a cluster's sum, the range is that of one prompt in it.
    own, pair = typical_sizes(typical, span * n_units / n)
    middle = np.median(typical, axis=0)
    # No unit is beyond the largest cluster with all prompts at a bound.
    largest = 1.0 if cluster is None else float(np.unique(cluster, return_counts=True)[1].max()) * n_units / n
    bottom, top = (estimate + largest * (end - estimate) for end in bounds)
    each = np.ones(len(estimate))
    return MeanScores.of(
        values,
        low=np.maximum(middle - own, bottom),
        high=np.minimum(middle + own, top),
        size=pair * each,
        reach=heaviest / share,
        least=bounds[0] * each,
        most=bounds[1] * each,
    )


def effective_share(weight: FloatArray, cluster: IntArray | None = None) -> FloatArray:
    """Return Kish's (1965) effective number of prompts with a score, as a share of all, (K,); 1 for a model without.

    ``weight``, (n, K), is that of each score, W times the weight of the prompt. With clusters, (n,), they are counted.
    """
    if cluster is not None:
        weight = unit_sums(weight, np.unique(cluster, return_inverse=True)[1])
    total, squares = weight.sum(axis=0), np.square(weight).sum(axis=0)
    return np.divide(np.square(total), squares * len(weight), out=np.ones(len(total)), where=squares > 0)


def share_with_score(state: FitState, contexts: IntArray) -> FloatArray | None:
    """Return the effective share of some prompts that have a score of each model, (K,); None for complete tables."""
    if state.predictor is None:
        return None
    weight, cluster = state.predictor.inverse[contexts] * state.influence.weight[contexts, None], state.units.cluster
    return effective_share(weight, None if cluster is None else cluster[contexts])


def _modelled_means(
    stages: FirstStages, data: PreferenceData, units: Units, propensity: FloatArray | None, judges: Judges | None
) -> CorrectedMeans:
    """Return the means corrected for missing scores, with known propensities or estimated ones."""
    from ..estimation.predicted_scores import corrected_means

    n_folds, fold_units = stages.fold_units(data, units, None, None)
    options = stages.options
    key = (data, units.context_weight, fold_units, options.seed, options.propensity, options.judge)

    def learn() -> CorrectedMeans:
        fold = assign_folds(fold_units, n_folds, fold_key(options.seed, 0)).fold
        return corrected_means(score_cells(data, units, judges, fold), propensity)

    return stages.keep("means corrected for missing scores", key, learn)


def score_cells(data: PreferenceData, units: Units, judges: Judges | None, fold: IntArray) -> ScoreCells:
    """Return the scores with what predicts them: judges and smooth features."""
    from ..estimation.predicted_scores import ScoreCells, answer_columns
    from ..nuisance.style import context_design

    scores, features = data.score_table.mean, np.empty((data.n_contexts, 0))
    if data.x.shape[1]:
        features = context_design(data.x[np.argsort(data.seed_order)], data.x, data.n_items)[:, 1:]
    columns = answer_columns(np.empty((*scores.shape, 0)) if judges is None else judges.scores, features)
    return ScoreCells(scores, columns, fold, units.weights(data), units.cluster)


def placebo(state: FitState, item: int) -> tuple[int, float, float] | None:
    """Leave out the latest fifth of the clusters on which a model was run, in the order of the data, and predict them.

    Returns their number, how much better the model does there than predicted, and its standard error; None for no test.
    """
    from ..estimation.predicted_scores import corrected_means

    cluster = state.units.cluster
    if state.predictor is None or cluster is None:
        return None
    cells = state.predictor.cells
    is_run = cells.is_there[:, item]
    run = list(dict.fromkeys(cluster[is_run].tolist()))
    latest = run[len(run) - len(run) // 5 :]
    if len(latest) < 2:
        return None
    left_out = is_run & np.isin(cluster, latest)
    scores = cells.scores.copy()
    scores[left_out, item] = np.nan
    predicted = corrected_means(replace(cells, scores=scores), None).predicted
    error = np.where(left_out, cells.scores[:, item] - predicted[:, item], 0.0)
    weight = cells.weight * left_out
    mean = float(weight @ error / weight.sum())
    sums = np.bincount(cluster, weight * (error - mean)) / weight.sum()
    return len(latest), mean, float(np.sqrt(np.square(sums).sum() * len(latest) / (len(latest) - 1)))


def _known_propensity(given: Any, data: PreferenceData, source: Source) -> FloatArray | None:
    """Return the known propensities of the scores, (n, K), NaN where a column does not say; None for none.

    ``given`` is the option: a column of the table, a frame of prompts by models, an array (n, K), or a plan.
    """
    if isinstance(given, str) and given == "estimate":
        return None
    is_there, shape = np.isfinite(data.score_table.mean), data.score_table.mean.shape
    if isinstance(given, str) and given == "marginal":
        table = np.broadcast_to(np.maximum(is_there.mean(axis=0), 1 / len(is_there)), shape)
    elif isinstance(given, str):
        table = _propensity_of_column(given, data, source)
    else:
        table, prompts, models = given, None, None
        if isinstance(given, pd.DataFrame):
            prompts, models = list(given.index), list(given.columns)
        elif hasattr(given, "propensity"):
            table, prompts, models = given.propensity, given.contexts, given.models
        table = real_array(table, "propensity=", "known propensities of scores, (prompts, models)")
        if prompts is not None and models is not None:
            rows = places_in(prompts, list(data.context_ids), "prompts")
            if len(rows) < len(prompts):
                raise NuisanceError(
                    f"propensity= has {len(prompts):,} prompts, and the table {len(rows):,} of them; add a row without "
                    f"a model for each on which nothing was run: they belong to the sample"
                )
            table = table[np.ix_(rows, places_in(models, data.items, "models"))]
    require_shape(table, shape, "propensity=", "(prompts, models)")
    table = np.where(is_there | np.isfinite(table), table, np.nan)
    wrong = is_there & ~((table > 0) & (table <= 1))
    if wrong.any():
        i, j = (int(place[0]) for place in np.nonzero(wrong))
        raise NuisanceError(
            f"propensity= is {table[i, j]} for {data.items[j]!r} on prompt {data.context_ids[i]!r} "
            f"({int(wrong.sum())} such scores); a score that is there has a propensity above 0 and at most 1"
            + "; where earlier runs have none in this column, give the plan itself, which has those of all prompts and "
            "models (on the command line --propensity plan.json, the file of design --out)" * isinstance(given, str)
        )
    return np.asarray(table, dtype=float)


def _propensity_of_column(column: str, data: PreferenceData, source: Source) -> FloatArray:
    """Return the propensities, (n, K), that a column of the table of scores has at the scores; NaN elsewhere."""
    assert isinstance(source.data, DerivedPairs)
    rows, names, formula = source.data.rows, list(source.data.prompt), parse_formula(source.formula)
    advice = "; missing='model' estimates propensities from features"
    require_columns([column], [] if rows is None else list(map(str, rows)), "propensity= of a table of scores", advice)
    assert rows is not None
    numbers = pd.Series(numbers_in(rows[column], column, "propensity"), index=rows.index)
    is_known = rows[formula.outcome].notna() | numbers.notna()
    rows = rows[is_known & rows[formula.first].map(name_of, na_action="ignore").isin(data.items)]
    ids = rows[names[0]].tolist() if len(names) == 1 else list(rows[names].itertuples(index=False, name=None))
    prompt = pd.Index(list(data.context_ids), tupleize_cols=False).get_indexer(pd.Index(ids, tupleize_cols=False))
    model = pd.Index(data.items).get_indexer(pd.Index([name_of(name) for name in rows[formula.first]]))
    table = np.full((data.n_contexts, data.n_items), np.nan)
    values = numbers[rows.index].to_numpy()
    table[prompt, model] = values
    if not np.array_equal(table[prompt, model], values, equal_nan=True):
        raise NuisanceError(f"propensity column {column!r} has different values for runs of one prompt and model")
    return table


def _require_complete(scores: ScoreTable, data: PreferenceData) -> None:
    """Raise where scores are missing, or there is one prompt only."""
    is_missing = np.isnan(scores.mean)
    n_complete = int((~is_missing.any(axis=1)).sum())
    if is_missing.any():
        counts = is_missing.sum(axis=0)
        worst = [f"{data.items[j]} ({counts[j]:,})" for j in np.argsort(-counts, kind="stable") if counts[j]]
        raise MissingDataError(
            f"{int(is_missing.sum()):,} of {is_missing.size:,} scores are missing, of {listed(worst, 5)}; "
            f"{n_complete:,} of {len(is_missing):,} prompts have a score of every model, and means over different "
            f"prompts cannot be compared. Where a plan drew the runs, give its propensities (propensity=); where a "
            f"judge scored all answers, its column (judge=). Else restrict to the common prompts (missing='common'), "
            f"count a missing score as a value (missing=0.0), let features say which scores are missing "
            f"(missing='model'), or compare models on the prompts that they share (functional='borda' or 'bt')"
        )
    if len(is_missing) < 2:
        raise DataError("there is one prompt only; a standard error needs at least two")


def variance_from_runs(state: FitState, contrasts: FloatArray) -> FloatArray:
    """Return the part of the variance of contrasts of complete scores, (P, K), that comes from runs, (P,).

    Where a model has one run on a prompt, its mean variance elsewhere stands in; NaN where it has no second run at all.
    """
    scores = state.data.score_table
    weight, is_known = state.influence.weight, np.isfinite(scores.variance)
    known = np.where(is_known, scores.variance, 0.0)
    mean = np.full(known.shape[1], np.nan)
    np.divide(known.sum(axis=0), is_known.sum(axis=0), out=mean, where=is_known.any(axis=0))
    variance = np.where(is_known, known, mean)
    of_means = np.square(weight) @ (variance / scores.n_runs) / len(weight) ** 2
    # A model that a contrast leaves out must not make it NaN.
    return np.asarray(np.where(contrasts != 0, np.square(contrasts) * of_means, 0.0).sum(axis=1))
