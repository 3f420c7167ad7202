"""The steps of a fit in order, each redone only when something that it depends on has changed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ._options import Options
from .data.formula import parse_formula
from .data.graph import Graph
from .data.preferences import Cells, FloatArray, IntArray, PreferenceData
from .data.reading import read_preferences
from .estimation.by_kind import KindInfluence, evaluate_once
from .estimation.crossfit import CrossFittedMu, Folds, GivenMu, MuSource, assign_folds
from .estimation.evaluation import evaluate
from .estimation.floor import settled_floor
from .estimation.influence import Influence, Pieces, raised
from .estimation.judge_features import fit_with_features
from .estimation.judged import JudgedMu, cross_fit_judged, judged_term
from .estimation.kinds import Kinds, find_kinds
from .estimation.restricted import RestrictedBradleyTerry, check_restricted_categories, pairs_needed
from .estimation.validity import Validity, assess, remaining_bias, warn_of
from .exceptions import DmlrankWarning, OptionError
from .functionals import Borda, BradleyTerry, Custom, Dominance, SoftMin
from .functionals.base import is_linear, output_names
from .functionals.first_advantage import FirstAdvantage
from .functionals.pair_share import PairShare
from .inference.clusters import Clusters, context_weights, read_clusters
from .inference.covariance import Covariance, unforeseen_constant
from .inference.restriction import RestrictionTest, compare_restricted
from .maximum_likelihood import maximum_likelihood
from .nuisance.classifiers import check_learner, is_own
from .nuisance.given import checked_mu
from .nuisance.learners import fit_all
from .nuisance.propensity import (
    Propensity,
    column_propensity,
    estimate_propensity,
    given_propensity,
    marginal_propensity,
    scaled,
)
from .nuisance.selection import check_propensity, propensity_table, selection_features
from .nuisance.selection_tables import PairPropensity
from .nuisance.tuning import check_tune
from .nuisance.two_stage import labelled_share
from .nuisance.verdicts import Verdicts, read_verdicts
from .setup import Setup, comparison_graph, restrict_items, set_up
from .steps import Memory, Repetition, Source, Steps, averaged, make_covariance, pieces_of

# Where a fit that assumes Bradley-Terry keeps the projection among its scores.
_PROJECTION = 3


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
    o, memory = options, Memory(previous.memory if previous else None)
    check_tune(o.tune)
    check_propensity(o.propensity)
    check_learner(o.learner, o.tune, o.propensity)
    read = memory.step("read", (source, *_reading(o)), lambda: read_source(source, o))
    if o.estimator == "bt_mle":
        return maximum_likelihood(read, options, source, memory)
    restriction = (read, o.graph, o.min_labels, o.component, o.min_comparisons)
    data = memory.step("items", restriction, lambda: restrict_items(*restriction))
    dropped = tuple(name for name in read.items if name not in data.items)
    graph = memory.step("graph", (data, o.graph, o.min_labels), lambda: comparison_graph(data, o.graph, o.min_labels))
    restricted = o.estimator == "bt_restricted"
    functional = "bt" if restricted and o.functional == "borda" else o.functional
    binding = (data, graph, o.min_labels, o.edge_weights, o.category_weights, functional)
    setup = memory.step("setup", binding, lambda: set_up(*binding))
    if restricted:
        check_restricted_categories(setup.weights, data.categories)
    clusters = memory.step("clusters", (data, o.groups, o.context), lambda: read_clusters(data, o.groups, o.context))
    weight = memory.step("weights", (data, o.weights), lambda: context_weights(data, o.weights))
    verdicts = memory.step(
        "verdicts",
        (data, o.judge, o.context, o.categories),
        lambda: _verdicts(data, source, o) if o.judge is not None else None,
    )
    pieces, annotator = memory.step("pieces", (data, clusters, verdicts), lambda: pieces_of(data, clusters, verdicts))
    given = memory.step("given mu", (data, o.mu), lambda: None if o.mu is None else GivenMu(checked_mu(o.mu, data)))
    repetitions = tuple(
        _repeat(memory, number, source, data, graph, setup, clusters, weight, pieces, given, verdicts, o)
        for number in range(o.n_rep)
    )
    passes = tuple(repetition.evaluated for repetition in repetitions)
    influence = memory.step(
        "influence",
        (*passes, o.estimator),
        lambda: averaged([passed.influences[0] for passed in passes], o.estimator),
    )
    gauge = setup.functional.gauge(data.n_items).basis
    covariance = memory.step(
        "covariance",
        (influence, clusters, o.prompts),
        lambda: make_covariance(influence, gauge, clusters, annotator, o, [passed.influences[0] for passed in passes]),
    )
    memory.step("rank", (setup, covariance), lambda: _check_rank(setup, covariance, data.items))
    first = repetitions[0]
    bias = memory.step(
        "second order",
        (data, setup, first.mu, first.floor),
        lambda: _remaining_bias(data, setup, first.mu, first.floor),
    )
    validity = memory.step(
        "validity",
        (data, setup, influence, covariance, bias, first.evaluated, o.estimator),
        lambda: _validity(data, setup, influence, covariance, bias, first, o),
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
        validity=validity,
        verdicts=verdicts,
    )


def pair_share(steps: Steps, item: int, opponent: int) -> tuple[float, Covariance]:
    """Share of comparisons that ``item`` wins against ``opponent``, estimated as the scores are."""
    if steps.likelihood:
        share = steps.likelihood.share_influence(steps.influence.expanded, item, opponent)
        return float(share.estimate[0]), covariance_of(steps, share, np.empty((0, 1)))
    score = PairShare(steps.setup.weights, item, opponent)
    influences = [
        evaluate(
            [score],
            r.mu,
            steps.data,
            r.propensity.cells,
            steps.pieces,
            0.0,
            steps.context_weight,
            steps.options.n_jobs,
            r.sample,
            r.judged,
        ).influences[0]
        for r in steps.repetitions
    ]
    influence = averaged(influences, steps.options.estimator)
    return float(influence.estimate[0]), covariance_of(steps, influence, np.empty((0, 1)), influences)


def covariance_of(
    steps: Steps,
    influence: Influence | KindInfluence,
    gauge: FloatArray,
    repeated: Sequence[Influence | KindInfluence] = (),
) -> Covariance:
    """Covariance of another score's estimate, of the kind that the fit has."""
    return make_covariance(influence, gauge, steps.clusters, steps.annotator, steps.options, repeated)


