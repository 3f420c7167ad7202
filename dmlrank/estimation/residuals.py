"""What pulls mu towards the truth: votes and verdicts, as rows of one kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.preferences import FloatArray, IntArray, PreferenceData
from .cross_fitting import MuSource
from .influence import InfluenceBlocks, JudgeCorrection, clip_and_renormalise
from .variance_correction import label_spread, pair_variance_scale


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """What pulls mu somewhere, (e,), sorted by context: weight (target - expected) at one pair each.

    A block's votes on a cell pull to their mean label, a verdict to m. Expected is mu, or m for votes where a judge
    saw the pair, ``given``, (e, C), NaN where it is mu. mu and m are there as they are and floored.
    """

    context: IntArray
    block: IntArray
    first: IntArray
    second: IntArray
    weight: FloatArray
    target: FloatArray
    given: FloatArray | None
    mu: FloatArray
    floored: FloatArray
    target_floored: FloatArray
    given_floored: FloatArray | None

    @classmethod
    def of(
        cls,
        data: PreferenceData,
        propensity: FloatArray,
        blocks: InfluenceBlocks,
        judged: JudgeCorrection | None,
        mu: MuSource,
        cell_mu: FloatArray,
        floor: float,
    ) -> Rows:
        cell, cells = blocks.entry_cell, data.cells
        rows: dict[str, Any] = {
            "context": cells.context[cell],
            "block": blocks.entry_block,
            "first": cells.first[cell],
            "second": cells.second[cell],
            "weight": blocks.entry_share / propensity[cell],
            "target": blocks.entry_y,
            "mu": cell_mu[cell],
        }
        if judged is None:
            floored = clip_and_renormalise(rows["mu"], floor)
            return cls(**rows, given=None, floored=floored, target_floored=rows["target"], given_floored=None)
        # A verdict that says nothing is m = mu, floored or not.
        m, m_floored = judged.m, clip_and_renormalise(judged.m, floor)
        seen = (judged.label[cell] >= 0)[:, None]
        rows["target_floored"] = rows["target"]
        rows["given"] = np.where(seen, m[judged.label[cell]], np.nan)
        rows["given_floored"] = np.where(seen, m_floored[judged.label[cell]], np.nan)
        places = judged.cells
        more: dict[str, Any] = {
            "context": places.context,
            "block": blocks.own[places.context],
            "first": places.first,
            "second": places.second,
            "weight": judged.weight,
            "target": m,
            "target_floored": m_floored,
            "mu": mu.at(places),
            "given": np.full(m.shape, np.nan),
            "given_floored": np.full(m.shape, np.nan),
        }
        order = np.argsort(np.concatenate([rows["context"], places.context]), kind="stable")
        joined: dict[str, Any] = {name: np.concatenate([rows[name], more[name]])[order] for name in more}
        return cls(**joined, floored=clip_and_renormalise(joined["mu"], floor))

    def of_score(self, score: Any) -> FloatArray:
        """mu as the score sees it, (e, C)."""
        return self.floored if score.interior else self.mu

    def residuals(self, score: Any, rows: IntArray | slice) -> FloatArray:
        """Weight (target - expected) of some rows."""
        floored = score.interior
        expected = self.of_score(score)[rows]
        known = self.given_floored if floored else self.given
        if known is not None:
            expected = np.where(np.isnan(known[rows]), expected, known[rows])
        target = self.target_floored if floored else self.target
        return np.asarray(self.weight[rows, None] * (target[rows] - expected))


def variance_scale_with_judge(
    mu: FloatArray, data: PreferenceData, propensity: FloatArray, judged: JudgeCorrection | None
) -> FloatArray:
    """Mean of 1 / pi by pair times the spread of a label, (K, K); with a judge that around m, and m's own."""
    if judged is None:
        return pair_variance_scale(mu, data, propensity)
    given = mu.copy()
    told = judged.label >= 0
    given[told] = judged.m[judged.label[told]]
    around = label_spread(mu, data.cells.y - given)
    explained = max(label_spread(mu, data.cells.y - mu) - around, 0.0)
    pair = judged.cells.first * data.n_items + judged.cells.second
    mean = np.bincount(pair, weights=judged.weight**2, minlength=data.n_items**2) / data.n_contexts
    known = explained * mean.reshape(data.n_items, data.n_items) * (1 if data.ordered else 4)
    return pair_variance_scale(mu, data, propensity, around) + known
