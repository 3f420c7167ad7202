"""What a command reads: tables and logs, recognised without a formula where their columns say what they are."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from glob import has_magic
from pathlib import Path
from typing import Any

import pandas as pd

from ..data.arrays import name_of
from ..data.derived_pairs import DerivedPairs
from ..data.formula.parse import names_in, one_sided, parse_formula
from ..data.frames import column_names, has_several_files, require_columns, take_columns
from ..data.pairs_from_scores import pass_at_k, with_read_grades
from ..data.read_votes import PROMPT_NAMES
from ..datasets.eval_logs import READERS, files_by_kind, read_log
from ..datasets.log_files import LOG_ENDINGS, ending
from ..exceptions import MissingDataError, OptionError, listed
from ..options import EqualTasks
from .arguments import FORMULA_OF_SCORES, LOG_OPTIONS, NO_FORMULA, PASSED_ON, VOTES_FORMULA, api_options, typed_options
from .plain_formula import check_plain
from .read_files import (
    STANDARD_INPUT,
    ColumnRoles,
    Frame,
    known_file,
    names_of_columns,
    pairs_of_scores,
    read_frames,
    read_propensities,
    refuse_lost_runs,
)

_FORMULA_OF_RUNS = "score ~ 1 | model"


def is_log(arguments: argparse.Namespace, path: str) -> bool:
    """Return whether a path is to be read as logs of a harness even if there is a formula."""
    place = Path(path)
    is_place = place.suffix in (".eval", ".zst") or (not place.exists() and has_magic(path))
    is_place |= place.is_dir() and any(ending(file) in LOG_ENDINGS for file in place.rglob("*"))
    return any(getattr(arguments, name, None) for name in LOG_OPTIONS) or (is_place and not has_several_files(path))


def is_table(path: str) -> bool:
    """Return whether a file can be no log, by its ending."""
    return known_file(path) and Path(path).suffix not in (".json", ".jsonl", ".gz") and not Path(path).is_dir()


def _formula_of_table(arguments: argparse.Namespace, path: str) -> str:
    """Return the formula that a table has by the names of its columns, and set the options that they say."""
    columns = [] if path == STANDARD_INPUT else names_of_columns(path)
    roles = {FORMULA_OF_SCORES: {"model_a", "model_b", "winner"}, _FORMULA_OF_RUNS: {"model", "score"}}
    found = [formula for formula, names in roles.items() if names <= set(columns)]
    if len(found) != 1:
        has = f"; it has the columns {', '.join(columns[:12])}{', ...' * (len(columns) > 12)}" if columns else ""
        raise OptionError(
            f"{path!r} is no log of a harness; a table needs a formula with the names of its columns, such as "
            f"{VOTES_FORMULA} for votes or {_FORMULA_OF_RUNS!r} for scores{has}"
        )
    if arguments.context is None:
        # An identifier comes before a text, and both before "id", which may be that of a row.
        names = (*PROMPT_NAMES, "item_id", "sample_id", "task_id", "item")
        given = [name for name in names if name in columns] or [name for name in columns if name == "id"]
        prompts = [name for name in given if name.endswith("id")] or given
        if len(prompts) > 1 or (found[0] == _FORMULA_OF_RUNS and not prompts):
            which = f"{listed(prompts)} may all identify" if prompts else "none has a name that says that it identifies"
            raise OptionError(f"of the columns of {path!r}, {which} prompts; name the one that does with --context")
        arguments.context = prompts or None
    if found[0] == _FORMULA_OF_RUNS and arguments.run is None and "run" in columns:
        arguments.run = "run"
    print(f"read as: {found[0]!r}{typed_options(arguments, ('context', 'run'))}\n", file=sys.stderr)
    return found[0]


def _read_log(arguments: argparse.Namespace, formula: str, path: str) -> tuple[str, pd.DataFrame]:
    """Return the formula and the table of logs; the log's own options are set where the command line has none."""
    chosen = {name: getattr(arguments, name, None) for name in LOG_OPTIONS}
    found = [chosen["kind"]] if chosen["kind"] else [kind for kind in files_by_kind(path) if kind]
    if not found:
        from ..storage.json_format import FORMAT

        file = Path(path)
        if file.suffix == ".json" and file.is_file() and FORMAT in file.read_text(errors="replace")[:99]:
            raise OptionError(
                f"{path!r} is a stored result, which compare, report and gate read; {arguments.command} needs the "
                f"formula and the file of the data: dmlrank {arguments.command} {VOTES_FORMULA} battles.csv"
            )
        raise OptionError(
            f"{path!r} holds no log of a known kind; a table needs a formula, such as {VOTES_FORMULA}, and --kind "
            f"names the kind of a log that is not recognised: {' '.join(READERS)}"
        )
    if len(found) > 1:
        commands = "; ".join(f"dmlrank {arguments.command} {shlex.quote(path)} --kind {kind}" for kind in found)
        raise OptionError(f"{path!r} holds logs of {len(found)} kinds, {listed(found)}; read one at a time: {commands}")
    table = read_log(path, **chosen)
    report = table.attrs["report"]
    fit = report["fit"]
    options = {"context": [fit["context"]], "run": fit.get("run"), "groups": fit.get("cov_kwds", {}).get("groups")}
    options |= {} if formula else {"functional": fit.get("functional")}
    formula = formula or fit["formula"]
    for name, value in options.items():
        if getattr(arguments, name, None) is None:
            setattr(arguments, name, value)
    words = typed_options(arguments, ("context", "run", "groups", "functional"))
    print(f"{report}\nread as: {formula!r}{words}\n", file=sys.stderr)
    return formula, table


