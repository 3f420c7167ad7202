"""Functionals that are linear in a link of the preference for the item shown first, and this link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logit

from ..data.outcomes import exchanged_wins
from ..data.preferences import FloatArray, IntArray
from ..exceptions import OptionError
from .borda import Borda
from .bradley_terry import BradleyTerry
from .category_weights import require_weights
from .graph_weights import edge_matrix


@dataclass(frozen=True, slots=True, eq=False)
class LinkedScore:
    r"""A functional as a linear map of link values: :math:`F(\mu) = c + \sum_q A_q\, l(s_q)`.

    The sum is over ordered pairs q, or over pairs where display order does not matter. The preference
    :math:`s_q = \langle w_1, \mu_q\rangle` is that for the first item of the pair. The link l is s - 1/2 for Borda and
    logit s for Bradley-Terry; it changes its sign where the items are exchanged.

    functional: Bound to category weights and graph.
    n_items: Number of items, K.
    ordered: Whether display order matters.
    """

    functional: Borda | BradleyTerry
    n_items: int
    ordered: bool

    @classmethod
    def of(cls, functional: object, n_items: int, ordered: bool) -> LinkedScore:
        """Return a functional as a linear map of link values."""
        if not isinstance(functional, Borda | BradleyTerry):
            raise OptionError(
                f"adjust= with EqualStyle was given with the functional {getattr(functional, 'name', functional)!r}: "
                f"slopes on style need a functional that is linear in the preferences (borda) or in their log-odds "
                f"(bt); use functional='borda' or 'bt', or adjust=BalancedStyle(...), which works with every functional"
            )
        weights = require_weights(functional.weights, functional.name)
        if weights.total is None or abs(weights.total - 1) > 1e-12:
            raise OptionError(
                f"adjust= with EqualStyle was given with category weights {weights.first} and {weights.second}, which "
                f"do not sum to 1 in every category: the preference for one item would not be one minus the preference "
                f"for the other item; use category_weights='half', or adjust=BalancedStyle(...)"
            )
        return cls(functional, n_items, ordered)

    @property
    def is_logit(self) -> bool:
        """Whether the link is the logit."""
        return isinstance(self.functional, BradleyTerry)

    @property
    def constant(self) -> float:
        """The constant c of every score."""
        return 0.0 if self.is_logit else 0.5

    @property
    def edges(self) -> FloatArray:
        """Weight of every pair, (K, K)."""
        return edge_matrix(self.functional.graph, self.functional.edge_weights, self.n_items)

    def preference(self, y: FloatArray) -> FloatArray:
        """Return the preference for the first item, (r,), from labels or probabilities, (r, C)."""
        return y @ np.array(require_weights(self.functional.weights, self.functional.name).first)

    def value(self, s: FloatArray) -> FloatArray:
        """Return the link of preferences, (r,)."""
        return np.asarray(logit(s) if self.is_logit else s - 0.5)

    def slope(self, s: FloatArray) -> FloatArray:
        """Return the derivative of the link at preferences, (r,)."""
        return np.asarray(1 / (s * (1 - s)) if self.is_logit else np.ones_like(s))

    def coefficients(self, first: IntArray, second: IntArray) -> FloatArray:
        """Return A_q of r pairs, (r, K): the change of the scores by the link value of each pair."""
        first_weights = np.array(require_weights(self.functional.weights, self.functional.name).first)
        # The preference at which the derivative is taken does not matter; these two categories differ in it most.
        high, low = int(first_weights.argmax()), int(first_weights.argmin())
        mu, delta = (np.zeros((len(first), len(first_weights))) for _ in range(2))
        mu[:, [high, low]], delta[:, [high, low]] = 0.5, (1.0, -1.0)
        derivative_at, n_items = self.functional.derivative_at, self.n_items
        change = derivative_at(mu, delta, first, second, n_items)
        if not self.ordered:
            flip = exchanged_wins(len(first_weights))
            change = change + derivative_at(mu[:, flip], delta[:, flip], second, first, n_items)
        middle = np.array((first_weights[high] + first_weights[low]) / 2)
        return np.asarray(change / ((first_weights[high] - first_weights[low]) * self.slope(middle)))

    def pairs(self) -> tuple[IntArray, IntArray]:
        """Return the items of all pairs over which is summed, (Q,) each: both orders only where order matters."""
        first, second = np.triu_indices(self.n_items, 1)
        if not self.ordered:
            return first, second
        return np.concatenate([first, second]), np.concatenate([second, first])
