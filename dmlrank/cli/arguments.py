"""Options of the command line: their help, the parser, and the arguments of the API that they become."""

from __future__ import annotations

import argparse
import copy
import math
import re
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from .._utils.argument_checks import check_whole
from ..datasets.eval_logs import READERS
from ..exceptions import OptionError, nearest
from ..functionals import FUNCTIONALS
from ..options import DEFAULT_START, METHODS, MULTIPLIERS, OPTIONS
from .read_files import FORMATS, known_file

VOTES_FORMULA = '"winner ~ 1 | model_a + model_b"'

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

# Of each subcommand: its arguments, which may stand in any order; its line in the list of commands; its description;
# examples.
COMMANDS = {
    "demo": (
        "[OPTIONS]",
        "fit the simulated arena and print a summary",
        "Fit votes of a simulated arena with 8 models, and print the summary.",
        """examples:
  dmlrank demo
  dmlrank demo --functional borda --contexts 2000 --report demo.html""",
    ),
    "check": (
        "FORMULA FILE [OPTIONS]   or   dmlrank check LOGS [OPTIONS]",
        "look at a file of battles before a fit: labels, graph, balance, cost",
        "Look at a file of battles before a fit, and print what was found: labels, comparison graph, balance of\n"
        "the display orders, cost of a fit, and problems with advice.",
        f"""examples:
  dmlrank check {VOTES_FORMULA} battles.csv
  dmlrank check {VOTES_FORMULA} battles.parquet --context question_id --report check.html
  zcat battles.jsonl.gz | dmlrank check {VOTES_FORMULA} - --out check.json
  dmlrank check logs/ --report check.html""",
    ),
    "fit": (
        "FORMULA FILE [OPTIONS]   or   dmlrank fit LOGS [OPTIONS]",
        "fit a file of battles and print a summary",
        "Fit a file of battles, print the summary, and write what the options ask for.",
        f"""examples:
  dmlrank fit {VOTES_FORMULA} battles.csv --functional borda
  dmlrank fit "winner ~ C(topic) + length | model_a + model_b" battles.csv --context question_id --by topic \\
      --report topics.html
  dmlrank fit {VOTES_FORMULA} battles.csv --groups user --rng 1 --out march.json --out march.tex --out march.csv
  dmlrank fit {VOTES_FORMULA} battles.csv --slim --top 10 --out best.tex
  zcat battles.csv.gz | dmlrank fit {VOTES_FORMULA} -
  dmlrank fit logs/ --report board.html
  dmlrank fit "score ~ 1 | model" "logs/*.eval" --scorer choice --by domain""",
    ),
    "design": (
        "FORMULA FILE --budget B [OPTIONS]   or   ... --std-error S [OPTIONS]",
        "fit a file of battles and plan what to label next",
        "Fit a file of battles, and plan which pairs to label next for a budget.",
        f"""examples:
  dmlrank design {VOTES_FORMULA} battles.csv --budget 500 --out plan.csv
  dmlrank design {VOTES_FORMULA} battles.csv --budget 500 --top 3 --one-pair --new prompts.csv --out plan.json
  dmlrank design "accuracy ~ 1 | model" scores.csv --context prompt --budget 500 --candidate new --out runs.csv""",
    ),
    "compare": (
        "FORMULA FILE [FILE ...] [OPTIONS]   or   dmlrank compare JSON JSON ... [OPTIONS]",
        "put results, or functionals of one fit, side by side",
        "Put results side by side, with tests between them: fits of several files, functionals of one fit, or\n"
        "results stored with fit --out. --independent says that no prompt is in two of the results. Stored\n"
        "results hold no prompts; where models or pairs differ, give the formula and the files of votes instead.",
        f"""examples:
  dmlrank compare {VOTES_FORMULA} february.csv march.csv --independent --changes changes.csv --report months.html
  dmlrank compare february.json march.json --independent --report months.html
  dmlrank compare {VOTES_FORMULA} battles.csv --context question_id --functional bt borda""",
    ),
    "report": (
        "JSON ... --out OUT [OPTIONS]",
        "write a page for publication from stored results",
        "Write one HTML page from results stored with fit --out; several results stand in tabs.",
        """examples:
  dmlrank report march.json --out board.html --title "Leaderboard, March"
  dmlrank report february.json march.json --independent --out months.html""",
    ),
    "gate": (
        "FORMULA FILE --candidate A --baseline B --margin D [OPTIONS]   or   dmlrank gate JSON ...",
        "say by the exit code whether a candidate is as good as a baseline",
        "Print one line, and end with exit code 0 where the candidate is shown to be at least the baseline less the\n"
        "margin, 3 where it is shown to be worse than that, and 4 where the data do not decide.",
        """examples:
  dmlrank gate "accuracy ~ 1 | model" scores.csv --context prompt --candidate new --baseline old --margin 0.01
  dmlrank gate march.json --candidate new --baseline old --margin 0 --json""",
    ),
}

