"""The commands; their options have the names and the values of the arguments of the Python API."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import dmlrank as dr

from .._utils.argument_checks import as_names, check_positive, check_whole
from .._utils.atomic_write import write_file
from .._utils.tasks_and_threads import collected_warnings, warn
from ..data.derived_pairs import DerivedPairs
from ..data.formula.parse import parse_formula
from ..data.frames import column_names, require_columns
from ..data.pairs_from_scores import read_scores
from ..exceptions import OptionError
from ..functionals import PassAtK, of_scores
from ..options import DEFAULT_START
from ..tables.summary_table import safe_csv
from . import arguments as words
from . import gate
from . import write_files as files
from .command_words import parser_of
from .recognise_input import Request, is_stored, read_request
from .write_files import Said

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..results.comparison import Comparison

_DEMO_FORMULA = "winner ~ C(category) + length | model_a + model_b"
_DEMO_PROMPTS = 4000
# Characters in a line of the printed table of scores by group, beyond which its columns follow below.
_GROUPS_WIDTH = 100
_FUNCTIONALS = ("bt", "borda", "rank_centrality")
# A budget that pays for every label.
_ANY_BUDGET = 1e12
# What --set knows of a fit and of a plan beside the options of dml_rank().
_OF_FIT = ("bootstrap", "cost", "pairs", "sensitivity")
_OF_PLAN = ("against", "contrasts", "criterion", "from_scratch", "newdata", "std_error")
# Options that name a file to write.
_WRITTEN = ("out", "report", "reversals", "changes")
_INDEPENDENT = "no prompt is in two of the results, such as those of two months: test changes between them"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command, with the function that carries it out; ends where words cannot be parsed."""
    name, *further = arguments
    add_options, run = _RUNS[name]
    parser = parser_of(name)
    add_options(parser)
    parser.set_defaults(carry_out=run, command=name)
    return parser.parse(further)


def _add_demo_options(demo: argparse.ArgumentParser) -> None:
    words.add_option(demo, "functional", "kind of scores (default bt)", "NAME")
    words.add_option(demo, "rng", "seed of all draws (default 0)", "SEED", type=int)
    words.add_outputs(demo, title=False, report="a page, one HTML file (needs Jinja2)")


def _demo(given: argparse.Namespace) -> Said:
    """Fit a simulated arena, print the summary, and write the page if it is wanted."""
    files.check_outputs({"report": given.report}, [], "page")
    seed = given.rng or 0
    battles = dr.datasets.simulate_arena(_DEMO_PROMPTS, rng=seed)
    functional = given.functional or "bt"
    results = dr.dml_rank(_DEMO_FORMULA, battles, functional=functional, context="question_id", rng=seed)
    text = f"{_DEMO_PROMPTS:,} simulated battles: {_DEMO_FORMULA}\n\n{results.summary()}"
    return files.write_all(text, [], {}, [(given.report, results.report)])


def _add_check_options(command: argparse.ArgumentParser) -> None:
    words.add_inputs(command)
    words.add_fit_options(command, checked=True)
    words.add_outputs(command, "check", title=False, report="the check as a page, one HTML file (needs Jinja2)")


def _check(given: argparse.Namespace) -> Said:
    """Check a file, print the report, and return the exit code of a fit: whether it would end with an error."""
    _check_outputs(given, "check")
    found = read_request(given).call(dr.check)
    formats: dict[str, files.Write] = {
        ".txt": lambda path: write_file(path, f"{found}\n"),
        ".html": found.report,
        ".json": lambda path: files.write_json(path, found.frames()),
    }
    said = files.write_all(found, given.out, formats, [(given.report, found.report)])
    errors = found.problems["found"][found.problems["severity"] == "error"]
    return Said(found, f"a fit would end with an error: {errors[0]}") if len(errors) and not said.error else said


def _add_fit_command(command: argparse.ArgumentParser) -> None:
    words.add_inputs(command)
    words.add_fit_options(command)
    words.add_view_options(command)
    words.add_row_options(command)
    kinds = command.add_mutually_exclusive_group()
    words.add_option(kinds, "slim", "show the short table for publication: rank set, model, score, interval and votes")
    sentences = "print a few sentences for those who decide in place of the table; files still have the table"
    words.add_option(kinds, "verdict", sentences)
    words.add_outputs(command, "result", report="a page for publication, one HTML file (needs Jinja2)")