def restriction_test(steps: Steps) -> RestrictionTest:
    """The restricted estimate against the projection of the same fit, with the covariance that the fit has."""
    free, restricted = steps.influence_of(_PROJECTION).expanded, steps.influence.expanded
    free = replace(free, steepening=None)
    gap = replace(restricted, value=free.value - restricted.value, correction=free.correction - restricted.correction)
    gauge = steps.setup.functional.gauge(steps.data.n_items).basis
    each = [repetition.evaluated.influences for repetition in steps.repetitions]
    gaps = [replace(i[0], value=i[-1].value - i[0].value, correction=i[-1].correction - i[0].correction) for i in each]
    return compare_restricted(
        restricted.estimate,
        free.estimate,
        covariance_of(steps, free, gauge),
        covariance_of(steps, gap, gauge, gaps),
        steps.data.items,
    )


def scores_at(steps: Steps, x: FloatArray) -> FloatArray:
    """Scores in new contexts, (n, K), from the mean of all learners' probabilities."""
    if steps.likelihood:
        return np.tile(steps.likelihood.scores, (len(x), 1))
    mu = np.mean([repetition.mu.average(x) for repetition in steps.repetitions], axis=0)
    functional = steps.setup.functional
    return functional.value(raised(mu, steps.repetitions[0].floor) if functional.interior else mu)


