"""Scores and influence values of single contexts, scores by group, and their projection on functions of the context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pandas as pd

from .._utils.tasks_and_threads import current, in_order, one_thread, warn
from ..data.formula.features import new_features
from ..data.frames import column_names, require_columns, take_columns
from ..data.graph import VoteCounts
from ..data.preferences import FloatArray, IntArray, effective_clusters
from ..estimation.influence import Influence, unit_sums
from ..estimation.joint_influence import JointInfluence, column_units, in_groups, mean_over_repetitions
from ..exceptions import DataError, OptionError, listed
from ..fit.adjusted_for_style import style_gauge
from ..fit.direct_fits import bounds_of, limits_of_means, share_with_score, win_share
from ..fit.estimates import Estimates, Scale
from ..fit.estimators import MEANS
from ..fit.fit_covariance import clustered_covariance, shares_of
from ..fit.linear_map import Functions, Groups, in_unit, linear_map
from ..fit.post_estimation import GroupScores, scores_at, scores_in_groups, scores_of_contexts
from ..fit.state import FitState, StyleEstimates
from ..inference.covariance import clip_to_limits
from ..inference.score_limits import UNBOUNDED, CombinedMeans, MeanScores
from ..report.phrases import independent_prompts, unseen_models
from .context_variables import ContextGroups, read_design, read_groups, read_overlapping_groups
from .groups import GroupResults, Projection, Result
from .joint_estimates import JointEstimates
from .requirements import require_intervals


@one_thread()
def influence_values(steps: FitState, scale: Scale) -> FloatArray:
    """Return the influence values phi in the unit of the scores, (n, d), with mean zero."""
    return steps.influence.by_context().centred * scale.factor


@one_thread()
def scores_of_prompts(estimates: Estimates, steps: FitState, newdata: object) -> pd.DataFrame:
    """Return F(mu(x)) of prompts, (n, d), see :meth:`RankResults.predict`."""
    if newdata is not None:
        feature_map = steps.data.feature_map
        require_columns(feature_map.variables, column_names(newdata), "newdata")
        table = take_columns(newdata, feature_map.variables)
        scores = scores_at(steps, new_features(feature_map, table, keep_missing=steps.options.missing == "keep"))
        return pd.DataFrame(estimates.scale.of(scores), columns=list(estimates.names))
    is_of_means = steps.repetitions and steps.first.mean is not None
    value = scores_of_contexts(steps) if is_of_means else steps.influence.by_context().value
    index = pd.Index(list(steps.data.context_ids), name="context", tupleize_cols=False)
    return pd.DataFrame(estimates.scale.of(value), index=index, columns=list(estimates.names))


# What by() takes: columns whose values are the groups, or groups that may overlap.
GroupColumns: TypeAlias = str | Sequence[str]


def scores_by_group(
    estimates: Estimates, steps: FitState, columns: Sequence[GroupColumns], as_result: Callable[[Estimates], Result]
) -> GroupResults[Result]:
    """Return scores in every group of contexts, see :meth:`RankResults.by`."""
    _require_mean(estimates)
    names = [name for name in columns if isinstance(name, str)]
    if len(names) == len(columns):
        groups = read_groups(steps, names)
    elif len(columns) == 1 and not isinstance(columns[0], str):
        groups = read_overlapping_groups(steps, columns[0])
    else:
        raise OptionError("by() takes names of columns, whose combinations are the groups, or one list of booleans")
    if n_missing := int((groups.members @ (steps.influence.weight > 0) == 0).sum()):
        raise OptionError(
            f"weights= is zero in all prompts of {n_missing} of {len(groups.names)} groups; leave them out"
        )
    scale, scores = estimates.scale, scores_in_groups(steps, groups.members)
    by_repetition = [repetition.influence.changed(lambda part: in_unit(part, scale)) for repetition in scores]
    influence, covariance = linear_map(steps, Groups(groups.members), scale, by_repetition)
    plugin = influence.plugin
    if scores:
        plugin = scale.of(np.mean([one.plugin for one in scores], axis=0))
    parts = _without_scores(estimates, steps, groups, influence, plugin.reshape(len(groups.names), -1))
    estimate, covariance = clip_to_limits(influence.estimate, covariance, estimates.limits)
    index = pd.MultiIndex.from_product([groups.names, estimates.models], names=["group", "model"])
    of_groups = dict[str, Estimates]()
    for number, (name, part, style) in enumerate(
        zip(groups.names, parts, _style_by_group(estimates, steps, scores) or [None] * len(parts), strict=True)
    ):
        place = slice(number * len(estimates.models), (number + 1) * len(estimates.models))
        own = replace(
            covariance,
            matrix=covariance.matrix[place, place],
            basis=estimates.covariance.basis,
            n_clusters=part.covariance.n_clusters,
            df=part.covariance.df,
            of_scores=None if covariance.of_scores is None else covariance.of_scores[place],
            means=part.covariance.means,
        )
        own = replace(own, shares=shares_of(steps, influence.part(number), own, estimates.limits))
        of_groups[name] = replace(part, estimate=estimate[place], covariance=own, style=style)
    covariance = covariance.with_blocks([e.covariance for e in of_groups.values()])
    return GroupResults(
        groups.variable,
        estimates,
        JointEstimates.by_block(index, estimate, covariance, estimates),
        of_groups,
        groups.values,
        as_result,
        is_partition=groups.is_partition,
        left_out=groups.left_out,
        dependent_groups=groups.dependent,
    )


# Labelled prompts or clusters below which a warning says that a group is small.
_SMALL_GROUP = 30
# Largest number of influence values of groups that are in memory at a time.
_MOST_VALUES = 30_000_000


def _without_scores(
    estimates: Estimates, steps: FitState, groups: ContextGroups, influence: JointInfluence, plugin: FloatArray
) -> list[Estimates]:
    """Return what the estimates of groups have beside scores and covariance; raise or warn of small groups.

    Shapes: plugin (G, K).
    """
    data, edges, units, weight = steps.data, steps.setup.graph.edges, steps.units, steps.influence.weight
    if steps.likelihood:
        shares = [win_share(data, steps.setup, steps.likelihood, inside) for inside in groups.members]
    elif steps.estimator is MEANS:
        shares = [steps.win_share] * len(groups.members)
        of_means = in_groups(steps.influence.by_context(), groups.members)
    else:
        wins = in_groups(steps.influence_of("win_share").by_context(), groups.members)
        shares = list(np.clip(wins.estimate.reshape(len(groups.members), -1), 0.0, 1.0))
    block_context = None if units.annotator is None else steps.influence.by_context().block_context

    def of_group(group: int) -> Estimates:
        inside = groups.members[group]
        cells = data.cells.only(inside[data.cells.context])
        votes = replace(data, cells=cells).pair_votes()
        votes += votes.T
        n_contexts, counted = int(inside.sum()), VoteCounts.of(np.triu(votes), steps.setup.graph)
        n_comparisons, n_votes, share, means = len(cells), int(cells.n_votes.sum()), None, None
        if steps.estimator is MEANS:
            n_runs = data.score_table.n_runs[inside]
            n_comparisons, n_votes, by_model = int((n_runs > 0).sum()), int(n_runs.sum()), n_runs.sum(axis=0)
            votes = np.full_like(votes, n_contexts)
            counted = VoteCounts(by_model, by_model)
            share = share_with_score(steps, np.flatnonzero(inside))
            codes, bounds = units.cluster, bounds_of(data.score_table.mean, steps.options.bounds)
            codes = None if codes is None else codes[inside]
            part = limits_of_means(of_means.part(group), bounds, codes, share=share)
            means = CombinedMeans((part,), estimates.scale.factor * np.eye(len(part.estimate)))
        # With a single score of a model, t has the one degree of freedom that two scores would give it.
        n_effective = np.inf if share is None else max(n_contexts * share.min(), 2.0)
        n_clusters, in_effect = [], list[float]()
        if units.clusters is not None:
            by_context = (units.clusters.of_context, units.clusters.second_of_context)
            of_inside = [codes[inside] for codes in by_context if codes is not None]
            n_clusters = [len(np.unique(codes)) for codes in of_inside]
            in_effect = [max(effective_clusters(codes, weight[inside]), 2.0) for codes in of_inside]
            if units.annotator is not None:
                annotators = units.annotator[inside[block_context]]
                n_clusters.append(len(np.unique(annotators[annotators >= 0])))
        squares = influence.centred_in(group)
        square = np.square(squares, out=squares).sum(axis=0)
        effective = square**2 / np.maximum(np.square(squares, out=squares).sum(axis=0), 1e-300)
        return replace(
            estimates,
            plugin=plugin[group],
            shares=shares[group],
            covariance=replace(
                estimates.covariance,
                n_clusters=tuple(n_clusters),
                df=float(min(*(n_clusters or [n_contexts]), n_effective, *in_effect) - 1),
                means=means,
            ),
            judge=None,
            votes=counted,
            description=replace(
                estimates.description,
                n_contexts=n_contexts,
                n_unlabelled=0 if steps.estimator is MEANS else n_contexts - len(np.unique(cells.context)),
                smallest_pair=int(votes[edges].min()) if edges.any() else n_contexts,
                n_votes=n_votes,
                n_comparisons=n_comparisons,
            ),
            diagnostics=replace(
                estimates.diagnostics,
                effective_contexts=float(effective[square > 0].min(initial=np.inf)),
                second_order=float("nan"),
                second_order_by_model=(),
                n_votes=n_votes,
                n_comparisons=n_comparisons,
            ),
            part=f"{groups.variable} = {groups.names[group]}",
        )

    # Every thread has the influence values of a group in memory.
    n_threads = min(current().n_threads, max(1, _MOST_VALUES // (influence.n_contexts * plugin.shape[1])))
    parts = [*in_order(of_group, range(len(groups.members)), n_threads, boosts=False)]
    named = dict(zip(groups.names, parts, strict=True))
    n_labelled = {name: e.description.n_contexts - e.description.n_unlabelled for name, e in named.items()}
    if empty := ", ".join(f"{name!r} ({n})" for name, n in n_labelled.items() if n < 2):
        raise DataError(
            f"by(): these groups of {groups.variable} have fewer than two labelled prompts: {empty}; merge groups"
        )
    sizes = {name: independent_prompts(e) for name, e in named.items()}
    if small := ", ".join(f"{name!r} ({n})" for name, n in sizes.items() if n < _SMALL_GROUP):
        warn(
            f"groups of {groups.variable} with fewer than {_SMALL_GROUP} labelled prompts or clusters: {small}; their "
            f"standard errors are too small on average; merge small groups, or collect more labels",
        )
    without = {name: unseen_models(e) for name, e in named.items()}
    if unseen := "; ".join(f"{listed(models, 5)} in {name!r}" for name, models in without.items() if models):
        warn(
            f"no votes on {unseen}: tables and pages show no score there, because the learner would extrapolate it "
            f"from other groups and no label would correct it; collect votes on these models in these groups",
        )
    return parts


def _style_by_group(estimates: Estimates, steps: FitState, scores: Sequence[GroupScores]) -> tuple[StyleEstimates, ...]:
    """Return scores before and after the adjustment for style, and slopes, of each group; empty without slopes."""
    by_repetition = [repetition.style for repetition in scores if repetition.style is not None]
    if not by_repetition or estimates.style is None:
        return ()
    influence = mean_over_repetitions(by_repetition)
    fixed = steps.options.prompts == "fixed"
    groups = list[StyleEstimates]()
    for place, contexts in enumerate(influence.contexts):
        single = influence.only(place)
        covariance = clustered_covariance(
            single.changed(Influence.given_prompts) if fixed else single,
            style_gauge(steps.setup, len(estimates.style.columns), influence.sizes[place]),
            steps.units.clusters,
            steps.units.annotator,
        )
        if len(by_repetition) > 1:
            repeated = [repetition.part(place).estimate for repetition in by_repetition]
            covariance = covariance.with_repetition_variance(np.stack(repeated))
        n = int(np.isin(steps.data.cells.context[steps.data.vote_cell], contexts).sum())
        style = replace(estimates.style, n_votes=n, estimate=single.estimate, covariance=covariance)
        groups.append(style.rescaled(estimates.scale.factor, estimates.scale.shift))
    return tuple(groups)


@one_thread()
def project_scores(estimates: Estimates, steps: FitState, formula: str) -> Projection:
    """Return the projection of scores on functions of the context, see :meth:`RankResults.by`."""
    _require_mean(estimates)
    if estimates.averages_preferences:
        raise OptionError(
            f"by() of a formula with average='preferences': {estimates.functional_label} is not linear, so that its "
            f"scores are no mean of the scores of prompts; name columns, or update(average='scores')"
        )
    design = read_design(steps, formula)
    # Functions of the context may have any unit (a time in milliseconds has 1e12). They are regressed on in units in
    # which they are about 1, because the products of functions in very different units lose digits or overflow.
    unit, scale = column_units(design.matrix), estimates.scale
    scaled = design.matrix / unit
    projected, covariance = linear_map(steps, Functions(scaled), scale)
    per_unit = np.repeat(1 / unit, len(projected.estimate) // len(unit))
    weights = np.asarray(np.linalg.solve(scaled.T @ scaled, scaled.T).T, dtype=np.float64)
    both, means = np.outer(per_unit, per_unit), None
    if steps.covariance.means is not None:
        parts = _means_of_projection(steps, projected, scale.factor * unit, weights * len(scaled) / unit)
        means = CombinedMeans(parts, scale.factor * np.eye(len(per_unit)))
    df = min(covariance.df, steps.covariance.df, _effective_units(weights, steps.units.cluster) - 1)
    covariance = replace(covariance, matrix=both * covariance.matrix, df=df, means=means)
    index = pd.MultiIndex.from_product([design.names, estimates.models], names=["coefficient", "model"])
    joint = JointEstimates.by_block(index, per_unit * projected.estimate, covariance, estimates)
    return Projection(design, estimates, joint)


def _require_mean(estimates: Estimates) -> None:
    """Raise where the estimate of a fit is no mean over contexts, or has no intervals."""
    estimator = estimates.estimated_by
    if estimator.why_not_by_group:
        raise OptionError(
            f"by() with estimator={estimator.name!r}: {estimator.why_not_by_group}; use update(estimator='debiased')"
        )
    require_intervals(estimates, "by()")


def _effective_units(weights: FloatArray, cluster: IntArray | None) -> float:
    """Return the effective number of prompts, or clusters, behind a coefficient, the smallest over columns (n, P).

    It is their number times Kish's ratio, relative to that of a constant. Of an indicator of a group without a constant
    it is the number in the group.
    """
    squares = np.column_stack([np.square(weights), np.ones(len(weights))])
    if cluster is not None:
        squares = unit_sums(squares, np.unique(cluster, return_inverse=True)[1])
    effective = np.square(squares.sum(axis=0)) / np.square(squares).sum(axis=0)
    return round(float((effective / effective[-1]).min() * len(squares)), 9)


def _means_of_projection(
    steps: FitState, projected: JointInfluence, unit: FloatArray, weights: FloatArray
) -> tuple[MeanScores, ...]:
    """Return what limits of coefficients of means of scores need, a part for each of the P columns, with K means.

    A coefficient is a mean over prompts of a_i Y_i, with ``weights`` a, (n, P). Its units are those with some a_i, and
    an unseen one may have the largest |a_i|. One without negative a_i, such as that of a group, is a weighted mean.
    """
    assert steps.covariance.means is not None
    of_fit, cluster, parts, n = steps.covariance.means.parts[0], steps.units.cluster, [], len(weights)
    n_models = len(of_fit.estimate)
    codes = np.arange(n) if cluster is None else cluster
    own = np.maximum(of_fit.high - of_fit.estimate, of_fit.estimate - of_fit.low)
    unbounded = np.full(n_models, UNBOUNDED)
    for column, weight in enumerate(weights.T):
        place = slice(column * n_models, (column + 1) * n_models)
        largest, inside = np.abs(weight).max(), np.abs(weight) > 1e-9 * np.abs(weight).max()
        sums = unit_sums(projected.centred_in(column)[inside], np.unique(codes[inside], return_inverse=True)[1])
        values = (projected.estimate[place] + sums * (len(sums) / n)) / unit[column]
        is_mean = bool((weight[inside] > 0).all() and np.isclose(weight.mean(), 1))
        # The largest weight of a prompt, relative to a mean of one over those inside.
        reach = largest * inside.mean()
        part = MeanScores.of(
            values,
            low=of_fit.low if is_mean else -reach * own,
            high=of_fit.high if is_mean else reach * own,
            size=of_fit.size * (1.0 if is_mean else reach),
            reach=of_fit.reach * (reach if is_mean else 1.0),
            least=of_fit.least if is_mean else -unbounded,
            most=of_fit.most if is_mean else unbounded,
        )
        parts.append(part)
    return tuple(parts)
