"""The pictures of a fit by name, and the sheet with the most important ones.

A picture is made in two steps: its ``prepare`` function computes the numbers and raises the errors, and returns a
function that draws into axes. The sheet can therefore leave a picture out, with the reason, before it makes axes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from .._utils.argument_checks import check_type, check_whole
from ..data.hypotheses import HypothesisLike, read_hypothesis
from ..exceptions import DmlrankError, OptionError, check_choice, listed
from ..fit.estimates import Estimates
from ..fit.state import FitState
from ..inference.simultaneous import Simultaneous
from ..plotting import charts
from ..report.fact_words import score_head
from ..report.fit_summary import chosen_names, rows_to_show
from ..report.phrases import counted, functional_unit, interval_method, models_to_mark, percentage
from ..report.render_page import ends_of_axis
from .heterogeneity import influence_values
from .ranking import PairwiseResults, RankSets
from .requirements import require_steps
from .units_and_views import alpha_of, critical_value_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Draw: TypeAlias = "Callable[[Axes | None], Axes]"
Names: TypeAlias = str | Sequence[str] | None

# Default number of prompts in a picture of influence values; largest number of models in a picture of the sheet.
_PROMPTS, SHEET_MODELS = 20, 20
_SHEET_COLUMNS = 2
# Inches of a picture in the sheet.
_SHEET_WIDTH, _SHEET_HEIGHT = 7.0, 5.2


def draw_picture(results: Any, name: object, ax: Axes | None, **options: object) -> Axes:
    """Draw one picture of a fit, see :meth:`RankResults.plot`."""
    names = [*PICTURES, "sheet"]
    check_type("picture", name, str, f"{listed(names, 20)}; give axes as ax=")
    check_choice(name, names, "picture")
    prepare = PICTURES[str(name)]
    used = options_of(prepare)
    for option, value in options.items():
        if value is not None and option not in used:
            raise OptionError(
                f"plot({name!r}) does not use {option}=; leave {option}= out; options of {name!r}: "
                f"{listed(used) or 'none'}"
            )
    return prepare(results, **{option: options[option] for option in used})(ax)


def options_of(prepare: Callable[..., Draw]) -> list[str]:
    """Return the options of a picture: the arguments of the function that prepares it, after the results."""
    return list(signature(prepare).parameters)[1:]


def draw_sheet(results: Any, **options: object) -> Figure:
    """Draw the important pictures of a fit in one figure, see ``"sheet"`` of :meth:`RankResults.plot`."""
    drawings: list[Draw] = []
    reasons: list[str] = []
    for name in _SHEET:
        # In the picture of influence values, top= does not choose the models of a leaderboard.
        used = [] if name == "influence" else options_of(PICTURES[name])
        try:
            drawings.append(PICTURES[name](results, **{option: options[option] for option in used}))
        except DmlrankError as error:
            reasons.append(f"{name!r}: {error}.")
    e: Estimates = results.estimates
    n_rows = -(-len(drawings) // _SHEET_COLUMNS)
    # The reasons why pictures are left out stand below the sheet; long reasons are wrapped.
    text = "\n".join(line for reason in reasons for line in textwrap.wrap(f"Left out: {reason}", 150))
    height = _SHEET_HEIGHT * n_rows + 0.2 * (text.count("\n") + 1)
    n_columns = min(_SHEET_COLUMNS, len(drawings))
    figure = charts.new_figure(height, _SHEET_WIDTH * n_columns)
    # Each picture has a subfigure, so that long names or a colour bar of one picture do not make the others smaller.
    for draw, part in zip(drawings, figure.subfigures(n_rows, n_columns, squeeze=False).flat, strict=False):
        try:
            draw(part.subplots())
        except DmlrankError as error:
            part.clear()
            reason = textwrap.fill(charts.literal(f"Left out: {error}."), 60)
            part.text(0.5, 0.5, reason, ha="center", va="center", fontsize=charts.TEXT_SIZE)
    figure.supxlabel(text, fontsize=charts.TEXT_SIZE, x=0.01, ha="left")
    part_of_prompts = f" ({e.part})" if e.part else ""
    counts = f"{e.description.n_contexts:,} prompts, {e.description.n_votes:,} {e.counts}s{part_of_prompts}"
    figure.suptitle(f"{functional_unit(e)}: {len(e.models)} models, {counts}")
    return figure


def _forest(results: Any, alpha: float | None, models: Names, top: int | None) -> Draw:
    """Scores with simultaneous intervals."""
    e: Estimates = results.estimates
    simultaneous: Simultaneous = results.simultaneous
    alpha, bootstrap = alpha_of(e, alpha), simultaneous.multipliers
    scores = list(rows_to_show(e, models, top).places)
    low, high = e.intervals(critical_value_of(e, simultaneous, alpha))
    method = interval_method(e) if bootstrap is None else f"{interval_method(e)}, {bootstrap} bootstrap"
    level = charts.level_words(alpha, method=method) if e.has_intervals else "estimates without intervals"
    level += f"\n{e.looks}" if e.looks else ""
    counted_models = charts.models_words(len(scores), len(e.names), "models" if e.of_models else "outputs")
    part = f"\n{e.part}" if e.part else ""
    title = f"{level}, {counted_models}{part}"
    intervals = pd.DataFrame({"estimate": e.estimate, "low": low, "high": high}, index=e.names).iloc[scores]
    # A score without a vote in the group is a prediction.
    intervals = intervals[~e.is_unseen[scores]]
    few = np.isin(intervals.index, models_to_mark(e))
    ends = ends_of_axis(intervals["low"].to_numpy(), intervals["high"].to_numpy(), few) if e.has_intervals else None
    return lambda ax: charts.forest_plot(intervals, e.neutral, label=score_head(e), title=title, ax=ax, ends=ends)


def _ranks(results: Any, alpha: float | None, models: Names, top: int | None) -> Draw:
    """Ranks with simultaneous confidence sets."""
    ranks: RankSets = results.ranks(alpha)
    chosen_names(ranks.models, models, top)
    return lambda ax: ranks.plot(ax, models=models, top=top)


def _matrix(results: Any, alpha: float | None, models: Names, top: int | None) -> Draw:
    """Differences of all pairs of models, tested jointly."""
    tests: PairwiseResults = results.t_test_pairwise(alpha=alpha)
    chosen_names(tests.models, models, top)
    return lambda ax: tests.plot(ax, models=models, top=top)


def _overlap(results: Any) -> Draw:
    """Propensities of the labelled cells."""
    state, which = _first_stages(results, "overlap", "propensities")
    propensity = state.first.propensity
    cells, clipped = propensity.cells, "none is clipped"
    if propensity.how == "estimated":
        share = percentage(propensity.n_floored / len(cells))
        clipped = f"{propensity.n_floored:,} ({share}) raised to the floor of their pair"
    title = (
        f"Propensities of {counted(len(cells), 'labelled cell')} ({propensity.how}{which})\n"
        f"smallest {cells.min():.3g}; {clipped}"
    )
    return lambda ax: charts.overlap_chart(cells, title, ax)


def _calibration(results: Any, alpha: float | None) -> Draw:
    """Out-of-fold probabilities of the outcome model beside the labels."""
    e: Estimates = results.estimates
    if e.sequence is not None:
        raise OptionError("plot('calibration') of a sequential view: intervals by bin hold for one look only")
    state, which = _first_stages(results, "calibration", "out-of-fold probabilities")
    cells, mu, alpha = state.data.cells, state.first.one_step_result.held_out, alpha_of(e, alpha)
    curves = {
        category: charts.reliability_curve(mu[:, c], cells.y[:, c], cells.n_votes, alpha=alpha)
        for c, category in enumerate(state.data.categories)
    }
    title = (
        f"Calibration of the outcome model: slope {e.diagnostics.calibration:.2f} (1 is right){which}\n"
        f"{charts.level_words(alpha, 'binomial intervals by bin', 'pointwise', '')}"
    )
    return lambda ax: charts.reliability_chart(curves, title, ax)


def _first_stages(results: Any, name: str, needed: str) -> tuple[FitState, str]:
    """Return the state of a fit that has first stages, and words that say which of several repetitions is drawn."""
    state = require_steps(results.estimates, results.steps, f"plot({name!r})")
    n_rep = len(state.repetitions)
    if not n_rep:
        raise OptionError(
            f"plot({name!r}) shows {needed}, and estimator={results.estimates.estimator!r} has none; fit with "
            f"estimator='debiased'"
        )
    return state, f", first of {n_rep} repetitions" if n_rep > 1 else ""


def _influence(results: Any, top: int | None = None, contrast: HypothesisLike | None = None) -> Draw:
    """Prompts with the largest influence on the best score, or on a contrast."""
    e: Estimates = results.estimates
    state = require_steps(e, results.steps, "plot('influence')")
    best = {e.names[int(np.argmax(e.merit))]: 1.0}
    drawn = read_hypothesis(best if contrast is None else contrast, e.names)
    if len(drawn.labels) != 1:
        raise OptionError(f"plot('influence') draws one contrast, and contrast= has {listed(drawn.labels)}; give one")
    name = drawn.labels[0]
    phi = influence_values(state, e.scale) @ drawn.matrix[0]
    total = float(phi @ phi)
    if not total > 0:
        raise OptionError(f"plot('influence'): no prompt has an influence on {name}, which does not vary")
    size, n = np.abs(phi), len(phi)
    if top is not None:
        check_whole("top", top, 1)
    n_drawn = min(n, top or _PROMPTS)
    at_least = np.flatnonzero(size >= np.partition(size, n - n_drawn)[n - n_drawn]).tolist()
    parts = {i: state.data.context_ids[i] for i in at_least}
    ids = {i: ", ".join(map(str, part)) if isinstance(part, tuple) else str(part) for i, part in parts.items()}
    # Prompts of equal influence are in the order of their identifiers, whatever the order of the data's rows is.
    largest = sorted(at_least, key=lambda i: (-size[i], ids[i]))[:n_drawn]
    share = float(size[largest] @ size[largest]) / total
    title = (
        f"Largest influence on {charts.literal(name)}: {len(largest)} of {n:,} prompts,\n"
        f"with {percentage(share)} of the sum of squares behind the standard error"
    )
    label = f"influence value / number of prompts, in units of the score: {functional_unit(e)}"
    names, values = [ids[i] for i in largest], phi[largest] / n
    return lambda ax: charts.influence_chart(names, values, label=label, title=title, ax=ax)


def _curve(results: Any, alpha: float | None, models: Names, top: int | None) -> Draw:
    """Pass@k or pass^k over the number of runs."""
    e: Estimates = results.estimates
    frame, alpha = results.curve(alpha=alpha), alpha_of(e, alpha)
    chosen = [e.names[j] for j in rows_to_show(e, models, top).places]
    kind = str(frame.columns[0])
    frame = frame.set_axis(["estimate", "std_error", "low", "high"], axis=1)
    curves = {name: frame.loc[name] for name in chosen}
    title = f"{kind}, {charts.level_words(alpha, 'bands')}, {charts.models_words(len(chosen), len(e.names))}"
    label = functional_unit(e).replace(e.functional, kind, 1)
    return lambda ax: charts.curve_chart(curves, "k, number of runs", label, title, ax)


# The function that prepares each picture; its arguments after the results are the options of the picture.
PICTURES: dict[str, Callable[..., Draw]] = {
    "forest": _forest,
    "ranks": _ranks,
    "matrix": _matrix,
    "curve": _curve,
    "overlap": _overlap,
    "calibration": _calibration,
    "influence": _influence,
}
# The pictures of a sheet in their order.
_SHEET = ("forest", "ranks", "matrix", "overlap", "calibration", "influence")
