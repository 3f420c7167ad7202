"""Extension of a fit: brute force from its models, what is kept, when the first stages are trained, what is refused."""

import gc
import weakref

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank import exceptions as errors
from dmlrank.data.frames import take_columns
from dmlrank.estimation.one_step import one_step
from dmlrank.inference.confidence_sequence import Boundary, best_tau

from ...support import chunks_of

FORMULA = "winner ~ C(category) + length | model_a + model_b"
PLAIN = "winner ~ 1 | model_a + model_b"
# The brute force below is one step: without the second-order bias, which has a test of its own.
OPTIONS = {
    "context": "question_id",
    "rng": 0,
    "n_jobs": 1,
    "min_labels": 3,
    "functional": "bt",
    "second_order": False,
}
N_OLD = 700
pytestmark = pytest.mark.filterwarnings("ignore::dmlrank.exceptions.DmlrankWarning")


@pytest.fixture(scope="module")
def battles():
    frame = dr.datasets.simulate_arena(n=1000, rng=0)
    frame["user"] = np.random.default_rng(0).integers(150, size=len(frame))
    return frame


@pytest.fixture(scope="module")
def fitted(battles):
    return dr.dml_rank(FORMULA, battles[:N_OLD], **OPTIONS)


@pytest.fixture(scope="module")
def extended(battles, fitted):
    return fitted.extend(battles[N_OLD:800], refit="never")


def shares(features, labels, weights, rng):
    """A learner of shares of the categories, which takes no time."""
    share = np.bincount(labels, weights, minlength=4) / weights.sum()
    return lambda features: np.tile(share, (len(features), 1))


def further_votes(battles):
    """Votes on old prompts, with the two models of each in the other order."""
    rows = battles[N_OLD - 60 : N_OLD].dropna(subset=["winner"]).copy()
    rows["model_a"], rows["model_b"] = rows.model_b.to_numpy(), rows.model_a.to_numpy()
    return rows


def without_model(battles, model, n_rows):
    """The first rows, with the prompts of one model left without a vote."""
    rows = battles[:n_rows].copy()
    rows.loc[(rows.model_a == model) | (rows.model_b == model), ["winner", "model_a", "model_b"]] = None
    return rows


# --- brute force ------------------------------------------------------------------------------------------------------


def win_share(mu):
    """Share of wins of the item shown first, ties as half a win, (..., K, K)."""
    return mu[..., 0] + mu[..., 2:].sum(axis=-1) / 2


def borda(mu):
    """Mean win share of each item over its opponents and both orders, (n, K), from mu, (n, K, K, C)."""
    first = win_share(mu)
    off = ~np.eye(mu.shape[1], dtype=bool)
    return np.where(off, (first + 1 - np.swapaxes(first, 1, 2)) / 2, 0).sum(axis=2) / (mu.shape[1] - 1)


def bradley_terry(mu):
    """Least squares of the log-odds of all pairs, (n, K): the mean over opponents of the log-odds of both orders."""
    first = win_share(mu)
    off = ~np.eye(mu.shape[1], dtype=bool)
    odds = np.where(off, np.log(np.where(off, first, 0.5) / np.where(off, 1 - first, 0.5)), 0)
    return ((odds - np.swapaxes(odds, 1, 2)) / 2).sum(axis=2) / mu.shape[1]


def brute_force(score, mu, floor, cells, pi, ordered):
    """One-step estimate and influence values, with derivatives by central differences, label by label."""
    if floor:
        mu = np.maximum(mu, floor) / np.maximum(mu, floor).sum(axis=-1, keepdims=True)
    value = score(mu)
    correction, swap = np.zeros_like(value), [1, 0, *range(2, mu.shape[-1])]
    for c, j, k, y, p in zip(cells.context, cells.first, cells.second, cells.y, pi, strict=True):
        delta = np.zeros_like(mu[c])
        delta[j, k] = (y - mu[c, j, k]) / p
        if not ordered:
            delta[k, j] = delta[j, k][swap]
        step = 1e-6 / np.abs(delta).max()
        high, low = score(np.stack([mu[c] + step * delta, mu[c] - step * delta]))
        correction[c] += (high - low) / (2 * step)
    terms = value + correction
    return terms.mean(axis=0), terms - terms.mean(axis=0)


