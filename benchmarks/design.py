"""What labelling plans buy: errors after labels by plan and at random, at the same cost.

    python benchmarks/design.py simulated --seeds 5000     known mu and propensities; formula against simulation
    python benchmarks/design.py fitted --seeds 40          mu learnt, plan from a pilot study
    python benchmarks/design.py grid PATH --seeds 500      GPT-4's verdicts on MT-Bench, 10 % bought (PATH: mt_bench/)
    python benchmarks/design.py speed                      100,000 contexts, 20 models, 3 categories
    python benchmarks/design.py distinct                   a plan and a budget from a fit whose prompts all differ

With known mu and propensities the debiased estimate is a mean of F(mu) and of one term per label, which is looked up:
every seed draws n contexts from a pool whose mean score is the truth, so that nothing but the labels and contexts is
random, and the covariance formula is exact.
"""

from __future__ import annotations

import argparse
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

import dmlrank as dr
from dmlrank.options import in_objects

FUNCTIONALS = ("borda", "bt", "rank_centrality")


@dataclass(frozen=True)
class Setting:
    """Contexts to draw from: probabilities (N, K, K, C), how many each study has, and what its labels may cost."""

    name: str
    mu: np.ndarray
    n: int
    budget: float
    contrasts: object = None


def collection(pool: int = 3000, coefficients: int = 0) -> Setting:
    """The paper's experiment on optimal data collection: 1,500 contexts, budget 2,000 [P tab:collection]."""
    simulator = dr.datasets.Bt(coefficients, n_items=3, n_features=2, gamma=1)
    return Setting(f"collection, draw {coefficients}", simulator.mu(simulator.features(pool, rng=1)), 1500, 2000)


def cluster(pool: int = 3000) -> Setting:
    """Ten models, the best five close together, ties; what matters are the differences among those five."""
    rng = np.random.default_rng(3)
    x = rng.random((pool, 2))
    level = np.concatenate([np.linspace(1.0, 0.8, 5), np.linspace(0.2, -1.2, 5)])
    utility = level + 0.5 * np.sin(2 * np.pi * (x[:, :1] + rng.random(10))) + (x[:, 1:] - 0.5) * rng.normal(size=10)
    gap = utility[:, :, None] - utility[:, None, :]
    mu = np.exp(np.stack([gap, -gap, -0.3 - 0.5 * np.abs(gap)], axis=-1))
    mu /= mu.sum(axis=-1, keepdims=True)
    mu[:, range(10), range(10)] = 0
    return Setting("cluster of five in ten", mu, 1500, 3000, dr.planning.Top(5))


def label_terms(plan: dr.planning.Plan, mu: np.ndarray) -> np.ndarray:
    """What a label of each category adds to its context's correction, before 1 / pi: (N, m, C, K)."""
    problem = plan.specification.problem
    functional = problem.functional
    n, _, _, n_categories = mu.shape
    flip = [1, 0, *range(2, n_categories)]
    terms = np.empty((n, problem.n_cells, n_categories, problem.n_items))
    for cell, (j, k) in enumerate(zip(problem.first, problem.second, strict=True)):
        for category in range(n_categories):
            delta = np.zeros_like(mu)
            delta[:, j, k] = -mu[:, j, k]
            delta[:, j, k, category] += 1
            if not problem.ordered:
                delta[:, k, j] = delta[:, j, k][:, flip]
            terms[:, cell, category] = functional.derivative(mu, delta)
    return terms


