"""Stateful transforms that formulas may use beside patsy's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from patsy import stateful_transform

from ..exceptions import DataError, MissingExtraError


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
