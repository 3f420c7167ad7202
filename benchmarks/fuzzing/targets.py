"""All targets by name, and the function that runs one case of a target."""

from __future__ import annotations

import tempfile
import warnings
import zlib
from collections.abc import Callable

import numpy as np

import dmlrank as dr

from . import commands, fits, frames, logs, others, questions, stored
from .draws import Generator
from .watch import Watch, silence, time_limit

Target = Callable[[Generator, Watch, str], None]

TARGETS: dict[str, Target] = {
    f"{module.__name__.rpartition('.')[2]}.{name}": getattr(module, name)
    for module, names in (
        (fits, ("suitable", "odd_options", "odd_formulas", "likelihood")),
        (questions, ("hypotheses", "odd_hypotheses", "methods")),
        (stored, ("json_bytes",)),
        (commands, ("same_as_api", "odd_words", "odd_files")),
        (frames, ("odd_frames",)),
        (logs, ("mutated",)),
        (others, ("scores", "odd_tables", "plans", "helpers")),
    )
    for name in names
}

# Longest time of a case in seconds of the processor. A fit of these sizes takes less than one.
LIMIT = 30.0


def run_case(name: str, seed: int, watch: Watch, limit: float = LIMIT) -> None:
    """Run one case of a target; raise a finding where dmlrank breaks a promise.

    name: Name of the target.
    seed: The case; the same seed is the same case.
    limit: Seconds after which a case counts as one that hangs.
    """
    rng = np.random.default_rng([zlib.crc32(name.encode()), seed])
    with (
        tempfile.TemporaryDirectory() as folder,
        silence(f"{name} {seed}"),
        time_limit(limit),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", dr.DmlrankWarning)
        TARGETS[name](rng, watch, folder)
