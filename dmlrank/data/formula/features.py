"""The features of a formula on one row per context; terms that are not columns of numbers are evaluated with patsy."""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np
import pandas as pd
import patsy
import patsy.builtins
from numpy.typing import ArrayLike, NDArray
from patsy import DesignInfo, EvalEnvironment, EvalFactor, ModelDesc, NAAction, PatsyError, Term, stateful_transform

from ...exceptions import (
    ColumnError,
    DataError,
    DmlrankError,
    FormulaError,
    MissingDataError,
    MissingExtraError,
    OptionError,
    OptionTypeError,
    listed,
    named_rows,
    nearest,
    shown,
)
from ..arrays import (
    FloatArray,
    IntArray,
    Variable,
    is_number,
    is_vector_column,
    row_slices,
    stack_vectors,
    vector_layout,
)
from ..frames import array_in_file, require_columns
from .parse import equivalent, names_in, terms_of

if TYPE_CHECKING:
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer


# Where functions and arrays of a formula are looked up. Modules outside of data/formula do not know patsy.
Environment: TypeAlias = EvalEnvironment
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
            raise DataError("text(): the texts hold no words of two or more letters") from None
        n_texts, n_words = frequencies.shape
        if self._k > min(n_texts, n_words):
            raise DataError(f"text(..., {self._k}): {n_texts} texts have at most {min(n_texts, n_words)} components")
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


# Names that every formula knows.
FORMULA_NAMES = {**{name: getattr(patsy.builtins, name) for name in patsy.builtins.__all__}, "np": np, "text": text}


def resolve_functions(features: str, columns: Collection[str], environment: Environment) -> Environment:
    """Return the environment of a formula in which every name that the features call is a function."""
    # A function of the caller goes before one of patsy of the same name, as in patsy; what cannot be called is passed
    # over. Patsy looks among the columns first, so that none may have the name.
    namespace, replaced = environment.namespace, {}
    for name in names_in(features).calls:
        known = FORMULA_NAMES.get(name, getattr(builtins, name, None))
        function = namespace[name] if callable(namespace.get(name)) else known
        if function is None:
            found = f"is {shown(namespace[name])}" if name in namespace else "is not known"
            advice = equivalent(name) or nearest(name, FORMULA_NAMES, cutoff=0.8)
            raise FormulaError(
                f"features {features!r} call {name!r}, which {found} here{advice}; pass env={{{name!r}: function}}"
            )
        # Patsy gives another name to a stateful transform, such as center(), before it looks names up.
        if name in columns and not hasattr(function, "__patsy_stateful_transform__"):
            raise FormulaError(
                f"the features {features!r} call {name}(), which the column {name!r} hides; rename the column"
            )
        replaced[name] = function
    return Environment([replaced, namespace], environment.flags)


class NumericTerm(NamedTuple):
    """A term that is one column of numbers, or one column or array of vectors, with ``width`` columns of X."""

    variable: str
    label: str
    width: int


def numeric_terms(terms: Sequence[Term], columns: Mapping[str, Variable]) -> dict[Term, NumericTerm]:
    """Return the terms that are a column of numbers or vectors and that no other term uses; patsy codes all others."""
    uses = Counter(factor for term in terms for factor in term.factors)
    numeric = {}
    for term in terms:
        if len(term.factors) != 1 or uses[term.factors[0]] > 1:
            continue
        code = term.factors[0].code
        variable = code if code.isidentifier() else next(iter(names_in(code).features), None)
        # A name that is no column, such as None, is a constant of Python, which patsy evaluates.
        layout = numeric_layout(columns[variable]) if variable is not None and variable in columns else None
        if variable is not None and layout is not None:
            numeric[term] = NumericTerm(variable, term.factors[0].name(), layout[0])
    return numeric


def numeric_layout(column: Variable) -> tuple[int, np.dtype[np.generic]] | None:
    """Return width and type of a column or array of numbers or vectors; None where it holds something else."""
    if isinstance(column, pd.Series):
        if is_vector_column(column):
            return vector_layout(column)
        return (1, column.dtype) if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iuf" else None
    if not isinstance(column, np.ndarray) or column.dtype.kind not in "iuf" or column.ndim not in (1, 2):
        return None
    width = 1 if column.ndim == 1 else column.shape[1]
    return (width, column.dtype) if width else None