def _reading(o: Options) -> tuple[Any, ...]:
    """The options that reading the data depends on."""
    return (o.context, o.categories, o.missing, o.votes, o.unlabelled, o.position_bias, *_columns(o))


def _columns(o: Options) -> tuple[tuple[str, ...], str | None, str | None]:
    """Columns beside the formula's: groups, propensity, weights."""
    return tuple(name for name in o.groups if name != "context"), o.propensity_column, o.weights_column


def read_source(source: Source, o: Options) -> PreferenceData:
    """Read what the options ask for."""
    groups, propensity, weights = _columns(o)
    data = read_preferences(
        source.formula,
        source.data,
        source.environment,
        context=o.context,
        categories=o.categories,
        missing=o.missing,
        votes=o.votes,
        unlabelled=o.unlabelled,
        groups=(*groups, *([weights] if weights else [])),
        propensity=propensity,
    )
    return data if o.position_bias else data.unordered()


def _repeat(
    memory: Memory,
    number: int,
    source: Source,
    data: PreferenceData,
    graph: Graph,
    setup: Setup,
    clusters: Clusters | None,
    weight: FloatArray | None,
    pieces: Pieces,
    given: MuSource | None,
    verdicts: Verdicts | None,
    o: Options,
) -> Repetition:
    """One repetition: folds, first stages, the pass."""
    restricted = o.estimator == "bt_restricted"
    # One child seed for every use, so that changing one option never changes the draws of another.
    seeds = np.random.SeedSequence([o.seed, number] if number else o.seed).spawn(6)
    folds = memory.step(
        f"folds {number}", (data, clusters, o.n_folds, o.seed), lambda: _folds(data, clusters, o, seeds[0])
    )
    # Before mu: given propensities are checked before anything is trained.
    propensity, rho = memory.step(
        f"propensity {number}",
        (
            data,
            folds,
            o.propensity,
            o.propensity_formula,
            o.tune,
            graph,
            restricted and not isinstance(o.propensity, str),
            verdicts,
        ),
        lambda: _selection(source, data, folds, graph, o, verdicts, seeds[2], seeds[4]),
    )
    every = pairs_needed(propensity) if restricted else None
    tuned = None if is_own(o.learner) else o.tune
    alone = given or memory.step(f"mu {number}", (data, folds, o.learner, tuned), lambda: _mu(data, folds, o, seeds[1]))
    mu, judged = alone, None
    if verdicts is not None and o.judge_as == "features":
        mu = memory.step(
            f"mu with features {number}",
            (data, folds, verdicts, tuned),
            lambda: fit_with_features(data, verdicts, folds, o.tune, seeds[5].spawn(o.n_folds), o.n_jobs),
        )
    elif verdicts is not None and rho is not None:
        learnt = memory.step(
            f"judged mu {number}",
            (data, folds, alone, verdicts, o.learner, tuned),
            lambda: _judged_mu(data, folds, alone, verdicts, o, seeds[1], seeds[5]),
        )
        mu = learnt.mu
        judged = memory.step(f"judged {number}", (verdicts, rho, learnt), lambda: judged_term(verdicts, rho, learnt.m))
    kinds = None
    if not data.x.shape[1]:
        kinds = memory.step(f"kinds {number}", (data, folds), lambda: find_kinds(data, folds.fold))
    floor = memory.step(f"floor {number}", (data, setup, mu, o.floor), lambda: _floor(o, data, setup, mu, kinds))
    sample = _sample(data, o.subsample, seeds[3])
    evaluated = memory.step(
        f"evaluated {number}",
        (data, setup, mu, propensity, pieces, weight, floor, o.subsample, o.seed, restricted, judged),
        lambda: evaluate_once(
            _scores(setup, every, data.ordered),
            mu,
            data,
            kinds,
            propensity.cells,
            pieces,
            floor,
            weight,
            o.n_jobs,
            sample,
            judged,
        ),
    )
    return Repetition(folds, mu, propensity, evaluated, floor, sample, alone, judged, rho)


