"""The options of a fit: one table that describes each, checked before anything is computed."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .exceptions import OptionError, OptionTypeError, check_choice, listed, nearest

EstimatorName = Literal["debiased", "plugin", "bt_restricted", "bt_mle"]
CovType = Literal["robust", "cluster"]
Missing = Literal["raise", "drop", "keep"]
Prompts = Literal["random", "fixed"]
Votes = Literal["mean", "first"]

# Names of covariances that statsmodels has and this package has not, and what comes nearest.
_CORRECTED = "'robust' is HC0, prompts being the units; there is no correction of it for small samples"
_SERIAL = "prompts have no order in time; 'cluster' allows for prompts that depend on one another"
_COV_TYPES = dict.fromkeys(("HC1", "HC2", "HC3"), _CORRECTED) | dict.fromkeys(("HAC", "hac-panel"), _SERIAL)
_COV_TYPES["nonrobust"] = "no model of the errors is assumed, so that there is no such covariance"
# Columns that an option names at the most, where they come as an array.
_MOST_NAMES = 10

ESTIMATORS: tuple[str, ...] = get_args(EstimatorName)
PROMPTS: tuple[str, ...] = get_args(Prompts)
# Estimators with first stages, and those of them that have a place for verdicts.
_TOO_MANY = 2**31
_CROSS_FITTED = ("debiased", "plugin", "bt_restricted")
_JUDGED = ("debiased", "plugin")


@dataclass(frozen=True, slots=True, eq=False)
class Options:
    """Everything that :func:`dmlrank.dml_rank` takes beside formula and data, normalised; see there."""

    functional: Any
    context: tuple[str, ...]
    propensity: Any
    propensity_formula: str | None
    estimator: str
    judge: Any
    judge_as: str
    mu: Any
    learner: Any
    n_folds: int
    n_rep: int
    tune: Any
    position_bias: bool | str
    graph: Any
    min_labels: int
    component: str
    min_comparisons: int
    edge_weights: Any
    weights: Any
    categories: Mapping[Any, str] | None
    category_weights: Any
    prompts: str
    floor: float | str
    subsample: int | None
    cov_type: str
    groups: tuple[str, ...]
    missing: str
    votes: str
    unlabelled: Any
    alpha: float
    seed: int
    n_jobs: int | None

    @property
    def propensity_column(self) -> str | None:
        """Name of the column that holds propensities, where one is named."""
        named = isinstance(self.propensity, str) and self.propensity not in ("estimate", "marginal")
        return self.propensity if named else None

    @property
    def weights_column(self) -> str | None:
        """Name of the column that holds weights, where one is named."""
        return self.weights if isinstance(self.weights, str) else None


@dataclass(frozen=True, slots=True, eq=False)
class Argument:
    """How the command line takes an option.

    Attributes
    ----------
    help : str or None
    metavar : str or None
        What stands for the value.
    parse : callable, optional
        Makes the value of a text; the text itself when None.
    several : bool
        Whether it takes one or more values.
    is_switch : bool
        Whether it takes none: ``--name``, and ``--no-name`` where the option is on by default.
    """

    help: str | None = None
    metavar: str | None = None
    parse: Callable[[str], object] | None = None
    several: bool = False
    is_switch: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """One option of :func:`dmlrank.dml_rank`.

    Attributes
    ----------
    name : str
    default : object
    words : tuple of str
        Words that are allowed; empty where they are not a fixed set.
    only_words : bool
        Whether nothing but these words is allowed.
    normalise : callable, optional
        Makes the value that :class:`Options` holds of what the caller gave.
    check : callable, optional
        Raises where a normalised value is wrong whatever the data are; called with name and value.
    field : str or None
        Its field of :class:`Options`; None where it is about the call and not the fit.
    used_by : tuple of str
        The estimators that use it.
    is_read : bool
        Whether reading the data depends on it.
    described_as : str
        The field of a stored result's description that holds it as it is; empty where none does.
    argument : Argument or None
        Its form on the command line; None where there is none or it goes by other words.
    """

    name: str
    default: object
    words: tuple[str, ...] = ()
    only_words: bool = True
    normalise: Callable[[Any], object] | None = None
    check: Callable[[str, Any], object] | None = None
    field: str | None = ""
    used_by: tuple[str, ...] = ESTIMATORS
    is_read: bool = False
    described_as: str = ""
    argument: Argument | None = None

    def read(self, value: object) -> object:
        """The value as :class:`Options` holds it, not yet checked."""
        return value if self.normalise is None else self.normalise(value)

    def require(self, value: object) -> None:
        """Raise where a value that has been read is wrong whatever the data are."""
        if self.words and (self.only_words or isinstance(value, str)):
            check_choice(value, self.words, self.name)
        if self.check is not None:
            self.check(self.name, value)

    def is_default(self, value: object) -> bool:
        """Whether a caller's value is what holds where none is given."""
        return value is self.default or (isinstance(value, str | Real) and bool(value == self.default))


