"""The first stages of a repetition: cross-fitted mu, with and without a judge, and the propensities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from ..data.graph import Graph
from ..data.preferences import Cells, FloatArray, PreferenceData
from ..data.read_votes import with_columns
from ..estimation.cross_fitting import CrossFittedMu, MuSource
from ..estimation.judge import FeatureMu, JudgedMu, cross_fit_judged, fit_with_features
from ..nuisance.judge.two_stage import labelled_share
from ..nuisance.judge.verdicts import Verdicts
from ..nuisance.outcome_model.cross_fit import MuModel, fit_all
from ..nuisance.outcome_model.user_learners import is_own
from ..nuisance.propensity_model.estimate import (
    Propensity,
    estimate_propensity,
    floored_and_scaled,
    marginal_propensity,
)
from ..nuisance.propensity_model.supplied import (
    column_propensity,
    propensity_columns,
    propensity_table,
    selection_features,
    supplied_propensity,
)
from ..nuisance.training_rows import Folds
from ..options import Options
from .state import Source


class Draw(IntEnum):
    """What is drawn in a repetition, each from a child seed of its own."""

    FOLDS = 0
    MU = 1
    PROPENSITY = 2
    SAMPLE = 3
    JUDGE_PROPENSITY = 4
    JUDGE = 5


class RepetitionSeed(NamedTuple):
    """The seed of a repetition; what it draws has child seeds, so that no option changes another's draws.

    Attributes
    ----------
    fit : int
        Seed of the fit.
    repetition : int
        Number of the repetition, from 0.
    """

    fit: int
    repetition: int

    def child(self, draw: Draw) -> np.random.SeedSequence:
        """The seed of one kind of draw."""
        entropy = [self.fit, self.repetition] if self.repetition else self.fit
        return np.random.SeedSequence(entropy, spawn_key=(int(draw),))


class OutcomeLearner(NamedTuple):
    """What mu is learnt with.

    Attributes
    ----------
    learner : str, classifier or callable
    tune : str, RandomSearch, mapping or None
        How LightGBM is tuned; None where the learner is the user's own.
    """

    learner: Any
    tune: Any

    @classmethod
    def of(cls, options: Options) -> OutcomeLearner:
        """The learner that the options ask for."""
        return cls(options.learner, None if is_own(options.learner) else options.tune)


class PropensityModel(NamedTuple):
    """Where propensities come from.

    Attributes
    ----------
    propensity : str, array, callable or plan
        As in :func:`dmlrank.dml_rank`.
    column : str or None
        The column that holds them, where one is named.
    formula : str or None
        Features of an estimated propensity.
    tune : str, RandomSearch, mapping or None
        How LightGBM is tuned.
    graph : Graph
    zeros_allowed : bool
        Whether a supplied propensity may be 0 at a compared pair without a label.
    source : Source
    unlabelled : frame or None
        The frames that a formula and supplied propensities look at.
    """

    propensity: Any
    column: str | None
    formula: str | None
    tune: Any
    graph: Graph
    zeros_allowed: bool
    source: Source
    unlabelled: Any

    @property
    def word(self) -> str | None:
        """``"estimate"``, ``"marginal"``, a column's name, or None where propensities are supplied."""
        return self.propensity if isinstance(self.propensity, str) else None

    def with_columns(self, data: PreferenceData) -> PreferenceData:
        """The data with the columns that formula or function ask for; only an update reads the frame for them."""
        return with_columns(data, self.source.data, self.unlabelled, propensity_columns(self.propensity, self.formula))


def cross_fit_mu(
    data: PreferenceData,
    folds: Folds,
    learner: OutcomeLearner,
    *,
    seed: RepetitionSeed,
    n_jobs: int | None,
    soft: Sequence[Cells] | None = None,
    like: MuModel | None = None,
) -> CrossFittedMu:
    """mu by fold, trained on the labels of the other folds.

    Parameters
    ----------
    data : PreferenceData
    folds : Folds
    learner : OutcomeLearner
    seed : RepetitionSeed
    n_jobs : int or None
    soft : sequence of Cells, optional
        Further cells with soft labels, by fold.
    like : model, optional
        One fitted to the same labels, whose configuration is used again.
    """
    seeds = seed.child(Draw.MU).spawn(folds.n_folds)
    models = fit_all(
        data, folds, seeds, tune=learner.tune, n_jobs=n_jobs, learner=learner.learner, soft=soft, like=like
    )
    return CrossFittedMu(models, folds, data.x)


