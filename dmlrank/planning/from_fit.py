"""A plan from a fit: the probabilities that it predicts, for its own prompts or for new ones."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from .._utils.warning_collection import warn
from ..data.formula.features import new_features
from ..data.formula.parse import parse_formula
from ..data.frames import column_names, require_columns, take_columns
from ..data.preferences import FloatArray, IntArray
from ..estimation.cross_fitting import MuSource, distinct_rows
from ..exceptions import DataError, OptionError, listed
from ..fit.estimates import Estimates
from ..fit.state import FitSteps
from .design import PlannedFit, bound_graph, specify
from .earlier_labels import EarlierLabels
from .plan import Plan
from .problem import Tables
from .propensities import Rows
from .specification import PlanNames
from .validate import PlanOptions

# Doubles of a chunk of probabilities, and the most that are kept.
_CHUNK, _KEPT = 2_000_000, 50_000_000


def design_fit(
    estimates: Estimates, steps: FitSteps, newdata: object, options: PlanOptions, from_scratch: bool = False
) -> Plan:
    """The plan for a fit's prompts, or for new ones where ``newdata`` is a frame of them.

    Its labels are added to those of the fit, unless it is ``from_scratch``.
    """
    if not steps.estimator.has_first_stages:
        raise OptionError(
            "design needs probabilities of every pair on every prompt, which estimator='bt_mle' has none of; "
            "update(estimator='debiased') fits them"
        )
    if estimates.extrapolation:
        warn(
            f"the plan counts on probabilities of pairs that were never compared "
            f"({estimates.diagnostics.pairs_extrapolated:,} pairs), which are the learner's guess, and on none of the "
            f"fit's labels; regret() says what wrong probabilities cost",
            stacklevel=3,
        )
    fit_options, functional = steps.options, steps.setup.functional
    columns = fit_options.context or ("context",)
    weight = None
    if newdata is None:
        (mu, row), ids, weight = _own_tables(steps), steps.data.context_ids, steps.context_weight
    elif steps.context_weight is not None:
        raise OptionError(
            "this fit has weights=, which new prompts do not have; plan for its own prompts (newdata=None)"
        )
    else:
        mu, row, ids, columns = _new_tables(steps, newdata)
    formula = parse_formula(steps.source.formula)
    specification = specify(
        functional,
        mu,
        PlanNames(steps.data.items, ids, columns, formula.first, formula.second),
        bound_graph(functional, steps.data.n_items),
        options,
        position_bias=steps.data.ordered,
        weights=weight,
        prompts=fit_options.prompts,
        floor=steps.repetitions[0].floor,
        n_jobs=fit_options.n_jobs,
        estimator=steps.estimator.plan_estimator,
        fit=PlannedFit(
            estimate=estimates.estimate,
            plugin=None if newdata is None else estimates.plugin - estimates.scale.shift,
            unit=estimates.scale.factor,
            earlier=None if from_scratch else _earlier_labels(estimates, len(ids), newdata is None),
            alpha=estimates.alpha,
            seed=estimates.description.seed,
            predict=lambda frame: _predict(steps, frame),
        ),
        row=row,
    )
    return Plan.within(specification, options.budget)


def _earlier_labels(estimates: Estimates, n_contexts: int, own_prompts: bool) -> EarlierLabels | None:
    """What the fit's labels know of the scores that the plan is for; None where that is nothing."""
    if not estimates.has_intervals:
        return None
    if not own_prompts and estimates.description.prompts == "fixed":
        # The scores of the new prompts alone, on which the fit has no label.
        return None
    return EarlierLabels(estimates.covariance.matrix * n_contexts, own_prompts)


@dataclass(frozen=True, slots=True, eq=False)
class OwnTables:
    """Out-of-fold probabilities of a fit's contexts, the mean over repetitions, read when they are asked for.

    Attributes
    ----------
    sources : sequence of MuSource
        Of the repetitions.
    contexts : ndarray of int, shape (g,)
    n_contexts : int
        Contexts of the fit.
    table_shape : tuple of int
        (K, K, C).
    """

    sources: Sequence[MuSource]
    contexts: IntArray
    n_contexts: int
    table_shape: tuple[int, int, int]
    _alone: Lock = field(default_factory=Lock)

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
        made = np.zeros((len(chosen), *self.table_shape))
        for source in self.sources:
            for some in source.parts(max(1, len(chosen)), place >= 0):
                with nullcontext() if some.concurrent else self._alone:
                    made[place[some.contexts]] += some.probabilities()[some.place] / len(self.sources)
        return made


