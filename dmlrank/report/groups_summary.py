"""Tables of leaderboards by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from statsmodels.stats.contrast import ContrastResults

from .._utils.number_text import decimals, p_value_clause, p_value_text, score_text
from ..data.preferences import FloatArray
from ..fit.estimates import Estimates
from ..inference.ranks import ranks_of
from .fit_summary import covariance_words, functional_unit
from .table import Summary

# Independent labels that a group needs for each free score until the chi-squared distribution of the test of equality
# is good enough: with 25 it rejects true hypotheses at 5 % in up to 8 % of simulated data (docs/groups.md).
_PER_SCORE = 25


class GroupSize(Protocol):
    """What the table says of the size of a group."""

    @property
    def name(self) -> str:
        """Name of the group."""
        ...

    @property
    def n_contexts(self) -> int:
        """Its contexts."""
        ...

    @property
    def n_votes(self) -> int:
        """Its votes."""
        ...

    @property
    def n_independent(self) -> int:
        """Its labelled contexts, or clusters where these are fewer."""
        ...

    @property
    def smallest_pair(self) -> int:
        """Votes on its least labelled pair."""
        ...

    @property
    def unseen(self) -> tuple[str, ...]:
        """Models without a vote in it."""
        ...


def group_summary(
    fit: Estimates,
    groups: Sequence[GroupSize],
    scores: FloatArray,
    *,
    std_errors: FloatArray,
    variable: str,
    equal: ContrastResults | str,
    p_equal: Sequence[float] | None,
    note: str,
) -> Summary:
    """Rank, score and standard error of every model (rows) in every group (columns).

    Parameters
    ----------
    fit : Estimates
        Over all prompts.
    groups : sequence of GroupSize
        The G groups.
    scores, std_errors : ndarray, shape (K, G)
    variable : str
        What the groups are groups of.
    equal : ContrastResults or str
        The test of the same scores in every group, or why there is none.
    p_equal : sequence of K floats, or None
        Adjusted p-values of the same for each model.
    note : str
        What the reader has to know of the joint covariance, or nothing.
    """
    digits = decimals(std_errors.ravel(), fewest=3 if fit.scale.natural else 1)
    columns = [_column(fit.estimate, fit.covariance.std_errors, digits)]
    columns += [_column(scores[:, g], std_errors[:, g], digits) for g in range(len(groups))]
    heads = ["all", *(group.name for group in groups)]
    if p_equal is not None:
        columns.append([p_value_text(p) for p in p_equal])
        heads.append("P equal")
    order = np.argsort(-fit.estimate, kind="stable")
    rows = tuple((fit.models[j], *(column[j] for column in columns)) for j in order)
    smallest = min(groups, key=lambda group: group.n_contexts)
    header = (
        ("Functional:", functional_unit(fit), "Cov. Type:", covariance_words(fit)),
        ("Groups:", f"{len(groups)} of {variable}", "No. Contexts:", f"{fit.description.n_contexts:,}"),
        ("Estimator:", fit.estimator, "Smallest group:", f"{smallest.name}, {smallest.n_contexts:,} contexts"),
    )
    notes = (*_notes(fit, groups, equal), *([f"{note.capitalize()}."] if note else []))
    return Summary(f"Scores by {variable}", header, tuple((head, 1) for head in heads), rows, notes)


def _column(scores: FloatArray, std_errors: FloatArray, digits: int) -> list[str]:
    shown = zip(ranks_of(scores), scores, std_errors, strict=True)
    return [f"{rank}. {score_text(score, error, digits)}" for rank, score, error in shown]


def _notes(fit: Estimates, groups: Sequence[GroupSize], equal: ContrastResults | str) -> list[str]:
    sizes = ", ".join(f"{group.name} {group.n_contexts:,} contexts ({group.n_votes:,} votes)" for group in groups)
    if isinstance(equal, str):
        test = f"No test of the same scores in every group: {equal}."
    else:
        test = (
            f"The same scores in every group: chi2({equal.df_denom:g}) = {float(equal.statistic):.1f}, "
            f"P {p_value_clause(float(equal.pvalue))}. P equal: the same for one model, Holm over the models."
        )
        least = min(groups, key=lambda group: group.n_independent)
        needed = _PER_SCORE * fit.covariance.basis.shape[1]
        if least.n_independent < needed:
            test += (
                f" With fewer than {needed} labelled prompts or clusters in a group ({least.name}: "
                f"{least.n_independent}) the first test rejects too often."
            )
    notes = [
        "Rank, score and (standard error) by group. Scores of all groups come from one fit; the mean of the groups by "
        f"their share is the score over all prompts. {fit.reason.capitalize()}, in every group.",
        test,
        f"Groups: {sizes}.",
    ]
    thin = [f"{group.name} ({', '.join(group.unseen)})" for group in groups if group.unseen]
    if thin:
        notes.append(
            f"Models without a vote in a group, whose score there is what the learner guesses: {'; '.join(thin)}."
        )
    bare = [group.name for group in groups if group.smallest_pair == 0]
    if bare:
        notes.append(f"Groups in which some compared pair has no vote: {', '.join(bare)}; its part is the learner's.")
    return notes
