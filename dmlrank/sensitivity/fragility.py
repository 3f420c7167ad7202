"""How few units (votes, contexts, groups of rows) turn a result: their order of influence, and refits without them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._utils.computation import collected_warnings
from ..data.derived_pairs import DerivedPairs
from ..data.formula.features import locate_names
from ..data.formula.parse import parse_formula
from ..data.frames import column_names, require_columns, take_columns
from ..data.preferences import FloatArray, IntArray
from ..data.read_votes import with_columns
from ..estimation.cross_fitting import CrossFittedMu
from ..estimation.influence import Influence, blocks_by_group, mean_influence
from ..estimation.one_step import one_step
from ..estimation.second_order import second_order
from ..exceptions import DataError, DmlrankError, OptionError
from ..fit.method import run
from ..fit.state import FitState
from ..inference.covariance import Covariance
from ..options import in_its_place

# How much larger the set becomes after a refit that did not turn the result.
_GROWTH = 1.2
# Largest number of refits for one result.
MAX_REFITS = 12
# Number of rivals of the first model that are tried: influence values may name another one than refits do.
_RIVALS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """The units that a fragility analysis drops: contexts, votes, or groups of contexts or of votes.

    name: The unit as the user names it.
    of_votes: Whether a unit is a set of votes, whose labels are deleted; otherwise it is a set of contexts, whose rows
        are dropped.
    code (n,): Unit of each context, or of each vote.
    identifiers (u,): How each unit is named for the user.
    influence (u, d): Sum of the influence values of each unit's contexts or votes. To first order, dropping the unit
        changes the scores by minus this sum divided by n.
    weight (u,): Sum of the weights of the contexts that are dropped with each unit; zero for votes.
    """

    name: str
    of_votes: bool
    code: IntArray
    identifiers: NDArray[np.object_]
    influence: FloatArray
    weight: FloatArray

    def __len__(self) -> int:
        return len(self.identifiers)


def units_of(steps: FitState, unit: str) -> Units:
    """Return the units of a fit with their influence."""
    data = steps.data
    if unit == "context":
        return _of_contexts(steps, unit, np.arange(data.n_contexts), data.context_ids)
    if unit == "vote":
        return _of_votes(steps, unit, np.arange(data.n_votes), data.row_index[data.vote_row].astype(object))
    column = unit
    if unit == "cluster":
        if steps.units.clusters is None:
            raise OptionError(
                "unit='cluster': this fit has no clusters; give unit='context', 'vote' or a column, or fit with "
                "cov_type='cluster'"
            )
        column = steps.units.clusters.names[0]
    else:
        require_columns([unit], data.columns.available, "unit=", words=("context", "vote", "cluster"))
    columns = with_columns(data, steps.source.data, [column]).columns
    code, values = columns.sorted_codes(column), columns.texts(column)
    if (code < 0).any():
        raise DataError(
            f"unit={unit!r}: column {column!r} has no value in {int((code < 0).sum())} rows; fill them, or give "
            f"another unit"
        )
    names = np.empty(int(code.max()) + 1, dtype=object)
    names[code] = values
    if data.varying_context(code) is None:
        return _of_contexts(steps, unit, code[data.first_row], names)
    return _of_votes(steps, unit, code[data.vote_row], names)


def _of_contexts(steps: FitState, name: str, code: IntArray, identifiers: NDArray[np.object_]) -> Units:
    """Return units that are sets of contexts, from the unit of each context, (n,); those without one are left out."""
    present, code = np.unique(code, return_inverse=True)
    of_units = np.bincount(code, steps.influence.weight).astype(float)
    return Units(name, False, code, identifiers[present], steps.influence.sums_by(code), of_units)


def _of_votes(steps: FitState, name: str, code: IntArray, identifiers: NDArray[np.object_]) -> Units:
    """Return units that are sets of votes, from the unit of each vote, (v,)."""
    options, is_linear = steps.options, steps.setup.functional.linear
    refusals = (
        (not steps.estimator.is_unrestricted_one_step, f"estimator={options.estimator!r}", "for estimator='debiased'"),
        (options.average != "scores" and not is_linear, f"average={options.average!r}", "for average='scores'"),
        (options.adjust is not None, "adjust=", "without an adjustment for style, update(adjust=None)"),
    )
    for is_refused, option, where in refusals:
        if is_refused:
            raise OptionError(
                f"unit={name!r} with {option}: the influence of single votes is known {where}; use unit='context' or a "
                f"column that is the same in all rows of a context"
            )
    present, code = np.unique(code, return_inverse=True)
    # A block contains the votes of one unit on one context; blocks of no unit have the number -1.
    blocks, unit = blocks_by_group(steps.data, code)
    functional, data, influences = steps.setup.functional, steps.data, list[Influence]()
    for r in steps.repetitions:
        result = one_step({"target": functional}, data, r.nuisances, blocks, steps.units.weights(data))
        if r.second_order is not None and steps.options.learning.second_order:
            assert isinstance(r.mu, CrossFittedMu), "and of models that learnt from labels"
            target, units = result.target.by_context(), [(1.0, steps.units.of_contexts(data)[blocks.context])]
            of_units = second_order(functional, data, r.mu, r.floor, blocks=blocks, target=target, units=units)
            assert of_units is not None, "the labels are those of the fit"
            result = of_units.removed_from(result)
        influences.append(result.target.by_context())
    influence = mean_influence(influences)
    corrections = influence.weight[influence.block_context, None] * influence.correction
    total = np.zeros((len(present), influence.n_scores))
    np.add.at(total, unit[unit >= 0], corrections[unit >= 0])
    return Units(name, True, code, identifiers[present], total, np.zeros(len(present)))


@dataclass(frozen=True, slots=True, eq=False)
class Refit:
    """Estimate of a contrast and its standard error after a refit; NaN, with the reason, where the refit failed."""

    estimate: float
    std_error: float
    failure: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class RefitFrames:
    """The fit to all rows and its frame, from which rows can be dropped before the model is fitted again."""

    steps: FitState
    data: pd.DataFrame

    @classmethod
    def of(cls, steps: FitState) -> RefitFrames:
        """Read all columns of the frames; refuse fits whose arrays would no longer match the rows."""
        options, source = steps.options, steps.source
        if isinstance(source.data, DerivedPairs):
            raise OptionError(
                "fragility() with comparisons made from scores or rankings: these data have no row per vote that could "
                "be dropped; fit a frame of battles"
            )
        may_be_words = {
            "mu": options.learning.mu,
            "weights": options.weights,
            "propensity": options.propensity,
            "edge_weights": options.pairs.edge_weights,
            "graph": options.pairs.graph,
        }
        given = [name for name, value in may_be_words.items() if not isinstance(value, str | None)]
        given += ["judge"] * (options.judge is not None)
        if given:
            raise OptionError(
                f"fragility() of a fit with {in_its_place(given[0])}: a refit without some rows needs {given[0]} in a "
                f"form that follows the rows; give a column, or one of the words that {given[0]} allows, or leave "
                f"{given[0]} out"
            )
        data = take_columns(source.data, column_names(source.data))
        formula = parse_formula(source.formula)
        roles = (*formula.outcomes, *formula.items)
        names = locate_names(formula.features, list(data.columns), source.environment, len(data), roles)
        if names.arrays:
            raise OptionError(
                f"fragility() of a fit whose formula uses the array {names.arrays[0]!r}: a refit without some rows "
                f"needs it as a column of the frame"
            )
        return cls(steps, data)

    def without(self, units: Units, dropped: IntArray, contrast: FloatArray) -> Refit:
        """Fit again without some units: without the rows of contexts, or without the labels of votes."""
        data, options, source = self.steps.data, self.steps.options, self.steps.source
        is_dropped = np.isin(units.code, dropped)
        if units.of_votes:
            frame, rows = self.data.copy(), data.row_index[data.vote_row[is_dropped]]
            for name in parse_formula(source.formula).outcomes:
                frame[name] = frame[name].mask(np.isin(np.arange(len(frame)), rows))
        else:
            keep = np.ones(data.n_rows, dtype=bool)
            keep[data.row_index[is_dropped[data.row_context]]] = False
            frame = self.data[keep]
        reduced = replace(source, data=frame.reset_index(drop=True))
        try:
            with collected_warnings():
                refit = run(replace(options, position_bias=data.ordered), reduced)
        except DmlrankError as error:
            return Refit(np.nan, np.nan, str(error))
        remaining = refit.setup.functional.names(refit.data.items)
        old_names = self.steps.setup.functional.names(data.items)
        needed = {name: weight for name, weight in zip(old_names, contrast, strict=True) if weight}
        missing = [name for name in needed if name not in remaining]
        if missing:
            return Refit(np.nan, np.nan, f"{missing[0]} has no votes left")
        weights = np.array([needed.get(name, 0.0) for name in remaining])
        return Refit(float(weights @ refit.influence.estimate), contrast_error(refit.covariance, weights))


def contrast_error(covariance: Covariance, weights: FloatArray) -> float:
    """Return the standard error of a linear combination of scores with coefficients (d,)."""
    return float(np.sqrt(np.maximum(weights @ covariance.matrix @ weights, 0.0)))


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A result that may turn: the sign of a contrast, or its significance.

    contrast (d,): Coefficients of the scores.
    value: The value that the contrast is compared with, in the functional's own unit.
    critical: 0 for the sign. For significance, the half-width of the interval in standard errors.
    """

    label: str
    contrast: FloatArray
    value: float
    critical: float = 0.0

    def sign(self, steps: FitState) -> float:
        """Return 1 where the estimate is above the value, else -1."""
        return 1.0 if self.contrast @ steps.influence.estimate >= self.value else -1.0

    def distance(self, estimate: float, std_error: float, sign: float) -> float:
        """Return how far an estimate is from turning; negative where it has turned."""
        return sign * (estimate - self.value) - self.critical * std_error


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """How many units turn a result.

    dropped: The smallest set of units that turned the result, or the last one that did not; None where half of the
        units do not suffice.
    before, after: Estimate of the fit, and of the refit without these units; NaN where this refit failed.
    confirmed: Whether the result turned in the refit without ``dropped``.
    failure: Why the refit without ``dropped`` failed; empty where it did not.
    """

    question: Question
    dropped: IntArray | None
    before: float
    after: float
    confirmed: bool
    n_refits: int
    failure: str = ""


