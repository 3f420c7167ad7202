"""Boosters of LightGBM: hyperparameters that a user may set or a search tries, bins that all folds share, training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import prod
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._utils.argument_checks import check_type, check_whole
from .._utils.tasks_and_threads import current, lightgbm_threads, report
from ..data.preferences import BoolArray, FloatArray, IntArray
from ..exceptions import OptionError, check_choice, failing_as, listed, nearest, shown
from .training_rows import PairRows, TrainingRows, stack_rows

if TYPE_CHECKING:
    import lightgbm as lgb
    from lightgbm.callback import CallbackEnv


Parameter: TypeAlias = float | int | str | bool

# The parameters that a user may set: they say how trees are grown, what is drawn at random, how the computation is
# organised, and how features are binned. The others follow from the data (a vector for other columns would end the
# process), need held-out rows, or are about files and devices.
_OF_TREES = """
    num_iterations learning_rate num_leaves max_depth min_data_in_leaf min_sum_hessian_in_leaf min_gain_to_split
    lambda_l1 lambda_l2 max_delta_step path_smooth extra_trees extra_seed feature_fraction feature_fraction_bynode
    feature_fraction_seed bagging_fraction bagging_freq bagging_seed boosting data_sample_strategy top_rate other_rate
    drop_rate max_drop skip_drop xgboost_dart_mode uniform_drop drop_seed cat_l2 cat_smooth max_cat_to_onehot
    max_cat_threshold min_data_per_group cegb_tradeoff cegb_penalty_split boost_from_average use_quantized_grad
    num_grad_quant_bins quant_train_renew_leaf stochastic_rounding seed deterministic force_row_wise
    histogram_pool_size verbosity
"""
# A random search bins the data once, so that these parameters cannot be searched.
_OF_BINS = """
    max_bin min_data_in_bin bin_construct_sample_cnt data_random_seed enable_bundle is_enable_sparse use_missing
    zero_as_missing feature_pre_filter
"""
SETTABLE = (*_OF_TREES.split(), *_OF_BINS.split())
_MOST_ROUNDS = 100_000

MAX_ROUNDS = 500
# Boosting ends after this number of rounds without a new smallest loss.
PATIENCE = 10
# Boosting ends after this number of rounds if none of them has lowered the loss. After this number of rounds or more,
# it also ends if the loss is larger than the best configuration's loss after the same number of rounds.
WARM_UP = 5
# Each split uses one random threshold per feature (Geurts, Ernst and Wehenkel 2006). Sums of such trees are nearly
# smooth functions. On data from the package's simulator with ties, the squared error of mu is half as large as with
# exhaustive thresholds.
RANDOM_THRESHOLDS: Mapping[str, Parameter] = {
    "extra_trees": True,
    "num_leaves": 15,
    "min_data_in_leaf": 10,
    "lambda_l2": 10.0,
}
# Each split uses the best of all thresholds, which suits functions that jump.
EXHAUSTIVE_THRESHOLDS: Mapping[str, Parameter] = {
    "extra_trees": False,
    "num_leaves": 15,
    "min_data_in_leaf": 20,
    "lambda_l2": 5.0,
}


class Settings(NamedTuple):
    """Hyperparameters of a booster: LightGBM's parameters, and the number of rounds, which is not among these."""

    parameters: Mapping[str, Parameter]
    rounds: int = 100


def fixed_parameters(n_classes: int | None, seed: int, n_threads: int) -> dict[str, Parameter]:
    """Return the parameters that are the same for all configurations."""
    objective: dict[str, Parameter] = {"objective": "binary"}
    if n_classes is not None:
        objective = {"objective": "multiclass", "num_class": n_classes}
    return {
        **objective,
        "seed": seed,
        "num_threads": n_threads,
        "verbosity": -1,
        # These two make the trees independent of the number of threads.
        "deterministic": True,
        "force_row_wise": True,
        "feature_pre_filter": False,
        # LightGBM's default of 100 rows per group of categories would merge all but the most frequent models.
        "min_data_per_group": 10,
    }


# --- what a user may set ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _parameters_by_name() -> Mapping[str, str]:
    """Return the parameter that each name stands for, by LightGBM's own table of names."""
    import lightgbm as lgb

    table: dict[str, list[str]] = getattr(getattr(lgb.basic, "_ConfigAliases", None), "_get_all_param_aliases", dict)()
    return {name: name for name in SETTABLE} | {
        name: parameter for parameter, names in table.items() for name in (parameter, *names)
    }


