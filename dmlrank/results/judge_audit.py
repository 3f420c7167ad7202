"""What judges prefer more than humans do: position, length and other style, and models of their own family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from .._utils.argument_checks import as_names
from .._utils.computation import one_thread
from .._utils.number_text import decimals, fixed_text, p_value_clause, p_value_text
from ..data.columns import Columns
from ..data.frames import column_names, require_columns, take_columns
from ..data.outcomes import exchange_wins
from ..data.preferences import FloatArray
from ..data.style_columns import read_style_differences
from ..exceptions import DataError, HypothesisError, JudgeError, OptionError, OptionTypeError, listed, shown
from ..fit.fit_covariance import clustered_covariance
from ..fit.judge_value import judged_winners
from ..fit.state import FitState
from ..inference.covariance import stack_influences
from ..inference.wald import WaldTestResults, z_statistics
from ..report.statements import counted
from ..tables.summary_table import Summary
from .joint_estimates import JointEstimates, JointResults
from .requirements import TitledTable, joined_names, place_of
from .views import alpha_or_default

_AGREEMENT, _STRENGTH, _POSITION, _FAMILY = "agreement", "strength", "position", "family"
# Effects that are no preferences.
_NO_PREFERENCES = (_AGREEMENT, _STRENGTH)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class JudgeAudit(JointResults, TitledTable):
    """Agreement of judges with humans, and what they prefer more than humans; :meth:`RankResults.judge_audit`.

    Tests name estimates ``"judge: position"``.

    Attributes
    ----------
    joint : JointEstimates
        Estimates by judge and effect with their covariance.
    pairs : dict of str to int
        Pairs with a verdict and a human label, by judge.
    """

    joint: JointEstimates
    pairs: Mapping[str, int]

    def table(self, alpha: float | None = None) -> pd.DataFrame:
        """Return a row per judge and effect with intervals and p-values that hold for all rows at once.

        Parameters
        ----------
        alpha : float, optional
            One minus the joint level; the fit's when None.

        Returns
        -------
        DataFrame
            Columns ``judge effect estimate std_error conf_low conf_high p_adjusted``. The effect ``agreement`` is a
            share, which has no test. ``strength`` says how decided the judge is: -0.2 that the judge's preferences for
            better models are 20 % weaker than those of humans. The others are in votes: 0.05 says that of 100 pairs the
            judge gives 5 wins more than humans did to the answer that is shown first, longer by one unit, or of the
            judge's family.
        """
        joint = self.joint
        is_tested = joint.index.get_level_values("effect") != _AGREEMENT
        z = np.where(is_tested, z_statistics(joint.estimate, joint.covariance.std_errors), np.nan)
        frame = self._tidy(z, alpha, "max-t").drop(columns=["statistic", "p_value"]).rename(columns={"term": "effect"})
        return frame.assign(p_adjusted=joint.max_t.adjusted_p_values(z, centred=False))

    def test(self, judge: str | None = None) -> WaldTestResults:
        """Test by one Wald test that a judge, or all judges, prefer nothing more than humans do.

        Parameters
        ----------
        judge : str, optional
            Name of the judge; all judges jointly when None.

        Returns
        -------
        WaldTestResults
            A chi-squared test of all preferences: position, style and family.

        Raises
        ------
        UnknownModelError
            If there is no such judge.
        HypothesisError
            If there are too few clusters for so many effects.
        """
        index = self.joint.index
        chosen = ~index.get_level_values("effect").isin(_NO_PREFERENCES)
        if judge is not None:
            place_of(list(self.pairs), judge, "judge")
            chosen &= index.get_level_values("judge") == judge
        return self.wald_test(np.eye(len(index))[chosen])

    def _table(self) -> Summary:
        table = self.table()
        digits = decimals(table["std_error"].to_numpy(), fewest=3)
        numbers = ("estimate", "std_error", "conf_low", "conf_high")
        rows = tuple(
            (
                row["judge"],
                row["effect"],
                *(fixed_text(row[name], digits) for name in numbers),
                "" if np.isnan(row["p_adjusted"]) else p_value_text(row["p_adjusted"]),
            )
            for row in table.to_dict("records")
        )
        heads = (("effect", 1), ("estimate", 1), ("std err", 1), ("[interval]", 2), ("P", 1))
        header = tuple((f"{name}:", f"{counted(count, 'pair')} with votes") for name, count in self.pairs.items())
        return Summary(
            "What Judges Prefer", header, heads, rows, tuple(self.sentences()), row_head="judge", text_columns=(1,)
        )

    def sentences(self) -> list[str]:
        """Return what the numbers are, and the joint test of each judge."""
        level = f"{100 * (1 - self.joint.alpha):g} %"
        texts = [
            f'"agreement" is the share of pairs on which judge and humans have the same winner. The other effects are '
            f"how much more the judge prefers than humans on the same pairs, in votes: 0.05 means 5 wins more of 100; "
            f'"strength" is how much more decided the judge is between better and worse models. Intervals ({level}) '
            f"and p-values hold for all rows at once."
        ]
        for name in self.pairs:
            try:
                test = self.test(name)
                found = f"{test.figures}, P {p_value_clause(float(test.pvalue))}"
            except HypothesisError as error:
                found = f"cannot be tested: {error}"
            texts.append(f"{name} prefers nothing more than humans do (joint test): {found}.")
        return texts

    def page_section(self) -> tuple[str, tuple[str, ...]]:
        """Return title and paragraphs of the section in a page, which :meth:`RankResults.report` writes."""
        table, texts = self.table(), []
        digits = decimals(table["std_error"].to_numpy(), fewest=3)
        for name, rows in table.groupby("judge", sort=False):
            parts = [
                f"{row['effect']} {fixed_text(row['estimate'], digits)} ({fixed_text(row['conf_low'], digits)} to "
                f"{fixed_text(row['conf_high'], digits)})"
                for row in rows.to_dict("records")
            ]
            texts.append(f"{name}, {counted(self.pairs[str(name)], 'pair')}: {'; '.join(parts)}.")
        return "What judges prefer", (*texts, *self.sentences())

    def __repr__(self) -> str:
        return f"<JudgeAudit: {counted(len(self.pairs), 'judge')}, {counted(len(self.joint.names), 'estimate')}>"


@one_thread()
def audit_judges(
    steps: FitState, alpha: float, families: Mapping[str, Sequence[str]] | None, style: str | Sequence[str]
) -> JudgeAudit:
    """Return the audit of a fit's judges, see :meth:`RankResults.judge_audit`."""
    verdicts, data = steps.verdicts, steps.data
    if verdicts is None:
        raise OptionError("judge_audit: this fit has no judge; pass judge= to dml_rank")
    members = _members(families, verdicts.names, data.items)
    names = as_names(style, "style") if style else ()
    by_cell = _style_of_cells(steps, names)
    cells, label, n = data.cells, verdicts.label, data.n_contexts
    human = cells.y[:, 0] + cells.y[:, 2:].sum(axis=1) / 2
    expected = steps.first.mu_without_judge.at(cells)
    strength = expected[:, 0] + expected[:, 2:].sum(axis=1) / 2 - 0.5
    rows: list[tuple[str, str]] = []
    estimates, influences, counts = [], [], {}
    for name, shares in zip(verdicts.names, verdicts.shares, strict=True):
        said = exchange_wins(shares, verdicts.cells.flipped)
        is_known = np.asarray(~np.isnan(said).any(axis=1))
        both = np.flatnonzero((label >= 0) & is_known[np.maximum(label, 0)])
        if not len(both):
            raise JudgeError(
                f"judge {name!r} has no verdict (a label, or probabilities) on a pair with a human label; leave it out"
            )
        at = label[both]
        # Rows are about the items of a cell; exchanging them changes the sign of a row and nothing else.
        columns = {_STRENGTH: strength[both], _POSITION: np.where(verdicts.cells.flipped[at], -1.0, 1.0)}
        columns |= {of: by_cell[both, place] for place, of in enumerate(names)}
        if name in members:
            is_own = np.isin(np.arange(len(data.items)), members[name]).astype(float)
            columns[_FAMILY] = is_own[cells.first[both]] - is_own[cells.second[both]]
        design = np.column_stack(list(columns.values()))
        excess = said[at, 0] + said[at, 2] / 2 - human[both]
        slopes, scores = _least_squares(design, excess, list(columns), name)
        same = np.equal(*judged_winners(cells.y[both], said[at])).astype(float)
        estimate = np.concatenate([[same.mean()], slopes])
        of_cells = np.column_stack([(same - same.mean()) / len(both), scores]) * n
        influence = np.zeros((n, len(estimate)))
        np.add.at(influence, cells.context[both], of_cells)
        estimates.append(estimate)
        influences.append(influence)
        rows += [(name, effect) for effect in (_AGREEMENT, *columns)]
        counts[name] = len(both)
    none = [np.empty((0, part.shape[1])) for part in influences]
    stacked = stack_influences(influences, none, [np.arange(0)] * len(none))
    clusters = steps.units.clusters
    if clusters is not None and clusters.of_vote is not None:
        clusters = replace(clusters, names=clusters.names[:1], of_vote=None)
    covariance = clustered_covariance(stacked, np.empty((0, len(rows))), clusters, None)
    index = pd.MultiIndex.from_tuples(rows, names=["judge", "effect"])
    joint = JointEstimates(
        np.concatenate(estimates),
        covariance,
        joined_names(rows, ": "),
        "",
        index=index,
        alpha=alpha_or_default(alpha, steps.options.alpha),
        seed=steps.options.seed,
    )
    return JudgeAudit(joint, counts)


