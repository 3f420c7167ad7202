"""Extension of a fit by new rows, at the cost of scoring them; the first stages are trained again where needed.

Old and new rows are read with the transforms of the fit. :class:`ExtendedStages` predicts from the models of the fit;
all else is computed from all rows. The first stages are trained again where the votes have
grown, where the models cannot predict the new rows, and where later labels are predicted worse than earlier ones: a
test that holds at all times compares the log-loss of each later label with the mean out-of-fold log-loss of the earlier
labels of the same ordered pair. If later prompts, voters and models are like the earlier ones, the two have the same
expectation: in both cases the model has not seen the label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._utils.computation import collected_warnings, warn
from ..data.columns import JoinedRows, join_rows
from ..data.derived_pairs import DerivedPairs
from ..data.formula.parse import SHAPE_OF_SCORES, parse_formula
from ..data.frames import column_names, is_partitioned
from ..data.graph import Graph
from ..data.pairs_from_scores import read_scores
from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..data.vote_columns import Clusters
from ..estimation.cross_fitting import (
    CrossFittedMu,
    FoldUnits,
    MuSource,
    SuppliedMu,
    extend_folds,
    fold_key,
    spread_over_units,
)
from ..estimation.influence import EstimandName, KnownValues
from ..estimation.judge import JudgedMu
from ..exceptions import DataError, OptionError, check_choice, listed
from ..inference.confidence_sequence import Boundary, best_tau
from ..nuisance.outcome_model.cross_fit import MeanMu, MuModel
from ..nuisance.outcome_model.main_effects import SmoothBoostedMu, fit_new_items
from ..nuisance.propensity_model.estimate import (
    CrossFittedPairPropensity,
    FoldPropensityModel,
    MeanPropensity,
    PairChoicePropensity,
    Propensity,
    estimates_at_cells,
    has_one_pair_per_context,
    needs_no_model,
    propensity_from_models,
)
from ..nuisance.propensity_model.pair_choice import fit_new_shares
from ..nuisance.propensity_model.supplied import is_plan, propensity_columns
from ..nuisance.training_rows import Folds
from ..nuisance.verdicts import Verdicts, are_of_fixed_prompts, human_given_verdict, judge_columns
from ..options import Options
from ..tables.display_text import p_value_clause
from .compared_pairs import OrderChoice
from .estimates import SMALLEST_PROBABILITY
from .method import fit_with, run
from .stages import Draw, FirstStages, RepetitionSeed, read_source, reading_options
from .state import Extension, FitState, Inputs, Source

REFITS = ("auto", "never", "always")
# Error rate of the test: the probability that first stages which fit as well as ever are trained again because of the
# losses, at any time before the next training.
LOSS_ERROR_RATE = 0.05
# Fewest units with later labels, and fewest earlier labels of a pair, with which the test is made.
_FEWEST_UNITS = 30
_FEWEST_LABELS = 2


# The first stages are trained again when there are this many times the votes of the last training. Until then the first
# stages were trained on at least 80 % of the votes, the share that trains the model of a fold where there are five
# folds. Effects of models that entered later are fitted again when these models have this many times the votes from
# which their effects were last fitted.
GROWTH = 1.25


class NeedsTraining(Exception):
    """Raised where the first stages of a fit cannot be used for new rows; the message says why."""


class NewItems(NamedTuple):
    """Items that entered after the training.

    item (K_old,): Number of each item of the fit among all items.
    n_votes: Votes from which the effects of these items are fitted, now or last; 0 without such items.
    are_fitted: Whether this happens in this extension.
    """

    item: IntArray
    n_votes: int
    are_fitted: bool


class ExtendedStages(FirstStages):
    """First stages of a fit, applied to old and new rows without training.

    state: The fit that is extended.
    data: Votes on all items, read together, with the features of the fit's transforms.
    place (n_old,): Number of each context of the fit among all contexts.

    Kept from the fit: the models of mu and pi, the transforms of the features, the folds of old contexts, the floor of
    mu, whether display order matters, and F(mu) of old contexts, with their part of the remaining bias, where the
    functional is bound to the same pairs and weights.
    """

    def __init__(self, state: FitState, source: Source, data: PreferenceData, place: IntArray) -> None:
        super().__init__(source, state.options)
        self.state, self.data, self.place = state, data, place
        self._new_items: NewItems | None = None
        # What _deal was given: the contexts that have to share a model.
        self._groupings: list[IntArray] = []

    # --- data and folds -----------------------------------------------------------------------------------------------

    def data_as_read(self) -> PreferenceData:
        """Return the data of all rows, which were read before."""
        return self.keep("data", (self.source, reading_options(self.options)), lambda: self.data)

    def _choose_pairs(self, votes: PreferenceData) -> OrderChoice:
        """Return the choice of the fit, because its models were trained for this choice."""
        assert self.state.display_order is not None
        return self.state.display_order

    def _number_of_folds(
        self, data: PreferenceData, clusters: Clusters | None, mu: SuppliedMu | None, are_used: bool
    ) -> int:
        return self.state.first.folds.n_folds

    def _deal(self, units: FoldUnits, n_folds: int, seed: RepetitionSeed) -> Folds:
        """Deal folds: old contexts keep theirs, new contexts of an old unit get the unit's, new units are dealt."""
        self._groupings = units.groupings
        return extend_folds(self.state.repetitions[seed.repetition].folds, self.place, units, fold_key(*seed))

    def _model_of_contexts(self, old: IntArray, n_models: int) -> IntArray:
        """Return the number of the model that predicts each context, (n,); ``n_models`` is the mean of all models."""
        model = np.full(self.data.n_contexts, n_models)
        for unit in self._groupings:
            model_of_unit = spread_over_units(unit, self.place, np.where(old < n_models, old, -1))
            model = np.where(model_of_unit >= 0, model_of_unit, model)
        model[self.place] = old
        return model

    # --- items that entered after the training ------------------------------------------------------------------------

    @property
    def votes_of_new_items(self) -> int:
        """Votes from which effects of items that entered after the training were last fitted; 0 without such items."""
        return 0 if self._new_items is None else self._new_items.n_votes

    def new_items(self, data: PreferenceData) -> NewItems:
        """Return which items entered after the training, and whether their effects are fitted now.

        Effects are fitted when an item enters, and when the votes on such items have grown by the factor ``GROWTH``.
        """
        if self._new_items is not None:
            return self._new_items
        old = self.state.data.items
        absent = [name for name in old if name not in data.items]
        if absent:
            raise NeedsTraining(f"the models {listed(absent)} are no longer ranked")
        item = np.array([data.items.index(name) for name in old])
        if (np.diff(item) < 0).any():
            raise NeedsTraining("the models have another order than in the fit")
        before = self.state.extension
        since_training = () if before is None else before.models_since_training
        is_new = np.array([name not in old or name in since_training for name in data.items])
        cells = data.cells
        n_votes = int(cells.n_votes[is_new[cells.first] | is_new[cells.second]].sum())
        n_votes_of_last_fit = 0 if before is None else before.votes_of_new_models
        are_fitted = len(data.items) > len(old) or (n_votes > 0 and n_votes >= GROWTH * n_votes_of_last_fit)
        self._new_items = NewItems(item, n_votes if are_fitted else n_votes_of_last_fit, are_fitted)
        return self._new_items

    # --- mu -----------------------------------------------------------------------------------------------------------

    def _fit_mu(
        self,
        data: PreferenceData,
        folds: Folds,
        seed: RepetitionSeed,
        like: MuModel | None = None,
        soft: Sequence[Cells] | None = None,
    ) -> CrossFittedMu:
        """Return mu of all contexts from the models of the fit."""
        old, names = self.state.data.categories, data.categories
        if old != names:
            further = [name for name in names if name not in old]
            raise NeedsTraining(
                f"the new labels have the categories {listed(further)}, which no model has seen"
                if further
                else f"the categories of the labels are {listed(names)} instead of {listed(old)}"
            )
        return self._extended_mu(self.state.repetitions[seed.repetition].mu_without_judge, data, folds)

    def _extended_mu(self, mu: MuSource, data: PreferenceData, folds: Folds) -> CrossFittedMu:
        if not isinstance(mu, CrossFittedMu):
            raise NeedsTraining("mu of the fit has no models by fold that could predict new prompts")
        models, new = mu.trained, self.new_items(data)
        if new.are_fitted:
            smooth = [model for model in models if isinstance(model, SmoothBoostedMu)]
            if len(smooth) < len(models):
                raise NeedsTraining(
                    f"{listed(name for name in data.items if name not in self.state.data.items)} entered the ranking, "
                    f"and only the default learner has effects of single models"
                )
            fitted = tuple(fit_new_items(model, data, folds.fold != f, new.item) for f, model in enumerate(smooth))
            # The effects of a fold were fitted to all labels outside the fold, old and new. The mean of all models has
            # therefore seen every context, and each context is predicted by the model of its fold.
            return CrossFittedMu(fitted, folds, data.x)
        # The "fold" of a context is the number of the model that predicts it; the mean of all models is the last one.
        model = self._model_of_contexts(mu.folds.fold, len(models))
        extended = CrossFittedMu((*models, MeanMu(models)), Folds(model, folds.unit, len(models) + 1), data.x)
        extended.at_with_known(data.cells, mu.at(self.state.data.cells), self._places_of_cells(data))
        return extended

    def _fit_mu_with_judge(
        self, data: PreferenceData, folds: Folds, verdicts: Verdicts, mu: MuSource, seed: RepetitionSeed
    ) -> JudgedMu:
        """Return mu from the models of the fit, and P(label | x, verdict), whose few parameters are estimated again."""
        repetition = self.state.repetitions[seed.repetition]
        if repetition.mu is not repetition.mu_without_judge:
            mu = self._extended_mu(repetition.mu, data, folds)
        return JudgedMu(mu, human_given_verdict(data, verdicts, mu.at(verdicts.cells), folds)[1])

    # --- propensities -------------------------------------------------------------------------------------------------

    def _label_and_judge_propensities(
        self, data: PreferenceData, folds: Folds, inputs: Inputs, seed: RepetitionSeed
    ) -> tuple[Propensity, FloatArray | None]:
        verdicts, propensity = inputs.verdicts, self.options.propensity
        is_marginal = isinstance(propensity, str) and propensity == "marginal"
        if verdicts is not None and not verdicts.covers_all_pairs and not is_marginal:
            raise NeedsTraining("the propensities of the judge's verdicts are estimated from all prompts together")
        return super()._label_and_judge_propensities(data, folds, inputs, seed)

    def propensities_of_cells(
        self, data: PreferenceData, folds: Folds, options: Options, graph: Graph, seed: RepetitionSeed, draw: Draw
    ) -> Propensity:
        """Return propensities from the models of the fit, floored and scaled by all labels.

        Propensities that no model estimates, such as supplied ones, are computed as in a fit.
        """
        if not options.estimates_propensity or needs_no_model(data):
            return super().propensities_of_cells(data, folds, options, graph, seed, draw)
        of_fit = self.state.repetitions[seed.repetition].propensity
        if not isinstance(of_fit.pairs, CrossFittedPairPropensity) or of_fit.estimates is None:
            raise NeedsTraining("the fit has no models of the propensities that could predict new prompts")
        trained, new = of_fit.pairs.trained, self.new_items(data)
        if new.are_fitted:
            fitted = []
            for f, model in enumerate(trained):
                if not isinstance(model, PairChoicePropensity):
                    raise NeedsTraining(
                        "models entered the ranking, and only the model of the propensities for prompts with one "
                        "labelled pair has effects of single models"
                    )
                fitted.append(replace(model, shares=fit_new_shares(model.shares, data, folds.fold != f, new.item)))
            estimates = estimates_at_cells(fitted, folds.fold, data)
            return propensity_from_models(fitted, folds.fold, data, estimates)
        number = self._model_of_contexts(of_fit.pairs.fold, len(trained))
        models: tuple[FoldPropensityModel, ...] = (*trained, MeanPropensity(trained))
        place = self._places_of_cells(data)
        is_new = place < 0
        estimates = np.empty(len(data.cells))
        estimates[~is_new] = of_fit.estimates[place[~is_new]]
        new_cells = data.cells.only(is_new)
        estimates[is_new] = estimates_at_cells(models, number, data, new_cells)
        return propensity_from_models(models, number, data, estimates)

    def _places_of_cells(self, data: PreferenceData) -> IntArray:
        """Return the place of each labelled cell among those of the fit, (m,); -1 for further cells."""
        old, cells, item, n_items = self.state.data.cells, data.cells, self.new_items(data).item, data.n_items
        old_code = (self.place[old.context] * n_items + item[old.first]) * n_items + item[old.second]
        code = (cells.context * n_items + cells.first) * n_items + cells.second
        order = np.argsort(old_code, kind="stable")
        candidate = order[np.minimum(np.searchsorted(old_code[order], code), len(order) - 1)]
        return np.where(old_code[candidate] == code, candidate, -1)

    # --- scores -------------------------------------------------------------------------------------------------------

    def _select_floor(self, data: PreferenceData, mu: MuSource, seed: RepetitionSeed) -> float:
        """Return the floor of mu that the fit selected."""
        return self.state.repetitions[seed.repetition].floor

    def _known_values(self, inputs: Inputs, floor: float, seed: RepetitionSeed) -> KnownValues | None:
        """Return F(mu) of the old contexts; None where the fit has not computed them, or F is another functional."""
        old, before, now = self.state.repetitions[seed.repetition], self.state.setup, inputs.setup
        # F(mu) of an old context is the one of the fit where the models, the functional and the floor are.
        has_same_scores = (
            old.sample is None
            and old.mean is None
            and floor == old.floor
            and not self.new_items(inputs.data).are_fitted
            and before.weighting == now.weighting != "counts"
            and (before.graph.edges == now.graph.edges).all()
        )
        if not has_same_scores:
            return None
        n_contexts, by_name = inputs.data.n_contexts, dict[EstimandName, FloatArray]()
        names: tuple[EstimandName, ...] = ("target", "win_share", "position_effect")
        for name in names:
            value = old.one_step_result.influences[name].by_context().value
            by_name[name] = np.zeros((n_contexts, value.shape[1]))
            by_name[name][self.place] = value
        is_known = np.zeros(n_contexts, dtype=bool)
        is_known[self.place] = True
        return KnownValues(by_name, is_known, old.one_step_result.n_floored)


