"""The joint covariance of results: which contexts they share, their covariance, and changes of scores between them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeAlias

import numpy as np
import pandas as pd
from scipy.linalg import block_diag

from .._utils.computation import one_thread
from .._utils.warning_collection import collected_warnings
from ..data.hypotheses import LinearHypothesis
from ..data.preferences import FloatArray, IntArray
from ..data.vote_columns import Clusters
from ..exceptions import OptionError, check_choice, listed
from ..fit.estimates import Estimates
from ..fit.fit_covariance import clustered_covariance
from ..fit.state import FitState
from ..inference.covariance import Covariance, covariance_of_mean, match_blocks, stack_influences
from ..inference.simultaneous import PAIR_METHODS as PAIR_METHODS
from ..inference.simultaneous import MaxT, compare_differences
from ..inference.wald import WaldTestResults, two_sided_p_values, z_statistics
from ..report.statements import counted
from .joint_estimates import JointEstimates

# Stands for a missing annotator, and sorts before every name.
_NO_ANNOTATOR = "\x00"
_OTHER_CLUSTERS = "the clusters of the results contain different prompts"


@dataclass(frozen=True, slots=True, eq=False)
class SharedContexts:
    """The contexts of all results together.

    n_contexts: N, the number of different contexts.
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

    @property
    def is_independent(self) -> bool:
        """Whether no two results have a context in common, or contexts of one cluster."""
        if sum(map(len, self.places)) > self.n_contexts:
            return False
        groupings = () if self.clusters is None else (self.clusters.of_context, self.clusters.second_of_context)
        return all(
            not len(np.intersect1d(codes[a], codes[b]))
            for codes in groupings
            if codes is not None
            for a, b in combinations(self.places, 2)
        )

    def n_shared(self, first: int, second: int) -> int:
        """Return the number of contexts that two results, named by their places, have in common."""
        return len(np.intersect1d(self.places[first], self.places[second]))


def share_contexts(steps: Sequence[FitState], names: Sequence[str]) -> SharedContexts | str:
    """Match the contexts and clusters of results by their identifiers, or say why they cannot be matched."""
    for other, name in zip(steps[1:], names[1:], strict=True):
        reason = _why_unmatched(steps[0], other)
        if reason:
            return f"{names[0]!r} and {name!r} have no joint covariance: {reason}"
    places, n_contexts = _places(steps)
    if steps[0].units.clusters is None:
        return SharedContexts(n_contexts, places, None)
    clusters = _joint_clusters(steps, places, n_contexts)
    if isinstance(clusters, str):
        return f"{' and '.join(map(repr, names))} have no joint covariance: {clusters}"
    return SharedContexts(n_contexts, places, clusters)


def joint_annotators(steps: Sequence[FitState]) -> list[IntArray] | None:
    """Return the annotator of each influence block of each result; None where annotators are no clusters.

    An annotator has the same number in all results; a block of an unknown annotator has -1.
    """
    if steps[0].units.annotator is None:
        return None
    names = [_annotator_names(fit) for fit in steps]
    all_names, codes = np.unique(np.concatenate(names), return_inverse=True)
    codes = np.where(all_names[codes] == _NO_ANNOTATOR, -1, codes)
    return np.split(codes, np.cumsum([len(part) for part in names])[:-1])


def are_of_one_data_set(first: FitState, other: FitState) -> bool:
    """Return whether two results are of the same frame, or have equal rows, features and votes."""
    a, b = first.data.context_ids, other.data.context_ids
    same_rows = len(a) == len(b) and bool((a == b).all())
    return same_rows and (first.source.data is other.source.data or _have_equal_votes(first, other))


