"""Groups of contexts that may overlap, such as tags: read from columns of booleans or masks, and checked."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..data.graph import Graph
from ..exceptions import DataError, MissingDataError, OptionError, OptionTypeError, listed, shown
from ..fit.state import FitState
from .context_variables import ContextGroups, check_function_of_features, context_table

# Name of the variable that groups given by masks or columns of booleans have in titles and in the names of results.
VARIABLE = "tag"
# Words that stand for booleans in text columns.
_WORDS = {"true": True, "false": False, "1": True, "0": False}
_FEWEST_LABELLED = 2
_MOST_GROUPS = 100


def read_overlapping_groups(steps: FitState, groups: Mapping[str, object] | Sequence[str]) -> ContextGroups:
    """Return groups of contexts that may overlap.

    Groups without enough labels, or whose labels do not connect the models that have any, are left out with a reason.
    """
    if not isinstance(groups, Mapping | list | tuple):
        raise OptionTypeError(
            f"by() got {shown(groups)}, a {type(groups).__name__}; allowed are names of columns, a list of names of "
            f"columns of booleans, or a mapping of names to such columns or masks"
        )
    entries = groups if isinstance(groups, Mapping) else [*groups]
    if any(not isinstance(name, Hashable) for name in entries):
        raise OptionTypeError("by(): names of groups have to be texts, and one of these is a list, array or mapping")
    named = dict(groups) if isinstance(groups, Mapping) else {name: name for name in groups}
    if not named:
        raise OptionError("by() got no group; name columns of booleans, or pass a mapping of names to columns or masks")
    if len(named) > _MOST_GROUPS:
        raise OptionError(f"by() got {len(named)} groups; allowed: up to {_MOST_GROUPS} at a time")
    wrong = [name for name in named if not isinstance(name, str) or not name]
    if wrong:
        raise OptionTypeError(f"by(): names of groups have to be non-empty texts, and these are not: {listed(wrong)}")
    members = np.stack([_mask(steps, name, value) for name, value in named.items()])
    labels = [value if isinstance(value, str) else name for name, value in named.items()]
    masks = {name for name, value in named.items() if not isinstance(value, str)}
    check_function_of_features(steps, labels, members.T.astype(float), "by()", masks=masks)
    reasons = [_why_left_out(steps, inside) for inside in members]
    kept = [g for g, reason in enumerate(reasons) if not reason]
    left_out = tuple((name, reason) for name, reason in zip(named, reasons, strict=True) if reason)
    if not kept:
        texts = "; ".join(f"{name!r}: {reason}" for name, reason in left_out)
        raise DataError(f"by(): no group has enough labels ({texts}); use larger groups, or collect more labels")
    names = tuple(name for name, reason in zip(named, reasons, strict=True) if not reason)
    return ContextGroups(VARIABLE, names, tuple((name,) for name in names), members[kept], left_out)


def _mask(steps: FitState, name: str, value: object) -> NDArray[np.bool_]:
    """Return which contexts belong to a group, (n,)."""
    if isinstance(value, str):
        return _as_booleans(context_table(steps, [value], "by()")[value], value)
    data = steps.data
    try:
        mask = np.asarray(value)
    except (TypeError, ValueError):
        mask = np.empty(0, dtype=object)
    if mask.ndim != 1 or len(mask) not in (data.n_rows, data.n_contexts):
        raise OptionTypeError(
            f"by(): group {name!r} is a {type(value).__name__} of shape {mask.shape}; allowed: the name of a column of "
            f"booleans, or a mask with one boolean per row of the data ({data.n_rows:,}) or per prompt "
            f"({data.n_contexts:,}, in order of first appearance)"
        )
    if len(mask) == data.n_contexts != data.n_rows:
        return _as_booleans(pd.Series(mask), name)
    used = pd.Series(mask[data.row_index])
    in_row = _as_booleans(used, name)
    context = data.varying_context(in_row)
    if context is not None:
        raise DataError(
            f"by(): the mask of {name!r} varies within context {context!r}; use the same value for all rows of a prompt"
        )
    return np.asarray(in_row[data.first_row])


def _as_booleans(values: pd.Series, name: str) -> NDArray[np.bool_]:
    """Return a column or mask as booleans."""
    if values.isna().any():
        raise MissingDataError(
            f"by(): {name!r} is missing in {int(values.isna().sum())} prompts; fill the gaps with False or True"
        )
    if values.dtype.kind == "b" or str(values.dtype) == "boolean":
        return values.to_numpy(dtype=bool)
    found = {value: _WORDS.get(str(int(value)) if value in (0, 1) else str(value).lower()) for value in set(values)}
    wrong = [value for value, boolean in found.items() if boolean is None]
    if wrong:
        raise DataError(
            f"by(): {name!r} holds {listed([repr(value) for value in wrong], 3)}, which are not booleans; groups that "
            f"may overlap are columns of True and False. For groups of a column's values use by({name!r})"
        )
    return values.map(found).to_numpy(dtype=bool)


def _why_left_out(steps: FitState, inside: NDArray[np.bool_]) -> str:
    """Return why a group has no scores; empty where it has some."""
    data = steps.data
    if steps.units.context_weight is not None and not steps.units.context_weight[inside].any():
        return "its prompts have weight zero"
    if steps.sample is not None and not inside[steps.sample].any():
        return "the sample of subsample= has none of its prompts"
    cells = data.cells.only(inside[data.cells.context])
    n_labelled = len(np.unique(cells.context))
    if n_labelled < _FEWEST_LABELLED:
        return f"{n_labelled} labelled prompts"
    counts = cells.counts(data.n_items)
    compared = (counts + counts.T > 0) & steps.setup.graph.edges
    seen = np.flatnonzero(compared.any(axis=0))
    if not len(seen):
        return "no compared pair has a label"
    components = Graph(compared[np.ix_(seen, seen)]).components()
    if len(components) > 1:
        names = "; ".join(f"{{{listed([data.items[seen[j]] for j in part], 5)}}}" for part in components[:3])
        return f"its labels do not connect the models: {names}{' and more' if len(components) > 3 else ''}"
    return ""
