"""First stages of old and new rows from what an earlier fit has learnt, without training.

Kept from the fit: the models of mu and pi, the transforms of the features, the folds of old contexts, the floor of mu,
whether display order matters, and F(mu) of old contexts, with their part of the remaining bias, where the functional is
bound to the same pairs and weights. Without features nothing is trained, and frequencies are counted again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..data.graph import Graph
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
from ..exceptions import listed
from ..nuisance.outcome_model.cross_fit import MeanMu, MuModel
from ..nuisance.outcome_model.main_effects import SmoothBoostedMu, fit_new_items
from ..nuisance.propensity_model.estimate import (
    CrossFittedPairPropensity,
    FoldPropensityModel,
    MeanPropensity,
    PairChoicePropensity,
    Propensity,
    estimates_at_cells,
    needs_no_model,
    propensity_from_models,
)
from ..nuisance.propensity_model.pair_choice import fit_new_shares
from ..nuisance.training_rows import Folds
from ..nuisance.verdicts import Verdicts, human_given_verdict
from ..options import Options
from .estimand import OrderChoice
from .stages import Draw, FirstStages, RepetitionSeed
from .state import FitState, Inputs, Source

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
    are_fitted: Whether the effects of these items are fitted in this extension.
    """

    item: IntArray
    n_votes: int
    are_fitted: bool


