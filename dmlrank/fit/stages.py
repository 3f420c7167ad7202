"""The first stages of a fit: everything that costs time, read or learnt from the data and kept for later updates.

An update of a fit uses a stage again where its key is the same. A key has the results of earlier stages and the options
from which the stage is computed. It is the same where the results are the same objects and the options have the same
values. An update with other rows learns all stages again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from .._utils.tasks_and_threads import at_the_same_time, collected_warnings, current, trim_memory, warn
from ..data.columns import align_by_index, join_shared, row_index, warn_of_shared_texts
from ..data.contexts import identity_numbers
from ..data.derived_pairs import DERIVED_KINDS
from ..data.formula.parse import parse_formula
from ..data.frames import count_copies, release_unused_memory
from ..data.graph import Graph
from ..data.outcomes import COUNTS, WINNERS
from ..data.preferences import (
    Cells,
    Clusters,
    FloatArray,
    PreferenceData,
    context_weights,
    read_clusters,
    read_tasks,
    require_effective_clusters,
)
from ..data.read_votes import preferences_of, take_rows, votes_of_counts, with_columns
from ..estimation.cross_fitting import (
    CrossFittedMu,
    FoldUnits,
    HeldOutLabels,
    MuSource,
    SuppliedMu,
    assign_folds,
    fold_key,
    select_floor,
)
from ..estimation.influence import (
    EstimandName,
    JudgeCorrection,
    OneStepInputs,
    OneStepResult,
    blocks_by_context,
    blocks_by_group,
)
from ..estimation.mean_preferences import mean_preferences
from ..estimation.one_step import one_step
from ..exceptions import DataError, OptionError, listed
from ..functionals import Borda, Functional, functional_from
from ..functionals.linear_scores import LinkedScore, PositionEffect
from ..nuisance.boosting import RandomSearch
from ..nuisance.effects_and_trees import SELECTION_SAMPLE
from ..nuisance.propensity import (
    Propensity,
    estimate_propensity,
    floored_and_scaled,
    for_both_orders,
    marginal_propensity,
)
from ..nuisance.supplied_propensity import (
    column_propensity,
    propensity_columns,
    propensity_features,
    propensity_table,
    supplied_propensity,
)
from ..nuisance.training_rows import Folds
from ..options import EqualTasks, Options
from .compared_pairs import (
    MeanTarget,
    OrderChoice,
    Setup,
    choose_pairs,
    mean_targets,
    pairs_and_apart,
    restrict_items,
    set_up,
)
from .estimators import MEANS, estimator_named, estimator_of
from .state import Inputs, Kept, Source, Units

if TYPE_CHECKING:
    from ..estimation.equal_style import EqualStyleTerms, StyleInfluence
    from ..estimation.order_effect import OrderEffect
    from ..estimation.second_order import SecondOrder
    from ..nuisance.outcome_model.cross_fit import MuModel
    from ..nuisance.verdicts import Verdicts

T = TypeVar("T")

# Features of contexts, as numbers, up to which mu and propensities are in memory at the same time.
_MOST_AT_ONCE = 5_000_000
# Votes of a table of counts that are written out as rows at most, where a fit or a method needs them one by one.
_MOST_ONE_BY_ONE = 50_000_000
# Types whose values are compared by equality in a key; values of other types are compared by identity.
_COMPARED_BY_VALUE = (str, int, float, bool, dict, RandomSearch, type(None))


class Draw(IntEnum):
    """The kinds of random draws in a repetition; each has a seed derived from the fit's. Folds are dealt, not drawn."""

    MU = 1
    PROPENSITY = 2
    JUDGE_PROPENSITY = 4
    JUDGE = 5
    VOTE_RATES = 6


