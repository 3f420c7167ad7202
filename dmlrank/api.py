"""The functions that users call: options in, results out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from patsy import EvalEnvironment

from ._options import CovType, Estimator, Missing, Votes, make_options
from .data.features import caller_environment
from .data.graph import Graph
from .functionals import CategoryWeights, Functional
from .nuisance.tuning import Parameter
from .pipeline import Source
from .results import RankResults, fit


def dml_rank(
    formula: str,
    data: Any,
    *,
    functional: str | Functional = "borda",
    context: str | Sequence[str] | None = None,
    propensity: str | ArrayLike = "estimate",
    estimator: Estimator = "debiased",
    mu: ArrayLike | None = None,
    learner: str = "auto",
    n_folds: int = 5,
    tune: str | Mapping[str, Parameter] | None = "cv",
    graph: str | Graph | ArrayLike = "observed",
    min_labels: int = 10,
    component: str = "all",
    min_comparisons: int = 0,
    edge_weights: str | ArrayLike = "equal",
    categories: Mapping[Any, str] | None = None,
    category_weights: str | CategoryWeights | Sequence[Sequence[float]] = "half",
    floor: float = 0.005,
    cov_type: CovType = "robust",
    cov_kwds: Mapping[str, Any] | None = None,
    missing: Missing = "raise",
    votes: Votes = "mean",
    unlabelled: Any = None,
    alpha: float = 0.05,
    rng: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    env: int | Mapping[str, Any] | EvalEnvironment | None = None,
) -> RankResults:
    """Rank models from pairwise preferences, without assuming Bradley-Terry.

    The scores are a functional of the preference probabilities mu, averaged over prompts: theta = E[F(mu(X))]. They are
    estimated by the debiased estimator of Frauen et al. with cross-fitted first stages; it is efficient, and its
    intervals hold, when both first stages are estimated well enough.

    Parameters
    ----------
    formula : str
        ``"winner ~ features | model_a + model_b"``. Features are anything patsy reads, ``text(prompt, 100)`` (TF-IDF
        and truncated SVD), columns that hold vectors, 2-D arrays of the caller with one row per row of the data, or
        ``1`` for no context. The two items stand in the order in which they were shown. The outcome is a column of
        labels (known spellings, the winning model's name, 1 = first and 0 = second), a column of preferences for the
        item shown first (numbers in [0, 1]), or one column of probabilities per category:
        ``"p_a + p_b + p_tie ~ features | model_a + model_b"``.
    data : frame
        One row per vote: a pandas or polars DataFrame, a pyarrow Table or a DuckDB relation, of which only the needed
        columns are read. A row with a missing winner is a context that still tells about the prompts. The frame is
        neither changed nor copied: :meth:`RankResults.update` reads it again where a change asks for other columns or
        rows, so leave it as it is for as long. Rows keep their order; joins and aggregations of DuckDB have none, so
        give them an ``.order()`` unless ``context=`` says which rows belong together.
    functional : {"borda", "bt", "rank_centrality"} or Functional
        Mean win share; log-odds projected on differences of scores (Bradley-Terry without assuming it); stationary
        distribution of the walk to preferred models. Objects such as ``RankCentrality(walk="rate")`` are bound to the
        data's weights and graph.
    context : str or sequence of str, optional
        Columns that identify a prompt. Repeated votes on a prompt and pair are averaged. None: every row is a prompt.
    propensity : {"estimate", "marginal"}, str or array, shape (n, K, K)
        P(the pair is labelled | x). Estimated with LightGBM; pair frequencies (pairs drawn without looking at the
        prompt); the name of a column (propensity of the row's own ordered pair); or known ones, used unchanged.
    estimator : {"debiased", "plugin"}
        The plug-in estimator is the mean of F(mu); its intervals are not valid and say so.
    mu : array, shape (n, K, K, C), optional
        Ready out-of-fold probabilities in place of a learner: contexts in order of first appearance, items sorted by
        name (or in the order of a Categorical), categories first wins, second wins, both good, both bad, tie.
    learner : {"auto", "lightgbm"}
        Learner of mu. Without features it is not used: pair frequencies are shrunk to a main-effects fit.
    n_folds : int
        Folds of the cross-fitting; a prompt (or cluster of prompts) is never split.
    tune : {"cv"}, mapping or None
        How boosters are tuned: a handful of configurations with early stopping on inner folds; LightGBM parameters to
        be used as they are; or LightGBM's defaults with 100 rounds.
    graph : {"observed", "complete"}, Graph or boolean array, shape (K, K)
        Pairs that the scores use: those with at least ``min_labels`` labelled prompts in both orders, or all
        (extrapolated where there are none).
    min_labels : int
        See ``graph``.
    component : {"all", "largest"}
        Whether a disconnected graph is an error, or models outside its largest component are dropped.
    min_comparisons : int
        Models with fewer labelled prompts are dropped.
    edge_weights : {"equal", "counts"} or array, shape (K, K)
        Weights of the pairs in bt's projection and Borda's mean, held fixed.
    categories : mapping, optional
        ``{label: meaning}`` for labels that are not known, with the meanings first, second, both_good, both_bad, tie;
        ``{column: meaning}`` for columns of probabilities. ``{0.5: "tie"}`` makes a tie of a preference of one half.
    category_weights : {"half", "paper"}, CategoryWeights or two sequences of C numbers
        What each category counts for the first and for the second item. "half": every tie one half; "paper": both good
        counts as a win for both, both bad for none.
    floor : float
        Smallest probability of a category, for functionals with a logit or a division.
    cov_type : {"robust", "cluster"}
        Prompts are independent, or clusters of them are.
    cov_kwds : mapping, optional
        ``{"groups": column}`` with clusters of prompts, or ``{"groups": [prompt, annotator]}`` for two-way clustering.
    missing : {"raise", "drop", "keep"}
        What to do with rows that miss a needed value: an error, leave them out (counted in the summary), or keep them.
        Kept numbers, categories, texts and vectors are NaN to LightGBM, which learns where to send them; ``center``,
        ``bs`` and the like learn from known values, other functions of the formula see the NaN. What is no feature
        (items of a vote, identifiers, clusters, propensities) is needed in any case.
    votes : {"mean", "first"}
        What repeated votes on a prompt count that show the same two items in the same order: their mean, which is right
        where the number of votes does not depend on what was voted; or the first one in the order of the rows, where a
        first label decides whether there is a second.
    unlabelled : frame, optional
        Further prompts of the target population that nobody has compared models on, in any kind of frame: the columns
        that the features, ``context=`` and clusters use; outcome and items absent or all missing. They are appended to
        the data. A prompt that is in the data too has the same features there, and adds nothing.
    alpha : float
        One minus the confidence level.
    rng : int, Generator or None
        Seed of folds, tuning and boosters; None draws one, which the summary prints.
    n_jobs : int, optional
        Threads; all cores when None.
    env : int, mapping or patsy EvalEnvironment, optional
        Where functions and arrays of the formula are looked up; by default where this function is called.

    Returns
    -------
    RankResults

    Raises
    ------
    DmlrankError
        Every error is a child of it and says what was seen, what is allowed and the nearest right thing.

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
    options = make_options(
        functional=functional,
        context=context,
        propensity=propensity,
        estimator=estimator,
        mu=mu,
        learner=learner,
        n_folds=n_folds,
        tune=tune,
        graph=graph,
        min_labels=min_labels,
        component=component,
        min_comparisons=min_comparisons,
        edge_weights=edge_weights,
        categories=categories,
        category_weights=category_weights,
        floor=floor,
        cov_type=cov_type,
        cov_kwds=cov_kwds,
        missing=missing,
        votes=votes,
        unlabelled=unlabelled,
        alpha=alpha,
        rng=rng,
        n_jobs=n_jobs,
    )
    return fit(options, Source(formula, data, caller_environment(env, depth=1)))


def load(path: str | os.PathLike[str]) -> RankResults:
    """Read a result that :meth:`RankResults.save` has stored.

    Only load files that you trust: the format is pickle.

    Parameters
    ----------
    path : path-like

    Raises
    ------
    DataError
        If the file holds something else.
    """
    return RankResults.load(path)
