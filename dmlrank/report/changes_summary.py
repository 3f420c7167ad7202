"""Changes of scores between results: their table, and what the tests of changes show, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from .._utils.number_text import decimals, fewest_decimals, p_value_clause, p_value_text
from ..inference.wald import WaldTestResults
from ..tables.summary_table import Summary
from .sentences import as_sentence, counted

# Number of changes that a sentence names.
_CHANGES_NAMED = 5


def changes_summary(
    changes: pd.DataFrame, reference: str, *, alpha: float, unit: str, is_natural: bool, level_note: str
) -> Summary:
    """Build a table with the change of every model's score (rows) in every later result (columns)."""
    results = list(dict.fromkeys(changes["result"]))
    digits = decimals(changes["std_error"].to_numpy(), fewest=fewest_decimals(is_natural))
    level = f"{100 * (1 - alpha):g} %"
    of_result = {name: changes[changes["result"] == name].set_index("model") for name in results}
    rows = tuple(
        (model, *(cell for name in results for cell in _cells(of_result[name].loc[model], digits)))
        for model in dict.fromkeys(changes["model"])
    )
    columns = tuple(
        head for name in results for head in ((f"{name} minus {reference}", 1), (f"{level} interval", 1), ("adj. P", 1))
    )
    note = (
        f"A change is the score in the later result minus the score in {reference!r}. Intervals hold for all changes "
        f"in the table at once, and p-values are adjusted for their number (max-t)."
    )
    header = (("Scores:", unit, "Changes:", f"{counted(len(rows), 'model')}, {counted(len(results), 'later result')}"),)
    notes = (note, level_note) if level_note else (note,)
    return Summary(f"Changes of Scores from {reference}", header, columns, rows, notes)


def change_notes(
    changes: pd.DataFrame | str,
    unchanged: WaldTestResults | str,
    reference: str,
    *,
    alpha: float,
    is_natural: bool,
    level_note: str,
) -> list[str]:
    """Say which scores changed from the first result, or why there is no test of this."""
    if isinstance(changes, str):
        return [f"There are no tests of changes of scores. {as_sentence(changes)}"]
    joint = (
        f"There is no joint test of all changes: {unchanged}."
        if isinstance(unchanged, str)
        else f"Test that no score differs from {reference!r}: chi2({unchanged.df_denom:g}) = "
        f"{float(unchanged.statistic):.1f}, P {p_value_clause(float(unchanged.pvalue))}."
    )
    significant = changes[changes["p_adjusted"] <= alpha].sort_values("p_adjusted", kind="stable")
    level = f"at a joint confidence level of {100 * (1 - alpha):g} %"
    if not len(significant):
        return [f"{joint} The tests show no change of any single model's score {level}.", *filter(None, [level_note])]
    digits = decimals(changes["std_error"].to_numpy(), fewest=fewest_decimals(is_natural))
    columns = ["model", "result", "estimate"]
    named = ", ".join(
        f"{model} by {estimate:+.{digits}f} in {result}"
        for model, result, estimate in significant[columns].head(_CHANGES_NAMED).to_numpy(dtype=object)
    )
    n_unnamed = len(significant) - _CHANGES_NAMED
    more = f", and {n_unnamed:,} more" if n_unnamed > 0 else ""
    counts = f"{len(significant):,} of {counted(len(changes), 'change')}"
    return [f"{joint} The tests show {counts} {level}: {named}{more}.", *filter(None, [level_note])]


def _cells(row: pd.Series, digits: int) -> Sequence[str]:
    """Return change, interval and adjusted p-value of a model as text."""
    if not row["std_error"] > 0:
        return (f"{row['estimate']:+.{digits}f}", "", "n/a")
    limits = (row["conf_low"], row["conf_high"])
    low, high = (f"{limit:.{digits}f}" if np.isfinite(limit) else "" for limit in limits)
    return (f"{row['estimate']:+.{digits}f}", f"{low} to {high}", p_value_text(row["p_adjusted"]))
