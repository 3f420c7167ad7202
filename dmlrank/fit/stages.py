"""The first stages of a fit: everything that costs time, learnt from the data and kept for later updates.

:class:`FirstStages` trains; :class:`~dmlrank.fit.extended_stages.ExtendedStages` predicts from the models of an earlier
fit. Both keep what they compute under the same names and keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from .._utils.computation import at_the_same_time, current
from .._utils.warning_collection import collected_warnings, warn
from ..data.graph import Graph
from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..data.read_votes import with_columns
from ..data.style_columns import StyleDifferences, read_style_differences
from ..estimation.bt_restricted import RestrictedBradleyTerry, require_pair_propensities
from ..estimation.cross_fitting import CrossFittedMu, HeldOutLabels, MuSource, SuppliedMu, select_floor
from ..estimation.diagnostics import RemainingBias, remaining_bias
from ..estimation.equal_style import EqualStyleTerms, StyleInfluence
from ..estimation.folds import FoldUnits, assign_folds, fold_key
from ..estimation.influence import (
    Estimands,
    JudgeCorrection,
    KnownValues,
    NuisanceEstimates,
    OneStepResult,
    TargetPopulation,
)
from ..estimation.judge import FeatureMu, JudgedMu, cross_fit_judged, fit_with_features, judge_correction
from ..estimation.one_step import one_step
from ..exceptions import OptionError
from ..functionals import Borda, BradleyTerry
from ..functionals.linear_scores import PositionEffect
from ..nuisance.boosting.tuning import RandomSearch, Tune
from ..nuisance.outcome_model.cross_fit import MuModel, fit_all
from ..nuisance.outcome_model.user_learners import checked_mu, is_user_learner
from ..nuisance.propensity_model.estimate import (
    Propensity,
    estimate_propensity,
    floored_and_scaled,
    marginal_propensity,
)
from ..nuisance.propensity_model.supplied import (
    column_propensity,
    propensity_columns,
    propensity_features,
    propensity_table,
    supplied_propensity,
)
from ..nuisance.training_rows import Folds
from ..nuisance.verdicts import Verdicts, labelled_share
from ..options import Options
from ..style_adjustment import BalancedStyle
from .adjusted_for_style import balanced_propensity, equal_style_terms, keep_balanced_votes, match_balanced_votes
from .estimand import MeanTarget, OrderChoice, Setup, choose_order, mean_target, restrict_items, uses_mean_preferences
from .estimators import Estimator, estimator_named
from .inputs import (
    columns_of_later_steps,
    fold_units,
    number_of_folds,
    read_source,
    read_units,
    reading_options,
    verdicts_on_pairs,
)
from .state import BalancedVotes, Inputs, Kept, Source, Units

T = TypeVar("T")

# Types whose values are compared by equality in a key; values of other types are compared by identity.
_COMPARED_BY_VALUE = (str, int, float, bool, dict, RandomSearch, type(None))


class Draw(IntEnum):
    """The kinds of random draws in a repetition; each kind has a seed that is derived from the seed of the fit.

    Folds are not drawn, but dealt by a key: :attr:`RepetitionSeed.fold_key`.
    """

    MU = 1
    PROPENSITY = 2
    SAMPLE = 3
    JUDGE_PROPENSITY = 4
    JUDGE = 5
    VOTE_RATES = 6


class RepetitionSeed(NamedTuple):
    """The seed of a repetition, from which each kind of draw gets a seed.

    An option that adds or removes draws of one kind does not change the draws of the other kinds.

    fit: Seed of the fit.
    repetition: Number of the repetition, from 0.
    """

    fit: int
    repetition: int

    def child(self, draw: Draw) -> np.random.SeedSequence:
        """Return the seed of one kind of draw."""
        entropy = [self.fit, self.repetition] if self.repetition else self.fit
        return np.random.SeedSequence(entropy, spawn_key=(int(draw),))

    @property
    def fold_key(self) -> bytes:
        """The key by which the repetition deals its folds; it needs nothing but the two numbers."""
        return fold_key(self.fit, self.repetition)


class Learnt(NamedTuple):
    """What one repetition has learnt.

    mu: Outcome probabilities that the estimates use; where there is a judge, they are estimated with its verdicts.
    mu_without_judge: Outcome probabilities from human labels alone; ``mu`` itself where there is no judge.
    propensity: P(the pair is labelled | x) at the labelled cells.
    judge_propensity (r,): P(the pair is judged | x) at the judged cells; None without a judge.
    judge_correction: The part of the bias correction that comes from verdicts; None without a two-stage judge.
    """

    mu: MuSource
    mu_without_judge: MuSource
    propensity: Propensity
    judge_propensity: FloatArray | None
    judge_correction: JudgeCorrection | None


class FirstStages:
    """What a fit learns at some cost, with what an earlier fit has kept.

    Each result is kept under its name and a key: the data, earlier results and values of options on which it depends.
    A later fit uses the result again where its key has the same objects and equal plain values. The number of threads
    is in no key. Every stage draws from a seed of its own, so that an option that changes one stage never changes the
    draws of another.

    kept: Results of this fit by name.
    """

    def __init__(self, source: Source, options: Options, earlier: Mapping[str, Kept] | None = None) -> None:
        self.source, self.options = source, options
        self.earlier: Mapping[str, Kept] = {} if earlier is None else earlier
        self.kept: dict[str, Kept] = {}

    def keep(self, name: str, key: tuple[object, ...], compute: Callable[[], T]) -> T:
        """Return the result that an earlier fit kept under an equal key, or else compute it; give its warnings."""
        kept = self.earlier.get(name)
        if kept is None or not _is_same(kept.key, key):
            with collected_warnings() as messages:
                computed = compute()
            kept = Kept(key, computed, tuple(messages))
        self.kept[name] = kept
        for message in kept.warnings:
            warn(message, stacklevel=2)
        result: T = kept.result
        return result

    @property
    def estimator(self) -> Estimator:
        """How the scores are estimated."""
        return estimator_named(self.options.estimator)

    @property
    def _estimand(self) -> tuple[object, ...]:
        """The options on which the functional, its graph and its weights depend."""
        o = self.options
        return (self.estimator.functional(o.functional), o.graph, o.min_labels, o.edge_weights, o.category_weights)

    # --- data ---------------------------------------------------------------------------------------------------------

    def data_as_read(self) -> PreferenceData:
        """Return the votes of the user's frame."""
        return self.keep("data", (self.source, reading_options(self.options)), self._read)

    def _read(self) -> PreferenceData:
        return read_source(self.source, self.options, extra_columns=columns_of_later_steps(self.options))

    def votes_that_count(
        self, data_as_read: PreferenceData
    ) -> tuple[PreferenceData, OrderChoice, BalancedVotes | None]:
        """Return the votes on the ranked items that count, their display order, and their match among all votes."""
        adjust, votes = self.options.adjust, data_as_read
        if not isinstance(adjust, BalancedStyle):
            return *self._ranked_votes(votes), None
        votes = self.keep("votes of like style", (votes, adjust), lambda: keep_balanced_votes(votes, adjust))
        data, order = self._ranked_votes(votes)
        balanced = self.keep(
            "match of votes of like style",
            (data_as_read, data, order.matters, adjust),
            lambda: match_balanced_votes(data, data_as_read if order.matters else data_as_read.unordered(), adjust),
        )
        return data, order, balanced

    def _ranked_votes(self, votes: PreferenceData) -> tuple[PreferenceData, OrderChoice]:
        """Return the votes on the ranked items, and whether their display order matters."""
        o = self.options
        deciding = (o.position_bias, o.graph, o.min_labels, o.category_weights, o.propensity, o.mu)
        order = self.keep("display order", (votes, *deciding), lambda: self._choose_order(votes))
        ordered = self.keep("order", (votes, order.matters), lambda: votes if order.matters else votes.unordered())
        ranked = restrict_items(ordered, o)
        return self.keep("ranked votes", (ordered, ranked.items), lambda: ranked), order

    def _choose_order(self, votes: PreferenceData) -> OrderChoice:
        return choose_order(votes, self.options)

    def verdicts(self, data: PreferenceData) -> Verdicts | None:
        """Return the verdicts of judges on the pairs of the data; None without a judge."""
        o = self.options
        if o.judge is None:
            return None
        key = (data, self.source, o.judge, o.context, o.categories)
        return self.keep("verdicts", key, lambda: verdicts_on_pairs(data, self.source, o))

    def units(self, data: PreferenceData, verdicts: Verdicts | None) -> Units:
        """Return which votes depend on each other, and what the contexts weigh."""
        o = self.options
        key = (data, self.source, o.clusters, o.context, o.weights, verdicts)
        return self.keep("units", key, lambda: read_units(data, self.source, o, verdicts))

    def style_differences(self, data: PreferenceData) -> StyleDifferences:
        """Return the style differences of the votes."""
        columns = self.options.style_columns
        return self.keep("style differences", (data, columns), lambda: read_style_differences(data, columns))

    def supplied_mu(self, data: PreferenceData) -> SuppliedMu | None:
        """Return the probabilities that the user supplied, checked; None where they are estimated."""
        mu = self.options.mu
        return None if mu is None else self.keep("supplied mu", (data, mu), lambda: SuppliedMu(checked_mu(mu, data)))

    # --- folds --------------------------------------------------------------------------------------------------------

    def fold_units(
        self, data: PreferenceData, units: Units, mu: SuppliedMu | None, verdicts: Verdicts | None
    ) -> tuple[int, FoldUnits]:
        """Return the number of folds and the units that are dealt to them."""
        o = self.options
        has_features = data.x.shape[1] > 0 or o.propensity_formula is not None
        learns_by_verdicts_or_style = verdicts is not None or o.adjust is not None
        are_used = mu is None or learns_by_verdicts_or_style or (o.estimates_propensity and has_features)

        def make() -> tuple[int, FoldUnits]:
            n_folds = self._number_of_folds(data, units, are_used)
            return n_folds, fold_units(data, units.clusters, n_folds=n_folds, are_used=are_used)

        return self.keep("fold units", (data, o.clusters, o.context, o.n_folds, are_used), make)

    def _number_of_folds(self, data: PreferenceData, units: Units, are_used: bool) -> int:
        return number_of_folds(data, units.clusters, n_folds=self.options.n_folds, are_used=are_used)

    def folds(self, inputs: Inputs, seed: RepetitionSeed) -> Folds:
        """Deal contexts, or clusters of them, to folds by the key of the repetition."""
        key = (inputs.fold_units, inputs.n_folds, seed)
        return self.keep(f"folds {seed.repetition}", key, lambda: self._deal(inputs.fold_units, inputs.n_folds, seed))

    def _deal(self, units: FoldUnits, n_folds: int, seed: RepetitionSeed) -> Folds:
        return assign_folds(units, n_folds, seed.fold_key)

    # --- mu and pi ----------------------------------------------------------------------------------------------------

    def learn(self, inputs: Inputs, folds: Folds, seed: RepetitionSeed) -> Learnt:
        """Learn propensities and outcome probabilities by fold."""
        if current().workers and inputs.verdicts is None and self.options.estimates_propensity:
            # On the user's workers both are learnt at the same time, because neither needs the other.
            (propensity, _), mu = at_the_same_time(
                lambda: self._propensities(inputs, folds, seed), lambda: self._mu(inputs, folds, seed)
            )
            return Learnt(mu, mu, propensity, None, None)
        # Propensities come before mu, so that supplied propensities are checked before anything is trained.
        propensity, judge_propensity = self._propensities(inputs, folds, seed)
        mu, verdicts, o = self._mu(inputs, folds, seed), inputs.verdicts, self.options
        if verdicts is None:
            return Learnt(mu, mu, propensity, judge_propensity, None)
        if o.judge_as == "features":
            with_verdicts = self.keep(
                f"mu with verdicts {seed.repetition}",
                (inputs.data, folds, verdicts, tune_of_mu(o), seed),
                lambda: self._fit_mu_with_verdicts(inputs.data, folds, verdicts, seed),
            )
            return Learnt(with_verdicts, mu, propensity, judge_propensity, None)
        judged = self.keep(
            f"mu with judge {seed.repetition}",
            (inputs.data, folds, verdicts, mu, o.learner, tune_of_mu(o), seed),
            lambda: self._fit_mu_with_judge(inputs.data, folds, verdicts, mu, seed),
        )
        assert judge_propensity is not None, "a fit with a judge has propensities of its verdicts"
        correction = self.keep(
            f"correction by verdicts {seed.repetition}",
            (verdicts, judge_propensity, judged),
            lambda: judge_correction(verdicts, judge_propensity, judged.m),
        )
        return Learnt(judged.mu, mu, propensity, judge_propensity, correction)

    def _mu(self, inputs: Inputs, folds: Folds, seed: RepetitionSeed) -> MuSource:
        """Return mu from human labels alone."""
        if inputs.mu is not None:
            return inputs.mu
        data = inputs.data if inputs.balanced is None else inputs.balanced.training
        key = (data, folds, self.options.learner, tune_of_mu(self.options), seed)
        return self.keep(f"mu {seed.repetition}", key, lambda: self._fit_mu(data, folds, seed))

    def _fit_mu(self, data: PreferenceData, folds: Folds, seed: RepetitionSeed) -> MuSource:
        return cross_fit_mu(data, folds, self.options, seed)

    def _fit_mu_with_verdicts(
        self, data: PreferenceData, folds: Folds, verdicts: Verdicts, seed: RepetitionSeed
    ) -> FeatureMu:
        """Fit mu with verdicts among the features, one booster per fold."""
        seeds = seed.child(Draw.JUDGE).spawn(folds.n_folds)
        return fit_with_features(data, verdicts, folds, tune=tune_of_mu(self.options), seeds=seeds)

    def _fit_mu_with_judge(
        self, data: PreferenceData, folds: Folds, verdicts: Verdicts, mu: MuSource, seed: RepetitionSeed
    ) -> JudgedMu:
        """Fit P(label | x, verdict), then fit mu again with the predictions of this model as further labels."""
        refit = None
        if isinstance(mu, CrossFittedMu):
            refit = partial(cross_fit_mu, data, folds, self.options, seed, mu.models[0])
        rng = np.random.default_rng(seed.child(Draw.JUDGE))
        return cross_fit_judged(data, verdicts, folds, mu, refit=refit, rng=rng)

    def _propensities(self, inputs: Inputs, folds: Folds, seed: RepetitionSeed) -> tuple[Propensity, FloatArray | None]:
        """Return the propensities of labels, and those of verdicts at the judged cells (None without a judge)."""
        o, balanced, needs_all = self.options, inputs.balanced, self.estimator.needs_all_propensities
        data = inputs.data if balanced is None else balanced.every
        # Only supplied propensities depend on the compared pairs.
        supplied = () if isinstance(o.propensity, str) else (o.graph, o.min_labels, needs_all)
        of_labels, of_verdicts = self.keep(
            f"propensities {seed.repetition}",
            (data, folds, self.source, o.propensity, o.tune, supplied, inputs.verdicts, seed),
            lambda: self._label_and_judge_propensities(data, folds, inputs, seed),
        )
        if balanced is not None:
            of_labels = self.keep(
                f"propensities of votes of like style {seed.repetition}",
                (balanced, of_labels, folds),
                lambda: balanced_propensity(balanced, of_labels, folds),
            )
        if needs_all:
            require_pair_propensities(of_labels)
        return of_labels, of_verdicts

    def _label_and_judge_propensities(
        self, data: PreferenceData, folds: Folds, inputs: Inputs, seed: RepetitionSeed
    ) -> tuple[Propensity, FloatArray | None]:
        """Return the propensities of labels, and those of verdicts at the judged cells, (r,) (None without a judge).

        If only judged pairs were labelled, the estimated propensity of a label is the propensity of a verdict times the
        estimated share of judged pairs that were labelled. This share may depend on the verdict.
        """
        o, graph, verdicts = self.options, inputs.setup.graph, inputs.verdicts

        def of_labels() -> Propensity:
            return self._propensities_of_cells(data, folds, o, graph, seed, Draw.PROPENSITY)

        if verdicts is None:
            return of_labels(), None
        # Verdicts on all pairs of all contexts have the propensity 1.
        if verdicts.covers_all_pairs:
            return of_labels(), np.ones(len(verdicts.cells))
        judged = replace(data, cells=verdicts.cells)
        if isinstance(o.propensity, str) and o.propensity == "marginal":
            return marginal_propensity(data), marginal_propensity(judged).cells
        estimated = o if o.estimates_propensity else replace(o, propensity="estimate")
        of_verdicts = self._propensities_of_cells(judged, folds, estimated, graph, seed, Draw.JUDGE_PROPENSITY).cells
        only_judged_labelled = (verdicts.label >= 0).all() and len(np.unique(verdicts.label)) == len(data.cells)
        if o.estimates_propensity and only_judged_labelled:
            share = labelled_share(data, verdicts, folds)
            return floored_and_scaled(of_verdicts[verdicts.label] * share, data), of_verdicts
        return of_labels(), of_verdicts

    def _propensities_of_cells(
        self, data: PreferenceData, folds: Folds, options: Options, graph: Graph, seed: RepetitionSeed, draw: Draw
    ) -> Propensity:
        return propensities_of_cells(data, folds, options, self.source, graph, seed.child(draw))

    def floor(self, inputs: Inputs, mu: MuSource, seed: RepetitionSeed) -> float:
        """Return the floor of mu: the user's, or that with the smallest log-loss; 0 where the functional needs none."""
        floor, n_categories = self.options.floor, inputs.data.n_categories
        if not isinstance(floor, str):
            if floor * n_categories >= 1:
                raise OptionError(
                    f"floor={floor} is too high for {n_categories} categories: their probabilities sum to one, so "
                    f"that a floor has to be below {1 / n_categories:.3g}; use a smaller floor, or floor='auto'"
                )
            return float(floor)
        if not inputs.setup.functional.interior:
            return 0.0
        key = (inputs.data, *self._estimand, mu)
        return self.keep(f"floor {seed.repetition}", key, lambda: self._select_floor(inputs.data, mu, seed))

    def _select_floor(self, data: PreferenceData, mu: MuSource, seed: RepetitionSeed) -> float:
        return select_floor(HeldOutLabels.of(mu, data))

    # --- one-step terms -----------------------------------------------------------------------------------------------

    def correct(
        self, inputs: Inputs, learnt: Learnt, *, floor: float, sample: IntArray | None, seed: RepetitionSeed
    ) -> tuple[OneStepResult, MeanTarget | None]:
        """Return the one-step estimates of the scores, the win shares and the position effect.

        With ``average="preferences"`` and a non-linear functional, the functional is linearised at the mean
        preferences, and the linearised functional is returned as well.

        Shapes: sample (s,).
        """
        o, setup, data = self.options, inputs.setup, inputs.data
        population = TargetPopulation(inputs.units.context_weight, sample)
        nuisances = NuisanceEstimates(learnt.mu, learnt.propensity.cells, floor, learnt.judge_correction)
        learnt_key = (learnt.mu, learnt.propensity, learnt.judge_correction, inputs.units, o.subsample, seed)
        mean = None
        if uses_mean_preferences(o.average, setup):
            mean = self.keep(
                f"mean preferences {seed.repetition}",
                (data, *self._estimand, *learnt_key, o.floor, o.estimator),
                lambda: mean_target(data, setup, replace(nuisances, floor=0.0), inputs.units.blocks, population, o),
            )
        is_restricted = self.estimator.assumes_bradley_terry
        result = self.keep(
            f"one-step estimates {seed.repetition}",
            (data, *self._estimand, *learnt_key, floor, mean, is_restricted),
            lambda: one_step(
                _estimands(setup, learnt.propensity if is_restricted else None, data.ordered, mean),
                data,
                nuisances,
                inputs.units.blocks,
                population,
                known=None if mean is not None or is_restricted else self._known_values(inputs, floor, seed),
            ),
        )
        return result, mean

    def _known_values(self, inputs: Inputs, floor: float, seed: RepetitionSeed) -> KnownValues | None:
        """Return F(mu) of contexts for which it is known; a fit that trains knows none."""
        return None

    def at_equal_style(
        self, inputs: Inputs, folds: Folds, propensity: Propensity, seed: RepetitionSeed
    ) -> tuple[EqualStyleTerms | None, StyleInfluence | None]:
        """Return the terms of the scores at equal style and their influence; None without this adjustment."""
        differences = inputs.style
        if differences is None:
            return None, None

        def make() -> tuple[EqualStyleTerms, StyleInfluence]:
            terms = equal_style_terms(
                inputs.data, inputs.setup, differences, propensity=propensity.cells, fold=folds.fold, units=inputs.units
            )
            return terms, terms.influence()

        key = (inputs.data, *self._estimand, differences, propensity, folds, inputs.units)
        return self.keep(f"equal style {seed.repetition}", key, make)

    def second_order_bias(self, inputs: Inputs, mu: MuSource, floor: float) -> RemainingBias:
        """Estimate the bias that remains because the functional is curved, from the differences of mu between folds."""
        data, functional = inputs.data, inputs.setup.functional
        return self.keep(
            "second-order bias",
            (data, *self._estimand, mu, floor),
            lambda: remaining_bias(
                functional,
                mu,
                np.argsort(data.seed_order),
                n_scores=len(functional.names(data.items)),
                floor=floor,
                n_items=data.n_items,
                known=self._known_bias(inputs, floor),
            ),
        )

    def _known_bias(self, inputs: Inputs, floor: float) -> RemainingBias | None:
        """Return the terms of contexts for which they are known; a fit that trains knows none."""
        return None