# A column of texts is refused as a category if it has more different values than this, and more than half as many as
# there are contexts.
_MANY_CATEGORIES = 50
# Categories with more values, of which a smaller share are no numbers, are taken for numbers with mistakes.
_MANY_NUMBERS, _FEW_OTHERS = 20, 0.1


class _KeepRows(NAAction):
    """The treatment of missing values by patsy: no row is dropped, and missing values become NaN.

    A missing category gets an arbitrary code here; later its columns become NaN.

    missing (n,): Rows in which each factor is a missing category.
    """

    missing: Sequence[NDArray[np.bool_]] = ()

    def is_numerical_NA(self, arr: NDArray[np.generic]) -> NDArray[np.bool_]:
        """Return that no number is missing, (n,)."""
        return np.zeros(len(arr), dtype=bool)

    def is_categorical_NA(self, obj: object) -> bool:
        """Return whether a category is missing."""
        return bool(pd.api.types.is_scalar(obj) and pd.isna(cast("float | None", obj)))

    def handle_NA(
        self, values: list[NDArray[np.generic]], is_NAs: list[NDArray[np.bool_]], origins: list[object]
    ) -> list[NDArray[np.generic]]:
        """Return the values of the factors, missing ones replaced by zero, and store where they are missing."""
        self.missing = [np.asarray(is_missing) for is_missing in is_NAs]
        return [
            np.where(is_missing, 0, value) if is_missing.any() else value
            for value, is_missing in zip(values, self.missing, strict=True)
        ]


class FeatureNames(NamedTuple):
    """Names in the features: columns of the data, and arrays of the caller with an entry for each row of the data."""

    columns: tuple[str, ...]
    arrays: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FeatureMap:
    """Fitted features, which turn further contexts into rows of X.

    names: Names of the p columns of X.
    info: Patsy's coding of all terms except the numeric ones; None where all terms are numeric.
    numeric: The numeric terms, each with its first column of X.
    coded: Columns of X that patsy computes.
    """

    text: str
    variables: tuple[str, ...]
    names: tuple[str, ...]
    info: DesignInfo | None
    numeric: tuple[tuple[int, NumericTerm], ...] = ()
    coded: IntArray | None = None

    @property
    def terms(self) -> dict[str, list[int]]:
        """The columns of X by term, in their order; a numeric term has the name of its variable."""
        columns = {term.variable: [*range(start, start + term.width)] for start, term in self.numeric}
        if self.info is not None and self.coded is not None:
            coded = iter(self.coded.tolist())
            sizes = {name: place.stop - place.start for name, place in self.info.term_name_slices.items()}
            columns |= {name: [next(coded) for _ in range(n)] for name, n in sizes.items() if n and name != "Intercept"}
        return dict(sorted(columns.items(), key=lambda item: item[1]))

    def transform(self, table: pd.DataFrame) -> FloatArray:
        """Return X, (n, p), of further contexts, with the transforms of the fit."""
        require_columns(self.variables, list(table.columns), "newdata")
        columns: dict[str, Variable] = {name: table[name] for name in self.variables}
        for _, term in self.numeric:
            columns[term.variable] = self._numbers(columns[term.variable], term.variable, term.width)
        for factor, fitted in self.info.factor_infos.items() if self.info is not None else ():
            if fitted.type == "numerical" and factor.name() in columns:
                columns[factor.name()] = self._numbers(columns[factor.name()], factor.name(), fitted.num_columns)
        return self.matrix(columns, len(table), DataError)

    def matrix(
        self, columns: Mapping[str, Variable], n_rows: int, kind: type[DmlrankError], *, in_file: bool = False
    ) -> FloatArray:
        """Return X, (n, p), in single precision where it is in a file or all features are; errors are of this kind."""
        layouts = [numeric_layout(columns[term.variable]) for _, term in self.numeric]
        is_single = self.info is None and layouts and all(layout and layout[1] == np.float32 for layout in layouts)
        shape = n_rows, len(self.names)
        x: NDArray[np.floating] = (
            array_in_file(shape) if in_file and shape[1] else np.empty(shape, np.float32 if is_single else np.float64)
        )
        for (start, term), layout in zip(self.numeric, layouts, strict=True):
            column, place = columns[term.variable], slice(start, start + term.width)
            if layout is None:
                value = column.iloc[0] if isinstance(column, pd.Series) and len(column) else column
                raise DataError(f"newdata: {term.label!r} is {value!r}; at the fit it held numbers")
            if layout[0] != term.width:
                raise DataError(f"newdata: factor {term.label} has {layout[0]} columns; at the fit it had {term.width}")
            if isinstance(column, pd.Series) and is_vector_column(column):
                stack_vectors(column, x[:, place])
            else:
                x[:, place] = np.asarray(column).reshape(n_rows, term.width)
        if self.info is not None and self.coded is not None:
            values, done = _patsy_data(self.info.factor_infos, columns), 0
            # One term at a time, so that the columns of the others are in the file and not in memory.
            parts = [self.info.subset([term.name()]) for term in self.info.term_slices if term.factors]
            for part in parts if in_file else [self.info]:
                table = _coded_matrix(part, values, n_rows, features=self.text, kind=kind)
                x[:, self.coded[done : done + table.shape[1]]] = table
                done += table.shape[1]
        return cast("FloatArray", x)

    def _numbers(self, column: Variable, name: str, width: int) -> Variable:
        """Return a variable of further contexts as numbers, because the fit had numbers."""
        if not isinstance(column, pd.Series) or is_vector_column(column):
            return column
        if column.dtype == object and column.isna().all():
            return np.full((len(column), width), np.nan)
        if column.dtype == bool:
            # At the fit, booleans beside missing values were numbers.
            return column.astype(float)
        if not pd.api.types.is_numeric_dtype(column.dtype):
            raise DataError(f"newdata: {name!r} is {column.iloc[0]!r}; at the fit it held numbers")
        return column