def _fit(given: argparse.Namespace) -> Said:
    """Fit a file, write what is asked for and print the summary."""
    pairs = next((text[6:] for text in given.set or () if text.startswith("pairs=")), None)
    _check_outputs(given, pairs=pairs)
    _check_shown(given)
    request = read_request(given, further=[*_OF_FIT, *words.PAGE_WORDS])
    own = request.own
    page = words.page_words(given, own)
    results = _at_looks(_fitted(request, given), given)
    view = results.bootstrap(own["bootstrap"]) if own.get("bootstrap") else results
    # Scores by group have the same tables, figures and page.
    groups = view.by(*given.by) if given.by else None
    shown = view if groups is None else groups
    pareto = view.pareto(own["cost"]) if own.get("cost") else None
    rows: dict[str, Any] = {"models": given.models, "top": given.top}
    summary = view.summary(slim=bool(given.slim), **rows)
    tables: list[object] = [summary, *(part for part in (results.judge, results.style) if part is not None)]
    draw: Callable[[], Axes] = shown.plot
    if groups is not None:
        summary = groups.summary(**rows)
        tables.append(summary.as_text(_GROUPS_WIDTH))
    if pareto is not None:
        of_costs = pareto.summary(**rows)
        tables.append(of_costs)
        if groups is None:
            summary, draw = of_costs, pareto.plot
    if own.get("sensitivity"):
        tables.append(results.sensitivity())
    text = "\n\n".join(map(str, tables))
    if given.verdict:
        parts = [view] if groups is None else [view, *(groups[name] for name in groups.groups)]
        text = "\n\n".join(part.verdict(top=given.top) for part in parts)
        if groups is not None and len(groups) > 1:
            text = f"{len(groups)} groups were tested, each at {100 * results.estimates.alpha:g} %.\n\n{text}"

    def write_json(path: str) -> None:
        content = json.loads(results.to_json() or "")
        content["models"] = files.rows_of_models(view, pareto)
        content |= {} if groups is None else {"groups": groups.tidy()}
        files.write_json(path, content)

    others: list[tuple[str | None, files.Write]] = [
        (pairs, lambda path: write_file(path, safe_csv(view.t_test_pairwise().result_frame))),
        (given.report, partial(shown.report, pareto=pareto, title=given.title, **page)),
    ]
    rows_of_csv = partial(files.rows_of_models, view, pareto) if groups is None else groups.tidy
    formats = files.formats_of(text, summary, lambda path: write_file(path, safe_csv(rows_of_csv())), write_json)
    formats |= dict.fromkeys(files.FIGURES, lambda path: files.write_figure(path, draw))
    return files.write_all(text, given.out, formats, others)


def _add_design_options(command: argparse.ArgumentParser) -> None:
    words.add_inputs(command)
    words.add_fit_options(command)
    budget = (
        "largest cost of all labels together; or with --set std_error=S the smallest budget with at most this standard "
        "error. Further options of a plan, such as costs and one_pair, are given by --set"
    )
    words.add_option(command, "budget", budget, "B", type=float)
    detect = "no plan, but the data that it takes to find a lead of D of the first model, and the lead that these find"
    words.add_option(command, "detect", detect, "D", type=float)
    top = "plan for the differences among the N best models, and those that decide which these are; 1: who is first"
    words.add_option(command, "top", top, "N", type=int)
    candidate = "of scores: a model without a score that is to be run, by default to compare it with the best one"
    words.add_option(command, "candidate", candidate, "MODEL")
    words.add_outputs(command, "plan", title=False, pictures=" (a picture: of votes)")


def _design(given: argparse.Namespace) -> Said:
    """Fit a file, plan what to label next, and print the plan's summary."""
    from ..planning.problem import Limits

    _check_outputs(given, "plan")
    limits = [field.name for field in fields(Limits) if field.name != "budget"]
    request = read_request(given, further=[*limits, *_OF_PLAN])
    own, costs = request.own, request.own.get("costs", 1)
    std_error = own.pop("std_error", None)
    own |= {"against": str(own["against"])} if "against" in own else {}
    if given.detect is not None:
        return Said(_fitted(request, given).sample_size(given.detect).round(6).to_string(na_rep=""))
    if (given.budget is None) == (std_error is None):
        raise OptionError("a plan has a budget or a standard error; give one of --budget B and --set std_error=S")
    if std_error is not None:
        check_positive(std_error, "std_error")
    if std_error is None and isinstance(costs, int | float) and 0 < given.budget < min(costs, 1):
        raise OptionError(
            f"--budget {given.budget:g} is less than one run or label costs; a budget is the cost of all together"
        )
    results = _fitted(request, given)
    plan = results.design(
        _ANY_BUDGET if given.budget is None else given.budget,
        top=given.top,
        newdata=request.new,
        candidate=given.candidate,
        progress=bool(given.progress),
        **own,
    )
    if std_error is not None:
        plan = plan.for_std_error(std_error)
    text = str(plan.summary(results.estimates.alpha))
    formats: dict[str, files.Write] = dict.fromkeys((".csv", ".json"), partial(plan.export, rng=request.options["rng"]))
    formats |= dict.fromkeys(files.FIGURES, lambda path: files.write_figure(path, plan.plot))
    return files.write_all(text, given.out, formats, [])