# The formula of a fit to a file of scores, which names no columns of the file; and of a log, which has its own.
FORMULA_OF_SCORES, NO_FORMULA = "winner ~ 1 | model_a + model_b", ""
LOG_OPTIONS = {
    "kind": f"which logs are read, where there are several kinds: {' '.join(READERS)}",
    "metric": "the metric of lm_eval, the named score of promptfoo, or the evaluation of every_eval_ever",
    "filter": "the filter of lm_eval",
    "scorer": "the scorer of inspect; NAME.KEY for a scorer that gives several values",
}


class CommandParser(argparse.ArgumentParser):
    """A parser of a subcommand in which formula and files may stand anywhere among the options.

    ``fit --context q FORMULA FILE`` and ``fit FORMULA --context q FILE`` mean ``fit FORMULA FILE --context q``, while
    argparse would take the formula or the file for a further value of ``--context``. Here the values of an option end
    before a formula. If a file is lacking afterwards, the last value of an option is taken for the file, provided that
    the value has the ending of a file.

    The formula may be left out where ``--scores`` says that the file holds scores, because the winner and the two
    models of a formula are then no columns of the file, and for logs of evaluation harnesses, which say what they hold.
    """

    def __init__(self, **parser_arguments: Any) -> None:
        super().__init__(**{"formatter_class": OneSpelling, **parser_arguments})

    @property
    def options(self) -> dict[str, argparse.Action]:
        """The options by their names in the Python API."""
        return {action.dest: action for action in self._actions if action.option_strings}

    # The signature is argparse's, which has no types that could be narrowed.
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse words in which the formula and files may stand anywhere; an unknown option is an error."""
        # End with the usage of the subcommand where an option is unknown, before its value is read as a file.
        words = args or ()
        options = [name for name in self._option_string_actions if "_" not in name]
        for word in words[: words.index("--")] if "--" in words else words:
            name = word.partition("=")[0]
            if (
                _is_option(word)
                and " " not in name
                and not any(x.startswith(name) for x in self._option_string_actions)
            ):
                self.error(f"there is no option {name}{nearest(name, options)}")
        return super().parse_known_args(None if args is None else self._positionals_first(args), namespace)

    def _positionals_first(self, words: Sequence[str]) -> list[str]:
        """Return the words with formula and files first; unchanged if the user has separated them by ``--``."""
        if "--" in words:
            return list(words)
        # An option together with its values is a list of words; ``most`` is how many further values it may have.
        positionals: list[str] = []
        options: list[list[str]] = []
        most = 0.0
        for word, following in zip(words, [*words[1:], ""], strict=False):
            if _is_option(word):
                options.append([word])
                most = self._max_values(word, following)
            elif most and not (most > 1 and is_formula(word)):
                options[-1].append(word)
                most -= 1
            else:
                positionals.append(word)
                most = 0
        has_scores = any(option[0].partition("=")[0] == "--scores" for option in options)
        if has_scores and len(positionals) < 2 and not any("~" in word for word in positionals):
            positionals.insert(0, FORMULA_OF_SCORES)
        self._take_lacking_files(positionals, options)
        takes_formula = any(action.dest == "formula" for action in self._actions)
        if takes_formula and positionals and not any("~" in word for word in positionals):
            if len(positionals) > 2:
                self.error(
                    f"{len(positionals)} files and no formula were given; logs are a folder, or a pattern in quotation "
                    f"marks, such as 'logs/*.eval'"
                )
            positionals = [NO_FORMULA, *positionals] if len(positionals) == 1 else positionals
        return [*positionals, *(word for option in options for word in option)]

    def _max_values(self, option: str, following: str) -> float:
        """Return the largest number of values that follow an option, which may be abbreviated, before another word."""
        actions = self._option_string_actions
        names = [option] if option in actions else [name for name in actions if name.startswith(option)]
        if "=" in option or not names:
            return 0
        n_values = actions[names[0]].nargs
        if n_values == "?":
            return int(following in ("yes", "no", "true", "false", "auto"))
        return math.inf if n_values == "+" else 1 if n_values is None else 0

    def _take_lacking_files(self, positionals: list[str], options: list[list[str]]) -> None:
        """Move files from the end of an option's values to the positional words, if files are lacking there."""
        expected = [action for action in self._actions if not action.option_strings]
        n_lacking = len(expected) - len(positionals)
        if positionals and is_formula(positionals[0]):
            # A formula is followed by one file, also in a subcommand that takes any number of stored results.
            n_lacking = 2 - len(positionals)
        takes_any_number = any(action.nargs == "+" for action in expected) and not positionals
        for option in reversed(options) if n_lacking > 0 else ():
            files: list[str] = []
            while len(option) > 2 and known_file(option[-1]) and (takes_any_number or len(files) < n_lacking):
                files.insert(0, option.pop())
            if files:
                positionals.extend(files)
                return


