"""Tables of leaderboards by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .._utils.number_text import decimals, fewest_decimals, p_value_clause, p_value_text, score_text
from ..data.preferences import FloatArray
from ..fit.estimates import Estimates
from ..inference.ranks import ranks_of
from ..inference.wald import WaldTestResults
from ..tables.summary_table import Summary
from .fit_notes import doubt_note
from .fit_summary import covariance_words, functional_unit
from .sentences import as_sentence
from .shown_models import ShownModels

# Labelled prompts or clusters that a group needs for each free score before the chi-squared distribution approximates
# the test of equality well: with 25, a 5 % test rejects true hypotheses in up to 8 % of simulations (docs/groups.md).
_PER_SCORE = 25


class GroupSize(Protocol):
    """The size of a group, as the table shows it."""

    @property
    def name(self) -> str:
        """Name of the group."""
        ...

    @property
    def n_contexts(self) -> int:
        """Number of contexts."""
        ...

    @property
    def n_votes(self) -> int:
        """Number of votes."""
        ...

    @property
    def n_independent(self) -> int:
        """Number of labelled contexts, or of clusters where these are fewer."""
        ...

    @property
    def smallest_pair(self) -> int:
        """Votes on the pair with the fewest votes in the group."""
        ...

    @property
    def unseen(self) -> tuple[str, ...]:
        """Models without a vote in the group."""
        ...


def group_summary(
    fit: Estimates,
    groups: Sequence[GroupSize],
    scores: FloatArray,
    *,
    std_errors: FloatArray,
    variable: str,
    equality: WaldTestResults | str,
    p_equal: Sequence[float] | None,
    note: str,
    shown: ShownModels,
    is_partition: bool = True,
    left_out: Sequence[tuple[str, str]] = (),
) -> Summary:
    """Build a table with rank, score and standard error of every model (rows) in every group (columns).

    Shapes: scores, std_errors (K, G).
    """
    digits = decimals(std_errors.ravel(), fewest=fewest_decimals(fit.scale.natural))
    columns = [_column(fit.estimate, fit.covariance.std_errors, digits)]
    columns += [_column(scores[:, g], std_errors[:, g], digits) for g in range(len(groups))]
    heads = ["all", *(group.name for group in groups)]
    if p_equal is not None:
        columns.append([p_value_text(p) for p in p_equal])
        heads.append("P equal")
    rows = tuple((fit.models[j], *(column[j] for column in columns)) for j in shown.places)
    smallest = min(groups, key=lambda group: group.n_contexts)
    header = (
        ("Functional:", functional_unit(fit), "Cov. Type:", covariance_words(fit)),
        ("Groups:", f"{len(groups)} of {variable}", "No. Prompts:", f"{fit.description.n_contexts:,}"),
        ("Estimator:", fit.estimator, "Smallest group:", f"{smallest.name}, {smallest.n_contexts:,} prompts"),
    )
    notes = (
        *_notes(fit, groups, equality, is_partition=is_partition),
        *left_out_groups_note(left_out),
        *([as_sentence(note)] if note else []),
        *doubt_note(fit),
    )
    table = Summary(f"Scores by {variable}", header, tuple((head, 1) for head in heads), rows, notes)
    return table.with_notes(shown.note("Ranks, tests and adjusted p-values"))


def _column(scores: FloatArray, std_errors: FloatArray, digits: int) -> list[str]:
    """Return the cells of a group: rank, score and standard error."""
    cells = zip(ranks_of(scores), scores, std_errors, strict=True)
    return [f"{rank}. {score_text(score, error, digits)}" for rank, score, error in cells]


def left_out_groups_note(left_out: Sequence[tuple[str, str]]) -> list[str]:
    """Return the note on groups without scores, each with its reason; no note where there are none."""
    if not left_out:
        return []
    return [f"These groups have no scores: {'; '.join(f'{name} ({reason})' for name, reason in left_out)}."]


def _relation_to_all_prompts(fit: Estimates, is_partition: bool) -> str:
    """Say how the scores of the groups and the scores over all prompts are related."""
    if not is_partition:
        return (
            "Groups may overlap: a prompt counts in each of its groups, and tests between groups take account of "
            "prompts that groups share."
        )
    if fit.averages_preferences:
        return (
            "Scores in a group are computed from the mean preferences of the group, so that their mean over groups is "
            "not the score over all prompts."
        )
    return "The mean of the groups' scores, weighted by their shares of the prompts, is the score over all prompts."


def _notes(
    fit: Estimates, groups: Sequence[GroupSize], equality: WaldTestResults | str, *, is_partition: bool
) -> list[str]:
    """Return the notes on the columns, the test of equal scores, the groups' sizes and groups with few votes."""
    notes = [
        "Each column has rank, score and (standard error) in a group. The scores of all groups come from one fit. "
        f"{_relation_to_all_prompts(fit, is_partition)} {as_sentence(f'in every group, {fit.reason}')}",
        _equality_note(fit, groups, equality),
    ]
    unseen = [f"{group.name} ({', '.join(group.unseen)})" for group in groups if group.unseen]
    if unseen:
        notes.append(
            f"Some models have no vote in a group: {'; '.join(unseen)}. Their scores there are predictions of the "
            f"outcome model that no vote corrects."
        )
    without_pair = [group.name for group in groups if group.smallest_pair == 0]
    if without_pair:
        notes.append(
            f"In some groups a compared pair has no vote: {', '.join(without_pair)}. The part of the scores that comes "
            f"from such a pair is predicted by the outcome model."
        )
    sizes = ", ".join(f"{group.name} {group.n_contexts:,} prompts ({group.n_votes:,} votes)" for group in groups)
    return [*notes, f"Groups: {sizes}."]


def _equality_note(fit: Estimates, groups: Sequence[GroupSize], equality: WaldTestResults | str) -> str:
    """Return the test that all models have the same scores in every group, with a caution where groups are small."""
    if isinstance(equality, str):
        return f"There is no test of equal scores in all groups: {equality}."
    note = (
        f"Test that every model has the same score in all groups: chi2({equality.df_denom:g}) = "
        f'{float(equality.statistic):.1f}, P {p_value_clause(float(equality.pvalue))}. "P equal" tests one model at a '
        f"time, adjusted for all models by Holm's method."
    )
    smallest = min(groups, key=lambda group: group.n_independent)
    n_required = _PER_SCORE * fit.covariance.basis.shape[1]
    if smallest.n_independent < n_required:
        note += (
            f" The joint test rejects too often for these data: it needs {n_required} labelled prompts or clusters in "
            f"every group, and {smallest.name} has {smallest.n_independent}."
        )
    return note
