"""Labelling in rounds: propensities of several rounds, when rounds end, and samples of what to label."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from .._utils.argument_checks import array_of_numbers, check_flag
from ..data.hypotheses import read_hypothesis
from ..data.preferences import FloatArray
from ..exceptions import NuisanceError, OptionError, OptionTypeError, UnknownModelError, listed, nearest, shown
from ..fit.estimates import Estimates
from ..inference.wald import NamedEstimates, ZTests, z_tests
from ..report.statements import sequential_note
from ..tables.display_text import decimals, fewest_decimals, fixed_text, p_value_text
from ..tables.summary_table import Summarised, Summary
from .problem import PlanNames


def mixture_propensity(propensities: Sequence[ArrayLike], shares: Sequence[float]) -> FloatArray:
    """Return the propensity of contexts that were assigned to rounds at random: sum_r rho_r pi_r(x).

    Where each context was offered in one round, chosen at random, the propensity given the context alone is the mixture
    of the rules of all rounds. The propensity of the context's own round is valid, too. The mixture has less extreme
    inverse propensities, by which the estimator weights labels, since a pair with a small propensity in one round may
    have a larger one in others (the balance heuristic of Veach and Guibas, SIGGRAPH 1995).

    Parameters
    ----------
    propensities : sequence of R arrays, shape (n, K, K)
        The rule of every round in *all* n contexts, not only in those of the round: :meth:`Plan.at`.
    shares : sequence of R float
        Share of the contexts that were offered in each round; the shares sum to one.

    Returns
    -------
    ndarray, shape (n, K, K)
        For ``dml_rank(..., propensity=...)``.

    Raises
    ------
    OptionError, NuisanceError
        If there is not one share for each round, the shares do not sum to one, or a propensity is outside [0, 1].

    Examples
    --------
    >>> even, uneven = np.full((1, 2, 2), 0.5), np.full((1, 2, 2), 0.1)
    >>> round(float(mixture_propensity([even, uneven], [0.25, 0.75])[0, 0, 1]), 3)
    0.2
    """
    tables = _tables(propensities)
    rho = array_of_numbers(shares, 1)
    if rho is None or rho.shape != (len(tables),) or not (rho >= 0).all() or not np.isclose(rho.sum(), 1):
        raise OptionError(
            f"shares={shown(shares)} with {len(tables)} rounds; pass one number of at least 0 per round, such that the "
            f"numbers sum to one"
        )
    return np.asarray(np.tensordot(rho, tables, axes=1))


def repeated_propensity(propensities: Sequence[ArrayLike], position_bias: bool = True) -> FloatArray:
    """Return the propensity of contexts that were offered in each of several rounds, with propensities pi_r.

    Votes on one prompt and ordered pair are averaged, so that the pair counts once however often it was labelled. Its
    propensity is therefore the probability of at least one label, 1 - prod_r (1 - pi_r); the expected *number* of
    labels would be too large. With ``position_bias=False`` the display order of each label is drawn at random, so that
    each of the two ordered pairs has the propensity 1 - prod_r (1 - pi_r / 2). Estimation then needs the sum of these
    two.

    Parameters
    ----------
    propensities : sequence of arrays, shape (n, K, K)
        Propensities of the same contexts in each round. The draws of the rounds are independent.
    position_bias : bool
        The ``position_bias`` of the plans.

    Returns
    -------
    ndarray, shape (n, K, K)
        For ``dml_rank(..., propensity=...)``.

    Notes
    -----
    The rule of a round may depend on the labels of earlier rounds through a refit, but not on earlier labels of the
    same context. Otherwise the labels of a context would decide how many votes the context gets, and the average of its
    votes would be biased.

    Examples
    --------
    >>> half = np.full((1, 2, 2), 0.5)
    >>> float(repeated_propensity([half, half])[0, 0, 1])
    0.75
    """
    check_flag("position_bias", position_bias)
    tables, orders = _tables(propensities), 1 if position_bias else 2
    return np.asarray(orders * (1 - np.prod(1 - tables / orders, axis=0)))


def _tables(propensities: Sequence[ArrayLike]) -> FloatArray:
    """Return the propensities of the rounds as one array, (R, n, K, K)."""
    if isinstance(propensities, str) or not isinstance(propensities, Sequence | np.ndarray):
        raise OptionTypeError(
            f"propensities is a {type(propensities).__name__}; give a list with one array (contexts, models, models) "
            f"per round"
        )
    parts = [array_of_numbers(part, 3) for part in propensities]
    if not parts or any(part is None or parts[0] is None or part.shape != parts[0].shape for part in parts):
        raise NuisanceError(
            f"propensities have the shapes {[np.shape(part) for part in parts if part is not None]} in "
            f"{len(parts)} rounds; give one array (contexts, models, models) "
            f"per round, all for the same contexts"
        )
    tables = np.stack([part for part in parts if part is not None])
    if not ((tables >= 0) & (tables <= 1)).all():
        raise NuisanceError(
            f"propensities range from {tables.min():g} to {tables.max():g}; pass probabilities, between 0 and 1"
        )
    return tables


UntilLike: TypeAlias = "str | tuple[str, str] | Sequence[str | tuple[str, str]] | None"
Questions: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Decision(Summarised):
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

    def __repr__(self) -> str:
        n_open = int((~self.result_frame["decided"]).sum())
        shown = f"decided: {listed(self.answers)}" if self.answers else "nothing decided"
        return f"<Decision: {shown}{f'; {n_open} open' if n_open else ''}>"

    def summary(self, title: str | None = None) -> Summary:
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


def read_until(until: UntilLike, names: Sequence[str]) -> Questions:
    """Return the pairs of models whose order is asked for; an empty tuple where ``until`` is None."""
    if until is None:
        return ()
    is_pair = isinstance(until, tuple) and len(until) == 2 and not any(">" in str(part) for part in until)
    if not isinstance(until, Sequence):
        raise OptionTypeError(
            f"until is a {type(until).__name__}; give a question such as 'a > b', a pair ('a', 'b'), or a list of them"
        )
    questions: list[object] = [until] if isinstance(until, str) or is_pair else list(until)
    pairs = tuple(_read_question(question, names) for question in questions)
    if not pairs or len({frozenset(pair) for pair in pairs}) < len(pairs):
        raise OptionError(f"until={shown(until)} is not allowed; ask at least one question, and each question once")
    return pairs


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
        first, second = next((pair for pair in candidates if set(pair) <= set(names)), candidates[0])
    elif isinstance(question, tuple) and len(question) == 2 and all(isinstance(name, str) for name in question):
        first, second = question
    else:
        raise OptionTypeError(f"until has {question!r}; a question is 'a > b' or a pair of two names")
    _check_ranked((first, second), names)
    if first == second:
        raise OptionError(f"until={question!r} compares {first!r} with itself; name two models")
    return first, second


def _check_ranked(models: Iterable[str], names: Sequence[str]) -> None:
    """Raise unless the models of a question are among those that are ranked."""
    for name in models:
        if name not in names:
            raise UnknownModelError(
                f"until: unknown model {name!r}{nearest(name, names)}; the models are {listed(names, 25)}"
            )


def decide(questions: Questions, result: object) -> Decision:
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
    _check_ranked([name for pair in questions for name in pair], names)
    labels = tuple(f"{first} > {second}" for first, second in questions)
    named = NamedEstimates(estimates.estimate, estimates.covariance, names, estimates.reason)
    tests = z_tests(ZTests, named, replace(read_hypothesis(list(questions), names), labels=labels))
    estimate, error = tests.effect, tests.sd
    half_width = estimates.sequence.critical(len(questions)) * error
    is_decided = np.abs(estimate) >= half_width
    reversed_labels = [f"{second} > {first}" for first, second in questions]
    answers = np.where(is_decided, np.where(estimate > 0, labels, reversed_labels), "")
    frame = pd.DataFrame(
        {
            "question": labels,
            "estimate": estimate,
            "std_error": error,
            "p_value": estimates.sequence.adjusted_p_values(estimate / error),
            "conf_low": estimate - half_width,
            "conf_high": estimate + half_width,
            "decided": is_decided,
            "answer": answers.tolist(),
        }
    )
    return Decision(frame, " ".join(sequential_note(estimates)), estimates.scale.natural)


def tasks_json(rows: pd.DataFrame, names: PlanNames, header: dict[str, object]) -> str:
    """Return the rows of a sample as JSON: the tasks, the contexts without a task, and the header of the plan."""
    drawn = rows["propensity"].notna()
    tasks = json.loads(rows[drawn].to_json(orient="records", double_precision=15))
    # pandas writes 15 digits at most. Propensities are written with all digits, so that reading gives the same numbers.
    for task, propensity in zip(tasks, rows.loc[drawn, "propensity"], strict=True):
        task["propensity"] = float(propensity)
    of_prompt = [*names.context_columns, *(() if names.carried is None else names.carried)]
    unlabelled = json.loads(rows.loc[~drawn, of_prompt].to_json(orient="records"))
    content = {**header, "tasks": tasks, "unlabelled": unlabelled}
    # Names of prompts may be numbers of numpy.
    return json.dumps(content, indent=1, ensure_ascii=False, default=lambda name: getattr(name, "item", name.__str__)())
