"""The two ways of a fit, as the paper describes it and as the package does it by default, and what fits report."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dmlrank as dr

FloatArray = NDArray[np.float64]

DESCRIBED, DEFAULT = "described", "default"
WAYS = (DESCRIBED, DEFAULT)
FUNCTIONALS = ("borda", "bt", "rank_centrality")
# The paper states two folds for Chatbot Arena and five for MT-Bench, and no number for its synthetic data.
FOLDS = 2
# The paper states that mu is truncated before the logit, and not at which value.
FLOOR = 0.005
ALPHA = 0.05
# Draws from the normal distribution for the critical value [P app:cis].
_DRAWS = 100_000
_TRUTH_CONTEXTS = 1_000_000
# The search of the small version of an experiment, which tests run.
SMALL_SEARCH = dr.RandomSearch(2, 2, {"num_iterations": (5, 10), "num_leaves": (4, 8), "min_data_in_leaf": (10,)})


def options_of(way: str, grid: str, *, folds: int = FOLDS, small: bool = False) -> dict[str, Any]:
    """Return the options of a fit in one of the two ways.

    grid: The paper's grid of the random search.
    folds: Folds of the fit as described.
    small: Whether the search as described is a tiny one.
    """
    if way == DEFAULT:
        return {}
    return {
        "learner": "lightgbm",
        "tune": SMALL_SEARCH if small else dr.RandomSearch(30, 3, grid),
        "n_folds": folds,
        "floor": FLOOR,
        "position_bias": True,
        "category_weights": "paper",
    }


def feature_names(simulator: Any) -> list[str]:
    """Return the names of a simulator's features."""
    return [f"x{place}" for place in range(simulator.n_features)]


def formula_of(simulator: Any) -> str:
    """Return the formula with all features of a simulator."""
    return f"winner ~ {' + '.join(feature_names(simulator))} | model_a + model_b"


def contexts_of(simulator: Any, battles: pd.DataFrame) -> FloatArray:
    """Return the features of the contexts of a sample, (n, p), in order of first appearance."""
    return battles.drop_duplicates("question_id")[feature_names(simulator)].to_numpy()


@lru_cache
def truth_of(simulator: Any, functional: str, n: int = _TRUTH_CONTEXTS) -> pd.Series:
    """Return the true scores, computed once per process from as many contexts as in the paper."""
    scores: pd.Series = simulator.truth(functional, n)
    return scores


@lru_cache
def _standard_normal(n_scores: int) -> FloatArray:
    return np.random.default_rng(0).normal(size=(_DRAWS, n_scores))


def critical_value(covariance: FloatArray) -> float:
    """Return the quantile of the largest absolute t-value, which the paper calls Gaussian-max [P app:cis]."""
    error = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / np.outer(error, error))
    root = vectors * np.sqrt(np.clip(values, 0.0, None))
    return float(np.quantile(np.abs(_standard_normal(len(error)) @ root.T).max(axis=1), 1 - ALPHA))


def plain_covariance(fit: dr.RankResults) -> FloatArray:
    """Return the paper's covariance: the mean of phi phi' over contexts, divided by their number, (K, K)."""
    phi = fit.influence
    return np.asarray(phi.T @ phi / len(phi) ** 2)


def figures(fit: dr.RankResults, truth: pd.Series, *, plain: bool) -> dict[str, object]:
    """Return error and coverage of a fit, debiased or plug-in.

    truth (K,): True scores.
    plain: Whether the intervals use the paper's covariance; otherwise the package's, with its variance correction.
    """
    covariance = plain_covariance(fit) if plain else fit.cov_params().to_numpy()
    error, spread = (fit.params - truth).to_numpy(), np.sqrt(np.diag(covariance))
    critical = critical_value(covariance)
    return {"mse": f"{float((error**2).mean()):.5g}", "covers": int((np.abs(error) <= critical * spread).all())}


def verdicts_on_all_pairs(
    simulator: dr.datasets.Ties, battles: pd.DataFrame, probabilities: FloatArray
) -> pd.DataFrame:
    """Return a judge's probabilities, (n, K, K, 3), as a frame: a row for each ordered pair of each prompt."""
    first, second = np.nonzero(~np.eye(simulator.n_items, dtype=bool))
    prompts, names = battles["question_id"].drop_duplicates().to_numpy(), np.array(simulator.models)
    columns = {
        "question_id": np.repeat(prompts, len(first)),
        "model_a": np.tile(names[first], len(prompts)),
        "model_b": np.tile(names[second], len(prompts)),
    }
    shares = probabilities[:, first, second].reshape(-1, 3)
    return pd.DataFrame(columns | dict(zip(("p_a", "p_b", "p_tie"), shares.T, strict=True)))