def extend_fit(state: FitState, new_rows: object, refit: str) -> FitState:
    """Return the fit of the old and the new rows."""
    check_choice(refit, REFITS, "refit")
    refuse_fixed_inputs(state)
    rows, source = join_to_fit(state, new_rows)
    if isinstance(source.data, DerivedPairs):
        return _trained(state, rows, source, "means and shares of scores are computed from all scores again")
    if not state.estimator.has_first_stages:
        return _trained(state, rows, source, "an estimate by maximum likelihood is computed from all votes again")
    if not state.data.x.shape[1]:
        reason = "without features they are the frequencies of the pairs, which are counted in all votes"
        return _trained(state, rows, source, reason)
    if refit == "always":
        return _trained(state, rows, source, "refit='always'")
    reason = ""
    with collected_warnings() as warnings_of_scoring:
        try:
            extended = _scored(state, rows, source, refit)
        except NeedsTraining as needs_training:
            extended, reason = None, str(needs_training)
    if extended is not None:
        for message in warnings_of_scoring:
            warn(message)
        return extended
    if refit == "never":
        raise OptionError(
            f"refit='never' is not possible for these rows: {reason}; use refit='auto' or refit='always', which train "
            f"the first stages on all rows"
        )
    return _trained(state, rows, source, reason)


