"""Ranking functionals: how pairwise preference probabilities become one score per item."""

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

# What is not differentiable, by the words one would try, and its smooth relative.
_HARD = {"min": "softmin", "minimum": "softmin", "worst_case": "softmin", "threshold": "dominance"}


def named(name: str) -> Functional:
    """The functional that a name stands for, with category weights and graph still to be bound.

    Raises
    ------
    OptionError
        If there is no functional of that name, or it is not differentiable.

    Examples
    --------
    >>> named("bt").label
    'bt (log-odds projection)'
    """
    every = (Borda(), BradleyTerry(), RankCentrality(), Dominance(), SoftMin())
    known: dict[str, Functional] = {f.name: f for f in every}
    if name in _HARD:
        raise OptionError(
            f"functional={name!r} is not differentiable, so that no estimate of it is normally distributed everywhere; "
            f"the smooth one is functional={_HARD[name]!r}"
        )
    check_choice(name, known, "functional")
    return known[name]