def predicted_set(steps: FitState, units: Units, question: Question) -> IntArray | None:
    """Return the fewest units that turn a result, by their influence; None where half of the units do not suffice.

    To first order, the distance of the estimate from the value without a set A of units is distance - sum_A effect /
    (n - sum_A weight). For significance, the standard error without the first k units is approximated by the standard
    error of the fit, times the root of the share of the squared influence that the other units have, times n /
    (contexts left).
    """
    contrast, sign = question.contrast, question.sign(steps)
    estimate, std_error = float(contrast @ steps.influence.estimate), contrast_error(steps.covariance, contrast)
    if question.distance(estimate, std_error, sign) < 0:
        return np.array([], dtype=np.intp)
    effect = sign * (units.influence @ contrast)
    order = np.argsort(-effect, kind="stable")
    n = steps.data.n_contexts
    n_left = n - np.cumsum(units.weight[order])
    reduced = sign * (estimate - question.value) - np.cumsum(effect[order]) / np.where(n_left > 0, n_left, np.nan)
    margin: FloatArray | float = 0.0
    if question.critical:
        left = np.maximum(1 - np.cumsum(np.square(effect[order])) / float(np.square(effect).sum()), 0.0)
        margin = question.critical * std_error * np.sqrt(left) * n / np.maximum(n_left, 1e-9)
    reached = np.flatnonzero(reduced < margin)
    return order[: reached[0] + 1] if len(reached) and reached[0] + 1 <= len(effect) // 2 else None


