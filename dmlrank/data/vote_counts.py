"""Votes by model: how many a fit uses, how many it leaves out, and options with which it would use more of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .graph import Graph

# Largest shares of all votes, and of the votes of one model, that may be left out without a warning.
MOST_OF_ALL = 0.05
MOST_OF_A_MODEL = 0.2
# Values of min_labels that a warning may suggest in place of a larger one.
_FEWER_LABELS = (5, 2, 1)


@dataclass(frozen=True, slots=True, eq=False)
class VoteCounts:
    """Votes of each of K models; a vote counts for both models of its pair.

    used (K,): Votes on compared pairs, the edges of the graph.
    total (K,): All votes.
    """

    used: NDArray[np.int64]
    total: NDArray[np.int64]

    @classmethod
    def of(cls, votes: NDArray[np.int64], graph: Graph) -> VoteCounts:
        """Return the counts by model, from the votes on every ordered pair, (K, K), and the pairs that are compared."""
        of_pair = votes + votes.T
        return cls(np.where(graph.edges, of_pair, 0).sum(axis=1), of_pair.sum(axis=1))

    @property
    def n_used(self) -> int:
        """Number of votes on compared pairs."""
        return int(self.used.sum()) // 2

    @property
    def n_total(self) -> int:
        """Number of all votes."""
        return int(self.total.sum()) // 2

    @property
    def n_left_out(self) -> int:
        """Number of votes on pairs that are not compared."""
        return self.n_total - self.n_used

    @property
    def share_used(self) -> float:
        """Votes on compared pairs as a share of all votes."""
        return self.n_used / max(self.n_total, 1)

    @property
    def models_losing_many(self) -> NDArray[np.intp]:
        """Positions of the models that lose more than a fifth of their votes, the largest loss first."""
        share_lost = (self.total - self.used) / np.maximum(self.total, 1)
        models = np.argsort(-share_lost, kind="stable")
        return models[share_lost[models] > MOST_OF_A_MODEL]

    @property
    def uses_most(self) -> bool:
        """Whether at most 5 % of all votes are left out, and at most 20 % of the votes of each model."""
        return self.share_used >= 1 - MOST_OF_ALL and not len(self.models_losing_many)


@dataclass(frozen=True, slots=True)
class PairRule:
    """Which pairs are compared: those with enough labelled contexts.

    position_bias: If true, a pair needs enough labelled contexts in each display order. If false, a pair needs enough
        labelled contexts in both display orders together.
    min_labels: Smallest number of labelled contexts that is enough.
    """

    position_bias: bool
    min_labels: int

    def graph(self, labelled: NDArray[np.int64]) -> Graph:
        """Return the pairs that are compared, from the labelled contexts of every ordered pair, (K, K)."""
        return Graph.observed(labelled, self.min_labels, self.position_bias)

    def looser(self, order_may_be_ignored: bool) -> list[PairRule]:
        """Return rules that compare more pairs, those with the smallest changes first."""
        ordered = self.position_bias and not order_may_be_ignored
        fewer = [PairRule(ordered, n_labels) for n_labels in _FEWER_LABELS if n_labels < self.min_labels]
        return [PairRule(False, self.min_labels), *fewer] if self.position_bias and not ordered else fewer

    def changed_from(self, other: PairRule) -> str:
        """Return the options of a fit that turn another rule into this one, as text."""
        options = []
        if self.position_bias != other.position_bias:
            options.append(f"position_bias={self.position_bias}")
        if self.min_labels != other.min_labels:
            options.append(f"min_labels={self.min_labels}")
        return ", ".join(options)


def left_out_clause(counts: VoteCounts, models: Sequence[str], most_named: int = 5) -> str:
    """Return a clause that says which votes are left out."""
    total = f"{counts.n_left_out:,} of {counts.n_total:,} votes ({100 * (1 - counts.share_used):.2g} %) are left out"
    named = [
        f"{counts.total[j] - counts.used[j]:,} of the {counts.total[j]:,} votes of {models[j]!r}"
        for j in counts.models_losing_many[:most_named]
    ]
    further = len(counts.models_losing_many) - most_named
    if further > 0:
        named.append(f"more than a fifth of the votes of {further} further model{'s' * (further > 1)}")
    enumeration = " and ".join([", ".join(named[:-1]), named[-1]]) if len(named) > 1 else "".join(named)
    return f"{total}, among them {enumeration}" if named else total
