"""The option ``--bootstrap`` of the command ``fit``, and the calls that it changes."""

from __future__ import annotations

import argparse
from typing import Any

from ..exceptions import OptionError
from ..inference.resampling import MULTIPLIERS


def add_bootstrap_option(command: argparse.ArgumentParser) -> None:
    """Add ``--bootstrap``."""
    text = "multiplier bootstrap for intervals, rank sets and tests of pairs; use webb with 30 clusters or fewer"
    command.add_argument("--bootstrap", choices=MULTIPLIERS, help=text)


def check_bootstrap_option(arguments: argparse.Namespace) -> None:
    """Check, before anything is computed, that the other options have a bootstrap."""
    if arguments.bootstrap is None:
        return
    if arguments.by:
        raise OptionError("--bootstrap was given with --by, but scores by group have none; leave one of them out")
    if arguments.method != "max-t":
        raise OptionError(
            f"--bootstrap was given with --method {arguments.method}, but only the intervals of max-t have a "
            f"bootstrap; leave one of them out"
        )


def bootstrap_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the argument ``bootstrap`` of the Python API; empty where the option is not given."""
    return {} if arguments.bootstrap is None else {"bootstrap": arguments.bootstrap}
