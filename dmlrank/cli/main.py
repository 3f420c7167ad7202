"""The command line; its options have the names and the values of the arguments of the Python API."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, TypeAlias

import pandas as pd
import scipy

import dmlrank as dr

from .._utils.atomic_write import write_file
from .._utils.computation import collected_warnings, warn, warnings_as_lines
from .._version import __version__
from ..data.formula.parse import parse_formula
from ..data.frames import take_columns
from ..exceptions import DmlrankError, FileWriteError, OptionError
from ..options import DEFAULT_START, PERIODS
from ..tables.summary_table import Summarised, Summary
from . import arguments as words
from . import gate
from . import write_files as files
from .read_files import FORMATS, Frame, with_names_folded
from .recognise_input import (
    check_groups,
    check_models_of_table,
    fit_options,
    frames_of,
    is_log,
    is_table,
    judge_files,
    solved_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..results.comparison import Comparison

_DEMO_FORMULA = "winner ~ C(category) + length | model_a + model_b"
# Characters in a line of the printed table of scores by group, beyond which its columns follow below; and intervals
# from which on its figure is a heat map.
_GROUPS_WIDTH, _MOST_INTERVALS = 100, 40
_FUNCTIONALS = ("bt", "borda", "rank_centrality")
# A budget that pays for every label.
_ANY_BUDGET = 1e12
# Options that name a file to write.
_WRITTEN = ("out", "report", "pairs", "ranks", "sensitivity", "reversals", "changes", "pair_changes", "counts")
# Exit status after an error; argparse ends with 2 where words cannot be parsed. By the custom of shells, the other two
# are those of a process that ended by Ctrl-C and of one that ended by a closed pipe.
_ERROR, _INTERRUPTED, _BROKEN_PIPE = 1, 130, 141

_FILES = (
    "A file of battles has one row per vote: the two models, the label, and perhaps the prompt and its features. A "
    "file of benchmark scores (--scores) has one row per prompt and model, or one column per model. Files "
    f"end with {', '.join(FORMATS)}, perhaps compressed (.gz .bz2 .xz); - is standard input. In csv, models, prompts, "
    "clusters and labels are read as text, other columns as numbers where all cells are."
)
_TITLE = "title of the page of --report"
_INDEPENDENT = "no prompt is in two of the results, such as those of two months: test changes between them"

_Formats: TypeAlias = dict[str, Callable[[str], object]]
_Writers: TypeAlias = list[tuple[str | None, Callable[[str], object]]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    try:
        parsed = build_parser().parse_args(arguments)
        with warnings_as_lines(lambda text: f"dmlrank: warning: {words.as_typed(text)}"):
            status = parsed.carry_out(parsed)
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
    return status or 0


def _failed(message: str) -> int:
    """Print the message of an error as one line, in the words of the command line; return the exit status of errors."""
    print(f"dmlrank: {words.as_typed(' '.join(message.split()))}", file=sys.stderr)
    return _ERROR


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of the command line with all its subcommands."""
    parser = argparse.ArgumentParser(
        prog="dmlrank",
        description="Rank models from pairwise preferences.",
        formatter_class=words.OneSpelling,
        epilog=f"{words.MAIN_EXAMPLES}\n\n{fill(_FILES, 100)}\n\n{words.EXIT_CODES}",
    )
    parser.add_argument("--version", action="version", version=f"dmlrank {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=words.CommandParser)
    runs: dict[str, tuple[Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int | None]]] = {
        "demo": (_add_demo_options, _demo),
        "check": (_add_check_options, _check),
        "fit": (_add_fit_options, _fit),
        "design": (add_design_options, _design),
        "compare": (_add_compare_options, _compare),
        "report": (_add_report_options, _report),
        "gate": (_add_gate_options, _gate),
    }
    for name, (add_options, run) in runs.items():
        usage, line, description, examples = words.COMMANDS[name]
        command = commands.add_parser(
            name,
            help=line,
            usage=f"dmlrank {name} {usage}",
            description=description,
            epilog=f"{examples}\n\n{words.GATE_CODES if name == 'gate' else words.EXIT_CODES}",
            conflict_handler="resolve" if name == "gate" else "error",
        )
        add_options(command)
        words.OPTION_OF.update(command.options)
        command.set_defaults(carry_out=run, command=name)
    return parser


