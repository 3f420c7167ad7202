"""Nonparametric ranking of language models from pairwise preferences, with confidence statements that hold.

The method is that of Frauen, Deviyani, van der Schaar and Feuerriegel, arXiv 2601.21816. The main door is
:func:`dml_rank`.
"""

from __future__ import annotations

from importlib import import_module

import lazy_loader

# A public name is imported when it is first used; __init__.pyi says from where.
_imported, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    try:
        return _imported(name)
    except AttributeError:
        rooms = () if name.startswith("_") else ("planning", "data", "datasets", "functionals")
        found = [room for room in rooms if name in dir(import_module(f"{__name__}.{room}"))]
        hint = f"; it is dmlrank.{found[0]}.{name}" if found else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}") from None
