"""Sensitivity of a result: to votes that were not cast, to omitted features, and to a few votes that are dropped."""
