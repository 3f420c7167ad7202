"""The class of every table, :class:`dmlrank.tables.summary_table.Summary`, under the name that this room had for it."""

from ..tables.summary_table import Summary

__all__ = ["Summary"]