class ExtendedStages(FirstStages):
    """First stages of a fit, applied to old and new rows without training.

    fit: The fit that is extended.
    data: Votes on all items, read together, with the features of the fit's transforms.
    place (n_old,): Number of each context of the fit among all contexts.
    """

    def __init__(self, fit: FitState, source: Source, data: PreferenceData, place: IntArray) -> None:
        super().__init__(source, fit.options)
        self.fit, self.data, self.place = fit, data, place
        self._trains = not data.x.shape[1]
        self._new_items: NewItems | None = None
        self._groupings: list[IntArray] = []

    # --- data and folds -----------------------------------------------------------------------------------------------

    def _read(self) -> PreferenceData:
        """Return the data of all rows, which were read before."""
        return self.data

    def _choose_pairs(self, votes: PreferenceData) -> OrderChoice:
        """Return the choice of the fit, because its models were trained for this choice."""
        if self._trains:
            return super()._choose_pairs(votes)
        assert self.fit.display_order is not None
        return self.fit.display_order

    def _number_of_folds(
        self, data: PreferenceData, clusters: Clusters | None, mu: SuppliedMu | None, are_used: bool
    ) -> int:
        return self.fit.first.folds.n_folds

    def _deal(self, units: FoldUnits, n_folds: int, seed: RepetitionSeed) -> Folds:
        """Deal folds: old contexts keep theirs, new contexts of an old unit get the unit's, new units are dealt."""
        self._groupings = units.groupings
        if n_folds == 1:
            return super()._deal(units, n_folds, seed)
        return extend_folds(self.fit.repetitions[seed.repetition].folds, self.place, units, fold_key(*seed))

    def _model_of_contexts(self, old: IntArray, n_models: int) -> IntArray:
        """Return the number of the model that predicts each context, (n,); ``n_models`` is the mean of all models.

        Shapes: old (n_old,).
        """
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
        old = self.fit.data.items
        absent = [name for name in old if name not in data.items]
        if absent:
            raise NeedsTraining(f"the models {listed(absent)} are no longer ranked")
        item = np.array([data.items.index(name) for name in old])
        if (np.diff(item) < 0).any():
            raise NeedsTraining("the models have another order than in the fit")
        before = self.fit.extension
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
        old, names = self.fit.data.categories, data.categories
        if old != names:
            further = [name for name in names if name not in old]
            raise NeedsTraining(
                f"the new labels have the categories {listed(further)}, which no model has seen"
                if further
                else f"the categories of the labels are {listed(names)} instead of {listed(old)}"
            )
        if self._trains:
            return super()._fit_mu(data, folds, seed, like, soft)
        return self._extended_mu(self.fit.repetitions[seed.repetition].mu_without_judge, data, folds)

    def _extended_mu(self, mu: MuSource, data: PreferenceData, folds: Folds) -> CrossFittedMu:
        if not isinstance(mu, CrossFittedMu):
            raise NeedsTraining("mu of the fit has no models by fold that could predict new prompts")
        models, new = mu.trained, self.new_items(data)
        if new.are_fitted:
            smooth = [model for model in models if isinstance(model, SmoothBoostedMu)]
            if len(smooth) < len(models):
                raise NeedsTraining(
                    f"{listed(name for name in data.items if name not in self.fit.data.items)} entered the ranking, "
                    f"and only the default learner has effects of single models"
                )
            fitted = tuple(fit_new_items(model, data, folds.fold != f, new.item) for f, model in enumerate(smooth))
            # The effects of a fold were fitted to all labels outside the fold, old and new. The mean of all models has
            # therefore seen every context, and each context is predicted by the model of its fold.
            return CrossFittedMu(fitted, folds, data.x)
        model = self._model_of_contexts(mu.folds.fold, len(models))
        extended = CrossFittedMu((*models, MeanMu(models)), Folds(model, folds.unit, len(models) + 1), data.x)
        extended.at_with_known(data.cells, mu.at(self.fit.data.cells), self._places_of_cells(data))
        return extended

    def _fit_mu_with_judge(
        self, data: PreferenceData, folds: Folds, verdicts: Verdicts, mu: MuSource, seed: RepetitionSeed
    ) -> JudgedMu:
        """Return mu from the models of the fit, and P(label | x, verdict), whose few parameters are estimated again."""
        if self._trains:
            return super()._fit_mu_with_judge(data, folds, verdicts, mu, seed)
        repetition = self.fit.repetitions[seed.repetition]
        if repetition.mu is not repetition.mu_without_judge:
            mu = self._extended_mu(repetition.mu, data, folds)
        return JudgedMu(mu, human_given_verdict(data, verdicts, mu.at(verdicts.cells), folds).m)

    # --- propensities -------------------------------------------------------------------------------------------------

    def _label_and_judge_propensities(
        self, data: PreferenceData, folds: Folds, inputs: Inputs, seed: RepetitionSeed
    ) -> tuple[Propensity, FloatArray | None]:
        verdicts, propensity = inputs.verdicts, self.options.propensity
        is_marginal = isinstance(propensity, str) and propensity == "marginal"
        if verdicts is not None and not verdicts.covers_all_pairs and not is_marginal:
            raise NeedsTraining("the propensities of the judge's verdicts are estimated from all prompts together")
        return super()._label_and_judge_propensities(data, folds, inputs, seed)

    def _propensities_of_cells(
        self, data: PreferenceData, folds: Folds, options: Options, graph: Graph, seed: RepetitionSeed, draw: Draw
    ) -> Propensity:
        """Return propensities from the models of the fit, floored and scaled by all labels.

        Propensities that no model estimates, such as supplied ones, are computed as in a fit.
        """
        if not options.estimates_propensity or needs_no_model(data):
            return super()._propensities_of_cells(data, folds, options, graph, seed, draw)
        of_fit = self.fit.repetitions[seed.repetition].propensity
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
        old, cells, item, n_items = self.fit.data.cells, data.cells, self.new_items(data).item, data.n_items
        old_code = (self.place[old.context] * n_items + item[old.first]) * n_items + item[old.second]
        code = (cells.context * n_items + cells.first) * n_items + cells.second
        order = np.argsort(old_code, kind="stable")
        candidate = order[np.minimum(np.searchsorted(old_code[order], code), len(order) - 1)]
        return np.where(old_code[candidate] == code, candidate, -1)

    # --- scores -------------------------------------------------------------------------------------------------------

    def _select_floor(self, data: PreferenceData, mu: MuSource, seed: RepetitionSeed) -> float:
        """Return the floor of mu that the fit selected."""
        return super()._select_floor(data, mu, seed) if self._trains else self.fit.repetitions[seed.repetition].floor

    def _has_same_scores(self, inputs: Inputs, floor: float, repetition: int) -> bool:
        """Whether F(mu) of an old context is the one of the fit: the models, the functional and the floor are."""
        old, new = self.fit.setup, inputs.setup
        return (
            not self._trains
            and floor == self.fit.repetitions[repetition].floor
            and not self.new_items(inputs.data).are_fitted
            and old.edge_weights == new.edge_weights != "counts"
            and bool((old.graph.edges == new.graph.edges).all())
        )

    def _known_values(self, inputs: Inputs, floor: float, seed: RepetitionSeed) -> KnownValues | None:
        """Return F(mu) of the old contexts; None where the fit has not computed them, or F is another functional."""
        old = self.fit.repetitions[seed.repetition]
        if old.sample is not None or old.mean is not None or not self._has_same_scores(inputs, floor, seed.repetition):
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
