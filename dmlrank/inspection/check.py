"""The result of a check before a fit: twelve frames, a table of problems with advice, as text, page and JSON."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_float_dtype, is_numeric_dtype

from ..data.columns import similar_names
from ..data.formula.parse import Formula
from ..data.preferences import FEW_CLUSTERS, FEW_EFFECTIVE, few_prompts_advice
from ..exceptions import listed
from ..options import Options
from ..report.facts import read_facts
from ..report.phrases import AS_MET, counted
from ..report.render_page import Masthead, write_page
from ..tables.summary_table import Summarised, Summary, isolated, p_value_clause, p_value_text, wrapped

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

    Each frame is indexed by what its rows are about. Frames that have nothing to say of the data are empty.

    Attributes
    ----------
    problems : DataFrame
        A row per problem of a fit, the gravest first: ``severity`` ("error" where a fit would end with an error, or
        "warning"), ``where`` (the frame that has more on it), what was ``found``, and ``advice``.
    options : DataFrame
        By option: the ``value`` that a fit would use, and the ``reason`` where it was chosen.
    counts : DataFrame
        By what was counted: ``number`` and ``note``, from rows to the size of a fit.
    labels : DataFrame
        By label that occurs: what it is ``read_as``, its ``votes`` and their ``share``.
    features : DataFrame
        The names of the features, as index.
    columns : DataFrame
        By column: rows in which a needed value is ``missing``, and ``repeats``: prompts that repeat another prompt's
        value although these differ between nearly all prompts.
    models : DataFrame
        By model, of votes: ``comparisons votes opponents share_first win_share component``; ``win_share`` counts a tie
        as one half, components are numbered from the largest on. Of scores: ``prompts`` with a score, prompts where it
        is ``missing``, ``scores`` (runs with one), ``lost_runs``, the ``mean``, and ``errors`` (rows without a score
        that name an error).
    tasks : DataFrame
        By model and task: the columns of ``models`` for scores, where these have a column ``task``.
    pairs : DataFrame
        By unordered pair: labelled ``contexts``, those with ``first`` ``shown_first`` and ``shown_second``, ``votes``,
        ``share_first``, the ``win_share`` of ``first``, and whether a fit would have the pair ``compared``.
    settings : DataFrame
        By ``position_bias min_labels edge_weights``: ``pairs`` compared, their ``votes`` and ``share``, ``least_share``
        (of a model's votes), ``se_median`` and ``se_largest`` (relative to maximum likelihood), and whether ``chosen``.
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


# A line has the severity of a problem, the frame of the check that has more on it and the problem's name, a colon, what
# was found, a stroke and the advice, in the form of the list in report/facts.py.
_LIST = """
= Problems
error, models, gaps: Scores are missing of {worst}; {common:,} of {prompts:,} prompts have a score of every model. |
  Say what a missing score means: missing='common' restricts to these prompts, which is right if gaps have nothing to
  do with the answers; missing='model' lets features of the formula say which scores are missing; missing=0.0 counts
  them as failures. If a judge scored all answers, name its column (judge=). If a plan drew the runs, fit with
  propensity=.
error, columns, missing: Values are missing: {columns}. A fit raises an error. | missing='drop' drops {dropped}, as
  this check did.{keep}
error, features, nan: The features of {dropped} are NaN although the columns that they are computed from have no
  missing values there. | A fit raises an error unless missing='drop' or missing='keep' is passed.
error, counts, few folds: {prompts} cannot be divided into {folds} folds. | Use fewer folds:
  learning=Learning(n_folds=...).
error, clusters, one: The column {name!r} of the clusters has one value, and standard errors need at least two
  clusters. A fit raises an error. | Give another column, or leave cov_kwds= out.
warning, models, similar: Are {names} the same model? The names differ only in blanks, letter case or Unicode form, and
  they are ranked as {number} models. | If they are one model, write one name in the data.
warning, models, lost runs: {runs} left out, because the model has a score on the prompt from another run, unless
  missing=0.0 counts them as failures. | sensitivity() of the fit bounds what they could change.
