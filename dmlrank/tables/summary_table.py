"""The class of every table that a result shows: title, cells and notes, apart from text, HTML or LaTeX markup."""

from __future__ import annotations

from dataclasses import replace

from .._utils.argument_checks import check_text
from .._utils.declared_types import checked
from .forms import TableContent


class Summary(TableContent):
    """A summary table, which can be written as text, HTML, LaTeX, Markdown and CSV.

    Attributes
    ----------
    title : str
        Stands above the table.
    header : tuple of tuple of str
        Lines above the table, each with two pairs of label and value (four texts) or one pair (two texts), whose value
        may be a long sentence. May be empty.
    columns : tuple of (str, int)
        Head and span of every column after the first one: the span is the number of columns that share the head.
    rows : tuple of tuple of str
        Name and cells of every row.
    notes : tuple of str
        Sentences below the table.
    row_head : str
        Head of the first column; text and HTML show it only if the first column does not hold the rows' names.
    name_place : int
        The column that holds the rows' names. The columns up to this one are repeated where a table is divided.
    text_columns : tuple of int
        Further columns that hold text and are aligned left.
    heads_together : int
        Number of neighbouring heads whose columns stay together where a table is divided.
    column_heads : tuple of str
        A head of its own for every column after the first one, for Markdown and CSV, which have no heads over several
        columns. Empty: a head over two columns becomes "... lower" and "... upper", the heads of an interval.
    numbered : bool
        Whether the notes have numbers.

    Examples
    --------
    >>> table = Summary("Scores", (("Functional:", "bt", "Votes:", "100"),), (("coef", 1),), (("gpt-4", "0.8"),), ())
    >>> print(table.as_csv())
    model,coef
    gpt-4,0.8
    <BLANKLINE>
    """

    __slots__ = ()

    def __str__(self) -> str:
        return self.as_text()

    def __repr__(self) -> str:
        return self.as_text()

    def _repr_html_(self) -> str:
        return self.as_html()

    def _repr_latex_(self) -> None:
        """Return nothing, because notebooks show LaTeX only where it is a formula."""

    def with_title(self, title: str | None) -> Summary:
        """Return the table under another title, or as it is where the title is None."""
        if title is None:
            return self
        check_text("title", title)
        return replace(self, title=title)

    def with_notes(self, *notes: str) -> Summary:
        """Return the table with further notes before its own ones; empty notes are left out."""
        return replace(self, notes=(*filter(None, notes), *self.notes))

    def as_latex(self, *, longtable: bool | None = None, label: str | None = None) -> str:
        r"""Return the table as LaTeX; the document needs ``\usepackage{booktabs,longtable}``.

        The table is set in small and is as wide as its columns are. Where that is wider than a line, show fewer models
        or columns, or turn the page.

        Parameters
        ----------
        longtable : bool, optional
            Whether the table may break over pages, with its heads repeated. None: only if it has more than 40 rows. A
            ``longtable`` cannot stand in a document of two columns.
        label : str, optional
            Name for ``\ref``, such as ``"tab:scores"``.
        """
        from .latex import latex_table

        return latex_table(self, longtable=longtable, label=label)


class Summarised:
    """An object that prints as its summary table, in notebooks as HTML; its methods check what they are given."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        checked(cls)

    def summary(self) -> Summary:
        """Return the table for a report."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.summary().as_text()

    def _repr_html_(self) -> str:
        return self.summary().as_html()
