"""The options of a fit, checked before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np

from .exceptions import OptionError, OptionTypeError, check_choice, listed, nearest

Estimator = Literal["debiased", "plugin"]
CovType = Literal["robust", "cluster"]
Missing = Literal["raise", "drop", "keep"]
Votes = Literal["mean", "first"]
Method = Literal["max-t", "bonferroni", "none"]

ESTIMATORS = ("debiased", "plugin")
LEARNERS = ("auto", "lightgbm")
GRAPHS = ("observed", "complete")
COMPONENTS = ("all", "largest")
EDGE_WEIGHTS = ("equal", "counts")
CATEGORY_WEIGHTS = ("half", "paper")
COV_TYPES = ("robust", "cluster")
MISSING = ("raise", "drop", "keep")
VOTES = ("mean", "first")


@dataclass(frozen=True, slots=True, eq=False)
class Options:
    """Everything that :func:`dmlrank.dml_rank` takes beside formula and data; see there."""

    functional: Any
    context: tuple[str, ...]
    propensity: Any
    estimator: str
    mu: Any
    learner: str
    n_folds: int
    tune: Any
    graph: Any
    min_labels: int
    component: str
    min_comparisons: int
    edge_weights: Any
    categories: Mapping[Any, str] | None
    category_weights: Any
    floor: float
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


def make_options(**given: Any) -> Options:
    """Options from what :func:`dmlrank.dml_rank` was called with, checked."""
    options = Options(**_normalised(given))
    check_options(options)
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
    return fields_of


def check_options(options: Options) -> None:
    """Raise where an option has a value that is wrong whatever the data are."""
    check_choice(options.estimator, ESTIMATORS, "estimator")
    check_choice(options.learner, LEARNERS, "learner")
    check_choice(options.component, COMPONENTS, "component")
    check_choice(options.cov_type, COV_TYPES, "cov_type")
    check_choice(options.missing, MISSING, "missing")
    check_choice(options.votes, VOTES, "votes")
    for name, value, words in (
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
    if not isinstance(options.floor, Real) or not 0 <= float(options.floor) < 0.5:
        raise OptionError(f"floor={options.floor!r}: the smallest probability allowed in mu lies in [0, 0.5)")
    if not isinstance(options.propensity, str) and not _is_table(options.propensity, 3):
        raise OptionTypeError(
            f"propensity is a {type(options.propensity).__name__}; allowed: 'estimate', 'marginal', the name of a "
            f"column, or an array of numbers (contexts, models, models)"
        )
    if options.categories is not None and not isinstance(options.categories, Mapping):
        raise OptionTypeError(
            f"categories is a {type(options.categories).__name__}; needed is a mapping such as {{'no winner': 'tie'}}"
        )
    if options.cov_type == "cluster" and not options.groups:
        raise OptionError("cov_type='cluster' needs cov_kwds={'groups': column} or {'groups': [prompt, annotator]}")
    if options.cov_type != "cluster" and options.groups:
        raise OptionError(f"cov_kwds groups {listed(options.groups)} are used with cov_type='cluster' only")


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


def _is_table(value: object, n_axes: int) -> bool:
    """Whether a value is an array of numbers with this many axes."""
    try:
        table = np.asarray(value)
    except ValueError:  # rows of different lengths
        return False
    return table.ndim == n_axes and table.dtype.kind in "biuf"


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
