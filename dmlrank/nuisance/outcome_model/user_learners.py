"""Outcome models that the user brings: learners, and supplied probabilities."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ..._utils.argument_checks import is_classifier, real_array, require_shape, unfitted_copy
from ...data.arrays import row_slices
from ...data.outcomes import in_other_order
from ...data.preferences import AnyArray, BoolArray, FloatArray, IntArray, PreferenceData
from ...exceptions import NuisanceError, OptionError, OptionTypeError, failing_as
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
    one_hot: Whether the predictor gets items as indicators, one per item and position, or as integer codes.
    """

    predictor: Predictor
    n_items: int
    n_categories: int
    one_hot: bool
    name: str
    max_entries: int = _MAX_ENTRIES

    def predict(self, x: FloatArray) -> FloatArray:
        """Return the probabilities of every ordered pair, (n, K, K, C), each distinct row of ``x`` predicted once."""
        table = np.zeros((len(x), self.n_items, self.n_items, self.n_categories))
        if not len(x):
            return table
        first, second = np.nonzero(~np.eye(self.n_items, dtype=bool))
        items, p = item_columns(first, second, self.n_items, self.one_hot), x.shape[1]
        distinct, place = np.unique(x, axis=0, return_inverse=True, equal_nan=True)
        parts = []
        for part in row_slices(len(distinct), len(items) * (p + items.shape[1]), self.max_entries):
            some = distinct[part]
            rows = np.empty((len(some), len(items), p + items.shape[1]), dtype=x.dtype)
            rows[:, :, :p], rows[:, :, p:] = some[:, None], items
            parts.append(self._probabilities(rows.reshape(-1, rows.shape[2])).reshape(len(some), len(items), -1))
        table[:, first, second] = np.concatenate(parts)[place.reshape(-1)]
        return table

    def at(self, x: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return the category probabilities, (r, C), of one pair in each of r contexts with features ``x``, (r, p)."""
        rows = np.hstack([x, item_columns(first, second, self.n_items, self.one_hot)])
        parts = [self._probabilities(rows[part]) for part in row_slices(len(rows), rows.shape[1], self.max_entries)]
        return np.concatenate([np.empty((0, self.n_categories)), *parts])

    def _probabilities(self, rows: FloatArray) -> FloatArray:
        with failing_as(NuisanceError, f"the prediction of learner {self.name}"):
            return check_probabilities(self.predictor(rows), len(rows), self.n_categories, self.name)


def learner_name(learner: object) -> str:
    """What errors and summaries call a learner: the name of its class, the steps of a pipeline, or its own name."""
    if isinstance(learner, str):
        return "lightgbm"
    steps = _steps(learner)
    if steps:
        return f"{type(learner).__name__}({', '.join(learner_name(step) for _, step in steps)})"
    return getattr(learner, "__name__", type(learner).__name__)


def check_learner(learner: object, tune: object, *, estimates_propensity: bool) -> None:
    """Check that a learner of the user can be used, and that ``tune`` has something to tune."""
    name = learner_name(learner)
    if inspect.isclass(learner):
        raise OptionTypeError(f"learner is the class {name}; pass an instance: learner={name}()")
    if not is_classifier(learner):
        _check_callable(learner, name)
    if not (isinstance(tune, str) and tune == "cv") and not estimates_propensity:
        raise OptionError(
            f"learning=Learning(tune=...) sets how LightGBM is tuned, which this fit does not use; leave tune out, and "
            f"tune {name} itself, such as with scikit-learn's GridSearchCV"
        )


def fit_learner(learner: Any, rows: TrainingRows, n_items: int, n_categories: int, rng: np.random.Generator) -> RowsMu:
    """Fit a copy of a classifier, or call the user's function."""
    name = learner_name(learner)
    if is_classifier(learner):
        p = rows.features.shape[1] - 2
        first, second = rows.features[:, p:].astype(np.intp).T
        # In the precision of the features.
        wide = np.empty((len(rows.features), p + 2 * n_items), dtype=rows.features.dtype)
        wide[:, :p], wide[:, p:] = rows.features[:, :p], item_columns(first, second, n_items, one_hot=True)
        predictor = _fit_classifier(unfitted_copy(learner), replace(rows, features=wide), n_categories, rng, name)
        return RowsMu(predictor, n_items, n_categories, one_hot=True, name=name)
    with failing_as(NuisanceError, f"learner {name}"):
        predictor = learner(rows.features, rows.label, rows.weight, rng)
    if not callable(predictor):
        raise NuisanceError(
            f"learner {name} returned a {type(predictor).__name__}; it has to be a function {_SIGNATURE}"
        )
    return RowsMu(predictor, n_items, n_categories, one_hot=False, name=name)


def item_columns(first: IntArray, second: IntArray, n_items: int, one_hot: bool) -> FloatArray:
    """Return the columns that describe the items of rows; first, second (r,)."""
    if not one_hot:
        return np.column_stack([first, second]).astype(float)
    columns = np.zeros((len(first), 2 * n_items))
    rows = np.arange(len(first))
    columns[rows, first] = columns[rows, n_items + second] = 1.0
    return columns


def check_probabilities(probabilities: ArrayLike, n_rows: int, n_columns: int, name: str) -> FloatArray:
    """Check the probabilities that a learner predicted, and return them as an array, (r, C), whose rows sum to one."""
    what, axes = f"the prediction of learner {name}", "probabilities (rows, categories)"
    table = real_array(probabilities, what, axes, NuisanceError)
    require_shape(table, (n_rows, n_columns), what, axes)
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
                f"learner {name} predicted {finding} in {int(is_wrong.sum())} of {n_rows} rows, first {row}; give "
                f"probabilities that sum to one"
            )
    return table / total[:, None]


