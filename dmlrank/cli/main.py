"""The command line: runs a command, prints what it says, and ends with its exit code."""

# Nothing else is imported here, so that Ctrl-C while the package is loaded ends as it does later.
import os
import sys
from collections.abc import Sequence

# Exit status after an error; argparse ends with 2 where words cannot be parsed. By the custom of shells, the other two
# are those of a process that ended by Ctrl-C and of one that ended by a closed pipe.
_ERROR, _INTERRUPTED, _BROKEN_PIPE = 1, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        return _failed("interrupted; files that were already written stay, other files are unchanged", _INTERRUPTED)


def _run(words: Sequence[str]) -> int:
    """Run a command and return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        # A name that the encoding of the output lacks is printed as an escape. Streams of notebooks are others.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    from .command_words import COMMANDS, answer_without_command

    if not words or words[0] not in COMMANDS:
        answer_without_command(words)
    from .._utils.tasks_and_threads import warnings_as_lines
    from ..exceptions import DmlrankError
    from .commands import parse

    given = parse(words)
    try:
        with warnings_as_lines(lambda text: f"dmlrank: warning: {text}"):
            said = given.carry_out(given)
    except DmlrankError as error:
        return _failed(str(error))
    except MemoryError as error:
        reason = f" ({error})" if str(error) else ""
        return _failed(f"there is not enough memory{reason}; fewer features and folds need less")
    try:
        # Python has no standard output where the caller has closed it.
        print(said.text, flush=sys.stdout is not None)
    except OSError as error:
        # To the null device, because Python prints the remaining output again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE if isinstance(error, BrokenPipeError) else _failed(f"the output cannot be printed: {error}")
    return _failed(said.error) if said.error else said.status


def _failed(message: str, status: int = _ERROR) -> int:
    """Print the message of an error as one line; return the exit status."""
    print(f"dmlrank: {' '.join(message.split())}", file=sys.stderr)
    return status
