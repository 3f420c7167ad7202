"""The words of the command line: its commands with their help, and the parser of one command.

Nothing else of the package is imported here, so that ``--help`` and ``--version`` answer at once.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any

from .._version import __version__

VOTES_FORMULA = '"winner ~ 1 | model_a + model_b"'
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
        # An option may be spelled as the keyword, with underscores.
        parts = [(*word.partition("="), word) for word in words[:end]]
        dashed = [f"{a.replace('_', '-')}{equals}{b}" if word[:2] == "--" else word for a, equals, b, word in parts]
        for word in dashed:
            name = word.partition("=")[0]
            if name.startswith("--") and name not in self._option_string_actions:
                from ..exceptions import nearest
                from ..options import OPTIONS

                known, keyword = self._option_string_actions, name[2:].replace("-", "_")
                hint = f"; write --set {keyword}=..." if keyword in OPTIONS and "--set" in known else ""
                self.error(f"there is no option {name}{hint or nearest(name, known)}")
        given = self.parse_intermixed_args([*dashed, *words[end:]])
        for name, value in vars(given).items():
            if name not in _PATHS:
                setattr(given, name, _as_utf8(value))
        inputs: list[str] = getattr(given, "inputs", [])
        has_formula = bool(inputs) and "~" in inputs[0]
        given.formula, given.files = (_as_utf8(inputs[0]), inputs[1:]) if has_formula else (None, inputs)
        return given


def _as_utf8(value: Any) -> Any:
    """Return a text, or a list of them, as UTF-8 where the locale's encoding could not read its bytes."""
    if isinstance(value, list):
        return [_as_utf8(part) for part in value]
    if isinstance(value, str) and not value.isascii() and any("\ud800" <= letter < "\ue000" for letter in value):
        return os.fsencode(value).decode("utf-8", "surrogateescape")
    return value


def parser_of(name: str) -> CommandParser:
    """Return the parser of a command, without its options."""
    usage, _, description, examples = COMMANDS[name]
    return CommandParser(
        prog=f"dmlrank {name}",
        usage=f"dmlrank {name} {usage}",
        description=description,
        epilog=f"examples:\n  {examples}\n\n{GATE_CODES if name == 'gate' else EXIT_CODES}",
    )


def answer_without_command(words: Sequence[str]) -> None:
    """Answer words that name no command: help, version, or an error; the process ends here."""
    parser = CommandParser(
        prog="dmlrank",
        description="Rank models from pairwise preferences.",
        epilog=f"{MAIN_EXAMPLES}\n\n{EXIT_CODES}",
    )
    parser.add_argument("--version", action="version", version=f"dmlrank {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=CommandParser)
    for name, (_, line, *_) in COMMANDS.items():
        commands.add_parser(name, help=line)
    parser.parse_args(words[:1])
    parser.error("give a command first")
