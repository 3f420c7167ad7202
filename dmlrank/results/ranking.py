"""The order of the models: their differences, win probabilities and ranks, joint regions, the test of Bradley-Terry."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from statsmodels.stats.contrast import ContrastResults

from ..data.hypotheses import HypothesisLike, LinearHypothesis
from ..data.preferences import IntArray
from ..exceptions import GraphError, NoIntervalError, OptionError, check_choice, listed
from ..fit.estimates import Estimates
from ..fit.extrapolation import unlabelled_pairs
from ..fit.post_estimation import pair_share
from ..fit.state import FitSteps
from ..inference.alternatives import read_alternative
from ..inference.compact_letters import letter_groups
from ..inference.ellipsoid import Ellipsoid, confidence_ellipsoid
from ..inference.pairwise import METHODS, compare_differences
from ..inference.ranks import rank_bounds, ranks_of, separate_each
from ..inference.wald import add_remark, t_test
from ..inference.win_probability import WinProbability, win_probability
from ..report.fit_notes import doubt_note
from ..report.fit_summary import functional_unit
from ..report.pairwise_summary import PairwiseResults, pairwise_frame
from .critical_values import level_or_default, separation_of_models, t_statistic_draws
from .lookup import (
    estimate_index,
    model_index,
    named_estimates,
    names_or_all,
    require_intervals,
    require_models,
    require_steps,
)

_CHOSEN_BY_DATA = (
    "{first} and {second} are first and second because these scores say so: p-values that were\n"
    "not adjusted for that choice are too small; t_test_pairwise() holds for every pair at once"
)


def t_test_of_scores(
    estimates: Estimates, hypothesis: HypothesisLike, *, delta: float = 0.0, side: str = "two-sided"
) -> ContrastResults:
    """z tests of linear combinations of scores, see :meth:`RankResults.t_test`."""
    require_intervals(estimates, "t_test")
    alternative, named = read_alternative(side, delta), named_estimates(estimates)
    read = named.hypothesis(hypothesis)
    tests = t_test(named, read, alternative)
    if not estimates.of_models or len(estimates.models) < 3:
        return tests
    top = np.argsort(-estimates.estimate, kind="stable")[:2]
    others = np.delete(read.matrix, top, axis=1)
    # The difference of the two, times any number: with two coefficients that cancel.
    chosen = (others == 0).all(axis=1) & (read.matrix[:, top[0]] != 0) & np.isclose(read.matrix[:, top].sum(axis=1), 0)
    if not chosen.any():
        return tests
    first, second = (estimates.models[j] for j in top)
    return add_remark(tests, _CHOSEN_BY_DATA.format(first=first, second=second))


def compare_models(
    estimates: Estimates,
    steps: FitSteps | None,
    method: str,
    *,
    models: Sequence[str] | None,
    against: str | None,
    side: str,
    delta: float,
    alpha: float | None,
    bootstrap: str | None,
) -> PairwiseResults:
    """Tests of differences between models as one family, see :meth:`RankResults.t_test_pairwise`."""
    require_models(estimates, "t_test_pairwise")
    require_intervals(estimates, "t_test_pairwise")
    check_choice(method, METHODS, "method")
    alternative, level, e = read_alternative(side, delta), level_or_default(alpha, estimates.alpha), estimates
    side = alternative.side
    margin = alternative.delta
    if against is None and side == "two-sided" and margin:
        raise OptionError(
            f"delta={delta!r} with side='two-sided' asks whether differences are {margin:g} or not, and those of "
            f"all pairs have no direction; give side='larger', 'noninferiority' or 'equivalence', or against="
        )
    if bootstrap is not None and method not in ("max-t", "step-down"):
        raise OptionError(f"bootstrap={bootstrap!r} is for method='max-t' and 'step-down', not {method!r}")
    chosen = _best_first(e, models, against)
    first, second = _pairs(chosen, None if against is None else model_index(e.models, against), side)
    draws = t_statistic_draws(e, steps, bootstrap)
    tests = compare_differences(
        e.estimate, e.covariance, draws, first, second, method=method, alternative=alternative, alpha=level
    )
    return PairwiseResults(
        pairwise_frame(tests, e.models),
        method=method,
        side=side,
        delta=margin,
        alpha=level,
        critical=tests.critical,
        against=against,
        models=tuple(e.models[j] for j in chosen),
        functional=functional_unit(e),
        remark=" ".join(doubt_note(e)),
    )


def win_probability_of(
    estimates: Estimates, steps: FitSteps | None, first: str, second: str, *, alpha: float
) -> WinProbability:
    """Share of comparisons that ``first`` wins against ``second``, see :meth:`RankResults.win_probability`."""
    j, k = (model_index(estimates.models, name) for name in (first, second))
    if j == k:
        raise OptionError(f"win_probability needs two different models, not {first!r} twice")
    if not estimates.graph.edges[j, k]:
        raise GraphError(
            f"{first!r} and {second!r} are not compared (too few labels in an order), so no share is known"
        )
    if not estimates.estimated_by.valid_intervals:
        require_intervals(estimates, "win_probability")
    live = require_steps(estimates, steps, "win_probability")
    if live.likelihood is None and isinstance(live.options.propensity, str) and unlabelled_pairs(live.data)[j, k]:
        order = " in both display orders" if live.data.ordered else ""
        raise NoIntervalError(
            f"win_probability: {first!r} and {second!r} were never compared{order}, so that no label corrects what the "
            f"learner makes of them; a share with an interval needs votes on the two"
        )
    share, covariance = pair_share(live, j, k)
    return win_probability(first, second, share, covariance, alpha)


def rank_table(
    estimates: Estimates,
    steps: FitSteps | None,
    alpha: float,
    *,
    simultaneous: bool = True,
    bootstrap: str | None = None,
) -> pd.DataFrame:
    """Ranks with confidence sets and groups that the data cannot separate, see :meth:`RankResults.ranks`."""
    require_models(estimates, "ranks")
    require_intervals(estimates, "ranks")
    e, joint = estimates, separation_of_models(estimates, steps, alpha, bootstrap)
    lower, upper = rank_bounds(joint.above)
    if not simultaneous:
        found = separate_each(e.estimate, e.covariance, t_statistic_draws(e, steps, bootstrap), alpha)
        lower, upper = rank_bounds(found[:, :, 0], found[:, :, 1])
    groups = letter_groups(joint.separated, e.estimate)
    columns = {"rank": ranks_of(e.estimate), "lower": lower, "upper": upper, "group": groups}
    return pd.DataFrame(columns, index=list(e.models)).iloc[np.argsort(-e.estimate, kind="stable")]


def best_models(
    estimates: Estimates, steps: FitSteps | None, n_best: int, *, alpha: float | None, bootstrap: str | None
) -> list[str]:
    """The models that may be among the ``n_best`` best, see :meth:`RankResults.best_set`."""
    require_models(estimates, "best_set")
    require_intervals(estimates, "best_set")
    number = len(estimates.models)
    if isinstance(n_best, bool) or not isinstance(n_best, int | np.integer) or not 1 <= n_best <= number:
        raise OptionError(f"n_best={n_best!r}: needed is a whole number from 1 to {number}, the number of models")
    ranks = rank_table(estimates, steps, level_or_default(alpha, estimates.alpha), bootstrap=bootstrap)
    return ranks.index[ranks["lower"] <= n_best].tolist()


def confidence_region(
    estimates: Estimates,
    alpha: float,
    *,
    models: Sequence[str] | None = None,
    contrasts: HypothesisLike | None = None,
) -> Ellipsoid:
    """The joint confidence region of scores, or of contrasts of them, see :meth:`RankResults.ellipsoid`."""
    require_intervals(estimates, "ellipsoid")
    e, named = estimates, named_estimates(estimates)
    if contrasts is not None:
        if models is not None:
            raise OptionError("models= and contrasts= both say what the region is about; give one of them")
        return confidence_ellipsoid(named, named.hypothesis(contrasts), alpha)
    chosen = names_or_all(models, e.names)
    places = [estimate_index(e, name) for name in chosen]
    if len(set(places)) < len(places) or not places:
        raise OptionError(f"models names every score of the region once, at least one; got {listed(chosen)}")
    rows = LinearHypothesis(np.eye(len(e.names))[places], np.zeros(len(places)), tuple(chosen))
    return confidence_ellipsoid(named, rows, alpha, scores=True)


def _best_first(estimates: Estimates, models: Sequence[str] | None, against: str | None) -> list[int]:
    """Places of the models to compare, the best first."""
    names = names_or_all(models, estimates.models)
    places = [model_index(estimates.models, name) for name in names]
    if against is not None and model_index(estimates.models, against) not in places:
        places.append(model_index(estimates.models, against))
    if len(set(places)) < len(places) or len(places) < 2:
        raise OptionError(f"models names every model once, at least two; got {listed(names)}")
    return sorted(places, key=lambda j: (-estimates.estimate[j], j))


def _pairs(order: list[int], against: int | None, side: str) -> tuple[IntArray, IntArray]:
    """First and second model of every difference; both ways round where all pairs are asked about one side."""
    if against is not None:
        others = [j for j in order if j != against]
        return np.array(others), np.full(len(others), against)
    both = side in ("larger", "smaller", "noninferiority")
    places = range(len(order))
    pairs = [(order[a], order[b]) for a in places for b in places if a < b or (both and a != b)]
    first, second = zip(*pairs, strict=True)
    return np.array(first), np.array(second)
