"""Properties of a fit on arenas that hypothesis generates: what must be equal, and to which tolerance.

``DMLRANK_EXAMPLES=200 python -m pytest -n 2 tests/properties`` tries more arenas than the few of every run.
"""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import dmlrank as dr
from dmlrank.options import in_objects

from ..support import from_benchmarks, optional

pl, pa = optional("polars"), optional("pyarrow")
arenas_module = from_benchmarks("fuzzing.arenas")
FORMULA, FUNCTIONALS, LABELS = arenas_module.FORMULA, arenas_module.FUNCTIONALS, arenas_module.LABELS
TREES = {"n_estimators": 3, "num_leaves": 3, "min_data_in_leaf": 3}
SEEDS = st.integers(0, 2**32 - 1)
MIRROR = {"model_a": "model_b", "model_b": "model_a"}


@st.composite
def arenas(draw, plain_names=True, categories=(2, 3, 4, 5), **fixed):
    """Small arenas with a connected graph: models, categories, repeated votes, certain winners."""
    return arenas_module.draw_arena(
        np.random.default_rng(draw(SEEDS)),
        n_votes=draw(st.integers(20, 120)),
        n_models=draw(st.integers(2, 6)),
        n_categories=draw(st.sampled_from(categories)),
        certain=draw(st.booleans()),
        plain_names=plain_names,
        **({"repeats": draw(st.booleans())} | fixed),
    )


def options_of(**fixed):
    """Options that suit these arenas; ``fixed`` replaces some of them."""
    needed = {
        "functional": st.sampled_from(FUNCTIONALS),
        "context": st.just("prompt"),
        "propensity": st.sampled_from(["marginal", "estimate"]),
        "n_folds": st.sampled_from([2, 3, 5]),
        "rng": st.integers(0, 5),
        "min_labels": st.just(1),
        "n_jobs": st.just(1),
    }
    free = {
        "position_bias": st.booleans(),
        "edge_weights": st.just("counts"),
        "average": st.just("preferences"),
        "prompts": st.just("fixed"),
        "alpha": st.sampled_from([0.2, 1e-4]),
        "floor": st.sampled_from([0.0, 0.1]),
        "n_rep": st.just(2),
        "weights": st.just("importance"),
    }
    needed |= {name: st.just(value) for name, value in fixed.items()}
    return st.fixed_dictionaries(needed, optional={k: v for k, v in free.items() if k not in fixed})


