"""What the steps of a fit make, and the memory that lets a later fit reuse it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from patsy import EvalEnvironment

from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..data.read_clusters import Clusters
from ..estimation.bt_mle import BradleyTerryFit
from ..estimation.cross_fitting import Folds, MuSource
from ..estimation.diagnostics import Validity
from ..estimation.grouped import GroupedInfluence
from ..estimation.influence import (
    Influence,
    InfluenceBlocks,
    JudgeCorrection,
    blocks_by_context,
    blocks_by_group,
    mean_influence,
)
from ..estimation.one_step import OneStepResult
from ..exceptions import DmlrankWarning, OptionError, check_choice
from ..inference.covariance import Centred, Covariance, independent_rows, one_way, robust, two_way, two_way_contexts
from ..inference.resampling import MULTIPLIERS, MultiplierNoise
from ..nuisance.boosting.random_search import RandomSearch
from ..nuisance.judge.verdicts import Verdicts
from ..nuisance.propensity_model.estimate import Propensity
from ..options import Options
from .estimand import Setup

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """What the user handed in: formula, frame and the namespace of the call."""

    formula: str
    data: Any
    environment: EvalEnvironment


@dataclass(frozen=True, slots=True, eq=False)
class Repetition:
    """One deal of folds, the first stages cross-fitted on it, and the pass over their probabilities.

    ``alone`` is mu without what a judge told it, ``judged`` what verdicts add to the correction, ``rho`` the
    propensities of the verdicts.
    """

    folds: Folds
    mu: MuSource
    propensity: Propensity
    evaluated: OneStepResult
    floor: float = 0.0
    sample: IntArray | None = None
    alone: MuSource | None = None
    judged: JudgeCorrection | None = None
    rho: FloatArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """What every step of a fit has made.

    ``likelihood`` is there for maximum likelihood only; folds and propensity then say that there are none.
    """

    options: Options
    source: Source
    data: PreferenceData
    dropped: tuple[str, ...]
    setup: Setup
    clusters: Clusters | None
    context_weight: FloatArray | None
    blocks: InfluenceBlocks
    annotator: IntArray | None
    repetitions: tuple[Repetition, ...]
    influence: Influence | GroupedInfluence
    covariance: Covariance
    memory: dict[str, Made] = field(repr=False)
    likelihood: BradleyTerryFit | None = None
    validity: Validity | None = None
    verdicts: Verdicts | None = None

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
    def evaluated(self) -> OneStepResult:
        """The pass of the first repetition."""
        return self.repetitions[0].evaluated

    def influence_of(self, score: int) -> Influence | GroupedInfluence:
        """Influence of one of the scores of the passes, averaged over repetitions, not debiased for the plug-in."""
        return averaged([r.evaluated.influences[score] for r in self.repetitions], self.options.estimator)


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """What a step made, from what, and the warnings it gave."""

    sources: tuple[Any, ...]
    result: Any
    warnings: tuple[str, ...]


class Memory:
    """Results of steps under their names."""

    def __init__(self, previous: dict[str, Made] | None) -> None:
        self._previous = previous or {}
        self.made: dict[str, Made] = {}

    @property
    def kept(self) -> dict[str, Made]:
        """What was made now, and what other steps made before."""
        return {**self._previous, **self.made}

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


def influence_blocks(
    data: PreferenceData, clusters: Clusters | None, verdicts: Verdicts | None = None
) -> tuple[InfluenceBlocks, IntArray | None]:
    """Blocks of the correction, and the annotator of each where annotators are clusters; verdicts are nobody's."""
    if clusters is None or clusters.annotator is None:
        return blocks_by_context(data), None
    return blocks_by_group(data, clusters.annotator, verdicts.cells.context if verdicts else None)


def averaged(influences: Sequence[Influence | GroupedInfluence], estimator: str) -> Influence | GroupedInfluence:
    """The mean over repetitions, as the estimator sees it: the plug-in leaves the correction out."""
    one = len(influences) == 1
    influence = influences[0] if one else mean_influence([influence.by_context() for influence in influences])
    return influence.without_correction() if estimator == "plugin" else influence


def make_covariance(
    influence: Influence | GroupedInfluence,
    gauge: FloatArray,
    clusters: Clusters | None,
    annotator: IntArray | None,
    o: Options,
    repeated: Sequence[Influence | GroupedInfluence] = (),
) -> Covariance:
    """Covariance of an estimate, of the kind that the options ask for."""
    if o.prompts == "fixed":
        influence = influence.given_prompts()
    covariance = clustered(influence, gauge, clusters, annotator)
    if influence.variance_correction is not None:
        covariance = covariance.at_least(influence.variance_correction / influence.n_contexts)
    if len(repeated) > 1:
        estimates = np.stack([r.plugin if o.estimator == "plugin" else r.estimate for r in repeated])
        covariance = covariance.between_repetitions(estimates)
    return covariance


def clustered(
    influence: Centred | GroupedInfluence, gauge: FloatArray, clusters: Clusters | None, annotator: IntArray | None
) -> Covariance:
    """Covariance with the independence that the clusters leave."""
    if clusters is None:
        return robust(influence, gauge)
    if isinstance(influence, GroupedInfluence) and clusters.other is None and annotator is None:
        return one_way(influence, clusters.prompt, gauge)
    influence = influence.by_context() if isinstance(influence, GroupedInfluence) else influence
    if annotator is not None:
        return two_way(influence, clusters.prompt, annotator, gauge)
    if clusters.other is not None:
        return two_way_contexts(influence, clusters.prompt, clusters.other, gauge)
    return one_way(influence, clusters.prompt, gauge)


def multiplier_noise(steps: Steps, kind: str, factor: float, seed: int) -> MultiplierNoise:
    """Bootstrap draws from the independent units of the fit's covariance.

    Parameters
    ----------
    steps : Steps
    kind : str
        Kind of multipliers.
    factor : float
        Of the unit in which scores are shown.
    seed : int

    Raises
    ------
    OptionError
        If clusters are two-way, so that there are no independent units.
    """
    clusters, influence = steps.clusters, steps.influence
    check_choice(kind, MULTIPLIERS, "bootstrap")
    if clusters is not None and len(clusters.names) > 1:
        raise OptionError(
            f"bootstrap={kind!r} multiplies independent units, and with clusters of {' and '.join(clusters.names)} "
            f"there are none: their covariance is a difference, V_1 + V_2 - V_12, which no multipliers have; use "
            f"bootstrap=None, or update(cov_kwds={{'groups': {clusters.names[0]!r}}})"
        )
    if steps.options.prompts == "fixed":
        influence = influence.given_prompts()
    rows, small_sample = independent_rows(influence.by_context(), clusters.prompt if clusters else None)
    rows = rows * factor
    # What the covariance has beyond its units: other deals of folds, the correction for a shrunken mu.
    added = steps.covariance.matrix * factor**2 - small_sample * rows.T @ rows
    return MultiplierNoise(rows, small_sample, added, kind, seed)


def _same(old: tuple[Any, ...], new: tuple[Any, ...]) -> bool:
    return len(old) == len(new) and all(_equal(a, b) for a, b in zip(old, new, strict=True))


def _equal(a: Any, b: Any) -> bool:
    """Whether two sources are the same thing; arrays and objects are by identity, plain values by value."""
    plain = (str, int, float, bool, dict, RandomSearch, type(None))
    if isinstance(a, tuple) and isinstance(b, tuple):
        return _same(a, b)
    return a is b or (isinstance(a, plain) and isinstance(b, plain) and a == b)
