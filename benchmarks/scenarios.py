"""What the coverage study draws from: the paper's tie simulator and harder relatives of it, with known truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

import dmlrank as dr
from dmlrank.data.graph import Graph
from dmlrank.functionals import Borda, BradleyTerry, CategoryWeights, Functional, RankCentrality

FloatArray = NDArray[np.float64]

# Labels by number of categories, in canonical order.
LABELS = {
    2: ("model_a", "model_b"),
    3: ("model_a", "model_b", "tie"),
    4: ("model_a", "model_b", "both_good", "both_bad"),
    5: ("model_a", "model_b", "both_good", "both_bad", "tie"),
}
FUNCTIONALS = {"borda": Borda, "bt": BradleyTerry, "rank_centrality": RankCentrality}
# Six models: the fifth wins 1 of 400 votes, the sixth is shown in 7 % of them.
_STRENGTH, _POPULARITY = (0.6, 0.3, 0.0, -0.3, -6.0, 0.2), (1.0, 1.0, 1.0, 1.0, 0.5, 0.15)
# The same with a fifth model that wins 1 of 60 votes, and slopes of the strengths along a feature.
_WEAK, _SLOPES = (0.6, 0.3, 0.0, -0.3, -4.2, 0.2), (1.0, -1.0, 0.5, 0.0, 0.5, -0.5)
_FAR_APART = (3.0, 1.8, 0.6, -0.6, -1.8, -3.0)
_SKEWED = {"position_bias": False, "min_labels": 1}
_TRUTH_CONTEXTS = 400_000
_CHUNK = 20_000


@dataclass(frozen=True, slots=True)
class Draw:
    """One data set: the frame, the true probabilities of its contexts, (n, K, K, C), and how it is fitted."""

    frame: pd.DataFrame
    mu: FloatArray
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Skewed:
    """Bradley-Terry models of given strengths and popularity: some hopeless, some rarely shown.

    popularity: A pair is shown in proportion to the product of its models'.
    slope: How much strengths change along the one feature, which is uniform from 0 to 1; none when empty.
    """

    strength: tuple[float, ...]
    popularity: tuple[float, ...]
    slope: tuple[float, ...] = ()

    n_categories = 2

    @property
    def n_items(self) -> int:
        """K."""
        return len(self.strength)

    @property
    def n_features(self) -> int:
        """1, or 0 without slopes."""
        return 1 if self.slope else 0

    @property
    def models(self) -> tuple[str, ...]:
        """Names."""
        return tuple(f"model_{item}" for item in range(self.n_items))

    def features(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Features, (n, p)."""
        return rng.random((n, self.n_features))

    def mu(self, x: FloatArray) -> FloatArray:
        """Probabilities, (n, K, K, 2), with a zero diagonal."""
        scores = np.tile(np.array(self.strength), (len(x), 1))
        if self.slope:
            scores = scores + (x - 0.5) * np.array(self.slope)
        won = expit(scores[:, :, None] - scores[:, None, :])
        mu = np.stack([won, 1 - won], axis=-1)
        items = np.arange(self.n_items)
        mu[:, items, items] = 0.0
        return mu

    def propensity(self, x: FloatArray) -> FloatArray:
        """Propensities of the ordered pairs, (n, K, K)."""
        shown = np.outer(self.popularity, self.popularity)
        np.fill_diagonal(shown, 0.0)
        return np.tile(shown / shown.sum(), (len(x), 1, 1))


