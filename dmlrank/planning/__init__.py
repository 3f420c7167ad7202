"""Plans of labels and runs: which pairs to label next, or which models to run, so that scores become precise."""

import lazy_loader

# A public name is imported when it is first used; __init__.pyi says from where.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
