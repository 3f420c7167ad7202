"""Functions that a formula may call: transforms whose parameters a fit learns, and what a called name stands for."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
import patsy
import patsy.builtins
from numpy.typing import ArrayLike, NDArray
from patsy import EvalEnvironment, stateful_transform

from ...exceptions import DataError, FormulaError, MissingExtraError, nearest, shown
from ..arrays import FloatArray, Variable
from .parse import equivalent, names_in

if TYPE_CHECKING:
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer


# What a function of a formula gets from patsy: a column, an array, a table or a number.
PatsyValue: TypeAlias = ArrayLike | pd.Series | pd.DataFrame


class Text:
    """TF-IDF of a text column, reduced by a truncated singular value decomposition.

    In a formula it is written ``text(prompt, 100)``. It is fitted once, on all contexts, labelled or not; it sees no
    labels. A missing text becomes a row of NaN.

    column (n,): Texts.
    k: Number of components.

    Notes
    -----
    All texts, and the words that each of them contains, are in memory, also if the data are parquet files. If they are
    too large for the memory, compute numbers from the texts once, a file at a time, and store these as columns.

    References
    ----------
    Deerwester et al. (1990), Indexing by latent semantic analysis; the text features of Frauen et al., arXiv
    2601.21816, appendix "Preprocessing and text representation".
    """

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._vectorizer: TfidfVectorizer | None = None
        self._decomposition: TruncatedSVD | None = None
        self._k = 0

    def memorize_chunk(self, column: PatsyValue, k: int = 100) -> None:
        """Collect the texts of a chunk of the data."""
        if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
            raise DataError(f"text(..., k={k!r}): k, the number of components, must be a whole number of at least 1")
        self._k = int(k)
        self._texts.extend(text for text in _checked_texts(column) if text is not None)

    def memorize_finish(self) -> None:
        """Fit vocabulary and components on all texts."""
        try:
            from sklearn.decomposition import TruncatedSVD
            from sklearn.feature_extraction.text import TfidfVectorizer
        except ImportError:
            raise MissingExtraError("text() needs scikit-learn: pip install 'dmlrank[text]'") from None
        if not self._texts:
            raise DataError("text(): every text of the column is missing; leave the column out of the features")
        self._vectorizer = TfidfVectorizer()
        try:
            # Sorted texts give the same components, to the last bit, for any order of the rows.
            frequencies = self._vectorizer.fit_transform(sorted(self._texts))
        except ValueError:
            raise DataError(
                "text(): the texts hold no words of two or more letters; leave the column out of the features"
            ) from None
        n_texts, n_words = frequencies.shape
        if self._k > min(n_texts, n_words):
            raise DataError(
                f"text(..., {self._k}): {n_texts} texts with {n_words} distinct words have at most "
                f"{min(n_texts, n_words)} components; ask for no more than these"
            )
        # The decomposition is randomised. Its seed is fixed, so that the same texts always give the same features.
        self._decomposition = TruncatedSVD(self._k, random_state=0)
        # scikit-learn divides by the variance of the texts, which is zero where all texts are equal.
        with np.errstate(divide="ignore", invalid="ignore"):
            self._decomposition.fit(frequencies)
        self._texts = []

    def transform(self, column: PatsyValue, k: int = 100) -> FloatArray:
        """Return the components of the texts, (n, k)."""
        texts = _checked_texts(column)
        is_present = np.array([text is not None for text in texts], dtype=bool)
        features = np.full((len(texts), self._k), np.nan)
        if is_present.any() and self._vectorizer is not None and self._decomposition is not None:
            frequencies = self._vectorizer.transform([text for text in texts if text is not None])
            features[is_present] = self._decomposition.transform(frequencies)
        return features


def _checked_texts(column: PatsyValue) -> list[str | None]:
    """Return the texts of a column, None where they are missing; raise where a value is no string."""
    values = pd.Series(np.asarray(column, dtype=object))
    texts: list[str | None] = []
    for value, is_missing in zip(values, values.isna(), strict=True):
        if not (is_missing or isinstance(value, str)):
            raise DataError(f"text() reads a column of strings, but {value!r} is a {type(value).__name__}")
        texts.append(None if is_missing else value)
    return texts


text = stateful_transform(Text)
text.__doc__ = Text.__doc__


class MissingAllowed:
    """A stateful transform of patsy that learns from the present values and leaves missing values missing.

    The transforms of patsy itself return NaN in every row if a single value is missing; ``center(x)`` is an example.
    Where no value is missing, this class returns what the transform of patsy returns.

    kind: A class of patsy.
    """

    def __init__(self, kind: Callable[[], Any]) -> None:
        self._transform = kind()
        self._has_learned = False

    def memorize_chunk(self, x: PatsyValue, *args: Any, **kwargs: Any) -> None:
        """Learn from the present values of a chunk."""
        is_present, present = _complete_rows(x)
        if is_present is None or is_present.any():
            self._has_learned = True
            self._transform.memorize_chunk(present, *args, **kwargs)

    def memorize_finish(self) -> None:
        """Finish learning, if there was a value to learn from."""
        if self._has_learned:
            self._transform.memorize_finish()

    def transform(self, x: PatsyValue, *args: Any, **kwargs: Any) -> Variable | pd.DataFrame:
        """Return the transform of the present values, and NaN in the other rows."""
        is_present, present = _complete_rows(x)
        if is_present is not None and not (is_present.any() and self._has_learned):
            return np.full(len(is_present), np.nan)
        transformed: Variable | pd.DataFrame = self._transform.transform(present, *args, **kwargs)
        if is_present is None:
            return transformed
        values = np.full((len(is_present), *np.shape(transformed)[1:]), np.nan)
        values[is_present] = np.asarray(transformed)
        return values


def _complete_rows(x: PatsyValue) -> tuple[NDArray[np.bool_] | None, PatsyValue]:
    """Return which rows have no missing number, (n,), and these rows; None and ``x`` where no number is missing."""
    try:
        missing = np.isnan(np.asarray(x, dtype=float))
    except (TypeError, ValueError):
        return None, x
    if not (missing.ndim and missing.any()):
        return None, x
    is_present = ~missing.reshape(len(missing), -1).any(axis=1)
    return is_present, (x if isinstance(x, pd.Series | pd.DataFrame) else np.asarray(x))[is_present]


# Transforms of patsy by name, extended to allow missing values.
MISSING_ALLOWED = {
    name: stateful_transform(partial(MissingAllowed, getattr(patsy, name).__patsy_stateful_transform__))
    for name in ("center", "standardize", "scale", "bs", "cr", "cc")
}


# Names that every formula knows beside patsy's functions; they replace functions of patsy that refuse missing values.
FURTHER_NAMES = MappingProxyType({"np": np, "text": text, **MISSING_ALLOWED})
_FORMULA_NAMES = {**{name: getattr(patsy.builtins, name) for name in patsy.builtins.__all__}, **FURTHER_NAMES}


def is_known(name: str, environment: EvalEnvironment) -> bool:
    """Return whether a name stands for something where the formula is written, in patsy or in Python."""
    return name in environment.namespace or name in _FORMULA_NAMES or hasattr(builtins, name)


def resolve_functions(features: str, environment: EvalEnvironment) -> EvalEnvironment:
    """Return the environment of a formula in which every name that the features call is a function.

    A function of the caller goes before a function of patsy of the same name, as in patsy. A variable of the caller
    that cannot be called, or a variable ``np`` without the attribute that the features use, is passed over.
    """
    namespace, names, replaced = environment.namespace, names_in(features), {}
    for name in names.calls:
        if name in namespace and not callable(namespace[name]):
            function = _FORMULA_NAMES.get(name, getattr(builtins, name, None))
            if function is None:
                raise FormulaError(
                    f"the features {features!r} call {name!r}, which is {shown(namespace[name])} where the formula is "
                    f"written, and no function; rename the variable, or pass env={{{name!r}: function}}"
                )
            replaced[name] = function
        elif not is_known(name, environment):
            advice = equivalent(name) or f"{nearest(name, _FORMULA_NAMES, cutoff=0.8)}; pass env={{{name!r}: function}}"
            raise FormulaError(
                f"the features {features!r} call {name!r}, which is not known where the formula is written{advice}"
            )
    of_numpy = [name.split(".")[1] for name in names.attributes if name.startswith("np.")]
    if not all(hasattr(namespace.get("np", np), attribute) for attribute in of_numpy):
        replaced["np"] = np
    return EvalEnvironment([replaced, namespace], environment.flags) if replaced else environment


def check_called_names(features: str, columns: Collection[str], environment: EvalEnvironment) -> str:
    """Raise where a column would hide a function that patsy calls, because patsy looks among the columns first.

    Return which functions of the caller hide functions of patsy, for the end of an error; an empty text if none do.
    """
    names, namespace, hiding = names_in(features), environment.namespace, []
    for name in names.calls:
        function = namespace.get(name, _FORMULA_NAMES.get(name))
        # Patsy gives another name to a stateful transform, such as center(), before it looks names up.
        if name in columns and not hasattr(function, "__patsy_stateful_transform__"):
            raise FormulaError(
                f"the features {features!r} call {name}() and use the column {name!r}, which hides the function; "
                f"rename the column"
            )
        if name in _FORMULA_NAMES and name in namespace and function is not _FORMULA_NAMES[name]:
            hiding.append(name)
    if "np" in columns and any(name.startswith("np.") for name in names.attributes):
        raise FormulaError(
            f"the features {features!r} use a function of numpy, and the data have a column 'np', which hides numpy; "
            f"rename the column"
        )
    if not hiding:
        return ""
    return (
        f"; {hiding[0]}() is here the function of this name where the formula is written, which hides that of patsy: "
        f"rename your {hiding[0]}"
    )
