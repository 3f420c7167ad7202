"""Family-wise error of the adjustments and coverage of rank sets, ten models at the 5 % level.

Estimates are normal with a known covariance, so that only the tests themselves are looked at: independent scores, a
balanced arena, and one whose models met from 1 to 100 times as often. Error: one difference of models that are truly
equal is rejected. Joint: every model's set holds all ranks that its ties allow. Alone: the same for one model, the
worst of them. A replication is 100 draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd

from dmlrank.inference.covariance import Covariance, free_basis
from dmlrank.inference.ranks import rank_bounds
from dmlrank.inference.simultaneous import MaxT, compare_differences, separate, separate_each

from .runner import Row, Study

METHODS, K, ALPHA = ("max-t", "step-down", "holm", "fdr_bh", "none"), 10, 0.05
TRUTHS = {
    "equal": 0 * np.arange(K)[::-1],
    "tied pairs": 2.5 * (np.arange(K)[::-1] // 2),
    "close": 0.4 * np.arange(K)[::-1],
}
CELLS = {f"{kind}, {name}": (kind, name) for kind, name in product(("independent", "balanced", "skewed"), TRUTHS)}


def covariance_of(kind: str) -> Covariance:
    """The covariance of a kind of arena."""
    basis, labels = free_basis(np.ones((1, K)) / np.sqrt(K), K), np.logspace(0, 2, K)
    if kind != "skewed":
        return Covariance(np.eye(K), np.eye(K)) if kind == "independent" else Covariance(basis @ basis.T, basis)
    met = np.sqrt(np.outer(labels, labels)) * ~np.eye(K, dtype=bool)
    return Covariance(100 * np.linalg.pinv(np.diag(met.sum(axis=1)) - met), basis)


def replicate(cell: str, seed: int, draws: int = 100) -> Iterator[Row]:
    """What went wrong in each draw."""
    kind, name = CELLS[cell]
    truth, noise, rng = (
        TRUTHS[name],
        MaxT(covariance_of(kind), n_draws=10_000),
        np.random.default_rng([seed, len(cell)]),
    )
    first, second = np.triu_indices(K, 1)
    best, worst = 1 + (truth[None, :] > truth[:, None]).sum(axis=1), (truth[None, :] >= truth[:, None]).sum(axis=1)
    for estimate in rng.multivariate_normal(truth, noise.covariance.matrix, size=draws, method="eigh"):
        row: Row = {}
        for method in METHODS:
            tests = compare_differences(estimate, noise, first, second, method=method, alpha=ALPHA)
            row[method] = (tests.p_adjusted[truth[first] == truth[second]] <= ALPHA).any()
        above, each = separate(estimate, noise, ALPHA).above, separate_each(estimate, noise, ALPHA)
        for end, bounds in (("", rank_bounds(above)), (" alone", rank_bounds(each[:, :, 0], each[:, :, 1]))):
            row[f"holds{end}"] = ((bounds[0] <= best) & (worst <= bounds[1])).tolist()
            row[f"width{end}"] = (bounds[1] - bounds[0] + 1).mean()
        yield row


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Shares of errors and of coverage, and mean widths of the sets."""
    made = []
    for cell, part in rows.groupby("cell", sort=False):
        joint, alone = np.stack(part["holds"].to_list()).all(axis=1), np.stack(part["holds alone"].to_list())
        held = {"joint": joint.mean(), "alone": alone.mean(axis=0).min()}
        means = part[[*METHODS, "width", "width alone"]].astype(float).mean().to_dict()
        made.append(dict(zip(("covariance", "scores"), CELLS[cell], strict=True)) | means | held)
    columns = ["covariance", "scores", *METHODS, "joint", "alone", "width", "width alone"]
    return {"rank_sets": pd.DataFrame(made)[columns].round(3)}


STUDY = Study(tuple(CELLS), replicate, tables, 10, {"draws": 5})
