"""The functions that users call: options in, results out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from patsy import EvalEnvironment

from ._utils.progress import Report, reporting
from .data.formula.features import caller_environment
from .data.graph import Graph
from .fit.estimators import options_of_fit
from .fit.state import Source
from .functionals import CategoryWeights, Functional
from .inspection.check import Check
from .inspection.run_check import inspect_data
from .nuisance.boosting.tuning import Tune
from .options import CovType, EstimatorName, Missing, Prompts, Votes, read_option
from .results.rank_results import RankResults, fit
from .storage.json_format import from_text, read_text


def dml_rank(
    formula: str,
    data: Any,
    *,
    functional: str | Functional | Callable[[Any], ArrayLike] = "borda",
    context: str | Sequence[str] | None = None,
    propensity: str | ArrayLike | Callable[[pd.DataFrame, list[str]], ArrayLike] | Any = "estimate",
    propensity_formula: str | None = None,
    estimator: EstimatorName = "debiased",
    judge: Any = None,
    judge_as: str = "two-stage",
    mu: ArrayLike | None = None,
    learner: Any = "auto",
    n_folds: int = 5,
    n_rep: int = 1,
    tune: Tune = "cv",
    position_bias: bool | str = "auto",
    graph: str | Graph | ArrayLike = "observed",
    min_labels: int = 10,
    component: str = "all",
    min_comparisons: int = 0,
    edge_weights: str | ArrayLike = "equal",
    weights: str | ArrayLike | None = None,
    categories: Mapping[Any, str] | None = None,
    category_weights: str | CategoryWeights | Sequence[Sequence[float]] = "half",
    prompts: Prompts = "random",
    floor: float | str = "auto",
    subsample: int | None = None,
    cov_type: CovType = "robust",
    cov_kwds: Mapping[str, Any] | None = None,
    missing: Missing = "raise",
    votes: Votes = "mean",
    unlabelled: Any = None,
    alpha: float = 0.05,
    rng: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    progress: bool | Report = False,
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
    functional : {"borda", "bt", "rank_centrality", "dominance", "softmin"}, Functional or callable
        Mean win share; log-odds projected on differences of scores (Bradley-Terry without assuming it); stationary
        distribution of the walk to preferred models; share of opponents clearly beaten; preference against the worst
        opponent. Objects such as ``RankCentrality(walk="rate")`` or ``Dominance(tau=0.7)`` are bound to the data's
        weights and graph. A function ``mu -> (n, d)`` of probabilities (n, K, K, C) is a functional of your own, its
        derivative taken by two more calls: one score per model (d = K), or d numbers with names; see
        :class:`dmlrank.functionals.Custom`.
    context : str or sequence of str, optional
        Columns that identify a prompt. Repeated votes on a prompt and pair are averaged. None: every row is a prompt.
    propensity : {"estimate", "marginal"}, str, array, callable or plan
        P(the pair is labelled | x). Estimated, with LightGBM and, where prompts have one labelled pair, smooth effects
        of the models on what is shown; pair frequencies (pairs drawn without looking at the prompt); the name of a
        column (propensity of the row's own ordered pair); or known ones, used unchanged: an array (n, K, K), a function
        of (contexts, models) that returns one, where contexts is a DataFrame with all columns of the data and a row per
        context, or an object with an array ``propensity``, such as a labelling plan, whose ``contexts`` and ``models``
        are matched by name.
    propensity_formula : str, optional
        ``"~ features"`` for an estimated propensity, where selection saw other things than the formula's features, such
        as a judge's score of the prompt.
    estimator : {"debiased", "plugin", "bt_restricted", "bt_mle"}
        The plug-in estimator is the mean of F(mu), an estimate without intervals. "bt_restricted" assumes the
        Bradley-Terry model in every prompt (two outcomes, functional bt) and is more precise where it holds; it needs
        propensities of all pairs, not a column, and ``restriction_test`` tests what it assumes. "bt_mle" is the
        parametric Bradley-Terry model by maximum likelihood on the votes, display order ignored and ties one half, with
        sandwich standard errors: what leaderboards compare with. It has no first stages: options about them are
        refused, and ``functional`` is bt. Covariances are those of statsmodels' GLM on one row per vote: HC0 where
        every prompt has one vote, by prompt otherwise, by cluster with the factor G / (G - 1) alone (statsmodels has (v
        - 1) / (v - K + 1) beside it, for v votes and K models).
    judge : str, sequence of str, frame, array, callable or mapping, optional
        Verdicts of an automatic judge on pairs, with and without a human label: a column of the data with its labels
        (known for the pair that was shown, on battles with a missing winner too), columns of probabilities named by
        category, or several columns, one per judge; a long frame with the ``context=`` columns, the two item columns
        and a label or probabilities; an array (n, K, K, q) of probabilities in the order of the categories, or of any
        numbers, NaN where nothing is known; a function of (contexts, models) that returns one; or a mapping of names to
        these. Verdicts sharpen the estimate as far as they tell what humans say, and never replace them: a judge that
        errs, or favours the first answer, changes nothing in what is estimated. Where verdicts exist for exactly the
        labelled pairs they cancel out, which is refused. With ``position_bias=False`` one order of a pair is enough.
        ``res.judge`` reports what it bought.
    judge_as : {"two-stage", "features"}
        How it is used: P(label | x, verdict) and its regression on x, or the paper's way, as a feature of mu, for a
        judge that is known on every pair. The second changes what ``bt`` and ``rank_centrality`` estimate.
    mu : array, shape (n, K, K, C), optional
        Ready out-of-fold probabilities in place of a learner: contexts in order of first appearance, items sorted by
        name (or in the order of a Categorical), categories first wins, second wins, both good, both bad, tie.
    learner : {"auto", "lightgbm"}, classifier or callable
        Learner of mu. "auto" fits smooth main effects first (how strong and how prone to ties every model is, as
        curves of the features: a contextual Bradley-Terry model with ties), then LightGBM on what these leave, in the
        same coordinates and where it lowers the held-out log-loss; the summary's line says whether it did.
        "lightgbm" is LightGBM alone. Without features, and in a fold with one category, none is used: pair
        frequencies are shrunk to a main-effects fit, or are what they are.

        A classifier is an instance with ``fit`` and ``predict_proba``, such as ``LogisticRegression()`` or a pipeline.
        A copy of it is fitted in every fold; it is left as it is. Its features are the p columns of the formula, K
        columns that are one for the item shown first, and K for the item shown second, items in the order of the
        results. A random state that is None is seeded by ``rng``. Votes are weights where ``fit`` (or that of a
        pipeline's last step) takes ``sample_weight``, else rows are repeated. That a prompt favours some items is for
        the classifier to find out: a logistic regression without products of these columns cannot say it.

        A callable is ``learner(features, labels, weights, rng) -> predict``, with ``predict(features)`` returning
        probabilities (rows, C). Features are [x, code of the first item, code of the second] (p + 2 columns), codes
        from 0 in the order of the results, from which it can make embeddings or products; labels are codes of the C
        categories, all of which it has to predict whether a fold has them or not; ``rng`` is a Generator.
    n_folds : int
        Folds of the cross-fitting; a prompt (or cluster of prompts) is never split.
    n_rep : int
        Repetitions with other folds. Influence values are averaged over them, and what the deal of folds changes is
        added to the covariance.
    tune : {"cv", "random"}, RandomSearch, mapping or None
        How boosters are tuned, of mu and of estimated propensities: a handful of configurations with early stopping on
        inner folds; the paper's random search (30 draws from its grid for real data, 3 folds; many times slower), or
        another :class:`RandomSearch`; LightGBM parameters to be used as they are; or LightGBM's defaults with 100
        rounds. With ``learner="auto"``, and for propensities of prompts with one labelled pair, "cv" settles ridge,
        rounds and configuration by the log-loss of the held-out folds, once for all folds; anything else is about
        LightGBM, and makes mu LightGBM's alone. With a learner of your own it tunes the propensities only, and is
        refused where these are not estimated.
    position_bias : bool or "auto"
        Whether showing a pair the other way round makes it another pair. False: order does not matter, both orders of
        a pair are one. That needs category weights that mirror, learns from both orders, asks ``min_labels`` of a pair
        in all, and takes a given propensity as the *expected number of labelled orders* of the pair (it may exceed 1).
        More precise where orders are unbalanced; ``diagnostics.position_z`` tests it. "auto" chooses by counts of
        labels alone, never by what they say: order matters where every pair with ``min_labels`` labels in all has that
        many in both orders, else it does not, so that pairs with few labels are not lost. It matters in any case where
        category weights do not mirror, and where ``mu=`` or propensities of ordered pairs are given. The summary says
        what was chosen and why.
    graph : {"observed", "complete"}, Graph or boolean array, shape (K, K)
        Pairs that the scores use: those with at least ``min_labels`` labelled prompts (in both orders, where order
        matters), or all (extrapolated where there are none). A result with pairs that were never compared is an
        estimate without intervals: no label corrects what the learner makes of them.
    min_labels : int
        See ``graph``.
    component : {"all", "largest"}
        Whether a disconnected graph is an error, or models outside its largest component are dropped.
    min_comparisons : int
        Models with fewer labelled prompts are dropped.
    edge_weights : {"equal", "counts"}, array or DataFrame, shape (K, K)
        Weights of the pairs in bt's projection and Borda's mean, held fixed.
    weights : str or array, shape (n,), optional
        Weights that turn these prompts into the target population: a column, the same for all rows of a prompt, or one
        number per prompt in order of first appearance (a Series by its labels, the prompts' identifiers). The scores
        are E[w F(mu(X))] / E[w].
    categories : mapping, optional
        ``{label: meaning}`` for labels that are not known, with the meanings first, second, both_good, both_bad, tie;
        ``{column: meaning}`` for columns of probabilities. ``{0.5: "tie"}`` makes ties
        of one half where the other labels are 0 and 1.
    category_weights : {"half", "paper"}, CategoryWeights or two sequences of C numbers
        What each category counts for the first and for the second item. "half": every tie one half; "paper": both good
        counts as a win for both, both bad for none.
    prompts : {"random", "fixed"}
        Whether the intervals are about new prompts like these, or about these prompts alone: then only the labels are
        random, and the covariance is that of the correction.
    floor : float or "auto"
        Smallest probability of a category, for functionals with a logit or a division; 0 is none. "auto" takes the one
        of ten, from 0.001 to 0.1, with the smallest out-of-fold log-loss: predictions more extreme than the truth are
        what biases such a functional most. The summary shows it and how often it bit.
    subsample : int, optional
        Prompts, drawn at random, over which F(mu) is averaged; corrections are those of all prompts. For borda and bt
        these need mu at the labelled pairs only, so that a million prompts cost what the sample costs. What it adds to
        the standard errors is in the summary.
    cov_type : {"robust", "cluster"}
        Prompts are independent, or clusters of them are.
    cov_kwds : mapping, optional
        ``{"groups": column}`` with clusters of prompts, or ``{"groups": [prompt, annotator]}`` for two-way clustering.
        The word ``"context"`` stands for the prompts themselves where no column has this name.
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
        Threads; all cores when None. Boosters on small training sets use one in any case. A process forked after a fit
        hangs in its own, whatever this is: start processes by spawn or forkserver, or set ``OMP_NUM_THREADS=1`` before
        Python starts.
    progress : bool or callable
        True shows a bar on standard error (in a log file, lines); a function is called with (step, total, what).
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

    A learner of your own: the shares of the categories, whatever prompt and items are.

    >>> def shares(features, labels, weights, rng):
    ...     share = np.bincount(labels, weights, minlength=4) / weights.sum()
    ...     return lambda features: np.tile(share, (len(features), 1))
    >>> formula = "winner ~ length | model_a + model_b"
    >>> res = dr.dml_rank(formula, battles, context="question_id", learner=shares, propensity="marginal", rng=0)
    >>> res.params.idxmax()
    'gpt-4'
    """
    # Before anything else is a local: every argument by its name, of which the table of options takes its own.
    given = locals()
    options = options_of_fit(given)
    source = Source(formula, data, caller_environment(env, depth=1))
    with reporting(progress):
        return fit(options, source)