def _why_unmatched(first: FitState, other: FitState) -> str:
    """Return why contexts of two results cannot be matched; an empty text where they can."""
    if first.options.prompts != other.options.prompts:
        return "one result is for new prompts, the other for its own prompts only; fit both with the same prompts="
    columns = [steps.units.clusters.names if steps.units.clusters else () for steps in (first, other)]
    if columns[0] != columns[1]:
        kinds = " and ".join(f"clusters of {', '.join(names)}" if names else "none" for names in columns)
        return f"their clusters differ ({kinds}); update one of them with the cov_type= and cov_kwds= of the other"
    for name in ("second_of_context", "of_vote"):
        if first.units.clusters and (getattr(first.units.clusters, name) is None) != (
            getattr(other.units.clusters, name) is None
        ):
            return f"{first.units.clusters.names[-1]!r} groups prompts in one result and votes in the other"
    if first.options.context != other.options.context:
        return "their context= columns differ, so that prompts cannot be matched"
    if not first.options.context and not are_of_one_data_set(first, other):
        return "their rows differ, and without context= nothing says which rows are the same prompt"
    return ""


def _places(steps: Sequence[FitState]) -> tuple[tuple[IntArray, ...], int]:
    """Return the place of each context of each result among all contexts, and the number of all contexts."""
    if not steps[0].options.context:
        n_contexts = steps[0].data.n_contexts
        return (np.arange(n_contexts),) * len(steps), n_contexts
    place: dict[Hashable, int] = {}
    places = tuple(
        np.array([place.setdefault(identifier, len(place)) for identifier in fit.data.context_ids], dtype=np.intp)
        for fit in steps
    )
    return places, len(place)


def _joint_clusters(steps: Sequence[FitState], places: Sequence[IntArray], n_contexts: int) -> Clusters | str:
    """Return the clusters of all contexts, by the names of the clusters, or why the clusters of results differ."""
    first = steps[0].units.clusters
    assert first is not None
    if all(len(place) == n_contexts for place in places):
        # The results have the same contexts. Their clusters may have other names and still contain the same contexts.
        return first if _have_equal_partitions(steps, places) else _OTHER_CLUSTERS
    codes: list[IntArray] = []
    for number in range(1 if first.second_of_context is None else 2):
        of_all = np.full(n_contexts, -1)
        names: dict[Hashable, int] = {}
        for fit, place in zip(steps, places, strict=True):
            numbered = np.array([names.setdefault(name, len(names)) for name in _cluster_names(fit, number, place)])
            earlier = of_all[place]
            if (earlier[earlier >= 0] != numbered[earlier >= 0]).any():
                return _OTHER_CLUSTERS
            of_all[place] = numbered
        codes.append(of_all)
    return Clusters(first.names, codes[0], codes[1] if len(codes) > 1 else None)


def _have_equal_partitions(steps: Sequence[FitState], places: Sequence[IntArray]) -> bool:
    """Return whether the clusters of results of the same contexts put the same contexts together."""
    for name in ("of_context", "second_of_context"):
        codes = []
        for fit, place in zip(steps, places, strict=True):
            of_context = getattr(fit.units.clusters, name)
            if of_context is not None:
                codes.append(np.empty_like(of_context))
                codes[-1][place] = of_context
        if not all(_is_same_partition(codes[0], other) for other in codes[1:]):
            return False
    return True


def _is_same_partition(left: IntArray, right: IntArray) -> bool:
    """Return whether two arrays of cluster numbers, (n,) each, put the same contexts together."""
    n_pairs = len(np.unique(np.stack([left, right], axis=1), axis=0))
    return n_pairs == len(np.unique(left)) == len(np.unique(right))


def _cluster_names(fit: FitState, number: int, places: IntArray) -> list[Hashable]:
    """Return the name of each context's cluster in one of the columns of clusters.

    Shapes: places (n,).
    """
    assert fit.units.clusters is not None
    name = fit.units.clusters.names[number]
    if name not in fit.data.columns:
        return list(places.tolist())
    return list(fit.data.columns.texts(name)[fit.data.first_row])