def _add_demo_options(demo: argparse.ArgumentParser) -> None:
    demo.add_argument("--functional", default="bt", help="kind of scores (default bt)")
    demo.add_argument("--contexts", type=int, default=4000, metavar="N", help="simulated prompts (default 4000)")
    demo.add_argument("--rng", type=int, default=0, metavar="SEED", help="seed of all draws (default 0)")
    _add_outputs(demo, report="a page, one HTML file (needs Jinja2)")


def _demo(arguments: argparse.Namespace) -> None:
    """Fit a simulated arena, print the summary, and write the page if it is wanted."""
    files.check_outputs({"report": arguments.report}, [], "page")
    battles = dr.datasets.simulate_arena(arguments.contexts, rng=arguments.rng)
    results = dr.dml_rank(
        _DEMO_FORMULA, battles, functional=arguments.functional, context="question_id", rng=arguments.rng
    )
    heading = f"{arguments.contexts:,} simulated battles: {_DEMO_FORMULA}"
    _show(f"{heading}\n\n{_without_python(results.summary())}", [], {}, [(arguments.report, results.report)])


def _add_check_options(command: argparse.ArgumentParser) -> None:
    words.add_formula_and_file(command)
    words.add_options(command, words.CHECKED)
    words.add_tasks(command)
    time = "column of times (timestamps, dates, seconds since 1970): availability of models, votes by period, drift"
    command.add_argument("--time", metavar="COLUMN", help=time)
    command.add_argument("--period", choices=PERIODS, default="auto", help="periods of --time (default auto)")
    _add_outputs(command, ("the check", "check"), report="the check as a page, one HTML file (needs Jinja2)")


def _check(arguments: argparse.Namespace) -> int:
    """Check a file, print the report, and return the exit code of a fit: whether it would end with an error."""
    files.check_outputs({"report": arguments.report, "out": arguments.out}, [arguments.file], "check")
    formula, frames = frames_of(arguments, arguments.formula, arguments.file)
    options = words.api_options(arguments, words.CHECKED) | {"time": arguments.time, "period": arguments.period}
    options |= {"weights": dr.EqualTasks(arguments.tasks)} if arguments.tasks else {}
    found = dr.check(formula, frames["file"], env={}, **options)
    typed = replace(found, problems=tuple(map(words.as_typed, found.problems)))
    formats: _Formats = {
        ".txt": lambda path: write_file(path, f"{typed}\n"),
        ".html": typed.report,
        ".json": lambda path: files.write_json(path, files.content_of_check(found)),
    }
    _show(typed, arguments.out, formats, [(arguments.report, typed.report)])
    return _failed(f"a fit would end with an error: {found.errors[0]}") if found.errors else 0


def _add_fit_options(command: argparse.ArgumentParser) -> None:
    words.add_formula_and_file(command)
    words.add_fit_options(command)
    solved = "of runs that succeed (1) or fail (0): fit the chance that at least one of K runs solves a prompt (pass@k)"
    command.add_argument("--pass-at", type=int, metavar="K", help=solved)
    words.add_statement_options(command)
    words.add_table_options(command, has_slim=True)
    _add_outputs(
        command,
        ("the result", "result"),
        pairs="tests of all differences (max-t) as CSV",
        ranks="ranks, rank sets and groups as CSV",
        sensitivity="bounds of neighbours if those who vote differ from those who do not, as CSV; prints their table",
        report="a page for publication, one HTML file (needs Jinja2)",
    )
    command.add_argument("--title", metavar="TEXT", help=_TITLE)


