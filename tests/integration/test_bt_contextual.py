"""The contextual Bradley-Terry model against statsmodels' GLM with interactions of models and features."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.special import expit

import dmlrank as dr
from dmlrank.exceptions import DataError, FormulaError, GraphError, NuisanceError, OptionError
from dmlrank.options import in_objects

FORMULA = "winner ~ x0 + x1 | model_a + model_b"
CONTEXTUAL = {"estimator": "bt_contextual"}


@pytest.fixture(scope="module")
def votes():
    """Two features, ties, several pairs per prompt, some prompts without a vote, a group and an annotator."""
    ties = dr.datasets.Ties(1, n_items=4, propensity_rate=0.1, propensity_min=0.01)
    frame = ties.sample(400, rng=3)
    rng = np.random.default_rng(4)
    frame["group"] = np.where(frame["x0"] > 0.4, "high", "low")
    frame["topic"] = frame["question_id"] // 5
    frame["judge"] = rng.integers(40, size=len(frame))
    return frame


def fit(frame, formula=FORMULA, **options):
    return dr.dml_rank(formula, frame, **in_objects({"context": "question_id", "rng": 0, **CONTEXTUAL, **options}))


class Reference:
    """Coefficients by statsmodels' GLM, and the delta method by hand."""

    def __init__(self, frame, models, features=("x0", "x1")):
        self.models = models
        self.contexts = frame.drop_duplicates("question_id")
        self.z = np.column_stack([np.ones(len(self.contexts)), self.contexts[list(features)]])
        self.rows = frame[frame["winner"].notna()]
        z = np.column_stack([np.ones(len(self.rows)), self.rows[list(features)]])
        code = {model: place for place, model in enumerate(models)}
        eye = np.eye(len(models))
        pair = eye[self.rows["model_a"].map(code).astype(int)] - eye[self.rows["model_b"].map(code).astype(int)]
        # The last model is the reference; scores that sum to zero are made of the differences.
        self.design = (pair[:, :-1, None] * z[:, None, :]).reshape(len(z), -1)
        self.centring = (eye - 1 / len(models))[:, :-1]
        y = self.rows["winner"].map({"model_a": 1.0, "model_b": 0.0, "tie": 0.5}).to_numpy()
        self.model = sm.GLM(y, self.design, family=sm.families.Binomial())
        self.glm = self.model.fit(tol=1e-14, maxiter=100)

    @property
    def coefficients(self):
        """(K, p + 1)."""
        return self.centring @ self.glm.params.reshape(len(self.models) - 1, -1)

    def jacobian(self, row):
        """Derivative of the scores at one value of z in the GLM's parameters, (K, parameters)."""
        return np.kron(self.centring, row)

    def label_part(self, row):
        """Contributions of the votes to the scores at one value of z, (votes, K)."""
        inverse = np.linalg.inv(-self.model.hessian(self.glm.params))
        return self.model.score_obs(self.glm.params) @ inverse @ self.jacobian(row).T

    def influence(self, inside=None):
        """Influence of every prompt on the mean scores of the prompts inside, (n, K), divided by n."""
        inside = np.ones(len(self.z), dtype=bool) if inside is None else inside
        scores = self.z @ self.coefficients.T
        phi = np.where(inside[:, None], (scores - scores[inside].mean(axis=0)) / inside.sum(), 0.0)
        return phi + self.of_labels(self.z[inside].mean(axis=0))

    def of_labels(self, row):
        """Contributions of the votes of every prompt to the scores at one value of z, (n, K)."""
        phi = np.zeros((len(self.z), len(self.models)))
        place = pd.Index(self.contexts["question_id"]).get_indexer(self.rows["question_id"])
        np.add.at(phi, place, self.label_part(row))
        return phi


def assert_close(value, expected):
    np.testing.assert_allclose(value, expected, rtol=0, atol=1e-8 * max(1.0, float(np.abs(np.asarray(expected)).max())))


@pytest.fixture(scope="module")
def result(votes):
    return fit(votes)


@pytest.fixture(scope="module")
def reference(votes, result):
    return Reference(votes, result.models)


def test_scores_are_the_mean_over_all_prompts_of_the_glms(result, reference):
    scores = reference.z @ reference.coefficients.T
    assert_close(result.params, scores.mean(axis=0))
    assert_close(result.predict(), scores)
    assert scores.std(axis=0).min() > 0.1
    new = pd.DataFrame({"x0": [0.2, 0.7], "x1": [0.5, -3.0]})
    assert_close(result.predict(new), np.column_stack([np.ones(2), new]) @ reference.coefficients.T)


def test_errors_are_the_sandwich_by_the_delta_method_with_the_prompts_own_variance(result, reference):
    phi = reference.influence()
    assert_close(result.cov_params(), phi.T @ phi)
    assert_close(result.influence, len(phi) * phi)


def test_with_fixed_prompts_errors_are_those_of_the_glm(votes, reference):
    one_vote = votes.groupby("question_id").sample(1, random_state=0).sort_values("question_id")
    result = fit(one_vote, prompts="fixed")
    reference = Reference(one_vote, result.models)
    robust = reference.model.fit(tol=1e-14, maxiter=100, cov_type="HC0").cov_params()
    jacobian = reference.jacobian(reference.z.mean(axis=0))
    # As for every estimator, the covariance for new prompts is an upper bound of that for fixed prompts.
    ratio = result.bse / np.sqrt(np.diag(jacobian @ robust @ jacobian.T))
    assert (ratio <= 1 + 1e-8).all()
    assert (ratio > 0.999).all()
    assert (result.bse < fit(one_vote).bse).all()