def estimates(
    plan: dr.planning.Plan,
    propensity: np.ndarray,
    *,
    n: int,
    seeds: int,
    seed: int,
    labels: np.ndarray | None = None,
    mu: np.ndarray | None = None,
) -> np.ndarray:
    """Debiased estimates, (seeds, K), with known mu and propensities (N, m) of independent draws.

    ``labels``, (N, m), are given categories in place of random ones; the contexts are then all N and not drawn.
    """
    problem = plan.specification.problem
    mu = problem.mu if mu is None else mu
    terms, value = label_terms(plan, mu), problem.functional.value(mu)
    cumulated = np.cumsum(mu[:, problem.first, problem.second], axis=-1)
    rng, made = np.random.default_rng(seed), np.empty((seeds, problem.n_items))
    for row in range(seeds):
        drawn = rng.integers(len(mu), size=n) if labels is None else np.arange(len(mu))
        place, cell = np.nonzero(rng.random((len(drawn), problem.n_cells)) < propensity[drawn])
        context = drawn[place]
        if labels is None:
            category = (rng.random((len(context), 1)) > cumulated[context, cell, :-1]).sum(axis=1)
        else:
            category = labels[context, cell]
        weight = 1 / propensity[context, cell]
        made[row] = value[drawn].mean(axis=0) + weight @ terms[context, cell, category] / len(drawn)
    return made


def compare(setting: Setting, functional: str, seeds: int, criterion: str = "A") -> dict[str, object]:
    """Formula and simulation for one functional: sums of variances by plan and at random, and their ratios."""
    pool = len(setting.mu)
    plan = dr.design(
        setting.mu,
        functional,
        budget=setting.budget * pool / setting.n,
        criterion=criterion,
        contrasts=setting.contrasts,
        floor=0,
        n_jobs=1,
    )
    rows, truth = plan.specification.rows, plan.specification.scores
    uniform = np.full(plan.solution.propensity.shape, plan.specification.problem.uniform(plan.expected_cost))
    errors, ratios, share = {}, {}, np.sqrt(pool / setting.n)
    predicted = {"plan": plan.std_errors * share, "random": plan.uniform_std_errors * share}
    for number, (how, propensity) in enumerate((("plan", plan.solution.propensity), ("random", uniform))):
        made = estimates(plan, propensity, n=setting.n, seeds=seeds, seed=number)
        errors[how] = np.square((made - truth) @ rows.T).sum(axis=1)
        ratios[how] = made.std(axis=0) / predicted[how].to_numpy()
    ratio = errors["plan"].mean() / errors["random"].mean()
    spread = [errors[how].std() / errors[how].mean() for how in errors]
    return {
        "setting": setting.name,
        "functional": functional,
        "formula plan": plan.specification.objective(plan.solution.sigma) / setting.n,
        "realised plan": errors["plan"].mean(),
        "realised random": errors["random"].mean(),
        "formula ratio": plan.objective / plan.uniform_objective,
        "realised ratio": ratio,
        "+-": 1.96 * ratio * float(np.hypot(*spread)) / np.sqrt(seeds),
        "se ratio min": min(r.min() for r in ratios.values()),
        "se ratio max": max(r.max() for r in ratios.values()),
    }


def simulated(seeds: int) -> pd.DataFrame:
    """All settings and functionals with known nuisances."""
    settings = (collection(), collection(coefficients=5), cluster())
    return pd.DataFrame([compare(setting, name, seeds) for setting in settings for name in FUNCTIONALS])


def labelled(rows: pd.DataFrame, x: np.ndarray, mu: np.ndarray, models: list[str], rng: np.random.Generator):
    """The rows of a sample with features and labels."""
    frame = rows.assign(x0=x[rows["context"], 0], x1=x[rows["context"], 1], winner=None)
    known = rows["propensity"].notna().to_numpy()
    place = {model: code for code, model in enumerate(models)}
    at = (rows["context"][known], rows["model_a"][known].map(place), rows["model_b"][known].map(place))
    cumulated = np.cumsum(mu[tuple(part.to_numpy() for part in at)], axis=1)
    names = np.array(["model_a", "model_b", "tie"], dtype=object)
    frame.loc[known, "winner"] = names[(rng.random((len(cumulated), 1)) > cumulated[:, :-1]).sum(axis=1)]
    return frame