def _trained(state: FitState, rows: JoinedRows, source: Source, reason: str) -> FitState:
    """Return a new fit of all rows."""
    trained = run(state.options, source)
    added, _ = _what_was_added(state, trained, state.data.places_in(trained.data), rows)
    extension = replace(
        added,
        reason=reason,
        votes_at_training=trained.data.n_votes,
        units_at_training=_count_units(trained),
        contexts_of_a_fold=trained.data.n_contexts,
    )
    return replace(trained, extension=extension, is_later=np.zeros(trained.data.n_contexts, dtype=bool))


def _scored(state: FitState, rows: JoinedRows, source: Source, refit: str) -> FitState:
    """Return the fit of all rows with first stages and, for old contexts, features that were computed before."""
    o = state.options
    if o.adjust is not None:
        raise NeedsTraining("adjust= needs first stages for style, which have to be learnt from all votes together")
    if o.judge is not None and o.judge_as == "features":
        raise NeedsTraining(
            "judge_as='features' makes verdicts features of mu, whose models then cannot predict new prompts"
        )
    if o.propensity_formula is not None:
        raise NeedsTraining(
            f"propensity={o.propensity!r} has features of its own, which are learnt from all prompts together"
        )
    try:
        data = read_source(source, o, state.data)
    except DataError as error:
        # If the rows themselves are the reason, the same error is raised where transforms are fitted to all rows.
        with collected_warnings():
            read_source(source, o)
        raise NeedsTraining(f"the features of the fit do not fit the new rows ({error})") from None
    place = state.data.places_in(data)
    stages = ExtendedStages(state, source, data, place)
    extended = fit_with(stages)
    added, is_later = _what_was_added(state, extended, place, rows)
    if state.is_later is not None:
        is_later[place] |= state.is_later
    extended = replace(extended, is_later=is_later)
    extension = _scoring_extension(state, extended, added, stages.votes_of_new_items)
    if refit == "auto":
        _require_good_stages(state, extended, extension)
    return replace(extended, extension=extension)


