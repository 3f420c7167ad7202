"""The note of a summary about style, and the summary of the slopes and of the scores before and after."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from .._utils.number_text import decimals, p_value_clause, p_value_text
from ..exceptions import listed
from ..fit.estimates import Estimates
from ..fit.style_estimates import StyleEstimates
from ..inference.z_tests import two_sided_p_values, z_statistics
from ..tables.summary_table import Summary
from .sentences import percentage

ASSOCIATION = (
    "This is an association, not an effect: style lies between the model and the vote, and better answers may be "
    "longer."
)
# One head for every column of the table of the three leaderboards, where no head stands over two columns.
_COLUMN_HEADS = (
    *(f"{board}{number}" for board in ("raw", "averaged", "equal") for number in ("", " std err")),
    *("rank raw", "rank equal", "change", "change CI", "shift P"),
)


def style_unit(results: Estimates) -> str:
    """Return the addition to the functional's name; empty without an adjustment for style."""
    if results.style is None:
        return ""
    return ", at equal style" if results.style.kind == "equal" else ", battles of equal style"


def style_note(results: Estimates) -> list[str]:
    """Say in the summary of a fit what the adjustment for style does; empty without one."""
    see = " See .style for scores before and after the adjustment."
    is_equal = results.style is not None and results.style.kind == "equal"
    return [text + see * is_equal for text in style_sentences(results)]


def style_sentences(results: Estimates) -> list[str]:
    """Say what the adjustment for style does; empty without one."""
    style = results.style
    if style is None:
        return []
    if style.kind == "balanced":
        return [balanced_sentences(style)]
    return [f"{slope_sentences(results, style)} {ASSOCIATION}"]


def win_shares_without_adjustment(results: Estimates) -> str:
    """Return the addition to the meaning of win shares: scores at equal style are not about the same votes."""
    is_equal = results.style is not None and results.style.kind == "equal"
    return ", without the adjustment for style" if is_equal else ""


def slope_sentences(results: Estimates, style: StyleEstimates) -> str:
    """Say what scores at equal style are, with the slopes."""
    unit = {"bt": "log-odds", "borda": "win share"}[results.functional]
    unit = unit if results.scale.natural else f"score, {results.scale.name}"
    errors = style.slope_covariance.std_errors
    slopes = "; ".join(
        f"{name} {slope:.{digits}f} (std. err. {error:.{digits}f}, p {p_value_clause(p)})"
        for name, slope, error, digits, p in zip(
            style.columns, style.slopes, errors, slope_digits(errors), slope_p_values(style), strict=True
        )
    )
    return (
        f"Scores are those of answers that are alike in {listed(style.columns)}: the slopes on these style differences "
        f"within prompt and pair are removed. Slopes ({unit} for one unit of the difference): {slopes}."
    )


def balanced_sentences(style: StyleEstimates) -> str:
    """Say which votes count at balanced style, and how many are left."""
    share = percentage(style.n_votes_left / style.n_votes)
    how = "" if style.weights == "band" else "; votes count less, the larger the difference is"
    return (
        f"Only votes on answers of nearly equal style count: differences of at most {style.within:g} in "
        f"{listed(style.columns)}{how}. {style.n_votes_left:,} of {style.n_votes:,} votes ({share}) are left. "
        f"{ASSOCIATION}"
    )


def slope_p_values(style: StyleEstimates) -> np.ndarray:
    """Return two-sided p-values of the slopes, (r,), not adjusted."""
    return two_sided_p_values(z_statistics(style.slopes, style.slope_covariance.std_errors))


def slope_digits(errors: np.ndarray) -> list[int]:
    """Return the number of decimals of each slope, so that its standard error has two digits."""
    return [decimals(np.array([error]), fewest=2) for error in errors]


def build_style_summary(
    results: Estimates, table: pd.DataFrame | None, changes: pd.DataFrame | None, alpha: float
) -> Summary:
    """Build the table of scores before and after the adjustment, with rank changes."""
    style = results.style
    assert style is not None
    header = (("Functional:", functional_name(results), "No. Votes:", f"{style.n_votes_left:,} of {style.n_votes:,}"),)
    title = "Scores Adjusted for Style" + (f": {results.part}" if results.part else "")
    if table is None or changes is None:
        order = np.argsort(-results.estimate, kind="stable")
        digits = decimals(results.std_errors, fewest=2)
        balanced = tuple(
            (results.names[j], f"{results.estimate[j]:.{digits}f}", f"({results.std_errors[j]:.{digits}f})")
            for j in order
        )
        names = ("balanced", "balanced std err")
        return Summary(title, header, (("balanced", 2),), balanced, (balanced_sentences(style),), column_heads=names)
    digits = decimals(table["equal_se"].to_numpy(), fewest=2)
    heads = (("raw", 2), ("averaged", 2), ("equal", 2), ("rank", 2), ("change", 2), ("shift P", 1))
    moved = changes.loc[table.index]
    columns: list[list[str]] = []
    for board in ("raw", "averaged", "equal"):
        columns.append([f"{score:.{digits}f}" for score in table[board]])
        columns.append([f"({error:.{digits}f})" for error in table[f"{board}_se"]])
    columns += [[f"{rank:.0f}" for rank in table[name]] for name in ("rank_raw", "rank_equal")]
    columns.append([f"{change:+.0f}" for change in moved["change"]])
    ends = zip(moved["change_low"], moved["change_high"], strict=True)
    columns.append([f"[{low:+.0f}, {high:+.0f}]" for low, high in ends])
    columns.append([p_value_text(p) for p in moved["p_adjusted"]])
    rows = tuple((str(name), *cells) for name, *cells in zip(table.index, *columns, strict=True))
    return Summary(title, header, heads, rows, _style_notes(results, style, alpha), column_heads=_COLUMN_HEADS)


def side_by_side_on_page(summary: Summary) -> Summary:
    """Return the table of the three leaderboards for a page: a score and its standard error share a cell."""
    rows = tuple(
        (name, *(f"{cells[place]} {cells[place + 1]}" for place in (0, 2, 4)), *cells[6:])
        for name, *cells in summary.rows
    )
    heads = ("raw", "averaged", "equal", *_COLUMN_HEADS[6:])
    return replace(summary, columns=tuple((head, 1) for head in heads), rows=rows, column_heads=())


def functional_name(results: Estimates) -> str:
    """Return the functional with its unit, without the adjustment."""
    return results.functional_label + ("" if results.scale.natural else f", {results.scale.name}")


def _style_notes(results: Estimates, style: StyleEstimates, alpha: float) -> tuple[str, ...]:
    """Return the notes of a summary of scores before and after the adjustment."""
    link = "log-odds" if results.functional == "bt" else "preferences"
    boards = (
        f"raw: scores without adjustment. averaged: {link} given prompt and style, averaged over the style of the "
        f"answers that were shown. equal: the same with the slopes on style removed. Standard errors are in brackets."
    )
    if results.functional == "bt":
        boards += " Raw and averaged scores differ because the mean of log-odds is not the log-odds of the mean."
    changes = (
        "rank: ranks by raw scores and by scores at equal style. change: rise in ranks, with intervals that hold for "
        f"all models at the same time with {100 * (1 - alpha):g} % confidence. shift P: adjusted p-value of the test "
        "that the scores at equal style and the raw scores are equal (max-t)."
    )
    loss = (
        f"The out-of-fold log-loss of the preference is {style.log_loss:.4f} with style and "
        f"{style.log_loss_without:.4f} without."
    )
    return (slope_sentences(results, style), ASSOCIATION, boards, changes, loss)
