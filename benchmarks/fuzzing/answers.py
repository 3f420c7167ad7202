"""Checks of a result against formulas that use its estimates and its covariance alone."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
from scipy import stats

import dmlrank as dr

from .watch import Watch

# NaN as a cell of a table; the summary shows a dash and says why.
_NAN = re.compile(r"(?<![a-z])nan(?![a-z])")


def check_result(watch: Watch, results: Any) -> None:
    """Compare everything that a result says of its scores with formulas on scores and covariance."""
    e = results.estimates
    matrix, estimate = results.cov_params().to_numpy(), results.params.to_numpy()
    watch.require(bool(np.isfinite(estimate).all()), "params", f"{estimate}")
    watch.require(bool(np.isfinite(matrix).all()), "cov_params", f"{matrix}")
    watch.near("cov_params is symmetric", matrix, matrix.T, rtol=1e-9, atol=1e-12 * np.abs(matrix).max())
    slack = -1e-9 * np.abs(matrix).max() - 1e-28
    watch.require(bool(np.linalg.eigvalsh(matrix).min() >= slack), "cov_params", f"not positive semidefinite: {matrix}")
    check_gauge(watch, results)
    check_texts(watch, results)
    if not e.has_intervals:
        watch.require(bool(np.isnan(results.bse).all()), "bse without intervals", f"{results.bse}")
        watch.require(len(e.why_no_intervals) > 20, "why_no_intervals", f"{e.why_no_intervals!r}")
        return
    watch.near("bse", results.bse, np.sqrt(np.maximum(np.diag(matrix), 0)), rtol=1e-9, atol=1e-14)
    check_intervals(watch, results)
    if e.of_models:
        check_pairs(watch, results)
        check_ranks(watch, results)


def check_gauge(watch: Watch, results: Any) -> None:
    """Check the constraint that the functional fixes, and the range of the scores."""
    estimate, functional = results.params.to_numpy(), results.functional
    if functional == "bt":
        watch.near("bt scores sum to zero", estimate.sum(), 0.0, atol=1e-8 * (1 + np.abs(estimate).max()))
    if functional == "rank_centrality":
        watch.near("rank centrality sums to one", estimate.sum(), 1.0, atol=1e-8)
    if functional in ("bt", "rank_centrality"):
        matrix = results.cov_params().to_numpy()
        rows = matrix.sum(axis=1)
        watch.require(
            bool(np.abs(rows).max() <= 1e-6 * np.abs(matrix).max() + 1e-15), "covariance of the gauge", f"{rows}"
        )


def check_intervals(watch: Watch, results: Any) -> None:
    """Check intervals, z statistics and p-values of the scores."""
    estimate, e = results.params.to_numpy(), results.estimates
    errors, law, are_means = e.covariance.widened.std_errors, law_of(e.covariance), e.covariance.means is not None
    for alpha in (e.alpha, 0.2):
        lower, upper = results.conf_int(alpha, "none").to_numpy().T
        half = law.isf(alpha / 2) * errors
        low, high = _within(estimate - half, estimate + half, estimate, results)
        if are_means:
            # Their limits have a module and tests of their own; here they have to be those that tests decide by.
            low, high = results.t_test(np.eye(len(estimate))).conf_int(alpha).T
        elif e.covariance.shares is not None:
            # So have those of win shares.
            ends = np.array(
                [np.full(len(lower), e.limits[0]), lower, estimate, upper, np.full(len(lower), e.limits[1])]
            )
            watch.require(bool((np.diff(ends, axis=0) >= 0).all()), "conf_int none", f"{ends}")
            low, high = lower, upper
        watch.near("conf_int none", lower, low, rtol=1e-9, atol=1e-10)
        watch.near("conf_int none", upper, high, rtol=1e-9, atol=1e-10)
        wide = results.conf_int(alpha, "bonferroni")
        joint = results.conf_int(alpha, "max-t")
        watch.require(
            bool((joint["lower"] <= lower + 1e-9).all() and (joint["lower"] >= wide["lower"] - 1e-9).all()),
            "conf_int max-t", "not between 'none' and 'bonferroni'",
        )  # fmt: skip
    frame = results.tidy()
    watch.require(list(frame["term"]) == list(results.names), "tidy", f"{frame['term'].tolist()}")
    z = results.tvalues.to_numpy()
    if e.covariance.shares is None:
        watch.near("pvalues", results.pvalues, 2 * law.sf(np.abs(z)), rtol=1e-9, atol=1e-300)
    missing = np.isnan(z)
    watch.require(
        bool((~missing | (errors < 1e-6) | (results.estimates.fixed)).all()), "tvalues", f"NaN: {z}, {errors}"
    )


def law_of(covariance: Any) -> Any:
    """The law of t statistics of scores: Student's with few prompts or clusters, but for means of scores of prompts."""
    if not covariance.has_few_units:
        return stats.norm
    df = covariance.df if covariance.of_scores is None else covariance.of_scores
    df = df if covariance.shares is None else np.maximum(df, covariance.shares.df)
    of_prompts = np.sqrt((df + 1) / df)
    return stats.t(df, scale=covariance.scale if covariance.n_clusters else of_prompts)


