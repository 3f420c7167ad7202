"""Judges of votes and of grades: agreement with humans, what they are worth, and whom or what they prefer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from .._utils.argument_checks import as_names, check_type, place_of
from .._utils.tasks_and_threads import one_thread
from ..data.columns import Columns
from ..data.frames import column_names, require_columns, take_columns
from ..data.outcomes import exchange_wins
from ..data.preferences import FloatArray
from ..data.style_columns import read_style_differences
from ..estimation.influence import StackedInfluence
from ..estimation.joint_influence import side_by_side
from ..exceptions import DataError, HypothesisError, JudgeError, listed
from ..fit.estimates import Estimates
from ..fit.fit_covariance import clustered_covariance
from ..fit.post_estimation import estimate_from_verdicts, judged_winners
from ..fit.state import FitState, GradeFigures, JudgeFigures
from ..inference.covariance import Covariance, free_basis
from ..inference.score_limits import normal_critical
from ..inference.simultaneous import Simultaneous
from ..inference.wald import WaldTestResults, z_statistics
from ..report.phrases import counted, enumerated, grades_sentences
from ..tables.summary_table import Summary, decimals, fixed_text, p_value_clause, p_value_text
from .joint_estimates import JointEstimates, JointResults
from .requirements import Needs, TitledTable, joined_names, members, require_intervals, require_steps
from .units_and_views import alpha_of

_AGREEMENT, _STRENGTH, _POSITION, _FAMILY = "agreement", "strength", "position", "family"
# Effects that are no preferences.
_NO_PREFERENCES = (_AGREEMENT, _STRENGTH)


_ANSWERS = ((0, "first"), (1, "second"), (2, "tie"))
_HEADS = ("pairs", "agree", "kappa", "decided", "agree dec.", "kappa dec.", "first", "second", "tie")


_OF_JUDGES = Needs(
    one_look="its intervals hold for one look only",
    data=True,
    no_means="it compares verdicts of judges with votes, and scores have none",
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class JudgeReport(TitledTable):
    """How often judges agree with humans, and how much precision their verdicts add; :attr:`RankResults.judge`.

    Attributes
    ----------
    estimates : Estimates
        The estimates of the fit.
    steps : FitState or None
        Data and learners of the fit.
    simultaneous : MaxT or AllLooks
        How wide simultaneous statements of the fit are.

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

    estimates: Estimates
    steps: FitState | None
    simultaneous: Simultaneous

    __repr__ = TitledTable.__str__

    def __dir__(self) -> list[str]:
        return members(self)

    @property
    def figures(self) -> JudgeFigures:
        """The numbers of the report."""
        assert self.estimates.judge is not None
        return self.estimates.judge

    @property
    def agreement(self) -> pd.DataFrame:
        """Agreement and Cohen's kappa with the human votes, with ties and without: a row per judge.

        Where a pair has several votes, the category with most votes counts, or a tie where two have equally many; a
        verdict of probabilities counts as its most probable category.
        """
        f = self.figures
        numbers = {"pairs": f.compared, "agreement": f.agreement, "kappa": f.kappa}
        columns = {f"{name}{of}": n[:, i] for i, of in enumerate(("", "_decided")) for name, n in numbers.items()}
        return pd.DataFrame(columns, index=pd.Index(f.names, name="judge"))

    @property
    def position(self) -> pd.DataFrame:
        """Shares of verdicts for the answer shown first, the answer shown second, and ties: a row per judge.

        Columns that start with ``human_`` have the same shares of the human votes on the pairs that the judge saw.
        ``both_orders`` counts the pairs judged in both display orders, ``consistent`` those with the same winner.
        """
        f = self.figures
        shares = {"": f.position, "human_": f.human_position}
        columns = {f"{whose}{name}": share[:, i] for whose, share in shares.items() for i, name in _ANSWERS}
        frame = pd.DataFrame(columns, index=pd.Index(f.names, name="judge"))
        return frame.assign(both_orders=f.both_orders[:, 0], consistent=f.both_orders[:, 1])

    @property
    def variance_ratio(self) -> pd.Series:
        """Variance with the judge divided by the variance without the judge, by model; NaN where the latter is zero."""
        f = self.figures
        ratio = np.divide(f.errors, f.alone_errors, out=np.full(len(f.errors), np.nan), where=f.alone_errors > 0)
        return pd.Series(np.square(ratio), index=list(self.estimates.names), name="variance_ratio")

    @property
    def worth(self) -> float:
        """How many more human votes would give the fit without the judge the same precision; infinite where none do."""
        return self.figures.worth

    @_OF_JUDGES
    def table(self, alpha: float | None = None) -> pd.DataFrame:
        """Return scores from humans alone, from humans and judges, and from verdicts alone, side by side.

        The scores from verdicts alone treat verdicts (or the mean verdict of several judges) as if they were votes:
        their interval is about the judge's ranking. ``judge_differs`` says where they are further from the estimate
        than the errors of both allow (without a correlation).

        Parameters
        ----------
        alpha : float, optional
            One minus the level of each interval; the fit's when None.

        Returns
        -------
        DataFrame
            A row per model: ``humans humans_se both both_se judge judge_se judge_lower judge_upper judge_differs``.
            ``humans`` is the score from human votes alone, ``both`` the score of this fit (human votes and verdicts),
            ``judge`` the score from verdicts alone; ``_se`` marks standard errors.
        """
        e, f, z = self.estimates, self.figures, normal_critical(alpha_of(self.estimates, alpha) / 2)
        require_intervals(e, "judge.table()")
        influence, covariance = estimate_from_verdicts(require_steps(e, self.steps, "judge.table()"))
        from_verdicts, critical = (influence.estimate, covariance.std_errors), e.covariance.from_normal(z)
        return _side_by_side(e, (f.alone, f.alone_errors), from_verdicts, critical, covariance.from_normal(z))

    @_OF_JUDGES
    def audit(
        self,
        families: Mapping[str, Sequence[str]] | None = None,
        style: str | Sequence[str] = (),
        alpha: float | None = None,
    ) -> JudgeAudit:
        """Say how often judges agree with humans, and what they prefer more than humans on the same pairs.

        Parameters
        ----------
        families : mapping, optional
            For judges, the models of the judge's own family: ``{"gpt4": ["gpt-4", "gpt-3.5-turbo"]}``.
        style : str or sequence of str
            Columns of the data with style differences, first answer minus second answer, such as ``"log_length"``
            (:func:`dmlrank.data.style_columns`).
        alpha : float, optional
            One minus the joint level; the fit's when None.

        Returns
        -------
        JudgeAudit
            ``table()`` with agreement and preferences of each judge, intervals and p-values for all of them at once;
            ``test()``, a joint test of all preferences.

        Raises
        ------
        JudgeError, DataError
            If a judge has no verdict on a pair with votes, or an effect does not vary on the pairs of a judge.

        Notes
        -----
        On every pair with votes and a verdict, the human share of wins of the first answer is subtracted from the
        judge's. Least squares relate this excess to position (1 for the answer that the judge was shown first), style
        differences, family (1 where only the first answer is of the judge's family, -1 where only the second is), and
        the human preference that the fit expects without the judge: a judge who calls more ties would otherwise seem to
        dislike the better models. Standard errors are those of prompts, or of their clusters.

        Examples
        --------
        >>> import numpy as np
        >>> import dmlrank as dr
        >>> battles, rng = dr.datasets.simulate_arena(n=2000, rng=0), np.random.default_rng(1)
        >>> battles["verdict"] = battles["winner"].where(rng.random(2000) < 0.8, "model_a")
        >>> battles["winner"] = battles["winner"].where(rng.random(2000) < 0.6)
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", battles, judge="verdict", position_bias=False, rng=0)
        >>> res.judge.audit().table()[["effect", "estimate"]].round(2).to_numpy().tolist()
        [['agreement', 0.89], ['strength', -0.24], ['position', 0.09]]
        """
        return audit_judges(
            require_steps(self.estimates, self.steps, "judge.audit()"), alpha_of(self.estimates, alpha), families, style
        )

    def _table(self) -> Summary:
        f, rows = self.figures, []
        for name, compared, agreement, kappa, *positions in zip(
            f.names, f.compared, f.agreement, f.kappa, f.position, f.human_position, strict=True
        ):
            # All pairs, and pairs that are no tie.
            agreed = [(f"{n:,}", f"{a:.3f}", f"{k:.3f}") for n, a, k in zip(compared, agreement, kappa, strict=True)]
            shares, of_humans = (
                [""] * 3 if np.isnan(position).any() else [f"{share:.2f}" for share in position]
                for position in positions
            )
            rows.append((name, *agreed[0], *agreed[1], *shares))
            rows.append(("human votes", *[""] * 6, *of_humans))
        header = (("Judged pairs:", f"{f.n_verdicts:,}", "Without a human label:", f"{f.n_unlabelled:,}"),)
        columns = tuple((head, 1) for head in _HEADS)
        return Summary("Judges", header, columns, tuple(rows), tuple(self._notes()), row_head="judge")

    def _notes(self) -> list[str]:
        """Return the notes: columns, precision gained, consistency between display orders, log-loss."""
        f = self.figures
        ratio = float(np.nanmean(self.variance_ratio))
        variance = f"The variances of the scores with the verdicts are on average {ratio:.2f} times those without."
        gain = f"The gain is equivalent to about {f.worth:,.0f} more human votes; {f.n_votes:,} human votes are used."
        if f.worth < 0:
            gain = "The verdicts add no precision."
        elif np.isinf(f.worth):
            gain = f"No number of human votes beyond these {f.n_votes:,} on these prompts would reach this precision."
        notes = [
            '"agree" is the share of pairs on which the judge and the human votes have the same winner, "kappa" is '
            'Cohen\'s kappa; "decided" and "dec." are about pairs without a tie of either. "first", "second" and '
            '"tie" are shares of verdicts; the row "human votes" has those of the votes on the judge\'s pairs.',
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
            f"Out-of-fold log-loss of the human labels: {without:.4f} without the judge, {mu:.4f} for the outcome "
            f"model that uses the judge, {given_verdict:.4f} given features and verdict."
        )
        return notes


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class JudgeAudit(JointResults, TitledTable):
    """Agreement of judges with humans, and what they prefer more than humans; :meth:`JudgeReport.audit`.

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
            share, which has no test. ``strength`` is how much more decided the judge is: -0.2 says that preferences for
            better models are 20 % weaker than those of humans. The others are in votes: 0.05 says that of 100 pairs the
            judge gives 5 wins more than humans did.
        """
        joint = self.joint
        is_tested = joint.index.get_level_values("effect") != _AGREEMENT
        z = z_statistics(joint.estimate, joint.covariance.std_errors)
        frame = self._tidy(z, alpha, "max-t").rename(columns={"term": "effect"})
        # Intervals of all rows hold together, and p-values are of the same maximum.
        frame["p_adjusted"] = frame["p_adjusted"].where(is_tested)
        return frame[["judge", "effect", "estimate", "std_error", "conf_low", "conf_high", "p_adjusted"]]

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
        rows = tuple(
            (judge, effect, *(fixed_text(number, digits) for number in numbers), "" if np.isnan(p) else p_value_text(p))
            for judge, effect, *numbers, p in table.itertuples(index=False, name=None)
        )
        heads = (("effect", 1), ("estimate", 1), ("std err", 1), ("[interval]", 2), ("P", 1))
        header = tuple((f"{name}:", f"{counted(count, 'pair')} with votes") for name, count in self.pairs.items())
        notes = tuple(self._sentences())
        return Summary("What Judges Prefer", header, heads, rows, notes, row_head="judge", text_columns=(1,))

    def _sentences(self) -> list[str]:
        """Return what the numbers are, and the joint test of each judge."""
        level = f"{100 * (1 - self.joint.alpha):g} %"
        texts = [
            f'"agreement" is the share of pairs with the same winner. The others are what the judge prefers more than '
            f'humans, in votes: 0.05 means 5 wins more of 100; "strength": how much more decided the judge is between '
            f"better and worse models. Intervals ({level}) and p-values hold for all rows at once."
        ]
        for name in self.pairs:
            try:
                test = self.test(name)
                found = f"{test.figures}, P {p_value_clause(float(test.pvalue))}"
            except HypothesisError as error:
                found = f"cannot be tested: {error}"
            effects = self.joint.index[self.joint.index.get_level_values("judge") == name].get_level_values("effect")
            tested = enumerated([effect for effect in effects if effect not in _NO_PREFERENCES])
            texts.append(f"{name}: test that it prefers nothing more than humans ({tested}): {found}.")
        return texts

    def __repr__(self) -> str:
        return f"<JudgeAudit: {counted(len(self.pairs), 'judge')}, {counted(len(self.joint.names), 'estimate')}>"


