"""Old votes whose propensities are estimated beside votes from a plan: coverage of the recipe in docs/how_to/stop.md.

Each replication has 1,500 old prompts, whose pairs the simulated arena shows by its own rule, and 1,500 prompts of a
plan that shows some pairs six times as often as others. The propensities of the old votes come from a fit of the old
votes alone. mu is learnt by shares of the outcomes, which takes no time.

    python benchmarks/old_votes.py --seeds 60
"""

from __future__ import annotations

import argparse
import pathlib
import warnings

import numpy as np
import pandas as pd

import dmlrank as dr
from dmlrank.options import in_objects

RESULTS = pathlib.Path(__file__).parent / "results" / "old_votes.csv"
FORMULA = "winner ~ C(category) + length | model_a + model_b"
OPTIONS = {"context": "question_id", "position_bias": False, "min_labels": 1, "n_jobs": 1}
LABELS = np.array(["model_a", "model_b", "tie", "tie (bothbad)"], dtype=object)
ARENA = dr.datasets.Arena(position_effect=0)


def shares(features, labels, weights, rng):
    """Learner of the shares of the outcomes."""
    share = np.bincount(labels, weights, minlength=4) / weights.sum()
    return lambda features: np.tile(share, (len(features), 1))


def old_votes(n: int, seed: int) -> pd.DataFrame:
    """Votes on pairs that the arena shows by its own rule, without their propensities."""
    frame = ARENA.sample(n, rng=2 * seed + 1).drop(columns="propensity")
    return frame.assign(question_id="old-" + frame["question_id"].astype(str))


def planned_votes(n: int, seed: int) -> pd.DataFrame:
    """Votes of a plan, which shows no pair of a fifth of the prompts."""
    frame, rng = ARENA.contexts(n, rng=2 * seed + 2), np.random.default_rng([seed, 2])
    first, second = np.triu_indices(len(ARENA.models), 1)
    weight = np.where((first == 0) | (second == 1), 6.0, 1.0)
    weight *= 0.8 / weight.sum()
    pair = (rng.random((n, 1)) > weight.cumsum()).sum(axis=1)
    is_labelled, pair = pair < len(first), pair.clip(max=len(first) - 1)
    p = ARENA.mu(frame)[np.arange(n), first[pair], second[pair]].cumsum(axis=1)
    label = LABELS[(rng.random((n, 1)) > p[:, :-1]).sum(axis=1)]
    names = np.array(ARENA.models, dtype=object)
    return frame.assign(
        question_id="new-" + frame["question_id"].astype(str),
        model_a=np.where(is_labelled, names[first[pair]], None),
        model_b=np.where(is_labelled, names[second[pair]], None),
        winner=np.where(is_labelled, label, None),
        propensity=np.where(is_labelled, weight[pair], np.nan),
    )


def replicate(seed: int, n: int = 1500) -> dict[str, object]:
    """Coverage of the joint intervals, the largest error of a score, and standard errors of the plan's votes alone."""
    old, planned, truth = old_votes(n, seed), planned_votes(n, seed), ARENA.truth("borda")
    options = {**OPTIONS, "learner": shares, "rng": seed}
    steps = dr.dml_rank(FORMULA, old, **in_objects(options)).steps
    prompts = steps.data.context_ids[steps.data.cells.context]
    old["propensity"] = old["question_id"].map(dict(zip(prompts, steps.first.propensity.cells, strict=True)))
    both = dr.dml_rank(FORMULA, pd.concat([old, planned]), **in_objects({"propensity": "propensity", **options}))
    alone = dr.dml_rank(FORMULA, planned, **in_objects({"propensity": "propensity", **options}))
    interval, z = both.conf_int(), (both.params - truth) / both.bse
    return {
        "seed": seed,
        "covers": int(((interval.lower <= truth) & (truth <= interval.upper)).all()),
        "largest_z": round(float(z.abs().max()), 4),
        "mean_square_z": round(float(np.square(z).mean()), 4),
        "bse_of_plan_alone": round(float((alone.bse / both.bse).mean()), 4),
    }


def main() -> None:
    """Run the replications and print the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--path", type=pathlib.Path, default=RESULTS)
    arguments, rows = parser.parse_args(), []
    for seed in range(arguments.seeds):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dr.exceptions.DmlrankWarning)
            rows.append(replicate(seed))
        pd.DataFrame(rows).to_csv(arguments.path, index=False)
    print(pd.DataFrame(rows).mean().round(3).to_string())


if __name__ == "__main__":
    main()
