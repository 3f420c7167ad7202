"""The check of a table of scores: what each model was scored on, by task, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..data.derived_pairs import DerivedPairs
from ..data.formula.parse import Formula
from ..exceptions import listed
from ..report.statements import counted

# Columns with these names, as tables of logs have them, say what a prompt belongs to and why a score is missing.
_TASK, _ERROR = "task", "error"
# Runs of a model on a prompt, on average, from which on the prompts may be something else.
_MANY_RUNS = 20


@dataclass(frozen=True, slots=True, eq=False)
class ScoreCheck:
    """What a table of scores holds.

    Attributes
    ----------
    n_prompts, n_common : int
        Prompts, and those of them with a score of every model.
    n_scores : int
        Scores of single runs.
    most_runs : int
        Most runs of a model on a prompt.
    n_lost : int
        Runs without a score of a model that has a score on the prompt from another run.
    models : DataFrame
        By model: ``prompts`` with a score, prompts where the score is ``missing``, ``scores`` (runs with a score),
        ``errors`` (rows without a score that name an error, in a column of this name) and the ``mean`` over prompts.
    tasks : DataFrame
        The columns of ``models`` by model and task, where the table has a column ``task``; empty elsewhere.
    """

    n_prompts: int
    n_common: int
    n_scores: int
    most_runs: int
    n_lost: int
    models: pd.DataFrame
    tasks: pd.DataFrame

    @classmethod
    def of(cls, scores: DerivedPairs, formula: Formula) -> ScoreCheck:
        """Count what a table of runs holds."""
        table = scores.rows
        assert table is not None
        model, score, keys = formula.first, formula.outcome, list(scores.prompt)
        known = table[score].notna()
        rows = table[[*keys, model]].assign(
            score=table[score].astype(float),
            error=table[_ERROR].notna() & ~known if _ERROR in table else False,
            task=table.get(_TASK, ""),
        )
        tasks = rows.groupby(keys, sort=False, observed=True)["task"].first()
        cells = rows.groupby([*keys, model], sort=False, observed=True).agg(
            scores=("score", "count"), runs=("score", "size"), mean=("score", "mean"), errors=("error", "sum")
        )
        by_prompt = cells["scores"].unstack(fill_value=0)
        mean, errors = cells["mean"].unstack(), cells["errors"].unstack(fill_value=0)

        def counted_by_model(inside: np.ndarray) -> pd.DataFrame:
            n_scored = (by_prompt[inside] > 0).sum()
            return pd.DataFrame(
                {
                    "prompts": n_scored,
                    "missing": int(inside.sum()) - n_scored,
                    "scores": by_prompt[inside].sum(),
                    "errors": errors[inside].sum(),
                    "mean": mean[inside].mean(),
                }
            ).rename_axis("model")

        of_prompt = tasks.reindex(by_prompt.index).to_numpy()
        by_task = {name: counted_by_model(of_prompt == name) for name in pd.unique(of_prompt) if _TASK in table}
        return cls(
            n_prompts=len(by_prompt),
            n_common=int((by_prompt > 0).all(axis=1).sum()),
            n_scores=int(known.sum()),
            most_runs=int(by_prompt.to_numpy().max()),
            n_lost=int((cells["runs"] - cells["scores"])[cells["scores"] > 0].sum()),
            models=counted_by_model(np.ones(len(by_prompt), dtype=bool)),
            tasks=pd.concat(by_task, names=["task"]).swaplevel() if by_task else pd.DataFrame(),
        )

    def facts(self) -> list[tuple[str, str]]:
        """Return the facts of the page, each a name and a sentence."""
        cells = self.n_prompts * len(self.models)
        n_missing, n_errors = int(self.models["missing"].sum()), int(self.models["errors"].sum())
        runs = f"; at most {self.most_runs} runs of a model on a prompt" if self.most_runs > 1 else ""
        errors = f"; {counted(n_errors, 'row')} with an error in place of a score" if n_errors else ""
        return [
            ("Models:", f"{len(self.models)}"),
            ("Scores:", f"{self.n_scores:,}{runs}{errors}"),
            ("Missing scores:", f"{n_missing:,} of {cells:,} (a model on a prompt)" if n_missing else "none"),
            ("Common prompts:", f"{self.n_common:,} of {self.n_prompts:,} have a score of every model"),
        ]

    def problems(self) -> Iterator[str]:
        """Yield what to do about missing scores, and about prompts that may be none."""
        gaps = self.models["missing"][self.models["missing"] > 0].sort_values(ascending=False, kind="stable")
        if len(gaps):
            worst = listed([f"{name} ({count:,})" for name, count in gaps.items()], 5)
            yield (
                f"Scores are missing of {worst}; {self.n_common:,} of {self.n_prompts:,} prompts have a score of every "
                f"model. Say what a missing score means: missing='common' restricts to these prompts, which is right "
                f"if scores are missing for reasons that have nothing to do with the answers; missing='model' lets "
                f"features of the formula say which scores are missing; missing=0.0 counts them as failures."
            )
        if self.n_lost:
            yield (
                f"{counted(self.n_lost, 'run')} without a score {'is' if self.n_lost == 1 else 'are'} left out, "
                f"because the model has a score on the prompt from another run; missing=0.0 counts them as failures, "
                f"too."
            )
        n_cells = int(self.models["prompts"].sum())
        if self.n_scores > _MANY_RUNS * max(n_cells, 1):
            yield (
                f"A model has {self.n_scores / n_cells:.0f} scores on a prompt on average, which count as its runs: "
                f"are the {self.n_prompts:,} values of the column of prompts prompts, or tasks of many prompts? Name "
                f"the column that identifies a prompt in context=, and that of runs in run=."
            )
