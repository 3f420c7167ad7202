"""The command line: the same words as the Python API."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from .. import datasets
from .._utils.atomic_write import write_file
from .._version import __version__
from ..api import check, dml_rank, read_json
from ..data.frames import column_names
from ..exceptions import DmlrankError, FileWriteError, OptionError
from ..inference.simultaneous import METHODS
from ..options import OPTIONS, Option
from ..planning.contrasts import Against, Top
from ..report.table import Summary
from ..results.comparison import Comparison, named_results
from ..results.rank_results import RankResults
from .arguments import CommandParser
from .column_roles import ColumnRoles
from .plain_formula import check_plain
from .read_files import FORMATS, Frame, read_frames
from .write_files import check_outputs, names_of_files, write_figure, write_outputs, write_table

_Commands: TypeAlias = "argparse._SubParsersAction[CommandParser]"


# Options of the API that are passed on as they are, in its own words.
PASSED_ON = tuple(name for name, option in OPTIONS.items() if option.argument is not None)
# Those that a check takes.
CHECKED = ("context", "min_labels", "missing", "n_folds", "position_bias", "graph", "edge_weights", "votes")
_DEMO_FORMULA = "winner ~ C(category) + length | model_a + model_b"
_FUNCTIONALS = ("bt", "borda", "rank_centrality")
# Options that name a file to write.
_WRITTEN = ("csv", "pairs", "ranks", "reversals", "json", "html", "latex", "markdown", "plot", "out")
# What a shell reports of a process that Ctrl-C or a closed pipe has ended.
_INTERRUPTED, _BROKEN_PIPE = 130, 141

_Writers: TypeAlias = list[tuple[str | None, Callable[[str], object]]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        ``sys.argv[1:]`` when None.

    Returns
    -------
    int
        0; 2 after an error, whose message is on standard error; 130 after Ctrl-C; 141 where the reader of standard
        output is gone, as ``head`` is after its lines.
    """
    given = _parser().parse_args(arguments)
    try:
        given.run(given)
        sys.stdout.flush()
    except DmlrankError as error:
        return _failed(str(error))
    except KeyboardInterrupt:
        print("dmlrank: interrupted; files that were not written yet are as they were", file=sys.stderr)
        return _INTERRUPTED
    except OSError as error:
        _drop_output()
        return _BROKEN_PIPE if isinstance(error, BrokenPipeError) else _failed(f"nothing can be printed: {error}")
    return 0


def _failed(why: str) -> int:
    print(f"dmlrank: {why}", file=sys.stderr)
    return 2


