"""The options of a fit, checked before anything is computed."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np

from .exceptions import OptionError, OptionTypeError, check_choice, listed, nearest

Estimator = Literal["debiased", "plugin", "bt_restricted", "bt_mle"]
CovType = Literal["robust", "cluster"]
Missing = Literal["raise", "drop", "keep"]
Prompts = Literal["random", "fixed"]
Votes = Literal["mean", "first"]

ESTIMATORS = ("debiased", "plugin", "bt_restricted", "bt_mle")
LEARNERS = ("auto", "lightgbm")
GRAPHS = ("observed", "complete")
COMPONENTS = ("all", "largest")
EDGE_WEIGHTS = ("equal", "counts")
CATEGORY_WEIGHTS = ("half", "paper")
COV_TYPES = ("robust", "cluster")
MISSING = ("raise", "drop", "keep")
PROMPTS = ("random", "fixed")
VOTES = ("mean", "first")
JUDGE_AS = ("two-stage", "features")

# What bt_mle has no use for, at its defaults: a fit that is asked for one of these together with bt_mle is refused.
UNUSED_BY_BT_MLE: dict[str, Any] = {
    "propensity": "estimate",
    "propensity_formula": None,
    "mu": None,
    "judge": None,
    "judge_as": "two-stage",
    "learner": "auto",
    "n_folds": 5,
    "n_rep": 1,
    "tune": "cv",
    "position_bias": True,
    "weights": None,
    "prompts": "random",
    "min_labels": 10,
    "edge_weights": "equal",
    "floor": "auto",
    "subsample": None,
}


@dataclass(frozen=True, slots=True, eq=False)
class Options:
    """Everything that :func:`dmlrank.dml_rank` takes beside formula and data; see there."""

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
    position_bias: bool
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


def make_options(**given: Any) -> Options:
    """Options from what :func:`dmlrank.dml_rank` was called with, checked."""
    options = Options(**_normalised(given))
    check_options(options)
    check_estimator(options.estimator, given)
    return options


def changed_options(options: Options, changes: Mapping[str, Any]) -> Options:
    """The options with some of them replaced, named as in :func:`dmlrank.dml_rank`, checked.

    Raises
    ------
    OptionError
        If there is no option of a name.
    """
    known = [item.name for item in fields(Options) if item.name not in ("groups", "seed")] + ["cov_kwds", "rng"]
    for name in changes:
        if name not in known:
            raise OptionError(f"update has no option {name!r}{nearest(name, known)}; allowed: {listed(known, 30)}")
    changed = replace(options, **_normalised(changes))
    if changes.get("cov_type") == "robust" and "cov_kwds" not in changes:
        changed = replace(changed, groups=())
    check_options(changed)
    # What an earlier fit was made with may stay: it is used again when the estimator is changed back.
    check_estimator(changed.estimator, changes)
    return changed


def _normalised(given: Mapping[str, Any]) -> dict[str, Any]:
    """The caller's options by the fields of :class:`Options`."""
    fields_of = dict(given)
    if "context" in fields_of:
        fields_of["context"] = as_names(fields_of["context"], "context")
    if "cov_kwds" in fields_of:
        fields_of["groups"] = cluster_groups(fields_of.pop("cov_kwds"))
    if "rng" in fields_of:
        fields_of["seed"] = resolve_seed(fields_of.pop("rng"))
    if "judge" in fields_of:
        fields_of["judge"] = as_judges(fields_of["judge"])
    if "learner" in fields_of:
        # What the caller does to a classifier later must not change what an update of this fit means.
        fields_of["learner"] = fresh_copy(fields_of["learner"])
    return fields_of


def check_options(options: Options) -> None:
    """Raise where an option has a value that is wrong whatever the data are."""
    check_choice(options.estimator, ESTIMATORS, "estimator")
    check_choice(options.component, COMPONENTS, "component")
    check_choice(options.cov_type, COV_TYPES, "cov_type")
    check_choice(options.missing, MISSING, "missing")
    check_choice(options.prompts, PROMPTS, "prompts")
    if not isinstance(options.position_bias, bool | np.bool_):
        raise OptionTypeError(f"position_bias={options.position_bias!r}: allowed are True and False")
    check_whole("n_rep", options.n_rep, 1)
    if options.subsample is not None:
        check_whole("subsample", options.subsample, 2)
        if options.prompts == "fixed":
            raise OptionError("subsample averages over a sample of the prompts, prompts='fixed' is about all of them")
    check_choice(options.votes, VOTES, "votes")
    _check_judge(options)
    for name, value, words in (
        ("learner", options.learner, LEARNERS),
        ("graph", options.graph, GRAPHS),
        ("edge_weights", options.edge_weights, EDGE_WEIGHTS),
        ("category_weights", options.category_weights, CATEGORY_WEIGHTS),
    ):
        if isinstance(value, str):
            check_choice(value, words, name)
    check_whole("n_folds", options.n_folds, 2)
    check_whole("min_labels", options.min_labels, 1)
    check_whole("min_comparisons", options.min_comparisons, 0)
    if options.n_jobs is not None:
        check_whole("n_jobs", options.n_jobs, 1)
    check_alpha(options.alpha)
    given = isinstance(options.floor, Real) and 0 <= float(options.floor) < 0.5
    if not given and options.floor != "auto":
        raise OptionError(
            f"floor={options.floor!r}: the smallest probability allowed in mu lies in [0, 0.5), or 'auto'"
        )
    if options.propensity_formula is not None:
        if not isinstance(options.propensity_formula, str):
            raise OptionTypeError(f"propensity_formula={options.propensity_formula!r}; needed is a string '~ features'")
        if not isinstance(options.propensity, str) or options.propensity != "estimate":
            raise OptionError("propensity_formula says what an estimated propensity sees; use propensity='estimate'")
    check_categories(options.categories)
    if options.cov_type == "cluster" and not options.groups:
        raise OptionError("cov_type='cluster' needs cov_kwds={'groups': column} or {'groups': [prompt, annotator]}")
    if options.cov_type != "cluster" and options.groups:
        raise OptionError(f"cov_kwds groups {listed(options.groups)} are used with cov_type='cluster' only")


