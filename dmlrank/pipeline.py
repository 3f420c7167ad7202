"""The steps of a fit in order, each redone only when something that it depends on has changed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from patsy import EvalEnvironment

from ._options import Options
from .data.graph import Graph
from .data.preferences import FloatArray, IntArray, PreferenceData
from .data.reading import read_preferences
from .estimation.crossfit import Folds, GivenMu, MuSource, assign_folds, cross_fit
from .estimation.influence import (
    Influence,
    Pass,
    Pieces,
    evaluate,
    mean_influence,
    pieces_by_context,
    pieces_by_group,
    raised,
)
from .exceptions import DmlrankWarning, OptionError
from .functionals import Borda
from .functionals.first_advantage import FirstAdvantage
from .functionals.pair_share import PairShare
from .inference.clusters import Clusters, context_weights, read_clusters
from .inference.covariance import Covariance, one_way, robust, two_way, two_way_contexts
from .nuisance.given import checked_mu
from .nuisance.learners import fit_mu
from .nuisance.propensity import (
    Propensity,
    column_propensity,
    estimate_propensity,
    given_propensity,
    marginal_propensity,
)
from .nuisance.selection import check_propensity, propensity_table, selection_features
from .nuisance.tuning import check_tune
from .setup import Setup, comparison_graph, restrict_items, set_up

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """What the user handed in: formula, frame and the namespace of the call."""

    formula: str
    data: Any
    environment: EvalEnvironment


@dataclass(frozen=True, slots=True, eq=False)
class Repetition:
    """One deal of folds, the first stages cross-fitted on it, and the pass over their probabilities."""

    folds: Folds
    mu: MuSource
    propensity: Propensity
    evaluated: Pass


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """What every step of a fit has made."""

    options: Options
    source: Source
    data: PreferenceData
    dropped: tuple[str, ...]
    setup: Setup
    clusters: Clusters | None
    context_weight: FloatArray | None
    pieces: Pieces
    annotator: IntArray | None
    repetitions: tuple[Repetition, ...]
    influence: Influence
    covariance: Covariance
    memory: dict[str, Made] = field(repr=False)

    @property
    def folds(self) -> Folds:
        """Folds of the first repetition."""
        return self.repetitions[0].folds

    @property
    def mu(self) -> MuSource:
        """Probabilities of the first repetition."""
        return self.repetitions[0].mu

    @property
    def propensity(self) -> Propensity:
        """Propensities of the first repetition."""
        return self.repetitions[0].propensity

    @property
    def evaluated(self) -> Pass:
        """The pass of the first repetition."""
        return self.repetitions[0].evaluated

    def influence_of(self, score: int) -> Influence:
        """Influence of one of the scores of the passes, averaged over repetitions, not debiased for the plug-in."""
        return _averaged([r.evaluated.influences[score] for r in self.repetitions], self.options.estimator)


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """What a step made, from what, and the warnings it gave."""

    sources: tuple[Any, ...]
    result: Any
    warnings: tuple[str, ...]


class _Memory:
    """Results of steps under their names."""

    def __init__(self, previous: dict[str, Made] | None) -> None:
        self._previous = previous or {}
        self.made: dict[str, Made] = {}

    def step(self, name: str, sources: tuple[Any, ...], make: Callable[[], T]) -> T:
        """What the step made before from the same sources, else what it makes now."""
        known = self._previous.get(name)
        if known and _same(known.sources, sources):
            self.made[name] = known
            for message in known.warnings:
                warnings.warn(message, DmlrankWarning, stacklevel=2)
            return known.result
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = make()
        own = tuple(str(w.message) for w in caught if issubclass(w.category, DmlrankWarning))
        self.made[name] = Made(sources, result, own)
        for w in caught:
            warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
        return result


def run(options: Options, source: Source, previous: Steps | None = None) -> Steps:
    """Carry out a fit, reusing the steps of a previous one whose sources have not changed.

    Parameters
    ----------
    options : Options
        Checked.
    source : Source
    previous : Steps, optional
        What an earlier fit has made.
    """
    o, memory = options, _Memory(previous.memory if previous else None)
    check_tune(o.tune)
    check_propensity(o.propensity)
    read = memory.step("read", (source, *_reading(o)), lambda: _read(source, o))
    restriction = (read, o.graph, o.min_labels, o.component, o.min_comparisons)
    data = memory.step("items", restriction, lambda: restrict_items(*restriction))
    dropped = tuple(name for name in read.items if name not in data.items)
    graph = memory.step("graph", (data, o.graph, o.min_labels), lambda: comparison_graph(data, o.graph, o.min_labels))
    binding = (data, graph, o.min_labels, o.edge_weights, o.category_weights, o.functional)
    setup = memory.step("setup", binding, lambda: set_up(*binding))
    clusters = memory.step("clusters", (data, o.groups, o.context), lambda: read_clusters(data, o.groups, o.context))
    weight = memory.step("weights", (data, o.weights), lambda: context_weights(data, o.weights))
    pieces, annotator = memory.step("pieces", (data, clusters), lambda: _pieces(data, clusters))
    given = memory.step("given mu", (data, o.mu), lambda: None if o.mu is None else GivenMu(checked_mu(o.mu, data)))
    repetitions = tuple(
        _repeat(memory, number, source, data, graph, setup, clusters, weight, pieces, given, o)
        for number in range(o.n_rep)
    )
    passes = tuple(repetition.evaluated for repetition in repetitions)
    influence = memory.step(
        "influence",
        (*passes, o.estimator),
        lambda: _averaged([passed.influences[0] for passed in passes], o.estimator),
    )
    gauge = setup.functional.gauge(data.n_items).basis
    covariance = memory.step(
        "covariance",
        (influence, clusters, o.prompts),
        lambda: _covariance(influence, gauge, clusters, annotator, o, [passed.influences[0] for passed in passes]),
    )
    return Steps(
        o,
        source,
        data,
        dropped,
        setup,
        clusters,
        weight,
        pieces,
        annotator,
        repetitions,
        influence,
        covariance,
        memory.made,
    )


def pair_share(steps: Steps, item: int, opponent: int) -> tuple[float, Covariance]:
    """Share of comparisons that ``item`` wins against ``opponent``, estimated as the scores are."""
    score = PairShare(steps.setup.weights, item, opponent)
    influences = [
        evaluate([score], r.mu, steps.data, r.propensity.cells, steps.pieces, 0.0, steps.context_weight).influences[0]
        for r in steps.repetitions
    ]
    influence = _averaged(influences, steps.options.estimator)
    return float(influence.estimate[0]), covariance_of(steps, influence, np.empty((0, 1)), influences)


def covariance_of(
    steps: Steps, influence: Influence, gauge: FloatArray, repeated: Sequence[Influence] = ()
) -> Covariance:
    """Covariance of another score's estimate, of the kind that the fit has."""
    return _covariance(influence, gauge, steps.clusters, steps.annotator, steps.options, repeated)


