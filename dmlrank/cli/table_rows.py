"""Command-line options for the printed table: ``--models`` and ``--top`` choose rows, ``--slim`` the short table."""

from __future__ import annotations

import argparse
from typing import Any

from .._utils.argument_checks import check_whole
from ..data.derived_pairs import DerivedPairs
from ..data.formula.parse import parse_formula
from ..data.frames import column_names, take_columns
from ..data.plain_columns import name_of
from ..exceptions import OptionError
from ..report.leaderboard import choose_models
from .read_files import Frame


def add_table_options(command: argparse.ArgumentParser, *, has_slim: bool = False) -> None:
    """Add the options that choose the rows of the table, and with ``has_slim`` the option of the short table."""
    group = command.add_argument_group("the table that is printed and written as text, HTML, LaTeX or Markdown")
    rows = group.add_mutually_exclusive_group()
    rows.add_argument("--models", nargs="+", metavar="NAME", help="show these models only, in this order")
    rows.add_argument("--top", type=int, metavar="N", help="show the N models with the highest scores only")
    if has_slim:
        short = "show the short table for publication: rank set, model, score, interval and votes"
        group.add_argument("--slim", action="store_true", help=short)


def check_table_options(arguments: argparse.Namespace) -> None:
    """Check, before anything is computed, the options of the table that can be judged without the data."""
    if arguments.top is not None:
        check_whole("--top", arguments.top, 1)
    if arguments.models:
        choose_models(arguments.models, range(len(arguments.models)), arguments.models)
    if getattr(arguments, "slim", False) and arguments.by:
        raise OptionError("--slim was given with --by, but scores by group have no short table; leave one of them out")


def check_models_of_table(arguments: argparse.Namespace, formula: str, frame: Frame | DerivedPairs) -> None:
    """Check before the fit that the data have the models that ``--models`` names.

    Pairs that follow from benchmark scores are not searched; a wrong name is then found after the fit.
    """
    if not arguments.models or isinstance(frame, DerivedPairs):
        return
    parts = parse_formula(formula)
    if {parts.first, parts.second} <= set(column_names(frame)):
        sides = (parts.first, parts.second)
        columns: Any = take_columns(frame, sides) if isinstance(frame, str) else frame
        cells = [cell for name in sides for cell in columns[name].unique().tolist()]
        names = sorted({name_of(cell) for cell in cells if cell is not None and cell == cell})
        choose_models(names, range(len(names)), arguments.models)


def table_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments ``models`` and ``top`` of ``summary()``."""
    return {"models": arguments.models, "top": arguments.top}
