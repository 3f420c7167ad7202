"""The report on judges as frames and a table: agreement with humans, position effect, precision gained."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..data.preferences import FloatArray, IntArray
from ..fit.judge_value import JudgeFigures
from ..tables.summary_table import Summary
from .sentences import counted

_HEADS = ("pairs", "agree", "kappa", "decided", "agree dec.", "kappa dec.", "first", "second", "tie")
_COLUMNS = tuple((head, 1) for head in _HEADS)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class JudgeReport:
    """How often judges agree with humans, and how much precision their verdicts add.

    Attributes
    ----------
    figures : JudgeFigures
        The numbers of the report.
    models : tuple of str
        The K models.
    factor : float
        Factor by which scores are multiplied in the unit in which the result shows them.

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
        """Agreement and Cohen's kappa with the human votes, with ties and without: a row per judge.

        Where a pair has several votes, the category with most votes counts; where two categories have equally many,
        the pair counts as a tie. A verdict that consists of probabilities counts as its most probable category.
        """
        f = self.figures
        columns: dict[str, FloatArray | IntArray] = {
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
        """Shares of verdicts for the answer shown first, the answer shown second, and ties: a row per judge.

        Columns that start with ``human_`` have the same shares of the human votes on the pairs that the judge saw.
        ``both_orders`` counts the pairs judged in both display orders, ``consistent`` those with the same winner.
        """
        f = self.figures
        names = ("first", "second", "tie")
        columns: dict[str, FloatArray | IntArray] = {name: f.position[:, place] for place, name in enumerate(names)}
        columns |= {f"human_{name}": f.human_position[:, place] for place, name in enumerate(names)}
        columns |= {"both_orders": f.both_orders[:, 0], "consistent": f.both_orders[:, 1]}
        return pd.DataFrame(columns, index=pd.Index(f.names, name="judge"))

    @property
    def log_loss(self) -> pd.Series:
        """Out-of-fold log-loss of the human labels on judged pairs.

        ``without``: of the outcome model of the fit without the judge. ``mu``: of the outcome model that uses the
        judge. ``given verdict``: of the model that predicts the label from features and verdict.
        """
        return pd.Series(self.figures.log_loss, index=["without", "mu", "given verdict"], name="log_loss")

    @property
    def variance_ratio(self) -> pd.Series:
        """Variance with the judge divided by the variance without the judge, by model; NaN where the latter is zero."""
        f = self.figures
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(f.alone_errors > 0, np.square(f.errors / f.alone_errors), np.nan)
        return pd.Series(ratio, index=list(self.models), name="variance_ratio")

    @property
    def worth(self) -> float:
        """Equivalent votes: how many more human votes would give the fit without the judge the same precision.

        Infinite where no number of votes gives this precision. Zero or negative where the judge adds no precision.
        """
        return self.figures.worth

    @property
    def without(self) -> pd.DataFrame:
        """Scores and standard errors of the same fit without the judge: a row per model."""
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
        """Return the report as plain text."""
        return self.summary().as_text()

    def summary(self, title: str | None = None) -> Summary:
        """Return the table of the report.

        Parameters
        ----------
        title : str, optional
            Stands above the table in place of the default title.

        Returns
        -------
        Summary
            It has ``as_text()``, ``as_html()``, ``as_latex()``, ``as_markdown()`` and ``as_csv()``.
        """
        f = self.figures
        rows = []
        for judge, name in enumerate(f.names):
            agreement = (
                cell
                for column in (0, 1)  # all pairs, and pairs that are no tie
                for cell in (
                    f"{f.compared[judge, column]:,}",
                    f"{f.agreement[judge, column]:.3f}",
                    f"{f.kappa[judge, column]:.3f}",
                )
            )
            rows.append((name, *agreement, *_share_cells(f.position[judge])))
            rows.append(("  human votes", *[""] * 6, *_share_cells(f.human_position[judge])))
        header = (("Judged pairs:", f"{f.n_verdicts:,}", "Without a human label:", f"{f.n_unlabelled:,}"),)
        table = Summary("Judges", header, _COLUMNS, tuple(rows), tuple(self._notes()), row_head="judge")
        return table.with_title(title)

    def _notes(self) -> list[str]:
        """Return the notes: columns, precision gained, consistency between display orders, log-loss."""
        f = self.figures
        ratio = float(np.nanmean(self.variance_ratio))
        variance = f"The variances of the scores with the verdicts are on average {ratio:.2f} times those without."
        if f.worth < 0:
            gain = "The verdicts add no precision."
        elif np.isinf(f.worth):
            gain = (
                f"The {f.n_votes:,} human votes and any number of further human votes on these prompts would not reach "
                f"this precision."
            )
        else:
            gain = (
                f"The gain in precision is equivalent to about {f.worth:,.0f} more human votes; {f.n_votes:,} human "
                f"votes are used."
            )
        notes = [
            '"agree" is the share of pairs on which the judge and the human votes have the same winner, "kappa" is '
            'Cohen\'s kappa. "decided" counts the pairs on which neither the judge nor the human votes give a tie; '
            '"agree dec." and "kappa dec." refer to these pairs. "first", "second" and "tie" are the shares of '
            'verdicts for the answer shown first, for the answer shown second, and of ties. The row "human votes" has '
            "the same shares of the human votes on the judge's pairs.",
            f"{variance} {gain}",
        ]
        for name, (n_both, n_same) in zip(f.names, f.both_orders, strict=True):
            if n_both:
                notes.append(
                    f"{name} judged {counted(int(n_both), 'pair')} in both display orders and named the same winner in "
                    f"{n_same / n_both:.0%} of them."
                )
        without, mu, given_verdict = f.log_loss
        notes.append(
            f"Technical: the out-of-fold log-loss of the human labels is {without:.4f} without the judge, {mu:.4f} for "
            f"the outcome model that uses the judge, and {given_verdict:.4f} for a model that predicts the label from "
            f"the features and the verdict."
        )
        return notes


def _share_cells(shares: FloatArray) -> tuple[str, ...]:
    """Return the shares of verdicts for the first answer, for the second, and of ties; blank where unknown."""
    return ("",) * 3 if np.isnan(shares).any() else tuple(f"{share:.2f}" for share in shares)
