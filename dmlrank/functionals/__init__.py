"""Ranking functionals: how pairwise preference probabilities become one score per item."""

from __future__ import annotations

from ..data.graph import Graph
from ..exceptions import check_choice
from .base import CategoryWeights, Functional, Gauge
from .borda import Borda
from .bradley_terry import BradleyTerry
from .rank_centrality import RankCentrality

__all__ = [
    "Borda",
    "BradleyTerry",
    "CategoryWeights",
    "Functional",
    "Gauge",
    "Graph",
    "RankCentrality",
    "named",
]


def named(name: str) -> Functional:
    """The functional that a name stands for, with category weights and graph still to be bound.

    Raises
    ------
    OptionError
        If there is no functional of that name.

    Examples
    --------
    >>> named("bt").label
    'bt (log-odds projection)'
    """
    known: dict[str, Functional] = {f.name: f for f in (Borda(), BradleyTerry(), RankCentrality())}
    check_choice(name, known, "functional")
    return known[name]
