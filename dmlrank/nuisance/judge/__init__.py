"""Verdicts of automatic judges."""
