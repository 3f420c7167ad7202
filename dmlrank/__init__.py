"""Nonparametric ranking of language models from pairwise preferences, with confidence statements that hold.

The method is that of Frauen, Deviyani, van der Schaar and Feuerriegel, arXiv 2601.21816. The main door is
:func:`dml_rank`.
"""

from __future__ import annotations

import lazy_loader

# A public name is imported when it is first used; __init__.pyi says from where.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
