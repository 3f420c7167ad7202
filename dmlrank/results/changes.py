"""Changes of scores from one result to others: which results may be compared score by score, and the tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.linalg import block_diag

from .._utils.blas import one_thread
from ..data.hypotheses import LinearHypothesis
from ..data.preferences import FloatArray, IntArray
from ..exceptions import OptionError, check_choice, listed
from ..fit.estimates import Estimates
from ..inference.alternatives import two_sided_p_values, z_statistics
from ..inference.covariance import Covariance
from ..inference.simultaneous import PAIR_METHODS as PAIR_METHODS
from ..inference.simultaneous import MaxT, compare_differences
from ..inference.wald import WaldTestResults
from .joint_estimates import JointEstimates

_COLUMNS = ["estimate", "std_error", "statistic", "p_value", "p_adjusted", "conf_low", "conf_high"]


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """Scores of the models that all results share, in each later result minus the first one.

    names: Names of the R results; the first is the reference.
    models: The K models that all results have, in the order of the first result's scores.
    before (K,): Scores in the first result, on the common level.
    after (R - 1, K): Scores in the later results, on the common level.
    covariance: Covariance of the changes, result by result, in (R - 1) K dimensions.
    alpha: One minus the default level of the intervals.
    seed: Seed of the draws of critical values.
    level_note: What the common level of the scores is, in a sentence.
    """

    names: tuple[str, ...]
    models: tuple[str, ...]
    before: FloatArray
    after: FloatArray
    covariance: Covariance
    alpha: float
    seed: int
    level_note: str

    @property
    def estimate(self) -> FloatArray:
        """The changes, result by result, ((R - 1) K,)."""
        return np.asarray((self.after - self.before).ravel())

    @one_thread()
    def test(self) -> WaldTestResults:
        """Test by one Wald test that all changes are zero."""
        names = tuple(f"{name}: {model} - {self.names[0]}: {model}" for name in self.names[1:] for model in self.models)
        joint = JointEstimates(
            kind="result",
            blocks=tuple(np.repeat(np.array(self.names[1:], dtype=object), len(self.models))),
            models=self.models * (len(self.names) - 1),
            estimate=self.estimate,
            covariance=self.covariance,
            reason=self.level_note,
            alpha=self.alpha,
            seed=self.seed,
        )
        return joint.wald_test(LinearHypothesis(np.eye(len(names)), np.zeros(len(names)), names))

    @one_thread()
    def of_models(self, alpha: float, method: str) -> pd.DataFrame:
        """Return the change of every model, with simultaneous intervals and adjusted p-values."""
        errors = self.covariance.std_errors
        z = z_statistics(self.estimate, errors)
        p = two_sided_p_values(z)
        max_t = MaxT(self.covariance)
        half_width = max_t.critical(alpha, method) * errors
        n_varying = max(1, int((errors > 0).sum()))
        adjusted = {
            "max-t": lambda: max_t.adjusted_p_values(z, centred=False),
            "bonferroni": lambda: np.minimum(1.0, p * n_varying),
            "none": lambda: p,
        }[method]()
        return pd.DataFrame(
            {
                "result": np.repeat(np.array(self.names[1:], dtype=object), len(self.models)),
                "model": list(self.models) * (len(self.names) - 1),
                "before": np.tile(self.before, len(self.names) - 1),
                "after": self.after.ravel(),
                "estimate": self.estimate,
                "std_error": errors,
                "statistic": z,
                "p_value": p,
                "p_adjusted": adjusted,
                "conf_low": self.estimate - half_width,
                "conf_high": self.estimate + half_width,
            }
        )

    @one_thread()
    def of_pairs(self, alpha: float, method: str) -> pd.DataFrame:
        """Return the change of the difference between every two models, with simultaneous intervals."""
        check_choice(method, PAIR_METHODS, "method")
        n_models, n_later = len(self.models), len(self.names) - 1
        pairs = np.triu_indices(n_models, 1)
        first, second = (np.concatenate([places + n_models * r for r in range(n_later)]) for places in pairs)
        tests = compare_differences(
            self.estimate,
            MaxT(self.covariance, self.seed),
            first,
            second,
            method=method,
            alpha=alpha,
        )
        labels = np.array(self.models, dtype=object)
        numbers = (tests.estimate, tests.std_error, tests.statistic, tests.p_value, tests.p_adjusted)
        columns = dict(zip(_COLUMNS, (*numbers, tests.low, tests.high), strict=True))
        return pd.DataFrame(
            {
                "result": np.repeat(np.array(self.names[1:], dtype=object), len(pairs[0])),
                "first": labels[first % n_models],
                "second": labels[second % n_models],
                "before": np.tile(self.before[pairs[0]] - self.before[pairs[1]], n_later),
                "after": (self.after[:, pairs[0]] - self.after[:, pairs[1]]).ravel(),
                **columns,
            }
        )


@one_thread()
def changes_between(names: Sequence[str], results: Sequence[Estimates], joint: JointEstimates) -> Changes:
    """Return the changes from the first result to each later one."""
    for name, result in zip(names[1:], results[1:], strict=True):
        reason = why_not_comparable(results[0], result)
        if reason:
            raise OptionError(
                f"{name!r} minus {names[0]!r} is no change of scores: {reason}; ranks, reversals() and t_test() of "
                f"hypotheses about each result remain"
            )
    in_all = [set(result.models) for result in results]
    order = np.argsort(-results[0].estimate, kind="stable")
    models = tuple(results[0].models[j] for j in order if all(results[0].models[j] in names for names in in_all))
    if len(models) < 2:
        raise OptionError(
            f"{listed(names)} have {listed(models) if models else 'no model'} in common; changes need at least two "
            f"models that all results have"
        )
    has_other_models = any(len(result.models) > len(models) for result in results)
    common_level, level, level_note = _common_level(results[0], models, has_other_models)
    maps = [common_level @ _selection(result.models, models) for result in results]
    scores = [matrix @ result.estimate + level for matrix, result in zip(maps, results, strict=True)]
    stacked = block_diag(*maps)
    differences = np.kron(np.hstack([-np.ones((len(results) - 1, 1)), np.eye(len(results) - 1)]), np.eye(len(models)))
    return Changes(
        tuple(names),
        models,
        scores[0],
        np.stack(scores[1:]),
        _mapped(joint.covariance, differences @ stacked),
        joint.alpha,
        joint.seed,
        level_note,
    )


def why_not_comparable(first: Estimates, other: Estimates) -> str:
    """Return why the scores of two results are different quantities; an empty text where they are the same quantity."""
    a, b = first, other
    checks = (
        ("their estimators are {} and {}", a.estimator, b.estimator),
        ("their functionals are {} and {}", a.functional_label, b.functional_label),
        ("their units are {} and {}; rescale both alike", _unit(a), _unit(b)),
        ("they are about {} and {}", a.part or "all prompts", b.part or "all prompts"),
        ("prompts= is {} and {}; fit both alike", a.description.prompts, b.description.prompts),
        ("average= is {} and {}; fit both alike", _averaged(a), _averaged(b)),
        ("ties and other categories count differently ({} and {})", *_other_weights(a, b)),
    )
    for text, left, right in checks:
        if left != right:
            return text.format(repr(left), repr(right))
    return "" if a.estimated_by.assumes_bradley_terry else _why_other_mean(a, b)


def _why_other_mean(a: Estimates, b: Estimates) -> str:
    """Return why two results average over other opponents, pairs or features; an empty text where they do not."""
    only = sorted(set(a.models) ^ set(b.models))
    if only:
        return (
            f"their models differ ({listed(only, 5)} in one of them only), and without a Bradley-Terry model each "
            f"score depends on all models of its result; fit both to the votes between the models that they share"
        )
    places = [b.models.index(name) for name in a.models]
    n_pairs = int((a.graph.edges != b.graph.edges[np.ix_(places, places)]).sum()) // 2
    if n_pairs:
        return (
            f"{n_pairs:,} pairs of models are compared in one of them only, and without a Bradley-Terry model each "
            f"score depends on the compared pairs; fit both with the same pairs as graph="
        )
    weights = (a.description.edge_weights, b.description.edge_weights)
    if weights[0] != weights[1] or weights[0] in ("counts", "votes"):
        return (
            f"edge_weights= is {weights[0]!r} and {weights[1]!r}, so that pairs count differently; fit both with "
            f"edge_weights='equal'"
        )
    features = [e.description.formula.split("~", 1)[-1].split("|")[0].strip() for e in (a, b)]
    if not a.kind.linear and not a.averages_preferences and features[0] != features[1]:
        return (
            f"their features are {features[0]!r} and {features[1]!r}, and the mean score over prompts depends on the "
            f"features that preferences are given; fit both with the same features, or with average='preferences'"
        )
    return ""


def _unit(e: Estimates) -> str:
    """Return the unit and level of scores in words."""
    level = "" if e.scale.anchor is None else f", {e.scale.anchor[0]} at {e.scale.anchor[1]:g}"
    mean = "" if e.scale.mean is None else f", mean {e.scale.mean:g}"
    return f"{e.scale.name if e.scale.natural else e.scale.request}{mean}{level}"


def _averaged(e: Estimates) -> str:
    """Return what is averaged over prompts: "preferences" or "scores"; "scores" for linear functionals."""
    return "preferences" if e.averages_preferences else "scores"


def _other_weights(a: Estimates, b: Estimates) -> tuple[str, str]:
    """Return the weights of the categories that both results have, as text."""
    weights = [{name: numbers for name, *numbers in e.description.tie_weights} for e in (a, b)]
    shared = [name for name in weights[0] if name in weights[1]]
    texts = [", ".join(f"{name} {numbers}" for name, numbers in of.items() if name in shared) for of in weights]
    return (texts[0], texts[1]) if weights[0].keys() and weights[1].keys() else ("", "")


def _common_level(first: Estimates, models: Sequence[str], has_other_models: bool) -> tuple[FloatArray, float, str]:
    """Return the map of scores to a common level, (K, K), a constant that is added, and a sentence about the level."""
    n_models, scale = len(models), first.scale
    if scale.anchor is not None and scale.anchor[0] in models:
        name, score = scale.anchor
        matrix = np.eye(n_models)
        matrix[:, models.index(name)] -= 1.0
        return matrix, score, f"Changes are relative to {name}, whose score is fixed at {score:g}."
    centring = np.eye(n_models) - 1 / n_models
    if has_other_models:
        note = "Scores are relative to the mean of the models that all results have, so that the changes sum to zero."
        return centring, 0.0, note
    is_mean_fixed = bool((np.abs(first.covariance.basis.sum(axis=0)) < 1e-9).all())
    if is_mean_fixed or scale.mean is not None:
        note = "The mean score is fixed, so that a change is relative to the mean of all models."
        return (np.eye(n_models), 0.0, note) if is_mean_fixed else (centring, scale.mean or 0.0, note)
    return np.eye(n_models), 0.0, ""


def _selection(models: Sequence[str], chosen: Sequence[str]) -> FloatArray:
    """Return the matrix, (k, K), that selects the scores of some models."""
    places: IntArray = np.array([models.index(name) for name in chosen])
    return np.eye(len(models))[places]


def _mapped(covariance: Covariance, matrix: FloatArray) -> Covariance:
    """Return the covariance of linear combinations of scores, with the free directions of the combinations.

    Shapes: matrix (m, d).
    """
    left, size, _ = np.linalg.svd(matrix @ covariance.basis, full_matrices=False)
    basis = left[:, size > 1e-9 * size.max(initial=0.0)]
    mapped = matrix @ covariance.matrix @ matrix.T
    projected = basis @ (basis.T @ mapped @ basis) @ basis.T
    # The functional may fix a combination of scores in all results. The variance of this combination is a rounding
    # error, and is set to zero.
    largest = np.abs(projected).max(initial=0.0)
    is_fixed = np.diag(projected) <= 1e-13 * largest
    projected[is_fixed] = projected[:, is_fixed] = 0.0
    return Covariance(np.asarray((projected + projected.T) / 2), basis, covariance.n_clusters, covariance.note)
