"""The formula ``winner ~ features | first + second``: split with patsy's tokenizer before any engine reads a part."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from keyword import iskeyword
from typing import NamedTuple

from patsy import ModelDesc, PatsyError, Term
from patsy.tokens import python_tokenize

from ...exceptions import FormulaError

# Functions that other programs have without a prefix, by numpy's name, and what stands here for those of R.
_NUMPY = {name: name for name in ("log2", "log10", "log1p", "exp", "expm1", "sqrt", "sin", "cos", "tanh", "sign")}
_NUMPY |= {"log": "log", "ln": "log"}
_EQUIVALENTS = {
    "factor": "C(x)",
    "as.factor": "C(x)",
    "as_factor": "C(x)",
    "category": "C(x)",
    "relevel": "C(x, Treatment('level'))",
    "poly": "x + I(x**2), or bs(x, df=4) for a spline",
    "s": "bs(x, df=4) or cr(x, df=4)",
    "ns": "cr(x, df=4)",
    "ifelse": "np.where(condition, a, b)",
}
# Formulas that are remembered.
_REMEMBERED = 64

SHAPE = "winner ~ features | model_a + model_b"


@dataclass(frozen=True, slots=True)
class Formula:
    """The parts of a formula: outcome column, patsy right-hand side, and the columns shown first and second.

    Where several columns of probabilities stand left of the tilde, they are ``probabilities``, and ``outcome`` is their
    text.
    """

    outcome: str
    features: str
    first: str
    second: str
    probabilities: tuple[str, ...] = ()

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The column of labels, or the columns of probabilities."""
        return self.probabilities or (self.outcome,)

    def __str__(self) -> str:
        return f"{self.outcome} ~ {self.features} | {self.first} + {self.second}"


class Names(NamedTuple):
    """Names in the features: read as values, called as functions, and those that are a feature by themselves."""

    values: tuple[str, ...]
    calls: tuple[str, ...]
    alone: tuple[str, ...]


class _Token(NamedTuple):
    text: str
    start: int
    end: int
    depth: int


def parse_formula(formula: str) -> Formula:
    """Split a formula into its outcome, features and items.

    Parameters
    ----------
    formula : str
        ``winner ~ features | model_a + model_b``. The features are anything patsy reads; ``1`` means no context. Left
        of the tilde stands one column, or columns of probabilities joined by ``+``.

    Raises
    ------
    FormulaError
        With what was read and what is allowed.

    Examples
    --------
    >>> parse_formula("winner ~ C(category) + length | model_a + model_b")
    Formula(outcome='winner', features='C(category) + length', first='model_a', second='model_b', probabilities=())
    >>> parse_formula("p_a + p_b + p_tie ~ 1 | model_a + model_b").probabilities
    ('p_a', 'p_b', 'p_tie')
    """
    if not isinstance(formula, str):
        raise FormulaError(f"the formula is a {type(formula).__name__}; needed is a string such as {SHAPE!r}")
    # patsy's tokenizer counts from the first character that is not a blank.
    formula = formula.strip()
    tokens = _tokenize(formula)
    tilde = _only(tokens, "~", formula)
    bar = _only(tokens, "|", formula)
    if bar < tilde:
        raise FormulaError(f"{formula!r}: the bar stands before the tilde; the form is {SHAPE!r}")
    rule = "left of ~ stands one column of labels, or columns of probabilities joined by +"
    left = [_column(part, formula, rule) for part in _summands(tokens[:tilde])]
    features = _slice(formula, tokens[tilde + 1 : bar])
    if not features:
        raise FormulaError(f"{formula!r}: no features between ~ and |; write 1 there for no context")
    first, second = _items(tokens[bar + 1 :], formula)
    named = [*left, first, second]
    for name in named:
        if named.count(name) > 1:
            raise FormulaError(f"{formula!r}: column {name!r} is named twice; outcome and items are different columns")
    if len(left) > 1:
        return Formula(_slice(formula, tokens[:tilde]), features, first, second, tuple(left))
    return Formula(left[0], features, first, second)


def one_sided(formula: object) -> str | None:
    """The features in ``"~ features"``; None where something else stands there.

    Examples
    --------
    >>> one_sided("~ C(category) + score"), one_sided("winner ~ score")
    ('C(category) + score', None)
    """
    text = formula.strip() if isinstance(formula, str) else ""
    return text[1:].strip() or None if text.startswith("~") and "|" not in text else None


