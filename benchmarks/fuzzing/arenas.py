"""Random votes in which everything is as the documentation asks, and options that suit them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from .draws import Generator, choice, names

LABELS = {
    2: ("model_a", "model_b"),
    3: ("model_a", "model_b", "tie"),
    4: ("model_a", "model_b", "both_good", "both_bad"),
    5: ("model_a", "model_b", "both_good", "both_bad", "tie"),
}
FUNCTIONALS = ("borda", "bt", "rank_centrality", "softmin", "dominance")
FORMULA = "winner ~ 1 | model_a + model_b"


@dataclass(frozen=True, eq=False)
class Arena:
    """Votes of a small arena.

    frame: A row per vote with the columns winner, model_a, model_b, prompt, x, g, annotator, topic, importance and
    verdict.
    models: Names of the K models.
    n_categories: Number of categories, C.
    probabilities (K, K, C): Category probabilities by which the labels were drawn.
    """

    frame: pd.DataFrame
    models: list[Any]
    n_categories: int
    probabilities: np.ndarray


def draw_arena(
    rng: Generator,
    *,
    n_votes: int | None = None,
    n_models: int | None = None,
    n_categories: int | None = None,
    repeats: bool | None = None,
    certain: bool | None = None,
    plain_names: bool = False,
) -> Arena:
    """Draw votes on a connected graph; what is None is drawn as well.

    repeats: Whether a prompt may have several votes.
    certain: Whether some models always win, so that labels do not vary.
    plain_names: Whether models are called m0, m1, ... in place of odd names.
    """
    n = int(rng.integers(30, 250)) if n_votes is None else n_votes
    size = int(rng.integers(2, 7)) if n_models is None else n_models
    width = int(rng.integers(2, 6)) if n_categories is None else n_categories
    models = [f"m{place}" for place in range(size)] if plain_names else names(rng, size)
    probabilities = rng.dirichlet(np.full(width, choice(rng, [0.3, 1.0, 5.0])), size=(size, size))
    if rng.random() < 0.15 if certain is None else certain:
        winner = np.argmax(probabilities, axis=-1)
        probabilities = np.where(rng.random((size, size, 1)) < 0.6, np.eye(width)[winner], probabilities)
    # The first votes follow a path through all models, so that the graph is connected.
    first, second = rng.integers(size, size=n), rng.integers(1, size, size=n)
    second = (first + second) % size
    path = np.arange(min(size - 1, n))
    first[path], second[path] = path, path + 1
    code = (rng.random((n, 1)) > np.cumsum(probabilities[first, second], axis=1)).sum(axis=1).clip(max=width - 1)
    several = rng.random() < 0.5 if repeats is None else repeats
    prompt = rng.integers(max(2, n // 2), size=n) if several else np.arange(n)
    about = np.random.default_rng(int(rng.integers(2**32)))
    x, topic = about.normal(size=n), about.integers(int(choice(rng, [2, 5, 30])), size=n)
    frame = pd.DataFrame(
        {
            "winner": np.array(LABELS[width], dtype=object)[code],
            "model_a": pd.Series([models[k] for k in first], dtype=object),
            "model_b": pd.Series([models[k] for k in second], dtype=object),
            "prompt": [f"q{k:04d}" for k in prompt],
            "x": x[prompt],
            "g": np.array(["u", "v", "w"])[prompt % 3],
            "annotator": [f"person {k}" for k in rng.integers(12, size=n)],
            "topic": [f"topic {k}" for k in topic[prompt]],
            "importance": 0.25 + (prompt % 4),
            "verdict": np.array(LABELS[width], dtype=object)[
                np.where(rng.random(n) < 0.7, code, about.integers(width, size=n))
            ],
        }
    )
    return Arena(frame, models, width, probabilities)


def plain_options(rng: Generator) -> dict[str, Any]:
    """Draw options of a fit that suit any arena of :func:`draw_arena`, and take little time."""
    options: dict[str, Any] = {
        "functional": choice(rng, FUNCTIONALS),
        "context": choice(rng, [None, "prompt", "prompt"]),
        "propensity": choice(rng, ["marginal", "marginal", "estimate"]),
        "min_labels": 1,
        "n_folds": int(choice(rng, [2, 2, 3, 5])),
        "rng": int(rng.integers(1000)),
        "n_jobs": 1,
    }
    if rng.random() < 0.3:
        options["position_bias"] = choice(rng, [True, False])
    if rng.random() < 0.2:
        options["graph"] = "complete"
    if rng.random() < 0.2:
        options["edge_weights"] = "counts"
    if rng.random() < 0.15:
        options["weights"] = "importance"
    if rng.random() < 0.15:
        options |= {"cov_type": "cluster", "cov_kwds": {"groups": choice(rng, ["topic", ["prompt", "annotator"]])}}
    if rng.random() < 0.15:
        options["prompts"] = "fixed"
    if rng.random() < 0.15:
        options["average"] = "preferences"
    if rng.random() < 0.1:
        options["n_rep"] = 2
    if rng.random() < 0.1:
        options["alpha"] = choice(rng, [0.1, 0.01, 0.5, 1e-6])
    if rng.random() < 0.1:
        options["category_weights"] = "paper"
    if rng.random() < 0.1:
        options["judge"] = "verdict"
    return options
