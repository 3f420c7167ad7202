"""``design_fit``: a plan from the probabilities that a fit predicts, for the prompts of the fit or for new ones."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._utils.warning_collection import warn
from ..data.formula.features import new_features
from ..data.formula.parse import parse_formula
from ..data.frames import column_names, require_columns, take_columns
from ..data.preferences import FloatArray, IntArray
from ..estimation.cross_fitting import MuSource, distinct_rows
from ..exceptions import DataError, OptionError, listed
from ..fit.estimand import finite_table
from ..fit.estimates import Estimates
from ..fit.state import FitState
from ..functionals import Functional
from ..functionals.linear_scores import Linearised
from .allocation import Rows
from .criteria import EarlierLabels
from .design import PlannedFit, PlanSource, specify
from .plan import Plan
from .plan_options import PlanOptions
from .problem import Tables
from .specification import PlanNames, solve

# Number of probabilities that are predicted at a time, and the largest number that is kept in memory.
_CHUNK_NUMBERS = 2_000_000
STORED_NUMBERS = 50_000_000
# Number of labels of a pair whose floor changes no probability that a learner predicts.
_MANY_LABELS = 1_000_000


def design_fit(
    estimates: Estimates,
    steps: FitState,
    newdata: object,
    options: PlanOptions,
    from_scratch: bool = False,
    *,
    stored_numbers: int = STORED_NUMBERS,
) -> Plan:
    """Return the plan for the prompts of a fit, or for the new prompts in ``newdata``."""
    if not steps.estimator.has_first_stages:
        raise OptionError(
            f"estimator={estimates.estimator!r} has no cross-fitted probabilities of every pair on every prompt, which "
            f"a plan needs; fit them with update(estimator='debiased')"
        )
    if estimates.extrapolation:
        warn(
            f"{estimates.diagnostics.pairs_extrapolated:,} pairs were never compared, so that the learner extrapolates "
            f"their probabilities; the plan depends on these probabilities, and its predicted standard errors do not "
            f"take account of the fit's labels; plan.regret() computes the loss if the probabilities are wrong",
            stacklevel=3,
        )
    prompts = _read_prompts(steps, newdata)
    formula = parse_formula(steps.source.formula)
    planned_fit = PlannedFit(
        estimate=estimates.estimate,
        plugin=None if newdata is None else estimates.plugin - estimates.scale.shift,
        unit=estimates.scale.factor,
        earlier=None if from_scratch else _earlier_labels(estimates, steps, prompts, newdata is None),
        alpha=estimates.alpha,
        seed=estimates.description.seed,
        predict=lambda frame: _predict(steps, frame),
    )
    tables = _in_memory(prompts.tables, stored_numbers)
    source = PlanSource(
        functional=_planned_functional(steps, tables, None if newdata is None else prompts.row),
        mu=tables,
        names=PlanNames(steps.data.items, prompts.identifiers, prompts.columns, formula.first, formula.second),
        position_bias=steps.data.ordered,
        weights=steps.units.context_weight,
        prompts=steps.options.prompts,
        floor=steps.repetitions[0].floor,
        estimator=steps.estimator.plan_estimator,
        row=prompts.row,
        fit=planned_fit,
    )
    specification = specify(source, options)
    return Plan(specification, solve(specification, options.budget))


class Prompts(NamedTuple):
    """The prompts that a plan from a fit is for.

    tables (g, K, K, C): Probabilities of the prompts; prompts with equal probabilities share a table.
    row (n,): Index of the table of each prompt; None where every prompt has a table of its own.
    identifiers (n,).
    columns: The columns that identify a prompt.
    """

    tables: Tables
    row: IntArray | None
    identifiers: NDArray[np.object_]
    columns: tuple[str, ...]


def _planned_functional(steps: FitState, tables: Tables, new_row: IntArray | None) -> Functional:
    """Return the functional of the plan.

    Shapes: tables (g, K, K, C), new_row (n,).
    """
    functional, mean = steps.setup.functional, steps.first.mean
    if mean is None or new_row is None:
        return functional if mean is None else mean.score
    share = np.bincount(new_row, minlength=len(tables)) / len(new_row)
    size, total = max(1, _CHUNK_NUMBERS // int(np.prod(tables.shape[1:]))), np.zeros(tables.shape[1:])
    for start in range(0, len(tables), size):
        part = slice(start, start + size)
        total += np.tensordot(share[part], tables[part], 1)
    # Predicted probabilities are finite; the floor for many labels only keeps log-odds from overflowing.
    many_labels = np.full(total.shape[:2], _MANY_LABELS)
    return Linearised.at(functional, finite_table(total, many_labels, steps.setup, steps.options.floor).table)


def _read_prompts(steps: FitState, newdata: object) -> Prompts:
    """Return the prompts of the fit, or the new prompts of a frame."""
    if newdata is None:
        return Prompts(*_own_tables(steps), steps.data.context_ids, steps.options.context or ("context",))
    if steps.units.context_weight is not None:
        raise OptionError(
            "this fit has weights=, which are not known for new prompts; plan for the prompts of the fit (newdata=None)"
        )
    return _new_prompts(steps, newdata)


def _earlier_labels(estimates: Estimates, steps: FitState, prompts: Prompts, own_prompts: bool) -> EarlierLabels | None:
    """Return the fit's labels as earlier labels of the plan."""
    if not estimates.has_intervals or (not own_prompts and estimates.description.prompts == "fixed"):
        return None
    n = len(prompts.identifiers)
    share = None if own_prompts else n / (n + steps.data.n_contexts)
    return EarlierLabels(estimates.covariance.matrix * n, share)