def fitted(seeds: int, first_seed: int = 0, n: int = 1500, budget: float = 2000) -> pd.DataFrame:
    """The collection experiment with learnt nuisances: pilot at random, plan from it, fit on what was bought."""
    simulator = dr.datasets.Bt(n_items=3, n_features=2, gamma=1)
    truth = {name: simulator.truth(name).to_numpy() for name in FUNCTIONALS}
    formula, errors = "winner ~ x0 + x1 | model_a + model_b", []
    options = {"context": "question_id", "propensity": "propensity", "n_jobs": 1}
    for seed in range(first_seed, first_seed + seeds):
        rng = np.random.default_rng([seed, 7])
        pilot = dr.dml_rank(
            formula, simulator.sample(n, rng=seed), **in_objects({"rng": seed, "functional": "borda", **options})
        )
        x = simulator.features(n, rng=rng)
        mu = simulator.mu(x)
        for name in FUNCTIONALS:
            fit = pilot.update(functional=name)
            new = pd.DataFrame({"question_id": range(n), "x0": x[:, 0], "x1": x[:, 1]})
            plan = _by_context(fit.design(budget, newdata=new, from_scratch=True))
            even = dr.design(
                plan.specification.problem.mu,
                name,
                budget=budget,
                min_propensity=plan.specification.problem.uniform(budget),
            )
            for how, made in (("plan", plan), ("random", even)):
                rows = made.sample(rng).rename(columns={"question_id": "context"})
                rows[["model_a", "model_b"]] = rows[["model_a", "model_b"]].astype(object)
                frame = labelled(rows, x, mu, fit.models, rng).rename(columns={"context": "question_id"})
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", dr.DmlrankWarning)
                    got = dr.dml_rank(formula, frame, **in_objects({"functional": name, "rng": seed, **options}))
                error = np.square(got.params.to_numpy() - truth[name]).sum()
                errors.append({"functional": name, "seed": seed, "how": how, "error": error})
        print(f"seed {seed}", flush=True)
    table = pd.DataFrame(errors).pivot(index=["functional", "seed"], columns="how", values="error")
    made = table.groupby("functional").mean().rename(columns=lambda how: f"mse {how}")
    made["ratio"] = made["mse plan"] / made["mse random"]
    # Both fits of a seed share their prompts.
    apart = table["plan"] - made["ratio"].reindex(table.index, level="functional") * table["random"]
    made["+-"] = 1.96 * apart.groupby("functional").sem() / made["mse random"]
    return made.reset_index()


def plans_of_verdicts(
    folder: str | Path, share: float
) -> Iterator[tuple[str, pd.DataFrame, dr.planning.Plan, np.ndarray]]:
    """Plans that buy a share of GPT-4's verdicts: name, verdicts, plan, category of every cell (N, m).

    mu, in the plan and in the estimate, comes from the human votes on the same prompts.
    """
    human = dr.datasets.read_mt_bench(Path(folder) / "human.jsonl")
    verdicts = dr.datasets.read_mt_bench(Path(folder) / "gpt4_pair.jsonl")
    context = ["question_id", "turn"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dr.DmlrankWarning)
        fit = dr.dml_rank(
            "winner ~ C(category) + C(turn) | model_a + model_b",
            human.merge(verdicts[context].drop_duplicates(), how="right"),
            context=context,
            position_bias=False,
            propensity="marginal",
            cov_kwds={"prompts": "fixed"},
            rng=0,
            n_jobs=1,
        )
    for name, contrasts in (("all scores", None), ("top three", dr.planning.Top(3))):
        plan = _by_context(fit.design(share * len(verdicts), contrasts=contrasts, from_scratch=True))
        yield name, verdicts, plan, _verdict_cells(verdicts, plan)


def grid(folder: str, seeds: int, share: float = 0.1) -> pd.DataFrame:
    """GPT-4's verdicts on all cells as truth, a share of them bought by plan and at random."""
    rows = []
    for name, verdicts, plan, labels in plans_of_verdicts(folder, share):
        truth = full_table(plan, labels)
        uniform = np.full(plan.solution.propensity.shape, plan.specification.problem.uniform(plan.expected_cost))
        errors = {}
        for number, (how, pi) in enumerate((("plan", plan.solution.propensity), ("random", uniform))):
            made = estimates(plan, pi, n=len(pi), seeds=seeds, seed=number, labels=labels)
            errors[how] = np.square((made - truth) @ plan.specification.rows.T).sum(axis=1)
        ratio = errors["plan"].mean() / errors["random"].mean()
        spread = [errors[how].std() / errors[how].mean() for how in errors]
        rows.append(
            {
                "asked": name,
                "cells": f"{plan.expected_cost:.0f} of {len(verdicts)}",
                "rmse plan": np.sqrt(errors["plan"].mean()),
                "rmse random": np.sqrt(errors["random"].mean()),
                "formula ratio": plan.objective / plan.uniform_objective,
                "realised ratio": ratio,
                "+-": 1.96 * ratio * float(np.hypot(*spread)) / np.sqrt(seeds),
            }
        )
    return pd.DataFrame(rows)


