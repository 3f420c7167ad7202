"""Smooth functions of features with a penalty."""
