"""Judges of a table of scores: their columns, whether they can be used, and how they compare with the grades."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from .._utils.argument_checks import is_frame
from .._utils.tasks_and_threads import warn
from ..data.derived_pairs import DerivedPairs
from ..data.pairs_from_scores import further_runs
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..estimation.influence import Influence
from ..estimation.predicted_scores import (
    RELATIVE_FLOOR,
    CorrectedMeans,
    answer_columns,
    completed,
    predicted_scores,
)
from ..exceptions import IntervalWarning, JudgeError, MissingDataError, OptionError, listed
from ..inference.covariance import unit_sums
from .fit_covariance import make_covariance
from .state import LEAST_LIKELY, GradeFigures, Units

# Fewest scores of a model of which others are missing, and fewest that say what they are worth with a judge.
FEWEST_GRADES, _FEWEST_WORTH = 10, 20
# Share of a model's answers with the smallest propensities from which a warning is given.
_MOST_AT_FLOOR = 0.1
# Largest share of a model's prompts in clusters without a score of it.
_MOST_MODELLED = 0.8


@dataclass(frozen=True, slots=True, eq=False)
class Judges:
    """Scores of L judges of the answers of K models, (n, K, L), NaN where there is none, and where an answer is.

    completed (n, K, L): Scores of other answers to the prompt stand in for missing ones.
    is_answer (n, K): Whether the table has a row for the model on the prompt.
    """

    names: tuple[str, ...]
    scores: FloatArray
    completed: FloatArray
    is_answer: NDArray[np.bool_]


def read_judges(data: PreferenceData, source: DerivedPairs, names: Any) -> Judges | None:
    """Return the judges in columns of a table of scores; raise for those that cannot be used."""
    if names is None:
        return None
    if is_frame(names):
        raise OptionError("judge= of a table of scores names columns of the table, one for each judge; join the frame")
    assert source.runs is not None
    rows, grades = data.row_index[data.first_row], data.score_table.mean
    graded = np.isfinite(grades)
    if not graded.any():
        raise MissingDataError(
            "no answer is graded: scores of a judge alone say what the judge prefers (judge column as the outcome, "
            f"'{names[0]} ~ 1 | {source.model}')"
        )
    judges = np.stack([further_runs(source, name).table().mean[rows] for name in names], axis=2)
    is_answer = (source.runs.n_lost[rows] > 0) | graded
    for number, name in enumerate(names):
        judge = judges[:, :, number]
        is_seen = np.isfinite(judge)
        if np.array_equal(is_seen, graded) and not graded.all() and (judge[graded] == grades[graded]).all():
            raise JudgeError(f"column {name!r} holds the grades themselves; name the column with the judge's scores")
        n_seen, n_answers = (is_seen & is_answer).sum(axis=0), is_answer.sum(axis=0)
        j = int(np.argmin(n_seen / np.maximum(n_answers, 1)))
        if 2 * n_seen[j] < n_answers[j]:
            raise JudgeError(
                f"judge {name!r} has scores for {n_seen[j]:,} of {n_answers[j]:,} answers of {data.items[j]!r}, graded "
                f"or not; let it score nearly all, or leave it out"
            )
        if not np.nanmax(judge) > np.nanmin(judge):
            raise JudgeError(f"judge {name!r} has the same score for all answers, which says nothing; leave it out")
    completed_scores = [completed(judges[:, :, number]) for number in range(len(names))]
    return Judges(tuple(names), judges, np.stack(completed_scores, axis=2), is_answer)


def require_enough(
    models: tuple[str, ...], n_scores: IntArray, is_modelled: NDArray[np.bool_], *, has_judge: bool
) -> None:
    """Raise where models have fewer scores than an interval needs. Shapes: n_scores, is_modelled (K,)."""
    fewest = np.where(is_modelled, FEWEST_GRADES, 2)
    few = np.flatnonzero(n_scores < fewest)
    if len(few):
        j, n = few[0], n_scores[few[0]]
        what, remedy = ("graded answer", "grade more of them") if has_judge else ("score", "run it on more prompts")
        raise MissingDataError(
            f"{models[j]!r} has {n} {what}{'s' * int(n != 1)}; an interval needs at least {fewest[j]} of every model: "
            f"{remedy}, or leave the model out" + (f" ({len(few)} such models)" if len(few) > 1 else "")
        )


def warn_without_overlap(models: tuple[str, ...], propensity: FloatArray, is_graded: NDArray[np.bool_]) -> None:
    """Warn of models many of whose answers were hardly ever graded, by estimated propensities. Shapes: (n, K)."""
    share = is_graded.mean(axis=0)
    at_floor = (propensity <= RELATIVE_FLOOR * share * (1 + 1e-9)).mean(axis=0)
    few = [name for name, part in zip(models, at_floor, strict=True) if part > _MOST_AT_FLOOR]
    if few:
        warn(
            f"answers of {listed(few)} with such judge scores were hardly ever graded: {100 * at_floor.max():.0f} of "
            f"100 have at most a tenth of the mean propensity. Their means rest on other answers; grade some of them",
            kind=IntervalWarning,
        )


def require_comparable(data: PreferenceData, units: Units, *, has_judge: bool) -> None:
    """Raise where no score, judge or feature says how models compare; without known propensities."""
    is_there, cluster = np.isfinite(data.score_table.mean), units.clusters
    if data.n_items > 1 and not has_judge and not data.x.shape[1]:
        together = is_there.astype(float).T @ is_there
        np.fill_diagonal(together, 0.0)
        apart = np.flatnonzero(~together.any(axis=1))
        if len(apart):
            raise MissingDataError(
                f"{data.items[apart[0]]!r} and the others were run on different prompts; name a judge or features"
            )
    if cluster is None or has_judge:
        return
    shares, empty = modelled_shares(data, units)
    if len(empty):
        raise MissingDataError(f"no model was run on {cluster.names[0]} {empty[0]!r}; leave it out")
    if shares.max() > _MOST_MODELLED:
        j = int(np.argmax(shares))
        raise MissingDataError(
            f"{100 * shares[j]:.0f} of 100 prompts of {data.items[j]!r}, more than {100 * _MOST_MODELLED:.0f}, are in "
            f"{cluster.names[0]}s on which it was never run; run it on more of them, or leave it out"
        )


def modelled_shares(data: PreferenceData, units: Units) -> tuple[FloatArray, list[object]]:
    """Return the share of prompts in clusters without a score of each model, (K,), and clusters without any score."""
    assert units.clusters is not None
    names, first, code = np.unique(units.clusters.of_context, return_index=True, return_inverse=True)
    has_score = np.zeros((len(names), data.n_items), dtype=bool)
    np.logical_or.at(has_score, code, np.isfinite(data.score_table.mean))
    labels = data.context_table([units.clusters.names[0]]).iloc[first, 0].to_numpy()
    empty = labels[np.flatnonzero(~has_score.any(axis=1))].tolist()
    return np.average(~has_score[code], axis=0, weights=units.weights(data)), empty


def unlike_others(
    judges: FloatArray, inverse: FloatArray, weight: FloatArray, cluster: IntArray | None
) -> tuple[FloatArray, float]:
    """Return by how much judges' scores of graded answers are above those of others, (L,), and a joint P value.

    Both are means over the models that have answers without a grade. Shapes: judges (n, K, L) without gaps, inverse
    (n, K), what a grade counts as, zero where there is none, weight (n,).
    """
    is_graded = inverse > 0
    mixed = ~is_graded.all(axis=0)
    if not mixed.any() or not judges.shape[2]:
        return np.full(judges.shape[2], np.nan), np.nan
    judges, w = judges[:, mixed], inverse[:, mixed, None] * weight[:, None, None]
    w = w / w.mean(axis=0)
    every = weight[:, None, None] / weight.mean()
    of_graded, of_all = (w * judges).mean(axis=0), (every * judges).mean(axis=0)
    left = 1 - np.average(is_graded[:, mixed], axis=0, weights=weight)[:, None]
    difference = ((of_graded - of_all) / left).mean(axis=0)
    values = ((w * (judges - of_graded) - every * (judges - of_all)) / left).mean(axis=1) / len(judges)
    if cluster is not None:
        values = unit_sums(values, np.unique(cluster, return_inverse=True)[1])
    size = np.sqrt(np.square(values).sum(axis=0))
    scaled, z = values / np.maximum(size, 1e-300), difference / np.maximum(size, 1e-300)
    statistic = z @ np.linalg.pinv(scaled.T @ scaled, rcond=1e-8, hermitian=True) @ z
    return difference, float(chdtrc(judges.shape[2], statistic))


def grade_facts(judges: Judges, scores: FloatArray) -> list[tuple[str, str]]:
    """Return what a table of grades and judges' scores holds, a name and a sentence each. Shapes: scores (n, K)."""
    is_graded, n_answers = np.isfinite(scores), int(judges.is_answer.sum())
    n_seen = np.isfinite(judges.scores).sum(axis=(0, 1))
    by_judge = [f"{name!r} {n:,}" for name, n in zip(judges.names, n_seen, strict=True)]
    facts = [("Grades:", f"{int(is_graded.sum()):,} of {n_answers:,} answers; scores of judges: {', '.join(by_judge)}")]
    difference, p = unlike_others(judges.completed, is_graded.astype(float), np.ones(len(scores)), None)
    if np.isfinite(p):
        ways = ", ".join(f"{abs(d):.3g} {'above' if d > 0 else 'below'}" for d in difference)
        likely = (
            "as if drawn at random" if p >= LEAST_LIKELY else "not drawn at random, so that propensities are estimated"
        )
        facts.append(("Graded answers:", f"judge scores {ways} those of the others (P = {p:.2g}): {likely}"))
    rows, columns = np.nonzero(is_graded & (is_graded.sum(axis=0) > 1))
    mean = np.nanmean(np.where(is_graded, scores, np.nan), axis=0)
    y, x = (scores - mean)[rows, columns], (judges.completed - judges.completed.mean(axis=0))[rows, columns]
    fitted = x @ np.linalg.lstsq(x, y, rcond=None)[0]
    n_free = len(y) - scores.shape[1] - x.shape[1]
    if n_free > 0 and y @ y > 0:
        share = max(1 - np.square(y - fitted).sum() / (y @ y) * (len(y) - scores.shape[1]) / n_free, 0.0)
        least = [(n, n / (1 - share * (1 - n / len(scores)))) for n in (50, 100, 200, 400) if n < len(scores)]
        text = ", ".join(f"{n} as many as {as_many:.0f}" for n, as_many in least)
        facts.append(("Grades are worth:", f"{text} of each model without a judge, which explains {share:.2f}"))
    return facts


