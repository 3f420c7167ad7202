"""Do the intervals of every setting hold in an arena with a feature, or with a real effect of the order of display?

Pairs are as unevenly compared as in chatbot_arena. In *feature* the strengths change along a feature of the prompt. In
*order* the model shown first gains, and who is first is drawn; in *lopsided* the model with more votes is shown first
in most of them. Two truths are told apart. The strengths are the mean log-odds strengths of the models, without any
effect of display. The target of a setting is what its estimator converges to: without regard to order the preference
of a pair is a mean over the orders as they were shown, and maximum likelihood knows neither order nor feature.

The table is resumable: replications that it holds are not run again.

    python benchmarks/arena_settings.py run --scenarios feature-5000 order-26919 --seeds 100
    python benchmarks/arena_settings.py tables
"""

from __future__ import annotations

import argparse
import csv
import pathlib
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import expit, logit
from settings import RESULTS as PLAIN_RESULTS
from settings import SETTINGS, real_counts

import dmlrank as dr
from dmlrank.options import in_objects

RESULTS = pathlib.Path(__file__).parent / "results" / "arena_settings.csv"
COMPARED = (
    "default",
    "True, 10, equal",
    "False, 1, equal",
    "auto, 10, counts",
    "True, 10, counts",
    "False, 1, counts",
    "bt_mle",
)
COLUMNS = (
    "scenario",
    "seed",
    "settings",
    "ordered",
    "used",
    "strengths_pointwise",
    "strengths_simultaneous",
    "target_pointwise",
    "target_simultaneous",
    "ratio_median",
    "ratio_largest",
    "rmse",
    "warned",
    "seconds",
    "failed",
)
# Scenarios of the study without feature and effect that the table repeats.
_PLAIN_SCENARIOS = ("arena-5000", "arena-26919", "zipf-20000")
_TIES = 0.3
# Effect of standing first, in log-odds: 0.57 instead of 0.5 at even strength.
_POSITION = 0.3
_FIRST = {"feature": 0.5, "order": 0.5, "lopsided": 0.8}
# Where means over the feature are taken.
_GRID = (np.arange(200) + 0.5) / 200


@dataclass(frozen=True)
class Arena:
    """Votes on pairs with the probabilities of chatbot_arena's pair counts.

    Attributes
    ----------
    shares : ndarray, shape (K, K)
        Probability that a vote is on an unordered pair, above the diagonal.
    strengths : ndarray, shape (K,)
        Means over the feature; they sum to zero.
    slopes : ndarray, shape (K,)
        How strengths change along the feature, which is uniform from 0 to 1.
    position : float
        What the model shown first gains, in log-odds.
    first : ndarray, shape (K, K)
        Probability that the row's model is shown first.
    n : int
        Votes.
    """

    shares: np.ndarray
    strengths: np.ndarray
    slopes: np.ndarray
    position: float
    first: np.ndarray
    n: int

    @property
    def models(self) -> list[str]:
        """Names in alphabetical order."""
        return [f"model{j:02d}" for j in range(len(self.strengths))]

    @property
    def formula(self) -> str:
        """With the feature where it matters."""
        return f"winner ~ {'x' if self.slopes.any() else '1'} | model_a + model_b"

    def sample(self, seed: int) -> pd.DataFrame:
        """One data set: a row per vote."""
        rng = np.random.default_rng(seed)
        pairs = np.argwhere(self.shares > 0)
        chosen = pairs[rng.choice(len(pairs), size=self.n, p=self.shares[pairs[:, 0], pairs[:, 1]])]
        as_listed = rng.random(self.n) < self.first[chosen[:, 0], chosen[:, 1]]
        first, second = np.where(as_listed[:, None], chosen, chosen[:, ::-1]).T
        x = rng.random(self.n)
        gap = self.strengths[first] - self.strengths[second] + (x - 0.5) * (self.slopes[first] - self.slopes[second])
        wins = expit(gap + self.position)
        tie = 2 * _TIES * np.minimum(wins, 1 - wins)
        u, names = rng.random(self.n), np.array(self.models)
        label = np.where(u < tie, "tie", np.where(u < tie + wins - tie / 2, "model_a", "model_b"))
        return pd.DataFrame({"x": x, "model_a": names[first], "model_b": names[second], "winner": label})

    def preferences(self) -> np.ndarray:
        """Preference for the row's model on the grid of the feature, a mean over the orders as shown, (200, K, K)."""
        scores = self.strengths + (_GRID[:, None] - 0.5) * self.slopes
        gap = scores[:, :, None] - scores[:, None, :]
        return self.first * expit(gap + self.position) + (1 - self.first) * expit(gap - self.position)

    def target(self, settings: str, ordered: bool, counts: np.ndarray) -> np.ndarray:
        """What a setting estimates, (K,), from the counts of ordered pairs in a sample, (K, K)."""
        both = counts + counts.T
        if settings == "bt_mle":
            return _likelihood_scores(self.preferences().mean(axis=0), both)
        if ordered:
            return self.strengths
        fewest = SETTINGS[settings].get("min_labels", 10)
        weights = np.where(both >= fewest, both if "counts" in settings else 1.0, 0.0)
        return _projected(logit(self.preferences()).mean(axis=0), weights)


