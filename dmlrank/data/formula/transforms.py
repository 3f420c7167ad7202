"""Stateful transforms that formulas may use beside patsy's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import patsy
from numpy.typing import NDArray
from patsy import stateful_transform

from ...exceptions import DataError, MissingExtraError


class Text:
    """TF-IDF of a text column, reduced by a truncated singular value decomposition.

    In a formula: ``text(prompt, 100)``. It is fitted once, on all contexts, labelled or not; it sees no labels. A
    missing text is a row of NaN, never a token.

    Parameters
    ----------
    column : array_like of str, shape (n,)
        Texts.
    k : int
        Number of components.

    Raises
    ------
    DataError
        If every text is missing or empty, or there are too few texts or distinct words for ``k`` components.
    MissingExtraError
        If scikit-learn is not installed.

    References
    ----------
    Deerwester et al. (1990), Indexing by latent semantic analysis; the text features of Frauen et al., arXiv
    2601.21816, appendix "Preprocessing and text representation".

    Examples
    --------
    >>> import pandas as pd
    >>> from patsy import dmatrix
    >>> prompts = pd.DataFrame({"prompt": ["write a poem", "sort a list", "write a list", "a poem on sorting"]})
    >>> dmatrix("0 + text(prompt, 2)", {"prompt": prompts["prompt"], "text": text}).shape
    (4, 2)
    """

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._vectorizer: Any = None
        self._decomposition: Any = None
        self._k = 0

    def memorize_chunk(self, column: Any, k: int = 100) -> None:
        """Collect texts; patsy hands over the data in chunks."""
        if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
            raise DataError(f"text(..., k={k!r}): k is a whole number of components, at least 1")
        self._k = int(k)
        known, texts = _texts(column)
        self._texts.extend(text for text, here in zip(texts, known, strict=True) if here)

    def memorize_finish(self) -> None:
        """Fit vocabulary and components on everything collected."""
        try:
            from sklearn.decomposition import TruncatedSVD
            from sklearn.feature_extraction.text import TfidfVectorizer
        except ImportError:
            raise MissingExtraError("text() needs scikit-learn: pip install 'dmlrank[text]'") from None
        if not self._texts:
            raise DataError("text(): every text of the column is missing")
        self._vectorizer = TfidfVectorizer()
        try:
            frequencies = self._vectorizer.fit_transform(self._texts)
        except ValueError:
            raise DataError("text(): the texts hold no words of two or more letters") from None
        n_texts, n_words = frequencies.shape
        if self._k > min(n_texts, n_words):
            raise DataError(
                f"text(..., {self._k}): {n_texts} texts with {n_words} distinct words have at most "
                f"{min(n_texts, n_words)} components"
            )
        # The seed fixes the randomised decomposition, so that the same texts always give the same features.
        self._decomposition = TruncatedSVD(self._k, random_state=0)
        # Texts that are all the same have no variance, of which scikit-learn takes shares.
        with np.errstate(divide="ignore", invalid="ignore"):
            self._decomposition.fit(frequencies)
        self._texts = []

    def transform(self, column: Any, k: int = 100) -> NDArray[np.float64]:
        """Components of the texts, (n, k)."""
        known, texts = _texts(column)
        features = np.full((len(texts), self._k), np.nan)
        if known.any():
            frequencies = self._vectorizer.transform([t for t, here in zip(texts, known, strict=True) if here])
            features[known] = self._decomposition.transform(frequencies)
        return features


def _texts(column: Any) -> tuple[NDArray[np.bool_], list[str]]:
    values = pd.Series(np.asarray(column, dtype=object))
    known = values.notna().to_numpy()
    wrong = [value for value in values[known] if not isinstance(value, str)]
    if wrong:
        raise DataError(f"text() reads a column of strings; {wrong[0]!r} is a {type(wrong[0]).__name__}")
    return known, values.tolist()


text = stateful_transform(Text)
text.__doc__ = Text.__doc__


class KnownOnly:
    """A stateful transform of patsy's that learns from known values alone and leaves missing ones missing.

    By itself ``center(x)`` is NaN in every row when one value of x is. Where no value is missing, nothing changes.

    Parameters
    ----------
    kind : callable
        Makes a transform of patsy's.

    Examples
    --------
    >>> x, center = np.array([1.0, np.nan, 3.0]), KnownOnly(patsy.center.__patsy_stateful_transform__)
    >>> center.memorize_chunk(x); center.memorize_finish(); center.transform(x).tolist()
    [-1.0, nan, 1.0]
    """

    def __init__(self, kind: Callable[[], Any]) -> None:
        self._transform = kind()
        self._has_seen = False

    def memorize_chunk(self, x: Any, *args: Any, **kwargs: Any) -> None:
        """Learn from the known values of a chunk."""
        known = _known_rows(x)
        if known is None or known.any():
            self._has_seen = True
            self._transform.memorize_chunk(x if known is None else _rows(x, known), *args, **kwargs)

    def memorize_finish(self) -> None:
        """Finish learning, if there was anything to learn from."""
        if self._has_seen:
            self._transform.memorize_finish()

    def transform(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The transform of known values; NaN elsewhere."""
        known = _known_rows(x)
        if known is None:
            return self._transform.transform(x, *args, **kwargs)
        if not (known.any() and self._has_seen):
            return np.full(len(known), np.nan)
        part = np.asarray(self._transform.transform(_rows(x, known), *args, **kwargs))
        whole = np.full((len(known), *part.shape[1:]), np.nan)
        whole[known] = part
        return whole


def _known_rows(x: Any) -> NDArray[np.bool_] | None:
    """Rows without a missing number, (n,); None where no number is missing, or there are no numbers."""
    try:
        missing = np.isnan(np.asarray(x, dtype=float))
    except (TypeError, ValueError):
        return None
    return ~missing.reshape(len(missing), -1).any(axis=1) if missing.ndim and missing.any() else None


def _rows(x: Any, kept: NDArray[np.bool_]) -> Any:
    return x[kept] if isinstance(x, pd.Series | pd.DataFrame) else np.asarray(x)[kept]


def _known_only(name: str) -> Any:
    builtin = getattr(patsy, name)
    transform = stateful_transform(lambda: KnownOnly(builtin.__patsy_stateful_transform__))
    transform.__doc__ = builtin.__doc__
    return transform


KNOWN_ONLY = {name: _known_only(name) for name in ("center", "standardize", "scale", "bs", "cr", "cc")}
