"""Results of sensitivity and fragility analyses, with their tables and pictures."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .._utils.atomic_write import write_file
from .._utils.number_text import decimals
from ..data.preferences import FloatArray
from ..exceptions import OptionError, OptionTypeError, listed, nearest
from ..fit.estimates import Estimates
from ..plotting.diagnostic_charts import bound_chart, strength_contour
from ..sensitivity.fragility import MAX_REFITS
from ..sensitivity.sensitivity_summary import page_paragraphs, sensitivity_summary, tipping_sentence
from ..sensitivity.vote_bounds import SensitivityNumbers
from ..tables.summary_table import Summary
from .requirements import TitledTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SensitivityResults(TitledTable):
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
        """Tipping points, a row per hypothesis: the gammas and the robustness values that change a result.

        At ``gamma_estimate`` the bound reaches the hypothetical value, at ``gamma_interval`` its confidence limit does:
        1 if the interval of the estimate contains the value, inf if it is not reached at gamma = 100.

        ``rv`` is the share of the label's variance and of the second moment of the weights (the contrast's derivatives
        over the propensities) that an omitted variable must explain to move the estimate to the hypothetical value;
        ``rv_alpha`` is the share that makes the interval contain it. The shares are those of all labelled cells
        together, as those of :meth:`benchmark` are. ``rv_every_cell`` and ``rv_alpha_every_cell`` are for a variable
        that explains at most such a share in every cell; a mean over cells must not be compared with them.
        """
        return self.numbers.tipping

    def __repr__(self) -> str:
        gammas = ", ".join(f"{gamma:g}" for gamma in self.numbers.gammas)
        return f"<SensitivityResults: {len(self.tipping)} contrasts, gamma {gammas}>"

    def sentence(self) -> str:
        """Return one sentence: how strongly voting may depend on the label before the first result changes."""
        return tipping_sentence(self.tipping)

    def summary(self, title: str | None = None) -> Summary:
        return sensitivity_summary(self.numbers).with_title(title)

    def page_section(self) -> tuple[str, tuple[str, ...]]:
        """Return title and paragraphs of the section in a page, which :meth:`RankResults.report` writes."""
        return "If those who vote differ from those who do not", page_paragraphs(self.numbers)

    def is_of(self, estimates: Estimates) -> bool:
        """Return whether the analysis has the contrasts of these estimates, in their unit."""
        numbers = self.numbers
        return numbers.names == tuple(estimates.names) and np.allclose(
            numbers.hypothesis.matrix @ estimates.estimate, numbers.estimate, rtol=1e-9, atol=1e-9
        )

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
            the weights without the features, relative to the moment with them; ``hypothesis``; ``estimate`` with and
            ``estimate_without`` the features; ``bias``, the largest bias from an omitted variable with these two
            strengths; ``lower`` and ``upper``, the estimate less and plus this bias.

        Notes
        -----
        Both strengths are those of all labelled cells together. Apart from sampling error, leaving the features out
        moves the estimate by at most ``bias`` if the functional is linear, and to first order otherwise. Both moments
        in ``c_d2`` have the derivatives of the fit without the features.

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
        """
        place = self._place(hypothesis)
        numbers, curve = self.numbers, self.numbers.curve
        sides = ("lower", "upper", "conf_lower", "conf_upper")
        bounds = pd.DataFrame({side: getattr(curve, side)[:, place] for side in sides}, index=curve.gamma)
        return bound_chart(
            bounds[curve.gamma <= max(*numbers.gammas, 2.0)],
            float(numbers.hypothesis.value[place]),
            name=numbers.hypothesis.labels[place],
            label=f"bounds and {100 * (1 - numbers.alpha):g} % interval",
            ax=ax,
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
        """
        place = self._place(hypothesis)
        marks = []
        if benchmark is not None:
            wanted = {"features", "c_d2", "c_y2", "hypothesis"}
            if not isinstance(benchmark, pd.DataFrame) or not wanted <= set(benchmark.columns):
                raise OptionTypeError(
                    f"benchmark is a {type(benchmark).__name__} without the columns features, c_d2, c_y2 and "
                    f"hypothesis; pass what the method benchmark() returned"
                )
            rows = benchmark[benchmark["hypothesis"] == self.numbers.hypothesis.labels[place]]
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


@dataclass(frozen=True, slots=True, eq=False)
class ScoreBounds(TitledTable):
    """Bounds of contrasts of means, whatever the missing scores are; :meth:`RankResults.sensitivity` returns one.

    Attributes
    ----------
    result_frame : DataFrame
        A row per contrast: ``hypothesis lower upper conf_lower conf_upper``. ``lower`` counts every missing score as
        the worst for the contrast, ``upper`` as the best; the interval has the standard errors of both bounds.
    score_range : tuple of float
        The smallest and the largest score that a missing score may have.
    n_missing : int
        Number of missing scores, a score of a model on a prompt each.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dmlrank as dr
    >>> table = pd.DataFrame({"prompt": [*range(100)] * 2, "model": ["a"] * 100 + ["b"] * 100})
    >>> table["score"] = [1, 1, 0, 1] * 25 + [0, 1, np.nan, 0] * 25
    >>> table["long"] = table["prompt"] % 2
    >>> res = dr.dml_rank("score ~ long | model", table, context="prompt", missing="model")
    >>> res.sensitivity("a - b").result_frame[["lower", "upper"]].to_numpy().tolist()
    [[0.25, 0.5]]
    """

    result_frame: pd.DataFrame
    score_range: tuple[float, float]
    n_missing: int

    def summary(self, title: str | None = None) -> Summary:
        numbers = self.result_frame.iloc[:, 1:].to_numpy()
        digits = decimals(np.abs(numbers[:, 3] - numbers[:, 2]) / 4, fewest=1)
        rows = tuple(
            (str(name), *(f"{number:.{digits}f}" for number in row))
            for name, row in zip(self.result_frame["hypothesis"], numbers, strict=True)
        )
        header = (
            ("Missing scores:", f"{self.n_missing:,}", "Range of scores:", "{:g} to {:g}".format(*self.score_range)),
        )
        columns = tuple((head, 1) for head in ("lower", "upper", "conf_lower", "conf_upper"))
        notes = (
            "lower counts every missing score as the worst for the contrast, upper as the best; nothing is assumed "
            "about why scores are missing. The interval contains both bounds with the confidence of the result.",
        )
        return Summary("Bounds for Missing Scores", header, columns, rows, notes, "hypothesis").with_title(title)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FragilityResults(TitledTable):
    """How few votes, contexts or groups of rows turn results; :meth:`RankResults.fragility` returns one.

    Attributes
    ----------
    result_frame : DataFrame
        A row per result: ``hypothesis dropped share before after confirmed``. ``dropped`` is the number of units (NA if
        half of the units do not suffice), ``share`` their share of all units, ``before`` the estimate of the fit,
        ``after`` the estimate of the refit without them, ``confirmed`` whether the result turned in the refit.
    dropped : mapping of str to list
        For each hypothesis, the identifiers of the units that were dropped, the most influential first: contexts as
        ``context=`` identifies them, positions of rows in the frame for votes, values of the column for other units.
    unit : str
        Kind of the units that are dropped: "context", "vote", "cluster" or the name of a column.
    target : {"sign", "significance"}
        A result turns when the sign of the contrast changes, or when its simultaneous interval contains the value.
    n_units : int
        Number of units.
    std_error : ndarray, shape (J,)
        Standard errors of the contrasts before units are dropped.
    notes : tuple of str
        Remarks about single results.

    Examples
    --------
    >>> import dmlrank as dr
    >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
    >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", battles, rng=0)
    >>> fragility = res.fragility()
    >>> fragility.result_frame["hypothesis"].tolist(), len(fragility.dropped["gpt-4 - claude-v1"])
    (['gpt-4 - claude-v1'], 10)
    """

    result_frame: pd.DataFrame
    dropped: Mapping[str, list[object]]
    unit: str
    target: str
    n_units: int
    std_error: FloatArray
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<FragilityResults: {len(self.result_frame)} results, unit {self.unit!r}, target {self.target!r}>"

    def summary(self, title: str | None = None) -> Summary:
        frame, digits = self.result_frame, decimals(self.std_error, fewest=1)
        rows = tuple(
            (
                str(name),
                "not found" if pd.isna(number) else f"{int(number):,}",
                "-" if np.isnan(share) else f"{100 * share:.3g} %",
                f"{before:.{digits}f}",
                "-" if np.isnan(after) else f"{after:.{digits}f}",
                "yes" if confirmed else "no",
            )
            for name, number, share, before, after, confirmed in frame.itertuples(index=False, name=None)
        )
        columns = tuple((head, 1) for head in ("dropped", "share", "before", "after", "confirmed"))
        header = (
            ("Dropped unit:", self.unit, "No. Units:", f"{self.n_units:,}"),
            ("Result:", {"sign": "sign of the difference"}.get(self.target, "significance"), "Confirmed by:", "refits"),
        )
        units = {"vote": "labels", "context": "prompts"}.get(self.unit, f"values of {self.unit!r}")
        turned = (
            "the difference changes its sign"
            if self.target == "sign"
            else "the simultaneous interval contains the hypothetical value"
        )
        notes = (
            f"dropped: the number of {units} that have to be left out until {turned}. The most influential ones are "
            f"left out first. Influence values predict the number; refits of the whole model with the same options and "
            f"seed confirm or correct it (at most {MAX_REFITS} refits for each result). A smaller set may exist that "
            f"this search does not find.",
            "A small share does not mean that a result is wrong. It means that few units decide the result. Standard "
            "errors measure something else: how much estimates vary between samples of the same population.",
            *self.notes,
        )
        return Summary("Fragility of the Ranking", header, columns, rows, notes, "result").with_title(title)

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Return or write the table and the identifiers as JSON.

        Parameters
        ----------
        path : path-like, optional
            Where to write; None returns the text.

        Returns
        -------
        str or None
            The text; None where it was written to a file.
        """
        frame = self.result_frame.astype(object).where(self.result_frame.notna(), None)
        content = {
            "unit": self.unit,
            "target": self.target,
            "n_units": self.n_units,
            "result_frame": frame.to_dict("records"),
            "dropped": {name: [str(identifier) for identifier in units] for name, units in self.dropped.items()},
        }
        text = json.dumps(content, indent=1, default=lambda value: value.item()) + "\n"
        if path is None:
            return text
        write_file(path, text)
        return None
