"""The first stages of a repetition: cross-fitted mu, without and with a judge, and the propensities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from ..data.graph import Graph
from ..data.preferences import Cells, FloatArray, PreferenceData
from ..data.read_votes import with_columns
from ..estimation.cross_fitting import CrossFittedMu, MuSource
from ..estimation.folds import fold_key
from ..estimation.judge import FeatureMu, JudgedMu, cross_fit_judged, fit_with_features
from ..nuisance.boosting.tuning import Tune
from ..nuisance.outcome_model.cross_fit import MuModel, fit_all
from ..nuisance.outcome_model.user_learners import is_user_learner
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
from .state import Source


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


class OutcomeLearner(NamedTuple):
    """The learner of mu and how it is tuned.

    tune: How LightGBM is tuned; None where the learner is the user's own.
    """

    learner: object
    tune: Tune

    @classmethod
    def of(cls, options: Options) -> OutcomeLearner:
        """Return the learner that the options ask for."""
        return cls(options.learner, None if is_user_learner(options.learner) else options.tune)


class PropensityModel(NamedTuple):
    """How the propensities of a fit are obtained: estimated, or supplied in some form.

    propensity: As in :func:`dmlrank.dml_rank`.
    column: The column that holds propensities; None where they come from elsewhere.
    formula: Features of an estimated propensity; None for those of the fit's formula.
    tune: How LightGBM is tuned.
    graph: The compared pairs.
    zeros_allowed: Whether a supplied propensity may be 0 at a compared pair without a label.
    source: The frame whose columns a formula and supplied propensities use.
    """

    propensity: object
    column: str | None
    formula: str | None
    tune: Tune
    graph: Graph
    zeros_allowed: bool
    source: Source

    @classmethod
    def of(cls, options: Options, graph: Graph, source: Source, *, needs_all_propensities: bool) -> PropensityModel:
        """Return the propensity model that the options of a fit ask for."""
        return cls(
            "estimate" if options.estimates_propensity else options.propensity,
            options.propensity_column,
            options.propensity_formula,
            options.tune,
            graph,
            needs_all_propensities and not isinstance(options.propensity, str),
            source,
        )

    @property
    def word(self) -> str | None:
        """The option if it is a text: ``"estimate"``, ``"marginal"`` or a column's name; None for any other value."""
        return self.propensity if isinstance(self.propensity, str) else None

    def with_columns(self, data: PreferenceData) -> PreferenceData:
        """Return the data with the columns that the formula or function needs.

        A first fit has read these columns together with the votes. Only an update may have to read them here.
        """
        return with_columns(data, self.source.data, propensity_columns(self.formula or self.propensity))


def cross_fit_mu(
    data: PreferenceData,
    folds: Folds,
    learner: OutcomeLearner,
    *,
    seed: RepetitionSeed,
    soft: Sequence[Cells] | None = None,
    like: MuModel | None = None,
) -> CrossFittedMu:
    """Fit mu by fold, on the labels of the other folds."""
    seeds = seed.child(Draw.MU).spawn(folds.n_folds)
    models = fit_all(data, folds, seeds, tune=learner.tune, learner=learner.learner, soft=soft, like=like)
    return CrossFittedMu(models, folds, data.x)


def cross_fit_mu_with_verdicts(
    data: PreferenceData,
    folds: Folds,
    verdicts: Verdicts,
    *,
    tune: Tune,
    seed: RepetitionSeed,
) -> FeatureMu:
    """Fit mu with verdicts among the features, one booster per fold."""
    seeds = seed.child(Draw.JUDGE).spawn(folds.n_folds)
    return fit_with_features(data, verdicts, folds, tune=tune, seeds=seeds)


def cross_fit_mu_and_judge(
    data: PreferenceData,
    folds: Folds,
    verdicts: Verdicts,
    *,
    mu_without_judge: MuSource,
    learner: OutcomeLearner,
    seed: RepetitionSeed,
) -> JudgedMu:
    """Fit P(label | x, verdict), then fit mu again with the predictions of this model as further labels."""
    refit = None
    if isinstance(mu_without_judge, CrossFittedMu):
        like = mu_without_judge.models[0]

        def refit(soft: Sequence[Cells]) -> CrossFittedMu:
            return cross_fit_mu(data, folds, learner, seed=seed, soft=soft, like=like)

    rng = np.random.default_rng(seed.child(Draw.JUDGE))
    return cross_fit_judged(data, verdicts, folds, mu_without_judge, refit=refit, rng=rng)


def label_and_judge_propensities(
    data: PreferenceData,
    folds: Folds,
    model: PropensityModel,
    *,
    verdicts: Verdicts | None,
    seed: RepetitionSeed,
    propensities: Callable[..., Propensity] | None = None,
) -> tuple[Propensity, FloatArray | None]:
    """Return the propensities of labels, and those of verdicts at the judged cells, (r,) (None without a judge).

    If only judged pairs were labelled, the estimated propensity of a label is the propensity of a verdict times the
    estimated share of judged pairs that were labelled. This share may depend on the verdict.
    """
    at_cells = propensities_of_cells if propensities is None else propensities
    label_seed = seed.child(Draw.PROPENSITY)
    if verdicts is None:
        return at_cells(data, folds, model, seed=label_seed), None
    # Verdicts on all pairs of all contexts have the propensity 1.
    if verdicts.covers_all_pairs:
        return at_cells(data, folds, model, seed=label_seed), np.ones(len(verdicts.cells))
    judged = replace(data, cells=verdicts.cells)
    if model.word == "marginal":
        return marginal_propensity(data), marginal_propensity(judged).cells
    estimated = model._replace(propensity="estimate", column=None)
    judge_seed = seed.child(Draw.JUDGE_PROPENSITY)
    of_verdicts = at_cells(judged, folds, estimated, seed=judge_seed).cells
    only_judged_labelled = (verdicts.label >= 0).all() and len(np.unique(verdicts.label)) == len(data.cells)
    if model.word == "estimate" and only_judged_labelled:
        share = labelled_share(data, verdicts, folds)
        return floored_and_scaled(of_verdicts[verdicts.label] * share, data), of_verdicts
    return at_cells(data, folds, model, seed=label_seed), of_verdicts


def propensities_of_cells(
    data: PreferenceData, folds: Folds, model: PropensityModel, *, seed: np.random.SeedSequence
) -> Propensity:
    """Return the propensities of the data's cells."""
    if model.column:
        return column_propensity(data, model.column)
    if model.word is None:
        table = propensity_table(model.with_columns(data), model.propensity)
        return supplied_propensity(data, table, model.graph, model.zeros_allowed)
    if model.word == "marginal":
        return marginal_propensity(data)
    if model.formula is not None:
        x = propensity_features(model.with_columns(data), model.formula, model.source.environment)
        data = replace(data, x=x)
    return estimate_propensity(data, folds, seed.spawn(folds.n_folds), tune=model.tune)
