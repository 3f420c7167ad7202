"""What the command line takes, in the words of the API."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ._options import (
    CATEGORY_WEIGHTS,
    COMPONENTS,
    COV_TYPES,
    EDGE_WEIGHTS,
    ESTIMATORS,
    GRAPHS,
    JUDGE_AS,
    LEARNERS,
    MISSING,
    PROMPTS,
    VOTES,
)

# What a file's ending says it is.
KINDS = {
    ".csv": "csv",
    ".json": "JSON lines",
    ".jsonl": "JSON lines",
    ".ndjson": "JSON lines",
    ".parquet": "parquet",
    ".feather": "Arrow IPC",
    ".arrow": "Arrow IPC",
}


def _floor(text: str) -> float | str:
    """A number, or a word for the API to judge."""
    try:
        return float(text)
    except ValueError:
        return text


# Options of the API that are passed on as they are; None means that the API's default holds.
OPTIONS: dict[str, dict[str, Any]] = {
    "functional": {"help": "borda, bt, rank_centrality, dominance or softmin (default borda)"},
    "context": {"nargs": "+", "metavar": "COLUMN", "help": "columns that identify a prompt"},
    "propensity": {"help": "estimate, marginal or the name of a column (default estimate)"},
    "propensity_formula": {"metavar": "'~ FEATURES'", "help": "what selection saw, where not the formula's features"},
    "estimator": {"choices": ESTIMATORS},
    "judge": {"nargs": "+", "metavar": "COLUMN", "help": "verdicts of judges: a column each, or p_a p_b p_tie of one"},
    "judge_as": {"choices": JUDGE_AS, "help": "how verdicts are used (default two-stage)"},
    "learner": {"choices": LEARNERS, "help": "smooth main effects, then LightGBM (auto, the default); or that alone"},
    "n_folds": {"type": int, "metavar": "N"},
    "n_rep": {"type": int, "metavar": "N", "help": "repetitions with other folds (default 1)"},
    "position_bias": {
        "action": argparse.BooleanOptionalAction,
        "help": "whether order makes a pair another pair (default yes)",
    },
    "graph": {"choices": GRAPHS},
    "min_labels": {"type": int, "metavar": "N", "help": "labels that a pair needs in each order (default 10)"},
    "component": {"choices": COMPONENTS},
    "min_comparisons": {"type": int, "metavar": "N", "help": "models with fewer labelled prompts are dropped"},
    "edge_weights": {"choices": EDGE_WEIGHTS},
    "weights": {"metavar": "COLUMN", "help": "weights of prompts in the target population"},
    "category_weights": {"choices": CATEGORY_WEIGHTS},
    "prompts": {"choices": PROMPTS, "help": "whether intervals are about new prompts or these alone"},
    "floor": {
        "type": _floor,
        "metavar": "P",
        "help": "smallest probability of a category (default: auto, by log-loss)",
    },
    "subsample": {"type": int, "metavar": "M", "help": "prompts over which F(mu) is averaged (default all)"},
    "cov_type": {"choices": COV_TYPES},
    "missing": {"choices": MISSING},
    "votes": {"choices": VOTES, "help": "repeated votes on a prompt and pair: their mean, or the first"},
    "alpha": {"type": float, "metavar": "A", "help": "one minus the confidence level (default 0.05)"},
    "rng": {"type": int, "metavar": "SEED"},
    "n_jobs": {"type": int, "metavar": "N", "help": "threads (default: all cores)"},
    "progress": {"action": "store_const", "const": True, "help": "a bar, or in a log lines, on standard error"},
}
# Those that a check takes.
CHECKED = ("context", "min_labels", "missing", "n_folds")


def add_fit_options(command: argparse.ArgumentParser) -> None:
    """A formula, a file, and every option of a fit."""
    add_options(command, list(OPTIONS))
    add_files_and_tuning(command)


def add_files_and_tuning(command: argparse.ArgumentParser) -> None:
    """Options of a fit whose words are not the API's keywords as they stand."""
    command.add_argument("--tune", choices=("cv", "random", "none"))
    command.add_argument("--unlabelled", metavar="FILE", help="further prompts without a label")
    frames = "verdicts of a judge in a file of their own: prompt, both models, verdict; NAME=FILE of several judges"
    command.add_argument("--judge-file", nargs="+", metavar="FILE", help=frames)


def add_outputs(command: argparse.ArgumentParser, **what: str) -> None:
    """Files to write: an option for each keyword, whose value says what is written."""
    for name, written in what.items():
        command.add_argument(f"--{name}", metavar="OUT", help=f"write {written}")


def add_design_options(command: argparse.ArgumentParser) -> None:
    """What a plan is asked for, and where it goes."""
    command.add_argument("--budget", type=float, required=True, metavar="B", help="what all labels may cost together")
    command.add_argument("--criterion", choices=("A", "D"), default="A")
    asked = command.add_mutually_exclusive_group()
    asked.add_argument("--contrasts", nargs="+", metavar="'A - B'", help="differences that matter, not all scores")
    asked.add_argument("--top", type=int, metavar="N", help="what matters are the differences among the N best")
    asked.add_argument("--against", metavar="MODEL", help="what matters are one model's differences from the others")
    command.add_argument("--costs", type=float, default=1.0, metavar="C", help="cost of a label (default 1)")
    command.add_argument("--min-propensity", type=float, metavar="P", help="smallest propensity of a pair")
    command.add_argument("--one-pair", action="store_true", help="at most one label for a prompt")
    command.add_argument("--explore", type=float, default=0.0, metavar="SHARE", help="share of a uniform plan mixed in")
    command.add_argument("--new", dest="prompts_file", metavar="FILE", help="prompts to plan for (default: the fit's)")
    command.add_argument("--out", metavar="OUT", help="write what to label, with propensities: .csv or .json")
    command.add_argument("--plot", metavar="OUT", help="write the heat map of labels (needs matplotlib)")


def add_options(command: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """A formula, a file, and some options."""
    command.add_argument("formula", metavar="FORMULA", help="'winner ~ features | model_a + model_b'")
    command.add_argument("file", metavar="FILE", help=", ".join(KINDS))
    add_keywords(command, names)


def add_keywords(command: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """Options by name, groups and categories."""
    for name in names:
        command.add_argument(f"--{name}", f"--{name.replace('_', '-')}", **OPTIONS[name])
    command.add_argument(
        "--groups", nargs="+", metavar="COLUMN", help="cov_kwds groups: prompt, or prompt and annotator"
    )
    command.add_argument(
        "--categories", nargs="+", metavar="LABEL=MEANING", help="meanings of labels that are not known"
    )
