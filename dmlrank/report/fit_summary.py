"""The summary table of a fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._utils.number_text import decimals, fewest_decimals, fixed_text, p_value_text
from ..data.preferences import FloatArray
from ..exceptions import OptionError, listed
from ..fit.estimates import Estimates
from ..inference.compact_letters import abbreviate_letters
from ..inference.ranks import rank_bounds, ranks_of
from ..inference.z_tests import z_statistics
from ..tables.summary_table import Summary
from .fit_notes import SummaryLevel, fit_notes
from .score_meaning import tie_weight
from .sentences import counted
from .shown_models import ShownModels, choose_models
from .style_summary import style_unit

_TITLE = "Nonparametric Ranking Results"


# Subjects of the sentence on models that a table leaves out.
_JOINT = "Ranks, rank sets, groups, simultaneous intervals and adjusted p-values"
_JOINT_WITHOUT_RANKS = "Simultaneous intervals and adjusted p-values"


def rows_to_show(results: Estimates, models: object = None, top: object = None) -> ShownModels:
    """Return the scores that a table shows, the best model first; outputs of a user's functional keep their order."""
    if not results.of_models:
        if top is not None:
            raise OptionError(
                "top= shows the models with the highest scores, and the outputs of this functional "
                f"({listed(results.names, 5)}) are not scores of models; use models= with names of outputs"
            )
        return choose_models(results.names, range(len(results.names)), models, noun="output")
    ranking = np.argsort(-results.estimate, kind="stable").tolist()
    return choose_models(results.models, ranking, models, top)


def joint_statements(results: Estimates) -> str:
    """Return what refers to all models in a table of some models, as the subject of a sentence."""
    if not results.has_intervals:
        return "Ranks"
    return _JOINT if results.of_models else _JOINT_WITHOUT_RANKS


def build_summary(
    results: Estimates, level: SummaryLevel, p_adjusted: FloatArray, shown: ShownModels | None = None
) -> Summary:
    """Build the summary of a fit.

    Shapes: p_adjusted (d,).
    """
    shown = rows_to_show(results) if shown is None else shown
    heads: tuple[str, ...] = ("coef", "std err", "z", "adj. P", f"[{100 * (1 - level.alpha):g}% simult. CI]")
    if not results.has_intervals:
        heads += ("order", "win") if results.of_models else ()
    elif level.separation:
        heads += ("rank", "set", "grp", "win")
    heads += ("votes",) if results.of_models and results.votes else ()
    columns = tuple((head, 1 + head.startswith("[")) for head in heads)
    title = f"{_TITLE}: {results.part}" if results.part else _TITLE
    rows, notes = _rows(results, level, p_adjusted, shown.places), fit_notes(results, level)
    table = Summary(title, header_lines(results), columns, rows, notes)
    return table.with_notes(shown.note(joint_statements(results)))


def header_lines(results: Estimates) -> tuple[tuple[str, str, str, str], ...]:
    """Return the lines above the table: two labels with their values each."""
    description, diagnostics = results.description, results.diagnostics
    identifiers = f" ({', '.join(description.context)})" if description.context else " (rows)"
    n_models = len(results.models)
    target = "these prompts only" if description.prompts == "fixed" else "new prompts like these"
    propensity = f" ({diagnostics.min_propensity:.3g})" if diagnostics.min_propensity > 0 else ""
    left = [
        ("Dep. Variable:", description.outcome),
        ("Functional:", functional_unit(results)),
        ("Edge weights:", description.edge_weights),
        ("Tie weight:", tie_weight(description.tie_weights)),
        ("Estimator:", _estimator(results)),
        ("Learner:", description.learner),
        ("Inference for:", f"{target}, weighted" if description.weighted else target),
    ]
    right = [
        ("Cov. Type:", covariance_words(results)),
        ("Clusters:", _clusters(results)),
        ("No. Prompts:", f"{description.n_contexts:,}{identifiers}"),
        ("No. Votes:", _votes(results)),
        ("Models, pairs compared:", f"{n_models}, {results.graph.n_edges:,} of {n_models * (n_models - 1) // 2:,}"),
        ("Smallest pair:", counted(description.smallest_pair, "vote")),
        ("Propensity (min):", f"{description.propensity}{propensity}"),
    ]
    return tuple((*a, *b) for a, b in zip(left, right, strict=True))


