"""Units (votes, contexts, groups of rows) in the order of their influence, and how many of them turn a result.

References
----------
Broderick, Giordano, Meager (2020), An automatic finite-sample robustness metric: when can dropping a little data make
a big difference?, arXiv 2011.14999.
Huang, Shen, Wei, Broderick (2025), Dropping just a handful of preferences can change top large language model rankings,
arXiv 2508.11847.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..data.preferences import FloatArray, IntArray
from ..data.read_votes import with_columns
from ..estimation.influence import Influence, mean_influence
from ..estimation.influence_blocks import blocks_by_group
from ..estimation.one_step import one_step
from ..estimation.one_step_result import Estimands
from ..exceptions import ColumnError, DataError, OptionError, nearest, shown
from ..fit.state import FitSteps


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """The units that a fragility analysis drops: contexts, votes, or groups of contexts or of votes.

    name: The unit as the user names it.
    of_votes: Whether a unit is a set of votes, whose labels are deleted; otherwise it is a set of contexts, whose rows
        are dropped.
    code (n,): Unit of each context, or of each vote.
    identifiers (u,): How each unit is named for the user.
    influence (u, d): Sum of the influence values of each unit's contexts or votes. To first order, dropping the unit
        changes the scores by minus this sum divided by n.
    weight (u,): Sum of the weights of the contexts that are dropped with each unit; zero for votes.
    """

    name: str
    of_votes: bool
    code: IntArray
    identifiers: NDArray[np.object_]
    influence: FloatArray
    weight: FloatArray
    n_contexts: int

    def __len__(self) -> int:
        return len(self.identifiers)

    def members(self, units: IntArray) -> NDArray[np.bool_]:
        """Return which contexts, (n,), or votes, (v,), belong to some of the units."""
        return np.isin(self.code, units)


def units_of(steps: FitSteps, unit: str) -> Units:
    """Return the units of a fit with their influence."""
    data = steps.data
    if unit == "context":
        return _of_contexts(steps, unit, np.arange(data.n_contexts), data.context_ids)
    if unit == "vote":
        return _of_votes(steps, unit, np.arange(data.n_votes), data.row_index[data.vote_row].astype(object))
    column = _column_of(steps, unit)
    columns = with_columns(data, steps.source.data, steps.options.unlabelled, [column]).columns
    code, values = columns.sorted_codes(column), columns.texts(column)
    if (code < 0).any():
        raise DataError(
            f"unit={unit!r}: column {column!r} has no value in {int((code < 0).sum())} rows; fill them, or give "
            f"another unit"
        )
    names = np.empty(int(code.max()) + 1, dtype=object)
    names[code] = values
    if data.varying_context(code) is None:
        return _of_contexts(steps, unit, code[data.first_row], names)
    return _of_votes(steps, unit, code[data.vote_row], names)


def _column_of(steps: FitSteps, unit: str) -> str:
    """Return the column that defines the units."""
    if unit == "cluster":
        if steps.clusters is None:
            raise OptionError(
                "unit='cluster': this fit has no clusters; give unit='context', 'vote' or a column, or fit with "
                "cov_type='cluster'"
            )
        return steps.clusters.names[0]
    columns = steps.data.columns
    if unit not in columns.available:
        raise ColumnError(
            f"unit={shown(unit)} is neither 'context', 'vote' or 'cluster' nor a column"
            f"{nearest(unit, ['context', 'vote', 'cluster', *columns.available])}"
        )
    return unit


def _of_contexts(steps: FitSteps, name: str, code: IntArray, identifiers: NDArray[np.object_]) -> Units:
    """Return units that are sets of contexts; units without a context in the fit are left out.

    Shapes: code (n,), identifiers (u,).
    """
    present, code = np.unique(code, return_inverse=True)
    weight = np.ones(steps.data.n_contexts) if steps.context_weight is None else steps.context_weight
    return Units(
        name=name,
        of_votes=False,
        code=code,
        identifiers=identifiers[present],
        influence=steps.influence.sums_by(code),
        weight=np.bincount(code, weight).astype(float),
        n_contexts=steps.data.n_contexts,
    )


def _of_votes(steps: FitSteps, name: str, code: IntArray, identifiers: NDArray[np.object_]) -> Units:
    """Return units that are sets of votes; the parameters are those of :func:`_of_contexts`.

    Shapes: code (v,), identifiers (u,).
    """
    if not steps.estimator.is_unrestricted_one_step:
        raise OptionError(
            f"unit={name!r} with estimator={steps.options.estimator!r}: the influence of single votes is known for "
            f"estimator='debiased'; use unit='context' or a column that is the same in all rows of a context"
        )
    present, code = np.unique(code, return_inverse=True)
    influence, group = vote_influence(steps, code)
    corrections = influence.weight[influence.block_context, None] * influence.correction
    total = np.zeros((len(present), influence.n_scores))
    np.add.at(total, group[group >= 0], corrections[group >= 0])
    return Units(
        name=name,
        of_votes=True,
        code=code,
        identifiers=identifiers[present],
        influence=total,
        weight=np.zeros(len(present)),
        n_contexts=steps.data.n_contexts,
    )


def vote_influence(steps: FitSteps, vote_group: IntArray) -> tuple[Influence, IntArray]:
    """Return influence values by context and group of votes, and the group of each influence block.

    An influence block contains the votes of one group on one context. Blocks of no group have the number -1.

    Shapes: vote_group (v,).
    """
    blocks, group = blocks_by_group(steps.data, vote_group)
    influences = [
        one_step(
            Estimands(steps.setup.functional),
            steps.data,
            repetition.nuisances,
            blocks,
            steps.population(repetition),
            n_jobs=steps.options.n_jobs,
        ).target.by_context()
        for repetition in steps.repetitions
    ]
    return (influences[0] if len(influences) == 1 else mean_influence(influences)), group


def smallest_set(
    effect: FloatArray, weight: FloatArray, distance: float, n_contexts: int, margin: FloatArray | None = None
) -> IntArray | None:
    """Return the fewest units, in the order of their influence, whose removal brings a distance to zero.

    To first order, the distance without a set A of units is distance - sum_A effect / (n - sum_A weight).

    Shapes: effect (u,), weight (u,), margin (u,).
    """
    order = np.argsort(-effect, kind="stable")
    left = n_contexts - np.cumsum(weight[order])
    reduced = distance - np.cumsum(effect[order]) / np.where(left > 0, left, np.nan)
    reached = np.flatnonzero(reduced < (0.0 if margin is None else margin))
    if not len(reached) or reached[0] + 1 > len(effect) // 2:
        return None
    return order[: reached[0] + 1]