def _add_compare_options(command: argparse.ArgumentParser) -> None:
    words.add_inputs(command, "results stored with fit --out; or a formula and files, each of which is fitted")
    words.add_option(command, "independent", _INDEPENDENT)
    words.add_fit_options(command, without=["functional"])
    functionals = f"functionals to compare; the first is the reference (default {' '.join(_FUNCTIONALS)})"
    words.add_option(command, "functional", functionals, "NAME", several=True)
    words.add_row_options(command)
    words.add_outputs(
        command,
        "comparison",
        reversals="pairs that results rank in opposite orders, with tests, as CSV",
        changes="changes of scores from the first result, with simultaneous intervals, as CSV",
        report="a page with all results, one HTML file (needs Jinja2)",
    )


def _compare(given: argparse.Namespace) -> Said:
    """Compare stored results, fits of files or functionals of one fit, and print the table."""
    _check_outputs(given, "comparison")
    _check_shown(given)
    is_of_fits = given.formula is not None or bool(given.scores)
    page = words.page_words(given, words.words_of_set(given, () if is_of_fits else words.PAGE_WORDS))
    if is_of_fits:
        comparison = _compared_fits(given)
    else:
        words.refuse_fit_options(given)
        if len(given.files) < 2:
            advice = "give two or more stored results (fit --out), or a formula and a file"
            raise OptionError(f"compare was given {given.files}; {advice}")
        comparison = _named(given, [dr.read_json(path) for path in given.files])
    summary = comparison.summary(models=given.models, top=given.top)
    formats = files.formats_of(
        summary,
        summary,
        lambda path: write_file(path, safe_csv(comparison.tidy())),
        lambda path: files.write_json(path, files.content_of_comparison(comparison)),
    )
    others: list[tuple[str | None, files.Write]] = [
        (given.reversals, lambda path: write_file(path, safe_csv(comparison.reversals()))),
        (given.changes, lambda path: write_file(path, safe_csv(comparison.changes()))),
        (given.report, partial(comparison.report, title=given.title, **page)),
    ]
    return files.write_all(summary, given.out, formats, others)


def _compared_fits(given: argparse.Namespace) -> Comparison:
    """Compare fits of several files, or a fit of the first functional to one file with its updates to the others."""
    functionals, paths = given.functional or [], given.files
    if len(paths) > 1:
        if len(functionals) > 1:
            raise OptionError(f"--functional has {' '.join(functionals)}; give one functional for several files")
        given.functional = functionals[0] if functionals else None
        results = []
        for name, path in zip(_names_of(given), paths, strict=True):
            with collected_warnings() as found:
                results.append(_fitted(read_request(given, [path], words.PAGE_WORDS), given))
            for warning in found:
                warn(f"{name}: {warning}")
        return _named(given, results)
    if given.independent:
        raise OptionError("--independent is about different prompts, but compare was given one file; leave it out")
    functionals = functionals or list(_FUNCTIONALS)
    if len(set(functionals)) < max(2, len(functionals)):
        raise OptionError(f"--functional has {' '.join(functionals)}; give two or more different functionals")
    given.functional = functionals[0]
    results = [_fitted(read_request(given, further=words.PAGE_WORDS), given)]
    results += [results[0].update(functional=functional) for functional in functionals[1:]]
    return _named(given, results, functionals)


def _names_of(given: argparse.Namespace) -> Sequence[str]:
    """Return the names of results: those of the files, or whole paths where file names repeat."""
    stems = [Path(path).stem for path in given.files]
    return stems if len(set(stems)) == len(stems) else given.files


def _named(given: argparse.Namespace, results: Sequence[dr.RankResults], names: Sequence[str] = ()) -> Comparison:
    """Compare results, by default under the names of their files."""
    from ..results.comparison import named_results

    return named_results(names or _names_of(given), results, independent=bool(given.independent))


