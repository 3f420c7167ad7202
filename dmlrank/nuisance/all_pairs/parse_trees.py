"""Trees of a booster as arrays, parsed from the text in which LightGBM saves a booster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ...data.preferences import FloatArray, IntArray

T = TypeVar("T", np.float64, np.intp)

# LightGBM reads numbers up to this size as zero (kZeroThreshold in its meta.h, a single-precision constant).
_ZERO_THRESHOLD = float(np.float32(1e-35))
# Bits of a split's decision type.
_CATEGORICAL, _DEFAULT_LEFT = 1, 2
# LightGBM's codes for the values that a split treats as missing and sends in its default direction: zeros and NaN, or
# NaN alone.
ZEROS, NANS = 1, 2
# Bits in a word of the sets of categories.
_WORD_BITS = 32


class UnreadableTreesError(Exception):
    """The trees have a property that this module does not evaluate; the message names it."""


@dataclass(frozen=True, slots=True)
class Link:
    """Conversion of sums over trees to probabilities: the softmax, or for one output the logistic function.

    n_outputs: Number of categories of a multiclass booster, C; 1 for a binary booster, which predicts the probability
        of the positive class.
    scale: Factor by which the sums are multiplied: the steepness of a binary objective's sigmoid. In a random forest,
        whose trees are averaged, this steepness is divided by the number of rounds.
    """

    n_outputs: int
    scale: float = 1.0

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Overwrite scaled scores, (C, ...), with probabilities, and return these."""
        if self.n_outputs == 1:
            return expit(scores, out=scores)
        scores -= scores.max(axis=0)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=0)
        return scores


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """All trees of a booster, with s splits and l leaves that are numbered across the trees.

    Where a node can be a split or a leaf, a split is given by its number, and leaf i by the negative number ``~i`` =
    -1 - i.

    root (t,): Root of each tree: a split, or ``~leaf``. Tree i adds to output i modulo ``link.n_outputs``.
    feature (s,): Feature of each split.
    threshold (s,): Numbers up to the threshold go left.
    categorical (s,): Whether the split is on the categories of its feature.
    default_left (s,): Whether the default direction of the split is left.
    missing (s,): Values that are treated as missing and go in the default direction: none (0), zeros and NaN (1) or NaN
        (2).
    left, right (s,): Children of each split: a split, or ``~leaf``.
    words, word_start, word_count: Categories that go left, as bits: those of split i are
        ``words[word_start[i]:][:word_count[i]]``.
    value (l,): Value of each leaf.
    n_features: Number of features, the codes of the two items included.
    link: Converts the sums over trees to probabilities.
    """

    root: IntArray
    feature: IntArray
    threshold: FloatArray
    categorical: NDArray[np.bool_]
    default_left: NDArray[np.bool_]
    missing: IntArray
    left: IntArray
    right: IntArray
    words: IntArray
    word_start: IntArray
    word_count: IntArray
    value: FloatArray
    n_features: int
    link: Link


def read_trees(booster: object) -> Trees:
    """Read the trees that ``booster.predict`` uses: those up to the best iteration, where the booster has one."""
    model_to_string = getattr(booster, "model_to_string", None)
    if model_to_string is None:
        raise UnreadableTreesError(f"a {type(booster).__name__} is no LightGBM booster")
    header, *blocks = str(model_to_string()).split("\nend of trees")[0].split("\n\nTree=")
    head = _fields(header)
    trees = [_fields(block) for block in blocks]
    if any(int(tree.get("is_linear", 0)) for tree in trees):
        raise UnreadableTreesError("the leaves of the trees hold linear models")
    splits = [_integers(tree, "split_feature") for tree in trees]
    leaves = [_numbers(tree, "leaf_value") for tree in trees]
    split_start, leaf_start = _starts(splits), _starts(leaves)
    decision = _concatenate([_integers(tree, "decision_type") for tree in trees], np.intp)
    threshold = _concatenate([_numbers(tree, "threshold") for tree in trees], np.float64)
    categorical = (decision & _CATEGORICAL) > 0
    words, word_start, word_count = _bit_sets(trees, threshold, categorical, [len(split) for split in splits])
    left, right = (
        _concatenate(
            [
                _renumber(_integers(tree, side), first_split, first_leaf)
                for tree, first_split, first_leaf in zip(trees, split_start, leaf_start, strict=True)
            ],
            np.intp,
        )
        for side in ("left_child", "right_child")
    )
    is_single_leaf = np.array([len(split) == 0 for split in splits], dtype=bool)
    return Trees(
        root=np.where(is_single_leaf, ~leaf_start, split_start),
        feature=_concatenate(splits, np.intp),
        threshold=threshold,
        categorical=categorical,
        default_left=(decision & _DEFAULT_LEFT) > 0,
        missing=(decision >> 2) & 3,
        left=left,
        right=right,
        words=words,
        word_start=word_start,
        word_count=word_count,
        value=_concatenate(leaves, np.float64),
        n_features=int(head["max_feature_idx"]) + 1,
        link=_link(head, len(trees)),
    )


