"""What methods of a result need of it, and the tables that all results share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

from .._utils.argument_checks import checked
from ..exceptions import (
    DataNotStoredError,
    DmlrankError,
    NoIntervalError,
    OptionError,
    listed,
)
from ..fit.estimates import Estimates
from ..fit.method import with_single_votes
from ..fit.state import FitState
from ..inference.wald import NamedEstimates
from ..tables.summary_table import Summarised, Summary


class TitledTable(Summarised):
    """Results whose table may have another title."""

    __slots__ = ()

    def summary(self, title: str | None = None) -> Summary:
        """Return the table for a report.

        Parameters
        ----------
        title : str, optional
            Stands above the table in place of the default title.

        Returns
        -------
        Summary
            It has ``as_text()``, ``as_html()``, ``as_latex()``, ``as_markdown()`` and ``as_csv()``.
        """
        return self._table().with_title(title)

    # The table under its default title.
    _table: Callable[[], Summary]


class ModelTable(Summarised):
    """Results whose table may show some of the models."""

    __slots__ = ()

    def summary(
        self, title: str | None = None, *, models: Sequence[str] | None = None, top: int | None = None
    ) -> Summary:
        """Return the table for a report.

        Parameters
        ----------
        title : str, optional
            Stands above the table in place of the default title.
        models : str or sequence of str, optional
            The models that the table shows, in this order; all when None, or the best 10 for all differences
            between more than 15. A difference is shown where both of its models are.
        top : int, optional
            Number of models that the table shows, those with the highest scores, or the first ones of a table of
            several results. Statements that hold jointly, tests and ranks refer to all models in any case; a note says
            so.

        Returns
        -------
        Summary
            It has ``as_text()``, ``as_html()``, ``as_latex()``, ``as_markdown()`` and ``as_csv()``.
        """
        return self._table(models, top).with_title(title)

    # The table of some models under its default title.
    _table: Callable[[Sequence[str] | None, int | None], Summary]


def named_estimates(estimates: Estimates) -> NamedEstimates:
    """Return the estimates in the form that tests take."""
    e = estimates
    return NamedEstimates(e.estimate, e.covariance, e.names, e.reason, e.sequence)


def have_same_scores(one: Estimates, other: Estimates) -> bool:
    """Return whether an analysis of one result is about the scores of another, perhaps multiplied for a page."""
    factor = other.scale.factor / one.scale.factor
    return one.names == other.names and bool(np.array_equal(factor * one.estimate, other.estimate))


def joined_names(parts: Sequence[Sequence[object]], separator: str) -> list[str]:
    """Join the parts of every name, quoted where they contain the separator, so that the names differ."""
    texts = [tuple(map(str, name_parts)) for name_parts in parts]
    quotations: tuple[Callable[[str], str], ...] = (str, lambda part: repr(part) if separator in part else part, repr)
    names: list[str] = []
    for quote in quotations:
        names = [separator.join(map(quote, name_parts)) for name_parts in texts]
        if len(set(names)) == len(set(texts)):
            break
    return names


Member = TypeVar("Member")


@dataclass(frozen=True, slots=True)
class Needs:
    """What a method needs; a result that lacks it does not have the method, for the reason in the field.

    models: Estimates that are scores of the models.
    unadjusted: Scores that are not those at equal style.
    no_means, means: Scores that are not, or that are, means of scores.
    one_look: A single look.
    drawn: Whether statements follow from critical values, so that a bootstrap view has the method.
    intervals, data: Whether the result needs intervals, or data and learners.
    """

    models: str = ""
    unadjusted: str = ""
    no_means: str = ""
    means: str = ""
    one_look: str = ""
    drawn: bool = False
    intervals: bool = False
    data: bool = False

    def __call__(self, member: Member) -> Member:
        """Declare what a method needs."""
        return cast(Member, Method(checked(member), self))

    def check(self, name: str, result: Any) -> None:
        """Raise the error that says why a result does not have the method of this name, where it does not."""
        e: Estimates = result.estimates
        if self.models and not e.of_models:
            raise OptionError(
                f"{name} {self.models}, and the outputs of this functional ({listed(e.names, 5)}) are not scores of "
                f"models; use conf_int(), t_test() and wald_test() with these names"
            )
        if self.unadjusted and e.style is not None:
            raise OptionError(
                f"{name}() with adjust=EqualStyle(...): {self.unadjusted}; use update(adjust=None).{name}()"
            )
        if self.no_means and e.are_means:
            raise OptionError(f"{name}() with functional='mean': {self.no_means}")
        if self.means and not e.are_means:
            raise OptionError(f"{name}() needs functional='mean', of a table of scores: {self.means}")
        if self.one_look and e.sequence is not None:
            raise OptionError(
                f"{name}() of a sequential view: {self.one_look}; call it on the result that sequential() was called on"
            )
        if not self.drawn and result.simultaneous.multipliers is not None:
            raise OptionError(
                f"{name} of a bootstrap view: it does not depend on the draws of the bootstrap; call it on the result "
                f"that bootstrap() was called on"
            )
        if self.intervals:
            require_intervals(e, name)
        if self.data and result.steps is None:
            raise not_stored(e, name)


class Method:
    """A method that a result has only if it has what the method needs."""

    def __init__(self, member: Any, needs: Needs) -> None:
        self.member, self.needs, self.__doc__ = member, needs, member.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, result: Any, owner: type) -> Any:
        try:
            if result is not None:
                self.needs.check(self.name, result)
        except DmlrankError as error:
            # An attribute error, too, so that hasattr and tools that look through attributes find no method.
            kind = type(error)
            described = {"__module__": kind.__module__, "__doc__": kind.__doc__}
            raise type(kind.__name__, (kind, AttributeError), described)(*error.args) from None
        return self.member.__get__(result, owner)


# Fields of results that other modules of the package read; users have methods for what they hold.
_INTERNAL = ("estimates", "steps", "simultaneous")


def members(result: Any) -> list[str]:
    """Return the names of the attributes that a result has for its users."""
    declared = [name for name, value in vars(type(result)).items() if isinstance(value, Method)]
    missing = {name for name in declared if not hasattr(result, name)}
    return sorted(set(object.__dir__(result)) - missing - set(_INTERNAL))


def require_intervals(estimates: Estimates, method: str) -> None:
    """Check that the estimates have intervals."""
    if not estimates.has_intervals:
        raise NoIntervalError(f"{method}: this result is an estimate without intervals: {estimates.why_no_intervals}")


def require_steps(estimates: Estimates, state: FitState | None, method: str) -> FitState:
    """Return the state of the fit, with votes one by one, for a method that needs data or learners."""
    if state is None:
        raise not_stored(estimates, method)
    return with_single_votes(state, method)


def not_stored(estimates: Estimates, method: str) -> DataNotStoredError:
    """Return the error of a method that needs data or learners, of a result without them."""
    if estimates.part:
        return DataNotStoredError(
            f"{method} needs data and learners, and a result of a part of the prompts ({estimates.part}) has none; use "
            f"the result of the whole fit"
        )
    return DataNotStoredError(
        f"{method} needs the data and learners of the fit, and this result was stored without them; fit again"
    )
