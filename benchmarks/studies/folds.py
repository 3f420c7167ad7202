"""Whether folds of unequal sizes cost precision: folds of equal sizes against folds dealt by the hash alone.

Both fits of a run have the same votes of the paper's tie simulator (three models, two features) and the same key. The
folds of equal sizes are a random permutation, as for few units; the other folds have binomial sizes, as for many units.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from unittest import mock

import numpy as np
import pandas as pd

import dmlrank as dr
from dmlrank.estimation import cross_fitting

from .runner import Row, Study

# Units per fold from which the hash alone decides.
DEALINGS = {"equal": sys.maxsize, "binomial": 0}
truth_of = cache(lambda functional: dr.datasets.Ties().truth(functional))


def replicate(cell: str, seed: int) -> Iterator[Row]:
    """A row for each functional and dealing: mean square of the errors, share of pointwise intervals that hold."""
    battles = dr.datasets.simulate_ties(n=int(cell), rng=seed)
    for dealing, units in DEALINGS.items():
        with mock.patch.object(cross_fitting, "UNITS_PER_FOLD", units):
            fit = dr.dml_rank(
                "winner ~ x0 + x1 | model_a + model_b", battles, context="question_id", rng=seed, n_jobs=1
            )
            for functional in ("borda", "bt"):
                fit = fit.update(functional=functional)
                error = fit.params - truth_of(functional)[fit.models]
                yield {
                    "functional": functional,
                    "dealing": dealing,
                    "mse": (error**2).mean(),
                    "covered": (error.abs() < 1.959964 * fit.bse).mean(),
                }


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The ratio of the errors, with its standard error by the delta method for paired differences, and coverage."""
    made = []
    for (cell, functional), part in rows.groupby(["cell", "functional"], sort=False):
        mse = part.pivot(index="seed", columns="dealing", values="mse")
        covered = part.groupby("dealing")["covered"].mean()
        mean = mse.mean()
        ratio = np.sqrt(mean["binomial"] / mean["equal"])
        se = ratio / 2 * (mse["binomial"] / mean["binomial"] - mse["equal"] / mean["equal"]).sem()
        both = f"{covered['equal']:.2f}, {covered['binomial']:.2f}"
        made.append(("two", f"{int(cell):,}", f"`{functional}`", len(mse), f"{ratio:.3f} ({se:.3f})", both))
    columns = ["features", "prompts", "scores", "runs", "RMSE, binomial over equal (standard error)"]
    return {"folds": pd.DataFrame(made, columns=[*columns, "coverage of 95 % intervals: equal, binomial"])}


STUDY = Study(("200", "1000"), replicate, tables, 600)