def _names_in(parameters: Mapping[str, object], parameter: str) -> list[str]:
    """Return the names of one of LightGBM's parameters that are among the names of some parameters."""
    return [name for name in parameters if _parameters_by_name().get(name) == parameter]


def as_settings(parameters: Mapping[str, Parameter]) -> Settings:
    """Return the parameters of a booster and its number of rounds, which is 100 where no parameter gives one."""
    rounds = _names_in(parameters, "num_iterations")
    others = {name: value for name, value in parameters.items() if name not in rounds}
    return Settings(others, int(parameters[rounds[0]])) if rounds else Settings(others)


def check_parameters(parameters: Mapping[str, Parameter], option: str) -> None:
    """Check that a user may set the parameters, and that LightGBM accepts their values.

    LightGBM would ignore a misspelt parameter, and would refuse a value only when it trains, after all other steps.
    """
    for name, value in parameters.items():
        parameter = _parameters_by_name().get(name) if isinstance(name, str) else None
        if parameter is None:
            names = [name for name, parameter in _parameters_by_name().items() if parameter in SETTABLE]
            raise OptionError(f"{option}: LightGBM has no parameter {name!r}{nearest(name, names)}")
        if parameter not in SETTABLE:
            raise OptionError(
                f"{option}: {name!r} cannot be set, because it follows from the data, from other options of the fit "
                f"(n_jobs=, tune='cv' for early stopping), or does not control how trees are grown; leave it out"
            )
        # A text with a space could set further parameters; LightGBM ignores None, and reads too large numbers wrongly.
        if isinstance(value, str):
            allowed = value.replace(".", "").replace("_", "").lstrip("+-").isalnum()
        elif isinstance(value, float | np.floating):
            allowed = math.isfinite(value)
        else:
            allowed = isinstance(value, bool | np.bool_) or (isinstance(value, Integral) and abs(int(value)) < 2**31)
        if not allowed:
            raise OptionError(f"{option}: {name}={shown(value)} is not allowed; pass a number, a word, True or False")
        # LightGBM does not see the number of rounds before a fit trains so many.
        is_whole = isinstance(value, Integral) and not isinstance(value, bool)
        if parameter == "num_iterations" and not (is_whole and 1 <= int(value) <= _MOST_ROUNDS):
            raise OptionError(f"{option}: {name}={shown(value)}; pass a whole number of rounds, 1 to {_MOST_ROUNDS:,}")
    rounds = _names_in(parameters, "num_iterations")
    if len(rounds) > 1:
        raise OptionError(f"{option} has the number of rounds {len(rounds)} times, as {listed(rounds)}; keep one")
    # The types are a part of what is remembered: 1 and True are equal, and LightGBM tells them from each other.
    _grow_two_trees(tuple((name, type(value), value) for name, value in sorted(parameters.items())), option)


# The parameters are checked again whenever a fit is updated. The cache avoids growing the same trees again.
@lru_cache(maxsize=1000)
def _grow_two_trees(items: tuple[tuple[str, type, Parameter], ...], option: str) -> None:
    """Check that LightGBM grows two trees with these parameters on a few rows, of two categories and of three."""
    import lightgbm as lgb

    parameters = {name: value for name, _, value in items}
    for n_classes in (None, 3):
        settings = {**fixed_parameters(n_classes, 0, 1), **as_settings(parameters).parameters}
        refusals = lgb.basic.LightGBMError, TypeError, ValueError, OverflowError
        with failing_as(OptionError, f"{option}: LightGBM with {parameters}", refusals, "; change these parameters"):
            rows = np.arange(120.0).reshape(60, 2)
            data = lgb.Dataset(rows, np.arange(60) % (n_classes or 2), params=settings).construct()
            booster = lgb.Booster(settings, data)
            for _ in range(2):
                booster.update()


# --- random search ----------------------------------------------------------------------------------------------------

# Training rows and held-out rows of each inner fold. Inner folds divide the training rows of one fold of the fit.
InnerFolds: TypeAlias = list[tuple[IntArray, IntArray]]
Grid: TypeAlias = Mapping[str, Sequence[Parameter]]

