"""Targets that fit votes: suitable options, odd options and formulas, and maximum likelihood against statsmodels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.genmod.families import Binomial
from statsmodels.genmod.generalized_linear_model import GLM

import dmlrank as dr
from dmlrank.options import OPTIONS, in_objects

from .answers import check_result, check_storage
from .arenas import FORMULA, draw_arena, plain_options
from .draws import Generator, choice, junk
from .watch import Watch

_LONG = ("n_rep", "tune")
FEATURES = ("1", "1", "x", "x + C(g)", "g * x", "text(prompt, 2)", "np.abs(x)", "0 + g")
TREES = {"n_estimators": 3, "num_leaves": 3, "min_data_in_leaf": 3}


def suitable(rng: Generator, watch: Watch, folder: str) -> None:
    """Fit an arena with options that suit it; check what the result says of its scores, and that it can be stored."""
    arena, options = draw_arena(rng), plain_options(rng)
    features = choice(rng, FEATURES) if rng.random() < 0.4 else "1"
    if features != "1":
        options["tune"] = choice(rng, [TREES, TREES, "cv", None])
    if rng.random() < 0.1:
        options = {
            k: v for k, v in options.items() if k in ("context", "rng", "n_jobs", "cov_type", "cov_kwds", "alpha")
        }
        options["estimator"] = choice(rng, ["bt_mle", "bt_contextual"])
    elif rng.random() < 0.1:
        options |= {"estimator": "plugin"}
    results = watch.ask(
        "dml_rank", dr.dml_rank, f"winner ~ {features} | model_a + model_b", arena.frame, **in_objects(options)
    )
    if results is None:
        return
    check_result(watch, results)
    if rng.random() < 0.3:
        check_storage(watch, results)


def odd_options(rng: Generator, watch: Watch, folder: str) -> None:
    """Fit an arena with one to three options that are seldom allowed."""
    arena = draw_arena(rng, n_votes=60, plain_names=True)
    options = plain_options(rng)
    for _ in range(int(rng.integers(1, 4))):
        name = choice(rng, list(OPTIONS))
        option = OPTIONS[name]
        usual = [*option.words, option.default, "x", "q", "prompt", "topic", "verdict", "importance", 1, 2, 0.1]
        options[name] = choice(rng, usual) if rng.random() < 0.3 else junk(rng)
    options = {name: value for name, value in options.items() if name not in _LONG or not _takes_long(name, value)}
    formula = FORMULA if rng.random() < 0.7 else "winner ~ x | model_a + model_b"
    results = watch.ask("dml_rank", lambda: dr.dml_rank(formula, arena.frame, **in_objects(options)))
    if results is not None and rng.random() < 0.5:
        check_result(watch, results)


def _takes_long(name: str, value: Any) -> bool:
    """Whether an allowed value of an option makes a fit take long: many repetitions, or a random search."""
    return (name == "n_rep" and type(value) is int and 2 < value < 2**31) or (
        name == "tune" and isinstance(value, str) and value == "random"
    )


def odd_formulas(rng: Generator, watch: Watch, folder: str) -> None:
    """Fit an arena with formulas that are put together from parts at random."""
    arena = draw_arena(rng, n_votes=60, plain_names=True)
    frame = arena.frame.assign(**{"odd name": 1.0, "class": 2.0, "c": 3.0, "inf": np.inf, "big": 1e308, "t": "word"})
    parts = (
        "winner", "~", "|", "+", "model_a", "model_b", "1", "0", "x", "g", "C(g)", "-", "*", ":", "/", "(", ")", "**",
        "2",
        "text(prompt, 3)", "text(t)", "bs(x, 3)", "bs(x, df=4)", "cr(x, 3)", "np.log(x)", "np.sqrt(x)", "1/0", "x/0",
        "I(x)",
        "Q('odd name')", "odd name", "class", "inf", "big", "big*big", "center(x)", "standardize(c)", "unknown",
        "f(x)", "'", '"',
        "\n", " ", "\0", "é", "C(topic)", "C(model_a)", "model_a", "winner", "prompt", "x == 1", "lambda: 0",
        "x if 1 else 2",
        "[x, x]", "{}", "x[0]", "x[:3]", "x.values", "np.zeros(3)", "np.ones(60)", "np.random.normal()",
        "C(x, Treatment(0))", "C(g, levels=['u'])", "C(g, Sum)", "%", "&", "^", "~ x", "| x", "''", "1e400",
        "x ** 400", "t:x",
        "np.where(x > 0, 1, np.nan)", "x > 0", "pd", "text('a')", "text(x)", "text(prompt, 0)", "text(prompt, -1)",
        "text(prompt, 1e9)",
        "text()", "x.sum()", "poly(x, 2)", "te(cr(x, df=3))", "...", "None", "True", "b''",
    )  # fmt: skip
    kind = rng.random()
    if kind < 0.5:
        words = [choice(rng, parts) for _ in range(int(rng.integers(1, 4)))]
        formula = f"winner ~ {' + '.join(words)} | model_a + model_b"
    elif kind < 0.9:
        formula = " ".join(choice(rng, parts) for _ in range(int(rng.integers(1, 12))))
    else:
        text = list("winner ~ x + C(g) | model_a + model_b")
        for _ in range(int(rng.integers(1, 4))):
            text[int(rng.integers(len(text)))] = choice(
                rng, ["", "~", "|", "+", "(", ")", "'", "\0", " ", "x", "1", ","]
            )
        formula = "".join(text)
    options = {"propensity": "marginal", "min_labels": 1, "n_folds": 2, "rng": 0, "n_jobs": 1, "tune": TREES}
    asked = choice(rng, ["fit", "check", "propensity", "by", "adjust"])
    if asked == "fit":
        watch.ask("dml_rank", dr.dml_rank, formula, frame, **in_objects(options))
    elif asked == "check":
        watch.ask("check", dr.check, formula, frame)
    elif asked == "propensity":
        options |= {"propensity": "~ " + formula.split("~")[-1].split("|")[0]}
        watch.ask("dml_rank", dr.dml_rank, FORMULA, frame, **in_objects(options))
    elif asked == "adjust":
        adjust = "~ " + formula.split("~")[-1].split("|")[0]
        watch.ask("dml_rank", dr.dml_rank, FORMULA, frame, adjust=adjust, **in_objects(options))
    else:
        results = dr.dml_rank("winner ~ x + C(g) | model_a + model_b", frame, **in_objects(options))
        watch.ask("by", results.by, "~ " + formula.split("~")[-1].split("|")[0])


def likelihood(rng: Generator, watch: Watch, folder: str) -> None:
    """Fit Bradley-Terry by maximum likelihood; compare scores and covariance with statsmodels' GLM of the votes."""
    arena = draw_arena(rng, n_categories=int(rng.integers(2, 6)), repeats=False, certain=False, plain_names=True)
    options: dict[str, Any] = {"estimator": "bt_mle", "rng": 0, "n_jobs": 1}
    groups = choice(rng, [None, "topic"])
    if groups:
        options |= {"cov_type": "cluster", "cov_kwds": {"groups": groups}}
    results = watch.ask("dml_rank", dr.dml_rank, FORMULA, arena.frame, **in_objects(options))
    if results is None:
        return
    check_result(watch, results)
    place = {name: j for j, name in enumerate(results.models)}
    frame, size = arena.frame, len(results.models)
    design = np.zeros((len(frame), size))
    for row, (j, k) in enumerate(zip(frame["model_a"], frame["model_b"], strict=True)):
        design[row, place[j]], design[row, place[k]] = 1, -1
    wins = frame["winner"].map({"model_a": 1.0, "model_b": 0.0}).fillna(0.5)
    model = GLM(wins.to_numpy(), design[:, 1:], family=Binomial())
    covariance = {"cov_type": "HC0"}
    if groups:
        codes = pd.factorize(frame[groups])[0]
        covariance = {"cov_type": "cluster", "cov_kwds": {"groups": codes, "use_correction": False}}
    with warnings.catch_warnings():
        # Where labels are separated, statsmodels warns or fails.
        warnings.simplefilter("error")
        try:
            reference = model.fit(tol=1e-13, maxiter=200, **covariance)
        except Exception:
            return
    if np.abs(reference.params).max() > 12:
        return
    centred = np.vstack([np.zeros(size - 1), np.eye(size - 1)]) - 1 / size
    watch.near("bt_mle", results.params, centred @ reference.params, rtol=1e-5, atol=1e-5)
    factor = 1.0
    if groups:
        n_groups = frame[groups].nunique()
        factor = n_groups / (n_groups - 1)
    expected = centred @ reference.cov_params() @ centred.T * factor
    if results.diagnostics.pairs_without_variation:
        # The rule of three adds to the covariance, and takes nothing from it.
        least = np.linalg.eigvalsh(results.cov_params().to_numpy() - expected).min()
        watch.require(bool(least >= -1e-4 * np.abs(expected).max()), "bt_mle covariance", f"below that of GLM: {least}")
    else:
        watch.near("bt_mle covariance", results.cov_params(), expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())
