"""The joint covariance of results: which contexts they share, their covariance, and changes of scores between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeAlias

import numpy as np
import pandas as pd
from scipy.linalg import block_diag

from .._utils.tasks_and_threads import one_thread
from ..data.columns import beside
from ..data.preferences import Clusters, FloatArray, IntArray
from ..estimation.influence import Influence
from ..estimation.joint_influence import side_by_side
from ..exceptions import OptionError, listed
from ..fit.estimates import Estimates
from ..fit.fit_covariance import clustered_covariance
from ..fit.linear_map import in_unit
from ..fit.method import with_single_votes
from ..fit.state import FitState
from ..inference.covariance import Covariance, covariance_of_mean, match_blocks
from ..inference.simultaneous import TEST_COLUMNS
from ..report.phrases import counted
from .joint_estimates import JointEstimates, JointResults
from .rank_results import RankResults


@dataclass(frozen=True, slots=True, eq=False)
class SharedContexts:
    """The contexts of all results together, each counted once.

    places: Place of each context of each result among all contexts.
    clusters: Clusters of all contexts; None where contexts are independent. ``of_vote`` is not used.
    """

    n_contexts: int
    places: tuple[IntArray, ...]
    clusters: Clusters | None

    @property
    def is_same(self) -> bool:
        """Whether every result has all contexts."""
        return all(len(places) == self.n_contexts for places in self.places)

    def n_shared(self, first: int, second: int) -> int:
        """Return the number of contexts that two results, named by their places, have in common."""
        return len(np.intersect1d(self.places[first], self.places[second]))


def share_contexts(steps: Sequence[FitState], names: Sequence[str], apart: bool = False) -> SharedContexts | str:
    """Match the contexts and clusters of results by their identifiers, or say why they cannot be matched.

    apart: Whether no context is in two results, whatever the identifiers are.
    """
    for other, name in zip(steps[1:], names[1:], strict=True):
        reason = _why_unmatched(steps[0], other, apart)
        if reason:
            return f"{names[0]!r} and {name!r} have no joint covariance: {reason}"
    sizes = [fit.data.n_contexts for fit in steps]
    if apart:
        place = np.arange(sum(sizes))
    elif steps[0].options.context:
        place = pd.factorize(np.concatenate([fit.data.context_ids for fit in steps]), use_na_sentinel=False)[0]
    else:
        place = np.tile(np.arange(sizes[0]), len(steps))
    places, n_contexts = tuple(np.split(place, np.cumsum(sizes)[:-1])), int(place.max()) + 1
    clusters = steps[0].units.clusters
    if clusters is None:
        return SharedContexts(n_contexts, places, None)
    if all(len(place) == n_contexts for place in places):
        # The results have the same contexts. Their clusters may have other names and still contain the same contexts.
        joint = clusters if _have_equal_partitions(steps, places) else None
    else:
        joint = _clusters_by_name(steps, clusters, places)
    if joint is None:
        all_names = " and ".join(map(repr, names))
        return f"{all_names} have no joint covariance: the clusters of the results contain different prompts"
    return SharedContexts(n_contexts, places, joint)


def are_of_one_data_set(first: FitState, other: FitState) -> bool:
    """Return whether two results are of the same frame, or have equal rows, features and votes, as a copy has."""
    a, b = first.data, other.data
    if len(a.context_ids) != len(b.context_ids) or not (a.context_ids == b.context_ids).all():
        return False
    cells = (
        (getattr(a.cells, name), getattr(b.cells, name)) for name in ("context", "first", "second", "y", "n_votes")
    )
    # A table of scores has no cells.
    scores = [np.zeros(0) if data.scores is None else np.nan_to_num(data.scores.mean, nan=np.inf) for data in (a, b)]
    rows = [getattr(state.source.data, "rows", None) for state in (first, other)]
    # Criteria are columns of one table.
    if isinstance(rows[0], pd.DataFrame) and isinstance(rows[1], pd.DataFrame) and rows[0].equals(rows[1]):
        return True
    return first.source.data is other.source.data or (
        a.items == b.items and all(np.array_equal(left, right) for left, right in ((a.x, b.x), scores, *cells))
    )


def _why_unmatched(first: FitState, other: FitState, apart: bool) -> str:
    """Return why contexts, or only clusters, of two results cannot be matched; an empty text where they can."""
    if not apart and first.options.prompts != other.options.prompts:
        return "one result is for new prompts, the other for its own prompts only; fit both with the same cov_kwds"
    a, b = first.units.clusters, other.units.clusters
    columns = [() if clusters is None else clusters.names for clusters in (a, b)]
    if columns[0] != columns[1]:
        kinds = " and ".join(f"clusters of {', '.join(names)}" if names else "none" for names in columns)
        return f"their clusters differ ({kinds}); update one of them with the cov_type= and cov_kwds= of the other"
    if a is not None and b is not None:
        groups_prompts = [(clusters.second_of_context is None, clusters.of_vote is None) for clusters in (a, b)]
        if groups_prompts[0] != groups_prompts[1]:
            return f"{a.names[-1]!r} groups prompts in one result and votes in the other"
    if apart:
        return ""
    if first.options.context != other.options.context:
        return "their context= columns differ, so that prompts cannot be matched"
    if not first.options.context and not are_of_one_data_set(first, other):
        return "their rows differ, and without context= nothing says which rows are the same prompt"
    return ""


def _have_equal_partitions(steps: Sequence[FitState], places: Sequence[IntArray]) -> bool:
    """Return whether the clusters of results of the same contexts put the same contexts together."""
    for name in ("of_context", "second_of_context"):
        of_contexts = [getattr(fit.units.clusters, name) for fit in steps]
        codes = [of[np.argsort(at)] for of, at in zip(of_contexts, places, strict=True) if of is not None]
        for other in codes[1:]:
            n_pairs = len(np.unique(np.stack([codes[0], other], axis=1), axis=0))
            if not n_pairs == len(np.unique(codes[0])) == len(np.unique(other)):
                return False
    return True


def _clusters_by_name(steps: Sequence[FitState], clusters: Clusters, places: Sequence[IntArray]) -> Clusters | None:
    """Return the clusters of all contexts, by the names of the clusters; None where these differ between results."""
    codes, at = list[IntArray](), np.concatenate(places)
    for column in clusters.names[: 1 if clusters.second_of_context is None else 2]:
        # Clusters without a column are the contexts.
        names = [
            fit.data.columns.texts(column)[fit.data.first_row] if column in fit.data.columns else place.astype(object)
            for fit, place in zip(steps, places, strict=True)
        ]
        number, of_all = pd.factorize(np.concatenate(names))[0], np.zeros(at.max() + 1, dtype=np.intp)
        of_all[at] = number
        if (of_all[at] != number).any():
            return None
        codes.append(of_all)
    return Clusters(clusters.names, *codes)


_COMPARE_LIVE = "compare fits, not stored results, whose context= columns are the same, without independent="
_SAY_INDEPENDENT = (
    "if no prompt is in both samples, say so: compare(..., independent=True); for samples that overlap, compare live "
    "results whose context= columns identify the prompts, or fit all votes at once with a column of groups and use by()"
)
_OR_OTHERS = ". Where equal identifiers stand for different prompts, compare(..., independent=True) says so."
_INDEPENDENT = (
    "The samples of prompts are independent{}. The covariance of a difference between results is therefore the sum "
    "of their covariances."
)


# Scores of all results with one covariance, or why there is none; and what is known about the samples, in a sentence.
Joint: TypeAlias = tuple[JointEstimates | str, str]


@one_thread()
def joint_results(names: Sequence[str], results: Sequence[RankResults], independent: bool) -> Joint:
    """Return the scores of all results with one covariance, or the reason why there is none.

    The diagonal blocks are the covariances of the results. Between independent samples the covariance is zero; else it
    comes from influence values on common contexts, see :func:`dmlrank.inference.covariance.match_blocks`.
    """
    estimates = [result.estimates for result in results]
    for name, e in zip(names, estimates, strict=True):
        if not e.has_intervals:
            return f"{name!r} is an estimate without intervals: {e.why_no_intervals}", ""
    if independent:
        return _declared_independent(names, results)
    is_one_data_set = any(_seem_of_one_data_set(*pair) for pair in combinations(results, 2))
    advice, steps = _COMPARE_LIVE if is_one_data_set else _SAY_INDEPENDENT, []
    for name, result in zip(names, results, strict=True):
        if result.estimates.part:
            return (
                f"{name!r} is the result of one group of a fit ({result.estimates.part}); for tests between groups, "
                f"use the methods of the object that by() of the whole fit returns"
            ), ""
        if result.steps is None:
            return (
                f"{name!r} was stored without its data, and covariances between results of the same prompts need "
                f"the data; {advice}"
            ), ""
        steps.append(with_single_votes(result.steps, "the covariance between results"))
    shared = share_contexts(steps, names)
    if isinstance(shared, str):
        return f"{shared}; {advice}", ""
    pairs = list(combinations(range(len(names)), 2))
    if shared.is_same:
        samples = (
            f"All {shared.n_contexts:,} prompts are taken for the same in these results, because the columns of "
            f"context= have the same values{_OR_OTHERS}"
        ) * (not is_one_data_set)
    elif _n_shared_clusters(steps, shared) or any(shared.n_shared(a, b) for a, b in pairs):
        counts = ", ".join(f"{names[a]!r} and {names[b]!r} {shared.n_shared(a, b):,}" for a, b in pairs)
        sizes = ", ".join(f"{len(places):,}" for places in shared.places)
        clusters = "" if shared.clusters is None else f" and of clusters ({', '.join(shared.clusters.names)})"
        samples = (
            f"The samples of prompts overlap: {counts} in common, of {sizes}. The covariance between the results comes "
            f"from the influence values of these prompts{clusters}{_OR_OTHERS}"
        )
    else:
        alike = beside(*(state.data.context_ids.tolist() for state in steps[:2]))
        reason = ": no prompt is in two of them" + alike * ("decimals" in alike)
        return _joint_estimates(names, estimates), _INDEPENDENT.format(reason)
    return _joint_estimates(names, estimates, _covariance_by_influence(estimates, steps, shared)), samples


def _declared_independent(names: Sequence[str], results: Sequence[RankResults]) -> Joint:
    """The joint estimates of samples that the caller declares independent, after the checks that are possible."""
    for a, b in combinations(range(len(names)), 2):
        if _seem_of_one_data_set(results[a], results[b]):
            raise OptionError(
                f"independent=True, but {names[a]!r} and {names[b]!r} are results of one data set; {_COMPARE_LIVE}; "
                f"for groups of one fit, use the methods of by()"
            )
    steps = [result.steps for result in results if result.steps is not None]
    estimates, are_live = [result.estimates for result in results], len(steps) == len(results)
    apart = share_contexts(steps, names, apart=True) if are_live else ""
    if not isinstance(apart, str) and (n_clusters := _n_shared_clusters(steps, apart)):
        clusters = steps[0].units.clusters
        of = "" if clusters is None else f" ({', '.join(clusters.names)})"
        samples = (
            f"No prompt is in two of the samples, as the caller of compare says, but {counted(n_clusters, 'cluster')}"
            f"{of} {'is' if n_clusters == 1 else 'are'}. The covariance between the results comes from the influence "
            f"values of these clusters."
        )
        return _joint_estimates(names, estimates, _covariance_by_influence(estimates, steps, apart)), samples
    known, identified = ", as the caller of compare says", [fit for fit in steps if fit.options.context]
    pairs = combinations([pd.Index(list(fit.data.context_ids), tupleize_cols=False) for fit in identified], 2)
    if n_shared := max((len(a.intersection(b)) for a, b in pairs), default=0):
        known += f", although {counted(n_shared, 'identifier')} of prompts {'is' if n_shared == 1 else 'are'} in two"
    samples = _INDEPENDENT.format(known)
    columns = sorted({name for e in estimates for name in e.description.clusters})
    if not are_live and columns:
        samples += (
            f" Stored results do not say which clusters ({', '.join(columns)}) are in two of them; where many are, "
            f"intervals of changes may be too short or too long."
        )
    return _joint_estimates(names, estimates), samples


def _n_shared_clusters(steps: Sequence[FitState], shared: SharedContexts) -> int:
    """Return the largest number of clusters, or of annotators, that two results have in common."""
    clusters = shared.clusters
    if clusters is None:
        return 0
    groupings = [of for of in (clusters.of_context, clusters.second_of_context) if of is not None]
    of_fits = [[of[places].tolist() for places in shared.places] for of in groupings]
    of_fits.append([set(_annotators(fit)) - {None} for fit in steps])
    return max(len(set(of[a]) & set(of[b])) for of in of_fits for a, b in combinations(range(len(steps)), 2))


def _annotators(fit: FitState) -> list[str | None]:
    """Return the name of the annotator, if any, of every influence block; empty without annotators."""
    if fit.units.annotator is None or fit.units.clusters is None:
        return []
    names = sorted(set(fit.data.columns.texts(fit.units.clusters.names[-1])))
    return [names[code] if code >= 0 else None for code in fit.units.annotator]


def _seem_of_one_data_set(first: RankResults, other: RankResults) -> bool:
    """Return whether two results are of the same votes: live fits by their data, stored ones by all their counts."""
    if first.steps is not None and other.steps is not None:
        return are_of_one_data_set(first.steps, other.steps)
    a, b = first.estimates, other.estimates
    if a.models != b.models or a.votes is None or b.votes is None:
        return False
    if a.part and b.part and a.part != b.part:
        # Groups of one fit share its first stages.
        return a.diagnostics.log_loss == b.diagnostics.log_loss
    same_size = (a.description.n_contexts, a.description.n_rows) == (b.description.n_contexts, b.description.n_rows)
    return a.part == b.part and same_size and bool((a.votes.total == b.votes.total).all())


def _joint_estimates(
    names: Sequence[str], results: Sequence[Estimates], covariance: Covariance | None = None
) -> JointEstimates:
    """Return the scores of all results; without a covariance, the results are independent."""
    if covariance is None:
        blocks = [e.covariance for e in results]
        covariance = Covariance(
            np.asarray(block_diag(*(block.matrix for block in blocks))),
            np.asarray(block_diag(*(block.basis for block in blocks))),
            tuple(count for block in blocks for count in block.n_clusters),
            "; ".join(dict.fromkeys(block.note for block in blocks if block.note)),
        ).with_blocks(blocks)
    scores = [(name, model) for name, e in zip(names, results, strict=True) for model in e.models]
    return JointEstimates.by_block(
        pd.MultiIndex.from_tuples(scores, names=["result", "model"]),
        np.concatenate([e.estimate for e in results]),
        covariance,
        results[0],
        "; ".join(dict.fromkeys(f"{name}: {e.reason}" for name, e in zip(names, results, strict=True))),
    )


def _covariance_by_influence(
    estimates: Sequence[Estimates], steps: Sequence[FitState], shared: SharedContexts
) -> Covariance:
    """Return the covariance of the scores of all results from influence values, with the results' own blocks."""
    influences, annotators = list[Influence](), list[str | None]()
    for e, fit in zip(estimates, steps, strict=True):
        influence = in_unit(fit.influence.by_context(), e.scale)
        influences.append(influence.given_prompts() if fit.options.prompts == "fixed" else influence)
        annotators += _annotators(fit)
    # An annotator has the same number in all results.
    annotator = pd.factorize(np.array(annotators, dtype=object), sort=True)[0]
    gauge = block_diag(*(fit.setup.functional.gauge(fit.data.n_items).basis for fit in steps))
    joint = clustered_covariance(
        side_by_side(influences, shared.places, shared.n_contexts),
        gauge,
        shared.clusters,
        annotator if len(annotators) else None,
    )
    # The covariance between repetitions is joint for results with the same folds, otherwise by result.
    repetitions = []
    for e, fit in zip(estimates, steps, strict=True):
        repeated = [repetition.target.estimate for repetition in fit.repetitions]
        repetitions.append(np.stack(repeated) * e.scale.factor if len(repeated) > 1 else np.zeros((1, len(e.models))))
    folds = {(len(of), fit.options.seed) for of, fit in zip(repetitions, steps, strict=True) if len(of) > 1}
    if shared.is_same and len(folds) == 1:
        count = max(len(of) for of in repetitions)
        between = covariance_of_mean(np.hstack([np.broadcast_to(of, (count, of.shape[1])) for of in repetitions]))
    else:
        between = np.asarray(block_diag(*map(covariance_of_mean, repetitions)))
    reported = [e.covariance for e in estimates]
    matrix = match_blocks(joint.matrix + between, reported)
    made = replace(joint, matrix=matrix, basis=block_diag(*(covariance.basis for covariance in reported)))
    return made.with_blocks(reported, _orders_of_units(steps, shared) if shared.is_same else None)


