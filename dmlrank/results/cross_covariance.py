"""The covariance between results of the same contexts, from their influence values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import block_diag

from .._utils.warning_collection import collected_warnings
from ..data.preferences import FloatArray, IntArray
from ..fit.estimates import Estimates
from ..fit.fit_covariance import clustered_covariance
from ..fit.state import FitSteps
from ..inference.covariance import covariance_of_mean
from ..inference.joint_covariance import match_blocks, stack_influences
from .joint_estimates import JointEstimates

# Stands for a missing annotator, and sorts before every name.
_NO_ANNOTATOR = "\x00"


@dataclass(frozen=True, slots=True)
class NamedResult:
    """One of the results that are compared.

    Attributes
    ----------
    name : str
    estimates : Estimates
    steps : FitSteps or None
        Data and learners; None in a result without them.
    """

    name: str
    estimates: Estimates
    steps: FitSteps | None


def joint_estimates(members: Sequence[NamedResult]) -> JointEstimates | str:
    """Return the scores of all results with one covariance, or the reason why there is none.

    The diagonal blocks are the covariances of the results. The covariance between two results comes from their
    influence values on the same contexts, see :func:`dmlrank.inference.joint_covariance.match_blocks`.
    """
    steps = []
    for member in members:
        reason = _why_no_covariance(member)
        if reason or member.steps is None:
            return reason
        steps.append(member.steps)
    matches = [np.arange(steps[0].data.n_contexts)]
    for member, other in zip(members[1:], steps[1:], strict=True):
        match = _match_contexts(steps[0], other)
        if isinstance(match, str):
            return f"{members[0].name!r} and {member.name!r} have no joint covariance: {match}"
        matches.append(match)
    return _stacked_estimates(members, steps, matches)


def _why_no_covariance(member: NamedResult) -> str:
    """Return why a result has no covariance with others; an empty text where it has one."""
    if not member.estimates.has_intervals:
        return f"{member.name!r} is an estimate without intervals: {member.estimates.why_no_intervals}"
    if member.estimates.part:
        return (
            f"{member.name!r} is the result of one group of a fit ({member.estimates.part}); for tests between groups, "
            f"use the methods of the object that by() of the whole fit returns"
        )
    if member.steps is None:
        return f"{member.name!r} was stored without its data, and covariances between results need the data"
    return ""


def _match_contexts(first: FitSteps, other: FitSteps) -> IntArray | str:
    """Return the places of the first result's contexts in the other one, (n,), or why the contexts differ."""
    if first.options.prompts != other.options.prompts:
        return "one result is for new prompts, the other for its own prompts only; fit both with the same prompts="
    columns = [steps.clusters.names if steps.clusters else () for steps in (first, other)]
    if columns[0] != columns[1]:
        kinds = " and ".join(f"clusters of {', '.join(names)}" if names else "none" for names in columns)
        return f"their clusters differ ({kinds}); update one of them with the cov_type= and cov_kwds= of the other"
    places = _match_identifiers(first, other)
    if isinstance(places, str) or first.clusters is None or other.clusters is None:
        return places
    for a, b in (
        (first.clusters.of_context, other.clusters.of_context),
        (first.clusters.second_of_context, other.clusters.second_of_context),
    ):
        if a is None or b is None:
            if a is not b:
                return f"{first.clusters.names[-1]!r} groups prompts in one result and votes in the other"
        elif not _same_partition(a, b[places]):
            return "the clusters of the two results contain different prompts"
    return places


def _match_identifiers(first: FitSteps, other: FitSteps) -> IntArray | str:
    """Return the places of the first result's contexts in the other one, or why their identifiers do not match."""
    a, b = first.data, other.data
    n = len(a.context_ids)
    if first.options.context != other.options.context:
        return "their context= columns differ, so that prompts cannot be matched"
    if first.options.context:
        place = {identifier: number for number, identifier in enumerate(b.context_ids)}
        missing = [identifier for identifier in a.context_ids if identifier not in place]
        if missing or len(place) != n:
            shared = n - len(missing)
            return f"their prompts differ: {shared:,} are in both, of {n:,} and {len(place):,}"
        return np.array([place[identifier] for identifier in a.context_ids], dtype=np.intp)
    same_rows = len(b.context_ids) == n and bool((a.context_ids == b.context_ids).all())
    if same_rows and (first.source.data is other.source.data or _same_votes(first, other)):
        return np.arange(n)
    return "their rows differ, and without context= nothing says which rows are the same prompt"


