"""Random samples of what to label from the propensities of a plan, and the table that annotators get."""

from __future__ import annotations

import json
from typing import NamedTuple, TypedDict

import numpy as np
import pandas as pd

from ..data.preferences import FloatArray, IntArray
from .problem import Pairs
from .propensities import Propensities
from .specification import PlanNames


class DrawnCells(NamedTuple):
    """The L labels to collect, sorted by context.

    context (L,): Index of the context of each label.
    first, second (L,): Codes of the items shown first and second.
    propensity (L,): Probability with which the label was drawn.
    """

    context: IntArray
    first: IntArray
    second: IntArray
    propensity: FloatArray


class PlanHeader(TypedDict):
    """The description of a plan in the JSON file of its tasks.

    seed: Seed of the draw.
    """

    criterion: str
    budget: float
    expected_cost: float
    position_bias: bool
    seed: int


def draw_cells(
    propensities: Propensities,
    pairs: Pairs,
    one_pair: bool,
    rng: np.random.Generator,
    *,
    row: IntArray | None = None,
    chunk_contexts: int = 4096,
) -> DrawnCells:
    """Draw the pairs to label on each context, independently or at most one of a context.

    Shapes: propensities (g, m), row (n,).
    """
    n_contexts = propensities.shape[0] if row is None else len(row)
    places, drawn_propensities = [], []
    for start in range(0, n_contexts, chunk_contexts):
        part = slice(start, min(start + chunk_contexts, n_contexts))
        table = propensities.block(part if row is None else row[part])
        if one_pair:
            # One uniform number per context; the first pair whose cumulative probability exceeds the number is drawn.
            exceeds = rng.random((len(table), 1)) < np.cumsum(table, axis=1)
            context = np.flatnonzero(exceeds[:, -1])
            column = exceeds.argmax(axis=1)[context]
        else:
            context, column = np.nonzero(rng.random(table.shape) < table)
        places.append(np.stack([context + start, column]))
        drawn_propensities.append(table[context, column])
    context, column = np.concatenate(places, axis=1)
    first, second = pairs.first[column], pairs.second[column]
    if not pairs.ordered:
        exchange = rng.random(len(column)) < 0.5
        first, second = np.where(exchange, second, first), np.where(exchange, first, second)
    return DrawnCells(context, first, second, np.concatenate(drawn_propensities))


def sample_frame(cells: DrawnCells, names: PlanNames) -> pd.DataFrame:
    """Return a row for every label to collect and for every context without a label, in the order of the contexts."""
    unlabelled = np.setdiff1d(np.arange(len(names.contexts)), cells.context)
    context = np.concatenate([cells.context, unlabelled])
    by_context = np.argsort(context, kind="stable")
    models = np.array([*names.models, None], dtype=object)
    no_model = np.full(len(unlabelled), len(names.models))
    ids = names.contexts[context[by_context]]
    if len(names.context_columns) == 1:
        frame = pd.DataFrame({names.context_columns[0]: pd.Series(list(ids)).infer_objects()})
    else:
        frame = pd.DataFrame(list(ids), columns=list(names.context_columns))
    frame[names.first_column] = models[np.concatenate([cells.first, no_model])[by_context]]
    frame[names.second_column] = models[np.concatenate([cells.second, no_model])[by_context]]
    frame["propensity"] = np.concatenate([cells.propensity, np.full(len(unlabelled), np.nan)])[by_context]
    return frame


def tasks_json(rows: pd.DataFrame, names: PlanNames, header: PlanHeader) -> str:
    """Return the rows of a sample as JSON: the tasks, the contexts without a task, and the header of the plan."""
    drawn = rows["propensity"].notna()
    tasks = json.loads(rows[drawn].to_json(orient="records", double_precision=15))
    # pandas writes 15 digits at most. Propensities are written with all digits, so that reading gives the same numbers.
    for task, propensity in zip(tasks, rows.loc[drawn, "propensity"], strict=True):
        task["propensity"] = float(propensity)
    unlabelled = json.loads(rows.loc[~drawn, list(names.context_columns)].to_json(orient="records"))
    return json.dumps({**header, "tasks": tasks, "unlabelled": unlabelled}, indent=1, ensure_ascii=False)
