"""Functions that a formula calls: which object a name stands for where the caller has a variable of the same name.

Patsy looks a name up among the columns, then in the caller's namespace, and last among its own functions. A variable
``C = 1.0`` of the caller would therefore hide ``C()``. A variable that cannot be called is passed over here.
"""

from __future__ import annotations

import builtins
from collections.abc import Collection, Iterator
from types import MappingProxyType

import numpy as np
import patsy.builtins
from patsy import EvalEnvironment

from ...exceptions import FormulaError, nearest, shown
from .parse import dotted_names, equivalent, names_in
from .transforms import MISSING_ALLOWED, text

# Names that every formula knows beside patsy's functions; they replace functions of patsy that refuse missing values.
FURTHER_NAMES = MappingProxyType({"np": np, "text": text, **MISSING_ALLOWED})
_FORMULA_NAMES = {**{name: getattr(patsy.builtins, name) for name in patsy.builtins.__all__}, **FURTHER_NAMES}


def is_known(name: str, environment: EvalEnvironment) -> bool:
    """Return whether a name stands for something where the formula is written, in patsy or in Python."""
    return name in environment.namespace or name in _FORMULA_NAMES or hasattr(builtins, name)


def resolve_functions(features: str, environment: EvalEnvironment) -> EvalEnvironment:
    """Return the environment of a formula in which every name that the features call is a function.

    A function of the caller goes before a function of patsy of the same name, as in patsy. A variable of the caller
    that cannot be called, or a variable ``np`` without the attribute that the features use, is passed over.
    """
    namespace, replaced = environment.namespace, {}
    for name in names_in(features).calls:
        if name in namespace and not callable(namespace[name]):
            function = _FORMULA_NAMES.get(name, getattr(builtins, name, None))
            if function is None:
                raise FormulaError(
                    f"the features {features!r} call {name!r}, which is {shown(namespace[name])} where the formula is "
                    f"written, and no function; rename the variable, or pass env={{{name!r}: function}}"
                )
            replaced[name] = function
        elif not is_known(name, environment):
            raise FormulaError(
                f"the features {features!r} call {name!r}, which is not known where the formula is written"
                f"{_advice_for_function(name)}"
            )
    if any(not hasattr(namespace.get("np", np), attribute) for attribute in _attributes_of_numpy(features)):
        replaced["np"] = np
    return EvalEnvironment([replaced, namespace], environment.flags) if replaced else environment


def check_column_names(features: str, columns: Collection[str], environment: EvalEnvironment) -> None:
    """Raise where a column would hide a function that patsy calls, because patsy looks among the columns first."""
    for name in names_in(features).calls:
        function = environment.namespace.get(name, _FORMULA_NAMES.get(name))
        # Patsy gives another name to a stateful transform, such as center(), before it looks names up.
        if name in columns and not hasattr(function, "__patsy_stateful_transform__"):
            raise FormulaError(
                f"the features {features!r} call {name}() and use the column {name!r}, which hides the function; "
                f"rename the column"
            )
    if "np" in columns and any(_attributes_of_numpy(features)):
        raise FormulaError(
            f"the features {features!r} use a function of numpy, and the data have a column 'np', which hides numpy; "
            f"rename the column"
        )


def hiding_functions(features: str, environment: EvalEnvironment) -> str:
    """Which functions of the caller hide functions of patsy, for the end of an error; an empty text if none do."""
    namespace = environment.namespace
    names = [
        name
        for name in names_in(features).calls
        if name in _FORMULA_NAMES and name in namespace and namespace[name] is not _FORMULA_NAMES[name]
    ]
    if not names:
        return ""
    return (
        f"; {names[0]}() is here the function of this name where the formula is written, which hides that of patsy: "
        f"rename your {names[0]}"
    )


def _attributes_of_numpy(features: str) -> Iterator[str]:
    """Yield the attributes of ``np`` that the features use, such as ``log`` in ``np.log(length)``."""
    for name in dotted_names(features):
        module, _, attribute = name.partition(".")
        if module == "np":
            yield attribute.partition(".")[0]


def _advice_for_function(name: str) -> str:
    """Return what to write instead of a function that is not known: an equivalent, a close name, or how to pass it."""
    return equivalent(name) or f"{nearest(name, _FORMULA_NAMES, cutoff=0.8)}; pass env={{{name!r}: function}}"
