"""Whether a change of the code changed a number: 46 fits are stored before it and compared after it.

``python benchmarks/same_numbers.py store FILE`` writes estimates, covariances, summaries, tests and plans of every fit;
``python benchmarks/same_numbers.py compare FILE`` makes them again and prints, fit by fit, the largest difference.
Names of fits after FILE restrict both to these. ``DMLRANK_DATA`` adds the fits to real data.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dmlrank as dr
from dmlrank.options import in_objects

FORMULA = "winner ~ C(category) + length | model_a + model_b"
PLAIN = "winner ~ 1 | model_a + model_b"
Numbers = dict[str, Any]
# Further options of every fit, and whether the rows of its frame are put into another order: benchmarks/determinism.py
# sets them.
OF_EVERY_FIT: dict[str, Any] = {}
ROWS = {"is_shuffled": False}
# Relative differences up to this size come from the order of sums. Sentences may change without a number that moves.
SAME = 1e-12
SENTENCES = ("summary", "warnings", "text", "judge", "by text", "project text", "compare", "elo", "loaded")


def of_result(result: Any) -> Numbers:
    """Every number that a result shows; the reason where it has none of a kind."""
    questions: dict[str, Callable[[], Any]] = {
        "params": lambda: result.params.to_numpy(),
        "cov": lambda: result.cov_params().to_numpy(),
        "plugin": lambda: result.estimates.plugin,
        "influence": lambda: result.influence,
        "conf_int": lambda: result.conf_int().to_numpy(),
        "tidy": lambda: _numbers_of(result.tidy()),
        "pairwise": lambda: _numbers_of(result.t_test_pairwise().result_frame),
        "summary": lambda: result.summary().as_text(),
    }
    if result.names == result.models:
        questions["ranks"] = lambda: result.ranks().to_csv()
    return {name: _answer(question) for name, question in questions.items()}


def _answer(question: Callable[[], Any]) -> Any:
    try:
        return question()
    except dr.DmlrankError as error:
        return str(error)


def _numbers_of(frame: pd.DataFrame) -> Any:
    return frame.select_dtypes("number").to_numpy(dtype=float)


def arena(n: int = 1500, **options: Any) -> pd.DataFrame:
    """Battles of the simulated arena."""
    return dr.datasets.simulate_arena(n=n, rng=0, **options)


def fit(formula: str = FORMULA, data: pd.DataFrame | None = None, **options: Any) -> Any:
    """A fit of the simulated arena unless other data are given."""
    battles = arena() if data is None else data
    if ROWS["is_shuffled"]:
        battles = battles.sample(frac=1, random_state=0)
    given = {"rng": 0, "context": "question_id", "n_folds": 3} | OF_EVERY_FIT | options
    return dr.dml_rank(
        formula, battles, **in_objects({name: value for name, value in given.items() if value is not None})
    )


def of_fit(**options: Any) -> Callable[[], Numbers]:
    """A fit whose result is looked at."""
    return lambda: of_result(fit(**options))


def _own_functional() -> Numbers:
    return of_result(fit(functional=lambda mu: mu[..., 0].sum(axis=2) / (mu.shape[1] - 1)))


def _learner() -> Numbers:
    from sklearn.linear_model import LogisticRegression

    return of_result(fit(learner=LogisticRegression(max_iter=500), propensity="marginal"))


def _known_first_stages(estimator: str, **options: Any) -> Numbers:
    simulator = dr.datasets.Bt(n_items=4, n_features=2, gamma=1)
    battles = simulator.sample(600, rng=0)
    x = battles.drop_duplicates("question_id")[["x0", "x1"]].to_numpy()
    known = {"mu": simulator.mu(x), "propensity": simulator.propensity(x)}
    result = fit("winner ~ x0 + x1 | model_a + model_b", battles, functional="bt", estimator=estimator, **known)
    numbers = of_result(result)
    if estimator == "bt_restricted":
        test = result.restriction_test()
        numbers["restriction"] = np.array([test.statistic, test.df, test.pvalue])
    return numbers


def _ties(functional: str, **options: Any) -> Callable[[], Numbers]:
    def numbers() -> Numbers:
        battles = dr.datasets.Ties().sample(600, rng=0)
        return of_result(fit("winner ~ x0 + x1 | model_a + model_b", battles, functional=functional, **options))

    return numbers


def _judged(**options: Any) -> Callable[[], Numbers]:
    def numbers() -> Numbers:
        rng = np.random.default_rng(3)
        battles = arena(no_vote=0.0)
        other = rng.choice(["model_a", "model_b", "tie"], size=len(battles))
        battles["verdict"] = np.where(rng.random(len(battles)) < 0.7, battles["winner"], other)
        hidden = rng.random(len(battles)) < 0.5
        battles["winner"] = battles["winner"].where(~hidden, None)
        result = fit(data=battles, judge="verdict", propensity="marginal", min_labels=1, **options)
        return {**of_result(result), "judge": str(result.judge)}

    return numbers


def _judge_as_features() -> Numbers:
    simulator = dr.datasets.Ties(n_items=3, n_features=2)
    battles = simulator.sample(500, rng=0)
    prompts = battles.drop_duplicates("question_id")
    first, second = np.nonzero(~np.eye(simulator.n_items, dtype=bool))
    names = np.array(simulator.models)
    verdicts = pd.DataFrame(
        {
            "question_id": np.repeat(prompts["question_id"].to_numpy(), len(first)),
            "model_a": np.tile(names[first], len(prompts)),
            "model_b": np.tile(names[second], len(prompts)),
        }
    )
    verdicts[["p_a", "p_b", "p_tie"]] = simulator.mu(prompts[["x0", "x1"]].to_numpy())[:, first, second].reshape(-1, 3)
    return of_result(
        fit("winner ~ x0 + x1 | model_a + model_b", battles, judge=verdicts, judge_as="features", min_labels=1)
    )


def _by_and_project() -> Numbers:
    result = fit()
    groups, lines = result.by("category"), result.by("~ length")
    return {
        "by": groups.params.to_numpy(),
        "by errors": groups.bse.to_numpy(),
        "by text": groups.summary().as_text(),
        "project": lines.params.to_numpy(),
        "project text": lines.summary().as_text(),
        "compare": dr.compare(result, result.update(functional="bt")).summary().as_text(),
        "win": str(result.win_probability("gpt-4", "claude-v1")),
        "elo": result.update(functional="bt").rescale("elo", mean=1000).summary().as_text(),
        "best": str(result.best_set(1)),
        "wald": str(result.wald_test("gpt-4 = claude-v1 = koala-13b")),
        "bootstrap": result.bootstrap("webb").conf_int().to_numpy(),
        "ellipsoid": np.asarray(result.ellipsoid(models=["gpt-4", "claude-v1"]).axes()[0]),
        "predict": result.predict().to_numpy(),
        "loaded": dr.read_json(result.to_json()).summary().as_text(),
    }


def _plan(functional: str, criterion: str = "A", **options: Any) -> Callable[[], Numbers]:
    def numbers() -> Numbers:
        given = {name: options.pop(name) for name in list(options) if name in ("position_bias", "estimator")}
        plan = fit(data=arena(800), functional=functional, propensity="marginal", **given).design(
            budget=1000, criterion=criterion, **options
        )
        return {
            "propensity": plan.propensity,
            "objective": np.array([plan.objective, plan.expected_cost]),
            "errors": plan.std_errors.to_numpy(),
            "uniform": np.sqrt(np.diag(plan.uniform_sigma) / len(plan.contexts)),
            "sample": plan.sample(rng=1).to_csv(),
            "summary": plan.summary().as_text(),
        }

    return numbers


def _check() -> Numbers:
    checked = dr.check(FORMULA, arena(), context="question_id")
    numbers = checked.models, checked.pairs, checked.settings.drop(columns="chosen"), checked.order
    return {str(place): frame.to_numpy(dtype=float) for place, frame in enumerate(numbers)}


def _real(name: str, formula: str = PLAIN, **options: Any) -> Callable[[], Numbers]:
    def numbers() -> Numbers:
        root = Path(os.environ["DMLRANK_DATA"])
        if name == "mt_bench":
            battles = dr.datasets.read_mt_bench(root / "mt_bench" / "human.jsonl")
        else:
            battles = dr.datasets.read_chatbot_arena(root / "chatbot_arena" / "human.json")
        return of_result(fit(formula, battles, **options))

    return numbers


FITS: dict[str, Callable[[], Numbers]] = {
    "borda": of_fit(),
    "bt": of_fit(functional="bt"),
    "rank_centrality": of_fit(functional="rank_centrality"),
    "rate walk": of_fit(functional=dr.functionals.RankCentrality(walk="rate")),
    "dominance": of_fit(functional="dominance"),
    "softmin": of_fit(functional="softmin"),
    "own functional": _own_functional,
    "plugin": of_fit(functional="bt", estimator="plugin"),
    "bt_mle": lambda: of_result(
        fit(estimator="bt_mle", functional="bt", n_folds=None, cov_type="cluster", cov_kwds={"groups": "category"})
    ),
    "bt_mle plain": lambda: of_result(fit(PLAIN, estimator="bt_mle", functional="bt", n_folds=None)),
    "no features": of_fit(formula=PLAIN),
    "no features, bt, one context a row": of_fit(formula=PLAIN, functional="bt", context=None),
    "order does not matter": of_fit(functional="bt", position_bias=False),
    "order does not matter, no features": of_fit(formula=PLAIN, functional="rank_centrality", position_bias=False),
    "three repetitions": of_fit(n_rep=3, functional="bt"),
    "fixed prompts": of_fit(prompts="fixed"),
    "clusters": of_fit(cov_type="cluster", cov_kwds={"groups": "category"}),
    "paper's weights, counts": of_fit(functional="bt", category_weights="paper", edge_weights="counts"),
    "marginal propensity": of_fit(propensity="marginal", functional="bt"),
    "propensity formula": of_fit(propensity="~ length"),
    "weights": lambda: of_result(fit(data=arena().assign(w=lambda d: 1 + d["length"].rank(pct=True)), weights="w")),
    "untuned": of_fit(tune=None),
    "tuned by dict": of_fit(tune={"n_estimators": 30, "num_leaves": 7}),
    "random search": of_fit(
        tune=dr.RandomSearch(n_draws=3, n_folds=2), data=arena(400), min_labels=1, graph="complete"
    ),
    "lightgbm alone": of_fit(learner="lightgbm"),
    "classifier": _learner,
    "floor": of_fit(functional="bt", floor=0.02),
    "complete graph": of_fit(functional="bt", data=arena(500), min_labels=1, graph="complete"),
    "text": of_fit(formula="winner ~ text(prompt, 5) | model_a + model_b"),
    "ties, bt": _ties("bt"),
    "ties, rank centrality": _ties("rank_centrality"),
    "known first stages": lambda: _known_first_stages("debiased"),
    "bt_restricted": lambda: _known_first_stages("bt_restricted"),
    "judge": _judged(),
    "judge, bt, order does not matter": _judged(functional="bt", position_bias=False),
    "judge as features": _judge_as_features,
    "groups, projection, comparison": _by_and_project,
    "plan A borda": _plan("borda"),
    "plan A bt one pair": _plan("bt", one_pair=True),
    "plan D rank centrality": _plan("rank_centrality", "D"),
    "plan top three, order does not matter": _plan("bt", top=3, position_bias=False),
    "check": _check,
    "real: arena borda": _real("chatbot_arena", context=None),
    "real: arena bt counts": _real("chatbot_arena", context=None, functional="bt", edge_weights="counts"),
    "real: arena bt_mle": _real("chatbot_arena", context=None, functional="bt", estimator="bt_mle", n_folds=None),
    "real: mt_bench two ways": _real(
        "mt_bench", functional="bt", cov_type="cluster", cov_kwds={"groups": ["question_id", "judge"]}, min_labels=1
    ),
}


def difference(old: Any, new: Any) -> float:
    """Largest difference between two stored values relative to the largest number; infinite where they do not match."""
    if isinstance(old, str) or isinstance(new, str) or new is None:
        return 0.0 if isinstance(old, str) and old == new else np.inf
    old, new = np.asarray(old, float), np.asarray(new, float)
    if old.shape != new.shape or (np.isnan(old) != np.isnan(new)).any():
        return np.inf
    if not old.size or np.array_equal(old, new, equal_nan=True):
        return 0.0
    return float(np.nanmax(np.abs(old - new)) / np.nanmax(np.abs(old)))


def main(argv: list[str]) -> int:
    """Store or compare."""
    command, path, *names = argv
    stored = {} if command == "store" else pickle.loads(Path(path).read_bytes())
    moved = 0
    for name, make in FITS.items():
        if (names and name not in names) or (name.startswith("real") and "DMLRANK_DATA" not in os.environ):
            continue
        began = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                numbers = make()
            except dr.DmlrankError as error:
                numbers = {"error": str(error)}
        numbers["warnings"] = "\n".join(str(warning.message) for warning in caught)
        seconds = time.perf_counter() - began
        if command == "store":
            stored[name] = numbers
            print(f"{name:40s} {seconds:6.1f} s  {numbers.get('error', '')[:90]}", flush=True)
            continue
        gaps = {key: difference(value, numbers.get(key)) for key, value in stored[name].items()}
        changed = {key: gap for key, gap in gaps.items() if gap > 0}
        moved += any(gap > SAME and key not in SENTENCES for key, gap in changed.items())
        print(f"{name:40s} {seconds:6.1f} s  {changed or 'same'}", flush=True)
        for key in changed:
            if isinstance(stored[name][key], str) and "-v" in sys.orig_argv:
                print(stored[name][key], numbers.get(key), sep="\n--- now\n")
    if command == "store":
        Path(path).write_bytes(pickle.dumps(stored))
    else:
        print(f"{moved} of {len(stored)} fits have other numbers")
    return int(moved > 0)


if __name__ == "__main__":
    raise SystemExit(main([argument for argument in sys.argv[1:] if argument != "-v"]))
