"""The result of a check of data before a fit, and the page that shows it as text or HTML."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ..data.arrays import name_of
from ..data.derived_pairs import DERIVED_KINDS, DerivedPairs
from ..data.formula.parse import Formula
from ..data.graph import Graph
from ..data.outcomes import WINNERS
from ..inference.score_limits import fewest_units
from ..report.fit_summary import choose_models
from ..report.page.render_page import Masthead, write_page
from ..report.statements import AS_MET, counted
from ..tables.display_text import fixed_text, p_value_clause
from ..tables.summary_table import Summarised, Summary

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
# An advantage of being shown first, and orders that are out of balance, are named below this p-value.
_POSITION_ALPHA = 0.05
# Columns with these names, as tables of logs have them, say what a prompt belongs to and why a score is missing.
_TASK, _ERROR = "task", "error"


@dataclass(frozen=True, slots=True)
class OrderTest:
    """Chi-squared test that in every pair each model is shown first equally often.

    statistic: Sum of (n_jk - n_kj)^2 / (n_jk + n_kj) over pairs; ``df`` is the number of pairs with labels.
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
    std_error, p_value: Of ``adjusted`` if labelled cells are independent, and of its two-sided test against one half.
    """

    share: float
    adjusted: float
    std_error: float
    p_value: float


@dataclass(frozen=True, slots=True)
class Repeats:
    """Contexts with more than one vote, and cells (a context with an ordered pair) with more than one vote.

    most_votes: Most votes on one context.
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


