"""Rank sets against their definition over all pairs, letters against their meaning, and first place."""

from __future__ import annotations

import itertools
import re
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

import dmlrank as dr
from dmlrank.data.graph import Graph, VoteCounts
from dmlrank.inference import bootstrap_and_max_t
from dmlrank.inference.bootstrap_and_max_t import MultiplierBootstrap, differences, holm
from dmlrank.inference.covariance import Covariance, free_basis
from dmlrank.inference.ranks import (
    first_place,
    letter_groups,
    multiple_needed,
    power_of,
    rank_bounds,
    rank_changes,
    ranks_of,
    smallest_gap,
)
from dmlrank.inference.simultaneous import MaxT, Separation, separate, separate_each


def draw_covariance(rng, d, size=1.0):
    basis = free_basis(np.ones((1, d)) / np.sqrt(d), d)
    root = size * basis @ (0.5 * rng.normal(size=(d - 1, d - 1)) + np.eye(d - 1))
    return Covariance(root @ root.T, basis)


def by_definition(estimate, noise, alpha, about=None):
    """Sets for all ranks (or that of one model): step down over ordered pairs, then count who is above and below."""
    k = len(estimate)
    left = [p for p in itertools.permutations(range(k), 2) if about is None or about in p]
    pairs = differences(noise.covariance, *np.array(left).T)
    rows = np.hstack([rows(np.arange(len(left))) for rows in noise.draws.blocks(pairs)])
    drawn = dict(zip(left, rows, strict=True))
    t = {p: (estimate[p[0]] - estimate[p[1]]) / s for p, s in zip(left, pairs.std_error, strict=True)}
    above = np.zeros((k, k), dtype=bool)
    while left:
        critical = np.quantile(np.max([drawn[p] for p in left], axis=0), 1 - alpha)
        rejected = [p for p in left if t[p] > critical]
        if not rejected:
            break
        for better, worse in rejected:
            above[better, worse] = True
        left = [p for p in left if p not in rejected]
    lower = [1 + sum(above[other, j] for other in range(k)) for j in range(k)]
    upper = [k - sum(above[j, other] for other in range(k)) for j in range(k)]
    return np.array(lower), np.array(upper)


@pytest.mark.parametrize("seed", range(8))
def test_sets_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 7))
    covariance, estimate = draw_covariance(rng, k), 2 * rng.normal(size=k)
    # So many draws that both round to the same decision, and one block of them.
    noise = MaxT(covariance, seed, n_draws=4096)
    joint = separate(estimate, noise, 0.1)
    np.testing.assert_array_equal(rank_bounds(joint.above), by_definition(estimate, noise, 0.1))
    each = separate_each(estimate, noise, 0.1)
    lower, upper = rank_bounds(each[:, :, 0], each[:, :, 1])
    for j in range(k):
        alone = by_definition(estimate, noise, 0.1, about=j)
        assert (lower[j], upper[j]) == (alone[0][j], alone[1][j])
    both = rank_bounds(joint.above)
    assert (both[0] <= lower).all()
    assert (upper <= both[1]).all()
    assert ((both[0] <= ranks_of(estimate)) & (ranks_of(estimate) <= both[1])).all()


def test_two_models_are_separated_by_a_plain_two_sided_test():
    basis = np.array([[1.0], [-1.0]]) / np.sqrt(2)
    covariance = Covariance(np.array([[1.0, -1.0], [-1.0, 1.0]]), basis)
    joint = separate(np.array([1.9, 0.0]), MaxT(covariance), 0.05)
    assert joint.critical == pytest.approx(norm.ppf(0.975), abs=0.02)
    assert joint.n_separated == 0
    apart = separate(np.array([3.95, 0.0]), MaxT(covariance), 0.05)
    assert apart.above.tolist() == [[False, True], [False, False]]


def test_scores_that_do_not_vary_separate_nothing():
    covariance = Covariance(np.zeros((3, 3)), free_basis(np.ones((1, 3)) / np.sqrt(3), 3))
    joint = separate(np.array([1.0, 0.0, -1.0]), MaxT(covariance), 0.05)
    assert not joint.separated.any()
    assert np.isnan(joint.critical)
    assert not separate_each(np.zeros(3), MaxT(covariance), 0.05).any()


