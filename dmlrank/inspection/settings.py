"""What settings cost: votes used and standard errors against maximum likelihood, from counts of labels alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..data.graph import Graph, laplacian_inverse
from ..data.preferences import FloatArray
from ..data.vote_counts import PairRule, VoteCounts

# A loss of precision, for the model that loses most, up to which the default is recommended.
_ENOUGH = 1.5
COLUMNS = [
    "position_bias",
    "min_labels",
    "edge_weights",
    "pairs",
    "votes",
    "share",
    "least_share",
    "se_median",
    "se_largest",
]


@dataclass(frozen=True, slots=True)
class PairSettings:
    """Which pairs are compared, and what they weigh.

    Attributes
    ----------
    rule : PairRule
    edge_weights : {"equal", "counts"}
    """

    rule: PairRule
    edge_weights: str

    @property
    def words(self) -> str:
        """The options that ask for it."""
        return (
            f"position_bias={self.rule.position_bias}, min_labels={self.rule.min_labels}, "
            f"edge_weights={self.edge_weights!r}"
        )


def score_variances(labelled: NDArray[np.int64], settings: PairSettings) -> FloatArray | None:
    r"""Variances of Bradley-Terry scores, (K,), in units of the variance of one label's log-odds; None if disconnected.

    Without features and with models that are about as good as each other, the log-odds of an ordered pair with n labels
    have variance v / n for the same v everywhere. Those of an unordered pair have v / (n_jk + n_kj) where order is
    ignored, and as the mean of both orders v (1 / n_jk + 1 / n_kj) / 4 where it matters. The scores are
    :math:`L_w^+ B' W \ell` with edge weights w, so that their covariance is :math:`L_w^+ L_{w^2 s} L_w^+`, with the
    Laplacian of the weights :math:`w^2 s` for variances s of the log-odds. Maximum likelihood weights pairs by their
    labels: w = 1 / s, and the covariance is :math:`L_{1/s}^+`.

    Parameters
    ----------
    labelled : ndarray of int, shape (K, K)
        Labelled contexts of every ordered pair.
    settings : PairSettings

    Examples
    --------
    >>> n = np.array([[0, 8, 5], [8, 0, 20], [5, 20, 0]])
    >>> score_variances(n, PairSettings(PairRule(False, 1), "counts")).round(4)
    array([0.0172, 0.0089, 0.0106])
    >>> laplacian_inverse((n + n.T).astype(float)).diagonal().round(4)
    array([0.0172, 0.0089, 0.0106])
    """
    graph = settings.rule.graph(labelled)
    if not graph.connected:
        return None
    counts = np.where(graph.edges, labelled, 0).astype(float)
    both = counts + counts.T
    weight = both if settings.edge_weights == "counts" else graph.edges.astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = (1 / counts + 1 / counts.T) / 4 if settings.rule.position_bias else 1 / both
    inverse = laplacian_inverse(weight)
    flow = np.where(graph.edges, weight**2 * np.where(graph.edges, spread, 0.0), 0.0)
    return np.asarray(np.diag(inverse @ (np.diag(flow.sum(axis=1)) - flow) @ inverse))


def settings_table(labelled: NDArray[np.int64], votes: NDArray[np.int64], min_labels: int) -> pd.DataFrame:
    """What every choice costs: a row per ``position_bias``, ``min_labels`` (as given, and 1) and ``edge_weights``.

    Parameters
    ----------
    labelled, votes : ndarray of int, shape (K, K)
        Labelled contexts, and votes, of every ordered pair.
    min_labels : int

    Returns
    -------
    DataFrame
        The options, the ``pairs`` compared, the ``votes`` used and their ``share`` of all, the ``least_share`` of a
        model's votes, and standard errors relative to maximum likelihood on all votes: ``se_median`` and ``se_largest``
        over models, NaN where the pairs do not connect the models.
    """
    every = laplacian_inverse((labelled + labelled.T).astype(float)) if _connected(labelled) else None
    rows: list[tuple[object, ...]] = []
    for rule in dict.fromkeys(PairRule(order, few) for order in (True, False) for few in (min_labels, 1)):
        graph = rule.graph(labelled)
        counts = VoteCounts.of(votes, graph)
        least = float((counts.used / np.maximum(counts.total, 1)).min())
        for edge_weights in ("equal", "counts"):
            variances = score_variances(labelled, PairSettings(rule, edge_weights))
            ratio = np.array([np.nan])
            if variances is not None and every is not None:
                ratio = np.sqrt(variances / every.diagonal())
            numbers = (graph.n_edges, counts.n_used, counts.share_used, least, np.median(ratio), ratio.max())
            rows.append((rule.position_bias, rule.min_labels, edge_weights, *numbers))
    return pd.DataFrame(rows, columns=COLUMNS)


def _connected(labelled: NDArray[np.int64]) -> bool:
    return Graph.observed(labelled, 1, ordered=False).connected


def recommended(table: pd.DataFrame, chosen: tuple[bool, int, str]) -> int:
    """The row that is recommended: the one with the fewest changes of those good enough, else the most precise.

    Good enough is what leaves out at most 5 % of the votes and 20 % of a model's, and makes no standard error more than
    half as large again as maximum likelihood's.

    Parameters
    ----------
    table : DataFrame
        Of :func:`settings_table`.
    chosen : tuple
        Values of the first three columns.
    """
    good = (table["share"] >= 0.95) & (table["least_share"] >= 0.8) & (table["se_largest"] <= _ENOUGH)
    options = table[["position_bias", "min_labels", "edge_weights"]]
    changes = (options != list(chosen)).sum(axis=1)
    error = table["se_largest"].fillna(np.inf)
    ranked = table.assign(bad=~good, changes=changes.where(good, 0), error=error, all_changes=changes)
    return int(ranked.sort_values(["bad", "changes", "error", "all_changes"], kind="stable").index[0])
