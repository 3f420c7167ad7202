"""Hypotheses about scores, in words or numbers, as linear restrictions R theta = q; model names are matched whole."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import NamedTuple, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..exceptions import DmlrankError, HypothesisError, UnknownModelError, listed, nearest

FloatArray = NDArray[np.float64]
HypothesisLike = str | Sequence[object] | Mapping[str, float] | pd.Series | pd.DataFrame | NDArray
Columns = Mapping[str, int]  # position of every model
Form = dict[
    str | None, Fraction
]  # coefficient of every model named, the constant under None; exact, so 0.1 + 0.2 = 0.3

_MINUS = "-−"  # the second is what word processors make of a minus
_SYMBOLS = "=+*/(),;\n" + _MINUS
_NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_WORDS = "model names, numbers, + - * / = and parentheses, joined by ',' or ';' or new lines"
_FORMS = "words, ('a', 'b'), {model: coefficient}, numbers (K,) or (J, K), a pair (R, q) of arrays, or a list of words"


@dataclass(frozen=True, slots=True, eq=False)
class LinearHypothesis:
    """Linear restrictions ``matrix @ scores = value``: (J, K) and (J,), with one readable label for each row."""

    matrix: FloatArray
    value: FloatArray
    labels: tuple[str, ...]


def read_hypothesis(hypothesis: HypothesisLike, models: Sequence[str]) -> LinearHypothesis:
    """Read a hypothesis about the scores of ``models``, (K,) names, as restrictions ``matrix @ scores = value``.

    Parameters
    ----------
    hypothesis : str, list, tuple, mapping, Series, DataFrame or array
        Words: linear expressions in model names, such as ``"a - b"`` (= 0), ``"(a + b)/2 = c"``, ``"a - b = 0.1"`` or
        the chain ``"a = b = c"``; a comma, a semicolon or a new line joins several, and so does a list. ``("a", "b")``
        is the difference of two models. Coefficients: ``{model: coefficient}`` as a mapping or Series, a DataFrame
        with models as columns (models left out count 0), a vector (K,), a matrix (J, K), or a pair ``(R, q)``.
        Names are matched whole, the longest first. A minus that touches a name or number on its left is one only
        before a space, a known name, a quote or ``number*``. Names that are numbers, begin with an operator or have a
        space at an end need quotes: ``'...'``, ``"..."`` or backticks.
    models : sequence of str
        Names in the order of the scores.

    Raises
    ------
    UnknownModelError, HypothesisError
        Where a name is not among ``models``; where the rest is not linear, not about scores, or cannot be read.

    Examples
    --------
    >>> models = ["claude-v1", "gpt-4", "gpt-4-turbo"]
    >>> read_hypothesis("gpt-4-turbo - gpt-4 = 0.1", models)
    LinearHypothesis(matrix=array([[ 0., -1.,  1.]]), value=array([0.1]), labels=('gpt-4-turbo - gpt-4',))
    >>> read_hypothesis("gpt-4-0314 = claude-v1", models)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    dmlrank.exceptions.UnknownModelError: unknown model 'gpt-4-0314'...did you mean 'gpt-4'?...
    """
    columns = {name: column for column, name in enumerate(models)}
    if isinstance(hypothesis, str):
        parser = _Parser(hypothesis, _tokens(hypothesis.rstrip(), columns))
        rows = parser.chain()
        while parser.take(",;\n"):
            rows += parser.chain()
        names = [name for name in dict.fromkeys(name for row in rows for name in row) if name is not None]
        numbers = [[row.get(name, 0) for name in names] for row in rows]
        return _restrictions(names, numbers, [-row.get(None, 0) for row in rows], columns)
    if isinstance(hypothesis, tuple):
        return _from_tuple(hypothesis, columns)
    parts = hypothesis if isinstance(hypothesis, list) else []
    firsts = [part[0] if isinstance(part, tuple) and part else part for part in parts]
    if any(isinstance(first, str | Mapping | pd.Series) for first in firsts):
        read = [read_hypothesis(part, models) for part in parts]
        labels = tuple(label for each in read for label in each.labels)
        return LinearHypothesis(np.vstack([r.matrix for r in read]), np.concatenate([r.value for r in read]), labels)
    return _from_numbers(hypothesis, 0, columns)


def _from_tuple(pair: tuple[object, ...], columns: Columns) -> LinearHypothesis:
    names = [entry for entry in pair if isinstance(entry, str)]
    if len(pair) != 2 or len(names) == 1:
        raise HypothesisError(f"a tuple is two names or the arrays (R, q), not {pair!r}; hypotheses join in a list")
    if names:
        return _restrictions(names, [[1, -1]], 0, columns, "; a tuple holds two names, a list several hypotheses")
    return _from_numbers(*pair, columns)


def _from_numbers(left: object, value: object, columns: Columns) -> LinearHypothesis:
    if isinstance(left, pd.DataFrame):
        if isinstance(value, pd.Series) and not value.index.equals(left.index):
            raise HypothesisError("the rows of R and of q have different indexes; give both the same, or q as an array")
        return _restrictions(list(left.columns), left.to_numpy(), value, columns)
    if isinstance(left, Mapping | pd.Series):
        return _restrictions(list(left.keys()), [[entry for _, entry in left.items()]], value, columns)
    if hasattr(left, "columns"):  # as a bare array it would lose its names and be read by position
        raise HypothesisError(f"a {type(left).__name__} cannot be read by name; give a pandas DataFrame")
    rows, needed = _numbers(left, "the hypothesis"), len(columns)
    if rows.size and (rows.ndim not in (1, 2) or rows.shape[-1] != needed):
        raise HypothesisError(f"the hypothesis has the shape {rows.shape}; allowed: ({needed},) and (J, {needed})")
    return _restrictions(list(columns), np.atleast_2d(rows), value, columns)


def _restrictions(names: list[str], rows: object, value: object, columns: Columns, hint: str = "") -> LinearHypothesis:
    """Restrictions from the coefficients ``rows``, (J, len(names)), and ``value``, (J,) or one number for all."""
    for name in names:
        if name not in columns:
            raise UnknownModelError(_unknown(name, columns, hint))
        if names.count(name) > 1:
            raise HypothesisError(f"model {name!r} appears twice; give each model one coefficient")
    coefficients, q = _numbers(rows, "the hypothesis"), _numbers(value, "q")
    if not coefficients.size:
        raise HypothesisError(f"the hypothesis is empty; allowed: {_FORMS}")
    if q.shape not in ((), (len(coefficients),)):
        raise HypothesisError(f"q has the shape {q.shape}, but R has {len(coefficients)} rows; give one value for each")
    for row, coefficient in enumerate(coefficients.tolist(), start=1):
        if not np.isfinite([*coefficient, *q.flat]).all():
            seen = dict(zip(names, coefficient, strict=True))
            raise HypothesisError(f"row {row} has {seen} and q is {q.tolist()}; every number must be finite")
        if not any(coefficient):
            raise HypothesisError(f"row {row} of the hypothesis is all zeros, so that it is about no score")
    matrix = np.zeros((len(coefficients), len(columns)))
    matrix[:, [columns[name] for name in names]] = coefficients
    return LinearHypothesis(matrix, np.full(len(matrix), q), tuple(_label(names, row) for row in coefficients.tolist()))


def _numbers(values: object, what: str) -> FloatArray:
    try:
        array = np.asarray(values)
        if array.dtype.kind in "biuf" or all(isinstance(entry, Real) for entry in array.flat):
            return array.astype(float)
    except OverflowError:
        raise HypothesisError(f"a number of {what} is too large") from None
    except ValueError:  # rows of different lengths
        pass
    raise HypothesisError(f"{what} must hold real numbers in rows of one length, not {values!r}; allowed: {_FORMS}")


def _label(names: list[str], row: list[float]) -> str:
    present = [(name, value) for name, value in zip(names, row, strict=True) if value]
    # "b - a" reads better than "-a + b".
    present.insert(0, present.pop(next((i for i, (_, value) in enumerate(present) if value > 0), 0)))
    signed = [f"{'-+'[value > 0]} {'' if abs(value) == 1 else f'{abs(value):g}*'}{name}" for name, value in present]
    return " ".join(signed).removeprefix("+ ").replace("- ", "-", int(present[0][1] < 0))


class _HypothesisToken(NamedTuple):
    kind: str  # "name", "number", "end" or the symbol itself
    text: str
    start: int
    stop: int


def _pattern(columns: Columns) -> re.Pattern[str]:
    symbol, quoted = f"==|[{re.escape(_SYMBOLS)}]", r"'[^']*'|\"[^\"]*\"|`[^`]*`"
    plain = [name for name in columns if name == name.strip() and re.match(rf"\(.|(?!{symbol}).", name)]
    name = "|".join(map(re.escape, sorted(plain, key=len, reverse=True))) or "(?!)"
    # 'gpt-4' does not end before '-0314' or '/0314', where it is part of another name; it does before '-b', '-2*b',
    # '/2' and '- 0314'.
    minus, last = f"[{_MINUS}]", r"(?:[\s=,;)*+]|/(?!0[0-9])|\Z)"
    term = rf"(?:\(\s*)*(?:['\"`]|{_NUMBER}\s*\*|(?:{name})(?:{minus}|{last}))"
    end = rf"(?={minus}?{last}|{minus}{term})"
    number = rf"(?P<number>{_NUMBER})(?:{end}|(?=\(|{minus}(?!0[0-9]){_NUMBER}(?:{minus}|{last})))"
    return re.compile(rf"(?P<name>{name}){end}|(?P<symbol>{symbol})|(?P<quoted>{quoted})|{number}")


def _tokens(text: str, columns: Columns) -> list[_HypothesisToken]:
    pattern, tokens, at, depth = _pattern(columns), list[_HypothesisToken](), 0, 0
    while at < len(text):
        if text[at].isspace() and (text[at] != "\n" or depth > 0 or not tokens or tokens[-1].kind in tuple("\n,;")):
            at += 1
            continue
        match = pattern.match(text, at) or _fail_at_word(text, at, tokens, columns)
        kind, word, stop = str(match.lastgroup), match[0], match.end()
        if kind == "symbol":
            kind = "-" if word in _MINUS else word[0]
            depth += (kind == "(") - (kind == ")")
        elif kind == "quoted":
            kind, word = "name", word[1:-1]
            if word not in columns:
                _fail(text, at, stop, _unknown(word, columns, "; in quotes stands one name"), UnknownModelError)
        elif kind == "name" and re.fullmatch(_NUMBER, word):
            _fail(text, at, stop, f"{word!r} is a number and a model: quote the model, write the number as 0{word}")
        # An exact 1e999999999 would fill the memory: what a float cannot hold is not read.
        if depth > 50 or (kind == "number" and (len(word) > 1000 or np.isinf(float(word)))):
            _fail(text, at, stop, "the number is too large" if kind == "number" else "parentheses are nested too deep")
        tokens.append(_HypothesisToken(kind, word, at, stop))
        at = stop
    return [*tokens, _HypothesisToken("end", "", at, at)]


class _Parser:
    """Recursive descent: lists of chains (=) of sums (+ -) of products (* /) of signed numbers, names and groups."""

    def __init__(self, text: str, tokens: Sequence[_HypothesisToken]) -> None:
        self.text, self.tokens, self.at = text, tokens, 0

    def take(self, kinds: str) -> str | None:
        kind = self.tokens[self.at].kind
        self.at += kind in tuple(kinds)
        return kind if kind in tuple(kinds) else None

    def _fail(self, start: int, problem: str) -> NoReturn:
        _fail(self.text, self.tokens[start].start, self.tokens[max(start, self.at - 1)].stop, problem)

    def chain(self) -> list[Form]:
        start, sides = self.at, [self._sum()]
        while self.take("="):
            sides.append(self._sum())
        token = self.tokens[self.at]
        if token.kind not in ("end", ",", ";", "\n"):
            missing = "'(' that it closes" if token.kind == ")" else "operator"
            self._fail(self.at, f"there is no {missing} before {token.text!r}; allowed: {_WORDS}")
        rows = [_plus(left, right, -1) for left, right in zip(sides, sides[1:] or [Form()], strict=False)]
        for row in rows:
            if not any(value for name, value in row.items() if name is not None):
                why = "no model is named, only numbers" if row.keys() <= {None} else "the scores cancel"
                self._fail(start, f"{why}: this is {'never' if row.get(None) else 'always'} true, whatever the scores")
        return rows

    def _sum(self) -> Form:
        total = self._product()
        while sign := self.take("+-"):
            total = _plus(total, self._product(), 1 if sign == "+" else -1)
        return total

    def _product(self) -> Form:
        start, result = self.at, self._signed()
        while sign := self.take("*/"):
            factor = self._signed()
            if factor.keys() != {None} and (sign == "/" or result.keys() != {None}):
                what = "dividing by a score" if sign == "/" else "a product of scores"
                self._fail(start, f"{what} is not linear; allowed are number*model and model/number")
            if sign == "/" and not factor[None]:
                self._fail(start, "this divides by zero; allowed are other numbers")
            form, number = (result, factor[None]) if factor.keys() == {None} else (factor, result[None])
            result = _plus({}, form, 1 / number if sign == "/" else number)
        return result

    def _signed(self) -> Form:
        sign = 1
        while kind := self.take("+-"):
            sign = -sign if kind == "-" else sign
        start, token = self.at, self.tokens[self.at]
        if token.kind not in ("name", "number", "("):
            after = f" after {self.tokens[start - 1].text!r}" if start else ""
            found = f"{token.text!r} stands" if token.text else f"the hypothesis {'ends' if start else 'is empty'}"
            self._fail(start, f"a model, a number or '(' is missing{after}, where {found}; allowed: {_WORDS}")
        self.at += 1
        if token.kind == "name":
            return {token.text: Fraction(sign)}
        if token.kind == "number":
            return {None: sign * Fraction(token.text if float(token.text) else 0)}
        inside = self._sum()
        if not self.take(")"):
            self._fail(start, "'(' is not closed: a ')' or an operator is missing")
        return _plus({}, inside, sign)


def _plus(left: Form, right: Form, factor: Fraction | int) -> Form:
    return {name: left.get(name, Fraction(0)) + factor * right.get(name, Fraction(0)) for name in left | right}


def _unknown(name: object, columns: Columns, hint: str) -> str:
    return f"unknown model {name!r}; known are {listed(columns)}{hint}{nearest(name, columns)}"


def _fail_at_word(text: str, at: int, tokens: Sequence[_HypothesisToken], columns: Columns) -> NoReturn:
    """Raise for the word at ``at``, shown with what touches it: 'gpt-4 turbo' tells more than 'turbo'."""
    start, stop = at, re.compile(r"(?:[^\s=,;*+()]|\([^()\n]*\)?)+").match(text, at).end()  # type: ignore[union-attr]
    if text[at] in "'\"`":
        _fail(text, at, stop, f"the quote {text[at]} is not closed")
    if relation := re.search(r"[<>≤≥≠]|!$", text[at:stop]):
        _fail(text, at, stop, f"{relation[0]!r} is not allowed, a hypothesis is an equation; allowed: {_WORDS}")
    for token in reversed(tokens):
        if token.kind not in ("name", "number", "/") or (token.stop < start and "/" in (token.kind, text[start])):
            break
        start = token.start
    hint = "; put spaces around a minus that is meant, write products with * and odd names in quotes"
    _fail(text, start, stop, _unknown(text[start:stop].lstrip("/"), columns, hint), UnknownModelError)


def _fail(text: str, start: int, stop: int, problem: str, error: type[DmlrankError] = HypothesisError) -> NoReturn:
    """Raise ``error`` with the line that holds ``text[start:stop]``, that part marked below."""
    first = max(text.rfind("\n", 0, start) + 1, start - 50)
    line = text[first:start] + text[start : start + 70].split("\n")[0]
    marks = " " * (start - first) + "^" * max(1, min(stop - start, len(line) - (start - first)))
    raise error(f"{problem}\n    {line.replace(chr(9), ' ')}\n    {marks} character {start + 1}")