def _by_context(plan: dr.planning.Plan) -> dr.planning.Plan:
    """The same plan with a row for every context, where a plan joins contexts with equal probabilities."""
    problem, solution = plan.specification.problem, plan.solution
    rows = problem.row
    cost, weight = (part if len(part) == 1 else part[rows] for part in (problem.cost, problem.context_weight))
    own_rows = {"mu": problem.mu[rows], "row": np.arange(len(rows)), "deviation": None}
    by_context = replace(problem, cost=cost, context_weight=weight, **own_rows)
    specification = replace(plan.specification, problem=by_context)
    return dr.planning.Plan(replace(solution, specification=specification, propensities=solution.propensities[rows]))


def _verdict_cells(verdicts: pd.DataFrame, plan: dr.planning.Plan) -> np.ndarray:
    """Category of every context and unordered pair of the plan, (N, m)."""
    problem, place = plan.specification.problem, {model: code for code, model in enumerate(plan.models)}
    context = {ids: row for row, ids in enumerate(plan.contexts)}
    cell = {(j, k): m for m, (j, k) in enumerate(zip(problem.first, problem.second, strict=True))}
    labels = np.full(plan.solution.propensity.shape, -1)
    for row in verdicts.itertuples():
        j, k = place[row.model_a], place[row.model_b]
        category = {"model_a": 0, "model_b": 1}.get(row.winner, 2)
        if j > k:
            j, k, category = k, j, (1, 0, 2)[category]
        labels[context[row.question_id, row.turn], cell[j, k]] = category
    assert (labels >= 0).all()
    return labels


def full_table(plan: dr.planning.Plan, labels: np.ndarray) -> np.ndarray:
    """Scores from all labels."""
    problem = plan.specification.problem
    mu = np.zeros(problem.mu.shape)
    for m, (j, k) in enumerate(zip(problem.first, problem.second, strict=True)):
        mu[:, j, k] = np.eye(3)[labels[:, m]]
        mu[:, k, j] = mu[:, j, k][:, [1, 0, 2]]
    return problem.functional.value(mu).mean(axis=0)


def speed(n: int = 100_000, n_items: int = 20) -> pd.DataFrame:
    """Seconds and memory beyond mu for A and D; the ratio of their times."""
    rng = np.random.default_rng(0)
    gap = rng.normal(scale=0.7, size=(n, n_items))
    mu = np.ones((n, n_items, n_items, 3))
    np.exp(gap[:, :, None] - gap[:, None, :], out=mu[..., 0])
    np.divide(1, mu[..., 0], out=mu[..., 1])
    mu /= mu.sum(axis=-1, keepdims=True)
    mu[:, range(n_items), range(n_items)] = 0
    rows = []
    for functional in FUNCTIONALS:
        for criterion in "AD":
            with _Memory() as memory:
                start, cpu = time.perf_counter(), time.process_time()
                plan = dr.design(mu, functional, budget=n / 2, criterion=criterion)
                row = {"seconds": time.perf_counter() - start, "cpu seconds": time.process_time() - cpu}
            row |= {"GB": memory.peak, "kkt": plan.kkt_residual}
            rows.append({"functional": functional, "criterion": criterion} | row)
            print(pd.DataFrame(rows[-1:]).to_string(index=False, header=len(rows) == 1), flush=True)
            del plan
    return pd.DataFrame(rows)