def _verdicts(data: PreferenceData, source: Source, o: Options) -> Verdicts:
    formula = parse_formula(source.formula)
    return read_verdicts(o.judge, data, formula, source.data, o.unlabelled, o.context, o.categories)


def _judged_mu(
    data: PreferenceData,
    folds: Folds,
    alone: MuSource,
    verdicts: Verdicts,
    o: Options,
    seed: np.random.SeedSequence,
    draws: np.random.SeedSequence,
) -> JudgedMu:
    """First stages with a judge; given probabilities stay as they are."""

    def refit(soft: Sequence[Cells]) -> CrossFittedMu:
        return _mu(data, folds, o, np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key), soft)

    rng = np.random.default_rng(draws)
    return cross_fit_judged(data, verdicts, folds, alone, refit if o.mu is None else None, rng)


def _selection(
    source: Source,
    data: PreferenceData,
    folds: Folds,
    graph: Graph,
    o: Options,
    verdicts: Verdicts | None,
    seed: np.random.SeedSequence,
    judge_seed: np.random.SeedSequence,
) -> tuple[Propensity, FloatArray | None]:
    """Propensities of labels, and of verdicts at the judged cells.

    Where labels are some of the judged pairs, their estimated propensity is that of being judged times the share of
    judged pairs that were labelled, which may depend on the verdict.
    """
    if verdicts is None:
        return _propensity(source, data, folds, graph, o, seed), None
    if verdicts.everywhere:
        return _propensity(source, data, folds, graph, o, seed), np.ones(len(verdicts.cells))
    judged = replace(data, cells=verdicts.cells)
    if o.propensity == "marginal":
        return marginal_propensity(data), marginal_propensity(judged).cells
    anew = replace(o, propensity="estimate")
    rho = _propensity(source, judged, folds, graph, anew, judge_seed).cells
    within = (verdicts.label >= 0).all() and len(np.unique(verdicts.label)) == len(data.cells)
    if o.propensity == "estimate" and within:
        share = labelled_share(data, verdicts, folds.fold, folds.n_folds)
        return scaled(rho[verdicts.label] * share, data), rho
    return _propensity(source, data, folds, graph, o, seed), rho


def _sample(data: PreferenceData, size: int | None, seed: np.random.SeedSequence) -> IntArray | None:
    """Contexts that F(mu) is averaged over, (m,), whatever the order of the rows; None for all."""
    if size is None or size >= data.n_contexts:
        return None
    drawn = np.random.default_rng(seed).choice(data.n_contexts, size, replace=False)
    return np.sort(np.argsort(data.seed_order)[drawn])


def _remaining_bias(data: PreferenceData, setup: Setup, mu: MuSource, floor: float) -> FloatArray:
    n_scores = len(output_names(setup.functional, data.items))
    return remaining_bias(setup.functional, mu, np.argsort(data.seed_order), n_scores, floor, data.n_items)


def _validity(
    data: PreferenceData,
    setup: Setup,
    influence: Influence | KindInfluence,
    covariance: Covariance,
    bias: FloatArray,
    first: Repetition,
    o: Options,
) -> Validity:
    """Signs that the intervals may not hold; the plug-in's are known not to."""
    validity = assess(influence, bias, first.evaluated.labels)
    if o.estimator == "bt_restricted":
        # The curvature is that of the projection; a Newton step along the model has another remainder.
        validity = replace(validity, second_order=np.full_like(validity.second_order, np.nan))
    if o.estimator in ("debiased", "bt_restricted"):
        names = output_names(setup.functional, data.items)
        warn_of(validity, covariance.std_errors, names, data.n_contexts, not is_linear(setup.functional))
    return validity