def _orders_of_units(steps: Sequence[FitState], shared: SharedContexts) -> list[IntArray]:
    """Return the orders that put prompts, or clusters, of results on the same prompts in the same rows, (n,) each."""
    orders = []
    for fit, places in zip(steps, shared.places, strict=True):
        if shared.clusters is not None and fit.units.clusters is not None:
            first_of_cluster = np.unique(fit.units.clusters.of_context, return_index=True)[1]
            places = shared.clusters.of_context[places[first_of_cluster]]
        orders.append(np.argsort(places))
    return orders


@dataclass(frozen=True, slots=True, eq=False)
class Changes(JointResults):
    """Scores of the models that all results share, in each later result minus the first one.

    joint: The changes by result and model, with their covariance; models are in the order of the first result's scores.
    before (K,): Scores in the first result, on the common level.
    after (R - 1, K): Scores in the later results, on the common level.
    level_note: What the common level of the scores is, in a sentence.
    """

    joint: JointEstimates
    before: FloatArray
    after: FloatArray
    level_note: str

    @one_thread()
    def of_models(self, alpha: float, method: str) -> pd.DataFrame:
        """Return the change of every model, with simultaneous intervals and adjusted p-values."""
        errors = self.joint.max_t.widened.std_errors
        z = self.joint.covariance.law(self.joint.estimate).statistics()
        frame = self._tidy(z, alpha, method).rename(columns={"term": "model"})
        adjusted = frame["p_adjusted" if method == "max-t" else "p_value"].to_numpy()
        if method == "bonferroni":
            adjusted = np.minimum(1.0, adjusted * max(1, int((errors > 0).sum())))
        before, after = np.tile(self.before, len(self.after)), self.after.ravel()
        frame = frame.assign(before=before, after=after, p_adjusted=adjusted)
        return frame[["result", "model", "before", "after", *TEST_COLUMNS]]


