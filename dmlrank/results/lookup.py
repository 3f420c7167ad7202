"""Models and estimates of a result by name, and what a question needs of the result."""

from __future__ import annotations

from collections.abc import Sequence

from ..exceptions import DataNotStoredError, NoIntervalError, OptionError, UnknownModelError, listed, nearest
from ..fit.estimates import Estimates
from ..fit.state import FitSteps
from ..inference.wald import NamedEstimates


def named_estimates(estimates: Estimates) -> NamedEstimates:
    """The estimates as tests take them."""
    return NamedEstimates(estimates.estimate, estimates.covariance, estimates.names, estimates.reason)


def model_index(models: Sequence[str], model: str) -> int:
    """Place of a model among those that were ranked.

    Raises
    ------
    UnknownModelError
        If it is not among them.
    """
    if model not in models:
        raise UnknownModelError(f"no model {model!r} was ranked{nearest(model, models)} (models: {listed(models, 25)})")
    return models.index(model)


def estimate_index(estimates: Estimates, name: str) -> int:
    """Place of an estimate: of a model, or of an output of the user's own functional.

    Raises
    ------
    UnknownModelError
        If there is none of this name.
    """
    if estimates.of_models:
        return model_index(estimates.models, name)
    known = estimates.names
    if name not in known:
        raise UnknownModelError(
            f"{name!r} is not an output of this functional{nearest(name, known)} (outputs: {listed(known, 25)})"
        )
    return known.index(name)


def names_or_all(names: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """The names that a user gives, one or several, or all that there are."""
    return list(known) if names is None else [names] if isinstance(names, str) else list(names)


def joined_names(parts: Sequence[Sequence[object]], separator: str) -> list[str]:
    """Names made of parts, all different where the parts are.

    Where two names would be the same, parts that hold the separator stand in quotes.

    Examples
    --------
    >>> joined_names([("a", "b"), ("a", "c")], ", ")
    ['a, b', 'a, c']
    >>> joined_names([("a, b", "c"), ("a", "b, c")], ", ")
    ["'a, b', c", "a, 'b, c'"]
    """
    texts = [tuple(map(str, each)) for each in parts]
    ways = (
        lambda part: part,
        lambda part: repr(part) if separator in part else part,
        repr,
    )
    names: list[str] = []
    for way in ways:
        names = [separator.join(map(way, each)) for each in texts]
        if len(set(names)) == len(set(texts)):
            break
    return names


def require_models(estimates: Estimates, method: str, why: str = "is about an order of models") -> None:
    """Check that the estimates are scores of the models.

    Raises
    ------
    OptionError
        If they are outputs of the user's own functional.
    """
    if not estimates.of_models:
        raise OptionError(
            f"{method} {why}, and this functional's outputs ({listed(estimates.names, 5)}) are no "
            f"scores of models; use conf_int(), t_test() and wald_test() by these names, or fit a functional with "
            f"one score per model"
        )


def require_intervals(estimates: Estimates, method: str) -> None:
    """Check that the estimates have standard errors that hold.

    Raises
    ------
    NoIntervalError
        If they are estimates alone, with the reason.
    """
    if not estimates.has_intervals:
        raise NoIntervalError(f"{method}: this result is an estimate without intervals: {estimates.why_no_intervals}")


def require_steps(estimates: Estimates, steps: FitSteps | None, method: str) -> FitSteps:
    """The steps of the fit, for a method that needs them.

    Raises
    ------
    DataNotStoredError
        If the result has none: it is a view of a part of the fit, or was stored without its data.
    """
    if steps is None and estimates.part:
        raise DataNotStoredError(
            f"{method} needs the data and learners of the fit, and this is a view of {estimates.part}; ask "
            f"the whole result"
        )
    if steps is None:
        raise DataNotStoredError(
            f"{method} needs the data and learners of the fit, and this result was stored without them; fit again"
        )
    return steps