def draw_distinct(n: int, n_items: int, seed: int = 0) -> pd.DataFrame:
    """Battles of random pairs, each on a prompt of its own with four continuous features; 15 % ties."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4))
    strength = rng.permutation(np.linspace(-1.5, 1.5, n_items)) + x @ rng.normal(scale=0.3, size=(4, n_items))
    first = rng.integers(n_items, size=n)
    second = (first + rng.integers(1, n_items, size=n)) % n_items
    prompt = np.arange(n)
    won = rng.random(n) < 1 / (1 + np.exp(strength[prompt, second] - strength[prompt, first]))
    winner = np.where(rng.random(n) < 0.15, "tie", np.where(won, "model_a", "model_b"))
    names = np.array([f"model_{item:03d}" for item in range(n_items)])
    features = pd.DataFrame(x, columns=[f"x{number}" for number in range(4)])
    return features.assign(model_a=names[first], model_b=names[second], winner=winner)


def distinct(n: int, n_items: int, functionals: tuple[str, ...] = FUNCTIONALS[:2]) -> pd.DataFrame:
    """Time and memory beyond the fit's of plans where no two prompts have equal features, and of a budget for a power.

    The budget is for 80 % power to show a difference of the two best models that is 15 % smaller than what the plan
    shows.
    """
    formula = "winner ~ x0 + x1 + x2 + x3 | model_a + model_b"
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dr.DmlrankWarning)
        fit = dr.dml_rank(
            formula,
            draw_distinct(n, n_items),
            functional="borda",
            position_bias=False,
            pairs=dr.Pairs(min_labels=1),
            rng=0,
        )
        for functional in functionals:
            fit = fit.update(functional=functional)
            second, best = fit.params.sort_values().index[-2:]
            plan, figures = _measured(lambda fit=fit: fit.design(n / 4))
            rows.append({"functional": functional, "work": "design", "kkt": plan.kkt_residual} | figures)
            gap = 0.85 * plan.smallest_gap(best, second)
            more, figures = _measured(
                lambda plan=plan, pair=(best, second), gap=gap: plan.for_power(*pair, difference=gap)
            )
            rows.append({"functional": functional, "work": "for_power", "kkt": more.kkt_residual} | figures)
            print(pd.DataFrame(rows[-2:]).to_string(index=False), flush=True)
    return pd.DataFrame(rows)


def _measured(work: Callable[[], dr.planning.Plan]) -> tuple[dr.planning.Plan, dict[str, float]]:
    """A plan, the seconds and processor seconds that it took, and the memory beyond that at its start."""
    with _Memory() as memory:
        start, cpu = time.perf_counter(), time.process_time()
        plan = work()
        figures = {"seconds": time.perf_counter() - start, "cpu seconds": time.process_time() - cpu}
    return plan, figures | {"GB": memory.peak}


class _Memory:
    """The largest resident memory while it is open, above that at its start, in GB."""

    def __enter__(self) -> _Memory:
        self.peak, self._start, self._open = 0.0, self._resident(), True
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False
        self._thread.join()

    def _watch(self) -> None:
        while self._open:
            self.peak = max(self.peak, self._resident() - self._start)
            time.sleep(0.01)

    @staticmethod
    def _resident() -> float:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * 4096 / 1e9


def main() -> None:
    """Run one of the experiments and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("simulated", "fitted", "grid", "speed", "distinct"))
    parser.add_argument("path", nargs="?", help="the folder mt_bench, for grid")
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--first-seed", type=int, default=0, help="of fitted, to go on where a run has ended")
    parser.add_argument("--contexts", type=int, default=135_000, help="of distinct")
    parser.add_argument("--models", type=int, default=52, help="of distinct")
    given = parser.parse_args()
    if given.what == "grid" and not given.path:
        parser.error("grid needs the folder mt_bench")
    runs = {
        "simulated": lambda: simulated(given.seeds),
        "fitted": lambda: fitted(given.seeds, given.first_seed),
        "grid": lambda: grid(given.path, given.seeds),
        "speed": speed,
        "distinct": lambda: distinct(given.contexts, given.models),
    }
    print(runs[given.what]().to_string(index=False, float_format="{:.4g}".format))


if __name__ == "__main__":
    main()
