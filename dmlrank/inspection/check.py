"""The result of a check of data before a fit: twelve frames and a table of problems, shown as text, page and JSON."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_float_dtype, is_numeric_dtype

from ..report.phrases import AS_MET
from ..report.render_page import Masthead, write_page
from ..tables.display_text import isolated, p_value_text, wrapped
from ..tables.summary_table import Summarised, Summary

_TITLE = "Check before a fit"
_NO_PROBLEMS = "No problems were found."
# Rows of a frame that text and page show, and the width of the text.
_ROWS_SHOWN, _WIDTH = 50, 94
# Frames that are shown below the table of models, with what has to be said of them; text leaves the long ones out.
_SHOWN = {
    "tasks": "",
    "labels": "",
    "order": "balance: chi-squared test that both orders are equally frequent within pairs. first wins: share of the "
    "comparisons that the model shown first wins; adjusted: if both display orders of every pair count equally.",
    "settings": "Each row is a choice: whether display order matters, how many labels a pair needs to be compared, and "
    f"how pairs are weighted; weights by counts ask {AS_MET}. False, 1, counts is pairs='arena'. Standard errors (se) "
    "of bt are relative to those of a Bradley-Terry model fitted to all votes by maximum likelihood; they follow from "
    "the numbers of labels alone.",
    "clusters": "effective: the number of clusters of one size that tell as much.",
    "columns": "missing: rows in which a needed value is missing. repeats: prompts that repeat another prompt's value.",
    "grades": "",
    "pairs": "Pairs with the fewest labelled prompts stand first.",
    "features": "",
}
_ON_PAGE_ONLY = ("pairs", "features")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Check(Summarised):
    """Result of :func:`dmlrank.check`; printing it shows a page.

    Each frame is indexed by what its rows are about. Frames that have nothing to say of the data are empty: those of
    votes where the data are scores, those of display order where there is none.

    Attributes
    ----------
    problems : DataFrame
        A row per problem of a fit, the gravest first: its ``severity``, "error" where a fit would end with an error and
        "warning" elsewhere; ``where``, the frame that has more on it, or an empty text; what was ``found``; and
        ``advice``.
    options : DataFrame
        By option: the ``value`` that a fit would use, and the ``reason`` where it was chosen.
    counts : DataFrame
        By what was counted: ``number`` and ``note``, from rows to the size of a fit.
    labels : DataFrame
        By label that occurs: what it is ``read_as``, its ``votes`` and their ``share``.
    features : DataFrame
        The names of the features, as index.
    columns : DataFrame
        By column of the data with something to say: rows in which a needed value is ``missing``, and ``repeats``:
        prompts that repeat another prompt's value although these differ between nearly all prompts.
    models : DataFrame
        By model, of votes: ``comparisons votes opponents share_first win_share component``. Opponents are those on the
        graph, ``win_share`` counts a tie as one half, components are numbered from the largest on. Of scores:
        ``prompts`` with a score, prompts where it is ``missing``, ``scores`` (runs with one), ``lost_runs`` (without
        one, where there are several; also those without a row), the ``mean`` over prompts, or over tasks that all count
        the same, and ``errors`` (rows without a score that name an error, in a column of this name).
    tasks : DataFrame
        By model and task: the columns of ``models`` for scores, where these have a column ``task``.
    pairs : DataFrame
        By unordered pair, ``first`` and ``second``: labelled ``contexts``, those ``shown_first`` and ``shown_second``
        with ``first`` there, ``votes``, ``share_first``, the ``win_share`` of ``first``, and whether a fit would have
        the pair ``compared``.
    settings : DataFrame
        By ``position_bias min_labels edge_weights``: ``pairs`` compared, their ``votes``, the ``share`` of all votes,
        ``least_share`` (the smallest share of a model's votes that is used), ``se_median`` and ``se_largest`` over the
        models (standard errors relative to maximum likelihood), and whether they are the ``chosen`` ones.
    order : DataFrame
        By test of display order: ``value``, ``std_error``, ``df`` and ``p_value``.
    clusters : DataFrame
        By grouping column: ``clusters``, the ``effective`` number of clusters of one size, their ``smallest median
        largest`` size, and ``of``, the unit of the sizes.
    grades : DataFrame
        With judges of scores: what is graded and judged, whether graded answers are like the others, what grades are
        worth.

    Examples
    --------
    >>> import dmlrank as dr
    >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
    >>> check = dr.check("winner ~ 1 | model_a + model_b", battles.replace({"model_a": {"gpt-4": "GPT-4"}}))
    >>> check.problems["found"][0][:48]
    '2 names differ only by letter case, inner blanks'
    """

    problems: pd.DataFrame
    options: pd.DataFrame
    counts: pd.DataFrame
    labels: pd.DataFrame
    features: pd.DataFrame
    columns: pd.DataFrame
    models: pd.DataFrame
    tasks: pd.DataFrame
    pairs: pd.DataFrame
    settings: pd.DataFrame
    order: pd.DataFrame
    clusters: pd.DataFrame
    grades: pd.DataFrame

    def frames(self) -> Mapping[str, pd.DataFrame]:
        """Return the problems and the twelve frames by name, each with its index as columns."""
        return {each.name: getattr(self, each.name).reset_index() for each in fields(self)}

    def as_text(self) -> str:
        """Return the page as plain text, without the pairs and the names of the features."""
        below = self._tables(name for name in _SHOWN if name not in _ON_PAGE_ONLY)
        problems = [f"[{number}] {text}" for number, text in enumerate(self._sentences(), start=1)]
        lines = [line for text in problems or [_NO_PROBLEMS] for line in wrapped(isolated(text), _WIDTH)]
        return "\n\n".join(
            [*(table.as_text(_WIDTH) for table in (replace(self.summary(), notes=()), *below)), "\n".join(lines)]
        )

    def summary(self, title: str | None = None) -> Summary:
        """Return options, counts, models and problems as a table for a report.

        Parameters
        ----------
        title : str, optional
            Stands above the table in place of the default title.

        Returns
        -------
        Summary
            It has ``as_text()``, ``as_html()``, ``as_latex()``, ``as_markdown()`` and ``as_csv()``.
        """
        merit = self.models["win_share" if "win_share" in self.models else "mean"]
        best_first = np.argsort(-merit.fillna(-np.inf).to_numpy(), kind="stable")
        table = _table(_TITLE, self.models.iloc[best_first], (*self._sentences(),) or (_NO_PROBLEMS,))
        return replace(table, header=tuple(self._facts())).with_title(title)

    def report(self, path: str | os.PathLike[str] | None = None, *, title: str | None = None) -> str:
        """Write the check as one HTML file, which loads nothing from the network; this needs Jinja2.

        Parameters
        ----------
        path : path-like, optional
            Where to write; None returns the text.
        title : str, optional
            Title of the page.

        Returns
        -------
        str
            The path; the text of the page where ``path`` is None.

        Raises
        ------
        FileWriteError
            If the file cannot be written. An earlier file stays as it was.
        """
        tables = [replace(self.summary("Models"), notes=()), *self._tables(_SHOWN)]
        return write_page(path, Masthead(_TITLE if title is None else title), [], tables, problems=self._sentences())

    def _sentences(self) -> list[str]:
        """Return what was found and what to do about it, by problem."""
        return [f"{found} {advice}".strip() for found, advice in self.problems[["found", "advice"]].to_numpy()]

    def _facts(self) -> list[tuple[str, ...]]:
        """Return options and counts as lines above a table, short counts two in a line."""
        lines, short = [], []
        for frame, value in ((self.options, "value"), (self.counts, "number")):
            for name, text, more in zip(frame.index, _texts(frame[value]), frame.iloc[:, 1], strict=True):
                fact = (f"{_head(name).capitalize()}:", text)
                if more or value == "value":
                    lines.append((fact[0], f"{text} ({more})" if text and more else text or more))
                elif text != "0":
                    short.append(fact)
        return [*lines, *((*fact, *other) for fact, other in zip(short[::2], [*short[1::2], ("", "")], strict=False))]

    def _tables(self, names: Iterable[str]) -> list[Summary]:
        """Return the frames of these names that are not empty as tables."""
        tables = []
        for name in names:
            frame, notes = getattr(self, name), [_SHOWN[name]]
            if len(frame) > _ROWS_SHOWN:
                notes.append(f"These are {_ROWS_SHOWN} of {len(frame):,} rows.")
            if len(frame):
                tables.append(_table(name.capitalize(), frame.head(_ROWS_SHOWN), tuple(filter(None, notes))))
        return tables

    def __str__(self) -> str:
        return self.as_text()

    __repr__ = __str__


def _table(title: str, frame: pd.DataFrame, notes: tuple[str, ...]) -> Summary:
    """Return a frame as a table whose rows have the names of the index."""
    names = zip(*(_texts(level) for _, level in frame.index.to_frame().items()), strict=True)
    cells = [_texts(column) for _, column in frame.items()]
    rows = tuple((", ".join(of), *(column[place] for column in cells)) for place, of in enumerate(names))
    heads = tuple((_head(name), 1) for name in frame.columns)
    texts = tuple(place for place, kind in enumerate(frame.dtypes, start=1) if not is_numeric_dtype(kind))
    return Summary(title, (), heads, rows, notes, ", ".join(map(_head, frame.index.names)), text_columns=texts)


def _head(name: object) -> str:
    return str(name).replace("_", " ")


def _texts(column: pd.Series) -> list[str]:
    """Return texts, yes or no, p-values, counts, or three decimals in columns with fractions; nothing for no number."""
    digits = 3 if is_float_dtype(column) and (column.dropna() % 1 != 0).any() else 0

    def text(value: Any) -> str:
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, str) or pd.isna(value):
            return value if isinstance(value, str) else ""
        return p_value_text(value) if str(column.name).startswith("p_") else f"{value:,.{digits}f}"

    return [text(value) for value in column.tolist()]