def _fit(arguments: argparse.Namespace) -> None:
    """Fit a file, write what is asked for and print the summary."""
    _check_outputs(arguments, [arguments.file])
    words.check_rows(arguments)
    words.check_statements(arguments)
    if (arguments.functional or "").startswith("pass"):
        raise OptionError(
            f"--functional {arguments.functional} is no functional; give --pass-at K, such as --pass-at 4"
        )
    with collected_warnings() as found:
        formula, frames = frames_of(arguments, arguments.formula, arguments.file)
        if arguments.pass_at is not None:
            frames["file"] = solved_of(arguments, formula, frames["file"])
        results = _fitted(formula, frames, arguments)
    is_in_table = _is_one_stream() and not arguments.slim and not arguments.verdict
    for warning in found:
        # A reader of both streams has the fit's warnings in the summary.
        if not (is_in_table and str(warning) in results.diagnostics.warnings):
            warn(warning)
    if arguments.sequential is not None:
        start = DEFAULT_START if arguments.start is None else arguments.start
        results = results.sequential(arguments.sequential, start)
    view = results if arguments.bootstrap is None else results.bootstrap(arguments.bootstrap)
    # Scores by group have the same tables, figures and page.
    groups = results.by(*arguments.by) if arguments.by else None
    shown = view if groups is None else groups
    rows: dict[str, Any] = {"models": arguments.models, "top": arguments.top}
    summary = _without_python(view.summary(slim=arguments.slim, **rows))
    tables: list[object] = [
        summary,
        *(_without_python(part) for part in (results.judge, results.style) if part is not None),
    ]
    if groups is not None:
        summary = _without_python(groups.summary(**rows))
        tables.append(summary.as_text(_GROUPS_WIDTH))
    pareto = results.pareto(words.costs_of(arguments.cost)) if arguments.cost else None
    others: _Writers = [
        (arguments.pairs, lambda path: files.write_table(path, view.t_test_pairwise().result_frame)),
        (arguments.ranks, lambda path: files.write_table(path, view.ranks().result_frame, "model")),
        (arguments.report, partial(shown.report, pareto=pareto, title=arguments.title)),
    ]
    csv: Callable[[str], object] = lambda path: files.write_table(path, shown.tidy(method=arguments.method))  # noqa: E731
    draw: Callable[[], Axes] = shown.plot
    if groups is not None and len(groups.joint.estimate) >= _MOST_INTERVALS:
        draw = partial(groups.plot, "heat_map")
    if pareto is not None:
        of_costs = _without_python(pareto.summary(**rows))
        tables.append(of_costs)
        if groups is None:
            summary, draw = of_costs, pareto.plot
            csv = lambda path: files.write_table(path, files.rows_of_models(view, arguments.method, pareto))  # noqa: E731
        endings = {Path(path).suffix.lower() for path in arguments.out or ()}
        if groups is not None and (without := endings - {".txt", ".json"}):
            advice = "; without --by, tables and figures have them, too"
            warn(f"the {' and '.join(sorted(without))} file has no costs; --report writes a page that has{advice}")
        elif ".json" in endings:
            warn("a page made from the .json file has no costs; --report writes a page that has")
    if arguments.sensitivity:
        sensitivity = results.sensitivity()
        tables.append(_without_python(sensitivity))
        others.append((arguments.sensitivity, lambda path: files.write_table(path, sensitivity.result_frame)))
    text = "\n\n".join(map(str, tables))
    if arguments.verdict:
        parts = [view] if groups is None else [view, *(groups[name] for name in groups.groups)]
        text = "\n\n".join(_typed_words(part.verdict(top=arguments.top)) for part in parts)
        if groups is not None and len(groups) > 1:
            text = f"{len(groups)} groups were tested, each at {100 * results.estimates.alpha:g} %.\n\n{text}"

    def write_json(path: str) -> None:
        content = json.loads(results.to_json() or "")
        content["models"] = files.rows_of_models(view, arguments.method, pareto)
        content |= {} if groups is None else {"groups": groups.tidy(method=arguments.method)}
        files.write_json(path, content)

    formats = _formats(text, summary, csv, write_json, draw)
    _show(text, arguments.out, formats, others)


