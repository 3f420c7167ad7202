"""When rounds of labelling end: the questions of a plan, and whether a sequential view of the labels decides them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import pandas as pd

from .._utils.number_text import decimals, fewest_decimals, fixed_text, p_value_text
from ..data.hypotheses import LinearHypothesis
from ..exceptions import OptionError, OptionTypeError, UnknownModelError, listed, nearest, shown
from ..fit.estimates import Estimates
from ..inference.wald import NamedEstimates, t_test
from ..report.fit_notes import sequential_note
from ..tables.summary_table import Summary

UntilLike: TypeAlias = "str | tuple[str, str] | Sequence[str | tuple[str, str]] | None"


class HasEstimates(Protocol):
    """The part of a fit's result that a decision uses."""

    @property
    def estimates(self) -> Estimates:
        """Scores with their covariance."""
        ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Decision:
    """Which of the questions of a plan the labels so far decide; :meth:`Plan.decide` returns it.

    The object is true where all questions are decided, so that rounds can end: ``if plan.decide(view): break``.

    Attributes
    ----------
    result_frame : DataFrame
        A row per question: ``question estimate std_error p_value conf_low conf_high decided answer``. ``answer`` is the
        order of the two models that the labels show, such as ``"b > a"``; empty where the question is open.
    note : str
        Sentences about what holds at all looks, for the summary.
    is_natural : bool
        Whether the scores have the functional's own unit.

    Examples
    --------
    >>> frame = pd.DataFrame({"question": ["a > b"], "decided": [True], "answer": ["b > a"]})
    >>> bool(Decision(frame, "")), Decision(frame, "").answers
    (True, ['b > a'])
    """

    result_frame: pd.DataFrame
    note: str
    is_natural: bool = True

    def __bool__(self) -> bool:
        return bool(self.result_frame["decided"].all())

    @property
    def answers(self) -> list[str]:
        """The orders of models that the labels show."""
        return self.result_frame.loc[self.result_frame["decided"], "answer"].tolist()

    def __str__(self) -> str:
        return self.summary().as_text()

    def __repr__(self) -> str:
        n_open = int((~self.result_frame["decided"]).sum())
        shown = f"decided: {listed(self.answers)}" if self.answers else "nothing decided"
        return f"<Decision: {shown}{f'; {n_open} open' if n_open else ''}>"

    def _repr_html_(self) -> str:
        return self.summary().as_html()

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
        frame = self.result_frame
        digits = decimals(frame["std_error"].to_numpy(), fewest=fewest_decimals(self.is_natural))
        rows = []
        for row in frame.to_dict("records"):
            numbers = (fixed_text(row[name], digits) for name in ("estimate", "std_error", "conf_low", "conf_high"))
            rows.append((row["question"], *numbers, p_value_text(row["p_value"]), row["answer"] or "open"))
        columns = (("diff", 1), ("std err", 1), ("[simult. CI]", 2), ("adj. P", 1), ("answer", 1))
        meaning = (
            "A question is decided where the interval of the difference excludes zero, in either direction. Intervals "
            "and p-values hold jointly for all questions (Bonferroni)."
        )
        table = Summary("Decisions of a Plan in Rounds", (), columns, tuple(rows), (meaning, self.note), "question")
        return table.with_title(title)


def read_until(until: UntilLike, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the pairs of models whose order is asked for; an empty tuple where ``until`` is None."""
    if until is None:
        return ()
    is_pair = isinstance(until, tuple) and len(until) == 2 and not any(">" in str(part) for part in until)
    questions: list[object] = [until] if isinstance(until, str) or is_pair else _as_list(until)
    pairs = tuple(_read_question(question, names) for question in questions)
    if not pairs or len({frozenset(pair) for pair in pairs}) < len(pairs):
        raise OptionError(f"until={shown(until)} is not allowed; ask at least one question, and each question once")
    return pairs


def _as_list(until: object) -> list[object]:
    """Return several questions as a list."""
    if not isinstance(until, Sequence):
        raise OptionTypeError(
            f"until is a {type(until).__name__}; give a question such as 'a > b', a pair ('a', 'b'), or a list of them"
        )
    return list(until)


def _read_question(question: object, names: Sequence[str]) -> tuple[str, str]:
    """Return the two models of a question."""
    if isinstance(question, str):
        splits = [place for place, sign in enumerate(question) if sign == ">"]
        candidates = [(question[:place].strip(), question[place + 1 :].strip()) for place in splits]
        if not candidates:
            raise OptionError(
                f"until={question!r} is no question; write two models with > between them, such as "
                f"'{names[0]} > {names[1]}'"
            )
        known = [pair for pair in candidates if set(pair) <= set(names)]
        first, second = (known or candidates)[0]
    elif isinstance(question, tuple) and len(question) == 2 and all(isinstance(name, str) for name in question):
        first, second = question
    else:
        raise OptionTypeError(f"until has {question!r}; a question is 'a > b' or a pair of two names")
    for name in (first, second):
        if name not in names:
            raise UnknownModelError(
                f"until: unknown model {name!r}{nearest(name, names)}; the models are {listed(names, 25)}"
            )
    if first == second:
        raise OptionError(f"until={question!r} compares {first!r} with itself; name two models")
    return first, second


def decide(questions: tuple[tuple[str, str], ...], result: HasEstimates) -> Decision:
    """Return which questions a sequential view decides."""
    estimates = getattr(result, "estimates", None)
    if not isinstance(estimates, Estimates):
        raise OptionTypeError(f"decide() got a {type(result).__name__}; pass a sequential view of a result")
    if not questions:
        raise OptionError("this plan has no question to decide; make the plan with until='a > b'")
    if estimates.sequence is None:
        raise OptionError(
            "decide() needs a sequential view, because tests of one look are wrong too often where labelling goes on "
            "until they decide; pass res.sequential(planned=, start=), with the same two numbers in every round"
        )
    names = estimates.names
    for name in {name for pair in questions for name in pair}:
        if name not in names:
            raise UnknownModelError(f"no model {name!r} was ranked{nearest(name, names)} (models: {listed(names, 25)})")
    matrix = np.zeros((len(questions), len(names)))
    for row, (first, second) in enumerate(questions):
        matrix[row, names.index(first)], matrix[row, names.index(second)] = 1, -1
    labels = tuple(f"{first} > {second}" for first, second in questions)
    named = NamedEstimates(estimates.estimate, estimates.covariance, names, estimates.reason)
    tests = t_test(named, LinearHypothesis(matrix, np.zeros(len(questions)), labels))
    estimate, error = np.atleast_1d(tests.effect), np.ravel(tests.sd)
    p_value = estimates.sequence.adjusted_p_values(estimate / error)
    half_width = estimates.sequence.critical(len(questions)) * error
    is_decided = np.abs(estimate) >= half_width
    reversed_labels = [f"{second} > {first}" for first, second in questions]
    answers = np.where(is_decided, np.where(estimate > 0, labels, reversed_labels), "")
    frame = pd.DataFrame(
        {
            "question": labels,
            "estimate": estimate,
            "std_error": error,
            "p_value": p_value,
            "conf_low": estimate - half_width,
            "conf_high": estimate + half_width,
            "decided": is_decided,
            "answer": answers.tolist(),
        }
    )
    return Decision(frame, " ".join(sequential_note(estimates)), estimates.scale.natural)
