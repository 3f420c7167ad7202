"""Formulas: what they say, and the features made from them."""