def _within(low: np.ndarray, high: np.ndarray, estimate: np.ndarray, results: Any) -> tuple[np.ndarray, np.ndarray]:
    """Limits cut at the smallest and largest possible score, and never beyond the estimate."""
    least, largest = results.estimates.limits
    return np.maximum(low, np.minimum(least, estimate)), np.minimum(high, np.maximum(largest, estimate))


def check_pairs(watch: Watch, results: Any) -> None:
    """Check pairwise differences against the covariance."""
    place = {name: j for j, name in enumerate(results.models)}
    matrix, estimate = results.cov_params().to_numpy(), results.params.to_numpy()
    frame = results.t_test_pairwise().result_frame
    j, k = (frame[column].map(place).to_numpy(int) for column in ("first", "second"))
    watch.near("differences", frame["estimate"], estimate[j] - estimate[k], rtol=1e-12, atol=1e-14)
    variance = matrix[j, j] + matrix[k, k] - 2 * matrix[j, k]
    scale = np.abs(matrix).max()
    watch.near(
        "std_error of differences", frame["std_error"] ** 2, np.maximum(variance, 0), rtol=1e-6, atol=1e-9 * scale
    )
    for column in ("p_value", "p_adjusted"):
        values = frame[column].dropna()
        watch.require(bool(values.between(0, 1).all()), column, f"{values.tolist()}")
    usable = frame.dropna(subset=["p_value"])
    covariance = results.estimates.covariance
    if covariance.means is None and covariance.shares is None:
        z = usable["estimate"] / usable["std_error"]
        watch.near("statistic", usable["statistic"], z, rtol=1e-9)
    if covariance.of_scores is None:
        p = 2 * law_of(covariance).sf(np.abs(usable["statistic"]))
        watch.near("p_value of differences", usable["p_value"], p, rtol=1e-7, atol=1e-300)
    watch.require(bool((usable["p_adjusted"] >= usable["p_value"] - 1e-9).all()), "p_adjusted", "below p_value")
    excludes = (usable["conf_low"] > 0) | (usable["conf_high"] < 0)
    sure = (usable["p_adjusted"] - results.estimates.alpha).abs() > 1e-9
    watch.require(bool((excludes == (usable["p_adjusted"] < results.estimates.alpha))[sure].all()),
                  "p_adjusted and interval", f"{usable.to_dict('list')}")  # fmt: skip
    bonferroni = results.t_test_pairwise("bonferroni").result_frame.dropna(subset=["p_value"])
    expected = np.minimum(1, bonferroni["p_value"] * len(bonferroni))
    watch.near("bonferroni", bonferroni["p_adjusted"], expected, rtol=1e-9, atol=1e-300)


def check_ranks(watch: Watch, results: Any) -> None:
    """Check that ranks lie within their sets, and the sets agree with the differences that are separated."""
    sets = results.ranks().result_frame
    inside = (sets["lower"] <= sets["rank"]) & (sets["rank"] <= sets["upper"])
    watch.require(bool(inside.all()), "ranks", f"{sets.to_dict('list')}")
    order = results.params.to_numpy()[np.argsort(-results.params.to_numpy(), kind="stable")]
    watch.near("ranks are in the order of the scores", results.params[sets.index], order, atol=1e-15)
    best = results.best_set(1)
    watch.require(set(best) == set(sets.index[sets["lower"] == 1]), "best_set", f"{best}")
    watch.require(sets.index[0] in best, "best_set", "the first model is not in it")
    everybody = results.best_set(len(sets))
    watch.require(set(everybody) == set(results.models), "best_set of all", f"{everybody}")


def check_texts(watch: Watch, results: Any) -> None:
    """Check that summaries in every form can be made, and show no NaN."""
    summary = watch.ask("summary", results.summary)
    watch.require(summary is not None, "summary", "refused")
    assert summary is not None
    odd = any("nan" in str(name).lower() for name in results.names)
    for form in ("as_text", "as_html", "as_latex", "as_markdown", "as_csv"):
        text = watch.ask(form, getattr(summary, form))
        watch.require(isinstance(text, str) and (odd or _NAN.search(text) is None), form, f"NaN is shown: {text}")


def check_storage(watch: Watch, results: Any) -> None:
    """Check that a result is the same after it was stored as JSON and as a pickle."""
    text = watch.ask("to_json", results.to_json)
    again = watch.ask("read_json", dr.read_json, text)
    watch.require(again is not None, "read_json", "refuses what to_json wrote")
    loaded = watch.ask("pickle", lambda: pickle.loads(pickle.dumps(results)))
    for other in (again, loaded):
        same_result(watch, results, other)
    assert again is not None
    watch.require(again.to_json() == text, "to_json of read_json", "other text")


def same_result(watch: Watch, one: Any, other: Any) -> None:
    """Check that two results have the same bits and the same texts."""
    for name in ("params", "bse", "tvalues", "pvalues"):
        found, expected = getattr(other, name).to_numpy(), getattr(one, name).to_numpy()
        watch.require(np.array_equal(found, expected, equal_nan=True), name, f"{found} and not {expected}")
    watch.require(np.array_equal(one.cov_params(), other.cov_params()), "cov_params", "other bits")
    watch.require(one.models == other.models, "models", f"{other.models} and not {one.models}")
    watch.require(str(one.summary()) == str(other.summary()), "summary", "other text")