def _is_same(a: object, b: object) -> bool:
    """Whether two keys, or entries of them, are the same."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_is_same, a, b))
    return a is b or (isinstance(a, _COMPARED_BY_VALUE) and isinstance(b, _COMPARED_BY_VALUE) and a == b)


def tune_of_mu(options: Options) -> Tune:
    """Return how the learner of mu is tuned; None where the learner is the user's own."""
    return None if is_user_learner(options.learner) else options.tune


def cross_fit_mu(
    data: PreferenceData,
    folds: Folds,
    options: Options,
    seed: RepetitionSeed,
    like: MuModel | None = None,
    soft: Sequence[Cells] | None = None,
) -> CrossFittedMu:
    """Fit mu by fold, on the labels of the other folds; with a judge also on its soft labels."""
    seeds, tune = seed.child(Draw.MU).spawn(folds.n_folds), tune_of_mu(options)
    models = fit_all(data, folds, seeds, tune=tune, learner=options.learner, soft=soft, like=like)
    return CrossFittedMu(models, folds, data.x)


def propensities_of_cells(
    data: PreferenceData,
    folds: Folds,
    options: Options,
    source: Source,
    graph: Graph,
    seed: np.random.SeedSequence,
) -> Propensity:
    """Return the propensities of the data's cells: from a column, a table or function, pair frequencies, or a model."""
    o = options
    if o.propensity_column:
        return column_propensity(data, o.propensity_column)
    # A first fit has read these columns together with the votes. Only an update may have to read them here.
    needed = propensity_columns(o.propensity)
    if not isinstance(o.propensity, str):
        table = propensity_table(with_columns(data, source.data, needed), o.propensity)
        return supplied_propensity(data, table, graph, estimator_named(o.estimator).needs_all_propensities)
    if o.propensity == "marginal":
        return marginal_propensity(data)
    if o.propensity_formula is not None:
        data_with_columns = with_columns(data, source.data, needed)
        data = replace(data, x=propensity_features(data_with_columns, o.propensity_formula, source.environment))
    return estimate_propensity(data, folds, seed.spawn(folds.n_folds), tune=o.tune)