class RepetitionSeed(NamedTuple):
    """The seed of a fit and the number of a repetition, from 0, from which each kind of draw gets a seed.

    An option that adds or removes draws of one kind does not change the draws of the other kinds.
    """

    fit: int
    repetition: int

    def child(self, draw: Draw) -> np.random.SeedSequence:
        """Return the seed of one kind of draw."""
        entropy = [self.fit, self.repetition] if self.repetition else self.fit
        return np.random.SeedSequence(entropy, spawn_key=(int(draw),))


class Learnt(NamedTuple):
    """What one repetition has learnt.

    mu, mu_without_judge: Outcome probabilities that the estimates use, and those from human labels alone: the same
        where there is no judge.
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
    """

    def __init__(self, source: Source, options: Options, earlier: Mapping[str, Kept] | None = None) -> None:
        self.source, self.options, self.estimator = source, options, estimator_of(options)
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
            warn(message)
        result: T = kept.result
        return result

    # --- data ---------------------------------------------------------------------------------------------------------

    def data_as_read(self) -> PreferenceData:
        """Return the votes of the user's frame."""
        o = self.options
        columns = (o.context, o.clusters, o.propensity_column, o.weights_column, o.style_columns)
        how = (o.categories, o.missing, o.pairs.min_votes, o.functional if self.estimator is MEANS else None)
        return self.keep("data", (self.source, *columns, *how), lambda: read_source(self.source, o))

    def votes_that_count(self, votes: PreferenceData) -> tuple[PreferenceData, OrderChoice]:
        """Return the votes on the ranked items, and their display order."""
        o, pairs = self.options, self.options.pairs
        of_pairs = (pairs.graph, pairs.min_labels, pairs.component, pairs.category_weights)
        deciding = (o.position_bias, *of_pairs, o.propensity, o.learning.mu)
        order = self.keep("display order", (votes, *deciding), lambda: choose_pairs(votes, o))
        ordered = self.keep("order", (votes, order.matters), lambda: votes if order.matters else votes.unordered())
        ranked = restrict_items(ordered, pairs_and_apart(ordered, o, order.min_labels)[0], o, order.min_labels)
        # Kept not to save work, but to be the same object in an update, by which later keys compare it.
        data = self.keep("ranked votes", (ordered, ranked.items), lambda: ranked)
        return data, order

    def setup(self, data: PreferenceData, min_labels: int) -> Setup:
        """Return the functional, bound to the graph of compared pairs and to category weights."""
        o, pairs = self.options, self.options.pairs
        functional = self.estimator.functional(o.functional)
        graph, apart = pairs_and_apart(data, o, min_labels)
        of_apart = (None if apart is None else tuple(apart.tolist()),)
        key = (data, functional, pairs.graph, min_labels, pairs.edge_weights, pairs.category_weights, *of_apart)
        return self.keep("setup", key, lambda: set_up(data, o, graph, apart, min_labels))

    def verdicts(self, data: PreferenceData) -> Verdicts | None:
        """Return the verdicts of judges on the pairs of the data; None without a judge."""
        o, source = self.options, self.source
        if o.judge is None:
            return None
        from ..nuisance.verdicts import read_verdicts

        return self.keep(
            "verdicts",
            (data, source, o.judge, o.context, o.categories),
            lambda: read_verdicts(
                o.judge,
                with_columns(data, source.data, o.judge_columns),
                parse_formula(source.formula),
                context=o.context,
                categories=o.categories,
            ),
        )

    # --- folds --------------------------------------------------------------------------------------------------------

    def fold_units(
        self, data: PreferenceData, units: Units, mu: SuppliedMu | None, verdicts: Verdicts | None
    ) -> tuple[int, FoldUnits]:
        """Return the number of folds and the units that are dealt to them."""
        o = self.options
        has_features = data.x.shape[1] > 0 or o.propensity_formula is not None
        # Missing scores may be predicted by scores of judges and of other models.
        learns_by_verdicts_or_style = verdicts is not None or o.adjust is not None or self.estimator is MEANS
        are_used = learns_by_verdicts_or_style or (has_features and (mu is None or o.estimates_propensity))
        key, clusters = (data, o.clusters, o.context, o.learning.n_folds, are_used, mu), units.clusters

        def read() -> tuple[int, FoldUnits]:
            n_folds = self._number_of_folds(data, clusters, mu, are_used)
            return n_folds, fold_units(data, clusters, n_folds=n_folds, are_used=are_used)

        return self.keep("fold units", key, read)

    def _number_of_folds(
        self, data: PreferenceData, clusters: Clusters | None, mu: SuppliedMu | None, are_used: bool
    ) -> int:
        """Return the number of folds: no more than clusters, with a warning, and at least two; one without features.

        The guarantees of cross-fitting are valid with any number of folds from two on; with fewer folds the learners
        are trained on a smaller share of the data.
        """
        n_folds = self.options.learning.n_folds
        n_units = data.n_contexts if clusters is None else len(np.unique(clusters.of_context))
        if not are_used and mu is not None:
            # For what is learnt after the fit: the vote rates of a sensitivity analysis.
            return min(n_folds, n_units)
        if not are_used and n_units > 1:
            if self.options.learning.n_rep > 1:
                warn(
                    f"learning=Learning(n_rep={self.options.learning.n_rep}): without features nothing is "
                    f"cross-fitted, so that all repetitions would be equal; one is computed",
                )
            return 1
        if clusters is None or n_units >= n_folds:
            return n_folds
        name = clusters.names[0]
        if n_units < 2:
            raise DataError(
                f"all contexts are in one cluster of {name!r}: cross-fitting and standard errors need at least two "
                f"clusters; name a column with more values in cov_kwds, or leave cov_type='cluster' out"
            )
        warn(
            f"learning=Learning(n_folds={n_folds}) is more than the {n_units} clusters of {name!r}, and a cluster is "
            f"never split: {n_units} folds are used, and the learners are trained on {n_units - 1} of {n_units} "
            f"clusters; pass learning=Learning(n_folds={n_units}) to use the same folds without this warning",
        )
        return n_units


