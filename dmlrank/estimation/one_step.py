"""The one-step estimator: F(mu) and its correction, from first stages to estimates with their influence."""

from __future__ import annotations

from ..data.preferences import PreferenceData
from .influence_blocks import InfluenceBlocks
from .influence_by_context import CHUNK, evaluate_contexts
from .influence_by_group import evaluate_groups, groups_suffice
from .nuisance_estimates import NuisanceEstimates, TargetPopulation
from .one_step_result import Estimands, OneStepResult

_EVERY_CONTEXT = TargetPopulation()


def one_step(
    estimands: Estimands,
    data: PreferenceData,
    nuisances: NuisanceEstimates,
    blocks: InfluenceBlocks,
    population: TargetPopulation = _EVERY_CONTEXT,
    *,
    n_jobs: int | None = 1,
    chunk: int = CHUNK,
) -> OneStepResult:
    """Estimate functionals of mu by one step from the first stages [P eq:debiased_estimator].

    Where identical contexts come in groups that give the same estimates, one context of each group is evaluated.

    Parameters
    ----------
    estimands : Estimands
    data : PreferenceData
    nuisances : NuisanceEstimates
        Estimates of mu and of the propensities of labels and verdicts.
    blocks : InfluenceBlocks
        In what blocks the correction is kept.
    population : TargetPopulation
        Whose mean is estimated: by default all contexts, with equal weights.
    n_jobs : int, optional
        Threads; all cores when None. The numbers do not depend on it.
    chunk : int
        Numbers of mu that are held at a time, in every thread.

    Notes
    -----
    The correction sum_jk S/pi J_jk (Y - mu_jk) is the directional derivative along delta_jk = S/pi (Y - mu_jk), so no
    Jacobian is ever built. Where order does not matter, the residuals of both orders of a pair add up and stand flipped
    at the other order, and pi is the expected number of labelled orders.
    """
    if groups_suffice(estimands, data, nuisances, blocks, population):
        return evaluate_groups(estimands, data, nuisances, blocks, population)
    return evaluate_contexts(estimands, data, nuisances, blocks, population, n_jobs=n_jobs, chunk=chunk)
