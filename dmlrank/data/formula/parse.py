"""The formula ``winner ~ features | first + second``, split into its parts with patsy's tokenizer."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from keyword import iskeyword
from typing import NamedTuple

from patsy import ModelDesc, PatsyError, Term
from patsy.infix_parser import ParseNode
from patsy.parse_formula import parse_formula as patsy_tree
from patsy.tokens import python_tokenize

from ...exceptions import FormulaError

# Functions that other programs know without a prefix, with numpy's name for them.
NUMPY_FUNCTIONS = {
    name: name for name in ("log2", "log10", "log1p", "exp", "expm1", "sqrt", "sin", "cos", "tanh", "sign")
}
NUMPY_FUNCTIONS |= {"log": "log", "ln": "log"}
# Functions of R and other programs, with what is written here instead.
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
# Number of formulas whose terms and names are cached.
_CACHE_SIZE = 64
# A sum of at least so many summands gets nested brackets, because patsy reads a sum recursively, summand by summand.
_MANY_SUMMANDS = 50
# Largest number of terms that the features may stand for; others would fill the memory.
_MOST_TERMS = 100_000
# With a larger power, any sum of so many terms stands for more than the largest number of terms.
_LARGEST_POWER = 20

SHAPE = "winner ~ features | model_a + model_b"
SHAPE_OF_SCORES = "score ~ features | model"


@dataclass(frozen=True, slots=True)
class Formula:
    """The parts of a formula.

    outcome: The column of labels, or the text left of the tilde where several columns of probabilities stand there;
        empty where the first item of each row is the one that won.
    first, second: Columns of the items shown first and second; ``second`` is empty in a formula of scores.
    probabilities: Columns of probabilities, if several columns stand left of the tilde.
    """

    outcome: str
    features: str
    first: str
    second: str
    probabilities: tuple[str, ...] = ()

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The column of labels, or the columns of probabilities."""
        return self.probabilities or tuple(filter(None, (self.outcome,)))

    @property
    def items(self) -> tuple[str, ...]:
        """The columns of the items: two for votes, one for scores."""
        return tuple(filter(None, (self.first, self.second)))

    @property
    def of_scores(self) -> bool:
        """Whether the outcome is a score of one item, and not a vote on two."""
        return not self.second


class FormulaNames(NamedTuple):
    """Names in the features, each kind in order of appearance.

    values: Columns and arrays whose values are used.
    calls: Functions that are called; a name may be here and among the values, as ``C`` in ``C(topic) + C``.
    features: Columns and arrays that are a feature by themselves, such as ``x`` in ``x + log(y)``.
    arguments: Names that are arguments of a function, such as ``text()``, but not of ``C()``.
    """

    values: tuple[str, ...]
    calls: tuple[str, ...]
    features: tuple[str, ...]
    arguments: tuple[str, ...]


class _FormulaToken(NamedTuple):
    """A token of a formula, as it is written, from start to end, with its ``depth`` of brackets."""

    text: str
    start: int
    end: int
    depth: int


def parse_formula(formula: str) -> Formula:
    """Split a formula into its outcome, features and items."""
    if not isinstance(formula, str):
        raise FormulaError(f"the formula is a {type(formula).__name__}; it must be a string such as {SHAPE!r}")
    # The tokenizer of patsy counts positions from the first character that is not a blank.
    formula = formula.strip()
    tokens = _tokenize(formula)
    tilde = _place_of_mark(tokens, "~", formula)
    bar = _place_of_mark(tokens, "|", formula)
    if bar < tilde:
        raise FormulaError(f"{formula!r}: the bar stands before the tilde; the form is {SHAPE!r}")
    rule = "left of ~ stands one column of labels, or columns of probabilities joined by +"
    outcomes = [_column_name(part, formula, rule) for part in _summands(tokens[:tilde])] if tilde else [""]
    features = _slice(formula, tokens[tilde + 1 : bar])
    if not features:
        raise FormulaError(f"{formula!r}: no features stand between ~ and |; write 1 there if there are none")
    rule = "right of | stand the two item columns, joined by +, or the one of a table of scores"
    items = [_column_name(part, formula, rule) for part in _summands(tokens[bar + 1 :])]
    if len(items) > 2:
        raise FormulaError(
            f"{formula!r}: {len(items)} item columns after |; allowed: {SHAPE!r}, or {SHAPE_OF_SCORES!r}"
        )
    if len(items) == 1 and len(outcomes) > 1:
        raise FormulaError(
            f"{formula!r}: {len(outcomes)} columns of scores, and one stands here (dml_rank takes several as criteria)"
        )
    if len(items) == 1 and not tilde:
        raise FormulaError(f"{formula!r}: no column of scores stands left of ~: {SHAPE_OF_SCORES!r}")
    columns = [*outcomes, *items]
    for name in columns:
        if columns.count(name) > 1:
            of_winners = f"winners and losers are '~ 1 | {' + '.join(items)}'"
            hint = of_winners if len(set(items)) == 2 and name in items else "name each column once"
            raise FormulaError(f"{formula!r}: column {name!r} is named twice; {hint}")
    first, second = (*items, "")[:2]
    if len(outcomes) > 1:
        return Formula(_slice(formula, tokens[:tilde]), features, first, second, tuple(outcomes))
    return Formula(outcomes[0], features, first, second)


