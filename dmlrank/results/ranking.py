"""Differences, win probabilities, ranks and joint regions of the models of a result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from ..data.hypotheses import HypothesisLike, LinearHypothesis
from ..data.preferences import IntArray
from ..exceptions import GraphError, NoIntervalError, OptionError, check_choice, listed
from ..fit.estimand import unlabelled_pairs
from ..fit.estimates import Estimates
from ..fit.post_estimation import pair_win_probability
from ..fit.state import FitState
from ..inference.alternatives import read_alternative
from ..inference.ranks import letter_groups, rank_bounds, ranks_of
from ..inference.simultaneous import PAIR_METHODS, Simultaneous, compare_differences, separate, separate_each
from ..report.hypothesis_tables import PairwiseResults, pairwise_frame
from ..report.statements import doubt_note, functional_unit, sequential_note
from .ellipsoid import Ellipsoid, confidence_ellipsoid
from .rank_sets import RankSets
from .requirements import (
    estimate_index,
    model_index,
    named_estimates,
    names_or_all,
    require_intervals,
    require_steps,
)
from .score_tests import WinProbability, ZTestResults, t_test, win_probability
from .views import bootstrap_of

_CHOSEN_BY_DATA = (
    "The scores of this fit place {first} first and {second} second. If you compare them for this reason,\n"
    "the p-value is too small, because it is not adjusted for the choice; use t_test_pairwise()."
)


def t_test_of_scores(
    estimates: Estimates, hypothesis: HypothesisLike, *, delta: float = 0.0, side: str = "two-sided"
) -> ZTestResults:
    """Test linear combinations of scores, see :meth:`RankResults.t_test`."""
    alternative, named = read_alternative(side, delta), named_estimates(estimates)
    contrasts = named.hypothesis(hypothesis)
    tests = t_test(named, contrasts, alternative)
    if not estimates.of_models or len(estimates.models) < 3:
        return tests
    top = np.argsort(-estimates.estimate, kind="stable")[:2]
    # A multiple of first minus second has two coefficients that cancel, and no others.
    of_top, of_others = contrasts.matrix[:, top], np.delete(contrasts.matrix, top, axis=1)
    is_first_against_second = (of_others == 0).all(axis=1) & (of_top[:, 0] != 0) & np.isclose(of_top.sum(axis=1), 0)
    if not is_first_against_second.any():
        return tests
    first, second = (estimates.models[j] for j in top)
    return replace(tests, remark=_CHOSEN_BY_DATA.format(first=first, second=second))


def compare_models(
    estimates: Estimates,
    simultaneous: Simultaneous,
    method: str = "max-t",
    *,
    models: Sequence[str] | None = None,
    against: str | None = None,
    side: str = "two-sided",
    delta: float = 0.0,
    alpha: float,
) -> PairwiseResults:
    """Test differences between models as one family, see :meth:`RankResults.t_test_pairwise`."""
    check_choice(method, PAIR_METHODS, "method")
    alternative, e = read_alternative(side, delta), estimates
    side, margin, method = alternative.side, alternative.delta, simultaneous.adjustment(method)
    if against is None and side == "two-sided" and margin:
        raise OptionError(
            f"delta={delta!r} with side='two-sided' tests whether differences equal {margin:g}, but differences of all "
            f"pairs have no direction; give side='larger', 'noninferiority' or 'equivalence', or a model with against="
        )
    chosen = _best_first(e, models, against)
    first, second = _pairs(chosen, None if against is None else model_index(e.models, against), side)
    tests = compare_differences(
        e.estimate, simultaneous, first, second, method=method, alternative=alternative, alpha=alpha
    )
    return PairwiseResults(
        pairwise_frame(tests, e.models),
        method=method,
        side=side,
        delta=margin,
        alpha=alpha,
        critical=tests.critical,
        against=against,
        models=tuple(e.models[j] for j in chosen),
        functional=functional_unit(e),
        remark=" ".join([*doubt_note(e), *sequential_note(e)]),
        is_natural=e.scale.natural,
        looks="" if e.sequence is None else e.sequence.clause,
    )


def pairs_best_first(estimates: Estimates) -> tuple[IntArray, IntArray]:
    """Return first and second model of all differences, as :meth:`RankResults.t_test_pairwise` orders them."""
    return _pairs(_best_first(estimates, None, None), None, "two-sided")


def win_probability_of(
    estimates: Estimates, steps: FitState | None, first: str, second: str, *, alpha: float
) -> WinProbability:
    """Return the share of comparisons that ``first`` wins, see :meth:`RankResults.win_probability`."""
    j, k = (model_index(estimates.models, name) for name in (first, second))
    if j == k:
        raise OptionError(f"win_probability got the model {first!r} twice; give two different models")
    if not estimates.graph.edges[j, k]:
        raise GraphError(
            f"{first!r} and {second!r} are not a compared pair, so that the share has no estimate; min_labels= and "
            f"position_bias= decide how many labels a pair needs"
        )
    if not estimates.estimated_by.valid_intervals:
        require_intervals(estimates, "win_probability")
    fit_steps = require_steps(estimates, steps, "win_probability")
    if (
        fit_steps.likelihood is None
        and isinstance(fit_steps.options.propensity, str)
        and unlabelled_pairs(fit_steps.data)[j, k]
    ):
        order = " in both display orders" if fit_steps.data.ordered else ""
        raise NoIntervalError(
            f"win_probability: {first!r} and {second!r} were never compared{order}, so that no label corrects the "
            f"learner's prediction; collect votes on this pair for a share with an interval"
        )
    share, covariance = pair_win_probability(fit_steps, j, k)
    return win_probability(first, second, share, covariance, alpha, sequence=estimates.sequence)


def rank_sets(
    estimates: Estimates, simultaneous: Simultaneous, alpha: float, *, simultaneous_sets: bool = True
) -> RankSets:
    """Return ranks with confidence sets and letters, see :meth:`RankResults.ranks`."""
    e, separation = estimates, separate(estimates.estimate, simultaneous, alpha)
    lower, upper = rank_bounds(separation.above)
    if not simultaneous_sets:
        by_model = separate_each(e.estimate, simultaneous, alpha)
        lower, upper = rank_bounds(by_model[:, :, 0], by_model[:, :, 1])
    groups = letter_groups(separation.separated, e.estimate)
    columns = {"rank": ranks_of(e.estimate), "lower": lower, "upper": upper, "group": groups}
    frame = pd.DataFrame(columns, index=list(e.models)).iloc[np.argsort(-e.estimate, kind="stable")]
    return RankSets(
        frame,
        alpha=alpha,
        simultaneous=simultaneous_sets,
        functional=functional_unit(e),
        n_separated=separation.n_separated,
        bootstrap=bootstrap_of(simultaneous),
        remark=" ".join([*doubt_note(e), *sequential_note(e)]),
        looks="" if e.sequence is None else e.sequence.clause,
    )


def best_models(estimates: Estimates, simultaneous: Simultaneous, n_best: int, alpha: float) -> list[str]:
    """Return the models that may be among the ``n_best`` best, see :meth:`RankResults.best_set`."""
    n_models = len(estimates.models)
    if isinstance(n_best, bool) or not isinstance(n_best, int | np.integer) or not 1 <= n_best <= n_models:
        raise OptionError(f"n_best={n_best!r} is not allowed; give a whole number from 1 to {n_models}, the models")
    frame = rank_sets(estimates, simultaneous, alpha).result_frame
    return frame.index[frame["lower"] <= n_best].tolist()


def confidence_region(
    estimates: Estimates,
    alpha: float,
    *,
    models: Sequence[str] | None = None,
    contrasts: HypothesisLike | None = None,
) -> Ellipsoid:
    """Return the joint confidence region of scores or contrasts, see :meth:`RankResults.ellipsoid`."""
    e, named = estimates, named_estimates(estimates)
    if contrasts is not None:
        if models is not None:
            raise OptionError("models= and contrasts= both define the region; give one of them")
        region = confidence_ellipsoid(named, named.hypothesis(contrasts), alpha)
        return replace(region, is_natural=estimates.scale.natural)
    chosen = names_or_all(models, e.names)
    places = [estimate_index(e, name) for name in chosen]
    if len(set(places)) < len(places) or not places:
        raise OptionError(
            f"models={listed(chosen) or chosen} is not allowed; name at least one score, and each score once"
        )
    rows = LinearHypothesis(np.eye(len(e.names))[places], np.zeros(len(places)), tuple(chosen))
    region = confidence_ellipsoid(named, rows, alpha, scores=True)
    return replace(region, is_natural=estimates.scale.natural)


def _best_first(estimates: Estimates, models: Sequence[str] | None, against: str | None) -> list[int]:
    """Return the places of the models to compare, the best first."""
    names = names_or_all(models, estimates.models)
    places = [model_index(estimates.models, name) for name in names]
    if against is not None and model_index(estimates.models, against) not in places:
        places.append(model_index(estimates.models, against))
    if len(set(places)) < len(places) or len(places) < 2:
        raise OptionError(
            f"models={listed(names) or names} is not allowed; name at least two models, and each model once"
        )
    return sorted(places, key=lambda j: (-estimates.estimate[j], j))


def _pairs(models: list[int], against: int | None, side: str) -> tuple[IntArray, IntArray]:
    """Return first and second model of every difference; in both directions for one-sided tests of all pairs."""
    if against is not None:
        opponents = [j for j in models if j != against]
        return np.array(opponents), np.full(len(opponents), against)
    both_directions = side in ("larger", "smaller", "noninferiority")
    places = range(len(models))
    pairs = [(models[a], models[b]) for a in places for b in places if a < b or (both_directions and a != b)]
    first, second = zip(*pairs, strict=True)
    return np.array(first), np.array(second)
