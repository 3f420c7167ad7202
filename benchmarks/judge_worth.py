"""What a judge is worth: 26,919 battles of a public arena, most human votes hidden, two language models as judges.

Human votes are hidden at random, the verdicts of a judge are known on all battles, and the win rates of all models are
estimated from humans alone, from both, and from the judge alone; the answer that all votes give is the truth. It is
itself an estimate from these battles, so that an interval's standard error is compared with what hiding adds:
se^2 - se_all^2. Rows are appended to a table, so that a study can grow.

    DMLRANK_DATA=... python benchmarks/judge_worth.py run --draws 200
    DMLRANK_DATA=... python benchmarks/judge_worth.py table --figure judge_worth.png
"""

from __future__ import annotations

import argparse
import os
import pathlib
import warnings
from collections.abc import Iterator

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd

import dmlrank as dr
from dmlrank.options import in_objects

RESULTS = pathlib.Path(__file__).parent / "results" / "judge_worth.csv"
JUDGES = {"gpt-4": "gpt-4-0125-preview.json", "gpt-3.5": "gpt-3.5-turbo.json"}
FORMULA = "winner ~ 1 | model_a + model_b"
REACH = 1.959964


def battles() -> pd.DataFrame:
    """Human votes, and a column of verdicts per judge."""
    folder = pathlib.Path(os.environ["DMLRANK_DATA"]) / "chatbot_arena"
    votes = dr.datasets.read_chatbot_arena(folder / "human.json")[["question_id", "model_a", "model_b", "winner"]]
    for judge, file in JUDGES.items():
        votes[judge] = dr.datasets.read_chatbot_arena(folder / file)["winner"].to_numpy()
    return votes


class Study:
    """The answer from all votes, and fits to some of them on the same graph with the same weights of pairs."""

    def __init__(self, functional: str) -> None:
        self.votes = battles()
        self.options = {
            "functional": functional,
            "position_bias": False,
            "propensity": "marginal",
            "min_labels": 1,
            "n_jobs": 1,
            "rng": 0,
        }
        self.whole = self._fit(self.votes, edge_weights="counts")
        counts = self.whole.steps.data.pair_counts()
        self.fixed = {"graph": self.whole.graph, "edge_weights": (counts + counts.T).astype(float)}

    def _fit(self, votes: pd.DataFrame, **more: object) -> dr.RankResults:
        return dr.dml_rank(FORMULA, votes, **in_objects(self.options | more))

    def kept(self, draw: int, share: float) -> pd.DataFrame:
        """The battles with a share of the human votes."""
        known = np.random.default_rng([draw, int(1e6 * share)]).random(len(self.votes)) < share
        return self.votes.assign(winner=self.votes["winner"].where(known))

    def rows(self, draw: int, share: float) -> Iterator[dict[str, object]]:
        """One draw: a row per kind of estimate."""
        humans = self._fit(self.kept(draw, share), **self.fixed)
        yield self._figures(humans, draw, share, "humans", "")
        for judge in JUDGES:
            both = humans.update(judge=judge)
            assert both.judge is not None
            yield self._figures(both, draw, share, "both", judge) | {"worth": both.judge.worth}

    def _figures(self, fit: dr.RankResults, draw: int, share: float, how: str, judge: str) -> dict[str, object]:
        error = fit.params - self.whole.params
        added = np.sqrt(np.maximum(fit.bse**2 - self.whole.bse**2, 0.0))
        return {
            "functional": fit.functional,
            "share": share,
            "draw": draw,
            "how": how,
            "judge": judge,
            "votes": fit.diagnostics.n_votes,
            "mse": float((error**2).mean()),
            "variance": float((fit.bse**2).mean()),
            "added": float((added**2).mean()),
            "covers": float((error.abs() <= REACH * added).mean()),
            "mean_error": float(error.iloc[0]),
            "worth": np.nan,
        }

    def alone(self) -> pd.DataFrame:
        """What each judge says alone: error against all votes, and how many models its own interval misses."""
        made = []
        for judge in JUDGES:
            fit = self._fit(self.kept(0, 0.1), **self.fixed).update(judge=judge)
            table = fit.judge.table()
            error = table["judge"] - self.whole.params
            missed = ~((table["judge_lower"] <= self.whole.params) & (self.whole.params <= table["judge_upper"]))
            agreement, position = fit.judge.agreement.iloc[0], fit.judge.position.iloc[0]
            made.append(
                {
                    "judge": judge,
                    "rmse": float(np.sqrt((error**2).mean())),
                    "misses": int(missed.sum()),
                    "of": len(missed),
                    "first": position["first"],
                    "agreement": agreement["agreement"],
                    "kappa": agreement["kappa"],
                }
            )
        return pd.DataFrame(made)


