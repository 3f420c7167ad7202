"""Published figures of data sets and of peers' test suites: the same data give the same figures.

Data and figures are typed in, each with its source. The scores are maximum likelihood where a source has that.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import dmlrank as dr
from dmlrank.options import in_objects


def likelihood(formula, table, **options):
    return dr.dml_rank(formula, table, **in_objects({"functional": "bt", "estimator": "bt_mle", "rng": 0, **options}))


def against(res, reference):
    return (res.params - res.params[reference]).drop(reference)


# --- R's BradleyTerry2 1.1.3 (data of its help pages; Turner and Firth 2012, J. Stat. Software 48(9)) ---

# American League 1987 (Agresti 2002, Categorical Data Analysis, table 10.10): home wins and away wins.
TEAMS = ["Milwaukee", "Detroit", "Toronto", "New York", "Boston", "Cleveland", "Baltimore"]
HOME_AND_AWAY = {
    "Milwaukee": "4-3 4-2 4-3 6-1 4-2 6-0",
    "Detroit": "3-3 4-2 4-3 6-0 6-1 4-3",
    "Toronto": "2-5 4-3 2-4 4-3 4-2 6-0",
    "New York": "3-3 5-1 2-5 4-3 4-2 6-1",
    "Boston": "5-1 2-5 3-3 4-2 5-2 6-0",
    "Cleveland": "2-5 3-3 3-4 4-3 4-2 2-4",
    "Baltimore": "2-5 1-5 1-6 2-4 1-6 3-4",
}


@pytest.fixture(scope="module")
def baseball():
    rows = [
        (home, away, *map(int, wins.split("-")))
        for home in TEAMS
        for away, wins in zip((team for team in TEAMS if team != home), HOME_AND_AWAY[home].split(), strict=True)
    ]
    return pd.DataFrame(rows, columns=["home", "away", "home_wins", "away_wins"])


BASEBALL = "home_wins + away_wins ~ 1 | home + away"


def test_baseball_without_home_advantage(baseball):
    # tests/testthat/test-baseball.R of BradleyTerry2 (Agresti 2002, table 10.11, column 3).
    found = against(likelihood(BASEBALL, baseball), "Baltimore")
    assert sorted(found.round(2)) == [0.68, 1.11, 1.25, 1.29, 1.44, 1.58]


def test_baseball_with_home_advantage(baseball):
    # The same file: abilities of column 5, and the coefficient at.home; the vignette has its four digits.
    res = likelihood(BASEBALL, baseball, position_bias=True)
    worth = np.exp(res.params)
    assert sorted((worth / worth.sum()).round(3)) == [0.044, 0.088, 0.137, 0.157, 0.164, 0.190, 0.220]
    assert round(res.diagnostics.order_effect, 4) == 0.3023
    assert "adds 0.302 to the log-odds" in " ".join(str(res.summary()).split())
    # Sandwich errors of the same generalised linear model in statsmodels.
    votes = [
        [wins, *((team == row.home) - (team == row.away) for team in TEAMS[:-1]), 1]
        for row in baseball.itertuples()
        for wins, number in ((1, row.home_wins), (0, row.away_wins))
        for _ in range(number)
    ]
    y, x = np.split(np.array(votes, dtype=float), [1], axis=1)
    glm = sm.GLM(y, x, family=sm.families.Binomial()).fit(cov_type="HC0")
    np.testing.assert_allclose(against(res, "Baltimore")[TEAMS[:-1]], glm.params[:-1], atol=1e-8)
    np.testing.assert_allclose(res.diagnostics.order_effect_error, glm.bse[-1], rtol=1e-6)
    boston = res.t_test("Boston - Baltimore")
    np.testing.assert_allclose(boston.sd[0], glm.bse[TEAMS.index("Boston")], rtol=1e-6)


def test_citations():
    # Stigler (1994), citations between statistics journals; the summary of BTm in the package's vignette.
    table = pd.DataFrame(
        [
            ("Biometrika", "Comm Statist", 730, 33),
            ("Biometrika", "JASA", 498, 320),
            ("Biometrika", "JRSS-B", 221, 284),
            ("Comm Statist", "JASA", 68, 813),
            ("Comm Statist", "JRSS-B", 17, 276),
            ("JASA", "JRSS-B", 142, 325),
        ],
        columns=["journal1", "journal2", "win1", "win2"],
    )
    res = likelihood("win1 + win2 ~ 1 | journal1 + journal2", table, position_bias=False)
    found = against(res, "Biometrika").round(5)
    assert found.to_dict() == {"Comm Statist": -2.94907, "JASA": -0.47957, "JRSS-B": 0.26895}


def test_flutes_of_sound_fields(ignore_warnings):
    # Kousgaard (1984), Scand. J. Statist. 11, table 3, in the help page of sound.fields: Davidson's model of ties, with
    # which ties as half a win agree "after re-scaling quite closely".
    fields = ["000", "001", "010", "011", "100", "101", "110", "111"]
    pairs = [(a, b) for a in fields[::-1] for b in fields[::-1] if a > b]
    wins = [1, 0, 0, 2, 3, 5, 5, 3, 1, 2, 2, 4, 3, 3, 2, 3, 3, 3, 1, 1, 5, 4, 2, 4, 1, 5, 4, 2]
    ties = [1, 1, 1, 2, 1, 0, 0, 0, 2, 1, 1, 1, 1, 0, 0, 0, 2, 1, 0, 1, 0, 0, 0, 1, 2, 0, 1, 2]
    losses = [3, 4, 4, 1, 1, 0, 0, 2, 2, 2, 2, 0, 1, 2, 3, 2, 0, 1, 4, 3, 0, 1, 3, 0, 2, 0, 0, 1]
    table = pd.DataFrame(pairs, columns=["field1", "field2"]).assign(win1=wins, win2=losses, tie=ties)
    res = likelihood("win1 + win2 + tie ~ 1 | field1 + field2", table, position_bias=False)
    published = [-0.581, -1.039, 0.347, 0.205, 0.276, 0.347, 0.311, 0.135]
    assert np.corrcoef(res.params[fields], published)[0, 1] > 0.995


# --- other data sets ---


def test_chocolate_puddings():
    # Davidson (1970), J. Am. Statist. Assoc. 65, example 2, as in R's PlackettLuce: worths of his model of ties, which
    # are close to scores with ties as half a win after scaling.
    rows = [
        (1, 2, 19, 22, 16), (1, 3, 16, 19, 12), (2, 3, 19, 19, 10), (1, 4, 18, 23, 13), (2, 4, 23, 19, 9),
        (3, 4, 19, 20, 15), (1, 5, 13, 19, 18), (2, 5, 16, 20, 12), (3, 5, 16, 15, 17), (4, 5, 17, 14, 16),
        (1, 6, 18, 21, 12), (2, 6, 22, 20, 12), (3, 6, 13, 18, 10), (4, 6, 14, 19, 18), (5, 6, 11, 21, 12),
    ]  # fmt: skip
    table = pd.DataFrame(rows, columns=["i", "j", "wins_i", "wins_j", "ties"]).astype({"i": str, "j": str})
    res = likelihood("wins_i + wins_j + ties ~ 1 | i + j", table, position_bias=False)
    worths = pd.Series([0.1388005, 0.1729985, 0.1617420, 0.1653930, 0.1586805, 0.2023855], list("123456"))
    assert np.corrcoef(res.params, np.log(worths))[0, 1] > 0.999
    assert res.params.rank().equals(worths.rank().rename("params"))


def test_the_worked_example_of_wikipedia(ignore_warnings):
    # "Bradley-Terry model", section on the solution procedure; also tests/test_bradley_terry.py of lmarena/arena-rank.
    rows = [("A", "B", 2, 3), ("A", "D", 1, 4), ("B", "C", 5, 3), ("C", "D", 1, 3)]
    table = pd.DataFrame(rows, columns=["one", "two", "one_wins", "two_wins"])
    res = likelihood("one_wins + two_wins ~ 1 | one + two", table, position_bias=False)
    assert np.exp(res.params).round(3).to_dict() == {"A": 0.640, "B": 1.043, "C": 0.660, "D": 2.270}


# --- test suites of peers ---


@pytest.mark.parametrize(
    ("winners", "expected"),
    [
        ([(0, 1), (1, 2), (2, 0)], [0.0, 0.0, 0.0]),
        ([(0, 1), (0, 1), (1, 2), (2, 0)], [0.419617624, -0.419617624, 0.0]),
    ],
)
def test_cases_of_choix(winners, expected, ignore_warnings):
    # tests/data/testcase-pairwise-1.json and -2.json of lucasmaystre/choix (MIT): winner before loser.
    table = pd.DataFrame(winners, columns=["winner", "loser"])
    np.testing.assert_allclose(likelihood("~ 1 | winner + loser", table).params, expected, atol=1e-8)


EVALICA = {
    # simple.csv and simple-golden.csv of dustalov/evalica (Apache 2.0).
    "simple": (
        "01= 02> 02= 04= 10< 12= 12= 13= 24= 30< 31< 32< 34= 34= 40< 43<",
        {"4": 0.34947527489923, "3": 0.33688868041573855, "2": 0.13168568070110523, "1": 0.1311506914535368,
         "0": 0.050799672530389396},
    ),
    # food.csv and food-golden.csv: burger, pasta (A), pizza (I), sushi, tacos.
    "food": (
        "IS< BA> TI< ST> BI< AS> TB< IA= SB> AT< BS> TI< SA= BT< IB> AT> BS> TA< IT> SB< AI> BS> TA< IS< SB> AT> TI< "
        "BA> ST< IB>",
        {"T": 0.43428982771223773, "S": 0.19060028489839073, "B": 0.14797665121689418, "A": 0.1281534106031957,
         "I": 0.09897982556928168},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EVALICA)
def test_golden_files_of_evalica(name, ignore_warnings):
    votes, golden = EVALICA[name]
    rows = [(a, b, {"<": "left", ">": "right", "=": "tie"}[said]) for a, b, said in votes.split()]
    res = likelihood(
        "winner ~ 1 | left_item + right_item", pd.DataFrame(rows, columns=["left_item", "right_item", "winner"])
    )
    worth = np.exp(res.params)
    np.testing.assert_allclose((worth / worth.sum())[list(golden)], list(golden.values()), rtol=2e-4)


@pytest.mark.parametrize(("n", "c", "k"), [(5, 2, 1), (5, 2, 2), (10, 3, 5), (200, 13, 100), (4, 4, 4), (4, 0, 3)])
def test_pass_at_k(n, c, k):
    # Chen et al. (2021), arXiv 2107.03374, equation 1; also the estimator of scorio's pass@k.
    runs = pd.DataFrame({"task": "t", "model": "m", "solved": [1] * c + [0] * (n - c)})
    expected = 1 - math.comb(n - c, k) / math.comb(n, k)
    found = dr.data.pass_at_k(runs, k, prompt="task", model="model", score="solved")["solved"].item()
    assert found == pytest.approx(expected, abs=1e-12)
