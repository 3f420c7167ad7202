"""Hypotheses about scores, as expressions or numbers, become linear restrictions R theta = q on the scores theta."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import TypeAlias

import numpy as np
import pandas as pd

from ..exceptions import DmlrankError, HypothesisError, UnknownModelError, listed, nearest, shown
from .arrays import AnyArray, FloatArray

HypothesisLike: TypeAlias = str | Sequence[object] | Mapping[str, float] | pd.Series | pd.DataFrame | AnyArray
# The place of each model among the scores.
ModelPlaces: TypeAlias = Mapping[str, int]
# The kind of a token, its text, and where it begins and ends. The kind is "name" (the text has no quotes), "number", or
# the symbol itself.
Token: TypeAlias = tuple[str, str, int, int]

# The second sign is the minus that word processors write.
_MINUS = "-−"
_SYMBOLS = "=+*/(),;\n" + _MINUS
_NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
# The largest coefficient or value. Squares of larger numbers overflow.
_LARGEST = 1e100
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
        text = hypothesis.strip()
        rows = _read_words(text, place_of)
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


class _Form(dict[str | None, Fraction]):
    """A linear form: coefficients of models, and the constant under None; with fractions, 0.1 + 0.2 equals 0.3."""

    def __add__(self, other: _Form) -> _Form:
        return _Form({name: self.get(name, Fraction(0)) + other.get(name, Fraction(0)) for name in self | other})

    def __pos__(self) -> _Form:
        return self

    def __neg__(self) -> _Form:
        return self * _Form({None: Fraction(-1)})

    def __sub__(self, other: _Form) -> _Form:
        return self + -other

    def __mul__(self, other: _Form) -> _Form:
        form, number = (other, self) if self.keys() == {None} else (self, other)
        if number.keys() != {None}:
            raise HypothesisError("a product of scores is not linear; allowed are number*model and model/number")
        return _Form({name: value * number[None] for name, value in form.items()})

    def __truediv__(self, other: _Form) -> _Form:
        if other.keys() != {None} or not other[None]:
            raise HypothesisError(
                "dividing by a score or by zero is not linear; allowed are number*model and model/number"
            )
        return self * _Form({None: 1 / other[None]})


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


def _tokens(text: str, place_of: ModelPlaces, only_quoted: str | None = None) -> list[Token]:
    """Return the tokens of a hypothesis that is given as a text, in which one name may be read in quotes alone."""
    pattern = _pattern(text, (name for name in place_of if name != only_quoted))
    tokens, at, depth = list[Token](), 0, 0
    while at < len(text):
        if text[at].isspace() and (text[at] != "\n" or depth > 0 or not tokens or tokens[-1][0] in tuple("\n,;")):
            at += 1
            continue
        match = pattern.match(text, at)
        if match is None:
            word = re.match(r"(?:[^\s=,;*+()]|\([^()\n]*\)?)+|.", text[at:])[0]  # type: ignore[index]
            if re.search(r"^['\"`]|[<>≤≥≠]|!$", word):
                raise HypothesisError(f"{word!r} is an open quote or no sign of an equation; allowed: {_WORDS}")
            hint = (
                "; write a minus sign with spaces, products with *, and names that hold operators or spaces in quotes"
            )
            raise UnknownModelError(_unknown(word.lstrip("/"), place_of, hint))
        kind, word = str(match.lastgroup), match[0]
        if kind == "symbol":
            kind = "-" if word in _MINUS else word[0]
            depth += (kind == "(") - (kind == ")")
        elif kind == "quoted":
            kind, word = "name", word[1:-1]
            if word not in place_of:
                raise UnknownModelError(_unknown(word, place_of, "; quotes hold one name"))
        elif kind == "name" and re.fullmatch(_NUMBER, word):
            raise HypothesisError(f"{word!r} is a number and a model: quote the model, write the number as 0{word}")
        # A number that no float can hold is refused: as an exact fraction, 1e999999999 would fill the memory.
        if depth > 50 or (kind == "number" and (len(word) > 1000 or np.isinf(float(word)))):
            raise HypothesisError(f"{shown(word)}: a number is too large, or parentheses are nested too deep")
        tokens.append((kind, word, at, match.end()))
        at = match.end()
    return tokens


def _chains(text: str, tokens: Sequence[Token]) -> list[_Form]:
    """Return the differences of neighbours in chains of sums, joined by ``=``, which are zero under the hypothesis."""
    rows, sides, code, forms, begin = list[_Form](), list[_Form](), list[str](), dict[str, _Form](), 0
    for number, (kind, word, start, stop) in enumerate([*tokens, (";", "", len(text), len(text))]):
        if kind in ("name", "number"):
            # The fraction of 0e999999999 would fill the memory.
            is_name, value = kind == "name", Fraction(1 if kind == "name" else word if float(word) else 0)
            forms[f"t{number}"] = _Form({word if is_name else None: value})
            code.append(f"t{number}")
        elif kind not in tuple("=,;\n"):
            code.append(kind)
        else:
            try:
                # Names of forms, signs and parentheses are all that Python reads here.
                side = eval(" ".join(code).strip(), {"__builtins__": {}}, forms)
            except (SyntaxError, TypeError, RecursionError):
                side = None
            if not isinstance(side, _Form):
                found = text[begin:start].strip() or "nothing"
                raise HypothesisError(f"{shown(found)} is no sum of models and numbers; allowed: {_WORDS}")
            sides.append(side)
            code, begin = [], stop
            if kind != "=":
                rows += [form - other for form, other in zip(sides, sides[1:] or [_Form()], strict=False)]
                sides = []
    if any(not any(value for name, value in row.items() if name is not None) for row in rows):
        raise HypothesisError(f"{shown(text)}: the scores cancel, or no model is named; this says nothing about scores")
    return rows


def _read_words(text: str, place_of: ModelPlaces) -> list[_Form]:
    """Return what a text says; raise where it can also be read with a name in it, without quotes, as an expression."""
    tokens = _tokens(text, place_of)
    rows = _chains(text, tokens)
    for _, name, start, stop in tokens:
        if name not in place_of or text[start:stop] != name or name.isalnum():
            continue
        other = text[:start] + re.sub("[<>≤≥≠]=?|!=", "=", name) + text[stop:]
        try:
            _chains(other, _tokens(other, place_of, only_quoted=name))
        except DmlrankError:
            continue
        raise HypothesisError(f"{name!r} is a model and an expression of other models; put the names in quotes")
    return rows


def _unknown(name: object, place_of: ModelPlaces, hint: str) -> str:
    """Return the error about a name that is no model."""
    # A model of a projection has one for every term, 'tokens: aster', and a model of groups for every group.
    if alike := [known for known in place_of if str(known).endswith(f": {name}")]:
        return f"{name!r} alone names no estimate; it has {listed(alike)}"
    return f"unknown model {name!r}; known are {listed(place_of)}{hint}{nearest(name, place_of)}"
