"""The command line: the same words as the Python API."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from .. import datasets
from .._version import __version__
from ..api import check, dml_rank, read_json
from ..data.arrow import arrow_module
from ..exceptions import DataError, DmlrankError, OptionError, nearest
from ..inference.simultaneous import METHODS
from ..options import (
    CATEGORY_WEIGHTS,
    COMPONENTS,
    COV_TYPES,
    EDGE_WEIGHTS,
    ESTIMATORS,
    GRAPHS,
    JUDGE_AS,
    LEARNERS,
    MISSING,
    PROMPTS,
    VOTES,
)
from ..planning.contrasts import Against, Top
from ..report.table import Summary
from ..results.comparison import Comparison, named_results

# What a file's ending says it is.
KINDS = {
    ".csv": "csv",
    ".json": "JSON lines",
    ".jsonl": "JSON lines",
    ".ndjson": "JSON lines",
    ".parquet": "parquet",
    ".feather": "Arrow IPC",
    ".arrow": "Arrow IPC",
}


def _floor(text: str) -> float | str:
    """A number, or a word for the API to judge."""
    try:
        return float(text)
    except ValueError:
        return text


# Options of the API that are passed on as they are; None means that the API's default holds.
OPTIONS: dict[str, dict[str, Any]] = {
    "functional": {"help": "borda, bt, rank_centrality, dominance or softmin (default borda)"},
    "context": {"nargs": "+", "metavar": "COLUMN", "help": "columns that identify a prompt"},
    "propensity": {"help": "estimate, marginal or the name of a column (default estimate)"},
    "propensity_formula": {"metavar": "'~ FEATURES'", "help": "what selection saw, where not the formula's features"},
    "estimator": {"choices": ESTIMATORS},
    "judge": {"nargs": "+", "metavar": "COLUMN", "help": "verdicts of judges: a column each, or p_a p_b p_tie of one"},
    "judge_as": {"choices": JUDGE_AS, "help": "how verdicts are used (default two-stage)"},
    "learner": {"choices": LEARNERS, "help": "smooth main effects, then LightGBM (auto, the default); or that alone"},
    "n_folds": {"type": int, "metavar": "N"},
    "n_rep": {"type": int, "metavar": "N", "help": "repetitions with other folds (default 1)"},
    "position_bias": {
        "action": argparse.BooleanOptionalAction,
        "help": "whether order makes a pair another pair (default yes)",
    },
    "graph": {"choices": GRAPHS},
    "min_labels": {"type": int, "metavar": "N", "help": "labels that a pair needs in each order (default 10)"},
    "component": {"choices": COMPONENTS},
    "min_comparisons": {"type": int, "metavar": "N", "help": "models with fewer labelled prompts are dropped"},
    "edge_weights": {"choices": EDGE_WEIGHTS},
    "weights": {"metavar": "COLUMN", "help": "weights of prompts in the target population"},
    "category_weights": {"choices": CATEGORY_WEIGHTS},
    "prompts": {"choices": PROMPTS, "help": "whether intervals are about new prompts or these alone"},
    "floor": {
        "type": _floor,
        "metavar": "P",
        "help": "smallest probability of a category (default: auto, by log-loss)",
    },
    "subsample": {"type": int, "metavar": "M", "help": "prompts over which F(mu) is averaged (default all)"},
    "cov_type": {"choices": COV_TYPES},
    "missing": {"choices": MISSING},
    "votes": {"choices": VOTES, "help": "repeated votes on a prompt and pair: their mean, or the first"},
    "alpha": {"type": float, "metavar": "A", "help": "one minus the confidence level (default 0.05)"},
    "rng": {"type": int, "metavar": "SEED"},
    "n_jobs": {"type": int, "metavar": "N", "help": "threads (default: all cores)"},
    "progress": {"action": "store_const", "const": True, "help": "a bar, or in a log lines, on standard error"},
}
# Those that a check takes.
CHECKED = ("context", "min_labels", "missing", "n_folds")


def add_fit_options(command: argparse.ArgumentParser) -> None:
    """A formula, a file, and every option of a fit."""
    add_options(command, list(OPTIONS))
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
    command.add_argument("--new", dest="prompts_file", metavar="FILE", help="prompts to plan for (default: the fit's)")
    command.add_argument("--out", metavar="OUT", help="write what to label, with propensities: .csv or .json")
    command.add_argument("--plot", metavar="OUT", help="write the heat map of labels (needs matplotlib)")


def add_options(command: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """A formula, a file, and some options."""
    command.add_argument("formula", metavar="FORMULA", help="'winner ~ features | model_a + model_b'")
    command.add_argument("file", metavar="FILE", help=", ".join(KINDS))
    add_keywords(command, names)


def add_keywords(command: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """Options by name, groups and categories."""
    for name in names:
        command.add_argument(f"--{name}", f"--{name.replace('_', '-')}", **OPTIONS[name])
    command.add_argument(
        "--groups", nargs="+", metavar="COLUMN", help="cov_kwds groups: prompt, or prompt and annotator"
    )
    command.add_argument(
        "--categories", nargs="+", metavar="LABEL=MEANING", help="meanings of labels that are not known"
    )


_DEMO_FORMULA = "winner ~ C(category) + length | model_a + model_b"
_FUNCTIONALS = ("bt", "borda", "rank_centrality")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        ``sys.argv[1:]`` when None.

    Returns
    -------
    int
        0, or 2 after an error, whose message is on standard error.
    """
    given = _parser().parse_args(arguments)
    try:
        return int(given.run(given) or 0)
    except DmlrankError as error:
        print(f"dmlrank: {error}", file=sys.stderr)
        return 2