def _annotator_names(fit: FitState) -> list[str]:
    """Return the name of the annotator of each influence block."""
    if fit.units.annotator is None or fit.units.clusters is None:
        return []
    name = fit.units.clusters.names[-1]
    names = sorted(set(fit.data.columns.texts(name)))
    return [names[code] if code >= 0 else _NO_ANNOTATOR for code in fit.units.annotator]


def _have_equal_votes(first: FitState, other: FitState) -> bool:
    """Return whether two results have equal features and votes, as a result and its stored copy have."""
    a, b = first.data, other.data
    pairs = [
        (a.x, b.x),
        *((getattr(a.cells, name), getattr(b.cells, name)) for name in ("context", "first", "second", "y")),
    ]
    return a.items == b.items and all(np.array_equal(left, right) for left, right in pairs)


_SAY_INDEPENDENT = (
    "if no prompt is in both samples, say so: compare(..., independent=True); for samples that overlap, compare live "
    "results whose context= columns identify the prompts, or fit all votes at once with a column of groups and use by()"
)
_INDEPENDENT = (
    "The samples of prompts are independent{}. The covariance of a difference between results is therefore the sum "
    "of their covariances."
)


@dataclass(frozen=True, slots=True)
class NamedResult:
    """One of the results that are compared.

    steps: Data and learners; None in a result without them.
    """

    name: str
    estimates: Estimates
    steps: FitState | None


# Scores of all results with one covariance, or why there is none; and what is known about the samples, in a sentence.
Joint: TypeAlias = tuple[JointEstimates | str, str]


@one_thread()
def joint_results(members: Sequence[NamedResult], independent: bool | None) -> Joint:
    """Return the scores of all results with one covariance, or the reason why there is none.

    The diagonal blocks are the covariances of the results. Between results of independent samples the covariance is
    zero. Between others it comes from their influence values on the contexts that they share, see
    :func:`dmlrank.inference.joint_covariance.match_blocks`.
    """
    for member in members:
        if not member.estimates.has_intervals:
            return (f"{member.name!r} is an estimate without intervals: {member.estimates.why_no_intervals}", "")
    if independent:
        return _declared_independent(members)
    steps = []
    for member in members:
        reason = _why_no_influence_values(member)
        if reason or member.steps is None:
            return reason, ""
        steps.append(member.steps)
    names = [member.name for member in members]
    shared = share_contexts(steps, names)
    if isinstance(shared, str):
        return f"{shared}; {_SAY_INDEPENDENT}" if independent is None else shared, ""
    if shared.is_same:
        return _stacked_estimates(members, steps, shared), ""
    if not shared.is_independent:
        return _stacked_estimates(members, steps, shared), _overlap_sentence(shared, names)
    if independent is False:
        return (
            f"{listed(names)} have no joint covariance: independent=False, but no prompt and no cluster is in two of "
            f"the results, so that nothing says how the results depend on each other; give equal prompts the same "
            f"values in the columns of context=",
            "",
        )
    return _independent_estimates(members), _INDEPENDENT.format(": no prompt is in two of them")


def _declared_independent(members: Sequence[NamedResult]) -> Joint:
    """The joint estimates of samples that the caller declares independent, after the checks that are possible."""
    for first, other in combinations(members, 2):
        if _seem_of_one_data_set(first, other):
            raise OptionError(
                f"independent=True, but {first.name!r} and {other.name!r} are results of one data set, so that they "
                f"depend on each other; leave independent= out; for groups of one fit, use the methods of by()"
            )
    steps = [member.steps for member in members if member.steps is not None]
    identified = len(steps) == len(members) and all(fit.options.context for fit in steps)
    shared = share_contexts(steps, [member.name for member in members]) if identified else ""
    known = ", as the caller of compare says"
    if isinstance(shared, SharedContexts):
        n_shared = max(shared.n_shared(a, b) for a, b in combinations(range(len(members)), 2))
        known = (
            f", as the caller of compare says, although {counted(n_shared, 'identifier')} of prompts "
            f"{'is' if n_shared == 1 else 'are'} in two of them"
            if n_shared
            else ": no prompt is in two of them"
        )
    return _independent_estimates(members), _INDEPENDENT.format(known)