class OneSpelling(argparse.RawDescriptionHelpFormatter):
    """Help that keeps lines, and shows ``--min-labels`` alone although ``--min_labels`` is accepted, too."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """Return an option as help shows it, without the spellings that have underscores."""
        dashed = copy.copy(action)
        dashed.option_strings = [option for option in action.option_strings if "_" not in option]
        return super()._format_action_invocation(dashed)


def is_formula(word: str) -> bool:
    """Return whether a word is the formula of a fit."""
    return "~" in word and "|" in word


def _is_option(word: str) -> bool:
    """Return whether a word is an option and not a negative number."""
    return len(word) > 1 and word.startswith("-") and math.isnan(_number(word))


def number_or_name(text: str) -> float | str:
    """Return a word as a number where it is a finite one, and else as the name of a column."""
    return _number(text) if math.isfinite(_number(text)) else text


def _number(text: str) -> float:
    """Return the number that a text stands for; NaN where it stands for none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


# --- options of a fit -------------------------------------------------------------------------------------------------

# Options of a fit that the command line has under the same names and with the same values as the Python API.
PASSED_ON = tuple(name for name, option in OPTIONS.items() if option.help)
# The options among them that the subcommand check has.
CHECKED = (
    *("context", "min_labels", "component", "min_votes", "missing", "n_folds", "position_bias", "graph"),
    *("edge_weights", "votes", "run", "fold_names"),
)
# Options of a fit whose values differ from those of the Python API.
_IN_OTHER_WORDS = (
    *("groups", "categories", "unsafe_formula", "scores", "margin", "lower_is_better"),
    *("progress", "tune", "judge_file", "tasks"),
)


def add_formula_and_file(command: argparse.ArgumentParser) -> None:
    """Add the formula and the file to a subcommand."""
    command.add_argument("formula", metavar="FORMULA", help="'winner ~ features | model_a + model_b'")
    files = f"{', '.join(FORMATS)}, perhaps with .gz; - is standard input; or a file, folder or pattern of logs"
    command.add_argument("file", metavar="FILE", help=files)
    add_log_options(command)


