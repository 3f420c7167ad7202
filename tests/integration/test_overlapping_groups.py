"""Groups of prompts that may overlap: against partitions, against influence values written out, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dmlrank.exceptions import DataError, MissingDataError, OptionError, OptionTypeError

from ..support import COVARIANCES, by_prompt, draw_with_groups, fits_of, without_order

K = 4
FORMULA = "winner ~ C(half) + x0 + odd + high | model_a + model_b"
TAGS = ["odd", "high"]
FUNCTIONALS = [
    pytest.param({"functional": "borda"}, id="borda"),
    pytest.param({"functional": "bt"}, id="bt"),
    pytest.param({"functional": "bt", "average": "preferences"}, id="bt of mean preferences"),
]
pytestmark = pytest.mark.usefixtures("ignore_warnings")  # Few clusters and small groups are meant here


@pytest.fixture(scope="module")
def battles(draw_battles):
    drawn = draw_with_groups(draw_battles, seed=0, n=120, unlabelled=9)
    number = drawn.frame["prompt"].str[1:].astype(int)
    drawn.frame["odd"] = number % 2 == 1
    drawn.frame["high"] = (number > 50).astype(int)
    for name in drawn.frame["half"].unique():
        drawn.frame[name] = drawn.frame["half"] == name
    return drawn


@pytest.fixture(scope="module")
def fitted(battles, rank):
    return fits_of(battles, rank, FORMULA)


@pytest.mark.parametrize("kind", COVARIANCES)
@pytest.mark.parametrize("options", FUNCTIONALS)
def test_a_partition_given_as_booleans_is_a_partition_by_column(battles, fitted, options, kind):
    results = fitted(**options, **COVARIANCES[kind])
    expected = results.by("half")
    names = expected.groups
    groups = results.by(names)
    assert groups.groups == names
    assert groups.is_partition
    np.testing.assert_allclose(groups.params, expected.params, rtol=0, atol=1e-12)
    np.testing.assert_allclose(groups.cov_params(), expected.cov_params(), rtol=0, atol=1e-12)
    pd.testing.assert_frame_equal(groups.tidy(), expected.tidy())
    if "average" not in options:
        # The projection on indicators is another computation.
        projection = results.by("~ 0 + C(half)")
        np.testing.assert_allclose(groups.params.T, projection.params, rtol=0, atol=1e-12)
        np.testing.assert_allclose(groups.cov_params(), projection.cov_params(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["robust", "cluster", "two-way", "weighted"])
def test_the_covariance_of_overlapping_groups_is_written_out(battles, fitted, kind):
    results = fitted(**COVARIANCES[kind])
    weight = by_prompt(battles.frame, "importance") if kind == "weighted" else np.ones(120)
    weight = weight / weight.mean()
    raw = results.influence / weight[:, None] + results.params.to_numpy()
    groups, columns = results.by(TAGS), []
    for name in TAGS:
        inside = weight * by_prompt(battles.frame, name)
        theta = inside @ raw / inside.sum()
        np.testing.assert_allclose(groups.params[name], theta, rtol=1e-10)
        columns.append(inside[:, None] * (raw - theta) / inside.mean())
    phi, factor = np.hstack(columns), 1.0
    if kind == "two-way":
        assert np.linalg.eigvalsh(groups.cov_params().to_numpy())[0] > -1e-12
        by_column = results.by("half")
        assert groups.joint.covariance.n_clusters == by_column.joint.covariance.n_clusters
        return
    if kind == "cluster":
        code = pd.factorize(by_prompt(battles.frame, "topic"))[0]
        phi, factor = np.array([phi[code == c].sum(axis=0) for c in range(7)]), 7 / 6
    np.testing.assert_allclose(groups.cov_params(), factor * phi.T @ phi / 120**2, atol=1e-12)
    cross = groups.cov_params().loc["odd", "high"].to_numpy()
    assert np.abs(cross).max() > 1e-5


@pytest.mark.parametrize("ordered", [True, False])
def test_scores_of_mean_preferences_in_a_group_are_those_of_a_fit_to_the_group(battles, fitted, ordered, rank):
    known = battles.mu if ordered else without_order(battles.mu)
    options = {"functional": "bt", "average": "preferences", "position_bias": ordered}
    frame = battles.frame.assign(same=1 / 3)
    propensity = {"propensity": "shown"} if ordered else {"propensity": np.full((120, K, K), 0.2)}
    groups = rank(frame, FORMULA, mu=known, **options, **propensity).by(TAGS)
    for name in TAGS:
        inside = by_prompt(frame, name).astype(bool)
        rows = frame[frame[name].astype(bool)]
        own = propensity if ordered else {"propensity": np.full((inside.sum(), K, K), 0.2)}
        alone = rank(rows, "winner ~ x0 | model_a + model_b", mu=known[inside], **options, **own)
        np.testing.assert_allclose(groups.params[name], alone.params, atol=1e-10)
        np.testing.assert_allclose(groups[name].estimates.plugin, alone.estimates.plugin, atol=1e-10)
        if alone.steps.unanimous is None:
            np.testing.assert_allclose(groups.bse[name], alone.bse, rtol=1e-7)


def test_columns_hold_booleans_in_any_form(battles, rank):
    odd = battles.frame["odd"]
    frame = battles.frame.assign(texts=odd.astype(str), numbers=odd.astype(int))
    params = rank(frame, FORMULA, mu=battles.mu, propensity="shown").by(["odd", "texts", "numbers"]).params
    for name in ("texts", "numbers"):
        np.testing.assert_allclose(params[name], params["odd"], rtol=1e-14, err_msg=name)


def test_groups_without_labels_are_left_out_with_the_reason(battles, rank, draw_battles):
    frame = battles.frame.assign(rare=battles.frame["prompt"] == battles.frame["prompt"][5])
    labelled = frame["winner"].notna()
    is_split = labelled & frame["model_a"].isin(["m0", "m1"]) & frame["model_b"].isin(["m0", "m1"])
    is_split |= labelled & frame["model_a"].isin(["m2", "m3"]) & frame["model_b"].isin(["m2", "m3"])
    split = is_split.groupby(frame["prompt"]).transform("all")
    formula = FORMULA.replace("odd", "odd + rare + split")
    results = rank(frame.assign(split=split), formula, mu=battles.mu, propensity="shown")
    groups = results.by([*TAGS, "rare", "split"])
    assert groups.groups == TAGS
    reasons = dict(groups.left_out)
    assert reasons["rare"] == "1 labelled prompts"
    assert split.sum() == 0 or "do not connect the models" in reasons["split"]
    assert "These groups have no scores: rare (1 labelled prompts)" in " ".join(groups.summary().as_text().split())
    with pytest.raises(DataError, match="rare"):
        results.by(["rare"])


@pytest.mark.parametrize(
    ("groups", "error"),
    [
        (([],), OptionError),
        (("half", ["odd"]), OptionError),
        (({"x": "odd"},), OptionTypeError),
        (([3],), OptionTypeError),
        ((["half"],), DataError),
        ((["absent"],), KeyError),
    ],
)
def test_what_is_no_group_is_refused_with_the_reason(fitted, groups, error):
    with pytest.raises(error) as caught:
        fitted().by(*groups)
    assert '"' not in str(caught.value)  # Names are quoted once.


def test_columns_that_the_learner_does_not_know_are_refused(battles, rank):
    frame = battles.frame.assign(varying=np.arange(len(battles.frame)) % 2 == 0)
    frame["missing"] = frame["odd"].astype("boolean").mask(frame["prompt"] == frame["prompt"][0])
    short = rank(frame, "winner ~ C(half) | model_a + model_b", mu=battles.mu, propensity="shown")
    for name, error in {"varying": DataError, "missing": MissingDataError, "odd": OptionError}.items():
        with pytest.raises(error, match=name):
            short.by([name])
    with pytest.raises(DataError, match=r"'half' holds '.+', '.+'; a list names columns of booleans"):
        short.by(["half"])


def test_a_boolean_that_a_feature_tells_is_a_group_without_a_new_fit(battles, rank):
    frame = battles.frame.assign(x0_high=battles.frame["x0"] > 0)
    results = rank(frame, "winner ~ x0 | model_a + model_b", mu=battles.mu, propensity="shown")
    with pytest.raises(OptionError, match=r"without a new fit, by\(\['x0_high'\]\) works"):
        results.by("x0_high")
    assert results.by(["x0_high"]).groups == ["x0_high"]