def _seem_of_one_data_set(first: NamedResult, other: NamedResult) -> bool:
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


def _overlap_sentence(shared: SharedContexts, names: Sequence[str]) -> str:
    """Say how many prompts results have in common, and where their covariance comes from."""
    counts = [f"{names[a]!r} and {names[b]!r} {shared.n_shared(a, b):,}" for a, b in combinations(range(len(names)), 2)]
    sizes = ", ".join(f"{len(places):,}" for places in shared.places)
    clusters = "" if shared.clusters is None else f" and of clusters ({', '.join(shared.clusters.names)})"
    return (
        f"The samples of prompts overlap: {', '.join(counts)} in common, of {sizes}. The covariance between the "
        f"results comes from the influence values of these prompts{clusters}."
    )


def _independent_estimates(members: Sequence[NamedResult]) -> JointEstimates:
    """Return the scores of independent results, with zero covariance between results."""
    covariances = [member.estimates.covariance for member in members]
    return _joint_estimates(
        members,
        Covariance(
            np.asarray(block_diag(*(covariance.matrix for covariance in covariances))),
            np.asarray(block_diag(*(covariance.basis for covariance in covariances))),
            tuple(count for covariance in covariances for count in covariance.n_clusters),
            "; ".join(dict.fromkeys(covariance.note for covariance in covariances if covariance.note)),
        ),
    )


def _why_no_influence_values(member: NamedResult) -> str:
    """Return why a result has no influence values to compare with others; an empty text where it has them."""
    if member.estimates.part:
        return (
            f"{member.name!r} is the result of one group of a fit ({member.estimates.part}); for tests between groups, "
            f"use the methods of the object that by() of the whole fit returns"
        )
    if member.steps is None:
        return (
            f"{member.name!r} was stored without its data, and covariances between results of the same prompts need "
            f"the data; {_SAY_INDEPENDENT}"
        )
    return ""


def _stacked_estimates(
    members: Sequence[NamedResult], steps: Sequence[FitState], shared: SharedContexts
) -> JointEstimates:
    """Return the scores of all results with their joint covariance from influence values."""
    estimates = [member.estimates for member in members]
    centred, corrections, contexts = [], [], []
    for e, fit, places in zip(estimates, steps, shared.places, strict=True):
        influence = fit.influence.given_prompts() if fit.options.prompts == "fixed" else fit.influence.by_context()
        factor = e.scale.factor * shared.n_contexts / len(places)
        values = np.zeros((shared.n_contexts, influence.centred.shape[1]))
        values[places] = influence.centred * factor
        centred.append(values)
        # Influence blocks matter for clusters of annotators only.
        blocks = slice(None) if fit.units.annotator is not None else slice(0)
        corrections.append(influence.centred_correction[blocks] * factor)
        contexts.append(places[influence.block_context[blocks]])
    annotators = joint_annotators(steps)
    gauge = block_diag(*(fit.setup.functional.gauge(fit.data.n_items).basis for fit in steps))
    with collected_warnings():
        # The fits have warned of few clusters already.
        joint = clustered_covariance(
            stack_influences(centred, corrections, contexts),
            gauge,
            shared.clusters,
            None if annotators is None else np.concatenate(annotators),
        )
    between_repetitions = _between_repetitions(estimates, steps, shared.is_same)
    matrix = match_blocks(joint.matrix + between_repetitions, [e.covariance for e in estimates])
    basis = block_diag(*(e.covariance.basis for e in estimates))
    return _joint_estimates(members, replace(joint, matrix=matrix, basis=basis))


