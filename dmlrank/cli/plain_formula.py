"""A check of formulas from the command line, which may use arithmetic and a list of functions, but no other code."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from ..data.arrays import is_vector_column
from ..data.formula.features import FORMULA_NAMES
from ..data.formula.parse import NUMPY_FUNCTIONS, one_sided, parse_formula, terms_of
from ..data.frames import column_names, take_columns
from ..exceptions import FormulaError
from .read_files import Frame

# What an expression gives in a row: a number or truth value, a text, or what no operator takes, such as a category, a
# vector, or the columns of a spline.
_Kind: TypeAlias = Literal["number", "text", "other"]

_OF_COLUMNS = frozenset(["abs", "max", "min", "center", "standardize", "scale"])
_SPLINES = frozenset(["bs", "cr", "cc"])
_NUMPY = frozenset([*NUMPY_FUNCTIONS.values(), "abs", "clip", "isnan", "maximum", "minimum", "where"])
_KNOWN_FUNCTIONS = frozenset([*_OF_COLUMNS, *FORMULA_NAMES]) - {"np"}
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd, ast.BitOr, ast.BitXor)
_SIGNS = (ast.UAdd, ast.USub, ast.Invert)
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_LARGEST_EXPONENT = 100
# Largest number of columns and degree of a spline.
_LARGEST_SPLINE = 1000


class _Refused(Exception):
    """A part of a formula that the command line does not allow."""


def check_plain(formula: str, propensity: str | None, frames: Sequence[Frame]) -> None:
    """Check that a formula consists of columns of the frames, arithmetic on numbers, and known functions only."""
    further = one_sided(propensity)
    for features in [parse_formula(formula).features, *([further] if further else [])]:
        codes = dict.fromkeys(factor.code for term in terms_of(features) for factor in term.factors)
        try:
            # A column by itself is not read here.
            expressions = [ast.parse(code, mode="eval").body for code in codes if not code.isidentifier()]
            words = {
                getattr(node, "id", getattr(node, "value", None)) for tree in expressions for node in ast.walk(tree)
            }
            columns: dict[str, _Kind] = {}
            for frame in frames:
                for name in [name for name in column_names(frame) if name in words]:
                    column = take_columns(frame, [name])[name]
                    is_number = getattr(column.dtype, "kind", "O") in "biuf" and columns.get(name, "number") == "number"
                    columns[name] = "number" if is_number else "other" if is_vector_column(column) else "text"
            for expression in expressions:
                _kind(expression, columns)
        except (_Refused, RecursionError) as refused:
            is_deep = isinstance(refused, RecursionError)
            code = "brackets or signs that are nested too deeply" if is_deep else repr(str(refused))
            raise FormulaError(
                f"the features {features!r} use {code}; on the command line a formula consists of columns, "
                f"comparisons, arithmetic on columns of numbers (exponents up to {_LARGEST_EXPONENT}), patsy's "
                f"functions (splines of up to {_LARGEST_SPLINE:,} columns), text(), abs, max, min, np.log() and "
                f"similar; dml_rank() in Python lets it run any code"
            ) from None


def _kind(node: ast.expr, columns: Mapping[str, _Kind]) -> _Kind:
    """Return what an expression gives in a row; raise where it uses what is not allowed."""
    match node:
        case ast.Constant(value=value):
            return "number" if isinstance(value, int | float) else "text" if isinstance(value, str) else "other"
        case ast.Name(id=name) if name in columns:
            return columns[name]
        case ast.Name(id=name) if name in _KNOWN_FUNCTIONS:
            return "other"
        case ast.Name(id=name) if name != "np" and not _is_builtin(name):
            return "number"  # no one knows this name: it is refused where the formula is read
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            for part in parts:
                _kind(part, columns)
            return "other"
        case ast.UnaryOp(op=op, operand=part) if isinstance(op, _SIGNS) and _kind(part, columns) == "number":
            return "number"
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _ARITHMETIC):
            is_small = not isinstance(op, ast.Pow) or _is_small_power(left, right)
            if is_small and _kind(left, columns) == _kind(right, columns) == "number":
                return "number"
        case ast.Compare(left=left, ops=ops, comparators=others) if all(isinstance(op, _COMPARISONS) for op in ops):
            if "other" not in [_kind(part, columns) for part in (left, *others)]:
                return "number"
        case ast.Call(func=ast.Name(id=name)):
            return _kind_of_call(node, name, columns)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np"), attr=name)) if name in _NUMPY:
            return _kind_of_call(node, f"np.{name}", columns)
        case ast.Call(func=ast.Attribute(attr=name)) | ast.Attribute(attr=name):
            raise _Refused(f".{name}")
    raise _Refused(ast.unparse(node))


def _kind_of_call(call: ast.Call, name: str, columns: Mapping[str, _Kind]) -> _Kind:
    """Return what a call gives in a row; raise where the function or its arguments are not allowed."""
    is_known = name in _KNOWN_FUNCTIONS or name.startswith("np.")
    if not is_known and (name in columns or _is_builtin(name)):
        raise _Refused(name)
    given: dict[object, ast.expr] = {**{word.arg: word.value for word in call.keywords}, **dict(enumerate(call.args))}
    kinds = {key: _kind(part, columns) for key, part in given.items()}
    sizes = [given[key] for key in (1, 2, 3, "df", "degree") if key in given] if name in _SPLINES else []
    of_columns = is_known and (name in _OF_COLUMNS or name.startswith("np."))
    if (
        None in given
        or any(_size(size) > _LARGEST_SPLINE for size in sizes)
        or (of_columns and "other" in kinds.values())
        or (name in _SPLINES and kinds.get(0) != "number")
        or (name == "Q" and (len(given) != 1 or getattr(call.args[0], "value", None) not in columns))
    ):
        raise _Refused(ast.unparse(call))
    if name == "Q":
        return columns[getattr(call.args[0], "value", "")]
    if name == "I":
        return kinds.get(0, "other")
    if of_columns:
        return "text" if "text" in kinds.values() else "number"
    return "other" if is_known else "number"


def _is_builtin(name: str) -> bool:
    """Return whether a name is one of Python's own."""
    return name.startswith("__") or hasattr(builtins, name)


def _is_small_power(base: ast.expr, exponent: ast.expr) -> bool:
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
