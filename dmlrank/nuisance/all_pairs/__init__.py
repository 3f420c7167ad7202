"""Boosters evaluated for all pairs of items at once."""