def scores_at(steps: Steps, x: FloatArray) -> FloatArray:
    """Scores in new contexts, (n, K), from the mean of all learners' probabilities."""
    mu = np.mean([repetition.mu.average(x) for repetition in steps.repetitions], axis=0)
    functional = steps.setup.functional
    return functional.value(raised(mu, _floor(steps.options, steps.data)) if functional.interior else mu)


def _reading(o: Options) -> tuple[Any, ...]:
    """The options that reading the data depends on."""
    return (o.context, o.categories, o.missing, o.position_bias, *_columns(o))


def _columns(o: Options) -> tuple[tuple[str, ...], str | None, str | None]:
    """Columns beside the formula's: groups, propensity, weights."""
    return tuple(name for name in o.groups if name != "context"), o.propensity_column, o.weights_column


def _read(source: Source, o: Options) -> PreferenceData:
    groups, propensity, weights = _columns(o)
    data = read_preferences(
        source.formula,
        source.data,
        source.environment,
        context=o.context,
        categories=o.categories,
        missing=o.missing,
        groups=(*groups, *([weights] if weights else [])),
        propensity=propensity,
    )
    return data if o.position_bias else data.unordered()


def _repeat(
    memory: _Memory,
    number: int,
    source: Source,
    data: PreferenceData,
    graph: Graph,
    setup: Setup,
    clusters: Clusters | None,
    weight: FloatArray | None,
    pieces: Pieces,
    given: MuSource | None,
    o: Options,
) -> Repetition:
    """One repetition: folds, first stages, the pass."""
    # One child seed for every use, so that changing one option never changes the draws of another.
    floor = _floor(o, data)
    seeds = np.random.SeedSequence([o.seed, number] if number else o.seed).spawn(3)
    folds = memory.step(
        f"folds {number}", (data, clusters, o.n_folds, o.seed), lambda: _folds(data, clusters, o, seeds[0])
    )
    # Before mu: given propensities are checked before anything is trained.
    propensity = memory.step(
        f"propensity {number}",
        (data, folds, o.propensity, o.propensity_formula, o.tune, graph),
        lambda: _propensity(source, data, folds, graph, o, seeds[2]),
    )
    mu = given or memory.step(f"mu {number}", (data, folds, o.learner, o.tune), lambda: _mu(data, folds, o, seeds[1]))
    evaluated = memory.step(
        f"evaluated {number}",
        (data, setup, mu, propensity, pieces, weight, floor),
        lambda: evaluate(_scores(setup), mu, data, propensity.cells, pieces, floor, weight),
    )
    return Repetition(folds, mu, propensity, evaluated)


