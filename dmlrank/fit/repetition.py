"""One repetition of a fit: folds, cross-fitted first stages, and the pass over their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..data.graph import Graph
from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..data.read_clusters import Clusters
from ..estimation.bt_restricted import RestrictedBradleyTerry, pairs_needed
from ..estimation.cross_fitting import CrossFittedMu, Folds, MuSource, assign_folds
from ..estimation.grouped import IdenticalContexts, evaluate_once, find_identical_contexts
from ..estimation.influence import JudgeCorrection
from ..estimation.judge import JudgedMu, cross_fit_judged, fit_with_features, judge_correction
from ..estimation.outcome_floor import select_floor
from ..exceptions import OptionError
from ..functionals import Borda, BradleyTerry
from ..functionals.position_effect import FirstAdvantage
from ..nuisance.judge.two_stage import labelled_share
from ..nuisance.judge.verdicts import Verdicts
from ..nuisance.outcome_model.cross_fit import MuModel, fit_all
from ..nuisance.outcome_model.user_learners import is_own
from ..nuisance.propensity_model.all_pairs import PairPropensity
from ..nuisance.propensity_model.estimate import (
    Propensity,
    column_propensity,
    estimate_propensity,
    given_propensity,
    marginal_propensity,
    scaled,
)
from ..nuisance.propensity_model.supplied import propensity_table, selection_features
from ..options import Options
from .estimand import Setup
from .inputs import Inputs
from .state import Memory, Repetition, Source


def repeat(memory: Memory, number: int, inputs: Inputs, source: Source, o: Options) -> Repetition:
    """One repetition; every step draws from a child seed of its own, so that no option changes another's draws."""
    data, restricted = inputs.data, o.estimator == "bt_restricted"
    seeds = np.random.SeedSequence([o.seed, number] if number else o.seed).spawn(6)
    clusters, graph, verdicts = inputs.clusters, inputs.graph, inputs.verdicts
    folds = memory.step(
        f"folds {number}", (data, clusters, o.n_folds, o.seed), lambda: _folds(data, clusters, o, seeds[0])
    )
    # Before mu: given propensities are checked before anything is trained.
    given = restricted and not isinstance(o.propensity, str)
    propensity, rho = memory.step(
        f"propensity {number}",
        (data, folds, o.propensity, o.propensity_formula, o.tune, graph, given, verdicts),
        lambda: _selection(source, data, folds, graph, o, verdicts, seeds[2], seeds[4]),
    )
    every = pairs_needed(propensity) if restricted else None
    alone, mu, judged = _first_stages(memory, number, inputs, folds, rho, o, seeds)
    setup, kinds = inputs.setup, None
    if not data.x.shape[1]:
        kinds = memory.step(f"kinds {number}", (data, folds), lambda: find_identical_contexts(data, folds.fold))
    floor = memory.step(f"floor {number}", (data, setup, mu, o.floor), lambda: _floor(o, data, setup, mu, kinds))
    sample = _sample(data, o.subsample, seeds[3])
    blocks, weight = inputs.blocks, inputs.weight
    evaluated = memory.step(
        f"evaluated {number}",
        (data, setup, mu, propensity, blocks, weight, floor, o.subsample, o.seed, restricted, judged),
        lambda: evaluate_once(
            _scores(setup, every, data.ordered),
            mu,
            data,
            kinds,
            propensity.cells,
            blocks,
            floor,
            weight,
            o.n_jobs,
            sample,
            judged,
        ),
    )
    return Repetition(folds, mu, propensity, evaluated, floor, sample, alone, judged, rho)


def _first_stages(
    memory: Memory,
    number: int,
    inputs: Inputs,
    folds: Folds,
    rho: FloatArray | None,
    o: Options,
    seeds: Sequence[np.random.SeedSequence],
) -> tuple[MuSource, MuSource, JudgeCorrection | None]:
    """mu from labels alone, mu with what judges told it, and what verdicts add to the correction."""
    data, verdicts = inputs.data, inputs.verdicts
    tuned = None if is_own(o.learner) else o.tune
    alone = inputs.given or memory.step(
        f"mu {number}", (data, folds, o.learner, tuned), lambda: _mu(data, folds, o, seeds[1])
    )
    if verdicts is not None and o.judge_as == "features":
        mu = memory.step(
            f"mu with features {number}",
            (data, folds, verdicts, tuned),
            lambda: fit_with_features(data, verdicts, folds, o.tune, seeds[5].spawn(o.n_folds), o.n_jobs),
        )
        return alone, mu, None
    if verdicts is None or rho is None:
        return alone, alone, None
    learnt = memory.step(
        f"judged mu {number}",
        (data, folds, alone, verdicts, o.learner, tuned),
        lambda: _judged_mu(data, folds, alone, verdicts, o, seeds[1], seeds[5]),
    )
    judged = memory.step(f"judged {number}", (verdicts, rho, learnt), lambda: judge_correction(verdicts, rho, learnt.m))
    return alone, learnt.mu, judged


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
        assert isinstance(alone, CrossFittedMu)
        anew = np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key)
        return _mu(data, folds, o, anew, soft, alone.models[0])

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


def _scores(setup: Setup, pairs: PairPropensity | None, ordered: bool) -> list[Any]:
    """The functional; the share of comparisons that each model wins; and how much being shown first helps.

    Where Bradley-Terry is assumed the first one is the restricted score, and the projection stands at the end.
    """
    others = [Borda(setup.weights, setup.graph), FirstAdvantage(setup.weights, setup.graph)]
    if pairs is None:
        return [setup.functional, *others]
    return [restricted_score(setup, pairs, ordered), *others, setup.functional]


def restricted_score(setup: Setup, pairs: PairPropensity, ordered: bool) -> RestrictedBradleyTerry:
    """The score of a fit that assumes Bradley-Terry."""
    assert isinstance(setup.functional, BradleyTerry)
    return RestrictedBradleyTerry(setup.functional, setup.graph, pairs, ordered)


def _floor(o: Options, data: PreferenceData, setup: Setup, mu: MuSource, kinds: IdenticalContexts | None) -> float:
    """The floor of mu: given, or settled by the log-loss of the labels; zero where no functional needs one."""
    if not isinstance(o.floor, str):
        if o.floor * data.n_categories >= 1:
            raise OptionError(f"floor={o.floor} is too high for {data.n_categories} categories, which sum to one")
        return float(o.floor)
    # The log-loss is linear in the labels, so that the means of a fold's votes on a pair say all.
    by_pair = kinds is not None and isinstance(mu, CrossFittedMu)
    cells = kinds.by_pair(data.n_items)[0] if kinds is not None and by_pair else data.cells
    return select_floor(mu.at(cells), cells) if setup.functional.interior else 0.0


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
    like: MuModel | None = None,
) -> CrossFittedMu:
    models = fit_all(data, folds.fold, folds.unit, o.tune, seed.spawn(o.n_folds), o.n_jobs, o.learner, soft, like)
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
