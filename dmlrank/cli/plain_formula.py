"""Formulas on the command line: columns, arithmetic and known functions, and no other code."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Sequence

from ..data.formula.features import FORMULA_NAMES
from ..data.formula.parse import NUMPY_FUNCTIONS, one_sided, parse_formula, terms_of
from ..data.frames import column_names
from ..exceptions import FormulaError
from .read_files import Frame

_NUMPY = frozenset([*NUMPY_FUNCTIONS.values(), "abs", "clip", "isnan", "maximum", "minimum", "where"])
_FUNCTIONS = frozenset(["abs", "max", "min", *FORMULA_NAMES]) - {"np"}
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd, ast.BitOr, ast.BitXor)
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_SIGNS = (ast.UAdd, ast.USub, ast.Invert)
_PARTS = (*_ARITHMETIC, *_COMPARISONS, *_SIGNS, ast.UnaryOp, ast.Compare, ast.List, ast.Tuple, ast.Load, ast.Expression)


def check_plain(formula: str, propensity: str | None, frames: Sequence[Frame]) -> None:
    """Check that a formula consists of columns of the frames, arithmetic, and known functions only."""
    further = one_sided(propensity)
    columns = {str(name) for frame in frames for name in column_names(frame)}
    for features in [parse_formula(formula).features, *([further] if further else [])]:
        for code in dict.fromkeys(factor.code for term in terms_of(features) for factor in term.factors):
            try:
                # A column by itself may have any name.
                tree = None if code.isidentifier() else ast.parse(code, mode="eval")
                refused = tree and next((node for node in ast.walk(tree) if not _is_plain(node, columns)), None)
                found = refused and repr(ast.unparse(refused))
            except RecursionError:
                found = "brackets or signs that are nested too deeply"
            if found:
                raise FormulaError(
                    f"the features {features!r} use {found}; on the command line a formula consists of columns, "
                    f"comparisons, arithmetic (exponents below 100), patsy's functions, text(), abs, "
                    f"max, min, np.log() and similar; dml_rank() in Python lets it run any code"
                )


def _is_plain(node: ast.AST, columns: Collection[str]) -> bool:
    """Return whether a part of an expression is allowed; its own parts are asked for one by one."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float | str | None)
        case ast.Name(id=name):
            # A name that no one knows is refused where the formula is read.
            is_of_python = name.startswith("__") or hasattr(builtins, name)
            return name in columns or name in _FUNCTIONS or name == "np" or not is_of_python
        case ast.Attribute(value=ast.Name(id="np"), attr=name):
            return name in _NUMPY
        case ast.Call(func=ast.Name(id=name), args=args):
            is_no_column = name == "Q" and not (len(args) == 1 and getattr(args[0], "value", None) in columns)
            return not is_no_column and (name in _FUNCTIONS or not (name in columns or hasattr(builtins, name)))
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np"))):
            return True
        case ast.keyword(arg=name):
            return name is not None
        case ast.BinOp(op=ast.Pow(), left=base, right=exponent):
            is_small = re.fullmatch(r"-?\d{0,2}\.?\d*", ast.unparse(exponent)) is not None
            return is_small and not any(isinstance(part, ast.Pow) for part in ast.walk(base))
        case ast.BinOp(op=op, left=left, right=right):
            # A short text times a large number fills the memory.
            has_text = any(isinstance(getattr(part, "value", 0), str) for part in (left, right))
            return isinstance(op, _ARITHMETIC) and not has_text
    return isinstance(node, _PARTS)