def mu_by_hand(fit, data):
    """mu of old contexts from the model of their fold, and of new contexts from the mean of all models."""
    models, fold = fit.steps.first.mu.models, fit.steps.first.folds.fold
    tables = np.stack([model.predict(data.x) for model in models])
    mu = tables.mean(axis=0)
    mu[: len(fold)] = tables[fold, np.arange(len(fold))]
    return mu


def propensities_by_hand(fit, data):
    """Mean over models for new contexts; floor at a tenth of the pair's labelling rate; mean of S / pi one by pair."""
    models, fold, cells = fit.steps.first.propensity.pairs.models, fit.steps.first.folds.fold, data.cells
    first, second = cells.in_display_order
    by_model = np.stack([model.at(data.x[cells.context], first, second, data.n_items) for model in models])
    estimates, rows = by_model.mean(axis=0), np.arange(len(cells))
    is_old = cells.context < len(fold)
    estimates[is_old] = by_model[fold[cells.context[is_old]], rows[is_old]]
    pi = np.empty_like(estimates)
    for j, k in set(zip(cells.first, cells.second, strict=True)):
        pair = (cells.first == j) & (cells.second == k)
        raised = np.maximum(estimates[pair], 0.1 * pair.sum() / data.n_contexts)
        pi[pair] = raised * (1 / raised).sum() / data.n_contexts
    return pi


@pytest.mark.parametrize(("functional", "score"), [("borda", borda), ("bt", bradley_terry)])
@pytest.mark.long
def test_an_extension_is_the_one_step_estimate_with_the_models_of_the_fit(battles, fitted, functional, score):
    fit = fitted.update(functional=functional)
    longer = fit.extend(battles[N_OLD:800], refit="never")
    data = longer.steps.data
    floor = fit.steps.first.floor if functional == "bt" else 0.0
    mu, pi = mu_by_hand(fit, data), propensities_by_hand(fit, data)
    estimate, phi = brute_force(score, mu, floor, data.cells, pi, data.ordered)
    np.testing.assert_allclose(longer.params, estimate, atol=1e-8)
    np.testing.assert_allclose(longer.influence, phi, atol=1e-5)


def test_covariance_tests_and_ranks_are_those_of_a_fit_with_the_same_mu_and_pi(battles, extended):
    steps = extended.steps
    data, cells = steps.data, steps.data.cells
    mu, pi = np.zeros((data.n_contexts, *[data.n_items] * 2, data.n_categories)), None
    for contexts, table in chunks_of(steps.first.mu, 100):
        mu[contexts] = table
    pi = np.full(mu.shape[:3], 0.5)
    pi[cells.context, cells.first, cells.second] = steps.first.propensity.cells
    if not data.ordered:
        pi[cells.context, cells.second, cells.first] = steps.first.propensity.cells
    twin = dr.dml_rank(
        FORMULA, battles[:800], mu=mu, propensity=pi, floor=steps.first.floor, position_bias=data.ordered, **OPTIONS
    )
    np.testing.assert_allclose(extended.params, twin.params, rtol=1e-9)
    np.testing.assert_allclose(extended.cov_params(), twin.cov_params(), rtol=1e-8, atol=1e-14)
    pairs, others = (result.t_test_pairwise().result_frame for result in (extended, twin))
    np.testing.assert_allclose(pairs.p_adjusted, others.p_adjusted, atol=1e-8)
    assert extended.ranks().to_csv() == twin.ranks().to_csv()


# --- what is kept -----------------------------------------------------------------------------------------------------


def evaluated_again(result):
    """Influence of the scores of a result, with F(mu) of every context computed again."""
    steps = result.steps
    r = steps.first
    target = {"target": steps.setup.functional}
    return one_step(target, steps.data, r.nuisances, steps.units.blocks, steps.population(r)).target.by_context()


def test_values_that_are_kept_are_those_that_a_new_evaluation_gives(battles, fitted):
    of_both_kinds = pd.concat([further_votes(battles), battles[N_OLD:750]])
    longer = fitted.extend(of_both_kinds, refit="never")
    assert (longer.extension.contexts_new, longer.extension.contexts_with_new_votes) == (50, 60)
    again = evaluated_again(longer)
    np.testing.assert_allclose(longer.params, again.estimate, atol=1e-12)
    np.testing.assert_allclose(longer.influence, again.centred, atol=1e-12)
    # Old prompts are predicted by the learner of their fold, which has not seen their labels.
    np.testing.assert_array_equal(longer.steps.first.mu.folds.fold[:N_OLD], fitted.steps.first.folds.fold)
    assert (longer.steps.first.mu.folds.fold[N_OLD:] == 5).all()


