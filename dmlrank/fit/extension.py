"""Extension of a fit by new rows, at the cost of scoring them; the first stages are trained again where needed.

Kept from the fit: the models of mu and pi, the transforms of the features, the folds of old contexts, the floor of mu,
whether display order matters, and F(mu) of old contexts, with their part of the remaining bias, where the functional is
bound to the same pairs and weights. Computed again from all rows: cells, compared pairs, weights of pairs and contexts,
floor and scale of the propensities, corrections, covariance with its variance correction, uniform pairs, and all other
diagnostics.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._utils.number_text import p_value_clause
from .._utils.warning_collection import collected_warnings, warn
from ..data.further_rows import JoinedRows
from ..data.learnt_features import LearntFeatures
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..estimation.cross_fitting import CrossFittedMu
from ..exceptions import OptionError, check_choice
from ..nuisance.propensity_model.estimate import has_one_pair_per_context
from .cache import Cache
from .extended_stages import ExtendedStages
from .extension_record import GROWTH, Extension
from .loss_of_new_labels import LOSS_ERROR_RATE, LossTest, compare_losses
from .new_rows import NeedsTraining, join_to_fit, read_joined, refuse_fixed_inputs, why_options_need_training
from .pipeline import run, run_with_cache
from .state import FitSteps, Source

REFITS = ("auto", "never", "always")


def extend_fit(steps: FitSteps, new_rows: object, refit: str) -> FitSteps:
    """Return the steps of a fit of the old and the new rows."""
    check_choice(refit, REFITS, "refit")
    refuse_fixed_inputs(steps)
    rows, source = join_to_fit(steps, new_rows)
    if not steps.estimator.has_first_stages:
        return _trained(steps, rows, source, "an estimate by maximum likelihood is computed from all votes again")
    if refit == "always":
        return _trained(steps, rows, source, "refit='always'")
    reason = ""
    with collected_warnings() as warnings_of_scoring:
        try:
            extended = _scored(steps, rows, source, refit)
        except NeedsTraining as needs_training:
            extended, reason = None, str(needs_training)
    if extended is not None:
        for message in warnings_of_scoring:
            warn(message, stacklevel=2)
        return extended
    if refit == "never":
        raise OptionError(
            f"refit='never' is not possible for these rows: {reason}; use refit='auto' or refit='always', which train "
            f"the first stages on all rows"
        )
    return _trained(steps, rows, source, reason)


def _trained(steps: FitSteps, rows: JoinedRows, source: Source, reason: str) -> FitSteps:
    """Return a new fit of all rows."""
    trained = run(steps.options, source)
    place = LearntFeatures.of(steps.data).places(trained.data)
    change = _Change.between(steps, trained, place)
    extension = Extension(
        rows_added=rows.n_new,
        contexts_new=int(change.is_new.sum()),
        contexts_with_new_votes=int(change.has_further_votes.sum()),
        models_new=change.models_new,
        clusters_returning=change.clusters_returning,
        refitted=True,
        reason=reason,
        remarks=rows.remarks,
        votes_at_training=trained.data.n_votes,
        units_at_training=_count_units(trained),
        contexts_of_a_fold=trained.data.n_contexts,
    )
    return replace(trained, extension=extension, is_later=np.zeros(trained.data.n_contexts, dtype=bool))


def _scored(steps: FitSteps, rows: JoinedRows, source: Source, refit: str) -> FitSteps:
    """Return the fit of all rows with the first stages that were trained before."""
    reason = why_options_need_training(steps.options)
    if reason:
        raise NeedsTraining(reason)
    joined = read_joined(steps, rows, source)
    stages = ExtendedStages(steps, joined)
    extended = run_with_cache(steps.options, source, Cache(steps=stages.steps_of_extension()))
    change = _Change.between(steps, extended, joined.place)
    is_later = change.is_new | change.has_further_votes
    if steps.is_later is not None:
        is_later[joined.place] |= steps.is_later
    extended = replace(extended, is_later=is_later)
    extension = _scoring_extension(steps, extended, change, rows, stages.votes_of_new_items)
    if refit == "auto":
        _require_good_stages(steps, extended, extension)
    return replace(extended, extension=extension)


class _Change(NamedTuple):
    """What an extension added.

    is_new (n,): Contexts that the fit did not have.
    has_further_votes (n,): Contexts of the fit that got further votes.
    models_new: Models that the fit did not rank.
    clusters_returning: Clusters of the fit that got further contexts or votes; 0 without clusters.
    """

    is_new: NDArray[np.bool_]
    has_further_votes: NDArray[np.bool_]
    models_new: tuple[str, ...]
    clusters_returning: int

    @classmethod
    def between(cls, before: FitSteps, after: FitSteps, place: IntArray) -> _Change:
        """Compare a fit with its extension; ``place``, (n_old,), numbers the old contexts among all contexts."""
        is_new = np.ones(after.data.n_contexts, dtype=bool)
        is_new[place] = False
        further = _votes_by_context(after.data)
        further[place] -= _votes_by_context(before.data)
        models_new = tuple(name for name in after.data.items if name not in before.data.items)
        has_further_votes, n_returning = ~is_new & (further > 0), 0
        if after.clusters is not None:
            cluster = after.clusters.of_context
            n_returning = len(np.intersect1d(cluster[place], cluster[is_new | has_further_votes]))
        return cls(is_new, has_further_votes, models_new, n_returning)


def _votes_by_context(data: PreferenceData) -> FloatArray:
    """Return the number of votes of each context, (n,)."""
    return np.bincount(data.cells.context, data.cells.n_votes, data.n_contexts).astype(float)


def _scoring_extension(
    steps: FitSteps, extended: FitSteps, change: _Change, rows: JoinedRows, votes_of_new_models: int
) -> Extension:
    """Describe an extension without training."""
    earlier = _extension_of_training(steps) if steps.extension is None else steps.extension
    mu, n_predicted_by_mean = extended.first.mu_without_judge, 0
    if isinstance(mu, CrossFittedMu):
        n_predicted_by_mean = int((mu.folds.fold >= len(mu.trained)).sum())
    test = _loss_test(extended, earlier.units_at_training)
    return Extension(
        rows_added=rows.n_new,
        contexts_new=int(change.is_new.sum()),
        contexts_with_new_votes=int(change.has_further_votes.sum()),
        models_new=change.models_new,
        clusters_returning=change.clusters_returning,
        refitted=False,
        reason=_why_not_trained(extended, test, earlier.votes_at_training),
        remarks=rows.remarks,
        number=earlier.number + 1,
        rows_since_training=earlier.rows_since_training + rows.n_new,
        votes_at_training=earlier.votes_at_training,
        units_at_training=earlier.units_at_training,
        contexts_of_no_fold=n_predicted_by_mean,
        contexts_of_a_fold=extended.data.n_contexts - n_predicted_by_mean,
        models_since_training=earlier.models_since_training + change.models_new,
        votes_of_new_models=votes_of_new_models,
        loss_z=test.z,
        loss_p=test.p_value,
    )


def _extension_of_training(steps: FitSteps) -> Extension:
    """Describe a fit without extensions, from which the first extension goes on."""
    n_votes = steps.data.n_votes
    return Extension(0, 0, 0, (), True, "", votes_at_training=n_votes, units_at_training=_count_units(steps))


def _unit_of_context(steps: FitSteps) -> IntArray:
    """Return the independent unit of each context, (n,): itself, or its cluster."""
    return np.arange(steps.data.n_contexts) if steps.clusters is None else steps.clusters.of_context


def _count_units(steps: FitSteps) -> int:
    """Return the number of independent units with votes."""
    return int(np.count_nonzero(np.bincount(_unit_of_context(steps)[steps.data.cells.context])))


def _loss_test(extended: FitSteps, units_at_training: int) -> LossTest:
    """Test whether later labels are predicted worse than earlier ones; None without features."""
    data = extended.data
    if not data.x.shape[1]:
        return LossTest()
    context = data.cells.context
    assert extended.is_later is not None
    return compare_losses(
        data.cells,
        extended.first.mu_without_judge.at(data.cells),
        extended.is_later[context],
        _unit_of_context(extended)[context],
        n_items=data.n_items,
        planned=(GROWTH - 1) * units_at_training,
    )


def _require_good_stages(steps: FitSteps, extended: FitSteps, extension: Extension) -> None:
    """Raise :class:`NeedsTraining` where first stages that were trained on all rows would be better."""
    data = extended.data
    if not data.x.shape[1]:
        return
    factor = data.n_votes / extension.votes_at_training
    if factor >= GROWTH:
        raise NeedsTraining(
            f"there are {factor:.2f} times the {extension.votes_at_training:,} votes of the last training, and from "
            f"{GROWTH:g} times on the first stages are trained again"
        )
    if (
        extended.options.estimates_propensity
        and has_one_pair_per_context(steps.data.cells)
        and not has_one_pair_per_context(data.cells)
    ):
        raise NeedsTraining(
            "some prompts now have labels on several pairs, and the model of the propensities was trained for prompts "
            "with one labelled pair"
        )
    if extension.loss_p <= LOSS_ERROR_RATE:
        raise NeedsTraining(
            f"the labels since the last training are predicted worse than the earlier ones: their held-out log-loss is "
            f"{extension.loss_z:.1f} standard errors larger (p = {extension.loss_p:.2g})"
        )


def _why_not_trained(extended: FitSteps, test: LossTest, votes_at_training: int) -> str:
    """Return why the first stages were not trained again, for the summary."""
    if not extended.data.x.shape[1]:
        return "without features nothing is trained, and the frequencies of the pairs are those of all votes"
    growth = f"there are {extended.data.n_votes / votes_at_training:.2f} times the votes of the last training"
    if np.isnan(test.z):
        return f"{growth}, and the labels since then are too few to test whether they are predicted worse"
    worse = "" if test.rejects else "not "
    return (
        f"{growth}, and the labels since then are {worse}predicted significantly worse than the earlier ones "
        f"(z = {test.z:.2f}, p {p_value_clause(test.p_value)})"
    )