def test_the_smallest_gap_is_shown_with_the_power_that_is_promised():
    for critical in (1.96, 3.1):
        gap = smallest_gap(0.11, critical, 0.9)
        assert norm.sf(critical - gap / 0.11) == pytest.approx(0.9, abs=1e-6)
        assert power_of(gap, 0.11, critical) == pytest.approx(0.9)
        assert power_of(-gap, 0.11, critical) == pytest.approx(0.9)
        assert multiple_needed(-gap / 2, 0.11, critical, 0.9) == pytest.approx(4)
    assert multiple_needed(0.0, 0.11, 1.96) == np.inf


def test_ranks_and_their_changes_by_hand():
    above, below, first, later = np.zeros((4, 3, 3), dtype=bool)
    above[0, 2] = below[1, 0] = below[2, 0] = below[2, 1] = True
    np.testing.assert_array_equal(rank_bounds(above, below), [[1, 2, 3], [2, 3, 3]])
    # The first model is above both others, and then below them.
    first[0, 1:] = later[1:, 0] = True
    found = rank_changes((np.array([3.0, 1.0, 1.0]), np.array([0.0, 1.0, 2.0])), (first, later))
    expected = {"rank_before": [1, 2, 2], "rank_after": [3, 2, 1], "rank_change": [-2, 0, 1]}
    expected |= {"rank_change_low": [-2, 0, 0], "rank_change_high": [-2, 2, 2]}
    assert {name: values.tolist() for name, values in found.items()} == expected


def test_the_critical_value_of_differences_is_the_separations():
    for k in (2, 5):
        covariance = draw_covariance(np.random.default_rng(k), k)
        draws = MaxT(covariance, 3)
        found = draws.critical_of_pairs(0.1)
        assert found == separate(np.arange(len(covariance.matrix)), draws, 0.1).critical


# --- letters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_models_share_a_letter_exactly_where_they_are_not_separated(seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 12))
    separated = np.triu(rng.uniform(size=(k, k)) < rng.uniform(), 1)
    separated |= separated.T
    scores = rng.normal(size=k)
    letters = letter_groups(separated, scores)
    for j, other in itertools.combinations(range(k), 2):
        assert bool(set(letters[j]) & set(letters[other])) != separated[j, other]
    assert all(letters)
    assert letters[int(np.argmax(scores))].startswith("a")
    used = sorted(set("".join(letters)))
    # No letter can be left out: each is the only one of some pair, or of a model that stands alone.
    for letter in used:
        fewer = [set(text) - {letter} for text in letters]
        lost = any(
            not separated[j, other] and not fewer[j] & fewer[other] for j, other in itertools.combinations(range(k), 2)
        )
        assert lost or not all(fewer)
    order = rng.permutation(k)
    again = letter_groups(separated[np.ix_(order, order)], scores[order])
    assert [again[place] for place in np.argsort(order)] == list(letters)


def test_more_groups_than_letters_are_numbered():
    k = 60
    far = np.abs(np.subtract.outer(np.arange(k), np.arange(k))) > 1
    letters = letter_groups(far, -np.arange(k, dtype=float))
    assert letters[0] == "1"
    assert letters[1] == "1,2"
    assert letters[-1] == "59"


def test_too_many_groups_have_no_letters_and_take_no_time():
    """Each pair of neighbours 2 j, 2 j + 1 is separated and no other pair: 2^30 groups of one model of each pair."""
    separated = np.zeros((60, 60), dtype=bool)
    even = np.arange(0, 60, 2)
    separated[even, even + 1] = separated[even + 1, even] = True
    assert letter_groups(separated, -np.arange(60.0)) == ("",) * 60
    assert letter_groups(separated[:8, :8], -np.arange(8.0), max_groups=15) == ("",) * 8
    assert all(letter_groups(separated[:8, :8], -np.arange(8.0), max_groups=16))