def _what_was_added(
    before: FitState, after: FitState, place: IntArray, rows: JoinedRows
) -> tuple[Extension, NDArray[np.bool_]]:
    """Describe what an extension added; also return which contexts are new or have further votes, (n,)."""
    is_new = np.ones(after.data.n_contexts, dtype=bool)
    is_new[place] = False
    votes_after, votes_before = (_votes_by_context(data) for data in (after.data, before.data))
    votes_after[place] -= votes_before
    has_further_votes, n_returning = ~is_new & (votes_after > 0), 0
    is_later = is_new | has_further_votes
    if after.units.clusters is not None:
        cluster = after.units.clusters.of_context
        n_returning = len(np.intersect1d(cluster[place], cluster[is_later]))
    extension = Extension(
        rows_added=rows.n_new,
        contexts_new=int(is_new.sum()),
        contexts_with_new_votes=int(has_further_votes.sum()),
        models_new=tuple(name for name in after.data.items if name not in before.data.items),
        refitted=True,
        reason="",
        clusters_returning=n_returning,
        remarks=rows.remarks,
    )
    return extension, is_later


def _scoring_extension(state: FitState, extended: FitState, added: Extension, votes_of_new_models: int) -> Extension:
    """Describe an extension without training, and test whether later labels are predicted worse than earlier ones."""
    data, cells, mu = extended.data, extended.data.cells, extended.first.mu_without_judge
    earlier = state.extension
    if earlier is None:
        votes, units = state.data.n_votes, _count_units(state)
        earlier = Extension(0, 0, 0, (), True, "", votes_at_training=votes, units_at_training=units)
    n_predicted_by_mean = 0
    if isinstance(mu, CrossFittedMu):
        n_predicted_by_mean = int((mu.folds.fold >= len(mu.trained)).sum())
    growth = f"there are {data.n_votes / earlier.votes_at_training:.2f} times the votes of the last training"
    assert extended.is_later is not None
    test = compare_losses(
        cells,
        mu.at(cells),
        extended.is_later[cells.context],
        extended.units.of_contexts(data)[cells.context],
        n_items=data.n_items,
        planned=(GROWTH - 1) * earlier.units_at_training,
    )
    worse = "" if test.p_value <= LOSS_ERROR_RATE else "not "
    reason = (
        f"{growth}, and the labels since then are {worse}predicted significantly worse than the earlier ones "
        f"(z = {test.z:.2f}, p {p_value_clause(test.p_value)})"
    )
    if np.isnan(test.z):
        reason = f"{growth}, and the labels since then are too few to test whether they are predicted worse"
    return replace(
        added,
        refitted=False,
        reason=reason,
        number=earlier.number + 1,
        rows_since_training=earlier.rows_since_training + added.rows_added,
        votes_at_training=earlier.votes_at_training,
        units_at_training=earlier.units_at_training,
        contexts_of_no_fold=n_predicted_by_mean,
        contexts_of_a_fold=data.n_contexts - n_predicted_by_mean,
        models_since_training=earlier.models_since_training + added.models_new,
        votes_of_new_models=votes_of_new_models,
        loss_z=test.z,
        loss_p=test.p_value,
    )