def _drop_output() -> None:
    """Send what is left to be printed nowhere, so that the end of the process does not try again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dmlrank",
        description="Rank models from pairwise preferences.",
        epilog=f"Files end with {', '.join(FORMATS)}, perhaps compressed (.gz .bz2 .xz); - is standard input. In csv, "
        "models, prompts, clusters and labels are read as text, other columns as numbers where every cell is one.",
    )
    parser.add_argument("--version", action="version", version=f"dmlrank {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=CommandParser)
    for add_command in (_add_demo, _add_check, _add_fit, _add_design, _add_compare):
        add_command(commands)
    return parser


def _add_demo(commands: _Commands) -> None:
    demo = commands.add_parser("demo", help="fit the simulated arena and print a summary")
    demo.add_argument("--functional", default="bt")
    demo.add_argument("--contexts", type=int, default=4000, metavar="N", help="simulated prompts (default 4000)")
    demo.add_argument("--rng", type=int, default=0, metavar="SEED")
    demo.set_defaults(run=_demo)


def _demo(given: argparse.Namespace) -> None:
    battles = datasets.simulate_arena(given.contexts, rng=given.rng)
    print(f"{given.contexts:,} simulated battles: {_DEMO_FORMULA}\n")
    print(dml_rank(_DEMO_FORMULA, battles, functional=given.functional, context="question_id", rng=given.rng).summary())


def _add_check(commands: _Commands) -> None:
    before = commands.add_parser("check", help="look at a file of battles before a fit: labels, graph, balance, cost")
    add_options(before, CHECKED)
    before.set_defaults(run=_check)


def _check(given: argparse.Namespace) -> None:
    frames = _frames(given, given.formula, given.file)
    print(check(given.formula, frames["file"], env={}, **_options(given, CHECKED)))


def _add_fit(commands: _Commands) -> None:
    fit = commands.add_parser("fit", help="fit a file of battles and print a summary")
    add_fit_options(fit)
    fit.add_argument("--method", choices=METHODS, default="max-t", help="intervals of --csv (default max-t)")
    add_outputs(
        fit,
        csv="the tidy table",
        pairs="tests of all differences (max-t) as CSV",
        ranks="ranks, rank sets and groups as CSV",
        **_tables("the summary"),
        json="the result as JSON, which dmlrank.read_json reads",
        plot="the forest plot (needs matplotlib)",
    )
    fit.set_defaults(run=_fit)


def _fit(given: argparse.Namespace) -> None:
    _check_outputs(given, [given.file])
    results = _fitted(given.formula, given.file, given)
    summary = results.summary()
    _show(
        summary if results.judge is None else f"{summary}\n\n{results.judge}",
        [
            (given.csv, lambda path: write_table(path, results.tidy(method=given.method))),
            (given.pairs, lambda path: write_table(path, results.t_test_pairwise().result_frame)),
            (given.ranks, lambda path: write_table(path, results.ranks(), "model")),
            *_pages(given, summary),
            (given.json, results.to_json),
            (given.plot, lambda path: write_figure(path, results)),
        ],
    )


def _add_design(commands: _Commands) -> None:
    design = commands.add_parser("design", help="fit a file of battles and plan what to label next")
    add_fit_options(design)
    add_design_options(design)
    design.set_defaults(run=_design)


def add_design_options(command: argparse.ArgumentParser) -> None:
    """What a plan is asked for, and where it goes."""
    command.add_argument("--budget", type=float, required=True, metavar="B", help="what all labels may cost together")
    command.add_argument("--criterion", choices=("A", "D"), default="A")
    asked = command.add_mutually_exclusive_group()
    asked.add_argument("--contrasts", nargs="+", metavar="'A - B'", help="differences that matter, not all scores")
    asked.add_argument("--top", type=int, metavar="N", help="what matters are the differences among the N best")
    asked.add_argument("--against", metavar="MODEL", help="what matters are one model's differences from the others")
    command.add_argument("--costs", type=float, default=1.0, metavar="C", help="cost of a label (default 1)")
    command.add_argument("--min-propensity", type=float, metavar="P", help="smallest propensity of a pair")
    command.add_argument("--one-pair", action="store_true", help="at most one label for a prompt")
    command.add_argument("--explore", type=float, default=0.0, metavar="SHARE", help="share of a uniform plan mixed in")
    command.add_argument("--from-scratch", action="store_true", help="leave the labels of the file out of account")
    command.add_argument("--new", dest="prompts_file", metavar="FILE", help="prompts to plan for (default: the fit's)")
    command.add_argument("--out", metavar="OUT", help="write what to label, with propensities: .csv or .json")
    command.add_argument("--plot", metavar="OUT", help="write the heat map of labels (needs matplotlib)")


def _design(given: argparse.Namespace) -> None:
    further = [given.prompts_file] if given.prompts_file else []
    _check_outputs(given, [given.file, *further])
    frames = _frames(given, given.formula, given.file, new=given.prompts_file)
    results = dml_rank(given.formula, frames["file"], env={}, **_fit_options(given, frames))
    plan = results.design(
        given.budget,
        given.criterion,
        contrasts=_contrasts(given),
        costs=given.costs,
        min_propensity=given.min_propensity,
        one_pair=given.one_pair,
        explore=given.explore,
        newdata=frames.get("new"),
        from_scratch=given.from_scratch,
    )
    _show(
        plan.summary(results.estimates.alpha),
        [
            (given.out, lambda path: plan.export(path, given.rng)),
            (given.plot, lambda path: write_figure(path, plan)),
        ],
    )


def _contrasts(given: argparse.Namespace) -> Top | Against | list[str] | None:
    """The differences that a plan is about; None for all scores."""
    if given.top:
        return Top(given.top)
    return Against(given.against) if given.against else given.contrasts


def _add_compare(commands: _Commands) -> None:
    side = commands.add_parser("compare", help="put stored results, or functionals of one fit, side by side")
    side.add_argument(
        "inputs", nargs="+", metavar="JSON", help="results stored with fit --json; or a formula and a file of battles"
    )
    side.add_argument("--names", nargs="+", metavar="NAME", help="heads of the columns")
    add_keywords(side, [name for name in PASSED_ON if name != "functional"])
    several = "functionals of the fit, the first is compared with (default all three)"
    side.add_argument("--functional", nargs="+", metavar="NAME", help=several)
    add_files_and_tuning(side)
    add_outputs(
        side,
        csv="scores and ranks as CSV",
        reversals="pairs in another order, with tests, as CSV",
        **_tables("the table"),
        plot="the bump chart (needs matplotlib)",
    )
    side.set_defaults(run=_compare)


def _compare(given: argparse.Namespace) -> None:
    _check_outputs(given, given.inputs)
    if "~" in given.inputs[0]:
        found = _compared_functionals(given)
    else:
        _refuse_fit_options(given)
        paths = given.inputs
        if len(paths) < 2:
            raise OptionError(
                f"compare needs two or more stored results (fit --json), or a formula and a file; got {paths}"
            )
        found = named_results(given.names or names_of_files(paths), [read_json(path) for path in paths])
    summary = found.summary()
    _show(
        summary,
        [
            (given.csv, lambda path: write_table(path, found.tidy())),
            (given.reversals, lambda path: write_table(path, found.reversals())),
            *_pages(given, summary),
            (given.plot, lambda path: write_figure(path, found)),
        ],
    )


def _compared_functionals(given: argparse.Namespace) -> Comparison:
    """A fit of the first functional and its updates to the others."""
    if len(given.inputs) != 2:
        raise OptionError(f"compare takes a formula and one file; got {len(given.inputs)} words after it")
    functionals = given.functional or list(_FUNCTIONALS)
    if len(set(functionals)) < max(2, len(functionals)):
        raise OptionError(f"compare needs two or more different functionals; got {' '.join(functionals)}")
    names = given.names or functionals
    given.functional = functionals[0]
    formula, file = given.inputs
    results = [_fitted(formula, file, given)]
    results += [results[0].update(functional=functional) for functional in functionals[1:]]
    return named_results(names, results)


def _refuse_fit_options(given: argparse.Namespace) -> None:
    """Raise where stored results are compared and an option of a fit is given."""
    fitting = (*PASSED_ON, "groups", "categories", "tune", "unlabelled", "judge_file")
    unused = [name for name in fitting if getattr(given, name) is not None]
    if unused:
        raise OptionError(f"--{unused[0]} is an option of a fit, and compare was given stored results")


def add_options(command: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """A formula, a file, and some options."""
    command.add_argument("formula", metavar="FORMULA", help="'winner ~ features | model_a + model_b'")
    command.add_argument("file", metavar="FILE", help=f"{', '.join(FORMATS)}, perhaps with .gz; - is standard input")
    add_keywords(command, names)


def add_keywords(command: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """Options by name, groups and categories."""
    for name in names:
        # The dashed spelling, which help shows, and the API's.
        spellings = dict.fromkeys([f"--{name.replace('_', '-')}", f"--{name}"])
        command.add_argument(*spellings, **_described(OPTIONS[name]))
    command.add_argument(
        "--groups", nargs="+", metavar="COLUMN", help="cov_kwds groups: prompt, or prompt and annotator"
    )
    command.add_argument(
        "--categories", nargs="+", metavar="LABEL=MEANING", help="meanings of labels that are not known"
    )


def _described(option: Option) -> dict[str, Any]:
    """What argparse is told of an option; a value of None means that the API's default holds."""
    argument = option.argument
    assert argument is not None, f"{option.name} is not passed on"
    if argument.is_switch:
        if option.default is True:
            return {"action": argparse.BooleanOptionalAction, "help": argument.help}
        return {"action": "store_const", "const": True, "help": argument.help}
    words: dict[str, Any] = {"help": argument.help}
    if option.words:
        return words | {"choices": option.words}
    if argument.parse is not None:
        words["type"] = argument.parse
    if argument.several:
        words["nargs"] = "+"
    return words | {"metavar": argument.metavar}


