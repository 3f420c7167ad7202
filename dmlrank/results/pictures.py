"""The pictures of a fit by name, and the sheet with the most important ones.

A picture is made in two steps: its ``prepare`` function computes the numbers and raises the errors, and returns a
function that draws into axes. The sheet can therefore leave a picture out, with the reason, before it makes axes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from .._utils.argument_checks import check_whole
from ..data.hypotheses import HypothesisLike
from ..data.preferences import FloatArray
from ..exceptions import DmlrankError, OptionError, listed
from ..fit.estimates import Estimates
from ..fit.state import FitState
from ..plotting.diagnostic_charts import influence_chart, overlap_chart, reliability_chart, reliability_curve
from ..plotting.intervals import forest_plot
from ..plotting.theme import TEXT_SIZE, level_words, literal, models_words, new_figure, write_reason
from ..report.leaderboard import chosen_names, rows_to_show
from ..report.statements import counted, functional_unit, interval_method, percentage
from .ellipsoid import Ellipsoid
from .groups import GroupResults
from .heterogeneity import influence_values
from .hypothesis_tables import PairwiseResults
from .joint_estimates import score_label
from .projection import Projection
from .ranking import RankSets
from .requirements import check_picture, named_estimates, require_steps
from .views import alpha_of, bootstrap_of, critical_value_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Draw: TypeAlias = "Callable[[Axes | None], Axes]"

# Default number of prompts in a picture of influence values; largest number of models in a picture of the sheet.
_PROMPTS, SHEET_MODELS = 20, 20
_SHEET_COLUMNS = 2
# Inches of a picture in the sheet.
_SHEET_WIDTH, _SHEET_HEIGHT = 7.0, 5.2


@dataclass(frozen=True, slots=True, eq=False)
class PictureRequest:
    """A request for one picture: the fit and the options of the picture.

    steps: Data and learners of the fit.
    alpha: One minus the level; that of the fit when None.
    models: Models in the picture.
    top: Number of the best models in the picture.
    by: Columns of groups.
    variable: Variable of the prompt along which scores are projected and drawn as bands.
    contrast: Linear combination of scores whose influence values or region are drawn.
    """

    results: Any
    alpha: float | None = None
    models: Sequence[str] | None = None
    top: int | None = None
    by: str | Sequence[str] | None = None
    variable: str | None = None
    contrast: HypothesisLike | None = None

    @property
    def estimates(self) -> Estimates:
        """The estimates of the result."""
        estimates: Estimates = self.results.estimates
        return estimates

    @property
    def checked_alpha(self) -> float:
        """One minus the level of the picture, after a check: ``alpha``, or that of the fit."""
        return alpha_of(self.estimates, self.alpha)


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that a fit can draw.

    prepare: Computes the numbers of the picture and returns a function that draws them.
    options: Options of :meth:`RankResults.plot` that the picture uses.
    """

    prepare: Callable[[PictureRequest], Draw]
    options: frozenset[str]


def draw_picture(name: object, request: PictureRequest, ax: Axes | None) -> Axes:
    """Draw one picture of a fit, see :meth:`RankResults.plot`."""
    check_picture(name, PICTURES)
    picture = PICTURES[str(name)]
    options = ("alpha", "models", "top", "by", "variable", "contrast")
    for option in options:
        if getattr(request, option) is not None and option not in picture.options:
            used = listed([word for word in options if word in picture.options]) or "none"
            raise OptionError(
                f"plot({name!r}) does not use {option}=; leave {option}= out; options of {name!r}: {used}"
            )
    return picture.prepare(request)(ax)


