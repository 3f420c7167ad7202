"""What is wrong with data, or worth knowing, in sentences with advice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..data.preferences import PreferenceData
from ..exceptions import listed
from ..fit.estimand import explain_disconnected
from .check import Check
from .settings import recommended

_FEW = 10
_FEW_CLUSTERS = 30
_SURELY = 0.001
_NAMED = 5


def find_problems(
    found: Check, read: PreferenceData, graph: Any, *, missing: str, n_folds: int, notices: tuple[str, ...]
) -> Iterator[str]:
    """Sentences about what a fit would stumble over, the gravest first.

    Parameters
    ----------
    found : Check
    read : PreferenceData
    graph : str, Graph or array
        As the fit would be given it.
    missing : str
        What the fit would do with missing values.
    n_folds : int
    notices : tuple of str
        Warnings given while reading.
    """
    if len(found.components) > 1:
        parts = found.graph.components()
        ordered = read if found.position_bias else read.unordered()
        yield _sentence(explain_disconnected(ordered, parts, graph, min_labels=found.min_labels))
    yield from _settings(found)
    yield from _missing(found, missing)
    if found.n_contexts < n_folds:
        yield f"{found.n_contexts} contexts cannot be dealt into n_folds={n_folds} folds; use fewer folds."
    yield from (_sentence(notice) for notice in notices)
    yield from _similar_models(found)
    yield from _pairs(found)
    yield from _labels(found)
    yield from _repeats(found, () if read.shared_texts is None else read.shared_texts.names)
    yield from _order(found)
    for name, row in found.clusters.iterrows():
        if row["clusters"] < _FEW_CLUSTERS:
            yield (
                f"Only {row['clusters']} clusters in {name!r}: clustered standard errors are too small on average "
                f"below {_FEW_CLUSTERS}; a finer grouping, where it is right, has more."
            )


def _missing(found: Check, missing: str) -> Iterator[str]:
    lacking = found.missing[found.missing > 0]
    if missing == "raise" and len(lacking):
        shown = ", ".join(f"{name!r} in {count:,} of {found.n_rows:,} rows" for name, count in lacking.items())
        yield (
            f"Missing values: {shown}; a fit raises an error, missing='drop' drops {found.n_dropped:,} rows (as was "
            f"done for this check), missing='keep' hands missing numbers to the learner."
        )
    elif found.n_dropped and missing != "drop":
        yield (
            f"The features of {found.n_dropped:,} rows are NaN although their columns are not missing; a fit raises an "
            f"error unless missing='drop' or 'keep' is passed."
        )


def _similar_models(found: Check) -> Iterator[str]:
    for names in found.similar_models:
        yield (
            f"Are {' and '.join(map(repr, names))} the same model? The names differ in blanks, letter case or Unicode "
            f"form only, and are ranked as {len(names)} models; write them alike in the data if they are one."
        )


def _pairs(found: Check) -> Iterator[str]:
    each = "an order" if found.position_bias else "all"
    thin = found.pairs[(found.pairs["contexts"] > 0) & ~found.pairs["compared"]]
    if len(thin):
        least = thin.sort_values("contexts", ascending=False).head(_NAMED)
        shown = "; ".join(
            f"{r.first} and {r.second} {r.shown_first} + {r.shown_second}" for r in least.itertuples(index=False)
        )
        yield (
            f"{len(thin)} of {len(found.pairs)} pairs have labels, but fewer than min_labels={found.min_labels} "
            f"contexts in {each} and are left out ({shown}{'; ...' if len(thin) > _NAMED else ''}); a smaller "
            f"min_labels keeps them, .pairs lists them all."
        )
    weak = found.pairs["compared"] & (_fewest(found) < found.min_labels)
    if weak.any():
        yield (
            f"The graph has {int(weak.sum())} pairs with fewer than min_labels={found.min_labels} contexts in {each}: "
            f"their part in the scores is what the learner extrapolates, without a correction by labels."
        )
    if not found.graph.complete and len(found.components) == 1:
        yield (
            f"Only {found.graph.n_edges} of {len(found.pairs)} pairs are compared: borda would mix skill with "
            f"schedule; functional='bt' does not."
        )
    one_order = found.order.one_order
    if one_order and found.position_bias:
        yield f"Pairs shown in one order only: {one_order}; without labels in the other order a pair is not compared."


def _settings(found: Check) -> Iterator[str]:
    """Settings that use more votes or are more precise, where the fit's own lose much."""
    table = found.settings
    if found.edge_weights not in ("equal", "counts") or not _by_min_labels(found):
        return
    own = (found.position_bias, found.min_labels, found.edge_weights)
    best = table.iloc[recommended(table, own)]
    asked = table[(table[["position_bias", "min_labels", "edge_weights"]] == list(own)).all(axis=1)].iloc[0]
    other = [
        f"{name}={value!r}" if isinstance(value, str) else f"{name}={value}"
        for name, value, had in zip(("position_bias", "min_labels", "edge_weights"), best.iloc[:3], own, strict=True)
        if value != had
    ]
    if not other or not np.isfinite(best["se_largest"]):
        return
    now = (
        f"uses {100 * asked['share']:.3g} % of the votes, with standard errors of bt up to {asked['se_largest']:.2f} "
        f"times those of maximum likelihood"
        if np.isfinite(asked["se_largest"])
        else "does not connect the models"
    )
    yield (
        f"A fit with these settings {now}; {', '.join(other)} would use {100 * best['share']:.3g} %, with standard "
        f"errors up to {best['se_largest']:.2f} times (from counts of labels alone; .settings compares all choices, "
        f"docs/settings.md says how to choose)."
    )