def test_the_second_order_bias_is_removed_from_an_extension(battles, fitted, extended):
    longer = fitted.update(second_order=True).extend(battles[N_OLD:800], refit="never")
    second_order = longer.steps.first.second_order
    np.testing.assert_allclose(longer.params - extended.params, second_order.change, atol=1e-13)
    again = extended.update(second_order=True)
    np.testing.assert_allclose(again.params, longer.params, atol=1e-13)
    np.testing.assert_allclose(again.cov_params(), longer.cov_params(), atol=1e-14)
    assert np.abs(second_order.change).max() > 0


def test_an_update_of_an_extension_trains_only_what_its_options_change(extended):
    other = extended.update(functional="borda")
    assert other.steps.first.mu is extended.steps.first.mu
    assert other.extension == extended.extension
    assert extended.update(learner=shares).extension is None


def test_extensions_in_two_steps_are_one_extension(battles, fitted, extended):
    by_steps = fitted.extend(battles[N_OLD:740], refit="never").extend(battles[740:800], refit="never")
    np.testing.assert_allclose(by_steps.params, extended.params, atol=1e-12)
    np.testing.assert_allclose(by_steps.cov_params(), extended.cov_params(), atol=1e-14)
    assert (by_steps.extension.number, by_steps.extension.rows_since_training) == (2, 100)


@pytest.mark.long
def test_scores_are_near_those_of_one_fit_of_all_rows(battles, extended):
    """A seeded small version of ``benchmarks/extend.py``, which has coverage and models that enter, too."""
    full = dr.dml_rank(FORMULA, battles[:800], **OPTIONS)
    assert np.abs((extended.params - full.params) / full.bse).mean() < 0.2
    np.testing.assert_allclose(extended.bse, full.bse, rtol=0.1)


@pytest.mark.long
def test_no_reference_leads_to_an_earlier_result(battles, fitted):
    result = fitted
    references = []
    for start in range(N_OLD, N_OLD + 60, 20):
        result = result.extend(battles[start : start + 20])
        references.append(weakref.ref(result.steps.data.cells.y))
    gc.collect()
    assert [reference() is None for reference in references] == [True, True, False]


def test_a_new_prompt_of_an_old_cluster_is_predicted_by_the_learner_of_its_fold(battles):
    options = {**OPTIONS, "cov_type": "cluster", "cov_kwds": {"groups": "user"}, "learner": shares}
    fit = dr.dml_rank(FORMULA, battles[:400], **options, propensity="marginal", position_bias=False)
    rows = battles[400:460].copy()
    rows.loc[rows.index[:3], "user"] = 10_000
    longer = fit.extend(rows, refit="never")
    fold = dict(zip(battles.user[:400], fit.steps.first.folds.fold, strict=True))
    expected = [fold.get(user, 5) for user in rows.user]
    assert longer.steps.first.mu.folds.fold[400:].tolist() == expected
    assert longer.extension.contexts_of_no_fold == expected.count(5) >= 3


@pytest.mark.long
def test_without_features_a_chain_of_extensions_is_a_new_fit(battles):
    # From 200 prompts per fold on, folds do not depend on the number of prompts.
    options = {**OPTIONS, "n_folds": 2}
    result = dr.dml_rank(PLAIN, battles[:400], **options)
    for start in range(400, 1000, 100):
        result = result.extend(battles[start : start + 100], refit="never")
    fit = dr.dml_rank(PLAIN, battles, **options)
    np.testing.assert_array_equal(result.params, fit.params)
    np.testing.assert_array_equal(result.cov_params(), fit.cov_params())


def test_without_features_an_extension_is_a_new_fit_also_with_a_category_that_is_new(battles):
    """Frequencies are counted in all votes, so that there is no model that could not predict the new rows."""
    old = battles[:400].query("winner != 'tie (bothbad)'")
    assert old.winner.nunique() < battles.winner.nunique()
    longer = dr.dml_rank(PLAIN, old, **OPTIONS).extend(battles[400:600], refit="never")
    fit = dr.dml_rank(PLAIN, pd.concat([old, battles[400:600]]), **OPTIONS)
    np.testing.assert_array_equal(longer.params, fit.params)
    np.testing.assert_array_equal(longer.cov_params(), fit.cov_params())
    assert longer.extension.refitted
    text = " ".join(longer.explain().split())
    assert "The learners were trained again on all rows: without features they are the frequencies" in text