warning, counts, many runs: A model has {runs:.0f} scores on a prompt on average, which count as its runs: are the
  {prompts:,} prompts tasks of many prompts? | Name the column of prompts in context=, and that of runs in run=.
warning, settings, settings: A fit with these settings uses {used:.3g} % of the votes, and its standard errors of bt
  are up to {error:.2f} times those of Bradley-Terry maximum likelihood. | With {changes} it would use {share:.3g} % of
  the votes, and standard errors would be up to {largest:.2f} times those of maximum likelihood{asks}
  (docs/settings.md).
warning, counts, averaged copies: {rows} equal an earlier row in every column. | Copies hardly matter, because a fit
  averages the votes on a prompt and pair; only estimator='bt_mle' counts each.
warning, counts, copies: {rows} equal an earlier row in every column, and a fit counts each of them as a vote. | If
  they are copies, drop them.
warning, counts, disagree: {several:,} of the comparisons of an ordered pair on a prompt have more than one vote, and
  in {disagree:.0%} of them the votes disagree. A fit averages them. | If further votes were asked for because of the
  first one, keep the first vote of each alone.
warning, pairs, left out: {number} of {pairs:,} pairs have labels, but fewer than {requirement}, and a fit leaves them
  out. | A smaller number, pairs=Pairs(min_labels=...), keeps these pairs.
warning, pairs, weak: The graph has {weak} with fewer than {requirement}. What they add to the scores rests mainly on
  the learner's predictions. | pairs=Pairs(graph='observed') leaves such pairs out.
warning, pairs, incomplete: Only {compared:,} of {pairs:,} pairs are compared, so that a score of functional='borda'
  depends on the model's opponents. | functional='bt' takes these into account.
warning, labels, rare: These labels have fewer than {few} votes each: {labels}. | categories={{label: meaning}} can
  merge them with other labels.
warning, labels, no wins: No label says that the model shown {meaning} wins. | Check whether every label is read as it
  is meant.
warning, columns, same prompts: {number:,} of the contexts repeat a value of {name!r} under another {context}. | If
  these are the same prompt, their votes are not independent: context={name!r} joins them.
warning, order, unbalanced: Display order is not balanced within pairs (chi2 = {chi2:.1f}, df = {df:.0f}, p {p}): some
  models are shown first more often than their opponents. | {consequence}
warning, order, position: There is a position effect: the model shown first wins {share:.3f} of the comparisons if both
  display orders of every pair count equally (p {p}). | {consequence}
warning, clusters, few prompts: There are only {prompts} prompts. With {few} prompts or fewer standard errors are too
  small on average, however many votes there are. | {advice}.
warning, clusters, few: There are only {clusters} clusters in {name!r}. With {few} clusters or fewer standard errors
  are too small on average. | Use a finer grouping if it keeps dependent votes together.
warning, clusters, uneven: The {clusters:,} clusters in {name!r} tell no more than {effective:.1f} of one size, because
  the largest has {largest:,} {of}. With fewer than {few}, intervals hold only roughly. | Use a column with more even
  clusters if it keeps dependent votes together.