@lru_cache(_REMEMBERED)
def terms_of(features: str) -> tuple[Term, ...]:
    """Terms of the features; patsy takes its time over many, and they are asked for more than once."""
    try:
        return tuple(ModelDesc.from_formula("~ " + _balanced(features)).rhs_termlist)
    except RecursionError:
        raise FormulaError(
            f"the features are nested too deeply to be read ({len(features):,} characters); many columns of numbers "
            f"can be one column of vectors, or an array of the caller with a row per row of the data"
        ) from None
    except (PatsyError, AssertionError) as error:  # patsy asserts that & and other odd marks join something
        why = getattr(error, "message", "an operator stands where a feature is expected")
        raise FormulaError(f"the features {features!r} cannot be read: {why}") from None


# Summands from which a sum is written with brackets.
_MANY_SUMMANDS = 50


def _balanced(features: str) -> str:
    """A long sum in brackets of brackets, ``(a + b) + (c + d)``: patsy descends once into each plus from the left.

    A sum with anything that takes terms away (minus, zero) stays as it is: there brackets would have a meaning.

    Examples
    --------
    >>> _balanced("a + b:c")
    'a + b:c'
    """
    parts = _summands(_tokenize(features))
    words = [[token.text for token in part if token.depth == 0] for part in parts]
    if len(parts) < _MANY_SUMMANDS or any(not part or part == ["0"] or {"-", "~", "|"} & set(part) for part in words):
        return features
    texts = [_slice(features, part) for part in parts]
    while len(texts) > 1:
        pairs = [texts[at : at + 2] for at in range(0, len(texts), 2)]
        texts = [f"({' + '.join(pair)})" if len(pair) > 1 else pair[0] for pair in pairs]
    return texts[0]


@lru_cache(_REMEMBERED)
def names_in(features: str) -> Names:
    """Names in the features, each kind in order of appearance."""
    terms = terms_of(features)
    values: dict[str, None] = {}
    calls: dict[str, None] = {}
    alone: dict[str, None] = {}
    for factor in dict.fromkeys(factor for term in terms for factor in term.factors):
        tree = _parse(factor.code, features)
        _collect(tree, values, calls)
        if factor.code == "Intercept":
            raise FormulaError(
                f"the features {features!r} use 'Intercept', patsy's name for the constant; a column of this name is "
                f"written Q('Intercept')"
            )
        name = tree.id if isinstance(tree, ast.Name) else _quoted(tree)
        if name is not None:
            alone[name] = None
    return Names(tuple(values), tuple(name for name in calls if name not in values), tuple(alone))


@lru_cache(_REMEMBERED)
def read_by_functions(features: str) -> frozenset[str]:
    """Names in the features that a function reads, such as text(); C() only says that a column is a category.

    Examples
    --------
    >>> sorted(read_by_functions("text(prompt, 2) + C(topic) + length"))
    ['prompt']
    """
    factors = dict.fromkeys(factor for term in terms_of(features) for factor in term.factors)
    found = set()
    for factor in factors:
        for node in ast.walk(_parse(factor.code, features)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) not in ("C", "Q"):
                inside = [part for argument in node.args for part in ast.walk(argument)]
                found |= {part.id for part in inside if isinstance(part, ast.Name)}
                found |= {quoted for part in inside if (quoted := _quoted(part)) is not None}
    return frozenset(found)


def _parse(code: str, features: str) -> ast.expr:
    try:
        return ast.parse(code, mode="eval").body
    except SyntaxError:
        advice = f"; a column with this name is written Q({code!r})" if iskeyword(code) or _may_be_name(code) else ""
        advice = equivalent(code.partition("(")[0]) or advice
        raise FormulaError(f"the features {features!r} cannot be read: {code!r} is not Python{advice}") from None


def equivalent(function: str) -> str:
    """``; write ...`` for a function of other programs, or nothing.

    Examples
    --------
    >>> equivalent("log"), equivalent("as.factor")
    ('; write np.log(x)', '; write C(x)')
    """
    if function in _NUMPY:
        return f"; write np.{_NUMPY[function]}(x)"
    return f"; write {_EQUIVALENTS[function]}" if function in _EQUIVALENTS else ""