def _same_votes(first: FitSteps, other: FitSteps) -> bool:
    """Return whether features and votes are equal, as those of a result and its stored copy are."""
    a, b = first.data, other.data
    pairs = [
        (a.x, b.x),
        *((getattr(a.cells, name), getattr(b.cells, name)) for name in ("context", "first", "second", "y")),
    ]
    return a.items == b.items and all(np.array_equal(left, right) for left, right in pairs)


def _same_partition(left: IntArray, right: IntArray) -> bool:
    """Return whether two arrays of cluster numbers, (n,) each, put the same contexts together."""
    n_pairs = len(np.unique(np.stack([left, right], axis=1), axis=0))
    return n_pairs == len(np.unique(left)) == len(np.unique(right))


def _stacked_estimates(
    members: Sequence[NamedResult], steps: Sequence[FitSteps], matches: Sequence[IntArray]
) -> JointEstimates:
    """Return the scores of all results with their joint covariance.

    Parameters
    ----------
    members : sequence of NamedResult
    steps : sequence of FitSteps
        Steps of the members.
    matches : sequence of ndarray of int, shape (n,)
        Places of the first member's contexts in each member.
    """
    estimates = [member.estimates for member in members]
    centred, corrections, contexts, annotators = [], [], [], []
    for e, fit, match in zip(estimates, steps, matches, strict=True):
        influence = fit.influence.given_prompts() if fit.options.prompts == "fixed" else fit.influence.by_context()
        centred.append(influence.centred[match] * e.scale.factor)
        inverse = np.empty_like(match)
        inverse[match] = np.arange(len(match))
        # Influence blocks matter for clusters of annotators only.
        blocks = slice(None) if fit.annotator is not None else slice(0)
        corrections.append(influence.centred_correction[blocks] * e.scale.factor)
        contexts.append(inverse[influence.block_context[blocks]])
        annotators.append(_annotators(fit))
    annotator_codes = (
        np.unique(np.concatenate(annotators), return_inverse=True)[1] if steps[0].annotator is not None else None
    )
    if annotator_codes is not None:
        unknown = np.concatenate(annotators) == _NO_ANNOTATOR
        annotator_codes = np.where(unknown, -1, annotator_codes)
    gauge = block_diag(*(fit.setup.functional.gauge(fit.data.n_items).basis for fit in steps))
    with collected_warnings():
        # The fits have warned of few clusters already.
        joint = clustered_covariance(
            stack_influences(centred, corrections, contexts), gauge, steps[0].clusters, annotator_codes
        )
    matrix = match_blocks(joint.matrix + _between_repetitions(estimates, steps), [e.covariance for e in estimates])
    basis = block_diag(*(e.covariance.basis for e in estimates))
    return JointEstimates(
        kind="result",
        blocks=tuple(member.name for member in members for _ in member.estimates.models),
        models=tuple(name for e in estimates for name in e.models),
        estimate=np.concatenate([e.estimate for e in estimates]),
        covariance=replace(joint, matrix=matrix, basis=basis),
        reason="; ".join(dict.fromkeys(f"{m.name}: {m.estimates.reason}" for m in members)),
        alpha=estimates[0].alpha,
        seed=estimates[0].description.seed,
    )


def _annotators(steps: FitSteps) -> list[str]:
    """Return the name of the annotator of each influence block, because data sets number annotators differently."""
    if steps.annotator is None or steps.clusters is None:
        return []
    name = steps.clusters.names[-1]
    names = sorted(set(steps.data.columns.texts(name)))
    return [names[code] if code >= 0 else _NO_ANNOTATOR for code in steps.annotator]


def _between_repetitions(estimates: Sequence[Estimates], steps: Sequence[FitSteps]) -> FloatArray:
    """Return the covariance between repetitions, joint for results with the same folds, otherwise by result."""
    by_result = []
    for e, fit in zip(estimates, steps, strict=True):
        repeated = [repetition.one_step_result.target.estimate for repetition in fit.repetitions]
        by_result.append(np.stack(repeated) * e.scale.factor if len(repeated) > 1 else np.zeros((1, len(e.models))))
    folds = [(len(e), fit.options.seed) for e, fit in zip(by_result, steps, strict=True) if len(e) > 1]
    n_repetitions = max((count for count, _ in folds), default=1)
    if len(set(folds)) == 1:
        return covariance_of_mean(np.hstack([np.broadcast_to(e, (n_repetitions, e.shape[1])) for e in by_result]))
    return np.asarray(block_diag(*(covariance_of_mean(e) for e in by_result)))