def check(
    formula: str,
    data: Any,
    *,
    context: str | Sequence[str] | None = None,
    categories: Mapping[Any, str] | None = None,
    min_labels: int = 10,
    missing: Missing = "raise",
    cov_kwds: Mapping[str, Any] | None = None,
    n_folds: int = 5,
    position_bias: bool | str = "auto",
    graph: str | Graph | ArrayLike = "observed",
    edge_weights: str | ArrayLike = "equal",
    votes: Votes = "mean",
    env: int | Mapping[str, Any] | EvalEnvironment | None = None,
) -> Check:
    """Look at data before a fit: labels, names, graph, repeats, balance, clusters, missing values, size.

    Nothing is trained on the data. What a fit would stumble over, such as a graph that does not connect the models, a
    model against itself or an unknown label, is reported with advice and not raised; what cannot be read at all (a
    formula, a column, labels none of which is known) is an error, as in a fit.

    Parameters
    ----------
    formula, data, context, categories, min_labels, missing, cov_kwds, n_folds, position_bias, graph, edge_weights, \
votes, env
        As for :func:`dml_rank`. Rows with missing values are left out and counted, unless ``missing="keep"``; so are
        rows that a fit refuses.

    Returns
    -------
    Check
        Prints as a page; its frames ``labels``, ``models``, ``pairs``, ``settings``, ``clusters`` and ``missing`` hold
        the numbers, ``problems`` what is wrong or worth knowing. ``settings`` says what every choice of
        ``position_bias``, ``min_labels`` and ``edge_weights`` costs.

    Raises
    ------
    DmlrankError
        Where formula and data cannot be read.

    Examples
    --------
    >>> import dmlrank as dr
    >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
    >>> found = dr.check("winner ~ C(category) | model_a + model_b", battles, context="question_id")
    >>> found.labels["read_as"].tolist(), found.graph.n_edges
    (['first', 'second', 'both_good', 'both_bad'], 28)
    """
    return inspect_data(
        formula,
        data,
        caller_environment(env, depth=1),
        context=read_option("context", context),
        categories=read_option("categories", categories),
        min_labels=int(read_option("min_labels", min_labels)),
        missing=read_option("missing", missing),
        groups=read_option("cov_kwds", cov_kwds),
        n_folds=int(read_option("n_folds", n_folds)),
        position_bias=read_option("position_bias", position_bias),
        graph=read_option("graph", graph),
        edge_weights=read_option("edge_weights", edge_weights),
        votes=read_option("votes", votes),
    )


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


def read_json(path_or_text: str | os.PathLike[str]) -> RankResults:
    """Read a result that :meth:`RankResults.to_json` has written: numbers and labels only, no code is run.

    Parameters
    ----------
    path_or_text : str or path-like
        A file, or the JSON itself (a string that begins with a brace).

    Raises
    ------
    StorageError
        If there is no such file, or it does not hold a result of this format.
    """
    text, where = read_text(path_or_text)
    return RankResults(from_text(text, where))