def read_options(given: Mapping[str, object]) -> Options:
    """Options from what :func:`dmlrank.dml_rank` was called with, checked.

    Raises
    ------
    OptionError, OptionTypeError
        If a value is wrong whatever the data are, or two options contradict each other.
    """
    options = Options(**_read({name: given[name] for name in FIT_OPTIONS}))
    check_options(options)
    return options


def change_options(options: Options, changes: Mapping[str, object]) -> Options:
    """The options with some of them replaced, named as in :func:`dmlrank.dml_rank`, checked.

    Raises
    ------
    OptionError, OptionTypeError
        If there is no option of a name, or as for :func:`read_options`.
    """
    for name in changes:
        if name not in FIT_OPTIONS:
            raise OptionError(
                f"update has no option {name!r}{nearest(name, FIT_OPTIONS)}; allowed: {listed(FIT_OPTIONS, 30)}"
            )
    changed = replace(options, **_read(changes))
    if changes.get("cov_type") == "robust" and "cov_kwds" not in changes:
        changed = replace(changed, groups=())
    check_options(changed)
    return changed


def read_option(name: str, value: object) -> Any:
    """One option as :class:`Options` holds it, checked.

    Examples
    --------
    >>> read_option("context", "question_id")
    ('question_id',)
    """
    read = OPTIONS[name].read(value)
    OPTIONS[name].require(read)
    return read


def check_options(options: Options) -> None:
    """Raise where an option is wrong whatever the data are, or contradicts another one."""
    for option in FIT_OPTIONS.values():
        option.require(getattr(options, option.field or option.name))
    if options.subsample is not None and options.prompts == "fixed":
        raise OptionError("subsample averages over a sample of the prompts, prompts='fixed' is about all of them")
    _check_judge(options)
    estimated = isinstance(options.propensity, str) and options.propensity == "estimate"
    if options.propensity_formula is not None and not estimated:
        raise OptionError("propensity_formula says what an estimated propensity sees; use propensity='estimate'")
    if options.cov_type == "cluster" and not options.groups:
        raise OptionError("cov_type='cluster' needs cov_kwds={'groups': column} or {'groups': [prompt, annotator]}")
    if options.cov_type != "cluster" and options.groups:
        raise OptionError(f"cov_kwds groups {listed(options.groups)} are used with cov_type='cluster' only")


def _read(given: Mapping[str, object]) -> dict[str, Any]:
    """The caller's values by the fields of :class:`Options`."""
    return {OPTIONS[name].field or name: OPTIONS[name].read(value) for name, value in given.items()}


def _check_judge(options: Options) -> None:
    unused = options.estimator not in OPTIONS["judge_as"].used_by
    if options.judge is None and options.judge_as != "two-stage" and not unused:
        raise OptionError(f"judge_as={options.judge_as!r} says how a judge is used; pass judge=")
    if options.judge_as == "features" and (options.mu is not None or not isinstance(options.learner, str)):
        other = "mu=" if options.mu is not None else "learner="
        raise OptionError(f"judge_as='features' makes verdicts features of LightGBM; leave {other} out")