def _demo(given: argparse.Namespace) -> None:
    battles = datasets.simulate_arena(given.contexts, rng=given.rng)
    print(f"{given.contexts:,} simulated battles: {_DEMO_FORMULA}\n")
    print(dml_rank(_DEMO_FORMULA, battles, functional=given.functional, context="question_id", rng=given.rng).summary())


def _fit(given: argparse.Namespace) -> None:
    results = dml_rank(given.formula, read_frame(given.file), env={}, **_fit_options(given))
    if given.csv:
        results.tidy(method=given.method).to_csv(given.csv, index=False)
    if given.pairs:
        results.t_test_pairwise().result_frame.to_csv(given.pairs, index=False)
    if given.ranks:
        results.ranks().to_csv(given.ranks, index_label="model")
    summary = results.summary()
    _write_tables(given, summary)
    if given.json:
        results.to_json(given.json)
    if given.plot:
        _save_plot(results, given.plot)
    print(summary)
    if results.judge is not None:
        print(f"\n{results.judge}")


def _fit_options(given: argparse.Namespace) -> dict[str, Any]:
    options = _options(given, list(OPTIONS))
    if given.tune:
        options["tune"] = None if given.tune == "none" else given.tune
    if given.unlabelled:
        options["unlabelled"] = read_frame(given.unlabelled)
    if given.judge_file:
        if given.judge:
            raise OptionError("verdicts are in columns (--judge) or in files (--judge-file), not in both")
        options["judge"] = _verdicts(given.judge_file)
    return options


def _verdicts(files: Sequence[str]) -> Any:
    """A frame of verdicts, or one for every named judge."""
    named = [text.partition("=") for text in files]
    if len(files) == 1 and not named[0][1]:
        return read_frame(files[0])
    if not all(equals for _, equals, _ in named) or len({name for name, _, _ in named}) < len(named):
        raise OptionError(f"--judge-file takes one file, or several as NAME=FILE with different names; got {files}")
    return {name: read_frame(path) for name, _, path in named}


def _compare(given: argparse.Namespace) -> None:
    if "~" in given.inputs[0]:
        found = _compared_functionals(given)
    else:
        _refuse_fit_options(given)
        paths = given.inputs
        if len(paths) < 2:
            raise OptionError(
                f"compare needs two or more stored results (fit --json), or a formula and a file; got {paths}"
            )
        found = named_results(given.names or _stems(paths), [read_json(path) for path in paths])
    if given.csv:
        found.tidy().to_csv(given.csv, index=False)
    if given.reversals:
        found.reversals().to_csv(given.reversals, index=False)
    summary = found.summary()
    _write_tables(given, summary)
    if given.plot:
        _save_plot(found, given.plot)
    print(summary)


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
    results = [dml_rank(formula, read_frame(file), env={}, **_fit_options(given))]
    results += [results[0].update(functional=functional) for functional in functionals[1:]]
    return named_results(names, results)


def _refuse_fit_options(given: argparse.Namespace) -> None:
    """Raise where stored results are compared and an option of a fit is given."""
    fitting = (*OPTIONS, "groups", "categories", "tune", "unlabelled", "judge_file")
    unused = [name for name in fitting if getattr(given, name) is not None]
    if unused:
        raise OptionError(f"--{unused[0]} is an option of a fit, and compare was given stored results")


def _stems(paths: Sequence[str]) -> list[str]:
    """Names of stored results: those of their files, or their whole paths where these repeat."""
    stems = [Path(path).stem for path in paths]
    return stems if len(set(stems)) == len(stems) else list(paths)


def _write_tables(given: argparse.Namespace, summary: Summary) -> None:
    for path, written in (
        (given.html, summary.as_html),
        (given.latex, summary.as_latex),
        (given.markdown, summary.as_markdown),
    ):
        if path:
            Path(path).write_text(written(), encoding="utf-8")


def _design(given: argparse.Namespace) -> None:
    options = _fit_options(given)
    results = dml_rank(given.formula, read_frame(given.file), env={}, **options)
    plan = results.design(
        given.budget,
        given.criterion,
        contrasts=Top(given.top) if given.top else Against(given.against) if given.against else given.contrasts,
        costs=given.costs,
        min_propensity=given.min_propensity,
        one_pair=given.one_pair,
        explore=given.explore,
        newdata=read_frame(given.prompts_file) if given.prompts_file else None,
    )
    if given.out:
        plan.export(given.out, given.rng)
    if given.plot:
        _save_plot(plan, given.plot)
    print(plan.summary(results.estimates.alpha))


