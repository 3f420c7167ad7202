"""Labels that all say the same: their standard errors hold the rule of three, and nothing is claimed from them."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import DataError, DmlrankWarning
from dmlrank.fit.fit_covariance import covariance_of
from dmlrank.functionals import Custom
from dmlrank.options import in_objects

PLAIN = "winner ~ 1 | model_a + model_b"
COMMON = {"rng": 0, "min_labels": 1, "n_jobs": 1, "propensity": "marginal"}
pytestmark = pytest.mark.filterwarnings("ignore::dmlrank.exceptions.DmlrankWarning")


def votes(rows):
    """A frame of battles (first, second, winner's place)."""
    return pd.DataFrame(rows, columns=["model_a", "model_b", "winner"])


def both_ways(first, second, outcome, number):
    """Votes on a pair, half of them shown the other way round; ``outcome`` is the first model's."""
    turned = {"model_a": "model_b", "model_b": "model_a", "tie": "tie"}[outcome]
    return [(first, second, outcome)] * (number // 2) + [(second, first, turned)] * (number - number // 2)


def mixed(first, second, number):
    """Votes on a pair that each model wins half of."""
    return both_ways(first, second, "model_a", number // 2) + both_ways(first, second, "model_b", number // 2)


def hopeless(per_pair=40):
    """Four models; the last loses all."""
    rows = [vote for pair in ("ab", "ac", "bc") for vote in mixed(*pair, 60)]
    rows += [vote for other in "abc" for vote in both_ways("z", other, "model_b", per_pair)]
    return votes(rows)


def upper(result, name):
    return result.conf_int(method="none").loc[name, "upper"]


@pytest.mark.parametrize("number", [12, 30, 60, 200])
def test_rule_of_three_for_one_pair(number):
    data = votes(both_ways("a", "z", "model_a", number))
    share = dr.dml_rank(PLAIN, data, **in_objects({**COMMON, "position_bias": False})).win_probability("z", "a")
    assert 3 / number - 1e-9 <= share.conf_high <= 4.5 / number
    assert share.conf_low == 0
    assert share.estimate < 0.5 / number


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("per_pair", [20, 40, 100])
def test_rule_of_three_for_a_model_over_all_opponents(per_pair, ordered):
    result = dr.dml_rank(PLAIN, hopeless(per_pair), **in_objects({**COMMON, "position_bias": ordered}))
    total = 3 * per_pair
    assert 3 / total - 1e-6 <= upper(result, "z") <= 4.5 / total
    # A pair for itself rests on its own labels.
    assert 3 / per_pair - 1e-6 <= result.win_probability("z", "a").conf_high <= 5 / per_pair


def test_the_winner_of_all_is_the_mirror_image():
    lost = hopeless()
    won = lost.assign(winner=lost.winner.map({"model_a": "model_b", "model_b": "model_a"}))
    one, other = (dr.dml_rank(PLAIN, data, **in_objects(COMMON)) for data in (lost, won))
    assert one.params["z"] + other.params["z"] == pytest.approx(1, abs=1e-6)
    assert one.bse.to_numpy() == pytest.approx(other.bse.to_numpy(), rel=1e-4)


def test_all_ties_of_one_pair_have_half_the_reach():
    data = votes(both_ways("a", "b", "tie", 60))
    share = dr.dml_rank(PLAIN, data, **in_objects({**COMMON, "position_bias": False})).win_probability("a", "b")
    assert share.estimate == pytest.approx(0.5)
    assert share.conf_high - 0.5 == pytest.approx(1.5 / 60, rel=0.05)


def test_maximum_likelihood_of_two_ties():
    few, many = (votes(both_ways("a", "b", "tie", number)) for number in (2, 3000))
    errors = [dr.dml_rank(PLAIN, data, estimator="bt_mle", rng=0).bse["a"] for data in (few, many)]
    # The sandwich of two votes that could have gone either way: 1 / sqrt(2) for half a difference of log-odds.
    assert errors[0] == pytest.approx(np.sqrt(0.5), rel=1e-6)
    assert errors[1] == pytest.approx(2 * 1.5 / 1.96 / 3000, rel=0.01)


@pytest.mark.parametrize("estimator", ["debiased", "bt_mle"])
def test_nothing_changes_without_such_pairs(estimator):
    data = votes([vote for pair in ("ab", "ac", "bc") for vote in mixed(*pair, 60)])
    result = dr.dml_rank(PLAIN, data, functional="bt", estimator=estimator, rng=0)
    steps = result.steps
    assert steps.unanimous is None
    gauge = steps.setup.functional.gauge(3).basis
    plain = covariance_of(steps, steps.influence, gauge)
    assert np.array_equal(plain.matrix, steps.covariance.matrix)
    assert result.diagnostics.pairs_without_variation == 0
    assert not result.diagnostics.warnings


def test_maximum_likelihood_takes_both_orders_of_a_pair_as_one():
    data = votes([vote for pair in ("ab", "ac", "bc") for vote in mixed(*pair, 60)])
    # a wins wherever it is shown before b, and loses wherever it is shown after it.
    data["winner"] = data["winner"].mask(data["model_a"].isin(["a", "b"]) & data["model_b"].isin(["a", "b"]), "model_a")
    result = dr.dml_rank(PLAIN, data, functional="bt", estimator="bt_mle", rng=0)
    assert set(zip(data["model_a"], data["model_b"], strict=True)) >= {("a", "b"), ("b", "a")}
    assert result.diagnostics.pairs_without_variation == 0


def test_linear_case_written_out():
    """The covariance of the scores is that of the influence values and c / N per lost pair."""
    data = hopeless()
    result = dr.dml_rank(PLAIN, data, **in_objects({**COMMON, "position_bias": False}))
    steps = result.steps
    phi = steps.influence.by_context().centred
    shown = phi.T @ phi / len(phi) ** 2
    variance = (3 / 1.959963984540054) ** 2 / 120
    hidden = np.zeros((4, 4))
    for other in range(3):
        along = np.zeros(4)
        along[3], along[other] = 1 / 3, -1 / 3
        inside = (steps.data.cells.first == other) & (steps.data.cells.second == 3)
        weight = 1 / (steps.first.propensity.cells[inside] * len(data))
        residual = steps.data.cells.y[inside, 0] - steps.first.one_step_result.cell_mu[inside, 0]
        seen = (weight**2 * residual**2).sum() * (1 - weight.sum() * 3 / (weight**2).sum() / len(data))
        hidden += np.outer(along, along) * (variance * (weight**2).sum() - max(seen, 0))
    assert result.cov_params().to_numpy() == pytest.approx(shown + hidden, abs=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"cov_type": "cluster", "cov_kwds": {"groups": "user"}},
        {"prompts": "fixed"},
        {"n_rep": 2},
        {"functional": "bt", "estimator": "bt_restricted", "position_bias": False},
        {"functional": "bt"},
        {"functional": Custom(lambda mu: mu[..., 0].sum(axis=2) / 3, interior=False, linear=True)},
    ],
    ids=lambda options: ", ".join(map(str, options)),
)
def test_every_kind_of_fit_holds_it(options):
    data = hopeless().sample(frac=1, random_state=0).assign(user=np.arange(300) // 3)
    result = dr.dml_rank(PLAIN, data, **in_objects({**COMMON, **options}))
    share = result.win_probability("z", "a") if options.get("estimator") != "bt_mle" else None
    assert share.std_error > 0.01
    assert result.bse["z"] > 0.008
    assert any("'z' lost all their votes" in text for text in result.diagnostics.warnings)


def test_groups_have_their_own():
    data = hopeless()
    # In the first group z loses everything; in the second it wins half.
    better = votes(
        [vote for other in "abc" for vote in mixed("z", other, 40)]
        + [v for p in ("ab", "ac", "bc") for v in mixed(*p, 60)]
    )
    both = pd.concat([data.assign(topic="one"), better.assign(topic="two")], ignore_index=True)
    result = dr.dml_rank("winner ~ C(topic) | model_a + model_b", both, **in_objects({**COMMON, "tune": None}))
    groups = result.by("topic")
    assert groups["one"].bse["z"] > 0.9 * 3 / 120 / 1.96
    assert groups["one"].conf_int(method="none").loc["z", "upper"] > 2.5 / 120


def test_the_warning_names_models_and_pairs_and_says_what_to_do():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = dr.dml_rank(PLAIN, hopeless(), **in_objects({"functional": "bt", **COMMON}))
    (text,) = [str(w.message) for w in caught if "labels without variation" in str(w.message)]
    for part in (
        "'z' lost all their votes",
        "3 of 6 compared pairs",
        "'a - z'",
        "rule of three",
        "no finite limit",
        "Collect more votes",
    ):
        assert part in text
    assert result.diagnostics.pairs_without_variation == 3
    assert result.diagnostics.models_without_variation == ("z",)
    assert dr.read_json(result.to_json()).diagnostics.models_without_variation == ("z",)
    with pytest.warns(DmlrankWarning, match="rule of three") as caught:
        result.update(functional="dominance")
    assert not [w for w in caught if "floor=" in str(w.message)]


def test_shares_stay_between_zero_and_one():
    data = pd.DataFrame({"winner": ["m1"] * 4, "a": ["m1", "m2"] * 2, "b": ["m2", "m1"] * 2})
    # Propensities that are too small move the shares beyond 0 and 1.
    result = dr.dml_rank("winner ~ 1 | a + b", data.assign(p=0.2), pairs=dr.Pairs(min_labels=1), propensity="p", rng=5)
    assert result.params.between(0, 1).all()
    limits = result.conf_int()
    assert limits.min(axis=None) >= 0
    assert limits.max(axis=None) <= 1
    assert (limits.upper - limits.lower > 0.3).all()
    share = result.win_probability("m1", "m2")
    assert 0 <= share.conf_low <= share.estimate <= share.conf_high <= 1
    assert share.conf_high - share.conf_low > 0.3
    assert any("outside of 0 to 1" in text for text in result.diagnostics.warnings)
    assert result.estimates.shares.max() <= 1


def test_tiny_propensities_leave_other_models_alone():
    data = dr.datasets.simulate_arena(n=1200, rng=0).assign(p=1 / 56)
    data.loc[data.index[:1], "p"] = 1e-9
    options = {"context": "question_id", "propensity": "p", "min_labels": 1, "rng": 0}
    errors = [
        dr.dml_rank(PLAIN, data.sample(frac=1, random_state=seed), **in_objects(options)).bse for seed in range(3)
    ]
    plain = dr.dml_rank(PLAIN, data.assign(p=1 / 56), **in_objects(options)).bse
    others = [name for name in plain.index if name not in data.loc[data.index[0], ["model_a", "model_b"]].tolist()]
    for one in errors:
        assert one.to_numpy() == pytest.approx(errors[0].to_numpy(), rel=1e-9)
        assert one[others].to_numpy() == pytest.approx(plain[others].to_numpy(), rel=1e-3)


@pytest.mark.parametrize("huge", [1e300, 1e308, 1e12])
def test_one_weight_that_holds_all_is_refused(huge):
    data = hopeless().assign(w=1.0)
    data.loc[0, "w"] = huge
    with pytest.raises(DataError):
        dr.dml_rank(PLAIN, data, **in_objects({"weights": "w", **COMMON}))


def test_huge_weights_count_by_their_ratios():
    data = hopeless().assign(w=np.random.default_rng(0).uniform(1, 2, 300))
    one, other = (
        dr.dml_rank(PLAIN, data.assign(w=data.w * unit), **in_objects({"weights": "w", **COMMON}))
        for unit in (1, 1e307)
    )
    assert one.bse.to_numpy() == pytest.approx(other.bse.to_numpy(), rel=1e-9)


def test_one_annotator_of_a_pair_is_one_label():
    data = hopeless().assign(prompt=range(300), annotator=lambda d: np.arange(len(d)) % 60)
    alone = (data[["model_a", "model_b"]] == "z").any(axis=1)
    # The votes on the hopeless model come from three annotators instead of sixty.
    few = data.assign(annotator=data.annotator.where(~alone, data.annotator % 3))
    options = COMMON | {"context": "prompt", "cov_type": "cluster"}
    many, crossed = (
        dr.dml_rank(PLAIN, d, **in_objects({**options, "cov_kwds": {"groups": ["prompt", "annotator"]}}))
        for d in (data, few)
    )
    assert crossed.bse["z"] > 2 * many.bse["z"]
    by_prompt = dr.dml_rank(PLAIN, few, **in_objects({**options, "cov_kwds": {"groups": "prompt"}}))
    assert crossed.bse["z"] > 2 * by_prompt.bse["z"]


def test_the_rule_of_three_holds_for_the_judge_alone():
    data = hopeless().assign(prompt=range(300), verdict=lambda d: d.winner)
    data["winner"] = data["winner"].where(np.arange(300) % 2 == 0)
    result = dr.dml_rank(PLAIN, data, **in_objects({**COMMON, "context": "prompt", "judge": "verdict"}))
    table = result.judge.table().loc["z"]
    assert table["judge_upper"] >= 3 / 120 - 1e-4


@pytest.mark.filterwarnings("ignore::dmlrank.DmlrankWarning")
def test_differences_of_win_shares_are_no_further_apart_than_shares_can_be():
    rng = np.random.default_rng(0)
    votes = pd.DataFrame({"left": ["a", "b", "a"] * 5, "right": ["b", "c", "c"] * 5, "winner": "left"})
    votes["winner"] = np.where(rng.random(15) < 0.9, "left", "right")
    res = dr.dml_rank("winner ~ 1 | left + right", votes, rng=0, pairs=dr.Pairs(min_labels=1))
    pairs = res.t_test_pairwise().result_frame
    assert (pairs[["conf_low", "conf_high"]].abs() <= 1).all(axis=None)
    assert ((res.conf_int() >= 0) & (res.conf_int() <= 1)).all(axis=None)
    one_sided = res.t_test_pairwise(side="larger").result_frame
    assert np.isinf(one_sided["conf_high"]).all()
    for end in re.findall(r"interval (-?[\d.]+) to (-?[\d.]+)", res.verdict()):
        assert all(abs(float(limit)) <= 100 for limit in end)
