"""The covariance of estimates of a fit, what is added for unanimous pairs, and signs that intervals may not hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .._utils.tasks_and_threads import collected_warnings, warn
from ..data.arrays import BoolArray
from ..data.columns import similar_names
from ..data.derived_pairs import DERIVED_KINDS
from ..data.outcomes import WINNERS
from ..data.preferences import Clusters, FloatArray, IntArray, PreferenceData
from ..estimation.diagnostics import Treatment, Validity, calibration, effective_contexts, warn_about_intervals
from ..estimation.influence import InfluenceFunction
from ..estimation.order_effect import IgnoredOrder
from ..estimation.unanimous_pairs import LabelErrors, UnanimousPairs
from ..exceptions import IntervalWarning, OptionError, check_choice, listed
from ..functionals.custom import terms_of, words_of_fixed
from ..inference.bootstrap_and_max_t import BOOTSTRAP_DRAWS, MultiplierBootstrap
from ..inference.covariance import (
    CentredSums,
    Covariance,
    cluster_sums,
    find_constant_combination,
    one_way,
    robust,
    two_way,
)
from ..inference.score_limits import FEW_UNITS, WinShares, df_of_shares
from ..options import MULTIPLIERS, Options
from .compared_pairs import MOST_NAMED, MeanTarget, Setup
from .estimators import Estimator
from .state import FitState, Inputs, Repetition, Units


def covariance_of(
    state: FitState,
    influence: InfluenceFunction,
    gauge: FloatArray,
    estimates: FloatArray | None = None,
    *,
    unanimous_covariance: FloatArray | None = None,
) -> Covariance:
    """Estimate the covariance of any estimate from the fit's labels, with the fit's covariance type and clusters."""
    fixed = state.options.prompts == "fixed"
    return make_covariance(influence, gauge, state.units, fixed, estimates, unanimous_covariance=unanimous_covariance)


def make_covariance(
    influence: InfluenceFunction,
    gauge: FloatArray,
    units: Units,
    fixed_prompts: bool,
    estimates: FloatArray | None = None,
    *,
    unanimous_covariance: FloatArray | None = None,
    warns: bool = False,
) -> Covariance:
    """Estimate the covariance of an estimate from its influence values; ``warns``: of few clusters, once in a fit.

    Shapes: gauge (d, g), estimates (R, d), unanimous_covariance (d, d).

    With fixed prompts only the labels are random, and the variance of an estimate with influence values phi is
    E Var(phi | x). For every function g, the variance of phi - g(x) is at least as large, because it also contains the
    variance of E(phi | x) - g(x) over prompts. Two functions g are tried. On each axis of the generalised
    eigenvectors of the two covariances the smaller variance is used (:meth:`Covariance.at_most`). With g = F(mu) at the
    fitted mu, phi - g is the bias correction; its covariance is hardly too large where mu is good. With a constant g,
    the result is the covariance for new prompts; it is the smaller one where mu predicts worse than a constant, which
    may happen out of fold on a few dozen prompts.
    """
    clusters, annotator = units.clusters, units.annotator
    rows = influence if units.task is None else influence.by_context().within(units.task)
    covariance = clustered_covariance(rows, gauge, clusters, annotator, warns=warns)
    covariance = _corrected(covariance, influence, unanimous_covariance)
    if units.task is not None:
        covariance = replace(covariance, df=df_within_tasks(units.task))
    if fixed_prompts:
        influence = influence.by_context().given_prompts()
        of_labels = clustered_covariance(influence, gauge, clusters, annotator)
        covariance = _corrected(of_labels, influence, unanimous_covariance).at_most(covariance.matrix)
    if estimates is not None and len(estimates) > 1:
        covariance = covariance.with_repetition_variance(estimates)
    return covariance.without_rounding(influence.estimate)


def df_within_tasks(task: IntArray) -> float:
    """Return the degrees of freedom of means that weigh tasks alike, from the task of each prompt, (n,).

    The variance of a mean, by :meth:`Influence.within`, is proportional to the sum over tasks of w_t s_t^2, where
    w_t = (1 - 1 / n_t) (1 / n_t + sum_r n_r^-2 / sum_r (1 - 1 / n_r)). Its degrees of freedom are Satterthwaite's,
    (sum w_t)^2 / sum (w_t^2 / (n_t - 1)), with equal s_t: estimated ones would make intervals short by chance.
    """
    size = np.bincount(task).astype(float)
    own = 1 - 1 / size
    weight = own * (1 / size + np.square(1 / size).sum() / own.sum())
    return float(np.square(weight.sum()) / (np.square(weight) / (size - 1)).sum())


def _corrected(
    covariance: Covariance, influence: InfluenceFunction, unanimous_covariance: FloatArray | None
) -> Covariance:
    """Return the covariance with the addition for unanimous pairs and with the variance correction, if any."""
    if unanimous_covariance is not None:
        covariance = covariance.plus(unanimous_covariance)
    if influence.variance_correction is None:
        return covariance
    return covariance.with_variance_correction(influence.variance_correction / influence.n_contexts)


def clustered_covariance(
    influence: CentredSums,
    gauge: FloatArray,
    clusters: Clusters | None,
    annotator: IntArray | None,
    *,
    n_parts: int = 1,
    warns: bool = False,
) -> Covariance:
    """Estimate the covariance with clusters as independent units, and contexts where there are no clusters.

    The estimates are ``n_parts`` parts of equal size: see :func:`dmlrank.inference.covariance.two_way`. The covariance
    of the scores of a fit warns of few clusters; others of the fit have nothing to add.
    """
    if clusters is None:
        return robust(influence, gauge)
    second = clusters.second_of_context if annotator is None else annotator
    with collected_warnings() as found:
        if second is None:
            covariance = one_way(influence, clusters.of_context, gauge)
        else:
            of_contexts, rows = annotator is None, influence.by_context()
            covariance = two_way(rows, clusters.of_context, second, gauge, of_contexts=of_contexts, n_parts=n_parts)
    for warning in found if warns else ():
        warn(warning)
    return covariance


def shares_of(
    state: FitState, influence: InfluenceFunction, covariance: Covariance, limits: tuple[float, float]
) -> WinShares | None:
    """Return what limits of win shares between ``limits`` need; None where these are infinite."""
    df, is_random = covariance.df, not state.units.clusters and state.units.task is None
    if np.isfinite(limits).all() and df + 1 < FEW_UNITS and is_random and state.options.prompts != "fixed":
        rows = influence.by_context()
        df = df_of_shares(rows.centred if rows.copies is None else np.repeat(rows.centred, rows.copies, axis=0))
    return WinShares.between(limits, len(covariance.matrix), df)


def multiplier_bootstrap(
    state: FitState, kind: str, factor: float, seed: int, n_draws: int = BOOTSTRAP_DRAWS
) -> MultiplierBootstrap:
    """Return the multiplier bootstrap over the independent units of the fit's covariance."""
    clusters, influence = state.units.clusters, state.influence
    check_choice(kind, MULTIPLIERS, "multipliers")
    if clusters is not None and len(clusters.names) > 1:
        raise OptionError(
            f"bootstrap({kind!r}) is not available with clusters of {' and '.join(clusters.names)}, which have no "
            f"independent units; use the intervals of the result itself, too short with 30 clusters or fewer of a kind"
        )
    if state.options.prompts == "fixed":
        influence = influence.by_context().given_prompts()
    elif state.units.task is not None:
        influence = influence.by_context().within(state.units.task)
    rows, small_sample_factor = cluster_sums(influence.by_context(), state.units.cluster)
    rows = rows * factor
    # The part of the covariance that the influence values of the units do not contain: variance between repetitions,
    # variance correction, unanimous pairs and, of means, the unseen unit.
    added = state.covariance.widened.matrix * factor**2 - small_sample_factor * rows.T @ rows
    return MultiplierBootstrap(rows, small_sample_factor, added, kind, seed, n_draws)