# The grids of Frauen et al. (arXiv 2601.21816, appendix "Hyperparameter tuning details"), in LightGBM's own names. The
# paper calls the parameters n_estimators, learning_rate, num_leaves, min_child_samples, subsample, colsample_bytree,
# reg_alpha, reg_lambda and max_depth.
_WIDE: Grid = {
    "num_iterations": (50, 100, 300, 600),
    "learning_rate": (0.03, 0.07, 0.1),
    "num_leaves": (15, 31, 63),
    "min_data_in_leaf": (10, 30, 60, 80),
    "bagging_fraction": (0.7, 0.9, 1.0),
    "feature_fraction": (0.7, 0.9, 1.0),
    "lambda_l1": (0.0, 0.1, 1.0),
    "lambda_l2": (0.0, 0.1, 0.5, 1.0),
    "max_depth": (-1, 6, 10, 15),
}
_NARROW: Grid = {
    **_WIDE,
    "num_iterations": (100, 300, 600),
    "min_data_in_leaf": (10, 30, 60),
    "lambda_l2": (0.0, 0.1, 1.0),
    "max_depth": (-1, 6, 10),
}
# The grid of the real data and the grid of the debiasing experiments are the same.
GRIDS: Mapping[str, Grid] = {"real": _WIDE, "debiasing": _WIDE, "collection": _NARROW}


@dataclass(frozen=True, slots=True)
class RandomSearch:
    """A random search for the hyperparameters of LightGBM, for ``tune=``.

    The search draws distinct configurations from a grid and selects the one with the smallest log-loss in a
    cross-validation. This cross-validation divides the training votes of each fold of the fit into inner folds, which
    never split a prompt (or a cluster of prompts). The seed of the fit determines the draws, which differ between the
    folds of the fit.

    Parameters
    ----------
    n_draws : int
        Number of configurations that are tried. A grid with no more configurations than this is tried as a whole.
    n_folds : int
        Number of inner folds.
    grid : {"real", "debiasing", "collection"} or mapping
        One of the paper's grids: for real data (62,208 configurations), for its debiasing and misspecification
        experiments (the same grid), or for its judge and data collection experiments (19,683 configurations). Or
        ``{parameter: values}`` with LightGBM's parameters. A fraction of the rows (``bagging_fraction``) is drawn for
        every tree unless ``bagging_freq`` is given: LightGBM by itself would ignore the fraction.

    Raises
    ------
    OptionError, OptionTypeError
        If a number is too small, or if the grid is empty, not known, or has a parameter that cannot be searched.

    References
    ----------
    Frauen et al., arXiv 2601.21816, appendix "Hyperparameter tuning details".

    Examples
    --------
    >>> search = RandomSearch(n_draws=10, grid={"num_leaves": [4, 8], "n_estimators": [50, 100, 200]})
    >>> search.n_configurations
    6
    """

    n_draws: int = 30
    n_folds: int = 3
    grid: str | Grid = "real"

    def __post_init__(self) -> None:
        for name, least in (("n_draws", 1), ("n_folds", 2)):
            check_whole(f"RandomSearch: {name}", getattr(self, name), least)
        if isinstance(self.grid, str):
            check_choice(self.grid, GRIDS, "RandomSearch: grid")
        else:
            object.__setattr__(self, "grid", _check_grid(self.grid))

    @property
    def values(self) -> Grid:
        """The values of each parameter, also where ``grid`` is the name of a grid."""
        return GRIDS[self.grid] if isinstance(self.grid, str) else self.grid

    @property
    def n_configurations(self) -> int:
        """Number of configurations in the grid."""
        return prod(len(values) for values in self.values.values())

    def draws(self, rng: np.random.Generator) -> list[dict[str, Parameter]]:
        """Draw distinct configurations, each with one value of every parameter of the grid.

        Parameters
        ----------
        rng : Generator
            Source of the draws.

        Returns
        -------
        list of dict
            ``n_draws`` configurations, or all of a smaller grid.

        Examples
        --------
        >>> search = RandomSearch(n_draws=2, grid={"num_leaves": [4, 8], "max_depth": [3, -1]})
        >>> search.draws(np.random.default_rng(0))
        [{'num_leaves': 8, 'max_depth': 3}, {'num_leaves': 8, 'max_depth': -1}]
        """
        size = self.n_configurations
        codes = rng.choice(size, size=min(self.n_draws, size), replace=False)
        places = np.unravel_index(codes, [len(values) for values in self.values.values()])
        columns = [[values[at] for at in place] for values, place in zip(self.values.values(), places, strict=True)]
        return [dict(zip(self.values, row, strict=True)) for row in zip(*columns, strict=True)]