def run(study: Study, draws: range, shares: list[float]) -> None:
    """Append the draws that the table does not hold."""
    RESULTS.parent.mkdir(exist_ok=True)
    known = pd.read_csv(RESULTS) if RESULTS.exists() else pd.DataFrame(columns=["functional", "share", "draw"])
    done = set(map(tuple, known[["functional", "share", "draw"]].to_numpy().tolist()))
    for draw in draws:
        for share in shares:
            if (study.whole.functional, share, draw) not in done:
                rows = pd.DataFrame(list(study.rows(draw, share)))
                rows.to_csv(RESULTS, mode="a", header=not RESULTS.exists(), index=False)
    print(study.alone().round(4).to_string(index=False))


def table() -> pd.DataFrame:
    """Error, coverage and variance ratio by functional, share of votes and kind of estimate."""
    rows = pd.read_csv(RESULTS, keep_default_na=False, na_values=["nan"])
    rows["worth"] = pd.to_numeric(rows["worth"], errors="coerce")
    made = []
    for (functional, share, how, judge), part in rows.groupby(["functional", "share", "how", "judge"]):
        humans = rows[(rows["functional"] == functional) & (rows["share"] == share) & (rows["how"] == "humans")]
        humans, own = humans.set_index("draw"), part.set_index("draw")
        gap = own["mse"] - humans["mse"].loc[own.index]
        n = len(own)
        made.append(
            {
                "functional": functional,
                "share": share,
                "estimate": f"{how} {judge}".strip(),
                "draws": n,
                "votes": round(own["votes"].mean()),
                "rmse": np.sqrt(own["mse"].mean()),
                "mse_ratio": own["mse"].mean() / humans["mse"].mean(),
                "ratio_se": gap.std(ddof=1) / np.sqrt(n) / humans["mse"].mean() if n > 1 else np.nan,
                "variance_ratio": (own["variance"] / humans["variance"].loc[own.index]).mean(),
                "coverage": own["covers"].mean(),
                "coverage_se": own["covers"].std(ddof=1) / np.sqrt(n) if n > 1 else np.nan,
                "bias_z": own["mean_error"].mean() / (own["mean_error"].std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan,
                "worth": own["worth"].median(),
            }
        )
    return pd.DataFrame(made)


def draw_figure(study: Study, path: str) -> None:
    """Error against human votes: humans alone, with a judge, and judges alone, which no votes improve."""
    import matplotlib.pyplot as plt

    found = table()
    found = found[found["functional"] == study.whole.functional]
    figure, axis = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for estimate, part in found.groupby("estimate"):
        part = part.sort_values("votes")
        axis.plot(part["votes"], part["rmse"], marker="o", label=estimate)
    for style, (_, row) in zip((":", "--"), study.alone().iterrows(), strict=False):
        axis.axhline(row["rmse"], linestyle=style, color="grey", label=f"{row['judge']} alone")
    axis.set(xscale="log", yscale="log", xlabel="human votes", ylabel="root mean squared error of the scores")
    axis.legend()
    figure.savefig(path, dpi=150)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.1], help="shares of the votes that are kept")
    parser.add_argument("--functional", default="borda", choices=("borda", "bt"))
    parser.add_argument("--figure", metavar="OUT")
    given = parser.parse_args()
    warnings.simplefilter("ignore", dr.DmlrankWarning)
    study = Study(given.functional) if given.what == "run" or given.figure else None
    if study and given.what == "run":
        run(study, range(given.draws), given.shares)
    print(table().round(4).to_string(index=False))
    if study and given.figure:
        draw_figure(study, given.figure)


if __name__ == "__main__":
    main()
