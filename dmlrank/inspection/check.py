"""What a look at data before a fit finds, and how it is written: text and HTML."""

from __future__ import annotations

import html
import textwrap
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .._utils.number_text import p_value_clause
from ..data.graph import Graph
from .cost import Cost
from .counts import FirstPositionWins, OrderTest, Repeats

_WIDTH = 94
_TITLE = "Check before a fit"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Check:
    """What :func:`dmlrank.check` has found; printing it shows a page.

    Attributes
    ----------
    formula : str
    context : tuple of str
        Columns that identify a context; empty where every row is one.
    min_labels : int
    position_bias : bool
        Whether showing a pair the other way round makes it another pair.
    order_reason : str
        What decided that; empty where the caller did.
    settings : DataFrame
        What choices of ``position_bias min_labels edge_weights`` cost: ``pairs votes share least_share se_median
        se_largest``, standard errors relative to maximum likelihood's, see
        :func:`dmlrank.inspection.settings.settings_table`.
    edge_weights : str
        How pairs are weighted: ``"equal"``, ``"counts"`` or ``"given"``.
    n_rows, n_dropped, n_unreadable, n_contexts, n_unlabelled, n_votes, n_comparisons : int
        Rows read, rows that miss a needed value, rows that a fit refuses (a model against itself, unknown labels,
        winners that were not compared), contexts (labelled or not), contexts without a label, votes, and labelled
        (context, ordered pair) cells.
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
        Pairs that a fit would use: those with at least ``min_labels`` labelled contexts (in both orders where order
        matters), or those that ``graph=`` names; it may be disconnected.
    components : tuple of tuple of str
        Models of every connected component, the largest first.
    order : OrderTest
    position : FirstPositionWins
    repeats : Repeats
    same_prompt : dict of str to int
        Contexts that repeat a value of a text, vector or number that tells nearly all contexts apart.
    clusters : DataFrame
        By grouping column: ``clusters smallest median largest`` and ``of``, what is counted.
    missing : Series
        Rows that miss a needed value, by column.
    similar_models : list of tuple of str
        Models whose names differ by blanks, letter case or Unicode form only.
    cost : Cost
        Size of a fit.
    problems : tuple of str
        What is wrong or worth knowing, with advice; empty where nothing is.
    """

    formula: str
    context: tuple[str, ...]
    min_labels: int
    position_bias: bool
    order_reason: str
    settings: pd.DataFrame
    edge_weights: str
    n_rows: int
    n_dropped: int
    n_unreadable: int
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
    position: FirstPositionWins
    repeats: Repeats
    same_prompt: dict[str, int]
    similar_models: list[tuple[str, ...]]
    clusters: pd.DataFrame
    missing: pd.Series
    cost: Cost
    problems: tuple[str, ...]

    def as_text(self) -> str:
        """The page as plain text."""
        return _as_text(self)

    def as_html(self) -> str:
        """The page as HTML; names are escaped."""
        return _as_html(self)

    def __str__(self) -> str:
        return self.as_text()

    def __repr__(self) -> str:
        return self.as_text()

    def _repr_html_(self) -> str:
        return self.as_html()


