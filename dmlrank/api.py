"""The public functions: fit, check of data, and reading of stored results."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ._utils.tasks_and_threads import Report, computing_with, one_thread
from .data.formula.features import Environment, caller_environment
from .data.formula.parse import criteria_of
from .data.pairs_from_scores import read_scores
from .exceptions import OptionTypeError, nearest
from .fit.estimators import options_for
from .fit.state import Source
from .functionals import Functional
from .options import (
    KEYWORDS,
    OPTIONS,
    Average,
    CovarianceKeywords,
    CovType,
    EqualStyle,
    EqualTasks,
    EstimatorName,
    Learning,
    Missing,
    Options,
    Pairs,
    in_full,
    in_its_place,
)
from .results.rank_results import RankResults, fit

if TYPE_CHECKING:
    from .inspection.check import Check
    from .planning.plan import Plan

F = TypeVar("F", bound=Callable[..., Any])


def _with_hints(function: F) -> F:
    """Let a function say where an option stands that it was given by its own name, such as ``min_labels=5``."""
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        for name in given:
            if name not in known:
                place = nearest(name, known)
                if name in OPTIONS:
                    within = in_its_place(name)
                    place = f"; write {within}" if within.split("=")[0] in known else "; it belongs to dml_rank()"
                raise OptionTypeError(f"{function.__name__}() has no argument {name!r}{place}")
        return function(*args, **given)

    return cast(F, call)


@_with_hints
def dml_rank(
    formula: str,
    data: object,
    functional: str | Functional | Callable[[NDArray[np.float64]], ArrayLike] = "auto",
    *,
    estimator: EstimatorName = "debiased",
    average: Average = "scores",
    adjust: str | EqualStyle | None = None,
    context: str | Sequence[str] | None = None,
    categories: Mapping[Any, str | float] | None = None,
    missing: Missing = "raise",
    run: str | None = None,
    lower_is_better: bool = False,
    bounds: tuple[float, float] | None = None,
    weights: str | EqualTasks | ArrayLike | None = None,
    judge: object = None,
    propensity: str | ArrayLike | Callable[[pd.DataFrame, list[str]], ArrayLike] | Plan = "estimate",
    learner: object = "auto",
    position_bias: bool | str = "auto",
    cov_type: CovType = "robust",
    cov_kwds: Mapping[str, str | Sequence[str]] | None = None,
    alpha: float = 0.05,
    rng: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    progress: bool | Report = False,
    pairs: Pairs | Literal["arena"] = Pairs(),  # noqa: B008 (it is frozen)
    learning: Learning = Learning(),  # noqa: B008
    env: int | Mapping[str, object] | Environment | None = None,
) -> RankResults:
    """Rank models from pairwise preferences or scores, without assuming Bradley-Terry.

    The scores are a functional F of the preference probabilities mu, averaged over prompts: theta = E[F(mu(X))]. The
    debiased estimator of Frauen et al. has two cross-fitted first stages, mu and the propensities of the pairs, and
    intervals that are valid if both are estimated well enough.

    Parameters
    ----------
    formula : str
        ``"winner ~ features | model_a + model_b"``: the outcome of a vote, features of the prompt as patsy reads them
        (also ``text(prompt, 100)`` and columns of vectors; ``1`` for none), and the two items in the order in which
        they were shown. The outcome is a column of labels, of preferences for the first item in [0, 1], or a column of
        probabilities for each category, ``"p_a + p_b + p_tie ~ ..."``. ``"score ~ 1 | model"`` is about a table of
        scores, a row per prompt, model and run, and ``"accuracy + style ~ 1 | model"`` about several criteria.
    data : frame
        One row per vote or score: a pandas or polars DataFrame, a pyarrow Table, a DuckDB relation, a Dask DataFrame,
        or the path of parquet files. A row with a missing winner is a prompt without a label. The frame is not changed;
        do not change it as long as you update the result, because updates may read further columns.
    functional : {"auto", "borda", "bt", "rank_centrality", "dominance", "softmin", "mean"}, Functional or callable
        "auto" is "borda" for votes and "mean" for scores. "borda" is the mean win share, "bt" projects log-odds on
        differences of scores, "rank_centrality" is the stationary distribution of a random walk to preferred models,
        "dominance" the share of opponents that a model clearly beats, "softmin" the preference against the worst
        opponent, and "mean" the mean score. ``dmlrank.functionals`` has them with their settings, ``PassAtK(3)`` and
        ``PassHatK(3)`` of runs that succeed or fail, and functionals of your own.
    estimator : {"debiased", "plugin", "bt_restricted", "bt_mle", "bt_contextual"}
        "plugin" is the mean of F(mu), without intervals. "bt_restricted" assumes the Bradley-Terry model in every
        prompt. "bt_mle" is the parametric Bradley-Terry model by maximum likelihood, as leaderboards use it, and
        "bt_contextual" the same with scores that are linear in the features; both have sandwich standard errors.
    average : {"scores", "preferences"}
        Whether scores of prompts are averaged, E[F(mu(X))], or F is that of the mean preferences, F(E[mu(X)]). The two
        differ unless F is linear; with "scores" the target then depends on the features.
    adjust : str or EqualStyle, optional
        ``"~ log_length + headers"``: scores of answers of equal style, by columns of style differences.
    context : str or sequence of str, optional
        Columns that identify a prompt; every row is a prompt of its own when None. Repeated votes on a prompt and pair
        are averaged.
    categories : mapping, optional
        ``{label: meaning}`` of labels that are not recognised: first, second, both_good, both_bad, tie, missing, or the
        worth of a grade for the first item, a number in [0, 1]; ``{column: meaning}`` of columns of probabilities.
    missing : {"raise", "drop", "keep", "common", "model"} or float
        What happens to rows with missing values: an error, left out, or features that LightGBM takes as missing. For
        scores also: only prompts with scores of all models ("common"), means in which features and other models' scores
        predict missing ones ("model"), or the number that a missing score counts as.
    run : str, optional
        In a table of scores, the column that tells the runs of a prompt and model apart, so that duplicates are found.
    lower_is_better : bool
        Whether the model with the lowest mean score is the best, as for error rates or seconds: the first in ranks, the
        verdict, the page and the gate. Means and differences keep the unit and the sign of the scores.
    bounds : tuple of two floats, optional
        Smallest and largest possible score, for limits of means: ``(1, 10)`` for grades of which only 6 to 9 occur. By
        default 0 and 1 where all scores lie between, otherwise the smallest and the largest score.
    weights : str, EqualTasks or array, shape (n,), optional
        Weights of the prompts in the target population, E[w F(mu(X))] / E[w]: a column, or a number per prompt in order
        of first appearance; :class:`EqualTasks` lets all tasks count the same.
    judge : str, sequence of str or frame, optional
        Verdicts of automatic judges: a column of labels for each judge, the probability columns of one judge, or a long
        frame with prompt, items and verdict. A judge that errs adds no bias, because human votes correct it;
        ``res.judge`` has ``table()``, ``audit()`` and what the verdicts add. Of a table of scores: columns of judges'
        scores of all answers, of which people graded a few.
    propensity : {"estimate", "marginal"}, str, array, callable or plan
        P(the pair is labelled | x): estimated from the features of the formula or those of ``"~ features"``, the
        frequencies of the pairs, or known: a column, an array (n, K, K), a function of (contexts, models), a plan. For
        scores the probability that a model was run on a prompt, or an answer graded ("marginal": drawn at random).
    learner : {"auto", "lightgbm"}, classifier or callable
        Learner of mu. "auto" fits smooth main effects, a contextual Bradley-Terry model with ties, and lets LightGBM
        continue where this lowers the held-out log-loss. A classifier has ``fit`` and ``predict_proba`` and gets
        features with indicators of both items; a callable is ``learner(features, labels, weights, rng) -> predict``.
        The page "A learner of your own" describes both.
    position_bias : bool or "auto"
        Whether display order matters, so that the two orders of a pair are two pairs. "auto": yes if every pair with
        ``min_labels`` labels has as many in each order; if not, and pairs were shown in one order more often than by
        chance, an effect estimated in pairs shown in both is taken off the scores. With False, a supplied propensity is
        the expected number of labels of a pair in either order, which may exceed 1.
    cov_type : {"robust", "cluster"}
        Whether prompts or clusters of prompts are independent.
    cov_kwds : mapping, optional
        ``{"groups": column}`` or ``{"groups": [prompt, annotator]}``, where ``"context"`` stands for the prompts.
        ``{"prompts": "fixed"}``: intervals are about these prompts, not about new ones, so that labels alone are
        random.
    alpha : float
        One minus the confidence level.
    rng : int, Generator or None
        Seed of folds, tuning and boosters; with None a seed is drawn, which the summary prints.
    n_jobs : int, optional
        Number of threads; one per core for None. A process that is forked after a fit cannot fit: start it by spawn.
    progress : bool or callable
        True shows a bar on standard error; a function is called with (step, total, what).
    pairs : Pairs or "arena"
        Which models and pairs the scores use, and what they weigh: see :class:`Pairs`. "arena" uses all votes, weighs
        pairs by their labels and pools display orders: ``Pairs(min_labels=1, edge_weights="counts")`` with
        ``position_bias=False``.
    learning : Learning
        How the first stages are learnt: see :class:`Learning`.
    env : int, mapping or patsy EvalEnvironment, optional
        Namespace in which functions and arrays of the formula are looked up; by default that of the caller.

    Returns
    -------
    RankResults
        The scores with their covariance, and methods for intervals, tests, ranks, groups, plans and figures. For
        several criteria a :class:`~dmlrank.results.comparison.Criteria`, with their joint covariance.

    Raises
    ------
    DmlrankError
        The base class of all errors of the package. Messages say what was found, what is allowed and what to do.

    References
    ----------
    Frauen, Deviyani, van der Schaar, Feuerriegel, Nonparametric LLM Evaluation from Preference Data, arXiv 2601.21816.

    Examples
    --------
    >>> import dmlrank as dr
    >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
    >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", battles, functional="bt", context="question_id", rng=0)
    >>> res.params.idxmax()
    'gpt-4'
    """
    given = in_full({name: value for name, value in locals().items() if name in KEYWORDS})
    options, environment = Options.of(given), caller_environment(env, depth=2)
    with computing_with(options.n_jobs, progress):
        criteria = {}
        for name, text in criteria_of(formula).items():
            scores = read_scores(text, data, context=options.context, run=options.run)
            criteria[name] = fit(options_for(scores, options, given), Source(text, scores, environment))
        if criteria:
            # Callers that name one column, as nearly all do, have one class of results.
            from .results.comparison import criteria_of_results

            return cast(RankResults, criteria_of_results(criteria))
        data = read_scores(formula, data, context=options.context, run=options.run)
        return fit(options_for(data, options, given), Source(formula, data, environment))


@_with_hints
def check(
    formula: str,
    data: object,
    *,
    context: str | Sequence[str] | None = None,
    categories: Mapping[Any, str | float] | None = None,
    missing: Missing = "raise",
    run: str | None = None,
    weights: str | EqualTasks | ArrayLike | None = None,
    judge: str | Sequence[str] | None = None,
    cov_kwds: Mapping[str, str | Sequence[str]] | None = None,
    position_bias: bool | str = "auto",
    pairs: Pairs | Literal["arena"] = Pairs(),  # noqa: B008 (it is frozen)
    env: int | Mapping[str, object] | Environment | None = None,
) -> Check:
    """Check data before a fit: labels, names, graph, repeats, balance, clusters, missing values, size.

    Nothing is trained on the data. Problems that would stop a fit, such as a graph that does not connect the models, a
    model compared with itself or an unknown label, are reported with advice and not raised. A formula or column that
    cannot be read, and labels of which none is recognised, are errors, as in a fit.

    Parameters
    ----------
    formula : str
        Outcome, features and the columns of the two models. All arguments mean what they mean in :func:`dml_rank`.
    data : frame
        One row per vote or score. Rows that a fit refuses are left out and counted.
    context : str or sequence of str, optional
        Columns that identify a prompt.
    categories : mapping, optional
        Meanings of labels that are not recognised.
    missing : {"raise", "drop", "keep", "common", "model"} or float
        With "raise" and "drop", rows with missing values are left out and counted.
    run : str, optional
        Column that tells the runs of a prompt and model apart.
    weights : str, EqualTasks or array, optional
        Weights of the prompts; means of the check are over the tasks of :class:`EqualTasks`.
    judge : str or sequence of str, optional
        Columns of judges' scores in a table of grades, whose missing grades then stop no fit.
    cov_kwds : mapping, optional
        ``{"groups": column}``: the clusters of prompts that are counted.
    position_bias : bool or "auto"
        Whether display order matters.
    pairs : Pairs or "arena"
        Which models and pairs the scores use, as in :func:`dml_rank`.
    env : int, mapping or patsy EvalEnvironment, optional
        Namespace in which functions and arrays of the formula are looked up.

    Returns
    -------
    Check
        Printing it shows a page. ``problems`` is a table of what was found, each with advice; twelve frames such as
        ``labels``, ``models``, ``pairs`` and ``columns`` hold the numbers. ``settings`` compares the choices of
        ``position_bias``, ``min_labels`` and ``edge_weights``.

    Raises
    ------
    DmlrankError
        If formula or data cannot be read.

    Examples
    --------
    >>> import dmlrank as dr
    >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
    >>> report = dr.check("winner ~ C(category) | model_a + model_b", battles, context="question_id")
    >>> report.labels["read_as"].tolist(), int(report.pairs["compared"].sum())
    (['first', 'second', 'both_good', 'both_bad'], 28)
    """
    from .inspection.run_check import inspect_data

    given = in_full({name: value for name, value in locals().items() if name in KEYWORDS})
    has_clusters = bool(CovarianceKeywords.of(cov_kwds).groups)
    options = Options.of({**given, "cov_type": "cluster" if has_clusters else "robust"})
    environment = caller_environment(env, depth=2)
    with one_thread():
        data = read_scores(formula, data, context=options.context, run=options.run)
        return inspect_data(Source(formula, data, environment), options_for(data, options, {}))


def read_json(path_or_text: str | os.PathLike[str]) -> RankResults:
    """Read a result that :meth:`RankResults.to_json` has written; the file holds numbers and names, and runs no code.

    Parameters
    ----------
    path_or_text : str or path-like
        A file, or the JSON itself (a string that begins with a brace).

    Returns
    -------
    RankResults
        The stored result, without data.

    Raises
    ------
    StorageError
        If there is no such file, or it does not hold a result of this format, or it was changed.

    Examples
    --------
    >>> import dmlrank as dr
    >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
    >>> dr.read_json(res.to_json()).params.equals(res.params)
    True
    """
    from .fit.json_format import from_text, read_text

    text, origin = read_text(path_or_text)
    return RankResults(from_text(text, origin))
