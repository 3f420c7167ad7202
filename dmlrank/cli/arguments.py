"""The parser of the command line, and the keyword arguments of the API that its options become."""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from ..datasets.eval_logs import READERS
from ..exceptions import OptionError, listed, nearest
from ..functionals import FUNCTIONALS
from ..options import DEFAULT_START, OPTIONS, EqualTasks
from .read_files import FORMATS
from .write_files import ENDINGS

VOTES_FORMULA = '"winner ~ 1 | model_a + model_b"'
LOG_OPTIONS = {
    "kind": f"which logs are read, where there are several kinds: {' '.join(READERS)}",
    "metric": "the metric of lm_eval, the named score of promptfoo, or the evaluation of every_eval_ever",
    "filter": "the filter of lm_eval",
    "scorer": "the scorer of inspect; NAME.KEY for a scorer that gives several values",
}
# Options of a fit that are options of the command line, too; of these, the subcommand check has the first four.
_NAMED = (
    *("context", "missing", "run", "position_bias"),
    *("functional", "estimator", "average", "adjust", "weights", "judge", "propensity", "alpha", "rng"),
)
_CHECKED = _NAMED[:4]
# Keywords of pairs_from_scores() that --set knows where --scores is given, and the columns that are models.
SCORE_OPTIONS = ("margin", "lower_is_better", "models")
# Keywords of read_log() that --set knows.
LOG_KEYWORDS = ("task", "skip_damaged")
_WORDS = {"yes": True, "true": True, "no": False, "false": False, "none": None, "null": None}
# What is never changed by reading: names of files are the bytes that the shell has passed.
_PATHS = ("inputs", "out", "report", "changes", "reversals")

EXIT_CODES = """exit codes:
  0    success
  1    an error in the data, the options or the files; one line on standard error
  2    a command line that cannot be parsed
  130  interrupted by Ctrl-C
  141  the reader of standard output has ended"""
GATE_CODES = EXIT_CODES.replace("success", "the candidate is at least the baseline less the margin").replace(
    "\n  130", "\n  3    the candidate is shown to be worse than that\n  4    not decided\n  130"
)
MAIN_EXAMPLES = f"""from a file of battles to a page:
  dmlrank check {VOTES_FORMULA} battles.csv --context question_id
  dmlrank fit {VOTES_FORMULA} battles.csv --context question_id --report board.html

A formula names the column of the winner, features of the prompt (1 for none), and the columns of the two models.
Logs of evaluation harnesses need no formula: dmlrank fit LOGS/ --report board.html
COMMAND --help explains a command, with examples."""