def check_alpha(alpha: object) -> float:
    """``alpha`` as a number strictly between 0 and 1: one minus the confidence level.

    Examples
    --------
    >>> check_alpha(0.05)
    0.05
    """
    if not isinstance(alpha, Real) or isinstance(alpha, bool) or not _between(0, alpha, 1) or alpha == 0:
        hint = "; for 95 % intervals it is 0.05" if isinstance(alpha, Real) and alpha in (0, 1, 95) else ""
        raise OptionError(f"alpha={alpha!r}: one minus the confidence level lies strictly between 0 and 1{hint}")
    return float(alpha)


def _between(least: float, value: Any, limit: float) -> bool:
    """Whether a number of any size is at least the one and below the other."""
    return bool(least <= value < limit)


def check_whole(name: str, value: object, least: int) -> None:
    """Raise unless ``value`` is a whole number of at least ``least``, and not absurdly large."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise OptionError(f"{name}={value!r}: needed is a whole number of at least {least}")
    if int(value) >= _TOO_MANY:
        raise OptionError(
            f"{name} is beyond {_TOO_MANY:,}: needed is a whole number of at least {least}, and a smaller one"
        )


def as_names(value: str | Sequence[str] | None, option: str) -> tuple[str, ...]:
    """One or several column names as a tuple.

    Examples
    --------
    >>> as_names("question_id", "context")
    ('question_id',)
    """
    if isinstance(value, Mapping | set | frozenset):
        raise OptionTypeError(f"{option} names columns, in an order; {value!r} is a {type(value).__name__}, not a list")
    if isinstance(value, np.ndarray | pd.Series | pd.Index | pd.DataFrame) and not _is_short(value):
        called = f"{value.name!r}" if isinstance(getattr(value, "name", None), str) else "'its column'"
        raise OptionTypeError(
            f"{option} names columns, and was given a {type(value).__name__} of {len(value):,} values; put these into "
            f"a column of the data and give its name, such as {called}"
        )
    if value is not None and not isinstance(value, Iterable):
        raise OptionTypeError(f"{option} names columns; {value!r} is a {type(value).__name__}, not a string")
    names = () if value is None else (value,) if isinstance(value, str) else tuple(value)
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        raise OptionTypeError(f"{option} names columns; {wrong[0]!r} is a {type(wrong[0]).__name__}, not a string")
    if "" in names:
        raise OptionError(f"{option} names a column ''; a column has a name")
    if len(set(names)) < len(names):
        raise OptionError(f"{option} names a column twice: {listed(names)}")
    return names


def _is_short(value: Any) -> bool:
    """Whether an array may be a list of columns: a few strings in a row."""
    plain = isinstance(value, np.ndarray | pd.Index) and value.ndim == 1
    return plain and len(value) <= _MOST_NAMES and all(isinstance(name, str) for name in value)


def cov_type_of(value: object) -> object:
    """``cov_type`` by its own words: statsmodels' HC0 is "robust".

    Examples
    --------
    >>> cov_type_of("HC0")
    'robust'
    """
    if isinstance(value, str) and value == "HC0":
        return "robust"
    if isinstance(value, str) and value in _COV_TYPES:
        raise OptionError(f"cov_type={value!r}: {_COV_TYPES[value]}; allowed: 'robust', 'cluster'")
    return value


def cluster_groups(cov_kwds: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The grouping columns in ``cov_kwds``.

    Examples
    --------
    >>> cluster_groups({"groups": ["question_id", "judge"]})
    ('question_id', 'judge')
    """
    if cov_kwds is not None and not isinstance(cov_kwds, Mapping):
        raise OptionTypeError(
            f"cov_kwds is a {type(cov_kwds).__name__}; needed is a mapping such as {{'groups': 'question_id'}}"
        )
    known = dict(cov_kwds or {})
    groups = as_names(known.pop("groups", None), "cov_kwds groups")
    for name in known:
        raise OptionError(f"cov_kwds has {name!r}; allowed is 'groups'{nearest(name, ['groups'])}")
    if len(groups) > 2:
        raise OptionError(
            f"cov_kwds groups names {len(groups)} columns ({listed(groups)}); at most two ways are possible"
        )
    return groups