def add_design_options(command: argparse.ArgumentParser) -> None:
    """Add the options of a plan and its outputs."""
    words.add_formula_and_file(command)
    words.add_fit_options(command)
    size = command.add_mutually_exclusive_group(required=True)
    size.add_argument("--budget", type=float, metavar="B", help="largest cost of all labels together")
    error = "in place of a budget: the smallest one with at most this standard error of what the plan is for"
    size.add_argument("--std-error", type=float, metavar="S", help=error)
    variances = "minimise the sum of variances (A, the default) or the determinant of the covariance (D)"
    command.add_argument("--criterion", choices=("A", "D"), default="A", help=variances)
    targets = command.add_mutually_exclusive_group()
    differences = "plan for these differences, not all scores"
    targets.add_argument("--contrasts", "--contrast", nargs="+", metavar="'A - B'", help=differences)
    top = "plan for the differences among the N best models, and those that decide which these are; 1: who is first"
    targets.add_argument("--top", type=int, metavar="N", help=top)
    targets.add_argument("--against", metavar="MODEL", help="plan for the differences of this model from all others")
    costs = "cost of a label or run: a number (default 1), or a column of the file, by prompt, and of scores by run"
    command.add_argument("--costs", default="1", metavar="C", help=costs)
    command.add_argument("--min-propensity", type=float, metavar="P", help="smallest propensity of a pair")
    command.add_argument("--one-pair", action="store_true", help="at most one label for a prompt")
    command.add_argument("--explore", type=float, default=0.0, metavar="SHARE", help="share of a uniform plan mixed in")
    until = "say in the plan which questions end rounds of labelling; without --contrasts it is for their differences"
    command.add_argument("--until", nargs="+", metavar="'A > B'", help=until)
    command.add_argument("--from-scratch", action="store_true", help="plan for the new labels alone")
    candidate = "of scores: a model without a score that is to be run, by default to compare it with the best one"
    command.add_argument("--candidate", metavar="MODEL", help=candidate)
    prompts = "prompts to plan for (default: those of the file)"
    command.add_argument("--new", dest="prompts_file", metavar="FILE", help=prompts)
    counts = "how many labels each pair gets, or runs each model, in the same draw, as CSV"
    _add_outputs(command, ("the pairs to label, with propensities", "plan"), counts=counts)


def _design(arguments: argparse.Namespace) -> None:
    """Fit a file, plan what to label next, and print the plan's summary."""
    from ..fit.direct_fits import FEWEST_PROMPTS
    from ..planning.plan_summary import thin_models
    from ..report.statements import runs_or_prompts

    further = [arguments.prompts_file] if arguments.prompts_file else []
    _check_outputs(arguments, [arguments.file, *further], "plan")
    formula, frames = frames_of(arguments, arguments.formula, arguments.file, new=arguments.prompts_file)
    results = dr.dml_rank(formula, frames["file"], env={}, **fit_options(arguments, frames))
    costs = words.number_or_name(arguments.costs)
    if arguments.std_error is not None:
        if not arguments.std_error > 0:
            raise OptionError(
                f"--std-error is {arguments.std_error:g}; give a number above 0, in the unit of the scores"
            )
    elif isinstance(costs, float) and 0 < arguments.budget < min(costs, 1):
        raise OptionError(
            f"--budget {arguments.budget:g} is less than one run or label costs; a budget is the cost of all of them "
            f"together: for {100 * arguments.budget:g} % of 10,000 runs give --budget {10_000 * arguments.budget:g}"
        )
    top = None if arguments.top is None else dr.Top(arguments.top)
    against = None if arguments.against is None else dr.Against(arguments.against)
    pictures = [path for path in arguments.out or () if Path(path).suffix.lower() in files.FIGURES]
    if pictures and results.estimates.are_means:
        raise OptionError(f"--out {pictures[0]}: a plan for scores has no picture; write it as .csv or .json")
    plan = results.design(
        _ANY_BUDGET if arguments.budget is None else arguments.budget,
        arguments.criterion,
        contrasts=arguments.contrasts or top or against,
        costs=costs,
        min_propensity=arguments.min_propensity,
        one_pair=arguments.one_pair,
        explore=arguments.explore,
        until=arguments.until,
        newdata=frames.get("new"),
        from_scratch=arguments.from_scratch,
        candidate=arguments.candidate,
        progress=bool(arguments.progress),
    )
    if arguments.std_error is not None:
        try:
            plan = plan.for_width(2 * float(scipy.stats.norm.isf(0.025)) * arguments.std_error, 0.05, "none")
        except OptionError as error:
            gain = " ".join(runs_or_prompts(results.estimates))
            text = f"{error} (with --std-error {arguments.std_error:g} an interval of 95 % has this width). {gain}"
            raise OptionError(text.strip()) from None
    seed = arguments.rng or 0
    formats: _Formats = dict.fromkeys((".csv", ".json"), lambda path: plan.export(path, seed))
    formats |= dict.fromkeys(files.FIGURES, lambda path: files.write_figure(path, plan.plot))
    others: _Writers = [(arguments.counts, lambda path: plan.export(path, seed, counts=True))]
    summary = str(_without_python(plan.summary(results.estimates.alpha)))
    if results.estimates.are_means:
        leave_out = thin_models(plan.specification, plan.solution)
        summary += f"\n{_how_to_fit(arguments, formula, f' --min-votes {FEWEST_PROMPTS}' if leave_out else '')}"
    _show(summary, arguments.out, formats, others)


