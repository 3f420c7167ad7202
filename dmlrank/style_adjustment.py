"""The two adjustments for the style of answers that ``adjust=`` takes: equal style, and battles of equal style."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._utils.argument_checks import real_number
from .exceptions import OptionError, OptionTypeError, check_choice, shown

_QUOTED = re.compile(r"""Q\((["'])(.+)\1\)""")
_NAME = re.compile(r"[^\W\d]\w*")
_KINDS = ("band", "smooth")


@dataclass(frozen=True, slots=True)
class EqualStyle:
    """Scores of models for answers of equal style: a value of ``adjust=`` of ``dml_rank``.

    The slopes of the preference on style differences are estimated within prompt and pair. The scores are those of
    answers with style differences of zero along these slopes. The adjustment is associational, not causal, because the
    style of an answer depends on the model.

    Parameters
    ----------
    formula : str
        ``"~ log_length + headers"``: columns of the data with style differences, first answer minus second answer, as
        :func:`dmlrank.style_columns` makes them. ``Q("a name")`` quotes a name that is no word.

    Raises
    ------
    OptionError
        If the formula has anything but names of columns.

    References
    ----------
    Vansteelandt and Dukes (2022), Assumption-lean inference for generalised linear model parameters. Liu, Zhang and Cai
    (2021), Double/debiased machine learning for logistic partially linear models.

    Examples
    --------
    >>> EqualStyle("~ log_length + headers").columns
    ('log_length', 'headers')
    """

    formula: str

    def __post_init__(self) -> None:
        style_names(self.formula)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns with style differences."""
        return style_names(self.formula)


@dataclass(frozen=True, slots=True)
class BalancedStyle:
    """Scores from battles whose two answers are of nearly equal style: a value of ``adjust=`` of ``dml_rank``.

    Every vote has a weight w(D), where D are the style differences of its two answers. With the label Y, the preference
    probabilities become E[w(D) Y | x] / E[w(D) | x]. No model of the effect of style is needed. Votes on answers of
    different style do not count.

    Parameters
    ----------
    formula : str
        As for :class:`EqualStyle`.
    within : float
        Largest style difference of a vote that counts, in the unit of the columns; the same for all columns.
    weights : {"band", "smooth"}
        "band" is w = 1 where all differences are at most ``within``, otherwise 0. "smooth" is the product over columns
        of 1 - (D / within)^2 where this is positive, otherwise 0.

    Raises
    ------
    OptionError, OptionTypeError
        If the formula has anything but names of columns, or another argument is not allowed.

    Examples
    --------
    >>> BalancedStyle("~ log_length", within=0.2).vote_weights(np.array([[0.1], [-0.3]]))
    array([1., 0.])
    """

    formula: str
    within: float
    weights: str = "band"

    def __post_init__(self) -> None:
        style_names(self.formula)
        largest = real_number(self.within)
        if largest is None:
            raise OptionTypeError(
                f"within={shown(self.within)} is not allowed; give the largest style difference, such as 0.2"
            )
        if not 0 < largest < float("inf"):
            raise OptionError(f"within={shown(self.within)} is not allowed; give a positive number, such as 0.2")
        check_choice(self.weights, _KINDS, "weights")

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns with style differences."""
        return style_names(self.formula)

    def vote_weights(self, differences: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weight w(D) of each vote.

        Parameters
        ----------
        differences : ndarray, shape (v, r)
            Style differences D of the two answers of each vote.

        Returns
        -------
        ndarray, shape (v,)
            Weights in [0, 1].
        """
        distance = np.abs(differences) / self.within
        if self.weights == "band":
            return (distance <= 1).all(axis=1).astype(float)
        return np.asarray(np.clip(1 - distance**2, 0.0, None).prod(axis=1))


def style_names(formula: str) -> tuple[str, ...]:
    """Return the names of the columns in a formula of style differences."""
    if not isinstance(formula, str):
        raise OptionTypeError(
            f"the style formula is a {type(formula).__name__}; give a text such as '~ log_length + headers'"
        )
    right_side = formula.strip().removeprefix("~")
    names = []
    for term in map(str.strip, right_side.split("+")):
        quoted = _QUOTED.fullmatch(term)
        if quoted is None and not _NAME.fullmatch(term):
            raise OptionError(
                f"the style formula {formula!r} has the term {term!r}; allowed: names of columns joined by '+', as in "
                f"'~ log_length + headers', because a style difference has to change its sign where the answers are "
                f"exchanged; compute other differences as columns"
            )
        names.append(quoted[2] if quoted else term)
    if len(set(names)) < len(names):
        raise OptionError(f"the style formula {formula!r} names a column twice; name every column once")
    return tuple(names)


def as_adjustment(adjust: object) -> object:
    """Return what ``adjust=`` stands for: a text becomes :class:`EqualStyle`."""
    if isinstance(adjust, str):
        if adjust in ("at_zero", "zero"):
            raise OptionError(
                f"adjust={adjust!r}: the mean of F(m(x, D = 0)), scores of answers with exactly no style difference, "
                f"cannot be estimated with an error that decreases like one over the root of the number of votes, "
                f"because hardly any vote has a continuous difference of exactly zero; use "
                f"adjust=EqualStyle('~ log_length'), or adjust=BalancedStyle('~ log_length', within=0.2)"
            )
        return EqualStyle(adjust)
    return adjust