def dotted_names(features: str) -> tuple[str, ...]:
    """What is written in the features as an attribute of a name and may be meant as a column, such as ``prompt.len``.

    Examples
    --------
    >>> dotted_names("prompt.len + np.log(length)")
    ('prompt.len', 'np.log')
    """
    factors = dict.fromkeys(factor for term in terms_of(features) for factor in term.factors)
    nodes = [node for factor in factors for node in ast.walk(_parse(factor.code, features))]
    return tuple(dict.fromkeys(ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)))


def _may_be_name(code: str) -> bool:
    """Whether a text that is not Python may be a column's name: nothing in it is called, quoted or listed."""
    return not set(code) & set("()[]{}'\"=,")


def _quoted(node: ast.AST) -> str | None:
    """The name in ``Q("a name")``; None where the node is something else."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "Q" and len(node.args) == 1:
        name = getattr(node.args[0], "value", None)
        return name if isinstance(name, str) else None
    return None


def _collect(tree: ast.AST, values: dict[str, None], calls: dict[str, None]) -> None:
    bound = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    bound |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        quoted = _quoted(node)
        if quoted is not None:
            values[quoted] = None
        elif isinstance(node, ast.Name) and node.id not in bound:
            (calls if id(node) in called else values)[node.id] = None


def _tokenize(formula: str) -> list[_Token]:
    tokens, depth = [], 0
    try:
        for _, text, origin in python_tokenize(formula):
            depth -= text in (")", "]", "}")
            tokens.append(_Token(text, origin.start, origin.end, depth))
            depth += text in ("(", "[", "{")
    except PatsyError as error:
        raise FormulaError(f"{formula!r} cannot be read: {error.message}{_backtick_advice(formula)}") from None
    # From Python 3.12 on the tokenizer hands backticks through instead of refusing them.
    if any(token.text == "`" for token in tokens):
        raise FormulaError(f"{formula!r} cannot be read: it has a backtick{_backtick_advice(formula)}")
    return tokens


def _backtick_advice(formula: str) -> str:
    """How the columns are written that stand in backticks; nothing where there are none."""
    quoted = re.findall("`([^`]+)`", formula)
    names = " and ".join(f"Q({name!r})" for name in quoted[:3]) if quoted else 'Q("a name")'
    return f"; a column with an odd name is written {names}, not in backticks" if "`" in formula else ""


def _only(tokens: Sequence[_Token], mark: str, formula: str) -> int:
    found = [position for position, token in enumerate(tokens) if token.text == mark and token.depth == 0]
    if len(found) == 1:
        return found[0]
    if not found:
        missing = "no |, so the two item columns are missing" if mark == "|" else "no ~, so the outcome is missing"
        raise FormulaError(f"{formula!r}: {missing}; the form is {SHAPE!r}")
    if mark == "|" and tokens[found[0]].end == tokens[found[1]].start:
        raise FormulaError(f"{formula!r}: || is not a separator; one | stands before the items: {SHAPE!r}")
    raise FormulaError(f"{formula!r}: {len(found)} times {mark} outside brackets; the form is {SHAPE!r}")


def _items(tokens: Sequence[_Token], formula: str) -> tuple[str, str]:
    rule = "right of | stand the two item columns, joined by +"
    names = [_column(part, formula, rule) for part in _summands(tokens)]
    if len(names) != 2:
        raise FormulaError(
            f"{formula!r}: {len(names)} item column{'s' * (len(names) > 1)} after | ({', '.join(names)}); "
            f"needed are two, shown first and second: {SHAPE!r}"
        )
    return names[0], names[1]


def _summands(tokens: Sequence[_Token]) -> list[Sequence[_Token]]:
    plus = [position for position, token in enumerate(tokens) if token.text == "+" and token.depth == 0]
    return [tokens[a + 1 : b] for a, b in zip([-1, *plus], [*plus, len(tokens)], strict=True)]


def _column(tokens: Sequence[_Token], formula: str, rule: str) -> str:
    words = [token.text for token in tokens]
    if len(words) == 1 and words[0].isidentifier():
        return words[0]
    if len(words) == 4 and words[:2] == ["Q", "("] and words[3] == ")" and words[2][0] in "'\"":
        return str(ast.literal_eval(words[2]))
    read = _slice(formula, tokens) or "nothing"
    written = f"; a column of this name is written Q({read!r})" if tokens and _may_be_name(read) else ""
    raise FormulaError(f'{formula!r}: {rule} (a name, or Q("a name with spaces")); read was {read!r}{written}')


def _slice(formula: str, tokens: Sequence[_Token]) -> str:
    return formula[tokens[0].start : tokens[-1].end] if tokens else ""
