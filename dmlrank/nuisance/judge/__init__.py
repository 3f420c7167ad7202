"""Judges: their verdicts as arrays, and what verdicts add to the labels."""