def grade_figures(
    data: PreferenceData,
    units: Units,
    influence: Influence,
    judges: Judges,
    means: CorrectedMeans,
    *,
    widening: FloatArray,
    is_known: bool,
) -> GradeFigures:
    """Return how the judges compare with the grades; ``widening``, (K,): by what few grades widen standard errors."""
    cells, n = means.cells, data.n_contexts
    is_there, weight = cells.is_there, cells.weight
    w = means.inverse
    both = w * weight[:, None]

    def mean(values: FloatArray) -> FloatArray:
        return np.asarray(np.average(values, axis=0, weights=weight))

    def variance(value: FloatArray, correction: FloatArray) -> FloatArray:
        part = replace(influence, value=value, correction=correction)
        return make_covariance(part, np.empty((0, value.shape[1])), units, fixed_prompts=False).matrix

    y = np.where(is_there, cells.scores, 0.0)

    def of_grades(inverse: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return weighted means of grades alone, and their variances."""
        inverse = inverse / mean(inverse)
        found = mean(inverse * y)
        values = inverse * np.where(is_there, y - found, 0.0)
        return found, np.diag(variance(np.tile(found, (n, 1)), values))

    plain, of_plain = of_grades(w)
    # Estimated propensities are learnt from the judge.
    w_known = w if is_known else is_there.astype(float)
    alone, of_alone = of_grades(w_known)
    deviation = np.where(is_there, y - plain, 0.0)
    # The line through all graded answers.
    d = np.concatenate([np.ones((n, data.n_items, 1)), judges.completed], axis=2)
    gram = np.einsum("nk,nkp,nkq->pq", both, d, d, optimize=True) / n
    inverse = np.linalg.pinv(gram, rcond=1e-10, hermitian=True)
    line = inverse @ np.einsum("nk,nkp->p", both * y, d) / n
    of_line = np.einsum("nk,nkp->np", w * np.where(is_there, y - d @ line, 0.0), d) @ inverse
    of_judge = d @ line
    own = of_judge + of_line @ np.average(d, axis=0, weights=weight).T
    centre = np.eye(data.n_items) - 1 / data.n_items
    favour = variance((own - influence.value) @ centre, -influence.correction @ centre)
    spread = of_judge - mean(w * of_judge)
    size = np.sqrt(mean(w * deviation**2) * mean(w * spread**2))
    precise = np.diag(variance(influence.value, influence.correction))
    graded, total = is_there.sum(axis=0), float((both * deviation**2).sum())

    def explained(m: FloatArray) -> float:
        left = np.where(is_there, y - m, 0.0)
        left = np.where(is_there, left - mean(w * left), 0.0)
        return 1 - float((both * left**2).sum()) / total if total > 0 else np.nan

    nobody, none = np.zeros((data.n_items,) * 2, dtype=bool), np.empty((n, 0))
    by_judge = [answer_columns(judges.scores[:, :, [number]], none) for number in range(len(judges.names))]
    alone_with = [predicted_scores(replace(cells, columns=z), w, nobody) for z in by_judge]
    difference, p = unlike_others(judges.completed, w_known, weight, units.cluster)
    number = np.square(both.sum(axis=0)) / np.square(both).sum(axis=0)
    is_enough = (precise > 0) & (number >= _FEWEST_WORTH)
    worth = np.divide(number * of_plain, precise, out=np.full(len(number), np.nan), where=is_enough)
    return GradeFigures(
        names=judges.names,
        answers=judges.is_answer.sum(axis=0),
        graded=graded,
        judged=np.isfinite(judges.scores).all(axis=2).sum(axis=0),
        alone=alone,
        alone_errors=np.sqrt(of_alone),
        judge=mean(of_judge),
        judge_errors=np.sqrt(np.diag(variance(own, np.zeros_like(own)))),
        favour=(mean(of_judge) - influence.estimate) @ centre if data.n_items > 1 else np.full(1, np.nan),
        favour_covariance=favour * np.outer(widening, widening),
        correlation=np.divide(mean(w * deviation * spread), size, out=np.full(len(size), np.nan), where=size > 0),
        worth=worth,
        explained=np.array([explained(m) for m in (*alone_with, means.predicted)]),
        unlike=difference,
        unlike_p=p,
    )