def as_judges(judge: Any) -> Any:
    """Judges as values that can be compared: a mapping as pairs of a name and a judge, lists of columns as tuples.

    Examples
    --------
    >>> as_judges({"gpt-4": "verdict", "mini": ["p_a", "p_b"]})
    (('gpt-4', 'verdict'), ('mini', ('p_a', 'p_b')))
    """
    if isinstance(judge, Mapping):
        if not judge:
            raise OptionError("judge= is an empty mapping; needed is a judge by name, or None")
        return tuple((name, as_judges(one)) for name, one in judge.items())
    if isinstance(judge, list | tuple):
        if not judge:
            raise OptionError("judge= is empty; needed is a column, a frame, an array, a function, or None")
        if all(isinstance(name, str) for name in judge):
            return as_names(judge, "judge")
    return judge


def resolve_seed(rng: int | np.random.Generator | None) -> int:
    """The seed of a fit: the given one, one drawn from a Generator, or a fresh one (SPEC 7).

    Examples
    --------
    >>> resolve_seed(7)
    7
    """
    if rng is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**32))
    if isinstance(rng, Integral) and not isinstance(rng, bool) and int(rng) >= 0:
        return int(rng)
    raise OptionTypeError(f"rng={rng!r}: needed is a whole number of at least 0, a numpy Generator or None")


def is_classifier(learner: object) -> bool:
    """Whether something is a classifier in the style of scikit-learn: an instance with ``fit`` and ``predict_proba``.

    Examples
    --------
    >>> is_classifier("lightgbm")
    False
    """
    return not inspect.isclass(learner) and hasattr(learner, "fit") and hasattr(learner, "predict_proba")


def fresh_copy(learner: Any) -> Any:
    """A copy of a classifier with its parameters and without what it has learnt; anything else as it is.

    Parameters
    ----------
    learner : object
        Copied by ``sklearn.base.clone`` where it has parameters and scikit-learn is installed, else deeply.
    """
    if not is_classifier(learner):
        return learner
    if hasattr(learner, "get_params"):
        try:
            from sklearn.base import clone
        except ImportError:
            pass
        else:
            return clone(learner)
    return copy.deepcopy(learner)


def _at_least(least: int) -> Callable[[str, object], None]:
    """A check of a whole number."""

    def check(name: str, value: object) -> None:
        check_whole(name, value, least)

    return check


def _none_or_at_least(least: int) -> Callable[[str, object], None]:
    """A check of a whole number or None."""

    def check(name: str, value: object) -> None:
        if value is not None:
            check_whole(name, value, least)

    return check


def _check_alpha_option(_: str, value: object) -> None:
    check_alpha(value)


def _check_truth_or_auto(name: str, value: object) -> None:
    if not isinstance(value, bool | np.bool_) and not (isinstance(value, str) and value == "auto"):
        raise OptionTypeError(f"{name}={value!r}: allowed are True, False and 'auto'")


def _truth_or_word(text: str) -> bool | str:
    """True or False for yes or no, or a word that the check of its option judges."""
    return {"yes": True, "true": True, "no": False, "false": False}.get(text.lower(), text)


def _check_floor(name: str, value: object) -> None:
    given = isinstance(value, Real) and not isinstance(value, bool) and _between(0, value, 0.5)
    if not given and not (isinstance(value, str) and value == "auto"):
        raise OptionError(f"{name}={value!r}: the smallest probability allowed in mu lies in [0, 0.5), or 'auto'")