@pytest.mark.long
def test_many_models_are_separated_in_blocks_with_fewer_draws():
    """Against a plain twin with all t statistics in one array; 250 models have 62,250 ordered pairs."""
    rng = np.random.default_rng(9)
    k = 250
    covariance, estimate = Covariance(np.diag(rng.uniform(0.5, 2.0, k)), np.eye(k)), 3 * rng.normal(size=k)
    noise = MaxT(covariance, n_draws=200)
    tracemalloc.start()
    joint = separate(estimate, noise, 0.05)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    pairs = differences(covariance, *np.nonzero(~np.eye(k, dtype=bool)))
    (rows,) = [made(np.arange(len(pairs.first))) for made in noise.draws.blocks(pairs)]
    t = (estimate[pairs.first] - estimate[pairs.second]) / pairs.std_error
    order = np.argsort(-t)
    p = np.empty(len(t))
    running = np.maximum.accumulate(rows[order[::-1]], axis=0)[::-1]
    p[order] = (1 + (running >= t[order, None].astype(rows.dtype)).sum(axis=1)) / 201
    single = norm.sf(t)
    p = np.clip(p, single, holm(single))
    p[order] = np.maximum.accumulate(p[order])
    up = t > 0
    np.testing.assert_allclose(joint.p_above[pairs.first[up], pairs.second[up]], p[up])
    assert peak < rows.nbytes


def test_a_p_value_of_exactly_alpha_separates():
    p_above = np.array([[1.0, 0.05, 0.05 + 1e-12], [1.0, 1.0, 0.01], [1.0, 1.0, 1.0]])
    separation = Separation(p_above, 2.0, 0.05)
    np.testing.assert_array_equal(separation.above, [[False, True, False], [False, False, True], [False] * 3])
    assert separation.n_separated == 2
    np.testing.assert_array_equal(separation.separated, separation.above | separation.above.T)


@pytest.mark.long
def test_each_model_is_separated_up_to_a_p_value_of_exactly_alpha():
    """For two models, the families are one two-sided pair of tests with the p-value of a plain test."""
    estimate, covariance = np.array([0.2, -0.2]), Covariance(0.01 * np.array([[1.0, -1.0], [-1.0, 1.0]]), np.eye(2))
    draws = MaxT(covariance)
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        is_above = separate_each(estimate, draws, middle)[0, 1, 0]
        low, high = (low, middle) if is_above else (middle, high)
    # ``high`` is the p-value itself: the smallest float at which the models are separated.
    p = separate(estimate, draws, 0.05).p_above[0, 1]
    assert high == pytest.approx(p, abs=1e-12)
    assert separate_each(estimate, draws, p)[0, 1, 0]
    assert not separate_each(estimate, draws, np.nextafter(p, 0))[0, 1, 0]


def test_tests_of_many_differences_use_the_threads_of_the_fit(monkeypatch):
    numbers = []

    def in_order(work, tasks, n_threads, *, boosts):
        # The number of threads of LightGBM, one for the process, is left alone.
        assert not boosts
        numbers.append(n_threads)
        return map(work, tasks)

    monkeypatch.setattr(bootstrap_and_max_t, "in_order", in_order)
    noise = MaxT(Covariance(np.eye(50), np.eye(50)), n_draws=200)
    for n_jobs in (1, 3):
        noise.n_jobs = n_jobs
        separate_each(np.arange(50.0), noise, 0.05)
    assert numbers == [1, 3]
    votes = dr.datasets.simulate_arena(n=2000, rng=0)
    fitted = dr.dml_rank("winner ~ 1 | model_a + model_b", votes, n_jobs=2, rng=0)
    assert fitted.simultaneous.n_jobs == 2
    assert fitted.bootstrap("gaussian").simultaneous.n_jobs == 2


def decide(estimate, matrix):
    simultaneous = MaxT(Covariance(matrix, np.eye(len(matrix))), n_draws=10_000)
    separation = separate(estimate, simultaneous, 0.05)
    return first_place(estimate, simultaneous, separation), separation


def a_case(rng, k):
    """Estimates of k models with any covariance, of which the first leads by a few standard errors."""
    loadings = rng.normal(size=(k, k)) * np.exp(rng.normal(size=k))[:, None]
    matrix = loadings @ loadings.T
    errors = np.sqrt(matrix[0, 0] + np.diag(matrix) - 2 * matrix[0])
    estimate = -rng.uniform(1.0, 6.0, size=k) * errors
    estimate[0] = 0.0
    return estimate, matrix


def conditional_p_value(estimate, matrix, other):
    """p-value of "the leader is not above the other", given that it leads and all that is independent of its lead."""
    leader, others = 0, np.delete(np.arange(len(estimate)), 0)
    contrast = np.zeros(len(estimate))
    contrast[[leader, other]] = 1.0, -1.0
    variance = contrast @ matrix @ contrast
    lead = contrast @ estimate
    slope = matrix @ contrast / variance
    independent = estimate - slope * lead
    # The leader leads where independent + slope * D is largest at the leader.
    gaps, rates = independent[leader] - independent[others], slope[leader] - slope[others]
    low = max([0.0, *(-g / r for g, r in zip(gaps, rates, strict=True) if r > 1e-12)])
    high = min([np.inf, *(-g / r for g, r in zip(gaps, rates, strict=True) if r < -1e-12)])
    lead, low, high = (norm.sf(value / np.sqrt(variance)) for value in (lead, low, high))
    return (lead - high) / (low - high)