def add_fit_options(command: argparse.ArgumentParser) -> None:
    """A formula, a file, and every option of a fit."""
    add_options(command, PASSED_ON)
    add_files_and_tuning(command)


def add_files_and_tuning(command: argparse.ArgumentParser) -> None:
    """Options of a fit whose words are not the API's keywords as they stand."""
    command.add_argument("--tune", choices=("cv", "random", "none"))
    command.add_argument("--unlabelled", metavar="FILE", help="further prompts without a label")
    frames = "verdicts of a judge in a file of their own: prompt, both models, verdict; NAME=FILE of several judges"
    command.add_argument("--judge-file", nargs="+", metavar="FILE", help=frames)


def add_outputs(command: argparse.ArgumentParser, **what: str) -> None:
    """Files to write: an option for each keyword, whose value says what is written."""
    for name, written in what.items():
        command.add_argument(f"--{name}", metavar="OUT", help=f"write {written}")


def _tables(what: str) -> dict[str, str]:
    """Formats in which a command writes what it prints."""
    return {"html": f"{what} as HTML", "latex": f"{what} as LaTeX (needs booktabs)", "markdown": f"{what} as Markdown"}


def _check_outputs(given: argparse.Namespace, inputs: Sequence[str]) -> None:
    """Raise before a fit where a file that a command is to write cannot be written."""
    further = [given.unlabelled] if given.unlabelled else []
    read = [*inputs, *further, *_judge_files(given.judge_file or ()).values()]
    check_outputs({name: getattr(given, name) for name in _WRITTEN if hasattr(given, name)}, read)


