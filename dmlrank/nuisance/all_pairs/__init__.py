"""Predictions of boosters for all pairs of items at once."""
