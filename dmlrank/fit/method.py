r"""The method: debiased scores of models from their votes, from the data to the covariance, in the order of a fit.

A prompt (context) x has votes Y on some pairs (j, k) of models; S_jk says whether the pair was labelled. Given x, votes
do not depend on which pairs were labelled, and every compared pair is labelled with a probability above zero.
What is learnt, and the corrections that take long, stand in :mod:`dmlrank.fit.stages`, where an update finds them.

1. **Read** (:func:`read_inputs`). The votes become cells: for each prompt and labelled pair the mean Y of its votes,
   each of which is 1 in one of C categories. A cell counts once in the scores, however many votes it has. The estimand
   is theta = E F(mu(X)), where mu_jk(x) = E[Y | x, (j, k)] are the probabilities of the categories, and F is a
   functional of them on the graph of compared pairs. With s_jk the win share of j against k, ties by their weight,
   Borda scores are the means over k of s_jk, and Bradley-Terry scores, whose sum is zero, are the least-squares
   solution of theta_j - theta_k = logit s_jk. Both take the mean of the two display orders, of s_jk or of logit s_jk.
2. **Learn** (:func:`repeat`). Prompts, or clusters of the first kind, are dealt to folds. mu_jk(x) and the propensities
   pi_jk(x) = P(S_jk = 1 | x) are fitted on the other folds of each prompt, unless they are supplied. A fitted
   propensity p_jk(x) enters as pi_jk(x) = c_jk max(p_jk(x), r_jk / 10), where r_jk is the share of prompts on which the
   pair is labelled, and c_jk makes the mean of S_jk / pi_jk over all prompts one. Where F needs logarithms, mu is
   raised to a floor between 0.001 and 0.1, which the log-loss of held-out labels selects, and renormalised. Where
   neither features nor verdicts nor style tell prompts apart there are no folds: mu is the frequencies of the pair's
   labels, and pi_jk = r_jk.
3. **Correct** (:func:`repeat`). The plug-in mean of F(mu(x_i)) has the error of the learner. One step removes it to
   first order: with the derivative J_jk of F in mu_jk, the influence value of prompt i is

       phi_i = F(mu(x_i)) + sum_jk  S_i,jk / pi_jk(x_i)  J_jk(mu(x_i)) (Y_i,jk - mu_jk(x_i)),

   a sum over ordered pairs (unordered ones where display order is ignored), and the estimate is the mean of phi_i
   (:func:`dmlrank.estimation.one_step.one_step`). The assignment to folds is repeated ``n_rep`` times and averaged.
   What remains has the order of the product of the errors of mu and pi, and, where F is curved, of the squared error
   of mu. The steps that some fits add to this one:

   - *Judge.* Verdicts on judged pairs (R = 1, with propensity rho) give m = P(Y | x, verdict), and mu is fitted again
     with m as the label of judged pairs without a vote. S / pi (Y - mu) becomes g R / rho (m - mu) + S / pi (Y - m),
     with g the share of labelled pairs that were judged, which must not depend on x; a label without a verdict keeps
     Y - mu. With ``judge_as="features"`` all pairs have a verdict, which is a part of x, so that phi stays as it is.
   - *Second order.* Curved scores whose mu is learnt from features, without a judge or an adjustment for style, get u =
     E D2F(mu)[d, d] / 2 added, with d the error of the fitted mu; for Bradley-Terry scores this is E sum_jk D_jk (2
     s_jk - 1) e_jk^2 / 2, with F = sum_jk D_jk logit s_jk and e_jk the error of the fitted log-odds. Products of the
     residuals of two different prompts, or clusters, estimate the squares
     (:func:`dmlrank.estimation.second_order.second_order`).
   - *Display order.* Where it is ignored, and pairs are shown in one of their orders more often than by chance, one
     effect of order for all pairs is taken off, estimated in the pairs that were shown in both
     (:mod:`dmlrank.estimation.order_effect`).
   - *Mean preferences.* ``average="preferences"`` estimates F(E mu(X)). Let t be the mean of mu + S / pi (Y - mu), and
     t+ the same table without negative entries, and with pairs whose shares are too near 0 or 1 raised to 1 / (2 l +
     2), at most 0.1, l being the labels of a pair. The step is that of the linear functional F(t+) - b + J(t+) (mu -
     t), with b half the trace of the second derivative of F times the covariance of t, so that the estimate is F(t+) -
     b.
   - *Weights* w_i with mean one multiply F(mu(x_i)) and the correction, and in the covariance the distances of both
     from their means.
4. **Covariance** (:func:`estimate_scores`). Prompts, or clusters of them, are independent: the covariance of the
   estimate is (1 / n^2) sum_i (phi_i - mean phi)(phi_i - mean phi)'; with G clusters phi is summed by cluster, times
   G / (G - 1), and two crossed kinds of clusters give V_1 + V_2 - V_12; quantiles are those of effective clusters
   (:mod:`dmlrank.inference.covariance`). Where all tasks count the same, phi is taken less its mean in the task. With
   ``prompts="fixed"`` phi is the correction without F(mu), and variances are at most those for new prompts. Scores
   that use pairs without a label have no intervals, unless propensities of all pairs are supplied. To this are added,
   in this order:

   - *Unanimous pairs.* Where all l labels of a pair agree they show no variance; each gets at most the
     variance (3 / 1.96)^2 / l, less that in phi phi' (:mod:`dmlrank.estimation.unanimous_pairs`).
   - *Variance correction.* A mu that is shrunk towards the middle has too small a derivative J. Let V_jk be the
     covariance of a label at the fitted mu, and v_jk the mean of S / pi^2, times the variance of a label relative to
     that of one vote. The derivative of sum_jk v_jk J_jk V_jk J_jk' in the mu of J, along S / pi (Y - mu), estimates
     what phi phi' lacks. The positive part of its mean is added, so that noise makes no variance smaller
     (:mod:`dmlrank.estimation.one_step`).
   - *Repetitions.* The variance of the mean of their estimates.

   Where u was added, variances are at least those of phi without u plus those of u. The sample covariance of the two
   is too low: it contains 2 s_jk - 1 times the third power of a residual, whose mean has the other sign.
5. **Result** (:func:`run`). Intervals are theta +- q times standard errors, where q is the quantile of the largest
   of all |t|, drawn from the normal limit (:mod:`dmlrank.inference.simultaneous`). The second-order bias of a curved F,
   calibration of mu and the number of prompts that carry a standard error say whether the intervals may be too short;
   the fit warns where they are.

Means of scores and maximum likelihood take another way (:mod:`dmlrank.fit.direct_fits`), and so do the formulas of
``bt_restricted`` (:mod:`dmlrank.estimation.bt_restricted`) and of equal style (:mod:`dmlrank.estimation.equal_style`).

References
----------
Frauen et al., arXiv 2601.21816, have the estimand, the influence value and the first covariance of step 4 for complete
graphs with propensities that are known or learnt, verdicts that are functions of x, and the intervals of step 5.
Graphs with missing pairs, means of several votes, floors and scales, fits without folds, repetitions, clusters, and
what is listed under steps 3 and 4 are not in their paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .._utils.tasks_and_threads import collected_warnings, warn
from ..data.outcomes import require_mirrored_worths
from ..data.preferences import FloatArray, PreferenceData
from ..data.read_votes import warn_of_unequal_gaps
from ..estimation.cross_fitting import SuppliedMu
from ..estimation.diagnostics import Treatment, Validity
from ..estimation.influence import InfluenceFunction, mean_influence
from ..estimation.unanimous_pairs import UnanimousPairs, find_unanimous_pairs
from ..functionals.linear_scores import LinkedScore
from ..inference.covariance import Covariance
from ..nuisance.boosting import check_tune
from ..nuisance.supplied_propensity import check_mean_weights, check_propensity
from ..options import Options
from .compared_pairs import find_extrapolation, votes_left_out
from .estimators import MEANS, estimator_of
from .fit_covariance import (
    assess_validity,
    check_rank,
    clustered_covariance,
    ignored_order,
    label_errors,
    make_covariance,
    warn_of_covariance,
    warn_of_ignored_order,
    warn_of_mean_preferences,
    warn_of_scores_outside,
    warn_of_unanimous_pairs,
)
from .stages import FirstStages, OneRepetition, counted, one_by_one, read_units
from .state import FitState, Inputs, Repetition, Source, StyleEstimates


def run(options: Options, source: Source, previous: FitState | None = None) -> FitState:
    """Carry out a fit; an update passes the previous fit, whose first stages are used where their keys are the same."""
    check_tune(options.learning.tune)
    if estimator_of(options) is not MEANS:
        check_propensity(options.propensity)
    if not isinstance(options.learner, str):
        from ..nuisance.outcome_model.user_learners import check_learner

        check_learner(options.learner, options.learning.tune, estimates_propensity=options.estimates_propensity)
    source = counted(source, options)
    state = _fit_with(FirstStages(source, options, None if previous is None else previous.kept))
    warn_of_unequal_gaps(source.data, options)
    return state


def with_single_votes(state: FitState, what: str) -> FitState:
    """Return the state of the same fit to votes one by one, which is kept: ``what`` needs them, and counts are none."""
    if state.source.copies is None:
        return state
    stages = FirstStages(state.source, state.options, state.kept)
    with collected_warnings():
        again = stages.keep(
            "single votes", (state.source, state.options), lambda: run(state.options, one_by_one(state.source, what))
        )
    state.kept.update(stages.kept)
    return again


def _fit_with(stages: FirstStages) -> FitState:
    """Carry out a fit from its stages."""
    options = stages.options
    data_as_read = stages.data_as_read()
    if not stages.estimator.has_first_stages:
        from .direct_fits import run_maximum_likelihood, run_means

        return (run_means if stages.estimator is MEANS else run_maximum_likelihood)(stages, data_as_read)
    inputs = read_inputs(stages, data_as_read)
    repetitions = tuple(
        repeat(stages, inputs, number) for number in range(options.learning.n_rep if inputs.n_folds > 1 else 1)
    )
    corrected = [(r.one_step_result, r.style_influence) for r in repetitions]
    key = (*corrected, inputs.units, options.prompts, options.estimator)
    influence, covariance, validity, unanimous, style = stages.keep(
        "estimates", key, lambda: estimate_scores(stages, inputs, repetitions)
    )
    first, unit = repetitions[0], inputs.units.of_contexts(inputs.data)
    propensity_factor = check_mean_weights(inputs.data, first.propensity, unit)
    win_shares = [repetition.one_step_result.influences["win_share"] for repetition in repetitions]
    state = FitState(
        options=options,
        source=stages.source,
        data=inputs.data,
        dropped=tuple(name for name in data_as_read.items if name not in inputs.data.items),
        setup=inputs.setup,
        units=inputs.units,
        influence=influence,
        win_share=stages.estimator.average(win_shares).estimate,
        covariance=covariance,
        kept=stages.kept,
        repetitions=repetitions,
        validity=validity,
        display_order=inputs.display_order,
        propensity_factor=propensity_factor,
        verdicts=inputs.verdicts,
        extrapolation=inputs.extrapolation,
        unanimous=unanimous,
        style=style,
    )
    order = ignored_order(state, state.data, first.one_step_result.held_out)
    if first.order_effect is None:
        warn_of_ignored_order(order, state.data, remedy="position_bias=True")
    return replace(state, ignored_order=order)


def read_inputs(stages: FirstStages, data_as_read: PreferenceData) -> Inputs:
    """Return what all repetitions share: the votes that count, the estimand, and which votes depend on each other."""
    options = stages.options
    data, order = stages.votes_that_count(data_as_read)
    if not order.matters:
        require_mirrored_worths(options.categories)
    setup = stages.setup(data, order.min_labels)
    extrapolation = find_extrapolation(data, setup, options, order.min_labels)
    left_out = votes_left_out(
        data_as_read,
        data,
        setup.graph,
        options,
        order,
        equal_weights=setup.weighting == "equal",
        takes_weights=setup.functional.takes_edge_weights,
    )
    if left_out is not None:
        warn(left_out)
    if stages.estimator.needs_all_propensities:
        from ..estimation.bt_restricted import check_restricted_categories

        check_restricted_categories(setup.weights, data.categories)
    style = None
    if options.adjust is not None:
        from ..data.style_columns import read_style_differences

        # Functionals and category weights without a link are refused before anything is fitted.
        LinkedScore(setup.functional, data.n_items, data.ordered)
        columns = options.style_columns
        style = stages.keep("style differences", (data, columns), lambda: read_style_differences(data, columns))
    verdicts = stages.verdicts(data)
    key = (data, stages.source, options.clusters, options.context, options.weights, verdicts)
    units = stages.keep("units", key, lambda: read_units(data, stages.source, options, verdicts))
    mu = None
    if options.learning.mu is not None:
        from ..nuisance.outcome_model.user_learners import checked_mu

        mu = stages.keep(
            "supplied mu", (data, options.learning.mu), lambda: SuppliedMu(checked_mu(options.learning.mu, data))
        )
    n_folds, fold_units = stages.fold_units(data, units, mu, verdicts)
    return Inputs(
        data=data,
        display_order=order,
        setup=setup,
        extrapolation=extrapolation,
        units=units,
        verdicts=verdicts,
        mu=mu,
        n_folds=n_folds,
        fold_units=fold_units,
        style=style,
    )


def repeat(stages: FirstStages, inputs: Inputs, number: int) -> Repetition:
    """Carry out one repetition: deal the folds, learn mu and pi on them, and correct F(mu) by one step."""
    one = OneRepetition(stages, inputs, number)
    learnt = one.learn()
    given, of_votes, mean = one.correct(learnt, one.floor(learnt.mu))
    before, order = one.at_both_orders(of_votes)
    one_step_result, second_order = one.without_second_order_bias(given, before)
    style_terms, style_influence = one.at_equal_style(learnt.propensity)
    return Repetition(
        mu_without_judge=learnt.mu_without_judge,
        propensity=learnt.propensity,
        judge_propensity=learnt.judge_propensity,
        folds=one.folds,
        inputs=given,
        one_step_result=one_step_result,
        before_change=before,
        mean=mean,
        second_order=second_order,
        order_effect=order,
        style_terms=style_terms,
        style_influence=style_influence,
    )


def estimate_scores(
    stages: FirstStages, inputs: Inputs, repetitions: Sequence[Repetition]
) -> tuple[InfluenceFunction, Covariance, Validity, UnanimousPairs | None, StyleEstimates | None]:
    """Average the scores over repetitions; estimate their covariance, and the signs that intervals may not hold."""
    data, setup, estimator, fixed = inputs.data, inputs.setup, stages.estimator, stages.options.prompts == "fixed"
    targets = [repetition.target for repetition in repetitions]
    influence, apart = estimator.average(targets), setup.functional.apart
    errors = label_errors(data, repetitions, inputs.units, apart)
    unanimous = find_unanimous_pairs(errors, data, setup.weights, setup.graph.edges)
    # For bt_restricted this is the variance of the unrestricted projection. It is not smaller: the restricted estimator
    # weights the labels more efficiently.
    added = None
    if unanimous is not None and estimator.is_debiased:
        added = unanimous.covariance(setup.functional, repetitions[0].inputs.floor)
    gauge = setup.functional.gauge(data.n_items).basis
    estimates = estimator.estimates(targets)
    # Without folds F(mu) is the same in all contexts.
    rows = influence if apart is None or inputs.n_folds > 1 else influence.among(data.contexts_beside(apart))
    covariance = make_covariance(rows, gauge, inputs.units, fixed, estimates, unanimous_covariance=added, warns=True)
    bias, of_change = second_order_bias(inputs, repetitions, gauge, is_added=stages.options.learning.second_order)
    if of_change is not None:
        before = [repetition.before_change.target for repetition in repetitions]
        without_u = estimator.average(before), gauge, inputs.units, fixed, estimator.estimates(before)
        of_one_step = make_covariance(*without_u, unanimous_covariance=added)
        covariance = covariance.at_least(of_one_step.matrix + of_change.matrix)
    warn_of_scores_outside(setup, influence, data.items)
    warn_of_unanimous_pairs(data, setup, unanimous, added, covariance)
    check_rank(setup, covariance, data.items)
    warn_of_covariance(covariance, data, stages.options)
    style = None
    if inputs.style is not None:
        from .adjusted_for_style import joint_style_fit

        style = joint_style_fit(inputs, repetitions, fixed, added)
    if repetitions[0].mean is not None:
        warn_of_mean_preferences(repetitions[0].mean, covariance.std_errors, setup.functional.names(data.items))
    validity = assess_validity(inputs, repetitions[0], influence, covariance, bias, estimator)
    return influence, covariance, validity, unanimous, style


def second_order_bias(
    inputs: Inputs, repetitions: Sequence[Repetition], gauge: FloatArray, *, is_added: bool
) -> tuple[tuple[FloatArray, FloatArray, Treatment], Covariance | None]:
    """Return the second-order bias -u of the scores, its standard errors, and what was done about it.

    It is 0 for a linear functional, and NaN where it is not estimated, or was subtracted with
    ``average="preferences"``. Where u is added, its covariance is returned, too.
    """
    first, estimated = repetitions[0], [r.second_order for r in repetitions if r.second_order is not None]
    if not estimated:
        is_zero = inputs.setup.functional.linear and first.mean is None
        unknown = np.full(first.target.n_scores, 0.0 if is_zero else np.nan)
        return (unknown, unknown, "left in"), None
    bias = -np.mean([one.change for one in estimated], axis=0)
    changes = [r.change for r in repetitions if r.change is not None]
    units, change = inputs.units, changes[0]
    if len(changes) > 1:
        change = mean_influence([one.by_context() for one in changes])
    covariance = clustered_covariance(change, gauge, units.clusters, units.annotator)
    if not is_added:
        return (bias, covariance.std_errors, "left in"), None
    treatment: Treatment = "removed" if all(one.is_full for one in estimated) else "partly removed"
    return (bias, covariance.std_errors, treatment), covariance
