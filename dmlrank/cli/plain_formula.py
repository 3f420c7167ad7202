"""A check of formulas from the command line, which may use arithmetic and a list of functions, but no other code."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterator

from ..data.formula.parse import one_sided, parse_formula, terms_of
from ..exceptions import FormulaError

_FUNCTIONS = frozenset(["abs", "bool", "float", "int", "len", "max", "min", "pow", "round", "str", "sum"])
_METHODS = frozenset(["abs", "astype", "clip", "fillna", "isna", "notna", "rank", "str"])
_TEXT_METHODS = frozenset(["contains", "count", "endswith", "len", "lower", "startswith", "strip", "upper"])


def check_plain(formula: str, propensity_formula: str | None, columns: Collection[str]) -> None:
    """Check that a formula uses allowed functions of columns only.

    A formula is Python code. In a program it may call any function of the program. A command line may have been put
    together by another program from text that nobody has checked; its formulas may call the functions of patsy,
    ``text``, and a few functions of Python.

    Parameters
    ----------
    formula : str
    propensity_formula : str or None
    columns : collection of str
        Names of the columns of the data.

    Raises
    ------
    FormulaError
        If a formula uses a function, method or name that is not allowed.

    Examples
    --------
    >>> check_plain("winner ~ C(topic) + I(length ** 2) | model_a + model_b", None, ["topic", "length"])
    """
    further = one_sided(propensity_formula) if propensity_formula else None
    for features in [parse_formula(formula).features, *([further] if further else [])]:
        for factor in {factor for term in terms_of(features) for factor in term.factors}:
            try:
                tree = ast.parse(factor.code, mode="eval")
            except SyntaxError:
                # The error of such a formula is raised where the formula is read.
                continue
            for code in _forbidden_code(tree, columns):
                raise FormulaError(
                    f"the features {features!r} use {code!r}; on the command line a formula may call patsy's "
                    f"functions, text(), {', '.join(sorted(_FUNCTIONS))} and methods such as .str.len(); in Python, "
                    f"dmlrank.dml_rank takes any function"
                )


def _forbidden_code(tree: ast.AST, columns: Collection[str]) -> Iterator[str]:
    """Yield names, methods and calls that a formula of the command line may not use."""
    yield from (n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not _is_allowed(n.id, columns))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            of_text = isinstance(node.value, ast.Attribute) and node.value.attr == "str"
            if node.attr not in (_TEXT_METHODS if of_text else _METHODS):
                yield f".{node.attr}"
        if isinstance(node, ast.Call) and not isinstance(node.func, ast.Name | ast.Attribute):
            yield ast.unparse(node)


def _is_allowed(name: str, columns: Collection[str]) -> bool:
    """Return whether a formula may use a name: a column, an allowed function, or a name that is no builtin of Python.

    A name that is no column and no builtin is a function of patsy, or patsy does not know it and raises an error.
    """
    if name in columns or name in _FUNCTIONS:
        return True
    return not name.startswith("__") and not hasattr(builtins, name)
