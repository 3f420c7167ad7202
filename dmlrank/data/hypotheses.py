"""Hypotheses about scores, as expressions or numbers, become linear restrictions R theta = q on the scores theta."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import NamedTuple, NoReturn, TypeAlias

import numpy as np
import pandas as pd

from ..exceptions import DmlrankError, HypothesisError, UnknownModelError, listed, nearest, shown
from .arrays import AnyArray, FloatArray

HypothesisLike: TypeAlias = str | Sequence[object] | Mapping[str, float] | pd.Series | pd.DataFrame | AnyArray
# The place of each model among the scores.
ModelPlaces: TypeAlias = Mapping[str, int]
# A linear form: the coefficient of each model, and the constant under None. Fractions make 0.1 + 0.2 equal to 0.3.
LinearForm: TypeAlias = dict[str | None, Fraction]

# The second sign is the minus that word processors write.
_MINUS = "-−"
_SYMBOLS = "=+*/(),;\n" + _MINUS
_NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
# The largest coefficient or value. Squares of larger numbers overflow.
_LARGEST = 1e100
# The most binary digits of an exact product. A float has an exponent of 1,024 at most, and long products take minutes.
_MOST_BITS = 20_000
_WORDS = "model names, numbers, + - * / = and parentheses, joined by ',' or ';' or new lines"
_FORMS = (
    "an expression such as 'a - b', a pair of models such as ('a', 'b'), {model: coefficient}, numbers (K,) or (J, K), "
    "a pair (R, q) of arrays, or a list of expressions"
)


@dataclass(frozen=True, slots=True, eq=False)
class LinearHypothesis:
    """Linear restrictions ``matrix @ scores = value``, (J, K) and (J,), labelled as expressions such as ``a - b``."""

    matrix: FloatArray
    value: FloatArray
    labels: tuple[str, ...]


def read_hypothesis(hypothesis: HypothesisLike, models: Sequence[str]) -> LinearHypothesis:
    """Read a hypothesis about the scores of K models as restrictions ``matrix @ scores = value``."""
    place_of = {name: place for place, name in enumerate(models)}
    if isinstance(hypothesis, str):
        tokens = _tokens(hypothesis.rstrip(), place_of)
        rows = _Parser(hypothesis, tokens).chains()
        _refuse_ambiguous(hypothesis.rstrip(), tokens, place_of)
        names = [name for name in dict.fromkeys(name for row in rows for name in row) if name is not None]
        numbers = [[row.get(name, 0) for name in names] for row in rows]
        return _restrictions(names, numbers, [-row.get(None, 0) for row in rows], place_of)
    if isinstance(hypothesis, tuple):
        names = [entry for entry in hypothesis if isinstance(entry, str)]
        if len(hypothesis) != 2 or len(names) == 1:
            raise HypothesisError(
                f"a tuple must be two names or the arrays (R, q), not {shown(hypothesis)}; pass several as a list"
            )
        hint = "; a tuple holds two names, a list several hypotheses"
        return _restrictions(names, [[1, -1]], 0, place_of, hint) if names else _from_numbers(*hypothesis, place_of)
    parts = hypothesis if isinstance(hypothesis, list) else []
    firsts = [part[0] if isinstance(part, tuple) and part else part for part in parts]
    if any(isinstance(first, str | Mapping | pd.Series) for first in firsts):
        hypotheses = [read_hypothesis(part, models) for part in parts]
        return LinearHypothesis(
            np.vstack([part.matrix for part in hypotheses]),
            np.concatenate([part.value for part in hypotheses]),
            tuple(label for part in hypotheses for label in part.labels),
        )
    return _from_numbers(hypothesis, 0, place_of)


def _from_numbers(coefficients: object, value: object, place_of: ModelPlaces) -> LinearHypothesis:
    """Return the restrictions with these coefficients, by name or by place, and this value."""
    if isinstance(coefficients, pd.DataFrame):
        if isinstance(value, pd.Series) and not value.index.equals(coefficients.index):
            raise HypothesisError("the rows of R and of q have different indexes; give both the same, or q as an array")
        return _restrictions(list(coefficients.columns), coefficients.to_numpy(), value, place_of)
    if isinstance(coefficients, Mapping | pd.Series):
        return _restrictions(list(coefficients.keys()), [[entry for _, entry in coefficients.items()]], value, place_of)
    if hasattr(coefficients, "columns"):  # as an array, another kind of frame would lose its names
        raise HypothesisError(f"a {type(coefficients).__name__} cannot be read by name; give a pandas DataFrame")
    rows, n_models = _numbers(coefficients, "the hypothesis"), len(place_of)
    if rows.size and (rows.ndim not in (1, 2) or rows.shape[-1] != n_models):
        raise HypothesisError(f"the hypothesis has the shape {rows.shape}; allowed: ({n_models},) and (J, {n_models})")
    return _restrictions(list(place_of), np.atleast_2d(rows), value, place_of)


def _restrictions(
    names: list[str], rows: object, value: object, place_of: ModelPlaces, hint: str = ""
) -> LinearHypothesis:
    """Return the restrictions with these coefficients. Shapes: rows (J, len(names), value (J,)."""
    for name in names:
        if name not in place_of:
            raise UnknownModelError(_unknown(name, place_of, hint))
        if names.count(name) > 1:
            raise HypothesisError(f"model {name!r} appears twice; give each model one coefficient")
    coefficients, q = _numbers(rows, "the hypothesis"), _numbers(value, "q")
    if not coefficients.size:
        raise HypothesisError(f"the hypothesis is empty; allowed: {_FORMS}")
    if q.shape not in ((), (len(coefficients),)):
        raise HypothesisError(f"q has the shape {q.shape}, but R has {len(coefficients)} rows; give one value for each")
    for row, coefficient in enumerate(coefficients.tolist(), start=1):
        if not (np.abs([*coefficient, *q.flat]) <= _LARGEST).all():
            of_model = dict(zip(names, coefficient, strict=True))
            raise HypothesisError(
                f"row {row} has {of_model} and q is {q.tolist()}; every number must be finite, and at most {_LARGEST:g}"
            )
        if not any(coefficient):
            raise HypothesisError(
                f"row {row} of the hypothesis is all zeros, so that it is about no score; give a model a coefficient"
            )
    matrix = np.zeros((len(coefficients), len(place_of)))
    matrix[:, [place_of[name] for name in names]] = coefficients
    return LinearHypothesis(matrix, np.full(len(matrix), q), tuple(_label(names, row) for row in coefficients.tolist()))


def _numbers(values: object, what: str) -> FloatArray:
    """Return values as an array of floats; ``what`` names them in errors."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in "biuf" or all(isinstance(entry, Real) for entry in array.flat):
            return array.astype(float)
    except OverflowError:
        raise HypothesisError(f"a number of {what} is too large") from None
    except ValueError:  # rows of different lengths
        pass
    raise HypothesisError(
        f"{what} must hold real numbers in rows of one length, not {shown(values)}; allowed: {_FORMS}"
    )


def _label(names: list[str], row: list[float]) -> str:
    """Return a row of coefficients as an expression, such as ``a - 0.5*b``."""
    present = [(name, value) for name, value in zip(names, row, strict=True) if value]
    # A model with a positive coefficient comes first: "b - a" is easier to read than "-a + b".
    present.insert(0, present.pop(next((i for i, (_, value) in enumerate(present) if value > 0), 0)))
    signed = [f"{'-+'[value > 0]} {'' if abs(value) == 1 else f'{abs(value):g}*'}{name}" for name, value in present]
    return " ".join(signed).removeprefix("+ ").replace("- ", "-", int(present[0][1] < 0))


class _HypothesisToken(NamedTuple):
    """A token of a hypothesis: ``"name"`` (its text without quotes), ``"number"``, ``"end"``, or the symbol itself."""

    kind: str
    text: str
    start: int
    stop: int


def _pattern(text: str, names: Iterable[str]) -> re.Pattern[str]:
    """Return the regular expression of a token of the text, with the groups name, symbol, quoted and number."""
    symbol, quoted = f"==|[{re.escape(_SYMBOLS)}]", r"'[^']*'|\"[^\"]*\"|`[^`]*`"
    present = [name for name in names if name in text]
    unquoted = [name for name in present if name == name.strip() and re.match(rf"\(.|(?!{symbol}).", name)]
    name = "|".join(map(re.escape, sorted(unquoted, key=len, reverse=True))) or "(?!)"
    # In 'gpt-4-0314' and 'gpt-4/0314', 'gpt-4' is only the beginning of another name. In 'gpt-4-b', 'gpt-4-2*b',
    # 'gpt-4/2' and 'gpt-4 - 0314', the name 'gpt-4' ends at the operator.
    # What may follow a name or number that is complete: a symbol, a space or the end of the text.
    minus, after_operand = f"[{_MINUS}]", r"(?:[\s=,;)*+]|/(?!0[0-9])|\Z)"
    # A term that, directly after a minus sign, shows that the sign is not a part of the name before the sign.
    next_term = rf"(?:\(\s*)*(?:['\"`]|{_NUMBER}\s*\*|(?:{name})(?:{minus}|{after_operand}))"
    ends_here = rf"(?={minus}?{after_operand}|{minus}{next_term})"
    number = rf"(?P<number>{_NUMBER})(?:{ends_here}|(?=\(|{minus}(?!0[0-9]){_NUMBER}(?:{minus}|{after_operand})))"
    return re.compile(rf"(?P<name>{name}){ends_here}|(?P<symbol>{symbol})|(?P<quoted>{quoted})|{number}")


def _tokens(text: str, place_of: ModelPlaces, only_quoted: str | None = None) -> list[_HypothesisToken]:
    """Return the tokens of a hypothesis that is given as a text, in which one name may be read in quotes alone."""
    pattern = _pattern(text, (name for name in place_of if name != only_quoted))
    tokens, at, depth = list[_HypothesisToken](), 0, 0
    while at < len(text):
        if text[at].isspace() and (text[at] != "\n" or depth > 0 or not tokens or tokens[-1].kind in tuple("\n,;")):
            at += 1
            continue
        match = pattern.match(text, at) or _fail_at_word(text, at, tokens, place_of)
        kind, word, stop = str(match.lastgroup), match[0], match.end()
        if kind == "symbol":
            kind = "-" if word in _MINUS else word[0]
            depth += (kind == "(") - (kind == ")")
        elif kind == "quoted":
            kind, word = "name", word[1:-1]
            if word not in place_of:
                _fail(text, at, stop, _unknown(word, place_of, "; quotes hold one name"), UnknownModelError)
        elif kind == "name" and re.fullmatch(_NUMBER, word):
            _fail(text, at, stop, f"{word!r} is a number and a model: quote the model, write the number as 0{word}")
        # A number that no float can hold is refused: as an exact fraction, 1e999999999 would fill the memory.
        if depth > 50 or (kind == "number" and (len(word) > 1000 or np.isinf(float(word)))):
            _fail(text, at, stop, "the number is too large" if kind == "number" else "parentheses are nested too deep")
        tokens.append(_HypothesisToken(kind, word, at, stop))
        at = stop
    return [*tokens, _HypothesisToken("end", "", at, at)]


def _refuse_ambiguous(text: str, tokens: Sequence[_HypothesisToken], place_of: ModelPlaces) -> None:
    """Raise an error where the text can also be read with a name that it has without quotes as an expression."""
    for _, name, start, stop in tokens:
        if name not in place_of or text[start:stop] != name or name.isalnum():
            continue
        other = text[:start] + re.sub("[<>≤≥≠]=?|!=", "=", name) + text[stop:]
        try:
            _Parser(other, _tokens(other, place_of, only_quoted=name)).chains()
        except DmlrankError:
            continue
        quote = next((quote for quote in "'\"`" if quote not in name), "'")
        problem = (
            f"{name!r} is a model and an expression of other models; write {quote}{name}{quote}, with quotes, for "
        )
        _fail(text, start, stop, problem + "the model, or quote every model of the expression, as in 'a' - 'b'")


class _Parser:
    """Recursive-descent parser of chains (=) of sums (+ -) of products (* /) of signed numbers, names and groups."""

    def __init__(self, text: str, tokens: Sequence[_HypothesisToken]) -> None:
        self.text, self.tokens, self.at = text, tokens, 0

    def take(self, kinds: str) -> str | None:
        """Consume the next token and return its kind if it is of one of these kinds; else return None."""
        kind = self.tokens[self.at].kind
        self.at += kind in tuple(kinds)
        return kind if kind in tuple(kinds) else None

    def _fail(self, start: int, problem: str) -> NoReturn:
        _fail(self.text, self.tokens[start].start, self.tokens[max(start, self.at - 1)].stop, problem)

    def chains(self) -> list[LinearForm]:
        """Read all chains."""
        rows = self.chain()
        while self.take(",;\n"):
            rows += self.chain()
        return rows

    def chain(self) -> list[LinearForm]:
        """Read sums joined by ``=``; return the differences of neighbours, which are zero under the hypothesis."""
        start, sides = self.at, [self._sum()]
        while self.take("="):
            sides.append(self._sum())
        token = self.tokens[self.at]
        if token.kind not in ("end", ",", ";", "\n"):
            missing = "'('" if token.kind == ")" else "operator"
            self._fail(self.at, f"there is no {missing} before {token.text!r}; allowed: {_WORDS}")
        rows = [_plus(form, other, -1) for form, other in zip(sides, sides[1:] or [LinearForm()], strict=False)]
        for row in rows:
            if not any(value for name, value in row.items() if name is not None):
                why = "no model is named, only numbers" if row.keys() <= {None} else "the scores cancel"
                self._fail(start, f"{why}: this is {'never' if row.get(None) else 'always'} true, whatever the scores")
        return rows

    def _sum(self) -> LinearForm:
        """Read products joined by ``+`` and ``-``."""
        total = self._product()
        while sign := self.take("+-"):
            total = _plus(total, self._product(), 1 if sign == "+" else -1)
        return total

    def _product(self) -> LinearForm:
        """Read signed terms joined by ``*`` and ``/``."""
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
            if any(max(map(int.bit_length, value.as_integer_ratio())) > _MOST_BITS for value in result.values()):
                self._fail(start, "this product has too many digits; write its value as one number")
        return result

    def _signed(self) -> LinearForm:
        """Read a name, a number or a group in parentheses, with the signs before it."""
        sign = 1
        while kind := self.take("+-"):
            sign = -sign if kind == "-" else sign
        start, token = self.at, self.tokens[self.at]
        if token.kind not in ("name", "number", "("):
            after = f" after {self.tokens[start - 1].text!r}" if start else ""
            finding = f"{token.text!r} stands" if token.text else f"the hypothesis {'ends' if start else 'is empty'}"
            self._fail(start, f"a model, a number or '(' is missing{after}, where {finding}; allowed: {_WORDS}")
        self.at += 1
        if token.kind == "name":
            return {token.text: Fraction(sign)}
        if token.kind == "number":
            return {None: sign * Fraction(token.text if float(token.text) else 0)}
        inside = self._sum()
        if not self.take(")"):
            self._fail(start, "'(' is not closed: a ')' or an operator is missing")
        return _plus({}, inside, sign)


def _plus(form: LinearForm, other: LinearForm, factor: Fraction | int) -> LinearForm:
    """Return the sum of a linear form and ``factor`` times another one."""
    return {name: form.get(name, Fraction(0)) + factor * other.get(name, Fraction(0)) for name in form | other}


def _unknown(name: object, place_of: ModelPlaces, hint: str) -> str:
    """Return the error about a name that is no model."""
    # A model of a projection has one for every term, 'tokens: aster', and a model of groups for every group.
    if alike := [known for known in place_of if str(known).endswith(f": {name}")]:
        return f"{name!r} alone names no estimate; it has {listed(alike)}"
    return f"unknown model {name!r}; known are {listed(place_of)}{hint}{nearest(name, place_of)}"


def _fail_at_word(text: str, at: int, tokens: Sequence[_HypothesisToken], place_of: ModelPlaces) -> NoReturn:
    """Raise the error for a word that cannot be read, shown with the words that touch it."""
    start, stop = at, re.compile(r"(?:[^\s=,;*+()]|\([^()\n]*\)?)+").match(text, at).end()  # type: ignore[union-attr]
    if text[at] in "'\"`":
        _fail(text, at, stop, f"the quote {text[at]} is not closed")
    if relation := re.search(r"[<>≤≥≠]|!$", text[at:stop]):
        _fail(text, at, stop, f"{relation[0]!r} is not allowed, a hypothesis is an equation; allowed: {_WORDS}")
    for token in reversed(tokens):
        if token.kind not in ("name", "number", "/") or (token.stop < start and "/" in (token.kind, text[start])):
            break
        start = token.start
    hint = (
        "; put spaces around a minus sign, write products with *, and put names that hold operators or spaces in quotes"
    )
    _fail(text, start, stop, _unknown(text[start:stop].lstrip("/"), place_of, hint), UnknownModelError)


def _fail(text: str, start: int, stop: int, problem: str, error: type[DmlrankError] = HypothesisError) -> NoReturn:
    """Raise an error that shows the line with the problem and marks the problem below the line."""
    first = max(text.rfind("\n", 0, start) + 1, start - 50)
    line = text[first:start] + text[start : start + 70].split("\n")[0]
    marks = " " * (start - first) + "^" * max(1, min(stop - start, len(line) - (start - first)))
    raise error(f"{problem}\n    {line.replace(chr(9), ' ')}\n    {marks} character {start + 1}")