def _votes_by_context(data: PreferenceData) -> FloatArray:
    """Return the number of votes, or of scores, of each context, (n,)."""
    if data.scores is not None:
        return data.scores.n_runs.sum(axis=1).astype(float)
    return np.bincount(data.cells.context, data.cells.n_votes, data.n_contexts).astype(float)


def _count_units(state: FitState) -> int:
    """Return the number of independent units with votes."""
    return len(np.unique(state.units.of_contexts(state.data)[state.data.cells.context]))


def _require_good_stages(state: FitState, extended: FitState, extension: Extension) -> None:
    """Raise :class:`NeedsTraining` where first stages that were trained on all rows would be better."""
    data = extended.data
    factor = data.n_votes / extension.votes_at_training
    if factor >= GROWTH:
        raise NeedsTraining(
            f"there are {factor:.2f} times the {extension.votes_at_training:,} votes of the last training, and from "
            f"{GROWTH:g} times on the first stages are trained again"
        )
    had_one_pair, has_one_pair = (has_one_pair_per_context(one.cells) for one in (state.data, data))
    if extended.options.estimates_propensity and had_one_pair and not has_one_pair:
        raise NeedsTraining(
            "some prompts now have labels on several pairs, and the model of the propensities was trained for prompts "
            "with one labelled pair"
        )
    if extension.loss_p <= LOSS_ERROR_RATE:
        raise NeedsTraining(
            f"the labels since the last training are predicted worse than the earlier ones: their held-out log-loss is "
            f"{extension.loss_z:.1f} standard errors larger (p = {extension.loss_p:.2g})"
        )


