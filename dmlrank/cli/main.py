"""The command line; its options have the names and the values of the arguments of the Python API."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, TypeAlias

from .. import datasets
from .._utils.atomic_write import write_file
from .._version import __version__
from ..api import check, dml_rank, read_json
from ..exceptions import DmlrankError, FileWriteError, OptionError
from ..inference.confidence_sequence import DEFAULT_START
from ..inspection.time_check import PERIODS
from ..planning.plan_options import Against, Top
from ..results.comparison import Comparison, named_results
from ..results.rank_results import RankResults
from ..tables.summary_table import Summary
from .arguments import (
    CHECKED,
    DESCRIPTIONS,
    EXAMPLES,
    EXIT_CODES,
    MAIN_DESCRIPTION,
    MAIN_EXAMPLES,
    PASSED_ON,
    WORDS,
    CommandParser,
    OneSpelling,
    add_fit_options,
    add_formula_and_file,
    add_options,
    add_statement_options,
    add_table_options,
    api_options,
    check_models_of_table,
    check_rows,
    check_statements,
    fit_options,
    frames_of,
    judge_files,
    refuse_fit_options,
)
from .read_files import FORMATS
from .write_files import (
    CHECK,
    FIGURES,
    PAGE,
    PLAN,
    RESULT,
    OutKind,
    check_outputs,
    content_of_check,
    content_of_comparison,
    names_of_files,
    write_figure,
    write_json,
    write_table,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Commands: TypeAlias = "argparse._SubParsersAction[CommandParser]"


_DEMO_FORMULA = "winner ~ C(category) + length | model_a + model_b"
_FUNCTIONALS = ("bt", "borda", "rank_centrality")
# Options that name a file to write.
_WRITTEN = ("out", "report", "pairs", "ranks", "sensitivity", "reversals", "changes", "pair_changes")
# Exit status after an error; argparse ends with 2 where words cannot be parsed. By the custom of shells, the other two
# are those of a process that ended by Ctrl-C and of one that ended by a closed pipe.
_ERROR, _INTERRUPTED, _BROKEN_PIPE = 1, 130, 141

_FILES = (
    "A file of battles has one row per vote: the two models, the label, and perhaps the prompt and its features. A "
    "file of benchmark scores (--scores) has one row per prompt and model, or one column per model. Files "
    f"end with {', '.join(FORMATS)}, perhaps compressed (.gz .bz2 .xz); - is standard input. In csv, models, prompts, "
    "clusters and labels are read as text, other columns as numbers where all cells are."
)

_Formats: TypeAlias = dict[str, Callable[[str], object]]
_Writers: TypeAlias = list[tuple[str | None, Callable[[str], object]]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    try:
        parsed = build_parser().parse_args(arguments)
        parsed.run(parsed)
        # Python has no standard output where the caller has closed it.
        if sys.stdout is not None:
            sys.stdout.flush()
    except DmlrankError as error:
        return _failed(str(error))
    except MemoryError as error:
        reason = f" ({error})" if str(error) else ""
        return _failed(f"there is not enough memory{reason}; fewer features and --subsample need less")
    except KeyboardInterrupt:
        print("dmlrank: interrupted; files that were already written stay, other files are unchanged", file=sys.stderr)
        return _INTERRUPTED
    except OSError as error:
        # To the null device, because Python prints the remaining output again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE if isinstance(error, BrokenPipeError) else _failed(f"the output cannot be printed: {error}")
    return 0


def _failed(message: str) -> int:
    """Print the message of an error as one line and return the exit status of errors."""
    print(f"dmlrank: {' '.join(message.split())}", file=sys.stderr)
    return _ERROR


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of the command line with all its subcommands."""
    parser = argparse.ArgumentParser(
        prog="dmlrank",
        description=MAIN_DESCRIPTION,
        formatter_class=OneSpelling,
        epilog=f"{MAIN_EXAMPLES}\n\n{fill(_FILES, 100)}\n\n{EXIT_CODES}",
    )
    parser.add_argument("--version", action="version", version=f"dmlrank {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=CommandParser)
    for add_command in (_add_demo, _add_check, _add_fit, _add_design, _add_compare, _add_report):
        add_command(commands)
    return parser


def _help(name: str, help_text: str) -> dict[str, Any]:
    """Return the arguments with which a subcommand gets its help: one line for the list, description, examples."""
    return {
        "help": help_text,
        "usage": f"dmlrank {name} {WORDS[name]}",
        "description": DESCRIPTIONS[name],
        "epilog": f"{EXAMPLES[name]}\n\n{EXIT_CODES}",
    }


def _add_demo(commands: _Commands) -> None:
    """Add the subcommand that fits a simulated arena."""
    demo = commands.add_parser("demo", **_help("demo", "fit the simulated arena and print a summary"))
    demo.add_argument("--functional", default="bt", help="kind of scores (default bt)")
    demo.add_argument("--contexts", type=int, default=4000, metavar="N", help="simulated prompts (default 4000)")
    demo.add_argument("--rng", type=int, default=0, metavar="SEED", help="seed of all draws (default 0)")
    add_outputs(demo, None, report="a page, one HTML file (needs Jinja2)")
    demo.set_defaults(run=_demo)


def _demo(arguments: argparse.Namespace) -> None:
    """Fit a simulated arena, print the summary, and write the page if it is wanted."""
    check_outputs({"report": arguments.report}, [])
    battles = datasets.simulate_arena(arguments.contexts, rng=arguments.rng)
    results = dml_rank(
        _DEMO_FORMULA, battles, functional=arguments.functional, context="question_id", rng=arguments.rng
    )
    heading = f"{arguments.contexts:,} simulated battles: {_DEMO_FORMULA}"
    _show(f"{heading}\n\n{results.summary()}", [], {}, [(arguments.report, results.report)])


def _add_check(commands: _Commands) -> None:
    """Add the subcommand that checks a file before a fit."""
    help_text = "look at a file of battles before a fit: labels, graph, balance, cost"
    check_parser = commands.add_parser("check", **_help("check", help_text))
    add_formula_and_file(check_parser)
    add_options(check_parser, CHECKED)
    time = "column of times (timestamps, dates, seconds since 1970): availability of models, votes by period, drift"
    check_parser.add_argument("--time", metavar="COLUMN", help=time)
    check_parser.add_argument("--period", choices=PERIODS, default="auto", help="periods of --time (default auto)")
    add_outputs(check_parser, ("the check", CHECK), report="the check as a page, one HTML file (needs Jinja2)")
    check_parser.set_defaults(run=_check)


def _check(arguments: argparse.Namespace) -> None:
    """Check a file and print the report."""
    check_outputs({"report": arguments.report, "out": arguments.out}, [arguments.file], out=CHECK)
    frames = frames_of(arguments, arguments.formula, arguments.file)
    options = api_options(arguments, CHECKED) | {"time": arguments.time, "period": arguments.period}
    check_report = check(arguments.formula, frames["file"], env={}, **options)
    formats: _Formats = {
        ".txt": lambda path: write_file(path, f"{check_report}\n"),
        ".html": check_report.report,
        ".json": lambda path: write_json(path, content_of_check(check_report)),
    }
    _show(check_report, arguments.out, formats, [(arguments.report, check_report.report)])


def _add_fit(commands: _Commands) -> None:
    """Add the subcommand that fits a file."""
    fit = commands.add_parser("fit", **_help("fit", "fit a file of battles and print a summary"))
    add_formula_and_file(fit)
    add_fit_options(fit)
    add_statement_options(fit)
    add_table_options(fit, has_slim=True)
    add_outputs(
        fit,
        ("the result", RESULT),
        pairs="tests of all differences (max-t) as CSV",
        ranks="ranks, rank sets and groups as CSV",
        sensitivity="bounds of neighbours if those who vote differ from those who do not, as CSV; prints their table",
        report="a page for publication, one HTML file (needs Jinja2)",
    )
    fit.set_defaults(run=_fit)


def _fit(arguments: argparse.Namespace) -> None:
    """Fit a file, write what is asked for and print the summary."""
    _check_outputs(arguments, [arguments.file])
    check_rows(arguments)
    check_statements(arguments)
    results = _fitted(arguments.formula, arguments.file, arguments)
    if arguments.sequential is not None:
        start = DEFAULT_START if arguments.start is None else arguments.start
        results = results.sequential(arguments.sequential, start)
    view = results if arguments.bootstrap is None else results.bootstrap(arguments.bootstrap)
    # Scores by group have the same tables, figures and page.
    shown = results.by(*arguments.by) if arguments.by else view
    rows: dict[str, Any] = {"models": arguments.models, "top": arguments.top}
    summary_of_all = view.summary(slim=arguments.slim, **rows)
    summary = shown.summary(**rows) if arguments.by else summary_of_all
    texts = [str(summary_of_all), *(str(part) for part in (results.judge, results.style) if part is not None)]
    texts += [str(summary)] if arguments.by else []
    others: _Writers = [
        (arguments.pairs, lambda path: write_table(path, view.t_test_pairwise().result_frame)),
        (arguments.ranks, lambda path: write_table(path, view.ranks().result_frame, "model")),
        (arguments.report, shown.report),
    ]
    if arguments.sensitivity:
        sensitivity = results.sensitivity()
        texts.append(str(sensitivity))
        others.append((arguments.sensitivity, lambda path: write_table(path, sensitivity.result_frame)))
    text = "\n\n".join(texts)
    formats = _formats(
        text,
        summary,
        lambda path: write_table(path, shown.tidy(method=arguments.method)),
        results.to_json,
        shown.plot,
    )
    _show(text, arguments.out, formats, others)


def _add_design(commands: _Commands) -> None:
    """Add the subcommand that plans what to label next."""
    design = commands.add_parser("design", **_help("design", "fit a file of battles and plan what to label next"))
    add_formula_and_file(design)
    add_fit_options(design)
    add_design_options(design)
    design.set_defaults(run=_design)


def add_design_options(command: argparse.ArgumentParser) -> None:
    """Add the options of a plan and its outputs."""
    command.add_argument("--budget", type=float, required=True, metavar="B", help="largest cost of all labels together")
    variances = "minimise the sum of variances (A, the default) or the determinant of the covariance (D)"
    command.add_argument("--criterion", choices=("A", "D"), default="A", help=variances)
    targets = command.add_mutually_exclusive_group()
    targets.add_argument("--contrasts", nargs="+", metavar="'A - B'", help="plan for these differences, not all scores")
    targets.add_argument("--top", type=int, metavar="N", help="plan for the differences among the N best models")
    targets.add_argument("--against", metavar="MODEL", help="plan for the differences of this model from all others")
    command.add_argument("--costs", type=float, default=1.0, metavar="C", help="cost of a label (default 1)")
    command.add_argument("--min-propensity", type=float, metavar="P", help="smallest propensity of a pair")
    command.add_argument("--one-pair", action="store_true", help="at most one label for a prompt")
    command.add_argument("--explore", type=float, default=0.0, metavar="SHARE", help="share of a uniform plan mixed in")
    until = "say in the plan which questions end rounds of labelling; without --contrasts it is for their differences"
    command.add_argument("--until", nargs="+", metavar="'A > B'", help=until)
    command.add_argument("--from-scratch", action="store_true", help="plan for the new labels alone")
    prompts = "prompts to plan for (default: those of the file)"
    command.add_argument("--new", dest="prompts_file", metavar="FILE", help=prompts)
    plan = ("the pairs to label, with propensities", PLAN)
    add_outputs(command, plan)


def _design(arguments: argparse.Namespace) -> None:
    """Fit a file, plan what to label next, and print the plan's summary."""
    further = [arguments.prompts_file] if arguments.prompts_file else []
    _check_outputs(arguments, [arguments.file, *further], PLAN)
    frames = frames_of(arguments, arguments.formula, arguments.file, new=arguments.prompts_file)
    results = dml_rank(arguments.formula, frames["file"], env={}, **fit_options(arguments, frames))
    contrasts: Top | Against | list[str] | None = arguments.contrasts
    if arguments.top or arguments.against:
        contrasts = Top(arguments.top) if arguments.top else Against(arguments.against)
    plan = results.design(
        arguments.budget,
        arguments.criterion,
        contrasts=contrasts,
        costs=arguments.costs,
        min_propensity=arguments.min_propensity,
        one_pair=arguments.one_pair,
        explore=arguments.explore,
        until=arguments.until,
        newdata=frames.get("new"),
        from_scratch=arguments.from_scratch,
        progress=bool(arguments.progress),
    )
    tables = dict.fromkeys((".csv", ".json"), lambda path: plan.export(path, arguments.rng))
    _show(plan.summary(results.estimates.alpha), arguments.out, tables | _figures(plan.plot), [])


def _add_compare(commands: _Commands) -> None:
    """Add the subcommand that puts results side by side."""
    help_text = "put stored results, or functionals of one fit, side by side"
    compare_parser = commands.add_parser("compare", **_help("compare", help_text))
    compare_parser.add_argument(
        "inputs", nargs="+", metavar="JSON", help="results stored with fit --out; or a formula and a file of battles"
    )
    compare_parser.add_argument("--names", nargs="+", metavar="NAME", help="heads of the columns")
    _add_independent(compare_parser)
    add_fit_options(compare_parser, [name for name in PASSED_ON if name != "functional"])
    functionals = f"functionals to compare; the first is the reference (default {' '.join(_FUNCTIONALS)})"
    compare_parser.add_argument("--functional", nargs="+", metavar="NAME", help=functionals)
    add_table_options(compare_parser)
    add_outputs(
        compare_parser,
        ("the comparison", RESULT),
        reversals="pairs that results rank in opposite orders, with tests, as CSV",
        changes="changes of scores from the first result, with simultaneous intervals, as CSV",
        pair_changes="changes of the differences between models, with tests, as CSV",
        report="a page with all results, one HTML file (needs Jinja2)",
    )
    compare_parser.set_defaults(run=_compare)


def _compare(arguments: argparse.Namespace) -> None:
    """Compare stored results, or functionals of one fit, and print the table."""
    _check_outputs(arguments, arguments.inputs)
    check_rows(arguments)
    if "~" in arguments.inputs[0]:
        comparison = _compared_functionals(arguments)
    else:
        refuse_fit_options(arguments)
        paths = arguments.inputs
        if len(paths) < 2:
            raise OptionError(
                f"compare was given {paths}; give two or more stored results (fit --out), or a formula and a file"
            )
        comparison = named_results(
            arguments.names or names_of_files(paths),
            [read_json(path) for path in paths],
            independent=arguments.independent,
        )
    summary = comparison.summary(models=arguments.models, top=arguments.top)
    formats = _formats(
        str(summary),
        summary,
        lambda path: write_table(path, comparison.tidy()),
        lambda path: write_json(path, content_of_comparison(comparison)),
        comparison.plot,
    )
    _show(
        summary,
        arguments.out,
        formats,
        [
            (arguments.reversals, lambda path: write_table(path, comparison.reversals())),
            (arguments.changes, lambda path: write_table(path, comparison.changes())),
            (arguments.pair_changes, lambda path: write_table(path, comparison.pair_changes())),
            (arguments.report, comparison.report),
        ],
    )


def _add_independent(command: argparse.ArgumentParser) -> None:
    """Add the option by which the user says that samples are independent."""
    say = "no prompt is in two of the stored results, such as those of two months: test changes between them"
    command.add_argument("--independent", action="store_const", const=True, help=say)


def _add_report(commands: _Commands) -> None:
    """Add the command ``report``."""
    report = commands.add_parser("report", **_help("report", "write a page for publication from stored results"))
    report.add_argument(
        "inputs", nargs="+", metavar="JSON", help="results stored with fit --out; several stand side by side, in tabs"
    )
    report.add_argument("--out", metavar="OUT", required=True, help="the page, one HTML file")
    _add_independent(report)
    report.add_argument("--title", metavar="TEXT", help="title of the page")
    report.add_argument("--names", nargs="+", metavar="NAME", help="names of several results (default: of their files)")
    report.set_defaults(run=_report)


def _report(arguments: argparse.Namespace) -> None:
    """Write a page from stored results, and print its path."""
    paths = arguments.inputs
    check_outputs({"out": arguments.out}, paths, out=PAGE)
    results = [read_json(path) for path in paths]
    if len(results) == 1:
        if arguments.names:
            raise OptionError("--names names several results; give --title for the page of one result")
        if arguments.independent:
            raise OptionError("--independent is about several results, but report was given one; leave the option out")
        written = results[0].report(arguments.out, title=arguments.title)
    else:
        names = arguments.names or names_of_files(paths)
        comparison = named_results(names, results, independent=arguments.independent)
        written = comparison.report(arguments.out, title=arguments.title)
    print(written)


def _compared_functionals(arguments: argparse.Namespace) -> Comparison:
    """Compare a fit of the first functional with its updates to the others."""
    if len(arguments.inputs) != 2:
        raise OptionError(
            f"compare was given a formula and {len(arguments.inputs) - 1} files; give a formula and one file, or "
            f"stored results"
        )
    if arguments.independent:
        raise OptionError(
            "--independent is about stored results of different prompts, but compare was given one file to fit; leave "
            "the option out"
        )
    functionals = arguments.functional or list(_FUNCTIONALS)
    if len(set(functionals)) < max(2, len(functionals)):
        raise OptionError(f"--functional has {' '.join(functionals)}; give two or more different functionals")
    names = arguments.names or functionals
    arguments.functional = functionals[0]
    formula, file = arguments.inputs
    results = [_fitted(formula, file, arguments)]
    results += [results[0].update(functional=functional) for functional in functionals[1:]]
    return named_results(names, results)


def add_outputs(command: argparse.ArgumentParser, out: tuple[str, OutKind] | None, **what: str) -> None:
    """Add an option for each file that a command can write."""
    group = command.add_argument_group("files to write")
    if out is not None:
        text = f"write {out[0]} in the format of the ending: {' '.join(out[1].endings)}; may be repeated"
        group.add_argument("--out", metavar="OUT", action="append", help=text)
    for name, content in what.items():
        spellings = dict.fromkeys([f"--{name.replace('_', '-')}", f"--{name}"])
        group.add_argument(*spellings, metavar="OUT", help=f"write {content}")


def _formats(
    text: str,
    summary: Summary,
    csv: Callable[[str], object],
    json: Callable[[str], object],
    draw: Callable[[], Axes],
) -> _Formats:
    """Return the function that writes each format of ``--out``."""
    return {
        ".txt": lambda path: write_file(path, f"{text}\n"),
        ".md": lambda path: write_file(path, summary.as_markdown()),
        ".html": lambda path: write_file(path, summary.as_html()),
        ".tex": lambda path: write_file(path, summary.as_latex()),
        ".csv": csv,
        ".json": json,
        **_figures(draw),
    }


def _figures(draw: Callable[[], Axes]) -> _Formats:
    """Return the function that writes each format of a figure."""
    return dict.fromkeys(FIGURES, partial(write_figure, draw=draw))


def _check_outputs(arguments: argparse.Namespace, inputs: Sequence[str], out: OutKind = RESULT) -> None:
    """Check before a fit that the files of a command can be written."""
    sources = [*inputs, *judge_files(arguments.judge_file or ()).values()]
    check_outputs({name: getattr(arguments, name) for name in _WRITTEN if hasattr(arguments, name)}, sources, out=out)


def _show(report: object, out: Sequence[str] | None, formats: _Formats, others: _Writers) -> None:
    """Write files, print the report, and raise at the end, when everything else is done, if a file failed."""
    failed = []
    for path, write in [*others, *((path, formats[Path(path).suffix.lower()]) for path in out or ())]:
        if path is not None:
            try:
                write(path)
            except DmlrankError as error:
                failed.append(str(error))
    print(report)
    if failed:
        raise FileWriteError("; ".join(failed))


def _fitted(formula: str, file: str, arguments: argparse.Namespace) -> RankResults:
    """Return the fit of a file."""
    frames = frames_of(arguments, formula, file)
    check_models_of_table(arguments, formula, frames["file"])
    return dml_rank(formula, frames["file"], env={}, **fit_options(arguments, frames))
