"""One leaderboard of a page: results, level and tests, and the numbers for the page's scripts."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...data.preferences import FloatArray, IntArray
from ...exceptions import OptionError
from ...fit.estimates import Estimates
from ...inference.ranks import rank_bounds
from ...inference.simultaneous import PairTests
from ...tables.display_text import printable
from ..leaderboard import score_digits
from ..statements import SummaryLevel


@dataclass(frozen=True, slots=True, eq=False)
class Board:
    """One leaderboard of a page.

    name: Text of the leaderboard's tab.
    level: The level of confidence, with critical value, separation and letters.
    tests: Two-sided max-t tests of all differences: the best model with each of the others, then the second best with
        each of those below it, and so on. None where there are no intervals or no models.
    is_explained: Whether the page explains method, assumptions and diagnostics below this leaderboard.
    remarks: Titles and paragraphs of further sections below the leaderboard.
    pictures: Titles, pictures (SVG) and paragraphs of further sections with a picture.
    """

    name: str
    results: Estimates
    level: SummaryLevel
    tests: PairTests | None
    is_explained: bool = True
    remarks: tuple[tuple[str, tuple[str, ...]], ...] = ()
    pictures: tuple[tuple[str, str, tuple[str, ...]], ...] = ()

    def __post_init__(self) -> None:
        if self.tests is not None:
            first, second = np.triu_indices(len(self.order), 1)
            if not (self.tests.first == self.order[first]).all() or not (self.tests.second == self.order[second]).all():
                raise OptionError("tests of a page must compare all models, the best first")

    @property
    def order(self) -> IntArray:
        """Places of the estimates in the order of the page: the best model first; outputs keep their order."""
        if not self.results.of_models:
            return np.arange(len(self.results.names))
        return np.argsort(-self.results.estimate, kind="stable")


_FIGURES = 9
# Characters that could end the script element, or that old parsers read as the end of a line.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def script_json(value: object) -> str:
    r"""Return a value as JSON that is safe within a ``script`` element: ASCII without ``<``, ``>`` and ``&``."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)


def content_hash(text: str) -> str:
    """Return the source expression of an inline script or style in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def board_data(board: Board) -> dict[str, object]:
    """Return the numbers of a leaderboard for the page's scripts: a list per column, in the order of the page.

    The scripts read the names, which may be long, from the table.
    """
    results, order = board.results, board.order
    low, high = results.intervals(board.level.critical)
    data: dict[str, object] = {
        "name": printable(board.name),
        "score": _rounded(results.estimate[order]),
        "digits": score_digits(results),
        "level": board.level.confidence,
        "ofModels": results.of_models,
        "about": _about(board),
    }
    if results.kind.link == "logit":
        data["unit"] = results.scale.factor
    if results.has_intervals:
        data |= {"se": _rounded(results.std_errors[order]), "low": _rounded(low[order]), "high": _rounded(high[order])}
    if results.of_models and not results.are_means:
        data["share"] = _rounded(results.shares[order])
    if results.of_models and results.votes is not None and not results.are_means:
        data |= {"votes": results.votes.used[order].tolist(), "allVotes": results.votes.total[order].tolist()}
    if board.level.separation is not None:
        best, worst = rank_bounds(board.level.separation.above)
        data |= {
            "best": best[order].tolist(),
            "worst": worst[order].tolist(),
        }
        data |= {"group": [board.level.letters[j] for j in order]} if any(board.level.letters) else {}
    if board.tests is None and results.has_intervals:
        # Leaderboards have the standard errors of all differences instead, which the covariance follows from.
        matrix = results.covariance.matrix[np.ix_(order, order)]
        data["covariance"] = [list(_rounded(row)) for row in matrix]
    if board.tests is not None and board.level.separation is not None:
        tests = board.tests
        separated = board.level.separation.separated[tests.first, tests.second]
        # Numbers of 32 bits, the low byte first, which keep seven digits; truth values as bits, the lowest bit first.
        numbers = {"se": tests.std_error.astype("<f4"), "p": tests.p_adjusted.astype("<f4")}
        packed = numbers | {"separated": np.packbits(separated, bitorder="little")}
        data["pairs"] = {
            "critical": _finite(tests.critical),
            **{name: base64.b64encode(part.tobytes()).decode() for name, part in packed.items()},
        }
    return data


def _about(board: Board) -> Mapping[str, object]:
    """Return what identifies the fit in downloaded files."""
    results = board.results
    description, sequence = results.description, results.sequence
    looks: dict[str, object] = {}
    if sequence is not None:
        unit = printable(sequence.unit)
        looks = {"sequential": {"planned": sequence.planned, "start": sequence.start, "unit": unit}}
    return {
        "formula": printable(description.formula),
        "functional": printable(results.functional_label),
        "scale": printable(results.scale.name),
        "estimator": results.estimator,
        "part": printable(results.part),
        "learner": printable(description.learner),
        "covarianceType": description.cov_type,
        "clusters": [printable(name) for name in description.clusters],
        "constraint": printable(results.reason),
        "prompts": description.n_contexts,
        f"{results.counts}s": description.n_votes,
        "level": float(f"{1 - board.level.alpha:.12g}"),
        "alpha": board.level.alpha,
        "critical": _finite(board.level.critical),
        "whyNoIntervals": printable(results.why_no_intervals),
        **looks,
        "seed": description.seed,
        "version": description.version,
    }


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _rounded(values: FloatArray) -> Sequence[float | None]:
    """Return numbers with nine significant figures; None where a number is not finite."""
    return [float(f"{value:.{_FIGURES}g}") if np.isfinite(value) else None for value in values]