class OneRepetition:
    """The stages of a repetition: deal contexts, or clusters of them, to folds, learn mu and pi on them, correct F(mu).

    Results are kept as those of :class:`FirstStages`, under their names with the number of the repetition.
    """

    def __init__(self, stages: FirstStages, inputs: Inputs, number: int) -> None:
        self.stages, self.inputs, self.options, self.estimator = stages, inputs, stages.options, stages.estimator
        self.data, self.functional = inputs.data, inputs.setup.functional
        self.seed = RepetitionSeed(self.options.seed, number)
        # How the learner of mu is tuned; None where the learner is the user's own, which reads no tune=.
        self._tune = None if not isinstance(self.options.learner, str) else self.options.learning.tune
        units, n_folds = inputs.fold_units, inputs.n_folds

        one_fold = Folds(np.zeros(len(units.unit), np.intp), units.unit, 1)
        self.folds = self.keep(
            "folds",
            (units, self.seed),
            lambda: one_fold if n_folds == 1 else assign_folds(units, n_folds, fold_key(*self.seed)),
        )

    def keep(self, name: str, key: tuple[object, ...], compute: Callable[[], T]) -> T:
        """Return the result of a stage of this repetition, as :meth:`FirstStages.keep` does."""
        return self.stages.keep(f"{name} {self.seed.repetition}", key, compute)

    # --- mu and pi ----------------------------------------------------------------------------------------------------

    def learn(self) -> Learnt:
        """Learn propensities and outcome probabilities by fold."""
        if self._learns_at_once:
            (propensity, _), mu = at_the_same_time(self._propensities, self._mu)
            return Learnt(mu, mu, propensity, None, None)
        # Propensities come before mu, so that supplied propensities are checked before anything is trained.
        (propensity, judge_propensity), n_labels = self._propensities(), len(self.data.cells)
        trim_memory(n_labels)
        mu, verdicts, o = self._mu(), self.inputs.verdicts, self.options
        trim_memory(n_labels)
        if verdicts is None:
            return Learnt(mu, mu, propensity, judge_propensity, None)
        from ..estimation.judge import cross_fit_judged, fit_with_features, judge_correction

        data, folds, seed = self.data, self.folds, self.seed
        if o.learning.judge_as == "features":
            with_verdicts = self.keep(
                "mu with verdicts",
                (data, folds, verdicts, self._tune, seed),
                lambda: fit_with_features(
                    data, verdicts, folds, tune=self._tune, seeds=seed.child(Draw.JUDGE).spawn(folds.n_folds)
                ),
            )
            return Learnt(with_verdicts, mu, propensity, judge_propensity, None)
        # P(label | x, verdict), and then mu again with the predictions of this model as further labels.
        refit = partial(self._fit_mu, mu.models[0]) if isinstance(mu, CrossFittedMu) else None
        judged = self.keep(
            "mu with judge",
            (data, folds, verdicts, mu, o.learner, self._tune, seed),
            lambda: cross_fit_judged(
                data, verdicts, folds, mu, refit=refit, rng=np.random.default_rng(seed.child(Draw.JUDGE))
            ),
        )
        assert judge_propensity is not None, "a fit with a judge has propensities of its verdicts"
        correction = self.keep(
            "correction by verdicts",
            (verdicts, judge_propensity, judged),
            lambda: judge_correction(verdicts, judge_propensity, judged.m),
        )
        return Learnt(judged.mu, mu, propensity, judge_propensity, correction)

    @property
    def _learns_at_once(self) -> bool:
        """Whether mu and pi are learnt at the same time: neither needs the other, and folds are few for many cores."""
        if self.inputs.verdicts is not None or not self.options.estimates_propensity:
            return False
        is_large = len(self.data.cells) > SELECTION_SAMPLE and 0 < self.data.x.size <= _MOST_AT_ONCE
        # Learners of users stay in the calling thread.
        is_large = is_large and isinstance(self.options.learner, str)
        return current().workers is not None or (is_large and current().n_threads > 1)

    def _mu(self) -> MuSource:
        """Return mu from human labels alone."""
        if self.inputs.mu is not None:
            return self.inputs.mu
        apart = None if self.folds.n_folds > 1 else self.functional.apart
        key = (self.data, self.folds, self.options.learner, self._tune, self.seed, apart)
        return self.keep("mu", key, self._fit_mu)

    def _fit_mu(self, like: MuModel | None = None, soft: Sequence[Cells] | None = None) -> CrossFittedMu:
        """Fit mu by fold, on the labels of the other folds (with a judge also on its soft labels); or one pilot."""
        from ..nuisance.outcome_model.cross_fit import fit_all, fit_pilot

        data, folds = self.data, self.folds
        if folds.n_folds == 1:
            return CrossFittedMu((fit_pilot(data, self.functional.apart),), folds, data.x)
        seeds = self.seed.child(Draw.MU).spawn(folds.n_folds)
        models = fit_all(data, folds, seeds, tune=self._tune, learner=self.options.learner, soft=soft, like=like)
        return CrossFittedMu(models, folds, data.x)

    def _propensities(self) -> tuple[Propensity, FloatArray | None]:
        """Return the propensities of labels, and those of verdicts at the judged cells (None without a judge)."""
        o, data, inputs, needs_all = self.options, self.data, self.inputs, self.estimator.needs_all_propensities
        if self.folds.n_folds == 1 and isinstance(o.propensity, str) and o.propensity in ("estimate", "marginal"):
            # Weights enter here, because mu is learnt without them from the same labels: with rates among weighted
            # prompts, the estimate is the weighted mean of the labels of a pair, whatever mu is. Where mu is learnt by
            # fold, pi is P(S = 1 | x), which does not depend on the prompts that scores are averaged over.
            weight = inputs.units.context_weight
            rates = self.stages.keep("rates of pairs", (data, weight), lambda: marginal_propensity(data, weight))
            return for_both_orders(rates, data, self.functional.apart), None
        # Only supplied propensities depend on the compared pairs.
        supplied = () if isinstance(o.propensity, str) else (o.pairs.graph, inputs.display_order.min_labels, needs_all)
        of_labels, of_verdicts = self.keep(
            "propensities",
            (data, self.folds, self.stages.source, o.propensity, o.learning.tune, supplied, inputs.verdicts, self.seed),
            self._label_and_judge_propensities,
        )
        if needs_all:
            from ..estimation.bt_restricted import require_pair_propensities

            require_pair_propensities(of_labels)
        return for_both_orders(of_labels, data, self.functional.apart), of_verdicts

    def _label_and_judge_propensities(self) -> tuple[Propensity, FloatArray | None]:
        """Return the propensities of labels, and those of verdicts at the judged cells, (r,) (None without a judge).

        If only judged pairs were labelled, the estimated propensity of a label is the propensity of a verdict times the
        estimated share of judged pairs that were labelled. This share may depend on the verdict.
        """
        o, data, verdicts, of_verdicts = self.options, self.data, self.inputs.verdicts, None
        propensities = partial(
            propensities_of_cells, self.stages.source, self.folds, self.inputs.setup.graph, self.seed
        )
        if verdicts is not None and verdicts.covers_all_pairs:
            of_verdicts = np.ones(len(verdicts.cells))
        elif verdicts is not None:
            judged = replace(data, cells=verdicts.cells)
            of_verdicts = propensities(judged, o.for_other_cells, Draw.JUDGE_PROPENSITY).cells
            only_judged_labelled = (verdicts.label >= 0).all() and len(np.unique(verdicts.label)) == len(data.cells)
            if o.estimates_propensity and only_judged_labelled:
                from ..nuisance.verdicts import labelled_share

                share = labelled_share(data, verdicts, self.folds)
                return floored_and_scaled(of_verdicts[verdicts.label] * share, data), of_verdicts
        return propensities(data, o, Draw.PROPENSITY), of_verdicts

    # --- floor, one-step terms, remaining bias ------------------------------------------------------------------------

    def floor(self, mu: MuSource) -> float:
        """Return the floor of mu: the user's, or that with the smallest log-loss; 0 where the functional needs none."""
        floor, n_categories = self.options.learning.floor, self.data.n_categories
        if not isinstance(floor, str):
            if floor * n_categories >= 1:
                raise OptionError(
                    f"learning=Learning(floor={floor}) is too high for {n_categories} categories: their "
                    f"probabilities sum to one, so that a floor has to be below {1 / n_categories:.3g}; use a smaller "
                    f"floor, or 'auto'"
                )
            return float(floor)
        if not self.functional.interior:
            return 0.0
        apart = self.functional.apart
        return self.keep("floor", (self.inputs.setup, mu), lambda: select_floor(HeldOutLabels.of(mu, self.data), apart))

    def correct(self, learnt: Learnt, floor: float) -> tuple[OneStepInputs, OneStepResult, MeanTarget | None]:
        """Return one-step estimates, what they are made from, and the linearised functional of mean preferences."""
        o, setup, data, functional = self.options, self.inputs.setup, self.data, self.functional
        units, mean, correction = self.inputs.units, None, learnt.judge_correction
        of_units = data, units.blocks, units.weights(data)
        given = OneStepInputs(*of_units, learnt.mu, learnt.propensity.cells, floor, correction)
        learnt_key = (learnt.mu, learnt.propensity, correction, units)
        if o.average == "preferences" and not functional.linear:
            mean = self.keep(
                "mean preferences",
                (setup, *learnt_key, o.learning.floor, o.estimator),
                lambda: mean_targets(mean_preferences(given), data, setup, o)[0],
            )
        is_restricted = self.estimator.assumes_bradley_terry
        estimands: dict[EstimandName, Functional] = {
            "target": functional if mean is None else mean.score,
            "win_share": Borda(setup.weights, setup.graph, apart=functional.apart),
            "position_effect": PositionEffect(setup.weights, setup.shared_graph),
        }
        if is_restricted:
            from ..estimation.bt_restricted import restricted_score

            restricted = restricted_score(functional, learnt.propensity, data.ordered)
            estimands |= {"target": restricted, "projection": functional}
        result = self.keep(
            "one-step estimates",
            (setup, *learnt_key, floor, mean, is_restricted),
            lambda: one_step(estimands, given),
        )
        return given, result, mean

    @property
    def _is_plain(self) -> bool:
        """Whether scores are one-step estimates without a judge or an adjustment, of label weights with a fixed sum."""
        o = self.options
        has_fixed_sum = self.functional.category_weights.total == 1
        return self.estimator.is_unrestricted_one_step and has_fixed_sum and o.judge is None and o.adjust is None

    def at_both_orders(self, result: OneStepResult) -> tuple[OneStepResult, OrderEffect | None]:
        """Return estimates without the effect of order where pairs are shown in one order more often than by chance.

        None where order is modelled, has no meaning by the caller's word, or cannot be told from the models.
        """
        o, data, inputs, functional = self.options, self.data, self.inputs, self.functional
        is_ignored = isinstance(o.position_bias, str) and not data.ordered
        has_order = data.outcome_kind not in (*DERIVED_KINDS, WINNERS)
        is_curved_mean = o.average == "preferences" and not functional.linear
        if not (is_ignored and has_order and functional.link is not None and self._is_plain) or is_curved_mean:
            return result, None
        from ..estimation.order_effect import order_effect

        def estimate() -> tuple[OneStepResult, OrderEffect | None]:
            graph, blocks, weight = inputs.setup.graph, inputs.units.blocks, inputs.units.weights(data)
            influences, effects = dict(result.influences), []
            names: tuple[EstimandName, ...] = ("target", "win_share")
            win_share = Borda(inputs.setup.weights, graph, apart=functional.apart)
            for name, score in zip(names, (functional, win_share), strict=True):
                link = LinkedScore(score, data.n_items, data.ordered)
                effect = order_effect(link, data, graph, result.cell_mu, blocks, weight)
                if effect is None:
                    return result, None
                influences[name] = effect.taken_off(influences[name], link)
                effects.append(effect)
            return replace(result, influences=influences), effects[0]

        return self.keep("effect of order", (result, inputs.setup, inputs.units), estimate)

    def at_equal_style(self, propensity: Propensity) -> tuple[EqualStyleTerms | None, StyleInfluence | None]:
        """Return the terms of the scores at equal style and their influence; None without this adjustment."""
        inputs, differences = self.inputs, self.inputs.style
        if differences is None:
            return None, None

        from .adjusted_for_style import equal_style_terms

        def estimate() -> tuple[EqualStyleTerms, StyleInfluence]:
            terms = equal_style_terms(inputs, differences, propensity.cells, self.folds.fold)
            return terms, terms.influence()

        return self.keep("equal style", (inputs.setup, differences, propensity, self.folds, inputs.units), estimate)

    def without_second_order_bias(
        self, given: OneStepInputs, result: OneStepResult
    ) -> tuple[OneStepResult, SecondOrder | None]:
        """Return the one-step estimates with u added to the scores, and u; None without an estimate of u."""
        o, data, functional = self.options, self.data, self.functional
        is_learnt = isinstance(given.mu, CrossFittedMu) and data.x.shape[1] > 0
        if functional.linear or not (is_learnt and self._is_plain) or o.average == "preferences":
            return result, None

        def estimate() -> SecondOrder | None:
            from ..estimation.second_order import second_order

            return second_order(functional, given, result.target, self.inputs.units.of_blocks(data))

        key = (self.inputs.setup, given.mu, given.floor, self.inputs.units, result)
        estimated = self.keep("second-order bias", key, estimate)
        if estimated is None or not o.learning.second_order:
            return result, estimated
        without = self.keep(
            "estimates without second-order bias", (result, estimated), lambda: estimated.removed_from(result)
        )
        return without, estimated


