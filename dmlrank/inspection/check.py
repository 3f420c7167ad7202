"""The result of a check of data before a fit, and the page that shows it as text or HTML."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from .._utils.number_text import p_value_clause
from ..data.derived_pairs import DERIVED_KINDS
from ..data.graph import Graph
from ..report.leaderboard import ShownModels, choose_models
from ..report.page.render_page import render_page, write_page
from ..report.statements import counted
from ..tables.summary_table import Summary
from .time_check import TimeCheck, time_facts, time_tables

_TITLE = "Check before a fit"
_NO_PROBLEMS = "No problems were found."
# Number of pairs that the page of a check shows.
_PAIRS_SHOWN = 50
_MEANINGS = {"first": "first one wins", "second": "second one wins"}
# Columns of the table of pairs with their heads.
_PAIR_COLUMNS = {
    "contexts": "prompts",
    "votes": "votes",
    "share_first": "first one shown first",
    "win_share": "first one wins",
    "compared": "compared",
}
_SETTINGS_COLUMNS = ["position_bias", "min_labels", "edge_weights", "pairs", "votes", "share", "least_share"]


@dataclass(frozen=True, slots=True)
class OrderTest:
    """Chi-squared test that in every pair each model is shown first equally often.

    statistic: Sum of (n_jk - n_kj)^2 / (n_jk + n_kj) over pairs.
    df: Degrees of freedom: the number of pairs with labels.
    p_value: From the chi-squared distribution.
    one_order: Pairs that were shown in one order only.
    """

    statistic: float
    df: int
    p_value: float
    one_order: int


@dataclass(frozen=True, slots=True)
class FirstPositionWins:
    """How often the model shown first wins.

    share: Share of comparisons won by the model shown first; a tie counts one half.
    adjusted: The same share with both orders of every pair weighted alike, so that it does not grow where strong models
        are shown first more often; NaN where no pair was shown in both orders.
    std_error: Standard error of ``adjusted`` if labelled cells are independent.
    p_value: Two-sided p-value of ``adjusted`` against one half; NaN without a standard error.
    """

    share: float
    adjusted: float
    std_error: float
    p_value: float


@dataclass(frozen=True, slots=True)
class Repeats:
    """Contexts with more than one vote, and cells (a context with an ordered pair) with more than one vote.

    contexts: Contexts with more than one vote.
    most_votes: Most votes on one context.
    cells: Cells with more than one vote.
    agreement: Share of these cells in which all votes agree; NaN where there are none.
    """

    contexts: int
    most_votes: int
    cells: int
    agreement: float


@dataclass(frozen=True, slots=True)
class Cost:
    """Size of a fit, without its time, which depends on the machine and on the rounds of boosting.

    training_rows: Labelled comparisons that the models of a fold learn from.
    probabilities: Numbers in mu, n K (K - 1) C. They are computed in chunks and never held together.
    megabytes: Memory of the features.
    """

    training_rows: int
    probabilities: int
    megabytes: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Check:
    """Result of :func:`dmlrank.check`; printing it shows a page.

    Attributes
    ----------
    formula : str
        The formula of the fit.
    context : tuple of str
        Columns that identify a context; empty where every row is a context.
    min_labels : int
        Labelled contexts that a pair needs to be compared.
    position_bias : bool
        Whether the two display orders of a pair are two ordered pairs.
    order_reason : str
        Reason for ``position_bias``; empty where the caller decided.
    settings : DataFrame
        Votes used and precision for choices of ``position_bias min_labels edge_weights``: ``pairs`` compared, their
        ``votes``, the ``share`` of all votes, ``least_share`` (the smallest share of a model's votes that is used), and
        ``se_median`` and ``se_largest`` over the models: standard errors relative to maximum likelihood.
    edge_weights : str
        Weights of the pairs: ``"equal"``, ``"counts"`` or ``"given"``.
    n_rows : int
        Rows of the frame.
    n_dropped : int
        Rows in which a needed value is missing.
    n_unreadable : int
        Rows that a fit refuses: a model against itself, unknown labels, winners that were not compared, preferences
        outside [0, 1], probabilities that do not sum to one.
    n_contexts, n_unlabelled : int
        Contexts, and those of them without a label.
    n_votes : int
        Votes.
    n_comparisons : int
        Labelled cells: a context with an ordered pair.
    features : tuple of str
        Names of the p features.
    categories : tuple of str
        Outcome categories in the order of every array.
    labels : DataFrame
        ``label read_as votes share``: a row per label that occurs.
    models : DataFrame
        By model: ``contexts votes opponents share_first win_share component``. Opponents are those on the graph,
        ``share_first`` is the share of the model's contexts in which it was shown first; ``win_share`` counts a tie as
        one half.
    pairs : DataFrame
        A row per unordered pair: ``first second contexts shown_first shown_second votes share_first p_balanced
        win_share compared``. ``shown_first`` counts contexts with ``first`` shown first. ``p_balanced`` is the p-value
        of an exact test that both orders are equally frequent. ``win_share`` is the share won by ``first``.
    graph : Graph
        Pairs that a fit would use: those with at least ``min_labels`` labelled contexts (in both orders where order
        matters), or those that ``graph=`` names; it may be disconnected.
    components : tuple of tuple of str
        Models of every connected component, the largest first.
    order : OrderTest
        Test that display order is balanced within pairs.
    position : FirstPositionWins
        How often the model shown first wins.
    repeats : Repeats
        Contexts and cells with more than one vote.
    same_prompt : dict of str to int
        By feature: contexts that repeat a value of another context, for features whose values differ between nearly
        all contexts.
    similar_models : list of tuple of str
        Models whose names differ only by blanks, letter case or Unicode form.
    clusters : DataFrame
        By grouping column: ``clusters``, their ``smallest median largest`` size, and ``of``, the unit of the sizes.
    missing : Series
        By column: rows in which a needed value is missing.
    cost : Cost
        Size of a fit.
    problems : tuple of str
        Problems of a fit in sentences with advice, the gravest first; empty where there are none.
    outcome_kind : {"labels", "grades", "preferences", "probabilities", "scores", "ranks"}
        What the outcome holds, or what the pairs are derived from. Pairs derived from scores or ranks have no display
        order; ``order`` and ``position`` then describe the alphabetical order of the models and mean nothing.
    time : TimeCheck or None
        Availability of models, votes by period and drift, with ``time=``: frames ``periods``, ``models``, ``pairs``,
        ``prompts`` and ``votes``.

    Examples
    --------
    >>> import dmlrank as dr
    >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
    >>> check = dr.check("winner ~ 1 | model_a + model_b", battles.replace({"model_a": {"gpt-4": "GPT-4"}}))
    >>> check.problems[0][:40]
    "Are 'GPT-4' and 'gpt-4' the same model? "
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
    outcome_kind: str = "labels"
    time: TimeCheck | None = None

    @property
    def has_display_order(self) -> bool:
        """Whether one model of a pair was shown first; false for pairs derived from scores or ranks."""
        return self.outcome_kind not in DERIVED_KINDS

    def as_text(self) -> str:
        """Return the page as plain text."""
        return self.summary().as_text()

    def as_html(self) -> str:
        """Return the page as HTML; names are escaped."""
        return self.summary().as_html()

    def summary(
        self, title: str | None = None, *, models: Sequence[str] | None = None, top: int | None = None
    ) -> Summary:
        """Return the facts, the table of models and the problems as a table for a report.

        Parameters
        ----------
        title : str, optional
            Stands above the table in place of the default title.
        models : str or sequence of str, optional
            The models that the table shows, in this order; all when None.
        top : int, optional
            Number of models that the table shows, those with the largest shares of wins. Facts and problems refer to
            all models in any case; a note says so.

        Returns
        -------
        Summary
            It has ``as_text()``, ``as_html()``, ``as_latex()``, ``as_markdown()`` and ``as_csv()``.

        Raises
        ------
        UnknownModelError
            If no model has a name of ``models``.
        OptionError
            If ``models`` and ``top`` are both given, or have values that they cannot have.
        """
        ranking = np.argsort(-self.models["win_share"].fillna(-1).to_numpy(), kind="stable").tolist()
        shown = choose_models([str(name) for name in self.models.index], ranking, models, top)
        return _summary(self, shown).with_notes(shown.note("Facts and problems")).with_title(title)

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
        MissingExtraError
            If Jinja2 is not installed.
        FileWriteError
            If the file cannot be written. An earlier file stays as it was.
        """
        heading = _TITLE if title is None else title
        pairs = self.pairs if self.has_display_order else self.pairs.drop(columns="share_first")
        models = replace(self.summary("Models"), notes=())
        tables = [models, _pairs_table(pairs), _labels_table(self.labels), _settings_table(self.settings)]
        tables += [] if self.time is None else time_tables(self.time)
        return write_page(path, render_page(heading, [], tables, problems=self.problems))

    def __str__(self) -> str:
        return self.as_text()

    def __repr__(self) -> str:
        return self.as_text()

    def _repr_html_(self) -> str:
        return self.as_html()


def _summary(check: Check, shown: ShownModels) -> Summary:
    """Return the table of models below the facts, with the problems as notes."""
    # The order of a derived pair is that of the names, which says nothing.
    models = check.models if check.has_display_order else check.models.drop(columns="share_first")
    columns = tuple((str(name).replace("_", " "), 1) for name in models.columns)
    cells = [[_cell(x) for x in row] for row in models.to_numpy(object)]
    names = [str(name) for name in models.index]
    rows = tuple((names[j], *cells[j]) for j in shown.places)
    notes = check.problems or (_NO_PROBLEMS,)
    return Summary(_TITLE, tuple(facts(check)), columns, rows, notes)


def _cell(value: object) -> str:
    """Return a share with three decimals, or a count."""
    return f"{value:.3f}" if isinstance(value, float) else f"{value:,}"


def facts(check: Check) -> list[tuple[str, str]]:
    """Return the facts of the page, each a name and a sentence."""
    identifiers = f"identified by {', '.join(check.context)}" if check.context else "every row is a prompt of its own"
    n_features = len(check.features)
    features = ", ".join(check.features[:6]) + (", ..." if n_features > 6 else "")
    components = counted(len(check.components), "connected component")
    lines = [
        ("Formula:", check.formula),
        ("Rows:", _rows(check)),
        ("Prompts:", f"{check.n_contexts:,} ({identifiers}), {check.n_unlabelled:,} without a label"),
        ("Votes:", f"{check.n_votes:,} on {check.n_comparisons:,} comparisons{_contexts_with_several_votes(check)}"),
        ("Labels:", "; ".join(_label(*row) for row in check.labels[["label", "read_as", "votes"]].to_numpy())),
        ("Features:", f"{n_features}: {features}" if n_features else "none"),
        ("Models:", f"{len(check.models)}, in {components}"),
        ("Pairs compared:", _pairs(check)),
        ("Settings:", _settings(check)),
        *_precision(check),
    ]
    if check.has_display_order:
        test = check.order
        p_value = p_value_clause(test.p_value)
        balance = f"test of balance within pairs: chi2 = {test.statistic:.1f}, df = {test.df}, p {p_value}"
        lines += [("Display order:", balance), ("First position:", _first_position(check))]
    else:
        lines.append(("Display order:", f"none, because the comparisons are derived from {check.outcome_kind}"))
    for name, row in check.clusters.iterrows():
        sizes = f"{row['smallest']:,} to {row['largest']:,} {row['of']}, median {row['median']:g}"
        lines.append(("Clusters:", f"{row['clusters']:,} {name} ({sizes})"))
    if check.time is not None:
        lines += time_facts(check.time)
    missing = check.missing[check.missing > 0]
    lines.append(
        (
            "Missing values:",
            ", ".join(f"{name} in {counted(count, 'row')}" for name, count in missing.items()) or "none",
        )
    )
    size = check.cost
    lines.append(
        (
            "Size of a fit:",
            f"{size.training_rows:,} comparisons to learn from in each fold, {size.probabilities:,} probabilities to "
            f"predict, {size.megabytes:,.1f} MB of features",
        )
    )
    return lines


def _rows(check: Check) -> str:
    """Return the number of rows, of rows that miss a value, and of rows that cannot be read."""
    unreadable = f"; {check.n_unreadable:,} cannot be read" if check.n_unreadable else ""
    subject = "others" if check.n_unreadable else "of them"
    verb = "has" if check.n_dropped == 1 else "have"
    missing = f"; {check.n_dropped:,} {subject} {verb} a missing value" if check.n_dropped else ""
    return f"{check.n_rows:,}{unreadable}{missing}"


def _label(label: str, read_as: str, votes: int) -> str:
    """Return a label with its meaning and votes."""
    meaning = f"{read_as} wins" if read_as in ("first", "second") else read_as.replace("_", " ")
    if read_as[:1].isdigit():
        # The worth of a grade.
        meaning = f"{read_as} of a win for first"
    return f"{label} = {meaning} ({votes:,})"


def _contexts_with_several_votes(check: Check) -> str:
    """Return how many contexts have more than one vote; nothing where none has."""
    repeats = check.repeats
    if not repeats.contexts:
        return ""
    verb = "has" if repeats.contexts == 1 else "have"
    return f"; {counted(repeats.contexts, 'prompt')} {verb} more than one vote (at most {repeats.most_votes:,})"


def _pairs(check: Check) -> str:
    """Return how many pairs are compared, left out and never shown."""
    is_labelled = check.pairs["contexts"] > 0
    n_left_out = int((is_labelled & ~check.pairs["compared"]).sum())
    order = " in each order" if check.position_bias else ""
    left_out = f"; {n_left_out:,} with too few labels (min_labels={check.min_labels}{order})" if n_left_out else ""
    never_shown = f"; {int((~is_labelled).sum()):,} without a label" if not is_labelled.all() else ""
    smallest = check.pairs.loc[check.pairs["compared"], "contexts"].min()
    smallest_pair = f"; the smallest has {smallest:,} labelled prompts" if np.isfinite(smallest) else ""
    weights = "" if check.edge_weights == "equal" else f"; edge weights: {check.edge_weights}"
    return f"{check.graph.n_edges:,} of {len(check.pairs):,}{left_out}{never_shown}{smallest_pair}{weights}"


def _settings(check: Check) -> str:
    """Return how display order is treated, and the votes on pairs with enough labels."""
    equal = _rows_of_settings(check).iloc[0]
    reason = f" ({check.order_reason})" if check.order_reason else ""
    order = " in each order" if check.position_bias else ""
    return (
        f"display order is {'modelled' if check.position_bias else 'ignored'}{reason}. Pairs with at least "
        f"min_labels={check.min_labels} labels{order} are compared: they use {equal['votes']:,} votes "
        f"({100 * equal['share']:.3g} % of all votes; for the model that loses most, "
        f"{100 * equal['least_share']:.3g} % of its votes). The frame .settings compares other choices"
    )


def _precision(check: Check) -> list[tuple[str, str]]:
    """Return the line on the precision of scores, with equal edge weights and with weights by counts."""
    rows = _rows_of_settings(check)
    equal, counts = rows.iloc[0], rows.iloc[1]
    if not np.isfinite(equal["se_median"]):
        return []
    text = (
        f"standard errors of functional='bt', expected from the numbers of labels, are {equal['se_median']:.2f} times "
        f"those of a Bradley-Terry model fitted to all votes by maximum likelihood (median of the models; at most "
        f"{equal['se_largest']:.2f}); with edge_weights='counts' {counts['se_median']:.2f} times (at most "
        f"{counts['se_largest']:.2f})"
    )
    return [("Precision:", text)]


def _rows_of_settings(check: Check) -> pd.DataFrame:
    """Return the rows of the frame of settings with the check's display order and ``min_labels``."""
    table = check.settings
    return table[(table["position_bias"] == check.position_bias) & (table["min_labels"] == check.min_labels)]


def _first_position(check: Check) -> str:
    """Return how often the model shown first wins, with the test against one half."""
    wins = check.position
    adjusted = (
        f"; {wins.adjusted:.3f} if both display orders of every pair count equally (test against 1/2: p "
        f"{p_value_clause(wins.p_value)})"
    )
    text = f"the model shown first wins {wins.share:.3f} of the comparisons, where a tie counts one half"
    return text + (adjusted if np.isfinite(wins.p_value) else "")


def _pairs_table(pairs: pd.DataFrame) -> Summary:
    """Return the pairs with the fewest labelled prompts."""
    shown = pairs.sort_values("contexts", kind="stable").head(_PAIRS_SHOWN)
    note = "Pairs with the fewest labelled prompts stand first."
    if len(pairs) > len(shown):
        note += f" These are {len(shown)} of {len(pairs):,} pairs; the frame .pairs has all of them."
    columns = [name for name in _PAIR_COLUMNS if name in shown.columns]
    rows = tuple(
        (f"{first} – {second}", *map(_pair_cell, cells))
        for first, second, *cells in shown[["first", "second", *columns]].to_numpy(dtype=object)
    )
    heads = _heads(*(_PAIR_COLUMNS[name] for name in columns))
    return Summary("Pairs", (), heads, rows, (note,), "pair", text_columns=(len(columns),))


def _pair_cell(value: bool | int | float) -> str:
    """Return whether a pair is compared, a count, or a share as text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _share(value) if isinstance(value, float) else f"{value:,}"


def _labels_table(labels: pd.DataFrame) -> Summary:
    """Return the labels with their meanings and numbers of votes."""
    rows = tuple(
        (str(label), _MEANINGS.get(read_as, str(read_as).replace("_", " ")), f"{votes:,}", _share(share))
        for label, read_as, votes, share in labels[["label", "read_as", "votes", "share"]].to_numpy(dtype=object)
    )
    return Summary("Labels", (), _heads("read as", "votes", "share"), rows, (), "label", text_columns=(1,))


def _settings_table(settings: pd.DataFrame) -> Summary:
    """Return the votes used and the precision for choices of options."""
    rows = tuple(
        (
            f"{'modelled' if ordered else 'ignored'}, {min_labels}, {weights}",
            f"{pairs:,}",
            f"{votes:,}",
            *map(_share, (share, least_share)),
            *map(_ratio, ratios),
        )
        for ordered, min_labels, weights, pairs, votes, share, least_share, *ratios in settings[
            [*_SETTINGS_COLUMNS, "se_median", "se_largest"]
        ].to_numpy(dtype=object)
    )
    note = (
        "Each row is a choice of position_bias= (display order modelled or ignored), min_labels= and edge_weights=. "
        "Standard errors are relative to those of a Bradley-Terry model fitted to all votes by maximum likelihood."
    )
    columns = ("pairs", "votes used", "share", "least share of a model", "se (median)", "se (largest)")
    row_head = "display order, labels, weights"
    return Summary("Choices of options", (), _heads(*columns), rows, (note,), row_head)


def _heads(*names: str) -> tuple[tuple[str, int], ...]:
    """Return the heads of columns, each over one column."""
    return tuple((name, 1) for name in names)


def _share(value: float) -> str:
    """Return a share as text; empty where there is none."""
    return f"{value:.3f}" if np.isfinite(value) else ""


def _ratio(value: float) -> str:
    """Return a ratio of standard errors as text; empty where the pairs do not connect the models."""
    return f"{value:.2f}" if np.isfinite(value) else ""
