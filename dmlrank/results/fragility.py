"""How few votes, prompts or groups of them turn a result: the order of their influence, and refits without them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from .._utils.tasks_and_threads import collected_warnings, one_thread, warn
from ..data.arrays import AnyArray, FloatArray, IntArray
from ..data.derived_pairs import DerivedPairs
from ..data.hypotheses import HypothesisLike
from ..data.outcomes import exchange_wins
from ..data.read_votes import full_column
from ..estimation.influence import OneStepInputs, blocks_by_group, unit_sums
from ..estimation.one_step import Residuals, one_step
from ..exceptions import DmlrankError, OptionError
from ..fit.estimates import Estimates
from ..fit.method import run
from ..fit.state import FitState, Repetition
from ..functionals import Functional
from ..tables.summary_table import Summary
from .requirements import TitledTable
from .sensitivity_results import free_contrasts, ranking_of

# Most refits for one result, and how much larger a set becomes at least that did not turn it.
_REFITS, _GROWTH = 5, 1.2


@dataclass(frozen=True, slots=True, eq=False)
class FragilityResults(TitledTable):
    """How few votes, prompts or groups of them turn results; :meth:`RankResults.fragility` returns one.

    Attributes
    ----------
    result_frame : DataFrame
        A row per result: ``hypothesis number share before after confirmed``. ``number`` is that of the units (NA if
        half of them do not suffice), ``share`` their share of all units, ``before`` the estimate of the fit,
        ``after`` that of the refit, ``confirmed`` whether the contrast has changed its sign in it.
    units : mapping of str to list
        For each hypothesis, the units that were dropped or flipped, the most influential first: prompts as
        ``context=`` identifies them, positions of rows in the frame for votes, values of the column for others.
    unit : str
        Kind of the units: "context", "vote" or the name of a column.
    flip : bool
        Whether labels are flipped; otherwise units are dropped.

    Examples
    --------
    >>> import dmlrank as dr
    >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
    >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", battles, rng=0)
    >>> fragility = res.fragility(unit="vote", flip=True)
    >>> fragility.result_frame["hypothesis"].tolist(), len(fragility.units["gpt-4 - claude-v1"])
    (['gpt-4 - claude-v1'], 7)
    """

    result_frame: pd.DataFrame
    units: dict[str, list[object]]
    unit: str
    flip: bool

    def _table(self) -> Summary:
        rows, done = [], "flipped" if self.flip else "dropped"
        for name, number, share, before, after, confirmed in self.result_frame.itertuples(index=False, name=None):
            size = ("not found", "") if pd.isna(number) else (f"{number:,}", f"{100 * share:.3g} %")
            rows.append((str(name), *size, f"{before:.3g}", f"{after:.2g}", "yes" if confirmed else "no"))
        units = {"vote": "labels", "context": "prompts"}.get(self.unit, f"values of {self.unit!r}")
        note = (
            f"{done}: how many {units} turn the result, chosen by their influence; fewer may do. "
            f"Confirmed by a refit. A small share does not mean that it is wrong, but that few {units} decide it."
        )
        columns = tuple((head, 1) for head in (done, "share", "before", "after", "confirmed"))
        return Summary("Fragility of the Ranking", (), columns, tuple(rows), (note,), "result")


class _Units(NamedTuple):
    """The u units that are dropped or flipped: votes, prompts, or groups of either.

    code: Unit of each vote, (v,), or context, (n,). effect (u, d): n times what the scores lose with each unit, to
    first order. weight (u,): Contexts that go with each unit.
    """

    code: IntArray
    identifiers: AnyArray
    effect: FloatArray
    weight: FloatArray
    kind: Literal["dropped", "dropped labels", "flipped labels"]


def _units_of(state: FitState, unit: str, flip: bool) -> _Units:
    """Return the units with their influence."""
    data, options, functional, are_votes = state.data, state.options, state.setup.functional, unit == "vote"
    if are_votes:
        code, identifiers = np.arange(data.n_votes), data.row_index[data.vote_row].astype(object)
    elif unit == "context":
        code, identifiers = np.arange(data.n_contexts), data.context_ids
    else:
        code, identifiers = full_column(data, state.source.data, unit, f"unit={unit!r}", ("context", "vote"))
        are_votes = data.varying_context(code) is not None
        code = code[data.vote_row if are_votes else data.first_row]
    if flip and not are_votes:
        code, are_votes = code[data.cells.context[data.vote_cell]], True
    present, code = np.unique(code, return_inverse=True)
    if not are_votes:
        if not all(isinstance(x, str | None) for x in (options.weights, options.learning.mu, options.propensity)):
            raise OptionError(f"unit={unit!r} drops prompts, of which mu, weights and propensities have to be columns")
        of_units = np.bincount(code, state.influence.weight).astype(float)
        return _Units(code, identifiers[present], state.influence.sums_by(code), of_units, "dropped")
    is_known = state.estimator.is_unrestricted_one_step and not isinstance(state.source.data, DerivedPairs)
    if not is_known or options.adjust is not None or not (options.average == "scores" or functional.linear):
        raise OptionError(
            f"unit={unit!r}, flip={flip}: single votes have an influence in a frame of battles with "
            f"estimator='debiased', average='scores' and no adjust=; drop prompts, or a column with a value per prompt"
        )
    # A block contains the votes of one unit on one context; blocks of no unit have the number -1.
    blocks, owner = blocks_by_group(data, code)
    # A flipped vote loses its label and gets the other one.
    others = exchange_wins(blocks.entry_y, np.ones(len(blocks.entry_y), dtype=bool))
    weight, effect = state.units.weights(data), np.zeros(())
    for given, sign in ((blocks, 1.0), (replace(blocks, entry_y=others), -1.0))[: 1 + flip]:
        corrections = [_corrections(functional, r, replace(r.inputs, blocks=given)) for r in state.repetitions]
        effect = effect + sign * np.mean(corrections, axis=0)
    effect = unit_sums((weight[blocks.context, None] * effect)[owner >= 0], owner[owner >= 0])
    return _Units(code, identifiers[present], effect, 0 * effect[:, 0], "flipped labels" if flip else "dropped labels")


def _corrections(functional: Functional, repetition: Repetition, inputs: OneStepInputs) -> FloatArray:
    """Return the corrections of the scores by block, (q, d)."""
    if not functional.pair_local:
        return one_step({"target": functional}, inputs).target.by_context().correction
    residuals = Residuals.of(inputs, repetition.one_step_result.cell_mu)
    return residuals.corrections(functional, inputs.data, len(inputs.blocks.context))


class _Search(NamedTuple):
    """The search for the units that turn one result: on which side of a value a contrast, (d,), is."""

    state: FitState
    units: _Units
    label: str
    contrast: FloatArray
    value: float

    @property
    def before(self) -> float:
        """The estimate of the fit."""
        return float(self.contrast @ self.state.influence.estimate)

    @property
    def side(self) -> float:
        """1 where the estimate of the fit is above the value, else -1."""
        return 1.0 if self.before >= self.value else -1.0

    def predicted(self, ratio: float = 1.0, last: int = 1) -> tuple[int, IntArray, FloatArray]:
        """Return how many units turn the result, their order, and how far the first k move the estimate, (u,).

        Without a set A this is the sum of their effects / (n - their weight), to first order. If a refit without the
        ``last`` first units has moved the estimate by ``ratio`` times this, then so do larger sets, and in smaller ones
        what is beyond the first order falls with the square of the set. The number is that of all units where half of
        them do not suffice.
        """
        effect = self.side * (self.units.effect @ self.contrast)
        order = np.argsort(-effect, kind="stable")
        n_left = self.state.data.n_contexts - np.cumsum(self.units.weight[order])
        moved = np.cumsum(effect[order]) / np.maximum(n_left, 1e-9)
        beyond = (ratio - 1) * np.minimum(np.arange(1, len(moved) + 1) / last, 1)
        turned = moved * (1 + beyond) > self.side * (self.before - self.value)
        return (int(turned.argmax()) + 1 if turned[: len(moved) // 2].any() else len(moved)), order, moved

    def refit(self, chosen: IntArray) -> float:
        """Return the estimate without some units, or with their labels flipped; NaN where the refit fails."""
        state, data, is_chosen = self.state, self.state.data, np.isin(self.units.code, chosen)
        rows = np.flatnonzero(is_chosen[data.row_context]) if self.units.kind == "dropped" else data.vote_row[is_chosen]
        weights = dict(zip(state.setup.functional.names(data.items), self.contrast.tolist(), strict=True))
        source = replace(state.source, change=(self.units.kind, data.row_index[rows]))
        try:
            with collected_warnings():
                refit = run(replace(state.options, position_bias=data.ordered), source)
            found = dict(zip(refit.setup.functional.names(refit.data.items), refit.influence.estimate, strict=True))
        except DmlrankError as error:
            warn(f"fragility(): {self.label}: the refit failed, so that nothing is confirmed: {error}")
            return np.nan
        # NaN also where a model has no votes left.
        return float(sum(weight * found.get(name, np.nan) for name, weight in weights.items() if weight))

    def answer(self) -> tuple[IntArray | None, float, bool]:
        """Return the first units whose refit turned the result, else the last that did not, and the estimate then."""
        number, order, moved = self.predicted()
        chosen, after = None, self.before
        for _ in range(_REFITS):
            if number > len(order) // 2:
                break
            chosen = order[:number]
            after = self.refit(chosen)
            if self.side * (after - self.value) < 0:
                return chosen, after, True
            ratio = self.side * (self.before - after) / moved[number - 1]
            number = max(self.predicted(ratio, number)[0], int(_GROWTH * number) + 1)
        return chosen, after, False


@one_thread()
def analyse_fragility(
    e: Estimates, state: FitState, hypothesis: HypothesisLike | None, unit: str, flip: bool
) -> FragilityResults:
    """Return how few units turn results, see :meth:`RankResults.fragility`."""
    units = _units_of(state, unit, flip)
    best, *others = np.eye(len(e.names))[ranking_of(e, "fragility") if hypothesis is None else slice(None)]
    contrasts, value = free_contrasts(e, best - np.array(others) if hypothesis is None else hypothesis)
    searches = [_Search(state, units, *x) for x in zip(contrasts.labels, contrasts.matrix, value, strict=True)]
    if hypothesis is None:
        # Whether the first model stays first: the rival that needs the fewest units.
        searches = [min(searches, key=lambda one: one.predicted()[0])]
    numbers, identifiers = [], {}
    for one in searches:
        chosen, after, has_turned = one.answer()
        size = (pd.NA, np.nan) if chosen is None else (len(chosen), len(chosen) / len(units.weight))
        shown = (e.scale.factor * x + e.scale.shift * one.contrast.sum() for x in (one.before, after))
        numbers.append((one.label, *size, *shown, has_turned))
        identifiers[one.label] = [] if chosen is None else units.identifiers[chosen].tolist()
    frame = pd.DataFrame(numbers, columns=["hypothesis", "number", "share", "before", "after", "confirmed"])
    return FragilityResults(frame.astype({"number": "Int64"}), identifiers, unit, flip)