def propensities_of_cells(
    source: Source, folds: Folds, graph: Graph, seed: RepetitionSeed, data: PreferenceData, options: Options, draw: Draw
) -> Propensity:
    """Return the propensities of cells: from a column, a table or function, pair frequencies, or a model."""
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
        with_features = with_columns(data, source.data, needed)
        data = replace(data, x=propensity_features(with_features, o.propensity_formula, source.environment))
    return estimate_propensity(data, folds, seed.child(draw).spawn(folds.n_folds), tune=o.learning.tune)


def _is_same(a: object, b: object) -> bool:
    """Whether two keys, or entries of them, are the same."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_is_same, a, b))
    return a is b or (isinstance(a, _COMPARED_BY_VALUE) and isinstance(b, _COMPARED_BY_VALUE) and a == b)


# --- what is read -----------------------------------------------------------------------------------------------------


def counted(source: Source, options: Options) -> Source:
    """Return the source with a row for each kind of vote where it is a table of counts; else the source itself.

    Without features, contexts and clusters, equal votes are equal in all that a fit computes.
    """
    formula = parse_formula(source.formula)
    if source.copies is None and (counts := votes_of_counts(formula, source.data)) is not None:
        source = replace(source, data=counts[0], copies=counts[1])
    needing = {
        "a formula with features": formula.features != "1",
        f"estimator={options.estimator!r}": options.estimator not in ("debiased", "plugin", "bt_mle"),
        "this functional": not functional_from(options.functional).has_fast_pairs,
        f"average={options.average!r}": options.average != "scores",
        "prompts='fixed'": options.prompts != "random",
        "propensity=": not isinstance(options.propensity, str) or options.propensity not in ("estimate", "marginal"),
        "learning=Learning(mu=...)": options.learning.mu is not None,
        "context=": bool(options.context),
        "cov_kwds groups": bool(options.clusters),
        "weights=": options.weights is not None,
        "judge=": options.judge is not None,
        "adjust=": options.adjust is not None,
    }
    needs = next((name for name, is_so in needing.items() if is_so), "")
    return one_by_one(source, needs) if needs else source


def one_by_one(source: Source, what: str) -> Source:
    """Return the source with a row for each vote of a table of counts; ``what`` says in the error what needs this."""
    if source.copies is None:
        return source
    if source.written_out:
        return source.written_out[0]
    if source.copies.sum() > _MOST_ONE_BY_ONE:
        raise DataError(
            f"{what} needs the votes one by one, and the table counts {source.copies.sum():,} votes, of which at most "
            f"{_MOST_ONE_BY_ONE:,} are written out as rows. Counts of any size have fits without features and "
            f"contexts, with functional='borda' or 'bt' or estimator='bt_mle', and their intervals, tests and ranks"
        )
    assert isinstance(source.data, pd.DataFrame)
    # Names are repeated as codes of one byte.
    named = {name: "category" for name in parse_formula(source.formula).items if name in source.data}
    rows = source.data.astype(named).loc[source.data.index.repeat(source.copies)].reset_index(drop=True)
    source.written_out.append(replace(source, data=rows, copies=None))
    return source.written_out[0]


def read_source(source: Source, options: Options) -> PreferenceData:
    """Read the user's frame, with the columns that judges and propensities need."""
    are_means, propensities = estimator_of(options) is MEANS, propensity_columns(options.propensity)
    rows = take_rows(
        source.formula,
        source.data,
        source.environment,
        # The propensity of a score is not one of its prompt, and is read from the table of scores.
        replace(options, propensity="estimate") if are_means else options,
        optional=None if propensities is None else (*options.judge_columns, *propensities),
        copies=source.copies,
    )
    kind, of_rows = source.change or ("", ())
    if kind.startswith("dropped"):
        is_changed = np.isin(rows.index, of_rows)
        rows = rows.only(~is_changed) if kind == "dropped" else rows.without_labels(is_changed)
    data = preferences_of(rows, compares=not are_means)
    if kind == "flipped labels":
        data = data.with_wins_exchanged(np.isin(data.row_index[data.vote_row], of_rows))
    counts_each = isinstance(source.data, pd.DataFrame) and not options.context and data.outcome_kind != COUNTS
    if counts_each and (n_copies := count_copies(source.data, rows.formula.outcomes)):
        equal = f"{n_copies:,} row{'s equal' if n_copies > 1 else ' equals'} an earlier row in every column"
        warn(f"{equal}, and each counts as a vote; if they are copies, drop them")
    if rows.are_partitioned:
        del rows  # the columns as they were read, which need as much memory again as the features
        release_unused_memory()
    return data


