"""The steps of a fit that an extension replaces: folds, mu, propensities and scores use what the fit has learnt.

An extension runs all steps of a fit (:mod:`dmlrank.fit.pipeline`) on the old and the new rows. The functions of
:class:`ExtendedStages` take the places of the steps that would train, and of the evaluation of the scores. The steps of
:data:`COMPUTED_AGAIN` are carried out as in a fit. The cache refuses any other step, so that nobody can add a step
without a decision on what an extension does with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..data.read_clusters import read_clusters
from ..estimation.cross_fitting import CrossFittedMu, MuSource
from ..estimation.diagnostics import RemainingBias
from ..estimation.folds import FoldUnits, extend_folds, spread_over_units
from ..estimation.influence import EstimandName, KnownValues, OneStepResult
from ..estimation.judge import JudgedMu, judge_correction
from ..exceptions import listed
from ..nuisance.outcome_model.cross_fit import MeanMu
from ..nuisance.outcome_model.main_effects_boosting import SmoothBoostedMu, fit_new_items
from ..nuisance.propensity_model.all_pairs import (
    CrossFittedPairPropensity,
    FoldPropensityModel,
    MeanPropensity,
    PairChoicePropensity,
)
from ..nuisance.propensity_model.estimate import (
    Propensity,
    estimates_at_cells,
    needs_no_model,
    propensity_from_models,
)
from ..nuisance.propensity_model.pair_choice import fit_new_shares
from ..nuisance.propensity_model.supplied import check_mean_weights
from ..nuisance.training_rows import Folds
from ..nuisance.verdicts import Verdicts, human_given_verdict
from .average import warn_of_large_bias, warn_of_means_outside
from .display_order import OrderChoice, choose_order, in_chosen_order
from .estimand import Setup, comparison_graph, restrict_items, set_up
from .extension_record import GROWTH
from .extrapolation import find_extrapolation
from .first_stages import (
    OutcomeLearner,
    PropensityModel,
    RepetitionSeed,
    cross_fit_mu,
    cross_fit_mu_and_judge,
    label_and_judge_propensities,
    propensities_of_cells,
)
from .fold_units import fold_units
from .inputs import (
    influence_blocks,
    number_of_folds,
    read_source,
    supplied_mu,
    verdicts_on_pairs,
    warn_of_dependence,
    weights_by_context,
)
from .label_errors import one_step_uniform_pairs, warn_of_uniform_pairs
from .new_rows import JoinedData, NeedsTraining, check_categories
from .pipeline import (
    assess_validity,
    average_influence,
    check_rank,
    scores_covariance,
    scores_uniform_covariance,
    second_order_bias,
    warn_of_scores_outside,
)
from .position_test import warn_of_uneven_orders
from .repetition import choose_floor, draw_sample, make_folds, one_step_estimates, target_of_mean_preferences
from .state import FitSteps, Repetition
from .votes_used import warn_of_votes_left_out

Step: TypeAlias = Callable[..., Any]

# Steps of a fit that an extension carries out as a fit does, from all rows: they train nothing.
COMPUTED_AGAIN: tuple[Step, ...] = (
    in_chosen_order,
    restrict_items,
    comparison_graph,
    set_up,
    find_extrapolation,
    warn_of_votes_left_out,
    read_clusters,
    warn_of_dependence,
    weights_by_context,
    verdicts_on_pairs,
    influence_blocks,
    supplied_mu,
    fold_units,
    draw_sample,
    target_of_mean_preferences,
    judge_correction,
    average_influence,
    one_step_uniform_pairs,
    scores_uniform_covariance,
    scores_covariance,
    warn_of_scores_outside,
    warn_of_uniform_pairs,
    check_rank,
    warn_of_means_outside,
    warn_of_large_bias,
    assess_validity,
    check_mean_weights,
    warn_of_uneven_orders,
)


class NewItems(NamedTuple):
    """Items that entered after the training.

    item (K_old,): Number of each item of the fit among all items.
    n_votes: Votes from which the effects of these items are fitted, now or last; 0 without such items.
    are_fitted: Whether the effects of these items are fitted in this extension.
    """

    item: IntArray
    n_votes: int
    are_fitted: bool


@dataclass(frozen=True, slots=True, eq=False)
class ExtendedStages:
    """First stages of a fit, applied to old and new rows without training.

    steps: The fit that is extended.
    joined: All rows.
    _repetition: Number of the repetition to which each mu belongs, by ``id(mu)``.
    _units (n,): Groupings of contexts that depend on each other: contexts that share a text, then clusters.
    _new_items: Items that entered after the training: empty, or one entry after :meth:`new_items` was called.
    """

    steps: FitSteps
    joined: JoinedData
    _repetition: dict[int, int] = field(default_factory=dict, init=False, repr=False)
    _units: list[IntArray] = field(default_factory=list, init=False, repr=False)
    _new_items: list[NewItems] = field(default_factory=list, init=False, repr=False)

    def steps_of_extension(self) -> dict[Step, Step]:
        """Return, for each step of a fit, the function that an extension calls: another one, or the same."""
        return {step: step for step in COMPUTED_AGAIN} | {
            read_source: self.read_source,
            choose_order: self.choose_order,
            number_of_folds: self.number_of_folds,
            make_folds: self.make_folds,
            cross_fit_mu: self.cross_fit_mu,
            cross_fit_mu_and_judge: self.cross_fit_mu_and_judge,
            label_and_judge_propensities: self.label_and_judge_propensities,
            choose_floor: self.choose_floor,
            one_step_estimates: self.one_step_estimates,
            second_order_bias: self.second_order_bias,
        }

    # --- data and folds -----------------------------------------------------------------------------------------------

    def read_source(self, *arguments: object, **keywords: object) -> PreferenceData:
        """Return the data of all rows, which were read before the steps began."""
        return self.joined.data

    def choose_order(self, data_as_read: PreferenceData, *arguments: Any, **keywords: Any) -> OrderChoice:
        """Return the choice of the fit whether display order matters, because its models were trained for this choice.

        Without features there are no trained models, and the choice is made again.
        """
        if not data_as_read.x.shape[1]:
            return choose_order(data_as_read, *arguments, **keywords)
        assert self.steps.order is not None
        return self.steps.order

    def number_of_folds(self, *arguments: object, **keywords: object) -> int:
        """Return the number of folds of the fit."""
        return self.steps.folds.n_folds

    def make_folds(self, units: FoldUnits, *, n_folds: int, seed: RepetitionSeed) -> Folds:
        """Folds: old contexts keep theirs, new contexts of an old unit get the unit's fold, new units are dealt."""
        self._units[:] = units.groupings
        return extend_folds(self.steps.repetitions[seed.repetition].folds, self.joined.place, units, seed.fold_key)

    def _model_of_contexts(self, old: IntArray, n_models: int) -> IntArray:
        """Return the number of the model that predicts each context, (n,); ``n_models`` is the mean of all models.

        Shapes: old (n_old,).
        """
        model = np.full(self.joined.data.n_contexts, n_models)
        for unit in self._units:
            model_of_unit = spread_over_units(unit, self.joined.place, np.where(old < n_models, old, -1))
            model = np.where(model_of_unit >= 0, model_of_unit, model)
        model[self.joined.place] = old
        return model

    # --- items that entered after the training ------------------------------------------------------------------------

    @property
    def votes_of_new_items(self) -> int:
        """Votes from which effects of items that entered after the training were last fitted; 0 without such items."""
        return self._new_items[0].n_votes if self._new_items else 0

    def new_items(self, data: PreferenceData) -> NewItems:
        """Return which items entered after the training, and whether their effects are fitted now.

        Effects are fitted when an item enters, and when the votes on such items have grown by the factor
        :data:`.extension_record.GROWTH`.
        """
        if not self._new_items:
            self._new_items.append(self._find_new_items(data))
        return self._new_items[0]

    def _find_new_items(self, data: PreferenceData) -> NewItems:
        """Compute the result of :meth:`new_items`, which is then stored."""
        old = self.steps.data.items
        absent = [name for name in old if name not in data.items]
        if absent:
            raise NeedsTraining(f"the models {listed(absent)} are no longer ranked")
        item = np.array([data.items.index(name) for name in old])
        if (np.diff(item) < 0).any():
            raise NeedsTraining("the models have another order than in the fit")
        before = self.steps.extension
        since_training = () if before is None else before.models_since_training
        is_new = np.array([name not in old or name in since_training for name in data.items])
        cells = data.cells
        n_votes = int(cells.n_votes[is_new[cells.first] | is_new[cells.second]].sum())
        n_votes_of_last_fit = 0 if before is None else before.votes_of_new_models
        are_fitted = len(data.items) > len(old) or (n_votes > 0 and n_votes >= GROWTH * n_votes_of_last_fit)
        return NewItems(item, n_votes if are_fitted else n_votes_of_last_fit, are_fitted)

    # --- mu -----------------------------------------------------------------------------------------------------------

    def cross_fit_mu(
        self,
        data: PreferenceData,
        folds: Folds,
        learner: OutcomeLearner,
        *,
        seed: RepetitionSeed,
    ) -> MuSource:
        """Return mu of all contexts from the models of the fit; without features, frequencies are counted again."""
        check_categories(self.steps.data, data)
        repetition = self.steps.repetitions[seed.repetition]
        if not data.x.shape[1]:
            mu: MuSource = cross_fit_mu(data, folds, learner, seed=seed)
        else:
            mu = self._extended_mu(repetition.mu_without_judge, data, folds)
        self._repetition[id(mu)] = seed.repetition
        return mu

    def _extended_mu(self, mu: MuSource, data: PreferenceData, folds: Folds) -> CrossFittedMu:
        """Return mu of all contexts from the models of the fit."""
        if not isinstance(mu, CrossFittedMu):
            raise NeedsTraining("mu of the fit has no models by fold that could predict new prompts")
        models, new = mu.trained, self.new_items(data)
        if new.are_fitted:
            if not all(isinstance(model, SmoothBoostedMu) for model in models):
                raise NeedsTraining(
                    f"{listed(name for name in data.items if name not in self.steps.data.items)} entered the ranking, "
                    f"and only the default learner has effects of single models"
                )
            fitted = tuple(
                fit_new_items(model, data, folds.fold != f, new.item)
                for f, model in enumerate(models)
                if isinstance(model, SmoothBoostedMu)
            )
            # The effects of a fold were fitted to all labels outside the fold, old and new. The mean of all models has
            # therefore seen every context, and each context is predicted by the model of its fold.
            return CrossFittedMu(fitted, folds, data.x)
        model = self._model_of_contexts(mu.folds.fold, len(models))
        extended = CrossFittedMu((*models, MeanMu(models)), Folds(model, folds.unit, len(models) + 1), data.x)
        extended.at_with_known(data.cells, mu.at(self.steps.data.cells), self._places_of_cells(data))
        return extended

    def cross_fit_mu_and_judge(
        self,
        data: PreferenceData,
        folds: Folds,
        verdicts: Verdicts,
        *,
        mu_without_judge: MuSource,
        seed: RepetitionSeed,
        **keywords: Any,
    ) -> JudgedMu:
        """Return mu from the models of the fit, and P(label | x, verdict), whose few parameters are estimated again."""
        if not data.x.shape[1]:
            judged = cross_fit_mu_and_judge(
                data, folds, verdicts, mu_without_judge=mu_without_judge, seed=seed, **keywords
            )
        else:
            repetition, mu = self.steps.repetitions[seed.repetition], mu_without_judge
            if repetition.mu is not repetition.mu_without_judge:
                mu = self._extended_mu(repetition.mu, data, folds)
            judged = JudgedMu(mu, human_given_verdict(data, verdicts, mu.at(verdicts.cells), folds).m)
        self._repetition[id(judged.mu)] = seed.repetition
        return judged

    # --- propensities -------------------------------------------------------------------------------------------------

    def label_and_judge_propensities(
        self,
        data: PreferenceData,
        folds: Folds,
        model: PropensityModel,
        *,
        verdicts: Verdicts | None,
        seed: RepetitionSeed,
    ) -> tuple[Propensity, FloatArray | None]:
        """Return propensities from the models of the fit, floored and scaled by all labels.

        Propensities that no model estimates, such as supplied ones, are computed as in a fit.
        """
        if verdicts is not None and not verdicts.covers_all_pairs and model.word != "marginal":
            raise NeedsTraining("the propensities of the judge's verdicts are estimated from all prompts together")
        of_fit = self.steps.repetitions[seed.repetition].propensity
        return label_and_judge_propensities(
            data,
            folds,
            model,
            verdicts=verdicts,
            seed=seed,
            propensities=partial(self._propensities, of_fit),
        )

    def _propensities(
        self, of_fit: Propensity, data: PreferenceData, folds: Folds, model: PropensityModel, **keywords: Any
    ) -> Propensity:
        """Return the propensities of labels, from the models of the fit where models estimate them."""
        if model.word != "estimate" or needs_no_model(data):
            return propensities_of_cells(data, folds, model, **keywords)
        if not isinstance(of_fit.pairs, CrossFittedPairPropensity) or of_fit.estimates is None:
            raise NeedsTraining("the fit has no models of the propensities that could predict new prompts")
        return self._extended_propensity(of_fit.pairs, of_fit.estimates, data, folds)

    def _extended_propensity(
        self,
        pairs: CrossFittedPairPropensity,
        old_estimates: FloatArray,
        data: PreferenceData,
        folds: Folds,
    ) -> Propensity:
        """Return the propensities of all labelled cells.

        Shapes: old_estimates (m_old,).
        """
        trained, new = pairs.trained, self.new_items(data)
        if new.are_fitted:
            fitted = [_with_new_items(model, data, folds.fold != f, new.item) for f, model in enumerate(trained)]
            estimates = estimates_at_cells(fitted, folds.fold, data.x, data.cells, n_items=data.n_items)
            return propensity_from_models(fitted, folds.fold, data, estimates)
        model = self._model_of_contexts(pairs.fold, len(trained))
        models: tuple[FoldPropensityModel, ...] = (*trained, MeanPropensity(trained))
        place = self._places_of_cells(data)
        is_new = place < 0
        estimates = np.empty(len(data.cells))
        estimates[~is_new] = old_estimates[place[~is_new]]
        new_cells = data.cells.only(is_new)
        estimates[is_new] = estimates_at_cells(models, model, data.x, new_cells, n_items=data.n_items)
        return propensity_from_models(models, model, data, estimates)

    # --- scores -------------------------------------------------------------------------------------------------------

    def choose_floor(self, data: PreferenceData, setup: Setup, mu: MuSource, *, floor: float | str) -> float:
        """Return the floor of mu that the fit selected; without features, it is selected again."""
        if not isinstance(floor, str) or not data.x.shape[1]:
            return choose_floor(data, setup, mu, floor=floor)
        return self._repetition_of(mu).floor

    def one_step_estimates(
        self, data: PreferenceData, setup: Setup, mu: MuSource, *, floor: float, **keywords: Any
    ) -> OneStepResult:
        """Estimate the scores; F(mu) of old contexts is kept where mu and the functional are the same."""
        known = None
        if data.x.shape[1] and keywords["mean"] is None and not keywords["is_restricted"]:
            known = self._known_values(data, setup, mu, floor)
        return one_step_estimates(data, setup, mu, floor=floor, known=known, **keywords)

    def second_order_bias(self, data: PreferenceData, setup: Setup, mu: MuSource, *, floor: float) -> RemainingBias:
        """Estimate the bias that remains; terms of old contexts are kept where mu and functional are the same."""
        known = None
        if data.x.shape[1] and self.steps.bias is not None and self._has_same_scores(data, setup, floor, mu):
            known = self.steps.bias.renumbered(self.joined.place)
        return second_order_bias(data, setup, mu, floor=floor, known=known)

    def _has_same_scores(self, data: PreferenceData, setup: Setup, floor: float, mu: MuSource) -> bool:
        """Whether F(mu) of an old context is the one of the fit: the models, the functional and the floor are."""
        are_new = self.new_items(data).are_fitted
        return floor == self._repetition_of(mu).floor and not are_new and _is_same_functional(self.steps.setup, setup)

    def _known_values(self, data: PreferenceData, setup: Setup, mu: MuSource, floor: float) -> KnownValues | None:
        """Return F(mu) of the old contexts; None where the fit has not computed them, or F is another functional."""
        old = self._repetition_of(mu)
        if old.sample is not None or old.mean is not None or not self._has_same_scores(data, setup, floor, mu):
            return None
        place, by_name = self.joined.place, dict[EstimandName, FloatArray]()
        names: tuple[EstimandName, ...] = ("target", "win_share", "position_effect")
        for name in names:
            value = old.one_step_result.influence(name).by_context().value
            by_name[name] = np.zeros((data.n_contexts, value.shape[1]))
            by_name[name][place] = value
        return KnownValues(by_name, ~self.joined.is_new, old.one_step_result.n_floored)

    # --- repetitions and cells of the fit -----------------------------------------------------------------------------

    def _repetition_of(self, mu: MuSource) -> Repetition:
        """Return the repetition of the fit from whose models a mu was computed."""
        return self.steps.repetitions[self._repetition[id(mu)]]

    def _places_of_cells(self, data: PreferenceData) -> IntArray:
        """Return the place of each labelled cell among those of the fit, (m,); -1 for further cells."""
        item = self.new_items(data).item
        return places_of_cells(self.steps.data.cells, data.cells, self.joined.place, item, data.n_items)