def cross_fit_mu_with_verdicts(
    data: PreferenceData,
    folds: Folds,
    verdicts: Verdicts,
    *,
    tune: Any,
    seed: RepetitionSeed,
    n_jobs: int | None,
) -> FeatureMu:
    """mu with verdicts among the features, one booster by fold."""
    seeds = seed.child(Draw.JUDGE).spawn(folds.n_folds)
    return fit_with_features(data, verdicts, folds, tune=tune, seeds=seeds, n_jobs=n_jobs)


def cross_fit_mu_and_judge(
    data: PreferenceData,
    folds: Folds,
    verdicts: Verdicts,
    *,
    mu_without_judge: MuSource,
    learner: OutcomeLearner,
    seed: RepetitionSeed,
    n_jobs: int | None,
) -> JudgedMu:
    """P(label | x, verdict), and mu fitted again with its soft labels; supplied probabilities stay as they are."""
    refit = None
    if isinstance(mu_without_judge, CrossFittedMu):
        like = mu_without_judge.models[0]

        def refit(soft: Sequence[Cells]) -> CrossFittedMu:
            return cross_fit_mu(data, folds, learner, seed=seed, n_jobs=n_jobs, soft=soft, like=like)

    rng = np.random.default_rng(seed.child(Draw.JUDGE))
    return cross_fit_judged(data, verdicts, folds, mu_without_judge, refit=refit, rng=rng)


def label_and_judge_propensities(
    data: PreferenceData,
    folds: Folds,
    model: PropensityModel,
    *,
    verdicts: Verdicts | None,
    seed: RepetitionSeed,
    n_jobs: int | None,
) -> tuple[Propensity, FloatArray | None]:
    """Propensities of labels, and of verdicts at the judged cells, (r,), or None without a judge.

    Where labels are some of the judged pairs, their estimated propensity is that of being judged times the share of
    judged pairs that were labelled, which may depend on the verdict.
    """
    if verdicts is None:
        return _propensities(data, folds, model, seed.child(Draw.PROPENSITY), n_jobs), None
    if verdicts.everywhere:
        return _propensities(data, folds, model, seed.child(Draw.PROPENSITY), n_jobs), np.ones(len(verdicts.cells))
    judged = replace(data, cells=verdicts.cells)
    if model.word == "marginal":
        return marginal_propensity(data), marginal_propensity(judged).cells
    estimated = model._replace(propensity="estimate", column=None)
    of_verdicts = _propensities(judged, folds, estimated, seed.child(Draw.JUDGE_PROPENSITY), n_jobs).cells
    within = (verdicts.label >= 0).all() and len(np.unique(verdicts.label)) == len(data.cells)
    if model.word == "estimate" and within:
        share = labelled_share(data, verdicts, folds)
        return floored_and_scaled(of_verdicts[verdicts.label] * share, data), of_verdicts
    return _propensities(data, folds, model, seed.child(Draw.PROPENSITY), n_jobs), of_verdicts


def _propensities(
    data: PreferenceData, folds: Folds, model: PropensityModel, seed: np.random.SeedSequence, n_jobs: int | None
) -> Propensity:
    if model.column:
        return column_propensity(data, model.column)
    if model.word is None:
        table = propensity_table(model.with_columns(data), model.propensity)
        return supplied_propensity(data, table, model.graph, model.zeros_allowed)
    if model.word == "marginal":
        return marginal_propensity(data)
    if model.formula is not None:
        x = selection_features(model.with_columns(data), model.formula, model.source.environment)
        data = replace(data, x=x)
    return estimate_propensity(data, folds, seed.spawn(folds.n_folds), tune=model.tune, n_jobs=n_jobs)