@dataclass(frozen=True, slots=True, eq=False)
class OwnTables:
    """Out-of-fold probabilities of a fit's contexts, means over repetitions, predicted for the rows that are indexed.

    sources: First-stage models of the repetitions.
    contexts (g,): The contexts whose probabilities these are.
    n_contexts: Number of contexts of the fit.
    table_shape: (K, K, C).
    _lock: Held during predictions of a learner that must not run in several threads at once.
    """

    sources: Sequence[MuSource]
    contexts: IntArray
    n_contexts: int
    table_shape: tuple[int, int, int]
    _lock: Lock = field(default_factory=Lock)

    def __reduce__(self) -> tuple[type[OwnTables], tuple[object, ...]]:
        # A lock cannot be pickled; another process has a lock of its own.
        return OwnTables, (self.sources, self.contexts, self.n_contexts, self.table_shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """(g, K, K, C)."""
        return (len(self.contexts), *self.table_shape)

    def __len__(self) -> int:
        return len(self.contexts)

    def __getitem__(self, part: Rows) -> FloatArray:
        chosen = self.contexts[part]
        place = np.full(self.n_contexts, -1)
        place[chosen] = np.arange(len(chosen))
        mean = np.zeros((len(chosen), *self.table_shape))
        for source in self.sources:
            for fold_part in source.parts(max(1, len(chosen)), place >= 0):
                with nullcontext() if fold_part.concurrent else self._lock:
                    probabilities = fold_part.probabilities()[fold_part.place]
                mean[place[fold_part.contexts]] += probabilities / len(self.sources)
        return mean


@dataclass(frozen=True, slots=True, eq=False)
class NewTables:
    """Probabilities of new contexts, the mean over all learners, predicted for the rows that are indexed.

    sources: First-stage models of the repetitions.
    x (g, p): Features of the contexts.
    table_shape: (K, K, C).
    _lock: Held during predictions of a learner that must not run in several threads at once.
    """

    sources: Sequence[MuSource]
    x: FloatArray
    table_shape: tuple[int, int, int]
    _lock: Lock = field(default_factory=Lock)

    def __reduce__(self) -> tuple[type[NewTables], tuple[object, ...]]:
        # A lock cannot be pickled; another process has a lock of its own.
        return NewTables, (self.sources, self.x, self.table_shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """(g, K, K, C)."""
        return (len(self.x), *self.table_shape)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, part: Rows) -> FloatArray:
        with self._lock:
            return np.asarray(np.mean([source.average(self.x[part]) for source in self.sources], axis=0))


def _in_memory(tables: Tables, stored_numbers: int) -> Tables:
    """Return tables as an array; or as they are, so that every pass predicts them anew, if the array is too large."""
    if np.prod(tables.shape, dtype=float) > stored_numbers:
        return tables
    size = max(1, _CHUNK_NUMBERS // int(np.prod(tables.shape[1:])))
    array = np.empty(tables.shape)
    for start in range(0, len(tables), size):
        array[start : start + size] = tables[slice(start, start + size)]
    return array


def _own_tables(steps: FitState) -> tuple[Tables, IntArray | None]:
    """Return out-of-fold probabilities of the fit's contexts."""
    data, sources = steps.data, [repetition.mu for repetition in steps.repetitions]
    shape = (data.n_items, data.n_items, data.n_categories)
    # Each repetition has a source of probabilities, which yields the contexts in parts. A part holds different tables
    # of probabilities, and ``part.place`` is the number of each context's table within the part. ``groups`` numbers
    # the tables of all parts. Contexts with equal numbers in every repetition have equal probabilities.
    groups = np.empty((data.n_contexts, len(sources)), dtype=np.intp)
    for number, source in enumerate(sources):
        first = 0
        for part in source.parts(data.n_contexts):
            groups[part.contexts, number] = first + part.place
            first += int(part.place.max(initial=-1)) + 1
    _, first_context, row = np.unique(groups, axis=0, return_index=True, return_inverse=True)
    if len(first_context) == data.n_contexts:
        return OwnTables(sources, np.arange(data.n_contexts), data.n_contexts, shape), None
    return OwnTables(sources, first_context, data.n_contexts, shape), row.reshape(-1)


def _new_prompts(steps: FitState, newdata: object) -> Prompts:
    """Return new prompts; prompts with equal features share a table of probabilities."""
    feature_map, columns = steps.data.feature_map, column_names(newdata)
    require_columns(feature_map.variables, columns, "newdata")
    # New prompts without the identifying columns are numbered.
    id_columns = steps.options.context if set(steps.options.context) <= set(columns) else ()
    frame = take_columns(newdata, list(dict.fromkeys([*feature_map.variables, *id_columns])))
    x = new_features(feature_map, frame, keep_missing=steps.options.missing == "keep")
    identifiers = np.empty(len(x), dtype=object)
    if len(id_columns) == 1:
        identifiers[:] = frame[id_columns[0]].tolist()
    elif id_columns:
        identifiers[:] = list(frame[list(id_columns)].itertuples(index=False, name=None))
    else:
        identifiers[:] = range(len(x))
    if len(set(identifiers.tolist())) < len(identifiers):
        raise DataError(
            f"newdata has several rows with the same {listed(id_columns)}; a plan needs one row per prompt: drop the "
            f"repeated rows"
        )
    shape = (steps.data.n_items, steps.data.n_items, steps.data.n_categories)
    first_context, row = distinct_rows(x, np.arange(len(x)))
    tables = NewTables([repetition.mu for repetition in steps.repetitions], x[first_context], shape)
    return Prompts(tables, row, identifiers, id_columns or ("row",))


def _predict(steps: FitState, newdata: object) -> FloatArray:
    """Return probabilities of new prompts, (n, K, K, C)."""
    prompts = _new_prompts(steps, newdata)
    return prompts.tables[slice(0, len(prompts.tables))][prompts.row]