def _by_min_labels(found: Check) -> bool:
    """Whether the pairs are those with enough labels, and not given ones."""
    return bool((found.pairs["compared"] == (_fewest(found) >= found.min_labels)).all())


def _fewest(found: Check) -> pd.Series:
    """Contexts of each pair that ``min_labels`` is held against."""
    pairs = found.pairs
    return pairs[["shown_first", "shown_second"]].min(axis=1) if found.position_bias else pairs["contexts"]


def _labels(found: Check) -> Iterator[str]:
    if found.labels["votes"].sum() < found.n_votes:  # preferences between 0 and 1 are no labels
        return
    rare = found.labels[found.labels["votes"] < _FEW]
    if len(rare):
        yield (
            f"Labels with fewer than {_FEW} votes each: {listed(rare['label'])}; a learner cannot tell when they are "
            f"chosen, and categories={{label: meaning}} can merge them with others."
        )
    for meaning, name in (("first", "model shown first"), ("second", "model shown second")):
        won = found.labels["read_as"].isin([meaning, "the model that wins"])
        if not won.any():
            yield f"No label says that the {name} wins: is every label read as it is meant (.labels)?"
    if set(found.labels["label"]) <= {"0", "1"} and len(found.labels):
        yield "The labels are the numbers 1 and 0, read as: 1 = the model shown first wins; pass categories= if not."


def _repeats(found: Check, shared: Sequence[str]) -> Iterator[str]:
    """Repeated values, but for those of shared texts, which are warned of already."""
    for name, count in found.same_prompt.items():
        if found.context and name not in shared:
            yield (
                f"{count:,} contexts repeat a value of {name!r} under another {listed(found.context)}: if these are "
                f"the same prompt, its votes are not independent; context={name!r} would join them, clusters would too."
            )
    if np.isfinite(found.repeats.agreement) and found.repeats.agreement < 1:
        again = found.repeats
        yield (
            f"{again.cells:,} comparisons (a prompt and an ordered pair) have more than one vote, and in "
            f"{1 - again.agreement:.0%} of them the votes disagree; they are averaged. If labels were asked for again "
            f"because of what they said, keep the first only."
        )


def _order(found: Check) -> Iterator[str]:
    if found.order.p_value < _SURELY:
        yield (
            f"Display order is not balanced within pairs (chi2 = {found.order.statistic:.1f}, df = {found.order.df}, "
            f"p = {found.order.p_value:.2g}): a display effect would count for some models. "
            + (
                "Scores treat both orders of a pair apart, so that this costs precision, not validity."
                if found.position_bias
                else "With position_bias=False it is mixed into the scores."
            )
        )
    if found.position.p_value < _SURELY:
        yield (
            f"The model shown first wins {found.position.adjusted:.3f} of the comparisons (both orders weighted alike, "
            f"p = {found.position.p_value:.2g}): there is a position effect, which ignoring the order would mix in."
        )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