@pytest.mark.parametrize("seed", range(60))
def test_the_p_value_bounds_every_conditional_one(seed):
    rng = np.random.default_rng(seed)
    estimate, matrix = a_case(rng, int(rng.integers(2, 7)))
    place, _ = decide(estimate, matrix)
    z = -np.delete(estimate, 0) / np.sqrt(matrix[0, 0] + np.diag(matrix) - 2 * matrix[0])[1:]
    p = 2 * norm.sf(z.min())
    assert place.leader == 0
    assert place.p.max() <= p * (1 + 1e-9)
    assert p - place.p.max() < 0.02  # tests of all pairs are below it by the error of their draws alone
    assert max(conditional_p_value(estimate, matrix, k) for k in range(1, len(estimate))) <= p * (1 + 1e-9)


def test_two_models_are_one_test_and_names_do_not_matter():
    matrix, estimate = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([0.0, 2.6])
    place, _ = decide(estimate, matrix)
    assert place.p[0] == pytest.approx(2 * norm.sf(2.6 / np.sqrt(2)), abs=2e-3)
    # The rival is the best of those that may be first, not the one that is known least.
    assert decide(np.array([1.0, 0.5, 0.4]), np.diag([0.05, 0.05, 2.0]))[0].rival == 0
    rng = np.random.default_rng(0)
    estimate, matrix = a_case(rng, 6)
    order = rng.permutation(6)
    place, again = decide(estimate, matrix)[0], decide(estimate[order], matrix[np.ix_(order, order)])[0]
    assert order[again.leader] == place.leader
    assert order[again.others].tolist() == place.others.tolist()
    np.testing.assert_allclose(again.p, place.p, atol=2e-3)


def test_where_the_lowest_score_is_the_best_leads_and_their_limits_are_the_same():
    estimate, matrix = a_case(np.random.default_rng(1), 4)
    simultaneous = MaxT(Covariance(matrix, np.eye(4)), n_draws=10_000)
    separation = separate(estimate, simultaneous, 0.05)
    high, low = first_place(estimate, simultaneous, separation), first_place(-estimate, simultaneous, separation, -1)
    for name in ("leader", "others", "difference", "low", "high", "p"):
        np.testing.assert_allclose(getattr(low, name), getattr(high, name))
    assert (high.low < high.difference).all()


@pytest.mark.parametrize("seed", range(20))
def test_what_all_pairs_decide_is_decided(seed):
    rng = np.random.default_rng(seed)
    for _ in range(20):
        estimate, matrix = a_case(rng, int(rng.integers(2, 5)))
        place, separation = decide(estimate, matrix)
        assert place.decided or not separation.above[place.leader, place.others].all()


@pytest.mark.parametrize("spread", [1.0, 4.0])
@pytest.mark.parametrize("rivals", [[0.0, -30.0], [0.1, 0.0], [0.3, 0.0, -0.1, -0.2]])
def test_the_multiple_of_the_data_has_the_power_it_promises(rivals, spread):
    """First place is decided where the leader is above all rivals at once, which takes more than the nearest alone."""
    scores = np.array([1.0, *rivals])
    matrix = np.diag(np.linspace(1.0, spread, len(scores))) / 2
    place, _ = decide(scores, matrix)
    times, rng = place.times_more(0.8), np.random.default_rng(0)
    drawn = rng.multivariate_normal(scores, matrix / times, size=20_000)
    errors = np.sqrt((matrix[0, 0] + np.diag(matrix)[1:]) / times)
    shown = (drawn[:, [0]] - drawn[:, 1:]) / errors >= norm.isf(0.025)
    assert shown.all(axis=1).mean() == pytest.approx(0.8, abs=0.015)