class LossTest(NamedTuple):
    """The test that later labels are predicted no worse than earlier ones.

    z: Excess of the later losses in standard errors; NaN where labels are too few.
    p_value: One-sided p-value that holds at all times together; NaN where labels are too few.
    """

    z: float = float("nan")
    p_value: float = float("nan")


def compare_losses(
    cells: Cells, mu: FloatArray, is_later: NDArray[np.bool_], unit: IntArray, *, n_items: int, planned: float
) -> LossTest:
    """Test whether the labels of later cells have a larger log-loss than those of earlier cells of the same pairs.

    Let D be the sum over later cells of the loss minus the mean loss of the earlier cells of the pair. Units of cells
    (contexts or clusters) are independent. The variance of D is the sum of the squared sums by unit, plus the variance
    of the means of the earlier losses. The p-value is the one-sided p-value of :class:`.Boundary` for z = D / se(D) and
    t units, so that by the inequality of Ville the probability that it falls to a or below at any time is at most a,
    asymptotically. The test is most powerful near t = ``planned`` units for a = ``LOSS_ERROR_RATE``.

    Shapes: mu (m, C), is_later (m,), unit (m,).
    """
    # The sum is computed category by category, because a sum over a short last axis takes several times as long.
    loss = -reduce(np.add, (cells.y * np.log(np.maximum(mu, SMALLEST_PROBABILITY))).T)
    pair = cells.first * n_items + cells.second
    early, n_pairs = ~is_later, n_items**2
    count = np.bincount(pair[early], minlength=n_pairs)
    has_mean = count >= _FEWEST_LABELS
    divisor = np.maximum(count, 1)
    mean = np.bincount(pair[early], loss[early], n_pairs) / divisor
    variance = np.bincount(pair[early], np.square(loss[early] - mean[pair[early]]), n_pairs) / np.maximum(count - 1, 1)
    compared = np.flatnonzero(is_later & has_mean[pair])
    excess = loss[compared] - mean[pair[compared]]
    units, place = np.unique(unit[compared], return_inverse=True)
    if len(units) < _FEWEST_UNITS:
        return LossTest()
    by_unit = np.bincount(place, excess)
    n_later = np.bincount(pair[compared], minlength=n_pairs)
    variance_of_sum = float(np.square(by_unit - by_unit.mean()).sum() + (np.square(n_later) * variance / divisor).sum())
    if not variance_of_sum > 0:
        return LossTest()
    z = float(by_unit.sum() / np.sqrt(variance_of_sum))
    boundary = Boundary(best_tau(LOSS_ERROR_RATE) * len(units) / planned)
    return LossTest(z, float(boundary.one_sided_p_values(np.array([z]))[0]))