def _scores(setup: Setup) -> list[Any]:
    """The functional; the share of comparisons that each model wins; and how much being shown first helps."""
    return [setup.functional, Borda(setup.weights, setup.graph), FirstAdvantage(setup.weights, setup.graph)]


def _averaged(influences: Sequence[Influence], estimator: str) -> Influence:
    influence = influences[0] if len(influences) == 1 else mean_influence(influences)
    return influence.without_correction() if estimator == "plugin" else influence


def _floor(o: Options, data: PreferenceData) -> float:
    if o.floor * data.n_categories >= 1:
        raise OptionError(f"floor={o.floor} is too high for {data.n_categories} categories, which sum to one")
    return float(o.floor)


def _folds(data: PreferenceData, clusters: Clusters | None, o: Options, seed: np.random.SeedSequence) -> Folds:
    unit = data.seed_order if clusters is None else clusters.prompt
    what = "contexts" if clusters is None else f"clusters of {clusters.names[0]!r}"
    return assign_folds(unit, o.n_folds, np.random.default_rng(seed), what)


def _mu(data: PreferenceData, folds: Folds, o: Options, seed: np.random.SeedSequence) -> MuSource:
    return cross_fit(
        lambda kept, rng: fit_mu(data, kept, folds.unit, o.tune, rng, o.n_jobs),
        folds,
        data.x,
        seed.spawn(o.n_folds),
    )


def _propensity(
    source: Source, data: PreferenceData, folds: Folds, graph: Graph, o: Options, seed: np.random.SeedSequence
) -> Propensity:
    if o.propensity_column:
        return column_propensity(data, o.propensity_column)
    if not isinstance(o.propensity, str):
        return given_propensity(data, propensity_table(data, o.propensity, source.data), graph)
    if o.propensity == "marginal":
        return marginal_propensity(data)
    if o.propensity_formula is not None:
        x = selection_features(data, o.propensity_formula, source.data, source.environment)
        data = replace(data, x=x)
    return estimate_propensity(data, folds.fold, folds.unit, o.tune, seed.spawn(o.n_folds), o.n_jobs)


def _pieces(data: PreferenceData, clusters: Clusters | None) -> tuple[Pieces, IntArray | None]:
    """Pieces of the correction, and the annotator of each where annotators are clusters."""
    if clusters is None or clusters.annotator is None:
        return pieces_by_context(data), None
    return pieces_by_group(data, clusters.annotator)


def _covariance(
    influence: Influence,
    gauge: FloatArray,
    clusters: Clusters | None,
    annotator: IntArray | None,
    o: Options,
    repeated: Sequence[Influence] = (),
) -> Covariance:
    if o.prompts == "fixed":
        influence = influence.given_prompts()
    covariance = _clustered(influence, gauge, clusters, annotator)
    if len(repeated) > 1:
        estimates = np.stack([r.plugin if o.estimator == "plugin" else r.estimate for r in repeated])
        covariance = covariance.between_repetitions(estimates)
    return covariance


def _clustered(
    influence: Influence, gauge: FloatArray, clusters: Clusters | None, annotator: IntArray | None
) -> Covariance:
    if clusters is None:
        return robust(influence, gauge)
    if annotator is not None:
        return two_way(influence, clusters.prompt, annotator, gauge)
    if clusters.other is not None:
        return two_way_contexts(influence, clusters.prompt, clusters.other, gauge)
    return one_way(influence, clusters.prompt, gauge)


def _same(old: tuple[Any, ...], new: tuple[Any, ...]) -> bool:
    return len(old) == len(new) and all(_equal(a, b) for a, b in zip(old, new, strict=True))


def _equal(a: Any, b: Any) -> bool:
    """Whether two sources are the same thing; arrays and objects are by identity, plain values by value."""
    plain = (str, int, float, bool, dict, type(None))
    if isinstance(a, tuple) and isinstance(b, tuple):
        return _same(a, b)
    return a is b or (isinstance(a, plain) and isinstance(b, plain) and a == b)