def _add_report_options(command: argparse.ArgumentParser) -> None:
    words.add_inputs(command, "results stored with fit --out; several stand side by side, in tabs")
    words.add_option(command, "out", "the page, one HTML file", "OUT", required=True)
    words.add_option(command, "independent", _INDEPENDENT)
    words.add_outputs(command)
    of_page = "source, unit, links or group of the page, as report() of the Python API has them; may be repeated"
    words.add_option(command, "set", of_page, "NAME=VALUE", action="append")


def _report(given: argparse.Namespace) -> Said:
    """Write a page from stored results, and print its path."""
    page = words.words_of_set(given, words.PAGE_WORDS) | {"title": given.title}
    files.check_outputs({"out": given.out}, given.files, "page")
    results = [dr.read_json(path) for path in given.files]
    if len(results) > 1:
        return Said(_named(given, results).report(given.out, **page))
    if given.independent:
        raise OptionError("--independent is about several results, but report was given one; leave the option out")
    return Said(results[0].report(given.out, **page))


def _add_gate_options(command: argparse.ArgumentParser) -> None:
    words.add_inputs(command, "a result stored with fit --out; or a formula and files, which are one table; or logs")
    words.add_fit_options(command, without=["alpha"])
    words.add_option(command, "candidate", "the model that may replace the baseline", "MODEL", required=True)
    words.add_option(command, "baseline", "the model that the candidate is compared with", "MODEL", required=True)
    margin = "how much below the baseline the candidate may be, in the unit of the scores; 0: not at all"
    words.add_option(command, "margin", margin, "D", type=float, required=True)
    words.add_option(command, "level", "confidence of a decision (default 0.95)", "P", type=float)
    words.add_view_options(command)
    lost = "what lost runs of the two count: bounds (a decision holds with any score; default), left-out, or lowest"
    words.add_option(command, "lost", lost, choices=gate.LOST)
    words.add_option(command, "json", "print the decision and its figures as JSON")
    words.add_outputs(command, "comment", title=False)


def _gate(given: argparse.Namespace) -> Said:
    """Print whether a candidate is at least as good as a baseline, and return the exit code that says so."""
    level = 0.95 if given.level is None else given.level
    question = (given.candidate, given.baseline, given.margin, level)
    gate.check_gate(*question)
    _check_outputs(given, "comment")
    _check_shown(given)
    request: Request | None = None
    scores: DerivedPairs | None = None
    if given.formula is None and not given.scores and len(given.files) == 1 and is_stored(given.files[0]):
        words.refuse_fit_options(given, "set")
        results = dr.read_json(given.files[0])
        counts = dict(zip(results.models, results.estimates.description.runs_lost, strict=False))
    else:
        request = read_request(given)
        if "alpha" in request.options:
            raise OptionError("the confidence of a gate is that of its decision; give --level, and leave alpha out")
        request.options["alpha"] = round(1 - level, 12)
        every, own = request.frame, request.options
        if parse_formula(request.formula).of_scores and not own.keys() & {"missing", "propensity", "judge"}:
            read = read_scores(
                request.formula, every, context=as_names(own.get("context"), "context"), run=own.get("run")
            )
            scores = read if isinstance(read, DerivedPairs) else None
        counts = {} if scores is None else dict(zip(scores.models, scores.n_missing.tolist(), strict=True))
        # Lost runs are left out; prompts with fewer than k runs then have no pass@k.
        needs_runs = isinstance(of_scores(own.get("functional")), PassAtK) and any(map(counts.get, question[:2]))
        of_fit = replace(request, options={**own, "missing": "common"}) if needs_runs else request
        results = _fitted(of_fit, given, models=question[:2])
    lost = {model: counts[model] for model in question[:2] if counts.get(model)}

    def decide(results: dr.RankResults) -> Mapping[str, object]:
        results = _at_looks(results, given)
        return gate.decide_by_group(results, given.by, *question) if given.by else gate.decide(results, *question)

    def with_lost_at(*ends: int) -> Mapping[str, object]:
        """Return the decision where lost runs of the two models have the lowest (0) or the highest (1) score."""
        from ..fit.direct_fits import bounds_of

        assert request is not None
        assert scores is not None and scores.runs is not None  # noqa: PT018
        bounds = request.options.get("bounds") or bounds_of(scores.runs.value)
        value = dict(zip(question, (bounds[end] for end in ends), strict=False))
        filled = scores.filled(np.array([value.get(name, np.nan) for name in scores.models]))
        with collected_warnings():
            return decide(_fitted(replace(request, frame=filled.of_models(results.models)), given))

    decision, how, further = decide(results), given.lost or "bounds", list[str]()
    if lost and how == "lowest":
        if request is None:
            raise OptionError("a stored result has no runs to count with --lost lowest; give the formula and the file")
        decision = with_lost_at(0, 0)
    elif lost and how == "bounds":
        worst = 0 if request is None or not request.options.get("lower_is_better") else 1
        ends = () if request is None else (with_lost_at(worst, 1 - worst), with_lost_at(1 - worst, worst))
        decision = gate.with_lost_runs(decision, ends, lost)
    if lost and how != "bounds":
        counted = "are left out" if how == "left-out" else "count as the lowest score"
        decision = {**decision, "lost_runs": lost}
        further.append(f"lost runs {counted}")
    if request is not None and isinstance(every, DerivedPairs) and (gaps := gate.gaps_of_scores(every, question[:2])):
        further.append(gaps)
    n_all = len(scores.values) if scores is not None and results.estimates.are_means and how != "lowest" else 0
    if (n_left := n_all - results.estimates.description.n_contexts) > 0:
        further.append(f"{n_left:,} of {n_all:,} prompts have too few runs for it and are left out")
    # Below the line are those of the groups, if any.
    line, *of_groups = str(decision["text"]).splitlines()
    decision = {**decision, "text": "\n".join(["; ".join([line, *further]), *of_groups])}
    formats: dict[str, files.Write] = {
        ".md": lambda path: write_file(path, gate.comment_on(results, decision, question[:2]).as_markdown()),
    }
    said = files.write_all(json.dumps(decision) if given.json else decision["text"], given.out, formats, [])
    return replace(said, status=gate.EXIT_CODES[str(decision["decision"])])


