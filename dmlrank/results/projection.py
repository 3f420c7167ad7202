"""Projection of scores on functions of the prompt: coefficients, tests, and bands along a variable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ..data.hypotheses import LinearHypothesis
from ..exceptions import ColumnError, HypothesisError, OptionError, listed, nearest
from ..fit.estimates import Estimates
from ..inference.simultaneous import Family
from ..inference.wald import wald_test, z_statistics
from ..plotting.intervals import band_plot
from ..plotting.theme import level_words, literal, models_words
from ..report.joint_tables import projection_summary
from ..report.leaderboard import rows_to_show
from ..tables.summary_table import Summary
from .context_variables import ContextDesign
from .joint_estimates import JointEstimates, JointResults, score_label
from .requirements import ModelTable, names_or_all, place_of
from .views import alpha_or_default

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Points of a grid along a numeric variable.
_POINTS = 25
# Models in a picture where the caller names none.
_MODELS_IN_PICTURE = 5


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Projection(JointResults, ModelTable):
    """Coefficients of the scores on functions of the prompt; :meth:`RankResults.project` returns this class.

    Tests name coefficients as ``"length: gpt-4"``.

    Attributes
    ----------
    design : ContextDesign
        The functions of the prompt.
    estimates : Estimates
        Estimates of the fit.
    joint : JointEstimates
        Coefficients of all models with their covariance, coefficient by coefficient.

    Examples
    --------
    >>> import dmlrank as dr
    >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
    >>> res = dr.dml_rank("winner ~ length | model_a + model_b", battles, functional="bt", rng=0)
    >>> projection = res.project("~ length")
    >>> projection.coefficients, projection.test_terms().index.tolist()
    (['Intercept', 'length'], ['length'])
    """

    design: ContextDesign
    estimates: Estimates
    joint: JointEstimates

    @property
    def models(self) -> list[str]:
        """Names of the K models."""
        return list(self.estimates.models)

    @property
    def coefficients(self) -> list[str]:
        """Names of the P coefficients."""
        return list(self.design.names)

    @property
    def params(self) -> pd.DataFrame:
        """Coefficients: a row per coefficient, a column per model."""
        return self.joint.table(self.joint.estimate)

    @property
    def bse(self) -> pd.DataFrame:
        """Standard errors: a row per coefficient, a column per model."""
        return self.joint.table(self.joint.covariance.std_errors)

    def tidy(self, alpha: float | None = None, method: str = "max-t") -> pd.DataFrame:
        """Return one row per coefficient and model with estimate, standard error, test and interval.

        Parameters
        ----------
        alpha : float, optional
            One minus the level; the fit's when None.
        method : {"max-t", "bonferroni", "none"}
            As for :meth:`RankResults.conf_int`.

        Returns
        -------
        DataFrame
            Columns ``coefficient term estimate std_error statistic p_value conf_low conf_high``. Intervals are
            simultaneous over all coefficients and models. A coefficient is tested against zero. The constant is tested
            against the neutral value of a score, and has no test where there is no such value.
        """
        null = np.zeros((len(self.coefficients), len(self.models)))
        if self.design.constant:
            null[0] = np.nan if self.estimates.neutral is None else self.estimates.neutral
        z = z_statistics(self.joint.estimate - null.ravel(), self.joint.covariance.std_errors)
        return self._tidy(z, alpha, method)

    def test_terms(self) -> pd.DataFrame:
        """Test for every term of the formula, by a Wald test, that no model's scores vary with the term.

        Returns
        -------
        DataFrame
            A row per term: ``statistic``, ``df`` (columns of the term times the structural rank) and ``p_value``; NaN
            where a term cannot be tested, for example because there are fewer clusters than restrictions.
        """
        rows, joint = {}, self.joint
        n_models, identity = len(self.models), np.eye(len(joint.estimate))
        for term, columns in self.design.terms:
            places = [column * n_models + j for column in columns for j in range(n_models)]
            labels = tuple(joint.names[place] for place in places)
            try:
                test = wald_test(joint, LinearHypothesis(identity[places], np.zeros(len(places)), labels))
                rows[term] = (float(test.statistic), test.rank, float(test.pvalue))
            except HypothesisError:
                rows[term] = (np.nan, len(columns) * joint.covariance.basis.shape[1] // len(self.coefficients), np.nan)
        return pd.DataFrame.from_dict(rows, orient="index", columns=["statistic", "df", "p_value"])

    def bands(
        self,
        variable: str,
        grid: Sequence[object] | None = None,
        *,
        at: Mapping[str, object] | None = None,
        models: Sequence[str] | None = None,
        alpha: float | None = None,
    ) -> pd.DataFrame:
        """Return projected scores along one variable, with bands that hold at all points and for all models at once.

        Parameters
        ----------
        variable : str
            A variable of the formula.
        grid : sequence, optional
            Values of the variable. By default 25 values from the smallest to the largest for numbers, and all values
            otherwise.
        at : mapping, optional
            Values of the other variables. By default the mean of numbers and the most frequent of other values.
        models : sequence of str, optional
            Models of the bands; all when None. Bands of fewer models are narrower.
        alpha : float, optional
            One minus the joint level; the fit's when None.

        Returns
        -------
        DataFrame
            A row per model and point: ``variable``, model, estimate, std_error, lower, upper.

        Raises
        ------
        ColumnError
            If the formula has no such variable.
        UnknownModelError
            If a model was not ranked.
        OptionError
            If the grid is empty, or ``at`` names a variable that does not exist.

        Examples
        --------
        >>> import dmlrank as dr
        >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
        >>> res = dr.dml_rank("winner ~ length | model_a + model_b", battles, rng=0)
        >>> res.project("~ length").bands("length", grid=[0, 100], models=["gpt-4"]).columns.tolist()
        ['length', 'model', 'estimate', 'std_error', 'lower', 'upper']
        """
        alpha = alpha_or_default(alpha, self.joint.alpha)
        values = self._grid(variable, grid)
        chosen = names_or_all(models, self.models)
        v = self.design.at(self._points(variable, values, at or {}))
        n_models = len(self.models)
        contrasts = np.vstack([np.kron(v, np.eye(n_models)[place_of(self.models, name)]) for name in chosen])
        covariance = self.joint.covariance
        variance = np.einsum("jd,de,je->j", contrasts, covariance.matrix, contrasts, optimize=True)
        std_error = np.sqrt(np.maximum(variance, 0.0))
        estimate = contrasts @ self.joint.estimate
        half_width = Family.of_contrasts(covariance, contrasts).critical(alpha) * std_error
        return pd.DataFrame(
            {
                variable: np.tile(np.asarray(values), len(chosen)),
                "model": np.repeat(np.array(chosen, dtype=object), len(values)),
                "estimate": estimate,
                "std_error": std_error,
                "lower": estimate - half_width,
                "upper": estimate + half_width,
            }
        )

    def _table(self, models: Sequence[str] | None, top: int | None) -> Summary:
        return projection_summary(
            self.estimates,
            self.params,
            self.bse,
            formula=self.design.formula,
            terms=self.test_terms(),
            note=self.joint.covariance.note,
            shown=rows_to_show(self.estimates, models, top),
        )

    def plot(
        self,
        variable: str,
        grid: Sequence[object] | None = None,
        *,
        at: Mapping[str, object] | None = None,
        models: Sequence[str] | None = None,
        top: int | None = None,
        alpha: float | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw :meth:`bands`; this needs matplotlib.

        Parameters
        ----------
        variable : str
            As for :meth:`bands`.
        grid : sequence, optional
            As for :meth:`bands`.
        at : mapping, optional
            As for :meth:`bands`.
        models : sequence of str, optional
            The models in the picture, for which the bands hold jointly; the five best models when None.
        top : int, optional
            Number of the best models in the picture.
        alpha : float, optional
            As for :meth:`bands`.
        ax : matplotlib Axes, optional
            Where to draw; a new figure otherwise.

        Returns
        -------
        matplotlib Axes
            The axes of the picture.

        Raises
        ------
        OptionError
            If there are too many models to tell their bands apart.
        """
        n_best = _MODELS_IN_PICTURE if models is None and top is None else top
        chosen = [self.models[j] for j in rows_to_show(self.estimates, models, n_best).places]
        alpha = alpha_or_default(alpha, self.joint.alpha)
        frame = self.bands(variable, grid, at=at, models=chosen, alpha=alpha)
        by_model = (
            frame.rename(columns={"lower": "low", "upper": "high"}).set_index(variable).groupby("model", sort=False)
        )
        bands = {str(model): rows for model, rows in by_model}
        held = f"{level_words(alpha, 'bands')}, {models_words(len(bands), len(self.models))}"
        title = f"Projection on {literal(self.design.formula)}\n{held}"
        return band_plot(bands, variable=variable, label=score_label(self.estimates), title=title, ax=ax)

    def __repr__(self) -> str:
        return (
            f"<Projection: {self.design.formula}, {len(self.coefficients)} coefficients of {len(self.models)} models>"
        )

    def _grid(self, variable: str, grid: Sequence[object] | None) -> list[object]:
        """Return the values of the variable at which bands are computed."""
        table = self.design.table
        if variable not in table.columns:
            raise ColumnError(
                f"{self.design.formula!r} has no variable {variable!r}{nearest(variable, table.columns)} (variables: "
                f"{listed(table.columns)})"
            )
        if grid is not None:
            if not len(grid):
                raise OptionError("grid is empty; give at least one value")
            return list(grid)
        column = table[variable]
        if column.dtype.kind in "fiu" and column.nunique() > _POINTS:
            return list(np.linspace(column.min(), column.max(), _POINTS))
        return sorted(column.unique(), key=lambda value: (isinstance(value, str), value))

    def _points(self, variable: str, values: Sequence[object], at: Mapping[str, object]) -> pd.DataFrame:
        """Return the variables at the points of the grid, a row per point."""
        table = self.design.table
        for name in at:
            if name not in table.columns or name == variable:
                allowed = [column for column in table.columns if column != variable]
                raise OptionError(
                    f"at: {name!r} is none of the other variables{nearest(name, allowed)} ({listed(allowed)})"
                )
        columns = {}
        for name in table.columns:
            column = table[name]
            usual = column.mean() if column.dtype.kind in "fiu" else column.mode().iloc[0]
            columns[name] = list(values) if name == variable else [at.get(name, usual)] * len(values)
        return pd.DataFrame(columns)
