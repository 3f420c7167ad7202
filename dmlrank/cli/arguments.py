"""The options of the command line, and the keyword arguments of the API that they become."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ..datasets.eval_logs import READERS
from ..exceptions import OptionError, listed, nearest
from ..functionals import FUNCTIONALS
from ..options import DEFAULT_START, OPTIONS, EqualTasks
from .read_files import FORMATS
from .write_files import ENDINGS

LOG_OPTIONS = {
    "kind": f"which logs are read, where there are several kinds: {' '.join(READERS)}",
    "metric": "the metric of lm_eval, the named score of promptfoo, or the evaluation of every_eval_ever",
    "filter": "the filter of lm_eval",
    "scorer": "the scorer of inspect; NAME.KEY for a scorer that gives several values",
}
# Options of a fit that are options of the command line, too; of these, the subcommand check has the first five.
_NAMED = (
    *("context", "missing", "run", "position_bias", "judge"),
    *("functional", "estimator", "adjust", "weights", "propensity", "alpha", "rng"),
)
# Keywords of pairs_from_scores() that --set knows where --scores is given, and the columns that are models.
SCORE_OPTIONS = ("margin", "lower_is_better", "models")
# Keywords of read_log() that --set knows.
LOG_KEYWORDS = ("task", "skip_damaged")
# Words of a page that --set knows.
PAGE_WORDS = ("source", "unit", "links", "group")
_WORDS = {"yes": True, "true": True, "no": False, "false": False, "none": None, "null": None}

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
    for name in _NAMED[:5] if checked else _NAMED:
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


def add_outputs(
    command: argparse.ArgumentParser, out: str = "", title: bool = True, pictures: str = "", **what: str
) -> None:
    """Add an option for each file that a command can write; ``out`` is the kind of what --out writes."""
    if out:
        text = f"write the {out} in the format of the ending: {' '.join(ENDINGS[out])}{pictures}; may be repeated"
        add_option(command, "out", text, "OUT", action="append")
    for name, content in what.items():
        add_option(command, name, f"write {content}", "OUT")
    if title:
        add_option(command, "title", "title of the page", "TEXT")


# --- what they mean ---------------------------------------------------------------------------------------------------


def api_options(given: argparse.Namespace, further: Collection[str] = ()) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the keyword arguments of a fit in one flat list, and the values of --set with ``further`` names."""
    options: dict[str, Any] = {
        name: value for name in (*_NAMED, "groups", "progress") if (value := getattr(given, name, None)) is not None
    }
    if given.categories:
        options["categories"] = _meanings(given.categories)
    if given.tasks:
        if "weights" in options:
            raise OptionError("--tasks and --weights are both given, and both are weights of prompts; leave one out")
        options["weights"] = EqualTasks(given.tasks)
    of_command = (*further, *LOG_KEYWORDS, *(SCORE_OPTIONS if given.scores else ()))
    found = words_of_set(given, [*OPTIONS, "pairs", *of_command])
    own = {name: found.pop(name) for name in of_command if name in found}
    if twice := [name for name in found if name in options]:
        raise OptionError(f"{twice[0]} was given twice; give it once")
    options |= found
    inside = [name for name in options if name in OPTIONS and OPTIONS[name].group == "pairs"]
    if "pairs" in options and inside:
        raise OptionError(f"pairs={options['pairs']} and {listed(inside)} are both about pairs; leave one out")
    return options, own


def words_of_set(given: argparse.Namespace, known: Collection[str] = ()) -> dict[str, Any]:
    """Return the values of --set by name; names that are not ``known``, where some are, are refused."""
    found: dict[str, Any] = {}
    for text in given.set or ():
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise OptionError(f"--set has {text!r}; give NAME=VALUE, such as min_labels=2")
        if known and name not in known:
            raise OptionError(f"--set knows no option {name!r}; allowed: {listed(known, 99)}{nearest(name, known)}")
        if name in found:
            raise OptionError(f"{name} was given twice; give it once")
        found[name] = _value_of(name, value)
    return found


def page_words(given: argparse.Namespace, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a page says of itself, as keyword arguments of ``report()``."""
    page = {name: own[name] for name in PAGE_WORDS if name in own}
    if page and given.report is None:
        raise OptionError(f"{next(iter(page))} is a word of the page of --report; give --report FILE.html, too")
    return page


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


def refuse_fit_options(given: argparse.Namespace, *also: str) -> None:
    """Check that no option of a fit is given, since stored results are read and nothing is fitted."""
    for name in (*_NAMED, "groups", "categories", "scores", "progress", "tasks", *LOG_OPTIONS, *also):
        if getattr(given, name, None) is not None:
            raise OptionError(
                f"--{name.replace('_', '-')} is an option of a fit, but a stored result is read, and nothing is "
                f"fitted; leave the option out"
            )