@one_thread()
def changes_between(names: Sequence[str], results: Sequence[Estimates], joint: JointEstimates) -> Changes:
    """Return the changes from the first result to each later one."""
    for name, result in zip(names[1:], results[1:], strict=True):
        reason = why_not_comparable(results[0], result)
        if reason:
            raise OptionError(f"{name!r} minus {names[0]!r} is no change of scores: {reason}; ranks remain")
    in_all = [set(result.models) for result in results]
    order = np.argsort(-results[0].merit, kind="stable")
    models = tuple(results[0].models[j] for j in order if all(results[0].models[j] in names for names in in_all))
    if len(models) < 2:
        raise OptionError(
            f"{listed(names)} have {listed(models) if models else 'no model'} in common; changes need at least two "
            f"models that all results have"
        )
    has_other_models = not results[0].are_means and any(len(result.models) > len(models) for result in results)
    common_level, level, level_note = _common_level(results[0], models, has_other_models)
    places = [[result.models.index(name) for name in models] for result in results]
    maps = [common_level @ np.eye(len(e.models))[chosen] for e, chosen in zip(results, places, strict=True)]
    scores = [matrix @ result.estimate + level for matrix, result in zip(maps, results, strict=True)]
    stacked = block_diag(*maps)
    changes_of = np.kron(np.hstack([-np.ones((len(results) - 1, 1)), np.eye(len(results) - 1)]), np.eye(len(models)))
    after = np.stack(scores[1:])
    changes = JointEstimates.by_block(
        pd.MultiIndex.from_product([names[1:], models], names=["result", "model"]),
        np.asarray((after - scores[0]).ravel()),
        mapped_covariance(joint.covariance, changes_of @ stacked),
        results[0],
        level_note,
    )
    return Changes(changes, scores[0], after, level_note)


