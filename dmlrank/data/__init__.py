"""Data: names of models, columns and categories become arrays. Its public functions convert data before a fit."""

import lazy_loader

# A public name is imported when it is first used; __init__.pyi says from where.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