def _how_to_fit(arguments: argparse.Namespace, formula: str, leave_out: str) -> str:
    """Say how the runs of a plan for scores are fitted, in one line."""
    rows = (
        "their rows alone, those without a model too" if arguments.from_scratch else "their rows and those of this file"
    )
    words_of_options = words.typed_options(arguments, ("context", "run", "groups", "weights", "tasks"))
    words_of_options += f" --missing {arguments.missing:g}" if isinstance(arguments.missing, float) else ""
    path = next((path for path in arguments.out or () if path.lower().endswith(".json")), "")
    hint = "" if path else " (write the plan with --out plan.json)"
    command = f"dmlrank fit {shlex.quote(formula)} RUNS{words_of_options} --propensity {path or 'plan.json'}{leave_out}"
    return f"To fit the runs, when RUNS has {rows}: {command}{hint}"


def _add_compare_options(command: argparse.ArgumentParser) -> None:
    inputs = "results stored with fit --out; or a formula and files, each of which is fitted"
    command.add_argument("inputs", nargs="+", metavar="JSON", help=inputs)
    command.add_argument("--names", nargs="+", metavar="NAME", help="heads of the columns")
    command.add_argument("--independent", action="store_const", const=True, help=_INDEPENDENT)
    words.add_fit_options(command, [name for name in words.PASSED_ON if name != "functional"])
    functionals = f"functionals to compare; the first is the reference (default {' '.join(_FUNCTIONALS)})"
    command.add_argument("--functional", nargs="+", metavar="NAME", help=functionals)
    words.add_table_options(command)
    _add_outputs(
        command,
        ("the comparison", "result"),
        reversals="pairs that results rank in opposite orders, with tests, as CSV",
        changes="changes of scores from the first result, with simultaneous intervals, as CSV",
        pair_changes="changes of the differences between models, with tests, as CSV",
        report="a page with all results, one HTML file (needs Jinja2)",
    )
    command.add_argument("--title", metavar="TEXT", help=_TITLE)


def _compare(arguments: argparse.Namespace) -> None:
    """Compare stored results, fits of files or functionals of one fit, and print the table."""
    _check_outputs(arguments, arguments.inputs)
    words.check_rows(arguments)
    if "~" in arguments.inputs[0]:
        comparison = _compared_fits(arguments)
    else:
        words.refuse_fit_options(arguments)
        if len(arguments.inputs) < 2:
            advice = "give two or more stored results (fit --out), or a formula and a file"
            raise OptionError(f"compare was given {arguments.inputs}; {advice}")
        comparison = _compared_files(arguments)
    summary = _without_python(comparison.summary(models=arguments.models, top=arguments.top))
    formats = _formats(
        str(summary),
        summary,
        lambda path: files.write_table(path, comparison.tidy()),
        lambda path: files.write_json(path, files.content_of_comparison(comparison)),
        comparison.plot,
    )
    others: _Writers = [
        (arguments.reversals, lambda path: files.write_table(path, comparison.reversals())),
        (arguments.changes, lambda path: files.write_table(path, comparison.changes())),
        (arguments.pair_changes, lambda path: files.write_table(path, comparison.pair_changes())),
        (arguments.report, partial(comparison.report, title=arguments.title)),
    ]
    _show(summary, arguments.out, formats, others)


