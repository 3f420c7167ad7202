"""The estimators: what each assumes and needs; options that an estimator or derived pairs have no use for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import TypeVar

import numpy as np

from ..data.derived_pairs import DerivedPairs
from ..data.formula.parse import SHAPE_OF_SCORES
from ..data.pairs_from_scores import require_comparison
from ..data.preferences import FloatArray
from ..estimation.influence import InfluenceFunction, mean_influence
from ..exceptions import OptionError, listed, shown
from ..functionals import Borda, BradleyTerry, functional_from, of_scores
from ..functionals.linear_scores import MeanScore
from ..options import OPTIONS, Options, in_its_place, one_by_one

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Estimator:
    """An estimator of the scores; the defaults describe the debiased (one-step) estimator.

    name: The word of ``estimator=``.
    has_first_stages: Whether the estimator learns mu and pi; without them it uses the votes, or scores, alone.
    why_no_intervals: Why there are no confidence intervals, and the call of ``update`` that gives some; else empty.
    is_debiased: Whether the bias of the mean of F(mu) is corrected by the residuals of the labels.
    assumes_bradley_terry: Whether a Bradley-Terry model is assumed; its scores are then the only ones.
    needs_all_propensities: Whether the propensities of unlabelled pairs are needed, too.
    label_suffix: Addition to the functional's label, in brackets; empty for none.
    uses_features: Whether the estimate depends on the features of the formula; of means, only missing scores do.
    why_not_by_group: Why the estimator gives no scores by group or projection; empty where it does.
    why_unused: Why the estimator does not use an option.
    why_unused_by_option: Other reasons, by the name of the option.
    """

    name: str
    has_first_stages: bool = True
    why_no_intervals: str = ""
    is_debiased: bool = True
    assumes_bradley_terry: bool = False
    needs_all_propensities: bool = False
    label_suffix: str = ""
    uses_features: bool = True
    why_not_by_group: str = ""
    why_unused: str = ""
    why_unused_by_option: tuple[tuple[str, str], ...] = ()

    @property
    def is_unrestricted_one_step(self) -> bool:
        """Whether it is the one-step estimator of the functional, with labels missing at random and no other model."""
        return self.has_first_stages and self.is_debiased and not self.assumes_bradley_terry

    @property
    def modes(self) -> frozenset[str]:
        """What the estimator is, in the words by which facts (``report/facts.py``) say of which fits they hold."""
        holds = {
            "learnt": self.has_first_stages,
            "likelihood": not self.has_first_stages and self is not MEANS,
            "means": self is MEANS,
            "corrected": self.has_first_stages and self.is_debiased,
            "assumes": self.assumes_bradley_terry,
            "contextual": not self.has_first_stages and self.uses_features,
            "one-step": self.is_unrestricted_one_step,
        }
        return frozenset(mode for mode, is_so in holds.items() if is_so)

    def check_options(self, given: Mapping[str, object]) -> None:
        """Raise where an option that the estimator does not use was given and differs from its default."""
        single = one_by_one(given)
        functional = single.get("functional", "bt")
        is_default = isinstance(functional, str) and functional in ("auto", "borda")
        if self.assumes_bradley_terry and not is_default and not _is_bradley_terry(functional):
            raise OptionError(
                f"functional={functional!r} was given with estimator={self.name!r}, which has Bradley-Terry scores "
                f"only; use functional='bt', or estimator='debiased'"
            )
        for name, value in single.items():
            if self.name not in OPTIONS[name].used_by and not OPTIONS[name].is_default(value):
                value_text = repr(value) if isinstance(value, str | Real) else f"a {type(value).__name__}"
                if OPTIONS[name].used_by == (MEANS.name,):
                    raise OptionError(f"{name}= is for means of a table of scores (functional='mean'); leave it out")
                beside = "a functional of scores" if self is MEANS else f"estimator={self.name!r}"
                reason = dict(self.why_unused_by_option).get(name, self.why_unused)
                other = ", or use estimator='debiased'" if self.has_first_stages else ""
                shown_value = in_its_place(name, value_text)
                raise OptionError(f"{shown_value} was given with {beside}: {reason}; leave {name} out{other}")

    def functional(self, option: T) -> T | str:
        """Return what is estimated with ``functional=option``: Bradley-Terry scores where these are assumed."""
        return BradleyTerry.name if self.assumes_bradley_terry and not _is_bradley_terry(option) else option

    def average(self, influences: Sequence[InfluenceFunction]) -> InfluenceFunction:
        """Return the mean influence over repetitions; the bias correction is left out if the estimator has none."""
        if len(influences) == 1:
            influence = influences[0]
        else:
            influence = mean_influence([influence.by_context() for influence in influences])
        return influence if self.is_debiased else influence.by_context().without_correction()

    def estimates(self, influences: Sequence[InfluenceFunction]) -> FloatArray:
        """Return the estimates of all repetitions, (R, d)."""
        return np.stack([one.estimate if self.is_debiased else one.plugin for one in influences])


def _is_bradley_terry(functional: object) -> bool:
    """Whether the option asks for Bradley-Terry scores."""
    return functional == BradleyTerry.name or isinstance(functional, BradleyTerry)


DEBIASED = Estimator("debiased")
PLUGIN = Estimator(
    "plugin",
    why_no_intervals="the plug-in estimate is not debiased, so that standard errors would leave out the learner's "
    "error; update(estimator='debiased') has intervals",
    is_debiased=False,
    why_unused="the adjustment is a one-step estimate, which corrects the learner's error by the labels",
)
BT_RESTRICTED = Estimator(
    "bt_restricted",
    assumes_bradley_terry=True,
    needs_all_propensities=True,
    label_suffix="Bradley-Terry assumed",
    why_unused="this estimator is a sum over human labels and cannot use verdicts",
    why_unused_by_option=(
        ("adjust", "this estimator has no slopes on style"),
        ("average", "a Bradley-Terry model of every prompt does not hold for preferences averaged over prompts"),
    ),
)
BT_MLE = Estimator(
    "bt_mle",
    has_first_stages=False,
    assumes_bradley_terry=True,
    label_suffix="maximum likelihood",
    uses_features=False,
    why_not_by_group="maximum likelihood scores are not means over prompts, so that they cannot be divided by group",
    why_unused="this estimator has no first stages and counts every vote",
)

BT_CONTEXTUAL = Estimator(
    "bt_contextual",
    has_first_stages=False,
    assumes_bradley_terry=True,
    label_suffix="contextual, maximum likelihood",
    why_unused="this estimator has no first stages, counts every vote and averages over all prompts",
)

# What estimates functional="mean" of scores; no word of the option estimator=.
MEANS = Estimator(
    "means",
    has_first_stages=False,
    uses_features=False,
    why_unused="means of scores have no first stages and compare no pairs",
)

_ALL = (DEBIASED, PLUGIN, BT_RESTRICTED, BT_MLE, BT_CONTEXTUAL, MEANS)
_BY_NAME = {estimator.name: estimator for estimator in _ALL}


def estimator_named(name: str) -> Estimator:
    """Return the estimator of a name."""
    return _BY_NAME[name]


def estimator_of(options: Options) -> Estimator:
    """Return the estimator of a fit: that of the options, or the means of scores."""
    return MEANS if options.of_scores and options.estimator == DEBIASED.name else estimator_named(options.estimator)


# Options that concern votes by people, and why they have no meaning for pairs derived from scores or rankings.
_VOTE_OPTIONS = {
    "categories": "the label of such a pair follows from two scores or ranks",
    "judge": "verdicts of a judge are combined with labels by people, and these pairs have none",
    "adjust": "such a pair shows no two answers to a person whom style could impress",
}


def options_for(data: object, options: Options, given: Mapping[str, object]) -> Options:
    """Return the options of a fit to these data, after a check that its estimator uses the options that were given.

    Options of an earlier fit that the estimator of an update does not use stay for a later one.
    """
    if not isinstance(options.functional, str):
        functional_from(options.functional)
    derived = data if isinstance(data, DerivedPairs) else None
    if derived is not None:
        options = _for_derived_pairs(options, derived)
    is_table = derived is not None and derived.kind == "scores" and derived.runs is not None
    if isinstance(options.functional, str) and options.functional == "auto":
        is_mean = is_table and options.estimator == DEBIASED.name
        options = replace(options, functional=MeanScore.name if is_mean else Borda.name)
    options = replace(options, functional=of_scores(options.functional))
    if options.of_scores:
        name = options.functional.name
        if derived is None or derived.kind != "scores":
            what = "votes" if derived is None else "ranks"
            raise OptionError(
                f"functional={name!r} is a mean of scores, and these data are {what}; use functional='borda', or a "
                f"formula of scores ({SHAPE_OF_SCORES!r})"
            )
        if derived.lower_wins:
            raise OptionError(
                f"functional={name!r} was given with comparisons in which the smaller {derived.number!r} wins; fit the "
                f"table itself, {SHAPE_OF_SCORES!r} with lower_is_better=True, or use functional='borda'"
            )
        if options.lower_is_better and name != MeanScore.name:
            raise OptionError(
                f"lower_is_better=True was given with {name}, which counts runs that succeed (1); leave it out"
            )
        if options.estimator != DEBIASED.name and not estimator_named(options.estimator).assumes_bradley_terry:
            raise OptionError(
                f"functional={name!r} was given with estimator={options.estimator!r}: leave estimator out"
            )
    if options.lower_is_better and estimator_of(options) is not MEANS:
        raise OptionError("lower_is_better=True is for means of a table of scores (functional='mean'); leave it out")
    estimator_of(options).check_options(given)
    return options


def _for_derived_pairs(options: Options, data: DerivedPairs) -> Options:
    """Return the options of a fit to derived pairs, after a check of the options that have no meaning for them."""
    for name, reason in _VOTE_OPTIONS.items():
        value = getattr(options, name)
        is_mean = options.functional in ("auto", MeanScore.name) or isinstance(options.functional, MeanScore)
        has_grades = name == "judge" and data.runs is not None and is_mean
        if not OPTIONS[name].is_default(value) and not has_grades:
            raise OptionError(
                f"{name}={shown(value)} has no meaning for pairs from scores or rankings: {reason}; leave {name} out"
            )
    if options.context and set(options.context) != set(data.prompt):
        raise OptionError(
            f"context= names {listed(options.context)}, and pairs are of {', '.join(data.prompt)}; leave context= out"
        )
    # One model alone has a mean, and a judge compares models on different prompts.
    if options.judge is None and not (len(data.models) == 1 and np.isfinite(data.values).any()):
        require_comparison(data)
    if options.run != data.run:
        raise OptionError(
            f"run={options.run!r} differs from the column of runs that was read ({data.run!r}); fit the table with run="
        )
    if options.position_bias is True:
        raise OptionError(
            "position_bias=True is not possible: pairs from scores or rankings have no display order; leave it out"
        )
    return replace(options, context=tuple(data.prompt), position_bias=False)