def why_not_comparable(a: Estimates, b: Estimates) -> str:
    """Return why the scores of two results are different quantities; an empty text where they are the same quantity."""
    weights = [{name: f"{name} {numbers}" for name, *numbers in e.description.tie_weights} for e in (a, b)]
    in_both = [name for name in weights[0] if name in weights[1]]
    weights_of_shared = [", ".join(of[name] for name in in_both) for of in weights]
    checks = (
        ("their estimators are {} and {}", a.estimator, b.estimator),
        ("their functionals are {} and {}", a.functional_label, b.functional_label),
        ("their units are {} and {}; rescale both alike", _unit(a), _unit(b)),
        ("the best score is the {} and the {}", *("highest" if e.sign > 0 else "lowest" for e in (a, b))),
        ("they are about {} and {}", a.part or "all prompts", b.part or "all prompts"),
        ("cov_kwds prompts is {} and {}; fit both alike", a.description.prompts, b.description.prompts),
        (
            "average= is {} and {}; fit both alike",
            *("preferences" if e.averages_preferences else "scores" for e in (a, b)),
        ),
        ("ties and other categories count differently ({} and {})", *weights_of_shared),
    )
    for text, left, right in checks:
        if left != right:
            return text.format(repr(left), repr(right))
    # A mean of scores is that of its model alone.
    return "" if a.estimated_by.assumes_bradley_terry or a.are_means else _why_other_mean(a, b)