def _as_text(check: Check) -> str:
    """The page as plain text."""
    lines = [_TITLE.center(_WIDTH).rstrip(), "=" * _WIDTH]
    for name, fact in facts(check):
        lines += textwrap.wrap(f"{name:<20}{fact}", _WIDTH, subsequent_indent=" " * 20, break_on_hyphens=False)
    lines += ["=" * _WIDTH, *_shown_models(check).to_string().splitlines(), "=" * _WIDTH]
    for number, problem in enumerate(check.problems, start=1):
        lines += textwrap.wrap(f"[{number}] {problem}", _WIDTH, subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(lines if check.problems else [*lines, "Nothing stands in the way of a fit."])


def _as_html(check: Check) -> str:
    """The page as HTML; names are escaped."""
    rows = "".join(f"<tr><th>{html.escape(n)}</th><td>{html.escape(f)}</td></tr>\n" for n, f in facts(check))
    problems = "".join(f"<li>{html.escape(problem)}</li>\n" for problem in check.problems)
    return (
        f'<table class="simpletable">\n<caption>{_TITLE}</caption>\n{rows}</table>\n'
        f"{_shown_models(check).to_html(border=0)}\n"
        + (f"<ol>\n{problems}</ol>" if problems else "<p>Nothing stands in the way of a fit.</p>")
    )


def facts(check: Check) -> list[tuple[str, str]]:
    """What was found, as names and sentences."""
    ids = ", ".join(check.context) or "every row is one"
    p = len(check.features)
    shown = ", ".join(check.features[:6]) + (", ..." if p > 6 else "")
    lines = [
        ("Formula:", check.formula),
        ("Rows:", _rows(check)),
        ("Contexts:", f"{check.n_contexts:,} ({ids}), {check.n_unlabelled:,} without a label"),
        ("Votes:", f"{check.n_votes:,} on {check.n_comparisons:,} comparisons{_repeats(check)}"),
        ("Labels:", "; ".join(_label(*row) for row in check.labels[["label", "read_as", "votes"]].to_numpy())),
        ("Features:", f"{p}: {shown}" if p else "none"),
        ("Models:", f"{len(check.models)}, in {len(check.components)} connected component" + "s" * _many(check)),
        ("Pairs compared:", _pairs(check)),
        ("Settings:", _settings(check)),
        ("Display order:", _order(check)),
        ("First position:", _position(check)),
    ]
    for name, row in check.clusters.iterrows():
        sizes = f"{row['smallest']:,} to {row['largest']:,} {row['of']}, median {row['median']:g}"
        lines.append(("Clusters:", f"{row['clusters']:,} {name} ({sizes})"))
    lacking = check.missing[check.missing > 0]
    lines.append(("Missing values:", ", ".join(f"{name} {count:,}" for name, count in lacking.items()) or "none"))
    lines.append(("Size of a fit:", _size(check)))
    return lines


def _rows(check: Check) -> str:
    missing = f", {check.n_dropped:,} of them miss a value" if check.n_dropped else ""
    return f"{check.n_rows:,}{missing}" + (f", {check.n_unreadable:,} cannot be read" if check.n_unreadable else "")


def _label(label: str, read_as: str, votes: int) -> str:
    meaning = f"{read_as} wins" if read_as in ("first", "second") else read_as.replace("_", " ")
    return f"{label} = {meaning} ({votes:,})"


def _many(check: Check) -> bool:
    return len(check.components) != 1


def _repeats(check: Check) -> str:
    again = check.repeats
    if not again.contexts:
        return ""
    return f"; {again.contexts:,} contexts have more than one vote (at most {again.most_votes:,})"


def _pairs(check: Check) -> str:
    labelled = check.pairs["contexts"] > 0
    thin = int((labelled & ~check.pairs["compared"]).sum())
    each = " in each order" if check.position_bias else ""
    left_out = f"; {thin} with too few labels (min_labels={check.min_labels}{each})" if thin else ""
    never = f"; {int((~labelled).sum())} never shown" if not labelled.all() else ""
    smallest = check.pairs.loc[check.pairs["compared"], "contexts"].min()
    least = f"; the smallest has {smallest:,} contexts" if np.isfinite(smallest) else ""
    weighted = "" if check.edge_weights == "equal" else f"; edge weights: {check.edge_weights}"
    return f"{check.graph.n_edges} of {len(check.pairs)}{left_out}{never}{least}{weighted}"


def _settings(check: Check) -> str:
    """Votes used, and what other settings cost."""
    table = check.settings
    own = table[(table["position_bias"] == check.position_bias) & (table["min_labels"] == check.min_labels)]
    asked, counted = own.iloc[0], own.iloc[1]
    why = f" ({check.order_reason})" if check.order_reason else ""
    text = (
        f"display order {'matters' if check.position_bias else 'ignored'}{why}; pairs with min_labels have "
        f"{asked['votes']:,} votes ({100 * asked['share']:.3g} %; {100 * asked['least_share']:.3g} % of the model that "
        f"loses most)"
    )
    if not np.isfinite(asked["se_median"]):
        return text
    return (
        f"{text}; standard errors of bt about {asked['se_median']:.2f} times those of maximum likelihood (at most "
        f"{asked['se_largest']:.2f}), with edge_weights='counts' {counted['se_median']:.2f} "
        f"({counted['se_largest']:.2f}); .settings has other choices"
    )


def _order(check: Check) -> str:
    test = check.order
    return f"balanced within pairs: chi2 = {test.statistic:.1f}, df = {test.df}, p {p_value_clause(test.p_value)}"


def _position(check: Check) -> str:
    effect = check.position
    adjusted = f"; both orders weighted alike {effect.adjusted:.3f}, p {p_value_clause(effect.p_value)} against 1/2"
    return f"wins {effect.share:.3f}, ties one half" + (adjusted if np.isfinite(effect.p_value) else "")


def _size(check: Check) -> str:
    size = check.cost
    return (
        f"{size.training_rows:,} comparisons to learn from in each fold, {size.probabilities:,} probabilities, "
        f"{size.megabytes:,.1f} MB of features"
    )


def _shown_models(check: Check) -> pd.DataFrame:
    table = check.models.sort_values("win_share", ascending=False).rename_axis(index=None)
    return table.round({"share_first": 3, "win_share": 3})