def _check_formula(name: str, value: object) -> None:
    if value is not None and not isinstance(value, str):
        raise OptionTypeError(f"{name}={value!r}; needed is a string '~ features'")


def _check_categories(name: str, value: object) -> None:
    if value is not None and not isinstance(value, Mapping):
        raise OptionTypeError(f"{name} is a {type(value).__name__}; needed is a mapping such as {{'no winner': 'tie'}}")


def _check_weights(name: str, value: object) -> None:
    """Raise unless ``value`` is None, the name of a column, or numbers in one dimension."""
    allowed = "the name of a column, or one number per prompt in order of first appearance"
    if value is None:
        return
    if isinstance(value, str):
        if not value:
            raise OptionError(f"{name}='' names no column; needed is {allowed}")
        return
    if isinstance(value, Mapping) or array_of_numbers(value, 1) is None:
        raise OptionTypeError(f"{name} is a {type(value).__name__}; needed is {allowed}")


def array_of_numbers(value: Any, ndim: int) -> NDArray[np.float64] | None:
    """An array of real numbers with so many dimensions; None where ``value`` is something else.

    Examples
    --------
    >>> array_of_numbers([1, 2], 1)
    array([1., 2.])
    >>> array_of_numbers(["a", "b"], 1) is None, array_of_numbers([[1], [2, 3]], 2) is None
    (True, True)
    """
    try:
        made = np.asarray(value)
        numbers = np.asarray(made, dtype=np.float64) if made.dtype.kind in "biufO" else None
    except (TypeError, ValueError, OverflowError):
        return None
    return numbers if numbers is not None and numbers.ndim == ndim else None


def _columns(option: str) -> Callable[[Any], object]:
    """What reads names of columns."""

    def read(value: Any) -> object:
        return as_names(value, option)

    return read


def _number_or_word(text: str) -> float | str:
    """A number, or a word that the check of its option judges."""
    try:
        return float(text)
    except ValueError:
        return text