def test_the_multiple_of_the_data_where_there_is_no_lead_or_nothing_is_open_and_with_many_rivals():
    matrix = np.eye(3) / 2
    assert decide(np.array([1.0, 1.0, 0.0]), matrix)[0].times_more(0.8) == np.inf
    # Where the data decide already no more are needed; other true leads ask for the power to find all of them.
    decided = decide(np.array([9.0, 0.0]), matrix[:2, :2])[0]
    assert decided.times_more(0.8) == 0
    assert decided.times_more(0.8, leads=np.ones(1)) == pytest.approx((norm.isf(0.025) + norm.isf(0.2)) ** 2, rel=1e-3)
    # Many rivals that are nearly decided hardly matter beside those with half of their lead.
    many = np.r_[1.0, np.zeros(10), np.full(50, -0.9)]
    of_many, of_few = (decide(part, np.eye(len(part)) / 2)[0].times_more(0.8) for part in (many, many[:11]))
    assert of_many == pytest.approx(of_few, rel=0.03)


def a_result(template: dr.RankResults, rng: np.random.Generator, largest: int = 60) -> dr.RankResults:
    """Return a result with random scores and covariance: equal estimates, looks, bootstraps and parts among them."""
    k = int(np.exp(rng.uniform(np.log(2), np.log(largest + 1))))
    units = rng.normal(size=(k + 40, k)) * rng.uniform(0.3, 3.0, size=k) * 0.3 / (k + 40)
    if rng.random() < 0.3:
        units += rng.normal(size=(k + 40, 1)) / (k + 40)
    error = float(np.sqrt(2 * np.mean(np.square(units).sum(axis=0))))
    spread = rng.choice([0.0, 0.5, 2.0, 10.0]) * error
    scores = np.clip(0.5 + spread * rng.normal(size=k) * rng.choice([1.0, 0.2], size=k), 0.01, 0.99)
    if rng.random() < 0.3:
        scores = np.round(scores, int(rng.integers(1, 4)))
    covariance = Covariance(units.T @ units, np.eye(k))
    seed = int(rng.integers(1000))
    estimates = replace(
        template.estimates,
        models=tuple(f"m{j}" for j in range(k)),
        estimate=scores,
        plugin=scores,
        shares=scores,
        covariance=covariance,
        fixed=np.zeros(k, dtype=bool),
        graph=Graph(~np.eye(k, dtype=bool)),
        votes=VoteCounts(np.full(k, 100), np.full(k, 100)),
        diagnostics=replace(template.diagnostics, models_with_few_prompts=(), second_order_by_model=()),
        part="topic = code" if rng.random() < 0.2 else "",
        alpha=float(rng.choice([0.01, 0.05, 0.3])),
    )
    kind = rng.choice(["draws", "bootstrap", "looks"], p=[0.6, 0.2, 0.2])
    if kind == "looks":
        return dr.RankResults(estimates).sequential(int(rng.integers(500, 5000)))
    multiplied = MultiplierBootstrap(units, 1.0, np.zeros((k, k)), "webb", seed, 2000) if kind == "bootstrap" else None
    simultaneous = MaxT(covariance, seed, multiplied, 10_000)
    return dr.RankResults(
        replace(estimates, critical=simultaneous.critical(estimates.alpha)), simultaneous=simultaneous
    )