def _with_new_items(
    model: FoldPropensityModel, data: PreferenceData, in_training: NDArray[np.bool_], item: IntArray
) -> PairChoicePropensity:
    """Return the propensity model of a fold with effects of new items.

    Shapes: in_training (n,), item (K_old,).
    """
    if not isinstance(model, PairChoicePropensity):
        raise NeedsTraining(
            "models entered the ranking, and only the model of the propensities for prompts with one labelled pair has "
            "effects of single models"
        )
    return replace(model, shares=fit_new_shares(model.shares, data, in_training, item))


def places_of_cells(old: Cells, cells: Cells, context: IntArray, item: IntArray, n_items: int) -> IntArray:
    """Return the place of each cell among old cells, (m,); -1 for a cell that is not among them.

    Shapes: context (n_old,), item (K_old,).
    """
    old_code = (context[old.context] * n_items + item[old.first]) * n_items + item[old.second]
    code = (cells.context * n_items + cells.first) * n_items + cells.second
    order = np.argsort(old_code, kind="stable")
    position = np.searchsorted(old_code[order], code)
    candidate = order[np.minimum(position, len(order) - 1)]
    return np.where(old_code[candidate] == code, candidate, -1)


def _is_same_functional(old: Setup, new: Setup) -> bool:
    """Return whether the functional of two setups has the same pairs and weights, given the same options."""
    same_pairs: NDArray[np.bool_] = old.graph.edges == new.graph.edges
    return old.edge_weights == new.edge_weights != "counts" and bool(same_pairs.all())