@dataclass(frozen=True, slots=True)
class Scenario:
    """A simulator, what is done to its labels, and how the data are fitted.

    n: Contexts.
    noise: Further features that mean nothing.
    n_categories: 4 and 5 split the simulator's ties by the first feature.
    one_pair: One ordered pair per context, with probabilities in proportion to the simulator's propensities.
    cluster: Contexts that share the first feature, and three votes of which the later two repeat the first half the
    time.
    graph: Pairs that are ever compared; all when empty.
    products: Products of features in the formula.
    options: Options of the fit beside formula, context and given propensities.
    """

    name: str
    base: Any
    n: int
    noise: int = 0
    n_categories: int = 0
    one_pair: bool = False
    cluster: int = 0
    graph: tuple[tuple[int, int], ...] = ()
    products: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def categories(self) -> int:
        """C."""
        return self.n_categories or int(self.base.n_categories)

    @property
    def formula(self) -> str:
        """All features, those that mean nothing included."""
        features = [*(f"x{f}" for f in range(self.base.n_features + self.noise)), *self.products]
        return f"winner ~ {' + '.join(features) or '1'} | model_a + model_b"

    def features(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Features, (n, p), without those that mean nothing."""
        x = self.base.features(n, rng)
        if self.cluster:
            x[:, 0] = x[np.arange(n) // self.cluster * self.cluster, 0]
        return x

    def mu(self, x: FloatArray) -> FloatArray:
        """True probabilities, (n, K, K, C)."""
        mu = self.base.mu(x)
        if self.categories <= 3:
            return mu
        good = expit(4 * (x[:, 0] - 0.5))[:, None, None, None]
        shares = [good, 1 - good] if self.categories == 4 else [0.5 * good, 0.5 * (1 - good), np.full_like(good, 0.5)]
        return np.concatenate([mu[..., :2], *(mu[..., 2:] * share for share in shares)], axis=-1)

    def propensity(self, x: FloatArray) -> FloatArray:
        """True propensities of the ordered pairs, (n, K, K)."""
        pi = self.base.propensity(x)
        if self.graph:
            pi = pi * self.compared.edges
        return pi / pi.sum(axis=(1, 2), keepdims=True) if self.one_pair else pi

    @property
    def compared(self) -> Graph:
        """The comparison graph."""
        if not self.graph:
            return Graph.all_pairs(self.base.n_items)
        edges = np.zeros((self.base.n_items, self.base.n_items), dtype=bool)
        for j, k in self.graph:
            edges[j, k] = edges[k, j] = True
        return Graph(edges)

    def truth(self, functionals: Mapping[str, type[Functional]] = FUNCTIONALS) -> pd.DataFrame:
        """True scores, a column per functional."""
        rng = np.random.default_rng(0)
        weights = CategoryWeights.half(self.categories)
        total = {name: np.zeros(self.base.n_items) for name in functionals}
        chunk = max(self.cluster or 1, _CHUNK // self.base.n_items**2 * 9)
        n = max(1, _TRUTH_CONTEXTS // (1 + self.base.n_items**2 // 60) // chunk)
        for _ in range(n):
            mu = self.mu(self.features(chunk, rng))
            for name, kind in functionals.items():
                total[name] += kind().bind(weights, self.compared).value(mu).mean(axis=0) / n
        return pd.DataFrame(total, index=self.base.models)

    def draw(self, seed: int) -> Draw:
        """The data set of a seed."""
        rng = np.random.default_rng([seed, 4])
        x = self.features(self.n, rng)
        mu, pi = self.mu(x), self.propensity(x)
        if self.one_pair:
            place = (pi.reshape(self.n, -1).cumsum(axis=1) < rng.random((self.n, 1))).sum(axis=1)
            cells = (np.arange(self.n), *np.unravel_index(np.minimum(place, pi[0].size - 1), pi[0].shape))
        else:
            cells = np.nonzero(rng.random(pi.shape) < pi)
        label = _drawn(mu[cells], rng)
        if self.cluster:
            fresh = [np.where(rng.random(len(label)) < 0.5, label, _drawn(mu[cells], rng)) for _ in range(2)]
            cells = tuple(np.tile(part, 3) for part in cells)
            label = np.concatenate([label, *fresh])
        return Draw(self._frame(x, cells, label, pi, rng), mu, self._options())

    def _options(self) -> dict[str, Any]:
        clusters = {"cov_type": "cluster", "cov_kwds": {"groups": "cluster"}} if self.cluster else {}
        return {"context": "question_id", **clusters, **self.options}

    def _frame(
        self, x: FloatArray, cells: tuple[Any, ...], label: NDArray[np.intp], pi: FloatArray, rng: np.random.Generator
    ) -> pd.DataFrame:
        context, first, second = cells
        unlabelled = np.setdiff1d(np.arange(self.n), context)
        rows = np.concatenate([context, unlabelled])
        names, words = np.array(self.base.models, dtype=object), np.array(LABELS[self.categories], dtype=object)
        extra = np.full(len(unlabelled), None, dtype=object)
        given = pi[cells]
        if not self.options.get("position_bias", True):
            given = given + pi[context, second, first]
        noise = rng.random((self.n, self.noise))
        columns = {f"x{f}": values[rows] for f, values in enumerate(np.hstack([x, noise]).T)}
        cluster = {"cluster": rows // self.cluster} if self.cluster else {}
        frame = pd.DataFrame(
            {"question_id": rows}
            | columns
            | cluster
            | {
                "model_a": np.concatenate([names[first], extra]),
                "model_b": np.concatenate([names[second], extra]),
                "winner": np.concatenate([words[label], extra]),
                "propensity": np.concatenate([given, np.full(len(unlabelled), np.nan)]),
            }
        )
        # Contexts are numbered in order of first appearance: the true probabilities go by that order.
        return frame.sort_values("question_id", kind="stable", ignore_index=True)


def _drawn(p: FloatArray, rng: np.random.Generator) -> NDArray[np.intp]:
    return np.minimum((p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1), p.shape[1] - 1)


def _ties(draw: int, n: int) -> Scenario:
    return Scenario(f"ties-{draw}-{n}", dr.datasets.Ties(coefficients=draw), n)


def scenarios() -> dict[str, Scenario]:
    """All of them by name: the paper's debiasing experiment in four draws, then what is harder."""
    ties, bt = dr.datasets.Ties, dr.datasets.Bt
    ring = ((0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (0, 2))
    made = [
        *(_ties(draw, n) for n in (1000, 2000, 3000) for draw in (0, 5, 7, 9)),
        *(_ties(draw, 300) for draw in (0, 5)),
        Scenario("binary", bt(coefficients=5, n_items=3, n_features=2), 1000),
        Scenario("no minimum mass", ties(coefficients=5, min_mass=0.0), 1000),
        Scenario("four categories", ties(coefficients=1), 1000, n_categories=4),
        Scenario("five categories", ties(coefficients=1), 1000, n_categories=5),
        Scenario("position effect", ties(coefficients=0, position_effect=3.0), 1000),
        Scenario("incomplete graph", ties(coefficients=2, n_items=5), 1000, graph=ring),
        Scenario("clusters", ties(coefficients=0), 1000, cluster=5),
        Scenario(
            "rare pairs", ties(coefficients=0, propensity_rate=0.05, selection_strength=1.0, propensity_min=0.005), 3000
        ),
        Scenario("98 noise features", ties(coefficients=0), 1000, noise=98),
        # The paper's experiment on judges, without a judge.
        Scenario("five features", ties(coefficients=0, n_features=5), 2000),
        Scenario("five features, extreme draw", ties(coefficients=5, n_features=5), 2000),
        Scenario(
            "one pair of 20 models, estimated propensities",
            ties(coefficients=0, n_items=20),
            4000,
            one_pair=True,
            options={"propensity": "estimate", "position_bias": False, "graph": "complete"},
        ),
        Scenario(
            "one pair of 6 models chosen by prompt, estimated propensities",
            ties(coefficients=5, n_items=6, selection_strength=1.0),
            2000,
            one_pair=True,
            options={"propensity": "estimate"},
        ),
        Scenario("hopeless and rare", Skewed(_STRENGTH, _POPULARITY), 1500, one_pair=True, options=_SKEWED),
        Scenario(
            "hopeless and rare, with a feature",
            Skewed(_STRENGTH, _POPULARITY, _SLOPES),
            1500,
            one_pair=True,
            options=_SKEWED,
        ),
        Scenario(
            "weak and rare, with a feature", Skewed(_WEAK, _POPULARITY, _SLOPES), 1500, one_pair=True, options=_SKEWED
        ),
        Scenario("far apart", Skewed(_FAR_APART, (1.0,) * 6), 400, one_pair=True, options=_SKEWED),
    ]
    return {scenario.name: scenario for scenario in made}
