"""The leaderboard of a fit: which models are shown, its columns, the summary, the short table, and tidy frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .._utils.argument_checks import check_whole
from .._utils.number_text import decimals, fewest_decimals, fixed_text, p_value_text
from ..data.preferences import FloatArray
from ..exceptions import OptionError, OptionTypeError, UnknownModelError, listed, nearest, shown
from ..fit.estimates import Estimates
from ..fit.state import FitState
from ..inference.alternatives import z_statistics
from ..inference.ranks import abbreviate_letters, rank_bounds, ranks_of
from ..tables.summary_table import Summary
from .statements import (
    SummaryLevel,
    as_sentence,
    counted,
    doubt_note,
    fit_notes,
    score_definition,
    sequential_note,
    style_unit,
    tie_weight,
    unit_sentences,
)


@dataclass(frozen=True, slots=True)
class ShownModels:
    """The models that a table shows.

    places: Places of the models among all models, in the order of the rows.
    n_models: Number of all models.
    noun: What the rows are, in the singular.
    """

    places: tuple[int, ...]
    n_models: int
    noun: str = "model"

    def note(self, joint_statements: str) -> str:
        """How many models are left out, and which statements refer to all models; empty where none is left out."""
        n_left_out = self.n_models - len(self.places)
        if not n_left_out:
            return ""
        verb = "is" if n_left_out == 1 else "are"
        return (
            f"The table shows {len(self.places)} of {self.n_models} {self.noun}s; {n_left_out} {verb} left out. "
            f"{joint_statements} refer to all {self.n_models} {self.noun}s."
        )


def choose_models(
    names: Sequence[str], ranking: Sequence[int], models: object = None, top: object = None, *, noun: str = "model"
) -> ShownModels:
    """Return the models that a table shows."""
    if models is not None and top is not None:
        raise OptionError("models= and top= were both given; give models= (names) or top= (a number), not both")
    if top is not None:
        check_whole("top", top, 1)
        return ShownModels(tuple(ranking[: int(str(top))]), len(names), noun)
    if models is None:
        return ShownModels(tuple(ranking), len(names), noun)
    chosen = _given_names(models)
    unknown = next((name for name in chosen if name not in names), None)
    if unknown is not None:
        raise UnknownModelError(
            f"models= names {unknown!r}, but there is no {noun} of this name{nearest(unknown, names)} "
            f"({noun}s: {listed(names, 25)})"
        )
    repeated = next((name for name in chosen if chosen.count(name) > 1), None)
    if repeated is not None:
        raise OptionError(f"models= names {repeated!r} twice; name every {noun} once")
    return ShownModels(tuple(list(names).index(name) for name in chosen), len(names), noun)


def chosen_names(best_first: Sequence[str], models: object = None, top: object = None) -> list[str]:
    """Return the names of the models that a picture shows; see :func:`choose_models` for the errors."""
    return [best_first[place] for place in choose_models(best_first, range(len(best_first)), models, top).places]


def _given_names(models: object) -> list[str]:
    """Return the names that a caller gives, one or several."""
    if isinstance(models, str):
        return [models]
    try:
        names = list(models)  # type: ignore[call-overload]
    except TypeError:
        raise OptionTypeError(
            f"models={shown(models)} is no list of names; give one, such as models=['a', 'b']"
        ) from None
    if not names:
        raise OptionError("models=[] names no model; name at least one, or leave models= out to show all models")
    wrong = next((name for name in names if not isinstance(name, str)), None)
    if wrong is not None:
        raise OptionTypeError(f"models= holds {wrong!r}, which is not a name; names are text")
    return names


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


def slim_summary(results: Estimates, level: SummaryLevel, shown: ShownModels) -> Summary:
    """Build the short table of a fit, which has one note that says what the numbers are."""
    n_rows = len(results.names)
    subject = f"Ranks and Scores of {n_rows} Models" if results.of_models else f"Estimates of {n_rows} Outputs"
    title = f"{subject}: {results.part}" if results.part else subject
    interval = ((f"[{100 * (1 - level.alpha):g}% simult. CI]", 2),) if results.has_intervals else ()
    votes = (("votes", 1),) if results.of_models and results.votes else ()
    joint = "Rank sets and simultaneous intervals" if level.separation else joint_statements(results)
    note = " ".join(filter(None, (shown.note(joint), *_slim_sentences(results, level))))
    if not results.of_models:
        return Summary(
            title, (), (("value", 1), *interval), _slim_rows(results, level, shown), (note,), row_head="output"
        )
    columns = (("model", 1), ("score", 1), *interval, *votes)
    head = "rank set" if level.separation else "order"
    return Summary(title, (), columns, _slim_rows(results, level, shown), (note,), row_head=head, name_place=1)


def _slim_rows(results: Estimates, level: SummaryLevel, shown: ShownModels) -> tuple[tuple[str, ...], ...]:
    """Return the cells of every model: rank set, name, score, limits of the interval, votes."""
    digits = decimals(results.covariance.std_errors, fewest=fewest_decimals(results.scale.natural))
    low, high = results.intervals(level.critical)
    ranks = [str(rank) for rank in ranks_of(results.estimate)]
    if level.separation:
        ranks = [rank_set_text(best, worst) for best, worst in zip(*rank_bounds(level.separation.above), strict=True)]
    rows = []
    for j in shown.places:
        numbers = (results.estimate[j], low[j], high[j]) if results.has_intervals else (results.estimate[j],)
        cells = [results.names[j], *(fixed_text(number, digits) for number in numbers)]
        rows.append((ranks[j], *cells, *votes_of(results, j)) if results.of_models else tuple(cells))
    return tuple(rows)


def _slim_sentences(results: Estimates, level: SummaryLevel) -> list[str]:
    """Return the sentences of the note: scores, intervals and rank sets, sizes, conditions."""
    d = results.description
    sentences = [f"Functional: {functional_unit(results)}."]
    if results.of_models:
        sentences = [score_definition(results), *unit_sentences(results)]
    if not results.has_intervals:
        sentences.append(as_sentence(f"estimates without intervals: {results.why_no_intervals}"))
    else:
        confidence = f"With {level.confidence} confidence{level.bootstrap_words}{',' * bool(level.bootstrap)}"
        jointly = f"{confidence} all intervals contain the true values at the same time"
        looks = "" if results.sequence is None else f", {results.sequence.clause}"
        sentences.append(f"{jointly}{looks}.")
        sentences += sequential_note(results)
        if level.separation:
            sentences.append(
                f"The rank set of a model has the ranks that the data leave possible; with {level.confidence} "
                f"confidence all rank sets contain the true ranks."
            )
    units = "prompts" if d.context else "rows"
    sentences.append(f"Estimated from {d.n_votes:,} votes on {d.n_contexts:,} {units}.")
    return [*sentences, *doubt_note(results)]


def tidy_frame(results: Estimates, critical: float) -> pd.DataFrame:
    """Return one row per score: term, estimate, std_error, statistic, p_value, conf_low, conf_high, votes.

    A further column ``votes_left_out`` counts the votes on pairs that are not compared. Outputs that are not scores of
    models have no columns of votes. Standard errors, tests and limits are NaN in a result without intervals.
    """
    std_errors = results.std_errors
    lower, upper = results.intervals(critical)
    z = z_statistics(*results.against_neutral())
    frame = pd.DataFrame(
        {
            "term": list(results.names),
            "estimate": results.estimate,
            "std_error": std_errors,
            "statistic": z,
            "p_value": results.p_values(),
            "conf_low": lower,
            "conf_high": upper,
        }
    )
    if results.votes is not None and results.of_models:
        frame["votes"] = results.votes.used
        frame["votes_left_out"] = results.votes.total - results.votes.used
    return frame


def glance_frame(results: Estimates, critical: float, alpha: float) -> pd.DataFrame:
    """Return one row about the fit as a whole; ``critical`` belongs to the intervals at ``alpha``."""
    description, diagnostics = results.description, results.diagnostics
    row = {
        "functional": results.functional,
        "average": results.description.average,
        "estimator": results.estimator,
        "nobs": description.n_contexts,
        "nvotes": description.n_votes,
        "nvotes_used": results.votes.n_used if results.votes else np.nan,
        "nvotes_left_out": results.votes.n_left_out if results.votes else np.nan,
        "ncomparisons": description.n_comparisons,
        "n_unlabelled": description.n_unlabelled,
        "n_dropped": description.n_dropped,
        "n_models": len(results.models),
        "n_pairs": results.graph.n_edges,
        "learner": description.learner,
        "n_folds": description.n_folds,
        "propensity": description.propensity,
        "min_propensity": diagnostics.min_propensity,
        "log_loss": diagnostics.log_loss,
        "log_loss_constant": diagnostics.log_loss_constant,
        "cov_type": description.cov_type,
        "n_clusters": min(results.covariance.n_clusters, default=description.n_contexts),
        "critical": critical,
        "alpha": alpha,
        "scale": results.scale.name,
        "seed": description.seed,
        "version": description.version,
    }
    if results.sequence is not None:
        row |= {"planned": results.sequence.planned, "start": results.sequence.start}
    return pd.DataFrame([row])


def augment_frame(steps: FitState, phi: FloatArray, models: tuple[str, ...], model: str | None) -> pd.DataFrame:
    """Return one row per labelled cell, with its first stages and the influence of its context.

    Shapes: phi (n, K).
    """
    data, cells = steps.data, steps.data.cells
    names = np.array(data.items, dtype=object)
    columns: dict[str, object] = {"first": names[cells.first], "second": names[cells.second], "n_votes": cells.n_votes}
    columns |= {f"mean_{name}": cells.y[:, c] for c, name in enumerate(data.categories)}
    if steps.likelihood:
        columns["fitted"] = steps.likelihood.cell_probabilities(data)
    else:
        columns["fold"] = steps.folds.fold[cells.context]
        columns |= {f"prob_{name}": steps.one_step_result.cell_mu[:, c] for c, name in enumerate(data.categories)}
        columns["propensity"] = steps.propensity.cells
        columns["weight"] = 1 / steps.propensity.cells
    if model is None:
        columns |= {f"influence_{name}": phi[cells.context, j] for j, name in enumerate(models)}
    else:
        columns["influence"] = phi[cells.context, models.index(model)]
    return pd.DataFrame(_identifiers(steps, set(columns)) | columns)


def _identifiers(steps: FitState, used_names: set[str]) -> dict[str, object]:
    """Return the columns that identify each cell's context; a name in ``used_names`` gets the prefix ``context_``."""
    ids = steps.data.context_ids[steps.data.cells.context]
    names = steps.options.context or ("context",)
    parts: Sequence[Iterable[object]] = list(zip(*ids, strict=True)) if len(names) > 1 else [ids]
    labels = (f"context_{name}" if name in used_names else name for name in names)
    return {label: list(part) for label, part in zip(labels, parts, strict=True)}