def contradictions(result: dr.RankResults) -> list[str]:
    """Return what the verdict says that the table, the rank sets or the tests of pairs contradict."""
    said, ranks, pairs = result.verdict(), result.ranks(), result.t_test_pairwise()
    found = []

    def require(condition: object, what: str) -> None:
        if not condition:
            found.append(f"{what}: {said}")

    scores, frame, alpha = result.params, pairs.result_frame, result.estimates.alpha
    decided = "is first" in said
    require(decided != ("First place is not decided" in said), "says both or nothing")
    leader = re.search(r"(m\d+) (?:is first|leads)", said)[1]
    worst = ranks.loc[leader, "upper"]
    require(("First place is decided" in said) == (worst == 1), "first place is decided beside a rank that is not")
    require(not decided or worst == 1 or f"its rank in the table, 1-{worst}, allows for" in said, "no word on the rank")
    require(scores[leader] == scores.max() and ranks.loc[leader, "lower"] == 1, "the leader is not first in the table")
    require(ranks.loc[leader, "rank"] == 1, "the leader has another rank")
    if ranks.loc[leader, "upper"] == 1 or result.best_set(1) == [leader] == ranks.index[ranks["upper"] == 1].tolist():
        require(decided, "rank sets decide first place")
    apart = {k for k in result.models if not set_of(ranks, k) & set_of(ranks, leader)} - {leader}
    tied = set(result.models) - apart - {leader}
    details = " ".join(result.explain().split())
    named = re.findall(r", but (.*?) may be first, too", said) + re.findall(r"they alone leave (.*?) open", details)
    if not named:
        require(not tied, "models share a letter with the leader and are not named")
    elif named[0].startswith(("each of the other", "the other")):
        require(len(tied) == len(result.models) - 1, "not all models share a letter with the leader")
    else:
        names = set(re.findall(r"m\d+", " ".join(named)))
        n_more = sum(map(int, re.findall(r"(\d+) others", " ".join(named))))
        require(names <= tied, "models are named that do not share a letter with the leader")
        require(len(names) + n_more == len(tied), "another number of models is not separated")
    of_leader = frame[(frame["first"] == leader) | (frame["second"] == leader)]
    sign, p = re.search(r"P ([<=]) ([\d.]+)\)", said).groups()
    require(float(p) <= of_leader["p_adjusted"].fillna(1).max() + 2e-3 or sign == "<", "P is above that of all pairs")
    require((float(p) <= alpha + 1e-3 or sign == "<") if decided else float(p) >= alpha - 1e-3, "P and the decision")
    share, total = re.search(r"(\d[\d,]*) of (\d[\d,]*) pairs (?:is|are) told", said).groups()
    require(int(share.replace(",", "")) == ranks.n_separated, "another number of separated pairs")
    require(int(total.replace(",", "")) == len(frame), "another number of pairs")
    lead = re.search(r"([-\d.]+) more than (m\d+) \(.*? interval (-?[\d.]+) to (-?[\d.]+)[,)]", said)
    gap, rival, low, high = lead.groups()
    row = of_leader[(of_leader["first"] == rival) | (of_leader["second"] == rival)].iloc[0]
    turned = row["first"] != leader
    ends = sorted([-row["conf_low"], -row["conf_high"]] if turned else [row["conf_low"], row["conf_high"]])
    digits = len(gap.partition(".")[2])
    wanted = 100 * np.array([scores[leader] - scores[rival], *ends])
    if np.isfinite(ends[0]):
        close = np.abs(np.array([gap, low, high], dtype=float) - wanted) <= 0.51 * 10.0**-digits
        require(close.all(), "the lead is not that of the tests of pairs")
        require(ends[0] <= 0 or rival in apart, "the interval excludes zero, and the pair is not separated")
    require(rival in tied or not tied, "the rival is separated, and others are not")
    more = re.search(r"About ([\d,]+) \S+ in all \(([\d,]+) so far", said)
    require(more is None or not decided, "more prompts would decide what is decided")
    if more:
        require(int(more[1].replace(",", "")) > int(more[2].replace(",", "")), "fewer prompts would decide")
    summary = " ".join(" ".join(result.summary().notes).split())
    sentence = re.search(r"(?:First place|m\d+ is first) .*? pairs \S+ told apart\.", said)[0]
    require(sentence in summary, "the summary says something else")
    return found


def set_of(ranks: dr.RankSets, model: str) -> set[str]:
    """Return the letters, or the numbers, of the groups of a model."""
    letters = ranks.loc[model, "group"]
    return set(letters.split(",") if "," in letters or letters.isdigit() else letters)


@pytest.fixture(scope="module")
def template(arena_result):
    return arena_result.update(functional="borda")


@pytest.mark.parametrize("seed", range(40))
def test_no_verdict_contradicts_the_table(template, seed):
    assert contradictions(a_result(template, np.random.default_rng(seed), largest=20)) == []


def test_a_contradiction_would_be_found(template, monkeypatch):
    results = [a_result(template, np.random.default_rng(seed), largest=10) for seed in range(20)]
    monkeypatch.setattr("dmlrank.inference.ranks.FirstPlace.decided", property(lambda place: True))
    assert any(contradictions(result) for result in results)


def test_verdicts_speak_in_the_unit_of_the_reader(template):
    points = template.update(functional="rank_centrality").rescale(100).verdict()
    assert re.search(r"gpt-4 leads claude-v1 by [\d.]+ \(95 % interval", points)
    assert "of 100 comparisons" in template.verdict()
    looks = template.sequential(9000).verdict()
    assert looks.endswith("A later look may decide it. This holds at all looks from 500 prompts on.")
    with pytest.raises(dr.exceptions.NoIntervalError):
        template.update(estimator="plugin").verdict()
