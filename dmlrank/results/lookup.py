"""Models and estimates of a result by name, and checks of what a method needs of the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..exceptions import (
    DataNotStoredError,
    NoIntervalError,
    OptionError,
    OptionTypeError,
    UnknownModelError,
    check_choice,
    listed,
    nearest,
    shown,
)
from ..fit.estimates import Estimates
from ..fit.state import FitSteps
from ..inference.wald import NamedEstimates


def named_estimates(estimates: Estimates) -> NamedEstimates:
    """Return the estimates in the form that tests take."""
    return NamedEstimates(
        estimates.estimate, estimates.covariance, estimates.names, estimates.reason, estimates.sequence
    )


def model_index(models: Sequence[str], model: str) -> int:
    """Return the place of a model among the ranked models."""
    if not isinstance(model, str) or model not in models:
        raise UnknownModelError(
            f"no model {shown(model)} was ranked{nearest(model, models)} (models: {listed(models, 25)})"
        )
    return models.index(model)


def estimate_index(estimates: Estimates, name: str) -> int:
    """Return the place of an estimate: the score of a model, or an output of a user's functional."""
    if estimates.of_models:
        return model_index(estimates.models, name)
    outputs = estimates.names
    if not isinstance(name, str) or name not in outputs:
        raise UnknownModelError(
            f"{shown(name)} is not an output of this functional{nearest(name, outputs)} "
            f"(outputs: {listed(outputs, 25)})"
        )
    return outputs.index(name)


def names_or_all(names: Sequence[str] | None, all_names: Sequence[str]) -> list[str]:
    """Return the names that a user gives, one or several, or all names where the user gives None."""
    if names is not None and not isinstance(names, Iterable):
        raise OptionTypeError(f"models={shown(names)} is a {type(names).__name__}; give a list of names, or None")
    return list(all_names) if names is None else [names] if isinstance(names, str) else list(names)


def joined_names(parts: Sequence[Sequence[object]], separator: str) -> list[str]:
    """Join the parts of every name, so that names with different parts are different.

    Where two joined names would be equal, parts that contain the separator are quoted.
    """
    texts = [tuple(map(str, name_parts)) for name_parts in parts]
    quotations: tuple[Callable[[str], str], ...] = (
        lambda part: part,
        lambda part: repr(part) if separator in part else part,
        repr,
    )
    names: list[str] = []
    for quote in quotations:
        names = [separator.join(map(quote, name_parts)) for name_parts in texts]
        if len(set(names)) == len(set(texts)):
            break
    return names


def check_picture(name: object, names: Iterable[str]) -> None:
    """Raise unless ``name`` is one of the names of pictures."""
    words = list(names)
    if not isinstance(name, str):
        raise OptionTypeError(
            f"plot takes the name of a picture ({listed(words, 20)}), not a {type(name).__name__}; give axes as ax="
        )
    check_choice(name, words, "picture")


def require_models(estimates: Estimates, method: str, purpose: str = "puts models in an order") -> None:
    """Check that the estimates are scores of the models."""
    if not estimates.of_models:
        raise OptionError(
            f"{method} {purpose}, and the outputs of this functional ({listed(estimates.names, 5)}) are not scores of "
            f"models; use conf_int(), t_test() and wald_test() with these names, or fit a functional with one score "
            f"per model"
        )


def require_intervals(estimates: Estimates, method: str) -> None:
    """Check that the estimates have intervals."""
    if not estimates.has_intervals:
        raise NoIntervalError(f"{method}: this result is an estimate without intervals: {estimates.why_no_intervals}")


def require_single_look(estimates: Estimates, method: str, why: str) -> None:
    """Check that a result is no sequential view, for a method whose statements hold for one look only."""
    if estimates.sequence is not None:
        raise OptionError(
            f"{method} of a sequential view: {why}; call it on the result that sequential() was called on"
        )


def require_steps(estimates: Estimates, steps: FitSteps | None, method: str) -> FitSteps:
    """Return the steps of the fit, for a method that needs data or learners."""
    if steps is None and estimates.part:
        raise DataNotStoredError(
            f"{method} needs the data and learners of the fit, and a result of a part of the prompts "
            f"({estimates.part}) has none; use the result of the whole fit"
        )
    if steps is None:
        raise DataNotStoredError(
            f"{method} needs the data and learners of the fit, and this result was stored without them; fit again, or "
            f"store results with save(with_data=True)"
        )
    return steps


# Why methods of a result need scores without adjustment for style.
AS_SHOWN = "it describes votes on the answers that were shown, and scores at equal style do not"
NO_MEAN = (
    "scores at equal style are no mean of scores of single prompts, because slopes are those of all prompts together"
)
NO_BOUNDS = "its bounds are those of scores of all votes without adjustment"
# Why groups have no sequential form.
GROUPS_AT_ONE_LOOK = (
    "tests across groups hold for one look only; res.by(...)[name].sequential(...) is the view of a group"
)
_NO_PLAN = "it plans labels for scores without adjustment, and the style of answers is not known before they are shown"


def require_raw_scores(estimates: Estimates, method: str, why: str, kinds: tuple[str, ...] = ("equal",)) -> None:
    """Check that scores are not adjusted for style, for a method that describes votes as they are."""
    if estimates.style is not None and estimates.style.kind in kinds:
        name = {"equal": "EqualStyle", "balanced": "BalancedStyle"}[estimates.style.kind]
        raise OptionError(f"{method} with adjust={name}(...): {why}; use update(adjust=None).{method}")


def steps_for_plan(estimates: Estimates, steps: FitSteps | None) -> FitSteps:
    """Return the steps of a fit, for a plan of further labels; raise where no plan can be made."""
    require_raw_scores(estimates, "design()", _NO_PLAN, ("equal", "balanced"))
    require_single_look(estimates, "design()", "widths and power of a plan are those of one look")
    return require_steps(estimates, steps, "design")