# --- what commands share ----------------------------------------------------------------------------------------------


def _check_outputs(given: argparse.Namespace, out: str = "result", **further: str | None) -> None:
    """Check before a fit that the files of a command can be written, and that a title is that of a page."""
    outputs = {name: getattr(given, name) for name in _WRITTEN if hasattr(given, name)}
    files.check_outputs(outputs | further, [*given.files, *(getattr(given, "judge", None) or ())], out)
    if getattr(given, "title", None) is not None and given.report is None:
        raise OptionError("--title is the title of the page of --report; give --report FILE.html, too")


def _check_shown(given: argparse.Namespace) -> None:
    """Check, before anything is computed, what can be judged without the data of rows, groups and looks."""
    if getattr(given, "top", None) is not None:
        check_whole("top", given.top, 1)
    if getattr(given, "start", None) is not None and given.planned is None:
        raise OptionError("--start is the size of the first look of --planned N; give --planned, too")
    if getattr(given, "by", None) and given.planned is not None:
        raise OptionError("--by and --planned are both given, but groups hold for one look only; leave one of them out")


def _at_looks(results: dr.RankResults, given: argparse.Namespace) -> dr.RankResults:
    """Return a result, at a look of several where --planned says so."""
    return results if given.planned is None else results.sequential(given.planned, given.start or DEFAULT_START)


def _fitted(request: Request, given: argparse.Namespace, models: Sequence[str] = ()) -> dr.RankResults:
    """Return the fit of what was read; with ``models``, means of complete scores are those of these models alone."""
    options, rows, parts = request.options, request.frame, parse_formula(request.formula)
    options.setdefault("rng", 0)
    if getattr(given, "by", None) and not isinstance(rows, DerivedPairs):
        require_columns(given.by, column_names(rows), "by()")
    if getattr(given, "models", None) and request.models and not isinstance(rows, DerivedPairs):
        from ..report.fit_summary import choose_models

        choose_models(request.models, range(len(request.models)), given.models)
    # Scores of other models predict those that were not drawn.
    is_complete = "propensity" not in options and not isinstance(options.get("missing"), float)
    is_of_means = not parts.second and getattr(of_scores(options.get("functional", "mean")), "of_scores", False)
    if models and is_complete and is_of_means and isinstance(rows, pd.DataFrame) and set(models) <= set(request.models):
        # Scores that other models lack say nothing about these. Their prompts stay, as rows without a model.
        is_other = ~rows[parts.first].astype(str).isin(models)
        request.frame = rows.assign(**{name: rows[name].mask(is_other) for name in (parts.first, parts.outcome)})
    return request.call(dr.dml_rank)


_RUNS: dict[str, tuple[Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], Said]]] = {
    "demo": (_add_demo_options, _demo),
    "check": (_add_check_options, _check),
    "fit": (_add_fit_command, _fit),
    "design": (_add_design_options, _design),
    "compare": (_add_compare_options, _compare),
    "report": (_add_report_options, _report),
    "gate": (_add_gate_options, _gate),
}
