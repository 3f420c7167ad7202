"""The voting stage: which battles were shown, and the probability that a shown battle gets a vote.

A pair is shown with the probability r(x), a shown pair gets a vote with the probability v(x), and pi = r v is the
propensity of a label. Where the data do not contain shown battles without a vote, every pair of every context counts as
shown (r = 1), and v = pi.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..data.preferences import FloatArray, IntArray


class VoteRates(Protocol):
    """Probabilities v(x) that a shown pair gets a vote, for all ordered pairs of a context."""

    def table(self, contexts: IntArray) -> FloatArray:
        """Return the probabilities of all pairs, (b, K, K), in b contexts.

        Where display order is ignored, both orders of a pair have the same probability.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ShownRows:
    """Shown battles as rows, with the residual of the vote that each of them got or did not get.

    context, block, first, second (b,): Context, influence block and ordered pair of each battle.
    rate (b,): v at the battle's context and pair.
    residual (b,): (V - v) / r, divided by the number of battles on the same shown cell. V is 1 if the battle got a
        vote, else 0.
    mu (b, C): mu at the battle's context and pair, not clipped.
    """

    context: IntArray
    block: IntArray
    first: IntArray
    second: IntArray
    rate: FloatArray
    residual: FloatArray
    mu: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class VotingStage:
    """Probabilities of a vote and shown battles, from which the bounds for votes not cast are computed.

    rates: v of all pairs.
    cell_rate (m,): v at the labelled cells.
    shown: The shown battles; None where every pair counts as shown.
    block_context (q,): Context of each influence block: the blocks of the fit, followed by blocks for shown battles
        that belong to none of them.
    block_weight (q,): Number of shown cells in each block; labelled cells where every pair counts as shown.
    annotator (q,): Annotator of each block where annotators are clusters.
    shares_rates: Whether contexts of one fold with equal features have equal probabilities v.
    """

    rates: VoteRates
    cell_rate: FloatArray
    shown: ShownRows | None
    block_context: IntArray
    block_weight: FloatArray
    annotator: IntArray | None
    shares_rates: bool = True

    @property
    def all_shown(self) -> bool:
        """Whether every pair of every context counts as shown."""
        return self.shown is None


def block_sums(total: FloatArray, block: IntArray, amounts: FloatArray) -> None:
    """Add amounts, (r, d), to the rows ``block`` of a table in place; a row may occur several times."""
    order = np.argsort(block, kind="stable")
    blocks, starts = np.unique(block[order], return_index=True)
    if len(blocks):
        total[blocks] += np.add.reduceat(amounts[order], starts, axis=0)
