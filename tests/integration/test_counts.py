"""Tables of counts: numbers of wins and ties in columns, which stand for as many votes."""

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import DataError, OutcomeError
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


@pytest.mark.parametrize(
    ("columns", "error", "match"),
    [
        ({"p_a": [60, 55], "p_b": [40, 45]}, OutcomeError, "sums to 100"),
        ({"x": [6, 5], "y": [4, 5]}, OutcomeError, "categories="),
        ({"wins_a": [6.5, 5], "wins_b": [4, 5]}, OutcomeError, "sums to 10.5"),
        ({"wins_a": [-6, 5], "wins_b": [4, 5]}, OutcomeError, "negative"),
        ({"wins_a": [10**9, 5], "wins_b": [4, 5]}, DataError, "shares of votes sum to one|Shares of votes sum to one"),
    ],
)
def test_columns_that_are_no_counts(columns, error, match):
    table = pd.DataFrame({"home": ["a", "b"], "away": ["b", "a"]} | columns)
    with pytest.raises(error, match=match):
        dr.dml_rank(f"{' + '.join(columns)} ~ 1 | home + away", table, rng=0)
