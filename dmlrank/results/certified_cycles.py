"""Cycles of preferences in a result: triples of models a > b > c > a that tests support."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .._utils.blas import one_thread
from ..exceptions import OptionError
from ..fit.estimates import Estimates
from ..fit.post_estimation import pair_margins
from ..fit.state import FitState
from ..inference.cycles import closest_cycle, count_cycles, find_cycles, margin_p_values
from ..report.hypothesis_tables import CycleResults
from ..report.statements import functional_unit
from .requirements import require_intervals


@one_thread()
def certified_cycles(estimates: Estimates, steps: FitState, alpha: float) -> CycleResults:
    """Return the triples that :meth:`RankResults.cycles` documents."""
    if not estimates.estimated_by.has_first_stages:
        raise OptionError(
            "cycles() with estimator='bt_mle': the win shares of this model follow from its scores, so that they have "
            "no cycles; use update(estimator='debiased')"
        )
    require_intervals(estimates, "cycles()")
    data, graph = steps.data, steps.setup.graph
    first, second = np.nonzero(np.triu(graph.edges))
    margins = pair_margins(steps, first, second)
    p_values = margin_p_values(margins.estimate, margins.std_error, margins.covariance)
    # Models in the order of their scores, so that the search starts every triple at the best of its models.
    ranking = np.argsort(-estimates.estimate, kind="stable") if estimates.of_models else np.arange(data.n_items)
    place = np.argsort(ranking)
    is_won = margins.estimate > 0
    winner, loser = np.where(is_won, first, second), np.where(is_won, second, first)
    is_decided = margins.estimate != 0
    p = np.full((data.n_items, data.n_items), np.inf)
    p[place[winner[is_decided]], place[loser[is_decided]]] = p_values[is_decided]
    share = np.full((data.n_items, data.n_items), np.nan)
    share[place[winner], place[loser]] = (1 + np.abs(margins.estimate)) / 2
    found, closest = find_cycles(p, alpha), closest_cycle(p)
    names = [data.items[j] for j in ranking]
    triples = [tuple(names[j] for j in triple) for triple in found.items]
    frame = pd.DataFrame(triples, columns=["a", "b", "c"]).assign(p_adjusted=found.p_adjusted)
    a, b, c = found.items.T
    shares = pd.DataFrame({"share_ab": share[a, b], "share_bc": share[b, c], "share_ca": share[c, a]})
    edges = graph.edges.astype(float)
    nearest_triple = None
    if len(closest.items):
        nearest_triple = (*(names[j] for j in closest.items[0]), float(closest.p_adjusted[0]))
    return CycleResults(
        frame,
        shares,
        n_raw=count_cycles(np.isfinite(p)),
        n_triples=round(float(((edges @ edges) * edges).sum()) / 6),
        n_pairs=len(first),
        alpha=alpha,
        closest=nearest_triple,
        method="sidak" if margins.covariance is None else "max-t",
        functional=functional_unit(estimates),
    )