def caller_environment(env: int | Mapping[str, Any] | Environment | None, depth: int) -> Environment:
    """Return the namespace in which functions and arrays of a formula are looked up."""
    if isinstance(env, Mapping):
        namespace = Environment([dict(env)])
    else:
        try:
            namespace = Environment.capture(0 if env is None else env, reference=depth + 1)
            if isinstance(env, int) and env < 0:
                raise ValueError
        except (TypeError, ValueError) as error:
            kind = OptionTypeError if isinstance(error, TypeError) else OptionError
            raise kind(f"env={shown(env)}; allowed: a mapping, a number of callers above, an EvalEnvironment") from None
    return namespace.with_outer_namespace({"np": np, "text": text})


def locate_names(
    features: str, available: Sequence[str], environment: Environment, n_rows: int, roles: Sequence[str]
) -> FeatureNames:
    """Return which names in the features are columns and which are arrays of the caller."""
    names = names_in(features)
    columns, arrays = [], []
    for name in names.values:
        is_feature, value = name in names.features, environment.namespace.get(name)
        # A list counts only as a feature by itself.
        kinds = (np.ndarray, pd.Series, pd.DataFrame, *((list, tuple) if is_feature else ()))
        if name in roles:
            raise FormulaError(f"{name!r} is the outcome or an item column; leave it out of the features")
        if name in available:
            columns.append(name)
        elif isinstance(value, kinds) and len(value) == n_rows:
            arrays.append(name)
        elif is_feature or not (name in environment.namespace or name in FORMULA_NAMES or hasattr(builtins, name)):
            size = f" of {len(value)}" if isinstance(value, Sized) else ""
            expected = f"an array with one entry for each of the {n_rows} rows (it is a {type(value).__name__}{size})"
            raise ColumnError(
                f"the features {features!r} use {name!r}, which is neither a column nor "
                f"{'known here' if value is None else expected}{nearest(name, available)} (columns: "
                f"{listed(available)})"
            )
    return FeatureNames(tuple(columns), tuple(arrays))