def _projected(log_odds: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Scores, (K,), whose differences fit log-odds, (K, K), best under weights, (K, K)."""
    laplacian = np.diag(weights.sum(axis=1)) - weights
    return np.linalg.pinv(laplacian) @ (weights * log_odds).sum(axis=1)


def _likelihood_scores(preference: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Scores that maximise the expected Bradley-Terry likelihood, (K,), by Newton's method."""
    scores = np.zeros(len(counts))
    for _ in range(50):
        win = expit(scores[:, None] - scores[None, :])
        weights = counts * win * (1 - win)
        step = np.linalg.pinv(np.diag(weights.sum(axis=1)) - weights) @ (counts * (preference - win)).sum(axis=1)
        scores = scores + step
        if np.abs(step).max() < 1e-12:
            break
    return scores


def arena(name: str) -> Arena:
    """A scenario by name: ``feature-N``, ``order-N`` or ``lopsided-N``."""
    kind, n = name.split("-")
    counts = real_counts().astype(float)
    n_models, votes = len(counts), (counts + counts.T).sum(axis=1)
    rng = np.random.default_rng(7)
    # In orders that have nothing to do with how often models are shown.
    strengths = rng.permutation(np.linspace(1.2, -1.2, n_models))
    slopes = rng.permutation(np.linspace(1.5, -1.5, n_models)) * (kind == "feature")
    share = _FIRST[kind]
    first = np.where(votes[:, None] > votes[None, :], share, 1 - share)
    position = 0.0 if kind == "feature" else _POSITION
    return Arena(counts / counts.sum(), strengths - strengths.mean(), slopes, position, first, int(n))


def ordered_counts(battles: pd.DataFrame, models: list[str]) -> np.ndarray:
    """Votes by model shown first and second, (K, K)."""
    table = pd.crosstab(battles["model_a"], battles["model_b"])
    return table.reindex(index=models, columns=models, fill_value=0).to_numpy()


def replicate(name: str, seed: int) -> list[dict[str, object]]:
    """All settings on one data set: a row for each."""
    scenario = arena(name)
    battles = scenario.sample(seed)
    counts = ordered_counts(battles, scenario.models)
    likelihood, default = (_fit(scenario, battles, settings, seed)[0] for settings in ("bt_mle", "default"))
    rows = []
    for settings in COMPARED:
        row: dict[str, object] = {"scenario": name, "seed": seed, "settings": settings, "failed": ""}
        began = time.perf_counter()
        try:
            fit, n_warnings = _fit(scenario, battles, settings, seed, default)
        except dr.DmlrankError as error:
            rows.append(row | {"failed": type(error).__name__})
            continue
        seconds = time.perf_counter() - began
        ordered = settings != "bt_mle" and fit.estimates.description.ordered
        # Where the effect of order is taken off, scores are about both orders, too.
        target = scenario.target(settings, ordered or fit.diagnostics.order_effect_error > 0, counts)
        ratio = fit.bse / likelihood.bse
        rows.append(
            row
            | {"ordered": int(ordered), "used": round(fit.estimates.votes.share_used, 5)}
            | _coverage(fit, scenario.strengths, "strengths")
            | _coverage(fit, target, "target")
            | {
                "ratio_median": round(float(ratio.median()), 4),
                "ratio_largest": round(float(ratio.max()), 4),
                "rmse": round(float(np.sqrt(((fit.params - scenario.strengths) ** 2).mean())), 5),
                "warned": n_warnings,
                "seconds": round(seconds, 2),
            }
        )
    return rows


def _fit(
    scenario: Arena, battles: pd.DataFrame, settings: str, seed: int, default: dr.RankResults | None = None
) -> tuple[dr.RankResults, int]:
    """A fit, or an update of the default one, which shares first stages, and how many warnings it gave."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if settings == "bt_mle":
            fit = dr.dml_rank(
                "winner ~ 1 | model_a + model_b", battles, **in_objects({"rng": seed, **SETTINGS[settings]})
            )
        elif default is None:
            options = SETTINGS[settings]
            fit = dr.dml_rank(
                scenario.formula, battles, **in_objects({"functional": "bt", "rng": seed, "n_jobs": 1, **options})
            )
        else:
            fit = default.update(**SETTINGS[settings])
    return fit, len(caught)


def _coverage(fit: dr.RankResults, truth: np.ndarray, prefix: str) -> dict[str, object]:
    """Coverage of 95 % intervals, of each model and of all at once; models are in alphabetical order in the truth."""
    error = (fit.params.sort_index() - truth).abs() / fit.bse.sort_index()
    return {
        f"{prefix}_pointwise": round(float((error <= 1.959964).mean()), 4),
        f"{prefix}_simultaneous": int((error <= fit.estimates.critical).all()),
    }


def run(names: list[str], seeds: int) -> None:
    """Replications that the table does not hold yet."""
    done = set()
    if RESULTS.exists():
        done = set(pd.read_csv(RESULTS)[["scenario", "seed"]].itertuples(index=False, name=None))
    with RESULTS.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not file.tell():
            writer.writeheader()
        for seed in range(seeds):
            for name in names:
                if (name, seed) not in done:
                    writer.writerows(replicate(name, seed))
                    file.flush()


def table(results: pd.DataFrame) -> pd.DataFrame:
    """Means by scenario and settings."""
    keys = ["scenario", "settings"]
    fitted = results[results["failed"].isna()].groupby(keys, sort=False)
    means = fitted[list(COLUMNS[3:12])].mean()
    means.insert(0, "warned", fitted["warned"].apply(lambda number: (number > 0).mean()))
    runs = results.groupby(keys, sort=False).size()
    means.insert(0, "fitted", fitted.size().astype(str) + "/" + runs.reindex(means.index).astype(str))
    return means.round(3)


def markdown(results: pd.DataFrame) -> Iterator[str]:
    """Yield the lines of the table in docs/validity.md: this study, after the one without feature and effect."""
    yield "| votes | settings | samples | used | strengths | target | SE median | SE largest |"
    yield "|---|---|---|---|---|---|---|---|"
    plain = pd.read_csv(PLAIN_RESULTS)
    plain = plain[plain["scenario"].isin(_PLAIN_SCENARIOS) & plain["settings"].isin(COMPARED)]
    for kind in ("pointwise", "simultaneous"):
        plain[f"strengths_{kind}"] = plain[f"target_{kind}"] = plain[kind]
    for (scenario, settings), group in pd.concat([plain, results]).groupby(["scenario", "settings"], sort=False):
        fitted = group[group["failed"].isna()]
        if fitted.empty:
            yield f"| {scenario} | {settings} | 0 of {len(group)} | - | - | - | - | - |"
            continue
        mean = fitted.select_dtypes("number").mean()
        yield (
            f"| {scenario} | {settings} | {len(fitted)} of {len(group)} | {mean['used']:.3f} "
            f"| {mean['strengths_pointwise']:.3f}, {mean['strengths_simultaneous']:.2f} "
            f"| {mean['target_pointwise']:.3f}, {mean['target_simultaneous']:.2f} "
            f"| {mean['ratio_median']:.2f} | {mean['ratio_largest']:.2f} |"
        )


def main(argv: list[str]) -> int:
    """Run, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "tables"))
    parser.add_argument("--scenarios", nargs="+", default=["feature-5000", "order-26919", "lopsided-26919"])
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--markdown", action="store_true", help="the table of docs/validity.md")
    arguments = parser.parse_args(argv)
    if arguments.command == "run":
        run(arguments.scenarios, arguments.seeds)
    elif arguments.markdown:
        print(*markdown(pd.read_csv(RESULTS)), sep="\n")
    else:
        print(table(pd.read_csv(RESULTS)).to_string())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
