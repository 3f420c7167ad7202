"""Tables of leaderboards by group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..inference.ranks import ranks_of
from .fit_summary import decimals, functional_unit
from .table import Summary

# Independent labels that a group needs for each free score until the chi-squared distribution of the test of equality
# is good enough: with 25 it rejects true hypotheses at 5 % in up to 8 % of simulated data (docs/groups.md).
_PER_SCORE = 25


def group_summary(groups: Any, equal: Any, by_model: pd.DataFrame | None) -> Summary:
    """Rank, score and standard error of every model (rows) in every group (columns).

    Parameters
    ----------
    groups : GroupResults
    equal : ContrastResults or str
        The test of the same scores in every group, or why there is none.
    by_model : DataFrame or None
        The same for each model.
    """
    e, facts = groups.estimates, groups.facts
    scores, errors = groups.params.to_numpy(), groups.bse.to_numpy()
    digits = decimals(errors.ravel(), fewest=3 if e.scale.natural else 1)
    columns = [_column(e.estimate, e.covariance.std_errors, digits)]
    columns += [_column(scores[:, g], errors[:, g], digits) for g in range(len(facts))]
    heads = ["all", *(fact.name for fact in facts)]
    if by_model is not None:
        columns.append([p_value(p) for p in by_model["p_holm"]])
        heads.append("P equal")
    order = np.argsort(-e.estimate, kind="stable")
    rows = tuple((e.models[j], *(column[j] for column in columns)) for j in order)
    title = f"Scores by {groups.variable}"
    return Summary(title, _header(groups), tuple((head, 1) for head in heads), rows, _notes(groups, equal))


def _header(groups: Any) -> tuple[tuple[str, str, str, str], ...]:
    e, facts = groups.estimates, groups.facts
    smallest = min(facts, key=lambda fact: fact.n_contexts)
    cov = f"cluster ({', '.join(e.design.clusters)})" if e.design.clusters else "robust (contexts independent)"
    return (
        ("Functional:", functional_unit(e), "Cov. Type:", cov),
        ("Groups:", f"{len(facts)} of {groups.variable}", "No. Contexts:", f"{e.design.n_contexts:,}"),
        ("Estimator:", e.estimator, "Smallest group:", f"{smallest.name}, {smallest.n_contexts:,} contexts"),
    )


def _column(scores: Any, errors: Any, digits: int) -> list[str]:
    ranks = ranks_of(scores)
    return [
        f"{rank}. {score:.{digits}f} ({error:.{digits}f})"
        for rank, score, error in zip(ranks, scores, errors, strict=True)
    ]


def p_value(p: float) -> str:
    """A p-value as tables show it."""
    return "n/a" if np.isnan(p) else f"{p:.3f}" if p >= 0.0005 else "<.001"


def _notes(groups: Any, equal: Any) -> tuple[str, ...]:
    e, facts = groups.estimates, groups.facts
    sizes = ", ".join(f"{fact.name} {fact.n_contexts:,} contexts ({fact.n_votes:,} votes)" for fact in facts)
    if isinstance(equal, str):
        test = f"No test of the same scores in every group: {equal}."
    else:
        test = (
            f"The same scores in every group: chi2({equal.df_denom:g}) = {float(equal.statistic):.1f}, "
            f"P {compared(float(equal.pvalue))}. P equal: the same for one model, Holm over the models."
        )
        least = min(facts, key=lambda fact: fact.n_independent)
        needed = _PER_SCORE * e.covariance.basis.shape[1]
        if least.n_independent < needed:
            test += (
                f" With fewer than {needed} labelled prompts or clusters in a group ({least.name}: "
                f"{least.n_independent}) the first test rejects too often."
            )
    notes = [
        "Rank, score and (standard error) by group. Scores of all groups come from one fit; the mean of the groups by "
        f"their share is the score over all prompts. {e.reason.capitalize()}, in every group.",
        test,
        f"Groups: {sizes}.",
    ]
    thin = [f"{fact.name} ({', '.join(fact.unseen)})" for fact in facts if fact.unseen]
    if thin:
        notes.append(
            f"Models without a vote in a group, whose score there is what the learner guesses: {'; '.join(thin)}."
        )
    bare = [fact.name for fact in facts if fact.smallest_pair == 0]
    if bare:
        notes.append(f"Groups in which some compared pair has no vote: {', '.join(bare)}; its part is the learner's.")
    if groups.joint.covariance.note:
        notes.append(f"{groups.joint.covariance.note.capitalize()}.")
    return tuple(notes)


def compared(p: float) -> str:
    """A p-value after "P"."""
    return f"= {p:.3f}" if p >= 0.0005 else "< .001"