def _pages(given: argparse.Namespace, summary: Summary) -> _Writers:
    """What writes a summary in every format that is asked for."""
    made: dict[str, Callable[[], str]] = {
        "html": summary.as_html,
        "latex": summary.as_latex,
        "markdown": summary.as_markdown,
    }
    return [(getattr(given, name), partial(_write_page, text=text)) for name, text in made.items()]


def _write_page(path: str, text: Callable[[], str]) -> None:
    write_file(path, text())


def _show(shown: object, writers: _Writers) -> None:
    """Write files and print; files that cannot be written are named at the end, when everything else is done."""
    failed = write_outputs(writers)
    print(shown)
    if failed:
        raise FileWriteError("; ".join(failed))


def _fitted(formula: str, file: str, given: argparse.Namespace) -> RankResults:
    """The fit of a file."""
    frames = _frames(given, formula, file)
    return dml_rank(formula, frames["file"], env={}, **_fit_options(given, frames))


def _roles(formula: str, given: argparse.Namespace) -> ColumnRoles:
    """What the columns of files without types hold, by formula and options."""
    return ColumnRoles.of_fit(
        formula,
        context=given.context or (),
        groups=given.groups or (),
        judge=getattr(given, "judge", None) or (),
        propensity_formula=getattr(given, "propensity_formula", None),
    )


def _frames(given: argparse.Namespace, formula: str, file: str, new: str | None = None) -> dict[str, Frame]:
    """All frames of a command: ``file``, ``unlabelled``, ``new``, and verdicts by ``judge NAME``."""
    roles = _roles(formula, given)
    paths, of = {"file": file}, {"file": roles}
    for key, path in (("unlabelled", getattr(given, "unlabelled", None)), ("new", new)):
        if path:
            paths[key], of[key] = path, roles
    for name, path in _judge_files(getattr(given, "judge_file", None) or ()).items():
        paths[f"judge {name}"], of[f"judge {name}"] = path, roles.of_verdicts
    frames = read_frames(paths, of)
    check_plain(formula, getattr(given, "propensity_formula", None), column_names(frames["file"]))
    return frames


def _judge_files(files: Sequence[str]) -> dict[str, str]:
    """Files of verdicts by the name of their judge; the name is empty where there is one file without.

    Raises
    ------
    OptionError
        If there are several files and not each has a name of its own.
    """
    named = [text.partition("=") for text in files]
    if len(files) == 1 and not named[0][1]:
        return {"": files[0]}
    if not all(equals for _, equals, _ in named) or len({name for name, _, _ in named}) < len(named):
        raise OptionError(f"--judge-file takes one file, or several as NAME=FILE with different names; got {files}")
    return {name: path for name, _, path in named}


def _fit_options(given: argparse.Namespace, frames: dict[str, Frame]) -> dict[str, Any]:
    options = _options(given, PASSED_ON)
    if given.tune:
        options["tune"] = None if given.tune == "none" else given.tune
    if "unlabelled" in frames:
        options["unlabelled"] = frames["unlabelled"]
    verdicts = {key.removeprefix("judge "): frame for key, frame in frames.items() if key.startswith("judge ")}
    if verdicts:
        if given.judge:
            raise OptionError("verdicts are in columns (--judge) or in files (--judge-file), not in both")
        options["judge"] = verdicts[""] if set(verdicts) == {""} else verdicts
    return options


def _options(given: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """Keywords of the API from what was given; what was not keeps the API's default."""
    options: dict[str, Any] = {name: getattr(given, name) for name in names if getattr(given, name) is not None}
    if given.groups:
        options["cov_kwds"] = {"groups": given.groups}
    if given.categories:
        options["categories"] = {
            label: meaning for pair in given.categories for label, meaning in _labels_and_meaning(pair)
        }
    return options


def _labels_and_meaning(pair: str) -> list[tuple[object, str]]:
    """The label as text and, where it is one, as the number that it is in the data."""
    label, equals, meaning = pair.rpartition("=")
    if not equals:
        raise OptionError(f"--categories takes LABEL=MEANING, such as 'skipped=tie'; read was {pair!r}")
    try:
        number = float(label)
    except ValueError:
        number = math.nan
    return [(label, meaning), (number, meaning)] if math.isfinite(number) else [(label, meaning)]