def frames_of(
    arguments: argparse.Namespace, formula: str, file: str, new: str | None = None
) -> tuple[str, dict[str, Frame]]:
    """Return the formula and all frames of a command, under the keys ``file``, ``new``, and ``judge NAME``."""
    table, is_of_logs = None, is_log(arguments, file)
    if formula == NO_FORMULA and not is_of_logs and is_table(file):
        formula = _formula_of_table(arguments, file)
    if not arguments.scores and (formula == NO_FORMULA or is_of_logs):
        formula, table = _read_log(arguments, formula, file)
    propensity, groups = getattr(arguments, "propensity", None), arguments.groups or ()
    if isinstance(propensity, str) and "~" not in propensity and known_file(propensity):
        arguments.propensity = propensity = read_propensities(propensity)
    propensity = propensity if isinstance(propensity, str) else None
    weights = getattr(arguments, "weights", None) or getattr(arguments, "tasks", None)
    columns: Sequence[str] = arguments.scores or ()
    if len(columns) > 2 and arguments.run:
        # Runs are rows of a table of scores, whose formula has one item column.
        formula = f"{columns[-1]} ~ {parse_formula(formula).features} | {columns[-2]}"
        arguments.context, columns = list(columns[:-2]), ()
        if getattr(arguments, "functional", "") is None:
            arguments.functional = "borda"
    if columns:
        if len(columns) == 2:
            raise OptionError(
                f"--scores has {' '.join(columns)}; give the columns of the prompt, the model and the score, or the "
                f"column of the prompt alone where every model has a column of its own"
            )
        features = [parse_formula(formula).features, one_sided(propensity) or "1"]
        used = [name for terms in features for name in names_in(terms).values]
        others = tuple(dict.fromkeys([*used, *groups, *([weights] if weights else [])]))
        file_roles = ColumnRoles(tuple(columns[:-1] or columns), features=others)
    else:
        for name in ("margin", "lower-is-better"):
            if getattr(arguments, name.replace("-", "_")) is not None:
                reason = "--run is given, too, and runs" if arguments.scores else "--scores is not given, and formulas"
                raise OptionError(
                    f"--{name} is for a file of scores with --scores, but {reason} of scores have no such option; name "
                    f"the columns of the prompt, the model and the score with --scores, without --run, or leave the "
                    f"option out"
                )
        judge = getattr(arguments, "judge", None) or ()
        file_roles = ColumnRoles.of_fit(formula, arguments.context or (), groups, judge, propensity)
    # A judge's verdicts are on the same prompts and models.
    verdict_roles = ColumnRoles(file_roles.names, file_roles.labels[:1], file_roles.models, is_of_verdicts=True)
    paths, roles = ({}, {}) if table is not None else ({"file": file}, {"file": file_roles})
    if new:
        paths["new"], roles["new"] = new, file_roles
    for name, path in judge_files(getattr(arguments, "judge_file", None) or ()).items():
        paths[f"judge {name}"], roles[f"judge {name}"] = path, verdict_roles
    frames = read_frames(paths, roles) | ({} if table is None else {"file": table})
    if isinstance(frames["file"], pd.DataFrame) and not columns and parse_formula(formula).of_scores:
        frames["file"] = with_read_grades(frames["file"], parse_formula(formula).outcome)
    if columns:
        margin, smaller_wins = arguments.margin or 0.0, bool(arguments.lower_is_better)
        frames["file"] = pairs_of_scores(frames["file"], columns, others, margin, lower_is_better=smaller_wins)
    else:
        if _has_drawn_runs(arguments) and parse_formula(formula).of_scores:
            outcome, model = parse_formula(formula).outcome, parse_formula(formula).first
            table = take_columns(frames["file"], column_names(frames["file"]))
            is_lost = table[outcome].isna() & table[model].notna()
            frames["file"] = table.assign(**{outcome: table[outcome].mask(is_lost, arguments.missing)})
        refuse_lost_runs(getattr(arguments, "propensity", None), frames["file"], arguments.context or (), formula)
    if not arguments.unsafe_formula:
        check_plain(formula, propensity, [frames[name] for name in ("file", "new") if name in frames])
    return formula, frames