"""
_PROBLEMS = {fact.modes[2]: fact for fact in read_facts(_LIST)["Problems"]}
# What was found, advice, severity, frame.
Problem = tuple[str, str, str, str]
# Votes that a label needs so that a learner can predict when voters choose this label.
_FEW_VOTES = 10
# p-values below this are reported as an effect.
_SIGNIFICANT = 0.001
# Runs of a model on a prompt, on average, from which on the prompts may be something else.
_MANY_RUNS = 20
# Settings are good enough where the largest standard error is at most this multiple of maximum likelihood's.
_LARGEST_RATIO = 1.5


def _problem(problem: str, **words: object) -> Problem:
    """Return a problem of the list with its words."""
    fact = _PROBLEMS[problem]
    return fact.short.format(**words), fact.long.format(**words), fact.modes[0], fact.modes[1]


def find_problems(c: Check, options: Options, formula: Formula, shared: Sequence[str]) -> Iterator[Problem]:
    """Yield problems of a fit, the gravest first; ``shared`` are columns whose texts several prompts share."""
    if "mean" in c.models:
        yield from _of_scores(c, options)
    else:
        yield from _of_votes(c, options, formula, shared)
        n_prompts = c.counts["number"]["prompts"]
        if options.context and n_prompts <= FEW_CLUSTERS and c.clusters.empty:
            advice = few_prompts_advice(n_prompts, "cov_type='cluster', cov_kwds={'groups': COLUMN}")
            yield _problem("few prompts", prompts=n_prompts, few=FEW_CLUSTERS, advice=advice)
    for name, row in c.clusters.iterrows():
        if row["clusters"] <= FEW_CLUSTERS:
            yield _problem("few" if row["clusters"] > 1 else "one", few=FEW_CLUSTERS, name=name, **row)
        elif row["effective"] < FEW_EFFECTIVE:
            yield _problem("uneven", few=FEW_EFFECTIVE, name=name, **row)


def _of_scores(c: Check, options: Options) -> Iterator[Problem]:
    n, gaps = c.counts["number"], c.models["missing"].sort_values(ascending=False, kind="stable")
    gaps, n_cells = gaps[gaps > 0], max(int(c.models["prompts"].sum()), 1)
    if len(gaps) and options.missing == "raise" and c.grades.empty:
        worst = listed([f"{name} ({count:,})" for name, count in gaps.items()], 5)
        yield _problem("gaps", worst=worst, common=n["common_prompts"], prompts=n["prompts"])
    for names in similar_names(c.models.index):
        yield _problem("similar", names=" and ".join(map(repr, names)), number=len(names))
    if lost := n["lost_runs"]:
        yield _problem("lost runs", runs=f"{counted(lost, 'run')} without a score {'is' if lost == 1 else 'are'}")
    if n["scores"] > _MANY_RUNS * n_cells:
        yield _problem("many runs", runs=n["scores"] / n_cells, prompts=n["prompts"])


def _of_votes(c: Check, options: Options, formula: Formula, shared: Sequence[str]) -> Iterator[Problem]:
    n, missing = c.counts["number"], c.columns["missing"][c.columns["missing"] > 0]
    dropped, n_folds = counted(n["rows_with_missing_values"], "row"), options.learning.n_folds
    if len(missing) and options.missing == "raise":
        columns = ", ".join(f"{name!r} in {count:,} of {n['rows']:,} rows" for name, count in missing.items())
        keep = (
            "" if {*formula.items} & {*missing.index} else " missing='keep' passes missing numbers on to the learner."
        )
        yield _problem("missing", columns=columns, dropped=dropped, keep=keep)
    elif n["rows_with_missing_values"] and options.missing in ("raise", "keep"):
        yield _problem("nan", dropped=dropped)
    if len(c.features) and n["prompts"] < n_folds:
        yield _problem("few folds", prompts=counted(n["prompts"], "prompt"), folds=n_folds)
    yield from _better_settings(c)
    if n_copies := n["copies_of_rows"]:
        yield _problem("averaged copies" if options.context else "copies", rows=counted(n_copies, "row"))
    if several := n["comparisons_that_disagree"] and n["comparisons_with_several_votes"]:
        yield _problem("disagree", several=several, disagree=n["comparisons_that_disagree"] / several)
    yield from _of_pairs(c)
    yield from _of_labels(c)
    for name, number in c.columns["repeats"][c.columns["repeats"] > 0].items():
        if options.context and name not in shared:
            yield _problem("same prompts", number=number, name=name, context=listed(options.context))
    if len(c.order):
        yield from _of_order(c)


def _of_pairs(c: Check) -> Iterator[Problem]:
    n, (ordered, least) = c.counts["number"], c.options.loc[["position_bias", "min_labels"], "value"]
    requirement = f"min_labels={least} labelled prompts {c.options['reason']['min_labels']}"
    pairs, n_pairs = c.pairs, n["pairs"]
    if n_left_out := int(((pairs["contexts"] > 0) & ~pairs["compared"]).sum()):
        yield _problem("left out", number=n_left_out, pairs=n_pairs, requirement=requirement)
    enough = pairs[["shown_first", "shown_second"]].min(axis=1) if ordered else pairs["contexts"]
    if n_weak := int((pairs["compared"] & (enough < least)).sum()):
        yield _problem("weak", weak=counted(n_weak, "pair"), requirement=requirement)
    if n["pairs_compared"] < n_pairs and n["components"] == 1:
        yield _problem("incomplete", compared=n["pairs_compared"], pairs=n_pairs)


def _of_labels(c: Check) -> Iterator[Problem]:
    """Yield problems of labels that can be counted, which preferences cannot; of grades a fit learns the mean worth."""
    labels = c.labels
    if c.options.loc["outcome", "value"] != "labels":
        return
    rare = labels.index[(labels["votes"] < _FEW_VOTES) & (labels["read_as"] != "not read")]
    if len(rare):
        yield _problem("rare", few=_FEW_VOTES, labels=listed(rare))
    for meaning in ("first", "second"):
        if not labels["read_as"].isin([meaning, "the model that wins"]).any():
            yield _problem("no wins", meaning=meaning)


def _of_order(c: Check) -> Iterator[Problem]:
    value, p_value = c.order["value"], c.order["p_value"]
    # A model with one name on the left and another on the right is no matter of display order.
    is_unbalanced = p_value["balance"] < _SIGNIFICANT and not similar_names(c.models.index)
    if is_unbalanced:
        consequence = "With position_bias=False a position effect is mixed into the scores."
        if c.options.loc["position_bias", "value"]:
            consequence = "Scores treat the two orders of a pair separately: they remain valid but are less precise."
        p, df = p_value_clause(p_value["balance"]), c.order["df"]["balance"]
        yield _problem("unbalanced", chi2=value["balance"], df=df, p=p, consequence=consequence)
    if (p := p_value["first wins, adjusted"]) < _SIGNIFICANT:
        consequence = "Both orders are shown about equally often, so that this hardly changes the scores of a fit that "
        consequence += "ignores display order."
        if is_unbalanced:
            consequence = "A fit that ignores display order would mix this effect into the scores."
        share = value["first wins, adjusted"]
        yield _problem("position", share=share, p=p_value_clause(p), consequence=consequence)


def _better_settings(c: Check) -> Iterator[Problem]:
    table, asked = c.settings, recommended_settings(c.settings)
    if asked is None:
        return
    chosen = table[table["chosen"]]
    requested, current, best = chosen.index[0], chosen.iloc[0], table.loc[[asked]].iloc[0]
    compared = zip(table.index.names, asked, requested, strict=True)
    changes = ", ".join(f"{name}={repr(to) if isinstance(to, str) else to}" for name, to, old in compared if to != old)
    changes = "pairs='arena'" if asked == (False, 1, "counts") else changes
    asks = f" and ask {AS_MET}" * (asked[2] == "counts" != requested[2])
    used, error, share, largest = 100 * current["share"], current["se_largest"], 100 * best["share"], best["se_largest"]
    yield _problem("settings", used=used, error=error, changes=changes, share=share, largest=largest, asks=asks)


def recommended_settings(table: pd.DataFrame) -> tuple[bool, int, str] | None:
    """Return good settings with the fewest changes of the chosen ones; None where these are good, or apart, or none."""
    chosen = table[table["chosen"]]
    good = table[(table["share"] >= 0.95) & (table["least_share"] >= 0.8) & (table["se_largest"] <= _LARGEST_RATIO)]
    if chosen["se_largest"].isna().all() or good.empty or good["chosen"].any():
        return None
    changes = [sum(a != b for a, b in zip(row, chosen.index[0], strict=True)) for row in good.index]
    return good.index[np.lexsort((good["se_largest"], changes))[0]]
