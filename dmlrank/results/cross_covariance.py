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

# Sorts before every name.
_NO_ANNOTATOR = "\x00"


@dataclass(frozen=True, slots=True)
class NamedResult:
    """One of the results to compare: its name, its estimates, and its steps while it has its data."""

    name: str
    estimates: Estimates
    steps: FitSteps | None


def joint_estimates(members: Sequence[NamedResult]) -> JointEstimates | str:
    """Scores of all results with one covariance, or the reason why there is none.

    The diagonal blocks are the results' own covariances; what lies between two results comes from their influence
    values on the same contexts, see :func:`dmlrank.inference.joint_covariance.match_blocks`.
    """
    steps = []
    for member in members:
        reason = _why_no_covariance(member)
        if reason or member.steps is None:
            return reason
        steps.append(member.steps)
    orders = [np.arange(steps[0].data.n_contexts)]
    for member, other in zip(members[1:], steps[1:], strict=True):
        matched = _match_contexts(steps[0], other)
        if isinstance(matched, str):
            return f"{members[0].name!r} and {member.name!r} have no joint covariance: {matched}"
        orders.append(matched)
    return _stacked_estimates(members, steps, orders)


def _why_no_covariance(member: NamedResult) -> str:
    """Why a result has no covariance with others, or nothing."""
    if not member.estimates.has_intervals:
        return f"{member.name!r} is an estimate without intervals: {member.estimates.why_no_intervals}"
    if member.estimates.part:
        return (
            f"{member.name!r} is a view of {member.estimates.part}; tests between groups are those of the whole "
            f"result's by()"
        )
    if member.steps is None:
        return f"{member.name!r} was stored without its data, and covariances between results need those"
    return ""


def _match_contexts(first: FitSteps, other: FitSteps) -> IntArray | str:
    """Where the first result's contexts stand in the other one, (n,), or why they are not the same."""
    if first.options.prompts != other.options.prompts:
        return "one is about new prompts, the other about these alone; give both the same prompts="
    own, its = (steps.clusters.names if steps.clusters else () for steps in (first, other))
    if own != its:
        shown = " and ".join(f"clusters of {', '.join(names)}" if names else "none" for names in (own, its))
        return f"their clusters differ ({shown}); update one of them with the cov_type= and cov_kwds= of the other"
    order = _match_order(first, other)
    if isinstance(order, str) or first.clusters is None or other.clusters is None:
        return order
    for a, b in ((first.clusters.prompt, other.clusters.prompt), (first.clusters.other, other.clusters.other)):
        if a is None or b is None:
            if a is not b:
                return f"{first.clusters.names[-1]!r} groups prompts in one and votes in the other"
        elif not _same_partition(a, b[order]):
            return "the clusters hold other prompts in one than in the other"
    return order


def _match_order(first: FitSteps, other: FitSteps) -> IntArray | str:
    a, b = first.data, other.data
    n = len(a.context_ids)
    if first.options.context != other.options.context:
        return "they do not have the same context= columns, so prompts cannot be matched"
    if first.options.context:
        place = {identifier: at for at, identifier in enumerate(b.context_ids)}
        missing = [identifier for identifier in a.context_ids if identifier not in place]
        if missing or len(place) != n:
            shared = n - len(missing)
            return f"they are not of the same prompts: {shared:,} are in both, of {n:,} and {len(place):,}"
        return np.array([place[identifier] for identifier in a.context_ids], dtype=np.intp)
    alike = len(b.context_ids) == n and bool((a.context_ids == b.context_ids).all())
    if alike and (first.source.data is other.source.data or _same_votes(first, other)):
        return np.arange(n)
    return "they are not of the same rows, and without context= nothing says which rows are the same prompt"


def _same_votes(first: FitSteps, other: FitSteps) -> bool:
    """Whether the features and votes are the same, as those of a result and its stored copy are."""
    a, b = first.data, other.data
    pairs = [
        (a.x, b.x),
        *((getattr(a.cells, name), getattr(b.cells, name)) for name in ("context", "first", "second", "y")),
    ]
    return a.items == b.items and all(np.array_equal(one, two) for one, two in pairs)


def _same_partition(one: IntArray, two: IntArray) -> bool:
    pairs = len(np.unique(np.stack([one, two], axis=1), axis=0))
    return pairs == len(np.unique(one)) == len(np.unique(two))


def _stacked_estimates(
    members: Sequence[NamedResult], steps: Sequence[FitSteps], orders: Sequence[IntArray]
) -> JointEstimates:
    estimates = [member.estimates for member in members]
    centred, corrections, contexts, annotators = [], [], [], []
    for e, one, order in zip(estimates, steps, orders, strict=True):
        influence = one.influence.given_prompts() if one.options.prompts == "fixed" else one.influence.by_context()
        centred.append(influence.centred[order] * e.scale.factor)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        # Without annotators no covariance looks at blocks.
        kept = slice(None) if one.annotator is not None else slice(0)
        corrections.append(influence.centred_correction[kept] * e.scale.factor)
        contexts.append(back[influence.block_context[kept]])
        annotators.append(_annotators(one))
    labels = np.unique(np.concatenate(annotators), return_inverse=True)[1] if steps[0].annotator is not None else None
    if labels is not None:
        unknown = np.concatenate(annotators) == _NO_ANNOTATOR
        labels = np.where(unknown, -1, labels)
    gauge = block_diag(*(one.setup.functional.gauge(one.data.n_items).basis for one in steps))
    with collected_warnings():
        # Few clusters: the fits have said so.
        joint = clustered_covariance(stack_influences(centred, corrections, contexts), gauge, steps[0].clusters, labels)
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
    """Name of the annotator of each block, for data sets code them each for itself."""
    if steps.annotator is None or steps.clusters is None:
        return []
    name = steps.clusters.names[-1]
    known = sorted(set(steps.data.columns.texts(name)))
    return [known[code] if code >= 0 else _NO_ANNOTATOR for code in steps.annotator]


def _between_repetitions(estimates: Sequence[Estimates], steps: Sequence[FitSteps]) -> FloatArray:
    """Covariance that other folds bring, shared by results that have the same folds, else each for itself."""
    by_result = []
    for e, one in zip(estimates, steps, strict=True):
        repeated = [repetition.one_step_result.target.estimate for repetition in one.repetitions]
        by_result.append(np.stack(repeated) * e.scale.factor if len(repeated) > 1 else np.zeros((1, len(e.models))))
    several = [(len(e), one.options.seed) for e, one in zip(by_result, steps, strict=True) if len(e) > 1]
    number = max((count for count, _ in several), default=1)
    if len(set(several)) == 1:
        return covariance_of_mean(np.hstack([np.broadcast_to(e, (number, e.shape[1])) for e in by_result]))
    return np.asarray(block_diag(*(covariance_of_mean(e) for e in by_result)))
