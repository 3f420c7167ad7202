"""Parsing of a command line: options of several values end before the formula, and help shows one spelling of each."""

from __future__ import annotations

import argparse
import copy
from collections.abc import Sequence
from typing import Any

from .read_files import known_file


class CommandParser(argparse.ArgumentParser):
    """A parser of a subcommand that takes formula and file wherever they stand.

    ``fit --context q FORMULA FILE`` and ``fit FORMULA --context q FILE`` are ``fit FORMULA FILE --context q``: an
    option of several values ends before a formula, and gives back the file where one is lacking.
    """

    def __init__(self, **words: Any) -> None:
        super().__init__(**{"formatter_class": OneSpelling, **words})

    # The signature is argparse's, which has no types that could be narrowed.
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse words in which the formula and files may stand anywhere."""
        return super().parse_known_args(None if args is None else self._positionals_first(args), namespace)

    def _positionals_first(self, words: Sequence[str]) -> list[str]:
        """Return the words with formula and files first; the same words where ``--`` separates files from options."""
        if "--" in words:
            return list(words)
        positionals, runs, at = [], [], 0
        while at < len(words):
            if not _is_option(words[at]):
                positionals.append(words[at])
                at += 1
                continue
            end = self._end_of_run(words, at)
            runs.append(list(words[at:end]))
            at = end
        self._give_back(positionals, runs)
        return [*positionals, *(word for run in runs for word in run)]

    def _end_of_run(self, words: Sequence[str], at: int) -> int:
        """Return the place after the last value of an option."""
        most = 0 if "=" in words[at] else self._most_values(words[at])
        end = at + 1
        while end < len(words) and end - at <= most and not _is_option(words[end]):
            if most > 1 and is_formula(words[end]):
                break
            end += 1
        return end

    def _most_values(self, option: str) -> float:
        """Return the largest number of values of an option, which may be abbreviated."""
        actions = self._option_string_actions
        matches = (
            [actions[option]] if option in actions else [actions[name] for name in actions if name.startswith(option)]
        )
        if not matches:
            return 0
        return float("inf") if matches[0].nargs == "+" else 1 if matches[0].nargs is None else 0

    def _give_back(self, positionals: list[str], runs: list[list[str]]) -> None:
        """Take files that are lacking from the end of an option's values."""
        expected = [action for action in self._actions if not action.option_strings]
        lacking = len(expected) - len(positionals)
        if positionals and is_formula(positionals[0]):
            lacking = 2 - len(positionals)
        several = any(action.nargs == "+" for action in expected) and not positionals
        if lacking <= 0:
            return
        for run in reversed(runs):
            files: list[str] = []
            while len(run) > 2 and known_file(run[-1]) and (several or len(files) < lacking):
                files.insert(0, run.pop())
            if files:
                positionals.extend(files)
                return


class OneSpelling(argparse.HelpFormatter):
    """Help that shows ``--min-labels`` and not ``--min_labels`` beside it, which is accepted too."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """Return an option as help shows it, without the spellings that have underscores."""
        dashed = copy.copy(action)
        dashed.option_strings = [option for option in action.option_strings if "_" not in option]
        return super()._format_action_invocation(dashed)


def is_formula(word: str) -> bool:
    """Whether a word is the formula of a fit.

    Examples
    --------
    >>> is_formula("winner ~ 1 | model_a + model_b"), is_formula("~ length")
    (True, False)
    """
    return "~" in word and "|" in word


def _is_option(word: str) -> bool:
    """Whether a word is an option, and not a negative number."""
    if len(word) < 2 or not word.startswith("-"):
        return False
    try:
        float(word)
    except ValueError:
        return True
    return False
