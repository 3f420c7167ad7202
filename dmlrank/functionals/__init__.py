"""Ranking functionals, which turn pairwise preference probabilities into one score per item."""

from __future__ import annotations

from ..data.graph import Graph
from ..exceptions import OptionError, check_choice
from .base import Functional, Gauge
from .borda import Borda
from .bradley_terry import BradleyTerry
from .category_weights import CategoryWeights
from .custom import Custom
from .dominance import Dominance
from .rank_centrality import RankCentrality
from .softmin import SoftMin

__all__ = [
    "Borda",
    "BradleyTerry",
    "CategoryWeights",
    "Custom",
    "Dominance",
    "Functional",
    "Gauge",
    "Graph",
    "RankCentrality",
    "SoftMin",
    "named",
]

# Names of functionals without a derivative that a user may try, each with the smooth functional to use instead.
_SMOOTH_ALTERNATIVE = {"min": "softmin", "minimum": "softmin", "worst_case": "softmin", "threshold": "dominance"}


def named(name: str) -> Functional:
    """Return the functional of a given name, with default settings.

    Category weights and comparison graph are not set yet; the functional's method ``bind`` sets them.

    Parameters
    ----------
    name : {"borda", "bt", "rank_centrality", "dominance", "softmin"}
        Name of the functional.

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
    functionals: tuple[Functional, ...] = (Borda(), BradleyTerry(), RankCentrality(), Dominance(), SoftMin())
    by_name = {functional.name: functional for functional in functionals}
    if isinstance(name, str) and name in _SMOOTH_ALTERNATIVE:
        raise OptionError(
            f"functional={name!r} is not differentiable at some preference probabilities, and no estimate of it is "
            f"normally distributed there; use the smooth functional={_SMOOTH_ALTERNATIVE[name]!r}"
        )
    check_choice(name, by_name, "functional")
    return by_name[name]