@dataclass(frozen=True, slots=True, eq=False)
class ScoreCheck:
    """What a table of scores holds.

    Attributes
    ----------
    n_prompts, n_common : int
        Prompts, and those of them with a score of every model.
    n_scores : int
        Scores of single runs.
    most_runs : int
        Most runs of a model on a prompt.
    n_lost : int
        Runs without a score of a model that has a score on the prompt from another run, also those without a row.
    runs_there, runs_missing : str
        How many runs have a score, and of which model the fewest; how many have none; empty where all have one.
    models : DataFrame
        By model: ``prompts`` with a score, prompts where the score is ``missing``, ``scores`` (runs with a score),
        ``lost_runs`` (without one, where there are several; also those without a row), ``errors`` (rows without a score
        that name an error, in a column of this name) and the ``mean`` over prompts, or over ``equal_tasks``.
    tasks : DataFrame
        The columns of ``models`` by model and task, where the table has a column ``task``; empty elsewhere.
    equal_tasks : str or None
        The column of tasks that all count the same in ``mean``.
    smallest_margin : float or None
        The smallest margin with which these prompts can pass a gate at level 0.95, where no prompt is lost; None unless
        scores are 0 and 1.
    grades : tuple of tuple of str
        With a judge: what is graded and judged, whether graded answers are like the others, what grades are worth.
    """

    n_prompts: int
    n_common: int
    n_scores: int
    most_runs: int
    n_lost: int
    runs_there: str
    runs_missing: str
    models: pd.DataFrame
    tasks: pd.DataFrame
    equal_tasks: str | None = None
    smallest_margin: float | None = None
    grades: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, scores: DerivedPairs, formula: Formula, equal_tasks: str | None = None) -> ScoreCheck:
        """Count what a table of runs holds."""
        table = scores.rows
        assert table is not None
        model, score, keys = formula.first, formula.outcome, list(scores.prompt)
        task = equal_tasks or _TASK
        # Without models that have fewer scores than min_votes=.
        table = table[table[model].isna() | table[model].map(name_of).isin(scores.models)]
        known = table[score].notna()
        rows = table[[*keys, model]].assign(
            score=table[score].astype(float),
            error=table[_ERROR].notna() & ~known if _ERROR in table else False,
            task=table.get(task, ""),
        )
        tasks = rows.groupby(keys, sort=False, observed=True)["task"].first()
        cells = rows.groupby([*keys, model], sort=False, observed=True).agg(
            scores=("score", "count"), runs=("score", "size"), mean=("score", "mean"), errors=("error", "sum")
        )
        runs = scores.runs
        by_prompt = cells["scores"].unstack(fill_value=0)
        mean, errors = cells["mean"].unstack(), cells["errors"].unstack(fill_value=0)
        n_rows = cells["runs"].unstack(fill_value=0).to_numpy()
        lost = np.minimum(n_rows.max(axis=0), n_rows.max(axis=1, keepdims=True)) - by_prompt

        def counted_by_model(inside: np.ndarray) -> pd.DataFrame:
            n_scored = (by_prompt[inside] > 0).sum()
            numbers = {"prompts": n_scored, "missing": int(inside.sum()) - n_scored, "scores": by_prompt[inside].sum()}
            numbers |= {"lost_runs": lost[inside].sum()} if n_rows.max() > 1 else {}
            of_tasks = mean[inside].groupby(of_prompt[inside]).mean() if equal_tasks else mean[inside]
            numbers |= {"errors": errors[inside].sum(), "mean": of_tasks.mean()}
            return pd.DataFrame(numbers).rename_axis("model")

        of_prompt = tasks.reindex(by_prompt.index).to_numpy()
        by_task = {name: counted_by_model(of_prompt == name) for name in pd.unique(of_prompt) if task in table}
        is_binary = table[score].dropna().astype(float).isin([0, 1]).all()
        return cls(
            smallest_margin=1 - 0.05 ** (1 / len(by_prompt)) if is_binary else None,
            n_prompts=len(by_prompt),
            n_common=int((by_prompt > 0).all(axis=1).sum()),
            n_scores=int(known.sum()),
            most_runs=int(by_prompt.to_numpy().max()),
            n_lost=0 if runs is None else int(runs.n_missing[runs.table().n_runs > 0].sum()),
            runs_there=scores.runs_there,
            runs_missing=scores.runs_missing,
            models=counted_by_model(np.ones(len(by_prompt), dtype=bool)),
            tasks=pd.concat(by_task, names=["task"]).swaplevel() if by_task else pd.DataFrame(),
            equal_tasks=equal_tasks,
        )

    def facts(self) -> list[tuple[str, str]]:
        """Return the facts of the page, each a name and a sentence."""
        cells = self.n_prompts * len(self.models)
        n_missing, n_errors = int(self.models["missing"].sum()), int(self.models["errors"].sum())
        runs = f"; at most {self.most_runs} runs of a model on a prompt" if self.most_runs > 1 else ""
        errors = f"; {counted(n_errors, 'row')} with an error in place of a score" if n_errors else ""
        missing = f"{self.runs_missing}; no model lacks a prompt" if self.runs_missing else "none"
        gate = list[tuple[str, str]]()
        if self.smallest_margin is not None:
            needed = ", ".join(f"{margin:g} needs {fewest_units(margin, 0.05):,}" for margin in (0.01, 0.02, 0.05))
            gate = [
                ("Margin of a gate:", f"from {self.smallest_margin:.2g} on at level 0.95; {needed} prompts, none lost")
            ]
        return [
            ("Models:", f"{len(self.models)}"),
            ("Means:", f"over tasks, the values of {self.equal_tasks!r}" if self.equal_tasks else "over prompts"),
            ("Scores:", f"{self.runs_there or f'{self.n_scores:,}'}{runs}{errors}"),
            ("Missing scores:", f"{n_missing:,} of {cells:,} (a model on a prompt)" if n_missing else missing),
            ("Common prompts:", f"{self.n_common:,} of {self.n_prompts:,} have a score of every model"),
            *(self.grades or gate),
        ]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Check(Summarised):
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
    n_copies : int
        Rows that equal an earlier row in every column of the frame, where this is not chance.
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
        By model: ``comparisons votes opponents share_first win_share component``. Opponents are those on the graph,
        ``share_first`` is the share of the model's comparisons in which it was shown first; ``win_share`` counts a tie
        as one half.
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
        Models whose names differ only by letter case, inner blanks or Unicode form.
    clusters : DataFrame
        By grouping column: ``clusters``, the ``effective`` number of clusters of one size, their ``smallest median
        largest`` size, and ``of``, the unit of the sizes.
    missing : Series
        By column: rows in which a needed value is missing.
    cost : Cost
        Size of a fit.
    problems : tuple of str
        Problems of a fit in sentences with advice, the gravest first; empty where there are none.
    errors : tuple of str
        The problems with which a fit ends with an error.
    outcome_kind : {"labels", "winners", "grades", "preferences", "probabilities", "counts", "scores", "ranks"}
        What the outcome holds, or what the pairs are derived from. Pairs derived from scores or ranks have no display
        order; ``order`` and ``position`` then describe the alphabetical order of the models and mean nothing.
    scores : ScoreCheck or None
        Of a table of scores: its ``models`` and ``tasks``, and how many prompts have a score of every model. The frames
        about votes are then those of comparisons of the scores.

    Examples
    --------
    >>> import dmlrank as dr
    >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
    >>> check = dr.check("winner ~ 1 | model_a + model_b", battles.replace({"model_a": {"gpt-4": "GPT-4"}}))
    >>> check.problems[0][:48]
    '2 names differ only by letter case, inner blanks'
    """

    formula: str
    context: tuple[str, ...]
    min_labels: int
    position_bias: bool
    order_reason: str
    settings: pd.DataFrame
    edge_weights: str
    n_rows: int
    n_copies: int
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
    errors: tuple[str, ...]
    outcome_kind: str = "labels"
    scores: ScoreCheck | None = None

    @property
    def has_display_order(self) -> bool:
        """Whether one model of a pair was shown first; false for pairs derived from scores or ranks."""
        return self.outcome_kind not in (*DERIVED_KINDS, WINNERS)

    def as_text(self) -> str:
        """Return the page as plain text, for a table of scores with the table of models by task."""
        tables = [self.summary(), *(_page_tables(self) if self.scores is not None else ())]
        return "\n\n".join(table.as_text() for table in tables)

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
        """
        frame, by = (self.models, "win_share") if self.scores is None else (self.scores.models, "mean")
        ranking = np.argsort(-frame[by].fillna(-np.inf).to_numpy(), kind="stable").tolist()
        shown = choose_models([str(name) for name in frame.index], ranking, models, top)
        if not self.has_display_order:
            # The order of a derived pair is that of the names, which says nothing.
            frame = frame.drop(columns="share_first", errors="ignore")
        heads = [name.replace("_", " ") for name in frame.columns]
        table = _table(_TITLE, frame.iloc[list(shown.places)], heads, notes=self.problems or (_NO_PROBLEMS,))
        notes = shown.note("Facts and problems")
        return replace(table, header=tuple(facts(self))).with_notes(notes).with_title(title)

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
        tables = [replace(self.summary("Models"), notes=()), *_page_tables(self)]
        return write_page(path, Masthead(_TITLE if title is None else title), [], tables, problems=self.problems)

    def __repr__(self) -> str:
        return self.as_text()


