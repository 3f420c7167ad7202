"""The public functions: fit, check of data, and reading of stored results."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from patsy import EvalEnvironment

from ._utils.argument_checks import cluster_groups
from ._utils.computation import Report, computing, one_thread
from .data.formula.features import caller_environment
from .data.formula.parse import criteria_of
from .data.graph import Graph
from .data.pairs_from_scores import read_scores
from .fit.estimators import options_for
from .fit.state import Source
from .functionals import CategoryWeights, Functional
from .inspection.check import Check
from .inspection.run_check import inspect_data
from .inspection.time_check import check_time_options
from .nuisance.boosting import Tune
from .options import (
    Average,
    BalancedStyle,
    CovType,
    EqualStyle,
    EqualTasks,
    EstimatorName,
    Missing,
    Options,
    Prompts,
    Runs,
    Votes,
)
from .planning.plan import Plan
from .results.comparison import criteria_of_results
from .results.rank_results import RankResults, fit
from .storage.json_format import from_text, read_text


def dml_rank(
    formula: str,
    data: object,
    *,
    functional: str | Functional | Callable[[NDArray[np.float64]], ArrayLike] = "auto",
    average: Average = "scores",
    estimator: EstimatorName = "debiased",
    adjust: str | EqualStyle | BalancedStyle | None = None,
    graph: str | Graph | ArrayLike = "observed",
    min_labels: int | str = "auto",
    component: str = "auto",
    min_votes: int = 1,
    edge_weights: str | ArrayLike = "equal",
    category_weights: str | CategoryWeights | Sequence[Sequence[float]] = "half",
    position_bias: bool | str = "auto",
    context: str | Sequence[str] | None = None,
    categories: Mapping[Any, str | float] | None = None,
    fold_names: bool = False,
    missing: Missing = "raise",
    votes: Votes = "mean",
    run: str | None = None,
    runs: Runs = "random",
    weights: str | EqualTasks | ArrayLike | None = None,
    judge: object = None,
    propensity: str | ArrayLike | Callable[[pd.DataFrame, list[str]], ArrayLike] | Plan = "estimate",
    mu: ArrayLike | None = None,
    learner: object = "auto",
    judge_as: str = "two-stage",
    n_folds: int = 5,
    n_rep: int = 1,
    tune: Tune = "cv",
    floor: float | str = "auto",
    second_order: bool = True,
    cov_type: CovType = "robust",
    cov_kwds: Mapping[str, str | Sequence[str]] | None = None,
    prompts: Prompts = "random",
    alpha: float = 0.05,
    subsample: int | None = None,
    rng: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    progress: bool | Report = False,
    executor: object = None,
    env: int | Mapping[str, object] | EvalEnvironment | None = None,
) -> RankResults:
    """Rank models from pairwise preferences, without assuming Bradley-Terry.

    The scores are a functional F of the preference probabilities mu, averaged over prompts: theta = E[F(mu(X))], or
    F(E[mu(X)]) with ``average="preferences"``. They are estimated by the debiased estimator of Frauen et al. with two
    cross-fitted first stages, the preference probabilities mu and the propensities. Its intervals are
    valid if both first stages are estimated well enough.

    Below, the options stand in five groups, in this order:

    - model: ``functional``, ``average``, ``estimator``, ``adjust``, ``graph``, ``min_labels``, ``component``,
      ``min_votes``, ``edge_weights``, ``category_weights``, ``position_bias``
    - data: ``context``, ``categories``, ``fold_names``, ``missing``, ``votes``, ``run``, ``runs``, ``weights``,
      ``judge``
    - first stages: ``propensity``, ``mu``, ``learner``, ``judge_as``, ``n_folds``, ``n_rep``, ``tune``, ``floor``,
      ``second_order``
    - inference: ``cov_type``, ``cov_kwds``, ``prompts``, ``alpha``
    - computation: ``subsample``, ``rng``, ``n_jobs``, ``progress``, ``executor``, ``env``

    Parameters
    ----------
    formula : str
        ``"winner ~ features | model_a + model_b"``. Features are anything patsy reads, ``text(prompt, 100)`` (TF-IDF
        and truncated SVD), columns that hold vectors, 2-D arrays of the caller with one row per row of the data, or
        ``1`` for no context. The two items stand in the order in which they were shown. The outcome is a column of
        labels (recognised spellings, the winning model's name, or 1 for the first and 0 for the second item), a column
        of preferences for the item shown first (numbers in [0, 1]), or one column of probabilities per category: ``"p_a
        + p_b + p_tie ~ features | model_a + model_b"``. One column after the bar means scores: ``"accuracy ~ 1 |
        model"`` is about a table with a row per prompt, model and run, and needs ``context=``. Features, clusters and
        weights are then columns that do not differ within a prompt. Several columns of scores, ``"accuracy + style ~ 1
        | model"``, are criteria.
    data : frame
        One row per vote: a pandas or polars DataFrame, a pyarrow Table or a DuckDB relation. Data that are larger than
        memory are the path of a directory of parquet files (or a pattern of their names, or one parquet file), or a
        Dask DataFrame. Only the columns that the fit uses are read. A row with a missing winner is a prompt without a
        label, which belongs to the sample of prompts; its models may be missing, too. The frame is neither changed nor
        copied.
        :meth:`RankResults.update` reads the frame again where a change needs other columns or rows, so do not change
        the frame as long as you update the result. Joins and aggregations of DuckDB have no order of rows: give them an
        ``.order()``, unless ``context=`` identifies the prompts.
    functional : {"auto", "borda", "bt", "rank_centrality", "dominance", "softmin", "mean"}, Functional or callable
        "auto" is "mean" for scores and "borda" for votes. "mean" is the mean over prompts of the mean score of a
        model's runs; it has no first stages, and differences of models are paired by prompt. "borda" is the mean win
        share. "bt" projects log-odds on differences of scores, which are Bradley-Terry scores where that model holds;
        the model is not assumed. "rank_centrality" is the stationary distribution of a random walk to preferred models.
        "dominance" is the share of opponents that a model clearly beats. "softmin" is the
        preference against the worst opponent. Objects such as ``RankCentrality(walk="rate")`` or ``Dominance(tau=0.7)``
        have other settings. A function that maps probabilities mu (n, K, K, C) to an array (n, d) defines another
        functional. Its d = K outputs are the scores of the models; :class:`dmlrank.functionals.Custom` names other
        outputs and has further settings. Its derivative is taken numerically.
    average : {"scores", "preferences"}
        What is averaged over prompts. "scores" is the mean of the prompts' scores, E[F(mu(X))]. "preferences" is the
        functional of the mean preferences, F(E[mu(X)]), which leaderboards without features estimate. For a functional
        that is not linear in mu (all but "borda") the two differ, and with "scores" the target depends on the features
        of the formula: other features define other scores. With "preferences" the target is the same whatever the
        features are, which then only adjust for who was compared on which prompts, and make the estimate more precise.
    estimator : {"debiased", "plugin", "bt_restricted", "bt_mle", "bt_contextual"}
        "plugin" is the mean of F(mu), an estimate without intervals. "bt_restricted" assumes the Bradley-Terry model in
        every prompt (two outcomes, functional bt) and is more precise where the model holds; it needs propensities of
        all pairs, not a column, and ``restriction_test`` tests the model. "bt_mle" is the parametric Bradley-Terry
        model by maximum likelihood on the votes, as leaderboards use it: display order is ignored, a tie is half a win
        for both, and standard errors are sandwich estimates. It has no first stages: options about first stages are
        refused, and ``functional`` is bt. The covariance is that of statsmodels' GLM on one row per vote. It is HC0
        where every prompt has one vote, and clustered by prompt where prompts have several votes. With
        ``cov_type="cluster"`` it is clustered by the G clusters and multiplied by G / (G - 1). statsmodels also
        multiplies a clustered covariance by (v - 1) / (v - K + 1), for v votes and K models; dmlrank does not. The
        variance of pairs whose votes all agree is added, which statsmodels' covariance lacks. The
        features of the formula do not enter "bt_mle". "bt_contextual" is the same model with scores that are linear in
        the features, r_j(x) = b_j + w_j'x: the parametric baseline of Frauen et al. Its estimates are the means of
        r_j(x) over all prompts. Its standard errors are sandwich estimates by the delta method, and contain the
        variance of r_j(x) between prompts.
    adjust : str, EqualStyle or BalancedStyle, optional
        Adjustment for the style of the answers. ``"~ log_length + headers"``, short for ``EqualStyle("~ log_length +
        headers")``, names columns with style differences, first answer minus second answer, as :func:`style_columns`
        makes them. The scores are then those of answers of equal style: slopes of the preference (borda) or its
        log-odds (bt) on style, within prompt and pair, are removed. ``BalancedStyle("~ log_length", within=0.2)`` uses
        votes on answers of nearly equal style only, with any functional. Both are associational, not causal, because
        style lies between the model and the vote. ``res.style`` has the slopes and the scores before and after the
        adjustment. Style differences are needed for every vote.
    graph : {"observed", "complete"}, Graph or boolean array, shape (K, K)
        Pairs that the scores use: "observed" for pairs with at least ``min_labels`` labelled prompts (in each order,
        where order matters), "complete" for all pairs. A result with pairs that were never compared is an estimate
        without intervals: no label corrects what the learner predicts for these pairs.
    min_labels : int or "auto"
        See ``graph``. "auto" is 10, or 1 where 10 would leave out more than 5 % of the votes.
    component : {"auto", "all", "largest"}
        What happens to models outside the largest component of the graph. "auto" leaves them out with a warning if at
        least 95 % of the votes stay, and raises an error otherwise. With "all" they are an error, with "largest" they
        are left out, however many they are.
    min_votes : int
        Number of votes in the data that a model needs to be ranked; models with fewer are left out with their votes.
        For means of scores, the number of scores.
    edge_weights : {"equal", "counts"}, array or DataFrame, shape (K, K)
        Weights of the pairs in bt's projection and Borda's mean. Standard errors treat the weights as constants, also
        where they are counts.
    category_weights : {"half", "paper"}, CategoryWeights or two sequences of C numbers
        Weight of each category for the first and for the second item. With "half" every tie is half a win for both
        items. With "paper", "both good" is a win for both items and "both bad" for neither.
    position_bias : bool or "auto"
        Whether display order matters, so that the two orders of a pair are two pairs. With False, both orders are one
        pair: mu is learnt from both orders, ``min_labels`` is about the labels of both orders together, and a supplied
        propensity is the *expected number of labelled orders* of the pair (it may exceed 1). ``category_weights`` then
        have to treat both items alike: the weight of "first wins" for the first item is that of "second wins" for the
        second item, and every tie has the same weight for both items. False is more precise where orders are
        unbalanced; ``diagnostics.position_z`` tests it. "auto" chooses by the numbers of labels, never by the outcomes:
        order matters if every pair with at least ``min_labels`` labels in total also has at least ``min_labels`` labels
        in each of its two orders. Otherwise order does not matter, so that pairs with few labels are not lost. Order
        always matters where category weights treat the first and the second item differently, and where ``mu=`` or
        propensities of ordered pairs are supplied. The summary says what was chosen and why.
    context : str or sequence of str, optional
        Columns that identify a prompt. Repeated votes on a prompt and pair are averaged. With None, every row is a
        prompt of its own.
    categories : mapping, optional
        ``{label: meaning}`` for labels that are not recognised, with the meanings first, second, both_good, both_bad,
        tie, missing (the row is a prompt without a vote); ``{column: meaning}`` for columns of probabilities. ``{0.5:
        "tie"}`` makes ties of one half where the other labels are 0 and 1. A number is the worth of a grade: ``{"A>>B":
        1, "A>B": 0.75, "A=B": 0.5, "B>A": 0.25, "B>>A": 0}`` counts "A>B" as 0.75 of a win for the item shown first and
        0.25 of a win for the other item. All scores then use mean worths in place of shares of wins.
    fold_names : bool
        Whether names of models that differ only by blanks, letter case or Unicode form are one model, under the most
        frequent of them. With False, the default, such names are different models, and a warning names them.
    missing : {"raise", "drop", "keep", "common"} or float
        What happens to rows with a missing value in a column of the fit: "raise" an error, "drop" them (the summary
        counts them), or "keep" them. Missing numbers, categories, texts and vectors that are kept are NaN for LightGBM,
        which handles them in its splits; ``center``, ``bs`` and similar functions of the formula use the other values,
        and other functions receive the NaN. Only features may be missing: items of a vote, identifiers, clusters and
        propensities may not. For scores, "common" restricts to the prompts on which every model has a score, and a
        number, such as 0.0, counts as the score wherever one is missing. A prompt whose rows have no model was not run,
        and is refused there; if runs were drawn, neither is right: see ``propensity``.
    votes : {"mean", "first"}
        How repeated votes on a prompt, with the same two items in the same order, are counted. "mean" averages them,
        which is right where the number of votes does not depend on the outcomes. "first" takes the first vote in the
        order of the rows, for data in which the first label decides whether there is a second one.
    run : str, optional
        In a table of scores, the column that tells the runs of a prompt and model apart, so that duplicates are found.
        Without it, every row of a prompt and model is a run.
    runs : {"random", "mean"}
        What is compared where models have several runs on a prompt. With "random", the preference is the share of pairs
        of a run of each of the two models that the one wins, ties one half. With "mean", the means of the runs are
        compared, which is another target. ``functional="mean"`` is the same with both.
    weights : str, EqualTasks or array, shape (n,), optional
        Weights of the prompts in the target population: a column with one value for all rows of a prompt, or one number
        per prompt in order of first appearance; a Series is matched by its labels, the prompts' identifiers. The scores
        are E[w F(mu(X))] / E[w].
    judge : str, sequence of str, frame, array, callable or mapping, optional
        Verdicts of an automatic judge on pairs, with and without a human label. They are a column of the data with the
        judge's labels of the pair that was shown (also on rows with a missing winner); columns of probabilities named
        by category; several columns, one per judge; a long frame with the ``context=`` columns, the two item columns
        and a label or probabilities; an array (n, K, K, q) with NaN where there is no verdict, which holds
        probabilities in the order of the categories, or q numbers of any other meaning; a function of (contexts,
        models) that returns such an array; or a mapping of names to these. Verdicts make the estimate more precise as
        far as they predict human labels, and never replace these: the errors of a judge, or its preference for the
        first answer, do not bias the scores. Verdicts on exactly the labelled pairs are refused, because they add
        nothing. With ``position_bias=False`` it is enough that the judge has seen each pair in one of its two orders.
        ``res.judge`` reports how often the judge agrees with the human labels and how much the verdicts reduce the
        standard errors.
    propensity : {"estimate", "marginal"}, str, array, callable or plan
        Propensity P(the pair is labelled | x). "estimate" estimates it with LightGBM. Where no prompt has more than one
        labelled pair, LightGBM starts from a model in which smooth functions of the features describe how often each
        model is chosen. ``"~ features"`` estimates it from other features than those of the formula, where
        pairs were chosen by them, such as by a judge's score of the prompt. "marginal" uses the frequencies of the
        pairs, for pairs that were drawn without regard to the
        prompt. Known propensities are used unchanged: the name of a column with the propensity of each row's ordered
        pair; an array (n, K, K); a function of (contexts, models) that returns such an array, where contexts is a
        DataFrame with all columns of the data and one row per context; or an object with an array ``propensity``, such
        as a labelling plan, whose ``contexts`` and ``models`` are matched by name. For means of scores: the probability
        that the model was run on the prompt, as a column, a frame of prompts by models, an array (n, K) or a plan.
        Scores of models that were run on all prompts, with propensity one, then predict those of the others. A prompt
        that nothing was run on is a row without a model and a score.
    mu : array, shape (n, K, K, C), optional
        Out-of-fold probabilities that replace a learner: contexts in order of first appearance, items sorted by name
        (or in the order of a Categorical), categories in the order first wins, second wins, both good, both bad, tie.
    learner : {"auto", "lightgbm"}, classifier or callable
        Learner of mu. "auto" first fits smooth main effects, a contextual Bradley-Terry model with ties: the strength
        of every model and its tendency to tie, as curves of the features. LightGBM then continues from the fitted
        log-odds, but only where boosting lowers the held-out log-loss; the summary says whether mu is boosted.
        "lightgbm" is LightGBM alone. Without features no learner is used: mu is then the frequencies of the pairs,
        shrunk to main effects. In a fold whose training labels are all of one category, mu is constant.

        A classifier is an instance with ``fit`` and ``predict_proba``, such as ``LogisticRegression()`` or a pipeline.
        A copy of it is fitted in every fold; the caller's object is not changed. The classifier gets the p columns of
        the formula, K indicators of the item shown first and K indicators of the item shown second, items in the order
        of the results. A random state that is None is seeded by ``rng``. Where ``fit`` of the classifier (or of a
        pipeline's last step) takes ``sample_weight``, the numbers of votes are weights; otherwise rows are repeated.
        The classifier has to find by itself how items differ between prompts: a logistic regression without products of
        these columns cannot.

        A callable is ``learner(features, labels, weights, rng) -> predict``, with ``predict(features)`` returning
        probabilities (rows, C). Features are [x, code of the first item, code of the second] (p + 2 columns), codes
        from 0 in the order of the results, of which the learner can make embeddings or products. Labels are codes of
        the C categories; the learner predicts all of them, also those that a fold lacks. ``rng`` is a Generator.
    judge_as : {"two-stage", "features"}
        How verdicts are used. "two-stage" fits P(label | x, verdict). The predictions of this model enter the bias
        correction. At judged pairs without a label they are also further labels for mu, if mu then predicts held-out
        labels better. "features", the method of Frauen et al., adds the verdicts to the features of mu. It needs
        verdicts on every pair. It also changes what ``bt`` and ``rank_centrality`` estimate, because mu is then
        conditional on the verdicts.
    n_folds : int
        Number of folds of the cross-fitting. A prompt (or cluster of prompts) is never split; where there are fewer
        clusters than folds, there are as many folds as clusters. The fold of a prompt follows from its identifier and
        ``rng`` by a hash that is the same on all machines. The order of the rows does not matter, and from 200 prompts
        per fold on, neither do the other prompts. Without ``context=`` the identifier is the position of the row.
        Without features (``~ 1``) there are no folds and nothing is drawn: one step is taken from frequencies of all
        labels, so that ``borda`` is the plain share over prompts. Folds remain where a judge, ``adjust=`` or features
        of ``propensity=`` need them.
    n_rep : int
        Number of repetitions with other folds. Influence values are averaged over repetitions, and the variance between
        repetitions is added to the covariance.
    tune : {"cv", "random"}, RandomSearch, mapping or None
        How the boosters of mu and of estimated propensities are tuned. "cv" tries a few configurations with early
        stopping on inner folds. "random" is the random search of Frauen et al. (30 draws from their grid for real data,
        3 folds; many times slower). A :class:`RandomSearch` sets the grid, the number of draws and the number of folds.
        A mapping holds LightGBM parameters that are used unchanged. None stands for LightGBM's defaults with 100
        rounds. With ``learner="auto"``, and for propensities of prompts with one labelled pair, "cv" selects the
        penalty of the main effects, rounds and configuration by the log-loss of the held-out folds, once for all folds;
        with any other value of ``tune``, mu is fitted by LightGBM alone, without main effects. With the caller's own
        learner, ``tune`` concerns the propensities only, and is refused where these are not estimated.
    floor : float or "auto"
        Smallest probability of a category in mu, for functionals with a logit or a division; 0 for no floor. "auto"
        selects one of ten values, from 0.001 to 0.1, by the out-of-fold log-loss, because predictions that are more
        extreme than the truth bias such a functional most. The summary shows the floor and the number of probabilities
        that were raised to it. With ``average="preferences"`` mu needs no floor, and the floor is that of the mean
        preferences; "auto" is 1 / (2 (n + 1)) for a pair with n labels.
    second_order : bool
        Whether the second-order bias of "bt" scores is estimated from the labels and removed where mu is learnt from
        features. False leaves it in the estimates, and ``diagnostics`` still says how large it is. Without features,
        with ``mu=``, with a judge, with ``adjust=`` and with other functionals nothing is removed.
    cov_type : {"robust", "cluster"}
        Whether prompts ("robust") or clusters of prompts ("cluster") are independent.
    cov_kwds : mapping, optional
        ``{"groups": column}`` with clusters of prompts, or ``{"groups": [prompt, annotator]}`` for two-way clustering.
        The word ``"context"`` stands for the prompts themselves where no column has this name.
    prompts : {"random", "fixed"}
        Whether the intervals are about new prompts like these ("random") or about these prompts alone ("fixed"). With
        fixed prompts only the labels are random. The covariance then has the variance of the estimator's bias
        correction (the term with the residuals of the labels) alone, without the variance of F(mu) between prompts.
    alpha : float
        One minus the confidence level.
    subsample : int, optional
        Number of prompts, drawn at random, over which F(mu) is averaged; the estimator's bias correction is averaged
        over all prompts. For borda and bt the bias correction needs mu at the labelled pairs only, so that the time of
        a fit depends on the sample and hardly on the number of prompts. The summary shows by how much the standard
        errors grow.
    rng : int, Generator or None
        Seed of folds, tuning and boosters; with None a seed is drawn, which the summary prints.
    n_jobs : int, optional
        Number of threads; one per core for None. Boosters on small training sets always use one thread. If a process
        has fitted and is then forked, fits in the forked process hang, whatever ``n_jobs`` is: start processes by spawn
        or forkserver, or set ``OMP_NUM_THREADS=1`` before Python starts.
    progress : bool or callable
        True shows a bar on standard error (in a log file, lines); a function is called with (step, total, what).
    executor : concurrent.futures.Executor or dask.distributed.Client, optional
        Workers that train the folds and score the contexts: threads, processes (started by spawn) or the machines of a
        Dask cluster. The numbers are the same as on the package's own threads, to the last bit. The fit does not shut
        the executor down.
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

    A learner of the caller: the shares of the categories, the same for all prompts and items.

    >>> def shares(features, labels, weights, rng):
    ...     share = np.bincount(labels, weights, minlength=4) / weights.sum()
    ...     return lambda features: np.tile(share, (len(features), 1))
    >>> formula = "winner ~ length | model_a + model_b"
    >>> res = dr.dml_rank(formula, battles, context="question_id", learner=shares, propensity="marginal", rng=0)
    >>> res.params.idxmax()
    'gpt-4'
    """
    given = {
        "functional": functional,
        "average": average,
        "estimator": estimator,
        "adjust": adjust,
        "graph": graph,
        "min_labels": min_labels,
        "component": component,
        "min_votes": min_votes,
        "edge_weights": edge_weights,
        "category_weights": category_weights,
        "position_bias": position_bias,
        "context": context,
        "categories": categories,
        "fold_names": fold_names,
        "missing": missing,
        "votes": votes,
        "run": run,
        "runs": runs,
        "weights": weights,
        "judge": judge,
        "propensity": propensity,
        "mu": mu,
        "learner": learner,
        "judge_as": judge_as,
        "n_folds": n_folds,
        "n_rep": n_rep,
        "tune": tune,
        "floor": floor,
        "second_order": second_order,
        "cov_type": cov_type,
        "cov_kwds": cov_kwds,
        "prompts": prompts,
        "alpha": alpha,
        "subsample": subsample,
        "rng": rng,
        "n_jobs": n_jobs,
    }
    options, environment = Options.of(**given), caller_environment(env, depth=1)
    with computing(options.n_jobs, executor, progress):
        criteria = {}
        for name, text in criteria_of(formula).items():
            scores = read_scores(text, data, context=options.context, run=options.run)
            criteria[name] = fit(options_for(scores, options, given), Source(text, scores, environment))
        if criteria:
            # Callers that name one column, as nearly all do, have one class of results.
            return cast(RankResults, criteria_of_results(criteria))
        data = read_scores(formula, data, context=options.context, run=options.run)
        return fit(options_for(data, options, given), Source(formula, data, environment))


def check(
    formula: str,
    data: object,
    *,
    context: str | Sequence[str] | None = None,
    categories: Mapping[Any, str | float] | None = None,
    fold_names: bool = False,
    min_labels: int | str = "auto",
    component: str = "auto",
    min_votes: int = 1,
    missing: Missing = "raise",
    cov_kwds: Mapping[str, str | Sequence[str]] | None = None,
    n_folds: int = 5,
    position_bias: bool | str = "auto",
    graph: str | Graph | ArrayLike = "observed",
    edge_weights: str | ArrayLike = "equal",
    votes: Votes = "mean",
    run: str | None = None,
    weights: EqualTasks | None = None,
    time: str | None = None,
    period: str = "auto",
    env: int | Mapping[str, object] | EvalEnvironment | None = None,
) -> Check:
    """Check data before a fit: labels, names, graph, repeats, balance, clusters, missing values, size, drift.

    Nothing is trained on the data. Problems that would stop a fit, such as a graph that does not connect the models, a
    model compared with itself or an unknown label, are reported with advice and not raised. A formula or column that
    cannot be read, and labels of which none is recognised, are errors, as in a fit.

    Parameters
    ----------
    formula : str
        Outcome, features and the columns of the two models, as for :func:`dml_rank`.
    data : frame
        A frame with one row per vote, as for :func:`dml_rank`, or pairs from :func:`pairs_from_scores` or
        :func:`pairs_from_rankings`. Rows that a fit refuses are left out and counted.
    context : str or sequence of str, optional
        Columns that identify a prompt; every row is a prompt of its own when None.
    categories : mapping, optional
        Meanings of labels that are not recognised, as for :func:`dml_rank`.
    fold_names : bool
        Whether names that differ only by blanks, letter case or Unicode form are one model.
    min_labels : int or "auto"
        Smallest number of labels of a compared pair, as for :func:`dml_rank`.
    component : {"auto", "all", "largest"}
        What happens to models that the compared pairs do not connect, as for :func:`dml_rank`.
    min_votes : int
        Number of votes that a model needs to be ranked, as for :func:`dml_rank`.
    missing : {"raise", "drop", "keep", "common"} or float
        With "raise" and "drop", rows with missing values are left out and counted. With "keep", rows stay in which only
        features are missing. "common" and numbers are about missing scores, as for :func:`dml_rank`.
    cov_kwds : mapping, optional
        ``{"groups": column}``: the clusters of prompts that are counted.
    n_folds : int
        Number of folds of the fit, for the estimate of its cost.
    position_bias : bool or "auto"
        Whether display order matters, as for :func:`dml_rank`.
    graph : {"observed", "complete"}, Graph or array (K, K)
        The compared pairs, as for :func:`dml_rank`.
    edge_weights : {"equal", "counts"} or array (K, K)
        Weights of the pairs, as for :func:`dml_rank`.
    votes : {"mean", "first"}
        How repeated votes on a prompt and pair are counted.
    run : str, optional
        Column that tells the runs of a prompt and model apart, in a table of scores.
    weights : EqualTasks, optional
        The tasks over which means of scores are averaged; by default means are over prompts.
    time : str, optional
        Column with the time of each row: timestamps, dates, seconds since 1970, or texts in ISO 8601. The check then
        reports when models were available, which pairs were never available at the same time, votes by period, and
        tests whether prompts and votes change over time (:class:`dmlrank.inspection.time_check.TimeCheck`). Times
        without a zone are taken as UTC.
    period : {"auto", "hour", "day", "week", "month", "quarter", "year"}
        Periods of ``time``. "auto" takes weeks, days or hours for less than 4 weeks or 4 days, months for more than 2
        years, and years for more than 10 years.
    env : int, mapping or patsy EvalEnvironment, optional
        Namespace in which functions and arrays of the formula are looked up; by default that of the caller.

    Returns
    -------
    Check
        Printing it shows a page. The frames ``labels``, ``models``, ``pairs``, ``settings``, ``clusters`` and
        ``missing`` hold the numbers; ``problems`` holds the problems that were found, each with advice. ``settings``
        compares the choices of ``position_bias``, ``min_labels`` and ``edge_weights``. ``time`` holds the frames about
        time.

    Raises
    ------
    DmlrankError
        If formula or data cannot be read.

    Examples
    --------
    >>> import dmlrank as dr
    >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
    >>> report = dr.check("winner ~ C(category) | model_a + model_b", battles, context="question_id")
    >>> report.labels["read_as"].tolist(), report.graph.n_edges
    (['first', 'second', 'both_good', 'both_bad'], 28)
    """
    options = Options.of(
        context=context,
        categories=categories,
        fold_names=fold_names,
        min_labels=min_labels,
        component=component,
        min_votes=min_votes,
        missing=missing,
        cov_type="cluster" if cluster_groups(cov_kwds) else "robust",
        cov_kwds=cov_kwds,
        n_folds=n_folds,
        position_bias=position_bias,
        graph=graph,
        edge_weights=edge_weights,
        votes=votes,
        run=run,
    )
    check_time_options(time, period)
    tasks = None if weights is None else weights.column
    environment = caller_environment(env, depth=1)
    with one_thread():
        data = read_scores(formula, data, context=options.context, run=options.run)
        options = options_for(data, options, {})
        return inspect_data(Source(formula, data, environment), options, time=time, period=period, tasks=tasks)


def load(path: str | os.PathLike[str]) -> RankResults:
    """Read a result that :meth:`RankResults.save` has stored.

    Only load files that you trust: the format is pickle.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    RankResults
        The stored result.

    Raises
    ------
    StorageError
        If the file does not hold a stored result.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import dmlrank as dr
    >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     res.save(pathlib.Path(folder) / "fit.dml")
    ...     dr.load(pathlib.Path(folder) / "fit.dml").params.equals(res.params)
    True
    """
    return RankResults.load(path)


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
    text, origin = read_text(path_or_text)
    return RankResults(from_text(text, origin))
