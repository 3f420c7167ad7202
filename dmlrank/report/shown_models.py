"""Which models a table or picture shows: those that a caller names, or those with the highest scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .._utils.argument_checks import check_whole
from ..exceptions import OptionError, OptionTypeError, UnknownModelError, listed, nearest, shown


@dataclass(frozen=True, slots=True)
class ShownModels:
    """The models that a table shows.

    places: Places of the models among all models, in the order of the rows.
    n_models: Number of all models.
    noun: What the rows are, in the singular.
    """

    places: tuple[int, ...]
    n_models: int
    noun: str = "model"

    def note(self, joint_statements: str) -> str:
        """How many models are left out, and which statements refer to all models; empty where none is left out."""
        n_left_out = self.n_models - len(self.places)
        if not n_left_out:
            return ""
        verb = "is" if n_left_out == 1 else "are"
        return (
            f"The table shows {len(self.places)} of {self.n_models} {self.noun}s; {n_left_out} {verb} left out. "
            f"{joint_statements} refer to all {self.n_models} {self.noun}s."
        )


def choose_models(
    names: Sequence[str], ranking: Sequence[int], models: object = None, top: object = None, *, noun: str = "model"
) -> ShownModels:
    """Return the models that a table shows."""
    if models is not None and top is not None:
        raise OptionError("models= and top= were both given; give models= (names) or top= (a number), not both")
    if top is not None:
        check_whole("top", top, 1)
        return ShownModels(tuple(ranking[: int(str(top))]), len(names), noun)
    if models is None:
        return ShownModels(tuple(ranking), len(names), noun)
    chosen = _names(models)
    unknown = next((name for name in chosen if name not in names), None)
    if unknown is not None:
        raise UnknownModelError(
            f"models= names {unknown!r}, but there is no {noun} of this name{nearest(unknown, names)} "
            f"({noun}s: {listed(names, 25)})"
        )
    repeated = next((name for name in chosen if chosen.count(name) > 1), None)
    if repeated is not None:
        raise OptionError(f"models= names {repeated!r} twice; name every {noun} once")
    return ShownModels(tuple(list(names).index(name) for name in chosen), len(names), noun)


def chosen_names(best_first: Sequence[str], models: object = None, top: object = None) -> list[str]:
    """Return the names of the models that a picture shows; see :func:`choose_models` for the errors."""
    return [best_first[place] for place in choose_models(best_first, range(len(best_first)), models, top).places]


def _names(models: object) -> list[str]:
    """Return the names that a caller gives, one or several."""
    if isinstance(models, str):
        return [models]
    try:
        names = list(models)  # type: ignore[call-overload]
    except TypeError:
        raise OptionTypeError(
            f"models={shown(models)} is no list of names; give one, such as models=['a', 'b']"
        ) from None
    if not names:
        raise OptionError("models=[] names no model; name at least one, or leave models= out to show all models")
    wrong = next((name for name in names if not isinstance(name, str)), None)
    if wrong is not None:
        raise OptionTypeError(f"models= holds {wrong!r}, which is not a name; names are text")
    return names