def label_errors(
    data: PreferenceData, repetitions: Sequence[Repetition], units: Units, apart: BoolArray | None
) -> LabelErrors:
    """Return the contribution of every label to the error of the scores, averaged over repetitions.

    Its factors are weight and residual of the label. Units with labels of models apart, (K,), alone do not count.
    """
    counted = data.contexts_beside(apart)
    n_contexts = int(counted.sum() if data.copies is None else data.copies[counted].sum())
    cells, clusters, expected = data.cells, units.clusters, []
    for r in repetitions:
        mu, correction = r.one_step_result.cell_mu, r.inputs.judge
        if correction is not None:
            mu = np.where((correction.label >= 0)[:, None], correction.m[correction.label], mu)
        expected.append(mu)
    weight = np.mean([1 / r.inputs.propensity for r in repetitions], axis=0) / data.n_contexts
    if units.context_weight is not None:
        weight = weight * units.context_weight[cells.context]
    return LabelErrors(
        cells=cells,
        weight=weight,
        mu=np.mean([r.one_step_result.cell_mu for r in repetitions], axis=0),
        residual=cells.y - np.mean(expected, axis=0),
        unit=units.of_contexts(data)[cells.context],
        n_units=n_contexts if clusters is None else len(np.unique(clusters.of_context[counted])),
        other_unit=crossed_cluster(data, clusters),
        apart=apart,
    )


