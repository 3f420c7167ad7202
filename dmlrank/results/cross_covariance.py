"""The joint covariance of results: of independent samples, or from the influence values on shared contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy.linalg import block_diag

from .._utils.blas import one_thread
from .._utils.warning_collection import collected_warnings
from ..data.preferences import FloatArray
from ..exceptions import OptionError, listed
from ..fit.estimates import Estimates
from ..fit.fit_covariance import clustered_covariance
from ..fit.state import FitState
from ..inference.covariance import Covariance, covariance_of_mean, match_blocks, stack_influences
from ..report.statements import counted
from .joint_estimates import JointEstimates
from .shared_contexts import SharedContexts, are_of_one_data_set, joint_annotators, share_contexts

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


@dataclass(frozen=True, slots=True, eq=False)
class JointResults:
    """What is known about the joint distribution of results.

    joint_or_reason: All scores with one covariance, or why there is none.
    samples: How the samples of prompts are related, in a sentence; empty where all results are of the same prompts, or
        where there is no joint covariance.
    """

    joint_or_reason: JointEstimates | str
    samples: str = ""


@one_thread()
def joint_results(members: Sequence[NamedResult], independent: bool | None) -> JointResults:
    """Return the scores of all results with one covariance, or the reason why there is none.

    The diagonal blocks are the covariances of the results. Between results of independent samples the covariance is
    zero. Between others it comes from their influence values on the contexts that they share, see
    :func:`dmlrank.inference.joint_covariance.match_blocks`.
    """
    for member in members:
        if not member.estimates.has_intervals:
            return JointResults(
                f"{member.name!r} is an estimate without intervals: {member.estimates.why_no_intervals}"
            )
    if independent:
        return _declared_independent(members)
    steps = []
    for member in members:
        reason = _why_no_influence_values(member)
        if reason or member.steps is None:
            return JointResults(reason)
        steps.append(member.steps)
    names = [member.name for member in members]
    shared = share_contexts(steps, names)
    if isinstance(shared, str):
        return JointResults(f"{shared}; {_SAY_INDEPENDENT}" if independent is None else shared)
    if shared.is_same:
        return JointResults(_stacked_estimates(members, steps, shared))
    if not shared.is_independent:
        return JointResults(_stacked_estimates(members, steps, shared), _overlap_sentence(shared, names))
    if independent is False:
        return JointResults(
            f"{listed(names)} have no joint covariance: independent=False, but no prompt and no cluster is in two of "
            f"the results, so that nothing says how the results depend on each other; give equal prompts the same "
            f"values in the columns of context="
        )
    return JointResults(_independent_estimates(members), _INDEPENDENT.format(": no prompt is in two of them"))


def _declared_independent(members: Sequence[NamedResult]) -> JointResults:
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
    return JointResults(_independent_estimates(members), _INDEPENDENT.format(known))


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