def read_units(data: PreferenceData, source: Source, options: Options, verdicts: Verdicts | None) -> Units:
    """Read clusters and weights of contexts, and divide the votes, of which verdicts have no annotator, into blocks."""
    clusters, weights, task = read_clusters(data, options.clusters, options.context), options.weights, None
    if clusters is not None:
        require_effective_clusters(clusters)
    groups = [] if clusters is None else [clusters.of_context, clusters.second_of_context]
    warn_of_shared_texts(data.shared_texts, groups, options.context)
    if isinstance(weights, pd.Series):
        labels, contexts = pd.Index(list(data.context_ids)), f"the contexts ({listed(options.context)})"
        if not options.context:
            labels, contexts = row_index(source.data, data.n_rows)[data.context_ids.astype(np.intp)], "the rows"
        weights = align_by_index(weights, labels, name="weights", of=contexts).to_numpy()
    if isinstance(weights, EqualTasks):
        task = read_tasks(data, weights.column, are_fixed=clusters is None)
        weights = 1 / np.bincount(task)[task]
    weight = context_weights(data, weights)
    if clusters is None or clusters.of_vote is None:
        return Units(blocks_by_context(data), clusters, None, weight, task if clusters is None else None)
    blocks, annotator = blocks_by_group(data, clusters.of_vote, verdicts.cells.context if verdicts else None)
    return Units(blocks, clusters, annotator, weight)


def fold_units(data: PreferenceData, clusters: Clusters | None, *, n_folds: int, are_used: bool = True) -> FoldUnits:
    """Return the units that are dealt to folds: contexts, or clusters of them; units that share a text are joined.

    A unit is dealt by a number that stands for its identifier. The word "context" among the columns of clusters stands
    for the contexts, unless a column has this name.
    """
    unit = data.seed_order if clusters is None else clusters.of_context
    noun = "contexts" if clusters is None else f"clusters of {clusters.names[0]!r}"
    if not are_used:
        identity = unit.astype(np.uint64)
    elif clusters is None or clusters.names[0] not in data.columns:
        identity = identity_numbers(data.context_ids)
    else:
        units, first_context = np.unique(unit, return_index=True)
        identity = np.zeros(int(units[-1]) + 1, np.uint64)
        identity[units] = identity_numbers(data.by_context(clusters.names[0])[first_context])
        identity = identity[unit]
    joined = join_shared(unit, data.shared_texts, n_folds)
    if joined is not unit:
        smallest = np.full(int(joined.max()) + 1, np.iinfo(np.uint64).max, dtype=np.uint64)
        np.minimum.at(smallest, joined, identity)
        identity = smallest[joined]
    return FoldUnits(joined, identity, noun)