def facts(check: Check) -> list[tuple[str, str]]:
    """Return the facts of the page, each a name and a sentence."""
    identifiers = f"identified by {', '.join(check.context)}" if check.context else "every row is a prompt of its own"
    features = ", ".join(check.features[:6]) + (", ..." if len(check.features) > 6 else "")
    unreadable = f"; {check.n_unreadable:,} cannot be read" if check.n_unreadable else ""
    copies = f"; {check.n_copies:,} equal an earlier row in every column" if check.n_copies else ""
    dropped = f"; {check.n_dropped:,} {'others' if unreadable else 'of them'} with a missing value"
    repeats, cost = check.repeats, check.cost
    several = f"; prompts with more than one vote: {repeats.contexts:,} (at most {repeats.most_votes:,} votes)"
    missing = check.missing[check.missing > 0]
    formula = ("Formula:", check.formula)
    of_features = ("Features:", f"{len(check.features)}: {features}" if check.features else "none")
    of_clusters = [
        (
            "Clusters:",
            f"{row['clusters']:,} {name} ({row['smallest']:,} to {row['largest']:,} {row['of']}, median "
            f"{row['median']:g}; as {row['effective']:,.1f} of one size)",
        )
        for name, row in check.clusters.iterrows()
    ]
    if check.scores is not None:
        prompts = ("Prompts:", f"{check.scores.n_prompts:,} ({identifiers})")
        return [formula, prompts, *check.scores.facts(), of_features, *of_clusters]
    return [
        formula,
        ("Rows:", f"{check.n_rows:,}{copies}{unreadable}{dropped if check.n_dropped else ''}"),
        ("Prompts:", f"{check.n_contexts:,} ({identifiers}), {check.n_unlabelled:,} without a label"),
        (
            "Votes:",
            f"{check.n_votes:,} on {check.n_comparisons:,} comparisons{several if repeats.contexts else ''}",
        ),
        ("Labels:", "; ".join(_label(*row) for row in check.labels[["label", "read_as", "votes"]].to_numpy())),
        of_features,
        ("Models:", f"{len(check.models)}, in {counted(len(check.components), 'connected component')}"),
        *_pair_facts(check),
        *_order_facts(check),
        *of_clusters,
        (
            "Missing values:",
            ", ".join(f"{name} in {counted(count, 'row')}" for name, count in missing.items()) or "none",
        ),
        (
            "Size of a fit:",
            f"{cost.training_rows:,} comparisons to learn from in each fold, {cost.probabilities:,} probabilities to "
            f"predict, {cost.megabytes:,.1f} MB of features",
        ),
    ]