def _described() -> Iterable[Option]:
    """Every option of :func:`dmlrank.dml_rank`, in the order of its signature."""
    yield Option(
        "functional",
        "borda",
        argument=Argument("borda, bt, rank_centrality, dominance or softmin (default borda)"),
    )
    yield Option(
        "context",
        None,
        normalise=_columns("context"),
        is_read=True,
        described_as="context",
        argument=Argument("columns that identify a prompt", "COLUMN", several=True),
    )
    yield Option(
        "propensity",
        "estimate",
        used_by=_CROSS_FITTED,
        is_read=True,
        argument=Argument("estimate, marginal or the name of a column (default estimate)"),
    )
    yield Option(
        "propensity_formula",
        None,
        check=_check_formula,
        used_by=_CROSS_FITTED,
        argument=Argument("what selection saw, where not the formula's features", "'~ FEATURES'"),
    )
    yield Option("estimator", "debiased", ESTIMATORS, argument=Argument())
    yield Option(
        "judge",
        None,
        normalise=as_judges,
        used_by=_JUDGED,
        argument=Argument("verdicts of judges: a column each, or p_a p_b p_tie of one", "COLUMN", several=True),
    )
    yield Option(
        "judge_as",
        "two-stage",
        ("two-stage", "features"),
        used_by=_CROSS_FITTED,
        argument=Argument("how verdicts are used (default two-stage)"),
    )
    yield Option("mu", None, used_by=_CROSS_FITTED)
    yield Option(
        "learner",
        "auto",
        ("auto", "lightgbm"),
        only_words=False,
        # What the caller does to a classifier later must not change what an update of this fit means.
        normalise=fresh_copy,
        used_by=_CROSS_FITTED,
        argument=Argument("smooth main effects, then LightGBM (auto, the default); or that alone"),
    )
    yield Option(
        "n_folds",
        5,
        check=_at_least(2),
        used_by=_CROSS_FITTED,
        described_as="n_folds",
        argument=Argument(None, "N", int),
    )
    yield Option(
        "n_rep",
        1,
        check=_at_least(1),
        used_by=_CROSS_FITTED,
        described_as="n_rep",
        argument=Argument("repetitions with other folds (default 1)", "N", int),
    )
    yield Option("tune", "cv", used_by=_CROSS_FITTED)
    yield Option(
        "position_bias",
        "auto",
        check=_check_truth_or_auto,
        used_by=_CROSS_FITTED,
        argument=Argument("whether order makes a pair another pair (default auto)", "auto|yes|no", _truth_or_word),
    )
    yield Option("graph", "observed", ("observed", "complete"), only_words=False, argument=Argument())
    yield Option(
        "min_labels",
        10,
        check=_at_least(1),
        used_by=_CROSS_FITTED,
        argument=Argument("labels that a pair needs, in each order where order matters (default 10)", "N", int),
    )
    yield Option("component", "all", ("all", "largest"), argument=Argument())
    yield Option(
        "min_comparisons",
        0,
        check=_at_least(0),
        argument=Argument("models with fewer labelled prompts are dropped", "N", int),
    )
    yield Option(
        "edge_weights", "equal", ("equal", "counts"), only_words=False, used_by=_CROSS_FITTED, argument=Argument()
    )
    yield Option(
        "weights",
        None,
        check=_check_weights,
        used_by=_CROSS_FITTED,
        is_read=True,
        argument=Argument("weights of prompts in the target population", "COLUMN"),
    )
    yield Option("categories", None, check=_check_categories, is_read=True)
    yield Option("category_weights", "half", ("half", "paper"), only_words=False, argument=Argument())
    yield Option(
        "prompts",
        "random",
        PROMPTS,
        used_by=_CROSS_FITTED,
        described_as="prompts",
        argument=Argument("whether intervals are about new prompts or these alone"),
    )
    yield Option(
        "floor",
        "auto",
        check=_check_floor,
        used_by=_CROSS_FITTED,
        argument=Argument("smallest probability of a category (default: auto, by log-loss)", "P", _number_or_word),
    )
    yield Option(
        "subsample",
        None,
        check=_none_or_at_least(2),
        used_by=_CROSS_FITTED,
        argument=Argument("prompts over which F(mu) is averaged (default all)", "M", int),
    )
    yield Option(
        "cov_type", "robust", get_args(CovType), normalise=cov_type_of, described_as="cov_type", argument=Argument()
    )
    yield Option("cov_kwds", None, normalise=cluster_groups, field="groups", is_read=True)
    yield Option("missing", "raise", get_args(Missing), is_read=True, argument=Argument())
    yield Option(
        "votes",
        "mean",
        get_args(Votes),
        is_read=True,
        argument=Argument("repeated votes on a prompt and pair: their mean, or the first"),
    )
    yield Option("unlabelled", None, is_read=True)
    yield Option(
        "alpha",
        0.05,
        check=_check_alpha_option,
        argument=Argument("one minus the confidence level (default 0.05)", "A", float),
    )
    yield Option(
        "rng",
        None,
        normalise=resolve_seed,
        field="seed",
        described_as="seed",
        argument=Argument(None, "SEED", int),
    )
    yield Option(
        "n_jobs",
        None,
        check=_none_or_at_least(1),
        argument=Argument("threads (default: all cores)", "N", int),
    )
    yield Option(
        "progress",
        False,
        field=None,
        argument=Argument("a bar, or in a log lines, on standard error", is_switch=True),
    )
    yield Option("env", None, field=None)


# By name: every option, and those that a fit is made with.
OPTIONS: dict[str, Option] = {option.name: option for option in _described()}
FIT_OPTIONS: dict[str, Option] = {name: option for name, option in OPTIONS.items() if option.field is not None}
