"""Tables of counts: numbers of wins and ties in columns, which stand for as many votes."""

import re
import tracemalloc
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import DataError, DmlrankError, OutcomeError
from dmlrank.options import in_objects

# The family of tables of counts: names of the columns of wins and ties, their order, rows without a vote. A fit is that
# of the votes written out; rows that sum to one are shares as before.
NAMES = [
    ("home_wins", "away_wins", "ties", "home", "away"),
    ("wins_a", "wins_b", "draws", "model_a", "model_b"),
    ("win1", "win2", "tie", "player1", "player2"),
    ("H", "A", "D", "home", "away"),
    ("n_left", "n_right", "n_equal", "left", "right"),
]


def table_of(rng, names):
    first, second, tie, *sides = names
    pairs = [(j, k) for j in "pqr" for k in "pqr" if j != k]
    table = pd.DataFrame(pairs, columns=sides)
    for name in (first, second, tie):
        table[name] = rng.integers(0, 12, len(table))
    return table


@pytest.mark.parametrize("seed", range(10))
def test_counts_are_as_many_votes(seed, ignore_warnings):
    rng = np.random.default_rng(seed)
    names = NAMES[seed % len(NAMES)]
    table, (first, second, tie, *sides) = table_of(rng, names), names
    columns = [first, second, tie] if seed >= len(NAMES) else [first, second]
    rng.shuffle(columns)
    votes = [
        (row[sides[0]], row[sides[1]], label)
        for _, row in table.iterrows()
        for name, label in ((first, "model_a"), (second, "model_b"), (tie, "tie"))
        for _ in range(row[name] * (name in columns))
    ]
    written_out = pd.DataFrame(votes, columns=[*sides, "winner"])
    for options in ({"functional": "bt", "estimator": "bt_mle"}, {"functional": "borda", "min_labels": 1}):
        right = f"1 | {sides[0]} + {sides[1]}"
        res = dr.dml_rank(f"{' + '.join(columns)} ~ {right}", table, **in_objects({"rng": 0, **options}))
        expected = dr.dml_rank(f"winner ~ {right}", written_out, **in_objects({"rng": 0, **options}))
        np.testing.assert_allclose(res.params, expected.params, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(res.bse, expected.bse, rtol=1e-12, atol=1e-13)
        assert f"{len(votes)} (0 unlabelled)" in str(res.summary())
        assert f"{first} = first wins" in " ".join(str(res.summary()).split())
    counted = dr.check(f"{' + '.join(columns)} ~ {right}", table).labels["votes"]
    assert counted.to_dict() == {name: int(table[name].sum()) for name in columns}


def test_a_row_without_counts_has_no_votes_and_a_single_empty_cell_is_refused():
    table = pd.DataFrame(
        {"home": list("abab"), "away": list("baba"), "wins_a": [6.0, 5, 4, 3], "wins_b": [4.0, 5, 2, 4]}
    )
    formula = "wins_a + wins_b ~ 1 | home + away"
    without = dr.dml_rank(formula, table.assign(wins_a=[6, 5, 4, None], wins_b=[4, 5, 2, None]), rng=0)
    assert without.nobs == table.iloc[:3, 2:].to_numpy().sum()
    with pytest.raises(OutcomeError, match="column 'wins_a' is nan in row 3; numbers of votes are whole"):
        dr.dml_rank(formula, table.assign(wins_a=[6, 5, 4, None]), rng=0)


@pytest.mark.parametrize(
    ("columns", "error", "match"),
    [
        ({"p_a": [60, 55], "p_b": [40, 45]}, OutcomeError, "sums to 100"),
        ({"x": [6, 5], "y": [4, 5]}, OutcomeError, "categories="),
        ({"wins_a": [6.5, 5], "wins_b": [4, 5]}, OutcomeError, "sums to 10.5"),
        ({"wins_a": [-6, 5], "wins_b": [4, 5]}, OutcomeError, "negative"),
        ({"wins_a": [10**16, 5], "wins_b": [4, 5]}, DataError, "shares sum to one"),
    ],
)
def test_columns_that_are_no_counts(columns, error, match):
    table = pd.DataFrame({"home": ["a", "b"], "away": ["b", "a"]} | columns)
    with pytest.raises(error, match=match):
        dr.dml_rank(f"{' + '.join(columns)} ~ 1 | home + away", table, rng=0)


# Tables whose counts are large stand for their votes without a row for each of them: every number is that of the votes
# written out, in memory that grows with the rows of the table.
def lopsided(rng):
    """Unequal counts: pairs in one order only, one-sided pairs, rows without a vote, ties of some pairs."""
    sides = [(j, k) for j in "pqrst" for k in "pqrst" if j != k and rng.random() < 0.9]
    table = pd.DataFrame(sides, columns=["home", "away"])
    n = rng.integers(0, 40, len(table)) * (rng.random(len(table)) < 0.9)
    share = np.where(rng.random(len(table)) < 0.15, 1.0, rng.uniform(0.2, 0.8, len(table)))
    table["home_wins"] = rng.binomial(n, share)
    table["ties"] = rng.binomial(n - table["home_wins"], 0.4 * (rng.random(len(table)) < 0.5))
    table["away_wins"] = n - table["home_wins"] - table["ties"]
    more = pd.DataFrame({"home": list("pqrst"), "away": list("qrstp"), "home_wins": 3, "away_wins": 2, "ties": 0})
    itself = pd.DataFrame({"home": ["p"], "away": ["p"], "home_wins": [1], "away_wins": [2], "ties": [0]})
    return pd.concat([table, more, itself], ignore_index=True)


def written_out(table):
    """The votes of a table, a row each, in columns of the same names: rows of wins that sum to one."""
    columns = ["home_wins", "away_wins", "ties"]
    row, column = np.nonzero(table[columns].to_numpy())
    votes = table.iloc[row].assign(**{name: (column == place).astype(int) for place, name in enumerate(columns)})
    return votes.iloc[np.repeat(np.arange(len(votes)), table[columns].to_numpy()[row, column])]


OPTIONS = [
    {},
    {"functional": "bt"},
    {"functional": "bt", "position_bias": True, "min_labels": 1, "component": "largest"},
    {"functional": "bt", "position_bias": False, "min_labels": 5, "component": "largest"},
    {"functional": "borda", "position_bias": True, "min_labels": 1, "component": "largest"},
    {"functional": "borda", "min_votes": 60, "edge_weights": "counts"},
    {"functional": "bt", "estimator": "plugin", "min_labels": 1},
    {"functional": "bt", "estimator": "bt_mle"},
    {"functional": "bt", "estimator": "bt_mle", "position_bias": True},
    {"functional": "rank_centrality", "min_labels": 1},
    {"functional": "bt", "average": "preferences"},
    {"functional": "bt", "apart": 70},
]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_number_is_that_of_the_votes_written_out(options, seed, ignore_warnings):
    table, formula = lopsided(np.random.default_rng(seed)), "home_wins + away_wins + ties ~ 1 | home + away"
    options = in_objects({"rng": 0, **options})
    try:
        expected = dr.dml_rank(formula, written_out(table), **options)
    except DmlrankError as error:
        with pytest.raises(type(error), match=re.escape(str(error))):
            dr.dml_rank(formula, table, **options)
        return
    res = dr.dml_rank(formula, table, **options)
    assert str(res.summary()) == str(expected.summary())
    assert res.nobs == expected.nobs
    assert_same(res.diagnostics, expected.diagnostics)
    for name in ("params", "bse", "pvalues"):
        assert_same(getattr(res, name), getattr(expected, name))
    assert_same(res.cov_params(), expected.cov_params())
    if hasattr(expected, "conf_int"):
        assert_same(res.conf_int(), expected.conf_int())
        assert_same(res.t_test_pairwise().result_frame, expected.t_test_pairwise().result_frame)
        pd.testing.assert_frame_equal(res.ranks().result_frame, expected.ranks().result_frame)
        assert_same(res.wald_test("p = q").statistic, expected.wald_test("p = q").statistic)
        first, second = (res.models[j] for j in np.argwhere(res.graph.edges)[0])
        shares = [one.win_probability(first, second) for one in (res, expected)]
        assert_same(*[(share.estimate, share.std_error) for share in shares])


def assert_same(a, b):
    """Numbers agree to 12 digits, and all else is equal."""
    if hasattr(a, "__dataclass_fields__"):
        for field in fields(a):
            assert_same(getattr(a, field.name), getattr(b, field.name))
    elif isinstance(a, tuple):
        assert len(a) == len(b)
        for mine, other in zip(a, b, strict=True):
            assert_same(mine, other)
    elif isinstance(a, pd.DataFrame):
        pd.testing.assert_frame_equal(a, b, rtol=1e-12, atol=1e-12)
    elif isinstance(a, float | pd.Series | np.ndarray):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    else:
        assert a == b


@pytest.mark.parametrize("seed", range(2))
def test_a_check_counts_the_votes(seed):
    table, formula = lopsided(np.random.default_rng(seed)), "home_wins + away_wins + ties ~ 1 | home + away"
    report, expected = dr.check(formula, table), dr.check(formula, written_out(table))
    for frame in fields(report):
        pd.testing.assert_frame_equal(getattr(report, frame.name), getattr(expected, frame.name), rtol=1e-12)
    assert str(report) == str(expected)


@pytest.mark.parametrize("estimator", ["debiased", "bt_mle"])
def test_a_billion_votes_take_the_memory_of_the_table(estimator, ignore_warnings):
    table, formula = table_of(np.random.default_rng(0), NAMES[0]), "home_wins + away_wins + ties ~ 1 | home + away"
    counts = list(NAMES[0][:3])
    table[counts] = 20 + table[counts]
    many = table.assign(**{name: table[name] * 4_000_000 for name in counts})
    tracemalloc.start()
    res = dr.dml_rank(formula, many, functional="bt", estimator=estimator, rng=0)
    res.summary(), res.conf_int(), res.ranks(), res.report()
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()
    assert res.nobs == many[counts].to_numpy().sum() > 500e6
    few = dr.dml_rank(formula, table, functional="bt", estimator=estimator, rng=0)
    close = 1e-10 if estimator == "bt_mle" else 0.02
    np.testing.assert_allclose(res.params, few.params, rtol=close)
    np.testing.assert_allclose(res.bse * np.sqrt(4_000_000), few.bse, rtol=close)
    with pytest.raises(DataError, match=r"needs the votes one by one.*at most 50,000,000"):
        res.bootstrap()
    with pytest.raises(DataError, match=r"context= needs the votes one by one"):
        res.update(context="home")


def test_methods_that_need_votes_one_by_one_have_them(ignore_warnings):
    table, formula = table_of(np.random.default_rng(1), NAMES[0]), "home_wins + away_wins ~ 1 | home + away"
    votes = written_out(table.assign(ties=0)).reset_index(drop=True)
    res, expected = (dr.dml_rank(formula, data, **in_objects({"rng": 0, "min_labels": 1})) for data in (table, votes))
    assert_same(res.influence, expected.influence)
    assert_same(*[one.bootstrap(rng=0).conf_int() for one in (res, expected)])
    assert_same(*[one.fragility("p = q").result_frame.astype(str).to_dict() for one in (res, expected)])
    assert_same(*[one.update(context="home").bse for one in (res, expected)])
    assert_same(*[one.update(cov_type="cluster", groups="home").bse for one in (res, expected)])
    assert_same(*[one.design(100).propensity for one in (res, expected)])
    assert res.update(data=table.iloc[:4]).nobs == table[["home_wins", "away_wins"]].iloc[:4].to_numpy().sum()
    compared = [str(dr.compare(one, one.update(position_bias=False)).summary()) for one in (res, expected)]
    assert compared[0] == compared[1]