def draw_sheet(request: PictureRequest) -> Figure:
    """Draw the important pictures of a fit in one figure, see :meth:`RankResults.plots`."""
    drawings, reasons = _prepare_sheet(request)
    n_rows = -(-len(drawings) // _SHEET_COLUMNS)
    # The reasons why pictures are left out stand below the sheet; long reasons are wrapped.
    text = "\n".join(line for reason in reasons for line in textwrap.wrap(f"Left out: {reason}", 150))
    height = _SHEET_HEIGHT * n_rows + 0.2 * (text.count("\n") + 1)
    n_columns = min(_SHEET_COLUMNS, len(drawings))
    figure = new_figure(height, _SHEET_WIDTH * n_columns)
    # Each picture has a subfigure, so that long names or a colour bar of one picture do not make the others smaller.
    for draw, part in zip(drawings, figure.subfigures(n_rows, n_columns, squeeze=False).flat, strict=False):
        try:
            draw(part.subplots())
        except DmlrankError as error:
            part.clear()
            write_reason(part, f"Left out: {error}.")
    if text:
        figure.supxlabel(text, fontsize=TEXT_SIZE, x=0.01, ha="left")
    e = request.estimates
    part = f" ({e.part})" if e.part else ""
    counts = f"{e.description.n_contexts:,} prompts, {e.description.n_votes:,} votes{part}"
    figure.suptitle(f"{functional_unit(e)}: {len(e.models)} models, {counts}")
    return figure


def _prepare_sheet(request: PictureRequest) -> tuple[list[Draw], list[str]]:
    """Return the functions that draw the pictures of the sheet, and the reasons why other pictures are left out."""
    drawings, reasons = [], []
    for name in _SHEET:
        picture = PICTURES[name]
        if name in ("heat_map", "bump") and request.by is None:
            reasons.append(f"{name!r}, because no groups are named; name their column with by=.")
            continue
        # In the picture of influence values, models= and top= do not choose the models of a leaderboard.
        part = replace(request, models=None, top=None) if name == "influence" else request
        try:
            drawings.append(picture.prepare(part))
        except DmlrankError as error:
            reasons.append(f"{name!r}: {error}.")
    if request.variable is None:
        reasons.append("'bands', because no variable is named; draw plot('bands', variable=).")
    if len(request.estimates.models) > 2:
        reasons.append("'ellipse', which is about two models; draw plot('ellipse', models=).")
    return drawings, reasons


def _forest(request: PictureRequest) -> Draw:
    """Scores with simultaneous intervals."""
    e, alpha, bootstrap = request.estimates, request.checked_alpha, bootstrap_of(request.results.simultaneous)
    scores = list(rows_to_show(e, request.models, request.top).places)
    chosen = [e.names[j] for j in scores]
    low, high = e.intervals(critical_value_of(e, request.results.simultaneous, alpha))
    method = interval_method(e) if bootstrap is None else f"{interval_method(e)}, {bootstrap} bootstrap"
    level = level_words(alpha, method=method) if e.has_intervals else "estimates without intervals"
    level += f"\n{e.sequence.clause}" if e.sequence is not None else ""
    counted_models = models_words(len(chosen), len(e.names), "models" if e.of_models else "outputs")
    part = f"\n{e.part}" if e.part else ""
    title = f"{level}, {counted_models}{part}"
    intervals = pd.DataFrame({"estimate": e.estimate, "low": low, "high": high}).iloc[scores].set_axis(chosen)
    return lambda ax: forest_plot(intervals, e.neutral, label=score_label(e), title=title, ax=ax)


def _ranks(request: PictureRequest) -> Draw:
    """Ranks with simultaneous confidence sets."""
    ranks: RankSets = request.results.ranks(request.alpha)
    chosen_names(ranks.models, request.models, request.top)
    return partial(ranks.plot, models=request.models, top=request.top)


def _matrix(request: PictureRequest) -> Draw:
    """Differences of all pairs of models, tested jointly."""
    tests: PairwiseResults = request.results.t_test_pairwise(alpha=request.alpha)
    chosen_names(tests.models, request.models, request.top)
    return lambda ax: tests.plot("matrix", ax, models=request.models, top=request.top)


def _ellipse(request: PictureRequest) -> Draw:
    """Joint region of two scores or contrasts."""
    e, models = request.estimates, request.models
    if request.contrast is None and models is None:
        models = [e.names[j] for j in np.argsort(-e.estimate, kind="stable")[:2]]
    region: Ellipsoid = request.results.ellipsoid(request.alpha, models, request.contrast)
    region.outline(2)
    return region.plot


def _overlap(request: PictureRequest) -> Draw:
    """Propensities of the labelled cells."""
    steps = _first_stages(request, "overlap", "propensities")
    propensity = steps.propensity
    cells = propensity.cells
    if propensity.how == "estimated":
        share = percentage(propensity.n_floored / len(cells))
        clipped = f"{propensity.n_floored:,} ({share}) raised to the floor of their pair"
    else:
        clipped = "none is clipped"
    title = (
        f"Propensities of {counted(len(cells), 'labelled cell')} ({propensity.how}{_repetition(steps)})\n"
        f"smallest {cells.min():.3g}; {clipped}"
    )
    return lambda ax: overlap_chart(cells, title, ax)


def _calibration(request: PictureRequest) -> Draw:
    """Out-of-fold probabilities of the outcome model beside the labels."""
    if request.estimates.sequence is not None:
        raise OptionError("plot('calibration') of a sequential view: intervals by bin hold for one look only")
    steps = _first_stages(request, "calibration", "out-of-fold probabilities")
    cells, mu = steps.data.cells, steps.one_step_result.cell_mu
    curves = {
        category: reliability_curve(mu[:, c], cells.y[:, c], cells.n_votes, alpha=request.checked_alpha)
        for c, category in enumerate(steps.data.categories)
    }
    slope = request.estimates.diagnostics.calibration
    title = (
        f"Calibration of the outcome model: slope {slope:.2f} (1 is right){_repetition(steps)}\n"
        f"{level_words(request.checked_alpha, 'binomial intervals by bin', 'pointwise', '')}"
    )
    return lambda ax: reliability_chart(curves, title, ax)


def _influence(request: PictureRequest) -> Draw:
    """Prompts with the largest influence on a score or contrast."""
    e = request.estimates
    steps = require_steps(e, request.results.steps, "plot('influence')")
    row, name = _combination(request)
    phi = influence_values(steps, e.scale) @ row
    total = float(phi @ phi)
    if not total > 0:
        raise OptionError(f"plot('influence'): no prompt has an influence on {name}, which does not vary")
    size, n = np.abs(phi), len(phi)
    if request.top is not None:
        check_whole("top", request.top, 1)
    n_drawn = min(n, request.top or _PROMPTS)
    at_least = np.flatnonzero(size >= np.partition(size, n - n_drawn)[n - n_drawn]).tolist()
    ids = {i: _identifier(steps.data.context_ids[i]) for i in at_least}
    # Prompts of equal influence are in the order of their identifiers, whatever the order of the data's rows is.
    largest = sorted(at_least, key=lambda i: (-size[i], ids[i]))[:n_drawn]
    share = float(size[largest] @ size[largest]) / total
    title = (
        f"Largest influence on {literal(name)}: {len(largest)} of {n:,} prompts,\n"
        f"with {percentage(share)} of the sum of squares behind the standard error"
    )
    label = f"influence value / number of prompts, in units of the score: {functional_unit(e)}"
    names, values = [ids[i] for i in largest], phi[largest] / n
    return lambda ax: influence_chart(names, values, label=label, title=title, ax=ax)


def _combination(request: PictureRequest) -> tuple[FloatArray, str]:
    """Return the coefficients and the name of the score or contrast whose influence values are drawn."""
    e = request.estimates
    if request.contrast is not None:
        if request.models is not None:
            raise OptionError("plot('influence'): models= and contrast= both say what is drawn; give one of them")
        hypothesis = named_estimates(e).hypothesis(request.contrast)
        if len(hypothesis.labels) != 1:
            raise OptionError(
                f"plot('influence') draws one contrast, and contrast= has {len(hypothesis.labels)}: "
                f"{listed(hypothesis.labels)}; give one"
            )
        return hypothesis.matrix[0], hypothesis.labels[0]
    best_first = [e.names[j] for j in np.argsort(-e.estimate, kind="stable")]
    chosen = chosen_names(best_first, request.models, 1 if request.models is None else None)
    if len(chosen) != 1:
        raise OptionError(
            f"plot('influence') draws one model, and models= names {len(chosen)}: {listed(chosen)}; name one, or give "
            f"contrast='{chosen[0]} - {chosen[1]}'"
        )
    return np.eye(len(e.names))[e.names.index(chosen[0])], chosen[0]


def _identifier(identifier: object) -> str:
    """Return the identifier of a prompt as text; the parts of several columns are separated by commas."""
    return ", ".join(map(str, identifier)) if isinstance(identifier, tuple) else str(identifier)


def _first_stages(request: PictureRequest, name: str, needed: str) -> FitState:
    """Return the steps of a fit that has first stages."""
    steps = require_steps(request.estimates, request.results.steps, f"plot({name!r})")
    if not steps.repetitions:
        raise OptionError(
            f"plot({name!r}) shows {needed}, and estimator={request.estimates.estimator!r} has none; fit with "
            f"estimator='debiased'"
        )
    return steps


def _repetition(steps: FitState) -> str:
    """Return the words that say which of several repetitions is drawn; an empty text for a single repetition."""
    n_rep = len(steps.repetitions)
    return f", first of {n_rep} repetitions" if n_rep > 1 else ""


def _groups(request: PictureRequest, name: str) -> GroupResults[Any]:
    """Return the scores in groups of prompts, for the picture of this name."""
    by = request.results.by
    if request.by is None:
        raise OptionError(f"plot({name!r}) shows groups of prompts; name their column: plot({name!r}, by='category')")
    groups: GroupResults[Any] = by(*((request.by,) if isinstance(request.by, str) else request.by))
    rows_to_show(request.estimates, request.models, request.top)
    return groups


def _heat_map(request: PictureRequest) -> Draw:
    """Scores of models by group of prompts."""
    groups = _groups(request, "heat_map")
    return lambda ax: groups.plot("heat_map", ax, models=request.models, top=request.top)


def _bump(request: PictureRequest) -> Draw:
    """Ranks of models by group of prompts."""
    groups = _groups(request, "bump")
    return lambda ax: groups.plot("bump", ax, models=request.models, top=request.top)


def _bands(request: PictureRequest) -> Draw:
    """Scores along a variable of the prompt, projected on it linearly."""
    project = request.results.project
    if request.variable is None:
        raise OptionError("plot('bands') shows scores along a variable; name one: plot('bands', variable='length')")
    projection: Projection = project(f"~ {request.variable}")
    return partial(_draw_bands, projection, request.variable, request)


def _draw_bands(projection: Projection, variable: str, request: PictureRequest, ax: Axes | None) -> Axes:
    """Draw the bands of a projection along a variable."""
    return projection.plot(variable, models=request.models, top=request.top, alpha=request.alpha, ax=ax)


def _picture(prepare: Callable[[PictureRequest], Draw], *options: str) -> Picture:
    """Return a picture with the options that it uses."""
    return Picture(prepare, frozenset(options))


PICTURES: dict[str, Picture] = {
    "forest": _picture(_forest, "alpha", "models", "top"),
    "ranks": _picture(_ranks, "alpha", "models", "top"),
    "matrix": _picture(_matrix, "alpha", "models", "top"),
    "ellipse": _picture(_ellipse, "alpha", "models", "contrast"),
    "heat_map": _picture(_heat_map, "models", "top", "by"),
    "bump": _picture(_bump, "models", "top", "by"),
    "bands": _picture(_bands, "alpha", "models", "top", "variable"),
    "overlap": _picture(_overlap),
    "calibration": _picture(_calibration, "alpha"),
    "influence": _picture(_influence, "models", "top", "contrast"),
}
# The pictures of a sheet in their order; the others need options of their own.
_SHEET = ("forest", "ranks", "matrix", "overlap", "calibration", "influence", "heat_map", "bump")