def _why_other_mean(a: Estimates, b: Estimates) -> str:
    """Return why two results average over other opponents, pairs or features; an empty text where they do not."""
    only = sorted(set(a.models) ^ set(b.models))
    if only:
        return (
            f"their models differ ({listed(only, 5)} in one of them only), and without a Bradley-Terry model each "
            f"score depends on all models; independent=True fits samples of votes to the models that they share"
        )
    places = [b.models.index(name) for name in a.models]
    n_pairs = int((a.graph.edges != b.graph.edges[np.ix_(places, places)]).sum()) // 2
    if n_pairs:
        return (
            f"their compared pairs differ ({counted(n_pairs, 'pair')} of models in one of them only), and without a "
            f"Bradley-Terry model each score depends on these; fit both with the same pairs=Pairs(graph=...), as "
            f"independent=True does"
        )
    weights = (a.description.edge_weights, b.description.edge_weights)
    if weights[0] != weights[1] or weights[0] in ("counts", "votes"):
        return f"edge_weights is {weights[0]!r} and {weights[1]!r}; fit both with pairs=Pairs(edge_weights='equal')"
    features = [e.description.formula.split("~", 1)[-1].split("|")[0].strip() for e in (a, b)]
    if not a.kind.linear and not a.averages_preferences and features[0] != features[1]:
        return (
            f"their features are {features[0]!r} and {features[1]!r}, on which the mean score over prompts depends; "
            f"fit both with the same features, or with average='preferences'"
        )
    return ""