def _compared_fits(arguments: argparse.Namespace) -> Comparison:
    """Compare fits of several files, or a fit of the first functional to one file with its updates to the others."""
    from ..results.comparison import named_results

    formula, *paths = arguments.inputs
    if not paths:
        raise OptionError("compare was given a formula and no file; give a formula and files, or stored results")
    if len(paths) > 1:
        functionals = arguments.functional or [None]
        if len(functionals) > 1:
            raise OptionError(
                f"--functional has {' '.join(functionals)} and compare was given {len(paths)} files; give one "
                f"functional, or one file"
            )
        arguments.functional = functionals[0]
        names = _names_of(arguments, paths)
        return named_results(names, _fitted_files(formula, paths, names, arguments), independent=arguments.independent)
    if arguments.independent:
        raise OptionError(
            "--independent is about different prompts, but compare was given one file to fit; leave the option out, or "
            "give several files"
        )
    functionals = arguments.functional or list(_FUNCTIONALS)
    if len(set(functionals)) < max(2, len(functionals)):
        raise OptionError(f"--functional has {' '.join(functionals)}; give two or more different functionals")
    arguments.functional = functionals[0]
    results = [_fitted(*frames_of(arguments, formula, paths[0]), arguments)]
    results += [results[0].update(functional=functional) for functional in functionals[1:]]
    return named_results(arguments.names or functionals, results)


def _fitted_files(
    formula: str, paths: Sequence[str], names: Sequence[str], arguments: argparse.Namespace
) -> list[dr.RankResults]:
    """Return the fits of several files; warnings name the file, and one tells how many votes each fit leaves out."""
    read, results, left_out = [], [], []
    for path in paths:
        with collected_warnings() as found:
            read.append((*frames_of(arguments, formula, path), found))
    parts = parse_formula(read[0][0])
    if arguments.fold_names and parts.second:
        of_all = [(frames, key) for _, frames, _ in read for key in frames]
        folded = with_names_folded([frames[key] for frames, key in of_all], (parts.first, parts.second), parts.outcome)
        for (frames, key), frame in zip(of_all, folded, strict=True):
            frames[key] = frame
    for name, (formula_of_file, frames, earlier) in zip(names, read, strict=False):
        with collected_warnings() as found:
            results.append(_fitted(formula_of_file, frames, arguments))
        for warning in (*earlier, *found):
            if warning.votes_lost:
                left_out.append(f"{name}: {warning.votes_lost}")
            else:
                warn(f"{name}: {warning}")
    if left_out:
        warn(f"votes are left out ({'; '.join(left_out)}); dmlrank fit of one file says why, and how to use them")
    return results


def _names_of(arguments: argparse.Namespace, paths: Sequence[str]) -> Sequence[str]:
    """Return the names of results: those that are given, those of the files, or whole paths where file names repeat."""
    stems = [Path(path).stem for path in paths]
    return arguments.names or (stems if len(set(stems)) == len(stems) else paths)


def _compared_files(arguments: argparse.Namespace) -> Comparison:
    """Compare stored results."""
    from ..results.comparison import named_results

    paths: list[str] = arguments.inputs
    results = [dr.read_json(path) for path in paths]
    return named_results(_names_of(arguments, paths), results, independent=arguments.independent)


def _add_report_options(command: argparse.ArgumentParser) -> None:
    inputs = "results stored with fit --out; several stand side by side, in tabs"
    command.add_argument("inputs", nargs="+", metavar="JSON", help=inputs)
    command.add_argument("--out", metavar="OUT", required=True, help="the page, one HTML file")
    command.add_argument("--independent", action="store_const", const=True, help=_INDEPENDENT)
    command.add_argument("--title", metavar="TEXT", help="title of the page")
    names = "names of several results (default: of their files)"
    command.add_argument("--names", nargs="+", metavar="NAME", help=names)


def _report(arguments: argparse.Namespace) -> None:
    """Write a page from stored results, and print its path."""
    paths = arguments.inputs
    files.check_outputs({"out": arguments.out}, paths, "page")
    if len(paths) > 1:
        print(_compared_files(arguments).report(arguments.out, title=arguments.title))
        return
    result = dr.read_json(paths[0])
    if arguments.names:
        raise OptionError("--names names several results; give --title for the page of one result")
    if arguments.independent:
        raise OptionError("--independent is about several results, but report was given one; leave the option out")
    print(result.report(arguments.out, title=arguments.title))