def draw_sample(data: PreferenceData, size: int | None, seed: RepetitionSeed) -> IntArray | None:
    """Draw the contexts over which F(mu) is averaged, (s,); None for all contexts.

    The sample does not depend on the order of the rows.
    """
    if size is None or size >= data.n_contexts:
        return None
    drawn = np.random.default_rng(seed.child(Draw.SAMPLE)).choice(data.n_contexts, size, replace=False)
    return np.sort(np.argsort(data.seed_order)[drawn])


def _estimands(setup: Setup, propensity: Propensity | None, ordered: bool, mean: MeanTarget | None) -> Estimands:
    """Return the estimands of a fit; with propensities, those of the fit that assumes Bradley-Terry."""
    shares, position = Borda(setup.weights, setup.graph), PositionEffect(setup.weights, setup.graph)
    if propensity is None:
        return Estimands(setup.functional if mean is None else mean.score, shares, position)
    return Estimands(restricted_score(setup, propensity, ordered), shares, position, projection=setup.functional)


def restricted_score(setup: Setup, propensity: Propensity, ordered: bool) -> RestrictedBradleyTerry:
    """Return the score of a fit that assumes Bradley-Terry."""
    assert isinstance(setup.functional, BradleyTerry)
    return RestrictedBradleyTerry(setup.functional, setup.graph, require_pair_propensities(propensity), ordered)
