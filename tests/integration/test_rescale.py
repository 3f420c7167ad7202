"""Another unit is another unit and nothing else: what is said about the models stays."""

import numpy as np
import pytest

import dmlrank as dr
from dmlrank.exceptions import OptionError, OptionTypeError, UnknownModelError

FORMULA = "winner ~ x0 | model_a + model_b"


@pytest.fixture(scope="module")
def results(draw_battles, rank):
    battles = draw_battles(np.random.default_rng(0), 400, 4, 4).frame
    return rank(battles, FORMULA, functional="bt", tune={"n_estimators": 5}, n_folds=2)


VIEWS = {
    "elo": ("elo", {}),
    "elo, mean": ("elo", {"mean": 1000}),
    "elo, anchor": ("elo", {"anchor": {"m1": 1200}}),
    "log-odds": ("log-odds", {"anchor": ("m0", 0.0)}),
    "number": (7.5, {"mean": -2}),
}


@pytest.fixture(params=VIEWS.values(), ids=VIEWS)
def view(request, results):
    scale, shift = request.param
    return results.rescale(scale, **shift)


def test_mean_and_anchor_are_hit(results):
    assert results.rescale("elo", mean=1000).params.mean() == pytest.approx(1000)
    assert results.rescale(3, anchor=("m2", 5)).params["m2"] == pytest.approx(5)
    assert results.rescale("elo", anchor={"m2": 1500}).params["m2"] == pytest.approx(1500)


def test_statistics_stay(results, view):
    np.testing.assert_allclose(view.tvalues, results.tvalues, rtol=1e-9)
    np.testing.assert_allclose(view.pvalues, results.pvalues, rtol=1e-8)
    for one in ("m0 - m1", "2*m0 - m1 - m2"):
        np.testing.assert_allclose(view.t_test(one).statistic, results.t_test(one).statistic, rtol=1e-9)
    wald, expected = view.wald_test("m0 = m1 = m2"), results.wald_test("m0 = m1 = m2")
    np.testing.assert_allclose(wald.statistic, expected.statistic, rtol=1e-9)
    assert wald.df_denom == expected.df_denom == 2
    assert view.win_probability("m0", "m1") == results.win_probability("m0", "m1")
    assert view.ranks().result_frame.equals(results.ranks().result_frame)


def test_everything_is_in_the_new_unit(results, view):
    scale = view.estimates.scale
    np.testing.assert_allclose(view.bse, scale.factor * results.bse)
    np.testing.assert_allclose(view.cov_params(), scale.factor**2 * results.cov_params())
    np.testing.assert_allclose(view.influence, scale.factor * results.influence)
    for method in ("max-t", "bonferroni", "none"):
        np.testing.assert_allclose(view.conf_int(method=method), scale.of(results.conf_int(method=method)))
    np.testing.assert_allclose(view.conf_int(0.2), scale.of(results.conf_int(0.2)), rtol=1e-6)
    np.testing.assert_allclose(view.predict(), scale.of(results.predict()))
    np.testing.assert_allclose(view.estimates.plugin, scale.of(results.estimates.plugin))
    np.testing.assert_allclose(view.tidy().estimate, view.params)
    region, expected = (r.ellipsoid(models=["m0", "m1"]) for r in (view, results))
    assert region.volume == pytest.approx(scale.factor**2 * expected.volume)
    assert region.contains(view.params[["m0", "m1"]])


@pytest.mark.parametrize(
    ("scale", "shift", "said"),
    [
        ("elo", {"mean": 1000}, "in Elo points (mean 1000); a lead of 69 means 60 wins in 100 comparisons."),
        (7.5, {"anchor": ("m0", 2)}, "7.5 times (m0 = 2); a lead of 3 means 60 wins in 100 comparisons."),
    ],
)
def test_the_summary_says_unit_level_and_what_a_lead_means(results, scale, shift, said):
    assert f", {said}" in " ".join(str(results.rescale(scale, **shift).summary()).split())


def test_a_view_of_a_view_is_a_view_of_the_scores(results, view):
    np.testing.assert_allclose(view.rescale(2.0, mean=1).params, results.rescale(2.0, mean=1).params)
    np.testing.assert_allclose(view.rescale("log-odds").params, results.params, atol=1e-12)
    assert view.rescale("elo", mean=1).estimates.reason == results.rescale("elo").estimates.reason


def test_updates_keep_the_unit(results):
    elo = results.rescale("elo", anchor={"m1": 1000})
    updated = elo.update(estimator="plugin")
    np.testing.assert_allclose(
        updated.params, results.update(estimator="plugin").rescale("elo", anchor={"m1": 1000}).params
    )
    with pytest.raises(OptionError):
        elo.update(functional="borda")
    with pytest.warns(dr.DmlrankWarning, match="only"):
        assert results.rescale(10).update(
            functional="borda", cov_type="cluster", cov_kwds={"groups": "topic"}
        ).params.mean() == pytest.approx(5)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"scale": "eloo"}, OptionError),
        ({"scale": -1}, OptionError),
        ({"scale": float("nan")}, OptionError),
        ({"scale": None}, OptionTypeError),
        ({"scale": "elo", "mean": 1, "anchor": ("m0", 1)}, OptionError),
        ({"scale": "elo", "mean": "1000"}, OptionTypeError),
        ({"scale": "elo", "anchor": {"m9": 1000}}, UnknownModelError),
        ({"scale": "elo", "anchor": {"m0": 1, "m1": 2}}, OptionTypeError),
        ({"scale": "elo", "anchor": ("m0", float("inf"))}, OptionTypeError),
    ],
)
def test_what_is_no_scale(results, arguments, error):
    with pytest.raises(error):
        results.rescale(**arguments)


@pytest.mark.parametrize("functional", ["borda", "rank_centrality"])
@pytest.mark.parametrize("scale", ["elo", "log-odds"])
def test_scores_that_are_no_log_odds_have_no_elo(results, functional, scale):
    with pytest.raises(OptionError, match=functional):
        results.update(functional=functional).rescale(scale)


@pytest.mark.parametrize(
    ("scale", "shift"),
    [(1e300, {}), (1e-200, {}), ("elo", {"mean": 1e17}), (1e-6, {"mean": 1000}), (2, {"anchor": ("m0", -1e17)})],
)
def test_units_in_which_digits_are_lost_are_refused(results, scale, shift):
    with pytest.raises(OptionError):
        results.rescale(scale, **shift)
