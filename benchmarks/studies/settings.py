"""Which settings for an arena: position_bias, min_labels and edge_weights against maximum likelihood.

Pairs are as unevenly compared as in chatbot_arena ("arena"), as where models are chosen by Zipf's law ("zipf"), or
evenly ("small"); Bradley-Terry is exactly true. In "order" the model shown first gains 0.3 in log-odds, and who is
first is drawn; in "lopsided" the model with more votes is shown first in 80 %. Strengths are without any effect of
display. "chatbot_arena" are the votes themselves.
"""

from __future__ import annotations

import os
import pathlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import expit

import dmlrank as dr
from dmlrank.options import in_objects

from .runner import ROOT, Row, Study, rmse

SETTINGS = {
    "default": {},
    "True, 10, equal": {"min_labels": 10, "position_bias": True},
    "False, 10, equal": {"min_labels": 10, "position_bias": False},
    "False, 1, equal": {"min_labels": 1, "position_bias": False},
    "True, 10, counts": {"min_labels": 10, "position_bias": True, "edge_weights": "counts"},
    "auto, 10, counts": {"min_labels": 10, "edge_weights": "counts"},
    "False, 1, counts": {"min_labels": 1, "position_bias": False, "edge_weights": "counts"},
    "bt_mle": {},
}
PLAIN = ("small-1500", "arena-5000", "arena-26919", "zipf-20000")
EFFECTS = ("order-26919", "lopsided-26919")
NORMAL, FORMULA = 1.959964, "winner ~ 1 | model_a + model_b"


@dataclass(frozen=True)
class Arena:
    """Shares of the unordered pairs, and how often the row's model is first, (K, K); strengths, (K,)."""

    shares: np.ndarray
    first: np.ndarray
    strengths: np.ndarray
    position: float

    @classmethod
    def named(cls, kind: str) -> Arena:
        """The arena of a cell; strengths and slopes have nothing to do with how often models are shown."""
        k, power = {"zipf": (52, 1.0), "small": (15, 0.0)}.get(kind, (20, 0.0))
        popularity = np.arange(1.0, k + 1) ** -power
        shares = np.triu(np.outer(popularity, popularity), 1)
        if kind not in ("zipf", "small"):
            counts = ROOT / "benchmarks" / "arena_pair_counts.csv"
            shares = pd.read_csv(counts, header=None).to_numpy(float)
        votes, share = (shares + shares.T).sum(axis=1), 0.8 if kind == "lopsided" else 0.5
        strengths = np.random.default_rng(7).permutation(np.linspace(1.2, -1.2, k))
        first = np.where(votes[:, None] > votes[None, :], share, 1 - share)
        position = 0.3 * (kind in ("order", "lopsided"))
        return cls(shares / shares.sum(), first, strengths - strengths.mean(), position)

    def sample(self, n: int, seed: int) -> pd.DataFrame:
        """A row per vote; models are named in their order."""
        rng, pairs = np.random.default_rng(seed), np.argwhere(self.shares > 0)
        chosen = pairs[rng.choice(len(pairs), size=n, p=self.shares[pairs[:, 0], pairs[:, 1]])]
        as_listed = rng.random(n) < self.first[chosen[:, 0], chosen[:, 1]]
        first, second = np.where(as_listed[:, None], chosen, chosen[:, ::-1]).T
        names = np.array([f"model{j:02d}" for j in range(len(self.strengths))])
        wins, u = expit(self.strengths[first] - self.strengths[second] + self.position), rng.random(n)
        tie = 0.6 * np.minimum(wins, 1 - wins)
        label = np.where(u < tie, "tie", np.where(u < tie + wins - tie / 2, "model_a", "model_b"))
        return pd.DataFrame({"model_a": names[first], "model_b": names[second], "winner": label})


