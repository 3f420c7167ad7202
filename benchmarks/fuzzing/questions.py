"""Targets that ask results: hypotheses with known meaning, odd hypotheses, and every method with any arguments."""

from __future__ import annotations

import inspect
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import dmlrank as dr
from dmlrank.options import in_objects

from .arenas import FORMULA, draw_arena
from .draws import Generator, choice, junk
from .watch import Watch

# Methods that are asked elsewhere, or write files.
_LEFT_OUT = {"save", "load", "to_json", "steps", "estimates", "of", "within", "with_notes"}
_TREES = {"n_estimators": 3, "num_leaves": 3, "min_data_in_leaf": 3}


@cache
def results_of(number: int) -> Any:
    """Return one of a dozen results of different kinds."""
    rng = np.random.default_rng([9, number])
    arena = draw_arena(rng, n_votes=200, n_models=(3, 4, 6)[number % 3], certain=False, plain_names=number % 4 != 3)
    options: dict[str, Any] = {"min_labels": 1, "rng": 0, "n_jobs": 1, "n_folds": 2, "context": "prompt"}
    options["functional"] = ("borda", "bt", "rank_centrality", "softmin")[number % 4]
    formula = FORMULA
    if number in (4, 5):
        formula, options["tune"] = "winner ~ x + C(g) | model_a + model_b", _TREES
    if number == 6:
        options |= {"cov_type": "cluster", "cov_kwds": {"groups": "topic"}}
    if number == 7:
        options = {"estimator": "bt_mle", "rng": 0, "context": "prompt"}
    if number == 8:
        options["estimator"] = "plugin"
    if number == 9:
        unvoted = arena.frame.iloc[:80].assign(prompt=lambda rows: "new " + rows["prompt"], winner=None)
        arena = replace(arena, frame=pd.concat([arena.frame, unvoted], ignore_index=True))
        options["judge"] = "verdict"
    if number == 10:
        arena.frame["winner"] = "tie"
    results = dr.dml_rank(formula, arena.frame, **in_objects(options))
    if number == 11:
        results = dr.read_json(results.to_json())
    return results.rescale("elo") if number == 1 else results


N_RESULTS = 12


def _quoted(name: str) -> str | None:
    """Return a name in quotes that the name does not contain."""
    for quote in "'\"`":
        if quote not in name:
            return f"{quote}{name}{quote}"
    return None


def _expression(rng: Generator, terms: list[str], depth: int) -> tuple[str, dict[str | None, Fraction]]:
    """Return a linear expression as text, and its coefficients by name, the constant under None."""
    kind = rng.random()
    if depth == 0 or kind < 0.25:
        name = choice(rng, terms)
        return str(_quoted(name)), {name: Fraction(1)}
    if kind < 0.35:
        number = choice(rng, ["0", "1", "0.5", ".25", "2.", "1e-3", "0.1", "10"])
        return number, {None: Fraction(number)}
    one, left = _expression(rng, terms, depth - 1)
    if kind < 0.55:
        number = choice(rng, ["2", "0.5", ".1", "3e-1", "7"])
        if rng.random() < 0.5:
            return f"{number} * ({one})", {name: value * Fraction(number) for name, value in left.items()}
        return f"({one}) / {number}", {name: value / Fraction(number) for name, value in left.items()}
    if kind < 0.65:
        return f"-({one})", {name: -value for name, value in left.items()}
    two, right = _expression(rng, terms, depth - 1)
    sign = choice(rng, ["+", "-"])
    factor = 1 if sign == "+" else -1
    added = {name: left.get(name, Fraction(0)) + factor * right.get(name, Fraction(0)) for name in left | right}
    return f"({one}) {sign} ({two})", added