def _add_gate_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "inputs", nargs="+", metavar="FILE", help="a result stored with fit --out; or a formula and a file"
    )
    # The margin of a gate takes the place of the margin within which scores tie, and the level that of alpha.
    words.add_fit_options(command, [name for name in words.PASSED_ON if name != "alpha"])
    words.add_log_options(command)
    command.set_defaults(margin=None, alpha=None, models=None)
    add = command.add_argument
    add("--candidate", required=True, metavar="MODEL", help="the model that may replace the baseline")
    add("--baseline", required=True, metavar="MODEL", help="the model that the candidate is compared with")
    margin = "how much below the baseline the candidate may be, in the unit of the scores; 0: not at all"
    add("--margin", dest="tolerance", type=float, required=True, metavar="D", help=margin)
    add("--level", type=float, default=0.95, metavar="P", help="confidence of a decision (default 0.95)")
    planned = "decide at each of several looks at growing data; N prompts (or clusters) is when you expect to decide"
    add("--planned", type=int, metavar="N", help=planned)
    add("--start", type=int, metavar="N", help=f"prompts at the first look, with --planned (default {DEFAULT_START})")
    by = "decide in each group of prompts by these columns; the worst group decides for all"
    add("--by", nargs="+", metavar="COLUMN", help=by)
    add("--json", action="store_true", help="print the decision and its figures as JSON")


def _gate(arguments: argparse.Namespace) -> int:
    """Print whether a candidate is at least as good as a baseline, and return the exit code that says so."""
    question = (arguments.candidate, arguments.baseline, arguments.tolerance, arguments.level)
    gate.check_gate(*question)
    if arguments.start is not None and arguments.planned is None:
        raise OptionError("--start is the size of the first look of --planned N; give --planned, too")
    if arguments.by and arguments.planned is not None:
        raise OptionError("--by and --planned are both given, but groups hold for one look only; leave one of them out")
    # A formula may stand behind the file, as in the other commands.
    inputs: list[str] = sorted(arguments.inputs, key=lambda word: "~" not in word)
    if len(inputs) == 1 and (is_log(arguments, inputs[0]) or is_table(inputs[0])):
        inputs = [words.NO_FORMULA, inputs[0]]
    is_file = len(inputs) == 2 and (inputs[0] == words.NO_FORMULA or "~" in inputs[0])
    if is_file:
        arguments.alpha = round(1 - arguments.level, 12)
        formula, frames = frames_of(arguments, inputs[0], inputs[1])
        results = _fitted(formula, dict(frames), arguments, models=question[:2])
    elif "~" not in inputs[0] and len(inputs) == 1:
        words.refuse_fit_options(arguments)
        results = dr.read_json(inputs[0])
    else:
        raise OptionError(
            f"gate was given {inputs}; give one stored result (fit --out), a folder of logs, or a formula and one file"
        )
    decide = partial(_decision, arguments, question)
    decision = decide(results)
    if arguments.missing is None and gate.lost_runs(results, question[:2]):
        counted, lowest = None, 0.0
        if is_file:
            outcome = parse_formula(formula).outcome
            arguments.missing = lowest = float(take_columns(frames["file"], [outcome])[outcome].min())
            with collected_warnings():
                counted = decide(_fitted(formula, frames, arguments))
        decision = gate.with_lost_runs(decision, counted, lowest)
    print(json.dumps(decision) if arguments.json else decision["text"])
    return gate.EXIT_CODES[str(decision["decision"])]


def _decision(
    arguments: argparse.Namespace, question: tuple[str, str, float, float], results: dr.RankResults
) -> Mapping[str, object]:
    """Return the decision of a gate from a fit, at a look of several where --planned says so."""
    if arguments.planned is not None:
        results = results.sequential(arguments.planned, arguments.start or DEFAULT_START)
    return gate.decide_by_group(results, arguments.by, *question) if arguments.by else gate.decide(results, *question)


# --- what commands share ----------------------------------------------------------------------------------------------


