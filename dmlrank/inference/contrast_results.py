"""Tables of z tests and Wald tests in the form of statsmodels: with remarks, one-sided, or valid at all looks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy.stats import norm
from statsmodels.iolib.table import SimpleTable
from statsmodels.stats.contrast import ContrastResults

from .._utils.number_text import p_value_text
from ..data.hypotheses import LinearHypothesis
from ..data.preferences import FloatArray
from ..exceptions import OptionError
from .alternatives import Alternative
from .confidence_sequence import ConfidenceSequence

if TYPE_CHECKING:
    import pandas as pd


class TextTable(Protocol):
    """A table of statsmodels, which has no annotations: the types of its methods that return the table as text."""

    def as_text(self) -> str:
        """Return the table as plain text."""
        ...

    def as_csv(self) -> str:
        """Return the table as CSV."""
        ...

    def as_html(self) -> str:
        """Return the table as HTML."""
        ...

    def as_latex_tabular(self) -> str:
        """Return the table as a LaTeX ``tabular``."""
        ...


class ZTestResults(Protocol):
    """The type of z tests of J linear combinations: ``ContrastResults`` of statsmodels, which has no annotations."""

    @property
    def effect(self) -> FloatArray:
        """Estimates of the combinations, (J,)."""
        ...

    @property
    def sd(self) -> FloatArray:
        """Standard errors, (J,)."""
        ...

    @property
    def statistic(self) -> FloatArray:
        """Z statistics, (J,)."""
        ...

    @property
    def pvalue(self) -> FloatArray:
        """p-values, (J,), not adjusted for several tests; an array without dimensions where J is 1."""
        ...

    @property
    def c_names(self) -> list[str]:
        """Names of the combinations, as the hypothesis states them."""
        ...

    def conf_int(self, alpha: float = 0.05) -> FloatArray:
        """Return the confidence limits, (J, 2), each of the combinations by itself."""
        ...

    def summary(self, xname: Sequence[str] | None = None, alpha: float = 0.05, title: str | None = None) -> TextTable:
        """Return the table of the tests."""
        ...

    def summary_frame(self, xname: Sequence[str] | None = None, alpha: float = 0.05) -> pd.DataFrame:
        """Return the table of the tests as a frame."""
        ...


class WaldTestResults(Protocol):
    """The type of one joint chi-squared test: ``ContrastResults`` of statsmodels, which has no annotations."""

    @property
    def statistic(self) -> float:
        """Wald statistic."""
        ...

    @property
    def pvalue(self) -> FloatArray:
        """p-value, an array without dimensions."""
        ...

    @property
    def df_denom(self) -> int:
        """Degrees of freedom of the chi-squared distribution."""
        ...

    def summary(self) -> str:
        """Return statistic, p-value and degrees of freedom as text."""
        ...


def _with_small_p_values(table: SimpleTable, p_values: FloatArray) -> SimpleTable:
    """Write p-values that statsmodels shows as 0.000 as the other tables of this package do."""
    for row, p in zip(table[1:], np.atleast_1d(p_values), strict=True):
        row[-3].data = p_value_text(float(p))
    return table


class RemarkedResults(ContrastResults):
    """The z tests of statsmodels with a remark below the title of the table.

    tests: The tests without remark.
    remark: Sentence for the reader of the table; may be empty.
    """

    def __init__(self, tests: ZTestResults, remark: str = "") -> None:
        self.__dict__.update(tests.__dict__)
        self.remark = remark

    def summary(self, xname: Sequence[str] | None = None, alpha: float = 0.05, title: str | None = None) -> SimpleTable:
        """Return the table of statsmodels, with the remark in the title."""
        if title is None:
            title = "Test for Constraints" + (f"\n{self.remark}" if self.remark else "")
        return _with_small_p_values(super().summary(xname=xname, alpha=alpha, title=title), self.pvalue)


class SidedResults(ContrastResults):
    """z tests with a one-sided alternative or a margin, in the form of the results of statsmodels.

    For one-sided alternatives one of the confidence limits is infinite.

    side: See :class:`Alternative`.
    delta: See :class:`Alternative`.
    remark: Sentence for the reader of the table; may be empty.
    """

    remark = ""

    def __init__(
        self, effect: FloatArray, sd: FloatArray, hypothesis: LinearHypothesis, alternative: Alternative
    ) -> None:
        z = alternative.statistics(effect - hypothesis.value, sd)
        super().__init__(effect=effect, sd=sd, statistic=z, distribution="norm")
        self.side, self.delta, self.c_names = alternative.side, alternative.delta, list(hypothesis.labels)
        self.pvalue = np.squeeze(alternative.p_values(z))

    @property
    def alternative(self) -> Alternative:
        """The alternative hypothesis of every test."""
        return Alternative(self.side, self.delta)

    def conf_int(self, alpha: float = 0.05) -> FloatArray:
        """Return the limits that decide the tests at ``alpha``, (J, 2); the level for equivalence is 1 - 2 alpha."""
        half_width = norm.isf(self.alternative.tail(alpha)) * self.sd
        return np.column_stack(self.alternative.limits(self.effect, half_width))

    def summary(self, xname: Sequence[str] | None = None, alpha: float = 0.05, title: str | None = None) -> SimpleTable:
        """Return the table of statsmodels, with the alternative in the title."""
        if title is None:
            title = f"Tests of whether {self.alternative.clause} (p-values are for this side)"
            title += f"\n{self.remark}" if self.remark else ""
        table = _with_small_p_values(super().summary(xname=xname, alpha=alpha, title=title), self.pvalue)
        header_row = table[0]
        for cell, header in zip(header_row[-3:], ("P", "[lower", "upper]"), strict=True):
            cell.data = header
        return table


class SequentialTests(ContrastResults):
    """z tests that hold at all looks, in the form of the results of statsmodels.

    sequence: What was fixed before the first look.
    alternative: The alternative hypothesis of every test.
    remark: Sentence for the reader of the table; may be empty.
    """

    remark = ""

    def __init__(
        self,
        effect: FloatArray,
        sd: FloatArray,
        hypothesis: LinearHypothesis,
        *,
        alternative: Alternative,
        sequence: ConfidenceSequence,
    ) -> None:
        z = alternative.statistics(effect - hypothesis.value, sd)
        super().__init__(effect=effect, sd=sd, statistic=z, distribution="norm")
        self.alternative, self.sequence, self.c_names = alternative, sequence, list(hypothesis.labels)
        self.pvalue = np.squeeze(alternative.sequential_p_values(z, sequence.boundary()))

    def conf_int(self, alpha: float | None = None) -> FloatArray:
        """Return the limits that decide the tests, (J, 2)."""
        level = self._level(alpha)
        half_width = self.alternative.sequential_critical(level, self.sequence.boundary()) * self.sd
        return np.column_stack(self.alternative.limits(self.effect, half_width))

    def summary(
        self, xname: Sequence[str] | None = None, alpha: float | None = None, title: str | None = None
    ) -> SimpleTable:
        """Return the table of statsmodels; its title says that the tests hold at all looks, and the alternative."""
        if title is None:
            title = f"Tests of whether {self.alternative.clause}, each valid {self.sequence.clause}"
            title += f"\n{self.remark}" if self.remark else ""
        table = super().summary(xname=xname, alpha=self._level(alpha), title=title)
        header_row = _with_small_p_values(table, self.pvalue)[0]
        for cell, header in zip(header_row[-3:], ("P", "[lower", "upper]"), strict=True):
            cell.data = header
        return table

    def summary_frame(self, xname: Sequence[str] | None = None, alpha: float | None = None) -> pd.DataFrame:
        """Return the table of the tests as a frame."""
        return super().summary_frame(xname=xname, alpha=self._level(alpha))

    def _level(self, alpha: float | None) -> float:
        """Return the alpha of the sequential view; raise where a caller asks for another one."""
        if alpha is not None and alpha != self.sequence.alpha:
            raise OptionError(self.sequence.why_not_alpha(alpha))
        return self.sequence.alpha


class SequentialWaldTest(ContrastResults):
    """A Wald test whose p-value holds at all looks.

    test: The test of statsmodels.
    sequence: What was fixed before the first look.
    """

    def __init__(self, test: WaldTestResults, sequence: ConfidenceSequence) -> None:
        self.__dict__.update(test.__dict__)
        self.sequence = sequence
        n_contrasts = int(self.df_denom)
        p_value = sequence.boundary(1, n_contrasts).joint_p_value(float(self.statistic), n_contrasts)
        self.pvalue = np.array(p_value)

    def summary(self) -> str:
        """Return statistic, p-value and degrees of freedom as text."""
        numbers = f"statistic={self.statistic}, p-value={self.pvalue}, df_denom={self.df_denom:.3g}"
        return f"<Wald test, valid {self.sequence.clause}: {numbers}>"
