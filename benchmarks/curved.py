"""What the study of curved scores draws from: an own functional, rank centrality, and hard designs for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import expit

import dmlrank as dr
from benchmarks.scenarios import Draw, Scenario
from dmlrank.functionals import Functional, Gauge, RankCentrality


class Copeland(Functional):
    """The guide's own functional: wins less defeats against the other models, in a smooth version."""

    name = "copeland"
    interior = False

    def value(self, mu: np.ndarray) -> np.ndarray:
        """Scores, (n, K)."""
        share, others = self.category_weights.symmetric(mu), 1 - np.eye(mu.shape[1])
        return (np.tanh(10 * (share - 0.5)) * others).sum(axis=2) / (mu.shape[1] - 1)

    def gauge(self, n_items: int) -> Gauge:
        """The sum."""
        return Gauge.spanned_by(np.ones(n_items), "scores sum to 0")


@dataclass(frozen=True, slots=True)
class Heavy:
    """Models whose strengths depend on heavy-tailed features, one by itself and three by their product."""

    n_items = 4
    n_features = 3
    n_categories = 2
    models = ("model_0", "model_1", "model_2", "model_3")

    def features(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Features, (n, 3)."""
        return rng.standard_t(3, (n, 3))

    def mu(self, x: np.ndarray) -> np.ndarray:
        """Probabilities, (n, K, K, 2)."""
        place = np.linspace(-1, 1, self.n_items)
        product = np.clip(x.prod(axis=1), -4, 4)[:, None]
        scores = -place + 0.3 * x[:, :1] * np.cos(3 * place) + 0.4 * product * np.sin(4 * place)
        won = expit(scores[:, :, None] - scores[:, None, :])
        mu = np.stack([won, 1 - won], axis=-1)
        items = np.arange(self.n_items)
        mu[:, items, items] = 0.0
        return mu

    def propensity(self, x: np.ndarray) -> np.ndarray:
        """Propensities of the ordered pairs, (n, K, K)."""
        place = np.linspace(-1, 1, self.n_items)
        score = -2 + 0.8 * x[:, 1:2] * place + 0.5 * x[:, 0:1]
        pi = np.clip(expit(score[:, :, None] + score[:, None, :] + 2), 0.02, 0.3)
        items = np.arange(self.n_items)
        pi[:, items, items] = 0.0
        return pi


@dataclass(frozen=True, slots=True)
class Steps:
    """Four models whose strengths are steps in one feature and products of two others."""

    n_items = 4
    n_features = 3
    n_categories = 2
    models = ("model_0", "model_1", "model_2", "model_3")

    def features(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Features, (n, 3)."""
        return rng.uniform(-1, 1, (n, 3))

    def mu(self, x: np.ndarray) -> np.ndarray:
        """Probabilities, (n, K, K, 2)."""
        step, product = np.where(x[:, 0] > 0.2, 1.0, -0.6), 1.5 * x[:, 1] * x[:, 2]
        scores = np.stack([0.8 + step, 0.3 + product, -0.2 - step, -0.9 - product], axis=1)
        won = expit(scores[:, :, None] - scores[:, None, :])
        mu = np.stack([won, 1 - won], axis=-1)
        items = np.arange(4)
        mu[:, items, items] = 0.0
        return mu

    def propensity(self, x: np.ndarray) -> np.ndarray:
        """Propensities of the ordered pairs, (n, K, K)."""
        pi = np.full((len(x), 4, 4), 1 / 6)
        items = np.arange(4)
        pi[:, items, items] = 0.0
        return pi


@dataclass(frozen=True, slots=True)
class GuideArena:
    """The arena of the guide on own functionals, whose propensities are estimated."""

    formula = "winner ~ C(category) + length | model_a + model_b"
    cluster = 0

    def draw(self, seed: int) -> Draw:
        """The data set of a seed."""
        frame = dr.datasets.simulate_arena(n=3000, rng=seed)
        return Draw(frame, np.empty(0), {"context": "question_id", "propensity": "estimate"})

    def truth(self, functionals: Mapping[str, type[Functional]]) -> pd.DataFrame:
        """True scores, a column per functional."""
        return pd.DataFrame({name: dr.datasets.Arena().truth(kind()) for name, kind in functionals.items()})


FUNCTIONALS = {"rank_centrality": RankCentrality, "copeland": Copeland}


def scenarios() -> dict[str, Scenario | GuideArena]:
    """All of them by name."""
    six = {"n_items": 6, "propensity_rate": 0.15}
    made = [
        Scenario("heavy tails", Heavy(), 1500),
        Scenario("heavy tails, estimated propensities", Heavy(), 1500, options={"propensity": "estimate"}),
        Scenario("heavy tails, product in the formula", Heavy(), 1500, products=("x0:x1:x2",)),
        Scenario("steps and products", Steps(), 1500),
        Scenario("five features, six models", dr.datasets.Ties(coefficients=3, n_features=5, **six), 1500),
        Scenario("one pair of six", dr.datasets.Bt(coefficients=2, n_features=3, n_items=6), 3000, one_pair=True),
    ]
    return {one.name: one for one in made} | {"guide": GuideArena()}