# Of each subcommand: its arguments, its line in the list of commands, its description, and examples.
COMMANDS = {
    "demo": (
        "[OPTIONS]",
        "fit the simulated arena and print a summary",
        "Fit 4,000 votes of a simulated arena with 8 models, and print the summary.",
        "dmlrank demo --functional borda --report demo.html",
    ),
    "check": (
        "FORMULA FILE ... [OPTIONS]   or   dmlrank check LOGS [OPTIONS]",
        "look at a file of battles before a fit: labels, graph, balance, cost",
        "Look at a file of battles before a fit, and print what was found: labels, comparison graph, balance of\n"
        "the display orders, cost of a fit, and problems with advice.",
        f"""dmlrank check {VOTES_FORMULA} battles.parquet --context question_id --report check.html
  zcat battles.jsonl.gz | dmlrank check {VOTES_FORMULA} - --out check.json
  dmlrank check logs/ --report check.html""",
    ),
    "fit": (
        "FORMULA FILE ... [OPTIONS]   or   dmlrank fit LOGS [OPTIONS]",
        "fit a file of battles and print a summary",
        "Fit a file of battles, print the summary, and write what the options ask for. Several files are one table.",
        f"""dmlrank fit {VOTES_FORMULA} battles.csv --functional borda --set min_labels=2
  dmlrank fit "winner ~ C(topic) + length | model_a + model_b" battles.csv --context question_id --by topic \\
      --report topics.html
  dmlrank fit {VOTES_FORMULA} battles.csv --groups user --rng 1 --out march.json --out march.tex --out march.csv
  dmlrank fit {VOTES_FORMULA} battles.csv --slim --top 10 --out best.tex
  zcat battles.csv.gz | dmlrank fit {VOTES_FORMULA} -
  dmlrank fit "score ~ 1 | model" "logs/*.eval" --scorer choice --by domain""",
    ),
    "design": (
        "FORMULA FILE ... --budget B [OPTIONS]",
        "fit a file of battles and plan what to label next",
        "Fit a file of battles, and plan which pairs to label next for a budget.",
        f"""dmlrank design {VOTES_FORMULA} battles.csv --budget 500 --out plan.csv
  dmlrank design {VOTES_FORMULA} battles.csv --budget 500 --top 3 --set one_pair=yes --set newdata=prompts.csv
  dmlrank design "accuracy ~ 1 | model" scores.csv --context prompt --budget 500 --candidate new --out runs.csv""",
    ),
    "compare": (
        "FORMULA FILE ... [OPTIONS]   or   dmlrank compare JSON JSON ... [OPTIONS]",
        "put results, or functionals of one fit, side by side",
        "Put results side by side, with tests between them: fits of several files, functionals of one fit, or\n"
        "results stored with fit --out. --independent says that no prompt is in two of the results. Stored\n"
        "results hold no prompts; where models or pairs differ, give the formula and the files of votes instead.",
        f"""dmlrank compare {VOTES_FORMULA} february.csv march.csv --independent --changes changes.csv
  dmlrank compare february.json march.json --independent --report months.html
  dmlrank compare {VOTES_FORMULA} battles.csv --context question_id --functional bt borda""",
    ),
    "report": (
        "JSON ... --out OUT [OPTIONS]",
        "write a page for publication from stored results",
        "Write one HTML page from results stored with fit --out; several results stand in tabs.",
        """dmlrank report march.json --out board.html --title "Leaderboard, March"
  dmlrank report february.json march.json --independent --out months.html""",
    ),
    "gate": (
        "FORMULA FILE ... --candidate A --baseline B --margin D [OPTIONS]   or   dmlrank gate JSON ...",
        "say by the exit code whether a candidate is as good as a baseline",
        "Print one line, and end with exit code 0 where the candidate is shown to be at least the baseline less the\n"
        "margin, 3 where it is shown to be worse than that, and 4 where the data do not decide.",
        """dmlrank gate "accuracy ~ 1 | model" scores.csv --context prompt --candidate new --baseline old --margin 0.01
  dmlrank gate march.json --candidate new --baseline old --margin 0 --json""",
    ),
}


class _Once(argparse.Action):
    """An option with one value, or without a value, which is refused when it is given twice."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: str | None = None) -> None:
        if option is not None and getattr(namespace, self.dest) is not None:
            parser.error(f"{option} was given twice; give it once")
        setattr(namespace, self.dest, values)


class CommandParser(argparse.ArgumentParser):
    """A parser whose values may begin with a dash, and whose options are whole words that are given once."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **settings)
        self.register("action", None, _Once)

    def _parse_optional(self, arg_string: str) -> Any:
        """Take a word that begins with one dash, such as -1=second, for a value."""
        return super()._parse_optional(arg_string) if arg_string[:2] in ("--", "-h") else None

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Return the options that words give, with the formula, or None, and the files as two further ones."""
        end = words.index("--") if "--" in words else len(words)
        dashed = [_dashed(word) for word in words[:end]]
        for word in dashed:
            name = word.partition("=")[0]
            if name.startswith("--") and name not in self._option_string_actions:
                self.error(f"there is no option {name}{nearest(name, self._option_string_actions)}")
        given = self.parse_intermixed_args([*dashed, *words[end:]])
        for name, value in vars(given).items():
            if name not in _PATHS:
                setattr(given, name, _as_utf8(value))
        inputs: list[str] = getattr(given, "inputs", [])
        has_formula = bool(inputs) and "~" in inputs[0]
        given.formula, given.files = (_as_utf8(inputs[0]), inputs[1:]) if has_formula else (None, inputs)
        return given


def _dashed(word: str) -> str:
    """Return an option with dashes where it is spelled as the keyword, with underscores."""
    name, equals, value = word.partition("=")
    return f"{name.replace('_', '-')}{equals}{value}" if word.startswith("--") else word


def _as_utf8(value: Any) -> Any:
    """Return a text, or a list of them, as UTF-8 where the locale's encoding could not read its bytes."""
    if isinstance(value, list):
        return [_as_utf8(part) for part in value]
    if isinstance(value, str) and not value.isascii() and any("\ud800" <= letter < "\ue000" for letter in value):
        return os.fsencode(value).decode("utf-8", "surrogateescape")
    return value


