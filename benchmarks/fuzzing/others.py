"""Targets of the other public functions: plans, tables of scores, rankings, checks, comparisons, helpers."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pandas as pd

import dmlrank as dr

from .answers import check_result
from .arenas import draw_arena
from .draws import Generator, choice, junk
from .questions import N_RESULTS, call_method, results_of
from .watch import Watch

_FORMULA = "winner ~ 1 | model_a + model_b"


def scores(rng: Generator, watch: Watch, folder: str) -> None:
    """Rank models by complete benchmark scores; compare with means of the shares beaten, and paired differences."""
    n, size = int(rng.integers(2, 60)), int(rng.integers(2, 7))
    values = choice(
        rng, [rng.normal(size=(n, size)), rng.integers(3, size=(n, size)).astype(float), rng.random((n, size)) * 1e-8]
    )
    margin = float(choice(rng, [0.0, 0.0, 0.5, 1.0]))
    lower = bool(rng.random() < 0.3)
    frame = pd.DataFrame({
        "task": np.repeat(np.arange(n), size), "model": np.tile([f"m{j}" for j in range(size)], n),
        "score": values.ravel()
    }).sample(frac=1, random_state=int(rng.integers(1000)))  # fmt: skip
    columns = {"prompt": "task", "model": "model", "score": "score"}
    pairs = watch.ask(
        "pairs_from_scores", dr.data.pairs_from_scores, frame, **columns, margin=margin, lower_is_better=lower
    )
    if pairs is None:
        return
    results = watch.ask("dml_rank", dr.dml_rank, _FORMULA, pairs, rng=0, n_jobs=1)
    if results is None:
        return
    difference = (values[:, :, None] - values[:, None, :]) * (-1 if lower else 1)
    wins = np.where(np.abs(difference) <= margin, 0.5, (difference > 0).astype(float))
    beaten = (wins.sum(axis=2) - 0.5) / (size - 1)
    watch.near(
        "borda of scores", results.params[[f"m{j}" for j in range(size)]], beaten.mean(axis=0), rtol=1e-10, atol=1e-12
    )
    check_result(watch, results)
    spread = beaten - beaten.mean(axis=0)
    expected = np.sqrt(np.diag(spread.T @ spread)) / n
    found = results.bse[[f"m{j}" for j in range(size)]].to_numpy()
    watch.require(bool((found >= expected * (1 - 1e-9)).all()), "bse of scores", f"{found} below {expected}")
    if not results.diagnostics.pairs_without_variation:
        watch.near("bse of scores", found, expected, rtol=1e-8)


def odd_tables(rng: Generator, watch: Watch, folder: str) -> None:
    """Read odd tables of scores and rankings, and rank them where they can be read."""
    n = int(rng.integers(1, 40))
    cells = [0, 1, 1.5, np.nan, np.inf, -np.inf, None, "a", "1", 1e308, -1e308, True, 1e-320, 2]
    odd = rng.random() < 0.5
    frame = pd.DataFrame({
        "task": [choice(rng, [0, 1, 2, 3, "a", None] if odd else [0, 1, 2, 3]) for _ in range(n)],
        "model": [choice(rng, ["a", "b", "c", "", None, 1] if odd else ["a", "b", "c", "d"]) for _ in range(n)],
        "score": pd.Series([choice(rng, cells if odd else [1, 2, 3, 4, 2.5]) for _ in range(n)],
        dtype=object).infer_objects(),
        "who": [choice(rng, ["p", "q"]) for _ in range(n)],
    })  # fmt: skip
    if rng.random() < 0.7:
        frame = frame.drop_duplicates(["task", "model"])
    if rng.random() < 0.5:
        options = {"prompt": "task", "model": "model", "score": "score"} | _maybe(
            rng, ["margin", "lower_is_better", "prompt", "model", "score"]
        )
        pairs = watch.ask("pairs_from_scores", dr.data.pairs_from_scores, frame, **options)
    else:
        options = {"prompt": "task", "model": "model", "rank": "score"} | _maybe(rng, ["annotator", "rank", "prompt"])
        pairs = watch.ask("pairs_from_rankings", dr.data.pairs_from_rankings, frame, **options)
    if pairs is not None:
        functional = choice(rng, ["borda", "bt", "rank_centrality", "softmin", "dominance"])
        results = watch.ask("dml_rank", dr.dml_rank, _FORMULA, pairs, rng=0, n_jobs=1, functional=functional)
        if results is not None:
            check_result(watch, results)
        watch.ask("check", lambda: str(dr.check(_FORMULA, pairs)))


def _maybe(rng: Generator, names: list[str]) -> dict[str, Any]:
    """Return an odd value for one of the arguments, half of the time."""
    if rng.random() < 0.5:
        return {}
    name = choice(rng, names)
    columns = ["task", "model", "score", "who", "nope", ["task", "who"], ["task", "task"]]
    return {
        name: choice(rng, columns) if rng.random() < 0.5 and name not in ("margin", "lower_is_better") else junk(rng)
    }


def plans(rng: Generator, watch: Watch, folder: str) -> None:
    """Plan labels for known mu; the plan keeps its budget and bounds, and is not worse than uniform propensities."""
    n, size, width = int(rng.integers(1, 30)), int(rng.integers(2, 6)), int(rng.integers(2, 5))
    mu = rng.dirichlet(np.full(width, choice(rng, [0.2, 1.0, 10.0])), size=(n, size, size))
    options: dict[str, Any] = {
        "budget": float(choice(rng, [0.5, 1.0, 0.1, 3.0])) * n,
        "functional": choice(rng, ["borda", "bt", "rank_centrality"]),
    }
    kinds = {
        "criterion": ["A", "D"], "one_pair": [True, False], "explore": [0.0, 0.3], "position_bias": [True, False],
        "min_propensity": [None, 0.001, 0.05], "costs": [1.0, rng.uniform(0.5, 2, size=(n, size, size)),
        rng.uniform(0.5, 2, size=(size, size))],
        "weights": [None, rng.uniform(0.1, 2, size=n)], "prompts": ["random", "fixed"],
        "top": [None, 2], "against": [None, "m0"],
        "models": [[f"m{j}" for j in range(size)]],
    }  # fmt: skip
    for name, values in kinds.items():
        if rng.random() < 0.35 or name == "models":
            options[name] = choice(rng, values)
    odd = rng.random() < 0.4
    if odd:
        parameters = [p for p in inspect.signature(dr.design).parameters if p not in ("mu", "progress")]
        options[choice(rng, parameters)] = junk(rng)
    if rng.random() < 0.1:
        mu = junk(rng)
    plan = watch.ask("design", dr.design, mu, **options)
    if plan is None:
        return
    propensity = plan.propensity
    watch.require(bool(np.isfinite(propensity).all()), "design", f"propensities {propensity}")
    watch.require(
        bool((propensity >= 0).all() and (propensity <= 1 + 1e-9).all()), "design", f"propensities {propensity}"
    )
    if not odd:
        cost = plan.expected_cost
        watch.require(cost <= options["budget"] * (1 + 1e-6), "design", f"cost {cost} above {options['budget']}")
        if options.get("one_pair"):
            upper = propensity.sum(axis=(1, 2)) if plan.position_bias else propensity.sum(axis=(1, 2)) / 2
            watch.require(bool((upper <= 1 + 1e-6).all()), "design one_pair", f"{upper}")
        if options.get("criterion", "A") == "A" and not options.get("explore"):
            watch.require(
                bool(plan.objective <= plan.uniform_objective * (1 + 1e-6)),
                "design",
                f"{plan.objective} above uniform {plan.uniform_objective}",
            )
    watch.ask("Plan.summary", lambda: str(plan.summary()))
    drawn = watch.ask("Plan.sample", plan.sample, int(rng.integers(100)))
    if drawn is not None and options.get("one_pair") is True and not odd:
        watch.require(len(drawn) <= n, "Plan.sample", f"{len(drawn)} labels on {n} prompts")
    call_method(rng, watch, results_of(0), plan, depth=2)


def helpers(rng: Generator, watch: Watch, folder: str) -> None:
    """Compare results, check an arena and fit a functional, each with odd arguments; call any other function so."""
    kind, arena = choice(rng, ["compare", "check", "functional", "other", "other"]), draw_arena(rng, n_votes=50)
    results = [results_of(int(rng.integers(N_RESULTS))) for _ in range(int(rng.integers(0, 4)))]
    if kind == "compare":
        parts = [junk(rng) if rng.random() < 0.15 else result for result in results]
        compared = watch.ask("compare", dr.compare, *parts, independent=choice(rng, [True, False, junk(rng)]))
        if compared is not None:
            watch.ask("Comparison.summary", lambda: str(compared.summary()))
            call_method(rng, watch, results_of(0), compared, depth=2)
    elif kind == "check":
        parameters = [p for p in inspect.signature(dr.check).parameters if p not in ("formula", "data")]
        options = {choice(rng, parameters): junk(rng) for _ in range(2)}
        report = watch.ask("check", dr.check, "winner ~ x | model_a + model_b", arena.frame, **options)
        if report is not None:
            watch.ask("str of check", str, report)
    elif kind == "functional":
        names = sorted(set(dr.functionals.__all__) - {"Functional", "Gauge", "Graph", "CategoryWeights", "named"})
        made = _with_odd_arguments(rng, watch, getattr(dr.functionals, choice(rng, names)))
        if made is not None:
            options = {"pairs": dr.Pairs(min_labels=1), "rng": 0, "n_jobs": 1, "propensity": "marginal"}
            watch.ask("dml_rank", dr.dml_rank, _FORMULA, arena.frame, functional=made, **options)
    else:
        planning, functions = dr.planning, [dr.RandomSearch, dr.EqualStyle, dr.data.style_columns]
        functions += [planning.mixture_propensity, planning.repeated_propensity]
        functions += [dr.datasets.simulate_arena, dr.datasets.Bt, dr.datasets.Ties]
        _with_odd_arguments(rng, watch, choice(rng, functions))


def _with_odd_arguments(rng: Generator, watch: Watch, function: Any) -> Any:
    """Call a function with odd values of what it needs and of one other argument."""
    parameters = inspect.signature(function).parameters
    required = [p.name for p in parameters.values() if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    options = {name: junk(rng) for name in {*required, choice(rng, list(parameters))}}
    if isinstance(options.get("n"), int) and 1000 < options["n"] < 2**62:
        return None  # so many votes take long
    return watch.ask(function.__name__, lambda: function(**options))