def _votes(results: Estimates) -> str:
    """Return the number of votes, and how many of them are used where not all are."""
    description, votes = results.description, results.votes
    if votes is None or not votes.n_left_out:
        return f"{description.n_votes:,} ({description.n_unlabelled:,} prompts unlabelled)"
    return f"{votes.n_used:,} of {description.n_votes:,} used ({description.n_unlabelled:,} unlabelled)"


def functional_unit(results: Estimates) -> str:
    """Return the functional, whether it is one of mean preferences, and the unit in which its scores are shown."""
    average = " of mean preferences" if results.averages_preferences else ""
    label = results.functional_label + average + style_unit(results)
    return label + ("" if results.scale.natural else f", {results.scale.name}")


def _estimator(results: Estimates) -> str:
    """Return the estimator with its folds and repetitions, or what it assumes."""
    if not results.estimated_by.has_first_stages:
        return f"{results.estimator} (assumes Bradley-Terry)"
    n_rep = results.description.n_rep
    repetitions = f", {n_rep} repetitions" if n_rep > 1 else ""
    folds = f"{results.estimator}, {results.description.n_folds} folds{repetitions}"
    return folds if results.has_intervals else f"{folds} (no intervals)"


def covariance_words(results: Estimates) -> str:
    """Return which units the covariance treats as independent."""
    names = results.description.clusters
    return f"cluster ({', '.join(names)})" if names else "robust (prompts independent)"


def _clusters(results: Estimates) -> str:
    """Return the numbers of clusters with the columns that define them."""
    pairs = zip(results.covariance.n_clusters, results.description.clusters, strict=True)
    return ", ".join(f"{count:,} {name}" for count, name in pairs) or "none"


def _rows(results: Estimates, level: SummaryLevel, p: FloatArray, places: Sequence[int]) -> tuple[tuple[str, ...], ...]:
    """Return a row of cells for each of these scores.

    Shapes: p (d,).
    """
    std_errors = results.std_errors
    z = z_statistics(*results.against_neutral())
    # The covariance exists without intervals, too, and determines how many digits are worth reading.
    digits = decimals(results.covariance.std_errors, fewest=fewest_decimals(results.scale.natural))
    lowest, highest = results.intervals(level.critical)
    rank_cells = _rank_cells(results, level)
    rows: list[tuple[str, ...]] = []
    for j in places:
        if not results.has_intervals:
            rows.append((results.names[j], fixed_text(results.estimate[j], digits), *("-",) * 5, *rank_cells[j]))
            continue
        numbers = (results.estimate[j], std_errors[j], lowest[j], highest[j])
        coef, error, lower, upper = (fixed_text(number, digits) for number in numbers)
        why_no_test = "fixed" if results.fixed[j] else "n/a" if np.isnan(z[j]) else ""
        test = (why_no_test, "") if why_no_test else (fixed_text(z[j], 2), p_value_text(p[j]))
        rows.append((results.names[j], coef, error, *test, lower, upper, *rank_cells[j]))
    return tuple(rows)


def _rank_cells(results: Estimates, level: SummaryLevel) -> list[tuple[str, ...]]:
    """Return rank, rank set, letters, share won and votes of every model; without intervals rank, share and votes."""
    if not results.of_models:
        return [()] * len(results.names)
    ranks, n_models = ranks_of(results.estimate), len(results.models)
    shares = [(f"{share:.2f}", *votes_of(results, j)) for j, share in enumerate(results.shares)]
    if level.separation is None:
        return [(str(ranks[j]), *shares[j]) for j in range(n_models)]
    best, worst = rank_bounds(level.separation.above)
    return [
        (str(ranks[j]), rank_set_text(best[j], worst[j]), abbreviate_letters(level.letters[j]) or "-", *shares[j])
        for j in range(n_models)
    ]


def votes_of(results: Estimates, model: int) -> tuple[str, ...]:
    """Return the number of used votes of a model; where some votes are not used, used and all votes, such as 8/10."""
    if results.votes is None:
        return ()
    used, total = int(results.votes.used[model]), int(results.votes.total[model])
    return (f"{used:,}" if used == total else f"{used:,}/{total:,}",)


def rank_set_text(best: int, worst: int) -> str:
    """Return a rank set as it is written."""
    return str(best) if best == worst else f"{best}-{worst}"