def _joint_estimates(members: Sequence[NamedResult], covariance: Covariance) -> JointEstimates:
    """Return the scores of all results with this covariance."""
    estimates = [member.estimates for member in members]
    return JointEstimates(
        kind="result",
        blocks=tuple(member.name for member in members for _ in member.estimates.models),
        models=tuple(name for e in estimates for name in e.models),
        estimate=np.concatenate([e.estimate for e in estimates]),
        covariance=covariance,
        reason="; ".join(dict.fromkeys(f"{m.name}: {m.estimates.reason}" for m in members)),
        alpha=estimates[0].alpha,
        seed=estimates[0].description.seed,
    )


def _between_repetitions(estimates: Sequence[Estimates], steps: Sequence[FitState], is_same: bool) -> FloatArray:
    """Return the covariance between repetitions, joint for results with the same folds, otherwise by result."""
    by_result = []
    for e, fit in zip(estimates, steps, strict=True):
        repeated = [repetition.target.estimate for repetition in fit.repetitions]
        by_result.append(np.stack(repeated) * e.scale.factor if len(repeated) > 1 else np.zeros((1, len(e.models))))
    folds = [(len(e), fit.options.seed) for e, fit in zip(by_result, steps, strict=True) if len(e) > 1]
    n_repetitions = max((count for count, _ in folds), default=1)
    if is_same and len(set(folds)) == 1:
        return covariance_of_mean(np.hstack([np.broadcast_to(e, (n_repetitions, e.shape[1])) for e in by_result]))
    return np.asarray(block_diag(*(covariance_of_mean(e) for e in by_result)))


_COLUMNS = ["estimate", "std_error", "statistic", "p_value", "p_adjusted", "conf_low", "conf_high"]


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """Scores of the models that all results share, in each later result minus the first one.

    names: Names of the R results; the first is the reference.
    models: The K models that all results have, in the order of the first result's scores.
    before (K,): Scores in the first result, on the common level.
    after (R - 1, K): Scores in the later results, on the common level.
    covariance: Covariance of the changes, result by result, in (R - 1) K dimensions.
    alpha: One minus the default level of the intervals.
    seed: Seed of the draws of critical values.
    level_note: What the common level of the scores is, in a sentence.
    """

    names: tuple[str, ...]
    models: tuple[str, ...]
    before: FloatArray
    after: FloatArray
    covariance: Covariance
    alpha: float
    seed: int
    level_note: str

    @property
    def estimate(self) -> FloatArray:
        """The changes, result by result, ((R - 1) K,)."""
        return np.asarray((self.after - self.before).ravel())

    @one_thread()
    def test(self) -> WaldTestResults:
        """Test by one Wald test that all changes are zero."""
        names = tuple(f"{name}: {model} - {self.names[0]}: {model}" for name in self.names[1:] for model in self.models)
        joint = JointEstimates(
            kind="result",
            blocks=tuple(np.repeat(np.array(self.names[1:], dtype=object), len(self.models))),
            models=self.models * (len(self.names) - 1),
            estimate=self.estimate,
            covariance=self.covariance,
            reason=self.level_note,
            alpha=self.alpha,
            seed=self.seed,
        )
        return joint.wald_test(LinearHypothesis(np.eye(len(names)), np.zeros(len(names)), names))

    @one_thread()
    def of_models(self, alpha: float, method: str) -> pd.DataFrame:
        """Return the change of every model, with simultaneous intervals and adjusted p-values."""
        errors = self.covariance.std_errors
        z = z_statistics(self.estimate, errors)
        p = two_sided_p_values(z)
        max_t = MaxT(self.covariance)
        half_width = max_t.critical(alpha, method) * errors
        n_varying = max(1, int((errors > 0).sum()))
        adjusted = {
            "max-t": lambda: max_t.adjusted_p_values(z, centred=False),
            "bonferroni": lambda: np.minimum(1.0, p * n_varying),
            "none": lambda: p,
        }[method]()
        return pd.DataFrame(
            {
                "result": np.repeat(np.array(self.names[1:], dtype=object), len(self.models)),
                "model": list(self.models) * (len(self.names) - 1),
                "before": np.tile(self.before, len(self.names) - 1),
                "after": self.after.ravel(),
                "estimate": self.estimate,
                "std_error": errors,
                "statistic": z,
                "p_value": p,
                "p_adjusted": adjusted,
                "conf_low": self.estimate - half_width,
                "conf_high": self.estimate + half_width,
            }
        )

    @one_thread()
    def of_pairs(self, alpha: float, method: str) -> pd.DataFrame:
        """Return the change of the difference between every two models, with simultaneous intervals."""
        check_choice(method, PAIR_METHODS, "method")
        n_models, n_later = len(self.models), len(self.names) - 1
        pairs = np.triu_indices(n_models, 1)
        first, second = (np.concatenate([places + n_models * r for r in range(n_later)]) for places in pairs)
        tests = compare_differences(
            self.estimate,
            MaxT(self.covariance, self.seed),
            first,
            second,
            method=method,
            alpha=alpha,
        )
        labels = np.array(self.models, dtype=object)
        numbers = (tests.estimate, tests.std_error, tests.statistic, tests.p_value, tests.p_adjusted)
        columns = dict(zip(_COLUMNS, (*numbers, tests.low, tests.high), strict=True))
        return pd.DataFrame(
            {
                "result": np.repeat(np.array(self.names[1:], dtype=object), len(pairs[0])),
                "first": labels[first % n_models],
                "second": labels[second % n_models],
                "before": np.tile(self.before[pairs[0]] - self.before[pairs[1]], n_later),
                "after": (self.after[:, pairs[0]] - self.after[:, pairs[1]]).ravel(),
                **columns,
            }
        )