def hypotheses(rng: Generator, watch: Watch, folder: str) -> None:
    """Ask linear hypotheses whose coefficients are known; compare estimates and standard errors."""
    results = results_of(int(rng.integers(N_RESULTS)))
    names = [name for name in results.names if _quoted(name)]
    if not results.estimates.has_intervals or not names:
        return
    sides = [_expression(rng, names, int(rng.integers(1, 4))) for _ in range(int(rng.integers(1, 3)))]
    text = " = ".join(side[0] for side in sides)
    form = dict(sides[0][1])
    for name, value in sides[1][1].items() if len(sides) == 2 else ():
        form[name] = form.get(name, Fraction(0)) - value
    constant = float(-form.pop(None, Fraction(0)))
    row = np.array([float(form.get(name, Fraction(0))) for name in results.names])
    matrix = results.cov_params().to_numpy()
    variance = row @ matrix @ row
    test = watch.ask("t_test", results.t_test, text)
    by_number = watch.ask("t_test", results.t_test, (row[None], [constant]))
    watch.require((test is None) == (by_number is None), "t_test", f"{text!r} by name and by number differ")
    if test is None:
        usable = row.any() and variance > 1e-9 * np.abs(matrix).max() * (row @ row) and np.abs(matrix).max() > 1e-20
        if results.functional in ("bt", "rank_centrality", "borda"):
            usable = usable and np.ptp(row) > 1e-12
        watch.require(not usable, "t_test", f"{text!r} is refused, its variance is {variance}")
        return
    for asked in (test, by_number):
        watch.near(
            f"effect of {text!r}", np.ravel(asked.effect), [row @ results.params.to_numpy()], rtol=1e-8, atol=1e-10
        )
        watch.near(
            f"sd of {text!r}",
            np.ravel(asked.sd) ** 2,
            [variance],
            rtol=1e-6,
            atol=1e-9 * np.abs(matrix).max() * (row @ row),
        )
        if results.estimates.covariance.shares is not None:
            # Limits and z of win shares are not symmetric.
            continue
        distance = (row @ results.params.to_numpy() - constant) / np.ravel(asked.sd)[0]
        watch.near(f"z of {text!r}", np.ravel(asked.statistic), [distance], rtol=1e-6, atol=1e-6)
    joint = watch.ask("wald_test", results.wald_test, text)
    if joint is not None and results.estimates.covariance.shares is None:
        # One restriction has one p-value; F is scaled, where there are few prompts.
        watch.near(f"wald_test of {text!r}", np.ravel(joint.pvalue), np.ravel(test.pvalue), rtol=1e-4, atol=1e-12)
        if joint.law == "chi2":
            watch.near(
                f"wald_test of {text!r}", np.ravel(joint.statistic), np.ravel(test.statistic) ** 2, rtol=1e-5, atol=1e-6
            )


def odd_hypotheses(rng: Generator, watch: Watch, folder: str) -> None:
    """Ask hypotheses that are put together at random, as texts and as objects."""
    results = results_of(int(rng.integers(N_RESULTS)))
    names = list(results.names)
    parts = [*names, *names, "+", "-", "*", "/", "=", "(", ")", ",", ";", "\n", "'", '"', "`", "0", "1", "2.5", "1e9",
    "1e-400", "1e400",
             "0x1", "−", "==", "<", ">", "!", "\0", "é", "**", "//", "%", "nan", "inf", " ", "  ", "\t", "1_000", "٣",
             "١", "½", "²"]  # fmt: skip
    kind = rng.random()
    hypothesis: Any
    if kind < 0.6:
        glue = choice(rng, ["", " "])
        hypothesis = glue.join(choice(rng, parts) for _ in range(int(rng.integers(1, 12))))
    elif kind < 0.7:
        deep = int(choice(rng, [10, 60, 3000]))
        hypothesis = choice(rng, ["(" * deep + names[0] + ")" * deep, "-" * deep + names[0],
        f"{names[0]} + " * deep + names[0],
                                  f"{names[0]} = " * deep + names[1], "9" * deep + " * " + names[0],
                                  names[0] + "/3" * deep,
                                  names[0] + "*1e300" * deep])  # fmt: skip
    elif kind < 0.8:
        keys = [choice(rng, [*names, "no model", None, 3, ("a",)]) for _ in range(int(rng.integers(0, 4)))]
        hypothesis = {key: choice(rng, [1, -1, 0, np.nan, 10**400, "1", None, True, 1j]) for key in keys}
    elif kind < 0.9:
        shape = choice(
            rng, [(len(names),), (2, len(names)), (0, len(names)), (len(names), 1), (), (1, 1, len(names)), (3,)]
        )
        hypothesis = choice(rng, [np.zeros, np.ones, lambda s: rng.normal(size=s), lambda s: np.full(s, 1e308)])(shape)
        if rng.random() < 0.5:
            hypothesis = choice(rng, [hypothesis.tolist(), (hypothesis, junk(rng)), (hypothesis, 0),
            pd.DataFrame(np.atleast_2d(hypothesis)) if hypothesis.ndim < 3 else None])  # fmt: skip
    else:
        hypothesis = choice(
            rng, [junk(rng), [junk(rng)], (junk(rng), junk(rng)), [names[0], junk(rng)], (names[0], names[0])]
        )
    asked = choice(rng, ["t_test", "wald_test", "ellipsoid", "sensitivity", "fragility"])
    if asked == "ellipsoid":
        watch.ask("ellipsoid", lambda: results.ellipsoid(contrasts=hypothesis))
    else:
        watch.ask(asked, lambda: getattr(results, asked)(hypothesis))