def solved_of(arguments: argparse.Namespace, formula: str, frame: Frame | DerivedPairs) -> pd.DataFrame:
    """Return pass@k for ``--pass-at``, with the columns of the fit that have one value on a prompt."""
    parts, prompt = parse_formula(formula), list(arguments.context or ())
    if not parts.of_scores or not prompt or isinstance(frame, DerivedPairs) or arguments.propensity is not None:
        raise OptionError(
            "--pass-at is for a table of runs: give a formula such as 'score ~ 1 | model' and --context, without "
            "--propensity"
        )
    table = take_columns(frame, column_names(frame))
    is_kept = isinstance(arguments.missing, str) and arguments.missing != "raise"
    missing = "keep" if is_kept else "raise" if arguments.missing in (None, "raise") else arguments.missing
    solved = pass_at_k(table, arguments.pass_at, prompt=prompt, model=parts.first, score=parts.outcome, missing=missing)
    arguments.run = None
    given = [arguments.weights, arguments.tasks, *(arguments.groups or ()), *(arguments.by or ())]
    names = [name for name in (*names_in(parts.features).values, *given) if name in table and name not in solved]
    of_prompt = table.groupby(prompt, sort=False, observed=True)
    constant = [name for name in dict.fromkeys(names) if (of_prompt[name].nunique(dropna=False) <= 1).all()]
    return solved.merge(table.drop_duplicates(prompt)[[*prompt, *constant]], on=prompt)


def _has_drawn_runs(arguments: argparse.Namespace) -> bool:
    """Return whether runs were drawn, and --missing counts those among them that have a row without a score."""
    propensity = getattr(arguments, "propensity", None)
    is_known = propensity is not None and not (isinstance(propensity, str) and propensity in ("estimate", "marginal"))
    return is_known and isinstance(arguments.missing, float)


def judge_files(files: Sequence[str]) -> dict[str, str]:
    """Return the files of verdicts by the name of the judge; the name is empty where one file has no name."""
    named = dict(text.partition("=")[::2] for text in files)
    if len(files) == 1 and "=" not in files[0]:
        return {"": files[0]}
    if len(named) < len(files) or not all("=" in text for text in files):
        raise OptionError(f"--judge-file has {files}; give one file, or several as NAME=FILE with different names")
    return named


def fit_options(arguments: argparse.Namespace, frames: dict[str, Frame]) -> dict[str, Any]:
    """Return the keyword arguments of a fit, including the frames of verdicts; the seed is 0 unless it is given."""
    options = {"rng": 0} | api_options(arguments, (*PASSED_ON, "progress"))
    if _has_drawn_runs(arguments):
        del options["missing"]
    if arguments.tune:
        options["tune"] = None if arguments.tune == "none" else arguments.tune
    if arguments.tasks:
        if arguments.weights:
            raise OptionError("--tasks and --weights are both given, and both are weights of prompts; leave one out")
        options["weights"] = EqualTasks(arguments.tasks)
    verdicts = {key.removeprefix("judge "): frame for key, frame in frames.items() if key.startswith("judge ")}
    if verdicts:
        if arguments.judge:
            raise OptionError(
                "--judge and --judge-file are both given; verdicts are either in columns (--judge) or in files "
                "(--judge-file)"
            )
        options["judge"] = verdicts[""] if set(verdicts) == {""} else verdicts
    return options


def check_models_of_table(arguments: argparse.Namespace, formula: str, frame: Frame | DerivedPairs) -> None:
    """Check before the fit that the data have the models that ``--models`` names, except where pairs are derived."""
    if not arguments.models or isinstance(frame, DerivedPairs):
        return
    parts = parse_formula(formula)
    sides = (parts.first, parts.second)
    if set(sides) <= set(column_names(frame)):
        columns = take_columns(frame, sides)
        names = sorted({name_of(cell) for name in sides for cell in columns[name].dropna().unique().tolist()})
        from ..report.fit_summary import choose_models

        choose_models(names, range(len(names)), arguments.models)


def check_groups(arguments: argparse.Namespace, formula: str, frame: Frame | DerivedPairs) -> None:
    """Check before the fit that the columns of ``--by`` exist and have a value wherever the fit will use the row."""
    columns = getattr(arguments, "by", None) or ()
    if not columns or isinstance(frame, DerivedPairs):
        return
    from ..results.context_variables import gaps_in_groups

    parts, available = parse_formula(formula), column_names(frame)
    require_columns(columns, available, "by()")
    features = [name for name in names_in(parts.features).values if name in available]
    sides = [name for name in (parts.first, parts.second) if name in available]
    table = take_columns(frame, list(dict.fromkeys([*columns, *features, *sides])))
    if len(sides) == 2:
        table = table[table[sides[0]].astype(str) != table[sides[1]].astype(str)]
    if arguments.missing == "drop":
        table = table.dropna(subset=features)
    for name in columns:
        if n_missing := int(table[name].isna().sum()):
            raise MissingDataError(gaps_in_groups(name, f"{n_missing:,} rows", formula))