def add_log_options(command: argparse.ArgumentParser) -> None:
    """Add the options of logs of evaluation harnesses."""
    group = command.add_argument_group("logs of evaluation harnesses, which need no formula")
    for name, text in LOG_OPTIONS.items():
        group.add_argument(f"--{name}", metavar="NAME", choices=tuple(READERS) if name == "kind" else None, help=text)


def add_options(command: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """Add the options of the fit with these names, and those about clusters, labels, scores and formulas."""
    for name in names:
        option = OPTIONS[name]
        known: dict[str, Any] = {"choices": option.words} if option.words else {"metavar": option.metavar}
        known |= {"type": option.parse} if option.parse is not None else {}
        known |= {"nargs": "+"} if option.several else {}
        # A question without an answer is answered by yes.
        known |= {"nargs": "?", "const": True} if "yes|no" in (option.metavar or "") else {}
        known["help"] = option.help.replace("{functionals}", ", ".join(FUNCTIONALS))
        # The spelling with dashes, which the help shows, and the name of the argument in the Python API.
        command.add_argument(*dict.fromkeys([f"--{name.replace('_', '-')}", f"--{name}"]), **known)
    add = command.add_argument
    groups = (
        "columns of the clusters, such as of those who vote: one, or two for two-way clustering; the summary of a fit "
    )
    groups += "says how much they matter"
    add("--groups", nargs="+", metavar="COLUMN", help=groups)
    add(
        "--categories",
        nargs="+",
        metavar="LABEL=MEANING",
        help="meanings of labels that are not recognised: first, second, tie, both_good, both_bad or missing (no "
        "vote); or for grades the share of a win that a label is worth for the first model, as in 'A>>B=1' "
        "'A>B=0.75' 'A=B=0.5'",
    )
    unsafe = "let formulas run any Python code; only for formulas that you wrote yourself"
    add("--unsafe-formula", action="store_const", const=True, help=unsafe)
    add(
        "--scores",
        nargs="+",
        metavar="COLUMN",
        help="the file holds benchmark scores instead of votes, and the larger score wins: the columns of the prompt, "
        "the model and the score, for a row per prompt and model; or the column of the prompt alone, for a row per "
        "prompt and a column for every model. FORMULA may then be left out",
    )
    add("--margin", type=float, metavar="D", help="scores that differ by at most D tie (default 0)")
    smaller = "the smaller score wins, as for error rates"
    add("--lower-is-better", action="store_const", const=True, help=smaller)


def add_fit_options(command: argparse.ArgumentParser, names: Sequence[str] = PASSED_ON) -> None:
    """Add the options of a fit with these names, and those whose values differ from those of the Python API."""
    add_options(command, names)
    command.add_argument("--progress", action="store_const", const=True, help="show progress on standard error")
    tuning = "how boosters are tuned: a few configurations (cv, the default), random search, or not at all"
    command.add_argument("--tune", choices=("cv", "random", "none"), help=tuning)
    add_tasks(command)
    verdicts = (
        "a file with the verdicts of a judge; its columns are the prompt, both models and the verdict. For several "
        "judges give NAME=FILE for each"
    )
    command.add_argument("--judge-file", nargs="+", metavar="FILE", help=verdicts)


def add_tasks(command: argparse.ArgumentParser) -> None:
    """Add the option of tasks that count the same."""
    tasks = "every task counts the same, instead of every prompt: the column with the task of each prompt"
    command.add_argument("--tasks", metavar="COLUMN", help=tasks)


def refuse_fit_options(arguments: argparse.Namespace) -> None:
    """Check that no option of a fit is given, since stored results are compared and nothing is fitted."""
    for option in (*PASSED_ON, *_IN_OTHER_WORDS):
        if getattr(arguments, option) is not None:
            raise OptionError(
                f"--{option.replace('_', '-')} is an option of a fit, but a stored result is read, and nothing is "
                f"fitted; leave the option out"
            )


def typed_options(arguments: argparse.Namespace, names: Sequence[str]) -> str:
    """Return the options of these names that are given as they are typed, each after a blank."""
    given = {name: getattr(arguments, name, None) for name in names}
    words = {name: [value] if isinstance(value, str) else value for name, value in given.items() if value}
    return "".join(f" --{name} {shlex.join(values)}" for name, values in words.items())


def api_options(arguments: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """Return keyword arguments of the API for the options on the command line; the others keep their defaults."""
    options: dict[str, Any] = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    if arguments.groups:
        options["cov_kwds"] = {"groups": arguments.groups}
        if "cov_type" in names:
            options.setdefault("cov_type", "cluster")
    if arguments.categories:
        options["categories"] = {}
        for pair in arguments.categories:
            label, equals, text = pair.rpartition("=")
            if not equals:
                raise OptionError(f"--categories has {pair!r}; give LABEL=MEANING, such as 'skipped=tie'")
            # A label that is a number may be a number in the file, too.
            options["categories"] |= dict.fromkeys((label, number_or_name(label)), number_or_name(text))
    return options


# Options of all commands by their names in the Python API; the parsers fill it when they are built.
OPTION_OF: dict[str, argparse.Action] = {}
# Arguments of the Python API that are no option of the same name, and how they are typed.
_PHRASES: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"\b[Tt]he frame \.[a-z]+(?:\.[a-z]+)?", "--out check.json"),
    (r"compare\([^()]*independent=True\)", "--independent"),
    (r"\bTop\((-?\d+)\)", r"--top \1"),
    (r"\bfold_names=True", "--fold-names"),
    (
        r"\bbootstrap\('(\w+)'\) of the result is a view whose intervals, tests and ranks",
        r"--bootstrap \1 gives intervals, tests and ranks that",
    ),
    (r"\bnewdata(?:=None\b|=|\b)", "--new"),
    (
        r"(?:cov_type='cluster'(?: with |, ))?cov_kwds=\{'groups': \[?([^\]{}]*)\]?\}",
        lambda found: "--groups " + re.sub("[',]", "", found[1]),
    ),
    (r"\bcategories=\{([^{}]*)\}", lambda found: "--categories " + " ".join(map(_label, found[1].split(", ")))),
)
_ARGUMENT = re.compile(
    r"(?<![\w.-])(\w+)"
    r"(?:\(\)|=('[^']*'|True\b|False\b|-?\d[\d.]*(?:e-?\d+)?\b(?!,\d)|-?(?:nan|inf)\b|(?=[\s,;.)]|$)))"
)


