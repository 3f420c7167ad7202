"""The steps of a fit."""