def refuse_fixed_inputs(state: FitState) -> None:
    """Raise where inputs of the fit exist for its own prompts alone, so that no fit of further rows is possible."""
    options, source = state.options, state.source
    if isinstance(source.data, DerivedPairs) and source.data.rows is None:
        raise OptionError(
            "extend() adds rows, and this fit was made from pairs of scores or rankings, which have no rows; put the "
            "new scores below the old ones and call pairs_from_scores() or pairs_from_rankings() and dml_rank() again, "
            f"or fit the table of scores with a formula such as {SHAPE_OF_SCORES!r}"
        )
    if is_partitioned(source.data):
        raise OptionError(
            "extend() keeps all rows in memory, and this fit was made from parquet files or a Dask DataFrame, which "
            "may be larger; write the new rows to a further file, and fit all files"
        )
    arrays = [name for name in state.data.feature_map.variables if name not in column_names(source.data)]
    if arrays:
        raise OptionError(
            f"extend() has no values of {arrays[0]!r} for the new rows: the formula takes {arrays[0]!r} from an array "
            f"with one entry for each row of the fit; put it into a column, fit, and extend"
        )
    words_and_functions = isinstance(options.propensity, str) or callable(options.propensity)
    is_of_fixed_prompts = is_plan(options.propensity) or not words_and_functions
    fixed_inputs = {
        "mu": (options.mu is not None, "fit with learner= instead of mu="),
        "weights": (options.weights is not None and options.weights_column is None, "put the weights in a column"),
        "propensity": (is_of_fixed_prompts, "put the propensities in a column, or pass a function"),
        "judge": (are_of_fixed_prompts(options.judge), "put the verdicts in columns"),
    }
    for name, (is_fixed, advice) in fixed_inputs.items():
        if is_fixed:
            raise OptionError(
                f"extend() has no {name}= for the new prompts: {name}= was given for the prompts of the fit alone; "
                f"{advice}, fit, and extend; or fit all rows with a {name}= for all prompts"
            )


def join_to_fit(state: FitState, new_rows: object) -> tuple[JoinedRows, Source]:
    """Return the rows of a fit followed by new rows, with the columns that the fit uses, and their source."""
    source, options, data = state.source, state.options, state.data
    formula, derived = parse_formula(source.formula), source.data if isinstance(source.data, DerivedPairs) else None
    frame = source.data if derived is None else derived.rows
    available = column_names(frame)
    names = [
        *formula.outcomes,
        *formula.items,
        *([] if options.run is None else [options.run]),
        *data.feature_map.variables,
        *options.context,
        *options.clusters,
        *options.style_columns,
        *(name for name in (options.propensity_column, options.weights_column) if name),
        *(judge_columns(options.judge) or ()),
        *(propensity_columns(options.propensity) or ()),
    ]
    needed = [name for name in dict.fromkeys(names) if name in available]
    # The columns that the fit has read stand for those of the frame where the fit has kept every row.
    keeps_all = len(data.row_index) == data.n_rows and (data.row_index == np.arange(data.n_rows)).all()
    already_read = data.columns if keeps_all and derived is None else None
    rows = join_rows(frame, new_rows, needed, options.context, already_read=already_read)
    joined: object = rows.table
    if derived is not None:
        joined = read_scores(source.formula, joined, context=options.context, run=options.run)
    return rows, Source(source.formula, joined, source.environment)