@one_thread()
def changes_between(names: Sequence[str], results: Sequence[Estimates], joint: JointEstimates) -> Changes:
    """Return the changes from the first result to each later one."""
    for name, result in zip(names[1:], results[1:], strict=True):
        reason = why_not_comparable(results[0], result)
        if reason:
            raise OptionError(
                f"{name!r} minus {names[0]!r} is no change of scores: {reason}; ranks, reversals() and t_test() of "
                f"hypotheses about each result remain"
            )
    in_all = [set(result.models) for result in results]
    order = np.argsort(-results[0].estimate, kind="stable")
    models = tuple(results[0].models[j] for j in order if all(results[0].models[j] in names for names in in_all))
    if len(models) < 2:
        raise OptionError(
            f"{listed(names)} have {listed(models) if models else 'no model'} in common; changes need at least two "
            f"models that all results have"
        )
    has_other_models = any(len(result.models) > len(models) for result in results)
    common_level, level, level_note = _common_level(results[0], models, has_other_models)
    maps = [common_level @ _selection(result.models, models) for result in results]
    scores = [matrix @ result.estimate + level for matrix, result in zip(maps, results, strict=True)]
    stacked = block_diag(*maps)
    differences = np.kron(np.hstack([-np.ones((len(results) - 1, 1)), np.eye(len(results) - 1)]), np.eye(len(models)))
    return Changes(
        tuple(names),
        models,
        scores[0],
        np.stack(scores[1:]),
        _mapped(joint.covariance, differences @ stacked),
        joint.alpha,
        joint.seed,
        level_note,
    )


def why_not_comparable(first: Estimates, other: Estimates) -> str:
    """Return why the scores of two results are different quantities; an empty text where they are the same quantity."""
    a, b = first, other
    checks = (
        ("their estimators are {} and {}", a.estimator, b.estimator),
        ("their functionals are {} and {}", a.functional_label, b.functional_label),
        ("their units are {} and {}; rescale both alike", _unit(a), _unit(b)),
        ("they are about {} and {}", a.part or "all prompts", b.part or "all prompts"),
        ("prompts= is {} and {}; fit both alike", a.description.prompts, b.description.prompts),
        ("average= is {} and {}; fit both alike", _averaged(a), _averaged(b)),
        ("ties and other categories count differently ({} and {})", *_other_weights(a, b)),
    )
    for text, left, right in checks:
        if left != right:
            return text.format(repr(left), repr(right))
    return "" if a.estimated_by.assumes_bradley_terry else _why_other_mean(a, b)


