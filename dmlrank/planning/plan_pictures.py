"""Pictures of a plan: expected labels by pair, as a heat map or as sorted bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._utils.argument_checks import check_whole
from ..data.preferences import FloatArray
from ..exceptions import OptionError, OptionTypeError, check_choice
from ..plotting.bar_charts import pair_chart
from ..plotting.heat_maps import heat_map
from ..plotting.style import short_names
from ..report.sentences import counted, percentage
from ..report.shown_models import chosen_names
from .plan_summary import expected_labels
from .specification import PlanSolution, PlanSpecification

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PICTURES = ("heat_map", "pairs")
_PAIRS = 30
# Letters of the name of a model in the name of a pair.
_LONGEST_NAME = 22


def draw_plan(
    specification: PlanSpecification,
    solution: PlanSolution,
    picture: object,
    *,
    ax: Axes | None,
    models: Sequence[str] | None,
    top: int | None,
) -> Axes:
    """Draw a picture of a plan, see :meth:`Plan.plot`."""
    if not isinstance(picture, str):
        raise OptionTypeError(
            f"plot takes the name of a picture ('heat_map', 'pairs'), not a {type(picture).__name__}; give axes as ax="
        )
    check_choice(picture, _PICTURES, "picture")
    all_models = specification.names.models
    chosen = [all_models.index(name) for name in chosen_names(all_models, models)]
    labels = expected_labels(specification, solution)[np.ix_(chosen, chosen)]
    names = [all_models[j] for j in chosen]
    if len(names) < 2:
        raise OptionError(f"a picture of pairs needs two models, and models= names one: {names[0]!r}")
    if picture == "pairs":
        return _draw_pairs(specification, solution, names, labels, n_pairs=top, ax=ax)
    if top is not None:
        raise OptionError("plot('heat_map') does not use top=; choose models with models=, or draw plot('pairs')")
    ordered = specification.problem.pairs.ordered
    label = "expected labels" + (", first model in rows" if ordered else ", either order")
    return heat_map(names, labels, label, ax, title=_counts(specification, solution))


def _draw_pairs(
    specification: PlanSpecification,
    solution: PlanSolution,
    names: Sequence[str],
    labels: FloatArray,
    *,
    n_pairs: int | None,
    ax: Axes | None,
) -> Axes:
    """Draw bars of the pairs with most expected labels.

    Shapes: labels (J, J).
    """
    if n_pairs is not None:
        check_whole("top", n_pairs, 1)
    problem = specification.problem
    first, second = np.triu_indices(len(names), 1)
    # Where order does not matter, both triangles hold the same labels.
    orders = [labels[first, second], labels[second, first]] if problem.pairs.ordered else [labels[first, second]]
    by_order = np.stack(orders, axis=1)
    total = by_order.sum(axis=1)
    in_plan = int(np.count_nonzero(total))
    shown = np.argsort(-total, kind="stable")[: min(in_plan, _PAIRS if n_pairs is None else n_pairs)]
    short = short_names(names, _LONGEST_NAME)
    pairs = [f"{short[first[p]]} − {short[second[p]]}" for p in shown]
    share = percentage(float(total[shown].sum() / total.sum()))
    title = f"{_counts(specification, solution)}\n{len(shown)} of {counted(in_plan, 'pair')}, {share} of their labels"
    uniform = specification.uniform(solution.budget) * problem.n_contexts * len(orders)
    parts = ("first model shown first", "first model shown second") if len(orders) == 2 else ("either order",)
    return pair_chart(
        pairs,
        by_order[shown],
        parts=parts,
        mean=float(uniform),
        n_contexts=problem.n_contexts,
        title=title,
        ax=ax,
    )


def _counts(specification: PlanSpecification, solution: PlanSolution) -> str:
    """Return criterion, number of prompts and expected cost, for titles."""
    kind, n_contexts = specification.criterion.kind, specification.problem.n_contexts
    return f"{kind}-optimal plan: {n_contexts:,} prompts, expected cost {solution.expected_cost:,.5g}"
