"""The steps of a fit in order, each redone only when something that it depends on has changed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from patsy import EvalEnvironment

from ._options import Options
from .data.graph import Graph
from .data.preferences import FloatArray, IntArray, PreferenceData
from .data.reading import read_preferences
from .estimation.crossfit import Folds, GivenMu, MuSource, assign_folds, cross_fit
from .estimation.influence import Influence, Pass, Pieces, evaluate, pieces_by_context, pieces_by_group, raised
from .exceptions import DmlrankWarning, OptionError
from .functionals import Borda
from .functionals.pair_share import PairShare
from .inference.clusters import Clusters, read_clusters
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
class Steps:
    """What every step of a fit has made."""

    options: Options
    source: Source
    data: PreferenceData
    dropped: tuple[str, ...]
    setup: Setup
    clusters: Clusters | None
    folds: Folds
    mu: MuSource
    propensity: Propensity
    pieces: Pieces
    evaluated: Pass
    influence: Influence
    covariance: Covariance
    memory: dict[str, Made] = field(repr=False)


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
    read = memory.step(
        "read",
        (source, o.context, o.categories, o.missing, o.votes, o.unlabelled, o.groups, o.propensity_column),
        lambda: read_preferences(
            source.formula,
            source.data,
            source.environment,
            context=o.context,
            categories=o.categories,
            missing=o.missing,
            votes=o.votes,
            unlabelled=o.unlabelled,
            groups=[name for name in o.groups if name != "context"],
            propensity=o.propensity_column,
        ),
    )
    restriction = (read, o.graph, o.min_labels, o.component, o.min_comparisons)
    data = memory.step("items", restriction, lambda: restrict_items(*restriction))
    dropped = tuple(name for name in read.items if name not in data.items)
    graph = memory.step("graph", (data, o.graph, o.min_labels), lambda: comparison_graph(data, o.graph, o.min_labels))
    setup = memory.step(
        "setup",
        (data, graph, o.min_labels, o.edge_weights, o.category_weights, o.functional),
        lambda: set_up(data, graph, o.min_labels, o.edge_weights, o.category_weights, o.functional),
    )
    clusters = memory.step("clusters", (data, o.groups, o.context), lambda: read_clusters(data, o.groups, o.context))
    # One child seed for every use, so that changing one option never changes the draws of another.
    seeds = np.random.SeedSequence(o.seed).spawn(3)
    folds = memory.step("folds", (data, clusters, o.n_folds, o.seed), lambda: _folds(data, clusters, o, seeds[0]))
    mu = memory.step("mu", (data, folds, o.mu, o.learner, o.tune), lambda: _mu(data, folds, o, seeds[1]))
    propensity = memory.step(
        "propensity",
        (data, folds, o.propensity, o.tune, graph),
        lambda: _propensity(data, folds, graph, o, seeds[2]),
    )
    pieces, annotator = memory.step("pieces", (data, clusters), lambda: _pieces(data, clusters))
    evaluated = memory.step(
        "evaluated",
        (data, setup, mu, propensity, pieces, o.floor),
        lambda: _evaluate(data, setup, mu, propensity, pieces, _floor(o, data)),
    )
    influence = evaluated.influences[0]
    if o.estimator == "plugin":
        influence = memory.step("plugin", (influence,), influence.without_correction)
    gauge = setup.functional.gauge(data.n_items).basis
    covariance = memory.step(
        "covariance", (influence, clusters), lambda: _covariance(influence, gauge, clusters, annotator)
    )
    return Steps(
        o,
        source,
        data,
        dropped,
        setup,
        clusters,
        folds,
        mu,
        propensity,
        pieces,
        evaluated,
        influence,
        covariance,
        memory.made,
    )


def pair_share(steps: Steps, item: int, opponent: int) -> tuple[float, Covariance]:
    """Share of comparisons that ``item`` wins against ``opponent``, estimated as the scores are."""
    score = PairShare(steps.setup.weights, item, opponent)
    pieces, annotator = _pieces(steps.data, steps.clusters)
    passed = evaluate([score], steps.mu, steps.data, steps.propensity.cells, pieces, 0.0)
    influence = passed.influences[0]
    if steps.options.estimator == "plugin":
        influence = influence.without_correction()
    return float(influence.estimate[0]), _covariance(influence, np.empty((0, 1)), steps.clusters, annotator)


def scores_at(steps: Steps, x: FloatArray) -> FloatArray:
    """Scores in new contexts, (n, K), from the mean of the folds' probabilities."""
    mu = steps.mu.average(x)
    functional = steps.setup.functional
    return functional.value(raised(mu, _floor(steps.options, steps.data)) if functional.interior else mu)


def _floor(o: Options, data: PreferenceData) -> float:
    if o.floor * data.n_categories >= 1:
        raise OptionError(f"floor={o.floor} is too high for {data.n_categories} categories, which sum to one")
    return float(o.floor)


def _folds(data: PreferenceData, clusters: Clusters | None, o: Options, seed: np.random.SeedSequence) -> Folds:
    unit = data.seed_order if clusters is None else clusters.prompt
    what = "contexts" if clusters is None else f"clusters of {clusters.names[0]!r}"
    return assign_folds(unit, o.n_folds, np.random.default_rng(seed), what)


def _mu(data: PreferenceData, folds: Folds, o: Options, seed: np.random.SeedSequence) -> MuSource:
    if o.mu is not None:
        return GivenMu(checked_mu(o.mu, data))
    return cross_fit(
        lambda kept, rng: fit_mu(data, kept, folds.unit, o.tune, rng, o.n_jobs),
        folds,
        data.x,
        seed.spawn(o.n_folds),
    )


def _propensity(
    data: PreferenceData, folds: Folds, graph: Graph, o: Options, seed: np.random.SeedSequence
) -> Propensity:
    if o.propensity_column:
        return column_propensity(data, o.propensity_column)
    if not isinstance(o.propensity, str):
        return given_propensity(data, np.asarray(o.propensity), graph)
    if o.propensity == "marginal":
        return marginal_propensity(data)
    return estimate_propensity(data, folds.fold, folds.unit, o.tune, seed.spawn(o.n_folds), o.n_jobs)


def _pieces(data: PreferenceData, clusters: Clusters | None) -> tuple[Pieces, IntArray | None]:
    """Pieces of the correction, and the annotator of each where annotators are clusters."""
    if clusters is None or clusters.annotator is None:
        return pieces_by_context(data), None
    return pieces_by_group(data, clusters.annotator)


def _evaluate(
    data: PreferenceData, setup: Setup, mu: MuSource, propensity: Propensity, pieces: Pieces, floor: float
) -> Pass:
    """The functional, and beside it the share of comparisons that each model wins."""
    shares = Borda(setup.weights, setup.graph)
    scores = [setup.functional] if setup.functional.name == "borda" else [setup.functional, shares]
    return evaluate(scores, mu, data, propensity.cells, pieces, floor)


def _covariance(
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
