"""Leaderboards of groups of prompts from one fit, each a result of its own, with the covariance between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import chi2
from statsmodels.stats.contrast import ContrastResults

from .._utils.warning_collection import warn
from ..data.hypotheses import HypothesisLike, LinearHypothesis
from ..data.preferences import FloatArray
from ..data.vote_counts import VoteCounts
from ..estimation.linear_projection import ProjectedInfluence, project_influence
from ..exceptions import DataError, HypothesisError, OptionError, UnknownModelError, listed, nearest
from ..fit.estimates import Estimates
from ..fit.state import FitSteps
from ..inference.covariance import Covariance, clip_to_limits
from ..inference.multiple_testing import holm
from ..inference.simultaneous import critical_value
from ..inference.z_tests import z_statistics
from ..plotting.intervals import Intervals, grouped_forest_plot
from ..report.fit_summary import functional_unit
from ..report.groups_summary import group_summary
from ..report.table import Summary
from .context_variables import ContextGroups
from .critical_values import level_or_default
from .joint_estimates import JointEstimates
from .lookup import model_index, names_or_all

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Result = TypeVar("Result")

_FEW = 30


@dataclass(frozen=True, slots=True, eq=False)
class GroupFacts:
    """What a group is made of.

    Attributes
    ----------
    name : str
    values : tuple of str
        Of the columns that make the groups.
    share : float
        p_g, its (weighted) share of the contexts.
    n_contexts, n_unlabelled, n_comparisons, n_votes, smallest_pair : int
        As in :class:`dmlrank.fit.estimates.FitDescription`, within the group; ``smallest_pair`` may be zero.
    n_clusters : tuple of int
        Clusters that have a part in it, one number per way.
    unseen : tuple of str
        Models without a vote in it.
    plugin, shares : ndarray, shape (K,)
        Plug-in scores and shares of comparisons won.
    effective_contexts : float
        Contexts that the standard errors rest on; the smallest over models.
    votes : VoteCounts
        Votes by model.
    """

    name: str
    values: tuple[str, ...]
    share: float
    n_contexts: int
    n_unlabelled: int
    n_comparisons: int
    n_votes: int
    smallest_pair: int
    n_clusters: tuple[int, ...]
    unseen: tuple[str, ...]
    plugin: FloatArray
    shares: FloatArray
    effective_contexts: float
    votes: VoteCounts

    @property
    def n_independent(self) -> int:
        """Labelled contexts, or clusters where these are fewer."""
        return min(self.n_contexts - self.n_unlabelled, *(self.n_clusters or (self.n_contexts,)))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GroupResults(Generic[Result]):
    """A leaderboard per group; made by :meth:`RankResults.by`.

    ``groups["coding"]`` is the result of a group, with tests, intervals, rank sets and summary as a fit has them. Tests
    across groups name scores as ``"group: model"``.

    Attributes
    ----------
    variable : str
        The column, or columns, that make the groups.
    estimates : Estimates
        Of the fit.
    joint : JointEstimates
        Scores of all groups with their covariance, group by group.
    facts : tuple of GroupFacts
    as_result : callable
        Makes the result of a group from its estimates: :class:`RankResults`.
    """

    variable: str
    estimates: Estimates
    joint: JointEstimates
    facts: tuple[GroupFacts, ...]
    as_result: Callable[[Estimates], Result]

    @property
    def groups(self) -> list[str]:
        """Names of the G groups."""
        return [fact.name for fact in self.facts]

    @property
    def models(self) -> list[str]:
        """Names of the K models."""
        return list(self.estimates.models)

    @property
    def params(self) -> pd.DataFrame:
        """Scores: a row per model, a column per group."""
        return self.joint.table(self.joint.estimate, self.groups)

    @property
    def bse(self) -> pd.DataFrame:
        """Standard errors: a row per model, a column per group."""
        return self.joint.table(self.joint.covariance.std_errors, self.groups)

    @property
    def nobs(self) -> pd.Series:
        """Contexts by group."""
        return pd.Series({fact.name: fact.n_contexts for fact in self.facts}, name="nobs")

    def __len__(self) -> int:
        return len(self.facts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.groups)

    def __getitem__(self, group: object) -> Result:
        """The leaderboard of a group, a :class:`RankResults` without data; several columns as a tuple."""
        values = tuple(map(str, group)) if isinstance(group, tuple) else (str(group),)
        name = next((fact.name for fact in self.facts if fact.values == values), ", ".join(values))
        if name not in self.groups:
            raise UnknownModelError(
                f"no group {name!r} of {self.variable}{nearest(name, self.groups)} (groups: {listed(self.groups, 25)})"
            )
        own = group_estimates(self.estimates, self.joint, self.facts, self.groups.index(name), variable=self.variable)
        return self.as_result(replace(own, critical=critical_value(own.covariance, own.alpha)))

    def cov_params(self) -> pd.DataFrame:
        """Joint covariance, (G K, G K), with (group, model) on both sides."""
        return self.joint.cov_params()

    def conf_int(self, alpha: float | None = None, method: str = "max-t") -> pd.DataFrame:
        """Confidence intervals, simultaneous over all groups and models, or by another method.

        ``alpha``, ``method`` and the columns are those of :meth:`RankResults.conf_int`; a row per group and model.
        """
        return self.joint.conf_int(alpha, method)

    def t_test(self, hypothesis: HypothesisLike, delta: float = 0.0, side: str = "two-sided") -> ContrastResults:
        """z tests of linear combinations of scores, such as ``"coding: gpt-4 - writing: gpt-4"``.

        Parameters are those of :meth:`RankResults.t_test`; columns of a matrix are in the order of :meth:`cov_params`.
        """
        return self.joint.t_test(hypothesis, delta, side)

    def wald_test(self, hypothesis: HypothesisLike) -> ContrastResults:
        """One joint chi-squared test of linear restrictions on scores, see :meth:`RankResults.wald_test`."""
        return self.joint.wald_test(hypothesis)

    def test_equal(self, models: Sequence[str] | None = None) -> ContrastResults:
        """The Wald test of "the same scores in every group".

        Parameters
        ----------
        models : sequence of str, optional
            The models whose scores are compared; all when None.

        Returns
        -------
        statsmodels ContrastResults
            Chi-squared with (G - 1) times the structural rank degrees of freedom: K - 1 per group where the functional
            fixes a combination of the scores.

        Notes
        -----
        The distribution is that of large groups. With one vote per prompt and nothing to find, a test at 5 % has
        rejected 17 % of simulated data with 8 models in 5 groups of 50 prompts, 8 % in groups of 200, and 6 % in
        groups of 500 (docs/groups.md). :meth:`equal_by_model` has fewer restrictions at once.
        """
        chosen = names_or_all(models, self.models)
        places = [model_index(self.models, name) for name in chosen]
        n_groups, n_models = len(self), len(self.models)
        if n_groups < 2:
            raise OptionError(f"{self.variable} has one group, {self.groups[0]!r}: nothing to compare")
        between = np.eye(n_groups)[1:] - np.eye(n_groups)[0]
        matrix = np.kron(between, np.eye(n_models)[places])
        labels = tuple(
            f"{self.groups[g]}: {name} - {self.groups[0]}: {name}" for g in range(1, n_groups) for name in chosen
        )
        return self.joint.wald_test(LinearHypothesis(matrix, np.zeros(len(matrix)), labels))

    def equal_by_model(self) -> pd.DataFrame:
        """For every model, the Wald test of the same score in every group.

        Returns
        -------
        DataFrame
            A row per model: ``statistic``, ``df``, ``p_value`` and ``p_holm`` (family-wise over the models); NaN where
            a score does not vary.
        """
        place = np.arange(len(self.joint.estimate)).reshape(len(self), -1)
        matrix = self.joint.covariance.matrix
        rows = np.array([equality_test(self.joint.estimate[own], matrix[np.ix_(own, own)]) for own in place.T])
        frame = pd.DataFrame(rows, columns=["statistic", "df", "p_value"], index=self.models)
        known = frame["p_value"].notna().to_numpy()
        adjusted = np.full(len(frame), np.nan)
        adjusted[known] = holm(frame["p_value"].to_numpy()[known])
        return frame.assign(df=frame["df"].astype(int), p_holm=adjusted)

    def tidy(self, alpha: float | None = None, method: str = "max-t") -> pd.DataFrame:
        """One row per group and model: group, term, estimate, std_error, statistic, p_value, conf_low, conf_high.

        Intervals are simultaneous over all groups and models; statistics are those of each group's leaderboard.
        """
        each = [
            group_estimates(self.estimates, self.joint, self.facts, g, variable=self.variable) for g in range(len(self))
        ]
        return self.joint.tidy(np.concatenate([z_statistics(*one.against_neutral()) for one in each]), alpha, method)

    def summary(self, title: str | None = None) -> Summary:
        """Return a table of rank, score and standard error of every model in every group, with tests of equality.

        Parameters
        ----------
        title : str, optional
            Stands above the table in place of the default title.

        Returns
        -------
        Summary
            It has ``as_text()``, ``as_html()``, ``as_latex()``, ``as_markdown()`` and ``as_csv()``.
        """
        try:
            equal = self.test_equal()
        except (HypothesisError, OptionError) as error:
            equal = str(error)
        return group_summary(
            self.estimates,
            self.facts,
            self.params.to_numpy(),
            std_errors=self.bse.to_numpy(),
            variable=self.variable,
            equal=equal,
            p_equal=self.equal_by_model()["p_holm"].tolist() if len(self) > 1 else None,
            note=self.joint.covariance.note,
        ).with_title(title)

    def plot(self, ax: Axes | None = None, alpha: float | None = None) -> Axes:
        """Forest plot of the scores by group with intervals simultaneous over all of them; needs matplotlib."""
        level = level_or_default(alpha, self.joint.alpha)
        e, limits = self.estimates, self.conf_int(level)
        order = np.argsort(-e.estimate, kind="stable")
        low, high = (limits[side].to_numpy().reshape(len(self), -1)[:, order] for side in ("lower", "upper"))
        label = f"{functional_unit(e)}, {100 * (1 - level):g} % simultaneous intervals"
        names, scores = [e.models[j] for j in order], self.params.to_numpy().T[:, order]
        intervals = [Intervals(names, *numbers, label) for numbers in zip(scores, low, high, strict=True)]
        return grouped_forest_plot(intervals, self.groups, e.neutral, variable=self.variable, ax=ax)

    def __str__(self) -> str:
        return self.summary().as_text()

    def __repr__(self) -> str:
        return f"<GroupResults: {len(self)} groups by {self.variable}, {len(self.models)} models>"

    def _repr_html_(self) -> str:
        return self.summary().as_html()


def group_estimates(
    whole: Estimates, joint: JointEstimates, facts: Sequence[GroupFacts], group: int, *, variable: str
) -> Estimates:
    """The estimates of one group, as a fit has them; the critical value is that of the whole.

    Parameters
    ----------
    whole : Estimates
        Of the fit.
    joint : JointEstimates
        Scores of all groups, group by group.
    facts : sequence of GroupFacts
    group : int
        Place of the group.
    variable : str
        What makes the groups.
    """
    fact, n_models = facts[group], len(whole.models)
    place = slice(group * n_models, (group + 1) * n_models)
    covariance = joint.covariance
    description = replace(
        whole.description,
        n_contexts=fact.n_contexts,
        n_unlabelled=fact.n_unlabelled,
        n_comparisons=fact.n_comparisons,
        n_votes=fact.n_votes,
        smallest_pair=fact.smallest_pair,
    )
    return replace(
        whole,
        estimate=joint.estimate[place],
        plugin=fact.plugin,
        shares=fact.shares,
        covariance=Covariance(
            covariance.matrix[place, place], whole.covariance.basis, fact.n_clusters, covariance.note
        ),
        judge=None,
        votes=fact.votes,
        description=description,
        diagnostics=replace(whole.diagnostics, effective_contexts=fact.effective_contexts, second_order=float("nan")),
        part=f"{variable} = {fact.name}",
    )


def equality_test(estimate: FloatArray, covariance: FloatArray) -> tuple[float, float, float]:
    """Chi-squared statistic, degrees of freedom and p-value of equal means, NaN where these do not vary.

    Parameters
    ----------
    estimate : ndarray, shape (G,)
    covariance : ndarray, shape (G, G)

    Examples
    --------
    >>> equality_test(np.array([0.0, 1.0]), np.diag([0.5, 0.5]))[:2]
    (1.0, 1)
    """
    df = len(estimate) - 1
    between = np.eye(df + 1)[1:] - np.eye(df + 1)[0]
    gap = between @ estimate
    spread = between @ covariance @ between.T
    spectrum = np.linalg.eigvalsh(spread)
    if not spectrum[0] > 1e-12 * max(spectrum[-1], 1e-300):
        return np.nan, df, np.nan
    statistic = float(gap @ np.linalg.solve(spread, gap))
    return statistic, df, float(chi2.sf(statistic, df))


def make_groups(
    whole: Estimates,
    steps: FitSteps,
    found: ContextGroups,
    *,
    projected: ProjectedInfluence,
    covariance: Covariance,
    as_result: Callable[[Estimates], Result],
) -> GroupResults[Result]:
    """Labelled leaderboards of groups from the coefficients on their indicators, with the covariance of these."""
    n_models = len(whole.models)
    design = np.eye(len(found.names))[found.code]
    wins = project_influence(steps.influence_of("win_share").by_context(), design, with_blocks=False).estimate.reshape(
        -1, n_models
    )
    facts = tuple(_facts(steps, found, g, projected, np.clip(wins[g], 0.0, 1.0)) for g in range(len(found.names)))
    _check_sizes(found, facts)
    estimate, covariance = clip_to_limits(projected.estimate, covariance, whole.limits)
    joint = JointEstimates.of_blocks("group", found.names, estimate, covariance, whole)
    return GroupResults(found.variable, whole, joint, facts, as_result)


def _facts(
    steps: FitSteps, found: ContextGroups, group: int, projected: ProjectedInfluence, shares: FloatArray
) -> GroupFacts:
    data, cells = steps.data, steps.data.cells
    inside = found.code == group
    weight = np.ones(data.n_contexts) if steps.context_weight is None else steps.context_weight
    own = cells.only(inside[cells.context])
    votes = np.zeros((data.n_items, data.n_items))
    np.add.at(votes, (own.first, own.second), own.n_votes)
    votes += votes.T
    labelled = np.unique(own.context)
    n_models = data.n_items
    phi = projected.centred[:, group * n_models : (group + 1) * n_models]
    square = np.square(phi).sum(axis=0)
    effective = square**2 / np.maximum((phi**4).sum(axis=0), 1e-300)
    return GroupFacts(
        name=found.names[group],
        values=found.values[group],
        share=float(weight[inside].sum() / weight.sum()),
        n_contexts=int(inside.sum()),
        n_unlabelled=int(inside.sum()) - len(labelled),
        n_comparisons=len(own),
        n_votes=int(own.n_votes.sum()),
        smallest_pair=int(votes[steps.setup.graph.edges].min()),
        n_clusters=_clusters_in(steps, inside),
        unseen=tuple(name for name, count in zip(data.items, votes.sum(axis=0), strict=True) if count == 0),
        plugin=projected.plugin.reshape(-1, n_models)[group],
        shares=shares,
        effective_contexts=float(effective[square > 0].min(initial=np.inf)),
        votes=VoteCounts.of(np.triu(votes).astype(np.int64), steps.setup.graph),
    )


def _clusters_in(steps: FitSteps, inside: NDArray[np.bool_]) -> tuple[int, ...]:
    clusters = steps.clusters
    if clusters is None:
        return ()
    counts = [len(np.unique(clusters.prompt[inside]))]
    if clusters.other is not None:
        counts.append(len(np.unique(clusters.other[inside])))
    if steps.annotator is not None:
        own = steps.annotator[inside[steps.influence.by_context().block_context]]
        counts.append(len(np.unique(own[own >= 0])))
    return tuple(counts)


def _check_sizes(found: ContextGroups, facts: Sequence[GroupFacts]) -> None:
    """Raise for groups without labels; warn of small ones, and of models that nobody has voted on in a group."""
    empty = [fact for fact in facts if fact.n_contexts - fact.n_unlabelled < 2]
    if empty:
        seen = ", ".join(f"{fact.name!r} ({fact.n_contexts - fact.n_unlabelled})" for fact in empty)
        raise DataError(
            f"by(): groups of {found.variable} with fewer than two labelled prompts have no leaderboard: {seen}; merge "
            f"them with others in the data"
        )
    small = [f"{fact.name!r} ({fact.n_independent})" for fact in facts if fact.n_independent < _FEW]
    if small:
        warn(
            f"groups of {found.variable} with fewer than {_FEW} labelled prompts or clusters: {', '.join(small)}; "
            f"their standard errors are too small on average",
            stacklevel=5,
        )
    unseen = [f"{listed(fact.unseen, 5)} in {fact.name!r}" for fact in facts if fact.unseen]
    if unseen:
        warn(
            f"no votes on {'; '.join(unseen)}: these scores are what the learner makes of other groups, without a "
            f"correction, and their intervals are too short",
            stacklevel=5,
        )