def fit_features(
    features: str, columns: Mapping[str, Variable], n_rows: int, environment: Environment, *, in_file: bool = False
) -> tuple[FloatArray, FeatureMap]:
    """Evaluate the features on one row per context and fit the transforms for further contexts. Shapes: X (n, p)."""
    terms = terms_of(features)
    numeric = numeric_terms(terms, columns)
    coded_terms = [term for term in terms if term not in numeric]
    factors = [factor for term in coded_terms for factor in term.factors]
    info = None
    if factors:
        data = _patsy_data(factors, columns)
        for name in set(names_in(features).features) & set(data):
            values = pd.Series(data[name]) if np.ndim(data[name]) == 1 else pd.Series(dtype=float)
            if values.dtype.kind in "OUS" and name in {factor.code for factor in factors}:
                _check_are_no_numbers(name, values)
            if values.dtype.kind in "OUS" and values.nunique() > max(_MANY_CATEGORIES, n_rows / 2):
                raise FormulaError(
                    f"feature {name!r} has {values.nunique()} different values in {n_rows} contexts, too many; use "
                    f"text({name}, 100)"
                )
        model = ModelDesc([], coded_terms)
        environment = resolve_functions(features, data, environment)
        with _errors_of_formula(features, FormulaError):
            info = patsy.incr_dbuilder(model, lambda: iter([data]), environment, NA_action=_KeepRows())
    names, starts, coded = _arrange_columns(terms, numeric, info)
    feature_map = FeatureMap(features, tuple(columns), names, info, starts, coded)
    return feature_map.matrix(columns, n_rows, FormulaError, in_file=in_file), feature_map


def _check_are_no_numbers(name: str, values: pd.Series) -> None:
    """Raise where nearly all categories are numbers: then a text among numbers has made categories of them."""
    levels = values.dropna().unique().tolist()
    others = [level for level in levels if not is_number(level)]
    if len(levels) > _MANY_NUMBERS and len(others) < _FEW_OTHERS * len(levels):
        text = others[0] if others else next((level for level in levels if isinstance(level, str)), levels[0])
        raise FormulaError(
            f"feature {name!r} holds {shown(text, 80)} ({type(text).__name__}) in {int((values == text).sum())} of "
            f"{len(values)} contexts, and numbers: correct it or convert the column with pandas.to_numeric, or write "
            f"C({name}) where the numbers are names of categories"
        )


def new_features(feature_map: FeatureMap, table: pd.DataFrame, keep_missing: bool) -> FloatArray:
    """Return X, (n, p), of further contexts."""
    missing = [name for name in feature_map.variables if table[name].isna().any()]
    if missing and not keep_missing:
        n_missing = int(table[missing].isna().any(axis=1).sum())
        raise MissingDataError(
            f"newdata: missing values in {listed(missing)}, in {n_missing} of {len(table)} rows; drop these"
        )
    x = feature_map.transform(table)
    check_features(x, feature_map.names, keep_missing)
    return x


def check_features(
    x: FloatArray, names: Sequence[str], keep_missing: bool, rows: IntArray | None = None
) -> NDArray[np.bool_]:
    """Return which contexts have a missing feature, (n,); ``rows`` are their numbers in errors. Shapes: x (n, p)."""
    if not x.shape[1] or all(np.isfinite(x[rows]).all() for rows in row_slices(*x.shape)):
        return np.zeros(len(x), dtype=bool)
    infinite = np.logical_or.reduce([np.isinf(x[rows]).any(axis=0) for rows in row_slices(*x.shape)])
    if infinite.any():
        columns, in_rows = listed(np.array(names)[infinite]), named_rows(np.isinf(x[:, infinite]).any(axis=1), rows)
        raise DataError(f"the features {columns} are infinite in {in_rows}; replace or drop these rows")
    missing: NDArray[np.bool_] = np.concatenate([np.isnan(x[rows]).any(axis=1) for rows in row_slices(*x.shape)])
    if missing.any() and not keep_missing:
        columns = listed(np.array(names)[np.isnan(x).any(axis=0)])
        raise MissingDataError(
            f"the features {columns} are NaN in {named_rows(missing, rows)}; pass missing='drop' to leave these out, "
            f"or 'keep'"
        )
    return missing