def test_clusters_sum_the_influence_of_their_prompts(votes, reference):
    result = fit(votes, cov_type="cluster", cov_kwds={"groups": "topic"})
    phi, topic = reference.influence(), reference.contexts["topic"].to_numpy()
    sums = np.stack([np.bincount(topic, column) for column in phi.T], axis=1)
    assert_close(1e3 * result.cov_params(), 1e3 * len(sums) / (len(sums) - 1) * sums.T @ sums)


def test_groups_have_the_mean_of_their_prompts_and_labels_of_all_groups(votes, reference):
    result = fit(votes, "winner ~ x0 + x1 + C(group) | model_a + model_b")
    groups = result.by("group")
    dummy = votes.assign(low=(votes["group"] == "low").astype(float))
    full = Reference(dummy, result.models, ("x0", "x1", "low"))
    phis = []
    for name in groups.groups:
        inside = (full.contexts["group"] == name).to_numpy()
        assert_close(groups[name].params, (full.z[inside] @ full.coefficients.T).mean(axis=0))
        phis.append(full.influence(inside))
    phi = np.hstack(phis)
    assert_close(1e3 * groups.cov_params(), 1e3 * phi.T @ phi)
    shares = pd.Series([groups[name].nobs for name in groups.groups], groups.groups)
    assert_close(groups.params @ shares / shares.sum(), result.params)


def test_a_projection_on_the_features_returns_the_coefficients(votes, result, reference):
    projection = result.by("~ x0 + x1")
    assert_close(projection.params.to_numpy().T, reference.coefficients)
    phi = reference.of_labels(np.array([0.0, 1.0, 0.0]))
    # The scores are linear in the features, so that the regression on them has no residual.
    assert_close(projection.bse.loc["x0"], np.sqrt(np.square(phi).sum(axis=0)))


def test_a_win_probability_is_the_mean_over_prompts(result, reference):
    share = result.win_probability(result.models[0], result.models[2])
    gap = reference.z @ (reference.coefficients[0] - reference.coefficients[2])
    p = expit(gap)
    assert share.estimate == pytest.approx(p.mean(), abs=1e-10)
    labels = reference.of_labels((p * (1 - p)) @ reference.z / len(p))
    phi = (p - p.mean()) / len(p) + labels[:, 0] - labels[:, 2]
    assert share.std_error == pytest.approx(np.sqrt(np.square(phi).sum()), rel=1e-8)


def test_without_features_it_is_the_constant_model(votes):
    formula = "winner ~ 1 | model_a + model_b"
    contextual = fit(votes, formula)
    constant = dr.dml_rank(formula, votes, context="question_id", rng=0, estimator="bt_mle")
    assert_close(contextual.params, constant.params)
    assert_close(1e3 * contextual.cov_params(), 1e3 * constant.cov_params())
    assert_close(contextual.estimates.shares, constant.estimates.shares)


def test_features_that_determine_each_other_are_named(votes):
    for features in ("x0 + x1 + I(x0 - 2 * x1)", "x0 + I(0 * x0)"):
        with pytest.raises(FormulaError):
            fit(votes, f"winner ~ {features} | model_a + model_b")


def test_a_model_that_was_only_seen_in_one_kind_of_prompt_is_named(votes):
    has_last = (votes["model_a"] == "model_3") | (votes["model_b"] == "model_3")
    with pytest.raises(DataError):
        fit(votes[~has_last | (votes["group"] == "low")], "winner ~ C(group) | model_a + model_b")


@pytest.mark.long
def test_separated_labels_are_told_from_strong_ones(votes):
    wins = votes["winner"].where(votes["winner"].isna(), "model_b")
    beats = (votes["model_a"] < votes["model_b"]) == (votes["x0"] > 0.5)
    separated = votes.assign(winner=wins.where(votes["winner"].isna() | ~beats, "model_a"))
    with pytest.raises(NuisanceError):
        fit(separated)
    flipped = separated.copy()
    labelled = np.flatnonzero(flipped["winner"].notna())[::40]
    turned = flipped["winner"].iloc[labelled].replace({"model_a": "model_b", "model_b": "model_a"})
    flipped.iloc[labelled, flipped.columns.get_loc("winner")] = turned.to_numpy()
    assert fit(flipped).predict().abs().max().max() > 2
    never = votes.assign(winner=votes["winner"].where(votes["model_a"] != "model_0", "model_a"))
    never["winner"] = never["winner"].where(never["model_b"] != "model_0", "model_b").where(votes["winner"].notna())
    with pytest.raises(GraphError, match="model_0"):
        fit(never)


def test_more_coefficients_than_labels_and_missing_features_are_refused(votes):
    few = votes.dropna(subset=["winner"]).groupby(["model_a", "model_b"]).head(2)
    few["noise"] = list(np.random.default_rng(0).normal(size=(len(few), 12)))
    with pytest.raises(DataError):
        dr.dml_rank("winner ~ noise | model_a + model_b", few, **in_objects({"rng": 0, **CONTEXTUAL}))
    holes = votes.assign(x0=votes["x0"].where(votes["question_id"] != 7))
    with pytest.raises(DataError, match=r"missing='keep'.*use missing='drop'"):
        fit(holes, missing="keep")


def test_weights_of_an_earlier_fit_are_not_dropped_silently(votes):
    quick = {"tune": {"n_estimators": 3}, "n_folds": 2, "propensity": "marginal"}
    weighted = dr.dml_rank(FORMULA, votes, **in_objects({"context": "question_id", "rng": 0, "weights": "x0", **quick}))
    with pytest.raises(OptionError, match="weights"):
        weighted.update(estimator="bt_contextual")
    assert weighted.update(estimator="bt_contextual", weights=None).params.equals(fit(votes).params)
