"""Tables of a check's page beside the table of models: pairs, labels and choices of options."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..tables.summary_table import Summary

# Number of pairs that the page of a check shows.
_PAIRS_SHOWN = 50
_MEANINGS = {"first": "first one wins", "second": "second one wins"}
# Columns of the table of pairs with their heads.
_PAIR_COLUMNS = {
    "contexts": "prompts",
    "votes": "votes",
    "share_first": "first one shown first",
    "win_share": "first one wins",
    "compared": "compared",
}
_SETTINGS_COLUMNS = ["position_bias", "min_labels", "edge_weights", "pairs", "votes", "share", "least_share"]


def page_tables(pairs: pd.DataFrame, labels: pd.DataFrame, settings: pd.DataFrame) -> list[Summary]:
    """Return the tables of pairs, of labels and of choices of options."""
    return [_pairs_table(pairs), _labels_table(labels), _settings_table(settings)]


def _pairs_table(pairs: pd.DataFrame) -> Summary:
    """Return the pairs with the fewest labelled prompts."""
    shown = pairs.sort_values("contexts", kind="stable").head(_PAIRS_SHOWN)
    note = "Pairs with the fewest labelled prompts stand first."
    if len(pairs) > len(shown):
        note += f" These are {len(shown)} of {len(pairs):,} pairs; the frame .pairs has all of them."
    columns = [name for name in _PAIR_COLUMNS if name in shown.columns]
    rows = tuple(
        (f"{first} – {second}", *map(_cell, cells))
        for first, second, *cells in shown[["first", "second", *columns]].to_numpy(dtype=object)
    )
    heads = _heads(*(_PAIR_COLUMNS[name] for name in columns))
    return Summary("Pairs", (), heads, rows, (note,), "pair", text_columns=(len(columns),))


def _cell(value: bool | int | float) -> str:
    """Return whether a pair is compared, a count, or a share as text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _share(value) if isinstance(value, float) else f"{value:,}"


def _labels_table(labels: pd.DataFrame) -> Summary:
    """Return the labels with their meanings and numbers of votes."""
    rows = tuple(
        (str(label), _MEANINGS.get(read_as, str(read_as).replace("_", " ")), f"{votes:,}", _share(share))
        for label, read_as, votes, share in labels[["label", "read_as", "votes", "share"]].to_numpy(dtype=object)
    )
    return Summary("Labels", (), _heads("read as", "votes", "share"), rows, (), "label", text_columns=(1,))


def _settings_table(settings: pd.DataFrame) -> Summary:
    """Return the votes used and the precision for choices of options."""
    rows = tuple(
        (
            f"{'modelled' if ordered else 'ignored'}, {min_labels}, {weights}",
            f"{pairs:,}",
            f"{votes:,}",
            *map(_share, (share, least_share)),
            *map(_ratio, ratios),
        )
        for ordered, min_labels, weights, pairs, votes, share, least_share, *ratios in settings[
            [*_SETTINGS_COLUMNS, "se_median", "se_largest"]
        ].to_numpy(dtype=object)
    )
    note = (
        "Each row is a choice of position_bias= (display order modelled or ignored), min_labels= and edge_weights=. "
        "Standard errors are relative to those of a Bradley-Terry model fitted to all votes by maximum likelihood."
    )
    columns = ("pairs", "votes used", "share", "least share of a model", "se (median)", "se (largest)")
    row_head = "display order, labels, weights"
    return Summary("Choices of options", (), _heads(*columns), rows, (note,), row_head)


def _heads(*names: str) -> tuple[tuple[str, int], ...]:
    """Return the heads of columns, each over one column."""
    return tuple((name, 1) for name in names)


def _share(value: float) -> str:
    """Return a share as text; empty where there is none."""
    return f"{value:.3f}" if np.isfinite(value) else ""


def _ratio(value: float) -> str:
    """Return a ratio of standard errors as text; empty where the pairs do not connect the models."""
    return f"{value:.2f}" if np.isfinite(value) else ""
