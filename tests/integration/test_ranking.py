"""What a result says about order: whatever the models are called, in whatever unit, with and without its data."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import dmlrank as dr
from dmlrank.exceptions import HypothesisError, OptionError, OptionTypeError, UnknownModelError
from dmlrank.functionals import Custom
from dmlrank.inference.simultaneous import MaxT
from dmlrank.options import in_objects

from ..support import votes_of

COLUMNS = ["first", "second", "estimate", "std_error", "statistic", "p_value", "p_adjusted", "conf_low", "conf_high"]


@pytest.fixture(scope="module")
def result(arena_result):
    return arena_result


def test_every_pair_is_in_the_frame_once_the_better_model_first(result):
    frame = result.t_test_pairwise().result_frame
    assert list(frame) == COLUMNS
    order = result.params.sort_values(ascending=False).index.tolist()
    assert list(zip(frame["first"], frame["second"], strict=True)) == list(itertools.combinations(order, 2))
    assert (frame["estimate"] >= 0).all()


def test_ranks_come_best_first_and_hold_the_rank(result):
    ranks = result.ranks()
    assert list(ranks) == ["rank", "lower", "upper", "group"]
    assert ranks["rank"].tolist() == list(range(1, 9))
    assert ranks.index[0] == result.params.idxmax()
    assert ((ranks["lower"] <= ranks["rank"]) & (ranks["rank"] <= ranks["upper"])).all()
    single = result.ranks(simultaneous=False)
    assert (ranks["upper"] - ranks["lower"] >= single["upper"] - single["lower"]).all()
    pd.testing.assert_series_equal(ranks["group"], single["group"])
    wide, narrow = result.ranks(alpha=0.001), result.ranks(alpha=0.5)
    assert (wide["upper"] - wide["lower"]).sum() > (narrow["upper"] - narrow["lower"]).sum()


def test_the_best_set_follows_the_rank_sets(result):
    ranks = result.ranks()
    assert result.best_set() == ranks.index[ranks["lower"] == 1].tolist()
    sizes = [len(result.best_set(n)) for n in range(1, 9)]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 8
    assert all(size >= n for n, size in enumerate(sizes, start=1))
    for wrong in (0, 9, 1.5, True):
        with pytest.raises((OptionError, OptionTypeError)):
            result.best_set(wrong)


def test_comparing_with_one_model(result):
    tests = result.t_test_pairwise(against="koala-13b")
    frame = tests.result_frame
    assert set(frame["second"]) == {"koala-13b"}
    assert frame["first"].tolist() == [m for m in result.ranks().index if m != "koala-13b"]
    all_pairs = result.t_test_pairwise().critical
    assert norm.ppf(0.975) < tests.critical < all_pairs
    few = result.t_test_pairwise(against="koala-13b", models=["gpt-4", "palm-2"])
    assert few.result_frame["first"].tolist() == ["gpt-4", "palm-2"]
    assert few.critical < tests.critical
    assert [row[0] for row in tests.summary(models=["gpt-4"]).rows] == ["gpt-4 - koala-13b"]
    one = result.t_test_pairwise(against="koala-13b", models=["gpt-4"])
    assert one.result_frame[["first", "second"]].values.tolist() == [["gpt-4", "koala-13b"]]
    assert one.models == ("gpt-4", "koala-13b")


@pytest.mark.parametrize("side", ["larger", "smaller", "noninferiority"])
def test_one_side_is_asked_both_ways(result, side):
    frame = result.t_test_pairwise("step-down", side=side, delta=0.1).result_frame
    assert set(zip(frame["first"], frame["second"], strict=True)) == set(itertools.permutations(result.models, 2))
    sign, shift = {"larger": (1, -0.1), "smaller": (-1, -0.1), "noninferiority": (1, 0.1)}[side]
    z = (frame["estimate"] + shift) / frame["std_error"]
    np.testing.assert_allclose(frame["statistic"], z)
    np.testing.assert_allclose(frame["p_value"], norm.sf(sign * z))
    assert np.isinf(frame["conf_high" if sign > 0 else "conf_low"]).all()


def test_single_tests_with_margins(result):
    pair = "gpt-4 - claude-v1"
    plain = result.t_test(pair)
    effect, error = float(plain.effect[0]), float(plain.sd.squeeze())
    two = result.t_test(pair, delta=0.1)
    assert float(two.statistic.squeeze()) == pytest.approx((effect - 0.1) / error)
    shifted = result.t_test(f"{pair} = 0.1")
    assert shifted.pvalue == pytest.approx(float(two.pvalue))
    assert shifted.c_names == [f"{pair} = 0.1"]
    for side, z, tail in [
        ("larger", (effect - 0.1) / error, norm.sf),
        ("smaller", (effect - 0.1) / error, norm.cdf),
        ("noninferiority", (effect + 0.1) / error, norm.sf),
    ]:
        test = result.t_test(pair, delta=0.1, side=side)
        assert test.statistic[0] == pytest.approx(z)
        assert test.pvalue == pytest.approx(tail(z))
        low, high = test.conf_int(0.05)[0]
        assert (low, high).count(np.inf if side != "smaller" else -np.inf) == 1
    both = [result.t_test(pair, delta=s, side=side).pvalue for s, side in ((-0.5, "larger"), (0.5, "smaller"))]
    equal = result.t_test(pair, delta=0.5, side="equivalence")
    assert equal.pvalue == pytest.approx(max(both))
    np.testing.assert_allclose(equal.conf_int(0.05), plain.conf_int(0.1))
    assert "lies between -0.5 and 0.5" in str(equal)
    # Only one-sided tests have a side.
    two_sided = result.t_test(pair, delta=0.5)
    assert ["for this side" in str(one) for one in (equal, two_sided, test)] == [False, False, True]
    # The hypothesis' own value moves the margin.
    assert result.t_test(f"{pair} = 0.2", delta=0.1, side="larger").pvalue == pytest.approx(
        float(result.t_test(pair, delta=0.3, side="larger").pvalue)
    )


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"method": "tukey"}, OptionError),
        ({"side": "higher"}, OptionError),
        ({"side": "equivalence"}, OptionError),
        ({"side": "noninferiority", "delta": -1}, OptionError),
        ({"side": "larger", "delta": "1"}, OptionTypeError),
        ({"delta": 0.1}, OptionError),
        ({"models": ["gpt-4"]}, OptionError),
        ({"models": ["gpt-4", "gpt-4"]}, OptionError),
        ({"against": "gpt4"}, UnknownModelError),
        ({"alpha": 5}, OptionError),
    ],
)
def test_what_cannot_be_asked_is_refused(result, options, error):
    with pytest.raises(error):
        result.t_test_pairwise(**options)


def clustered(n_topics, seed=0, **options):
    """Battles whose topics share a preference."""
    rng = np.random.default_rng(seed)
    n = 900
    topic = rng.integers(n_topics, size=n)
    pair = np.array([rng.permutation(4)[:2] for _ in range(n)])
    taste = rng.normal(size=(n_topics, 4))[topic[:, None], pair]
    p = 1 / (1 + np.exp(taste[:, 1] - taste[:, 0]))
    frame = votes_of(list("abcd"), *pair.T, rng.uniform(size=n) < p, topic=topic, judge=rng.integers(40, size=n))
    frame["prompt"] = np.arange(n) // 3
    frame["topic"] = frame.groupby("prompt")["topic"].transform("first")
    options = {"context": "prompt", "cov_type": "cluster", "functional": "bt", "rng": 0} | options
    return dr.dml_rank("winner ~ 1 | model_a + model_b", frame, **in_objects(options))


def test_few_clusters_warn_and_quantiles_are_wider_than_normal_ones():
    with pytest.warns(dr.DmlrankWarning, match="only 12 clusters"):
        few = clustered(12, cov_kwds={"groups": "topic"})
    assert "cluster (topic)" in " ".join(few.summary().as_text().split())
    normal = MaxT(few.estimates.covariance.normal)
    of_pairs, of_scores = normal.critical_of_pairs(0.05), normal.critical(0.05)
    for view in (few, *(few.bootstrap(multipliers) for multipliers in ("gaussian", "rademacher", "webb"))):
        assert view.t_test_pairwise().critical > of_pairs + 0.15
        assert ((view.conf_int()["upper"] - few.params) / few.bse > of_scores + 0.1).all()


@pytest.mark.parametrize("options", [{}, {"side": "larger"}, {"side": "equivalence", "delta": 0.2}])
def test_first_against_second_says_that_the_data_chose_it(result, options):
    first, second, third = result.params.sort_values(ascending=False).index[:3]
    said = "use verdict(), whose test of first place holds although the data chose the leader"
    for hypothesis in (
        f"{first} - {second}",
        (second, first),
        f"{first} = {second} = {third}",
        f"({first} - {second})/2",
    ):
        tests = result.t_test(hypothesis, **options)
        assert said in " ".join(str(tests).split())
        assert f"The scores of this fit place {first} first and {second} second" in tests.remark
    for hypothesis in (f"{first} - {third}", first, f"{first} + {second}", f"{first} - {second}/2 - {third}/2"):
        assert said not in " ".join(str(result.t_test(hypothesis, **options).summary()).split())
    plain = result.t_test(f"{first} - {third}").summary_frame()
    assert plain.columns.tolist() == result.t_test(f"{first} - {second}").summary_frame().columns.tolist()


def test_models_that_do_not_vary_are_not_separated_and_the_reason_is_said():
    rng = np.random.default_rng(0)
    pair = np.array([rng.permutation(3)[:2] for _ in range(200)])
    names = np.array(["a", "b", "c"])
    frame = {
        "winner": rng.choice(["model_a", "model_b"], 200),
        "model_a": names[pair[:, 0]],
        "model_b": names[pair[:, 1]],
    }
    constant = Custom(lambda mu: 0.1 + 0 * mu[..., 0].sum(axis=2), interior=False)
    fixed = dr.dml_rank("winner ~ 1 | model_a + model_b", pd.DataFrame(frame), functional=constant, rng=0)
    assert fixed.ranks()["group"].tolist() == ["a", "a", "a"]
    assert (fixed.ranks()[["lower", "upper"]].to_numpy() == [1, 3]).all()
    tests = fixed.t_test_pairwise()
    assert tests.result_frame["p_adjusted"].isna().all()
    assert "3 differences are not tested" in " ".join(tests.summary().notes)
    assert "First place" not in " ".join(fixed.summary().as_text().split())


def test_a_constant_is_refused_on_every_side(result):
    everything = " + ".join(result.models)
    for side in ("two-sided", "larger", "equivalence"):
        with pytest.raises(HypothesisError):
            result.t_test(everything, delta=0.1, side=side)
    with pytest.raises(HypothesisError):
        result.ellipsoid(contrasts=[everything])


def test_two_way_clusters_have_no_bootstrap_and_the_reason_is_said():
    both = clustered(60, cov_kwds={"groups": ["prompt", "judge"]})
    assert "cluster (prompt, judge)" in " ".join(both.summary().as_text().split())
    with pytest.raises(OptionError):
        both.bootstrap("webb").ranks()
