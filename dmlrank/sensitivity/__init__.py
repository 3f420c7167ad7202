"""Sensitivity of a result: to votes that were not cast, and to a few votes that are dropped."""