def test_contexts_without_identifiers_and_prompts_without_votes_keep_their_places(battles):
    rows = battles[:400].assign(winner=battles["winner"][:400].mask(np.arange(400) >= 350))
    options = {**OPTIONS, "context": None, "learner": shares, "propensity": "marginal"}
    fit = dr.dml_rank(FORMULA, rows, **options)
    longer = fit.extend(battles[400:450], refit="never")
    np.testing.assert_array_equal(longer.steps.data.x[:400], fit.steps.data.x)
    np.testing.assert_array_equal(longer.steps.first.mu.folds.fold[:400], fit.steps.first.folds.fold)
    assert longer.extension.contexts_new == 50


# --- models that enter ------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_new_model_gets_effects_of_its_own_from_labels_outside_the_fold(battles):
    fit = dr.dml_rank(FORMULA, without_model(battles, "claude-v1", N_OLD), **OPTIONS, propensity="marginal")
    longer = fit.extend(battles[N_OLD:1000], refit="never")
    assert longer.extension.models_new == ("claude-v1",)
    place = longer.models.index("claude-v1")
    others = np.delete(np.arange(8), place)
    for old, new in zip(fit.steps.first.mu.models, longer.steps.first.mu.models, strict=True):
        np.testing.assert_array_equal(new.main_effects.strength[others], old.main_effects.strength)
        x = longer.steps.data.x[:20]
        np.testing.assert_allclose(new.predict(x)[:, others[:, None], others], old.predict(x), atol=1e-12)
    # Labels of the new model in a fold change nothing in the learner of the fold.
    steps = longer.steps
    rows = battles[N_OLD:1000].copy()
    in_fold = steps.first.folds.fold[N_OLD:] == 0
    is_of_new = ((rows.model_a == "claude-v1") | (rows.model_b == "claude-v1")).to_numpy()
    rows.loc[in_fold & is_of_new & rows.winner.notna(), "winner"] = "tie"
    other = fit.extend(rows, refit="never").steps.first.mu.models
    np.testing.assert_array_equal(other[0].main_effects.strength, steps.first.mu.models[0].main_effects.strength)
    assert not np.array_equal(other[1].main_effects.strength, steps.first.mu.models[1].main_effects.strength)


def test_models_without_effects_are_trained_again(battles):
    options = {**OPTIONS, "learner": shares, "propensity": "marginal"}
    fit = dr.dml_rank(FORMULA, without_model(battles, "claude-v1", N_OLD), **options)
    with pytest.raises(errors.OptionError, match="claude-v1"):
        fit.extend(battles[N_OLD:1000], refit="never")
    assert fit.extend(battles[N_OLD:1000]).extension.refitted


# --- when the first stages are trained --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def quickly_fitted(battles):
    return dr.dml_rank(FORMULA, battles[:N_OLD], **OPTIONS, learner=shares, propensity="marginal")


def test_first_stages_are_trained_when_votes_have_grown(battles, quickly_fitted):
    assert not quickly_fitted.extend(battles[N_OLD:850]).extension.refitted
    grown = quickly_fitted.extend(battles[N_OLD:900])
    assert grown.extension.refitted
    assert "1.29 times the 681 votes of the last training" in grown.extension.reason
    assert (grown.steps.first.mu.folds.fold < 5).all()


def test_first_stages_are_trained_when_later_labels_are_predicted_worse(battles, quickly_fitted):
    rows = battles[N_OLD:860].copy()
    rows.loc[rows.winner.notna(), "winner"] = "tie (bothbad)"
    assert "predicted worse than the earlier ones" in quickly_fitted.extend(rows).extension.reason
    record = quickly_fitted.extend(rows, refit="never").extension
    assert not record.refitted
    assert record.loss_p < 0.01
    assert "are predicted significantly worse" in record.reason