def fits(votes: pd.DataFrame, seed: int) -> Iterator[tuple[str, dr.RankResults | None, int]]:
    """Name, fit and number of warnings of every setting; all rank all models, and share first stages."""
    options = in_objects({"functional": "bt", "component": "all", "rng": seed, "n_jobs": 1})
    default = None
    for name, settings in SETTINGS.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                if default is None:
                    fit = default = dr.dml_rank(FORMULA, votes, **options)
                elif name == "bt_mle":
                    fit = dr.dml_rank(FORMULA, votes, **options, estimator=name)
                else:
                    fit = default.update(**settings)
            except dr.DmlrankError:
                fit = None
        yield name, fit, len(caught)


def replicate(cell: str, seed: int) -> Iterator[Row]:
    """All settings on one data set: a row for each."""
    kind, _, n = cell.partition("-")
    arena = None if kind == "chatbot_arena" else Arena.named(kind)
    if arena is None and seed:
        return
    if arena is None:
        votes = dr.datasets.read_chatbot_arena(pathlib.Path(os.environ["DMLRANK_DATA"]) / "chatbot_arena/human.json")
    else:
        votes = arena.sample(int(n), seed)
    found = list(fits(votes, seed))
    likelihood, rarest = found[-1][1], pd.concat([votes["model_a"], votes["model_b"]]).value_counts().index[-1]
    for name, fit, warned in found:
        row: Row = {"settings": name, "fitted": fit is not None}
        if fit is not None:
            ratio, used = fit.bse / likelihood.bse, fit.estimates.votes
            row |= {"used": used.share_used, "least": (used.used / used.total).min(), "warned": warned > 0}
            row |= {"SE median": ratio.median(), "SE largest": ratio.max()}
        if arena is not None and fit is not None:
            z = (fit.params.sort_index() - arena.strengths).abs() / fit.bse.sort_index()
            row |= {"strengths": (z < NORMAL).mean(), "strengths at once": (z < fit.estimates.critical).all()}
            row |= {"rarest": z[rarest] < NORMAL, "rmse": rmse(fit.params.sort_index() - arena.strengths)}
        yield row


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Coverage and standard errors by cell and setting; settings that allow no fit have dashes."""
    plain, effects, real = [], [], []
    for (cell, name), part in rows.groupby(["cell", "settings"], sort=False):
        m = part.drop(columns=["cell", "settings"]).astype(float).mean()
        n = f"{int(part['fitted'].sum())} of {len(part)}"
        se = [f"{m[c]:.2f}" for c in ("SE median", "SE largest")]
        if cell == "chatbot_arena":
            real.append((name, f"{m['used']:.3f}", f"{m['least']:.3f}", *se))
            continue
        if cell in PLAIN:
            shares = [f"{m[c]:.3f}" for c in ("used", "least", "strengths", "strengths at once", "rarest")]
            plain.append((cell, name, n, *shares, *se, f"{m['warned']:.2f}"))
        if cell != "small-1500" and name != "False, 10, equal":
            cover = f"{m['strengths']:.3f}, {m['strengths at once']:.2f}"
            effects.append((cell, name, n, f"{m['used']:.3f}", cover, *se))
    se = ["SE median", "SE largest"]
    titles = {
        "settings_simulated": (plain, ["Fitted", "Used", "Least used", "Pointwise", "Simultaneous", "Rarest", *se]),
        "arena_settings": (effects, ["votes", "settings", "samples", "used", "strengths", *se]),
        "settings_chatbot_arena": (real, ["Settings", "Used", "Least used", *se]),
    }
    titles["settings_simulated"][1][:0] = ["Votes", "Settings"]
    titles["settings_simulated"][1].append("Warned")
    made = {title: pd.DataFrame(part, columns=columns) for title, (part, columns) in titles.items() if part}
    return {title: table.replace(["nan", "nan, nan"], "-") for title, table in made.items()}


STUDY = Study((*PLAIN, *EFFECTS, "chatbot_arena"), replicate, tables, 60)
