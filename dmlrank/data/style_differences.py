"""Reading of style columns: the style differences of the two answers of every vote, as an array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..exceptions import ColumnError, DataError, listed, nearest
from .arrays import FloatArray
from .preferences import PreferenceData

# A style column with a smaller standard deviation than this multiple of its largest value does not vary.
# The largest style difference. Squares of larger numbers overflow.
_LARGEST = 1e100
_TINY = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class StyleDifferences:
    """Style differences D of the answers of every vote: item ``first`` of the vote's cell minus item ``second``.

    names: Names of the r columns.
    values (v, r): Differences by vote. Where display order does not matter, the sign of votes in flipped cells is
        changed, so that the differences refer to the cell's items.
    """

    names: tuple[str, ...]
    values: FloatArray

    @property
    def deviations(self) -> FloatArray:
        """Root mean square of every column over the votes, (r,)."""
        return np.asarray(np.sqrt(np.square(self.values).mean(axis=0)))


def check_style_columns(names: Sequence[str], available: Sequence[str]) -> None:
    """Raise :class:`ColumnError` where a style column does not exist."""
    for name in names:
        if name not in available:
            raise ColumnError(
                f"adjust=: no column {name!r}{nearest(name, available)}; columns: {listed(available)}. style_columns() "
                f"makes style columns from the answers: add them before the first fit, because update() reads the same "
                f"frame"
            )


def read_style_differences(data: PreferenceData, names: Sequence[str], *, must_vary: bool = True) -> StyleDifferences:
    """Return the style differences of every vote."""
    values = np.empty((data.n_votes, len(names)))
    for place, name in enumerate(names):
        cells = data.columns[name][data.vote_row]
        numbers = data.columns.numbers(name)[data.vote_row]
        wrong = np.flatnonzero(~(np.abs(numbers) <= _LARGEST))
        if len(wrong):
            raise DataError(
                f"style column {name!r} holds {cells[wrong[0]]!r} in {len(wrong):,} of {data.n_votes:,} votes; a style "
                f"difference must be a finite number, and at most {_LARGEST:g}: use another unit"
            )
        if must_vary and numbers.std() <= _TINY * max(float(np.abs(numbers).max()), 1e-300):
            raise DataError(
                f"style column {name!r} is {numbers[0]:g} for all {data.n_votes:,} votes; leave it out, because the "
                f"effect of a difference that does not vary cannot be estimated"
            )
        values[:, place] = np.where(data.cells.flipped[data.vote_cell], -numbers, numbers)
    scaled = values / np.where(values.std(axis=0) > 0, values.std(axis=0), 1.0)
    if must_vary and np.linalg.matrix_rank(scaled.T @ scaled / len(scaled), hermitian=True, tol=1e-8) < len(names):
        raise DataError(
            f"the style columns {listed(names)} are linearly dependent: one of them is a combination of the others; "
            f"leave it out"
        )
    return StyleDifferences(tuple(names), values)