@pytest.mark.parametrize("cluster", [None, "user"])
def test_the_loss_test_is_planned_in_prompts_or_clusters_and_not_in_votes(battles, cluster):
    twice = pd.concat([battles, further_votes(battles[:N_OLD]), further_votes(battles[:N_OLD])])
    options = {**OPTIONS, "learner": shares, "propensity": "marginal", "position_bias": False}
    if cluster:
        options |= {"cov_type": "cluster", "cov_kwds": {"groups": cluster}}
        twice["user"] = twice.question_id // 4
    old = twice[twice.question_id < N_OLD]
    fit = dr.dml_rank(FORMULA, old, **options)
    rows = twice[(twice.question_id >= N_OLD) & (twice.question_id < 860)].copy()
    # Labels that are predicted a little worse, so that the p-value lies between its limits.
    rows.loc[rows.index[rows.winner.notna()][:30], "winner"] = "tie (bothbad)"
    extension = fit.extend(rows, refit="never").extension
    labelled = old.dropna(subset=["winner"])
    n_units = labelled[cluster or "question_id"].nunique()
    assert extension.units_at_training == n_units < extension.votes_at_training == len(labelled)
    # The number of later units that the p-value of z belongs to.
    later = battles[N_OLD:860].dropna(subset=["winner"])
    t = (later.question_id // 4 if cluster else later.question_id).nunique()
    boundary = Boundary(best_tau(0.05) * t / (0.25 * n_units))
    assert 0.001 < extension.loss_p < 0.9
    assert extension.loss_p == pytest.approx(float(boundary.one_sided_p_values(np.array([extension.loss_z]))[0]))


def test_refit_always_is_a_fit_of_all_rows_without_a_trace_of_the_earlier_one(battles, quickly_fitted):
    longer = quickly_fitted.extend(battles[N_OLD:800], refit="always")
    record = longer.extension
    assert (record.refitted, record.reason, record.number) == (True, "refit='always'", 0)
    assert (record.contexts_new, record.rows_added) == (100, 100)
    options = {**OPTIONS, "learner": shares, "propensity": "marginal"}
    np.testing.assert_array_equal(longer.params, dr.dml_rank(FORMULA, battles[:800], **options).params)


@pytest.mark.parametrize("estimator", ["bt_mle", "bt_contextual"])
def test_maximum_likelihood_is_computed_again(battles, estimator):
    options = {"context": "question_id", "estimator": estimator, "rng": 0}
    longer = dr.dml_rank(FORMULA, battles[:N_OLD], **options).extend(battles[N_OLD:], refit="never")
    np.testing.assert_array_equal(longer.params, dr.dml_rank(FORMULA, battles, **options).params)


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda rows: rows[:0], errors.DataError),
        (lambda rows: rows.drop(columns="length"), errors.ColumnError),
        (lambda rows: rows.assign(length="long"), errors.DataError),
        (lambda rows: rows.assign(winner="banana"), errors.OutcomeError),
        (lambda rows: rows.assign(question_id=5), errors.DataError),
        (lambda rows: rows.assign(category="quantum"), errors.OptionError),
        (lambda rows: {"winner": [1]}, errors.FrameTypeError),
    ],
)
def test_rows_that_contradict_the_fit_are_refused(battles, fitted, change, error):
    with pytest.raises(error):
        fitted.extend(change(battles[N_OLD:800]), refit="never")


def test_a_frame_that_has_grown_since_the_fit_is_refused(battles):
    growing = battles[:300].reset_index(drop=True)
    fit = dr.dml_rank(PLAIN, growing, **OPTIONS)
    growing.loc[300] = battles.iloc[300]
    with pytest.raises(errors.DataError):
        fit.extend(battles[301:320])


def test_rows_of_the_fit_are_refused(battles, fitted):
    with pytest.raises(errors.DataError):
        fitted.extend(battles[N_OLD - 50 : N_OLD + 50])


def test_a_feature_level_that_is_new_is_trained(battles, quickly_fitted):
    rows = battles[N_OLD:720].assign(category="quantum")
    assert "'quantum'" in quickly_fitted.extend(rows).extension.reason


@pytest.mark.long
def test_texts_that_the_fit_does_not_use_are_read_when_an_update_uses_them(battles):
    names = ["prompt", "judge"]
    frames = [battles.astype(dict.fromkeys(names, kind)) for kind in ("string", object)]
    chains = [
        dr.dml_rank(FORMULA, rows[:400], **OPTIONS, learner=shares, propensity="marginal")
        .extend(rows[400:420], refit="never")
        .extend(rows[420:440], refit="never")
        for rows in frames
    ]
    by_judge = [chain.update(cov_type="cluster", cov_kwds={"groups": "judge"}) for chain in chains]
    np.testing.assert_array_equal(chains[0].params, chains[1].params)
    np.testing.assert_array_equal(by_judge[0].cov_params(), by_judge[1].cov_params())
    assert not np.array_equal(by_judge[0].bse, chains[0].bse)
    # Texts that are in the frame of the fit alone are missing below.
    without = chains[0].extend(frames[0][440:460].drop(columns="prompt"), refit="never")
    frame = take_columns(without.steps.source.data, ["prompt"])
    assert frame["prompt"].tolist() == [*battles.prompt[:440], *[None] * 20]


