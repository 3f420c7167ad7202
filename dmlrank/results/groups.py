"""Leaderboards of groups of prompts from one fit, each a result of its own, with the covariance between them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import chi2

from ..data.preferences import FloatArray
from ..estimation.linear_projection import Projected, project_influence
from ..exceptions import DataError, DmlrankWarning, HypothesisError, OptionError, UnknownModelError, listed, nearest
from ..fit.state import Steps
from ..inference.covariance import Covariance
from ..inference.multiple_testing import holm
from ..inference.simultaneous import critical_value
from ..options import check_alpha
from ..plotting.intervals import Intervals, grouped_forest_plot
from ..report.fit_summary import functional_unit, standardised, two_sided
from ..report.groups_summary import group_summary
from ..report.table import Summary
from .context_variables import ContextGroups
from .joint_estimates import JointEstimates, JointQuestions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FEW = 30


@dataclass(frozen=True, slots=True, eq=False)
class GroupFacts:
    """What a group is made of.

    Attributes
    ----------
    name : str
    share : float
        p_g, its (weighted) share of the contexts.
    n_contexts, n_unlabelled, n_comparisons, n_votes, smallest_pair : int
        As in :class:`dmlrank.fit.estimates.Design`, within the group; ``smallest_pair`` may be zero.
    n_clusters : tuple of int
        Clusters that have a part in it, one number per way.
    unseen : tuple of str
        Models without a vote in it.
    plugin, shares : ndarray, shape (K,)
        Plug-in scores and shares of comparisons won.
    effective_contexts : float
        Contexts that the standard errors rest on; the smallest over models.
    """

    name: str
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

    @property
    def n_independent(self) -> int:
        """Labelled contexts, or clusters where these are fewer."""
        return min(self.n_contexts - self.n_unlabelled, *(self.n_clusters or (self.n_contexts,)))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GroupResults(JointQuestions):
    """A leaderboard per group; made by :meth:`RankResults.by`.

    ``groups["coding"]`` is the result of a group, with tests, intervals, rank sets and summary as a fit has them. Tests
    across groups name scores as ``"group: model"``.

    Attributes
    ----------
    variable : str
        The column, or columns, that make the groups.
    whole : RankResults
        The fit.
    joint : JointEstimates
        Scores of all groups with their covariance, group by group.
    facts : tuple of GroupFacts
    """

    variable: str
    whole: Any
    joint: JointEstimates
    facts: tuple[GroupFacts, ...]

    @property
    def groups(self) -> list[str]:
        """Names of the G groups."""
        return [fact.name for fact in self.facts]

    @property
    def models(self) -> list[str]:
        """Names of the K models."""
        return list(self.whole.models)

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

    def __getitem__(self, group: Any) -> Any:
        """The leaderboard of a group, a :class:`RankResults` without data; several columns as a tuple."""
        name = ", ".join(map(str, group)) if isinstance(group, tuple) else str(group)
        if name not in self.groups:
            raise UnknownModelError(
                f"no group {name!r} of {self.variable}{nearest(name, self.groups)} (groups: {listed(self.groups, 25)})"
            )
        return self._view(self.groups.index(name))

    def test_equal(self, models: Sequence[str] | None = None) -> Any:
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
        chosen = self.models if models is None else [models] if isinstance(models, str) else list(models)
        places = [self.whole._place(name) for name in chosen]
        n_groups, n_models = len(self), len(self.models)
        if n_groups < 2:
            raise OptionError(f"{self.variable} has one group, {self.groups[0]!r}: nothing to compare")
        between = np.eye(n_groups)[1:] - np.eye(n_groups)[0]
        matrix = np.kron(between, np.eye(n_models)[places])
        labels = tuple(
            f"{self.groups[g]}: {name} - {self.groups[0]}: {name}" for g in range(1, n_groups) for name in chosen
        )
        joint = self.joint
        zeros = np.zeros(len(matrix))
        return joint.wald((joint.estimate, joint.covariance, joint.names, matrix, zeros, labels, joint.reason))

    def equal_by_model(self) -> pd.DataFrame:
        """For every model, the Wald test of the same score in every group.

        Returns
        -------
        DataFrame
            A row per model: ``statistic``, ``df``, ``p_value`` and ``p_holm`` (family-wise over the models); NaN where
            a score does not vary.
        """
        rows = np.array([self._heterogeneity(j) for j in range(len(self.models))])
        frame = pd.DataFrame(rows, columns=["statistic", "df", "p_value"], index=self.models)
        known = frame["p_value"].notna().to_numpy()
        adjusted = np.full(len(frame), np.nan)
        adjusted[known] = holm(frame["p_value"].to_numpy()[known])
        return frame.assign(df=frame["df"].astype(int), p_holm=adjusted)

    def tidy(self, alpha: float | None = None, method: str = "max-t") -> pd.DataFrame:
        """One row per group and model: group, term, estimate, std_error, statistic, p_value, conf_low, conf_high.

        Intervals are simultaneous over all groups and models; statistics are those of each group's leaderboard.
        """
        limits = self.conf_int(alpha, method)
        z = np.concatenate([standardised(*self._estimates(g, 1.0).against_neutral()) for g in range(len(self))])
        return pd.DataFrame(
            {
                "group": list(self.joint.blocks),
                "term": list(self.joint.models),
                "estimate": self.joint.estimate,
                "std_error": self.joint.covariance.std_errors,
                "statistic": z,
                "p_value": two_sided(z),
                "conf_low": limits["lower"].to_numpy(),
                "conf_high": limits["upper"].to_numpy(),
            }
        )

    def summary(self) -> Summary:
        """Rank, score and standard error of every model in every group, and the tests of equality."""
        return group_summary(self, self._tested_or_none(), self.equal_by_model() if len(self) > 1 else None)

    def plot(self, ax: Axes | None = None, alpha: float | None = None) -> Axes:
        """Forest plot of the scores by group with intervals simultaneous over all of them; needs matplotlib."""
        level = self.joint.alpha if alpha is None else check_alpha(alpha)
        e, limits = self.whole.estimates, self.conf_int(level)
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

    def _together(self) -> JointEstimates:
        return self.joint

    def _view(self, group: int) -> Any:
        e = self._estimates(group, 1.0)
        critical = critical_value(e.covariance, e.alpha)
        return replace(self.whole, estimates=replace(e, critical=critical), steps=None)

    def _estimates(self, group: int, critical: float) -> Any:
        e, fact, n_models = self.whole.estimates, self.facts[group], len(self.models)
        place = slice(group * n_models, (group + 1) * n_models)
        joint = self.joint.covariance
        counts = ("n_contexts", "n_unlabelled", "n_comparisons", "n_votes", "smallest_pair")
        return replace(
            e,
            estimate=self.joint.estimate[place],
            plugin=fact.plugin,
            shares=fact.shares,
            covariance=Covariance(joint.matrix[place, place], e.covariance.basis, fact.n_clusters, joint.note),
            critical=critical,
            judge=None,
            design=replace(e.design, **{name: getattr(fact, name) for name in counts}),
            diagnostics=replace(e.diagnostics, effective_contexts=fact.effective_contexts, second_order=float("nan")),
            part=f"{self.variable} = {fact.name}",
        )

    def _heterogeneity(self, model: int) -> tuple[float, float, float]:
        """Chi-squared statistic, degrees of freedom and p-value of one model's score being the same everywhere."""
        own = np.arange(len(self)) * len(self.models) + model
        between = np.eye(len(self))[1:] - np.eye(len(self))[0]
        gap = between @ self.joint.estimate[own]
        spread = between @ self.joint.covariance.matrix[np.ix_(own, own)] @ between.T
        spectrum = np.linalg.eigvalsh(spread)
        df = len(self) - 1
        if not spectrum[0] > 1e-12 * max(spectrum[-1], 1e-300):
            return np.nan, df, np.nan
        statistic = float(gap @ np.linalg.solve(spread, gap))
        return statistic, df, float(chi2.sf(statistic, df))

    def _tested_or_none(self) -> Any:
        """The test of equality, or the reason why there is none."""
        try:
            return self.test_equal()
        except (HypothesisError, OptionError) as error:
            return str(error)