def _add_outputs(command: argparse.ArgumentParser, out: tuple[str, str] | None = None, **what: str) -> None:
    """Add an option for each file that a command can write; ``out`` says what --out writes, and its kind."""
    group = command.add_argument_group("files to write")
    if out is not None:
        endings = " ".join(files.ENDINGS[out[1]])
        text = f"write {out[0]} in the format of the ending: {endings}; may be repeated"
        group.add_argument("--out", metavar="OUT", action="append", help=text)
    for name, content in what.items():
        spellings = dict.fromkeys([f"--{name.replace('_', '-')}", f"--{name}"])
        group.add_argument(*spellings, metavar="OUT", help=f"write {content}")


def _check_outputs(arguments: argparse.Namespace, inputs: Sequence[str], out: str = "result") -> None:
    """Check before a fit that the files of a command can be written, and that a title is that of a page."""
    sources = [*inputs, *judge_files(arguments.judge_file or ()).values()]
    files.check_outputs({name: getattr(arguments, name) for name in _WRITTEN if hasattr(arguments, name)}, sources, out)
    if getattr(arguments, "title", None) is not None and arguments.report is None:
        raise OptionError(f"--title is the {_TITLE}; give --report FILE.html, too")


def _fitted(
    formula: str, frames: dict[str, Frame], arguments: argparse.Namespace, models: Sequence[str] = ()
) -> dr.RankResults:
    """Return the fit of a file's frames; with ``models``, means of complete scores are those of these models alone."""
    check_models_of_table(arguments, formula, frames["file"])
    check_groups(arguments, formula, frames["file"])
    rows, parts = frames["file"], parse_formula(formula)
    # Scores of other models predict those that were not drawn.
    is_complete = arguments.propensity is None and not isinstance(arguments.missing, float)
    is_of_means = not parts.second and arguments.functional in (None, "mean")
    if models and is_complete and is_of_means and isinstance(rows, pd.DataFrame):
        # Scores that other models lack say nothing about these. Their prompts stay, as rows without a model.
        column = rows[parts.first].astype(str)
        if set(models) <= set(column):
            is_other = ~column.isin(models)
            frames["file"] = rows.assign(**{name: rows[name].mask(is_other) for name in (parts.first, parts.outcome)})
    return dr.dml_rank(formula, frames["file"], env={}, **fit_options(arguments, frames))


def _is_one_stream() -> bool:
    """Return whether output and errors go to the same place, such as a terminal."""
    try:
        return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    except (OSError, ValueError, AttributeError):
        # A stream that is closed, or has no file, such as in a notebook.
        return False


def _without_python(table: Summarised | Summary) -> Summary:
    """Return the table of a result with notes in the words of the command line."""
    summary = table if isinstance(table, Summary) else table.summary()
    return replace(summary, notes=tuple(map(_typed_words, summary.notes)))


def _typed_words(text: str) -> str:
    """Return sentences without pointers to attributes and methods, and with options as they are typed."""
    from ..report.statements import POINTERS_TO_METHODS

    for part in POINTERS_TO_METHODS:
        text = text.replace(part, "")
    return words.as_typed(text)


def _formats(
    text: str,
    summary: Summary,
    csv: Callable[[str], object],
    json: Callable[[str], object],
    draw: Callable[[], Axes],
) -> _Formats:
    """Return the function that writes each format of ``--out``."""
    formats: _Formats = {
        ".txt": lambda path: write_file(path, f"{text}\n"),
        ".md": lambda path: write_file(path, summary.as_markdown()),
        ".html": lambda path: write_file(path, summary.as_html()),
        ".tex": lambda path: write_file(path, summary.as_latex()),
        ".csv": csv,
        ".json": json,
    }
    return formats | dict.fromkeys(files.FIGURES, lambda path: files.write_figure(path, draw))


def _show(report: object, out: Sequence[str] | None, formats: _Formats, others: _Writers) -> None:
    """Write files, print the report, and raise at the end, when everything else is done, if a file failed."""
    failed: dict[str, str] = {}
    written = []
    for path, write in [*others, *((path, formats[Path(path).suffix.lower()]) for path in out or ())]:
        if path is not None:
            try:
                write(path)
                written.append(path)
            except DmlrankError as error:
                failed[path] = str(error)
    print(report)
    if failed:
        others_are = f"; written: {', '.join(written)}" if written else ""
        raise FileWriteError(f"{'; '.join(failed.values())}; not written: {', '.join(failed)}{others_are}")