def crossed_cluster(data: PreferenceData, clusters: Clusters | None) -> IntArray | None:
    """Return each cell's cluster (of several, the first) in the second of two crossed groupings, (m,); None without."""
    if clusters is None or len(clusters.names) < 2:
        return None
    if clusters.of_vote is None:
        return None if clusters.second_of_context is None else clusters.second_of_context[data.cells.context]
    annotator = np.full(len(data.cells), clusters.of_vote.max(), dtype=np.intp)
    np.minimum.at(annotator, data.vote_cell, clusters.of_vote)
    return annotator


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
# Where more than this share of the compared pairs lacks one of its orders, order may stand for quality.
_MOST_IN_ONE_ORDER = 0.5
# A fit warns where more than this share of a score's variance was added for unanimous pairs.
_LARGE_SHARE = 0.5
# Numerical tolerance for "all labels agree", and for shares of a model that won or lost everything.
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

    ``bias`` has the second-order bias, its standard errors and what was done about it. The error of mu enters a linear
    functional with the factor 1 - S / pi, whose variance is (1 - pi) / pi: where nearly all pairs are labelled in every
    context, as in tables of benchmark scores, the calibration of mu hardly matters.
    """
    data, setup = inputs.data, inputs.setup
    labels = first.one_step_result.labels
    validity = Validity(effective_contexts(influence), *bias, *calibration(labels))
    if estimator.why_no_intervals or inputs.extrapolation.n_pairs:
        return validity
    n_cells = data.n_contexts * setup.graph.n_edges * (2 if data.ordered else 1)
    smallest = min(float(first.propensity.cells.min(initial=1.0)), data.cells.n_labels / max(n_cells, 1))
    # Options that are not set, and with which the scores depend less on pairs with few labels.
    remedies = []
    if setup.functional.takes_edge_weights and setup.weighting == "equal":
        remedies.append("pairs=Pairs(edge_weights='counts') gives pairs with few labels less weight")
    if data.ordered and setup.weights.mirrored:
        remedies.append("position_bias=False joins both display orders of a pair, if order does not matter")
    votes, are_derived = data.pair_votes(), data.outcome_kind in DERIVED_KINDS
    has_votes = not are_derived and len(covariance.std_errors) == data.n_items
    warn_about_intervals(
        validity,
        covariance.std_errors,
        setup.functional.names(data.items),
        data.n_contexts,
        not setup.functional.linear,
        remedies=remedies,
        votes=votes.sum(axis=0) + votes.sum(axis=1) if has_votes else None,
        pairs_are_derived=are_derived,
        mu_hardly_matters=setup.functional.linear and smallest >= 1 / (1 + _SMALL_WEIGHT_OF_MU),
    )
    return validity


def warn_of_scores_outside(setup: Setup, influence: InfluenceFunction, items: tuple[str, ...]) -> None:
    """Warn where the bias correction has moved a win share below 0 or above 1, which happens with few labels."""
    low, high = setup.functional.limits
    outside = np.flatnonzero((influence.estimate < low - _TOLERANCE) | (influence.estimate > high + _TOLERANCE))
    if len(outside):
        shares = listed((f"{items[j]} {influence.estimate[j]:.3g}" for j in outside), MOST_NAMED)
        warn(
            f"estimated win shares lie outside of {low:g} to {high:g}: {shares}, because labels of these models are "
            f"few; shown are {low:g} or {high:g}, with the squared distance added to the variance. Collect more labels",
            kind=IntervalWarning,
        )


def warn_of_mean_preferences(target: MeanTarget, std_errors: FloatArray, names: Sequence[str]) -> None:
    """Warn where mean preferences lie clearly outside of 0 to 1, or the bias that was subtracted is not small."""
    floored = target.floored
    if floored.lowest < -_FAR_OUTSIDE:
        warn(
            f"the estimated mean preferences of {floored.n_outside:,} pairs lie outside of 0 to 1, the furthest by "
            f"{-floored.lowest:.2g}, because their labels are few; they are set to the nearest possible value, and "
            f"intervals may be too short. Collect more labels of these pairs, or leave them out (min_labels=)",
            kind=IntervalWarning,
        )
    ratio = np.abs(target.bias) / np.where(std_errors > 0, std_errors, np.inf)
    worst = int(ratio.argmax())
    if ratio[worst] > _LARGE_BIAS:
        warn(
            f"too few labels by pair for scores of mean preferences: a bias of {target.bias[worst]:+.3g}, or "
            f"{ratio[worst]:.1f} standard errors, was subtracted from the score of {names[worst]!r}, and what remains "
            f"may not be small. Collect more labels, or use average='scores'",
            kind=IntervalWarning,
        )


def warn_of_covariance(covariance: Covariance, data: PreferenceData, options: Options) -> None:
    """Warn where the covariance is larger than it should be: crossed clusters, and fixed prompts that look alike."""
    if covariance.note:
        warn(covariance.note)
    if options.prompts == "fixed" and not data.x.shape[1] and options.learning.mu is None and options.judge is None:
        warn(
            "fixed prompts (cov_kwds={'prompts': 'fixed'}) change nothing without features that tell prompts apart: "
            "standard errors are those for new prompts, too large for these alone; name features in the formula",
        )


def check_rank(setup: Setup, covariance: Covariance, items: tuple[str, ...]) -> None:
    """Warn where the covariance has a smaller rank than the gauge implies, unless theory gives the gauge."""
    functional = setup.functional
    constant = None if functional.gauge_is_known else find_constant_combination(covariance)
    if constant is None:
        return
    if known := words_of_fixed(functional, constant, items):
        warn(f"functional {functional.label!r}: {known}. Joint tests and regions then leave it out", once=True)
        return
    warn(
        f"the covariance is numerically singular: {terms_of(constant, functional.names(items))} does not vary in "
        f"these data, perhaps for few compared pairs; joint tests and regions that involve it are not reliable",
        kind=IntervalWarning,
    )


def warn_of_unanimous_pairs(
    data: PreferenceData,
    setup: Setup,
    unanimous: UnanimousPairs | None,
    added: FloatArray | None,
    covariance: Covariance,
) -> None:
    """Warn where a model won or lost all its votes, or most of a variance was added for unanimous pairs."""
    if unanimous is None or added is None:
        return
    variances = np.square(covariance.std_errors)
    is_mostly_added = np.diag(added) > _LARGE_SHARE * np.where(variances > 0, variances, np.inf)
    models = one_sided_models(data, setup)
    if not is_mostly_added.any() and not any(models.values()):
        return
    names = listed((f"{data.items[j]} - {data.items[k]}" for j, k in unanimous.pairs), MOST_NAMED)
    clauses = [f"{listed(names_of, MOST_NAMED)} {outcome}" for outcome, names_of in models.items() if names_of]
    n_unanimous, n_edges = len(unanimous.pairs), setup.graph.n_edges
    clauses.append(f"on {n_unanimous} of {n_edges} compared pairs labels do not differ between prompts ({names})")
    limit = ""
    if setup.functional.interior and (models[_WON] or models[_LOST]):
        limit = (
            " Log-odds of a model that won or lost all its votes have no finite limit: its distance from the others "
            "depends on the floor of predictions (floor=); functional='borda' needs none."
        )
    warn(
        f"labels without variation: {'; '.join(clauses)}. Standard errors assume that up to 3 of n such labels could "
        f"have been different (the rule of three).{limit} Collect more votes on these pairs for smaller ones",
    )


def one_sided_models(data: PreferenceData, setup: Setup) -> dict[str, list[str]]:
    """Return the models that won, lost or tied all their votes on compared pairs, by the words of the warning."""
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


def ignored_order(state: FitState, data: PreferenceData, mu: FloatArray) -> IgnoredOrder | None:
    """Return what votes, ``data`` of the fit, say of display order; None where it matters, or columns have none.

    An effect d, in shares of wins, adds d / 2 times the difference between the shares in which a model is shown first
    and second, averaged over its opponents, to its share of wins.
    """
    if data.ordered or data.outcome_kind == WINNERS:
        return None
    setup, estimate, position_bias = state.setup, state.influence.estimate, state.options.position_bias
    n_items, graph, cells = data.n_items, setup.shared_graph, data.cells
    first, second = cells.in_display_order
    shown = np.where(graph.edges, replace(cells, first=first, second=second).counts(n_items), 0)
    of_first, of_both = shown.sum(axis=1), shown + shown.T
    n_labels = of_both.sum(axis=1)
    share = of_first / np.maximum(n_labels, 1)
    distance = np.abs(share - 0.5)
    uneven = (distance > _UNEVEN_SHARE) & (2 * np.sqrt(n_labels) * distance > _UNEVEN_Z)
    # A name that differs from another one by letter case alone may stand on one side only; another warning says so.
    alike = {name for group in similar_names(data.items) for name in group}
    uneven &= [name not in alike for name in data.items]
    furthest = tuple((data.items[j], float(share[j])) for j in np.argsort(-distance, kind="stable") if uneven[j])
    in_one_order = float(((np.minimum(shown, shown.T) == 0) & graph.edges).sum() / graph.edges.sum())
    is_meaningless = not isinstance(position_bias, str) and not position_bias
    of_lead = 0.0
    if not is_meaningless and data.outcome_kind not in DERIVED_KINDS and len(estimate) == n_items:
        has_pairs = graph.degrees > 0
        balance = ((shown - shown.T) / np.maximum(of_both, 1)).sum(axis=1) / np.maximum(graph.degrees, 1)
        leader, next_one = np.argsort(np.where(has_pairs, -estimate, np.inf), kind="stable")[:2]
        lead, tilt = state.win_share[leader] - state.win_share[next_one], balance[leader] - balance[next_one]
        if in_one_order > _MOST_IN_ONE_ORDER and 0 < 2 * lead <= tilt:
            of_lead = float(50 + 100 * lead / tilt)
    unit = state.units.of_contexts(data)
    return IgnoredOrder(*_residual_position_test(data, setup, mu, unit), furthest, in_one_order, of_lead)


def _residual_position_test(data: PreferenceData, setup: Setup, mu: FloatArray, unit: IntArray) -> tuple[float, float]:
    """Return the position effect, the advantage of the model shown first, and its z, where order is ignored.

    Residuals are regressed on display order within pairs, because mu contains the effect of a pair's more frequent
    order.
    """
    cells, sign, count = data.cells, np.where(data.cells.flipped, -1.0, 1.0), data.cells.count
    pair = np.unique(cells.first * data.n_items + cells.second, return_inverse=True)[1]
    within = sign - (np.bincount(pair, sign * count) / np.bincount(pair, count))[pair]
    within[cells.of(setup.functional.apart)] = 0.0
    residual = within * ((cells.y - mu) @ np.subtract(setup.weights.first, setup.weights.second))
    # A label with copies is the only one of its unit.
    of_units = np.bincount(unit[cells.context], residual * np.sqrt(count))
    std_error_of_sum, size, total = np.sqrt((of_units**2).sum()), within @ (sign * count), float(residual @ count)
    if not (size > _TOLERANCE * cells.n_labels and std_error_of_sum > 0):
        return float("nan"), float("nan")
    return total / float(size), total / float(std_error_of_sum)


def warn_of_ignored_order(order: IgnoredOrder | None, data: PreferenceData, *, remedy: str) -> None:
    """Warn where display order is ignored, and has an effect that does not cancel, or cannot be told from quality."""
    if order is None or data.outcome_kind in DERIVED_KINDS:
        return
    if order.of_lead:
        known = "no pair was shown in both orders often enough to tell"
        if np.isfinite(order.z) and order.z:
            known = (
                f"within pairs that were shown in both orders, a model wins {50 + 50 * order.effect:.1f} of 100 when "
                f"shown first (standard error {50 * order.effect / order.z:.1f})"
            )
        warn(
            f"{100 * order.in_one_order:.0f} % of the compared pairs were shown in one display order only, so that an "
            f"effect of order cannot be told from the models' quality: if a model wins {order.of_lead:.1f} of 100 when "
            f"shown first, this alone makes the lead of the first model; {known}. Collect votes in the other order, or "
            f"say that order has no meaning: position_bias=False",
            kind=IntervalWarning,
        )
    elif abs(order.z) > _REAL_EFFECT and order.uneven:
        names = ", ".join(f"{name!r} in {100 * share:.0f} %" for name, share in order.uneven[:MOST_NAMED])
        names += f" and {len(order.uneven) - MOST_NAMED} more" if len(order.uneven) > MOST_NAMED else ""
        warn(
            f"display order is ignored, but the model shown first has "
            f"{'an advantage' if order.z > 0 else 'a disadvantage'} (z = {order.z:.1f}), and not every model is shown "
            f"first in about half of its labels: {names}. Scores contain part of this effect, for which intervals do "
            f"not allow. {remedy} takes display order into account, for pairs with min_labels labelled prompts in "
            f"each order",
        )
