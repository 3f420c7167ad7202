"""LightGBM's names of parameters: those that a user may set, and those that cannot be set, with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...exceptions import OptionError, nearest

# For each parameter, all names that LightGBM accepts for it ("Parameters" in its documentation). LightGBM's own table
# in Python is private; a test compares the two. The parameters that can be set say how trees are grown, how features
# are binned, what is drawn at random, and how the computation is organised:
SETTABLE: Mapping[str, tuple[str, ...]] = {
    "num_iterations": (
        "num_iterations",
        "max_iter",
        "n_estimators",
        "n_iter",
        "nrounds",
        "num_boost_round",
        "num_iteration",
        "num_round",
        "num_rounds",
        "num_tree",
        "num_trees",
    ),
    "learning_rate": ("learning_rate", "eta", "shrinkage_rate"),
    "num_leaves": ("num_leaves", "max_leaf", "max_leaf_nodes", "max_leaves", "num_leaf"),
    "max_depth": ("max_depth",),
    "min_data_in_leaf": ("min_data_in_leaf", "min_child_samples", "min_data", "min_data_per_leaf", "min_samples_leaf"),
    "min_sum_hessian_in_leaf": (
        "min_sum_hessian_in_leaf",
        "min_child_weight",
        "min_hessian",
        "min_sum_hessian",
        "min_sum_hessian_per_leaf",
    ),
    "min_gain_to_split": ("min_gain_to_split", "min_split_gain"),
    "lambda_l1": ("lambda_l1", "l1_regularization", "reg_alpha"),
    "lambda_l2": ("lambda_l2", "l2_regularization", "lambda", "reg_lambda"),
    "max_delta_step": ("max_delta_step", "max_leaf_output", "max_tree_output"),
    "path_smooth": ("path_smooth",),
    "extra_trees": ("extra_trees", "extra_tree"),
    "extra_seed": ("extra_seed",),
    "feature_fraction": ("feature_fraction", "colsample_bytree", "sub_feature"),
    "feature_fraction_bynode": ("feature_fraction_bynode", "colsample_bynode", "sub_feature_bynode"),
    "feature_fraction_seed": ("feature_fraction_seed",),
    "bagging_fraction": ("bagging_fraction", "bagging", "sub_row", "subsample"),
    "bagging_freq": ("bagging_freq", "subsample_freq"),
    "bagging_seed": ("bagging_seed", "bagging_fraction_seed"),
    "boosting": ("boosting", "boost", "boosting_type"),
    "data_sample_strategy": ("data_sample_strategy",),
    "top_rate": ("top_rate",),
    "other_rate": ("other_rate",),
    "drop_rate": ("drop_rate", "rate_drop"),
    "max_drop": ("max_drop",),
    "skip_drop": ("skip_drop",),
    "xgboost_dart_mode": ("xgboost_dart_mode",),
    "uniform_drop": ("uniform_drop",),
    "drop_seed": ("drop_seed",),
    "cat_l2": ("cat_l2",),
    "cat_smooth": ("cat_smooth",),
    "max_cat_to_onehot": ("max_cat_to_onehot",),
    "max_cat_threshold": ("max_cat_threshold",),
    "min_data_per_group": ("min_data_per_group",),
    "cegb_tradeoff": ("cegb_tradeoff",),
    "cegb_penalty_split": ("cegb_penalty_split",),
    "boost_from_average": ("boost_from_average",),
    "use_quantized_grad": ("use_quantized_grad",),
    "num_grad_quant_bins": ("num_grad_quant_bins",),
    "quant_train_renew_leaf": ("quant_train_renew_leaf",),
    "stochastic_rounding": ("stochastic_rounding",),
    "max_bin": ("max_bin", "max_bins"),
    "min_data_in_bin": ("min_data_in_bin",),
    "bin_construct_sample_cnt": ("bin_construct_sample_cnt", "subsample_for_bin"),
    "data_random_seed": ("data_random_seed", "data_seed"),
    "enable_bundle": ("enable_bundle", "bundle", "is_enable_bundle"),
    "is_enable_sparse": ("is_enable_sparse", "enable_sparse", "is_sparse", "sparse"),
    "use_missing": ("use_missing",),
    "zero_as_missing": ("zero_as_missing",),
    "feature_pre_filter": ("feature_pre_filter",),
    "seed": ("seed", "random_seed", "random_state"),
    "deterministic": ("deterministic",),
    "force_row_wise": ("force_row_wise",),
    "histogram_pool_size": ("histogram_pool_size", "hist_pool_size"),
    "verbosity": ("verbosity", "verbose"),
}
# Parameters that refer to columns of the data: by a vector with an entry for each column, by the number of a column, or
# by a file. A vector of the wrong length would make LightGBM end the process.
_ABOUT_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "monotone_constraints": ("monotone_constraints", "mc", "monotone_constraint", "monotonic_cst"),
    "monotone_constraints_method": ("monotone_constraints_method", "mc_method", "monotone_constraining_method"),
    "monotone_penalty": ("monotone_penalty", "mc_penalty", "monotone_splits_penalty", "ms_penalty"),
    "interaction_constraints": ("interaction_constraints",),
    "feature_contri": ("feature_contri", "fc", "feature_contrib", "feature_penalty", "fp"),
    "forcedsplits_filename": (
        "forcedsplits_filename",
        "forced_splits",
        "forced_splits_file",
        "forced_splits_filename",
        "fs",
    ),
    "forcedbins_filename": ("forcedbins_filename",),
    "max_bin_by_feature": ("max_bin_by_feature",),
    "cegb_penalty_feature_lazy": ("cegb_penalty_feature_lazy",),
    "cegb_penalty_feature_coupled": ("cegb_penalty_feature_coupled",),
    "ignore_column": ("ignore_column", "blacklist", "ignore_feature"),
    "label_column": ("label_column", "label"),
    "weight_column": ("weight_column", "weight"),
    "group_column": ("group_column", "group", "group_id", "query", "query_column", "query_id"),
}
_DETERMINED_BY_DATA: Mapping[str, tuple[str, ...]] = {
    "objective": ("objective", "app", "application", "loss", "objective_type"),
    "num_class": ("num_class", "num_classes"),
    "linear_tree": ("linear_tree", "linear_trees"),
    "categorical_feature": (
        "categorical_feature",
        "cat_column",
        "cat_feature",
        "categorical_column",
        "categorical_features",
    ),
}
_STOPPING: Mapping[str, tuple[str, ...]] = {
    "early_stopping_round": ("early_stopping_round", "early_stopping", "early_stopping_rounds", "n_iter_no_change"),
}
_THREADS: Mapping[str, tuple[str, ...]] = {
    "num_threads": ("num_threads", "n_jobs", "nthread", "nthreads", "num_thread"),
}
ALIASES: Mapping[str, tuple[str, ...]] = {**SETTABLE, **_ABOUT_COLUMNS, **_DETERMINED_BY_DATA, **_STOPPING, **_THREADS}
_REASONS: Mapping[str, str] = {
    **{
        name: "refers to the columns of LightGBM's data, which the fit arranges by itself (features, then codes of the "
        "two models), and cannot be set; leave the parameter out"
        for names in _ABOUT_COLUMNS.values()
        for name in names
    },
    **{
        name: "is determined by the data and cannot be set; leave the parameter out"
        for names in _DETERMINED_BY_DATA.values()
        for name in names
    },
    **{
        name: "cannot be set, because n_jobs= of the fit determines it; pass n_jobs= instead"
        for names in _THREADS.values()
        for name in names
    },
    **{
        name: "cannot be set, because early stopping needs held-out rows, which only tune='cv' has; pass tune='cv', or "
        "leave the parameter out"
        for names in _STOPPING.values()
        for name in names
    },
}


def names_of(*parameters: str) -> tuple[str, ...]:
    """Return all names of some parameters."""
    return tuple(name for parameter in parameters for name in ALIASES[parameter])


ROUND_NAMES = names_of("num_iterations")
BAGGING_NAMES = names_of("bagging_fraction")
BAGGING_FREQUENCY_NAMES = names_of("bagging_freq")
# Parameters of the bins. A random search bins the data once, so that these parameters cannot be searched.
BIN_NAMES = names_of(
    "max_bin",
    "min_data_in_bin",
    "bin_construct_sample_cnt",
    "data_random_seed",
    "enable_bundle",
    "is_enable_sparse",
    "use_missing",
    "zero_as_missing",
    "feature_pre_filter",
)
_SETTABLE_NAMES = frozenset(names_of(*SETTABLE))
_PARAMETER_BY_NAME = {name: parameter for parameter, names in ALIASES.items() for name in names}


def parameter_of(name: str) -> str:
    """Return the parameter that one of its names stands for."""
    return _PARAMETER_BY_NAME[name]


def check_names(names: Iterable[object], option: str, lightgbm_names: Iterable[str] = ()) -> None:
    """Check that all parameters can be set by a user.

    A parameter that cannot be set would be ignored by LightGBM without a warning, or would make it end the process.
    """
    accepted = set(lightgbm_names)
    for name in names:
        if name in _SETTABLE_NAMES:
            continue
        if name in _REASONS:
            raise OptionError(f"{option}: {name!r} {_REASONS[str(name)]}")
        if name in accepted:
            raise OptionError(
                f"{option}: {name!r} does not control how trees are grown, but files, devices, metrics or other "
                f"objectives of LightGBM, and cannot be set; leave the parameter out"
            )
        raise OptionError(f"{option}: LightGBM has no parameter {name!r}{nearest(name, _SETTABLE_NAMES)}")
