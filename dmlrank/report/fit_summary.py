"""The summary table of a fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._utils.number_text import decimals
from ..fit.estimates import Estimates
from ..inference.compact_letters import abbreviate_letters, letter_groups
from ..inference.ranks import Separation, rank_bounds, ranks_of
from ..inference.z_tests import z_statistics
from .first_place import first_place
from .table import Summary

_TITLE = "Nonparametric Ranking Results"
_NON_LINEAR = ("bt", "rank_centrality", "dominance", "softmin")
_NO_FEATURES = ("1", "0", "0 + 1", "1 + 0", "-1")
_FRACTIONS = {0.0: "0", 0.5: "1/2", 1.0: "1"}


def build_summary(results: Estimates, alpha: float, critical: float, separation: Separation | None) -> Summary:
    """The summary of a fit.

    Parameters
    ----------
    results : Estimates
    alpha : float
        One minus the joint level of the intervals.
    critical : float
        Their half-width in standard errors (max-t).
    separation : Separation or None
        Which models are above which, at the same level; None where the estimates are not scores of models, or have no
        intervals.
    """
    level = f"{100 * (1 - alpha):g}%"
    heads: tuple[str, ...] = ("coef", "std err", "z", "adj. P", f"[{level} simult. CI]")
    if not results.has_intervals:
        heads += ("order", "win") if results.of_models else ()
    elif separation:
        heads += ("rank", "set", "grp", "win")
    heads += ("votes",) if results.of_models and results.votes else ()
    columns = tuple((head, 1 + head.startswith("[")) for head in heads)
    notes = _notes(results, alpha, critical, separation)
    title = f"{_TITLE}: {results.part}" if results.part else _TITLE
    return Summary(title, _header(results), columns, _rows(results, critical, separation), notes)


def _header(results: Estimates) -> tuple[tuple[str, str, str, str], ...]:
    description, diagnostics = results.description, results.diagnostics
    ids = f" ({', '.join(description.context)})" if description.context else " (rows)"
    n_models = len(results.models)
    prompts = "these, fixed" if description.prompts == "fixed" else "new ones like these"
    propensity = f" ({diagnostics.min_propensity:.3g})" if diagnostics.min_propensity > 0 else ""
    left = [
        ("Dep. Variable:", description.outcome),
        ("Functional:", functional_unit(results)),
        ("Edge weights:", description.edge_weights),
        ("Tie weight:", tie_weight(description.tie_weights)),
        ("Estimator:", _estimator(results)),
        ("Learner:", description.learner),
        ("Prompts:", f"{prompts}, weighted" if description.weighted else prompts),
    ]
    right = [
        ("Cov. Type:", covariance_words(results)),
        ("Clusters:", _clusters(results)),
        ("No. Contexts:", f"{description.n_contexts:,}{ids}"),
        ("No. Votes:", _votes(results)),
        ("Models, pairs compared:", f"{n_models}, {results.graph.n_edges} of {n_models * (n_models - 1) // 2}"),
        ("Smallest pair:", f"{description.smallest_pair:,} votes"),
        ("Propensity (min):", f"{description.propensity}{propensity}"),
    ]
    return tuple((*a, *b) for a, b in zip(left, right, strict=True))


def _votes(results: Estimates) -> str:
    """Votes, and how many of them are used where not all are."""
    description, votes = results.description, results.votes
    if votes is None or not votes.n_left_out:
        return f"{description.n_votes:,} ({description.n_unlabelled:,} contexts unlabelled)"
    return f"{votes.n_used:,} of {description.n_votes:,} used ({description.n_unlabelled:,} unlabelled)"


def functional_unit(results: Estimates) -> str:
    """What the scores are, and in what unit."""
    return results.functional_label + ("" if results.scale.natural else f", {results.scale.name}")


def _estimator(results: Estimates) -> str:
    if not results.estimated_by.has_first_stages:
        return f"{results.estimator} (assumes Bradley-Terry)"
    folds = f"{results.estimator}, {results.description.n_folds} folds x {results.description.n_rep}"
    return folds if results.has_intervals else f"{folds} (no intervals)"


def tie_weight(ties: Sequence[tuple[str, float, float]]) -> str:
    """What ties count, in words.

    Examples
    --------
    >>> tie_weight([("both_good", 0.5, 0.5), ("both_bad", 0.5, 0.5)])
    '1/2'
    """
    if not ties:
        return "no ties"
    shown = {name: _fraction(a) if a == b else f"{_fraction(a)} and {_fraction(b)}" for name, a, b in ties}
    if len(set(shown.values())) == 1:
        return next(iter(shown.values()))
    return ", ".join(f"{name.replace('_', ' ')} {weight}" for name, weight in shown.items())


def _fraction(weight: float) -> str:
    return _FRACTIONS.get(weight, f"{weight:g}")


def covariance_words(results: Estimates) -> str:
    """What is taken to be independent."""
    names = results.description.clusters
    return f"cluster ({', '.join(names)})" if names else "robust (contexts independent)"


def _clusters(results: Estimates) -> str:
    pairs = zip(results.covariance.n_clusters, results.description.clusters, strict=True)
    return ", ".join(f"{count:,} {name}" for count, name in pairs) or "none"


def _rows(results: Estimates, critical: float, separation: Separation | None) -> tuple[tuple[str, ...], ...]:
    std_errors = results.std_errors
    z, p = z_statistics(*results.against_neutral()), results.adjusted_p_values()
    # The covariance is known without intervals, too, and tells how many digits are worth reading.
    digits = decimals(results.covariance.std_errors, fewest=3 if results.scale.natural else 1)
    lowest, highest = results.intervals(critical)
    standing = _standing(results, separation)
    rows: list[tuple[str, ...]] = []
    for j in np.argsort(-results.estimate, kind="stable") if results.of_models else range(len(results.names)):
        if not results.has_intervals:
            rows.append((results.names[j], f"{results.estimate[j]:.{digits}f}", *("-",) * 5, *standing[j]))
            continue
        numbers = (results.estimate[j], std_errors[j], lowest[j], highest[j])
        coef, error, lower, upper = (f"{number:.{digits}f}" for number in numbers)
        why_not = "fixed" if results.fixed[j] else "n/a" if np.isnan(z[j]) else ""
        test = (why_not, "") if why_not else (f"{z[j]:.2f}", f"{p[j]:.3f}")
        rows.append((results.names[j], coef, error, *test, lower, upper, *standing[j]))
    return tuple(rows)


def _standing(results: Estimates, separation: Separation | None) -> list[tuple[str, ...]]:
    """Rank, rank set, group and share of wins of every model; place and share where there are no intervals."""
    if not results.of_models:
        return [()] * len(results.names)
    ranks = ranks_of(results.estimate)
    if separation is None:
        return [(str(ranks[j]), f"{results.shares[j]:.2f}", *_votes_of(results, j)) for j in range(len(results.models))]
    best, worst = rank_bounds(separation.above)
    groups = letter_groups(separation.separated, results.estimate)
    return [
        (
            str(ranks[j]),
            rank_set(best[j], worst[j]),
            abbreviate_letters(groups[j]),
            f"{results.shares[j]:.2f}",
            *_votes_of(results, j),
        )
        for j in range(len(results.models))
    ]


def _votes_of(results: Estimates, model: int) -> tuple[str, ...]:
    """Votes of a model that are used, and of how many where not all are."""
    if results.votes is None:
        return ()
    used, total = int(results.votes.used[model]), int(results.votes.total[model])
    return (f"{used:,}" if used == total else f"{used:,}/{total:,}",)


def rank_set(best: int, worst: int) -> str:
    """A rank set as it is written.

    Examples
    --------
    >>> rank_set(1, 3), rank_set(2, 2)
    ('1-3', '2')
    """
    return str(best) if best == worst else f"{best}-{worst}"


def _notes(results: Estimates, alpha: float, critical: float, separation: Separation | None) -> tuple[str, ...]:
    description, d = results.description, results.diagnostics
    intervals = _interval_note(results, alpha, critical, separation) if results.has_intervals else _why_none(results)
    notes = [_meaning(results), intervals]
    notes += first_place(results, separation) if separation else []
    if results.part:
        notes.append(
            f"Scores of {results.part}, from the first stages of the whole fit: log-loss, propensities, position "
            f"effect and warnings are about that."
        )
    if results.has_intervals and (results.fixed.any() or not (results.std_errors > 0).all()):
        notes.append(_no_test(results))
    lost = results.votes.n_left_out if results.votes else 0
    with_votes = f" ({lost:,} votes)" if lost else ""
    left_out = (
        [f"{d.pairs_left_out} pairs with too few labels{with_votes} are not compared"] if d.pairs_left_out else []
    )
    left_out += [f"{d.votes_dropped:,} later votes on a prompt and pair are left out"] if d.votes_dropped else []
    left_out += [f"{d.contexts_added:,} contexts come from unlabelled="] if d.contexts_added else []
    left_out += [f"models left out: {', '.join(d.models_dropped)}"] if d.models_dropped else []
    if left_out:
        notes.append("; ".join(left_out).capitalize() + ".")
    notes += _outcome_note(d.outcome_kind, d.labels)
    notes += _judge_note(results)
    notes.append(
        f"{_first_stages(results)} Rows dropped: {description.n_dropped:,}. Seed {description.seed}. "
        f"{_trouble(results)}"
    )
    return tuple(notes)


def _judge_note(results: Estimates) -> list[str]:
    judge = results.judge
    if judge is None:
        return []
    if not results.has_intervals:
        return [f"Verdicts of {', '.join(judge.names)} on {judge.n_verdicts:,} pairs are in the estimate."]
    known = judge.alone_errors > 0
    ratio = float(np.square(judge.errors[known] / judge.alone_errors[known]).mean()) if known.any() else float("nan")
    worth = "" if not 0 < judge.worth < np.inf else f", worth about {judge.worth:,.0f} more human votes"
    how = "" if judge.how == "two-stage" else " as features of mu, which changes what non-linear scores mean"
    return [
        f"Verdicts of {', '.join(judge.names)} on {judge.n_verdicts:,} pairs, {judge.n_unlabelled:,} of them without a "
        f"human label,{how} sharpen the estimate: variance ratio {ratio:.2f}{worth}."
    ]


def _position(results: Estimates) -> str:
    z = results.diagnostics.position_z
    known = f"z = {z:.2f}" if np.isfinite(z) else "not testable"
    why = results.description.order_reason
    if results.description.ordered:
        return (f"Display order matters: {why}. " if why else "") + f"Position effect {known}"
    return f"Display order ignored{f': {why}' if why else ''} (test of a position effect: {known})"


def _first_stages(results: Estimates) -> str:
    d = results.diagnostics
    if not results.estimated_by.has_first_stages:
        return (
            f"In-sample log-loss {d.log_loss:.3f} (coin {d.log_loss_constant:.3f}). The scores are the maximum of the "
            f"Bradley-Terry likelihood of all votes, display order ignored; standard errors are sandwich ones. If "
            f"log-odds are no differences of scores, they depend on which pairs were compared how often."
        )
    bite = f"floor {d.floor:g} bit {d.mu_floored:,} of {d.mu_entries:,}" if d.mu_entries else "no floor needed"
    rests = _rests_on(results)
    rests += bite if rests else bite.capitalize()
    slope = f", calibration slope {d.calibration:.2f}" if np.isfinite(d.calibration) else ""
    return (
        f"Out-of-fold log-loss {d.log_loss:.3f} (constant {d.log_loss_constant:.3f}){slope}. Propensity weights: "
        f"effective share of labels at least {d.effective_share:.2f}. {rests}. {_position(results)}."
    )


def _rests_on(results: Estimates) -> str:
    """What the standard errors rest on, and the bias that is left; nothing where there are no standard errors."""
    d = results.diagnostics
    if not results.has_intervals:
        return ""
    rests = f"Standard errors rest on at least {d.effective_contexts:,.0f} prompts"
    known = np.isfinite(d.second_order) and d.second_order > 0
    if d.subsample:
        rests += f" (F averaged over {d.subsample:,}, which adds {100 * d.subsample_price:.1f} % to them)"
    return rests + (f"; second-order bias at most {d.second_order:.2f} of them" if known else "") + "; "


def _trouble(results: Estimates) -> str:
    """The warnings of the fit, but for what a note has said already."""
    reason = results.why_no_intervals
    given = [one for one in results.diagnostics.warnings if not (reason and reason in one)]
    return f"Warnings: {'; '.join(given)}." if given else "No further warnings." if reason else "No warnings."


def _outcome_note(kind: str, labels: Sequence[tuple[str, str]]) -> list[str]:
    """What numbers in the outcome mean; words speak for themselves."""
    words = {"first": "first wins", "second": "second wins"}
    read = ", ".join(f"{label} = {words.get(meaning, meaning.replace('_', ' '))}" for label, meaning in labels)
    if kind == "preferences":
        return [f"Soft labels: preferences from 0 to 1, {read}; there is no category of ties."]
    if kind == "probabilities":
        return [f"Soft labels: probabilities, {read}."]
    return [f"Labels: {read}."] if any(label in ("0", "1", "True", "False") for label, _ in labels) else []


def _meaning(results: Estimates) -> str:
    n_models = len(results.models)
    scale = {
        "bt": f"Log-odds against the average of these {n_models} models",
        "borda": f"Mean share of comparisons won against the other {n_models - 1} models"
        if results.graph.complete
        else "Mean share of comparisons won; models faced different opponents",
        "rank_centrality": "Share of time that a walk which moves to preferred models spends at each model",
        "dominance": "Share of opponents that a model beats clearly, softly counted",
        "softmin": "Preference for a model against the opponent who suits it worst, softly taken",
    }.get(results.functional, results.functional_label)
    if not results.of_models:
        return f"Outputs of a functional of one's own{_unit(results)}; {results.reason}.{_tested(results)}"
    opponents = f"the other {n_models - 1}" if results.graph.complete else "a model's own opponents"
    ties = tie_weight(results.description.tie_weights)
    win = f"win = share won against {opponents}" + (f", ties {ties}" if ties != "no ties" else "")
    return f"{scale}{_unit(results)}; {results.reason}.{_target(results)}{_tested(results)} {win}."


def _unit(results: Estimates) -> str:
    """What was multiplied and added, in words."""
    unit = results.scale
    if unit.natural:
        return ""
    times = {"elo": " in Elo points (400 / ln 10 per log-odds)", "log-odds": ""}.get(unit.name, f", {unit.name}")
    if unit.anchor is not None:
        model, value = unit.anchor
        return f"{times}, shifted so that {model} has {value:g} (no interval gets wider or narrower by it)"
    if unit.mean is not None:
        return f"{times}, shifted so that the mean is {unit.mean:g}"
    return times


def _target(results: Estimates) -> str:
    """What scores that are not linear in preferences are scores of: they depend on what preferences are given."""
    if results.functional not in _NON_LINEAR or not results.estimated_by.has_first_stages:
        return ""
    if results.description.formula.split("~", 1)[-1].split("|")[0].strip() in _NO_FEATURES:
        return " They describe preferences averaged over prompts; features in the formula would change what they mean."
    return " They are means over prompts of scores given the formula's features; other features change what they mean."


def _tested(results: Estimates) -> str:
    return f" z tests {_against(results)}." if results.has_intervals else ""


def _against(results: Estimates) -> str:
    """The value that z tests compare a score with."""
    if results.neutral is None:
        return "the mean score"
    return '"average model"' if results.functional == "bt" else f"the value {results.neutral:.3g}"


def _interval_note(results: Estimates, alpha: float, critical: float, separation: Separation | None) -> str:
    level = f"{100 * (1 - alpha):g} %"
    what = "scores" if separation else "outputs"
    doubted = bool(results.diagnostics.doubts)
    hold = "they are made to hold" if doubted else "they hold"
    note = f"Intervals: max-t, critical value {critical:.2f}; {hold} for all {len(results.names)} {what} at once "
    note += f"with {level}."
    if results.neutral is None:
        note += " adj. P: single-step max-t over all of them."
    else:
        note += f" adj. P is below {alpha:g} exactly where the interval excludes the value tested."
    note += _rank_note(results, level, separation) if separation else ""
    if results.covariance.note:
        note += f" {results.covariance.note.capitalize()}."
    return " ".join([note, *doubt_note(results)])


def doubt_note(results: Estimates) -> list[str]:
    """That intervals and tests may not hold, where the fit has warned of it; else nothing."""
    number = len(results.diagnostics.doubts)
    if not number or not results.has_intervals:
        return []
    count = "a warning" if number == 1 else f"{number} warnings"
    return [f"Whether that holds here is in doubt: the fit gave {count} about its standard errors, tests and ranks."]


def _why_none(results: Estimates) -> str:
    """Why there are no intervals, and what the order of the models is then."""
    order = " The order is that of the scores and no test stands behind it." if results.of_models else ""
    return f"Estimates without intervals: {results.why_no_intervals}.{order}"


def _rank_note(results: Estimates, level: str, separation: Separation) -> str:
    n_models = len(results.models)
    hold = "are made to hold" if results.diagnostics.doubts else "hold"
    note = f" Rank sets (set) {hold} all true ranks jointly with {level}"
    differences = f" (differences, {separation.critical:.2f}, stepping down)" if separation.critical > 0 else ""
    groups = letter_groups(separation.separated, results.estimate)
    long = any("-" in abbreviate_letters(group) for group in groups)
    letters = "grp; a-e is all from a to e" if long else "grp"
    return note + (
        f"{differences}. {separation.n_separated:,} of {n_models * (n_models - 1) // 2:,} pairs separated; models that "
        f"share a letter ({letters}) are not separated, which does not show that they are equal."
    )


def _no_test(results: Estimates) -> str:
    names = [m for m, s in zip(results.names, results.covariance.std_errors, strict=True) if not s > 0]
    why = "the functional fixes them" if results.fixed.any() else "they do not vary in these data"
    return f"No test for {', '.join(names)}: standard error zero, {why}."