def _fit_classifier(
    model: Any, rows: TrainingRows, n_categories: int, rng: np.random.Generator, name: str
) -> Predictor:
    """Fit a classifier in place, on repeated rows if it takes no weights, and return a predictor of all categories."""
    # Every ``random_state`` that is None becomes a drawn seed, so that numpy's global generator is never used.
    if hasattr(model, "get_params") and hasattr(model, "set_params"):
        parameters = model.get_params(deep=True)
        unset = sorted(k for k, value in parameters.items() if k.split("__")[-1] == "random_state" and value is None)
        if unset:
            model.set_params(**{key: int(rng.integers(2**31 - 1)) for key in unset})
    # Some classifiers accept only labels that are numbered without gaps.
    present, code = np.unique(rows.label, return_inverse=True)
    features, label, weight = rows.features, code.reshape(-1), rows.weight
    with failing_as(NuisanceError, f"the training of learner {name}"):
        keyword = None if (weight == 1).all() else _weight_keyword(model)
        if keyword is not None:
            model.fit(features, label, **{keyword: weight})
        elif (weight == 1).all():
            model.fit(features, label)
        else:
            # Weights may be halves.
            for scale in (1, 2):
                repeats = np.rint(weight * scale)
                if (repeats > 0).all() and np.allclose(repeats, weight * scale, atol=1e-9):
                    break
            else:
                raise NuisanceError(f"learner {name} takes no sample_weight, but weights are fractions; use another")
            repeated = np.repeat(np.arange(len(weight)), repeats.astype(np.intp))
            model.fit(features[repeated], label[repeated])
    return partial(_predict_all_categories, model, present, n_categories, name)


def _predict_all_categories(
    model: Any, present: IntArray, n_categories: int, name: str, rows: FloatArray
) -> FloatArray:
    """Return probabilities of all categories, (r, C), from a classifier that was fitted to those that are present."""
    classes = np.asarray(getattr(model, "classes_", np.arange(len(present))), dtype=np.intp)
    table = np.zeros((len(rows), n_categories))
    table[:, present[classes]] = check_probabilities(model.predict_proba(rows), len(rows), len(classes), name)
    return table