def as_lightgbm_reads(x: FloatArray) -> FloatArray:
    """Return features as LightGBM reads them: in double precision, with the tiniest numbers replaced by zero."""
    features = x.astype(float)
    features[np.abs(features) <= _ZERO_THRESHOLD] = 0.0
    return features


def go_left(trees: Trees, split: IntArray, values: FloatArray) -> NDArray[np.bool_]:
    """Return which values a split sends left, by LightGBM's rules for missing values and categories.

    Shapes: split (m,), values (m, n), returns (m, n).
    """
    is_nan, missing = np.isnan(values), trees.missing[split, None]
    numbers = np.where(is_nan, 0.0, values)
    by_default = np.where(missing == NANS, is_nan, (missing == ZEROS) & (numbers == 0))
    goes_left = np.where(by_default, trees.default_left[split, None], numbers <= trees.threshold[split, None])
    categorical = trees.categorical[split]
    goes_left[categorical] = _in_category_set(trees, split[categorical], values[categorical])
    return goes_left


def _in_category_set(trees: Trees, split: IntArray, values: FloatArray) -> NDArray[np.bool_]:
    """Return which values, (m, n), are categories that go left at categorical splits, (m,)."""
    end = (trees.word_count[split] * _WORD_BITS)[:, None]
    with np.errstate(invalid="ignore"):
        is_code = (values > -1) & (values < end)
    code = np.where(is_code, values, 0).astype(np.intp)
    # The minimum only keeps the index valid for values that are no codes; `is_code` sends these values right.
    word = np.minimum(trees.word_start[split, None] + code // _WORD_BITS, len(trees.words) - 1)
    goes_left: NDArray[np.bool_] = is_code & (trees.words[word] >> (code % _WORD_BITS) & 1).astype(bool)
    return goes_left


def _link(head: dict[str, str], n_trees: int) -> Link:
    """Return the link of a booster with ``n_trees`` trees, from the fields of its header."""
    n_outputs, objective = int(head["num_tree_per_iteration"]), head.get("objective", "none")
    name, *details = objective.split()
    if name not in ("multiclass", "binary"):
        raise UnreadableTreesError(f"the objective is {objective}")
    steepness = [float(detail.partition(":")[2]) for detail in details if detail.startswith("sigmoid:")]
    averaged = "average_output" in head and n_trees > 0
    return Link(n_outputs, (steepness or [1.0])[0] / (n_trees // n_outputs if averaged else 1))


def _fields(block: str) -> dict[str, str]:
    """Return the fields of a block of lines ``name=text``."""
    lines = (line.partition("=") for line in block.split("\n"))
    return {name: text for name, _, text in lines}


def _numbers(tree: dict[str, str], name: str) -> FloatArray:
    """Return the numbers in a field of a tree; none where the tree has no such field."""
    return np.array(tree.get(name, "").split(), dtype=float)


def _integers(tree: dict[str, str], name: str) -> IntArray:
    """Return the integers in a field of a tree; none where the tree has no such field."""
    return np.array(tree.get(name, "").split(), dtype=np.intp)


def _starts(parts: Sequence[NDArray[T]]) -> IntArray:
    """Return the place of each part's first element in the concatenated parts."""
    return np.cumsum([0, *map(len, parts)], dtype=np.intp)[: len(parts)]


def _concatenate(parts: Sequence[NDArray[T]], dtype: type[T]) -> NDArray[T]:
    """Return the parts, one after the other; an empty array where there are no parts."""
    return np.concatenate([np.empty(0, dtype=dtype), *parts]).astype(dtype)


def _renumber(child: IntArray, first_split: int, first_leaf: int) -> IntArray:
    """Return a tree's children (a split, or ``~leaf``) with numbers that run across all trees."""
    return np.where(child >= 0, child + first_split, child - first_leaf)


def _bit_sets(
    trees: list[dict[str, str]], threshold: FloatArray, categorical: NDArray[np.bool_], n_splits: list[int]
) -> tuple[IntArray, IntArray, IntArray]:
    """Return ``words``, ``word_start`` and ``word_count`` of :class:`Trees`.

    Shapes: threshold (s,), categorical (s,).
    """
    bounds = [_integers(tree, "cat_boundaries") for tree in trees]
    words = [_integers(tree, "cat_threshold") for tree in trees]
    tree_of = np.repeat(np.arange(len(trees)), n_splits)[categorical]
    number = threshold[categorical].astype(np.intp) + _starts(bounds)[tree_of]
    all_bounds = _concatenate(bounds, np.intp)
    start, count = np.zeros((2, len(threshold)), dtype=np.intp)
    start[categorical] = _starts(words)[tree_of] + all_bounds[number]
    count[categorical] = all_bounds[number + 1] - all_bounds[number]
    return _concatenate(words, np.intp), start, count