def criteria_of(formula: str) -> dict[str, str]:
    """Return the formula of each criterion where several columns of scores stand left of ~; nothing elsewhere."""
    if not isinstance(formula, str):
        return {}
    text = formula.strip()
    tokens = _tokenize(text)
    tilde, bar = _place_of_mark(tokens, "~", text), _place_of_mark(tokens, "|", text)
    parts = _summands(tokens[:tilde])
    if len(parts) < 2 or len(_summands(tokens[bar + 1 :])) != 1:
        return {}
    right = text[tokens[tilde].start :]
    names = [_column_name(part, text, "left of ~ stand columns of scores joined by +") for part in parts]
    if len(set(names)) < len(names):
        raise FormulaError(f"{text!r}: a criterion is named twice; name each column of scores once")
    return {name: f"{_slice(text, part)} {right}" for name, part in zip(names, parts, strict=True)}


def one_sided(formula: object) -> str | None:
    """Return the features in ``"~ features"``; None where the formula has another form."""
    text = formula.strip() if isinstance(formula, str) else ""
    return text[1:].strip() or None if text.startswith("~") and "|" not in text else None


@lru_cache(_CACHE_SIZE)
def terms_of(features: str) -> tuple[Term, ...]:
    """Return the terms of the features; they are cached, because patsy takes long to read many terms."""
    try:
        tree = patsy_tree("~ " + _with_brackets(features))
        if _count_terms(tree) > _MOST_TERMS:
            raise FormulaError(
                f"the features {features[:200]!r} stand for more than {_MOST_TERMS:,} terms; write some with :"
            )
        return tuple(ModelDesc.from_formula(tree).rhs_termlist)
    except RecursionError:
        raise FormulaError("the features are nested too deeply; put many columns into one column of vectors") from None
    except (PatsyError, AssertionError) as error:  # patsy asserts that & and similar marks join something
        why = getattr(error, "message", "an operator stands where a feature is expected")
        raise FormulaError(f"the features {features!r} cannot be read: {why}") from None


def _count_terms(node: ParseNode) -> int:
    """Return an upper bound of the number of terms that a formula stands for, without forming the terms."""
    if len(node.args) < 2:
        return _count_terms(node.args[0]) if node.args else 1
    left = _count_terms(node.args[0])
    if node.type == "**":
        exponent = str(node.args[1].token.extra) if node.args[1].token is not None else ""
        # An exponent that is no number is refused by patsy. Above the number of terms, a power changes nothing more.
        power = min(int(exponent[:9]), left, _LARGEST_POWER) if exponent.isdecimal() else 1
        return sum(math.comb(left, size) for size in range(1, power + 1))
    right = _count_terms(node.args[1])
    return left * right if node.type == ":" else left + right + (left * right if node.type == "*" else 0)


def _with_brackets(features: str) -> str:
    """Return a long sum with nested brackets, as in ``((a + b) + (c + d))``, so that patsy's recursion is not deep."""
    parts = _summands(_tokenize(features))
    words = [[token.text for token in part if token.depth == 0] for part in parts]
    if len(parts) < _MANY_SUMMANDS or any(not part or part == ["0"] or {"-", "~", "|"} & set(part) for part in words):
        return features
    texts = [_slice(features, part) for part in parts]
    while len(texts) > 1:
        pairs = [texts[at : at + 2] for at in range(0, len(texts), 2)]
        texts = [f"({' + '.join(pair)})" if len(pair) > 1 else pair[0] for pair in pairs]
    return texts[0]


@lru_cache(_CACHE_SIZE)
def names_in(features: str) -> FormulaNames:
    """Return the names in the features."""
    names: dict[str, list[str]] = {"values": [], "calls": [], "features": [], "arguments": []}
    for code in dict.fromkeys(factor.code for term in terms_of(features) for factor in term.factors):
        try:
            tree = ast.parse(code, mode="eval").body
        except SyntaxError:
            # As it was written: patsy puts blanks around what it takes for an operator or a number.
            written = re.search(r"\s*".join(map(re.escape, code.replace(" ", ""))), features)
            code = written[0] if written else code
            is_name = iskeyword(code) or _may_be_name(code)
            advice = f"; a column with this name is written Q({code!r})" if is_name else ""
            advice = equivalent(code.partition("(")[0]) or advice
            raise FormulaError(f"the features {features!r} cannot be read: {code!r} is not Python{advice}") from None
        except RecursionError:
            raise FormulaError(f"the features {features[:200]!r} are nested too deeply to be read") from None
        if code == "Intercept":
            raise FormulaError(f"features {features!r}: 'Intercept' is the constant; write a column Q('Intercept')")
        nodes = list(ast.walk(tree))
        # Names that the factor itself binds: arguments of a lambda, variables of a comprehension.
        bound = {node.arg for node in nodes if isinstance(node, ast.arg)}
        bound |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        functions = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        name_of = {id(node): name for node in nodes if (name := _name_or_quoted(node)) is not None}
        if id(tree) in name_of:
            names["features"].append(name_of[id(tree)])
        for node in nodes:
            if id(node) in name_of and (isinstance(node, ast.Call) or name_of[id(node)] not in bound):
                names["calls" if id(node) in functions else "values"].append(name_of[id(node)])
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) not in ("C", "Q"):
                parts = [id(part) for argument in node.args for part in ast.walk(argument)]
                names["arguments"].extend(name_of[part] for part in parts if part in name_of)
    return FormulaNames(**{kind: tuple(dict.fromkeys(found)) for kind, found in names.items()})


