"""Labels bought by an A-optimal plan and at random, for the same budget [P tab:collection]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dmlrank as dr
from dmlrank.options import in_objects

from .tables import Experiment
from .ways import DESCRIBED, FUNCTIONALS, figures, formula_of, options_of, truth_of

# The paper's table of configurations has 3,000 contexts, its text 1,500 that are labelled twice: half of the contexts
# are read as the pilot study from which mu of the plan is learnt.
PILOT, CONTEXTS, BUDGET = 1500, 1500, 2000.0
DRAWS = (0, 5)
# Smallest propensity of a plan as a share of the uniform one; the paper does not state its own.
LEAST = 0.1
PLANS = ("pilot", "true mu")
RANDOM = "random"
_SMALL = 300


def tasks(seed: int, way: str) -> Iterator[tuple[Any, ...]]:
    """List the plans of a seed: each for all functionals."""
    for draw in DRAWS if way != DESCRIBED else DRAWS[:1]:
        for plan in (RANDOM, *PLANS):
            yield seed, way, draw, plan


def run(task: tuple[Any, ...], *, small: bool = False) -> list[dict[str, object]]:
    """Return the rows of a plan: the error of every functional on the labels that its plan buys."""
    seed, way, draw, kind = task
    share = _SMALL / CONTEXTS if small else 1.0
    study = Study(
        dr.datasets.Bt(draw, n_items=3, n_features=2, gamma=1),
        seed,
        options_of(way, "collection", small=small),
        n_pilot=round(PILOT * share),
        n=round(CONTEXTS * share),
        budget=BUDGET * share,
    )
    pilot = study.pilot_fit() if kind == "pilot" else None
    rows, fit = [], None
    for functional in FUNCTIONALS:
        plan = study.plan(kind, functional, pilot)
        if fit is None or kind != RANDOM:
            fit = study.fit(plan, functional)
        changed = fit.update(functional=functional)
        truth = truth_of(study.simulator, functional, 20_000 if small else 1_000_000)
        predicted = plan.objective / plan.uniform_objective
        common = {"functional": functional, "labels": fit.diagnostics.n_votes, "predicted_ratio": f"{predicted:.4g}"}
        rows.append(common | figures(changed, truth, plain=way == DESCRIBED))
    return rows


@dataclass(frozen=True)
class Study:
    """One study: a pilot sample, and contexts whose labels are bought.

    options: Options of all fits.
    n_pilot, n: Contexts of the pilot sample, and contexts whose labels are bought.
    budget: Expected number of labels.
    """

    simulator: dr.datasets.Bt
    seed: int
    options: Mapping[str, Any]
    n_pilot: int
    n: int
    budget: float

    @property
    def contexts(self) -> pd.DataFrame:
        """The contexts whose labels are bought."""
        x = self.simulator.features(self.n, rng=np.random.default_rng([self.seed, 5]))
        return pd.DataFrame({"question_id": range(self.n), "x0": x[:, 0], "x1": x[:, 1]})

    @property
    def mu(self) -> NDArray[np.float64]:
        """True probabilities of these contexts, (n, K, K, 2)."""
        return self.simulator.mu(self.contexts[["x0", "x1"]].to_numpy())

    def pilot_fit(self) -> dr.RankResults:
        """Return the fit of the pilot sample, whose labels are the simulator's."""
        return self._dml_rank(self.simulator.sample(self.n_pilot, rng=np.random.default_rng([self.seed, 4])), "borda")

    def plan(self, kind: str, functional: str, pilot: dr.RankResults | None) -> dr.planning.Plan:
        """Return the plan for a functional: from the pilot's mu, from the true mu, or the uniform plan."""
        even = self.budget / (self.n * self.simulator.n_items * (self.simulator.n_items - 1))
        if pilot is not None:
            fit = pilot.update(functional=functional)
            return fit.design(self.budget, newdata=self.contexts, from_scratch=True, min_propensity=LEAST * even)
        least = even if kind == RANDOM else LEAST * even
        return dr.design(
            self.mu,
            functional,
            budget=self.budget,
            min_propensity=least,
            floor=0.0,
            models=list(self.simulator.models),
            contexts=range(self.n),
            n_jobs=1,
        )

    def fit(self, plan: dr.planning.Plan, functional: str) -> dr.RankResults:
        """Buy the labels of a plan and fit them."""
        rows = plan.sample(np.random.default_rng([self.seed, 6])).rename(columns={"context": "question_id"})
        frame = rows.merge(self.contexts, on="question_id").assign(winner=None)
        frame[["model_a", "model_b"]] = frame[["model_a", "model_b"]].astype(object)
        known = frame["propensity"].notna().to_numpy()
        code = {model: place for place, model in enumerate(self.simulator.models)}
        first, second = (frame.loc[known, column].map(code).to_numpy(int) for column in ("model_a", "model_b"))
        # A pair has the same label whichever plan buys it.
        chance = np.random.default_rng([self.seed, 7]).random(self.mu.shape[:3])
        place = (frame.loc[known, "question_id"].to_numpy(int), first, second)
        frame.loc[known, "winner"] = np.where(chance[place] < self.mu[(*place, 0)], "model_a", "model_b")
        return self._dml_rank(frame, functional)

    def _dml_rank(self, frame: pd.DataFrame, functional: str) -> dr.RankResults:
        return dr.dml_rank(
            formula_of(self.simulator),
            frame,
            **in_objects(
                {
                    "functional": functional,
                    "context": "question_id",
                    "propensity": "propensity",
                    "rng": self.seed,
                    "n_jobs": 1,
                    **self.options,
                }
            ),
        )


EXPERIMENT = Experiment(
    "collection",
    ("seed", "way", "draw", "plan"),
    ("functional", "labels", "predicted_ratio", "mse", "covers"),
    50,
    tasks,
    run,
)


def formula_ratios(draws: range = range(12), n: int = 3000) -> pd.DataFrame:
    """Return the sums of variances that the formula predicts for the plan and for random labels, at the true mu.

    Nothing is fitted, so that the ratios show what a plan can gain on each draw of coefficients.
    """
    rows = []
    for draw in draws:
        study = Study(dr.datasets.Bt(draw, n_items=3, n_features=2, gamma=1), 0, {}, 0, n, BUDGET * n / CONTEXTS)
        for functional in FUNCTIONALS:
            plan = study.plan("true mu", functional, None)
            # The objective is the sum over models of n times the variance.
            scale = 1 / (CONTEXTS * study.simulator.n_items)
            rows.append((draw, functional, plan.objective * scale, plan.uniform_objective * scale))
    table = pd.DataFrame(rows, columns=["draw", "functional", "plan", "random"])
    return table.assign(ratio=table["plan"] / table["random"])
