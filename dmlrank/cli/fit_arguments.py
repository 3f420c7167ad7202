"""Options of a fit on the command line: how the parser reads them, and the arguments of the API that they become."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import Any

from ..data.frames import column_names
from ..exceptions import OptionError
from ..options import OPTIONS, Option
from .column_roles import ColumnRoles
from .plain_formula import check_plain
from .read_files import FORMATS, Frame, read_frames
from .score_tables import ScoreTable

# Options of a fit that the command line has under the same names and with the same values as the Python API.
PASSED_ON = tuple(name for name, option in OPTIONS.items() if option.help)
# The options among them that the subcommand check has.
CHECKED = ("context", "min_labels", "missing", "n_folds", "position_bias", "graph", "edge_weights", "votes")


def add_options(command: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """Add the formula, the file, and the options of the fit with these names to a subcommand."""
    command.add_argument("formula", metavar="FORMULA", help="'winner ~ features | model_a + model_b'")
    command.add_argument("file", metavar="FILE", help=f"{', '.join(FORMATS)}, perhaps with .gz; - is standard input")
    add_keywords(command, names)


def add_keywords(command: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """Add the options of the fit with these names, ``--groups``, ``--categories`` and ``--unsafe-formula``."""
    for name in names:
        # The spelling with dashes, which the help shows, and the name of the argument in the Python API.
        spellings = dict.fromkeys([f"--{name.replace('_', '-')}", f"--{name}"])
        command.add_argument(*spellings, **_described(OPTIONS[name]))
    command.add_argument(
        "--groups", nargs="+", metavar="COLUMN", help="columns of the clusters: one, or two for two-way clustering"
    )
    command.add_argument(
        "--categories",
        nargs="+",
        metavar="LABEL=MEANING",
        help="meanings of labels that are not recognised: first, second, tie, both_good or both_bad; or for grades the "
        "share of a win that a label is worth for the first model, as in 'A>>B=1' 'A>B=0.75' 'A=B=0.5'",
    )
    unsafe = "let formulas run any Python code; only for formulas that you wrote yourself"
    command.add_argument("--unsafe-formula", action="store_const", const=True, help=unsafe)


def _described(option: Option) -> dict[str, Any]:
    """Return the arguments with which argparse adds an option."""
    words: dict[str, Any] = {"help": option.help}
    if option.words:
        return words | {"choices": option.words}
    if option.parse is not None:
        words["type"] = option.parse
    if option.several:
        words["nargs"] = "+"
    return words | {"metavar": option.metavar}


def add_fit_options(command: argparse.ArgumentParser) -> None:
    """Add the formula, the file, and every option of a fit to a subcommand."""
    add_options(command, PASSED_ON)
    add_files_and_tuning(command)


def add_files_and_tuning(command: argparse.ArgumentParser) -> None:
    """Add ``--tune``, ``--progress`` and ``--judge-file``, whose values differ from those of the Python API."""
    tuning = "how boosters are tuned: a few configurations (cv, the default), random search, or not at all"
    command.add_argument("--progress", action="store_const", const=True, help="show progress on standard error")
    command.add_argument("--tune", choices=("cv", "random", "none"), help=tuning)
    verdicts = (
        "a file with the verdicts of a judge; its columns are the prompt, both models and the verdict. For several "
        "judges give NAME=FILE for each"
    )
    command.add_argument("--judge-file", nargs="+", metavar="FILE", help=verdicts)


def _roles(formula: str, arguments: argparse.Namespace) -> ColumnRoles:
    """Return the roles of columns in files without types, from the formula and the options."""
    return ColumnRoles.of_fit(
        formula,
        context=arguments.context or (),
        groups=arguments.groups or (),
        judge=getattr(arguments, "judge", None) or (),
        propensity=getattr(arguments, "propensity", None),
    )


def frames_of(arguments: argparse.Namespace, formula: str, file: str, new: str | None = None) -> dict[str, Frame]:
    """Return all frames of a command, under the keys ``file``, ``new``, and ``judge NAME``."""
    # Columns of the file that options name, apart from those of the formula.
    named = [*(arguments.groups or ()), *([arguments.weights] if getattr(arguments, "weights", None) else [])]
    scores = ScoreTable.of(arguments, formula, named)
    file_roles = _roles(formula, arguments) if scores is None else scores.roles
    paths, roles = {"file": file}, {"file": file_roles}
    if new:
        paths["new"], roles["new"] = new, file_roles
    for name, path in judge_files(getattr(arguments, "judge_file", None) or ()).items():
        paths[f"judge {name}"], roles[f"judge {name}"] = path, file_roles.for_verdict_file
    frames = read_frames(paths, roles)
    if scores is not None:
        frames["file"] = scores.pairs(frames["file"])
    if not arguments.unsafe_formula:
        check_plain(formula, getattr(arguments, "propensity", None), column_names(frames["file"]))
    return frames


def judge_files(files: Sequence[str]) -> dict[str, str]:
    """Return the files of verdicts by the name of the judge; the name is empty where one file has no name."""
    named = [text.partition("=") for text in files]
    if len(files) == 1 and not named[0][1]:
        return {"": files[0]}
    if not all(equals for _, equals, _ in named) or len({name for name, _, _ in named}) < len(named):
        raise OptionError(f"--judge-file has {files}; give one file, or several as NAME=FILE with different names")
    return {name: path for name, _, path in named}


def fit_options(arguments: argparse.Namespace, frames: dict[str, Frame]) -> dict[str, Any]:
    """Return the keyword arguments of a fit, including the frames of further prompts and of verdicts."""
    options = api_options(arguments, (*PASSED_ON, "progress"))
    if arguments.tune:
        options["tune"] = None if arguments.tune == "none" else arguments.tune
    verdicts = {key.removeprefix("judge "): frame for key, frame in frames.items() if key.startswith("judge ")}
    if verdicts:
        if arguments.judge:
            raise OptionError(
                "--judge and --judge-file are both given; verdicts are either in columns (--judge) or in files "
                "(--judge-file)"
            )
        options["judge"] = verdicts[""] if set(verdicts) == {""} else verdicts
    return options


def api_options(arguments: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """Return keyword arguments of the API for the options on the command line; the others keep their defaults."""
    options: dict[str, Any] = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    if arguments.groups:
        options["cov_kwds"] = {"groups": arguments.groups}
    if arguments.categories:
        options["categories"] = {
            label: meaning for pair in arguments.categories for label, meaning in _labels_and_meaning(pair)
        }
    return options


def _labels_and_meaning(pair: str) -> list[tuple[object, str | float]]:
    """Return the label as text and, where it is a number, also as a number, with its meaning: a word or a number."""
    label, equals, meaning = pair.rpartition("=")
    if not equals:
        raise OptionError(f"--categories has {pair!r}; give LABEL=MEANING, such as 'skipped=tie'")
    number, worth = _number(label), _number(meaning)
    meaning_or_worth = worth if math.isfinite(worth) else meaning
    labels: list[object] = [label, number] if math.isfinite(number) else [label]
    return [(label, meaning_or_worth) for label in labels]


def _number(text: str) -> float:
    """Return the number that a text stands for; NaN where it stands for none."""
    try:
        return float(text)
    except ValueError:
        return math.nan
