"""The result of a fragility analysis: how many units were dropped to turn each result, and which."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .._utils.atomic_write import write_file
from ..data.preferences import FloatArray
from ..tables.summary_table import Summarised, Summary
from .fragility import MAX_REFITS


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FragilityResults(Summarised):
    """How few votes, contexts or groups of rows turn results; :meth:`RankResults.fragility` returns one.

    Attributes
    ----------
    result_frame : DataFrame
        A row per result: ``hypothesis dropped share before after confirmed``. ``dropped`` is the number of units (NA if
        half of the units do not suffice), ``share`` their share of all units, ``before`` the estimate of the fit,
        ``after`` the estimate of the refit without them, ``confirmed`` whether the result turned in the refit.
    dropped : mapping of str to list
        For each hypothesis, the identifiers of the units that were dropped, the most influential first: contexts as
        ``context=`` identifies them, positions of rows in the frame for votes, values of the column for other units.
    unit : str
        Kind of the units that are dropped: "context", "vote", "cluster" or the name of a column.
    target : {"sign", "significance"}
        A result turns when the sign of the contrast changes, or when its simultaneous interval contains the value.
    n_units : int
        Number of units.
    std_error : ndarray, shape (J,)
        Standard errors of the contrasts before units are dropped.
    notes : tuple of str
        Remarks about single results.

    Examples
    --------
    >>> import dmlrank as dr
    >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
    >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", battles, rng=0)
    >>> fragility = res.fragility()
    >>> fragility.result_frame["hypothesis"].tolist(), len(fragility.dropped["gpt-4 - claude-v1"])
    (['gpt-4 - claude-v1'], 10)
    """

    result_frame: pd.DataFrame
    dropped: Mapping[str, list[object]]
    unit: str
    target: str
    n_units: int
    std_error: FloatArray
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<FragilityResults: {len(self.result_frame)} results, unit {self.unit!r}, target {self.target!r}>"

    def summary(self, title: str | None = None) -> Summary:
        """Return the table for a report.

        Parameters
        ----------
        title : str, optional
            Stands above the table in place of the default title.

        Returns
        -------
        Summary
            It has ``as_text()``, ``as_html()``, ``as_latex()``, ``as_markdown()`` and ``as_csv()``.
        """
        frame, digits = self.result_frame, _digits(self.std_error)
        rows = tuple(
            (
                str(name),
                "not found" if pd.isna(number) else f"{int(number):,}",
                "-" if np.isnan(share) else f"{100 * share:.3g} %",
                f"{before:.{digits}f}",
                "-" if np.isnan(after) else f"{after:.{digits}f}",
                "yes" if confirmed else "no",
            )
            for name, number, share, before, after, confirmed in frame.itertuples(index=False, name=None)
        )
        columns = tuple((head, 1) for head in ("dropped", "share", "before", "after", "confirmed"))
        header = (
            ("Dropped unit:", self.unit, "No. Units:", f"{self.n_units:,}"),
            ("Result:", {"sign": "sign of the difference"}.get(self.target, "significance"), "Confirmed by:", "refits"),
        )
        return Summary("Fragility of the Ranking", header, columns, rows, self._notes(), "result").with_title(title)

    def _notes(self) -> tuple[str, ...]:
        """Return the notes: what was dropped, and how the numbers are found."""
        units = {"vote": "labels", "context": "prompts"}.get(self.unit, f"values of {self.unit!r}")
        turned = (
            "the difference changes its sign"
            if self.target == "sign"
            else "the simultaneous interval contains the hypothetical value"
        )
        return (
            f"dropped: the number of {units} that have to be left out until {turned}. The most influential ones are "
            f"left out first. Influence values predict the number; refits of the whole model with the same options and "
            f"seed confirm or correct it (at most {MAX_REFITS} refits for each result). A smaller set may exist that "
            f"this search does not find.",
            "A small share does not mean that a result is wrong. It means that few units decide the result. Standard "
            "errors measure something else: how much estimates vary between samples of the same population.",
            *self.notes,
        )

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Return or write the table and the identifiers as JSON.

        Parameters
        ----------
        path : path-like, optional
            Where to write; None returns the text.

        Returns
        -------
        str or None
            The text; None where it was written to a file.
        """
        frame = self.result_frame.astype(object).where(self.result_frame.notna(), None)
        content = {
            "unit": self.unit,
            "target": self.target,
            "n_units": self.n_units,
            "result_frame": frame.to_dict("records"),
            "dropped": {name: [str(identifier) for identifier in units] for name, units in self.dropped.items()},
        }
        text = json.dumps(content, indent=1, default=_plain) + "\n"
        if path is None:
            return text
        write_file(path, text)
        return None


def _plain(value: object) -> object:
    """Return a number of NumPy as a number of Python, and any other value as text."""
    return value.item() if isinstance(value, np.generic) else str(value)


def _digits(std_error: FloatArray) -> int:
    """Return the number of decimals of estimates: the smallest standard error has two significant figures."""
    positive = std_error[std_error > 0]
    return int(np.clip(1 - np.floor(np.log10(positive.min())), 1, 6)) if len(positive) else 3
