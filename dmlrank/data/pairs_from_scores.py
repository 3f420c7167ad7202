"""Tables of scores and rankings as data of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from .._utils.argument_checks import as_names, checked, number_in
from ..exceptions import DataError, MissingDataError, OptionError, OptionTypeError, listed, named_rows, shown
from .arrays import LARGEST_EXACT, MISSING_WORDS, FloatArray, name_of, number_in_cell
from .columns import CodedColumn, check_identity, value_codes
from .derived_pairs import DerivedPairs, Runs
from .formula.parse import SHAPE_OF_SCORES, parse_formula
from .frames import column_names, require_columns, take_columns

# The largest size of a score, and the least spread of scores relative to it, with which variances can be computed.
_LARGEST_SIZE, _LEAST_SPREAD = 1e70, 1e-10
# Grades of inspect_ai.
GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}


@checked
def pairs_from_scores(
    frame: object,
    *,
    prompt: str | Sequence[str],
    model: str,
    score: str,
    margin: float = 0.0,
    lower_is_better: bool = False,
) -> DerivedPairs:
    """Turn a table of benchmark scores into pairwise comparisons.

    Every two models with a score on a prompt are compared there: the larger score wins, and scores that differ by at
    most ``margin`` tie. With ``functional="borda"`` a model's score is then the mean share of models that it beats on
    a prompt. Prompts are the contexts of a fit, which needs neither ``context=`` nor ``position_bias=``. A missing
    score leaves out the model's comparisons on this prompt, which is right where scores are missing for reasons that
    have nothing to do with how good the answers were.

    Parameters
    ----------
    frame : frame
        A row per prompt and model, in any kind of frame that :func:`dmlrank.dml_rank` takes.
    prompt : str or sequence of str
        The column, or columns, that identify a prompt (a task, a question, an item).
    model : str
        The column with the model's name.
    score : str
        The column with the score, a number. Missing scores are allowed.
    margin : float
        Largest difference of two scores that counts as a tie. Rounding breaks no tie: a difference may be larger by 4
        units of relative precision of the larger score (1e-15 of it in double precision, 5e-7 where all scores are
        numbers of single precision). Whole numbers are compared exactly.
    lower_is_better : bool
        Whether smaller scores win, as for error rates.

    Returns
    -------
    DerivedPairs
        The data of :func:`dmlrank.dml_rank`. Other columns of the frame may be features, clusters or weights if they
        do not differ between the models of a prompt.

    Raises
    ------
    DataError
        If a prompt has two scores of one model, scores are not finite numbers, or no two models share a prompt.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dmlrank as dr
    >>> rng = np.random.default_rng(0)
    >>> tasks, models = np.repeat(np.arange(200), 3), np.tile(["large", "medium", "small"], 200)
    >>> score = np.tile([0.6, 0.5, 0.2], 200) + rng.normal(size=600)
    >>> table = pd.DataFrame({"task": tasks, "model": models, "accuracy": score})
    >>> pairs = dr.data.pairs_from_scores(table, prompt="task", model="model", score="accuracy")
    >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", pairs, rng=0)
    >>> res.params.round(4).to_dict()
    {'large': 0.555, 'medium': 0.5475, 'small': 0.3975}
    """
    allowed = "it is the largest difference that is a tie, 0 or more"
    largest_tie = number_in("margin", margin, lambda number: 0 <= number < np.inf, allowed)
    prompts = as_names(prompt, "prompt")
    table = _take(frame, [*prompts, model, score])
    values = numbers_in(table[score], score, "score", table[model])
    values = -values if lower_is_better else values
    pairs = _derive(table, values, prompts=prompts, model=model, number=score)
    return replace(pairs, margin=largest_tie, lower_wins=bool(lower_is_better))


@checked
def pairs_from_rankings(
    frame: object,
    *,
    prompt: str | Sequence[str],
    model: str,
    rank: str,
    annotator: str | None = None,
) -> DerivedPairs:
    """Turn rankings of the answers to a prompt into pairwise comparisons.

    Every two models of a ranking are compared: the smaller rank wins, equal ranks tie. Prompts are the contexts of a
    fit, whose standard errors so allow for the dependence within a ranking; rankings of one prompt are averaged. Which
    models were ranked must not depend on how good their answers were: rankings of which only the best places are known
    (missing ranks), and "best of K", where one answer was chosen and the others were not compared, are refused.

    Parameters
    ----------
    frame : frame
        A row per prompt (and annotator) and ranked model, in any kind of frame that :func:`dmlrank.dml_rank` takes.
        Models that were not part of a ranking have no row.
    prompt : str or sequence of str
        The column, or columns, that identify a prompt.
    model : str
        The column with the model's name.
    rank : str
        The column with the rank, 1 for the best answer; equal numbers are ties.
    annotator : str, optional
        The column that identifies the annotator, where a prompt has several rankings. It may also be a cluster:
        ``cov_type="cluster", cov_kwds={"groups": [prompt, annotator]}``.

    Returns
    -------
    DerivedPairs
        The data of :func:`dmlrank.dml_rank`.

    Raises
    ------
    DataError
        If a ranking has a model twice, ranks are missing or not numbers from 1 on, or the rankings are "best of K".

    Examples
    --------
    >>> import pandas as pd
    >>> import dmlrank as dr
    >>> rankings = pd.DataFrame(
    ...     {"prompt": ["p1"] * 3 + ["p2"] * 3, "model": ["a", "b", "c"] * 2, "place": [1, 2, 3, 2, 1, 2]}
    ... )
    >>> dr.data.pairs_from_rankings(rankings, prompt="prompt", model="model", rank="place")
    DerivedPairs of 3 models on 2 prompts: 6 comparisons
    """
    prompts = as_names(prompt, "prompt")
    annotators = as_names(annotator, "annotator")
    table = _take(frame, [*prompts, *annotators, model, rank])
    ranks = numbers_in(table[rank], rank, "rank", table[model])
    n_missing = int(np.isnan(ranks).sum())
    if n_missing:
        raise MissingDataError(
            f"column {rank!r} has {n_missing} missing ranks; leave out rows of models that were not ranked"
        )
    if ranks.min() < 1:
        raise DataError(
            f"column {rank!r} has the rank {ranks.min():g} ({int((ranks < 1).sum()):,} ranks below 1), and 1 is the "
            f"best rank; numbers of which larger ones are better are scores: pairs_from_scores(..., score={rank!r})"
        )
    derived = _derive(table, -ranks, prompts=prompts, annotators=annotators, model=model, number=rank)
    rankings = derived.values[np.isfinite(derived.values).sum(axis=1) >= 3]
    if len(rankings):
        best = np.nanmax(rankings, axis=1, keepdims=True)
        has_one_winner = (rankings == best).sum(axis=1) == 1
        # Rankings without a single winner get zeros, so that no row consists of NaN alone.
        losers = np.where(has_one_winner[:, None], np.where(rankings == best, np.nan, rankings), 0.0)
        has_tied_losers = np.nanmax(losers, axis=1) == np.nanmin(losers, axis=1)
        if (has_one_winner & has_tied_losers).all():
            raise DataError(
                f"column {rank!r} ranks one answer first and ties all others in {len(rankings)} rankings, 'best of K', "
                f"from which no comparison follows. If the others were equal, use pairs_from_scores(..., "
                f"lower_is_better=True)"
            )
    return replace(derived, kind="ranks", lower_wins=True)


def with_read_grades(table: pd.DataFrame, score: str) -> pd.DataFrame:
    """Return a table in which scores such as ``{"value": "C"}``, which inspect_ai writes, are numbers."""
    known = table[score].dropna() if score in table else ()
    if not len(known) or not all(isinstance(cell, dict) and "value" in cell for cell in known):
        return table
    values = [cell["value"] if isinstance(cell, dict) else None for cell in table[score]]
    numbers = [GRADES.get(value, value) if isinstance(value, str) else value for value in values]
    return table.assign(**{score: pd.Series(numbers, table.index, dtype=object).infer_objects()})


def read_scores(formula_text: str, data: object, *, context: tuple[str, ...], run: str | None) -> object:
    """Return the scores that a formula with one item column describes; for any other formula, the data as they are."""
    formula = parse_formula(formula_text)
    if isinstance(data, DerivedPairs) or not formula.of_scores:
        if run is not None and not (isinstance(data, DerivedPairs) and data.run == run):
            raise OptionError(
                f"run={run!r} is for a table of scores, with a formula such as {SHAPE_OF_SCORES!r}; leave it out"
            )
        return data
    if not context:
        raise OptionError(
            f"{formula_text!r} is a formula of scores: name the columns that identify prompts with context="
        )
    names = [*context, *([] if run is None else [run]), formula.first, formula.outcome]
    table = with_read_grades(_take(data, names), formula.outcome)
    column = table[formula.outcome]
    # Whole numbers as floats: the level of scores counts for their mean, which is rounded in any case.
    values = numbers_in(
        column.astype(float) if column.dtype.kind in "iu" else column, formula.outcome, "score", table[formula.first]
    )
    _check_size(values, formula.outcome)
    derived = _derive(table, values, prompts=context, model=formula.first, number=formula.outcome, run=run, runs=True)
    return replace(derived, rows=table)


def further_runs(source: DerivedPairs, column: str) -> Runs:
    """Return another column of a table of runs, such as a cost, also of runs without a score."""
    rows, run = source.rows, source.run
    assert rows is not None
    require_columns([column], list(rows.columns), "the arguments")
    values = numbers_in(rows[column], column, "value")
    _check_size(values, column)
    found = _derive(rows, values, prompts=source.prompt, model=source.model, number=column, run=run, runs=True).runs
    assert found is not None
    return found


def _take(frame: object, names: Sequence[str]) -> pd.DataFrame:
    """Return all columns of a frame; check that the columns in ``names`` exist and are different."""
    if isinstance(frame, DerivedPairs):
        raise OptionTypeError("the frame holds pairs already (DerivedPairs); pass the table of scores or rankings")
    available = column_names(frame)
    require_columns(names, available, "the arguments")
    if len(set(names)) < len(names):
        raise OptionError(f"the arguments name a column twice: {listed(names)}")
    return take_columns(frame, available)


def numbers_in(column: pd.Series, name: str, kind: str, model: pd.Series | None = None) -> FloatArray:
    """Return a column of finite numbers as floats, (rows,), NaN for missing ones; ``model`` is for its errors."""
    known = column.dropna()
    if pd.api.types.infer_dtype(known) == "integer" and max(int(known.max()), -int(known.min())) > LARGEST_EXACT:
        # Only differences count, and those from the smallest number can be exact in floating point.
        if int(known.max()) - int(known.min()) > LARGEST_EXACT:
            raise DataError(
                f"column {name!r} holds whole numbers from {known.min()} to {known.max()}, which floating point cannot "
                f"tell apart; subtract the smallest {kind} of each prompt, or divide them"
            )
        column = (known - known.min()).astype(float).reindex(column.index)
    if column.dtype.kind not in "iufb":
        column = _numbers_of_cells(column, name, kind, model)
    values = column.to_numpy(dtype=float)
    if np.isinf(values).any():
        in_rows = named_rows(np.isinf(values))
        raise DataError(f"column {name!r} holds {values[np.isinf(values)][0]} in {in_rows}; a {kind} must be finite")
    return values


def _check_size(values: FloatArray, name: str) -> None:
    """Raise where numbers are so large, so small or so far from zero that their variances are lost in rounding."""
    known = values[~np.isnan(values)]
    size, spread = np.abs(known).max(initial=0.0), np.ptp(known) if len(known) else 0.0
    advice = ""
    if size > _LARGEST_SIZE or 0 < spread < 1 / _LARGEST_SIZE:
        advice = "divide all of them by one number, such as the largest"
    elif 0 < spread < _LEAST_SPREAD * size:
        advice = "subtract one number from all of them, such as the smallest"
    if advice:
        raise DataError(f"column {name!r} has numbers from {known.min():.6g} to {known.max():.6g}; {advice}")


def _numbers_of_cells(column: pd.Series, name: str, kind: str, model: pd.Series | None) -> pd.Series:
    """Return a column of numbers, texts of numbers and missing cells as floats; name another cell and a remedy."""
    values, wrong = np.full(len(column), np.nan), np.zeros(len(column), dtype=bool)
    for place, cell in enumerate(column):
        try:
            values[place] = number_in_cell(cell)
        except (ValueError, OverflowError):
            wrong[place] = True
    if wrong.any():
        place = int(wrong.argmax())
        of_model = "" if model is None else f" (model {name_of(model.iloc[place])!r})"
        in_rows = named_rows(wrong, column.index.tolist())
        raise DataError(
            f"column {name!r} holds {shown(column.iloc[place], 80)}{of_model} in {in_rows}; a {kind} "
            f"must be a number without percent signs, separators or leading zeros, or missing "
            f"({listed(sorted(MISSING_WORDS), 4)}, ...); for votes, name two columns of models"
        )
    return pd.Series(values, index=column.index, name=column.name)


def _derive(
    table: pd.DataFrame,
    values: FloatArray,
    *,
    prompts: tuple[str, ...],
    model: str,
    number: str,
    annotators: tuple[str, ...] = (),
    run: str | None = None,
    runs: bool = False,
) -> DerivedPairs:
    """Return the pairs that follow from a table of scores or ranks, with a margin of zero. Shapes: values (rows,).

    With ``runs``, several rows of a record and model are runs, which the column ``run`` tells apart, and a row without
    a model and a score is a prompt that nothing was run on.
    """
    if not prompts:
        raise OptionTypeError("prompt= names no column; name the column, or the columns, that identify a prompt")
    keys = [*prompts, *annotators]
    coded = {name: CodedColumn.of(table[name]) for name in (*keys, model, *([] if run is None else [run]))}
    coded[model], changed = coded[model].with_plain_names()
    # A name of blanks is none.
    is_run = (coded[model].codes >= 0) | ~np.isnan(values) | (not runs)
    missing = {name: (column.codes < 0) & (is_run | (name in keys)) for name, column in coded.items()}
    if any(mask.any() for mask in missing.values()):
        counts = ", ".join(f"{name!r} in {named_rows(mask)}" for name, mask in missing.items() if mask.any())
        raise MissingDataError(f"missing values: {counts}; every row needs its prompt and model; drop these rows")
    for name in (*keys, model):
        check_identity(name, coded[name].levels)
    codes = pd.DataFrame({name: column.codes for name, column in coded.items()})
    record = np.asarray(codes.groupby(keys, sort=False).ngroup())
    models = tuple(sorted(map(name_of, coded[model].levels)))
    item, first_row = coded[model].places(models), np.unique(record, return_index=True)[1]
    if not runs or run is not None:
        _refuse_repeats(table[is_run], codes[is_run], model)
    found = Runs.of(record, item, values, (len(first_row), len(models)))
    constant = []
    for name in table.columns:
        values_of = value_codes(table[name])
        if name not in (model, number) and (values_of == values_of[first_row][record]).all():
            constant.append(name)
    derived = DerivedPairs(
        table=table[constant].iloc[first_row].reset_index(drop=True),
        prompt=prompts,
        models=models,
        values=found.table().mean,
        margin=0.0,
        number=number,
        runs=found if runs else None,
        n_names_changed=len(changed),
        run=run,
        model=model,
    )
    if not runs:
        require_comparison(derived)
    return derived


def require_comparison(derived: DerivedPairs) -> None:
    """Raise where no two models have a number on the same prompt."""
    if not derived.has_comparison.any():
        raise DataError(f"no two models have a {derived.number!r} on one of {len(derived.values)} prompts")


def _refuse_repeats(table: pd.DataFrame, codes: pd.DataFrame, model: str) -> None:
    """Raise where several rows have the same codes of the columns of prompt, ranking, model and run."""
    is_repeated = codes.duplicated(keep=False).to_numpy()
    if is_repeated.any():
        first = int(np.argmax(is_repeated))
        row, n_rows = table.iloc[first], int((codes == codes.iloc[first]).all(axis=1).sum())
        named = ", ".join(f"{name} {name_of(row[name])!r}" for name in map(str, codes))
        raise DataError(
            f"{named} has {n_rows} rows; one is allowed. Drop duplicates, or name all columns that identify a prompt "
            f"(context=), a run (run= of a fit to 'score ~ 1 | {model}') or a grader (in prompt= or annotator=)"
        )