def _check_rank(setup: Setup, covariance: Covariance, items: tuple[str, ...]) -> None:
    """Warn where a covariance has a smaller rank than a functional of the user's own lets expect."""
    if not isinstance(setup.functional, Custom | Dominance | SoftMin):
        return
    constant = unforeseen_constant(covariance)
    if constant is not None:
        names = output_names(setup.functional, items)
        shown = " ".join(f"{c:+.3g}*{n}" for c, n in zip(constant, names, strict=True) if abs(c) > 1e-6)
        hint = "; if that is so whatever the data are, say it with Custom(fixed=...)"
        warnings.warn(
            f"the covariance is numerically singular: {shown} does not vary in these data, so that joint tests and "
            f"regions that involve it are not to be trusted"
            f"{hint if isinstance(setup.functional, Custom) else ' (few pairs and no features, for example)'}",
            DmlrankWarning,
            stacklevel=2,
        )


def _scores(setup: Setup, pairs: PairPropensity | None, ordered: bool) -> list[Any]:
    """The functional; the share of comparisons that each model wins; and how much being shown first helps.

    Where Bradley-Terry is assumed the first one is the restricted score, and the projection stands at the end.
    """
    others = [Borda(setup.weights, setup.graph), FirstAdvantage(setup.weights, setup.graph)]
    if pairs is None:
        return [setup.functional, *others]
    assert isinstance(setup.functional, BradleyTerry)
    restricted = RestrictedBradleyTerry(setup.functional, setup.graph, pairs, ordered)
    return [restricted, *others, setup.functional]


def _floor(o: Options, data: PreferenceData, setup: Setup, mu: MuSource, kinds: Kinds | None) -> float:
    """The floor of mu: given, or settled by the log-loss of the labels; zero where no functional needs one."""
    if not isinstance(o.floor, str):
        if o.floor * data.n_categories >= 1:
            raise OptionError(f"floor={o.floor} is too high for {data.n_categories} categories, which sum to one")
        return float(o.floor)
    # The log-loss is linear in the labels, so that the means of a fold's votes on a pair say all.
    by_pair = kinds is not None and isinstance(mu, CrossFittedMu)
    cells = kinds.by_pair(data.n_items)[0] if kinds is not None and by_pair else data.cells
    return settled_floor(mu.at(cells), cells) if setup.functional.interior else 0.0


def _folds(data: PreferenceData, clusters: Clusters | None, o: Options, seed: np.random.SeedSequence) -> Folds:
    unit = data.seed_order if clusters is None else clusters.prompt
    what = "contexts" if clusters is None else f"clusters of {clusters.names[0]!r}"
    return assign_folds(unit, o.n_folds, np.random.default_rng(seed), what)


def _mu(
    data: PreferenceData,
    folds: Folds,
    o: Options,
    seed: np.random.SeedSequence,
    soft: Sequence[Cells] | None = None,
) -> CrossFittedMu:
    models = fit_all(data, folds.fold, folds.unit, o.tune, seed.spawn(o.n_folds), o.n_jobs, o.learner, soft)
    return CrossFittedMu(models, folds, data.x)


def _propensity(
    source: Source, data: PreferenceData, folds: Folds, graph: Graph, o: Options, seed: np.random.SeedSequence
) -> Propensity:
    if o.propensity_column:
        return column_propensity(data, o.propensity_column)
    if not isinstance(o.propensity, str):
        return given_propensity(
            data, propensity_table(data, o.propensity, source.data, o.unlabelled), graph, o.estimator == "bt_restricted"
        )
    if o.propensity == "marginal":
        return marginal_propensity(data)
    if o.propensity_formula is not None:
        x = selection_features(data, o.propensity_formula, source.data, o.unlabelled, source.environment)
        data = replace(data, x=x)
    return estimate_propensity(data, folds.fold, folds.unit, o.tune, seed.spawn(o.n_folds), o.n_jobs)