@dataclass(frozen=True, slots=True, eq=False)
class NewTables:
    """Probabilities of new contexts with features ``x``, (g, p), from the mean of all learners."""

    sources: Sequence[MuSource]
    x: FloatArray
    table_shape: tuple[int, int, int]
    _alone: Lock = field(default_factory=Lock)

    @property
    def shape(self) -> tuple[int, ...]:
        """(g, K, K, C)."""
        return (len(self.x), *self.table_shape)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, part: Rows) -> FloatArray:
        with self._alone:
            return np.asarray(np.mean([source.average(self.x[part]) for source in self.sources], axis=0))


def _in_memory(tables: Tables) -> Tables:
    """The tables as an array, unless it were too large: then they are read again for every pass over them."""
    if np.prod(tables.shape, dtype=float) > _KEPT:
        return tables
    size = max(1, _CHUNK // int(np.prod(tables.shape[1:])))
    made = np.empty(tables.shape)
    for at in range(0, len(tables), size):
        made[at : at + size] = tables[slice(at, at + size)]
    return made


def _own_tables(steps: FitSteps) -> tuple[Tables, IntArray | None]:
    """Out-of-fold probabilities of different contexts of the fit, and which of them each context has; None: its own."""
    data, sources = steps.data, [repetition.mu for repetition in steps.repetitions]
    shape = (data.n_items, data.n_items, data.n_categories)
    every = np.arange(data.n_contexts)
    groups = np.empty((data.n_contexts, len(sources)), dtype=np.intp)
    for number, source in enumerate(sources):
        first = 0
        for part in source.parts(data.n_contexts):
            groups[part.contexts, number] = first + part.place
            first += int(part.place.max(initial=-1)) + 1
    _, example, row = np.unique(groups, axis=0, return_index=True, return_inverse=True)
    if len(example) == data.n_contexts:
        return _in_memory(OwnTables(sources, every, data.n_contexts, shape)), None
    return _in_memory(OwnTables(sources, example, data.n_contexts, shape)), row.reshape(-1)


def _new_tables(steps: FitSteps, newdata: object) -> tuple[Tables, IntArray, NDArray[np.object_], tuple[str, ...]]:
    """Probabilities of different new prompts, which of them each prompt has, their identifiers, and these' columns."""
    feature_map, known = steps.data.feature_map, column_names(newdata)
    require_columns(feature_map.variables, known, "newdata")
    # New prompts without the identifying columns are numbered.
    named = steps.options.context if set(steps.options.context) <= set(known) else ()
    table = take_columns(newdata, list(dict.fromkeys([*feature_map.variables, *named])))
    x = new_features(feature_map, table, keep_missing=steps.options.missing == "keep")
    ids = np.empty(len(x), dtype=object)
    if len(named) == 1:
        ids[:] = table[named[0]].tolist()
    elif named:
        ids[:] = list(table[list(named)].itertuples(index=False, name=None))
    else:
        ids[:] = range(len(x))
    if len(set(ids.tolist())) < len(ids):
        raise DataError(f"newdata: {listed(named)} names a prompt more than once; a plan needs a row per prompt")
    shape = (steps.data.n_items, steps.data.n_items, steps.data.n_categories)
    example, row = distinct_rows(x, np.arange(len(x)))
    tables = NewTables([repetition.mu for repetition in steps.repetitions], x[example], shape)
    return _in_memory(tables), row, ids, named or ("row",)


def _predict(steps: FitSteps, newdata: object) -> FloatArray:
    """Probabilities of new prompts, (n, K, K, C)."""
    tables, row, _, _ = _new_tables(steps, newdata)
    return tables[slice(0, len(tables))][row]
