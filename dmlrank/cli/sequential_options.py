"""Command-line options for looks at growing data: ``--sequential PLANNED`` and ``--start N``."""

from __future__ import annotations

import argparse

from ..exceptions import OptionError
from ..inference.confidence_sequence import DEFAULT_START
from ..results.rank_results import RankResults

# Options of ``fit`` whose results hold for one look only.
_AT_ONE_LOOK = ("by", "sensitivity", "bootstrap")


def add_sequential_options(command: argparse.ArgumentParser) -> None:
    """Add ``--sequential`` and ``--start`` to a subcommand."""
    planned = (
        "intervals, tests and rank sets that hold at all looks at growing data at once; PLANNED is the number of "
        "prompts, or of clusters with --groups, at which you expect to decide; choose it before the first look"
    )
    command.add_argument("--sequential", type=int, metavar="PLANNED", help=planned)
    start = f"prompts, or clusters, at the first look, with --sequential (default {DEFAULT_START})"
    command.add_argument("--start", type=int, metavar="N", help=start)


def check_sequential_options(arguments: argparse.Namespace) -> None:
    """Raise where options do not go together, before a fit is computed."""
    if arguments.sequential is None:
        if arguments.start is not None:
            raise OptionError("--start is the size of the first look of --sequential PLANNED; give --sequential, too")
        return
    for option in _AT_ONE_LOOK:
        if getattr(arguments, option, None):
            raise OptionError(
                f"--sequential with --{option}: the results of --{option} hold for one look only; leave out one of the "
                f"two options"
            )


def as_sequential(results: RankResults, arguments: argparse.Namespace) -> RankResults:
    """Return the sequential view that the options ask for, or the results themselves."""
    if arguments.sequential is None:
        return results
    start = DEFAULT_START if arguments.start is None else arguments.start
    return results.sequential(arguments.sequential, start)