def _argument(rng: Generator, name: str, results: Any) -> Any:
    """Return a value for an argument of this name: one that may suit, or any."""
    names = list(results.names)
    suitable: dict[str, list[Any]] = {
        "alpha": [None, 0.1, 0.05, 1e-12, 0.999, np.float64(0.2)],
        "method": ["max-t", "step-down", "holm", "fdr_bh", "bonferroni", "none"],
        "multipliers": ["gaussian", "rademacher", "webb"],
        "models": [None, names[:2], tuple(names), names[:1], [], names[0], set(names), pd.Index(names), [names[0]] * 2],
        "model": [None, names[0], "no model"], "against": [None, names[-1], "no model"], "first": names,
        "second": names,
        "side": ["two-sided", "larger", "smaller", "noninferiority", "equivalence", "greater"],
        "delta": [0.0, 0.1, -0.1, 1e300], "top": [None, 1, 2, 100, 0], "n_best": [1, 2, len(names), len(names) + 1],
        "scale": ["elo", "natural", "logit", 2.0, 400, "win"], "mean": [None, 1000, 0.0], "anchor": [None, (names[0],
        5), {names[0]: 1000}],
        "hypothesis": [None, f"{names[0]} - {names[1]}", (names[0], names[1])], "contrast": [None, (names[0],
        names[1])],
        "contrasts": [None, (names[0], names[1])],
        "gamma": [1.5, (1, 2), [1], 1e6, np.array([1.0, 1.2])], "unit": ["context", "vote", "annotator", "topic",
        "prompt"],
        "target": ["sign", "significance", "separation"], "formula": ["~ x", "~ C(g)", "~ x + g", "~ 1", "x"],
        "criterion": ["A", "D"],
        "budget": [10, 50.0, 1e-3, 1e6], "costs": [1.0, 2, np.ones((len(names), len(names)))], "one_pair": [True,
        False],
        "explore": [0.0, 0.2, 1.0], "from_scratch": [True, False], "slim": [True, False], "simultaneous": [True, False],
        "title": [None, "a title", "<b>"], "min_propensity": [None, 0.01, 0.9], "progress": [False],
        "picture": ["forest", "ranks", "wins", "influence", "overlap", "calibration", "groups", "pairs"], "by": [None,
        "x", "g", ["g"]],
        "columns": ["g", "topic", "x"], "newdata": [None, pd.DataFrame({"x": [0.0, 1.0], "g": ["u", "v"]}),
        pd.DataFrame({"x": ["a"], "g": [1]})],
        "sensitivity": [None], "variable": [None, "x", "g"], "functional": ["bt", "borda"], "n_rep": [1],
        "path": [None],
    }  # fmt: skip
    if name in ("ax", "progress", "path"):
        return None if name != "progress" else False
    return choice(rng, suitable[name]) if name in suitable and rng.random() < 0.75 else junk(rng)


def methods(rng: Generator, watch: Watch, folder: str) -> None:
    """Call any public method of a result with any arguments, and then any method of what it returns."""
    results = results_of(int(rng.integers(N_RESULTS)))
    call_method(rng, watch, results, results, depth=2)


def call_method(rng: Generator, watch: Watch, results: Any, holder: Any, depth: int) -> None:
    """Call a public method of an object, and then methods of its answer."""
    kinds = {n: getattr(type(holder), n, None) for n in dir(holder) if not n.startswith("_") and n not in _LEFT_OUT}
    callable_names = [n for n, kind in kinds.items() if callable(kind) and not isinstance(kind, type)]
    if not callable_names:
        return
    name = choice(rng, callable_names)
    method = getattr(holder, name)
    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):
        return
    options: dict[str, Any] = {}
    args: list[Any] = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            args = [_argument(rng, parameter.name, results) for _ in range(int(rng.integers(1, 3)))]
        elif parameter.kind is parameter.VAR_KEYWORD:
            if name == "update":
                options |= {
                    choice(rng, ["functional", "alpha", "rng", "n_folds", "min_labels", "nope", "graph"]): junk(rng)
                }
        elif parameter.default is parameter.empty or rng.random() < 0.35:
            options[parameter.name] = _argument(rng, parameter.name, results)
    if name == "sensitivity" and isinstance(options.get("gamma"), range):
        return
    answer = watch.ask(f"{type(holder).__name__}.{name}", method, *args, **options)
    if answer is not None and depth > 1 and type(answer).__module__.startswith("dmlrank"):
        watch.ask("repr", repr, answer)
        call_method(rng, watch, results, answer, depth - 1)
