"""Certified cycles of preferences: their frame and table."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from .._utils.number_text import p_value_text
from ..tables.summary_table import Summary
from .sentences import counted

_SHARES = ("share_ab", "share_bc", "share_ca")
# Rows of the table; the frame holds all triples.
_MOST_ROWS = 30


@dataclass(frozen=True, slots=True, eq=False)
class CycleResults:
    """Triples of models a > b > c > a; :meth:`RankResults.cycles` returns an object of this class.

    Attributes
    ----------
    result_frame : DataFrame
        A row per certified triple, the smallest p-value first: ``a b c p_adjusted``. Every model beats the next one,
        and c beats a; a has the highest score of the three.
    shares : DataFrame
        Win shares in the same triples: ``share_ab``, ``share_bc`` and ``share_ca``.
    n_raw : int
        Number of triples a > b > c > a in the estimates, certified or not.
    n_triples : int
        Number of triples of models all three of whose pairs are compared.
    n_pairs : int
        Number of compared pairs, for which p-values are adjusted.
    alpha : float
        Largest adjusted p-value of a certified triple.
    closest : tuple, or None
        The models of the triple with the smallest p-value, and this p-value; None where the estimates have no triple.
    method : {"max-t", "sidak"}
        How p-values are adjusted.
    functional : str
        The functional of the fit, for the title.

    Examples
    --------
    >>> import dmlrank as dr
    >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
    >>> cycles = res.cycles()
    >>> len(cycles.result_frame), cycles.n_triples
    (0, 56)
    """

    result_frame: pd.DataFrame
    shares: pd.DataFrame
    n_raw: int
    n_triples: int
    n_pairs: int
    alpha: float
    closest: tuple[str, str, str, float] | None
    method: str
    functional: str

    def __len__(self) -> int:
        return len(self.result_frame)

    def __str__(self) -> str:
        return self.summary().as_text()

    def __repr__(self) -> str:
        return f"<CycleResults: {len(self)} certified of {self.n_raw} in the estimates>"

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def summary(self, title: str | None = None) -> Summary:
        """Return the table for a report; with more than 30 triples, the 30 with the smallest p-values.

        Parameters
        ----------
        title : str, optional
            Stands above the table in place of the default title.

        Returns
        -------
        Summary
            It has ``as_text()``, ``as_html()``, ``as_latex()``, ``as_markdown()`` and ``as_csv()``.
        """
        triples = self.result_frame[["a", "b", "c"]].head(_MOST_ROWS).to_numpy(dtype=object)
        shares = self.shares[list(_SHARES)].head(_MOST_ROWS).to_numpy(dtype=float)
        p_values = self.result_frame["p_adjusted"].head(_MOST_ROWS).to_numpy(dtype=float)
        rows = [
            (f"{a} > {b} > {c} > {a}", *(f"{share:.2f}" for share in shares[row]), p_value_text(float(p_values[row])))
            for row, (a, b, c) in enumerate(triples)
        ]
        if not rows:
            rows.append(("(no certified cycle)", "", "", "", ""))
        header = (
            ("Certified cycles:", f"{len(self):,}", "In the estimates:", f"{self.n_raw:,}"),
            ("Level:", f"{100 * (1 - self.alpha):g} %", "Compared triples:", f"{self.n_triples:,}"),
        )
        columns = (("a beats b", 1), ("b beats c", 1), ("c beats a", 1), ("adj. P", 1))
        return Summary("Cycles of preferences", header, columns, tuple(rows), self._notes()).with_title(title)

    def _notes(self) -> tuple[str, ...]:
        """Return the notes: what a certified cycle is, what the raw number means, and the closest triple."""
        method = "max-t" if self.method == "max-t" else "Sidak's bound"
        notes = [
            f"A cycle is a triple of models a > b > c > a, where > means a win share above one half. A cycle is "
            f"certified if all three win shares differ from one half with p-values that are adjusted for all "
            f"{counted(self.n_pairs, 'compared pair')} ({method}). The probability that any certified triple is no "
            f"cycle is at most {self.alpha:g}.",
            "The estimates contain no cycle."
            if not self.n_raw
            else f"The estimates contain {counted(self.n_raw, 'cycle')}, by chance or in truth: models of nearly equal "
            f"strength form cycles in every sample.",
        ]
        if len(self) > _MOST_ROWS:
            notes.append(f"The table shows {_MOST_ROWS} of {len(self):,} certified cycles; result_frame has all.")
        if not len(self) and self.closest:
            a, b, c, p = self.closest
            notes.append(
                f"The triple that comes closest is {a} > {b} > {c} > {a} with an adjusted p-value of {p_value_text(p)}."
            )
        return tuple(notes)
