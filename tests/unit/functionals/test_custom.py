"""Custom functionals against the built-in ones, and the errors of functions that cannot be functionals."""

import numpy as np
import pytest

from dmlrank.exceptions import GraphError, OptionError, OptionTypeError
from dmlrank.functionals import (
    Borda,
    BradleyTerry,
    CategoryWeights,
    Custom,
    Dominance,
    Functional,
    Gauge,
    Graph,
    RankCentrality,
    SoftMin,
)
from dmlrank.functionals.custom import examine

KINDS = {
    "borda": lambda weights, graph: Borda(weights, graph),
    "bt": lambda weights, graph: BradleyTerry(weights, graph),
    "rank_centrality": lambda weights, graph: RankCentrality(weights, graph, walk="rate"),
    "dominance": lambda weights, graph: Dominance(weights, graph),
    "softmin": lambda weights, graph: SoftMin(weights, graph),
}
HALF = CategoryWeights.half(2)


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kind(request):
    return request.param


def custom(function, n_items=4, graph=None, weights=HALF, **options):
    return Custom(function, **options).bind(weights, graph or Graph.all_pairs(n_items))


@pytest.mark.parametrize("n_items", [2, 4, 8])
def test_differences_agree_with_the_built_in_derivative(kind, weights, draw_mu, draw_graph, n_items):
    rng = np.random.default_rng(0)
    graph = draw_graph(rng, n_items)
    built_in = kind(weights, graph)
    functional = custom(built_in.value, n_items, graph, weights)
    examine(functional, n_items)
    mu = draw_mu(rng, 5, n_items, weights.n_categories)
    # Corrections divide by propensities: a direction may be thousands of times as long as a probability.
    for scale in (1e-3, 1.0, 5e3):
        delta = scale * rng.normal(size=mu.shape) * graph.edges[:, :, None]
        value, derivative = functional.value_and_derivative(mu, delta)
        np.testing.assert_array_equal(value, built_in.value(mu))
        expected = built_in.derivative(mu, delta)
        np.testing.assert_allclose(derivative, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_steps_stay_inside_the_simplex(draw_mu):
    tables = []

    def looked_at(mu):
        tables.append(mu[..., 0][:, ~np.eye(4, dtype=bool)])
        return np.log(mu[:, 0, 1])

    mu = draw_mu(np.random.default_rng(2), 50, 4, 2, floor=1e-3)
    delta = 1e4 * np.random.default_rng(3).normal(size=mu.shape)
    Custom(looked_at).derivative(mu, delta)
    assert min(table.min() for table in tables) > 0
    off = mu[..., 0][:, ~np.eye(4, dtype=bool)]
    for table in tables:
        assert (np.abs(table - off) <= 1.0001e-4 * off).all()


def test_information_and_accumulate_agree_with_the_built_in_ones(kind, weights, draw_mu, draw_graph):
    rng = np.random.default_rng(4)
    graph = draw_graph(rng, 4)
    built_in, mu = kind(weights, graph), draw_mu(rng, 3, 4, weights.n_categories)
    functional = custom(built_in.value, 4, graph, weights)
    root, amount = rng.normal(size=(4, 4)), rng.uniform(1, 5, size=(3, 4, 4))
    labels = draw_mu(rng, 3, 4, weights.n_categories)
    for metric in (None, root @ root.T):
        expected = built_in.information(mu, metric)
        np.testing.assert_allclose(functional.information(mu, metric), expected, rtol=1e-6, atol=1e-9 * expected.max())
    for at in (None, labels):
        expected = built_in.accumulate(mu, amount, at)
        np.testing.assert_allclose(functional.accumulate(mu, amount, at), expected, rtol=0, atol=1e-7 * expected.max())


def test_without_order_both_orders_count_alike(draw_mu):
    mu = draw_mu(np.random.default_rng(5), 3, 4, 3)
    one_way = Custom(lambda mu: mu[:, 0, 1, :2], mirrored=True)
    np.testing.assert_allclose(one_way.value(mu), (mu[:, 0, 1, :2] + mu[:, 1, 0, [1, 0]]) / 2)


def test_names_of_outputs():
    items = ("a", "b", "c")

    def first_chance(mu):
        return mu[:, 0, 1, 0]

    def two(mu):
        return mu[:, 0, 1, :2]

    assert custom(Borda(HALF).value, 3).names(items) == items
    assert custom(first_chance, 3).names(items) == ("first_chance",)
    assert custom(two, 3).names(items) == ("two_1", "two_2")
    assert custom(lambda mu: mu[:, 0, 1, 0], 3).names(items) == ("own function",)
    assert custom(two, 3, outputs=("win", "loss")).names(items) == ("win", "loss")
    assert custom(two, 3).neutral(3) == 0.0
    assert custom(two, 3, reference=0.5).neutral(3) == 0.5
    assert custom(Borda(HALF).value, 3).neutral(3) is None


def test_the_gauge_is_spanned_by_the_fixed_combinations():
    functional = custom(Borda(HALF).value, 3, fixed=np.ones(3))
    np.testing.assert_allclose(functional.gauge(3).basis, [np.ones(3) / np.sqrt(3)])
    assert custom(Borda(HALF).value, 3).gauge(3).basis.shape == (0, 3)
    with pytest.raises(OptionError, match="said to fix"):
        examine(custom(Borda(HALF).value, 3, fixed=np.ones(2)), 3)
    with pytest.raises(OptionError, match="independent rows"):
        examine(custom(Borda(HALF).value, 3, fixed=np.ones((2, 3))), 3)


def preference(mu):
    return HALF.symmetric(mu)


NOT_SMOOTH = {
    "minimum": (lambda mu: (preference(mu) + 9 * np.eye(mu.shape[1])).min(axis=2), "a kink.*SoftMin"),
    "indicator": (lambda mu: (preference(mu) > 0.6).mean(axis=2), "a jump.*Dominance"),
    "rank": (lambda mu: preference(mu).sum(axis=2).argsort(axis=1).argsort(axis=1), "a jump"),
    "median": (lambda mu: np.median(preference(mu), axis=2), "a kink"),
}


@pytest.mark.parametrize(("function", "message"), NOT_SMOOTH.values(), ids=NOT_SMOOTH)
@pytest.mark.parametrize("n_items", [4, 7])
def test_jumps_and_kinks_are_refused_and_the_smooth_one_is_named(function, message, n_items):
    with pytest.raises(OptionError, match=message):
        examine(custom(function, n_items), n_items)


@pytest.mark.parametrize("n_items", [2, 3, 5, 12])
def test_smooth_functions_pass_however_sharp(weights, n_items):
    for functional in (
        Borda(weights),
        BradleyTerry(weights),
        RankCentrality(weights, walk="rate"),
        Dominance(weights, sharpness=200),
        SoftMin(weights, sharpness=200),
    ):
        examine(custom(functional.value, n_items, weights=weights), n_items)
    examine(custom(lambda mu: np.full((len(mu), 1), 3.0), n_items), n_items)


def draws_numbers():
    rng = np.random.default_rng(0)
    return lambda mu: rng.normal(size=len(mu))


WRONG = {
    "fails": (lambda mu: mu[:, 0, 99, 0], "fails: IndexError"),
    "shape": (lambda mu: mu[..., 0], r"returns shape \(\d, 4, 4\)"),
    "diagonal": (lambda mu: np.log(mu[..., 0]).sum(axis=2), "NaN or infinity; .* j = k are zero"),
    "domain": (
        lambda mu: np.log(0.6 - mu[:, 0, 1, 0]),
        "NaN or infinity",
    ),
    "mixes": (lambda mu: mu[:, 0, 1, 0] - mu[:, 0, 1, 0].mean(), "with other contexts"),
    "random": (draws_numbers(), "another value when it is called again"),
    "text": (lambda mu: ["high"] * len(mu), "holds no real numbers"),
    "nothing": (lambda mu: np.empty((len(mu), 0)), "returns 0 numbers"),
}


@pytest.mark.parametrize(("function", "message"), WRONG.values(), ids=WRONG)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_functions_that_cannot_be_functionals_are_refused(function, message):
    with pytest.raises(OptionError, match=message):
        examine(custom(function), 4)


@pytest.mark.parametrize("weights", [CategoryWeights.half(n) for n in (2, 3, 4)], ids=str)
def test_a_trial_stays_inside_the_simplex_and_takes_an_entropy(weights):
    seen = []

    def entropy(mu):
        off = mu[:, ~np.eye(4, dtype=bool)]
        seen.append((off.min(), abs(off.sum(axis=-1) - 1).max()))
        return -(off * np.log(off)).sum(axis=(1, 2))

    examine(custom(entropy, weights=weights), 4)
    assert min(low for low, _ in seen) > 0
    assert max(error for _, error in seen) < 1e-9
    with pytest.raises(OptionError, match=r"leave it out"), np.errstate(invalid="ignore"):
        examine(custom(entropy, weights=weights, interior=False), 4)


def shares(mu):
    return preference(mu).sum(axis=2) / (mu.shape[1] - 1)


def curved(mu):
    return np.tanh(4 * (shares(mu) - 0.5))


def written(as_class, value, fixed=None, linear=False, derivative=None):
    """A functional with claims, as a function or as a class."""
    if not as_class:
        return Custom(value, fixed=fixed, linear=linear, directional=derivative, interior=False)

    class Own(Functional):
        interior = False

        def value(self, mu):
            return value(mu)

        def gauge(self, n_items):
            return super().gauge(n_items) if fixed is None else Gauge.spanned_by(fixed, "a reason")

    Own.linear = linear
    if derivative is not None:
        Own.derivative = lambda self, mu, delta: derivative(mu, delta)
    return Own()


def misses_one(mu, delta):
    return shares(delta) * np.array([1, 1, 1, 1.1])


FALSE = {
    "fixed": ((shares, [[1, -1, 0, 0]]), r"said to fix \+1\*model_0 -1\*model_1, which is .* and .*arrays of"),
    "linear": ((curved, None, True), "said to be linear, .*leave out linear=True"),
    "derivative": ((shares, None, False, misses_one), r"derivative of functional .*output 4.*leave it out"),
    "jump": ((lambda mu: (shares(mu) > 0.5) * 1.0,), "a jump"),
    "nan": ((lambda mu: shares(mu) * np.nan,), "NaN or infinity"),
    "shape": ((lambda mu: shares(mu)[:2],), r"returns shape \(2, 4\) for 4 contexts"),
    "mixed": ((lambda mu: shares(mu) - shares(mu).mean(axis=0),), "with other contexts"),
    "fails": ((lambda mu: mu[:, 9],), "fails: IndexError"),
}


@pytest.mark.parametrize("as_class", [False, True])
@pytest.mark.parametrize(("arguments", "message"), FALSE.values(), ids=FALSE)
def test_false_claims_are_refused_of_functions_and_of_classes(as_class, arguments, message):
    with pytest.raises(OptionError, match=message):
        examine(written(as_class, *arguments).bind(HALF), 4)
    examine(written(as_class, shares, np.ones(4), True, lambda mu, delta: shares(delta)).bind(HALF), 4)


def test_a_class_has_a_name_and_a_coefficient_for_each_score():
    class One(Functional):
        def value(self, mu):
            return mu[:, 0, 1, :1]

    with pytest.raises(OptionError, match=r"returns 1 numbers per context for 4 models, but has 4 names.*names\(\)"):
        examine(One().bind(HALF), 4)
    One.names = lambda self, items: ("chance",)
    examine(One().bind(HALF), 4)
    One.gauge = lambda self, n_items: Gauge.spanned_by(np.ones(n_items), "a reason")
    with pytest.raises(OptionError, match=r"fix 4 scores; allowed: coefficients of 1"):
        examine(One().bind(HALF), 4)
    One.value = lambda self, mu: mu[:, 0, 1, 0]
    with pytest.raises(OptionError, match=r"returns shape \(4,\) for 4 contexts"):
        examine(One().bind(HALF), 4)


def test_pairs_that_are_not_compared_may_not_be_used():
    path = Graph.of([(0, 1), (1, 2), (2, 3)], 4)
    with pytest.raises(GraphError):
        examine(custom(Borda(HALF).value, 4, path), 4)
    examine(custom(Borda(HALF, path).value, 4, path), 4)


def test_an_analytic_derivative_is_checked_and_used(draw_mu):
    bt, calls = BradleyTerry(HALF), []

    def analytic(mu, delta):
        calls.append(len(mu))
        return bt.derivative(mu, delta)

    functional = custom(bt.value, directional=analytic)
    examine(functional, 4)
    mu = draw_mu(np.random.default_rng(6), 3, 4, 2)
    calls.clear()
    np.testing.assert_array_equal(functional.derivative(mu, mu), bt.derivative(mu, mu))
    assert calls == [3]
    with pytest.raises(OptionError):
        examine(custom(bt.value, directional=lambda mu, delta: 1.001 * bt.derivative(mu, delta)), 4)
    with pytest.raises(OptionError):
        examine(custom(bt.value, directional=lambda mu, delta: bt.derivative(mu, delta)[:, :3]), 4)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Custom("bt"), OptionTypeError),
        (lambda: Custom(len, directional=3), OptionTypeError),
        (lambda: Custom(len, outputs=()), OptionError),
        (lambda: Custom(len, outputs=("a", "a")), OptionError),
        (lambda: examine(custom(Borda(HALF).value, outputs=("a", "b")), 4), OptionError),
        (lambda: Custom(len).bind(edge_weights=np.ones((3, 3))), OptionError),
    ],
)
def test_wrong_arguments_are_refused(make, error):
    with pytest.raises(error):
        make()