def fit(frame, formula=FORMULA, **options):
    """The result of a fit, or the class of dmlrank's error that refuses it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dr.DmlrankWarning)
        try:
            return dr.dml_rank(formula, frame, **in_objects(options))
        except dr.DmlrankError as error:
            return type(error)


def assert_near(one, other, tolerance, places=None):
    """Scores and covariance are equal up to rounding, or both fits are refused for the same reason."""
    if isinstance(one, type) or isinstance(other, type):
        assert one is other
        return
    places = np.arange(len(one.names)) if places is None else places
    size = 1 + np.abs(one.params).max()
    np.testing.assert_allclose(other.params, one.params.to_numpy()[places], rtol=0, atol=tolerance * size)
    covariance = one.cov_params().to_numpy()[np.ix_(places, places)]
    np.testing.assert_allclose(
        other.cov_params(), covariance, rtol=0, atol=tolerance * (size + np.abs(covariance).max())
    )


def assert_same_bits(one, other):
    """Every stored number and text is the same, or both fits are refused for the same reason."""
    if isinstance(one, type) or isinstance(other, type):
        assert one is other
        return
    assert other.to_json() == one.to_json()
    assert str(other.summary()) == str(one.summary())


@given(arena=arenas(), options=options_of(), seed=SEEDS)
def test_relabelling_models_permutes_the_scores(arena, options, seed):
    """Tolerance 1e-5: the main effects to which frequencies are shrunk end at another rounding of their optimum."""
    order = np.random.default_rng(seed).permutation(len(arena.models))
    called = {name: f"z{place}" for name, place in zip(arena.models, order, strict=True)}
    renamed = arena.frame.assign(**{role: arena.frame[role].map(called) for role in ("model_a", "model_b")})
    one, other = fit(arena.frame, **options), fit(renamed, **options)
    places = None if isinstance(one, type) else [one.models.index(n) for n in sorted(one.models, key=called.get)]
    assert_near(one, other, 1e-5, places)


@given(arena=arenas(), options=options_of(), seed=SEEDS)
def test_the_order_of_rows_does_not_matter(arena, options, seed):
    """Tolerance 1e-9: sums run in another order of the prompts. Folds do not depend on the order.

    Without ``context=`` every row is a prompt that its position identifies, so that other orders have other folds.
    """
    rows = np.random.default_rng(seed).permutation(len(arena.frame))
    assert_near(fit(arena.frame, **options), fit(arena.frame.iloc[rows], **options), 1e-9)


@given(arena=arenas(), options=options_of())
def test_showing_all_pairs_the_other_way_round_changes_nothing(arena, options):
    """Tolerance 1e-5, as above. The position effect turns its sign."""
    frame = arena.frame
    mirrored = frame.assign(model_a=frame["model_b"], model_b=frame["model_a"], winner=frame["winner"].replace(MIRROR))
    one, other = fit(frame, **options), fit(mirrored, **options)
    assert_near(one, other, 1e-5)
    if not isinstance(one, type) and one.estimates.description.ordered:
        effect = one.diagnostics.position_effect
        assert other.diagnostics.position_effect == pytest.approx(-effect, abs=1e-5, nan_ok=True)


@given(arena=arenas(), options=options_of(), seed=SEEDS)
def test_the_spelling_of_labels_does_not_matter(arena, options, seed):
    """The same bits of scores and covariance, whatever the categories are called and in whichever order they sort."""
    labels = LABELS[arena.n_categories]
    words = [f"label {k}" for k in np.random.default_rng(seed).permutation(len(labels))]
    meanings = dict(zip(labels, ("first", "second", "both_good", "both_bad", "tie"), strict=False))
    if arena.n_categories == 3:
        meanings["tie"] = "tie"
    spelt = arena.frame.assign(winner=arena.frame["winner"].map(dict(zip(labels, words, strict=True))))
    categories = {word: meanings[label] for label, word in zip(labels, words, strict=True)}
    one, other = fit(arena.frame, **options), fit(spelt, categories=categories, **options)
    assert isinstance(one, type) == isinstance(other, type)
    if not isinstance(one, type):
        np.testing.assert_array_equal(one.params, other.params)
        np.testing.assert_array_equal(one.cov_params(), other.cov_params())


def known_first_stages(arena, seed):
    """mu and propensities of every prompt in order of first appearance, and the prompts."""
    rng, size = np.random.default_rng(seed), len(arena.models)
    prompts = list(dict.fromkeys(arena.frame["prompt"]))
    mu = 0.05 + rng.dirichlet(np.ones(arena.n_categories), size=(len(prompts), size, size))
    mu /= mu.sum(axis=-1, keepdims=True)
    return mu, rng.uniform(0.1, 1, size=(len(prompts), size, size)), prompts


# The functionals of known mu; a floor would move it.
KNOWN = {"context": "prompt", "min_labels": 1, "graph": "complete", "floor": 0.0, "n_jobs": 1, "rng": 0}


def all_seen(arena):
    """Whether every model and every category is in the votes, so that arrays of known mu have their sizes."""
    shown = set(arena.frame["model_a"]) | set(arena.frame["model_b"])
    return len(shown) == len(arena.models) and arena.frame["winner"].nunique() == arena.n_categories


@given(arena=arenas(repeats=True), functional=st.sampled_from(FUNCTIONALS), seed=SEEDS)
def test_votes_on_a_cell_count_as_their_mean(arena, functional, seed):
    """Tolerance 1e-10: votes that are merged into one row of category shares give the scores of the single votes."""
    assume(all_seen(arena))
    mu, propensity, prompts = known_first_stages(arena, seed)
    labels = LABELS[arena.n_categories]
    shares = pd.get_dummies(arena.frame["winner"])[list(labels)].astype(float)
    shares.columns = [f"p{k}" for k in range(len(labels))]
    cell = ["prompt", "model_a", "model_b"]
    merged = pd.concat([arena.frame[cell], shares], axis=1).groupby(cell, sort=False, as_index=False).mean()
    meanings = dict(zip(shares.columns, ("first", "second", "both_good", "both_bad", "tie"), strict=False))
    if arena.n_categories == 3:
        meanings["p2"] = "tie"
    assert list(dict.fromkeys(merged["prompt"])) == prompts
    known = KNOWN | {"mu": mu, "propensity": propensity, "functional": functional, "position_bias": True}
    one = fit(arena.frame, **known)
    other = fit(merged, f"{' + '.join(shares.columns)} ~ 1 | model_a + model_b", categories=meanings, **known)
    assert_near(one, other, 1e-10)


@given(arena=arenas(), functional=st.sampled_from(FUNCTIONALS), seed=SEEDS)
def test_whole_weights_are_repeated_prompts(arena, functional, seed):
    """Tolerance 1e-9; the covariance is that of the copies, clustered by prompt, without the factor G / (G - 1)."""
    assume(all_seen(arena))
    mu, propensity, prompts = known_first_stages(arena, seed)
    times = np.random.default_rng(seed).integers(1, 4, size=len(prompts))
    place = {prompt: k for k, prompt in enumerate(prompts)}
    copies = [
        arena.frame[times[arena.frame["prompt"].map(place)] > copy].assign(
            original=lambda rows: rows["prompt"], prompt=lambda rows, copy=copy: rows["prompt"] + f" copy {copy}"
        )
        for copy in range(3)
    ]
    repeated = pd.concat(copies, ignore_index=True)
    which = [place[prompt.partition(" copy")[0]] for prompt in dict.fromkeys(repeated["prompt"])]
    known = KNOWN | {"functional": functional, "position_bias": True}
    one = fit(arena.frame, mu=mu, propensity=propensity, weights=times.astype(float), **known)
    known |= {"cov_type": "cluster", "cov_kwds": {"groups": "original"}}
    other = fit(repeated, mu=mu[which], propensity=propensity[which], **known)
    assert isinstance(one, type) == isinstance(other, type)
    if isinstance(one, type):
        return
    np.testing.assert_allclose(one.params, other.params, rtol=1e-9, atol=1e-9)
    if functional == "borda" and not one.diagnostics.pairs_without_variation:
        n = len(prompts)
        np.testing.assert_allclose(one.cov_params(), other.cov_params() * (n - 1) / n, rtol=1e-7, atol=1e-12)


KINDS = {
    "object": lambda frame: frame.astype(object),
    "convert_dtypes": lambda frame: frame.convert_dtypes(),
    "arrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "categories": lambda frame: frame.astype({"winner": "category", "prompt": "category", "topic": "category"}),
    "polars": lambda frame: pl.from_pandas(frame.infer_objects()),
    "pyarrow": lambda frame: pa.Table.from_pandas(frame.infer_objects()),
    "index": lambda frame: frame.set_index(np.arange(len(frame))[::-1] // 2),
    "float32 weights": lambda frame: frame.astype({"importance": "float32"}),
}


@given(arena=arenas(), options=options_of(), kind=st.sampled_from(sorted(KINDS)))
def test_the_kind_of_frame_does_not_matter(arena, options, kind):
    """The same bits of every stored number and text."""
    assert_same_bits(fit(arena.frame, **options), fit(KINDS[kind](arena.frame), **options))


@given(data=st.sampled_from([{"winner": ["model_a"]}, [1], None, "battles.csv", 3.0, np.zeros((2, 3)), iter(())]))
def test_what_is_no_frame_is_refused_as_such(data):
    """A mapping of columns is no frame: it has no rows."""
    assert fit(data, rng=0) is dr.exceptions.FrameTypeError


CHANGES = st.sampled_from(
    [
        {"functional": "bt"}, {"functional": "rank_centrality"}, {"functional": "softmin"}, {"functional": "dominance"},
        {"average": "preferences"}, {"average": "scores"}, {"context": None}, {"context": ("prompt", "topic")},
        {"propensity": "estimate"}, {"propensity": "marginal"}, {"propensity": "~ x"}, {"estimator": "plugin"},
        {"judge": "verdict"}, {"judge_as": "features"}, {"adjust": "~ x"}, {"learner": "lightgbm"}, {"n_folds": 4},
        {"n_rep": 2},
        {"tune": None}, {"tune": TREES}, {"position_bias": True}, {"position_bias": False}, {"graph": "complete"},
        {"min_labels": 2}, {"component": "largest"}, {"edge_weights": "counts"},
        {"weights": "importance"},
        {"weights": None}, {"categories": {"tie": "both_bad"}}, {"category_weights": "paper"}, {"prompts": "fixed"},
        {"floor": 0.2},
        {"floor": 0.0}, {"second_order": False},
        {"cov_type": "cluster", "cov_kwds": {"groups": "topic"}},
        {"missing": "drop"},
        {"min_votes": 3},
        {"alpha": 0.3}, {"rng": 9}, {"n_jobs": 2}, {"mu": None},
    ]
)  # fmt: skip


@given(arena=arenas(), options=options_of(), change=CHANGES, features=st.sampled_from(["1", "x + C(g)"]))
def test_an_update_is_the_fit_that_its_options_describe(arena, options, change, features):
    """The same bits of every stored number and text."""
    if features != "1":
        options = options | {"tune": TREES}
    formula = f"winner ~ {features} | model_a + model_b"
    one = fit(arena.frame, formula, **options)
    assume(not isinstance(one, type))
    fresh = fit(arena.frame, formula, **(options | change))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dr.DmlrankWarning)
        try:
            updated = one.update(**change)
        except dr.DmlrankError as error:
            updated = type(error)
    assert_same_bits(fresh, updated)


@given(arena=arenas(), options=options_of(), names=st.lists(st.text(max_size=8), min_size=6, max_size=6, unique=True))
def test_a_stored_result_is_the_result(arena, options, names):
    """The same bits after JSON and pickle, whatever the models are called."""
    names = [name for name in names if name]
    assume(len(names) >= len(arena.models))
    called = dict(zip(arena.models, names, strict=False))
    frame = arena.frame.assign(**{role: arena.frame[role].map(called) for role in ("model_a", "model_b")})
    one = fit(frame, **options)
    assume(not isinstance(one, type))
    for other in (dr.read_json(one.to_json()), pickle.loads(pickle.dumps(one))):
        assert_same_bits(one, other)


@given(arena=arenas(), functional=st.sampled_from(FUNCTIONALS), column=st.sampled_from(["g", "topic"]))
def test_groups_of_a_partition_average_to_the_scores(arena, functional, column):
    """Tolerance 1e-9: the scores are the means of the groups' scores, weighted by their numbers of prompts.

    Scores beyond the limits of a functional, such as win shares above 1, are set to the limit, in each group by itself.
    """
    options = {"functional": functional, "context": "prompt", "propensity": "marginal", "min_labels": 1, "n_folds": 2}
    one = fit(arena.frame, f"winner ~ C({column}) | model_a + model_b", tune=TREES, rng=0, n_jobs=1, **options)
    assume(not isinstance(one, type) and one.estimates.has_intervals)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dr.DmlrankWarning)
        try:
            groups = one.by(column)
        except dr.DmlrankError:
            assume(False)
    all_scores = np.concatenate([one.params, *(groups[name].params for name in groups.groups)])
    assume(not np.isin(all_scores, (0.0, 1.0)).any())
    counts = arena.frame.drop_duplicates("prompt")[column].value_counts()
    mean = sum(groups[name].params * counts[name] for name in groups.groups) / counts.sum()
    np.testing.assert_allclose(mean, one.params, rtol=0, atol=1e-9 * (1 + np.abs(one.params).max()))
    assert sum(groups[name].nobs for name in groups.groups) == one.nobs