# --- options ----------------------------------------------------------------------------------------------------------


def add_option(command: Any, name: str, text: str, metavar: str | None = None, **known: Any) -> None:
    """Add an option: with ``several`` one that takes values and adds up, without a metavar and choices a flag."""
    if known.pop("several", False):
        known |= {"nargs": "+", "action": "extend"}
    if metavar is None and not known:
        known = {"action": "store_const", "const": True}
    command.add_argument(f"--{name.replace('_', '-')}", metavar=metavar, help=text, **known)


def add_inputs(command: argparse.ArgumentParser, text: str = "") -> None:
    """Add the words that are no options: a formula, if there is one, and files."""
    several = (
        "the formula 'winner ~ features | model_a + model_b', then files with the same columns, which are one table: "
        f"{', '.join(FORMATS)}, perhaps with .gz, .bz2 or .xz; - is standard input. Or logs: a file, folder or pattern"
    )
    command.add_argument("inputs", nargs="+", metavar="FILE", help=text or several)


def add_fit_options(command: argparse.ArgumentParser, *, checked: bool = False, without: Collection[str] = ()) -> None:
    """Add the options of a fit; with ``checked`` those of check(), which trains nothing."""
    for name in _CHECKED if checked else _NAMED:
        option = OPTIONS[name]
        known: dict[str, Any] = {"choices": option.words} if option.words else {}
        known |= {"type": option.parse} if option.parse is not None else {}
        known |= {"several": True} if option.several else {}
        text = option.help.replace("{functionals}", ", ".join(FUNCTIONALS))
        text += "; or a file with the columns of the prompt, both models and the verdict" if name == "judge" else ""
        if name not in without:
            add_option(command, name, text, None if option.words else option.metavar or name.upper(), **known)
    groups = "columns of the clusters, such as of those who vote: one, or two for two-way clustering"
    add_option(command, "groups", groups, "COLUMN", several=True)
    meanings = (
        "meanings of labels that are not recognised: first, second, tie, both_good, both_bad or missing (no vote); or "
        "for grades the share of a win that a label is worth for the first model, as in 'A>>B=1' 'A=B=0.5'"
    )
    add_option(command, "categories", meanings, "LABEL=MEANING", several=True)
    tasks = "every task counts the same, instead of every prompt: the column with the task of each prompt"
    add_option(command, "tasks", tasks, "COLUMN")
    scores = (
        "the file holds benchmark scores instead of votes, and the larger score wins: the columns of the prompt, the "
        "model and the score; or the column of the prompt alone, and every model has a column. Needs no formula"
    )
    add_option(command, "scores", scores, "COLUMN", several=True)
    rare = "another option of the Python API by its name there, such as min_labels=2; may be repeated"
    add_option(command, "set", rare, "NAME=VALUE", action="append")
    if not checked:
        add_option(command, "progress", "show progress on standard error")
    for name, text in LOG_OPTIONS.items():
        choices = {"choices": tuple(READERS)} if name == "kind" else {}
        add_option(command, name, f"of logs: {text}", "NAME", **choices)


def add_view_options(command: argparse.ArgumentParser) -> None:
    """Add the options of groups and of looks at growing data."""
    add_option(command, "by", "columns that define groups of prompts: scores by group", "COLUMN", several=True)
    planned = (
        "statements that hold at all looks at growing data at once; N is the number of prompts, or of clusters with "
        "--groups, at which you expect to decide; choose it before the first look"
    )
    add_option(command, "planned", planned, "N", type=int)
    add_option(command, "start", f"prompts at the first look, with --planned (default {DEFAULT_START})", "N", type=int)


def add_row_options(command: argparse.ArgumentParser) -> None:
    """Add the options that choose the rows of the table."""
    rows = command.add_mutually_exclusive_group()
    add_option(rows, "models", "show these models only, in this order", "NAME", several=True)
    add_option(rows, "top", "show the N models with the highest scores only", "N", type=int)


