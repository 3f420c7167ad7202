"""Votes by model: how many the compared pairs use, how many are left out, and the options that would use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .graph import Graph

# Shares of all votes, and of the votes of one model, that may be left out without a word.
MOST_OF_ALL = 0.05
MOST_OF_A_MODEL = 0.2
# Values of min_labels that are tried in its place.
_FEWER = (5, 2, 1)


@dataclass(frozen=True, slots=True, eq=False)
class VoteCounts:
    """Votes of each of K models; a vote counts for both models of its pair.

    Attributes
    ----------
    used : ndarray of int, shape (K,)
        Votes on compared pairs, the edges of the graph.
    total : ndarray of int, shape (K,)
    """

    used: NDArray[np.int64]
    total: NDArray[np.int64]

    @classmethod
    def of(cls, votes: NDArray[np.int64], graph: Graph) -> VoteCounts:
        """Counts by model from votes on every ordered pair, (K, K), and the pairs that are compared.

        Examples
        --------
        >>> votes = np.array([[0, 3, 1], [2, 0, 0], [0, 4, 0]])
        >>> counted = VoteCounts.of(votes, Graph.of([(0, 1), (1, 2)], 3))
        >>> counted.used.tolist(), counted.total.tolist(), counted.n_used, counted.n_left_out
        ([5, 9, 4], [6, 9, 5], 9, 1)
        """
        both = votes + votes.T
        return cls(np.where(graph.edges, both, 0).sum(axis=1), both.sum(axis=1))

    @property
    def n_used(self) -> int:
        """Votes on compared pairs."""
        return int(self.used.sum()) // 2

    @property
    def n_total(self) -> int:
        """Votes in all."""
        return int(self.total.sum()) // 2

    @property
    def n_left_out(self) -> int:
        """Votes on pairs that are not compared."""
        return self.n_total - self.n_used

    @property
    def share_used(self) -> float:
        """Votes used as a share of all."""
        return self.n_used / max(self.n_total, 1)

    @property
    def short(self) -> NDArray[np.intp]:
        """Models of whose votes more than a fifth are left out, those that lose the largest share first."""
        lost = (self.total - self.used) / np.maximum(self.total, 1)
        order = np.argsort(-lost, kind="stable")
        return order[lost[order] > MOST_OF_A_MODEL]

    @property
    def uses_most(self) -> bool:
        """Whether no more than 5 % of all votes, and of no model more than 20 % of its votes, are left out."""
        return self.share_used >= 1 - MOST_OF_ALL and not len(self.short)


@dataclass(frozen=True, slots=True)
class PairRule:
    """Which pairs are compared: those with enough labelled contexts.

    Attributes
    ----------
    position_bias : bool
        Whether they are needed in both orders, or in all.
    min_labels : int
    """

    position_bias: bool
    min_labels: int

    def graph(self, labelled: NDArray[np.int64]) -> Graph:
        """The pairs that are compared, from labelled contexts of every ordered pair, (K, K)."""
        return Graph.observed(labelled, self.min_labels, self.position_bias)

    def looser(self, order_may_be_ignored: bool) -> list[PairRule]:
        """Rules that compare more pairs, those that change least first.

        Parameters
        ----------
        order_may_be_ignored : bool
            Whether ``position_bias=False`` is possible.

        Examples
        --------
        >>> [(rule.position_bias, rule.min_labels) for rule in PairRule(True, 3).looser(True)]
        [(False, 3), (False, 2), (False, 1)]
        """
        ordered = self.position_bias and not order_may_be_ignored
        fewer = [PairRule(ordered, few) for few in _FEWER if few < self.min_labels]
        return [PairRule(False, self.min_labels), *fewer] if self.position_bias and not ordered else fewer

    def changed_from(self, other: PairRule) -> str:
        """The options that make this rule of another one.

        Examples
        --------
        >>> PairRule(False, 1).changed_from(PairRule(True, 10))
        'position_bias=False, min_labels=1'
        """
        order = [f"position_bias={self.position_bias}"] if self.position_bias != other.position_bias else []
        return ", ".join([*order, *([f"min_labels={self.min_labels}"] if self.min_labels != other.min_labels else [])])


def left_out_clause(counts: VoteCounts, models: Sequence[str], most_named: int = 5) -> str:
    """What is left out, in words.

    Parameters
    ----------
    counts : VoteCounts
    models : sequence of str
    most_named : int

    Examples
    --------
    >>> left_out_clause(VoteCounts(np.array([10, 98, 98]), np.array([40, 98, 128])), ["a", "b", "c"])
    "30 of 133 votes (23 %) are left out, 30 of 40 of 'a', 30 of 128 of 'c'"
    """
    part = f"{counts.n_left_out:,} of {counts.n_total:,} votes ({100 * (1 - counts.share_used):.2g} %) are left out"
    named = [
        f"{counts.total[j] - counts.used[j]:,} of {counts.total[j]:,} of {models[j]!r}"
        for j in counts.short[:most_named]
    ]
    further = len(counts.short) - most_named
    return ", ".join([part, *named]) + (f" and many of {further} more models" if further > 0 else "")
