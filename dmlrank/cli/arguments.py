"""The parser of a command line: formula and files may stand anywhere, and help shows one spelling of each option."""

from __future__ import annotations

import argparse
import copy
from collections.abc import Sequence
from typing import Any

from .read_files import known_file

# The formula of a fit to a file of scores, which names no columns of the file.
FORMULA_OF_SCORES = "winner ~ 1 | model_a + model_b"


class CommandParser(argparse.ArgumentParser):
    """A parser of a subcommand in which formula and files may stand anywhere among the options.

    ``fit --context q FORMULA FILE`` and ``fit FORMULA --context q FILE`` mean ``fit FORMULA FILE --context q``, while
    argparse would take the formula or the file for a further value of ``--context``. Here the values of an option end
    before a formula. If a file is lacking afterwards, the last value of an option is taken for the file, provided that
    the value has the ending of a file.

    The formula may be left out where ``--scores`` says that the file holds scores, because the winner and the two
    models of a formula are then no columns of the file.
    """

    def __init__(self, **parser_arguments: Any) -> None:
        super().__init__(**{"formatter_class": OneSpelling, **parser_arguments})

    # The signature is argparse's, which has no types that could be narrowed.
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse words in which the formula and files may stand anywhere."""
        return super().parse_known_args(None if args is None else self._positionals_first(args), namespace)

    def _positionals_first(self, words: Sequence[str]) -> list[str]:
        """Return the words with formula and files first; unchanged if the user has separated them by ``--``."""
        if "--" in words:
            return list(words)
        # An option together with its values is a list of words.
        positionals, options, position = [], [], 0
        while position < len(words):
            if not _is_option(words[position]):
                positionals.append(words[position])
                position += 1
                continue
            end = self._end_of_values(words, position)
            options.append(list(words[position:end]))
            position = end
        has_scores = any(option[0].partition("=")[0] == "--scores" for option in options)
        if has_scores and len(positionals) < 2 and not any("~" in word for word in positionals):
            positionals.insert(0, FORMULA_OF_SCORES)
        self._take_lacking_files(positionals, options)
        return [*positionals, *(word for option in options for word in option)]

    def _end_of_values(self, words: Sequence[str], position: int) -> int:
        """Return the position after the last value of the option at a position."""
        max_values = 0 if "=" in words[position] else self._max_values(words[position])
        end = position + 1
        while end < len(words) and end - position <= max_values and not _is_option(words[end]):
            if max_values > 1 and is_formula(words[end]):
                break
            end += 1
        return end

    def _max_values(self, option: str) -> float:
        """Return the largest number of values of an option, which may be abbreviated."""
        actions = self._option_string_actions
        matches = (
            [actions[option]] if option in actions else [actions[name] for name in actions if name.startswith(option)]
        )
        if not matches:
            return 0
        return float("inf") if matches[0].nargs == "+" else 1 if matches[0].nargs is None else 0

    def _take_lacking_files(self, positionals: list[str], options: list[list[str]]) -> None:
        """Move files from the end of an option's values to the positional words, if files are lacking there."""
        expected = [action for action in self._actions if not action.option_strings]
        n_lacking = len(expected) - len(positionals)
        if positionals and is_formula(positionals[0]):
            # A formula is followed by one file, also in a subcommand that takes any number of stored results.
            n_lacking = 2 - len(positionals)
        takes_any_number = any(action.nargs == "+" for action in expected) and not positionals
        if n_lacking <= 0:
            return
        for option in reversed(options):
            files: list[str] = []
            while len(option) > 2 and known_file(option[-1]) and (takes_any_number or len(files) < n_lacking):
                files.insert(0, option.pop())
            if files:
                positionals.extend(files)
                return


class OneSpelling(argparse.RawDescriptionHelpFormatter):
    """Help that shows ``--min-labels`` alone, although ``--min_labels`` is accepted, too.

    Descriptions and examples keep their lines.
    """

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
    if len(word) < 2 or not word.startswith("-"):
        return False
    try:
        float(word)
    except ValueError:
        return True
    return False