def make_groups(
    whole: Any, steps: Steps, found: ContextGroups, projected: Projected, covariance: Covariance
) -> GroupResults:
    """Labelled leaderboards of groups from the coefficients on their indicators."""
    e, n_models = whole.estimates, len(whole.models)
    design = np.eye(len(found.names))[found.code]
    wins = project_influence(steps.influence_of(1).by_context(), design, with_blocks=False).estimate.reshape(
        -1, n_models
    )
    facts = tuple(_facts(steps, found, g, projected, wins[g]) for g in range(len(found.names)))
    _check_sizes(found, facts)
    joint = JointEstimates(
        kind="group",
        blocks=tuple(np.repeat(np.array(found.names, dtype=object), n_models).tolist()),
        models=e.models * len(found.names),
        estimate=projected.estimate,
        covariance=covariance,
        reason=e.reason,
        alpha=e.alpha,
        seed=e.design.seed,
    )
    return GroupResults(found.variable, whole, joint, facts)


def _facts(steps: Steps, found: ContextGroups, group: int, projected: Projected, shares: FloatArray) -> GroupFacts:
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
    )


def _clusters_in(steps: Steps, inside: Any) -> tuple[int, ...]:
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
        warnings.warn(
            f"groups of {found.variable} with fewer than {_FEW} labelled prompts or clusters: {', '.join(small)}; "
            f"their standard errors are too small on average",
            DmlrankWarning,
            stacklevel=4,
        )
    unseen = [f"{listed(fact.unseen, 5)} in {fact.name!r}" for fact in facts if fact.unseen]
    if unseen:
        warnings.warn(
            f"no votes on {'; '.join(unseen)}: these scores are what the learner makes of other groups, without a "
            f"correction, and their intervals are too short",
            DmlrankWarning,
            stacklevel=4,
        )