def _least_squares(
    design: FloatArray, outcome: FloatArray, names: Sequence[str], judge: str
) -> tuple[FloatArray, FloatArray]:
    """Return slopes without a constant, (p,), and what each row adds to their error, (m, p). Shapes: design (m, p)."""
    size = np.sqrt(np.square(design).mean(axis=0))
    gram = (design / np.where(size > 0, size, 1.0)).T @ (design / np.where(size > 0, size, 1.0)) / len(design)
    if not (size > 0).all() or np.linalg.matrix_rank(gram, hermitian=True, tol=1e-8) < len(names):
        wrong = [name for name, number in zip(names, size, strict=True) if not number > 0] or list(names)
        raise DataError(
            f"judge_audit of {judge!r}: the effects of {listed(wrong)} cannot be told on its {len(design):,} pairs "
            f"with votes, because they do not vary or depend on each other; leave some of them out"
        )
    inverse = np.linalg.inv(design.T @ design)
    slopes = inverse @ (design.T @ outcome)
    return slopes, (design * (outcome - design @ slopes)[:, None]) @ inverse


def _style_of_cells(steps: FitState, names: Sequence[str]) -> FloatArray:
    """Return style differences of the items of each labelled cell, averaged over its votes, (m, r)."""
    data = steps.data
    total = np.zeros((len(data.cells), len(names)))
    if not names:
        return total
    require_columns(names, column_names(steps.source.data), "style=")
    taken = take_columns(steps.source.data, names).iloc[data.row_index].reset_index(drop=True)
    values = read_style_differences(replace(data, columns=Columns(data.columns.available, taken)), names).values
    np.add.at(total, data.vote_cell, values)
    return total / np.bincount(data.vote_cell, minlength=len(total))[:, None]


def _members(
    families: Mapping[str, Sequence[str]] | None, judges: Sequence[str], items: Sequence[str]
) -> dict[str, list[int]]:
    """Return the places of the models of each judge's family."""
    if families is None:
        return {}
    if not isinstance(families, Mapping):
        raise OptionTypeError(
            f"families={shown(families)} is not allowed: give a dictionary from judges to the models of their family"
        )
    for judge in families:
        place_of(list(judges), judge, "judge")
    return {
        judge: [place_of(list(items), name) for name in as_names(models, "families")]
        for judge, models in families.items()
    }
