"""Ranking functionals, which turn pairwise preference probabilities into one score per item."""

from __future__ import annotations

import re
from typing import cast

from ..data.graph import Graph
from ..data.outcomes import CategoryWeights
from ..exceptions import OptionError, OptionTypeError, check_choice
from .base import Functional, Gauge
from .bradley_terry import BradleyTerry
from .custom import Custom
from .linear_scores import MeanScore, PassAtK, PassHatK
from .preference_aggregates import Borda, Dominance, SoftMin
from .rank_centrality import RankCentrality

__all__ = [
    "Borda",
    "BradleyTerry",
    "CategoryWeights",
    "Custom",
    "Dominance",
    "Functional",
    "Gauge",
    "Graph",
    "PassAtK",
    "PassHatK",
    "RankCentrality",
    "SoftMin",
    "named",
]

# All functionals with a name, for the option functional=. A new one is a class that is imported above and stands here.
FUNCTIONALS: dict[str, type[Functional]] = {
    kind.name: kind for kind in (Borda, BradleyTerry, RankCentrality, Dominance, SoftMin)
}

# All functionals that a result may have, those of scores without their number of runs.
_KINDS = FUNCTIONALS | {MeanScore.name: MeanScore} | {kind.written: kind for kind in (PassAtK, PassHatK)}

# Names of functionals without a derivative that a user may try, each with the smooth functional to use instead.
_SMOOTH_ALTERNATIVE = {"min": "softmin", "minimum": "softmin", "worst_case": "softmin", "threshold": "dominance"}


def named(name: str) -> Functional:
    """Return the functional of a given name, with default settings.

    Category weights and comparison graph are not set yet; the functional's method ``bind`` sets them.

    Parameters
    ----------
    name : {"borda", "bt", "rank_centrality", "dominance", "softmin", "mean"} or str
        Name of the functional; of runs "PassAtK(3)" or "PassHatK(3)".

    Returns
    -------
    Functional
        The functional.

    Raises
    ------
    OptionError
        If there is no functional of that name, or the functional is not differentiable.

    Examples
    --------
    >>> named("bt").label
    'bt (log-odds projection)'
    """
    if isinstance(name, str) and name in _SMOOTH_ALTERNATIVE:
        raise OptionError(f"functional={name!r} is not differentiable; use functional={_SMOOTH_ALTERNATIVE[name]!r}")
    check_choice(name, [*FUNCTIONALS, "mean", "PassAtK(3)", "PassHatK(3)"], "functional")
    return FUNCTIONALS[name]() if name in FUNCTIONALS else cast(Functional, of_scores(name))


def kind_of(name: str) -> type[Functional]:
    """Return the class of a functional with the name that a result has; the base class where no built-in one has it."""
    return _KINDS.get(name.rstrip("0123456789"), Functional)


def of_scores(option: object) -> object:
    """Return the functional of scores that a text such as "mean" or "PassAtK(3)" names; other options as they are."""
    written = re.fullmatch(r"(mean)|(PassAtK|PassHatK)\((\d+)\)", option) if isinstance(option, str) else None
    if written is None:
        return option
    return MeanScore() if written[1] else {"PassAtK": PassAtK, "PassHatK": PassHatK}[written[2]](int(written[3]))


def is_moved_by_pair(score: Functional) -> bool:
    """Whether every label of a pair moves the scores along one direction, so that there is ``sum_over_pairs``."""
    return type(score) is BradleyTerry or (type(score) is Borda and score.category_weights.total is not None)


def functional_from(option: object) -> Functional:
    """Return the functional that the option ``functional`` asks for: a name, a function of mu, or an object."""
    if isinstance(option, Functional):
        # A result knows its functional by the name, so that no other functional may have the name of a built-in one.
        if not isinstance(option, kind_of(option.name)):
            raise OptionError(
                f"functional is an object with the name {option.name!r} of a built-in one; give its class another name"
            )
        return option
    if isinstance(option, str):
        return named(option)
    if callable(option) and not isinstance(option, type):
        return Custom(option)
    kind = f"the class {option.__name__}" if isinstance(option, type) else f"a {type(option).__name__}"
    raise OptionTypeError(
        f"functional is {kind}; allowed: {', '.join(map(repr, FUNCTIONALS))}, a function mu -> (n, d), or an object "
        f"such as RankCentrality(walk='rate')"
    )
