"""Old votes whose propensities are estimated beside votes from a plan: coverage of the recipe in docs/how_to/stop.md.

Each replication has 1,500 old prompts, whose pairs the simulated arena shows by its own rule, and 1,500 prompts of a
plan that shows some pairs six times as often as others, and no pair of a fifth of the prompts. The propensities of the
old votes come from a fit of the old votes alone. mu is learnt by shares of the outcomes, which takes no time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

import dmlrank as dr
from dmlrank.options import in_objects

from .runner import Row, Study, covers

LABELS = np.array(["model_a", "model_b", "tie", "tie (bothbad)"], dtype=object)
ARENA = dr.datasets.Arena(position_effect=0)


def shares(features, labels, weights, rng):
    """Learner of the shares of the outcomes."""
    share = np.bincount(labels, weights, minlength=4) / weights.sum()
    return lambda features: np.tile(share, (len(features), 1))


def planned_votes(n: int, seed: int) -> pd.DataFrame:
    """Votes of a plan."""
    frame, rng = ARENA.contexts(n, rng=2 * seed + 2), np.random.default_rng([seed, 2])
    first, second = np.triu_indices(len(ARENA.models), 1)
    weight = np.where((first == 0) | (second == 1), 6.0, 1.0)
    weight *= 0.8 / weight.sum()
    pair = (rng.random((n, 1)) > weight.cumsum()).sum(axis=1)
    is_labelled, pair = pair < len(first), pair.clip(max=len(first) - 1)
    p = ARENA.mu(frame)[np.arange(n), first[pair], second[pair]].cumsum(axis=1)
    label, names = LABELS[(rng.random((n, 1)) > p[:, :-1]).sum(axis=1)], np.array(ARENA.models, dtype=object)
    made = {"model_a": names[first[pair]], "model_b": names[second[pair]], "winner": label, "propensity": weight[pair]}
    made = {column: np.where(is_labelled, values, None) for column, values in made.items()}
    frame = frame.assign(question_id="new-" + frame["question_id"].astype(str), **made)
    return frame.astype({"propensity": float})


def replicate(cell: str, seed: int) -> Iterator[Row]:
    """Coverage of the joint intervals, the largest error of a score, and standard errors of the plan's votes alone."""
    n = int(cell)
    old, planned = ARENA.sample(n, rng=2 * seed + 1).drop(columns="propensity"), planned_votes(n, seed)
    old["question_id"] = "old-" + old["question_id"].astype(str)
    formula = "winner ~ C(category) + length | model_a + model_b"
    options = {"context": "question_id", "position_bias": False, "min_labels": 1, "learner": shares, "rng": seed}
    state = dr.dml_rank(formula, old, **in_objects({**options, "n_jobs": 1})).steps
    prompts = state.data.context_ids[state.data.cells.context]
    old["propensity"] = old["question_id"].map(dict(zip(prompts, state.first.propensity.cells, strict=True)))
    options = in_objects({**options, "propensity": "propensity", "n_jobs": 1})
    both, alone = (dr.dml_rank(formula, votes, **options) for votes in (pd.concat([old, planned]), planned))
    truth = ARENA.truth("borda")
    z = (both.params - truth) / both.bse
    yield {
        "covers": covers(both, truth),
        "largest z": z.abs().max(),
        "bse of plan alone": (alone.bse / both.bse).mean(),
    }


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Means over the samples."""
    by = rows.drop(columns="seed").groupby("cell", sort=False)
    return {"old_votes": by.mean().round(3).assign(samples=by.size()).rename_axis("prompts").reset_index()}


STUDY = Study(("1500",), replicate, tables, 60)
