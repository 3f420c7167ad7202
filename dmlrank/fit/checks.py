"""Signs that the intervals of a fit may not hold, and the warnings of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._utils.computation import warn
from ..data.derived_pairs import DERIVED_KINDS
from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..estimation.diagnostics import Treatment, Validity, calibration, effective_contexts, warn_about_intervals
from ..estimation.influence import InfluenceFunction
from ..estimation.mean_preferences import FlooredPreferences
from ..estimation.unanimous_pairs import UnanimousPairs
from ..exceptions import IntervalWarning, listed
from ..inference.covariance import Covariance, find_constant_combination
from .estimand import MeanTarget, Setup
from .estimators import Estimator
from .state import Inputs, Repetition

# Names that a warning lists at most.
_MOST_NAMED = 5
# The calibration of mu does not matter where the factor with which its error enters the estimate has a variance of at
# most this size.
_SMALL_WEIGHT_OF_MU = 0.05
# A mean probability below zero by more than this number causes a warning.
_FAR_OUTSIDE = 0.01
# A second-order bias of more than this number of standard errors causes a warning, although it is subtracted.
_LARGE_BIAS = 1.0
# The z statistic from which a position effect is taken to be real.
_REAL_EFFECT = 3.0
# A model is shown first too often or too rarely if the share of its labels in which it is shown first differs from one
# half by more than _UNEVEN_SHARE and by more than _UNEVEN_Z standard errors.
_UNEVEN_SHARE = 0.1
_UNEVEN_Z = 4.0
# A fit warns where more than this share of a score's variance was added for unanimous pairs.
_LARGE_SHARE = 0.5
# Numerical tolerance for "all labels agree".
_TOLERANCE = 1e-9
_WON, _LOST, _TIED = "won all their votes", "lost all their votes", "tied in all their votes"


def assess_validity(
    inputs: Inputs,
    first: Repetition,
    influence: InfluenceFunction,
    covariance: Covariance,
    bias: tuple[FloatArray, FloatArray, Treatment],
    estimator: Estimator,
) -> Validity:
    """Return the signs that the intervals may not hold, with a warning where there are intervals.

    ``bias`` has the second-order bias, its standard errors and what was done about it.

    The influence value of a linear functional is F(mu) + DF S / pi (Y - mu). If every compared pair is labelled in
    every context, S = pi = 1, and the influence value is F(Y), whatever mu is. Otherwise the error of mu enters with
    the factor 1 - S / pi, whose variance is (1 - pi) / pi: where it is small, the calibration of mu hardly matters.
    Tables of benchmark scores of which few are missing, or none, are of this kind.
    """
    data, setup = inputs.data, inputs.setup
    labels = first.one_step_result.labels
    validity = Validity(effective_contexts(influence), *bias, *calibration(labels))
    if not estimator.valid_intervals or inputs.extrapolation.n_pairs:
        return validity
    n_cells = data.n_contexts * setup.graph.n_edges * (2 if data.ordered else 1)
    smallest = min(float(first.propensity.cells.min(initial=1.0)), len(data.cells) / max(n_cells, 1))
    # Options that are not set, and with which the scores depend less on pairs with few labels.
    remedies = []
    if setup.functional.link == "logit" and setup.edge_weights == "equal":
        remedies.append("edge_weights='counts' gives pairs with few labels less weight")
    if data.ordered and setup.weights.mirrored:
        remedies.append("position_bias=False joins both display orders of a pair, if order does not matter")
    warn_about_intervals(
        validity,
        covariance.std_errors,
        setup.functional.names(data.items),
        data.n_contexts,
        not setup.functional.linear,
        remedies=remedies,
        pairs_are_derived=data.outcome_kind in DERIVED_KINDS,
        mu_hardly_matters=setup.functional.linear and smallest >= 1 / (1 + _SMALL_WEIGHT_OF_MU),
    )
    return validity


def warn_of_scores_outside(setup: Setup, influence: InfluenceFunction, items: tuple[str, ...]) -> None:
    """Warn where the bias correction has moved a win share below 0 or above 1, which happens with few labels."""
    low, high = setup.functional.limits
    outside = np.flatnonzero((influence.estimate < low) | (influence.estimate > high))
    if len(outside):
        shares = listed((f"{items[j]} {influence.estimate[j]:.3g}" for j in outside), _MOST_NAMED)
        warn(
            f"estimated win shares lie outside of {low:g} to {high:g}: {shares}. The labels of these models "
            f"are too few, or their propensities too small, for a precise estimate. The shares are shown as {low:g} or "
            f"{high:g}, and the squared distance of the estimate from the value shown is added to its variance. "
            f"Collect more labels of these models",
            stacklevel=2,
            kind=IntervalWarning,
        )


def warn_of_large_bias(target: MeanTarget, std_errors: FloatArray, names: Sequence[str]) -> None:
    """Warn where the second-order bias that was subtracted is not small.

    Shapes: std_errors (d,).
    """
    ratio = np.abs(target.bias) / np.where(std_errors > 0, std_errors, np.inf)
    worst = int(ratio.argmax())
    if ratio[worst] > _LARGE_BIAS:
        warn(
            f"too few labels by pair for scores of mean preferences: the functional is curved, and an estimated bias "
            f"of {target.bias[worst]:+.3g} was subtracted from the score of {names[worst]!r}. This is "
            f"{ratio[worst]:.1f} standard errors, and the bias that remains may not be small. Collect more labels, use "
            f"position_bias=False if display order does not matter, or use average='scores'",
            stacklevel=2,
            kind=IntervalWarning,
        )


def warn_of_means_outside(floored: FlooredPreferences) -> None:
    """Warn where the bias correction has moved a mean preference clearly below 0 or above 1."""
    if floored.lowest < -_FAR_OUTSIDE:
        warn(
            f"the estimated mean preferences of {floored.n_outside:,} pairs lie outside of 0 to 1, the furthest by "
            f"{-floored.lowest:.2g}: the labels of these pairs are too few, or their propensities too small, for a "
            f"precise estimate. These preferences are set to the nearest possible value, and intervals may be too "
            f"short; collect more labels of these pairs, or leave pairs with few labels out (min_labels=)",
            stacklevel=2,
            kind=IntervalWarning,
        )


def check_rank(setup: Setup, covariance: Covariance, items: tuple[str, ...]) -> None:
    """Warn where the covariance has a smaller rank than the functional's gauge implies.

    Borda, Bradley-Terry and rank centrality are not checked: their gauge is known from theory.
    """
    if setup.functional.gauge_is_known:
        return
    constant = find_constant_combination(covariance)
    if constant is not None:
        names = setup.functional.names(items)
        terms = " ".join(f"{c:+.3g}*{name}" for c, name in zip(constant, names, strict=True) if abs(c) > 1e-6)
        warn(
            f"the covariance is numerically singular: {terms} does not vary in these data, so that joint tests and "
            f"regions that involve this combination are not reliable; {setup.functional.singular_advice}",
            stacklevel=2,
            kind=IntervalWarning,
        )


def warn_of_unanimous_pairs(
    data: PreferenceData,
    setup: Setup,
    unanimous: UnanimousPairs | None,
    *,
    unanimous_covariance: FloatArray | None,
    covariance: Covariance,
) -> None:
    """Warn where a model won or lost all its votes, or most of a variance was added for unanimous pairs.

    Shapes: unanimous_covariance (d, d).
    """
    if unanimous is None or unanimous_covariance is None:
        return
    variances = np.square(covariance.std_errors)
    is_mostly_added = np.diag(unanimous_covariance) > _LARGE_SHARE * np.where(variances > 0, variances, np.inf)
    models = one_sided_models(data, setup)
    if not is_mostly_added.any() and not any(models.values()):
        return
    names = listed((f"{data.items[j]} - {data.items[k]}" for j, k in unanimous.pairs), _MOST_NAMED)
    clauses = [f"{listed(names_of, _MOST_NAMED)} {outcome}" for outcome, names_of in models.items() if names_of]
    n_unanimous, n_edges = len(unanimous.pairs), setup.graph.n_edges
    clauses.append(f"on {n_unanimous} of {n_edges} compared pairs labels do not differ between prompts ({names})")
    limit = ""
    if not setup.functional.linear and (models[_WON] or models[_LOST]):
        limit = (
            " The log-odds of a model that won or lost all its votes have no finite limit, so that the distance of its "
            "score from the others depends on the floor of the predicted probabilities; functional='borda' needs no "
            "floor."
        )
    warn(
        f"labels without variation: {'; '.join(clauses)}. The variance of such labels cannot be estimated from "
        f"them. Standard errors therefore assume that up to 3 of n labels could have been different (the rule of "
        f"three).{limit} Collect more votes on these pairs for smaller standard errors",
        stacklevel=2,
    )


def one_sided_models(data: PreferenceData, setup: Setup) -> dict[str, list[str]]:
    """Return the models that won, lost or tied all their votes on compared pairs.

    The keys are the words of the warning: "won all their votes", "lost all their votes" and "tied in all their votes".
    """
    cells, is_edge = data.cells, setup.graph.edges[data.cells.first, data.cells.second]
    cells = cells if is_edge.all() else cells.only(is_edge)
    gap = cells.y @ np.subtract(setup.weights.first, setup.weights.second)
    lowest, highest = np.full(data.n_items, np.inf), np.full(data.n_items, -np.inf)
    for item, item_gap in ((cells.first, gap), (cells.second, -gap)):
        np.minimum.at(lowest, item, item_gap)
        np.maximum.at(highest, item, item_gap)
    is_one_sided = {
        _WON: lowest > 1 - _TOLERANCE,
        _LOST: highest < -1 + _TOLERANCE,
        _TIED: np.maximum(-lowest, highest) < _TOLERANCE,
    }
    return {outcome: [data.items[j] for j in np.flatnonzero(mask)] for outcome, mask in is_one_sided.items()}


def residual_position_test(cells: Cells, gap: FloatArray, mu: FloatArray, unit: IntArray) -> tuple[float, float]:
    """Return the position effect and its z statistic, from a fit that ignores display order.

    The effect is the mean of the residuals, counted for the model that was shown first.

    Shapes: gap (C,), mu (m, C), unit (n,).
    """
    sign = np.where(cells.flipped, -1.0, 1.0)
    residual = sign * ((cells.y - mu) @ gap)
    std_error_of_sum = np.sqrt((np.bincount(unit[cells.context], weights=residual) ** 2).sum())
    both_orders = cells.flipped.any() and not cells.flipped.all()
    z = float(residual.sum() / std_error_of_sum) if both_orders and std_error_of_sum > 0 else float("nan")
    return float(residual.mean()), z


def warn_of_uneven_orders(data: PreferenceData, setup: Setup, mu: FloatArray, *, unit: IntArray, remedy: str) -> None:
    """Warn where display order is ignored although it has an effect and some models are shown first more often.

    The effect cancels in the scores of models that are shown first as often as second. The scores of other models
    contain part of the effect.

    Shapes: mu (m, C), unit (n,).
    """
    if data.ordered:
        return
    gap = np.subtract(setup.weights.first, setup.weights.second)
    z = residual_position_test(data.cells, gap, mu, unit)[1]
    if not abs(z) > _REAL_EFFECT:
        return
    compared = data.cells.only(setup.graph.edges[data.cells.first, data.cells.second])
    first, second = (np.bincount(side, minlength=data.n_items) for side in compared.in_display_order)
    n_labels = first + second
    share = first / np.maximum(n_labels, 1)
    distance = np.abs(share - 0.5)
    uneven = (distance > _UNEVEN_SHARE) & (2 * np.sqrt(n_labels) * distance > _UNEVEN_Z)
    if not uneven.any():
        return
    furthest = [j for j in np.argsort(-distance, kind="stable") if uneven[j]]
    names = ", ".join(f"{data.items[j]!r} in {100 * share[j]:.0f} %" for j in furthest[:_MOST_NAMED])
    names += f" and {len(furthest) - _MOST_NAMED} more" if len(furthest) > _MOST_NAMED else ""
    warn(
        f"display order is ignored, but the model shown first has {'an advantage' if z > 0 else 'a disadvantage'} "
        f"(z = {z:.1f}), and not every model is shown first in about half of its labels: {names}. The scores of these "
        f"models contain part of the effect of display order, and their intervals do not allow for this. {remedy} "
        f"takes display order into account, for pairs with min_labels= labelled prompts in each order (a smaller "
        f"min_labels= keeps more pairs)",
        stacklevel=2,
    )