def _check_grid(grid: Any) -> dict[str, tuple[Parameter, ...]]:
    """Check a user's grid, and return a copy of it in which each value of a parameter stands once."""
    option = "RandomSearch: grid"
    check_type(option, grid, Mapping, f"{listed(GRIDS)}, or a mapping such as {{'num_leaves': [4, 8, 16]}}")
    if not grid:
        raise OptionError(f"{option} is empty; add a parameter, such as {{'num_leaves': [4, 8, 16]}}")
    for name, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or not len(values):
            raise OptionError(f"{option} has {name!r}: {values!r}; pass a list with at least one value")
        if isinstance(name, str) and _parameters_by_name().get(name) in _OF_BINS.split():
            raise OptionError(f"{option} has {name!r}; all draws share their bins, so leave the parameter out")
    copied = {
        name: tuple(value.item() if isinstance(value, np.generic) else value for value in values)
        for name, values in grid.items()
    }
    # Each value is checked together with the first values of the other parameters.
    first_values = {name: values[0] for name, values in copied.items()}
    for name, values in copied.items():
        for value in values:
            check_parameters(_with_bagging({**first_values, name: value}), option)
    return {name: tuple(dict.fromkeys(values)) for name, values in copied.items()}


def _with_bagging(draw: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Return a configuration in which a fraction of the rows, if there is one, is drawn for every tree."""
    needs_frequency = _names_in(draw, "bagging_fraction") and not _names_in(draw, "bagging_freq")
    return {**draw, "bagging_freq": 1} if needs_frequency else dict(draw)


def loss_after_last_round(
    parameters: Mapping[str, Parameter], n_rounds: int, train: lgb.Dataset, folds: InnerFolds
) -> float:
    """Return the mean held-out log-loss of a configuration after its last round.

    The boosters and the loss are those of ``lightgbm.cv``, which computes the loss after every round. A random search
    needs the last one only, as the number of rounds is a part of the configuration. The losses of all other rounds took
    a sixth of its time.
    """
    import lightgbm as lgb

    losses = []
    for fold in folds:
        training, held_out = (train.subset(np.sort(rows).tolist(), {**train.params, **parameters}) for rows in fold)
        booster = lgb.Booster(dict(parameters), training)
        booster.add_valid(held_out, "valid")
        for _ in range(n_rounds):
            booster.update()
        losses.append(booster.eval_valid()[0][2])
    return float(np.mean(losses))


# --- the option tune= -------------------------------------------------------------------------------------------------

Tune: TypeAlias = str | Mapping[str, Parameter] | RandomSearch | None

INNER_FOLDS = 3
# With at least this number of rows, one inner fold is enough to compare configurations.
_SINGLE_FOLD_ROWS = 10_000

CONFIGURATIONS: tuple[Mapping[str, Parameter], ...] = (
    {"extra_trees": True, "num_leaves": 6, "min_data_in_leaf": 10, "lambda_l2": 1.0},
    RANDOM_THRESHOLDS,
    {"extra_trees": True, "num_leaves": 31, "min_data_in_leaf": 20, "lambda_l2": 10.0},
    EXHAUSTIVE_THRESHOLDS,
)


def check_tune(tune: Tune) -> None:
    """Check that ``tune`` is ``"cv"``, ``"random"``, a search, None or a mapping of LightGBM's parameters."""
    if isinstance(tune, Mapping):
        check_parameters(tune, "tune")
    elif isinstance(tune, str):
        check_choice(tune, ["cv", "random"], "tune")
    else:
        allowed = "'cv', 'random', RandomSearch(), a dict of LightGBM's parameters, or None"
        check_type("tune", tune, RandomSearch | None, allowed)


def tuned_settings(
    tune: Tune, train: lgb.Dataset, unit: IntArray, fixed: Mapping[str, Parameter], rng: np.random.Generator
) -> Settings:
    """Return the hyperparameters that are selected for one training set."""
    import lightgbm as lgb

    if isinstance(tune, Mapping):
        return as_settings(tune)
    search = RandomSearch() if tune == "random" else tune
    n_folds = search.n_folds if isinstance(search, RandomSearch) else INNER_FOLDS
    if tune is None or len(np.unique(unit)) < 2 * n_folds:
        return Settings({})
    folds = draw_inner_folds(unit, rng, n_folds)
    if isinstance(search, RandomSearch):
        trials, means = [as_settings(_with_bagging(draw)) for draw in search.draws(rng)], []
        for trial in trials:
            means.append(loss_after_last_round({**fixed, **trial.parameters}, trial.rounds, train, folds))
            report(len(means), len(trials), "tuning, draws", minor=True)
        return trials[int(np.argmin(means))]
    trial_folds = folds if len(unit) < _SINGLE_FOLD_ROWS else folds[:1]
    best, selected = list[float](), Settings({})
    for n_tried, configuration in enumerate(CONFIGURATIONS, start=1):
        losses: list[float] = []
        stopping = [partial(_record_or_stop, losses, best)]
        lgb.cv({**fixed, **configuration}, train, num_boost_round=MAX_ROUNDS, folds=trial_folds, callbacks=stopping)
        if not best or min(losses) < min(best):
            best, selected = losses, Settings(configuration, int(np.argmin(losses)) + 1)
        report(n_tried, len(CONFIGURATIONS), "tuning, configurations", minor=True)
    return selected


def _record_or_stop(losses: list[float], best: Sequence[float], env: CallbackEnv) -> None:
    """Record the held-out log-loss of a round in ``losses``, and stop LightGBM's cross-validation.

    It stops where the loss no longer falls, or is larger than the best configuration's at the same round.
    """
    from lightgbm.callback import EarlyStopException

    losses.append(float(env.evaluation_result_list[0][2]))
    n_rounds = len(losses)
    stale = n_rounds - 1 - int(np.argmin(losses)) >= PATIENCE
    behind = WARM_UP <= n_rounds <= len(best) and losses[-1] > best[n_rounds - 1]
    if stale or behind:
        raise EarlyStopException(env.iteration, env.evaluation_result_list)


def draw_inner_folds(unit: IntArray, rng: np.random.Generator, n_folds: int = INNER_FOLDS) -> InnerFolds:
    """Return training rows and held-out rows of random folds that never split a unit, (r,)."""
    units, place = np.unique(unit, return_inverse=True)
    fold = rng.permutation(np.arange(len(units)) % n_folds)[place]
    return [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(n_folds)]


# Bins of a feature. More bins did not lower the held-out log-loss, and finding splits among them took up to half of the
# training time.
BINS = 63
# Codes of contexts and items, of any integer type.
_Codes: TypeAlias = NDArray[np.integer[Any]]
# Items are categorical values; LightGBM would merge all items beyond the number of bins.
_ITEM_BINS = 255


def bin_parameters(n_features: int, n_item_columns: int) -> dict[str, Parameter]:
    """Return LightGBM's parameters for the bins of features and of the columns with item codes, which come last."""
    widths = [BINS] * n_features + [_ITEM_BINS] * n_item_columns
    return {"max_bin_by_feature": ",".join(map(str, widths))}


@dataclass(frozen=True, slots=True, eq=False)
class BinnedPairs:
    """Rows [x, first, second] in bins, sorted by context; the bins of a context are kept once for all of its rows.

    place (r,): Row of ``features``, with the features of the contexts, for each row of ``items``; ascending.
    """

    features: lgb.Dataset
    items: lgb.Dataset
    place: NDArray[np.int32]

    @classmethod
    def of(cls, x: FloatArray, context: _Codes, first: _Codes, second: _Codes) -> tuple[BinnedPairs, IntArray]:
        """Bin rows, and return the place of each binned row among the arguments, (r,).

        The bins of features are those of the contexts, each counted once. Each thread bins one feature at a time.

        Shapes: x (n, p), context, first, second (r,).
        """
        import lightgbm as lgb

        # Contexts are numbered in the order of their first appearance, and the rows are sorted by this number.
        first_row = np.full(len(x), len(context))
        first_row[context[::-1]] = np.arange(len(context))[::-1]
        contexts = np.argsort(first_row, kind="stable")[: int((first_row < len(context)).sum())]
        number = np.empty(len(x), dtype=np.int32)
        number[contexts] = np.arange(len(contexts), dtype=np.int32)
        place = number[context]
        order = np.argsort(place, kind="stable")
        threads = lightgbm_threads(thread_count(len(context) * (x.shape[1] + 2), current().n_jobs))
        shared: dict[str, Parameter] = {"verbosity": -1, **threads, "feature_pre_filter": False}
        features = lgb.Dataset(
            x[contexts],
            np.zeros(len(contexts)),
            params={**shared, **bin_parameters(x.shape[1], 0)},
            feature_name=[f"x{f}" for f in range(x.shape[1])],
        )
        items = lgb.Dataset(
            np.column_stack([first[order], second[order]]).astype(np.float32),
            np.zeros(len(order)),
            categorical_feature=[0, 1],
            params={**shared, **bin_parameters(0, 2)},
            feature_name=["first", "second"],
        )
        return cls(features.construct(), items.construct(), place[order]), order

    def rows(self, rows: IntArray | None, n_threads: int) -> lgb.Dataset:
        """Return a data set of some rows, or of all rows.

        It asks for as many threads as its booster: :func:`dmlrank._utils.tasks_and_threads.lightgbm_threads`.
        """
        import lightgbm as lgb

        place = self.place if rows is None else self.place[rows]
        gathered = gather_rows(self.features, place, n_threads)
        other = self.items if rows is None else gather_rows(self.items, rows, n_threads)
        library, check = getattr(lgb.basic, "_LIB", None), getattr(lgb.basic, "_safe_call", None)
        handles = [getattr(dataset, "_handle", None) for dataset in (gathered, other)]
        if library is None or check is None or None in handles:
            gathered.add_features_from(other)
            return gathered
        # What ``add_features_from`` does.
        check(library.LGBM_DatasetAddFeaturesFrom(*handles))
        gathered.data = gathered.pandas_categorical = None
        # None before the bins are constructed, "auto" afterwards: the bins know which features are categorical.
        gathered.feature_name, gathered.categorical_feature = gathered.get_feature_name(), "auto"
        return gathered


def gather_rows(dataset: lgb.Dataset, rows: NDArray[np.integer[Any]], n_threads: int) -> lgb.Dataset:
    """Return rows of a data set, some of them several times."""
    gathered = dataset.subset([], params={**dataset.params, **lightgbm_threads(n_threads)})
    # As an array; a list of whole numbers would take nine times the memory.
    gathered.used_indices = rows.astype(np.int32)
    return gathered.construct()


# With more rows than this number, hyperparameters are selected on a sample of about this size.
SELECTION_ROWS = 40_000


# Sizes of a training matrix, in entries. LightGBM's threads wait for each other after every node. On a small matrix the
# waiting takes as much time as the threads save. On a busy machine it takes up to a hundred times as much. Boosters of
# several folds that are trained at the same time, each in one thread, do not wait for each other. On a tiny matrix,
# handing a booster to a thread takes as long as training it. On a large matrix LightGBM's own threads are as fast, and
# only one training needs memory at a time.
OWN_THREADS_FROM = 2_000_000
SEVERAL_BOOSTERS_FROM, SEVERAL_BOOSTERS_BELOW = 200_000, 50_000_000


@dataclass(frozen=True, slots=True, eq=False)
class BinnedRows:
    """Training rows in LightGBM's bins, which all subsets of the rows share, with their labels and weights.

    unit (r,): Unit of each row. Cross-validation within the rows keeps the rows of a unit in one fold.
    n_features: Number of columns, codes of items included.
    tune: How the hyperparameters of a booster of these rows are selected.
    n_classes: Number of categories for the multiclass objective; None for the binary objective.
    """

    dataset: lgb.Dataset
    label: IntArray
    unit: IntArray
    n_features: int
    tune: Tune
    n_classes: int | None

    @classmethod
    def of(cls, rows: TrainingRows, tune: Tune, n_classes: int | None = None, *, has_items: bool = True) -> BinnedRows:
        """Bin rows; ``has_items`` says whether the last two features are codes of items."""
        import lightgbm as lgb

        p = rows.features.shape[1]
        items = [p - 2, p - 1] if has_items else "auto"
        bins: Mapping[str, Parameter] = as_settings(tune).parameters if isinstance(tune, Mapping) else {}
        if tune == "cv":
            bins = bin_parameters(p - 2, 2) if has_items else bin_parameters(p, 0)
        n_threads = thread_count(rows.features.size, current().n_jobs)
        # Once the bins are constructed, LightGBM no longer holds the rows, which it would copy for every inner fold.
        dataset = lgb.Dataset(
            rows.features,
            rows.label,
            weight=rows.weight,
            categorical_feature=items,
            params={"verbosity": -1, "feature_pre_filter": False, **lightgbm_threads(n_threads), **bins},
        )
        return cls(dataset.construct(), rows.label, rows.unit, p, tune, n_classes)

    @classmethod
    def of_pairs(cls, rows: PairRows, x: FloatArray, tune: Tune) -> BinnedRows:
        """Bin rows of pairs in contexts with features ``x``, (n, p); the contexts are the units."""
        p = x.shape[1] + 2
        if tune != "cv":
            # Bins with the user's parameters or with LightGBM's defaults are constructed from stacked rows.
            stacked = stack_rows(x, rows.context, rows.first, rows.second)
            return cls.of(TrainingRows(stacked, rows.label, rows.weight, rows.context), tune)
        binned, row_order = BinnedPairs.of(x, rows.context, rows.first, rows.second)
        dataset = binned.rows(None, thread_count(len(rows.label) * p, current().n_jobs))
        label = rows.label[row_order]
        dataset.set_label(label)
        dataset.set_weight(rows.weight[row_order])
        return cls(dataset, label, rows.context[row_order], p, tune, None)

    def only(self, selected: BoolArray) -> BinnedRows:
        """Return the rows that are selected by a mask, (r,)."""
        rows = np.flatnonzero(selected)
        subset = gather_rows(self.dataset, rows, thread_count(len(rows) * self.n_features, current().n_jobs))
        return replace(self, dataset=subset, label=self.label[selected], unit=self.unit[selected])

    @property
    def are_many(self) -> bool:
        """Whether the rows are so many that hyperparameters are selected on a sample of them."""
        return len(self.label) > SELECTION_ROWS and isinstance(self.tune, str)

    def fixed(self, seed: int) -> dict[str, Parameter]:
        """Return LightGBM's parameters that are not tuned."""
        n_threads = thread_count(len(self.label) * self.n_features, current().n_jobs)
        return fixed_parameters(self.n_classes, seed, n_threads)

    def select_settings(self, rng: np.random.Generator) -> Settings:
        """Select the hyperparameters of a booster.

        Where the rows are many, only the rows of randomly drawn units are used, about ``SELECTION_ROWS`` rows.
        """
        sample = self
        if self.are_many:
            units, place = np.unique(self.unit, return_inverse=True)
            sample = self.only(rng.permutation(len(units))[place] < len(units) * SELECTION_ROWS / len(self.label))
        fixed = sample.fixed(int(rng.integers(2**31 - 1)))
        return tuned_settings(self.tune, sample.dataset, sample.unit, fixed, rng)


def thread_count(size: int, n_jobs: int | None) -> int:
    """Return the number of threads of a booster whose training matrix has ``size`` entries; 0 means all cores."""
    return (n_jobs or 0) if size >= OWN_THREADS_FROM else 1


def split_jobs(size: int, n_boosters: int) -> tuple[int, int | None]:
    """Return how many of several boosters to train at the same time, and ``n_jobs`` of each of them."""
    cores = current().n_threads
    workers = min(n_boosters, cores)
    if workers < 2 or not SEVERAL_BOOSTERS_FROM <= size < SEVERAL_BOOSTERS_BELOW:
        return 1, current().n_jobs
    return workers, cores // workers


def predict_pairs(
    booster: lgb.Booster, x: FloatArray, first: IntArray, second: IntArray, *, raw_score: bool = False
) -> FloatArray:
    """Return what a booster over rows [x, first, second] predicts for one pair in each context, (r,) or (r, C)."""
    rows = stack_rows(x, np.arange(len(x)), first, second)
    return np.asarray(booster.predict(rows, raw_score=raw_score, num_threads=current().n_jobs or 0))


def train_booster(rows: BinnedRows, rng: np.random.Generator, settings: Settings | None = None) -> lgb.Booster:
    """Train a booster, and select its hyperparameters on the training rows alone."""
    import lightgbm as lgb

    fixed = rows.fixed(int(rng.integers(2**31 - 1)))
    if settings is None and rows.are_many:
        settings = rows.select_settings(rng)
    if settings is None:
        settings = tuned_settings(rows.tune, rows.dataset, rows.unit, fixed, rng)
    return lgb.train({**fixed, **settings.parameters}, rows.dataset, num_boost_round=settings.rounds)
