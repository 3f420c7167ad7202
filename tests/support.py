"""Probabilities, features and fits that tests of several rooms make in the same way."""

import importlib
import importlib.util
import pathlib
import sys
import warnings
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from dmlrank.cli.read_files import ColumnRoles, read_frames
from dmlrank.estimation.influence import OneStepInputs, blocks_by_context
from dmlrank.exceptions import DmlrankWarning

FORMULA = "winner ~ 1 | model_a + model_b"

# Options of a fit of battles with the columns topic, prompt, judge and importance, by what its covariance is about.
COVARIANCES = {
    "robust": {},
    "cluster": {"cov_type": "cluster", "cov_kwds": {"groups": "topic"}},
    "two-way": {"cov_type": "cluster", "cov_kwds": {"groups": ["prompt", "judge"]}},
    "fixed": {"prompts": "fixed"},
    "weighted": {"weights": "importance"},
}


def inputs_of(data, mu, propensity, floor=0.0, judge=None, *, blocks=None, weight=None):
    """What estimates are made from by one step, by default with equal weights and independent contexts."""
    blocks = blocks_by_context(data) if blocks is None else blocks
    weight = np.ones(len(data.x)) if weight is None else weight
    return OneStepInputs(data, blocks, weight, mu, propensity, floor, judge)


class _NotInstalled:
    """Stands for a library that is not installed: whoever asks it for anything is skipped, with the reason."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, attribute):
        if attribute.startswith("__"):  # asked by pytest while it collects, not by a test
            raise AttributeError(attribute)
        pytest.skip(f"{self._name} is not installed", allow_module_level=True)


def optional(name):
    """Return a library of the extras, or a stand-in that skips each test (or module of tests) that uses it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return _NotInstalled(name)


def needs(name):
    """Return a mark that skips a test, or one set of its parameters, where a library of the extras is not installed."""
    return pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"{name} is not installed")


@contextmanager
def quiet():
    """No warning of dmlrank is shown, or is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DmlrankWarning)
        yield


def two_of(rng, k, n):
    """Pairs of different ones of k models, drawn at random: the places of the first, (n,), and of the second."""
    first = rng.integers(k, size=n)
    return first, (first + rng.integers(1, k, size=n)) % k


def votes_of(names, first, second, won, **columns):
    """Votes on pairs of models, by the places of their names: who won, and further columns."""
    names, winner = np.asarray(names, dtype=object), np.where(won, "model_a", "model_b")
    return pd.DataFrame({"model_a": names[first], "model_b": names[second], "winner": winner, **columns})


def without_order(mu):
    """Category probabilities, (..., K, K, C), in which order does not matter: the mean of a pair's both orders."""
    flip = [1, 0, *range(2, mu.shape[-1])]
    return (mu + np.swapaxes(mu, -3, -2)[..., flip]) / 2


def either_order(propensity):
    """Probability that a pair is labelled in one of its orders, (..., K, K), from that of ordered pairs."""
    return propensity + np.swapaxes(propensity, -2, -1)


def by_prompt(frame, column):
    """A column that is the same in all rows of a prompt, once for each prompt, in the order of the frame."""
    return frame.groupby("prompt", sort=False)[column].first().to_numpy()


def true_first_stages(simulator, battles, context="question_id"):
    """A simulator's own probabilities and propensities for the contexts of its sample: options of a fit."""
    x = battles.drop_duplicates(context)[["x0", "x1"]].to_numpy()
    return {"mu": simulator.mu(x), "propensity": simulator.propensity(x)}


def draw_with_groups(draw_battles, seed, n, unlabelled):
    """Battles of four models with repeated votes, and columns that are features, groups and weights of prompts."""
    drawn = draw_battles(np.random.default_rng(seed), n, 4, 3, n_pairs=3, repeats=True, unlabelled=unlabelled)
    number = drawn.frame["prompt"].str[1:].astype(int)
    drawn.frame["half"] = np.where(number % 3 == 0, "odd one", "rest")
    drawn.frame["all"] = "everything"
    drawn.frame["block"] = "b" + (number % 11).astype(str)
    drawn.frame["importance"] = 0.5 + (number % 5)
    return drawn


def fits_of(battles, rank, formula=FORMULA):
    """A function that fits drawn battles, with their true first stages, once for every set of options."""
    made = {}

    def fit(functional="borda", **options):
        key = functional, repr(options)
        if key not in made:
            known = {"mu": battles.mu, "propensity": "shown", "functional": functional, "formula": formula}
            made[key] = rank(battles.frame, **(known | options))
        return made[key]

    return fit


