"""Tables of benchmark scores on the command line, with a row per prompt and model or a column for every model."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..data.derived_pairs import DerivedPairs
from ..data.formula.parse import names_in, one_sided, parse_formula
from ..data.frames import column_names, require_columns, take_columns
from ..data.pairs_from_scores import pairs_from_scores
from ..exceptions import DataError, OptionError, listed
from .column_roles import ColumnRoles
from .read_files import Frame

# Names of the two columns that a table with a column for every model gets when it becomes one with a row per score.
_MODEL, _SCORE = "model", "score"


def add_score_options(command: argparse.ArgumentParser) -> None:
    """Add the options that say that a file holds scores of a benchmark."""
    command.add_argument(
        "--scores",
        nargs="+",
        metavar="COLUMN",
        help="the file holds benchmark scores instead of votes, and the larger score wins: the columns of the prompt, "
        "the model and the score, for a row per prompt and model; or the column of the prompt alone, for a row per "
        "prompt and a column for every model. FORMULA may then be left out",
    )
    command.add_argument("--margin", type=float, metavar="D", help="scores that differ by at most D tie (default 0)")
    command.add_argument(
        "--lower-is-better", action="store_const", const=True, help="the smaller score wins, as for error rates"
    )


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """The columns and rules of a file of benchmark scores, as the options of the command line give them.

    prompts: Columns that identify a prompt.
    model, score: Columns of the model and of the score; empty for a file with a column for every model.
    others: Columns that the formula and options name. In a file with a column for every model, these columns are not
        read as models.
    margin: Two scores that differ by at most this number tie.
    lower_is_better: Whether the smaller score wins.
    """

    prompts: tuple[str, ...]
    model: str
    score: str
    others: tuple[str, ...]
    margin: float
    lower_is_better: bool

    @classmethod
    def of(cls, arguments: argparse.Namespace, formula: str, others: Collection[str]) -> ScoreTable | None:
        """Read the options about a file of scores; return None for a file of votes."""
        columns = getattr(arguments, "scores", None)
        if not columns:
            unused = [name for name in ("margin", "lower_is_better") if getattr(arguments, name, None) is not None]
            if unused:
                raise OptionError(
                    f"--{unused[0].replace('_', '-')} is for a file of scores, but --scores is not given; name the "
                    f"columns of the prompt, the model and the score with --scores, or leave the option out"
                )
            return None
        if len(columns) == 2:
            raise OptionError(
                f"--scores has {' '.join(columns)}; give the columns of the prompt, the model and the score, or the "
                f"column of the prompt alone where every model has a column of its own"
            )
        prompts, model, score = (columns, "", "") if len(columns) == 1 else (columns[:-2], *columns[-2:])
        further = one_sided(getattr(arguments, "propensity", None))
        formulas = [parse_formula(formula).features, *([further] if further else [])]
        features = [name for terms in formulas for name in names_in(terms).values]
        return cls(
            tuple(prompts),
            model,
            score,
            tuple(dict.fromkeys([*features, *others])),
            0.0 if arguments.margin is None else arguments.margin,
            bool(arguments.lower_is_better),
        )

    @property
    def roles(self) -> ColumnRoles:
        """Roles of the columns of a file without types."""
        return ColumnRoles((*self.prompts, *([self.model] if self.model else [])), features=self.others)

    def pairs(self, frame: Frame) -> DerivedPairs:
        """Return the comparisons of models that follow from the scores of a file."""
        table: object = frame
        model, score = self.model, self.score
        if not model:
            model, score = self._free_name(frame, _MODEL), self._free_name(frame, _SCORE)
            table = self._one_row_per_score(frame, model, score)
        return pairs_from_scores(
            table,
            prompt=self.prompts,
            model=model,
            score=score,
            margin=self.margin,
            lower_is_better=self.lower_is_better,
        )

    def _free_name(self, frame: Frame, name: str) -> str:
        """Return the name, with underscores at its end as long as a column of the frame has the same name."""
        taken = set(column_names(frame))
        while name in taken:
            name += "_"
        return name

    def _one_row_per_score(self, frame: Frame, model: str, score: str) -> pd.DataFrame:
        """Turn a table with a column for every model into one with a row per prompt and model."""
        available = column_names(frame)
        require_columns(self.prompts, available, "--scores")
        table = take_columns(frame, available)
        kept = [name for name in available if name in self.prompts or name in self.others]
        models = [name for name in available if name not in kept]
        no_scores = [name for name in models if table[name].dtype.kind not in "iuf" and not _has_numbers(table[name])]
        if no_scores:
            raise DataError(
                f"--scores {' '.join(self.prompts)} says that every other column is a model with its scores, but "
                f"{listed(no_scores)} {'holds' if len(no_scores) == 1 else 'hold'} something else; leave out columns "
                f"that are no models, or name the columns of the prompt, the model and the score, where a row is one "
                f"score"
            )
        if len(models) < 2:
            raise DataError(
                f"--scores {' '.join(self.prompts)} says that every other column is a model with its scores, and there "
                f"are {len(models)}: {listed(models) or 'none'}; name the columns of the prompt, the model and the "
                f"score, where a row is one score"
            )
        repeated = table.duplicated(list(self.prompts))
        if repeated.any():
            row = int(np.flatnonzero(repeated)[0])
            name = ", ".join(str(table[prompt].iloc[row]) for prompt in self.prompts)
            raise DataError(f"several rows have the prompt {name!r}; a table with a column per model has one row each")
        long = table.melt(kept, models, var_name=model, value_name=score)
        return long.astype({score: float})


def _has_numbers(column: pd.Series) -> bool:
    """Return whether all present cells of a column of objects are numbers."""
    return all(
        isinstance(value, (int, float)) and not isinstance(value, bool)
        for value in column.dropna()
        if value is not None
    )