def _arrange_columns(
    terms: Sequence[Term], numeric: Mapping[Term, NumericTerm], info: DesignInfo | None
) -> tuple[tuple[str, ...], tuple[tuple[int, NumericTerm], ...], IntArray]:
    """Return the names of the columns of X, where each numeric term starts, and the columns that patsy computes."""
    fitted = info.factor_infos if info is not None else {}
    coded = [term for term in info.term_slices if term.factors] if info is not None else []
    numbers_in = {factor for term in numeric for factor in term.factors}
    numbers_in |= {factor for factor, factor_info in fitted.items() if factor_info.type == "numerical"}
    numbers_of_terms = [numbers_in.intersection(term.factors) for term in terms]
    # The first term with the same numeric factors; -1 for a term of categories only.
    first_alike = {
        term: numbers_of_terms.index(numbers) if numbers else -1
        for term, numbers in zip(terms, numbers_of_terms, strict=True)
    }
    names: list[str] = []
    starts: list[tuple[int, NumericTerm]] = []
    columns: list[int] = []
    for term in sorted([*coded, *numeric], key=lambda term: first_alike[term]):
        if term in numeric:
            starts.append((len(names), numeric[term]))
            _, label, width = numeric[term]
            names += [label] if width == 1 else [f"{label}[{place}]" for place in range(width)]  # patsy's names
        elif info is not None:
            term_names = info.column_names[info.term_slices[term]]
            columns += range(len(names), len(names) + len(term_names))
            names += term_names
    return tuple(names), tuple(starts), np.array(columns, dtype=np.intp)


def _patsy_data(factors: Iterable[EvalFactor], columns: Mapping[str, Variable]) -> dict[str, Variable]:
    """Return what these factors use as patsy reads it: vectors as a matrix, the index from 0."""
    used = {name for factor in factors for name in names_in(factor.code).values}
    data = {name: column for name, column in columns.items() if name in used}
    for name, column in data.items():
        if isinstance(column, pd.Series):
            data[name] = stack_vectors(column) if is_vector_column(column) else column.reset_index(drop=True)
    return data


@contextmanager
def _errors_of_formula(features: str, kind: type[DmlrankError]) -> Iterator[None]:
    """Raise errors of patsy, and of functions in the formula, as errors of this kind."""
    try:
        with np.errstate(all="ignore"):
            yield
    except DmlrankError:
        raise
    except PatsyError as error:
        if isinstance(error.__cause__, DmlrankError):
            raise error.__cause__ from None
        raise kind(f"the features {features!r} cannot be computed: {error.message}") from None
    except (MemoryError, Warning):
        raise
    except Exception as error:
        # Functions of the caller may raise any error.
        why = str(error) if isinstance(error, TypeError | ValueError) else f"{type(error).__name__}: {error}"
        raise kind(f"the features {features!r} cannot be computed: {why}") from None


def _coded_matrix(
    info: DesignInfo, columns: Mapping[str, Variable], n_rows: int, *, features: str, kind: type[DmlrankError]
) -> FloatArray:
    """Return the columns of X that patsy computes, (n, columns), NaN where a number or category is missing."""
    action = _KeepRows()
    with _errors_of_formula(features, kind):
        (matrix,) = patsy.build_design_matrices([info], columns, NA_action=action)
    if len(matrix) != n_rows:
        raise kind(f"the features {features!r} have {len(matrix)} rows for {n_rows} contexts; allowed: one for each")
    x, is_feature = np.array(matrix, dtype=float), np.ones(matrix.shape[1], dtype=bool)
    missing = dict(zip(info.factor_infos, action.missing, strict=True))
    for term, place in info.term_slices.items():
        is_feature[place] = bool(term.factors)  # the intercept has none
        for factor in term.factors:
            x[missing[factor], place] = np.nan
    return x[:, is_feature]
