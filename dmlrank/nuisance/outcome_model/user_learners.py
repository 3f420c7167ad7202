"""Outcome models that the user brings: learners, and supplied probabilities."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._utils.argument_checks import is_classifier, real_array, unfitted_copy
from ...data.outcomes import in_other_order
from ...data.preferences import FloatArray, IntArray, PreferenceData
from ...exceptions import NuisanceError, OptionError, OptionTypeError, nearest
from ..training_rows import TrainingRows

# Largest number of entries of the matrix in one call to the user's predictor.
_MAX_ENTRIES = 4_000_000
# Largest accepted error of the sum of predicted probabilities, which should be one: learners may compute in single
# precision. The probabilities are divided by their sum.
_SUM_TOLERANCE = 1e-4

Predictor: TypeAlias = Callable[[FloatArray], ArrayLike]
_SIGNATURE = "learner(features, labels, weights, rng) -> predict, with predict(features) -> (rows, C)"


@dataclass(frozen=True, slots=True, eq=False)
class RowsMu:
    """An outcome model that predicts the category probabilities of rows [x, items].

    predictor: Takes rows, (r, width), and returns probabilities, (r, C), which are checked here.
    n_items, n_categories: Number of items, K, and of categories, C.
    one_hot: True if items are given to the predictor as indicators, one per item and position; False if as integer
        codes.
    name: What errors call the learner.
    max_entries: Largest number of entries of the matrix in one call to the predictor.
    """

    predictor: Predictor
    n_items: int
    n_categories: int
    one_hot: bool
    name: str
    max_entries: int = _MAX_ENTRIES

    def predict(self, x: FloatArray) -> FloatArray:
        """Return the category probabilities of every ordered pair, (n, K, K, C), in contexts with features ``x``.

        Contexts with equal features are predicted once.
        """
        table = np.zeros((len(x), self.n_items, self.n_items, self.n_categories))
        if not len(x):
            return table
        first, second = np.nonzero(~np.eye(self.n_items, dtype=bool))
        items = item_columns(first, second, self.n_items, self.one_hot)
        distinct, place = np.unique(x, axis=0, return_inverse=True, equal_nan=True)
        step = max(1, self.max_entries // (len(items) * (x.shape[1] + items.shape[1])))
        parts = [self._predict_pairs(distinct[at : at + step], items) for at in range(0, len(distinct), step)]
        table[:, first, second] = np.concatenate(parts)[place.reshape(-1)]
        return table

    def at(self, x: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return the category probabilities, (r, C), of one pair in each of r contexts with features ``x``, (r, p)."""
        rows = np.hstack([x, item_columns(first, second, self.n_items, self.one_hot)])
        step = max(1, self.max_entries // rows.shape[1])
        blocks = [rows[at : at + step] for at in range(0, len(rows), step)]
        parts = [check_probabilities(self.predictor(rows), len(rows), self.n_categories, self.name) for rows in blocks]
        return np.concatenate([np.empty((0, self.n_categories)), *parts])

    def _predict_pairs(self, x: FloatArray, items: FloatArray) -> FloatArray:
        """Return the probabilities of pairs, (b, pairs, C), in contexts with features ``x``, (b, p).

        Shapes: x (b, p), items (pairs, q).
        """
        n_features = x.shape[1]
        rows = np.empty((len(x), len(items), n_features + items.shape[1]), dtype=x.dtype)
        rows[:, :, :n_features], rows[:, :, n_features:] = x[:, None], items
        flat = rows.reshape(-1, rows.shape[2])
        p = check_probabilities(self.predictor(flat), len(flat), self.n_categories, self.name)
        return p.reshape(len(x), len(items), -1)


def is_user_learner(learner: object) -> bool:
    """Return whether a learner is an object of the user, and not the name of a learner of this package."""
    return not isinstance(learner, str)


def learner_name(learner: object) -> str:
    """What errors and summaries call a learner: the name of its class, the steps of a pipeline, or its own name."""
    if not is_user_learner(learner):
        return "lightgbm"
    steps = _steps(learner)
    if steps:
        return f"{type(learner).__name__}({', '.join(learner_name(step) for _, step in steps)})"
    return getattr(learner, "__name__", type(learner).__name__)


def check_learner(learner: object, tune: object, *, estimates_propensity: bool) -> None:
    """Check that a learner can be used, and that ``tune`` has something to tune."""
    if not is_user_learner(learner):
        return
    name = learner_name(learner)
    if inspect.isclass(learner):
        raise OptionTypeError(f"learner is the class {name}; pass an instance: learner={name}()")
    if not is_classifier(learner):
        _check_callable(learner, name)
    if not (isinstance(tune, str) and tune == "cv") and not estimates_propensity:
        raise OptionError(
            f"tune= was passed, which sets how LightGBM is tuned, but LightGBM is not used in this fit: the learner is "
            f"{name}, and the propensities are not estimated; leave tune= out and tune {name} itself, for example by "
            f"passing scikit-learn's GridSearchCV as learner="
        )


def fit_learner(learner: Any, rows: TrainingRows, n_items: int, n_categories: int, rng: np.random.Generator) -> RowsMu:
    """Fit a copy of a classifier, or call the user's function."""
    name = learner_name(learner)
    if is_classifier(learner):
        wide = replace(rows, features=_one_hot(rows.features, n_items))
        predictor = _fit_classifier(unfitted_copy(learner), wide, n_categories, rng, name)
        return RowsMu(predictor, n_items, n_categories, one_hot=True, name=name)
    predictor = learner(rows.features, rows.label, rows.weight, rng)
    if not callable(predictor):
        raise NuisanceError(
            f"learner {name} returned an object of type {type(predictor).__name__}, which cannot be called; a learner "
            f"has to be a function {_SIGNATURE}"
        )
    return RowsMu(predictor, n_items, n_categories, one_hot=False, name=name)


def item_columns(first: IntArray, second: IntArray, n_items: int, one_hot: bool) -> FloatArray:
    """Return the columns that describe the items of rows.

    Shapes: first, second (r,).
    """
    if not one_hot:
        return np.column_stack([first, second]).astype(float)
    columns = np.zeros((len(first), 2 * n_items))
    rows = np.arange(len(first))
    columns[rows, first] = columns[rows, n_items + second] = 1.0
    return columns


def check_probabilities(probabilities: ArrayLike, n_rows: int, n_columns: int, name: str) -> FloatArray:
    """Check the probabilities that a learner predicted, and return them as an array, (r, C), whose rows sum to one."""
    try:
        table = real_array(probabilities)
    except (TypeError, ValueError):
        kind = type(probabilities).__name__
        raise NuisanceError(
            f"learner {name} predicted an object of type {kind} that holds no numbers; it has to predict an array of "
            f"probabilities, (rows, categories)"
        ) from None
    if table.shape != (n_rows, n_columns):
        raise NuisanceError(
            f"learner {name} predicted an array of shape {table.shape}; the shape has to be (rows, categories) = "
            f"{(n_rows, n_columns)}"
        )
    with np.errstate(invalid="ignore"):
        total = table.sum(axis=1)
    for is_wrong, finding in (
        (np.isnan(table).any(axis=1), "NaN"),
        (((table < 0) | (table > 1 + _SUM_TOLERANCE)).any(axis=1), "numbers that are not probabilities"),
        (np.abs(total - 1) > _SUM_TOLERANCE, "probabilities that do not sum to one"),
    ):
        if is_wrong.any():
            row = table[np.flatnonzero(is_wrong)[0]].tolist()
            raise NuisanceError(
                f"learner {name} predicted {finding} in {int(is_wrong.sum())} of {n_rows} rows, first {row}; every row "
                f"has to hold one probability for each category, with a sum of one"
            )
    return table / total[:, None]


def _fit_classifier(
    model: Any, rows: TrainingRows, n_categories: int, rng: np.random.Generator, name: str
) -> Predictor:
    """Fit a classifier in place, and return a predictor of all categories."""
    # Some classifiers accept only labels that are numbered without gaps.
    present, code = np.unique(rows.label, return_inverse=True)
    _seed(model, rng)
    try:
        _fit_weighted(model, rows.features, code.reshape(-1), rows.weight, name)
    except (TypeError, ValueError) as error:
        raise NuisanceError(f"learner {name} cannot be fitted: {error}") from error
    return _AllCategories(model, present, n_categories, name)


@dataclass(frozen=True, slots=True, eq=False)
class _AllCategories:
    """A predictor of all categories from a classifier that was fitted to some of them.

    model: The fitted classifier.
    present: Categories of the labels that the classifier was fitted to, in the order of its classes.
    n_categories: Number of categories, C.
    name: What errors call the classifier.
    """

    model: Any
    present: IntArray
    n_categories: int
    name: str

    def __call__(self, rows: FloatArray) -> FloatArray:
        classes = np.asarray(getattr(self.model, "classes_", np.arange(len(self.present))), dtype=np.intp)
        p = check_probabilities(self.model.predict_proba(rows), len(rows), len(classes), self.name)
        table = np.zeros((len(rows), self.n_categories))
        table[:, self.present[classes]] = p
        return table


def _fit_weighted(model: Any, features: FloatArray, label: IntArray, weight: FloatArray, name: str) -> None:
    """Fit a classifier with weights if it takes weights; otherwise repeat every row as often as it has votes.

    Shapes: features (r, width), label (r,), weight (r,).
    """
    keyword = None if (weight == 1).all() else _weight_keyword(model)
    if keyword is None:
        rows = np.repeat(np.arange(len(weight)), _repetitions(weight, name))
        is_unchanged = len(rows) == len(weight)
        model.fit(features if is_unchanged else features[rows], label if is_unchanged else label[rows])
    else:
        model.fit(features, label, **{keyword: weight})


def _repetitions(weight: FloatArray, name: str) -> NDArray[np.int64]:
    """Return how often to repeat each row: as often as its weight says, or twice as often where weights are halves."""
    for scale in (1, 2):
        times = np.rint(weight * scale)
        if np.allclose(times, weight * scale, atol=1e-9) and (times > 0).all():
            return times.astype(np.int64)
    raise NuisanceError(
        f"learner {name} takes no sample_weight, and rows with fractional weights cannot be repeated instead; use a "
        f"classifier that takes weights"
    )


def _weight_keyword(model: Any) -> str | None:
    """Return the keyword by which a model's ``fit`` takes weights, such as ``sample_weight``; None if it takes none."""
    if "sample_weight" in inspect.signature(model.fit).parameters:
        return "sample_weight"
    routed = _routes_weights(model)
    if routed is not None:
        return "sample_weight" if routed else None
    steps = _steps(model)
    if not steps:
        return None
    name, last_step = steps[-1]
    keyword = _weight_keyword(last_step)
    return f"{name}__{keyword}" if keyword else None


def _routes_weights(model: Any) -> bool | None:
    """Return whether a model asks for weights through scikit-learn's metadata routing; None where routing is off."""
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


def _steps(model: object) -> list[tuple[str, Any]]:
    """Return the named steps of a pipeline; none for another model."""
    steps = getattr(model, "steps", None)
    return steps if isinstance(steps, list) else []


def _seed(model: Any, rng: np.random.Generator) -> None:
    """Set every ``random_state`` that is None to a drawn seed, so that numpy's global generator is never used."""
    if not (hasattr(model, "get_params") and hasattr(model, "set_params")):
        return
    parameters = model.get_params(deep=True)
    unset = sorted(k for k, value in parameters.items() if k.split("__")[-1] == "random_state" and value is None)
    if unset:
        model.set_params(**{name: int(rng.integers(2**31 - 1)) for name in unset})


def _one_hot(rows: FloatArray, n_items: int) -> FloatArray:
    """Return rows [x, one-hot first, one-hot second] for rows [x, first, second]."""
    n_features = rows.shape[1] - 2
    wide = np.empty((len(rows), n_features + 2 * n_items), dtype=rows.dtype)
    wide[:, :n_features] = rows[:, :n_features]
    wide[:, n_features:] = item_columns(rows[:, -2].astype(np.intp), rows[:, -1].astype(np.intp), n_items, one_hot=True)
    return wide


def _check_callable(learner: object, name: str) -> None:
    """Check that a learner that is not a classifier is a function of four arguments."""
    missing = [method for method in ("fit", "predict_proba") if not hasattr(learner, method)]
    if len(missing) == 1 or not callable(learner):
        methods = " and no ".join(missing)
        raise OptionTypeError(
            f"learner is an object of type {name}, which has no {methods}; pass 'auto', 'lightgbm', a classifier such "
            f"as LogisticRegression(), or a function {_SIGNATURE}{_advice(learner, name)}"
        )
    assert callable(learner)
    try:
        signature = inspect.signature(learner)
    except ValueError:  # built in, without a signature
        return
    try:
        signature.bind(None, None, None, None)
    except TypeError:
        raise OptionTypeError(
            f"learner {name}{signature} cannot be called with four arguments; pass a function {_SIGNATURE}"
        ) from None


def _advice(learner: object, name: str) -> str:
    """Return what to pass instead of an object that does not predict probabilities, as the end of an error."""
    if "Regressor" in name:
        return f"; {name} predicts numbers, {name.replace('Regressor', 'Classifier')} predicts probabilities"
    if hasattr(learner, "decision_function"):
        return f"; CalibratedClassifierCV({name}()) of sklearn.calibration has probabilities"
    if hasattr(learner, "shape"):
        return "; to use probabilities that you have already, pass them as mu="
    return nearest(name, ["LogisticRegression", "GradientBoostingClassifier", "RandomForestClassifier", "GaussianNB"])


# Largest accepted error of the sum of a pair's probabilities, which should be one. Where display order does not matter,
# also the largest accepted difference between the probabilities of a pair and those of the other display order.
_TOLERANCE = 1e-6


def checked_mu(mu: object, data: PreferenceData) -> FloatArray:
    """Check out-of-fold probabilities of the user, and return them as an array, (n, K, K, C), with a zero diagonal.

    Shapes: mu (n, K, K, C).
    """
    try:
        table = real_array(mu)
    except (TypeError, ValueError, OverflowError):
        raise OptionTypeError(
            f"mu= has the type {type(mu).__name__}, which is not an array of numbers; pass an array of probabilities, "
            f"(contexts, models, models, categories)"
        ) from None
    n_items = data.n_items
    shape = (data.n_contexts, n_items, n_items, data.n_categories)
    if table.shape != shape:
        raise NuisanceError(
            f"mu= has shape {table.shape}; the shape has to be (contexts, models, models, categories) = {shape}, with "
            f"contexts in order of first appearance, models {data.items[0]!r} ... {data.items[-1]!r}, and categories "
            f"{data.categories}"
        )
    pairs = ~np.eye(n_items, dtype=bool)
    is_probability = ((table >= 0) & (table <= 1)).all(axis=-1)
    _refuse(~is_probability & pairs, "is not a probability", table, data)
    sums_to_one = np.abs(table.sum(axis=-1) - 1) <= _TOLERANCE
    _refuse(~sums_to_one & pairs, "does not sum to one over the categories", table, data)
    if not data.ordered:
        differs = np.abs(table - in_other_order(table)).max(axis=-1) > _TOLERANCE
        finding = "differs between the two display orders of a pair, which position_bias=False does not allow,"
        _refuse(differs & pairs, finding, table, data)
    if table[:, ~pairs].any():
        table = np.where(pairs[:, :, None], table, 0.0)
    return table


def _refuse(is_wrong: NDArray[np.bool_], finding: str, table: FloatArray, data: PreferenceData) -> None:
    """Raise an error if there are wrong places, and show the first of them.

    Shapes: is_wrong (n, K, K), table (n, K, K, C).
    """
    if is_wrong.any():
        i, j, k = (int(place[0]) for place in np.nonzero(is_wrong))
        raise NuisanceError(
            f"mu= {finding} in {int(is_wrong.sum())} places, first in context {data.context_ids[i]!r} for "
            f"{data.items[j]!r} before {data.items[k]!r}: {table[i, j, k].tolist()}; correct these probabilities"
        )