def _save_plot(shown: Any, path: str) -> None:
    figure = shown.plot().get_figure(root=True)
    assert figure is not None
    figure.savefig(path)


def _check(given: argparse.Namespace) -> None:
    print(check(given.formula, read_frame(given.file), env={}, **_options(given, CHECKED)))


def _options(given: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """Keywords of the API from what was given; what was not keeps the API's default."""
    options: dict[str, Any] = {name: getattr(given, name) for name in names if getattr(given, name) is not None}
    if given.groups:
        options["cov_kwds"] = {"groups": given.groups}
    if given.categories:
        options["categories"] = dict(_label_and_meaning(pair) for pair in given.categories)
    return options


def read_frame(path: str) -> Any:
    """A frame from a file: pandas for csv and JSON lines, a pyarrow Table for parquet and Arrow IPC (feather).

    Raises
    ------
    DataError
        If the file does not exist, its kind is not known, or it cannot be read as what its name says.
    MissingExtraError
        If its kind needs pyarrow, which is not installed.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in KINDS:
        raise DataError(f"{path!r} is of an unknown kind; readable are {', '.join(KINDS)}{nearest(suffix, KINDS)}")
    if not Path(path).is_file():
        raise DataError(f"there is no file {path!r}")
    try:
        return _read(path, KINDS[suffix])
    except (ValueError, OSError) as error:
        raise DataError(f"{path!r} cannot be read as {KINDS[suffix]}: {error}") from None


def _read(path: str, kind: str) -> Any:
    if kind == "csv":
        return pd.read_csv(path)
    if kind == "JSON lines":
        return pd.read_json(path, lines=True)
    arrow_module(f"{kind} files")
    from pyarrow import feather, parquet

    return parquet.read_table(path) if kind == "parquet" else feather.read_table(path)


def _label_and_meaning(pair: str) -> tuple[str, str]:
    label, equals, meaning = pair.rpartition("=")
    if not equals:
        raise OptionError(f"--categories takes LABEL=MEANING, such as 'skipped=tie'; read was {pair!r}")
    return label, meaning


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dmlrank", description="Rank models from pairwise preferences.")
    parser.add_argument("--version", action="version", version=f"dmlrank {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    demo = commands.add_parser("demo", help="fit the simulated arena and print a summary")
    demo.add_argument("--functional", default="bt")
    demo.add_argument("--contexts", type=int, default=4000, metavar="N", help="simulated prompts (default 4000)")
    demo.add_argument("--rng", type=int, default=0, metavar="SEED")
    demo.set_defaults(run=_demo)
    look = commands.add_parser("check", help="look at a file of battles before a fit: labels, graph, balance, cost")
    add_options(look, CHECKED)
    look.set_defaults(run=_check)
    _add_fit(commands)
    design = commands.add_parser("design", help="fit a file of battles and plan what to label next")
    add_fit_options(design)
    add_design_options(design)
    design.set_defaults(run=_design)
    _add_compare(commands)
    return parser


def _add_fit(commands: Any) -> None:
    fit = commands.add_parser("fit", help="fit a file of battles and print a summary")
    add_fit_options(fit)
    fit.add_argument("--method", choices=METHODS, default="max-t", help="intervals of --csv (default max-t)")
    add_outputs(
        fit,
        csv="the tidy table",
        pairs="tests of all differences (max-t) as CSV",
        ranks="ranks, rank sets and groups as CSV",
        html="the summary as HTML",
        latex="the summary as a LaTeX table (needs booktabs)",
        markdown="the summary as Markdown",
        json="the result as JSON, which dmlrank.read_json reads",
        plot="the forest plot (needs matplotlib)",
    )
    fit.set_defaults(run=_fit)


def _add_compare(commands: Any) -> None:
    side = commands.add_parser("compare", help="put stored results, or functionals of one fit, side by side")
    side.add_argument(
        "inputs", nargs="+", metavar="JSON", help="results stored with fit --json; or a formula and a file of battles"
    )
    side.add_argument("--names", nargs="+", metavar="NAME", help="heads of the columns")
    add_keywords(side, [name for name in OPTIONS if name != "functional"])
    several = "functionals of the fit, the first is compared with (default all three)"
    side.add_argument("--functional", nargs="+", metavar="NAME", help=several)
    add_files_and_tuning(side)
    add_outputs(
        side,
        csv="scores and ranks as CSV",
        reversals="pairs in another order, with tests, as CSV",
        html="the table as HTML",
        latex="the table as LaTeX (needs booktabs)",
        markdown="the table as Markdown",
        plot="the bump chart (needs matplotlib)",
    )
    side.set_defaults(run=_compare)
