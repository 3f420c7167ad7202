"""The user's own learners of mu: scikit-learn classifiers, and functions that return a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._utils.argument_checks import is_classifier, unfitted_copy
from ...data.preferences import FloatArray, IntArray
from ...exceptions import NuisanceError, OptionError, OptionTypeError, nearest
from ..training_rows import TrainingRows

# Numbers in the matrix of one call to the user's predictor.
_NUMBERS = 4_000_000
# Probabilities in single precision sum to one up to this; what is left is divided out.
_SUM = 1e-4

Predictor = Callable[[FloatArray], ArrayLike]
_SIGNATURE = "learner(features, labels, weights, rng) -> predict, with predict(features) -> (rows, C)"


@dataclass(frozen=True, slots=True, eq=False)
class RowsMu:
    """A predictor of the category probabilities of rows, asked about all ordered pairs of every context.

    Attributes
    ----------
    predictor : callable
        Features, (r, width), to probabilities, (r, C), checked here and not there.
    n_items, n_categories : int
    one_hot : bool
        Whether the items stand in the features as indicators, or as their codes.
    name : str
        What errors call it.
    """

    predictor: Predictor
    n_items: int
    n_categories: int
    one_hot: bool
    name: str

    def predict(self, x: FloatArray) -> FloatArray:
        """Category probabilities, (n, K, K, C); equal contexts are asked about once, in chunks of bounded size."""
        table = np.zeros((len(x), self.n_items, self.n_items, self.n_categories))
        if not len(x):
            return table
        first, second = np.nonzero(~np.eye(self.n_items, dtype=bool))
        items = item_columns(first, second, self.n_items, self.one_hot)
        distinct, place = np.unique(x, axis=0, return_inverse=True, equal_nan=True)
        step = max(1, _NUMBERS // (len(items) * (x.shape[1] + items.shape[1])))
        parts = [self._scored(distinct[at : at + step], items) for at in range(0, len(distinct), step)]
        table[:, first, second] = np.concatenate(parts)[place.reshape(-1)]
        return table

    def at(self, x: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Category probabilities, (r, C), of one pair in each of r contexts with features ``x``, (r, p)."""
        rows = np.hstack([x, item_columns(first, second, self.n_items, self.one_hot)])
        step = max(1, _NUMBERS // rows.shape[1])
        blocks = [rows[at : at + step] for at in range(0, len(rows), step)]
        parts = [checked_rows(self.predictor(block), len(block), self.n_categories, self.name) for block in blocks]
        return np.concatenate([np.empty((0, self.n_categories)), *parts])

    def _scored(self, x: FloatArray, items: FloatArray) -> FloatArray:
        """Probabilities of the pairs in ``items``, (pairs, q), for every context of ``x``: (b, pairs, C)."""
        p = x.shape[1]
        rows = np.empty((len(x), len(items), p + items.shape[1]), dtype=x.dtype)
        rows[:, :, :p], rows[:, :, p:] = x[:, None], items
        flat = rows.reshape(-1, rows.shape[2])
        return checked_rows(self.predictor(flat), len(flat), self.n_categories, self.name).reshape(
            len(x), len(items), -1
        )


def is_own(learner: Any) -> bool:
    """Whether a learner is the user's own and not one of ours."""
    return not isinstance(learner, str)


def learner_name(learner: Any) -> str:
    """What errors and summaries call a learner: a class's name, a pipeline's steps, a function's name.

    Examples
    --------
    >>> learner_name("auto")
    'lightgbm'
    """
    if not is_own(learner):
        return "lightgbm"
    steps = _steps(learner)
    if steps:
        return f"{type(learner).__name__}({', '.join(learner_name(step) for _, step in steps)})"
    return getattr(learner, "__name__", type(learner).__name__)


def check_learner(learner: Any, tune: Any, propensity: Any) -> None:
    """Raise unless a learner can be used, and where ``tune`` would tune nothing.

    Parameters
    ----------
    learner : str, classifier or callable
        Known words have been checked before.
    tune, propensity
        The options of the fit: LightGBM's hyperparameters are also those of estimated propensities.

    Raises
    ------
    OptionTypeError
        If it is a class, or cannot be fitted or asked for probabilities.
    OptionError
        If ``tune`` is given and neither mu nor the propensities are LightGBM's.
    """
    if not is_own(learner):
        return
    name = learner_name(learner)
    if inspect.isclass(learner):
        raise OptionTypeError(f"learner is the class {name}; an instance is needed: learner={name}()")
    if not is_classifier(learner):
        _check_callable(learner, name)
    estimated = isinstance(propensity, str) and propensity == "estimate"
    if not (isinstance(tune, str) and tune == "cv") and not estimated:
        raise OptionError(
            f"tune= is about LightGBM, and this fit has none: learner is {name}, propensities are not estimated; leave "
            f"tune= out and tune {name} itself (scikit-learn's GridSearchCV is a learner too)"
        )


def fit_learner(learner: Any, rows: TrainingRows, n_items: int, n_categories: int, rng: np.random.Generator) -> RowsMu:
    """Fit a copy of a classifier, or call the user's function.

    Parameters
    ----------
    learner : classifier or callable
        A classifier is given [x, one-hot first, one-hot second] (p + 2 K columns), since most cannot read item codes;
        a function [x, first, second] (p + 2 columns), from which it can make what it needs.
    rows : TrainingRows
        With item codes.
    rng : Generator
        Seeds every ``random_state`` that is None; handed on to a function.

    Raises
    ------
    NuisanceError
        If fitting fails, or what comes back does not predict.
    """
    name = learner_name(learner)
    if is_classifier(learner):
        wide = replace(rows, features=_one_hot(rows.features, n_items))
        predictor = _fitted(unfitted_copy(learner), wide, n_categories, rng, name)
        return RowsMu(predictor, n_items, n_categories, one_hot=True, name=name)
    predictor = learner(rows.features, rows.label, rows.weight, rng)
    if not callable(predictor):
        raise NuisanceError(f"learner {name} returned a {type(predictor).__name__}; needed is {_SIGNATURE}")
    return RowsMu(predictor, n_items, n_categories, one_hot=False, name=name)


def item_columns(first: IntArray, second: IntArray, n_items: int, one_hot: bool) -> FloatArray:
    """What rows say of their items: (r, 2 K) indicators of the first, then of the second; or (r, 2) codes.

    Examples
    --------
    >>> item_columns(np.array([0]), np.array([2]), 3, one_hot=True)
    array([[1., 0., 0., 0., 0., 1.]])
    """
    if not one_hot:
        return np.column_stack([first, second]).astype(float)
    columns = np.zeros((len(first), 2 * n_items))
    rows = np.arange(len(first))
    columns[rows, first] = columns[rows, n_items + second] = 1.0
    return columns


def checked_rows(probabilities: ArrayLike, n_rows: int, n_columns: int, name: str) -> FloatArray:
    """What a learner predicted as probabilities, (r, C), that sum to one.

    Raises
    ------
    NuisanceError
        If the shape is wrong, or an entry is not a probability, or rows do not sum to one.
    """
    try:
        table = np.asarray(probabilities, dtype=float)
    except (TypeError, ValueError):
        kind = type(probabilities).__name__
        raise NuisanceError(f"learner {name} predicted a {kind}; needed is an array of probabilities") from None
    if table.shape != (n_rows, n_columns):
        raise NuisanceError(
            f"learner {name} predicted an array of shape {table.shape}; needed is (rows, categories) = "
            f"{(n_rows, n_columns)}"
        )
    with np.errstate(invalid="ignore"):
        total = table.sum(axis=1)
    for wrong, what in (
        (np.isnan(table).any(axis=1), "NaN"),
        (((table < 0) | (table > 1 + _SUM)).any(axis=1), "something that is not a probability"),
        (np.abs(total - 1) > _SUM, "probabilities that do not sum to one"),
    ):
        if wrong.any():
            row = table[np.flatnonzero(wrong)[0]].tolist()
            raise NuisanceError(f"learner {name} predicted {what} in {int(wrong.sum())} of {n_rows} rows: {row}")
    return table / total[:, None]


def _fitted(model: Any, rows: TrainingRows, n_categories: int, rng: np.random.Generator, name: str) -> Predictor:
    """Fit a classifier in place; a predictor of all categories, those that it has not seen having probability zero."""
    # Codes without gaps, whatever categories there are: some classifiers take no others.
    present, code = np.unique(rows.label, return_inverse=True)
    _seed(model, rng)
    try:
        _fit(model, rows.features, code.reshape(-1), rows.weight, name)
    except (TypeError, ValueError) as error:
        raise NuisanceError(f"learner {name} cannot be fitted: {error}") from error
    return _AllCategories(model, present, n_categories, name)


@dataclass(frozen=True, slots=True, eq=False)
class _AllCategories:
    """A fitted classifier whose columns are put where their categories are."""

    model: Any
    present: IntArray
    n_categories: int
    name: str

    def __call__(self, rows: FloatArray) -> FloatArray:
        known = np.asarray(getattr(self.model, "classes_", np.arange(len(self.present))), dtype=np.intp)
        table = np.zeros((len(rows), self.n_categories))
        table[:, self.present[known]] = checked_rows(self.model.predict_proba(rows), len(rows), len(known), self.name)
        return table


def _fit(model: Any, features: FloatArray, label: IntArray, weight: FloatArray, name: str) -> None:
    """Fit with weights where the model takes them; else every row stands as often as it has votes."""
    keyword = None if (weight == 1).all() else _weight_keyword(model)
    if keyword is None:
        rows = np.repeat(np.arange(len(weight)), _multiplicity(weight, name))
        in_place = len(rows) == len(weight)
        model.fit(features if in_place else features[rows], label if in_place else label[rows])
    else:
        model.fit(features, label, **{keyword: weight})


def _multiplicity(weight: FloatArray, name: str) -> NDArray[np.int64]:
    """Weights as whole numbers; halves, which come of votes that stand in both orders, are doubled."""
    for scale in (1, 2):
        times = np.rint(weight * scale)
        if np.allclose(times, weight * scale, atol=1e-9) and (times > 0).all():
            return times.astype(np.int64)
    raise NuisanceError(
        f"learner {name} takes no sample_weight, and votes with fractional weights cannot be repeated instead; use a "
        f"classifier that takes weights"
    )


def _weight_keyword(model: Any) -> str | None:
    """The keyword of fit() under which a classifier, or the last step of a pipeline, takes weights."""
    if "sample_weight" in inspect.signature(model.fit).parameters:
        return "sample_weight"
    routed = _routes_weights(model)
    if routed is not None:
        return "sample_weight" if routed else None
    steps = _steps(model)
    if not steps:
        return None
    name, last = steps[-1]
    inner = _weight_keyword(last)
    return f"{name}__{inner}" if inner else None


def _routes_weights(model: Any) -> bool | None:
    """Whether a model asks for weights where scikit-learn's metadata routing is on; None where it is off."""
    if not hasattr(model, "get_metadata_routing"):
        return None
    try:
        from sklearn import get_config
        from sklearn.utils.metadata_routing import get_routing_for_object
    except ImportError:
        return None
    if not get_config().get("enable_metadata_routing", False):
        return None
    return bool(get_routing_for_object(model).consumes("fit", ["sample_weight"]))


def _steps(model: Any) -> list[tuple[str, Any]]:
    steps = getattr(model, "steps", None)
    return steps if isinstance(steps, list) else []


def _seed(model: Any, rng: np.random.Generator) -> None:
    """Give every ``random_state`` that is None a seed: the global generator is never used."""
    if not (hasattr(model, "get_params") and hasattr(model, "set_params")):
        return
    parameters = model.get_params(deep=True)
    free = sorted(k for k, value in parameters.items() if k.split("__")[-1] == "random_state" and value is None)
    if free:
        model.set_params(**{name: int(rng.integers(2**31 - 1)) for name in free})


def _one_hot(rows: FloatArray, n_items: int) -> FloatArray:
    """Rows [x, one-hot first, one-hot second] of rows [x, first, second]."""
    p = rows.shape[1] - 2
    wide = np.empty((len(rows), p + 2 * n_items), dtype=rows.dtype)
    wide[:, :p] = rows[:, :p]
    wide[:, p:] = item_columns(rows[:, -2].astype(np.intp), rows[:, -1].astype(np.intp), n_items, one_hot=True)
    return wide


def _check_callable(learner: Any, name: str) -> None:
    """Raise unless something that is no classifier is a function of four arguments."""
    missing = [method for method in ("fit", "predict_proba") if not hasattr(learner, method)]
    if len(missing) == 1 or not callable(learner):
        what = " and no ".join(missing)
        raise OptionTypeError(
            f"learner is a {name}, which has no {what}; needed is 'auto', 'lightgbm', a classifier such as "
            f"LogisticRegression(), or a function {_SIGNATURE}{_advice(learner, name)}"
        )
    try:
        signature = inspect.signature(learner)
    except ValueError:  # built in, without a signature
        return
    try:
        signature.bind(None, None, None, None)
    except TypeError:
        raise OptionTypeError(
            f"learner {name}{signature} cannot be called with four arguments; needed is {_SIGNATURE}"
        ) from None


def _advice(learner: Any, name: str) -> str:
    """The nearest thing that has probabilities."""
    if "Regressor" in name:
        return f"; {name} predicts numbers, {name.replace('Regressor', 'Classifier')} predicts probabilities"
    if hasattr(learner, "decision_function"):
        return f"; CalibratedClassifierCV({name}()) of sklearn.calibration has probabilities"
    if hasattr(learner, "shape"):
        return "; ready probabilities go into mu="
    return nearest(name, ["LogisticRegression", "GradientBoostingClassifier", "RandomForestClassifier", "GaussianNB"])