def answer(frames: RefitFrames, units: Units, question: Question, fewer_than: int | None = None) -> Answer:
    """Return how many units turn a result, confirmed by refits; sets of ``fewer_than`` units or more are not tried."""
    before = float(question.contrast @ frames.steps.influence.estimate)
    predicted = predicted_set(frames.steps, units, question)
    if predicted is not None and not len(predicted):
        return Answer(question, predicted, before, before, confirmed=True, n_refits=0)
    sign = question.sign(frames.steps)
    effect = sign * (units.influence @ question.contrast)
    order = np.argsort(-effect, kind="stable")
    largest = min(len(units) // 2, int((effect > 0).sum()), len(units) if fewer_than is None else fewer_than - 1)
    # The smallest set that turned the result, the largest set that did not, and the last refit of either kind.
    turned: tuple[int, Refit] | None = None
    last = (0, Refit(before, np.nan))
    number = largest if predicted is None else min(len(predicted), largest)
    n_refits = 0
    while n_refits < MAX_REFITS:
        n_refits += 1
        refit = frames.without(units, order[:number], question.contrast)
        if not refit.failure and question.distance(refit.estimate, refit.std_error, sign) < 0:
            turned = number, refit
        else:
            last = number, refit
        is_done = refit.failure or number >= largest if turned is None else last[0] + 1 >= turned[0]
        if is_done:
            break
        number = (last[0] + turned[0]) // 2 if turned else min(max(number + 1, int(_GROWTH * number)), largest)
    n_dropped, refit = turned or last
    dropped = order[:n_dropped] if turned is not None or number < largest else None
    return Answer(question, dropped, before, refit.estimate, turned is not None, n_refits, refit.failure)


def answer_of_nearest(frames: RefitFrames, units: Units, questions: list[Question]) -> Answer:
    """Return the answer with the fewest units among the questions that need the fewest by influence values."""
    sets = [predicted_set(frames.steps, units, question) for question in questions]
    numbers = [len(units) if dropped is None else len(dropped) for dropped in sets]
    nearest, *others = np.argsort(numbers, kind="stable")[:_RIVALS]
    best = answer(frames, units, questions[nearest])
    for place in others:
        fewest = len(best.dropped) if best.confirmed and best.dropped is not None else None
        if fewest is None or fewest > 1:
            other = answer(frames, units, questions[place], fewest)
            best = other if other.confirmed else best
    return best
