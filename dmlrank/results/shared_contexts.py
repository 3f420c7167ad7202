"""Which contexts and clusters several results have in common, from the identifiers of live fits."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ..data.preferences import IntArray
from ..data.read_clusters import Clusters
from ..fit.state import FitState

# Stands for a missing annotator, and sorts before every name.
_NO_ANNOTATOR = "\x00"
_OTHER_CLUSTERS = "the clusters of the results contain different prompts"


@dataclass(frozen=True, slots=True, eq=False)
class SharedContexts:
    """The contexts of all results together.

    n_contexts: N, the number of different contexts.
    places: Place of each context of each result among all contexts.
    clusters: Clusters of all contexts; None where contexts are independent. ``of_vote`` is not used.
    """

    n_contexts: int
    places: tuple[IntArray, ...]
    clusters: Clusters | None

    @property
    def is_same(self) -> bool:
        """Whether every result has all contexts."""
        return all(len(places) == self.n_contexts for places in self.places)

    @property
    def is_independent(self) -> bool:
        """Whether no two results have a context in common, or contexts of one cluster."""
        if sum(map(len, self.places)) > self.n_contexts:
            return False
        groupings = () if self.clusters is None else (self.clusters.of_context, self.clusters.second_of_context)
        return all(
            not len(np.intersect1d(codes[a], codes[b]))
            for codes in groupings
            if codes is not None
            for a, b in combinations(self.places, 2)
        )

    def n_shared(self, first: int, second: int) -> int:
        """Return the number of contexts that two results, named by their places, have in common."""
        return len(np.intersect1d(self.places[first], self.places[second]))


def share_contexts(steps: Sequence[FitState], names: Sequence[str]) -> SharedContexts | str:
    """Match the contexts and clusters of results by their identifiers, or say why they cannot be matched."""
    for other, name in zip(steps[1:], names[1:], strict=True):
        reason = _why_unmatched(steps[0], other)
        if reason:
            return f"{names[0]!r} and {name!r} have no joint covariance: {reason}"
    places, n_contexts = _places(steps)
    if steps[0].units.clusters is None:
        return SharedContexts(n_contexts, places, None)
    clusters = _joint_clusters(steps, places, n_contexts)
    if isinstance(clusters, str):
        return f"{' and '.join(map(repr, names))} have no joint covariance: {clusters}"
    return SharedContexts(n_contexts, places, clusters)


def joint_annotators(steps: Sequence[FitState]) -> list[IntArray] | None:
    """Return the annotator of each influence block of each result; None where annotators are no clusters.

    An annotator has the same number in all results; a block of an unknown annotator has -1.
    """
    if steps[0].units.annotator is None:
        return None
    names = [_annotator_names(fit) for fit in steps]
    all_names, codes = np.unique(np.concatenate(names), return_inverse=True)
    codes = np.where(all_names[codes] == _NO_ANNOTATOR, -1, codes)
    return np.split(codes, np.cumsum([len(part) for part in names])[:-1])


def are_of_one_data_set(first: FitState, other: FitState) -> bool:
    """Return whether two results are of the same frame, or have equal rows, features and votes."""
    a, b = first.data.context_ids, other.data.context_ids
    same_rows = len(a) == len(b) and bool((a == b).all())
    return same_rows and (first.source.data is other.source.data or _have_equal_votes(first, other))


def _why_unmatched(first: FitState, other: FitState) -> str:
    """Return why contexts of two results cannot be matched; an empty text where they can."""
    if first.options.prompts != other.options.prompts:
        return "one result is for new prompts, the other for its own prompts only; fit both with the same prompts="
    columns = [steps.units.clusters.names if steps.units.clusters else () for steps in (first, other)]
    if columns[0] != columns[1]:
        kinds = " and ".join(f"clusters of {', '.join(names)}" if names else "none" for names in columns)
        return f"their clusters differ ({kinds}); update one of them with the cov_type= and cov_kwds= of the other"
    for name in ("second_of_context", "of_vote"):
        if first.units.clusters and (getattr(first.units.clusters, name) is None) != (
            getattr(other.units.clusters, name) is None
        ):
            return f"{first.units.clusters.names[-1]!r} groups prompts in one result and votes in the other"
    if first.options.context != other.options.context:
        return "their context= columns differ, so that prompts cannot be matched"
    if not first.options.context and not are_of_one_data_set(first, other):
        return "their rows differ, and without context= nothing says which rows are the same prompt"
    return ""


def _places(steps: Sequence[FitState]) -> tuple[tuple[IntArray, ...], int]:
    """Return the place of each context of each result among all contexts, and the number of all contexts."""
    if not steps[0].options.context:
        n_contexts = steps[0].data.n_contexts
        return (np.arange(n_contexts),) * len(steps), n_contexts
    place: dict[Hashable, int] = {}
    places = tuple(
        np.array([place.setdefault(identifier, len(place)) for identifier in fit.data.context_ids], dtype=np.intp)
        for fit in steps
    )
    return places, len(place)


def _joint_clusters(steps: Sequence[FitState], places: Sequence[IntArray], n_contexts: int) -> Clusters | str:
    """Return the clusters of all contexts, by the names of the clusters, or why the clusters of results differ."""
    first = steps[0].units.clusters
    assert first is not None
    if all(len(place) == n_contexts for place in places):
        # The results have the same contexts. Their clusters may have other names and still contain the same contexts.
        return first if _have_equal_partitions(steps, places) else _OTHER_CLUSTERS
    codes: list[IntArray] = []
    for number in range(1 if first.second_of_context is None else 2):
        of_all = np.full(n_contexts, -1)
        names: dict[Hashable, int] = {}
        for fit, place in zip(steps, places, strict=True):
            numbered = np.array([names.setdefault(name, len(names)) for name in _cluster_names(fit, number, place)])
            earlier = of_all[place]
            if (earlier[earlier >= 0] != numbered[earlier >= 0]).any():
                return _OTHER_CLUSTERS
            of_all[place] = numbered
        codes.append(of_all)
    return Clusters(first.names, codes[0], codes[1] if len(codes) > 1 else None)


def _have_equal_partitions(steps: Sequence[FitState], places: Sequence[IntArray]) -> bool:
    """Return whether the clusters of results of the same contexts put the same contexts together."""
    for name in ("of_context", "second_of_context"):
        codes = []
        for fit, place in zip(steps, places, strict=True):
            of_context = getattr(fit.units.clusters, name)
            if of_context is not None:
                codes.append(np.empty_like(of_context))
                codes[-1][place] = of_context
        if not all(_is_same_partition(codes[0], other) for other in codes[1:]):
            return False
    return True


def _is_same_partition(left: IntArray, right: IntArray) -> bool:
    """Return whether two arrays of cluster numbers, (n,) each, put the same contexts together."""
    n_pairs = len(np.unique(np.stack([left, right], axis=1), axis=0))
    return n_pairs == len(np.unique(left)) == len(np.unique(right))


def _cluster_names(fit: FitState, number: int, places: IntArray) -> list[Hashable]:
    """Return the name of each context's cluster in one of the columns of clusters.

    Shapes: places (n,).
    """
    assert fit.units.clusters is not None
    name = fit.units.clusters.names[number]
    if name not in fit.data.columns:
        return list(places.tolist())
    return list(fit.data.columns.texts(name)[fit.data.first_row])


def _annotator_names(fit: FitState) -> list[str]:
    """Return the name of the annotator of each influence block."""
    if fit.units.annotator is None or fit.units.clusters is None:
        return []
    name = fit.units.clusters.names[-1]
    names = sorted(set(fit.data.columns.texts(name)))
    return [names[code] if code >= 0 else _NO_ANNOTATOR for code in fit.units.annotator]


def _have_equal_votes(first: FitState, other: FitState) -> bool:
    """Return whether two results have equal features and votes, as a result and its stored copy have."""
    a, b = first.data, other.data
    pairs = [
        (a.x, b.x),
        *((getattr(a.cells, name), getattr(b.cells, name)) for name in ("context", "first", "second", "y")),
    ]
    return a.items == b.items and all(np.array_equal(left, right) for left, right in pairs)