def _check_judge(options: Options) -> None:
    check_choice(options.judge_as, JUDGE_AS, "judge_as")
    if options.judge is None and options.judge_as != "two-stage" and options.estimator != "bt_mle":
        raise OptionError(f"judge_as={options.judge_as!r} says how a judge is used; pass judge=")
    if options.judge_as == "features" and (options.mu is not None or not isinstance(options.learner, str)):
        other = "mu=" if options.mu is not None else "learner="
        raise OptionError(f"judge_as='features' makes verdicts features of LightGBM; leave {other} out")


def check_estimator(estimator: str, given: Mapping[str, Any]) -> None:
    """Raise where an option is given, and not at its default, that the estimator does not use.

    Examples
    --------
    >>> check_estimator("bt_mle", {"functional": "bt", "n_folds": 5})
    """
    if estimator not in ("bt_mle", "bt_restricted"):
        return
    functional = given.get("functional", "bt")
    if not (isinstance(functional, str) and functional in ("bt", "borda")) and getattr(functional, "name", "") != "bt":
        what = "maximum likelihood estimates" if estimator == "bt_mle" else "the restricted model has"
        raise OptionError(
            f"functional={functional!r} with estimator={estimator!r}: {what} Bradley-Terry scores; allowed is "
            f"functional='bt' (estimator='debiased' estimates every functional)"
        )
    if estimator == "bt_restricted":
        if given.get("judge") is not None:
            raise OptionError(
                "judge= with estimator='bt_restricted': the restricted estimator is a sum over human labels and has no "
                "place for verdicts; estimator='debiased' uses them"
            )
        return
    for name, default in UNUSED_BY_BT_MLE.items():
        value = given.get(name, default)
        alike = value is default or (isinstance(value, str | Real) and value == default)
        if not alike:
            shown = repr(value) if isinstance(value, str | Real) else f"a {type(value).__name__}"
            raise OptionError(
                f"{name}={shown} with estimator='bt_mle': it has no first stages and counts every vote, so that "
                f"{name} is not used; leave it out"
            )


def check_categories(categories: object) -> None:
    """Raise unless ``categories`` is a mapping or None."""
    if categories is not None and not isinstance(categories, Mapping):
        raise OptionTypeError(
            f"categories is a {type(categories).__name__}; needed is a mapping such as {{'no winner': 'tie'}}"
        )


def check_alpha(alpha: object) -> float:
    """``alpha`` as a number strictly between 0 and 1: one minus the confidence level.

    Examples
    --------
    >>> check_alpha(0.05)
    0.05
    """
    if isinstance(alpha, bool) or not isinstance(alpha, Real) or not 0 < float(alpha) < 1:
        hint = "; for 95 % intervals it is 0.05" if isinstance(alpha, Real) and float(alpha) in (0, 1, 95) else ""
        raise OptionError(f"alpha={alpha!r}: one minus the confidence level lies strictly between 0 and 1{hint}")
    return float(alpha)


def check_whole(name: str, value: object, least: int) -> None:
    """Raise unless ``value`` is a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise OptionError(f"{name}={value!r}: needed is a whole number of at least {least}")


def as_names(value: str | Sequence[str] | None, option: str) -> tuple[str, ...]:
    """One or several column names as a tuple.

    Examples
    --------
    >>> as_names("question_id", "context")
    ('question_id',)
    """
    if value is not None and not isinstance(value, Iterable):
        raise OptionTypeError(f"{option} names columns; {value!r} is a {type(value).__name__}, not a string")
    names = () if value is None else (value,) if isinstance(value, str) else tuple(value)
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        raise OptionTypeError(f"{option} names columns; {wrong[0]!r} is a {type(wrong[0]).__name__}, not a string")
    if len(set(names)) < len(names):
        raise OptionError(f"{option} names a column twice: {listed(names)}")
    return names


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