@one_thread()
def audit_judges(
    steps: FitState, alpha: float, families: Mapping[str, Sequence[str]] | None, style: str | Sequence[str]
) -> JudgeAudit:
    """Return the audit of a fit's judges, see :meth:`JudgeReport.audit`."""
    verdicts, data = steps.verdicts, steps.data
    assert verdicts is not None
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
    stacked = side_by_side([StackedInfluence(influence) for influence in influences])
    covariance = clustered_covariance(stacked, np.empty((0, len(rows))), steps.units.clusters, None)
    index = pd.MultiIndex.from_tuples(rows, names=["judge", "effect"])
    joined, seed = joined_names(rows, ": "), steps.options.seed
    joint = JointEstimates(np.concatenate(estimates), covariance, joined, "", index=index, alpha=alpha, seed=seed)
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
            f"judge.audit() of {judge!r}: the effects of {listed(wrong)} cannot be told on its {len(design):,} pairs "
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
    check_type("families", families, Mapping, "a dictionary from judges to the models of their family")
    for judge in families:
        place_of(list(judges), judge, "judge")
    members = {judge: as_names(models, "families") for judge, models in families.items()}
    return {judge: [place_of(list(items), name) for name in names] for judge, names in members.items()}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GradeReport(JointResults, TitledTable):
    """How judges of all answers compare with the grades of a few; :attr:`RankResults.judge` of a table of scores.

    :meth:`conf_int` has joint intervals of whom the judge favours.

    Attributes
    ----------
    estimates : Estimates
        The estimates of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dmlrank as dr
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.normal(size=(300, 1)) + rng.normal(size=(300, 2)) + [0.0, 0.5]
    >>> answers = pd.DataFrame({"prompt": np.repeat(np.arange(300), 2), "model": ["a", "b"] * 300})
    >>> answers["judge_score"] = (truth + 0.5 * rng.normal(size=(300, 2))).ravel()
    >>> answers["grade"] = np.where(rng.random((300, 1)) < 0.2, truth > 0, np.nan).ravel()
    >>> res = dr.dml_rank("grade ~ 1 | model", answers, context="prompt", judge="judge_score", rng=0)
    >>> bool((res.judge.models["worth"] > res.judge.models["graded"]).all())
    True
    """

    estimates: Estimates

    __repr__ = TitledTable.__str__

    @property
    def figures(self) -> GradeFigures:
        """The numbers of the report."""
        assert self.estimates.grades is not None
        return self.estimates.grades

    @property
    def joint(self) -> JointEstimates:
        """Whom the judge favours, with its covariance."""
        e, g = self.estimates, self.figures
        k, factor = len(e.names), e.scale.factor
        basis = free_basis(np.ones((1, k)), k)
        covariance = Covariance(g.favour_covariance * factor**2, basis, df=e.covariance.df)
        return JointEstimates.by_block(pd.Index(e.names, name="model"), g.favour * factor, covariance, e, "")

    @property
    def models(self) -> pd.DataFrame:
        """What is known of each model, a row each.

        ``answers``, and how many of them are ``graded`` and ``judged``; the mean ``grade`` that the fit estimates, and
        ``judge``, the mean of the line a + b J through all graded answers (J is the judge's score). ``favour`` is how
        much higher the judge places the model than people do, in grades and compared with the mean of all models, with
        limits that hold jointly. ``correlation`` is that of grades and judge, ``worth`` the number of grades that would
        be as precise without a judge (from 20 grades on).
        """
        e, g = self.estimates, self.figures
        limits = self.conf_int()
        columns = {
            "answers": g.answers,
            "graded": g.graded,
            "judged": g.judged,
            "grade": e.estimate,
            "judge": e.scale.of(g.judge),
            "favour": self.joint.estimate,
            "lower": limits["lower"].to_numpy(),
            "upper": limits["upper"].to_numpy(),
            "correlation": g.correlation,
            "worth": g.worth,
        }
        return pd.DataFrame(columns, index=self.joint.index)

    @property
    def explained(self) -> pd.Series:
        """Share of the variance of grades that is predicted out of fold: by each judge, and by all that is known."""
        return pd.Series(self.figures.explained, [*self.figures.names, "all"], name="explained")

    def table(self, alpha: float | None = None) -> pd.DataFrame:
        """Return estimates from people alone, from people and judges, and from judges alone, side by side.

        Parameters
        ----------
        alpha : float, optional
            One minus the level of each interval; the fit's when None.

        Returns
        -------
        DataFrame
            The columns of :meth:`JudgeReport.table`. ``humans`` is the mean of the grades that are there, ``both`` the
            estimate of the fit; ``judge`` is the mean of the line a + b J through all graded answers, and its interval
            is about what the judge would say of all answers.
        """
        e, g = self.estimates, self.figures
        critical = e.covariance.from_normal(float(normal_critical(alpha_of(e, alpha) / 2)))
        return _side_by_side(e, (g.alone, g.alone_errors), (g.judge, g.judge_errors), critical, critical)

    def _table(self) -> Summary:
        models, g = self.models, self.figures
        digits = decimals(self.estimates.covariance.std_errors, fewest=3)

        def text(number: float, places: int) -> str:
            return "" if np.isnan(number) else fixed_text(number, places)

        rows = tuple(
            (name, f"{row[0]:,}", f"{row[1]:,}", *(text(v, digits) for v in row[3:8]), text(row[8], 2), text(row[9], 0))
            for name, *row in models.itertuples(name=None)
        )
        heads = tuple((head, 1) for head in ("answers", "graded", "grade", "judge", "favour"))
        heads = (*heads, ("[interval]", 2), ("corr.", 1), ("worth", 1))
        shares = zip(("together", *g.names) if len(g.names) > 1 else ("judge",), np.roll(g.explained, 1), strict=False)
        header = tuple((f"Explained, {name}:", f"{share:.2f}") for name, share in shares)
        note = (
            '"judge" is the mean of the line through all graded answers that turns judge scores into grades. "favour" '
            "is how much higher the judge places a model than people do, compared with the mean of all models; its "
            'intervals hold jointly. "corr.": of grades and judge; "worth" grades would be as precise '
            "without a judge."
        )
        notes = (*grades_sentences(self.estimates), note)
        return Summary("Grades and Judge", header, heads, rows, notes, row_head="model")


def _side_by_side(
    e: Estimates,
    alone: tuple[FloatArray, FloatArray],
    judge: tuple[FloatArray, FloatArray],
    critical: float,
    critical_of_judge: float,
) -> pd.DataFrame:
    """Return the frame that ``table()`` of a report documents, from estimates with their errors, (K,) each."""
    score, error = e.scale.of(judge[0]), judge[1] * e.scale.factor
    half_width, of_both = critical_of_judge * error, critical * e.covariance.std_errors
    columns = {
        "humans": e.scale.of(alone[0]),
        "humans_se": alone[1] * e.scale.factor,
        "both": e.estimate,
        "both_se": e.covariance.std_errors,
        "judge": score,
        "judge_se": error,
        "judge_lower": score - half_width,
        "judge_upper": score + half_width,
        "judge_differs": np.abs(score - e.estimate) > np.hypot(half_width, of_both),
    }
    return pd.DataFrame(columns, index=list(e.names))
