"""Trees of a booster as arrays, parsed from the text that LightGBM itself saves and loads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ...data.preferences import FloatArray, IntArray

# LightGBM reads numbers up to this size as zero (kZeroThreshold in its meta.h, a single-precision constant).
_ZERO = float(np.float32(1e-35))

_CATEGORICAL, _DEFAULT_LEFT = 1, 2
# What a split sends the default way.
ZEROS, NANS = 1, 2
_BITS = 32


class UnreadableTreesError(Exception):
    """The trees hold something that is not evaluated here; the message says what."""


@dataclass(frozen=True, slots=True)
class Link:
    """How sums over trees become probabilities: the softmax, or for one output the logistic function.

    Attributes
    ----------
    n_outputs : int
        C, or 1 for the probability of the positive class.
    scale : float
        What the sums are multiplied by first: the steepness of a binary objective's sigmoid, and one over the number of
        rounds where trees are averaged, as in random forests.
    """

    n_outputs: int
    scale: float = 1.0

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Overwrite the scores, (C, ...), with probabilities."""
        if self.n_outputs == 1:
            return expit(scores, out=scores)
        scores -= scores.max(axis=0)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=0)
        return scores


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """All trees of a booster: s splits and l leaves, numbered through.

    Attributes
    ----------
    root : ndarray of int, shape (t,)
        Where each tree begins: a split, or ``~leaf``. Tree i adds to output i modulo ``link.n_outputs``.
    feature : ndarray of int, shape (s,)
    threshold : ndarray, shape (s,)
        Numbers up to it go left.
    categorical, default_left : ndarray of bool, shape (s,)
    missing : ndarray of int, shape (s,)
        What goes the default way: nothing (0), zeros (1) or NaN (2).
    left, right : ndarray of int, shape (s,)
        A split, or ``~leaf``.
    words, word_start, word_count : ndarray of int
        Categories that go left as bits: split i has ``words[word_start[i]:][:word_count[i]]``.
    value : ndarray, shape (l,)
    n_features : int
    link : Link
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


def read_trees(booster: Any) -> Trees:
    """Read the trees that ``booster.predict`` uses: those up to its best iteration, where it has one.

    The text of ``model_to_string`` is read, not ``dump_model``, whose JSON holds the same thresholds and leaf values to
    the last bit but takes 2.5 times as long for 150 trees of 15 leaves and 4.3 times for 450 (21 and 148 ms against 9
    and 35 ms; 19 and 124 of these in ``dump_model`` itself).

    Raises
    ------
    UnreadableTreesError
        For trees with linear models in their leaves, for objectives other than the multiclass and the binary one, and
        for anything that is not a LightGBM booster.

    Examples
    --------
    >>> import lightgbm as lgb
    >>> data = lgb.Dataset(np.arange(100.0)[:, None], np.arange(100) % 50 > 20)
    >>> trees = read_trees(lgb.train({"objective": "binary", "verbosity": -1}, data, 3))
    >>> len(trees.root), trees.link
    (3, Link(n_outputs=1, scale=1.0))
    """
    if not hasattr(booster, "model_to_string"):
        raise UnreadableTreesError(f"a {type(booster).__name__} is no LightGBM booster")
    header, *blocks = booster.model_to_string().split("\nend of trees")[0].split("\n\nTree=")
    head = _fields(header)
    trees = [_fields(block) for block in blocks]
    if any(int(tree.get("is_linear", 0)) for tree in trees):
        raise UnreadableTreesError("the leaves of its trees hold linear models")
    splits = [_integers(tree, "split_feature") for tree in trees]
    leaves = [_numbers(tree, "leaf_value") for tree in trees]
    split_start, leaf_start = _starts(splits), _starts(leaves)
    decision = _joined((_integers(tree, "decision_type") for tree in trees), np.intp)
    threshold = _joined((_numbers(tree, "threshold") for tree in trees), float)
    categorical = (decision & _CATEGORICAL) > 0
    words, word_start, word_count = _bit_sets(trees, threshold, categorical, [len(split) for split in splits])
    left, right = (
        _joined(
            (_shifted(_integers(tree, side), s, v) for tree, s, v in zip(trees, split_start, leaf_start, strict=True)),
            np.intp,
        )
        for side in ("left_child", "right_child")
    )
    single = np.array([len(split) == 0 for split in splits], dtype=bool)
    return Trees(
        root=np.where(single, ~leaf_start, split_start),
        feature=_joined(splits, np.intp),
        threshold=threshold,
        categorical=categorical,
        default_left=(decision & _DEFAULT_LEFT) > 0,
        missing=(decision >> 2) & 3,
        left=left,
        right=right,
        words=words,
        word_start=word_start,
        word_count=word_count,
        value=_joined(leaves, float),
        n_features=int(head["max_feature_idx"]) + 1,
        link=_link(head, len(trees)),
    )


def as_read(x: FloatArray) -> FloatArray:
    """Features as LightGBM reads them: in double precision, with zeros for the tiniest numbers.

    Examples
    --------
    >>> as_read(np.array([1e-36, -0.0, 1e-34], dtype=np.float32))[:2]
    array([0., 0.])
    """
    read = x.astype(float)
    read[np.abs(read) <= _ZERO] = 0.0
    return read


def go_left(trees: Trees, split: IntArray, values: FloatArray) -> NDArray[np.bool_]:
    """Which values a split sends left: LightGBM's rules for missing values and categories.

    Parameters
    ----------
    split : ndarray of int, shape (m,)
    values : ndarray, shape (m, n)
        Values of each split's feature, as :func:`as_read` gives them.

    Returns
    -------
    ndarray of bool, shape (m, n)
    """
    nan, missing = np.isnan(values), trees.missing[split, None]
    known = np.where(nan, 0.0, values)
    default = np.where(missing == NANS, nan, (missing == ZEROS) & (known == 0))
    left = np.where(default, trees.default_left[split, None], known <= trees.threshold[split, None])
    categorical = trees.categorical[split]
    left[categorical] = _in_bit_set(trees, split[categorical], values[categorical])
    return left


def _in_bit_set(trees: Trees, split: IntArray, values: FloatArray) -> NDArray[np.bool_]:
    """Whether values, (m, n), are categories that go left; fractions are cut off, NaN and negative ones never are."""
    end = (trees.word_count[split] * _BITS)[:, None]
    with np.errstate(invalid="ignore"):
        inside = (values > -1) & (values < end)
    code = np.where(inside, values, 0).astype(np.intp)
    # A set is never empty where a code is inside.
    word = np.minimum(trees.word_start[split, None] + code // _BITS, len(trees.words) - 1)
    found: NDArray[np.bool_] = inside & (trees.words[word] >> (code % _BITS) & 1).astype(bool)
    return found


def _link(head: dict[str, str], n_trees: int) -> Link:
    n_outputs, objective = int(head["num_tree_per_iteration"]), head.get("objective", "none")
    name, *details = objective.split()
    if name not in ("multiclass", "binary"):
        raise UnreadableTreesError(f"its objective is {objective}")
    steepness = [float(detail.partition(":")[2]) for detail in details if detail.startswith("sigmoid:")]
    averaged = "average_output" in head and n_trees > 0
    return Link(n_outputs, (steepness or [1.0])[0] / (n_trees // n_outputs if averaged else 1))


def _fields(block: str) -> dict[str, str]:
    lines = (line.partition("=") for line in block.split("\n"))
    return {name: text for name, _, text in lines}


def _numbers(tree: dict[str, str], name: str) -> FloatArray:
    return np.array(tree.get(name, "").split(), dtype=float)


def _integers(tree: dict[str, str], name: str) -> IntArray:
    return np.array(tree.get(name, "").split(), dtype=np.intp)


def _starts(parts: list[Any]) -> IntArray:
    return np.cumsum([0, *map(len, parts)], dtype=np.intp)[: len(parts)]


def _joined(parts: Iterable[NDArray[Any]], dtype: type) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype=dtype), *parts]).astype(dtype)


def _shifted(child: IntArray, split_start: int, leaf_start: int) -> IntArray:
    return np.where(child >= 0, child + split_start, child - leaf_start)


def _bit_sets(
    trees: list[dict[str, str]], threshold: FloatArray, categorical: NDArray[np.bool_], n_splits: list[int]
) -> tuple[IntArray, IntArray, IntArray]:
    """Words of all trees, and each split's first word and number of words; the threshold of a categorical split is the
    number of its set within its tree."""
    bounds = [_integers(tree, "cat_boundaries") for tree in trees]
    words = [_integers(tree, "cat_threshold") for tree in trees]
    tree_of = np.repeat(np.arange(len(trees)), n_splits)[categorical]
    number = threshold[categorical].astype(np.intp) + _starts(bounds)[tree_of]
    every = _joined(bounds, np.intp)
    start, count = np.zeros((2, len(threshold)), dtype=np.intp)
    start[categorical] = _starts(words)[tree_of] + every[number]
    count[categorical] = every[number + 1] - every[number]
    return _joined(words, np.intp), start, count
