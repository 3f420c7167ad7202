"""The one-step estimator: from the first stages to debiased estimates and their influence values."""

from __future__ import annotations

from ..data.preferences import PreferenceData
from .influence_blocks import InfluenceBlocks
from .influence_by_context import CHUNK, evaluate_contexts
from .influence_by_group import MAX_STORED, evaluate_groups, groups_suffice
from .nuisance_estimates import NuisanceEstimates, TargetPopulation
from .one_step_result import Estimands, KnownValues, OneStepResult

_EVERY_CONTEXT = TargetPopulation()


def one_step(
    estimands: Estimands,
    data: PreferenceData,
    nuisances: NuisanceEstimates,
    blocks: InfluenceBlocks,
    population: TargetPopulation = _EVERY_CONTEXT,
    *,
    known: KnownValues | None = None,
    chunk: int = CHUNK,
    max_stored: int = MAX_STORED,
) -> OneStepResult:
    """Estimate functionals of mu by one step from the first stages.

    The estimate is the mean over contexts of F(mu) plus the correction sum_jk S / pi J_jk (Y - mu_jk). F is the
    functional and J_jk its derivative in mu_jk. S is 1 where the ordered pair (j, k) is labelled, pi is the probability
    of a label, and Y is the label.

    Where all contexts of a group of identical contexts have the same influence value, one context of each group is
    evaluated (:mod:`dmlrank.estimation.influence_by_group`); otherwise every context is
    (:mod:`dmlrank.estimation.influence_by_context`).

    Notes
    -----
    The correction is the directional derivative of F along delta_jk = S / pi (Y - mu_jk), so that no Jacobian is
    computed.

    Where display order does not matter, delta_jk is the sum of the residuals of (j, k) and of the residuals of (k, j)
    with the wins exchanged; delta_kj is delta_jk with the wins exchanged. pi is then the probability that the pair is
    labelled in either order.

    References
    ----------
    Frauen et al., arXiv 2601.21816, equation eq:debiased_estimator of the source.
    """
    if groups_suffice(estimands, data, nuisances, blocks, population, max_stored=max_stored):
        return evaluate_groups(estimands, data, nuisances, blocks, population)
    return evaluate_contexts(estimands, data, nuisances, blocks, population, known=known, chunk=chunk)