def _label(label: str, read_as: str, votes: int) -> str:
    """Return a label with its meaning and votes."""
    meaning = f"{read_as} wins" if read_as in ("first", "second") else read_as.replace("_", " ")
    # A number is the worth of a grade.
    return f"{label} = {f'{read_as} of a win for first' if read_as[:1].isdigit() else meaning} ({votes:,})"


def _pair_facts(check: Check) -> list[tuple[str, str]]:
    """Return the facts on the pairs that are compared, the settings, and the precision of scores with them."""
    order = " in each order" if check.position_bias else ""
    is_labelled, compared = check.pairs["contexts"] > 0, check.pairs["compared"]
    pairs = f"{check.graph.n_edges:,} of {len(check.pairs):,}"
    if (is_labelled & ~compared).any():
        pairs += f"; {(is_labelled & ~compared).sum():,} with fewer than {check.min_labels} labels{order}"
    if not is_labelled.all():
        pairs += f"; {(~is_labelled).sum():,} without a label"
    if compared.any():
        pairs += f"; the smallest has {check.pairs.loc[compared, 'contexts'].min():,} labelled prompts"
    if check.edge_weights != "equal":
        pairs += f"; edge weights: {check.edge_weights}"
    table = check.settings
    chosen = table[(table["position_bias"] == check.position_bias) & (table["min_labels"] == check.min_labels)]
    equal, counts = chosen.iloc[0], chosen.iloc[1]
    settings = (
        f"display order is {'modelled' if check.position_bias else 'ignored'}"
        f"{f' ({check.order_reason})' if check.order_reason else ''}. Pairs with at least {check.min_labels} labels"
        f"{order} are compared: they use {equal['votes']:,} votes ({100 * equal['share']:.3g} % of all votes; for the "
        f"model that loses most, {100 * equal['least_share']:.3g} % of its votes)"
    )
    precision = (
        f"standard errors of bt, expected from the numbers of labels, are {equal['se_median']:.2f} "
        f"times those of a Bradley-Terry model fitted to all votes by maximum likelihood (median of the models; at "
        f"most {equal['se_largest']:.2f}); with pairs weighted by their counts, another question, "
        f"{counts['se_median']:.2f} times (at most {counts['se_largest']:.2f})"
    )
    lines = [("Pairs compared:", pairs), ("Settings:", settings), ("Precision:", precision)]
    return lines if np.isfinite(equal["se_median"]) else lines[:2]


