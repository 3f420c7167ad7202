"""What a result says about order: whatever the models are called, in whatever unit, with and without its data."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import dmlrank as dr
from dmlrank.exceptions import (
    HypothesisError,
    OptionError,
    OptionTypeError,
    UnknownModelError,
)
from dmlrank.functionals import Custom
from dmlrank.inference.simultaneous import MaxT
from dmlrank.options import in_objects

COLUMNS = ["first", "second", "estimate", "std_error", "statistic", "p_value", "p_adjusted", "conf_low", "conf_high"]
NASTY = ("gpt-4-0314", "01-ai/yi (34b)", "a - b", 'say "hi"', "模型", "x = y, z", "$dollar$")


@pytest.fixture(scope="module")
def result(arena_result):
    return arena_result


@pytest.fixture(scope="module")
def renamed(result):
    """The same battles of seven models under names that look like arithmetic, and the way back."""
    battles = dr.datasets.simulate_arena(n=2500, rng=0)
    kept = result.models[:7]
    battles = battles[battles["model_a"].isin(kept) & battles["model_b"].isin(kept)]
    plain = dr.dml_rank("winner ~ 1 | model_a + model_b", battles, functional="bt", context="question_id", rng=0)
    names = dict(zip(kept, NASTY, strict=True))
    other = battles.assign(model_a=battles["model_a"].map(names), model_b=battles["model_b"].map(names))
    odd = dr.dml_rank("winner ~ 1 | model_a + model_b", other, functional="bt", context="question_id", rng=0)
    return plain, odd, names


def test_every_pair_is_in_the_frame_once_the_better_model_first(result):
    frame = result.t_test_pairwise().result_frame
    assert list(frame) == COLUMNS
    order = result.params.sort_values(ascending=False).index.tolist()
    assert list(zip(frame["first"], frame["second"], strict=True)) == list(itertools.combinations(order, 2))
    assert (frame["estimate"] >= 0).all()


def test_the_numbers_are_those_of_single_tests(result):
    frame = result.t_test_pairwise("none").result_frame
    tests = result.t_test([(a, b) for a, b in zip(frame["first"], frame["second"], strict=True)])
    np.testing.assert_allclose(frame["estimate"], tests.effect)
    np.testing.assert_allclose(frame["std_error"], tests.sd.squeeze())
    np.testing.assert_allclose(frame["statistic"], tests.statistic.squeeze())
    np.testing.assert_allclose(frame["p_value"], tests.pvalue)
    np.testing.assert_allclose(frame[["conf_low", "conf_high"]], tests.conf_int())
    np.testing.assert_array_equal(frame["p_adjusted"], frame["p_value"])


def test_rank_sets_lie_between_the_single_step_and_the_step_down(result):
    separated = {
        method: {frozenset(pair) for pair in tests.result_frame[tests.rejected][["first", "second"]].to_numpy()}
        for method in ("max-t", "step-down")
        for tests in [result.t_test_pairwise(method)]
    }
    groups = result.ranks()["group"]
    apart = {
        frozenset(p) for p in itertools.combinations(result.models, 2) if not set(groups[p[0]]) & set(groups[p[1]])
    }
    assert separated["max-t"] <= apart <= separated["step-down"]
    assert 0 < len(apart) < 28


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


def test_sentences_and_heads_write_the_level_in_their_ways(result):
    text = " ".join(str(result.ranks(alpha=0.1)).split())
    assert "with probability 90 %, jointly" in text
    assert "[90% simult. set]" in text


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


def test_hypotheses_about_odd_names(renamed):
    plain, odd, names = renamed
    back = {other: name for name, other in names.items()}
    for a, b in itertools.combinations(NASTY, 2):
        quoted = [f"`{name}`" for name in (a, b)]
        for hypothesis in ((a, b), {a: 1, b: -1}, " - ".join(quoted), " = ".join(quoted)):
            assert odd.t_test(hypothesis).effect == pytest.approx(plain.params[back[a]] - plain.params[back[b]])
    for name in NASTY:
        with pytest.raises(UnknownModelError):
            odd.t_test(f"`{name}x` - `{NASTY[0]}`")
        with pytest.raises(UnknownModelError):
            odd.t_test_pairwise(against=name + "x")
    text = odd.t_test_pairwise().summary()
    for name in NASTY:
        assert name in text.as_text()


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


def test_some_models_are_a_smaller_family(result):
    few = result.t_test_pairwise(models=["palm-2", "gpt-4", "claude-v1"])
    assert few.models == ("gpt-4", "claude-v1", "palm-2")
    assert len(few.result_frame) == 3
    assert few.critical < result.t_test_pairwise().critical


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


def test_a_constant_is_refused_on_every_side(result):
    everything = " + ".join(result.models)
    for side in ("two-sided", "larger", "equivalence"):
        with pytest.raises(HypothesisError):
            result.t_test(everything, delta=0.1, side=side)
    with pytest.raises(HypothesisError):
        result.ellipsoid(contrasts=[everything])


@pytest.mark.long
@pytest.mark.parametrize("bootstrap", ["gaussian", "rademacher", "webb"])
def test_the_bootstrap_of_many_prompts_is_close_to_the_normal_distribution(result, bootstrap):
    pairs, scores = result.t_test_pairwise(), result.conf_int()
    assert result.bootstrap(bootstrap).t_test_pairwise().critical == pytest.approx(pairs.critical, abs=0.06)
    np.testing.assert_allclose(result.bootstrap(bootstrap).conf_int(), scores, atol=0.03 * result.bse.max() * 2)
    assert result.bootstrap(bootstrap).ranks()["rank"].tolist() == result.ranks()["rank"].tolist()
    for ask in (lambda view: view.conf_int(method="none"), lambda view: view.t_test_pairwise("holm")):
        with pytest.raises(OptionError, match="max-t"):
            ask(result.bootstrap(bootstrap))


def clustered(n_topics, seed=0, **options):
    """Battles whose topics share a preference."""
    rng = np.random.default_rng(seed)
    n = 900
    topic = rng.integers(n_topics, size=n)
    pair = np.array([rng.permutation(4)[:2] for _ in range(n)])
    taste = rng.normal(size=(n_topics, 4))[topic[:, None], pair]
    p = 1 / (1 + np.exp(taste[:, 1] - taste[:, 0]))
    frame = pd.DataFrame(
        {
            "winner": np.where(rng.uniform(size=n) < p, "model_a", "model_b"),
            "model_a": np.array(list("abcd"))[pair[:, 0]],
            "model_b": np.array(list("abcd"))[pair[:, 1]],
            "topic": topic,
            "judge": rng.integers(40, size=n),
            "prompt": np.arange(n) // 3,
        }
    )
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


def test_two_way_clusters_have_no_bootstrap_and_the_reason_is_said():
    both = clustered(60, cov_kwds={"groups": ["prompt", "judge"]})
    assert "cluster (prompt, judge)" in " ".join(both.summary().as_text().split())
    with pytest.raises(OptionError):
        both.bootstrap("webb").ranks()


def test_repetitions_are_in_the_bootstrap(result):
    several = result.update(n_rep=3)
    assert several.bootstrap("gaussian").t_test_pairwise().critical == pytest.approx(
        several.t_test_pairwise().critical, abs=0.06
    )


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
