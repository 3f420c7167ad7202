"""The options of a fit: a dataclass whose fields say what is known of each, checks, and the values of some options."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from numbers import Real
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import ArrayLike

from ._utils.argument_checks import (
    array_of_numbers,
    as_judge,
    as_names,
    at_least,
    check_alpha,
    check_flag,
    check_text,
    check_type,
    must_be,
    real_number,
    resolve_seed,
    unfitted_copy,
)
from .exceptions import OptionError, OptionTypeError, check_choice, listed, nearest

# What methods of results and check() offer, and the command line, too: multipliers of the bootstrap, methods for
# intervals of scores, and the default number of units at a first look, because fewer are few for the normal
# approximation of later looks.
MULTIPLIERS = ("gaussian", "rademacher", "webb")
METHODS = ("max-t", "bonferroni", "none")
DEFAULT_START = 500

_QUOTED = re.compile(r"""Q\((["'])(.+)\1\)""")
_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class EqualStyle:
    """Scores of models for answers of equal style: a value of ``adjust=`` of ``dml_rank``.

    Scores are those of answers with style differences of zero, along slopes that are estimated within prompt and pair.
    The adjustment is associational, not causal, because the style of an answer depends on the model.

    Parameters
    ----------
    formula : str
        ``"~ log_length + headers"``: columns of the data with style differences, first answer minus second answer, as
        :func:`dmlrank.data.style_columns` makes them. ``Q("a name")`` quotes a name that is no word.

    References
    ----------
    Vansteelandt and Dukes (2022), Assumption-lean inference for generalised linear model parameters. Liu, Zhang and Cai
    (2021), Double/debiased machine learning for logistic partially linear models.

    Examples
    --------
    >>> EqualStyle("~ log_length + headers").columns
    ('log_length', 'headers')
    """

    formula: str

    def __post_init__(self) -> None:
        check_type("formula", self.formula, str, "a text such as '~ log_length + headers'")
        if len(set(self.columns)) < len(self.columns):
            raise OptionError(f"the style formula {self.formula!r} names a column twice; name every column once")

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns with style differences."""
        names = []
        for term in map(str.strip, self.formula.strip().removeprefix("~").split("+")):
            quoted = _QUOTED.fullmatch(term)
            if quoted is None and not _NAME.fullmatch(term):
                raise OptionError(
                    f"the style formula {self.formula!r} has the term {term!r}; allowed: names of columns joined by '+'"
                )
            names.append(quoted[2] if quoted else term)
        return tuple(names)


EstimatorName = Literal["debiased", "plugin", "bt_restricted", "bt_mle", "bt_contextual"]
CovType = Literal["robust", "cluster"]
Missing = Literal["raise", "drop", "keep", "common", "model"] | float
Prompts = Literal["random", "fixed"]
Average = Literal["scores", "preferences"]

_MISSING = ("raise", "drop", "keep", "common", "model")
ESTIMATORS: tuple[str, ...] = get_args(EstimatorName)
COV_TYPES: tuple[str, ...] = get_args(CovType)
PROMPTS: tuple[str, ...] = get_args(Prompts)

# Estimators with first stages, and those of them that can use verdicts of judges.
_WITH_FIRST_STAGES = ("debiased", "plugin", "bt_restricted")
_WITH_JUDGES = ("debiased", "plugin")
# All estimators, with the means of scores, which functional= chooses.
_EVERY = (*ESTIMATORS, "means")


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """What is known of one option of :func:`dmlrank.dml_rank`: the metadata of a field of one of the option classes.

    help: What the option is, for the command line; empty where an option has no value that can be typed.
    words, only_words: The allowed words, if there is a fixed set, and whether nothing else is allowed.
    convert: Converts the caller's value into the stored one; None where the caller's value is stored.
    check: Called with the name and a stored value; raises where the value is wrong whatever the data are.
    used_by: The estimators that use the option.
    keyword: The caller's name of the option; empty where it is the name of the field.
    metavar, parse, several: On the command line, the placeholder of the value in ``--help``, the function that reads
        the value from text, and whether the option takes several values.
    group: The keyword of :func:`dmlrank.dml_rank` that holds the option, such as "pairs"; empty where it is one itself.
    """

    default: object
    help: str = ""
    words: tuple[str, ...] = ()
    only_words: bool = True
    convert: Callable[[Any], object] | None = None
    check: Callable[[str, object], object] | None = None
    used_by: tuple[str, ...] = _EVERY
    keyword: str = ""
    metavar: str | None = None
    parse: Callable[[str], object] | None = None
    several: bool = False
    group: str = ""

    def is_default(self, value: object) -> bool:
        """Whether a value is the default."""
        return value is self.default or (isinstance(value, str | Real) and bool(value == self.default))

    def require(self, name: str, value: object) -> None:
        """Raise where a stored value is wrong whatever the data are."""
        if self.words and (self.only_words or isinstance(value, str)):
            check_choice(value, self.words, name)
        if self.check is not None:
            self.check(name, value)


def _option(default: object, help: str = "", **known: Any) -> Any:
    """Return a field of an option class, with what is known of the option as metadata."""
    return field(default=default, metadata={"option": Option(default, help, **known)})


def _check_group(group: Pairs | Learning) -> None:
    """Check the fields of an object that holds options; an error names the object."""
    for each in fields(group):
        try:
            each.metadata["option"].require(each.name, getattr(group, each.name))
        except (OptionError, OptionTypeError) as error:
            kind = type(group).__name__
            raise type(error)(f"{kind.lower()}={kind}(...): {error}") from None


def _yes_no_or_word(text: str) -> bool | str:
    """Return True for "yes" and False for "no". Any other word is returned as it is; the option's check comes later."""
    return {"yes": True, "true": True, "no": False, "false": False}.get(text.lower(), text)


def _as_bounds(bounds: object) -> tuple[float, float] | None:
    """Return the smallest and the largest possible score as numbers; None for those of the data."""
    given = [real_number(end) for end in bounds] if isinstance(bounds, tuple | list) else []
    numbers = [end for end in given if end is not None and np.isfinite(end)]
    if bounds is None:
        return None
    if not len(numbers) == len(given) == 2 or not numbers[0] < numbers[1]:
        raise OptionError(f"bounds={bounds!r} is not allowed; allowed: (smallest, largest possible score), as (1, 10)")
    return numbers[0], numbers[1]


def _number_or_word(text: str, kind: type[float] = float) -> float | str:
    """Return the number that a text of the command line holds, or any other word as it is, which is checked later."""
    try:
        return kind(text)
    except ValueError:
        return text


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Which models and pairs of models the scores use, and what pairs and categories weigh: ``pairs=`` of ``dml_rank``.

    Parameters
    ----------
    graph : {"observed", "complete"}, Graph or boolean array, shape (K, K)
        Pairs that the scores use: "observed" for pairs with at least ``min_labels`` labelled prompts (in each order,
        where order matters), "complete" for all pairs. A result with pairs that were never compared is an estimate
        without intervals: no label corrects what the learner predicts for these pairs.
    min_labels : int or "auto"
        Labels that a compared pair needs. "auto" is 10, or 1 where 10 would leave out more than 5 % of the votes.
    component : {"auto", "all", "largest"}
        What happens to models outside the largest component of the graph. "auto" leaves them out with a warning if at
        least 95 % of the votes stay, and raises an error otherwise. With "all" they are an error, with "largest" they
        are left out, however many they are.
    min_votes : int
        Votes in the data (for means of scores: scores) that a model needs to be ranked; models with fewer are left out.
    apart : int or "auto"
        Votes that a model of ``"bt"`` and ``"borda"`` needs to count in the scores of others. A model with fewer is
        placed among the others by its own votes, however few they have on a pair, in one display order or both (with
        ``average="preferences"`` in both), and is no part of the average. Without features, scores and errors of the
        others are exactly those without its votes (of clusters, the number counts); with features mu and propensities
        are learnt from these, too, and maximum likelihood uses all votes. "auto" is a tenth of the models' median, 0
        sets none apart: bt scores then sum to zero.
    edge_weights : {"equal", "counts"}, array or DataFrame, shape (K, K)
        Weights of the pairs in bt's projection and Borda's mean. Standard errors treat the weights as constants, also
        where they are counts.
    category_weights : {"half", "paper"}, CategoryWeights or two sequences of C numbers
        Weight of each category for the first and for the second item. With "half" every tie is half a win for both
        items. With "paper", "both good" is a win for both items and "both bad" for neither.

    Raises
    ------
    OptionError, OptionTypeError
        If a value is not allowed.

    Examples
    --------
    >>> import dmlrank as dr
    >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
    >>> by_counts = dr.Pairs(edge_weights="counts")
    >>> dr.dml_rank("winner ~ 1 | model_a + model_b", battles, pairs=by_counts, rng=0).params.idxmax()
    'gpt-4'
    """

    graph: Any = _option(
        "observed",
        "pairs that the scores use: the compared ones (observed), or all",
        words=("observed", "complete"),
        only_words=False,
        used_by=ESTIMATORS,
    )
    min_labels: int | str = _option(
        "auto",
        "labels that a compared pair needs, in each order where order matters (auto: 10, or 1 where 10 would leave out "
        "more than 5 %% of the votes)",
        check=at_least(1, or_auto=True),
        used_by=_WITH_FIRST_STAGES,
        metavar="auto|N",
        parse=partial(_number_or_word, kind=int),
    )
    component: str = _option(
        "auto",
        "models that comparisons do not connect with the others: left out with a warning if 95 %% of the votes stay "
        "(auto), an error (all), or always left out (largest)",
        words=("auto", "all", "largest"),
        used_by=ESTIMATORS,
    )
    min_votes: int = _option(
        1,
        "votes, or scores, that a model needs to be ranked; models with fewer are left out with them",
        check=at_least(1),
        metavar="N",
        parse=partial(_number_or_word, kind=int),
    )
    apart: int | str = _option(
        "auto",
        "votes that a model needs to count in the scores of others (auto: a tenth of the models' median)",
        check=at_least(0, or_auto=True),
        used_by=ESTIMATORS,
        metavar="auto|N",
        parse=partial(_number_or_word, kind=int),
    )
    edge_weights: str | ArrayLike = _option(
        "equal",
        "weights of pairs: equal, or their numbers of labels (counts)",
        words=("equal", "counts"),
        only_words=False,
        used_by=_WITH_FIRST_STAGES,
    )
    category_weights: Any = _option(
        "half", "how much ties count", words=("half", "paper"), only_words=False, used_by=ESTIMATORS
    )

    def __post_init__(self) -> None:
        _check_group(self)


@dataclass(frozen=True, slots=True, eq=False)
class Learning:
    """How the first stages, mu and the propensities, are learnt: ``learning=`` of ``dml_rank``.

    Parameters
    ----------
    mu : array, shape (n, K, K, C), optional
        Out-of-fold probabilities that replace a learner: contexts in order of first appearance, items sorted by name
        (or in the order of a Categorical), categories in the order first wins, second wins, both good, both bad, tie.
    tune : {"cv", "random"}, RandomSearch, mapping or None
        How the boosters of mu and of estimated propensities are tuned. "cv" tries a few configurations with early
        stopping on inner folds. "random" is the random search of Frauen et al. (many times slower), whose grid, draws
        and folds a :class:`RandomSearch` sets. A mapping holds LightGBM parameters that are used unchanged. None stands
        for LightGBM's defaults with 100 rounds. With ``learner="auto"``, "cv" selects the penalty of the main effects,
        rounds and configuration by the log-loss of the held-out folds, once for all folds; with any other value, mu is
        fitted by LightGBM alone. With the caller's own learner, ``tune`` concerns estimated propensities only.
    n_folds : int
        Number of folds of the cross-fitting. A prompt (or cluster of prompts) is never split. The fold of a prompt
        follows from its identifier and the seed by a hash that is the same on all machines; the order of the rows does
        not matter, and from 200 prompts per fold on, neither do the other prompts. Without ``context=`` the identifier
        is the position of the row. Without features (``~ 1``) there are no folds: one step is taken from frequencies of
        all labels. Folds remain where a judge, ``adjust=`` or features of ``propensity=`` need them.
    n_rep : int
        Number of repetitions with other folds. Influence values are averaged over repetitions, and the variance between
        repetitions is added to the covariance.
    floor : float or "auto"
        Smallest probability of a category in mu, for functionals with a logit or a division; 0 for no floor. "auto"
        selects one of ten values, from 0.001 to 0.1, by the out-of-fold log-loss, because predictions that are more
        extreme than the truth bias such a functional most. The summary shows the floor and the number of probabilities
        that were raised to it. With ``average="preferences"`` mu needs no floor, and the floor is that of the mean
        preferences; "auto" is 1 / (2 (n + 1)) for a pair with n labels.
    second_order : bool
        Whether the second-order bias of curved scores is estimated from the labels and removed where mu is learnt from
        features. False leaves it in the estimates, and ``diagnostics`` still says how large it is. Nothing is removed
        with ``mu``, a judge or ``adjust=``, and where the two weights of a label have no fixed sum.
    judge_as : {"two-stage", "features"}
        How verdicts are used. "two-stage" fits P(label | x, verdict). The predictions of this model enter the bias
        correction. At judged pairs without a label they are also further labels for mu, if mu then predicts held-out
        labels better. "features", the method of Frauen et al., adds the verdicts to the features of mu. It needs
        verdicts on every pair. It also changes what "bt" and "rank_centrality" estimate, because mu is then
        conditional on the verdicts.

    Raises
    ------
    OptionError, OptionTypeError
        If a value is not allowed.

    Examples
    --------
    >>> import dmlrank as dr
    >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
    >>> twice = dr.Learning(n_rep=2, n_folds=3)
    >>> res = dr.dml_rank("winner ~ length | model_a + model_b", battles, context="question_id", learning=twice, rng=0)
    >>> res.params.idxmax()
    'gpt-4'
    """

    mu: ArrayLike | None = _option(None, used_by=_WITH_FIRST_STAGES)
    tune: Any = _option("cv", "how boosters are tuned: cv, or random", used_by=_WITH_FIRST_STAGES, metavar="cv|random")
    n_folds: int = _option(
        5, "folds of the cross-fitting", check=at_least(2), used_by=_WITH_FIRST_STAGES, metavar="N", parse=int
    )
    n_rep: int = _option(
        1, "repetitions with other folds", check=at_least(1), used_by=_WITH_FIRST_STAGES, metavar="N", parse=int
    )
    floor: float | str = _option(
        "auto",
        "smallest probability of a category in mu (auto: selected by log-loss)",
        check=must_be(
            lambda value: (
                value == "auto"
                if isinstance(value, str)
                else (number := real_number(value)) is not None and 0 <= number < 0.5
            ),
            "the smallest probability of a category in mu, a number in [0, 0.5), or 'auto'",
            OptionError,
        ),
        used_by=_WITH_FIRST_STAGES,
        metavar="P",
        parse=_number_or_word,
    )
    second_order: bool = _option(
        True,
        "whether the second-order bias of curved scores is removed where mu is learnt from features",
        check=check_flag,
        used_by=("debiased",),
        metavar="yes|no",
        parse=_yes_no_or_word,
    )
    judge_as: str = _option(
        "two-stage",
        "how verdicts are used: two-stage, or as features",
        words=("two-stage", "features"),
        used_by=_WITH_FIRST_STAGES,
    )

    def __post_init__(self) -> None:
        _check_group(self)


@dataclass(frozen=True, slots=True, eq=False)
class CovarianceKeywords:
    """The keys of ``cov_kwds=`` as they are stored: columns of clusters, and whether prompts are random or fixed."""

    groups: tuple[str, ...] = _option((), "columns of clusters of prompts, one or two", metavar="COLUMN", several=True)
    prompts: str = _option(
        "random",
        "whether intervals are about new prompts (random) or these prompts alone (fixed)",
        words=PROMPTS,
        used_by=(*_WITH_FIRST_STAGES, "bt_contextual"),
    )

    def __post_init__(self) -> None:
        groups = as_names(self.groups, "cov_kwds groups")
        if len(groups) > 2:
            raise OptionError(f"cov_kwds groups names {len(groups)} columns ({listed(groups)}); allowed: one or two")
        object.__setattr__(self, "groups", groups)
        check_choice(self.prompts, PROMPTS, "cov_kwds prompts")

    @classmethod
    def of(cls, cov_kwds: object) -> CovarianceKeywords:
        """Return what the caller's mapping says; what is stored is returned as it is."""
        if isinstance(cov_kwds, cls):
            return cov_kwds
        check_type("cov_kwds", cov_kwds, Mapping | None, "a mapping such as {'groups': 'question_id'}")
        given = dict(cast(Mapping[str, Any], cov_kwds or {}))
        for name in given:
            check_choice(name, ("groups", "prompts"), "cov_kwds key")
        return cls(**given)


@dataclass(frozen=True)
class EqualTasks:
    """Weights of prompts with which every task counts the same: the mean over tasks of the means within tasks.

    Parameters
    ----------
    column : str
        The column with the task of each prompt.

    Notes
    -----
    With T tasks and n_t prompts of task t, a prompt has the weight n / (T n_t). The tasks are fixed: standard errors
    are those of independent prompts within tasks, the root of the sum over tasks of v_t / (T^2 n_t), where

        v_t = (1 - 1 / n_t) s_t^2 + S / n_t

    has the variance s_t^2 within the task, with divisor n_t - 1, and S, the mean of the s_t^2 with weights 1 - 1 / n_t.
    A small task, which tells next to nothing of its own variance, borrows from the others so; with tasks of one size
    the sum is that of the s_t^2. A prompt that is not seen, which limits allow for, may be one of the smallest task.

    Tasks that stand for further tasks are clusters: ``cov_type="cluster", cov_kwds={"groups": column}``. With these or
    any other clusters, and in groups and comparisons, the deviations from the score, n / (T n_t) (Y - theta), contain
    the differences between tasks.

    Examples
    --------
    >>> import pandas as pd
    >>> import dmlrank as dr
    >>> solved = {"prompt": range(120), "task": ["easy"] * 80 + ["hard"] * 40}
    >>> a = pd.DataFrame(solved).assign(model="a", score=([1.0, 1, 1, 0] * 20) + [1.0, 0] * 20)
    >>> b = pd.DataFrame(solved).assign(model="b", score=([1.0, 0, 1, 0] * 20) + [0.0, 1] * 20)
    >>> table = pd.concat([a, b])
    >>> res = dr.dml_rank("score ~ 1 | model", table, context="prompt", weights=dr.EqualTasks("task"))
    >>> res.params.to_dict()
    {'a': 0.625, 'b': 0.5}
    """

    column: str

    def __post_init__(self) -> None:
        check_text("column", self.column)


@dataclass(frozen=True, slots=True, eq=False)
class Options:
    """The options of a fit as they are stored: what :func:`dmlrank.dml_rank` takes beside formula and data.

    :func:`dmlrank.dml_rank` documents what each option means. ``context`` is names of columns, ``judge`` is a frame or
    a tuple of columns, and a classifier in ``learner`` is an unfitted copy of the caller's.
    """

    # the model
    functional: Any = _option("auto", "{functionals}; of scores: mean, PassAtK(3), PassHatK(3) (default borda or mean)")
    estimator: str = _option("debiased", "how scores are estimated", words=ESTIMATORS)
    average: str = _option(
        "scores",
        "what is averaged over prompts: scores, or preferences before scores are computed",
        words=get_args(Average),
        used_by=_WITH_JUDGES,
    )
    adjust: EqualStyle | None = _option(
        None,
        "scores of answers of equal style: columns of style differences, first answer minus second answer",
        convert=lambda adjust: EqualStyle(adjust) if isinstance(adjust, str) else adjust,
        check=must_be(
            lambda value: value is None or isinstance(value, EqualStyle),
            "a formula such as '~ log_length + headers', EqualStyle(...) or None",
        ),
        used_by=("debiased",),
        metavar="'~ COLUMN + COLUMN'",
    )
    # the data
    context: tuple[str, ...] = _option(
        None,
        "columns that identify a prompt",
        convert=lambda value: as_names(value, "context"),
        metavar="COLUMN",
        several=True,
    )
    categories: Mapping[Any, str | float] | None = _option(
        None,
        check=must_be(
            lambda value: value is None or isinstance(value, Mapping),
            "a mapping of labels to meanings such as {'no winner': 'tie'}, or None",
        ),
    )
    missing: str | float = _option(
        "raise",
        "raise an error for rows with missing values (default), drop them, or keep them; for scores also common (the "
        "prompts with scores of all models), model (features and other models predict them), or the number that counts "
        "as a missing score",
        check=must_be(
            lambda value: (
                value in _MISSING
                if isinstance(value, str)
                else (number := real_number(value)) is not None and bool(np.isfinite(number))
            ),
            "'raise', 'drop', 'keep', and for scores 'common', 'model' or the number that counts as a missing score",
            OptionError,
        ),
        metavar="raise|drop|keep|common|model|NUMBER",
        parse=_number_or_word,
    )
    run: str | None = _option(
        None,
        "column that tells the runs of a prompt and model apart, in a table of scores",
        check=must_be(
            lambda value: value is None or (isinstance(value, str) and bool(value)), "the name of a column, or None"
        ),
        metavar="COLUMN",
    )
    # On the command line lower_is_better is about the comparisons of --scores, too, which it turns round.
    lower_is_better: bool = _option(
        False,
        "whether the model with the lowest mean score is the best",
        check=check_flag,
        used_by=("means",),
        metavar="yes|no",
        parse=_yes_no_or_word,
    )
    bounds: Any = _option(
        None,
        "smallest and largest possible score, such as 1,10 (default: 0,1 where all scores lie between, otherwise the "
        "smallest and the largest score)",
        convert=_as_bounds,
        used_by=("means",),
        metavar="LOW,HIGH",
        parse=lambda text: tuple(_number_or_word(part) for part in text.split(",")),
    )
    weights: Any = _option(
        None,
        "weights of prompts in the target population",
        check=must_be(
            lambda value: (
                value is None
                or isinstance(value, (str, EqualTasks))
                or (not isinstance(value, Mapping) and array_of_numbers(value, 1) is not None)
            ),
            "the name of a column, EqualTasks(column), or one number per prompt in order of first appearance",
        ),
        used_by=(*_WITH_FIRST_STAGES, "means"),
        metavar="COLUMN",
    )
    judge: Any = _option(
        None,
        "columns of judges' verdicts: one per judge, or the probabilities p_a p_b p_tie of one judge; for scores "
        "columns of judges' scores of all answers, graded or not",
        convert=as_judge,
        used_by=(*_WITH_JUDGES, "means"),
        metavar="COLUMN",
        several=True,
    )
    # first stages
    propensity: Any = _option(
        "estimate",
        "estimate, marginal, the name of a column, '~ FEATURES' to estimate it from other features than the "
        "formula's, or for scores a plan, FILE.json",
        used_by=(*_WITH_FIRST_STAGES, "means"),
    )
    # A copy of a learner, because the caller may change it later, and an update of this fit uses it as it was.
    learner: Any = _option(
        "auto",
        "smooth main effects, then LightGBM (auto), or LightGBM alone",
        words=("auto", "lightgbm"),
        only_words=False,
        convert=unfitted_copy,
        used_by=_WITH_FIRST_STAGES,
    )
    position_bias: bool | str = _option(
        "auto",
        "whether display order matters",
        check=must_be(
            lambda value: isinstance(value, bool | np.bool_) or (isinstance(value, str) and value == "auto"),
            "True, False and 'auto'",
        ),
        used_by=(*_WITH_FIRST_STAGES, "bt_mle"),
        metavar="auto|yes|no",
        parse=_yes_no_or_word,
    )
    # inference
    cov_type: str = _option(
        "robust",
        "robust: prompts are independent; cluster: clusters of prompts are",
        words=COV_TYPES,
    )
    cov_kwds: CovarianceKeywords = _option(None, convert=CovarianceKeywords.of)
    alpha: float = _option(
        0.05,
        "one minus the confidence level (default 0.05)",
        check=lambda _, value: check_alpha(value),
        metavar="A",
        parse=float,
    )
    # computation
    seed: int = _option(
        None, "seed of all draws (default 0)", convert=resolve_seed, keyword="rng", metavar="SEED", parse=int
    )
    n_jobs: int | None = _option(
        None, "threads (default: all cores)", check=at_least(1, or_none=True), metavar="N", parse=int
    )
    # objects that hold further options
    pairs: Pairs = _option(
        Pairs(), check=must_be(lambda value: isinstance(value, Pairs), "an object such as Pairs(min_labels=5)")
    )
    learning: Learning = _option(
        Learning(), check=must_be(lambda value: isinstance(value, Learning), "an object such as Learning(n_folds=10)")
    )

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Options:
        """Return the checked options of a call; an option that is not given has its default."""
        options = cls(**_stored({name: option.default for name, option in KEYWORDS.items()} | dict(given)))
        options._check()
        return options

    def changed(self, changes: Mapping[str, object]) -> Options:
        """Return a checked copy with other values of keywords, or of the options in objects by their own names."""
        for name in changes:
            if name not in KEYWORDS and name not in OPTIONS:
                hint = nearest(name, [*KEYWORDS, *OPTIONS])
                raise OptionError(f"update() has no option {name!r}; allowed: {listed(OPTIONS, 40)}{hint}")
        stored = _stored({name: value for name, value in changes.items() if name in KEYWORDS})
        # The earlier clusters belong to cov_type="cluster"; a change to "robust" alone drops them.
        if changes.get("cov_type") == "robust" and not {"cov_kwds", "groups"} & set(changes):
            stored["cov_kwds"] = replace(self.cov_kwds, groups=())
        for keyword in _GROUPS:
            single = {
                name: value for name, value in changes.items() if name in OPTIONS and OPTIONS[name].group == keyword
            }
            if single:
                stored[keyword] = replace(stored.get(keyword, getattr(self, keyword)), **single)
        changed = replace(self, **stored)
        changed._check()
        return changed

    @property
    def clusters(self) -> tuple[str, ...]:
        """Columns of clusters."""
        return self.cov_kwds.groups

    @property
    def prompts(self) -> str:
        """Whether intervals are about new prompts, "random", or these prompts alone, "fixed"."""
        return self.cov_kwds.prompts

    @property
    def of_scores(self) -> bool:
        """Whether the functional is a mean of scores."""
        return getattr(self.functional, "of_scores", False)

    @property
    def propensity_formula(self) -> str | None:
        """Features of an estimated propensity, ``"~ features"``; None where they are those of the formula."""
        is_formula = isinstance(self.propensity, str) and self.propensity.lstrip().startswith("~")
        return str(self.propensity) if is_formula else None

    @property
    def estimates_propensity(self) -> bool:
        """Whether propensities are estimated from features."""
        is_word = isinstance(self.propensity, str) and self.propensity == "estimate"
        return is_word or self.propensity_formula is not None

    @property
    def propensity_column(self) -> str | None:
        """Name of the column that holds propensities; None where they come from elsewhere."""
        is_column = isinstance(self.propensity, str) and self.propensity != "marginal" and not self.estimates_propensity
        return str(self.propensity) if is_column else None

    @property
    def for_other_cells(self) -> Options:
        """These options for pairs that were judged or shown: supplied propensities are those of labels alone."""
        is_marginal = isinstance(self.propensity, str) and self.propensity == "marginal"
        return self if is_marginal or self.estimates_propensity else replace(self, propensity="estimate")

    @property
    def style_columns(self) -> tuple[str, ...]:
        """Names of the columns with style differences; empty without an adjustment for style."""
        return () if self.adjust is None else self.adjust.columns

    @property
    def judge_columns(self) -> tuple[str, ...]:
        """Columns of the data with verdicts; a frame of verdicts, and no judge, need none."""
        return self.judge if isinstance(self.judge, tuple) else ()

    @property
    def weights_column(self) -> str | None:
        """Name of the column that holds weights of the contexts; None where they come from elsewhere."""
        if isinstance(self.weights, EqualTasks):
            return self.weights.column
        return self.weights if isinstance(self.weights, str) else None

    def _check(self) -> None:
        """Raise where an option is wrong whatever the data are, or contradicts another option."""
        for each in fields(self):
            option: Option = each.metadata["option"]
            option.require(option.keyword or each.name, getattr(self, each.name))
        learning = self.learning
        replacing = "learning=Learning(mu=...)" if learning.mu is not None else "learner="
        contradictions = (
            (self.weights_column == "", "weights='' names no column; pass the name of a column"),
            (
                self.cov_type == "cluster" and not self.clusters,
                "cov_type='cluster' was given without clusters; name their columns: cov_kwds={'groups': column}",
            ),
            (
                self.cov_type != "cluster" and self.clusters,
                f"cov_kwds groups {listed(self.clusters)} are used with cov_type='cluster' only; add it, or leave "
                f"them out",
            ),
            (
                self.judge is None and learning.judge_as != "two-stage" and self.estimator in _WITH_FIRST_STAGES,
                f"learning=Learning(judge_as={learning.judge_as!r}) was given without a judge; pass judge=, or leave "
                f"it out",
            ),
            (
                learning.judge_as == "features" and (learning.mu is not None or not isinstance(self.learner, str)),
                f"learning=Learning(judge_as='features') was given with {replacing}, which replaces LightGBM, whose "
                f"features verdicts are; leave one of them out",
            ),
            (
                self.adjust is not None and self.judge is not None,
                "adjust=EqualStyle(...) was given with judge=: verdicts follow style, too; leave one of them out",
            ),
            (
                self.adjust is not None and self.average == "preferences",
                "average='preferences' was given with adjust=EqualStyle(...), whose scores are averages of scores",
            ),
        )
        for is_contradiction, message in contradictions:
            if is_contradiction:
                raise OptionError(message)


# The options that are keywords of dml_rank, by the caller's names, and the fields that store them.
KEYWORDS: dict[str, Option] = {f.metadata["option"].keyword or f.name: f.metadata["option"] for f in fields(Options)}
_FIELDS: dict[str, str] = {name: f.name for name, f in zip(KEYWORDS, fields(Options), strict=True)}
_GROUPS: dict[str, type] = {"pairs": Pairs, "learning": Learning, "cov_kwds": CovarianceKeywords}
# Every option by its own name; those of an object stand in its place.
OPTIONS: dict[str, Option] = {
    name: each
    for keyword, option in KEYWORDS.items()
    for name, each in (
        {f.name: replace(f.metadata["option"], group=keyword) for f in fields(_GROUPS[keyword])}
        if keyword in _GROUPS
        else {keyword: option}
    ).items()
}


def _stored(values: Mapping[str, object]) -> dict[str, Any]:
    """Return values as the fields of :class:`Options` store them, from the caller's values by keyword."""
    return {
        _FIELDS[name]: value if (convert := KEYWORDS[name].convert) is None else convert(value)
        for name, value in values.items()
    }


def in_its_place(name: str, value: str = "...") -> str:
    """Return an option with its value as a caller writes it, such as ``pairs=Pairs(graph='complete')``."""
    group = OPTIONS[name].group
    if group == "cov_kwds":
        return f"cov_kwds={{{name!r}: {value}}}"
    return f"{group}={_GROUPS[group].__name__}({name}={value})" if group else f"{name}={value}"


def in_full(given: Mapping[str, object]) -> dict[str, object]:
    """Return the options of a call with ``pairs="arena"`` in full: all votes, orders pooled, weights by counts."""
    options = dict(given)
    if isinstance(options.get("pairs"), str):
        check_choice(options["pairs"], ("arena",), "pairs")
        options["pairs"] = Pairs(min_labels=1, edge_weights="counts")
        if options.get("position_bias", "auto") == "auto":
            options["position_bias"] = False
    return options


def one_by_one(given: Mapping[str, object]) -> dict[str, object]:
    """Return the options of a call by their own names, those that objects hold in place of the objects."""
    single: dict[str, object] = {}
    for keyword, value in given.items():
        if keyword in _GROUPS:
            stored = CovarianceKeywords.of(value) if keyword == "cov_kwds" else value
            single |= {f.name: getattr(stored, f.name) for f in fields(_GROUPS[keyword])}
        else:
            single[keyword] = value
    return single


def in_objects(single: Mapping[str, object]) -> dict[str, object]:
    """Return options by their own names as keywords of :func:`dmlrank.dml_rank`: the inverse of :func:`one_by_one`."""
    group = {name: option.group for name, option in OPTIONS.items()}
    given = {name: value for name, value in single.items() if not group.get(name)}
    for keyword, kind in _GROUPS.items():
        held = {name: value for name, value in single.items() if group.get(name) == keyword}
        if held:
            given[keyword] = kind(**held)
    return given
