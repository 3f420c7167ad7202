"""The estimators: what each assumes, what it needs, and what it makes of the one-step estimator's influence values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from ..data.preferences import FloatArray
from ..estimation.bt_restricted import check_restricted_categories
from ..estimation.influence import InfluenceFunction, mean_influence
from ..exceptions import OptionError
from ..functionals import CategoryWeights
from ..options import OPTIONS, Options, change_options, read_options


@dataclass(frozen=True, slots=True)
class Estimator:
    """A way to estimate the scores; this one is the debiased (one-step) estimator.

    Attributes
    ----------
    name : str
        The word of ``estimator=``.
    has_first_stages : bool
        Whether it cross-fits mu and pi; an estimator without them comes from the votes alone.
    why_no_intervals : str
        Why its estimates have no confidence intervals, and what has some; empty where they have.
    is_debiased : bool
        Whether F(mu) is corrected, so that its validity can be judged by what the correction leaves.
    assumes_bradley_terry : bool
        Whether it estimates the scores of a Bradley-Terry model, and no other functional.
    needs_all_propensities : bool
        Whether it needs the propensities of all pairs of a context, not those of the labelled pairs alone.
    label_suffix : str
        What is added to the functional's label.
    why_not_by_group : str
        Why it gives no scores by group or projection; empty where it does.
    plan_estimator : str
        The estimator that a plan for further labels is made for.
    why_bradley_terry : str
        In an error: what makes Bradley-Terry scores the only ones.
    why_unused : str
        In an error: ``{option}``, an option that it does not use, given as ``{shown}``.
    """

    name: str
    has_first_stages: bool = True
    why_no_intervals: str = ""
    is_debiased: bool = True
    assumes_bradley_terry: bool = False
    needs_all_propensities: bool = False
    label_suffix: str = ""
    why_not_by_group: str = ""
    plan_estimator: str = "debiased"
    why_bradley_terry: str = ""
    why_unused: str = ""

    @property
    def valid_intervals(self) -> bool:
        """Whether its confidence intervals hold."""
        return not self.why_no_intervals

    @property
    def has_restriction_test(self) -> bool:
        """Whether the model that it assumes can be tested against the same first stages without it."""
        return self.assumes_bradley_terry and self.has_first_stages

    @property
    def unused_options(self) -> tuple[str, ...]:
        """Options that it does not use.

        Examples
        --------
        >>> estimator_named("bt_restricted").unused_options
        ('judge',)
        """
        return tuple(option.name for option in OPTIONS.values() if self.name not in option.used_by)

    def check_options(self, given: Mapping[str, object]) -> None:
        """Raise where an option is given, and not at its default, that the estimator does not use.

        Parameters
        ----------
        given : mapping
            Options by name, as the caller gave them.

        Raises
        ------
        OptionError
            For such an option, or a functional that it does not estimate.

        Examples
        --------
        >>> estimator_named("bt_mle").check_options({"functional": "bt", "n_folds": 5})
        """
        functional = given.get("functional", "bt")
        default = isinstance(functional, str) and functional == OPTIONS["functional"].default
        if self.assumes_bradley_terry and not default and not _is_bradley_terry(functional):
            raise OptionError(
                f"functional={functional!r} with estimator={self.name!r}: {self.why_bradley_terry} Bradley-Terry "
                f"scores; allowed is functional='bt' (estimator='debiased' estimates every functional)"
            )
        for name in self.unused_options:
            value = given.get(name, OPTIONS[name].default)
            if not OPTIONS[name].is_default(value):
                shown = repr(value) if isinstance(value, str | Real) else f"a {type(value).__name__}"
                raise OptionError(self.why_unused.format(option=name, shown=shown))

    def functional_label(self, label: str) -> str:
        """The functional's label with what the estimator assumes.

        Examples
        --------
        >>> estimator_named("bt_mle").functional_label("bt")
        'bt (maximum likelihood)'
        """
        return f"bt ({self.label_suffix})" if self.label_suffix else label

    def functional(self, asked: Any) -> Any:
        """The functional that is estimated where ``asked`` is the option of the fit.

        An estimator that assumes Bradley-Terry has the model's scores, whatever an earlier fit was asked for.

        Examples
        --------
        >>> estimator_named("bt_restricted").functional("borda")
        'bt'
        """
        return "bt" if self.assumes_bradley_terry and not _is_bradley_terry(asked) else asked

    def check_outcomes(self, weights: CategoryWeights, categories: Sequence[str]) -> None:
        """Raise where the categories of the outcome, or what they count, are none that it can use."""
        if self.needs_all_propensities:
            check_restricted_categories(weights, tuple(categories))

    def estimate(self, influence: InfluenceFunction) -> FloatArray:
        """The estimate from the influence values of one repetition, (d,)."""
        return influence.estimate if self.is_debiased else influence.plugin

    def average(self, influences: Sequence[InfluenceFunction]) -> InfluenceFunction:
        """The mean over repetitions with other folds, without the correction where the estimator has none."""
        one = len(influences) == 1
        influence = influences[0] if one else mean_influence([influence.by_context() for influence in influences])
        return influence if self.is_debiased else influence.without_correction()

    def estimates(self, influences: Sequence[InfluenceFunction]) -> FloatArray:
        """The estimates of all repetitions, (R, d)."""
        return np.stack([self.estimate(influence) for influence in influences])


def _is_bradley_terry(functional: Any) -> bool:
    """Whether the option asks for Bradley-Terry scores."""
    if isinstance(functional, str):
        return functional == "bt"
    return not isinstance(functional, type) and getattr(functional, "name", "") == "bt"


DEBIASED = Estimator("debiased")
PLUGIN = Estimator(
    "plugin",
    why_no_intervals="the plug-in estimate is not debiased, so that it has the learner's error, which no standard "
    "error knows; update(estimator='debiased') has intervals",
    is_debiased=False,
)
BT_RESTRICTED = Estimator(
    "bt_restricted",
    assumes_bradley_terry=True,
    needs_all_propensities=True,
    label_suffix="model assumed",
    plan_estimator="bt_restricted",
    why_bradley_terry="the restricted model has",
    why_unused="{option}= with estimator='bt_restricted': the restricted estimator is a sum over human labels and has "
    "no place for verdicts; estimator='debiased' uses them",
)
BT_MLE = Estimator(
    "bt_mle",
    has_first_stages=False,
    assumes_bradley_terry=True,
    label_suffix="maximum likelihood",
    why_not_by_group="maximum likelihood scores are no means over prompts, so that groups have no share in them",
    why_bradley_terry="maximum likelihood estimates",
    why_unused="{option}={shown} with estimator='bt_mle': it has no first stages and counts every vote, so that "
    "{option} is not used; leave it out",
)

_BY_NAME = {estimator.name: estimator for estimator in (DEBIASED, PLUGIN, BT_RESTRICTED, BT_MLE)}


def estimator_named(name: str) -> Estimator:
    """The estimator of a name.

    Parameters
    ----------
    name : {"debiased", "plugin", "bt_restricted", "bt_mle"}
    """
    return _BY_NAME[name]


def options_of_fit(given: Mapping[str, object]) -> Options:
    """Options from what :func:`dmlrank.dml_rank` was called with, which its estimator can use.

    Raises
    ------
    OptionError, OptionTypeError
        If an option cannot be used.
    """
    options = read_options(given)
    estimator_named(options.estimator).check_options(given)
    return options


def options_of_update(options: Options, changes: Mapping[str, object]) -> Options:
    """The options of an earlier fit with some of them replaced, which its estimator can use.

    What the earlier fit was made with may stay: it is used again when the estimator is changed back.

    Raises
    ------
    OptionError, OptionTypeError
        If there is no such option, or it cannot be used.
    """
    changed = change_options(options, changes)
    estimator_named(changed.estimator).check_options(changes)
    return changed