def _why_other_mean(a: Estimates, b: Estimates) -> str:
    """Return why two results average over other opponents, pairs or features; an empty text where they do not."""
    only = sorted(set(a.models) ^ set(b.models))
    if only:
        return (
            f"their models differ ({listed(only, 5)} in one of them only), and without a Bradley-Terry model each "
            f"score depends on all models of its result; fit both to the votes between the models that they share"
        )
    places = [b.models.index(name) for name in a.models]
    n_pairs = int((a.graph.edges != b.graph.edges[np.ix_(places, places)]).sum()) // 2
    if n_pairs:
        return (
            f"{n_pairs:,} pairs of models are compared in one of them only, and without a Bradley-Terry model each "
            f"score depends on the compared pairs; fit both with the same pairs as graph="
        )
    weights = (a.description.edge_weights, b.description.edge_weights)
    if weights[0] != weights[1] or weights[0] in ("counts", "votes"):
        return (
            f"edge_weights= is {weights[0]!r} and {weights[1]!r}, so that pairs count differently; fit both with "
            f"edge_weights='equal'"
        )
    features = [e.description.formula.split("~", 1)[-1].split("|")[0].strip() for e in (a, b)]
    if not a.kind.linear and not a.averages_preferences and features[0] != features[1]:
        return (
            f"their features are {features[0]!r} and {features[1]!r}, and the mean score over prompts depends on the "
            f"features that preferences are given; fit both with the same features, or with average='preferences'"
        )
    return ""


def _unit(e: Estimates) -> str:
    """Return the unit and level of scores in words."""
    level = "" if e.scale.anchor is None else f", {e.scale.anchor[0]} at {e.scale.anchor[1]:g}"
    mean = "" if e.scale.mean is None else f", mean {e.scale.mean:g}"
    return f"{e.scale.name if e.scale.natural else e.scale.request}{mean}{level}"


def _averaged(e: Estimates) -> str:
    """Return what is averaged over prompts: "preferences" or "scores"; "scores" for linear functionals."""
    return "preferences" if e.averages_preferences else "scores"


def _other_weights(a: Estimates, b: Estimates) -> tuple[str, str]:
    """Return the weights of the categories that both results have, as text."""
    weights = [{name: numbers for name, *numbers in e.description.tie_weights} for e in (a, b)]
    shared = [name for name in weights[0] if name in weights[1]]
    texts = [", ".join(f"{name} {numbers}" for name, numbers in of.items() if name in shared) for of in weights]
    return (texts[0], texts[1]) if weights[0].keys() and weights[1].keys() else ("", "")


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


def _selection(models: Sequence[str], chosen: Sequence[str]) -> FloatArray:
    """Return the matrix, (k, K), that selects the scores of some models."""
    places: IntArray = np.array([models.index(name) for name in chosen])
    return np.eye(len(models))[places]


def _mapped(covariance: Covariance, matrix: FloatArray) -> Covariance:
    """Return the covariance of linear combinations of scores, with the free directions of the combinations.

    Shapes: matrix (m, d).
    """
    left, size, _ = np.linalg.svd(matrix @ covariance.basis, full_matrices=False)
    basis = left[:, size > 1e-9 * size.max(initial=0.0)]
    mapped = matrix @ covariance.matrix @ matrix.T
    projected = basis @ (basis.T @ mapped @ basis) @ basis.T
    # The functional may fix a combination of scores in all results. The variance of this combination is a rounding
    # error, and is set to zero.
    largest = np.abs(projected).max(initial=0.0)
    is_fixed = np.diag(projected) <= 1e-13 * largest
    projected[is_fixed] = projected[:, is_fixed] = 0.0
    return Covariance(np.asarray((projected + projected.T) / 2), basis, covariance.n_clusters, covariance.note)
