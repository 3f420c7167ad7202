"""The result of a sensitivity analysis: bounds over gamma, tipping points, robustness values, benchmarks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .._utils.atomic_write import write_file
from ..exceptions import OptionError, OptionTypeError, listed, nearest
from ..plotting.diagnostic_charts import BoundCurve, bound_chart, strength_contour
from ..tables.summary_table import Summarised, Summary
from .sensitivity_summary import page_paragraphs, sensitivity_summary, tipping_sentence
from .vote_bounds import SensitivityNumbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SensitivityResults(Summarised):
    """How far contrasts of scores can move if an assumption fails; :meth:`RankResults.sensitivity` returns one.

    Two assumptions are examined. First, those who vote may differ from those who do not: given the label that a voter
    would give, the odds of voting are within 1/gamma and gamma of the odds given the prompt and the pair. Second, an
    omitted variable may influence both which pairs are labelled and the labels.

    Attributes
    ----------
    numbers : SensitivityNumbers
        All numbers of the analysis.
    refit : callable, optional
        Fits again without features and returns benchmarks; None in an analysis that was stored.

    Examples
    --------
    >>> import dmlrank as dr
    >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
    >>> battles.loc[::5, "winner"] = None   # shown, and nobody voted
    >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", battles, rng=0)
    >>> sensitivity = res.sensitivity("gpt-4 - dolly-v2-12b", gamma=(1, 2))
    >>> sensitivity.result_frame.columns.tolist()
    ['hypothesis', 'gamma', 'lower', 'upper', 'conf_lower', 'conf_upper']
    """

    numbers: SensitivityNumbers
    refit: Callable[[object], pd.DataFrame] | None = None

    @property
    def result_frame(self) -> pd.DataFrame:
        """Bounds, a row per hypothesis and gamma: ``hypothesis gamma lower upper conf_lower conf_upper``.

        The interval covers both bounds, simultaneously over the hypotheses, at each gamma.
        """
        return self.numbers.result_frame

    @property
    def tipping(self) -> pd.DataFrame:
        """Tipping points, a row per hypothesis: ``hypothesis gamma_estimate gamma_interval rv rv_alpha``.

        At ``gamma_estimate`` the bound reaches the hypothetical value, at ``gamma_interval`` its confidence limit does:
        1 if the interval of the estimate contains the value, inf if it is not reached at gamma = 100. ``rv`` is the
        share of the label's variance and of the second moment of 1/propensity that an omitted variable must explain to
        move the estimate to the hypothetical value; ``rv_alpha`` is the share that makes the interval contain it.
        """
        return self.numbers.tipping

    def __repr__(self) -> str:
        gammas = ", ".join(f"{gamma:g}" for gamma in self.numbers.gammas)
        return f"<SensitivityResults: {len(self.tipping)} contrasts, gamma {gammas}>"

    def sentence(self) -> str:
        """Return one sentence: how strongly voting may depend on the label before the first result changes."""
        return tipping_sentence(self.tipping)

    def summary(self, title: str | None = None) -> Summary:
        """Return the table for a report.

        Parameters
        ----------
        title : str, optional
            Stands above the table in place of the default title.

        Returns
        -------
        Summary
            It has ``as_text()``, ``as_html()``, ``as_latex()``, ``as_markdown()`` and ``as_csv()``.
        """
        return sensitivity_summary(self.numbers).with_title(title)

    def page_section(self) -> tuple[str, tuple[str, ...]]:
        """Return title and paragraphs of the section in a page, which :meth:`RankResults.report` writes."""
        return "If those who vote differ from those who do not", page_paragraphs(self.numbers)

    def benchmark(self, features: str | Sequence[str | Sequence[str]]) -> pd.DataFrame:
        """Leave features out of the fit, and show how strong an omitted variable like them would be.

        Every entry of ``features`` is left out by itself, and the model is fitted again without it.

        Parameters
        ----------
        features : str, or sequence of str or of sequences of str
            Terms of the formula or columns. An inner sequence names features that are left out together.

        Returns
        -------
        DataFrame
            A row per entry and hypothesis: ``features``; ``c_y2``, the increase of the residual variance of the labels
            without the features, relative to the variance with them; ``c_d2``, the decrease of the second moment of
            1/propensity without the features, relative to the moment with them; ``hypothesis``; ``estimate`` with and
            ``estimate_without`` the features; ``bias``, the largest bias from an omitted variable with these two
            strengths; ``lower`` and ``upper``, the estimate less and plus this bias.

        Raises
        ------
        OptionError
            If the formula has no such feature, the fit was given ``mu=``, or the analysis was stored without its data.

        Examples
        --------
        >>> import dmlrank as dr
        >>> battles = dr.datasets.simulate_arena(n=600, rng=0)
        >>> res = dr.dml_rank("winner ~ length | model_a + model_b", battles, min_labels=5, n_folds=2, rng=0)
        >>> res.sensitivity("gpt-4 - dolly-v2-12b", gamma=1).benchmark("length").columns.tolist()[:3]
        ['features', 'c_y2', 'c_d2']
        """
        if self.refit is None:
            raise OptionError(
                "benchmark() fits the model again, and a sensitivity analysis that was stored has no data; call "
                "sensitivity() of a fit with its data first"
            )
        return self.refit(features)

    def plot(self, hypothesis: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the bounds of one contrast and their interval over gamma; this needs matplotlib.

        Parameters
        ----------
        hypothesis : str, optional
            A hypothesis as ``result_frame`` names it; the first one by default.
        ax : matplotlib Axes, optional
            Where to draw; a new figure otherwise.

        Returns
        -------
        matplotlib Axes
            The axes with the curves.

        Raises
        ------
        MissingExtraError
            If matplotlib is not installed.
        """
        place = self._place(hypothesis)
        numbers, curve = self.numbers, self.numbers.curve
        shown = curve.gamma <= max(*numbers.gammas, 2.0)
        return bound_chart(
            BoundCurve(
                self.numbers.hypothesis.labels[place],
                curve.gamma[shown],
                curve.lower[shown, place],
                curve.upper[shown, place],
                curve.conf_lower[shown, place],
                curve.conf_upper[shown, place],
                float(self.numbers.hypothesis.value[place]),
                f"bounds and {100 * (1 - numbers.alpha):g} % interval",
            ),
            ax,
        )

    def contour(
        self, hypothesis: str | None = None, benchmark: pd.DataFrame | None = None, ax: Axes | None = None
    ) -> Axes:
        """Draw what remains of an estimate over the two strengths of an omitted variable; this needs matplotlib.

        Parameters
        ----------
        hypothesis : str, optional
            A hypothesis as ``result_frame`` names it; the first one by default.
        benchmark : DataFrame, optional
            What :meth:`benchmark` returns; its features are marked.
        ax : matplotlib Axes, optional
            Where to draw; a new figure otherwise.

        Returns
        -------
        matplotlib Axes
            The axes with the contours.

        Raises
        ------
        MissingExtraError
            If matplotlib is not installed.
        """
        place = self._place(hypothesis)
        marks = []
        if benchmark is not None:
            wanted = {"features", "c_d2", "c_y2"}
            if not isinstance(benchmark, pd.DataFrame) or not wanted <= set(benchmark.columns):
                raise OptionTypeError(
                    f"benchmark is a {type(benchmark).__name__} without the columns features, c_d2 and c_y2; pass "
                    f"what the method benchmark() returned"
                )
            rows = benchmark.drop_duplicates("features")
            moment, label = (rows[name].to_numpy(dtype=float) for name in ("c_d2", "c_y2"))
            marks = list(zip(rows["features"].astype(str), moment / (1 + moment), label, strict=True))
        return strength_contour(
            float(self.numbers.estimate[place]),
            float(self.numbers.spread[place]),
            float(self.numbers.hypothesis.value[place]),
            marks=marks,
            name=self.numbers.hypothesis.labels[place],
            ax=ax,
        )

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Return or write both tables as JSON; a gamma that is never reached is null.

        Parameters
        ----------
        path : path-like, optional
            Where to write; None returns the text.

        Returns
        -------
        str or None
            The text; None where it was written to a file.
        """
        tables = {
            name: frame.replace([np.inf, -np.inf], np.nan).astype(object).where(lambda f: f.notna(), None)
            for name, frame in (("result_frame", self.result_frame), ("tipping", self.tipping))
        }
        content = {name: table.to_dict("records") for name, table in tables.items()}
        text = (
            json.dumps({"alpha": self.numbers.alpha, "functional": self.numbers.functional, **content}, indent=1) + "\n"
        )
        if path is None:
            return text
        write_file(path, text)
        return None

    def _place(self, hypothesis: str | None) -> int:
        """Return the number of a hypothesis among those of the analysis; 0 for None."""
        if hypothesis is None:
            return 0
        names = list(self.numbers.hypothesis.labels)
        if hypothesis not in names:
            raise OptionError(
                f"no hypothesis {hypothesis!r}{nearest(hypothesis, names)} (hypotheses: {listed(names, 10)})"
            )
        return names.index(hypothesis)

    def __reduce__(self) -> tuple[type[SensitivityResults], tuple[SensitivityNumbers]]:
        # A stored analysis does not contain ``refit``, because this function holds the data.
        return type(self), (self.numbers,)