def _weight_keyword(model: Any) -> str | None:
    """Return the keyword by which a model's ``fit`` takes weights, such as ``sample_weight``; None if it takes none."""
    if "sample_weight" in inspect.signature(model.fit).parameters:
        return "sample_weight"
    steps = _steps(model)
    if not steps:
        return None
    name, last_step = steps[-1]
    keyword = _weight_keyword(last_step)
    return f"{name}__{keyword}" if keyword else None


def _steps(model: object) -> list[tuple[str, Any]]:
    """Return the named steps of a pipeline; none for another model."""
    steps = getattr(model, "steps", None)
    return steps if isinstance(steps, list) else []


def _check_callable(learner: object, name: str) -> None:
    """Check that a learner that is not a classifier is a function of four arguments."""
    missing = [method for method in ("fit", "predict_proba") if not hasattr(learner, method)]
    if len(missing) == 1 or not callable(learner):
        raise OptionTypeError(
            f"learner is an object of type {name}, which has no {' and no '.join(missing)}; pass 'auto', 'lightgbm', a "
            f"classifier with probabilities such as LogisticRegression(), or a function {_SIGNATURE}"
        )
    try:
        signature = inspect.signature(learner)
        signature.bind(None, None, None, None)
    except ValueError:  # built in, without a signature
        return
    except TypeError:
        raise OptionTypeError(
            f"learner {name}{signature} cannot be called with four arguments; pass a function {_SIGNATURE}"
        ) from None


# Largest accepted error of the sum of a pair's probabilities, which should be one. Where display order does not matter,
# also the largest accepted difference between the probabilities of a pair and those of the other display order.
_TOLERANCE = 1e-6
# Number of contexts whose probabilities are checked at a time.
_CHECKED_CONTEXTS = 1024


def checked_mu(mu: object, data: PreferenceData) -> FloatArray:
    """Check out-of-fold probabilities of the user, (n, K, K, C), and return them with a zero diagonal."""
    axes = (
        f"probabilities (contexts in order of first appearance, models {data.items[0]!r} ... {data.items[-1]!r}, "
        f"models, categories {data.categories})"
    )
    table, n_items = real_array(mu, "learning=Learning(mu=...)", axes), data.n_items
    require_shape(table, (data.n_contexts, n_items, n_items, data.n_categories), "learning=Learning(mu=...)", axes)
    check_mu(table, data.items, data.context_ids, data.ordered)
    pairs = ~np.eye(n_items, dtype=bool)
    if table[:, ~pairs].any():
        table = np.where(pairs[:, :, None], table, 0.0)
    return table


def check_mu(mu: FloatArray, models: Sequence[str], contexts: Sequence[Hashable] | AnyArray, ordered: bool) -> None:
    """Raise unless probabilities, (n, K, K, C), lie between 0 and 1 and sum to one over the categories.

    Where display order does not matter, they have to be the same where j is shown first as where k is.
    """
    faults: dict[str, Callable[[FloatArray], BoolArray]] = {
        "is not a probability": lambda table: np.asarray(((table < 0) | (table > 1) | np.isnan(table)).any(axis=-1)),
        "does not sum to one over the categories": lambda table: (
            ~(np.abs(table @ np.ones(table.shape[3]) - 1) <= _TOLERANCE)
        ),
    }
    if not ordered:
        faults["differs between the two display orders of a pair, which position_bias=False does not allow,"] = (
            lambda table: np.abs(table - in_other_order(table)).max(axis=-1) > _TOLERANCE
        )
    for finding, is_at_fault in faults.items():
        starts = range(0, len(mu), _CHECKED_CONTEXTS)
        parts = [is_at_fault(np.asarray(mu[start : start + _CHECKED_CONTEXTS], dtype=float)) for start in starts]
        is_wrong = np.concatenate(parts) & ~np.eye(mu.shape[1], dtype=bool)
        if is_wrong.any():
            i, j, k = (int(place[0]) for place in np.nonzero(is_wrong))
            raise NuisanceError(
                f"mu {finding} in {int(is_wrong.sum())} places, first in context {contexts[i]!r} for {models[j]!r} "
                f"before {models[k]!r}: {mu[i, j, k].tolist()}; correct these probabilities"
            )
