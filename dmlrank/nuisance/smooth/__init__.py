"""Penalised smooth functions of the context features."""