def test_columns_of_one_frame_alone_are_told(battles, fitted):
    record = fitted.extend(battles[N_OLD:720].drop(columns="judge").assign(month="May")).extension
    assert record.remarks == (
        "the columns 'judge' are missing in the new rows",
        "the columns 'month' of the new rows are not in the data of the fit and are left out",
    )


@pytest.mark.parametrize(
    "options",
    [
        {"weights": np.ones(N_OLD)},
        {"propensity": np.full((N_OLD, 8, 8), 1 / 56)},
        {"mu": np.full((N_OLD, 8, 8, 4), 0.25), "propensity": "marginal"},
    ],
)
def test_arrays_of_the_old_prompts_are_refused(battles, options):
    fit = dr.dml_rank(PLAIN, battles[:N_OLD], **OPTIONS, **options)
    with pytest.raises(errors.OptionError):
        fit.extend(battles[N_OLD:800])


def test_identifiers_that_are_floats_in_the_new_rows_stay_whole_numbers(battles, quickly_fitted):
    rows = battles[N_OLD:720].assign(question_id=battles.question_id[N_OLD:720].astype(float))
    longer = quickly_fitted.extend(rows, refit="never")
    assert longer.steps.data.context_ids[-1] == 719
    assert isinstance(longer.steps.data.context_ids[-1], int)


def test_a_word_that_is_no_choice_of_refit_is_refused(battles, fitted):
    with pytest.raises(errors.OptionError, match="maybe"):
        fitted.extend(battles[N_OLD:800], refit="maybe")


# --- what the result says, and how it is stored -----------------------------------------------------------------------


def test_the_summary_says_what_was_added_and_which_prompts_are_out_of_whose_sample(extended):
    text = " ".join(extended.explain().split())
    assert "The last extension added 100 rows with 100 new prompts. The learners were not trained again" in text
    assert "100 prompts are new to the learners of all folds" in text
    assert "700 prompts are predicted by the learner of their fold" in text


@pytest.mark.long
def test_a_stored_extension_goes_on(battles, extended, tmp_path):
    extended.save(tmp_path / "fit.dml", with_data=True)
    loaded = dr.load(tmp_path / "fit.dml")
    assert loaded.extension == extended.extension
    later, expected = (result.extend(battles[800:820], refit="never") for result in (loaded, extended))
    np.testing.assert_array_equal(later.params, expected.params)
    numbers = dr.read_json(extended.to_json())
    assert numbers.extension == extended.extension
    with pytest.raises(errors.DataNotStoredError, match="with_data"):
        numbers.extend(battles[800:820])


def test_the_unit_of_the_scores_stays(battles, fitted):
    longer = fitted.rescale("elo", mean=1000).extend(battles[N_OLD:720])
    assert longer.params.mean() == pytest.approx(1000)


@pytest.mark.long
def test_a_new_model_gets_shares_of_its_own_and_all_propensities_are_scaled(battles, fitted):
    rows = battles[750:1000].replace({"model_a": {"gpt-4": "gpt-5"}, "model_b": {"gpt-4": "gpt-5"}})
    longer = fitted.extend(rows, refit="never")
    data, cells = longer.steps.data, longer.steps.data.cells
    others = [data.items.index(name) for name in fitted.models]
    for old, new in zip(
        fitted.steps.first.propensity.pairs.models, longer.steps.first.propensity.pairs.models, strict=True
    ):
        np.testing.assert_allclose(new.shares.effects.first[:, others], old.shares.effects.first, atol=1e-12)
        table = new.table(data.x[:5], data.n_items)
        np.testing.assert_allclose(table.sum(axis=(1, 2)), new.any_label.predict(data.x[:5]) * 2, rtol=1e-9)
    for j, k in set(zip(cells.first, cells.second, strict=True)):
        inverse = 1 / longer.steps.first.propensity.cells[(cells.first == j) & (cells.second == k)]
        assert inverse.sum() / data.n_contexts == pytest.approx(1)
    # The effects of the new model are fitted again when its votes have grown by a quarter.
    again = longer.extend(rows[:20].assign(question_id=range(5000, 5020)), refit="never")
    assert again.extension.votes_of_new_models == longer.extension.votes_of_new_models
    np.testing.assert_allclose(evaluated_again(again).estimate, again.params, atol=1e-12)
