"""Category weights, which say how much each outcome of a comparison counts for the first and the second item."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .._utils.argument_checks import array_of_numbers
from .._utils.computation import SINGLE_THREAD_MULTIPLICATIONS
from ..data.preferences import FloatArray
from ..exceptions import NuisanceError, OptionError, OptionTypeError, check_choice, listed, shown

# Weights of a category for the item shown first and for the item shown second, by the meaning of the category.
_WINS = {"first": (1.0, 0.0), "second": (0.0, 1.0)}
_WEIGHTS_BY_MEANING = {
    "half": _WINS | {"both_good": (0.5, 0.5), "both_bad": (0.5, 0.5), "tie": (0.5, 0.5)},
    "paper": _WINS | {"both_good": (1.0, 1.0), "both_bad": (0.0, 0.0), "tie": (0.5, 0.5)},
}
_PAPER_SCHEMES = {
    2: ("first", "second"),
    3: ("first", "second", "tie"),
    4: ("first", "second", "both_good", "both_bad"),
    5: ("first", "second", "both_good", "both_bad", "tie"),
}
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class CategoryWeights:
    """How much each outcome category counts for the item shown first and for the item shown second.

    Categories come in the canonical order: first wins, second wins, both good, both bad, tie (those present).

    Parameters
    ----------
    first, second : sequence of float
        A number in [0, 1] for each of the C categories; kept as tuples.

    Raises
    ------
    OptionError
        If the two lengths differ, there are fewer than two categories, a weight is outside [0, 1], or first - second is
        the same in every category, so that the weights cannot tell which item won.

    References
    ----------
    Frauen et al., arXiv 2601.21816, appendix "Unifying multiple categories via weighted preferences"
    [P app:weighted_gars].

    Examples
    --------
    >>> CategoryWeights.half(3)
    CategoryWeights(first=(1.0, 0.0, 0.5), second=(0.0, 1.0, 0.5))
    """

    first: tuple[float, ...]
    second: tuple[float, ...]

    def __post_init__(self) -> None:
        for item in ("first", "second"):
            numbers = array_of_numbers(getattr(self, item), 1)
            if numbers is None:
                raise OptionTypeError(
                    f"category weights of the {item} item are {shown(getattr(self, item))}; allowed: one number per "
                    f"category"
                )
            object.__setattr__(self, item, tuple(numbers.tolist()))
        if len(self.first) != len(self.second) or len(self.first) < 2:
            raise OptionError(
                f"category weights have {len(self.first)} and {len(self.second)} numbers; allowed: one number per "
                f"category for the first and for the second item, with at least two categories"
            )
        if not all(0 <= weight <= 1 for weight in self.first + self.second):
            raise OptionError(f"category weights are {self.first} and {self.second}; allowed: numbers in [0, 1]")
        if np.ptp(np.subtract(self.first, self.second)) < _ROUNDING:
            raise OptionError(
                f"category weights are {self.first} and {self.second}, and their difference is the same in every "
                f"category, so that they cannot tell which item won; let the difference vary between categories"
            )

    @classmethod
    def paper(cls, n_categories: int) -> CategoryWeights:
        """Return the paper's weights, in which both good is a win for both items [P app:weighted_gars].

        Parameters
        ----------
        n_categories : {2, 3, 4, 5}
            Number of categories, C.

        Returns
        -------
        CategoryWeights
            The weights.

        Raises
        ------
        OptionError
            If the paper has no weights for this number of categories.
        """
        if n_categories not in _PAPER_SCHEMES:
            raise OptionError(
                f"the paper has no weights for {n_categories} categories; allowed: 2, 3, 4 and 5 categories"
            )
        return cls.for_categories(_PAPER_SCHEMES[n_categories], "paper")

    @classmethod
    def half(cls, n_categories: int) -> CategoryWeights:
        """Return weights that count every tie as half a win for both items, as Bradley-Terry leaderboards do.

        Parameters
        ----------
        n_categories : int
            Number of categories, C.

        Returns
        -------
        CategoryWeights
            The weights.

        Raises
        ------
        OptionError
            If there are fewer than two categories.
        """
        if n_categories < 2:
            raise OptionError(f"n_categories is {n_categories}; allowed: at least 2, the categories win and loss")
        ties = (0.5,) * (n_categories - 2)
        return cls((1.0, 0.0, *ties), (0.0, 1.0, *ties))

    @classmethod
    def for_categories(cls, meanings: Iterable[str], kind: str = "half") -> CategoryWeights:
        """Return the weights of categories with given meanings.

        Parameters
        ----------
        meanings : iterable of {"first", "second", "both_good", "both_bad", "tie"}
            Meaning of each category, in canonical order.
        kind : {"half", "paper"}
            "half" counts every kind of tie one half for both items; "paper" counts both good as (1, 1), both bad as
            (0, 0) and a tie as (1/2, 1/2).

        Returns
        -------
        CategoryWeights
            The weights.

        Raises
        ------
        OptionError
            If the kind or a meaning is unknown, or a meaning occurs twice.

        Examples
        --------
        >>> CategoryWeights.for_categories(("first", "second", "both_bad"), "paper")
        CategoryWeights(first=(1.0, 0.0, 0.0), second=(0.0, 1.0, 0.0))
        """
        check_choice(kind, _WEIGHTS_BY_MEANING, "category_weights")
        meanings = tuple(meanings)
        for meaning in meanings:
            check_choice(meaning, _WEIGHTS_BY_MEANING[kind], "meaning of a category")
        if len(set(meanings)) < len(meanings):
            raise OptionError(f"the meanings of the categories are {listed(meanings)}; allowed: each meaning once")
        weights = [_WEIGHTS_BY_MEANING[kind][meaning] for meaning in meanings]
        return cls(tuple(first for first, _ in weights), tuple(second for _, second in weights))

    @property
    def n_categories(self) -> int:
        """Number of categories, C."""
        return len(self.first)

    @property
    def shared(self) -> bool:
        """Whether the sum of the two weights is the same in all categories (the categories share this sum)."""
        return bool(np.ptp(np.add(self.first, self.second)) < _ROUNDING)

    @property
    def total(self) -> float | None:
        """Sum of the two weights of a category; None where the sum differs between categories."""
        return self.first[0] + self.second[0] if self.shared else None

    @property
    def mirrored(self) -> bool:
        """Whether the weights treat the item shown first and the item shown second alike, so that order can be ignored.

        This is so if exchanging the two items and the two categories of wins gives the same weights.
        """
        swapped = (self.first[1], self.first[0], *self.first[2:])
        return bool(np.allclose(swapped, self.second, rtol=0, atol=_ROUNDING))

    def scores(self, mu: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weighted preferences for the item shown first and for the item shown second.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C) or (r, C)
            Category probabilities in n contexts, ``[:, j, k]`` with item j shown first and item k shown second, or
            those of r ordered pairs.

        Returns
        -------
        first : ndarray, shape (n, K, K) or (r,)
            Expected weight of a label for the item shown first.
        second : ndarray, shape (n, K, K) or (r,)
            Expected weight of a label for the item shown second.

        Raises
        ------
        NuisanceError
            If ``mu`` has another shape, or another number of categories than these weights.
        """
        first, second = self._weighted(mu, [self.first, self.second])
        return first, second

    def symmetric(self, mu: FloatArray) -> FloatArray:
        """Return the symmetrised preference for j over k: the mean over both orders [P eq:s_sym_def].

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C)
            Category probabilities in n contexts; ``[:, j, k]`` with item j shown first and item k shown second.

        Returns
        -------
        ndarray, shape (n, K, K)
            Preference for item j over item k in ``[:, j, k]``.
        """
        first, second = self.scores(mu)
        first += np.swapaxes(second, 1, 2)
        first /= 2
        return first

    def covariances(self, mu: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the variances and the covariance of one label's two weights, computed in one pass.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C) or (r, C)
            Category probabilities, see :meth:`scores`.

        Returns
        -------
        first : ndarray, shape (n, K, K) or (r,)
            Variance of a label's weight for the item shown first.
        second : ndarray, shape (n, K, K) or (r,)
            Variance of a label's weight for the item shown second.
        covariance : ndarray, shape (n, K, K) or (r,)
            Covariance of the two weights.
        """
        a, b = np.array(self.first), np.array(self.second)
        first, second, square_first, square_second, product = self._weighted(mu, [a, b, a * a, b * b, a * b])
        product -= first * second
        square_first -= np.square(first, out=first)
        square_second -= np.square(second, out=second)
        # Where one category has probability 1, the variance is zero. Rounding must not make it negative, because plans
        # take its square root.
        return np.maximum(square_first, 0, out=square_first), np.maximum(square_second, 0, out=square_second), product

    def _weighted(self, mu: FloatArray, rows: ArrayLike) -> FloatArray:
        """Return the sums over categories of ``mu`` with each of r rows of weights, one row each."""
        has_shape = mu.ndim == 2 or (mu.ndim == 4 and mu.shape[1] == mu.shape[2])
        if not has_shape or mu.shape[-1] != self.n_categories:
            raise NuisanceError(
                f"probabilities have shape {mu.shape}; allowed for these category weights: (contexts, K, K, "
                f"{self.n_categories})"
            )
        if mu.ndim == 2:
            return np.stack([mu @ np.asarray(row) for row in np.asarray(rows, dtype=np.float64)])
        # One product over all pairs of all contexts keeps every result contiguous and reads mu once.
        matrix, by_category = np.asarray(rows, dtype=np.float64), np.moveaxis(mu, -1, 0)
        if by_category.flags.c_contiguous:
            flat = by_category.reshape(self.n_categories, -1)
        else:
            flat = mu.reshape(-1, self.n_categories).T
        sums = np.empty((len(matrix), flat.shape[1]))
        step = SINGLE_THREAD_MULTIPLICATIONS // matrix.size
        for start in range(0, flat.shape[1], step):
            np.matmul(matrix, flat[:, start : start + step], out=sums[:, start : start + step])
        return sums.reshape(len(matrix), *mu.shape[:-1])
