"""Example data: two simulators of Frauen et al. (2026), a simulated arena, and readers of public preference files."""

from __future__ import annotations

import lazy_loader

# A public name is imported when it is first used; __init__.pyi says from where.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