def as_typed(message: str) -> str:
    """Return a sentence with the API's names as the command line has them: ``min_labels=2`` as ``--min-labels 2``."""

    def option(found: re.Match[str]) -> str:
        action, value = OPTION_OF.get(found[1]), (found[2] or "").strip("'")
        if action is None:
            return found[0]
        if action.nargs == 0:
            return f"{'without ' * (value == 'False')}{action.option_strings[0]}"
        answers = {"True": "yes", "False": "no"}
        return f"{action.option_strings[0]} {answers.get(value, value)}".strip()

    for pattern, typed in _PHRASES:
        message = re.sub(pattern, typed, message)
    return _ARGUMENT.sub(option, message)


def _label(entry: str) -> str:
    """Return an entry of the dictionary of ``categories=`` as a value of ``--categories``."""
    label, meaning = (part.strip().strip("'") for part in entry.rpartition(":")[::2])
    pair = f"{label}={'MEANING' if meaning == '...' else meaning}"
    return f"'{pair}'" if " " in pair or ">" in pair else pair


# --- what is shown ----------------------------------------------------------------------------------------------------


def add_statement_options(command: argparse.ArgumentParser) -> None:
    """Add the options for looks at growing data, groups, and how intervals are made."""
    add = command.add_argument
    planned = (
        "intervals, tests and rank sets that hold at all looks at growing data at once; PLANNED is the number of "
        "prompts, or of clusters with --groups, at which you expect to decide; choose it before the first look"
    )
    add("--sequential", type=int, metavar="PLANNED", help=planned)
    start = f"prompts, or clusters, at the first look, with --sequential (default {DEFAULT_START})"
    add("--start", type=int, metavar="N", help=start)
    by = "features that define groups of prompts: scores by group, also in tables, figures and --report"
    add("--by", nargs="+", metavar="COLUMN", help=by)
    add("--method", choices=METHODS, default="max-t", help="kind of intervals in csv files (default max-t)")
    less = "score against cost: a column of a file of scores, or MODEL=NUMBER for every model; also in tables, figures "
    less += "and --report"
    add("--cost", nargs="+", metavar="COLUMN", help=less)
    draws = "multiplier bootstrap for intervals, rank sets and tests of pairs; use webb with 30 clusters or fewer"
    add("--bootstrap", choices=MULTIPLIERS, help=draws)


