"""What a look at data before a fit finds."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from ..data.graph import Graph
from .cost import Cost
from .counts import OrderTest, PositionEffect, Repeats
from .render import as_html, as_text


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Check:
    """What :func:`dmlrank.check` has found; printing it shows a page.

    Attributes
    ----------
    formula : str
    context : tuple of str
        Columns that identify a context; empty where every row is one.
    min_labels : int
    n_rows, n_dropped, n_contexts, n_unlabelled, n_votes, n_comparisons : int
        Rows read, rows that miss a needed value, contexts (labelled or not), contexts without a label, votes, and
        labelled (context, ordered pair) cells.
    features : tuple of str
        Names of the p features.
    categories : tuple of str
        Outcome categories in the order of every array.
    labels : DataFrame
        ``label read_as votes share``: a row per label found.
    models : DataFrame
        By model: ``contexts votes opponents share_first win_share component``. Opponents are those on the graph,
        ``share_first`` the share of its contexts in which it was shown first, ``win_share`` counts ties one half.
    pairs : DataFrame
        A row per unordered pair: ``first second contexts shown_first shown_second votes share_first p_balanced
        win_share compared``. ``shown_first`` counts contexts with ``first`` shown first, ``p_balanced`` is an exact
        test that both orders are as frequent, ``win_share`` is that of ``first``.
    graph : Graph
        Pairs with at least ``min_labels`` labelled contexts in both orders; it may be disconnected.
    components : tuple of tuple of str
        Models of every connected component, the largest first.
    order : OrderTest
    position : PositionEffect
    repeats : Repeats
    same_prompt : dict of str to int
        Contexts that repeat a value of a text, vector or number that tells nearly all contexts apart.
    clusters : DataFrame
        By grouping column: ``clusters smallest median largest`` and ``of``, what is counted.
    missing : Series
        Rows that miss a needed value, by column.
    cost : Cost
        Size of a fit, and an estimate of its time.
    problems : tuple of str
        What is wrong or worth knowing, with advice; empty where nothing is.
    """

    formula: str
    context: tuple[str, ...]
    min_labels: int
    n_rows: int
    n_dropped: int
    n_contexts: int
    n_unlabelled: int
    n_votes: int
    n_comparisons: int
    features: tuple[str, ...]
    categories: tuple[str, ...]
    labels: pd.DataFrame
    models: pd.DataFrame
    pairs: pd.DataFrame
    graph: Graph
    components: tuple[tuple[str, ...], ...]
    order: OrderTest
    position: PositionEffect
    repeats: Repeats
    same_prompt: dict[str, int]
    clusters: pd.DataFrame
    missing: pd.Series
    cost: Cost
    problems: tuple[str, ...]

    def as_text(self) -> str:
        """The page as plain text."""
        return as_text(self)

    def as_html(self) -> str:
        """The page as HTML; names are escaped."""
        return as_html(self)

    def __str__(self) -> str:
        return self.as_text()

    def __repr__(self) -> str:
        return self.as_text()

    def _repr_html_(self) -> str:
        return self.as_html()