def add_outputs(command: argparse.ArgumentParser, out: str = "", title: bool = True, **what: str) -> None:
    """Add an option for each file that a command can write; ``out`` is the kind of what --out writes."""
    if out:
        text = f"write the {out} in the format of the ending: {' '.join(ENDINGS[out])}; may be repeated"
        add_option(command, "out", text, "OUT", action="append")
    for name, content in what.items():
        add_option(command, name, f"write {content}", "OUT")
    if title:
        add_option(command, "title", "title of the page", "TEXT")


# --- what they mean ---------------------------------------------------------------------------------------------------


def api_options(given: argparse.Namespace, further: Collection[str] = ()) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the keyword arguments of a fit in one flat list, and the values of --set with ``further`` names."""
    options: dict[str, Any] = {
        name: value for name in (*_NAMED, "progress") if (value := getattr(given, name, None)) is not None
    }
    if given.groups:
        options["groups"] = given.groups
    if given.categories:
        options["categories"] = _meanings(given.categories)
    if given.tasks:
        if "weights" in options:
            raise OptionError("--tasks and --weights are both given, and both are weights of prompts; leave one out")
        options["weights"] = EqualTasks(given.tasks)
    own: dict[str, Any] = {}
    known = [*OPTIONS, *(SCORE_OPTIONS if given.scores else ()), *LOG_KEYWORDS, *further]
    for text in given.set or ():
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise OptionError(f"--set has {text!r}; give NAME=VALUE, such as min_labels=2")
        if name not in known:
            raise OptionError(f"--set knows no option {name!r}; allowed: {listed(known, 99)}{nearest(name, known)}")
        if name in options or name in own:
            raise OptionError(f"{name} was given twice; give it once")
        is_own = name in (*further, *LOG_KEYWORDS) or (given.scores and name in SCORE_OPTIONS)
        (own if is_own else options)[name] = _value_of(name, value)
    return options, own


def _value_of(name: str, text: str) -> Any:
    """Return the value of an option that --set gives: read as the option says, else a JSON literal or a word."""
    option = OPTIONS.get(name)
    if option is not None and option.parse is not None:
        try:
            return option.parse(text)
        except ValueError:
            raise OptionError(f"{name}={text!r} is not allowed; give {option.metavar}") from None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = _WORDS.get(text.lower(), text)
    # A column may have the name of a number.
    return text if option is not None and option.metavar == "COLUMN" and not isinstance(value, list) else value


def _meanings(texts: Iterable[str]) -> dict[Any, str | float]:
    """Return what labels mean; a label that is a number may be a number in the file, too."""
    meanings: dict[Any, str | float] = {}
    for pair in texts:
        label, equals, meaning = pair.rpartition("=")
        if not equals:
            raise OptionError(f"--categories has {pair!r}; give LABEL=MEANING, such as 'skipped=tie'")
        meanings |= dict.fromkeys((label, number_or_word(label)), number_or_word(meaning))
    return meanings


def number_or_word(text: str) -> float | str:
    """Return a text as a number where it is a finite one."""
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


def refuse_fit_options(given: argparse.Namespace) -> None:
    """Check that no option of a fit is given, since stored results are read and nothing is fitted."""
    for name in (*_NAMED, "groups", "categories", "scores", "set", "progress", "tasks", *LOG_OPTIONS):
        if getattr(given, name, None) is not None:
            raise OptionError(
                f"--{name.replace('_', '-')} is an option of a fit, but a stored result is read, and nothing is "
                f"fitted; leave the option out"
            )


def build_parser(
    runs: Mapping[str, tuple[Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], object]]],
) -> tuple[argparse.ArgumentParser, dict[str, CommandParser]]:
    """Build the parser of the command line and those of its commands, from what adds their options and runs them."""
    from .._version import __version__

    parser = CommandParser(
        prog="dmlrank",
        description="Rank models from pairwise preferences.",
        epilog=f"{MAIN_EXAMPLES}\n\n{EXIT_CODES}",
    )
    parser.add_argument("--version", action="version", version=f"dmlrank {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=CommandParser)
    for name, (add_options, run) in runs.items():
        usage, line, description, examples = COMMANDS[name]
        command = commands.add_parser(
            name,
            help=line,
            usage=f"dmlrank {name} {usage}",
            description=description,
            epilog=f"examples:\n  {examples}\n\n{GATE_CODES if name == 'gate' else EXIT_CODES}",
        )
        add_options(command)
        command.set_defaults(carry_out=run, command=name)
    return parser, dict(commands.choices)
