"""What a result can be written as: summaries, frames, plots and files; the base of RankResults."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from ..exceptions import DataNotStoredError, DmlrankError, OptionError, StorageError, UnknownModelError, listed, nearest
from ..fit.estimates import Estimates
from ..fit.fit_covariance import multiplier_noise
from ..fit.state import Steps
from ..inference.multiple_testing import largest
from ..inference.ranks import Separation, separate
from ..inference.resampling import Noise, differences, normal_noise
from ..inference.simultaneous import critical_value
from ..options import check_alpha
from ..plotting.intervals import Intervals, forest_plot
from ..report.fit_summary import build_summary
from ..report.table import Summary
from ..report.tidy_frames import augment_frame, glance_frame, tidy_frame
from ..storage.json_format import to_text
from ..storage.pickled_fit import Rebuilt, store_steps

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Output:
    """The written forms of a result, and the small helpers that its questions share."""

    __slots__ = ()

    estimates: Estimates
    steps: Steps | None

    def summary(self, alpha: float | None = None) -> Summary:
        """The table for a report, best model first, with simultaneous intervals, rank sets and groups.

        It has ``as_text()``, ``as_html()``, ``as_latex()``, ``as_markdown()`` and ``as_csv()``.
        """
        level = self._alpha(alpha)
        separation = self._separation(level) if self.estimates.of_models else None
        return build_summary(self.estimates, level, self._critical(level, "max-t"), separation)

    def tidy(self, alpha: float | None = None, method: str = "max-t") -> pd.DataFrame:
        """One row per model: term, estimate, std_error, statistic, p_value, conf_low, conf_high."""
        return tidy_frame(self.estimates, self._critical(alpha, method))

    def glance(self, alpha: float | None = None) -> pd.DataFrame:
        """One row about the fit: functional, estimator, counts, first stages, covariance, critical value, seed.

        ``critical`` is that of the simultaneous intervals at ``alpha``; ``n_clusters`` the smallest number of clusters
        (of contexts where they are independent).

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> res.glance()[["functional", "nobs", "n_models", "seed"]].to_dict("records")
        [{'functional': 'borda', 'nobs': 2000, 'n_models': 8, 'seed': 0}]
        """
        level = self._alpha(alpha)
        return glance_frame(self.estimates, self._critical(level, "max-t"), level)

    def augment(self, model: str | None = None) -> pd.DataFrame:
        """One row per comparison: its labels, what the first stages say of it, and its context's influence.

        Parameters
        ----------
        model : str, optional
            The model whose influence is wanted; all when None.

        Returns
        -------
        DataFrame
            A row for every labelled (context, first, second) cell: the columns that identify the context
            (``context``, the row's number, where there are none), ``first second n_votes``, the mean label
            ``mean_<category>``, ``fold``, out-of-fold probabilities ``prob_<category>`` (not floored), ``propensity``,
            ``weight`` = 1 / propensity, and the influence phi of the context, which all its rows share, on every model
            (``influence_<model>``) or on the one asked for (``influence``). A score is the mean over contexts of what
            it would be from them, and phi is how far one context is from it. With ``estimator="bt_mle"`` the first
            stages' columns are replaced by ``fitted``, the probability that ``first`` wins.

        Raises
        ------
        DataNotStoredError
            If the result was loaded without data.
        UnknownModelError
            If the model is not among the ranked ones.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> rows = res.augment(model="gpt-4")
        >>> len(rows) == res.ncomparisons, rows.columns[:4].tolist()
        (True, ['context', 'first', 'second', 'n_votes'])
        """
        steps = self._live("augment")
        if model is not None:
            self._place(model)
        phi = steps.influence.by_context().centred * self.estimates.scale.factor
        return augment_frame(steps, phi, self.estimates.names, model)

    def plot(self, ax: Axes | None = None, alpha: float | None = None) -> Axes:
        """Forest plot of the scores with simultaneous intervals; needs matplotlib."""
        level = self._alpha(alpha)
        e = self.estimates
        order = np.argsort(-e.estimate, kind="stable") if e.of_models else np.arange(len(e.names))
        half_width = self._critical(level, "max-t") * e.covariance.std_errors
        unit = "" if e.scale.natural else f", {e.scale.name}"
        label = f"{e.functional_label}{unit}, {100 * (1 - level):g} % simultaneous intervals"
        names = [e.names[j] for j in order]
        low, high = e.estimate - half_width, e.estimate + half_width
        return forest_plot(Intervals(names, e.estimate[order], low[order], high[order], label), e.neutral, ax)

    def __repr__(self) -> str:
        e = self.estimates
        part = f" ({e.part})" if e.part else ""
        known = f"first {e.models[int(np.argmax(e.estimate))]!r}" if e.of_models else f"outputs {listed(e.names, 3)}"
        return (
            f"<RankResults: {e.functional}, {len(e.models)} models, {e.design.n_contexts:,} contexts, "
            f"{e.design.n_votes:,} votes{part}; {known}>"
        )

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def save(self, path: str | os.PathLike[str], with_data: bool = False) -> None:
        """Store the result in a file that :func:`dmlrank.load` reads.

        Parameters
        ----------
        path : path-like
        with_data : bool
            Whether to store the data (the whole frame, since an update may ask for another of its columns) and the
            learners, too, so that the loaded result answers everything; otherwise the numbers alone are stored.

        Raises
        ------
        StorageError
            If something that the fit uses cannot be stored, such as a lambda in the formula; nothing is written then.
        DataNotStoredError
            If ``with_data=True`` and the result was itself loaded without data.
        """
        whole = Rebuilt(type(self), (self.estimates, store_steps(self._live("save")))) if with_data else self
        Path(path).write_bytes(pickle.dumps(whole))

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """The numbers as JSON, without data, learners or code; :func:`dmlrank.read_json` reads it.

        Parameters
        ----------
        path : path-like, optional
            Where to write; None returns the text.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> dr.read_json(res.to_json()).params.equals(res.params)
        True
        """
        text = to_text(self.estimates)
        if path is None:
            return text
        Path(path).write_text(text, encoding="utf-8")
        return None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a result that :meth:`save` has stored. Only load files that you trust: the format is pickle."""
        try:
            with open(path, "rb") as file:
                stored = pickle.load(file)
        except (pickle.UnpicklingError, EOFError, UnicodeDecodeError, ValueError, IndexError, KeyError) as error:
            if isinstance(error, DmlrankError):
                raise
            raise StorageError(f"{os.fspath(path)!r} was not written by save: {error or 'it is empty'}") from None
        if not isinstance(stored, cls):
            raise StorageError(f"{os.fspath(path)!r} holds a {type(stored).__name__}, not a RankResults")
        return stored

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.estimates,)

    def _alpha(self, alpha: float | None) -> float:
        return self.estimates.alpha if alpha is None else check_alpha(alpha)

    def _critical(self, alpha: float | None, method: str, bootstrap: str | None = None) -> float:
        level = self._alpha(alpha)
        if bootstrap is not None:
            return self._bootstrapped(level, method, bootstrap)
        if method == "max-t" and level == self.estimates.alpha:
            return self.estimates.critical
        return critical_value(self.estimates.covariance, level, method)

    def _bootstrapped(self, level: float, method: str, bootstrap: str) -> float:
        if method != "max-t":
            raise OptionError(f"bootstrap={bootstrap!r} is for method='max-t', not {method!r}")
        covariance, places = self.estimates.covariance, np.arange(len(self.estimates.names))
        contrasts = differences(covariance, places, np.full(len(places), len(places)))
        contrasts = contrasts.take(contrasts.usable)
        if not len(contrasts.first):
            return critical_value(covariance, level, "none")
        return float(np.quantile(largest(self._noise(bootstrap), contrasts, absolute=True), 1 - level))

    def _noise(self, bootstrap: str | None = None) -> Noise:
        """Joint draws of t statistics, the same for the same fit."""
        e = self.estimates
        if bootstrap is None:
            return normal_noise(e.covariance, e.design.seed)
        return multiplier_noise(self._live(f"bootstrap={bootstrap!r}"), bootstrap, e.scale.factor, e.design.seed)

    def _separation(self, level: float, bootstrap: str | None = None) -> Separation:
        return separate(self.estimates.estimate, self.estimates.covariance, self._noise(bootstrap), level)

    def _place(self, name: str) -> int:
        """Place of an estimate."""
        if self.estimates.of_models:
            return self._model(name)
        known = self.estimates.names
        if name not in known:
            raise UnknownModelError(
                f"{name!r} is not an output of this functional{nearest(name, known)} (outputs: {listed(known, 25)})"
            )
        return known.index(name)

    def require_models(self, what: str, why: str = "is about an order of models") -> None:
        """Raise :class:`OptionError` where the estimates are not scores of the models."""
        e = self.estimates
        if not e.of_models:
            raise OptionError(
                f"{what} {why}, and this functional's outputs ({listed(e.names, 5)}) are no "
                f"scores of models; use conf_int(), t_test() and wald_test() by these names, or fit a functional with "
                f"one score per model"
            )

    def _model(self, model: str) -> int:
        """Place of a model."""
        known = self.estimates.models
        if model not in known:
            raise UnknownModelError(
                f"no model {model!r} was ranked{nearest(model, known)} (models: {listed(known, 25)})"
            )
        return known.index(model)

    def _live(self, method: str) -> Steps:
        if self.steps is None and self.estimates.part:
            raise DataNotStoredError(
                f"{method} needs the data and learners of the fit, and this is a view of {self.estimates.part}; ask "
                f"the whole result"
            )
        if self.steps is None:
            raise DataNotStoredError(
                f"{method} needs the data and learners of the fit, and this result was stored without them; fit again"
            )
        return self.steps