def _unit(e: Estimates) -> str:
    """Return the unit and level of scores in words."""
    level = "" if e.scale.anchor is None else f", {e.scale.anchor[0]} at {e.scale.anchor[1]:g}"
    mean = "" if e.scale.mean is None else f", mean {e.scale.mean:g}"
    return f"{e.scale.name if e.scale.natural else e.scale.request}{mean}{level}"


def _common_level(first: Estimates, models: Sequence[str], has_other_models: bool) -> tuple[FloatArray, float, str]:
    """Return the map of scores to a common level, (K, K), a constant that is added, and a sentence about the level."""
    n_models, scale = len(models), first.scale
    if scale.anchor is not None and scale.anchor[0] in models:
        name, score = scale.anchor
        matrix = np.eye(n_models)
        matrix[:, models.index(name)] -= 1.0
        return matrix, score, f"Changes are relative to {name}, whose score is fixed at {score:g}."
    centring = np.eye(n_models) - 1 / n_models
    if has_other_models:
        note = "Scores are relative to the mean of the models that all results have, so that the changes sum to zero."
        return centring, 0.0, note
    is_mean_fixed = bool((np.abs(first.covariance.basis.sum(axis=0)) < 1e-9).all())
    if is_mean_fixed or scale.mean is not None:
        note = "The mean score is fixed, so that a change is relative to the mean of all models."
        return (np.eye(n_models), 0.0, note) if is_mean_fixed else (centring, scale.mean or 0.0, note)
    return np.eye(n_models), 0.0, ""


def mapped_covariance(covariance: Covariance, matrix: FloatArray) -> Covariance:
    """Return the covariance of linear combinations of scores, (m, d), with the free directions of the combinations."""
    left, size, _ = np.linalg.svd(matrix @ covariance.basis, full_matrices=False)
    basis = left[:, size > 1e-9 * size.max(initial=0.0)]
    mapped = matrix @ covariance.matrix @ matrix.T
    projected = basis @ (basis.T @ mapped @ basis) @ basis.T
    # The functional may fix a combination of scores in all results. The variance of this combination is a rounding
    # error, and is set to zero.
    largest = np.abs(projected).max(initial=0.0)
    is_fixed = np.diag(projected) <= 1e-13 * largest
    projected[is_fixed] = projected[:, is_fixed] = 0.0
    combined = covariance.of_combinations(matrix)
    return replace(combined, matrix=np.asarray((projected + projected.T) / 2), basis=basis)
