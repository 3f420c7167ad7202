"""The options of a fit: a dataclass whose fields say what is known of each, checks, and the values of some options."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ._utils.argument_checks import (
    array_of_numbers,
    as_judges,
    as_names,
    at_least,
    check_alpha,
    check_flag,
    check_type,
    cluster_groups,
    cov_type_of,
    must_be,
    number_in,
    real_number,
    resolve_seed,
    unfitted_copy,
)
from .exceptions import OptionError, check_choice, listed, nearest

# What methods of results and check() offer, and the command line, too: multipliers of the bootstrap, methods for
# intervals of scores, periods of time, and the default number of units at a first look, because fewer are few for the
# normal approximation of later looks.
MULTIPLIERS = ("gaussian", "rademacher", "webb")
METHODS = ("max-t", "bonferroni", "none")
PERIODS = ("auto", "hour", "day", "week", "month", "quarter", "year")
DEFAULT_START = 500

_QUOTED = re.compile(r"""Q\((["'])(.+)\1\)""")
_NAME = re.compile(r"[^\W\d]\w*")
_KINDS = ("band", "smooth")


@dataclass(frozen=True, slots=True)
class EqualStyle:
    """Scores of models for answers of equal style: a value of ``adjust=`` of ``dml_rank``.

    The slopes of the preference on style differences are estimated within prompt and pair. The scores are those of
    answers with style differences of zero along these slopes. The adjustment is associational, not causal, because the
    style of an answer depends on the model.

    Parameters
    ----------
    formula : str
        ``"~ log_length + headers"``: columns of the data with style differences, first answer minus second answer, as
        :func:`dmlrank.style_columns` makes them. ``Q("a name")`` quotes a name that is no word.

    Raises
    ------
    OptionError
        If the formula has anything but names of columns.

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
        style_names(self.formula)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns with style differences."""
        return style_names(self.formula)


@dataclass(frozen=True, slots=True)
class BalancedStyle:
    """Scores from battles whose two answers are of nearly equal style: a value of ``adjust=`` of ``dml_rank``.

    Every vote has a weight w(D), where D are the style differences of its two answers. With the label Y, the preference
    probabilities become E[w(D) Y | x] / E[w(D) | x]. No model of the effect of style is needed. Votes on answers of
    different style do not count.

    Parameters
    ----------
    formula : str
        As for :class:`EqualStyle`.
    within : float
        Largest style difference of a vote that counts, in the unit of the columns; the same for all columns.
    weights : {"band", "smooth"}
        "band" is w = 1 where all differences are at most ``within``, otherwise 0. "smooth" is the product over columns
        of 1 - (D / within)^2 where this is positive, otherwise 0.

    Raises
    ------
    OptionError, OptionTypeError
        If the formula has anything but names of columns, or another argument is not allowed.

    Examples
    --------
    >>> BalancedStyle("~ log_length", within=0.2).vote_weights(np.array([[0.1], [-0.3]]))
    array([1., 0.])
    """

    formula: str
    within: float
    weights: str = "band"

    def __post_init__(self) -> None:
        style_names(self.formula)
        allowed = "it is the largest style difference, a positive number such as 0.2"
        number_in("within", self.within, lambda number: 0 < number < float("inf"), allowed)
        check_choice(self.weights, _KINDS, "weights")

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns with style differences."""
        return style_names(self.formula)

    def vote_weights(self, differences: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weight w(D) of each vote.

        Parameters
        ----------
        differences : ndarray, shape (v, r)
            Style differences D of the two answers of each vote.

        Returns
        -------
        ndarray, shape (v,)
            Weights in [0, 1].
        """
        distance = np.abs(differences) / self.within
        if self.weights == "band":
            return (distance <= 1).all(axis=1).astype(float)
        return np.asarray(np.clip(1 - distance**2, 0.0, None).prod(axis=1))


def style_names(formula: str) -> tuple[str, ...]:
    """Return the names of the columns in a formula of style differences."""
    check_type("formula", formula, str, "a text such as '~ log_length + headers'")
    right_side = formula.strip().removeprefix("~")
    names = []
    for term in map(str.strip, right_side.split("+")):
        quoted = _QUOTED.fullmatch(term)
        if quoted is None and not _NAME.fullmatch(term):
            raise OptionError(
                f"the style formula {formula!r} has the term {term!r}; allowed: names of columns joined by '+', as in "
                f"'~ log_length + headers', because a style difference has to change its sign where the answers are "
                f"exchanged; compute other differences as columns"
            )
        names.append(quoted[2] if quoted else term)
    if len(set(names)) < len(names):
        raise OptionError(f"the style formula {formula!r} names a column twice; name every column once")
    return tuple(names)


def as_adjustment(adjust: object) -> object:
    """Return what ``adjust=`` stands for: a text becomes :class:`EqualStyle`."""
    if isinstance(adjust, str):
        if adjust in ("at_zero", "zero"):
            raise OptionError(
                f"adjust={adjust!r}: the mean of F(m(x, D = 0)), scores of answers with exactly no style difference, "
                f"cannot be estimated with an error that decreases like one over the root of the number of votes, "
                f"because hardly any vote has a continuous difference of exactly zero; use "
                f"adjust=EqualStyle('~ log_length'), or adjust=BalancedStyle('~ log_length', within=0.2)"
            )
        return EqualStyle(adjust)
    return adjust


EstimatorName = Literal["debiased", "plugin", "bt_restricted", "bt_mle", "bt_contextual"]
CovType = Literal["robust", "cluster"]
Missing = Literal["raise", "drop", "keep", "common", "model"] | float
Runs = Literal["random", "mean"]
Prompts = Literal["random", "fixed"]
Votes = Literal["mean", "first"]
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
    """What is known of one option of :func:`dmlrank.dml_rank`: the metadata of a field of :class:`Options`.

    help: The text of ``--help`` on the command line; empty where the command line lacks the option or spells it in
        another way.
    words, only_words: The allowed words, if there is a fixed set, and whether nothing else is allowed.
    convert: Converts the caller's value into the stored one; None where the caller's value is stored.
    check: Called with the name and a stored value; raises where the value is wrong whatever the data are.
    used_by: The estimators that use the option.
    keyword: The caller's name of the option; empty where it is the name of the field.
    metavar, parse, several: On the command line, the placeholder of the value in ``--help``, the function that reads
        the value from text, and whether the option takes several values.
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

    def is_default(self, value: object) -> bool:
        """Whether a value is the default."""
        return value is self.default or (isinstance(value, str | Real) and bool(value == self.default))


def _option(default: object, help: str = "", **known: Any) -> Any:
    """Return a field of :class:`Options`, with what is known of the option as metadata."""
    return field(metadata={"option": Option(default, help, **known)})


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
    are those of independent prompts within tasks, the root of the sum over tasks of s_t^2 / (T^2 n_t), where s_t^2 is
    the variance within the task with divisor n_t - 1. Small tasks decide the degrees of freedom of t quantiles. For
    tasks that stand for further tasks, cluster by them: ``cov_type="cluster", cov_kwds={"groups": column}``. Groups of
    prompts and comparisons of results use the variance over all prompts, which is larger unless tasks are very small.

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


def _yes_no_or_word(text: str) -> bool | str:
    """Return True for "yes" and False for "no". Any other word is returned as it is; the option's check comes later."""
    return {"yes": True, "true": True, "no": False, "false": False}.get(text.lower(), text)


def _number_or_word(text: str, kind: type[float] = float) -> float | str:
    """Return the number that a text of the command line holds, or any other word as it is, which is checked later."""
    try:
        return kind(text)
    except ValueError:
        return text


@dataclass(frozen=True, slots=True, eq=False)
class Options:
    """The options of a fit as they are stored: what :func:`dmlrank.dml_rank` takes beside formula and data.

    :func:`dmlrank.dml_rank` documents what each option means. ``context`` and ``clusters`` are names of columns,
    ``judge`` is as :func:`as_judges` returns it, and a classifier in ``learner`` is an unfitted copy of the caller's.
    """

    # the model
    functional: object = _option("auto", "{functionals}, or mean of scores (default borda; mean for scores)")
    average: str = _option(
        "scores",
        "what is averaged over prompts: scores (default), or preferences before scores are computed",
        words=get_args(Average),
        used_by=_WITH_JUDGES,
    )
    estimator: str = _option("debiased", "how scores are estimated (default debiased)", words=ESTIMATORS)
    adjust: EqualStyle | BalancedStyle | None = _option(
        None,
        "scores of answers of equal style: columns of style differences, first answer minus second answer",
        convert=as_adjustment,
        check=must_be(
            lambda value: value is None or isinstance(value, EqualStyle | BalancedStyle),
            "a formula such as '~ log_length + headers', EqualStyle(...), BalancedStyle(...) or None",
        ),
        used_by=("debiased",),
        metavar="'~ COLUMN + COLUMN'",
    )
    graph: object = _option(
        "observed",
        "pairs that the scores use: the compared ones (observed, the default), or all",
        words=("observed", "complete"),
        only_words=False,
        used_by=ESTIMATORS,
    )
    min_labels: int | str = _option(
        "auto",
        "labels that a compared pair needs, in each order where order matters (default auto: 10, or 1 where 10 would "
        "leave out more than 5 %% of the votes)",
        check=at_least(1, or_auto=True),
        used_by=_WITH_FIRST_STAGES,
        metavar="auto|N",
        parse=partial(_number_or_word, kind=int),
    )
    component: str = _option(
        "auto",
        "models that comparisons do not connect with the others: left out with a warning if 95 %% of the votes stay "
        "(auto, the default), an error (all), or always left out (largest)",
        words=("auto", "all", "largest"),
        used_by=ESTIMATORS,
    )
    min_votes: int = _option(
        1,
        "votes, or scores, that a model needs to be ranked (default 1); models with fewer are left out with them",
        check=at_least(1),
        metavar="N",
        parse=partial(_number_or_word, kind=int),
    )
    edge_weights: object = _option(
        "equal",
        "weights of pairs: equal (default), or their numbers of labels",
        words=("equal", "counts"),
        only_words=False,
        used_by=_WITH_FIRST_STAGES,
    )
    category_weights: object = _option(
        "half", "how much ties count (default half)", words=("half", "paper"), only_words=False, used_by=ESTIMATORS
    )
    position_bias: bool | str = _option(
        "auto",
        "whether display order matters (default auto)",
        check=must_be(
            lambda value: isinstance(value, bool | np.bool_) or (isinstance(value, str) and value == "auto"),
            "True, False and 'auto'",
        ),
        used_by=_WITH_FIRST_STAGES,
        metavar="auto|yes|no",
        parse=_yes_no_or_word,
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
    fold_names: bool = _option(
        False,
        "whether names of models that differ only by blanks, letter case or Unicode form are one model (default no)",
        check=check_flag,
        metavar="yes|no",
        parse=_yes_no_or_word,
    )
    missing: str | float = _option(
        "raise",
        "raise an error for rows with missing values (default), drop them, or keep them; for scores also common (the "
        "prompts with scores of all models), model (features say which are missing), or the number that counts as a "
        "missing score",
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
    votes: str = _option(
        "mean",
        "how repeated votes on a prompt and pair count: their mean (default), or the first",
        words=get_args(Votes),
    )
    run: str | None = _option(
        None,
        "column that tells the runs of a prompt and model apart, in a table of scores",
        check=must_be(
            lambda value: value is None or (isinstance(value, str) and bool(value)), "the name of a column, or None"
        ),
        metavar="COLUMN",
    )
    runs: str = _option(
        "random",
        "what is compared on a prompt, for scores: random (default), a run with a run, or the mean over runs",
        words=get_args(Runs),
    )
    weights: object = _option(
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
    judge: object = _option(
        None,
        "columns of judges' verdicts: one per judge, or the probabilities p_a p_b p_tie of one judge",
        convert=as_judges,
        used_by=_WITH_JUDGES,
        metavar="COLUMN",
        several=True,
    )
    # first stages
    propensity: object = _option(
        "estimate",
        "estimate, marginal, the name of a column, '~ FEATURES' to estimate it from other features than the "
        "formula's, or for scores a plan, FILE.json (default estimate)",
        used_by=(*_WITH_FIRST_STAGES, "means"),
    )
    mu: object = _option(None, used_by=_WITH_FIRST_STAGES)
    # A copy of a learner, because the caller may change it later, and an update of this fit uses it as it was.
    learner: object = _option(
        "auto",
        "smooth main effects, then LightGBM (auto, the default), or LightGBM alone",
        words=("auto", "lightgbm"),
        only_words=False,
        convert=unfitted_copy,
        used_by=_WITH_FIRST_STAGES,
    )
    judge_as: str = _option(
        "two-stage",
        "how verdicts are used (default two-stage): two-stage, or as features",
        words=("two-stage", "features"),
        used_by=_WITH_FIRST_STAGES,
    )
    n_folds: int = _option(
        5,
        "folds of the cross-fitting (default 5)",
        check=at_least(2),
        used_by=_WITH_FIRST_STAGES,
        metavar="N",
        parse=int,
    )
    n_rep: int = _option(
        1,
        "repetitions with other folds (default 1)",
        check=at_least(1),
        used_by=_WITH_FIRST_STAGES,
        metavar="N",
        parse=int,
    )
    tune: Any = _option("cv", used_by=_WITH_FIRST_STAGES)
    floor: float | str = _option(
        "auto",
        "smallest probability of a category in mu (default auto: selected by log-loss)",
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
        "whether the second-order bias of bt scores is removed where mu is learnt from features (default yes)",
        check=check_flag,
        used_by=("debiased",),
        metavar="yes|no",
        parse=_yes_no_or_word,
    )
    # inference
    cov_type: str = _option(
        "robust",
        "robust (default): prompts are independent; cluster: clusters of prompts are",
        words=COV_TYPES,
        convert=cov_type_of,
    )
    clusters: tuple[str, ...] = _option(None, convert=cluster_groups, keyword="cov_kwds")
    prompts: str = _option(
        "random",
        "whether intervals are about new prompts (random, the default) or these prompts alone",
        words=PROMPTS,
        used_by=(*_WITH_FIRST_STAGES, "bt_contextual"),
    )
    alpha: float = _option(
        0.05,
        "one minus the confidence level (default 0.05)",
        check=lambda _, value: check_alpha(value),
        metavar="A",
        parse=float,
    )
    # computation
    subsample: int | None = _option(
        None,
        "number of sampled prompts over which the scores are averaged (default all)",
        check=at_least(2, or_none=True),
        used_by=_WITH_FIRST_STAGES,
        metavar="M",
        parse=int,
    )
    seed: int = _option(
        None, "seed of all draws (default 0)", convert=resolve_seed, keyword="rng", metavar="SEED", parse=int
    )
    n_jobs: int | None = _option(
        None, "threads (default: all cores)", check=at_least(1, or_none=True), metavar="N", parse=int
    )

    @classmethod
    def of(cls, **given: object) -> Options:
        """Return the checked options of a call; an option that is not given has its default."""
        options = cls(**_stored({name: option.default for name, option in OPTIONS.items()} | given))
        options._check()
        return options

    def changed(self, changes: Mapping[str, object]) -> Options:
        """Return a checked copy in which some values are replaced."""
        if "data" in changes:
            raise OptionError("update() changes options of a fit to the same data; fit other rows with dml_rank()")
        for name in changes:
            if name not in OPTIONS:
                advice = "; give clusters as cov_type='cluster', cov_kwds={'groups': 'a_column'}"
                hint = advice if name == "clusters" else nearest(name, OPTIONS)
                raise OptionError(f"update() has no option {name!r}; allowed: {listed(OPTIONS)}{hint}")
        # The earlier clusters belong to cov_type="cluster"; a change to "robust" alone drops them.
        without_clusters = changes.get("cov_type") == "robust" and "cov_kwds" not in changes
        changed = replace(self, **({"clusters": ()} if without_clusters else {}) | _stored(changes))
        changed._check()
        return changed

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
    def style_columns(self) -> tuple[str, ...]:
        """Names of the columns with style differences; empty without an adjustment for style."""
        return () if self.adjust is None else self.adjust.columns

    @property
    def weights_column(self) -> str | None:
        """Name of the column that holds weights of the contexts; None where they come from elsewhere."""
        if isinstance(self.weights, EqualTasks):
            return self.weights.column
        return self.weights if isinstance(self.weights, str) else None

    def _check(self) -> None:
        """Raise where an option is wrong whatever the data are, or contradicts another option."""
        for name, option in OPTIONS.items():
            value = getattr(self, _FIELDS[name])
            if option.words and (option.only_words or isinstance(value, str)):
                check_choice(value, option.words, name)
            if option.check is not None:
                option.check(name, value)
        adjust, is_own_learner = self.adjust, not isinstance(self.learner, str)
        equal_style, balanced_style = isinstance(adjust, EqualStyle), isinstance(adjust, BalancedStyle)
        replacing = "mu=" if self.mu is not None else "learner="
        contradictions = (
            (self.weights_column == "", "weights='' names no column; pass the name of a column"),
            (
                self.subsample is not None and self.prompts == "fixed",
                f"subsample={self.subsample} was given with prompts='fixed': with subsample, the scores are averaged "
                f"over a random sample of the prompts, and with fixed prompts they are averages over all prompts; "
                f"leave subsample out, or use prompts='random'",
            ),
            (
                self.cov_type == "cluster" and not self.clusters,
                "cov_type='cluster' was given without clusters; name their columns with cov_kwds={'groups': column} or "
                "cov_kwds={'groups': [prompt, annotator]}",
            ),
            (
                self.cov_type != "cluster" and self.clusters,
                f"cov_kwds groups {listed(self.clusters)} are used with cov_type='cluster' only; add "
                f"cov_type='cluster', or leave cov_kwds out",
            ),
            (
                self.judge is None and self.judge_as != "two-stage" and self.estimator in _WITH_FIRST_STAGES,
                f"judge_as={self.judge_as!r} was given without a judge: it says how a judge is used; pass judge=, or "
                f"leave judge_as out",
            ),
            (
                self.judge_as == "features" and (self.mu is not None or is_own_learner),
                f"judge_as='features' was given with {replacing}: it makes verdicts features of LightGBM, which "
                f"{replacing} replaces; leave {replacing} out, or use judge_as='two-stage'",
            ),
            (
                adjust is not None and self.judge is not None,
                f"adjust={type(adjust).__name__}(...) was given with judge=: verdicts of a judge follow style, too, "
                f"and would have to be modelled given style at every judged pair; leave judge= out, or leave adjust= "
                f"out",
            ),
            (
                equal_style and self.subsample is not None,
                "subsample= was given with adjust=EqualStyle(...): the scores at equal style are computed for all "
                "prompts in little time, and are not averaged over a sample; leave subsample= out",
            ),
            (
                equal_style and self.average == "preferences",
                "average='preferences' was given with adjust=EqualStyle(...): slopes on style are slopes of the link "
                "of preferences given prompt and style, whose mean is the average of scores; use average='scores', or "
                "adjust=BalancedStyle(...)",
            ),
            (
                isinstance(adjust, BalancedStyle) and adjust.weights == "smooth" and is_own_learner,
                "learner= was given with BalancedStyle(weights='smooth'): votes count in part, and a learner of the "
                "caller is trained on whole votes; use weights='band', or leave learner= out",
            ),
            (
                balanced_style and self.mu is not None,
                "mu= was given with adjust=BalancedStyle(...): the supplied probabilities are those of all battles, "
                "and the adjustment needs those of battles of equal style; leave mu= out, or use "
                "adjust=EqualStyle(...)",
            ),
        )
        for is_contradiction, message in contradictions:
            if is_contradiction:
                raise OptionError(message)


# By the caller's name of each option: what is known of it, and the field that stores it.
OPTIONS: dict[str, Option] = {(o := f.metadata["option"]).keyword or f.name: o for f in fields(Options)}
_FIELDS: dict[str, str] = {name: f.name for name, f in zip(OPTIONS, fields(Options), strict=True)}


def _stored(values: Mapping[str, object]) -> dict[str, Any]:
    """Return values as the fields of :class:`Options` store them, from the caller's values by option."""
    return {
        _FIELDS[name]: value if (convert := OPTIONS[name].convert) is None else convert(value)
        for name, value in values.items()
    }