def _order_facts(check: Check) -> list[tuple[str, str]]:
    """Return the facts on display order: the test of balance, and how often the model shown first wins."""
    if not check.has_display_order:
        why = (
            "the columns say who won and who lost"
            if check.outcome_kind == WINNERS
            else "the comparisons are derived from "
        )
        return [("Display order:", f"none, because {why}{check.outcome_kind * (check.outcome_kind in DERIVED_KINDS)}")]
    test, wins = check.order, check.position
    p_value = p_value_clause(test.p_value)
    balance = f"test of balance within pairs: chi2 = {test.statistic:.1f}, df = {test.df}, p {p_value}"
    first = f"the model shown first wins {wins.share:.3f} of the comparisons, where a tie counts one half"
    if np.isfinite(wins.p_value):
        share, margin = 100 * wins.adjusted, 196 * wins.std_error
        adjusted, other, low, high = (fixed_text(n, 1) for n in (share, 100 - share, share - margin, share + margin))
        first += (
            f"; if both display orders of every pair count equally, a model wins {adjusted} of 100 when "
            f"shown first, {other} when second (95 % interval by itself {low} to {high}; p "
            f"{p_value_clause(wins.p_value)})"
        )
        if wins.p_value < _POSITION_ALPHA < test.p_value:
            first += "; as far as the test shows, orders are in balance, so that this favours no model"
    return [("Display order:", balance), ("First position:", first)]


# --- tables -----------------------------------------------------------------------------------------------------------


def _page_tables(check: Check) -> list[Summary]:
    """Return the tables of the page below that of the models: pairs, labels, options."""
    if check.scores is not None:
        if not len(check.scores.tasks):
            return []
        by_task = check.scores.tasks.reset_index("task")
        return [_table("Models by task", by_task, by_task.columns, text_columns=(1,))]
    shown = check.pairs.sort_values("contexts", kind="stable").head(_PAIRS_SHOWN)
    note = "Pairs with the fewest labelled prompts stand first."
    if len(check.pairs) > len(shown):
        note += f" These are {len(shown)} of {len(check.pairs):,} pairs."
    heads = {name: head for name, head in _PAIR_COLUMNS.items() if check.has_display_order or name != "share_first"}
    pairs = shown[list(heads)].set_axis(shown["first"] + " – " + shown["second"])
    labels = check.labels.set_index("label")
    meanings = [_MEANINGS.get(read_as, str(read_as).replace("_", " ")) for read_as in labels["read_as"]]
    settings = check.settings
    options = [
        f"{'modelled' if ordered else 'ignored'}, {min_labels}, {weights}"
        for ordered, min_labels, weights in settings[["position_bias", "min_labels", "edge_weights"]].to_numpy(object)
    ]
    ratios = {name: settings[name].map("{:.2f}".format, na_action="ignore") for name in ("se_median", "se_largest")}
    numbers = settings[["pairs", "votes", "share", "least_share"]].assign(**ratios).set_axis(options)
    labels = labels.assign(read_as=meanings)[["read_as", "votes", "share"]]
    of_numbers = ("pairs", "votes used", "share", "least share of a model", "se (median)", "se (largest)")
    of_options = (
        "Each row is a choice: whether display order is modelled, how many labels a pair needs to be compared, and how "
        f"pairs are weighted; weights by counts ask {AS_MET}. Standard errors are relative to those of a Bradley-Terry "
        "model fitted to all votes by maximum likelihood."
    )
    return [
        _table("Pairs", pairs, heads.values(), "pair", (note,), text_columns=(len(heads),)),
        _table("Labels", labels, ("read as", "votes", "share"), "label", text_columns=(1,)),
        _table("Choices of options", numbers, of_numbers, "display order, labels, weights", (of_options,)),
    ]


def _table(
    title: str,
    frame: pd.DataFrame,
    heads: Iterable[str],
    row_head: str = "model",
    notes: tuple[str, ...] = (),
    text_columns: tuple[int, ...] = (),
) -> Summary:
    """Return a frame as a table whose rows have the names of the index."""
    cells = [[_cell(value) for value in row] for row in frame.to_numpy(object)]
    rows = tuple((str(name), *row) for name, row in zip(frame.index, cells, strict=True))
    return Summary(title, (), tuple((head, 1) for head in heads), rows, notes, row_head, text_columns=text_columns)


def _cell(value: object) -> str:
    """Return a text as it is, yes or no, a share with three decimals, or a count; nothing where there is no value."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}" if np.isfinite(value) else ""
    return "" if value is None else f"{value:,}"
