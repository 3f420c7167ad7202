"""The report on judges: their agreement with humans, their position effect and what they add, as frames and a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..data.preferences import FloatArray
from ..fit.judge_value import JudgeFigures
from .table import Summary

_HEADS = ("pairs", "agree", "kappa", "decided", "agree dec.", "kappa dec.", "first", "second", "tie")
_COLUMNS = tuple((head, 1) for head in _HEADS)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class JudgeReport:
    """How judges agree with humans, and what they bought.

    Attributes
    ----------
    figures : JudgeFigures
        The numbers.
    models : tuple of str
    factor : float
        Of the unit in which scores are shown.

    Examples
    --------
    >>> import dmlrank as dr
    >>> battles, rng = dr.datasets.simulate_arena(n=2000, rng=0), np.random.default_rng(1)
    >>> battles["verdict"] = battles["winner"].where(rng.random(2000) < 0.8, "tie")
    >>> battles["winner"] = battles["winner"].where(rng.random(2000) < 0.4)
    >>> formula = "winner ~ 1 | model_a + model_b"
    >>> res = dr.dml_rank(formula, battles, functional="bt", judge="verdict", position_bias=False, rng=0)
    >>> bool(res.judge.worth > 100), bool(res.judge.variance_ratio.mean() < 0.9)
    (True, True)
    """

    figures: JudgeFigures
    models: tuple[str, ...]
    factor: float = 1.0

    @property
    def agreement(self) -> pd.DataFrame:
        """A row per judge: agreement and Cohen's kappa with the plurality of the human votes, with ties and without.

        Of several votes on a pair the plurality counts, a tied one is a tie. Verdicts that are probabilities count as
        their largest.
        """
        f = self.figures
        columns: dict[str, Any] = {
            "pairs": f.compared[:, 0],
            "agreement": f.agreement[:, 0],
            "kappa": f.kappa[:, 0],
            "pairs_decided": f.compared[:, 1],
            "agreement_decided": f.agreement[:, 1],
            "kappa_decided": f.kappa[:, 1],
        }
        return pd.DataFrame(columns, index=pd.Index(f.names, name="judge"))

    @property
    def position(self) -> pd.DataFrame:
        """A row per judge: verdicts for the answer shown first, second, and ties, beside the humans' on these pairs."""
        f = self.figures
        names = ("first", "second", "tie")
        columns: dict[str, Any] = {name: f.position[:, place] for place, name in enumerate(names)}
        columns |= {f"human_{name}": f.human_position[:, place] for place, name in enumerate(names)}
        columns |= {"both_orders": f.both_orders[:, 0], "consistent": f.both_orders[:, 1]}
        return pd.DataFrame(columns, index=pd.Index(f.names, name="judge"))

    @property
    def log_loss(self) -> pd.Series:
        """Out-of-fold log-loss of the labels: without judge, of mu with it, and given the verdict."""
        return pd.Series(self.figures.log_loss, index=["without", "mu", "given verdict"], name="log_loss")

    @property
    def variance_ratio(self) -> pd.Series:
        """Variance with the judge over the variance without it, by model; NaN where there is none."""
        f = self.figures
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(f.alone_errors > 0, np.square(f.errors / f.alone_errors), np.nan)
        return pd.Series(ratio, index=list(self.models), name="variance_ratio")

    @property
    def worth(self) -> float:
        """Further human votes that would have bought as much precision; infinite where none would."""
        return self.figures.worth

    @property
    def without(self) -> pd.DataFrame:
        """Scores and standard errors of the same fit without the judge, a row per model."""
        f = self.figures
        columns = {"coef": f.alone * self.factor, "std_error": f.alone_errors * self.factor}
        return pd.DataFrame(columns, index=list(self.models))

    def __str__(self) -> str:
        return self.as_text()

    def __repr__(self) -> str:
        return self.as_text()

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def as_text(self) -> str:
        """The report as plain text."""
        return self.summary().as_text()

    def summary(self) -> Summary:
        """The table of the report; it has ``as_text()``, ``as_html()``, ``as_latex()`` and the like."""
        f = self.figures
        rows = []
        for at, name in enumerate(f.names):
            counted = (
                cell
                for part in (0, 1)
                for cell in (f"{f.compared[at, part]:,}", f"{f.agreement[at, part]:.3f}", f"{f.kappa[at, part]:.3f}")
            )
            rows.append((name, *counted, *_shares(f.position[at])))
            rows.append(("  humans there", *[""] * 6, *_shares(f.human_position[at])))
        header = (("Judged pairs:", f"{f.n_verdicts:,}", "Without a human label:", f"{f.n_unlabelled:,}"),)
        return Summary("Judges", header, _COLUMNS, tuple(rows), tuple(self._notes()), row_head="judge")

    def _notes(self) -> list[str]:
        f = self.figures
        ratio = float(np.nanmean(self.variance_ratio))
        votes = "more than any number of" if np.isinf(f.worth) else f"as much as about {f.worth:,.0f} more"
        notes = [
            f"{f.n_verdicts:,} pairs judged, {f.n_unlabelled:,} of them without a human label. Log-loss of the labels "
            f"{f.log_loss[0]:.4f} without the judge, {f.log_loss[1]:.4f} of mu with it, {f.log_loss[2]:.4f} given the "
            f"verdict.",
            f"Variance with the judge over variance without: {ratio:.2f} on average. It is worth {votes} human votes "
            f"beside the {f.n_votes:,}."
            if f.worth >= 0
            else f"Variance with the judge over variance without: {ratio:.2f} on average. It bought no precision.",
        ]
        for name, (both, same) in zip(f.names, f.both_orders, strict=True):
            if both:
                notes.append(f"{name}: {both:,} pairs judged in both orders, {same / both:.0%} with the same winner.")
        return notes


def _shares(shares: FloatArray) -> tuple[str, ...]:
    """Shares of verdicts for the first answer, for the second, and of ties."""
    return ("",) * 3 if np.isnan(shares).any() else tuple(f"{share:.2f}" for share in shares)