def costs_of(texts: Sequence[str]) -> str | dict[str, float]:
    """Return the column of costs, or the costs by model."""
    if len(texts) == 1 and "=" not in texts[0]:
        return texts[0]
    named = {name: _number(number) for name, _, number in (text.rpartition("=") for text in texts)}
    if len(named) < len(texts) or not all(name and math.isfinite(number) for name, number in named.items()):
        raise OptionError(f"--cost has {' '.join(texts)}; name one column, or give MODEL=NUMBER for every model")
    return named


def add_table_options(command: argparse.ArgumentParser, *, has_slim: bool = False) -> None:
    """Add the options that choose the rows of the table, and with ``has_slim`` the option of the short table."""
    group = command.add_argument_group("the table that is printed and written as text, HTML, LaTeX or Markdown")
    rows = group.add_mutually_exclusive_group()
    rows.add_argument("--models", nargs="+", metavar="NAME", help="show these models only, in this order")
    rows.add_argument("--top", type=int, metavar="N", help="show the N models with the highest scores only")
    if has_slim:
        short = "show the short table for publication: rank set, model, score, interval and votes"
        kinds = group.add_mutually_exclusive_group()
        kinds.add_argument("--slim", action="store_true", help=short)
        sentences = (
            "print a few sentences for those who decide in place of the table, with --top N also who is shown to be in "
        )
        sentences += "the top N; files still have the table"
        kinds.add_argument("--verdict", action="store_true", help=sentences)


def check_rows(arguments: argparse.Namespace) -> None:
    """Check, before anything is computed, the rows of the table that can be judged without the data."""
    if arguments.top is not None:
        check_whole("--top", arguments.top, 1)
    if arguments.models:
        from ..report.fit_summary import choose_models

        choose_models(arguments.models, range(len(arguments.models)), arguments.models)


_VIEWS = ("sequential", "by", "sensitivity", "bootstrap")
# Options of what is shown that do not go together, and why.
_CLASHES = (
    ("slim", "by", "scores by group have no short table"),
    ("cost", "bootstrap", "scores against costs have no bootstrap"),
    ("bootstrap", "by", "scores by group have none"),
    ("bootstrap", "method", "only the intervals of max-t have a bootstrap"),
    *(("sequential", option, f"the results of --{option} hold for one look only") for option in _VIEWS[1:]),
)


def check_statements(arguments: argparse.Namespace) -> None:
    """Check, before anything is computed, that the options of what is shown go together."""
    options = ("slim", "cost", "method", *_VIEWS)
    given = {name: getattr(arguments, name) not in (None, False, "max-t") for name in options}
    for option, other, reason in _CLASHES:
        if given[option] and given[other]:
            value = f" {arguments.method}" if other == "method" else ""
            raise OptionError(f"--{option} was given with --{other}{value}, but {reason}; leave one of them out")
    if arguments.sequential is None and arguments.start is not None:
        raise OptionError("--start is the size of the first look of --sequential PLANNED; give --sequential, too")
