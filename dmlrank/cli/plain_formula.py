"""A check of formulas from the command line, which may use arithmetic and a list of functions, but no other code."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Iterator

import patsy.builtins

from ..data.formula.functions import MISSING_ALLOWED
from ..data.formula.parse import NUMPY_FUNCTIONS, one_sided, parse_formula, terms_of
from ..exceptions import FormulaError

_FUNCTIONS = frozenset(["abs", "bool", "float", "int", "len", "max", "min", "pow", "round", "str", "sum"])
_NUMPY = frozenset([*NUMPY_FUNCTIONS.values(), "abs", "clip", "isnan", "maximum", "minimum", "where"])
_METHODS = frozenset(["abs", "astype", "clip", "fillna", "isna", "notna", "rank", "str"])
_TEXT_METHODS = frozenset(["contains", "count", "endswith", "len", "lower", "startswith", "strip", "upper"])
# Functions that every formula knows: those of patsy and of this package.
_KNOWN_FUNCTIONS = frozenset(["text", *MISSING_ALLOWED, *patsy.builtins.__all__])
_SPLINES = frozenset(["bs", "cr", "cc"])
# What a formula consists of. Python's other constructs (subscripts, lambdas, comprehensions, f-strings, ...) are
# refused, because they reach objects that are not listed here, or compute for ever.
_OPERATIONS = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call, ast.keyword)
_VALUES = (ast.Name, ast.Attribute, ast.Constant, ast.Tuple, ast.List)
_OPERATORS = (ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context)
_REFUSED_OPERATORS = (ast.LShift, ast.RShift, ast.MatMult)
_LARGEST_EXPONENT = 100
# Largest number of columns and degree of a spline.
_LARGEST_SPLINE = 1000
# A repeated group in a regular expression can take exponential time.
_REPEATED_GROUP = re.compile(r"\)[*+{]")


def check_plain(formula: str, propensity: str | None, columns: Collection[str]) -> None:
    """Check that a formula consists of columns, arithmetic and allowed functions only."""
    further = one_sided(propensity)
    for features in [parse_formula(formula).features, *([further] if further else [])]:
        for factor in dict.fromkeys(factor for term in terms_of(features) for factor in term.factors):
            try:
                tree = ast.parse(factor.code, mode="eval")
            except (SyntaxError, ValueError):
                # The error of such a formula is raised where the formula is read.
                continue
            for code in _forbidden_code(tree, columns):
                raise FormulaError(
                    f"the features {features!r} use {code!r}; on the command line a formula consists of columns, "
                    f"arithmetic (exponents up to {_LARGEST_EXPONENT}), patsy's functions (splines of up to "
                    f"{_LARGEST_SPLINE:,} columns), text(), {', '.join(sorted(_FUNCTIONS))}, np.log() and similar, and "
                    f"methods such as .str.len(); --unsafe-formula lets it run any Python code, and so does "
                    f"dmlrank.dml_rank in Python"
                )


def _forbidden_code(tree: ast.AST, columns: Collection[str]) -> Iterator[str]:
    """Yield the parts of a factor that a formula of the command line may not have."""
    nodes = list(ast.walk(tree))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for name in (node.id for node in nodes if isinstance(node, ast.Name) and id(node) in called):
        # What is neither a column nor Python's own is refused as unknown where the formula is read.
        if name not in _FUNCTIONS | _KNOWN_FUNCTIONS and (name in columns or hasattr(builtins, name)):
            yield name
    for name in (node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in called):
        if name not in columns and name != "np" and (name.startswith("__") or hasattr(builtins, name)):
            yield name
    yield from (
        f".{node.attr}" for node in nodes if isinstance(node, ast.Attribute) and not _is_allowed_attribute(node)
    )
    for node in nodes:
        if (
            not isinstance(node, _OPERATIONS + _VALUES + _OPERATORS)
            or (isinstance(node, ast.Call) and not _is_allowed_call(node, columns))
            or (isinstance(node, ast.BinOp) and not _is_allowed_arithmetic(node))
        ):
            yield ast.unparse(node)


def _is_allowed_attribute(node: ast.Attribute) -> bool:
    """Return whether an attribute is a function of numpy, or a method of columns or of texts."""
    if isinstance(node.value, ast.Name) and node.value.id == "np":
        return node.attr in _NUMPY
    of_text = isinstance(node.value, ast.Attribute) and node.value.attr == "str"
    return node.attr in (_TEXT_METHODS if of_text else _METHODS)


def _is_allowed_call(node: ast.Call, columns: Collection[str]) -> bool:
    """Return whether a call names its function and has arguments that are computed in a short time."""
    name = getattr(node.func, "id", getattr(node.func, "attr", None))
    numbers = {keyword.arg: keyword.value for keyword in node.keywords} | dict(enumerate(node.args))
    if not isinstance(node.func, ast.Name | ast.Attribute) or None in numbers:
        return False
    if name == "Q":
        return len(node.args) == 1 and getattr(node.args[0], "value", None) in columns
    if name == "pow":
        return len(node.args) == 2 and _is_allowed_power(*node.args)
    if name in _SPLINES:
        sizes = [numbers.get(key) for key in (1, 2, 3, "df", "degree")]
        return all(_size(size) <= _LARGEST_SPLINE for size in sizes if size is not None)
    if name in ("contains", "count"):
        return not any(_REPEATED_GROUP.search(str(getattr(value, "value", ""))) for value in numbers.values())
    return True


def _is_allowed_arithmetic(node: ast.BinOp) -> bool:
    """Return whether an operation is one of numbers: a text or a list could be repeated until the memory is full."""
    if isinstance(node.op, _REFUSED_OPERATORS):
        return False
    if isinstance(node.op, ast.Pow):
        return _is_allowed_power(node.left, node.right)
    is_text = [
        isinstance(side, ast.Tuple | ast.List)
        or isinstance(getattr(side, "value", None), str | bytes)
        or (isinstance(side, ast.Call) and getattr(side.func, "id", None) == "str")
        for side in (node.left, node.right)
    ]
    return not (isinstance(node.op, ast.Mult | ast.Mod) and any(is_text))


def _is_allowed_power(base: ast.expr, exponent: ast.expr) -> bool:
    """Return whether a power has a column in its base and a small number as its exponent."""
    has_column = any(isinstance(node, ast.Name) for node in ast.walk(base))
    has_power = any(isinstance(node, ast.Pow) for node in ast.walk(base))
    return has_column and not has_power and _size(exponent) <= _LARGEST_EXPONENT


def _size(node: ast.expr) -> float:
    """Return the absolute value of a number in a formula; 0 for a name or list, and infinity for a computed value."""
    if isinstance(node, ast.UnaryOp):
        return _size(node.operand)
    if isinstance(node, ast.Constant):
        return abs(node.value) if isinstance(node.value, int | float) else 0.0
    return 0.0 if isinstance(node, ast.List | ast.Tuple) else float("inf")
