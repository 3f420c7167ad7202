"""Several criteria in one fit: scores of any weighting, and models that are first for some weighting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import comb

import numpy as np
import pandas as pd

from .._utils.argument_checks import real_number
from .._utils.computation import one_thread
from .._utils.number_text import decimals
from ..data.preferences import FloatArray
from ..exceptions import OptionError, OptionTypeError, listed, nearest, shown
from ..inference.covariance import Covariance
from ..report.page.render_page import Board, Weighting
from ..tables.summary_table import Summary
from .comparison import Comparison, named_results
from .joint_results import mapped_covariance
from .rank_results import RankResults, result_of
from .views import alpha_or_default

# Draws for intervals at all weightings, and the largest number of weightings of a grid.
_DRAWS, _MOST_WEIGHTINGS = 20_000, 2000
_SEED = 7_041_963


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Criteria(Comparison):
    """Scores of K models on M criteria with one covariance: a fit of ``"accuracy + style ~ 1 | model"``.

    ``results`` are the leaderboards of the criteria, and tests name scores as ``"style: gpt-4"``.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dmlrank as dr
    >>> task, model = (index.ravel() for index in np.indices((200, 3)))
    >>> noise = np.random.default_rng(0).normal(size=(2, 600))
    >>> table = pd.DataFrame({"task": task, "model": np.array(list("abc"))[model]})
    >>> table = table.assign(right=model + noise[0], style=-2 * model + noise[1])
    >>> res = dr.dml_rank("right + style ~ 1 | model", table, context="task", rng=0)
    >>> res.weighted({"right": 0.9, "style": 0.1}).params.idxmax(), res.weighted({"style": 1}).params.idxmax()
    ('c', 'a')
    >>> res.first_for_some_weighting()["shown"].to_dict()
    {'a': True, 'b': False, 'c': True}
    """

    def weighted(self, weights: Mapping[str, float]) -> RankResults:
        """Return the leaderboard of one weighting that was chosen before the data were seen.

        Parameters
        ----------
        weights : mapping
            A number of at least zero by criterion; criteria that are not named have none. Weights are divided by their
            sum.

        Returns
        -------
        RankResults
            Its intervals, tests and rank sets are those of the weighted scores. For weightings that are tried out, use
            :meth:`at_weights`.

        Raises
        ------
        OptionError
            If a criterion is unknown, or weights are no positive numbers.
        """
        w, first = self._weights(weights), self.results[0].estimates
        n_models = len(first.models)
        matrix: FloatArray = np.asarray(np.kron(w, np.eye(n_models)), dtype=np.float64)
        by_criterion = np.stack([result.estimates.plugin for result in self.results])
        label = " + ".join(f"{share:.3g} {name}" for name, share in zip(self.names, w, strict=True) if share)
        estimates = replace(
            first,
            functional_label=f"weighted mean: {label}",
            estimate=matrix @ self.joint.estimate,
            plugin=w @ by_criterion,
            covariance=mapped_covariance(self.joint.covariance, matrix),
            fixed=np.zeros(n_models, dtype=bool),
        )
        return result_of(estimates)

    def at_weights(self, weights: Mapping[str, float], alpha: float | None = None) -> pd.DataFrame:
        """Return scores of a weighting with intervals that hold for all weightings and models at once.

        Parameters
        ----------
        weights : mapping
            As for :meth:`weighted`; weightings may be tried out, as on the page.
        alpha : float, optional
            One minus the joint level; the fit's when None.

        Returns
        -------
        DataFrame
            A row per model: ``score``, ``std_error``, ``lower`` and ``upper``.

        Raises
        ------
        OptionError
            If a criterion is unknown, or weights are no positive numbers.

        Notes
        -----
        The interval of model j at weights w is w'theta_j +- c sqrt(w' V_j w), where V_j is the covariance of the
        model's scores on the criteria. By Scheffe's argument it holds for all w together if c^2 is the quantile of the
        largest (theta_j - true theta_j)' V_j^- (theta_j - true theta_j) over models, which is drawn.
        """
        w, joint = self._weights(weights), self.joint
        error = np.sqrt(np.maximum(np.einsum("m,jmn,n->j", w, self._blocks, w), 0.0))
        score = w @ joint.estimate.reshape(len(w), -1)
        half_width = self._critical(alpha, of_pairs=False) * error
        columns = {"score": score, "std_error": error, "lower": score - half_width, "upper": score + half_width}
        return pd.DataFrame(columns, index=self.results[0].models)

    @one_thread()
    def first_for_some_weighting(self, alpha: float | None = None) -> pd.DataFrame:
        """Say which models are first for some weighting of the criteria, and which for none.

        Parameters
        ----------
        alpha : float, optional
            Probability that any statement is wrong; the fit's when None.

        Returns
        -------
        DataFrame
            A row per model: ``shown`` (for some weighting the model is shown to be above all others), ``possible`` (for
            some weighting it is not shown to be below any other), and a column per criterion with the weighting at
            which it does best. All statements hold together; they are about a grid of up to 2,000 weightings.
        """
        joint, n_models = self.joint, len(self.results[0].models)
        critical = self._critical(alpha, of_pairs=True)
        grid = _weightings(len(self.names))
        least = np.full((2, n_models), -np.inf)
        best = np.zeros(n_models, dtype=np.intp)
        for place, w in enumerate(grid):
            matrix = np.kron(w, np.eye(n_models))
            score, covariance = matrix @ joint.estimate, matrix @ joint.covariance.matrix @ matrix.T
            variance = np.add.outer(np.diag(covariance), np.diag(covariance)) - 2 * covariance
            half_width = critical * np.sqrt(np.maximum(variance, 0.0))
            gap = score[:, None] - score + np.where(np.eye(n_models), np.inf, 0.0)
            low, high = (gap - half_width).min(axis=1), (gap + half_width).min(axis=1)
            best = np.where(low > least[0], place, best)
            least = np.maximum(least, [low, high])
        columns = {"shown": least[0] > 0, "possible": least[1] >= 0}
        columns |= {name: grid[best, place] for place, name in enumerate(self.names)}
        return pd.DataFrame(columns, index=self.results[0].models)

    @property
    def _blocks(self) -> FloatArray:
        """The covariance of the scores of each model, (K, M, M)."""
        size = len(self.names)
        matrix = self.joint.covariance.matrix.reshape(size, -1, size, self.joint.covariance.matrix.shape[0] // size)
        return np.einsum("mjnj->jmn", matrix)

    def _critical(self, alpha: float | None, *, of_pairs: bool) -> float:
        """Return the half-width in standard errors of intervals at all weightings, of scores or of differences."""
        level = alpha_or_default(alpha, self.joint.alpha)
        maxima = _largest_distances(self.joint.covariance, len(self.names), of_pairs, self.joint.seed)
        return float(np.sqrt(np.quantile(maxima, 1 - level)))

    def _weights(self, weights: Mapping[str, float]) -> FloatArray:
        """Return the weights of all criteria, (M,), which sum to one."""
        if not isinstance(weights, Mapping):
            raise OptionTypeError(
                f"weights={shown(weights)} is not allowed: give a number for each criterion in a dictionary"
            )
        for name, weight in weights.items():
            if name not in self.names:
                close = nearest(str(name), self.names)
                raise OptionError(f"there is no criterion {shown(name)}{close} (criteria: {listed(self.names)})")
            number = real_number(weight)
            if number is None or not 0 <= number < np.inf:
                raise OptionError(f"the weight of {name!r} is {shown(weight)}; a weight is a number of at least zero")
        values = np.array([float(weights.get(name, 0.0)) for name in self.names])
        if not values.sum() > 0:
            raise OptionError("all weights are zero; give at least one criterion a positive weight")
        return np.asarray(values / values.sum())

    def _page(self, alpha: float | None) -> tuple[str, list[Board], list[Summary]]:
        heading, boards, tables = Comparison._page(self, alpha)
        return heading.replace("Leaderboards", "Criteria"), boards, tables

    def _weighting(self, alpha: float | None) -> Weighting:
        possible = self.first_for_some_weighting(alpha)
        errors = np.sqrt(np.maximum(np.einsum("jmm->jm", self._blocks), 0.0))
        level = alpha_or_default(alpha, self.joint.alpha)
        return Weighting(
            criteria=self.names,
            models=tuple(self.results[0].models),
            scores=self.joint.estimate.reshape(len(self.names), -1),
            covariance=self._blocks,
            critical=self._critical(alpha, of_pairs=False),
            digits=decimals(errors.ravel(), fewest=3),
            note=(
                f"Intervals hold for all weightings and models at once ({100 * (1 - level):g} %), so that the weights "
                f"may be tried out. Shown to be first for some weighting: "
                f"{listed(possible.index[possible['shown']], 25) or 'none'}. First for no weighting: "
                f"{listed(possible.index[~possible['possible']], 25) or 'none'}."
            ),
        )

    def __repr__(self) -> str:
        return f"<Criteria: {', '.join(self.names)}; {len(self.models)} models>"


def criteria_of_results(results: Mapping[str, RankResults]) -> Criteria:
    """Return the fits of several criteria with one covariance."""
    comparison = named_results(list(results), list(results.values()))
    models = {tuple(result.models) for result in results.values()}
    if len(models) > 1:
        raise OptionError(
            f"the criteria {listed(list(results))} have different models; every model needs scores on every criterion"
        )
    return Criteria(comparison.names, comparison.results, comparison.joint, comparison.samples)


def _weightings(n_criteria: int) -> FloatArray:
    """Return the weightings of a regular grid on the simplex, (g, M)."""
    steps = max(n for n in range(1, 201) if comb(n + n_criteria - 1, n_criteria - 1) <= _MOST_WEIGHTINGS or n == 1)
    grid: list[list[int]] = [[]]
    for _ in range(n_criteria - 1):
        grid = [[*parts, next_part] for parts in grid for next_part in range(steps - sum(parts) + 1)]
    return np.array([[*parts, steps - sum(parts)] for parts in grid]) / steps


@lru_cache(maxsize=8)
@one_thread()
def _largest_distances(covariance: Covariance, n_criteria: int, of_pairs: bool, seed: int) -> FloatArray:
    """Return draws of the largest squared Mahalanobis distance of the scores of a model, or of a pair, (draws,)."""
    n_models = len(covariance.matrix) // n_criteria
    factor = covariance.factor.reshape(n_criteria, n_models, -1)
    if of_pairs:
        first, second = np.triu_indices(n_models, 1)
        factor = factor[:, first] - factor[:, second]
    rng = np.random.default_rng([_SEED, seed])
    drawn = rng.standard_normal((_DRAWS, factor.shape[2]))
    largest = np.zeros(_DRAWS)
    for of_one in np.moveaxis(factor, 1, 0):
        # The draws in an orthonormal basis of the directions in which the scores vary.
        _, size, basis = np.linalg.svd(of_one, full_matrices=False)
        varies = size > 1e-9 * size.max(initial=0.0)
        np.maximum(largest, np.square(drawn @ basis[varies].T).sum(axis=1), out=largest)
    return largest
