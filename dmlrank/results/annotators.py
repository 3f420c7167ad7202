"""Annotators: agreement with others on the same pairs, habits, copies, and the board without those near chance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from ..data.arrays import BoolArray
from ..data.formula.parse import parse_formula
from ..data.frames import column_names, count_copies, take_columns
from ..data.hypotheses import LinearHypothesis
from ..data.preferences import FloatArray, IntArray
from ..data.read_votes import full_column
from ..estimation.influence import StackedInfluence
from ..estimation.joint_influence import side_by_side
from ..exceptions import DataError, listed
from ..fit.fit_covariance import clustered_covariance
from ..fit.state import FitState
from ..inference.wald import NamedEstimates, WaldTestResults, wald_test
from ..report.phrases import counted
from ..tables.summary_table import Summary, fixed_text, p_value_clause, p_value_text
from .requirements import TitledTable, require_steps

Result = TypeVar("Result")
_HEADS = ("votes", "first", "tie", "repeats", "pairs", "agree", "chance", "P chance", "P others")
# Names in a sentence, and fewest common pairs of two annotators who may be one.
_MOST_NAMED, _FEWEST_COMMON = 10, 10


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AnnotatorReport(TitledTable, Generic[Result]):
    """How annotators vote, and whether their votes agree with those of others; :meth:`RankResults.annotators`.

    Attributes
    ----------
    frame : DataFrame
        A row per annotator: ``votes``; the shares ``first`` of votes for the answer shown first and ``tie``; further
        votes on a pair that the annotator has seen, ``repeats``; ``pairs`` that the annotator and most of the others
        decided, the share ``agreement`` on these, and ``chance``, its mean if the same answers were dealt at random;
        adjusted P values that the agreement is chance, ``p_chance``, and that of the others, ``p_others``.
    near_chance : tuple of str
        Annotators who agree less than the others do (``p_others``), and not more than by chance (``p_chance``).
    same_answers : DataFrame
        Annotators with the same answer to all pairs that both saw, more of these than chance allows.
    n_copies : int
        Rows that equal another row in all columns but annotator and prompt.
    without : RankResults or None
        The fit without the votes of ``near_chance``; None where this names nobody.
    test : WaldTestResults or None
        Test that the scores of this fit are the same; None without it, or if it ranks other models.
    """

    frame: pd.DataFrame
    near_chance: tuple[str, ...]
    same_answers: pd.DataFrame
    n_copies: int
    without: Result | None
    test: WaldTestResults | None
    alpha: float
    by_prompt: bool

    def _table(self) -> Summary:
        rows = tuple(
            (
                str(name),
                f"{votes:,.0f}",
                *(fixed_text(share, 2) for share in (first, tie)),
                f"{repeats:,.0f}",
                f"{pairs:,.0f}",
                *("" if np.isnan(share) else fixed_text(share, 2) for share in (agreement, chance)),
                *("" if np.isnan(p) else p_value_text(p) for p in p_values),
            )
            for name, votes, first, tie, repeats, pairs, agreement, chance, *p_values in self.frame.sort_values(
                ["p_others", "p_chance"], ascending=[True, False], kind="stable"
            ).itertuples(name=None)
        )
        columns = tuple((head, 1) for head in _HEADS)
        return Summary("Annotators", (), columns, rows, tuple(self._notes()), row_head="annotator")

    def _notes(self) -> list[str]:
        """Return who is near chance, what the board is without them, copies, and what the columns are."""
        notes = ["No annotator is shown to agree less than the others and no more than by chance."]
        if self.near_chance:
            names, one = listed(self.near_chance, _MOST_NAMED), len(self.near_chance) == 1
            notes = [f"{names} agree{'s' * one} less than the others, and not more than by chance."]
        if self.test is not None:
            found = f"{self.test.figures}, P {p_value_clause(float(self.test.pvalue))}"
            notes.append(f"Test that the scores without {'this annotator' if one else 'them'} are the same: {found}.")
        if len(self.same_answers):
            pairs = (f"{a} and {b} ({n})" for a, b, n in self.same_answers.itertuples(index=False, name=None))
            notes.append(f"The same answers to all pairs that both saw: {listed(pairs, _MOST_NAMED)}.")
        if self.n_copies:
            notes.append(f"{counted(self.n_copies, 'row')} with other identifiers equal an earlier row in all else.")
        level = f"{100 * self.alpha:g} %"
        of_prompts = "" if self.by_prompt else " of models, whatever the prompt (the fit has no context=),"
        return [
            *notes,
            f'"agree" is the share of decided pairs{of_prompts} on which the annotator sides with most of the others, '
            '"chance" what the same answers would have in any order. P others tests that an annotator agrees as the '
            "others do, P chance that the answers have nothing to do with the pairs. Both are exact and adjusted, so "
            f"that on average at most {level} of those who are named are named wrongly.",
        ]


def annotators_of(
    steps: FitState, column: str, alpha: float, refit: Callable[[pd.DataFrame], Any]
) -> AnnotatorReport[Any]:
    """Return the report that :meth:`RankResults.annotators` documents; ``refit`` returns the result of other rows."""
    data, options, source = steps.data, steps.options, steps.source
    row_code, values = full_column(data, source.data, column, "annotators()")
    voting, who = np.unique(row_code[data.vote_row], return_inverse=True)
    names = values[voting]
    if len(names) < 2:
        raise DataError(f"annotators({column!r}): the column names one annotator, and agreement needs two")
    cells, cell = data.cells, data.vote_cell
    shown, second = (side[cell] for side in cells.in_display_order)
    low, high = np.minimum(shown, second), np.maximum(shown, second)
    # In votes for the answer that was shown first, and for the model with the smaller number.
    win = np.where(cells.flipped[cell], -1, 1) * (data.vote_y[:, 0] - data.vote_y[:, 1])
    sign = np.where(shown == low, 1.0, -1.0)
    pair = low * data.n_items + high + (cells.context[cell] * data.n_items**2 if options.context else 0)
    item = np.unique(pair, return_inverse=True)[1]
    # One answer of an annotator to a pair.
    n_items = int(item.max()) + 1
    answer, place, of_vote = np.unique(who * n_items + item, return_index=True, return_inverse=True)
    by, about = np.divmod(answer, n_items)
    own = np.bincount(of_vote, win * sign)
    others = np.sign(np.round(np.bincount(about, own)[about] - own, 9))
    said = np.sign(np.round(own, 9))
    decided = (said != 0) & (others != 0)
    if not decided.any():
        raise DataError(
            f"annotators({column!r}): no pair of {'a prompt' if options.context else 'models'} was decided by an "
            f"annotator and by the others, and agreement needs one: give several annotators the same pairs"
            f"{', or fit without context= to compare answers to the same two models' * bool(options.context)}"
        )
    count = _sums(by, decided, len(names))
    agree = _sums(by, decided & (said == others), len(names))
    own_first, others_first = (_sums(by, decided & (side * sign[place] > 0), len(names)) for side in (said, others))
    both_first = (agree - count + own_first + others_first) // 2
    has = count > 0
    share = np.where(has, agree / np.maximum(count, 1), np.nan)
    of_rest = (agree.sum() - agree) / np.maximum(count.sum() - count, 1)
    p_chance = scipy.stats.hypergeom.sf(both_first - 1, count, others_first, own_first)
    p_others = scipy.stats.binom.cdf(agree, count, of_rest)
    square = np.where(has, count, np.nan) ** 2
    n_votes = np.bincount(who)
    columns = {
        "votes": n_votes,
        "first": np.bincount(who, win > 0) / n_votes,
        "tie": np.bincount(who, win == 0) / n_votes,
        "repeats": n_votes - np.bincount(by, minlength=len(names)),
        "pairs": count,
        "agreement": share,
        "chance": (own_first * others_first + (count - own_first) * (count - others_first)) / square,
        "p_chance": _adjusted(p_chance, has),
        "p_others": _adjusted(p_others, has),
    }
    frame = pd.DataFrame(columns, index=pd.Index(names, name=column))
    is_near = (frame["p_others"] < alpha) & (frame["p_chance"] >= alpha)
    near = tuple(map(str, frame.index[is_near]))
    without, test = None, None
    if near:
        outcomes = list(parse_formula(source.formula).outcomes)
        rows = take_columns(source.data, column_names(source.data))
        is_near_row = np.isin(np.arange(len(rows)), data.row_index[np.isin(values[row_code], near)])
        rows[outcomes] = rows[outcomes].astype(object).mask(pd.Series(is_near_row, rows.index))
        without = refit(rows)
        other = require_steps(without.estimates, without.steps, "annotators()")
        test = _test_same(steps, other) if other.data.items == data.items else None
    same = _same_answers(names, by, about, said, fewest=_FEWEST_COMMON if options.context else n_items + 1)
    named = [name for name in column_names(source.data) if name not in (column, *options.context)]
    n_copies = count_copies(take_columns(source.data, named), parse_formula(source.formula).outcomes)
    return AnnotatorReport(frame, near, same, n_copies, without, test, alpha, bool(options.context))


def _test_same(steps: FitState, other: FitState) -> WaldTestResults:
    """Test that two fits with the same prompts and models have the same scores."""
    names = steps.setup.functional.names(steps.data.items)
    first, second = (one.influence.by_context() for one in (steps, other))
    change = second.centred - first.centred
    gauge, influence = steps.setup.functional.gauge(steps.data.n_items).basis, side_by_side([StackedInfluence(change)])
    covariance = clustered_covariance(influence, gauge, steps.units.clusters, None)
    estimates = NamedEstimates(second.estimate - first.estimate, covariance, names, "scores have the same level", None)
    return wald_test(estimates, LinearHypothesis(np.eye(len(names)), np.zeros(len(names)), names))


def _sums(group: IntArray, mask: BoolArray, size: int) -> IntArray:
    """Count the members of groups for which the mask holds, (size,)."""
    return np.bincount(group[mask], minlength=size)


def _adjusted(p_values: FloatArray, has: BoolArray) -> FloatArray:
    """Return p-values that control false discoveries among those who can be tested; NaN for the others."""
    adjusted = np.full(len(p_values), np.nan)
    adjusted[has] = scipy.stats.false_discovery_control(np.clip(p_values[has], 0, 1))
    return adjusted


def _same_answers(
    names: NDArray[np.object_], by: IntArray, about: IntArray, said: FloatArray, *, fewest: int
) -> pd.DataFrame:
    """Return pairs of annotators with equal answers to all common pairs, and too many of these for chance."""
    shape = (len(names), int(about.max(initial=0)) + 1)
    seen, *of_side = (
        scipy.sparse.csr_array((np.ones(mask.sum(), int), (by[mask], about[mask])), shape=shape)
        for mask in (np.full(len(said), True), said > 0, said < 0, said == 0)
    )
    common, equal = seen @ seen.T, sum(side @ side.T for side in of_side)
    common, equal = scipy.sparse.triu(common, 1).tocoo(), scipy.sparse.triu(equal, 1).tocsr()
    n_common, n_equal = common.data, np.asarray(equal[common.row, common.col]).reshape(-1)
    rate = n_equal.sum() / max(n_common.sum(), 1)
    found = (n_equal == n_common) & (n_common >= fewest) & (len(n_common) * rate**n_common < 0.01)
    columns = {"first": names[common.row[found]], "second": names[common.col[found]], "pairs": n_common[found]}
    return pd.DataFrame(columns)