# Names that a page must show as text: markup, quotes, line breaks, marks of direction, formulas, great length.
HOSTILE_NAMES = (
    "<script>window.hacked = 1</script>",
    "</script><script>window.hacked = 2</script>",
    '"><img src=x onerror="window.hacked = 3">',
    'it\'s "quoted" & <b>bold</b>',
    "<!-- comment --> ]]> {{ 7 * 7 }} {% raw %}",
    "line\nbreak\u2028and\ttab",
    "\u202eright to left\u200f \u0627\u0644\u0639\u0631\u0628\u064a\u0629",
    "=HYPERLINK(1)",
    "n" * 200,
)


def simulated_votes(n_models, n_votes, *, names=None, seed=0):
    """Votes of a Bradley-Terry model with ties, each on a prompt of its own, on pairs drawn at random."""
    rng = np.random.default_rng(seed)
    scores = np.linspace(1.0, -1.0, n_models)
    labels = np.array([f"model-{place}" for place in range(n_models)] if names is None else names, dtype=object)
    first = rng.integers(n_models, size=n_votes)
    second = (first + 1 + rng.integers(n_models - 1, size=n_votes)) % n_models
    wins = rng.random(n_votes) < 1 / (1 + np.exp(scores[second] - scores[first]))
    winner = np.where(rng.random(n_votes) < 0.15, "tie", np.where(wins, "model_a", "model_b"))
    columns = {"model_a": labels[first], "model_b": labels[second], "winner": winner}
    return pd.DataFrame(columns | {"prompt": [f"q{place}" for place in range(n_votes)]})


def from_benchmarks(name):
    """Return a module of benchmarks/, such as ``"fuzzing.arenas"``, which is no part of the installed package."""
    top = str(pathlib.Path(__file__).parents[1])
    sys.path.insert(0, top)
    try:
        return importlib.import_module(f"benchmarks.{name}")
    finally:
        sys.path.remove(top)


def chunks_of(mu, size):
    """The contexts of a source of mu and their probabilities, (b, K, K, C), part by part."""
    for part in mu.parts(size):
        yield part.contexts, part.probabilities()[part.place]


def read_frame(path, roles=None):
    """Return the frame that the command line reads from a file."""
    return read_frames({"file": [path]}, {"file": roles or ColumnRoles()})["file"]


def rows_of(columns, names=None):
    """A table with a row per prompt and model from scores, (n, k), by column."""
    n, k = next(iter(columns.values())).shape
    names = names or [f"m{j}" for j in range(k)]
    table = pd.DataFrame({"prompt": np.repeat(np.arange(n), k), "model": np.tile(names, n)})
    return table.assign(**{name: np.asarray(values, dtype=float).ravel() for name, values in columns.items()})


def drawn_scores(scores, is_drawn, models, **columns):
    """A table with a row per prompt and model from the scores, (n, k), that were drawn, and other columns of cells."""
    prompt, model = np.nonzero(is_drawn)
    table = pd.DataFrame({"prompt": prompt, "model": models[model], "score": scores[is_drawn]})
    return table.assign(**{name: values[is_drawn] for name, values in columns.items()})


def table_of_releases(prompts, difference, rng):
    """0/1 scores of a baseline, right on 7 of 10 prompts, and of a candidate that differs by a difference."""
    shared = rng.random(prompts) < 0.5
    latent = np.where(shared[:, None], rng.random((prompts, 1)), rng.random((prompts, 2)))
    return rows_of({"accuracy": latent < [0.7, 0.7 + difference]}, ["baseline", "candidate"])


def table_of_costs(prompts, k, rng):
    """0/1 scores and tokens of k models; hard prompts take more tokens."""
    ability = np.sort(rng.uniform(0.35, 0.85, size=k))
    cost = 100 * np.exp(2 * ability + 0.5 * rng.normal(size=k))
    hard = rng.normal(size=(prompts, 1))
    scores = norm.cdf(0.7 * hard + np.sqrt(0.51) * rng.normal(size=(prompts, k))) < ability
    log_tokens = 0.3 * hard + 0.39 * rng.normal(size=(prompts, k))
    return rows_of({"score": scores, "tokens": cost * np.exp(log_tokens - (0.3**2 + 0.39**2) / 2)})


def table_of_criteria(prompts, rng, k=4):
    """Scores on three correlated criteria: right or wrong, a grade with a bell curve, and rarely unsafe."""
    place = np.linspace(-1, 1, k)
    shared, hard = rng.normal(size=(prompts, k)), rng.normal(size=(prompts, 1))
    latent = (hard + shared)[None] * 0.5 + np.sqrt(0.5) * rng.normal(size=(3, prompts, k))
    right, safe = norm.cdf(latent[0]) < 0.6 + 0.15 * place, norm.cdf(latent[2]) < 0.8 - 0.1 * place**2
    return rows_of({"right": right, "style": 3.0 - 0.4 * place - latent[1], "safety": safe})


def row_names(axes):
    """Names of the rows of a picture from top to bottom."""
    order = np.argsort(-np.asarray(axes.get_yticks()))
    return [axes.get_yticklabels()[place].get_text() for place in order]
