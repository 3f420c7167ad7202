"""F averaged over a sample of the prompts, corrections over all of them."""

import numpy as np
import pytest

import dmlrank as dr

from ..support import true_first_stages

FORMULA = "winner ~ x0 + x1 | model_a + model_b"


@pytest.fixture(scope="module")
def ties():
    return dr.datasets.Ties()


def fit(ties, n=600, functional="bt", rng=0, **options):
    data = ties.sample(n, rng=3)
    given = true_first_stages(ties, data) | {"propensity": "propensity", "floor": 0.0} | options
    return dr.dml_rank(FORMULA, data, context="question_id", functional=functional, rng=rng, n_jobs=1, **given)


@pytest.mark.parametrize("functional", ["borda", "bt", "rank_centrality"])
def test_the_estimate_and_its_variance_are_the_formulas(ties, functional):
    whole, part = (fit(ties, functional=functional, subsample=m) for m in (None, 200))
    all_of_it, some = whole.steps.influence, part.steps.influence
    kept = some.sample_weight > 0
    assert kept.sum() == 200
    np.testing.assert_array_equal(some.sample_weight[kept], 3.0)
    np.testing.assert_allclose(some.value[kept], all_of_it.value[kept], rtol=1e-12)
    np.testing.assert_allclose(some.correction_by_context, all_of_it.correction_by_context, rtol=1e-12)
    value, correction = all_of_it.value, all_of_it.correction_by_context
    np.testing.assert_allclose(part.params, value[kept].mean(axis=0) + correction.mean(axis=0), rtol=1e-12)
    centred = value[kept] - value[kept].mean(axis=0)
    rest = correction - correction.mean(axis=0)
    both = centred.T @ rest[kept] / 200
    expected = centred.T @ centred / 200 / 200 + (rest.T @ rest / 600 + both + both.T) / 600
    bare = some.centred.T @ some.centred / 600**2
    np.testing.assert_allclose(bare, expected, rtol=1e-9, atol=1e-18)


def test_what_it_adds_to_the_standard_errors_is_said(ties):
    part = fit(ties, functional="borda", subsample=200)
    whole = fit(ties, functional="borda")
    said, found = part.diagnostics.subsample_price, (part.bse / whole.bse).max() - 1
    assert said == pytest.approx(found, abs=0.05)
    assert said > 0.02
    assert part.diagnostics.subsample == 200
    assert f"a subsample of 200 prompts, which adds {100 * said:.1f} %" in " ".join(part.explain().split())
    assert "a subsample of" not in whole.explain()
    assert "prompts in the sample" in str(part.diagnostics)
    assert "prompts in the sample" not in str(whole.diagnostics)


def test_the_order_of_rows_does_not_matter_and_the_seed_does(ties):
    data = ties.sample(300, rng=1)
    options = {"context": "question_id", "propensity": "propensity", "subsample": 50, "n_jobs": 1}
    options |= {"tune": {"num_leaves": 4, "num_iterations": 40}}
    one, two, other = (
        dr.dml_rank(FORMULA, frame, functional="borda", rng=seed, **options)
        for frame, seed in ((data, 0), (data.sample(frac=1, random_state=np.random.RandomState(0)), 0), (data, 1))
    )
    np.testing.assert_allclose(one.params, two.params, rtol=1e-12)
    assert abs(one.params - other.params).max() > 1e-6


def test_a_sample_of_all_prompts_is_none(ties):
    np.testing.assert_array_equal(fit(ties, 200, subsample=200).params, fit(ties, 200).params)


def test_update_keeps_what_was_trained(ties):
    part = fit(ties, subsample=100).update(subsample=None)
    np.testing.assert_array_equal(part.params, fit(ties).params)


def test_several_repetitions_average_samples(ties):
    several = fit(ties, functional="borda", subsample=100, n_rep=3)
    values = [r.one_step_result.target.plugin for r in several.steps.repetitions]
    assert np.ptp(values, axis=0).max() > 1e-4
    np.testing.assert_allclose(several.plugin, np.mean(values, axis=0), rtol=1e-12)


def test_win_shares_between_two_models_use_it_too(ties):
    part = fit(ties, subsample=100)
    whole = fit(ties)
    one, other = (res.win_probability("model_0", "model_1") for res in (part, whole))
    assert one.std_error > other.std_error


@pytest.mark.parametrize("wrong", [1, 2.5, "all"])
def test_sizes_that_are_none(ties, wrong):
    with pytest.raises(dr.exceptions.OptionError):
        fit(ties, subsample=wrong)


def test_fixed_prompts_are_all_prompts(ties):
    with pytest.raises(dr.exceptions.OptionError):
        fit(ties, subsample=100, prompts="fixed")


def test_scores_per_prompt_are_those_of_the_sample(ties):
    part, whole = fit(ties, subsample=100).predict(), fit(ties).predict()
    assert len(part) == 100
    np.testing.assert_allclose(part, whole.loc[part.index], rtol=1e-12)