def equivalent(function: str) -> str:
    """Return advice on what to write instead of a function of R or another program; an empty text if none is known."""
    if function in NUMPY_FUNCTIONS:
        return f"; write np.{NUMPY_FUNCTIONS[function]}(x)"
    return f"; write {_EQUIVALENTS[function]}" if function in _EQUIVALENTS else ""


def _may_be_name(code: str) -> bool:
    """Return whether a text may be the name of a column: it has no brackets, no quotes, no ``=`` and no commas."""
    return not set(code) & set("()[]{}'\"=,")


def _name_or_quoted(node: ast.AST) -> str | None:
    """Return the name that a node is, as it stands or in ``Q("a name")``; None where the node is something else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "Q" and len(node.args) == 1:
        name = getattr(node.args[0], "value", None)
        return name if isinstance(name, str) else None
    return None


def _tokenize(formula: str) -> list[_FormulaToken]:
    """Return the tokens of a formula."""
    tokens, depth, problem = [], 0, ""
    try:
        for _, text, origin in python_tokenize(formula):
            depth -= text in (")", "]", "}")
            tokens.append(_FormulaToken(text, origin.start, origin.end, depth))
            depth += text in ("(", "[", "{")
            # Before Python 3.12, the tokenizer raises an error for a backtick; later versions return it as a token.
            problem = "it has a backtick" if text == "`" else problem
    except PatsyError as error:
        problem = error.message
    if problem:
        quoted = " and ".join(f"Q({name!r})" for name in re.findall("`([^`]+)`", formula)[:3]) or 'Q("a name")'
        advice = f"; a column with an odd name is written {quoted}, not in backticks" if "`" in formula else ""
        raise FormulaError(f"{formula!r} cannot be read: {problem}{advice}")
    return tokens


def _place_of_mark(tokens: Sequence[_FormulaToken], mark: str, formula: str) -> int:
    """Return the position of a mark, ``~`` or ``|``, among the tokens; raise unless the mark occurs exactly once."""
    places = [place for place, token in enumerate(tokens) if token.text == mark and token.depth == 0]
    if len(places) == 1:
        return places[0]
    if not places:
        missing = "no |, so the two item columns are missing" if mark == "|" else "no ~, so the outcome is missing"
        raise FormulaError(f"{formula!r}: there is {missing}; the form is {SHAPE!r}")
    if mark == "|" and tokens[places[0]].end == tokens[places[1]].start:
        raise FormulaError(f"{formula!r}: || is not a separator; a single | stands before the items: {SHAPE!r}")
    raise FormulaError(f"{formula!r}: {mark} stands {len(places)} times outside brackets; the form is {SHAPE!r}")


def _summands(tokens: Sequence[_FormulaToken]) -> list[Sequence[_FormulaToken]]:
    """Return the tokens of each summand of a sum."""
    plus = [position for position, token in enumerate(tokens) if token.text == "+" and token.depth == 0]
    return [tokens[a + 1 : b] for a, b in zip([-1, *plus], [*plus, len(tokens)], strict=True)]


def _column_name(tokens: Sequence[_FormulaToken], formula: str, rule: str) -> str:
    """Return the name in the tokens ``name`` or ``Q("name")``; ``rule`` says in the error what is allowed."""
    words = [token.text for token in tokens]
    if len(words) == 1 and words[0].isidentifier():
        return words[0]
    if len(words) == 4 and words[:2] == ["Q", "("] and words[3] == ")" and words[2][0] in "'\"":
        return str(ast.literal_eval(words[2]))
    summand = _slice(formula, tokens) or "nothing"
    advice = f"; a column of this name is written Q({summand!r})" if tokens and _may_be_name(summand) else ""
    raise FormulaError(
        f'{formula!r}: {rule} (a name, or Q("a name with spaces")), but {summand!r} stands there{advice}'
    )


def _slice(formula: str, tokens: Sequence[_FormulaToken]) -> str:
    """Return the text of consecutive tokens."""
    return formula[tokens[0].start : tokens[-1].end] if tokens else ""
